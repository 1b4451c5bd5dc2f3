//! A statement ends at its limits, and the next one is answered.

use std::time::Duration;

use super::*;

#[track_caller]
fn limited(engine: &Engine, dir: &Path, sql: &str) -> String {
    match bytes(engine, dir, sql, Format::Ndjson) {
        Err(Error::Limit(message)) => message,
        Err(Error::Statement(fault)) => fault.message,
        Ok(answer) => panic!("{} bytes of answer", answer.len()),
        Err(error) => panic!("{error:?}"),
    }
}

fn engine_of(change: impl FnOnce(&mut Limits)) -> Engine {
    let mut limits = Limits::default();
    change(&mut limits);
    Engine::new(limits).expect("threads")
}

fn empty_store() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    Writer::open(dir.path(), &table("T", &COLUMNS, vec![])).close();
    dir
}

const ONE: &str = "select 1 as one";

#[track_caller]
fn goes_on(engine: &Engine, dir: &Path) {
    let answer = bytes(engine, dir, ONE, Format::Ndjson).expect("answered");
    assert_eq!(answer, b"{\"one\":1}\n");
}

#[test]
fn rows_are_bounded() {
    let (dir, engine) = (empty_store(), engine_of(|limits| limits.rows = 1000));
    let most = "select * from generate_series(1, 1000)";
    let answer = bytes(&engine, dir.path(), most, Format::Ndjson).expect("answered");
    assert_eq!(answer.iter().filter(|byte| **byte == b'\n').count(), 1000);
    let said = limited(
        &engine,
        dir.path(),
        "select * from generate_series(1, 1001)",
    );
    assert!(said.contains("more than 1000 rows"), "{said}");
    goes_on(&engine, dir.path());
}

#[test]
fn time_is_bounded() {
    let (dir, engine) = (
        empty_store(),
        engine_of(|limits| limits.time = Duration::from_millis(300)),
    );
    let endless = "select count(*) from generate_series(1, 10000000) a, generate_series(1, 10000000) b where a.value + b.value = 0";
    // A few rows, read once, that become many.
    let ten: Vec<String> = (0..10).map(|n| format!("select {n} as n")).collect();
    let ten = format!("({})", ten.join(" union all "));
    let all: Vec<String> = (0..12).map(|at| format!("{ten} t{at}")).collect();
    let joined = format!(
        "select sum(t0.n * t11.n) from {} where t0.n + t5.n = t11.n + t7.n",
        all.join(" cross join ")
    );
    for endless in [endless, &joined] {
        let said = limited(&engine, dir.path(), endless);
        assert!(said.contains("longer than 300ms"), "{said}");
        goes_on(&engine, dir.path());
    }
}

#[test]
fn memory_is_bounded_and_what_does_not_fit_goes_to_files_up_to_their_bound() {
    let dir = empty_store();
    let spill = tempfile::tempdir().expect("a folder");
    let sorted = "select lpad(cast(value as varchar), 40, 'x') as text from generate_series(1, 800000) order by text";
    let engine = engine_of(|limits| {
        limits.memory = 24 << 20;
        limits.spill_dir = Some(spill.path().to_owned());
    });
    let answer = bytes(&engine, dir.path(), sorted, Format::Csv).expect("answered");
    assert_eq!(answer.len(), 800_000 * 41 + "text\n".len());
    let engine = engine_of(|limits| {
        limits.memory = 24 << 20;
        limits.spill = 1 << 20;
    });
    let said = limited(&engine, dir.path(), sorted);
    assert!(said.contains("temporary files"), "{said}");
    // A join cannot put its rows into files.
    let joined = "select count(*) from generate_series(1, 400000) a join generate_series(1, 400000) b on a.value = b.value";
    let engine = engine_of(|limits| limits.memory = 2 << 20);
    let said = limited(&engine, dir.path(), joined);
    assert!(said.contains("more memory than it may use"), "{said}");
    goes_on(&engine, dir.path());
    let left = std::fs::read_dir(spill.path()).expect("read");
    let left = left.flat_map(|dir| std::fs::read_dir(dir.expect("a folder").path()));
    assert_eq!(left.flatten().count(), 0, "temporary files are removed");
}

#[test]
fn depth_and_size_of_a_text_are_bounded() {
    let (dir, engine) = (empty_store(), engine());
    let nested = |levels: usize| format!("select {}1{}", "(".repeat(levels), ")".repeat(levels));
    let answer = bytes(&engine, dir.path(), &nested(20), Format::Csv);
    assert!(answer.expect("answered").ends_with(b"\n1\n"));
    let said = limited(&engine, dir.path(), &nested(100_000));
    assert!(said.contains("deeper than 50 levels"), "{said}");
    let queries = (0..60).fold("select 1".to_owned(), |sql, _| {
        format!("select * from ({sql})")
    });
    let said = limited(&engine, dir.path(), &queries);
    assert!(said.contains("deeper than 50 levels"), "{said}");
    // What is within the bounds is planned without harm, as wide as it may be.
    let wide = format!("select 1{}", " + 1".repeat(999));
    let answer = bytes(&engine, dir.path(), &wide, Format::Csv);
    assert!(answer.expect("answered").ends_with(b"\n1000\n"));
    for chain in [
        " + 1",
        " or true",
        " union all select 1",
        "::int",
        " is null",
        "[1]",
    ] {
        let said = limited(
            &engine,
            dir.path(),
            &format!("select 1{}", chain.repeat(1100)),
        );
        assert!(said.contains("more than 1000 operators"), "{chain}: {said}");
    }
    let list = vec!["-1"; 5000].join(", ");
    let listed = format!("select 1 where -1 in ({list})");
    let answer = bytes(&engine, dir.path(), &listed, Format::Csv);
    assert!(answer.expect("answered").ends_with(b"\n1\n"));
    let joined = format!("select 1 from t {}", ", t".repeat(300));
    let said = limited(&engine, dir.path(), &joined);
    assert!(said.contains("more than 200 tables"), "{said}");
    // Each query is twice the one before it.
    let doubled: Vec<String> = (1..40)
        .map(|at| format!("q{at} as (select a.k from q{} a, q{} b)", at - 1, at - 1))
        .collect();
    let doubled = format!(
        "with q0 as (select k from t), {} select * from q39",
        doubled.join(", ")
    );
    let said = limited(&engine, dir.path(), &doubled);
    assert!(said.contains("more than 200 tables"), "{said}");
    let long = format!("select '{}'", "x".repeat(1 << 20));
    let said = limited(&engine, dir.path(), &long);
    assert!(said.contains("more than 1 MB"), "{said}");
    goes_on(&engine, dir.path());
}

#[test]
fn a_statement_ends_when_nobody_waits_for_its_answer() {
    let (dir, engine) = (empty_store(), engine());
    let mut answer = engine.ask(
        dir.path(),
        "select * from generate_series(1, 900000)",
        Format::Csv,
    );
    answer.blocking_recv().expect("a block").expect("rows");
    drop(answer);
    goes_on(&engine, dir.path());
    // Its threads have given back the memory that they held.
    drop(engine);
}
