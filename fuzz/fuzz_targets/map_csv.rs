//! Any text as lines of separated values: no panic, and the short way for plain lines gives the rows
//! and refusals of the whole grammar (to which a line break at the end of a message leads).

#![no_main]

use headwater_connect::component::{Payload, Room};
use headwater_connect::rows::{Lines, Properties};
use headwater_fuzz::map::{decoder, outcome};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (bool, &str)| {
    let (lenient, text) = input;
    let options = [
        ("delimiter", "|"),
        ("fail.on.unknown.attribute", if lenient { "false" } else { "true" }),
    ];
    let attributes = ["a string", "b double", "c int", "d bool"];
    let make = || decoder("csv", &options, &attributes, &["0", "1", "3", "2"]);
    let (mut short, mut whole) = (make(), make());
    let mut lines = Lines::new(text, 0, 0);
    let mut by_lines = (String::new(), 0);
    loop {
        let room = short.map_lines(&mut lines, &Properties::none());
        outcome(&mut short, &mut by_lines);
        if room == Room::More {
            break;
        }
    }
    let mut by_grammar = (String::new(), 0);
    let mut lines = Lines::new(text, 0, 0);
    while let Some(line) = lines.next_line() {
        let message = format!("{line}\n");
        if whole.map(Payload::Text(&message), &Properties::none()) == Room::Full {
            outcome(&mut whole, &mut by_grammar);
        }
    }
    outcome(&mut whole, &mut by_grammar);
    assert_eq!(by_lines, by_grammar);
});
