//! Frames of AMQP as they pass by: any bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| headwater_connectors::decoders::rabbitmq(bytes));
