//! Streams and consumers: what keeps a subject's messages, and what gives them to a source.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::session::{Refusal, Session};

/// Messages that a stream of ours keeps: as many as a channel of NATS Streaming.
const MESSAGES_MAX: u64 = 1_000_000;

/// Messages that may be given and not acknowledged.
const UNACKNOWLEDGED_MAX: u64 = 16_384;

/// How long a consumer without a durable name outlives its last reader.
const FORGET: Duration = Duration::from_secs(300);

/// What two consumers of one name have in common but for where they began.
const CONFIGURED: [&str; 5] = [
    "ack_policy",
    "ack_wait",
    "filter_subject",
    "max_ack_pending",
    "replay_policy",
];

/// What JetStream says of a consumer that is not there.
const NO_CONSUMER: u64 = 10_014;

/// The question for streams that keep a subject.
pub(super) fn names_question(subject: &str) -> Json {
    json!({ "subject": subject })
}

/// The first stream of an answer.
pub(super) fn first_name(answer: &Json) -> Option<&str> {
    answer["streams"][0].as_str()
}

/// Name and configuration of a stream for a subject that none keeps.
pub(super) fn new_stream(subject: &str) -> (String, Json) {
    let name = name_of(subject);
    let configuration = json!({
        "name": name,
        "subjects": [subject],
        "storage": "file",
        "retention": "limits",
        "discard": "old",
        "max_msgs": MESSAGES_MAX,
    });
    (name, configuration)
}

/// A subject, or a client, as a name of JetStream.
fn name_of(text: &str) -> String {
    let is_kept = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let keep = |c: char| if is_kept(c) { c } else { '_' };
    text.chars().map(keep).collect()
}

/// The stream that keeps a subject; made where there is none.
pub(super) async fn stream_of(session: &mut Session, subject: &str) -> Result<String, String> {
    let said = |refusal: Refusal| format!("stream of subject '{subject}': {}", refusal.text);
    let names = session
        .ask("STREAM.NAMES", &names_question(subject))
        .await
        .map_err(said)?;
    if let Some(name) = first_name(&names) {
        return Ok(name.to_owned());
    }
    let (name, configuration) = new_stream(subject);
    session
        .ask(&format!("STREAM.CREATE.{name}"), &configuration)
        .await
        .map_err(said)?;
    tracing::info!(stream = name, subject, "created a stream for the subject");
    Ok(name)
}

/// How a source is known to a stream.
#[derive(Clone)]
pub(super) enum Reading {
    /// For this run alone.
    Passing,
    /// Its place outlives it.
    Durable(String),
    /// Messages are shared among all that name the group; `true` where its place outlives them.
    Shared(String, bool),
}

impl Reading {
    pub fn new(client: Option<&str>, durable: Option<&str>, group: Option<&str>) -> Reading {
        match (durable, group) {
            (None, None) => Reading::Passing,
            // A durable subscription is that of a client, as in NATS Streaming; one of a group is not.
            (Some(durable), None) => Reading::Durable(match client {
                Some(client) => name_of(&format!("{client}-{durable}")),
                None => name_of(durable),
            }),
            (Some(durable), Some(group)) => {
                Reading::Shared(name_of(&format!("{durable}-{group}")), true)
            }
            (None, Some(group)) => Reading::Shared(name_of(group), false),
        }
    }

    pub fn is_shared(&self) -> bool {
        matches!(self, Reading::Shared(..))
    }

    /// Are messages acknowledged to the stream?
    pub fn acknowledges(&self) -> bool {
        !matches!(self, Reading::Passing)
    }
}

/// Where a source that was never there begins, and what it reads.
pub(super) struct Wish {
    pub subject: String,
    pub reading: Reading,
    /// The last message that it has, of this run or of a saved state.
    pub last: Option<u64>,
    /// `subscription.sequence`.
    pub from: Option<u64>,
    pub ack_wait: Duration,
}

impl Wish {
    /// The request that makes a source's durable consumer again where it was left, for one that somebody
    /// has deleted; `None` where there is none, or it is not this source's alone.
    pub fn again(&self, place: &Place) -> Option<Request> {
        let Reading::Durable(name) = &self.reading else {
            return None;
        };
        let configuration = self.configuration(Some(name), place.next);
        Some(creation(&place.stream, Some(name), &configuration))
    }

    /// Does a consumer stand where this source goes on, with nothing that it gives again and nobody else who
    /// waits for what it gives?
    fn is_continued_by(&self, consumer: &Json) -> bool {
        let configuration = self.configuration(None, None);
        let is_same = CONFIGURED
            .iter()
            .all(|key| consumer["config"][key] == configuration[key]);
        let delivered = consumer["delivered"]["stream_seq"].as_u64().unwrap_or(0);
        let is_zero = |key: &str| consumer[key].as_u64() == Some(0);
        is_same
            && delivered > 0
            && self.last.is_none_or(|last| last == delivered)
            && is_zero("num_ack_pending")
            && is_zero("num_waiting")
    }

    fn configuration(&self, name: Option<&str>, start: Option<u64>) -> Json {
        let mut configuration = json!({
            "ack_policy": if self.reading.acknowledges() { "explicit" } else { "none" },
            "filter_subject": self.subject,
            "replay_policy": "instant",
            "deliver_policy": "all",
        });
        if self.reading.acknowledges() {
            configuration["ack_wait"] = nanos(self.ack_wait);
            configuration["max_ack_pending"] = UNACKNOWLEDGED_MAX.into();
        }
        if let Some(start) = start.filter(|start| *start > 0) {
            configuration["deliver_policy"] = "by_start_sequence".into();
            configuration["opt_start_seq"] = start.into();
        }
        if let Some(name) = name {
            configuration["durable_name"] = name.into();
        }
        if matches!(self.reading, Reading::Passing | Reading::Shared(_, false)) {
            configuration["inactive_threshold"] = nanos(FORGET);
        }
        configuration
    }
}

fn nanos(duration: Duration) -> Json {
    (duration.as_nanos() as u64).into()
}

/// The subject below `$JS.API` of a request, and its body.
pub(super) type Request = (String, Json);

/// Where a source reads.
pub(super) struct Place {
    pub stream: String,
    pub consumer: String,
    /// The number of the first message that is not acknowledged, as far as it is known.
    pub next: Option<u64>,
}

/// The consumer by which a source reads a stream.
///
/// A source that shares with nobody gets a fresh one that starts behind the last message it has: one
/// that was left with messages unacknowledged gives them again only after `ack.wait`, behind later
/// ones. One that was left in order is used again: between the two requests that replace it, nobody knows
/// how far it was.
pub(super) async fn consumer_of(
    session: &mut Session,
    stream: &str,
    wish: &Wish,
) -> Result<Place, String> {
    let place = |consumer: String, next| Place {
        stream: stream.to_owned(),
        consumer,
        next,
    };
    let (name, is_shared) = match &wish.reading {
        Reading::Passing => {
            let start = wish.last.map(|last| last + 1).or(wish.from);
            let configuration = wish.configuration(None, start);
            let made = create(session, stream, None, &configuration).await?;
            return Ok(place(made, start));
        }
        Reading::Durable(name) => (name, false),
        Reading::Shared(name, _) => (name, true),
    };
    let said = |refusal: Refusal| format!("consumer '{name}': {}", refusal.text);
    let path = format!("{stream}.{name}");
    let found = session
        .ask(&format!("CONSUMER.INFO.{path}"), &json!({}))
        .await;
    let floor = match found {
        Ok(_) if is_shared => return Ok(place(name.clone(), None)),
        Ok(info) => {
            let floor = info["ack_floor"]["stream_seq"].as_u64();
            if wish.is_continued_by(&info) {
                return Ok(place(name.clone(), floor.map(|floor| floor + 1)));
            }
            floor
        }
        Err(refusal) if refusal.code == NO_CONSUMER => None,
        Err(refusal) => return Err(said(refusal)),
    };
    let is_there = floor.is_some();
    let last = match is_shared {
        true => None,
        false => wish.last.or(floor.filter(|floor| *floor > 0)),
    };
    let start = last.map(|last| last + 1).or(wish.from);
    if is_there {
        session
            .ask(&format!("CONSUMER.DELETE.{path}"), &json!({}))
            .await
            .map_err(said)?;
    }
    let configuration = wish.configuration(Some(name), start);
    let made = create(session, stream, Some(name), &configuration).await?;
    Ok(place(made, start))
}

fn creation(stream: &str, name: Option<&str>, configuration: &Json) -> Request {
    let api = match name {
        Some(name) => format!("CONSUMER.DURABLE.CREATE.{stream}.{name}"),
        None => format!("CONSUMER.CREATE.{stream}"),
    };
    let question = json!({ "stream_name": stream, "config": configuration });
    (api, question)
}

async fn create(
    session: &mut Session,
    stream: &str,
    name: Option<&str>,
    configuration: &Json,
) -> Result<String, String> {
    let (api, question) = creation(stream, name, configuration);
    let made = session.ask(&api, &question).await;
    let made =
        made.map_err(|refusal| format!("consumer of stream '{stream}': {}", refusal.text))?;
    let found = made["name"].as_str();
    found
        .map(str::to_owned)
        .ok_or_else(|| "JetStream does not report the name of the consumer".to_owned())
}

/// The number of a message in its stream, from the subject by which it is acknowledged:
/// `$JS.ACK.stream.consumer.delivered.stream-seq.consumer-seq.time.pending`, newer ones with domain and
/// account behind `$JS.ACK` and something random at the end.
pub(super) fn sequence(reply: &str) -> Option<u64> {
    let parts: Vec<&str> = reply.split('.').collect();
    let at = match parts.len() {
        9 => 5,
        11.. => 7,
        _ => return None,
    };
    match parts[..2] == ["$JS", "ACK"] {
        true => parts[at].parse().ok(),
        false => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_messages() {
        assert_eq!(sequence("$JS.ACK.S.C.1.42.7.99.0"), Some(42));
        assert_eq!(sequence("$JS.ACK._.acc.S.C.1.42.7.99.0.rnd"), Some(42));
        assert_eq!(sequence("$JS.ACK.d.acc.S.C.1.42.7.99.0"), Some(42));
        assert_eq!(sequence("_INBOX.x.1"), None);
        assert_eq!(sequence(""), None);
    }

    #[test]
    fn names_and_places() {
        assert_eq!(new_stream("a.b c").0, "a_b_c");
        let name = |client, durable, group| match Reading::new(client, durable, group) {
            Reading::Passing => "passing".to_owned(),
            Reading::Durable(name) => name,
            Reading::Shared(name, is_kept) => format!("{name} {is_kept}"),
        };
        assert_eq!(name(Some("c"), None, None), "passing");
        assert_eq!(name(Some("c.1"), Some("d"), None), "c_1-d");
        assert_eq!(name(None, Some("d"), None), "d");
        assert_eq!(name(Some("c"), Some("d"), Some("g")), "d-g true");
        assert_eq!(name(None, None, Some("g")), "g false");
        let wish = Wish {
            subject: "a".into(),
            reading: Reading::Durable("d".into()),
            last: None,
            from: Some(3),
            ack_wait: Duration::from_secs(2),
        };
        let made = wish.configuration(Some("d"), wish.from);
        assert_eq!(made["opt_start_seq"], 3);
        assert_eq!(made["ack_wait"], 2_000_000_000_u64);
        assert_eq!(wish.configuration(None, Some(0))["deliver_policy"], "all");
    }
}
