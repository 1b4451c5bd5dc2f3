//! What a session is set to: what `SET` changes and `SHOW` answers, as clients of PostgreSQL expect it.
//!
//! Only `statement_timeout` changes how statements are answered. What else can be set is kept and shown; a time zone or
//! a style of dates that is not ours is said to have no effect.

use std::time::Duration;

/// The version that clients are told: they choose by it what they ask of the catalog.
pub const SERVER_VERSION: &str = "15.0";

/// Settings, and bytes of one, that a session keeps.
const COUNT_MAX: usize = 200;
const BYTES_MAX: usize = 4096;

/// Those that each session has; a client is told of those with `true`, at the beginning and when they change.
const KNOWN: &[(&str, &str, bool)] = &[
    ("application_name", "", true),
    ("client_encoding", "UTF8", true),
    ("client_min_messages", "notice", false),
    ("datestyle", "ISO, MDY", true),
    ("default_transaction_isolation", "read committed", false),
    ("default_transaction_read_only", "on", true),
    ("extra_float_digits", "1", false),
    ("in_hot_standby", "off", true),
    ("integer_datetimes", "on", true),
    ("intervalstyle", "postgres", true),
    ("is_superuser", "off", true),
    ("lc_collate", "C", false),
    ("lc_ctype", "C", false),
    ("max_identifier_length", "63", false),
    ("scram_iterations", "4096", false),
    ("search_path", "public", false),
    ("server_encoding", "UTF8", true),
    ("server_version", SERVER_VERSION, true),
    ("server_version_num", "150000", false),
    ("session_authorization", "", true),
    ("standard_conforming_strings", "on", true),
    ("statement_timeout", "0", false),
    ("timezone", "UTC", true),
    ("transaction_isolation", "read committed", false),
    ("transaction_read_only", "on", false),
];

/// As they are written where clients look for them.
const WRITTEN: &[(&str, &str)] = &[
    ("datestyle", "DateStyle"),
    ("intervalstyle", "IntervalStyle"),
    ("timezone", "TimeZone"),
];

/// What came of a change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Change {
    Done,
    /// With what has no effect.
    Warned(String),
    Refused(String),
}

/// Those of a session.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// Names in lower case.
    all: Vec<(String, String)>,
    /// Since the client was told last.
    changed: Vec<String>,
    statement_timeout: Option<Duration>,
}

impl Settings {
    pub fn new(user: &str) -> Settings {
        let all = KNOWN
            .iter()
            .map(|(name, value, _)| ((*name).to_owned(), (*value).to_owned()));
        let mut settings = Settings {
            all: all.collect(),
            changed: Vec::new(),
            statement_timeout: None,
        };
        settings.put("session_authorization", user);
        settings.changed.clear();
        settings
    }

    /// For the beginning of a session: what a client is told.
    pub fn told(&self) -> impl Iterator<Item = (&str, &str)> {
        let told = KNOWN.iter().filter(|(.., is_told)| *is_told);
        told.filter_map(|(name, ..)| Some((written(name), self.get(name)?)))
    }

    /// What has changed since the client was told.
    pub fn take_changed(&mut self) -> Vec<(String, String)> {
        let changed = std::mem::take(&mut self.changed);
        let told = changed.into_iter().filter(|name| is_told(name));
        told.filter_map(|name| {
            let value = self.get(&name)?.to_owned();
            Some((written(&name).to_owned(), value))
        })
        .collect()
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        let mut found = self
            .all
            .iter()
            .filter(|(n, _)| n.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.as_str())
    }

    /// For `SHOW ALL`.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.all.iter();
        all.map(|(name, value)| (written(name), value.as_str()))
    }

    /// Of one statement; `None`: that of the server.
    pub fn statement_timeout(&self) -> Option<Duration> {
        self.statement_timeout
    }

    pub fn set(&mut self, name: &str, value: &str) -> Change {
        let name = name.to_ascii_lowercase();
        let fixed = [
            "in_hot_standby",
            "integer_datetimes",
            "is_superuser",
            "max_identifier_length",
            "server_encoding",
            "server_version",
            "server_version_num",
            "session_authorization",
        ];
        if fixed.contains(&&*name) && self.get(&name) != Some(value) {
            return Change::Refused(format!("parameter \"{name}\" cannot be changed"));
        }
        match &*name {
            "client_encoding" => {
                let plain: String = value
                    .chars()
                    .filter(char::is_ascii_alphanumeric)
                    .map(|c| c.to_ascii_lowercase())
                    .collect();
                // What is not told apart by a client is passed on as it is.
                return match &*plain {
                    "utf8" | "unicode" | "auto" | "sqlascii" => Change::Done,
                    _ => Change::Refused(format!(
                        "encoding \"{value}\" is not spoken here, but UTF8"
                    )),
                };
            }
            "standard_conforming_strings" if !is_on(value) => {
                let message =
                    "a backslash in a text is a backslash: standard_conforming_strings stays on";
                return Change::Refused(message.to_owned());
            }
            "default_transaction_read_only" | "transaction_read_only" if !is_on(value) => {
                let message = "statements only read here: rows are written by apps";
                return Change::Warned(message.to_owned());
            }
            "timezone"
                if !matches!(
                    &*value.to_ascii_lowercase(),
                    "utc" | "gmt" | "etc/utc" | "default" | "0"
                ) =>
            {
                return Change::Warned(format!(
                    "times are in UTC here: TimeZone '{value}' has no effect"
                ));
            }
            "timezone" => return Change::Done,
            "datestyle" if !value.to_ascii_lowercase().contains("iso") => {
                return Change::Warned(format!(
                    "dates are as ISO 8601 has them here: DateStyle '{value}' has no effect"
                ));
            }
            "datestyle" => return Change::Done,
            "statement_timeout" => match timeout(value) {
                Some(time) => self.statement_timeout = (!time.is_zero()).then_some(time),
                None => {
                    return Change::Refused(format!(
                        "\"{value}\" is no time: write 5000 (milliseconds) or '5s'"
                    ));
                }
            },
            _ => {}
        }
        let is_known = self.get(&name).is_some();
        if value.len() > BYTES_MAX || name.len() > 63 || (!is_known && self.all.len() >= COUNT_MAX)
        {
            return Change::Refused("this is more than a session keeps".to_owned());
        }
        self.put(&name, value);
        Change::Done
    }

    /// As it was at the beginning.
    pub fn reset(&mut self, name: &str) {
        let name = name.to_ascii_lowercase();
        let known = KNOWN.iter().find(|(known, ..)| *known == name);
        match known {
            Some((name, value, _)) if *name != "session_authorization" => self.put(name, value),
            Some(_) => {}
            None => self.all.retain(|(known, _)| *known != name),
        }
        if name == "statement_timeout" {
            self.statement_timeout = None;
        }
    }

    pub fn reset_all(&mut self) {
        let names: Vec<String> = self.all.iter().map(|(name, _)| name.clone()).collect();
        names.iter().for_each(|name| self.reset(name));
    }

    fn put(&mut self, name: &str, value: &str) {
        let found = self.all.iter_mut().find(|(known, _)| known == name);
        match found {
            Some((_, known)) if known == value => return,
            Some((_, known)) => value.clone_into(known),
            None => self.all.push((name.to_owned(), value.to_owned())),
        }
        self.changed.push(name.to_owned());
    }
}

fn is_told(name: &str) -> bool {
    KNOWN
        .iter()
        .any(|(known, _, is_told)| *known == name && *is_told)
}

fn written(name: &str) -> &str {
    let found = WRITTEN.iter().find(|(known, _)| *known == name);
    found.map_or(name, |(_, written)| written)
}

fn is_on(value: &str) -> bool {
    matches!(
        &*value.to_ascii_lowercase(),
        "on" | "true" | "yes" | "1" | "default"
    )
}

/// Milliseconds, or a number with a unit.
fn timeout(value: &str) -> Option<Duration> {
    let value = value.trim();
    if value.eq_ignore_ascii_case("default") {
        return Some(Duration::ZERO);
    }
    let end = value
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(value.len());
    let (number, unit) = value.split_at(end);
    let number: u64 = number.parse().ok()?;
    let millis = match unit.trim() {
        "" | "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    Some(Duration::from_millis(number.checked_mul(millis)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_kept_told_and_reset() {
        let mut settings = Settings::new("anna");
        assert_eq!(settings.get("Server_Version"), Some(SERVER_VERSION));
        assert!(settings.told().any(|told| told == ("TimeZone", "UTC")));
        assert_eq!(settings.set("Application_Name", "psql"), Change::Done);
        let changed = settings.take_changed();
        assert_eq!(
            changed,
            [("application_name".to_owned(), "psql".to_owned())]
        );
        assert_eq!(settings.set("my.own", "x"), Change::Done);
        assert!(settings.take_changed().is_empty(), "it is not told");
        assert_eq!(settings.get("my.own"), Some("x"));
        settings.reset_all();
        assert_eq!(settings.get("my.own"), None);
        assert_eq!(settings.get("application_name"), Some(""));
        assert_eq!(settings.get("session_authorization"), Some("anna"));
    }

    #[test]
    fn what_has_no_effect_is_said_and_what_cannot_be_is_refused() {
        let mut settings = Settings::new("anna");
        for (name, value) in [("TimeZone", "Europe/Berlin"), ("DateStyle", "German")] {
            assert!(
                matches!(settings.set(name, value), Change::Warned(_)),
                "{name}"
            );
        }
        for (name, value) in [
            ("server_version", "9.6"),
            ("client_encoding", "LATIN1"),
            ("standard_conforming_strings", "off"),
            ("statement_timeout", "soon"),
            ("a", &*"x".repeat(5000)),
        ] {
            assert!(
                matches!(settings.set(name, value), Change::Refused(_)),
                "{name}"
            );
        }
        for n in 0..1000 {
            settings.set(&format!("own.n{n}"), "x");
        }
        assert!(settings.all().count() <= COUNT_MAX);
    }

    #[test]
    fn the_timeout_of_a_statement_has_units() {
        let mut settings = Settings::new("anna");
        for (value, millis) in [
            ("250", Some(250)),
            ("5s", Some(5000)),
            ("2 min", Some(120_000)),
            ("0", None),
        ] {
            assert_eq!(settings.set("statement_timeout", value), Change::Done);
            assert_eq!(
                settings.statement_timeout(),
                millis.map(Duration::from_millis)
            );
        }
    }
}
