use event::{Object, Value};
use plan::Mapping;
use proptest::prelude::*;

use super::super::testing::{
    batch, decoder, mapping, refusal, schema, show, with_attributes, with_payload,
};
use super::encode::write_long;
use super::plan::Plan;
use super::shape::Shapes;
use crate::component::{Payload, SinkMapperSetup};
use crate::mapper;
use crate::message::Messages;
use crate::rows::Properties;

const STOCK: &str = r#"{"type":"record","name":"Stock","fields":[
    {"name":"symbol","type":"string"},{"name":"price","type":"double"},
    {"name":"volume","type":["null","long"],"default":null}]}"#;
const STREAM: &str = "symbol string, price double, volume long";

fn avro(schema: &str) -> Mapping {
    mapping("avro", &[("schema.def", schema)])
}

/// Rows as text, and the causes of what was rejected.
fn read(map: Mapping, attributes: &str, messages: &[&[u8]]) -> (String, Vec<String>) {
    let mut decoder = decoder(map, &schema(attributes)).expect("the mapper can be made");
    for message in messages {
        decoder.map(Payload::Bytes(message), &Properties::none());
    }
    let rows = show(decoder.take());
    let causes = decoder
        .take_rejected()
        .into_iter()
        .map(|r| r.cause)
        .collect();
    (rows, causes)
}

#[track_caller]
fn check(map: Mapping, attributes: &str, message: &[u8], rows: &str) {
    let (found, causes) = read(map, attributes, &[message]);
    assert_eq!(found, rows, "{causes:?}");
    assert!(causes.is_empty(), "{causes:?}");
}

/// The message is rejected, and why.
#[track_caller]
fn check_rejected(map: Mapping, attributes: &str, message: &[u8], cause: &str) {
    let (rows, causes) = read(map, attributes, &[message]);
    assert_eq!(rows, "");
    assert_eq!(causes.len(), 1, "{causes:?}");
    assert!(causes[0].contains(cause), "{}", causes[0]);
}

fn encode(map: &Mapping, attributes: &str, rows: &[&[Value]]) -> (Vec<Vec<u8>>, Vec<String>) {
    let schema = schema(attributes);
    let setup = SinkMapperSetup {
        mapping: map,
        schema: &schema,
        around: &[],
    };
    let format = mapper::find("avro").expect("it is there");
    let mut sink = format.sink(&setup).expect("the mapper can be made");
    let mut out = Messages::default();
    sink.encode_all(&batch(attributes, rows), &mut out);
    let bytes = |payload| match payload {
        Payload::Bytes(bytes) => bytes.to_vec(),
        _ => unreachable!("the mapper gives bytes"),
    };
    let messages = out.iter().map(|message| bytes(message.payload)).collect();
    let causes = out.take_rejected().into_iter().map(|r| r.cause).collect();
    (messages, causes)
}

fn text(value: &str) -> Value {
    Value::str(value)
}

#[test]
fn records_become_rows_by_name() {
    // The bytes of "W", 55.5 and branch 1 with 100, as the specification has them.
    let mut message = b"\x02W".to_vec();
    message.extend(55.5f64.to_le_bytes());
    message.extend(b"\x02\xc8\x01");
    check(avro(STOCK), STREAM, &message, "W 55.5 100");
    let other = "volume long, symbol string, price double";
    check(avro(STOCK), other, &message, "100 W 55.5");
    let mut null = b"\x00".to_vec();
    null.extend(0f64.to_le_bytes());
    null.push(0);
    check(avro(STOCK), STREAM, &null, " 0.0 null");
    // Without a schema the stream has its own.
    let plain = mapping("avro", &[]);
    check(
        plain,
        "a int, b bool, c float",
        b"\x01\x01\0\0\xc0\x3f",
        "-1 true 1.5",
    );
}

#[test]
fn what_is_missing_is_null_where_that_is_allowed() {
    let message = b"\x02W";
    let short = r#"{"type":"record","name":"S","fields":[{"name":"symbol","type":"string"}]}"#;
    let lenient = mapping(
        "avro",
        &[
            ("schema.def", short),
            ("fail.on.missing.attribute", "false"),
        ],
    );
    check(lenient, STREAM, message, "W null null");
    check_rejected(
        avro(short),
        STREAM,
        message,
        "1 fields, the stream 3 attributes",
    );
    let paths = || with_attributes(avro(short), &["symbol", "nope", "nope"]);
    check_rejected(paths(), STREAM, message, "finds nothing");
}

#[test]
fn types_are_judged_as_json_judges_tokens() {
    fn check_one(ty: &str, attribute: &str, bytes: &[u8], expect: Result<&str, &str>) {
        let schema =
            format!(r#"{{"type":"record","name":"S","fields":[{{"name":"a","type":{ty}}}]}}"#);
        let attributes = format!("a {attribute}");
        match expect {
            Ok(rows) => check(avro(&schema), &attributes, bytes, rows),
            Err(cause) => check_rejected(avro(&schema), &attributes, bytes, cause),
        }
    }
    let double = |v: f64| v.to_le_bytes();
    check_one(r#""int""#, "long", b"\x03", Ok("-2"));
    check_one(
        r#""long""#,
        "int",
        b"\xfe\xff\xff\xff\x0f",
        Ok("2147483647"),
    );
    check_one(
        r#""long""#,
        "int",
        b"\x80\x80\x80\x80\x10",
        Err("2147483648 is no int"),
    );
    check_one(r#""int""#, "double", b"\x02", Err("1 is no double"));
    check_one(r#""int""#, "float", b"\x02", Ok("1.0"));
    check_one(r#""double""#, "long", &double(1.0), Err("1.0 is no long"));
    check_one(r#""double""#, "float", &double(0.1), Ok("0.1"));
    check_one(r#""float""#, "double", &0.1f32.to_le_bytes(), Ok("0.1"));
    check_one(r#""double""#, "double", &double(f64::NAN), Ok("NaN"));
    check_one(r#""double""#, "string", &double(1e10), Ok("1.0E10"));
    check_one(r#""boolean""#, "string", b"\x01", Ok("true"));
    check_one(r#""boolean""#, "bool", b"\x02", Err("a boolean is 2"));
    check_one(r#""string""#, "int", b"\x025", Err("5\" is no int"));
    check_one(r#""string""#, "string", b"\x02\xff", Err("not UTF-8"));
    check_one(r#""bytes""#, "string", b"\x04a\xe9", Ok("aé"));
    check_one(r#"["null","string"]"#, "string", b"\x00", Ok("null"));
    check_one(
        r#"["null","string"]"#,
        "string",
        b"\x04",
        Err("no branch 2"),
    );
    let suit = r#"{"type":"enum","name":"E","symbols":["A","B"]}"#;
    check_one(suit, "string", b"\x02", Ok("B"));
    check_one(suit, "string", b"\x04", Err("no symbol 2"));
    let list = r#"{"type":"array","items":"int"}"#;
    check_one(list, "string", b"\x04\x02\x04\x00", Ok("[1,2]"));
    check_one(list, "object", b"\x03\x04\x02\x04\x00", Ok("[1, 2]"));
    check_one(list, "int", b"\x00", Err("[] is no int"));
    let map = r#"{"type":"map","values":"boolean"}"#;
    check_one(map, "string", b"\x02\x02k\x01\x00", Ok("{\"k\":true}"));
    let money = r#"{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}"#;
    check_one(money, "double", b"\x04\x04\xd2", Ok("12.34"));
    check_one(money, "string", b"\x02\xff", Ok("-0.01"));
    let day = r#"{"type":"int","logicalType":"date"}"#;
    check_one(day, "int", b"\x02", Ok("1"));
    let uuid = r#"{"type":"string","logicalType":"uuid"}"#;
    check_one(uuid, "string", b"\x02x", Ok("x"));
}

#[test]
fn bytes_that_are_none_of_the_schema_are_rejected_alone() {
    let (good, _) = encode(
        &avro(STOCK),
        STREAM,
        &[&[text("W"), Value::Double(1.0), Value::Long(7)]],
    );
    let good = good[0].as_slice();
    for len in 0..good.len() {
        let (rows, causes) = read(avro(STOCK), STREAM, &[good, &good[..len], good]);
        assert_eq!(
            (rows.as_str(), causes.len()),
            ("W 1.0 7\nW 1.0 7", 1),
            "{len}"
        );
    }
    let longer = [good, b"x"].concat();
    check_rejected(avro(STOCK), STREAM, &longer, "1 bytes follow");
    check_rejected(avro(STOCK), "symbol string", good, "no attribute 'price'");
    // Lengths and counts that no message can have, values without an end.
    let list = r#"{"type":"array","items":"null"}"#;
    let mut endless = Vec::new();
    write_long(&mut endless, i64::MAX);
    check_rejected(avro(list), "a int", &endless, "too many values");
    let ring = r#"{"type":"record","name":"R","fields":[{"name":"a","type":"R"}]}"#;
    check_rejected(avro(ring), "a int", b"", "nests too deep");
    check_rejected(avro(r#""string""#), "a string", b"\x01", "negative");
    check_rejected(
        avro(r#""long""#),
        "a long",
        &[0xff; 11],
        "longer than 64 bits",
    );
}

#[test]
fn lists_are_several_events_and_paths_find_parts() {
    let list = format!(r#"{{"type":"array","items":{STOCK}}}"#);
    let mut message = b"\x04".to_vec();
    for (name, price) in [(b"\x02A", 1.0f64), (b"\x02B", 2.0)] {
        message.extend(name);
        message.extend(price.to_le_bytes());
        message.extend(b"\x02\x02");
    }
    message.push(0);
    check(avro(&list), STREAM, &message, "A 1.0 1; B 2.0 1");
    let nested = r#"{"type":"record","name":"O","fields":[{"name":"id","type":"int"},
        {"name":"in","type":{"type":"record","name":"I","fields":[
            {"name":"tags","type":{"type":"array","items":"string"}}]}}]}"#;
    let map = with_attributes(avro(nested), &["$.in.tags[1]", "id", "$.in"]);
    let message = b"\x0e\x04\x02x\x02y\x00";
    check(
        map,
        "t string, n long, all string",
        message,
        r#"y 7 {"tags":["x","y"]}"#,
    );
    let event =
        format!(r#"{{"type":"record","name":"W","fields":[{{"name":"event","type":{STOCK}}}]}}"#);
    let mut wrapped = b"\x02W".to_vec();
    wrapped.extend(55.5f64.to_le_bytes());
    wrapped.extend(b"\x02\xc8\x01");
    check(avro(&event), STREAM, &wrapped, "W 55.5 100");
}

#[test]
fn what_is_written_by_one_schema_is_read_by_another() {
    fn check_pair(writer: &str, reader: &str, bytes: &[u8], expect: Result<&str, &str>) {
        let shapes = |text: &str| Shapes::parse(text, &[]).expect(text);
        let plan = Plan::new(&shapes(writer), &shapes(reader));
        let mut cursor = super::decode::Cursor::new(bytes);
        let found = cursor.node(&plan, plan.root, 0).map(|node| {
            assert_eq!(cursor.left(), 0, "{writer}");
            let mut text = String::new();
            node.write(&mut text);
            text
        });
        match (found, expect) {
            (Ok(found), Ok(expect)) => assert_eq!(found, expect, "{writer} as {reader}"),
            (Err(cause), Err(expect)) => assert!(cause.contains(expect), "{cause}"),
            (found, expect) => panic!("{writer} as {reader}: {found:?}, not {expect:?}"),
        }
    }
    check_pair(r#""int""#, r#""double""#, b"\x02", Ok("1.0"));
    check_pair(r#""int""#, r#"["null","long"]"#, b"\x02", Ok("1"));
    check_pair(r#"["null","int"]"#, r#""long""#, b"\x02\x02", Ok("1"));
    check_pair(
        r#"["null","int"]"#,
        r#""long""#,
        b"\x00",
        Err("null cannot be read as long"),
    );
    check_pair(
        r#""long""#,
        r#""int""#,
        b"\x02",
        Err("long cannot be read as int"),
    );
    check_pair(r#""bytes""#, r#""string""#, b"\x02x", Ok("\"x\""));
    let record = |fields: &str| format!(r#"{{"type":"record","name":"R","fields":[{fields}]}}"#);
    let (a, b) = (
        r#"{"name":"a","type":"string"}"#,
        r#"{"name":"b","type":{"type":"array","items":"R"}}"#,
    );
    // What the reader leaves out is skipped, what it has more is its default, in its order.
    let written = record(&format!("{a},{b}"));
    let more = r#"{"name":"c","type":["int","null"],"default":5},{"name":"z","aliases":["a"],"type":"string"}"#;
    let message = b"\x02x\x02\x02y\x00\x00";
    check_pair(&written, &record(more), message, Ok(r#"{"c":5,"z":"x"}"#));
    check_pair(
        &written,
        &written,
        message,
        Ok(r#"{"a":"x","b":[{"a":"y","b":[]}]}"#),
    );
    let lacking = record(r#"{"name":"q","type":"int"}"#);
    check_pair(
        &written,
        &lacking,
        message,
        Err("'q' is not written and has no default"),
    );
    let symbols = |s: &str| format!(r#"{{"type":"enum","name":"E","symbols":[{s}]}}"#);
    let with_default = r#"{"type":"enum","name":"E","symbols":["A","X"],"default":"X"}"#;
    check_pair(&symbols(r#""A","B""#), with_default, b"\x02", Ok("\"X\""));
    check_pair(
        &symbols(r#""A","B""#),
        &symbols(r#""A""#),
        b"\x02",
        Err("has no 'B'"),
    );
}

#[test]
fn events_are_written_one_a_message() {
    let rows: [&[Value]; 2] = [
        &[text("W"), Value::Double(55.5), Value::Long(100)],
        &[text("é"), Value::Double(-0.0), Value::Null],
    ];
    let (messages, causes) = encode(&avro(STOCK), STREAM, &rows);
    assert!(causes.is_empty(), "{causes:?}");
    let expect = [
        [b"\x02W".as_slice(), &55.5f64.to_le_bytes(), b"\x02\xc8\x01"].concat(),
        ["\u{4}é".as_bytes(), &(-0.0f64).to_le_bytes(), b"\x00"].concat(),
    ];
    assert_eq!(messages, expect);
}

#[test]
fn null_is_null_where_the_schema_has_it_and_undefined_in_text() {
    let rows: [&[Value]; 2] = [
        &[Value::Null, Value::Double(1.0), Value::Null],
        &[text("a"), Value::Null, Value::Null],
    ];
    let (messages, causes) = encode(&avro(STOCK), STREAM, &rows);
    assert_eq!(causes.len(), 1);
    assert!(
        causes[0].contains("'price': null is no double"),
        "{causes:?}"
    );
    let messages: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
    let (rows, _) = read(avro(STOCK), STREAM, &messages);
    assert_eq!(rows, "undefined 1.0 null");
}

#[test]
fn values_are_fitted_to_their_fields() {
    fn check_one(ty: &str, attribute: &str, value: Value, expect: Result<&[u8], &str>) {
        let schema =
            format!(r#"{{"type":"record","name":"S","fields":[{{"name":"a","type":{ty}}}]}}"#);
        let attributes = format!("a {attribute}");
        let shown = format!("{value:?} as {ty}");
        let (messages, causes) = encode(&avro(&schema), &attributes, &[&[value]]);
        match expect {
            Ok(bytes) => assert_eq!(messages, [bytes.to_vec()], "{shown}: {causes:?}"),
            Err(cause) => assert!(causes[0].contains(cause), "{shown}: {causes:?}"),
        }
    }
    check_one(r#""long""#, "int", Value::Int(-1), Ok(b"\x01"));
    check_one(r#""int""#, "long", Value::Long(1 << 40), Err("is no int"));
    check_one(r#""int""#, "double", Value::Double(3.0), Ok(b"\x06"));
    check_one(
        r#""int""#,
        "double",
        Value::Double(3.5),
        Err("3.5 is no int"),
    );
    check_one(
        r#""double""#,
        "float",
        Value::Float(0.1),
        Ok(&0.1f64.to_le_bytes()),
    );
    check_one(r#""float""#, "int", Value::Int(3), Ok(&3f32.to_le_bytes()));
    let nan = Value::Double(f64::INFINITY);
    check_one(
        r#"["null","float"]"#,
        "double",
        nan,
        Ok(b"\x02\0\0\x80\x7f"),
    );
    check_one(r#"["int","string"]"#, "string", text("5"), Ok(b"\x02\x025"));
    check_one(
        r#"["null","double","string"]"#,
        "string",
        text("NaN"),
        Ok(b"\x04\x06NaN"),
    );
    check_one(
        r#"{"type":"enum","name":"E","symbols":["A","B"]}"#,
        "string",
        text("B"),
        Ok(b"\x02"),
    );
    check_one(
        r#"{"type":"enum","name":"E","symbols":["A"]}"#,
        "string",
        text("B"),
        Err("is no enum 'E'"),
    );
    check_one(
        r#"{"type":"fixed","name":"F","size":2}"#,
        "string",
        text("a\u{ff}"),
        Ok(b"a\xff"),
    );
    check_one(
        r#"{"type":"fixed","name":"F","size":2}"#,
        "string",
        text("a"),
        Err("is no fixed 'F'"),
    );
    check_one(
        r#"{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}"#,
        "double",
        Value::Double(12.34),
        Ok(b"\x04\x04\xd2"),
    );
    let bytes = Value::Object(Object::Bytes([0, 255].as_slice().into()));
    check_one(r#""bytes""#, "object", bytes, Ok(b"\x04\x00\xff"));
    let list = Object::List(event::value::Shared::new(vec![
        Value::Int(1),
        Value::Long(2),
    ]));
    check_one(
        r#"{"type":"array","items":"long"}"#,
        "object",
        Value::Object(list),
        Ok(b"\x04\x02\x04\x00"),
    );
}

#[test]
fn fields_without_attribute_have_their_default() {
    let wide = r#"{"type":"record","name":"S","fields":[{"name":"a","type":"int"},
        {"name":"b","type":"string","default":"x"},{"name":"c","type":["null","int"]}]}"#;
    let (messages, _) = encode(
        &avro(wide),
        "a int, unused int",
        &[&[Value::Int(1), Value::Int(2)]],
    );
    assert_eq!(messages, [b"\x02\x02x\x00".to_vec()]);
    let lacking = r#"{"type":"record","name":"S","fields":[{"name":"b","type":"string"}]}"#;
    assert!(
        refusal(&avro(lacking), "a int").contains("field 'b' of the schema is not an attribute")
    );
}

#[test]
fn templates_are_documents_of_the_schema() {
    let nested = r#"{"type":"record","name":"O","fields":[
        {"name":"id","type":["null","int"]},{"name":"tags","type":{"type":"map","values":"string"}},
        {"name":"rest","type":"long","default":9}]}"#;
    let template = r#"{"id":{{n}},"tags":{"t":"{{t}}"},"more":1}"#;
    let map = with_payload(avro(nested), &[("", template)]);
    let rows: [&[Value]; 3] = [
        &[Value::Int(3), text("x")],
        &[Value::Null, Value::Null],
        &[Value::Int(3), text("a\"b")],
    ];
    let (messages, causes) = encode(&map, "n int, t string", &rows);
    let expect = [
        b"\x02\x06\x02\x02t\x02x\x00\x12".to_vec(),
        b"\x00\x02\x02t\x12undefined\x00\x12".to_vec(),
    ];
    assert_eq!(messages, expect);
    assert_eq!(causes.len(), 1, "{causes:?}");
}

#[test]
fn what_cannot_be_is_refused_when_the_app_is_made() {
    fn check(options: &[(&str, &str)], expect: &str) {
        let said = refusal(&mapping("avro", options), "a int");
        assert!(said.contains(expect), "{options:?}: {said}");
    }
    check(&[("schema.def", "{")], "the Avro schema cannot be read");
    check(
        &[(
            "schema.def",
            r#"{"type":"record","name":"R","fields":[{"name":"a","type":"Nope"}]}"#,
        )],
        "the Avro schema cannot be read",
    );
    check(&[("schema.def", r#""int""#)], "write @payload for it");
    check(&[("schema.id", "7")], "needs a registry");
    check(
        &[("schema.id", "x"), ("schema.registry", "http://h")],
        "write a whole number",
    );
    check(&[("schema.registry", "h:80")], "is not a URL");
    check(&[("schema.registry", " ")], "has no URL");
    check(&[("use.avro.serializer", "true")], "needs a registry");
    check(
        &[
            ("use.avro.serializer", "true"),
            ("schema.registry", "http://h"),
        ],
        "give it by 'schema.id'",
    );
    let made = decoder(
        mapping("avro", &[("use.avro.deserializer", "true")]),
        &schema("a int"),
    );
    let said = made
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default();
    assert!(said.contains("needs a registry"), "{said}");
    let made = decoder(mapping("avro", &[]), &schema("o object"));
    let said = made
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default();
    assert!(said.contains("write the schema by 'schema.def'"), "{said}");
}

#[test]
fn messages_without_the_number_of_their_schema_are_rejected() {
    let map = || mapping("avro", &[("schema.registry", "http://127.0.0.1:1")]);
    check_rejected(
        map(),
        "a int",
        b"\x01\0\0\0\x01\x02",
        "number of its schema",
    );
    check_rejected(map(), "a int", b"\0\0\0", "number of its schema");
    // Nobody listens there; a transport that can wait asks before.
    check_rejected(
        map(),
        "a int",
        b"\0\0\0\0\x01\x02",
        "schema registry 'http://127.0.0.1:1'",
    );
}

/// All types at once, each with what its Java forms make hard.
const ALL: &str = "s string, i int, l long, f float, d double, b bool";

fn row() -> impl Strategy<Value = Vec<Value>> {
    let text = prop_oneof![
        any::<String>().prop_map(|s| Value::str(&s)),
        Just(Value::Null)
    ];
    let double = prop_oneof![any::<f64>(), Just(f64::NAN), Just(1e10), Just(-0.0)];
    (
        text,
        any::<i32>(),
        any::<i64>(),
        any::<f32>(),
        double,
        any::<bool>(),
    )
        .prop_map(|(s, i, l, f, d, b)| {
            let (f, d) = (Value::Float(f), Value::Double(d));
            vec![s, Value::Int(i), Value::Long(l), f, d, Value::Bool(b)]
        })
}

proptest! {
    #[test]
    fn every_row_comes_back(rows in prop::collection::vec(row(), 1..20)) {
        let nullable = r#"{"type":"record","name":"S","fields":[
            {"name":"s","type":["null","string"]},{"name":"i","type":"int"},
            {"name":"l","type":"long"},{"name":"f","type":["float","null"]},
            {"name":"d","type":"double"},{"name":"b","type":"boolean"}]}"#;
        let slices: Vec<&[Value]> = rows.iter().map(Vec::as_slice).collect();
        let (messages, causes) = encode(&avro(nullable), ALL, &slices);
        prop_assert!(causes.is_empty(), "{:?}", causes);
        let messages: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
        let (found, causes) = read(avro(nullable), ALL, &messages);
        prop_assert!(causes.is_empty(), "{:?}", causes);
        let expect = show(Some(batch(ALL, &slices)));
        prop_assert_eq!(found.replace('\n', "; "), expect.replace('\n', "; "));
    }

    #[test]
    fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let deep = r#"{"type":"record","name":"R","fields":[
            {"name":"a","type":{"type":"array","items":["null","R","string"]}},
            {"name":"m","type":{"type":"map","values":"R"}}]}"#;
        for (schema, attributes) in [(deep, "a object, m string"), (STOCK, STREAM)] {
            let (rows, causes) = read(avro(schema), attributes, &[&bytes]);
            prop_assert!(rows.is_empty() != causes.is_empty());
        }
    }
}
