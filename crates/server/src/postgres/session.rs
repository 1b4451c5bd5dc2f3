//! A session: a login, then one request after the other.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::sync::Arc;

use connect::net::Clock;
use hyper::body::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::OwnedSemaphorePermit;

use super::message::{BEGIN_MAX, Fault, MESSAGE_MAX, Out, Reader, Request, Said, Severity};
use super::own::{Own, own};
use super::settings::{Change, Settings};
use super::{
    Asker, Column, Connection, Description, Enrolled, Opening, Parameter, Part, Question, Rows,
};
use crate::access::logins::{Login, Shown};
use crate::access::users::TOKEN_PREFIX;
use crate::http::sql::SqlRefusal;
use crate::statements::statements;

/// Bytes that are gathered before they are sent.
const SEND: usize = 64 << 10;

/// Statements of one message, prepared ones and portals of a session, and bytes of both.
const TOGETHER_MAX: usize = 1000;
const PREPARED_MAX: usize = 1000;
const PORTALS_MAX: usize = 100;
const BYTES_MAX: usize = 16 << 20;

/// Not a parameter, but what the connection itself is about.
const OF_CONNECTION: [&str; 4] = ["user", "database", "replication", "options"];

const TEXT_OID: u32 = 25;

/// Why something was not done.
enum Fail {
    /// The client is told, and goes on.
    Said(Box<Said>),
    /// The connection ends.
    Fault(Fault),
}

impl From<Fault> for Fail {
    fn from(fault: Fault) -> Fail {
        Fail::Fault(fault)
    }
}

fn fail(code: &'static str, message: impl Into<String>) -> Fail {
    Fail::Said(Box::new(Said {
        severity: Severity::Error,
        code,
        message: message.into(),
        hint: None,
        position: None,
    }))
}

/// Statement or portal, prepared for later.
struct Prepared {
    sql: String,
    own: Option<Own>,
    is_empty: bool,
    description: Description,
}

struct Portal {
    of: Arc<Prepared>,
    values: Vec<Parameter>,
    formats: Vec<bool>,
    bytes: usize,
    state: State,
}

enum State {
    Fresh,
    Open(Open),
    Done,
}

/// An answer of which a part was sent.
struct Open {
    rows: Box<dyn Rows>,
    /// Rows that have come and were not sent.
    left: Bytes,
    left_count: u64,
}

/// Whether there is a transaction; its statements change nothing, so nothing but this is kept of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Transaction {
    None,
    Open,
    Failed,
}

impl Transaction {
    fn status(self) -> u8 {
        match self {
            Transaction::None => b'I',
            Transaction::Open => b'T',
            Transaction::Failed => b'E',
        }
    }
}

/// One client.
pub(super) struct Session<'a, S> {
    connection: &'a Connection,
    reader: Reader<S>,
    out: Out,
    settings: Settings,
    transaction: Transaction,
    prepared: HashMap<String, Arc<Prepared>>,
    portals: HashMap<String, Portal>,
    user: String,
    /// Until the client has heard of an error: what it has sent behind it is passed over.
    is_skipping: bool,
    enrolled: Option<Enrolled>,
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Session<'a, S> {
    pub fn new(connection: &'a Connection, reader: Reader<S>) -> Session<'a, S> {
        Session {
            connection,
            reader,
            out: Out::default(),
            settings: Settings::new(""),
            transaction: Transaction::None,
            prepared: HashMap::new(),
            portals: HashMap::new(),
            user: String::new(),
            is_skipping: false,
            enrolled: None,
        }
    }

    /// Says why there is no session.
    pub async fn refuse(mut self, code: &'static str, message: &str) -> Result<(), Fault> {
        self.out.said(&Said {
            severity: Severity::Fatal,
            code,
            message: message.to_owned(),
            hint: None,
            position: None,
        });
        self.send().await?;
        Ok(self.reader.stream().shutdown().await?)
    }

    /// Logs in and serves. `held`: the place among those who have not logged in yet.
    pub async fn run(
        mut self,
        opening: Opening,
        mut clock: Clock,
        held: impl Sized,
    ) -> Result<(), Fault> {
        let of = |name: &str| {
            let mut found = opening.parameters.iter().filter(|(n, _)| n == name);
            found.next().map(|(_, value)| value.as_str())
        };
        let Some(user) = of("user").filter(|user| !user.is_empty()) else {
            return self.refuse("28000", "no user is named").await;
        };
        if of("replication").is_some_and(|value| !matches!(value, "false" | "off" | "no" | "0")) {
            return self.refuse("0A000", "there is no replication here").await;
        }
        let options: Vec<&str> = opening
            .parameters
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        let options: Vec<&str> = options
            .into_iter()
            .filter(|name| name.starts_with("_pq_."))
            .collect();
        if opening.minor > 0 || !options.is_empty() {
            self.out.version(&options);
        }
        match self.log_in(user, &mut clock).await {
            Ok(Ok(user)) => self.user = user,
            Ok(Err((code, message))) => return self.refuse(code, &message).await,
            Err(Fault::Protocol(message)) => return self.refuse("08P01", &message).await,
            Err(fault) => return Err(fault),
        }
        self.settings = Settings::new(&self.user);
        if let Err(message) = self.set_all(&opening.parameters) {
            return self.refuse("22023", &message).await;
        }
        let sessions = Arc::clone(&self.connection.shared.sessions);
        let Ok(_session) = sessions.try_acquire_owned() else {
            let message = format!(
                "there are {} sessions, which is as many as may be",
                super::SESSIONS_MAX
            );
            return self.refuse("53300", &message).await;
        };
        drop(held);
        let Some(enrolled) = Enrolled::new(&self.connection.shared) else {
            return self
                .refuse("58000", "the system gives no random numbers")
                .await;
        };
        self.out.authentication(0);
        let told: Vec<(String, String)> = self
            .settings
            .told()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        told.iter()
            .for_each(|(name, value)| self.out.parameter(name, value));
        self.settings.take_changed();
        self.out.key(enrolled.process, enrolled.key);
        self.enrolled = Some(enrolled);
        self.ready();
        match self.serve().await {
            Err(Fault::Protocol(message)) => self.refuse("08P01", &message).await,
            ended => ended,
        }
    }

    /// The name of who has logged in, or why nobody has.
    async fn log_in(
        &mut self,
        user: &str,
        clock: &mut Clock,
    ) -> Result<Result<String, (&'static str, String)>, Fault> {
        let connection = self.connection;
        let logins = &connection.shared.door.logins;
        if logins.users().is_none() {
            return Ok(Ok(user.to_owned()));
        }
        self.out.authentication(3);
        self.send().await?;
        let request = clock
            .wait(&connection.crowd, self.reader.request(BEGIN_MAX))
            .await;
        let request = request.map_err(|late| Fault::Protocol(format!("the login: {late}")))??;
        let Request::Password(password) = request else {
            return Err(Fault::Protocol("a password is waited for".to_owned()));
        };
        let shown = match password.starts_with(TOKEN_PREFIX) {
            true => Shown::Token(password),
            false => Shown::Password {
                user: user.to_owned(),
                password,
            },
        };
        let address = connection.peer.ip().to_canonical();
        Ok(match logins.judge(shown, address).await {
            Login::NotNeeded => Ok(user.to_owned()),
            // Every role may read.
            Login::Is { user, .. } => Ok(user.to_string()),
            Login::Missing | Login::Wrong(_) => {
                connection
                    .shared
                    .door
                    .note_refused(user, address, "--sql-postgres");
                let message = "the login is wrong, or it has expired: give a password or a token of headwater users";
                Err(("28P01", message.to_owned()))
            }
            Login::Wait(wait) => {
                let seconds = wait.as_secs() + 1;
                Err((
                    "28000",
                    format!("too many failed logins: try again in {seconds} s"),
                ))
            }
        })
    }

    /// What a client sets at the beginning; what has no effect it sees by what it is told.
    fn set_all(&mut self, parameters: &[(String, String)]) -> Result<(), String> {
        let own = parameters
            .iter()
            .filter(|(name, _)| !OF_CONNECTION.contains(&&**name) && !name.starts_with("_pq_."));
        let own = own.map(|(name, value)| (name.as_str(), value.as_str()));
        let options = parameters.iter().filter(|(name, _)| name == "options");
        let options = options.flat_map(|(_, text)| text.split_whitespace());
        let options = options.filter_map(|word| {
            let word = word
                .strip_prefix("--")
                .or_else(|| word.strip_prefix("-c"))
                .unwrap_or(word);
            word.split_once('=')
        });
        for (name, value) in own.chain(options) {
            if let Change::Refused(message) = self.settings.set(name, value) {
                return Err(message);
            }
        }
        Ok(())
    }

    async fn serve(&mut self) -> Result<(), Fault> {
        self.send().await?;
        let mut stopped = self.connection.stopped.clone();
        loop {
            let request = tokio::select! {
                request = self.reader.request(MESSAGE_MAX) => request?,
                () = async { stopped.wait_for(|is_stopped| *is_stopped).await.map(drop).unwrap_or(()) } => {
                    self.out.said(&Said {
                        severity: Severity::Fatal,
                        code: "57P01",
                        message: "the server is stopping".to_owned(),
                        hint: None,
                        position: None,
                    });
                    return self.send().await;
                }
            };
            match request {
                Request::End => return Ok(()),
                Request::Sync => {
                    self.is_skipping = false;
                    if self.transaction == Transaction::None {
                        self.portals.clear();
                    }
                    self.ready();
                    self.send().await?;
                }
                Request::Query(text) => {
                    self.is_skipping = false;
                    self.portals.remove("");
                    self.prepared.remove("");
                    let done = self.query(&text).await;
                    self.end(done)?;
                    self.ready();
                    self.send().await?;
                }
                _ if self.is_skipping => {}
                request => {
                    let done = self.extended(request).await;
                    self.is_skipping = self.end(done)?;
                    if self.out.0.len() >= SEND || self.is_skipping {
                        self.send().await?;
                    }
                }
            }
        }
    }

    /// True: the client is told of an error.
    fn end(&mut self, done: Result<(), Fail>) -> Result<bool, Fault> {
        match done {
            Ok(()) => Ok(false),
            Err(Fail::Fault(fault)) => Err(fault),
            Err(Fail::Said(said)) => {
                self.out.said(&said);
                if self.transaction == Transaction::Open {
                    self.transaction = Transaction::Failed;
                }
                Ok(true)
            }
        }
    }

    fn ready(&mut self) {
        for (name, value) in self.settings.take_changed() {
            self.out.parameter(&name, &value);
        }
        self.out.ready(self.transaction.status());
    }

    async fn send(&mut self) -> Result<(), Fault> {
        let out = std::mem::take(&mut self.out.0);
        let stream = self.reader.stream();
        stream.write_all(&out).await?;
        stream.flush().await?;
        self.out.0 = out;
        self.out.0.clear();
        Ok(())
    }

    /// Waits for what we do, unless the client cancels it or goes away.
    async fn ours<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Fail> {
        let cancel = self
            .enrolled
            .as_ref()
            .map(|enrolled| Arc::clone(&enrolled.cancel));
        let cancelled = async {
            match &cancel {
                Some(cancel) => cancel.notified().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = cancelled => Err(fail("57014", "the statement was cancelled by its user")),
            fault = self.reader.gone() => Err(fault.into()),
        }
    }

    /// The statements of a text, up to the first that fails.
    async fn query(&mut self, text: &str) -> Result<(), Fail> {
        let all = statements(text);
        if all.is_empty() {
            self.out.empty(b'I');
            return Ok(());
        }
        if all.len() > TOGETHER_MAX {
            return Err(fail(
                "54000",
                format!("more than {TOGETHER_MAX} statements are sent together"),
            ));
        }
        for at in all {
            let sql = &text[at.clone()];
            let done = self.one(sql).await;
            // Its place is that in the whole text.
            done.map_err(|failed| match failed {
                Fail::Said(mut said) => {
                    let before = text[..at.start].chars().count();
                    said.position = said.position.map(|position| position + before);
                    Fail::Said(said)
                }
                fault => fault,
            })?;
        }
        Ok(())
    }

    async fn one(&mut self, sql: &str) -> Result<(), Fail> {
        if let Some(own) = own(sql) {
            return self.own(own, true);
        }
        self.check_transaction()?;
        let question = self.question(sql.to_owned());
        let turn = self.turn().await?;
        let rows = self.connection.shared.services.engine.rows(question);
        let mut open = Open {
            rows,
            left: Bytes::new(),
            left_count: 0,
        };
        let (count, _) = self.rows(sql, &mut open, 0, true).await?;
        drop(turn);
        self.out.complete(&format!("SELECT {count}"));
        Ok(())
    }

    fn check_transaction(&self) -> Result<(), Fail> {
        match self.transaction {
            Transaction::Failed => Err(fail(
                "25P02",
                "the transaction has failed: statements are passed over until ROLLBACK",
            )),
            _ => Ok(()),
        }
    }

    async fn turn(&mut self) -> Result<OwnedSemaphorePermit, Fail> {
        let turns = Arc::clone(&self.connection.shared.services.turns);
        let turn = self.ours(turns.acquire_owned()).await?;
        turn.map_err(|_| fail("57P01", "the server is stopping"))
    }

    fn asker(&self) -> Asker {
        let settings = self.settings.all();
        Asker {
            user: self.user.clone(),
            settings: settings
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        }
    }

    fn question(&self, sql: String) -> Question {
        Question {
            sql,
            parameters: Vec::new(),
            columns: None,
            formats: Vec::new(),
            asker: self.asker(),
            time: self.settings.statement_timeout(),
            hidden: self.connection.shared.services.hidden.clone(),
        }
    }

    /// Sends rows as they come, `max` of them at most (0: all), with the columns before them if they are wanted. How
    /// many, and whether that was all.
    async fn rows(
        &mut self,
        sql: &str,
        open: &mut Open,
        max: u64,
        with_columns: bool,
    ) -> Result<(u64, bool), Fail> {
        let mut sent = 0;
        loop {
            if open.left_count > 0 {
                let room = if max == 0 { u64::MAX } else { max - sent };
                let (rows, count) = split(open, room);
                self.send().await?;
                let stream = self.reader.stream();
                stream.write_all(&rows).await.map_err(Fault::from)?;
                sent += count;
            }
            if max > 0 && sent == max {
                return Ok((sent, false));
            }
            let part = self
                .ours(poll_fn(|context| open.rows.poll_part(context)))
                .await?;
            match part.transpose().map_err(|refusal| refused(refusal, sql))? {
                None => return Ok((sent, true)),
                Some(Part::Columns(columns)) if with_columns => {
                    self.out.columns(described(&columns, &[]));
                }
                Some(Part::Columns(_)) => {}
                Some(Part::Rows { bytes, count }) => {
                    (open.left, open.left_count) = (bytes, count);
                }
            }
        }
    }

    /// Answers a statement of the session itself.
    fn own(&mut self, own: Own, with_columns: bool) -> Result<(), Fail> {
        match own {
            Own::Begin => {
                self.check_transaction()?;
                self.transaction = Transaction::Open;
                self.out.complete("BEGIN");
            }
            Own::Commit => {
                let tag = match self.transaction {
                    Transaction::Failed => "ROLLBACK",
                    _ => "COMMIT",
                };
                self.end_transaction();
                self.out.complete(tag);
            }
            Own::Rollback => {
                self.end_transaction();
                self.out.complete("ROLLBACK");
            }
            Own::Nothing(tag) => {
                if tag == "ROLLBACK" && self.transaction == Transaction::Failed {
                    self.transaction = Transaction::Open;
                }
                self.out.complete(tag);
            }
            Own::Set { name, value } => {
                self.check_transaction()?;
                match self.settings.set(&name, &value) {
                    Change::Done => {}
                    Change::Warned(message) => self.out.said(&Said {
                        severity: Severity::Warning,
                        code: "01000",
                        message,
                        hint: None,
                        position: None,
                    }),
                    Change::Refused(message) => return Err(fail("22023", message)),
                }
                self.out.complete("SET");
            }
            Own::Reset(name) => {
                match name {
                    Some(name) => self.settings.reset(&name),
                    None => self.settings.reset_all(),
                }
                self.out.complete("RESET");
            }
            Own::Show(name) => {
                self.check_transaction()?;
                let value = self.settings.get(&name).map(str::to_owned);
                let value = value
                    .ok_or_else(|| fail("42704", format!("there is no parameter \"{name}\"")))?;
                if with_columns {
                    self.out
                        .columns(described(&show_columns(&Own::Show(name)), &[]));
                }
                self.out.row(&[&value]);
                self.out.complete("SHOW");
            }
            Own::ShowAll => {
                self.check_transaction()?;
                if with_columns {
                    self.out
                        .columns(described(&show_columns(&Own::ShowAll), &[]));
                }
                for (name, value) in self.settings.all() {
                    self.out.row(&[name, value, ""]);
                }
                self.out.complete("SHOW");
            }
            Own::Deallocate(name) => match name {
                Some(name) => {
                    let removed = self.prepared.remove(&name);
                    removed.ok_or_else(|| no_statement(&name))?;
                    self.out.complete("DEALLOCATE");
                }
                None => {
                    self.prepared.clear();
                    self.out.complete("DEALLOCATE ALL");
                }
            },
            Own::Discard => {
                self.prepared.clear();
                self.portals.clear();
                self.settings.reset_all();
                self.out.complete("DISCARD ALL");
            }
        }
        Ok(())
    }

    fn end_transaction(&mut self) {
        self.transaction = Transaction::None;
        self.portals.clear();
    }

    async fn extended(&mut self, request: Request) -> Result<(), Fail> {
        match request {
            Request::Parse { name, sql, types } => self.parse(name, sql, types).await,
            Request::Bind {
                portal,
                statement,
                formats,
                values,
                results,
            } => self.bind(portal, &statement, &formats, values, results),
            Request::DescribeStatement(name) => {
                let prepared = self
                    .prepared
                    .get(&name)
                    .ok_or_else(|| no_statement(&name))?;
                let Description {
                    parameters,
                    columns,
                } = &prepared.description;
                self.out.parameters(parameters);
                match columns.is_empty() {
                    true => self.out.empty(b'n'),
                    false => self.out.columns(described(columns, &[])),
                }
                Ok(())
            }
            Request::DescribePortal(name) => {
                let portal = self.portals.get(&name).ok_or_else(|| no_portal(&name))?;
                let columns = &portal.of.description.columns;
                match columns.is_empty() {
                    true => self.out.empty(b'n'),
                    false => self.out.columns(described(columns, &portal.formats)),
                }
                Ok(())
            }
            Request::Execute {
                portal: name,
                rows_max,
            } => {
                let portal = self.portals.remove(&name);
                let mut portal = portal.ok_or_else(|| no_portal(&name))?;
                self.execute(&mut portal, u64::from(rows_max)).await?;
                self.portals.insert(name, portal);
                Ok(())
            }
            Request::CloseStatement(name) => {
                self.prepared.remove(&name);
                self.out.empty(b'3');
                Ok(())
            }
            Request::ClosePortal(name) => {
                self.portals.remove(&name);
                self.out.empty(b'3');
                Ok(())
            }
            Request::Flush => Ok(self.send().await?),
            Request::Copy => Ok(()),
            Request::Function => Err(fail("0A000", "functions are called by SELECT here")),
            Request::Password(_) => {
                let message = "a password is sent where none is waited for";
                Err(Fault::Protocol(message.to_owned()).into())
            }
            Request::Query(_) | Request::Sync | Request::End => Ok(()),
        }
    }

    async fn parse(&mut self, name: String, sql: String, types: Vec<u32>) -> Result<(), Fail> {
        if !name.is_empty() && self.prepared.contains_key(&name) {
            return Err(fail(
                "42P05",
                format!("prepared statement \"{name}\" is there already"),
            ));
        }
        self.prepared.remove(&name);
        let bytes: usize = self
            .prepared
            .values()
            .map(|prepared| prepared.sql.len())
            .sum();
        if self.prepared.len() >= PREPARED_MAX || bytes + sql.len() > BYTES_MAX {
            return Err(fail(
                "54000",
                format!(
                    "a session has {PREPARED_MAX} prepared statements and {BYTES_MAX} bytes of them at most: close some"
                ),
            ));
        }
        let all = statements(&sql);
        if all.len() > 1 {
            return Err(fail("42601", "a prepared statement is one statement"));
        }
        let own = own(&sql);
        let description = match &own {
            _ if all.is_empty() => Description::default(),
            Some(own) => Description {
                parameters: Vec::new(),
                columns: show_columns(own),
            },
            None => {
                self.check_transaction()?;
                let engine = Arc::clone(&self.connection.shared.services.engine);
                let describing = engine.describe(sql.clone(), types, self.asker());
                let described = self.ours(describing).await?;
                described.map_err(|refusal| refused(refusal, &sql))?
            }
        };
        let prepared = Prepared {
            is_empty: all.is_empty(),
            sql,
            own,
            description,
        };
        self.prepared.insert(name, Arc::new(prepared));
        self.out.empty(b'1');
        Ok(())
    }

    fn bind(
        &mut self,
        name: String,
        statement: &str,
        formats: &[bool],
        values: Vec<Option<Vec<u8>>>,
        results: Vec<bool>,
    ) -> Result<(), Fail> {
        let of = self
            .prepared
            .get(statement)
            .ok_or_else(|| no_statement(statement))?;
        let of = Arc::clone(of);
        let Description {
            parameters,
            columns,
        } = &of.description;
        if values.len() != parameters.len() {
            return Err(fail(
                "08P01",
                format!(
                    "{} values are given for {} parameters",
                    values.len(),
                    parameters.len()
                ),
            ));
        }
        let fits = |formats: &[bool], count: usize| formats.len() < 2 || formats.len() == count;
        if !fits(formats, values.len()) || !fits(&results, columns.len()) {
            return Err(fail(
                "08P01",
                "there are formats for other values or columns than there are",
            ));
        }
        if !name.is_empty() && self.portals.contains_key(&name) {
            return Err(fail("42P03", format!("portal \"{name}\" is there already")));
        }
        self.portals.remove(&name);
        let bytes = values.iter().flatten().map(Vec::len).sum();
        let held: usize = self.portals.values().map(|portal| portal.bytes).sum();
        if self.portals.len() >= PORTALS_MAX || held + bytes > BYTES_MAX {
            return Err(fail(
                "54000",
                format!(
                    "a session has {PORTALS_MAX} portals and {BYTES_MAX} bytes of values at most: close some"
                ),
            ));
        }
        let values = values.into_iter().zip(parameters).enumerate();
        let values = values.map(|(at, (bytes, oid))| Parameter {
            oid: *oid,
            is_binary: format_of(formats, at),
            bytes,
        });
        let portal = Portal {
            values: values.collect(),
            formats: results,
            bytes,
            of,
            state: State::Fresh,
        };
        self.portals.insert(name, portal);
        self.out.empty(b'2');
        Ok(())
    }

    async fn execute(&mut self, portal: &mut Portal, max: u64) -> Result<(), Fail> {
        let of = Arc::clone(&portal.of);
        if of.is_empty {
            self.out.empty(b'I');
            return Ok(());
        }
        if let Some(own) = &of.own {
            return self.own(own.clone(), false);
        }
        self.check_transaction()?;
        let mut open = match std::mem::replace(&mut portal.state, State::Done) {
            State::Done => {
                self.out.complete("SELECT 0");
                return Ok(());
            }
            State::Open(open) => open,
            State::Fresh => {
                let question = Question {
                    parameters: std::mem::take(&mut portal.values),
                    columns: Some(of.description.columns.clone()),
                    formats: portal.formats.clone(),
                    ..self.question(of.sql.clone())
                };
                // What waits for a client between two of its requests has no turn.
                let turn = self.turn().await?;
                let rows = self.connection.shared.services.engine.rows(question);
                let open = Open {
                    rows,
                    left: Bytes::new(),
                    left_count: 0,
                };
                return self.advance(portal, open, max, turn).await;
            }
        };
        if open.left_count == 0 {
            open.left = Bytes::new();
        }
        let turn = self.turn().await?;
        self.advance(portal, open, max, turn).await
    }

    async fn advance(
        &mut self,
        portal: &mut Portal,
        mut open: Open,
        max: u64,
        turn: OwnedSemaphorePermit,
    ) -> Result<(), Fail> {
        let sql = portal.of.sql.clone();
        let (count, is_all) = self.rows(&sql, &mut open, max, false).await?;
        drop(turn);
        match is_all {
            true => self.out.complete(&format!("SELECT {count}")),
            false => {
                portal.state = State::Open(open);
                self.out.empty(b's');
            }
        }
        Ok(())
    }
}

/// Takes so many rows at most from what has come.
fn split(open: &mut Open, room: u64) -> (Bytes, u64) {
    if open.left_count <= room {
        let count = std::mem::take(&mut open.left_count);
        return (std::mem::take(&mut open.left), count);
    }
    let mut at = 0;
    for _ in 0..room {
        let len = open.left.get(at + 1..at + 5);
        let len = len.map_or(0, |len| {
            u32::from_be_bytes([len[0], len[1], len[2], len[3]])
        });
        at += 1 + len as usize;
    }
    open.left_count -= room;
    (open.left.split_to(at.min(open.left.len())), room)
}

fn described<'a>(
    columns: &'a [Column],
    formats: &'a [bool],
) -> impl ExactSizeIterator<Item = (&'a str, u32, i16, bool)> {
    let columns = columns.iter().enumerate();
    columns.map(|(at, column)| {
        let is_binary = format_of(formats, at);
        (column.name.as_str(), column.oid, column.size, is_binary)
    })
}

/// None, one for all, or one for each.
fn format_of(formats: &[bool], at: usize) -> bool {
    match formats {
        [] => false,
        [all] => *all,
        each => each.get(at).copied().unwrap_or(false),
    }
}

fn show_columns(own: &Own) -> Vec<Column> {
    let column = |name: &str| Column {
        name: name.to_owned(),
        oid: TEXT_OID,
        size: -1,
    };
    match own {
        Own::Show(name) => vec![column(name)],
        Own::ShowAll => ["name", "setting", "description"].map(column).to_vec(),
        _ => Vec::new(),
    }
}

fn no_statement(name: &str) -> Fail {
    fail(
        "26000",
        format!("there is no prepared statement \"{name}\""),
    )
}

fn no_portal(name: &str) -> Fail {
    fail("34000", format!("there is no portal \"{name}\""))
}

/// A refusal of the engine as clients of PostgreSQL know it, who go by its code.
fn refused(refusal: SqlRefusal, sql: &str) -> Fail {
    match refusal {
        SqlRefusal::Statement(fault) => {
            let message = fault.message;
            let code = [
                ("there is no table", "42P01"),
                ("there is no column", "42703"),
                ("there is no function", "42883"),
                ("only statements that read", "25006"),
            ];
            let code = code.iter().find(|(begins, _)| message.starts_with(begins));
            let before = sql.get(..fault.span.start as usize).unwrap_or(sql);
            Fail::Said(Box::new(Said {
                severity: Severity::Error,
                code: code.map_or("42601", |(_, code)| code),
                message,
                hint: fault.help,
                position: Some(before.chars().count() + 1),
            }))
        }
        SqlRefusal::Rows(message) if message.contains("takes longer than") => {
            fail("57014", message)
        }
        SqlRefusal::Rows(message) if message.starts_with("the statement failed") => {
            fail("22000", message)
        }
        SqlRefusal::Rows(message) => fail("53400", message),
        SqlRefusal::Failed(message) => {
            tracing::error!(cause = message, "cannot answer SQL");
            fail("XX000", message)
        }
    }
}
