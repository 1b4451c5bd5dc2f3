//! A saved state from outside: torn, forged, or of another app.
#![no_main]

use headwater_engine::{Input, NoHost, Outputs};
use headwater_fuzz::{app, event};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut restored = app();
    let mut out = Outputs::default();
    if restored.restore(bytes).is_err() {
        restored.step(0, 0, Input::Start, &mut NoHost, &mut out);
    }
    restored.step(7, 7, Input::Batch(0, event("a", 7)), &mut NoHost, &mut out);
    restored.step(10_000, 10_000, Input::Tick, &mut NoHost, &mut out);
    let saved = restored.snapshot();
    app()
        .restore(&saved)
        .expect("what an app saved it takes back");
});
