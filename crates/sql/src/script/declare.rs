//! Statements that are a script's own: `CREATE TEMPORARY TABLE … USING … OPTIONS (…)` and
//! `INCREMENTAL_TABLE_COMMIT`, `_SHOW`, `_RESET`.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use event::Type;
use lang::span::Span;
use lang::suggest::nearest;
use store::indexing::Flags;

use super::incremental::{Incremental, Unit};
use super::text::Piece;
use crate::error::{Error, first_word, wrong};
use crate::statement::span_of_token;

/// A statement of a script.
#[derive(Debug)]
pub(crate) enum Own {
    Create(Create),
    Incremental { action: Action, ids: Vec<String> },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    Commit,
    Show,
    Reset,
}

/// What the rest of the script knows by its own name.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Create {
    pub name: String,
    pub what: What,
    /// Of the name of the table or stream.
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum What {
    Table(TableOptions),
    /// Rows become events of it.
    Stream {
        stream: String,
        columns: Vec<Column>,
    },
}

/// A table of the store.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct TableOptions {
    pub table: String,
    /// `None`: as the table has them.
    pub columns: Option<Vec<Column>>,
    pub keys: Vec<String>,
    pub incremental: Option<Incremental>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Column {
    pub name: String,
    pub ty: Type,
    /// What is done with it when the table is searched.
    pub flags: Flags,
}

const TABLE_OPTIONS: [&str; 9] = [
    "tableName",
    "streamName",
    "schema",
    "primaryKeys",
    "recordStore",
    "mergeSchema",
    "globalTenantAccess",
    "incrementalParams",
    "tenantId",
];

const STREAM_OPTIONS: [&str; 4] = ["streamName", "version", "payload", "globalTenantAccess"];

const ANALYTICS: [&str; 2] = [
    "CarbonAnalytics",
    "org.wso2.carbon.analytics.spark.core.sources.AnalyticsRelationProvider",
];
const EVENTS: [&str; 2] = [
    "CarbonEvents",
    "org.wso2.carbon.analytics.spark.event.EventStreamProvider",
];
const OTHERS: [&str; 3] = [
    "CarbonJDBC",
    "CompressedEventAnalytics",
    "org.wso2.carbon.analytics.spark.core.jdbc.CarbonJDBCRelation",
];

/// What the statement is, if it is a script's own.
pub(crate) fn own(piece: &Piece) -> Option<Result<Own, Error>> {
    let mut words = Words { piece, at: 0 };
    let first = words.word()?.to_uppercase();
    let action = match first.as_str() {
        "INCREMENTAL_TABLE_COMMIT" => Action::Commit,
        "INCREMENTAL_TABLE_SHOW" => Action::Show,
        "INCREMENTAL_TABLE_RESET" => Action::Reset,
        "CREATE" => return Some(words.create().map(Own::Create)),
        _ => return None,
    };
    Some(words.ids().map(|ids| Own::Incremental { action, ids }))
}

/// Goes through the tokens of a statement.
struct Words<'a> {
    piece: &'a Piece,
    at: usize,
}

impl Words<'_> {
    fn peek(&self) -> Option<&Token> {
        self.piece.tokens.get(self.at).map(|token| &token.token)
    }

    /// Of the next token, or the end.
    fn span(&self) -> Span {
        self.span_at(self.at)
    }

    fn span_at(&self, at: usize) -> Span {
        let of = |token: &TokenWithSpan| span_of_token(&self.piece.text, token);
        match self.piece.tokens.get(at) {
            Some(token) => of(token),
            None => {
                let end = self.piece.text.len() as u32;
                Span::new(end, end)
            }
        }
    }

    fn wrong<T>(&self, message: impl Into<String>, help: Option<&str>) -> Result<T, Error> {
        Err(wrong(message, self.span(), help.map(str::to_owned)))
    }

    fn word(&mut self) -> Option<String> {
        let Some(Token::Word(word)) = self.peek() else {
            return None;
        };
        let word = word.value.clone();
        self.at += 1;
        Some(word)
    }

    fn keyword(&mut self, keyword: &str) -> Result<(), Error> {
        match self.peek() {
            Some(Token::Word(word)) if word.value.eq_ignore_ascii_case(keyword) => {
                self.at += 1;
                Ok(())
            }
            _ => self.wrong(format!("{keyword} is expected here"), None),
        }
    }

    fn token(&mut self, token: &Token) -> Result<(), Error> {
        match self.peek() == Some(token) {
            true => {
                self.at += 1;
                Ok(())
            }
            false => self.wrong(format!("'{token}' is expected here"), None),
        }
    }

    fn end(&self) -> Result<(), Error> {
        match self.peek() {
            None => Ok(()),
            Some(_) => self.wrong("the statement should end here", None),
        }
    }

    fn ids(&mut self) -> Result<Vec<String>, Error> {
        let mut ids = Vec::new();
        loop {
            match self.word() {
                Some(id) => ids.push(id),
                None => return self.wrong("the id of an incremental table is expected here", None),
            }
            if self.peek().is_none() {
                return Ok(ids);
            }
            self.token(&Token::Comma)?;
        }
    }

    fn create(&mut self) -> Result<Create, Error> {
        if self.keyword("TEMPORARY").is_err() {
            return self.wrong(
                "only temporary tables are created by scripts",
                Some("CREATE TEMPORARY TABLE name USING CarbonAnalytics OPTIONS (tableName \"…\", schema \"…\")"),
            );
        }
        self.keyword("TABLE")?;
        if matches!(self.peek(), Some(Token::Word(word)) if word.value.eq_ignore_ascii_case("IF")) {
            return self.wrong(
                "'if not exists' is not for temporary tables",
                Some("leave it out: the table in the store is made where it is missing"),
            );
        }
        let Some(name) = self.word() else {
            return self.wrong("the name of a table is expected here", None);
        };
        self.keyword("USING")?;
        let provider_at = self.at;
        let provider = self.provider()?;
        self.keyword("OPTIONS")?;
        self.token(&Token::LParen)?;
        let options = self.options()?;
        self.end()?;
        let is = |known: &[&str]| {
            known
                .iter()
                .any(|name| name.eq_ignore_ascii_case(&provider))
        };
        if is(&EVENTS) {
            return events(name, &options, first_word(&self.piece.text));
        }
        if is(&OTHERS) {
            return Err(wrong(
                format!("provider '{provider}' is not supported"),
                self.span_at(provider_at),
                Some(
                    "an app reads and writes databases: @store(type='rdbms'), @source(type='cdc')"
                        .to_owned(),
                ),
            ));
        }
        if !is(&ANALYTICS) {
            let near = nearest(&provider, ["CarbonAnalytics", "CarbonEvents", "CarbonJDBC"]);
            return Err(wrong(
                format!("there is no provider '{provider}'"),
                self.span_at(provider_at),
                Some(match near {
                    Some(near) => format!("did you mean '{near}'?"),
                    None => "tables of the store are 'CarbonAnalytics'".to_owned(),
                }),
            ));
        }
        analytics(name, &options, first_word(&self.piece.text))
    }

    /// A short name, or that of a class.
    fn provider(&mut self) -> Result<String, Error> {
        let mut name = match self.peek() {
            Some(Token::DoubleQuotedString(text) | Token::SingleQuotedString(text)) => {
                let text = text.clone();
                self.at += 1;
                return Ok(text);
            }
            _ => self.word().unwrap_or_default(),
        };
        if name.is_empty() {
            return self.wrong(
                "the name of a provider is expected here",
                Some("'CarbonAnalytics'"),
            );
        }
        while self.peek() == Some(&Token::Period) {
            self.at += 1;
            let Some(part) = self.word() else {
                return self.wrong("a name is expected here", None);
            };
            name.push('.');
            name.push_str(&part);
        }
        Ok(name)
    }

    fn options(&mut self) -> Result<Vec<Setting>, Error> {
        let mut options: Vec<Setting> = Vec::new();
        while self.peek() != Some(&Token::RParen) {
            let span = self.span();
            let Some(name) = self.word() else {
                return self.wrong("the name of an option is expected here", None);
            };
            let value_span = self.span();
            let value = match self.peek() {
                Some(Token::DoubleQuotedString(text) | Token::SingleQuotedString(text)) => {
                    text.clone()
                }
                _ => return self.wrong("a value in quotes is expected here", None),
            };
            self.at += 1;
            if options
                .iter()
                .any(|option| option.name.eq_ignore_ascii_case(&name))
            {
                return Err(wrong(format!("option '{name}' is there twice"), span, None));
            }
            options.push(Setting {
                name,
                value,
                span,
                value_span,
            });
            if self.peek() == Some(&Token::Comma) {
                self.at += 1;
            } else {
                break;
            }
        }
        self.token(&Token::RParen)?;
        Ok(options)
    }
}

/// `name "value"`.
struct Setting {
    name: String,
    value: String,
    span: Span,
    value_span: Span,
}

/// `CarbonAnalytics`.
fn analytics(name: String, options: &[Setting], span: Span) -> Result<Create, Error> {
    check_names(options, &TABLE_OPTIONS)?;
    let table = filled(options, "tableName").or_else(|| filled(options, "streamName"));
    let Some(table) = table else {
        let help = "add tableName \"…\", or streamName \"…\"".to_owned();
        return Err(wrong("no table is named", span, Some(help)));
    };
    let columns = filled(options, "schema");
    let columns = columns.map(|schema| columns_of(&schema.value, schema.value_span));
    let keys = option(options, "primaryKeys").map_or("", |keys| keys.value.as_str());
    let keys = keys.split(',').map(|key| key.trim().to_owned());
    let incremental = option(options, "incrementalParams").map(|params| {
        incremental(&params.value).map_err(|message| wrong(message, params.value_span, None))
    });
    Ok(Create {
        name,
        what: What::Table(TableOptions {
            table: table.value.trim().to_owned(),
            columns: columns.transpose()?,
            keys: keys.filter(|key| !key.is_empty()).collect(),
            incremental: incremental.transpose()?,
        }),
        span: table.value_span,
    })
}

/// `CarbonEvents`. The version of a stream is taken and has no effect: the streams of apps have none.
fn events(name: String, options: &[Setting], span: Span) -> Result<Create, Error> {
    check_names(options, &STREAM_OPTIONS)?;
    let Some(stream) = filled(options, "streamName") else {
        let help = "add streamName \"…\"".to_owned();
        return Err(wrong("no stream is named", span, Some(help)));
    };
    let Some(payload) = filled(options, "payload") else {
        let help = "name the attributes of the events: payload \"house_id INT, power DOUBLE\"";
        return Err(wrong("no payload is named", span, Some(help.to_owned())));
    };
    Ok(Create {
        name,
        what: What::Stream {
            stream: stream.value.trim().to_owned(),
            columns: columns_of(&payload.value, payload.value_span)?,
        },
        span: stream.value_span,
    })
}

fn option<'a>(options: &'a [Setting], name: &str) -> Option<&'a Setting> {
    let mut all = options.iter();
    all.find(|option| option.name.eq_ignore_ascii_case(name))
}

/// An option that is there and not blank.
fn filled<'a>(options: &'a [Setting], name: &str) -> Option<&'a Setting> {
    option(options, name).filter(|option| !option.value.trim().is_empty())
}

fn check_names(options: &[Setting], known: &[&str]) -> Result<(), Error> {
    let is_known = |name: &str| known.iter().any(|known| known.eq_ignore_ascii_case(name));
    let Some(option) = options.iter().find(|option| !is_known(&option.name)) else {
        return Ok(());
    };
    let help = match nearest(&option.name, known.iter().copied()) {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("there is {}", known.join(", ")),
    };
    let message = format!("Unknown options : {}", option.name);
    Err(wrong(message, option.span, Some(help)))
}

/// `name TYPE [flag [flag]], …`.
fn columns_of(schema: &str, span: Span) -> Result<Vec<Column>, Error> {
    let mut columns: Vec<Column> = Vec::new();
    for part in schema.split(',') {
        let mut words = part.split_whitespace();
        let (Some(name), Some(ty)) = (words.next(), words.next()) else {
            let message = format!("'{}' in the schema is not a name and a type", part.trim());
            return Err(wrong(message, span, None));
        };
        let (ty, is_facet) = match ty.to_uppercase().as_str() {
            "INT" | "INTEGER" => (Type::Int, false),
            "LONG" | "BIGINT" => (Type::Long, false),
            "FLOAT" => (Type::Float, false),
            "DOUBLE" => (Type::Double, false),
            "BOOLEAN" => (Type::Bool, false),
            "STRING" => (Type::String, false),
            "BINARY" => (Type::Object, false),
            "FACET" => (Type::String, true),
            _ => {
                let message = format!("column '{name}' has the type '{ty}', which is not known");
                let help = "INT, LONG, FLOAT, DOUBLE, BOOLEAN, STRING, BINARY, FACET";
                return Err(wrong(message, span, Some(help.to_owned())));
            }
        };
        let words: Vec<String> = words.map(str::to_lowercase).collect();
        let flags: Vec<&str> = words.iter().map(String::as_str).collect();
        let is_number = matches!(ty, Type::Int | Type::Long | Type::Float | Type::Double);
        match flags.as_slice() {
            [] | ["-i"] => {}
            ["-f"] | ["-f", "-i"] if !is_facet => {}
            ["-sp"] if is_number => {}
            ["-f", "-sp"] if is_number => {}
            ["-sp"] | ["-f", "-sp"] => {
                let message =
                    format!("column '{name}' is no number, and only these are score parameters");
                return Err(wrong(message, span, None));
            }
            other => {
                let message = format!(
                    "Invalid option for ColumnType: '{}' of column '{name}'",
                    other.join(" ")
                );
                let help = "'-i', '-sp', '-f', '-f -sp' or '-f -i'".to_owned();
                return Err(wrong(message, span, Some(help)));
            }
        }
        if columns
            .iter()
            .any(|other| other.name.eq_ignore_ascii_case(name))
        {
            return Err(wrong(format!("column '{name}' is there twice"), span, None));
        }
        if name.eq_ignore_ascii_case(store::definition::TIMESTAMP) && ty != Type::Long {
            let message = "'_timestamp' is the time of a row, and LONG";
            return Err(wrong(message, span, None));
        }
        columns.push(Column {
            name: name.to_owned(),
            ty,
            flags: Flags {
                is_indexed: flags.contains(&"-i"),
                is_facet: is_facet || flags.contains(&"-f"),
                is_score: flags.contains(&"-sp"),
            },
        });
    }
    Ok(columns)
}

/// `id[, UNIT[, buffer]]`.
fn incremental(params: &str) -> Result<Incremental, String> {
    let parts: Vec<&str> = params.split(',').map(str::trim).collect();
    let (id, unit, buffer) = match parts.as_slice() {
        [id] => (id, None, "1"),
        [id, unit] => (id, Some(unit), "1"),
        [id, unit, buffer] => (id, Some(unit), *buffer),
        _ => return Err("incrementalParams are an id, a unit and a number of units".to_owned()),
    };
    if id.is_empty() {
        return Err("incrementalParams name no id".to_owned());
    }
    let unit = unit.map(|unit| {
        Unit::of(unit).ok_or_else(|| {
            format!("there is no unit '{unit}': write YEAR, MONTH, DAY, HOUR, MINUTE or SECOND")
        })
    });
    let buffer = buffer.parse::<u32>();
    Ok(Incremental {
        id: (*id).to_owned(),
        unit: unit.transpose()?,
        buffer: buffer.map_err(|_| "the buffer of incrementalParams is no number".to_owned())?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::text::pieces;

    fn parsed(text: &str) -> Result<Own, String> {
        let pieces = pieces(text).map_err(|(error, _)| error.to_string())?;
        own(&pieces[0])
            .expect("a script's own")
            .map_err(|error| error.to_string())
    }

    #[test]
    fn tables_are_created_as_scripts_write_it() {
        let text = "create Temporary TABLE Usage using CarbonAnalytics options (TABLENAME \"ORG_X\", schema \"a INT,\n \
                    b STRING -i,c DOUBLE -f -sp, f FACET \", primaryKeys 'a, b', incrementalParams \"u, HOUR, 2\" ) ";
        let Ok(Own::Create(create)) = parsed(text) else {
            panic!("{:?}", parsed(text))
        };
        assert_eq!(create.name, "Usage");
        let What::Table(create) = create.what else {
            panic!("{create:?}")
        };
        assert_eq!(create.table, "ORG_X");
        let columns = create.columns.expect("a schema");
        let types: Vec<_> = columns.iter().map(|c| (c.name.as_str(), c.ty)).collect();
        let expect = [
            ("a", Type::Int),
            ("b", Type::String),
            ("c", Type::Double),
            ("f", Type::String),
        ];
        assert_eq!(types, expect);
        assert_eq!(create.keys, ["a", "b"]);
        let incremental = create.incremental.expect("params");
        assert_eq!(
            (
                incremental.id.as_str(),
                incremental.unit,
                incremental.buffer
            ),
            ("u", Some(Unit::Hour), 2)
        );
    }

    #[test]
    fn streams_are_named_with_their_attributes() {
        let text = "CREATE TEMPORARY TABLE over USING org.wso2.carbon.analytics.spark.event.EventStreamProvider \
                    OPTIONS (streamName \"org.wso2.over\", version \"1.0.0\", payload \"meta_house INT, power FLOAT\")";
        let Ok(Own::Create(Create {
            what: What::Stream { stream, columns },
            ..
        })) = parsed(text)
        else {
            panic!("{:?}", parsed(text))
        };
        assert_eq!(stream, "org.wso2.over");
        let columns: Vec<_> = columns.iter().map(|c| (c.name.as_str(), c.ty)).collect();
        assert_eq!(columns, [("meta_house", Type::Int), ("power", Type::Float)]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let using = |rest: &str| format!("CREATE TEMPORARY TABLE x USING {rest}");
        for (text, part) in [
            (
                using("CarbonAnalytics OPTIONS (tablename \"t\", shema \"a INT\")"),
                "Unknown options : shema",
            ),
            (
                using("CarbonAnalytics OPTIONS (schema \"a INT\")"),
                "no table",
            ),
            (
                using("CarbonAnalytics OPTIONS (tableName \"t\", schema \"a TEXT\")"),
                "'TEXT'",
            ),
            (
                using("CarbonAnalytics OPTIONS (tableName \"t\", schema \"a STRING -sp\")"),
                "score",
            ),
            (
                using("CarbonAnalytics OPTIONS (tableName \"t\", schema \"a INT -x\")"),
                "Invalid option for ColumnType",
            ),
            (
                using("CarbonAnalytics OPTIONS (tableName \"t\", schema \"a INT, A INT\")"),
                "twice",
            ),
            (using("CarbonAnalytics OPTIONS (tableName t)"), "in quotes"),
            (using("CarbonAnalytics OPTIONS (tableName \"t\""), "')'"),
            (using("CarbonAnalytic OPTIONS ()"), "no provider"),
            (
                using("CarbonJDBC OPTIONS (dataSource \"d\")"),
                "not supported",
            ),
            (
                using(
                    "org.wso2.carbon.analytics.spark.event.EventStreamProvider OPTIONS (streamName \"s\")",
                ),
                "no payload",
            ),
            (
                using("CarbonEvents OPTIONS (payload \"a INT\")"),
                "no stream",
            ),
            (
                using("CarbonEvents OPTIONS (streamName \"s\", tableName \"t\")"),
                "Unknown options : tableName",
            ),
            (
                "CREATE TEMPORARY TABLE IF NOT EXISTS x USING y OPTIONS ()".to_owned(),
                "if not exists",
            ),
            ("CREATE TABLE x (a INT)".to_owned(), "temporary"),
            ("INCREMENTAL_TABLE_COMMIT".to_owned(), "id"),
            ("INCREMENTAL_TABLE_SHOW a b".to_owned(), "','"),
        ] {
            let refused = parsed(&text).expect_err(&text);
            assert!(refused.contains(part), "{text}: {refused}");
        }
        assert!(matches!(
            parsed("incremental_table_reset a, b"),
            Ok(Own::Incremental { action: Action::Reset, ids }) if ids == ["a", "b"]
        ));
    }
}
