//! `str:fillTemplate`.

use event::text::write_value;
use event::{Object, Value};
use memchr::memchr_iter;

use crate::function::number::parse_integer;
use crate::function::row::{Row, text};

/// Puts values in place of `{{1}}`, `{{2}}` … or, from a map, of `{{key}}`. A value that is null, or a
/// key that is not there, leaves the bare text between the braces. `{{0}}` is the template itself.
///
/// Braces that are no placeholder stay. (Siddhi cuts at `{{` and `}}` alike and loses them: of
/// `{"a":{"b":{{1}}}}` it drops the end.)
///
/// # Errors
/// A placeholder that is not a number, or above that of the values.
pub fn fill_template(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    let template = text(args, 0)?;
    let map = match &args[1..] {
        [Value::Object(Object::Map(map))] => Some(map.lock()),
        _ => None,
    };
    let mut out = String::with_capacity(template.len());
    split(template, |piece| {
        let name = match piece {
            Braces::Outside(text) => {
                out.push_str(text);
                return Ok(());
            }
            Braces::Inside(name) => name,
        };
        let value = match &map {
            Some(map) => {
                let key = name.trim();
                let mut entries = map.iter();
                let found = entries.find(|(k, _)| k.as_str() == Some(key));
                found.map(|(_, v)| v)
            }
            None => Some(&args[number(name, args.len())?]),
        };
        match value {
            Some(value) if !value.is_null() => write_value(&mut out, value),
            _ => out.push_str(name),
        }
        Ok(())
    })?;
    Ok(Value::str(&out))
}

/// A piece of a template.
pub enum Braces<'t> {
    Outside(&'t str),
    Inside(&'t str),
}

/// Hands over a template piece by piece.
pub fn split<'t>(
    template: &'t str,
    mut each: impl FnMut(Braces<'t>) -> Result<(), String>,
) -> Result<(), String> {
    let mut rest = template;
    while let Some(open) = find_pair(rest, b'{') {
        let Some(length) = find_pair(&rest[open + 2..], b'}') else {
            break;
        };
        each(Braces::Outside(&rest[..open]))?;
        each(Braces::Inside(&rest[open + 2..open + 2 + length]))?;
        rest = &rest[open + 4 + length..];
    }
    each(Braces::Outside(rest))
}

/// Where the first two braces of a kind stand side by side.
fn find_pair(text: &str, brace: u8) -> Option<usize> {
    let bytes = text.as_bytes();
    memchr_iter(brace, bytes).find(|&at| bytes.get(at + 1) == Some(&brace))
}

/// The number in a placeholder, which is below that of the arguments.
pub fn number(name: &str, arguments: usize) -> Result<usize, String> {
    let number: i32 = parse_integer(name.trim())
        .ok_or_else(|| format!("'{name}' in the template is not a number"))?;
    let argument = usize::try_from(number).ok().filter(|&n| n < arguments);
    argument.ok_or_else(|| {
        let count = arguments - 1;
        format!("the template names value {number}, but has the values 1 to {count}")
    })
}
