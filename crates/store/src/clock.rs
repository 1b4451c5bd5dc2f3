//! The time of the wall clock.

use std::time::SystemTime;

/// Milliseconds since 1970.
pub(crate) fn millis() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
}
