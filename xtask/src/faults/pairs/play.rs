//! Plays a pair: events come without end, runs are killed one after the other, and the ledger is read
//! when the last one has taken what was left.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use testservers::{Order, Running as Server};

use super::super::bench::{Bench, kill};
use super::super::chance::Chance;
use super::super::ledger::{Sent, Tally, line};
use super::super::stub::Stub;
use super::moment::{Epochs, Moment, table_files};
use super::sink::{Reader, store_dir};
use super::source::{Fed, Source, moved};
use super::{Pair, Sink};

/// Longest life of a run whose moment does not come.
const LIFE_MAX: Duration = Duration::from_secs(15);
/// Longest wait for the first new row of a run: a member of a group may have to wait for the others.
const RECOVERY_MAX: Duration = Duration::from_secs(60);
/// How long a sink may stand still before what is missing counts as lost.
const STILL_MAX: Duration = Duration::from_secs(40);
const LOOK: Duration = Duration::from_millis(3);
const FEED_PAUSE: Duration = Duration::from_millis(100);

/// The place where a pair is played: its folder, its servers, its port.
pub struct Site {
    pub dir: PathBuf,
    pub port: u16,
    servers: Vec<(&'static str, Server)>,
}

impl Site {
    /// `None`: this machine lacks a server, which is said.
    fn new(bench: &Bench, pair: &Pair) -> anyhow::Result<Option<Site>> {
        let mut site = Site {
            dir: bench.dir.clone(),
            port: testservers::free_port()?,
            servers: Vec::new(),
        };
        let names = [pair.source.server(), pair.sink.server()];
        for name in names.into_iter().flatten() {
            if site.server(name).is_ok() {
                continue;
            }
            let order = match name {
                "kafka" => Order::new().with("num.partitions", "2"),
                _ => Order::new(),
            };
            match order.start(name) {
                Ok(server) => site.servers.push((name, server)),
                Err(error @ testservers::Error::Missing { .. }) => {
                    bench.skip(&error.to_string());
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(site))
    }

    pub fn server(&self, name: &str) -> anyhow::Result<&Server> {
        let found = self.servers.iter().find(|(of, _)| *of == name);
        found
            .map(|(_, server)| server)
            .with_context(|| format!("no server '{name}' was started"))
    }

    pub fn endpoint(&self, name: &str) -> String {
        self.server(name)
            .map_or_else(|_| String::new(), Server::endpoint)
    }
}

struct Play<'a> {
    bench: &'a Bench,
    pair: &'a Pair,
    site: &'a Site,
    sent: Mutex<Sent>,
    is_done: AtomicBool,
}

/// Kills so often; fails where the promise is not kept.
pub fn play(bench: &Bench, pair: &Pair, seed: u64, kills: u64) -> anyhow::Result<()> {
    let Some(site) = Site::new(bench, pair)? else {
        return Ok(());
    };
    let stub = match pair.sink {
        Sink::Http => Some(Stub::start(seed)?),
        _ => None,
    };
    let play = Play {
        bench,
        pair,
        site: &site,
        sent: Mutex::default(),
        is_done: AtomicBool::new(false),
    };
    fs::write(bench.path("app.siddhi"), play.app(stub.as_ref()))?;
    pair.source.prepare(&site)?;
    pair.sink.prepare(&site)?;
    let mut reader = pair.sink.reader(&site, stub)?;
    let recoveries = std::thread::scope(|scope| {
        let feeder = scope.spawn(|| play.feed());
        let lives = play.lives(&mut reader, seed, kills);
        play.is_done.store(true, Ordering::Relaxed);
        let fed = feeder.join().map_err(|_| anyhow::anyhow!("the feeder"));
        fed.and_then(|fed| fed.and(lives))
    })?;
    let tally = play.end(&mut reader)?;
    let figures = figures(&tally, kills, recoveries);
    println!("        {figures}");
    *bench.figures() = figures;
    ensure!(
        tally.is_kept(pair.is_exactly_once()),
        "the promise is not kept; again with --seed {seed}:\n{}",
        play.last_words()
    );
    Ok(())
}

fn figures(tally: &Tally, kills: u64, mut recoveries: Vec<Duration>) -> String {
    recoveries.sort();
    let at = |percent: usize| {
        let index = (recoveries.len() * percent / 100).min(recoveries.len().saturating_sub(1));
        recoveries.get(index).map_or(0, Duration::as_millis)
    };
    format!(
        "kills {kills}, {tally}; recovery p50 {} ms, p99 {} ms (n {})",
        at(50),
        at(99),
        recoveries.len()
    )
}

impl Play<'_> {
    fn app(&self, stub: Option<&Stub>) -> String {
        format!(
            "@app:name('Ledger')\n\
             @source({source})\n\
             define stream In (n long, k long, v long);\n\
             {out} (n long, k long, s long);\n\
             from In select n, k, sum(v) as s group by k insert into seen;\n",
            source = self.pair.source.text(self.site),
            out = self.pair.sink.text(self.site, stub),
        )
    }

    /// Writes events until it is done, and notes what became of them.
    fn feed(&self) -> anyhow::Result<()> {
        let at_once = self.pair.sink.events_at_once();
        let mut feed = self.pair.source.feed(self.site)?;
        let is_cdc = matches!(self.pair.source, Source::CdcMariaDb | Source::CdcPostgres);
        // What was written before a table is read for the first time is not a change.
        while is_cdc && !self.log().contains("source is ready") && !self.is_done() {
            std::thread::park_timeout(LOOK);
        }
        let mut first = 0;
        while !self.is_done() {
            let lines: Vec<String> = (first..first + at_once).map(line).collect();
            let fed = feed.give(first, &lines)?;
            if fed != Fed::NotSent {
                let mut sent = self.sent.lock().map_err(|_| anyhow::anyhow!("a panic"))?;
                sent.note(first..first + at_once, fed == Fed::Taken);
                first += at_once;
            }
            std::thread::park_timeout(FEED_PAUSE);
        }
        feed.end()
    }

    fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Relaxed)
    }

    fn start(&self) -> anyhow::Result<Child> {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.bench.path("log"))?;
        let mut run = Command::new(&self.bench.binary);
        run.arg("run").arg(self.bench.path("app.siddhi"));
        if self.pair.sink == Sink::EventStore {
            run.arg("--store").arg(store_dir(self.site));
        }
        run.args(["--state-interval", "50ms", "--state"])
            .arg(self.bench.path("state"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start headwater")
    }

    fn lives(&self, reader: &mut Reader, seed: u64, kills: u64) -> anyhow::Result<Vec<Duration>> {
        let mut chance = Chance(seed);
        let mut recoveries = Vec::new();
        for number in 0..kills {
            let moment = Moment::of(self.pair, number);
            let mut child = self.start()?;
            let lived = self.live(moment, &mut chance, &mut child, reader);
            child.kill().ok();
            child.wait()?;
            recoveries.extend(lived?);
        }
        Ok(recoveries)
    }

    /// Until the moment has come; how long the first new row took.
    fn live(
        &self,
        moment: Moment,
        chance: &mut Chance,
        child: &mut Child,
        reader: &mut Reader,
    ) -> anyhow::Result<Option<Duration>> {
        let started = Instant::now();
        if moment == Moment::Early {
            std::thread::park_timeout(Duration::from_millis(30 + chance.below(370)));
            return Ok(None);
        }
        let before = reader.size(self.site)?;
        while reader.size(self.site)? <= before {
            if let Some(status) = child.try_wait()? {
                bail!("it ended by itself, {status}:\n{}", self.last_words());
            }
            ensure!(
                started.elapsed() < RECOVERY_MAX,
                "no new row within {} s of a start:\n{}",
                RECOVERY_MAX.as_secs(),
                self.last_words()
            );
            std::thread::park_timeout(LOOK);
        }
        let recovery = started.elapsed();
        self.wait_for(moment, chance)?;
        Ok(Some(recovery))
    }

    fn wait_for(&self, moment: Moment, chance: &mut Chance) -> anyhow::Result<()> {
        if moment == Moment::Rebalance {
            return self.rebalance(Duration::from_millis(chance.below(1_500)));
        }
        let group = self.bench.path("state/Ledger");
        let later = Instant::now() + Duration::from_millis(chance.below(2_000));
        let end = Instant::now() + LIFE_MAX;
        let moved_before = moved(&self.site.dir);
        let files_before = table_files(&store_dir(self.site));
        while Instant::now() < end {
            let has_come = match moment {
                Moment::Early | Moment::Rebalance => true,
                Moment::Later => Instant::now() >= later,
                Moment::Save => Epochs::read(&group).is_saving(),
                Moment::Commit => Epochs::read(&group).is_committing(),
                Moment::Merge => Epochs::read(&group).is_merging(),
                Moment::Rename => moved(&self.site.dir) > moved_before,
                Moment::Flush => table_files(&store_dir(self.site)) > files_before,
            };
            if has_come {
                break;
            }
        }
        Ok(())
    }

    /// Another member joins the group and keeps what it is given to itself; it leaves when this returns,
    /// which is when our run is killed.
    fn rebalance(&self, time: Duration) -> anyhow::Result<()> {
        let mut other = Command::new("kcat")
            .args(["-q", "-b", &self.site.endpoint("kafka")])
            .args(["-X", "enable.auto.commit=false", "-G", "ledger", "in"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("the command 'kcat' is needed (package kcat)")?;
        std::thread::park_timeout(time);
        kill(other.id(), "TERM")?;
        // It has left, or the broker notices soon.
        other.wait()?;
        Ok(())
    }

    fn tally(&self, reader: &Reader) -> anyhow::Result<Tally> {
        let text = reader.lines(self.site)?;
        // A record ends its line, and so does its reader.
        let lines = text.lines().filter(|line| !line.is_empty());
        let sent = self.sent.lock().map_err(|_| anyhow::anyhow!("a panic"))?;
        Ok(Tally::of(lines, &sent))
    }

    /// A last run takes what is left, and stops in order.
    fn end(&self, reader: &mut Reader) -> anyhow::Result<Tally> {
        let mut child = self.start()?;
        let (mut size, mut grown) = (0, Instant::now());
        while grown.elapsed() < STILL_MAX {
            std::thread::park_timeout(FEED_PAUSE);
            let now = reader.size(self.site)?;
            if now != size {
                (size, grown) = (now, Instant::now());
            } else if self.tally(reader).is_ok_and(|tally| tally.lost == 0) {
                break;
            }
        }
        kill(child.id(), "TERM")?;
        let status = child.wait()?;
        ensure!(status.success(), "{status}:\n{}", self.last_words());
        self.tally(reader)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.bench.path("log")).unwrap_or_default()
    }

    fn last_words(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}
