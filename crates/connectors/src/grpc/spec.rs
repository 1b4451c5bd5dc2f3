//! gRPC: one-way events, calls with their responses, and services.

use connect::spec::protobuf::DESCRIPTOR_IMPORTS;
use plan::spec::{
    ConnectorKind, ConnectorSpec, OptionSpec, OptionStatus, OptionType, Status, TEXT_OR_BYTES,
    bool, int, long, millis, pairs, text,
};

const SENT: &str = "headwater::grpc::a_server_gets_events_with_headers_metadata_and_sequence";
const TAKEN: &str = "headwater::grpc::clients_are_answered_when_their_event_is_taken";
const CALLED: &str = "headwater::grpc::calls_get_their_responses_and_services_answer_each_request";
const OWN: &str = "headwater::grpc::a_service_of_its_own_speaks_the_messages_of_its_description";
const SECURE: &str = "headwater::grpc::tls_both_ways_with_java_key_stores";
const AWAY: &str = "headwater::grpc::a_server_that_is_away_or_silent_gets_everything_later";
const STILL: &str = "headwater::grpc::a_peer_that_stands_still_is_noticed_by_client_and_server";
const COMPLAINT: &str =
    "headwater::grpc::a_server_that_complains_of_questions_is_asked_no_more_while_it_has_no_call";
const LIMITED: &str = "headwater::grpc::what_is_beyond_a_limit_or_for_nobody_is_refused";

const TLS: &[OptionSpec] = &[
    text("truststore.file", "Key store of the certificates to trust.").test(SECURE),
    text("truststore.password", "Password of the trust store.").test(SECURE),
    text("truststore.algorithm", "Algorithm of the trust store.").status(OptionStatus::Ignored),
    text(
        "tls.store.type",
        "Type of the key stores; the form is known by the first bytes of the file.",
    )
    .status(OptionStatus::Ignored),
    text("keystore.file", "Key store with the own certificate.").test(SECURE),
    text("keystore.password", "Password of the key store.").test(SECURE),
    text("keystore.algorithm", "Algorithm of the key store.").status(OptionStatus::Ignored),
    bool(
        "enable.ssl",
        "false",
        "Uses TLS; a key store or trust store does so as well.",
    )
    .test(SECURE),
    bool(
        "mutual.auth.enabled",
        "false",
        "Both sides show a certificate.",
    )
    .test(SECURE),
];

const DESCRIPTOR: OptionSpec = text(
    "descriptor.file",
    "Description of a service of your own, for the mapper 'protobuf': a `.proto` file as it is, or \
     a descriptor set, as `protoc --include_imports --descriptor_set_out` makes it (an extension).",
)
.test(OWN);

const CLIENT: &[OptionSpec] = &[
    text(
        "publisher.url",
        "`grpc://host:port/<service>/<method>` or `grpc://host:port/<sequence>`.",
    )
    .test(SENT)
    .required(),
    pairs("headers", "Headers of the event, `'k:v','k:v'`.")
        .test(SENT)
        .dynamic(),
    pairs("metadata", "Metadata of the call, `'k:v','k:v'`.")
        .test(SENT)
        .dynamic(),
    long(
        "idle.timeout",
        "1800",
        "Seconds after which an idle connection is reopened.",
    ).at_least(0).unit("seconds")
    .test(SENT),
    long(
        "keep.alive.time",
        "1",
        "Seconds between keep-alive pings; 0: none. If a server closes a connection because of too \
         many pings, the interval is doubled.",
    ).at_least(0).unit("seconds")
    .test(STILL),
    long(
        "keep.alive.timeout",
        "2",
        "Seconds to wait for the answer to one.",
    ).at_least(0).unit("seconds")
    .test(AWAY),
    OptionSpec::new(
        "keep.alive.without.calls",
        OptionType::Bool,
        "Asks also while no call is under way, or does not. Without it: as long as the server does not \
         complain of it, as many do.",
    )
    .test(COMPLAINT),
    bool(
        "enable.retry",
        "false",
        "Makes a call again that the server asks to make later.",
    )
    .test(AWAY),
    int("max.retry.attempts", "5", "How often a call is made then.").at_least(0).unit("calls").test(AWAY),
    OptionSpec::new(
        "retry.buffer.size",
        OptionType::Bytes,
        "Bytes kept for retries.",
    )
    .status(OptionStatus::Ignored)
    .default("16777216"),
    OptionSpec::new(
        "per.rpc.buffer.size",
        OptionType::Bytes,
        "Bytes kept for one call.",
    )
    .status(OptionStatus::Ignored)
    .default("1048576"),
    long(
        "channel.termination.waiting.time",
        "5",
        "Seconds to wait for answers when the sink closes.",
    ).at_least(0).unit("seconds")
    .test(CALLED),
    DESCRIPTOR,
    DESCRIPTOR_IMPORTS,
];

const LIMITS: &[OptionSpec] = &[
    OptionSpec::new(
        "max.inbound.message.size",
        OptionType::Bytes,
        "Largest message accepted.",
    )
    .at_least(0)
    .test(LIMITED)
    .default("4194304"),
    OptionSpec::new(
        "max.inbound.metadata.size",
        OptionType::Bytes,
        "Largest metadata accepted.",
    )
    .at_least(0)
    .test(LIMITED)
    .default("8192"),
];

const SERVER: &[OptionSpec] = &[
    text(
        "receiver.url",
        "URL to listen on, `grpc://host:port/<service>/<method>`.",
    )
    .test(TAKEN)
    .required(),
    long(
        "server.shutdown.waiting.time",
        "5",
        "Seconds to wait when the server stops.",
    )
    .at_least(0)
    .unit("seconds")
    .test(TAKEN),
    int(
        "threadpool.size",
        "100",
        "Calls of a connection handled at once.",
    )
    .at_least(0)
    .unit("calls")
    .test(TAKEN),
    int(
        "threadpool.buffer.size",
        "100",
        "Calls of a connection that may wait.",
    )
    .at_least(0)
    .unit("calls")
    .test(TAKEN),
    DESCRIPTOR,
    DESCRIPTOR_IMPORTS,
];

const SINK_ID: OptionSpec = text(
    "sink.id",
    "Joins the calls of a sink with the source of their responses.",
)
.test(CALLED)
.required();
const SOURCE_ID: OptionSpec = text(
    "source.id",
    "Joins the requests of a source with the sink of their responses.",
)
.test(CALLED)
.required();

const CALL_EXAMPLE: &str = "@sink(type='grpc-call', sink.id='prices', publisher.url='grpc://localhost:8888/org.wso2.grpc.EventService/process', headers=\"'stream.id:Questions'\", @map(type='json'))
define stream Questions (symbol string);
@source(type='grpc-call-response', sink.id='prices', @map(type='json', @attributes(symbol = 'trp:symbol', price = '$.price')))
define stream Prices (symbol string, price double);";

const SERVICE_EXAMPLE: &str = "@source(type='grpc-service', source.id='quotes', receiver.url='grpc://0.0.0.0:8888/org.wso2.grpc.EventService/process', @map(type='json', @attributes(id = 'trp:message.id', symbol = '$.symbol')))
define stream Questions (id string, symbol string);
@sink(type='grpc-service-response', source.id='quotes', message.id='{{id}}', @map(type='json'))
define stream Answers (id string, price double);";

pub const SINK: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@sink(type='grpc', publisher.url='grpc://localhost:8888/org.wso2.grpc.EventService/consume', headers=\"'stream.id:Trades'\", on.error='WAIT', @map(type='json'))
define stream Trades (symbol string, price double);",
    payloads: TEXT_OR_BYTES,
    options: plan::spec::options!(CLIENT, LIMITS, TLS),
    addresses: &[("publisher.url", 80)],
    identity: &["publisher.url"],
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "grpc",
        "io-grpc",
        "Sends payloads to a gRPC service and expects no response.",
    )
};

pub const CALL: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: CALL_EXAMPLE,
    payloads: TEXT_OR_BYTES,
    options: plan::spec::options!(CLIENT, &[SINK_ID], LIMITS, TLS),
    addresses: &[("publisher.url", 80)],
    identity: &["publisher.url"],
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "grpc-call",
        "io-grpc",
        "Calls a gRPC service; the response reaches the source of the same id.",
    )
};

pub const CALL_RESPONSE: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: CALL_EXAMPLE,
    payloads: TEXT_OR_BYTES,
    options: &[SINK_ID],
    properties: &["*"],
    ..ConnectorSpec::new(
        ConnectorKind::Source,
        "grpc-call-response",
        "io-grpc",
        "Receives the responses to the calls of the sink of the same id.",
    )
};

pub const SOURCE: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@source(type='grpc', receiver.url='grpc://0.0.0.0:8888/org.wso2.grpc.EventService/consume', @map(type='json'))
define stream Trades (symbol string, price double);",
    payloads: TEXT_OR_BYTES,
    options: plan::spec::options!(SERVER, LIMITS, TLS),
    properties: &["*"],
    exposes_service: true,
    ..ConnectorSpec::new(
        ConnectorKind::Source,
        "grpc",
        "io-grpc",
        "Receives events over gRPC and answers nothing.",
    )
};

pub const SERVICE: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: SERVICE_EXAMPLE,
    payloads: TEXT_OR_BYTES,
    options: plan::spec::options!(
        SERVER,
        &[
            SOURCE_ID,
            millis(
                "service.timeout",
                "10000",
                "Fails a request not answered by then."
            )
            .test(CALLED)
        ],
        LIMITS,
        TLS,
    ),
    properties: &["*"],
    exposes_service: true,
    ..ConnectorSpec::new(
        ConnectorKind::Source,
        "grpc-service",
        "io-grpc",
        "Receives gRPC requests that the response sink of the same id answers.",
    )
};

pub const SERVICE_RESPONSE: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: SERVICE_EXAMPLE,
    payloads: TEXT_OR_BYTES,
    options: &[
        SOURCE_ID,
        text(
            "message.id",
            "Id of the request to answer, from `trp:message.id`.",
        )
        .test(CALLED)
        .required()
        .dynamic(),
    ],
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "grpc-service-response",
        "io-grpc",
        "Answers a request that the service source of the same id received.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] =
    &[SOURCE, SINK, CALL, CALL_RESPONSE, SERVICE, SERVICE_RESPONSE];
