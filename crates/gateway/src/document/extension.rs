//! What a document says to the gateway alone, below `x-headwater`.

use std::time::Duration;

use connect::net::http_client::Network;
use connect::url::Url;
use lang::quantity::size_text;
use lang::span::Span;

use super::StreamPlace;
use super::asyncapi::Drafted;
use super::quantity::duration;
use super::reader::{Reader, fault};
use super::tree::{Key, Node};
use crate::access;
use crate::hub::Rules;
use crate::model::{
    Address, Api, Binding, Follow, HISTORY_EVENTS_MAX, History, Lifecycle, Origins, Protocols,
    Slow, Unfit, Upstream, Webhook, bases_of,
};
use check::codes::api as code;

const KEYS: &[&str] = &[
    "compression",
    "context",
    "default",
    "heartbeat",
    "issuers",
    "message-max",
    "origins",
    "payloads",
    "plans",
    "protocols",
    "proxies",
    "status",
    "topics",
    "websub",
];

const TOPIC_KEYS: &[&str] = &[
    "backend", "filter", "follow", "history", "key", "payloads", "slow", "stream", "upstream",
    "webhook",
];

const HISTORY_KEYS: &[&str] = &["age", "durable", "events"];

/// Least time between two signs of life.
const HEARTBEAT_MIN: Duration = Duration::from_secs(1);
const HEARTBEAT_MAX: Duration = Duration::from_secs(3600);

/// Longest payload that can be allowed.
const MESSAGE_MAX: u64 = 64 << 20;

pub(super) fn read(
    reader: &mut Reader<'_>,
    api: &mut Api,
    drafted: &mut [Drafted],
) -> Vec<StreamPlace> {
    let Some(own) = reader.root.get("x-headwater") else {
        return Vec::new();
    };
    if !own.is_map() {
        if !own.is_null() {
            reader.wrong("x-headwater", own, "a map");
        }
        return Vec::new();
    }
    for (key, _) in own.entries() {
        if !KEYS.contains(&key.name.as_str()) {
            reader.unknown(key, "'x-headwater'", KEYS);
        }
    }
    if let Some(protocols) = protocols(reader, own) {
        api.protocols = protocols;
    }
    bases(reader, own, api);
    if let Some((text, span)) = reader.text(own, "status") {
        match Lifecycle::parse(text) {
            Some(status) => api.status = status,
            None => {
                let said = format!("there is no status '{text}'");
                reader.unknown_name(said, span, text, &Lifecycle::NAMES);
            }
        }
    }
    for issuer in reader.list(own, "issuers") {
        let json = issuer.to_json();
        match access::issuer(&json, &api.file) {
            Ok(_) => api.issuers.push(json),
            Err(wrong) => {
                let found = fault(code::BAD_VALUE, wrong.message, issuer.span, "this issuer");
                reader.say(found.help(wrong.help));
            }
        }
    }
    for (name, limits) in reader.map(own, "plans") {
        let json = limits.to_json();
        match access::plan(&name.name, &json) {
            Ok(_) => api.plans.push((name.name.clone(), json)),
            Err(wrong) => {
                let found = fault(code::BAD_VALUE, wrong.message, name.span, "this plan");
                reader.say(found.help(wrong.help));
            }
        }
    }
    let origins = reader.texts(own, "origins").into_iter();
    api.origins = Origins(
        origins
            .map(|(text, _)| text.trim_end_matches('/').to_owned())
            .collect(),
    );
    for (text, span) in reader.texts(own, "proxies") {
        match Network::parse(text) {
            Some(network) => api.proxies.push(network),
            None => {
                let said = format!("'{text}' is no network of a proxy");
                reader.say(fault(
                    code::BAD_VALUE,
                    said,
                    span,
                    "write 10.0.0.0/8 or an address",
                ));
            }
        }
    }
    let heartbeat =
        |text: &str| duration(text).filter(|time| (HEARTBEAT_MIN..=HEARTBEAT_MAX).contains(time));
    if let Some(time) = reader.parsed(own, "heartbeat", "a time from 1s to 1h", heartbeat) {
        api.heartbeat = time;
    }
    let size = |text: &str| size_text(text).filter(|bytes| (1..=MESSAGE_MAX).contains(bytes));
    if let Some(node) = own.get("compression") {
        match node.bool() {
            Some(is_on) => api.compression = is_on,
            None => {
                let said = "'compression' is neither true nor false";
                reader.say(fault(
                    code::BAD_VALUE,
                    said,
                    node.span,
                    "write true or false",
                ));
            }
        }
    }
    if let Some(bytes) = reader.parsed(own, "message-max", "a size up to 64MB", size) {
        api.message_max = bytes as usize;
    }
    let unfit = unfit(reader, own);
    for draft in drafted.iter_mut() {
        draft.topic.unfit = unfit.map_or(Unfit::default(), |(unfit, _)| unfit);
    }
    if let Some((websub, node)) = own.entry("websub") {
        match Rules::from_json(&node.to_json()) {
            Ok(rules) => api.hub = rules,
            Err(wrong) => {
                let found = fault(code::BAD_VALUE, wrong.message, websub.span, "this hub");
                reader.say(found.help(wrong.help));
            }
        }
    }
    let streams = topics(reader, own, drafted);
    dead_letters(reader, own, unfit, drafted);
    streams
}

/// What becomes of payloads that fit no message.
fn unfit<'d>(reader: &mut Reader<'d>, said: &'d Node) -> Option<(Unfit, Span)> {
    let (text, span) = reader.text(said, "payloads")?;
    let unfit = Unfit::parse(text);
    if unfit.is_none() {
        let said = format!("'payloads' is '{text}'");
        reader.unknown_name(said, span, text, &Unfit::NAMES);
    }
    Some((unfit?, span))
}

/// Dead letters are kept with an app, which a topic may not have.
fn dead_letters(
    reader: &mut Reader<'_>,
    own: &Node,
    all: Option<(Unfit, Span)>,
    drafted: &mut [Drafted],
) {
    for draft in drafted {
        let topic = &mut draft.topic;
        let has_app = matches!(topic.binding, Binding::Stream { .. });
        if topic.unfit != Unfit::DeadLetter || has_app || topic.publish.is_none() {
            continue;
        }
        let address = topic.address().to_owned();
        let said = own.get("topics").and_then(|topics| topics.get(&address));
        match said.and_then(|said| said.get("payloads")) {
            Some(node) => {
                let said =
                    format!("dead letters are kept with an app, and topic '{address}' has none");
                let found = fault(code::BAD_VALUE, said, node.span, "no app");
                reader.say(found.help("bind the topic to a stream, or write reject"));
            }
            // Said of all topics, it is meant for those that can.
            None if all.is_some() => topic.unfit = Unfit::Reject,
            None => {}
        }
    }
}

fn not_yet(reader: &mut Reader<'_>, key: &Key, what: &str) {
    let said = format!("{what} is not served yet");
    let found = fault(code::NOT_YET, said, key.span, "nothing would come of it");
    reader.say(found.help(format!("leave '{}' out", key.name)));
}

fn protocols<'d>(reader: &mut Reader<'d>, own: &'d Node) -> Option<Protocols> {
    let (key, _) = own.entry("protocols")?;
    let mut protocols = Protocols::default();
    for (name, span) in reader.texts(own, "protocols") {
        match name {
            "sse" => (protocols.sse, protocols.http) = (true, true),
            "ws" => protocols.websocket = true,
            "http" => protocols.http = true,
            "websub" => (protocols.websub, protocols.http) = (true, true),
            other => {
                let said = format!("there is no protocol '{other}'");
                reader.unknown_name(said, span, other, &["sse", "ws", "websub", "http"]);
            }
        }
    }
    if protocols == Protocols::default() && reader.found.is_empty() {
        let said = "an API without protocols cannot be reached";
        reader.say(fault(
            code::BAD_VALUE,
            said,
            key.span,
            "name sse, ws, websub or http",
        ));
    }
    Some(protocols)
}

fn bases(reader: &mut Reader<'_>, own: &Node, api: &mut Api) {
    let context = own.get("context").and_then(Node::text);
    if let Some(context) = context {
        match Address::parse(context) {
            Ok(address) if address.parameters().is_empty() => {
                api.bases = bases_of(address.text(), &api.version);
            }
            _ => {
                let node = own.get("context").unwrap_or(own);
                let said = format!("'context' is '{context}', which is no path");
                reader.say(fault(
                    code::BAD_VALUE,
                    said,
                    node.span,
                    "write a path such as /ticks",
                ));
            }
        }
    }
    if let Some(node) = own.get("default") {
        match node.bool() {
            Some(true) => {}
            Some(false) => api.bases.truncate(1),
            None => {
                let said = "'default' is neither true nor false";
                reader.say(fault(
                    code::BAD_VALUE,
                    said,
                    node.span,
                    "write true or false",
                ));
            }
        }
    }
}

fn topics<'d>(reader: &mut Reader<'d>, own: &'d Node, drafted: &mut [Drafted]) -> Vec<StreamPlace> {
    let mut streams = Vec::new();
    for (key, said) in reader.map(own, "topics") {
        let written = Address::parse(&key.name).ok();
        let is_it = |draft: &Drafted| {
            written
                .as_ref()
                .is_some_and(|a| a.text() == draft.topic.address())
        };
        let Some(number) = drafted.iter().position(is_it) else {
            let known: Vec<String> = drafted
                .iter()
                .map(|d| d.topic.address().to_owned())
                .collect();
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let said = format!("no channel has the address '{}'", key.name);
            reader.unknown_name(said, key.span, &key.name, &known);
            continue;
        };
        if !said.is_map() {
            reader.wrong(&key.name, said, "a map");
            continue;
        }
        let place = topic(reader, key, said, (number, &mut drafted[number]));
        streams.extend(place);
    }
    streams
}

fn topic<'d>(
    reader: &mut Reader<'d>,
    at: &Key,
    said: &'d Node,
    (number, draft): (usize, &mut Drafted),
) -> Option<StreamPlace> {
    for (key, _) in said.entries() {
        match key.name.as_str() {
            "filter" => not_yet(reader, key, "a filter of events by the claims of a token"),
            name if !TOPIC_KEYS.contains(&name) => {
                reader.unknown(
                    key,
                    &format!("topic '{}'", draft.topic.address()),
                    TOPIC_KEYS,
                );
            }
            _ => {}
        }
    }
    if let Some((stream, backend)) = said.entry("stream").zip(said.entry("backend")) {
        let text = format!(
            "topic '{}' has a stream and a backend",
            draft.topic.address()
        );
        let found = fault(
            code::BAD_VALUE,
            text,
            backend.0.span,
            "leave out one of the two",
        );
        reader.say(found.related(stream.0.span, "the stream"));
        return None;
    }
    history(reader, said, draft);
    let slow = reader.text(said, "slow");
    if let Some((text, span)) = slow {
        match Slow::parse(text) {
            Some(slow) => draft.topic.slow = slow,
            None => {
                let what = format!("there is no policy '{text}' for slow readers");
                reader.unknown_name(what, span, text, &Slow::NAMES);
            }
        }
    }
    if let Some((unfit, _)) = unfit(reader, said) {
        draft.topic.unfit = unfit;
    }
    webhook(reader, said, draft);
    follow(reader, said, draft);
    backend(reader, said, draft);
    stream(reader, at, said, (number, draft))
}

fn follow(reader: &mut Reader<'_>, said: &Node, draft: &mut Drafted) {
    let Some((key, node)) = said.entry("follow") else {
        return;
    };
    let cause = match Follow::from_json(&node.to_json()) {
        Ok(_) if !draft.topic.parameters().is_empty() => {
            "a topic with parameters cannot follow one of another hub".to_owned()
        }
        Ok(_) if said.get("backend").is_some() => {
            "a topic with a backend cannot follow one of another hub".to_owned()
        }
        Ok(follow) => {
            draft.topic.follow = Some(follow);
            return;
        }
        Err(cause) => cause,
    };
    reader.say(fault(code::BAD_VALUE, cause, key.span, "this one"));
}

fn webhook(reader: &mut Reader<'_>, said: &Node, draft: &mut Drafted) {
    let Some((key, node)) = said.entry("webhook") else {
        return;
    };
    if draft.topic.publish.is_none() {
        let address = draft.topic.address().to_owned();
        let said = format!("nobody may publish to topic '{address}', and so no webhook either");
        let found = fault(code::BAD_VALUE, said, key.span, "without effect");
        reader.say(found.help("add an operation: 'receive' in 3.x, 'publish' in 2.x"));
        return;
    }
    match Webhook::from_json(&node.to_json()) {
        Ok(webhook) => draft.topic.webhook = Some(webhook),
        Err(cause) => reader.say(fault(code::BAD_VALUE, cause, key.span, "this webhook")),
    }
}

fn history<'d>(reader: &mut Reader<'d>, said: &'d Node, draft: &mut Drafted) {
    let Some((_, node)) = said.entry("history") else {
        return;
    };
    if !node.is_map() {
        reader.wrong(
            "history",
            node,
            "a map such as { events: 1000, age: 15min }",
        );
        return;
    }
    for (key, value) in node.entries() {
        match key.name.as_str() {
            "durable" if value.bool() == Some(true) => {
                not_yet(reader, key, "a history that outlives the server");
            }
            name if !HISTORY_KEYS.contains(&name) => reader.unknown(key, "'history'", HISTORY_KEYS),
            _ => {}
        }
    }
    let count = |text: &str| {
        text.parse()
            .ok()
            .filter(|n| (0..=HISTORY_EVENTS_MAX).contains(n))
    };
    let mut history = History::default();
    if let Some(events) = reader.parsed(node, "events", "a number from 0 to 1000000", count) {
        history.events = events;
    }
    history.age = reader.parsed(node, "age", "a time such as 15min", duration);
    draft.topic.history = history;
}

fn backend<'d>(reader: &mut Reader<'d>, said: &'d Node, draft: &mut Drafted) {
    let upstream = reader.text(said, "upstream");
    let Some((text, span)) = reader.text(said, "backend") else {
        if let Some((_, span)) = upstream {
            let text = "'upstream' says how a backend is asked, and there is none";
            reader.say(fault(code::BAD_VALUE, text, span, "without effect"));
        }
        return;
    };
    let (is_websocket, http) = match text.split_once("://") {
        Some(("ws", rest)) => (true, format!("http://{rest}")),
        Some(("wss", rest)) => (true, format!("https://{rest}")),
        _ => (false, text.to_owned()),
    };
    let Some(url) = Url::parse(&http) else {
        let found = format!("'{text}' is no URL of a backend");
        reader.say(fault(
            code::BAD_VALUE,
            found,
            span,
            "write http://host:port/path or ws://…",
        ));
        return;
    };
    let target = url.target();
    for part in target.split('{').skip(1) {
        let name = part.split('}').next().unwrap_or_default();
        if !draft.topic.parameters().iter().any(|own| own == name) {
            let known: Vec<String> = draft.topic.parameters().to_vec();
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let found = format!("the address of the topic has no parameter '{name}'");
            reader.unknown_name(found, span, name, &known);
        }
    }
    let upstream = match upstream {
        None | Some(("each", _)) => Upstream::Each,
        Some(("shared", span)) => {
            if is_websocket {
                let found = "the connection to a WebSocket backend belongs to one client";
                reader.say(fault(code::BAD_VALUE, found, span, "write each"));
            }
            Upstream::Shared
        }
        Some((other, span)) => {
            let found = format!("'upstream' is '{other}'");
            reader.unknown_name(found, span, other, &["each", "shared"]);
            Upstream::Each
        }
    };
    draft.topic.binding = Binding::Backend {
        url,
        is_websocket,
        upstream,
    };
}

fn stream<'d>(
    reader: &mut Reader<'d>,
    at: &Key,
    said: &'d Node,
    (number, draft): (usize, &mut Drafted),
) -> Option<StreamPlace> {
    let keys = reader.texts(said, "key");
    let Some((text, span)) = reader.text(said, "stream") else {
        if let Some((_, span)) = keys.first() {
            let found = "'key' names attributes of a stream, and there is none";
            reader.say(fault(code::BAD_VALUE, found, *span, "without effect"));
        }
        return None;
    };
    let Some((app, stream)) = text
        .split_once('/')
        .filter(|(a, s)| !a.is_empty() && !s.is_empty())
    else {
        let found = format!("'stream' is '{text}'");
        reader.say(fault(code::BAD_VALUE, found, span, "write App/Stream"));
        return None;
    };
    let parameters = draft.topic.parameters();
    let key_span = match keys.first().zip(keys.last()) {
        Some((first, last)) => Span::new(first.1.start, last.1.end),
        None => at.span,
    };
    let keys: Vec<String> = match keys.is_empty() {
        true => parameters.to_vec(),
        false => keys.into_iter().map(|(key, _)| key.to_owned()).collect(),
    };
    if keys.len() != parameters.len() {
        let found = format!(
            "the address has {} parameters, and 'key' names {} attributes",
            parameters.len(),
            keys.len()
        );
        reader.say(fault(
            code::BAD_VALUE,
            found,
            key_span,
            "name one for each parameter",
        ));
        return None;
    }
    draft.topic.binding = Binding::Stream {
        app: app.to_owned(),
        stream: stream.to_owned(),
        keys,
    };
    Some(StreamPlace {
        topic: number,
        stream: span,
        key: key_span,
    })
}
