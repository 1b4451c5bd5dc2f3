//! Messages of databridge over Thrift: any bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| headwater_connectors::decoders::wso2event(bytes));
