//! PostgreSQL with a database, user and password that are all `headwater`, ready for logical
//! replication. It asks for the password by SCRAM.
//!
//! Settings of an order are lines of `postgresql.conf`; `tls` is a PEM file with its certificate and
//! key.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Error, Place, Recipe, StopSignal, run, under, version_line};

pub(crate) const POSTGRES: Postgres = Postgres;

pub(crate) struct Postgres;

/// Where Debian has one folder a version.
const VERSIONS: &str = "/usr/lib/postgresql";

const ACCOUNT: &str = "postgres";

impl Recipe for Postgres {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn about(&self) -> &'static str {
        "PostgreSQL, ready for logical replication, from Debian"
    }

    fn packages(&self) -> &'static [&'static str] {
        &["postgresql", "postgresql-client"]
    }

    fn edition(&self) -> &'static str {
        "debian"
    }

    fn install(&self, _: &Path) -> Result<(), Error> {
        programs().map(drop)
    }

    fn version(&self, _: &Path) -> Result<String, Error> {
        let server = programs()?.join("postgres");
        let line = version_line(&server.to_string_lossy(), &["--version"])?;
        let version = line.split_whitespace().nth(2).unwrap_or_default();
        Ok(format!("PostgreSQL {version}"))
    }

    fn account(&self) -> Option<&'static str> {
        Some(ACCOUNT)
    }

    fn launch(&self, place: &Place) -> Result<Command, Error> {
        let programs = programs()?;
        if !place.data().join("PG_VERSION").is_file() {
            let password = place.write("password", "headwater\n")?;
            run(under(Some(ACCOUNT), programs.join("initdb"))
                .args(["--username=headwater", "--auth=scram-sha-256"])
                .args(["--encoding=UTF8", "--locale=C.UTF-8"])
                .arg(format!("--pwfile={}", password.display()))
                .arg(format!("--pgdata={}", place.data().display()))
                .current_dir(place.folder()))?;
        }
        let mut command = Command::new(programs.join("postgres"));
        command
            .arg("-D")
            .arg(place.data())
            .args(["-p", &place.port().to_string(), "-k"])
            .arg(place.folder());
        let own = [
            ("listen_addresses", "127.0.0.1"),
            ("wal_level", "logical"),
            ("max_wal_senders", "8"),
            ("max_replication_slots", "8"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()));
        if let Some(pem) = place.setting("tls") {
            let own = place.copy("server.pem", pem, self.account())?;
            for key in ["ssl_cert_file", "ssl_key_file"] {
                command.arg("-c").arg(format!("{key}={}", own.display()));
            }
            command.args(["-c", "ssl=on"]);
        }
        let settings = place.settings().iter().filter(|(key, _)| key != "tls");
        for (key, value) in own.iter().chain(settings) {
            command.arg("-c").arg(format!("{key}={value}"));
        }
        Ok(command)
    }

    fn ready(&self, place: &Place) -> Result<(), String> {
        let ask = |database: &str, sql: &str| {
            run(Command::new("psql")
                .env("PGPASSWORD", "headwater")
                .args(["-X", "-q", "-t", "-A", "-h", "127.0.0.1", "-U", "headwater"])
                .args(["-p", &place.port().to_string(), "-d", database, "-c", sql]))
            .map_err(|error| error.to_string())
        };
        let found = ask(
            "postgres",
            "SELECT 1 FROM pg_database WHERE datname = 'headwater'",
        )?;
        if found.trim().is_empty() {
            ask("postgres", "CREATE DATABASE headwater")?;
        }
        Ok(())
    }

    fn endpoint(&self, place: &Place) -> String {
        format!(
            "jdbc:postgresql://127.0.0.1:{}/headwater?user=headwater&password=headwater",
            place.port()
        )
    }

    /// The fast way: a polite one waits for its clients to go.
    fn stop_signal(&self) -> StopSignal {
        StopSignal::INT
    }
}

/// The folder of the newest version.
fn programs() -> Result<PathBuf, Error> {
    let versions = std::fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let newest = versions
        .filter_map(|entry| {
            let number: u32 = entry.file_name().to_str()?.parse().ok()?;
            let programs = entry.path().join("bin");
            programs
                .join("initdb")
                .is_file()
                .then_some((number, programs))
        })
        .max();
    newest.map(|(_, programs)| programs).ok_or_else(|| {
        Error::missing(
            "there is no PostgreSQL",
            "apt-get install postgresql postgresql-client brings it",
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::Order;

    #[test]
    fn postgres_starts_and_stops() {
        let Some(mut server) = Order::new().start_or_skip("postgres") else {
            return;
        };
        assert!(
            server.version().starts_with("PostgreSQL 1"),
            "{}",
            server.version()
        );
        server.stop();
        assert_eq!(server.pid(), None);
    }
}
