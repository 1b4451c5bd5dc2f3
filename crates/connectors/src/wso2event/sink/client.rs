//! A connection to a receiver: a login over TLS, then bundles, each answered before the next.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::places::{Place, Receiver};
use crate::wso2event::deployed::Protocol;
use connect::error::{OpenError, unanswered};
use connect::message::Sent;
use connect::net::{ClientTls, Line, dial};
use databridge::rows::{Events, Value};
use databridge::stream::Layout;
use databridge::thrift::{Scan, Scanner};
use databridge::{binary, bundle, rows, thrift};

/// How long a connection may take to open.
const CONNECT: Duration = Duration::from_secs(5);

/// Bytes of an answer.
const ANSWER_MAX: usize = 1 << 20;

/// Bytes that are read at once.
const BLOCK_BYTES: usize = 4 << 10;

/// Numbers of exceptions of Thrift's methods.
const AUTHENTICATION: i16 = 1;
const NO_DEFINITION: i16 = 1;
const UNDEFINED: i16 = 1;
const EXPIRED: i16 = 2;

/// What all receivers of a sink are told.
pub(super) struct Sender {
    pub protocol: Protocol,
    pub user: String,
    pub password: String,
    pub tls: ClientTls,
    pub layout: Layout,
    /// As a receiver is told that does not know the stream.
    pub definition: String,
    /// For an answer.
    pub patience: Duration,
}

/// What a receiver made of a bundle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Judged {
    Taken,
    /// It will never take it, for this reason.
    Refused(String),
    /// It wants another login first.
    Expired,
}

/// An open connection that is logged in.
pub(super) struct Client {
    line: Box<dyn Line>,
    session: String,
    sequence: i32,
    patience: Duration,
    out: Vec<u8>,
    read: Vec<u8>,
}

impl Client {
    pub async fn open(at: &Receiver, sender: &Sender) -> Result<Client, OpenError> {
        let mut client = Client {
            line: connected(&at.login, sender).await?,
            session: String::new(),
            sequence: 0,
            patience: sender.patience,
            out: Vec::new(),
            read: Vec::new(),
        };
        match sender.protocol {
            Protocol::Thrift => client.log_in_by_thrift(sender).await?,
            Protocol::Binary => client.log_in_by_binary(sender).await?,
        }
        if at.events != at.login {
            client.line = connected(&at.events, sender).await?;
            client.read.clear();
        }
        Ok(client)
    }

    async fn log_in_by_thrift(&mut self, sender: &Sender) -> Result<(), OpenError> {
        let Sender {
            user,
            password,
            layout,
            ..
        } = sender;
        let reply = self
            .call("connect", &[user, password])
            .await
            .map_err(text)?;
        self.session = match reply {
            thrift::Reply::Done(Some(session)) => session,
            thrift::Reply::Exception(AUTHENTICATION, cause) => {
                return Err(OpenError::Denied(cause));
            }
            other => {
                return Err(OpenError::Unavailable(format!(
                    "the login was answered by {other:?}"
                )));
            }
        };
        let session = self.session.clone();
        let (name, version) = databridge::stream::parts_of(&layout.id);
        let found = self
            .call("findStreamId", &[&session, name, version])
            .await
            .map_err(text)?;
        if !matches!(found, thrift::Reply::Exception(NO_DEFINITION, _)) {
            return Ok(());
        }
        let defined = self
            .call("defineStream", &[&session, &sender.definition])
            .await
            .map_err(text)?;
        if let thrift::Reply::Exception(_, cause) | thrift::Reply::Failed(cause) = defined {
            // It may take events all the same, and says what it makes of each bundle.
            tracing::warn!(
                stream = layout.id,
                cause,
                "a receiver of wso2event does not take the definition of a stream"
            );
        }
        Ok(())
    }

    async fn log_in_by_binary(&mut self, sender: &Sender) -> Result<(), OpenError> {
        self.out.clear();
        binary::write_login(&mut self.out, &sender.user, &sender.password);
        match self.exchange_binary().await.map_err(text)? {
            binary::Reply::Session(session) => self.session = session,
            binary::Reply::Failed(class, cause) if class == "AuthenticationException" => {
                return Err(OpenError::Denied(cause));
            }
            other => {
                return Err(OpenError::Unavailable(format!(
                    "the login was answered by {other:?}"
                )));
            }
        }
        Ok(())
    }

    /// Sends the events of messages as one bundle, and waits for the answer.
    ///
    /// # Errors
    /// What became of it is not known.
    pub async fn publish<'a>(
        &mut self,
        messages: impl Iterator<Item = &'a Sent>,
        sender: &Sender,
    ) -> io::Result<Judged> {
        match sender.protocol {
            Protocol::Thrift => self.publish_by_thrift(messages, &sender.layout).await,
            Protocol::Binary => self.publish_by_binary(messages, &sender.layout).await,
        }
    }

    async fn publish_by_thrift<'a>(
        &mut self,
        messages: impl Iterator<Item = &'a Sent>,
        layout: &Layout,
    ) -> io::Result<Judged> {
        let mut writer = bundle::Writer::default();
        for message in messages {
            put_in_bundle(&message.payload, layout, &mut writer)?;
        }
        self.begin_call("publish");
        thrift::write_field(&mut self.out, thrift::STRUCT, 1);
        thrift::write_text(&mut self.out, 1, &self.session);
        writer.finish(&mut self.out);
        thrift::end(&mut self.out);
        match self.exchange_thrift().await? {
            thrift::Reply::Done(_) => Ok(Judged::Taken),
            thrift::Reply::Exception(UNDEFINED, cause) => Ok(Judged::Refused(cause)),
            thrift::Reply::Exception(EXPIRED, _) => Ok(Judged::Expired),
            thrift::Reply::Exception(number, cause) => {
                Err(io::Error::other(format!("exception {number}: {cause}")))
            }
            thrift::Reply::Failed(cause) => Err(io::Error::other(cause)),
        }
    }

    async fn publish_by_binary<'a>(
        &mut self,
        messages: impl Iterator<Item = &'a Sent>,
        layout: &Layout,
    ) -> io::Result<Judged> {
        let (mut events, mut count) = (Vec::new(), 0);
        for message in messages {
            count += put_in_message(&message.payload, layout, &mut events)?;
        }
        self.out.clear();
        binary::write_publish(&mut self.out, &self.session, count, &events);
        match self.exchange_binary().await? {
            binary::Reply::Done | binary::Reply::Session(_) => Ok(Judged::Taken),
            binary::Reply::Failed(class, cause) => match class.as_str() {
                "UndefinedEventTypeException" | "MalformedEventException" => {
                    Ok(Judged::Refused(cause))
                }
                "SessionTimeoutException" => Ok(Judged::Expired),
                _ => Err(io::Error::other(format!("{class}: {cause}"))),
            },
        }
    }

    /// Returns when the receiver has ended the connection, and why. Nothing is to be on its way.
    pub async fn gone(&mut self) -> String {
        let mut byte = [0; 1];
        match self.line.read(&mut byte).await {
            Ok(0) => "the receiver has closed the connection".to_owned(),
            Ok(_) => "the receiver has said something that it was not asked for".to_owned(),
            Err(cause) => cause.to_string(),
        }
    }

    // ---- calls ----

    fn begin_call(&mut self, name: &str) {
        self.sequence = self.sequence.wrapping_add(1);
        self.out.clear();
        thrift::write_call(&mut self.out, name, self.sequence);
    }

    async fn call(&mut self, name: &str, arguments: &[&str]) -> io::Result<thrift::Reply> {
        self.begin_call(name);
        for (id, argument) in (1..).zip(arguments) {
            thrift::write_text(&mut self.out, id, argument);
        }
        thrift::end(&mut self.out);
        self.exchange_thrift().await
    }

    async fn exchange_thrift(&mut self) -> io::Result<thrift::Reply> {
        let mut scanner = Scanner::default();
        self.exchange(|bytes| scanner.scan(bytes)).await?;
        thrift::Reply::read(&self.read, self.sequence).map_err(wrong)
    }

    async fn exchange_binary(&mut self) -> io::Result<binary::Reply> {
        self.exchange(binary::scan_answer).await?;
        binary::Reply::read(&self.read).map_err(wrong)
    }

    /// Writes what is to be sent and reads one answer.
    async fn exchange(
        &mut self,
        mut scan: impl FnMut(&[u8]) -> Result<Scan, String>,
    ) -> io::Result<()> {
        let patience = self.patience;
        let exchanged = async {
            self.line.write_all(&self.out).await?;
            self.line.flush().await?;
            self.read.clear();
            loop {
                match scan(&self.read).map_err(wrong)? {
                    Scan::Whole(end) if end == self.read.len() => return Ok(()),
                    Scan::Whole(_) => return Err(wrong("bytes follow the answer".to_owned())),
                    Scan::More(end) if end > ANSWER_MAX => {
                        return Err(wrong(format!("an answer has {end} bytes")));
                    }
                    Scan::More(_) => {}
                }
                let mut block = [0; BLOCK_BYTES];
                let count = self.line.read(&mut block).await?;
                if count == 0 {
                    let cause = "the receiver has closed the connection before it answered";
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, cause));
                }
                self.read.extend_from_slice(&block[..count]);
            }
        };
        let exchanged = tokio::time::timeout(patience, exchanged).await;
        exchanged.unwrap_or_else(|_| Err(unanswered(patience)))
    }
}

async fn connected(at: &Place, sender: &Sender) -> Result<Box<dyn Line>, OpenError> {
    let tls = at.is_tls.then_some(&sender.tls);
    let dialled = dial((&at.host, at.port), CONNECT, tls).await;
    dialled.map_err(|cause| OpenError::Unavailable(format!("{at}: {cause}")))
}

fn text(cause: io::Error) -> String {
    cause.to_string()
}

fn wrong(cause: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, cause)
}

/// The events of a message, as the mapper has written them.
fn events<'a, 'l>(payload: &'a [u8], layout: &'l Layout) -> io::Result<Events<'a, 'l>> {
    match payload {
        [rows::MARK, events @ ..] => Ok(Events::new(events, layout)),
        _ => Err(wrong(
            "the message is not of the mapper 'wso2event'".to_owned(),
        )),
    }
}

fn cut_off() -> io::Error {
    wrong("an event of the mapper is cut off".to_owned())
}

fn utf8(bytes: &[u8]) -> &str {
    // The mapper has written texts of the app.
    std::str::from_utf8(bytes).unwrap_or_default()
}

fn put_in_bundle(payload: &[u8], layout: &Layout, writer: &mut bundle::Writer) -> io::Result<()> {
    let mut events = events(payload, layout)?;
    let (mut values, mut entries) = (Vec::new(), Vec::new());
    while !events.is_done() {
        values.clear();
        entries.clear();
        let time = events.next(
            |_, value| values.push(value),
            |key, value| entries.push((utf8(key), utf8(value))),
        );
        writer.event(&layout.id, time.ok_or_else(cut_off)?);
        for value in &values {
            match value {
                Value::Null => writer.null(),
                Value::Int(v) => writer.int(*v),
                Value::Long(v) => writer.long(*v),
                Value::Double(v) => writer.double(*v),
                Value::Bool(v) => writer.bool(*v),
                Value::Text(v) => writer.string(utf8(v)),
            }
        }
        writer.map(&entries);
    }
    Ok(())
}

fn put_in_message(payload: &[u8], layout: &Layout, into: &mut Vec<u8>) -> io::Result<u32> {
    let mut events = events(payload, layout)?;
    let (mut values, mut entries, mut event, mut count) = (Vec::new(), Vec::new(), Vec::new(), 0);
    while !events.is_done() {
        values.clear();
        entries.clear();
        let time = events.next(
            |_, value| values.push(value),
            |key, value| entries.push((key, value)),
        );
        let time = time.ok_or_else(cut_off)?;
        binary::make_event(&mut event, layout, time, &values, &entries);
        binary::write_event(into, &event);
        count += 1;
    }
    Ok(count)
}
