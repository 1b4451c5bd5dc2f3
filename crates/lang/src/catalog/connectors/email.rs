//! E-mail: sent, and fetched from a mailbox.

use super::{bool, choice, int, list, text};
use crate::spec::{ConnectorKind, ConnectorSpec, Fact, Rule};

pub const SINK: ConnectorSpec = ConnectorSpec {
    options: &[
        text("username", "User at the server.").required(),
        text("address", "Sender.").required(),
        text("password", "Password at the server.").required(),
        text("host", "The SMTP server.").default("smtp.gmail.com"),
        int("port", "465", "Its port."),
        bool("ssl.enable", "true", "Uses TLS."),
        bool("auth", "true", "Logs in."),
        text("content.type", "`text/plain` or `text/html`.")
            .default("text/plain")
            .dynamic(),
        text("subject", "Subject.").required().dynamic(),
        list("to", "Recipients.").required().dynamic(),
        list("cc", "Recipients of a copy.").dynamic(),
        list("bcc", "Recipients of a hidden copy.").dynamic(),
        list("attachments", "Files or directories to attach.").dynamic(),
        int("connection.pool.size", "1", "Connections to the server."),
    ],
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "email",
        "io-email",
        "Sends each payload as a mail.",
    )
};

pub const SOURCE: ConnectorSpec = ConnectorSpec {
    options: &[
        text("username", "User of the mailbox.").required(),
        text("password", "Password of the mailbox.").required(),
        choice(
            "store",
            &["imap", "pop3"],
            "imap",
            "Protocol of the server.",
        ),
        text("host", "The mail server.").default("imap.gmail.com"),
        int("port", "993", "Its port."),
        text("folder", "Folder to read.").default("INBOX"),
        text(
            "search.term",
            "Takes only mails that match, `subject:x, from:y`.",
        ),
        int("polling.interval", "600", "Seconds between two looks."),
        choice(
            "action.after.processed",
            &["NONE", "FLAGGED", "SEEN", "ANSWERED", "DELETE", "MOVE"],
            "SEEN",
            "What happens to a mail that has been read; always DELETE with pop3.",
        ),
        text("folder.to.move", "Where it goes, with MOVE."),
        text("content.type", "Part of the mail that is the payload.").default("text/plain"),
        bool("ssl.enable", "true", "Uses TLS."),
    ],
    rules: &[Rule::Never {
        when: Fact::All(&[
            Fact::Is("action.after.processed", &["MOVE"]),
            Fact::Absent("folder.to.move"),
        ]),
        at: &["action.after.processed"],
        message: "action 'MOVE' needs option 'folder.to.move'",
        help: "say where the mail goes",
    }],
    properties: &["*"],
    ..ConnectorSpec::new(
        ConnectorKind::Source,
        "email",
        "io-email",
        "Fetches the mails of a folder.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[SOURCE, SINK];
