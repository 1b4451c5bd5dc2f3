//! Events of WSO2's products, as databridge has them.

use plan::spec::{ConnectorKind, ConnectorSpec, Mapping, OptionSpec, OptionType, Payload, Status};

pub const SOURCE_MAPPER: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@source(type='wso2event', wso2.stream.id='org.acme.trades:1.0.0',
    @map(type='wso2event', @attributes(at='meta_timestamp', symbol='symbol', folder='arbitrary_folder')))
define stream Trades (at long, symbol string, folder string);",
    payloads: &[Payload::Bytes],
    mapping: Mapping::Paths,
    ..ConnectorSpec::new(
        ConnectorKind::SourceMapper,
        "wso2event",
        "map-wso2event",
        "Reads events with their timestamps: attributes called `meta_x` are x of metaData, `correlation_x` of \
         correlationData, `arbitrary_x` what the arbitrary data holds under x, all others payloadData, each in \
         the order of the stream. `@attributes` names them where the stream calls them otherwise.",
    )
};

pub const SINK_MAPPER: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@sink(type='wso2event', url='tcp://analytics:7611', username='anna', password='${secret:analytics}',
    wso2.stream.id='org.acme.trades:1.0.0',
    @map(type='wso2event', meta_timestamp='at', symbol='symbol', arbitrary_folder='folder'))
define stream Trades (at long, symbol string, folder string);",
    payloads: &[Payload::Bytes],
    mapping: Mapping::Entries,
    options: &[
        OptionSpec::new(
            "*",
            OptionType::Text,
            "An attribute of the stream by the key that it is sent under: `meta_x`, `correlation_x`, `arbitrary_x`, or \
             `x` of payloadData. With keys, what none names is not sent. `@payload(meta_x='x')` is the same.",
        )
        .test("headwater::wso2event::what_a_sink_sends_comes_to_our_source"),
    ],
    ..ConnectorSpec::new(
        ConnectorKind::SinkMapper,
        "wso2event",
        "map-wso2event",
        "Writes events with their timestamps. Attributes called `meta_x` are x of metaData, `correlation_x` of \
         correlationData, `arbitrary_x` a text of the arbitrary data under x, all others payloadData, each in the order \
         of the stream. An event with a null that is not a text cannot be sent and is rejected.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[SOURCE_MAPPER, SINK_MAPPER];
