//! The `kafkaMultiDC` sink: each record to both clusters, under one number.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::super::sequence::{self, number_of};
use super::super::sink::{KafkaSink, Sequence};
use connect::component::{Payload, Sink, SinkSetup};
use connect::error::Error;
use connect::message::{Message, Undelivered};
use connect::option::Settings;

pub(in crate::kafka) struct MultiDcSink {
    clusters: [KafkaSink; 2],
    sequence: Sequence,
    is_binary: bool,
    /// Records that one cluster has given up, by number: the other has them, or gives them up as well.
    halves: HashMap<i64, Undelivered>,
    failed: Vec<Undelivered>,
    buffer: Vec<u8>,
}

impl MultiDcSink {
    pub fn new(setup: &SinkSetup<'_>) -> Result<MultiDcSink, Error> {
        let settings = Settings::of_sink(setup.transport, crate::kafka::CONNECTORS);
        let brokers = settings.text_or_default("bootstrap.servers");
        let [one, two] = super::two(settings, brokers)?;
        let cluster = |brokers: &str| KafkaSink::of_centre(setup, brokers);
        Ok(MultiDcSink {
            clusters: [cluster(&one)?, cluster(&two)?],
            // Without an id the header has the word, as `KafkaMultiDCSink` writes it.
            sequence: Sequence::new(settings.text_or_default("sequence.id")),
            is_binary: settings.flag("is.binary.message"),
            halves: HashMap::new(),
            failed: Vec::new(),
            buffer: Vec::new(),
        })
    }

    /// Sorts what clusters have given up: what both have is lost for both.
    fn collect(&mut self) {
        for cluster in &mut self.clusters {
            for undelivered in cluster.take_undelivered() {
                match number_of(&undelivered.message.payload) {
                    Some(number) if self.halves.remove(&number).is_some() => {
                        self.failed.push(undelivered);
                    }
                    Some(number) => {
                        self.halves.insert(number, undelivered);
                    }
                    None => self.failed.push(undelivered),
                }
            }
        }
    }

    fn failure(&self) -> Option<Error> {
        let first = self.failed.first()?;
        let cause = connect::error::chain(&first.error);
        Some(Error::unavailable("both data centres", cause))
    }

    /// Waits until what was sent is in a cluster that has given up nothing, and in the other as long as
    /// that is there.
    fn settle(&mut self, patience: Duration) -> bool {
        let since = Instant::now();
        loop {
            self.collect();
            let settled = self.clusters.each_ref().map(KafkaSink::is_settled);
            let is_there = self.clusters.each_ref().map(|cluster| !cluster.is_lost());
            let is_done = match settled {
                [true, true] => true,
                [true, false] => self.halves.is_empty() && !is_there[1],
                [false, true] => self.halves.is_empty() && !is_there[0],
                [false, false] => false,
            };
            if is_done {
                if settled == [true, true] {
                    self.say_halves();
                }
                return true;
            }
            if since.elapsed() >= patience {
                return false;
            }
            self.clusters.iter().for_each(KafkaSink::poll);
        }
    }

    /// Nothing is on its way: what one cluster has given up the other has.
    fn say_halves(&mut self) {
        if let Some((_, first)) = self.halves.iter().next() {
            tracing::error!(
                cause = connect::error::chain(&first.error),
                records = self.halves.len(),
                "records were written to only one of the data centres"
            );
            self.halves.clear();
        }
    }
}

/// Between two looks of a flush that waits for as long as it takes.
const FLUSH_LOOK: Duration = Duration::from_millis(500);

/// A sink that closes waits no longer.
const CLOSE: Duration = Duration::from_secs(10);

impl Sink for MultiDcSink {
    fn connect(&mut self) -> Result<(), Error> {
        // A client waits for its cluster by itself.
        for cluster in &mut self.clusters {
            cluster.connect()?;
        }
        for Undelivered { message, .. } in std::mem::take(&mut self.failed) {
            let payload = message.payload.clone();
            for cluster in &mut self.clusters {
                cluster.send(&message.message(), &payload)?;
            }
        }
        Ok(())
    }

    fn publish(&mut self, message: &Message<'_>) -> Result<(), Error> {
        if let Some(error) = self.failure() {
            return Err(error);
        }
        let mut text = String::new();
        let payload = KafkaSink::payload_of(message, &mut text)?;
        let is_binary = self.is_binary || matches!(message.payload, Payload::Bytes(_));
        let Sequence { id, next } = &mut self.sequence;
        sequence::write(id, *next, payload, is_binary, &mut self.buffer);
        let sent = self
            .clusters
            .each_mut()
            .map(|cluster| cluster.send(message, &self.buffer));
        *next += 1;
        self.collect();
        match sent {
            [Err(error), Err(_)] => Err(error),
            [Err(error), Ok(())] | [Ok(()), Err(error)] if !error.is_unavailable() => Err(error),
            _ => Ok(()),
        }
    }

    fn look(&mut self) -> Option<Duration> {
        self.collect();
        self.clusters[1].look();
        self.clusters[0].look()
    }

    fn flush(&mut self) -> Result<(), Error> {
        while !self.flush_within(FLUSH_LOOK)? {}
        Ok(())
    }

    fn flush_within(&mut self, patience: Duration) -> Result<bool, Error> {
        let is_done = self.settle(patience);
        self.failure().map_or(Ok(is_done), Err)
    }

    fn close(&mut self) -> Result<(), Error> {
        self.settle(CLOSE);
        for cluster in &mut self.clusters {
            // What it has not delivered is collected.
            cluster.close().ok();
        }
        self.collect();
        self.say_halves();
        self.failure().map_or(Ok(()), Err)
    }

    fn take_undelivered(&mut self) -> Vec<Undelivered> {
        self.collect();
        std::mem::take(&mut self.failed)
    }
}
