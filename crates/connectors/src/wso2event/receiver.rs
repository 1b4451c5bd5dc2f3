//! The receiver of a server: its ports, and how a bundle gets to the sources of its streams.
//!
//! Promises: a bundle is taken whole or not at all; where nobody takes it, a source of the receiver keeps it
//! with its rejected events; while an app is reloaded its clients wait. Never: a bundle answered as taken
//! that its app has not read.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot, watch};

use super::connection::Server;
use super::deployed::{Deployed, PORTS};
use super::logins::Logins;
use super::streams::{Streams, Taker};
use connect::arrivals::{Account, Arrivals};
use connect::error::Error;
use connect::net::{
    Crowd, Delivery, Ingress, Late, Listening, Network, SharedListener, Stay, Workers,
};
use connect::retry::Burst;
use connect::shared::{Renewable, Shared};
use databridge::bundle::{self, Bundle};
use databridge::stream::Layout;
use databridge::{binary, reading, refused, rows};

/// Connections of a port that are served at once; more wait to be accepted.
const CONNECTIONS_MAX: u32 = 1024;

pub(super) struct Databridge {
    streams: RwLock<Arc<Streams>>,
    /// Apps that are made anew.
    renewed: Mutex<Vec<String>>,
    /// In the order of [`PORTS`].
    listeners: [SharedListener; PORTS.len()],
    /// A source runs or has gone, or all are made anew: whoever waits to give a bundle looks again.
    changed: Notify,
    pub crowd: Crowd,
    pub logins: Logins,
    /// Messages that did not come in their time, and logins with a wrong password.
    late: Burst,
    pub wrong: Burst,
}

impl Default for Databridge {
    fn default() -> Databridge {
        Databridge {
            streams: RwLock::default(),
            renewed: Mutex::default(),
            listeners: Default::default(),
            changed: Notify::default(),
            crowd: Crowd::new(PORTS.len() as u32 * CONNECTIONS_MAX),
            logins: Logins::default(),
            late: Burst::default(),
            wrong: Burst::default(),
        }
    }
}

/// Why a bundle is not taken.
pub(super) enum Untaken {
    /// It never will be, for this reason.
    Refused(String),
    /// Its source has gone, and nothing is known of it.
    Gone,
}

/// What a source of a stream is given.
struct Part {
    id: String,
    body: Bytes,
}

impl Databridge {
    pub fn add(&self, layout: Layout, taker: Taker) -> Result<(), String> {
        self.change(|streams| streams.add(layout, taker))
    }

    /// A source has gone: was it the last?
    pub fn remove(&self, id: &str, ingress: &Arc<Ingress>) -> bool {
        let is_last = self.change(|streams| {
            streams.remove(id, ingress);
            streams.is_empty()
        });
        self.changed.notify_waiters();
        is_last
    }

    fn change<T>(&self, change: impl FnOnce(&mut Streams) -> T) -> T {
        let mut streams = self.streams.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut streams))
    }

    /// The streams as they are now.
    pub fn streams(&self) -> Arc<Streams> {
        Arc::clone(&self.streams.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn renewed(&self) -> MutexGuard<'_, Vec<String>> {
        self.renewed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_renewed(&self, app: &str) -> bool {
        self.renewed().iter().any(|renewed| renewed == app)
    }

    /// Are apps being made anew, so that a stream that is not here may come?
    pub fn is_kept(&self) -> bool {
        self.listeners.iter().any(SharedListener::is_kept)
    }

    pub fn look_again(&self) {
        self.changed.notify_waiters();
    }

    pub fn await_no_more(&self, workers: &Workers) {
        for listener in &self.listeners {
            listener.await_no_more(workers);
        }
    }

    /// Listens, unless another source has it done.
    pub fn open<'a>(
        self: &'a Arc<Databridge>,
        workers: &'a Workers,
        deployed: &Deployed,
        arrivals: &Arc<Arrivals>,
    ) -> Result<Vec<Stay<'a>>, Error> {
        let mut stays = Vec::new();
        let users: Arc<[(String, String)]> = deployed.users.clone().into();
        let ports = self.listeners.iter().zip(&deployed.ports);
        for (listener, port) in
            ports.filter_map(|(listener, port)| Some((listener, port.as_ref()?)))
        {
            let server = Arc::new(Server {
                databridge: Arc::clone(self),
                arrivals: Arc::clone(arrivals),
                protocol: port.protocol,
                tls: port.is_tls.then(|| deployed.tls.clone()),
                users: Arc::clone(&users),
                session: deployed.session,
            });
            let serve = move |stream: TcpStream, stopped| {
                let server = Arc::clone(&server);
                async move { server.serve(stream, stopped).await }
            };
            let place = (port.host.as_str(), port.number);
            let listen =
                || Listening::start(workers, place, &deployed.socket, CONNECTIONS_MAX, serve);
            let stay = listener.enter(workers, listen);
            let stay = stay.map_err(|e| Error::listen(format!("{}:{}", place.0, place.1), e));
            match stay {
                Ok(stay) => stays.push(stay),
                Err(error) => {
                    for stay in stays {
                        stay.end(Duration::ZERO);
                    }
                    return Err(error);
                }
            }
        }
        Ok(stays)
    }

    /// Says why a connection ends that its client did not end in order.
    pub fn failed(&self, peer: &str, error: &io::Error, arrivals: &Arrivals) {
        if !error.get_ref().is_some_and(|cause| cause.is::<Late>()) {
            tracing::warn!(peer, cause = %error, "closing databridge connection");
            return;
        }
        arrivals.count_late();
        if let Some(times) = self.late.note() {
            tracing::warn!(peer, times, cause = %error, "closing databridge connection: a message was begun and not \
                                                         completed in its time; its client has to connect again");
        }
    }

    /// Gives a bundle, which has no session any more, to the sources of its streams, and waits until they have
    /// it; where nobody takes it, one of them keeps it.
    pub async fn publish(
        &self,
        bundle: Bytes,
        account: &mut Account,
        stopped: &mut watch::Receiver<bool>,
    ) -> Result<(), Untaken> {
        let parts = loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            match parts_of(&bundle, &self.streams()) {
                Ok(parts) => break parts,
                Err(_) if self.is_kept() => self.wait(changed, stopped).await?,
                Err((id, cause)) => {
                    self.keep_refused(&id, &cause, &bundle, stopped).await?;
                    return Err(Untaken::Refused(cause));
                }
            }
        };
        match self.give_all(parts, account, stopped).await? {
            Some(cause) => Err(Untaken::Refused(cause)),
            None => Ok(()),
        }
    }

    /// As [`Databridge::publish`] for events that stand for themselves: those that do not fit are kept alone, and
    /// the others are taken.
    pub async fn publish_each(
        &self,
        bytes: &[u8],
        account: &mut Account,
        stopped: &mut watch::Receiver<bool>,
    ) -> Result<(), Untaken> {
        let events = match binary::events(bytes) {
            Ok(events) => events,
            Err(cause) => {
                self.keep_refused("", &cause, bytes, stopped).await?;
                return Err(Untaken::Refused(cause));
            }
        };
        let (parts, unknown) = loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let (parts, unknown) = by_stream(&events, &self.streams());
            if unknown.is_empty() || !self.is_kept() {
                break (parts, unknown);
            }
            self.wait(changed, stopped).await?;
        };
        let is_any_taken = !parts.is_empty();
        // The source keeps what does not fit.
        self.give_all(parts, account, stopped).await?;
        let mut first = None;
        for (id, cause, event) in unknown {
            let mut alone = vec![binary::MARK];
            binary::write_event(&mut alone, event);
            self.keep_refused(&id, &cause, &alone, stopped).await?;
            first = first.or(Some(cause));
        }
        match first {
            Some(cause) if !is_any_taken => Err(Untaken::Refused(cause)),
            _ => Ok(()),
        }
    }

    /// Has a source keep what nobody takes with its rejected events.
    async fn keep_refused(
        &self,
        id: &str,
        cause: &str,
        message: &[u8],
        stopped: &mut watch::Receiver<bool>,
    ) -> Result<(), Untaken> {
        let message = Bytes::from(refused::write(cause, message));
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(keeper) = self.streams().keeper(id)
                && let Some(mut told) = Told::after(keeper, message.clone(), None).await
            {
                return match told.read().await {
                    Err(Untaken::Gone) => Err(Untaken::Gone),
                    _ => Ok(()),
                };
            }
            self.wait(changed, stopped).await?;
        }
    }

    /// Gives parts to the sources of their streams, and waits until they have them; why one was refused.
    async fn give_all(
        &self,
        parts: Vec<Part>,
        account: &mut Account,
        stopped: &mut watch::Receiver<bool>,
    ) -> Result<Option<String>, Untaken> {
        let mut told = Vec::new();
        for part in parts {
            self.give(part, account, stopped, &mut told).await?;
        }
        let mut refusal = None;
        for told in &mut told {
            match told.read().await {
                Err(Untaken::Refused(cause)) => refusal = refusal.or(Some(cause)),
                other => other?,
            }
        }
        for told in told {
            told.safe().await?;
        }
        Ok(refusal)
    }

    /// Gives a part to all sources of its stream; they may have to run first.
    async fn give(
        &self,
        part: Part,
        account: &mut Account,
        stopped: &mut watch::Receiver<bool>,
        told: &mut Vec<Told>,
    ) -> Result<(), Untaken> {
        let mut given: Vec<Arc<Ingress>> = Vec::new();
        loop {
            // Made before the look, so that no change in between is missed.
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let streams = self.streams();
            let takers = streams
                .get(&part.id)
                .map_or(&[][..], |stream| &stream.takers);
            let mut is_missing = takers.is_empty();
            for taker in takers {
                if given
                    .iter()
                    .any(|ingress| Arc::ptr_eq(ingress, &taker.ingress))
                {
                    continue;
                }
                match Told::after(taker, part.body.clone(), Some(&mut *account)).await {
                    Some(one) => told.push(one),
                    None => {
                        is_missing = true;
                        continue;
                    }
                }
                given.push(Arc::clone(&taker.ingress));
            }
            if !is_missing {
                return Ok(());
            }
            self.wait(changed, stopped).await?;
        }
    }

    /// Waits for a change of the sources.
    async fn wait(
        &self,
        changed: impl Future<Output = ()>,
        stopped: &mut watch::Receiver<bool>,
    ) -> Result<(), Untaken> {
        tokio::select! {
            () = changed => Ok(()),
            _ = stopped.wait_for(|is_stopped| *is_stopped) => Err(Untaken::Gone),
        }
    }
}

/// What a source says of a message.
struct Told {
    verdict: oneshot::Receiver<Option<String>>,
    saved: Option<oneshot::Receiver<()>>,
}

impl Told {
    /// Gives a message to a source, with the bytes that it holds. `None`: the source does not run.
    async fn after(taker: &Taker, body: Bytes, account: Option<&mut Account>) -> Option<Told> {
        let (delivery, verdict) = Delivery::bytes(body, Vec::new()).with_verdict();
        let (delivery, saved) = match taker.is_durable {
            true => {
                let (delivery, saved) = delivery.with_receipt();
                (delivery, Some(saved))
            }
            false => (delivery, None),
        };
        let held = account.as_ref().map_or(0, |account| account.held());
        let (delivery, account) = match account {
            Some(account) => (delivery.holding(account.hand_on()), Some(account)),
            None => (delivery, None),
        };
        if taker.ingress.push(delivery).await.is_ok() {
            return Some(Told { verdict, saved });
        }
        if let Some(account) = account {
            // It is still here.
            account.hold(held).await;
        }
        None
    }

    /// The source has read it.
    async fn read(&mut self) -> Result<(), Untaken> {
        match (&mut self.verdict).await {
            Ok(None) => Ok(()),
            Ok(Some(cause)) => Err(Untaken::Refused(cause)),
            Err(_) => Err(Untaken::Gone),
        }
    }

    /// Its app has it safe.
    async fn safe(self) -> Result<(), Untaken> {
        match self.saved {
            Some(saved) => saved.await.map_err(|_| Untaken::Gone),
            None => Ok(()),
        }
    }
}

/// The parts of a bundle by stream.
///
/// # Errors
/// The id of the first stream, and why it is not taken.
fn parts_of(bytes: &Bytes, streams: &Streams) -> Result<Vec<Part>, (String, String)> {
    let bundle = Bundle::read(bytes).map_err(|cause| (String::new(), cause))?;
    let id = bundle.strings().next().unwrap_or_default();
    let id = String::from_utf8_lossy(id).into_owned();
    if let Some(stream) = streams.get(&id)
        && bundle.is_plainly(&stream.layout)
    {
        let body = bytes.clone();
        return Ok(vec![Part { id, body }]);
    }
    let mixed = mixed_parts(&bundle, streams);
    mixed.map_err(|cause| {
        let said = match streams.get(&id) {
            Some(_) => cause,
            None => format!("{cause}; {}", streams.said()),
        };
        (id, said)
    })
}

/// Those of a bundle of several streams, or with nulls among its numbers.
fn mixed_parts(bundle: &Bundle<'_>, streams: &Streams) -> Result<Vec<Part>, String> {
    let strings: Vec<&[u8]> = bundle.strings().collect();
    let find = |id: &[u8]| {
        let id = std::str::from_utf8(id).ok()?;
        streams.numbered(id)
    };
    let events = reading::read(bundle, &strings, find)?;
    let entries = bundle
        .entries()
        .ok_or("the arbitrary data is no map of texts")?;
    let mut entries = entries.as_slice();
    let mut bodies: Vec<(usize, Vec<u8>)> = Vec::new();
    for (number, event) in events.iter().enumerate() {
        let own = bundle::take_entries(&mut entries, number);
        let body = match bodies.iter_mut().find(|(of, _)| *of == event.layout) {
            Some((_, body)) => body,
            None => {
                bodies.push((event.layout, vec![rows::MARK]));
                let last = bodies.len() - 1;
                &mut bodies[last].1
            }
        };
        rows::write(
            body,
            bundle,
            &strings,
            event,
            streams.layout(event.layout),
            own,
        );
    }
    let parts = bodies.into_iter().map(|(number, body)| Part {
        id: streams.layout(number).id.clone(),
        body: body.into(),
    });
    Ok(parts.collect())
}

/// Events that stand for themselves, by stream; and those of no stream, with its id and the reason.
fn by_stream<'a>(
    events: &[&'a [u8]],
    streams: &Streams,
) -> (Vec<Part>, Vec<(String, String, &'a [u8])>) {
    let mut bodies: Vec<(&str, Vec<u8>)> = Vec::new();
    let mut unknown = Vec::new();
    for (number, event) in events.iter().enumerate() {
        let id = binary::stream_of(event).and_then(|id| std::str::from_utf8(id).ok());
        let Some(stream) = id.and_then(|id| streams.get(id)) else {
            let id = id.unwrap_or_default().to_owned();
            let cause = format!(
                "event {}: there is no stream '{id}'; {}",
                number + 1,
                streams.said()
            );
            unknown.push((id, cause, *event));
            continue;
        };
        let id = stream.layout.id.as_str();
        let at = bodies
            .iter()
            .position(|(of, _)| *of == id)
            .unwrap_or_else(|| {
                bodies.push((id, vec![binary::MARK]));
                bodies.len() - 1
            });
        binary::write_event(&mut bodies[at].1, event);
    }
    let parts = bodies.into_iter().map(|(id, body)| Part {
        id: id.to_owned(),
        body: body.into(),
    });
    (parts.collect(), unknown)
}

impl Renewable for Databridge {
    /// If one of the apps has a source here, all connections stay until `made_anew`.
    fn keep(&self, apps: &[String]) {
        if self
            .streams()
            .takers()
            .any(|taker| apps.contains(&taker.app))
        {
            self.listeners.iter().for_each(SharedListener::keep);
            *self.renewed() = apps.to_vec();
        }
    }

    fn made_anew(&self, shared: &Shared) {
        let network = shared.get::<Network>();
        // Without workers nothing listens.
        let Ok(workers) = network.workers() else {
            return;
        };
        self.renewed().clear();
        let is_awaited = !self.streams().is_empty();
        for listener in &self.listeners {
            listener.made_anew(workers, is_awaited);
        }
        self.changed.notify_waiters();
    }
}
