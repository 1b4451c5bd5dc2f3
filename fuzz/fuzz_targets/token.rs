//! Tokens, key sets, and what a request carries them in: any bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| headwater_gateway::token::read_untrusted(bytes));
