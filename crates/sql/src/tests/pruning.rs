//! Filters, columns and limits reach the files; what they rule out is not read.

use super::*;

fn explained(engine: &Engine, dir: &Path, sql: &str) -> String {
    let answer = asked(engine, dir, sql);
    let plans = answer.as_array().expect("rows").iter();
    plans
        .filter_map(|row| row[1].as_str())
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn filters_columns_and_limits_are_those_of_the_files_scan() {
    let dir = tempfile::tempdir().expect("a folder");
    let (engine, table) = (engine(), table("T", &COLUMNS, vec![]));
    for base in [0, 1000, 2000] {
        let mut writer = Writer::open(dir.path(), &table);
        writer.insert(&(base..base + 100).map(row).collect::<Vec<_>>());
        writer.close();
    }
    let plan = explained(
        &engine,
        dir.path(),
        "explain select name from t where k = 1007",
    );
    assert!(plan.contains("file_type=parquet"), "{plan}");
    assert!(plan.contains("projection=[name]"), "{plan}");
    assert!(plan.contains("k_min") && plan.contains("1007"), "{plan}");
    let plan = explained(&engine, dir.path(), "explain select name from t limit 3");
    assert!(plan.contains("limit=3"), "{plan}");
    // Two of three files are ruled out by their statistics.
    let metrics = explained(
        &engine,
        dir.path(),
        "explain analyze select name from t where k = 1007",
    );
    assert!(
        metrics.contains("row_groups_pruned_statistics=3 total → 1 matched"),
        "{metrics}"
    );
    let plan = explained(&engine, dir.path(), "explain select count(*) from t");
    assert!(
        !plan.contains("file_type=parquet"),
        "the log of the table knows: {plan}"
    );
}

#[test]
fn a_table_with_replaced_rows_is_read_by_the_store() {
    let dir = tempfile::tempdir().expect("a folder");
    let (engine, table) = (engine(), table("T", &COLUMNS, vec![0]));
    let mut writer = Writer::open(dir.path(), &table);
    writer.insert(&(0..100).map(row).collect::<Vec<_>>());
    writer.close();
    let whole = explained(&engine, dir.path(), "explain select name from t");
    assert!(whole.contains("file_type=parquet"), "{whole}");
    let mut writer = Writer::open(dir.path(), &table);
    writer.upsert(&[row(7)]);
    let merged = explained(&engine, dir.path(), "explain select name from t");
    assert!(
        merged.contains("StreamingTableExec") && !merged.contains("file_type=parquet"),
        "{merged}"
    );
    writer.close();
}
