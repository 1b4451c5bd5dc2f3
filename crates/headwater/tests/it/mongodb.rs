//! Tables in MongoDB, as a server that speaks its protocol has them.

use crate::broker::{Apps, errors, key_file};
use crate::network::{Running, eventually};
use crate::table::Every;
use testservers::{Lent, Order};

// row: store mongodb | mongodb

/// What a script of Python prints in which `d` is the database, its lines in order.
fn python(port: u16, options: &str, script: &str) -> Vec<String> {
    let mut client = testservers::pymongo().expect("the server is installed");
    let script = format!(
        "import sys, pymongo
d = pymongo.MongoClient('mongodb://localhost:{port}/?{options}', serverSelectionTimeoutMS=5000).headwater
{script}"
    );
    let output = client.args(["-c", &script]).output();
    let output = output.expect("python3 is there");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(str::to_owned).collect()
}

fn mongo(port: u16, script: &str) -> Vec<String> {
    python(port, "", script)
}

/// The server that one test at a time has, without what the one before has left.
fn lent() -> Option<Lent> {
    let server = testservers::lent("mongodb")?;
    mongo(server.port(), "d.client.drop_database('headwater')");
    Some(server)
}

const STORE: &str = "@store(type='mongodb', mongodb.uri='mongodb://127.0.0.1:{port}/headwater?appName=every', collection.name='rec') @Index('parity:-1', 'd', '{\"name\": \"mine\", \"sparse\": true}') @Index('text')";

/// A condition that is looked at here.
const PART: &str = "@info(name='h') from In[n == 4L] join T on {condition} select In.n as n, T.n as other insert into Part;
";

fn every(more: &str) -> Every<'_> {
    Every {
        store: STORE,
        seen: ", T.d = T.d + 0.25",
        more,
        last: "4, 4, seen, 2.25, true",
    }
}

// shows: store mongodb open, order
#[test]
fn rows_lie_as_siddhi_has_them_and_every_condition_works() {
    let Some(server) = lent() else {
        return;
    };
    let port = server.port();
    for state in [false, true] {
        mongo(port, "d.client.drop_database('headwater')");
        let part = PART.replace("{condition}", "str:contains(T.text, 'w 2')");
        let out = every(&part).run(&Apps::new(port, 5), state);
        assert!(out.contains("data=[4, 2], "), "{out}");
        let rows = mongo(
            port,
            "for r in d.rec.find({}, {'_id': 0}).sort('n'): print(*[f'{k}={r[k]!r}' for k in sorted(r)])",
        );
        assert_eq!(
            rows,
            [
                "b=False d=0.0 n=0 parity='even' text='row 0 é'",
                "b=False d=0.5 n=1 parity='none' text='changed'",
                "b=False d=1.0 n=2 parity='even' text='row 2 é'",
                "b=True d=2.25 n=4 parity='even' text='seen'",
                "b=True d=10000000000.0 n=9 parity='odd' text='new'",
            ]
        );
        let types = mongo(
            port,
            "print(*[d.rec.count_documents({'n': {'$type': t}}) for t in ('long', 'int')])",
        );
        assert_eq!(types, ["5 0"]);
        let indexes = "for k, v in sorted(d.rec.index_information().items()): print(k, v['key'], v.get('unique', False))";
        assert_eq!(
            mongo(port, indexes),
            [
                "_id_ [('_id', 1)] False",
                "mine [('parity', -1), ('d', 1)] False",
                "n_1 [('n', 1)] True",
                "text_1 [('text', 1)] False",
            ]
        );
    }
}

// shows: store mongodb open
#[test]
fn a_condition_that_the_server_has_no_words_for_is_worked_out_here_or_refused() {
    let Some(server) = lent() else {
        return;
    };
    let apps = Apps::new(server.port(), 5);
    let doubled = PART.replace("{condition}", "T.d * 2.0 == 1.0");
    let app = every(&doubled).text();
    let run = Running::start(&[&apps.write("every", &app, ""), "--until-done"]);
    run.out_has("data=[4, 1], ", 1);
    assert_eq!(run.end().0, Some(0));
    let both = PART.replace(
        "{condition}",
        "T.d * 2.0 == 1.0 or str:contains(T.text, 'w 2')",
    );
    let both = apps.write("both", &every(&both).text(), "");
    let run = Running::start(&[&both]);
    run.err_has("that MongoDB does not know", 1);
    for (from, to, said) in [
        (
            "parity:-1",
            "parity:2",
            "'attribute:1' or 'attribute:-1' is needed",
        ),
        (
            "\"sparse\": true}",
            "\"sparse\"}",
            "an object of JSON is needed",
        ),
        ("'text')", "'text:1', 'txt')", "did you mean 'text'?"),
    ] {
        let bad = apps.write("bad", &app.replace(from, to), "");
        Running::start(&[&bad]).err_has(said, 1);
    }
}

const FILLED: &str = "@app:name('Filled')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='false', file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
define stream In (n long, text string);
@store(type='mongodb', {options}, mongodb.uri='mongodb://localhost:{port}/headwater') @PrimaryKey('n')
define table T (n long, text string);
@store(type='mongodb', {options}, mongodb.uri='mongodb://localhost:{port}/headwater') @PrimaryKey('one')
define table Count (one string, count long);
from In select n, text insert into T;
from In select 'one' as one, 1L as count update or insert into Count set Count.count = Count.count + 1L on Count.one == one;
";

// shows: store mongodb resume
#[test]
fn a_run_that_was_killed_leaves_every_row_once_where_it_has_a_key() {
    let Some(server) = lent() else {
        return;
    };
    let port = server.port();
    let apps = Apps::new(port, 20_000);
    let filled = FILLED
        .split("@store")
        .take(2)
        .collect::<Vec<_>>()
        .join("@store");
    let filled = format!("{filled}from In select n, text insert into T;\n");
    let filled = apps.write("filled", &filled, "");
    let state = apps.path("state");
    let args = [
        filled.as_str(),
        "--until-done",
        "--state",
        &state,
        "--state-interval",
        "100ms",
    ];
    let count = || -> u64 {
        let lines = mongo(port, "print(d.T.count_documents({}))");
        lines[0].parse().expect("a number")
    };
    let run = Running::start(&args);
    eventually("some rows", || count() > 10);
    run.kill();
    let (code, summary) = Running::start(&args).end();
    assert_eq!(code, Some(0), "{summary}");
    assert_eq!(summary["apps"][0]["tables"][0]["failed"], 0, "{summary}");
    let script = "print(d.T.count_documents({}), len(d.T.distinct('n')), d.T.find_one({'n': 19999})['text'])";
    assert_eq!(mongo(port, script), ["20000 20000 row 19999 é"]);
}

// shows: store mongodb bad
#[test]
fn what_is_refused_is_given_back_by_name_and_its_neighbours_are_kept() {
    let Some(server) = lent() else {
        return;
    };
    let port = server.port();
    let apps = Apps::new(port, 4);
    mongo(port, "d.T.insert_one({'n': 2, 'text': 'mine', 'more': 7})");
    let filled = apps.write("filled", FILLED, "");
    let state = apps.path("state");
    let (_, summary) = Running::start(&[&filled, "--until-done", "--state", &state]).end();
    let table = &summary["apps"][0]["tables"][0];
    assert_eq!(
        (&table["inserted"], &table["failed"]),
        (&3.into(), &1.into()),
        "{summary}"
    );
    let errors = errors(&state);
    assert!(errors.contains("E11000 duplicate key"), "{errors}");
    assert!(errors.contains("row 2"), "{errors}");
    assert!(!errors.contains("row 1"), "{errors}");
    let script = "print(*[r['text'] for r in d.T.find().sort('n')], d.T.find_one({'n': 2})['more'])
print(d.Count.find_one()['count'])";
    let found = mongo(port, script);
    assert_eq!(found, ["row 0 é row 1 é mine row 3 é 7", "4"]);
}

// shows: store mongodb login
#[test]
fn a_login_that_is_refused_is_no_outage_and_shows_no_password() {
    let Some(server) = lent() else {
        return;
    };
    let apps = Apps::new(server.port(), 1);
    let app = FILLED.replace(
        "mongodb://localhost",
        "mongodb://anna:geheim%4017@localhost",
    );
    let run = Running::start(&[&apps.write("filled", &app, "")]);
    run.err_has("saslStart", 1);
    let said = format!("{}{}", run.err(), run.out());
    assert!(!said.contains("geheim"), "{said}");
    assert!(!said.contains("again_in_seconds"), "{said}");
}

// shows: store mongodb tls
#[test]
fn tls_asks_for_a_certificate_that_is_trusted() {
    let pem = key_file("server.pem");
    let Some(server) = Order::new().with("tls", &pem).start_or_skip("mongodb") else {
        return;
    };
    let port = server.port();
    let apps = Apps::new(port, 3);
    let stores = format!(
        "secure.connection='true', trust.store='{}', trust.store.password='wso2carbon', \
         key.store='{}', key.store.password='wso2carbon'",
        key_file("server.p12"),
        key_file("server.p12"),
    );
    let trusting = apps.write("trusting", FILLED, &stores);
    let (code, summary) = Running::start(&[&trusting, "--until-done"]).end();
    assert_eq!(code, Some(0), "{summary}");
    let options = "tls=true&tlsAllowInvalidCertificates=true";
    let found = python(port, options, "print(d.T.count_documents({}))");
    assert_eq!(found, ["3"]);
    // Nobody has signed it but itself.
    let doubting = apps.write("doubting", FILLED, "secure.connection='true'");
    let run = Running::start(&[&doubting]);
    run.err_has("ertificate", 1);
}
