//! `str:`: functions on texts.
//!
//! A null is an error, but for `concat`, `coalesce`, the first argument of `contains` and the second
//! of `equalsIgnoreCase`.

mod params;
mod part;
mod pattern;
mod shape;
mod template;

pub(super) use template::{Braces, number, split};

use super::row::{RowFunction, row};
use crate::component::Function;
use crate::spec::*;
use params::*;

/// Sorted by name.
pub static ROWS: &[RowFunction] = &[
    row!(
        scalar(
            "charAt",
            "The character at a place.",
            &[Overload::new(&[S, INDEX])],
            STRING,
        ),
        part::char_at,
        "str:charAt(symbol, 0) as c"
    ),
    row!(
        scalar(
            "charFrequency",
            "How often a character occurs.",
            &[Overload::new(&[
                S,
                param("character", Types::STRING, "One character."),
            ])],
            LONG,
        ),
        part::char_frequency,
        "str:charFrequency(symbol, 'A') as n"
    ),
    row!(
        scalar(
            "contains",
            "Whether a text holds another.",
            &[Overload::new(&[S, PART])],
            BOOL,
        ),
        part::contains,
        "str:contains(symbol, 'A') as b"
    ),
    row!(
        scalar(
            "equalsIgnoreCase",
            "Whether two texts are equal but for case.",
            &[Overload::new(&[A, B])],
            BOOL,
        ),
        part::equals_ignore_case,
        "str:equalsIgnoreCase(symbol, 'a') as b"
    ),
    row!(
        scalar(
            "fillTemplate",
            "Puts values into a template.",
            &[
                Overload::repeating(&[TEMPLATE, VALUE], 1),
                Overload::new(&[TEMPLATE, param("map", Types::OBJECT, "Values by key.")]),
            ],
            STRING,
        ),
        template::fill_template,
        "str:fillTemplate('{{1}} at {{2}}', symbol, price) as s"
    ),
    row!(
        scalar("hex", "Hexadecimal form of the characters.", ONE, STRING),
        shape::hex,
        "str:hex(symbol) as h"
    ),
    row!(
        scalar("length", "How many characters there are.", ONE, INT),
        part::length,
        "str:length(symbol) as n"
    ),
    row!(
        scalar(
            "locate",
            "Position of a text in another, or -1.",
            &[Overload::new(&[PART, S]), Overload::new(&[PART, S, BEGIN])],
            INT,
        ),
        part::locate,
        "str:locate('A', symbol) as i"
    ),
    row!(
        scalar("lower", "The text in lower case.", ONE, STRING),
        shape::lower,
        "str:lower(symbol) as s"
    ),
    row!(
        scalar(
            "regexp",
            "Whether the whole text matches.",
            &[Overload::new(&[S, REGEX])],
            BOOL,
        ),
        pattern::regexp,
        "str:regexp(symbol, '[A-Z]+') as b"
    ),
    row!(
        scalar(
            "repeat",
            "The text several times.",
            &[Overload::new(&[
                S,
                param("times", Types::INT, "How often."),
            ])],
            STRING,
        ),
        shape::repeat,
        "str:repeat(symbol, 2) as s"
    ),
    row!(
        scalar(
            "replaceAll",
            "Replaces every match.",
            &[Overload::new(&[S, REGEX, REPLACEMENT])],
            STRING,
        ),
        pattern::replace_all,
        "str:replaceAll(symbol, '[0-9]', '') as s"
    ),
    row!(
        scalar("reverse", "The text backwards.", ONE, STRING),
        shape::reverse,
        "str:reverse(symbol) as s"
    ),
    row!(
        scalar(
            "split",
            "One part of a text.",
            &[Overload::new(&[S, REGEX, GROUP])],
            STRING,
        ),
        pattern::split,
        "str:split(symbol, '-', 0) as s"
    ),
    row!(
        scalar(
            "strcmp",
            "Order of two texts: negative, 0 or positive.",
            &[Overload::new(&[A, B])],
            INT,
        ),
        part::strcmp,
        "str:strcmp(symbol, 'A') as n"
    ),
    row!(
        scalar(
            "substr",
            "A part of a text, by place or by pattern.",
            &[
                Overload::new(&[S, BEGIN]),
                Overload::new(&[
                    S,
                    BEGIN,
                    param("length", Types::INT, "How many characters."),
                ]),
                Overload::new(&[S, REGEX]),
                Overload::new(&[S, REGEX, GROUP]),
            ],
            STRING,
        ),
        part::substr,
        "str:substr(symbol, 0, 1) as s"
    ),
    row!(
        scalar("trim", "The text without blanks around it.", ONE, STRING),
        shape::trim,
        "str:trim(symbol) as s"
    ),
    row!(
        scalar("unhex", "The text of a hexadecimal form.", ONE, STRING),
        shape::unhex,
        "str:unhex('414243') as s"
    ),
    row!(
        scalar("upper", "The text in upper case.", ONE, STRING),
        shape::upper,
        "str:upper(symbol) as s"
    ),
];

/// Those that work on whole columns, sorted by name.
pub static COLUMNS: &[&dyn Function] = &[&shape::Coalesce, &shape::Concat, &pattern::ReplaceFirst];

#[cfg(test)]
mod tests {
    use crate::function::testing::*;

    #[test]
    fn parts_and_places() {
        check("str:charAt", &[s("WSO2"), i(1)], "'S'");
        check("str:charAt", &[s("WSO2"), i(4)], "!out of range");
        check("str:charAt", &[NULL, i(0)], "!argument 1 is null");
        check("str:charFrequency", &[s("banana"), s("a")], "3L");
        check("str:contains", &[NULL, s("a")], "false");
        check("str:contains", &[s("a"), NULL], "!argument 2 is null");
        check("str:contains", &[s("abc"), s("bc")], "true");
        check("str:equalsIgnoreCase", &[s("aB"), s("Ab")], "true");
        check("str:equalsIgnoreCase", &[s("aB"), NULL], "false");
        check("str:length", &[s("a😀")], "3");
        check("str:locate", &[s("c"), s("abc")], "2");
        check("str:locate", &[s("x"), s("abc"), i(2)], "1");
        check("str:locate", &[s("c"), s("abcc"), i(3)], "3");
        check("str:strcmp", &[s("AbCDefghiJ KLMN"), s("Hello")], "-7");
        check("str:substr", &[s("AbCDef"), i(4)], "'ef'");
        check("str:substr", &[s("AbCDef"), i(2), i(4)], "'CDef'");
        check("str:substr", &[s("AbCDef"), i(2), i(5)], "!out of range");
        check(
            "str:substr",
            &[s("WSO2D efghiJ"), s("^WSO2(.*)")],
            "'WSO2D efghiJ'",
        );
        check(
            "str:substr",
            &[s("WSO2 cep WSO2 XX"), s("WSO2(.*)A(.*)")],
            "''",
        );
        check(
            "str:substr",
            &[s("ab12"), s("([a-z]+)([0-9]+)"), i(2)],
            "'12'",
        );
    }

    #[test]
    fn shapes() {
        check("str:lower", &[s("ABC")], "'abc'");
        check("str:upper", &[s("abc")], "'ABC'");
        check("str:trim", &[s(" a b\n")], "'a b'");
        check("str:reverse", &[s("abc")], "'cba'");
        check("str:repeat", &[s("ab"), i(2)], "'abab'");
        check("str:repeat", &[s("ab"), i(-1)], "''");
        check("str:hex", &[s("MySQL")], "'4d7953514c'");
        check("str:unhex", &[s("4d7953514c")], "'MySQL'");
        check("str:unhex", &[s("4d7")], "!pairs");
        check("str:concat", &[s("a"), NULL, d(1.5)], "'a1.5'");
        check("str:concat", &[NULL, NULL], "''");
        check("str:coalesce", &[NULL, s("a")], "'a'");
    }

    #[test]
    fn patterns() {
        check("str:regexp", &[s("WSO2 abcdh"), s("WSO(.*)h")], "true");
        check("str:regexp", &[s("aWSO2"), s("WSO(.*)")], "false");
        check(
            "str:replaceAll",
            &[s("hello hi hello"), s("hello"), s("test")],
            "'test hi test'",
        );
        check(
            "str:replaceFirst",
            &[s("a1b2"), s("([0-9])"), s("<$1>")],
            "'a<1>b2'",
        );
        check(
            "str:replaceFirst",
            &[s("a"), NULL, s("x")],
            "!argument 2 is null",
        );
        check("str:split", &[s("WSO2,ABM,NSFT"), s(","), i(1)], "'ABM'");
        check(
            "str:split",
            &[s("a,b,,"), s(","), i(2)],
            "!there is no part 2",
        );
    }

    #[test]
    fn templates() {
        let fill = |template: &str, expected: &str| {
            let args = [s(template), s("x"), i(5), NULL];
            check("str:fillTemplate", &args, expected);
        };
        fill("{{1}} is {{ 2 }} of {{1}}{{3}}", "'x is 5 of x3'");
        fill("{{a}}", "!is not a number");
        fill("{{4}}", "!names value 4, but has the values 1 to 3");
        fill("{{-1}}", "!names value -1");
        fill("a {{0}}", "'a a {{0}}'");
        fill("{{}}", "!is not a number");
        // Braces that are no placeholder stay.
        fill(r#"{"a":{"b":{{2}}}}"#, r#"'{"a":{"b":5}}'"#);
        fill("a {{1", "'a {{1'");
        check(
            "str:fillTemplate",
            &[s("{{ k }}-{{z}}"), map(&[("k", d(2.0))])],
            "'2.0-z'",
        );
        check("str:fillTemplate", &[NULL, s("x")], "!argument 1 is null");
    }
}
