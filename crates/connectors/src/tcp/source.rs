//! The `tcp` source: one listener for the server, a context for each source.
//!
//! A frame whose source does not run yet, or is being reloaded, waits in its connection. Promises:
//! a reload of the app ends no connection; a stop is signalled to the senders and reads what is on
//! its way. Never: a frame without a source dropped silently.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};

use super::frame::{self, Frame};
use connect::arrivals::{Account, Arrivals};
use connect::component::{Connection, Environment, Finished, Source, SourceLink, SourceSetup};
use connect::error::Error;
use connect::net::{
    Crowd, Delivery, Ingress, Late, Listening, Network, Pace, Receiver, SharedListener,
    SocketOptions, Stay, Workers, tell_if_open,
};
use connect::option::{Settings, number};
use connect::retry::Burst;
use connect::shared::{Renewable, Shared};

/// Connections that are read at once; more wait to be accepted.
const CONNECTIONS_MAX: u32 = 4096;

/// Bytes read at once.
const BUFFER_BYTES: usize = 64 << 10;

/// Sources by context, and the listener that feeds them.
pub(crate) struct TcpListeners {
    contexts: RwLock<HashMap<String, Context>>,
    /// Apps that are made anew.
    renewed: Mutex<Vec<String>>,
    listener: SharedListener,
    /// A source runs or has gone, or all are made anew: whoever waits to give a frame looks again.
    changed: Notify,
    crowd: Crowd,
    /// Frames that did not come in their time.
    late: Burst,
}

impl Default for TcpListeners {
    fn default() -> TcpListeners {
        TcpListeners {
            contexts: RwLock::default(),
            renewed: Mutex::default(),
            listener: SharedListener::default(),
            changed: Notify::default(),
            crowd: Crowd::new(CONNECTIONS_MAX),
            late: Burst::default(),
        }
    }
}

/// Who has a context, and where its frames go.
struct Context {
    app: String,
    ingress: Arc<Ingress>,
}

/// Where the listener is, from the deployment file.
#[derive(Clone)]
struct Address {
    host: String,
    port: u16,
    socket: SocketOptions,
}

pub(super) struct TcpSource {
    network: Arc<Network>,
    listeners: Arc<TcpListeners>,
    app: String,
    context: String,
    address: Address,
    arrivals: Arc<Arrivals>,
    receiver: Receiver,
}

impl TcpSource {
    pub fn new(setup: &SourceSetup<'_>) -> Result<TcpSource, Error> {
        let settings = Settings::of_source(setup.transport, crate::tcp::CONNECTORS);
        let context = context(setup, settings);
        let address = address(setup.environment, settings)?;
        let receiver = Receiver::new(Vec::new());
        let network = setup.environment.network();
        let listeners = setup.environment.shared.get_renewable::<TcpListeners>();
        let mut contexts = listeners.contexts();
        if contexts.contains_key(&context) {
            return Err(settings.refused(format!(
                "another source has the context '{context}'; give each its own"
            )));
        }
        let app = setup.environment.app.to_string();
        let entry = Context {
            app: app.clone(),
            ingress: Arc::clone(&receiver.ingress),
        };
        contexts.insert(context.clone(), entry);
        drop(contexts);
        Ok(TcpSource {
            network,
            listeners,
            app,
            context,
            address,
            arrivals: setup.environment.shared.get(),
            receiver,
        })
    }
}

impl Drop for TcpSource {
    fn drop(&mut self) {
        let listeners = &self.listeners;
        let mut contexts = listeners.contexts();
        contexts.remove(&self.context);
        let is_last = contexts.is_empty();
        drop(contexts);
        listeners.changed.notify_waiters();
        // Without workers nothing listens.
        if is_last && let Ok(workers) = self.network.workers() {
            listeners.listener.await_no_more(workers);
        }
    }
}

/// That of the option, or the app and its stream.
fn context(setup: &SourceSetup<'_>, settings: Settings<'_>) -> String {
    let own = || format!("{}/{}", setup.environment.app, setup.schema.name);
    settings.text("context").map_or_else(own, str::to_owned)
}

/// The deployment file alone says where it listens.
pub(super) fn default_address(setup: &SourceSetup<'_>) -> Option<String> {
    let settings = Settings::of_source(setup.transport, crate::tcp::CONNECTORS);
    let Address { host, port, .. } = address(setup.environment, settings).ok()?;
    Some(format!("tcp://{host}:{port}/{}", context(setup, settings)))
}

fn address(environment: &Environment, settings: Settings<'_>) -> Result<Address, Error> {
    let of = |key| environment.setting("source", "tcp", key);
    let flag = |key| of(key).is_none_or(|text| text.trim().eq_ignore_ascii_case("true"));
    let port = of("port").unwrap_or("9892");
    Ok(Address {
        host: of("host").unwrap_or("0.0.0.0").to_owned(),
        port: number(port).ok_or_else(|| {
            settings.refused(format!(
                "the configuration has port '{port}' for it: write a number up to 65535"
            ))
        })?,
        socket: SocketOptions {
            no_delay: flag("tcp.no.delay"),
            keep_alive: flag("keep.alive"),
            // A sender gets no answer: what it has written to a connection in the backlog is gone for it.
            drains_backlog: true,
            ..SocketOptions::default()
        },
    })
}

impl Source for TcpSource {
    fn run(&mut self, link: &mut dyn SourceLink) -> Result<Finished, Error> {
        let listeners = Arc::clone(&self.listeners);
        let workers = self
            .network
            .workers()
            .map_err(|e| Error::unavailable("the network", e))?;
        self.receiver.ingress.open();
        let mut stay = listeners.open(workers, &self.address, &self.arrivals)?;
        listeners.changed.notify_waiters();
        tell_if_open(
            &format!("{}, context '{}'", self.app, self.context),
            (&self.address.host, self.address.port),
            "set 'host' of source 'tcp' in the file given by --config to an address of this machine",
        );
        link.report(Connection::Connected);
        let mut last = (self.receiver.ingress.count(), Instant::now());
        let result = self.receiver.run_until(link, || {
            // What comes from now on waits for the one that takes the place of this one.
            if listeners.is_renewed(&self.app) {
                return true;
            }
            // Senders see the end, and what they have sent by then is taken.
            let count = self.receiver.ingress.count();
            if count != last.0 {
                last = (count, Instant::now());
            }
            stay.is_drained_hearing(last.1)
        });
        // Connections had their time before; however they ended, the port is free.
        stay.end(Duration::ZERO);
        result
    }

    fn restore(&mut self, _position: &[u8]) -> Result<(), Error> {
        Ok(())
    }
}

impl Renewable for TcpListeners {
    /// If one of the apps has a source here, all connections stay until `made_anew`.
    fn keep(&self, apps: &[String]) {
        let has_source = |context: &Context| apps.contains(&context.app);
        if self.contexts().values().any(has_source) {
            self.listener.keep();
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
        let is_awaited = !self.contexts().is_empty();
        self.listener.made_anew(workers, is_awaited);
        self.changed.notify_waiters();
    }
}

impl TcpListeners {
    fn contexts(&self) -> RwLockWriteGuard<'_, HashMap<String, Context>> {
        self.contexts
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn ingress(&self, context: &str) -> Option<Arc<Ingress>> {
        let contexts = self.contexts.read().unwrap_or_else(PoisonError::into_inner);
        contexts
            .get(context)
            .map(|found| Arc::clone(&found.ingress))
    }

    fn renewed(&self) -> MutexGuard<'_, Vec<String>> {
        self.renewed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_renewed(&self, app: &str) -> bool {
        self.renewed().iter().any(|renewed| renewed == app)
    }

    fn failed(&self, peer: &str, error: &std::io::Error, arrivals: &Arrivals) {
        if !error.get_ref().is_some_and(|cause| cause.is::<Late>()) {
            tracing::error!(peer, cause = %error, "TCP connection failed");
            return;
        }
        arrivals.count_late();
        if let Some(times) = self.late.note() {
            tracing::warn!(
                peer,
                times,
                cause = %error,
                "closing TCP connection: a frame was begun and not completed in its time; its sender \
                 has to connect again"
            );
        }
    }

    /// Gives a frame to its source, which may have to run first. `None`: no source has this context.
    async fn give(
        &self,
        context: &str,
        data: &Bytes,
        account: &mut Account,
    ) -> Option<Arc<Ingress>> {
        loop {
            // Made before the look, so that no change in between is missed.
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            match self.ingress(context) {
                Some(ingress) if is_given(&ingress, data, account).await => return Some(ingress),
                None if !self.listener.is_kept() => return None,
                _ => changed.await,
            }
        }
    }

    /// Listens, unless another source has it done.
    fn open<'a>(
        self: &'a Arc<TcpListeners>,
        workers: &'a Workers,
        address: &Address,
        arrivals: &Arc<Arrivals>,
    ) -> Result<Stay<'a>, Error> {
        let (listeners, arrivals) = (Arc::clone(self), Arc::clone(arrivals));
        let serve = move |stream: TcpStream, stopped| {
            let (listeners, arrivals) = (Arc::clone(&listeners), Arc::clone(&arrivals));
            async move {
                let _place = listeners.crowd.enter();
                let peer = stream.peer_addr().map(|peer| peer.to_string());
                if let Err(error) = serve(stream, &listeners, &arrivals, stopped).await {
                    listeners.failed(peer.as_deref().unwrap_or("unknown"), &error, &arrivals);
                }
            }
        };
        let place = (address.host.as_str(), address.port);
        let listen = || Listening::start(workers, place, &address.socket, CONNECTIONS_MAX, serve);
        self.listener
            .enter(workers, listen)
            .map_err(|e| Error::listen(format!("{}:{}", address.host, address.port), e))
    }
}

async fn serve(
    stream: TcpStream,
    listeners: &TcpListeners,
    arrivals: &Arc<Arrivals>,
    mut stopped: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut from = BufReader::with_capacity(BUFFER_BYTES, read);
    let mut dropped = Dropped::default();
    {
        let mut frames = std::pin::pin!(take_frames(&mut from, listeners, arrivals, &mut dropped));
        tokio::select! {
            end = frames.as_mut() => return end,
            _ = stopped.wait_for(|is_stopped| *is_stopped) => {}
        }
        // The sender sees the end, writes no further frame, and closes its half in turn.
        write.shutdown().await?;
        frames.await
    }
}

/// Frames that nobody takes, said once a connection and context.
#[derive(Default)]
struct Dropped {
    said: Option<String>,
}

impl Dropped {
    fn say(&mut self, context: String) {
        if self.said.as_ref() != Some(&context) {
            tracing::error!(context, "dropping frames: no source has this context");
            self.said = Some(context);
        }
    }
}

async fn take_frames(
    from: &mut BufReader<tokio::net::tcp::OwnedReadHalf>,
    listeners: &TcpListeners,
    arrivals: &Arc<Arrivals>,
    dropped: &mut Dropped,
) -> std::io::Result<()> {
    let mut known: Option<(String, Arc<Ingress>)> = None;
    let since = tokio::time::Instant::now();
    tokio::select! {
        biased;
        begun = from.fill_buf() => drop(begun?),
        // One that has sent nothing yet has nothing to lose.
        () = listeners.crowd.gives_way(|| Some(since)) => return Ok(()),
    }
    loop {
        let mut account = arrivals.open();
        let read = frame::read(from, Pace::default(), &listeners.crowd, &mut account);
        let Some(Frame { channel, data }) = read.await? else {
            return Ok(());
        };
        if let Some((context, ingress)) = &known
            && *context == channel
            && is_given(ingress, &data, &mut account).await
        {
            continue;
        }
        known = match listeners.give(&channel, &data, &mut account).await {
            Some(ingress) => Some((channel, ingress)),
            None => {
                dropped.say(channel);
                None
            }
        };
    }
}

/// Gives a frame to its source, with the bytes that it holds of the budget. False: the source does not run.
async fn is_given(ingress: &Ingress, data: &Bytes, account: &mut Account) -> bool {
    let delivery = Delivery::bytes(data.clone(), Vec::new()).holding(account.hand_on());
    let is_given = ingress.push(delivery).await.is_ok();
    if !is_given {
        // It is still here.
        account.hold(data.len()).await;
    }
    is_given
}
