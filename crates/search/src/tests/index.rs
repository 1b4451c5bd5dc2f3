//! The index as it is kept beside a store.

use std::path::Path;
use std::time::{Duration, Instant};

use super::{SCHEMA, Writer, asked, books, row, table};
use crate::index::folder;
use crate::{Options, Search};

const WAIT: Duration = Duration::from_secs(30);

fn keeping(dir: &Path) -> Search {
    let options = Options {
        keeps_index: true,
        ..Options::default()
    };
    Search::new(dir, options).expect("made")
}

/// Waits until the index has all files of a table.
#[track_caller]
fn until_covered(search: &Search) {
    let until = Instant::now() + WAIT;
    loop {
        let view = search.view("docs").expect("a table");
        let has = |index: &crate::index::Published| {
            view.scan
                .file_names()
                .all(|(name, _)| index.file(name).is_some())
        };
        if view.index.as_ref().is_some_and(has) {
            return;
        }
        assert!(Instant::now() < until, "the index does not come");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

fn count(search: &Search, query: &str) -> u64 {
    let body = serde_json::json!({"tableName": "docs", "query": query}).to_string();
    let (status, count) = asked(search, "POST", "/analytics/search_count", &[], &body);
    assert_eq!(status, 200, "{count}");
    count.as_u64().expect("a number")
}

#[test]
fn a_search_sees_what_is_committed_at_once_while_the_index_follows() {
    let dir = tempfile::tempdir().expect("a folder");
    let table = table("docs", vec![], SCHEMA);
    let search = keeping(dir.path());
    let mut writer = Writer::open(dir.path(), &table);
    for round in 1..=3 {
        for book in books() {
            let before = count(&search, "title:fox OR title:lazy");
            let is_more = [1, 2, 4].contains(&book[0].to_long().expect("a number"));
            writer.insert(&[book]);
            assert_eq!(
                count(&search, "title:fox OR title:lazy"),
                before + u64::from(is_more)
            );
        }
        writer.close();
        until_covered(&search);
        assert_eq!(count(&search, "title:fox"), 2 * round);
        writer = Writer::open(dir.path(), &table);
    }
    writer.delete(1);
    assert_eq!(count(&search, "title:fox"), 3);
    writer.close();
    until_covered(&search);
    assert_eq!(count(&search, "title:fox"), 3);
}

#[test]
fn an_index_that_is_damaged_or_gone_is_made_again() {
    let dir = tempfile::tempdir().expect("a folder");
    let table = table("docs", vec![], SCHEMA);
    let mut writer = Writer::open(dir.path(), &table);
    writer.insert(&books());
    writer.close();
    let place = folder(dir.path(), "docs");
    let search = keeping(dir.path());
    until_covered(&search);
    drop(search);
    let mut kinds = std::collections::BTreeSet::new();
    // The next file of a kind that was not damaged yet: others take their places.
    let mut next = || {
        let entries = std::fs::read_dir(&place).expect("an index");
        let mut paths = entries.map(|entry| entry.expect("a file").path());
        paths.find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let kind = name.rsplit_once('.').map_or("", |(_, kind)| kind);
            let is_empty = path.metadata().is_ok_and(|about| about.len() == 0);
            let kind = if name.contains("managed") {
                "managed"
            } else {
                kind
            };
            !is_empty && kinds.insert(kind.to_owned())
        })
    };
    while let Some(path) = next() {
        let mut bad = std::fs::read(&path).expect("read");
        let at = bad.len() / 2;
        bad[at] ^= 0x10;
        std::fs::write(&path, bad).expect("written");
        // Who does not keep it reads the table instead; who does makes it again.
        assert_eq!(
            count(&super::search(dir.path()), "title:fox"),
            2,
            "{}",
            path.display()
        );
        let search = keeping(dir.path());
        assert_eq!(count(&search, "title:fox"), 2, "{}", path.display());
        until_covered(&search);
        assert_eq!(count(&search, "title:fox"), 2, "{}", path.display());
    }
    assert!(kinds.len() >= 6, "{kinds:?}");
    std::fs::remove_dir_all(dir.path().join("index")).expect("removed");
    assert_eq!(count(&super::search(dir.path()), "title:fox"), 2);
    let search = keeping(dir.path());
    until_covered(&search);
    assert_eq!(count(&search, "title:fox"), 2);
}

#[test]
fn other_columns_are_another_index() {
    let dir = tempfile::tempdir().expect("a folder");
    let plain = table("docs", vec![], "title -i");
    let mut writer = Writer::open(dir.path(), &plain);
    writer.insert(&books());
    writer.close();
    let search = keeping(dir.path());
    until_covered(&search);
    let body = r#"{"tableName":"docs","query":"n:3"}"#;
    let (status, refused) = asked(&search, "POST", "/analytics/search_count", &[], body);
    assert_eq!(status, 400);
    let message = refused["message"].as_str().expect("a text");
    assert!(
        message.contains("the field 'n' is not indexed: indexed are title"),
        "{message}"
    );
    let schema = r#"{"columns":{"n":{"type":"INTEGER","isIndex":true}},"primaryKeys":[]}"#;
    let path = [("table", "Docs")];
    let (status, said) = asked(
        &search,
        "POST",
        "/analytics/tables/{table}/schema",
        &path,
        schema,
    );
    assert_eq!(
        (status, &said["status"]),
        (200, &"success".into()),
        "{said}"
    );
    assert_eq!(count(&search, "n:3"), 1);
    until_covered(&search);
    assert_eq!(count(&search, "n:3"), 1);
    let none = r#"{"columns":{},"primaryKeys":[]}"#;
    asked(
        &search,
        "POST",
        "/analytics/tables/{table}/schema",
        &path,
        none,
    );
    let until = Instant::now() + WAIT;
    while folder(dir.path(), "docs").exists() {
        assert!(Instant::now() < until, "the index stays");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

#[test]
fn a_store_that_comes_later_is_found() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = dir.path().join("store");
    let search = keeping(&store);
    let (status, said) = asked(&search, "GET", "/analytics/tables", &[], "");
    assert_eq!(status, 500, "{said}");
    let mut writer = Writer::open(&store, &table("docs", vec![0], SCHEMA));
    writer.insert(&books());
    assert_eq!(count(&search, "title:lazy"), 2);
    writer.insert(&[row(4, Some("busy days"), None, None, None)]);
    assert_eq!(count(&search, "title:lazy"), 1);
    writer.close();
    until_covered(&search);
    assert_eq!(count(&search, "title:lazy"), 1);
    assert_eq!(count(&search, "region:*"), 4);
}

#[test]
fn rows_that_the_index_keeps_are_not_read_from_files() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut writer = Writer::open(dir.path(), &table("docs", vec![], SCHEMA));
    writer.insert(&books());
    writer.close();
    let search = keeping(dir.path());
    until_covered(&search);
    let body = r#"{"tableName":"docs","query":"title:lazy AND n:4"}"#;
    let (_, before) = asked(&search, "POST", "/analytics/search", &[], body);
    assert_eq!(before[0]["values"]["price"], 8.0);
    for entry in std::fs::read_dir(dir.path().join("tables/docs")).expect("a table") {
        let path = entry.expect("a file").path();
        if path.extension().is_some_and(|kind| kind == "parquet") {
            std::fs::remove_file(path).expect("removed");
        }
    }
    assert_eq!(
        asked(&search, "POST", "/analytics/search", &[], body),
        (200, before)
    );
    // What has to be read from them says what is missing.
    let sorted = r#"{"tableName":"docs","query":"*:*","sortBy":[{"field":"n","sortType":"ASC"}]}"#;
    let (status, refused) = asked(&search, "POST", "/analytics/search", &[], sorted);
    let message = refused["message"].as_str().expect("a text");
    assert!(
        status == 500 && message.contains("the file is gone"),
        "{message}"
    );
}
