//! The `websocket-server` source and sink: a port that clients connect to, on any path.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::{HOST, HeaderMap, HeaderValue, ORIGIN, SEC_WEBSOCKET_PROTOCOL};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::client::sendable;
use super::session::{self, End, MESSAGE_BYTES_MAX, Session, Socket};
use super::{PATIENCE, Reads, idle, protocols};
use crate::origin::Origins;
use connect::answer::AnswerCounts;
use connect::arrivals::Arrivals;
use connect::component::{
    Connection, Environment, Finished, Sink, SinkSetup, Source, SourceLink, SourceSetup,
};
use connect::error::Error;
use connect::message::Message;
use connect::net::websocket::{Code, Refusal, accept};
use connect::net::{
    Clock, Crowd, InFlight, Ingress, Line, Listening, Network, Pace, Receiver, STOP_GRACE,
    ServerTls, SharedListener, SocketOptions, tell_if_open,
};
use connect::option::Settings;
use connect::retry::Burst;

/// Connections that are served at once; more wait to be accepted.
const CONNECTIONS_MAX: u32 = 4096;

/// Where clients connect, and how they are let in.
#[derive(Clone)]
struct Port {
    host: String,
    number: u16,
    tls: Option<ServerTls>,
    protocols: Arc<[String]>,
    deflate: bool,
    idle: Option<Duration>,
    arrivals: Arc<Arrivals>,
    origins: Origins,
    crowd: Arc<Crowd>,
    /// Clients that were not let in.
    refused: Arc<Burst>,
}

impl Port {
    /// `kind` is `source` or `sink`.
    fn new(settings: Settings<'_>, environment: &Environment, kind: &str) -> Result<Port, Error> {
        let number = settings.number("port")?;
        let of = |key| {
            let deployed = || environment.setting(kind, "websocket-server", key);
            settings.text(key).or_else(deployed)
        };
        let tls = match settings.flag("tls.enabled") {
            false => None,
            true => {
                let path = of("keystore.path").ok_or_else(|| {
                    settings.refused(
                        "option 'tls.enabled' needs the certificate of 'keystore.path', here or in \
                         the file given by --config",
                    )
                })?;
                let store = (path, of("keystore.password"));
                Some(ServerTls::of_store(settings, store, None)?)
            }
        };
        Ok(Port {
            host: settings.text_or_default("host").trim().to_owned(),
            number,
            tls,
            protocols: protocols(settings).into(),
            deflate: settings.flag("compression"),
            idle: idle(settings)?,
            arrivals: environment.shared.get(),
            origins: Origins::new(settings, environment),
            crowd: Arc::new(Crowd::new(CONNECTIONS_MAX)),
            refused: Arc::default(),
        })
    }

    /// Lets a client in, within bounded time.
    async fn accept(&self, stream: TcpStream) -> io::Result<Socket> {
        let shaking = async {
            let line: Box<dyn Line> = match &self.tls {
                None => Box::new(stream),
                Some(tls) => Box::new(tls.accept(stream, &self.crowd).await?),
            };
            let line = session::heard(line, &self.arrivals);
            let choose = |headers: &HeaderMap| self.choose(headers);
            accept(line, MESSAGE_BYTES_MAX, self.deflate, choose).await
        };
        let mut clock = Clock::start(Pace {
            gap: None,
            whole: Some(PATIENCE),
        });
        let shaken = clock.wait(&self.crowd, shaking).await;
        shaken.unwrap_or_else(|late| Err(io::Error::new(io::ErrorKind::TimedOut, late)))
    }

    /// Says that a client was not let in; of many in a burst it tells some.
    fn tell_refused(&self, name: &str, peer: Option<SocketAddr>, cause: &io::Error) {
        if let Some(times) = self.refused.note() {
            let peer = said_of(peer);
            tracing::warn!(stream = name, peer, times, %cause, "websocket handshake failed");
        }
    }

    /// Lets a client in, and names the first of our sub-protocols that it speaks.
    fn choose(&self, headers: &HeaderMap) -> Result<Option<HeaderValue>, Refusal> {
        if let Some(origin) = headers.get(ORIGIN) {
            let origin = origin.to_str().unwrap_or_default();
            let host = headers.get(HOST).and_then(|host| host.to_str().ok());
            if !self.origins.allow(origin, host) {
                let why = format!(
                    "a page of '{origin}' may not connect: name its origin in 'allowed.origins'"
                );
                return Err(Refusal::new(StatusCode::FORBIDDEN, why));
            }
        }
        let asked = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter();
        let asked: Vec<&str> = asked
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(',').map(str::trim))
            .collect();
        let chosen = self.protocols.iter().find(|p| asked.contains(&p.as_str()));
        Ok(chosen.and_then(|protocol| protocol.parse().ok()))
    }

    fn unavailable(&self, cause: io::Error) -> Error {
        Error::listen(format!("{}:{}", self.host, self.number), cause)
    }
}

fn said_of(peer: Option<SocketAddr>) -> String {
    peer.map_or_else(|| "unknown".to_owned(), |peer| peer.to_string())
}

// ---- source ----

pub(super) struct ServerSource {
    network: Arc<Network>,
    /// App and stream.
    name: Arc<str>,
    port: Port,
    receiver: Receiver,
    reads: Reads,
}

impl ServerSource {
    pub fn new(setup: &SourceSetup<'_>) -> Result<ServerSource, Error> {
        let settings = Settings::of_source(setup.transport, crate::websocket::CONNECTORS);
        Ok(ServerSource {
            network: setup.environment.network(),
            name: format!("{}/{}", setup.environment.app, setup.schema.name).into(),
            port: Port::new(settings, setup.environment, "source")?,
            receiver: Receiver::new(Vec::new()),
            reads: Reads::new(&setup.transport.map.ty),
        })
    }
}

impl Source for ServerSource {
    fn run(&mut self, link: &mut dyn SourceLink) -> Result<Finished, Error> {
        let workers = self.network.workers();
        let workers = workers.map_err(|e| self.port.unavailable(e))?;
        let reading = Reading {
            name: Arc::clone(&self.name),
            port: self.port.clone(),
            ingress: Arc::clone(&self.receiver.ingress),
            reads: self.reads,
        };
        let serve = move |stream, stopped| {
            let reading = reading.clone();
            async move { reading.serve(stream, stopped).await }
        };
        let listener = SharedListener::default();
        let place = (self.port.host.as_str(), self.port.number);
        let socket = SocketOptions::default();
        self.receiver.ingress.open();
        let mut stay = listener
            .enter(workers, || {
                Listening::start(workers, place, &socket, CONNECTIONS_MAX, serve)
            })
            .map_err(|e| self.port.unavailable(e))?;
        tell_if_open(
            &self.name,
            place,
            "set 'host' to an address of this machine, behind a proxy that asks for a login",
        );
        link.report(Connection::Connected);
        // Clients hear that we go, and what they have sent by then is taken.
        let result = self.receiver.run_until(link, || stay.is_drained());
        stay.end(Duration::ZERO);
        result
    }

    fn restore(&mut self, _position: &[u8]) -> Result<(), Error> {
        Ok(())
    }
}

/// What the connections of a running source have in common.
#[derive(Clone)]
struct Reading {
    name: Arc<str>,
    port: Port,
    ingress: Arc<Ingress>,
    reads: Reads,
}

impl Reading {
    async fn serve(&self, stream: TcpStream, mut stopped: watch::Receiver<bool>) {
        let peer = stream.peer_addr().ok();
        let _place = self.port.crowd.enter();
        let socket = match self.port.accept(stream).await {
            Ok(socket) => socket,
            Err(error) => return self.port.tell_refused(&self.name, peer, &error),
        };
        let mut session = Session::new(socket, self.port.idle);
        let leaving = async {
            stopped.wait_for(|is_stopped| *is_stopped).await.ok();
        };
        let gauge = session.gauge();
        let received = session.receive(&self.ingress, self.reads, leaving, STOP_GRACE);
        let end = tokio::select! {
            end = received => end,
            () = self.port.crowd.gives_way(|| gauge.since()) => {
                self.port.arrivals.count_late();
                let said = "a message was not complete, and half of the port's connections are taken";
                End::Lost(said.to_owned(), Some(Code::POLICY))
            }
        };
        if let End::Lost(cause, _) = &end
            && !session.is_closed_in_order()
        {
            let (stream, peer) = (&*self.name, said_of(peer));
            tracing::warn!(stream, peer, cause, "websocket client disconnected");
        }
        session.leave(&end).await;
    }
}

// ---- sink ----

pub(super) struct ServerSink {
    network: Arc<Network>,
    port: Port,
    clients: Arc<Clients>,
    listening: Option<Listening>,
    /// It was said that nobody listens.
    is_lonely: bool,
}

/// Who is connected, each with what was not confirmed yet.
struct Clients {
    name: String,
    answers: Arc<AnswerCounts>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// In the order in which they came.
    connected: BTreeMap<u64, Arc<InFlight>>,
    count: u64,
}

impl Clients {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all(&self) -> Vec<Arc<InFlight>> {
        self.lock().connected.values().cloned().collect()
    }

    /// Serves a client until it goes or the sink closes.
    async fn serve(&self, port: &Port, stream: TcpStream, stopped: watch::Receiver<bool>) {
        let peer = stream.peer_addr().ok();
        let _place = port.crowd.enter();
        let socket = match port.accept(stream).await {
            Ok(socket) => socket,
            Err(error) => return port.tell_refused(&self.name, peer, &error),
        };
        let label = peer.map_or_else(|| "a client".to_owned(), |peer| format!("client {peer}"));
        let in_flight = Arc::new(InFlight::new(
            format!("{} to {label}", self.name),
            label,
            &self.answers,
        ));
        in_flight.open();
        let number = {
            let mut state = self.lock();
            state.count += 1;
            let number = state.count;
            state.connected.insert(number, Arc::clone(&in_flight));
            number
        };
        // The sink closes those that are in the list after it has given the sign to stop.
        if !*stopped.borrow() {
            Session::new(socket, port.idle).send_all(&in_flight).await;
        }
        self.lock().connected.remove(&number);
        in_flight.ended(Ok(()));
    }
}

impl ServerSink {
    pub fn new(setup: &SinkSetup<'_>) -> Result<ServerSink, Error> {
        let settings = Settings::of_sink(setup.transport, crate::websocket::CONNECTORS);
        Ok(ServerSink {
            network: setup.environment.network(),
            port: Port::new(settings, setup.environment, "sink")?,
            clients: Arc::new(Clients {
                name: format!("{}/{}", setup.environment.app, setup.schema.name),
                answers: Arc::clone(setup.answers),
                state: Mutex::default(),
            }),
            listening: None,
            is_lonely: false,
        })
    }
}

impl Sink for ServerSink {
    fn connect(&mut self) -> Result<(), Error> {
        if self.listening.is_some() {
            return Ok(());
        }
        let workers = self.network.workers();
        let workers = workers.map_err(|e| self.port.unavailable(e))?;
        let (clients, port) = (Arc::clone(&self.clients), self.port.clone());
        let serve = move |stream, stopped| {
            let (clients, port) = (Arc::clone(&clients), port.clone());
            async move { clients.serve(&port, stream, stopped).await }
        };
        let place = (self.port.host.as_str(), self.port.number);
        let socket = SocketOptions::default();
        let listening = Listening::start(workers, place, &socket, CONNECTIONS_MAX, serve);
        self.listening = Some(listening.map_err(|e| self.port.unavailable(e))?);
        Ok(())
    }

    fn publish(&mut self, message: &Message<'_>) -> Result<(), Error> {
        let sent = sendable(message, "sending to websocket clients")?;
        let clients = self.clients.all();
        if clients.is_empty() != self.is_lonely {
            self.is_lonely = clients.is_empty();
            if self.is_lonely {
                let sink = &self.clients.name;
                tracing::warn!(sink, "no websocket client is connected; dropping events");
            }
        }
        for client in clients {
            // One that has gone meanwhile gets nothing more, and that is no fault of the others.
            client.push(sent.clone()).ok();
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        for client in self.clients.all() {
            client.flush().ok();
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), Error> {
        let Some(listening) = self.listening.take() else {
            return Ok(());
        };
        // Nobody new comes in; those that are there get all, and then the close.
        listening.stop();
        for client in self.clients.all() {
            client.close().ok();
        }
        let workers = self.network.workers();
        let workers = workers.map_err(|e| self.port.unavailable(e))?;
        workers.wait_for(listening.ended(STOP_GRACE)).ok();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use connect::net::testing;

    #[test]
    fn the_first_protocol_that_both_speak_is_chosen() {
        let options = [("port", "9"), ("sub.protocol", "b,a")];
        let port = testing::source("websocket-server", &options, |setup| {
            Port::new(
                Settings::of_source(setup.transport, crate::websocket::CONNECTORS),
                setup.environment,
                "source",
            )
        })
        .expect("it can be");
        let chosen = |asked: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in asked {
                let value = value.parse().expect("a header");
                headers.append(SEC_WEBSOCKET_PROTOCOL, value);
            }
            let chosen = port.choose(&headers).expect("it is let in");
            chosen.map(|value| value.to_str().expect("text").to_owned())
        };
        assert_eq!(chosen(&["a, c, b"]).as_deref(), Some("b"));
        assert_eq!(chosen(&["c", "a"]).as_deref(), Some("a"));
        assert_eq!(chosen(&["c"]), None);
        assert_eq!(chosen(&[]), None);
    }

    #[test]
    fn a_certificate_is_asked_for() {
        let made = |options: &[(&str, &str)]| {
            testing::sink("websocket-server", options, |setup| {
                ServerSink::new(setup).err().map(|error| error.to_string())
            })
        };
        assert_eq!(made(&[("port", "9")]), None);
        let error = made(&[("port", "9"), ("tls.enabled", "true")]).expect("no key store");
        assert!(error.contains("keystore.path"), "{error}");
        assert!(made(&[("port", "x")]).is_some());
    }
}
