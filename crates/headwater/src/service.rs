//! Tells the service manager that started this process how it is doing, by the protocol of
//! `sd_notify(3)`: datagrams to the socket that `NOTIFY_SOCKET` names.
//!
//! Promises: `READY=1` comes after every store is connected, the HTTP address is bound, and every
//! source is ready or has said why it is not; `WATCHDOG=1` comes only while the executors of all apps
//! move. Never: says anything where nobody has asked for it, waits for the manager for longer than
//! [`SEND_MAX`], or ends a run because the manager cannot be told.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use server::Server;
use server::liveness::Liveness;

/// Longest wait for a manager that does not read.
const SEND_MAX: Duration = Duration::from_secs(1);

/// How often the status line is looked at.
const STATUS_EVERY: Duration = Duration::from_secs(1);

/// So many of what is away are named in the status line.
const AWAY_MAX: usize = 3;

/// Executors are looked at so many times in the time after which the manager acts: it may miss one
/// report.
const LOOKS: u32 = 3;

/// The service manager, where one has started this process.
pub struct ServiceManager {
    socket: Option<Arc<UnixDatagram>>,
    /// Without a sign of life for so long, the manager starts the server again.
    watchdog: Option<Duration>,
    /// Ends the thread of the watchdog when it is dropped.
    watching: Option<SyncSender<()>>,
    is_ready: bool,
    /// The status line as it was sent last.
    status: String,
    looked: Instant,
}

impl ServiceManager {
    /// The manager that the environment names. One that cannot be told is logged, and then forgotten.
    pub fn from_environment() -> ServiceManager {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let socket = variable("NOTIFY_SOCKET").and_then(|name| match connect(&name) {
            Ok(socket) => Some(Arc::new(socket)),
            Err(cause) => {
                tracing::warn!(
                    cause = format!("{cause:#}"),
                    "cannot tell the service manager how the server is doing: set NotifyAccess=main \
                     in its unit"
                );
                None
            }
        });
        let watchdog = watchdog(variable("WATCHDOG_USEC"), variable("WATCHDOG_PID"));
        ServiceManager {
            watchdog: watchdog.filter(|_| socket.is_some()),
            socket,
            watching: None,
            is_ready: false,
            status: String::new(),
            looked: Instant::now(),
        }
    }

    /// The apps are about to start: from here until [`ServiceManager::ready`] stores are waited for.
    pub fn starting(&mut self) {
        self.send("STATUS=starting: connecting stores and sources");
    }

    /// The server has begun; from now on the manager is told that it is alive.
    pub fn ready(&mut self, server: &Server) {
        if self.socket.is_none() {
            return;
        }
        self.status = status(server);
        self.is_ready = true;
        self.send(&format!("READY=1\nSTATUS={}", self.status));
        if let (Some(socket), Some(within), None) = (&self.socket, self.watchdog, &self.watching) {
            self.watching = watch(Arc::clone(socket), server.liveness(), within);
        }
    }

    /// Apps are being read again.
    pub fn reloading(&self) {
        if !self.is_ready {
            return;
        }
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        self.send(&format!(
            "RELOADING=1\nMONOTONIC_USEC={micros}\nSTATUS=reloading apps"
        ));
    }

    /// They have been, or go on as they were.
    pub fn reloaded(&mut self, server: &Server) {
        if self.is_ready {
            self.ready(server);
        }
    }

    /// Brings the status line up to date, where it has changed.
    pub fn show(&mut self, server: &Server) {
        if !self.is_ready || self.looked.elapsed() < STATUS_EVERY {
            return;
        }
        self.looked = Instant::now();
        let status = status(server);
        if status != self.status {
            self.send(&format!("STATUS={status}"));
            self.status = status;
        }
    }

    /// The server is being stopped; the watchdog ends.
    pub fn stopping(&mut self) {
        self.watching = None;
        self.send("STOPPING=1\nSTATUS=stopping: delivering what is in flight, saving state");
    }

    fn send(&self, message: &str) {
        if let Some(socket) = &self.socket {
            send(socket, message);
        }
    }
}

/// A manager that does not read any more is left alone: nothing that an app does depends on it.
fn send(socket: &UnixDatagram, message: &str) {
    if let Err(cause) = socket.send(message.as_bytes()) {
        tracing::debug!(%cause, "the service manager does not take what it is told");
    }
}

/// An absolute path, or `@` and a name of the abstract namespace.
fn connect(name: &OsStr) -> anyhow::Result<UnixDatagram> {
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        [b'/', ..] => SocketAddr::from_pathname(name),
        _ => bail!("NOTIFY_SOCKET is neither an absolute path nor '@' and a name"),
    };
    let connected = || -> io::Result<UnixDatagram> {
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address?)?;
        socket.set_write_timeout(Some(SEND_MAX))?;
        Ok(socket)
    };
    connected().with_context(|| format!("NOTIFY_SOCKET '{}'", name.display()))
}

/// The time of the watchdog, unless it is meant for another process.
fn watchdog(micros: Option<OsString>, pid: Option<OsString>) -> Option<Duration> {
    let number = |text: OsString| text.to_str()?.parse::<u64>().ok();
    let is_ours = match pid {
        Some(pid) => number(pid) == Some(u64::from(std::process::id())),
        None => true,
    };
    let micros = number(micros?).filter(|micros| is_ours && *micros > 0)?;
    Some(Duration::from_micros(micros))
}

/// Starts the thread that says that the server is alive, and the end of which is that of what is given
/// back.
fn watch(
    socket: Arc<UnixDatagram>,
    liveness: Liveness,
    within: Duration,
) -> Option<SyncSender<()>> {
    let (watching, end) = sync_channel(0);
    let thread = std::thread::Builder::new().name("watchdog".to_owned());
    let spawned = thread.spawn(move || look_on(&socket, &liveness, within, &end));
    match spawned {
        Ok(_) => Some(watching),
        Err(cause) => {
            tracing::error!(%cause, "cannot start the thread of the watchdog: the service manager \
                                     will start the server again");
            None
        }
    }
}

fn look_on(socket: &UnixDatagram, liveness: &Liveness, within: Duration, end: &Receiver<()>) {
    let mut was_stuck = Vec::new();
    loop {
        let stuck = liveness.stuck(within / LOOKS);
        if stuck.is_empty() {
            send(socket, "WATCHDOG=1");
        }
        if stuck != was_stuck {
            tell(&stuck, within);
            was_stuck = stuck;
        }
        if end.recv_timeout(within / LOOKS) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

fn tell(stuck: &[String], within: Duration) {
    if stuck.is_empty() {
        tracing::warn!("all apps move again");
        return;
    }
    tracing::error!(
        apps = stuck.join(", "),
        seconds = (within / LOOKS).as_secs_f64(),
        "apps do not move: unless they do soon, the service manager starts the server again \
         (WatchdogSec)"
    );
}

/// One line: what runs, and what is away.
fn status(server: &Server) -> String {
    let apps = match server.apps() {
        1 => "1 app runs".to_owned(),
        count => format!("{count} apps run"),
    };
    let Some(away) = server.metrics().not_ready() else {
        return apps;
    };
    // The first line is a heading.
    let away: Vec<&str> = away.lines().skip(1).collect();
    let mut text = format!(
        "{apps}; away: {}",
        away[..away.len().min(AWAY_MAX)].join(", ")
    );
    if away.len() > AWAY_MAX {
        text.push_str(&format!(" and {} more", away.len() - AWAY_MAX));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Option<OsString> {
        Some(OsString::from(text))
    }

    #[test]
    fn the_watchdog_is_for_the_process_that_it_names() {
        let ours = std::process::id().to_string();
        let minute = Some(Duration::from_secs(60));
        assert_eq!(watchdog(text("60000000"), text(&ours)), minute);
        assert_eq!(watchdog(text("60000000"), None), minute);
        assert_eq!(watchdog(text("60000000"), text("1")), None);
        for none in ["0", "-1", "soon", ""] {
            assert_eq!(watchdog(text(none), None), None, "{none}");
        }
        assert_eq!(watchdog(None, None), None);
    }

    #[test]
    fn an_address_of_another_family_is_refused() {
        let refused = |name: &str| connect(OsStr::new(name)).expect_err("refused").to_string();
        assert!(refused("vsock:2:1").contains("neither an absolute path"));
        assert!(refused("/nothing/here").contains("/nothing/here"));
    }
}
