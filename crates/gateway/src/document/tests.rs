use super::*;
use crate::model::{Binding, Operation, Slow, Upstream};

/// The findings of a document, as `code: message` in order.
fn found(text: &str) -> Vec<String> {
    let document = read(text, "api.yaml");
    let diagnostics = document.diagnostics.iter();
    diagnostics
        .map(|d| format!("{}: {}", d.code, d.message))
        .collect()
}

#[track_caller]
fn fine(text: &str) -> Api {
    let document = read(text, "api.yaml");
    assert_eq!(document.diagnostics, [], "{text}");
    document.api.expect("it has no errors")
}

/// A document of 3.0 with what `x-headwater` says.
fn with(own: &str) -> String {
    format!(
        "asyncapi: 3.0.0\ninfo: {{ title: Ticks, version: 1.0.0 }}\n\
         channels: {{ by: {{ address: '/symbols/{{symbol}}' }} }}\n\
         operations: {{ hear: {{ action: send, channel: {{ $ref: '#/channels/by' }} }} }}\n\
         x-headwater:\n{own}"
    )
}

#[track_caller]
fn check(own: &str, expect: &str) {
    let found = found(&with(own));
    assert!(
        found.iter().any(|said| said.contains(expect)),
        "{own}: {found:?}"
    );
}

const TWO: &str = "
asyncapi: 2.6.0
info: { title: StockTicks, version: 1.0.0 }
servers: { edge: { url: 'sse://localhost:8280/ticks/1.0.0', protocol: sse } }
channels:
  '/symbols/{symbol}':
    parameters: { symbol: { schema: { type: string } } }
    subscribe: { security: [ { jwt: [ 'ticks:read' ] } ], message: { $ref: '#/components/messages/tick' } }
  /orders:
    publish: { message: { name: order, payload: { $ref: '#/components/schemas/Order' } } }
components:
  securitySchemes: { jwt: { type: oauth2, flows: {} } }
  messages: { tick: { payload: { type: object } } }
  schemas: { Order: { type: object, required: [ item ] } }
x-headwater: { issuers: [ { name: main, issuer: 'https://idp.example.com', algorithms: [ RS256 ] } ] }
";

const THREE: &str = "
asyncapi: 3.0.0
info: { title: StockTicks, version: 1.0.0 }
servers: { edge: { host: 'localhost:8280', pathname: /ticks/1.0.0, protocol: sse } }
channels:
  bySymbol: { address: '/symbols/{symbol}', parameters: { symbol: {} }, messages: { tick: { payload: { type: object } } } }
  orders: { address: /orders, messages: { order: { payload: { $ref: '#/components/schemas/Order' } } } }
operations:
  receiveTicks: { action: send, channel: { $ref: '#/channels/bySymbol' }, security: [ { $ref: '#/components/securitySchemes/jwt' } ] }
  order: { action: receive, channel: { $ref: '#/channels/orders' } }
components:
  securitySchemes: { jwt: { type: oauth2, flows: {}, scopes: [ 'ticks:read' ] } }
  schemas: { Order: { type: object, required: [ item ] } }
x-headwater: { issuers: [ { name: main, issuer: 'https://idp.example.com', algorithms: [ RS256 ] } ] }
";

// rules: A2
#[test]
fn one_api_in_both_versions_is_one_model() {
    let (two, three) = (fine(TWO), fine(THREE));
    assert_eq!(two, three);
    assert_eq!(two.bases, ["/ticks/1.0.0", "/ticks"]);
    let scopes = vec!["ticks:read".to_owned()];
    let secured = Operation {
        is_secured: true,
        scopes,
        messages: two.topics[0].subscribe.clone().unwrap_or_default().messages,
    };
    assert_eq!(secured.messages.len(), 1);
    assert_eq!(two.topics[0].subscribe, Some(secured));
    assert_eq!(two.topics[0].publish, None);
    assert_eq!(two.topics[1].subscribe, None);
    let publish = two.topics[1].publish.as_ref().expect("clients may publish");
    assert!(!publish.is_secured && publish.messages[0].name == "order");
    assert!(two.protocols.sse && !two.protocols.websocket);
}

// rules: A1
#[test]
fn json_is_read_as_yaml_is() {
    let json = r##"{"asyncapi": "3.1.0", "info": {"title": "T", "version": "1"},
	"channels": {"a": {"address": "a/{b}"}},
	"operations": {"o": {"action": "send", "channel": {"$ref": "#/channels/a"}}}}"##;
    let api = fine(json);
    assert_eq!(api.topics[0].address(), "/a/{b}");
    assert_eq!(api.bases, ["/t/1", "/t"]);
}

// rules: A1
#[test]
fn every_version_is_read() {
    for minor in 0..=6 {
        let api = fine(&TWO.replace("2.6.0", &format!("2.{minor}.0")));
        assert_eq!(api, fine(TWO), "2.{minor}");
    }
    for minor in 0..=1 {
        let api = fine(&THREE.replace("3.0.0", &format!("3.{minor}.0")));
        assert_eq!(api, fine(THREE), "3.{minor}");
    }
}

// rules: A3
#[test]
fn protocols_are_those_of_the_servers() {
    let of = |protocols: &[&str]| {
        let servers = protocols.iter().enumerate().map(|(number, protocol)| {
            format!("s{number}: {{ host: 'h:1', protocol: {protocol} }}")
        });
        let servers = servers.collect::<Vec<_>>().join(", ");
        let edge =
            "servers: { edge: { host: 'localhost:8280', pathname: /ticks/1.0.0, protocol: sse } }";
        let protocols = fine(&THREE.replace(edge, &format!("servers: {{ {servers} }}"))).protocols;
        (
            protocols.sse,
            protocols.websocket,
            protocols.http,
            protocols.websub,
        )
    };
    assert_eq!(of(&["sse"]), (true, false, true, false));
    assert_eq!(of(&["wss"]), (false, true, false, false));
    assert_eq!(of(&["https", "ws"]), (true, true, true, false));
    // Nobody is asked where nothing is said that the gateway knows.
    assert_eq!(of(&["kafka"]), (true, true, true, false));
}

#[test]
fn documents_are_told_from_other_files() {
    assert!(
        is_document(TWO)
            && is_document("\u{feff}asyncapi: 3.0.0")
            && is_document("{\"asyncapi\": 1}")
    );
    assert!(!is_document("a: 1\n  asyncapi: 3.0.0") && !is_document("{}") && !is_document(""));
    assert!(may_be_document(Path::new("a.YAML")) && !may_be_document(Path::new("a.siddhi")));
}

#[test]
fn what_is_said_to_the_gateway_is_read() {
    let api = fine(&with(
        "  protocols: [ sse, ws ]\n  context: /t\n  heartbeat: 5s\n  message-max: 2MB\n  origins: [ 'https://a.example/' ]\n  topics:\n    \
         /symbols/{symbol}: { stream: Ticks/TickStream, key: sym, history: { events: 10, age: 15min }, slow: latest }\n",
    ));
    assert_eq!(api.bases, ["/t/1.0.0", "/t"]);
    assert_eq!(api.heartbeat.as_secs(), 5);
    assert_eq!(api.message_max, 2 << 20);
    assert_eq!(api.origins.0, ["https://a.example"]);
    let topic = &api.topics[0];
    let stream = Binding::Stream {
        app: "Ticks".to_owned(),
        stream: "TickStream".to_owned(),
        keys: vec!["sym".to_owned()],
    };
    assert_eq!(topic.binding, stream);
    assert_eq!((topic.history.events, topic.slow), (10, Slow::Latest));
}

#[test]
fn a_backend_is_a_url_with_parameters_of_the_address() {
    let topics = |said: &str| format!("  topics: {{ '/symbols/{{symbol}}': {{ {said} }} }}\n");
    let api = fine(&with(&topics(
        "backend: 'http://h:9/s/{symbol}', upstream: shared",
    )));
    assert!(matches!(
        &api.topics[0].binding,
        Binding::Backend { upstream: Upstream::Shared, is_websocket: false, url } if url.port == 9
    ));
    let api = fine(&with(&topics("backend: 'wss://h/s'")));
    assert!(
        matches!(&api.topics[0].binding, Binding::Backend { is_websocket: true, url, .. } if url.is_tls)
    );
    check(
        &topics("backend: 'http://h/{sym}'"),
        "E1007: the address of the topic has no parameter 'sym'",
    );
    check(&topics("backend: 'h:9'"), "E1004: 'h:9' is no URL");
    check(
        &topics("backend: 'http://h', stream: A/B"),
        "has a stream and a backend",
    );
    check(&topics("upstream: shared"), "there is none");
    check(
        &topics("backend: 'ws://h', upstream: shared"),
        "belongs to one client",
    );
}

#[test]
fn what_is_not_known_is_named_with_what_is_near() {
    let text = with("  protocol: [ sse ]\n");
    let document = read(&text, "a.yaml");
    let fault = &document.diagnostics[0];
    assert_eq!(fault.code, code::UNKNOWN_KEY);
    assert_eq!(fault.span.text(&text), "protocol");
    assert_eq!(fault.help.as_deref(), Some("did you mean 'protocols'?"));
    assert!(fault.fix.is_some() && document.api.is_none());
    let topics = |said: &str| format!("  topics: {{ '/symbols/{{symbol}}': {{ {said} }} }}\n");
    check(
        "  topics: { /symbol: {} }\n",
        "E1007: no channel has the address '/symbol'",
    );
    check(
        &topics("histroy: {}"),
        "E1002: topic '/symbols/{symbol}' has no key 'histroy'",
    );
    check(
        &topics("history: { event: 1 }"),
        "E1002: 'history' has no key 'event'",
    );
    check(
        &topics("history: { events: many }"),
        "E1004: 'events' is 'many'",
    );
    check(&topics("history: { durable: true }"), "E1009");
    check(&topics("slow: lazy"), "E1007: there is no policy 'lazy'");
    check(
        &topics("stream: TickStream"),
        "E1004: 'stream' is 'TickStream'",
    );
    check(
        &topics("stream: A/B, key: [ a, b ]"),
        "'key' names 2 attributes",
    );
    check(
        "  protocols: [ mqtt ]\n",
        "E1007: there is no protocol 'mqtt'",
    );
    check(
        "  websub: { digest: md5 }\n",
        "E1004: there is no digest \"md5\"",
    );
    check("  plans: { P: { evnts: 1/s } }\n", "E1004: plan 'P'");
    check(
        "  issuers: [ { issuer: i, algorithms: [ none ] } ]\n",
        "E1004: there is no algorithm 'none'",
    );
    check("  heartbeat: 0s\n", "E1004: 'heartbeat' is '0s'");
    check(
        "  compression: fast\n",
        "E1004: 'compression' is neither true nor false",
    );
    check("  context: '/{a}'\n", "E1004: 'context' is '/{a}'");
}

#[test]
fn what_a_document_needs_is_named() {
    let said = |text: &str| found(text).join("; ");
    assert!(said("a: 1").contains("E1003: the document has no 'asyncapi'"));
    assert!(said("asyncapi: 1.2.0").contains("E1005"));
    assert!(said("asyncapi: 3.0.0").contains("E1003: the document has no 'info'"));
    let two = said("asyncapi: 2.0.0\ninfo: { title: A }\nchannels: {}\n");
    assert!(two.contains("'info' has no 'version'"), "{two}");
    let no_channels = said("asyncapi: 2.0.0\ninfo: { title: A, version: 1 }\n");
    assert!(no_channels.contains("has no 'channels'"), "{no_channels}");
}

// rules: A1
#[test]
fn references_are_followed_inside_the_document() {
    let text = |reference: &str| {
        format!(
            "asyncapi: 2.0.0\ninfo: {{ title: A, version: 1 }}\nchannels: {{ /a: {{ $ref: '{reference}' }} }}\n\
             components: {{ channels: {{ a: {{ subscribe: {{}} }}, b: {{ $ref: '#/components/channels/b' }} }} }}\n"
        )
    };
    assert!(
        fine(&text("#/components/channels/a")).topics[0]
            .subscribe
            .is_some()
    );
    let said = |reference: &str| found(&text(reference)).join("; ");
    assert!(said("#/components/channels/c").contains("there is no 'c'"));
    assert!(said("other.yaml#/a").contains("leads out of the document"));
    assert!(said("#/components/channels/b").contains("lead to each other"));
}

#[test]
fn an_operation_that_nobody_can_use_is_an_error() {
    let without = TWO.replace("x-headwater", "x-other");
    assert!(found(&without).join("; ").contains("E1010"));
    let unknown = TWO.replace("{ jwt: [", "{ jwd: [");
    assert!(
        found(&unknown)
            .join("; ")
            .contains("no security scheme 'jwd'")
    );
}

#[test]
fn two_documents_at_one_address_are_refused() {
    let (a, b) = (read(TWO, "a.yaml"), read(THREE, "b.yaml"));
    let found = conflicts(&[("a.yaml", &a), ("b.yaml", &b)]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].0, 1);
    assert_eq!(found[0].1.span.text(THREE), "StockTicks");
    let other = read(&THREE.replace("StockTicks", "Other"), "c.yaml");
    let found = conflicts(&[("a.yaml", &a), ("c.yaml", &other)]);
    assert!(found[0].1.message.contains("'/ticks/1.0.0'"), "{found:?}");
}

/// The pages of `headwater explain`.
#[test]
fn examples_of_codes_fail_and_are_mended() {
    let pages = check::codes::CODES.iter();
    let documents = pages.filter(|page| page.example == check::codes::Example::Document);
    let mut count = 0;
    for page in documents {
        count += 1;
        let codes = |text: &str| -> Vec<&str> {
            read(text, "a.yaml")
                .diagnostics
                .iter()
                .map(|d| d.code)
                .collect()
        };
        assert!(
            codes(page.failing).contains(&page.code),
            "{}: {:?}",
            page.code,
            found(page.failing)
        );
        let left: Vec<String> = found(page.fixed)
            .into_iter()
            .filter(|d| d.starts_with(page.code) || d.starts_with('E'))
            .collect();
        assert!(left.is_empty(), "{}: {left:?}", page.code);
    }
    assert!(count > 8);
}

/// Whatever is missing or cut off, wherever characters are long: each fault has a place in the text.
#[test]
fn every_fault_has_a_place() {
    let texts = [
        "ä",
        "ä: ö",
        "asyncapi: 3.0.0\nä: [",
        "asyncapi: 3.0.0\ninfo: { ä: 1 }",
        "é: {",
        "\u{feff}é: 'x",
    ];
    let all = texts.iter().map(|text| (*text).to_owned());
    let cut = (0..TWO.len()).map(|at| TWO[..at].to_owned());
    for text in all.chain(cut) {
        let document = read(&text, "a.yaml");
        for fault in &document.diagnostics {
            let span = fault.span.start as usize..fault.span.end as usize;
            assert!(text.get(span).is_some(), "{text:?}: {fault:?}");
        }
        let has_errors = document.diagnostics.iter().any(|d| d.code.starts_with('E'));
        assert_eq!(has_errors, document.api.is_none(), "{text:?}");
    }
}

// rules: A5
#[test]
fn the_schemas_of_messages_are_judged_with_their_place() {
    let with = |payload: &str, more: &str| {
        format!(
            "asyncapi: 2.6.0\ninfo: {{ title: Ticks, version: '1' }}\nchannels:\n  /in:\n    publish:\n      message: {{ payload: {payload}{more} }}\n"
        )
    };
    for (payload, expect) in [
        (
            "{ type: text }",
            "E1004: the schema of message 'publish' is wrong at '#': 'type' is not one or some of",
        ),
        (
            "{ properties: { a: { pattern: '(' } } }",
            "E1004: the schema of message 'publish' is wrong at '#/properties/a'",
        ),
        (
            "{ $ref: '#/components/schemas/No' }",
            "E1006: the reference '#/components/schemas/No' leads nowhere",
        ),
        (
            "{ items: { $ref: 'other.yaml' } }",
            "E1006: the reference 'other.yaml' leads out of the document",
        ),
    ] {
        let found = found(&with(payload, ""));
        assert!(
            found.len() == 1 && found[0].starts_with(expect),
            "{payload}: {found:?}"
        );
    }
    let text = with("{ properties: { a: { pattern: '(' } } }", "");
    let place = read(&text, "a.yaml").diagnostics[0].span;
    assert_eq!(place.text(&text).trim(), "{ pattern: '(' }");
    for (more, expect) in [
        (
            ", schemaFormat: 'application/vnd.apache.avro;version=1.9.0'",
            "W1001: schemas of the format 'application/vnd.apache.avro;version=1.9.0' are not checked",
        ),
        (
            ", contentType: application/xml",
            "W1001: payloads of type 'application/xml' are not checked",
        ),
    ] {
        assert_eq!(found(&with("{}", more)), [expect]);
    }
    let own = "x-headwater: { payloads: dead-letter }\n";
    let api = fine(&format!("{}{own}", with("{ type: object }", "")));
    // It has no app whose rejected events it could be among.
    assert_eq!(api.topics[0].unfit, crate::model::Unfit::Reject);
    let own = "x-headwater: { topics: { /in: { payloads: dead-letter } } }\n";
    let said = found(&format!("{}{own}", with("{}", "")));
    assert_eq!(
        said,
        ["E1004: dead letters are kept with an app, and topic '/in' has none"]
    );
    let own = "x-headwater: { payloads: refuse }\n";
    let said = found(&format!("{}{own}", with("{}", "")));
    assert_eq!(said, ["E1007: 'payloads' is 'refuse'"]);
}
