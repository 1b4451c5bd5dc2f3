//! S3 objects.

use super::{bool, text};
use crate::spec::{
    ConnectorKind, ConnectorSpec, Fact, FunctionKind, FunctionSpec, Overload, Param, Rule, Status,
    Types,
};

pub const SINK: ConnectorSpec = ConnectorSpec {
    options: &[
        text("bucket.name", "The bucket; it is made where missing.").required(),
        text("object.path", "Path of the objects.")
            .required()
            .dynamic(),
        text("credential.provider.class", "Where credentials come from."),
        text("aws.access.key", "Access key."),
        text("aws.secret.key", "Secret key."),
        text("aws.region", "Region of the bucket."),
        bool(
            "versioning.enabled",
            "false",
            "Keeps old versions of objects.",
        ),
        text("storage.class", "Storage class of the objects.").default("standard"),
        text("content.type", "Type of the content.")
            .default("application/octet-stream")
            .dynamic(),
        text(
            "bucket.acl",
            "Access rules of a bucket that has to be made.",
        ),
        text(
            "node.id",
            "Part of the names that keeps several nodes apart.",
        ),
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
