//! The text of a script: from a file, and split into its statements.

use connect::xml_tree::Element;
use datafusion::sql::sqlparser::dialect::DatabricksDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::{Error, first_word, wrong};
use crate::statement::{span_of_token, tokens};

/// Statements of a script.
const STATEMENTS_MAX: usize = 1000;

/// A script as a file has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Script {
    pub name: String,
    /// Its statements, on the lines where they are in the file.
    pub text: String,
    /// When it runs; `None`: on demand.
    pub cron: Option<String>,
}

impl Script {
    /// A file of statements, or one with `<Analytics>`.
    ///
    /// # Errors
    /// It begins as XML and is not of this form, in words for its author.
    pub fn read(name: &str, content: &str) -> Result<Script, String> {
        let begin = content.trim_start_matches('\u{feff}');
        if begin.trim_start().starts_with('<') {
            return of_xml(name, begin);
        }
        Ok(Script {
            name: name.to_owned(),
            text: begin.to_owned(),
            cron: None,
        })
    }
}

/// `<Analytics><Name/><Script/><CronExpression/></Analytics>`.
fn of_xml(file: &str, xml: &str) -> Result<Script, String> {
    let root = Element::read(xml)?;
    if root.name != "analytics" {
        return Err(format!(
            "the root element is '{}', not 'Analytics'",
            root.name
        ));
    }
    let script = root.child("script");
    let script = script.ok_or("there is no element 'Script' in 'Analytics'")?;
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    Ok(Script {
        name: some(root.text_of("name")).unwrap_or_else(|| file.to_owned()),
        // Errors name the line of the file.
        text: format!("{}{}", "\n".repeat(script.line - 1), script.text),
        cron: some(root.text_of("cronexpression")),
    })
}

/// One statement.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    /// It alone at the place where it is in the script.
    pub text: String,
    /// Without space and comments.
    pub tokens: Vec<TokenWithSpan>,
}

/// The statements between semicolons. `"text"` is text, and what is in it or in a comment ends none.
pub(crate) fn pieces(script: &str) -> Result<Vec<Piece>, (Error, String)> {
    let all = tokens(script, &DatabricksDialect {}).map_err(|error| (error, script.to_owned()))?;
    let mut pieces = Vec::new();
    for part in all.split(|token| token.token == Token::SemiColon) {
        let is_word =
            |token: &&TokenWithSpan| !matches!(token.token, Token::Whitespace(_) | Token::EOF);
        let words: Vec<TokenWithSpan> = part.iter().filter(is_word).cloned().collect();
        let (Some(first), Some(last)) = (words.first(), words.last()) else {
            continue;
        };
        let start = span_of_token(script, first).start as usize;
        let end = span_of_token(script, last).end as usize;
        let before = script[..start].chars();
        let mut text: String = before.map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        text.push_str(&script[start..end]);
        pieces.push(Piece {
            text,
            tokens: words,
        });
        if pieces.len() > STATEMENTS_MAX {
            let message = format!("the script has more than {STATEMENTS_MAX} statements");
            return Err((wrong(message, first_word(script), None), script.to_owned()));
        }
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_read_from_xml() {
        let xml = "<?xml version=\"1.0\"?>\n<!-- <Script>no</Script> -->\n<Analytics>\n <Name>usage</Name>\n \
                   <Script>\nselect 'a;b' &gt; \"c\" &#38; x;\n<![CDATA[select 1 < 2]]></Script>\n \
                   <CronExpression>0 0/3 * * * ?</CronExpression></Analytics>";
        let script = Script::read("file", xml).expect("a script");
        assert_eq!(
            (script.name.as_str(), script.cron.as_deref()),
            ("usage", Some("0 0/3 * * * ?"))
        );
        let found = pieces(&script.text).expect("statements");
        let texts: Vec<&str> = found.iter().map(|piece| piece.text.trim_start()).collect();
        assert_eq!(texts, ["select 'a;b' > \"c\" & x", "select 1 < 2"]);
        // Lines are those of the file.
        assert_eq!(found[0].tokens[0].span.start.line, 6);
        let plain = Script::read("file", "select 1").expect("a script");
        assert_eq!((plain.name.as_str(), plain.cron), ("file", None));
        for wrong in [
            "<Analytics><Name>a</Name></Analytics>",
            "<Other><Script>select 1</Script></Other>",
            "<Analytics><Script>select 1</Name></Analytics>",
            "<Analytics><Script>a < b</Script></Analytics>",
        ] {
            assert!(Script::read("file", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn statements_are_between_semicolons() {
        let texts = |text: &str| -> Vec<String> {
            let found = pieces(text).expect("statements");
            found
                .iter()
                .map(|piece| piece.text.trim().to_owned())
                .collect()
        };
        assert!(texts(" ;\n; -- nothing;\n/* ; */").is_empty());
        assert_eq!(
            texts("select \"a;b\" ; -- x;\nselect ';' /* ; */ from t;"),
            ["select \"a;b\"", "select ';' /* ; */ from t"]
        );
        assert!(pieces("select 'open").is_err());
    }
}
