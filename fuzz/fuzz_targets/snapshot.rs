//! A saved state from outside: torn, forged, or of another app; as it is, and over a sound one.
#![no_main]

use headwater_engine::{Input, NoHost, Outputs, compose};
use headwater_event::codec::Writer;
use headwater_fuzz::{app, event, states};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    take(bytes);
    let mut writer = Writer::default();
    if compose(&mut [states()[0].as_slice(), bytes], &mut writer).is_ok() {
        take(&writer.bytes);
    }
});

fn take(bytes: &[u8]) {
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
}
