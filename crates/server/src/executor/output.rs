//! Hands on what a step gave: to sinks, topics, stores and lines.

use connect::component::Payload;
use connect::rows::Properties;
use engine::{LogLevel, Output, Outputs};
use event::Batch;
use plan::StreamId;

use super::checkpointer::WRITTEN_MAX;
use super::{Executor, OperationTarget, SinkBinding, Topic, with_cause};
use crate::metrics::Label;
use crate::otlp::Span;
use crate::rejected::{Rejection, Stage};
use crate::report::chain;
use crate::rows::{rows_picked, weight_of};
use crate::sink::{OnUnreachable, OutputItem, SinkRows};
use crate::store::StoreRows;

/// The way of a followed batch to a destination, with the time that it waits there.
fn publish_span(batch: Option<&Span>, label: &Label) -> Option<Span> {
    let mut span = batch?.part("publish");
    span.set("stream", &label.element);
    span.set("sink", &label.ty);
    Some(span)
}

impl Executor {
    pub(super) fn post_outputs(&mut self, app: usize, outputs: &mut Outputs) -> Result<(), String> {
        for output in outputs.items.drain(..) {
            match output {
                Output::Sink { stream, batch } => self.hand_to_sinks(app, stream, &batch)?,
                Output::Write {
                    operation, batch, ..
                } => self.hand_to_store(app, operation, batch)?,
                Output::Log { level, text } => {
                    if level != LogLevel::Off {
                        self.lines.put(&text);
                    }
                }
                Output::Rejected(rejected) => self.reject_in_query(app, &rejected),
                // Asked for by tests only.
                Output::Tap { .. } | Output::Callback { .. } => {}
            }
        }
        Ok(())
    }

    pub(super) fn hand_to_store(
        &mut self,
        app: usize,
        operation: usize,
        batch: Batch,
    ) -> Result<(), String> {
        match self.apps[app].operations[operation].clone() {
            OperationTarget::Inline { database, slot } => {
                let rows = StoreRows {
                    slot,
                    operation,
                    batch,
                    attempt: self.attempt.clone(),
                };
                let database = &mut self.databases[database];
                self.health.pulse.waiting(|| database.write(rows))
            }
            OperationTarget::Thread {
                output_queue,
                slot,
                uncommitted,
            } => {
                let weight = weight_of(&batch);
                self.checkpointer.wrote(weight.bytes);
                self.checkpointer.is_requested |= uncommitted.get() >= WRITTEN_MAX;
                let rows = StoreRows {
                    slot,
                    operation,
                    batch,
                    attempt: self.attempt.clone(),
                };
                let push = || output_queue.push(OutputItem::Rows(rows), weight);
                let pushed = self.health.pulse.waiting(push);
                pushed.map_err(|_| "a store has stopped".to_owned())
            }
        }
    }

    fn hand_to_sinks(&mut self, app: usize, stream: StreamId, batch: &Batch) -> Result<(), String> {
        for sink in 0..self.apps[app].sinks[stream].len() {
            let picked = match &mut self.apps[app].shares[stream][sink] {
                None => None,
                Some(share) => match share.pick(batch) {
                    Some(picked) => Some(picked),
                    None => continue,
                },
            };
            let batch = picked.as_ref().unwrap_or(batch);
            self.hand_to_sink(app, stream, sink, batch)?;
        }
        Ok(())
    }

    /// To one of the sinks of a stream.
    pub(super) fn hand_to_sink(
        &mut self,
        app: usize,
        stream: StreamId,
        sink: usize,
        batch: &Batch,
    ) -> Result<(), String> {
        if !self.taps.is_empty() {
            self.pass_sink_taps(app, (stream, sink), batch);
        }
        self.update_sink_table(app, stream, sink)?;
        match &mut self.apps[app].sinks[stream][sink] {
            SinkBinding::Inline {
                encoder,
                sink: lines,
                metrics,
                mapper,
            } => {
                mapper.time(|| encoder.encode(batch, &mut self.messages));
                let rejected = self.messages.take_rejected();
                metrics.failed.add(rejected.len() as u64);
                for message in self.messages.iter() {
                    match lines.publish(&message) {
                        Ok(()) => metrics.events.add(message.rows.len().max(1) as u64),
                        Err(error) => {
                            metrics.failed.add(message.rows.len().max(1) as u64);
                            let cause = chain(&error);
                            tracing::error!(cause, "cannot write line; it is lost");
                        }
                    }
                }
                for one in rejected {
                    self.reject_unwritten(app, (stream, sink), batch, &one);
                }
            }
            SinkBinding::Thread {
                output_queue,
                slot,
                uncommitted,
                metrics,
            } => {
                self.checkpointer.is_requested |= uncommitted.get() >= WRITTEN_MAX;
                let rows = SinkRows {
                    slot: *slot,
                    batch: batch.clone(),
                    is_table: false,
                    attempt: self.attempt.clone(),
                    span: publish_span(self.span.as_ref(), &metrics.label),
                };
                let push = || output_queue.push(OutputItem::Rows(rows), weight_of(batch));
                let pushed = self.health.pulse.waiting(push);
                pushed.map_err(|_| "a sink has stopped".to_owned())?;
                metrics.queued.set(output_queue.held().rows as u64);
                metrics.queue_fill.set(output_queue.fill());
            }
            SinkBinding::Topic { .. } => self.publish(app, stream, sink, batch),
        }
        Ok(())
    }

    /// Siddhi's `InMemoryBroker`: every subscriber in the order of subscription. Streams of the app
    /// itself that the engine links have their rows already.
    fn publish(&mut self, app: usize, stream: StreamId, sink: usize, batch: &Batch) {
        let running = &mut self.apps[app];
        let SinkBinding::Topic {
            encoder,
            topic,
            metrics,
            mapper,
            ..
        } = &mut running.sinks[stream][sink]
        else {
            return;
        };
        let mut messages = std::mem::take(&mut self.messages);
        mapper.time(|| encoder.encode(batch, &mut messages));
        let unwritten = messages.take_rejected();
        metrics.failed.add(unwritten.len() as u64);
        let properties = Properties::none();
        let mut unheard = Vec::new();
        for message in messages.iter() {
            let name = match topic {
                Topic::Named(name) => name.as_str(),
                Topic::Dynamic(index) => message.option(*index),
            };
            let rows = message.rows.len().max(1) as u64;
            let mut is_heard = false;
            for subscriber in self.subscribers.iter_mut().filter(|s| s.topic == name) {
                is_heard = true;
                if subscriber.app == app && running.links.contains(&(stream, subscriber.stream)) {
                    subscriber.metrics.events.add(rows);
                    continue;
                }
                let map = || subscriber.decoder.map(message.payload, &properties);
                subscriber.mapping.time(map);
                if let Payload::Text(text) = message.payload {
                    subscriber.metrics.bytes.add(text.len() as u64);
                }
            }
            if is_heard {
                metrics.events.add(rows);
            } else {
                unheard.extend_from_slice(message.rows);
            }
        }
        self.messages = messages;
        for one in unwritten {
            self.reject_unwritten(app, (stream, sink), batch, &one);
        }
        if !unheard.is_empty() {
            self.unheard(app, stream, sink, batch, &unheard);
        }
        self.carry();
    }

    /// Nobody reads the topic, and nobody can come to read it while the server runs: to wait for one
    /// would stop everything for good, so with `on.error='WAIT'` the events are kept like with
    /// `STORE`.
    fn unheard(&mut self, app: usize, stream: StreamId, sink: usize, batch: &Batch, rows: &[u32]) {
        const CAUSE: &str = "in-memory topic has no subscribers";
        let running = &mut self.apps[app];
        let SinkBinding::Topic {
            on_unheard,
            metrics,
            warn_throttle,
            ..
        } = &mut running.sinks[stream][sink]
        else {
            return;
        };
        if let OnUnreachable::Stream { fault, .. } = *on_unheard {
            if let Some(rows) = rows_picked(batch, rows) {
                self.carried
                    .push_back((app, fault, with_cause(rows, CAUSE)));
            }
            return;
        }
        metrics.failed.add(rows.len() as u64);
        if let Some(count) = warn_throttle.admit() {
            let stream = running.plan.streams[stream].display_name();
            tracing::error!(app = running.name, stream, count, "{CAUSE}");
        }
        if *on_unheard == OnUnreachable::Log {
            return;
        }
        let Some(rows) = rows_picked(batch, rows) else {
            return;
        };
        let definition = &running.plan.streams[stream];
        let name = definition.display_name();
        let rejection = Rejection {
            stage: Stage::Sink,
            origin: format!("{name}[{}]", sink + 1),
            transport: definition.sinks[sink].ty.clone(),
            cause: CAUSE.to_owned(),
            remedy: "run an app that reads the topic".to_owned(),
            ..Rejection::of_rows(&rows, &definition.schema)
        };
        self.keep_rejected(app, name, "sink 'inMemory'".to_owned(), rejection);
    }

    /// What the readers of topics made of the messages waits for their steps.
    fn carry(&mut self) {
        for reader in 0..self.subscribers.len() {
            let subscriber = &mut self.subscribers[reader];
            let (app, stream) = (subscriber.app, subscriber.stream);
            subscriber.mapping.next_batch();
            let place = (stream, subscriber.number);
            if let Some(batch) = subscriber.decoder.take() {
                subscriber.metrics.events.add(batch.len as u64);
                if !self.taps.is_empty() {
                    self.pass_source_taps(app, place, &batch);
                }
                self.carried.push_back((app, stream, batch));
            }
            let subscriber = &mut self.subscribers[reader];
            let rejected = subscriber.decoder.take_rejected();
            subscriber.metrics.rejected.add(rejected.len() as u64);
            let key = subscriber.key.clone();
            for one in rejected {
                let rejection = Rejection {
                    stage: Stage::Source,
                    origin: key.clone(),
                    transport: "inMemory".to_owned(),
                    ..Rejection::of_rejected(one)
                };
                self.reject_message(app, stream, "source 'inMemory'", rejection);
            }
        }
    }
}
