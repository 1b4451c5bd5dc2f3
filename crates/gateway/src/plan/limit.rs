//! Plans, as `x-headwater.plans` and `headwater gateway plans` have them.
//!
//! ```yaml
//! plans:
//!   AsyncGold: { events: 50000/day }
//!   Team:      { events: [2000/s, 1000000/day], bytes: 10MB/min, connections: 100, subscriptions: 500,
//!                user: { events: 10/s }, address: { attempts: 60/min } }
//! ```
//!
//! What stands in the plan itself is for a subscription as a whole; below `api`, `topic`, `user` and `address` are
//! limits for each of these, whoever has subscribed.

use std::fmt;
use std::time::Duration;

use lang::quantity::{size_text, time_text};
use serde_json::{Map, Value};

use super::Level;
use super::window::Window;

/// Limits of any level.
const LIMITS: [&str; 6] = [
    "attempts",
    "bytes",
    "connections",
    "duration",
    "events",
    "message",
];

/// What a plan has beside them.
const OTHERS: [&str; 6] = ["address", "api", "over", "subscriptions", "topic", "user"];

/// Windows for one thing: a second, a minute, an hour and a day, say.
const RATES_MAX: usize = 4;

/// The most that a limit can be: what databases hold.
const COUNT_MAX: u64 = i64::MAX as u64;

/// So many in a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    pub count: u64,
    pub window: Window,
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.count, self.window)
    }
}

/// What becomes of a WebSub subscription's events beyond the limit.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Over {
    /// They wait for the next window.
    #[default]
    Hold,
    Drop,
}

/// The limits of one level. What has none is not limited.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Limits {
    pub events: Vec<Rate>,
    pub bytes: Vec<Rate>,
    /// To connect.
    pub attempts: Vec<Rate>,
    /// At a time.
    pub connections: Option<u64>,
    /// Active ones of WebSub.
    pub subscriptions: Option<u64>,
    /// Bytes of one message.
    pub message: Option<u64>,
    /// Of one connection.
    pub duration: Option<Duration>,
}

/// Limits with a name, which an application subscribes to an API on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    pub name: String,
    /// Those of a subscription.
    pub limits: Limits,
    /// Those of other levels, each at most once.
    pub levels: Vec<(Level, Limits)>,
    pub over: Over,
}

/// What is wrong with a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanFault {
    /// The member at fault; empty: the plan as a whole.
    pub member: String,
    /// What is wrong, in words.
    pub message: String,
    /// What to do.
    pub help: String,
}

fn fault(member: &str, message: impl Into<String>, help: impl Into<String>) -> PlanFault {
    PlanFault {
        member: member.to_owned(),
        message: message.into(),
        help: help.into(),
    }
}

impl Plan {
    /// One without limits.
    pub fn unlimited(name: &str) -> Plan {
        Plan {
            name: name.to_owned(),
            limits: Limits::default(),
            levels: Vec::new(),
            over: Over::Hold,
        }
    }

    /// A plan of API Manager that every installation has, by its name.
    pub fn known(name: &str) -> Option<Plan> {
        let (events, subscriptions) = match name {
            "AsyncGold" => ("50000/day", None),
            "AsyncSilver" => ("25000/day", None),
            "AsyncBronze" => ("5000/day", None),
            "AsyncWHGold" => ("10000/month", Some(1000)),
            "AsyncWHSilver" => ("5000/month", Some(500)),
            "AsyncWHBronze" => ("1000/month", Some(500)),
            "AsyncUnlimited" | "AsyncWHUnlimited" | "AsyncDefaultSubscriptionless" => {
                return Some(Plan::unlimited(name));
            }
            _ => return None,
        };
        let limits = Limits {
            events: vec![rate(events, |text| text.parse().ok())?],
            subscriptions,
            ..Limits::default()
        };
        Some(Plan {
            limits,
            ..Plan::unlimited(name)
        })
    }

    /// Reads the limits of a plan.
    ///
    /// # Errors
    /// The first fault.
    pub fn from_json(name: &str, value: &Value) -> Result<Plan, PlanFault> {
        let none = Map::new();
        let members = match value {
            Value::Null => &none,
            Value::Object(members) => members,
            _ => {
                return Err(fault(
                    "",
                    format!("plan '{name}' is not an object"),
                    "write { events: 50000/day }",
                ));
            }
        };
        let mut plan = Plan::unlimited(name);
        for (member, value) in members {
            if plan.limits.read(member, value)? {
                continue;
            }
            let level = match member.as_str() {
                "api" => Level::Api,
                "topic" => Level::Topic,
                "user" => Level::User,
                "address" => Level::Address,
                "subscriptions" => {
                    plan.limits.subscriptions = Some(number(member, value)?);
                    continue;
                }
                "over" => {
                    plan.over = match value.as_str() {
                        Some("hold") => Over::Hold,
                        Some("drop") => Over::Drop,
                        _ => {
                            return Err(fault(
                                member,
                                "'over' is neither hold nor drop",
                                "write over: hold",
                            ));
                        }
                    };
                    continue;
                }
                other => return Err(unknown(other, &[&LIMITS[..], &OTHERS].concat())),
            };
            let nested = value.as_object();
            let wrong = || {
                fault(
                    member,
                    format!("'{member}' is not an object"),
                    "write { events: 10/s }",
                )
            };
            let mut limits = Limits::default();
            for (member, value) in nested.ok_or_else(wrong)? {
                if !limits.read(member, value)? {
                    return Err(unknown(member, &LIMITS));
                }
            }
            plan.levels.push((level, limits));
        }
        Ok(plan)
    }

    /// The limits of each level.
    pub fn levels(&self) -> impl Iterator<Item = (Level, &Limits)> {
        let others = self.levels.iter().map(|(level, limits)| (*level, limits));
        std::iter::once((Level::Subscription, &self.limits)).chain(others)
    }

    /// As [`Plan::from_json`] reads it.
    pub fn to_json(&self) -> Value {
        let mut members = self.limits.to_json();
        for (level, limits) in &self.levels {
            let name = match level {
                Level::Subscription => continue,
                Level::Api => "api",
                Level::Topic => "topic",
                Level::User => "user",
                Level::Address => "address",
            };
            members.insert(name.to_owned(), limits.to_json().into());
        }
        if self.over == Over::Drop {
            members.insert("over".to_owned(), "drop".into());
        }
        Value::Object(members)
    }
}

impl Limits {
    /// Reads one limit; `false` if it is none that every level has.
    fn read(&mut self, member: &str, value: &Value) -> Result<bool, PlanFault> {
        let text = value.as_str().unwrap_or_default();
        let digits = |text: &str| text.parse::<u64>().ok();
        let bytes = |text: &str| size_text(text).or_else(|| digits(text));
        match member {
            "events" => self.events = rates(member, value, "50000/day", digits)?,
            "attempts" => self.attempts = rates(member, value, "60/min", digits)?,
            "bytes" => self.bytes = rates(member, value, "10MB/min", bytes)?,
            "connections" => self.connections = Some(number(member, value)?),
            "message" => {
                let bytes = bytes(text).or_else(|| value.as_u64());
                let wrong = || fault(member, "'message' is not a size", "write message: 64kB");
                self.message = Some(bytes.ok_or_else(wrong)?);
            }
            "duration" => {
                let millis = time_text(text).and_then(|millis| u64::try_from(millis).ok());
                let wrong = || fault(member, "'duration' is not a time", "write duration: 1 hour");
                let millis = millis.filter(|millis| *millis > 0).ok_or_else(wrong)?;
                self.duration = Some(Duration::from_millis(millis));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn to_json(&self) -> Map<String, Value> {
        let mut members = Map::new();
        for (name, rates) in [
            ("events", &self.events),
            ("bytes", &self.bytes),
            ("attempts", &self.attempts),
        ] {
            let texts: Vec<String> = rates.iter().map(Rate::to_string).collect();
            match texts.len() {
                0 => {}
                1 => drop(members.insert(name.to_owned(), texts[0].clone().into())),
                _ => drop(members.insert(name.to_owned(), texts.into())),
            }
        }
        for (name, number) in [
            ("connections", self.connections),
            ("subscriptions", self.subscriptions),
            ("message", self.message),
        ] {
            if let Some(number) = number {
                members.insert(name.to_owned(), number.into());
            }
        }
        if let Some(duration) = self.duration {
            members.insert(
                "duration".to_owned(),
                format!("{} millisec", duration.as_millis()).into(),
            );
        }
        members
    }
}

fn number(member: &str, value: &Value) -> Result<u64, PlanFault> {
    let number = value.as_u64().filter(|number| *number > 0);
    let help = format!("write {member}: 100");
    number.ok_or_else(|| {
        fault(
            member,
            format!("'{member}' is not a whole number above 0"),
            help,
        )
    })
}

fn unknown(member: &str, known: &[&str]) -> PlanFault {
    let help = match lang::suggest::nearest(member, known.iter().copied()) {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("there is {}", known.join(", ")),
    };
    fault(member, format!("there is no limit '{member}'"), help)
}

/// `COUNT/WINDOW`, where `count` reads the first half.
fn rate(text: &str, count: impl Fn(&str) -> Option<u64>) -> Option<Rate> {
    let (number, window) = text.split_once('/')?;
    let count = count(number.trim()).filter(|count| (1..=COUNT_MAX).contains(count))?;
    let window = Window::parse(window)?;
    Some(Rate { count, window })
}

fn rates(
    member: &str,
    value: &Value,
    example: &str,
    count: impl Fn(&str) -> Option<u64>,
) -> Result<Vec<Rate>, PlanFault> {
    let one = std::slice::from_ref(value);
    let list = value.as_array().map_or(one, Vec::as_slice);
    let help = format!("write {member}: {example}");
    let mut rates: Vec<Rate> = Vec::new();
    for value in list {
        let text = value.as_str().unwrap_or_default();
        let wrong = || {
            let message = format!(
                "'{member}' has {value}, which is not a number in a time (s, min, hour, day, month)"
            );
            fault(member, message, help.clone())
        };
        let rate = rate(text, &count).ok_or_else(wrong)?;
        if rates.iter().any(|other| other.window == rate.window) {
            let message = format!("'{member}' has two limits for one {}", rate.window);
            return Err(fault(member, message, "leave out one of them"));
        }
        rates.push(rate);
    }
    match rates.len() {
        1..=RATES_MAX => Ok(rates),
        _ => Err(fault(
            member,
            format!("'{member}' has not one to {RATES_MAX} limits"),
            help,
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_plan_is_read_and_written() {
        let json = json!({
            "events": ["2000/s", "1000000/day"], "bytes": "10485760/min", "connections": 100, "subscriptions": 5,
            "message": 65536, "over": "drop", "duration": "3600000 millisec",
            "user": {"events": "10/s"}, "address": {"attempts": "60/min"}, "api": {}, "topic": {"connections": 7},
        });
        let plan = Plan::from_json("Team", &json).expect("it is right");
        assert_eq!(plan.limits.events[1].to_string(), "1000000/day");
        assert_eq!(plan.limits.duration, Some(Duration::from_secs(3600)));
        assert_eq!(Plan::from_json("Team", &plan.to_json()), Ok(plan));
        let plan =
            Plan::from_json("T", &json!({"bytes": "10MB/min", "message": "64kB"})).expect("right");
        assert_eq!(
            plan.limits.bytes[0].count,
            size_text("10MB").expect("a size")
        );
        assert_eq!(plan.limits.message, size_text("64kB"));
        assert_eq!(Plan::from_json("U", &Value::Null), Ok(Plan::unlimited("U")));
    }

    #[test]
    fn plans_of_api_manager_are_known() {
        let rate = |name| Plan::known(name).expect("known").limits.events[0].to_string();
        assert_eq!(rate("AsyncGold"), "50000/day");
        assert_eq!(rate("AsyncWHBronze"), "1000/month");
        assert_eq!(
            Plan::known("AsyncWHBronze").and_then(|plan| plan.limits.subscriptions),
            Some(500)
        );
        assert_eq!(
            Plan::known("AsyncUnlimited"),
            Some(Plan::unlimited("AsyncUnlimited"))
        );
        assert_eq!(Plan::known("Gold"), None);
    }

    #[test]
    fn what_is_wrong_is_named_with_what_to_do() {
        for (json, member, message, help) in [
            (json!([]), "", "not an object", "events"),
            (
                json!({"evnts": "1/s"}),
                "evnts",
                "no limit 'evnts'",
                "did you mean 'events'?",
            ),
            (
                json!({"events": "50000"}),
                "events",
                "not a number in a time",
                "50000/day",
            ),
            (
                json!({"events": 5}),
                "events",
                "not a number in a time",
                "50000/day",
            ),
            (
                json!({"events": "5/fortnight"}),
                "events",
                "month",
                "50000/day",
            ),
            (
                json!({"events": "0/s"}),
                "events",
                "not a number",
                "50000/day",
            ),
            (
                json!({"events": ["1/s", "2/s"]}),
                "events",
                "two limits for one s",
                "leave out",
            ),
            (json!({"events": []}), "events", "one to 4", "50000/day"),
            (
                json!({"bytes": "many/day"}),
                "bytes",
                "not a number",
                "10MB/min",
            ),
            (json!({"connections": 0}), "connections", "above 0", "100"),
            (json!({"connections": "5"}), "connections", "above 0", "100"),
            (
                json!({"duration": "long"}),
                "duration",
                "not a time",
                "1 hour",
            ),
            (json!({"over": "x"}), "over", "neither", "hold"),
        ] {
            let fault = Plan::from_json("P", &json).expect_err(message);
            assert_eq!(fault.member, member, "{fault:?}");
            assert!(
                fault.message.contains(message) && fault.help.contains(help),
                "{fault:?}"
            );
        }
    }
}
