//! Topics that follow a topic of another hub (WebSub, the subscriber's side): what that publishes is published here.
//!
//! ```yaml
//! topics:
//!   /news: { follow: { topic: 'https://blog.example/feed', callback: 'https://gateway.example' } }
//! ```
//!
//! Promises: only a hub that was asked can confirm, and only what is signed with the secret that it was given is taken;
//! a subscription is renewed before its lease ends, and asked for again with growing pauses where a hub is away. Never:
//! a redirect followed; an address called within networks that the document does not name.

mod discover;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use connect::net::ClientTls;
use connect::net::http_client::headers::form;
use connect::net::http_client::{Client, ClientOptions, EgressPolicy};
use connect::net::websub::{Digest, LEASE, LEASE_MAX, Mode, challenge, send};
use connect::retry::jittered;
use connect::url::Url;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, StatusCode};
use ring::hmac;
use serde_json::{Map, Value as Json};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use crate::document::duration;

const MEMBERS: [&str; 4] = ["callback", "lease", "networks", "topic"];

/// Longest content that discovery looks at, and longest answer of a hub, in bytes.
const CONTENT_BYTES_MAX: usize = 1 << 20;
const ANSWER_BYTES_MAX: usize = 4096;

/// Longest wait for a connection, for an answer, and for a hub that has said yes to ask whether it was meant.
const CONNECT_MAX: Duration = Duration::from_secs(5);
const ANSWER_MAX: Duration = Duration::from_secs(15);
const CONFIRMED_MAX: Duration = Duration::from_secs(60);

/// Pauses before a hub is asked again.
const PAUSE_MIN: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// The shortest lease that can be asked for.
const LEASE_MIN: Duration = Duration::from_secs(5);

/// What a topic follows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Follow {
    /// Its URL as it is written, which is how hubs compare it.
    pub topic: String,
    /// Where this gateway is to the hub: scheme, host and port, without a slash at the end.
    pub callback: String,
    /// Seconds.
    pub lease: i64,
    /// Private networks in which topic and hub may be.
    pub networks: EgressPolicy,
}

impl Follow {
    /// # Errors
    /// The first fault, in words.
    pub(crate) fn from_json(value: &Json) -> Result<Follow, String> {
        let members = value
            .as_object()
            .ok_or("'follow' is not a map such as { topic: 'https://…', callback: 'https://…' }")?;
        let mut names = members.keys();
        if let Some(other) = names.find(|name| !MEMBERS.contains(&name.as_str())) {
            return Err(format!(
                "'follow' has no key '{other}'; there is {}",
                MEMBERS.join(", ")
            ));
        }
        let url = |name: &str| {
            let text = members.get(name).and_then(Json::as_str);
            let text = text.ok_or_else(|| format!("'follow' has no '{name}'"))?;
            let url = Url::parse(text);
            let url =
                url.ok_or_else(|| format!("'{name}' is '{text}', which is no http or https URL"))?;
            Ok::<_, String>((text.to_owned(), url))
        };
        let ((topic, _), (callback, base)) = (url("topic")?, url("callback")?);
        let callback = callback.trim_end_matches('/').to_owned();
        if base.path != "/" || !base.query.is_empty() {
            return Err("'callback' is the scheme, host and port of this gateway: the path is that of the topic".to_owned());
        }
        let lease = match members.get("lease") {
            None => LEASE,
            Some(said) => {
                let time = said
                    .as_str()
                    .and_then(duration)
                    .filter(|time| *time >= LEASE_MIN);
                let time = time.ok_or("'lease' is not a time such as 10d, of 5s at least")?;
                i64::try_from(time.as_secs())
                    .unwrap_or(LEASE_MAX)
                    .min(LEASE_MAX)
            }
        };
        let networks = match members.get("networks") {
            None => EgressPolicy::default(),
            Some(said) => {
                let texts = said.as_array().map(|all| all.iter().map(Json::as_str));
                let texts: Option<Vec<&str>> = texts.and_then(Iterator::collect);
                let texts = texts.ok_or("'networks' is not a list such as [ '10.0.0.0/8' ]")?;
                EgressPolicy::parse(&texts.join(","))
                    .map_err(|bad| format!("'{bad}' is not a network"))?
            }
        };
        Ok(Follow {
            topic,
            callback,
            lease,
            networks,
        })
    }

    /// As [`Follow::from_json`] reads it.
    pub(crate) fn to_json(&self) -> Json {
        let mut members = Map::new();
        members.insert("topic".to_owned(), self.topic.as_str().into());
        members.insert("callback".to_owned(), self.callback.as_str().into());
        if self.lease != LEASE {
            members.insert("lease".to_owned(), format!("{}s", self.lease).into());
        }
        let networks = self.networks.networks();
        if !networks.is_empty() {
            members.insert("networks".to_owned(), networks.into());
        }
        members.into()
    }
}

/// A topic that follows another one, until [`Following::stop`].
pub(crate) struct Following {
    pub follow: Follow,
    /// Where the hub sends to.
    callback: String,
    /// For messages.
    name: String,
    state: Mutex<State>,
    told: Notify,
}

#[derive(Default)]
struct State {
    /// The name under which the topic was asked for; `None`: nothing was.
    topic: Option<String>,
    /// A hub has said yes, and is to ask.
    is_asked: bool,
    /// What the hub was asked to sign with.
    secret: String,
    /// What it has agreed to sign with, and what it signed with before that.
    agreed: [String; 2],
    /// Until when the hub sends.
    until: Option<Instant>,
    is_stopped: bool,
}

impl Following {
    /// `path`: that of the topic.
    pub fn new(follow: Follow, path: &str, name: &str) -> Arc<Following> {
        Arc::new(Following {
            callback: format!("{}{path}", follow.callback),
            follow,
            name: name.to_owned(),
            state: Mutex::default(),
            told: Notify::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn stop(&self) {
        self.lock().is_stopped = true;
        self.told.notify_one();
    }

    fn is_stopped(&self) -> bool {
        self.lock().is_stopped
    }

    /// Subscribes, and renews that for as long as it follows.
    pub async fn run(self: Arc<Following>) {
        let client = match self.client() {
            Ok(client) => client,
            Err(cause) => {
                tracing::error!(
                    topic = self.name,
                    cause,
                    "cannot follow a topic of another hub"
                );
                return;
            }
        };
        let mut pause = PAUSE_MIN;
        while !self.is_stopped() {
            let waits = match self.subscribed(&client).await {
                Ok(lease) => {
                    pause = PAUSE_MIN;
                    // Time enough for some more tries before it ends.
                    lease * 3 / 4
                }
                Err(cause) if self.is_stopped() => {
                    tracing::debug!(topic = self.name, cause, "no longer follows");
                    return;
                }
                Err(cause) => {
                    let (topic, follows) = (self.name.as_str(), &self.follow.topic);
                    tracing::warn!(
                        topic,
                        follows,
                        cause,
                        pause_s = pause.as_secs(),
                        "cannot subscribe to the topic that is followed; it is tried again"
                    );
                    let waits = jittered(pause);
                    pause = (pause * 2).min(PAUSE_MAX);
                    waits
                }
            };
            let until = Instant::now() + waits;
            while Instant::now() < until && !self.is_stopped() {
                tokio::select! {
                    () = sleep(until.saturating_duration_since(Instant::now())) => {}
                    () = self.told.notified() => {}
                }
            }
        }
    }

    fn client(&self) -> Result<Client, String> {
        Ok(Client::new(ClientOptions {
            connect_timeout: Some(CONNECT_MAX),
            idle_timeout: Some(ANSWER_MAX),
            tls: Some(ClientTls::of_trust(None)?),
            egress_policy: Some(self.follow.networks.clone()),
            ..ClientOptions::default()
        }))
    }

    /// Finds the hub, asks it, and waits until it has asked back; the lease that it gives.
    async fn subscribed(&self, client: &Client) -> Result<Duration, String> {
        let found = discovered(client, &self.follow.topic).await?;
        let topic = found.own.unwrap_or_else(|| self.follow.topic.clone());
        let mut cause = "the topic names no hub: it has neither a header 'Link' nor an element 'link' with rel=hub".to_owned();
        for hub in &found.hubs {
            match self.asked(client, hub, &topic).await {
                Ok(lease) => return Ok(lease),
                Err(said) => cause = format!("hub '{hub}': {said}"),
            }
        }
        Err(cause)
    }

    async fn asked(&self, client: &Client, hub: &str, topic: &str) -> Result<Duration, String> {
        let url = Url::parse(hub).ok_or("it is no http or https URL")?;
        let secret = challenge().ok_or("the system provides no random numbers")?;
        {
            let mut state = self.lock();
            state.topic = Some(topic.to_owned());
            (state.secret, state.is_asked) = (secret.clone(), true);
        }
        let lease = self.follow.lease.to_string();
        let body = form([
            ("hub.callback", self.callback.as_str()),
            ("hub.mode", Mode::Subscribe.name()),
            ("hub.topic", topic),
            ("hub.lease_seconds", lease.as_str()),
            ("hub.secret", secret.as_str()),
        ]);
        let mut headers = HeaderMap::new();
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(CONTENT_TYPE, kind);
        let before = self.lock().until;
        let asked = async {
            let answer = send(client, &Method::POST, &url, &mut headers, body.as_bytes()).await?;
            let status = answer.response.status();
            let said = client.read_body(answer, ANSWER_BYTES_MAX).await?;
            io::Result::Ok((status, String::from_utf8_lossy(&said).trim().to_owned()))
        };
        let (status, said) = timeout(ANSWER_MAX, asked)
            .await
            .map_err(|_| "it does not answer")?
            .map_err(|error| error.to_string())?;
        if !status.is_success() {
            return Err(format!("it answers {status} {said}").trim_end().to_owned());
        }
        let until = Instant::now() + CONFIRMED_MAX;
        loop {
            let mut told = std::pin::pin!(self.told.notified());
            told.as_mut().enable();
            {
                let state = self.lock();
                if state.is_stopped {
                    return Err("the topic is gone".to_owned());
                }
                if let Some(lease) = state
                    .until
                    .filter(|_| state.until != before && !state.is_asked)
                {
                    return Ok(lease.saturating_duration_since(Instant::now()));
                }
                if !state.is_asked {
                    return Err("it has denied the subscription".to_owned());
                }
            }
            if tokio::time::timeout_at(until, told).await.is_err() {
                return Err("it has not asked whether the subscription was meant".to_owned());
            }
        }
    }

    /// The answer to a question of the hub: what it has to be told. `None`: nothing was asked of it, 404.
    pub fn answer(&self, parameters: &[(String, String)]) -> Option<String> {
        let of = |name: &str| {
            let mut all = parameters.iter();
            all.find(|(key, _)| key == name)
                .map(|(_, value)| value.as_str())
        };
        let mut state = self.lock();
        if of("hub.topic").is_none() || state.topic.as_deref() != of("hub.topic") {
            return None;
        }
        match of("hub.mode") {
            Some("denied") => {
                let cause = of("hub.reason").unwrap_or("it does not say why");
                tracing::warn!(
                    topic = self.name,
                    cause,
                    "the hub has denied or ended a subscription"
                );
                (state.is_asked, state.until) = (false, None);
                drop(state);
                self.told.notify_one();
                Some(String::new())
            }
            Some("subscribe") if state.is_asked => {
                let challenge = of("hub.challenge")?.to_owned();
                let lease = of("hub.lease_seconds").and_then(|text| text.parse::<u64>().ok());
                let most = u64::try_from(LEASE_MAX).unwrap_or_default();
                let lease = lease.unwrap_or(u64::try_from(self.follow.lease).unwrap_or_default());
                let lease = Duration::from_secs(lease.min(most));
                state.until = Some(Instant::now() + lease);
                state.is_asked = false;
                let before = std::mem::take(&mut state.agreed[0]);
                state.agreed = [state.secret.clone(), before];
                drop(state);
                tracing::info!(
                    topic = self.name,
                    lease_s = lease.as_secs(),
                    "follows a topic of another hub"
                );
                self.told.notify_one();
                Some(challenge)
            }
            // It was not meant, or is meant still.
            _ => None,
        }
    }

    /// Is a delivery signed with the secret that the hub was given?
    pub fn is_genuine(&self, headers: &HeaderMap, body: &[u8]) -> bool {
        let mut given = headers.get_all("x-hub-signature").iter();
        let (Some(signature), None) = (given.next(), given.next()) else {
            return false;
        };
        let signature = signature.to_str().unwrap_or_default();
        let Some((method, digits)) = signature.split_once('=') else {
            return false;
        };
        let (Some(digest), Some(tag)) = (Digest::parse(method), crate::webhook::unhex(digits))
        else {
            return false;
        };
        let state = self.lock();
        let secrets = state.agreed.iter().chain([&state.secret]);
        let mut secrets = secrets.filter(|secret| !secret.is_empty());
        secrets.any(|secret| hmac::verify(&digest.key(secret.as_bytes()), body, &tag).is_ok())
    }
}

/// Asks a topic where its hub is.
async fn discovered(client: &Client, topic: &str) -> Result<discover::Found, String> {
    let topic = Url::parse(topic).ok_or("the topic is no http or https URL")?;
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    let asked = async {
        let answer = send(client, &Method::GET, &topic, &mut headers, &[]).await?;
        let (status, told) = (answer.response.status(), answer.response.headers().clone());
        if status != StatusCode::OK {
            return Err(io::Error::other(format!("the topic answers {status}")));
        }
        let by_header = discover::found(&told, &[]);
        if !by_header.hubs.is_empty() && by_header.own.is_some() {
            // Its content may be a stream without an end.
            return Ok(by_header);
        }
        let body = client.read_body(answer, CONTENT_BYTES_MAX).await?;
        Ok(discover::found(&told, &body))
    };
    let asked = timeout(ANSWER_MAX, asked).await;
    asked
        .map_err(|_| "the topic does not answer")?
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn following() -> Arc<Following> {
        let follow = json!({ "topic": "https://blog.example/feed", "callback": "https://gateway.example", "lease": "1h", "networks": ["10.0.0.0/8"] });
        let follow = Follow::from_json(&follow).expect("it is right");
        assert_eq!(Follow::from_json(&follow.to_json()).as_ref(), Ok(&follow));
        Following::new(follow, "/news/1/all", "News/1/all")
    }

    fn asked(of: &[(&str, &str)]) -> Vec<(String, String)> {
        of.iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    // rules: W21
    #[tokio::test]
    async fn only_a_hub_that_was_asked_can_confirm_and_only_what_it_signs_is_taken() {
        let following = following();
        assert_eq!(following.callback, "https://gateway.example/news/1/all");
        let topic = "https://blog.example/feed";
        let question = asked(&[
            ("hub.mode", "subscribe"),
            ("hub.topic", topic),
            ("hub.challenge", "c"),
            ("hub.lease_seconds", "60"),
        ]);
        assert_eq!(following.answer(&question), None, "nobody was asked");
        {
            let mut state = following.lock();
            (state.topic, state.is_asked) = (Some(topic.to_owned()), true);
            state.secret = "new".to_owned();
            state.agreed[0] = "old".to_owned();
        }
        let other = asked(&[
            ("hub.mode", "subscribe"),
            ("hub.topic", "https://other/"),
            ("hub.challenge", "c"),
        ]);
        assert_eq!(following.answer(&other), None);
        let end = asked(&[
            ("hub.mode", "unsubscribe"),
            ("hub.topic", topic),
            ("hub.challenge", "c"),
        ]);
        assert_eq!(following.answer(&end), None, "that was not meant");
        assert_eq!(following.answer(&question).as_deref(), Some("c"));
        assert_eq!(following.answer(&question), None, "it was asked once");
        let signed = |secret: &str| {
            let key = Digest::Sha512.key(secret.as_bytes());
            let mut headers = HeaderMap::new();
            let value = Digest::Sha512
                .signature(&key, b"body")
                .expect("it is a value");
            headers.insert("x-hub-signature", value);
            headers
        };
        assert!(following.is_genuine(&signed("new"), b"body"));
        assert!(following.is_genuine(&signed("old"), b"body"));
        assert!(!following.is_genuine(&signed("new"), b"other"));
        assert!(!following.is_genuine(&signed(""), b"body"));
        assert!(!following.is_genuine(&HeaderMap::new(), b"body"));
    }

    #[test]
    fn what_cannot_be_followed_is_named() {
        for (said, cause) in [
            (json!("https://a/"), "is not a map"),
            (json!({ "topic": "https://a/" }), "has no 'callback'"),
            (
                json!({ "topic": "ftp://a/", "callback": "https://b/" }),
                "no http or https URL",
            ),
            (
                json!({ "topic": "https://a/", "callback": "https://b/c" }),
                "the path is that of the topic",
            ),
            (
                json!({ "topic": "https://a/", "callback": "https://b", "lease": "1s" }),
                "a time such as 10d",
            ),
            (
                json!({ "topic": "https://a/", "callback": "https://b", "networks": ["x"] }),
                "'x' is not a network",
            ),
            (
                json!({ "topic": "https://a/", "callback": "https://b", "hub": "h" }),
                "no key 'hub'",
            ),
        ] {
            let wrong = Follow::from_json(&said).expect_err("it is wrong");
            assert!(wrong.contains(cause), "{said}: {wrong}");
        }
    }
}
