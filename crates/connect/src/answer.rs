//! What the answer of a destination means for the event that was sent to it (`docs/delivery.md`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Longest time that a destination may ask to be left alone for; a longer wish is cut to it.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// Bytes of an answer that are kept as the cause of a failure.
pub const ANSWER_SHOWN_BYTES: usize = 512;

/// What an answer says about the event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnswerClass {
    /// It has arrived.
    Accepted,
    /// Not now: `on.error` decides.
    Retry,
    /// Never: sending it again is in vain.
    Refused,
}

impl AnswerClass {
    pub const ALL: [AnswerClass; 3] = [
        AnswerClass::Accepted,
        AnswerClass::Retry,
        AnswerClass::Refused,
    ];

    /// By the status of an HTTP answer. A redirect is refused: it is not followed.
    pub fn of_status(status: u16) -> AnswerClass {
        match status {
            200..=299 => AnswerClass::Accepted,
            408 | 425 | 429 | 500.. => AnswerClass::Retry,
            _ => AnswerClass::Refused,
        }
    }

    /// As it is called in `/metrics`.
    pub fn name(self) -> &'static str {
        match self {
            AnswerClass::Accepted => "accepted",
            AnswerClass::Retry => "retry",
            AnswerClass::Refused => "refused",
        }
    }
}

/// Answers of one sink by class. Counts requests, not events.
#[derive(Debug, Default)]
pub struct AnswerCounts {
    accepted: AtomicU64,
    retry: AtomicU64,
    refused: AtomicU64,
}

impl AnswerCounts {
    fn of(&self, class: AnswerClass) -> &AtomicU64 {
        match class {
            AnswerClass::Accepted => &self.accepted,
            AnswerClass::Retry => &self.retry,
            AnswerClass::Refused => &self.refused,
        }
    }

    pub fn add(&self, class: AnswerClass, count: u64) {
        self.of(class).fetch_add(count, Ordering::Relaxed);
    }

    pub fn get(&self, class: AnswerClass) -> u64 {
        self.of(class).load(Ordering::Relaxed)
    }
}

/// How long a `Retry-After` asks to wait, which it says in seconds or by a date; `None` if it says
/// neither. Five minutes at most.
pub fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let wait = match is_number {
        true => Duration::from_secs(value.parse().unwrap_or(u64::MAX)),
        false => http_date(value)?.duration_since(now).unwrap_or_default(),
    };
    Some(wait.min(RETRY_AFTER_MAX))
}

/// The date of a header as senders must write it: `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, 5.6.7).
fn http_date(value: &str) -> Option<SystemTime> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (_, rest) = value.split_once(", ")?;
    let mut parts = rest.split(' ');
    let day: u64 = parts
        .next()?
        .parse()
        .ok()
        .filter(|d| (1..=31).contains(d))?;
    let month = parts.next()?;
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    let year = parts.next()?.parse::<u64>().ok();
    let year = year.filter(|year| (1970..10_000).contains(year))?;
    let mut clock = parts
        .next()?
        .split(':')
        .map(|part| part.parse::<u64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    if parts.next() != Some("GMT") || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Years begin with March, so that the day that some lack is the last.
    let (years, months) = match month {
        1 | 2 => (year - 1, month + 9),
        _ => (year, month - 3),
    };
    let days = years * 365 + years / 4 - years / 100 + years / 400 + (months * 153 + 2) / 5 + day;
    const DAYS_TO_1970: u64 = 719_469;
    let seconds = days.checked_sub(DAYS_TO_1970)? * 86_400 + hour * 3600 + minute * 60 + second;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// The start of an answer's body as text for a cause; empty if there is none.
pub fn shown(body: &[u8]) -> String {
    let start = &body[..body.len().min(ANSWER_SHOWN_BYTES)];
    let text = String::from_utf8_lossy(start);
    let text = text.trim();
    match text.is_empty() {
        true => String::new(),
        false => format!(": {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_of_one_class() {
        for (class, all) in [
            (AnswerClass::Accepted, &[200, 201, 202, 204, 299][..]),
            (
                AnswerClass::Retry,
                &[408, 425, 429, 500, 502, 503, 504, 599],
            ),
            (
                AnswerClass::Refused,
                &[301, 304, 400, 401, 403, 404, 410, 413, 422],
            ),
        ] {
            for status in all {
                assert_eq!(AnswerClass::of_status(*status), class, "{status}");
            }
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = UNIX_EPOCH + Duration::from_secs(784_111_777);
        let wait = |value: &str| retry_after(value, now).map(|wait| wait.as_secs());
        assert_eq!(wait("7"), Some(7));
        assert_eq!(wait("Sun, 06 Nov 1994 08:49:37 GMT"), Some(0));
        assert_eq!(wait("Sun, 06 Nov 1994 08:51:07 GMT"), Some(90));
        assert_eq!(wait("Tue, 29 Feb 2000 00:00:00 GMT"), Some(300));
        assert_eq!(wait("Sat, 05 Nov 1994 08:49:37 GMT"), Some(0));
        assert_eq!(wait("99999999999999999999999"), Some(300));
        for odd in [
            "",
            "soon",
            "-1",
            "1.5",
            "Sun, 06 Nov 1994",
            "Sun, 6 Foo 1994 08:49:37 GMT",
        ] {
            assert_eq!(wait(odd), None, "{odd}");
        }
    }

    #[test]
    fn of_an_answer_the_start_is_shown() {
        assert_eq!(shown(b" \n"), "");
        assert_eq!(shown(b"no such id\n"), ": no such id");
        assert_eq!(shown(&[b'x'; 2000]).len(), ANSWER_SHOWN_BYTES + 2);
    }
}
