//! Requests to subscribe: read, answered 202, and handed to the app when the callback has said that
//! they are meant (WebSub 5.1 to 5.3).
//!
//! To its subscriber a subscription counts once it has repeated the challenge: the recommendation
//! has no later message of the hub. So what was confirmed is saved at once and not with the next
//! interval. A crash before the question was answered leaves both sides without a subscription,
//! whose 202 has promised none.

use std::io;
use std::sync::Arc;

use event::Value;
use hyper::body::Bytes;
use hyper::header::{HOST, HeaderMap, USER_AGENT};
use hyper::{Method, StatusCode};
use plan::Transport;
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::sync::{Semaphore, watch};

use crate::http::request;
use crate::http::request::{Answer, Peer, Route};
use connect::component::Environment;
use connect::error::Error;
use connect::net::http_client::EgressDenied;
use connect::net::http_client::headers;
use connect::net::http_client::{Client, ClientOptions, OutgoingRequest};
use connect::net::{Body, ClientTls, Delivery};
use connect::option::Settings;
use connect::url::Url;
use connect::url::decode;

/// The lease of who asks for none: ten days.
const LEASE: i64 = 10 * 24 * 60 * 60;

/// The longest lease, so that its end is a time.
const LEASE_MAX: i64 = 2_147_483_647;

/// What an app gets of each request.
const OWN: [&str; 5] = ["callback", "topic", "mode", "lease_seconds", "secret"];

/// Longest secret (WebSub 5.1).
const SECRET_MAX: usize = 199;

/// Callbacks that are asked at once; who comes then is told to come again.
const ASKED_MAX: usize = 256;

/// Longest answer of a callback that is read.
const ANSWER_BYTES_MAX: usize = 4096;

/// Where the subscriptions of a hub are asked for.
pub(crate) struct Desk {
    topics: Vec<String>,
    client: Client,
    asked: Arc<Semaphore>,
    random: SystemRandom,
    /// The app stops: nobody is asked once more.
    leaving: watch::Sender<bool>,
}

/// What a request asks for.
#[derive(PartialEq, Eq, Debug)]
struct Wish {
    callback: String,
    topic: String,
    mode: Mode,
    /// Seconds.
    lease: i64,
    secret: String,
    /// What else the form has, for the app.
    others: Vec<(String, String)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Subscribe,
    Unsubscribe,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Subscribe => "subscribe",
            Mode::Unsubscribe => "unsubscribe",
        }
    }
}

impl Desk {
    /// `None` for a source that is not a hub.
    pub fn new(transport: &Transport, environment: &Environment) -> Result<Option<Desk>, Error> {
        if transport.ty != "websubhub" {
            return Ok(None);
        }
        let settings = Settings::of_source(transport, crate::http::hub::SPECS);
        let topics = settings.text_or_default("topic.list").split(',');
        let topics = topics.map(str::trim).filter(|topic| !topic.is_empty());
        let topics: Vec<String> = topics.map(str::to_owned).collect();
        if topics.is_empty() {
            return Err(settings.refused("option 'topic.list' is empty"));
        }
        Ok(Some(Desk {
            topics,
            client: Client::new(ClientOptions {
                tls: Some(ClientTls::new(settings, environment)?),
                egress_policy: Some(super::egress_policy(settings)?),
                ..ClientOptions::default()
            }),
            asked: Arc::new(Semaphore::new(ASKED_MAX)),
            random: SystemRandom::new(),
            leaving: watch::Sender::new(false),
        }))
    }

    /// Callbacks are asked as often as is their due.
    pub fn open(&self) {
        self.leaving.send_replace(false);
    }

    /// Ends the pauses before a callback is asked once more.
    pub fn leave(&self) {
        self.leaving.send_replace(true);
    }

    /// Is no callback being asked, and saved what was confirmed?
    pub fn is_idle(&self) -> bool {
        self.asked.available_permits() == ASKED_MAX
    }

    fn read(&self, form: &str) -> Result<Wish, String> {
        Wish::read(form, &self.topics)
    }

    /// Is it meant? Only a callback that cannot be reached is asked again.
    async fn is_meant(&self, wish: &Wish) -> Result<(), String> {
        let mut bytes = [0; 16];
        self.random
            .fill(&mut bytes)
            .map_err(|_| "the system provides no random numbers".to_owned())?;
        let challenge = headers::hex(&bytes);
        let mut pauses = super::PAUSES.iter();
        let mut leaving = self.leaving.subscribe();
        loop {
            let answer = self.ask(wish, &challenge).await;
            let cause = match answer {
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
                // The sender is part of the desk.
                _ = leaving.wait_for(|is_leaving| *is_leaving) => {
                    return Err(format!("{cause}; the app stops before it is asked again"));
                }
            }
        }
    }

    /// Is its callback where nobody is called? What is not known now is judged when it is asked.
    async fn is_egress_denied(&self, wish: &Wish) -> bool {
        match Url::parse(&wish.callback) {
            Some(url) => self.client.is_egress_denied(&url).await,
            None => false,
        }
    }

    async fn ask(&self, wish: &Wish, challenge: &str) -> io::Result<(StatusCode, Bytes)> {
        let url = question(wish, challenge).ok_or_else(|| io::Error::other("it is not a URL"))?;
        let host = url.host_header().parse().map_err(io::Error::other)?;
        let mut own = HeaderMap::new();
        own.insert(HOST, host);
        own.insert(
            USER_AGENT,
            hyper::header::HeaderValue::from_static("headwater"),
        );
        let request = OutgoingRequest {
            method: &Method::GET,
            target: &self.client.request_target(&url)?,
            headers: &own,
            extra: None,
            body: &[],
            has_length: true,
        };
        let answer = self.client.send(&url, &request).await?;
        let status = answer.response.status();
        let body = self.client.read_body(answer, ANSWER_BYTES_MAX).await?;
        Ok((status, body))
    }
}

/// The callback with the parameters of the question behind those of its own.
fn question(wish: &Wish, challenge: &str) -> Option<Url> {
    let mut url = Url::parse(&wish.callback)?;
    let lease = wish.lease.to_string();
    let mut pairs = vec![
        ("hub.mode", wish.mode.name()),
        ("hub.topic", wish.topic.as_str()),
        ("hub.challenge", challenge),
    ];
    if wish.mode == Mode::Subscribe {
        pairs.push(("hub.lease_seconds", lease.as_str()));
    }
    url.query.push(match url.query.is_empty() {
        true => '?',
        false => '&',
    });
    url.query.push_str(&headers::form(pairs));
    Some(url)
}

/// A form of a subscriber, and the question that it leads to.
#[cfg(all(feature = "full", any(test, feature = "testing")))]
pub(crate) fn read_form(form: &str) {
    let topics = ["a".to_owned()];
    if let Ok(wish) = Wish::read(form, &topics) {
        let url = question(&wish, "c").expect("the callback was a URL");
        assert!(url.query.contains("hub.challenge=c"));
    }
}

impl Wish {
    /// What the form of a request asks for; else why it is refused.
    fn read(form: &str, topics: &[String]) -> Result<Wish, String> {
        let pairs = form.split('&').filter(|pair| !pair.is_empty());
        let mut pairs: Vec<(String, String)> = pairs
            .map(|pair| {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                (decode(key), decode(value))
            })
            .collect();
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
        if !topics.contains(&topic) {
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
        Ok(Wish {
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

    /// As Siddhi hands it to the `keyvalue` mapper: names without `hub.`.
    fn into_map(self) -> Vec<(Value, Value)> {
        let text = |key: &str, value: &str| (Value::str(key), Value::str(value));
        let mut map = vec![
            text(OWN[0], &self.callback),
            text(OWN[1], &self.topic),
            text(OWN[2], self.mode.name()),
            (Value::str(OWN[3]), Value::Long(self.lease)),
            text(OWN[4], &self.secret),
        ];
        map.extend(self.others.iter().map(|(key, value)| text(key, value)));
        map
    }
}

/// Answers a request, and has its callback asked.
pub(in crate::http) async fn answer(
    route: &Arc<Route>,
    desk: &Arc<Desk>,
    form: &str,
    properties: Vec<Value>,
    peer: &Peer,
) -> Answer {
    let refuse = |status, why: &str| {
        tracing::warn!(source = route.name, peer = %peer.address, why, "subscription request \
                                                                        rejected");
        request::plain(status, &format!("{why}\n"))
    };
    let wish = match desk.read(form) {
        Ok(wish) => wish,
        Err(why) => return refuse(StatusCode::BAD_REQUEST, &why),
    };
    let Ok(permit) = Arc::clone(&desk.asked).try_acquire_owned() else {
        return request::unavailable("too many callbacks are being verified\n");
    };
    if desk.is_egress_denied(&wish).await {
        let why = "'hub.callback' is at an address that this hub does not call";
        return refuse(StatusCode::FORBIDDEN, why);
    }
    let (route, desk) = (Arc::clone(route), Arc::clone(desk));
    tokio::spawn(async move {
        let _permit = permit;
        verify(&route, &desk, wish, properties).await;
    });
    request::plain(StatusCode::ACCEPTED, "")
}

/// Hands a wish to the app if its callback confirms it, and has it saved.
async fn verify(route: &Route, desk: &Desk, wish: Wish, properties: Vec<Value>) {
    let (callback, topic) = (wish.callback.clone(), wish.topic.clone());
    let source = &route.name;
    if let Err(why) = desk.is_meant(&wish).await {
        let what = "callback did not confirm the request; subscription unchanged";
        tracing::warn!(source, callback, topic, why, "{what}");
        return;
    }
    let mode = wish.mode.name();
    let (delivery, saved) = Delivery::of(Body::Map(wish.into_map()), properties).with_receipt();
    let is_taken = route.ingress.push(delivery).await.is_ok();
    if is_taken && saved.await.is_ok() {
        tracing::info!(source, callback, topic, mode, "subscription changed");
    } else {
        let what = "app stopped before it processed a confirmed request; subscription unchanged";
        tracing::warn!(source, callback, topic, mode, "{what}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use connect::net::testing;

    fn desk() -> Desk {
        let transport = testing::transport("websubhub", &[("topic.list", "a, http://t/b ,")]);
        let desk = Desk::new(&transport, &Environment::new("A"));
        desk.unwrap().unwrap()
    }

    const ASKED: &str = "hub.callback=http%3A%2F%2Fh%2Fc%3Fx%3D1&hub.mode=subscribe&hub.topic=a";

    #[test]
    fn a_form_is_read_decoded_and_completed() {
        let more = "&hub.lease_seconds=60&hub.secret=s%26t&hub.colour=red&own=1";
        let wish = desk().read(&format!("{ASKED}{more}")).unwrap();
        assert_eq!(wish.callback, "http://h/c?x=1");
        assert_eq!((wish.lease, wish.secret.as_str()), (60, "s&t"));
        let mut others = wish.others;
        others.sort();
        let pair = |k: &str, v: &str| (k.to_owned(), v.to_owned());
        assert_eq!(others, [pair("colour", "red"), pair("own", "1")]);
        let wish = desk().read(ASKED).unwrap();
        assert_eq!((wish.lease, wish.secret.as_str()), (LEASE, ""));
        let long = desk().read(&format!("{ASKED}&hub.lease_seconds=99999999999999999999"));
        assert_eq!(long.unwrap().lease, LEASE_MAX);
    }

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
            let why = desk().read(form).unwrap_err();
            assert!(why.contains(cause), "{form}: {why}");
        }
        for lease in ["0", "-1", "1.5", "soon"] {
            let why = desk().read(&format!("{ASKED}&hub.lease_seconds={lease}"));
            assert!(why.unwrap_err().contains("lease_seconds"), "{lease}");
        }
        let secret = "s".repeat(200);
        let why = desk().read(&format!("{ASKED}&hub.secret={secret}"));
        assert!(why.unwrap_err().contains("hub.secret"));
    }

    #[test]
    fn a_question_keeps_the_query_of_the_callback() {
        let wish = desk()
            .read(&format!("{ASKED}&hub.lease_seconds=7"))
            .unwrap();
        let url = question(&wish, "abc").unwrap();
        let expect = "/c?x=1&hub.mode=subscribe&hub.topic=a&hub.challenge=abc&hub.lease_seconds=7";
        assert_eq!(url.target(), expect);
        let end = ASKED
            .replace("subscribe", "unsubscribe")
            .replace("%3Fx%3D1", "");
        let url = question(&desk().read(&end).unwrap(), "abc").unwrap();
        assert_eq!(
            url.target(),
            "/c?hub.mode=unsubscribe&hub.topic=a&hub.challenge=abc"
        );
    }

    #[test]
    fn a_hub_without_topics_is_refused() {
        let transport = testing::transport("websubhub", &[("topic.list", " , ")]);
        assert!(Desk::new(&transport, &Environment::new("A")).is_err());
    }
}
