//! Apache Avro, in both directions.

use plan::spec::{ConnectorKind, ConnectorSpec, Mapping, OptionSpec, Payload, Status, bool, text};

const SCHEMA: OptionSpec = text(
    "schema.def",
    "Avro schema as JSON; it wins over one of a registry. Without any, a flat record of the stream's \
     attributes is taken.",
)
.test("connect::mapper::avro::tests::records_become_rows_by_name");
const SCHEMA_ID: OptionSpec = text("schema.id", "Number of the schema in the registry.")
    .test("headwater::kafka::avro::messages_with_the_number_of_their_schema_go_both_ways");

const fn registry(doc: &'static str) -> OptionSpec {
    text("schema.registry", doc)
        .test("headwater::kafka::avro::messages_with_the_number_of_their_schema_go_both_ways")
}

const LOGIN: &str = "headwater::kafka::avro::a_registry_with_tls_and_a_login_is_asked_with_both";

pub const SOURCE_MAPPER: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@source(type='kafka', bootstrap.servers='localhost:9092', topic.list='trades',
        group.id='g', threading.option='single.thread',
        @map(type='avro', schema.registry='http://localhost:8081'))
define stream Trades (symbol string, price double);",
    payloads: &[Payload::Bytes],
    options: &[
        SCHEMA,
        registry(
            "URL of the schema registry, or several with commas. Messages then begin with the number \
             of their schema, as Confluent's serializers write it.",
        ),
        SCHEMA_ID,
        bool(
            "fail.on.missing.attribute",
            "true",
            "Drops an event that lacks an attribute.",
        )
        .test("connect::mapper::avro::tests::what_is_missing_is_null_where_that_is_allowed"),
        bool(
            "use.avro.deserializer",
            "false",
            "Messages are those of Kafka's Avro serializer; the registry may then also be given in \
             the source's `optional.configuration` as `schema.registry.url`.",
        )
        .test("headwater::kafka::avro::the_options_of_java_clients_name_the_registry"),
        text("basic.auth.username", "User at the registry.").test(LOGIN),
        text("basic.auth.password", "Password at the registry.").test(LOGIN),
        text("ssl.keystore.path", "Key store for the registry.").test(LOGIN),
        text("ssl.keystore.password", "Password of the key store.").test(LOGIN),
        text("ssl.truststore.path", "Trust store for the registry.").test(LOGIN),
        text("ssl.truststore.password", "Password of the trust store.").test(LOGIN),
    ],
    mapping: Mapping::Paths,
    ..ConnectorSpec::new(
        ConnectorKind::SourceMapper,
        "avro",
        "map-avro",
        "Reads events from Avro records.",
    )
};

pub const SINK_MAPPER: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@sink(type='kafka', bootstrap.servers='localhost:9092', topic='trades',
      @map(type='avro', schema.registry='http://localhost:8081', schema.id='7', use.avro.serializer='true'))
define stream Trades (symbol string, price double);",
    payloads: &[Payload::Bytes],
    options: &[
        SCHEMA,
        registry("URL of the schema registry, or several with commas."),
        SCHEMA_ID,
        bool(
            "use.avro.serializer",
            "false",
            "Messages begin with the number of their schema, as Kafka's Avro serializer writes it. \
             Without `schema.id` the schema is registered as that of the topic.",
        )
        .test("headwater::kafka::avro::messages_with_the_number_of_their_schema_go_both_ways"),
        text("basic.auth.username", "User at the registry.").test(LOGIN),
        text("basic.auth.password", "Password at the registry.").test(LOGIN),
        text("ssl.keystore.path", "Key store for the registry.").test(LOGIN),
        text("ssl.keystore.password", "Password of the key store.").test(LOGIN),
        text("ssl.truststore.path", "Trust store for the registry.").test(LOGIN),
        text("ssl.truststore.password", "Password of the trust store.").test(LOGIN),
    ],
    mapping: Mapping::Template,
    ..ConnectorSpec::new(
        ConnectorKind::SinkMapper,
        "avro",
        "map-avro",
        "Writes events as Avro records.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[SOURCE_MAPPER, SINK_MAPPER];
