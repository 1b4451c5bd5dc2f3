//! gRPC: one-way events, calls with their responses, and services.

use super::{bool, int, long, millis, pairs, text};
use crate::spec::{ConnectorKind, ConnectorSpec, OptionSpec, OptionType};

const TLS: &[OptionSpec] = &[
    text("truststore.file", "Key store of the certificates to trust."),
    text("truststore.password", "Password of the trust store."),
    text("truststore.algorithm", "Algorithm of the trust store."),
    text("tls.store.type", "Type of the key stores."),
    text("keystore.file", "Key store with the own certificate."),
    text("keystore.password", "Password of the key store."),
    text("keystore.algorithm", "Algorithm of the key store."),
    bool("enable.ssl", "false", "Uses TLS."),
    bool(
        "mutual.auth.enabled",
        "false",
        "Both sides show a certificate.",
    ),
];

const CLIENT: &[OptionSpec] = &[
    text(
        "publisher.url",
        "`grpc://host:port/<service>/<method>` or `grpc://host:port/<sequence>`.",
    )
    .required(),
    pairs("headers", "Headers of the event, `'k:v','k:v'`.").dynamic(),
    pairs("metadata", "Metadata of the call, `'k:v','k:v'`.").dynamic(),
    long(
        "idle.timeout",
        "1800",
        "Seconds after which an idle channel closes.",
    ),
    long(
        "keep.alive.time",
        "",
        "Seconds between signs of life; none by default.",
    ),
    long(
        "keep.alive.timeout",
        "20",
        "Seconds to wait for the answer to one.",
    ),
    bool(
        "keep.alive.without.calls",
        "false",
        "Sends them without a call under way.",
    ),
    bool("enable.retry", "false", "Tries failed calls again."),
    int("max.retry.attempts", "5", "How often."),
    OptionSpec::new(
        "retry.buffer.size",
        OptionType::Bytes,
        "Bytes kept for retries.",
    )
    .default("16777216"),
    OptionSpec::new(
        "per.rpc.buffer.size",
        OptionType::Bytes,
        "Bytes kept for one call.",
    )
    .default("1048576"),
    long(
        "channel.termination.waiting.time",
        "5",
        "Seconds to wait when the channel closes.",
    ),
    text(
        "descriptor.file",
        "Descriptor set of a service of your own (an extension of ours).",
    ),
];

const LIMITS: &[OptionSpec] = &[
    OptionSpec::new(
        "max.inbound.message.size",
        OptionType::Bytes,
        "Largest message accepted.",
    )
    .default("4194304"),
    OptionSpec::new(
        "max.inbound.metadata.size",
        OptionType::Bytes,
        "Largest metadata accepted.",
    )
    .default("8192"),
];

const SERVER: &[OptionSpec] = &[
    text(
        "receiver.url",
        "URL to listen on, `grpc://host:port/<service>/<method>`.",
    )
    .required(),
    long(
        "server.shutdown.waiting.time",
        "5",
        "Seconds to wait when the server stops.",
    ),
    int("threadpool.size", "100", "Requests handled at once."),
    int("threadpool.buffer.size", "100", "Requests that may wait."),
    text(
        "descriptor.file",
        "Descriptor set of a service of your own (an extension of ours).",
    ),
];

const SINK_ID: OptionSpec = text(
    "sink.id",
    "Joins the calls of a sink with the source of their responses.",
)
.required();
const SOURCE_ID: OptionSpec = text(
    "source.id",
    "Joins the requests of a source with the sink of their responses.",
)
.required();

pub const SINK: ConnectorSpec = ConnectorSpec {
    options: super::options!(CLIENT, TLS),
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "grpc",
        "io-grpc",
        "Sends payloads to a gRPC service and expects no response.",
    )
};

pub const CALL: ConnectorSpec = ConnectorSpec {
    options: super::options!(CLIENT, &[SINK_ID], LIMITS, TLS),
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "grpc-call",
        "io-grpc",
        "Calls a gRPC service; the response reaches the source of the same id.",
    )
};

pub const CALL_RESPONSE: ConnectorSpec = ConnectorSpec {
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
    options: super::options!(SERVER, LIMITS, TLS),
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
    options: super::options!(
        SERVER,
        &[
            SOURCE_ID,
            millis(
                "service.timeout",
                "10000",
                "Fails a request not answered by then."
            )
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
    options: &[
        SOURCE_ID,
        text(
            "message.id",
            "Id of the request to answer, from `trp:message.id`.",
        )
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
