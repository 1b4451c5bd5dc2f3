//! What all network connectors share: the threads that serve connections, and the bounded way from
//! them to the thread of a source.
//!
//! Each worker is a thread with a single-threaded runtime, so that a connection stays where its data
//! is warm. Promises: nothing is started before the first connector needs it; a connection is read no
//! further while its source has no room. Never: mapping or publishing on a worker.

mod broker_sink;
mod dial;
pub mod events;
pub mod gateway;
pub mod http_client;
mod in_flight;
mod ingress;
mod jks;
mod keystore;
mod listen;
mod liveness;
mod outgoing;
mod pace;
mod ports;
pub mod request_reply;
mod rewound;
mod shared;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod tls;
mod traffic;
pub mod websocket;
pub mod websub;

use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

pub use broker_sink::{BrokerSink, Producer};
pub use dial::{Line, dial, dial_patient, signs_of_life};
pub use in_flight::{InFlight, Number, WAITING_MAX};
pub use ingress::{Body, Delivery, Ingress, Receiver, Unpushed, place_of, reads_text};
pub use keystore::KeyStore;
pub use listen::{Accepts, Listening, SocketOptions, tell_if_open};
pub use liveness::{Liveness, QUIET};
pub use outgoing::Outgoing;
pub use pace::{Clock, Crowd, Idle, Late, Pace};
pub use ports::{Lease, Port, Ports, Protocol, Served};
pub use rewound::Rewound;
pub use shared::{STOP_GRACE, SharedListener, Stay};
pub use tls::{ClientTls, ClientTrust, PemTrust, ServerTls, system_certificates};
pub use traffic::{LastHeard, Observed, Observer};

use crate::component::Environment;

/// The threads of a server that serve connections.
#[derive(Default)]
pub struct Network {
    workers: OnceLock<Result<Workers, String>>,
}

impl Environment {
    /// The threads that serve connections; one set for all apps of a server.
    pub fn network(&self) -> Arc<Network> {
        self.shared.get()
    }
}

impl Network {
    /// The threads that serve connections, started by the first who asks.
    pub fn workers(&self) -> io::Result<&Workers> {
        let workers = self
            .workers
            .get_or_init(|| Workers::start().map_err(|error| error.to_string()));
        workers
            .as_ref()
            .map_err(|cause| io::Error::other(cause.clone()))
    }
}

/// Threads that serve connections until dropped.
pub struct Workers {
    handles: Vec<Handle>,
    next: AtomicUsize,
    stops: Mutex<Vec<oneshot::Sender<()>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Workers {
    fn start() -> io::Result<Workers> {
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        let (mut handles, mut stops, mut threads) = (Vec::new(), Vec::new(), Vec::new());
        for number in 1..=count {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            handles.push(runtime.handle().clone());
            let (stop, stopped) = oneshot::channel::<()>();
            stops.push(stop);
            let thread = std::thread::Builder::new()
                .name(format!("network {number}"))
                .spawn(move || {
                    // An error means that the other end was dropped: the same as a stop.
                    runtime.block_on(stopped).ok();
                })?;
            threads.push(thread);
        }
        Ok(Workers {
            handles,
            next: AtomicUsize::new(0),
            stops: Mutex::new(stops),
            threads: Mutex::new(threads),
        })
    }

    /// A worker, each in turn.
    pub fn next(&self) -> &Handle {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        &self.handles[turn % self.handles.len()]
    }

    /// All of them.
    pub fn handles(&self) -> &[Handle] {
        &self.handles
    }

    /// Runs to its end on a worker while this thread, which is no worker, waits.
    pub fn wait_for<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> io::Result<T> {
        let task = self.next().spawn(work);
        self.handles[0].block_on(task).map_err(io::Error::other)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let mut stops = self.stops.lock().unwrap_or_else(PoisonError::into_inner);
        stops.clear();
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            // What it served is dropped with its runtime; there is nothing to learn from a join.
            if thread.thread().id() != std::thread::current().id() {
                thread.join().ok();
            }
        }
    }
}

/// Least time between two connections of a sink of which the first was lost.
const RECONNECT_PAUSE: std::time::Duration = std::time::Duration::from_secs(1);

/// Was the connection that was just lost made so short ago that another would be lost as well? The
/// caller says "unavailable" and is asked again after the pause of the server.
pub fn is_again_too_soon(connected: Option<std::time::Instant>) -> bool {
    connected.is_some_and(|at| at.elapsed() < RECONNECT_PAUSE)
}
