//! Any bytes as messages of two kinds: one row or one refusal for each, and an end.

#![no_main]

use std::cell::RefCell;

use headwater_connect::component::Payload;
use headwater_connect::row_decoder::RowDecoder;
use headwater_connect::rows::Properties;
use headwater_fuzz::map::{decoder, outcome};
use libfuzzer_sys::fuzz_target;

const DESCRIPTION: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../crates/connect/src/mapper/protobuf/tests.proto"
);

fn message(class: &str, attributes: &[&str]) -> RefCell<RowDecoder> {
    let options = [("descriptor.file", DESCRIPTION), ("class", class)];
    RefCell::new(decoder("protobuf", &options, attributes, &[]))
}

thread_local! {
    // Made once: the description is compiled for each.
    static DECODERS: [RefCell<RowDecoder>; 2] = [
        message(
            "sample.Plain",
            &["text string", "count int", "large long", "single float", "double double", "flag bool"],
        ),
        message(
            "sample.Nested",
            &["list object", "map object", "inner object", "bytes object", "colour string"],
        ),
    ];
}

fuzz_target!(|bytes: &[u8]| {
    DECODERS.with(|decoders| {
        for decoder in decoders {
            let mut decoder = decoder.borrow_mut();
            decoder.map(Payload::Bytes(bytes), &Properties::none());
            let mut all = (String::new(), 0);
            outcome(&mut decoder, &mut all);
            let rows = all.0.lines().count();
            assert!(all.1 == 1 && rows == 0 || all.1 == 0 && rows > 0, "one row or one refusal");
        }
    });
});
