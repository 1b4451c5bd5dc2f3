//! Kafka: source and sink, the pair over two data centres, and replay of offsets.

use super::kafka_choice;
use plan::spec::{
    ConnectorKind, ConnectorSpec, Fact, OptionSpec, Payload, Rule, Status, TEXT_OR_BYTES, bool,
    choice, int, list, pairs, text,
};

const BROKERS: OptionSpec = list("bootstrap.servers", "Brokers to ask first, as `host:port`.")
    .test("headwater::kafka::the_published_app_counts_what_was_written")
    .required();
const BOTH_BROKERS: OptionSpec = list("bootstrap.servers", "Two brokers, one of each data centre.")
    .test("headwater::kafka::a_centre_that_dies_takes_nothing_with_it")
    .required();
const GROUP: OptionSpec = text("group.id", "Consumer group.")
    .test("headwater::kafka::a_group_shares_partitions_out_and_repeats_nothing")
    .required();
const BINARY: OptionSpec = bool(
    "is.binary.message",
    "false",
    "Payloads are bytes instead of text.",
)
.test("headwater::kafka::bytes_and_sequence_numbers_pass");
const OFFSETS: OptionSpec = text(
    "topic.offsets.map",
    "Offsets to start from if there is no saved state, `topic=offset,topic=offset`.",
)
.test("headwater::kafka::a_source_starts_where_it_is_told");
const PROPERTIES: OptionSpec = pairs(
    "optional.configuration",
    "Further properties of Java's client, `name:value,name:value`; values cannot hold a comma.",
)
.test("connectors::kafka::java_names_become_those_of_librdkafka");
const WRITE_PROPERTIES: OptionSpec = pairs(
    "optional.configuration",
    "Further properties of Java's client, `name:value,name:value`; values cannot hold a comma. With \
     `transactional.id` and `--state` all records between two saves are one transaction, so that readers \
     of committed records find each once, up to an interval later.",
)
.test("headwater::kafka::every_number_is_there_once_whenever_the_run_is_killed");
const REPLAY: &str = "headwater::kafka::what_is_asked_for_again_comes_again_and_nothing_else";
const SINK_ID: OptionSpec = text(
    "sink.id",
    "Joins the replay request sink and the response source.",
)
.test(REPLAY)
.required();
const KEY: OptionSpec = text("key", "Key of the record.")
    .test("headwater::kafka::topic_partition_and_key_depend_on_the_event")
    .dynamic();
const THREADING: OptionSpec = choice(
    "threading.option",
    &["single.thread", "topic.wise", "partition.wise"],
    "",
    "One consumer for all, one for each topic, or one for each partition.",
)
.test("headwater::kafka::every_way_of_threading_reads_everything_once")
.required();
const CLIENT: OptionSpec = choice(
    kafka_choice::OPTION,
    kafka_choice::CLIENTS,
    kafka_choice::AUTO,
    "Which client reads records: `headwater` is faster, `rdkafka` knows every property of \
     `optional.configuration`; `auto` takes the first that can, and `headwater explain` says which.",
)
.test("headwater::kafka::both_clients_read_the_same_rows_of_every_codec");
const WRITING_CLIENT: OptionSpec = choice(
    kafka_choice::OPTION,
    kafka_choice::CLIENTS,
    kafka_choice::AUTO,
    "Which client writes records: `headwater` is faster, `rdkafka` has transactions and knows every \
     property of `optional.configuration`; `auto` takes the first that can, and `headwater explain` \
     says which.",
)
.test("headwater::kafka::both_clients_write_the_same_records_in_every_codec");
const PARTITIONS: OptionSpec = list(
    "partition.no.list",
    "Partitions to read of every topic; with it partitions are assigned, without it the group \
     shares them out.",
)
.test("headwater::kafka::every_way_of_threading_reads_everything_once");
const SEQUENCE: OptionSpec = text(
    "sequence.id",
    "Name in the sequence header, by which a source drops repeated records.",
)
.test("headwater::kafka::bytes_and_sequence_numbers_pass");

const READ_PROPERTIES: &[&str] = &[
    "topic",
    "partition",
    "key",
    "offset",
    "record.timestamp",
    "event.timestamp",
    "check.sum",
    // Headers of the record.
    "*",
];

const PARTITION_WISE_NEEDS_LIST: Rule = Rule::Never {
    when: Fact::All(&[
        Fact::Is("threading.option", &["partition.wise"]),
        Fact::Absent("partition.no.list"),
    ]),
    at: &["threading.option"],
    message: "threading option 'partition.wise' needs option 'partition.no.list'",
    help: "list the partitions, or use 'topic.wise'",
};

const READ_OPTIONS: &[OptionSpec] = &[
    PARTITIONS,
    bool(
        "seq.enabled",
        "false",
        "Drops repeated records by the sequence header of the sink.",
    )
    .test("headwater::kafka::bytes_and_sequence_numbers_pass"),
    BINARY,
    OFFSETS,
    bool(
        "enable.offsets.commit",
        "true",
        "Whether offsets are committed at all; what is committed is done.",
    )
    .test("headwater::kafka::offsets_are_committed_as_the_app_says"),
    bool(
        "enable.async.commit",
        "true",
        "With `enable.auto.commit:false`: commits without waiting for the answer.",
    )
    .test("headwater::kafka::offsets_are_committed_as_the_app_says"),
    PROPERTIES,
];

/// Events are written as their text.
const SINK_PAYLOADS: &[Payload] = &[Payload::Text, Payload::Bytes, Payload::Events];

pub const SOURCE: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    explains: Some(kafka_choice::explain_source),
    example: "@source(type='kafka', bootstrap.servers='localhost:9092', topic.list='trades', group.id='g',
    threading.option='single.thread', @map(type='json'))
define stream Trades (symbol string, price double);",
    payloads: TEXT_OR_BYTES,
    options: plan::spec::options!(
        &[
            BROKERS,
            list("topic.list", "Topics to read.")
                .test("headwater::kafka::every_way_of_threading_reads_everything_once")
                .required(),
            GROUP,
            THREADING,
            CLIENT
        ],
        READ_OPTIONS,
    ),
    rules: &[PARTITION_WISE_NEEDS_LIST],
    properties: READ_PROPERTIES,
    addresses: &[("bootstrap.servers", 9092)],
    message_key: &["topic"],
    ..ConnectorSpec::new(
        ConnectorKind::Source,
        "kafka",
        "io-kafka",
        "Reads records of Kafka topics as a member of a group or from fixed partitions.",
    )
};

pub const SINK: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    explains: Some(kafka_choice::explain_sink),
    example:
        "@sink(type='kafka', bootstrap.servers='localhost:9092', topic='trades', key='{{symbol}}',
    @map(type='json'))
define stream Trades (symbol string, price double);",
    payloads: SINK_PAYLOADS,
    options: &[
        BROKERS,
        text("topic", "Topic to write to.")
            .test("headwater::kafka::topic_partition_and_key_depend_on_the_event")
            .required()
            .dynamic(),
        int(
            "partition.no",
            "",
            "Partition; without it the client chooses by the key.",
        )
        .test("headwater::kafka::topic_partition_and_key_depend_on_the_event")
        .dynamic(),
        KEY,
        SEQUENCE,
        BINARY,
        bool(
            "is.synchronous",
            "false",
            "Waits for the answer of the broker to each record.",
        )
        .test("headwater::kafka::compressed_and_synchronous_records_arrive"),
        WRITING_CLIENT,
        WRITE_PROPERTIES,
    ],
    addresses: &[("bootstrap.servers", 9092)],
    identity: &["bootstrap.servers", "topic"],
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "kafka",
        "io-kafka",
        "Writes one record for each payload to a Kafka topic.",
    )
};

pub const MULTI_DC_SOURCE: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@source(type='kafkaMultiDC', bootstrap.servers='one:9092,two:9092', topic='trades', @map(type='json'))
define stream Trades (symbol string, price double);",
    payloads: TEXT_OR_BYTES,
    options: &[
        BOTH_BROKERS,
        text("topic", "The topic to read in both.")
            .test("headwater::kafka::what_goes_to_two_centres_comes_once_and_in_order")
            .required(),
        int("partition.no", "0", "Partition to read.")
            .test("headwater::kafka::what_goes_to_two_centres_comes_once_and_in_order"),
        BINARY,
        PROPERTIES,
    ],
    properties: READ_PROPERTIES,
    message_key: &["topic"],
    ..ConnectorSpec::new(
        ConnectorKind::Source,
        "kafkaMultiDC",
        "io-kafka",
        "Reads one topic from two clusters, drops repeated records and restores their order.",
    )
};

pub const MULTI_DC_SINK: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@sink(type='kafkaMultiDC', bootstrap.servers='one:9092,two:9092', topic='trades', sequence.id='here',
    @map(type='json'))
define stream Trades (symbol string, price double);",
    payloads: SINK_PAYLOADS,
    options: &[
        BOTH_BROKERS,
        text("topic", "Topic to write to in both clusters.")
            .test("headwater::kafka::what_goes_to_two_centres_comes_once_and_in_order")
            .required()
            .dynamic(),
        SEQUENCE.default("null"),
        KEY,
        int("partition.no", "0", "Partition to write to.")
            .test("headwater::kafka::what_goes_to_two_centres_comes_once_and_in_order")
            .dynamic(),
        BINARY,
        PROPERTIES,
    ],
    identity: &["bootstrap.servers", "topic"],
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "kafkaMultiDC",
        "io-kafka",
        "Writes every record to two clusters with a sequence header.",
    )
};

pub const REPLAY_REQUEST: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@sink(type='kafka-replay-request', sink.id='replay', @map(type='passThrough'))
define stream Wanted (topic string, partition string, first string, last string);",
    payloads: &[Payload::Events],
    options: &[SINK_ID],
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "kafka-replay-request",
        "io-kafka",
        "Asks the replay source of the same id for a range of offsets of a partition.",
    )
};

pub const REPLAY_RESPONSE: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example:
        "@source(type='kafka-replay-response', bootstrap.servers='localhost:9092', group.id='g',
    threading.option='single.thread', sink.id='replay', @map(type='json'))
define stream Again (symbol string, price double);",
    payloads: TEXT_OR_BYTES,
    options: plan::spec::options!(
        &[
            BROKERS,
            SINK_ID,
            GROUP,
            THREADING,
            list("topic.list", "Topics that may be replayed; without it all.").test(REPLAY)
        ],
        READ_OPTIONS,
    ),
    properties: READ_PROPERTIES,
    message_key: &["topic"],
    ..ConnectorSpec::new(
        ConnectorKind::Source,
        "kafka-replay-response",
        "io-kafka",
        "Delivers the records that a replay request asked for.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[
    SOURCE,
    SINK,
    MULTI_DC_SOURCE,
    MULTI_DC_SINK,
    REPLAY_REQUEST,
    REPLAY_RESPONSE,
];
