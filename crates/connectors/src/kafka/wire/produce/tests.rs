//! The writer's state against a broker that is a model: of Kafka's own checks of producers
//! (`ProducerAppendInfo.checkSequence`), and of all that can come between.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use rdkafka::config::ClientConfig;

use super::super::message::{Broker, code};
use super::batch::RecordBatch;
use super::batch::tests::outgoing;
use super::message::Identity;
use super::state::{Next, State};
use super::{Appended, Options, Why, sender};
use connect::component::Payload;
use connect::message::Message;

const TOPIC: &str = "t";

/// A record whose number is a multiple of it is refused, where records are.
const BAD: u64 = 11;

const BROKERS: [sender::Broker; 2] = [
    sender::Broker { id: 1, version: 1 },
    sender::Broker { id: 2, version: 2 },
];

/// Batches whose places a broker remembers.
const REMEMBERED: usize = 5;

fn options(properties: &[(&str, &str)]) -> Arc<Options> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", "one:1");
    config.set("enable.idempotence", "true");
    config.set("linger.ms", "0");
    for (name, value) in properties {
        config.set(*name, *value);
    }
    Arc::new(Options::new(&config).expect("it can be"))
}

fn state(options: &Arc<Options>) -> State {
    State::new(options, &Arc::new(AtomicBool::new(false)))
}

/// Two brokers, and so many partitions of which the first leads all.
fn learn(state: &mut State, partitions: usize) {
    for id in [1, 2] {
        state.learn_broker(Broker {
            id,
            host: format!("host{id}"),
            port: 9092,
        });
    }
    state.learn_count(TOPIC, partitions, Instant::now());
    for partition in 0..partitions {
        state.learn_leader(TOPIC, partition as i32, (Some(1), 0), Instant::now());
    }
    state.learnt();
}

fn numbers(batch: &RecordBatch) -> Vec<u64> {
    let mut all = Vec::new();
    batch.each_sent(|number, _, _| all.push(number));
    all
}

fn publish(state: &mut State, partition: Option<i32>, number: u64, bytes: usize) -> Appended {
    let value = vec![b'x'; bytes];
    let message = Message::of(Payload::Bytes(&value));
    let record = outgoing(number, None, &value, &message);
    state.append(TOPIC, partition, &record, Instant::now)
}

/// A partition as its leader and its replicas have it.
#[derive(Default)]
struct Log {
    records: Vec<u64>,
    producers: BTreeMap<i64, VecDeque<(i32, i32)>>,
    /// Most bytes of a batch, and whether it refuses records.
    bytes_max: usize,
    is_strict: bool,
}

impl Log {
    fn produce(&mut self, batch: &RecordBatch) -> (i16, Vec<i32>) {
        if batch.len() > self.bytes_max {
            return (code::MESSAGE_TOO_LARGE, Vec::new());
        }
        let numbers = numbers(batch);
        let bad = |number: &u64| self.is_strict && number.is_multiple_of(BAD);
        let refused = numbers.iter().enumerate().filter(|(_, number)| bad(number));
        let refused: Vec<i32> = refused.map(|(at, _)| at as i32).collect();
        if !refused.is_empty() {
            return (code::INVALID_RECORD, refused);
        }
        let (Identity { id, .. }, first) = batch.sequence.expect("a place");
        let last = first + numbers.len() as i32 - 1;
        let known = self.producers.entry(id).or_default();
        if known.contains(&(first, last)) {
            return (code::DUPLICATE_SEQUENCE, Vec::new());
        }
        if known.back().is_some_and(|(_, before)| first != before + 1) {
            return (code::OUT_OF_ORDER_SEQUENCE, Vec::new());
        }
        known.push_back((first, last));
        if known.len() > REMEMBERED {
            known.pop_front();
        }
        self.records.extend(numbers);
        (code::NONE, Vec::new())
    }
}

struct Model {
    state: State,
    logs: Vec<Log>,
    leaders: Vec<i32>,
    epoch: i32,
    /// Requests on their way, by broker.
    flight: [VecDeque<Vec<(usize, RecordBatch)>>; 2],
    next_identity: i64,
    published: Vec<Vec<u64>>,
    number: u64,
    now: Instant,
}

impl Model {
    fn new(partitions: usize, properties: &[(&str, &str)], log: impl Fn() -> Log) -> Model {
        let mut state = state(&options(properties));
        publish(&mut state, Some(0), 1, 10);
        learn(&mut state, partitions);
        let mut published = vec![Vec::new(); partitions];
        published[0].push(1);
        Model {
            state,
            logs: (0..partitions).map(|_| log()).collect(),
            leaders: vec![1; partitions],
            epoch: 0,
            flight: Default::default(),
            next_identity: 100,
            published,
            number: 1,
            now: Instant::now(),
        }
    }

    fn publish(&mut self, partition: usize, bytes: usize) {
        self.number += 1;
        let taken = publish(&mut self.state, Some(partition as i32), self.number, bytes);
        assert_eq!(taken, Appended::Taken);
        self.published[partition].push(self.number);
    }

    /// A broker is sent what there is for it.
    fn send(&mut self, broker: usize) {
        self.now += Duration::from_millis(200);
        if self.state.wants_identity {
            self.next_identity += 1;
            let id = self.next_identity;
            (self.state.identity, self.state.wants_identity) =
                (Some(Identity { id, epoch: 0 }), false);
        }
        let in_flight = self.flight[broker].len();
        let next = self.state.take(BROKERS[broker], in_flight, self.now);
        if let Next::Send(batches) = next {
            self.flight[broker].push_back(batches);
        }
    }

    /// A broker does what it was asked for first, and answers, or the answer is lost with the connection.
    fn answer(&mut self, broker: usize, is_lost: bool) {
        let Some(request) = self.flight[broker].pop_front() else {
            return;
        };
        for (index, batch) in request {
            let target = self.state.target(index);
            let partition = target.partition as usize;
            let (error, refused) = match self.leaders[partition] == broker as i32 + 1 {
                true => self.logs[partition].produce(&batch),
                false => (code::NOT_LEADER, Vec::new()),
            };
            match is_lost {
                true => self.state.unanswered(index, batch),
                false => {
                    let said = (&refused[..], None);
                    self.state.answered(index, batch, error, said, self.now);
                }
            }
        }
        if is_lost {
            self.lose(broker);
        }
        self.learn();
    }

    /// A connection breaks before the broker has read what is on its way.
    fn lose(&mut self, broker: usize) {
        for request in std::mem::take(&mut self.flight[broker]) {
            for (index, batch) in request {
                self.state.unanswered(index, batch);
            }
        }
    }

    fn lead(&mut self, partition: usize) {
        self.leaders[partition] = 3 - self.leaders[partition];
        self.epoch += 1;
    }

    fn learn(&mut self) {
        for (partition, leader) in self.leaders.iter().enumerate() {
            let of_part = (Some(*leader), self.epoch);
            self.state
                .learn_leader(TOPIC, partition as i32, of_part, self.now);
        }
        self.state.learnt();
    }

    fn settle(&mut self) {
        for _ in 0..10_000 {
            if self.state.records() == 0 {
                return;
            }
            self.learn();
            for broker in [0, 1] {
                self.send(broker);
                self.answer(broker, false);
            }
        }
        panic!("{} records are never confirmed", self.state.records());
    }

    /// Everything is in its log once and in order, but what was refused, which has come back.
    fn check(&mut self, is_good: impl Fn(u64) -> bool) {
        let mut back: Vec<u64> = Vec::new();
        for failed in self.state.take_failed() {
            assert!(!matches!(failed.why, Why::Away(_)), "{:?}", failed.why);
            failed.each(|number, _, _| back.push(number));
        }
        back.sort_unstable();
        let all = self.published.iter().flatten().copied();
        let mut expect: Vec<u64> = all.filter(|number| !is_good(*number)).collect();
        expect.sort_unstable();
        assert_eq!(back, expect);
        for (log, published) in self.logs.iter().zip(&self.published) {
            let expect: Vec<u64> = published.iter().copied().filter(|n| is_good(*n)).collect();
            assert_eq!(log.records, expect);
        }
        assert_eq!(self.state.on_way(), 0);
    }
}

proptest! {
    #[test]
    fn whatever_happens_every_record_is_written_once_and_in_order(
        acts in prop::collection::vec((0..10u8, 0..3usize, 1..300usize), 1..200),
        in_flight in 1..=5u8,
        is_strict in any::<bool>(),
        bytes_max in prop::sample::select(vec![450usize, 2_000, 1_000_000]),
    ) {
        let in_flight = in_flight.to_string();
        let properties = [
            ("max.in.flight.requests.per.connection", in_flight.as_str()),
            ("batch.size", "1000"),
        ];
        let log = || Log { bytes_max, is_strict, ..Log::default() };
        let mut model = Model::new(3, &properties, log);
        for (act, which, bytes) in acts {
            let broker = which % 2;
            match act {
                0..=3 => model.publish(which, bytes),
                4 | 5 => model.send(broker),
                6 | 7 => model.answer(broker, false),
                8 => model.answer(broker, true),
                _ if bytes % 2 == 0 => model.lose(broker),
                _ => model.lead(which),
            }
        }
        model.settle();
        model.check(|number| !(is_strict && number.is_multiple_of(BAD)));
    }
}

#[test]
fn nothing_is_doubled_when_the_answer_is_lost_with_its_connection() {
    let log = || Log {
        bytes_max: 1 << 20,
        ..Log::default()
    };
    let mut model = Model::new(1, &[], log);
    model.send(0);
    model.answer(0, true);
    assert_eq!(model.logs[0].records, [1], "the broker has it");
    model.publish(0, 10);
    model.settle();
    model.check(|_| true);
}

#[test]
fn a_broker_that_has_forgotten_the_producer_is_written_to_under_another_number() {
    let log = || Log {
        bytes_max: 1 << 20,
        ..Log::default()
    };
    let mut model = Model::new(1, &[], log);
    model.settle();
    for _ in 0..3 {
        model.publish(0, 10);
        model.settle();
    }
    // Its log was cut, or made anew: what it knows of the producer is not what the producer was told.
    model.logs[0]
        .producers
        .values_mut()
        .for_each(|known| known.truncate(1));
    model.publish(0, 10);
    model.settle();
    model.check(|_| true);
    assert_eq!(model.next_identity, 102);
}

#[test]
fn a_record_that_is_too_long_is_refused_alone() {
    let log = || Log {
        bytes_max: 1_000,
        ..Log::default()
    };
    let mut model = Model::new(1, &[], log);
    for number in 2..60u64 {
        model.publish(0, if number.is_multiple_of(13) { 2_000 } else { 50 });
    }
    model.settle();
    model.check(|number| number < 2 || !number.is_multiple_of(13));
}

#[test]
fn records_wait_for_the_partitions_of_their_topic() {
    let mut state = state(&options(&[]));
    let keys: Vec<Vec<u8>> = (0..20u8).map(|n| vec![b'k', n]).collect();
    for (number, key) in keys.iter().enumerate() {
        let message = Message::of(Payload::Text("v"));
        let record = outgoing(number as u64, Some(key), b"v", &message);
        assert_eq!(
            state.append(TOPIC, None, &record, Instant::now),
            Appended::Taken
        );
    }
    assert_eq!(publish(&mut state, Some(2), 20, 1), Appended::Taken);
    assert_eq!(publish(&mut state, Some(7), 21, 1), Appended::Taken);
    learn(&mut state, 3);
    assert_eq!(
        publish(&mut state, Some(3), 22, 1),
        Appended::NoPartition(3)
    );
    // One of them named a partition that is not there.
    let failed = state.take_failed();
    assert_eq!(failed.len(), 1);
    assert!(matches!(&failed[0].why, Why::Refused(cause) if cause.contains("no partition 7")));
    assert_eq!(state.records(), 21);
    state.identity = Some(Identity { id: 1, epoch: 0 });
    let Next::Send(batches) = state.take(BROKERS[0], 0, Instant::now()) else {
        panic!("there is something to be sent");
    };
    for (index, batch) in &batches {
        let partition = state.target(*index).partition;
        batch.each_outgoing(|_, record| {
            if let Some(key) = record.key {
                assert_eq!(super::partitioner::partition_of(key, 3) as i32, partition);
            }
        });
    }
    let count: usize = batches.iter().map(|(_, batch)| batch.count()).sum();
    assert_eq!((count, state.records()), (21, 21));
}

#[test]
fn what_is_held_is_bounded_and_what_is_late_comes_back() {
    let properties = [
        ("queue.buffering.max.kbytes", "1"),
        ("delivery.timeout.ms", "1000"),
        ("linger.ms", "50"),
    ];
    let mut state = state(&options(&properties));
    let mut number = 0;
    let begin = Instant::now();
    while publish(&mut state, Some(0), number, 100) == Appended::Taken {
        number += 1;
    }
    assert!((5..=10).contains(&number), "{number}");
    learn(&mut state, 1);
    state.identity = Some(Identity { id: 1, epoch: 0 });
    // It waits for more, unless somebody waits for it.
    let next = state.take(BROKERS[0], 0, Instant::now());
    assert!(matches!(next, Next::Wait(Some(at)) if at >= begin + Duration::from_millis(50)));
    state.expire(Instant::now() + Duration::from_millis(900));
    assert_eq!(state.records(), number as usize);
    state.expire(Instant::now() + Duration::from_millis(1000));
    assert_eq!(state.records(), 0);
    let failed = state.take_failed();
    assert!(matches!(&failed[0].why, Why::Away(cause) if cause.contains("within 1 s")));
    assert_eq!(publish(&mut state, Some(0), number, 100), Appended::Taken);
}

#[test]
fn records_without_a_key_stay_with_a_partition_until_it_is_sent() {
    let mut state = state(&options(&[]));
    publish(&mut state, None, 0, 1);
    learn(&mut state, 3);
    state.identity = Some(Identity { id: 1, epoch: 0 });
    let seen = Cell::new(0u32);
    for turn in 0..50u64 {
        for number in 0..10 {
            publish(&mut state, None, 1 + turn * 10 + number, 1);
        }
        let Next::Send(batches) = state.take(BROKERS[0], 0, Instant::now()) else {
            panic!("there is something to be sent");
        };
        assert_eq!(batches.len(), 1, "all of a turn are in one batch");
        for (index, batch) in batches {
            seen.set(seen.get() | 1 << state.target(index).partition);
            state.answered(index, batch, code::NONE, (&[], None), Instant::now());
        }
    }
    assert_eq!(seen.get(), 0b111, "every partition has its turn");
}
