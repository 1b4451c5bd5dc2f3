//! Operators over every pair of types and every shape of operand, against Java's rules.

use event::{Column, ColumnBuilder, Times, Type, Value};
use plan::{ArithmeticOp, CompareOp};

use super::{Operand, arithmetic, compare};
use crate::component::{AppEnvironment, EvalContext, Failure};

const NUMBERS: [Type; 4] = [Type::Int, Type::Long, Type::Float, Type::Double];
const ARITHMETIC: [ArithmeticOp; 5] = [
    ArithmeticOp::Add,
    ArithmeticOp::Subtract,
    ArithmeticOp::Multiply,
    ArithmeticOp::Divide,
    ArithmeticOp::Modulo,
];
const COMPARE: [CompareOp; 6] = [
    CompareOp::Less,
    CompareOp::LessEqual,
    CompareOp::Greater,
    CompareOp::GreaterEqual,
    CompareOp::Equal,
    CompareOp::NotEqual,
];

/// Values of a type that tell the rules apart: null, zero, signs, extremes, what rounds.
fn values(ty: Type) -> Vec<Value> {
    let mut values = vec![Value::Null];
    match ty {
        Type::Int => values.extend([0, 1, -7, 3, i32::MAX, i32::MIN].map(Value::Int)),
        Type::Long => values
            .extend([0, 1, -7, 16_777_217, (1 << 53) + 1, i64::MAX, i64::MIN].map(Value::Long)),
        Type::Float => {
            values.extend([0.0, -0.0, 1.0, 2.5, 16_777_216.0, f32::MAX, f32::NAN].map(Value::Float))
        }
        _ => values.extend([0.0, 1.0, -2.5, 9.007_199_254_740_992e15, f64::NAN].map(Value::Double)),
    }
    values
}

/// All pairs of two lists of values, as two columns of equal length.
fn pairs(a: &[Value], b: &[Value]) -> (Vec<Value>, Vec<Value>) {
    let all = a
        .iter()
        .flat_map(|x| b.iter().map(move |y| (x.clone(), y.clone())));
    all.unzip()
}

fn column(ty: Type, values: &[Value]) -> Operand<'static> {
    let mut builder = ColumnBuilder::new(ty);
    values.iter().for_each(|v| builder.push(v));
    Operand::from(builder.finish())
}

fn with_context<T>(run: impl FnOnce(&mut EvalContext<'_>) -> T) -> (T, Vec<Failure>) {
    let (environment, mut seed, mut failures) = (AppEnvironment::default(), 0, Vec::new());
    let times = Times::Same(0);
    let mut context = EvalContext::new(0, 0, &times, &environment, &mut seed, &mut failures);
    let result = run(&mut context);
    (result, failures)
}

/// Evaluates in every shape (columns of the type, columns of mixed values, single values) and
/// compares each row with the expectation.
fn check(
    types: [Type; 2],
    left: &[Value],
    right: &[Value],
    what: &str,
    evaluate: impl Fn(&Operand<'_>, &Operand<'_>, usize, &mut EvalContext<'_>) -> Operand<'static>,
    expect: impl Fn(&Value, &Value) -> Value,
) {
    let rows = left.len();
    let (typed, failures) = with_context(|context| {
        let (a, b) = (column(types[0], left), column(types[1], right));
        evaluate(&a, &b, rows, context)
    });
    assert_eq!(failures, []);
    let (mixed, failures) = with_context(|context| {
        let (a, b) = (column(Type::Object, left), column(Type::Object, right));
        evaluate(&a, &b, rows, context)
    });
    assert_eq!(failures, []);
    for row in 0..rows {
        let want = expect(&left[row], &right[row]);
        let at = format!("{:?} {what} {:?}", left[row], right[row]);
        assert_eq!(typed.value(row), want, "{at} in columns");
        assert_eq!(mixed.value(row), want, "{at} in mixed columns");
        let one = |value: &Value, ty| {
            (
                Operand::Constant(value.clone()),
                column(ty, std::slice::from_ref(value)),
            )
        };
        let (a, a_column) = one(&left[row], types[0]);
        let (b, b_column) = one(&right[row], types[1]);
        for (a, b) in [(&a, &b), (&a, &b_column), (&a_column, &b)] {
            let (got, _) = with_context(|context| evaluate(a, b, 1, context));
            assert_eq!(got.value(0), want, "{at} with single values");
        }
    }
}

fn promoted(a: Type, b: Type) -> Type {
    let order = [Type::Double, Type::Float, Type::Long, Type::Int];
    order
        .into_iter()
        .find(|t| *t == a || *t == b)
        .expect("both are numbers")
}

/// Java, one value at a time: widen both sides, then compute.
fn java_arithmetic(op: ArithmeticOp, ty: Type, a: &Value, b: &Value) -> Value {
    let (Some(al), Some(bl)) = (a.to_long(), b.to_long()) else {
        return Value::Null;
    };
    let (Some(ad), Some(bd)) = (a.to_double(), b.to_double()) else {
        return Value::Null;
    };
    let is_division = matches!(op, ArithmeticOp::Divide | ArithmeticOp::Modulo);
    let integral = |a: i64, b: i64| -> Option<i64> {
        Some(match op {
            ArithmeticOp::Add => a.wrapping_add(b),
            ArithmeticOp::Subtract => a.wrapping_sub(b),
            ArithmeticOp::Multiply => a.wrapping_mul(b),
            ArithmeticOp::Divide => (b != 0).then(|| a.wrapping_div(b))?,
            ArithmeticOp::Modulo => (b != 0).then(|| a.wrapping_rem(b))?,
        })
    };
    match ty {
        Type::Int => integral(al, bl).map_or(Value::Null, |v| Value::Int(v as i32)),
        Type::Long => integral(al, bl).map_or(Value::Null, Value::Long),
        Type::Float => {
            let narrow = |v: &Value| match v {
                Value::Int(v) => *v as f32,
                Value::Long(v) => *v as f32,
                Value::Float(v) => *v,
                _ => unreachable!("a DOUBLE makes the operation a DOUBLE one"),
            };
            let (a, b) = (narrow(a), narrow(b));
            if is_division && b == 0.0 {
                return Value::Null;
            }
            Value::Float(match op {
                ArithmeticOp::Add => a + b,
                ArithmeticOp::Subtract => a - b,
                ArithmeticOp::Multiply => a * b,
                ArithmeticOp::Divide => a / b,
                ArithmeticOp::Modulo => a % b,
            })
        }
        _ if is_division && bd == 0.0 => Value::Null,
        _ => Value::Double(match op {
            ArithmeticOp::Add => ad + bd,
            ArithmeticOp::Subtract => ad - bd,
            ArithmeticOp::Multiply => ad * bd,
            ArithmeticOp::Divide => ad / bd,
            ArithmeticOp::Modulo => ad % bd,
        }),
    }
}

#[test]
fn arithmetic_of_every_pair_of_types() {
    for a in NUMBERS {
        for b in NUMBERS {
            let ty = promoted(a, b);
            let (left, right) = pairs(&values(a), &values(b));
            for op in ARITHMETIC {
                check(
                    [a, b],
                    &left,
                    &right,
                    &format!("{op:?} as {ty}"),
                    |x, y, rows, context| arithmetic::evaluate(op, ty, x, y, rows, context),
                    |x, y| java_arithmetic(op, ty, x, y),
                );
            }
        }
    }
}

/// The type in which two numbers are compared, written out as in the language reference.
fn compared_as(op: CompareOp, a: Type, b: Type) -> Type {
    let is_equality = matches!(op, CompareOp::Equal | CompareOp::NotEqual);
    match (a, b) {
        (Type::Long, Type::Float) | (Type::Float, Type::Long) if is_equality => Type::Double,
        _ => promoted(a, b),
    }
}

fn java_compare(op: CompareOp, a: &Value, b: &Value) -> Value {
    let (Some(a_type), Some(b_type)) = (a.ty(), b.ty()) else {
        return Value::Bool(op == CompareOp::NotEqual);
    };
    let widen = |v: &Value, ty: Type| match (ty, v) {
        (Type::Float, Value::Int(v)) => f64::from(*v as f32),
        (Type::Float, Value::Long(v)) => f64::from(*v as f32),
        (_, v) => v.to_double().unwrap_or(f64::NAN),
    };
    let ty = compared_as(op, a_type, b_type);
    let ordering = if matches!(ty, Type::Int | Type::Long) {
        a.to_long().partial_cmp(&b.to_long())
    } else {
        widen(a, ty).partial_cmp(&widen(b, ty))
    };
    Value::Bool(match op {
        CompareOp::Less => ordering.is_some_and(|o| o.is_lt()),
        CompareOp::LessEqual => ordering.is_some_and(|o| o.is_le()),
        CompareOp::Greater => ordering.is_some_and(|o| o.is_gt()),
        CompareOp::GreaterEqual => ordering.is_some_and(|o| o.is_ge()),
        CompareOp::Equal => ordering.is_some_and(|o| o.is_eq()),
        CompareOp::NotEqual => !ordering.is_some_and(|o| o.is_eq()),
    })
}

#[test]
fn comparison_of_every_pair_of_types() {
    for a in NUMBERS {
        for b in NUMBERS {
            let (left, right) = pairs(&values(a), &values(b));
            for op in COMPARE {
                check(
                    [a, b],
                    &left,
                    &right,
                    &format!("{op:?}"),
                    |x, y, rows, context| compare::evaluate(op, [a, b], x, y, rows, context),
                    |x, y| java_compare(op, x, y),
                );
            }
        }
    }
    let texts = ["", "a", "A", "a longer text than a view"].map(Value::str);
    let flags = [Value::Bool(true), Value::Bool(false), Value::Null];
    for (ty, values) in [(Type::String, &texts[..]), (Type::Bool, &flags[..])] {
        let (left, right) = pairs(values, values);
        for op in [CompareOp::Equal, CompareOp::NotEqual] {
            check(
                [ty, ty],
                &left,
                &right,
                &format!("{op:?}"),
                |x, y, rows, context| compare::evaluate(op, [ty, ty], x, y, rows, context),
                |x, y| {
                    let is_equal = x == y && !x.is_null();
                    Value::Bool(is_equal == (op == CompareOp::Equal))
                },
            );
        }
    }
}

#[test]
fn a_value_of_another_class_fails_its_row_and_no_other() {
    let left = column(Type::Int, &[Value::Int(1), Value::str("x"), Value::Int(3)]);
    let one = Operand::Constant(Value::Int(1));
    let (sum, failures) = with_context(|context| {
        arithmetic::evaluate(ArithmeticOp::Add, Type::Int, &left, &one, 3, context)
    });
    assert_eq!(
        (0..3).map(|r| sum.value(r)).collect::<Vec<_>>(),
        [Value::Int(2), Value::Null, Value::Int(4)]
    );
    let message = "class java.lang.String cannot be cast to class java.lang.Number \
                   (java.lang.String and java.lang.Number are in module java.base of loader \
                   'bootstrap')";
    assert_eq!(
        failures,
        [Failure {
            row: 1,
            message: message.into()
        }]
    );
    // An ordering operator casts to the declared class: an INT is not a LONG.
    let declared = [Type::Long, Type::Int];
    let mixed = Operand::from(Column::new(event::Values::Any(vec![Value::Int(7)]), None));
    let (_, failures) = with_context(|context| {
        compare::evaluate(CompareOp::Greater, declared, &mixed, &one, 1, context)
    });
    assert_eq!(failures.len(), 1);
    let (equal, failures) = with_context(|context| {
        compare::evaluate(CompareOp::Equal, declared, &mixed, &mixed, 1, context)
    });
    assert_eq!((equal.value(0), failures.len()), (Value::Bool(true), 0));
}
