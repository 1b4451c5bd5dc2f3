//! The text of a statement: parsed within bounds, and only if it reads.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, SelectItem, SetExpr, Statement as Ast, TableObject, visit_relations,
};
use datafusion::sql::sqlparser::dialect::{DatabricksDialect, Dialect, GenericDialect};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};
use lang::span::Span;

use crate::bounds::{DEPTH_MAX, TEXT_MAX, check_tables, check_tokens};
use crate::error::{Error, Known, first_word, offset, span_of, translated, wrong};
use crate::names::Names;

/// Instead of DataFusion's answer, which lists its own tables as well.
const SHOW_TABLES: &str = "select table_name as name from information_schema.tables \
                           where table_schema = 'public' order by 1";

const GENERIC: GenericDialect = GenericDialect {};

/// What a statement of a script does with the rows that it selects.
pub(crate) enum Effect {
    Answer,
    /// They go into this table.
    Insert {
        table: String,
        is_overwrite: bool,
    },
}

/// One statement of a script, in Spark's dialect: what it selects, and what becomes of that.
pub(crate) fn of_script(
    sql: &str,
    tokens: &[TokenWithSpan],
    names: &Names,
) -> Result<(Statement, Effect), Error> {
    check_tokens(sql, tokens)?;
    let Statement::Statement(ast) = one(sql, &DatabricksDialect {})? else {
        return Err(not_of_script(sql));
    };
    check_tables(sql, &ast)?;
    let (mut ast, effect) = match *ast {
        Ast::Insert(insert) => {
            let plain = insert.columns.is_empty() && insert.partitioned.is_none();
            let name = match &insert.table {
                TableObject::TableName(name) if plain && name.0.len() == 1 => name.0[0].as_ident(),
                _ => None,
            };
            let (Some(name), Some(source)) = (name, insert.source) else {
                return Err(wrong(
                    "an insert of a script names a table and selects rows for all of its columns",
                    first_word(sql),
                    Some("INSERT INTO TABLE name SELECT …".to_owned()),
                ));
            };
            let effect = Effect::Insert {
                table: name.value.clone(),
                is_overwrite: insert.overwrite,
            };
            let mut source = source;
            name_columns(&mut source.body);
            (Ast::Query(source), effect)
        }
        Ast::Query(query) => (Ast::Query(query), Effect::Answer),
        _ => return Err(not_of_script(sql)),
    };
    names.put_into(&mut ast);
    Ok((Statement::Statement(Box::new(ast)), effect))
}

/// Names of the tables that a statement reads, in lower case; those of its `with` are among them.
pub(crate) fn tables_read(statement: &Statement) -> BTreeSet<String> {
    let mut read = BTreeSet::new();
    if let Statement::Statement(ast) = statement {
        let walked = visit_relations(ast, |name| {
            let last = name.0.last().and_then(|part| part.as_ident());
            read.extend(last.map(|name| name.value.to_lowercase()));
            ControlFlow::<()>::Continue(())
        });
        debug_assert!(walked.is_continue(), "nothing in it breaks off");
    }
    read
}

/// Columns that have no name get one: they go by their places, and two may be the same.
fn name_columns(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            for (at, item) in select.projection.iter_mut().enumerate() {
                if let SelectItem::UnnamedExpr(expr) = item
                    && !matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
                {
                    *item = SelectItem::ExprWithAlias {
                        expr: expr.clone(),
                        alias: Ident::new(format!("_c{at}")),
                    };
                }
            }
        }
        SetExpr::SetOperation { left, right, .. } => {
            name_columns(left);
            name_columns(right);
        }
        SetExpr::Query(query) => name_columns(&mut query.body),
        _ => {}
    }
}

fn not_of_script(sql: &str) -> Error {
    wrong(
        "this is no statement of a script",
        first_word(sql),
        Some(
            "CREATE TEMPORARY TABLE, INSERT INTO, INSERT OVERWRITE, SELECT, INCREMENTAL_TABLE_COMMIT, _SHOW and _RESET"
                .to_owned(),
        ),
    )
}

/// One statement that reads.
pub(crate) fn parsed(sql: &str, names: &Names) -> Result<Statement, Error> {
    let mut statement = reading(sql, &GENERIC)?;
    if let Statement::Statement(ast) = explained(&mut statement) {
        names.put_into(ast);
    }
    Ok(statement)
}

/// What is explained, or the statement itself.
pub(crate) fn explained(statement: &mut Statement) -> &mut Statement {
    match statement {
        Statement::Explain(explain) => explained(&mut explain.statement),
        statement => statement,
    }
}

/// One statement that reads, as it is written.
pub(crate) fn reading(sql: &str, dialect: &dyn Dialect) -> Result<Statement, Error> {
    let tokens = tokens(sql, dialect)?;
    check_tokens(sql, &tokens)?;
    let statement = match is_show_tables(&tokens) {
        true => one(SHOW_TABLES, dialect)?,
        false => one(sql, dialect)?,
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

fn one(sql: &str, dialect: &dyn Dialect) -> Result<Statement, Error> {
    let parser = DFParserBuilder::new(sql)
        .with_dialect(dialect)
        .with_recursion_limit(DEPTH_MAX);
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

pub(crate) fn tokens(sql: &str, dialect: &dyn Dialect) -> Result<Vec<TokenWithSpan>, Error> {
    if sql.len() > TEXT_MAX {
        let message = format!("the text has more than {} MB", TEXT_MAX >> 20);
        return Err(wrong(message, Span::new(0, 0), None));
    }
    let tokens = Tokenizer::new(dialect, sql).tokenize_with_location();
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
