//! Date patterns of `SimpleDateFormat`, read and written as `FastDateFormat` does.
//!
//! A number that another number follows is as wide as its letters, any other takes all digits.
//! Reading is lenient (a month 13 is the January behind) and what stands behind the pattern is not
//! looked at. Names are English. The strict form is that of `java.time`: widths are exact, and the
//! whole text must match.

use std::fmt::Write;

use jiff::tz::TimeZone;

use super::calendar::{
    DAY_MS, Fields, Weeks, days_of, offset_ms, parse_offset, to_local, to_timestamp, zone,
};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

#[derive(Debug)]
pub struct DatePattern {
    items: Vec<Item>,
    is_strict: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Item {
    Literal(String),
    /// A pattern letter and how often it stands.
    Field(char, usize),
}

impl Item {
    fn is_number(&self) -> bool {
        match self {
            Item::Field('M' | 'L', width) => *width < 3,
            Item::Field(letter, _) => "yYdDHhKkmsSwWFu".contains(*letter),
            Item::Literal(_) => false,
        }
    }
}

impl DatePattern {
    pub fn new(pattern: &str) -> Result<DatePattern, String> {
        DatePattern::parse_pattern(pattern, false)
    }

    pub fn strict(pattern: &str) -> Result<DatePattern, String> {
        DatePattern::parse_pattern(pattern, true)
    }

    fn parse_pattern(pattern: &str, is_strict: bool) -> Result<DatePattern, String> {
        let mut items = Vec::new();
        let mut literal = String::new();
        let mut chars = pattern.chars().peekable();
        while let Some(c) = chars.next() {
            if c == '\'' {
                if chars.next_if_eq(&'\'').is_some() {
                    literal.push('\'');
                    continue;
                }
                loop {
                    match chars.next() {
                        None => return Err(format!("the date format '{pattern}' lacks a quote")),
                        Some('\'') if chars.next_if_eq(&'\'').is_some() => literal.push('\''),
                        Some('\'') => break,
                        Some(c) => literal.push(c),
                    }
                }
            } else if c.is_ascii_alphabetic() {
                let mut width = 1;
                while chars.next_if_eq(&c).is_some() {
                    width += 1;
                }
                if !"GyYMLwWDdFEuaHkKhmsSzZX".contains(c) {
                    return Err(format!(
                        "the date format '{pattern}' has the unknown letter '{c}'"
                    ));
                }
                if !literal.is_empty() {
                    items.push(Item::Literal(std::mem::take(&mut literal)));
                }
                items.push(Item::Field(c, width));
            } else {
                literal.push(c);
            }
        }
        if !literal.is_empty() {
            items.push(Item::Literal(literal));
        }
        Ok(DatePattern { items, is_strict })
    }

    // ---- writing ----

    pub fn format(&self, timestamp: i64, zone: &TimeZone) -> Result<String, String> {
        let fields = Fields::of(to_local(timestamp, zone));
        let offset = offset_ms(timestamp, zone) / 60_000;
        let mut out = String::new();
        for item in &self.items {
            match item {
                Item::Literal(text) => out.push_str(text),
                Item::Field(letter @ ('z' | 'Z' | 'X'), width) => {
                    write_zone(&mut out, *letter, *width, offset, zone);
                }
                Item::Field(letter, width) => write_field(&mut out, *letter, *width, &fields),
            }
        }
        Ok(out)
    }

    // ---- reading ----

    /// The timestamp of a text; local times without a zone of their own are those of `zone`.
    pub fn parse(&self, text: &str, zone: &TimeZone) -> Result<i64, String> {
        let read = self.read(text)?;
        let local = read.local();
        match &read.zone {
            Some(own) => Ok(to_timestamp(local, own)),
            None => Ok(to_timestamp(local, zone)),
        }
    }

    /// The local time of a text, whatever its zone.
    pub fn parse_local(&self, text: &str) -> Result<i64, String> {
        Ok(self.read(text)?.local())
    }

    fn read(&self, text: &str) -> Result<Read, String> {
        let mut read = Read::default();
        let mut rest = text;
        for (i, item) in self.items.iter().enumerate() {
            let next_is_number = self.items.get(i + 1).is_some_and(Item::is_number);
            rest = self
                .read_item(item, next_is_number, rest, &mut read)
                .ok_or_else(|| {
                    format!("'{text}' does not have the date format '{}'", self.shown())
                })?;
        }
        if self.is_strict && !rest.is_empty() {
            return Err(format!(
                "'{text}' does not have the date format '{}'",
                self.shown()
            ));
        }
        Ok(read)
    }

    fn shown(&self) -> String {
        let mut out = String::new();
        for item in &self.items {
            match item {
                Item::Literal(text) => out.push_str(text),
                Item::Field(letter, width) => out.extend(std::iter::repeat_n(*letter, *width)),
            }
        }
        out
    }

    fn read_item<'t>(
        &self,
        item: &Item,
        next_is_number: bool,
        text: &'t str,
        read: &mut Read,
    ) -> Option<&'t str> {
        let (letter, width) = match item {
            Item::Literal(literal) => return text.strip_prefix(literal.as_str()),
            Item::Field(letter, width) => (*letter, *width),
        };
        match letter {
            'z' | 'Z' | 'X' => return read_zone(text, read),
            'G' => return ["AD", "BC"].iter().find_map(|era| strip_word(text, era)),
            'a' => {
                let (half, rest) = read_name(text, &["AM", "PM"], 2)?;
                read.half = Some(half);
                return Some(rest);
            }
            'E' => return read_name(text, &DAYS, 3).map(|(_, rest)| rest),
            'M' | 'L' if width >= 3 => {
                let (month, rest) = read_name(text, &MONTHS, 3)?;
                read.month = Some(month + 1);
                return Some(rest);
            }
            _ => {}
        }
        let (value, digits, rest) = read_number(text, next_is_number.then_some(width))?;
        if self.is_strict && (width >= 2 && digits != width && letter != 'S') {
            return None;
        }
        read.set(letter, width, digits, value);
        Some(rest)
    }
}

fn write_field(out: &mut String, letter: char, width: usize, fields: &Fields) {
    let hour = fields.hour();
    let padded = |out: &mut String, value: i64| {
        write!(out, "{value:0width$}").expect("writing to a string cannot fail");
    };
    let year = match letter {
        'Y' => Weeks::DEFAULT.week_year(fields),
        _ => fields.year_of_era(),
    };
    match letter {
        'G' => out.push_str(if fields.year > 0 { "AD" } else { "BC" }),
        'y' | 'Y' if width == 2 => {
            let year = year.rem_euclid(100);
            write!(out, "{year:02}").expect("writing to a string cannot fail");
        }
        'y' | 'Y' => {
            let width = width.max(4);
            write!(out, "{year:0width$}").expect("writing to a string cannot fail");
        }
        'M' | 'L' if width >= 3 => {
            let name = MONTHS[fields.month as usize - 1];
            out.push_str(if width == 3 { &name[..3] } else { name });
        }
        'M' | 'L' => padded(out, fields.month),
        'E' => {
            let name = DAYS[fields.day_of_week() as usize - 1];
            out.push_str(if width < 4 { &name[..3] } else { name });
        }
        'a' => out.push_str(if hour < 12 { "AM" } else { "PM" }),
        'u' => padded(out, (fields.day_of_week() + 5) % 7 + 1),
        'd' => padded(out, fields.day),
        'D' => padded(out, fields.day_of_year()),
        'F' => padded(out, (fields.day - 1) / 7 + 1),
        'w' => padded(out, Weeks::DEFAULT.week_of_year(fields)),
        'W' => {
            let first = Fields { day: 1, ..*fields }.day_of_week();
            padded(out, (fields.day + first - 2) / 7 + 1);
        }
        'H' => padded(out, hour),
        'k' => padded(out, if hour == 0 { 24 } else { hour }),
        'K' => padded(out, hour % 12),
        'h' => padded(out, if hour % 12 == 0 { 12 } else { hour % 12 }),
        'm' => padded(out, fields.minute()),
        's' => padded(out, fields.second()),
        _ => padded(out, fields.millisecond()),
    }
}

fn write_zone(out: &mut String, letter: char, width: usize, offset: i64, zone: &TimeZone) {
    let (sign, hours, minutes) = (
        if offset < 0 { '-' } else { '+' },
        offset.abs() / 60,
        offset.abs() % 60,
    );
    let written = match (letter, width) {
        ('z', _) if offset == 0 => {
            out.push_str(zone.iana_name().filter(|n| *n == "UTC").unwrap_or("GMT"));
            Ok(())
        }
        ('z', _) => write!(out, "GMT{sign}{hours:02}:{minutes:02}"),
        ('X', _) if offset == 0 => {
            out.push('Z');
            Ok(())
        }
        ('X', 1) => write!(out, "{sign}{hours:02}"),
        ('Z', 2) | ('X', 3..) => write!(out, "{sign}{hours:02}:{minutes:02}"),
        _ => write!(out, "{sign}{hours:02}{minutes:02}"),
    };
    written.expect("writing to a string cannot fail");
}

fn read_number(text: &str, width: Option<usize>) -> Option<(i64, usize, &str)> {
    let text = if width.is_none() {
        text.trim_start()
    } else {
        text
    };
    let most = width.unwrap_or(18).min(18);
    let digits = text
        .bytes()
        .take(most)
        .take_while(u8::is_ascii_digit)
        .count();
    let value = text[..digits].parse().ok()?;
    Some((value, digits, &text[digits..]))
}

fn strip_word<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let head = text.get(..word.len())?;
    head.eq_ignore_ascii_case(word).then(|| &text[word.len()..])
}

/// A name in full or its first letters, in any case.
fn read_name<'t>(text: &'t str, names: &[&str], short: usize) -> Option<(i64, &'t str)> {
    let full = names
        .iter()
        .enumerate()
        .find_map(|(i, name)| strip_word(text, name).map(|rest| (i as i64, rest)));
    full.or_else(|| {
        names
            .iter()
            .enumerate()
            .find_map(|(i, name)| strip_word(text, &name[..short]).map(|rest| (i as i64, rest)))
    })
}

/// An offset, `Z`, or a zone by name.
fn read_zone<'t>(text: &'t str, read: &mut Read) -> Option<&'t str> {
    let after_gmt = text.strip_prefix("GMT").unwrap_or(text);
    if let Some((_, length)) = parse_offset(after_gmt) {
        read.zone = zone(&after_gmt[..length]);
        return read.zone.is_some().then(|| &after_gmt[length..]);
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_');
    let length = text.find(|c| !is_name(c)).unwrap_or(text.len());
    let name = match &text[..length] {
        "" => return None,
        "EDT" => "America/New_York",
        "CDT" => "America/Chicago",
        "MDT" => "America/Denver",
        "PDT" => "America/Los_Angeles",
        name => name,
    };
    read.zone = zone(name);
    read.zone.is_some().then(|| &text[length..])
}

/// The fields that a text gave.
#[derive(Default, Debug)]
struct Read {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    week_of_year: Option<i64>,
    hour: Option<i64>,
    /// Hour of half a day, 0 to 11.
    half_hour: Option<i64>,
    /// 0 in the morning, 1 in the afternoon.
    half: Option<i64>,
    minute: i64,
    second: i64,
    millisecond: i64,
    zone: Option<TimeZone>,
}

impl Read {
    fn set(&mut self, letter: char, width: usize, digits: usize, value: i64) {
        match letter {
            // Two digits are a year near now: 80 years back, 20 ahead of 2025.
            'y' | 'Y' if width <= 2 && digits <= 2 => {
                self.year = Some(if value < 45 {
                    2000 + value
                } else {
                    1900 + value
                });
            }
            'y' | 'Y' => self.year = Some(value),
            'M' | 'L' => self.month = Some(value),
            'd' => self.day = Some(value),
            'D' => self.day_of_year = Some(value),
            'w' => self.week_of_year = Some(value),
            'H' => self.hour = Some(value),
            'k' => self.hour = Some(if value == 24 { 0 } else { value }),
            'K' => self.half_hour = Some(value),
            'h' => self.half_hour = Some(if value == 12 { 0 } else { value }),
            'm' => self.minute = value,
            's' => self.second = value,
            'S' => self.millisecond = value,
            _ => {}
        }
    }

    /// What is missing is that of 1970-01-01 00:00. The day of the month counts before that of the
    /// year.
    fn local(&self) -> i64 {
        let year = self.year.unwrap_or(1970);
        let half = self.half.unwrap_or(0) * 12;
        let hour = self
            .hour
            .unwrap_or_else(|| self.half_hour.unwrap_or(0) + half);
        let of_day = ((hour * 60 + self.minute) * 60 + self.second) * 1000 + self.millisecond;
        match (self.day, self.day_of_year, self.week_of_year) {
            (None, Some(day), _) => (days_of(year, 1, 1) + day - 1) * DAY_MS + of_day,
            (None, None, Some(week)) => {
                (Weeks::DEFAULT.first_week(year) + (week - 1) * 7) * DAY_MS + of_day
            }
            _ => Fields {
                year,
                month: self.month.unwrap_or(1),
                day: self.day.unwrap_or(1),
                of_day,
            }
            .local(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, text: &str, timestamp: i64) {
        let parsed = DatePattern::new(pattern).and_then(|p| p.parse(text, &TimeZone::UTC));
        assert_eq!(parsed, Ok(timestamp), "{pattern} of {text}");
    }

    fn check_format(pattern: &str, timestamp: i64, text: &str) {
        let formatted = DatePattern::new(pattern).and_then(|p| p.format(timestamp, &TimeZone::UTC));
        assert_eq!(formatted.as_deref(), Ok(text), "{pattern} of {timestamp}");
    }

    #[test]
    fn texts_become_times() {
        check(
            "yyyy-MM-dd HH:mm:ss.SSS",
            "2007-11-30 10:30:19.000",
            1_196_418_619_000,
        );
        check(
            "yyyy-MM-dd HH:mm:ss",
            "2014-11-9 13:23:44",
            1_415_539_424_000,
        );
        check(
            "yyyy-MM-DD HH:MM:SS",
            "2007-11-30 10:30:19",
            1_170_151_200_019,
        );
        check("yyyyMMdd", "20141111", 1_415_664_000_000);
        check("yyyy-MM-dd", "2014-11-11 and more", 1_415_664_000_000);
        check("yyyy-MM-dd", "2014-13-01", 1_420_070_400_000);
        check("HH:mm:ss.SSS", "13:23:44.657", 48_224_657);
        check(
            "yyyy-MM-dd hh:mm:ss",
            "2014-3-11 22:23:44",
            1_394_576_624_000,
        );
        check("dd MMM yyyy hh a", "11 Nov 2014 01 PM", 1_415_710_800_000);
        check("EEE, d MMMM yy", "Tue, 11 november 14", 1_415_664_000_000);
        check(
            "yyyy-MM-dd'T'HH:mm:ss.SSSZ",
            "2014-11-11T13:23:44.657+0530",
            1_415_692_424_657,
        );
        check(
            "yyyy-MM-dd'T'HH:mm:ss.SSSZ",
            "2014-11-11T13:23:44.657GMT",
            1_415_712_224_657,
        );
        check(
            "yyyy-MM-dd'T'HH:mm:ssX",
            "2014-11-11T13:23:44Z",
            1_415_712_224_000,
        );
        for (pattern, text) in [
            ("yyyy-MM-dd", "2014:11-11"),
            ("HH", "x"),
            ("d MMM", "1 Foo"),
        ] {
            let pattern = DatePattern::new(pattern).expect("a pattern");
            assert!(pattern.parse(text, &TimeZone::UTC).is_err(), "{text}");
        }
        assert!(DatePattern::new("yyyy-bb").is_err());
        assert!(DatePattern::new("yyyy'T").is_err());
    }

    #[test]
    fn times_become_texts() {
        let time = 1_415_712_224_057;
        check_format("yyyy-MM-dd HH:mm:ss.SSS", time, "2014-11-11 13:23:44.057");
        check_format("yy/M/d h:m a", time, "14/11/11 1:23 PM");
        check_format("EEE EEEE MMM MMMM", time, "Tue Tuesday Nov November");
        check_format("D w W F u k K", time, "315 46 3 2 2 13 1");
        check_format("yyyy-MM-dd'T'HH:mm:ssZ", time, "2014-11-11T13:23:44+0000");
        check_format("HH:mm ZZ X z ''", time, "13:23 +00:00 Z UTC '");
        // The year that week 1 belongs to: 2020-12-31, 2022-01-01, 2020-12-26.
        check_format("YYYY YY ww", 1_609_372_800_000, "2021 21 01");
        check_format("Y w", 1_640_995_200_000, "2022 1");
        check_format("Y w", 1_608_940_800_000, "2020 52");
    }
}
