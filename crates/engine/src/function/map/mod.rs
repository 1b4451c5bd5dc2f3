//! `map:`: maps as values.
//!
//! Functions that return the changed map change their argument in place and return the same object.
//! What is not a map, null included, is an error, but for `isMap`.

mod params;
mod xml;

use event::value::Shared;
use event::{Object, Value};

use super::java_map::{self, Entries};
use super::json::{ReadStyle, WriteStyle, parse, to_json};
use super::object::check_holds;
use super::row::{Row, RowFunction, row, text, wrong};
use crate::component::{Argument, Refused};
use crate::spec::*;
use params::*;

/// Sorted by name.
pub static ROWS: &[RowFunction] = &[
    row!(
        scalar("clear", "Empties a map.", ONE, OBJECT),
        clear,
        "map:clear(map:create('a', 1)) as m"
    ),
    row!(
        scalar("clone", "A copy of a map.", ONE, OBJECT),
        clone,
        "map:clone(map:create('a', 1)) as m"
    ),
    row!(
        scalar(
            "combineByKey",
            "Lists of the values that several maps have for each key.",
            &[Overload::repeating(&[MAP, MAP], 1)],
            OBJECT,
        ),
        combine_by_key,
        "map:combineByKey(map:create('a', 1), map:create('a', 2)) as m"
    ),
    row!(
        scalar(
            "containsKey",
            "Whether a map has a key.",
            &[Overload::new(&[MAP, KEY])],
            BOOL,
        ),
        contains_key,
        "map:containsKey(map:create('a', 1), 'a') as b"
    ),
    row!(
        scalar(
            "containsValue",
            "Whether a map has a value.",
            &[Overload::new(&[MAP, BASIC_VALUE])],
            BOOL,
        ),
        contains_value,
        "map:containsValue(map:create('a', 1), 1) as b"
    ),
    row!(
        scalar(
            "create",
            "A map of the given keys and values.",
            &[NONE, Overload::repeating(&[KEY, VALUE], 2)],
            OBJECT,
        ),
        create,
        "map:create('symbol', symbol, 'price', price) as m"
    )
    .checked(check_create),
    row!(
        scalar(
            "createFromJSON",
            "The map of a JSON text.",
            &[Overload::new(&[param(
                "json.string",
                Types::STRING,
                "JSON as text.",
            )])],
            OBJECT,
        ),
        create_from_json,
        "map:createFromJSON('{\"a\":1}') as m"
    ),
    row!(
        scalar(
            "createFromXML",
            "The map of an XML text.",
            &[Overload::new(&[param(
                "xml.string",
                Types::STRING,
                "XML as text.",
            )])],
            OBJECT,
        ),
        create_from_xml,
        "map:createFromXML('<r><a>1</a></r>') as m"
    ),
    row!(
        scalar(
            "get",
            "The value of a key.",
            &[
                Overload::new(&[MAP, KEY]),
                Overload::new(&[
                    MAP,
                    KEY,
                    param(
                        "default.value",
                        Types::ANY,
                        "The value where the key is missing.",
                    ),
                ]),
            ],
            OBJECT,
        ),
        get,
        "map:get(map:create('a', 1), 'a') as v"
    ),
    row!(
        scalar("isEmpty", "Whether a map is empty.", ONE, BOOL),
        is_empty,
        "map:isEmpty(map:create()) as b"
    ),
    row!(
        scalar(
            "isMap",
            "Whether a value is a map.",
            &[Overload::new(&[param("arg", Types::ANY, "The value.")])],
            BOOL,
        ),
        is_map,
        "map:isMap(symbol) as b"
    )
    .infallible(),
    row!(
        scalar("keys", "The keys as a list.", ONE, OBJECT),
        keys,
        "map:keys(map:create('a', 1)) as l"
    ),
    row!(
        scalar(
            "put",
            "Sets a key.",
            &[Overload::new(&[MAP, KEY, VALUE])],
            OBJECT,
        ),
        put,
        "map:put(map:create(), 'a', 1) as m"
    ),
    row!(
        scalar("putAll", "Sets all keys of another map.", TWO, OBJECT),
        put_all,
        "map:putAll(map:create('a', 1), map:create('b', 2)) as m"
    ),
    row!(
        scalar(
            "putIfAbsent",
            "Sets a key that is missing.",
            &[Overload::new(&[MAP, BASIC_KEY, BASIC_VALUE])],
            OBJECT,
        ),
        put_if_absent,
        "map:putIfAbsent(map:create('a', 1), 'a', 2) as m"
    ),
    row!(
        scalar(
            "remove",
            "Takes a key out.",
            &[Overload::new(&[MAP, KEY])],
            OBJECT,
        ),
        remove,
        "map:remove(map:create('a', 1), 'a') as m"
    ),
    row!(
        scalar(
            "replace",
            "Sets an existing key.",
            &[Overload::new(&[MAP, BASIC_KEY, BASIC_VALUE])],
            OBJECT,
        ),
        replace,
        "map:replace(map:create('a', 1), 'a', 2) as m"
    ),
    row!(
        scalar(
            "replaceAll",
            "Sets the keys that both maps have.",
            TWO,
            OBJECT,
        ),
        replace_all,
        "map:replaceAll(map:create('a', 1), map:create('a', 2)) as m"
    ),
    row!(
        scalar("size", "How many keys there are.", ONE, INT),
        size,
        "map:size(map:create('a', 1)) as n"
    ),
    row!(
        scalar("toJSON", "The map as JSON text.", ONE, STRING),
        to_json_text,
        "map:toJSON(map:create('a', 1)) as s"
    ),
    row!(
        scalar(
            "toXML",
            "The map as XML text.",
            &[
                Overload::new(&[MAP]),
                Overload::new(&[
                    MAP,
                    param(
                        "root.element.name",
                        Types::STRING,
                        "Name of the root element.",
                    ),
                ]),
            ],
            STRING,
        ),
        to_xml,
        "map:toXML(map:create('a', 1), 'r') as s"
    ),
    row!(
        scalar("values", "The values as a list.", ONE, OBJECT),
        values,
        "map:values(map:create('a', 1)) as l"
    ),
];

/// The map of an argument.
fn map(args: &[Value], index: usize) -> Result<&Shared<Entries>, String> {
    match args.get(index) {
        Some(Value::Object(Object::Map(map))) => Ok(map),
        other => Err(wrong(index, "a map", other)),
    }
}

/// The entries of the map of an argument.
fn entries(args: &[Value], index: usize) -> Result<Entries, String> {
    Ok(map(args, index)?.copied())
}

/// Changes the map of the first argument in place and returns it.
fn change(args: &[Value], change: impl FnOnce(&mut Entries)) -> Result<Value, String> {
    let mut changed = entries(args, 0)?;
    change(&mut changed);
    *map(args, 0)?.change() = changed;
    Ok(args[0].clone())
}

fn made(entries: Entries) -> Value {
    Value::Object(Object::Map(Shared::new(entries)))
}

fn list(values: Vec<Value>) -> Value {
    Value::Object(Object::List(Shared::new(values)))
}

fn check_create(args: &[Argument]) -> Result<(), Refused> {
    if args.len().is_multiple_of(2) {
        Ok(())
    } else {
        Err(Refused(
            "function 'map:create' needs a value for each key".into(),
        ))
    }
}

fn create(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    let pairs = args.chunks_exact(2);
    let pairs = pairs.map(|pair| (pair[0].clone(), pair[1].clone()));
    Ok(made(java_map::of_pairs(pairs)))
}

fn create_from_json(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    match parse(text(args, 0)?, ReadStyle::Hashed)? {
        map @ Value::Object(Object::Map(_)) => Ok(map),
        _ => Err("the JSON text is not an object".into()),
    }
}

fn create_from_xml(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    xml::parse(text(args, 0)?).map(made)
}

fn clear(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    change(args, Entries::clear)
}

fn clone(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    entries(args, 0).map(made)
}

/// Key → list of the values of each map, null where it is missing.
fn combine_by_key(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    let maps = (0..args.len())
        .map(|i| entries(args, i))
        .collect::<Result<Vec<_>, _>>()?;
    let mut combined = Entries::new();
    for (key, _) in maps.iter().flatten() {
        if java_map::get(&combined, key).is_none() {
            let value = |m: &Entries| java_map::get(m, key).cloned().unwrap_or_default();
            let all = maps.iter().map(value).collect();
            java_map::put(&mut combined, key.clone(), list(all));
        }
    }
    Ok(made(combined))
}

fn contains_key(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    Ok(Value::Bool(
        java_map::get(&entries(args, 0)?, &args[1]).is_some(),
    ))
}

fn contains_value(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    Ok(Value::Bool(
        entries(args, 0)?.iter().any(|(_, v)| *v == args[1]),
    ))
}

/// The default counts only where the key is missing, not where its value is null.
fn get(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    let entries = entries(args, 0)?;
    let found = java_map::get(&entries, &args[1]).or(args.get(2));
    Ok(found.cloned().unwrap_or_default())
}

fn is_empty(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    Ok(Value::Bool(map(args, 0)?.lock().is_empty()))
}

fn is_map(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    Ok(Value::Bool(map(args, 0).is_ok()))
}

fn keys(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    Ok(list(
        map(args, 0)?
            .lock()
            .iter()
            .map(|(k, _)| k.clone())
            .collect(),
    ))
}

fn values(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    Ok(list(
        map(args, 0)?
            .lock()
            .iter()
            .map(|(_, v)| v.clone())
            .collect(),
    ))
}

fn put(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    check_holds(&args[0], &args[1..3])?;
    change(args, |map| {
        java_map::put(map, args[1].clone(), args[2].clone());
    })
}

fn put_all(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    let from = entries(args, 1)?;
    check_holds(&args[0], from.iter().flat_map(|(k, v)| [k, v]))?;
    change(args, |to| {
        for (key, value) in from {
            java_map::put(to, key, value);
        }
    })
}

/// A key whose value is null counts as absent, as in Java.
fn put_if_absent(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    check_holds(&args[0], &args[1..3])?;
    change(args, |map| {
        if java_map::get(map, &args[1]).is_none_or(Value::is_null) {
            java_map::put(map, args[1].clone(), args[2].clone());
        }
    })
}

fn remove(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    change(args, |map| {
        java_map::remove(map, &args[1]);
    })
}

fn replace(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    check_holds(&args[0], [&args[2]])?;
    change(args, |map| {
        if java_map::get(map, &args[1]).is_some() {
            java_map::put(map, args[1].clone(), args[2].clone());
        }
    })
}

fn replace_all(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    let from = entries(args, 1)?;
    check_holds(&args[0], from.iter().map(|(_, v)| v))?;
    change(args, |to| {
        for (key, value) in from {
            if java_map::get(to, &key).is_some() {
                java_map::put(to, key, value);
            }
        }
    })
}

fn size(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    Ok(Value::Int(map(args, 0)?.lock().len() as i32))
}

fn to_json_text(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    map(args, 0)?;
    Ok(Value::str(&to_json(&args[0], WriteStyle::Plain)?))
}

/// `toXML(map [, root])`.
fn to_xml(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    let inner = xml::write(&entries(args, 0)?)?;
    if args.len() < 2 {
        return Ok(Value::str(&inner));
    }
    let root = text(args, 1)?;
    Ok(Value::str(&format!("<{root}>{inner}</{root}>")))
}

#[cfg(test)]
mod tests {
    use crate::function::testing::*;

    #[test]
    fn maps_are_made_and_read() {
        check(
            "map:create",
            &[s("name"), s("x"), s("age"), i(5)],
            "{name=x, age=5}",
        );
        check("map:create", &[s("name")], "!a value for each key");
        check("map:get", &[map(&[("a", i(1))]), s("a")], "1");
        check("map:get", &[map(&[("a", i(1))]), s("b")], "null");
        check("map:get", &[map(&[("a", NULL)]), s("a"), i(9)], "null");
        check("map:get", &[map(&[]), s("a"), i(9)], "9");
        check("map:get", &[NULL, s("a")], "!a map is needed");
        check("map:containsKey", &[map(&[("a", i(1))]), s("a")], "true");
        check("map:containsValue", &[map(&[("a", i(1))]), l(1)], "false");
        check("map:isMap", &[s("a")], "false");
        check("map:isEmpty", &[map(&[])], "true");
        check("map:size", &[map(&[("a", i(1)), ("b", i(2))])], "2");
        check("map:keys", &[map(&[("a", i(1)), ("b", i(2))])], "[a, b]");
        check("map:values", &[map(&[("a", i(1)), ("b", i(2))])], "[1, 2]");
        check(
            "map:combineByKey",
            &[map(&[("a", i(1))]), map(&[("a", i(2)), ("b", i(3))])],
            "{a=[1, 2], b=[null, 3]}",
        );
    }

    #[test]
    fn changes_are_made_in_place() {
        let shared = map(&[("a", i(1))]);
        check("map:put", &[shared.clone(), s("b"), i(2)], "{a=1, b=2}");
        assert_eq!(shown(&shared), "{a=1, b=2}");
        check(
            "map:putIfAbsent",
            &[shared.clone(), s("a"), i(9)],
            "{a=1, b=2}",
        );
        check("map:replace", &[shared.clone(), s("c"), i(9)], "{a=1, b=2}");
        check(
            "map:replaceAll",
            &[shared.clone(), map(&[("b", i(7)), ("z", i(8))])],
            "{a=1, b=7}",
        );
        check(
            "map:putAll",
            &[shared.clone(), map(&[("c", i(3))])],
            "{a=1, b=7, c=3}",
        );
        check("map:remove", &[shared.clone(), s("a")], "{b=7, c=3}");
        check("map:clone", std::slice::from_ref(&shared), "{b=7, c=3}");
        check("map:clear", std::slice::from_ref(&shared), "{}");
        assert_eq!(shown(&shared), "{}");
    }

    #[test]
    fn json_and_xml() {
        check(
            "map:createFromJSON",
            &[s("{symbol :IBM, price :100}")],
            "{symbol=IBM, price=100}",
        );
        check("map:createFromJSON", &[s("[1]")], "!is not an object");
        check(
            "map:toJSON",
            &[map(&[("a", d(2.0)), ("b", s("</x>"))])],
            "'{\"a\":2,\"b\":\"<\\/x>\"}'",
        );
        check(
            "map:createFromXML",
            &[s(
                "<r><a>1</a><b>1.5</b><c>true</c><d>x</d><e><f>2</f></e><g/></r>",
            )],
            "{a=1, b=1.5, c=true, d=x, e={f=2}, g=}",
        );
        check("map:createFromXML", &[s("<r>")], "!XML");
        check(
            "map:toXML",
            &[map(&[("a", i(1)), ("b", map(&[("c", s("x"))]))])],
            "'<a>1</a><b><c>x</c></b>'",
        );
        check(
            "map:toXML",
            &[map(&[("a", i(1))]), s("r")],
            "'<r><a>1</a></r>'",
        );
        check("map:toXML", &[map(&[("a", NULL)])], "!is null");
    }
}
