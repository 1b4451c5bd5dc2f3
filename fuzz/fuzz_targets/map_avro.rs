//! Any bytes by three schemas: no panic, and an end.

#![no_main]

use headwater_connect::component::Payload;
use headwater_connect::rows::Properties;
use headwater_fuzz::map::{decoder, outcome};
use libfuzzer_sys::fuzz_target;

/// A flat record, one that holds itself, and a list; attributes and paths of each.
const CASES: [(&str, &[&str], &[&str]); 3] = [
    (
        r#"{"type":"record","name":"S","fields":[{"name":"a","type":"string"},
            {"name":"b","type":["null","long"]},{"name":"c","type":"double"}]}"#,
        &["a string", "b long", "c double"],
        &[],
    ),
    (
        r#"{"type":"record","name":"R","fields":[
            {"name":"a","type":{"type":"array","items":["null","R","string"]}},
            {"name":"m","type":{"type":"map","values":"R"}}]}"#,
        &["a object", "m string"],
        &["$..a", "$.m"],
    ),
    (
        r#"{"type":"array","items":{"type":"record","name":"D","fields":[{"name":"a",
            "type":{"type":"bytes","logicalType":"decimal","precision":30,"scale":3}}]}}"#,
        &["a double"],
        &[],
    ),
];

fuzz_target!(|input: &[u8]| {
    let Some((which, message)) = input.split_first() else {
        return;
    };
    let (schema, attributes, from) = CASES[usize::from(*which) % CASES.len()];
    let mut decoder = decoder("avro", &[("schema.def", schema)], attributes, from);
    decoder.map(Payload::Bytes(message), &Properties::none());
    let mut all = (String::new(), 0);
    outcome(&mut decoder, &mut all);
    assert!(
        all.0.is_empty() != (all.1 == 0) || *which % 3 > 0,
        "one row or one refusal"
    );
});
