//! The dialogue with a mail server (RFC 5321, with STARTTLS and AUTH).

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::BytesMut;
use memchr::memchr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::net::{ClientTls, Line, dial};

/// The longest answer that is read.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// When a connection in the clear becomes one of TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Upgrade {
    Never,
    /// Where the server can.
    Offered,
    Required,
}

#[derive(Clone)]
pub(super) struct Server {
    pub host: String,
    pub port: u16,
    /// From the first byte, or after an upgrade.
    pub tls: Option<ClientTls>,
    pub is_tls_first: bool,
    pub upgrade: Upgrade,
    pub login: Option<(String, String)>,
    /// What we call ourselves.
    pub name: String,
    pub connect_timeout: Duration,
    /// Longest wait for an answer.
    pub timeout: Duration,
}

/// Why a mail was not taken.
#[derive(Debug)]
pub(super) enum Fault {
    /// There is no connection any more.
    Lost(String),
    /// The server says that it may take it later.
    Later(String),
    /// The server will not take it.
    Never(String),
}

pub(super) struct Session {
    line: Box<dyn Line>,
    buffer: BytesMut,
    timeout: Duration,
    /// What the server can, as it says it.
    extensions: Vec<String>,
}

struct Answer {
    code: u16,
    text: String,
}

impl Answer {
    /// `Ok` with a code of this hundred.
    fn expect(self, hundred: u16) -> Result<Answer, Fault> {
        let said = format!("the server says {} {}", self.code, self.text);
        match self.code / 100 {
            found if found == hundred => Ok(self),
            4 if self.code == 421 => Err(Fault::Lost(said)),
            4 => Err(Fault::Later(said)),
            _ => Err(Fault::Never(said)),
        }
    }
}

impl Session {
    /// Connects and logs in.
    pub async fn open(server: &Server) -> Result<Session, String> {
        let opening = Session::open_slowly(server);
        let opened = tokio::time::timeout(server.connect_timeout + server.timeout, opening).await;
        let opened = opened.unwrap_or_else(|_| {
            Err(Fault::Lost(
                "the server did not let us in in time".to_owned(),
            ))
        });
        opened.map_err(|fault| match fault {
            Fault::Lost(cause) | Fault::Later(cause) | Fault::Never(cause) => cause,
        })
    }

    async fn open_slowly(server: &Server) -> Result<Session, Fault> {
        let said = |error: std::io::Error| Fault::Lost(error.to_string());
        let tls = server.tls.as_ref();
        let address = (server.host.as_str(), server.port);
        let first = tls.filter(|_| server.is_tls_first);
        let line = dial(address, server.connect_timeout, first).await;
        let mut session = Session {
            line: line.map_err(said)?,
            buffer: BytesMut::new(),
            timeout: server.timeout,
            extensions: Vec::new(),
        };
        session.answer().await?.expect(2)?;
        session.greet(&server.name).await?;
        if !server.is_tls_first && server.upgrade != Upgrade::Never {
            if session.can("STARTTLS").is_some()
                && let Some(tls) = tls
            {
                session.ask("STARTTLS").await?.expect(2)?;
                let line = tls.connect(&server.host, session.line).await;
                session = Session {
                    line: Box::new(line.map_err(said)?),
                    // What came before the handshake was not protected.
                    buffer: BytesMut::new(),
                    ..session
                };
                session.greet(&server.name).await?;
            } else if server.upgrade == Upgrade::Required {
                return Err(Fault::Never("the server offers no STARTTLS".to_owned()));
            }
        }
        if let Some((user, password)) = &server.login {
            session.log_in(user, password).await?;
        }
        Ok(session)
    }

    async fn greet(&mut self, name: &str) -> Result<(), Fault> {
        let answer = self.ask(&format!("EHLO {name}")).await?;
        let answer = match answer.code / 100 {
            5 => self.ask(&format!("HELO {name}")).await?,
            _ => answer,
        };
        let answer = answer.expect(2)?;
        self.extensions = answer
            .text
            .lines()
            .skip(1)
            .map(|line| line.trim().to_ascii_uppercase())
            .collect();
        Ok(())
    }

    /// What stands behind the name of an extension, where the server has it.
    fn can(&self, name: &str) -> Option<&str> {
        self.extensions.iter().find_map(|extension| {
            let rest = extension.strip_prefix(name)?;
            (rest.is_empty() || rest.starts_with([' ', '='])).then_some(rest)
        })
    }

    async fn log_in(&mut self, user: &str, password: &str) -> Result<(), Fault> {
        let ways = self.can("AUTH").unwrap_or_default();
        let has = |way: &str| ways.split([' ', '=']).any(|w| w == way);
        if has("PLAIN") || !has("LOGIN") {
            let secret = STANDARD.encode(format!("\0{user}\0{password}"));
            self.ask(&format!("AUTH PLAIN {secret}")).await?.expect(2)?;
            return Ok(());
        }
        self.ask("AUTH LOGIN").await?.expect(3)?;
        self.ask(&STANDARD.encode(user)).await?.expect(3)?;
        self.ask(&STANDARD.encode(password)).await?.expect(2)?;
        Ok(())
    }

    /// Sends a mail to all its recipients, or to none.
    pub async fn send(&mut self, from: &str, to: &[String], mail: &[u8]) -> Result<(), Fault> {
        let result = self.try_send(from, to, mail).await;
        if matches!(result, Err(Fault::Later(_) | Fault::Never(_))) {
            // The next mail begins anew.
            self.ask("RSET").await?;
        }
        result
    }

    async fn try_send(&mut self, from: &str, to: &[String], mail: &[u8]) -> Result<(), Fault> {
        let is_plain = from.is_ascii() && to.iter().all(|to| to.is_ascii());
        let extension = match is_plain {
            true => "",
            false if self.can("SMTPUTF8").is_some() => " SMTPUTF8",
            false => {
                let cause = "an address has letters that the server does not know";
                return Err(Fault::Never(cause.to_owned()));
            }
        };
        let command = format!("MAIL FROM:<{from}>{extension}");
        self.ask(&command).await?.expect(2)?;
        for to in to {
            let answer = self.ask(&format!("RCPT TO:<{to}>")).await?;
            answer.expect(2).map_err(|fault| match fault {
                Fault::Later(cause) => Fault::Later(format!("recipient '{to}': {cause}")),
                Fault::Never(cause) => Fault::Never(format!("recipient '{to}': {cause}")),
                lost => lost,
            })?;
        }
        self.ask("DATA").await?.expect(3)?;
        self.write(&stuffed(mail)).await?;
        self.answer().await?.expect(2)?;
        Ok(())
    }

    /// Takes leave.
    pub async fn quit(mut self) {
        self.ask("QUIT").await.ok();
        self.line.shutdown().await.ok();
    }

    async fn ask(&mut self, command: &str) -> Result<Answer, Fault> {
        self.write(format!("{command}\r\n").as_bytes()).await?;
        self.answer().await
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let written = async {
            self.line.write_all(bytes).await?;
            self.line.flush().await
        };
        match tokio::time::timeout(self.timeout, written).await {
            Ok(written) => written.map_err(|error| Fault::Lost(error.to_string())),
            Err(_) => Err(self.silent()),
        }
    }

    async fn answer(&mut self) -> Result<Answer, Fault> {
        let timeout = self.timeout;
        match tokio::time::timeout(timeout, self.read_answer()).await {
            Ok(answer) => answer.map_err(Fault::Lost),
            Err(_) => Err(self.silent()),
        }
    }

    fn silent(&self) -> Fault {
        Fault::Lost(format!("no answer within {} ms", self.timeout.as_millis()))
    }

    async fn read_answer(&mut self) -> Result<Answer, String> {
        loop {
            if let Some((code, text, end)) = parse(&self.buffer)? {
                bytes::Buf::advance(&mut self.buffer, end);
                return Ok(Answer { code, text });
            }
            if self.buffer.len() > ANSWER_BYTES_MAX {
                return Err("an answer of the server has no end".to_owned());
            }
            match self.line.read_buf(&mut self.buffer).await {
                Ok(0) => return Err("the server has closed the connection".to_owned()),
                Ok(_) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

/// Code, text and length of an answer; `None` where it is not whole yet. `250-a`, `250-b`, `250 c` are
/// one.
fn parse(buffer: &[u8]) -> Result<Option<(u16, String, usize)>, String> {
    let (mut at, mut text) = (0, String::new());
    while let Some(end) = memchr(b'\n', &buffer[at..]) {
        let line = String::from_utf8_lossy(&buffer[at..at + end]);
        let line = line.trim_end();
        let wrong = || format!("the other side does not speak SMTP: {line}");
        let code: u16 = line
            .get(..3)
            .and_then(|c| c.parse().ok())
            .ok_or_else(wrong)?;
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(line.get(4..).unwrap_or_default());
        at += end + 1;
        if line.as_bytes().get(3) != Some(&b'-') {
            return Ok(Some((code, text, at)));
        }
    }
    Ok(None)
}

/// A mail with a dot before each line that begins with one, and with its end.
fn stuffed(mail: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(mail.len() + 8);
    let mut is_start = true;
    for &byte in mail {
        if is_start && byte == b'.' {
            out.push(b'.');
        }
        out.push(byte);
        is_start = byte == b'\n';
    }
    if !out.ends_with(b"\r\n") {
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b".\r\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_one_and_more_lines() {
        let found = |text: &str| parse(text.as_bytes());
        assert_eq!(found("250 OK\r\n22"), Ok(Some((250, "OK".into(), 8))));
        assert_eq!(
            found("250-a\r\n250-B c\n250 d\r\n"),
            Ok(Some((250, "a\nB c\nd".into(), 22)))
        );
        assert_eq!(found("354\r\n"), Ok(Some((354, String::new(), 5))));
        assert_eq!(found("250-a\r\n250"), Ok(None));
        assert!(found("HTTP/1.1 400\r\n").is_err());
        assert!(found("\r\n").is_err());
    }

    #[test]
    fn dots_at_the_start_of_lines_are_doubled() {
        let found = |mail: &str| String::from_utf8(stuffed(mail.as_bytes())).unwrap();
        assert_eq!(found(".a\r\nb.\r\n..\r\n"), "..a\r\nb.\r\n...\r\n.\r\n");
        assert_eq!(found("a"), "a\r\n.\r\n");
        assert_eq!(found(""), "\r\n.\r\n");
    }
}
