//! Events that others send by webhooks: who has sent one is known by its signature, and each counts once.
//!
//! ```yaml
//! topics:
//!   /issues: { stream: Issues/Issues, webhook: { from: github, secret: 's3cret' } }
//! ```
//!
//! Promises: a signature is compared in constant time, over the bytes as they came; a timestamp that is signed must be
//! of now; an event whose id was taken before is answered as it was then, and not taken again. Never: a secret in a
//! message or a log line.

mod preset;
mod seen;

use std::fmt;
use std::time::Duration;

use connect::net::websub::Digest;
use hyper::header::{HeaderMap, HeaderName};
use serde_json::{Map, Value as Json};

pub(crate) use preset::{Fake, Genuine, unhex};
pub(crate) use seen::{Place, Seen, Taken};

use crate::document::duration;

const MEMBERS: [&str; 5] = ["digest", "from", "header", "secret", "tolerance"];

/// How far the clock of a sender may be off, and how long an event may be on its way.
const TOLERANCE: Duration = Duration::from_secs(300);

/// Secrets at once: some are on their way in and some on their way out.
const SECRETS_MAX: usize = 8;

/// Longest secret in bytes.
const SECRET_BYTES_MAX: usize = 1024;

/// Who sends, and so where signature, time and id of an event are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preset {
    /// CloudEvents' HTTP webhooks: no signature, so the topic asks for a token.
    CloudEvents,
    GitHub,
    /// A digest of the body in a header that is named.
    Hmac,
    Shopify,
    Slack,
    /// <https://www.standardwebhooks.com>
    Standard,
    Stripe,
}

impl Preset {
    pub const NAMES: [&'static str; 7] = [
        "cloudevents",
        "github",
        "hmac",
        "shopify",
        "slack",
        "standard",
        "stripe",
    ];

    pub fn name(self) -> &'static str {
        Preset::NAMES[self as usize]
    }

    pub fn parse(name: &str) -> Option<Preset> {
        let all = [
            Preset::CloudEvents,
            Preset::GitHub,
            Preset::Hmac,
            Preset::Shopify,
            Preset::Slack,
            Preset::Standard,
            Preset::Stripe,
        ];
        all.into_iter().find(|preset| preset.name() == name)
    }
}

/// By what the events of a topic are known to be genuine.
#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    pub from: Preset,
    /// As they are written; one is enough.
    secrets: Vec<String>,
    keys: Vec<preset::Key>,
    /// Of [`Preset::Hmac`].
    digest: Digest,
    header: Option<HeaderName>,
    tolerance: Duration,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook")
            .field("from", &self.from)
            .field("digest", &self.digest)
            .field("header", &self.header)
            .field("tolerance", &self.tolerance)
            .finish_non_exhaustive()
    }
}

impl Webhook {
    /// # Errors
    /// The first fault, in words.
    pub(crate) fn from_json(value: &Json) -> Result<Webhook, String> {
        let members = value
            .as_object()
            .ok_or("'webhook' is not a map such as { from: github, secret: … }")?;
        let mut names = members.keys();
        if let Some(other) = names.find(|name| !MEMBERS.contains(&name.as_str())) {
            let known = MEMBERS.join(", ");
            return Err(format!("'webhook' has no key '{other}'; there is {known}"));
        }
        let text = |name: &str| members.get(name).and_then(Json::as_str);
        let known = Preset::NAMES.join(", ");
        let name = text("from")
            .ok_or_else(|| format!("'webhook' says not whom events are from: {known}"))?;
        let from = Preset::parse(name)
            .ok_or_else(|| format!("'from' is '{name}', and there is {known}"))?;
        let secrets = secrets_of(members.get("secret"))?;
        match (from, secrets.is_empty()) {
            (Preset::CloudEvents, false) => {
                return Err(
                    "CloudEvents are not signed: let the operation ask for a token".to_owned(),
                );
            }
            (Preset::CloudEvents, true) | (_, false) => {}
            (_, true) => {
                return Err("'webhook' needs the secret that events are signed with".to_owned());
            }
        }
        let keys = secrets.iter().map(|secret| preset::Key::new(from, secret));
        let keys = keys.collect::<Result<Vec<preset::Key>, String>>()?;
        let (header, digest) = (text("header"), text("digest"));
        if from != Preset::Hmac && (header.is_some() || digest.is_some()) {
            return Err(format!(
                "'header' and 'digest' are for 'hmac': {name} has its own"
            ));
        }
        let header = match (from, header) {
            (Preset::Hmac, None) => {
                return Err("'hmac' needs the header that has the signature".to_owned());
            }
            (_, name) => name
                .map(|name| {
                    name.to_ascii_lowercase()
                        .parse()
                        .map_err(|_| format!("'{name}' is no name of a header"))
                })
                .transpose()?,
        };
        let digest = match digest {
            None => Digest::Sha256,
            Some(name) => {
                Digest::parse(name).ok_or_else(|| format!("there is no digest '{name}'"))?
            }
        };
        let tolerance = match members.get("tolerance") {
            None => TOLERANCE,
            Some(said) => said
                .as_str()
                .and_then(duration)
                .filter(|time| !time.is_zero())
                .ok_or("'tolerance' is not a time such as 5min")?,
        };
        Ok(Webhook {
            from,
            secrets,
            keys,
            digest,
            header,
            tolerance,
        })
    }

    /// As [`Webhook::from_json`] reads it; with the secrets, or with none in their place.
    pub(crate) fn to_json(&self, shows_secret: bool) -> Json {
        let mut members = Map::new();
        members.insert("from".to_owned(), self.from.name().into());
        if self.has_secret() {
            let secrets = match (shows_secret, self.secrets.as_slice()) {
                (false, _) => Json::Null,
                (true, [only]) => only.as_str().into(),
                (true, several) => several.into(),
            };
            members.insert("secret".to_owned(), secrets);
        }
        if let Some(header) = &self.header {
            members.insert("header".to_owned(), header.as_str().into());
            members.insert("digest".to_owned(), self.digest.name().into());
        }
        if self.tolerance != TOLERANCE {
            let millis = format!("{}ms", self.tolerance.as_millis());
            members.insert("tolerance".to_owned(), millis.into());
        }
        members.into()
    }

    pub(crate) fn has_secret(&self) -> bool {
        !self.secrets.is_empty()
    }

    /// Judges an event. `now`: seconds since 1970.
    ///
    /// # Errors
    /// Why it is not genuine.
    pub(crate) fn judge(
        &self,
        headers: &HeaderMap,
        body: &[u8],
        now: u64,
    ) -> Result<Genuine, Fake> {
        preset::judge(self, headers, body, now)
    }
}

/// One secret, or a list.
fn secrets_of(said: Option<&Json>) -> Result<Vec<String>, String> {
    let secrets: Vec<String> = match said {
        None | Some(Json::Null) => Vec::new(),
        Some(Json::String(one)) => vec![one.clone()],
        Some(Json::Array(all)) => {
            let texts = all.iter().map(|one| one.as_str().map(str::to_owned));
            texts
                .collect::<Option<_>>()
                .ok_or("'secret' is neither a text nor a list of texts")?
        }
        Some(_) => return Err("'secret' is neither a text nor a list of texts".to_owned()),
    };
    let is_right = |secret: &String| (1..=SECRET_BYTES_MAX).contains(&secret.len());
    if secrets.len() > SECRETS_MAX || !secrets.iter().all(is_right) {
        return Err(format!(
            "'secret' is one of 1 to {SECRET_BYTES_MAX} bytes, or a list of {SECRETS_MAX} such at most"
        ));
    }
    Ok(secrets)
}

#[cfg(test)]
mod tests;
