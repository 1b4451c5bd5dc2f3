//! Any text through patterns and as lines `name:value`: no panic.

#![no_main]

use headwater_connect::component::Payload;
use headwater_connect::rows::Properties;
use headwater_fuzz::map::{decoder, outcome};
use libfuzzer_sys::fuzz_target;

const ATTRIBUTES: [&str; 3] = ["a string", "b double", "c long"];

fuzz_target!(|text: &str| {
    let patterns = [
        ("regex.A", r"(\w+)\s([-.0-9]+)$"),
        ("regex.B", r"(?<=,)\d+(?=;)"),
        ("fail.on.missing.attribute", "false"),
    ];
    let grouped = [("event.grouping.enabled", "true"), ("delimiter", "~")];
    for (options, from) in [
        (&patterns[..], &["A[1]", "A[2]", "B[0]"][..]),
        (&grouped[..], &[][..]),
    ] {
        let mut decoder = decoder("text", options, &ATTRIBUTES, from);
        decoder.map(Payload::Text(text), &Properties::none());
        outcome(&mut decoder, &mut (String::new(), 0));
    }
});
