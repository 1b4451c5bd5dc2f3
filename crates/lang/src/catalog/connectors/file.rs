//! Files as source and sink, and the listener for changes of a directory.

use super::{bool, int, list, millis, pairs, text};
use crate::spec::{
    ConnectorKind, ConnectorSpec, Fact, OptionSpec, OptionStatus, OptionType, Rule, Status,
    TEXT_OR_BYTES,
};

const SYSTEM_OPTIONS: OptionSpec = pairs(
    "file.system.options",
    "Settings of remote file systems (ftp, sftp); local files have none.",
)
.status(OptionStatus::Refused);

/// File systems of other machines.
const REMOTE: &[&str] = &[
    "ftp:", "ftps:", "sftp:", "smb:", "webdav:", "webdavs:", "http:", "https:", "hdfs:",
];
const MODES: &[&str] = &[
    "line",
    "text.full",
    "binary.full",
    "binary.chunked",
    "regex",
];
const WHOLE: Fact = Fact::Is("mode", &["text.full", "binary.full", "binary.chunked"]);

/// Tailing is on where it is not written, but in the modes that read a file whole.
const TAILING: Fact = Fact::All(&[
    Fact::Is("tailing", &["true"]),
    Fact::Any(&[Fact::Given("tailing"), Fact::Is("mode", &["line", "regex"])]),
]);
const MOVES: Fact = Fact::Is("action.after.process", &["move"]);
const DOES_NOT_MOVE: Fact = Fact::Any(&[
    Fact::Absent("action.after.process"),
    Fact::Is("action.after.process", &["keep", "delete", "none"]),
]);

pub const SOURCE: ConnectorSpec = ConnectorSpec {
    payloads: TEXT_OR_BYTES,
    status: Status::Runs,
    options: &[
        text("dir.uri", "Directory to watch, with everything below it.").not_yet(REMOTE),
        text("file.uri", "The one file to read.").not_yet(REMOTE),
        OptionSpec::new(
            "mode",
            OptionType::OneOf(MODES),
            "What is one message: a line, a whole file as text or bytes, a piece of a file, or \
             what stands between two patterns.",
        )
        .default("line"),
        bool(
            "tailing",
            "true",
            "Follows the file as it grows; false by default in the modes that read it whole.",
        ),
        OptionSpec::new(
            "action.after.process",
            OptionType::OneOf(&["keep", "delete", "move", "none"]),
            "What happens to a file that has been read; none is keep.",
        )
        .default("keep"),
        text(
            "move.after.process",
            "Where it goes: a directory for dir.uri, a path for file.uri.",
        ),
        OptionSpec::new(
            "move.if.exist.mode",
            OptionType::OneOf(&["OVERWRITE", "KEEP"]),
            "When the target exists: replace it, or keep both under another name.",
        ),
        text(
            "action.after.failure",
            "Never used: a file that cannot be read stays where it is.",
        )
        .default("delete")
        .status(OptionStatus::Ignored),
        text(
            "move.after.failure",
            "Never used: a file that cannot be read stays where it is.",
        )
        .status(OptionStatus::Ignored),
        OptionSpec::new(
            "begin.regex",
            OptionType::Regex,
            "Start of a record, in mode regex.",
        ),
        OptionSpec::new(
            "end.regex",
            OptionType::Regex,
            "End of a record, in mode regex.",
        ),
        millis(
            "file.polling.interval",
            "1000",
            "How often a followed file is looked at.",
        ),
        millis(
            "dir.polling.interval",
            "1000",
            "How often the directory is looked at.",
        ),
        millis(
            "timeout",
            "5000",
            "Not needed: reading goes on when a file has been taken.",
        )
        .status(OptionStatus::Ignored),
        millis(
            "file.read.wait.timeout",
            "1000",
            "A file is read when it has not changed for so long.",
        ),
        bool(
            "header.present",
            "false",
            "Leaves out the header, in mode line.",
        ),
        int("header.line.count", "1", "Lines of the header."),
        bool("read.only.header", "false", "Delivers the first line only."),
        bool(
            "read.only.trailer",
            "false",
            "Delivers the last line that is not empty only.",
        ),
        bool(
            "skip.trailer",
            "false",
            "Leaves out the last line that is not empty.",
        ),
        OptionSpec::new(
            "buffer.size",
            OptionType::Bytes,
            "Size of a piece, in mode binary.chunked.",
        )
        .default("65536"),
        OptionSpec::new(
            "cron.expression",
            OptionType::Cron,
            "Reads the directory at these times only.",
        ),
        OptionSpec::new(
            "file.name.pattern",
            OptionType::Regex,
            "Reads only files whose whole name matches.",
        ),
        SYSTEM_OPTIONS,
    ],
    rules: &[
        Rule::ExactlyOne(&["dir.uri", "file.uri"]),
        Rule::Never {
            when: Fact::All(&[
                WHOLE,
                Fact::Given("tailing"),
                Fact::Is("tailing", &["true"]),
            ]),
            at: &["tailing", "mode"],
            message: "option 'tailing' cannot be 'true' in a mode that reads the file whole",
            help: "set tailing='false', or use mode 'line' or 'regex'",
        },
        Rule::Never {
            when: Fact::All(&[TAILING, Fact::Given("cron.expression")]),
            at: &["tailing", "cron.expression"],
            message: "option 'cron.expression' cannot be used while the file is followed",
            help: "set tailing='false'",
        },
        Rule::Never {
            when: Fact::All(&[TAILING, Fact::Given("move.after.process")]),
            at: &["tailing", "move.after.process"],
            message: "option 'move.after.process' cannot be used while the file is followed",
            help: "set tailing='false': it is 'true' where it is not written",
        },
        Rule::Never {
            when: Fact::All(&[
                TAILING,
                Fact::Any(&[
                    Fact::Is("read.only.header", &["true"]),
                    Fact::Is("read.only.trailer", &["true"]),
                    Fact::Is("skip.trailer", &["true"]),
                ]),
            ]),
            at: &[
                "tailing",
                "read.only.header",
                "read.only.trailer",
                "skip.trailer",
            ],
            message: "header and trailer options cannot be used while the file is followed",
            help: "set tailing='false': it is 'true' where it is not written",
        },
        Rule::Never {
            when: Fact::All(&[
                Fact::Is("read.only.header", &["true"]),
                Fact::Is("read.only.trailer", &["true"]),
            ]),
            at: &["read.only.trailer"],
            message: "options 'read.only.header' and 'read.only.trailer' exclude each other",
            help: "keep one of them",
        },
        Rule::Never {
            when: Fact::All(&[
                Fact::Is("read.only.trailer", &["true"]),
                Fact::Is("skip.trailer", &["true"]),
            ]),
            at: &["skip.trailer"],
            message: "options 'read.only.trailer' and 'skip.trailer' exclude each other",
            help: "keep one of them",
        },
        Rule::Never {
            when: Fact::All(&[
                Fact::Is("action.after.process", &["delete"]),
                Fact::Given("move.after.process"),
            ]),
            at: &["move.after.process"],
            message: "option 'move.after.process' has no meaning when the file is deleted",
            help: "set action.after.process='move', or leave move.after.process out",
        },
        Rule::Never {
            when: Fact::All(&[MOVES, Fact::Absent("move.after.process")]),
            at: &["action.after.process"],
            message: "action 'move' needs option 'move.after.process'",
            help: "say where the file goes",
        },
        Rule::Never {
            when: Fact::All(&[Fact::Given("cron.expression"), DOES_NOT_MOVE]),
            at: &["cron.expression"],
            message: "option 'cron.expression' needs action.after.process='move'",
            help: "move the files away, so that the next run does not read them again",
        },
        Rule::Never {
            when: Fact::All(&[Fact::Given("move.if.exist.mode"), DOES_NOT_MOVE]),
            at: &["move.if.exist.mode"],
            message: "option 'move.if.exist.mode' needs action.after.process='move'",
            help: "set action.after.process='move', or leave move.if.exist.mode out",
        },
        Rule::Never {
            when: Fact::All(&[
                Fact::Is("mode", &["binary.full", "binary.chunked"]),
                Fact::Given("begin.regex"),
                Fact::Given("end.regex"),
            ]),
            at: &["begin.regex"],
            message: "patterns have no meaning in a mode that reads bytes",
            help: "use mode 'regex', or leave begin.regex and end.regex out",
        },
    ],
    properties: &[
        "file.path",
        "file.name",
        "eof",
        "content.length",
        "sequence.number",
    ],
    example: "@source(type='file', dir.uri='in', mode='line', tailing='false',
    action.after.process='move', move.after.process='done', @map(type='csv'))
define stream Trades (symbol string, price double);
from Trades select symbol insert into Out;",
    ..ConnectorSpec::new(
        ConnectorKind::Source,
        "file",
        "io-file",
        "Reads a file, or every file that appears in a directory.",
    )
};

pub const SINK: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    options: &[
        text(
            "file.uri",
            "File to write; it and its directories are made.",
        )
        .required()
        .dynamic()
        .not_yet(REMOTE),
        bool(
            "append",
            "true",
            "Adds to the file; false replaces it with each payload.",
        ),
        bool(
            "add.line.separator",
            "true",
            "Ends each text with a line break; false by default with the csv mapper.",
        ),
        SYSTEM_OPTIONS,
    ],
    example: "@sink(type='file', file.uri='out/{{symbol}}.json', @map(type='json'))
define stream Trades (symbol string, price double);",
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "file",
        "io-file",
        "Writes each payload to a file.",
    )
};

pub const LISTENER: ConnectorSpec = ConnectorSpec {
    options: &[
        text("dir.uri", "Directory to watch.").required(),
        millis("monitoring.interval", "100", "How often it is looked at."),
        list(
            "file.name.list",
            "Files to report; all where it is not given.",
        ),
        SYSTEM_OPTIONS,
    ],
    ..ConnectorSpec::new(
        ConnectorKind::Source,
        "fileeventlistener",
        "io-file",
        "Reports files that are created, change, are complete or vanish in a directory.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[SOURCE, SINK, LISTENER];
