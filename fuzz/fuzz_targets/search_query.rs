//! Queries in Lucene's classic syntax, and score functions: any text.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| headwater_search::fuzzing::query(text));
