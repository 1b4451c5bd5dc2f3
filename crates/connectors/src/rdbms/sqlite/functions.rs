//! Arithmetic inside the database as the language defines it: integers wrap, division by zero is
//! null, FLOAT is computed in 32 bits, and `%` takes the sign of its left side.

use event::Type;
use plan::ArithmeticOp;
use rusqlite::Connection;
use rusqlite::functions::{Context, FunctionFlags};

use crate::rdbms::dialect::arithmetic_name;
use connect::condition::{double, float, int, long};

const OPS: [ArithmeticOp; 5] = [
    ArithmeticOp::Add,
    ArithmeticOp::Subtract,
    ArithmeticOp::Multiply,
    ArithmeticOp::Divide,
    ArithmeticOp::Modulo,
];

pub fn register(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    for op in OPS {
        let name = |ty| arithmetic_name(op, ty);
        connection.create_scalar_function(name(Type::Int).as_str(), 2, flags, move |context| {
            Ok(longs(context)?.and_then(|(a, b)| int(op, a as i32, b as i32)))
        })?;
        connection.create_scalar_function(name(Type::Long).as_str(), 2, flags, move |context| {
            Ok(longs(context)?.and_then(|(a, b)| long(op, a, b)))
        })?;
        connection.create_scalar_function(
            name(Type::Float).as_str(),
            2,
            flags,
            move |context| {
                let result = doubles(context)?.and_then(|(a, b)| float(op, a as f32, b as f32));
                Ok(result.map(f64::from))
            },
        )?;
        connection.create_scalar_function(
            name(Type::Double).as_str(),
            2,
            flags,
            move |context| Ok(doubles(context)?.and_then(|(a, b)| double(op, a, b))),
        )?;
    }
    Ok(())
}

fn longs(context: &Context<'_>) -> rusqlite::Result<Option<(i64, i64)>> {
    let (a, b): (Option<i64>, Option<i64>) = (context.get(0)?, context.get(1)?);
    Ok(a.zip(b))
}

fn doubles(context: &Context<'_>) -> rusqlite::Result<Option<(f64, f64)>> {
    let (a, b): (Option<f64>, Option<f64>) = (context.get(0)?, context.get(1)?);
    Ok(a.zip(b))
}
