//! The `sse-server` sink: a client that requests its URL receives every payload from then on.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body_util::{Either, Full};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::BEAT_HEADER;
use crate::http::listener::Listeners;
use crate::http::listener::{Lease, Target};
use crate::http::request::{Peer, plain};
use crate::http::source::port_options;
use connect::component::{Payload, Sink, SinkSetup};
use connect::error::Error;
use connect::message::Message;
use connect::net::events::event_of;
use connect::net::http_client::add_headers;
use connect::net::{Network, Outgoing, ServerTls};
use connect::option::Settings;
use connect::url::Url;

/// Events that may wait for one client.
const WAITING_MAX: usize = 256;

/// Bytes of an event beyond which the clients are to have it before the next is taken.
const LONG_BYTES: usize = 64 << 10;

/// How long a client may take nothing at all.
pub(in crate::http) const SLOW_MAX: Duration = Duration::from_secs(5);

/// A stream without events says so often that it is there: proxies close what is idle, a client that
/// has gone is found out, and a client that knows of it finds out that the server stands still.
const BEAT: Duration = Duration::from_secs(1);

pub(in crate::http) struct SseServer {
    network: Arc<Network>,
    lease: Lease,
    audience: Arc<Audience>,
    is_open: bool,
    /// It was said that nobody listens.
    is_lonely: bool,
}

impl SseServer {
    pub fn new(setup: &SinkSetup<'_>) -> Result<SseServer, Error> {
        let settings = Settings::of_sink(setup.transport, crate::http::SPECS);
        let text = settings.text_or_default("server.url");
        let url = Url::parse(text).ok_or_else(|| {
            settings.refused(format!(
                "option 'server.url' is '{text}': write http://host:port/path"
            ))
        })?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(BEAT_HEADER, HeaderValue::from(BEAT.as_secs()));
        add_headers(&mut headers, settings.text_or_default("headers"))
            .map_err(|cause| settings.refused(format!("option 'headers': {cause}")))?;
        let tls = match url.is_tls {
            true => Some(ServerTls::new(settings, setup.environment)?),
            false => None,
        };
        let audience = Arc::new(Audience {
            name: format!("{}/{}", setup.environment.app, setup.schema.name),
            headers,
            state: Mutex::default(),
        });
        let network = setup.environment.network();
        let target = (url.path.clone(), Target::Events(Arc::clone(&audience)));
        let listeners = setup.environment.shared.get::<Listeners>();
        let lease = listeners
            .reserve((&url.host, url.port), target, port_options(settings)?, tls)
            .map_err(|message| settings.refused(message))?;
        Ok(SseServer {
            network,
            lease,
            audience,
            is_open: false,
            is_lonely: false,
        })
    }

    fn failed(&self, cause: &str) -> Error {
        Error::failed("sending an event", cause.to_owned())
    }

    /// Runs on a worker while this thread waits.
    fn wait_for<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Error> {
        let workers = self.network.workers();
        let done = workers.and_then(|workers| workers.wait_for(work));
        done.map_err(|e| Error::unavailable("the network", e))
    }

    /// Waits until a client has taken all that waits for it; one that takes nothing is left.
    fn drain(&self, number: u64, client: &Client) -> Result<(), Error> {
        loop {
            let events = client.events.clone();
            let before = events.capacity();
            if before == WAITING_MAX || events.is_closed() {
                return Ok(());
            }
            // One more than there is room for: it has taken something.
            let waited = self.wait_for(async move {
                let more = events.reserve_many(before + 1);
                tokio::time::timeout(SLOW_MAX, more).await.is_ok()
            })?;
            if !waited {
                self.audience.leave(number);
                return Ok(());
            }
        }
    }
}

impl Sink for SseServer {
    fn connect(&mut self) -> Result<(), Error> {
        if self.is_open {
            return Ok(());
        }
        let workers = self.network.workers();
        let workers = workers.map_err(|e| Error::unavailable("the network", e))?;
        self.audience.lock().is_open = true;
        self.lease.hold(workers)?;
        self.is_open = true;
        Ok(())
    }

    fn publish(&mut self, message: &Message<'_>) -> Result<(), Error> {
        let text = match message.payload {
            Payload::Text(text) => text,
            Payload::Bytes(bytes) => std::str::from_utf8(bytes).map_err(|_| {
                self.failed(
                    "the payload is not text: server-sent events carry only \
                                          text",
                )
            })?,
            _ => return Err(self.failed("the payload is neither text nor bytes")),
        };
        let event = Bytes::from(event_of(text));
        let clients = self.audience.all();
        if clients.is_empty() != self.is_lonely {
            self.is_lonely = clients.is_empty();
            if self.is_lonely {
                let sink = &self.audience.name;
                tracing::warn!(sink, "no client is connected; dropping events");
            }
        }
        for (number, client) in clients {
            let sent = client.events.try_send(event.clone());
            if let Err(mpsc::error::TrySendError::Full(event)) = sent {
                let events = client.events.clone();
                let waited = self.wait_for(async move {
                    let sending = events.send(event);
                    tokio::time::timeout(SLOW_MAX, sending).await.is_ok()
                })?;
                if !waited {
                    self.audience.leave(number);
                }
            }
            if event.len() > LONG_BYTES {
                self.drain(number, &client)?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        for (number, client) in self.audience.all() {
            self.drain(number, &client)?;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), Error> {
        if !std::mem::take(&mut self.is_open) {
            return Ok(());
        }
        self.flush()?;
        // Their streams end, and with them their connections.
        self.audience.close();
        let workers = self.network.workers();
        let workers = workers.map_err(|e| Error::unavailable("the network", e))?;
        self.lease.release(workers);
        Ok(())
    }
}

/// Who holds the URL of a sink open.
pub(crate) struct Audience {
    name: String,
    headers: HeaderMap,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_open: bool,
    count: u64,
    /// In the order in which they came.
    clients: BTreeMap<u64, Client>,
}

#[derive(Clone)]
struct Client {
    address: SocketAddr,
    events: mpsc::Sender<Bytes>,
    outgoing: Arc<Outgoing>,
}

impl Audience {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that are still there.
    fn all(&self) -> Vec<(u64, Client)> {
        let mut state = self.lock();
        state.clients.retain(|_, client| !client.events.is_closed());
        let all = state.clients.iter();
        all.map(|(number, client)| (*number, client.clone()))
            .collect()
    }

    /// Gives a client up that reads nothing.
    fn leave(&self, number: u64) {
        if let Some(client) = self.lock().clients.remove(&number) {
            // Nobody will read what waits for it.
            client.outgoing.cut();
            tracing::warn!(
                sink = self.name,
                peer = %client.address,
                "disconnecting client: it has read nothing for 5 s"
            );
        }
    }

    fn close(&self) {
        let mut state = self.lock();
        state.is_open = false;
        state.clients.clear();
    }

    /// Lets a client in.
    pub fn answer(
        &self,
        request: &Request<Incoming>,
        peer: &Peer,
    ) -> Response<Either<Full<Bytes>, Events>> {
        let refused = |status, text: &str| plain(status, text).map(Either::Left);
        if *request.method() != Method::GET {
            let mut answer = refused(
                StatusCode::METHOD_NOT_ALLOWED,
                "use GET to receive events\n",
            );
            answer
                .headers_mut()
                .insert(ALLOW, HeaderValue::from_static("GET"));
            return answer;
        }
        let mut state = self.lock();
        if !state.is_open {
            return refused(StatusCode::SERVICE_UNAVAILABLE, "the sink is not running\n");
        }
        let (events, waiting) = mpsc::channel(WAITING_MAX);
        state.count += 1;
        let number = state.count;
        let address = peer.address;
        let outgoing = Arc::clone(&peer.outgoing);
        outgoing.begin();
        let client = Client {
            address,
            events,
            outgoing: Arc::clone(&outgoing),
        };
        state.clients.insert(number, client);
        drop(state);
        let mut beat = interval(BEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut answer = Response::new(Either::Right(Events {
            waiting,
            beat,
            outgoing,
        }));
        *answer.headers_mut() = self.headers.clone();
        answer
    }
}

/// The events of one client, as they come; between them, now and then, a line that says nothing. The
/// first of those comes at once, so that the client has an answer before the first event.
pub(crate) struct Events {
    waiting: mpsc::Receiver<Bytes>,
    beat: Interval,
    outgoing: Arc<Outgoing>,
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.outgoing.poll_room(context).is_pending() {
            return Poll::Pending;
        }
        let piece = match self.waiting.poll_recv(context) {
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Ready(Some(event)) => {
                self.beat.reset();
                event
            }
            Poll::Pending => {
                ready!(self.beat.poll_tick(context));
                Bytes::from_static(b":\n\n")
            }
        };
        self.outgoing.give(piece.len());
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }
}
