//! Whatever the index has of a table, the same rows are found, and in the same order.

use std::collections::BTreeMap;
use std::sync::Arc;

use event::Value;
use jiff::tz::TimeZone;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::{SCHEMA, Writer, row, search, table};
use crate::Search;
use crate::index::{Fields, TableIndex};
use crate::view::{Sort, View};

const WORDS: [&str; 8] = ["fox", "foxes", "quick", "quack", "dog", "Ünder", "a", "b"];

fn title() -> impl Strategy<Value = Option<String>> {
    proptest::option::weighted(
        0.9,
        vec(select(&WORDS[..]), 0..6).prop_map(|words| words.join(" ")),
    )
}

fn region() -> impl Strategy<Value = Option<String>> {
    let levels = select(&["ulm", "berlin", "Mitte", "a"][..]);
    proptest::option::weighted(0.9, vec(levels, 0..3).prop_map(|levels| levels.join(",")))
}

fn price() -> impl Strategy<Value = Option<f64>> {
    let prices = [0.0, -0.0, 1.5, -2.25, f64::INFINITY, f64::NAN, 1e300];
    proptest::option::weighted(0.9, select(prices.to_vec()))
}

fn rows() -> impl Strategy<Value = Vec<Vec<Value>>> {
    let number = proptest::option::weighted(0.9, -3..4_i32);
    let one = (0..40_i32, title(), region(), number, price());
    let one = one.prop_map(|(k, title, region, n, price)| {
        row(k, title.as_deref(), region.as_deref(), n, price)
    });
    vec(one, 0..12)
}

/// What happens to a table, one after the other.
#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<Vec<Value>>),
    Delete(i32),
    /// Rows in memory become files.
    Flush,
    /// The index takes in the files.
    Index,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => rows().prop_map(Step::Insert),
        2 => (0..40_i32).prop_map(Step::Delete),
        2 => Just(Step::Flush),
        1 => Just(Step::Index),
    ];
    vec(step, 1..10)
}

/// One comparison.
fn leaf() -> impl Strategy<Value = String> {
    let word = || select(&WORDS[..]);
    let number = || select(&["-2", "0", "1", "3"][..]);
    prop_oneof![
        word().prop_map(|word| format!("title:{word}")),
        (word(), word()).prop_map(|(a, b)| format!("title:\"{a} {b}\"")),
        (word(), word(), 1..4).prop_map(|(a, b, slop)| format!("title:\"{a} {b}\"~{slop}")),
        (word(), word(), word(), 1..5)
            .prop_map(|(a, b, c, slop)| format!("title:\"{a} {b} {c}\"~{slop}")),
        word().prop_map(|word| format!("title:{}*", word.chars().next().unwrap_or('a'))),
        word().prop_map(|word| format!("title:{}?*", word.chars().next().unwrap_or('a'))),
        (word(), 1..3).prop_map(|(word, edits)| format!("title:{word}~{edits}")),
        (word(), word()).prop_map(|(a, b)| format!("title:[{a} TO {b}}}")),
        word().prop_map(|word| format!("title:{{* TO {word}]")),
        (word(), word()).prop_map(|(a, b)| format!("_title:\"{a} {b}\"")),
        word().prop_map(|word| format!("_title:{word}*")),
        Just("_region:[berlin TO ulm]".to_owned()),
        Just("region:mitte".to_owned()),
        number().prop_map(|n| format!("n:{n}")),
        (number(), number()).prop_map(|(a, b)| format!("n:[{a} TO {b}]")),
        number().prop_map(|n| format!("size:{{{n} TO *]")),
        number().prop_map(|n| format!("price:[* TO {n}]")),
        Just("price:0".to_owned()),
        Just("price:[* TO *]".to_owned()),
        Just("rate:[1.5 TO 2}".to_owned()),
        Just("open:true".to_owned()),
        select(&["title", "n", "price", "open", "region"][..]).prop_map(|name| format!("{name}:*")),
        (0..30_u64).prop_map(|id| format!("_id:{id}")),
        Just("_timestamp:[3000 TO 9000}".to_owned()),
        Just("*:*".to_owned()),
    ]
}

fn query() -> impl Strategy<Value = String> {
    leaf().prop_recursive(3, 12, 4, |inner| {
        let clause = (
            select(&["", "+", "-", "AND ", "OR "][..]),
            inner,
            select(&["", "", "^2", "^0.5"][..]),
        );
        vec(clause, 1..4).prop_map(|clauses| {
            let clauses = clauses
                .iter()
                .enumerate()
                .map(|(at, (sign, inner, boost))| {
                    let sign = if at == 0 {
                        sign.trim_end_matches("AND ").trim_end_matches("OR ")
                    } else {
                        sign
                    };
                    format!("{sign}({inner}){boost}")
                });
            clauses.collect::<Vec<_>>().join(" ")
        })
    })
}

/// What a view answers: each row with its score, the best, those that sort first, and how many there are.
#[derive(Debug)]
struct Answer {
    all: BTreeMap<u64, f32>,
    best: Vec<u64>,
    sorted: Vec<u64>,
    count: u64,
}

fn answer(view: &View, query: &str) -> Answer {
    let plan = view
        .plan(query, &TimeZone::UTC)
        .unwrap_or_else(|error| panic!("{query}: {error}"));
    let mut all = BTreeMap::new();
    view.each(&plan, &[], true, &mut |rows, row, score| {
        assert!(
            all.insert(rows.ids[row], score).is_none(),
            "a row comes twice"
        );
        Ok(true)
    })
    .expect("read");
    let ids = |hits: Vec<crate::view::Hit>| hits.iter().map(|hit| hit.id).collect();
    let by = [3, 6].map(|column| Sort {
        source: crate::query::plan::Source::Column(column),
        is_descending: column == 6,
    });
    Answer {
        best: ids(view.best(&plan, 7).expect("read")),
        sorted: ids(view.sorted(&plan, &by, 7).expect("read")),
        count: view.count(&plan).expect("read"),
        all,
    }
}

fn is_near(a: f32, b: f32) -> bool {
    (a - b).abs() <= 1e-4 * a.abs().max(b.abs()).max(1e-6)
}

/// Compares what is found by an index that has some of the files with what is found without one.
fn compare(search: &Search, index: Option<&TableIndex>, query: &str) {
    let mut view = search.view("docs").expect("a table");
    view.index = None;
    let plain = answer(&view, query);
    assert_eq!(plain.count, plain.all.len() as u64, "{query}");
    let Some(index) = index else { return };
    view.index = Some(index.published());
    let by_index = answer(&view, query);
    let ids = |answer: &Answer| answer.all.keys().copied().collect::<Vec<u64>>();
    assert_eq!(ids(&plain), ids(&by_index), "{query}");
    assert_eq!(plain.count, by_index.count, "{query}");
    assert_eq!(plain.sorted, by_index.sorted, "{query}");
    assert_eq!(plain.best.len(), by_index.best.len(), "{query}");
    for (a, b) in plain.best.iter().zip(&by_index.best) {
        // Documents that are gone are counted by the index until they are merged away: scores differ by that.
        let all = &by_index.all;
        assert!(
            a == b || is_near(all[a], all[b]) || !is_exact(index, &view),
            "{query}: {a} {b}"
        );
    }
    if is_exact(index, &view) {
        for (id, score) in &plain.all {
            assert!(
                is_near(*score, by_index.all[id]),
                "{query}: {id} {score} {}",
                by_index.all[id]
            );
        }
    }
}

/// Does the index count no row that is gone?
fn is_exact(index: &TableIndex, view: &View) -> bool {
    index.has_only(&view.scan) && view.scan.hidden_marks().is_empty()
}

fn run(key: Vec<usize>, steps: &[Step], queries: &[String]) {
    let dir = tempfile::tempdir().expect("a folder");
    let table = table("docs", key, SCHEMA);
    let mut writer = Writer::open(dir.path(), &table);
    let search = search(dir.path());
    let folder = dir.path().join("index-of-test");
    let mut index: Option<TableIndex> = None;
    for step in steps {
        match step {
            Step::Insert(rows) => writer.insert(rows),
            Step::Delete(k) => writer.delete(*k),
            Step::Flush => {
                writer.close();
                writer = Writer::open(dir.path(), &table);
            }
            Step::Index => {
                let view = search.view("docs").expect("a table");
                let fields = Fields::new(view.scan.definition(), &view.indexing).expect("columns");
                let index = index.get_or_insert_with(|| {
                    TableIndex::create(&folder, &Arc::new(fields)).expect("made")
                });
                assert!(
                    index
                        .update(&folder, &view.scan, &|| true)
                        .expect("written")
                );
                assert!(index.covers(&view.scan));
            }
        }
        for query in queries {
            compare(&search, index.as_ref(), query);
        }
    }
    writer.close();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn index_and_fresh_rows_answer_alike(
        key in prop_oneof![Just(vec![]), Just(vec![0])],
        steps in steps(),
        queries in vec(query(), 1..6),
    ) {
        run(key, &steps, &queries);
    }
}

/// What finds every row finds it in any query, with the same score.
#[test]
fn all_rows_are_found_however_they_are_asked_for() {
    let rows = (0..3).map(|k| row(k, None, None, None, None)).collect();
    let queries = [
        "*:*",
        "(*:*)^2",
        "*:* *:*",
        "*:* -title:a",
        "(*:*) +_timestamp:[0 TO *]",
    ];
    let steps = [Step::Insert(rows), Step::Flush, Step::Index];
    run(vec![], &steps, &queries.map(str::to_owned));
}

/// Each form of comparison once, over files that the index has, files that it has not, and rows in memory that take
/// the place of others.
#[test]
fn every_comparison_is_the_same_by_index_and_by_rows() {
    let insert = |from: i32| {
        let rows = (from..from + 24).map(|k| {
            let words = (0..k % 5).map(|at| WORDS[(k + at * k) as usize % WORDS.len()]);
            let title = words.collect::<Vec<_>>().join(" ");
            let region = ["ulm,Mitte", "berlin", "a,berlin"][k as usize % 3];
            let price = [1.5, -0.0, f64::NAN, 1e300][k as usize % 4];
            row(
                k % 40,
                Some(&title),
                Some(region),
                (k % 7 != 0).then_some(k % 4 - 2),
                Some(price),
            )
        });
        Step::Insert(rows.collect())
    };
    let steps = [
        insert(0),
        Step::Flush,
        Step::Index,
        insert(24),
        Step::Delete(3),
        Step::Flush,
        insert(30),
        Step::Delete(7),
        Step::Delete(33),
    ];
    let queries = [
        "title:fox",
        "title:\"quick fox\"",
        "title:\"fox quick\"~3",
        "title:\"a b fox\"~4",
        "title:f*",
        "title:qu?ck",
        "title:foxs~1",
        "title:quikc~",
        "title:[dog TO fox]",
        "title:{dog TO fox}",
        "title:{* TO b]",
        "_title:fox*",
        "_title:\"\"",
        "_region:[a TO berlin]",
        "_region:berlni~",
        "region:mitte",
        "n:-2",
        "n:{-2 TO 1]",
        "size:[* TO 0}",
        "price:0",
        "price:[* TO *]",
        "rate:{1 TO 2}",
        "open:false",
        "title:*",
        "n:*",
        "_id:5",
        "_timestamp:[5000 TO *]",
        "*:*",
        "-title:fox",
        "*:* -title:fox",
        "+title:fox title:quick^3 -n:0",
        "title:ünder",
    ];
    let queries = queries.map(str::to_owned);
    run(vec![], &steps, &queries);
    run(vec![0], &steps, &queries);
}
