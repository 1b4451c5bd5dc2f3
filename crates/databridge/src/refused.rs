//! A bundle that no stream can take, for the mapper of one that keeps it with the rejected events: why, then
//! the bundle. No client sends it.

use crate::thrift::{Front, write_string};

/// The first byte of such a message, which no bundle has.
pub const MARK: u8 = b'X';

pub fn write(cause: &str, bundle: &[u8]) -> Vec<u8> {
    let mut message = vec![MARK];
    write_string(&mut message, cause.as_bytes());
    message.extend_from_slice(bundle);
    message
}

/// Cause and bundle of what follows the mark.
pub fn read(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let mut front = Front(bytes);
    let cause = std::str::from_utf8(front.string()?).ok()?;
    Some((cause, front.0))
}
