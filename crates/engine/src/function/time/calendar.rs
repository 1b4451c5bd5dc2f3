//! Calendar arithmetic as `GregorianCalendar` does it, in milliseconds since 1970.
//!
//! Local times are milliseconds since 1970 as a clock on the wall would count them.

use jiff::Timestamp;
use jiff::tz::TimeZone;

pub const DAY_MS: i64 = 86_400_000;

/// The fields of a local time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fields {
    pub year: i64,
    /// 1 to 12.
    pub month: i64,
    /// 1 to 31.
    pub day: i64,
    /// Milliseconds since midnight.
    pub of_day: i64,
}

impl Fields {
    pub fn of(local: i64) -> Fields {
        let (year, month, day) = date_of(local.div_euclid(DAY_MS));
        Fields {
            year,
            month,
            day,
            of_day: local.rem_euclid(DAY_MS),
        }
    }

    /// Lenient: a month 13 is the January behind, a day 0 the last of the month before.
    pub fn local(&self) -> i64 {
        let months = self.year * 12 + self.month - 1;
        let first = days_of(months.div_euclid(12), months.rem_euclid(12) + 1, 1);
        (first + self.day - 1) * DAY_MS + self.of_day
    }

    /// The year before 1 AD is 1 BC.
    pub fn year_of_era(&self) -> i64 {
        match self.year > 0 {
            true => self.year,
            false => 1 - self.year,
        }
    }

    pub fn hour(&self) -> i64 {
        self.of_day / 3_600_000
    }

    pub fn minute(&self) -> i64 {
        self.of_day / 60_000 % 60
    }

    pub fn second(&self) -> i64 {
        self.of_day / 1000 % 60
    }

    pub fn millisecond(&self) -> i64 {
        self.of_day % 1000
    }

    /// 1 to 366.
    pub fn day_of_year(&self) -> i64 {
        days_of(self.year, self.month, self.day) - days_of(self.year, 1, 1) + 1
    }

    /// 1 is Sunday, 7 Saturday.
    pub fn day_of_week(&self) -> i64 {
        day_of_week(days_of(self.year, self.month, self.day))
    }
}

/// 1 is Sunday; 1970-01-01 was a Thursday.
pub fn day_of_week(days: i64) -> i64 {
    (days + 4).rem_euclid(7) + 1
}

pub fn days_in_month(year: i64, month: i64) -> i64 {
    let months = year * 12 + month;
    days_of(months.div_euclid(12), months.rem_euclid(12) + 1, 1) - days_of(year, month, 1)
}

/// The first day of the Gregorian calendar, 15 October 1582, in days since 1970; Java's calendar
/// counts the days before it as Julius Caesar did.
const GREGORIAN_FROM: i64 = -141_427;

/// Days since 1970-01-01.
pub fn days_of(year: i64, month: i64, day: i64) -> i64 {
    // The year begins in March, so that the leap day is its last.
    let y = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let (era, of_era) = (y.div_euclid(400), y.rem_euclid(400));
    let gregorian = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    match gregorian >= GREGORIAN_FROM {
        true => gregorian,
        false => y * 365 + y.div_euclid(4) + of_year - 719_470,
    }
}

fn date_of(days: i64) -> (i64, i64, i64) {
    let (year, of_year) = match days >= GREGORIAN_FROM {
        true => {
            let (era, of_era) = cycle(days + 719_468, 146_097);
            let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
            let of_year = of_era - (365 * year + year / 4 - year / 100);
            (year + era * 400, of_year)
        }
        false => {
            let (era, of_era) = cycle(days + 719_470, 1461);
            let year = (of_era - of_era / 1460) / 365;
            (year + era * 4, of_era - 365 * year)
        }
    };
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    (year + i64::from(month <= 2), month, day)
}

/// How many cycles of so many days have passed, and the day in the one that runs.
fn cycle(days: i64, length: i64) -> (i64, i64) {
    (days.div_euclid(length), days.rem_euclid(length))
}

/// How a locale counts weeks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Weeks {
    /// 1 is Sunday, 2 Monday.
    pub first_day: i64,
    /// Days a week needs in a year to be its first.
    pub days_min: i64,
}

impl Weeks {
    /// The default locale's: `en_US`.
    pub const DEFAULT: Weeks = Weeks {
        first_day: 1,
        days_min: 1,
    };

    /// Of a locale such as `fr_FR`: Europe counts as ISO 8601 does.
    pub fn of_locale(locale: &str) -> Weeks {
        const ISO: &[&str] = &[
            "AD", "AT", "BE", "BG", "CH", "CZ", "DE", "DK", "EE", "ES", "FI", "FO", "FR", "GB",
            "GR", "HU", "IE", "IS", "IT", "LI", "LT", "LU", "LV", "MC", "NL", "NO", "PL", "RU",
            "SE", "SK", "SM",
        ];
        let language = locale.split('_').next().unwrap_or("");
        let country = locale.split('_').nth(1).unwrap_or("");
        let is_iso = ISO.contains(&country)
            || country.is_empty() && matches!(language, "de" | "es" | "fr" | "it" | "nl" | "sv");
        if is_iso {
            Weeks {
                first_day: 2,
                days_min: 4,
            }
        } else {
            Weeks::DEFAULT
        }
    }

    /// The year whose week a day is in: that of its date, or a neighbour around New Year.
    pub fn week_year(&self, fields: &Fields) -> i64 {
        let day = days_of(fields.year, fields.month, fields.day);
        if day < self.first_week(fields.year) {
            fields.year - 1
        } else if day >= self.first_week(fields.year + 1) {
            fields.year + 1
        } else {
            fields.year
        }
    }

    /// The day on which week 1 of a year begins.
    pub fn first_week(&self, year: i64) -> i64 {
        let new_year = days_of(year, 1, 1);
        let into_week = (day_of_week(new_year) - self.first_day).rem_euclid(7);
        let begin = new_year - into_week;
        if 7 - into_week >= self.days_min {
            begin
        } else {
            begin + 7
        }
    }

    /// `WEEK_OF_YEAR`.
    pub fn week_of_year(&self, fields: &Fields) -> i64 {
        let days = days_of(fields.year, fields.month, fields.day);
        if days >= self.first_week(fields.year + 1) {
            return 1;
        }
        let first = self.first_week(fields.year);
        let first = if days >= first {
            first
        } else {
            self.first_week(fields.year - 1)
        };
        (days - first) / 7 + 1
    }
}

/// A local time of a zone as a timestamp. A time that a change of the clock skips moves forward.
pub fn to_timestamp(local: i64, zone: &TimeZone) -> i64 {
    let civil = Timestamp::from_millisecond(local).map(|wall| TimeZone::UTC.to_datetime(wall));
    match civil.and_then(|civil| zone.to_timestamp(civil)) {
        Ok(timestamp) => timestamp.as_millisecond(),
        // Thousands of years from here.
        Err(_) => local.saturating_sub(offset_ms(local, zone)),
    }
}

/// The local time of a timestamp.
pub fn to_local(timestamp: i64, zone: &TimeZone) -> i64 {
    timestamp.saturating_add(offset_ms(timestamp, zone))
}

/// How far the zone is ahead of UTC; before and behind the years -9999 to 9999 as far as at their
/// ends.
pub fn offset_ms(timestamp: i64, zone: &TimeZone) -> i64 {
    let end = match timestamp < 0 {
        true => Timestamp::MIN,
        false => Timestamp::MAX,
    };
    let instant = Timestamp::from_millisecond(timestamp).unwrap_or(end);
    i64::from(zone.to_offset(instant).seconds()) * 1000
}

/// `Calendar.add`: a month's day is cut to the length of the month it comes to. A unit that is not
/// known changes nothing.
pub fn add(timestamp: i64, unit: &str, count: i64, zone: &TimeZone) -> i64 {
    let fixed = match unit {
        "SECOND" => 1000,
        "MINUTE" => 60_000,
        "HOUR" => 3_600_000,
        _ => 0,
    };
    if fixed > 0 {
        return timestamp + count * fixed;
    }
    let mut fields = Fields::of(to_local(timestamp, zone));
    let months = match unit {
        "YEAR" => count * 12,
        "QUARTER" => count * 3,
        "MONTH" => count,
        "WEEK" => {
            fields.day += count * 7;
            0
        }
        "DAY" => {
            fields.day += count;
            0
        }
        _ => return timestamp,
    };
    if months != 0 {
        let all = fields.year * 12 + fields.month - 1 + months;
        (fields.year, fields.month) = (all.div_euclid(12), all.rem_euclid(12) + 1);
        fields.day = fields.day.min(days_in_month(fields.year, fields.month));
    }
    to_timestamp(fields.local(), zone)
}

/// A zone by its IANA name, by one of Java's short ids, or as an offset (`+05:30`, `GMT+2`).
pub fn zone(name: &str) -> Option<TimeZone> {
    const SHORT: &[(&str, &str)] = &[
        ("ACT", "Australia/Darwin"),
        ("AET", "Australia/Sydney"),
        ("AGT", "America/Argentina/Buenos_Aires"),
        ("ART", "Africa/Cairo"),
        ("AST", "America/Anchorage"),
        ("BET", "America/Sao_Paulo"),
        ("BST", "Asia/Dhaka"),
        ("CAT", "Africa/Harare"),
        ("CNT", "America/St_Johns"),
        ("CST", "America/Chicago"),
        ("CTT", "Asia/Shanghai"),
        ("EAT", "Africa/Addis_Ababa"),
        ("ECT", "Europe/Paris"),
        ("EST", "-05:00"),
        ("HST", "-10:00"),
        ("IET", "America/Indiana/Indianapolis"),
        ("IST", "Asia/Kolkata"),
        ("JST", "Asia/Tokyo"),
        ("MIT", "Pacific/Apia"),
        ("MST", "-07:00"),
        ("NET", "Asia/Yerevan"),
        ("NST", "Pacific/Auckland"),
        ("PLT", "Asia/Karachi"),
        ("PNT", "America/Phoenix"),
        ("PRT", "America/Puerto_Rico"),
        ("PST", "America/Los_Angeles"),
        ("SST", "Pacific/Guadalcanal"),
        ("VST", "Asia/Ho_Chi_Minh"),
    ];
    let short = SHORT
        .iter()
        .find(|(id, _)| *id == name)
        .map(|(_, zone)| *zone);
    let name = short.unwrap_or(name);
    let behind = ["GMT", "UTC", "UT"]
        .iter()
        .find_map(|p| name.strip_prefix(p));
    match behind.unwrap_or(name) {
        "" | "Z" | "0" => Some(TimeZone::UTC),
        offset if offset.starts_with(['+', '-']) => {
            let (seconds, length) = parse_offset(offset)?;
            let seconds = i32::try_from(seconds)
                .ok()
                .filter(|_| length == offset.len())?;
            let offset = jiff::tz::Offset::from_seconds(seconds).ok()?;
            Some(TimeZone::fixed(offset))
        }
        _ => TimeZone::get(name).ok(),
    }
}

/// `+hh`, `+h:mm`, `+hhmm`, `+hh:mm` at the start of a text: seconds, and the bytes read.
pub fn parse_offset(text: &str) -> Option<(i64, usize)> {
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let rest = text.strip_prefix(['+', '-'])?;
    let digits = |text: &str, most: usize| {
        text.bytes()
            .take(most)
            .take_while(u8::is_ascii_digit)
            .count()
    };
    let first = digits(rest, 4);
    let (hours, minutes, read) = match first {
        4 => (rest[..2].parse().ok()?, rest[2..4].parse().ok()?, 4),
        1 | 2 => {
            let hours: i64 = rest[..first].parse().ok()?;
            match rest[first..].strip_prefix(':') {
                Some(behind) if digits(behind, 2) == 2 => {
                    (hours, behind[..2].parse().ok()?, first + 3)
                }
                _ => (hours, 0, first),
            }
        }
        _ => return None,
    };
    let seconds: i64 = sign * (hours * 3600 + minutes * 60);
    Some((seconds, read + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_go_both_ways() {
        for local in [
            0,
            -1,
            951_782_400_000,
            1_580_702_706_789,
            -62_135_596_800_000,
        ] {
            assert_eq!(Fields::of(local).local(), local);
        }
        let leap = Fields::of(1_582_934_400_000);
        assert_eq!((leap.year, leap.month, leap.day), (2020, 2, 29));
        assert_eq!((leap.day_of_year(), leap.day_of_week()), (60, 7));
    }

    #[test]
    fn weeks_of_the_year() {
        let sunday = Fields::of(days_of(2017, 10, 8) * DAY_MS);
        assert_eq!(Weeks::DEFAULT.week_of_year(&sunday), 41);
        assert_eq!(Weeks::of_locale("fr_FR").week_of_year(&sunday), 40);
        let new_year = Fields::of(days_of(2021, 1, 1) * DAY_MS);
        assert_eq!(Weeks::DEFAULT.week_of_year(&new_year), 1);
        assert_eq!(Weeks::of_locale("de_DE").week_of_year(&new_year), 53);
    }

    #[test]
    fn zones_by_all_their_names() {
        let offset = |name: &str| zone(name).map(|z| offset_ms(0, &z) / 60_000);
        assert_eq!(offset("IST"), Some(330));
        assert_eq!(offset("EST"), Some(-300));
        assert_eq!(offset("GMT+5:30"), Some(330));
        assert_eq!(offset("+0200"), Some(120));
        assert_eq!(offset("UTC"), Some(0));
        assert_eq!(offset("Asia/Tokyo"), Some(540));
        assert_eq!(offset("Nowhere"), None);
    }
}
