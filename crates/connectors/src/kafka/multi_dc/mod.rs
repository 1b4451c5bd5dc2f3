//! `kafkaMultiDC`: one topic in the clusters of two data centres.
//!
//! The sink numbers its records and writes each to both; the source reads both, gives each number once
//! and in order. Promises: while one cluster is away everything goes by the other, and what the sink
//! says has arrived is in at least one of them. Never: the order of two sinks with one `sequence.id`.

mod order;
mod sink;
mod source;

pub(super) use sink::MultiDcSink;
pub(super) use source::MultiDcSource;

use connect::error::Error;
use connect::option::Settings;

/// The brokers of both centres.
fn two(settings: Settings<'_>, brokers: &str) -> Result<[String; 2], Error> {
    let found: Vec<String> = super::items(brokers).map(str::to_owned).collect();
    <[String; 2]>::try_from(found).map_err(|found| {
        settings.refused(format!(
            "option 'bootstrap.servers' names {} brokers: write two, one of each data centre",
            found.len()
        ))
    })
}
