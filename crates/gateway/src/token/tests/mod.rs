//! Tokens as issuers make them, and as attackers do.

mod forged;
mod issuers;
mod vectors;

use std::collections::HashMap;
use std::future::Future;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};

use super::*;

/// When the tests happen.
const NOW: u64 = 1_800_000_000;

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(work)
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Signs by ES256.
struct Signer {
    pair: EcdsaKeyPair,
    id: String,
}

impl Signer {
    fn new(id: &str) -> Signer {
        let random = SystemRandom::new();
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
        let made = made.expect("random numbers");
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, made.as_ref(), &random);
        Signer {
            pair: pair.expect("just made"),
            id: id.to_owned(),
        }
    }

    fn jwk(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        json!({ "kty": "EC", "crv": "P-256", "kid": self.id, "x": encode(&point[1..33]), "y": encode(&point[33..]) })
    }

    fn jwks(signers: &[&Signer]) -> String {
        let keys: Vec<Value> = signers.iter().map(|one| one.jwk()).collect();
        json!({ "keys": keys }).to_string()
    }

    fn sign(&self, signed: &str) -> String {
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes());
        format!("{signed}.{}", encode(signature.expect("it signs")))
    }

    /// With a header and claims as they are.
    fn token_of(&self, header: &str, claims: &str) -> String {
        self.sign(&format!("{}.{}", encode(header), encode(claims)))
    }

    fn token(&self, claims: &Value) -> String {
        let header = json!({ "alg": "ES256", "typ": "JWT", "kid": self.id });
        self.token_of(&header.to_string(), &claims.to_string())
    }
}

/// Claims that are right, with these in their place or beside them. `null` takes one out.
fn claims(others: Value) -> Value {
    let mut claims = json!({
        "iss": "https://idp.example.com", "sub": "anna", "aud": "ticks", "azp": "shop",
        "scope": "ticks:read ticks:write", "iat": NOW - 60, "nbf": NOW - 60, "exp": NOW + 3600, "jti": "t1",
    });
    let all = claims.as_object_mut().expect("an object");
    for (name, value) in others.as_object().expect("an object") {
        match value {
            Value::Null => drop(all.shift_remove(name)),
            _ => drop(all.insert(name.clone(), value.clone())),
        }
    }
    claims
}

#[derive(Default)]
struct Applications {
    keys: Mutex<HashMap<String, Arc<ApiKey>>>,
    clients: Mutex<HashMap<String, Arc<Client>>>,
}

impl Directory for Applications {
    fn api_key(&self, id: &str) -> Option<Arc<ApiKey>> {
        self.keys.lock().expect("no panic").get(id).cloned()
    }

    fn client(&self, id: &str) -> Option<Arc<Client>> {
        self.clients.lock().expect("no panic").get(id).cloned()
    }

    fn application_of(&self, client: &str) -> Option<String> {
        (client == "shop").then(|| "Shop".to_owned())
    }
}

/// A verifier for issuers as a document has them, with its folder.
struct Api {
    verifier: Verifier,
    revocations: Arc<Revocations>,
    sources: Arc<KeySources>,
    applications: Arc<Applications>,
}

impl Api {
    fn new(issuers: &[Value], dir: &Path) -> Api {
        let read = |issuer| Issuer::from_json(issuer, dir).expect("it is right");
        Api::of(issuers.iter().map(read).collect())
    }

    fn of(issuers: Vec<Issuer>) -> Api {
        let (sources, revocations) = (
            Arc::new(KeySources::default()),
            Arc::<Revocations>::default(),
        );
        let applications = Arc::<Applications>::default();
        let directory = Arc::clone(&applications) as Arc<dyn Directory>;
        Api {
            verifier: Verifier::new(issuers, &sources, directory, Arc::clone(&revocations)),
            revocations,
            sources,
            applications,
        }
    }

    /// One issuer, whose keys are in a file.
    fn of_keys(jwks: &str, algorithms: &[&str]) -> (Api, tempfile::TempDir) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(dir.path().join("jwks.json"), jwks).expect("it can be written");
        let issuer = json!({
            "issuer": "https://idp.example.com", "jwks": "file:jwks.json", "audience": "ticks",
            "algorithms": algorithms,
        });
        (Api::new(&[issuer], dir.path()), dir)
    }

    async fn judge(&self, token: &str, now: u64) -> Result<Arc<Principal>, Cause> {
        let verified = self
            .verifier
            .verify(&Credentials::of_token(token), at(now))
            .await;
        verified.map_err(|refusal| refusal.cause)
    }

    async fn cause(&self, token: &str, now: u64) -> Option<Cause> {
        self.judge(token, now).await.err()
    }
}

#[test]
fn a_valid_token_says_who_it_is() {
    let signer = Signer::new("k1");
    let (api, _dir) = Api::of_keys(&Signer::jwks(&[&signer]), &["ES256"]);
    block_on(async {
        let principal = api
            .judge(&signer.token(&claims(json!({}))), NOW)
            .await
            .expect("valid");
        assert_eq!(principal.subject, "anna");
        assert_eq!(principal.application.as_deref(), Some("Shop"));
        assert_eq!(principal.scopes, ["ticks:read", "ticks:write"]);
        assert_eq!(principal.expires, Some(at(NOW + 3600)));
        assert_eq!(principal.claims["jti"], "t1");
        principal.require(&["ticks:read"]).expect("it has it");
        let refused = principal
            .require(&["ticks:read", "admin"])
            .expect_err("not both");
        assert_eq!(refused.status, 403);
        assert!(
            refused
                .authenticate
                .contains("error=\"insufficient_scope\"")
        );
        assert!(refused.authenticate.ends_with("scope=\"ticks:read admin\""));
        principal
            .require_any(&["admin", "ticks:write"])
            .expect("one of them");
        assert!(principal.require_any(&["admin"]).is_err());
    });
}

// rules: J3, J8
#[test]
fn times_audience_type_and_scopes_are_checked() {
    let signer = Signer::new("k1");
    let (api, _dir) = Api::of_keys(&Signer::jwks(&[&signer]), &["ES256"]);
    let cases = [
        // The leeway is 30 s.
        (json!({"exp": NOW - 29}), None),
        (json!({"exp": NOW - 30}), Some(Cause::Expired)),
        (json!({"exp": f64::from(1_800_000_000) - 29.5}), None),
        (json!({"exp": null}), Some(Cause::Claims)),
        (json!({"exp": "1800000060"}), Some(Cause::Claims)),
        (json!({"exp": -1}), Some(Cause::Claims)),
        (json!({"exp": 1e300}), Some(Cause::Claims)),
        (json!({"nbf": NOW + 30}), None),
        (json!({"nbf": NOW + 31}), Some(Cause::NotYetValid)),
        (json!({"iat": NOW + 31}), Some(Cause::NotYetValid)),
        (json!({"iat": null, "nbf": null}), None),
        (json!({"aud": ["x", "ticks"]}), None),
        (json!({"aud": ["x"]}), Some(Cause::Audience)),
        (json!({"aud": "ticks2"}), Some(Cause::Audience)),
        (json!({"aud": null}), Some(Cause::Audience)),
        (json!({"aud": {"ticks": 1}}), Some(Cause::Audience)),
        (
            json!({"iss": "https://idp.example.com/"}),
            Some(Cause::UnknownIssuer),
        ),
        (json!({"iss": null}), Some(Cause::UnknownIssuer)),
        (
            json!({"iss": ["https://idp.example.com"]}),
            Some(Cause::UnknownIssuer),
        ),
        (json!({"scope": 1}), Some(Cause::Claims)),
        (json!({"sub": 1}), Some(Cause::Claims)),
    ];
    block_on(async {
        for (others, expect) in cases {
            let token = signer.token(&claims(others.clone()));
            assert_eq!(api.cause(&token, NOW).await, expect, "{others}");
        }
        for (header, expect) in [
            (json!({"alg": "ES256", "kid": "k1"}), None),
            (json!({"alg": "ES256", "kid": "k1", "typ": "at+jwt"}), None),
            (
                json!({"alg": "ES256", "kid": "k1", "typ": "application/AT+JWT"}),
                None,
            ),
            (
                json!({"alg": "ES256", "kid": "k1", "typ": "logout+jwt"}),
                Some(Cause::Type),
            ),
            (
                json!({"alg": "ES256", "kid": "k1", "typ": ""}),
                Some(Cause::Type),
            ),
            // The set has one key, so it need not be named.
            (json!({"alg": "ES256"}), None),
        ] {
            let token = signer.token_of(&header.to_string(), &claims(json!({})).to_string());
            assert_eq!(api.cause(&token, NOW).await, expect, "{header}");
        }
        let scopes = json!({"scope": "a  b", "scp": ["c", "d"]});
        let principal = api
            .judge(&signer.token(&claims(scopes)), NOW)
            .await
            .expect("valid");
        assert_eq!(principal.scopes, ["a", "b", "c", "d"]);
    });
}

#[test]
fn a_token_that_was_checked_counts_until_it_expires() {
    let signer = Signer::new("k1");
    let (api, dir) = Api::of_keys(&Signer::jwks(&[&signer]), &["ES256"]);
    block_on(async {
        let token = signer.token(&claims(json!({"exp": NOW + 100})));
        let first = api.judge(&token, NOW).await.expect("valid");
        let again = api.judge(&token, NOW + 99).await.expect("valid");
        assert!(Arc::ptr_eq(&first, &again), "from the cache");
        // Only the leeway lets it in now, and for no longer than that.
        let late = api
            .judge(&token, NOW + 100)
            .await
            .expect("within the leeway");
        assert_eq!(late.expires, Some(at(NOW + 130)));
        assert_eq!(api.cause(&token, NOW + 130).await, Some(Cause::Expired));
        // A key that its issuer has withdrawn counts no more, also for tokens that were checked.
        let token = signer.token(&claims(json!({"exp": NOW + 9000})));
        api.judge(&token, NOW).await.expect("valid");
        let other = Signer::new("k2");
        std::fs::write(dir.path().join("jwks.json"), Signer::jwks(&[&other])).expect("written");
        let renewed = signer.token(&claims(json!({"jti": "t2"})));
        let named_k2 = other.token(&claims(json!({})));
        api.judge(&named_k2, NOW + 20)
            .await
            .expect("fetched for an unknown key");
        assert_eq!(api.cause(&token, NOW + 21).await, Some(Cause::UnknownKey));
        assert_eq!(api.cause(&renewed, NOW + 21).await, Some(Cause::UnknownKey));
    });
}

// rules: J11
#[test]
fn what_is_revoked_counts_no_more_and_its_streams_end() {
    let signer = Signer::new("k1");
    let (api, _dir) = Api::of_keys(&Signer::jwks(&[&signer]), &["ES256"]);
    let far = json!({"exp": 250_000_000_000_u64});
    let revoke = |subject| {
        api.revocations.add(Revocation {
            subject,
            at: i64::try_from(NOW).expect("small"),
            until: None,
        });
    };
    block_on(async {
        let token = signer.token(&claims(far));
        let principal = api.judge(&token, NOW).await.expect("valid");
        let ended = api.verifier.ended(&principal);
        let both = async {
            // The stream waits before the revocation comes.
            tokio::task::yield_now().await;
            revoke(Subject::Token("another".to_owned()));
            tokio::task::yield_now().await;
            revoke(Subject::Token("t1".to_owned()));
        };
        let (ended, ()) = tokio::join!(ended, both);
        assert_eq!(ended, Ended::Revoked);
        assert_eq!(api.cause(&token, NOW).await, Some(Cause::Revoked));
        // By user and by client: what was issued later counts again.
        for (subject, jti) in [
            (Subject::User("anna".to_owned()), "t2"),
            (Subject::Client("shop".to_owned()), "t3"),
            (Subject::Client("Shop".to_owned()), "t4"),
        ] {
            api.revocations.set([]);
            let old = signer.token(&claims(json!({"jti": jti})));
            api.judge(&old, NOW).await.expect("valid");
            revoke(subject);
            assert_eq!(api.cause(&old, NOW).await, Some(Cause::Revoked));
            let new = signer.token(&claims(json!({"jti": jti, "iat": NOW + 1})));
            api.judge(&new, NOW).await.expect("issued later");
            let unknown = signer.token(&claims(json!({"jti": jti, "iat": null})));
            assert_eq!(
                api.cause(&unknown, NOW).await,
                Some(Cause::Revoked),
                "it may be older"
            );
        }
    });
}

// rules: J10
#[test]
fn a_stream_ends_when_its_token_expires() {
    let signer = Signer::new("k1");
    let (api, _dir) = Api::of_keys(&Signer::jwks(&[&signer]), &["ES256"]);
    block_on(async {
        let now = SystemTime::now();
        let expires = now + Duration::from_millis(300);
        let since = expires
            .duration_since(UNIX_EPOCH)
            .expect("after 1970")
            .as_secs_f64();
        let token = signer.token(&claims(json!({"exp": since, "iat": null, "nbf": null})));
        let verified = api
            .verifier
            .verify(&Credentials::of_token(&token), now)
            .await;
        let principal = verified.expect("valid");
        assert_eq!(api.verifier.ended(&principal).await, Ended::Expired);
        let late = SystemTime::now()
            .duration_since(expires)
            .expect("not before");
        assert!(late < Duration::from_secs(1), "{late:?}");
    });
}

// rules: J12
#[test]
fn api_keys_are_checked_and_revoked() {
    let api = Api::of(Vec::new());
    let secret = NewSecret::api_key().expect("random numbers");
    let key = ApiKey {
        id: secret.id.clone(),
        application: "Shop".to_owned(),
        digest: digest_of(&secret.text),
        scopes: vec!["a".to_owned()],
        created: i64::try_from(NOW).expect("small"),
        expires: None,
        addresses: Vec::new(),
        referrers: Vec::new(),
    };
    api.applications
        .keys
        .lock()
        .expect("no panic")
        .insert(key.id.clone(), Arc::new(key));
    block_on(async {
        let principal = api.judge(&secret.text, NOW).await.expect("valid");
        assert_eq!(
            (&*principal.subject, principal.application.as_deref()),
            ("Shop", Some("Shop"))
        );
        principal.require(&["a"]).expect("a scope of the key");
        for wrong in [
            "hwk_",
            "hwk_x_y",
            &format!("hwk_{}_{}", secret.id, "x".repeat(43)),
            &secret.text[..50],
        ] {
            assert_eq!(
                api.cause(wrong, NOW).await,
                Some(Cause::UnknownApiKey),
                "{wrong}"
            );
        }
        api.revocations.add(Revocation {
            subject: Subject::ApiKey(secret.id.clone()),
            at: 0,
            until: None,
        });
        assert_eq!(api.cause(&secret.text, NOW).await, Some(Cause::Revoked));
        let nothing = api.verifier.verify(&Credentials::default(), at(NOW)).await;
        let refused = nothing.expect_err("nothing was shown");
        assert_eq!(
            (refused.status.as_u16(), refused.cause),
            (401, Cause::Missing)
        );
        assert_eq!(refused.authenticate, "Bearer realm=\"headwater\"");
        assert!(refused.body().contains("900902"));
    });
}

#[test]
fn our_own_issuer_gives_tokens_that_count() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("gateway-issuer");
    let issuer = "http://127.0.0.1:8280";
    let api = Api::of(vec![Issuer::own(issuer)]);
    let mint = Mint::open(Some(&path), issuer, &api.sources, at(NOW)).expect("made");
    let secret = NewSecret::client().expect("random numbers");
    let client = Client {
        id: secret.id.clone(),
        application: "Shop".to_owned(),
        digest: digest_of(&secret.text),
        scopes: vec!["a".to_owned(), "b".to_owned()],
    };
    let clients = &api.applications.clients;
    clients
        .lock()
        .expect("no panic")
        .insert(client.id.clone(), Arc::new(client));
    let basic = |id: &str, secret: &str| {
        let pair = base64::engine::general_purpose::STANDARD.encode(format!("{id}:{secret}"));
        format!("Basic {pair}")
    };
    let ask = |authorization: Option<&str>, form: &str| {
        let answer = mint.grant(&*api.applications, authorization, form.as_bytes(), at(NOW));
        let body: Value = serde_json::from_str(&answer.body).expect("JSON");
        (answer.status.as_u16(), body)
    };
    let login = basic(&secret.id, &secret.text);
    let (status, body) = ask(Some(&login), "grant_type=client_credentials&scope=a");
    assert_eq!(status, 200, "{body}");
    assert_eq!(
        (&body["token_type"], &body["scope"]),
        (&json!("Bearer"), &json!("a"))
    );
    let token = body["access_token"].as_str().expect("a text").to_owned();
    let in_form = format!(
        "grant_type=client_credentials&client_id={}&client_secret={}",
        secret.id, secret.text
    );
    let (status, body) = ask(None, &in_form);
    assert_eq!((status, &body["scope"]), (200, &json!("a b")));
    for (login, form, status, error) in [
        (
            Some(&*login),
            "grant_type=password",
            400,
            "unsupported_grant_type",
        ),
        (Some(&*login), "", 400, "invalid_request"),
        (
            Some(&*login),
            "grant_type=client_credentials&scope=c",
            400,
            "invalid_scope",
        ),
        (
            Some(&*login),
            "grant_type=client_credentials&grant_type=client_credentials",
            400,
            "invalid_request",
        ),
        (Some(&*login), &*in_form, 400, "invalid_request"),
        (
            Some(&*basic(&secret.id, "wrong")),
            "grant_type=client_credentials",
            401,
            "invalid_client",
        ),
        (
            Some(&*basic("wrong", &secret.text)),
            "grant_type=client_credentials",
            401,
            "invalid_client",
        ),
        (
            Some("Bearer x"),
            "grant_type=client_credentials",
            401,
            "invalid_client",
        ),
        (None, "grant_type=client_credentials", 401, "invalid_client"),
    ] {
        let (got, body) = ask(login, form);
        assert_eq!(
            (got, body["error"].as_str()),
            (status, Some(error)),
            "{form}"
        );
    }
    block_on(async {
        let principal = api.judge(&token, NOW).await.expect("valid");
        assert_eq!(
            (&*principal.subject, &principal.scopes[..]),
            (&*secret.id, &["a".to_owned()][..])
        );
        // A new key signs, and what the old one has signed still counts, also when the file is read again.
        mint.rotate(at(NOW)).expect("saved");
        api.judge(&token, NOW).await.expect("valid");
        let again = Api::of(vec![Issuer::own(issuer)]);
        let reopened = Mint::open(Some(&path), issuer, &again.sources, at(NOW)).expect("read");
        assert_eq!(reopened.jwks(), mint.jwks());
        again.judge(&token, NOW).await.expect("valid");
        let (newer, id) = reopened
            .token("x", &[], Duration::from_secs(60), at(NOW))
            .expect("signed");
        let principal = api.judge(&newer, NOW).await.expect("valid");
        assert_eq!(principal.id(), Some(&*id));
        assert_eq!(api.cause(&newer, NOW + 90).await, Some(Cause::Expired));
    });
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(&path)
            .expect("it is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    std::fs::write(&path, "{\"keys\":[]}").expect("written");
    let damaged = Mint::open(Some(&path), issuer, &api.sources, at(NOW));
    assert!(matches!(damaged, Err(MintError::Damaged { .. })));
}

#[test]
fn fuzzing_starts_from_inputs_that_hold() {
    let signer = Signer::new("k1");
    let token = signer.token(&claims(json!({})));
    for input in [
        &*token,
        &Signer::jwks(&[&signer]),
        "bearer, t.t.t",
        "a=b; access_token=t",
        "\u{1}",
        "",
    ] {
        read_untrusted(input.as_bytes());
    }
    read_untrusted(&[0xff, 0x00]);
}
