//! Recorded cases: an app, what is sent to it and when, and what the reference gave.
//!
//! The format is described in `conformance/README.md` of the reference material; one JSON object a
//! line. Reading is lenient about fields that are only for information.

use event::value::Shared;
use event::{Object, Type, Value};
use serde_json::{Map, Value as Json, json};

#[derive(Debug, thiserror::Error)]
#[error("case '{id}': {message}")]
pub struct CaseError {
    pub id: String,
    pub message: String,
}

/// One recorded case.
#[derive(Clone, Debug)]
pub struct Case {
    pub id: String,
    pub group: String,
    pub body: Body,
    pub expected: Json,
    /// What is expected under `@app:playback`: the same as live, or its own result.
    pub playback: Option<Playback>,
    /// Order of rows inside a chunk or answer that counts for nothing.
    pub row_order: Option<String>,
    /// An extension of the reference's test-suite without which the case cannot run.
    pub needs: Option<String>,
}

#[derive(Clone, Debug)]
pub enum Playback {
    Same,
    Expected(Json),
}

#[derive(Clone, Debug)]
pub enum Body {
    App(AppCase),
    /// Only the parser is asked, by this entry point.
    Parse {
        entry: String,
        text: String,
    },
}

#[derive(Clone, Debug)]
pub struct AppCase {
    pub app: String,
    /// Milliseconds since 1970.
    pub start: i64,
    pub steps: Vec<Step>,
    pub observe: Observe,
    pub autostart: bool,
    pub sandbox: bool,
    pub validate: bool,
    /// The case is about playback itself: `@app:playback` is put before the app.
    pub playback: bool,
    pub config: Config,
}

/// Names to watch; `*` is all of them.
#[derive(Clone, Default, Debug)]
pub struct Observe {
    pub streams: Vec<String>,
    pub queries: Vec<String>,
    pub topics: Vec<String>,
}

/// What the reference's configuration manager holds.
#[derive(Clone, Default, Debug)]
pub struct Config {
    pub extensions: Vec<(String, String)>,
    pub systems: Vec<(String, String)>,
    pub properties: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
pub struct Step {
    pub at: i64,
    pub action: Action,
}

#[derive(Clone, Debug)]
pub enum Action {
    Send {
        stream: String,
        events: Vec<Event>,
        is_chunk: bool,
    },
    PublishEvents {
        topic: String,
        events: Vec<Event>,
    },
    PublishPayload {
        topic: String,
        payload: Value,
    },
    Query(String),
    Advance,
    Start,
    Shutdown,
    Create,
    Persist,
    /// A revision, or `last`.
    Restore(String),
    ClearRevisions,
    Snapshot,
    RestoreSnapshot,
    EnablePlayback {
        on: bool,
        idle: Option<(i64, i64)>,
    },
}

#[derive(Clone, Debug)]
pub struct Event {
    /// `None`: the time of the step.
    pub ts: Option<i64>,
    pub expired: bool,
    pub data: Vec<Value>,
    /// A number in `data` was written without its type and takes that of the attribute.
    pub is_bare: bool,
}

impl Event {
    /// The value of an attribute of type `ty`.
    pub fn value(&self, index: usize, ty: Type) -> Value {
        let value = self.data.get(index).cloned().unwrap_or_default();
        match (&value, ty) {
            _ if !self.is_bare => value,
            (Value::Long(v), Type::Int) => Value::Int(*v as i32),
            (Value::Long(v), Type::Float) => Value::Float(*v as f32),
            (Value::Long(v), Type::Double) => Value::Double(*v as f64),
            (Value::Double(v), Type::Float) => Value::Float(*v as f32),
            _ => value,
        }
    }
}

impl Case {
    /// Reads one line.
    pub fn parse(line: &str) -> Result<Case, CaseError> {
        let json: Json = serde_json::from_str(line).map_err(|e| CaseError {
            id: "?".into(),
            message: e.to_string(),
        })?;
        let id = text(&json, "id").unwrap_or("?").to_owned();
        read(&json).map_err(|message| CaseError { id, message })
    }

    /// The app with `@app:playback` before it, and whether the case has a playback result at all.
    pub fn has_playback(&self) -> bool {
        self.playback.is_some()
    }
}

fn read(json: &Json) -> Result<Case, String> {
    let body = match text(json, "parse") {
        Some(entry) => Body::Parse {
            entry: entry.to_owned(),
            text: text(json, "text").ok_or("no text")?.to_owned(),
        },
        None => Body::App(AppCase {
            app: text(json, "app").ok_or("no app")?.to_owned(),
            start: json["start"].as_i64().ok_or("no start")?,
            steps: json["steps"]
                .as_array()
                .into_iter()
                .flatten()
                .map(step)
                .collect::<Result<_, _>>()?,
            observe: observe(&json["observe"]),
            autostart: json["autostart"].as_bool().unwrap_or(true),
            sandbox: json["sandbox"].as_bool().unwrap_or(false),
            validate: json["validate"].as_bool().unwrap_or(false),
            playback: text(json, "clock") == Some("playback"),
            config: Config {
                extensions: pairs(&json["config"]["extensions"]),
                systems: pairs(&json["config"]["systems"]),
                properties: pairs(&json["config"]["properties"]),
            },
        }),
    };
    let playback = match (text(json, "playback"), json.get("expectedPlayback")) {
        (Some(_), _) => Some(Playback::Same),
        (None, Some(expected)) => Some(Playback::Expected(expected.clone())),
        (None, None) => None,
    };
    Ok(Case {
        id: text(json, "id").ok_or("no id")?.to_owned(),
        group: text(json, "group").unwrap_or("none").to_owned(),
        body,
        expected: json["expected"].clone(),
        playback,
        row_order: text(json, "rowOrder").map(str::to_owned),
        needs: match json.get("needs") {
            Some(Json::String(needs)) => Some(needs.clone()),
            Some(Json::Null) | None => text(json, "group")
                .filter(|group| group.starts_with("needs_"))
                .map(|_| "an extension of the reference's test-suite".to_owned()),
            Some(other) => Some(other.to_string()),
        },
    })
}

fn text<'a>(json: &'a Json, key: &str) -> Option<&'a str> {
    json.get(key).and_then(Json::as_str)
}

fn names(json: &Json) -> Vec<String> {
    match json {
        Json::String(s) => vec![s.clone()],
        Json::Array(all) => all
            .iter()
            .filter_map(Json::as_str)
            .map(str::to_owned)
            .collect(),
        _ => Vec::new(),
    }
}

/// Without `observe` everything is watched.
fn observe(json: &Json) -> Observe {
    if json.is_null() {
        return Observe {
            streams: vec!["*".into()],
            queries: vec!["*".into()],
            topics: Vec::new(),
        };
    }
    Observe {
        streams: names(&json["streams"]),
        queries: names(&json["queries"]),
        topics: names(&json["topics"]),
    }
}

fn pairs(json: &Json) -> Vec<(String, String)> {
    json.as_object()
        .into_iter()
        .flatten()
        .filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())))
        .collect()
}

fn step(json: &Json) -> Result<Step, String> {
    let at = json["at"].as_i64().ok_or("a step without 'at'")?;
    let has = |key: &str| json.get(key).is_some();
    let action = if let Some(send) = json.get("send") {
        send_action(send)?
    } else if let Some(publish) = json.get("publish") {
        publish_action(publish)?
    } else if let Some(query) = text(json, "query") {
        Action::Query(query.to_owned())
    } else if has("advance") {
        Action::Advance
    } else if has("start") {
        Action::Start
    } else if has("shutdown") {
        Action::Shutdown
    } else if has("create") {
        Action::Create
    } else if has("persist") {
        Action::Persist
    } else if let Some(revision) = json.get("restore") {
        Action::Restore(revision.as_str().unwrap_or("last").to_owned())
    } else if has("clearRevisions") {
        Action::ClearRevisions
    } else if has("snapshot") {
        Action::Snapshot
    } else if has("restoreSnapshot") {
        Action::RestoreSnapshot
    } else if let Some(playback) = json.get("enablePlayback") {
        let idle = playback["idle"]
            .as_i64()
            .zip(playback["increment"].as_i64());
        Action::EnablePlayback {
            on: playback.as_bool().unwrap_or(true),
            idle,
        }
    } else {
        return Err(format!("a step that is not known: {json}"));
    };
    Ok(Step { at, action })
}

fn send_action(send: &Json) -> Result<Action, String> {
    let stream = text(send, "stream")
        .ok_or("a send without stream")?
        .to_owned();
    if let Some(events) = send.get("events").and_then(Json::as_array) {
        let events = events.iter().map(event).collect::<Result<_, _>>()?;
        return Ok(Action::Send {
            stream,
            events,
            is_chunk: true,
        });
    }
    Ok(Action::Send {
        stream,
        events: vec![event(send)?],
        is_chunk: false,
    })
}

fn publish_action(publish: &Json) -> Result<Action, String> {
    let topic = text(publish, "topic")
        .ok_or("a publish without topic")?
        .to_owned();
    match publish.get("events").and_then(Json::as_array) {
        Some(events) => Ok(Action::PublishEvents {
            topic,
            events: events.iter().map(event).collect::<Result<_, _>>()?,
        }),
        None => Ok(Action::PublishPayload {
            topic,
            payload: value(&publish["payload"])?,
        }),
    }
}

fn event(json: &Json) -> Result<Event, String> {
    let data = json["data"].as_array().ok_or("an event without data")?;
    Ok(Event {
        ts: json["ts"].as_i64(),
        expired: json["expired"].as_bool().unwrap_or(false),
        data: data.iter().map(value).collect::<Result<_, _>>()?,
        is_bare: data.iter().any(Json::is_number),
    })
}

/// A value with the type it carries.
pub fn value(json: &Json) -> Result<Value, String> {
    Ok(match json {
        Json::Null => Value::Null,
        Json::Bool(b) => Value::Bool(*b),
        Json::String(s) => Value::str(s),
        Json::Object(map) => typed(map)?,
        // Hand-written cases leave the type of whole numbers and fractions to the attribute.
        Json::Number(n) => match n.as_i64() {
            Some(n) => Value::Long(n),
            None => Value::Double(n.as_f64().ok_or("a number out of range")?),
        },
        Json::Array(_) => return Err(format!("a bare array is no value: {json}")),
    })
}

fn typed(map: &Map<String, Json>) -> Result<Value, String> {
    let (kind, json) = map.iter().next().ok_or("an empty object is no value")?;
    let bad = || format!("a value of kind '{kind}' cannot be {json}");
    Ok(match kind.as_str() {
        "i" => Value::Int(
            json.as_i64()
                .and_then(|n| i32::try_from(n).ok())
                .ok_or_else(bad)?,
        ),
        "l" => Value::Long(json.as_i64().ok_or_else(bad)?),
        "f" => Value::Float(real(json).ok_or_else(bad)? as f32),
        "d" => Value::Double(real(json).ok_or_else(bad)?),
        "o" => Value::Object(object(json)?),
        _ => return Err(bad()),
    })
}

fn real(json: &Json) -> Option<f64> {
    match json.as_str() {
        Some("NaN") => Some(f64::NAN),
        Some("Infinity") => Some(f64::INFINITY),
        Some("-Infinity") => Some(f64::NEG_INFINITY),
        Some(_) => None,
        None => json.as_f64(),
    }
}

fn object(json: &Json) -> Result<Object, String> {
    let list = |key: &str| -> Result<Option<Vec<Value>>, String> {
        json.get(key)
            .and_then(Json::as_array)
            .map(|all| all.iter().map(value).collect())
            .transpose()
    };
    if let Some(values) = list("list")? {
        return Ok(Object::List(Shared::new(values)));
    }
    if let Some(values) = list("set")? {
        return Ok(Object::Set(Shared::new(values)));
    }
    if let Some(values) = list("array")? {
        return Ok(Object::Array(values.into()));
    }
    if let Some(entries) = json.get("map").and_then(Json::as_array) {
        let entries = entries
            .iter()
            .map(|pair| Ok((value(&pair[0])?, value(&pair[1])?)))
            .collect::<Result<Vec<_>, String>>()?;
        return Ok(Object::Map(Shared::new(entries)));
    }
    if let Some(bytes) = json.get("bytes").and_then(Json::as_str) {
        return Ok(Object::Bytes(
            decode_base64(bytes)
                .ok_or("bytes that are not base64")?
                .into(),
        ));
    }
    Err(format!("an object that is not known: {json}"))
}

/// A value in the format of the cases.
pub fn to_json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(v) => json!(v),
        Value::Str(v) => json!(&**v),
        Value::Int(v) => json!({ "i": v }),
        Value::Long(v) => json!({ "l": v }),
        Value::Float(v) => json!({ "f": real_json(f64::from(*v), shortest_float(*v)) }),
        Value::Double(v) => json!({ "d": real_json(*v, *v) }),
        Value::Object(v) => json!({ "o": object_json(v) }),
    }
}

/// A float as the double with the same shortest digits, so that 55.6f is written 55.6.
fn shortest_float(v: f32) -> f64 {
    v.to_string().parse().unwrap_or(f64::from(v))
}

fn real_json(v: f64, written: f64) -> Json {
    if v.is_nan() {
        json!("NaN")
    } else if v.is_infinite() {
        json!(if v > 0.0 { "Infinity" } else { "-Infinity" })
    } else {
        json!(written)
    }
}

fn object_json(object: &Object) -> Json {
    let list = |values: &[Value]| -> Vec<Json> { values.iter().map(to_json).collect() };
    match object {
        Object::List(v) => json!({ "list": list(&v.lock()) }),
        Object::Set(v) => json!({ "set": list(&v.lock()) }),
        Object::Array(v) => json!({ "array": list(v) }),
        Object::Map(v) => {
            let entries: Vec<Json> = v
                .lock()
                .iter()
                .map(|(k, v)| json!([to_json(k), to_json(v)]))
                .collect();
            json!({ "map": entries })
        }
        Object::Bytes(v) => json!({ "bytes": encode_base64(v) }),
        // Java's text of an exception begins with its class.
        Object::Error(v) => {
            let class = v.split_once(": ").map_or(&**v, |(class, _)| class);
            json!({ "class": class, "text": &**v })
        }
    }
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn encode_base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let b = [
            group[0],
            *group.get(1).unwrap_or(&0),
            *group.get(2).unwrap_or(&0),
        ];
        let bits = u32::from(b[0]) << 16 | u32::from(b[1]) << 8 | u32::from(b[2]);
        for i in 0..4 {
            let six = (bits >> (18 - 6 * i)) as usize & 63;
            out.push(if i <= group.len() {
                char::from(BASE64[six])
            } else {
                '='
            });
        }
    }
    out
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0u32, 0);
    for byte in text
        .bytes()
        .filter(|b| *b != b'=' && !b.is_ascii_whitespace())
    {
        let six = BASE64.iter().position(|b| *b == byte)? as u32;
        bits = bits << 6 | six;
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_as_they_were_written() {
        for text in [
            "null",
            "true",
            "\"x\"",
            "{\"i\":-3}",
            "{\"l\":9007199254740993}",
            "{\"f\":55.6}",
            "{\"d\":\"NaN\"}",
            "{\"d\":1e300}",
            "{\"o\":{\"map\":[[\"a\",{\"o\":{\"list\":[{\"i\":1},null]}}]]}}",
            "{\"o\":{\"bytes\":\"AAECA/8=\"}}",
        ] {
            let json: Json = serde_json::from_str(text).expect("the test's own JSON");
            assert_eq!(to_json(&value(&json).expect("a value")), json, "{text}");
        }
    }

    #[test]
    fn a_case_is_read_with_its_steps() {
        let line = r#"{"id":"a","group":"g","app":"define stream S (a int);","start":5,
            "steps":[{"at":7,"send":{"stream":"S","data":[{"i":1}]}},
                     {"at":8,"send":{"stream":"S","events":[{"ts":3,"data":[null]}]}},
                     {"at":9,"restore":"last"}],
            "observe":{"streams":["S"],"queries":[]},"expected":{"status":"ok"},"playback":"same"}"#;
        let case = Case::parse(line).expect("a case");
        let Body::App(app) = &case.body else {
            panic!("an app case")
        };
        assert_eq!((app.steps.len(), app.start, app.autostart), (3, 5, true));
        assert!(
            matches!(&app.steps[1].action, Action::Send { is_chunk: true, events, .. }
            if events[0].ts == Some(3))
        );
        assert!(case.has_playback());
    }
}
