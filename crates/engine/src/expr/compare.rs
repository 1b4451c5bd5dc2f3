//! Comparisons: two-valued, null makes every one false but `!=`.
//!
//! Promotion differs by operator (Siddhi's `executor.condition.compare`): `==` and `!=` compare
//! LONG with FLOAT as double, the ordering operators follow Java and compare them as float.

use event::column::{StrView, View};
use event::{Column, Type, Value};
use plan::CompareOp;

use super::arithmetic::{Number, Side, nulls};
use super::{Operand, bools, row, single};
use crate::component::EvalContext;

pub(super) fn evaluate(
    op: CompareOp,
    types: [Type; 2],
    left: &Operand<'_>,
    right: &Operand<'_>,
    rows: usize,
    context: &mut EvalContext<'_>,
) -> Operand<'static> {
    let with_null = op == CompareOp::NotEqual;
    let is_null = |o: &Operand<'_>| matches!(o, Operand::Constant(Value::Null));
    if is_null(left) || is_null(right) {
        return Operand::Constant(Value::Bool(with_null));
    }
    if rows == 1
        && let (Some(a), Some(b)) = (single::of_operand(left), single::of_operand(right))
        && let Some(answer) = single::compare(op, a, b)
    {
        return Operand::Constant(Value::Bool(answer));
    }
    let (Some(a), Some(b)) = (operand_type(left), operand_type(right)) else {
        return by_rows(op, types, left, right, rows, context);
    };
    let mut result = match (a, b) {
        (Type::String, Type::String) => texts(op, left, right, rows),
        (Type::Bool, Type::Bool) => flags(op, left, right, rows),
        _ if a.is_numeric() && b.is_numeric() => match common(op, a, b) {
            Type::Int => numbers::<i32>(op, left, right),
            Type::Long => numbers::<i64>(op, left, right),
            Type::Float => numbers::<f32>(op, left, right),
            _ => numbers::<f64>(op, left, right),
        },
        _ => None,
    };
    let Some(result) = &mut result else {
        return by_rows(op, types, left, right, rows, context);
    };
    if let Some(nulls) = nulls(left, right) {
        for (result, null) in result.iter_mut().zip(nulls) {
            if null {
                *result = with_null;
            }
        }
    }
    match (left, right) {
        (Operand::Constant(_), Operand::Constant(_)) => Operand::Constant(Value::Bool(result[0])),
        _ => bools(std::mem::take(result)),
    }
}

/// The type in which two numbers are compared.
pub(super) fn common(op: CompareOp, a: Type, b: Type) -> Type {
    let either = |ty| a == ty || b == ty;
    let is_equality = matches!(op, CompareOp::Equal | CompareOp::NotEqual);
    if either(Type::Double) || is_equality && either(Type::Long) && either(Type::Float) {
        Type::Double
    } else if either(Type::Float) {
        Type::Float
    } else if either(Type::Long) {
        Type::Long
    } else {
        Type::Int
    }
}

/// The type in which `==` compares values of two types, INT as LONG; `None` where it depends on the
/// values.
pub(crate) fn comparison_type(a: Type, b: Type) -> Option<Type> {
    match (a, b) {
        (Type::String, Type::String) | (Type::Bool, Type::Bool) => Some(a),
        _ if a.is_numeric() && b.is_numeric() => Some(match common(CompareOp::Equal, a, b) {
            Type::Int => Type::Long,
            ty => ty,
        }),
        _ => None,
    }
}

/// The run-time type of the values; `None` where they differ.
fn operand_type(operand: &Operand<'_>) -> Option<Type> {
    match operand {
        Operand::Constant(value) => value.ty().filter(|t| *t != Type::Object),
        Operand::Column(column) => Some(match column.view() {
            View::Bool(_) => Type::Bool,
            View::Int(_) => Type::Int,
            View::Long(_) => Type::Long,
            View::Float(_) => Type::Float,
            View::Double(_) => Type::Double,
            View::Str(_) => Type::String,
            View::Any(_) => return None,
        }),
    }
}

fn numbers<T: Number>(op: CompareOp, left: &Operand<'_>, right: &Operand<'_>) -> Option<Vec<bool>> {
    let (a, b) = (Side::<T>::of(left)?, Side::<T>::of(right)?);
    Some(match op {
        CompareOp::Less => zip(&a, &b, |a, b| a < b),
        CompareOp::LessEqual => zip(&a, &b, |a, b| a <= b),
        CompareOp::Greater => zip(&a, &b, |a, b| a > b),
        CompareOp::GreaterEqual => zip(&a, &b, |a, b| a >= b),
        CompareOp::Equal => zip(&a, &b, |a, b| a == b),
        CompareOp::NotEqual => zip(&a, &b, |a, b| a != b),
    })
}

fn zip<T: Number>(a: &Side<'_, T>, b: &Side<'_, T>, f: impl Fn(T, T) -> bool) -> Vec<bool> {
    match (a, b) {
        (Side::Many(a), Side::Many(b)) => a.iter().zip(b.iter()).map(|(&a, &b)| f(a, b)).collect(),
        (Side::Many(a), Side::One(b)) => a.iter().map(|&a| f(a, *b)).collect(),
        (Side::One(a), Side::Many(b)) => b.iter().map(|&b| f(*a, b)).collect(),
        (Side::One(a), Side::One(b)) => vec![f(*a, *b)],
    }
}

fn texts(op: CompareOp, left: &Operand<'_>, right: &Operand<'_>, rows: usize) -> Option<Vec<bool>> {
    let equal = match op {
        CompareOp::Equal => true,
        CompareOp::NotEqual => false,
        _ => return None,
    };
    let (a_column, b_column);
    let (a, a_one) = match left {
        Operand::Column(column) => (text_view(column)?, false),
        Operand::Constant(value) => {
            a_column = Column::constant(Type::String, value, 1);
            (text_view(&a_column)?, true)
        }
    };
    let (b, b_one) = match right {
        Operand::Column(column) => (text_view(column)?, false),
        Operand::Constant(value) => {
            b_column = Column::constant(Type::String, value, 1);
            (text_view(&b_column)?, true)
        }
    };
    let rows = if a_one && b_one { 1 } else { rows };
    let at = |one: bool, row: usize| if one { 0 } else { row };
    Some(
        (0..rows)
            .map(|row| a.rows_equal(at(a_one, row), &b, at(b_one, row)) == equal)
            .collect(),
    )
}

fn text_view(column: &Column) -> Option<StrView<'_>> {
    match column.view() {
        View::Str(v) => Some(v),
        _ => None,
    }
}

fn flags(op: CompareOp, left: &Operand<'_>, right: &Operand<'_>, rows: usize) -> Option<Vec<bool>> {
    let equal = match op {
        CompareOp::Equal => true,
        CompareOp::NotEqual => false,
        _ => return None,
    };
    let (a, b) = (left.mask(rows), right.mask(rows));
    if rows == 0 {
        // Two constants over no rows still need their one answer.
        return Some(vec![(left.mask(1) == right.mask(1)) == equal]);
    }
    Some(a.iter().zip(b).map(|(&a, b)| (a == b) == equal).collect())
}

fn by_rows(
    op: CompareOp,
    types: [Type; 2],
    left: &Operand<'_>,
    right: &Operand<'_>,
    rows: usize,
    context: &mut EvalContext<'_>,
) -> Operand<'static> {
    let answers =
        (0..rows).map(
            |at| match compare_values(op, types, &left.value(at), &right.value(at)) {
                Ok(answer) => answer,
                Err(message) => {
                    context.fail(at, message);
                    false
                }
            },
        );
    bools(answers.collect())
}

/// Compares two values as the executor chosen for the declared types does.
pub(super) fn compare_values(
    op: CompareOp,
    types: [Type; 2],
    a: &Value,
    b: &Value,
) -> Result<bool, String> {
    if a.is_null() || b.is_null() {
        return Ok(op == CompareOp::NotEqual);
    }
    let is_equality = matches!(op, CompareOp::Equal | CompareOp::NotEqual);
    if types.iter().all(|t| t.is_numeric()) {
        for (value, ty) in [(a, types[0]), (b, types[1])] {
            let is_number = value.ty().is_some_and(Type::is_numeric);
            // `==` asks for a Number, the ordering operators cast to the declared class.
            if !is_number || !is_equality && value.ty() != Some(ty) {
                let class = if is_equality {
                    "java.lang.Number"
                } else {
                    row::class_of(ty)
                };
                return Err(row::cannot_cast(value, class));
            }
        }
        return Ok(match common(op, types[0], types[1]) {
            Type::Int => ordered::<i32>(op, a, b),
            Type::Long => ordered::<i64>(op, a, b),
            Type::Float => ordered::<f32>(op, a, b),
            _ => ordered::<f64>(op, a, b),
        });
    }
    if !is_equality {
        return Err(row::cannot_cast(a, "java.lang.Number"));
    }
    Ok((a == b) == (op == CompareOp::Equal))
}

fn ordered<T: Number>(op: CompareOp, a: &Value, b: &Value) -> bool {
    let (Some(a), Some(b)) = (T::of_value(a), T::of_value(b)) else {
        return false;
    };
    holds(op, a, b)
}

/// Java's comparison of two numbers of one type.
pub(super) fn holds<T: Number>(op: CompareOp, a: T, b: T) -> bool {
    match op {
        CompareOp::Less => a < b,
        CompareOp::LessEqual => a <= b,
        CompareOp::Greater => a > b,
        CompareOp::GreaterEqual => a >= b,
        CompareOp::Equal => a == b,
        CompareOp::NotEqual => a != b,
    }
}
