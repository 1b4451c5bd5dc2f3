//! Times and sizes as annotations write them: `1 hour 30 min`, `512 MB`.

/// Milliseconds of `1 hour 30 min`; `None` if the text is not a time.
pub fn time_text(text: &str) -> Option<i64> {
    let parts = time_parts(text)?;
    parts
        .iter()
        .try_fold(0i64, |sum, (_, _, millis)| sum.checked_add(*millis))
}

/// Milliseconds of the first pair alone: `@purge` reads no further in Siddhi.
pub fn first_time_text(text: &str) -> Option<i64> {
    time_parts(text)?.first().map(|(_, _, millis)| *millis)
}

fn time_parts(text: &str) -> Option<Vec<(i64, String, i64)>> {
    let mut parts = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let number: i64 = rest[..digits].parse().ok()?;
        rest = rest[digits..].trim_start();
        let letters = rest
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(rest.len());
        let unit = rest[..letters].to_ascii_lowercase();
        rest = rest[letters..].trim_start();
        let millis = number.checked_mul(unit_millis(&unit)?)?;
        parts.push((number, unit, millis));
    }
    (!parts.is_empty()).then_some(parts)
}

fn unit_millis(unit: &str) -> Option<i64> {
    const DAY: i64 = 86_400_000;
    Some(match unit {
        "millisec" | "millisecond" | "milliseconds" => 1,
        "sec" | "second" | "seconds" => 1_000,
        "min" | "minute" | "minutes" => 60_000,
        "hour" | "hours" => 3_600_000,
        "day" | "days" => DAY,
        "week" | "weeks" => 7 * DAY,
        "month" | "months" => 30 * DAY,
        "year" | "years" => 365 * DAY,
        _ => return None,
    })
}

/// Bytes of `512 MB`, in units of 1024; a bare number is bytes. `None` if the text is not a size.
pub fn size_text(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let unit = unit.trim().to_ascii_lowercase();
    let shift = match unit
        .strip_suffix("ib")
        .or(unit.strip_suffix('b'))
        .unwrap_or(&unit)
    {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    let number: f64 = number.parse().ok()?;
    let bytes = number * (1u64 << shift) as f64;
    (1.0..1e18).contains(&bytes).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_texts() {
        assert_eq!(time_text("1 hour 30 min"), Some(5_400_000));
        assert_eq!(first_time_text("1 hour 30 min"), Some(3_600_000));
        assert_eq!(time_text("100millisec"), Some(100));
        assert_eq!(time_text("2 fortnights"), None);
        assert_eq!(time_text(""), None);
        assert_eq!(time_text("sec"), None);
    }

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("1048576", Some(1 << 20)),
            ("512 MB", Some(512 << 20)),
            ("1.5gb", Some(3 << 29)),
            ("64 KiB", Some(64 << 10)),
            ("2g", Some(2 << 30)),
            ("0", None),
            ("-1 MB", None),
            ("many", None),
            ("5 apples", None),
            ("", None),
            ("9e9 TB", None),
        ] {
            assert_eq!(size_text(text), bytes, "{text}");
        }
    }
}
