//! Which rejected events are meant.

use super::record::{Stage, View};
use crate::clock;

/// Numbers that a filter may name.
pub const NUMBERS_MAX: usize = 10_000;

/// No event has a larger one.
const NUMBER_MAX: u64 = i64::MAX.unsigned_abs();

/// All conditions that are set must hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// These alone, in order; empty for all.
    numbers: Vec<u64>,
    app: Option<String>,
    stream: Option<String>,
    stage: Option<Stage>,
    /// A part of the cause.
    cause: Option<String>,
    /// Milliseconds since 1970, inclusive.
    since: Option<i64>,
    /// Milliseconds since 1970, exclusive.
    until: Option<i64>,
}

impl Filter {
    /// One event.
    pub fn of_number(number: u64) -> Filter {
        Filter {
            numbers: vec![number],
            ..Filter::default()
        }
    }

    /// The conditions of these names and values: `number` (also several, with commas), `app`, `stream`,
    /// `stage`, `cause`, `since`, `until`. Others are left to the caller.
    ///
    /// # Errors
    /// A value is none, with what is expected.
    pub fn from_pairs<'a>(
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Filter, String> {
        let mut filter = Filter::default();
        let now = clock::wall_millis();
        for (name, value) in pairs {
            let time = || {
                clock::parse_time(value, now).ok_or_else(|| {
                    format!(
                        "'{name}' is '{value}': write how long ago (90s, 15min, 1h, 7d) or a time \
                         (2026-01-31T09:00:00Z)"
                    )
                })
            };
            match name {
                "number" => filter.add_numbers(value)?,
                "app" => filter.app = Some(value.to_owned()),
                "stream" => filter.stream = Some(value.to_owned()),
                "cause" => filter.cause = Some(value.to_owned()),
                "since" => filter.since = Some(time()?),
                "until" => filter.until = Some(time()?),
                "stage" => {
                    let stage = Stage::from_name(value);
                    let wrong = || format!("'{value}' is no stage: write {}", Stage::NAMES);
                    filter.stage = Some(stage.ok_or_else(wrong)?);
                }
                _ => {}
            }
        }
        filter.numbers.sort_unstable();
        filter.numbers.dedup();
        Ok(filter)
    }

    fn add_numbers(&mut self, text: &str) -> Result<(), String> {
        for number in text.split(',') {
            let number = number.trim().parse();
            let number = number
                .ok()
                .filter(|number| (1..=NUMBER_MAX).contains(number));
            let number = number.ok_or_else(|| format!("'{text}' is no number of an event"))?;
            self.numbers.push(number);
        }
        match self.numbers.len() > NUMBERS_MAX {
            true => Err(format!(
                "at most {NUMBERS_MAX} events can be named by number"
            )),
            false => Ok(()),
        }
    }

    /// Events of one app that came before a time.
    pub fn of_app_before(app: Option<&str>, until: Option<i64>) -> Filter {
        Filter {
            app: app.map(str::to_owned),
            until,
            ..Filter::default()
        }
    }

    /// Nothing is left out.
    pub fn is_all(&self) -> bool {
        *self == Filter::default()
    }

    pub(super) fn takes(&self, number: u64, view: &View<'_>) -> bool {
        let is = |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|w| w == is);
        (self.numbers.is_empty() || self.numbers.binary_search(&number).is_ok())
            && is(&self.app, view.app)
            && is(&self.stream, view.stream)
            && self.stage.is_none_or(|stage| stage == view.stage)
            && self.since.is_none_or(|since| view.time >= since)
            && self.until.is_none_or(|until| view.time < until)
            && (self.cause.as_ref()).is_none_or(|cause| view.cause.contains(cause.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rejected::Rejection;

    #[test]
    fn every_condition_must_hold() {
        let rejection = Rejection {
            time: 5000,
            app: "A".into(),
            stream: "S".into(),
            stage: Stage::Sink,
            cause: "503 busy".into(),
            ..Rejection::default()
        };
        let record = rejection.write();
        let view = View::read(&record).expect("reads");
        let takes = |pairs: &[(&str, &str)]| {
            let filter = Filter::from_pairs(pairs.iter().copied()).expect("a filter");
            filter.takes(7, &view)
        };
        assert!(takes(&[]) && takes(&[("unknown", "x")]));
        assert!(takes(&[
            ("app", "A"),
            ("stream", "S"),
            ("stage", "sink"),
            ("cause", "503")
        ]));
        assert!(takes(&[
            ("number", "3, 7"),
            ("since", "5000"),
            ("until", "5001")
        ]));
        for wrong in [
            ("app", "B"),
            ("stream", "s"),
            ("stage", "query"),
            ("cause", "504"),
            ("number", "8"),
            ("since", "5001"),
            ("until", "5000"),
        ] {
            assert!(!takes(&[("app", "A"), wrong]), "{wrong:?}");
        }
        for wrong in [("stage", "x"), ("number", "x"), ("since", "soon")] {
            assert!(Filter::from_pairs([wrong]).is_err(), "{wrong:?}");
        }
    }
}
