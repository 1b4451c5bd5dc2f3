//! `json:`: reading and changing JSON.
//!
//! A `json` argument is a text or an OBJECT; the latter is written as Gson writes it before a path
//! is followed, as the extension does. A null input or path is an error, a missing place is null.

mod copy;
mod params;
mod parse;
pub mod path;
mod tape;
mod write;

pub use parse::{Style as ReadStyle, parse};
pub use tape::Tape;
pub use write::{Style as WriteStyle, to_json, write_json, write_place, write_text};

use std::borrow::Cow;

use event::{Object, Value};
use path::Found;

use super::number::{parse_integer, parse_real};
use super::row::{Row, RowFunction, bool, row, text, wrong};
use crate::spec::*;
use params::*;

/// Sorted by name.
pub static ROWS: &[RowFunction] = &[
    row!(
        scalar("getBool", "The BOOL at a path.", AT, BOOL),
        get_bool,
        "json:getBool('{\"a\":true}', '$.a') as b"
    ),
    row!(
        scalar("getDouble", "The DOUBLE at a path.", AT, DOUBLE),
        get_double,
        "json:getDouble('{\"a\":1.5}', '$.a') as d"
    ),
    row!(
        scalar("getFloat", "The FLOAT at a path.", AT, FLOAT),
        get_float,
        "json:getFloat('{\"a\":1.5}', '$.a') as f"
    ),
    row!(
        scalar("getInt", "The INT at a path.", AT, INT),
        get_int,
        "json:getInt('{\"a\":1}', '$.a') as i"
    ),
    row!(
        scalar("getLong", "The LONG at a path.", AT, LONG),
        get_long,
        "json:getLong('{\"a\":1}', '$.a') as l"
    ),
    row!(
        scalar("getObject", "The object at a path.", AT, OBJECT),
        get_object,
        "json:getObject('{\"a\":[1]}', '$.a') as o"
    ),
    row!(
        scalar("getString", "The text at a path.", AT, STRING),
        get_string,
        "json:getString('{\"a\":\"x\"}', '$.a') as s"
    ),
    row!(
        scalar(
            "isExists",
            "Whether there is something at a path.",
            AT,
            BOOL,
        ),
        is_exists,
        "json:isExists('{\"a\":1}', '$.b') as b"
    ),
    row!(
        scalar(
            "setElement",
            "The document with something put at a path.",
            &[
                Overload::new(&[JSON, PATH, ELEMENT]),
                Overload::new(&[JSON, PATH, ELEMENT, KEY]),
            ],
            OBJECT,
        ),
        set_element,
        "json:setElement('{\"a\":1}', '$', 2, 'b') as o"
    ),
    row!(
        scalar(
            "toObject",
            "The object of a JSON text.",
            &[Overload::new(&[param(
                "json",
                Types::STRING,
                "JSON as text.",
            )])],
            OBJECT,
        ),
        to_object,
        "json:toObject('{\"a\":1}') as o"
    ),
    row!(
        scalar(
            "toString",
            "The text of an object.",
            &[
                Overload::new(&[JSON]),
                Overload::new(&[JSON, param("allow.escape", Types::BOOL, "Encodes twice.")]),
            ],
            STRING,
        ),
        to_string,
        "json:toString(json:toObject('{\"a\":1}')) as s"
    ),
];

/// The document of the first argument.
pub fn document(args: &[Value]) -> Result<Value, String> {
    document_by(args, &mut Tape::default())
}

fn document_by(args: &[Value], tape: &mut Tape) -> Result<Value, String> {
    match args.first() {
        Some(Value::Str(text)) => tape.parse(text, ReadStyle::Linked),
        Some(value @ Value::Object(_)) => match copy::read_back(value, 0) {
            Some(document) => Ok(document),
            None => parse(&to_json(value, WriteStyle::Gson)?, ReadStyle::Linked),
        },
        other => Err(wrong(0, "JSON", other)),
    }
}

/// What is at the path. Of a text nothing is copied.
fn read<'a>(args: &'a [Value], row: &'a mut Row<'_, '_>) -> Result<Option<Found<'a>>, String> {
    let (tape, paths) = row.memo.json();
    if let Some(Value::Str(json)) = args.first() {
        let root = tape.read(json, ReadStyle::Linked)?;
        return path::look(paths.get(text(args, 1)?)?, root);
    }
    let document = document_by(args, tape)?;
    let found = path::read(paths.get(text(args, 1)?)?, &document)?;
    Ok(found.map(Found::Value))
}

/// What a typed getter looks at: the one element of a list, else nothing of a list.
fn read_one<'a>(
    args: &'a [Value],
    row: &'a mut Row<'_, '_>,
) -> Result<Option<Cow<'a, str>>, String> {
    let Some(found) = read(args, row)? else {
        return Ok(None);
    };
    let found = match found {
        Found::Value(Value::Object(Object::List(list))) => match list.lock().as_slice() {
            [only] => Found::Value(only.clone()),
            _ => return Ok(None),
        },
        Found::Place(place) => match place
            .elements()
            .map(|mut elements| (elements.len(), elements.next()))
        {
            Some((1, Some(only))) => Found::Place(only),
            Some(_) => return Ok(None),
            None => Found::Place(place),
        },
        found => found,
    };
    Ok(match found {
        Found::Value(Value::Null) => None,
        Found::Value(value) => Some(Cow::Owned(event::text::to_text(&value))),
        Found::Place(place) if place.is_null() => None,
        Found::Place(place) => Some(match place.as_text() {
            Some(text) => Cow::Borrowed(text),
            None => Cow::Owned(event::text::to_text(&place.value())),
        }),
    })
}

fn get_bool(args: &[Value], row: &mut Row<'_, '_>) -> Result<Value, String> {
    let found = read_one(args, row)?.map(|text| text.to_ascii_lowercase());
    Ok(match found.as_deref() {
        Some("true") => Value::Bool(true),
        Some("false") => Value::Bool(false),
        _ => Value::Null,
    })
}

fn get_int(args: &[Value], row: &mut Row<'_, '_>) -> Result<Value, String> {
    let found = read_one(args, row)?;
    Ok(found
        .and_then(|t| parse_integer(&t))
        .map_or(Value::Null, Value::Int))
}

fn get_long(args: &[Value], row: &mut Row<'_, '_>) -> Result<Value, String> {
    let found = read_one(args, row)?;
    Ok(found
        .and_then(|t| parse_integer(&t))
        .map_or(Value::Null, Value::Long))
}

fn get_float(args: &[Value], row: &mut Row<'_, '_>) -> Result<Value, String> {
    let found = read_one(args, row)?;
    Ok(found
        .and_then(|t| parse_real(&t))
        .map_or(Value::Null, Value::Float))
}

fn get_double(args: &[Value], row: &mut Row<'_, '_>) -> Result<Value, String> {
    let found = read_one(args, row)?;
    Ok(found
        .and_then(|t| parse_real(&t))
        .map_or(Value::Null, Value::Double))
}

fn get_object(args: &[Value], row: &mut Row<'_, '_>) -> Result<Value, String> {
    let found = read(args, row)?.map(Found::into_value);
    Ok(match found {
        Some(Value::Object(Object::List(list))) if list.lock().len() == 1 => list.lock()[0].clone(),
        found => found.unwrap_or_default(),
    })
}

/// A text as it is, anything else as JSON.
fn get_string(args: &[Value], row: &mut Row<'_, '_>) -> Result<Value, String> {
    match read(args, row)? {
        None | Some(Found::Value(Value::Null)) => Ok(Value::Null),
        Some(Found::Value(text @ Value::Str(_))) => Ok(text),
        Some(Found::Value(other)) => Ok(Value::str(&to_json(&other, WriteStyle::Gson)?)),
        Some(Found::Place(place)) if place.is_null() => Ok(Value::Null),
        Some(Found::Place(place)) => match place.as_text() {
            Some(text) => Ok(Value::str(text)),
            None => {
                let mut out = String::new();
                write_place(&mut out, place)?;
                Ok(Value::str(&out))
            }
        },
    }
}

/// False only where a definite path leads nowhere.
fn is_exists(args: &[Value], row: &mut Row<'_, '_>) -> Result<Value, String> {
    Ok(Value::Bool(read(args, row)?.is_some()))
}

/// `setElement(json, path, element [, key])`: a list at the path gets the element appended;
/// otherwise with a key the member is put, without one the place is replaced. What is not there is
/// not made.
fn set_element(args: &[Value], row: &mut Row<'_, '_>) -> Result<Value, String> {
    let (tape, paths) = row.memo.json();
    let document = document_by(args, tape)?;
    let place = paths.get(text(args, 1)?)?;
    let found = path::read(place, &document)?;
    let is_list = matches!(found, Some(Value::Object(Object::List(_))));
    if is_list {
        path::add(place, &document, &structured(&args[2]))?;
    } else if args.len() > 3 {
        path::put(place, &document, text(args, 3)?, &structured(&args[2]))?;
    } else {
        return path::set(place, document, &args[2]);
    }
    Ok(document)
}

/// A text that is an object or a list of JSON becomes that.
fn structured(element: &Value) -> Value {
    if let Value::Str(text) = element
        && text.trim_start().starts_with(['{', '['])
        && let Ok(parsed @ Value::Object(_)) = parse(text, ReadStyle::Doubles)
    {
        return parsed;
    }
    element.clone()
}

/// Null where the text is not JSON, an error where it is null.
fn to_object(args: &[Value], row: &mut Row<'_, '_>) -> Result<Value, String> {
    let (tape, _) = row.memo.json();
    let object = tape.parse(text(args, 0)?, ReadStyle::Hashed);
    Ok(object.unwrap_or_default())
}

/// `toString(json [, allow.escape])`: a text is itself quoted; with `allow.escape` the result is
/// encoded once more.
fn to_string(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    if args.len() > 1 && args[0].is_null() {
        return Err(wrong(0, "JSON", None));
    }
    let once = to_json(&args[0], WriteStyle::Gson)?;
    if args.len() > 1 && bool(args, 1)? {
        return Ok(Value::str(&to_json(&Value::str(&once), WriteStyle::Gson)?));
    }
    Ok(Value::str(&once))
}

#[cfg(test)]
mod tests {
    use crate::function::testing::*;

    const STORE: &str = "{'a':{'b':[1,2.5,{'c':'x'}]},'s':'it\\'s','n':null,'books':[{'p':5,'t':'A'},{'p':15,'t':'B'}]}";

    fn check_path(path: &str, expect: &str) {
        check("json:getString", &[s(STORE), s(path)], expect);
    }

    #[test]
    fn paths() {
        check_path("$.a.b[0]", "'1'");
        check_path("a.b[-1].c", "'x'");
        check_path("$['a']['b'][1]", "'2.5'");
        check_path("$.a.b", "'[1,2.5,{\"c\":\"x\"}]'");
        check_path("$.s", "'it's'");
        check_path("$.n", "null");
        check_path("$.zzz", "null");
        check_path("$.a.b[9]", "null");
        check_path("$..c", "'[\"x\"]'");
        check_path("$.books[*].t", "'[\"A\",\"B\"]'");
        check_path("$.books[?(@.p > 10)].t", "'[\"B\"]'");
        check_path("$.books[?(@.p > 1 && @.t == 'A')].p", "'[5]'");
        check_path("$.books[?(@.t =~ /[b-z]/i || !(@.p))].p", "'[15]'");
        check_path("$.books[?(@.t in ['A','Z'])].p", "'[5]'");
        check_path("$.books[0,1].p", "'[5,15]'");
        check_path("$.books[0:1].p", "'[5]'");
        check_path("$.books.length()", "'2'");
        check_path("$.books[", "!is not JSON path");
        check("json:getString", &[s("{a:1"), s("$.a")], "!ends early");
        check("json:getString", &[NULL, s("$.a")], "!argument 1 is null");
    }

    #[test]
    fn typed_getters() {
        let person = s("{name:\"John\", age:25, citizen:false, h:1.5, one:[7]}");
        check("json:getInt", &[person.clone(), s("$.age")], "25");
        check("json:getInt", &[person.clone(), s("$.h")], "null");
        check("json:getInt", &[person.clone(), s("$.one")], "7");
        check("json:getLong", &[person.clone(), s("$.age")], "25L");
        check("json:getDouble", &[person.clone(), s("$.age")], "25.0");
        check("json:getFloat", &[person.clone(), s("$.h")], "1.5F");
        check("json:getDouble", &[person.clone(), s("$.name")], "null");
        check("json:getBool", &[person.clone(), s("$.citizen")], "false");
        check("json:getBool", &[person.clone(), s("$.age")], "null");
        check("json:getObject", &[person.clone(), s("$.one")], "7");
        check("json:isExists", &[person.clone(), s("$.name")], "true");
        check("json:isExists", &[person.clone(), s("$.zzz")], "false");
        check("json:isExists", &[person, s("$..zzz")], "true");
        let object = map(&[("citizen", b(false)), ("age", i(25))]);
        check("json:getString", &[object, s("$.age")], "'25'");
    }

    #[test]
    fn elements_are_put_replaced_and_appended() {
        let person = s("{name:'John', subjects:['Maths']}");
        let set = |rest: &[event::Value], expect: &str| {
            let args = [std::slice::from_ref(&person), rest].concat();
            check("json:setElement", &args, expect);
        };
        set(
            &[s("$"), i(25), s("age")],
            "{name=John, subjects=[Maths], age=25}",
        );
        set(
            &[s("$"), s("{a:1,b:'x'}"), s("k")],
            "{name=John, subjects=[Maths], k={a=1.0, b=x}}",
        );
        set(
            &[s("$"), s("plain text"), s("k")],
            "{name=John, subjects=[Maths], k=plain text}",
        );
        set(
            &[s("$.subjects"), s("Art")],
            "{name=John, subjects=[Maths, Art]}",
        );
        set(&[s("$.name"), s("Ann")], "{name=Ann, subjects=[Maths]}");
        set(&[s("$.zzz"), s("Ann")], "{name=John, subjects=[Maths]}");
        set(&[s("name"), s("Ann")], "{name=Ann, subjects=[Maths]}");
    }

    #[test]
    fn the_last_value_of_a_name_stays_in_the_place_of_the_first() {
        check("json:toString", &[s("x")], "'\"x\"'");
        for members in [3, 40] {
            let member = |n: usize| format!("k{n}:{n}");
            let mut all: Vec<String> = (0..members).map(member).collect();
            all.extend(["k1:'again'".to_owned(), format!("k{}:'last'", members - 1)]);
            let text = format!("{{{}}}", all.join(","));
            let path = |name: String| [s(&text), s(&name)];
            check("json:getString", &path("$.k0".into()), "'0'");
            check("json:getString", &path("$.k1".into()), "'again'");
            check(
                "json:getString",
                &path(format!("$.k{}", members - 1)),
                "'last'",
            );
            check(
                "json:getInt",
                &path("$.length()".into()),
                &members.to_string(),
            );
        }
    }

    #[test]
    fn texts_with_escapes() {
        let of = |json: &str, expect: &str| {
            check("json:getString", &[s(json), s("$.a")], expect);
        };
        of(r#"{"a":"x\ty\"z\u00e9\ud83d\ude42w"}"#, "'x\ty\"zé🙂w'");
        of(r#"{"a":"\ud83d\ude42"}"#, "'🙂'");
        of(r#"{"a":"\ud83dx\ude42"}"#, "'\u{fffd}x\u{fffd}'");
        of(r#"{'a':'it\'s "q"'}"#, "'it's \"q\"'");
        of(r#"{ "a"\u00a0: "é" }"#, "!needs a ':'");
        of("{\u{a0}\"a\"\u{2003}:\u{a0}\"é\"\u{a0}}", "'é'");
        of(r#"{"a":"x\"#, "!ends early");
        of(r#"{"a":"x\u12"#, "!is not a character");
        of(r#"{"a":"x"#, "!ends early");
    }

    #[test]
    fn texts_and_objects() {
        check(
            "json:toObject",
            &[s(
                "{name:\"John\", age:25, citizen:false, bar:[{barName:\"x\"}]}",
            )],
            "{citizen=false, bar=[{barName=x}], name=John, age=25}",
        );
        check("json:toObject", &[s("{a")], "null");
        check("json:toObject", &[NULL], "!argument 1 is null");
        check(
            "json:toString",
            &[map(&[("user", s("<a='b'>"))])],
            "'{\"user\":\"\\u003ca\\u003d\\u0027b\\u0027\\u003e\"}'",
        );
        check(
            "json:toString",
            &[map(&[("u", d(2.0))]), b(true)],
            "'\"{\\\"u\\\":2.0}\"'",
        );
        check(
            "json:toString",
            &[map(&[("u", NULL)]), b(false)],
            "'{\"u\":null}'",
        );
        check("json:toString", &[s("x")], "'\"x\"'");
        check("json:toString", &[NULL], "'null'");
        check("json:toString", &[NULL, b(false)], "!argument 1 is null");
    }
}
