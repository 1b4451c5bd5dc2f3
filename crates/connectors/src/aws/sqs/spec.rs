//! Amazon SQS queues.

use plan::spec::{
    ConnectorKind, ConnectorSpec, OptionSpec, Rule, Status, TEXT_OR_BYTES, bool, int, long, millis,
    text,
};

const ROWS: &str = "headwater::sqs::every_row_arrives_in_order_and_is_deleted";
const LIMITS: &str = "headwater::sqs::messages_wait_and_hide_as_the_options_say";
const LOGIN: &str = "headwater::sqs::only_who_has_the_keys_may_send_and_receive";
const RETRIES: &str = "headwater::sqs::what_cannot_be_deleted_is_tried_again";
const VALUES: &str = "headwater::sqs::values_out_of_bounds_are_refused";

const QUEUE: OptionSpec = text(
    "queue",
    "URL of the queue, or its name, which is looked for in the account of the keys.",
)
.test(ROWS)
.required();
const ACCESS_KEY: OptionSpec = text("access.key", "Access key.").test(LOGIN);
const SECRET_KEY: OptionSpec = text("secret.key", "Secret key.").test(LOGIN);
const REGION: OptionSpec = text("region", "Region of the queue.")
    .test(LOGIN)
    .required();

pub const SOURCE: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    payloads: TEXT_OR_BYTES,
    example: "@source(type='sqs', queue='https://sqs.eu-west-1.amazonaws.com/123456789012/orders', access.key='us', secret.key='secret', region='eu-west-1', polling.interval='1000', max.number.of.messages='10', wait.time='10', @map(type='json'))
define stream Orders (id long, amount double);",
    options: &[
        QUEUE,
        ACCESS_KEY.required(),
        SECRET_KEY.required(),
        REGION,
        millis("polling.interval", "", "Time between two questions.").range(0, 4_294_967_295)
            .test(LIMITS)
            .required(),
        int(
            "wait.time",
            "-1",
            "Seconds to wait for messages, 20 at most; -1: the setting of the queue.",
        ).range(-1, 20).unit("seconds")
        .test(LIMITS),
        int(
            "max.number.of.messages",
            "1",
            "Messages of one answer, 1 to 10.",
        ).range(1, 10).unit("messages")
        .test(VALUES),
        int(
            "visibility.timeout",
            "-1",
            "Seconds a message is hidden; -1: the setting of the queue.",
        ).range(-1, 43_200).unit("seconds")
        .test(LIMITS),
        bool(
            "delete.messages",
            "true",
            "Removes messages that have been handled.",
        )
        .test(LIMITS),
        millis(
            "delete.retry.interval",
            "5000",
            "Time between two tries to remove.",
        ).range(0, 4_294_967_295)
        .test(RETRIES),
        int(
            "max.number.of.delete.retry.attempts",
            "10",
            "How often it is tried again; what cannot be removed comes again.",
        ).range(0, 1_000_000).unit("tries")
        .test(RETRIES),
        int("number.of.parallel.consumers", "1", "Consumers at once.").range(1, 1000).unit("consumers").test(LIMITS),
    ],
    properties: &["MESSAGE_ID"],
    ..ConnectorSpec::new(
        ConnectorKind::Source,
        "sqs",
        "io-sqs",
        "Receives the messages of a queue, and removes those that are handled.",
    )
};

pub const SINK: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    payloads: TEXT_OR_BYTES,
    example: "@sink(type='sqs', queue='https://sqs.eu-west-1.amazonaws.com/123456789012/orders.fifo', region='eu-west-1', message.group.id='{{customer}}', deduplication.id='{{id}}', @map(type='json'))
define stream Orders (id long, customer string);",
    options: &[
        QUEUE,
        REGION,
        ACCESS_KEY,
        SECRET_KEY,
        text("message.group.id", "Group of the message, in which order is kept.")
            .test(ROWS)
            .dynamic(),
        text(
            "deduplication.id",
            "Id by which repeated messages are dropped.",
        )
        .test(ROWS)
        .dynamic(),
        long(
            "delay.interval",
            "-1",
            "Seconds before a message becomes visible; -1: the setting of the queue.",
        ).unit("seconds")
        .test(LIMITS),
    ],
    rules: &[Rule::Together(&["access.key", "secret.key"])],
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "sqs",
        "io-sqs",
        "Sends payloads to a queue.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[SOURCE, SINK];
