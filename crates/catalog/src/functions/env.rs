//! `env:`, settings of the machine and the server, and groups of resources.

use super::{STRING, known, param};
use plan::spec::{FunctionKind, FunctionSpec, Overload, Param, Returns, Types};

const KEY: Param = param("key", Types::STRING, "Name of the setting.");
const DEFAULT: Param = param(
    "default.value",
    Types::STRING,
    "The value if it is missing.",
);
const TYPE: Param = param("data.type", Types::STRING, "Type of the setting.").constant();
const GROUP: Param = param(
    "resource.group.id",
    Types::STRING,
    "Name of the group of resources.",
)
.constant();

const fn scalar(
    name: &'static str,
    summary: &'static str,
    overloads: &'static [Overload],
    returns: Returns,
) -> FunctionSpec {
    known(
        FunctionKind::Scalar,
        "env",
        name,
        "execution-env",
        summary,
        overloads,
        returns,
    )
}

const PROPERTY: &[Overload] = &[Overload::new(&[KEY]), Overload::new(&[KEY, DEFAULT])];

pub const FUNCTIONS: &[FunctionSpec] = &[
    scalar(
        "getEnvironmentProperty",
        "A system property of the server.",
        PROPERTY,
        STRING,
    ),
    scalar(
        "getOriginIPFromXForwarded",
        "The first public address of a forwarding header.",
        &[Overload::new(&[param(
            "xforwardedheader",
            Types::STRING,
            "The header.",
        )])],
        STRING,
    ),
    scalar(
        "getSystemProperty",
        "An environment variable.",
        PROPERTY,
        STRING,
    ),
    scalar(
        "getUserAgentProperty",
        "A part of the text by which a browser names itself.",
        &[Overload::new(&[
            param("user.agent", Types::STRING, "The header."),
            param(
                "property.name",
                Types::STRING,
                "`browser`, `os` or `device`.",
            )
            .constant(),
        ])],
        STRING,
    ),
    scalar(
        "getYAMLProperty",
        "A property of the server configuration, as text or as the type that is named.",
        &[
            Overload::new(&[KEY]),
            Overload::new(&[KEY, TYPE]),
            Overload::new(&[KEY, TYPE, DEFAULT]),
        ],
        Returns::Named(1),
    ),
    known(
        FunctionKind::Window,
        "env",
        "resourceBatch",
        "execution-env",
        "Collects one event of each member of a group of resources.",
        &[
            Overload::new(&[GROUP, CORRELATION]),
            Overload::new(&[
                GROUP,
                CORRELATION,
                param(
                    "time.in.milliseconds",
                    Types::INT_LONG,
                    "Longest wait, in ms.",
                )
                .constant(),
            ]),
        ],
        Returns::Nothing,
    ),
];

const CORRELATION: Param = param(
    "correlation.id",
    Types::ANY,
    "What joins the events of the members.",
);
