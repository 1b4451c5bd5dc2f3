//! S3 objects.

use super::{bool, text};
use crate::spec::{
    ConnectorKind, ConnectorSpec, Fact, FunctionKind, FunctionSpec, OptionStatus, Overload, Param,
    Rule, Status, TEXT_OR_BYTES, Types,
};

const OBJECTS: &str = "headwater::s3::payloads_are_objects_whose_numbers_go_on_after_a_restart";
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
            "Path of the objects; their names are the stream's, with numbers that go on behind the highest \
             of the path.",
        )
        .test(OBJECTS)
        .required()
        .dynamic(),
        text(
            "credential.provider.class",
            "Where credentials come from: a class of the Java client for the default chain, the \
             environment, containers, instance profiles, or nobody.",
        )
        .test(PROVIDER),
        text("aws.access.key", "Access key.").test(OBJECTS),
        text("aws.secret.key", "Secret key.").test(OBJECTS),
        text("aws.region", "Region of the bucket.").test(OBJECTS),
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
const BUCKET: Param = Param::new("bucket.name", Types::STRING, "The bucket.");
const KEY: Param = Param::new("key", Types::STRING, "Name of the object.");
const PATH: Param = Param::new("file.path", Types::STRING, "File to upload.");
const MORE: Param = Param::new(
    "setting",
    Types(Types::BOOL.0 | Types::STRING.0),
    "Whether to wait (`async`), then credentials, region and storage class.",
);

const fn object(name: &'static str, summary: &'static str) -> FunctionSpec {
    FunctionSpec {
        effect: true,
        origin: "io-s3",
        status: Status::Known,
        ..FunctionSpec::new(FunctionKind::StreamProcessor, "s3", name, summary)
    }
}

pub const COPY: FunctionSpec = FunctionSpec {
    overloads: &[
        Overload::new(&[FROM_BUCKET, FROM_KEY, BUCKET, KEY]),
        Overload::repeating(&[FROM_BUCKET, FROM_KEY, BUCKET, KEY, MORE], 1),
    ],
    ..object("copy", "Copies an object.")
};

pub const DELETE: FunctionSpec = FunctionSpec {
    overloads: &[
        Overload::new(&[BUCKET, KEY]),
        Overload::repeating(&[BUCKET, KEY, MORE], 1),
    ],
    ..object("delete", "Removes an object.")
};

pub const UPLOAD: FunctionSpec = FunctionSpec {
    overloads: &[
        Overload::new(&[PATH, BUCKET, KEY]),
        Overload::repeating(&[PATH, BUCKET, KEY, MORE], 1),
    ],
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
