//! Answers of servers to our requests.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| headwater_connectors::decoders::http_answers(bytes));
