//! How far a binary log has been read: which whole transactions, and how many changes of the next one.
//!
//! It is kept in two forms. File and offset are valid on one server only; GTIDs are valid on each
//! server that replicates the transactions, so that reading continues after a failover.

use std::fmt::Write as _;

use connect::component::PositionText;

use super::gtid::{Gtid, Gtids};

/// The first line of what is saved; with the second one there were no names of transactions.
const FORM: &str = "binlog 2";
const FORM_OF_FILES: &str = "binlog 1";

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Position {
    pub file: String,
    /// End of the last whole transaction.
    pub offset: u64,
    /// All whole transactions so far; `None`: the server does not name them, or they are not known.
    pub done: Option<Gtids>,
    /// The transaction that is read, or the next one.
    open: Half,
    /// Others of which a part was read: another server may have them in another order.
    halves: Vec<Half>,
}

/// A transaction that is not done.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Half {
    /// `None`: it has no name, or whichever comes next.
    gtid: Option<Gtid>,
    /// Changes of it that were handed on.
    changes: u64,
}

impl Position {
    pub fn new(file: String, offset: u64, done: Option<Gtids>) -> Position {
        Position {
            file,
            offset,
            done,
            ..Position::default()
        }
    }

    /// A transaction begins, perhaps one of which a part was read before.
    pub fn begin(&mut self, gtid: Gtid) {
        let is_it = |half: &Half| half.gtid.as_ref() == Some(&gtid);
        if is_it(&self.open) {
            return;
        }
        let next = match self.halves.iter().position(is_it) {
            Some(at) => self.halves.swap_remove(at),
            None if self.open.gtid.is_none() => {
                self.open.gtid = Some(gtid);
                return;
            }
            None => Half {
                gtid: Some(gtid),
                changes: 0,
            },
        };
        let before = std::mem::replace(&mut self.open, next);
        if before.changes > 0 {
            self.halves.push(before);
        }
    }

    /// One begins that has no name: names do not say any more what was read.
    pub fn begin_unnamed(&mut self) {
        self.done = None;
        if self.open.gtid.is_some() {
            let before = std::mem::take(&mut self.open);
            if before.changes > 0 {
                self.halves.push(before);
            }
        }
    }

    /// Changes of the transaction that is read that were handed on.
    pub fn changes(&self) -> u64 {
        self.open.changes
    }

    pub fn set_changes(&mut self, changes: u64) {
        self.open.changes = changes;
    }

    /// The transaction that is read ends there.
    pub fn end(&mut self, file: &str, offset: u64) {
        let ended = std::mem::take(&mut self.open);
        if let (Some(done), Some(gtid)) = (&mut self.done, ended.gtid) {
            done.add(gtid);
        }
        self.is_at(file, offset);
    }

    /// Nothing lies between the last transaction and this place.
    pub fn is_at(&mut self, file: &str, offset: u64) {
        if self.file != file {
            file.clone_into(&mut self.file);
        }
        self.offset = offset;
    }

    pub fn save(&self) -> Vec<u8> {
        let mut text = format!("{FORM}\n{}\n{}\n", self.file, self.offset);
        let written = match &self.done {
            None => writeln!(text, "none"),
            Some(done @ Gtids::MariaDb(_)) => writeln!(text, "mariadb {done}"),
            Some(done @ Gtids::MySql(_)) => writeln!(text, "mysql {done}"),
        };
        written.expect("a text takes all");
        let halves = self.halves.iter().chain([&self.open]);
        for half in halves.filter(|half| half.changes > 0) {
            let written = match &half.gtid {
                Some(gtid) => writeln!(text, "{gtid} {}", half.changes),
                None => writeln!(text, "- {}", half.changes),
            };
            written.expect("a text takes all");
        }
        text.into_bytes()
    }

    /// For a person.
    pub fn text(&self) -> PositionText {
        let mut text = vec![
            ("file".to_owned(), self.file.clone()),
            ("byte".to_owned(), self.offset.to_string()),
        ];
        if let Some(done) = &self.done {
            text.push(("transactions".to_owned(), done.to_string()));
        }
        text
    }

    /// `None`: it is not a position of a binary log.
    pub fn read(bytes: &[u8]) -> Option<Position> {
        let mut lines = std::str::from_utf8(bytes).ok()?.lines();
        let form = lines.next()?;
        let file = lines.next()?.to_owned();
        let offset = lines.next()?.parse().ok()?;
        if form == FORM_OF_FILES {
            let changes = lines.next()?.parse().ok()?;
            let mut position = Position::new(file, offset, None);
            position.set_changes(changes);
            return Some(position);
        }
        (form == FORM).then_some(())?;
        let done = match lines.next()?.split_once(' ') {
            None => None,
            Some(("mariadb", done)) => Some(Gtids::parse_mariadb(done)?),
            Some(("mysql", done)) => Some(Gtids::parse_mysql(done)?),
            Some(_) => return None,
        };
        let mut position = Position::new(file, offset, done);
        for line in lines {
            let (gtid, changes) = line.split_once(' ')?;
            position.halves.push(Half {
                gtid: match gtid {
                    "-" => None,
                    name => Some(Gtid::parse(name)?),
                },
                changes: changes.parse().ok()?,
            });
        }
        // Written last.
        position.open = position.halves.pop().unwrap_or_default();
        Some(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gtid(text: &str) -> Gtid {
        Gtid::parse(text).expect("it is a name")
    }

    #[test]
    fn positions_are_kept() {
        let mariadb = Gtids::parse_mariadb("0-1-5,2-1-7");
        let mysql = Gtids::parse_mysql("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:7");
        for done in [None, mariadb, mysql, Gtids::parse_mariadb("")] {
            let mut position = Position::new("binlog.000007".into(), 4711, done);
            assert_eq!(Position::read(&position.save()), Some(position.clone()));
            position.set_changes(3);
            assert_eq!(Position::read(&position.save()), Some(position.clone()));
            position.begin(gtid("0-1-6"));
            position.begin(gtid("0-1-7"));
            position.set_changes(1);
            assert_eq!(Position::read(&position.save()), Some(position));
        }
        for broken in ["poll 1\n", "binlog 2\nf\n1\n", "binlog 2\nf\n1\nnone\nx\n"] {
            assert_eq!(Position::read(broken.as_bytes()), None, "{broken}");
        }
    }

    #[test]
    fn a_position_without_names_is_read() {
        let read = Position::read(b"binlog 1\nbinlog.000007\n4711\n3\n");
        let mut read = read.expect("the older form is known");
        assert_eq!((read.file.as_str(), read.offset), ("binlog.000007", 4711));
        assert_eq!((read.done.clone(), read.changes()), (None, 3));
        // Whatever it is called, the transaction that comes is the one that was read in part.
        read.begin(gtid("0-1-6"));
        assert_eq!(read.changes(), 3);
    }

    #[test]
    fn half_a_transaction_is_found_again_in_another_order() {
        let mut position = Position::new("a.1".into(), 4, Gtids::parse_mariadb("0-1-5,2-1-7"));
        position.begin(gtid("0-1-6"));
        position.set_changes(2);
        // On the other server another one comes first, and reading breaks off in that as well.
        position.begin(gtid("2-1-8"));
        assert_eq!(position.changes(), 0);
        position.set_changes(1);
        let mut position = Position::read(&position.save()).expect("it is one");
        position.begin(gtid("0-1-6"));
        assert_eq!(position.changes(), 2);
        position.end("b.3", 100);
        position.begin(gtid("2-1-8"));
        assert_eq!(position.changes(), 1);
        position.end("b.3", 200);
        assert_eq!(position.changes(), 0);
        let expect = Position::new("b.3".into(), 200, Gtids::parse_mariadb("0-1-6,2-1-8"));
        assert_eq!(position, expect);
    }

    #[test]
    fn transactions_without_a_name_end_the_names() {
        let mut position = Position::new("a.1".into(), 4, Gtids::parse_mariadb("0-1-5"));
        position.begin_unnamed();
        position.end("a.1", 50);
        assert_eq!(position, Position::new("a.1".into(), 50, None));
    }
}
