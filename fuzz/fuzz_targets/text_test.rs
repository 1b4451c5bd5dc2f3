//! Any text as a file of text tests: cases, or the line that is wrong.
#![no_main]

use headwater_testkit::script::parse;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(error) = parse(text, "fuzz.test") {
        assert!(error.line <= text.lines().count() + 1, "{error}");
    }
});
