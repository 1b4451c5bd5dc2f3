//! Any bytes as events of the `binary` mapper: rows or one refusal, and an end.

#![no_main]

use headwater_connect::component::Payload;
use headwater_connect::rows::Properties;
use headwater_fuzz::map::{decoder, outcome};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|message: &[u8]| {
    let attributes = ["a string", "b int", "c long", "d float", "e double", "f bool"];
    let mut decoder = decoder("binary", &[], &attributes, &[]);
    decoder.map(Payload::Bytes(message), &Properties::none());
    let mut all = (String::new(), 0);
    outcome(&mut decoder, &mut all);
    assert!(all.1 <= 1, "one refusal a message");
});
