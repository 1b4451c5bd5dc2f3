//! A WebSub hub against subscribers that answer as told; requests by `curl`, signatures by `openssl`.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use crate::broker::errors;
use crate::network::{
    Got, NOTICED, Running, Stub, curl, eventually, free_port, number, ok, post_all,
};

// row: sink websubhub, source websubhub | curl, openssl, and subscribers that answer as told
// n/a order: each payload goes to each subscriber by itself, as with `http`

const HUB: &str = "@app:name('Hub')
{store}@source(type='websubhub', hub.id='h', table.name='Subscriptions', topic.list='a, http://t/b', receiver.url='http://127.0.0.1:{port}/hub', callback.networks='127.0.0.0/8', @map(type='keyvalue', implicit.cast.enable='true'))
define stream Requests (callback string, topic string, mode string, lease_seconds long, secret string);
@source(type='http', receiver.url='http://127.0.0.1:{port}/news', @map(type='json'))
define stream In (topic string, text string);
@sink(type='websubhub', hub.id='h', table.name='Subscriptions', on.error='{policy}', headers=\"'X-Own:yes'\", @map(type='json'))
define stream News (topic string, text string);
@sink(type='log', prefix='request')
define stream Seen (mode string, topic string, lease long);
@sink(type='log', prefix='kept')
define stream Kept (callback string, hub string);
from Requests select mode, topic, lease_seconds as lease insert into Seen;
from In join Subscriptions as s on In.topic == 'list' select s.callback as callback, s.hub_id as hub insert into Kept;
from In[topic != 'list'] select * insert into News;
";

struct Hub {
    dir: tempfile::TempDir,
    port: u16,
}

impl Hub {
    fn new() -> Hub {
        Hub {
            dir: tempfile::tempdir().expect("a folder"),
            port: free_port(),
        }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn app(&self, policy: &str, store: &str) -> String {
        self.write(&HUB.replace("{store}", store).replace("{policy}", policy))
    }

    fn write(&self, app: &str) -> String {
        let path = self.path("hub.siddhi");
        let text = app.replace("{port}", &self.port.to_string());
        fs::write(&path, text).expect("the folder can be written");
        path
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    /// Asks the hub; status and answer.
    fn ask(&self, form: &[(&str, &str)]) -> (String, String) {
        let url = self.url("hub");
        let pairs: Vec<String> = form.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let mut args = Vec::new();
        for pair in &pairs {
            args.extend(["--data-urlencode", pair]);
        }
        args.push(&url);
        curl(&args)
    }

    #[track_caller]
    fn change(&self, mode: &str, callback: &str, topic: &str, more: &[(&str, &str)]) {
        let mut form = vec![
            ("hub.callback", callback),
            ("hub.mode", mode),
            ("hub.topic", topic),
        ];
        form.extend(more);
        let (status, answer) = self.ask(&form);
        assert_eq!((status.as_str(), answer.as_str()), ("202", ""));
    }

    #[track_caller]
    fn publish(&self, topic: &str, texts: &[&str]) {
        let body = |text: &&str| format!("{{\"topic\":\"{topic}\",\"text\":\"{text}\"}}");
        let statuses = post_all(&self.url("news"), texts.iter().map(body));
        assert!(statuses.iter().all(|status| *status == 200));
    }
}

/// The challenge of a question.
fn challenge(got: &Got) -> Option<String> {
    let target = got.head.split(' ').nth(1)?;
    let pairs = target.split(['?', '&']);
    let found = pairs.filter_map(|pair| pair.strip_prefix("hub.challenge="));
    found.map(str::to_owned).next()
}

/// A callback that confirms whatever it is asked, and answers to payloads as told.
fn subscriber(answer: impl Fn(&Got) -> String + Send + Sync + 'static) -> Stub {
    Stub::start(0, move |got| match challenge(got) {
        Some(challenge) => ok(&challenge),
        None => answer(got),
    })
}

/// The payloads that came.
fn payloads(stub: &Stub) -> Vec<Got> {
    let mut got = stub.got();
    got.retain(|one| one.head.starts_with("POST "));
    got
}

#[track_caller]
fn texts(stub: &Stub, count: usize) -> Vec<String> {
    eventually("the payloads", || payloads(stub).len() >= count);
    let body = |got: Got| {
        let json: serde_json::Value = serde_json::from_str(&got.body).expect("JSON");
        json["event"]["text"].as_str().expect("a text").to_owned()
    };
    let mut texts: Vec<String> = payloads(stub).into_iter().map(body).collect();
    texts.sort();
    texts
}

fn callback(stub: &Stub) -> String {
    format!("http://127.0.0.1:{}/c?own=1", stub.port)
}

/// What `openssl` says that the signature is.
fn signature(secret: &str, body: &str) -> String {
    let mut openssl = Command::new("openssl")
        .args(["dgst", "-sha256", "-hmac", secret, "-r"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("openssl is installed");
    let mut into = openssl.stdin.take().expect("piped");
    into.write_all(body.as_bytes()).expect("it reads");
    drop(into);
    let output = openssl.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split(' ').next().unwrap_or_default().to_owned()
}

// shows: sink websubhub open, login
#[test]
fn what_is_published_reaches_who_has_subscribed_and_nobody_else() {
    let hub = Hub::new();
    let run = Running::connected(&[&hub.app("LOG", "")], 2);
    let [one, two, other] = [(); 3].map(|()| subscriber(|_| ok("")));
    hub.change("subscribe", &callback(&one), "a", &[("hub.secret", "s&1")]);
    let lease = [("hub.lease_seconds", "3600")];
    hub.change("subscribe", &callback(&two), "a", &lease);
    hub.change("subscribe", &callback(&other), "http://t/b", &[]);
    run.out_has("request : Event", 3);
    // Asked as the recommendation says, behind the callback's own query.
    let asked = &two.wait_for(1)[0];
    let start = "GET /c?own=1&hub.mode=subscribe&hub.topic=a&hub.challenge=";
    assert!(asked.head.starts_with(start), "{}", asked.head);
    assert!(
        asked.head.contains("&hub.lease_seconds=3600 "),
        "{}",
        asked.head
    );
    assert!(
        other.wait_for(1)[0]
            .head
            .contains("&hub.topic=http%3A%2F%2Ft%2Fb&")
    );
    hub.publish("a", &["first"]);
    assert_eq!(texts(&one, 1), ["first"]);
    assert_eq!(texts(&two, 1), ["first"]);
    let (signed, plain) = (&payloads(&one)[0], &payloads(&two)[0]);
    let expect = format!("X-Hub-Signature: sha256={}", signature("s&1", &signed.body));
    assert!(signed.has(&expect), "{expect}: {}", signed.head);
    assert!(!plain.head.to_lowercase().contains("x-hub-signature"));
    let link = format!("Link: <{}>; rel=\"hub\", <a>; rel=\"self\"", hub.url("hub"));
    for header in [&link, "Content-Type: application/json", "X-Own: yes"] {
        assert!(plain.has(header), "{header}: {}", plain.head);
    }
    // A second subscription takes the place of the first.
    hub.change("subscribe", &callback(&one), "a", &[("hub.secret", "s2")]);
    hub.change("unsubscribe", &callback(&two), "a", &[]);
    run.out_has("request : Event", 5);
    hub.publish("a", &["second"]);
    assert_eq!(texts(&one, 2), ["first", "second"]);
    let signed = &payloads(&one)[1];
    let expect = format!("X-Hub-Signature: sha256={}", signature("s2", &signed.body));
    assert!(signed.has(&expect), "{expect}: {}", signed.head);
    hub.publish("http://t/b", &["elsewhere"]);
    assert_eq!(texts(&other, 1), ["elsewhere"]);
    // A table like any other.
    hub.publish("list", &[""]);
    for kept in [&one, &other] {
        run.out_has(&format!("data=[{}, h]", callback(kept)), 1);
    }
    let (code, summary) = run.stop();
    assert_eq!(code, Some(0), "{summary}");
    assert_eq!(texts(&one, 2).len(), 2);
    assert_eq!(texts(&two, 1), ["first"]);
    assert_eq!(number(&summary, "sinks", "News", "failed"), 0);
}

// shows: sink websubhub bad
#[test]
fn a_request_that_cannot_be_is_refused_and_one_that_is_not_meant_is_dropped() {
    let hub = Hub::new();
    let run = Running::connected(&[&hub.app("LOG", "")], 2);
    let good = subscriber(|_| ok(""));
    let good = callback(&good);
    for (form, cause) in [
        (
            &[("hub.mode", "subscribe"), ("hub.topic", "a")][..],
            "'hub.callback' is missing",
        ),
        (
            &[
                ("hub.callback", &good),
                ("hub.mode", "subscribe"),
                ("hub.topic", "c"),
            ],
            "'hub.topic' is not a topic of this hub",
        ),
        (
            &[
                ("hub.callback", "mailto:x"),
                ("hub.mode", "subscribe"),
                ("hub.topic", "a"),
            ],
            "not an http or https URL",
        ),
    ] {
        let (status, answer) = hub.ask(form);
        assert_eq!(status, "400", "{answer}");
        assert!(answer.contains(cause), "{answer}");
    }
    assert_eq!(curl(&[&hub.url("hub")]).0, "405");
    assert_eq!(curl(&["-X", "POST", &hub.url("hub")]).0, "405");
    // Nobody who has not asked for it is subscribed by others.
    let says_no = Stub::start(0, |_| {
        "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n".to_owned()
    });
    let says_nothing_of_it = Stub::start(0, |_| ok("hello"));
    for stub in [&says_no, &says_nothing_of_it] {
        hub.change("subscribe", &callback(stub), "a", &[]);
    }
    hub.change(
        "subscribe",
        &format!("http://127.0.0.1:{}/", free_port()),
        "a",
        &[],
    );
    run.err_has("callback did not confirm", 3);
    hub.publish("a", &["no subscriber"]);
    let (_, summary) = run.stop();
    assert_eq!(number(&summary, "sources", "Requests", "events"), 0);
    assert_eq!(
        (says_no.got().len(), says_nothing_of_it.got().len()),
        (1, 1)
    );
}

#[test]
fn a_subscription_ends_with_its_lease() {
    let hub = Hub::new();
    let run = Running::connected(&[&hub.app("LOG", "")], 2);
    let [short, long] = [(); 2].map(|()| subscriber(|_| ok("")));
    hub.change(
        "subscribe",
        &callback(&short),
        "a",
        &[("hub.lease_seconds", "6")],
    );
    hub.change("subscribe", &callback(&long), "a", &[]);
    run.out_has("request : Event", 2);
    let mut published = 0;
    eventually("the end of the lease", || {
        let text = published.to_string();
        hub.publish("a", &[&text]);
        published += 1;
        texts(&long, published);
        payloads(&short).len() + 2 < published
    });
    assert!(!payloads(&short).is_empty());
    // The record goes with the next request.
    hub.change("subscribe", &callback(&long), "http://t/b", &[]);
    run.out_has("request : Event", 3);
    hub.publish("list", &[""]);
    run.out_has(&format!("data=[{}, h]", callback(&long)), 2);
    assert!(!run.out().contains(&callback(&short)));
    run.stop();
}

/// Subscriptions outlive the process: with its state, or in a store that others can read.
// shows: sink websubhub resume, reload
#[test]
fn subscriptions_outlive_a_crash_and_may_lie_in_a_database() {
    for in_store in [false, true] {
        let hub = Hub::new();
        let database = hub.path("hub.db");
        let store = format!(
            "@store(type='rdbms', jdbc.url='jdbc:sqlite:{database}', username='', password='', jdbc.driver.name='org.sqlite.JDBC')\n"
        );
        let app = hub.app("LOG", if in_store { &store } else { "" });
        let state = hub.path("state");
        let args = match in_store {
            true => vec![app.as_str()],
            false => vec![&app, "--state", &state, "--state-interval", "50ms"],
        };
        let run = Running::connected(&args, 2);
        let one = subscriber(|_| ok(""));
        hub.change("subscribe", &callback(&one), "a", &[("hub.secret", "s")]);
        run.out_has("request : Event", 1);
        hub.publish("a", &["before"]);
        texts(&one, 1);
        if in_store {
            eventually("the record", || {
                let database = rusqlite::Connection::open(&database).expect("it opens");
                let found = database.query_row(
                    "SELECT callback, topic, hub_id, secret, lease_seconds FROM Subscriptions",
                    [],
                    |row| {
                        let text = |at| row.get::<_, String>(at);
                        Ok((
                            text(0)?,
                            text(1)?,
                            text(2)?,
                            text(3)?,
                            row.get::<_, i64>(4)?,
                        ))
                    },
                );
                found.is_ok_and(|found| {
                    let of = |text: &str| text.to_owned();
                    found == (callback(&one), of("a"), of("h"), of("s"), 864_000)
                })
            });
        }
        // With state the answer to what was published says that all before it is saved.
        run.kill();
        let run = Running::connected(&args, 2);
        hub.publish("a", &["after"]);
        assert_eq!(texts(&one, 2), ["after", "before"]);
        run.reload();
        hub.publish("a", &["then"]);
        assert_eq!(texts(&one, 3), ["after", "before", "then"]);
        run.stop();
    }
}

// shows: sink websubhub lost, slow, error
#[test]
fn a_subscriber_that_fails_is_tried_again_and_costs_the_others_nothing() {
    let hub = Hub::new();
    let state = hub.path("state");
    let app = hub.app("STORE", "");
    let args = [app.as_str(), "--state", &state, "--state-interval", "100ms"];
    let run = Running::connected(&args, 2);
    let refuses = Arc::new(AtomicBool::new(true));
    let good = subscriber(|_| ok(""));
    let recovers = subscriber({
        let refuses = Arc::clone(&refuses);
        move |_| match refuses.swap(false, Ordering::SeqCst) {
            true => "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n".to_owned(),
            false => ok(""),
        }
    });
    let status = |line: &'static str| {
        subscriber(move |_| format!("HTTP/1.1 {line}\r\nContent-Length: 0\r\n\r\n"))
    };
    let (broken, refused, gone) = (status("500 No"), status("403 No"), status("410 Gone"));
    let curt = subscriber(|_| String::new());
    let all = [&good, &recovers, &broken, &refused, &gone, &curt];
    for stub in all {
        hub.change("subscribe", &callback(stub), "a", &[]);
    }
    run.out_has("request : Event", all.len());
    hub.publish("a", &["1"]);
    assert_eq!(texts(&good, 1), ["1"]);
    assert_eq!(texts(&recovers, 2), ["1", "1"]);
    // Three tries for a fault that may pass, one for an answer that says no.
    assert_eq!(texts(&broken, 3).len(), 3);
    let given_up = |count| {
        let found = || errors(&state).matches("\"number\":").count();
        eventually("it is given up", || found() == count);
    };
    // Of each payload: broken, refused and curt.
    given_up(3);
    hub.publish("a", &["2"]);
    assert_eq!(texts(&good, 2), ["1", "2"]);
    given_up(6);
    let (code, summary) = run.stop();
    assert_eq!(code, Some(4), "{summary}");
    assert_eq!(payloads(&gone).len(), 1, "it was not sent anything more");
    assert_eq!(payloads(&refused).len(), 2);
    assert_eq!(payloads(&broken).len(), 4, "one try while it fails");
    assert_eq!(number(&summary, "sinks", "News", "failed"), 6);
}

/// With the default of any other app, where nothing was allowed; a subscription of its own beside those
/// that are asked for.
const CAREFUL: &str = "@app:name('Careful')
@source(type='websubhub', hub.id='h', table.name='Subscriptions', topic.list='a', receiver.url='http://127.0.0.1:{port}/hub', {networks} @map(type='keyvalue', implicit.cast.enable='true'))
define stream Requests (callback string, topic string, mode string, lease_seconds long, secret string);
@source(type='http', receiver.url='http://127.0.0.1:{port}/news', @map(type='json'))
define stream In (topic string, text string);
@sink(type='websubhub', hub.id='h', table.name='Subscriptions', on.error='WAIT', @map(type='json'))
define stream News (topic string, text string);
define trigger Beginning at 'start';
from Beginning select '{callback}' as callback, 'a' as topic, 'subscribe' as mode, 3600L as lease_seconds, '' as secret, 'h' as hub_id, eventTimestamp() as request_timestamp insert into Subscriptions;
from In select * insert into News;
";

#[test]
fn callbacks_in_networks_of_our_own_are_not_called_unless_they_may_be() {
    let hub = Hub::new();
    let one = subscriber(|_| ok(""));
    let app = CAREFUL.replace("{callback}", &callback(&one));
    let careful = hub.write(&app.replace("{networks}", ""));
    let run = Running::connected(&[&careful], 2);
    let port = one.port;
    for place in [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        format!("2130706433:{port}"),
        format!("[::1]:{port}"),
        format!("[::ffff:127.0.0.1]:{port}"),
        format!("0.0.0.0:{port}"),
        "169.254.169.254".to_owned(),
        "10.0.0.1".to_owned(),
        "192.168.0.1".to_owned(),
        "[fe80::1]".to_owned(),
        "224.0.0.1".to_owned(),
    ] {
        let form = [
            ("hub.callback", &*format!("http://{place}/c")),
            ("hub.mode", "subscribe"),
            ("hub.topic", "a"),
        ];
        let (status, answer) = hub.ask(&form);
        assert_eq!(status, "403", "{place}: {answer}");
        assert!(
            answer.contains("'hub.callback' is at an address"),
            "{answer}"
        );
    }
    // One that the table has, as where its name leads elsewhere by now: who waits does not wait for it,
    // and no pause before another try, of which there are five seconds in all.
    let since = Instant::now();
    hub.publish("a", &["first"]);
    run.err_has("neither a public address", 1);
    assert!(since.elapsed() < NOTICED, "{:?}", since.elapsed());
    let (code, summary) = run.stop();
    assert_eq!(code, Some(4), "{summary}");
    assert_eq!(number(&summary, "sinks", "News", "failed"), 1);
    assert!(one.got().is_empty());
    let networks = "callback.networks='10.0.0.0/8, 127.0.0.1',";
    let run = Running::connected(&[&hub.write(&app.replace("{networks}", networks))], 2);
    hub.publish("a", &["second"]);
    assert_eq!(texts(&one, 1), ["second"]);
    assert_eq!(run.stop().0, Some(0));
    let bad = app.replace("{networks}", "callback.networks='127.0.0.0/8, home',");
    let run = Running::start(&[&hub.write(&bad)]);
    run.err_has("has 'home', which is not a network", 1);
}

const NAMED: &str = "@app:name('Hub')
@source(ref='hub', @map(type='keyvalue', implicit.cast.enable='true'))
define stream Requests (callback string, topic string, mode string, lease_seconds long, secret string);
@source(type='http', receiver.url='http://127.0.0.1:{port}/news', @map(type='json'))
define stream In (topic string, text string);
@sink(ref='out', @map(type='json'))
define stream News (topic string, text string);
@sink(type='log', prefix='request')
define stream Seen (mode string);
from Requests select mode insert into Seen;
from In select * insert into News;
";

const NAMES: &str = "siddhi:
  refs:
    - ref:
        name: hub
        type: websubhub
        properties:
          hub.id: h
          table.name: Subscriptions
          topic.list: a
          receiver.url: http://127.0.0.1:{port}/hub
          callback.networks: 127.0.0.1
    - ref:
        name: out
        type: websubhub
        properties:
          hub.id: h
          table.name: Subscriptions
";

#[test]
fn a_hub_may_be_named_by_the_deployment() {
    let hub = Hub::new();
    let config = hub.path("deployment.yaml");
    let names = NAMES.replace("{port}", &hub.port.to_string());
    fs::write(&config, names).expect("the folder can be written");
    let run = Running::connected(&[&hub.write(NAMED), "--config", &config], 2);
    let one = subscriber(|_| ok(""));
    hub.change("subscribe", &callback(&one), "a", &[("hub.secret", "s")]);
    run.out_has("request : Event", 1);
    hub.publish("a", &["first"]);
    assert_eq!(texts(&one, 1), ["first"]);
    let got = &payloads(&one)[0];
    let link = format!("Link: <{}>; rel=\"hub\", <a>; rel=\"self\"", hub.url("hub"));
    let signed = format!("X-Hub-Signature: sha256={}", signature("s", &got.body));
    assert!(got.has(&link) && got.has(&signed), "{}", got.head);
    hub.change("unsubscribe", &callback(&one), "a", &[]);
    run.out_has("request : Event", 2);
    hub.publish("a", &["second"]);
    assert_eq!(run.stop().0, Some(0));
    assert_eq!(texts(&one, 1), ["first"]);
}

// shows: sink websubhub resume
#[test]
fn what_a_callback_has_confirmed_is_saved_at_once() {
    let hub = Hub::new();
    let (app, state) = (hub.app("LOG", ""), hub.path("state"));
    let args = [app.as_str(), "--state", &state, "--state-interval", "1h"];
    let run = Running::connected(&args, 2);
    let [stays, leaves] = [(); 2].map(|()| subscriber(|_| ok("")));
    for stub in [&stays, &leaves] {
        hub.change("subscribe", &callback(stub), "a", &[]);
    }
    run.err_has("subscription changed", 2);
    hub.change("unsubscribe", &callback(&leaves), "a", &[]);
    run.err_has("subscription changed", 3);
    run.kill();
    let run = Running::connected(&args, 2);
    hub.publish("a", &["after"]);
    assert_eq!(texts(&stays, 1), ["after"]);
    run.stop();
    assert!(payloads(&leaves).is_empty());
}

#[test]
fn a_stop_ends_the_pauses_before_another_try() {
    let hub = Hub::new();
    let run = Running::connected(&[&hub.app("LOG", "")], 2);
    let broken = subscriber(|_| "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n".to_owned());
    hub.change("subscribe", &callback(&broken), "a", &[]);
    run.out_has("request : Event", 1);
    // It reads the question and hangs up.
    let asked = Arc::new(AtomicUsize::new(0));
    let curt = Stub::start(0, {
        let asked = Arc::clone(&asked);
        move |_| {
            asked.fetch_add(1, Ordering::SeqCst);
            String::new()
        }
    });
    hub.change("subscribe", &callback(&curt), "a", &[]);
    hub.publish("a", &["lost"]);
    // Behind the second of three tries the pause is the longest.
    eventually("two tries of both", || {
        payloads(&broken).len() == 2 && asked.load(Ordering::SeqCst) == 2
    });
    run.stops();
    run.err_has("the hub stops before it is asked again", 1);
    let (code, summary) = run.end();
    assert_eq!(code, Some(4), "{summary}");
    assert_eq!(number(&summary, "sinks", "News", "failed"), 1);
    assert_eq!(payloads(&broken).len(), 2);
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

const SECURE: &str = "@app:name('Secure')
@source(type='websubhub', hub.id='h', table.name='T', topic.list='a', receiver.url='https://localhost:{port}/hub', callback.networks='127.0.0.1', @map(type='keyvalue', implicit.cast.enable='true'))
define stream Requests (callback string, topic string, mode string, lease_seconds long, secret string);
@source(type='http', receiver.url='https://localhost:{port}/callback', @map(type='json'))
define stream Back (topic string, text string);
@source(type='http', receiver.url='https://localhost:{port}/news', @map(type='json'))
define stream News (topic string, text string);
@sink(type='websubhub', hub.id='h', hub.url='https://hub.example/h', table.name='T', https.truststore.file='{keys}/server.p12', @map(type='json'))
define stream Out (topic string, text string);
@sink(type='log', prefix='back')
define stream Got (text string);
define table T (callback string, topic string, mode string, lease_seconds long, secret string, hub_id string, request_timestamp long);
define trigger Beginning at 'start';
from Beginning select 'https://localhost:{port}/callback' as callback, 'a' as topic, 'subscribe' as mode, 3600L as lease_seconds, 's' as secret, 'h' as hub_id, eventTimestamp() as request_timestamp insert into T;
from News select * insert into Out;
from Back select text insert into Got;
";

// shows: sink websubhub tls
#[test]
fn hub_and_callback_speak_tls_and_the_app_may_define_the_table() {
    let hub = Hub::new();
    let keys = Path::new(env!("CARGO_MANIFEST_DIR")).join("../connect/src/net/testdata");
    let keys = keys.display().to_string();
    let text = SECURE
        .replace("{port}", &hub.port.to_string())
        .replace("{keys}", &keys);
    let app = hub.path("secure.siddhi");
    fs::write(&app, text).expect("the folder can be written");
    let config = hub.path("deployment.yaml");
    let text = format!(
        "siddhi:\n  extensions:\n    - extension:\n        name: http\n        namespace: source\n        \
         properties:\n          keyStoreLocation: {keys}/server.jks\n          keyStorePassword: wso2carbon\n          \
         keyPassword: secret12\n"
    );
    fs::write(&config, text).expect("the folder can be written");
    let run = Running::connected(&[&app, "--config", &config], 3);
    let trust = format!("{keys}/server.pem");
    let post = |path: &str, body: &str| {
        let url = format!("https://localhost:{}/{path}", hub.port);
        curl(&["--cacert", &trust, "-d", body, &url])
    };
    assert_eq!(post("news", r#"{"topic":"a","text":"hello"}"#).0, "200");
    run.out_has("data=[hello]", 1);
    let one = subscriber(|_| ok(""));
    let form = format!(
        "hub.mode=subscribe&hub.topic=a&hub.callback={}",
        callback(&one)
    );
    // The form is not encoded: `?` may stand in it.
    assert_eq!(post("hub", &form).0, "202");
    one.wait_for(1);
    eventually("the subscription", || {
        post("news", r#"{"topic":"a","text":"again"}"#);
        !payloads(&one).is_empty()
    });
    let link = "Link: <https://hub.example/h>; rel=\"hub\", <a>; rel=\"self\"";
    assert!(payloads(&one)[0].has(link), "{}", payloads(&one)[0].head);
    run.stop();
}
