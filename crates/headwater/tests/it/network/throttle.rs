//! A slow peer: what all clients together write reaches the server at a limited rate, what it answers
//! at once; or the other way round.

use std::io::{Read, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes that are taken at once.
const PIECE: usize = 64 << 10;

/// Gone when dropped, with its connections.
pub struct Throttle {
    pub port: u16,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    to: u16,
    bytes_per_second: u64,
    is_of_answers: bool,
    passed: AtomicU64,
    connections: AtomicU64,
    /// When the first of them came.
    begun: OnceLock<Instant>,
    is_stopped: AtomicBool,
}

impl Throttle {
    /// In front of the port `to`, on `port` (0: any).
    pub fn start(port: u16, to: u16, bytes_per_second: u64) -> Throttle {
        Throttle::of(port, to, bytes_per_second, false)
    }

    /// In front of the port `to`, for what the server writes.
    pub fn of_answers(to: u16, bytes_per_second: u64) -> Throttle {
        Throttle::of(0, to, bytes_per_second, true)
    }

    fn of(port: u16, to: u16, bytes_per_second: u64, is_of_answers: bool) -> Throttle {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared {
            to,
            bytes_per_second,
            is_of_answers,
            passed: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            begun: OnceLock::new(),
            is_stopped: AtomicBool::new(false),
        });
        let accepting = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                for client in listener.incoming() {
                    if shared.is_stopped.load(Ordering::SeqCst) {
                        return;
                    }
                    let Ok(client) = client else { return };
                    // A client of a server that is away finds nobody.
                    if let Ok(server) = TcpStream::connect(("127.0.0.1", shared.to)) {
                        shared.join(client, server);
                    }
                }
            }
        });
        Throttle {
            port,
            shared,
            accepting: Some(accepting),
        }
    }

    /// Bytes that have come through, of those that it holds up.
    pub fn passed(&self) -> u64 {
        self.shared.passed.load(Ordering::SeqCst)
    }

    /// The shortest time in which they can have come: behind a connection's last piece nobody waits.
    pub fn least(&self) -> Duration {
        let last = PIECE as u64 * self.shared.connections.load(Ordering::SeqCst);
        let waited_for = self.passed().saturating_sub(last);
        Duration::from_secs_f64(waited_for as f64 / self.shared.bytes_per_second as f64)
    }
}

impl Shared {
    fn join(self: &Arc<Shared>, client: TcpStream, server: TcpStream) {
        let (fast, slow) = match self.is_of_answers {
            false => (server, client),
            true => (client, server),
        };
        let (from, to) = (
            fast.try_clone().expect("another handle"),
            slow.try_clone().expect("another handle"),
        );
        std::thread::spawn(move || copy(from, to, |_| true));
        self.connections.fetch_add(1, Ordering::SeqCst);
        let shared = Arc::clone(self);
        std::thread::spawn(move || {
            copy(slow, fast, |bytes| {
                let begun = *shared.begun.get_or_init(Instant::now);
                let passed = shared.passed.fetch_add(bytes, Ordering::SeqCst) + bytes;
                let due =
                    begun + Duration::from_secs_f64(passed as f64 / shared.bytes_per_second as f64);
                while Instant::now() < due {
                    std::thread::park_timeout(due.saturating_duration_since(Instant::now()));
                }
                !shared.is_stopped.load(Ordering::SeqCst)
            });
        });
    }
}

/// Until one side ends or `goes_on` says no.
fn copy(mut from: TcpStream, mut to: TcpStream, mut goes_on: impl FnMut(u64) -> bool) {
    let mut piece = vec![0; PIECE];
    while let Ok(len @ 1..) = from.read(&mut piece) {
        if to.write_all(&piece[..len]).is_err() || !goes_on(len as u64) {
            break;
        }
    }
    from.shutdown(Shutdown::Both).ok();
    to.shutdown(Shutdown::Both).ok();
}

impl Drop for Throttle {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::SeqCst);
        TcpStream::connect(("127.0.0.1", self.port)).ok();
        if let Some(accepting) = self.accepting.take() {
            accepting.join().ok();
        }
    }
}
