//! Pairs of source and sink that are killed with -9 again and again under load, and what their promise
//! comes to. A pair is a line of [`PAIRS`].

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use testservers::{Order, Running as Server};

use super::bench::{Bench, kill};
use super::chance::Chance;
use super::ledger::{Tally, line};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    File,
    Kafka,
    /// A member of a consumer group.
    Group,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sink {
    Sqlite,
    File,
    /// In transactions.
    Kafka,
}

pub struct Pair {
    pub name: &'static str,
    source: Source,
    sink: Sink,
}

impl Pair {
    fn is_exactly_once(&self) -> bool {
        self.sink != Sink::File
    }
}

const fn pair(name: &'static str, source: Source, sink: Sink) -> Pair {
    Pair { name, source, sink }
}

pub const PAIRS: &[Pair] = &[
    pair("file -> SQLite", Source::File, Sink::Sqlite),
    pair("file -> file", Source::File, Sink::File),
    pair("file -> Kafka", Source::File, Sink::Kafka),
    pair("Kafka -> SQLite", Source::Kafka, Sink::Sqlite),
    pair("Kafka -> file", Source::Kafka, Sink::File),
    pair("Kafka -> Kafka", Source::Kafka, Sink::Kafka),
    pair("Kafka group -> SQLite", Source::Group, Sink::Sqlite),
    pair("Kafka group -> Kafka", Source::Group, Sink::Kafka),
];

/// When a run is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// Within 0.4 s of its start.
    Early,
    /// Up to 2 s after its first new row.
    Later,
    /// While a snapshot is written.
    Save,
    /// When a snapshot is durable and not current, which is while stores and transactions commit.
    Commit,
    /// While the changes of a snapshot are merged with it.
    Merge,
}

/// Taken in turn.
const MOMENTS: &[Moment] = &[
    Moment::Later,
    Moment::Commit,
    Moment::Early,
    Moment::Save,
    Moment::Later,
    Moment::Merge,
];

/// Longest life of a run whose moment does not come.
const LIFE_MAX: Duration = Duration::from_secs(15);
/// How long a sink may stand still before what is missing counts as lost.
const STILL_MAX: Duration = Duration::from_secs(40);
const LOOK: Duration = Duration::from_millis(3);
const EVENTS_AT_ONCE: u64 = 50;
const FEED_PAUSE: Duration = Duration::from_millis(100);

struct Play<'a> {
    bench: &'a Bench,
    pair: &'a Pair,
    broker: Option<Server>,
    /// Lines that [`Play::follow`] has seen.
    seen: AtomicU64,
}

/// Kills so often; fails where the promise is not kept.
pub fn play(bench: &Bench, pair: &Pair, seed: u64, kills: u64) -> anyhow::Result<()> {
    let needs_broker = pair.source != Source::File || pair.sink == Sink::Kafka;
    let broker = match needs_broker.then(|| Order::new().with("num.partitions", "2").start("kafka"))
    {
        None => None,
        Some(Ok(server)) => Some(server),
        Some(Err(error @ testservers::Error::Missing { .. })) => {
            println!("        skipped: {error}");
            return Ok(());
        }
        Some(Err(error)) => return Err(error.into()),
    };
    let play = Play {
        bench,
        pair,
        broker,
        seen: AtomicU64::new(0),
    };
    play.prepare()?;
    let (sent, is_done) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut reader = play.reader()?;
    let lines = reader.as_mut().and_then(|reader| reader.stdout.take());
    let (recoveries, tally) = std::thread::scope(|scope| {
        if let Some(lines) = lines {
            scope.spawn(|| play.follow(lines));
        }
        let feeder = scope.spawn(|| play.feed(&sent, &is_done));
        let lives = play.lives(seed, kills);
        is_done.store(true, Ordering::Relaxed);
        let fed = feeder.join().map_err(|_| anyhow::anyhow!("the feeder"));
        let recoveries = fed.and_then(|fed| fed.and(lives));
        let ended = recoveries.and_then(|recoveries| {
            let tally = play.end(sent.load(Ordering::Relaxed))?;
            Ok((recoveries, tally))
        });
        if let Some(reader) = &mut reader {
            reader.kill().ok();
            reader.wait().ok();
        }
        ended
    })?;
    print(&tally, kills, recoveries);
    ensure!(
        tally.is_kept(pair.is_exactly_once()),
        "the promise is not kept; again with --seed {seed}:\n{}",
        play.last_words()
    );
    Ok(())
}

fn print(tally: &Tally, kills: u64, mut recoveries: Vec<Duration>) {
    recoveries.sort();
    let at = |percent: usize| {
        let index = (recoveries.len() * percent / 100).min(recoveries.len().saturating_sub(1));
        recoveries.get(index).map_or(0, Duration::as_millis)
    };
    println!(
        "        kills {kills}, {tally}; recovery p50 {} ms, p99 {} ms (n {})",
        at(50),
        at(99),
        recoveries.len()
    );
}

impl Play<'_> {
    fn endpoint(&self) -> String {
        self.broker
            .as_ref()
            .map_or_else(String::new, Server::endpoint)
    }

    fn app(&self) -> String {
        let (dir, broker) = (self.bench.dir.display(), self.endpoint());
        let kafka = format!(
            "type='kafka', bootstrap.servers='{broker}', topic.list='in', group.id='ledger', threading.option='single.thread'"
        );
        let source = match self.pair.source {
            Source::File => format!(
                "type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='true', file.polling.interval='20'"
            ),
            Source::Kafka => format!("{kafka}, partition.no.list='0'"),
            Source::Group => kafka,
        };
        let out = match self.pair.sink {
            Sink::Sqlite => format!(
                "@store(type='rdbms', jdbc.url='jdbc:sqlite:{dir}/out.db') define table Out"
            ),
            Sink::File => format!(
                "@sink(type='file', file.uri='file:{dir}/out.csv', on.error='WAIT', @map(type='csv')) define stream Out"
            ),
            Sink::Kafka => format!(
                "@sink(type='kafka', bootstrap.servers='{broker}', topic='out', partition.no='0', optional.configuration='transactional.id:ledger', @map(type='csv')) define stream Out"
            ),
        };
        format!(
            "@app:name('Ledger')\n\
             @source({source}, @map(type='csv'))\n\
             define stream In (n long, k long, v long);\n\
             {out} (n long, k long, s long);\n\
             from In select n, k, sum(v) as s group by k insert into Out;\n"
        )
    }

    fn prepare(&self) -> anyhow::Result<()> {
        fs::write(self.bench.path("app.siddhi"), self.app())?;
        fs::write(self.bench.path("in.csv"), "")?;
        if self.broker.is_some() {
            // The reader ends where there is no topic: a record that nobody reads makes it.
            let record = self.bench.path("record");
            fs::write(&record, "x")?;
            testservers::run(
                Command::new("kcat")
                    .args(["-q", "-b", &self.endpoint(), "-P", "-t", "out", "-p", "1"])
                    .arg(&record),
            )?;
        }
        Ok(())
    }

    /// Writes events until it is done, and counts them.
    fn feed(&self, sent: &AtomicU64, is_done: &AtomicBool) -> anyhow::Result<()> {
        let mut client = match self.pair.source {
            Source::File => None,
            Source::Kafka | Source::Group => Some(
                Command::new("kcat")
                    .args(["-q", "-b", &self.endpoint(), "-P", "-t", "in", "-p", "0"])
                    .args(["-X", "enable.idempotence=true", "-X", "linger.ms=5"])
                    .stdin(Stdio::piped())
                    .spawn()
                    .context("the command 'kcat' is needed (package kcat)")?,
            ),
        };
        let mut file = fs::File::options()
            .append(true)
            .open(self.bench.path("in.csv"))?;
        while !is_done.load(Ordering::Relaxed) {
            let from = sent.load(Ordering::Relaxed);
            let lines: String = (from..from + EVENTS_AT_ONCE)
                .map(|number| line(number) + "\n")
                .collect();
            match client.as_mut().and_then(|client| client.stdin.as_mut()) {
                Some(input) => input.write_all(lines.as_bytes())?,
                None => file.write_all(lines.as_bytes())?,
            }
            sent.store(from + EVENTS_AT_ONCE, Ordering::Relaxed);
            std::thread::park_timeout(FEED_PAUSE);
        }
        if let Some(mut client) = client {
            drop(client.stdin.take());
            ensure!(client.wait()?.success(), "kcat could not write all events");
        }
        Ok(())
    }

    fn start(&self) -> anyhow::Result<Child> {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.bench.path("log"))?;
        Command::new(&self.bench.binary)
            .arg("run")
            .arg(self.bench.path("app.siddhi"))
            .args(["--state-interval", "50ms", "--state"])
            .arg(self.bench.path("state"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start headwater")
    }

    fn lives(&self, seed: u64, kills: u64) -> anyhow::Result<Vec<Duration>> {
        let mut chance = Chance(seed);
        let mut recoveries = Vec::new();
        for number in 0..kills {
            let moment = MOMENTS[number as usize % MOMENTS.len()];
            let mut child = self.start()?;
            let lived = self.live(moment, &mut chance, &mut child, &mut recoveries);
            child.kill().ok();
            child.wait()?;
            lived?;
        }
        Ok(recoveries)
    }

    /// Until the moment has come.
    fn live(
        &self,
        moment: Moment,
        chance: &mut Chance,
        child: &mut Child,
        recoveries: &mut Vec<Duration>,
    ) -> anyhow::Result<()> {
        let started = Instant::now();
        if let Moment::Early = moment {
            std::thread::park_timeout(Duration::from_millis(30 + chance.below(370)));
            return Ok(());
        }
        let before = self.size();
        while self.size() <= before && started.elapsed() < LIFE_MAX {
            if let Some(status) = child.try_wait()? {
                bail!("it ended by itself, {status}:\n{}", self.last_words());
            }
            std::thread::park_timeout(LOOK);
        }
        ensure!(
            self.size() > before,
            "no new row within {} s of a start:\n{}",
            LIFE_MAX.as_secs(),
            self.last_words()
        );
        recoveries.push(started.elapsed());
        let group = self.bench.path("state/Ledger");
        let later = Instant::now() + Duration::from_millis(chance.below(2_000));
        while started.elapsed() < LIFE_MAX {
            let (newest, current, temporary) = epochs(&group);
            let has_come = match moment {
                Moment::Early | Moment::Later => Instant::now() >= later,
                Moment::Save => temporary > newest,
                Moment::Commit => newest > current,
                Moment::Merge => temporary > 0 && temporary <= newest,
            };
            if has_come {
                break;
            }
        }
        Ok(())
    }

    /// What is in the sink, as a number that grows with it.
    fn size(&self) -> u64 {
        let length = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
        match self.pair.sink {
            Sink::File => length(&self.bench.path("out.csv")),
            Sink::Sqlite => rusqlite::Connection::open(self.bench.path("out.db"))
                .and_then(|db| {
                    db.query_row("select max(rowid) from Out", [], |row| row.get::<_, i64>(0))
                })
                .map_or(0, i64::unsigned_abs),
            Sink::Kafka => self.seen.load(Ordering::Relaxed),
        }
    }

    /// An independent client that prints each record as soon as it is committed. One that reads to
    /// the end may never get there while transactions go on.
    fn reader(&self) -> anyhow::Result<Option<Child>> {
        if self.pair.sink != Sink::Kafka {
            return Ok(None);
        }
        let reader = Command::new("kcat")
            .args(["-q", "-u", "-b", &self.endpoint(), "-C", "-t", "out"])
            .args(["-p", "0", "-o", "beginning"])
            .args(["-X", "isolation.level=read_committed"])
            .args(["-X", "fetch.wait.max.ms=10"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn();
        reader
            .map(Some)
            .context("the command 'kcat' is needed (package kcat)")
    }

    /// Counts what the reader prints.
    fn follow(&self, lines: std::process::ChildStdout) {
        for _ in BufReader::new(lines).lines().map_while(Result::ok) {
            self.seen.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Records that readers of committed ones see.
    fn committed(&self) -> anyhow::Result<String> {
        Ok(testservers::run(
            Command::new("kcat")
                .args(["-q", "-b", &self.endpoint(), "-C", "-t", "out", "-p", "0"])
                .args(["-o", "beginning", "-e"])
                .args(["-X", "isolation.level=read_committed"]),
        )?)
    }

    fn tally(&self, events: u64) -> anyhow::Result<Tally> {
        let text = match self.pair.sink {
            Sink::File => fs::read_to_string(self.bench.path("out.csv"))?,
            Sink::Kafka => self.committed()?,
            Sink::Sqlite => {
                let query = "select n, k, s from Out order by rowid";
                self.bench
                    .sql(&self.bench.path("out.db"), query)?
                    .join("\n")
            }
        };
        // A record ends its line, and so does its reader.
        let lines = text.lines().filter(|line| !line.is_empty());
        Ok(Tally::of(lines, events))
    }

    /// A last run takes what is left, and stops in order.
    fn end(&self, events: u64) -> anyhow::Result<Tally> {
        let mut child = self.start()?;
        let (mut size, mut grown) = (0, Instant::now());
        while grown.elapsed() < STILL_MAX {
            std::thread::park_timeout(FEED_PAUSE);
            let now = self.size();
            if now != size {
                (size, grown) = (now, Instant::now());
            } else if self.tally(events).is_ok_and(|tally| tally.lost == 0) {
                break;
            }
        }
        kill(child.id(), "TERM")?;
        let status = child.wait()?;
        ensure!(status.success(), "{status}:\n{}", self.last_words());
        self.tally(events)
    }

    fn last_words(&self) -> String {
        let log = fs::read_to_string(self.bench.path("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}

/// Numbers of the newest snapshot, of the current one, and of one that is being written.
fn epochs(group: &Path) -> (u64, u64, u64) {
    let (mut newest, mut temporary) = (0, 0);
    for file in fs::read_dir(group).into_iter().flatten().flatten() {
        let name = file.file_name().to_string_lossy().into_owned();
        let Some(number) = name.strip_prefix("snapshot-") else {
            continue;
        };
        let (number, into) = match number.strip_suffix(".tmp") {
            Some(number) => (number, &mut temporary),
            None => (number, &mut newest),
        };
        *into = number
            .parse()
            .map_or(*into, |number: u64| number.max(*into));
    }
    let current = fs::read_to_string(group.join("current")).unwrap_or_default();
    let current = current.lines().next().unwrap_or_default();
    (newest, current.parse().unwrap_or(0), temporary)
}
