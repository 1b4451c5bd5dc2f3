//! The `email` source on Dovecot; Python's own client puts mails in and looks at them.

use std::process::Command;
use std::time::Instant;

use crate::broker::Apps;
use crate::network::{NOTICED, Running, eventually, number};
use testservers::{Order, Running as Server};

// row: source email | dovecot
// n/a slow: it asks for one mail after the other
// n/a reload: each look is a connection of its own: as after a stop
// n/a error: `on.error` belongs to sinks

/// Runs lines of Python with a logged-in client `box`; what they print.
#[track_caller]
fn python(server: &Server, user: &str, lines: &str) -> String {
    let script = format!(
        "import imaplib, email.message\n\
         box = imaplib.IMAP4('127.0.0.1', {})\n\
         box.login('{user}', 'pass')\n\
         def put(subject, text, kind='plain', to='INBOX'):\n\
         \x20   mail = email.message.EmailMessage()\n\
         \x20   mail['From'], mail['To'], mail['Subject'] = 'a@example.org', 'b@example.org', subject\n\
         \x20   mail.set_content(text, subtype=kind)\n\
         \x20   assert box.append(to, None, None, mail.as_bytes())[0] == 'OK'\n\
         def found(folder, criteria):\n\
         \x20   box.select(folder)\n\
         \x20   return len(box.search(None, criteria)[1][0].split())\n\
         {lines}",
        server.port()
    );
    let output = Command::new("python3").args(["-c", &script]).output();
    let output = output.expect("python3 starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

const APP: &str = "@app:name('Mails')
@source(type='email', username='{user}', password='pass', host='127.0.0.1', port='{port}', {options},
        @map(type='json', fail.on.missing.attribute='false', @attributes(n='$.n', subject='trp:Subject', sender='trp:From')))
@sink(type='file', file.uri='file:{dir}/out.csv', @map(type='csv'))
define stream S (n int, subject string, sender string);
";

fn app(apps: &Apps, user: &str, options: &str) -> String {
    apps.write("Mails", &APP.replace("{user}", user), options)
}

// shows: source email open, order, resume, bad
#[test]
fn mails_come_once_with_their_headers() {
    let Some(server) = Order::new().start_or_skip("dovecot") else {
        return;
    };
    let apps = Apps::new(server.port(), 0);
    let lines = "for n in range(5): put('order %d' % n, '{\"n\":%d}' % n)\n\
                 put('other', '{\"n\":100}')\n\
                 put('order as html', '{\"n\":200}', 'html')\n\
                 put('order broken', '{\"n\"')";
    python(&server, "one", lines);
    let state = apps.path("state");
    let path = app(
        &apps,
        "one",
        "ssl.enable='false', search.term='subject:order, from:a@example', polling.interval='1', content.type='text/plain'",
    );
    let running = Running::connected(&[&path, "--state", &state], 1);
    let expect: String = (0..5)
        .map(|n| format!("{n},order {n},a@example.org\n"))
        .collect();
    eventually("five mails", || apps.received() == expect);
    python(&server, "one", "put('order 5', '{\"n\":5}')");
    let expect = format!("{expect}5,order 5,a@example.org\n");
    eventually("the sixth", || apps.received() == expect);
    let (_, summary) = running.stop();
    assert_eq!(number(&summary, "sources", "S", "rejected"), 2, "{summary}");
    // What was read is not read again, by its number, whatever its marks say.
    python(
        &server,
        "one",
        "box.select(); box.store('1:*', '-FLAGS', '\\\\Seen'); put('order 6', '{\"n\":6}')",
    );
    let again = Running::connected(&[&path, "--state", &state], 1);
    eventually("the seventh", || {
        apps.received().ends_with("6,order 6,a@example.org\n")
    });
    again.stop();
    assert_eq!(apps.received().lines().count(), 7);
}

#[test]
fn what_is_done_with_a_mail_is_done_after_it() {
    let Some(server) = Order::new().start_or_skip("dovecot") else {
        return;
    };
    for (user, options, look) in [
        ("seen", "", "found('INBOX', 'SEEN') == 3"),
        (
            "flagged",
            "action.after.processed='FLAGGED',",
            "found('INBOX', 'FLAGGED') == 3",
        ),
        (
            "answered",
            "action.after.processed='ANSWERED',",
            "found('INBOX', 'ANSWERED') == 3",
        ),
        (
            "none",
            "action.after.processed='NONE',",
            "found('INBOX', 'UNSEEN') == 3",
        ),
        (
            "delete",
            "action.after.processed='DELETE',",
            "found('INBOX', 'ALL') == 0",
        ),
        (
            "move",
            "action.after.processed='MOVE', folder.to.move='Done', folder='In',",
            "found('In', 'ALL') == 0 and found('Done', 'ALL') == 3",
        ),
    ] {
        let apps = Apps::new(server.port(), 0);
        let folder = if user == "move" { "In" } else { "INBOX" };
        let lines = format!(
            "box.create('In'); box.create('Done')\nfor n in range(3): put('m', '{{\"n\":%d}}' % n, to='{folder}')"
        );
        python(&server, user, &lines);
        let path = app(
            &apps,
            user,
            &format!("{options} ssl.enable='false', polling.interval='1'"),
        );
        let (code, summary) = Running::start(&[&path, "--until-done"]).end();
        assert_eq!(code, Some(0), "{user}: {summary}");
        let lines = "0,m,a@example.org\n1,m,a@example.org\n2,m,a@example.org\n";
        assert_eq!(apps.received(), lines, "{user}");
        assert_eq!(
            python(&server, user, &format!("print({look})")),
            "True",
            "{user}"
        );
    }
}

// shows: source email tls, login
#[test]
fn a_mailbox_behind_tls_wants_its_password() {
    let pem = crate::broker::key_file("server.pem");
    let Some(server) = Order::new().with("tls", &pem).start_or_skip("dovecot") else {
        return;
    };
    let apps = Apps::new(server.port(), 0);
    let store = crate::broker::key_file("server.p12");
    let trust = vec![
        ("trustStoreLocation", store.as_str()),
        ("trustStorePassword", "wso2carbon"),
    ];
    let config = apps.deployment(&[("source", "email", trust)]);
    let path = app(&apps, "secret", "polling.interval='1'");
    let running = Running::connected(&[&path, "--config", &config], 1);
    running.stop();
    // Without the store the server is a stranger.
    let stranger = Running::start(&[&path]);
    stranger.err_has("cannot reach mail server", 1);
    drop(stranger);
    let wrong = APP.replace("'pass'", "'wr0ng'");
    let path = apps.write(
        "Wrong",
        &wrong.replace("{user}", "secret"),
        "polling.interval='1'",
    );
    let refused = Running::start(&[&path, "--config", &config]);
    refused.err_has("it does not let 'secret' in", 1);
    assert!(!refused.err().contains("wr0ng"), "{}", refused.err());
}

// shows: source email lost
#[test]
fn a_server_that_was_away_brings_every_mail() {
    let Some(mut server) = Order::new().start_or_skip("dovecot") else {
        return;
    };
    let apps = Apps::new(server.port(), 0);
    python(&server, "away", "put('m', '{\"n\":1}')");
    let path = app(&apps, "away", "ssl.enable='false', polling.interval='1'");
    let running = Running::connected(&[&path], 1);
    eventually("the first", || apps.received().lines().count() == 1);
    server.kill();
    running.err_has("cannot connect source", 1);
    server.restart().expect("it starts again");
    python(&server, "away", "put('m', '{\"n\":2}')");
    eventually("the second", || apps.received().lines().count() == 2);
    running.stop();
    assert_eq!(apps.received(), "1,m,a@example.org\n2,m,a@example.org\n");
}

// shows: source email lost
#[test]
fn a_server_that_stands_still_is_named_and_waited_for() {
    let Some(server) = Order::new().start_or_skip("dovecot") else {
        return;
    };
    let apps = Apps::new(server.port(), 0);
    python(&server, "still", "put('m', '{\"n\":1}')");
    let path = app(&apps, "still", "ssl.enable='false', polling.interval='1'");
    let running = Running::connected(&[&path], 1);
    eventually("the first", || apps.received().lines().count() == 1);
    server.freeze();
    let frozen = Instant::now();
    running.err_has("mail server is not responding", 1);
    assert!(frozen.elapsed() < NOTICED, "{:?}", frozen.elapsed());
    server.thaw();
    running.err_has("mail server is responding again", 1);
    python(&server, "still", "put('m', '{\"n\":2}')");
    eventually("the second", || apps.received().lines().count() == 2);
    assert_eq!(running.stop().0, Some(0));
}

#[test]
fn what_cannot_be_is_said() {
    let apps = Apps::new(1, 0);
    for (options, cause) in [
        ("store='pop3'", "mails are fetched by IMAP alone"),
        (
            "action.after.processed='MOVE'",
            "needs option 'folder.to.move'",
        ),
        ("search.term='body:x'", "'body:x' is none of"),
        ("port='x'", "port"),
    ] {
        let path = app(&apps, "nobody", options);
        let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
            .args(["run", &path])
            .output();
        let output = output.expect("the binary starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned()
            + &String::from_utf8_lossy(&output.stdout);
        assert!(
            !output.status.success() && said.contains(cause),
            "{options}: {said}"
        );
    }
}
