//! The `websocket` source and sink: a connection to a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue, SEC_WEBSOCKET_PROTOCOL};
use tokio::sync::oneshot;

use super::session::{self, LEAVE, MESSAGE_BYTES_MAX, Session, Socket};
use super::{PATIENCE, Reads, idle, protocols};
use connect::arrivals::Arrivals;
use connect::component::{
    Connection, Environment, Finished, Payload, Sink, SinkSetup, Source, SourceLink, SourceSetup,
};
use connect::error::{Cause, Error};
use connect::message::{Message, Sent, Undelivered};
use connect::net::http_client::{add_headers, basic};
use connect::net::websocket::{Ask, shake};
use connect::net::{ClientTls, ClientTrust, InFlight, Ingress, Network, Receiver, dial_patient};
use connect::option::Settings;
use connect::url::{Url, decode};

/// Where the server is and what is told to it.
#[derive(Clone)]
struct Server {
    /// Without a password.
    label: String,
    url: Url,
    tls: Option<ClientTls>,
    /// Of the handshake, with the sub-protocols.
    headers: HeaderMap,
    deflate: bool,
    idle: Option<Duration>,
    arrivals: Arc<Arrivals>,
}

impl Server {
    /// `kind` is `source` or `sink`.
    fn new(settings: Settings<'_>, environment: &Environment, kind: &str) -> Result<Server, Error> {
        let text = settings.text_or_default("url").trim();
        let url = parse(text).ok_or_else(|| {
            let shown = text.rsplit('@').next().unwrap_or_default();
            settings.refused(format!(
                "option 'url' is '{shown}': write ws://host:port/path or wss://host:port/path"
            ))
        })?;
        let mut headers = HeaderMap::new();
        if let Some(login) = login(text) {
            headers.insert(AUTHORIZATION, login);
        }
        add_headers(&mut headers, settings.text_or_default("headers"))
            .map_err(|cause| settings.refused(format!("option 'headers': {cause}")))?;
        let own = settings
            .text("truststore.path")
            .map(|path| (path, settings.text("truststore.password")));
        let tls = match url.is_tls {
            false => None,
            true => {
                let trust = ClientTrust {
                    store: own.or_else(|| deployed(environment, kind)),
                    ..ClientTrust::default()
                };
                Some(ClientTls::trusting(settings, "TLS", trust)?)
            }
        };
        let protocols = protocols(settings);
        if !protocols.is_empty() {
            let value = HeaderValue::from_str(&protocols.join(", ")).map_err(|_| {
                settings.refused("option 'sub.protocol' has characters that no header can hold")
            })?;
            headers.insert(SEC_WEBSOCKET_PROTOCOL, value);
        }
        let scheme = if url.is_tls { "wss" } else { "ws" };
        Ok(Server {
            label: format!("'{scheme}://{}{}'", url.authority(), url.path),
            url,
            tls,
            headers,
            deflate: settings.flag("compression"),
            idle: idle(settings)?,
            arrivals: environment.shared.get(),
        })
    }

    async fn open(&self) -> Result<Socket, String> {
        let place = (self.url.host.as_str(), self.url.port);
        let line = dial_patient(place, PATIENCE, self.tls.as_ref());
        let line = session::heard(
            line.await.map_err(|error| error.to_string())?,
            &self.arrivals,
        );
        let ask = Ask {
            url: &self.url,
            headers: &self.headers,
            message_max: MESSAGE_BYTES_MAX,
            deflate: self.deflate,
        };
        let shaken = tokio::time::timeout(PATIENCE, shake(line, &ask)).await;
        let (socket, answered) = shaken.map_err(|_| session::late(PATIENCE).to_string())??;
        if answered.protocol.is_none()
            && let Some(asked) = self.headers.get(SEC_WEBSOCKET_PROTOCOL)
        {
            let asked = String::from_utf8_lossy(asked.as_bytes());
            return Err(format!(
                "the server speaks none of the sub-protocols '{asked}'"
            ));
        }
        Ok(socket)
    }

    fn unavailable(&self, cause: impl Into<Cause>) -> Error {
        Error::unavailable(self.label.clone(), cause)
    }
}

/// The trust store that the deployment file names.
fn deployed<'a>(environment: &'a Environment, kind: &str) -> Option<(&'a str, Option<&'a str>)> {
    let of = |key| environment.setting(kind, "websocket", key);
    of("truststore.path").map(|path| (path, of("truststore.password")))
}

fn parse(text: &str) -> Option<Url> {
    let (scheme, rest) = text.split_once("://")?;
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "ws" => "http",
        "wss" => "https",
        _ => return None,
    };
    Url::parse(&format!("{scheme}://{rest}"))
}

/// User and password that stand in the URL.
fn login(text: &str) -> Option<HeaderValue> {
    let (_, rest) = text.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (login, _) = authority.rsplit_once('@')?;
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    Some(basic(&decode(user), &decode(password)))
}

// ---- source ----

pub(super) struct ClientSource {
    network: Arc<Network>,
    server: Server,
    receiver: Receiver,
    reads: Reads,
}

impl ClientSource {
    pub fn new(setup: &SourceSetup<'_>) -> Result<ClientSource, Error> {
        let settings = Settings::of_source(setup.transport, crate::websocket::CONNECTORS);
        let server = Server::new(settings, setup.environment, "source")?;
        Ok(ClientSource {
            network: setup.environment.network(),
            receiver: Receiver::of_server(&server.label, &[]),
            server,
            reads: Reads::new(&setup.transport.map.ty),
        })
    }
}

impl Source for ClientSource {
    fn run(&mut self, link: &mut dyn SourceLink) -> Result<Finished, Error> {
        let network = Arc::clone(&self.network);
        let workers = network.workers().map_err(|e| self.server.unavailable(e))?;
        self.receiver.ingress.open();
        let (leave, leaving) = oneshot::channel();
        let is_drained = Arc::new(AtomicBool::new(false));
        let serving = Serving {
            ingress: Arc::clone(&self.receiver.ingress),
            reads: self.reads,
            is_drained: Arc::clone(&is_drained),
        };
        let server = self.server.clone();
        let started = workers.wait_for(async move {
            let socket = server.open().await?;
            let session = Session::new(socket, server.idle);
            Ok::<_, String>(tokio::spawn(serving.run(session, leaving)))
        });
        let started = started.map_err(|e| self.server.unavailable(e))?;
        let task = started.map_err(|cause| self.server.unavailable(cause))?;
        link.report(Connection::Connected);
        // What the server has sent by the time that it hears of our leave still comes in.
        let mut leave = Some(leave);
        let result = self.receiver.run_until(link, || {
            if let Some(leave) = leave.take() {
                leave.send(()).ok();
            }
            is_drained.load(Ordering::Acquire)
        });
        workers.wait_for(task).ok();
        result
    }

    fn restore(&mut self, _position: &[u8]) -> Result<(), Error> {
        Ok(())
    }
}

/// What the session of a running source works with.
struct Serving {
    ingress: Arc<Ingress>,
    reads: Reads,
    /// All that the server has sent is in the queue.
    is_drained: Arc<AtomicBool>,
}

impl Serving {
    async fn run(self, mut session: Session, leaving: oneshot::Receiver<()>) {
        let leaving = async {
            // The other end is dropped only with its message sent.
            leaving.await.ok();
        };
        let end = session
            .receive(&self.ingress, self.reads, leaving, LEAVE)
            .await;
        self.is_drained.store(true, Ordering::Release);
        // While the source stops nobody is told: that the server ends as well is in order.
        self.ingress.lose(end.cause());
        session.leave(&end).await;
    }
}

// ---- sink ----

pub(super) struct ClientSink {
    network: Arc<Network>,
    server: Arc<Server>,
    in_flight: Arc<InFlight>,
    connected: Option<Instant>,
}

impl ClientSink {
    pub fn new(setup: &SinkSetup<'_>) -> Result<ClientSink, Error> {
        let settings = Settings::of_sink(setup.transport, crate::websocket::CONNECTORS);
        let server = Server::new(settings, setup.environment, "sink")?;
        let name = format!("{}/{}", setup.environment.app, setup.schema.name);
        Ok(ClientSink {
            network: setup.environment.network(),
            in_flight: Arc::new(InFlight::new(name, server.label.clone(), setup.answers)),
            server: Arc::new(server),
            connected: None,
        })
    }
}

/// What can be sent; the refusal names what is done.
pub(super) fn sendable(message: &Message<'_>, action: &str) -> Result<Sent, Error> {
    let failed = |cause: String| Err(Error::failed(action.to_owned(), cause));
    let (Payload::Text(_) | Payload::Bytes(_)) = message.payload else {
        return failed("the payload is neither text nor bytes".to_owned());
    };
    let sent = Sent::new(message);
    let bytes = sent.payload.len();
    match bytes > MESSAGE_BYTES_MAX {
        true => failed(format!(
            "the payload has {bytes} bytes, more than {MESSAGE_BYTES_MAX}: send smaller chunks"
        )),
        false => Ok(sent),
    }
}

impl Sink for ClientSink {
    fn connect(&mut self) -> Result<(), Error> {
        let (opening, serving) = (Arc::clone(&self.server), Arc::clone(&self.in_flight));
        let idle = self.server.idle;
        let open = async move { opening.open().await };
        let serve = move |socket| {
            serving.open();
            let session = Session::new(socket, idle);
            async move { session.send_all(&serving).await }
        };
        self.in_flight
            .connect(&self.network, &mut self.connected, open, serve)
    }

    fn publish(&mut self, message: &Message<'_>) -> Result<(), Error> {
        let sent = sendable(message, &format!("sending to {}", self.server.label))?;
        // One that was idle for too long was closed in order, and is opened where it is needed.
        if self.server.idle.is_some() && self.in_flight.is_at_rest() {
            self.connected = None;
            self.connect()?;
        }
        self.in_flight.push(sent)
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.in_flight.flush()
    }

    fn close(&mut self) -> Result<(), Error> {
        self.in_flight.close()
    }

    fn take_undelivered(&mut self) -> Vec<Undelivered> {
        self.in_flight.take_undelivered()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use connect::net::testing;

    fn server(url: &str, more: &[(&str, &str)]) -> Result<Server, Error> {
        let mut options = vec![("url", url)];
        options.extend(more);
        testing::source("websocket", &options, |setup| {
            Server::new(
                Settings::of_source(setup.transport, crate::websocket::CONNECTORS),
                setup.environment,
                "source",
            )
        })
    }

    #[test]
    fn urls_of_servers() {
        let found = |url| {
            let url = parse(url)?;
            Some(format!(
                "{} {} {}",
                url.is_tls,
                url.authority(),
                url.target()
            ))
        };
        assert_eq!(found("ws://h").as_deref(), Some("false h:80 /"));
        assert_eq!(found("WSS://h/a?b=c").as_deref(), Some("true h:443 /a?b=c"));
        assert_eq!(found("ws://[::1]:9/x").as_deref(), Some("false [::1]:9 /x"));
        for bad in ["", "h:80", "http://h", "ws://", "ws://h:x", "ws://h/a b"] {
            assert_eq!(found(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_first_request_has_what_the_options_say() {
        let options = [
            ("headers", "'X-Key: 7','User-Agent:me'"),
            ("sub.protocol", "a, b"),
        ];
        let server = server("ws://anna:ge%3Aheim@h:8025/in?q=1", &options).expect("it can be");
        assert!(!server.label.contains("heim"), "{}", server.label);
        assert_eq!(server.url.target(), "/in?q=1");
        assert_eq!(server.url.host_header(), "h:8025");
        let header = |name: &str| server.headers.get(name).and_then(|v| v.to_str().ok());
        assert_eq!(header("x-key"), Some("7"));
        assert_eq!(header("user-agent"), Some("me"));
        assert_eq!(header("sec-websocket-protocol"), Some("a, b"));
        assert_eq!(server.headers["authorization"], basic("anna", "ge:heim"));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert!(server("ws://h", &[]).is_ok());
        for (url, option) in [
            ("ws://h", ("headers", "'nope'")),
            ("ws://h", ("sub.protocol", "a\nb")),
            ("ws://h", ("idle.timeout", "0")),
            ("http://h", ("headers", "")),
        ] {
            assert!(server(url, &[option]).is_err(), "{url} {option:?}");
        }
        let error = server("wsx://anna:geheim@h", &[]).err().expect("no URL");
        assert!(!error.to_string().contains("geheim"), "{error}");
    }
}
