//! Any text as JSON: no panic, in default and custom mapping; and the short way for flat objects
//! gives the rows and refusals of the tree (to which an escape in the name of the event leads).

#![no_main]

use headwater_connect::component::Payload;
use headwater_connect::rows::Properties;
use headwater_fuzz::map::{decoder, outcome};
use libfuzzer_sys::fuzz_target;

const ATTRIBUTES: [&str; 4] = ["a string", "b double", "c long", "d bool"];

fuzz_target!(|input: (bool, &str)| {
    let (lenient, text) = input;
    let options = [("fail.on.missing.attribute", if lenient { "false" } else { "true" })];
    let run = |from: &[&str], text: &str| {
        let mut decoder = decoder("json", &options, &ATTRIBUTES, from);
        decoder.map(Payload::Text(text), &Properties::none());
        let mut all = (String::new(), 0);
        outcome(&mut decoder, &mut all);
        all
    };
    run(&[], text);
    run(&["$..a", "b[-1]", "$.c[?(@.x > 1)].y", "d.length()"], text);
    if text.trim_start().starts_with('{') {
        let short = run(&[], &format!("{{\"event\":{text}}}"));
        let tree = run(&[], &format!("{{\"\\u0065vent\":{text}}}"));
        assert_eq!(short, tree);
    }
});
