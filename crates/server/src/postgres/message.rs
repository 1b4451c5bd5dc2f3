//! Messages of the PostgreSQL protocol 3, as a server reads and writes them.
//!
//! Promises: no length of a message is believed beyond its limit; what does not add up is a [`Fault`], never a panic.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Bytes of the message that begins a session, and of each before the login.
pub(super) const BEGIN_MAX: usize = 10_000;

/// Bytes of a message: a statement has at most 1 MB, its parameters share the rest.
pub(super) const MESSAGE_MAX: usize = 4 << 20;

/// Bytes that are read ahead while a statement is answered.
const AHEAD_MAX: usize = 64 << 10;

const VERSION_3: u32 = 3 << 16;
const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;
const CANCEL_REQUEST: u32 = 80_877_102;

/// What is wrong with what a client has sent; the connection ends.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("{0}")]
    Protocol(String),
    #[error("the connection broke: {0}")]
    Broken(#[from] io::Error),
    #[error("the client has gone")]
    Gone,
}

fn wrong(message: impl Into<String>) -> Fault {
    Fault::Protocol(message.into())
}

/// The first message of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Begin {
    Tls,
    Gss,
    Cancel {
        process: u32,
        key: u32,
    },
    Session {
        /// 3.0 is spoken; a client that wants more is told.
        minor: u16,
        parameters: Vec<(String, String)>,
    },
}

/// What a client asks in a session.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Request {
    Query(String),
    Parse {
        name: String,
        sql: String,
        types: Vec<u32>,
    },
    Bind {
        portal: String,
        statement: String,
        /// Of the values: none, one for all, or one for each; true is binary.
        formats: Vec<bool>,
        values: Vec<Option<Vec<u8>>>,
        /// Of the columns, likewise.
        results: Vec<bool>,
    },
    DescribeStatement(String),
    DescribePortal(String),
    Execute {
        portal: String,
        /// 0: all of them.
        rows_max: u32,
    },
    CloseStatement(String),
    ClosePortal(String),
    Flush,
    Sync,
    Password(String),
    End,
    /// Of a copy that nobody has begun: passed over, as PostgreSQL does.
    Copy,
    Function,
}

/// Reads the messages of a connection.
pub(super) struct Reader<R> {
    from: R,
    buffer: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub fn new(from: R) -> Reader<R> {
        Reader {
            from,
            buffer: Vec::new(),
        }
    }

    /// The connection again. What was read ahead would be lost, and could be what somebody on the way has put in.
    ///
    /// # Errors
    /// Something was read ahead.
    pub fn into_inner(self) -> Result<R, Fault> {
        match self.buffer.is_empty() {
            true => Ok(self.from),
            false => Err(wrong(
                "something was sent in the clear behind the request for TLS",
            )),
        }
    }

    pub fn stream(&mut self) -> &mut R {
        &mut self.from
    }

    async fn fill(&mut self) -> Result<(), Fault> {
        match self.from.read_buf(&mut self.buffer).await? {
            0 => Err(Fault::Gone),
            _ => Ok(()),
        }
    }

    /// Returns when the client is gone. What it sends meanwhile is kept for later, up to a bound; who has sent more is
    /// alive.
    pub async fn gone(&mut self) -> Fault {
        while self.buffer.len() < AHEAD_MAX {
            if let Err(fault) = self.fill().await {
                return fault;
            }
        }
        std::future::pending().await
    }

    pub async fn begin(&mut self) -> Result<Begin, Fault> {
        while self.buffer.len() < 4 {
            self.fill().await?;
        }
        let body = self.body(0, BEGIN_MAX).await?;
        begin(&body)
    }

    /// The next request; its bytes have a limit.
    pub async fn request(&mut self, bytes_max: usize) -> Result<Request, Fault> {
        while self.buffer.len() < 5 {
            self.fill().await?;
        }
        let kind = self.buffer[0];
        let body = self.body(1, bytes_max).await?;
        request(kind, &body)
    }

    /// The body of a message whose length is at a place.
    async fn body(&mut self, at: usize, bytes_max: usize) -> Result<Vec<u8>, Fault> {
        let mut len = [0; 4];
        len.copy_from_slice(&self.buffer[at..at + 4]);
        let len = u32::from_be_bytes(len) as usize;
        if !(4..=bytes_max).contains(&len) {
            return Err(wrong(format!(
                "this is no message of PostgreSQL's protocol 3, or it is too long: it says that it has {len} bytes, and \
                 may have {bytes_max}"
            )));
        }
        while self.buffer.len() < at + len {
            self.fill().await?;
        }
        let rest = self.buffer.split_off(at + len);
        let mut message = std::mem::replace(&mut self.buffer, rest);
        message.drain(..at + 4);
        Ok(message)
    }
}

fn begin(body: &[u8]) -> Result<Begin, Fault> {
    let mut body = Body(body);
    let version = body.u32()?;
    match version {
        SSL_REQUEST => return Ok(Begin::Tls),
        GSS_REQUEST => return Ok(Begin::Gss),
        CANCEL_REQUEST => {
            let (process, key) = (body.u32()?, body.u32()?);
            return Ok(Begin::Cancel { process, key });
        }
        _ if version & 0xffff_0000 == VERSION_3 => {}
        _ => {
            return Err(wrong(format!(
                "version {}.{} of the protocol is not spoken here, but 3.0",
                version >> 16,
                version & 0xffff
            )));
        }
    }
    let mut parameters = Vec::new();
    loop {
        let name = body.text()?;
        if name.is_empty() {
            break;
        }
        parameters.push((name, body.text()?));
    }
    Ok(Begin::Session {
        minor: (version & 0xffff) as u16,
        parameters,
    })
}

fn request(kind: u8, body: &[u8]) -> Result<Request, Fault> {
    let mut body = Body(body);
    let request = match kind {
        b'Q' => Request::Query(body.text()?),
        b'P' => {
            let (name, sql) = (body.text()?, body.text()?);
            let count = body.count()?;
            let types = (0..count).map(|_| body.u32());
            Request::Parse {
                name,
                sql,
                types: types.collect::<Result<_, _>>()?,
            }
        }
        b'B' => {
            let (portal, statement) = (body.text()?, body.text()?);
            let formats = body.formats()?;
            let count = body.count()?;
            let values = (0..count).map(|_| body.value());
            Request::Bind {
                portal,
                statement,
                formats,
                values: values.collect::<Result<_, _>>()?,
                results: body.formats()?,
            }
        }
        b'D' | b'C' => {
            let (of, name) = (body.u8()?, body.text()?);
            match (kind, of) {
                (b'D', b'S') => Request::DescribeStatement(name),
                (b'D', b'P') => Request::DescribePortal(name),
                (b'C', b'S') => Request::CloseStatement(name),
                (b'C', b'P') => Request::ClosePortal(name),
                _ => return Err(wrong("neither a statement nor a portal is named")),
            }
        }
        b'E' => Request::Execute {
            portal: body.text()?,
            rows_max: body.u32()?,
        },
        b'H' => Request::Flush,
        b'S' => Request::Sync,
        b'X' => Request::End,
        b'p' => Request::Password(body.text()?),
        b'd' | b'c' | b'f' => return Ok(Request::Copy),
        b'F' => return Ok(Request::Function),
        other => {
            return Err(wrong(format!(
                "there is no message '{}'",
                other.escape_ascii()
            )));
        }
    };
    match body.0.is_empty() {
        true => Ok(request),
        false => Err(wrong("a message is longer than what it says")),
    }
}

/// What is left of the body of a message.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let taken = self.0.split_at_checked(count);
        let (taken, rest) = taken.ok_or_else(|| wrong("a message is shorter than what it says"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn u8(&mut self) -> Result<u8, Fault> {
        Ok(self.take(1)?[0])
    }

    fn u16(&mut self) -> Result<u16, Fault> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn u32(&mut self) -> Result<u32, Fault> {
        let bytes = self.take(4)?;
        Ok(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// Of what follows. Each takes two bytes at least, so the length of the message bounds it.
    fn count(&mut self) -> Result<usize, Fault> {
        let count = usize::from(self.u16()?);
        match count * 2 <= self.0.len() {
            true => Ok(count),
            false => Err(wrong("a message is shorter than what it says")),
        }
    }

    fn text(&mut self) -> Result<String, Fault> {
        let end = memchr::memchr(0, self.0).ok_or_else(|| wrong("a text has no end"))?;
        let text = self.take(end)?;
        self.take(1)?;
        let text = std::str::from_utf8(text);
        text.map(str::to_owned)
            .map_err(|_| wrong("a text is not UTF-8"))
    }

    fn formats(&mut self) -> Result<Vec<bool>, Fault> {
        let count = self.count()?;
        let formats = (0..count).map(|_| match self.u16()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(wrong(format!(
                "there is no format {other}: 0 is text, 1 is binary"
            ))),
        });
        formats.collect()
    }

    fn value(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        match self.u32()? {
            u32::MAX => Ok(None),
            len => Ok(Some(self.take(len as usize)?.to_vec())),
        }
    }
}

/// How bad an error is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Severity {
    /// The session goes on.
    Error,
    /// It ends.
    Fatal,
    /// No error.
    Warning,
}

/// An error or a notice, as clients show it.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub severity: Severity,
    /// Five characters: PostgreSQL's `SQLSTATE`.
    pub code: &'static str,
    pub message: String,
    pub hint: Option<String>,
    /// The character of the statement, from 1.
    pub position: Option<usize>,
}

/// What is going to be sent.
#[derive(Default)]
pub(super) struct Out(pub Vec<u8>);

impl Out {
    /// A message; `write` gives its body.
    pub fn message(&mut self, kind: u8, write: impl FnOnce(&mut Vec<u8>)) {
        self.0.push(kind);
        let at = self.0.len();
        self.0.extend_from_slice(&[0; 4]);
        write(&mut self.0);
        // No body that is made here comes near to 4 GB.
        let len = (self.0.len() - at) as u32;
        self.0[at..at + 4].copy_from_slice(&len.to_be_bytes());
    }

    pub fn empty(&mut self, kind: u8) {
        self.message(kind, |_| {});
    }

    /// Of a login: 0 is done, 3 wants a password in the clear.
    pub fn authentication(&mut self, what: u32) {
        self.message(b'R', |to| to.extend_from_slice(&what.to_be_bytes()));
    }

    pub fn parameter(&mut self, name: &str, value: &str) {
        self.message(b'S', |to| {
            text(to, name);
            text(to, value);
        });
    }

    pub fn key(&mut self, process: u32, key: u32) {
        self.message(b'K', |to| {
            to.extend_from_slice(&process.to_be_bytes());
            to.extend_from_slice(&key.to_be_bytes());
        });
    }

    /// `I`: outside of a transaction, `T`: inside, `E`: inside of one that has failed.
    pub fn ready(&mut self, status: u8) {
        self.message(b'Z', |to| to.push(status));
    }

    pub fn complete(&mut self, tag: &str) {
        self.message(b'C', |to| text(to, tag));
    }

    /// A row of texts.
    pub fn row(&mut self, cells: &[&str]) {
        self.message(b'D', |to| {
            to.extend_from_slice(&(cells.len() as u16).to_be_bytes());
            for cell in cells {
                to.extend_from_slice(&(cell.len() as u32).to_be_bytes());
                to.extend_from_slice(cell.as_bytes());
            }
        });
    }

    /// Names, types and sizes of columns; true is binary.
    pub fn columns<'a>(
        &mut self,
        columns: impl ExactSizeIterator<Item = (&'a str, u32, i16, bool)>,
    ) {
        self.message(b'T', |to| {
            to.extend_from_slice(&(columns.len() as u16).to_be_bytes());
            for (name, oid, size, is_binary) in columns {
                text(to, name);
                // Of no table, and of no column of one.
                to.extend_from_slice(&[0; 6]);
                to.extend_from_slice(&oid.to_be_bytes());
                to.extend_from_slice(&size.to_be_bytes());
                to.extend_from_slice(&(-1_i32).to_be_bytes());
                to.extend_from_slice(&u16::from(is_binary).to_be_bytes());
            }
        });
    }

    pub fn parameters(&mut self, types: &[u32]) {
        self.message(b't', |to| {
            to.extend_from_slice(&(types.len() as u16).to_be_bytes());
            types
                .iter()
                .for_each(|ty| to.extend_from_slice(&ty.to_be_bytes()));
        });
    }

    /// Which version is spoken, to a client that wants a newer one.
    pub fn version(&mut self, options: &[&str]) {
        self.message(b'v', |to| {
            to.extend_from_slice(&0_u32.to_be_bytes());
            to.extend_from_slice(&(options.len() as u32).to_be_bytes());
            options.iter().for_each(|option| text(to, option));
        });
    }

    pub fn said(&mut self, said: &Said) {
        let (kind, severity) = match said.severity {
            Severity::Error => (b'E', "ERROR"),
            Severity::Fatal => (b'E', "FATAL"),
            Severity::Warning => (b'N', "WARNING"),
        };
        self.message(kind, |to| {
            let mut field = |name: u8, value: &str| {
                to.push(name);
                text(to, value);
            };
            field(b'S', severity);
            field(b'V', severity);
            field(b'C', said.code);
            field(b'M', &said.message);
            if let Some(hint) = &said.hint {
                field(b'H', hint);
            }
            if let Some(position) = said.position {
                field(b'P', &position.to_string());
            }
            to.push(0);
        });
    }
}

/// A text ends where it has a zero, which none can have.
fn text(to: &mut Vec<u8>, text: &str) {
    to.extend(text.bytes().filter(|byte| *byte != 0));
    to.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Vec<Result<Request, Fault>> {
        let mut reader = Reader::new(bytes);
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let mut all = Vec::new();
        runtime.expect("a runtime").block_on(async {
            loop {
                let request = reader.request(100).await;
                let is_end = request.is_err();
                all.push(request);
                if is_end {
                    return;
                }
            }
        });
        all
    }

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let mut out = Out::default();
        out.message(kind, |to| to.extend_from_slice(body));
        out.0
    }

    #[test]
    fn requests_are_read_one_after_the_other() {
        let bind = b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x01x\xff\xff\xff\xff\0\0";
        let all = [
            message(b'Q', b"select 1\0"),
            message(b'P', b"s\0select $1\0\0\x01\0\0\0\x17"),
            message(b'B', bind),
            message(b'E', b"p\0\0\0\0\x05"),
            message(b'S', b""),
        ]
        .concat();
        let read = read(&all);
        let read: Vec<&Request> = read.iter().filter_map(|read| read.as_ref().ok()).collect();
        let name = |name: &str| name.to_owned();
        let want = [
            Request::Query(name("select 1")),
            Request::Parse {
                name: name("s"),
                sql: name("select $1"),
                types: vec![23],
            },
            Request::Bind {
                portal: name("p"),
                statement: name("s"),
                formats: vec![true],
                values: vec![Some(b"x".to_vec()), None],
                results: vec![],
            },
            Request::Execute {
                portal: name("p"),
                rows_max: 5,
            },
            Request::Sync,
        ];
        assert_eq!(read, want.iter().collect::<Vec<_>>());
    }

    #[test]
    fn what_does_not_add_up_is_a_fault() {
        for (bytes, says) in [
            (&b"GET / HTTP/1.1\r\n"[..], "may have 100"),
            (&[b'Q', 0xff, 0xff, 0xff, 0xff], "may have 100"),
            (&[b'Q', 0, 0, 0, 3], "it has 3 bytes"),
            (&message(b'Q', b"select 1"), "no end"),
            (&message(b'Q', b"\xff\0"), "not UTF-8"),
            (&message(b'Q', b"a\0b\0"), "longer than"),
            (&message(b'z', b""), "no message 'z'"),
            (&message(b'D', b"X\0"), "neither"),
            (&message(b'P', b"\0\0\xff\xff"), "shorter than"),
            (
                &message(b'B', b"\0\0\0\0\0\x01\x7f\xff\xff\xff"),
                "shorter than",
            ),
            (&message(b'B', b"\0\0\0\x01\0\x07\0\0\0\0"), "no format 7"),
            (&[b'Q', 0, 0, 0, 9, b's'], "has gone"),
            (b"", "has gone"),
        ] {
            let read = read(bytes);
            let fault = read.last().expect("one").as_ref().expect_err("a fault");
            assert!(fault.to_string().contains(says), "{bytes:?}: {fault}");
        }
    }

    #[test]
    fn a_session_begins_with_its_parameters() {
        let of = |body: &[u8]| begin(body);
        let session = [&VERSION_3.to_be_bytes()[..], b"user\0anna\0database\0x\0\0"].concat();
        let parameters = [("user", "anna"), ("database", "x")];
        let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let want = Begin::Session {
            minor: 0,
            parameters: parameters.to_vec(),
        };
        assert_eq!(of(&session).expect("a session"), want);
        assert_eq!(of(&SSL_REQUEST.to_be_bytes()).expect("TLS"), Begin::Tls);
        let cancel = [CANCEL_REQUEST.to_be_bytes(), [0, 0, 0, 7], [0, 0, 0, 9]].concat();
        let want = Begin::Cancel { process: 7, key: 9 };
        assert_eq!(of(&cancel).expect("a cancel"), want);
        for wrong in [&b"\0\x02\0\0"[..], b"", &session[..10], &cancel[..9]] {
            of(wrong).expect_err("no message");
        }
    }
}
