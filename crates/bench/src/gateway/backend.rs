//! The server behind a proxy: server-sent events at a rate, and WebSocket messages sent back reversed.
//!
//! It runs in this process, so that its share of the machine is in the generator's figure.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use memchr::memmem;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::broadcast;

use super::crowd::message;
use super::frame;
use crate::server::Server;

/// Messages that a stream may be late.
const WAITING_MAX: usize = 1024;

pub(super) struct Backend {
    pub address: SocketAddr,
    /// For all event streams at once.
    events: broadcast::Sender<Arc<str>>,
    _server: Server,
}

impl Backend {
    pub fn start() -> anyhow::Result<Backend> {
        let (events, _) = broadcast::channel(WAITING_MAX);
        let hear = events.clone();
        let server = Server::start("backend", Ipv4Addr::LOCALHOST, move |stream| {
            let events = hear.subscribe();
            // A proxy that goes away ends its connections.
            async move { answer(stream, events).await.ok() }
        })?;
        Ok(Backend {
            address: server.address,
            events,
            _server: server,
        })
    }

    /// Sends a message to every event stream.
    pub fn emit(&self, number: u64, at: u64, bytes: usize) {
        let text = format!("data: {}\n\n", message(number, at, bytes));
        // Without a stream nobody misses it.
        self.events.send(text.into()).ok();
    }
}

async fn answer(
    mut stream: TcpStream,
    events: broadcast::Receiver<Arc<str>>,
) -> anyhow::Result<()> {
    let mut head = Vec::new();
    while memmem::find(&head, b"\r\n\r\n").is_none() {
        if stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let key = frame::key(&String::from_utf8_lossy(&head));
    match key {
        Some(key) => echo(stream, &key).await,
        None => emit(stream, events).await,
    }
}

async fn emit(
    mut stream: TcpStream,
    mut events: broadcast::Receiver<Arc<str>>,
) -> anyhow::Result<()> {
    let head =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    loop {
        // One that is so late that it has missed something ends, which its client notices.
        let text = events.recv().await?;
        stream.write_all(text.as_bytes()).await?;
    }
}

/// Sends each text back, reversed.
async fn echo(mut stream: TcpStream, key: &str) -> anyhow::Result<()> {
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {key}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    let (mut unread, mut out) = (Vec::new(), Vec::new());
    loop {
        let mut at = 0;
        while let Some((text, end)) = frame::read(&unread[at..])? {
            at += end;
            let reversed: Vec<u8> = text.into_iter().rev().collect();
            frame::write(&mut out, &reversed, None);
        }
        unread.drain(..at);
        stream.write_all(&out).await?;
        out.clear();
        if stream.read_buf(&mut unread).await? == 0 {
            return Ok(());
        }
    }
}
