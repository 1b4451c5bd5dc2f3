//! What an API says of its hub, below `x-headwater.websub`.
//!
//! ```yaml
//! websub: { digest: sha256, lease: { default: 10d, max: 30d }, retry: { over: 3d }, callback-networks: [ 10.0.0.0/8 ] }
//! ```

use std::time::Duration;

use connect::net::http_client::EgressPolicy;
use connect::net::websub::{Digest, LEASE, LEASE_MAX};
use connect::url::Url;
use serde_json::{Map, Value};

use super::receiver::Receiver;
use crate::access::RuleFault;
use crate::document::duration;

/// How long an event is tried.
const OVER: Duration = Duration::from_secs(3 * 24 * 3600);
const OVER_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

const MEMBERS: [&str; 6] = [
    "callback-networks",
    "digest",
    "lease",
    "moved",
    "receiver",
    "retry",
];

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rules {
    pub digest: Digest,
    /// Of who asks for none, in seconds.
    pub lease: i64,
    /// The longest, in seconds.
    pub lease_max: i64,
    /// After this time without success an event is a dead letter.
    pub over: Duration,
    /// Where callbacks may be.
    pub networks: EgressPolicy,
    /// Where events come in that are signed; `None`: nowhere.
    pub receiver: Option<Receiver>,
    /// The hub that subscribers are sent to instead of this one; what they have here lasts to the end of its lease.
    pub moved: Option<String>,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            digest: Digest::default(),
            lease: LEASE,
            lease_max: LEASE_MAX,
            over: OVER,
            networks: EgressPolicy::default(),
            receiver: None,
            moved: None,
        }
    }
}

fn fault(message: impl Into<String>, help: impl Into<String>) -> RuleFault {
    RuleFault {
        message: message.into(),
        help: help.into(),
    }
}

impl Rules {
    /// # Errors
    /// The first fault.
    pub fn from_json(value: &Value) -> Result<Rules, RuleFault> {
        let none = Map::new();
        let members = match value {
            Value::Null => &none,
            Value::Object(members) => members,
            _ => {
                return Err(fault(
                    "'websub' is not an object",
                    "write { digest: sha256 }",
                ));
            }
        };
        let mut rules = Rules::default();
        for (member, value) in members {
            match member.as_str() {
                "digest" => {
                    let digest = value.as_str().and_then(Digest::parse);
                    let help = format!("write {}", Digest::NAMES.join(", "));
                    rules.digest =
                        digest.ok_or_else(|| fault(format!("there is no digest {value}"), help))?;
                }
                "lease" => rules.lease(value)?,
                "retry" => {
                    let over = times(value, "retry", &["over"])?[0];
                    let over = over.filter(|over| (Duration::ZERO..=OVER_MAX).contains(over));
                    let wrong = || {
                        fault(
                            "'retry' needs 'over', up to 30 days",
                            "write retry: { over: 3d }",
                        )
                    };
                    rules.over = over.ok_or_else(wrong)?;
                }
                "receiver" => {
                    let receiver = Receiver::from_json(value);
                    let help = "write receiver: { secret: '…', digest: sha256 }";
                    rules.receiver = Some(receiver.map_err(|said| fault(said, help))?);
                }
                "moved" => {
                    let url = value.as_str().filter(|text| Url::parse(text).is_some());
                    let help = "write moved: 'https://hub.example/hub'";
                    let wrong = || fault("'moved' is not an http or https URL", help);
                    rules.moved = Some(url.ok_or_else(wrong)?.to_owned());
                }
                "callback-networks" => {
                    let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
                    let texts: Option<Vec<&str>> = list.iter().map(Value::as_str).collect();
                    let help = "write [ '10.0.0.0/8' ]";
                    let texts = texts.filter(|texts| !texts.is_empty());
                    let texts = texts.ok_or_else(|| {
                        fault("'callback-networks' is not a list of networks", help)
                    })?;
                    let parsed = EgressPolicy::parse(&texts.join(","));
                    rules.networks =
                        parsed.map_err(|bad| fault(format!("'{bad}' is not a network"), help))?;
                }
                other => {
                    let help = match lang::suggest::nearest(other, MEMBERS) {
                        Some(near) => format!("did you mean '{near}'?"),
                        None => format!("there is {}", MEMBERS.join(", ")),
                    };
                    return Err(fault(format!("'websub' has no key '{other}'"), help));
                }
            }
        }
        Ok(rules)
    }

    fn lease(&mut self, value: &Value) -> Result<(), RuleFault> {
        let seconds = |time: Duration| {
            i64::try_from(time.as_secs())
                .unwrap_or(LEASE_MAX)
                .clamp(1, LEASE_MAX)
        };
        let times = times(value, "lease", &["default", "max"])?;
        if let Some(max) = times[1] {
            self.lease_max = seconds(max);
            self.lease = self.lease.min(self.lease_max);
        }
        if let Some(default) = times[0] {
            self.lease = seconds(default);
        }
        match self.lease <= self.lease_max {
            true => Ok(()),
            false => Err(fault(
                "the default lease is longer than the longest",
                "make it shorter",
            )),
        }
    }
}

/// The times of an object that has no other members.
fn times(value: &Value, name: &str, known: &[&str]) -> Result<Vec<Option<Duration>>, RuleFault> {
    let help = format!("write {name}: {{ {}: 3d }}", known[0]);
    let members = value.as_object();
    let members =
        members.ok_or_else(|| fault(format!("'{name}' is not an object"), help.clone()))?;
    if let Some(other) = members
        .keys()
        .find(|member| !known.contains(&member.as_str()))
    {
        return Err(fault(format!("'{name}' has no key '{other}'"), help));
    }
    let read = |member: &&str| match members.get(*member) {
        None => Ok(None),
        Some(value) => {
            let time = value.as_str().and_then(duration);
            let wrong = || {
                fault(
                    format!("'{member}' of '{name}' is not a time"),
                    help.clone(),
                )
            };
            time.map(Some).ok_or_else(wrong)
        }
    };
    known.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rules_are_read_or_refused_with_what_to_do() {
        let json = json!({
            "digest": "sha512", "lease": {"default": "1d", "max": "2d"}, "retry": {"over": "1h"},
            "callback-networks": ["10.0.0.0/8", "127.0.0.1"],
        });
        let rules = Rules::from_json(&json).expect("it is right");
        assert_eq!(
            (rules.digest, rules.lease, rules.lease_max),
            (Digest::Sha512, 86_400, 172_800)
        );
        assert_eq!(rules.over, Duration::from_secs(3600));
        assert_eq!(Rules::from_json(&Value::Null), Ok(Rules::default()));
        let short = Rules::from_json(&json!({"lease": {"max": "1h"}})).expect("it is right");
        assert_eq!((short.lease, short.lease_max), (3600, 3600));
        for (json, message, help) in [
            (json!([]), "not an object", "digest"),
            (
                json!({"digets": "sha1"}),
                "no key 'digets'",
                "did you mean 'digest'?",
            ),
            (json!({"digest": "md5"}), "no digest", "sha384"),
            (json!({"lease": "1d"}), "not an object", "default"),
            (
                json!({"lease": {"default": "3d", "max": "2d"}}),
                "longer than the longest",
                "shorter",
            ),
            (json!({"lease": {"min": "1d"}}), "no key 'min'", "default"),
            (json!({"retry": {"over": "soon"}}), "not a time", "over"),
            (json!({"retry": {}}), "needs 'over'", "3d"),
            (
                json!({"callback-networks": "10.0.0.0/8"}),
                "not a list",
                "10.0.0.0/8",
            ),
            (
                json!({"callback-networks": ["10.0.0.0/99"]}),
                "'10.0.0.0/99' is not a network",
                "10",
            ),
        ] {
            let fault = Rules::from_json(&json).expect_err(message);
            assert!(
                fault.message.contains(message) && fault.help.contains(help),
                "{fault:?}"
            );
        }
    }
}
