//! Events of WSO2's products, as databridge has them.

use plan::spec::{ConnectorKind, ConnectorSpec, Mapping, Payload, Status};

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

pub const CONNECTORS: &[ConnectorSpec] = &[SOURCE_MAPPER];
