//! `regex:`: matching with the pattern as the first argument. A null text matches nothing, a null
//! pattern is an error.

mod params;

use event::Value;
use javatext::regex::Groups;

use super::row::{Row, RowFunction, int, row, text};
use super::utf16;
use crate::spec::*;
use params::*;

/// Sorted by name.
pub static ROWS: &[RowFunction] = &[
    row!(
        scalar(
            "find",
            "Whether the text holds a match.",
            &[
                Overload::new(&[REGEX, TEXT]),
                Overload::new(&[
                    REGEX,
                    TEXT,
                    param("starting.index", Types::INT, "Where to begin, from 0."),
                ]),
            ],
            BOOL,
        ),
        find,
        "regex:find('[0-9]', symbol) as b"
    ),
    row!(
        scalar(
            "group",
            "A group of the first match.",
            &[Overload::new(&[
                REGEX,
                TEXT,
                param("group.id", Types::INT, "Which group."),
            ])],
            STRING,
        ),
        group,
        "regex:group('([A-Z]+)', symbol, 1) as g"
    ),
    row!(
        scalar(
            "lookingAt",
            "Whether the text begins with a match.",
            &[Overload::new(&[REGEX, TEXT])],
            BOOL,
        ),
        looking_at,
        "regex:lookingAt('[A-Z]', symbol) as b"
    ),
    row!(
        scalar(
            "matches",
            "Whether the whole text matches.",
            &[Overload::new(&[REGEX, TEXT])],
            BOOL,
        ),
        matches,
        "regex:matches('[A-Z]+', symbol) as b"
    ),
];

/// `find(pattern, text [, start])`: anywhere from the start on.
fn find(args: &[Value], row: &mut Row<'_, '_>) -> Result<Value, String> {
    let pattern = text(args, 0)?;
    if args[1..].iter().any(Value::is_null) {
        return Ok(Value::Bool(false));
    }
    let s = text(args, 1)?;
    let start = if args.len() > 2 { int(args, 2)? } else { 0 };
    let units = utf16::len(s);
    let unit = usize::try_from(start)
        .ok()
        .filter(|&u| u <= units)
        .ok_or_else(|| format!("start {start} is out of range, the text has {units} characters"))?;
    let at = utf16::byte_of(s, unit);
    let found = row
        .memo
        .regex(pattern)?
        .find_at(s, at, &mut Groups::default())?;
    Ok(Value::Bool(found))
}

/// A group of the first match anywhere; null where there is no match or no such group.
fn group(args: &[Value], row: &mut Row<'_, '_>) -> Result<Value, String> {
    let (pattern, s, group) = (text(args, 0)?, text(args, 1)?, int(args, 2)?);
    let mut groups = Groups::default();
    if !row.memo.regex(pattern)?.find_at(s, 0, &mut groups)? {
        return Ok(Value::Null);
    }
    let group = usize::try_from(group).map_err(|_| format!("there is no group {group}"))?;
    let range = groups.get(group);
    Ok(range.map_or(Value::Null, |range| Value::str(&s[range])))
}

fn looking_at(args: &[Value], row: &mut Row<'_, '_>) -> Result<Value, String> {
    let pattern = text(args, 0)?;
    if args[1].is_null() {
        return Ok(Value::Bool(false));
    }
    let regex = row.memo.leading_regex(pattern)?;
    Ok(Value::Bool(regex.is_match(text(args, 1)?)?))
}

fn matches(args: &[Value], row: &mut Row<'_, '_>) -> Result<Value, String> {
    let pattern = text(args, 0)?;
    if args[1].is_null() {
        return Ok(Value::Bool(false));
    }
    let regex = row.memo.whole_regex(pattern)?;
    Ok(Value::Bool(regex.is_match(text(args, 1)?)?))
}

#[cfg(test)]
mod tests {
    use crate::function::testing::*;

    #[test]
    fn patterns_come_first() {
        check("regex:find", &[s("b+"), s("abbc")], "true");
        check("regex:find", &[s("b"), s("abc"), i(2)], "false");
        check("regex:find", &[s("b"), s("abc"), i(9)], "!out of range");
        check("regex:find", &[s("b"), NULL], "false");
        check("regex:find", &[NULL, s("b")], "!argument 1 is null");
        check(
            "regex:group",
            &[s("(\\d+)-(\\d+)"), s("a 12-34"), i(2)],
            "'34'",
        );
        check("regex:group", &[s("x"), s("a"), i(0)], "null");
        check("regex:group", &[s("a"), s("a"), i(4)], "null");
        check("regex:lookingAt", &[s("ab"), s("abc")], "true");
        check("regex:lookingAt", &[s("bc"), s("abc")], "false");
        check("regex:matches", &[s("abc?"), s("abc")], "true");
        check("regex:matches", &[s("b"), s("abc")], "false");
        check("regex:matches", &[s("("), s("abc")], "!regular expression");
    }
}
