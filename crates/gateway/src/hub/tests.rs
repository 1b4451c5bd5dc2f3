//! The hub before callbacks that answer as told, by the numbers of the requirements (W1 to W22).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use connect::net::Network;
use connect::net::websub::Digest;
use connect::url::decode;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::access::Access;
use crate::model::Api;

const API: &str = "ticks/1.0.0";

/// A request that a callback got.
#[derive(Clone, Debug)]
struct Got {
    target: String,
    head: String,
    body: String,
}

impl Got {
    fn header(&self, name: &str) -> Option<String> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name)
                .then(|| value.trim().to_owned())
        })
    }
}

/// A callback: confirms what it is asked unless told otherwise, and takes what comes unless told otherwise.
#[derive(Default)]
struct Callback {
    got: Mutex<Vec<Got>>,
    /// Statuses of the next deliveries; then 200.
    statuses: Mutex<VecDeque<u16>>,
    /// What it answers to a question, `{}` being the challenge; by default that.
    confirms: Mutex<Option<(u16, String)>>,
    /// While somebody writes here it answers nothing.
    silence: tokio::sync::RwLock<()>,
}

impl Callback {
    async fn start() -> (Arc<Callback>, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let callback = Arc::<Callback>::default();
        let serving = Arc::clone(&callback);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let callback = Arc::clone(&serving);
                tokio::spawn(async move { callback.serve(stream).await.ok() });
            }
        });
        (callback, address)
    }

    async fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        loop {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await?);
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
            let mut got = Got {
                target: target.clone(),
                head,
                body: String::new(),
            };
            let length = got
                .header("content-length")
                .and_then(|length| length.parse().ok());
            let mut body = vec![0; length.unwrap_or_default()];
            stream.read_exact(&mut body).await?;
            got.body = String::from_utf8_lossy(&body).into_owned();
            drop(self.silence.read().await);
            let is_question = got.head.starts_with("GET ");
            let (status, body) = match is_question {
                true => {
                    let challenge = parameter(&target, "hub.challenge");
                    let told = self.confirms.lock().expect("no panic").clone();
                    let (status, body) = told.unwrap_or((200, "{}".to_owned()));
                    (status, body.replace("{}", &challenge))
                }
                false => {
                    let status = self.statuses.lock().expect("no panic").pop_front();
                    (status.unwrap_or(200), "ignored".repeat(100))
                }
            };
            self.got.lock().expect("no panic").push(got);
            let answer = format!(
                "HTTP/1.1 {status} X\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(answer.as_bytes()).await?;
        }
    }

    fn all(&self, is_question: bool) -> Vec<Got> {
        let got = self.got.lock().expect("no panic").clone();
        let is_it = |got: &Got| got.head.starts_with("GET ") == is_question;
        got.into_iter().filter(is_it).collect()
    }

    fn deliveries(&self) -> Vec<Got> {
        self.all(false)
    }

    fn bodies(&self) -> Vec<String> {
        self.deliveries().into_iter().map(|got| got.body).collect()
    }

    fn will_answer(&self, statuses: &[u16]) {
        self.statuses.lock().expect("no panic").extend(statuses);
    }

    fn confirms_by(&self, status: u16, body: &str) {
        *self.confirms.lock().expect("no panic") = Some((status, body.to_owned()));
    }
}

fn parameter(target: &str, name: &str) -> String {
    let (_, query) = target.split_once('?').unwrap_or((target, ""));
    let found = query
        .split('&')
        .find_map(|pair| pair.strip_prefix(&format!("{name}=")).map(decode));
    found.unwrap_or_default()
}

async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..3000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{what} never came");
}

struct Server {
    hub: Arc<Hub>,
    access: Arc<Access>,
    _network: Arc<Network>,
}

impl Server {
    fn start(state: Option<&Path>, rules: &serde_json::Value) -> Server {
        let access = Access::open(state, SystemTime::now()).expect("opened");
        let network = Arc::<Network>::default();
        let hub = Hub::open(&access, &network).expect("read");
        let rules = Rules::from_json(rules).expect("right");
        hub.set_rules([(API.to_owned(), rules)]).expect("trusted");
        hub.begin().expect("threads");
        Server {
            hub,
            access,
            _network: network,
        }
    }

    async fn asks(&self, form: &str) -> (u16, String) {
        let topic = |text: &str| {
            let topic = text.trim_start_matches("http://hub.example");
            topic.starts_with('/').then(|| topic.to_owned())
        };
        let asking = Asking {
            api: API,
            form,
            topic: &topic,
            hub: "http://hub.example".to_owned(),
            application: Some("shop".to_owned()),
        };
        let told = self.hub.ask(&asking).await;
        (told.status.as_u16(), told.reason)
    }

    /// Subscribes, and waits until that is confirmed; the id.
    async fn subscribes(&self, callback: SocketAddr, topic: &str, more: &str) -> String {
        let form = form("subscribe", &format!("http://{callback}/"), topic) + more;
        let before = self.ends();
        assert_eq!(self.asks(&form).await, (202, String::new()));
        eventually("the subscription", || self.ends() != before).await;
        let all = self.hub.subscriptions().expect("read");
        let its = all
            .into_iter()
            .find(|one| one.topic == topic && one.callback.contains(&callback.to_string()));
        its.expect("it is there").id
    }

    /// What differs whenever a subscription was confirmed.
    fn ends(&self) -> Vec<(String, i64)> {
        let all = self.hub.subscriptions().expect("read");
        all.into_iter().map(|one| (one.id, one.ends)).collect()
    }

    fn publishes(&self, topic: &str, body: &str) {
        self.hub
            .publish(API, topic, "text/plain", body.as_bytes())
            .expect("kept");
    }
}

fn form(mode: &str, callback: &str, topic: &str) -> String {
    let mut text = format!("foo=bar&hub.foo=bar&hub.mode={mode}&hub.callback=");
    connect::url::encode(&mut text, callback);
    text.push_str("&hub.topic=");
    connect::url::encode(&mut text, topic);
    text
}

fn local() -> serde_json::Value {
    json!({ "callback-networks": ["127.0.0.0/8"] })
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(work)
}

/// W1, W3, W5 to W7, W14 to W16.
// rules: W1, W3, W6, W7, W14, W15, W16, W100, W101, W102
#[test]
fn a_confirmed_callback_gets_what_is_published() {
    block_on(async {
        let server = Server::start(
            None,
            &json!({"digest": "sha512", "callback-networks": ["127.0.0.1"]}),
        );
        let (callback, address) = Callback::start().await;
        let own = format!("http://{address}/c?a=1&hub.mode=x");
        let topic = "http://hub.example/t";
        let asked = form("subscribe", &own, topic) + "&hub.secret=s%26t&hub.lease_seconds=600";
        assert_eq!(server.asks(&asked).await, (202, String::new()));
        eventually("the question", || callback.all(true).len() == 1).await;
        let question = callback.all(true).remove(0).target;
        assert!(
            question.starts_with("/c?a=1&hub.mode=x&hub.mode=subscribe&"),
            "{question}"
        );
        assert_eq!(parameter(&question, "hub.topic"), topic);
        assert_eq!(parameter(&question, "hub.challenge").len(), 32);
        assert!(
            (598..=600).contains(
                &parameter(&question, "hub.lease_seconds")
                    .parse::<i64>()
                    .expect("a number")
            )
        );
        eventually("the subscription", || server.hub.is_subscribed(API, "/t")).await;
        server
            .hub
            .publish(API, "/t", "application/json", b"{\"a\":1}")
            .expect("kept");
        server.publishes("/other", "nobody hears it");
        eventually("the event", || callback.deliveries().len() == 1).await;
        let got = callback.deliveries().remove(0);
        assert!(
            got.head.starts_with("POST /c?a=1&hub.mode=x HTTP/1.1"),
            "{}",
            got.head
        );
        assert_eq!(got.body, "{\"a\":1}");
        assert_eq!(
            got.header("content-type").as_deref(),
            Some("application/json")
        );
        let links = "<http://hub.example>; rel=\"hub\", <http://hub.example/t>; rel=\"self\"";
        assert_eq!(got.header("link").as_deref(), Some(links));
        let key = Digest::Sha512.key(b"s&t");
        let signature = Digest::Sha512
            .signature(&key, b"{\"a\":1}")
            .expect("printable");
        assert_eq!(
            got.header("x-hub-signature").as_deref(),
            signature.to_str().ok()
        );
        assert!(
            got.header("webhook-id")
                .is_some_and(|id| id.ends_with("-1"))
        );
    });
}

/// W4, W8, W9, W22.
// rules: W2, W4, W8, W9, W22
#[test]
fn what_is_not_meant_or_not_allowed_changes_nothing() {
    block_on(async {
        let server = Server::start(None, &local());
        let (callback, address) = Callback::start().await;
        let url = format!("http://{address}/");
        let good = form("subscribe", &url, "/t");
        for (form, part) in [
            (String::new(), "'hub.callback' is missing"),
            (good.replace("hub.mode=subscribe", "hub.mode=x"), "neither"),
            (good.replace("%2Ft", "none"), "not a topic"),
            (good.replace("http%3A", "ftp%3A"), "not an http"),
            (
                format!("{good}&hub.secret={}", "s".repeat(200)),
                "200 bytes",
            ),
        ] {
            let (status, why) = server.asks(&form).await;
            assert!(
                status == 400 && why.contains(part),
                "{form}: {status} {why}"
            );
        }
        // It lives, then is asked to renew and fails to confirm in every way.
        server.subscribes(address, "/t", "&hub.secret=old").await;
        let before = server.ends();
        for (status, body) in [
            (301, "{}"),
            (404, "{}"),
            (500, "{}"),
            (200, "wrong"),
            (200, "{}\n"),
            (204, ""),
        ] {
            callback.confirms_by(status, body);
            let asked = callback.all(true).len();
            assert_eq!(server.asks(&format!("{good}&hub.secret=new")).await.0, 202);
            eventually("the question", || callback.all(true).len() > asked).await;
        }
        assert_eq!(server.ends(), before);
        server.publishes("/t", "x");
        eventually("the event", || callback.deliveries().len() == 1).await;
        let signature = Digest::Sha256
            .signature(&Digest::Sha256.key(b"old"), b"x")
            .expect("printable");
        assert_eq!(
            callback.deliveries()[0]
                .header("x-hub-signature")
                .as_deref(),
            signature.to_str().ok()
        );
        // An address that is not named is not called.
        let strict = Server::start(None, &json!({}));
        for url in [
            url.as_str(),
            "http://localhost:1/",
            "http://[::1]/",
            "http://169.254.169.254/",
            "http://2130706433/",
        ] {
            let (status, why) = strict.asks(&form("subscribe", url, "/t")).await;
            assert!(
                status == 403 && why.contains("does not call"),
                "{url}: {status} {why}"
            );
        }
    });
}

/// W10 to W12, W17: overriding, unsubscribing, leases, and an end by 410.
// rules: W10, W11, W12, W17, W100, W103, W104
#[test]
fn a_subscription_is_renewed_and_ends() {
    block_on(async {
        let server = Server::start(
            None,
            &json!({"callback-networks": ["127.0.0.1"], "lease": {"default": "1d", "max": "2d"}}),
        );
        let (callback, address) = Callback::start().await;
        let first = server.subscribes(address, "/t", "&hub.secret=one").await;
        let again = server
            .subscribes(address, "/t", "&hub.lease_seconds=99999999")
            .await;
        assert_eq!(first, again);
        let lease = |at: usize| {
            parameter(&callback.all(true)[at].target, "hub.lease_seconds").parse::<i64>()
        };
        assert!((86_399..=86_400).contains(&lease(0).expect("a number")));
        assert!((172_799..=172_800).contains(&lease(1).expect("clamped")));
        server.publishes("/t", "once");
        eventually("the event", || callback.deliveries().len() == 1).await;
        assert_eq!(
            callback.deliveries()[0].header("x-hub-signature"),
            None,
            "it gave none"
        );
        // Unsubscribing is confirmed as well.
        let url = format!("http://{address}/");
        callback.confirms_by(404, "");
        assert_eq!(server.asks(&form("unsubscribe", &url, "/t")).await.0, 202);
        eventually("the question", || callback.all(true).len() == 3).await;
        assert!(!callback.all(true)[2].target.contains("lease_seconds"));
        assert!(server.hub.is_subscribed(API, "/t"));
        callback.confirms_by(200, "{}");
        assert_eq!(server.asks(&form("unsubscribe", &url, "/t")).await.0, 202);
        eventually("the end", || !server.hub.is_subscribed(API, "/t")).await;
        // 410 ends it; so does its lease.
        server.subscribes(address, "/t", "").await;
        callback.will_answer(&[410]);
        server.publishes("/t", "gone");
        eventually("the end", || !server.hub.is_subscribed(API, "/t")).await;
        server
            .subscribes(address, "/t", "&hub.lease_seconds=1")
            .await;
        tokio::time::sleep(Duration::from_millis(1100)).await;
        let before = callback.deliveries().len();
        server.publishes("/t", "late");
        eventually("the end", || !server.hub.is_subscribed(API, "/t")).await;
        assert_eq!(callback.deliveries().len(), before);
    });
}

/// W18: order over failures; dead letters; replay and resend by hand.
// rules: W18
#[test]
fn a_callback_that_was_away_gets_all_it_missed_in_order() {
    block_on(async {
        let server = Server::start(None, &local());
        let ((away, address), (other, other_address)) =
            (Callback::start().await, Callback::start().await);
        let id = server.subscribes(address, "/t", "").await;
        server.subscribes(other_address, "/t", "").await;
        away.will_answer(&[503]);
        for number in 0..20 {
            server.publishes("/t", &number.to_string());
        }
        let expect: Vec<String> = (0..20).map(|number| number.to_string()).collect();
        eventually("all of the other", || other.bodies() == expect).await;
        let listed = || {
            let all = server.hub.subscriptions().expect("read");
            all.into_iter().find(|one| one.id == id).expect("it stays")
        };
        eventually("a pause", || listed().due.is_some()).await;
        let one = listed();
        assert_eq!(
            (one.next, one.head, one.attempts),
            (1, 21, 1),
            "it costs a number"
        );
        // Its time has come.
        server
            .hub
            .replay(&id, None, Some(one.next))
            .expect("it is there");
        let got = || away.bodies();
        eventually("what it missed", || got().len() == 21).await;
        assert_eq!(got()[0], "0");
        assert_eq!(got()[1..], expect);
        let ids: Vec<Option<String>> = away
            .deliveries()
            .iter()
            .map(|got| got.header("webhook-id"))
            .collect();
        assert_eq!(ids[0], ids[1], "the same id for each attempt");
        // Again from an event on, and one by hand.
        server.hub.replay(&id, None, Some(19)).expect("it is there");
        eventually("the last two", || got().len() == 23).await;
        assert_eq!(got()[21..], ["18", "19"]);
        server.hub.replay(&id, Some(0), None).expect("it is there");
        eventually("all", || got().len() == 43).await;
        let attempts = server.hub.attempts(Some(&id), 100).expect("read");
        assert_eq!(attempts.len(), 43);
        let failed = attempts.last().expect("the first");
        assert_eq!(
            (failed.outcome.as_str(), failed.status, failed.number),
            ("away", Some(503), 1)
        );
        let resent = server.hub.resend(failed.id).await.expect("it is kept");
        assert!(resent.is_taken, "{resent:?}");
        assert_eq!(got().last().map(String::as_str), Some("0"));
        assert!(server.hub.resend(1_000_000).await.is_err());
        assert!(server.hub.replay("x", None, None).is_err());
    });
}

/// A crash repeats at most what was not written, and loses nothing; secrets are sealed.
#[test]
fn subscriptions_and_cursors_outlive_a_crash() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    block_on(async {
        let (callback, address) = Callback::start().await;
        let server = Server::start(Some(dir.path()), &local());
        let id = server
            .subscribes(address, "/t", "&hub.secret=canary-secret")
            .await;
        server.publishes("/t", "1");
        eventually("the event", || callback.deliveries().len() == 1).await;
        server.hub.attempts(None, 1).expect("written");
        callback.will_answer(&[500]);
        server.publishes("/t", "2");
        eventually("an attempt", || callback.deliveries().len() == 2).await;
        // As a process that is killed: nothing is written any more.
        std::mem::forget(server);
        let server = Server::start(Some(dir.path()), &local());
        eventually("what was left", || callback.deliveries().len() == 3).await;
        assert_eq!(callback.bodies(), ["1", "2", "2"]);
        assert_eq!(server.hub.subscriptions().expect("read")[0].id, id);
        let all = callback.deliveries();
        assert_eq!(all[1].header("webhook-id"), all[2].header("webhook-id"));
        assert_eq!(
            all[1].header("x-hub-signature"),
            all[2].header("x-hub-signature")
        );
        server.publishes("/t", "3");
        eventually("the next", || callback.deliveries().len() == 4).await;
        for entry in std::fs::read_dir(dir.path()).expect("a directory") {
            let bytes = std::fs::read(entry.expect("an entry").path()).expect("read");
            assert!(!bytes.windows(13).any(|part| part == b"canary-secret"));
        }
        server.hub.stop();
    });
}

/// Plans: a cap of subscriptions, and events that wait for the next window.
// rules: T3, T6
#[test]
fn a_plan_caps_subscriptions_and_events() {
    block_on(async {
        let server = Server::start(None, &local());
        let mut api = Api::new("Ticks", "1.0.0", "");
        api.plans = vec![(
            "P".to_owned(),
            json!({"events": "3/day", "subscriptions": 1}),
        )];
        server.access.set_apis(&[api]);
        let (callback, address) = Callback::start().await;
        server.subscribes(address, "/t", "").await;
        let url = format!("http://{address}/");
        let (status, why) = server.asks(&form("subscribe", &url, "/u")).await;
        assert!(status == 429 && why.contains("1 active"), "{status} {why}");
        server.subscribes(address, "/t", "").await;
        for number in 0..6 {
            server.publishes("/t", &number.to_string());
        }
        eventually("three", || callback.deliveries().len() == 3).await;
        eventually("a wait", || {
            server.hub.subscriptions().expect("read")[0].due.is_some()
        })
        .await;
        let one = server.hub.subscriptions().expect("read").remove(0);
        assert_eq!(
            (one.next, one.head, one.attempts),
            (4, 7, 0),
            "held, not lost"
        );
        assert_eq!(callback.bodies(), ["0", "1", "2"]);
    });
}

/// Two that are asked at the same time, where there is room for one.
// rules: W13
#[test]
fn one_that_is_not_taken_after_all_is_told_so() {
    block_on(async {
        let server = Server::start(None, &local());
        let mut api = Api::new("Ticks", "1.0.0", "");
        api.plans = vec![("P".to_owned(), json!({"subscriptions": 1}))];
        server.access.set_apis(&[api]);
        let (callback, address) = Callback::start().await;
        let silence = callback.silence.write().await;
        let url = format!("http://{address}/?own=1");
        for topic in ["/t", "/u"] {
            let asked = server.asks(&form("subscribe", &url, topic)).await;
            assert_eq!(asked, (202, String::new()));
        }
        drop(silence);
        eventually("three questions", || callback.all(true).len() == 3).await;
        let taken = server.hub.subscriptions().expect("read");
        assert_eq!(taken.len(), 1);
        let denied = callback.all(true).pop().expect("it is there").target;
        let of = |name: &str| parameter(&denied, name);
        assert_eq!(
            (of("own"), of("hub.mode")),
            ("1".to_owned(), "denied".to_owned())
        );
        let other = if taken[0].topic == "/t" { "/u" } else { "/t" };
        assert_eq!(of("hub.topic"), other);
        let reason = of("hub.reason").replace('+', " ");
        assert!(reason.contains("1 active subscriptions"), "{reason}");
        // The one that was taken may be renewed.
        let renewed = server.asks(&form("subscribe", &url, &taken[0].topic)).await;
        assert_eq!(renewed, (202, String::new()));
    });
}

/// The 202 is there before, and whatever becomes of, the question.
// rules: W5
#[test]
fn a_request_is_answered_before_its_callback_is_asked() {
    block_on(async {
        let server = Server::start(None, &local());
        // Accepted by the system, and never answered.
        let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/", silent.local_addr().expect("bound"));
        let asked = form("subscribe", &url, "/t");
        let answered = tokio::time::timeout(Duration::from_secs(5), server.asks(&asked)).await;
        assert_eq!(
            answered.expect("it is not waited for"),
            (202, String::new())
        );
        assert!(!server.hub.is_subscribed(API, "/t"));
    });
}

/// Many callbacks at once, some of which never answer.
#[test]
fn those_that_hang_hold_up_nobody() {
    block_on(async {
        let server = Server::start(None, &local());
        // Accepted by the system, and never answered.
        let silent = TcpListener::bind("0.0.0.0:0").await.expect("a port");
        let hung = silent.local_addr().expect("bound").port();
        let (callback, address) = Callback::start().await;
        for number in 0..40 {
            server.subscribes(address, &format!("/t{number}"), "").await;
        }
        let saved = |number: usize| store::Saved {
            id: format!("hung{number}"),
            place: store::Place {
                api: API.to_owned(),
                topic: "/hung".to_owned(),
            },
            named: "/hung".to_owned(),
            callback: format!(
                "http://127.0.{}.{}:{hung}/",
                number / 250 + 1,
                number % 250 + 1
            ),
            secret: Vec::new(),
            digest: Digest::Sha256,
            application: None,
            hub: String::new(),
            ends: i64::MAX,
            next: 1,
        };
        for number in 0..500 {
            server.hub.confirm(saved(number)).expect("saved");
        }
        server.publishes("/hung", "x");
        let begun = std::time::Instant::now();
        for number in 0..40 {
            server.publishes(&format!("/t{number}"), "x");
        }
        eventually("all", || callback.deliveries().len() == 40).await;
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "{:?}",
            begun.elapsed()
        );
        drop(silent);
    });
}
