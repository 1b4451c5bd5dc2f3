//! What is sent to each database: a table with all types, and every operation of an app.
//! `UPDATE_EXPECT=1` rewrites the files.

use event::{Attribute, Schema, Type};
use expect_test::expect_file;
use plan::store::{Operation, OperationKind, Term, TermKind};
use plan::{ArithmeticOp, CompareOp, Constant};

use super::{Dialect, MYSQL, ORACLE, POSTGRES, SQLITE, SQLSERVER};
use crate::rdbms::link::Statement;
use crate::rdbms::statements::{Definition, Keys, Prepared, Writer};

/// Attributes of the table, in the order of the row's parameters.
const ATTRIBUTES: [(&str, Type); 8] = [
    ("symbol", Type::String),
    ("order", Type::Int),
    ("volume", Type::Long),
    ("ratio", Type::Float),
    ("price", Type::Double),
    ("good", Type::Bool),
    ("data", Type::Object),
    ("note", Type::String),
];

fn definition() -> Definition {
    let attributes = ATTRIBUTES.map(|(name, ty)| Attribute {
        name: name.into(),
        ty,
    });
    let mut lengths = vec![None; ATTRIBUTES.len()];
    lengths[7] = Some(100_000);
    Definition {
        schema: Schema {
            name: "Stock".into(),
            attributes: attributes.to_vec(),
        },
        name: "shop.Stock".into(),
        primary_key: vec![0, 1],
        indexes: vec![vec![2], vec![4, 5]],
        lengths,
        has_collation: true,
    }
}

fn column(index: usize) -> Term {
    Term {
        ty: ATTRIBUTES[index].1,
        kind: TermKind::Column(index),
    }
}

fn parameter(index: usize) -> Term {
    Term {
        ty: ATTRIBUTES[index].1,
        kind: TermKind::Parameter(index),
    }
}

fn bool_of(kind: TermKind) -> Term {
    Term {
        ty: Type::Bool,
        kind,
    }
}

fn compare(op: CompareOp, left: Term, right: Term) -> Term {
    bool_of(TermKind::Compare(op, Box::new(left), Box::new(right)))
}

fn equal(index: usize) -> Term {
    compare(CompareOp::Equal, column(index), parameter(index))
}

fn and(left: Term, right: Term) -> Term {
    bool_of(TermKind::And(Box::new(left), Box::new(right)))
}

fn or(left: Term, right: Term) -> Term {
    bool_of(TermKind::Or(Box::new(left), Box::new(right)))
}

fn not(inner: Term) -> Term {
    bool_of(TermKind::Not(Box::new(inner)))
}

fn arithmetic(op: ArithmeticOp, index: usize) -> Term {
    Term {
        ty: ATTRIBUTES[index].1,
        kind: TermKind::Arithmetic(op, Box::new(column(index)), Box::new(parameter(index))),
    }
}

fn text(value: &str) -> Term {
    Term {
        ty: Type::String,
        kind: TermKind::Constant(Constant::String(value.into())),
    }
}

fn key() -> Term {
    and(equal(0), equal(1))
}

fn conditions() -> Vec<(&'static str, Term)> {
    use ArithmeticOp::{Add, Divide, Modulo, Multiply, Subtract};

    let contains = || {
        bool_of(TermKind::Call {
            name: "str:contains".into(),
            args: vec![column(0), parameter(0)],
        })
    };
    let sum = |op, index| compare(CompareOp::Greater, arithmetic(op, index), column(index));
    vec![
        ("equal", equal(0)),
        (
            "not equal",
            compare(CompareOp::NotEqual, column(4), parameter(4)),
        ),
        ("not", not(or(equal(2), not(equal(4))))),
        ("a column of BOOL", or(column(5), not(column(5)))),
        (
            "a condition as a value",
            compare(CompareOp::Equal, equal(2), column(5)),
        ),
        (
            "is null",
            not(bool_of(TermKind::IsNull(Box::new(column(4))))),
        ),
        ("contains", and(contains(), not(contains()))),
        (
            "a text with quotes",
            compare(CompareOp::Equal, column(0), text("o'x\\")),
        ),
        (
            "whole numbers",
            or(or(sum(Add, 1), sum(Divide, 1)), sum(Modulo, 2)),
        ),
        (
            "real numbers",
            or(
                or(sum(Subtract, 4), sum(Multiply, 4)),
                or(sum(Divide, 4), sum(Modulo, 4)),
            ),
        ),
    ]
}

fn statements(dialect: &dyn Dialect) -> String {
    use std::fmt::Write;

    let definition = definition();
    let writer = Writer {
        definition: &definition,
        dialect,
    };
    let mut out = String::new();
    let mut say = |what: &str, sql: &str| {
        writeln!(out, "-- {what}\n{sql}\n").expect("writing to a string cannot fail");
    };
    for sql in writer.create() {
        say("create", &sql);
    }
    say("columns", &dialect.columns_query(&definition.name));
    say("unique keys", &dialect.unique_keys_query(&definition.name));
    let marks = dialect.marks();
    say("begin", dialect.begin());
    say("mark", marks.set);
    say("keep", marks.keep.unwrap_or("(nothing)"));
    say("undo", &marks.undo.join("; "));
    say("room for epochs", &dialect.create_epochs());
    say(
        "epoch asked for",
        &dialect.waits_for_writers().join(" WHERE …"),
    );
    say("epoch", &Statement::new(dialect.note_epoch(), dialect).text);
    say("first rows", &format!("… ORDER BY x{}", dialect.limit(10)));
    say("insert", &writer.append().head());
    let set = |terms: &[usize]| -> Vec<(usize, Term)> {
        terms
            .iter()
            .map(|index| (*index, parameter(*index)))
            .collect()
    };
    let flag = vec![(5, equal(2)), (4, arithmetic(ArithmeticOp::Add, 4))];
    let mut operations = vec![
        ("find all", OperationKind::Find { on: None }),
        ("contains", OperationKind::Contains { on: key() }),
        ("delete", OperationKind::Delete { on: key() }),
        (
            "update",
            OperationKind::Update {
                set: set(&[4, 5, 6]),
                on: key(),
            },
        ),
        (
            "update by terms",
            OperationKind::Update {
                set: flag.clone(),
                on: key(),
            },
        ),
        (
            "update or insert",
            OperationKind::UpdateOrInsert {
                set: set(&[0, 1, 2, 4]),
                on: key(),
            },
        ),
        (
            "update or insert by terms",
            OperationKind::UpdateOrInsert {
                set: flag,
                on: key(),
            },
        ),
        (
            "update or insert by no key",
            OperationKind::UpdateOrInsert {
                set: set(&[4]),
                on: equal(2),
            },
        ),
    ];
    for (what, condition) in conditions() {
        operations.push((
            what,
            OperationKind::Find {
                on: Some(condition),
            },
        ));
    }
    let keys = Keys {
        has_key: true,
        is_only: true,
    };
    for (what, kind) in operations {
        let operation = Operation {
            table: 0,
            kind,
            parameters: ATTRIBUTES.map(|(_, ty)| ty).to_vec(),
        };
        match writer.prepare(&operation, keys) {
            Ok(
                Prepared::Find { statement, .. }
                | Prepared::Contains { statement, .. }
                | Prepared::Write { statement, .. }
                | Prepared::Upsert { statement, .. },
            ) => say(what, &statement.text),
            Ok(Prepared::UpdateOrInsert { update, insert, .. }) => {
                say(
                    what,
                    &format!(
                        "{}\n-- and where nothing was updated\n{}",
                        update.text, insert.text
                    ),
                );
            }
            Ok(Prepared::Insert) => say(what, "(insert)"),
            Err(cause) => say(what, &format!("({cause})")),
        }
    }
    out
}

#[test]
fn statements_of_each_database() {
    expect_file!["testdata/mysql.sql"].assert_eq(&statements(MYSQL));
    expect_file!["testdata/postgres.sql"].assert_eq(&statements(POSTGRES));
    expect_file!["testdata/sqlite.sql"].assert_eq(&statements(SQLITE));
    expect_file!["testdata/sqlserver.sql"].assert_eq(&statements(SQLSERVER));
    expect_file!["testdata/oracle.sql"].assert_eq(&statements(ORACLE));
}
