//! What a sink has taken when a checkpoint passes it.

use std::collections::VecDeque;
use std::sync::Mutex;

use connect::Error;
use connect::component::PayloadKind;
use connect::message::{Sent, Undelivered};
use connect::spec::in_memory;
use event::{Chunks, Column, Times};
use lang::span::Span;
use plan::{Mapping, Transport};

use super::*;
use crate::activity::ActivityTracker;
use crate::queue::Weight;

/// What becomes of a message on its way, when it is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Arrives,
    Fails,
}

/// A destination that takes as many messages at once as there are fates for, and refuses further ones as
/// if it were away.
#[derive(Default)]
struct Way {
    cannot_connect: bool,
    fates: VecDeque<Fate>,
    on_way: VecDeque<(Sent, Fate)>,
    failed: Vec<Sent>,
    arrived: usize,
}

struct Narrow(Arc<Mutex<Way>>);

impl Narrow {
    fn away() -> Error {
        Error::unavailable("the peer", "all connections are in use")
    }
}

impl Sink for Narrow {
    fn connect(&mut self) -> Result<(), Error> {
        let way = self.0.lock().expect("one thread");
        match way.cannot_connect {
            true => Err(Narrow::away()),
            false => Ok(()),
        }
    }

    fn publish(&mut self, message: &Message<'_>) -> Result<(), Error> {
        let mut way = self.0.lock().expect("one thread");
        let fate = way.fates.pop_front().ok_or_else(Narrow::away)?;
        way.on_way.push_back((Sent::new(message), fate));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        while !self.flush_within(FLUSH_LOOK)? {}
        Ok(())
    }

    /// One message each time it is asked.
    fn flush_within(&mut self, _: Duration) -> Result<bool, Error> {
        let mut way = self.0.lock().expect("one thread");
        match way.on_way.pop_front() {
            Some((_, Fate::Arrives)) => way.arrived += 1,
            Some((sent, Fate::Fails)) => way.failed.push(sent),
            None => {}
        }
        match way.failed.is_empty() {
            true => Ok(way.on_way.is_empty()),
            false => Err(Narrow::away()),
        }
    }

    fn close(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn take_undelivered(&mut self) -> Vec<Undelivered> {
        let failed = std::mem::take(&mut self.0.lock().expect("one thread").failed);
        let undelivered = |message| Undelivered {
            message,
            error: Narrow::away(),
        };
        failed.into_iter().map(undelivered).collect()
    }
}

fn encoder(schema: &Schema) -> RowEncoder {
    let transport = Transport {
        ty: "narrow".into(),
        options: Vec::new(),
        map: Mapping {
            ty: "passThrough".into(),
            options: Vec::new(),
            attributes: Vec::new(),
            payload: Vec::new(),
            span: Span::default(),
        },
        distribution: None,
        span: Span::default(),
    };
    let made = RowEncoder::new(&transport, schema, &in_memory::SINK, &[PayloadKind::Any]);
    made.expect("passThrough needs nothing")
}

/// A thread with one sink, for which nobody waits.
fn thread(way: &Arc<Mutex<Way>>) -> SinkThread {
    let activity = Arc::new(ActivityTracker::default());
    let schema = Schema::default();
    let sink: Box<dyn Sink> = Box::new(Narrow(Arc::clone(way)));
    let slot = SinkSlot::new(
        ("Out".to_owned(), schema.clone()),
        0,
        encoder(&schema),
        sink,
        OnUnreachable::Log,
        Arc::default(),
        Arc::default(),
    );
    let weight = Weight {
        rows: ROWS_MAX,
        bytes: BYTES_MAX,
    };
    SinkThread {
        name: "narrow".into(),
        slots: vec![slot],
        output_queue: Arc::new(OutputQueue::new(weight)),
        input_queue: Arc::new(InputQueue::new(weight)),
        rejected: SharedLog::default(),
        health: Arc::new(Health::new(&["A".to_owned()], &activity, true)),
        has_state: true,
        is_cut_off: false,
        store_key: String::new(),
        uncommitted: Arc::default(),
        messages: Messages::default(),
        attempts: HashMap::new(),
    }
}

/// A row, published by itself.
fn publish(thread: &mut SinkThread, value: i64) {
    let column = Column::longs_from(vec![value]);
    let batch = Batch::new(vec![column], 1, Times::Same(0), Chunks::EachRow, 0);
    let mut messages = Messages::default();
    messages.push_events(batch.clone(), &[0]);
    thread.publish_one(0, &batch, &messages.get(0).with_events(&batch));
    thread.give_back(0);
}

#[track_caller]
fn check(fates: &[Fate], arrived: usize, failed: u64) {
    let way = Arc::new(Mutex::new(Way {
        fates: fates.iter().copied().collect(),
        ..Way::default()
    }));
    let mut thread = thread(&way);
    assert!(thread.try_connect(0));
    for value in 0..=fates.len() as i64 {
        publish(&mut thread, value);
    }
    assert!(!thread.slots[0].is_connected, "one more was too many");
    thread.flush();
    let way = way.lock().expect("one thread");
    assert_eq!(
        way.on_way.len(),
        0,
        "a checkpoint passed what is on its way"
    );
    assert_eq!(way.arrived, arrived);
    assert_eq!(thread.slots[0].metrics.failed.get(), failed);
    assert_eq!(thread.slots[0].metrics.events.get(), arrived as u64);
}

#[test]
fn a_checkpoint_waits_for_what_is_on_its_way_to_a_destination_that_takes_no_more() {
    use Fate::{Arrives, Fails};
    check(&[Arrives], 1, 1);
    check(&[Fails], 0, 2);
    // One that fails while others are on their way.
    check(&[Fails, Arrives, Fails, Arrives], 2, 3);
}

#[test]
fn checkpoints_do_not_make_tries_to_reach_a_destination_more_frequent() {
    let way = Arc::new(Mutex::new(Way {
        cannot_connect: true,
        ..Way::default()
    }));
    let mut thread = thread(&way);
    let mut pause = Duration::ZERO;
    for _ in 0..3 {
        assert!(!thread.try_connect(0));
        thread.flush();
        let next_try = thread.slots[0].next_try.expect("it is tried again");
        let next = next_try.saturating_duration_since(Instant::now());
        assert!(next > pause, "{next:?} after {pause:?}");
        pause = next;
    }
}
