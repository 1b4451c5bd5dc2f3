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
            view.scan.file_names().all(|(name, _)| index.file(name).is_some())
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
            assert_eq!(count(&search, "title:fox OR title:lazy"), before + u64::from(is_more));
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
    for entry in std::fs::read_dir(&place).expect("an index") {
        let path = entry.expect("a file").path();
        let good = std::fs::read(&path).expect("read");
        if good.is_empty() {
            continue;
        }
        let mut bad = good.clone();
        let at = bad.len() / 2;
        bad[at] ^= 0x10;
        std::fs::write(&path, bad).expect("written");
        // Who does not keep it reads the table instead; who does makes it again.
        assert_eq!(count(&super::search(dir.path()), "title:fox"), 2, "{}", path.display());
        let search = keeping(dir.path());
        assert_eq!(count(&search, "title:fox"), 2);
        until_covered(&search);
        assert_eq!(count(&search, "title:fox"), 2);
        drop(search);
        if !path.exists() {
            // It has other files now.
            break;
        }
    }
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
    assert!(message.contains("the field 'n' is not indexed: indexed are title"), "{message}");
    let schema = r#"{"columns":{"n":{"type":"INTEGER","isIndex":true}},"primaryKeys":[]}"#;
    let path = [("table", "Docs")];
    let (status, said) = asked(&search, "POST", "/analytics/tables/{table}/schema", &path, schema);
    assert_eq!((status, &said["status"]), (200, &"success".into()), "{said}");
    assert_eq!(count(&search, "n:3"), 1);
    until_covered(&search);
    assert_eq!(count(&search, "n:3"), 1);
    let none = r#"{"columns":{},"primaryKeys":[]}"#;
    asked(&search, "POST", "/analytics/tables/{table}/schema", &path, none);
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
