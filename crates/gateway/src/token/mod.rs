//! Who asks: access tokens (JWT, RFC 7519) and API keys.
//!
//! A token names its issuer; the issuer, as it was configured, says which algorithms count and where its keys are.
//! What a token's header says chooses among these keys and never adds one: `jku`, `jwk`, `x5u` and `x5c` are not
//! looked at (RFC 8725, 3.10).
//!
//! Signatures are checked directly over `ring`, which every build has. The crate `jsonwebtoken` would need a provider
//! written over `ring` all the same, and what it adds, a header parser and checks of claims, is replaced by the
//! stricter rules here: members that occur twice, one algorithm for each key, an issuer chosen before its keys.
//!
//! Promises: a token that was checked is not checked again until it expires, its key goes or it is revoked; a token
//! with an unknown key costs its issuer no more than one request in [`REFETCH_PAUSE`]. Never: a token, a key or a
//! secret in any text made here.

mod algorithm;
mod api_key;
mod cache;
mod cause;
mod claims;
mod credentials;
mod issuer;
mod jws;
mod key;
mod key_source;
mod mint;
mod principal;
mod revocation;
pub(crate) mod strict_json;
mod verifier;

pub use algorithm::Algorithm;
pub use api_key::{ApiKey, Directory, NewSecret, digest_of};
pub use cause::{Cause, Refusal};
pub use credentials::{Credentials, Places, strip_query};
pub use issuer::{Issuer, IssuerFault, KeyPlace};
pub use key_source::{KEYS_KEPT, KeySources, REFETCH_PAUSE};
pub(crate) use mint::FORM_BYTES_MAX;
pub use mint::{Client, Mint, MintError, TokenAnswer};
pub use principal::{Ended, Principal};
pub use revocation::{Revocation, Revocations, Subject};
pub use verifier::Verifier;

/// Longest token in bytes, before it is decoded.
pub const TOKEN_BYTES_MAX: usize = 16 << 10;

/// What is done with a token that came over a network, up to its signature: for fuzzing.
#[cfg(any(test, feature = "testing"))]
pub fn read_untrusted(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(read) = jws::Jws::parse(text) {
        assert!(read.signed.len() < text.len());
        if let Ok(claims) = strict_json::object(&read.payload) {
            // What is read can be read again, and means the same.
            let again = serde_json::to_vec(&claims).expect("JSON can be written");
            assert_eq!(strict_json::object(&again).ok(), Some(claims));
        }
    }
    let keys = key::KeySet::from_json(bytes);
    if let Ok(keys) = keys {
        keys.candidate(None, Algorithm::Rs256).ok();
    }
    let mut headers = hyper::HeaderMap::new();
    if let Ok(value) = hyper::header::HeaderValue::from_bytes(bytes) {
        headers.insert(hyper::header::SEC_WEBSOCKET_PROTOCOL, value.clone());
        headers.insert(hyper::header::COOKIE, value);
    }
    let credentials = Credentials::from_request(&headers, Some(text));
    credentials.strip(&mut headers);
    let left = strip_query(text);
    let again = Credentials::from_request(&headers, left.as_deref());
    assert!(again.is_none(), "nothing of it is left for a backend");
}

#[cfg(test)]
mod tests;
