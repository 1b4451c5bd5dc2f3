//! `inMemory`: topics inside one server, across apps.

use plan::spec::{ConnectorKind, ConnectorSpec, Status, choice, text};

pub const SOURCE: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    options: &[text(
        "topic",
        "Topic to subscribe to; its name is shared by all apps.",
    )
    .test("headwater::run::apps_are_chained_by_topics")
    .default("input inMemory source")],
    example: "@source(type='inMemory', topic='trades', @map(type='passThrough'))
define stream Trades (symbol string, price double);
from Trades select symbol insert into Out;",
    ..ConnectorSpec::new(
        ConnectorKind::Source,
        "inMemory",
        "core",
        "Receives the events that other streams and apps of the server publish to a topic.",
    )
};

pub const SINK: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    options: &[
        text("topic", "Topic to publish to.")
            .test("headwater::run::apps_are_chained_by_topics")
            .required()
            .dynamic(),
        // Takes the place of the option that all sinks have.
        choice(
            "on.error",
            &["LOG", "WAIT", "STREAM", "STORE"],
            "LOG",
            "What happens to an event without a subscriber: LOG counts, logs and drops it, STREAM \
             sends it to the fault stream, STORE keeps it with the rejected events under --state; \
             so does WAIT, because no subscriber can be added while the server runs.",
        )
        .test("headwater::run::events_that_nobody_reads_are_counted"),
    ],
    example: "@sink(type='inMemory', topic='trades', @map(type='passThrough'))
define stream Trades (symbol string, price double);",
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "inMemory",
        "core",
        "Publishes events to a topic inside the server; every subscriber gets them in order.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[SOURCE, SINK];
