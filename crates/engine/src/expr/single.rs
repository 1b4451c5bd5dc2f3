//! One row: an event that comes alone needs no columns on the way to its answer.
//!
//! The same meaning as the way of many rows, for trees of columns, constants and operators. Whatever
//! is not so simple (a call, an OBJECT, a value of another type than declared, a row that fails) has
//! no answer here and takes the other way; nothing has been done then that it would do twice.

use event::column::View;
use event::{Column, Type, Value};
use lang::plan::{ArithmeticOp, CompareOp};

use super::arithmetic::{self, Number};
use super::{Inputs, Node, Operand, Part, Slot, compare};

/// A value that lies where it was found.
#[derive(Clone, Copy, Debug)]
pub(super) enum Single<'a> {
    Null,
    Bool(bool),
    Int(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    Text(&'a str),
}

impl<'a> Single<'a> {
    fn of_column(column: &'a Column) -> Option<Single<'a>> {
        if column.len() != 1 {
            return None;
        }
        let value = match column.view() {
            View::Bool(v) => Single::Bool(v[0]),
            View::Int(v) => Single::Int(v[0]),
            View::Long(v) => Single::Long(v[0]),
            View::Float(v) => Single::Float(v[0]),
            View::Double(v) => Single::Double(v[0]),
            View::Str(v) => Single::Text(v.get(0)),
            View::Any(_) => return None,
        };
        Some(if column.is_null(0) {
            Single::Null
        } else {
            value
        })
    }

    fn of_value(value: &'a Value) -> Option<Single<'a>> {
        Some(match value {
            Value::Null => Single::Null,
            Value::Bool(v) => Single::Bool(*v),
            Value::Int(v) => Single::Int(*v),
            Value::Long(v) => Single::Long(*v),
            Value::Float(v) => Single::Float(*v),
            Value::Double(v) => Single::Double(*v),
            Value::Str(v) => Single::Text(v),
            Value::Object(_) => return None,
        })
    }

    /// All that an operand has.
    pub fn of_operand(operand: &'a Operand) -> Option<Single<'a>> {
        match operand {
            Operand::Column(column) => Single::of_column(column),
            Operand::Constant(value) => Single::of_value(value),
        }
    }

    fn of_slot(slot: Slot, inputs: &Inputs<'a>) -> Option<Single<'a>> {
        match inputs.parts[usize::from(slot.part)] {
            Part::Columns(columns) => Single::of_column(&columns[usize::from(slot.index)]),
            Part::Values(values) => Single::of_value(&values[usize::from(slot.index)]),
        }
    }

    /// The type of a number.
    fn number_type(self) -> Option<Type> {
        Some(match self {
            Single::Int(_) => Type::Int,
            Single::Long(_) => Type::Long,
            Single::Float(_) => Type::Float,
            Single::Double(_) => Type::Double,
            Single::Null | Single::Bool(_) | Single::Text(_) => return None,
        })
    }

    fn number<T: Number>(self) -> Option<T> {
        Some(match self {
            Single::Int(v) => T::of_int(v),
            Single::Long(v) => T::of_long(v),
            Single::Float(v) => T::of_float(v),
            Single::Double(v) => T::of_double(v),
            Single::Null | Single::Bool(_) | Single::Text(_) => return None,
        })
    }

    /// As a condition; `None` for a value that fails its row.
    pub fn is_true(self) -> Option<bool> {
        match self {
            Single::Bool(v) => Some(v),
            Single::Null => Some(false),
            _ => None,
        }
    }

    pub fn value(self) -> Value {
        match self {
            Single::Null => Value::Null,
            Single::Bool(v) => Value::Bool(v),
            Single::Int(v) => Value::Int(v),
            Single::Long(v) => Value::Long(v),
            Single::Float(v) => Value::Float(v),
            Single::Double(v) => Value::Double(v),
            Single::Text(v) => Value::str(v),
        }
    }

    /// A column of it; `None` for a text, whose column is there already.
    pub fn column(self, ty: Type) -> Option<Column> {
        let is_text = matches!(self, Single::Text(_));
        (!is_text).then(|| Column::constant(ty, &self.value(), 1))
    }
}

/// Is the tree of a kind that can have an answer?
pub(super) fn is_simple(node: &Node) -> bool {
    !matches!(node, Node::Call { .. }) && node.children().into_iter().all(is_simple)
}

/// The value of the one row there is.
pub(super) fn evaluate<'a>(node: &'a Node, inputs: &Inputs<'a>) -> Option<Single<'a>> {
    match node {
        Node::Constant(value) => Single::of_value(value),
        Node::Input { slot, .. } => Single::of_slot(*slot, inputs),
        Node::Arithmetic { op, ty, sides, .. } => {
            let (a, b) = (evaluate(&sides[0], inputs)?, evaluate(&sides[1], inputs)?);
            arithmetic(*op, *ty, a, b)
        }
        Node::Compare { op, sides, .. } => {
            let (a, b) = (evaluate(&sides[0], inputs)?, evaluate(&sides[1], inputs)?);
            compare(*op, a, b).map(Single::Bool)
        }
        Node::Logical { stops_at, sides } => {
            if evaluate(&sides[0], inputs)?.is_true()? == *stops_at {
                return Some(Single::Bool(*stops_at));
            }
            evaluate(&sides[1], inputs)?.is_true().map(Single::Bool)
        }
        Node::Not(inner) => evaluate(inner, inputs)?.is_true().map(|v| Single::Bool(!v)),
        Node::IsNull(inner) => {
            let value = evaluate(inner, inputs)?;
            Some(Single::Bool(matches!(value, Single::Null)))
        }
        Node::IsAbsent(slot) => {
            let is_there = Single::of_slot(*slot, inputs)?.is_true()?;
            Some(Single::Bool(!is_there))
        }
        Node::If { parts, .. } => {
            let chosen = match evaluate(&parts[0], inputs)?.is_true()? {
                true => &parts[1],
                false => &parts[2],
            };
            evaluate(chosen, inputs)
        }
        Node::Call { .. } => None,
    }
}

pub(super) fn arithmetic<'a>(
    op: ArithmeticOp,
    ty: Type,
    a: Single<'a>,
    b: Single<'a>,
) -> Option<Single<'a>> {
    fn typed<T: Number>(op: ArithmeticOp, a: Single<'_>, b: Single<'_>) -> Option<Option<T>> {
        Some(arithmetic::one(op, a.number::<T>()?, b.number::<T>()?))
    }
    if matches!((a, b), (Single::Null, _) | (_, Single::Null)) {
        return Some(Single::Null);
    }
    Some(match ty {
        Type::Int => typed(op, a, b)?.map_or(Single::Null, Single::Int),
        Type::Long => typed(op, a, b)?.map_or(Single::Null, Single::Long),
        Type::Float => typed(op, a, b)?.map_or(Single::Null, Single::Float),
        _ => typed(op, a, b)?.map_or(Single::Null, Single::Double),
    })
}

pub(super) fn compare(op: CompareOp, a: Single<'_>, b: Single<'_>) -> Option<bool> {
    if matches!((a, b), (Single::Null, _) | (_, Single::Null)) {
        return Some(op == CompareOp::NotEqual);
    }
    if let (Some(a_type), Some(b_type)) = (a.number_type(), b.number_type()) {
        return match compare::common(op, a_type, b_type) {
            Type::Int => ordered::<i32>(op, a, b),
            Type::Long => ordered::<i64>(op, a, b),
            Type::Float => ordered::<f32>(op, a, b),
            _ => ordered::<f64>(op, a, b),
        };
    }
    let is_equal = match (a, b) {
        (Single::Text(a), Single::Text(b)) => a == b,
        (Single::Bool(a), Single::Bool(b)) => a == b,
        _ => return None,
    };
    match op {
        CompareOp::Equal => Some(is_equal),
        CompareOp::NotEqual => Some(!is_equal),
        _ => None,
    }
}

fn ordered<T: Number>(op: CompareOp, a: Single<'_>, b: Single<'_>) -> Option<bool> {
    Some(compare::holds(op, a.number::<T>()?, b.number::<T>()?))
}
