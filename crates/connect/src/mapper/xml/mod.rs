//! `xml`: XML documents, in both directions, whole or as a stream of pieces.
//!
//! A whole document becomes a tree ([`tree`]) in which XPath ([`xpath`]) finds the values. When
//! streaming, [`stream`] cuts the events out of the pieces as they come, and [`project`] reads plain
//! ones without a tree; whatever it does not take goes the long way, with the same result.

mod project;
mod sink;
mod source;
mod stream;
mod tree;
mod xpath;

use crate::spec::xml::CONNECTORS as SPECS;
use plan::spec::ConnectorSpec;

use crate::component::{
    Mapper, PayloadKind, SinkMapper, SinkMapperSetup, SourceMapper, SourceMapperSetup,
};
use crate::error::Error;

pub struct Xml;

impl Mapper for Xml {
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

/// May the character stand in a name?
fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | ':' | '-' | '.' | '\u{b7}')
}

/// Is it a name of an element or attribute?
fn is_name(text: &str) -> bool {
    text.chars()
        .next()
        .is_some_and(|c| c.is_alphabetic() || matches!(c, '_' | ':'))
        && text.chars().all(is_name_char)
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use crate::component::Payload;
    use crate::rows::{Lines, Properties};
    use event::Value;
    use proptest::prelude::*;

    const STOCK: &str = "symbol string, price float, volume long";
    const LENIENT: (&str, &str) = ("fail.on.missing.attribute", "false");

    fn xml(options: &[(&str, &str)]) -> plan::Mapping {
        mapping("xml", options)
    }

    #[test]
    fn the_default_envelope() {
        let text = "<events>\n<event><price>5.5</price><symbol>A&amp;B</symbol><volume>1</volume><x/></event>\
            <event><symbol/><price> 2 </price><volume>3</volume></event>\
            <event><symbol>a</symbol><price>2</price></event>\
            <event><symbol>a</symbol><price/><volume>3</volume></event></events>";
        check(xml(&[]), STOCK, &[text], "A&B 5.5 1;  2.0 3", 2);
        check(
            xml(&[LENIENT]),
            STOCK,
            &[text],
            "A&B 5.5 1;  2.0 3; a 2.0 null",
            1,
        );
        check(
            xml(&[]),
            STOCK,
            &["<event/>", "<events>", "text", "<events/>"],
            "",
            3,
        );
    }

    #[test]
    fn paths_find_elements_and_attributes() {
        let text = "<p xmlns:n='u'><s id='1' k='x'><sym>A</sym><n:price>5</n:price></s>\
            <s id='b'><sym>B<i/></sym><n:price>x</n:price></s><s id='3'/></p>";
        let map = |options: &[(&str, &str)]| {
            let options: Vec<_> = [("namespaces", "q=u"), ("enclosing.element", "//p")]
                .iter()
                .chain(options)
                .copied()
                .collect();
            with_attributes(xml(&options), &["sym", "q:price", "@id"])
        };
        check(map(&[]), STOCK, &[text, "<a/>"], "A 5.0 1", 3);
        check(map(&[LENIENT]), STOCK, &[text], "A 5.0 1; null null 3", 1);
        let lenient = [
            LENIENT,
            ("enclosing.element", "/p/s[@k]"),
            ("enclosing.element.as.event", "true"),
        ];
        let as_event = with_attributes(xml(&lenient), &["sym/text()", "count(s)", "//s/@id"]);
        check(as_event, STOCK, &[text], "null null 1", 0);
        let whole = with_attributes(xml(&[]), &["//sym[i]", "//x"]);
        check(
            whole,
            "a string, b string",
            &["<p><x>1</x><sym>B<i/></sym></p>"],
            "<sym>B<i/></sym> 1",
            0,
        );
    }

    #[test]
    fn leaves_have_the_values_of_all_that_encloses_them() {
        let map = with_attributes(
            xml(&[("extract.leaf.node.data", "true"), LENIENT]),
            &["/a/@id", "/a/b/@k", "/a/b/c"],
        );
        let text = "<a id='1'><b k='x'><c>1</c><c>2</c></b><b/></a>";
        check(
            map,
            "id int, k string, c long",
            &[text],
            "1 x 1; 1 x 2; 1 null null",
            0,
        );
    }

    const NODE: &[(&str, &str)] = &[
        ("enclosing.element", "/osm/node"),
        ("enable.streaming.xml.content", "true"),
        LENIENT,
    ];

    #[test]
    fn a_stream_of_lines_gives_an_event_for_each_element() {
        let map = with_attributes(xml(NODE), &["/node/@id", "/node/@lat", "name"]);
        let lines = [
            "<?xml version='1.0'?>",
            "<osm>",
            "  <node id='1' lat='2.5'/> <node id='2'",
            "lat='&#49;'>",
            "<name>N&amp;M</name></node>",
            "<node id='x'/>",
            "<node lat='1' id='3'><name>a</name></node>",
            "</osm>",
        ];
        check(
            map.clone(),
            "id long, lat double, name string",
            &lines,
            "1 2.5 null\n2 1.0 N&M\n3 1.0 a",
            1,
        );
        let refused = with_attributes(xml(&NODE[1..]), &["/node/@id"]);
        assert!(decoder(refused, &schema("id long")).is_err());
        let deep = with_attributes(xml(&[("enclosing.element", "//node"), NODE[1]]), &["@id"]);
        assert!(decoder(deep, &schema("id long")).is_err());
    }

    #[test]
    fn a_stream_begins_anew_behind_the_end_of_a_file() {
        let schema = schema("id long");
        let mut decoder =
            decoder(with_attributes(xml(NODE), &["@id"]), &schema).expect("it can be made");
        let mut properties = Properties::new(&["eof"]);
        properties.set(0, Value::str("false"));
        decoder.map_lines(
            &mut Lines::new("<osm>\n<node id='1'/>\n", 0, 0),
            &properties,
        );
        properties.set(0, Value::str("true"));
        decoder.map(Payload::Text("<node id='2'>"), &properties);
        assert_eq!(decoder.take_rejected().len(), 1);
        decoder.map(Payload::Text("<osm><node id='3'/></osm>"), &properties);
        assert_eq!(show(decoder.take()), "1\n3");
        assert_eq!(decoder.take_rejected().len(), 0);
    }

    #[test]
    fn a_stream_goes_on_from_what_was_saved() {
        let schema = schema("id long");
        let make =
            || decoder(with_attributes(xml(NODE), &["@id"]), &schema).expect("it can be made");
        let mut first = make();
        for line in ["<osm><node id='1'/>", "<node"] {
            first.map(Payload::Text(line), &Properties::none());
        }
        assert_eq!(show(first.take()), "1");
        let mut held = Vec::new();
        first.save(&mut held);
        let mut second = make();
        second.restore(&held);
        second.map(Payload::Text("id='2'/></osm>"), &Properties::none());
        assert_eq!(show(second.take()), "2");
    }

    #[test]
    fn events_are_written() {
        let rows: &[&[Value]] = &[
            &["a<b&c>".into(), Value::Float(55.0), Value::Long(1)],
            &[Value::Null, Value::Float(1e10), Value::Null],
        ];
        let all = batch(STOCK, rows);
        assert_eq!(
            write(&xml(&[]), STOCK, &all),
            [
                "<events><event><symbol>a&lt;b&amp;c&gt;</symbol><price>55.0</price><volume>1</volume></event>\
              <event><symbol xsi:nil=\"true\"/><price>1.0E10</price><volume xsi:nil=\"true\"/></event></events>"
            ]
        );
        let own = [("", "<s k='{{volume}}'>{{symbol}}</s>")];
        assert_eq!(
            write(&with_payload(xml(&[]), &own), STOCK, &all),
            ["<s k='1'>a<b&c></s><s k='null'>null</s>"]
        );
        let checked = xml(&[
            ("validate.xml", "true"),
            ("enclosing.element", "<p xmlns:f='x'>"),
        ]);
        assert_eq!(
            write(&with_payload(checked.clone(), &own), STOCK, &all),
            [""; 0]
        );
        assert_eq!(
            write(
                &with_payload(checked, &own),
                STOCK,
                &batch(STOCK, &rows[1..])
            ),
            ["<p xmlns:f='x'><s k='null'>null</s></p>"]
        );
        assert_ne!(
            refusal(&with_payload(xml(&[]), &[("", "symbol")]), STOCK),
            ""
        );
    }

    /// Something like a node of a stream, well-formed or nearly.
    fn nearly() -> impl Strategy<Value = String> {
        let attribute = (
            "(id|lat|k|n:x|xmlns|a-b)",
            "[=]{1}",
            "[0-9a<&\"é \n]{0,3}",
            "['\"]",
        )
            .prop_map(|(n, e, v, q)| format!("{n}{e}{q}{v}{q}"));
        let blank = prop_oneof![5 => Just(" "), 1 => Just("\n"), 1 => Just("")];
        let attributes = || {
            prop::collection::vec((blank.clone(), attribute.clone()), 0..4).prop_map(|list| {
                list.into_iter()
                    .map(|(b, a)| format!("{b}{a}"))
                    .collect::<String>()
            })
        };
        let child = (
            attributes(),
            "(name|other|n:name|node)",
            "(1|x|&amp;|<b/>|<!-- c -->|)",
            0..4u8,
        )
            .prop_map(|(a, n, t, form)| match form {
                0 => format!("<{n}{a}/>"),
                1 => format!("<{n}{a}>{t}<i k='1'>2</i></{n} >"),
                2 => format!("<{n}{a}>{t}"),
                _ => format!("<{n}{a}>{t}</{n}>"),
            });
        (
            attributes(),
            prop::collection::vec(child, 0..4),
            any::<bool>(),
        )
            .prop_map(|(a, c, empty)| {
                if empty {
                    format!("<node{a}/>")
                } else {
                    format!("<node{a}>{}</node>", c.concat())
                }
            })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1024))]
        /// A path with `self::` in it is read by the tree, and finds the same.
        #[test]
        fn the_short_way_gives_the_rows_of_the_tree(text in nearly(), lenient: bool) {
            let options = &NODE[..if lenient { 3 } else { 2 }];
            let run = |paths: &[&str]| {
                let map = with_attributes(xml(options), paths);
                read(map, "id string, lat double, name string", &["<osm>", &text, "<node id='z' lat='1'><name>e</name></node></osm>"])
            };
            let short = run(&["/node/@id", "@lat", "name"]);
            let long = run(&["/node/self::node/@id", "./@lat", "./name"]);
            prop_assert_eq!(short.0, long.0);
            prop_assert_eq!(short.1.len(), long.1.len());
        }

        #[test]
        fn what_is_written_comes_back(a in "[ -~é\n\r<&]{1,12}", b: f64, c: i64, d: bool) {
            prop_assume!(b.is_finite());
            let attributes = "a string, b double, c long, d bool";
            let row: &[Value] = &[a.as_str().into(), Value::Double(b), Value::Long(c), Value::Bool(d)];
            let all = batch(attributes, &[row, row]);
            let text = write(&xml(&[]), attributes, &all);
            let expect = show(Some(all));
            let (found, _) = read(xml(&[]), attributes, &[&text[0]]);
            prop_assert_eq!(found, expect);
        }

        #[test]
        fn any_pieces_are_read_without_harm(pieces in prop::collection::vec("[<>/!\\[\\]a-c'\"= ?-]{0,12}", 0..8)) {
            let texts: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let map = with_attributes(xml(&[("enclosing.element", "a/b"), NODE[1]]), &["@c"]);
            read(map, "c string", &texts);
        }
    }
}
