//! Secrets that are planted in every place that can hold one, and looked for in everything that a run and
//! the commands around it say and leave behind.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

mod broker;
mod network;

use network::{curl, free_port};

/// Sinks with all that can be secret in them. Nobody listens at `{port}`: what is said about a peer that
/// is away is said, too.
const SINKS: &[(&str, &str)] = &[
    (
        "BasicHttp",
        "@sink(type='http', publisher.url='https://127.0.0.1:{port}/x', basic.auth.username='anna', basic.auth.password='{secret}', headers=\"'X-Token:{secret}'\", proxy.host='127.0.0.1', proxy.port='{port}', proxy.username='p', proxy.password='{secret}', https.truststore.file='{keys}/server.p12', https.truststore.password='wso2carbon', @map(type='json'))",
    ),
    (
        "OAuthHttp",
        "@sink(type='http', publisher.url='http://127.0.0.1:{port}/x', consumer.key='k', consumer.secret='{secret}', oauth.username='u', oauth.password='{secret}', token.url='http://127.0.0.1:{port}/token', refresh.token='{secret}', @map(type='json'))",
    ),
    (
        "BodyOAuthHttp",
        "@sink(type='http', publisher.url='http://127.0.0.1:{port}/x', body.consumer.key='k', body.consumer.secret='{secret}', token.url='http://127.0.0.1:{port}/token', @map(type='json'))",
    ),
    (
        "UrlHttp",
        "@sink(type='http', publisher.url='http://127.0.0.1:{port}/x?token={secret}', @map(type='json'))",
    ),
    (
        "Call",
        "@sink(type='http-call', sink.id='{id}', publisher.url='http://127.0.0.1:{port}/x', basic.auth.username='anna', basic.auth.password='{secret}', @map(type='json'))",
    ),
    (
        "Kafka",
        "@sink(type='kafka', bootstrap.servers='127.0.0.1:{port}', topic='t', optional.configuration='delivery.timeout.ms:500,request.timeout.ms:400,linger.ms:0,security.protocol:SASL_PLAINTEXT,sasl.mechanism:PLAIN,sasl.jaas.config:org.apache.kafka.common.security.plain.PlainLoginModule required username=\"anna\" password=\"{secret}\";', @map(type='json'))",
    ),
    (
        "Mqtt",
        "@sink(type='mqtt', url='tcp://127.0.0.1:{port}', topic='t', username='anna', password='{secret}', @map(type='json'))",
    ),
    (
        "NatsUser",
        "@sink(type='nats', server.urls='nats://127.0.0.1:{port}', destination='d', streaming.cluster.id='c', auth.type='user', username='anna', password='{secret}', @map(type='json'))",
    ),
    (
        "NatsToken",
        "@sink(type='nats', server.urls='nats://127.0.0.1:{port}', destination='d', streaming.cluster.id='c', auth.type='token', token='{secret}', @map(type='json'))",
    ),
    (
        "Rabbit",
        "@sink(type='rabbitmq', uri='amqp://anna:{secret}@127.0.0.1:{port}', exchange.name='e', @map(type='json'))",
    ),
    (
        "Sqs",
        "@sink(type='sqs', queue='http://127.0.0.1:{port}/1/q', region='r', access.key='k', secret.key='{secret}', @map(type='json'))",
    ),
    (
        "Mail",
        "@sink(type='email', host='127.0.0.1', port='{port}', address='a@example.org', username='anna', password='{secret}', subject='s', to='b@example.org', ssl.enable='false', @map(type='text', @payload('x')))",
    ),
];

const SOURCES: &[(&str, &str)] = &[
    (
        "FromKafka",
        "@source(type='kafka', bootstrap.servers='127.0.0.1:{port}', topic.list='t', group.id='g', threading.option='single.thread', optional.configuration='security.protocol:SASL_PLAINTEXT,sasl.mechanism:PLAIN,sasl.jaas.config:org.apache.kafka.common.security.plain.PlainLoginModule required username=\"anna\" password=\"{secret}\";', @map(type='json'))",
    ),
    (
        "FromMqtt",
        "@source(type='mqtt', url='tcp://127.0.0.1:{port}', topic='t', username='anna', password='{secret}', @map(type='json'))",
    ),
    (
        "FromNats",
        "@source(type='nats', bootstrap.servers='nats://127.0.0.1:{port}', destination='d', streaming.cluster.id='c', auth.type='token', token='{secret}', @map(type='json'))",
    ),
    (
        "FromRabbit",
        "@source(type='rabbitmq', uri='amqp://anna:{secret}@127.0.0.1:{port}', exchange.name='e', queue.name='q', @map(type='json'))",
    ),
    (
        "FromSqs",
        "@source(type='sqs', queue='http://127.0.0.1:{port}/1/q', region='r', access.key='k', secret.key='{secret}', polling.interval='100', @map(type='json'))",
    ),
    (
        "FromPrometheus",
        "@source(type='prometheus', target.url='http://127.0.0.1:{port}/metrics', scrape.interval='1', metric.type='gauge', metric.name='m', username='anna', password='{secret}', headers=\"'X-Token:{secret}'\", @map(type='keyvalue'))",
    ),
    (
        "FromMariaDb",
        "@source(type='cdc', url='jdbc:mariadb://127.0.0.1:{port}/d', username='anna', password='{secret}', table.name='t', operation='insert', @map(type='keyvalue'))",
    ),
    (
        "FromPostgres",
        "@source(type='cdc', url='jdbc:postgresql://127.0.0.1:{port}/d', username='anna', password='{secret}', table.name='t', operation='insert', @map(type='keyvalue'))",
    ),
];

const TABLES: &[(&str, &str)] = &[
    (
        "InMariaDb",
        "@store(type='rdbms', jdbc.url='jdbc:mariadb://127.0.0.1:{port}/d', username='anna', password='{secret}', on.error='LOG')",
    ),
    (
        "InPostgres",
        "@store(type='rdbms', jdbc.url='jdbc:postgresql://127.0.0.1:{port}/d?user=anna&password={secret}', on.error='LOG')",
    ),
    (
        "InRedis",
        "@store(type='redis', nodes='127.0.0.1:{port}@{secret}', on.error='LOG')",
    ),
    (
        "InMongo",
        "@store(type='mongodb', mongodb.uri='mongodb://anna:{secret}@127.0.0.1:{port}/d', on.error='LOG')",
    ),
    (
        "InMongoByTls",
        "@store(type='mongodb', mongodb.uri='mongodb://anna:{secret}@127.0.0.1:{port}/d?authSource=a', secure.connection='true', trust.store='{keys}/server.p12', trust.store.password='wso2carbon', on.error='LOG')",
    ),
    (
        "InOtherRedis",
        "@store(type='redis', host='127.0.0.1', port='{port}', password='{secret}', on.error='LOG')",
    ),
];

/// A value that nothing else has.
const SECRET: &str = "planted-Xq7Zw2Lm9";

/// What else of it could be said: its parts and encodings.
const FORMS: &[&str] = &[SECRET, "Xq7Zw2Lm9", "cGxhbnRlZC1YcTdadzJMbTk", "cGxhbnRlZC"];

struct Place(tempfile::TempDir);

impl Place {
    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).expect("the folder can be written");
        self.path(name)
    }

    /// An app with all sinks and sources, or with one table: a run begins when its stores are there. Its
    /// secrets are written as `secret`.
    fn app(&self, table: Option<usize>, secret: &str, port: u16) -> String {
        let mut app = "@app:name('Planted')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='true', @map(type='csv'))
define stream In (n long);
@source(type='http', receiver.url='http://127.0.0.1:{listen}/in', basic.auth.enabled='true', @map(type='json'))
define stream Posted (n long);
"
        .to_owned();
        let mut queries = String::new();
        let mut add = |annotation: &str, definition: &str, name: &str, is_fed: bool| {
            writeln!(app, "{annotation}\ndefine {definition} {name} (n long);").expect("it grows");
            if is_fed {
                writeln!(queries, "from In select n insert into {name};").expect("it grows");
            }
        };
        let all = if table.is_none() { SINKS.len() } else { 0 };
        for (at, (name, sink)) in SINKS.iter().take(all).enumerate() {
            add(
                &sink.replace("{id}", &format!("s{at}")),
                "stream",
                name,
                true,
            );
        }
        for (name, source) in SOURCES.iter().take(all) {
            add(source, "stream", name, false);
        }
        if let Some((name, store)) = table.map(|at| TABLES[at]) {
            add(&format!("{store} @PrimaryKey('n')"), "table", name, true);
        }
        let app = app + &queries;
        let app = app
            .replace("{secret}", secret)
            .replace("{port}", &port.to_string())
            .replace("{listen}", &free_port().to_string())
            .replace("{dir}", &self.0.path().display().to_string())
            .replace(
                "{keys}",
                broker::key_file("server.p12").trim_end_matches("/server.p12"),
            );
        self.write("app.siddhi", &app)
    }

    /// The deployment file, with secrets of its own.
    fn deployment(&self, secret: &str) -> String {
        let text = format!(
            "siddhi:\n  extensions:\n    - extension:\n        name: http\n        namespace: source\n        properties:\n          basic.auth.username: anna\n          basic.auth.password: '{secret}'\n"
        );
        self.write("deployment.yaml", &text)
    }
}

fn headwater(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    command
        .args(args)
        .stdin(Stdio::null())
        .env("TZ", "")
        .env("HEADWATER_LOG", "debug")
        .env("PLANTED", SECRET);
    command
}

/// All that a command says.
fn said(args: &[&str]) -> String {
    let output = headwater(args).output().expect("the binary starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

#[track_caller]
fn check(what: &str, text: &str) {
    for form in FORMS {
        let Some(at) = text.find(form) else { continue };
        let start = text[..at].rfind('\n').map_or(0, |at| at + 1);
        let end = text[at..].find('\n').map_or(text.len(), |end| at + end);
        panic!("{what} tells the secret: {}", &text[start..end]);
    }
}

/// Every file below a folder, as it is.
fn check_files(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            check_files(&path);
        } else {
            let bytes = fs::read(&path).unwrap_or_default();
            check(
                &path.display().to_string(),
                &String::from_utf8_lossy(&bytes),
            );
        }
    }
}

/// What sinks and sources say before each of them has tried.
const TRIED: usize = 12;

#[test]
fn no_secret_is_told_wherever_it_comes_from() {
    let place = Place(tempfile::tempdir().expect("a folder"));
    let held = place.write("secret", &format!("{SECRET}\n"));
    let everywhere = [
        "${env:PLANTED}".to_owned(),
        format!("${{file:{held}}}"),
        SECRET.to_owned(),
    ];
    let parts = std::iter::once(None).chain((0..TABLES.len()).map(Some));
    let all = everywhere
        .iter()
        .flat_map(|written| parts.clone().map(move |part| (written, part)));
    for (written, table) in all {
        let (port, http) = (free_port(), format!("127.0.0.1:{}", free_port()));
        let app = place.app(table, written, port);
        let config = place.deployment(written);
        place.write("in.csv", "1\n2\n");
        let with_config = ["--config", &config];
        let commands: [&[&str]; 6] = [
            &["check", &app],
            &["check", &app, "--json"],
            &["check", &app, "--json", "--connect"],
            &["explain", &app],
            &["explain", &app, "--json"],
            &["connectors", "--json"],
        ];
        for command in commands {
            let args = match command[0] {
                "check" => [command, &with_config].concat(),
                _ => command.to_vec(),
            };
            let text = said(&args);
            check(&format!("{command:?} with {written}"), &text);
            assert!(!text.contains("error["), "{command:?}: {text}");
        }
        let state = place.path("state");
        let log = fs::File::create(place.path("log")).expect("the folder can be written");
        let mut run = headwater(&["run", &app, "--state", &state, "--http", &http, "--json"])
            .args(with_config)
            .stdout(log.try_clone().expect("another handle"))
            .stderr(log)
            .spawn()
            .expect("the binary starts");
        let log = || fs::read_to_string(place.path("log")).unwrap_or_default();
        network::eventually("all of them try", || {
            assert!(run.try_wait().expect("a child").is_none(), "{}", log());
            let tried = if table.is_none() { TRIED } else { 1 };
            log().matches("cannot be reached").count() >= tried
        });
        // Nothing is served before the stores are there.
        for path in ["metrics", "ready"].iter().filter(|_| table.is_none()) {
            check(path, &curl(&[&format!("http://{http}/{path}")]).1);
        }
        let stop = Command::new("kill").arg(run.id().to_string()).status();
        assert!(stop.expect("kill runs").success());
        network::eventually("it ends", || run.try_wait().expect("a child").is_some());
        check(&format!("the run with {written}"), &log());
        check(
            "the list of errors",
            &said(&["errors", "list", &state, "--json"]),
        );
        check_files(Path::new(&state));
        fs::remove_dir_all(&state).ok();
    }
}
