//! `list:sort`.

use std::cmp::Ordering;

use event::Value;

use super::change;
use crate::function::row::{Row, text};

/// `sort(list [, order])`: `ASC`, `DESC`, or `REV`, which turns the list round without sorting it
/// and is what happens without an order. Texts ignore case; numbers must be of one class.
pub fn sort(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    let order = if args.len() > 1 {
        text(args, 1)?.to_uppercase()
    } else {
        "REV".into()
    };
    change(args, |values| {
        match order.as_str() {
            "REV" => values.reverse(),
            "ASC" | "DESC" => {
                let class = values.first().and_then(Value::ty);
                if values.iter().any(|v| v.ty() != class || v.is_null()) {
                    return Err("only values of one class can be sorted".into());
                }
                values.sort_by(compare);
                if order == "DESC" {
                    values.reverse();
                }
            }
            other => return Err(format!("'{other}' is not an order: write ASC, DESC or REV")),
        }
        Ok(())
    })
}

fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Str(a), Value::Str(b)) => a.to_lowercase().cmp(&b.to_lowercase()),
        (Value::Int(_) | Value::Long(_), _) => a.to_long().cmp(&b.to_long()),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        _ => a
            .to_double()
            .unwrap_or(0.0)
            .total_cmp(&b.to_double().unwrap_or(0.0)),
    }
}
