//! `#file:…` and `file:…`: what an app does to files.

use event::Type;

use plan::spec::{
    ConnectorKind, ConnectorSpec, FunctionKind, FunctionSpec, Overload, Param, Returns, Types,
};

const URI: Param = Param::new(
    "uri",
    Types::STRING,
    "File or directory; `file:` may be left out.",
);
const PATH: Param = Param::new(
    "path",
    Types::STRING,
    "File or directory; `file:` may be left out.",
);
const DESTINATION: Param = Param::new(
    "destination.dir.uri",
    Types::STRING,
    "Directory; it is made where missing.",
);
const DESTINATION_PATH: Param = Param::new(
    "destination.dir.path",
    Types::STRING,
    "Directory; it is made where missing.",
);
const INCLUDE: Param = Param::new(
    "include.by.regexp",
    Types::STRING,
    "Only files whose name begins with a match; empty: all.",
);
const EXCLUDE_ROOT: Param = Param::new(
    "exclude.root.dir",
    Types::BOOL,
    "Takes the content of a directory without the directory itself; default false.",
);
const EXCLUDE_SUB: Param = Param::new(
    "exclude.subdirectories",
    Types::BOOL,
    "Leaves out what lies in directories below; default false.",
);
const OPTIONS: Param = Param::new(
    "file.system.options",
    Types::STRING,
    "Settings of remote file systems, which are refused; empty for local files.",
);
const NEW_NAME: Param = Param::new("new.destination.name", Types::STRING, "The new name.");
const IS_DIRECTORY: Param = Param::new(
    "is.directory",
    Types::BOOL,
    "Makes a directory instead of a file.",
);
const ARCHIVE_TYPE: Param = Param::new("archive.type", Types::STRING, "`zip` (default) or `tar`.");
const FORMAT: Param = Param::new(
    "datetime.format",
    Types::STRING,
    "Format of the result; default `MM/dd/yyyy HH:mm:ss`.",
);

const IS_SUCCESS: &[(&str, Type)] = &[("isSuccess", Type::Bool)];
const FILE_NAMES: &[(&str, Type)] = &[("fileNameList", Type::Object)];

const fn stream(name: &'static str, summary: &'static str) -> FunctionSpec {
    FunctionSpec {
        effect: true,
        origin: "io-file",
        ..FunctionSpec::new(FunctionKind::StreamProcessor, "file", name, summary)
    }
}

const fn scalar(name: &'static str, summary: &'static str) -> FunctionSpec {
    FunctionSpec {
        effect: true,
        origin: "io-file",
        ..FunctionSpec::new(FunctionKind::Scalar, "file", name, summary)
    }
}

pub const MOVE: FunctionSpec = FunctionSpec {
    overloads: &[
        Overload::new(&[PATH, DESTINATION_PATH]),
        Overload::new(&[PATH, DESTINATION_PATH, INCLUDE]),
        Overload::new(&[PATH, DESTINATION_PATH, INCLUDE, EXCLUDE_ROOT]),
        Overload::new(&[PATH, DESTINATION_PATH, INCLUDE, EXCLUDE_ROOT, OPTIONS]),
    ],
    adds: IS_SUCCESS,
    example: "from Done#file:move(path, 'archive') select path, isSuccess insert into Out;",
    ..stream("move", "Moves a file or directory into a directory.")
};

pub const COPY: FunctionSpec = FunctionSpec {
    overloads: &[
        Overload::new(&[URI, DESTINATION]),
        Overload::new(&[URI, DESTINATION, INCLUDE]),
        Overload::new(&[URI, DESTINATION, INCLUDE, EXCLUDE_ROOT]),
        Overload::new(&[URI, DESTINATION, INCLUDE, EXCLUDE_ROOT, OPTIONS]),
    ],
    adds: IS_SUCCESS,
    example: "from Done#file:copy(path, 'backup') select path, isSuccess insert into Out;",
    ..stream("copy", "Copies a file or directory into a directory.")
};

pub const RENAME: FunctionSpec = FunctionSpec {
    overloads: &[
        Overload::new(&[URI, NEW_NAME]),
        Overload::new(&[URI, NEW_NAME, OPTIONS]),
    ],
    adds: IS_SUCCESS,
    example: "from Done#file:rename(path, 'done.csv') select path, isSuccess insert into Out;",
    ..stream("rename", "Renames a file or directory.")
};

pub const CREATE: FunctionSpec = FunctionSpec {
    overloads: &[
        Overload::new(&[URI]),
        Overload::new(&[URI, IS_DIRECTORY]),
        Overload::new(&[URI, IS_DIRECTORY, OPTIONS]),
    ],
    example: "from Done#file:create(path) select path insert into Out;",
    ..stream("create", "Makes an empty file, or a directory.")
};

pub const DELETE: FunctionSpec = FunctionSpec {
    overloads: &[Overload::new(&[URI]), Overload::new(&[URI, OPTIONS])],
    example: "from Done#file:delete(path) select path insert into Out;",
    ..stream(
        "delete",
        "Removes a file, or a directory with all it holds.",
    )
};

pub const ARCHIVE: FunctionSpec = FunctionSpec {
    example: "from Done#file:archive(path, 'archive', 'zip') select path insert into Out;",
    overloads: &[
        Overload::new(&[URI, DESTINATION]),
        Overload::new(&[URI, DESTINATION, ARCHIVE_TYPE]),
        Overload::new(&[URI, DESTINATION, ARCHIVE_TYPE, INCLUDE]),
        Overload::new(&[URI, DESTINATION, ARCHIVE_TYPE, INCLUDE, EXCLUDE_SUB]),
        Overload::new(&[
            URI,
            DESTINATION,
            ARCHIVE_TYPE,
            INCLUDE,
            EXCLUDE_SUB,
            OPTIONS,
        ]),
    ],
    ..stream(
        "archive",
        "Packs a file or directory into a zip or tar archive.",
    )
};

pub const UNARCHIVE: FunctionSpec = FunctionSpec {
    example: "from Done#file:unarchive(path, 'unpacked') select path insert into Out;",
    overloads: &[
        Overload::new(&[URI, DESTINATION]),
        Overload::new(&[URI, DESTINATION, EXCLUDE_ROOT]),
        Overload::new(&[URI, DESTINATION, EXCLUDE_ROOT, OPTIONS]),
    ],
    ..stream(
        "unarchive",
        "Unpacks an archive (zip, tar, tar.gz, gz) into a directory.",
    )
};

pub const SEARCH: FunctionSpec = FunctionSpec {
    overloads: &[
        Overload::new(&[URI]),
        Overload::new(&[URI, INCLUDE]),
        Overload::new(&[URI, INCLUDE, EXCLUDE_SUB]),
        Overload::new(&[URI, INCLUDE, EXCLUDE_SUB, OPTIONS]),
    ],
    adds: FILE_NAMES,
    example: "from Done#file:search(path, '.*csv') select path, fileNameList insert into Out;",
    ..stream("search", "Lists the files of a directory.")
};

pub const SEARCH_IN_ARCHIVE: FunctionSpec = FunctionSpec {
    example: "from Done#file:searchInArchive(path) select path, fileNameList insert into Out;",
    overloads: &[
        Overload::new(&[URI]),
        Overload::new(&[URI, INCLUDE]),
        Overload::new(&[URI, INCLUDE, OPTIONS]),
    ],
    adds: FILE_NAMES,
    ..stream("searchInArchive", "Lists the files inside an archive.")
};

pub const IS_EXIST: FunctionSpec = FunctionSpec {
    overloads: &[Overload::new(&[URI]), Overload::new(&[URI, OPTIONS])],
    returns: Returns::Type(Type::Bool),
    example: "file:isExist(path) as found",
    ..scalar("isExist", "Whether the file or directory exists.")
};

pub const IS_FILE: FunctionSpec = FunctionSpec {
    overloads: &[Overload::new(&[PATH]), Overload::new(&[PATH, OPTIONS])],
    returns: Returns::Type(Type::Bool),
    example: "file:isFile(path) as plain",
    ..scalar("isFile", "Whether the path is that of a file.")
};

pub const IS_DIRECTORY_FN: FunctionSpec = FunctionSpec {
    overloads: &[Overload::new(&[URI]), Overload::new(&[URI, OPTIONS])],
    returns: Returns::Type(Type::Bool),
    example: "file:isDirectory(path) as folder",
    ..scalar("isDirectory", "Whether the path is that of a directory.")
};

pub const SIZE: FunctionSpec = FunctionSpec {
    overloads: &[Overload::new(&[URI]), Overload::new(&[URI, OPTIONS])],
    returns: Returns::Type(Type::Long),
    example: "file:size(path) as bytes",
    ..scalar(
        "size",
        "Bytes of a file, or of all files below a directory.",
    )
};

pub const LAST_MODIFIED_TIME: FunctionSpec = FunctionSpec {
    overloads: &[
        Overload::new(&[URI]),
        Overload::new(&[URI, FORMAT]),
        Overload::new(&[URI, FORMAT, OPTIONS]),
    ],
    returns: Returns::Type(Type::String),
    example: "file:lastModifiedTime(path) as changed",
    ..scalar("lastModifiedTime", "When the file last changed, as text.")
};

pub const FUNCTIONS: &[FunctionSpec] = &[
    MOVE,
    COPY,
    CREATE,
    DELETE,
    RENAME,
    ARCHIVE,
    UNARCHIVE,
    SEARCH,
    SEARCH_IN_ARCHIVE,
    IS_EXIST,
    IS_FILE,
    IS_DIRECTORY_FN,
    SIZE,
    LAST_MODIFIED_TIME,
];

const fn stream_row(name: &'static str, function: &'static FunctionSpec) -> ConnectorSpec {
    ConnectorSpec::of_function(ConnectorKind::StreamFunction, name, "io-file", function)
}

const fn scalar_row(name: &'static str, function: &'static FunctionSpec) -> ConnectorSpec {
    ConnectorSpec::of_function(ConnectorKind::Function, name, "io-file", function)
}

pub const CONNECTORS: &[ConnectorSpec] = &[
    stream_row("file:move", &MOVE),
    stream_row("file:copy", &COPY),
    stream_row("file:create", &CREATE),
    stream_row("file:delete", &DELETE),
    stream_row("file:rename", &RENAME),
    stream_row("file:archive", &ARCHIVE),
    stream_row("file:unarchive", &UNARCHIVE),
    stream_row("file:search", &SEARCH),
    stream_row("file:searchInArchive", &SEARCH_IN_ARCHIVE),
    scalar_row("file:isExist", &IS_EXIST),
    scalar_row("file:isFile", &IS_FILE),
    scalar_row("file:isDirectory", &IS_DIRECTORY_FN),
    scalar_row("file:size", &SIZE),
    scalar_row("file:lastModifiedTime", &LAST_MODIFIED_TIME),
];
