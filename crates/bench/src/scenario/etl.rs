//! `bench etl`: the published copier, from a file into SQLite, MariaDB, PostgreSQL or a table in memory.

use anyhow::Context as _;
use serde_json::Value as Json;

use super::{Command, Done, Scenario, Verified, app};
use crate::data;
use crate::site::{Database, Site};

pub(super) struct Etl {
    name: &'static str,
    about: &'static str,
    /// Where the rows go; without, they stay in memory.
    database: Option<&'static str>,
    servers: &'static [&'static str],
    events: u64,
}

pub(super) const ETL: Etl = Etl {
    name: "etl",
    about: "the ETL copier: lines of 20 bytes through two windows into SQLite",
    database: Some("sqlite"),
    servers: &[],
    events: 6_140_031,
};

pub(super) const ETL_MARIADB: Etl = Etl {
    name: "etl-mariadb",
    about: "the ETL copier into MariaDB",
    database: Some("mariadb"),
    servers: &["mariadb"],
    events: 1_000_000,
};

pub(super) const ETL_MEMORY: Etl = Etl {
    name: "etl-memory",
    about: "the ETL copier into a table in memory: what a held row costs",
    database: None,
    servers: &[],
    events: 6_140_031,
};

pub(super) const ETL_POSTGRES: Etl = Etl {
    name: "etl-postgres",
    about: "the ETL copier into PostgreSQL",
    database: Some("postgres"),
    servers: &["postgres"],
    events: 1_000_000,
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
        self.events
    }

    fn servers(&self) -> &'static [&'static str] {
        self.servers
    }

    fn published(&self) -> Option<(f64, &'static str, &'static str)> {
        Some((
            71_920.0,
            "rows/s",
            "WSO2 Streaming Integrator 4.0 performance report: 6,140,031 rows in 85,373 ms, Oracle on RDS, 4 cores",
        ))
    }

    fn prepare(&self, site: &Site, events: u64) -> anyhow::Result<()> {
        data::etl_lines(&site.path("records.txt"), events)?;
        Ok(())
    }

    fn command(&self, site: &Site) -> anyhow::Result<Command> {
        site.empty("in")?;
        site.empty("moved")?;
        std::fs::hard_link(site.path("records.txt"), site.path("in/records.txt"))?;
        if let Some(database) = self.database {
            site.database(database)
                .drop_tables(&["AccurateBatchTable"])?;
        }
        let (path, mut app) = app(site, "ETLFileRecordsCopier.siddhi", APP)?;
        let mut path = path;
        if self.database.is_none() {
            // The same app with its store annotation taken out: nothing else differs.
            let text = std::fs::read_to_string(&path)?;
            let start = text.find("@Store").context("the app has no store")?;
            let end = text[start..]
                .find("define table")
                .context("the app has no table")?;
            path = site.path("in-memory.siddhi");
            std::fs::write(&path, format!("{}{}", &text[..start], &text[start + end..]))?;
            app.push_str(", its table in memory");
        }
        let mut args = vec![path.display().to_string()];
        let mut set = |option: &str, value: String| {
            args.extend(["--set".to_owned(), format!("{option}={value}")]);
        };
        set("FileReaderStream.source.dir.uri", site.uri("in"));
        set(
            "FileReaderStream.source.move.after.process",
            site.uri("moved"),
        );
        if let Some(database) = self.database {
            set("AccurateBatchTable.store.jdbc.url", site.jdbc_url(database));
            if !self.servers.is_empty() {
                set("AccurateBatchTable.store.username", "headwater".into());
                set("AccurateBatchTable.store.password", "headwater".into());
            }
        }
        Ok(Command { args, app })
    }

    fn verify(&self, site: &Site, events: u64, done: &Done) -> anyhow::Result<Verified> {
        let mut verified = Verified::new();
        let moved = site.path("moved/records.txt").exists();
        verified.equal("files_moved", 1, u64::from(moved));
        if let Some(database) = self.database {
            let file = site.path("in/records.txt").display().to_string();
            let expected = data::etl_rows(events)
                .map(|(row, cents)| format!("{row:07}\t{cents}\t{file}\ttest"));
            let database = site.database(database);
            // The one that can be asked for the order of arrival is.
            let order = match database {
                Database::Sqlite(_) => "rowid",
                _ => "serialNo",
            };
            let sql = format!(
                "SELECT serialNo, {}, fileName, status FROM AccurateBatchTable ORDER BY {order}",
                database.hundredths("amount")
            );
            verified.same_lines("rows", database.lines(&sql)?, expected)?;
            verified.note("client_of", database.name());
        } else {
            let inserted = done.summary["apps"][0]["tables"][0]["inserted"].as_u64();
            verified.equal("rows", events, inserted.unwrap_or(0));
            let peak = done.summary["peak_rss_bytes"].as_f64().unwrap_or(0.0);
            verified.note("peak_bytes_per_row", Json::from(peak / events as f64));
        }
        Ok(verified)
    }
}
