//! Values of fields as attributes, and the other way round.

use event::value::Shared;
use event::{ColumnBuilder, Object, Type, Value};
use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage as _,
    Value as Field,
};

/// Messages within messages that are written.
const DEPTH_MAX: usize = 100;

/// Can the field fill the attribute, and be filled by it? As the Java classes of both: whole numbers
/// without a sign are those with one.
pub(super) fn fits(ty: Type, field: &FieldDescriptor) -> bool {
    if ty == Type::Object {
        return true;
    }
    let kind = field.kind();
    !field.is_list()
        && !field.is_map()
        && match ty {
            Type::String => matches!(kind, Kind::String | Kind::Enum(_)),
            Type::Int => is_int(&kind),
            Type::Long => is_long(&kind),
            Type::Float => kind == Kind::Float,
            Type::Double => kind == Kind::Double,
            Type::Bool => kind == Kind::Bool,
            Type::Object => true,
        }
}

fn is_int(kind: &Kind) -> bool {
    let ints = [
        Kind::Int32,
        Kind::Sint32,
        Kind::Sfixed32,
        Kind::Uint32,
        Kind::Fixed32,
    ];
    ints.contains(kind)
}

fn is_long(kind: &Kind) -> bool {
    let longs = [
        Kind::Int64,
        Kind::Sint64,
        Kind::Sfixed64,
        Kind::Uint64,
        Kind::Fixed64,
    ];
    longs.contains(kind)
}

/// For messages to people.
pub(super) fn describe(field: &FieldDescriptor) -> String {
    let name = match field.kind() {
        Kind::Message(message) => format!("message '{}'", message.full_name()),
        Kind::Enum(names) => format!("enum '{}'", names.full_name()),
        kind => format!("{kind:?}"),
    };
    match (field.is_map(), field.is_list()) {
        (true, _) => "a map".to_owned(),
        (_, true) => format!("a list of {name}"),
        _ => name,
    }
}

// ---- to attributes ----

pub(super) fn push(column: &mut ColumnBuilder, ty: Type, field: &Field, of: &FieldDescriptor) {
    match (ty, field) {
        (Type::Bool, Field::Bool(v)) => column.push_bool(*v),
        (Type::Int, Field::I32(v)) => column.push_int(*v),
        (Type::Int, Field::U32(v)) => column.push_int(v.cast_signed()),
        (Type::Long, Field::I64(v)) => column.push_long(*v),
        (Type::Long, Field::U64(v)) => column.push_long(v.cast_signed()),
        (Type::Float, Field::F32(v)) => column.push_float(*v),
        (Type::Double, Field::F64(v)) => column.push_double(*v),
        (Type::String, Field::String(v)) => column.push_str(v),
        _ => column.push(&value(field, &of.kind())),
    }
}

/// The library bounds how deep messages lie in messages.
fn value(field: &Field, kind: &Kind) -> Value {
    match field {
        Field::Bool(v) => Value::Bool(*v),
        Field::I32(v) => Value::Int(*v),
        Field::U32(v) => Value::Int(v.cast_signed()),
        Field::I64(v) => Value::Long(*v),
        Field::U64(v) => Value::Long(v.cast_signed()),
        Field::F32(v) => Value::Float(*v),
        Field::F64(v) => Value::Double(*v),
        Field::String(v) => Value::str(v),
        Field::Bytes(v) => Value::Object(Object::Bytes(v.as_ref().into())),
        Field::EnumNumber(number) => {
            let named = match kind {
                Kind::Enum(names) => names.get_value(*number),
                _ => None,
            };
            // A number that the description does not know is kept as it is.
            named.map_or_else(|| Value::str(&number.to_string()), |v| Value::str(v.name()))
        }
        Field::List(list) => {
            let list = list.iter().map(|v| value(v, kind)).collect();
            Value::Object(Object::List(Shared::new(list)))
        }
        Field::Map(map) => {
            let kind = match kind {
                Kind::Message(entry) => entry.map_entry_value_field().kind(),
                kind => kind.clone(),
            };
            let mut entries: Vec<(&MapKey, &Field)> = map.iter().collect();
            // The wire has no order, and what comes out must always be the same.
            entries.sort_by_key(|(key, _)| *key);
            let entries = entries.into_iter().map(|(k, v)| (key(k), value(v, &kind)));
            Value::Object(Object::Map(Shared::new(entries.collect())))
        }
        Field::Message(message) => {
            let mut fields: Vec<_> = message.fields().collect();
            fields.sort_by_key(|(field, _)| field.number());
            let entries = fields
                .into_iter()
                .map(|(field, v)| (Value::str(field.name()), value(v, &field.kind())));
            Value::Object(Object::Map(Shared::new(entries.collect())))
        }
    }
}

fn key(key: &MapKey) -> Value {
    match key {
        MapKey::Bool(v) => Value::Bool(*v),
        MapKey::I32(v) => Value::Int(*v),
        MapKey::U32(v) => Value::Int(v.cast_signed()),
        MapKey::I64(v) => Value::Long(*v),
        MapKey::U64(v) => Value::Long(v.cast_signed()),
        MapKey::String(v) => Value::str(v),
    }
}

// ---- to fields ----

/// `None` where the field cannot hold the value.
pub(super) fn of(value: &Value, field: &FieldDescriptor) -> Option<Field> {
    field_value(value, field, DEPTH_MAX)
}

fn field_value(value: &Value, field: &FieldDescriptor, depth: usize) -> Option<Field> {
    let kind = field.kind();
    if field.is_map()
        && let Kind::Message(entry) = &kind
    {
        return map(value, entry, depth);
    }
    if field.is_list() {
        let Value::Object(object) = value else {
            return None;
        };
        let list: Vec<Value> = match object {
            Object::List(list) | Object::Set(list) => list.copied(),
            Object::Array(list) => list.to_vec(),
            _ => return None,
        };
        let list = list.iter().map(|v| single(v, &kind, depth));
        return list.collect::<Option<Vec<_>>>().map(Field::List);
    }
    single(value, &kind, depth)
}

fn map(value: &Value, entry: &MessageDescriptor, depth: usize) -> Option<Field> {
    let Value::Object(Object::Map(entries)) = value else {
        return None;
    };
    let (keys, values) = (
        entry.map_entry_key_field().kind(),
        entry.map_entry_value_field().kind(),
    );
    let entries = entries.copied().into_iter().map(|(key, value)| {
        let key = match single(&key, &keys, depth)? {
            Field::Bool(v) => MapKey::Bool(v),
            Field::I32(v) => MapKey::I32(v),
            Field::U32(v) => MapKey::U32(v),
            Field::I64(v) => MapKey::I64(v),
            Field::U64(v) => MapKey::U64(v),
            Field::String(v) => MapKey::String(v),
            _ => return None,
        };
        Some((key, single(&value, &values, depth)?))
    });
    entries.collect::<Option<_>>().map(Field::Map)
}

fn single(value: &Value, kind: &Kind, depth: usize) -> Option<Field> {
    Some(match (value, kind) {
        (Value::Bool(v), Kind::Bool) => Field::Bool(*v),
        (Value::Int(v), Kind::Int32 | Kind::Sint32 | Kind::Sfixed32) => Field::I32(*v),
        (Value::Int(v), Kind::Uint32 | Kind::Fixed32) => Field::U32(v.cast_unsigned()),
        (Value::Long(v), Kind::Int64 | Kind::Sint64 | Kind::Sfixed64) => Field::I64(*v),
        (Value::Long(v), Kind::Uint64 | Kind::Fixed64) => Field::U64(v.cast_unsigned()),
        (Value::Float(v), Kind::Float) => Field::F32(*v),
        (Value::Double(v), Kind::Double) => Field::F64(*v),
        (Value::Str(v), Kind::String) => Field::String(v.to_string()),
        (Value::Str(v), Kind::Enum(names)) => {
            let named = names.get_value_by_name(v).map(|v| v.number());
            Field::EnumNumber(named.or_else(|| v.parse().ok())?)
        }
        (Value::Object(Object::Bytes(v)), Kind::Bytes) => Field::Bytes(v.to_vec().into()),
        (Value::Object(Object::Map(entries)), Kind::Message(message)) => Field::Message(
            message_of(&entries.copied(), message, depth.checked_sub(1)?)?,
        ),
        _ => return None,
    })
}

fn message_of(
    entries: &[(Value, Value)],
    descriptor: &MessageDescriptor,
    depth: usize,
) -> Option<DynamicMessage> {
    let mut message = DynamicMessage::new(descriptor.clone());
    for (name, value) in entries {
        let field = message.descriptor().get_field_by_name(name.as_str()?)?;
        let value = field_value(value, &field, depth)?;
        message.set_field(&field, value);
    }
    Some(message)
}
