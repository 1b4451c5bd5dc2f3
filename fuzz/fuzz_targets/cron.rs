//! Any text as a cron expression: read or refused, and each time it names lies behind the one before.
#![no_main]

use headwater_lang::cron::Cron;
use jiff::tz::TimeZone;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u32, &str)| {
    let (seconds, text) = input;
    let Ok(cron) = Cron::parse(text) else { return };
    let mut at = i64::from(seconds) * 1000;
    for zone in [TimeZone::UTC, TimeZone::get("Europe/Berlin").expect("a known zone")] {
        for _ in 0..3 {
            let Some(next) = cron.next(at, &zone) else { return };
            assert!(next > at && next % 1000 == 0);
            at = next;
        }
    }
});
