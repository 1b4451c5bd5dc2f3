//! Any text as XML: no panic, whole and in pieces; and the short way for plain events gives the rows
//! and refusals of the tree (to which a path with `.` leads).

#![no_main]

use headwater_connect::component::Payload;
use headwater_connect::rows::Properties;
use headwater_fuzz::map::{decoder, outcome};
use libfuzzer_sys::fuzz_target;

const ATTRIBUTES: [&str; 3] = ["a string", "b double", "c string"];

fuzz_target!(|input: (bool, Vec<&str>)| {
    let (lenient, pieces) = input;
    let missing = ("fail.on.missing.attribute", if lenient { "false" } else { "true" });
    let run = |options: &[(&str, &str)], from: &[&str]| {
        let mut decoder = decoder("xml", options, &ATTRIBUTES, from);
        let mut all = (String::new(), 0);
        for piece in &pieces {
            decoder.map(Payload::Text(piece), &Properties::none());
        }
        decoder.end_of_input();
        outcome(&mut decoder, &mut all);
        all
    };
    run(&[missing], &[]);
    run(&[missing, ("enclosing.element", "//b")], &["@a", "b[c='x' or not(@d)]/text()", "//c/.."]);
    let stream = [
        missing,
        ("enclosing.element", "/a/b"),
        ("enable.streaming.xml.content", "true"),
    ];
    let short = run(&stream, &["/b/@a", "@b", "c"]);
    let tree = run(&stream, &["/b/./@a", "./@b", "./c"]);
    assert_eq!(short, tree);
});
