//! Where keys come from: a stub of an issuer whose keys rotate, and which goes away.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// What the stub answers, by path, and how often it was asked.
#[derive(Default)]
struct Stub {
    answers: Mutex<HashMap<String, String>>,
    asked: Mutex<Vec<String>>,
    /// Closes each connection at once.
    is_down: std::sync::atomic::AtomicBool,
}

impl Stub {
    async fn start() -> (Arc<Stub>, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let stub = Arc::<Stub>::default();
        let serving = Arc::clone(&stub);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let stub = Arc::clone(&serving);
                tokio::spawn(async move { stub.serve(stream).await.ok() });
            }
        });
        (stub, address)
    }

    async fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        if self.is_down.load(std::sync::atomic::Ordering::Relaxed) {
            return Ok(());
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let body = self.answers.lock().expect("no panic").get(&path).cloned();
        self.asked.lock().expect("no panic").push(path);
        let status = if body.is_some() {
            "200 OK"
        } else {
            "404 Not Found"
        };
        let body = body.unwrap_or_default();
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        stream.write_all(answer.as_bytes()).await
    }

    fn answer(&self, path: &str, body: String) {
        self.answers
            .lock()
            .expect("no panic")
            .insert(path.to_owned(), body);
    }

    fn asked(&self) -> usize {
        self.asked.lock().expect("no panic").len()
    }

    fn set_down(&self, is_down: bool) {
        self.is_down
            .store(is_down, std::sync::atomic::Ordering::Relaxed);
    }

    /// Waits for requests that nobody waits for.
    async fn wait_for(&self, count: usize) {
        while self.asked() < count {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

fn issuer(jwks: Option<String>, iss: &str) -> Value {
    let mut issuer = json!({ "issuer": iss, "audience": "ticks", "algorithms": ["ES256"] });
    if let Some(jwks) = jwks {
        issuer["jwks"] = jwks.into();
    }
    issuer
}

// rules: J4
#[test]
fn keys_rotate_without_a_restart_and_strangers_cost_one_fetch() {
    block_on(async {
        let (stub, address) = Stub::start().await;
        let (first, second) = (Signer::new("k1"), Signer::new("k2"));
        stub.answer("/jwks", Signer::jwks(&[&first]));
        let url = format!("http://{address}/jwks");
        let api = Api::new(
            &[issuer(Some(url), "https://idp.example.com")],
            Path::new(""),
        );
        let token = |signer: &Signer, jti: String| signer.token(&claims(json!({"jti": jti})));
        // A storm at the first moment: one fetch.
        let storm = (0..50).map(|n| {
            let token = token(&first, format!("s{n}"));
            let api = &api;
            async move { api.cause(&token, NOW).await }
        });
        for cause in futures(storm).await {
            assert_eq!(cause, None);
        }
        assert_eq!(stub.asked(), 1);
        // Unknown keys within the pause are not asked for.
        let new = token(&second, "n1".to_owned());
        assert_eq!(api.cause(&new, NOW + 9).await, Some(Cause::UnknownKey));
        assert_eq!(stub.asked(), 1);
        stub.answer("/jwks", Signer::jwks(&[&first, &second]));
        let storm = (0..50).map(|n| {
            let token = token(&second, format!("r{n}"));
            let api = &api;
            async move { api.cause(&token, NOW + 10).await }
        });
        for cause in futures(storm).await {
            assert_eq!(cause, None, "the new key is found");
        }
        assert_eq!(stub.asked(), 2, "by one fetch");
        // Whoever names unknown keys all the time has the issuer asked once in ten seconds.
        let evil = Signer::new("evil");
        for second in 0..100 {
            let token = token(&evil, format!("e{second}"));
            assert_eq!(
                api.cause(&token, NOW + 20 + second).await,
                Some(Cause::UnknownKey)
            );
        }
        assert_eq!(stub.asked(), 2 + 10);
        // Its own tokens go on, and a key that was withdrawn is found out within the time that keys are fresh.
        stub.answer("/jwks", Signer::jwks(&[&second]));
        let old = token(&first, "o1".to_owned());
        assert_eq!(api.cause(&old, NOW + 120).await, None);
        let asked = stub.asked();
        assert_eq!(
            api.cause(&old, NOW + 420).await,
            None,
            "checked with the keys that there are"
        );
        stub.wait_for(asked + 1).await;
        while api.cause(&old, NOW + 421).await.is_none() {
            tokio::task::yield_now().await;
        }
        assert_eq!(api.cause(&old, NOW + 421).await, Some(Cause::UnknownKey));
    });
}

// rules: J6
#[test]
fn an_issuer_that_is_down_is_done_without_for_an_hour() {
    block_on(async {
        let (stub, address) = Stub::start().await;
        let signer = Signer::new("k1");
        stub.answer("/jwks", Signer::jwks(&[&signer]));
        let url = format!("http://{address}/jwks");
        let api = Api::new(
            &[issuer(Some(url), "https://idp.example.com")],
            Path::new(""),
        );
        let token = signer.token(&claims(json!({"exp": NOW + 90_000})));
        stub.set_down(true);
        assert_eq!(api.cause(&token, NOW).await, Some(Cause::KeysUnavailable));
        stub.set_down(false);
        assert_eq!(
            api.cause(&token, NOW + 9).await,
            Some(Cause::KeysUnavailable),
            "too soon"
        );
        assert_eq!(api.cause(&token, NOW + 10).await, None);
        stub.set_down(true);
        for (after, expect) in [
            (400, None),
            (3600, None),
            (3601, Some(Cause::KeysUnavailable)),
        ] {
            let new = signer.token(&claims(
                json!({"exp": NOW + 90_000, "jti": format!("{after}")}),
            ));
            assert_eq!(api.cause(&token, NOW + 10 + after).await, expect, "{after}");
            assert_eq!(api.cause(&new, NOW + 10 + after).await, expect, "{after}");
        }
        stub.set_down(false);
        assert_eq!(api.cause(&token, NOW + 4000).await, None, "it is back");
        // A set without keys is a mistake of the issuer's.
        stub.answer("/jwks", "{\"keys\":[]}".to_owned());
        let evil = Signer::new("k9").token(&claims(json!({})));
        assert_eq!(api.cause(&evil, NOW + 3000).await, Some(Cause::UnknownKey));
        assert_eq!(api.cause(&token, NOW + 4100).await, None);
    });
}

// rules: J5
#[test]
fn an_issuer_is_found_by_discovery_and_must_be_the_one_that_is_meant() {
    block_on(async {
        let (stub, address) = Stub::start().await;
        let iss = format!("http://{address}/realm");
        let signer = Signer::new("k1");
        let document =
            |iss: &str| json!({ "issuer": iss, "jwks_uri": format!("http://{address}/keys") });
        let path = "/realm/.well-known/openid-configuration";
        stub.answer("/keys", Signer::jwks(&[&signer]));
        stub.answer(path, document("http://evil.example.com").to_string());
        let api = Api::new(&[issuer(None, &iss)], Path::new(""));
        let token = signer.token(&claims(json!({"iss": iss})));
        assert_eq!(api.cause(&token, NOW).await, Some(Cause::KeysUnavailable));
        stub.answer(path, document(&iss).to_string());
        assert_eq!(api.cause(&token, NOW + 10).await, None);
        let asked = stub.asked.lock().expect("no panic").clone();
        assert_eq!(asked, [path, path, "/keys"]);
        // APIs of one server share the keys of an issuer.
        let issuer = Issuer::from_json(&issuer(None, &iss), Path::new("")).expect("right");
        let directory = Arc::clone(&api.applications) as Arc<dyn Directory>;
        let other = Verifier::new(vec![issuer], &api.sources, directory, Arc::default());
        let verified = other
            .verify(&Credentials::of_token(&token), at(NOW + 11))
            .await;
        verified.expect("valid");
        assert_eq!(stub.asked(), 3);
    });
}

#[test]
fn a_shared_secret_counts_only_where_it_is_configured() {
    let secret = "0123456789abcdef0123456789abcdef";
    let issuer = json!({
        "issuer": "https://idp.example.com", "secret": secret, "audience": "ticks", "algorithms": ["HS256"],
    });
    let api = Api::new(&[issuer], Path::new(""));
    let sign = |secret: &str, kid: &str| {
        let header = json!({"alg": "HS256", "kid": kid}).to_string();
        let signed = format!(
            "{}.{}",
            encode(header),
            encode(claims(json!({})).to_string())
        );
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
        format!(
            "{signed}.{}",
            encode(ring::hmac::sign(&key, signed.as_bytes()))
        )
    };
    block_on(async {
        assert_eq!(api.cause(&sign(secret, "any"), NOW).await, None);
        assert_eq!(
            api.cause(&sign("another", "any"), NOW).await,
            Some(Cause::Signature)
        );
        let signer = Signer::new("k1");
        assert_eq!(
            api.cause(&signer.token(&claims(json!({}))), NOW).await,
            Some(Cause::Algorithm)
        );
    });
}

/// Runs all at once on this thread.
async fn futures<T: 'static>(all: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut all: Vec<_> = all.map(|one| Some(Box::pin(one))).collect();
    let mut done: Vec<Option<T>> = all.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        let mut is_ready = true;
        for (one, done) in all.iter_mut().zip(&mut done) {
            let Some(work) = one else { continue };
            match work.as_mut().poll(context) {
                std::task::Poll::Ready(value) => {
                    *done = Some(value);
                    *one = None;
                }
                std::task::Poll::Pending => is_ready = false,
            }
        }
        match is_ready {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    done.into_iter()
        .map(|one| one.expect("all are done"))
        .collect()
}
