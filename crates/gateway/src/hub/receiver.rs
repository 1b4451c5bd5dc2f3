//! Where events of an API come in that are posted by whoever knows its secret, as API Manager has it: below
//! `x-headwater.websub`
//!
//! ```yaml
//! receiver: { secret: 's3cret', digest: sha1, header: x-hub-signature }   # or { open: true }
//! ```

use std::fmt;

use connect::net::websub::Digest;
use hyper::header::{HeaderMap, HeaderName};
use ring::hmac;
use serde_json::{Map, Value, json};

/// The last part of its path, below the API.
pub(crate) const PATH: &str = "webhooks_events_receiver_resource";

/// Longest secret in bytes.
const SECRET_MAX: usize = 1024;

const MEMBERS: [&str; 4] = ["digest", "header", "open", "secret"];

/// By what events are known to be genuine.
#[derive(Clone, PartialEq, Eq)]
pub struct Receiver {
    /// `None`: nobody has to sign.
    secret: Option<Vec<u8>>,
    digest: Digest,
    header: HeaderName,
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("digest", &self.digest)
            .field("header", &self.header)
            .finish_non_exhaustive()
    }
}

impl Receiver {
    /// One that takes what is signed with a secret, in `x-hub-signature` where no other header is named.
    ///
    /// # Errors
    /// In words.
    pub fn new(secret: &str, digest: Digest, header: Option<&str>) -> Result<Receiver, String> {
        if !(1..=SECRET_MAX).contains(&secret.len()) {
            return Err(format!(
                "the secret of a receiver has 1 to {SECRET_MAX} bytes"
            ));
        }
        let name = header.unwrap_or("x-hub-signature");
        let header = name.to_ascii_lowercase().parse();
        let header = header.map_err(|_| format!("'{name}' is no name of a header"))?;
        Ok(Receiver {
            secret: Some(secret.as_bytes().to_vec()),
            digest,
            header,
        })
    }

    /// One that takes what anybody posts.
    pub fn open() -> Receiver {
        Receiver {
            secret: None,
            digest: Digest::Sha1,
            header: HeaderName::from_static("x-hub-signature"),
        }
    }

    /// # Errors
    /// The first fault, in words.
    pub(super) fn from_json(value: &Value) -> Result<Receiver, String> {
        let members = value.as_object().ok_or("'receiver' is not an object")?;
        if let Some(other) = members
            .keys()
            .find(|name| !MEMBERS.contains(&name.as_str()))
        {
            return Err(format!(
                "'receiver' has no key '{other}'; there is {}",
                MEMBERS.join(", ")
            ));
        }
        let text = |name: &str| members.get(name).and_then(Value::as_str);
        if members.get("open") == Some(&Value::Bool(true)) {
            return match members.len() {
                1 => Ok(Receiver::open()),
                _ => Err("a receiver that is open has nothing else".to_owned()),
            };
        }
        let digest = match text("digest") {
            None => Digest::Sha1,
            Some(name) => {
                Digest::parse(name).ok_or_else(|| format!("there is no digest '{name}'"))?
            }
        };
        let secret = text("secret").ok_or("'receiver' needs a secret, or open: true")?;
        Receiver::new(secret, digest, text("header"))
    }

    /// As [`Receiver::from_json`] reads it; with the secret, or with none in its place.
    pub(crate) fn to_json(&self, shows_secret: bool) -> Value {
        let Some(secret) = &self.secret else {
            return json!({ "open": true });
        };
        let secret = shows_secret.then(|| String::from_utf8_lossy(secret).into_owned());
        let mut members = Map::new();
        members.insert("secret".to_owned(), secret.into());
        members.insert("digest".to_owned(), self.digest.name().into());
        members.insert("header".to_owned(), self.header.as_str().into());
        members.into()
    }

    pub(crate) fn has_secret(&self) -> bool {
        self.secret.is_some()
    }

    /// Is a body signed as it must be? Takes as long whatever the signature says.
    pub(crate) fn is_genuine(&self, headers: &HeaderMap, body: &[u8]) -> bool {
        let Some(secret) = &self.secret else {
            return true;
        };
        let mut given = headers.get_all(&self.header).iter();
        let (Some(signature), None) = (given.next(), given.next()) else {
            return false;
        };
        let signature = signature.to_str().unwrap_or_default().trim();
        let (method, digits) = signature
            .split_once('=')
            .unwrap_or((self.digest.name(), signature));
        let is_method = method.eq_ignore_ascii_case(self.digest.name());
        let tag = crate::webhook::unhex(digits).filter(|_| is_method);
        tag.is_some_and(|tag| hmac::verify(&self.digest.key(secret), body, &tag).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("x-hub-signature", value.parse().expect("it is a header"));
        headers
    }

    #[test]
    fn an_event_counts_with_the_right_signature_alone() {
        let receiver = Receiver::new("Jefe", Digest::Sha1, None).expect("it is right");
        let body = b"what do ya want for nothing?";
        // RFC 2202, second case.
        let tag = "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79";
        assert!(receiver.is_genuine(&signed(&format!("sha1={tag}")), body));
        assert!(receiver.is_genuine(&signed(&format!("SHA1={}", tag.to_uppercase())), body));
        assert!(receiver.is_genuine(&signed(tag), body));
        for wrong in [
            "",
            "sha1=",
            "sha1=zz",
            "sha256=00",
            "sha1=0",
            &format!("sha256={tag}"),
            &tag[2..],
        ] {
            assert!(!receiver.is_genuine(&signed(wrong), body), "{wrong}");
        }
        assert!(!receiver.is_genuine(&signed(&format!("sha1={tag}")), b"another"));
        assert!(!receiver.is_genuine(&HeaderMap::new(), body));
        assert!(Receiver::open().is_genuine(&HeaderMap::new(), body));
    }

    #[test]
    fn a_receiver_comes_back_and_shows_its_secret_when_told() {
        for receiver in [
            Receiver::open(),
            Receiver::new("planted", Digest::Sha512, Some("X-Sign")).expect("it is right"),
        ] {
            assert_eq!(
                Receiver::from_json(&receiver.to_json(true)),
                Ok(receiver.clone())
            );
            assert!(!receiver.to_json(false).to_string().contains("planted"));
            assert!(!format!("{receiver:?}").contains("planted"));
        }
        for (wrong, cause) in [
            (json!({}), "needs a secret"),
            (json!({ "secret": null }), "needs a secret"),
            (json!({ "open": true, "secret": "s" }), "nothing else"),
            (json!({ "secret": "s", "digest": "md5" }), "no digest"),
            (
                json!({ "secret": "s", "header": "a b" }),
                "no name of a header",
            ),
            (json!({ "sekret": "s" }), "no key 'sekret'"),
        ] {
            let said = Receiver::from_json(&wrong).expect_err("it is wrong");
            assert!(said.contains(cause), "{wrong}: {said}");
        }
    }
}
