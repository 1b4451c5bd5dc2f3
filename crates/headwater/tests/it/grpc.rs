//! gRPC between our binary and grpcio, the library of Python.

use std::io::Write as _;
use std::time::{Duration, Instant};

use crate::broker::{Apps, errors, key_file};
use crate::kit::Subject;
use crate::network::script::Script;
use crate::network::{NOTICED, Running, eventually, free_port, number};

// row: sink grpc | grpcio {grpcio} of Python, and our grpc source
// n/a bad: a sink reads no payload
// n/a login: a login is metadata, which the event may have

// row: sink grpc-call, source grpc-call-response | grpcio {grpcio} of Python, and our grpc-service source
// n/a order: responses come in the order in which they are given
// n/a resume: a response belongs to a call of this process
// n/a login: a login is metadata, which the event may have

// row: source grpc | grpcio {grpcio} of Python, and our grpc sink
// n/a resume: a client keeps what was not answered
// n/a lost: a client that goes away is no loss to a listener
// n/a login: its options know no login
// n/a error: `on.error` belongs to sinks

// row: source grpc-service, sink grpc-service-response | grpcio {grpcio} of Python, and our grpc-call sink
// n/a order: each request has its own response
// n/a resume: a request belongs to a call of its client
// n/a lost: a client that goes away is no loss to a listener
// n/a login: its options know no login
// n/a error: a response has nobody else to go to

pub const KIT: Subject = Subject {
    name: "grpc",
    source: "type='grpc', receiver.url='grpc://127.0.0.1:{port}/org.wso2.grpc.EventService/consume'",
    sink: "type='grpc', publisher.url='grpc://127.0.0.1:{port}/org.wso2.grpc.EventService/consume', headers=\"'stream.id:In'\"",
    ..Subject::PLAIN
};

/// What both programs have in common: the messages, made of their descriptions.
const MESSAGES: &str = r#"
import sys
import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
def event_class():
    file = descriptor_pb2.FileDescriptorProto(
        name="event.proto", package="org.wso2.grpc.eventservice", syntax="proto3")
    event = file.message_type.add(name="Event")
    text, many, kind = 9, 3, 11
    event.field.add(name="payload", number=1, type=text, label=1)
    event.field.add(name="headers", number=2, type=kind, label=many,
                    type_name=".org.wso2.grpc.eventservice.Event.HeadersEntry")
    entry = event.nested_type.add(name="HeadersEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=text, label=1)
    entry.field.add(name="value", number=2, type=text, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName("org.wso2.grpc.eventservice.Event")
    return message_factory.MessageFactory(pool).GetPrototype(found)
def plain_class(path):
    files = descriptor_pb2.FileDescriptorSet.FromString(open(path, "rb").read())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return message_factory.MessageFactory(pool).GetPrototype(pool.FindMessageTypeByName("sample.Plain"))
Event = event_class()
EVENTS = "org.wso2.grpc.eventservice.EventService"
# Whole lines, whichever thread says them: print writes a line and its end one after the other.
def say(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()
def shown(event):
    return event.payload.rstrip("\n") + "|" + ",".join(f"{k}={v}" for k, v in sorted(event.headers.items()))
"#;

/// Says what it gets. Arguments: port, description of a service, certificate with key, whom it trusts.
const SERVER: &str = r#"
from concurrent import futures
port, description, certificate, trusted = sys.argv[1:5]
Plain = plain_class(description)
later = [2]
def judge(event, context):
    if "refuse" in event.payload:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no such thing")
    if "later" in event.payload and later[0]:
        later[0] -= 1
        context.abort(grpc.StatusCode.UNAVAILABLE, "come again")
def consume(requests, context):
    metadata = dict(context.invocation_metadata())
    for event in requests:
        judge(event, context)
        # The event comes last: who has seen it finds its peer.
        say("peer:" + context.peer())
        say("consume:" + shown(event), metadata.get("x-key"))
    return b""
def process(event, context):
    judge(event, context)
    say("process:" + shown(event))
    context.send_initial_metadata((("x-answer", "yes"),))
    return Event(payload=event.payload.upper(), headers={"kind": "answer"})
def take(plain, context):
    say(f"take:{plain.text} {plain.count}")
    return Plain(text="got " + plain.text, count=plain.count + 1)
raw = lambda message: message if isinstance(message, bytes) else message.SerializeToString()
server = grpc.server(futures.ThreadPoolExecutor(max_workers=16))
server.add_generic_rpc_handlers((
    grpc.method_handlers_generic_handler(EVENTS, {
        "consume": grpc.stream_unary_rpc_method_handler(consume, Event.FromString, raw),
        "process": grpc.unary_unary_rpc_method_handler(process, Event.FromString, raw)}),
    grpc.method_handlers_generic_handler("sample.Rows", {
        "take": grpc.unary_unary_rpc_method_handler(take, Plain.FromString, raw)})))
if certificate:
    pem = open(certificate, "rb").read()
    roots = open(trusted, "rb").read() if trusted else None
    server.add_secure_port(f"127.0.0.1:{port}", grpc.ssl_server_credentials([(pem, pem)], roots, bool(trusted)))
else:
    server.add_insecure_port(f"127.0.0.1:{port}")
server.start()
say("listening")
sys.stdin.read()
"#;

/// Calls what it is told, and says what is answered. Arguments: address, description of a service, whom it
/// trusts, certificate with key.
const CLIENT: &str = r#"
address, description, trusted, certificate = sys.argv[1:5]
Plain = plain_class(description)
if trusted:
    pem = open(certificate, "rb").read() if certificate else None
    channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(open(trusted, "rb").read(), pem, pem))
else:
    channel = grpc.insecure_channel(address)
raw = lambda message: message.SerializeToString()
consume = channel.stream_unary(f"/{EVENTS}/consume", raw, bytes)
process = channel.unary_unary(f"/{EVENTS}/process", raw, Event.FromString)
take = channel.unary_unary("/sample.Rows/take", raw, Plain.FromString)
nobody = channel.unary_unary("/sample.Rows/nobody", raw, bytes)
def event(stream, payload):
    return Event(payload=payload, headers={"stream.id": stream, "kind": "event"} if stream != "-" else {})
for line in sys.stdin:
    word, _, rest = line.rstrip("\n").partition(" ")
    stream, _, payload = rest.partition(" ")
    metadata = (("x-key", "seven"),)
    try:
        if word == "consume":
            consume(iter([event(stream, payload)]), metadata=metadata, wait_for_ready=True, timeout=60)
            print("taken", flush=True)
        elif word == "many":
            consume((event(stream, f"{n},row {n} é") for n in range(int(payload))), metadata=metadata)
            print("taken", flush=True)
        elif word == "long":
            consume(iter([event(stream, "x" * int(payload))]))
            print("taken", flush=True)
        elif word == "headers":
            consume(iter([event(stream, "1,a")]), metadata=(("x-key", "x" * int(payload)),))
            print("taken", flush=True)
        elif word == "process":
            answer = process(event(stream, payload), metadata=metadata, wait_for_ready=True)
            print("answer:" + shown(answer), flush=True)
        elif word == "take":
            answer = take(Plain(text=stream, count=int(payload)), wait_for_ready=True)
            print(f"answer:{answer.text} {answer.count}", flush=True)
        elif word == "nobody":
            nobody(Plain())
    except grpc.RpcError as error:
        print("status", error.code().name, error.details(), flush=True)
"#;

/// The description of `sample.Rows`.
fn description() -> String {
    let root = env!("CARGO_MANIFEST_DIR");
    format!("{root}/../connect/src/mapper/protobuf/tests.pb")
}

fn server(port: u16, certificate: &str, trusted: &str) -> Option<Script> {
    let program = format!("{MESSAGES}{SERVER}");
    let port = port.to_string();
    let args = [port.as_str(), &description(), certificate, trusted];
    let script = Script::start_or_skip("grpc", &program, &args)?;
    script.has("listening", 1);
    Some(script)
}

fn client(port: u16, trusted: &str, certificate: &str) -> Option<Script> {
    let program = format!("{MESSAGES}{CLIENT}");
    let address = format!("localhost:{port}");
    Script::start_or_skip(
        "grpc",
        &program,
        &[&address, &description(), trusted, certificate],
    )
}

const SENDER: &str = "@app:name('Sender')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='{tailing}', file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
define stream In (n long, text string);
@sink(type='grpc', publisher.url='grpc://localhost:{port}/{path}', {options}, @map(type='csv'))
define stream Out (n long, text string);
from In select * insert into Out;
";

const RECEIVER: &str = "@app:name('Receiver')
@source(type='grpc', receiver.url='grpc://localhost:{port}/org.wso2.grpc.EventService/consume', {options}, @map(type='csv', @attributes(n='0', text='1', kind='trp:kind', key='trp:x-key')))
define stream In (n long, text string, kind string, key string);
@source(type='grpc', receiver.url='grpc://localhost:{port}/org.wso2.grpc.EventService/consume', {options}, @map(type='csv'))
define stream Rows (n long, text string);
@sink(type='log', prefix='in')
define stream Seen (n long, text string, kind string, key string);
@sink(type='file', file.uri='file:{dir}/out.csv', @map(type='csv'))
define stream Out (n long, text string);
from In select * insert into Seen;
from Rows select * insert into Out;
";

fn sender(apps: &Apps, path: &str, options: &str, is_tailing: bool) -> String {
    let tailing = if is_tailing { "true" } else { "false" };
    let app = SENDER.replace("{path}", path).replace("{tailing}", tailing);
    apps.write("sender", &app, options)
}

/// Adds rows to what a sender reads.
fn append(apps: &Apps, rows: &str) {
    let mut file = std::fs::File::options()
        .append(true)
        .open(apps.path("in.csv"))
        .expect("it is there");
    file.write_all(rows.as_bytes()).expect("there is room");
}

// shows: sink grpc open, order
#[test]
fn a_server_gets_events_with_headers_metadata_and_sequence() {
    let apps = Apps::new(free_port(), 1_000);
    let Some(peer) = server(apps.port(), "", "") else {
        return;
    };
    let own = "headers=\"'a:{{n}}','b:x'\", metadata=\"'X-Key:seven'\"";
    let path = "org.wso2.grpc.EventService/consume/first";
    let run = Running::start(&[&sender(&apps, path, own, false), "--until-done"]);
    let (code, summary) = run.end();
    assert_eq!(code, Some(0), "{summary}");
    assert_eq!(number(&summary, "sinks", "Out", "events"), 1_000);
    let rows = apps.rows.lines().enumerate();
    let rows: Vec<String> = rows
        .map(|(n, row)| format!("{row}|a={n},b=x,sequence=first seven"))
        .collect();
    // What it has written may come behind what it has answered.
    peer.has("consume:999,", 1);
    assert_eq!(peer.lines("consume:"), rows);
    // A sequence alone is Siddhi's own service as well; an idle connection is opened anew.
    let other = Apps::new(apps.port(), 1);
    let run = Running::connected(&[&sender(&other, "second", "idle.timeout='1'", true)], 1);
    peer.has("0,row 0 é|sequence=second None", 1);
    let before = peer.lines("peer:").pop();
    let written = Instant::now();
    eventually("it is idle for longer than it may", || {
        written.elapsed() > Duration::from_millis(1_500)
    });
    append(&other, "1,after\n");
    peer.has("1,after|sequence=second None", 1);
    assert_ne!(peer.lines("peer:").pop(), before);
    assert!(!run.err().contains("lost its connection"), "{}", run.err());
    run.stop();
}

// shows: source grpc open, order, bad
#[test]
fn clients_are_answered_when_their_event_is_taken() {
    let apps = Apps::new(free_port(), 2_000);
    let own = "threadpool.size='10', threadpool.buffer.size='10', server.shutdown.waiting.time='2'";
    let state = apps.path("state");
    let receiving = apps.write("receiver", RECEIVER, own);
    let run = Running::connected(&[&receiving, "--state", &state], 2);
    let Some(mut peer) = client(apps.port(), "", "") else {
        return;
    };
    peer.say("consume In 1,a");
    peer.has("taken", 1);
    // With state, the answer says that the event is saved.
    run.out_has("data=[1, a, event, seven]", 1);
    peer.say("consume In no number,b");
    peer.say("consume In 3,c");
    peer.has("taken", 3);
    run.out_has("data=[3, c, event, seven]", 1);
    peer.say("many Rows 2000");
    peer.has("taken", 4);
    eventually("all rows", || apps.received() == apps.rows);
    let (code, summary) = run.stop();
    assert_eq!(code, Some(4), "one payload was rejected: {summary}");
    assert_eq!(number(&summary, "sources", "In", "rejected"), 1);
    assert!(errors(&state).contains("no number"));
    // The port is free at once, and a client that waits for the server gets its answer. It is a new
    // one: the other would write to its old connection before it looks whether that still stands.
    let Some(mut peer) = client(apps.port(), "", "") else {
        return;
    };
    peer.say("consume In 4,d");
    let run = Running::connected(&[&receiving, "--state", &state], 2);
    run.out_has("data=[4, d, event, seven]", 1);
    run.stop();
}

#[test]
fn what_is_beyond_a_limit_or_for_nobody_is_refused() {
    let apps = Apps::new(free_port(), 0);
    let own = "max.inbound.message.size='10000', max.inbound.metadata.size='2000'";
    let run = Running::connected(&[&apps.write("receiver", RECEIVER, own)], 2);
    let Some(mut peer) = client(apps.port(), "", "") else {
        return;
    };
    for (said, answer) in [
        (
            "consume Nope 1,a",
            "status DATA_LOSS no source of this port takes events of stream 'Nope'",
        ),
        (
            "consume - 1,a",
            "status DATA_LOSS the event has no header 'stream.id'",
        ),
        (
            "nobody",
            "status UNIMPLEMENTED no source takes calls of '/sample.Rows/nobody'",
        ),
        (
            "process In x",
            "status DATA_LOSS no source of this port takes events of stream 'In'",
        ),
        ("long In 20000", "status OUT_OF_RANGE"),
    ] {
        peer.say(said);
        peer.has(answer, 1);
    }
    peer.say("headers In 5000");
    peer.has("status", 6);
    peer.say("consume In 1,a");
    run.out_has("data=[1, a, event, seven]", 1);
    run.err_has("dropping gRPC message", 3);
    run.stop();
}

const SERVICE: &str = "@app:name('Service')
@source(type='grpc-service', source.id='s', receiver.url='grpc://localhost:{port}/org.wso2.grpc.EventService/process', service.timeout='{timeout}', @map(type='json', @attributes(id='trp:message.id', n='$.n')))
define stream Questions (id string, n long);
@sink(type='grpc-service-response', source.id='s', message.id='{{id}}', @map(type='json', @payload('{\"n\":{{n}},\"twice\":{{twice}}}')))
define stream Answers (id string, n long, twice long);
from Questions[n >= 0L] select id, n, n * 2L as twice insert into Answers;
";

const CALLER: &str = "@app:name('Caller')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='false', file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
define stream In (n long, text string);
@sink(type='grpc-call', sink.id='c', publisher.url='grpc://localhost:{port}/org.wso2.grpc.EventService/process', headers=\"'stream.id:Questions'\", channel.termination.waiting.time='3', {options}, @map(type='json', @payload('{\"n\":{{n}}}')))
define stream Out (n long, text string);
@source(type='grpc-call-response', sink.id='c', @map(type='json', @attributes(n='trp:n', text='trp:text', twice='$.twice')))
define stream Back (n long, text string, twice long);
@sink(type='file', file.uri='file:{dir}/out.csv', @map(type='csv'))
define stream Seen (n long, text string, twice long);
from In select * insert into Out;
from Back select * insert into Seen;
";

const HEARD: &str = "@app:name('Heard')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='false', file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
define stream In (n long, text string);
@sink(type='grpc-call', sink.id='h', publisher.url='grpc://localhost:{port}/org.wso2.grpc.EventService/process', on.error='LOG', @map(type='text', @payload('{{text}}')))
define stream Out (n long, text string);
@source(type='grpc-call-response', sink.id='h', @map(type='text', regex.A='(.*)', @attributes(answer='A', kind='trp:kind', more='trp:x-answer', n='trp:n')))
define stream Back (answer string, kind string, more string, n long);
@sink(type='log', prefix='back')
define stream Seen (answer string, kind string, more string, n long);
from In select * insert into Out;
from Back select * insert into Seen;
";

// shows: sink grpc-call open, slow, bad, error
// shows: source grpc-service open, slow, bad
#[test]
fn calls_get_their_responses_and_services_answer_each_request() {
    let apps = Apps::new(free_port(), 2_000);
    let within = |millis: &str| SERVICE.replace("{timeout}", millis);
    let start = |service: &str| Running::connected(&[&apps.write("service", service, "")], 1);
    let service = start(&within("60000"));
    let caller = Running::start(&[&apps.write("caller", CALLER, "")]);
    eventually("all responses", || apps.received().lines().count() >= 2_000);
    let (code, summary) = caller.stop();
    assert_eq!(code, Some(0), "{summary}");
    let mut found: Vec<String> = apps.received().lines().map(str::to_owned).collect();
    found.sort_by_key(|row| row.split(',').next().and_then(|n| n.parse::<u64>().ok()));
    let expect = (0..2_000).map(|n| format!("{n},row {n} é,{}", n * 2));
    assert_eq!(found, expect.collect::<Vec<_>>());
    // Others call it as well; what the app does not answer ends with the time.
    if let Some(mut peer) = client(apps.port(), "", "") {
        peer.say("process Questions {\"n\":21}");
        peer.has("answer:{\"n\":21,\"twice\":42}|", 1);
        assert_eq!(service.stop().0, Some(0));
        let service = start(&within("1500"));
        let mut peer = client(apps.port(), "", "").expect("the library is there");
        peer.say("process Questions {\"n\":-1}");
        peer.has("status DEADLINE_EXCEEDED no answer within 1500 ms", 1);
        // One that cannot be read is rejected, and has no answer either.
        peer.say("process Questions no JSON");
        peer.has("status DEADLINE_EXCEEDED no answer within 1500 ms", 2);
        let (_, summary) = service.stop();
        assert_eq!(number(&summary, "sources", "Questions", "rejected"), 1);
    }

    let other = Apps::new(free_port(), 0);
    let Some(peer) = server(other.port(), "", "") else {
        return;
    };
    std::fs::write(other.path("in.csv"), "1,a\n2,refuse\n3,c\n")
        .expect("the folder can be written");
    let state = other.path("state");
    let heard = other.write("heard", HEARD, "");
    let run = Running::start(&[&heard, "--state", &state]);
    run.out_has("data=[A, answer, yes, 1]", 1);
    run.out_has("data=[C, answer, yes, 3]", 1);
    let (code, summary) = run.stop();
    assert_eq!(code, Some(4), "one call was refused: {summary}");
    assert_eq!(number(&summary, "sinks", "Out", "failed"), 1);
    assert!(
        errors(&state).contains("InvalidArgument"),
        "{}",
        errors(&state)
    );
    peer.has("process:", 2);
    assert_eq!(peer.lines("process:").len(), 2);
    // A response that lacks what the mapping asks for is rejected.
    let apps = Apps::new(other.port(), 1);
    let run = Running::start(&[&apps.write("caller", CALLER, "")]);
    peer.has("process:{\"n\":0}", 1);
    run.err_has("event rejected", 1);
    let (_, summary) = run.stop();
    assert_eq!(number(&summary, "sources", "Back", "rejected"), 1);
    assert_eq!(number(&summary, "sources", "Back", "events"), 0);
}

const OWN_SENDER: &str = "@app:name('Own')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='false', file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
define stream In (count int, text string);
@sink(type='grpc', publisher.url='grpc://localhost:{port}/sample.Rows/take', descriptor.file='{options}', @map(type='protobuf'))
define stream Out (count int, text string);
@sink(type='grpc-call', sink.id='own', publisher.url='grpc://localhost:{port}/sample.Rows/take', descriptor.file='{options}', @map(type='protobuf', @payload(text='text', count='count')))
define stream Asked (count int, text string);
@source(type='grpc-call-response', sink.id='own', @map(type='protobuf', class='sample.Plain', descriptor.file='{options}'))
define stream Back (count int, text string);
@sink(type='log', prefix='back')
define stream Seen (count int, text string);
from In select * insert into Out;
from In select * insert into Asked;
from Back select * insert into Seen;
";

const OWN_SERVICE: &str = "@app:name('OwnService')
@source(type='grpc-service', source.id='own', receiver.url='grpc://localhost:{port}/sample.Rows/take', descriptor.file='{options}', @map(type='protobuf', @attributes(id='trp:message.id', text='text', count='count')))
define stream Questions (id string, text string, count int);
@sink(type='grpc-service-response', source.id='own', message.id='{{id}}', @map(type='protobuf', class='Plain', descriptor.file='{options}', @payload(text='text', count='count')))
define stream Answers (id string, text string, count int);
from Questions select id, str:upper(text) as text, count + 1 as count insert into Answers;
";

#[test]
fn a_service_of_its_own_speaks_the_messages_of_its_description() {
    let apps = Apps::new(free_port(), 3);
    let Some(peer) = server(apps.port(), "", "") else {
        return;
    };
    let run = Running::start(&[&apps.write("own", OWN_SENDER, &description())]);
    for n in 0..3 {
        peer.has(&format!("take:row {n} é {n}\n"), 2);
        run.out_has(&format!("data=[{}, got row {n} é]", n + 1), 1);
    }
    let (code, summary) = run.stop();
    assert_eq!(code, Some(0), "{summary}");
    let other = Apps::new(free_port(), 0);
    // The one by the descriptor set, the other by the text from which it was made.
    let text = description().replace(".pb", ".proto");
    let service = other.write("service", OWN_SERVICE, &text);
    let run = Running::connected(&[&service], 1);
    let mut peer = client(other.port(), "", "").expect("the library is there");
    peer.say("take abc 7");
    peer.has("answer:ABC 8", 1);
    run.stop();
}

// shows: sink grpc tls
// shows: sink grpc-call tls
// shows: source grpc tls
// shows: source grpc-service tls
#[test]
fn tls_both_ways_with_java_key_stores() {
    let (pem, p12) = (key_file("server.pem"), key_file("server.p12"));
    let apps = Apps::new(free_port(), 5);
    let Some(peer) = server(apps.port(), &pem, &pem) else {
        return;
    };
    let trust =
        format!("truststore.file='{p12}', truststore.password='wso2carbon', enable.ssl='true'");
    let own = format!(
        "{trust}, mutual.auth.enabled='true', keystore.file='{p12}', keystore.password='wso2carbon'"
    );
    let run = Running::start(&[&sender(&apps, "x", &own, false), "--until-done"]);
    let (code, summary) = run.end();
    assert_eq!(code, Some(0), "{summary}");
    peer.has("consume:4,", 1);
    let strange = Apps::new(apps.port(), 1);
    let strange = sender(&strange, "x", "enable.ssl='true', on.error='LOG'", false);
    let run = Running::start(&[&strange, "--until-done"]);
    run.err_has("certificate", 1);
    assert_eq!(run.end().0, Some(4));

    let other = Apps::new(free_port(), 0);
    let run = Running::connected(&[&other.write("receiver", RECEIVER, &own)], 2);
    let mut known = client(other.port(), &pem, &pem).expect("the library is there");
    known.say("consume In 1,a");
    run.out_has("data=[1, a, event, seven]", 1);
    // Who shows no certificate is not let in.
    let mut nobody = client(other.port(), &pem, "").expect("the library is there");
    nobody.say("long In 3");
    nobody.has("status UNAVAILABLE", 1);
    run.stop();
}

// shows: sink grpc resume, lost
#[test]
fn a_server_that_is_away_or_silent_gets_everything_later() {
    let apps = Apps::new(free_port(), 1);
    let Some(peer) = server(apps.port(), "", "") else {
        return;
    };
    let own = "on.error='WAIT', enable.retry='true', max.retry.attempts='3'";
    let run = Running::connected(&[&sender(&apps, "x", own, true)], 1);
    peer.has("consume:0,", 1);
    // What the server asks to make later is made again at once.
    append(&apps, "1,later\n");
    peer.has("consume:1,later", 1);
    assert!(!run.err().contains("cannot connect sink"), "{}", run.err());
    drop(peer);
    run.err_has("sink lost its connection; reconnecting", 1);
    append(&apps, "2,away\n");
    run.err_has("cannot connect sink", 1);
    let peer = server(apps.port(), "", "").expect("the library is there");
    peer.has("consume:2,away", 1);
    run.stop();

    // Our own listener lets clients ask for signs of life as often as they like.
    let there = Apps::new(free_port(), 0);
    let listening = Running::connected(&[&there.write("receiver", RECEIVER, "")], 2);
    let here = Apps::new(there.port(), 1);
    let own = "on.error='WAIT', headers=\"'stream.id:Rows'\", keep.alive.time='1', \
               keep.alive.timeout='2', keep.alive.without.calls='true'";
    let run = Running::connected(&[&sender(&here, "x", own, true)], 1);
    eventually("the row", || there.received() == here.rows);
    listening.freeze();
    let frozen = Instant::now();
    run.err_has("sink lost its connection; reconnecting", 1);
    let silent = frozen.elapsed();
    assert!(silent < NOTICED, "{silent:?}");
    listening.thaw();
    append(&here, "1,after\n");
    eventually("the other row", || there.received().ends_with("1,after\n"));
    run.stop();
    listening.stop();
}

// shows: sink grpc lost
#[test]
fn a_peer_that_stands_still_is_noticed_by_client_and_server() {
    let there = Apps::new(free_port(), 0);
    let listening = Running::connected(&[&there.write("receiver", RECEIVER, "")], 2);
    let here = Apps::new(there.port(), 1);
    let own = "on.error='WAIT', headers=\"'stream.id:Rows'\"";
    let run = Running::connected(&[&sender(&here, "x", own, true)], 1);
    eventually("the row", || there.received() == here.rows);
    // A server is asked while it has nothing to answer, and while it has.
    for (lost, row) in [(1, ""), (2, "2,waits\n")] {
        listening.freeze();
        let frozen = Instant::now();
        append(&here, row);
        run.err_has("sink lost its connection; reconnecting", lost);
        assert!(frozen.elapsed() < NOTICED, "{:?}", frozen.elapsed());
        listening.thaw();
        let next = format!("{lost},next\n");
        append(&here, &next);
        eventually("the next row", || there.received().ends_with(&next));
    }
    assert!(there.received().contains("2,waits\n"));
    // A client is asked all the time.
    run.freeze();
    let frozen = Instant::now();
    listening.err_has(
        "disconnecting client: it does not answer keep-alive pings",
        1,
    );
    assert!(frozen.elapsed() < NOTICED, "{:?}", frozen.elapsed());
    run.thaw();
    append(&here, "3,again\n");
    eventually("the last row", || there.received().ends_with("3,again\n"));
    run.stop();
    listening.stop();
}

#[test]
fn a_server_that_complains_of_questions_is_asked_no_more_while_it_has_no_call() {
    let apps = Apps::new(free_port(), 1);
    let Some(peer) = server(apps.port(), "", "") else {
        return;
    };
    let run = Running::connected(&[&sender(&apps, "x", "on.error='WAIT'", true)], 1);
    peer.has("consume:0,", 1);
    // The library lets nobody ask more often than every two hours while there is no call.
    run.err_has("keep-alive pings as too frequent", 1);
    append(&apps, "1,after\n");
    peer.has("consume:1,after", 1);
    assert_eq!(run.stop().0, Some(0));
    assert_eq!(peer.lines("consume:").len(), 2);
}

#[test]
fn a_call_that_is_refused_is_kept_and_one_that_may_come_again_waits() {
    let apps = Apps::new(free_port(), 0);
    let Some(peer) = server(apps.port(), "", "") else {
        return;
    };
    std::fs::write(apps.path("in.csv"), "1,a\n2,refuse\n3,later\n4,d\n")
        .expect("the folder can be written");
    let state = apps.path("state");
    let heard = HEARD.replace("on.error='LOG'", "on.error='WAIT'");
    let run = Running::start(&[&apps.write("heard", &heard, ""), "--state", &state]);
    for answer in [
        "[A, answer, yes, 1]",
        "[LATER, answer, yes, 3]",
        "[D, answer, yes, 4]",
    ] {
        run.out_has(answer, 1);
    }
    let (code, summary) = run.stop();
    assert_eq!(code, Some(4), "one call was refused: {summary}");
    assert_eq!(number(&summary, "sinks", "Out", "failed"), 1);
    assert_eq!(number(&summary, "sinks", "Out", "events"), 3);
    assert!(
        errors(&state).contains("InvalidArgument: no such thing"),
        "{}",
        errors(&state)
    );
    peer.has("process:", 3);
    assert_eq!(peer.lines("process:").len(), 3);
}

// shows: sink grpc error
#[test]
fn a_status_decides_where_an_event_goes() {
    let apps = Apps::new(free_port(), 0);
    let Some(peer) = server(apps.port(), "", "") else {
        return;
    };
    std::fs::write(apps.path("in.csv"), "1,a\n2,refuse\n3,c\n").expect("the folder can be written");
    for policy in ["LOG", "WAIT"] {
        let state = apps.path(policy);
        let own = format!("on.error='{policy}'");
        let args = [
            &sender(&apps, "x", &own, false),
            "--until-done",
            "--state",
            &state,
        ];
        let (code, summary) = Running::start(&args).end();
        assert_eq!(code, Some(4), "{policy}: {summary}");
        assert_eq!(number(&summary, "sinks", "Out", "failed"), 1);
        assert_eq!(number(&summary, "sinks", "Out", "events"), 2);
        assert!(errors(&state).contains("InvalidArgument: no such thing"));
    }
    let rows = ["1,a|sequence=x None", "3,c|sequence=x None"];
    peer.has(rows[1], 2);
    assert_eq!(peer.lines("consume:"), [rows, rows].concat());
}

// shows: sink grpc-call lost, reload
// shows: source grpc-service reload
#[test]
fn a_reload_between_calls_loses_nothing() {
    let apps = Apps::new(free_port(), 500);
    let service = SERVICE.replace("{timeout}", "60000");
    let edited = service.replace("'Service')", "'Service') -- edited");
    let service = Running::connected(&[&apps.write("service", &service, "")], 1);
    let caller = Running::start(&[&apps.write("caller", CALLER, "on.error='WAIT'")]);
    eventually("some responses", || !apps.received().is_empty());
    apps.write("service", &edited, "");
    service.reload();
    service.err_has("apps reloaded change", 1);
    let found = || {
        let received = apps.received();
        let mut rows: Vec<&str> = received.lines().collect();
        rows.sort_unstable();
        rows.dedup();
        rows.len()
    };
    eventually("a response for each call", || found() == 500);
    caller.stop();
    service.stop();
}
