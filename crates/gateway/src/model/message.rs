//! What messages of a topic are, and whether a payload is one of them.

use serde_json::Value as Json;

use crate::schema::Schema;
use crate::token::strict_json;

/// Objects and lists of a payload within each other: as deep as the JSON that mappers read.
const DEPTH_MAX: u8 = 120;

/// What clients and the gateway send each other, one of some.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    pub name: String,
    pub content: Content,
    /// `None`: it may be anything.
    pub schema: Option<Schema>,
}

/// What the bytes of a message are.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Content {
    #[default]
    Json,
    /// A text is judged as a JSON string of it would be.
    Text,
}

/// What becomes of a payload that fits none of the messages of its topic.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Unfit {
    /// Who publishes is told what is wrong.
    #[default]
    Reject,
    /// It is taken, and kept among the rejected events of the app.
    DeadLetter,
    /// Nobody looks.
    Pass,
}

impl Unfit {
    pub const NAMES: [&'static str; 3] = ["reject", "dead-letter", "pass"];

    /// As documents write it.
    pub fn name(self) -> &'static str {
        Unfit::NAMES[self as usize]
    }

    pub fn parse(text: &str) -> Option<Unfit> {
        Some(match text {
            "reject" => Unfit::Reject,
            "dead-letter" => Unfit::DeadLetter,
            "pass" => Unfit::Pass,
            _ => return None,
        })
    }
}

/// What is wrong with a payload; `None`: it is one of the messages, or may be anything. `is_wrapped`: what is meant
/// may stand in `{"event": …}`, and in a list.
pub(super) fn fault_of(messages: &[Message], payload: &[u8], is_wrapped: bool) -> Option<String> {
    if messages.iter().any(|message| message.schema.is_none()) {
        return None;
    }
    let mut faults = Vec::new();
    let mut json = None;
    for message in messages {
        let schema = message.schema.as_ref()?;
        let fault = match message.content {
            Content::Text => match std::str::from_utf8(payload) {
                Ok(text) => schema.fault_of(&Json::from(text)),
                Err(_) => Some("is no text".to_owned()),
            },
            Content::Json => {
                let value = json.get_or_insert_with(|| strict_json::value(payload, DEPTH_MAX));
                match value {
                    Ok(value) => fault_of_json(schema, value, is_wrapped),
                    // Its text may quote the payload.
                    Err(error) => Some(format!(
                        "is no JSON, or has a member twice: line {}, column {}",
                        error.line(),
                        error.column()
                    )),
                }
            }
        };
        faults.push((message.name.as_str(), fault?));
    }
    match faults.as_slice() {
        [] => None,
        [(name, fault)] => Some(format!("the payload is no message '{name}': {fault}")),
        several => {
            let said = several
                .iter()
                .map(|(name, fault)| format!("'{name}' ({fault})"));
            let said: Vec<String> = said.collect();
            Some(format!(
                "the payload is none of the messages {}",
                said.join(", ")
            ))
        }
    }
}

fn fault_of_json(schema: &Schema, value: &Json, is_wrapped: bool) -> Option<String> {
    let fault = schema.fault_of(value)?;
    if !is_wrapped {
        return Some(fault);
    }
    let events = value
        .as_array()
        .map_or(std::slice::from_ref(value), Vec::as_slice);
    let is_bare = |event: &Json| unwrapped(event).is_none();
    if !value.is_array() && is_bare(value) || events.is_empty() {
        return Some(fault);
    }
    let mut events = events.iter().enumerate();
    events.find_map(|(at, event)| {
        let fault = schema.fault_of(unwrapped(event).unwrap_or(event))?;
        Some(match value.is_array() {
            true => format!("event {}: {fault}", at + 1),
            false => fault,
        })
    })
}

/// What stands in the envelope of an event.
fn unwrapped(value: &Json) -> Option<&Json> {
    let members = value.as_object().filter(|members| members.len() == 1)?;
    let (name, inner) = members.iter().next()?;
    (name.eq_ignore_ascii_case("event") && inner.is_object()).then_some(inner)
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    fn message(name: &str, content: Content, schema: Json) -> Message {
        Message {
            name: name.to_owned(),
            content,
            schema: Some(Schema::new(schema, &Map::new()).expect("it is a schema")),
        }
    }

    #[test]
    fn a_payload_is_one_of_the_messages() {
        let tick = json!({ "type": "object", "required": ["price"], "properties": { "price": { "type": "number" } } });
        let all = [
            message("tick", Content::Json, tick),
            message("word", Content::Text, json!({ "enum": ["stop"] })),
        ];
        let fault = |payload: &[u8]| fault_of(&all, payload, false);
        assert_eq!(fault(b"{\"price\":1}"), None);
        assert_eq!(fault(b"stop"), None);
        assert_eq!(
            fault(b"{\"price\":\"1\"}").as_deref(),
            Some(
                "the payload is none of the messages 'tick' ('/price' is of type string, not number), 'word' (it is \
                 none of the values that are allowed)"
            )
        );
        let fault = |payload: &[u8]| fault_of(&all[..1], payload, false);
        for (payload, cause) in [
            (&b"{\"price\":"[..], "is no JSON"),
            (b"{\"price\":1,\"price\":2}", "a member twice"),
            (b"\xff", "is no JSON"),
            (b"", "is no JSON"),
            ("[".repeat(100_000).as_bytes(), "is no JSON"),
        ] {
            let said = fault(payload).expect("it is wrong");
            assert!(said.contains(cause), "{said}");
        }
        assert_eq!(fault_of(&[], b"x", false), None);
        let mut free = all.to_vec();
        free[1].schema = None;
        assert_eq!(fault_of(&free, b"x", false), None);
    }

    #[test]
    fn events_of_a_stream_may_stand_in_their_envelope() {
        let of = json!({ "type": "object", "required": ["a"], "additionalProperties": false, "properties": { "a": true } });
        let all = [message("m", Content::Json, of)];
        let fault = |payload: &str| fault_of(&all, payload.as_bytes(), true);
        for right in [
            "{\"a\":1}",
            "{\"event\":{\"a\":1}}",
            "[{\"event\":{\"a\":1}},{\"a\":2}]",
        ] {
            assert_eq!(fault(right), None, "{right}");
        }
        for (wrong, cause) in [
            ("{\"event\":{\"b\":1}}", "it has no 'a'"),
            (
                "[{\"event\":{\"a\":1}},{\"b\":2}]",
                "event 2: it has no 'a'",
            ),
            ("[]", "of type array"),
            ("{\"event\":1}", "it has no 'a'"),
        ] {
            let said = fault(wrong).expect("it is wrong");
            assert!(said.contains(cause), "{wrong}: {said}");
        }
    }
}
