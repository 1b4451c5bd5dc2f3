//! Amazon SQS queues.

use super::{bool, int, long, millis, text};
use crate::spec::{ConnectorKind, ConnectorSpec};

pub const SOURCE: ConnectorSpec = ConnectorSpec {
    options: &[
        text("queue", "URL of the queue.").required(),
        text("access.key", "Access key.").required(),
        text("secret.key", "Secret key.").required(),
        text("region", "Region of the queue.").required(),
        millis("polling.interval", "", "Time between two questions.").required(),
        int(
            "wait.time",
            "-1",
            "Seconds to wait for messages; -1: as the queue says.",
        ),
        int(
            "max.number.of.messages",
            "1",
            "Messages of one answer, 1 to 10.",
        ),
        int(
            "visibility.timeout",
            "-1",
            "Seconds a message is hidden; -1: as the queue says.",
        ),
        bool(
            "delete.messages",
            "true",
            "Removes messages that have been handled.",
        ),
        millis(
            "delete.retry.interval",
            "5000",
            "Time between two tries to remove.",
        ),
        int("max.number.of.delete.retry.attempts", "10", "How often."),
        int("number.of.parallel.consumers", "1", "Consumers at once."),
    ],
    properties: &["MESSAGE_ID"],
    ..ConnectorSpec::new(
        ConnectorKind::Source,
        "sqs",
        "io-sqs",
        "Receives the messages of a queue.",
    )
};

pub const SINK: ConnectorSpec = ConnectorSpec {
    options: &[
        text("queue", "URL of the queue.").required(),
        text("region", "Region of the queue.").required(),
        text("access.key", "Access key."),
        text("secret.key", "Secret key."),
        text("message.group.id", "Group of the message.").dynamic(),
        text(
            "deduplication.id",
            "Id by which repeated messages are dropped.",
        )
        .dynamic(),
        long(
            "delay.interval",
            "-1",
            "Seconds before a message can be seen; -1: none.",
        ),
    ],
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "sqs",
        "io-sqs",
        "Sends payloads to a queue.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[SOURCE, SINK];
