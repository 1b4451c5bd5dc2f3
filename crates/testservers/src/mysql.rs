//! MySQL with a database, user and password that are all `headwater`, and a binary log by rows with
//! GTIDs.
//!
//! Debian has it in its unstable suite only: it is unpacked with the libraries that it was built for
//! into a folder of its own, and nothing is installed. Settings of an order are options of the server
//! without their dashes; `tls` is a PEM file with key and certificate.

use std::path::Path;
use std::process::Command;

use crate::mariadb::select_one;
use crate::{Error, Place, Recipe, debian, run};

pub(crate) const MYSQL: MySql = MySql;

pub(crate) struct MySql;

/// Run at each start.
const INIT: &str = "CREATE DATABASE IF NOT EXISTS headwater;
CREATE USER IF NOT EXISTS 'headwater'@'%' IDENTIFIED BY 'headwater';
GRANT ALL PRIVILEGES ON *.* TO 'headwater'@'%' WITH GRANT OPTION;
";

/// An empty data folder, made once: to make one takes ten seconds.
const EMPTY: &str = "data";

/// A small log of changes to pages, here and when data folders are made.
const SMALL: &str = "--innodb-redo-log-capacity=8M";

const SERVER: &str = "usr/sbin/mysqld";
const CLIENT: &str = "usr/bin/mysql";

/// The server or its client, with options that both take first.
fn program(installed: &Path, path: &str) -> Command {
    let mut command = debian::unpacked(installed, path);
    command.arg("--no-defaults");
    command
}

/// An option that names a folder of the installation.
fn within(installed: &Path, option: &str, path: &str) -> String {
    format!("--{option}={}", installed.join(path).display())
}

/// What the server finds nowhere but where Debian installs it.
fn surroundings(installed: &Path) -> [String; 2] {
    [
        within(installed, "lc-messages-dir", "usr/share/mysql"),
        within(installed, "plugin-dir", "usr/lib/mysql/plugin"),
    ]
}

impl Recipe for MySql {
    fn name(&self) -> &'static str {
        "mysql"
    }

    fn about(&self) -> &'static str {
        "MySQL with a binary log by rows and GTIDs, from Debian's unstable suite"
    }

    fn packages(&self) -> &'static [&'static str] {
        &["debian-archive-keyring", "dpkg"]
    }

    fn edition(&self) -> &'static str {
        "unstable-a"
    }

    fn install(&self, into: &Path) -> Result<(), Error> {
        debian::unpack_unstable(&["mysql-server-core", "mysql-client-core"], into)?;
        run(program(into, SERVER)
            .args(["--initialize-insecure", "--user=root", SMALL])
            .arg(within(into, "datadir", EMPTY))
            .args(surroundings(into)))?;
        // Each server is to have an identity of its own.
        std::fs::remove_file(into.join(EMPTY).join("auto.cnf"))
            .map_err(|error| Error::failed("the data folder is not as expected", error))
    }

    fn version(&self, installed: &Path) -> Result<String, Error> {
        let line = run(program(installed, SERVER).arg("--version"))?;
        let version = line
            .split_once("Ver ")
            .map_or(line.as_str(), |(_, rest)| rest);
        let version = version.split_whitespace().next().unwrap_or_default();
        Ok(format!("MySQL {version}"))
    }

    fn launch(&self, place: &Place) -> Result<Command, Error> {
        if !place.data().join("mysql").is_dir() {
            run(Command::new("cp")
                .arg("-rT")
                .arg(place.installed().join(EMPTY))
                .arg(place.data()))?;
        }
        let init = place.write("init.sql", INIT)?;
        let folder = place.folder().display();
        let mut command = program(place.installed(), SERVER);
        command
            .args(["--user=root", "--bind-address=127.0.0.1", "--mysqlx=OFF"])
            .args(surroundings(place.installed()))
            .arg(format!("--datadir={}", place.data().display()))
            .arg(format!("--tmpdir={folder}"))
            .arg(format!("--port={}", place.port()))
            .arg(format!("--socket={folder}/socket"))
            .arg(format!("--pid-file={folder}/pid"))
            .arg(format!("--init-file={}", init.display()))
            .args([
                SMALL,
                "--log-bin=binlog",
                "--server-id=1",
                "--gtid-mode=ON",
                "--enforce-gtid-consistency=ON",
                "--local-infile=ON",
                "--secure-file-priv=NULL",
                "--innodb-buffer-pool-size=128M",
            ]);
        if let Some(pem) = place.setting("tls") {
            command.args([format!("--ssl-cert={pem}"), format!("--ssl-key={pem}")]);
        }
        for (key, value) in place.settings().iter().filter(|(key, _)| key != "tls") {
            command.arg(format!("--{key}={value}"));
        }
        Ok(command)
    }

    fn ready(&self, place: &Place) -> Result<(), String> {
        select_one(program(place.installed(), CLIENT), place.port())
    }

    fn endpoint(&self, place: &Place) -> String {
        format!(
            "jdbc:mysql://127.0.0.1:{}/headwater?user=headwater&password=headwater",
            place.port()
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::Order;

    #[test]
    fn mysql_starts_and_stops() {
        let Some(mut server) = Order::new().start_or_skip("mysql") else {
            return;
        };
        let version = server.version();
        assert!(version.starts_with("MySQL "), "{version}");
        server.stop();
        assert_eq!(server.pid(), None);
    }
}
