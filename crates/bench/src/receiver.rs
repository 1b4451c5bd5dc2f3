//! An HTTP server that looks at everything an app sends it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// The number of the event that a body carries; an error says what is wrong with the body.
pub type Judge = fn(u64, &[u8]) -> anyhow::Result<u64>;

/// Answers each request with its own body once it was looked at.
pub struct Receiver {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    judge: Judge,
    seen: Mutex<Seen>,
    changed: Condvar,
}

/// What has come so far.
#[derive(Default, Clone, Debug)]
pub struct Seen {
    pub requests: u64,
    /// By number.
    numbers: Vec<bool>,
    /// The first body that was wrong, and why.
    pub wrong: Option<String>,
}

impl Seen {
    /// Events that came at least once.
    pub fn events(&self) -> u64 {
        self.numbers.iter().filter(|came| **came).count() as u64
    }
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, body: &[u8]) {
        let mut seen = self.seen();
        let judged = (self.judge)(seen.requests, body);
        seen.requests += 1;
        match judged {
            Ok(number) => {
                let number = number as usize;
                if seen.numbers.len() <= number {
                    seen.numbers.resize(number + 1, false);
                }
                seen.numbers[number] = true;
            }
            Err(why) => {
                let body = String::from_utf8_lossy(body);
                seen.wrong.get_or_insert_with(|| format!("{why}: {body}"));
            }
        }
        self.changed.notify_all();
    }
}

impl Receiver {
    /// Listens on a free port of this machine. `judge` gets the number of requests so far and a body.
    pub fn start(judge: Judge) -> anyhow::Result<Receiver> {
        let shared = Arc::new(Shared {
            judge,
            seen: Mutex::default(),
            changed: Condvar::new(),
        });
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = mpsc::sync_channel(1);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        let served = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("receiver".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = serve(served, tell) => {}
                        _ = stopped => {}
                    }
                });
            })?;
        let address = told.recv().context("the receiver did not start")??;
        Ok(Receiver {
            address,
            shared,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Until so many requests have come.
    ///
    /// # Errors
    /// None came for a minute.
    pub fn wait_for(&self, requests: u64) -> anyhow::Result<()> {
        const PATIENCE: Duration = Duration::from_secs(60);
        let mut seen = self.shared.seen();
        let mut last = (seen.requests, Instant::now());
        while seen.requests < requests {
            if seen.requests > last.0 {
                last = (seen.requests, Instant::now());
            }
            if last.1.elapsed() > PATIENCE {
                bail!(
                    "{} of {requests} requests came, and none for a minute",
                    seen.requests
                );
            }
            let waited = self.shared.changed.wait_timeout(seen, PATIENCE);
            seen = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    pub fn seen(&self) -> Seen {
        self.shared.seen().clone()
    }
}

impl Drop for Receiver {
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

async fn serve(shared: Arc<Shared>, tell: mpsc::SyncSender<std::io::Result<SocketAddr>>) {
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
        let shared = Arc::clone(&shared);
        let service = service_fn(move |request| answer(Arc::clone(&shared), request));
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move {
            // A client that goes away sends again what was not answered.
            connection.await.ok();
        });
    }
}

async fn answer(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => Bytes::new(),
    };
    shared.take(&body);
    let mut response = Response::new(Full::new(body));
    if let Some(kind) = head.headers.get(CONTENT_TYPE) {
        response.headers_mut().insert(CONTENT_TYPE, kind.clone());
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn every_request_is_counted_once() {
        let receiver = Receiver::start(|_, body| {
            let text = std::str::from_utf8(body)?;
            Ok(text.parse()?)
        })
        .expect("it starts");
        for body in ["0", "2", "2", "x"] {
            let mut stream = TcpStream::connect(receiver.address).expect("it listens");
            write!(
                stream,
                "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
            .expect("it reads");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("it answers");
            assert!(answer.ends_with(&format!("\r\n\r\n{body}")), "{answer}");
        }
        receiver.wait_for(4).expect("they came");
        let seen = receiver.seen();
        assert_eq!((seen.requests, seen.events()), (4, 2));
        assert!(seen.wrong.is_some_and(|why| why.ends_with(": x")));
    }
}
