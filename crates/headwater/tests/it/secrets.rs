//! Secrets that are planted in every place that can hold one, and looked for in everything that a run and
//! the commands around it say and leave behind.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::network::{Stub, curl, free_port};
use plan::spec::{ConnectorKind, OptionStatus, Status};

/// What sinks that ask servers by HTTP can have; each of them has each of these.
const HTTP_LOGINS: &[&str] = &[
    "basic.auth.username='anna', basic.auth.password='{secret}', headers=\"'X-Token:{secret}'\", proxy.host='127.0.0.1', proxy.port='{port}', proxy.username='p', proxy.password='{secret}', https.truststore.file='{own}', https.truststore.password='{secret}', https.keystore.file='{own}', https.keystore.password='{secret}', https.keystore.key.password='{secret}'",
    "consumer.key='k', consumer.secret='{secret}', oauth.username='u', oauth.password='{secret}', token.url='http://127.0.0.1:{port}/token', refresh.token='{secret}'",
    "body.consumer.key='k', body.consumer.secret='{secret}', token.url='http://127.0.0.1:{port}/token'",
];

const HTTP_CLIENTS: &[&str] = &["http", "http-call", "http-request", "websubhub"];

/// Somebody for the hubs to publish to.
const SUBSCRIBED: &str = "from In select 'http://127.0.0.1:{port}/s' as callback, 't' as topic, 'subscribe' as mode, 3600L as lease_seconds, 'x' as secret, 'h' as hub_id, eventTimestamp() as request_timestamp update or insert into Subscribers on Subscribers.callback == callback and Subscribers.topic == topic;
";

/// Login and key stores of a mapper's registry.
const REGISTRY: &str = "schema.registry='https://127.0.0.1:{port}', schema.id='1', basic.auth.username='anna', basic.auth.password='{secret}', ssl.keystore.path='{own}', ssl.keystore.password='{secret}', ssl.truststore.path='{own}', ssl.truststore.password='{secret}'";

/// Sinks with all that can be secret in them. Nobody listens at `{port}`: what is said about a peer that
/// is away is said, too.
const SINKS: &[(&str, &str)] = &[
    (
        "UrlHttp",
        "@sink(type='http', publisher.url='http://127.0.0.1:{port}/x?token={secret}', @map(type='json'))",
    ),
    (
        "Kafka",
        "@sink(type='kafka', bootstrap.servers='127.0.0.1:{port}', topic='t', optional.configuration='delivery.timeout.ms:500,request.timeout.ms:400,linger.ms:0,{sasl}', @map(type='json'))",
    ),
    (
        "Centres",
        "@sink(type='kafkaMultiDC', bootstrap.servers='127.0.0.1:{port}, localhost:{port}', topic='t', optional.configuration='delivery.timeout.ms:500,request.timeout.ms:400,linger.ms:0,{sasl}', @map(type='json'))",
    ),
    (
        "AvroKafka",
        "@sink(type='kafka', bootstrap.servers='localhost:{port}', topic='t', optional.configuration='delivery.timeout.ms:500,request.timeout.ms:400,linger.ms:0', @map(type='avro', {registry}))",
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
        "NatsTls",
        "@sink(type='nats', server.urls='tls://127.0.0.1:{port}', destination='d', streaming.cluster.id='c', auth.type='tls', truststore.file='{own}', truststore.password='{secret}', client.verify='true', keystore.file='{own}', keystore.password='{secret}', @map(type='json'))",
    ),
    (
        "Rabbit",
        "@sink(type='rabbitmq', uri='amqp://anna:{secret}@127.0.0.1:{port}', exchange.name='e', tls.enabled='true', tls.truststore.path='{own}', tls.truststore.password='{secret}', @map(type='json'))",
    ),
    (
        "Web",
        "@sink(type='websocket', url='wss://anna:{secret}@127.0.0.1:{port}/x', headers=\"'X-Token:{secret}'\", truststore.path='{own}', truststore.password='{secret}', @map(type='json'))",
    ),
    (
        "Grpc",
        "@sink(type='grpc', publisher.url='grpc://127.0.0.1:{port}/org.wso2.grpc.EventService/consume', metadata=\"'token:{secret}'\", headers=\"'token:{secret}'\", truststore.file='{own}', truststore.password='{secret}', keystore.file='{own}', keystore.password='{secret}', @map(type='json'))",
    ),
    (
        "GrpcCall",
        "@sink(type='grpc-call', sink.id='g', publisher.url='grpc://127.0.0.1:{port}/org.wso2.grpc.EventService/process', metadata=\"'token:{secret}'\", truststore.file='{own}', truststore.password='{secret}', keystore.file='{own}', keystore.password='{secret}', @map(type='json'))",
    ),
    (
        "Objects",
        "@sink(type='s3', bucket.name='b', object.path='p', aws.access.key='k', aws.secret.key='{secret}', @map(type='json'))",
    ),
    (
        "Sqs",
        "@sink(type='sqs', queue='http://127.0.0.1:{port}/1/q', region='r', access.key='k', secret.key='{secret}', @map(type='json'))",
    ),
    (
        "Databridge",
        "@sink(type='wso2event', url='tcp://127.0.0.1:{port}', auth.url='ssl://127.0.0.1:{port}', username='anna', password='{secret}', truststore.file='{own}', truststore.password='{secret}', @map(type='wso2event'))",
    ),
    (
        "Mail",
        "@sink(type='email', host='127.0.0.1', port='{port}', address='a@example.org', username='anna', password='{secret}', subject='s', to='b@example.org', ssl.enable='false', @map(type='text', @payload('x')))",
    ),
];

const SOURCES: &[(&str, &str)] = &[
    (
        "FromKafka",
        "@source(type='kafka', bootstrap.servers='127.0.0.1:{port}', topic.list='t', group.id='g', threading.option='single.thread', optional.configuration='{sasl}', @map(type='json'))",
    ),
    (
        "FromAvroKafka",
        "@source(type='kafka', bootstrap.servers='127.0.0.1:{port}', topic.list='t', group.id='g', threading.option='single.thread', @map(type='avro', {registry}))",
    ),
    (
        "FromCentres",
        "@source(type='kafkaMultiDC', bootstrap.servers='127.0.0.1:{port}, localhost:{port}', topic='t', optional.configuration='{sasl}', @map(type='json'))",
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
        "FromNatsUser",
        "@source(type='nats', bootstrap.servers='tls://127.0.0.1:{port}', destination='d', streaming.cluster.id='c', auth.type='user', username='anna', password='{secret}', truststore.file='{own}', truststore.password='{secret}', client.verify='true', keystore.file='{own}', keystore.password='{secret}', @map(type='json'))",
    ),
    (
        "FromRabbit",
        "@source(type='rabbitmq', uri='amqp://anna:{secret}@127.0.0.1:{port}', exchange.name='e', queue.name='q', tls.enabled='true', tls.truststore.path='{own}', tls.truststore.password='{secret}', @map(type='json'))",
    ),
    (
        "FromWeb",
        "@source(type='websocket', url='wss://anna:{secret}@127.0.0.1:{port}/x', headers=\"'X-Token:{secret}'\", truststore.path='{own}', truststore.password='{secret}', @map(type='json'))",
    ),
    (
        "FromSse",
        "@source(type='sse', receiver.url='https://127.0.0.1:{port}/x?token={secret}', basic.auth.username='anna', basic.auth.password='{secret}', headers=\"'X-Token:{secret}'\", https.truststore.file='{own}', https.truststore.password='{secret}', @map(type='json'))",
    ),
    (
        "FromSqs",
        "@source(type='sqs', queue='http://127.0.0.1:{port}/1/q', region='r', access.key='k', secret.key='{secret}', polling.interval='100', @map(type='json'))",
    ),
    (
        "FromMail",
        "@source(type='email', host='127.0.0.1', port='{port}', username='anna', password='{secret}', polling.interval='1', ssl.enable='false', @map(type='json'))",
    ),
    (
        "FromPrometheus",
        "@source(type='prometheus', target.url='https://127.0.0.1:{port}/metrics', scrape.interval='1', metric.type='gauge', metric.name='m', username='anna', password='{secret}', client.truststore.file='{own}', client.truststore.password='{secret}', headers=\"'X-Token:{secret}'\", @map(type='keyvalue'))",
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

/// Those that ask nobody: they listen.
const LISTENERS: &[&str] = &[
    "@source(type='websocket-server', host='127.0.0.1', port='{free}', tls.enabled='true', keystore.path='{own}', keystore.password='{secret}', @map(type='json'))",
    "@sink(type='websocket-server', host='127.0.0.1', port='{free}', tls.enabled='true', keystore.path='{own}', keystore.password='{secret}', @map(type='json'))",
    "@source(type='grpc', receiver.url='grpc://127.0.0.1:{free}/org.wso2.grpc.EventService/consume', truststore.file='{own}', truststore.password='{secret}', keystore.file='{own}', keystore.password='{secret}', @map(type='json'))",
    "@source(type='grpc-service', source.id='g', receiver.url='grpc://127.0.0.1:{free}/org.wso2.grpc.EventService/process', truststore.file='{own}', truststore.password='{secret}', keystore.file='{own}', keystore.password='{secret}', @map(type='json', @attributes(n='$.n', id='trp:message.id')))",
    "@source(type='http', receiver.url='http://127.0.0.1:{free}/in', basic.auth.enabled='true', @map(type='json'))",
];

/// What queries do with a secret.
const CALLS: &[&str] = &[
    "#s3:uploadFile('{dir}/in.csv', 'b', 'k', false, '', 'eu-west-1', 'standard', 'us', '{secret}', 'true')",
    "#s3:copy('b', 'k', 'c', 'l', false, '', 'eu-west-1', 'standard', 'us', '{secret}')",
    "#s3:delete('b', 'k', false, '', 'eu-west-1', 'us', '{secret}')",
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
        "InSqlServer",
        "@store(type='rdbms', jdbc.url='jdbc:sqlserver://127.0.0.1:{port};databaseName=d;user=anna;password={secret}', on.error='LOG')",
    ),
    (
        "InShop",
        "@store(type='rdbms', datasource='SHOP', on.error='LOG')",
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
        "@store(type='mongodb', mongodb.uri='mongodb://anna:{secret}@127.0.0.1:{port}/d?authSource=a', secure.connection='true', trust.store='{own}', trust.store.password='{secret}', key.store='{own}', key.store.password='{secret}', on.error='LOG')",
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
"
        .to_owned();
        let mut queries = String::new();
        if table.is_none() {
            queries += SUBSCRIBED;
        }
        let mut add = |annotation: &str, definition: &str, name: &str, is_fed: bool| {
            let more = if annotation.contains("grpc-service") {
                ", id string"
            } else {
                ""
            };
            writeln!(
                app,
                "{annotation}\ndefine {definition} {name} (n long{more});"
            )
            .expect("it grows");
            if is_fed {
                writeln!(queries, "from In select n insert into {name};").expect("it grows");
            }
        };
        match table.map(|at| TABLES[at]) {
            Some((name, store)) => {
                add(&format!("{store} @PrimaryKey('n')"), "table", name, true);
            }
            None => {
                for (name, sink) in all_sinks() {
                    add(&sink, "stream", &name, true);
                }
                for (name, source) in SOURCES {
                    add(source, "stream", name, false);
                }
                for (at, listener) in LISTENERS.iter().enumerate() {
                    let listener = listener.replace("{free}", &free_port().to_string());
                    add(&listener, "stream", &format!("Listens{at}"), false);
                }
                for call in CALLS {
                    writeln!(queries, "from In{call} select n insert into Called;")
                        .expect("it grows");
                }
            }
        }
        let sasl = "security.protocol:SASL_PLAINTEXT,sasl.mechanism:PLAIN,sasl.jaas.config:org.apache.kafka.common.security.plain.PlainLoginModule required username=\"anna\" password=\"{secret}\";";
        let app = (app + &queries)
            .replace("{sasl}", sasl)
            .replace("{registry}", REGISTRY)
            .replace("{secret}", secret)
            .replace("{port}", &port.to_string())
            .replace("{own}", &self.path("own.p12"))
            .replace("{dir}", &self.0.path().display().to_string());
        self.write("app.siddhi", &app)
    }

    /// A store of secrets with the secret in it, which is nowhere told.
    fn own_secrets(&self) {
        let mut set = headwater(&["secrets", "set", STORED], self);
        let mut set = set
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut input = set.stdin.take().expect("piped");
        writeln!(input, "{SECRET}").expect("it reads");
        drop(input);
        let output = set.wait_with_output().expect("a child");
        let answer = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{answer}");
        check("secrets set", &answer);
        for command in [&["secrets", "list"][..], &["secrets", "list", "--json"]] {
            let listed = said(command, self);
            assert!(listed.contains(STORED), "{listed}");
            check("secrets list", &listed);
        }
        let store = fs::read(self.path("store")).expect("it was made");
        check("the store", &String::from_utf8_lossy(&store));
    }

    /// A key store with the secret as its password.
    fn key_store(&self) {
        let mut openssl = Command::new("openssl");
        openssl
            .args([
                "pkcs12",
                "-export",
                "-in",
                &crate::broker::key_file("server.pem"),
            ])
            .args(["-out", &self.path("own.p12"), "-passout", "env:PLANTED"])
            .env("PLANTED", SECRET);
        testservers::run(&mut openssl).expect("openssl is there");
    }

    /// The deployment file, with secrets of its own.
    fn deployment(&self, secret: &str, port: u16) -> String {
        let text = format!(
            "siddhi:
  extensions:
    - extension:
        name: http
        namespace: source
        properties: {{basic.auth.username: anna, basic.auth.password: '{secret}'}}
    - extension:
        name: s3
        namespace: sink
        properties: {{endpoint: 'http://127.0.0.1:{port}'}}
wso2.datasources:
  dataSources:
    - name: SHOP
      definition:
        type: RDBMS
        configuration: {{jdbcUrl: 'jdbc:mariadb://127.0.0.1:{port}/d', username: anna, password: '{secret}'}}
"
        );
        self.write("deployment.yaml", &text)
    }
}

/// Names and annotations.
fn all_sinks() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (at, client) in HTTP_CLIENTS.iter().enumerate() {
        for (login, options) in HTTP_LOGINS.iter().enumerate() {
            let to = match *client {
                "http" => "publisher.url='https://127.0.0.1:{port}/x'".to_owned(),
                "websubhub" => {
                    "hub.id='h', table.name='Subscribers', topic='t', callback.networks='127.0.0.1'"
                        .to_owned()
                }
                _ => {
                    format!("sink.id='s{at}{login}', publisher.url='https://127.0.0.1:{{port}}/x'")
                }
            };
            all.push((
                format!("Http{at}{login}"),
                format!("@sink(type='{client}', {to}, {options}, @map(type='json'))"),
            ));
        }
    }
    let more = SINKS.iter();
    all.extend(more.map(|(name, sink)| ((*name).to_owned(), (*sink).to_owned())));
    all
}

/// Every option that can hold a secret has one planted.
#[test]
fn every_option_for_a_secret_has_one() {
    let mut planted: Vec<(ConnectorKind, String)> = Vec::new();
    planted.extend(
        all_sinks()
            .into_iter()
            .map(|(_, a)| (ConnectorKind::Sink, a)),
    );
    planted.extend(
        SOURCES
            .iter()
            .map(|(_, a)| (ConnectorKind::Source, (*a).to_owned())),
    );
    planted.extend(
        TABLES
            .iter()
            .map(|(_, a)| (ConnectorKind::Store, (*a).to_owned())),
    );
    for listener in LISTENERS {
        let kind = match listener.starts_with("@sink") {
            true => ConnectorKind::Sink,
            false => ConnectorKind::Source,
        };
        planted.push((kind, (*listener).to_owned()));
    }
    let mut missing = Vec::new();
    for spec in catalog::connector_specs().filter(|spec| spec.status == Status::Runs) {
        for option in spec.all_options() {
            let is_secret = ["password", "secret", "token", "secret.key"]
                .iter()
                .any(|end| option.name == *end || option.name.ends_with(&format!(".{end}")));
            if !is_secret || option.status == OptionStatus::Ignored {
                continue;
            }
            let given = format!("{}='{{secret}}'", option.name);
            let ty = format!("(type='{}',", spec.name);
            let is_planted = match spec.kind {
                ConnectorKind::SourceMapper | ConnectorKind::SinkMapper => {
                    REGISTRY.contains(&given)
                }
                kind => planted
                    .iter()
                    .any(|(k, text)| *k == kind && text.contains(&ty) && text.contains(&given)),
            };
            if !is_planted {
                missing.push(format!(
                    "{} {} {}",
                    spec.kind.name(),
                    spec.name,
                    option.name
                ));
            }
        }
    }
    assert_eq!(missing, Vec::<String>::new());
}

/// The secret of the key store, and its value.
const STORED: &str = "planted.1";

fn headwater(args: &[&str], place: &Place) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    command
        .args(args)
        .stdin(Stdio::null())
        .env("TZ", "")
        .env("HEADWATER_LOG", "debug")
        .env("PLANTED", SECRET)
        .env("HEADWATER_SECRETS", place.path("store"))
        .env("HEADWATER_SECRETS_KEY_FILE", place.path("key"));
    command
}

/// All that a command says.
fn said(args: &[&str], place: &Place) -> String {
    let output = headwater(args, place).output().expect("the binary starts");
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

#[test]
fn no_secret_is_told_wherever_it_comes_from() {
    let place = Place(tempfile::tempdir().expect("a folder"));
    let held = place.write("secret", &format!("{SECRET}\n"));
    place.key_store();
    place.own_secrets();
    let everywhere = [
        "${env:PLANTED}".to_owned(),
        format!("${{file:{held}}}"),
        format!("${{secret:{STORED}}}"),
        SECRET.to_owned(),
    ];
    let parts = std::iter::once(None).chain((0..TABLES.len()).map(Some));
    let sources = SOURCES.iter().map(|(name, _)| (*name).to_owned());
    let names: Vec<String> = all_sinks()
        .into_iter()
        .map(|(name, _)| name)
        .chain(sources)
        .collect();
    let all = everywhere
        .iter()
        .flat_map(|written| parts.clone().map(move |part| (written, part)));
    for (written, table) in all {
        let (port, http) = (free_port(), format!("127.0.0.1:{}", free_port()));
        let app = place.app(table, written, port);
        let config = place.deployment(written, port);
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
            let text = said(&args, &place);
            check(&format!("{command:?} with {written}"), &text);
            assert!(!text.contains("error["), "{command:?}: {text}");
        }
        let state = place.path("state");
        let log = fs::File::create(place.path("log")).expect("the folder can be written");
        let mut run = headwater(
            &["run", &app, "--state", &state, "--http", &http, "--json"],
            &place,
        )
        .args(with_config)
        .stdout(log.try_clone().expect("another handle"))
        .stderr(log)
        .spawn()
        .expect("the binary starts");
        let log = || fs::read_to_string(place.path("log")).unwrap_or_default();
        let whose = table.map_or("all sinks and sources", |at| TABLES[at].0);
        crate::network::eventually(&format!("what {whose} say with {written}"), || {
            assert!(run.try_wait().expect("a child").is_none(), "{}", log());
            let said = log();
            match table {
                Some(_) => said.contains("cannot connect"),
                None => names.iter().all(|name| {
                    said.contains(&format!("Planted/{name}"))
                        || said.contains(&format!("of stream '{name}'"))
                }),
            }
        });
        // Nothing is served before the stores are there.
        for path in ["metrics", "ready"].iter().filter(|_| table.is_none()) {
            check(path, &curl(&[&format!("http://{http}/{path}")]).1);
        }
        // Where the app is shown as it is written, the secret may only stand for what it is.
        let shown = ["siddhi-apps/Planted", "siddhi-apps?details=true", "status"];
        let is_shown = table.is_none() && written != SECRET;
        for path in shown.iter().filter(|_| is_shown) {
            let (status, body) = curl(&[&format!("http://{http}/{path}")]);
            assert_eq!(status, "200", "{body}");
            check(path, &body);
        }
        let stop = Command::new("kill").arg(run.id().to_string()).status();
        assert!(stop.expect("kill runs").success());
        crate::network::eventually("it ends", || run.try_wait().expect("a child").is_some());
        check(&format!("the run with {written}"), &log());
        check(
            "the list of errors",
            &said(&["errors", "list", &state, "--each", "--json"], &place),
        );
        check_files(Path::new(&state));
        fs::remove_dir_all(&state).ok();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Exit code and standard error of `secrets` with this input.
fn secrets(place: &Place, args: &[&str], input: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    command
        .arg("secrets")
        .args(args)
        .current_dir(place.0.path());
    let output = crate::network::piped(&mut command, input.as_bytes());
    (output.status.code(), text(&output.stderr))
}

#[test]
fn secrets_are_set_listed_rotated_and_deleted() {
    let place = Place(tempfile::tempdir().expect("a folder"));
    let at = ["--secrets", "store", "--secrets-key-file", "key"];
    let run = |args: &[&str], input: &str| secrets(&place, &[args, &at].concat(), input);
    let (code, err) = run(&["set", "db"], "treasure-1\n");
    assert!(
        code == Some(0) && err.contains("made a key in 'key'"),
        "{err}"
    );
    assert_eq!(run(&["set", "api"], "treasure-2").0, Some(0));
    #[cfg(unix)]
    for name in ["store", "key"] {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(place.path(name))
            .expect("it is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let app = place.write(
        "app.siddhi",
        "@app:name('A')
@sink(type='log', prefix='${secret:db}')
define stream S (n int);
",
    );
    let headwater = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
        let output = command
            .args(args)
            .current_dir(place.0.path())
            .env_remove("HEADWATER_SECRETS")
            .output()
            .expect("the binary starts");
        (
            output.status.code(),
            text(&output.stdout) + &text(&output.stderr),
        )
    };
    let check_app = |more: &[&str]| headwater(&[&["check", &*app][..], more].concat());
    assert_eq!(check_app(&at).0, Some(0), "{:?}", check_app(&at));
    // A name that the store lacks, and no store at all: place, cause and fix.
    let (code, said) = check_app(&[]);
    assert_eq!(code, Some(1), "{said}");
    for part in [
        "no secret 'db'",
        "app.siddhi:2:27",
        "headwater secrets set db",
        "--secrets FILE",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let (code, said) = headwater(&[
        "run",
        &app,
        "--until-done",
        "--set",
        "S.sink.prefix=${secret:x}",
        at[0],
        at[1],
        at[2],
        at[3],
    ]);
    assert!(
        code == Some(2) && said.contains("--set S.sink.prefix: the key store has no secret 'x'"),
        "{said}"
    );
    let config = place.write(
        "deployment.yaml",
        "siddhi:\n  properties:\n    p: '${secret:x}'\n",
    );
    let (code, said) = check_app(&["--config", &config]);
    assert!(
        code == Some(1) && said.contains("headwater secrets set x"),
        "{said}"
    );
    // What an app is given by --set is not told either.
    let set = ["--set", "S.sink.prefix=${secret:api}"];
    let (code, said) = headwater(&[&["explain", &*app][..], &at, &set].concat());
    assert!(code == Some(0) && !said.contains("treasure"), "{said}");
    let old = fs::read(place.path("key")).expect("it is there");
    assert_eq!(run(&["rotate"], "").0, Some(0));
    assert_ne!(fs::read(place.path("key")).expect("it is there"), old);
    assert_eq!(check_app(&at).0, Some(0));
    // With the key of before it cannot be opened, and it says so.
    let new = fs::read(place.path("key")).expect("it is there");
    fs::write(place.path("key"), old).expect("it can be written");
    let (code, said) = check_app(&at);
    assert!(
        code == Some(1) && said.contains("has another key"),
        "{said}"
    );
    fs::write(place.path("key"), new).expect("it can be written");
    assert_eq!(run(&["delete", "db"], "").0, Some(0));
    assert_eq!(check_app(&at).0, Some(1));
    for (args, input, code, says) in [
        (&["delete", "db"][..], "", 1, "there is no secret 'db'"),
        (&["set", "a b"], "x", 2, "no name of a secret"),
        (&["set", "a"], "", 2, "the value is empty"),
    ] {
        let (found, err) = run(args, input);
        assert!(found == Some(code) && err.contains(says), "{args:?}: {err}");
    }
    let (code, err) = secrets(&place, &["list"], "");
    assert!(code == Some(2) && err.contains("--secrets FILE"), "{err}");
}

/// A changed secret counts from the next reload on, and the app goes on with its state.
#[test]
fn a_secret_is_read_again_at_a_reload() {
    let place = Place(tempfile::tempdir().expect("a folder"));
    let (state, key) = (place.path("state"), place.path("key"));
    let at = ["--state", &*state, "--secrets-key-file", &*key];
    fs::create_dir(&state).expect("it can be made");
    let (code, err) = secrets(&place, &[&["set", "greeting"][..], &at].concat(), "first-1");
    assert_eq!(code, Some(0), "{err}");
    let app = place.write(
        "app.siddhi",
        "@app:name('A')
@sink(type='file', file.uri='${app:dir}/${secret:greeting}.out', append='true', @map(type='csv'))
define stream S (n int);
",
    );
    let http = format!("127.0.0.1:{}", free_port());
    let run = crate::network::Running::start(&[&[&*app, "--http", &http][..], &at].concat());
    run.err_has("HTTP server is listening", 1);
    let send = |n: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
        let sent = command.args(["send", "A/S", n, "--url", &http]).output();
        let sent = sent.expect("the binary starts");
        assert!(sent.status.success(), "{}", text(&sent.stderr));
    };
    let has = |name: &str, text: &str| {
        let path = place.path(name);
        crate::network::eventually(name, || {
            fs::read_to_string(&path).is_ok_and(|found| found.trim() == text)
        });
    };
    send("1");
    has("first-1.out", "1");
    let (code, err) = secrets(
        &place,
        &[&["set", "greeting"][..], &at].concat(),
        "second-2",
    );
    assert_eq!(code, Some(0), "{err}");
    run.reload();
    run.err_has("apps reloaded", 1);
    send("2");
    has("second-2.out", "2");
    let said = run.err();
    assert!(
        !said.contains("first-1") && !said.contains("second-2"),
        "{said}"
    );
    run.stop();
}

/// An app may put a secret into its events, and a peer may tell what it was given.
const TELLS: &str = "@app:name('Tells')
define stream In (n long);
@sink(type='http', publisher.url='http://127.0.0.1:{port}/out', headers=\"'Authorization:Bearer {secret}'\", @map(type='json'))
define stream Out (n long, token string);
define table Kept (n long, token string);
from In select n, '{secret}' as token insert into Out;
from Out insert into Kept;
";

#[test]
fn a_secret_in_an_event_or_in_an_answer_is_in_no_output() {
    let place = Place(tempfile::tempdir().expect("a folder"));
    let held = place.write("secret", &format!("{SECRET}\n"));
    place.own_secrets();
    let peer = Stub::start(free_port(), |got| {
        let body = format!("nobody knows {SECRET}, said {}", got.body);
        let length = body.len();
        format!("HTTP/1.1 401 Unauthorized\r\nContent-Length: {length}\r\n\r\n{body}")
    });
    let stored = format!("${{secret:{STORED}}}");
    for written in ["${env:PLANTED}", &format!("${{file:{held}}}"), &stored] {
        let app = TELLS
            .replace("{secret}", written)
            .replace("{port}", &peer.port.to_string());
        let app = place.write("tells.siddhi", &app);
        let (state, http) = (place.path("state"), format!("127.0.0.1:{}", free_port()));
        let log = fs::File::create(place.path("log")).expect("the folder can be written");
        let mut run = headwater(&["run", &app, "--state", &state, "--http", &http], &place)
            .stdout(log.try_clone().expect("another handle"))
            .stderr(log)
            .spawn()
            .expect("the binary starts");
        let ask = |path: &str| curl(&[&format!("http://{http}/{path}")]);
        crate::network::eventually("it is healthy", || ask("health").0 == "200");
        let asked = |args: &[&str]| said(&[args, &["--url", &http]].concat(), &place);
        let mut tap = headwater(
            &["tap", "Tells/Out", "--limit", "1", "--url", &http],
            &place,
        )
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
        crate::network::eventually("an event is seen", || {
            asked(&["send", "Tells/In", "1"]);
            tap.try_wait().expect("a child").is_some()
        });
        let tapped = tap.wait_with_output().expect("a child").stdout;
        crate::network::eventually("an event is rejected", || {
            ask("errors/groups").1.contains("nobody knows")
        });
        // What has the secret in it has something in its place.
        let hidden = |what: &str, text: &str| {
            check(&format!("{what} with {written}"), text);
            assert!(text.contains('…'), "{what}: {text}");
        };
        hidden("tap", &text(&tapped));
        for path in [
            "errors/groups",
            "errors?payload=true",
            "error-handler/erroneous-events?siddhiApp=Tells",
        ] {
            hidden(path, &ask(path).1);
        }
        let listed: serde_json::Value =
            serde_json::from_str(&ask("errors").1).expect("a list of events");
        let number = listed["events"][0]["number"].to_string();
        hidden("an event", &ask(&format!("errors/{number}")).1);
        let commands: [&[&str]; 7] = [
            &["errors", "list"],
            &["errors", "list", "--each", "--json"],
            &["errors", "show", &number],
            &["errors", "show", &number, "--json"],
            &["errors", "export"],
            &["errors", "export", "--format", "csv"],
            &["query", "from Kept select token"],
        ];
        for command in commands {
            hidden(&format!("{command:?}"), &asked(command));
        }
        for path in ["metrics", "status", "siddhi-apps/Tells/statistics"] {
            check(path, &ask(path).1);
        }
        // Of what is no text, base64 is shown.
        let url = format!("http://{http}/errors/{number}/payload");
        let edited = r#"{"payload_base64":"////cGxhbnRlZC1YcTdadzJMbTk=","unchecked":true}"#;
        let (status, answer) = curl(&["-X", "PUT", "--json", edited, &url]);
        assert_eq!(status, "200", "{answer}");
        for path in [&format!("errors/{number}"), "errors?payload=true"] {
            let shown = ask(path).1;
            hidden(path, &shown);
            assert!(shown.contains(r#"payload_base64":"////4oCm""#), "{shown}");
        }
        hidden("bytes", &asked(&["errors", "show", &number, "--json"]));
        let edited = serde_json::json!({ "payload": "{\"n\":2,\"token\":\"…\"}\n" }).to_string();
        let (status, answer) = curl(&["-X", "PUT", "--json", &edited, &url]);
        assert!(status == "400" && answer.contains("secret"), "{answer}");
        let stop = Command::new("kill").arg(run.id().to_string()).status();
        assert!(stop.expect("kill runs").success());
        crate::network::eventually("it ends", || run.try_wait().expect("a child").is_some());
        let log = fs::read_to_string(place.path("log")).expect("it is text");
        hidden("the log", &log);
        hidden("the list", &said(&["errors", "list", &state], &place));
        if written == stored {
            for command in [
                &["errors", "show", &number, &state][..],
                &["errors", "export", &state],
            ] {
                hidden(&format!("{command:?}"), &said(command, &place));
            }
        }
        fs::remove_dir_all(&state).expect("it is there");
    }
}
