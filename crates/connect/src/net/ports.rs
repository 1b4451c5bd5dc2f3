//! Ports that several sources share: one listener for each host and port of a server, with a route
//! for each source.
//!
//! Promises: two sources on one route are refused when the app is made; when the last route has gone,
//! the port is free again before the source returns. Never: what is spoken on a port; that is said by
//! its [`Protocol`].

use std::borrow::Borrow;
use std::collections::HashMap;
use std::error::Error as StdError;
use std::hash::Hash;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tokio::net::TcpStream;
use tokio::sync::watch;

use super::{
    Crowd, Listening, STOP_GRACE, ServerTls, SharedListener, SocketOptions, Stay, Workers,
};
use crate::error::Error;

/// What is spoken on a port, with its settings. Those of the first source of a port hold.
pub trait Protocol: Sized + Send + Sync + 'static {
    /// By which a source is found.
    type Key: Clone + Eq + Hash + Send + Sync;
    type Route: Clone + Send + Sync;

    /// Connections of one port that are served at once; more wait to be accepted.
    const CONNECTIONS_MAX: u32;

    fn socket(&self) -> SocketOptions;

    /// For the person who wrote the app: another source has this route.
    fn taken(number: u16, key: &Self::Key) -> String;

    /// Serves a connection until it ends, or until the port stops and it has what was on its way.
    fn serve(
        port: Arc<Port<Self>>,
        stream: TcpStream,
        stopped: watch::Receiver<bool>,
    ) -> impl Future<Output = Served> + Send;
}

/// How a connection ended.
pub type Served = Result<(), Box<dyn StdError + Send + Sync>>;

/// The ports of a server by host and number.
pub struct Ports<P: Protocol> {
    ports: Mutex<HashMap<(String, u16), Arc<Port<P>>>>,
}

impl<P: Protocol> Default for Ports<P> {
    fn default() -> Ports<P> {
        Ports {
            ports: Mutex::default(),
        }
    }
}

pub struct Port<P: Protocol> {
    host: String,
    number: u16,
    pub protocol: P,
    pub tls: Option<ServerTls>,
    /// Its connections.
    pub crowd: Crowd,
    routes: RwLock<HashMap<P::Key, P::Route>>,
    listener: SharedListener,
}

/// A route that is held by a source until dropped.
pub struct Lease<P: Protocol> {
    ports: Arc<Ports<P>>,
    port: Arc<Port<P>>,
    key: P::Key,
}

impl<P: Protocol> Ports<P> {
    /// Takes a route. The message of the error is for the person who wrote the app.
    pub fn reserve(
        self: &Arc<Ports<P>>,
        (host, number): (&str, u16),
        (key, route): (P::Key, P::Route),
        protocol: P,
        tls: Option<ServerTls>,
    ) -> Result<Lease<P>, String> {
        let mut ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = ports.entry((host.to_owned(), number));
        let port = Arc::clone(entry.or_insert_with(|| {
            Arc::new(Port {
                host: host.to_owned(),
                number,
                protocol,
                tls: tls.clone(),
                crowd: Crowd::new(P::CONNECTIONS_MAX),
                routes: RwLock::default(),
                listener: SharedListener::default(),
            })
        }));
        if port.tls != tls {
            return Err(format!(
                "port {number} is used by another source with other TLS settings; use one key store \
                 for both, or another port"
            ));
        }
        let mut routes = port.routes.write().unwrap_or_else(PoisonError::into_inner);
        if routes.contains_key(&key) {
            return Err(P::taken(number, &key));
        }
        routes.insert(key.clone(), route);
        drop(routes);
        Ok(Lease {
            ports: Arc::clone(self),
            port,
            key,
        })
    }
}

impl<P: Protocol> Lease<P> {
    /// Listens, unless another source of the port does already.
    pub fn open<'a>(&'a self, workers: &'a Workers) -> Result<Stay<'a>, Error> {
        let port = &self.port;
        let listening = port.listener.enter(workers, || port.listen(workers));
        listening.map_err(|e| port.unavailable(e))
    }

    /// As [`Lease::open`] for who has no thread that waits, until [`Lease::release`].
    pub fn hold(&self, workers: &Workers) -> Result<(), Error> {
        let port = &self.port;
        let held = port.listener.hold(|| port.listen(workers));
        held.map_err(|e| port.unavailable(e))
    }

    /// The port is free when it returns, where nobody else listens on it.
    pub fn release(&self, workers: &Workers) {
        if !self.port.listener.release(workers, STOP_GRACE) {
            tracing::warn!(
                port = self.port.number,
                "port closed while connections were still open"
            );
        }
    }

    /// The source has stopped. The port is free when it returns, where it was the last.
    pub fn close(&self, stay: Stay<'_>) {
        if !stay.end(STOP_GRACE) {
            tracing::warn!(
                port = self.port.number,
                "port closed while requests were still \
                                                     unanswered"
            );
        }
    }
}

impl<P: Protocol> Drop for Lease<P> {
    fn drop(&mut self) {
        let all = &self.ports.ports;
        let mut ports = all.lock().unwrap_or_else(PoisonError::into_inner);
        let routes = &self.port.routes;
        let mut routes = routes.write().unwrap_or_else(PoisonError::into_inner);
        routes.remove(&self.key);
        if routes.is_empty() {
            ports.remove(&(self.port.host.clone(), self.port.number));
        }
    }
}

impl<P: Protocol> Port<P> {
    pub fn route<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<P::Route>
    where
        P::Key: Borrow<Q>,
    {
        let routes = self.routes.read().unwrap_or_else(PoisonError::into_inner);
        routes.get(key).cloned()
    }

    /// Is there such a route?
    pub fn has_route(&self, is_so: impl Fn(&P::Route) -> bool) -> bool {
        let routes = self.routes.read().unwrap_or_else(PoisonError::into_inner);
        routes.values().any(is_so)
    }

    /// The keys of all routes, in no order.
    pub fn keys(&self) -> Vec<P::Key> {
        let routes = self.routes.read().unwrap_or_else(PoisonError::into_inner);
        routes.keys().cloned().collect()
    }

    fn unavailable(&self, cause: io::Error) -> Error {
        Error::listen(format!("{}:{}", self.host, self.number), cause)
    }

    fn listen(self: &Arc<Port<P>>, workers: &Workers) -> io::Result<Listening> {
        let port = Arc::clone(self);
        let place = (self.host.as_str(), self.number);
        let serve = move |stream, stopped| {
            let port = Arc::clone(&port);
            async move {
                let own = Arc::clone(&port);
                let _place = own.crowd.enter();
                if let Err(error) = P::serve(port, stream, stopped).await {
                    tracing::debug!(cause = %error, "connection failed");
                }
            }
        };
        let socket = self.protocol.socket();
        Listening::start(workers, place, &socket, P::CONNECTIONS_MAX, serve)
    }
}
