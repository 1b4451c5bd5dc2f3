//! One row: an event that comes alone needs no columns on the way to its answer.
//!
//! The same meaning as the way of many rows, for trees of columns, constants and operators. Whatever
//! is not so simple (a call, an OBJECT, a value of another type than declared, a row that fails) has
//! no answer here and takes the other way; nothing has been done then that it would do twice.

// Twin: expr/mod.rs (the same expressions over columns); keep both in step.

use event::{ScalarRef, Type};
use plan::{ArithmeticOp, CompareOp};

use super::arithmetic::{self, Number};
use super::{Inputs, Node, Operand, Part, Slot, compare};

/// All that an operand has.
pub(super) fn of_operand<'a>(operand: &'a Operand<'_>) -> Option<ScalarRef<'a>> {
    match operand {
        Operand::Column(column) => column.single(),
        Operand::Constant(value) => ScalarRef::of_value(value),
    }
}

#[inline]
fn of_slot<'a>(slot: Slot, inputs: &Inputs<'a>) -> Option<ScalarRef<'a>> {
    match inputs.parts[usize::from(slot.part)] {
        Part::Columns(columns) => columns[usize::from(slot.index)].single(),
        Part::Values(values) => ScalarRef::of_value(&values[usize::from(slot.index)]),
    }
}

/// The type of a number.
fn number_type(value: ScalarRef<'_>) -> Option<Type> {
    Some(match value {
        ScalarRef::Int(_) => Type::Int,
        ScalarRef::Long(_) => Type::Long,
        ScalarRef::Float(_) => Type::Float,
        ScalarRef::Double(_) => Type::Double,
        ScalarRef::Null | ScalarRef::Bool(_) | ScalarRef::Text(_) => return None,
    })
}

#[inline]
fn number<T: Number>(value: ScalarRef<'_>) -> Option<T> {
    Some(match value {
        ScalarRef::Int(v) => T::of_int(v),
        ScalarRef::Long(v) => T::of_long(v),
        ScalarRef::Float(v) => T::of_float(v),
        ScalarRef::Double(v) => T::of_double(v),
        ScalarRef::Null | ScalarRef::Bool(_) | ScalarRef::Text(_) => return None,
    })
}

/// As a condition; `None` for a value that fails its row.
pub(super) fn is_true(value: ScalarRef<'_>) -> Option<bool> {
    match value {
        ScalarRef::Bool(v) => Some(v),
        ScalarRef::Null => Some(false),
        _ => None,
    }
}

/// Is the tree of a kind that can have an answer?
pub(super) fn is_simple(node: &Node) -> bool {
    !matches!(node, Node::Call { .. }) && node.children().into_iter().all(is_simple)
}

/// The value of the one row there is.
pub(super) fn evaluate<'a>(node: &'a Node, inputs: &Inputs<'a>) -> Option<ScalarRef<'a>> {
    match node {
        Node::Constant(value) => ScalarRef::of_value(value),
        Node::Input { slot, .. } => of_slot(*slot, inputs),
        Node::Arithmetic { op, ty, sides, .. } => Some(match ty {
            Type::Int => operate(*op, sides, inputs)?.map_or(ScalarRef::Null, ScalarRef::Int),
            Type::Long => operate(*op, sides, inputs)?.map_or(ScalarRef::Null, ScalarRef::Long),
            Type::Float => operate(*op, sides, inputs)?.map_or(ScalarRef::Null, ScalarRef::Float),
            _ => operate(*op, sides, inputs)?.map_or(ScalarRef::Null, ScalarRef::Double),
        }),
        Node::Compare { op, sides, .. } => {
            let (a, b) = (evaluate(&sides[0], inputs)?, evaluate(&sides[1], inputs)?);
            compare(*op, a, b).map(ScalarRef::Bool)
        }
        Node::Logical { stops_at, sides } => {
            if is_true(evaluate(&sides[0], inputs)?)? == *stops_at {
                return Some(ScalarRef::Bool(*stops_at));
            }
            is_true(evaluate(&sides[1], inputs)?).map(ScalarRef::Bool)
        }
        Node::Not(inner) => is_true(evaluate(inner, inputs)?).map(|v| ScalarRef::Bool(!v)),
        Node::IsNull(inner) => {
            let value = evaluate(inner, inputs)?;
            Some(ScalarRef::Bool(matches!(value, ScalarRef::Null)))
        }
        Node::IsAbsent(slot) => {
            let is_there = is_true(of_slot(*slot, inputs)?)?;
            Some(ScalarRef::Bool(!is_there))
        }
        Node::If { parts, .. } => {
            let chosen = match is_true(evaluate(&parts[0], inputs)?)? {
                true => &parts[1],
                false => &parts[2],
            };
            evaluate(chosen, inputs)
        }
        Node::Call { .. } | Node::Ready(_) => None,
    }
}

/// The inner option is none for null.
fn operate<T: Number>(
    op: ArithmeticOp,
    sides: &[Node; 2],
    inputs: &Inputs<'_>,
) -> Option<Option<T>> {
    let (a, b) = (
        operand::<T>(&sides[0], inputs)?,
        operand::<T>(&sides[1], inputs)?,
    );
    Some(match (a, b) {
        (Some(a), Some(b)) => arithmetic::one(op, a, b),
        _ => None,
    })
}

#[inline]
fn operand<T: Number>(node: &Node, inputs: &Inputs<'_>) -> Option<Option<T>> {
    let value = match node {
        Node::Input { slot, .. } => of_slot(*slot, inputs)?,
        node => evaluate(node, inputs)?,
    };
    match value {
        ScalarRef::Null => Some(None),
        value => number(value).map(Some),
    }
}

pub(super) fn arithmetic<'a>(
    op: ArithmeticOp,
    ty: Type,
    a: ScalarRef<'a>,
    b: ScalarRef<'a>,
) -> Option<ScalarRef<'a>> {
    fn typed<T: Number>(op: ArithmeticOp, a: ScalarRef<'_>, b: ScalarRef<'_>) -> Option<Option<T>> {
        Some(arithmetic::one(op, number::<T>(a)?, number::<T>(b)?))
    }
    if matches!((a, b), (ScalarRef::Null, _) | (_, ScalarRef::Null)) {
        return Some(ScalarRef::Null);
    }
    Some(match ty {
        Type::Int => typed(op, a, b)?.map_or(ScalarRef::Null, ScalarRef::Int),
        Type::Long => typed(op, a, b)?.map_or(ScalarRef::Null, ScalarRef::Long),
        Type::Float => typed(op, a, b)?.map_or(ScalarRef::Null, ScalarRef::Float),
        _ => typed(op, a, b)?.map_or(ScalarRef::Null, ScalarRef::Double),
    })
}

pub(super) fn compare(op: CompareOp, a: ScalarRef<'_>, b: ScalarRef<'_>) -> Option<bool> {
    if matches!((a, b), (ScalarRef::Null, _) | (_, ScalarRef::Null)) {
        return Some(op == CompareOp::NotEqual);
    }
    if let (Some(a_type), Some(b_type)) = (number_type(a), number_type(b)) {
        return match compare::common(op, a_type, b_type) {
            Type::Int => ordered::<i32>(op, a, b),
            Type::Long => ordered::<i64>(op, a, b),
            Type::Float => ordered::<f32>(op, a, b),
            _ => ordered::<f64>(op, a, b),
        };
    }
    let is_equal = match (a, b) {
        (ScalarRef::Text(a), ScalarRef::Text(b)) => a == b,
        (ScalarRef::Bool(a), ScalarRef::Bool(b)) => a == b,
        _ => return None,
    };
    match op {
        CompareOp::Equal => Some(is_equal),
        CompareOp::NotEqual => Some(!is_equal),
        _ => None,
    }
}

fn ordered<T: Number>(op: CompareOp, a: ScalarRef<'_>, b: ScalarRef<'_>) -> Option<bool> {
    Some(compare::holds(op, number::<T>(a)?, number::<T>(b)?))
}
