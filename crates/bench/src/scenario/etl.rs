//! `bench etl`: the published copier, from a file into SQLite or into a table in memory.

use std::path::Path;

use anyhow::{Context as _, bail};
use serde_json::Value as Json;

use super::{Command, Done, Scenario, Verified, app};
use crate::data;

pub(super) struct Etl {
    name: &'static str,
    about: &'static str,
    /// Where the rows go: a store of this URL below the scenario's folder, or memory.
    is_stored: bool,
}

pub(super) const ETL: Etl = Etl {
    name: "etl",
    about: "the ETL copier: lines of 20 bytes through two windows into SQLite",
    is_stored: true,
};

pub(super) const ETL_MEMORY: Etl = Etl {
    name: "etl-memory",
    about: "the ETL copier into a table in memory: what a held row costs",
    is_stored: false,
};

const APP: &str = r#"@App:name('ETLFileRecordsCopier')
@source(type='file', mode='LINE', dir.uri='file:in', action.after.process='MOVE', move.after.process='file:moved', tailing='false', header.present='true',
    @map(type='csv', delimiter='|', @attributes(code = '0', serialNo = '1', amount = '2', fileName = 'trp:file.path', eof = 'trp:eof')))
define stream FileReaderStream (code string, serialNo string, amount double, fileName string, eof string);

@Store(type="rdbms", jdbc.url="jdbc:sqlite:rows.db")
define table AccurateBatchTable(serialNo string, amount double, fileName string, status string, timestamp long);

from FileReaderStream
select serialNo, amount, fileName, "test" as status, eventTimestamp() as timestamp, count() as rowNumber, eof
insert into DataStream;

from DataStream#window.externalTimeBatch(timestamp, 5 sec, timestamp, 10 sec)
select serialNo, amount, fileName, status, timestamp, rowNumber, eof
insert into Gathered;

from Gathered#window.batch()
select serialNo, amount, fileName, status, timestamp
insert into AccurateBatchTable;
"#;

impl Scenario for Etl {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn events(&self) -> u64 {
        6_140_031
    }

    fn published(&self) -> Option<(f64, &'static str, &'static str)> {
        Some((
            71_920.0,
            "rows/s",
            "WSO2 Streaming Integrator 4.0 performance report: 6,140,031 rows in 85,373 ms, Oracle on RDS, 4 cores",
        ))
    }

    fn prepare(&self, dir: &Path, events: u64) -> anyhow::Result<()> {
        let facts = data::etl_lines(&dir.join("records.txt"), events)?;
        std::fs::write(dir.join("cents"), facts.cents.to_string())?;
        Ok(())
    }

    fn command(&self, dir: &Path) -> anyhow::Result<Command> {
        for folder in ["in", "moved"] {
            let folder = dir.join(folder);
            if folder.exists() {
                std::fs::remove_dir_all(&folder)?;
            }
            std::fs::create_dir(&folder)?;
        }
        for end in ["", "-wal", "-shm"] {
            let file = dir.join(format!("rows.db{end}"));
            if file.exists() {
                std::fs::remove_file(file)?;
            }
        }
        std::fs::hard_link(dir.join("records.txt"), dir.join("in/records.txt"))?;
        let (path, mut app) = app(dir, "ETLFileRecordsCopier.siddhi", APP)?;
        let mut path = path;
        if !self.is_stored {
            // The same app with its store annotation taken out: nothing else differs.
            let text = std::fs::read_to_string(&path)?;
            let start = text.find("@Store").context("the app has no store")?;
            let end = text[start..]
                .find("define table")
                .context("the app has no table")?;
            path = dir.join("in-memory.siddhi");
            std::fs::write(&path, format!("{}{}", &text[..start], &text[start + end..]))?;
            app.push_str(", its table in memory");
        }
        let mut args = vec![path.display().to_string()];
        let mut set = |option: &str, value: String| {
            args.extend(["--set".to_owned(), format!("{option}={value}")]);
        };
        set(
            "FileReaderStream.source.dir.uri",
            format!("file:{}", dir.join("in").display()),
        );
        set(
            "FileReaderStream.source.move.after.process",
            format!("file:{}", dir.join("moved").display()),
        );
        if self.is_stored {
            set(
                "AccurateBatchTable.store.jdbc.url",
                format!("jdbc:sqlite:{}", dir.join("rows.db").display()),
            );
        }
        Ok(Command { args, app })
    }

    fn verify(&self, dir: &Path, events: u64, done: &Done) -> anyhow::Result<Verified> {
        let mut verified = Verified::new();
        let moved = dir.join("moved/records.txt").exists();
        verified.equal("files_moved", 1, u64::from(moved));
        if self.is_stored {
            let cents: u64 = std::fs::read_to_string(dir.join("cents"))?.parse()?;
            let found = sqlite(
                &dir.join("rows.db"),
                "select count(*), count(distinct serialNo), cast(round(sum(amount) * 100) as integer) from AccurateBatchTable",
            )?;
            let [rows, serials, sum] = found.as_slice() else {
                bail!("sqlite3 answered {found:?}");
            };
            verified.equal("rows", events, *rows);
            verified.equal("serial_numbers", events, *serials);
            verified.equal("sum_in_cents", cents, *sum);
        } else {
            let inserted = done.summary["apps"][0]["tables"][0]["inserted"].as_u64();
            verified.equal("rows", events, inserted.unwrap_or(0));
            let peak = done.summary["peak_rss_bytes"].as_f64().unwrap_or(0.0);
            verified.note("peak_bytes_per_row", Json::from(peak / events as f64));
        }
        Ok(verified)
    }
}

/// Asks the database's own client, which knows nothing of us.
fn sqlite(database: &Path, query: &str) -> anyhow::Result<Vec<u64>> {
    let output = std::process::Command::new("sqlite3")
        .arg(database)
        .arg(query)
        .output()
        .context("the command 'sqlite3' is needed to verify the rows (package sqlite3)")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.trim()
        .split('|')
        .map(|n| n.parse().with_context(|| text.clone()))
        .collect()
}
