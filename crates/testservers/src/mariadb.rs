//! MariaDB with a database, user and password that are all `headwater`, and a binary log by rows.
//!
//! Settings of an order are options of the server without their dashes; `tls` is a PEM file with its
//! certificate and key.

use std::path::Path;
use std::process::Command;

use crate::{Error, Place, Recipe, answers, run, version_line};

pub(crate) const MARIADB: MariaDb = MariaDb;

pub(crate) struct MariaDb;

const SERVER: &str = "/usr/sbin/mariadbd";

/// Run at each start. The user is named twice, since an anonymous one of localhost would win.
const INIT: &str = "CREATE DATABASE IF NOT EXISTS headwater;
CREATE USER IF NOT EXISTS 'headwater'@'%' IDENTIFIED BY 'headwater';
CREATE USER IF NOT EXISTS 'headwater'@'localhost' IDENTIFIED BY 'headwater';
GRANT ALL PRIVILEGES ON *.* TO 'headwater'@'%' WITH GRANT OPTION;
GRANT ALL PRIVILEGES ON *.* TO 'headwater'@'localhost' WITH GRANT OPTION;
";

impl Recipe for MariaDb {
    fn name(&self) -> &'static str {
        "mariadb"
    }

    fn about(&self) -> &'static str {
        "MariaDB with a binary log by rows, from Debian"
    }

    fn packages(&self) -> &'static [&'static str] {
        &["mariadb-server", "mariadb-client"]
    }

    fn edition(&self) -> &'static str {
        "debian"
    }

    fn install(&self, _: &Path) -> Result<(), Error> {
        if answers(SERVER, &["--version"]) && answers("mariadb", &["--version"]) {
            return Ok(());
        }
        Err(Error::missing(
            "there is no MariaDB",
            "apt-get install mariadb-server mariadb-client brings it",
        ))
    }

    fn version(&self, _: &Path) -> Result<String, Error> {
        let line = version_line(SERVER, &["--version"])?;
        let version = line
            .split_once("Ver ")
            .map_or(line.as_str(), |(_, rest)| rest);
        let version = version.split_whitespace().next().unwrap_or_default();
        Ok(format!("MariaDB {version}"))
    }

    fn account(&self) -> Option<&'static str> {
        Some("mysql")
    }

    fn launch(&self, place: &Place) -> Result<Command, Error> {
        let data = format!("--datadir={}", place.data().display());
        // Its temporary tables have names that another server may have, too.
        let temporary = format!("--tmpdir={}", place.folder().display());
        if !place.data().join("mysql").is_dir() {
            run(Command::new("mariadb-install-db").args([
                "--no-defaults",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                "--user=mysql",
                &data,
                &temporary,
            ]))?;
        }
        let init = place.write("init.sql", INIT)?;
        let folder = place.folder().display();
        let mut command = Command::new(SERVER);
        command
            .args([
                "--no-defaults",
                "--bind-address=127.0.0.1",
                &data,
                &temporary,
            ])
            .arg(format!("--port={}", place.port()))
            .arg(format!("--socket={folder}/socket"))
            .arg(format!("--pid-file={folder}/pid"))
            .arg(format!("--init-file={}", init.display()))
            .args([
                "--log-bin=binlog",
                "--binlog-format=ROW",
                "--binlog-row-image=FULL",
                "--server-id=1",
                "--innodb-buffer-pool-size=256M",
            ]);
        if let Some(pem) = place.setting("tls") {
            let own = place.copy("server.pem", pem, self.account())?;
            command.arg(format!("--ssl-cert={}", own.display()));
            command.arg(format!("--ssl-key={}", own.display()));
        }
        for (key, value) in place.settings().iter().filter(|(key, _)| key != "tls") {
            command.arg(format!("--{key}={value}"));
        }
        Ok(command)
    }

    fn ready(&self, place: &Place) -> Result<(), String> {
        let mut client = Command::new("mariadb");
        client.arg("--no-defaults");
        select_one(client, place.port())
    }

    fn endpoint(&self, place: &Place) -> String {
        format!(
            "jdbc:mariadb://127.0.0.1:{}/headwater?user=headwater&password=headwater",
            place.port()
        )
    }
}

/// Does the server answer this client, which MySQL's is as well?
pub(crate) fn select_one(mut client: Command, port: u16) -> Result<(), String> {
    client.args(["--host=127.0.0.1", &format!("--port={port}")]);
    client.args(["--user=headwater", "--password=headwater"]);
    client.args(["--execute=SELECT 1", "headwater"]);
    run(&mut client)
        .map(drop)
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use crate::Order;

    #[test]
    fn mariadb_starts_and_stops() {
        let Some(mut server) = Order::new().start_or_skip("mariadb") else {
            return;
        };
        assert!(
            server.version().starts_with("MariaDB 1"),
            "{}",
            server.version()
        );
        server.stop();
        assert_eq!(server.pid(), None);
    }
}
