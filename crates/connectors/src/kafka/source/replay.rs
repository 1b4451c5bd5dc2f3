//! `kafka-replay-response`: delivers the ranges of records that `kafka-replay-request` asks for.
//!
//! Requests are handled one after the other, each with its own consumer, which commits no offsets.
//! Promises: if the broker goes away, a request continues after the last record that was delivered.
//! Never: a commit, requests that outlive the process.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rdkafka::consumer::Consumer as _;
use rdkafka::error::KafkaError;
use rdkafka::message::Message as _;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::super::sink::NO_TOPIC;
use super::member::Member;
use super::{KafkaSource, said};
use connect::component::{
    Connection, Finished, Payload, Room, Signal, Sink, SinkSetup, Source, SourceLink, SourceSetup,
    Waker,
};
use connect::error::Error;
use connect::message::{Message, Sent, Undelivered};
use connect::option::Settings;
use connect::rows::Rejected;

/// Requests that may wait for one source.
const WAITING_MAX: usize = 1024;

/// Longest wait for records or requests before signals are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Options that say where a group begins and what is committed for it.
const WITHOUT_EFFECT: &[&str] = &[
    "enable.async.commit",
    "enable.offsets.commit",
    "partition.no.list",
    "topic.offsets.map",
];

/// A range of offsets, both ends included.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Request {
    topic: String,
    partition: i32,
    next: i64,
    last: i64,
}

/// The requests of all apps of a server, by the id that joins sink and source.
#[derive(Default)]
pub(crate) struct Replays(Mutex<HashMap<String, Weak<Requests>>>);

#[derive(Default)]
struct Requests {
    waiting: Mutex<Waiting>,
    /// Sources that serve them.
    sources: AtomicUsize,
}

#[derive(Default)]
struct Waiting {
    list: VecDeque<Request>,
    waker: Option<Arc<dyn Waker>>,
}

impl Replays {
    fn of(&self, id: &str) -> Arc<Requests> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(id).and_then(Weak::upgrade) {
            return known;
        }
        all.retain(|_, requests| requests.strong_count() > 0);
        let made = Arc::new(Requests::default());
        all.insert(id.to_owned(), Arc::downgrade(&made));
        made
    }
}

impl Requests {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// ---- the sink ----

pub(in crate::kafka) struct ReplayRequest {
    id: String,
    requests: Arc<Requests>,
    /// Events that are no requests.
    wrong: Vec<Undelivered>,
}

impl ReplayRequest {
    pub fn new(setup: &SinkSetup<'_>) -> Result<ReplayRequest, Error> {
        let id = sink_id(Settings::of_sink(setup.transport, crate::kafka::CONNECTORS))?;
        if setup.schema.attributes.len() < 4 {
            return Err(
                Settings::of_sink(setup.transport, crate::kafka::CONNECTORS).refused(
                    "its stream has four attributes: topic, partition, first and last offset",
                ),
            );
        }
        Ok(ReplayRequest {
            requests: setup.environment.shared.get::<Replays>().of(&id),
            wrong: Vec::new(),
            id,
        })
    }
}

fn sink_id(settings: Settings<'_>) -> Result<String, Error> {
    let id = settings.text("sink.id").map(str::trim).unwrap_or_default();
    match id {
        "" => Err(settings.refused("option 'sink.id' is missing")),
        id => Ok(id.to_owned()),
    }
}

fn request(texts: &[String]) -> Result<Request, String> {
    let [topic, partition, first, last, ..] = texts else {
        return Err("it has fewer than four attributes".to_owned());
    };
    let number = |name: &str, text: &str| {
        let number = text.trim().parse::<i64>().ok().filter(|n| *n >= 0);
        number.ok_or_else(|| format!("its {name} is '{text}': write a whole number"))
    };
    let partition = number("partition", partition)?;
    Ok(Request {
        topic: topic.trim().to_owned(),
        partition: i32::try_from(partition).map_err(|_| "there is no such partition")?,
        next: number("first offset", first)?,
        last: number("last offset", last)?,
    })
}

impl Sink for ReplayRequest {
    fn connect(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn publish(&mut self, message: &Message<'_>) -> Result<(), Error> {
        let action = || format!("asking for a replay by sink.id '{}'", self.id);
        let Payload::Events(batch) = message.payload else {
            return Err(Error::failed(action(), "use the mapper passThrough"));
        };
        // One that is wrong takes no other with it.
        let (mut wanted, mut wrong) = (Vec::with_capacity(batch.len), Vec::new());
        for row in 0..batch.len {
            let texts: Vec<String> = batch.row(row).iter().map(event::text::to_text).collect();
            match request(&texts) {
                Ok(request) => wanted.push(request),
                Err(cause) => wrong.push(Undelivered {
                    message: Sent {
                        payload: texts.join(", ").into(),
                        is_text: true,
                        rows: Box::from([row as u32]),
                        events: None,
                        options: Box::from([]),
                    },
                    error: Error::failed(action(), cause),
                }),
            }
        }
        let peer = || format!("source 'kafka-replay-response' of sink.id '{}'", self.id);
        if self.requests.sources.load(Ordering::SeqCst) == 0 {
            return Err(Error::unavailable(peer(), "there is none"));
        }
        let mut waiting = self.requests.lock();
        if waiting.list.len() + wanted.len() > WAITING_MAX {
            let cause = format!("{WAITING_MAX} requests wait for it already");
            return Err(Error::unavailable(peer(), cause));
        }
        waiting.list.extend(wanted);
        if let Some(waker) = &waiting.waker {
            waker.wake();
        }
        drop(waiting);
        self.wrong.append(&mut wrong);
        Ok(())
    }

    fn take_undelivered(&mut self) -> Vec<Undelivered> {
        std::mem::take(&mut self.wrong)
    }

    fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn close(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

// ---- the source ----

pub(in crate::kafka) struct ReplayResponse {
    /// Maps records as the source `kafka` does.
    reader: KafkaSource,
    requests: Arc<Requests>,
    /// What is being served, from the record that is next.
    current: Option<Request>,
}

impl ReplayResponse {
    pub fn new(setup: &SourceSetup<'_>) -> Result<ReplayResponse, Error> {
        let settings = Settings::of_source(setup.transport, crate::kafka::CONNECTORS);
        for name in WITHOUT_EFFECT {
            if settings.text(name).is_some() {
                tracing::warn!(
                    option = name,
                    "ignoring option of source 'kafka-replay-response': each request selects what \
                     to read, and no offsets are committed"
                );
            }
        }
        let requests = setup
            .environment
            .shared
            .get::<Replays>()
            .of(&sink_id(settings)?);
        requests.sources.fetch_add(1, Ordering::SeqCst);
        let reader = KafkaSource::new(setup);
        let reader = reader.inspect_err(|_| {
            requests.sources.fetch_sub(1, Ordering::SeqCst);
        })?;
        Ok(ReplayResponse {
            reader,
            requests,
            current: None,
        })
    }

    /// Serves one request to its end; `None`: the source stops.
    fn serve(&mut self, link: &mut dyn SourceLink) -> Result<Option<()>, Error> {
        let Some(request) = self.current.clone() else {
            return Ok(Some(()));
        };
        let judged = self.judge(&request, link)?;
        if self.reader.is_lost {
            self.reader.is_lost = false;
            link.report(Connection::Connected);
        }
        if let Err(cause) = judged {
            let text = format!(
                "topic '{}' partition {} offsets {} to {}",
                request.topic, request.partition, request.next, request.last
            );
            link.reject(Rejected::new(&text, cause, "ask for what the broker has"));
            link.post(&[])?;
            self.current = None;
            return Ok(Some(()));
        }
        // What was seen of an earlier replay is no repetition.
        self.reader.partitions = super::Partitions::default();
        let member = self.reader.member(None, link)?;
        let mut assigned = TopicPartitionList::new();
        let failed = |error: KafkaError| Error::failed("assigning a partition", said(&error));
        assigned
            .add_partition_offset(
                &request.topic,
                request.partition,
                Offset::Offset(request.next),
            )
            .map_err(failed)?;
        member.consumer.assign(&assigned).map_err(failed)?;
        let read = self.read(&member, request.last, link)?;
        if read.is_some() {
            self.current = None;
        }
        Ok(read)
    }

    /// Reads to the end of the range or of the partition.
    fn read(
        &mut self,
        member: &Member,
        last: i64,
        link: &mut dyn SourceLink,
    ) -> Result<Option<()>, Error> {
        let mut is_done = false;
        while !is_done {
            let mut taken = 0;
            while taken < super::reading::TURN {
                match member.consumer.poll(Duration::ZERO) {
                    Some(Ok(record)) if record.offset() > last => is_done = true,
                    Some(Ok(record)) => {
                        taken += 1;
                        let room = self.reader.map(&record, link);
                        if let Some(current) = &mut self.current {
                            current.next = record.offset() + 1;
                        }
                        is_done = record.offset() == last;
                        if room == Room::Full {
                            break;
                        }
                    }
                    Some(Err(KafkaError::PartitionEOF(_))) => is_done = true,
                    Some(Err(error)) => self.reader.judge(member, &error)?,
                    None => break,
                }
                if is_done {
                    break;
                }
            }
            if taken > 0 {
                link.post(&[])?;
            }
            self.reader
                .look_at_brokers(std::slice::from_ref(member), link)?;
            let signal = match taken {
                0 if !is_done => link.listen(LOOK, false),
                _ => link.wait(Duration::ZERO),
            };
            if matches!(signal, Signal::Stop) {
                return Ok(None);
            }
        }
        Ok(Some(()))
    }

    /// Is there such a partition? `Err` inside: no, and why.
    fn judge(
        &mut self,
        request: &Request,
        link: &mut dyn SourceLink,
    ) -> Result<Result<(), String>, Error> {
        let topics = &self.reader.topics;
        if !topics.is_empty() && !topics.contains(&request.topic) {
            return Ok(Err(format!(
                "'topic.list' does not have '{}'",
                request.topic
            )));
        }
        let member = self.reader.member(None, link)?;
        let found = self.reader.metadata(&member, &request.topic, link)?;
        let mut topics = found.topics().iter().filter(|t| t.error().is_none());
        let is_there = topics.any(|topic| {
            let mut partitions = topic.partitions().iter();
            topic.name() == request.topic && partitions.any(|p| p.id() == request.partition)
        });
        Ok(match is_there {
            true => Ok(()),
            false => Err("the broker has no such partition".to_owned()),
        })
    }
}

impl Drop for ReplayResponse {
    fn drop(&mut self) {
        self.requests.sources.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Source for ReplayResponse {
    fn run(&mut self, link: &mut dyn SourceLink) -> Result<Finished, Error> {
        self.requests.lock().waker = Some(link.waker());
        let member = self.reader.member(None, link)?;
        self.reader.metadata(&member, NO_TOPIC, link)?;
        drop(member);
        self.reader.is_lost = false;
        link.report(Connection::Connected);
        loop {
            if self.current.is_none() {
                self.current = self.requests.lock().list.pop_front();
            }
            if self.current.is_some() {
                match self.serve(link)? {
                    Some(()) => continue,
                    None => return Ok(Finished::Stopped),
                }
            }
            match link.idle(LOOK) {
                Signal::Stop => return Ok(Finished::Stopped),
                Signal::End => return Ok(Finished::Ended),
                _ => {}
            }
        }
    }

    fn restore(&mut self, _: &[u8]) -> Result<(), Error> {
        Ok(())
    }

    fn ends(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_from_four_texts() {
        fn check(texts: [&str; 4], expect: Result<(i32, i64, i64), &str>) {
            let found = request(&texts.map(str::to_owned));
            match (found, expect) {
                (Ok(found), Ok(expect)) => {
                    assert_eq!((found.partition, found.next, found.last), expect);
                }
                (Err(cause), Err(expect)) => assert!(cause.contains(expect), "{cause}"),
                (found, expect) => panic!("{texts:?}: {found:?}, not {expect:?}"),
            }
        }
        check(["T", "0", "5", " 9 "], Ok((0, 5, 9)));
        check(["T", "x", "5", "9"], Err("its partition is 'x'"));
        check(["T", "0", "-1", "9"], Err("its first offset is '-1'"));
        check(["T", "0", "1", "null"], Err("its last offset is 'null'"));
        check(["T", "4294967296", "1", "2"], Err("no such partition"));
        assert!(request(&["T".to_owned()]).is_err());
    }
}
