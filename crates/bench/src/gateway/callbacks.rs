//! Callbacks of WebSub subscribers: one server of this process for all of them, at as many addresses of
//! 127.0.0.0/8 as there are origins.

use std::net::Ipv4Addr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::ensure;
use memchr::memmem;
use ring::hmac;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::server::Server;

/// One body of so many has its signature checked: all of them would take more CPU than their delivery.
const CHECKED: u64 = 64;

pub(super) struct Callbacks {
    pub port: u16,
    shared: Arc<Shared>,
    _server: Server,
}

#[derive(Default)]
struct Shared {
    seen: Mutex<Seen>,
    /// What is waited for has come.
    reached: Condvar,
}

/// What has come so far.
#[derive(Default)]
struct Seen {
    confirmed: u64,
    delivered: u64,
    /// How many of either are waited for.
    awaited: u64,
    /// By the number of the subscriber: how many bodies came.
    each: Vec<u32>,
    wrong: Option<String>,
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The secret of a subscriber.
pub(super) fn secret(number: usize) -> String {
    format!("secret-{number:06}-of-its-own")
}

impl Callbacks {
    pub fn start(subscribers: usize) -> anyhow::Result<Callbacks> {
        let shared = Arc::new(Shared {
            seen: Mutex::new(Seen {
                each: vec![0; subscribers],
                ..Seen::default()
            }),
            ..Shared::default()
        });
        let served = Arc::clone(&shared);
        let server = Server::start("callbacks", Ipv4Addr::UNSPECIFIED, move |stream| {
            let shared = Arc::clone(&served);
            // Who ends its connection sends again what was not answered.
            async move { answer_all(stream, &shared).await.ok() }
        })?;
        Ok(Callbacks {
            port: server.address.port(),
            shared,
            _server: server,
        })
    }

    /// URL of a subscriber, one of `origins` addresses.
    pub fn url(&self, number: usize, origins: usize) -> String {
        let origin = number % origins;
        let [high, low] = [origin / 250, origin % 250 + 2];
        format!("http://127.0.{high}.{low}:{}/{number}", self.port)
    }

    /// Waits until so many subscriptions were confirmed.
    ///
    /// # Errors
    /// They were not within this time.
    pub fn wait_confirmed(&self, due: u64, patience: Duration) -> anyhow::Result<()> {
        self.wait(due, patience, |seen| seen.confirmed)
    }

    /// Waits until so many bodies have come.
    ///
    /// # Errors
    /// They did not within this time.
    pub fn wait_delivered(&self, due: u64, patience: Duration) -> anyhow::Result<()> {
        self.wait(due, patience, |seen| seen.delivered)
    }

    fn wait(&self, due: u64, patience: Duration, of: fn(&Seen) -> u64) -> anyhow::Result<()> {
        let mut seen = self.shared.seen();
        seen.awaited = due;
        let waited = self
            .shared
            .reached
            .wait_timeout_while(seen, patience, |seen| of(seen) < due);
        let (seen, _) = waited.unwrap_or_else(PoisonError::into_inner);
        ensure!(
            of(&seen) >= due,
            "{} of {due} came to the callbacks",
            of(&seen)
        );
        Ok(())
    }

    /// Every subscriber has got so many bodies, and no signature was wrong.
    ///
    /// # Errors
    /// Who has not.
    pub fn verify(&self, bodies: u32) -> anyhow::Result<()> {
        let seen = self.shared.seen();
        if let Some(wrong) = &seen.wrong {
            anyhow::bail!("{wrong}");
        }
        if let Some(other) = seen.each.iter().position(|came| *came != bodies) {
            let came = seen.each[other];
            anyhow::bail!("callback {other} was called {came} times, not {bodies}");
        }
        Ok(())
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
                    shared.confirm();
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
    fn confirm(&self) {
        let mut seen = self.seen();
        seen.confirmed += 1;
        if seen.confirmed == seen.awaited {
            self.reached.notify_all();
        }
    }

    fn take(&self, target: &str, signature: Option<&str>, body: &[u8]) {
        let mut seen = self.seen();
        seen.delivered += 1;
        if seen.delivered == seen.awaited {
            self.reached.notify_all();
        }
        let Ok(number) = target.trim_start_matches('/').parse::<usize>() else {
            // Of another generator, which is counted alone.
            return;
        };
        if let Some(came) = seen.each.get_mut(number) {
            *came += 1;
        }
        if seen.delivered.is_multiple_of(CHECKED) {
            let key = hmac::Key::new(hmac::HMAC_SHA256, secret(number).as_bytes());
            let tag = hmac::sign(&key, body);
            let digits: String = tag
                .as_ref()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            if signature != Some(&format!("sha256={digits}")) {
                let wrong = format!("callback {number} was called with signature {signature:?}");
                seen.wrong = Some(wrong);
            }
        }
    }
}
