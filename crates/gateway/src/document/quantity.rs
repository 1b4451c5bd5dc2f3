//! Times and sizes as documents write them: `15min`, `10d`, `1MB`.

use std::time::Duration;

/// `None` where it is no time, or one that is longer than a thousand years.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let millis: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "ms" => 1,
        "s" | "sec" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "w" => 7 * 86_400_000,
        _ => {
            let millis = lang::quantity::time_text(text)?;
            return Some(Duration::from_millis(millis.try_into().ok()?));
        }
    };
    let millis = number.parse::<u64>().ok()?.checked_mul(millis)?;
    (millis < 1000 * 365 * 86_400_000).then(|| Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, millis) in [
            ("500ms", Some(500)),
            ("15 s", Some(15_000)),
            ("15min", Some(900_000)),
            ("2 hours", Some(7_200_000)),
            ("10d", Some(864_000_000)),
            ("15", None),
            ("d", None),
            ("-1s", None),
            ("99999999999999999999d", None),
            ("", None),
        ] {
            assert_eq!(duration(text), millis.map(Duration::from_millis), "{text}");
        }
    }
}
