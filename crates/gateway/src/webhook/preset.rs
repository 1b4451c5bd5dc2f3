//! Where each sender puts signature, time and id, and what it signs.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use connect::net::websub::Digest;
use hyper::header::{HeaderMap, HeaderName};
use ring::{hmac, signature};
use serde_json::Value as Json;

use super::{Preset, Webhook};

/// Longest id that is looked at.
const ID_BYTES_MAX: usize = 256;

/// Signatures of one event that are compared.
const SIGNATURES_MAX: usize = 16;

/// An event that its sender has signed.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Genuine {
    /// The same however often it is sent.
    pub id: Option<String>,
    /// The sender only asks whether somebody is there, and wants this back.
    pub reply: Option<String>,
}

/// Why an event is not genuine. Nothing in it is of the event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fake {
    Unsigned,
    Wrong,
    Late,
}

impl Fake {
    pub fn cause(self) -> &'static str {
        match self {
            Fake::Unsigned => "the signature, or the time that is signed, is missing",
            Fake::Wrong => "the signature is wrong",
            Fake::Late => "the time that is signed is not of now: see 'tolerance'",
        }
    }
}

/// What a signature is checked with.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Key {
    Shared(Vec<u8>),
    /// An Ed25519 key, of Standard Webhooks.
    Public(Vec<u8>),
}

impl Key {
    pub fn new(from: Preset, secret: &str) -> Result<Key, String> {
        if from != Preset::Standard {
            return Ok(Key::Shared(secret.as_bytes().to_vec()));
        }
        let decoded = |text: &str| {
            let text = text.trim_end_matches('=');
            STANDARD_NO_PAD.decode(text).map_err(|_| {
                "a secret of Standard Webhooks is base64 behind 'whsec_' or 'whpk_'".to_owned()
            })
        };
        if let Some(public) = secret.strip_prefix("whpk_") {
            let key = decoded(public)?;
            return match key.len() {
                32 => Ok(Key::Public(key)),
                _ => Err("a key 'whpk_…' is 32 bytes of Ed25519".to_owned()),
            };
        }
        let key = decoded(secret.strip_prefix("whsec_").unwrap_or(secret))?;
        match key.len() {
            24..=64 => Ok(Key::Shared(key)),
            _ => Err("a secret of Standard Webhooks has 24 to 64 bytes".to_owned()),
        }
    }
}

/// The one value of a header.
fn only<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let mut all = headers.get_all(name).iter();
    let value = all.next()?.to_str().ok()?.trim();
    all.next().is_none().then_some(value)
}

fn id_of(text: Option<&str>) -> Option<String> {
    let id = text.filter(|id| !id.is_empty() && id.len() <= ID_BYTES_MAX)?;
    Some(id.to_owned())
}

/// A member of the body, where that is a JSON object.
fn member(body: &[u8], name: &str) -> Option<String> {
    let value: Json = serde_json::from_slice(body).ok()?;
    id_of(value.get(name)?.as_str())
}

pub(super) fn judge(
    hook: &Webhook,
    headers: &HeaderMap,
    body: &[u8],
    now: u64,
) -> Result<Genuine, Fake> {
    let with_id = |id: Option<String>| Genuine { id, reply: None };
    match hook.from {
        Preset::CloudEvents => {
            // Ids are those of their source.
            let id = only(headers, "ce-id").zip(only(headers, "ce-source"));
            let id = id.map(|(id, source)| format!("{source} {id}"));
            let structured = || {
                Some(format!(
                    "{} {}",
                    member(body, "source")?,
                    member(body, "id")?
                ))
            };
            Ok(with_id(id_of(id.or_else(structured).as_deref())))
        }
        Preset::GitHub => {
            let signed = match only(headers, "x-hub-signature-256") {
                Some(signature) => (Digest::Sha256, signature),
                None => (
                    Digest::Sha1,
                    only(headers, "x-hub-signature").ok_or(Fake::Unsigned)?,
                ),
            };
            let (digest, text) = signed;
            let text = text
                .strip_prefix(digest.name())
                .and_then(|text| text.strip_prefix('='));
            hook.shared(digest, &[body], &[text.and_then(unhex).ok_or(Fake::Wrong)?])?;
            Ok(with_id(id_of(only(headers, "x-github-delivery"))))
        }
        Preset::Shopify => {
            let text = only(headers, "x-shopify-hmac-sha256").ok_or(Fake::Unsigned)?;
            let tag = STANDARD.decode(text).map_err(|_| Fake::Wrong)?;
            hook.shared(Digest::Sha256, &[body], &[tag])?;
            Ok(with_id(id_of(only(headers, "x-shopify-webhook-id"))))
        }
        Preset::Slack => {
            let text = only(headers, "x-slack-signature").ok_or(Fake::Unsigned)?;
            let time = only(headers, "x-slack-request-timestamp").ok_or(Fake::Unsigned)?;
            let tag = text
                .strip_prefix("v0=")
                .and_then(unhex)
                .ok_or(Fake::Wrong)?;
            hook.shared(
                Digest::Sha256,
                &[b"v0:", time.as_bytes(), b":", body],
                &[tag],
            )?;
            hook.in_time(time, now)?;
            let is_check = member(body, "type").as_deref() == Some("url_verification");
            Ok(Genuine {
                id: member(body, "event_id"),
                reply: is_check.then(|| member(body, "challenge")).flatten(),
            })
        }
        Preset::Stripe => {
            let text = only(headers, "stripe-signature").ok_or(Fake::Unsigned)?;
            let (mut time, mut tags) = (None, Vec::new());
            for (name, value) in text
                .split(',')
                .filter_map(|part| part.trim().split_once('='))
            {
                match name {
                    "t" => time = Some(value),
                    "v1" if tags.len() < SIGNATURES_MAX => tags.extend(unhex(value)),
                    _ => {}
                }
            }
            let time = time.ok_or(Fake::Unsigned)?;
            hook.shared(Digest::Sha256, &[time.as_bytes(), b".", body], &tags)?;
            hook.in_time(time, now)?;
            Ok(with_id(member(body, "id")))
        }
        Preset::Standard => standard(hook, headers, body, now),
        Preset::Hmac => {
            let header = hook.header.as_ref().map_or("", HeaderName::as_str);
            let text = only(headers, header).ok_or(Fake::Unsigned)?;
            // Some senders name the digest in front, some write base64.
            let text = match text.split_once('=') {
                Some((name, rest)) if name.eq_ignore_ascii_case(hook.digest.name()) => rest,
                _ => text,
            };
            let tags: Vec<Vec<u8>> = [unhex(text), STANDARD.decode(text).ok()]
                .into_iter()
                .flatten()
                .collect();
            hook.shared(hook.digest, &[body], &tags)?;
            Ok(with_id(id_of(only(headers, "webhook-id"))))
        }
    }
}

/// <https://github.com/standard-webhooks/standard-webhooks>
fn standard(hook: &Webhook, headers: &HeaderMap, body: &[u8], now: u64) -> Result<Genuine, Fake> {
    let id = only(headers, "webhook-id").ok_or(Fake::Unsigned)?;
    let time = only(headers, "webhook-timestamp").ok_or(Fake::Unsigned)?;
    let text = only(headers, "webhook-signature").ok_or(Fake::Unsigned)?;
    let parts: [&[u8]; 5] = [id.as_bytes(), b".", time.as_bytes(), b".", body];
    let (mut tags, mut signatures) = (Vec::new(), Vec::new());
    for (version, value) in text
        .split(' ')
        .take(SIGNATURES_MAX)
        .filter_map(|one| one.split_once(','))
    {
        let Ok(bytes) = STANDARD.decode(value) else {
            continue;
        };
        match version {
            "v1" => tags.push(bytes),
            "v1a" => signatures.push(bytes),
            _ => {}
        }
    }
    let is_signed = hook.shared(Digest::Sha256, &parts, &tags).is_ok() || {
        let message = parts.concat();
        let publics = hook.keys.iter().filter_map(|key| match key {
            Key::Public(key) => Some(key),
            Key::Shared(_) => None,
        });
        let mut publics =
            publics.map(|key| signature::UnparsedPublicKey::new(&signature::ED25519, key));
        publics.any(|key| {
            signatures
                .iter()
                .any(|tag| key.verify(&message, tag).is_ok())
        })
    };
    if !is_signed {
        return Err(Fake::Wrong);
    }
    hook.in_time(time, now)?;
    Ok(Genuine {
        id: id_of(Some(id)),
        reply: None,
    })
}

impl Webhook {
    /// Is one of the tags that of these parts, by one of the secrets?
    fn shared(&self, digest: Digest, parts: &[&[u8]], tags: &[Vec<u8>]) -> Result<(), Fake> {
        let shared = self.keys.iter().filter_map(|key| match key {
            Key::Shared(key) => Some(digest.key(key)),
            Key::Public(_) => None,
        });
        let message = parts.concat();
        for key in shared {
            let is_it = |tag: &Vec<u8>| hmac::verify(&key, &message, tag).is_ok();
            if tags.iter().any(is_it) {
                return Ok(());
            }
        }
        Err(Fake::Wrong)
    }

    /// Is a time that was signed near enough to now?
    fn in_time(&self, time: &str, now: u64) -> Result<(), Fake> {
        let time: u64 = time.parse().map_err(|_| Fake::Late)?;
        match now.abs_diff(time) <= self.tolerance.as_secs() {
            true => Ok(()),
            false => Err(Fake::Late),
        }
    }
}

/// Bytes of as many pairs of hexadecimal digits as the longest digest has.
pub(crate) fn unhex(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes();
    if digits.is_empty() || !digits.len().is_multiple_of(2) || digits.len() > 128 {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = digits.chunks_exact(2).map(|pair| {
        let value = digit(pair[0])? << 4 | digit(pair[1])?;
        u8::try_from(value).ok()
    });
    pairs.collect()
}
