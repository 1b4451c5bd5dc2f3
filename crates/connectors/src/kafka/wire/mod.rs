//! The own client. For reading it fetches record batches from the leaders of partitions, and gives their
//! records where they lie; writing is in [`produce`].
//!
//! ```text
//! leaders   asks for metadata, starts a fetcher per broker     ┐ tasks on the threads
//! fetch     one broker: fetch, look at the batches' heads      ┘ that serve connections
//! state     partitions, what was fetched of them, what is wrong: shared by all
//! Wire      the source's handle: unpacks and decodes, record by record
//! ```
//!
//! Groups, commits and transactions are librdkafka's; this client is told which partitions to
//! read, and where they begin. Promises: each partition comes in order, without gaps, from where it was
//! told to; what waits is bounded per partition, per source and by the server's budget; a broker that
//! is away or silent is known within seconds, and asked again after growing pauses.

mod batch;
mod codec;
mod config;
mod connection;
mod fetch;
mod leaders;
mod message;
mod produce;
mod sasl;
mod state;

pub(super) use batch::{Record, Spoilt, Step};
pub(super) use config::Config;
pub(super) use produce::{Appended, Failed, Options, Outgoing, Producer, Why};
pub(super) use state::Start;

use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use tokio::task::AbortHandle;

use self::batch::Reader;
use self::state::{Key, Shared};
use connect::arrivals::{Account, Arrivals};
use connect::component::{Progress, Waker};
use connect::net::Workers;

/// Reads partitions; its tasks end with it.
pub(super) struct Wire {
    shared: Arc<Shared>,
    leaders: AbortHandle,
    reader: Reader,
    /// What the reader has, until it is at its end.
    open: Option<Opened>,
}

struct Opened {
    key: Key,
    index: usize,
    /// The bytes that were fetched; given back with the last who has some of them.
    _account: Arc<Account>,
}

impl Wire {
    /// Starts without partitions. `waker` is woken when there is something to read or to know.
    pub fn start(
        config: &Arc<Config>,
        workers: &Workers,
        arrivals: &Arc<Arrivals>,
        waker: Arc<dyn Waker>,
    ) -> Wire {
        let (changed, changes) = watch::channel(0);
        let shared = Arc::new(Shared {
            config: Arc::clone(config),
            arrivals: Arc::clone(arrivals),
            waker,
            worker: workers.next().clone(),
            changed,
            state: Mutex::default(),
        });
        let task = workers
            .next()
            .spawn(leaders::run(Arc::clone(&shared), changes));
        Wire {
            reader: Reader::new(config.rules),
            leaders: task.abort_handle(),
            shared,
            open: None,
        }
    }

    /// Reads a partition from now on. `index` is what [`Wire::next`] calls it.
    pub fn add(&mut self, topic: &Arc<str>, partition: i32, index: usize, start: Start) {
        self.remove(topic, partition);
        let key = (Arc::clone(topic), partition);
        self.shared
            .lock()
            .add(key, index, start, self.shared.config.reset);
        self.shared.tell();
    }

    /// Reads a partition no more.
    pub fn remove(&mut self, topic: &Arc<str>, partition: i32) {
        let key = (Arc::clone(topic), partition);
        if self.open.as_ref().is_some_and(|open| open.key == key) {
            self.open = None;
        }
        self.shared.lock().remove(&key);
        self.shared.tell();
    }

    /// Goes to the next record or to what takes its place; `None` where nothing waits. The number is that
    /// of [`Wire::add`].
    #[inline]
    pub fn next(&mut self) -> Option<(usize, Step)> {
        loop {
            let Some(open) = &self.open else {
                let (key, fetched) = self.shared.lock().pop()?;
                // There is room again.
                self.shared.tell();
                self.reader
                    .load(fetched.batches, fetched.from, fetched.aborted);
                let account = fetched.account;
                self.open = Some(Opened {
                    key,
                    index: fetched.index,
                    _account: account,
                });
                continue;
            };
            match self.reader.advance() {
                Step::End => self.open = None,
                step => return Some((open.index, step)),
            }
        }
    }

    /// The record that [`Wire::next`] came to.
    #[inline]
    pub fn record(&self) -> Record<'_> {
        self.reader.record()
    }

    /// Topic and partition of that record.
    #[inline]
    pub fn place(&self) -> (&str, i32) {
        self.open
            .as_ref()
            .map_or(("", -1), |open| (&*open.key.0, open.key.1))
    }

    /// What ends the source.
    pub fn failure(&self) -> Option<String> {
        self.shared.lock().failure.clone()
    }

    /// Why some partition cannot be read now.
    pub fn lost(&self) -> Option<String> {
        self.shared.lost()
    }

    /// Does it read anything?
    pub fn is_used(&self) -> bool {
        !self.shared.lock().parts.is_empty()
    }

    /// Are all partitions read to their ends?
    pub fn is_at_end(&self) -> bool {
        self.open.is_none() && self.shared.lock().is_at_end()
    }

    /// How far partitions are that `next` knows the next offset of.
    pub fn progress(&self, next: impl Fn(usize) -> i64) -> Vec<Progress> {
        let state = self.shared.lock();
        let parts = state.parts.iter();
        parts
            .filter_map(|((topic, partition), part)| {
                let position = next(part.index);
                (position >= 0).then(|| Progress {
                    input: format!("{topic}/{partition}"),
                    position,
                    lag: (part.end >= 0).then(|| (part.end - position).max(0)),
                })
            })
            .collect()
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.leaders.abort();
        self.shared.lock().end();
    }
}

/// For the fuzz targets: responses and record batches of any bytes.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn check(bytes: &[u8]) {
    use self::batch::Rules;
    use self::message::{Metadata, Versions};
    use bytes::Bytes;

    let (Some((first, rest)), body) = (bytes.split_first(), Bytes::copy_from_slice(bytes)) else {
        return;
    };
    let version = i16::from(first % 12);
    Versions::decode(rest).ok();
    Metadata::decode(rest, version).ok();
    message::listed(rest, version).ok();
    message::handshaken(rest).ok();
    message::authenticated(rest).ok();
    produce::check(rest, version);
    let body = body.slice(1..);
    let parts = match message::fetched(&body, version, true) {
        Ok(message::FetchAnswer::Parts(_, parts)) => parts,
        _ => Vec::new(),
    };
    let batches = parts.into_iter().map(|part| (part.records, part.aborted));
    // The same bytes as batches alone, their sums not looked at.
    for (records, aborted) in batches.chain([(body, Vec::new())]) {
        let Ok(whole) = batch::whole(&records) else {
            continue;
        };
        let rules = Rules {
            is_committed: true,
            checks_sums: false,
            bytes_max: 1 << 20,
        };
        let mut reader = Reader::new(rules);
        reader.load(records.slice(..whole.bytes), 0, aborted);
        let mut last = -1;
        loop {
            match reader.advance() {
                Step::End => break,
                Step::Spoilt(spoilt) => assert!(spoilt.last >= last),
                Step::Record => {
                    let record = reader.record();
                    assert!(record.offset > last, "offsets grow");
                    last = record.offset;
                    record.last_header("name");
                }
            }
        }
        assert!(whole.next.is_none_or(|next| last < next));
    }
}
