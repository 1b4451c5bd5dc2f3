use std::io::{Cursor, Write as _};

use zip::write::SimpleFileOptions;

use super::*;
use crate::document::read;
use crate::model::{Api, Binding, Lifecycle};

const WEBSOCKET: &str = "type: api
version: v4.3.0
data:
  id: 7ee1
  name: Chat
  context: /chat // of the sample
  version: 1.0.0
  isDefaultVersion: true
  lifeCycleStatus: DEPRECATED
  type: WS
  transport: [ http, https ]
  tags: [ demo ]
  policies: [ AsyncGold, Bespoke ]
  apiThrottlingPolicy: Unlimited
  securityScheme: [ oauth2, api_key, mutualssl ]
  keyManagers: [ all ]
  scopes:
    - scope: { name: 'chat:read', bindings: [ admin ] }
  corsConfiguration: { corsConfigurationEnabled: true, accessControlAllowOrigins: [ 'https://a.example/' ] }
  operations:
    - { target: '/rooms/{room}', verb: SUBSCRIBE, authType: 'Application & Application User', scopes: [ 'chat:read' ], uriMapping: '/r/{room}?v=2' }
    - { target: '/rooms/{room}', verb: PUBLISH, scopes: [ 'chat:read' ], throttlingPolicy: 10KPerMin }
    - { target: /open, verb: SUBSCRIBE, authType: None }
  endpointConfig:
    endpoint_type: ws
    production_endpoints: { url: 'ws://127.0.0.1:9000/base/' }
    sandbox_endpoints: { url: 'ws://127.0.0.1:9001' }
";

const HOOKS: &str = "type: api
version: v4.3.0
data:
  name: Issues
  context: '/{version}/issues'
  version: 2.0.0
  type: WEBSUB
  policies: [ AsyncWHGold ]
  operations:
    - { target: issues, verb: SUBSCRIBE, scopes: [] }
  websubSubscriptionConfiguration: { enable: true, secret: planted-secret, signingAlgorithm: SHA256, signatureHeader: X-Sign }
";

fn zip_of(files: &[(&str, &str)]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in files {
        writer
            .start_file(*name, SimpleFileOptions::default())
            .expect("a file begins");
        writer.write_all(text.as_bytes()).expect("it is in memory");
    }
    writer.finish().expect("it ends").into_inner()
}

#[track_caller]
fn imported(files: &[(&str, &str)], issuer: &Issuer) -> (Api, Imported) {
    let imported = import_zip(&zip_of(files), issuer).expect("it is a project");
    let document = read(&imported.document, "");
    assert_eq!(document.diagnostics, [], "{}", imported.document);
    (document.api.expect("it has no errors"), imported)
}

#[track_caller]
fn refused(files: &[(&str, &str)], cause: &str) {
    let said = import_zip(&zip_of(files), &Issuer::default()).expect_err("it is refused");
    assert!(said.to_string().contains(cause), "{said}");
}

#[track_caller]
fn has_note(imported: &Imported, text: &str) {
    let notes = &imported.notes;
    assert!(
        notes.iter().any(|note| note.contains(text)),
        "{text}: {notes:#?}"
    );
}

#[test]
fn a_websocket_project_is_the_same_api() {
    let issuer = Issuer {
        issuer: Some("https://localhost:9443/oauth2/token".to_owned()),
        jwks: Some("https://localhost:9443/oauth2/jwks".to_owned()),
    };
    let files = [
        ("Chat-1.0.0/api.yaml", WEBSOCKET),
        ("Chat-1.0.0/Endpoint-certificates/a.crt", "x"),
        ("Chat-1.0.0/params.yaml", "a: 1"),
    ];
    let (api, imported) = imported(&files, &issuer);
    assert_eq!((api.name.as_str(), api.version.as_str()), ("Chat", "1.0.0"));
    assert_eq!(api.bases, ["/chat/1.0.0", "/chat"]);
    assert!(api.protocols.websocket && !api.protocols.sse);
    assert_eq!(api.status, Lifecycle::Deprecated);
    assert_eq!(
        api.plans
            .iter()
            .map(|(name, _)| name.as_str())
            .collect::<Vec<_>>(),
        ["AsyncGold"]
    );
    assert_eq!(
        api.issuers[0]["issuer"],
        "https://localhost:9443/oauth2/token"
    );
    assert_eq!(api.origins.0, ["https://a.example"]);
    let [room, open] = &api.topics[..] else {
        panic!("two topics: {:?}", api.topics)
    };
    let Binding::Backend {
        url, is_websocket, ..
    } = &room.binding
    else {
        panic!("a backend: {:?}", room.binding)
    };
    assert!(*is_websocket);
    assert_eq!(url.to_string(), "http://127.0.0.1:9000/base/r/{room}?v=2");
    let [hear, say] = [&room.subscribe, &room.publish].map(|one| one.clone().expect("both"));
    assert!(hear.is_secured && hear.scopes == ["chat:read"] && say == hear);
    assert!(open.subscribe.as_ref().is_some_and(|one| !one.is_secured) && open.publish.is_none());
    for text in [
        "policies 'Bespoke'",
        "mutualssl",
        "scopes 'chat:read'",
        "throttlingPolicy '10KPerMin'",
        "sandbox_endpoints",
        "context: the comment",
        "of the portal, without effect: tags",
        "Endpoint-certificates/",
        "params.yaml",
    ] {
        has_note(&imported, text);
    }
}

#[test]
fn a_hub_keeps_its_secret_and_shows_it_to_nobody() {
    let (api, imported) = imported(&[("api.yaml", HOOKS)], &Issuer::default());
    assert_eq!(api.bases, ["/issues/2.0.0"]);
    assert!(api.protocols.websub);
    let receiver = api.hub.receiver.clone().expect("it has one");
    assert!(receiver.has_secret() && imported.has_secret);
    assert_eq!(api.topics[0].address(), "/issues");
    has_note(&imported, "version before its end");
    has_note(&imported, "tokens of this server's own issuer");
    has_note(&imported, "enableSubscriberVerification");
    assert!(!format!("{imported:?}{api:?}{:?}", imported.notes).contains("planted-secret"));
    let exported = crate::document::export(&api, Format::Three, None).expect("it can be written");
    assert!(!exported.text.contains("planted-secret"));
}

#[test]
fn an_sse_project_of_a_folder_takes_its_topics_from_the_definition() {
    let folder = tempfile::tempdir().expect("a folder");
    let api = "data: { name: Feed, context: /feed, version: '1', type: SSE, \
               endpointConfig: { production_endpoints: [ { url: 'https://h.example/events' } ] } }";
    let definition = "asyncapi: 2.0.0\ninfo: { title: Feed, version: '1' }\nchannels:\n  \
                      '/*': { subscribe: { x-auth-type: None } }\n  \
                      '/a': { subscribe: { x-scopes: { '0': s }, x-uri-mapping: /b } }\n";
    std::fs::create_dir(folder.path().join("Definitions")).expect("a folder");
    std::fs::write(folder.path().join("api.yaml"), api).expect("it can be written");
    std::fs::write(folder.path().join("Definitions/asyncapi.yaml"), definition)
        .expect("it can be written");
    assert!(is_project(folder.path()));
    let imported = import(folder.path(), &Issuer::default()).expect("it is a project");
    let api = read(&imported.document, "").api.expect("it is right");
    let urls = api.topics.iter().map(|topic| match &topic.binding {
        Binding::Backend { url, .. } => url.to_string(),
        other => panic!("{other:?}"),
    });
    assert_eq!(
        urls.collect::<Vec<_>>(),
        [
            "https://h.example:443/events",
            "https://h.example:443/events/b"
        ]
    );
    assert_eq!(
        api.topics[1]
            .subscribe
            .as_ref()
            .map(|one| one.scopes.clone()),
        Some(vec!["s".to_owned()])
    );
    has_note(&imported, "stands for every path");
}

#[test]
fn what_is_no_streaming_api_is_refused_by_name() {
    let with = |fields: &str| format!("data: {{ name: n, context: /n, version: '1', {fields} }}");
    for (fields, cause) in [
        ("type: HTTP", "of type 'HTTP'"),
        ("type: GRAPHQL", "of type 'GRAPHQL'"),
        ("type: WS", "names no server"),
        (
            "type: WS, endpointConfig: { production_endpoints: { url: 'http://h/' } }",
            "does not speak",
        ),
        (
            "type: SSE, endpointConfig: { production_endpoints: { url: 'http://h/' } }",
            "no operation",
        ),
        (
            "type: WEBSUB, operations: [ { target: a, verb: SUBSCRIBE } ], websubSubscriptionConfiguration: { signingAlgorithm: MD5 }",
            "MD5",
        ),
    ] {
        refused(&[("api.yaml", &with(fields))], cause);
    }
    refused(&[("api.yaml", "data: { name: n }")], "no 'type'");
    refused(&[("api.yaml", "a: [")], "file 'api.yaml'");
    refused(&[("other.yaml", "")], "no 'api.yaml'");
    refused(&[("a/b/api.yaml", WEBSOCKET)], "no 'api.yaml'");
    refused(&[("api.yaml", "- 1")], "no fields");
}

#[test]
fn a_zip_that_means_harm_is_refused_within_bounds() {
    for name in [
        "../api.yaml",
        "/api.yaml",
        "a/../../b",
        "a\\b",
        &"x/".repeat(20),
        &"n".repeat(2000),
    ] {
        let name = format!("{name}x");
        refused(
            &[("api.yaml", WEBSOCKET), (&name, "")],
            "no place below its folder",
        );
    }
    // A bomb: a thousand to one.
    let long = " ".repeat(5 << 20);
    refused(&[("api.yaml", &long)], "longer than");
    let names: Vec<String> = (0..5001).map(|number| number.to_string()).collect();
    let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    refused(&many, "more than 5000 entries");
    assert!(import_zip(b"PK\x03\x04", &Issuer::default()).is_err());
    assert!(import_zip(b"", &Issuer::default()).is_err());
    // A zip that was cut, or changed anywhere, is an error or a project, and nothing worse.
    let whole = zip_of(&[
        ("p/api.yaml", WEBSOCKET),
        ("p/Definitions/asyncapi.yaml", "asyncapi: 2.0.0"),
    ]);
    for at in 0..whole.len() {
        import_zip(&whole[..at], &Issuer::default()).err();
        let mut changed = whole.clone();
        changed[at] ^= 0x55;
        import_zip(&changed, &Issuer::default()).err();
    }
    let deep = format!("data: {}1{}", "[".repeat(200), "]".repeat(200));
    refused(&[("api.yaml", &deep)], "file 'api.yaml'");
}
