//! What clients write about the catalog, as DataFusion plans it.
//!
//! Only statements that read a table of `pg_catalog`, or call or cast by its names, are changed; what a user writes about
//! his tables stays as it is.

use std::ops::ControlFlow;

use datafusion::sql::parser::{DFParserBuilder, Statement as ParsedStatement};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Ident, JoinOperator, ObjectName, ObjectNamePart,
    Query, SelectItem, SetExpr, Statement, TableFactor, TableWithJoins, UnaryOperator, Value,
    Visit, VisitMut, Visitor, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;

use super::catalog::columns_of;
use super::functions::{NAME_OF_TABLE, NAME_OF_TYPE};
use crate::error::{Error, Known, translated};

const SCHEMA: &str = "pg_catalog";

/// Puts a statement as it is planned; false: it does not read the catalog.
///
/// # Errors
/// What it becomes cannot be parsed, which is a defect.
pub(super) fn put_into(statement: &mut Statement) -> Result<bool, Error> {
    let reads = Visit::visit(&*statement, &mut Reads).is_break();
    if reads
        && let Statement::Query(query) = statement
        && let Some(names) = names_of_nothing(query)
    {
        *statement = nothing(&names)?;
        return Ok(true);
    }
    let walked = VisitMut::visit(statement, &mut Rewrite);
    debug_assert!(walked.is_continue(), "nothing in it breaks off");
    Ok(reads)
}

/// Breaks off at a table of the catalog.
struct Reads;

impl Visitor for Reads {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        match table_of(relation) {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    }
}

/// The name of a table of the catalog.
fn table_of(name: &ObjectName) -> Option<String> {
    let mut parts = name.0.iter().rev().map(|part| part.as_ident());
    let table = parts.next()??.value.to_lowercase();
    let schema = parts
        .next()
        .flatten()
        .map(|schema| schema.value.to_lowercase());
    let is_ours = schema.is_none_or(|schema| schema == SCHEMA);
    (is_ours && columns_of(&table).is_some()).then_some(table)
}

/// The names of the columns of a query that gives no row, because it joins a table that is always empty.
fn names_of_nothing(query: &Query) -> Option<Vec<String>> {
    fn of(body: &SetExpr) -> Option<Vec<String>> {
        match body {
            SetExpr::Select(select) => {
                let aggregates = select.projection.iter().any(|item| matches!(
                    item,
                    SelectItem::UnnamedExpr(Expr::Function(call)) | SelectItem::ExprWithAlias { expr: Expr::Function(call), .. }
                        if call.name.to_string().eq_ignore_ascii_case("count")
                ));
                let is_empty = !aggregates && select.from.iter().any(is_empty);
                let names = select.projection.iter().map(name);
                is_empty.then(|| names.collect::<Option<Vec<String>>>())?
            }
            SetExpr::SetOperation { left, right, .. } => {
                of(right)?;
                of(left)
            }
            SetExpr::Query(query) => of(&query.body),
            _ => None,
        }
    }
    match query.with {
        None => of(&query.body),
        Some(_) => None,
    }
}

fn is_empty(from: &TableWithJoins) -> bool {
    let joined = from.joins.iter().filter(|join| {
        !matches!(
            join.join_operator,
            JoinOperator::Left(_)
                | JoinOperator::LeftOuter(_)
                | JoinOperator::Right(_)
                | JoinOperator::RightOuter(_)
                | JoinOperator::FullOuter(_)
                | JoinOperator::LeftAnti(_)
                | JoinOperator::Anti(_)
        )
    });
    let keeps_first = !from.joins.iter().any(|join| {
        matches!(
            join.join_operator,
            JoinOperator::Right(_) | JoinOperator::RightOuter(_) | JoinOperator::FullOuter(_)
        )
    });
    let first = keeps_first.then_some(&from.relation);
    let mut tables = first.into_iter().chain(joined.map(|join| &join.relation));
    tables.any(|factor| match factor {
        TableFactor::Table { name, .. } => {
            let table = table_of(name).and_then(|table| columns_of(&table));
            table.is_some_and(|(_, is_empty)| is_empty)
        }
        _ => false,
    })
}

/// The name of a column as PostgreSQL gives it.
fn name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
        SelectItem::UnnamedExpr(expr) => Some(match expr {
            Expr::Identifier(name) => name.value.clone(),
            Expr::CompoundIdentifier(names) => names.last()?.value.clone(),
            Expr::Function(call) => call.name.0.last()?.as_ident()?.value.clone(),
            _ => "?column?".to_owned(),
        }),
        _ => None,
    }
}

/// A statement that gives columns of these names, and no row.
fn nothing(names: &[String]) -> Result<Statement, Error> {
    let mut columns: Vec<String> = Vec::new();
    for (at, name) in names.iter().enumerate() {
        // Two columns of PostgreSQL's may have one name, two of DataFusion's may not.
        let number = match names[..at].contains(name) {
            true => format!(" {at}"),
            false => String::new(),
        };
        let name = name.replace('"', "\"\"");
        columns.push(format!("CAST(NULL AS VARCHAR) AS \"{name}{number}\""));
    }
    let columns = match columns.is_empty() {
        true => "NULL".to_owned(),
        false => columns.join(", "),
    };
    let text = format!("SELECT {columns} WHERE false");
    let parsed = DFParserBuilder::new(text.as_str())
        .with_dialect(&PostgreSqlDialect {})
        .build()
        .and_then(|mut parser| parser.parse_statement());
    match parsed.map_err(|error| translated(&error, &text, &Known::default()))? {
        ParsedStatement::Statement(statement) => Ok(*statement),
        _ => Err(Error::Failed(
            "internal error: a query is none; please report it".to_owned(),
        )),
    }
}

struct Rewrite;

impl VisitorMut for Rewrite {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<()> {
        if relation.0.len() == 1 && table_of(relation).is_some() {
            let schema = ObjectNamePart::Identifier(Ident::new(SCHEMA));
            relation.0.insert(0, schema);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Subquery(query) if names_of_nothing(query).is_some() => *expr = null(),
            Expr::Exists { subquery, negated } if names_of_nothing(subquery).is_some() => {
                *expr = Expr::value(Value::Boolean(*negated));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::BinaryOp { op, .. } => {
                if let BinaryOperator::PGCustomBinaryOperator(name) = op
                    && let Some(plain) = name.last().and_then(|sign| operator(sign))
                {
                    *op = plain;
                }
            }
            Expr::Collate { expr: inner, .. } => *expr = std::mem::replace(inner, null()),
            Expr::Function(call) => {
                let is_ours = call.name.0.len() == 2
                    && call.name.0[0]
                        .as_ident()
                        .is_some_and(|schema| schema.value.eq_ignore_ascii_case(SCHEMA));
                if is_ours {
                    call.name.0.remove(0);
                }
                if is_array_of_nothing(call) {
                    *expr = null();
                }
            }
            Expr::Cast {
                expr: inner,
                data_type,
                kind,
                ..
            } => {
                if let Some(cast) = cast(inner, data_type, kind) {
                    *expr = cast;
                }
            }
            Expr::AnyOp {
                left,
                compare_op: BinaryOperator::Eq,
                right,
                ..
            } => {
                if let Some(list) = list(right) {
                    *expr = Expr::InList {
                        expr: std::mem::replace(left, Box::new(null())),
                        list,
                        negated: false,
                    };
                }
            }
            Expr::UnaryOp {
                op: UnaryOperator::Plus,
                expr: inner,
            } => *expr = std::mem::replace(inner, null()),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn null() -> Expr {
    Expr::value(Value::Null)
}

fn operator(sign: &str) -> Option<BinaryOperator> {
    Some(match sign {
        "~" => BinaryOperator::PGRegexMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "~~" => BinaryOperator::PGLikeMatch,
        "!~~" => BinaryOperator::PGNotLikeMatch,
        "=" => BinaryOperator::Eq,
        "<>" => BinaryOperator::NotEq,
        "||" => BinaryOperator::StringConcat,
        "+" => BinaryOperator::Plus,
        _ => return None,
    })
}

/// `ARRAY(SELECT …)` over a table that is always empty.
fn is_array_of_nothing(call: &Function) -> bool {
    match &call.args {
        FunctionArguments::Subquery(query) => names_of_nothing(query).is_some(),
        _ => false,
    }
}

fn call(name: &str, argument: Expr) -> Expr {
    Expr::Function(Function {
        name: ObjectName(vec![ObjectNamePart::Identifier(Ident::new(name))]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))],
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// A cast to a type that only the catalog has.
fn cast(inner: &mut Expr, to: &DataType, kind: &CastKind) -> Option<Expr> {
    let name = match to {
        DataType::Custom(name, _) => name.0.last()?.as_ident()?.value.to_lowercase(),
        DataType::Regclass => "regclass".to_owned(),
        _ => return None,
    };
    let is_text =
        matches!(inner, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)));
    let mut taken = || std::mem::replace(inner, null());
    let varchar = |expr: Expr| Expr::Cast {
        kind: kind.clone(),
        expr: Box::new(expr),
        data_type: DataType::Varchar(None),
        array: false,
        format: None,
    };
    Some(match &*name {
        "regclass" if is_text => call("to_regclass", taken()),
        "regclass" => call(NAME_OF_TABLE, taken()),
        "regtype" if is_text => call("to_regtype", taken()),
        "regtype" => call(NAME_OF_TYPE, taken()),
        "oid" | "xid" => Expr::Cast {
            kind: kind.clone(),
            expr: Box::new(taken()),
            data_type: DataType::BigInt(None),
            array: false,
            format: None,
        },
        "unknown" => taken(),
        "text" | "name" | "char" | "regproc" | "regprocedure" | "regoper" | "regrole"
        | "regnamespace" | "cstring" | "bpchar" | "varchar" | "int2vector" | "oidvector"
        | "pg_node_tree" => varchar(taken()),
        "int2" | "int4" | "int8" | "bool" | "float4" | "float8" => Expr::Cast {
            kind: kind.clone(),
            expr: Box::new(taken()),
            data_type: match &*name {
                "int2" => DataType::SmallInt(None),
                "int4" => DataType::Integer(None),
                "int8" => DataType::BigInt(None),
                "bool" => DataType::Boolean,
                "float4" => DataType::Real,
                _ => DataType::DoublePrecision,
            },
            array: false,
            format: None,
        },
        _ => return None,
    })
}

/// The members of a list that is written as PostgreSQL writes it.
fn list(expr: &Expr) -> Option<Vec<Expr>> {
    let texts = |text: &str| {
        let inner = text.strip_prefix('{')?.strip_suffix('}')?;
        let parts = inner.split(',').filter(|part| !part.is_empty());
        let parts = parts.map(|part| part.trim_matches('"').to_owned());
        Some(
            parts
                .map(|part| Expr::value(Value::SingleQuotedString(part)))
                .collect(),
        )
    };
    match expr {
        Expr::Nested(inner) => list(inner),
        Expr::Cast { expr: inner, .. } => list(inner),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => texts(text),
            _ => None,
        },
        Expr::Array(array) => Some(array.elem.clone()),
        Expr::Function(call) => {
            let name = call.name.0.last()?.as_ident()?.value.to_lowercase();
            (name == "current_schemas").then(|| texts("{pg_catalog,public}"))?
        }
        _ => None,
    }
}
