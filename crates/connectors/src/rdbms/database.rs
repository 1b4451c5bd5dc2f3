//! A database that tables of apps share: its transactions, its epochs, and what is done when it goes
//! away.
//!
//! Without epochs each call commits by itself. With them all writes between two checkpoints and the
//! note of the second are one commit. A connection that is lost takes the open transaction with it:
//! the writes are said to be lost, and their owner does them again. Where the answer to a commit is
//! lost, the number noted in the database says whether it happened.

use std::collections::BTreeSet;

use event::{Column, Type, Value};

use super::dialect::{Dialect, EPOCHS};
use super::link::{Bound, Fault, Link, Statement};
use super::rows::Binder;
use super::server::Server;
use super::text::unhex;
use super::watch::{Waiting, Watch};
use connect::error::{Cause, Error};

pub struct Database {
    link: Box<dyn Link>,
    /// Names the database in errors.
    name: String,
    /// Looks whether a server that has a statement is still there.
    watch: Option<Watch>,
    /// Apps that keep tables here; each epoch is noted for all of them.
    apps: BTreeSet<String>,
    /// A transaction covers all calls until `commit`.
    in_epoch: bool,
    /// That transaction has been opened, by the first write.
    is_open: bool,
    /// The database has undone the epoch.
    is_lost: bool,
    /// There is no connection.
    is_away: bool,
    /// An epoch whose commit was sent and not answered.
    in_doubt: Option<u64>,
    /// The epoch committed last by this process.
    committed: Option<u64>,
    /// The table that notes epochs is there.
    has_epochs: bool,
}

impl Database {
    pub fn new(link: Box<dyn Link>, name: String) -> Database {
        Database {
            link,
            name,
            watch: None,
            apps: BTreeSet::new(),
            in_epoch: false,
            is_open: false,
            is_lost: false,
            is_away: false,
            in_doubt: None,
            committed: None,
            has_epochs: false,
        }
    }

    /// From now on a server that does not answer is said to be gone.
    pub fn watch(&mut self, server: &Server) -> Result<(), Error> {
        self.watch = Some(Watch::start(server, &self.name)?);
        Ok(())
    }

    fn waiting(&self) -> Option<Waiting> {
        self.watch.as_ref().map(Watch::waiting)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn dialect(&self) -> &'static dyn Dialect {
        self.link.dialect()
    }

    fn unavailable(&self, cause: Cause) -> Error {
        Error::unavailable(format!("database '{}'", self.name), cause)
    }

    /// A fault as an error for the caller; notes what became of the connection and the transaction.
    fn error(&mut self, action: &str, fault: Fault) -> Error {
        match fault {
            Fault::Lost(cause) => {
                self.is_away = true;
                self.is_lost |= self.is_open;
                self.unavailable(cause)
            }
            Fault::Undone(cause) => {
                self.is_lost |= self.is_open;
                self.unavailable(cause)
            }
            Fault::Passing(cause) => self.unavailable(cause),
            Fault::Refused(cause) => {
                Error::failed(format!("{action} in database '{}'", self.name), cause)
            }
        }
    }

    /// Makes sure that there is a connection. Called before anything else of an epoch.
    pub fn reach(&mut self) -> Result<(), Error> {
        if !self.is_away {
            return Ok(());
        }
        let reached = self.link.reconnect();
        reached.map_err(|fault| self.error("connecting", fault))?;
        self.is_away = false;
        tracing::info!(database = self.name, "database reconnected");
        if self.in_epoch {
            let durable = self.link.be_durable();
            durable.map_err(|fault| self.error("connecting", fault))?;
        }
        Ok(())
    }

    fn run(&mut self, sql: &str) -> Result<(), Error> {
        let result = self.link.run(sql);
        result.map_err(|fault| self.error(sql, fault))
    }

    // ---- work ----

    /// Runs work as a transaction of its own, or as a part of the epoch that can be undone alone.
    /// `rows` of parameters: one needs no mark to go back to where a statement that fails undoes
    /// itself.
    pub fn write<T>(
        &mut self,
        action: &str,
        rows: usize,
        work: impl FnOnce(&mut dyn Link) -> Result<T, Fault>,
    ) -> Result<T, Error> {
        let _waiting = self.waiting();
        self.check_lost()?;
        self.reach()?;
        let needs_mark = rows > 1 || self.dialect().fails_whole();
        let marks = self.dialect().marks();
        let (begin, keep, undo) = match (self.in_epoch, needs_mark) {
            (true, false) => (None, None, None),
            (true, true) => (Some(marks.set), marks.keep, Some(marks.undo)),
            (false, _) => (
                Some(self.dialect().begin()),
                Some("COMMIT"),
                Some(["ROLLBACK"].as_slice()),
            ),
        };
        if self.in_epoch {
            self.begin_if_needed()?;
        }
        if let Some(begin) = begin {
            self.run(begin)?;
        }
        let done = work(self.link.as_mut());
        let result = match done {
            Ok(done) => keep.map_or(Ok(()), |keep| self.run(keep)).map(|()| done),
            Err(fault) => Err(self.error(action, fault)),
        };
        if self.is_open && self.link.has_undone() {
            self.is_lost = true;
        }
        let may_undo = result.is_err() && !self.is_away && !self.is_lost;
        if let (Some(undo), true) = (undo, may_undo && !self.link.has_undone()) {
            for sql in undo {
                self.run(sql)?;
            }
        }
        result
    }

    /// Runs work that changes nothing.
    pub fn read<T>(
        &mut self,
        action: &str,
        work: impl FnOnce(&mut dyn Link) -> Result<T, Fault>,
    ) -> Result<T, Error> {
        let _waiting = self.waiting();
        self.check_lost()?;
        self.reach()?;
        // A statement that fails would end the epoch's transaction where a mark is missing.
        let needs_mark = self.is_open && self.dialect().fails_whole();
        let marks = self.dialect().marks();
        if needs_mark {
            self.run(marks.set)?;
        }
        let done = work(self.link.as_mut());
        let result = done.map_err(|fault| self.error(action, fault));
        if needs_mark && !self.is_away && !self.is_lost {
            match (result.is_err(), marks.keep) {
                (true, _) => {
                    for sql in marks.undo {
                        self.run(sql)?;
                    }
                }
                (false, Some(keep)) => self.run(keep)?,
                (false, None) => {}
            }
        }
        result
    }

    /// Defines something. That it is there already is no fault. Where definitions are transactional
    /// it goes with the transaction that is open, otherwise it takes a connection of its own.
    pub fn define(&mut self, action: &str, sql: &str) -> Result<(), Error> {
        let _waiting = self.waiting();
        self.reach()?;
        let defined = self.link.define(sql);
        defined.map_err(|fault| self.error(action, fault))
    }

    // ---- epochs ----

    /// The writes since `begin` have been undone by the database.
    pub fn has_lost(&self) -> bool {
        self.is_lost || self.is_open && self.link.has_undone()
    }

    fn check_lost(&self) -> Result<(), Error> {
        if !self.is_lost {
            return Ok(());
        }
        Err(Error::failed(
            format!("writing to database '{}'", self.name),
            "the database has undone all writes since the last checkpoint (the connection was \
             lost, or its disk may be full); they must be done again",
        ))
    }

    fn begin_if_needed(&mut self) -> Result<(), Error> {
        if !self.is_open {
            self.run(self.dialect().begin())?;
            self.is_open = true;
        }
        Ok(())
    }

    /// All writes from now on belong together. The transaction is opened by the first of them. Every
    /// table of an app in this database says so; the first counts.
    pub fn begin(&mut self) -> Result<(), Error> {
        self.reach()?;
        if !self.in_epoch {
            let durable = self.link.be_durable();
            durable.map_err(|fault| self.error("beginning", fault))?;
        }
        self.in_epoch = true;
        Ok(())
    }

    /// An app that keeps tables here.
    pub fn enlist(&mut self, app: &str) {
        self.apps.insert(app.to_owned());
    }

    /// Makes the writes durable with the number of the epoch, for all apps that keep tables here. A
    /// second call for the same epoch (for another table) does nothing. Epoch 0 is not noted: the
    /// writes are only gathered.
    pub fn commit(&mut self, epoch: u64, positions: &[u8]) -> Result<(), Error> {
        let _waiting = self.waiting();
        self.check_lost()?;
        if self.in_doubt == Some(epoch) {
            return self.ask_for_doubtful(epoch);
        }
        let is_done = if epoch == 0 {
            !self.is_open
        } else {
            self.committed == Some(epoch)
        };
        if is_done {
            return Ok(());
        }
        self.reach()?;
        if epoch > 0 && !self.has_epochs {
            self.define("making room for epochs", &self.dialect().create_epochs())?;
            self.has_epochs = true;
        }
        self.begin_if_needed()?;
        if self.link.has_undone() {
            self.is_lost = true;
            return self.check_lost();
        }
        if epoch > 0 {
            for app in self.apps.clone() {
                self.note_epoch(&app, epoch, positions)?;
            }
        }
        match self.link.run("COMMIT") {
            Ok(()) => self.committed(epoch),
            Err(Fault::Lost(cause)) => return Err(self.unanswered(epoch, cause)),
            Err(fault) => return Err(self.error("committing", fault)),
        }
        Ok(())
    }

    fn committed(&mut self, epoch: u64) {
        (self.is_open, self.is_lost, self.in_doubt) = (false, false, None);
        self.committed = Some(epoch);
    }

    /// The connection went while the answer to a commit was waited for.
    fn unanswered(&mut self, epoch: u64, cause: Cause) -> Error {
        self.is_away = true;
        if epoch > 0 {
            self.in_doubt = Some(epoch);
        } else {
            self.is_lost = true;
            tracing::warn!(
                database = self.name,
                "connection lost during a commit; writing the rows again, which may duplicate them \
                 (--state prevents this)"
            );
        }
        self.unavailable(cause)
    }

    /// Did the commit happen? What was noted says so.
    fn ask_for_doubtful(&mut self, epoch: u64) -> Result<(), Error> {
        self.reach()?;
        let Some(app) = self.apps.first().cloned() else {
            return Ok(());
        };
        let noted = self.noted(&app)?;
        if noted.is_some_and(|(noted, _)| noted == epoch) {
            self.committed(epoch);
            return Ok(());
        }
        self.in_doubt = None;
        self.is_lost = true;
        self.check_lost()
    }

    pub fn abort(&mut self) -> Result<(), Error> {
        let _waiting = self.waiting();
        if self.is_open && !self.is_away && !self.link.has_undone() {
            match self.link.run("ROLLBACK") {
                // Who is gone has given up what was open.
                Err(Fault::Lost(_)) => self.is_away = true,
                Err(fault) => return Err(self.error("giving up", fault)),
                Ok(()) => {}
            }
        }
        (self.is_open, self.is_lost, self.in_epoch) = (false, false, false);
        self.in_doubt = None;
        // Where definitions are part of a transaction, this one may have gone with it.
        self.has_epochs = false;
        Ok(())
    }

    fn note_epoch(&mut self, app: &str, epoch: u64, positions: &[u8]) -> Result<(), Error> {
        let dialect = self.dialect();
        let statement = Statement::new(dialect.note_epoch(), dialect);
        let bytes = event::Object::Bytes(positions.into());
        let columns = [
            (Value::str(app), Type::String),
            (Value::Long(epoch as i64), Type::Long),
            (Value::Object(bytes), Type::Object),
        ]
        .map(|(value, ty)| (Column::constant(ty, &value, 1), ty));
        let binders: Vec<Binder<'_>> = columns
            .iter()
            .map(|(column, ty)| Binder::parameter(column, *ty))
            .collect();
        let noted = self.link.write(Bound::new(&statement, &binders), 0..1);
        noted
            .map(|_| ())
            .map_err(|fault| self.error("noting the epoch", fault))
    }

    /// What was noted for the app; the table must be there.
    fn noted(&mut self, app: &str) -> Result<Option<(u64, Vec<u8>)>, Error> {
        let dialect = self.dialect();
        let hex = dialect.hex("positions");
        let app = dialect
            .literal(app)
            .map_err(|cause| Error::failed("reading the last epoch", cause))?;
        let [hint, lock] = dialect.waits_for_writers();
        let sql = format!("SELECT epoch, {hex} FROM {EPOCHS}{hint} WHERE app = {app}{lock}");
        let rows = self.read("reading the last epoch", |link| link.list(&sql))?;
        let [epoch, positions] = rows.first().map_or(&[][..], Vec::as_slice) else {
            return Ok(None);
        };
        let epoch = epoch.as_deref().and_then(|text| text.parse().ok());
        let positions = unhex(positions.as_deref().unwrap_or_default());
        Ok(epoch.zip(positions))
    }

    pub fn last_epoch(&mut self, app: &str) -> Result<Option<(u64, Vec<u8>)>, Error> {
        let columns = self.dialect().columns_query(EPOCHS);
        let columns = self.read("reading the last epoch", |link| link.list(&columns))?;
        if columns.is_empty() {
            return Ok(None);
        }
        self.has_epochs = true;
        self.noted(app)
    }
}
