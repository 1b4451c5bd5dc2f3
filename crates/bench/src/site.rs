//! Where a scenario runs: its folder, the servers that it asks for, and databases and topics asked by
//! clients that know nothing of us.

use std::io::{BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context as _, bail};
use testservers::{Order, Running};

pub struct Site {
    pub dir: PathBuf,
    /// The `headwater` that is measured.
    pub binary: PathBuf,
    /// They end with the site.
    servers: Vec<(&'static str, Running)>,
}

impl Site {
    /// Starts the servers.
    ///
    /// # Errors
    /// A server that this machine does not have is named with what brings it.
    pub fn open(dir: PathBuf, binary: PathBuf, servers: &[&'static str]) -> anyhow::Result<Site> {
        let start = |name: &&'static str| {
            let server = Order::new().start(name);
            Ok((*name, server.with_context(|| format!("server '{name}'"))?))
        };
        Ok(Site {
            dir,
            binary,
            servers: servers
                .iter()
                .map(start)
                .collect::<anyhow::Result<Vec<_>>>()?,
        })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// `file:` and the path, as options take it.
    pub fn uri(&self, name: &str) -> String {
        format!("file:{}", self.path(name).display())
    }

    /// An empty folder in the place of what was there.
    pub fn empty(&self, name: &str) -> anyhow::Result<()> {
        let folder = self.path(name);
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        Ok(std::fs::create_dir(&folder)?)
    }

    pub fn server(&self, name: &str) -> &Running {
        let found = self.servers.iter().find(|(own, _)| *own == name);
        &found
            .expect("the scenario names the servers that it uses")
            .1
    }

    /// The database of a server, or `sqlite`: the file `rows.db`.
    pub fn database(&self, name: &'static str) -> Database {
        match name {
            "sqlite" => Database::Sqlite(self.path("rows.db")),
            "postgres" => Database::Postgres(self.server(name).port()),
            name => Database::MariaDb(self.server(name).port()),
        }
    }

    pub fn topic(&self, name: &str) -> Topic {
        Topic {
            endpoint: self.server("kafka").endpoint(),
            name: name.to_owned(),
        }
    }

    /// What an app calls that database.
    pub fn jdbc_url(&self, name: &'static str) -> String {
        match self.database(name) {
            Database::Sqlite(path) => format!("jdbc:sqlite:{}", path.display()),
            _ => self.server(name).endpoint(),
        }
    }
}

/// A topic of Kafka, by a client that is not ours.
pub struct Topic {
    endpoint: String,
    name: String,
}

impl Topic {
    fn kcat(&self, args: &[&str]) -> Command {
        let mut client = Command::new("kcat");
        client
            .args(["-q", "-b", &self.endpoint, "-t", &self.name, "-p", "0"])
            .args(args);
        client
    }

    /// Writes each line as a record of the first partition.
    pub fn fill(&self, lines: impl Iterator<Item = String>) -> anyhow::Result<()> {
        let mut child = self
            .kcat(&["-P", "-X", "linger.ms=50", "-X", "batch.size=1000000"])
            .args(["-X", "queue.buffering.max.messages=500000"])
            .stdin(Stdio::piped())
            .spawn()
            .context("'kcat' does not start; apt-get install kcat brings it")?;
        let stdin = child.stdin.take().context("kcat has no input")?;
        let mut out = BufWriter::with_capacity(1 << 20, stdin);
        for line in lines {
            out.write_all(line.as_bytes())?;
            out.write_all(b"\n")?;
        }
        drop(out.into_inner().map_err(|error| error.into_error())?);
        let status = child.wait()?;
        if !status.success() {
            bail!("kcat ended with {status}");
        }
        Ok(())
    }

    /// Its records in order, from an offset on.
    pub fn records(&self, from: u64) -> anyhow::Result<Lines> {
        let from = from.to_string();
        Lines::of(self.kcat(&["-C", "-e", "-o", &from, "-f", "%s\n"]), "kcat")
    }
}

/// A database and its own client.
pub enum Database {
    Sqlite(PathBuf),
    /// The port on this machine.
    MariaDb(u16),
    Postgres(u16),
}

impl Database {
    pub fn name(&self) -> &'static str {
        match self {
            Database::Sqlite(_) => "SQLite",
            Database::MariaDb(_) => "MariaDB",
            Database::Postgres(_) => "PostgreSQL",
        }
    }

    /// What runs a text as SQL; columns of a result lie between tabs, null is `NULL`.
    fn client(&self) -> (Command, &'static str) {
        match self {
            Database::Sqlite(path) => {
                let mut client = Command::new("sqlite3");
                client.args(["-batch", "-separator", "\t", "-nullvalue", "NULL"]);
                client.arg(path);
                (client, "sqlite3")
            }
            Database::MariaDb(port) => {
                let mut client = Command::new("mariadb");
                client
                    .args(["--no-defaults", "-h127.0.0.1", "-uheadwater", "-pheadwater"])
                    .args(["--default-character-set=utf8mb4", "--local-infile=1"])
                    .args(["-N", "-B", "--quick", "headwater"])
                    .arg(format!("-P{port}"))
                    .arg("-e");
                (client, "mariadb-client")
            }
            Database::Postgres(port) => {
                let mut client = Command::new("psql");
                client
                    .env("PGPASSWORD", "headwater")
                    .args(["-X", "-q", "-t", "-A", "-F", "\t", "-P", "null=NULL"])
                    .args(["-v", "ON_ERROR_STOP=1", "-v", "FETCH_COUNT=10000"])
                    .args(["-h", "127.0.0.1", "-U", "headwater", "-d", "headwater"])
                    .arg(format!("-p{port}"))
                    .arg("-c");
                (client, "postgresql-client")
            }
        }
    }

    /// The lines of a result as they come.
    pub fn lines(&self, sql: &str) -> anyhow::Result<Lines> {
        let (mut client, package) = self.client();
        client.arg(sql);
        Lines::of(client, package)
    }

    /// The whole of a small result, and what is done for its effect.
    pub fn ask(&self, sql: &str) -> anyhow::Result<Vec<String>> {
        let mut lines = self.lines(sql)?;
        let mut all = Vec::new();
        while let Some(line) = lines.next_line()? {
            all.push(line.to_owned());
        }
        Ok(all)
    }

    /// SQL of a column times 100, as a whole number.
    pub fn hundredths(&self, column: &str) -> String {
        let ty = match self {
            Database::MariaDb(_) => "SIGNED",
            Database::Sqlite(_) | Database::Postgres(_) => "BIGINT",
        };
        format!("CAST(round({column} * 100) AS {ty})")
    }

    /// Takes away tables that an earlier run left.
    pub fn drop_tables(&self, tables: &[&str]) -> anyhow::Result<()> {
        if let Database::Sqlite(path) = self {
            return remove_database(path);
        }
        for table in tables {
            self.ask(&format!("DROP TABLE IF EXISTS {table}"))?;
        }
        Ok(())
    }
}

fn remove_database(path: &Path) -> anyhow::Result<()> {
    for end in ["", "-wal", "-shm"] {
        let mut file = path.as_os_str().to_owned();
        file.push(end);
        let file = PathBuf::from(file);
        if file.exists() {
            std::fs::remove_file(file)?;
        }
    }
    Ok(())
}

/// What a client says, line by line.
pub struct Lines {
    child: Child,
    stdout: BufReader<ChildStdout>,
    line: Vec<u8>,
    map: Option<fn(&str) -> anyhow::Result<String>>,
    mapped: String,
}

impl Lines {
    /// Of a command from a Debian package.
    fn of(mut command: Command, package: &str) -> anyhow::Result<Lines> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("a client is missing: install the package {package}"))?;
        let stdout = child.stdout.take().context("it was piped")?;
        Ok(Lines {
            child,
            stdout: BufReader::with_capacity(1 << 20, stdout),
            line: Vec::new(),
            map: None,
            mapped: String::new(),
        })
    }

    /// With each line turned into another.
    pub fn mapped(mut self, map: fn(&str) -> anyhow::Result<String>) -> Lines {
        self.map = Some(map);
        self
    }

    /// `None` at the end.
    ///
    /// # Errors
    /// What the client has to say when it fails.
    pub fn next_line(&mut self) -> anyhow::Result<Option<&str>> {
        self.line.clear();
        if self.stdout.read_until(b'\n', &mut self.line)? == 0 {
            let mut said = String::new();
            if let Some(mut stderr) = self.child.stderr.take() {
                stderr.read_to_string(&mut said)?;
            }
            if !self.child.wait()?.success() {
                bail!("the client says: {}", said.trim());
            }
            return Ok(None);
        }
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        let line = std::str::from_utf8(line)?;
        let Some(map) = self.map else {
            return Ok(Some(line));
        };
        self.mapped = map(line)?;
        Ok(Some(&self.mapped))
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        // Who stops reading in the middle ends the client, too.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
