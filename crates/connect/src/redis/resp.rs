//! The protocol of Redis (RESP2): commands out, replies in.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use memchr::memchr;
use socket2::SockRef;

/// How long a connection, and then each reply, may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Lists within lists.
const DEPTH_MAX: u32 = 8;

/// The longest text of a reply.
const BULK_BYTES_MAX: usize = 512 << 20;

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Reply {
    Simple(String),
    /// The server refuses a command.
    Error(String),
    Int(i64),
    Bulk(Vec<u8>),
    Array(Vec<Reply>),
    Null,
}

impl Reply {
    pub fn text(&self) -> Option<&str> {
        match self {
            Reply::Simple(text) => Some(text),
            Reply::Bulk(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }
}

/// A command: its name and what follows.
pub(super) type Command = Vec<Vec<u8>>;

pub(super) fn command(parts: &[&str]) -> Command {
    parts.iter().map(|part| part.as_bytes().to_vec()).collect()
}

pub(super) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Read up to here.
    at: usize,
}

impl Connection {
    pub fn open(host: &str, port: u16, password: Option<&str>) -> io::Result<Connection> {
        let mut last = io::Error::other(format!("host '{host}' has no address"));
        for address in (host, port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Err(error) => last = error,
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(PATIENCE))?;
                    stream.set_write_timeout(Some(PATIENCE))?;
                    SockRef::from(&stream).set_tcp_user_timeout(Some(PATIENCE))?;
                    let mut connection = Connection {
                        stream,
                        buffer: Vec::new(),
                        at: 0,
                    };
                    let hello = match password {
                        Some(password) => command(&["AUTH", password]),
                        None => command(&["PING"]),
                    };
                    return match connection.ask(&[hello])?.pop() {
                        Some(Reply::Error(cause)) => Err(io::Error::other(cause)),
                        _ => Ok(connection),
                    };
                }
            }
        }
        Err(last)
    }

    /// Sends commands and gives their replies, one each.
    pub fn ask(&mut self, commands: &[Command]) -> io::Result<Vec<Reply>> {
        let mut out = Vec::new();
        for command in commands {
            write(&mut out, command);
        }
        self.stream.write_all(&out)?;
        commands.iter().map(|_| self.reply()).collect()
    }

    fn reply(&mut self) -> io::Result<Reply> {
        loop {
            let unread = &self.buffer[self.at..];
            match parse(unread, 0) {
                Ok(Some((reply, len))) => {
                    self.at += len;
                    if self.at == self.buffer.len() {
                        self.buffer.clear();
                        self.at = 0;
                    }
                    return Ok(reply);
                }
                Ok(None) => {}
                Err(what) => {
                    let said = format!("the other side does not speak as Redis does: {what}");
                    return Err(io::Error::new(io::ErrorKind::InvalidData, said));
                }
            }
            self.buffer.drain(..self.at);
            self.at = 0;
            let start = self.buffer.len();
            // As much again as is there, so that a long reply is not parsed too often.
            self.buffer.resize(start + start.max(64 << 10), 0);
            let read = self.stream.read(&mut self.buffer[start..]);
            self.buffer.truncate(start + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => {
                    let said = "the server has closed the connection";
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, said));
                }
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) =>
                {
                    let said = format!("no answer within {} s", PATIENCE.as_secs());
                    return Err(io::Error::new(io::ErrorKind::TimedOut, said));
                }
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
    }
}

fn write(out: &mut Vec<u8>, command: &Command) {
    out.extend_from_slice(format!("*{}\r\n", command.len()).as_bytes());
    for part in command {
        out.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
        out.extend_from_slice(part);
        out.extend_from_slice(b"\r\n");
    }
}

/// A reply and its length; `None` where it is not whole yet.
fn parse(bytes: &[u8], depth: u32) -> Result<Option<(Reply, usize)>, &'static str> {
    let Some(end) = memchr(b'\n', bytes) else {
        return Ok(None);
    };
    if depth == DEPTH_MAX {
        return Err("lists are nested too deep");
    }
    let line = std::str::from_utf8(&bytes[..end]).map_err(|_| "a line is no text")?;
    let line = line.trim_end_matches('\r');
    let start = end + 1;
    let Some(kind) = line.chars().next() else {
        return Err("a line is empty");
    };
    let rest = &line[kind.len_utf8()..];
    let number = || rest.parse::<i64>().map_err(|_| "a number is none");
    let reply = match kind {
        '+' => Reply::Simple(rest.to_owned()),
        '-' => Reply::Error(rest.to_owned()),
        ':' => Reply::Int(number()?),
        '$' => match usize::try_from(number()?) {
            Err(_) => Reply::Null,
            Ok(len) if len > BULK_BYTES_MAX => return Err("a text is too long"),
            Ok(len) => {
                let Some(text) = bytes.get(start..start + len) else {
                    return Ok(None);
                };
                return Ok(match bytes.get(start + len..start + len + 2) {
                    None => None,
                    Some(b"\r\n") => Some((Reply::Bulk(text.to_vec()), start + len + 2)),
                    Some(_) => return Err("a text is longer than it says"),
                });
            }
        },
        '*' => match usize::try_from(number()?) {
            Err(_) => Reply::Null,
            Ok(count) => {
                let (mut items, mut at) = (Vec::new(), start);
                for _ in 0..count {
                    let Some((item, len)) = parse(&bytes[at..], depth + 1)? else {
                        return Ok(None);
                    };
                    items.push(item);
                    at += len;
                }
                return Ok(Some((Reply::Array(items), at)));
            }
        },
        _ => return Err("a line begins with none of its marks"),
    };
    Ok(Some((reply, start)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_however_they_are_cut() {
        let bytes = b"*5\r\n+OK\r\n-ERR no\r\n:-7\r\n$4\r\na\r\nb\r\n*2\r\n$-1\r\n*0\r\n";
        let expect = Reply::Array(vec![
            Reply::Simple("OK".into()),
            Reply::Error("ERR no".into()),
            Reply::Int(-7),
            Reply::Bulk(b"a\r\nb".to_vec()),
            Reply::Array(vec![Reply::Null, Reply::Array(Vec::new())]),
        ]);
        for cut in 0..bytes.len() {
            assert_eq!(parse(&bytes[..cut], 0), Ok(None), "{cut}");
        }
        assert_eq!(parse(bytes, 0), Ok(Some((expect, bytes.len()))));
    }

    #[test]
    fn what_is_no_reply_is_told() {
        for bytes in [
            &b"HTTP/1.1 400\r\n"[..],
            b"\r\n",
            b":x\r\n",
            b"$3\r\nabcde",
            b"$999999999999\r\n",
            b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
        ] {
            assert!(parse(bytes, 0).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn commands_carry_any_bytes() {
        let mut out = Vec::new();
        write(&mut out, &command(&["SET", "a\r\n", ""]));
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$3\r\na\r\n\r\n$0\r\n\r\n");
    }
}
