//! Rejected events as people see them: the payload as text, JSON documents.

use std::borrow::Cow;
use std::fmt::Write as _;

use base64::Engine as _;
use connect::rows::RejectedKind;
use event::{Object, Value};
use serde_json::{Map, Value as Json, json};

use super::summary::{GroupKey, Tally};
use super::{Missing, Rejection, Why};
use crate::secrets::Hidden;

/// An event with its number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// As people see it; 0 where it is not known.
    pub number: u64,
    /// The payload that somebody has given it.
    pub edited: Option<Vec<u8>>,
    /// There is such a payload, and its file is damaged.
    pub is_edit_damaged: bool,
    pub rejection: Rejection,
}

impl Entry {
    /// The payload as it is shown and edited: with the edits of somebody.
    pub fn payload(&self) -> Cow<'_, [u8]> {
        match &self.edited {
            Some(edited) => Cow::Borrowed(edited),
            None => self.rejection.shown(),
        }
    }

    /// As one document. With the secrets that are to be hidden, it has the payload: as `payload`, or as
    /// `payload_base64` where it is no text.
    pub fn json(&self, with_payload: Option<&Hidden>) -> Json {
        let rejection = &self.rejection;
        let mut json = json!({
            "number": self.number,
            "time": rejection.time,
            "app": rejection.app,
            "stream": rejection.stream,
            "stage": rejection.stage.name(),
            "origin": rejection.origin,
            "type": rejection.transport,
            "place": rejection.place,
            "cause": rejection.cause,
            "remedy": rejection.remedy,
            "attempts": rejection.attempts,
            "earlier": (rejection.earlier > 0).then_some(rejection.earlier),
            "edited": self.edited.is_some(),
            "edit_damaged": self.is_edit_damaged,
            "payload_kind": kind_name(rejection.kind),
            "payload_bytes": rejection.payload_bytes,
            "payload_kept_bytes": rejection.payload.len(),
        });
        if let Some(hidden) = with_payload {
            // Before they are base64, in which nobody finds them.
            let mut put = |name: &str, payload: &[u8]| {
                put_payload(&mut json, name, &hidden.hide_bytes(payload));
            };
            put("payload", &self.payload());
            if self.edited.is_some() {
                put("original", &rejection.shown());
            }
            let properties = rejection.properties().into_iter();
            let properties = properties.map(|(name, value)| (name, json_value(&value)));
            json["properties"] = Json::Object(properties.collect());
        }
        json
    }
}

/// Puts bytes into a document: as a text, or in base64 as `NAME_base64` where they are none.
pub fn put_payload(json: &mut Json, name: &str, payload: &[u8]) {
    match std::str::from_utf8(payload) {
        Ok(text) => json[name] = json!(text),
        Err(_) => {
            let encoded = base64::engine::general_purpose::STANDARD.encode(payload);
            json[format!("{name}_base64")] = json!(encoded);
        }
    }
}

/// What [`put_payload`] has put into a document.
pub fn take_payload(json: &Json, name: &str) -> Option<Vec<u8>> {
    if let Some(text) = json[name].as_str() {
        return Some(text.as_bytes().to_vec());
    }
    let encoded = json[format!("{name}_base64")].as_str()?;
    base64::engine::general_purpose::STANDARD
        .decode(encoded)
        .ok()
}

fn kind_name(kind: RejectedKind) -> &'static str {
    match kind {
        RejectedKind::Text => "text",
        RejectedKind::Bytes => "bytes",
        RejectedKind::Map => "map",
        RejectedKind::Object => "object",
        RejectedKind::Events => "rows",
    }
}

impl Rejection {
    /// The payload as people see it: text and bytes as they came, rows as one JSON object a line, maps as
    /// a JSON object.
    pub fn shown(&self) -> Cow<'_, [u8]> {
        let text = match self.kind {
            RejectedKind::Text | RejectedKind::Bytes => return Cow::Borrowed(&self.payload),
            RejectedKind::Events => self.rows().map(|rows| {
                let mut text = String::new();
                for row in 0..rows.len {
                    let names = self.attributes.iter().map(|(name, _)| name.clone());
                    let values = rows.row(row);
                    let values = values.iter().map(json_value);
                    let object: Map<String, Json> = names.zip(values).collect();
                    // A string takes whatever is written to it.
                    writeln!(text, "{}", Json::Object(object)).ok();
                }
                text
            }),
            RejectedKind::Map => self.map().map(|entries| {
                let entries = entries.iter();
                let object: Map<String, Json> = entries
                    .map(|(key, of)| (event::text::to_text(key), json_value(of)))
                    .collect();
                Json::Object(object).to_string()
            }),
            RejectedKind::Object => self.object().map(|object| event::text::to_text(&object)),
        };
        Cow::Owned(text.unwrap_or_default().into_bytes())
    }
}

/// A value of a row. Numbers that JSON has not are texts.
pub(crate) fn json_value(of: &Value) -> Json {
    match of {
        Value::Null => Json::Null,
        Value::Bool(v) => json!(v),
        Value::Int(v) => json!(v),
        Value::Long(v) => json!(v),
        Value::Float(v) if v.is_finite() => {
            // The shortest digits of the float, not those of the double it would become.
            let digits = v.to_string().parse::<f64>();
            digits.map_or(Json::Null, |v| json!(v))
        }
        Value::Double(v) if v.is_finite() => json!(v),
        Value::Object(Object::List(list) | Object::Set(list)) => {
            list.lock().iter().map(json_value).collect()
        }
        other => Json::String(event::text::to_text(other)),
    }
}

/// A group of events as one document.
pub fn group_json(key: &GroupKey, tally: &Tally) -> Json {
    let cause = match tally.is_varied {
        true => &key.pattern,
        false => &tally.cause,
    };
    json!({
        "app": key.app,
        "stream": key.stream,
        "stage": key.stage.name(),
        "origin": key.origin,
        "type": tally.transport,
        "cause": cause,
        "remedy": tally.remedy,
        "count": tally.count,
        "first": tally.first,
        "last": tally.last,
        "example": (tally.example > 0).then_some(tally.example),
        "example_cause": tally.cause,
    })
}

/// Events that are not there any more, as one document.
pub fn missing_json(missing: &Missing) -> Json {
    let why = match missing.why {
        Why::Damaged => "damaged",
        Why::SetAside => "set aside",
        Why::Dropped => "dropped",
    };
    json!({
        "file": missing.log.display().to_string(),
        "why": why,
        "bytes": missing.bytes,
        "events": missing.events,
        "exact": missing.is_exact,
    })
}
