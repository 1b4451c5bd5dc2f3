//! `list:`: lists as values.
//!
//! As with maps, functions that return the changed list change their argument in place. What is no
//! list is an error, but for `isList`.

mod params;
mod sort;

use event::value::Shared;
use event::{Object, Value};

use super::object::check_holds;
use super::row::{Row, RowFunction, bool, int, row, wrong};
use crate::spec::*;
use params::*;

/// Sorted by name.
pub static ROWS: &[RowFunction] = &[
    row!(
        scalar(
            "add",
            "Adds a value at the end or at a place.",
            &[
                Overload::new(&[LIST, VALUE]),
                Overload::new(&[LIST, VALUE, INDEX]),
            ],
            OBJECT,
        ),
        add,
        "list:add(list:create(), symbol) as l"
    ),
    row!(
        scalar(
            "addAll",
            "Adds all values of another list.",
            &[
                Overload::new(&[TO, FROM]),
                Overload::new(&[TO, FROM, DISTINCT]),
            ],
            OBJECT,
        ),
        add_all,
        "list:addAll(list:create(1), list:create(2)) as l"
    ),
    row!(
        scalar("clear", "Empties a list.", ONE, OBJECT),
        clear,
        "list:clear(list:create(1)) as l"
    ),
    row!(
        scalar("clone", "A copy of a list.", ONE, OBJECT),
        clone,
        "list:clone(list:create(1)) as l"
    ),
    row!(
        scalar("contains", "Whether a list has a value.", WITH_VALUE, BOOL),
        contains,
        "list:contains(list:create(1), 1) as b"
    ),
    row!(
        scalar(
            "containsAll",
            "Whether a list has all values of another.",
            WITH_LIST,
            BOOL,
        ),
        contains_all,
        "list:containsAll(list:create(1), list:create(1)) as b"
    ),
    row!(
        scalar(
            "containsAny",
            "Whether a list has any value of another.",
            WITH_LIST,
            BOOL,
        ),
        contains_any,
        "list:containsAny(list:create(1), list:create(1, 2)) as b"
    ),
    row!(
        scalar(
            "create",
            "A list of the given values.",
            &[NONE, Overload::repeating(&[VALUE], 1)],
            OBJECT,
        ),
        create,
        "list:create(symbol, price) as l"
    )
    .infallible(),
    row!(
        scalar(
            "get",
            "The value at a place, null outside.",
            WITH_INDEX,
            OBJECT,
        ),
        get,
        "list:get(list:create('a'), 0) as v"
    ),
    row!(
        scalar("indexOf", "First place of a value, or -1.", WITH_VALUE, INT),
        index_of,
        "list:indexOf(list:create('a'), 'a') as i"
    ),
    row!(
        scalar("isEmpty", "Whether a list is empty.", ONE, BOOL),
        is_empty,
        "list:isEmpty(list:create()) as b"
    ),
    row!(
        scalar(
            "isList",
            "Whether a value is a list.",
            &[Overload::new(&[param("arg", Types::ANY, "The value.")])],
            BOOL,
        ),
        is_list,
        "list:isList(symbol) as b"
    )
    .infallible(),
    row!(
        scalar(
            "lastIndexOf",
            "Last place of a value, or -1.",
            WITH_VALUE,
            INT,
        ),
        last_index_of,
        "list:lastIndexOf(list:create('a', 'a'), 'a') as i"
    ),
    row!(
        scalar(
            "remove",
            "Takes the first such value out.",
            WITH_VALUE,
            OBJECT,
        ),
        remove,
        "list:remove(list:create('a'), 'a') as l"
    ),
    row!(
        scalar(
            "removeAll",
            "Takes all values of another list out.",
            WITH_LIST,
            OBJECT,
        ),
        remove_all,
        "list:removeAll(list:create(1, 2), list:create(1)) as l"
    ),
    row!(
        scalar(
            "removeByIndex",
            "Takes the value at a place out.",
            WITH_INDEX,
            OBJECT,
        ),
        remove_by_index,
        "list:removeByIndex(list:create('a'), 0) as l"
    ),
    row!(
        scalar(
            "retainAll",
            "Keeps only the values of another list.",
            WITH_LIST,
            OBJECT,
        ),
        retain_all,
        "list:retainAll(list:create(1, 2), list:create(1)) as l"
    ),
    row!(
        scalar(
            "setValue",
            "Replaces the value at a place.",
            &[Overload::new(&[LIST, INDEX, VALUE])],
            OBJECT,
        ),
        set_value,
        "list:setValue(list:create('a'), 0, 'b') as l"
    ),
    row!(
        scalar("size", "How many values there are.", ONE, INT),
        size,
        "list:size(list:create('a')) as n"
    ),
    row!(
        scalar(
            "sort",
            "Sorts a list, or turns it round.",
            &[
                Overload::new(&[LIST]),
                Overload::new(&[
                    LIST,
                    param("order", Types::STRING, "`ASC`, `DESC` or `REV`.").constant(),
                ]),
            ],
            OBJECT,
        ),
        sort::sort,
        "list:sort(list:create(2, 1), 'ASC') as l"
    ),
];

/// The list of an argument.
fn list(args: &[Value], index: usize) -> Result<&Shared<Vec<Value>>, String> {
    match args.get(index) {
        Some(Value::Object(Object::List(list))) => Ok(list),
        other => Err(wrong(index, "a list", other)),
    }
}

/// The values of the list of an argument.
fn values(args: &[Value], index: usize) -> Result<Vec<Value>, String> {
    Ok(list(args, index)?.copied())
}

/// Changes the list of the first argument in place and returns it.
fn change(
    args: &[Value],
    change: impl FnOnce(&mut Vec<Value>) -> Result<(), String>,
) -> Result<Value, String> {
    let mut changed = values(args, 0)?;
    change(&mut changed)?;
    *list(args, 0)?.change() = changed;
    Ok(args[0].clone())
}

fn made(values: Vec<Value>) -> Value {
    Value::Object(Object::List(Shared::new(values)))
}

/// The place an index names in a list of `len` values.
fn place(index: i32, len: usize) -> Result<usize, String> {
    let found = usize::try_from(index).ok().filter(|&i| i < len);
    found.ok_or_else(|| format!("index {index} is out of range, the list has {len} values"))
}

/// A single null makes an empty list.
fn create(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    Ok(match args {
        [Value::Null] => made(Vec::new()),
        args => made(args.to_vec()),
    })
}

fn add(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    check_holds(&args[0], [&args[1]])?;
    change(args, |list| {
        let at = if args.len() > 2 {
            place(int(args, 2)?, list.len() + 1)?
        } else {
            list.len()
        };
        list.insert(at, args[1].clone());
        Ok(())
    })
}

/// `addAll(to, from [, distinct])`: distinct adds only what is missing.
fn add_all(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    let from = values(args, 1)?;
    let is_distinct = args.len() > 2 && bool(args, 2)?;
    check_holds(&args[0], &from)?;
    change(args, |to| {
        for value in from {
            if !is_distinct || !to.contains(&value) {
                to.push(value);
            }
        }
        Ok(())
    })
}

fn clear(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    change(args, |list| {
        list.clear();
        Ok(())
    })
}

fn clone(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    values(args, 0).map(made)
}

fn contains(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    Ok(Value::Bool(values(args, 0)?.contains(&args[1])))
}

fn contains_all(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    let (all, given) = (values(args, 0)?, values(args, 1)?);
    Ok(Value::Bool(given.iter().all(|v| all.contains(v))))
}

fn contains_any(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    let (all, given) = (values(args, 0)?, values(args, 1)?);
    Ok(Value::Bool(given.iter().any(|v| all.contains(v))))
}

/// Null where the index is out of range.
fn get(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    let (list, index) = (list(args, 0)?.lock(), int(args, 1)?);
    Ok(place(index, list.len()).map_or(Value::Null, |i| list[i].clone()))
}

fn index_of(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    let at = values(args, 0)?.iter().position(|v| *v == args[1]);
    Ok(Value::Int(at.map_or(-1, |i| i as i32)))
}

fn last_index_of(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    let at = values(args, 0)?.iter().rposition(|v| *v == args[1]);
    Ok(Value::Int(at.map_or(-1, |i| i as i32)))
}

fn is_empty(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    Ok(Value::Bool(list(args, 0)?.lock().is_empty()))
}

fn is_list(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    Ok(Value::Bool(list(args, 0).is_ok()))
}

/// The first equal value leaves.
fn remove(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    change(args, |list| {
        if let Some(at) = list.iter().position(|v| *v == args[1]) {
            list.remove(at);
        }
        Ok(())
    })
}

fn remove_all(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    let given = values(args, 1)?;
    change(args, |list| {
        list.retain(|v| !given.contains(v));
        Ok(())
    })
}

fn retain_all(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    let given = values(args, 1)?;
    change(args, |list| {
        list.retain(|v| given.contains(v));
        Ok(())
    })
}

fn remove_by_index(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    change(args, |list| {
        list.remove(place(int(args, 1)?, list.len())?);
        Ok(())
    })
}

fn set_value(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    check_holds(&args[0], [&args[2]])?;
    change(args, |list| {
        let at = place(int(args, 1)?, list.len())?;
        list[at] = args[2].clone();
        Ok(())
    })
}

fn size(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    Ok(Value::Int(list(args, 0)?.lock().len() as i32))
}

#[cfg(test)]
mod tests {
    use crate::function::testing::*;

    #[test]
    fn lists_are_made_and_read() {
        let abc = || list(&[s("a"), s("b"), s("a")]);
        check("list:create", &[s("a"), i(1)], "[a, 1]");
        check("list:create", &[NULL], "[]");
        check("list:get", &[abc(), i(1)], "'b'");
        check("list:get", &[abc(), i(3)], "null");
        check("list:get", &[s("x"), i(3)], "!a list is needed");
        check("list:contains", &[list(&[i(1)]), l(1)], "false");
        check("list:containsAll", &[abc(), list(&[s("b")])], "true");
        check("list:containsAny", &[abc(), list(&[s("z")])], "false");
        check("list:indexOf", &[abc(), s("a")], "0");
        check("list:lastIndexOf", &[abc(), s("a")], "2");
        check("list:lastIndexOf", &[abc(), s("z")], "-1");
        check("list:isEmpty", &[list(&[])], "true");
        check("list:isList", &[NULL], "false");
        check("list:size", &[abc()], "3");
        check("list:clone", &[abc()], "[a, b, a]");
    }

    #[test]
    fn changes_are_made_in_place() {
        // Each call is made for two rows that share the list.
        check("list:add", &[list(&[]), s("a")], "[a, a]");
        check("list:add", &[list(&[s("z")]), s("a"), i(0)], "[a, a, z]");
        check("list:add", &[list(&[]), s("a"), i(1)], "!out of range");
        check(
            "list:addAll",
            &[list(&[i(1)]), list(&[i(1), i(2)]), b(true)],
            "[1, 2]",
        );
        check("list:remove", &[list(&[i(1), i(1), i(1)]), i(1)], "[1]");
        check(
            "list:removeAll",
            &[list(&[i(1), i(2)]), list(&[i(1)])],
            "[2]",
        );
        check(
            "list:retainAll",
            &[list(&[i(1), i(2)]), list(&[i(1)])],
            "[1]",
        );
        check(
            "list:removeByIndex",
            &[list(&[i(1), i(2), i(3)]), i(0)],
            "[3]",
        );
        check("list:removeByIndex", &[list(&[]), i(0)], "!out of range");
        check("list:setValue", &[list(&[i(1)]), i(0), i(9)], "[9]");
        check("list:clear", &[list(&[i(1)])], "[]");
    }

    #[test]
    fn sorting() {
        check(
            "list:sort",
            &[list(&[l(3), l(1), l(2)]), s("asc")],
            "[1, 2, 3]",
        );
        check(
            "list:sort",
            &[list(&[s("b"), s("C"), s("a")]), s("DESC")],
            "[C, b, a]",
        );
        // Reversed twice: once for each of the two rows.
        check("list:sort", &[list(&[i(3), i(1), i(2)])], "[3, 1, 2]");
        check("list:sort", &[list(&[i(3), l(1)]), s("ASC")], "!one class");
    }

    #[test]
    fn one_list_may_be_both_arguments_but_never_hold_itself() {
        let own = list(&[s("a"), list(&[s("b")])]);
        check("list:containsAny", &[own.clone(), own.clone()], "true");
        check("list:contains", &[own.clone(), own.clone()], "false");
        check("list:retainAll", &[own.clone(), own.clone()], "[a, [b]]");
        check(
            "list:add",
            &[own.clone(), own.clone()],
            "!cannot hold itself",
        );
        check(
            "list:add",
            &[own.clone(), map(&[("k", own)])],
            "!cannot hold itself",
        );
    }
}
