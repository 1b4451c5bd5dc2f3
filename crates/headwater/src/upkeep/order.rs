//! What is to be done, as a request says it.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use serde_json::Value as Json;
use server::http::store::StoreRefusal;
use store::upkeep::{GRACE, Names};

/// The members of a request, checked.
pub struct Order {
    pub names: Names,
    /// Milliseconds since 1970.
    pub before: Option<i64>,
    pub grace: Duration,
    pub is_dry: bool,
}

impl Order {
    /// # Errors
    /// A member is unknown or makes no sense.
    pub fn read(order: &Json, zone: &TimeZone, now: i64) -> Result<Order, StoreRefusal> {
        let empty = serde_json::Map::new();
        let mut read = Order {
            names: Names::new(&[]).map_err(wrong)?,
            before: None,
            grace: GRACE,
            is_dry: false,
        };
        let (mut is_forced, mut older) = (false, None);
        for (name, value) in order.as_object().unwrap_or(&empty) {
            match (name.as_str(), value) {
                ("tables", Json::Array(tables)) => {
                    let tables: Option<Vec<String>> = tables
                        .iter()
                        .map(|table| table.as_str().map(str::to_owned))
                        .collect();
                    let tables =
                        tables.ok_or_else(|| wrong("'tables' holds something that is no text"))?;
                    read.names = Names::new(&tables).map_err(wrong)?;
                }
                ("before", Json::Number(millis)) => read.before = millis.as_i64(),
                ("before", Json::String(text)) => read.before = Some(time(text, zone)?),
                ("olderThan", Json::String(text)) => older = Some(span(name, text)?),
                ("grace", Json::String(text)) => read.grace = span(name, text)?,
                ("force", Json::Bool(force)) => is_forced = *force,
                ("dryRun", Json::Bool(is_dry)) => read.is_dry = *is_dry,
                _ => {
                    return Err(wrong(format!(
                        "'{name}' is unknown or has a value that makes no sense there; there is tables, before, \
                         olderThan, grace, force, dryRun"
                    )));
                }
            }
        }
        if let Some(older) = older {
            if read.before.is_some() {
                return Err(wrong("give 'before' or 'olderThan', not both"));
            }
            let millis = i64::try_from(older.as_millis()).unwrap_or(i64::MAX);
            read.before = Some(now.saturating_sub(millis));
        }
        if read.grace < GRACE && !is_forced {
            return Err(wrong(
                "a grace below an hour takes files away from questions and programs that read them now: force it \
                 where there are none",
            ));
        }
        Ok(read)
    }
}

pub fn wrong(message: impl ToString) -> StoreRefusal {
    StoreRefusal::Wrong(message.to_string())
}

fn span(name: &str, text: &str) -> Result<Duration, StoreRefusal> {
    // `0 sec` is one, too.
    let millis = lang::quantity::time_text(text).and_then(|millis| u64::try_from(millis).ok());
    let millis = millis.ok_or_else(|| {
        wrong(format!(
            "'{name}' is '{text}': write a time such as 30 days"
        ))
    })?;
    Ok(Duration::from_millis(millis))
}

/// A time, or a day from its begin, in a zone where it names none.
fn time(text: &str, zone: &TimeZone) -> Result<i64, StoreRefusal> {
    let text = text.trim();
    let of_zone = |time: DateTime| Some(time.to_zoned(zone.clone()).ok()?.timestamp());
    let time = text
        .parse::<Timestamp>()
        .ok()
        .or_else(|| of_zone(text.parse::<DateTime>().ok()?))
        .or_else(|| of_zone(text.parse::<Date>().ok()?.at(0, 0, 0, 0)));
    let time = time.ok_or_else(|| {
        wrong(format!(
            "'{text}' is no time: write 2026-01-31, 2026-01-31T08:00:00 or 2026-01-31T08:00:00Z"
        ))
    })?;
    Ok(time.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(order: &Json) -> Result<Order, String> {
        let zone = TimeZone::get("Europe/Berlin").expect("a zone");
        Order::read(order, &zone, 10_000_000_000).map_err(|refusal| match refusal {
            StoreRefusal::Wrong(message) | StoreRefusal::Failed(message) => message,
        })
    }

    #[test]
    fn times_are_those_of_the_zone() {
        for (order, millis) in [
            (json!({"before": 5}), 5),
            (json!({"before": "1970-01-02"}), 82_800_000),
            (json!({"before": "1970-01-02T00:00:00Z"}), 86_400_000),
            (json!({"before": "1970-01-01T01:00:01"}), 1_000),
            (json!({"olderThan": "1 day 1 sec"}), 9_913_599_000),
        ] {
            assert_eq!(
                read(&order).expect("an order").before,
                Some(millis),
                "{order}"
            );
        }
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for (order, says) in [
            (json!({"befor": 5}), "'befor' is unknown"),
            (json!({"before": "yesterday"}), "'yesterday' is no time"),
            (json!({"before": 5, "olderThan": "1 day"}), "not both"),
            (json!({"grace": "1 min"}), "below an hour"),
            (json!({"grace": "soon", "force": true}), "'grace' is 'soon'"),
            (json!({"tables": [1]}), "no text"),
            (json!({"tables": ["("]}), "no pattern"),
        ] {
            let refused = read(&order).err().unwrap_or_default();
            assert!(refused.contains(says), "{order}: {refused}");
        }
        let order = read(&json!({"grace": "0 sec", "force": true})).expect("an order");
        assert_eq!(order.grace, Duration::ZERO);
    }
}
