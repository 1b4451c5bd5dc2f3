//! The server behind a proxy: server-sent events at a rate, and WebSocket messages sent back reversed.
//!
//! It runs in this process, so that its share of the machine is in the generator's figure.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::JoinHandle;

use anyhow::Context as _;
use memchr::memmem;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};

use super::crowd::message;
use super::frame;

pub(super) struct Backend {
    pub address: SocketAddr,
    /// The newest message of the event streams, for all of them at once.
    event: watch::Sender<String>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Backend {
    pub fn start() -> anyhow::Result<Backend> {
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = mpsc::sync_channel(1);
        let (event, events) = watch::channel(String::new());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        let thread = std::thread::Builder::new()
            .name("backend".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = serve(tell, events) => {}
                        _ = stopped => {}
                    }
                });
            })?;
        let address = told.recv().context("the backend did not start")??;
        Ok(Backend {
            address,
            event,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Sends a message to every event stream.
    pub fn emit(&self, number: u64, at: u64, bytes: usize) {
        let text = format!("data: {}\n\n", message(number, at, bytes));
        self.event.send_replace(text);
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // A thread that has ended needs no telling.
            stop.send(()).ok();
        }
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

async fn serve(
    tell: mpsc::SyncSender<std::io::Result<SocketAddr>>,
    events: watch::Receiver<String>,
) {
    let listener = match TcpListener::bind("127.0.0.1:0").await {
        Ok(listener) => listener,
        Err(error) => {
            tell.send(Err(error)).ok();
            return;
        }
    };
    tell.send(listener.local_addr()).ok();
    while let Ok((stream, _)) = listener.accept().await {
        stream.set_nodelay(true).ok();
        let events = events.clone();
        // A proxy that goes away ends its connections.
        tokio::spawn(async move { answer(stream, events).await.ok() });
    }
}

async fn answer(mut stream: TcpStream, events: watch::Receiver<String>) -> anyhow::Result<()> {
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

async fn emit(mut stream: TcpStream, mut events: watch::Receiver<String>) -> anyhow::Result<()> {
    let head =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    events.mark_unchanged();
    loop {
        events.changed().await?;
        let text = events.borrow_and_update().clone();
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
