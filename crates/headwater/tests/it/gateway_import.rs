//! Projects of WSO2 API Manager, as its apictl exports them, imported and served.

use std::process::Command;

use crate::network::gateway::Server;
use crate::network::script::Script;
use crate::network::{Got, Stub, curl, eventually, free_port, ok, piped, text};

/// An RSA key, its JWKS, and a token as API Manager makes it (`gateway.md`, 6.4).
const WSO2: &str = r#"
import base64, json, time, jwt
from cryptography.hazmat.primitives.asymmetric import rsa
def num(n): return base64.urlsafe_b64encode(n.to_bytes((n.bit_length() + 7) // 8, 'big')).rstrip(b'=').decode()
key = rsa.generate_private_key(65537, 2048)
public = key.public_key().public_numbers()
jwk = dict(kty='RSA', kid='k', use='sig', alg='RS256', n=num(public.n), e=num(public.e))
now = int(time.time())
claims = dict(iss='https://localhost:9443/oauth2/token', sub='f1b7', aud='f1b7', azp='f1b7', aut='APPLICATION',
              scope='default feed:read', nbf=now, iat=now, exp=now + 3600, jti='8d2c')
head = dict(kid='k', x5t='eA', typ='at+jwt')
print('jwks ' + json.dumps(dict(keys=[jwk])))
print('token ' + jwt.encode(claims, key, 'RS256', headers=head))
print('other ' + jwt.encode(dict(claims, scope='default'), key, 'RS256', headers=head))
"#;

/// `headwater gateway import`: exit code, standard output, standard error.
fn import(args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    let output = command.args(["gateway", "import"]).args(args).output();
    let output = output.expect("it runs");
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// A project in a folder of its own.
fn project(folder: &tempfile::TempDir, api: &str) -> String {
    std::fs::write(folder.path().join("api.yaml"), api).expect("it can be written");
    folder.path().display().to_string()
}

// rules: J8
#[test]
fn an_sse_project_is_served_to_a_token_of_api_manager() {
    let Some(keys) = Script::start_or_skip("jwt", WSO2, &[]) else {
        return;
    };
    keys.has("other ", 1);
    let jwks = keys.lines("jwks ").remove(0);
    let backend = Stub::start(free_port(), move |got: &Got| {
        match got.head.starts_with("GET /jwks") {
            true => ok(&jwks),
            false => "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9\r\n\r\ndata: 1\n\n".to_owned(),
        }
    });
    let folder = tempfile::tempdir().expect("a folder");
    let port = backend.port;
    let path = project(
        &folder,
        &format!(
            "type: api\nversion: v4.3.0\ndata:\n  name: Feed\n  context: /feed\n  version: 1.0.0\n  type: SSE\n  \
             lifeCycleStatus: PUBLISHED\n  isDefaultVersion: true\n  policies: [ AsyncUnlimited ]\n  \
             securityScheme: [ oauth2 ]\n  operations:\n    - {{ target: /ticks, verb: SUBSCRIBE, authType: Any, scopes: [ 'feed:read' ] }}\n  \
             endpointConfig: {{ endpoint_type: http, production_endpoints: {{ url: 'http://127.0.0.1:{port}/events' }} }}\n"
        ),
    );
    let jwks = format!("http://127.0.0.1:{port}/jwks");
    let issuer = [
        "--issuer",
        "https://localhost:9443/oauth2/token",
        "--jwks",
        &jwks,
    ];
    let (code, document, err) = import(&[&[path.as_str()], &issuer[..]].concat());
    assert_eq!((code, err.as_str()), (Some(0), ""), "{document}");
    let server = Server::start(&[("feed.yaml", &document)]);
    let url = server.url("/feed/1.0.0/ticks");
    let bearer = |name: &str| format!("Authorization: Bearer {}", keys.lines(name).remove(0));
    let (status, said) = curl(&["-N", "-H", &bearer("token "), &url]);
    assert!(
        status == "200" && said.contains("data: 1"),
        "{status} {said}"
    );
    let (status, said) = curl(&["-H", &bearer("other "), &url]);
    assert!(
        status == "403" && said.contains("900910"),
        "{status} {said}"
    );
    assert_eq!(curl(&[&url]).0, "401");
    let asked = backend.got();
    let events = asked
        .iter()
        .find(|got| got.head.starts_with("GET /events/ticks "));
    let events = events.expect("the backend was asked at its path");
    assert!(
        !events.head.to_ascii_lowercase().contains("authorization"),
        "{}",
        events.head
    );
    server.run.stop();
}

#[test]
fn a_hub_takes_events_that_are_signed_by_its_secret() {
    let callback = Stub::start(free_port(), |got: &Got| {
        let line = got.head.lines().next().unwrap_or_default();
        let challenge = line.split("hub.challenge=").nth(1);
        ok(challenge.map_or("", |rest| rest.split(['&', ' ']).next().unwrap_or_default()))
    });
    let folder = tempfile::tempdir().expect("a folder");
    let path = project(
        &folder,
        "data: { name: Issues, context: /issues, version: '1', type: WEBSUB, \
         operations: [ { target: /opened, verb: SUBSCRIBE, authType: None } ], enableSubscriberVerification: true, \
         websubSubscriptionConfiguration: { enable: true, secret: planted-secret, signingAlgorithm: SHA256, signatureHeader: x-hub-signature } }",
    );
    let output = folder.path().join("apis").display().to_string();
    let (code, file, err) = import(&[&path, "--output", &output]);
    assert_eq!(code, Some(0), "{err}");
    assert!(
        err.contains("note: callbacks:") && !err.contains("planted"),
        "{err}"
    );
    let file = file.trim_end();
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(file).expect("it is there"));
    assert_eq!(mode & 0o777, 0o600);
    // It stays as it is.
    assert!(
        import(&[&path, "--output", &output])
            .2
            .contains("cannot write")
    );
    let document = std::fs::read_to_string(file).expect("it can be read");
    let document = document.replace(
        "  websub:\n",
        "  websub:\n    callback-networks: [ 127.0.0.1 ]\n",
    );
    let server = Server::start(&[("issues.yaml", &document)]);
    let base = server.url("/issues/1");
    let form = format!(
        "hub.mode=subscribe&hub.topic=/opened&hub.callback=http://127.0.0.1:{}/c",
        callback.port
    );
    assert_eq!(curl(&["-d", &form, &base]).0, "202");
    server.run.err_has("subscription changed", 1);
    let receiver = format!("{base}/webhooks_events_receiver_resource?topic=opened");
    // echo -n '{"id":1}' | openssl dgst -sha256 -hmac planted-secret
    let signature = signature_of_openssl();
    let signed = format!("x-hub-signature: sha256={signature}");
    let body = ["-H", "Content-Type: application/json", "-d", "{\"id\":1}"];
    assert_eq!(
        curl(&[&body[..], &["-H", &signed, &receiver]].concat()).0,
        "202"
    );
    for wrong in ["x-hub-signature: sha256=00", "x-other: 1"] {
        let (status, said) = curl(&[&body[..], &["-H", wrong, &receiver]].concat());
        assert!(
            status == "401" && said.contains("signature"),
            "{wrong}: {status} {said}"
        );
    }
    let unknown = receiver.replace("opened", "closed");
    assert_eq!(
        curl(&[&body[..], &["-H", &signed, &unknown]].concat()).0,
        "404"
    );
    let delivered = || {
        callback
            .got()
            .into_iter()
            .filter(|got| got.head.starts_with("POST "))
            .collect::<Vec<Got>>()
    };
    eventually("the event", || delivered().len() == 1);
    assert_eq!(delivered()[0].body, "{\"id\":1}");
    // Nobody publishes by the topic itself, and the secret is in no output.
    assert_eq!(curl(&["-d", "x", &format!("{base}/opened")]).0, "405");
    let exported = server.does(&["export", "Issues", "--json"]);
    assert!(
        !exported.contains("planted-secret") && exported.contains("secret of the receiver"),
        "{exported}"
    );
    assert!(!server.run.err().contains("planted-secret"));
    server.run.stop();
}

/// The signature of `{"id":1}` by the secret of the project, of openssl.
fn signature_of_openssl() -> String {
    let mut openssl = Command::new("openssl");
    openssl.args(["dgst", "-sha256", "-hmac", "planted-secret"]);
    let output = piped(&mut openssl, b"{\"id\":1}");
    let said = text(&output.stdout);
    said.trim()
        .rsplit(' ')
        .next()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn a_websocket_project_runs_as_it_is_and_by_its_status() {
    let folder = tempfile::tempdir().expect("a folder");
    let api = |status: &str| {
        format!(
            "data: {{ name: Chat, context: /chat, version: '1', type: WS, lifeCycleStatus: {status}, \
             operations: [ {{ target: /rooms, verb: SUBSCRIBE }}, {{ target: /rooms, verb: PUBLISH }} ], \
             endpointConfig: {{ production_endpoints: {{ url: 'ws://127.0.0.1:1/base' }} }} }}"
        )
    };
    let path = project(&folder, &api("DEPRECATED"));
    let apps = crate::broker::Apps::new(free_port(), 0);
    let address = format!("127.0.0.1:{}", apps.port());
    let run = crate::network::Running::start(&[&path, "--gateway", &address]);
    run.err_has("ready in", 1);
    run.err_has("tokens of this server's own issuer", 1);
    let url = format!("http://{address}/chat/1/rooms");
    let upgrade = [
        "-i",
        "-H",
        "Connection: upgrade",
        "-H",
        "Upgrade: websocket",
        "-H",
        "Sec-WebSocket-Version: 13",
        "-H",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ];
    let ask = || curl(&[&upgrade[..], &[url.as_str()]].concat());
    let (status, said) = ask();
    assert!(
        status == "401" && said.to_ascii_lowercase().contains("deprecation: true"),
        "{status} {said}"
    );
    for (status, expect) in [
        ("BLOCKED", "503"),
        ("RETIRED", "410"),
        ("CREATED", "404"),
        ("PUBLISHED", "401"),
    ] {
        project(&folder, &api(status));
        run.reload();
        eventually(status, || ask().0 == expect);
    }
    run.stop();
}

#[test]
fn what_is_no_project_is_refused_with_its_cause() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = project(
        &folder,
        "data: { name: n, context: /n, version: '1', type: HTTP }",
    );
    let (code, out, err) = import(&[&path]);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(
        err.contains("of type 'HTTP', which is no streaming API"),
        "{err}"
    );
    let zip = folder.path().join("a.zip");
    std::fs::write(&zip, "PK").expect("it can be written");
    let (code, _, err) = import(&[&zip.display().to_string()]);
    assert!(
        code == Some(1) && err.contains("the zip cannot be read"),
        "{err}"
    );
    let (code, _, err) = import(&["/nowhere.zip"]);
    assert!(
        code == Some(1) && err.contains("cannot read '/nowhere.zip'"),
        "{err}"
    );
}
