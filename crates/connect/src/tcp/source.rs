//! The `tcp` source: one listener for the server, a context for each source.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::frame::{self, Frame};
use crate::component::{Connection, Environment, Finished, Source, SourceLink, SourceSetup};
use crate::error::Error;
use crate::net::{
    Delivery, Intake, Listening, Network, Receiver, Settings, SharedListener, SocketOptions, Stay,
    Workers, number,
};

/// Connections that are read at once; more wait to be accepted.
const CONNECTIONS_MAX: u32 = 4096;

/// Bytes read at once.
const BUFFER_BYTES: usize = 64 << 10;

/// Sources by context, and the listener that feeds them.
#[derive(Default)]
pub(crate) struct TcpListeners {
    contexts: RwLock<HashMap<String, Arc<Intake>>>,
    listener: SharedListener,
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
    context: String,
    address: Address,
    receiver: Receiver,
}

impl TcpSource {
    pub fn new(setup: &SourceSetup<'_>) -> Result<TcpSource, Error> {
        let settings = Settings::of_source(setup.transport);
        let own = || format!("{}/{}", setup.environment.app, setup.schema.name);
        let context = settings.text("context").map_or_else(own, str::to_owned);
        let address = address(setup.environment, settings)?;
        let receiver = Receiver::new(Vec::new());
        let network = Arc::clone(&setup.environment.network);
        let mut contexts = network.tcp.contexts();
        if contexts.contains_key(&context) {
            return Err(settings.refused(format!(
                "another source has the context '{context}'; give each its own"
            )));
        }
        contexts.insert(context.clone(), Arc::clone(&receiver.intake));
        drop(contexts);
        Ok(TcpSource {
            network,
            context,
            address,
            receiver,
        })
    }
}

impl Drop for TcpSource {
    fn drop(&mut self) {
        self.network.tcp.contexts().remove(&self.context);
    }
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
            ..SocketOptions::default()
        },
    })
}

impl Source for TcpSource {
    fn run(&mut self, link: &mut dyn SourceLink) -> Result<Finished, Error> {
        let listeners = Arc::clone(&self.network.tcp);
        let workers = self
            .network
            .workers()
            .map_err(|e| Error::unavailable("the network", e))?;
        self.receiver.intake.open();
        let mut stay = listeners.open(workers, &self.address)?;
        link.report(Connection::Connected);
        // Senders see the end, and what they have sent by then is taken.
        let result = self.receiver.run_until(link, || stay.is_drained());
        // Connections had their time before; however they ended, the port is free.
        stay.end(Duration::ZERO);
        result
    }

    fn restore(&mut self, _position: &[u8]) -> Result<(), Error> {
        Ok(())
    }
}

impl TcpListeners {
    fn contexts(&self) -> std::sync::RwLockWriteGuard<'_, HashMap<String, Arc<Intake>>> {
        self.contexts
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn intake(&self, context: &str) -> Option<Arc<Intake>> {
        let contexts = self.contexts.read().unwrap_or_else(PoisonError::into_inner);
        contexts.get(context).cloned()
    }

    /// Listens, unless another source has it done.
    fn open<'a>(
        self: &'a Arc<TcpListeners>,
        workers: &'a Workers,
        address: &Address,
    ) -> Result<Stay<'a>, Error> {
        let listeners = Arc::clone(self);
        let serve = move |stream: TcpStream, stopped| {
            let listeners = Arc::clone(&listeners);
            async move {
                let peer = stream.peer_addr().map(|peer| peer.to_string());
                if let Err(error) = serve(stream, &listeners, stopped).await {
                    let peer = peer.as_deref().unwrap_or("unknown");
                    tracing::error!(peer, cause = %error, "a tcp connection broke off");
                }
            }
        };
        let place = (address.host.as_str(), address.port);
        let listen = || Listening::start(workers, place, &address.socket, CONNECTIONS_MAX, serve);
        self.listener.enter(workers, listen).map_err(|e| {
            let peer = format!("address {}:{}", address.host, address.port);
            Error::unavailable(peer, e)
        })
    }
}

async fn serve(
    stream: TcpStream,
    listeners: &TcpListeners,
    mut stopped: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut from = BufReader::with_capacity(BUFFER_BYTES, read);
    let mut dropped = Dropped::default();
    {
        let mut frames = std::pin::pin!(take_frames(&mut from, listeners, &mut dropped));
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

async fn take_frames(
    from: &mut BufReader<tokio::net::tcp::OwnedReadHalf>,
    listeners: &TcpListeners,
    dropped: &mut Dropped,
) -> std::io::Result<()> {
    let mut known: Option<(String, Arc<Intake>)> = None;
    while let Some(Frame { channel, data }) = frame::read(from).await? {
        let intake = match &known {
            Some((context, intake)) if *context == channel => Some(Arc::clone(intake)),
            _ => listeners.intake(&channel),
        };
        let taken = match &intake {
            Some(intake) => intake.push(Delivery::bytes(data, Vec::new())).await.is_ok(),
            None => false,
        };
        match intake {
            Some(intake) if taken => known = Some((channel, intake)),
            _ => {
                known = None;
                if dropped.said.as_ref() != Some(&channel) {
                    tracing::error!(
                        context = channel,
                        "frames are dropped: no source has this context"
                    );
                    dropped.said = Some(channel);
                }
            }
        }
    }
    Ok(())
}
