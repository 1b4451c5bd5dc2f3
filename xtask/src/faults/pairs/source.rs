//! Where the events of a pair come from, and how they are written there.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::play::Site;
use super::sql::Client;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// One file that grows.
    File,
    /// Files that are moved when they were read.
    Folder,
    Kafka,
    /// A member of a consumer group.
    Group,
    Http,
    CdcMariaDb,
    CdcPostgres,
}

/// How long a client waits for an answer before it takes its request for lost.
const ANSWER_MAX: Duration = Duration::from_secs(10);

impl Source {
    pub const ALL: &[Source] = &[
        Source::File,
        Source::Folder,
        Source::Kafka,
        Source::Group,
        Source::Http,
        Source::CdcMariaDb,
        Source::CdcPostgres,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Source::File => "a file that grows",
            Source::Folder => "files that are moved",
            Source::Kafka => "Kafka, partitions named",
            Source::Group => "Kafka, as a group",
            Source::Http => "HTTP requests",
            Source::CdcMariaDb => "CDC of MariaDB",
            Source::CdcPostgres => "CDC of PostgreSQL",
        }
    }

    pub fn about(self) -> &'static str {
        match self {
            Source::File => "`file` with `tailing='true'`",
            Source::Folder => "`file` with `action.after.process='move'`",
            Source::Kafka => "`kafka` with `partition.no.list`",
            Source::Group => "`kafka` as a member of a group, while others join and leave",
            Source::Http => "`http`: what was answered with 200",
            Source::CdcMariaDb => "`cdc` of MariaDB, inserts",
            Source::CdcPostgres => "`cdc` of PostgreSQL, inserts",
        }
    }

    /// The server that it needs.
    pub fn server(self) -> Option<&'static str> {
        match self {
            Source::File | Source::Folder | Source::Http => None,
            Source::Kafka | Source::Group => Some("kafka"),
            Source::CdcMariaDb => Some("mariadb"),
            Source::CdcPostgres => Some("postgres"),
        }
    }

    /// `@source` of the app.
    pub fn text(self, site: &Site) -> String {
        let dir = site.dir.display();
        let csv = "@map(type='csv')";
        match self {
            Source::File => format!(
                "type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='true', file.polling.interval='20', {csv}"
            ),
            Source::Folder => format!(
                "type='file', mode='line', dir.uri='file:{dir}/in', tailing='false', file.polling.interval='20', action.after.process='move', move.after.process='file:{dir}/done', {csv}"
            ),
            Source::Kafka | Source::Group => {
                let partitions = match self {
                    Source::Kafka => "partition.no.list='0', ",
                    _ => "",
                };
                format!(
                    "type='kafka', bootstrap.servers='{}', topic.list='in', group.id='ledger', threading.option='single.thread', {partitions}{csv}",
                    site.endpoint("kafka")
                )
            }
            Source::Http => format!(
                "type='http', receiver.url='http://127.0.0.1:{}/in', {csv}",
                site.port
            ),
            Source::CdcMariaDb | Source::CdcPostgres => format!(
                "type='cdc', url='{}', username='headwater', password='headwater', table.name='events', operation='insert', @map(type='keyvalue')",
                site.endpoint(self.server().unwrap_or_default())
            ),
        }
    }

    /// Before the first run.
    pub fn prepare(self, site: &Site) -> anyhow::Result<()> {
        match self {
            Source::File => fs::write(site.dir.join("in.csv"), "")?,
            Source::Folder => {
                for folder in ["in", "done", "coming"] {
                    fs::create_dir(site.dir.join(folder))?;
                }
            }
            Source::CdcMariaDb | Source::CdcPostgres => {
                let name = self.server().unwrap_or_default();
                let table = "create table events (n bigint primary key, k bigint, v bigint)";
                testservers::sql(name, site.server(name)?.port(), table)?;
            }
            Source::Kafka | Source::Group | Source::Http => {}
        }
        Ok(())
    }

    pub fn feed(self, site: &Site) -> anyhow::Result<Box<dyn Feed>> {
        Ok(match self {
            Source::File => {
                let path = site.dir.join("in.csv");
                Box::new(File(fs::File::options().append(true).open(path)?))
            }
            Source::Folder => Box::new(Folder(site.dir.clone())),
            Source::Kafka | Source::Group => Box::new(Producer::start(&site.endpoint("kafka"))?),
            Source::Http => Box::new(Requests {
                port: site.port,
                stream: None,
            }),
            Source::CdcMariaDb | Source::CdcPostgres => {
                let name = self.server().unwrap_or_default();
                Box::new(Rows(Client::connect(name, site.server(name)?.port())?))
            }
        })
    }
}

/// What became of some events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fed {
    /// The source answers for them.
    Taken,
    /// They may be in or not.
    Unsure,
    /// Nobody has seen them.
    NotSent,
}

/// Where events are written.
pub trait Feed {
    /// Gives lines to the source; the first event has this number.
    fn give(&mut self, first: u64, lines: &[String]) -> anyhow::Result<Fed>;

    /// All is written.
    fn end(self: Box<Self>) -> anyhow::Result<()> {
        Ok(())
    }
}

struct File(fs::File);

impl Feed for File {
    fn give(&mut self, _: u64, lines: &[String]) -> anyhow::Result<Fed> {
        self.0.write_all((lines.join("\n") + "\n").as_bytes())?;
        Ok(Fed::Taken)
    }
}

/// A file that is there is whole: it is written elsewhere.
struct Folder(PathBuf);

impl Feed for Folder {
    fn give(&mut self, first: u64, lines: &[String]) -> anyhow::Result<Fed> {
        let name = format!("{first:010}.csv");
        let coming = self.0.join("coming").join(&name);
        fs::write(&coming, lines.join("\n") + "\n")?;
        fs::rename(coming, self.0.join("in").join(name))?;
        Ok(Fed::Taken)
    }
}

struct Producer(Child);

impl Producer {
    fn start(broker: &str) -> anyhow::Result<Producer> {
        let client = Command::new("kcat")
            .args(["-q", "-b", broker, "-P", "-t", "in", "-p", "0"])
            .args(["-X", "enable.idempotence=true", "-X", "linger.ms=5"])
            .stdin(Stdio::piped())
            .spawn();
        let client = client.context("the command 'kcat' is needed (package kcat)")?;
        Ok(Producer(client))
    }
}

impl Feed for Producer {
    fn give(&mut self, _: u64, lines: &[String]) -> anyhow::Result<Fed> {
        let input = self.0.stdin.as_mut().context("kcat has no input")?;
        input.write_all((lines.join("\n") + "\n").as_bytes())?;
        Ok(Fed::Taken)
    }

    fn end(mut self: Box<Self>) -> anyhow::Result<()> {
        drop(self.0.stdin.take());
        ensure!(self.0.wait()?.success(), "kcat could not write all events");
        Ok(())
    }
}

/// A client that sends again nothing that may have arrived.
struct Requests {
    port: u16,
    stream: Option<BufReader<TcpStream>>,
}

impl Requests {
    fn post(&mut self, body: &str) -> std::io::Result<bool> {
        let stream = self
            .stream
            .as_mut()
            .ok_or(std::io::ErrorKind::NotConnected)?;
        let head = format!(
            "POST /in HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/csv\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.get_mut().write_all((head + body).as_bytes())?;
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let is_taken = line.contains(" 200 ");
        let mut length = 0;
        while !line.trim_end().is_empty() {
            line.clear();
            stream.read_line(&mut line)?;
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        stream.read_exact(&mut vec![0; length])?;
        Ok(is_taken)
    }
}

impl Feed for Requests {
    fn give(&mut self, _: u64, lines: &[String]) -> anyhow::Result<Fed> {
        if self.stream.is_none() {
            let Ok(stream) = TcpStream::connect(("127.0.0.1", self.port)) else {
                return Ok(Fed::NotSent);
            };
            stream.set_read_timeout(Some(ANSWER_MAX))?;
            self.stream = Some(BufReader::new(stream));
        }
        match self.post(&(lines.join("\n") + "\n")) {
            Ok(true) => Ok(Fed::Taken),
            Ok(false) | Err(_) => {
                self.stream = None;
                Ok(Fed::Unsure)
            }
        }
    }
}

/// Rows of a table whose changes are read.
struct Rows(Client);

impl Feed for Rows {
    fn give(&mut self, _: u64, lines: &[String]) -> anyhow::Result<Fed> {
        let rows: Vec<String> = lines.iter().map(|line| format!("({line})")).collect();
        let rows = rows.join(",");
        self.0
            .tell(&format!("insert into events (n, k, v) values {rows}"))?;
        Ok(Fed::Taken)
    }

    fn end(self: Box<Self>) -> anyhow::Result<()> {
        self.0.end()
    }
}

/// Files that were moved so far.
pub fn moved(dir: &Path) -> usize {
    fs::read_dir(dir.join("done")).map_or(0, Iterator::count)
}
