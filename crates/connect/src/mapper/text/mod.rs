//! `text`: patterns on the way in, templates on the way out.
//!
//! Without `@attributes` and `@payload` a message is lines `name:value,`; several events of one
//! message are separated by a line of their own (`event.grouping.enabled`).

mod mustache;
mod sink;
mod source;

use crate::spec::text::CONNECTORS as SPECS;
use plan::spec::ConnectorSpec;

use super::Options;
use crate::component::{
    Mapper, PayloadKind, SinkMapper, SinkMapperSetup, SourceMapper, SourceMapperSetup,
};
use crate::error::Error;

pub struct Text;

impl Mapper for Text {
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

/// How the events of a message are told apart.
struct Layout {
    is_grouped: bool,
    new_line: String,
    /// What stands between two events: new line, delimiter, new line.
    separator: String,
}

impl Layout {
    fn of(options: &Options<'_>) -> Layout {
        // The spec names the default as a reader writes it, `\n`.
        let new_line = options
            .text("new.line.character")
            .unwrap_or("\n")
            .to_owned();
        let delimiter = options.text_or_default("delimiter");
        Layout {
            is_grouped: options.bool("event.grouping.enabled"),
            separator: format!("{new_line}{delimiter}{new_line}"),
            new_line,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use event::Value;

    const STOCK: &str = "symbol string, price double, volume long";

    fn text(options: &[(&str, &str)]) -> plan::Mapping {
        mapping("text", options)
    }

    #[test]
    fn patterns_pick_their_groups() {
        let options = [
            ("regex.A", r"(\w+)\s([-.0-9]+)"),
            ("regex.B", r"volume\s([-,0-9]+)"),
            ("fail.on.missing.attribute", "false"),
        ];
        let lenient = with_attributes(text(&options), &["A[1]", "A[2]", "B"]);
        let strict = with_attributes(text(&options[..2]), &["A[1]", "A[2]", "B"]);
        let texts = ["wso2 550 volume 1,100", "ibm 1.5", "ibm 1-5 volume 1", "!"];
        check(
            lenient,
            STOCK,
            &texts,
            "wso2 550.0 1100\nibm 1.5 null\nnull null null",
            1,
        );
        check(strict, STOCK, &texts, "wso2 550.0 1100", 3);
        let unknown = with_attributes(text(&options[..1]), &["A[1]", "A[3]", "C"]);
        check(unknown, STOCK, &texts[..1], "", 1);
    }

    #[test]
    fn lines_of_names_and_values() {
        let one = "symbol:\"WSO2\",\nprice:55.6,\nvolume:1,000";
        check(text(&[]), STOCK, &[one], "WSO2 55.6 1000", 0);
        // Of a name given twice the first counts; a text has its two quotes.
        let twice = "price:1,\nprice:2,\nsymbol:\"W\",\nvolume:1";
        check(
            text(&[]),
            STOCK,
            &[twice, "symbol:W,\nprice:1,\nvolume:1"],
            "W 1.0 1",
            1,
        );
        let two = format!("{one}\n~~~~~~~~~~\nvolume:7,\nother:1,\nsymbol:\"I:M\"");
        let grouped = [
            ("event.grouping.enabled", "true"),
            ("fail.on.missing.attribute", "false"),
        ];
        check(
            text(&grouped),
            STOCK,
            &[&two],
            "WSO2 55.6 1000; I:M null 7",
            0,
        );
        check(text(&grouped[..1]), STOCK, &[&two], "WSO2 55.6 1000", 1);
    }

    #[test]
    fn the_line_break_can_be_chosen() {
        let options = [
            ("new.line.character", "|"),
            ("event.grouping.enabled", "true"),
            ("delimiter", "#"),
        ];
        let row: &[Value] = &["A".into(), Value::Double(1.5), Value::Long(2)];
        let one = "symbol:\"A\",|price:1.5,|volume:2";
        assert_eq!(
            write(&text(&options), STOCK, &batch(STOCK, &[row, row])),
            [format!("{one}|#|{one}")]
        );
    }

    #[test]
    fn lines_templates_and_groups_are_written() {
        let rows: &[&[Value]] = &[
            &["WSO2".into(), Value::Double(55.6), Value::Long(100)],
            &["<I>".into(), Value::Null, Value::Long(1)],
        ];
        let all = batch(STOCK, rows);
        assert_eq!(
            write(&text(&[]), STOCK, &all),
            [
                "symbol:\"WSO2\",\nprice:55.6,\nvolume:100",
                "symbol:\"<I>\",\nprice:null,\nvolume:1"
            ]
        );
        let payload = [("", "{{symbol}} costs {{price}} {x}")];
        let grouped = text(&[("event.grouping.enabled", "true"), ("delimiter", "#")]);
        assert_eq!(
            write(&with_payload(grouped, &payload), STOCK, &all),
            ["WSO2 costs 55.6 {x}\n#\n<I> costs null {x}"]
        );
        let mustache = text(&[("mustache.enabled", "true")]);
        let payload = [(
            "",
            "{{symbol}}/{{{symbol}}}{{#price}} at {{.}}{{/price}}{{^price}} free{{/price}}",
        )];
        assert_eq!(
            write(&with_payload(mustache, &payload), STOCK, &all),
            ["WSO2/WSO2 at 55.6", "&lt;I&gt;/<I> free"]
        );
        assert_ne!(
            refusal(&with_payload(text(&[]), &[("", "{{id}}")]), STOCK),
            ""
        );
        assert_ne!(
            refusal(&with_payload(text(&[]), &[("", " symbol ")]), STOCK),
            ""
        );
    }

    proptest::proptest! {
        /// A line break in a text would end its line.
        #[test]
        fn what_is_written_comes_back(a in "[ -~é\t]{0,12}", b: f64, c: i64, many: bool) {
            let row: &[Value] = &[a.as_str().into(), Value::Double(b), Value::Long(c)];
            let all = batch(STOCK, &[row, row][..1 + usize::from(many)]);
            let grouped = text(&[("event.grouping.enabled", "true")]);
            let written = write(&grouped, STOCK, &all);
            let (found, _) = read(grouped, STOCK, &[&written[0]]);
            proptest::prop_assert_eq!(found, show(Some(all)));
        }
    }
}
