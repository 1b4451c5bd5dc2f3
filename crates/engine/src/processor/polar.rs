//! `#pol2Cart(theta, rho, z)`: Cartesian coordinates of polar ones.

use event::Value;

use super::each::{EachRow, Rows};
use crate::spec::*;

static SPEC: FunctionSpec = runs(
    FunctionSpec {
        adds: &[("x", Type::Double), ("y", Type::Double)],
        ..function(
            FunctionKind::StreamProcessor,
            "",
            "pol2Cart",
            "core",
            "Cartesian coordinates of polar ones; the angle is in degrees.",
            &[
                Overload::new(&[
                    param("theta", Types::DOUBLE, "Angle in degrees."),
                    param("rho", Types::DOUBLE, "Distance."),
                ]),
                Overload::new(&[
                    param("theta", Types::DOUBLE, "Angle in degrees."),
                    param("rho", Types::DOUBLE, "Distance."),
                    param("z", Types::DOUBLE, "Height."),
                ])
                .adding(&[("z", Type::Double)]),
            ],
            Returns::Nothing,
        )
    },
    "define stream S (theta double, rho double);
from S#pol2Cart(theta, rho) select x, y insert into Out;
---
send S 0.0 2.0
expect Out 2.0 0.0
",
);

pub const POLAR_TO_CARTESIAN: EachRow = EachRow {
    spec: &SPEC,
    call,
    check: None,
    is_chunk_per_event: false,
};

/// Theta is in degrees (`Pol2CartStreamFunctionProcessor`).
fn call(args: &[Value], rows: &mut Rows<'_>) -> Result<(), String> {
    let number = |at: usize| args.get(at).and_then(Value::to_double);
    let (Some(theta), Some(rho)) = (number(0), number(1)) else {
        return Err("an argument of '#pol2Cart' is null".into());
    };
    let (sin, cos) = theta.to_radians().sin_cos();
    let z = args.get(2).cloned().unwrap_or_default();
    rows.push(&[Value::Double(rho * cos), Value::Double(rho * sin), z]);
    Ok(())
}
