//! What a server answers over HTTP while it runs, on a thread of its own.
//!
//! Built on axum: its table of routes is one value to which each part adds its own (see [`route`]),
//! its handlers are plain functions, and it builds on hyper and tokio, which are used anyway.
//!
//! Promises: no more than [`Limits::connections`] connections are open at once, the others wait to
//! be accepted; where half of the places are taken, who lets his connection wait gives way (see
//! [`connect::net::Crowd`]); a head comes within [`Limits::head`] or its connection is closed; a head beyond
//! [`Limits::head_bytes`] is answered with 431 and a body beyond its route's bound with 413; a
//! request made by a web page of another site is refused (see [`guard`]); who has not the role that a route
//! needs is refused (see [`gate`]). Without users anyone who can reach the port may request everything,
//! so beyond loopback it needs users and TLS unless the operator allows otherwise. Never: HTTP/2, but for the door of
//! Flight SQL (see [`crate::flight`]).

pub mod analytics;
mod answer;
mod gate;
mod guard;
mod hiding;
mod listen;
mod pipe;
mod query;
mod route;
pub mod sql;
pub mod store;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use connect::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::rustls::ServerConfig;

use crate::access::Door;
use crate::access::users::Users;
use crate::ask::Asker;
use crate::backups::Backups;
use crate::deploy::Deployer;
use crate::error::Error;
use crate::feed::Feeds;
use crate::liveness::Liveness;
use crate::metrics::Metrics;
use crate::process::Process;
use crate::rejected::ErrorStore;
use crate::scripts::Scripts;
use crate::secrets::Hidden;
use crate::status;
use crate::tap::Taps;
use crate::tls::TlsFiles;
use gate::{Gate, Gated};
use guard::Guard;
use listen::{Limits, Protocol};

/// What the routes work with.
#[derive(Clone)]
pub struct Services {
    pub metrics: Arc<Metrics>,
    pub asker: Asker,
    /// Those of the event simulator.
    pub feeds: Feeds,
    /// Rejected events.
    pub errors: ErrorStore,
    /// The technologies of the binary.
    pub registry: Registry,
    pub taps: Taps,
    /// Whether the apps move.
    pub liveness: Liveness,
    pub backups: Backups,
    pub deployer: Deployer,
    pub process: Process,
    /// Over the event store.
    pub sql: sql::Sql,
    /// Batch scripts, over the event store too.
    pub scripts: Scripts,
    pub analytics: analytics::Analytics,
    /// Keeps house there.
    pub store: store::StoreUpkeep,
    /// What no answer shows.
    pub hidden: Hidden,
    /// Where there is one.
    pub gateway: Option<Arc<gateway::Gateway>>,
}

/// Where and for whom a server listens.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// With port 0 the system chooses one.
    pub address: SocketAddr,
    /// Names in `Host` that are this server, besides its address and `localhost`.
    pub hosts: Vec<String>,
    /// Listens beyond loopback too, without TLS or without users.
    pub is_insecure: bool,
    pub tls: Option<TlsFiles>,
    /// The file of users. Nobody has to log in as long as there is none.
    pub users: Option<PathBuf>,
    /// Anyone may read the metrics.
    pub has_open_metrics: bool,
    /// The directory of the audit log; else it is in the log alone.
    pub audit: Option<PathBuf>,
}

impl HttpOptions {
    /// Refuses an address beyond loopback unless there are users and TLS, or the operator allows it.
    ///
    /// # Errors
    /// [`Error::Usage`], with what to do; those of [`Users::read`].
    pub fn check(&self) -> Result<(), Error> {
        beyond_loopback(self, "--http", "read and change tables")
    }
}

/// Refuses an address beyond loopback unless there are users and TLS, or the operator allows it. `option` is what names
/// the address, `what` what anybody could do there.
pub(crate) fn beyond_loopback(
    options: &HttpOptions,
    option: &str,
    what: &str,
) -> Result<(), Error> {
    let users = options.users.as_deref().map(Users::read);
    let users = users.transpose()?.flatten();
    if options.is_insecure || options.address.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    let has_users = users.is_some_and(|users| !users.users.is_empty());
    let lacks = match (has_users, options.tls.is_some()) {
        (true, true) => return Ok(()),
        (true, false) => "there is no TLS, so whoever is on the way can read tokens and passwords",
        (false, true) => "nobody has to log in",
        (false, false) => "nobody has to log in, and there is no TLS",
    };
    Err(Error::Usage(format!(
        "{option} {} would let anyone who can reach it {what}: {lacks}. One of three: \
         listen on 127.0.0.1, behind a proxy that authenticates; or add users (headwater users add NAME \
         --role ROLE --state DIR) and give --http-cert and --http-key; or allow it as it is with --insecure",
        options.address
    )))
}

/// Serves until dropped.
pub struct Http {
    address: SocketAddr,
    needs_login: bool,
    protocol: Protocol,
    tls: Option<(TlsFiles, watch::Sender<Arc<ServerConfig>>)>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Http {
    /// Where it listens; with port 0 the system has chosen one.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://` or `https://` with the address.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Are there users?
    pub fn needs_login(&self) -> bool {
        self.needs_login
    }

    /// Reads certificate and key again; connections from now on get them. The old ones stay in use if they
    /// cannot be read.
    ///
    /// # Errors
    /// As [`serve`].
    pub fn reload_tls(&self) -> Result<(), Error> {
        if let Some((files, current)) = &self.tls {
            current.send_replace(self.protocol.of_tls(files.server()?));
        }
        Ok(())
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
pub fn serve(options: &HttpOptions, door: Door, services: Services) -> Result<Http, Error> {
    serve_within(options, door, services, Limits::default())
}

/// Notes each second how far all counters are, for the rates in `/status`.
async fn mark_rates(metrics: Arc<Metrics>) {
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    loop {
        let now = seconds.tick().await;
        status::mark(&metrics, now.into());
    }
}

fn serve_within(
    options: &HttpOptions,
    door: Door,
    services: Services,
    limits: Limits,
) -> Result<Http, Error> {
    options.check()?;
    let metrics = Arc::clone(&services.metrics);
    let gate = Gate {
        logins: door.logins,
        audit: door.audit,
        has_open_metrics: options.has_open_metrics,
    };
    let needs_login = gate.logins.users().is_some();
    let hosts = options.hosts.clone();
    let router = |bound: SocketAddr| {
        let guard = Guard::new(bound.ip(), hosts);
        route::router(services, guard, gate)
    };
    serve_router(
        options,
        ("http", router),
        needs_login,
        limits,
        Some(metrics),
    )
}

/// Serves what a router answers by HTTP/2 to whoever has the role `read`; bodies are of one of these types, and `layer` sees
/// every answer last.
///
/// # Errors
/// As [`serve`].
pub(crate) fn serve_reading(
    options: &HttpOptions,
    door: Door,
    (name, kinds): (&'static str, &'static [&'static str]),
    router: Router,
    layer: impl FnOnce(Router) -> Router,
) -> Result<Http, Error> {
    let gate = Gate {
        logins: door.logins,
        audit: door.audit,
        has_open_metrics: false,
    };
    let needs_login = gate.logins.users().is_some();
    let gated = Gated {
        gate: Arc::new(gate),
        // Not in the table of routes: as before what is not there, the role `read` is asked for.
        route: None,
        kinds,
    };
    let router = layer(router.layer(from_fn_with_state(gated, Gated::layer)));
    let limits = Limits {
        protocol: Protocol::Http2,
        ..Limits::default()
    };
    serve_router(options, (name, |_| router), needs_login, limits, None)
}

/// Serves what a router, made for the address, answers, on a thread of this name. `metrics`: whose rates are noted.
fn serve_router(
    options: &HttpOptions,
    (name, router): (&'static str, impl FnOnce(SocketAddr) -> Router),
    needs_login: bool,
    limits: Limits,
    metrics: Option<Arc<Metrics>>,
) -> Result<Http, Error> {
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
    let router = router(bound);
    let protocol = limits.protocol;
    let (tls, encrypted) = match &options.tls {
        None => (None, None),
        Some(files) => {
            let (current, encrypted) = watch::channel(protocol.of_tls(files.server()?));
            (Some((files.clone(), current)), Some(encrypted))
        }
    };
    let (stop, stopped) = watch::channel(false);
    let thread = std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            runtime.block_on(async move {
                if let Some(metrics) = metrics {
                    // It ends with the runtime.
                    tokio::task::spawn(mark_rates(metrics));
                }
                match TcpListener::from_std(listener) {
                    Ok(listener) => {
                        listen::serve(listener, router, encrypted, limits, stopped).await
                    }
                    Err(error) => {
                        tracing::error!(cause = %error, "cannot serve HTTP");
                    }
                }
            });
        })
        .map_err(refused)?;
    Ok(Http {
        address: bound,
        needs_login,
        protocol,
        tls,
        stop,
        thread: Some(thread),
    })
}

pub use route::{fault as fault_json, records as answer_json, value as value_json};

#[cfg(test)]
mod tests;
