//! What came out of a run, in the shape of a case's `expected`.

use std::collections::BTreeMap;

use event::Value;
use serde_json::{Map, Value as Json, json};

use crate::case::to_json;

/// One event that came out.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    pub ts: i64,
    pub data: Vec<Value>,
    pub expired: bool,
}

/// Events that came out together on a stream.
#[derive(Clone, PartialEq, Debug)]
pub struct Chunk {
    pub at: i64,
    pub events: Vec<Row>,
}

/// One call of a query's callback; `None` where there were no such events.
#[derive(Clone, PartialEq, Debug)]
pub struct Callback {
    pub at: i64,
    pub ts: i64,
    pub current: Option<Vec<Row>>,
    pub expired: Option<Vec<Row>>,
}

/// One message on a topic.
#[derive(Clone, PartialEq, Debug)]
pub enum Message {
    Events { at: i64, events: Vec<Row> },
    Payload { at: i64, payload: Value },
}

#[derive(Clone, PartialEq, Debug)]
pub struct Answer {
    pub step: usize,
    /// `Err`: why the query failed.
    pub rows: Result<Option<Vec<Row>>, String>,
}

/// Everything that came out.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Outcome {
    pub streams: BTreeMap<String, Vec<Chunk>>,
    pub queries: BTreeMap<String, Vec<Callback>>,
    pub topics: BTreeMap<String, Vec<Message>>,
    pub answers: Vec<Answer>,
    /// Chunks that failed, as the log would say it.
    pub failures: Vec<String>,
}

/// How a run ended.
#[derive(Clone, PartialEq, Debug)]
pub enum Status {
    Done(Outcome),
    /// The app was refused for a fault of its own: every fault in words.
    Refused(Vec<String>),
    /// There is no such stream or query to watch.
    NothingToObserve(String),
    /// Something that the app needs is known but does not run yet.
    NotThereYet(String),
    /// The engine broke.
    Panicked(String),
}

impl Status {
    /// In the shape that `compare.py` reads, with the id of the case.
    pub fn to_json(&self, id: &str) -> Json {
        let refused = |status: &str, messages: &[String]| {
            json!({ "id": id, "status": status, "error": { "message": messages.join("; ") },
                    "streams": {}, "queries": {} })
        };
        match self {
            Status::Done(outcome) => outcome.to_json(id),
            Status::Refused(messages) => refused("create-error", messages),
            Status::NothingToObserve(name) => refused("observe-error", std::slice::from_ref(name)),
            Status::NotThereYet(what) => refused("not-there-yet", std::slice::from_ref(what)),
            Status::Panicked(message) => refused("panicked", std::slice::from_ref(message)),
        }
    }
}

impl Outcome {
    fn to_json(&self, id: &str) -> Json {
        let streams: Map<String, Json> = self
            .streams
            .iter()
            .map(|(name, chunks)| {
                let chunks: Vec<Json> = chunks
                    .iter()
                    .map(|c| json!({ "at": c.at, "events": rows_json(&c.events) }))
                    .collect();
                (name.clone(), Json::Array(chunks))
            })
            .collect();
        let queries: Map<String, Json> = self
            .queries
            .iter()
            .map(|(name, calls)| {
                let calls: Vec<Json> = calls
                    .iter()
                    .map(|c| {
                        json!({ "at": c.at, "ts": c.ts,
                                "in": c.current.as_deref().map(rows_json),
                                "out": c.expired.as_deref().map(rows_json) })
                    })
                    .collect();
                (name.clone(), Json::Array(calls))
            })
            .collect();
        let topics: Map<String, Json> = self
            .topics
            .iter()
            .map(|(name, messages)| {
                let messages = messages.iter().map(message_json).collect();
                (name.clone(), Json::Array(messages))
            })
            .collect();
        let answers: Vec<Json> = self
            .answers
            .iter()
            .map(|a| match &a.rows {
                Ok(rows) => json!({ "step": a.step, "events": rows.as_deref().map(rows_json) }),
                Err(message) => json!({ "step": a.step, "error": { "message": message } }),
            })
            .collect();
        json!({ "id": id, "status": "ok", "streams": streams, "queries": queries,
                "topics": topics, "answers": answers })
    }
}

fn rows_json(rows: &[Row]) -> Json {
    Json::Array(
        rows.iter()
            .map(|row| {
                let data: Vec<Json> = row.data.iter().map(to_json).collect();
                let mut json = json!({ "ts": row.ts, "data": data });
                if row.expired {
                    json["expired"] = json!(true);
                }
                json
            })
            .collect(),
    )
}

fn message_json(message: &Message) -> Json {
    match message {
        Message::Events { at, events } => json!({ "at": at, "events": rows_json(events) }),
        Message::Payload { at, payload } => json!({ "at": at, "payload": to_json(payload) }),
    }
}
