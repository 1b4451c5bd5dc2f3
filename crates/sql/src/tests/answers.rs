//! Rows are the same as those of the store's own reader, wherever they lie.

use serde_json::json;

use super::*;

/// All columns in the order of insertion.
const ALL: &str = "select k, name, price, volume, rate, open, extra from t order by _id";

#[track_caller]
fn check_all(engine: &Engine, dir: &Path, rows: usize) {
    let want = read(dir, "t");
    assert_eq!(want.as_array().map(Vec::len), Some(rows));
    assert_eq!(asked(engine, dir, ALL), want);
    assert_eq!(
        asked(engine, dir, "select count(*) from t"),
        json!([[rows]])
    );
}

/// Files where they are, log where it is: as a process that was killed leaves a store.
fn copied(from: &Path) -> tempfile::TempDir {
    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).expect("made");
        for entry in std::fs::read_dir(from).expect("read") {
            let entry = entry.expect("read");
            let target = to.join(entry.file_name());
            match entry.file_type().expect("known").is_dir() {
                true => copy(&entry.path(), &target),
                false => std::fs::copy(entry.path(), target)
                    .map(|_| ())
                    .expect("copied"),
            }
        }
    }
    let dir = tempfile::tempdir().expect("a folder");
    copy(from, dir.path());
    dir
}

#[test]
fn rows_are_found_in_the_log_in_files_and_in_both() {
    let dir = tempfile::tempdir().expect("a folder");
    let (engine, table) = (engine(), table("T", &COLUMNS, vec![]));
    let mut writer = Writer::open(dir.path(), &table);
    check_all(&engine, dir.path(), 0);
    let rows: Vec<Vec<Value>> = (0..100).map(row).collect();
    writer.insert(&rows);
    check_all(&engine, dir.path(), 100);
    check_all(&engine, copied(dir.path()).path(), 100);
    writer.close();
    check_all(&engine, dir.path(), 100);
    let mut writer = Writer::open(dir.path(), &table);
    writer.insert(&[row(1000), row(-1)]);
    check_all(&engine, dir.path(), 102);
    let mut absent = vec![Value::Null; COLUMNS.len()];
    absent[0] = Value::Int(7);
    writer.insert(&[absent]);
    check_all(&engine, dir.path(), 103);
    check_all(&engine, copied(dir.path()).path(), 103);
    let sums = "select name, sum(price), count(extra) from t where k >= 98 or k is null group by name order by 1";
    let want = json!([["n0", 250.0, 1], ["n8", 24.5, 1], ["n9", 24.75, 1]]);
    assert_eq!(asked(&engine, dir.path(), sums), want);
    writer.close();
    check_all(&engine, dir.path(), 103);
}

#[test]
fn rows_that_were_replaced_or_deleted_are_not_served() {
    for key in [vec![], vec![0]] {
        let dir = tempfile::tempdir().expect("a folder");
        let (engine, table) = (engine(), table("T", &COLUMNS, key));
        let rows: Vec<Vec<Value>> = (0..50).map(row).collect();
        let mut writer = Writer::open(dir.path(), &table);
        writer.insert(&rows);
        writer.close();
        let mut writer = Writer::open(dir.path(), &table);
        let mut changed = row(7);
        changed[1] = Value::str("changed");
        writer.upsert(&[changed, row(60)]);
        writer.delete(Value::Int(9));
        check_all(&engine, dir.path(), 50);
        let found = "select k, name from t where k in (7, 8, 9, 60) order by k";
        let want = json!([[7, "changed"], [8, "n8"], [60, "n0"]]);
        assert_eq!(asked(&engine, dir.path(), found), want);
        assert_eq!(
            asked(
                &engine,
                dir.path(),
                "select count(*) from (select * from t limit 5)"
            ),
            json!([[5]])
        );
        writer.close();
        check_all(&engine, dir.path(), 50);
        assert_eq!(asked(&engine, dir.path(), found), want);
    }
}

#[test]
fn a_statement_sees_whole_commits_while_rows_are_written_to_log_and_files() {
    const COMMIT: i64 = 20;
    let dir = tempfile::tempdir().expect("a folder");
    let mut table = table("T", &COLUMNS[..2], vec![]);
    // Files are written all the time.
    if let Some(store) = &mut table.store {
        store.options = vec![("commit.interval".into(), "5 millisec".into())];
    }
    let (engine, mut writer) = (engine(), Writer::open(dir.path(), &table));
    // So many commits at most are written beside a statement that rows find room.
    let (permits, permitted) = std::sync::mpsc::sync_channel::<()>(50);
    std::thread::scope(|scope| {
        let writer = &mut writer;
        let writing = scope.spawn(move || {
            let mut commits: i64 = 0;
            while permitted.recv().is_ok() {
                let base = (commits * COMMIT) as i32;
                let rows = (0..COMMIT as i32).map(|at| row(base + at)[..2].to_vec());
                writer.insert(&rows.collect::<Vec<_>>());
                commits += 1;
            }
            commits
        });
        let (mut last, mut versions) = (0, std::collections::BTreeSet::new());
        while versions.len() < 25 {
            while permits.try_send(()).is_ok() {}
            let sql = "select count(*), count(distinct _id), coalesce(sum(k), 0) from t";
            let found = asked(&engine, dir.path(), sql);
            let [count, distinct, sum] =
                [0, 1, 2].map(|at| found[0][at].as_i64().expect("a number"));
            assert_eq!((count % COMMIT, count), (0, distinct), "a part of a commit");
            assert_eq!(
                sum,
                count * (count - 1) / 2,
                "other rows than the first {count}"
            );
            assert!(count >= last, "{count} after {last}");
            last = count;
            versions.insert(count);
        }
        drop(permits);
        let commits = writing.join().expect("no panic");
        let count = asked(&engine, dir.path(), "select count(*) from t");
        assert_eq!(count, json!([[commits * COMMIT]]));
    });
    writer.close();
}

#[test]
fn names_are_found_without_case() {
    let dir = tempfile::tempdir().expect("a folder");
    let engine = engine();
    let mut writer = Writer::open(dir.path(), &table("shop.Sales", &COLUMNS, vec![]));
    writer.insert(&[row(4), row(8)]);
    let all = json!([[1.0], [2.0]]);
    for sql in [
        "select price from shop_sales order by k",
        "SELECT PRICE FROM SHOP_SALES ORDER BY K",
        "select \"Price\" from \"Shop_Sales\" order by PRICE",
        "select s.pRice from shop_sales s order by s.price",
        "select price as Price from shop_sales order by price",
        "with x(price) as (select price from shop_sales) select price from x order by Price",
        "select price from (select k, Price from shop_sales) order by k",
        "select a.price from shop_sales a join shop_sales b using (price) order by 1",
        "select price from public.shop_sales order by 1",
    ] {
        assert_eq!(asked(&engine, dir.path(), sql), all, "{sql}");
    }
    let hidden = "select _id > 0, _timestamp from shop_sales where _timestamp = 1000 order by _id";
    assert_eq!(
        asked(&engine, dir.path(), hidden),
        json!([[true, 1000], [true, 1000]])
    );
    assert_eq!(
        asked(&engine, dir.path(), "show tables"),
        json!([["shop_sales"]])
    );
    let described = asked(&engine, dir.path(), "describe shop_sales");
    assert_eq!(
        described[4],
        json!(["Price", "Float64", "YES"]),
        "{described}"
    );
    let stated = "select json from (select cast(extra as varchar) as json from shop_sales) where json like '%4%'";
    assert_eq!(asked(&engine, dir.path(), stated), json!([["{\"k\":4}"]]));
    writer.close();
}

#[test]
fn tables_are_joined_and_windows_computed() {
    let dir = tempfile::tempdir().expect("a folder");
    let engine = engine();
    let mut sales = Writer::open(dir.path(), &table("Sales", &COLUMNS[..3], vec![]));
    sales.insert(&(0..6).map(|k| row(k)[..3].to_vec()).collect::<Vec<_>>());
    sales.close();
    let cities = [("k", Type::Int), ("city", Type::String)];
    let mut cities = Writer::open(dir.path(), &table("Cities", &cities, vec![0]));
    cities.insert(&[
        vec![Value::Int(1), Value::str("Ulm")],
        vec![Value::Int(5), Value::str("Köln")],
        vec![Value::Int(9), Value::str("𝄞")],
    ]);
    for (sql, want) in [
        (
            "select city, price from sales join cities using (k) order by k",
            json!([["Ulm", 0.25], ["Köln", 1.25]]),
        ),
        (
            "select c.city, s.k from cities c left join sales s on s.k = c.k order by c.k",
            json!([["Ulm", 1], ["Köln", 5], ["𝄞", null]]),
        ),
        (
            "select k, sum(price) over (order by k rows 1 preceding) from sales where k < 3 order by k",
            json!([[0, 0.0], [1, 0.25], [2, 0.75]]),
        ),
        (
            "select k from sales where k not in (select k from cities) and k % 2 = 1",
            json!([[3]]),
        ),
        (
            "select date_part('year', to_timestamp_millis(_timestamp)) from sales limit 1",
            json!([[1970]]),
        ),
        ("select max(k), median(k) from sales", json!([[5, 2.5]])),
        (
            "select upper(city), length(city) from cities where city ~ '^K'",
            json!([["KÖLN", 4]]),
        ),
    ] {
        assert_eq!(asked(&engine, dir.path(), sql), want, "{sql}");
    }
    cities.close();
}
