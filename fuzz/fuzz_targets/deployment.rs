//! Any text as a `deployment.yaml`: read or refused, with the variables it asks for.
#![no_main]

use headwater_server::config::Config;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let variable = |name: &str| (name.len() % 2 == 0).then(|| format!("value of {name}"));
    if let Ok(config) = Config::parse("deployment.yaml", text, &variable) {
        for source in &config.data_sources {
            source.store_options();
        }
    }
});
