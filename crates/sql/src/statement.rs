//! The text of a statement: parsed within bounds, and only if it reads.

use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::Statement as Ast;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};
use lang::span::Span;

use crate::bounds::{DEPTH_MAX, TEXT_MAX, check_tables, check_tokens};
use crate::error::{Error, Known, first_word, offset, span_of, translated, wrong};
use crate::names::Names;

/// Instead of DataFusion's answer, which lists its own tables as well.
const SHOW_TABLES: &str = "select table_name as name from information_schema.tables \
                           where table_schema = 'public' order by 1";

/// One statement that reads.
pub(crate) fn parsed(sql: &str, names: &Names) -> Result<Statement, Error> {
    let tokens = tokens(sql)?;
    check_tokens(sql, &tokens)?;
    let statement = match is_show_tables(&tokens) {
        true => one(SHOW_TABLES)?,
        false => one(sql)?,
    };
    let mut inner = &statement;
    while let Statement::Explain(explain) = inner {
        inner = &explain.statement;
    }
    match inner {
        Statement::Statement(ast) if reads(ast) => check_tables(sql, ast)?,
        _ => {
            return Err(wrong(
                "only statements that read are answered here",
                first_word(sql),
                Some("select, explain, show tables and describe; rows are written by apps".into()),
            ));
        }
    }
    let mut statement = statement;
    let mut inner = &mut statement;
    while let Statement::Explain(explain) = inner {
        inner = &mut explain.statement;
    }
    if let Statement::Statement(ast) = inner {
        names.put_into(ast);
    }
    Ok(statement)
}

fn reads(ast: &Ast) -> bool {
    matches!(
        ast,
        Ast::Query(_)
            | Ast::ShowTables { .. }
            | Ast::ShowColumns { .. }
            | Ast::ShowFunctions { .. }
            | Ast::ShowVariable { .. }
            | Ast::ExplainTable { .. }
            | Ast::Explain { .. }
    )
}

fn one(sql: &str) -> Result<Statement, Error> {
    let parser = DFParserBuilder::new(sql).with_recursion_limit(DEPTH_MAX);
    let statements = parser
        .build()
        .and_then(|mut parser| parser.parse_statements());
    let mut statements = statements.map_err(|error| translated(&error, sql, &Known::default()))?;
    match (statements.pop_front(), statements.is_empty()) {
        (Some(statement), true) => Ok(statement),
        (Some(_), false) => Err(wrong(
            "there is more than one statement",
            first_word(sql),
            None,
        )),
        (None, _) => Err(wrong("there is no statement", first_word(sql), None)),
    }
}

fn is_show_tables(tokens: &[TokenWithSpan]) -> bool {
    let words = tokens.iter().filter_map(|token| match &token.token {
        Token::Whitespace(_) | Token::SemiColon => None,
        Token::Word(word) => Some(word.value.to_lowercase()),
        _ => Some(String::new()),
    });
    words.eq(["show", "tables"].map(str::to_owned))
}

fn tokens(sql: &str) -> Result<Vec<TokenWithSpan>, Error> {
    if sql.len() > TEXT_MAX {
        let message = format!("the text has more than {} MB", TEXT_MAX >> 20);
        return Err(wrong(message, Span::new(0, 0), None));
    }
    let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location();
    tokens.map_err(|error| {
        let at = offset(sql, error.location.line, error.location.column);
        let end = sql[at..].chars().next().map_or(0, char::len_utf8);
        let mut message = error.message;
        if let Some(first) = message.get_mut(..1) {
            first.make_ascii_lowercase();
        }
        wrong(message, span_of(at, at + end), None)
    })
}

pub(crate) fn span_of_token(sql: &str, token: &TokenWithSpan) -> Span {
    let (start, end) = (token.span.start, token.span.end);
    span_of(
        offset(sql, start.line, start.column),
        offset(sql, end.line, end.column),
    )
}
