//! The work of each source mapper is linear in its message, whatever the message is: texts that are
//! cheap to send and once were dear to read.

use std::collections::BTreeSet;

use plan::Mapping;
use plan::spec::ConnectorKind;

use super::MAPPERS;
use super::testing::{decoder, mapping, schema, with_attributes};
use crate::component::Payload;
use crate::growth::{EXPONENT_MAX, LENGTHS, exponent, repeated};
use crate::rows::Properties;

/// Head, part that comes again and again, and tail of a message.
type Shape = (&'static [u8], &'static [u8], &'static [u8]);

struct Case {
    map: Mapping,
    attributes: &'static str,
    shapes: &'static [Shape],
}

fn case(map: Mapping, attributes: &'static str, shapes: &'static [Shape]) -> Case {
    Case {
        map,
        attributes,
        shapes,
    }
}

fn texts() -> Vec<Case> {
    vec![
        case(
            mapping("csv", &[]),
            "a string, b string",
            &[
                (b"", b",", b"\n"),
                (b"", b"\"a\",", b"\n"),
                (b"", b"\"", b"\n"),
                (b"\"", b"\"\"", b"\",b\n"),
                (b"a,", b"b", b"\n"),
                (b"", b"a,b\n", b""),
                (b"", b"\n", b""),
                (b"", b"a,\"", b""),
            ],
        ),
        case(
            with_attributes(mapping("csv", &[]), &["1", "0"]),
            "a string, b string",
            &[(b"", b",", b"\n"), (b"", b"a,b\n", b"")],
        ),
        case(
            mapping("json", &[]),
            "a string, b long",
            &[
                (b"{\"event\":{\"a\":\"", b"x", b"\",\"b\":1}}"),
                (b"{\"event\":{\"a\":\"", b"\\u00e9", b"\",\"b\":1}}"),
                (b"{\"event\":{\"a\":\"", b"\\", b""),
                (b"", b"[", b""),
                (b"", b"{\"a\":", b""),
                (b"{\"event\":{", b"\"k\":1,", b"\"a\":\"\",\"b\":1}}"),
                (b"[", b"{\"event\":{\"a\":\"x\",\"b\":1}},", b"{}]"),
                (b"{\"event\":{\"b\":", b"9", b"}}"),
                (b"", b" ", b"{}"),
            ],
        ),
        case(
            with_attributes(mapping("json", &[]), &["$..a", "b[?(@.c == 1)].d"]),
            "a string, b string",
            &[
                (b"", b"{\"a\":", b""),
                (b"{\"b\":[", b"{\"c\":1},", b"{\"c\":2}]}"),
                (b"[", b"{\"a\":1},", b"{}]"),
            ],
        ),
        case(
            mapping("xml", &[]),
            "a string, b long",
            &[
                (
                    b"<events><event><a>",
                    b"x",
                    b"</a><b>1</b></event></events>",
                ),
                (
                    b"<events><event><a>",
                    b"&amp;",
                    b"</a><b>1</b></event></events>",
                ),
                (
                    b"<events>",
                    b"<event><a>x</a><b>1</b></event>",
                    b"</events>",
                ),
                (b"", b"<a>", b""),
                (b"<events ", b"a='1' ", b"/>"),
                (b"<events><![CDATA[", b"]]", b">"),
                (b"<events><!--", b"--", b">"),
                (b"<!DOCTYPE a [", b"<!ENTITY b 'c'>", b"]><a/>"),
            ],
        ),
        case(
            with_attributes(
                mapping(
                    "xml",
                    &[
                        ("enclosing.element", "/r/e"),
                        ("enable.streaming.xml.content", "true"),
                    ],
                ),
                &["/e/@a", "/e/b"],
            ),
            "a string, b string",
            &[
                (b"<r>", b"<e a='1'><b>x</b></e>", b"</r>"),
                (b"<r><e a='", b"x", b"'/></r>"),
                (b"<r>", b"<e>", b""),
            ],
        ),
        case(
            mapping("text", &[]),
            "a string, b long",
            &[
                (b"a:\"", b"x", b"\",\nb:1"),
                (b"", b"a:", b""),
                (b"", b"a:\"x\",\nb:1\n~~~~~~~~~~\n", b""),
                (b"", b"\n", b""),
                (b"", b"\"", b""),
            ],
        ),
        case(
            with_attributes(
                mapping(
                    "text",
                    &[("regex.A", "(a+)+$"), ("regex.B", "(\\w+)\\s([-0-9]+)")],
                ),
                &["A", "B[1]"],
            ),
            "a string, b string",
            &[(b"", b"a", b"!"), (b"", b"a ", b""), (b"", b"a 1\n", b"")],
        ),
    ]
}

const AVRO: &str = r#"{"type":"record","name":"S","fields":[{"name":"a","type":"string"},
    {"name":"b","type":{"type":"array","items":"null"}}]}"#;

const DESCRIPTION: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/src/mapper/protobuf/tests.proto"
);

/// Of `avro`, `binary`, `protobuf`; `keyvalue` and `passThrough` take no bytes.
fn bytes() -> Vec<Case> {
    vec![
        case(
            mapping("binary", &[]),
            "a string, b long",
            &[
                (
                    b"\x7f\xff\xff\xff",
                    b"\0\0\0\0\0\0\0\0\0\0\0\x01x\0\0\0\0\0\0\0\x01",
                    b"",
                ),
                (
                    b"\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\xff\xff",
                    b"x",
                    b"\0\0\0\0\0\0\0\x01",
                ),
                (b"", b"\0", b""),
                (b"", b"\xff", b""),
            ],
        ),
        #[cfg(feature = "avro")]
        case(
            mapping("avro", &[("schema.def", AVRO)]),
            "a string, b object",
            &[
                (b"", b"\x02x\x01\0", b""),
                (b"\xfe\xff\xff\x01", b"x", b""),
                (b"", b"\xff", b""),
            ],
        ),
        #[cfg(feature = "protobuf")]
        case(
            mapping(
                "protobuf",
                &[("descriptor.file", DESCRIPTION), ("class", "sample.Nested")],
            ),
            "list object, inner object",
            &[
                (b"", b"\x0a\x01x", b""),
                (b"", b"\x08\x01", b""),
                (b"", b"\x1a\0", b""),
                (b"", b"\xff", b""),
            ],
        ),
    ]
}

#[test]
fn the_work_of_each_mapper_is_linear_in_its_message() {
    let takes_text = texts().len();
    let mut seen = BTreeSet::new();
    for (number, case) in texts().into_iter().chain(bytes()).enumerate() {
        seen.insert(case.map.ty.clone());
        let schema = schema(case.attributes);
        for (head, part, tail) in case.shapes {
            let inputs = LENGTHS.map(|bytes| repeated(head, part, tail, bytes));
            let grown = exponent([&inputs[0], &inputs[1]], &mut |input| {
                let mut decoder =
                    decoder(case.map.clone(), &schema).expect("the mapper can be made");
                let payload = match std::str::from_utf8(input) {
                    Ok(text) if number < takes_text => Payload::Text(text),
                    _ => Payload::Bytes(input),
                };
                decoder.map(payload, &Properties::none());
                decoder.end_of_input();
                decoder.take();
                decoder.take_rejected();
            });
            let part = String::from_utf8_lossy(part);
            assert!(
                grown < EXPONENT_MAX,
                "{}, '{part}' again and again: {grown:.2}",
                case.map.ty
            );
        }
    }
    let sources = MAPPERS.iter().flat_map(|mapper| mapper.specs());
    let sources = sources.filter(|spec| spec.kind == ConnectorKind::SourceMapper);
    // Two take no bytes. A bundle of wso2event has its counts before its lists, which no part again and again makes:
    // `decoders.rs` of the connectors grows it.
    let others = ["keyvalue", "passThrough", "wso2event"];
    for spec in sources {
        assert!(
            seen.contains(spec.name) || others.contains(&spec.name),
            "no case of '{}'",
            spec.name
        );
    }
}
