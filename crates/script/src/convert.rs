//! Values of the language and those of JavaScript, both ways.
//!
//! | type | in a script |
//! |---|---|
//! | string, bool, null | the same |
//! | int, float, double, and long up to 2^53 | number |
//! | long beyond 2^53 | BigInt, so that nothing is lost |
//! | list, set, array, bytes | array |
//! | map | object, keys as text |
//!
//! A number that comes back takes the declared type where that loses nothing; otherwise it travels
//! as the int or double that it is, as in Siddhi.

use event::value::Shared;
use event::{Object, Type, Value};
use rquickjs::{Array, BigInt, Ctx, IntoJs as _, Object as JsObject, String as JsString};

/// Integers up to here are exact as numbers.
const EXACT_MAX: i64 = 1 << 53;

/// Lists and maps inside one another.
const DEPTH_MAX: usize = 64;

/// The arguments as one array; a call without any passes one null, as in Siddhi.
pub fn array<'js>(ctx: &Ctx<'js>, args: &[Value]) -> rquickjs::Result<rquickjs::Value<'js>> {
    let data = Array::new(ctx.clone())?;
    for (index, arg) in args.iter().enumerate() {
        data.set(index, to_js(ctx, arg, 0)?)?;
    }
    if args.is_empty() {
        data.set(0, rquickjs::Value::new_null(ctx.clone()))?;
    }
    Ok(data.into_value())
}

fn to_js<'js>(
    ctx: &Ctx<'js>,
    value: &Value,
    depth: usize,
) -> rquickjs::Result<rquickjs::Value<'js>> {
    Ok(match value {
        Value::Null => rquickjs::Value::new_null(ctx.clone()),
        Value::Bool(v) => rquickjs::Value::new_bool(ctx.clone(), *v),
        Value::Int(v) => rquickjs::Value::new_int(ctx.clone(), *v),
        Value::Long(v) if v.unsigned_abs() <= EXACT_MAX as u64 => (*v as f64).into_js(ctx)?,
        Value::Long(v) => BigInt::from_i64(ctx.clone(), *v)?.into_value(),
        Value::Float(v) => v
            .to_string()
            .parse::<f64>()
            .unwrap_or(f64::from(*v))
            .into_js(ctx)?,
        Value::Double(v) => v.into_js(ctx)?,
        Value::Str(v) => JsString::from_str(ctx.clone(), v)?.into_value(),
        Value::Object(_) if depth >= DEPTH_MAX => rquickjs::Value::new_null(ctx.clone()),
        Value::Object(object) => object_to_js(ctx, object, depth + 1)?,
    })
}

fn object_to_js<'js>(
    ctx: &Ctx<'js>,
    object: &Object,
    depth: usize,
) -> rquickjs::Result<rquickjs::Value<'js>> {
    let list = |values: &[Value]| -> rquickjs::Result<rquickjs::Value<'js>> {
        let out = Array::new(ctx.clone())?;
        for (index, value) in values.iter().enumerate() {
            out.set(index, to_js(ctx, value, depth)?)?;
        }
        Ok(out.into_value())
    };
    match object {
        // Copied first: values may hold one another, so nothing stays locked on the way down.
        Object::List(values) => list(&values.lock().clone()),
        Object::Set(values) => list(&values.lock().clone()),
        Object::Array(values) => list(values),
        Object::Bytes(bytes) => {
            let values: Vec<Value> = bytes
                .iter()
                .map(|b| Value::Int(i32::from(*b as i8)))
                .collect();
            list(&values)
        }
        Object::Map(entries) => {
            let out = JsObject::new(ctx.clone())?;
            let entries = entries.lock().clone();
            for (key, value) in &entries {
                out.set(event::text::to_text(key), to_js(ctx, value, depth)?)?;
            }
            Ok(out.into_value())
        }
        Object::Error(text) => Ok(JsString::from_str(ctx.clone(), text)?.into_value()),
    }
}

/// What a script gave.
///
/// # Errors
/// A value that has no meaning outside, in words.
pub fn value(js: &rquickjs::Value<'_>, returns: Type) -> Result<Value, String> {
    let value = from_js(js, 0)?;
    Ok(as_declared(value, returns))
}

/// A number takes the declared type where it is the same number there.
fn as_declared(value: Value, returns: Type) -> Value {
    let Some(number) = value.to_double() else {
        return value;
    };
    let is_whole = number.fract() == 0.0 && number.abs() <= EXACT_MAX as f64;
    match (returns, &value) {
        (Type::Int, Value::Double(v)) if is_whole && i32::try_from(*v as i64).is_ok() => {
            Value::Int(*v as i32)
        }
        (Type::Long, Value::Int(v)) => Value::Long(i64::from(*v)),
        (Type::Long, Value::Double(v)) if is_whole => Value::Long(*v as i64),
        (Type::Float, Value::Int(_) | Value::Double(_)) => Value::Float(number as f32),
        (Type::Double, Value::Int(_)) => Value::Double(number),
        _ => value,
    }
}

fn from_js(js: &rquickjs::Value<'_>, depth: usize) -> Result<Value, String> {
    if depth > DEPTH_MAX {
        return Err(format!(
            "what the script returns nests deeper than {DEPTH_MAX}"
        ));
    }
    if js.is_null() || js.is_undefined() {
        return Ok(Value::Null);
    }
    if let Some(v) = js.as_bool() {
        return Ok(Value::Bool(v));
    }
    if let Some(v) = js.as_int() {
        return Ok(Value::Int(v));
    }
    if let Some(v) = js.as_float() {
        return Ok(Value::Double(v));
    }
    if let Some(v) = js.as_string() {
        return v
            .to_string()
            .map(|text| Value::str(&text))
            .map_err(|e| e.to_string());
    }
    if let Some(v) = js.as_big_int() {
        let long = v.clone().to_i64().map_err(|e| e.to_string())?;
        return Ok(Value::Long(long));
    }
    if js.is_function() || js.is_symbol() {
        return Err(
            "the script returns a function or symbol, which no attribute can hold".to_owned(),
        );
    }
    if let Some(array) = js.as_array() {
        let values: Result<Vec<Value>, String> = array
            .iter::<rquickjs::Value<'_>>()
            .map(|item| from_js(&item.map_err(|e| e.to_string())?, depth + 1))
            .collect();
        return Ok(Value::Object(Object::List(Shared::new(values?))));
    }
    if let Some(bytes) = js.as_object().and_then(|o| o.as_typed_array::<u8>()) {
        let bytes: rquickjs::Result<Vec<u8>> =
            (0..bytes.len() as u32).map(|at| bytes.get(at)).collect();
        let bytes = bytes.map_err(|e| e.to_string())?;
        return Ok(Value::Object(Object::Bytes(bytes.into())));
    }
    if let Some(object) = js.as_object() {
        let mut entries = Vec::new();
        for entry in object.props::<String, rquickjs::Value<'_>>() {
            let (key, value) = entry.map_err(|e| e.to_string())?;
            entries.push((Value::str(&key), from_js(&value, depth + 1)?));
        }
        return Ok(Value::Object(Object::Map(Shared::new(entries))));
    }
    Err(format!(
        "the script returns a {}, which no attribute can hold",
        js.type_name()
    ))
}
