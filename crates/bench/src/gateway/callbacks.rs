//! Callbacks of WebSub subscribers: one server of this process for all of them, at as many addresses of
//! 127.0.0.0/8 as there are origins.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use anyhow::Context as _;
use memchr::memmem;
use ring::hmac;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// One body of so many has its signature checked: all of them would take more CPU than their delivery.
const CHECKED: u64 = 64;

pub(super) struct Callbacks {
    pub port: u16,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    confirmed: AtomicU64,
    delivered: AtomicU64,
    /// By the number of the subscriber: how many bodies came.
    each: Mutex<Vec<u32>>,
    wrong: Mutex<Option<String>>,
}

/// The secret of a subscriber.
pub(super) fn secret(number: usize) -> String {
    format!("secret-{number:06}-of-its-own")
}

impl Callbacks {
    pub fn start(subscribers: usize) -> anyhow::Result<Callbacks> {
        let shared = Arc::new(Shared {
            each: Mutex::new(vec![0; subscribers]),
            ..Shared::default()
        });
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = mpsc::sync_channel(1);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        let served = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("callbacks".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = serve(served, tell) => {}
                        _ = stopped => {}
                    }
                });
            })?;
        let port = told.recv().context("the callbacks did not start")??;
        Ok(Callbacks {
            port,
            shared,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// URL of a subscriber, one of `origins` addresses.
    pub fn url(&self, number: usize, origins: usize) -> String {
        let origin = number % origins;
        let [high, low] = [origin / 250, origin % 250 + 2];
        format!("http://127.0.{high}.{low}:{}/{number}", self.port)
    }

    pub fn confirmed(&self) -> u64 {
        self.shared.confirmed.load(Ordering::Relaxed)
    }

    pub fn delivered(&self) -> u64 {
        self.shared.delivered.load(Ordering::Relaxed)
    }

    /// Every subscriber has got so many bodies, and no signature was wrong.
    ///
    /// # Errors
    /// Who has not.
    pub fn verify(&self, bodies: u32) -> anyhow::Result<()> {
        let wrong = self
            .shared
            .wrong
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(wrong) = wrong.as_ref() {
            anyhow::bail!("{wrong}");
        }
        let each = self
            .shared
            .each
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let other = each.iter().position(|came| *came != bodies);
        if let Some(other) = other {
            anyhow::bail!(
                "callback {other} was called {} times, not {bodies}",
                each[other]
            );
        }
        Ok(())
    }
}

impl Drop for Callbacks {
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

async fn serve(shared: Arc<Shared>, tell: mpsc::SyncSender<std::io::Result<u16>>) {
    let listening = async {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await?;
        let port = listener.local_addr()?.port();
        Ok((listener, port))
    };
    let listener = match listening.await {
        Ok((listener, port)) => {
            tell.send(Ok(port)).ok();
            listener
        }
        Err(error) => {
            tell.send(Err(error)).ok();
            return;
        }
    };
    while let Ok((stream, _)) = listener.accept().await {
        stream.set_nodelay(true).ok();
        let shared = Arc::clone(&shared);
        // Who ends its connection sends again what was not answered.
        tokio::spawn(async move { answer_all(stream, &shared).await.ok() });
    }
}

async fn answer_all(mut stream: TcpStream, shared: &Shared) -> anyhow::Result<()> {
    let mut unread = Vec::with_capacity(16 << 10);
    loop {
        let mut answers = Vec::new();
        while let Some(head) = memmem::find(&unread, b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&unread[..head]).into_owned();
            let field = |name: &str| {
                let fields = text.lines().filter_map(|line| line.split_once(':'));
                let mut found = fields.filter(|(n, _)| n.eq_ignore_ascii_case(name));
                Some(found.next()?.1.trim())
            };
            let length = field("content-length").map_or(Ok(0), str::parse::<usize>)?;
            let Some(body) = unread.get(head + 4..head + 4 + length) else {
                break;
            };
            let target = text.split(' ').nth(1).unwrap_or_default();
            match text.starts_with("GET") {
                true => {
                    let challenge = target
                        .split(['?', '&'])
                        .find_map(|p| p.strip_prefix("hub.challenge="));
                    let challenge = challenge.unwrap_or_default();
                    answers.extend_from_slice(
                        format!(
                            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{challenge}",
                            challenge.len()
                        )
                        .as_bytes(),
                    );
                    shared.confirmed.fetch_add(1, Ordering::Relaxed);
                }
                false => {
                    shared.take(target, field("x-hub-signature"), body);
                    answers.extend_from_slice(b"HTTP/1.1 204 No Content\r\n\r\n");
                }
            }
            unread.drain(..head + 4 + length);
        }
        stream.write_all(&answers).await?;
        if stream.read_buf(&mut unread).await? == 0 {
            return Ok(());
        }
    }
}

impl Shared {
    fn take(&self, target: &str, signature: Option<&str>, body: &[u8]) {
        let Ok(number) = target.trim_start_matches('/').parse::<usize>() else {
            // Of another generator, which is counted alone.
            self.delivered.fetch_add(1, Ordering::Relaxed);
            return;
        };
        if let Some(came) = self
            .each
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_mut(number)
        {
            *came += 1;
        }
        let count = self.delivered.fetch_add(1, Ordering::Relaxed);
        if count.is_multiple_of(CHECKED) {
            let key = hmac::Key::new(hmac::HMAC_SHA256, secret(number).as_bytes());
            let tag = hmac::sign(&key, body);
            let digits: String = tag
                .as_ref()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            if signature != Some(&format!("sha256={digits}")) {
                let wrong = format!("callback {number} was called with signature {signature:?}");
                *self.wrong.lock().unwrap_or_else(PoisonError::into_inner) = Some(wrong);
            }
        }
    }
}
