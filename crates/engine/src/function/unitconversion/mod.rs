//! `unitconversion:`: a number in another unit. A null is an error.

mod params;

use event::Value;

use super::row::{RowFunction, row, wrong};

// In metres.
const FOOT: f64 = 0.3048;
const INCH: f64 = 0.0254;
const YARD: f64 = 0.9144;
const MILE: f64 = 1609.344;

macro_rules! unit {
    ($name:literal, $summary:literal, $factor:expr) => {
        row!(
            params::unit($name, $summary),
            |args, _| converted(args, $factor),
            const { concat!("unitconversion:", $name, "(price) as x") }
        )
    };
}

/// Sorted by name.
pub static ROWS: &[RowFunction] = &[
    unit!("MmTokm", "Megametres as kilometres.", 1000.0),
    unit!("cmToft", "Centimetres as feet.", 0.01 / FOOT),
    unit!("cmToin", "Centimetres as inches.", 0.01 / INCH),
    unit!("cmTokm", "Centimetres as kilometres.", 0.01 / 1000.0),
    unit!("cmTom", "Centimetres as metres.", 0.01),
    unit!("cmTomi", "Centimetres as miles.", 0.01 / MILE),
    unit!("cmTomm", "Centimetres as millimetres.", 10.0),
    unit!("cmTonm", "Centimetres as nanometres.", 1e7),
    unit!("cmToum", "Centimetres as micrometres.", 1e4),
    unit!("cmToyd", "Centimetres as yards.", 0.01 / YARD),
    unit!("dToh", "Days as hours.", 24.0),
    unit!("gTokg", "Grams as kilograms.", 0.001),
    unit!("gTomg", "Grams as milligrams.", 1000.0),
    unit!("gToug", "Grams as micrograms.", 1e6),
    unit!("hTom", "Hours as minutes.", 60.0),
    unit!("hTos", "Hours as seconds.", 3600.0),
    unit!("kgToLT", "Kilograms as imperial tons.", 0.000984207),
    unit!("kgToST", "Kilograms as US tons.", 0.00110231),
    unit!("kgTog", "Kilograms as grams.", 1000.0),
    unit!("kgTolb", "Kilograms as pounds.", 1.0 / 0.4535924),
    unit!("kgTooz", "Kilograms as ounces.", 1.0 / 0.02834952),
    unit!("kgTost", "Kilograms as stones.", 0.157473),
    unit!("kgTot", "Kilograms as tonnes.", 0.001),
    unit!("kmTocm", "Kilometres as centimetres.", 1e5),
    unit!("kmToft", "Kilometres as feet.", 1000.0 / FOOT),
    unit!("kmToin", "Kilometres as inches.", 1000.0 / INCH),
    unit!("kmTom", "Kilometres as metres.", 1000.0),
    unit!("kmTomi", "Kilometres as miles.", 1000.0 / MILE),
    unit!("kmTomm", "Kilometres as millimetres.", 1e6),
    unit!("kmTonm", "Kilometres as nanometres.", 1e12),
    unit!("kmToum", "Kilometres as micrometres.", 1e9),
    unit!("kmToyd", "Kilometres as yards.", 1000.0 / YARD),
    unit!("lTom3", "Litres as cubic metres.", 0.001),
    unit!("lToml", "Litres as millilitres.", 1000.0),
    unit!("m3Tol", "Cubic metres as litres.", 1000.0),
    unit!("mTocm", "Metres as centimetres.", 100.0),
    unit!("mToft", "Metres as feet.", 1.0 / FOOT),
    unit!("mTomm", "Metres as millimetres.", 1000.0),
    unit!("mTos", "Minutes as seconds.", 60.0),
    unit!("mToyd", "Metres as yards.", 1.0 / YARD),
    unit!("miTokm", "Miles as kilometres.", MILE / 1000.0),
    unit!("mlTol", "Millilitres as litres.", 0.001),
    unit!("sToms", "Seconds as milliseconds.", 1000.0),
    unit!("sTons", "Seconds as nanoseconds.", 1e9),
    unit!("sTous", "Seconds as microseconds.", 1e6),
    unit!("tTog", "Tonnes as grams.", 1e6),
    unit!("tTokg", "Tonnes as kilograms.", 1000.0),
    unit!("yTod", "Years as days.", 365.2425),
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
