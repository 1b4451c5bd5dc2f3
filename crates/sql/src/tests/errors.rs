//! What is wrong with a statement is shown at its place.

use super::*;

/// The marked text, the message and the help.
#[track_caller]
fn wrong(sql: &str) -> (String, String, String) {
    let dir = tempfile::tempdir().expect("a folder");
    let engine = engine();
    Writer::open(dir.path(), &table("smart_home", &COLUMNS, vec![])).close();
    match bytes(&engine, dir.path(), sql, Format::Json) {
        Err(Error::Statement(fault)) => {
            let marked = &sql[fault.span.start as usize..fault.span.end as usize];
            (
                marked.to_owned(),
                fault.message.clone(),
                fault.help.clone().unwrap_or_default(),
            )
        }
        other => panic!("{sql}: {other:?}"),
    }
}

#[test]
fn an_error_has_its_place_and_what_was_meant() {
    for (sql, marked, message, help) in [
        (
            "select nam from smart_home",
            "nam",
            "there is no column 'nam'",
            "did you mean 'name'?",
        ),
        (
            "select\n  prise\nfrom smart_home",
            "prise",
            "there is no column 'prise'",
            "did you mean 'Price'?",
        ),
        (
            "select h.zzz from smart_home h",
            "h.zzz",
            "there is no column 'zzz'",
            "there is _id, ",
        ),
        (
            "select 'ü', * from smarthome",
            "smarthome",
            "there is no table 'smarthome'",
            "did you mean 'smart_home'?",
        ),
        (
            "select * from nowhere",
            "nowhere",
            "there is no table 'nowhere'",
            "'show tables'",
        ),
        (
            "select agv(k) from smart_home",
            "agv",
            "there is no function 'agv'",
            "did you mean 'avg'?",
        ),
        ("select k form smart_home", "smart_home", "smart_home", ""),
        ("select k from smart_home where", "", "expected", ""),
        (
            "select 'k from smart_home",
            "'",
            "unterminated string literal",
            "",
        ),
        (
            "select name, count(*) from smart_home",
            "name",
            "GROUP BY",
            "GROUP BY",
        ),
        ("select k + open from smart_home", "k + open", "", ""),
        ("", "", "there is no statement", ""),
        (
            "select 1; select 2",
            "select",
            "more than one statement",
            "",
        ),
    ] {
        let (found, said, helped) = wrong(sql);
        assert_eq!(found, marked, "{sql}: {said}");
        assert!(said.contains(message), "{sql}: {said}");
        assert!(helped.contains(help), "{sql}: {said}: {helped}");
    }
}

#[test]
fn a_statement_that_writes_is_refused() {
    for sql in [
        "insert into smart_home (k) values (1)",
        "delete from smart_home",
        "update smart_home set k = 1",
        "create table x as select 1",
        "create view x as select 1",
        "create external table x stored as csv location '/etc/passwd'",
        "copy smart_home to '/tmp/x.csv'",
        "copy (select 1) to '/tmp/x.csv'",
        "drop table smart_home",
        "truncate table smart_home",
        "set datafusion.execution.batch_size = 1",
        "reset datafusion.execution.batch_size",
        "explain copy smart_home to '/tmp/x.csv'",
        "prepare p as select 1",
        "begin",
    ] {
        let (marked, said, help) = wrong(sql);
        assert!(said.contains("statements that read"), "{sql}: {said}");
        assert!(help.contains("show tables"), "{sql}: {help}");
        assert_eq!(marked, sql.split(' ').next().unwrap_or_default());
    }
    let inner = [
        "explain analyze insert into smart_home (k) values (1)",
        "explain delete from smart_home",
        "with x as (select 1) insert into smart_home (k) select * from x",
        "select * from '/etc/passwd'",
        "select * from read_csv('/etc/passwd')",
    ];
    inner.iter().for_each(|sql| {
        wrong(sql);
    });
}

#[test]
fn what_rows_make_of_a_statement_is_said() {
    let dir = tempfile::tempdir().expect("a folder");
    let engine = engine();
    let mut writer = Writer::open(dir.path(), &table("T", &COLUMNS, vec![]));
    writer.insert(&[row(1)]);
    for (sql, part) in [
        ("select cast(name as int) from t", "'n1'"),
        ("select k / (k - 1) from t", "divide by zero"),
    ] {
        match bytes(&engine, dir.path(), sql, Format::Json) {
            Err(Error::Values(message)) => {
                assert!(message.to_lowercase().contains(part), "{sql}: {message}")
            }
            other => panic!("{sql}: {other:?}"),
        }
    }
    writer.close();
}

#[test]
fn a_folder_that_is_no_store_and_a_damaged_file_are_named() {
    let dir = tempfile::tempdir().expect("a folder");
    let engine = engine();
    let failed = |sql: &str| match bytes(&engine, dir.path(), sql, Format::Json) {
        Err(Error::Failed(message)) => message,
        other => panic!("{other:?}"),
    };
    assert!(failed("select 1").contains("store.json"));
    let mut writer = Writer::open(dir.path(), &table("T", &COLUMNS, vec![]));
    writer.insert(&(0..1000).map(row).collect::<Vec<_>>());
    writer.close();
    let files = std::fs::read_dir(dir.path().join("tables/t")).expect("the table");
    let file = files
        .map(|entry| entry.expect("an entry").path())
        .find(|path| path.extension().is_some_and(|end| end == "parquet"))
        .expect("a file");
    let mut content = std::fs::read(&file).expect("read");
    let middle = content.len() / 2;
    content[middle] ^= 1;
    std::fs::write(&file, content).expect("written");
    let said = failed("select count(*) from t");
    let name = file.file_name().expect("a name").to_string_lossy();
    assert!(
        said.contains(&*name) && said.contains("1000 rows"),
        "{said}"
    );
}
