//! What the protocol of PostgreSQL carries: types, parameters, the catalog that clients ask for.

use std::sync::Arc;

use super::*;
use crate::postgres::{Asked, Asker, Column, Description, Parameter, Part};

fn stored() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    let mut writer = Writer::open(dir.path(), &table("Sales", &COLUMNS, vec![]));
    writer.insert(&[row(1), row(2), vec![Value::Null; COLUMNS.len()]]);
    writer.close();
    let writer = Writer::open(dir.path(), &table("Other", &COLUMNS[..2], vec![]));
    writer.close();
    dir
}

fn asker() -> Asker {
    Asker {
        user: "anna".to_owned(),
        version: "15.0".to_owned(),
        settings: vec![("search_path".to_owned(), "public".to_owned())],
    }
}

type Row = Vec<Option<Vec<u8>>>;

/// Columns and rows of an answer.
fn answered(
    dir: &Path,
    sql: &str,
    parameters: Vec<Parameter>,
    is_binary: bool,
) -> Result<(Vec<Column>, Vec<Row>), Error> {
    let engine = engine();
    let mut answer = engine.rows(Asked {
        store: dir.to_owned(),
        sql: sql.to_owned(),
        parameters,
        columns: None,
        formats: vec![is_binary],
        asker: asker(),
        time: None,
        hide: Arc::new(|text| {
            text.contains("hunter2")
                .then(|| text.replace("hunter2", "…"))
        }),
    });
    let (mut columns, mut rows) = (Vec::new(), Vec::new());
    while let Some(part) = answer.blocking_recv() {
        match part? {
            Part::Columns(all) => columns = all,
            Part::Rows { bytes, count } => {
                let before = rows.len();
                read_rows(&bytes, &mut rows);
                assert_eq!((rows.len() - before) as u64, count);
            }
        }
    }
    Ok((columns, rows))
}

fn read_rows(mut bytes: &[u8], rows: &mut Vec<Row>) {
    let word = |bytes: &[u8]| i32::from_be_bytes(bytes[..4].try_into().expect("four"));
    while let [b'D', rest @ ..] = bytes {
        let (mut body, after) = rest.split_at(word(rest) as usize);
        body = &body[6..];
        let mut row = Vec::new();
        while !body.is_empty() {
            let len = word(body);
            body = &body[4..];
            row.push((len >= 0).then(|| {
                let (value, after) = body.split_at(len as usize);
                body = after;
                value.to_vec()
            }));
        }
        rows.push(row);
        bytes = after;
    }
    assert!(bytes.is_empty(), "whole messages");
}

/// Rows as text, cells between bars, nulls as `-`.
fn texts(dir: &Path, sql: &str) -> Vec<String> {
    let (_, rows) = answered(dir, sql, Vec::new(), false).unwrap_or_else(|e| panic!("{sql}: {e}"));
    let line = |row: &Row| {
        let cells = row.iter().map(|cell| match cell {
            Some(bytes) => String::from_utf8(bytes.clone()).expect("a text"),
            None => "-".to_owned(),
        });
        cells.collect::<Vec<_>>().join("|")
    };
    rows.iter().map(line).collect()
}

#[test]
fn each_type_is_told_by_its_number_and_written_as_text_and_binary() {
    let dir = stored();
    let sql = "select k, name, price, volume, rate, open, extra from sales where k = 1";
    let (columns, rows) = answered(dir.path(), sql, Vec::new(), true).expect("answered");
    let types: Vec<u32> = columns.iter().map(|column| column.oid).collect();
    assert_eq!(types, [23, 25, 701, 20, 700, 16, 17]);
    let want: [&[u8]; 7] = [
        &1_i32.to_be_bytes(),
        b"n1",
        &0.25_f64.to_be_bytes(),
        &(1_i64 << 33).to_be_bytes(),
        &0.1_f32.to_be_bytes(),
        &[0],
        b"{\"k\":1}",
    ];
    let want: Row = want.iter().map(|bytes| Some(bytes.to_vec())).collect();
    assert_eq!(rows, [want]);
    assert_eq!(
        texts(dir.path(), &sql.replace("k = 1", "k = 1 or k is null")),
        [
            "1|n1|0.25|8589934592|0.1|f|\\x7b226b223a317d",
            "-|-|-|-|-|-|-"
        ]
    );
    let odd = "select timestamp '2026-01-02 03:04:05.6', date '1999-12-31', cast('1.50' as decimal(10,2)), \
               arrow_cast('18446744073709551615', 'UInt64'), interval '1 day', 'hunter2!', null";
    assert_eq!(
        texts(dir.path(), odd)[0].replace("18446744073709551615", "max"),
        "2026-01-02 03:04:05.6|1999-12-31|1.50|max|1 days|…!|-"
    );
}

fn described(dir: &Path, sql: &str, types: &[u32]) -> Result<Description, Error> {
    let engine = engine();
    let described = engine.describe(dir.to_owned(), sql.to_owned(), types.to_vec(), asker());
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(described)
}

#[test]
fn parameters_get_their_types_from_what_they_are_compared_with() {
    let dir = stored();
    for (sql, given, want) in [
        ("select 1", &[][..], &[][..]),
        (
            "select name from sales where price > $1 and k = $2",
            &[],
            &[701, 23],
        ),
        ("select name from sales where price > $1", &[20], &[20]),
        ("select $1", &[], &[25]),
        ("select $1::int + 1, $2", &[0, 16], &[23, 16]),
        (
            "select name from sales where name = $1 limit $2",
            &[],
            &[25, 20],
        ),
    ] {
        let described = described(dir.path(), sql, given).unwrap_or_else(|e| panic!("{sql}: {e}"));
        assert_eq!(described.parameters, want, "{sql}");
    }
    let value = |oid, text: &str| Parameter {
        oid,
        is_binary: false,
        bytes: Some(text.as_bytes().to_vec()),
    };
    let sql = "select name, $3 as it from sales where price > $1 and k = $2";
    let values = vec![
        value(701, "0.3"),
        value(23, "2"),
        value(25, "'; drop table sales; --"),
    ];
    let (columns, rows) = answered(dir.path(), sql, values, false).expect("answered");
    assert_eq!(columns[1].name, "it");
    let want = [
        Some(b"n2".to_vec()),
        Some(b"'; drop table sales; --".to_vec()),
    ];
    assert_eq!(rows, [want.to_vec()]);
    let refused = answered(dir.path(), sql, vec![value(23, "x")], false).expect_err("no number");
    assert!(
        refused
            .to_string()
            .contains("the value of $1 is no whole number"),
        "{refused}"
    );
    let refused = described(dir.path(), "select $2000", &[]).expect_err("too many");
    assert!(
        refused.to_string().contains("'$2000' is no parameter"),
        "{refused}"
    );
}

#[test]
fn an_error_has_its_place() {
    let dir = stored();
    let Err(Error::Statement(fault)) = described(dir.path(), "select pric\nfrom sales", &[]) else {
        panic!("it is wrong");
    };
    assert_eq!(
        (fault.span.start, fault.help.as_deref()),
        (7, Some("did you mean 'Price'?"))
    );
    let Err(Error::Statement(fault)) = described(dir.path(), "delete from sales", &[]) else {
        panic!("it is refused");
    };
    assert!(fault.message.contains("only statements that read"));
}

/// As `psql` 15 asks.
const LIST_TABLES: &str = "SELECT n.nspname as \"Schema\",
  c.relname as \"Name\",
  CASE c.relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' WHEN 'S' THEN 'sequence' END as \"Type\",
  pg_catalog.pg_get_userbyid(c.relowner) as \"Owner\"
FROM pg_catalog.pg_class c
     LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     LEFT JOIN pg_catalog.pg_am am ON am.oid = c.relam
WHERE c.relkind IN ('r','p','')
      AND n.nspname <> 'pg_catalog'
      AND n.nspname !~ '^pg_toast'
      AND n.nspname <> 'information_schema'
  AND pg_catalog.pg_table_is_visible(c.oid)
ORDER BY 1,2;";

const ONE_TABLE: &str = "SELECT c.oid,
  n.nspname,
  c.relname
FROM pg_catalog.pg_class c
     LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname OPERATOR(pg_catalog.~) '^(sales)$' COLLATE pg_catalog.default
  AND pg_catalog.pg_table_is_visible(c.oid)
ORDER BY 2, 3;";

const COLUMNS_OF_ONE: &str = "SELECT a.attname,
  pg_catalog.format_type(a.atttypid, a.atttypmod),
  (SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid, true)
   FROM pg_catalog.pg_attrdef d
   WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.atthasdef),
  a.attnotnull,
  (SELECT c.collname FROM pg_catalog.pg_collation c, pg_catalog.pg_type t
   WHERE c.oid = a.attcollation AND t.oid = a.atttypid AND a.attcollation <> t.typcollation) AS attcollation,
  a.attidentity,
  a.attgenerated
FROM pg_catalog.pg_attribute a
WHERE a.attrelid = '{oid}' AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum;";

const POLICIES: &str = "SELECT pol.polname, pol.polpermissive,
  CASE WHEN pol.polroles = '{0}' THEN NULL ELSE pg_catalog.array_to_string(array(select rolname from pg_catalog.pg_roles where oid = any (pol.polroles) order by 1),',') END,
  pg_catalog.pg_get_expr(pol.polqual, pol.polrelid),
  pg_catalog.pg_get_expr(pol.polwithcheck, pol.polrelid),
  CASE pol.polcmd
    WHEN 'r' THEN 'SELECT'
    WHEN 'a' THEN 'INSERT'
    END AS cmd
FROM pg_catalog.pg_policy pol
WHERE pol.polrelid = '16384' ORDER BY 1;";

const PUBLICATIONS: &str = "SELECT pubname
     , NULL
     , NULL
FROM pg_catalog.pg_publication p
     JOIN pg_catalog.pg_publication_namespace pn ON p.oid = pn.pnpubid
     JOIN pg_catalog.pg_class pc ON pc.relnamespace = pn.pnnspid
WHERE pc.oid ='16384' and pg_catalog.pg_relation_is_publishable('16384')
UNION
SELECT pubname
     , pg_get_expr(pr.prqual, c.oid)
     , (CASE WHEN pr.prattrs IS NOT NULL THEN
         (SELECT string_agg(attname, ', ')
           FROM pg_catalog.generate_series(0, pg_catalog.array_upper(pr.prattrs::pg_catalog.int2[], 1)) s,
                pg_catalog.pg_attribute
          WHERE attrelid = pr.prrelid AND attnum = prattrs[s])
        ELSE NULL END) FROM pg_catalog.pg_publication p
     JOIN pg_catalog.pg_publication_rel pr ON p.oid = pr.prpubid
     JOIN pg_catalog.pg_class c ON c.oid = pr.prrelid
WHERE pr.prrelid = '16384'
UNION
SELECT pubname
     , NULL
     , NULL
FROM pg_catalog.pg_publication p
WHERE p.puballtables AND pg_catalog.pg_relation_is_publishable('16384')
ORDER BY 1;";

#[test]
fn the_catalog_answers_what_clients_ask() {
    let dir = stored();
    let dir = dir.path();
    assert_eq!(
        texts(dir, LIST_TABLES),
        [
            "public|other|table|headwater",
            "public|sales|table|headwater"
        ]
    );
    let one = texts(dir, ONE_TABLE);
    let [one] = &one[..] else {
        panic!("one table: {one:?}")
    };
    let (oid, rest) = one.split_once('|').expect("columns");
    assert_eq!(rest, "public|sales");
    let columns = texts(dir, &COLUMNS_OF_ONE.replace("{oid}", oid));
    assert!(
        columns.contains(&"Price|double precision|-|f|-||".to_owned()),
        "{columns:?}"
    );
    for none in [POLICIES, PUBLICATIONS] {
        assert_eq!(texts(dir, none), [""; 0]);
    }
    for (sql, want) in [
        (
            "select version()",
            &format!("PostgreSQL 15.0 (Headwater {})", env!("CARGO_PKG_VERSION"))[..],
        ),
        (
            "select current_user, current_database(), current_schema()",
            "anna|store|public",
        ),
        ("select pg_catalog.current_setting('search_path')", "public"),
        ("select count(*) from pg_catalog.pg_index", "0"),
        (
            "select count(*) from pg_class where relkind = any('{r,v}')",
            "2",
        ),
        (
            "select 'sales'::regclass::oid = c.oid from pg_class c where relname = 'sales'",
            "t",
        ),
        (
            "select c.oid::regclass from pg_class c where relname = 'sales'",
            "sales",
        ),
        (
            "select d.datname, pg_catalog.pg_encoding_to_char(d.encoding) from pg_catalog.pg_database d",
            "store|UTF8",
        ),
        (
            "select typname from pg_type where oid = 'int4'::regtype",
            "int4",
        ),
        ("select exists(select 1 from pg_catalog.pg_policy)", "f"),
        (
            "select table_name from information_schema.tables where table_schema = 'public' order by 1 limit 1",
            "other",
        ),
    ] {
        assert_eq!(texts(dir, sql), [want], "{sql}");
    }
}
