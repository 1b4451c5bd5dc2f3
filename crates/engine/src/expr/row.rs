//! The row path: values of any class, cast as Siddhi's executors cast them.

use event::column::View;
use event::{Type, Value};

use super::Operand;
use crate::component::EvalContext;

/// Java's name of the class of a value.
pub(crate) fn class_name(value: &Value) -> &'static str {
    use event::Object;
    match value {
        Value::Null => "null",
        Value::Bool(_) => "java.lang.Boolean",
        Value::Int(_) => "java.lang.Integer",
        Value::Long(_) => "java.lang.Long",
        Value::Float(_) => "java.lang.Float",
        Value::Double(_) => "java.lang.Double",
        Value::Str(_) => "java.lang.String",
        Value::Object(Object::List(_)) => "java.util.ArrayList",
        Value::Object(Object::Map(_)) => "java.util.HashMap",
        Value::Object(Object::Set(_)) => "java.util.HashSet",
        Value::Object(Object::Array(_)) => "java.lang.Object[]",
        Value::Object(Object::Bytes(_)) => "byte[]",
        Value::Object(Object::Error(_)) => "java.lang.Exception",
    }
}

/// Java's name of the class that holds values of a type.
pub(crate) fn class_of(ty: Type) -> &'static str {
    match ty {
        Type::String => "java.lang.String",
        Type::Int => "java.lang.Integer",
        Type::Long => "java.lang.Long",
        Type::Float => "java.lang.Float",
        Type::Double => "java.lang.Double",
        Type::Bool => "java.lang.Boolean",
        Type::Object => "java.lang.Object",
    }
}

/// The message of Java's ClassCastException, which apps see in `_error`.
pub(crate) fn cannot_cast(value: &Value, class: &str) -> String {
    let from = class_name(value);
    format!(
        "class {from} cannot be cast to class {class} \
         ({from} and {class} are in module java.base of loader 'bootstrap')"
    )
}

/// Fails each row whose value is neither a BOOL nor null.
pub(super) fn expect_bools(operand: &Operand<'_>, rows: usize, context: &mut EvalContext<'_>) {
    if is_bool(operand) {
        return;
    }
    for row in 0..rows {
        expect_bool(&operand.value(row), row, context);
    }
}

/// The same for values of some rows of those being evaluated.
pub(super) fn expect_bools_at(operand: &Operand<'_>, rows: &[u32], context: &mut EvalContext<'_>) {
    if is_bool(operand) {
        return;
    }
    for (at, &row) in rows.iter().enumerate() {
        expect_bool(&operand.value(at), row as usize, context);
    }
}

fn is_bool(operand: &Operand<'_>) -> bool {
    match operand {
        Operand::Column(column) => matches!(column.view(), View::Bool(_)),
        Operand::Constant(value) => matches!(value, Value::Bool(_) | Value::Null),
    }
}

fn expect_bool(value: &Value, row: usize, context: &mut EvalContext<'_>) {
    if !matches!(value, Value::Bool(_) | Value::Null) {
        context.fail(row, cannot_cast(value, "java.lang.Boolean"));
    }
}
