//! Mails against aiosmtpd.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use crate::broker::Apps;
use crate::network::{NOTICED, Running, Throttle, eventually, number};
use testservers::Order;

// row: sink email | smtp
// n/a bad: a sink reads no payload

const SENDER: &str = "@app:name('Sender')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='false', file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
define stream In (n long, text string);
@sink(type='email', host='localhost', port='{port}', address='Us <us@example.org>', username='anna', password='geheim-17', subject='mail {{n}} é', to='{{to}}', on.error='{policy}', {options},
  @map(type='text', @payload(\"\"\"{{text}}
.a line that begins with a dot\"\"\")))
define stream Out (n long, text string, to string);
from In select n, text, {recipient} as to insert into Out;
";

const PLAIN: &str = "ssl.enable='false', auth='false'";

fn write(apps: &Apps, policy: &str, to: &str, options: &str) -> String {
    let app = SENDER
        .replace("{policy}", policy)
        .replace("{recipient}", to);
    apps.write("sender", &app, options)
}

/// The mails that a server has, in order.
fn mails(server: &testservers::Running) -> Vec<String> {
    let of = |number: usize| server.place().data().join(format!("{number}.eml"));
    let there = (1..).map(of).take_while(|path: &PathBuf| path.is_file());
    let read = |path: PathBuf| fs::read(path).expect("it can be read");
    there
        .map(|path| String::from_utf8(read(path)).expect("mails are text"))
        .collect()
}

// shows: sink email open, order
#[test]
fn mails_arrive_as_the_event_says() {
    let Some(server) = Order::new().start_or_skip("smtp") else {
        return;
    };
    let apps = Apps::new(server.port(), 3);
    let files = apps.path("files");
    fs::create_dir(&files).expect("a new folder");
    for name in ["one.txt", "two.bin"] {
        fs::write(format!("{files}/{name}"), name).expect("there is room");
    }
    let options = format!(
        "{PLAIN}, cc='c@example.org', bcc='hidden@example.org, also@example.org', content.type='text/html', \
         attachments='{files}, {}'",
        apps.path("in.csv")
    );
    let to = "ifThenElse(n == 1L, 'x@example.org, Y <y@example.org>', 'z@example.org')";
    let sender = Running::start(&[&write(&apps, "WAIT", to, &options), "--until-done"]);
    let (code, summary) = sender.end();
    assert_eq!(code, Some(0), "{summary}");
    assert_eq!(number(&summary, "sinks", "Out", "events"), 3);
    let mails = mails(&server);
    assert_eq!(mails.len(), 3);
    let envelope = "X-From: us@example.org\r\nX-To: x@example.org\r\nX-To: y@example.org\r\nX-To: c@example.org\r\n\
                    X-To: hidden@example.org\r\nX-To: also@example.org\r\n";
    assert!(mails[1].starts_with(envelope), "{}", mails[1]);
    for (n, mail) in mails.iter().enumerate() {
        for part in [
            "From: Us <us@example.org>\r\n",
            "Cc: c@example.org\r\n",
            "Content-Type: text/html; charset=utf-8\r\n",
            "filename=\"one.txt\"",
            "filename=\"two.bin\"",
            "filename=\"in.csv\"",
            &format!("Subject: mail {n} =?utf-8?b?w6k=?=\r\n"),
            &format!("row {n} =C3=A9\r\n.a line that begins with a dot\r\n"),
        ] {
            assert!(mail.contains(part), "{part} in {mail}");
        }
        assert!(!mail.contains("Bcc"), "{mail}");
    }
}

// shows: sink email error
#[test]
fn what_a_server_says_decides_where_an_event_goes() {
    let Some(server) = Order::new().start_or_skip("smtp") else {
        return;
    };
    let apps = Apps::new(server.port(), 4);
    let state = apps.path("state");
    let to = "ifThenElse(n == 1L, 'a@example.org, nobody@example.org', ifThenElse(n == 2L, 'later@example.org', 'a@example.org'))";
    let sending = write(&apps, "LOG", to, PLAIN);
    let (code, summary) = Running::start(&[&sending, "--until-done", "--state", &state]).end();
    assert_eq!(code, Some(4), "{summary}");
    assert_eq!(number(&summary, "sinks", "Out", "failed"), 2);
    let mails = mails(&server);
    assert_eq!(mails.len(), 2, "nobody got a mail that not all could get");
    assert!(mails[1].contains("row 3"), "{}", mails[1]);
    let errors = crate::broker::errors(&state);
    for said in [
        "recipient 'nobody@example.org': the server answers 550",
        "recipient 'later@example.org': the server answers 451",
    ] {
        assert!(errors.contains(said), "{errors}");
    }
}

// shows: sink email resume, lost
#[test]
fn a_server_that_was_away_gets_every_mail() {
    let Some(mut server) = Order::new().start_or_skip("smtp") else {
        return;
    };
    let apps = Apps::new(server.port(), 200);
    server.stop();
    let sender = Running::start(&[
        &write(&apps, "WAIT", "'a@example.org'", PLAIN),
        "--until-done",
    ]);
    sender.err_has("cannot connect sink", 1);
    server.restart().expect("it starts again");
    let (code, summary) = sender.end();
    assert_eq!(code, Some(0), "{summary}");
    let mails = mails(&server);
    assert_eq!(mails.len(), 200);
    for (n, mail) in mails.iter().enumerate() {
        assert!(mail.contains(&format!("row {n} ")), "{n}: {mail}");
    }
}

// shows: sink email login
#[test]
fn only_who_has_the_password_may_send() {
    let order = Order::new().with("user", "anna:geheim-17");
    let Some(server) = order.start_or_skip("smtp") else {
        return;
    };
    let apps = Apps::new(server.port(), 1);
    let right = write(&apps, "WAIT", "'a@example.org'", "ssl.enable='false'");
    assert_eq!(Running::start(&[&right, "--until-done"]).end().0, Some(0));
    assert_eq!(mails(&server).len(), 1);
    let app = SENDER
        .replace("geheim-17", "geheim-18")
        .replace("{policy}", "LOG");
    let app = app.replace("{recipient}", "'a@example.org'");
    let wrong = apps.write("wrong", &app, "ssl.enable='false'");
    let run = Running::start(&[&wrong, "--until-done"]);
    run.err_has("535", 1);
    let said = format!("{}{}", run.err(), run.out());
    assert!(!said.contains("geheim"), "{said}");
    assert_eq!(run.end().0, Some(4));
    // Who does not log in is not heard.
    let silent = write(&apps, "LOG", "'a@example.org'", PLAIN);
    assert_eq!(Running::start(&[&silent, "--until-done"]).end().0, Some(4));
    assert_eq!(mails(&server).len(), 1);
}

// shows: sink email tls
#[test]
fn tls_from_the_start_and_by_an_upgrade() {
    let pem = crate::broker::key_file("server.pem");
    let store = crate::broker::key_file("server.p12");
    for (key, options, more) in [
        ("tls", "auth='false'", ("mail.smtp.timeout", "20000")),
        ("starttls", PLAIN, ("mail.smtp.starttls.required", "true")),
    ] {
        let Some(server) = Order::new().with(key, &pem).start_or_skip("smtp") else {
            return;
        };
        let apps = Apps::new(server.port(), 2);
        let sending = write(&apps, "LOG", "'a@example.org'", options);
        let trusting = apps.deployment(&[(
            "sink",
            "email",
            vec![("trustStoreLocation", store.as_str()), more],
        )]);
        let run = Running::start(&[&sending, "--until-done", "--config", &trusting]);
        let (code, summary) = run.end();
        assert_eq!(code, Some(0), "{key}: {summary}");
        assert_eq!(mails(&server).len(), 2);
        let strange = apps.deployment(&[("sink", "email", vec![more])]);
        let run = Running::start(&[&sending, "--until-done", "--config", &strange]);
        run.err_has("certificate", 1);
        assert_eq!(run.end().0, Some(4));
        assert_eq!(mails(&server).len(), 2);
    }
}

// shows: sink email lost
#[test]
fn a_server_that_stands_still_is_named_and_waited_for() {
    let Some(server) = Order::new().start_or_skip("smtp") else {
        return;
    };
    let apps = Apps::new(server.port(), 1);
    let app = SENDER
        .replace(
            "tailing='false'",
            "tailing='true', file.polling.interval='50'",
        )
        .replace("{policy}", "WAIT")
        .replace("{recipient}", "'a@example.org'");
    let sender = Running::connected(&[&apps.write("sender", &app, PLAIN)], 1);
    eventually("the first mail", || mails(&server).len() == 1);
    server.freeze();
    let frozen = Instant::now();
    let mut input = fs::File::options()
        .append(true)
        .open(apps.path("in.csv"))
        .expect("it is there");
    writeln!(input, "1,row 1 é").expect("there is room");
    sender.err_has("mail server is not responding", 1);
    assert!(frozen.elapsed() < NOTICED, "{:?}", frozen.elapsed());
    server.thaw();
    sender.err_has("mail server is responding again", 1);
    eventually("the other mail", || mails(&server).len() == 2);
    assert_eq!(sender.stop().0, Some(0));
    assert_eq!(mails(&server).len(), 2, "each once");
}

// shows: sink email slow
#[test]
fn a_server_that_takes_mails_slowly_holds_the_app_and_gets_all_in_order() {
    const MAILS: u64 = 300;
    const BYTES_PER_SECOND: u64 = 60_000;
    let Some(server) = Order::new().start_or_skip("smtp") else {
        return;
    };
    let throttle = Throttle::start(0, server.port(), BYTES_PER_SECOND);
    let apps = Apps::new(throttle.port, MAILS);
    let sending = write(&apps, "WAIT", "'a@example.org'", PLAIN);
    let begun = Instant::now();
    let (code, summary) = Running::start(&[&sending, "--until-done"]).end();
    let took = begun.elapsed();
    assert_eq!(code, Some(0), "{summary}");
    let least = throttle.least();
    assert!(took >= least && !least.is_zero(), "{took:?} of {least:?}");
    let mails = mails(&server);
    assert_eq!(mails.len() as u64, MAILS);
    for (n, mail) in mails.iter().enumerate() {
        assert!(mail.contains(&format!("row {n} ")), "{n}: {mail}");
    }
}

// shows: sink email reload
#[test]
fn reloads_while_mails_are_sent_send_each() {
    let Some(server) = Order::new().start_or_skip("smtp") else {
        return;
    };
    let apps = Apps::new(server.port(), 0);
    let write = |note: u64| {
        let app = SENDER
            .replace("tailing='false'", "tailing='true'")
            .replace("{policy}", "WAIT")
            .replace("{recipient}", "'a@example.org'");
        apps.write("sender", &format!("-- edit {note}\n{app}"), PLAIN)
    };
    let sender = Running::connected(&[&write(0)], 1);
    for block in 1..=3 {
        let mut input = fs::File::options()
            .append(true)
            .open(apps.path("in.csv"))
            .expect("it is there");
        for n in (block - 1) * 20..block * 20 {
            writeln!(input, "{n},row {n} é").expect("there is room");
        }
        write(block);
        sender.reload();
        sender.err_has("apps reloaded change", block as usize);
    }
    let has =
        |mails: &[String], n: u64| mails.iter().any(|mail| mail.contains(&format!("row {n} ")));
    eventually("all mails", || {
        let mails = mails(&server);
        (0..60).all(|n| has(&mails, n))
    });
    assert_eq!(sender.stop().0, Some(0));
    let sent = mails(&server);
    assert_eq!(sent.len(), 60, "each once");
}
