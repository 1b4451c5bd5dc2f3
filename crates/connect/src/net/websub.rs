//! What every WebSub hub has in common (<https://www.w3.org/TR/websub/>): requests to subscribe, the question whether
//! they are meant, signatures and links.
//!
//! Promises: a request is read by the letter of the recommendation, and what is wrong with it is named. Never: a
//! secret in a message.

use std::io;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::{HOST, HeaderMap, HeaderValue, USER_AGENT};
use hyper::{Method, StatusCode};
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::sync::watch;

use crate::net::http_client::headers::{form, hex};
use crate::net::http_client::{Answer, Client, EgressDenied, OutgoingRequest};
use crate::url::{Url, decode};

/// The lease of who asks for none, in seconds: ten days.
pub const LEASE: i64 = 10 * 24 * 60 * 60;

/// The longest lease, so that its end is a time.
pub const LEASE_MAX: i64 = 2_147_483_647;

/// Pauses before a callback is asked, or sent a payload, once more.
pub const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(4)];

/// Longest answer of a callback to the question that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 4096;

/// Longest secret in bytes (WebSub 5.1).
const SECRET_MAX: usize = 199;

/// What a request asks for.
#[derive(Clone, PartialEq, Eq)]
pub struct Intent {
    pub callback: String,
    pub topic: String,
    pub mode: Mode,
    /// Seconds.
    pub lease: i64,
    /// Empty: none.
    pub secret: String,
    /// What else the form has: names without `hub.`.
    pub others: Vec<(String, String)>,
}

impl std::fmt::Debug for Intent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Intent")
            .field("callback", &self.callback)
            .field("topic", &self.topic)
            .field("mode", &self.mode)
            .field("lease", &self.lease)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    Subscribe,
    Unsubscribe,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Mode::Subscribe => "subscribe",
            Mode::Unsubscribe => "unsubscribe",
        }
    }
}

/// The parameters of a form, decoded.
pub fn parameters(form: &str) -> Vec<(String, String)> {
    let pairs = form.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(key), decode(value))
    });
    pairs.collect()
}

impl Intent {
    /// What the form of a request asks for.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn read(form: &str, is_topic: impl Fn(&str) -> bool) -> Result<Intent, String> {
        const OWN: [&str; 5] = ["callback", "topic", "mode", "lease_seconds", "secret"];
        let mut pairs = parameters(form);
        let mut take = |name: &str| {
            let found = pairs.iter().position(|(key, _)| key == name);
            found
                .map(|at| pairs.swap_remove(at).1)
                .filter(|value| !value.is_empty())
        };
        let missing = |name: &str| format!("'{name}' is missing");
        let callback = take("hub.callback").ok_or_else(|| missing("hub.callback"))?;
        let mode = take("hub.mode").ok_or_else(|| missing("hub.mode"))?;
        let topic = take("hub.topic").ok_or_else(|| missing("hub.topic"))?;
        let (lease, secret) = (take("hub.lease_seconds"), take("hub.secret"));
        if Url::parse(&callback).is_none() {
            return Err("'hub.callback' is not an http or https URL".to_owned());
        }
        let mode = match mode.as_str() {
            "subscribe" => Mode::Subscribe,
            "unsubscribe" => Mode::Unsubscribe,
            _ => return Err("'hub.mode' is neither 'subscribe' nor 'unsubscribe'".to_owned()),
        };
        if !is_topic(&topic) {
            return Err("'hub.topic' is not a topic of this hub".to_owned());
        }
        let lease = match lease {
            None => LEASE,
            Some(text) => {
                let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
                // So many digits that they are no number are a long lease as well.
                let seconds = text.parse().unwrap_or(LEASE_MAX).min(LEASE_MAX);
                if !is_number || seconds == 0 {
                    return Err("'hub.lease_seconds' is not a number above 0".to_owned());
                }
                seconds
            }
        };
        let secret = secret.unwrap_or_default();
        if secret.len() > SECRET_MAX {
            return Err("'hub.secret' has 200 bytes or more".to_owned());
        }
        let bare = |key: String| match key.strip_prefix("hub.") {
            Some(bare) => bare.to_owned(),
            None => key,
        };
        Ok(Intent {
            callback,
            topic,
            mode,
            lease,
            secret,
            others: pairs
                .into_iter()
                .map(|(key, value)| (bare(key), value))
                .filter(|(key, _)| !OWN.contains(&key.as_str()))
                .collect(),
        })
    }

    /// The callback with the parameters of the question behind those of its own (WebSub 5.3).
    pub fn question(&self, challenge: &str) -> Option<Url> {
        let lease = self.lease.to_string();
        let mut pairs = vec![
            ("hub.mode", self.mode.name()),
            ("hub.topic", self.topic.as_str()),
            ("hub.challenge", challenge),
        ];
        if self.mode == Mode::Subscribe {
            pairs.push(("hub.lease_seconds", lease.as_str()));
        }
        with_parameters(&self.callback, &pairs)
    }
}

/// A callback with parameters behind those of its own.
pub fn with_parameters(callback: &str, pairs: &[(&str, &str)]) -> Option<Url> {
    let mut url = Url::parse(callback)?;
    url.query.push(match url.query.is_empty() {
        true => '?',
        false => '&',
    });
    url.query.push_str(&form(pairs.iter().copied()));
    Some(url)
}

/// 128 random bits as hexadecimal digits; `None` where the system gives none.
pub fn challenge() -> Option<String> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(hex(&bytes))
}

/// Asks the callback of a request whether it is meant (WebSub 5.3). Only a callback that cannot be reached is asked
/// again, and none once `leaving` says so: a question that is under way is waited for, because who has answered it
/// holds it for done.
///
/// # Errors
/// Why the request does not count, in words.
pub async fn confirmed(
    client: &Client,
    intent: &Intent,
    leaving: &mut watch::Receiver<bool>,
) -> Result<(), String> {
    let challenge = challenge().ok_or("the system provides no random numbers")?;
    let url = intent.question(&challenge).ok_or("it is not a URL")?;
    let mut pauses = PAUSES.iter();
    loop {
        let cause = match question(client, &url).await {
            Ok((status, body)) if status.is_success() && body == challenge.as_bytes() => {
                return Ok(());
            }
            Ok((status, _)) if status.is_success() => {
                return Err("it does not repeat the challenge".to_owned());
            }
            Ok((status, _)) => return Err(format!("it answers {status}")),
            Err(error) if EgressDenied::is_cause(&error) => return Err(error.to_string()),
            Err(error) => error.to_string(),
        };
        let Some(pause) = pauses.next() else {
            return Err(cause);
        };
        tokio::select! {
            () = tokio::time::sleep(*pause) => {}
            // Whoever would say it is gone: the same.
            _ = leaving.wait_for(|is_leaving| *is_leaving) => {
                return Err(format!("{cause}; the hub stops before it is asked again"));
            }
        }
    }
}

async fn question(client: &Client, url: &Url) -> io::Result<(StatusCode, Bytes)> {
    let answer = send(client, &Method::GET, url, &mut HeaderMap::new(), &[]).await?;
    let status = answer.response.status();
    let body = client.read_body(answer, ANSWER_BYTES_MAX).await?;
    Ok((status, body))
}

/// Sends a request of a hub, to whose headers those are added that every one has.
///
/// # Errors
/// The callback cannot be reached, may not be called, or answers with no HTTP.
pub async fn send(
    client: &Client,
    method: &Method,
    url: &Url,
    headers: &mut HeaderMap,
    body: &[u8],
) -> io::Result<Answer> {
    let host = HeaderValue::from_str(&url.host_header()).map_err(io::Error::other)?;
    headers.insert(HOST, host);
    headers.insert(USER_AGENT, HeaderValue::from_static("headwater"));
    let request = OutgoingRequest {
        method,
        target: &client.request_target(url)?,
        headers,
        extra: None,
        body,
        has_length: *method != Method::GET,
    };
    client.send(url, &request).await
}

/// What payloads are signed with (WebSub 7.1).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Digest {
    Sha1,
    #[default]
    Sha256,
    Sha384,
    Sha512,
}

impl Digest {
    /// As they stand in front of a signature.
    pub const NAMES: [&'static str; 4] = ["sha1", "sha256", "sha384", "sha512"];

    /// In whatever case.
    pub fn parse(name: &str) -> Option<Digest> {
        Some(match name.to_ascii_lowercase().as_str() {
            "sha1" => Digest::Sha1,
            "sha256" => Digest::Sha256,
            "sha384" => Digest::Sha384,
            "sha512" => Digest::Sha512,
            _ => return None,
        })
    }

    pub fn name(self) -> &'static str {
        Digest::NAMES[self as usize]
    }

    /// The key of a subscriber's secret.
    pub fn key(self, secret: &[u8]) -> hmac::Key {
        let algorithm = match self {
            Digest::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            Digest::Sha256 => hmac::HMAC_SHA256,
            Digest::Sha384 => hmac::HMAC_SHA384,
            Digest::Sha512 => hmac::HMAC_SHA512,
        };
        hmac::Key::new(algorithm, secret)
    }

    /// The value of `X-Hub-Signature`: `sha256=…`.
    pub fn signature(self, key: &hmac::Key, body: &[u8]) -> Option<HeaderValue> {
        let text = format!("{}={}", self.name(), hex(hmac::sign(key, body).as_ref()));
        HeaderValue::from_str(&text).ok()
    }
}

/// `Link`, by which a subscriber knows the hub, where its address is known, and the topic (WebSub 7).
pub fn links(hub: Option<&str>, topic: &str) -> Option<HeaderValue> {
    let hub = hub.map(|hub| format!("<{hub}>; rel=\"hub\""));
    let own = format!("<{topic}>; rel=\"self\"");
    let links: Vec<String> = hub.into_iter().chain([own]).collect();
    HeaderValue::from_str(&links.join(", ")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: &str = "hub.callback=http%3A%2F%2Fh%2Fc%3Fx%3D1&hub.mode=subscribe&hub.topic=a";

    fn read(form: &str) -> Result<Intent, String> {
        Intent::read(form, |topic| topic == "a")
    }

    #[test]
    fn a_form_is_read_decoded_and_completed() {
        let more = "&hub.lease_seconds=60&hub.secret=s%26t&hub.colour=red&own=1";
        let intent = read(&format!("{ASKED}{more}")).unwrap();
        assert_eq!(intent.callback, "http://h/c?x=1");
        assert_eq!((intent.lease, intent.secret.as_str()), (60, "s&t"));
        assert!(!format!("{intent:?}").contains("s&t"));
        let mut others = intent.others;
        others.sort();
        let pair = |k: &str, v: &str| (k.to_owned(), v.to_owned());
        assert_eq!(others, [pair("colour", "red"), pair("own", "1")]);
        let intent = read(ASKED).unwrap();
        assert_eq!((intent.lease, intent.secret.as_str()), (LEASE, ""));
        let long = read(&format!("{ASKED}&hub.lease_seconds=99999999999999999999"));
        assert_eq!(long.unwrap().lease, LEASE_MAX);
    }

    // rules: W2, W4
    #[test]
    fn what_cannot_be_is_refused_by_name() {
        for (form, cause) in [
            ("", "'hub.callback' is missing"),
            (
                "hub.callback=http://h/&hub.topic=a",
                "'hub.mode' is missing",
            ),
            (
                "hub.callback=http://h/&hub.mode=subscribe",
                "'hub.topic' is missing",
            ),
            (
                "hub.callback=ftp://h/&hub.mode=subscribe&hub.topic=a",
                "not an http",
            ),
            ("hub.callback=http://h/&hub.mode=x&hub.topic=a", "neither"),
            (
                "hub.callback=http://h/&hub.mode=subscribe&hub.topic=b",
                "not a topic of this hub",
            ),
        ] {
            let why = read(form).unwrap_err();
            assert!(why.contains(cause), "{form}: {why}");
        }
        for lease in ["0", "-1", "1.5", "soon"] {
            let why = read(&format!("{ASKED}&hub.lease_seconds={lease}"));
            assert!(why.unwrap_err().contains("lease_seconds"), "{lease}");
        }
        let secret = "s".repeat(200);
        let why = read(&format!("{ASKED}&hub.secret={secret}"));
        assert!(why.unwrap_err().contains("hub.secret"));
        read(&format!("{ASKED}&hub.secret={}", &secret[1..])).unwrap();
    }

    // rules: W6, W7
    #[test]
    fn a_question_keeps_the_query_of_the_callback() {
        let intent = read(&format!("{ASKED}&hub.lease_seconds=7")).unwrap();
        let url = intent.question("abc").unwrap();
        let expect = "/c?x=1&hub.mode=subscribe&hub.topic=a&hub.challenge=abc&hub.lease_seconds=7";
        assert_eq!(url.target(), expect);
        let end = ASKED
            .replace("subscribe", "unsubscribe")
            .replace("%3Fx%3D1", "");
        let url = read(&end).unwrap().question("abc").unwrap();
        assert_eq!(
            url.target(),
            "/c?hub.mode=unsubscribe&hub.topic=a&hub.challenge=abc"
        );
        assert_ne!(challenge(), challenge());
        assert_eq!(challenge().unwrap().len(), 32);
    }

    /// RFC 2202 (sha1) and RFC 4231 (the others), second test case.
    // rules: W16
    #[test]
    fn payloads_are_signed_by_four_digests() {
        for (name, begin) in [
            ("sha1", "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
            (
                "SHA256",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                "sha384",
                "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e8e2240ca5e69e2c7",
            ),
            (
                "sha512",
                "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea2505549758bf75c05a994a",
            ),
        ] {
            let digest = Digest::parse(name).unwrap();
            let value = digest
                .signature(&digest.key(b"Jefe"), b"what do ya want for nothing?")
                .unwrap();
            let expect = format!("{}={begin}", digest.name());
            assert!(value.to_str().unwrap().starts_with(&expect), "{value:?}");
        }
        assert_eq!(Digest::parse("md5"), None);
        assert_eq!(
            links(Some("http://h/hub"), "http://h/t").unwrap(),
            "<http://h/hub>; rel=\"hub\", <http://h/t>; rel=\"self\""
        );
        assert_eq!(links(None, "t").unwrap(), "<t>; rel=\"self\"");
    }
}
