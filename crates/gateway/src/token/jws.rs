//! The compact form of a signed token (RFC 7515, 3.1): `header.payload.signature`, each in base64url.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use super::algorithm::Algorithm;
use super::cause::Cause;
use super::{TOKEN_BYTES_MAX, strict_json};

/// Longest `kid` in bytes.
const KEY_ID_MAX: usize = 512;

/// A token whose signature has not been checked yet: nothing of it may be believed.
pub(super) struct Jws<'a> {
    pub algorithm: Algorithm,
    /// `kid`.
    pub key: Option<String>,
    /// `typ`.
    pub ty: Option<String>,
    pub payload: Vec<u8>,
    /// What is signed: header and payload as they came.
    pub signed: &'a str,
    pub signature: Vec<u8>,
}

impl<'a> Jws<'a> {
    /// # Errors
    /// [`Cause::TooLarge`], [`Cause::Malformed`], [`Cause::Algorithm`].
    pub fn parse(token: &'a str) -> Result<Jws<'a>, Cause> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(Cause::TooLarge);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(Cause::Malformed)?;
        let (header, payload) = signed.split_once('.').ok_or(Cause::Malformed)?;
        if payload.contains('.') {
            // Five parts are an encrypted token (RFC 7516).
            return Err(Cause::Malformed);
        }
        // Strict: no padding, no blanks, no bits that say nothing. Otherwise one token would have several spellings.
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| Cause::Malformed);
        let header = strict_json::object(&decode(header)?).map_err(|_| Cause::Malformed)?;
        // An extension that must be understood (RFC 7515, 4.1.11); none is.
        if header.contains_key("crit") || header.contains_key("b64") {
            return Err(Cause::Malformed);
        }
        let text = |name: &str| match header.get(name) {
            None => Ok(None),
            Some(Value::String(text)) if text.len() <= KEY_ID_MAX => Ok(Some(text.clone())),
            Some(_) => Err(Cause::Malformed),
        };
        let name = text("alg")?.ok_or(Cause::Algorithm)?;
        Ok(Jws {
            algorithm: Algorithm::parse(&name).ok_or(Cause::Algorithm)?,
            key: text("kid")?,
            ty: text("typ")?,
            payload: decode(payload)?,
            signed,
            signature: decode(signature)?,
        })
    }
}
