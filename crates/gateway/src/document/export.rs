//! APIs as documents again: AsyncAPI 2.6 or 3.0, and the same within an app.
//!
//! Promises: what is read back is an equal API. Never: a secret; where the API has one, the document says where it is
//! to be put in.

use connect::net::http_client::Network;
use connect::url::Url;
use serde_json::{Map, Value as Json, json};

use crate::hub::{Receiver, Rules};
use crate::model::{
    Api, Binding, Content, HEARTBEAT, History, Lifecycle, MESSAGE_MAX, Message, Operation,
    Protocols, Slow, Topic, Unfit, Upstream, encode_segment,
};

/// What a document is written as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// AsyncAPI 2.6.
    Two,
    /// AsyncAPI 3.0.
    Three,
    /// AsyncAPI 3.0 within an app, as `@App:asyncAPI`.
    App,
}

impl Format {
    pub const NAMES: [&'static str; 3] = ["2.6", "3.0", "siddhi"];

    pub fn parse(text: &str) -> Option<Format> {
        let formats = [Format::Two, Format::Three, Format::App];
        let at = Format::NAMES.iter().position(|name| *name == text)?;
        Some(formats[at])
    }
}

/// A document, and what of the API is not in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exported {
    pub text: String,
    /// Each in words, with what to do.
    pub notes: Vec<String>,
}

/// Writes an API. `address`: where clients reach it, `host:port`, which only people who read the document need.
///
/// # Errors
/// It cannot be written in this format, in words.
pub fn export(api: &Api, format: Format, address: Option<&str>) -> Result<Exported, String> {
    let mut api = api.clone();
    let mut notes = Vec::new();
    for issuer in &mut api.issuers {
        if let Some(secret) = issuer.get_mut("secret") {
            *secret = Json::Null;
            notes.push("the secret of an issuer is left out: write it where the document has 'secret: null'".to_owned());
        }
    }
    let mut exported = written(&api, format, address, false)?;
    if api.hub.receiver.as_ref().is_some_and(Receiver::has_secret) {
        notes.push("the secret of the receiver of events is left out: write it where the document has 'secret: null'".to_owned());
    }
    exported.notes.splice(0..0, notes);
    Ok(exported)
}

/// As [`export`], with the secrets that the API has.
///
/// # Errors
/// As [`export`].
pub(crate) fn write(api: &Api, format: Format, address: Option<&str>) -> Result<Exported, String> {
    written(api, format, address, true)
}

fn written(
    api: &Api,
    format: Format,
    address: Option<&str>,
    shows_secrets: bool,
) -> Result<Exported, String> {
    let mut notes = Vec::new();
    let mut document = match format {
        Format::Two => two(api),
        Format::Three | Format::App => three(api, address),
    };
    document.insert(
        "x-headwater".to_owned(),
        own(api, shows_secrets, &mut notes),
    );
    let text = serde_yaml_ng::to_string(&document).map_err(|error| error.to_string())?;
    let text = match format {
        Format::App => within_app(api, &text)?,
        Format::Two | Format::Three => text,
    };
    Ok(Exported { text, notes })
}

fn within_app(api: &Api, document: &str) -> Result<String, String> {
    for marks in ["\"\"\"", "${"] {
        if document.contains(marks) {
            return Err(format!(
                "the document has '{marks}', which has a meaning of its own within an app: keep the document as a file"
            ));
        }
    }
    let name: String = api
        .name
        .chars()
        .filter(|c| !c.is_control() && !matches!(c, '\'' | '\\'))
        .collect();
    Ok(format!(
        "@App:name('{name}-api')\n@App:asyncAPI(\"\"\"\n{document}\"\"\")"
    ))
}

fn start(api: &Api, version: &str) -> Map<String, Json> {
    let mut document = Map::new();
    document.insert("asyncapi".to_owned(), version.into());
    let info = json!({ "title": api.name, "version": api.version });
    document.insert("info".to_owned(), info);
    document
}

/// The scopes that operations ask for, each list once.
fn scope_lists(api: &Api) -> Vec<&[String]> {
    let mut lists: Vec<&[String]> = Vec::new();
    for operation in api.topics.iter().flat_map(operations) {
        if operation.is_secured && !lists.contains(&operation.scopes.as_slice()) {
            lists.push(&operation.scopes);
        }
    }
    lists
}

fn operations(topic: &Topic) -> impl Iterator<Item = &Operation> {
    [&topic.subscribe, &topic.publish].into_iter().flatten()
}

fn parameters(topic: &Topic, of_one: &Json) -> Option<Json> {
    let names = topic.parameters().iter();
    let all: Map<String, Json> = names.map(|name| (name.clone(), of_one.clone())).collect();
    (!all.is_empty()).then_some(Json::Object(all))
}

fn two(api: &Api) -> Map<String, Json> {
    let mut document = start(api, "2.6.0");
    let mut channels = Map::new();
    for topic in &api.topics {
        let mut channel = Map::new();
        let text = json!({ "schema": { "type": "string" } });
        if let Some(all) = parameters(topic, &text) {
            channel.insert("parameters".to_owned(), all);
        }
        for (name, operation) in [("subscribe", &topic.subscribe), ("publish", &topic.publish)] {
            let Some(operation) = operation else { continue };
            let mut said = match operation.is_secured {
                true => json!({ "security": [{ "token": operation.scopes }] }),
                false => json!({}),
            };
            let named = |one: &Message| {
                let mut said = message(one);
                said["name"] = one.name.as_str().into();
                said
            };
            match operation.messages.as_slice() {
                [] => {}
                [only] => said["message"] = named(only),
                several => {
                    let all: Vec<Json> = several.iter().map(named).collect();
                    said["message"] = json!({ "oneOf": all });
                }
            }
            channel.insert(name.to_owned(), said);
        }
        channels.insert(topic.address().to_owned(), channel.into());
    }
    document.insert("channels".to_owned(), channels.into());
    if api
        .topics
        .iter()
        .flat_map(operations)
        .any(|one| one.is_secured)
    {
        let schemes = json!({ "token": { "type": "oauth2", "flows": {} } });
        add_component(&mut document, "securitySchemes", schemes);
    }
    add_schemas(&mut document, api);
    document
}

/// A message without its name.
fn message(one: &Message) -> Json {
    let mut said = json!({});
    if one.content == Content::Text {
        said["contentType"] = "text/plain".into();
    }
    if let Some(schema) = &one.schema {
        said["payload"] = schema.json().clone();
    }
    said
}

fn add_component(document: &mut Map<String, Json>, name: &str, component: Json) {
    let components = document.entry("components").or_insert_with(|| json!({}));
    components[name] = component;
}

/// The schemas that those of messages refer to.
fn add_schemas(document: &mut Map<String, Json>, api: &Api) {
    if !api.schemas.is_empty() {
        add_component(document, "schemas", Json::Object(api.schemas.clone()));
    }
}

fn three(api: &Api, address: Option<&str>) -> Map<String, Json> {
    let mut document = start(api, "3.0.0");
    if let Some(address) = address {
        let protocols = protocols(api.protocols).into_iter();
        let servers = protocols.filter(|name| *name != "websub").map(|name| {
            let server = json!({ "host": address, "pathname": api.bases[0], "protocol": name });
            (name.to_owned(), server)
        });
        document.insert("servers".to_owned(), servers.collect::<Map<_, _>>().into());
    }
    let lists = scope_lists(api);
    let scheme_of = |scopes: &[String]| {
        let at = lists
            .iter()
            .position(|own| *own == scopes)
            .unwrap_or_default();
        match at {
            0 => "token".to_owned(),
            at => format!("token-{}", at + 1),
        }
    };
    let (mut channels, mut all) = (Map::new(), Map::new());
    for (number, topic) in api.topics.iter().enumerate() {
        let id = format!("topic-{}", number + 1);
        let mut channel = json!({ "address": topic.address() });
        if let Some(parameters) = parameters(topic, &json!({})) {
            channel["parameters"] = parameters;
        }
        let mut messages = Map::new();
        for one in operations(topic).flat_map(|operation| &operation.messages) {
            messages.insert(one.name.clone(), message(one));
        }
        let has_messages = !messages.is_empty();
        if has_messages {
            channel["messages"] = messages.into();
        }
        channels.insert(id.clone(), channel);
        let named = [
            ("hear", "send", &topic.subscribe),
            ("publish", "receive", &topic.publish),
        ];
        for (name, action, operation) in named {
            let Some(operation) = operation else { continue };
            let mut said =
                json!({ "action": action, "channel": { "$ref": format!("#/channels/{id}") } });
            if operation.is_secured {
                let scheme = scheme_of(&operation.scopes);
                said["security"] =
                    json!([{ "$ref": format!("#/components/securitySchemes/{scheme}") }]);
            }
            if has_messages {
                // Without a word it would be all of the channel.
                let refer = |one: &Message| {
                    let name = one.name.replace('~', "~0").replace('/', "~1");
                    json!({ "$ref": format!("#/channels/{id}/messages/{}", encode_segment(&name)) })
                };
                said["messages"] = operation.messages.iter().map(refer).collect();
            }
            all.insert(format!("{name}-{}", number + 1), said);
        }
    }
    document.insert("channels".to_owned(), channels.into());
    document.insert("operations".to_owned(), all.into());
    if !lists.is_empty() {
        let schemes = lists.iter().map(|scopes| {
            let scheme = json!({ "type": "oauth2", "flows": {}, "scopes": scopes });
            (scheme_of(scopes), scheme)
        });
        let schemes: Map<String, Json> = schemes.collect();
        add_component(&mut document, "securitySchemes", schemes.into());
    }
    add_schemas(&mut document, api);
    document
}

fn protocols(of: Protocols) -> Vec<&'static str> {
    let all = [
        ("sse", of.sse),
        ("ws", of.websocket),
        ("websub", of.websub),
        // Those that are heard by HTTP take what is published by it as well.
        ("http", of.http && !of.sse && !of.websub),
    ];
    let spoken = all.into_iter().filter(|(_, is_spoken)| *is_spoken);
    spoken.map(|(name, _)| name).collect()
}

fn millis(time: std::time::Duration) -> Json {
    format!("{}ms", time.as_millis()).into()
}

/// What stands below `x-headwater`.
fn own(api: &Api, shows_secrets: bool, notes: &mut Vec<String>) -> Json {
    let mut own = Map::new();
    own.insert("context".to_owned(), context(api).into());
    if api.bases.len() == 1 {
        own.insert("default".to_owned(), false.into());
    }
    own.insert("protocols".to_owned(), protocols(api.protocols).into());
    let is_secured = api
        .topics
        .iter()
        .flat_map(operations)
        .any(|one| one.is_secured);
    if !api.issuers.is_empty() {
        own.insert("issuers".to_owned(), json!(api.issuers));
    } else if is_secured {
        own.insert("issuers".to_owned(), json!(["own"]));
    }
    if !api.plans.is_empty() {
        let plans: Map<String, Json> = api.plans.iter().cloned().collect();
        own.insert("plans".to_owned(), plans.into());
    }
    if !api.origins.0.is_empty() {
        own.insert("origins".to_owned(), json!(api.origins.0));
    }
    if !api.proxies.is_empty() {
        let proxies = api.proxies.iter().map(Network::to_string);
        own.insert("proxies".to_owned(), proxies.collect::<Vec<_>>().into());
    }
    if api.status != Lifecycle::default() {
        own.insert("status".to_owned(), api.status.name().into());
    }
    if api.heartbeat != HEARTBEAT {
        own.insert("heartbeat".to_owned(), millis(api.heartbeat));
    }
    if api.compression {
        own.insert("compression".to_owned(), true.into());
    }
    if api.message_max != MESSAGE_MAX {
        own.insert(
            "message-max".to_owned(),
            format!("{}B", api.message_max).into(),
        );
    }
    if api.hub != Rules::default() {
        own.insert("websub".to_owned(), hub(&api.hub, shows_secrets));
    }
    let topics = api.topics.iter().filter_map(|topic| {
        let said = of_topic(topic, shows_secrets, notes);
        (!said.is_empty()).then(|| (topic.address().to_owned(), Json::Object(said)))
    });
    let topics: Map<String, Json> = topics.collect();
    if !topics.is_empty() {
        own.insert("topics".to_owned(), topics.into());
    }
    own.into()
}

/// The path before the version.
fn context(api: &Api) -> String {
    let base = api.bases.first().map_or("", String::as_str);
    let context = match base.rsplit_once('/') {
        Some((context, _)) => context,
        None => base,
    };
    match context {
        "" => "/".to_owned(),
        context => context.to_owned(),
    }
}

fn hub(rules: &Rules, shows_secrets: bool) -> Json {
    let mut own = json!({
        "digest": rules.digest.name(),
        "lease": { "default": format!("{}s", rules.lease), "max": format!("{}s", rules.lease_max) },
        "retry": { "over": millis(rules.over) },
    });
    let networks = rules.networks.networks();
    if !networks.is_empty() {
        own["callback-networks"] = networks.into();
    }
    if let Some(moved) = &rules.moved {
        own["moved"] = moved.as_str().into();
    }
    if let Some(receiver) = &rules.receiver {
        own["receiver"] = receiver.to_json(shows_secrets);
    }
    own
}

fn of_topic(topic: &Topic, shows_secrets: bool, notes: &mut Vec<String>) -> Map<String, Json> {
    let mut own = Map::new();
    match &topic.binding {
        Binding::Own => {}
        Binding::Stream { app, stream, keys } => {
            own.insert("stream".to_owned(), format!("{app}/{stream}").into());
            if keys.as_slice() != topic.parameters() {
                own.insert("key".to_owned(), json!(keys));
            }
        }
        Binding::Backend { url, is_websocket, upstream } => {
            own.insert("backend".to_owned(), backend(url, *is_websocket).into());
            if *upstream == Upstream::Shared {
                own.insert("upstream".to_owned(), "shared".into());
            }
        }
        Binding::Attached => notes.push(format!(
            "topic '{}' belongs to connectors of an app that a document cannot name: they stay in the app",
            topic.address()
        )),
    }
    if topic.history != History::default() {
        let mut history = json!({ "events": topic.history.events });
        if let Some(age) = topic.history.age {
            history["age"] = millis(age);
        }
        own.insert("history".to_owned(), history);
    }
    if topic.slow != Slow::default() {
        own.insert("slow".to_owned(), topic.slow.name().into());
    }
    if let Some(follow) = &topic.follow {
        own.insert("follow".to_owned(), follow.to_json());
    }
    if let Some(webhook) = &topic.webhook {
        own.insert("webhook".to_owned(), webhook.to_json(shows_secrets));
        if webhook.has_secret() && !shows_secrets {
            let address = topic.address();
            notes.push(format!("the secret of the webhook of topic '{address}' is left out: write it where the document has 'secret: null'"));
        }
    }
    if topic.unfit != Unfit::default() {
        own.insert("payloads".to_owned(), topic.unfit.name().into());
    }
    own
}

fn backend(url: &Url, is_websocket: bool) -> String {
    let text = url.to_string();
    match is_websocket {
        true => text.replacen("http", "ws", 1),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::document::read;

    /// Written and read again, it is the same, in both versions.
    #[track_caller]
    fn comes_back(api: &Api) {
        for format in [Format::Two, Format::Three] {
            let exported = export(api, format, Some("localhost:8280")).expect("it can be written");
            assert_eq!(exported.notes, Vec::<String>::new());
            let again = read(&exported.text, &api.file);
            assert_eq!(again.diagnostics, [], "{}", exported.text);
            assert_eq!(again.api.as_ref(), Some(api), "{}", exported.text);
        }
    }

    fn fine(text: &str) -> Api {
        let document = read(text, "a.yaml");
        assert_eq!(document.diagnostics, [], "{text}");
        document.api.expect("it has no errors")
    }

    const BEGIN: &str = "asyncapi: 3.0.0
info: { title: 'Stock: Ticks', version: '1.10' }
channels:
  by: { address: '/symbols/{symbol}' }
  in: { address: /orders }
  out: { address: '/a/{x}/b/{y}' }
operations:
  hear: { action: send, channel: { $ref: '#/channels/by' }, security: [ { $ref: '#/components/securitySchemes/jwt' } ] }
  put: { action: receive, channel: { $ref: '#/channels/in' }, security: [ { $ref: '#/components/securitySchemes/any' } ] }
  say: { action: receive, channel: { $ref: '#/channels/out' } }
  see: { action: send, channel: { $ref: '#/channels/out' } }
components:
  securitySchemes:
    jwt: { type: oauth2, flows: {}, scopes: [ 'ticks:read', more ] }
    any: { type: http, scheme: bearer }
";

    /// Messages of both directions, several of one, texts, and schemas that share others and lead back to themselves.
    const MESSAGES: &str = "asyncapi: 3.0.0
info: { title: Trees, version: '1' }
channels:
  one: { address: /one, messages: {
    tree: { payload: { $ref: '#/components/schemas/Tree' } },
    leaf: { payload: { $ref: '#/components/messages/Leaf/payload' } },
    word: { contentType: 'text/plain', payload: { type: string, maxLength: 3 } },
    free: {} } }
operations:
  hear: { action: send, channel: { $ref: '#/channels/one' } }
  put: { action: receive, channel: { $ref: '#/channels/one' }, messages: [
    { $ref: '#/channels/one/messages/tree' }, { $ref: '#/channels/one/messages/word' } ] }
components:
  messages: { Leaf: { payload: { type: integer, minimum: 0.5 } } }
  schemas: { Tree: { type: object, properties: { leaf: { $ref: '#/components/messages/Leaf/payload' }, below: { items: { $ref: '#/components/schemas/Tree' } } } } }
x-headwater: { topics: { /one: { stream: A/S, payloads: dead-letter, webhook: { from: cloudevents, tolerance: 90s }, follow: { topic: 'http://h:81/t?a=b', callback: 'https://c', lease: 1d, networks: [ '127.0.0.1' ] } } } }
";

    // rules: A4
    #[test]
    fn an_api_that_is_written_and_read_again_is_the_same() {
        let owns = [
            "x-headwater: { issuers: [ own ] }\n",
            "x-headwater: { issuers: [ own ], context: /, protocols: [ ws ] }\n",
            "x-headwater: { issuers: [ own ], context: '/a/b c', default: false, protocols: [ sse, websub ], status: deprecated, websub: { receiver: { open: true } } }\n",
            "x-headwater: { issuers: [ own ], protocols: [ http ], compression: true, heartbeat: 3s, message-max: 64MB, origins: [ 'https://a.example', '*' ], proxies: [ '10.0.0.0/8', '::1' ] }\n",
            "x-headwater:
  issuers: [ { name: main, issuer: 'https://idp.example.com', algorithms: [ RS256, ES256 ] } ]
  plans: { AsyncGold: {}, Team: { events: [ 2000/s, 50000/day ], connections: 3 } }
  websub: { digest: sha512, lease: { default: 90s, max: 30d }, retry: { over: 2h }, moved: 'https://b.example/hub', callback-networks: [ '10.0.0.0/8', '::1' ] }
  topics:
    /symbols/{symbol}: { stream: Ticks/TickStream, key: sym, slow: latest, history: { events: 10, age: 15min } }
    /orders: { backend: 'http://127.0.0.1:9000/orders?by=me', upstream: shared }
    '/a/{x}/b/{y}': { backend: 'wss://h.example/{y}/{x}', slow: wait }
",
            "x-headwater:
  issuers: [ own ]
  topics: { '/a/{x}/b/{y}': { stream: A/S, key: [ x, other ], slow: disconnect, history: { events: 0 } } }
",
        ];
        for own in owns {
            comes_back(&fine(&format!("{BEGIN}{own}")));
        }
        let trees = fine(MESSAGES);
        let names = |operation: &Option<Operation>| -> Vec<String> {
            let messages = operation.iter().flat_map(|operation| &operation.messages);
            messages.map(|message| message.name.clone()).collect()
        };
        assert_eq!(
            names(&trees.topics[0].subscribe),
            ["tree", "leaf", "word", "free"]
        );
        assert_eq!(names(&trees.topics[0].publish), ["tree", "word"]);
        assert_eq!(trees.schemas.len(), 2);
        comes_back(&trees);
        // Each choice with each other one.
        for protocols in 1..8_u8 {
            for slow in Slow::NAMES {
                let mut api = Api::new("n", "2", "a.yaml");
                let is = |bit: u8| protocols & bit != 0;
                api.protocols = Protocols {
                    sse: is(1),
                    websocket: is(2),
                    websub: is(4),
                    http: is(1) || is(4),
                };
                let topic = fine(&format!("{BEGIN}{}", owns[0])).topics.remove(2);
                api.topics.push(Topic {
                    slow: Slow::parse(slow).expect("it is one"),
                    history: History {
                        events: usize::from(protocols),
                        age: Some(Duration::from_millis(1500)),
                    },
                    ..topic
                });
                comes_back(&api);
            }
        }
    }

    #[test]
    fn a_secret_is_in_no_document() {
        let mut api = Api::new("n", "1", "a.yaml");
        let secret = "planted-".repeat(8);
        api.issuers =
            vec![json!({ "name": "m", "issuer": "i", "algorithms": ["HS256"], "secret": secret })];
        let exported = export(&api, Format::Three, None).expect("it can be written");
        assert!(!exported.text.contains("planted"), "{}", exported.text);
        assert_eq!(exported.notes.len(), 1);
    }

    #[test]
    fn a_document_within_an_app_stays_within_its_quotes() {
        let mut api = fine(&format!("{BEGIN}x-headwater: {{ issuers: [ own ] }}\n"));
        let exported = export(&api, Format::App, None).expect("it can be written");
        assert!(
            exported
                .text
                .starts_with("@App:name('Stock: Ticks-api')\n@App:asyncAPI(\"\"\"\nasyncapi:")
        );
        api.origins.0.push("\"\"\"".to_owned());
        assert!(export(&api, Format::App, None).is_err());
    }
}
