//! `+ - * / %` in the type that the checker chose: Java's wrap-around, null from null and from a
//! zero divisor of any type (Siddhi's `DivideExpressionExecutor*`, `ModExpressionExecutor*`).

use std::borrow::Cow;

use event::column::View;
use event::{Column, ColumnBuilder, Type, Value, Values};
use plan::ArithmeticOp;

use super::{Operand, row, single};
use crate::component::EvalContext;

/// A Java primitive number.
pub(super) trait Number: Copy + PartialOrd {
    const ZERO: Self;
    fn of_int(v: i32) -> Self;
    fn of_long(v: i64) -> Self;
    fn of_float(v: f32) -> Self;
    fn of_double(v: f64) -> Self;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn over(self, other: Self) -> Self;
    fn modulo(self, other: Self) -> Self;
    fn value(self) -> Value;
    fn values(all: Vec<Self>) -> Values;
    fn slice<'a>(view: View<'a>) -> Option<&'a [Self]>;

    /// Java's `Number.xxxValue()`; `None` for what is not a number.
    fn of_value(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Int(v) => Self::of_int(*v),
            Value::Long(v) => Self::of_long(*v),
            Value::Float(v) => Self::of_float(*v),
            Value::Double(v) => Self::of_double(*v),
            _ => return None,
        })
    }
}

macro_rules! number {
    ($ty:ty, $kind:ident, $plus:expr, $minus:expr, $times:expr, $over:expr, $modulo:expr) => {
        impl Number for $ty {
            const ZERO: $ty = 0 as $ty;
            #[inline]
            fn of_int(v: i32) -> $ty {
                v as $ty
            }
            #[inline]
            fn of_long(v: i64) -> $ty {
                v as $ty
            }
            #[inline]
            fn of_float(v: f32) -> $ty {
                v as $ty
            }
            #[inline]
            fn of_double(v: f64) -> $ty {
                v as $ty
            }
            #[inline]
            fn plus(self, other: $ty) -> $ty {
                $plus(self, other)
            }
            #[inline]
            fn minus(self, other: $ty) -> $ty {
                $minus(self, other)
            }
            #[inline]
            fn times(self, other: $ty) -> $ty {
                $times(self, other)
            }
            #[inline]
            fn over(self, other: $ty) -> $ty {
                $over(self, other)
            }
            #[inline]
            fn modulo(self, other: $ty) -> $ty {
                $modulo(self, other)
            }
            fn value(self) -> Value {
                Value::$kind(self)
            }
            fn values(all: Vec<$ty>) -> Values {
                Values::$kind(all)
            }
            fn slice<'a>(view: View<'a>) -> Option<&'a [$ty]> {
                match view {
                    View::$kind(v) => Some(v),
                    _ => None,
                }
            }
        }
    };
}

number!(
    i32,
    Int,
    i32::wrapping_add,
    i32::wrapping_sub,
    i32::wrapping_mul,
    i32::wrapping_div,
    i32::wrapping_rem
);
number!(
    i64,
    Long,
    i64::wrapping_add,
    i64::wrapping_sub,
    i64::wrapping_mul,
    i64::wrapping_div,
    i64::wrapping_rem
);
number!(
    f32,
    Float,
    std::ops::Add::add,
    std::ops::Sub::sub,
    std::ops::Mul::mul,
    std::ops::Div::div,
    std::ops::Rem::rem
);
number!(
    f64,
    Double,
    std::ops::Add::add,
    std::ops::Sub::sub,
    std::ops::Mul::mul,
    std::ops::Div::div,
    std::ops::Rem::rem
);

/// One side of an operation, all in one type.
pub(super) enum Side<'a, T: Clone> {
    Many(Cow<'a, [T]>),
    One(T),
}

impl<'a, T: Number> Side<'a, T> {
    /// `None` for null and for values that are not of one numeric type.
    pub fn of(operand: &'a Operand<'_>) -> Option<Side<'a, T>> {
        match operand {
            Operand::Constant(value) => T::of_value(value).map(Side::One),
            Operand::Column(column) => {
                let view = column.view();
                if let Some(slice) = T::slice(view) {
                    return Some(Side::Many(Cow::Borrowed(slice)));
                }
                Some(Side::Many(Cow::Owned(match view {
                    View::Int(v) => v.iter().map(|&x| T::of_int(x)).collect(),
                    View::Long(v) => v.iter().map(|&x| T::of_long(x)).collect(),
                    View::Float(v) => v.iter().map(|&x| T::of_float(x)).collect(),
                    View::Double(v) => v.iter().map(|&x| T::of_double(x)).collect(),
                    View::Bool(_) | View::Str(_) | View::Any(_) => return None,
                })))
            }
        }
    }

    #[inline]
    fn get(&self, row: usize) -> T {
        match self {
            Side::Many(v) => v[row],
            Side::One(v) => *v,
        }
    }
}

/// Rows that are null on either side.
pub(super) fn nulls(left: &Operand<'_>, right: &Operand<'_>) -> Option<Vec<bool>> {
    let of = |operand: &Operand<'_>| match operand {
        Operand::Column(column) => column.nulls().map(<[bool]>::to_vec),
        Operand::Constant(_) => None,
    };
    match (of(left), of(right)) {
        (Some(mut a), Some(b)) => {
            a.iter_mut().zip(b).for_each(|(a, b)| *a |= b);
            Some(a)
        }
        (a, b) => a.or(b),
    }
}

pub(super) fn evaluate(
    op: ArithmeticOp,
    ty: Type,
    left: &Operand<'_>,
    right: &Operand<'_>,
    rows: usize,
    context: &mut EvalContext<'_>,
) -> Operand<'static> {
    let is_null = |o: &Operand<'_>| matches!(o, Operand::Constant(Value::Null));
    if is_null(left) || is_null(right) {
        return Operand::Constant(Value::Null);
    }
    if rows == 1
        && let (Some(a), Some(b)) = (single::of_operand(left), single::of_operand(right))
        && let Some(value) = single::arithmetic(op, ty, a, b)
    {
        return Operand::Constant(value.value());
    }
    match ty {
        Type::Int => typed::<i32>(op, ty, left, right, rows, context),
        Type::Long => typed::<i64>(op, ty, left, right, rows, context),
        Type::Float => typed::<f32>(op, ty, left, right, rows, context),
        _ => typed::<f64>(op, ty, left, right, rows, context),
    }
}

fn typed<T: Number>(
    op: ArithmeticOp,
    ty: Type,
    left: &Operand<'_>,
    right: &Operand<'_>,
    rows: usize,
    context: &mut EvalContext<'_>,
) -> Operand<'static> {
    let (Some(a), Some(b)) = (Side::<T>::of(left), Side::<T>::of(right)) else {
        return by_rows::<T>(op, ty, left, right, rows, context);
    };
    if let (Side::One(a), Side::One(b)) = (&a, &b) {
        return Operand::Constant(one(op, *a, *b).map_or(Value::Null, T::value));
    }
    let mut nulls = nulls(left, right);
    let values = match op {
        ArithmeticOp::Add => zip(a, b, T::plus),
        ArithmeticOp::Subtract => zip(a, b, T::minus),
        ArithmeticOp::Multiply => zip(a, b, T::times),
        ArithmeticOp::Divide => divide(a, b, rows, &mut nulls, T::over),
        ArithmeticOp::Modulo => divide(a, b, rows, &mut nulls, T::modulo),
    };
    Operand::from(Column::new(T::values(values), nulls))
}

/// A side that had to be converted becomes the result.
fn zip<T: Number>(a: Side<'_, T>, b: Side<'_, T>, f: impl Fn(T, T) -> T) -> Vec<T> {
    match (a, b) {
        (Side::Many(Cow::Owned(mut a)), Side::Many(b)) => {
            a.iter_mut().zip(b.iter()).for_each(|(a, &b)| *a = f(*a, b));
            a
        }
        (Side::Many(a), Side::Many(Cow::Owned(mut b))) => {
            b.iter_mut().zip(a.iter()).for_each(|(b, &a)| *b = f(a, *b));
            b
        }
        (Side::Many(a), Side::Many(b)) => a.iter().zip(b.iter()).map(|(&a, &b)| f(a, b)).collect(),
        (Side::Many(a), Side::One(b)) => a.iter().map(|&a| f(a, b)).collect(),
        (Side::One(a), Side::Many(b)) => b.iter().map(|&b| f(a, b)).collect(),
        (Side::One(a), Side::One(b)) => vec![f(a, b)],
    }
}

/// Marks rows with a zero divisor null; their value is not looked at.
fn divide<T: Number>(
    a: Side<'_, T>,
    b: Side<'_, T>,
    rows: usize,
    nulls: &mut Option<Vec<bool>>,
    f: impl Fn(T, T) -> T,
) -> Vec<T> {
    match b {
        Side::One(b) if b != T::ZERO => zip(a, Side::One(b), f),
        _ => (0..rows)
            .map(|row| {
                let divisor = b.get(row);
                if divisor == T::ZERO {
                    nulls.get_or_insert_with(|| vec![false; rows])[row] = true;
                    return T::ZERO;
                }
                f(a.get(row), divisor)
            })
            .collect(),
    }
}

pub(super) fn one<T: Number>(op: ArithmeticOp, a: T, b: T) -> Option<T> {
    match op {
        ArithmeticOp::Add => Some(a.plus(b)),
        ArithmeticOp::Subtract => Some(a.minus(b)),
        ArithmeticOp::Multiply => Some(a.times(b)),
        ArithmeticOp::Divide => (b != T::ZERO).then(|| a.over(b)),
        ArithmeticOp::Modulo => (b != T::ZERO).then(|| a.modulo(b)),
    }
}

fn by_rows<T: Number>(
    op: ArithmeticOp,
    ty: Type,
    left: &Operand<'_>,
    right: &Operand<'_>,
    rows: usize,
    context: &mut EvalContext<'_>,
) -> Operand<'static> {
    let mut builder = ColumnBuilder::with_capacity(ty, rows);
    for at in 0..rows {
        let (a, b) = (left.value(at), right.value(at));
        if a.is_null() || b.is_null() {
            builder.push_null();
            continue;
        }
        let result = match (T::of_value(&a), T::of_value(&b)) {
            (Some(a), Some(b)) => one(op, a, b),
            (None, _) => {
                context.fail(at, row::cannot_cast(&a, "java.lang.Number"));
                None
            }
            (_, None) => {
                context.fail(at, row::cannot_cast(&b, "java.lang.Number"));
                None
            }
        };
        match result {
            Some(v) => builder.push(&v.value()),
            None => builder.push_null(),
        }
    }
    Operand::from(builder.finish())
}
