//! The in-memory topics of one app: the only transports of a test.

use std::collections::VecDeque;

use check::Catalog;
use connect::Error;
use connect::component::{Payload, PayloadKind};
use connect::distribution::Share;
use connect::message::Messages;
use connect::row_decoder::RowDecoder;
use connect::row_encoder::RowEncoder;
use connect::rows::Properties;
use event::value::Shared;
use event::{Batch, Object, Value};
use plan::spec::ConnectorKind;
use plan::{Plan, StreamId};

use crate::outcome::{Message, Row};

/// An in-memory topic takes and hands on anything.
const ANYTHING: &[PayloadKind] = &[PayloadKind::Any];

/// Sources and sinks of type `inMemory`.
#[derive(Default)]
pub struct Topics {
    decoders: Vec<In>,
    encoders: Vec<Out>,
    messages: Messages,
    /// Streams that the engine links itself.
    links: Vec<(StreamId, StreamId)>,
}

struct In {
    topic: String,
    stream: StreamId,
    decoder: RowDecoder,
}

struct Out {
    stream: StreamId,
    /// What it takes of the stream's rows; `None`: all.
    share: Option<Share>,
    topic: Topic,
    encoder: RowEncoder,
}

enum Topic {
    Static(String),
    /// By the event: index of the option among those that depend on it.
    Dynamic(usize),
}

/// What publishing brought about.
#[derive(Default)]
pub struct Published {
    /// Rows for streams of the app, in order.
    pub arrived: VecDeque<(StreamId, Batch)>,
    /// Every message with its topic.
    pub messages: Vec<(String, Message)>,
    pub rejected: Vec<String>,
}

impl Topics {
    /// The topics of an app. An option that a source, sink or mapper refuses is a fault of the app.
    pub fn new(plan: &Plan, catalog: &Catalog) -> Result<Topics, Error> {
        let mut topics = Topics {
            links: engine::topic_links(plan),
            ..Topics::default()
        };
        for (stream, definition) in plan.streams.iter().enumerate() {
            let is_topic = |ty: &str| ty.eq_ignore_ascii_case("inMemory");
            for source in definition.sources.iter().filter(|s| is_topic(&s.ty)) {
                let decoder = RowDecoder::new(source, &definition.schema, ANYTHING)?;
                let topic = source.option("topic").unwrap_or_default().to_owned();
                topics.decoders.push(In {
                    topic,
                    stream,
                    decoder,
                });
            }
            for sink in definition.sinks.iter().filter(|s| is_topic(&s.ty)) {
                let Some(spec) = catalog.connector(ConnectorKind::Sink, "inMemory") else {
                    continue;
                };
                let encoder = RowEncoder::new(sink, &definition.schema, spec, ANYTHING)?;
                let topic = match encoder.dynamic().iter().position(|name| name == "topic") {
                    Some(index) => Topic::Dynamic(index),
                    None => Topic::Static(sink.option("topic").unwrap_or_default().to_owned()),
                };
                topics.encoders.push(Out {
                    stream,
                    share: Share::of(sink),
                    topic,
                    encoder,
                });
            }
        }
        Ok(topics)
    }

    /// Rows of a stream that has sinks.
    pub fn send(&mut self, stream: StreamId, batch: &Batch, at: i64, published: &mut Published) {
        for out in self.encoders.iter_mut().filter(|o| o.stream == stream) {
            let picked = match &mut out.share {
                None => None,
                Some(share) => match share.pick(batch) {
                    Some(picked) => Some(picked),
                    None => continue,
                },
            };
            let batch = picked.as_ref().unwrap_or(batch);
            out.encoder.encode(batch, &mut self.messages);
            for message in self.messages.iter() {
                let topic = match &out.topic {
                    Topic::Static(topic) => topic.as_str(),
                    Topic::Dynamic(index) => message.option(*index),
                };
                // The engine hands rows on to the streams it links itself.
                let links = &self.links;
                let decoders = self
                    .decoders
                    .iter_mut()
                    .filter(|i| !links.contains(&(stream, i.stream)));
                deliver(decoders, topic, message.payload, at, published);
            }
            let rejected = self.messages.take_rejected();
            published
                .rejected
                .extend(rejected.into_iter().map(|r| r.cause));
        }
    }

    /// A message published from outside.
    pub fn publish(&mut self, topic: &str, payload: &Value, at: i64, published: &mut Published) {
        match payload {
            Value::Str(text) => {
                deliver(
                    self.decoders.iter_mut(),
                    topic,
                    Payload::Text(text),
                    at,
                    published,
                );
            }
            Value::Object(Object::Bytes(bytes)) => {
                deliver(
                    self.decoders.iter_mut(),
                    topic,
                    Payload::Bytes(bytes),
                    at,
                    published,
                );
            }
            Value::Object(Object::Map(map)) => {
                let entries = map.lock().clone();
                deliver(
                    self.decoders.iter_mut(),
                    topic,
                    Payload::Map(&entries),
                    at,
                    published,
                );
            }
            other => deliver(
                self.decoders.iter_mut(),
                topic,
                Payload::Object(other),
                at,
                published,
            ),
        }
    }

    /// Events published from outside, as one message.
    pub fn publish_events(
        &mut self,
        topic: &str,
        events: &Batch,
        at: i64,
        published: &mut Published,
    ) {
        deliver(
            self.decoders.iter_mut(),
            topic,
            Payload::Events(events),
            at,
            published,
        );
    }

    /// Whether the app has both sinks and sources.
    pub fn is_read(&self) -> bool {
        !self.encoders.is_empty() && !self.decoders.is_empty()
    }

    /// The stream of the first source of a topic.
    pub fn stream_of(&self, topic: &str) -> Option<StreamId> {
        self.decoders
            .iter()
            .find(|i| i.topic == topic)
            .map(|i| i.stream)
    }
}

fn deliver<'a>(
    decoders: impl Iterator<Item = &'a mut In>,
    topic: &str,
    payload: Payload<'_>,
    at: i64,
    published: &mut Published,
) {
    let messages = messages(payload, at).into_iter();
    published
        .messages
        .extend(messages.map(|message| (topic.to_owned(), message)));
    for decoder in decoders.filter(|i| i.topic == topic) {
        decoder.decoder.map(payload, &Properties::none());
        published
            .rejected
            .extend(decoder.decoder.take_rejected().into_iter().map(|r| r.cause));
        published
            .arrived
            .extend(decoder.decoder.take().map(|batch| (decoder.stream, batch)));
    }
}

/// What is published in one call: of a batch each chunk, since batch bounds mean nothing.
fn messages(payload: Payload<'_>, at: i64) -> Vec<Message> {
    let payload = match payload {
        Payload::Events(batch) => {
            let row = |row: usize| Row {
                ts: batch.times.at(row),
                expired: false,
                data: batch.row(row),
            };
            let chunk = |chunk: usize| Message::Events {
                at,
                events: batch.chunk(chunk).map(row).collect(),
            };
            return (0..batch.chunk_count()).map(chunk).collect();
        }
        Payload::Text(text) => Value::str(text),
        Payload::Bytes(bytes) => Value::Object(Object::Bytes(bytes.into())),
        Payload::Map(entries) => Value::Object(Object::Map(Shared::new(entries.to_vec()))),
        Payload::Object(value) => value.clone(),
    };
    vec![Message::Payload { at, payload }]
}
