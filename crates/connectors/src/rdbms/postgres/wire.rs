//! PostgreSQL's protocol (version 3) over a blocking connection: logging in, simple and prepared
//! statements, and COPY in both directions.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use postgres_protocol::authentication::{md5_hash, sasl};
use postgres_protocol::message::backend::{DataRowBody, ErrorFields, Message};
use postgres_protocol::message::frontend;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use socket2::{SockRef, TcpKeepalive};

use crate::rdbms::link::Fault;
use crate::rdbms::server::{SILENCE_MAX, Server, Tls};
use connect::error::unanswered;
use connect::net::tls::judged_client;

/// Bytes that are asked of the network at once.
const READ_BYTES: usize = 64 << 10;

/// What a server says when something went wrong.
#[derive(Debug, thiserror::Error)]
#[error("{message} (SQLSTATE {code}{place})")]
pub struct ServerError {
    pub code: String,
    message: String,
    place: String,
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Tls(stream) => &stream.sock,
        }
    }

    /// A read with a time-out is interrupted when the process is suspended and goes on (signal(7)),
    /// which says nothing about the server.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = match self {
                Stream::Plain(socket) => socket.read(buffer),
                Stream::Tls(stream) => stream.read(buffer),
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read.map_err(|error| late(error, self.socket())),
            }
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Stream::Plain(socket) => socket.write_all(bytes),
            Stream::Tls(stream) => {
                stream.write_all(bytes)?;
                stream.flush()
            }
        }
    }
}

pub struct Wire {
    stream: Stream,
    input: BytesMut,
    /// Messages to send; [`Wire::flush`] sends them.
    pub output: BytesMut,
    /// `I` idle, `T` in a transaction, `E` in one that failed.
    pub status: u8,
    /// As the server calls its version.
    pub version: String,
}

impl Wire {
    /// Connects to the first of the server's hosts that answers; `more` are parameters of the session.
    pub fn connect(server: &Server, more: &[(&str, &str)]) -> Result<Wire, Fault> {
        let mut last = Fault::Lost("no host is named".into());
        for (host, port) in &server.hosts {
            match Wire::connect_to(server, host, *port, more) {
                Ok(wire) => return Ok(wire),
                Err(fault) => last = fault,
            }
        }
        Err(last)
    }

    fn connect_to(
        server: &Server,
        host: &str,
        port: u16,
        more: &[(&str, &str)],
    ) -> Result<Wire, Fault> {
        let socket = open(host, port, server.connect_timeout).map_err(lost)?;
        // A server that takes the connection and says nothing is not a server.
        socket
            .set_read_timeout(Some(server.connect_timeout))
            .map_err(lost)?;
        let mut wire = Wire {
            stream: secured(socket, server, host)?,
            input: BytesMut::with_capacity(READ_BYTES),
            output: BytesMut::new(),
            status: b'I',
            version: String::new(),
        };
        wire.start(server, more)?;
        let socket = wire.stream.socket();
        socket.set_read_timeout(server.silence).map_err(lost)?;
        Ok(wire)
    }

    /// Longest silence while something is read; without, there is no bound.
    pub fn set_read_timeout(&mut self, timeout: Option<Duration>) -> Result<(), Fault> {
        let socket = self.stream.socket();
        socket.set_read_timeout(timeout).map_err(lost)
    }

    // ---- logging in ----

    fn start(&mut self, server: &Server, more: &[(&str, &str)]) -> Result<(), Fault> {
        let search_path = server.property("currentSchema");
        let mut parameters = vec![
            ("user", server.user.as_str()),
            ("database", server.database.as_str()),
            ("client_encoding", "UTF8"),
            ("extra_float_digits", "3"),
            ("bytea_output", "hex"),
            ("DateStyle", "ISO"),
            ("standard_conforming_strings", "on"),
            (
                "application_name",
                server.property("ApplicationName").unwrap_or("headwater"),
            ),
        ];
        parameters.extend(search_path.map(|path| ("search_path", path)));
        parameters.extend(server.property("options").map(|text| ("options", text)));
        parameters.extend(more);
        frontend::startup_message(parameters, &mut self.output).map_err(odd)?;
        self.flush()?;
        loop {
            match self.read()? {
                Message::AuthenticationOk => {}
                Message::AuthenticationCleartextPassword => {
                    frontend::password_message(server.password.as_bytes(), &mut self.output)
                        .map_err(odd)?;
                    self.flush()?;
                }
                Message::AuthenticationMd5Password(body) => {
                    let (user, password) = (server.user.as_bytes(), server.password.as_bytes());
                    let hash = md5_hash(user, password, body.salt());
                    frontend::password_message(hash.as_bytes(), &mut self.output).map_err(odd)?;
                    self.flush()?;
                }
                Message::AuthenticationSasl(_) => self.scram(server.password.as_bytes())?,
                Message::ParameterStatus(body) => {
                    if body.name().map_err(odd)? == "server_version" {
                        body.value().map_err(odd)?.clone_into(&mut self.version);
                    }
                }
                Message::ReadyForQuery(body) => {
                    self.status = body.status();
                    return Ok(());
                }
                Message::BackendKeyData(_) => {}
                _ => {
                    return Err(Fault::refused(
                        "the server asks for a way of logging in other than SCRAM-SHA-256, md5 and \
                         password",
                    ));
                }
            }
        }
    }

    fn scram(&mut self, password: &[u8]) -> Result<(), Fault> {
        let binding = sasl::ChannelBinding::unsupported();
        let mut scram = sasl::ScramSha256::new(password, binding);
        frontend::sasl_initial_response(sasl::SCRAM_SHA_256, scram.message(), &mut self.output)
            .map_err(odd)?;
        self.flush()?;
        let Message::AuthenticationSaslContinue(body) = self.read()? else {
            return Err(unexpected());
        };
        scram.update(body.data()).map_err(odd)?;
        frontend::sasl_response(scram.message(), &mut self.output).map_err(odd)?;
        self.flush()?;
        let Message::AuthenticationSaslFinal(body) = self.read()? else {
            return Err(unexpected());
        };
        scram.finish(body.data()).map_err(odd)
    }

    // ---- messages ----

    pub fn flush(&mut self) -> Result<(), Fault> {
        let sent = self.stream.write_all(&self.output);
        self.output.clear();
        sent.map_err(lost)
    }

    /// The next message; an error of the server is an error here. Notices go to the log.
    pub fn read(&mut self) -> Result<Message, Fault> {
        loop {
            match Message::parse(&mut self.input).map_err(lost)? {
                None => self.fill()?,
                Some(Message::ErrorResponse(body)) => {
                    return Err(fault(server_error(body.fields())));
                }
                Some(Message::NoticeResponse(body)) => {
                    let notice = server_error(body.fields());
                    tracing::debug!(%notice, "notice from database");
                }
                Some(Message::NotificationResponse(_)) => {}
                Some(message) => return Ok(message),
            }
        }
    }

    fn fill(&mut self) -> Result<(), Fault> {
        let start = self.input.len();
        self.input.resize(start + READ_BYTES, 0);
        let read = self.stream.read(&mut self.input[start..]);
        let count = *read.as_ref().unwrap_or(&0);
        self.input.truncate(start + count);
        match read {
            Ok(0) => Err(Fault::Lost("the server has closed the connection".into())),
            Ok(_) => Ok(()),
            Err(error) => Err(lost(error)),
        }
    }

    /// Whether a message came before the read time-out; it is left to be read.
    pub fn has_message(&mut self) -> Result<bool, Fault> {
        loop {
            let is_whole = match self.input.get(1..5) {
                Some(mut length) => self.input.len() > length.get_u32() as usize,
                None => false,
            };
            if is_whole {
                return Ok(true);
            }
            match self.fill() {
                Ok(()) => {}
                Err(Fault::Lost(cause)) if is_timeout(&cause) => return Ok(false),
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Reads the answers to what was sent, to the last; the first error counts. `each` gets the others.
    pub fn finish(
        &mut self,
        mut each: impl FnMut(Message) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut result = Ok(());
        loop {
            match self.read() {
                Ok(Message::ReadyForQuery(body)) => {
                    self.status = body.status();
                    return result;
                }
                Ok(message) if result.is_ok() => result = each(message),
                Ok(_) => {}
                Err(fault @ Fault::Lost(_)) => return Err(fault),
                Err(fault) if result.is_ok() => result = Err(fault),
                Err(_) => {}
            }
        }
    }

    /// A simple query, of which all answers are read.
    pub fn query(
        &mut self,
        sql: &str,
        each: impl FnMut(Message) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        frontend::query(sql, &mut self.output).map_err(odd)?;
        self.flush()?;
        self.finish(each)
    }

    /// A small result as text; null is `None`.
    pub fn rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Fault> {
        let mut rows = Vec::new();
        self.query(sql, |message| {
            if let Message::DataRow(row) = message {
                let fields = fields(&row)?.into_iter();
                rows.push(fields.map(|field| field.map(str::to_owned)).collect());
            }
            Ok(())
        })?;
        Ok(rows)
    }

    /// Begins a copy in both directions, of which [`Wire::read`] gives the messages. The parser of
    /// messages does not know the answer to it.
    pub fn copy_both(&mut self, sql: &str) -> Result<(), Fault> {
        frontend::query(sql, &mut self.output).map_err(odd)?;
        self.flush()?;
        if !self.has_message()? {
            return Err(Fault::Lost("the server does not answer".into()));
        }
        if self.input[0] != b'W' {
            // Mostly an error.
            self.read()?;
            return Err(unexpected());
        }
        let mut length = &self.input[1..5];
        let length = 1 + length.get_u32() as usize;
        self.input.advance(length);
        Ok(())
    }

    /// Ends a copy in both directions; what the server has sent meanwhile is passed over.
    pub fn end_copy(&mut self) -> Result<(), Fault> {
        frontend::copy_done(&mut self.output);
        self.flush()?;
        self.finish(|_| Ok(()))
    }

    /// Says goodbye; whether it is heard does not matter.
    pub fn close(&mut self) {
        frontend::terminate(&mut self.output);
        self.flush().ok();
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.close();
    }
}

/// The columns of a row of a result.
pub fn fields(row: &DataRowBody) -> Result<Vec<Option<&str>>, Fault> {
    use fallible_iterator::FallibleIterator;
    let buffer = row.buffer();
    let texts = row.ranges().map(|range| match range {
        None => Ok(None),
        Some(range) => std::str::from_utf8(&buffer[range])
            .map(Some)
            .map_err(std::io::Error::other),
    });
    texts.collect().map_err(|_| unexpected())
}

fn open(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::other(format!("'{host}' has no address"));
    for address in (host, port).to_socket_addrs()? {
        let socket = match TcpStream::connect_timeout(&address, timeout) {
            Ok(socket) => socket,
            Err(error) => {
                last = error;
                continue;
            }
        };
        socket.set_nodelay(true)?;
        let options = SockRef::from(&socket);
        let second = Duration::from_secs(1);
        let keepalive = TcpKeepalive::new()
            .with_time(second)
            .with_interval(second)
            .with_retries(SILENCE_MAX.as_secs() as u32 - 1);
        options.set_tcp_keepalive(&keepalive)?;
        options.set_tcp_user_timeout(Some(SILENCE_MAX))?;
        return Ok(socket);
    }
    Err(last)
}

fn secured(mut socket: TcpStream, server: &Server, host: &str) -> Result<Stream, Fault> {
    if server.tls == Tls::Off {
        return Ok(Stream::Plain(socket));
    }
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    socket.write_all(&request).map_err(lost)?;
    let mut answer = [0];
    let read = socket.read_exact(&mut answer);
    read.map_err(|error| lost(late(error, &socket)))?;
    if answer[0] != b'S' {
        return match server.tls {
            Tls::Prefer => Ok(Stream::Plain(socket)),
            _ => Err(Fault::refused("the server does not offer TLS")),
        };
    }
    let config = judged_client(
        matches!(server.tls, Tls::VerifyCa | Tls::VerifyFull),
        server.tls == Tls::VerifyFull,
        server.root_certificates.as_deref(),
    )
    .map_err(Fault::refused)?;
    let name = ServerName::try_from(host.to_owned()).map_err(Fault::refused)?;
    let connection = ClientConnection::new(config, name).map_err(Fault::refused)?;
    let mut stream = StreamOwned::new(connection, socket);
    while stream.conn.is_handshaking() {
        // What is wrong with a certificate will be wrong the next time.
        let done = stream.conn.complete_io(&mut stream.sock);
        done.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => Fault::refused(error),
            _ => lost(late(error, &stream.sock)),
        })?;
    }
    Ok(Stream::Tls(Box::new(stream)))
}

// ---- errors ----

pub fn lost(error: io::Error) -> Fault {
    Fault::Lost(error.into())
}

/// What the system says of a read that took longer than it may is not understood by anybody.
fn late(error: io::Error, socket: &TcpStream) -> io::Error {
    match (error.kind(), socket.read_timeout()) {
        (io::ErrorKind::WouldBlock, Ok(Some(limit))) => unanswered(limit),
        _ => error,
    }
}

fn odd(error: io::Error) -> Fault {
    Fault::Refused(error.into())
}

pub fn unexpected() -> Fault {
    Fault::Lost("the server sent a message that does not belong here".into())
}

fn is_timeout(cause: &connect::error::Cause) -> bool {
    cause.downcast_ref::<io::Error>().is_some_and(|error| {
        matches!(
            error.kind(),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
        )
    })
}

fn server_error(mut fields: ErrorFields<'_>) -> ServerError {
    use fallible_iterator::FallibleIterator;
    let mut error = ServerError {
        code: String::new(),
        message: String::new(),
        place: String::new(),
    };
    while let Ok(Some(field)) = fields.next() {
        let value = String::from_utf8_lossy(field.value_bytes());
        match field.type_() {
            b'C' => error.code = value.into_owned(),
            b'M' => error.message = value.into_owned(),
            // Detail and context: which key, which row of a COPY.
            b'D' | b'W' => {
                error.place.push_str("; ");
                error
                    .place
                    .push_str(value.lines().next().unwrap_or_default());
            }
            _ => {}
        }
    }
    error
}

/// What became of the connection and of the transaction, by the class of the error.
fn fault(error: ServerError) -> Fault {
    match error.code.as_str() {
        // The server goes down, starts, or has no room for a connection.
        "57P01" | "57P02" | "57P03" | "57P05" | "53300" | "25P03" | "25P04" => {
            Fault::Lost(error.into())
        }
        code if code.starts_with("08") => Fault::Lost(error.into()),
        "40001" | "40P01" => Fault::Undone(error.into()),
        // No room, no lock, read only, interrupted.
        "55P03" | "57014" | "25006" => Fault::Passing(error.into()),
        code if code.starts_with("53") || code.starts_with("58") => Fault::Passing(error.into()),
        _ => Fault::Refused(error.into()),
    }
}
