//! Avro over Kafka, with a schema registry; Apache Avro's libraries for Python and Java write and read.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use testservers::{Order, Running as Server, avro_tools};

use super::{Case, SINGLE, broker, kcat};
use crate::network::{piped, text};

const SCHEMA: &str = r#"{"type":"record","name":"Trade","namespace":"test","fields":[
    {"name":"n","type":"long"},{"name":"symbol","type":["null","string"],"default":null},
    {"name":"price","type":"double"},{"name":"ratio","type":"float"},
    {"name":"count","type":"int"},{"name":"good","type":"boolean"}]}"#;

const ATTRIBUTES: &str = "n long, symbol string, price double, ratio float, count int, good bool";

/// Writes records of the schema, each into a file, behind the frame of a number where there is one.
const WRITER: &str = r#"
import io, json, struct, sys
import avro.schema, avro.io
schema = avro.schema.parse(open(sys.argv[1]).read())
for line in sys.stdin:
    number, path, datum = json.loads(line)
    out = io.BytesIO()
    if number is not None:
        out.write(b'\0' + struct.pack('>I', number))
    avro.io.DatumWriter(schema).write(datum, avro.io.BinaryEncoder(out))
    open(path, 'wb').write(out.getvalue())
"#;

/// Reads what kcat gives as `length bytes`, one after the other; prints number and datum.
const READER: &str = r#"
import io, json, struct, sys
import avro.schema, avro.io
schema, framed = avro.schema.parse(open(sys.argv[1]).read()), sys.argv[2] == 'framed'
data = sys.stdin.buffer
while True:
    length = b''
    while not length.endswith(b' '):
        byte = data.read(1)
        if not byte:
            sys.exit(0)
        length += byte
    value = io.BytesIO(data.read(int(length)))
    number = None
    if framed:
        assert value.read(1) == b'\0'
        number = struct.unpack('>I', value.read(4))[0]
    datum = avro.io.DatumReader(schema).read(avro.io.BinaryDecoder(value))
    assert not value.read(1), 'bytes follow'
    print(json.dumps([number, datum], sort_keys=True))
"#;

/// Runs a program with an input; what it writes.
#[track_caller]
fn asked(command: &mut Command, input: &[u8]) -> Vec<u8> {
    let output = piped(command, input);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    output.stdout
}

fn python(script: &str, args: &[&str], input: &[u8]) -> Vec<u8> {
    let mut command = Command::new("/usr/bin/python3");
    asked(command.args(["-c", script]).args(args), input)
}

/// Asks the registry as any client does.
#[track_caller]
fn register(registry: &Server, args: &[&str], subject: &str, schema: &str) -> u32 {
    let body = serde_json::json!({ "schema": schema }).to_string();
    let (scheme, host) = match args {
        [] => ("http", "127.0.0.1"),
        _ => ("https", "localhost"),
    };
    let url = format!(
        "{scheme}://{host}:{}/subjects/{subject}/versions",
        registry.port()
    );
    let mut curl = Command::new("curl");
    curl.args([
        "-sS",
        "--fail-with-body",
        "-X",
        "POST",
        "--data-binary",
        "@-",
    ])
    .args(args)
    .arg(url);
    let answer = asked(&mut curl, body.as_bytes());
    let answer: serde_json::Value = serde_json::from_slice(&answer).expect("JSON");
    answer["id"].as_u64().expect("a number") as u32
}

/// Puts files into a topic, each a record.
#[track_caller]
fn produce_files(broker: &Server, topic: &str, files: &[String]) {
    for some in files.chunks(200) {
        let mut args = vec!["-P", "-t", topic, "-p", "0"];
        args.extend(some.iter().map(String::as_str));
        kcat(broker, &args, "");
    }
}

/// The records of a topic as `length bytes`.
fn records(broker: &Server, topic: &str) -> Vec<u8> {
    let mut kcat = Command::new("kcat");
    kcat.args(["-b", &broker.endpoint(), "-q", "-C", "-t", topic])
        .args(["-o", "beginning", "-e", "-f", "%S %s"]);
    asked(&mut kcat, b"")
}

/// A row as it is written to a file, and the datum that it is.
fn row(n: i64) -> (String, serde_json::Value) {
    let symbol = (n % 3 != 0).then(|| format!("é{n}\n\u{1f600}"));
    let (price, ratio) = (n as f64 / 8.0, n as f64 / 4.0);
    let datum = serde_json::json!({"n": n << 33, "symbol": symbol, "price": price,
        "ratio": ratio, "count": -n, "good": n % 2 == 0});
    let event = serde_json::json!({ "event": datum });
    (event.to_string(), datum)
}

const ROWS: i64 = 500;

fn reader(broker: &Server, topic: &str, map: &str) -> Case {
    let text = "@app:name('Reader')
@source(type='kafka', bootstrap.servers='{broker}', topic.list='{topic}', {single}, group.id='{topic}',
        auto.offset.reset='earliest', {map})
@sink(type='file', file.uri='file:{dir}/out.json', @map(type='json', enable.null.attribute.value='true'))
define stream S ({attributes});
";
    let text = text
        .replace("{topic}", topic)
        .replace("{single}", SINGLE)
        .replace("{attributes}", ATTRIBUTES)
        .replace("{map}", map);
    Case::new(broker, &text)
}

/// Sends the rows into a topic.
fn writer(broker: &Server, topic: &str, map: &str) -> Case {
    let text = "@app:name('Writer')
@source(type='file', mode='LINE', file.uri='file:{dir}/in.json', tailing='false',
        @map(type='json', fail.on.missing.attribute='false'))
@sink(type='kafka', bootstrap.servers='{broker}', topic='{topic}', partition.no='0', on.error='WAIT', {map})
define stream S ({attributes});
";
    let text = text
        .replace("{topic}", topic)
        .replace("{attributes}", ATTRIBUTES)
        .replace("{map}", map);
    let case = Case::new(broker, &text);
    let lines: String = (0..ROWS).map(|n| row(n).0 + "\n").collect();
    fs::write(case.dir.path().join("in.json"), lines).expect("written");
    case
}

#[track_caller]
fn check_rows(case: &Case) {
    let found = case.lines("out.json");
    assert_eq!(found.len() as i64, ROWS);
    for (line, n) in found.iter().zip(0..) {
        let event: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(event["event"], row(n).1, "{line}");
    }
}

/// What the other library reads is what was sent.
#[track_caller]
fn check_records(broker: &Server, topic: &str, schema: &str, number: Option<u32>) {
    let form = if number.is_some() { "framed" } else { "bare" };
    let said = python(READER, &[schema, form], &records(broker, topic));
    let said = String::from_utf8(said).expect("text");
    assert_eq!(said.lines().count() as i64, ROWS);
    for (line, n) in said.lines().zip(0..) {
        let found: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(found, serde_json::json!([number, row(n).1]));
    }
}

/// Puts the rows into a topic by the other library.
fn write_records(broker: &Server, case: &Case, topic: &str, schema: &str, number: Option<u32>) {
    let mut input = String::new();
    let files: Vec<String> = (0..ROWS)
        .map(|n| {
            case.dir
                .path()
                .join(format!("{n}.bin"))
                .display()
                .to_string()
        })
        .collect();
    for (n, file) in (0..).zip(&files) {
        let line = serde_json::json!([number, file, row(n).1]);
        writeln!(input, "{line}").expect("it grows");
    }
    python(WRITER, &[schema], input.as_bytes());
    produce_files(broker, topic, &files);
}

fn key_file(name: &str) -> String {
    let keys = Path::new(env!("CARGO_MANIFEST_DIR")).join("../connect/src/net/testdata");
    keys.join(name).display().to_string()
}

fn schema_file(case: &Case) -> String {
    let path = case.dir.path().join("schema.avsc");
    fs::write(&path, SCHEMA).expect("written");
    path.display().to_string()
}

#[test]
fn messages_with_the_number_of_their_schema_go_both_ways() {
    let Some(broker) = broker() else { return };
    let Some(registry) = Order::new()
        .with("first", "70000")
        .start_or_skip("schema-registry")
    else {
        return;
    };
    let id = register(&registry, &[], "any", SCHEMA);
    let map = format!(
        "@map(type='avro', schema.registry='http://127.0.0.1:1,http://{}', schema.id='{id}', use.avro.serializer='true')",
        registry.endpoint()
    );
    let out = writer(broker, "avroOut", &map);
    let schema = schema_file(&out);
    out.run();
    check_records(broker, "avroOut", &schema, Some(id));
    let map = format!(
        "@map(type='avro', schema.registry='http://{}')",
        registry.endpoint()
    );
    let back = reader(broker, "avroIn", &map);
    write_records(broker, &back, "avroIn", &schema, Some(id));
    back.run();
    check_rows(&back);
}

#[test]
fn javas_library_reads_and_writes_the_same_bytes() {
    let Some(broker) = broker() else { return };
    let Some(registry) = Order::new().start_or_skip("schema-registry") else {
        return;
    };
    let map = format!(
        "@map(type='avro', schema.def=\"\"\"{}\"\"\")",
        SCHEMA.replace('\n', "")
    );
    let out = writer(broker, "avroJava", &map);
    let schema = schema_file(&out);
    out.run();
    check_records(broker, "avroJava", &schema, None);
    let all = records(broker, "avroJava");
    // The first record, behind its length.
    let blank = all.iter().position(|b| *b == b' ').expect("a length");
    let len: usize = String::from_utf8_lossy(&all[..blank])
        .parse()
        .expect("a number");
    let first = &all[blank + 1..blank + 1 + len];
    let mut tools = avro_tools(registry.place());
    tools.args(["fragtojson", "--schema-file", &schema, "-"]);
    let text = asked(&mut tools, first);
    let found: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    assert_eq!(found["n"], row(0).1["n"]);
    assert_eq!(found["symbol"], serde_json::Value::Null);
    let mut tools = avro_tools(registry.place());
    tools.args(["jsontofrag", "--schema-file", &schema, "-"]);
    assert_eq!(asked(&mut tools, &text), first);
}

#[test]
fn the_options_of_java_clients_name_the_registry() {
    let Some(broker) = broker() else { return };
    let Some(registry) = Order::new()
        .with("user", "app:s3cret")
        .start_or_skip("schema-registry")
    else {
        return;
    };
    let kafka = format!(
        "optional.configuration='schema.registry.url:http://{},basic.auth.credentials.source:USER_INFO,basic.auth.user.info:app:s3cret'",
        registry.endpoint()
    );
    let schema = SCHEMA.replace('\n', "");
    // The schema is registered as that of its topic.
    let map = format!(
        "{kafka}, @map(type='avro', use.avro.serializer='true', schema.def=\"\"\"{schema}\"\"\")"
    );
    let out = writer(broker, "avroNamed", &map);
    out.run();
    check_records(broker, "avroNamed", &schema_file(&out), Some(1));
    let map = format!("{kafka}, @map(type='avro', use.avro.deserializer='true')");
    let back = reader(broker, "avroNamed", &map);
    back.run();
    check_rows(&back);
}

#[test]
fn a_registry_with_tls_and_a_login_is_asked_with_both() {
    let Some(broker) = broker() else { return };
    let pem = key_file("server.pem");
    let order = Order::new().with("tls", &pem).with("clients", &pem);
    let Some(registry) = order
        .with("user", "app:s3cret")
        .start_or_skip("schema-registry")
    else {
        return;
    };
    let curl = ["--cacert", &pem, "--cert", &pem, "-u", "app:s3cret"];
    let id = register(&registry, &curl, "any", SCHEMA);
    let store = key_file("server.p12");
    let asked = |password: &str| {
        format!(
            "schema.registry='https://localhost:{}', schema.id='{id}', basic.auth.username='app',
             basic.auth.password='{password}', ssl.truststore.path='{store}',
             ssl.truststore.password='wso2carbon', ssl.keystore.path='{store}',
             ssl.keystore.password='wso2carbon'",
            registry.port()
        )
    };
    let right = asked("s3cret");
    let map = format!("@map(type='avro', use.avro.serializer='true', {right})");
    writer(broker, "avroSecret", &map).run();
    let back = reader(broker, "avroSecret", &format!("@map(type='avro', {right})"));
    back.run();
    check_rows(&back);
    let map = format!("@map(type='avro', {})", asked("wr0ng"));
    let wrong = reader(broker, "avroSecret", &map);
    let running = wrong.start();
    running.err_has("it answers 401", 1);
    assert!(!running.err().contains("wr0ng"), "{}", running.err());
}

#[test]
fn a_registry_that_is_away_is_waited_for_and_nothing_is_lost() {
    let Some(broker) = broker() else { return };
    let Some(mut registry) = Order::new().start_or_skip("schema-registry") else {
        return;
    };
    let id = register(&registry, &[], "any", SCHEMA);
    registry.kill();
    let map = format!(
        "@map(type='avro', schema.registry='http://{}', schema.id='{id}', use.avro.serializer='true')",
        registry.endpoint()
    );
    let out = writer(broker, "avroAway", &map);
    let running = out.start();
    running.err_has("cannot reach schema registry 'http://", 1);
    registry.restart().expect("it starts again");
    let back = reader(
        broker,
        "avroAway",
        &format!(
            "@map(type='avro', schema.registry='http://{}')",
            registry.endpoint()
        ),
    );
    let reading = back.start();
    crate::network::eventually("every row", || back.lines("out.json").len() as i64 == ROWS);
    running.stop();
    reading.stop();
    check_rows(&back);
}
