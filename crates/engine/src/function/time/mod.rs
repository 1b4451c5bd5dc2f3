//! `time:`: dates and times as texts and as milliseconds.
//!
//! Texts without a zone are those of the app's zone; "now" is the wall clock, in playback too. A
//! null argument gives null, a text that does not have its format is an error.

pub(crate) mod calendar;
mod params;
mod pattern;

pub use pattern::DatePattern;

use event::{Type, Value};
use jiff::tz::TimeZone;

use super::row::{Row, RowFunction, int, long, null_in_null_out, row, text};
use crate::spec::*;
use calendar::{DAY_MS, Fields, Weeks};
use params::*;

/// The format of a text where none is given.
const DEFAULT: &str = "yyyy-MM-dd HH:mm:ss.SSS";
const SECONDS: &str = "yyyy-MM-dd HH:mm:ss";

/// Sorted by name.
pub static ROWS: &[RowFunction] = &[
    row!(
        scalar("currentDate", "Today, as `yyyy-MM-dd`.", &[NONE], STRING),
        current_date,
        "time:currentDate() as d"
    ),
    row!(
        scalar(
            "currentTime",
            "The time of day, as `HH:mm:ss`.",
            &[NONE],
            STRING,
        ),
        current_time,
        "time:currentTime() as t"
    ),
    row!(
        scalar(
            "currentTimestamp",
            "Now, as `yyyy-MM-dd HH:mm:ss`.",
            &[NONE, Overload::new(&[ZONE])],
            STRING,
        ),
        current_timestamp,
        "time:currentTimestamp() as t"
    ),
    row!(
        scalar(
            "date",
            "The date of a time.",
            // Siddhi declares the form with one argument and refuses it when the app is made.
            &[Overload::new(&[DATE, FORMAT]), Overload::new(&[DATE])],
            STRING,
        ),
        date,
        "time:date('2014/11/11 13:23', 'yyyy/MM/dd HH:mm') as d"
    ),
    row!(
        scalar("dateAdd", "A time later by some units.", SHIFT, STRING),
        date_add,
        "time:dateAdd('2014-11-11', 2, 'day', 'yyyy-MM-dd') as d"
    ),
    row!(
        scalar(
            "dateDiff",
            "Days between two times.",
            &[
                Overload::new(&[
                    DATE1,
                    DATE2,
                    param("date.format1", Types::STRING, "Format of the first."),
                    param("date.format2", Types::STRING, "Format of the second."),
                ]),
                Overload::new(&[DATE1, DATE2]),
                Overload::new(&[
                    param(
                        "timestamp.in.milliseconds1",
                        Types::LONG,
                        "The later time in ms.",
                    ),
                    param(
                        "timestamp.in.milliseconds2",
                        Types::LONG,
                        "The earlier time in ms.",
                    ),
                ]),
            ],
            LONG,
        ),
        date_diff,
        "time:dateDiff('2014-11-11', '2014-11-09', 'yyyy-MM-dd', 'yyyy-MM-dd') as n"
    ),
    row!(
        scalar(
            "dateFormat",
            "A time in another format.",
            &[
                Overload::new(&[
                    DATE,
                    TARGET,
                    param("date.source.format", Types::STRING, "Format of the value."),
                ]),
                Overload::new(&[DATE, TARGET]),
                Overload::new(&[MILLIS, TARGET]),
            ],
            STRING,
        ),
        date_format,
        "time:dateFormat('2014-11-11', 'dd.MM.yyyy', 'yyyy-MM-dd') as d"
    ),
    row!(
        scalar("dateSub", "A time earlier by some units.", SHIFT, STRING),
        date_sub,
        "time:dateSub('2014-11-11', 2, 'day', 'yyyy-MM-dd') as d"
    ),
    row!(
        scalar(
            "dayOfWeek",
            "Name of the day.",
            &[Overload::new(&[DATE, FORMAT]), Overload::new(&[DATE])],
            STRING,
        ),
        day_of_week,
        "time:dayOfWeek('2014-11-11', 'yyyy-MM-dd') as d"
    ),
    row!(
        scalar(
            "extract",
            "One unit of a time as a number.",
            &[
                Overload::new(&[UNIT, DATE]),
                Overload::new(&[UNIT, DATE, FORMAT]),
                Overload::new(&[UNIT, DATE, FORMAT, LOCALE]),
                Overload::new(&[MILLIS, UNIT]),
                Overload::new(&[MILLIS, UNIT, LOCALE]),
            ],
            INT,
        ),
        extract,
        "time:extract('YEAR', '2014-11-11', 'yyyy-MM-dd') as y"
    ),
    row!(
        scalar(
            "timestampInMilliseconds",
            "A time in milliseconds; now without an argument.",
            &[NONE, Overload::new(&[DATE, FORMAT]), Overload::new(&[DATE])],
            LONG,
        ),
        timestamp_in_milliseconds,
        "time:timestampInMilliseconds('2014-11-11', 'yyyy-MM-dd') as t"
    ),
    row!(
        scalar(
            "timezoneConvert",
            "A time in another time zone.",
            &[
                Overload::new(&[
                    DATE,
                    FORMAT,
                    param("target.time.zone", Types::STRING, "Zone of the result."),
                ]),
                Overload::new(&[
                    DATE,
                    FORMAT,
                    param("target.time.zone", Types::STRING, "Zone of the result."),
                    param("source.time.zone", Types::STRING, "Zone of the value."),
                ]),
            ],
            STRING,
        ),
        timezone_convert,
        "time:timezoneConvert('2014-11-11 13:23', 'yyyy-MM-dd HH:mm', 'PST', 'UTC') as t"
    ),
    row!(
        scalar(
            "utcTimestamp",
            "Now in UTC.",
            &[NONE, Overload::new(&[FORMAT])],
            STRING,
        ),
        utc_timestamp,
        "time:utcTimestamp() as t"
    ),
];

/// The zone of the app.
fn own_zone(row: &Row<'_, '_>) -> Result<TimeZone, String> {
    let name = row.context.environment.zone.as_str();
    if name.is_empty() {
        return Ok(TimeZone::UTC);
    }
    zone(name)
}

fn zone(name: &str) -> Result<TimeZone, String> {
    calendar::zone(name).ok_or_else(|| format!("time zone '{name}' is not known"))
}

fn written(
    time: i64,
    format: &str,
    zone: &TimeZone,
    row: &mut Row<'_, '_>,
) -> Result<Value, String> {
    let text = row.memo.date_pattern(format)?.format(time, zone)?;
    Ok(Value::str(&text))
}

fn read(text: &str, format: &str, row: &mut Row<'_, '_>) -> Result<i64, String> {
    let zone = own_zone(row)?;
    row.memo.date_pattern(format)?.parse(text, &zone)
}

fn current_date(_: &[Value], row: &mut Row<'_, '_>) -> Result<Value, String> {
    written(row.context.wall, "yyyy-MM-dd", &own_zone(row)?, row)
}

fn current_time(_: &[Value], row: &mut Row<'_, '_>) -> Result<Value, String> {
    written(row.context.wall, "HH:mm:ss", &own_zone(row)?, row)
}

fn current_timestamp(args: &[Value], row: &mut Row<'_, '_>) -> Result<Value, String> {
    let zone = match args.first() {
        None | Some(Value::Null) => own_zone(row)?,
        Some(_) => zone(text(args, 0)?)?,
    };
    written(row.context.wall, SECONDS, &zone, row)
}

fn utc_timestamp(args: &[Value], row: &mut Row<'_, '_>) -> Result<Value, String> {
    if null_in_null_out(args) {
        return Ok(Value::Null);
    }
    let format = if args.is_empty() {
        SECONDS
    } else {
        text(args, 0)?
    };
    written(row.context.wall, format, &TimeZone::UTC, row)
}

fn date(args: &[Value], row: &mut Row<'_, '_>) -> Result<Value, String> {
    if null_in_null_out(args) {
        return Ok(Value::Null);
    }
    let format = if args.len() > 1 {
        text(args, 1)?
    } else {
        DEFAULT
    };
    let time = read(text(args, 0)?, format, row)?;
    written(time, "yyyy-MM-dd", &own_zone(row)?, row)
}

/// In the form with milliseconds a lower-case unit does nothing (Siddhi's defect, which an app can
/// depend on).
fn date_add(args: &[Value], row: &mut Row<'_, '_>) -> Result<Value, String> {
    shifted(args, 1, false, row)
}

fn date_sub(args: &[Value], row: &mut Row<'_, '_>) -> Result<Value, String> {
    shifted(args, -1, true, row)
}

fn shifted(
    args: &[Value],
    sign: i64,
    any_case: bool,
    row: &mut Row<'_, '_>,
) -> Result<Value, String> {
    if null_in_null_out(args) {
        return Ok(Value::Null);
    }
    let (count, unit) = (sign * i64::from(int(args, 1)?), text(args, 2)?);
    let zone = own_zone(row)?;
    if row.types[0] == Type::Long {
        let time = long(args, 0)?;
        let unit = if any_case {
            unit.to_uppercase()
        } else {
            unit.to_owned()
        };
        let time = calendar::add(time, &unit, count, &zone);
        return Ok(Value::str(&time.to_string()));
    }
    let format = if args.len() > 3 {
        text(args, 3)?
    } else {
        DEFAULT
    };
    let time = read(text(args, 0)?, format, row)?;
    let time = calendar::add(time, &unit.to_uppercase(), count, &zone);
    written(time, format, &zone, row)
}

/// Whole days from the second to the first, cut towards zero.
fn date_diff(args: &[Value], row: &mut Row<'_, '_>) -> Result<Value, String> {
    if null_in_null_out(args) {
        return Ok(Value::Null);
    }
    let (a, b) = if row.types[0] == Type::Long {
        (long(args, 0)?, long(args, 1)?)
    } else {
        let format = |index: usize| {
            if args.len() > index {
                text(args, index)
            } else {
                Ok(DEFAULT)
            }
        };
        let (first, second) = (format(2)?, format(3)?);
        (
            read(text(args, 0)?, first, row)?,
            read(text(args, 1)?, second, row)?,
        )
    };
    Ok(Value::Long(a.wrapping_sub(b) / DAY_MS))
}

fn date_format(args: &[Value], row: &mut Row<'_, '_>) -> Result<Value, String> {
    if null_in_null_out(args) {
        return Ok(Value::Null);
    }
    let time = if row.types[0] == Type::Long {
        long(args, 0)?
    } else {
        let source = if args.len() > 2 {
            text(args, 2)?
        } else {
            DEFAULT
        };
        read(text(args, 0)?, source, row)?
    };
    written(time, text(args, 1)?, &own_zone(row)?, row)
}

/// Without a format only what stands in front of the first blank is read, as `yyyy-MM-dd`.
fn day_of_week(args: &[Value], row: &mut Row<'_, '_>) -> Result<Value, String> {
    if null_in_null_out(args) {
        return Ok(Value::Null);
    }
    let time = if args.len() > 1 {
        read(text(args, 0)?, text(args, 1)?, row)?
    } else {
        let date = text(args, 0)?.split(' ').next().unwrap_or("");
        read(date, "yyyy-MM-dd", row)?
    };
    written(time, "EEEE", &own_zone(row)?, row)
}

/// `extract(unit, text [, format [, locale]])` or `extract(millis, unit [, locale])`.
fn extract(args: &[Value], row: &mut Row<'_, '_>) -> Result<Value, String> {
    if null_in_null_out(args) {
        return Ok(Value::Null);
    }
    let (time, unit, locale) = if row.types[0] == Type::Long {
        (long(args, 0)?, text(args, 1)?, args.get(2))
    } else {
        let format = if args.len() > 2 {
            text(args, 2)?
        } else {
            DEFAULT
        };
        (
            read(text(args, 1)?, format, row)?,
            text(args, 0)?,
            args.get(3),
        )
    };
    let weeks = locale
        .and_then(Value::as_str)
        .map_or(Weeks::DEFAULT, Weeks::of_locale);
    let fields = Fields::of(calendar::to_local(time, &own_zone(row)?));
    let value = match unit.to_uppercase().as_str() {
        "YEAR" => fields.year_of_era(),
        "MONTH" => fields.month,
        "WEEK" => weeks.week_of_year(&fields),
        "DAY" => fields.day,
        "HOUR" => fields.hour(),
        "MINUTE" => fields.minute(),
        "SECOND" => fields.second(),
        "QUARTER" => (fields.month - 1) / 3 + 1,
        _ => 0,
    };
    Ok(Value::Int(value as i32))
}

/// Without an argument, and with a single null, the wall clock.
fn timestamp_in_milliseconds(args: &[Value], row: &mut Row<'_, '_>) -> Result<Value, String> {
    match args {
        [] | [Value::Null] => return Ok(Value::Long(row.context.wall)),
        args if null_in_null_out(args) => return Ok(Value::Null),
        _ => {}
    }
    let format = if args.len() > 1 {
        text(args, 1)?
    } else {
        DEFAULT
    };
    read(text(args, 0)?, format, row).map(Value::Long)
}

/// The zone that a text names is not looked at: the time is one of the source zone.
fn timezone_convert(args: &[Value], row: &mut Row<'_, '_>) -> Result<Value, String> {
    if null_in_null_out(args) {
        return Ok(Value::Null);
    }
    let source = if args.len() > 3 {
        zone(text(args, 3)?)?
    } else {
        own_zone(row)?
    };
    let target = zone(text(args, 2)?)?;
    let pattern = row.memo.strict_date_pattern(text(args, 1)?)?;
    let time = calendar::to_timestamp(pattern.parse_local(text(args, 0)?)?, &source);
    Ok(Value::str(&pattern.format(time, &target)?))
}

#[cfg(test)]
mod tests {
    use crate::function::testing::*;

    #[test]
    fn the_wall_clock() {
        check("time:currentDate", &[], "'2020-02-03'");
        check("time:currentTime", &[], "'04:05:06'");
        check("time:currentTimestamp", &[], "'2020-02-03 04:05:06'");
        check(
            "time:currentTimestamp",
            &[s("Asia/Kolkata")],
            "'2020-02-03 09:35:06'",
        );
        check(
            "time:currentTimestamp",
            &[s("Nowhere")],
            "!'Nowhere' is not known",
        );
        check("time:utcTimestamp", &[s("HH")], "'04'");
        check("time:timestampInMilliseconds", &[], "1580702706789L");
        check("time:timestampInMilliseconds", &[NULL], "1580702706789L");
    }

    #[test]
    fn shifts() {
        let (text, format) = (s("2014-11-11 13:23:44"), s("yyyy-MM-dd HH:mm:ss"));
        let add = |n: i32, unit: &str, expect: &str| {
            check(
                "time:dateAdd",
                &[text.clone(), i(n), s(unit), format.clone()],
                expect,
            );
        };
        add(2, "YEAR", "'2016-11-11 13:23:44'");
        add(2, "month", "'2015-01-11 13:23:44'");
        add(1, "QUARTER", "'2015-02-11 13:23:44'");
        add(-2, "SECOND", "'2014-11-11 13:23:42'");
        add(1, "week", "'2014-11-18 13:23:44'");
        add(1, "NOTHING", "'2014-11-11 13:23:44'");
        check(
            "time:dateAdd",
            &[s("2020-01-31"), i(1), s("MONTH"), s("yyyy-MM-dd")],
            "'2020-02-29'",
        );
        check(
            "time:dateAdd",
            &[l(1_415_692_424_000), i(2), s("HOUR")],
            "'1415699624000'",
        );
        check(
            "time:dateAdd",
            &[l(1_415_692_424_000), i(2), s("hour")],
            "'1415692424000'",
        );
        check(
            "time:dateSub",
            &[l(1_415_692_424_000), i(2), s("hour")],
            "'1415685224000'",
        );
        check(
            "time:dateAdd",
            &[NULL, i(2), s("YEAR"), format.clone()],
            "null",
        );
        check(
            "time:dateAdd",
            &[s("x"), i(2), s("YEAR"), format],
            "!does not have the date format",
        );
    }

    #[test]
    fn parts_and_formats() {
        check(
            "time:date",
            &[s("13:23:44.657"), s("HH:mm:ss.SSS")],
            "'1970-01-01'",
        );
        check(
            "time:dateDiff",
            &[l(1_415_692_424_000), l(1_415_519_624_000)],
            "2L",
        );
        check("time:dateDiff", &[l(0), l(i64::MIN)], "-106751991167L");
        check(
            "time:dateDiff",
            &[
                s("2014-11-11"),
                s("2014-11-09"),
                s("yyyy-MM-dd"),
                s("yyyy-MM-dd"),
            ],
            "2L",
        );
        check("time:dateFormat", &[l(1_415_692_424_000), s("ss")], "'44'");
        check(
            "time:dateFormat",
            &[s("2014-11-11 13:23:44.657"), s("dd.MM.yy")],
            "'11.11.14'",
        );
        check("time:dayOfWeek", &[s("2015-10-18 13:23:44")], "'Sunday'");
        check(
            "time:dayOfWeek",
            &[s("2014-12-11"), s("yyyy-MM-dd")],
            "'Thursday'",
        );
        check(
            "time:extract",
            &[s("WEEK"), s("2017-10-8 02:23:44.999")],
            "41",
        );
        check(
            "time:extract",
            &[s("month"), s("2014-3-11"), s("yyyy-MM-dd")],
            "3",
        );
        check("time:extract", &[l(1_394_484_824_000), s("HOUR")], "20");
        check("time:extract", &[l(1_394_484_824_000), s("NOTHING")], "0");
    }

    #[test]
    fn zones() {
        let convert = |text: &str, format: &str, to: &str, from: &str, expect: &str| {
            check(
                "time:timezoneConvert",
                &[s(text), s(format), s(to), s(from)],
                expect,
            );
        };
        convert(
            "2020-11-18 06:21:19",
            "yyyy-MM-dd HH:mm:ss",
            "PST",
            "IST",
            "'2020-11-17 16:51:19'",
        );
        convert(
            "2016-04-21T00:00:00+0530",
            "yyyy-MM-dd'T'HH:mm:ssZ",
            "America/New_York",
            "IST",
            "'2016-04-20T14:30:00-0400'",
        );
        convert(
            "2020-11-18 06:56",
            "yyyy-MM-dd HH:mm",
            "NST",
            "IST",
            "'2020-11-18 14:26'",
        );
        convert(
            "2019-08-07 07:19:10",
            "yyyy-MM-dd HH:mm:ss",
            "UTC",
            "PST",
            "'2019-08-07 14:19:10'",
        );
        convert(
            "2019-8-07",
            "yyyy-MM-dd",
            "UTC",
            "PST",
            "!does not have the date format",
        );
    }
}
