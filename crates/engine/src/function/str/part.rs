//! Parts, places and comparisons.

use event::{Type, Value};
use javatext::regex::Groups;

use crate::function::row::{Row, int, text};
use crate::function::utf16;

pub fn char_at(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    let (s, index) = (text(args, 0)?, i64::from(int(args, 1)?));
    match utf16::substring(s, index, index + 1) {
        Some(c) => Ok(Value::str(&c)),
        None => Err(out_of_range(index, s)),
    }
}

fn out_of_range(index: i64, s: &str) -> String {
    format!(
        "index {index} is out of range, the text has {} characters",
        utf16::len(s)
    )
}

pub fn char_frequency(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    let (s, c) = (text(args, 0)?, text(args, 1)?);
    if utf16::len(c) != 1 {
        return Err("argument 2 must be one character".into());
    }
    Ok(Value::Long(s.matches(c).count() as i64))
}

/// Null in the first place is false, in the second an error.
pub fn contains(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    if args[0].is_null() {
        return Ok(Value::Bool(false));
    }
    Ok(Value::Bool(text(args, 0)?.contains(text(args, 1)?)))
}

pub fn equals_ignore_case(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    let a = text(args, 0)?;
    if args[1].is_null() {
        return Ok(Value::Bool(false));
    }
    let folded = |s: &str| {
        s.chars()
            .flat_map(char::to_uppercase)
            .flat_map(char::to_lowercase)
            .collect::<Vec<_>>()
    };
    Ok(Value::Bool(folded(a) == folded(text(args, 1)?)))
}

pub fn length(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    Ok(Value::Int(utf16::len(text(args, 0)?) as i32))
}

/// `locate(part, text [, start])`: with a start a miss gives start - 1, since the place is found in
/// the rest and the start is added to it.
pub fn locate(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    let (part, s) = (text(args, 0)?, text(args, 1)?);
    let start = if args.len() > 2 {
        i64::from(int(args, 2)?)
    } else {
        0
    };
    let rest =
        utf16::substring(s, start, utf16::len(s) as i64).ok_or_else(|| out_of_range(start, s))?;
    let place = rest
        .find(part)
        .map_or(-1, |byte| utf16::unit_of(&rest, byte) as i64);
    Ok(Value::Int((place + start) as i32))
}

pub fn strcmp(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    Ok(Value::Int(utf16::compare(text(args, 0)?, text(args, 1)?)))
}

/// By place, `(s, begin [, length])`, or by pattern, `(s, regex [, group])`: the first match, empty
/// where there is none.
pub fn substr(args: &[Value], row: &mut Row<'_, '_>) -> Result<Value, String> {
    let s = text(args, 0)?;
    if row.types[1] == Type::String {
        let group = if args.len() > 2 { int(args, 2)? } else { 0 };
        return substr_by_pattern(s, text(args, 1)?, group, row);
    }
    let begin = i64::from(int(args, 1)?);
    let end = if args.len() > 2 {
        begin + i64::from(int(args, 2)?)
    } else {
        utf16::len(s) as i64
    };
    match utf16::substring(s, begin, end) {
        Some(part) => Ok(Value::str(&part)),
        None => Err(format!(
            "the part from {begin} to {end} is out of range, the text has {} characters",
            utf16::len(s)
        )),
    }
}

fn substr_by_pattern(
    s: &str,
    pattern: &str,
    group: i32,
    row: &mut Row<'_, '_>,
) -> Result<Value, String> {
    let regex = row.memo.regex(pattern)?;
    let mut groups = Groups::default();
    if !regex.find_at(s, 0, &mut groups)? {
        return Ok(Value::str(""));
    }
    match usize::try_from(group) {
        Ok(group) if group <= regex.group_count() => {
            let range = groups.get(group);
            Ok(range.map_or(Value::Null, |range| Value::str(&s[range])))
        }
        _ => Err(format!("the regular expression has no group {group}")),
    }
}
