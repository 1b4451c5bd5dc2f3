//! Tokens that PyJWT has made, with the keys of `cryptography`: what others sign counts here, and what they forge does
//! not.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use headwater_gateway::token::{
    ApiKey, Cause, Client, Credentials, Directory, Issuer, KeySources, Verifier,
};
use serde_json::{Value, json};

/// That of the system, for which its packages bring modules.
const PYTHON: &str = "/usr/bin/python3";

/// Makes a key of each kind, a set of the public ones, and tokens by every algorithm.
const PROGRAM: &str = r#"
import base64, hashlib, hmac, json, sys, time, jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives import serialization as s

def b64(b): return base64.urlsafe_b64encode(b).rstrip(b'=').decode()
def num(n, size=None): return b64(n.to_bytes(size or (n.bit_length() + 7) // 8, 'big'))

keys, jwks, tokens = {}, [], {}
for kid, bits in (('rsa2048', 2048), ('rsa3072', 3072), ('rsa1024', 1024)):
    keys[kid] = rsa.generate_private_key(65537, bits)
    n = keys[kid].public_key().public_numbers()
    jwks.append(dict(kty='RSA', kid=kid, use='sig', n=num(n.n), e=num(n.e)))
for kid, curve, size in (('p256', ec.SECP256R1(), 32), ('p384', ec.SECP384R1(), 48), ('p521', ec.SECP521R1(), 66)):
    keys[kid] = ec.generate_private_key(curve)
    n = keys[kid].public_key().public_numbers()
    jwks.append(dict(kty='EC', crv='P-' + kid[1:], kid=kid, x=num(n.x, size), y=num(n.y, size)))
keys['ed'] = ed25519.Ed25519PrivateKey.generate()
raw = keys['ed'].public_key().public_bytes(s.Encoding.Raw, s.PublicFormat.Raw)
jwks.append(dict(kty='OKP', crv='Ed25519', kid='ed', x=b64(raw)))

now = int(time.time())
claims = dict(iss='https://idp.example.com', sub='anna', aud=['x', 'ticks'], scope='a b', iat=now, nbf=now, exp=now + 600)
sign = lambda alg, kid, **more: jwt.encode({**claims, **more}, keys[kid], alg, headers=dict(kid=kid))
good = {f'{alg} {kid}': sign(alg, kid) for alg, kid in [
    ('RS256', 'rsa2048'), ('RS384', 'rsa2048'), ('RS512', 'rsa3072'), ('PS256', 'rsa2048'), ('PS384', 'rsa3072'),
    ('PS512', 'rsa2048'), ('ES256', 'p256'), ('ES384', 'p384'), ('EdDSA', 'ed')]}
bad = {
    'expired': sign('RS256', 'rsa2048', exp=now - 60),
    'not yet valid': sign('ES256', 'p256', nbf=now + 90),
    'wrong audience': sign('EdDSA', 'ed', aud='prices'),
    'unknown issuer': sign('EdDSA', 'ed', iss='https://evil.example.com'),
    'algorithm': jwt.encode(claims, None, 'none'),
    'unknown kid': sign('RS256', 'rsa1024'),
    'bad signature': jwt.encode(claims, rsa.generate_private_key(65537, 2048), 'RS256', headers=dict(kid='rsa2048')),
}
# The oldest trick: the public key as the secret of HS256, which PyJWT itself refuses to sign with.
pem = keys['rsa2048'].public_key().public_bytes(s.Encoding.PEM, s.PublicFormat.SubjectPublicKeyInfo)
head = b64(json.dumps(dict(alg='HS256', typ='JWT', kid='rsa2048')).encode()) + '.' + b64(json.dumps(claims).encode())
confused = head + '.' + b64(hmac.new(pem, head.encode(), hashlib.sha256).digest())
json.dump(dict(jwks=dict(keys=jwks), good=good, bad=bad, confused=confused), sys.stdout)
"#;

/// `None`, which is said, where Python has no such modules; unless `HEADWATER_SERVERS=required` asks for all that
/// tests can use.
fn made() -> Option<Value> {
    let found = Command::new(PYTHON)
        .args(["-c", "import jwt, cryptography"])
        .stderr(Stdio::null())
        .status();
    if !found.is_ok_and(|status| status.success()) {
        let is_required =
            std::env::var_os("HEADWATER_SERVERS").is_some_and(|value| value == "required");
        assert!(
            !is_required,
            "Python has no modules 'jwt' and 'cryptography'"
        );
        eprintln!("skipped: Python has no modules 'jwt' and 'cryptography'");
        return None;
    }
    let output = Command::new(PYTHON)
        .args(["-c", PROGRAM])
        .output()
        .expect("Python runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(serde_json::from_slice(&output.stdout).expect("it prints JSON"))
}

struct Nobody;

impl Directory for Nobody {
    fn api_key(&self, _: &str) -> Option<Arc<ApiKey>> {
        None
    }

    fn client(&self, _: &str) -> Option<Arc<Client>> {
        None
    }

    fn application_of(&self, _: &str) -> Option<String> {
        None
    }
}

// rules: J2
#[test]
fn what_pyjwt_signs_counts_and_what_is_forged_does_not() {
    let Some(made) = made() else { return };
    let dir = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(dir.path().join("jwks.json"), made["jwks"].to_string()).expect("written");
    let issuer = json!({
        "issuer": "https://idp.example.com", "jwks": "file:jwks.json", "audience": "ticks",
        "algorithms": ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"],
    });
    let issuer = Issuer::from_json(&issuer, dir.path()).expect("it is right");
    let verifier = Verifier::new(
        vec![issuer],
        &KeySources::default(),
        Arc::new(Nobody),
        Arc::default(),
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let now = SystemTime::now();
        let judge = async |token: &Value, now| {
            let token = token.as_str().expect("a text");
            let verified = verifier.verify(&Credentials::of_token(token), now).await;
            verified.map_err(|refusal| refusal.cause)
        };
        let good = made["good"].as_object().expect("an object");
        assert_eq!(good.len(), 9);
        for (name, token) in good {
            let principal = judge(token, now)
                .await
                .unwrap_or_else(|cause| panic!("{name}: {cause}"));
            assert_eq!(
                (&*principal.subject, &principal.scopes[..]),
                ("anna", &["a".to_owned(), "b".to_owned()][..])
            );
            let later = judge(token, now + Duration::from_secs(700)).await;
            assert_eq!(later.err(), Some(Cause::Expired), "{name}");
        }
        let bad = made["bad"].as_object().expect("an object");
        for (name, token) in bad {
            let cause = judge(token, now).await.err().map(Cause::name);
            assert_eq!(cause, Some(name.as_str()));
        }
        assert_eq!(
            judge(&made["confused"], now).await.err(),
            Some(Cause::Algorithm)
        );
    });
}
