//! E-mail: sent, and fetched from a mailbox.

use plan::spec::{
    ConnectorKind, ConnectorSpec, Fact, OptionStatus, Payload, Rule, Status, TEXT_OR_BYTES, bool,
    choice, int, list, text,
};

const MAILS: &str = "headwater::email::mails_arrive_as_the_event_says";
const LET_IN: &str = "headwater::email::only_who_has_the_password_may_send";
const TLS: &str = "headwater::email::tls_from_the_start_and_by_an_upgrade";

pub const SINK: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@sink(type='email', username='alarms', address='alarms@example.org', password='${MAIL_PASSWORD}', host='smtp.example.org', subject='{{sensor}} is hot', to='duty@example.org', @map(type='text', @payload('{{value}} degrees')))
define stream Alarms (sensor string, value double);",
    payloads: TEXT_OR_BYTES,
    options: &[
        text("username", "User at the server.").test(LET_IN).required(),
        text("address", "Sender.").test(MAILS).required(),
        text("password", "Password at the server.").test(LET_IN).required(),
        text("host", "The SMTP server.").test(TLS).default("smtp.gmail.com"),
        int("port", "465", "Its port.").range(0, 65_535).test(MAILS),
        bool(
            "ssl.enable",
            "true",
            "Uses TLS from the start; property `mail.smtp.starttls.enable` of the deployment file upgrades \
             a connection that begins in the clear.",
        )
        .test(TLS),
        bool("auth", "true", "Logs in.").test(LET_IN),
        text("content.type", "`text/plain` or `text/html`.")
            .test(MAILS)
            .default("text/plain")
            .dynamic(),
        text("subject", "Subject.").test(MAILS).required().dynamic(),
        list("to", "Recipients.").test(MAILS).required().dynamic(),
        list("cc", "Recipients of a copy.").test(MAILS).dynamic(),
        list("bcc", "Recipients of a hidden copy.").test(MAILS).dynamic(),
        list("attachments", "Files or directories to attach.")
            .test(MAILS)
            .dynamic(),
        int(
            "connection.pool.size",
            "1",
            "Connections to the server; one sends the mails in order.",
        )
        .status(OptionStatus::Ignored),
    ],
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "email",
        "io-email",
        "Sends each payload as a mail.",
    )
};

const FETCHED: &str = "headwater::email_source::mails_come_once_with_their_headers";
const AFTER: &str = "headwater::email_source::what_is_done_with_a_mail_is_done_after_it";
const BOX: &str = "headwater::email_source::a_mailbox_behind_tls_wants_its_password";

pub const SOURCE: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@source(type='email', username='orders', password='${MAIL_PASSWORD}', host='imap.example.org', polling.interval='60', search.term='subject:order', @map(type='json', @attributes(symbol='$.symbol', sender='trp:From')))
define stream Orders (symbol string, sender string);",
    payloads: &[Payload::Text],
    options: &[
        text("username", "User of the mailbox.").test(BOX).required(),
        text("password", "Password of the mailbox.").test(BOX).required(),
        choice(
            "store",
            &["imap", "pop3"],
            "imap",
            "Protocol of the server; `pop3` is refused.",
        )
        .test("headwater::email_source::what_cannot_be_is_said"),
        text("host", "The mail server.").test(FETCHED).default("imap.gmail.com"),
        int("port", "993", "Its port.").range(0, 65_535).test(FETCHED),
        text("folder", "Folder to read.").test(AFTER).default("INBOX"),
        text(
            "search.term",
            "Takes only mails that match, `subject:x, from:y`.",
        )
        .test(FETCHED),
        int("polling.interval", "600", "Seconds between two looks.").at_least(0).unit("seconds").test(FETCHED),
        choice(
            "action.after.processed",
            &["NONE", "FLAGGED", "SEEN", "ANSWERED", "DELETE", "MOVE"],
            "SEEN",
            "What happens to a mail that has been read; one that has the mark already is not read.",
        )
        .test(AFTER),
        text("folder.to.move", "Target folder of MOVE.").test(AFTER),
        text("content.type", "Part of the mail that is the payload.")
            .test(FETCHED)
            .default("text/plain"),
        bool("ssl.enable", "true", "Uses TLS.").test(BOX),
    ],
    rules: &[Rule::Never {
        when: Fact::Is("store", &["pop3"]),
        at: &["store"],
        message: "mails are fetched by IMAP alone",
        help: "servers offer it alongside POP3: write store='imap', and its port",
    }, Rule::Never {
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
