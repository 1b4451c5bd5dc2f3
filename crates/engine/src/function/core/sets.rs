//! `createSet` and `sizeOfSet`.

use event::value::Shared;
use event::{Object, Value};

use crate::function::row::{Row, wrong};

pub fn create_set(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    Ok(Value::Object(Object::Set(Shared::new(vec![
        args[0].clone(),
    ]))))
}

pub fn size_of_set(args: &[Value], _: &mut Row<'_, '_>) -> Result<Value, String> {
    match &args[0] {
        Value::Null => Ok(Value::Int(0)),
        Value::Object(Object::Set(set)) => Ok(Value::Int(set.lock().len() as i32)),
        other => Err(wrong(0, "a set", Some(other))),
    }
}
