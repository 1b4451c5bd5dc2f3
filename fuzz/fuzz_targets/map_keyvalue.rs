//! Any map, and any bytes in place of one: no panic, and one row or one refusal for each.

#![no_main]

use headwater_connect::component::Payload;
use headwater_connect::rows::Properties;
use headwater_event::Value;
use headwater_fuzz::map::{decoder, outcome};
use libfuzzer_sys::fuzz_target;

const ATTRIBUTES: [&str; 4] = ["a string", "b double", "c long", "d bool"];

fuzz_target!(|input: (bool, Vec<(&str, u8, i64, &str)>, &[u8])| {
    let (casts, entries, bytes) = input;
    let options = [("implicit.cast.enable", if casts { "true" } else { "false" })];
    let entries: Vec<(Value, Value)> = entries
        .into_iter()
        .map(|(key, kind, number, text)| {
            let value = match kind % 7 {
                0 => Value::Null,
                1 => Value::Bool(number > 0),
                2 => Value::Int(number as i32),
                3 => Value::Long(number),
                4 => Value::Float(number as f32),
                5 => Value::Double(f64::from_bits(number as u64)),
                _ => Value::str(text),
            };
            (Value::str(key), value)
        })
        .collect();
    let mut decoder = decoder("keyvalue", &options, &ATTRIBUTES, &[]);
    for payload in [Payload::Map(&entries), Payload::Bytes(bytes)] {
        decoder.map(payload, &Properties::none());
        let mut all = (String::new(), 0);
        outcome(&mut decoder, &mut all);
        assert_eq!(all.0.lines().count().min(1) + all.1, 1);
    }
});
