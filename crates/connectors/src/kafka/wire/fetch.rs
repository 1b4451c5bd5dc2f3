//! Fetching from one broker: all partitions that it leads, in one request after the other.
//!
//! The next request goes out as soon as a response is here; its records are decoded meanwhile, by the
//! thread of the source. Here only the heads of batches are looked at, for the next offset. In a fetch session a
//! request names only what has changed since the one before.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::{sleep_until, timeout};

use super::batch;
use super::connection::Connection;
use super::message::{self, Api, FetchAnswer, Fetched, Malformed, Session, Wish, code, said};
use super::state::{Failing, Key, Place, Shared, State, Waiting};
use connect::arrivals::Account;

/// Pause of a partition whose leader is asked for, or whose broker says that it has trouble.
const PAUSE: Duration = Duration::from_millis(100);

/// A broker that is asked for nothing is looked at again after so long.
const IDLE: Duration = Duration::from_secs(60);

/// A partition that a request is about.
struct Asked {
    key: Key,
    version: u64,
    at: i64,
    epoch: i32,
    /// What the broker was told of it.
    told: Option<(u64, i64, i32)>,
}

/// The fetch session of a connection.
struct Told {
    session: Session,
    /// Tells it from other sessions.
    number: u64,
    /// Partitions that the broker knows of.
    parts: usize,
}

impl Told {
    const NOTHING: Told = Told {
        session: Session::NEW,
        number: 0,
        parts: 0,
    };

    /// Prepares a request for these. A partition that is not asked for any more is forgotten with its
    /// session.
    fn begin(&mut self, asked: &[Asked], number: impl FnOnce() -> u64) {
        let is_of_it = |one: &&Asked| one.told.is_some_and(|(number, ..)| number == self.number);
        if asked.iter().filter(is_of_it).count() != self.parts {
            self.session.epoch = 0;
        }
        if self.session.is_new() {
            self.number = number();
        }
    }

    /// Must a request name it?
    fn is_news(&self, one: &Asked) -> bool {
        one.told != Some((self.number, one.at, one.epoch))
    }
}

enum Next {
    Fetch(Vec<Asked>),
    /// Offsets are asked for by time.
    List(Vec<Asked>),
    /// Nothing can be asked for before.
    Wait(Option<Instant>),
    End,
}

/// Runs while the broker leads something.
pub(super) async fn run(shared: Arc<Shared>, id: i32, mut changes: watch::Receiver<u64>) {
    let mut connection: Option<Connection> = None;
    let mut failing: Option<Failing> = None;
    let mut told = Told::NOTHING;
    let mut turn = 0;
    loop {
        changes.mark_unchanged();
        let (next, place) = {
            let mut state = shared.lock();
            let next = state.next(id, turn, &shared);
            let Some(node) = state.nodes.get_mut(&id) else {
                return;
            };
            if matches!(next, Next::End) {
                // Another task may start from now on.
                node.task = None;
                return;
            }
            node.failing.clone_from(&failing);
            (
                next,
                (Arc::clone(&node.host), node.port, Arc::clone(&node.pulse)),
            )
        };
        let (asked, is_list) = match next {
            Next::End => return,
            Next::Wait(until) => {
                let until = until.unwrap_or_else(|| Instant::now() + IDLE);
                tokio::select! {
                    changed = changes.changed() => if changed.is_err() { return },
                    () = sleep_until(until.into()) => {}
                }
                continue;
            }
            Next::Fetch(asked) => (asked, false),
            Next::List(asked) => (asked, true),
        };
        turn += 1;
        let (host, port, pulse) = place;
        let exchanged = async {
            let connection = match &mut connection {
                Some(connection) => connection,
                none => {
                    let opened = Connection::open(&shared.config, (&host, port), &pulse).await?;
                    none.insert(opened)
                }
            };
            match is_list {
                true => list(&shared, connection, &asked).await,
                false => fetch(&shared, connection, &asked, &mut told).await,
            }
        };
        match exchanged.await {
            Ok(()) => failing = None,
            Err(cause) => {
                (connection, told) = (None, Told::NOTHING);
                let pause = shared.failed(&mut failing, cause);
                {
                    let mut state = shared.lock();
                    state.wants_metadata = true;
                    if let Some(node) = state.nodes.get_mut(&id) {
                        node.failing.clone_from(&failing);
                    }
                }
                shared.tell();
                shared.waker.wake();
                // Until the leader is another, or it is asked again.
                let moved =
                    async { while shared.lock().leads(id) && changes.changed().await.is_ok() {} };
                timeout(pause, moved).await.ok();
            }
        }
    }
}

fn wishes<'a>(asked: impl IntoIterator<Item = &'a Asked>) -> Vec<Wish<'a>> {
    let wish = asked.into_iter().map(|one| Wish {
        topic: &one.key.0,
        partition: one.key.1,
        at: one.at,
        epoch: one.epoch,
    });
    wish.collect()
}

async fn list(shared: &Shared, connection: &mut Connection, asked: &[Asked]) -> Result<(), String> {
    let is_committed = shared.config.bounds.is_committed;
    let put = |out: &mut Vec<u8>, version| {
        message::list_offsets(out, version, is_committed, &wishes(asked));
    };
    let (body, version) = connection.ask(Api::ListOffsets, put, None).await?;
    let all = message::listed(&body, version).map_err(|Malformed(cause)| cause)?;
    let mut state = shared.lock();
    let mut behind = 0;
    for listed in all {
        let Some(at) = find(asked, behind, &listed.topic, listed.partition) else {
            continue;
        };
        behind = at + 1;
        let one = &asked[at];
        match listed.error {
            code::NONE => {
                if let Some(part) = state.part(one) {
                    part.place = Place::At(listed.offset.max(0));
                }
            }
            error => state.judge(one, error, shared),
        }
    }
    Ok(())
}

async fn fetch(
    shared: &Shared,
    connection: &mut Connection,
    asked: &[Asked],
    told: &mut Told,
) -> Result<(), String> {
    let bounds = shared.bounds();
    told.begin(asked, || shared.lock().number());
    let news = || asked.iter().filter(|one| told.is_news(one));
    let put = |out: &mut Vec<u8>, version| {
        message::fetch(out, version, bounds, told.session, &wishes(news()));
    };
    let mut account = shared.arrivals.open();
    let (body, version) = connection.ask(Api::Fetch, put, Some(&mut account)).await?;
    let answer = message::fetched(&body, version, bounds.is_committed);
    let all = match answer.map_err(|Malformed(cause)| cause)? {
        FetchAnswer::Parts(session, all) => {
            let mut state = shared.lock();
            for one in news() {
                if let Some(part) = state.part(one) {
                    part.told = Some((told.number, one.at, one.epoch));
                }
            }
            told.parts = asked.len();
            told.session = told.session.next(session);
            all
        }
        FetchAnswer::NoSession => {
            *told = Told::NOTHING;
            return Ok(());
        }
    };
    let account = Arc::new(account);
    let (mut has_news, mut behind) = (false, 0);
    for fetched in all {
        let Some(at) = find(asked, behind, &fetched.topic, fetched.partition) else {
            continue;
        };
        behind = at + 1;
        has_news |= take(shared, &asked[at], fetched, &account)?;
    }
    if has_news {
        shared.waker.wake();
    }
    Ok(())
}

/// Which of them it is: mostly one behind that of the one before.
fn find(asked: &[Asked], from: usize, topic: &str, partition: i32) -> Option<usize> {
    let is_it = |one: &Asked| one.key.1 == partition && *one.key.0 == *topic;
    let from = from.min(asked.len());
    let behind = asked[from..].iter().position(is_it).map(|at| from + at);
    behind.or_else(|| asked[..from].iter().position(is_it))
}

/// Takes what came of one partition; is that anything for the source?
fn take(
    shared: &Shared,
    one: &Asked,
    fetched: Fetched,
    account: &Arc<Account>,
) -> Result<bool, String> {
    let Fetched {
        error,
        end,
        aborted,
        records,
        ..
    } = fetched;
    let (topic, partition) = (&one.key.0, one.key.1);
    if error != code::NONE {
        shared.lock().judge(one, error, shared);
        return Ok(true);
    }
    let whole = batch::whole(&records).map_err(|cause| {
        format!(
            "topic '{topic}' partition {partition} offset {}: {cause}",
            one.at
        )
    })?;
    let mut state = shared.lock();
    let Some(part) = state.part(one) else {
        return Ok(false);
    };
    // What was at its end is looked at by who waits for that.
    let has_news = part.end != end || whole.next.is_some();
    part.end = end;
    if let Some(magic) = whole.old.filter(|_| whole.bytes == 0) {
        state.failure = Some(format!(
            "topic '{topic}' partition {partition} has messages of format v{magic} at offset {}, \
             written before Kafka 0.11, which no client here reads: have them written again, or begin \
             behind them (option 'topic.offsets.map')",
            one.at
        ));
        return Ok(true);
    }
    let Some(next) = whole.next else {
        return Ok(has_news);
    };
    part.place = Place::At(next.max(one.at));
    let index = part.index;
    let batches: Bytes = records.slice(..whole.bytes);
    let (from, account) = (one.at, Arc::clone(account));
    state.push(
        one.key.clone(),
        Waiting {
            index,
            batches,
            from,
            aborted,
            account,
        },
    );
    Ok(true)
}

impl State {
    /// What a broker is asked for next. Each turn begins with another partition, because a response that
    /// is full leaves out those at the end.
    fn next(&mut self, id: i32, turn: usize, shared: &Shared) -> Next {
        if self.is_ended() || !self.leads(id) {
            return Next::End;
        }
        let (now, bounds) = (Instant::now(), shared.bounds());
        let (mut fetch, mut list) = (Vec::new(), Vec::new());
        let mut until: Option<Instant> = None;
        let mut is_full = false;
        for (key, part) in self
            .parts
            .iter()
            .filter(|(_, part)| part.leader == Some(id))
        {
            if let Some(at) = part.not_before.filter(|at| *at > now) {
                until = Some(until.map_or(at, |known| known.min(at)));
                continue;
            }
            let asked = |at| Asked {
                key: key.clone(),
                version: part.version,
                at,
                epoch: part.epoch,
                told: part.told,
            };
            match part.place {
                Place::Timed(time) => list.push(asked(time)),
                Place::At(_) if self.is_full(part, bounds) => is_full = true,
                Place::At(offset) => fetch.push(asked(offset)),
            }
        }
        if !list.is_empty() {
            return Next::List(list);
        }
        // A fetch without the full ones could wait long for the others, which would make the full ones wait
        // when they have room again.
        if fetch.is_empty() || is_full {
            return Next::Wait(until);
        }
        let first = turn % fetch.len();
        fetch.rotate_left(first);
        Next::Fetch(fetch)
    }

    fn leads(&self, id: i32) -> bool {
        self.parts.values().any(|part| part.leader == Some(id))
    }

    /// The partition that was asked for, where it is still the same.
    fn part(&mut self, asked: &Asked) -> Option<&mut super::state::Part> {
        self.parts
            .get_mut(&asked.key)
            .filter(|part| part.version == asked.version)
    }

    /// The broker says no to a partition.
    fn judge(&mut self, asked: &Asked, error: i16, shared: &Shared) {
        let (topic, partition) = (&asked.key.0, asked.key.1);
        if self.part(asked).is_none() {
            return;
        }
        match error {
            code::OFFSET_OUT_OF_RANGE => {
                tracing::warn!(
                    topic = &**topic,
                    partition,
                    offset = asked.at,
                    "offset is out of range: records are gone, or the partition was made anew; going \
                     on as 'auto.offset.reset' says"
                );
                let cause = format!("offset {} is out of range", asked.at);
                let place = self.reset(&asked.key, shared.config.reset, &cause);
                if let (Some(place), Some(part)) = (place, self.part(asked)) {
                    part.place = place;
                }
            }
            code::TOPIC_AUTHORIZATION_FAILED | code::CLUSTER_AUTHORIZATION_FAILED => {
                self.failure = Some(format!("topic '{topic}': {}", said(error)));
                shared.waker.wake();
            }
            code::NOT_LEADER
            | code::UNKNOWN_TOPIC_OR_PARTITION
            | code::LEADER_NOT_AVAILABLE
            | code::REPLICA_NOT_AVAILABLE
            | code::FENCED_LEADER_EPOCH
            | code::UNKNOWN_LEADER_EPOCH
            | code::STORAGE => {
                tracing::debug!(
                    topic = &**topic,
                    partition,
                    cause = said(error),
                    "leader has changed"
                );
                if let Some(part) = self.part(asked) {
                    part.leader = None;
                    part.leaderless_since = Instant::now();
                    part.not_before = Some(Instant::now() + PAUSE);
                }
                self.wants_metadata = true;
            }
            _ => {
                tracing::debug!(
                    topic = &**topic,
                    partition,
                    cause = said(error),
                    "fetch is repeated"
                );
                if let Some(part) = self.part(asked) {
                    part.not_before = Some(Instant::now() + PAUSE);
                }
            }
        }
        shared.tell();
    }
}
