//! `unitconversion:`: a number in another unit. A null is an error.

use catalog::functions::unit_conversion::FUNCTIONS as KNOWN;
use event::Value;

use super::row::{RowFunction, row, wrong};

// In metres.
const FOOT: f64 = 0.3048;
const INCH: f64 = 0.0254;
const YARD: f64 = 0.9144;
const MILE: f64 = 1609.344;

macro_rules! unit {
    ($name:literal, $factor:expr) => {
        row!(
            KNOWN,
            $name,
            |args, _| converted(args, $factor),
            const { concat!("unitconversion:", $name, "(price) as x") }
        )
    };
}

/// Sorted by name.
pub static ROWS: &[RowFunction] = &[
    unit!("MmTokm", 1000.0),
    unit!("cmToft", 0.01 / FOOT),
    unit!("cmToin", 0.01 / INCH),
    unit!("cmTokm", 0.01 / 1000.0),
    unit!("cmTom", 0.01),
    unit!("cmTomi", 0.01 / MILE),
    unit!("cmTomm", 10.0),
    unit!("cmTonm", 1e7),
    unit!("cmToum", 1e4),
    unit!("cmToyd", 0.01 / YARD),
    unit!("dToh", 24.0),
    unit!("gTokg", 0.001),
    unit!("gTomg", 1000.0),
    unit!("gToug", 1e6),
    unit!("hTom", 60.0),
    unit!("hTos", 3600.0),
    unit!("kgToLT", 0.000984207),
    unit!("kgToST", 0.00110231),
    unit!("kgTog", 1000.0),
    unit!("kgTolb", 1.0 / 0.4535924),
    unit!("kgTooz", 1.0 / 0.02834952),
    unit!("kgTost", 0.157473),
    unit!("kgTot", 0.001),
    unit!("kmTocm", 1e5),
    unit!("kmToft", 1000.0 / FOOT),
    unit!("kmToin", 1000.0 / INCH),
    unit!("kmTom", 1000.0),
    unit!("kmTomi", 1000.0 / MILE),
    unit!("kmTomm", 1e6),
    unit!("kmTonm", 1e12),
    unit!("kmToum", 1e9),
    unit!("kmToyd", 1000.0 / YARD),
    unit!("lTom3", 0.001),
    unit!("lToml", 1000.0),
    unit!("m3Tol", 1000.0),
    unit!("mTocm", 100.0),
    unit!("mToft", 1.0 / FOOT),
    unit!("mTomm", 1000.0),
    unit!("mTos", 60.0),
    unit!("mToyd", 1.0 / YARD),
    unit!("miTokm", MILE / 1000.0),
    unit!("mlTol", 0.001),
    unit!("sToms", 1000.0),
    unit!("sTons", 1e9),
    unit!("sTous", 1e6),
    unit!("tTog", 1e6),
    unit!("tTokg", 1000.0),
    unit!("yTod", 365.2425),
];

fn converted(args: &[Value], factor: f64) -> Result<Value, String> {
    match args[0].to_double() {
        Some(value) => Ok(Value::Double(value * factor)),
        None => Err(wrong(0, "a number", args.first())),
    }
}

#[cfg(test)]
mod tests {
    use crate::function::testing::*;

    #[test]
    fn units() {
        check("unitconversion:kmTom", &[i(2)], "2000.0");
        check("unitconversion:mTos", &[d(1.5)], "90.0");
        check("unitconversion:hTos", &[i(1)], "3600.0");
        check("unitconversion:yTod", &[l(1)], "365.2425");
        check("unitconversion:kmTom", &[NULL], "!argument 1 is null");
        for (name, one, expect) in [
            ("mToft", d(0.3048), 1.0),
            ("kgTolb", d(0.453_592_4), 1.0),
            ("miTokm", i(1), 1.609_344),
        ] {
            let value = call(&format!("unitconversion:{name}"), &[one]).unwrap_or_default();
            assert!(
                (value.to_double().unwrap_or(0.0) - expect).abs() < 1e-12,
                "{name}"
            );
        }
    }
}
