//! What a server answers over HTTP while it runs, on a thread of its own.
//!
//! Built on axum: its table of routes is one value to which each part adds its own (see [`route`]),
//! its handlers are plain functions, and it builds on hyper and tokio, which are used anyway.
//!
//! Promises: no more than [`Limits::connections`] connections are open at once, the others wait to
//! be accepted; a head comes within [`Limits::head`] or its connection is closed; a head beyond
//! [`Limits::head_bytes`] is answered with 431 and a body beyond its route's bound with 413; a
//! request made by a web page of another site is refused (see [`guard`]). Never: authentication.
//! Anyone who can reach the port may request everything, so it listens on loopback unless
//! configured otherwise.

mod answer;
mod gate;
mod guard;
mod listen;
mod pipe;
mod route;

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::ask::Asker;
use crate::backups::Backups;
use crate::error::Error;
use crate::feed::Feeds;
use crate::liveness::Liveness;
use crate::metrics::Metrics;
use crate::status;
use crate::tap::Taps;
use gate::Gate;
use guard::Guard;
use listen::Limits;

/// What the routes work with.
#[derive(Clone)]
pub struct Services {
    pub metrics: Arc<Metrics>,
    pub asker: Asker,
    /// Those of the event simulator.
    pub feeds: Feeds,
    pub taps: Taps,
    /// Whether the apps move.
    pub liveness: Liveness,
    pub backups: Backups,
}

/// Where and for whom a server listens.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// With port 0 the system chooses one.
    pub address: SocketAddr,
    /// Names in `Host` that are this server, besides its address and `localhost`.
    pub hosts: Vec<String>,
    /// Listens beyond loopback too, although nobody is asked who they are.
    pub is_insecure: bool,
}

impl HttpOptions {
    /// Refuses an address beyond loopback unless the operator has allowed it.
    ///
    /// # Errors
    /// [`Error::Usage`], with what to do.
    pub fn check(&self) -> Result<(), Error> {
        if self.is_insecure || self.address.ip().to_canonical().is_loopback() {
            return Ok(());
        }
        Err(Error::Usage(format!(
            "--http {} would let anyone who can reach it read and change tables: there is no \
             authentication; listen on 127.0.0.1 behind an authenticating proxy, or allow it with \
             --insecure",
            self.address
        )))
    }
}

/// Serves until dropped.
pub struct Http {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Http {
    /// Where it listens; with port 0 the system has chosen one.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Http {
    /// Accepts no more, and waits until what was asked is answered, [`Limits::grace`] at most.
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // The thread has nothing to lose that a join could save.
            thread.join().ok();
        }
    }
}

/// Listens and serves.
///
/// # Errors
/// [`Error::Usage`] as [`HttpOptions::check`]; [`Error::Listen`] if it cannot listen on the address.
pub fn serve(options: &HttpOptions, services: Services) -> Result<Http, Error> {
    serve_within(options, services, Limits::default())
}

/// Notes each second how far all counters are, for the rates in `/status`.
async fn mark_rates(metrics: Arc<Metrics>) {
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    loop {
        let now = seconds.tick().await;
        status::mark(&metrics, now.into());
    }
}

fn serve_within(options: &HttpOptions, services: Services, limits: Limits) -> Result<Http, Error> {
    options.check()?;
    let address = options.address;
    let refused = |cause: std::io::Error| Error::Listen {
        address,
        message: cause.to_string(),
    };
    let listener = std::net::TcpListener::bind(address).map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    let bound = listener.local_addr().map_err(refused)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(refused)?;
    let guard = Guard::new(bound.ip(), options.hosts.clone());
    let metrics = Arc::clone(&services.metrics);
    let router = route::router(services, guard, Gate::default());
    let (stop, stopped) = watch::channel(false);
    let thread = std::thread::Builder::new()
        .name("http".to_owned())
        .spawn(move || {
            runtime.block_on(async move {
                // It ends with the runtime.
                tokio::task::spawn(mark_rates(metrics));
                match TcpListener::from_std(listener) {
                    Ok(listener) => listen::serve(listener, router, limits, stopped).await,
                    Err(error) => {
                        tracing::error!(cause = %error, "cannot serve HTTP");
                    }
                }
            });
        })
        .map_err(refused)?;
    Ok(Http {
        address: bound,
        stop,
        thread: Some(thread),
    })
}

pub use route::{records as answer_json, value as value_json};

#[cfg(test)]
mod tests;
