//! The `log` sink and the stream function `#log`.

use plan::spec::{
    ConnectorKind, ConnectorSpec, FunctionKind, FunctionSpec, Overload, Param, Status, Types,
    choice, text,
};

const PRIORITIES: &[&str] = &["INFO", "DEBUG", "WARN", "FATAL", "ERROR", "OFF", "TRACE"];

pub const SINK: ConnectorSpec = ConnectorSpec {
    is_inline: true,
    status: Status::Runs,
    options: &[
        choice(
            "priority",
            PRIORITIES,
            "INFO",
            "Level of the line; OFF writes nothing.",
        )
        .test("connectors::log::tests::prefixes_and_priorities"),
        text(
            "prefix",
            "Text before each payload; by default '<app> : <stream>'.",
        )
        .test("connectors::log::tests::prefixes_and_priorities")
        .dynamic(),
    ],
    example: "@sink(type='log', prefix='trade')
define stream Trades (symbol string, price double);",
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "log",
        "core",
        "Writes each chunk as one line to standard output.",
    )
};

const PRIORITY: Param = Param::new(
    "priority",
    Types::STRING,
    "INFO, DEBUG, WARN, ERROR, FATAL, TRACE or OFF.",
);
const MESSAGE: Param = Param::new("log.message", Types::STRING, "Text before the event.");
const WITH_EVENT: Param = Param::new(
    "is.event.logged",
    Types::BOOL,
    "Whether the event itself is written.",
);

pub const LOG: FunctionSpec = FunctionSpec {
    overloads: &[
        Overload::new(&[]),
        Overload::new(&[MESSAGE]),
        Overload::new(&[WITH_EVENT]),
        Overload::new(&[MESSAGE, WITH_EVENT]),
        Overload::new(&[PRIORITY, MESSAGE]),
        Overload::new(&[PRIORITY, MESSAGE, WITH_EVENT]),
    ],
    example: "from Trades#log('seen') select symbol insert into Out;",
    ..FunctionSpec::new(
        FunctionKind::StreamProcessor,
        "",
        "log",
        "Writes a line for each event and passes it on unchanged.",
    )
};

pub const FUNCTIONS: &[FunctionSpec] = &[LOG];

pub const CONNECTORS: &[ConnectorSpec] = &[
    SINK,
    ConnectorSpec::of_function(ConnectorKind::StreamFunction, "log", "core", &LOG),
];
