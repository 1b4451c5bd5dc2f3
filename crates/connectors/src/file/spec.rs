//! Files as source and sink, and the listener for changes of a directory.

use plan::spec::{
    ConnectorKind, ConnectorSpec, Fact, FileUse, OptionSpec, OptionStatus, OptionType, Payload,
    Rule, Status, TEXT_OR_BYTES, bool, int, list, millis, pairs, text,
};

const SYSTEM_OPTIONS: OptionSpec = pairs(
    "file.system.options",
    "Settings of remote file systems (ftp, sftp); local files have none.",
)
.test("check::validate::tests::options_without_effect_and_refused_ones_are_said")
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
    files: &[
        ("dir.uri", FileUse::ReadDirectory),
        ("file.uri", FileUse::ReadFile),
    ],
    payloads: TEXT_OR_BYTES,
    status: Status::Runs,
    options: &[
        text("dir.uri", "Directory to watch, with everything below it.")
            .test("connectors::file::tests::files_in_the_order_of_their_names_lines_in_theirs")
            .not_yet(REMOTE),
        text("file.uri", "The one file to read.")
            .test("connectors::file::tests::one_file_is_read_once_and_moved_to_its_new_path")
            .not_yet(REMOTE),
        OptionSpec::new(
            "mode",
            OptionType::OneOf(MODES),
            "What is one message: a line, a whole file as text or bytes, a piece of a file, or the \
             text between two patterns.",
        )
        .test("connectors::file::tests::names_that_match_and_the_other_modes")
        .default("line"),
        bool(
            "tailing",
            "true",
            "Follows the file as it grows; false by default in the modes that read it whole.",
        )
        .test("connectors::file::tests::a_followed_file_over_rotation_and_truncation"),
        OptionSpec::new(
            "action.after.process",
            OptionType::OneOf(&["keep", "delete", "move", "none"]),
            "What happens to a file that has been read; none is keep.",
        )
        .test("connectors::file::tests::a_file_is_moved_when_what_it_gave_is_taken")
        .default("keep"),
        text(
            "move.after.process",
            "Target of the move: a directory for dir.uri, a path for file.uri.",
        )
        .test("connectors::file::tests::a_file_is_moved_when_what_it_gave_is_taken"),
        OptionSpec::new(
            "move.if.exist.mode",
            OptionType::OneOf(&["OVERWRITE", "KEEP"]),
            "When the target exists: replace it, or keep both under another name.",
        )
        .test("connectors::file::action::tests::a_target_that_exists"),
        text(
            "action.after.failure",
            "Never used: a file that cannot be read stays where it is.",
        )
        .test("check::validate::tests::options_without_effect_and_refused_ones_are_said")
        .default("delete")
        .status(OptionStatus::Ignored),
        text(
            "move.after.failure",
            "Never used: a file that cannot be read stays where it is.",
        )
        .test("check::validate::tests::options_without_effect_and_refused_ones_are_said")
        .status(OptionStatus::Ignored),
        OptionSpec::new(
            "begin.regex",
            OptionType::Regex,
            "Start of a record, in mode regex.",
        )
        .test("connectors::file::records::tests::records_between_two_patterns"),
        OptionSpec::new(
            "end.regex",
            OptionType::Regex,
            "End of a record, in mode regex.",
        )
        .test("connectors::file::records::tests::records_between_two_patterns"),
        millis(
            "file.polling.interval",
            "1000",
            "How often a followed file is looked at.",
        )
        .at_least(0)
        .test("connectors::file::tests::intervals_between_two_looks"),
        millis(
            "dir.polling.interval",
            "1000",
            "How often the directory is looked at.",
        )
        .at_least(0)
        .test("connectors::file::tests::intervals_between_two_looks"),
        millis(
            "timeout",
            "5000",
            "Not needed: reading continues when a file has been accepted.",
        )
        .test("check::validate::tests::options_without_effect_and_refused_ones_are_said")
        .status(OptionStatus::Ignored),
        millis(
            "file.read.wait.timeout",
            "1000",
            "A file is read when it has not changed for so long.",
        )
        .at_least(0)
        .test("connectors::file::tests::a_fresh_file_is_waited_for"),
        bool(
            "header.present",
            "false",
            "Leaves out the header, in mode line.",
        )
        .test("connectors::file::tests::header_and_trailer_options"),
        int("header.line.count", "1", "Lines of the header.")
            .at_least(0)
            .unit("lines")
            .test("connectors::file::tests::header_and_trailer_options"),
        bool("read.only.header", "false", "Delivers the first line only.")
            .test("connectors::file::tests::header_and_trailer_options"),
        bool(
            "read.only.trailer",
            "false",
            "Delivers the last line that is not empty only.",
        )
        .test("connectors::file::tests::header_and_trailer_options"),
        bool(
            "skip.trailer",
            "false",
            "Leaves out the last line that is not empty.",
        )
        .test("connectors::file::tests::header_and_trailer_options"),
        OptionSpec::new(
            "buffer.size",
            OptionType::Bytes,
            "Size of a piece, in mode binary.chunked.",
        )
        .at_least(1)
        .test("connectors::file::tests::names_that_match_and_the_other_modes")
        .default("65536"),
        OptionSpec::new(
            "cron.expression",
            OptionType::Cron,
            "Reads the directory at these times only.",
        )
        .test("connectors::file::tests::cron_reads_at_its_times_only"),
        OptionSpec::new(
            "file.name.pattern",
            OptionType::Regex,
            "Reads only files whose whole name matches.",
        )
        .test("connectors::file::tests::names_that_match_and_the_other_modes"),
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
            help: "set tailing='false': it is 'true' by default",
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
            help: "set tailing='false': it is 'true' by default",
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
    files: &[("file.uri", FileUse::WriteFile)],
    status: Status::Runs,
    options: &[
        text(
            "file.uri",
            "File to write; it and its directories are made. Where events fill in a part of it, no link \
             is followed below the directory that stands before that part.",
        )
        .test("connectors::file::sink::tests::a_path_made_of_the_event_stays_below_its_directory")
        .required()
        .dynamic()
        .not_yet(REMOTE),
        bool(
            "append",
            "true",
            "Adds to the file; false replaces it with each payload.",
        )
        .test("connectors::file::sink::tests::payloads_are_added_or_replace_the_file"),
        bool(
            "add.line.separator",
            "true",
            "Ends each text with a line break; false by default with the csv mapper.",
        )
        .test("connectors::file::sink::tests::payloads_are_added_or_replace_the_file"),
        SYSTEM_OPTIONS,
    ],
    example: "@sink(type='file', file.uri='out/{{symbol}}.json', @map(type='json'))
define stream Trades (symbol string, price double);",
    identity: &["file.uri"],
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "file",
        "io-file",
        "Writes each payload to a file.",
    )
};

pub const LISTENER: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    payloads: &[Payload::Events],
    example:
        "@source(type='fileeventlistener', dir.uri='file:/data/in', file.name.list='orders.csv')
define stream Happenings (path string, name string, status string);",
    options: &[
        text("dir.uri", "Directory to watch, with all below it.")
            .test("headwater::file_events::what_becomes_of_files_is_told")
            .required(),
        millis("monitoring.interval", "100", "How often it is looked at.")
            .at_least(0)
            .test("headwater::file_events::what_becomes_of_files_is_told"),
        list(
            "file.name.list",
            "Names in the directory that are reported; by default all.",
        )
        .test("headwater::file_events::what_happened_while_the_app_was_down_is_told_as_well"),
        SYSTEM_OPTIONS,
    ],
    ..ConnectorSpec::new(
        ConnectorKind::Source,
        "fileeventlistener",
        "io-file",
        "Reports files and folders that are created, change, are complete or vanish below a directory: path, name and status (`created`, `modifying`, `modifyingCompleted`, `removed`).",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[SOURCE, SINK, LISTENER];
