//! Keys of the opening handshake (RFC 6455, 1.3).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use ring::error::Unspecified;
use ring::rand::{SecureRandom as _, SystemRandom};

/// What a server appends to a key, so that nobody else can answer by chance.
const APPENDED: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// `Sec-WebSocket-Accept` for a `Sec-WebSocket-Key`.
pub fn accept_key(key: &str) -> String {
    let text = [key.trim(), APPENDED].concat();
    BASE64.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()))
}

/// Is it 16 bytes in base64?
pub fn is_key(key: &[u8]) -> bool {
    BASE64
        .decode(key.trim_ascii())
        .is_ok_and(|key| key.len() == 16)
}

/// A key for a handshake.
///
/// # Errors
/// The system has no randomness.
pub fn new_key() -> Result<String, Unspecified> {
    let mut key = [0; 16];
    SystemRandom::new().fill(&mut key)?;
    Ok(BASE64.encode(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    // rules: S3
    #[test]
    fn the_key_of_the_rfc_is_accepted_as_there() {
        let accepted = accept_key("dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(accepted, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert!(is_key(b"dGhlIHNhbXBsZSBub25jZQ=="));
        assert!(!is_key(b"dGhlIHNhbXBsZQ==") && !is_key(b"?"));
        let key = new_key().expect("there is randomness");
        assert!(is_key(key.as_bytes()));
        assert_ne!(new_key().ok(), Some(key));
    }
}
