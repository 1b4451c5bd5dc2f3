//! Values that servers and their clients are wont to get wrong, for tests that send all of them.

/// Texts: quotes and backslashes of every dialect, line breaks, placeholders and words of SQL, characters
/// of four bytes and those that combine. Without U+0000, which some cannot hold.
pub const TEXTS: &[&str] = &[
    "",
    " ",
    " both ends ",
    "it's",
    "\"",
    "`",
    "\\",
    "\\\\'",
    "\\N",
    "\\n",
    "a\nb",
    "a\r\nb",
    "\t",
    ",",
    ";",
    "--",
    "/*",
    "%",
    "_",
    "?",
    "$1",
    ":x",
    "\u{1f980}",
    "a\u{10ffff}b",
    "é",
    "e\u{301}",
    "\u{feff}",
    "\u{fffd}",
    "\\.",
    "NULL",
    "null",
    "0x41",
    "\\x41",
    "{\"a\":1}",
];

/// The ends, and what lies around nothing.
pub const INTS: [i32; 4] = [i32::MIN, -1, 0, i32::MAX];

/// As [`INTS`], and the first beyond which a DOUBLE has no odd number.
pub const LONGS: [i64; 5] = [i64::MIN, -1, 0, i64::MAX, 1 << 53];

/// Finite ones.
pub const FLOATS: [f32; 9] = [
    f32::MIN,
    f32::MAX,
    f32::MIN_POSITIVE,
    -0.0,
    0.1,
    1.0 / 3.0,
    16_777_217.0,
    1e-30,
    3.402_823e38,
];

/// Finite ones; the last is the smallest there is.
pub const DOUBLES: [f64; 10] = [
    f64::MIN,
    f64::MAX,
    f64::MIN_POSITIVE,
    -0.0,
    0.1,
    1.0 / 3.0,
    9_007_199_254_740_993.0,
    1e-300,
    123_456_789.123_456_79,
    5e-324,
];

/// Each character from U+0001 to U+00FF by itself.
pub fn characters() -> impl Iterator<Item = String> {
    ('\u{1}'..='\u{ff}').map(|c| format!("<{c}>"))
}
