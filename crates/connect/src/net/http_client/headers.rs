//! Headers and bodies that follow from options and payloads.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hyper::body::Bytes;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};

use crate::component::Payload;
use crate::option::list;
use crate::url::encode;

/// The content type of a mapper's payloads where `headers` names none (`HttpSinkUtil`).
pub fn content_type(mapper: &str) -> &'static str {
    match mapper {
        "xml" => "application/xml",
        "json" => "application/json",
        "keyvalue" => "application/x-www-form-urlencoded",
        _ => "text/plain",
    }
}

/// Adds the headers of an option `'name:value','name:value'`; those of equal name are replaced.
pub fn add(into: &mut HeaderMap, text: &str) -> Result<(), String> {
    let entries = list(text)
        .map_err(|entry| format!("header '{entry}' is wrong: write 'name:value','name:value'"))?;
    for (name, value) in entries {
        let key = HeaderName::from_bytes(name.as_bytes());
        let value = HeaderValue::from_str(&value);
        let (Ok(key), Ok(value)) = (key, value) else {
            return Err(format!("header '{name}' cannot be sent"));
        };
        into.insert(key, value);
    }
    Ok(())
}

/// `Basic …`, marked so that it is written nowhere.
pub fn basic(user: &str, password: &str) -> HeaderValue {
    let encoded = BASE64.encode(format!("{user}:{password}"));
    secret(&format!("Basic {encoded}")).expect("base64 is plain ASCII")
}

/// A value that is written nowhere; `None` where it has characters that no header can hold.
pub fn secret(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The body of a payload; keys and values as a form. `None` where it has no such form.
pub fn body(payload: Payload<'_>) -> Option<Bytes> {
    match payload {
        Payload::Text(text) => Some(Bytes::copy_from_slice(text.as_bytes())),
        Payload::Bytes(bytes) => Some(Bytes::copy_from_slice(bytes)),
        Payload::Map(entries) => {
            let pairs = entries
                .iter()
                .map(|(key, value)| (event::text::to_text(key), event::text::to_text(value)));
            Some(form(pairs).into())
        }
        Payload::Events(_) | Payload::Object(_) => None,
    }
}

/// Two digits a byte.
pub fn hex(bytes: &[u8]) -> String {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push(char::from(HEX[usize::from(byte >> 4)]));
        text.push(char::from(HEX[usize::from(byte & 15)]));
    }
    text
}

/// `a=b&c=d`.
pub fn form<K: AsRef<str>, V: AsRef<str>>(pairs: impl IntoIterator<Item = (K, V)>) -> String {
    let mut text = String::new();
    for (key, value) in pairs {
        if !text.is_empty() {
            text.push('&');
        }
        encode(&mut text, key.as_ref());
        text.push('=');
        encode(&mut text, value.as_ref());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::url::decode;

    #[test]
    fn forms_are_encoded() {
        let text = form([("a b", "1&2"), ("c", "é=")]);
        assert_eq!(text, "a+b=1%262&c=%C3%A9%3D");
        assert_eq!(decode("%C3%A9%3D"), "é=");
    }

    #[test]
    fn headers_of_an_option_replace_and_are_checked() {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("text/plain"));
        add(&mut headers, "'Content-Type:application/json','X: y:z'").unwrap();
        assert_eq!(headers["content-type"], "application/json");
        assert_eq!(headers["x"], "y:z");
        assert!(add(&mut headers, "'nope'").is_err());
        assert!(add(&mut headers, "'a b:c'").is_err());
        assert!(add(&mut headers, "'a:b\nc'").is_err());
        assert!(basic("u", "p").is_sensitive());
    }
}
