//! `unitconversion:`, 48 functions of one number each.

use super::{DOUBLE, known, param};
use plan::spec::{FunctionKind, FunctionSpec, Overload, Types};

const ONE: &[Overload] = &[Overload::new(&[param("p1", Types::NUMBER, "The number.")])];

const fn unit(name: &'static str, summary: &'static str) -> FunctionSpec {
    known(
        FunctionKind::Scalar,
        "unitconversion",
        name,
        "execution-unitconversion",
        summary,
        ONE,
        DOUBLE,
    )
}

pub const FUNCTIONS: &[FunctionSpec] = &[
    unit("cmToft", "Centimetres as feet."),
    unit("cmToin", "Centimetres as inches."),
    unit("cmTokm", "Centimetres as kilometres."),
    unit("cmTom", "Centimetres as metres."),
    unit("cmToum", "Centimetres as micrometres."),
    unit("cmTomi", "Centimetres as miles."),
    unit("cmTomm", "Centimetres as millimetres."),
    unit("cmTonm", "Centimetres as nanometres."),
    unit("cmToyd", "Centimetres as yards."),
    unit("kmTocm", "Kilometres as centimetres."),
    unit("kmToft", "Kilometres as feet."),
    unit("kmToin", "Kilometres as inches."),
    unit("kmTom", "Kilometres as metres."),
    unit("kmToum", "Kilometres as micrometres."),
    unit("kmTomi", "Kilometres as miles."),
    unit("kmTomm", "Kilometres as millimetres."),
    unit("kmTonm", "Kilometres as nanometres."),
    unit("kmToyd", "Kilometres as yards."),
    unit("MmTokm", "Megametres as kilometres."),
    unit("mTocm", "Metres as centimetres."),
    unit("mToft", "Metres as feet."),
    unit("mTomm", "Metres as millimetres."),
    unit("mToyd", "Metres as yards."),
    unit("miTokm", "Miles as kilometres."),
    unit("gTokg", "Grams as kilograms."),
    unit("gToug", "Grams as micrograms."),
    unit("gTomg", "Grams as milligrams."),
    unit("kgTog", "Kilograms as grams."),
    unit("kgToLT", "Kilograms as imperial tons."),
    unit("kgTooz", "Kilograms as ounces."),
    unit("kgTolb", "Kilograms as pounds."),
    unit("kgTost", "Kilograms as stones."),
    unit("kgTot", "Kilograms as tonnes."),
    unit("kgToST", "Kilograms as US tons."),
    unit("tTog", "Tonnes as grams."),
    unit("tTokg", "Tonnes as kilograms."),
    unit("dToh", "Days as hours."),
    unit("hTom", "Hours as minutes."),
    unit("hTos", "Hours as seconds."),
    unit("mTos", "Minutes as seconds."),
    unit("sTous", "Seconds as microseconds."),
    unit("sToms", "Seconds as milliseconds."),
    unit("sTons", "Seconds as nanoseconds."),
    unit("yTod", "Years as days."),
    unit("m3Tol", "Cubic metres as litres."),
    unit("lTom3", "Litres as cubic metres."),
    unit("lToml", "Litres as millilitres."),
    unit("mlTol", "Millilitres as litres."),
];
