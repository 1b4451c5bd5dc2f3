//! `json`: JSON documents, in both directions.
//!
//! Input is strict JSON, read once. Siddhi's two default paths differ (a single object is typed by
//! its tokens, the elements of an array by their text) and both are kept; [`source`] has them, with
//! a shorter way for flat objects in [`flat`] that gives the same rows. With `@attributes`, values
//! are found by JSONPath.

mod flat;
mod lenient;
mod sink;
mod source;
mod tree;

#[cfg(feature = "avro")]
pub(in crate::mapper) use source::Source;
#[cfg(feature = "avro")]
pub(in crate::mapper) use tree::{DEPTH_MAX, Node, Style, parse};

use crate::spec::json::CONNECTORS as SPECS;
use plan::spec::ConnectorSpec;

use crate::component::{
    Mapper, PayloadKind, SinkMapper, SinkMapperSetup, SourceMapper, SourceMapperSetup,
};
use crate::error::Error;

pub struct Json;

impl Mapper for Json {
    fn specs(&self) -> &'static [ConnectorSpec] {
        SPECS
    }

    fn takes(&self) -> &'static [PayloadKind] {
        &[PayloadKind::Text, PayloadKind::Bytes]
    }

    fn gives(&self) -> &'static [PayloadKind] {
        &[PayloadKind::Text]
    }

    fn source(&self, setup: &SourceMapperSetup<'_>) -> Result<Box<dyn SourceMapper>, Error> {
        Ok(Box::new(source::Source::new(setup)?))
    }

    fn sink(&self, setup: &SinkMapperSetup<'_>) -> Result<Box<dyn SinkMapper>, Error> {
        Ok(Box::new(sink::Sink::new(setup)?))
    }
}

/// Appends a JSON string with the escapes of Gson: quote, backslash, control characters, U+2028 and
/// U+2029; nothing else.
fn write_string(out: &mut String, text: &str) {
    use std::fmt::Write;

    out.push('"');
    let mut from = 0;
    for (at, c) in text.char_indices() {
        let short = match c {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\t' => "\\t",
            '\u{8}' => "\\b",
            '\n' => "\\n",
            '\r' => "\\r",
            '\u{c}' => "\\f",
            '\0'..='\u{1f}' | '\u{2028}' | '\u{2029}' => "",
            _ => continue,
        };
        out.push_str(&text[from..at]);
        if short.is_empty() {
            write!(out, "\\u{:04x}", c as u32).expect("writing to a string cannot fail");
        } else {
            out.push_str(short);
        }
        from = at + c.len_utf8();
    }
    out.push_str(&text[from..]);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use event::value::Shared;
    use event::{Object, Value};
    use proptest::prelude::*;

    const STOCK: &str = "symbol string, price float, volume long";
    const LENIENT: &[(&str, &str)] = &[("fail.on.missing.attribute", "false")];

    fn json(options: &[(&str, &str)]) -> plan::Mapping {
        mapping("json", options)
    }

    #[test]
    fn a_single_object_is_typed_by_its_tokens() {
        let good = [
            r#" {"event" : {"symbol":"W","price":55.6,"volume":100}} "#,
            r#"{"EVENT":{"volume":1,"price":5,"symbol":5}}"#,
            r#"{"symbol":null,"price":null,"volume":null}"#,
            r#"{"symbol":"a\"b","price":1e2,"volume":-7}"#,
        ];
        check(
            json(&[]),
            STOCK,
            &good,
            "W 55.6 100\n5 5.0 1\nnull null null\na\"b 100.0 -7",
            0,
        );
        let bad = [
            r#"{"symbol":"W","price":55.6,"volume":100,"more":1}"#,
            r#"{"symbol":"W","price":55.6}"#,
            r#"{"symbol":"W","price":55.6,"volume":100.0}"#,
            r#"{"symbol":"W","price":"55.6","volume":1}"#,
            r#"{"symbol":"W","price":55.6,"volume":""}"#,
            r#"{"symbol":"W","price":5,"volume":9223372036854775808}"#,
            r#"{"symbol":"W","price":5,"volume":1"#,
            r#"{"event":{"symbol":"W","price":5,"volume":1},"other":[1]}"#,
            r#"{"event":{"symbol":"W","price":5,"volume":1},"symbol":"V"}"#,
            r#"{"event1":{"symbol":"W","price":5,"volume":1}}"#,
            "12",
            "",
            "{'symbol':1}",
        ];
        check(json(&[]), STOCK, &bad, "", bad.len());
        check(json(LENIENT), STOCK, &bad[..2], "W 55.6 null", 1);
    }

    #[test]
    fn doubles_and_bools_want_their_token() {
        let attributes = "a double, b bool";
        check(
            json(&[]),
            attributes,
            &[
                r#"{"a":10,"b":true}"#,
                r#"{"a":10.0,"b":"true"}"#,
                r#"{"a":10.0,"b":true}"#,
                r#"{"b":false,"a":1E1}"#,
            ],
            "10.0 true\n10.0 false",
            2,
        );
    }

    #[test]
    fn the_missing_test_counts_names() {
        // A name given twice counts twice, as in Siddhi, and the last value is taken.
        let text = r#"{"symbol":"a","symbol":"b","price":1}"#;
        check(json(&[]), STOCK, &[text], "b 1.0 null", 0);
    }

    #[test]
    fn nested_values_become_text_or_objects() {
        let attributes = "a object, b string";
        let texts = [
            r#"{"a":{"x":[1,"y",null]},"b":{"p": 25, "q": [1.50, "\u20ac"]}}"#,
            r#"{"a":1,"b":[25,25]}"#,
            r#"{"a":1.5,"b":true}"#,
            r#"{"a":3000000000,"b":true}"#,
        ];
        check(
            json(&[]),
            attributes,
            &texts,
            "{x=[1, y, null]} {\"p\":25,\"q\":[1.5,\"€\"]}\n1 [25,25]\n1.5 true",
            1,
        );
    }

    #[test]
    fn elements_of_a_list_are_typed_by_their_text() {
        let text = r#"[{"event":{"symbol":"W","price":"5","volume":"7"}},
            {"symbol":true,"price":10,"volume":1,"more":2},
            {"symbol":"short","price":1},
            {"event":{"symbol":"short","price":1}},
            {"symbol":null,"price":2,"volume":3}]"#;
        let rows = "W 5.0 7; true 10.0 1; null 2.0 3";
        check(json(&[]), STOCK, &[text], rows, 2);
        let short = "W 5.0 7; true 10.0 1; short 1.0 null; null 2.0 3";
        check(json(LENIENT), STOCK, &[text], short, 1);
        let single = json(&[("event.grouping.enabled", "false")]);
        check(single, STOCK, &[text], &rows.replace("; ", "\n"), 2);
        let broken = [r#"[{"symbol":"W","price":1,"volume":1}"#, "[]"];
        check(json(&[]), STOCK, &broken, "", 1);
    }

    #[test]
    fn a_value_that_cannot_be_converted_drops_the_whole_list() {
        let good = r#"{"symbol":"W","price":1,"volume":1}"#;
        for bad in [
            r#"{"symbol":"W","price":"x","volume":1}"#,
            r#"{"symbol":{},"price":1,"volume":1}"#,
            "5",
        ] {
            let text = format!("[{good},{bad},{good}]");
            check(json(LENIENT), STOCK, &[&text, good], "W 1.0 1", 1);
        }
        let custom = with_attributes(json(LENIENT), &["symbol", "price", "volume"]);
        let text = format!(r#"[{good},{{"volume":1.0}},{good}]"#);
        check(custom, STOCK, &[&text, good], "W 1.0 1", 1);
    }

    #[test]
    fn paths_find_values_of_any_token() {
        let map = |options: &[(&str, &str)]| {
            let options: Vec<_> = options
                .iter()
                .copied()
                .chain([("enclosing.element", "portfolio")])
                .collect();
            with_attributes(
                json(&options),
                &["stock.company.symbol", "$.stock.price", "stock.volume"],
            )
        };
        let texts = [
            r#"{"portfolio":[{"stock":{"volume":"100","company":{"symbol":"w"},"price":55}},
               {"stock":{"volume":null,"company":{"symbol":{"a": 1}},"price":"5.5"}},
               {"stock":{"volume":1,"company":{"symbol":"w"}}}]}"#,
            r#"{"portfolio":{"stock":{"volume":1.0,"company":{"symbol":"w"},"price":1}}}"#,
            r#"{"portfolio":{"stock":{"volume":7,"company":{"symbol":1.10},"price":1e3}}}"#,
            r#"{"other":1}"#,
        ];
        check(
            map(&[]),
            STOCK,
            &texts,
            "w 55.0 100; {\"a\":1} 5.5 null\n1.1 1000.0 7",
            3,
        );
        check(
            map(LENIENT),
            STOCK,
            &texts,
            "w 55.0 100; {\"a\":1} 5.5 null; w null 1\n1.1 1000.0 7",
            2,
        );
    }

    #[test]
    fn values_become_text_as_the_libraries_of_java_write_them() {
        let map = with_attributes(json(LENIENT), &["s"]);
        let texts = [
            r#"{"s":{"a":"<&='/>","n":1.50}}"#,
            r#"{"s":["a/b\u007f<",1.50,{"k":null}]}"#,
            r#"{"s":1.123456789012345678901}"#,
            r#"{"s":1e3}"#,
            r#"{"s":-0}"#,
        ];
        check(
            map,
            "s string",
            &texts,
            "{\"a\":\"\\u003c\\u0026\\u003d\\u0027/\\u003e\",\"n\":1.5}\n\
             [\"a\\/b\\u007F<\",1.5,{\"k\":null}]\n1.123456789012345678901\n1000.0\n0",
            0,
        );
    }

    #[test]
    fn bytes_are_text_in_utf_8() {
        use crate::component::Payload;
        use crate::rows::Properties;
        let mut decoder = decoder(json(&[]), &schema("a string")).expect("it can be made");
        decoder.map(
            Payload::Bytes("{\"a\":\"é\"}".as_bytes()),
            &Properties::none(),
        );
        decoder.map(Payload::Bytes(b"{\"a\":\"\xff\"}"), &Properties::none());
        assert_eq!(
            (show(decoder.take()), decoder.take_rejected().len()),
            ("é".to_owned(), 1)
        );
    }

    #[test]
    fn events_are_written() {
        let rows: &[&[Value]] = &[
            &["W\"\n</é\u{1}".into(), Value::Float(55.0), Value::Long(100)],
            &[Value::Null, Value::Float(1e10), Value::Null],
        ];
        let (one, all) = (batch(STOCK, &rows[..1]), batch(STOCK, rows));
        let first = r#"{"event":{"symbol":"W\"\n</é\u0001","price":55.0,"volume":100}}"#;
        assert_eq!(write(&json(&[]), STOCK, &one), [first]);
        let second = r#"{"event":{"symbol":"undefined","price":1.0E10,"volume":"undefined"}}"#;
        assert_eq!(
            write(&json(&[]), STOCK, &all),
            [format!("[{first},{second}]")]
        );
        let nulls = json(&[
            ("enable.null.attribute.value", "true"),
            ("event.grouping.enabled", "false"),
            ("enclosing.element", "$.a.b"),
        ]);
        assert_eq!(
            write(&nulls, STOCK, &all)[1],
            r#"{"a":{"b":{"event":{"symbol":null,"price":1.0E10,"volume":null}}}}"#
        );
    }

    #[test]
    fn objects_are_written_as_json() {
        let map = |entries: Vec<(Value, Value)>| Value::Object(Object::Map(Shared::new(entries)));
        let list = Value::Object(Object::List(Shared::new(vec![
            Value::Int(1),
            "x".into(),
            Value::Null,
        ])));
        let full = map(vec![
            ("k".into(), Value::Double(1.0)),
            ("n".into(), Value::Null),
            ("l".into(), list),
        ]);
        let rows: &[&[Value]] = &[
            &[full, Value::Int(1)],
            &[map(Vec::new()), Value::Int(2)],
            &["t".into(), Value::Int(3)],
        ];
        assert_eq!(
            write(
                &json(&[("event.grouping.enabled", "false")]),
                "o object, i int",
                &batch("o object, i int", rows)
            ),
            [
                r#"{"event":{"o":{"k":1.0,"l":[1,"x",null]},"i":1}}"#,
                r#"{"event":{"i":2}}"#,
                r#"{"event":{"o":"t","i":3}}"#,
            ]
        );
    }

    #[test]
    fn templates_are_filled_without_quoting_and_checked_on_demand() {
        let rows: &[&[Value]] = &[
            &["{\"x\":1}".into(), Value::Float(1.5), Value::Null],
            &["bad}".into(), Value::Float(1.5), Value::Null],
        ];
        let payload = [("", "{\"data\":{{symbol}}, \"v\":{{volume}} }")];
        let all = batch(STOCK, rows);
        let plain = with_payload(json(&[]), &payload);
        assert_eq!(
            write(&plain, STOCK, &all),
            ["[{\"data\":{\"x\":1}, \"v\":undefined },\n{\"data\":bad}, \"v\":undefined }]"]
        );
        let checked = json(&[
            ("validate.json", "true"),
            ("event.grouping.enabled", "false"),
        ]);
        assert_eq!(
            write(&with_payload(checked, &payload), STOCK, &all),
            ["{\"data\":{\"x\":1}, \"v\":undefined }"]
        );
        assert_ne!(
            refusal(&with_payload(json(&[]), &[("", "{{nope}}")]), STOCK),
            ""
        );
        assert_ne!(
            refusal(&with_payload(json(&[]), &[("", "symbol")]), STOCK),
            ""
        );
    }

    /// Text that is an object of the stream, or nearly.
    fn nearly() -> impl Strategy<Value = String> {
        let value = prop_oneof![
            "-?[0-9]{1,3}(\\.[0-9]{1,2})?([eE][+-]?[0-9])?",
            Just("null".to_owned()),
            "(true|false)",
            "\"[a-z\\\\n\"é]{0,4}\"",
            Just("[1]".to_owned()),
            Just("{}".to_owned()),
        ];
        let name =
            prop_oneof![4 => "[abcd]", 1 => Just("event".to_owned()), 1 => Just("x".to_owned())];
        let blank = "[ \n]{0,1}";
        let entry = (name, blank, value).prop_map(|(n, b, v)| format!("{b}\"{n}\"{b}:{b}{v}"));
        (prop::collection::vec(entry, 0..6), 0..6u8).prop_map(|(entries, form)| {
            let object = format!("{{{}}}", entries.join(","));
            match form {
                0 => format!("{{\"event\":{object}}}"),
                1 => format!("{object}}}"),
                2 => format!("{{ \"Event\" : {object} , \"a\":1}}"),
                _ => object,
            }
        })
    }

    proptest! {
        /// The short way takes nothing that the tree refuses, and gives the same rows.
        #[test]
        fn the_short_way_gives_the_rows_of_the_tree(text in nearly(), lenient: bool) {
            let options = if lenient { LENIENT } else { &[] };
            let attributes = "a string, b double, c long, d bool";
            let (short, _) = read(json(options), attributes, &[&text]);
            let schema = schema(attributes);
            let map = json(options);
            let setup = crate::component::SourceMapperSetup { mapping: &map, schema: &schema, around: &[] };
            let slow = super::source::Source::new(&setup).expect("it can be made");
            let mut rows = crate::rows::Rows::new(&schema, &map, lenient);
            rows.begin_message(0);
            slow.map_slowly(&text, &mut rows);
            rows.end_message();
            prop_assert_eq!(short, show(rows.take()), "{}", text);
        }

        #[test]
        fn what_is_written_comes_back(
            a in "[ -~é\n\"\\\\]{0,12}", b: f64, c: i64, d: bool, many: bool
        ) {
            prop_assume!(b.is_finite());
            let attributes = "a string, b double, c long, d bool";
            let row: &[Value] = &[a.as_str().into(), Value::Double(b), Value::Long(c), Value::Bool(d)];
            let all = batch(attributes, &[row, row][..1 + usize::from(many)]);
            let text = write(&json(&[]), attributes, &all);
            let expect = show(Some(all));
            let (found, _) = read(json(&[]), attributes, &[&text[0]]);
            prop_assert_eq!(found, expect);
        }
    }
}
