//! `bench types`: every type and every odd value into SQLite, MariaDB and PostgreSQL at once, each row
//! compared by the database's own client, what a database cannot hold looked for among the rejected
//! events.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write as _};

use anyhow::{Context as _, bail};
use serde_json::{Value as Json, json};
use testservers::odd::{DOUBLES, FLOATS, INTS, LONGS, TEXTS, characters};

use super::{Command, Done, Scenario, Verified};
use crate::data::Varied;
use crate::site::{Database, Site};

pub(super) struct Types;

const DATABASES: [&str; 3] = ["sqlite", "mariadb", "postgres"];

/// Texts longer than this are refused by every table.
const LENGTH_MAX: usize = 400;

/// For each database a table that takes null everywhere and one that takes it in texts only.
const APP: &str = r#"@App:name('EveryType')
@App:description('Every type of attribute and every odd value into three databases at once.')

define function bytes[javascript] return object {
    const digits = data[0];
    if (digits === null) return null;
    return Uint8Array.from({length: digits.length / 2}, (_, i) => parseInt(digits.substr(2 * i, 2), 16));
};

@source(type='file', mode='LINE', file.uri='file:rows.json', tailing='false', action.after.process='keep',
    @map(type='json'))
define stream Lines (id long, s string, i int, l long, f string, d string, b bool, o string);
"#;

const QUERY: &str = "
from Lines
select id, s, i, l, convert(f, 'float') as f, convert(d, 'double') as d, b, bytes(o) as o
insert into Rows;
";

/// A row by column.
#[derive(Clone)]
struct Row {
    id: u64,
    s: Option<String>,
    i: Option<i32>,
    l: Option<i64>,
    f: Option<f32>,
    d: Option<f64>,
    b: Option<bool>,
    o: Option<Vec<u8>>,
}

/// One value that takes the place of a plain one.
#[derive(Clone)]
enum Odd {
    S(Option<String>),
    I(Option<i32>),
    L(Option<i64>),
    F(Option<f32>),
    D(Option<f64>),
    B(Option<bool>),
    O(Option<Vec<u8>>),
}

fn odd_values() -> Vec<Odd> {
    let texts = TEXTS.iter().map(|text| (*text).to_owned());
    let texts = texts.chain(["a\0b".to_owned()]).chain(characters());
    let mut all: Vec<Odd> = texts.map(|text| Odd::S(Some(text))).collect();
    all.push(Odd::S(Some(('\u{1}'..='\u{ff}').collect())));
    all.push(Odd::S(Some("é".repeat(LENGTH_MAX))));
    all.push(Odd::S(Some("é".repeat(LENGTH_MAX + 1))));
    all.extend(INTS.map(|v| Odd::I(Some(v))));
    all.extend(LONGS.map(|v| Odd::L(Some(v))));
    all.extend(FLOATS.map(|v| Odd::F(Some(v))));
    all.extend([f32::NAN, f32::INFINITY, f32::NEG_INFINITY].map(|v| Odd::F(Some(v))));
    all.extend(DOUBLES.map(|v| Odd::D(Some(v))));
    all.extend([f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(|v| Odd::D(Some(v))));
    all.push(Odd::B(Some(false)));
    all.extend((0..=255).map(|byte| Odd::O(Some(vec![byte]))));
    all.push(Odd::O(Some((0..=255).collect())));
    all.push(Odd::O(Some(Vec::new())));
    all.extend([Odd::S(None), Odd::I(None), Odd::L(None), Odd::F(None)]);
    all.extend([Odd::D(None), Odd::B(None), Odd::O(None)]);
    all
}

/// Rows with varied values; every second one has an odd value in turn.
fn rows(count: u64) -> impl Iterator<Item = Row> {
    let odd = odd_values();
    let mut varied = Varied::new(4);
    (0..count).map(move |id| {
        let (a, b) = (varied.draw(), varied.draw());
        let mut row = Row {
            id,
            s: Some(format!("plain {a:x}")),
            i: Some(a as i32),
            l: Some(b as i64),
            f: Some((a as i32) as f32 / 8.0),
            d: Some((b as i64) as f64 / 1024.0),
            b: Some(a % 2 == 0),
            o: Some(b.to_be_bytes().to_vec()),
        };
        if id % 2 == 1 {
            match odd[(id / 2) as usize % odd.len()].clone() {
                Odd::S(v) => row.s = v,
                Odd::I(v) => row.i = v,
                Odd::L(v) => row.l = v,
                Odd::F(v) => row.f = v,
                Odd::D(v) => row.d = v,
                Odd::B(v) => row.b = v,
                Odd::O(v) => row.o = v,
            }
        }
        row
    })
}

impl Row {
    fn json(&self) -> Json {
        // Numbers that JSON does not have come as text, which the app converts.
        let (f, d) = (self.f.map(java_text), self.d.map(java_text));
        json!({"event": {
            "id": self.id, "s": self.s, "i": self.i, "l": self.l, "f": f, "d": d, "b": self.b,
            "o": self.o.as_deref().map(hex),
        }})
    }

    /// The column that the table refuses the row for.
    fn refused(&self, database: &Database, takes_null: bool) -> Option<&'static str> {
        let (has_nan, has_infinity, has_nul) = match database {
            Database::Sqlite(_) => (false, true, true),
            Database::MariaDb(_) => (false, false, true),
            Database::Postgres(_) => (true, true, false),
        };
        let is_odd = |v: f64| v.is_nan() && !has_nan || v.is_infinite() && !has_infinity;
        let is_text_refused = self.s.as_deref().is_some_and(|text| {
            text.contains('\0') && !has_nul || text.chars().count() > LENGTH_MAX
        });
        let has_null = |is_none: bool| is_none && !takes_null;
        [
            ("s", is_text_refused),
            ("i", has_null(self.i.is_none())),
            ("l", has_null(self.l.is_none())),
            (
                "f",
                has_null(self.f.is_none()) || self.f.is_some_and(|v| is_odd(v.into())),
            ),
            (
                "d",
                has_null(self.d.is_none()) || self.d.is_some_and(is_odd),
            ),
            ("b", has_null(self.b.is_none())),
            ("o", has_null(self.o.is_none())),
        ]
        .into_iter()
        .find_map(|(column, is_refused)| is_refused.then_some(column))
    }

    /// What the client of the database is to say: texts and bytes as digits, floating numbers by their
    /// bits.
    fn line(&self, database: &Database) -> String {
        let bits = |v: f64| match database {
            // SQLite keeps a whole real as an integer, and MariaDB says no sign of a zero.
            Database::Sqlite(_) | Database::MariaDb(_) if v == 0.0 => 0,
            _ => v.to_bits(),
        };
        let real = |v: Option<f64>| v.map(|v| format!("{:016X}", bits(v)));
        let fields = [
            Some(self.id.to_string()),
            self.s.as_deref().map(|text| hex(text.as_bytes())),
            self.i.map(|v| v.to_string()),
            self.l.map(|v| v.to_string()),
            real(self.f.map(f64::from)),
            real(self.d),
            self.b.map(|v| u8::from(v).to_string()),
            self.o.as_deref().map(hex),
        ];
        let fields = fields.map(|field| field.unwrap_or_else(|| "NULL".into()));
        fields.join("\t")
    }
}

/// As Java reads it.
fn java_text<T: Into<f64> + Copy + std::fmt::Debug>(value: T) -> String {
    match value.into() {
        v if v.is_nan() => "NaN".into(),
        v if v.is_infinite() && v > 0.0 => "Infinity".into(),
        v if v.is_infinite() => "-Infinity".into(),
        _ => format!("{value:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// Name of the table in the app and in the database.
fn table(database: &str, takes_null: bool) -> String {
    format!("{}_{database}", if takes_null { "nulls" } else { "strict" })
}

/// Every table: its database, its name, and whether it takes null.
fn tables() -> impl Iterator<Item = (&'static str, String, bool)> {
    DATABASES.into_iter().flat_map(|database| {
        [true, false].map(|takes_null| (database, table(database, takes_null), takes_null))
    })
}

/// The app with a table and a query for each.
fn app_text(site: &Site) -> String {
    let (mut definitions, mut queries) = (APP.to_owned(), QUERY.to_owned());
    for (database, table, takes_null) in tables() {
        let url = site.jdbc_url(database);
        definitions += &format!(
            "\n@store(type='rdbms', jdbc.url='{url}', allow.null.values='{takes_null}', field.length='s:{LENGTH_MAX}')\n\
             define table {table} (id long, s string, i int, l long, f float, d double, b bool, o object);\n"
        );
        queries += &format!("from Rows select * insert into {table};\n");
    }
    definitions + &queries
}

/// All rows of a table as [`Row::line`] has them.
fn query(database: &Database, table: &str) -> String {
    let columns = match database {
        Database::Sqlite(_) => {
            "id, CASE WHEN s IS NULL THEN 'NULL' ELSE hex(s) END, i, l, \
             CASE WHEN f IS NULL THEN 'NULL' ELSE hex(ieee754_to_blob(f)) END, \
             CASE WHEN d IS NULL THEN 'NULL' ELSE hex(ieee754_to_blob(d)) END, b, \
             CASE WHEN o IS NULL THEN 'NULL' ELSE hex(o) END"
        }
        // It has no function that gives the bits; its shortest text is read instead.
        Database::MariaDb(_) => "id, HEX(s), i, l, CAST(f AS DOUBLE), d, b, HEX(o)",
        Database::Postgres(_) => {
            "id, upper(encode(convert_to(s, 'UTF8'), 'hex')), i, l, \
             upper(encode(float8send(f), 'hex')), upper(encode(float8send(d), 'hex')), b::int, \
             upper(encode(o, 'hex'))"
        }
    };
    format!("SELECT {columns} FROM {table} ORDER BY id")
}

/// A line of MariaDB with the bits of its floating numbers.
fn with_bits(line: &str) -> anyhow::Result<String> {
    let fields = line.split('\t').enumerate().map(|(index, field)| {
        if !matches!(index, 4 | 5) || field == "NULL" {
            return Ok(field.to_owned());
        }
        let value: f64 = field.parse().with_context(|| line.to_owned())?;
        Ok(format!("{:016X}", value.to_bits()))
    });
    Ok(fields.collect::<anyhow::Result<Vec<String>>>()?.join("\t"))
}

/// Rejected events by table and column that their cause names.
fn rejected(site: &Site) -> anyhow::Result<BTreeMap<(String, String), u64>> {
    let output = std::process::Command::new(&site.binary)
        .args(["errors", "list", "--each", "--json"])
        .arg(site.path("state"))
        .output()?;
    let listed: Json = serde_json::from_slice(&output.stdout)?;
    let mut counts = BTreeMap::new();
    for event in listed["events"].as_array().context("no list of events")? {
        let cause = event["cause"].as_str().unwrap_or_default();
        let Some((_, rest)) = cause.split_once("column '") else {
            bail!("a rejected event names no column: {cause}");
        };
        let column = rest.split('\'').next().unwrap_or_default();
        let key = (event["stream"].as_str().unwrap_or_default(), column);
        *counts
            .entry((key.0.to_owned(), key.1.to_owned()))
            .or_default() += 1;
    }
    Ok(counts)
}

impl Scenario for Types {
    fn name(&self) -> &'static str {
        "types"
    }

    fn about(&self) -> &'static str {
        "every type and odd value into SQLite, MariaDB and PostgreSQL at once, with and without nulls"
    }

    fn events(&self) -> u64 {
        1_000_000
    }

    fn published(&self) -> Option<(f64, &'static str, &'static str)> {
        None
    }

    fn servers(&self) -> &'static [&'static str] {
        &["mariadb", "postgres"]
    }

    fn prepare(&self, site: &Site, events: u64) -> anyhow::Result<()> {
        let mut out = BufWriter::new(File::create(site.path("rows.json"))?);
        for row in rows(events) {
            writeln!(out, "{}", row.json())?;
        }
        out.flush()?;
        Ok(std::fs::write(site.path("types.siddhi"), app_text(site))?)
    }

    fn command(&self, site: &Site) -> anyhow::Result<Command> {
        site.empty("state")?;
        for database in DATABASES {
            let names = [true, false].map(|takes_null| table(database, takes_null));
            let names = names.each_ref().map(String::as_str);
            site.database(database).drop_tables(&names)?;
        }
        let path = |name: &str| site.path(name).display().to_string();
        Ok(Command {
            args: vec![
                path("types.siddhi"),
                "--state".into(),
                path("state"),
                "--set".into(),
                format!("Lines.source.file.uri={}", site.uri("rows.json")),
            ],
            app: "an app of our own".into(),
        })
    }

    fn verify(&self, site: &Site, events: u64, done: &Done) -> anyhow::Result<Verified> {
        let mut verified = Verified::new();
        let source = &done.summary["apps"][0]["sources"][0];
        verified.equal(
            "rejected_by_the_source",
            0,
            source["rejected"].as_u64().unwrap_or(1),
        );
        let mut rejected = rejected(site)?;
        for (name, table, takes_null) in tables() {
            let database = site.database(name);
            let held = rows(events).filter(|row| row.refused(&database, takes_null).is_none());
            let expected = held.map(|row| row.line(&database));
            let mut found = database.lines(&query(&database, &table))?;
            if matches!(database, Database::MariaDb(_)) {
                found = found.mapped(with_bits);
            }
            verified.same_lines(&table, found, expected)?;
            let mut refused: BTreeMap<&str, u64> = BTreeMap::new();
            for row in rows(events) {
                if let Some(column) = row.refused(&database, takes_null) {
                    *refused.entry(column).or_default() += 1;
                }
            }
            for (column, count) in refused {
                let kept = rejected.remove(&(table.clone(), column.to_owned()));
                verified.equal(
                    &format!("{table}_rejected_{column}"),
                    count,
                    kept.unwrap_or(0),
                );
            }
        }
        verified.equal("rejected_without_need", 0, rejected.values().sum());
        Ok(verified)
    }
}
