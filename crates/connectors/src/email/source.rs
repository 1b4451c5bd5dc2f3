//! The `email` source: looks into a folder of a mailbox every so often.
//!
//! A look is a connection of its own. Promises: a mail is taken once, in the order in which the folder
//! numbers them; what is done with it afterwards (marked, moved, deleted) is done when what it brought
//! is where the app's delivery label says. Never: a mail that is marked, moved or deleted without
//! having been read.

mod imap;
mod mail;

use std::sync::Arc;
use std::time::Duration;

use self::imap::{Mailbox, Wire};
pub(crate) use self::mail::Mail;
use connect::component::{
    Connection, Environment, Finished, Payload, PositionText, Room, Sequence, Signal, Source,
    SourceLink, SourceSetup,
};
use connect::error::Error;
use connect::net::{ClientTls, ClientTrust};
use connect::option::Settings;
use connect::rows::Rejected;

/// First byte of a saved position.
const VERSION: u8 = 1;

/// How long the app is waited for before signals are looked at again.
const LOOK: Duration = Duration::from_secs(1);

/// What happens to a mail that has been read.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Action {
    Nothing,
    /// A mark, as the protocol calls it.
    Mark(&'static str),
    Delete,
    Move(String),
}

impl Action {
    fn of(settings: Settings<'_>) -> Result<Action, Error> {
        let text = settings.text_or_default("action.after.processed").trim();
        Ok(match text.to_ascii_uppercase().as_str() {
            "NONE" => Action::Nothing,
            "SEEN" => Action::Mark("Seen"),
            "FLAGGED" => Action::Mark("Flagged"),
            "ANSWERED" => Action::Mark("Answered"),
            "DELETE" => Action::Delete,
            "MOVE" => match settings.text("folder.to.move").map(str::trim) {
                Some(folder) if !folder.is_empty() => Action::Move(folder.to_owned()),
                _ => return Err(settings.refused("action 'MOVE' needs option 'folder.to.move'")),
            },
            _ => {
                return Err(settings.refused(format!(
                    "option 'action.after.processed' is '{text}': write NONE, SEEN, FLAGGED, \
                     ANSWERED, DELETE or MOVE"
                )));
            }
        })
    }
}

/// The last mail that was read, by its number in the folder.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Position {
    /// Of the folder's numbering.
    validity: u32,
    last: u32,
}

impl Position {
    fn bytes(self) -> [u8; 9] {
        let mut bytes = [VERSION; 9];
        bytes[1..5].copy_from_slice(&self.validity.to_be_bytes());
        bytes[5..].copy_from_slice(&self.last.to_be_bytes());
        bytes
    }

    fn of(bytes: &[u8]) -> Option<Position> {
        let [VERSION, rest @ ..] = bytes else {
            return None;
        };
        let (validity, last) = rest.split_first_chunk()?;
        Some(Position {
            validity: u32::from_be_bytes(*validity),
            last: u32::from_be_bytes(last.try_into().ok()?),
        })
    }
}

/// A saved position for a person.
pub(super) fn position_text(bytes: &[u8]) -> Option<PositionText> {
    let position = Position::of(bytes)?;
    Some(vec![
        ("uidvalidity".to_owned(), position.validity.to_string()),
        ("last uid".to_owned(), position.last.to_string()),
    ])
}

pub(super) struct EmailSource {
    mailbox: Mailbox,
    action: Action,
    /// Conditions of a search, as the protocol has them.
    search: String,
    content_type: String,
    interval: Duration,
    position: Position,
    /// The position comes from a run before: what it covers may still wait for its action.
    is_restored: bool,
    is_connected: bool,
}

impl EmailSource {
    pub fn new(setup: &SourceSetup<'_>) -> Result<EmailSource, Error> {
        let settings = Settings::of_source(setup.transport, crate::email::CONNECTORS);
        let needed = |name: &str| {
            let text = settings.text(name).filter(|text| !text.trim().is_empty());
            text.map(str::to_owned)
                .ok_or_else(|| settings.refused(format!("option '{name}' is missing")))
        };
        let store = settings.text_or_default("store").trim();
        if !store.eq_ignore_ascii_case("imap") {
            return Err(settings.refused(format!(
                "option 'store' is '{store}': mails are fetched by IMAP alone, which servers have \
                 beside POP3; write store='imap'"
            )));
        }
        let tls = match settings.flag("ssl.enable") {
            true => Some(tls(settings, setup.environment)?),
            false => None,
        };
        Ok(EmailSource {
            mailbox: Mailbox {
                user: needed("username")?,
                password: needed("password")?,
                host: settings.text_or_default("host").trim().to_owned(),
                port: settings.number("port")?,
                folder: settings.text_or_default("folder").to_owned(),
                tls: tls.map(Arc::new),
            },
            action: Action::of(settings)?,
            search: search(settings.text_or_default("search.term"))
                .map_err(|cause| settings.refused(format!("option 'search.term': {cause}")))?,
            content_type: settings
                .text_or_default("content.type")
                .trim()
                .to_ascii_lowercase(),
            interval: Duration::from_secs(settings.number::<u64>("polling.interval")?.max(1)),
            position: Position::default(),
            is_restored: false,
            is_connected: false,
        })
    }

    /// What tells a mail that has not been read.
    fn unread(&self) -> &'static str {
        match self.action {
            Action::Mark("Seen") => "UNSEEN",
            Action::Mark("Flagged") => "UNFLAGGED",
            Action::Mark(_) => "UNANSWERED",
            _ => "UNDELETED",
        }
    }

    /// One look: all mails beyond the last, then what is to be done with them. False: the source stops.
    fn look(&mut self, link: &mut dyn SourceLink) -> Result<bool, Error> {
        let (mut wire, validity) = self.mailbox.open()?;
        if !self.is_connected {
            self.is_connected = true;
            link.report(Connection::Connected);
        }
        if validity != self.position.validity {
            if self.position.validity != 0 {
                tracing::warn!(
                    folder = self.mailbox.folder,
                    "server has renumbered the folder (UIDVALIDITY changed); reading all unmarked \
                     mails"
                );
            }
            self.position = Position { validity, last: 0 };
        }
        if std::mem::take(&mut self.is_restored) && self.action != Action::Nothing {
            let (unread, last) = (self.unread(), self.position.last);
            let left = wire.search(&format!("{unread} UID 1:{}{}", last.max(1), self.search))?;
            let left: Vec<u32> = left.into_iter().filter(|uid| *uid <= last).collect();
            self.finish(&mut wire, &left)?;
        }
        let next = self.position.last.saturating_add(1);
        let found = wire.search(&format!("{} UID {next}:*{}", self.unread(), self.search))?;
        let mut posted: Vec<(Sequence, u32)> = Vec::new();
        let mut goes_on = true;
        for uid in found.into_iter().filter(|uid| *uid >= next) {
            // One that has gone meanwhile is nobody's loss.
            if let Some(bytes) = wire.fetch(uid)? {
                self.map(uid, &bytes, link);
            }
            self.position.last = uid;
            posted.push((link.post(&self.position.bytes())?, uid));
            match link.wait(Duration::ZERO) {
                Signal::Acked(sequence) => self.acknowledged(&mut wire, &mut posted, sequence)?,
                Signal::Stop => {
                    goes_on = false;
                    break;
                }
                _ => {}
            }
        }
        while !posted.is_empty() && goes_on {
            match link.wait(LOOK) {
                Signal::Acked(sequence) => self.acknowledged(&mut wire, &mut posted, sequence)?,
                Signal::Stop => goes_on = false,
                _ => {}
            }
        }
        wire.leave();
        Ok(goes_on)
    }

    fn acknowledged(
        &self,
        wire: &mut Wire,
        posted: &mut Vec<(Sequence, u32)>,
        sequence: Sequence,
    ) -> Result<(), Error> {
        let done = posted.partition_point(|(own, _)| *own <= sequence);
        let uids: Vec<u32> = posted.drain(..done).map(|(_, uid)| uid).collect();
        self.finish(wire, &uids)
    }

    fn finish(&self, wire: &mut Wire, uids: &[u32]) -> Result<(), Error> {
        match &self.action {
            _ if uids.is_empty() => Ok(()),
            Action::Nothing => Ok(()),
            Action::Mark(mark) => wire.mark(uids, mark),
            Action::Delete => wire.delete(uids),
            Action::Move(folder) => wire.relocate(uids, folder),
        }
    }

    fn map(&self, uid: u32, bytes: &[u8], link: &mut dyn SourceLink) {
        let input: Arc<str> = Arc::from(format!("folder '{}' mail", self.mailbox.folder));
        link.set_input(&input, i64::from(uid));
        let rejected = |cause: String| {
            let remedy = "send mails with such a part, or set 'content.type' to what they have";
            Rejected::of(Payload::Bytes(bytes), cause, remedy)
        };
        let Some(mail) = Mail::parse(bytes) else {
            return link.reject(rejected("the mail cannot be read".to_owned()));
        };
        match mail.part(&self.content_type) {
            // The position goes with the next post in any case, which follows at once.
            Some(text) => {
                let _: Room = link.map(Payload::Text(&text), &mail.properties());
            }
            None => {
                let cause = format!("the mail has no part of type '{}'", self.content_type);
                link.reject(rejected(cause));
            }
        }
    }
}

fn tls(settings: Settings<'_>, environment: &Environment) -> Result<ClientTls, Error> {
    let trust = ClientTrust {
        store: ClientTrust::deployed(environment, "source", "email"),
        ..ClientTrust::default()
    };
    ClientTls::trusting(settings, "TLS", trust)
}

/// `subject:x, from:y` as conditions that all hold, with a blank before each.
fn search(text: &str) -> Result<String, String> {
    let mut conditions = String::new();
    for entry in text.split(',').map(str::trim).filter(|e| !e.is_empty()) {
        let wrong = || format!("'{entry}' is none of subject:…, from:…, to:…, cc:… and bcc:…");
        let (key, value) = entry.split_once(':').ok_or_else(wrong)?;
        let key = match key.trim().to_ascii_lowercase().as_str() {
            key @ ("subject" | "from" | "to" | "cc" | "bcc") => key.to_ascii_uppercase(),
            _ => return Err(wrong()),
        };
        let value = value.trim();
        if value.contains(['\r', '\n', '\0']) {
            return Err("a line break cannot be searched for".to_owned());
        }
        let value = value.replace('\\', "\\\\").replace('"', "\\\"");
        conditions.push_str(&format!(" {key} \"{value}\""));
    }
    Ok(conditions)
}

impl Source for EmailSource {
    fn run(&mut self, link: &mut dyn SourceLink) -> Result<Finished, Error> {
        self.is_connected = false;
        loop {
            if !self.look(link)? {
                return Ok(Finished::Stopped);
            }
            match link.idle(self.interval) {
                Signal::Stop => return Ok(Finished::Stopped),
                Signal::End => return Ok(Finished::Ended),
                _ => {}
            }
        }
    }

    fn probe(&mut self) -> Result<Vec<connect::component::Difference>, Error> {
        self.mailbox.open().map(|(mut wire, _)| {
            wire.leave();
            Vec::new()
        })
    }

    fn restore(&mut self, position: &[u8]) -> Result<(), Error> {
        if position.is_empty() {
            return Ok(());
        }
        self.position = Position::of(position).ok_or_else(|| {
            Error::failed(
                "reading the saved position of source 'email'",
                "it was saved by another version or another source",
            )
        })?;
        self.is_restored = true;
        Ok(())
    }

    fn ends(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_conditions_that_all_hold() {
        fn check(text: &str, expect: Result<&str, &str>) {
            match (search(text), expect) {
                (Ok(found), Ok(expect)) => assert_eq!(found, expect, "{text}"),
                (Err(cause), Err(expect)) => assert!(cause.contains(expect), "{cause}"),
                (found, expect) => panic!("{text}: {found:?}, not {expect:?}"),
            }
        }
        check("", Ok(""));
        check("subject:a b, From:x@y", Ok(" SUBJECT \"a b\" FROM \"x@y\""));
        check("subject:a\"b\\", Ok(" SUBJECT \"a\\\"b\\\\\""));
        check("body:x", Err("'body:x' is none of"));
        check("x", Err("'x' is none of"));
        check("to:a\r\nA1 DELETE INBOX", Err("a line break"));
    }

    #[test]
    fn positions_go_there_and_back() {
        let position = Position {
            validity: 7,
            last: u32::MAX,
        };
        assert_eq!(Position::of(&position.bytes()), Some(position));
        assert_eq!(Position::of(b""), None);
        assert_eq!(Position::of(&[2; 9]), None);
        assert_eq!(Position::of(&[1; 8]), None);
    }
}
