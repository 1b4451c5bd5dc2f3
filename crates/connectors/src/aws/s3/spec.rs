//! S3 objects.

use plan::spec::{
    ConnectorKind, ConnectorSpec, Fact, FunctionKind, FunctionSpec, OptionStatus, Overload, Param,
    Rule, Status, TEXT_OR_BYTES, Types, bool, text,
};

const OBJECTS: &str = "headwater::s3::payloads_are_objects_whose_numbers_go_on_after_a_restart";
const KEYS: &str = "headwater::s3::only_who_has_the_keys_may_store";
const PROVIDER: &str = "headwater::s3::where_credentials_cannot_come_from_is_told";

pub const SINK: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    payloads: TEXT_OR_BYTES,
    example: "@sink(type='s3', bucket.name='orders', object.path='eu/{{day}}', aws.region='eu-west-1', @map(type='json'))
define stream Orders (day string, amount double);",
    options: &[
        text("bucket.name", "The bucket; it is made where missing.")
            .test(OBJECTS)
            .required(),
        text(
            "object.path",
            "Path of the objects; their names are the stream's, with numbers that continue after \
             the highest in the path.",
        )
        .test(OBJECTS)
        .required()
        .dynamic(),
        text(
            "credential.provider.class",
            "Where credentials come from: a class of the Java client for the default chain, the \
             environment, containers, instance profiles, or anonymous access.",
        )
        .test(PROVIDER),
        text("aws.access.key", "Access key.").test(KEYS),
        text("aws.secret.key", "Secret key.").test(KEYS),
        text("aws.region", "Region of the bucket.")
            .test(OBJECTS)
            .default("us-east-1"),
        bool(
            "versioning.enabled",
            "false",
            "A bucket that has to be made keeps old versions of objects.",
        )
        .test(OBJECTS),
        text("storage.class", "Storage class of the objects.")
            .test(OBJECTS)
            .default("standard"),
        text("content.type", "Type of the content.")
            .test(OBJECTS)
            .default("application/octet-stream")
            .dynamic(),
        text(
            "bucket.acl",
            "Access rules of a bucket that has to be made: set them at the bucket.",
        )
        .status(OptionStatus::Ignored),
        text(
            "node.id",
            "Part of the names that keeps several nodes apart.",
        )
        .test(OBJECTS),
    ],
    rules: &[
        Rule::Together(&["aws.access.key", "aws.secret.key"]),
        Rule::Never {
            when: Fact::All(&[
                Fact::Given("credential.provider.class"),
                Fact::Any(&[Fact::Given("aws.access.key"), Fact::Given("aws.secret.key")]),
            ]),
            at: &["credential.provider.class"],
            message: "keys and option 'credential.provider.class' exclude each other",
            help: "keep the keys or the provider",
        },
    ],
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "s3",
        "io-s3",
        "Stores each payload as an object of a bucket.",
    )
};

const FROM_BUCKET: Param = Param::new("from.bucket.name", Types::STRING, "Bucket to copy from.");
const FROM_KEY: Param = Param::new("from.key", Types::STRING, "Object to copy.");
const BUCKET: Param = Param::new(
    "bucket.name",
    Types::STRING,
    "The bucket; for an object that is stored it is made where missing.",
);
const KEY: Param = Param::new("key", Types::STRING, "Name of the object.");
const PATH: Param = Param::new("file.path", Types::STRING, "File to upload.");
const ASYNC: Param = Param::new(
    "async",
    Types::BOOL,
    "Runs the calls of a chunk at once; one that fails is logged and fails no event.",
);
const PROVIDER_CLASS: Param = Param::new(
    "credential.provider.class",
    Types::STRING,
    "Where credentials come from, as for the sink; empty with keys.",
);
const AT_REGION: Param = Param::new("aws.region", Types::STRING, "Region of the bucket.");
const CLASS: Param = Param::new(
    "storage.class",
    Types::STRING,
    "Storage class of the object.",
);
const ACCESS: Param = Param::new("aws.access.key", Types::STRING, "Access key.");
const SECRET: Param = Param::new("aws.secret.key", Types::STRING, "Secret key.");
const VERSIONING: Param = Param::new(
    "versioning.enabled",
    Types(Types::BOOL.0 | Types::STRING.0),
    "A bucket that has to be made keeps old versions of objects.",
);
const ACL: Param = Param::new(
    "bucket.acl",
    Types::STRING,
    "Access rules of a bucket that has to be made: without effect, set them at the bucket.",
);

const fn object(name: &'static str, summary: &'static str) -> FunctionSpec {
    FunctionSpec {
        effect: true,
        origin: "io-s3",
        ..FunctionSpec::new(FunctionKind::StreamProcessor, "s3", name, summary)
    }
}

const COPY_PARAMS: &[Param] = &[
    FROM_BUCKET,
    FROM_KEY,
    BUCKET,
    KEY,
    ASYNC,
    PROVIDER_CLASS,
    AT_REGION,
    CLASS,
    ACCESS,
    SECRET,
    VERSIONING,
    ACL,
];

const DELETE_PARAMS: &[Param] = &[
    BUCKET,
    KEY,
    ASYNC,
    PROVIDER_CLASS,
    AT_REGION,
    ACCESS,
    SECRET,
];

const UPLOAD_PARAMS: &[Param] = &[
    PATH,
    BUCKET,
    KEY,
    ASYNC,
    PROVIDER_CLASS,
    AT_REGION,
    CLASS,
    ACCESS,
    SECRET,
    VERSIONING,
    ACL,
];

/// The form with so many of the parameters.
const fn first(params: &'static [Param], count: usize) -> Overload {
    Overload::new(params.split_at(count).0)
}

pub const COPY: FunctionSpec = FunctionSpec {
    overloads: &[
        first(COPY_PARAMS, 4),
        first(COPY_PARAMS, 5),
        first(COPY_PARAMS, 6),
        first(COPY_PARAMS, 7),
        first(COPY_PARAMS, 8),
        first(COPY_PARAMS, 10),
        first(COPY_PARAMS, 11),
        first(COPY_PARAMS, 12),
    ],
    example: "define stream Closed (day string);
from Closed#s3:copy('orders', day, 'orders-kept', day)
select day
insert into Kept;",
    ..object("copy", "Copies an object.")
};

pub const DELETE: FunctionSpec = FunctionSpec {
    overloads: &[
        first(DELETE_PARAMS, 2),
        first(DELETE_PARAMS, 3),
        first(DELETE_PARAMS, 4),
        first(DELETE_PARAMS, 5),
        first(DELETE_PARAMS, 7),
    ],
    example: "define stream Kept (day string);
from Kept#s3:delete('orders', day)
select day
insert into Gone;",
    ..object("delete", "Removes an object.")
};

pub const UPLOAD: FunctionSpec = FunctionSpec {
    overloads: &[
        first(UPLOAD_PARAMS, 3),
        first(UPLOAD_PARAMS, 4),
        first(UPLOAD_PARAMS, 5),
        first(UPLOAD_PARAMS, 6),
        first(UPLOAD_PARAMS, 7),
        first(UPLOAD_PARAMS, 9),
        first(UPLOAD_PARAMS, 10),
        first(UPLOAD_PARAMS, 11),
    ],
    example: "define stream Files (path string, name string);
from Files#s3:uploadFile(path, 'orders', name)
select name
insert into Stored;",
    ..object("uploadFile", "Stores a file as an object.")
};

pub const FUNCTIONS: &[FunctionSpec] = &[COPY, DELETE, UPLOAD];

const fn row(name: &'static str, function: &'static FunctionSpec) -> ConnectorSpec {
    ConnectorSpec::of_function(ConnectorKind::StreamFunction, name, "io-s3", function)
}

pub const CONNECTORS: &[ConnectorSpec] = &[
    SINK,
    row("s3:copy", &COPY),
    row("s3:delete", &DELETE),
    row("s3:uploadFile", &UPLOAD),
];
