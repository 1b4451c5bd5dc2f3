//! Events of a binary log and values of its columns: any bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| headwater_connectors::decoders::cdc_mysql(bytes));
