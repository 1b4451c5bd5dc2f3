//! What a broker of Kafka answers, and record batches: any bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| headwater_connectors::decoders::kafka(bytes));
