//! AsyncAPI 2.0 to 2.6, 3.0 and 3.1 as an API.
//!
//! In 2.x `publish` and `subscribe` say what clients do; in 3.x `send` and `receive` say what the application does,
//! so that clients hear what it sends.

use lang::span::Span;

use super::StreamPlace;
use super::extension;
use super::message::Messages;
use super::reader::{Reader, fault};
use super::tree::Node;
use crate::model::{Address, Api, Operation, Protocols, Topic, bases_of};
use check::codes::api as code;

/// Versions that are read, by major and minor number.
const VERSIONS: [&str; 9] = [
    "2.0", "2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "3.0", "3.1",
];

/// Topics of one API.
const TOPICS_MAX: usize = 10_000;

/// What a document says.
#[derive(Default)]
pub(super) struct Read<'d> {
    pub title: Option<(&'d str, Span)>,
    pub api: Option<Api>,
    pub streams: Vec<StreamPlace>,
}

/// A topic, and where it is said.
pub(super) struct Drafted {
    pub topic: Topic,
    pub span: Span,
}

pub(super) fn read<'d>(reader: &mut Reader<'d>, file: &str) -> Read<'d> {
    let root = reader.root;
    let Some(is_three) = version(reader) else {
        return Read::default();
    };
    let info = match root.get("info") {
        Some(info) => info,
        None => {
            reader.needed(root, "info", "the document");
            return Read::default();
        }
    };
    let title = reader.needed(info, "title", "'info'");
    let version = reader.needed(info, "version", "'info'");
    let (Some((name, _)), Some((version, _))) = (title, version) else {
        return Read {
            title,
            ..Read::default()
        };
    };
    let mut api = Api::new(name, version, file);
    let servers = servers(reader, is_three, &mut api);
    let mut messages = Messages::new(reader);
    let mut drafted = match is_three {
        true => three(reader, &servers, &mut messages),
        false => two(reader, &servers, &mut messages),
    };
    api.schemas = messages.shared();
    no_two_at_one_address(reader, &drafted);
    let streams = extension::read(reader, &mut api, &mut drafted);
    unused(reader, &drafted);
    api.topics = drafted.into_iter().map(|drafted| drafted.topic).collect();
    let needs_issuer = |operation: &Option<Operation>| {
        operation
            .as_ref()
            .is_some_and(|operation| operation.is_secured)
    };
    let is_secured = api
        .topics
        .iter()
        .any(|t| needs_issuer(&t.subscribe) || needs_issuer(&t.publish));
    if is_secured && api.issuers.is_empty() && !servers.has_keys {
        let at = servers.secured.unwrap_or(reader.root.span);
        let found = fault(
            code::NO_ISSUER,
            format!("API '{name}' asks for tokens, and names no issuer of any"),
            at,
            "a token is asked for here",
        );
        reader.say(found.help(
            "name it below 'x-headwater': issuers: [ { name: main, issuer: 'https://idp.example.com', algorithms: [ RS256 ] } ], or \
             issuers: [ own ] for that of this server",
        ));
    }
    // That is what holds without a word: an API says the same whichever way it came.
    if matches!(api.issuers.as_slice(), [only] if only.as_str() == Some("own")) {
        api.issuers.clear();
    }
    Read {
        title,
        api: Some(api),
        streams,
    }
}

/// Is it 3.x?
fn version(reader: &mut Reader<'_>) -> Option<bool> {
    let (text, span) = reader.needed(reader.root, "asyncapi", "the document")?;
    let mut numbers = text.splitn(3, '.');
    let minor = [numbers.next(), numbers.next()];
    let minor = minor.map(Option::unwrap_or_default).join(".");
    if !VERSIONS.contains(&minor.as_str()) {
        let said = format!("AsyncAPI {text} is not read");
        let found = fault(code::VERSION, said, span, "2.0 to 2.6, 3.0 or 3.1");
        reader.say(found.help("convert the document with AsyncAPI's own tools"));
        return None;
    }
    Some(minor.starts_with('3'))
}

/// What servers say of the API.
#[derive(Default)]
pub(super) struct Servers {
    security: Option<Operation>,
    /// Where something of the document asks for a token.
    secured: Option<Span>,
    /// A key is one of the ways in.
    has_keys: bool,
}

fn servers<'d>(reader: &mut Reader<'d>, is_three: bool, api: &mut Api) -> Servers {
    let mut found = Servers::default();
    let mut protocols = Protocols::default();
    let mut path = None;
    for (_, server) in reader.map(reader.root, "servers") {
        let Some(server) = reader.resolve(server) else {
            continue;
        };
        match reader
            .text(server, "protocol")
            .map(|(text, _)| text.to_ascii_lowercase())
            .as_deref()
        {
            Some("sse") => (protocols.sse, protocols.http) = (true, true),
            Some("http" | "https") => (protocols.sse, protocols.http) = (true, true),
            Some("ws" | "wss") => protocols.websocket = true,
            _ => {}
        }
        let named = match is_three {
            true => reader
                .text(server, "pathname")
                .map(|(text, _)| text.to_owned()),
            false => reader.text(server, "url").map(|(url, _)| path_of_url(url)),
        };
        path = path.or(named.filter(|path| !matches!(path.trim_end_matches('/'), "")));
        let security = security(reader, server, is_three, &mut found);
        found.security = found.security.or(security);
    }
    if protocols == Protocols::default() {
        protocols = Protocols {
            sse: true,
            websocket: true,
            http: true,
            websub: false,
        };
    }
    api.protocols = protocols;
    if let Some(path) = path {
        let path = path.trim_end_matches('/');
        let path = format!("/{}", path.trim_start_matches('/'));
        api.bases = match path.strip_suffix(&format!("/{}", api.version)) {
            Some(context) => bases_of(context, &api.version),
            None => bases_of(&path, &api.version),
        };
    }
    found
}

/// The path of `localhost:8280/ticks/1.0.0`, with a scheme before it or not.
fn path_of_url(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = rest.find('/').map_or("", |at| &rest[at..]);
    path.split(['?', '#']).next().unwrap_or_default().to_owned()
}

/// What `security` of a server or operation asks of a client; `None`: nothing.
fn security<'d>(
    reader: &mut Reader<'d>,
    within: &'d Node,
    is_three: bool,
    servers: &mut Servers,
) -> Option<Operation> {
    let (key, list) = within.entry("security")?;
    let mut asked: Option<Operation> = None;
    for one in list.items() {
        let (scheme, scopes) = match is_three {
            true => (reader.resolve(one), one),
            false => two_scheme(reader, one)?,
        };
        let scheme = scheme?;
        let scopes = match is_three {
            true => reader.texts(scheme, "scopes"),
            false => scopes
                .items()
                .iter()
                .filter_map(|s| Some((s.text()?, s.span)))
                .collect(),
        };
        let ty = reader
            .needed(scheme, "type", "a security scheme")
            .map(|(ty, _)| ty);
        match ty {
            Some("oauth2" | "openIdConnect" | "http") => {}
            Some("apiKey" | "httpApiKey" | "userPassword") => servers.has_keys = true,
            Some(other) => {
                let said =
                    format!("security scheme of type '{other}' is not one that the gateway checks");
                let at = scheme.get("type").map_or(scheme.span, |ty| ty.span);
                let found = fault(code::NOT_YET, said, at, "not checked");
                reader.say(
                    found.help(
                        "there is oauth2, openIdConnect, http (bearer), apiKey and httpApiKey",
                    ),
                );
                continue;
            }
            None => continue,
        }
        servers.secured.get_or_insert(key.span);
        let scopes: Vec<String> = scopes
            .into_iter()
            .map(|(text, _)| text.to_owned())
            .collect();
        match &asked {
            None => {
                asked = Some(Operation {
                    is_secured: true,
                    scopes,
                    ..Operation::default()
                });
            }
            Some(first) if first.scopes != scopes => {
                let said = "alternatives of 'security' with other scopes: those of the first are asked for";
                reader.say(fault(code::WITHOUT_EFFECT, said, one.span, "not looked at"));
            }
            Some(_) => {}
        }
    }
    asked
}

/// The scheme that `{ jwt: [ 'ticks:read' ] }` names, and its scopes.
fn two_scheme<'d>(reader: &mut Reader<'d>, one: &'d Node) -> Option<(Option<&'d Node>, &'d Node)> {
    let (key, scopes) = one.entries().first()?;
    let components = reader
        .root
        .get("components")
        .and_then(|c| c.get("securitySchemes"));
    let known: Vec<&str> = components
        .map(|schemes| {
            schemes
                .entries()
                .iter()
                .map(|(key, _)| key.name.as_str())
                .collect()
        })
        .unwrap_or_default();
    let scheme = components.and_then(|schemes| schemes.get(&key.name));
    if scheme.is_none() {
        let said = format!("there is no security scheme '{}'", key.name);
        reader.unknown_name(said, key.span, &key.name, &known);
    }
    let scheme = scheme.and_then(|scheme| reader.resolve(scheme));
    Some((scheme, scopes))
}

/// What an operation asks for, with what all of the API asks for.
fn joined(own: Option<Operation>, all: Option<&Operation>) -> Operation {
    let mut operation = own.unwrap_or_default();
    if let Some(all) = all {
        operation.is_secured |= all.is_secured;
        for scope in &all.scopes {
            if !operation.scopes.contains(scope) {
                operation.scopes.push(scope.clone());
            }
        }
    }
    operation
}

fn draft(reader: &mut Reader<'_>, text: &str, span: Span) -> Option<Drafted> {
    match Address::parse(text) {
        Ok(address) => Some(Drafted {
            topic: Topic::new(address),
            span,
        }),
        Err(cause) => {
            let said = format!("'{text}' is no address of a topic: {cause}");
            reader.say(fault(code::BAD_VALUE, said, span, "not an address"));
            None
        }
    }
}

fn two<'d>(reader: &mut Reader<'d>, servers: &Servers, messages: &mut Messages) -> Vec<Drafted> {
    let mut drafted = Vec::new();
    let mut said = Servers::default();
    let channels = channels(reader);
    for (key, channel) in channels {
        let Some(channel) = reader.resolve(channel) else {
            continue;
        };
        let Some(mut draft) = draft(reader, &key.name, key.span) else {
            continue;
        };
        let mut operation = |name: &str| {
            let operation = reader.resolve(channel.get(name)?)?;
            let own = security(reader, operation, false, &mut said);
            let mut own = joined(own, servers.security.as_ref());
            own.messages = messages.of_operation(reader, operation, name);
            Some(own)
        };
        draft.topic.subscribe = operation("subscribe");
        draft.topic.publish = operation("publish");
        drafted.push(draft);
    }
    drafted
}

fn channels<'d>(reader: &mut Reader<'d>) -> &'d [(super::tree::Key, Node)] {
    let root = reader.root;
    if root.get("channels").is_none() {
        reader.needed(root, "channels", "the document");
    }
    let channels = reader.map(root, "channels");
    if channels.len() > TOPICS_MAX {
        let said = format!("the document has more than {TOPICS_MAX} channels");
        reader.say(fault(
            code::BAD_VALUE,
            said,
            channels[TOPICS_MAX].0.span,
            "too many",
        ));
        return &channels[..TOPICS_MAX];
    }
    channels
}

fn three<'d>(reader: &mut Reader<'d>, servers: &Servers, messages: &mut Messages) -> Vec<Drafted> {
    let mut said = Servers::default();
    let mut drafted: Vec<(*const Node, Drafted)> = Vec::new();
    for (key, channel) in channels(reader) {
        let Some(channel) = reader.resolve(channel) else {
            continue;
        };
        let (address, span) = match channel.entry("address") {
            // Without a word the address is not known to the document.
            Some((key, address)) if address.is_null() => {
                let said = "a channel without an address has no topic here";
                reader.say(fault(code::WITHOUT_EFFECT, said, key.span, "no address"));
                continue;
            }
            Some(_) => match reader.text(channel, "address") {
                Some(found) => found,
                None => continue,
            },
            None => (key.name.as_str(), key.span),
        };
        if let Some(draft) = draft(reader, address, span) {
            drafted.push((std::ptr::from_ref(channel), draft));
        }
    }
    for (key, operation) in reader.map(reader.root, "operations") {
        let Some(operation) = reader.resolve(operation) else {
            continue;
        };
        let name = format!("operation '{}'", key.name);
        let action = reader.needed(operation, "action", &name);
        let Some(channel) = operation.get("channel") else {
            reader.needed(operation, "channel", &name);
            continue;
        };
        let channel = reader.resolve(channel);
        let own = security(reader, operation, true, &mut said);
        let mut own = joined(own, servers.security.as_ref());
        if let Some(channel) = channel {
            own.messages = messages.of_channel(reader, channel, operation);
        }
        let channel = channel.map(std::ptr::from_ref);
        let of_channel = |(own, _): &&mut (*const Node, Drafted)| Some(*own) == channel;
        let Some((_, draft)) = drafted.iter_mut().find(of_channel) else {
            continue;
        };
        match action {
            Some(("send", _)) => draft.topic.subscribe = Some(own),
            Some(("receive", _)) => draft.topic.publish = Some(own),
            Some((other, span)) => {
                let said = format!("'action' of {name} is '{other}'");
                reader.say(fault(code::BAD_VALUE, said, span, "write send or receive"));
            }
            None => {}
        }
    }
    drafted.into_iter().map(|(_, draft)| draft).collect()
}

fn no_two_at_one_address(reader: &mut Reader<'_>, drafted: &[Drafted]) {
    for (at, own) in drafted.iter().enumerate() {
        let mut before = drafted[..at].iter();
        if let Some(first) = before.find(|first| first.topic.address.overlaps(&own.topic.address)) {
            let (text, other) = (own.topic.address(), first.topic.address());
            let said = match text == other {
                true => format!("two topics have the address '{text}'"),
                false => format!("a request could mean '{other}' and '{text}'"),
            };
            let found = fault(code::TWICE, said, own.span, "the second one");
            reader.say(found.related(first.span, "the first one"));
        }
    }
}

/// Topics that clients can do nothing with.
fn unused(reader: &mut Reader<'_>, drafted: &[Drafted]) {
    for draft in drafted {
        if draft.topic.subscribe.is_none() && draft.topic.publish.is_none() {
            let said = format!(
                "no operation uses topic '{}': clients can neither hear it nor publish to it",
                draft.topic.address()
            );
            let found = fault(code::WITHOUT_EFFECT, said, draft.span, "no operation");
            reader.say(found.help(
                "add an operation: 'send' lets clients hear it, 'receive' lets them publish",
            ));
        }
    }
}
