//! What stands behind the question mark of a request: read, and judged by what its route says it takes.
//!
//! Never: a value that is taken for another, such as the first of two. Names that a route does not know are
//! passed over: clients of Streaming Integrator send some.

use serde_json::Value as Json;

use super::route::Param;

/// Names and values of a query. A name without `=` has the value "".
pub(super) fn pairs(query: Option<&str>) -> Vec<(String, String)> {
    let parts = query.unwrap_or_default().split('&');
    parts
        .filter(|part| !part.is_empty())
        .map(|part| part.split_once('=').unwrap_or((part, "")))
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect()
}

/// The value of a name that is there at most once.
pub(super) fn value<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let mut found = pairs.iter().filter(|(n, _)| n == name);
    found.next().map(|(_, value)| value.as_str())
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let is_hex = |hex: &&str| hex.bytes().all(|b| b.is_ascii_hexdigit());
        let code = hex
            .filter(is_hex)
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        let (byte, read) = match (first, code) {
            (b'%', Some(code)) => (code, 3),
            (b'+', _) => (b' ', 1),
            (other, _) => (*other, 1),
        };
        bytes.push(byte);
        rest = &rest[read..];
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What is wrong with a query, with the parameter and what it takes.
pub(super) fn fault(params: &[Param], query: Option<&str>) -> Option<String> {
    let pairs = pairs(query);
    params.iter().find_map(|param| {
        let schema = (param.schema)();
        let mut values = pairs.iter().filter(|(name, _)| name == param.name);
        if values.next().is_none() {
            let missing = || {
                format!(
                    "query parameter '{}' is missing: {}",
                    param.name, param.about
                )
            };
            return param.is_needed.then(missing);
        }
        let name = param.name;
        let (of_one, is_list) = match schema["type"] == "array" {
            true => (&schema["items"], true),
            false => (&schema, false),
        };
        if !is_list && values.next().is_some() {
            return Some(format!(
                "query parameter '{name}' is given twice: give it once"
            ));
        }
        let mut all = pairs.iter().filter(|(n, _)| n == name);
        all.find_map(|(_, value)| {
            let takes = wrong(of_one, value)?;
            Some(format!(
                "query parameter '{name}' is '{value}', but takes {takes}"
            ))
        })
    })
}

/// What a parameter takes, where this is not it.
fn wrong(schema: &Json, value: &str) -> Option<String> {
    if let Some(all) = schema["enum"].as_array() {
        let names: Vec<&str> = all.iter().filter_map(Json::as_str).collect();
        let is_one = names.iter().any(|name| name.eq_ignore_ascii_case(value));
        return (!is_one).then(|| names.join(", "));
    }
    let (minimum, maximum) = (schema["minimum"].as_f64(), schema["maximum"].as_f64());
    let above = schema["exclusiveMinimum"].as_f64();
    let fits = |number: f64| {
        number.is_finite()
            && minimum.is_none_or(|least| number >= least)
            && maximum.is_none_or(|most| number <= most)
            && above.is_none_or(|least| number > least)
    };
    let is_right = match schema["type"].as_str() {
        Some("boolean") => {
            return (!matches!(value, "true" | "false")).then(|| "true or false".to_owned());
        }
        Some("integer") => {
            let is_plain = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
            is_plain && value.parse::<u64>().is_ok_and(|number| fits(number as f64))
        }
        Some("number") => value.parse().is_ok_and(fits),
        _ => {
            let len = value.chars().count() as u64;
            schema["minLength"]
                .as_u64()
                .is_none_or(|least| len >= least)
                && schema["maxLength"].as_u64().is_none_or(|most| len <= most)
        }
    };
    (!is_right).then(|| takes(schema))
}

fn takes(schema: &Json) -> String {
    let kind = match schema["type"].as_str() {
        Some("integer") => "a whole number",
        Some("number") => "a number",
        _ => "a text",
    };
    let bounds = [
        ("minimum", "from"),
        ("exclusiveMinimum", "above"),
        ("maximum", "to"),
        ("minLength", "of at least"),
        ("maxLength", "of at most"),
    ];
    let mut text = kind.to_owned();
    for (key, word) in bounds {
        if !schema[key].is_null() {
            text += &format!(" {word} {}", schema[key]);
        }
    }
    if schema["minLength"].is_u64() || schema["maxLength"].is_u64() {
        text += " characters";
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn queries_are_decoded() {
        let found = pairs(Some("app=A%20b&cause=x%3Dy+z&odd=%zz&%+1=%+1&flag&"));
        let expect = [
            ("app", "A b"),
            ("cause", "x=y z"),
            ("odd", "%zz"),
            ("% 1", "% 1"),
            ("flag", ""),
        ];
        let expect = expect.map(|(n, v)| (n.to_owned(), v.to_owned()));
        assert_eq!(found, expect);
    }

    #[test]
    fn what_a_parameter_does_not_take_is_refused_with_its_name() {
        fn param(name: &'static str, schema: fn() -> Json) -> Param {
            Param {
                name,
                about: "what it is",
                is_needed: name == "on",
                schema,
            }
        }
        let params = [
            param(
                "limit",
                || json!({ "type": "integer", "minimum": 1, "maximum": 1000 }),
            ),
            param("flag", || json!({ "type": "boolean" })),
            param("action", || json!({ "enum": ["run", "stop"] })),
            param(
                "name",
                || json!({ "type": "array", "items": { "type": "string", "minLength": 1 } }),
            ),
            param("on", || json!({ "type": "string", "maxLength": 3 })),
        ];
        let fault = |query: &str| fault(&params, Some(query));
        for right in [
            "on=",
            "on=a&limit=1000&flag=true&action=RUN&name=a&name=b&other=1",
        ] {
            assert_eq!(fault(right), None, "{right}");
        }
        for (query, says) in [
            ("", "'on' is missing: what it is"),
            (
                "on=a&limit=1001",
                "'limit' is '1001', but takes a whole number from 1 to 1000",
            ),
            ("on=a&limit=0", "'limit' is '0'"),
            ("on=a&limit=", "'limit' is ''"),
            ("on=a&limit=1.0", "'limit' is '1.0'"),
            ("on=a&limit=+1", "'limit' is ' 1'"),
            ("on=a&flag=true&flag=true", "'flag' is given twice"),
            ("on=a&flag", "'flag' is '', but takes true or false"),
            ("on=a&action=go", "'action' is 'go', but takes run, stop"),
            (
                "on=a&name=a&name=",
                "'name' is '', but takes a text of at least 1 characters",
            ),
            ("on=abcd", "of at most 3 characters"),
        ] {
            let found = fault(query).unwrap_or_default();
            assert!(found.contains(says), "{query}: {found}");
        }
    }
}
