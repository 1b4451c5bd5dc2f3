//! A client of databridge as WSO2's agents are: it logs in over TLS, and sends bundles by Thrift, each answered before
//! the next.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, bail};
use connect::net::{ClientTls, PemTrust, dial};
use databridge::bundle::Writer;
use databridge::thrift::{self, Reply, Scan, Scanner};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::events::{Kind, Totals};

const PATIENCE: Duration = Duration::from_secs(60);

/// The session of a user, which all of its connections share.
///
/// # Errors
/// The server does not answer, or lets nobody in.
pub(super) fn log_in(port: u16, user: &str, password: &str) -> anyhow::Result<String> {
    let trust = PemTrust {
        accepts_any_server: true,
        ..PemTrust::default()
    };
    let tls = ClientTls::of_pem(trust).map_err(anyhow::Error::msg)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut call = Vec::new();
    thrift::write_call(&mut call, "connect", 1);
    thrift::write_text(&mut call, 1, user);
    thrift::write_text(&mut call, 2, password);
    thrift::end(&mut call);
    let answer = runtime.block_on(async {
        let mut line = dial(("127.0.0.1", port), PATIENCE, Some(&tls)).await?;
        line.write_all(&call).await?;
        line.flush().await?;
        let (mut read, mut scanner) = (Vec::new(), Scanner::default());
        loop {
            match whole(&mut scanner, &read)? {
                true => return anyhow::Ok(read),
                false if line.read_buf(&mut read).await? == 0 => bail!("the server hung up"),
                false => {}
            }
        }
    })?;
    match Reply::read(&answer, 1).map_err(anyhow::Error::msg)? {
        Reply::Done(Some(session)) => Ok(session),
        other => bail!("the login was answered by {other:?}"),
    }
}

fn whole(scanner: &mut Scanner, bytes: &[u8]) -> anyhow::Result<bool> {
    match scanner.scan(bytes).map_err(anyhow::Error::msg)? {
        Scan::Whole(_) => Ok(true),
        _ => Ok(false),
    }
}

/// A connection that publishes.
pub(super) struct Publisher {
    line: TcpStream,
    session: String,
    writer: Writer,
    out: Vec<u8>,
    read: Vec<u8>,
    sequence: i32,
}

impl Publisher {
    /// # Errors
    /// Nobody listens there.
    pub fn connect(port: u16, session: &str) -> anyhow::Result<Publisher> {
        let line = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        line.set_nodelay(true)?;
        line.set_read_timeout(Some(PATIENCE))?;
        Ok(Publisher {
            line,
            session: session.to_owned(),
            writer: Writer::default(),
            out: Vec::new(),
            read: Vec::new(),
            sequence: 0,
        })
    }

    /// Sends these events, of so many in all, as a bundle, and waits for its answer.
    ///
    /// # Errors
    /// The bundle was not taken.
    pub fn publish(
        &mut self,
        kind: Kind,
        numbers: std::ops::Range<u64>,
        all: u64,
    ) -> anyhow::Result<Totals> {
        let mut totals = Totals::default();
        self.writer.clear();
        for number in numbers {
            kind.write(&mut self.writer, number, all, &mut totals);
        }
        self.sequence = self.sequence.wrapping_add(1);
        self.out.clear();
        thrift::write_call(&mut self.out, "publish", self.sequence);
        thrift::write_field(&mut self.out, thrift::STRUCT, 1);
        thrift::write_text(&mut self.out, 1, &self.session);
        self.writer.finish(&mut self.out);
        thrift::end(&mut self.out);
        self.line.write_all(&self.out)?;
        self.read.clear();
        let mut scanner = Scanner::default();
        while !whole(&mut scanner, &self.read)? {
            let mut block = [0; 4096];
            match self
                .line
                .read(&mut block)
                .context("no answer to a bundle")?
            {
                0 => bail!("the server hung up"),
                count => self.read.extend_from_slice(&block[..count]),
            }
        }
        match Reply::read(&self.read, self.sequence).map_err(anyhow::Error::msg)? {
            Reply::Done(_) => Ok(totals),
            other => bail!("a bundle was answered by {other:?}"),
        }
    }
}
