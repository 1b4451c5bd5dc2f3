//! Requests to a server over a connection that stays, as a client library sends them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, ensure};

/// A statement over many rows takes its time.
const PATIENCE: Duration = Duration::from_secs(600);

/// Bytes of an answer.
const BODY_MAX: usize = 256 << 20;

pub(super) struct Connection {
    address: SocketAddr,
    line: BufReader<TcpStream>,
    /// Further lines of each head.
    headers: String,
    request: Vec<u8>,
    body: Vec<u8>,
}

impl Connection {
    /// # Errors
    /// Nobody listens there.
    pub fn open(address: SocketAddr, headers: &str) -> anyhow::Result<Connection> {
        let line = TcpStream::connect(address)?;
        line.set_nodelay(true)?;
        line.set_read_timeout(Some(PATIENCE))?;
        Ok(Connection {
            address,
            line: BufReader::new(line),
            headers: headers.to_owned(),
            request: Vec::new(),
            body: Vec::new(),
        })
    }

    /// The body of the answer to a POST.
    ///
    /// # Errors
    /// The server did not answer with a status below 300.
    pub fn post(&mut self, path: &str, body: &str) -> anyhow::Result<&[u8]> {
        self.send("POST", path, body)
    }

    /// The same of a GET.
    ///
    /// # Errors
    /// As [`Connection::post`].
    pub fn get(&mut self, path: &str) -> anyhow::Result<&[u8]> {
        self.send("GET", path, "")
    }

    fn send(&mut self, method: &str, path: &str, body: &str) -> anyhow::Result<&[u8]> {
        let ty = match path {
            "/sql" => "application/sql",
            _ => "application/json",
        };
        self.request.clear();
        write!(
            self.request,
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: {ty}\r\nContent-Length: {}\r\n{}\r\n{body}",
            self.address,
            body.len(),
            self.headers
        )?;
        self.line.get_mut().write_all(&self.request)?;
        let status = self.read_answer().context("no answer")?;
        ensure!(
            status < 300,
            "{path} was answered by {status}: {}",
            String::from_utf8_lossy(&self.body)
        );
        Ok(&self.body)
    }

    fn text_line(&mut self) -> anyhow::Result<String> {
        let mut text = String::new();
        let read = self.line.by_ref().take(64 << 10).read_line(&mut text)?;
        ensure!(read > 0, "the server hung up");
        Ok(text.trim_end().to_owned())
    }

    /// The status; the body is kept.
    fn read_answer(&mut self) -> anyhow::Result<u16> {
        let first = self.text_line()?;
        let status = first.split(' ').nth(1).context("a status")?.parse()?;
        let (mut length, mut is_chunked) = (0, false);
        loop {
            let header = self.text_line()?.to_ascii_lowercase();
            match header.split_once(':') {
                None if header.is_empty() => break,
                Some(("content-length", value)) => length = value.trim().parse()?,
                Some(("transfer-encoding", _)) => is_chunked = true,
                _ => {}
            }
        }
        self.body.clear();
        if !is_chunked {
            self.take(length)?;
            return Ok(status);
        }
        loop {
            let size = self.text_line()?;
            let size = usize::from_str_radix(&size, 16).context("the size of a chunk")?;
            self.take(size)?;
            ensure!(self.text_line()?.is_empty(), "a chunk has another end");
            if size == 0 {
                return Ok(status);
            }
        }
    }

    fn take(&mut self, count: usize) -> anyhow::Result<()> {
        ensure!(
            self.body.len() + count <= BODY_MAX,
            "the answer is too long"
        );
        let begin = self.body.len();
        self.body.resize(begin + count, 0);
        Ok(self.line.read_exact(&mut self.body[begin..])?)
    }
}
