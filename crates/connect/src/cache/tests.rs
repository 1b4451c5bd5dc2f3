//! Whatever the order of reads and writes, a cache gives what its store gives.

use event::{Attribute, Batch, Chunks, ColumnBuilder, Schema, Times, Type, Value};
use lang::span::Span;
use plan::CompareOp;
use plan::store::{Operation, OperationKind, Term, TermKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::{CachedStore, Limits, Policy};
use crate::component::{Answer, Store};
use crate::memory::MemoryStore;

const FIND_KEY: usize = 0;
const FIND_ALL: usize = 1;
const INSERT: usize = 2;
const DELETE: usize = 3;
const UPSERT: usize = 4;
const CONTAINS: usize = 5;

fn table() -> plan::Table {
    keyed(vec![0])
}

fn keyed(primary_key: Vec<usize>) -> plan::Table {
    let attribute = |name: &str, ty| Attribute {
        name: name.into(),
        ty,
    };
    plan::Table {
        schema: Schema {
            name: "T".into(),
            attributes: vec![attribute("k", Type::String), attribute("n", Type::Int)],
        },
        primary_key,
        indexes: Vec::new(),
        index_details: Vec::new(),
        store: None,
        span: Span::default(),
    }
}

fn term(ty: Type, kind: TermKind) -> Term {
    Term { ty, kind }
}

fn key_is_parameter() -> Term {
    let column = Box::new(term(Type::String, TermKind::Column(0)));
    let parameter = Box::new(term(Type::String, TermKind::Parameter(0)));
    term(
        Type::Bool,
        TermKind::Compare(CompareOp::Equal, column, parameter),
    )
}

fn prepare(store: &mut dyn Store) {
    let set = vec![(1, term(Type::Int, TermKind::Parameter(1)))];
    for (id, kind) in [
        (
            FIND_KEY,
            OperationKind::Find {
                on: Some(key_is_parameter()),
            },
        ),
        (FIND_ALL, OperationKind::Find { on: None }),
        (INSERT, OperationKind::Insert),
        (
            DELETE,
            OperationKind::Delete {
                on: key_is_parameter(),
            },
        ),
        (
            UPSERT,
            OperationKind::UpdateOrInsert {
                set,
                on: key_is_parameter(),
            },
        ),
        (
            CONTAINS,
            OperationKind::Contains {
                on: key_is_parameter(),
            },
        ),
    ] {
        let operation = Operation {
            table: 0,
            kind,
            parameters: vec![Type::String, Type::Int],
        };
        store.prepare(id, &operation).expect("a plain operation");
    }
}

fn row(key: &str, n: i32) -> Batch {
    let (mut k, mut v) = (
        ColumnBuilder::new(Type::String),
        ColumnBuilder::new(Type::Int),
    );
    k.push(&Value::str(key));
    v.push(&Value::Int(n));
    Batch::new(
        vec![k.finish(), v.finish()],
        1,
        Times::Same(0),
        Chunks::One,
        0,
    )
}

/// Rows sorted, or what else was answered, as text.
fn ask(store: &mut dyn Store, id: usize, key: &str, n: i32) -> String {
    match store.execute(id, &row(key, n)) {
        Ok(Answer::Rows { batch, .. }) => {
            let mut rows: Vec<String> = (0..batch.len)
                .map(|r| format!("{:?}", batch.row(r)))
                .collect();
            rows.sort();
            rows.join(" ")
        }
        Ok(other) => format!("{other:?}"),
        Err(error) => format!("error {error}"),
    }
}

fn cached(
    table: &plan::Table,
    size: usize,
    policy: Policy,
    retention: Option<i64>,
    now: &Arc<AtomicI64>,
) -> CachedStore {
    let limits = Limits {
        size,
        policy,
        retention,
        purge: retention.unwrap_or(i64::MAX),
    };
    let now = now.clone();
    let clock = Box::new(move || now.load(Ordering::Relaxed));
    let mut store = CachedStore::new(Box::new(MemoryStore::new(table)), table, limits, clock);
    prepare(&mut store);
    store
}

#[test]
fn answers_are_those_of_the_store() {
    for (policy, key) in [
        (Policy::Fifo, vec![0]),
        (Policy::Lru, vec![0]),
        (Policy::Lfu, vec![0]),
        (Policy::Fifo, Vec::new()),
    ] {
        let table = keyed(key);
        for size in [1, 2, 3, 100, 5000] {
            let now = Arc::new(AtomicI64::new(0));
            let mut with = cached(&table, size, policy, Some(50), &now);
            let mut without = MemoryStore::new(&table);
            prepare(&mut without);
            let mut state = 7u64 + size as u64;
            for step in 0..3000 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let (id, key, n) = ((state >> 33) % 6, (state >> 41) % 6, (state >> 50) % 9);
                let (id, key) = (id as usize, format!("k{key}"));
                let (a, b) = (
                    ask(&mut with, id, &key, n as i32),
                    ask(&mut without, id, &key, n as i32),
                );
                assert_eq!(
                    a, b,
                    "step {step}, operation {id}, key {key}, {policy:?} of {size}"
                );
                now.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

#[test]
fn a_row_read_by_its_key_is_not_asked_for_again_until_it_is_old() {
    let now = Arc::new(AtomicI64::new(0));
    let mut store = cached(&table(), 10, Policy::Lru, Some(100), &now);
    ask(&mut store, INSERT, "a", 1);
    // Behind the cache's back.
    let set = |store: &mut CachedStore, n: i32| drop(store.inner.execute(UPSERT, &row("a", n)));
    assert!(ask(&mut store, FIND_KEY, "a", 0).contains("Int(1)"));
    set(&mut store, 2);
    assert!(ask(&mut store, FIND_KEY, "a", 0).contains("Int(1)"));
    now.store(100, Ordering::Relaxed);
    assert!(ask(&mut store, FIND_KEY, "a", 0).contains("Int(2)"));
}

// covers: 244, 245, 246
#[test]
fn the_policy_says_which_row_goes() {
    let check = |policy: Policy, goes: &str| {
        let mut kept = super::Kept::new(2, policy);
        kept.put(Some("a".into()), vec![Value::str("a")], 0);
        kept.put(Some("b".into()), vec![Value::str("b")], 0);
        for key in ["a", "a", "b"] {
            assert!(kept.by_key(key).is_some());
        }
        assert!(kept.put(Some("c".into()), vec![Value::str("c")], 0));
        assert!(kept.by_key(goes).is_none(), "{policy:?}");
    };
    check(Policy::Fifo, "a");
    check(Policy::Lru, "a");
    check(Policy::Lfu, "b");
}

#[test]
fn options_are_read() {
    let read = |options: &[(&str, &str)]| {
        let options: Vec<_> = options
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        Limits::from_options(&options)
    };
    let limits = read(&[
        ("size", "10"),
        ("cache.policy", "lru"),
        ("retention.period", "5 sec"),
    ]);
    assert_eq!(
        limits,
        Ok(Limits {
            size: 10,
            policy: Policy::Lru,
            retention: Some(5000),
            purge: 5000
        })
    );
    assert!(read(&[("size", "0")]).is_err_and(|m| m.contains("'size'")));
    assert!(
        read(&[("size", "1"), ("retention.period", "soon")]).is_err_and(|m| m.contains("'soon'"))
    );
    assert!(
        read(&[("size", "1"), ("cache.policy", "MRU")]).is_err_and(|m| m.contains("not 'MRU'"))
    );
}
