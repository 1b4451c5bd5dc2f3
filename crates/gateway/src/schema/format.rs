//! The formats of texts that are checked.

use std::net::{Ipv4Addr, Ipv6Addr};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Format {
    Date,
    DateTime,
    Email,
    Ipv4,
    Ipv6,
    Time,
    Uri,
    Uuid,
}

impl Format {
    const NAMES: [(&'static str, Format); 8] = [
        ("date", Format::Date),
        ("date-time", Format::DateTime),
        ("email", Format::Email),
        ("ipv4", Format::Ipv4),
        ("ipv6", Format::Ipv6),
        ("time", Format::Time),
        ("uri", Format::Uri),
        ("uuid", Format::Uuid),
    ];

    /// `None`: it is not checked.
    pub fn parse(name: &str) -> Option<Format> {
        let mut all = Format::NAMES.iter();
        all.find(|(own, _)| *own == name).map(|(_, format)| *format)
    }

    pub fn name(self) -> &'static str {
        let mut all = Format::NAMES.iter();
        all.find(|(_, own)| *own == self)
            .map_or("", |(name, _)| name)
    }

    pub fn fits(self, text: &str) -> bool {
        match self {
            Format::Date => is_date(text),
            Format::Time => is_time(text),
            Format::DateTime => {
                let split = text.split_at_checked(10);
                split.is_some_and(|(date, rest)| {
                    let time = rest.strip_prefix(['T', 't', ' ']);
                    is_date(date) && time.is_some_and(is_time)
                })
            }
            Format::Email => text.rsplit_once('@').is_some_and(|(name, host)| {
                let is_quoted = name.len() > 1 && name.starts_with('"') && name.ends_with('"');
                let is_plain = !name.is_empty()
                    && !name.starts_with('.')
                    && !name.ends_with('.')
                    && !name.contains("..")
                    && !name.contains(|c: char| c.is_whitespace() || "\"(),:;<>@[\\]".contains(c));
                let bare = host
                    .strip_prefix('[')
                    .and_then(|host| host.strip_suffix(']'));
                let is_host = match bare {
                    Some(address) => match address.strip_prefix("IPv6:") {
                        Some(six) => six.parse::<Ipv6Addr>().is_ok(),
                        None => address.parse::<Ipv4Addr>().is_ok(),
                    },
                    None => {
                        let is_label = |label: &str| {
                            let mut all = label.bytes();
                            !label.is_empty() && all.all(|b| b.is_ascii_alphanumeric() || b == b'-')
                        };
                        host.split('.').all(is_label)
                    }
                };
                (is_quoted || is_plain) && is_host
            }),
            Format::Ipv4 => text.parse::<Ipv4Addr>().is_ok(),
            Format::Ipv6 => text.parse::<Ipv6Addr>().is_ok(),
            Format::Uri => text.split_once(':').is_some_and(|(scheme, rest)| {
                let mut letters = scheme.bytes();
                letters.next().is_some_and(|b| b.is_ascii_alphabetic())
                    && letters.all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
                    && rest
                        .bytes()
                        .all(|b| b.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&b))
            }),
            Format::Uuid => {
                let is_right = |(at, byte): (usize, u8)| match at {
                    8 | 13 | 18 | 23 => byte == b'-',
                    _ => byte.is_ascii_hexdigit(),
                };
                text.len() == 36 && text.bytes().enumerate().all(is_right)
            }
        }
    }
}

/// So many digits as a number.
fn digits(text: &str, count: usize) -> Option<u32> {
    let is_right = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_right)
}

/// RFC 3339, `full-date`.
fn is_date(text: &str) -> bool {
    let mut parts = text.split('-');
    let mut next = |count| parts.next().and_then(|part| digits(part, count));
    let (Some(year), Some(month), Some(day)) = (next(4), next(2), next(2)) else {
        return false;
    };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u32::from(is_leap),
        _ => 0,
    };
    (1..=days).contains(&day) && parts.next().is_none()
}

/// RFC 3339, `full-time`; a leap second is one where it is midnight in UTC.
fn is_time(text: &str) -> bool {
    let Some((clock, rest)) = text.split_at_checked(8) else {
        return false;
    };
    let mut parts = clock.split(':');
    let mut next = || parts.next().and_then(|part| digits(part, 2));
    let (Some(hour), Some(minute), Some(second)) = (next(), next(), next()) else {
        return false;
    };
    let rest = match rest.strip_prefix('.') {
        Some(fraction) => {
            let end = fraction
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(fraction.len());
            if end == 0 {
                return false;
            }
            &fraction[end..]
        }
        None => rest,
    };
    let minutes = match rest {
        "Z" | "z" => Some(0),
        _ => rest.split_at_checked(1).and_then(|(sign, offset)| {
            let (hours, minutes) = offset.split_once(':')?;
            let (hours, minutes) = (digits(hours, 2)?, digits(minutes, 2)?);
            let all = i64::from(hours * 60 + minutes);
            let is_right = hours < 24 && minutes < 60;
            match sign {
                "+" if is_right => Some(all),
                "-" if is_right => Some(-all),
                _ => None,
            }
        }),
    };
    let Some(minutes) = minutes else { return false };
    let is_leap =
        second == 60 && (i64::from(hour * 60 + minute) - minutes).rem_euclid(1440) == 1439;
    hour < 24 && minute < 60 && (second < 60 || is_leap)
}
