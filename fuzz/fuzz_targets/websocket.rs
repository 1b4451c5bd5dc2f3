//! Frames of WebSocket, compressed or not, and what is offered in a handshake: any bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| headwater_websocket::fuzzing::read_untrusted(bytes));
