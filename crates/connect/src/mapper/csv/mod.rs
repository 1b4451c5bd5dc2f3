//! `csv`: lines of separated values, in both directions.
//!
//! The grammar is that of Apache Commons CSV's default format, which Siddhi uses: quotes `"` that
//! are doubled inside, quoted fields with delimiters and line breaks in them, empty lines skipped,
//! nothing trimmed; text after a closing quote is an error. With a tab as delimiter, blanks around
//! fields are trimmed. [`parse`] reads all of it; [`source`] has a shorter way for lines without
//! quotes, which gives the same rows.

mod parse;
mod sink;
mod source;

use crate::spec::csv::CONNECTORS as SPECS;
use plan::spec::ConnectorSpec;

use super::Options;
use crate::component::{
    Mapper, PayloadKind, SinkMapper, SinkMapperSetup, SourceMapper, SourceMapperSetup,
};
use crate::error::Error;

pub struct Csv;

impl Mapper for Csv {
    fn specs(&self) -> &'static [ConnectorSpec] {
        SPECS
    }

    fn takes(&self) -> &'static [PayloadKind] {
        &[PayloadKind::Text]
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

fn delimiter(options: &Options<'_>) -> Result<String, Error> {
    match options.text_or_default("delimiter") {
        "" => Err(options.refused("option 'delimiter' is empty; name at least one character")),
        "\\t" => Ok("\t".to_owned()),
        text if text.contains(['"', '\n', '\r']) => Err(options
            .refused("option 'delimiter' has a quote or a line break in it; use other characters")),
        text => Ok(text.to_owned()),
    }
}

/// `header`, which the documentation calls `header.present`.
fn header(options: &Options<'_>) -> bool {
    options.bool("header") || options.bool("header.present")
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use crate::component::Payload;
    use event::Value;
    use proptest::prelude::*;

    const STOCK: &str = "symbol string, price float, volume int";

    fn csv(options: &[(&str, &str)]) -> plan::Mapping {
        mapping("csv", options)
    }

    #[test]
    fn bytes_of_a_transport_are_text_when_they_are_utf8() {
        assert_eq!(Payload::Bytes("a,é".as_bytes()).text(), Some("a,é"));
        assert_eq!(Payload::Bytes(b"a,\xff").text(), None);
        assert_eq!(Payload::Object(&Value::Null).text(), None);
    }

    #[test]
    fn default_mapping_reads_by_position() {
        check(
            csv(&[]),
            STOCK,
            &["null,55.689,100", "IBM@#$%^*,75,0", " WSO2,10.1,10,more"],
            "null 55.689 100\nIBM@#$%^* 75.0 0\n WSO2 10.1 10",
            0,
        );
        check(csv(&[]), STOCK, &["a,1", "", "\n\n", "b,1,2"], "b 1.0 2", 1);
    }

    #[test]
    fn a_message_of_several_records_is_one_chunk_and_all_or_nothing_in_columns() {
        let text = "a,1,2\r\n\"b,\"\"c\",2,3\n";
        check(
            csv(&[]),
            STOCK,
            &[text, "d,1,1"],
            "a 1.0 2; b,\"c 2.0 3\nd 1.0 1",
            0,
        );
        check(csv(&[]), STOCK, &["a,1,2\nb,1", "d,1,1"], "d 1.0 1", 1);
        check(
            csv(&[]),
            STOCK,
            &["a,1,2\nb,x,1\nc,1,1"],
            "a 1.0 2; c 1.0 1",
            1,
        );
        check(csv(&[]), STOCK, &["\"a,1,2", "\"a\"b,1,2"], "", 2);
    }

    #[test]
    fn bad_values_are_null_when_unknown_is_allowed() {
        let lenient = csv(&[("fail.on.unknown.attribute", "false")]);
        check(
            with_attributes(lenient, &["2", "0", "1"]),
            STOCK,
            &[
                "55.689,100,null",
                "75, ,IBM",
                " ,10,W",
                " 55.6,aa,W",
                " bb,10.6,W",
            ],
            "null 55.689 100\nIBM 75.0 null\nW null 10\nW 55.6 null\nW null null",
            0,
        );
    }

    #[test]
    fn header_and_delimiters() {
        let with = |delimiter| csv(&[("header", "true"), ("delimiter", delimiter)]);
        let stock = "symbol string, price float, volume long";
        check(
            with("-/-"),
            stock,
            &["symbol-/-price-/-volume", "W-/-5.5-/-1"],
            "W 5.5 1",
            0,
        );
        check(
            with("\\t"),
            stock,
            &["header", " W \t5.5\t1 "],
            "W 5.5 1",
            0,
        );
        check(
            csv(&[("header.present", "true")]),
            stock,
            &["h", "W,1,1"],
            "W 1.0 1",
            0,
        );
    }

    #[test]
    fn lines_give_the_rows_of_messages() {
        use crate::rows::{Lines, Properties};
        let text = "a|1.5|7\n\n  b|x|2 \n\"c|d\"|2|3\ne|4\n \nf|1|9";
        let map = csv(&[("delimiter", "|")]);
        let schema = schema(STOCK);
        let mut by_lines = decoder(map.clone(), &schema).expect("it can be made");
        by_lines.map_lines(&mut Lines::new(text, 0, 0), &Properties::none());
        let rejected = by_lines.take_rejected();
        let places: Vec<_> = rejected
            .iter()
            .map(|r| (r.place.line, r.place.byte))
            .collect();
        assert_eq!(places, [(Some(3), Some(9)), (Some(5), Some(28))]);
        assert_eq!(show(by_lines.take()), "a 1.5 7\nc|d 2.0 3\nf 1.0 9");
    }

    // covers: 643
    #[test]
    fn transport_properties_fill_their_attributes() {
        use crate::component::Payload;
        use crate::rows::Properties;
        let schema = schema("code string, file string, eof bool");
        let map = with_attributes(csv(&[]), &["1", "trp:file.path", "trp:eof"]);
        let mut decoder = decoder(map, &schema).expect("it can be made");
        let mut properties = Properties::new(&["file.path", "eof"]);
        properties.set(0, Value::str("/a/path/that/is/rather/long.csv"));
        decoder.map(Payload::Text("x,lost"), &properties);
        properties.set(1, Value::str("false"));
        decoder.map(Payload::Text("x,a"), &properties);
        decoder.map(Payload::Text("x"), &properties);
        decoder.map(Payload::Text("x,b"), &properties);
        properties.set(1, Value::str("true"));
        decoder.map(Payload::Text("x,c"), &properties);
        assert_eq!(
            show(decoder.take()),
            "a /a/path/that/is/rather/long.csv false\nb /a/path/that/is/rather/long.csv false\n\
             c /a/path/that/is/rather/long.csv true"
        );
        assert_eq!(decoder.take_rejected().len(), 2);
    }

    #[test]
    fn records_are_written_with_the_quotes_they_need() {
        let attributes = "a string, b double, c string";
        let rows: &[&[Value]] = &[
            &["x,y".into(), Value::Double(1e7), "p\"q".into()],
            &["".into(), Value::Null, "".into()],
            &["#x".into(), Value::Double(-0.5), "end ".into()],
        ];
        let all = batch(attributes, rows);
        assert_eq!(
            write(&csv(&[]), attributes, &all),
            [
                "\"x,y\",1.0E7,\"p\"\"q\"\n",
                "\"\",null,\n",
                "\"#x\",-0.5,\"end \"\n"
            ]
        );
        let grouped = csv(&[("event.grouping.enabled", "true"), ("header", "true")]);
        let some = batch(attributes, &rows[1..2]);
        assert_eq!(
            write(&grouped, attributes, &some),
            ["a,b,c\n", "\"\",null,\n"]
        );
        let picked = with_payload(csv(&[("delimiter", "-")]), &[("c", "0"), ("b", "1")]);
        assert_eq!(
            write(&picked, attributes, &batch(attributes, &rows[..1])),
            ["p\"q-1.0E7\n".replace("p\"q", "\"p\"\"q\"")]
        );
        // A field that ends like a long delimiter begins.
        let long = csv(&[("delimiter", ";;")]);
        let row: &[Value] = &["x;".into(), Value::Null, "y".into()];
        assert_eq!(
            write(&long, attributes, &batch(attributes, &[row])),
            ["\"x;\";;null;;y\n"]
        );
        for bad in [
            [("c", "2"), ("b", "1")],
            [("c", "1"), ("b", "1")],
            [("z", "0"), ("b", "1")],
        ] {
            assert_ne!(refusal(&with_payload(csv(&[]), &bad), attributes), "");
        }
    }

    proptest! {
        /// A line break behind a message leads to the whole grammar.
        #[test]
        fn the_short_way_gives_the_rows_of_the_grammar(
            lines in prop::collection::vec("[ab|\" 0-9.+-]{0,14}", 0..6), lenient: bool
        ) {
            let options = [("delimiter", "|"), ("fail.on.unknown.attribute", if lenient { "false" } else { "true" })];
            let map = with_attributes(csv(&options), &["0", "2", "1"]);
            let messages: Vec<&str> = lines.iter().map(String::as_str).collect();
            let with_break: Vec<String> = lines.iter().map(|line| format!("{line}\n")).collect();
            let with_break: Vec<&str> = with_break.iter().map(String::as_str).collect();
            let short = read(map.clone(), STOCK, &messages);
            prop_assert_eq!(short, read(map, STOCK, &with_break));
        }

        #[test]
        fn what_is_written_comes_back(a in "[ -~é\n\r]{0,12}", b: f64, c: i64, d: bool, is_long: bool) {
            let attributes = "a string, b double, c long, d bool";
            let row: &[Value] = &[a.as_str().into(), Value::Double(b), Value::Long(c), Value::Bool(d)];
            let all = batch(attributes, &[row, row]);
            let mut options = vec![("event.grouping.enabled", "true")];
            if is_long {
                options.push(("delimiter", ";;"));
            }
            let text = write(&csv(&options), attributes, &all);
            let (found, _) = read(csv(&options), attributes, &[&text[0]]);
            prop_assert_eq!(found, show(Some(all)));
        }
    }
}
