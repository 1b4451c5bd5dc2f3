//! A server that runs: its process, watched until it is ready, ended with its owner.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::place::Place;
use crate::tool::{last_lines, say};
use crate::{Error, Order, Recipe, under};

/// Longest wait until a server is ready, and until it has ended in order.
const PATIENCE: Duration = Duration::from_secs(240);

/// Time between two looks at a server.
const LOOK: Duration = Duration::from_millis(50);

/// Lines of the log that a failure shows.
const TAIL: usize = 30;

/// Stopped when dropped.
pub struct Running {
    recipe: &'static dyn Recipe,
    place: Place,
    version: String,
    process: Option<Process>,
}

/// The child, and the thread that started it. The kernel ends the child with that thread
/// (`setpriv --pdeathsig`), so it must live as long as the child should; a test's own thread does not.
struct Process {
    child: Child,
    /// Dropped, it ends the thread.
    release: Option<SyncSender<()>>,
    parent: Option<JoinHandle<()>>,
}

impl Running {
    pub(crate) fn start(recipe: &'static dyn Recipe, order: &Order) -> Result<Running, Error> {
        let place = Place::new(recipe, order)?;
        let version = recipe.version(place.installed())?;
        let mut running = Running {
            recipe,
            place,
            version,
            process: None,
        };
        running.restart()?;
        count_start(recipe.name());
        Ok(running)
    }

    /// What clients connect to.
    pub fn endpoint(&self) -> String {
        self.recipe.endpoint(&self.place)
    }

    pub fn port(&self) -> u16 {
        self.place.port()
    }

    /// Folder and ports.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Name and version, as the server gives them.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// All that it has written.
    pub fn log(&self) -> String {
        fs::read_to_string(self.place.log()).unwrap_or_default()
    }

    /// Its process, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(|p| p.child.id())
    }

    /// Ends it at once, as a crash of its machine does. Its data stays for [`Running::restart`].
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill_all();
        }
    }

    /// Ends it in order; it is killed when it takes too long. Its data stays.
    pub fn stop(&mut self) {
        let Some(process) = &mut self.process else {
            return;
        };
        process.signal(self.recipe.stop_signal());
        let mut clock = Clock::new();
        while process.ended().is_none() && clock.ticks() {}
        self.kill();
    }

    /// It stays there and answers nothing, as behind a broken line, until [`Running::thaw`].
    pub fn freeze(&self) {
        if let Some(process) = &self.process {
            process.signal_all(Signal::STOP);
        }
    }

    pub fn thaw(&self) {
        if let Some(process) = &self.process {
            process.signal_all(Signal::CONT);
        }
    }

    /// Starts it again on its port with its data, and waits until it is ready.
    ///
    /// # Errors
    /// It is not ready in time; the error has the end of its log.
    pub fn restart(&mut self) -> Result<(), Error> {
        self.stop();
        let command = self.recipe.launch(&self.place)?;
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.place.log())
            .map_err(|e| Error::failed("cannot write the log of the server", e))?;
        let command = detached(command, self.recipe.account(), &self.place, log)?;
        let mut process = Process::start(command)?;
        let ready = wait(self.recipe, &self.place, &mut process);
        self.process = Some(process);
        ready
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = self.place.log();
            say(&format!(
                "the log of server '{}' is {}",
                self.recipe.name(),
                log.display()
            ));
        } else {
            fs::remove_dir_all(self.place.folder()).ok();
        }
    }
}

/// Adds a line to the file of `HEADWATER_SERVER_STARTS`, where somebody wants to know what tests start.
fn count_start(name: &str) {
    let Some(path) = std::env::var_os("HEADWATER_SERVER_STARTS") else {
        return;
    };
    let file = OpenOptions::new().create(true).append(true).open(path);
    // Who counts sees that a line is missing; a test does not fail for it.
    file.and_then(|mut file| file.write_all(format!("{name}\n").as_bytes()))
        .ok();
}

/// The command under its account, in its folder, with its log; it ends with the thread that starts it.
fn detached(
    command: Command,
    account: Option<&str>,
    place: &Place,
    log: File,
) -> Result<Command, Error> {
    // The innermost sets the signal: a change of account would take it back.
    let mut outer = under(account, "setpriv");
    outer
        .args(["--pdeathsig", "KILL"])
        .arg(command.get_program())
        .args(command.get_args());
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(key, value),
            None => outer.env_remove(key),
        };
    }
    let said = |e: std::io::Error| Error::failed("the log cannot be shared", e);
    outer
        .current_dir(place.folder())
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(said)?)
        .stderr(log);
    Ok(outer)
}

fn wait(recipe: &dyn Recipe, place: &Place, process: &mut Process) -> Result<(), Error> {
    let mut clock = Clock::new();
    let cause = loop {
        if let Some(status) = process.ended() {
            break format!("it ended with {status}");
        }
        let Err(cause) = recipe.ready(place) else {
            return Ok(());
        };
        if !clock.ticks() {
            break format!("it is not ready after {} s: {cause}", PATIENCE.as_secs());
        }
    };
    let log: PathBuf = place.log();
    let text = fs::read_to_string(&log).unwrap_or_default();
    Err(Error::NotReady {
        cause,
        tail: last_lines(&text, TAIL),
        log,
    })
}

impl Process {
    fn start(mut command: Command) -> Result<Process, Error> {
        let (release, released) = sync_channel::<()>(0);
        let (give, given) = sync_channel(1);
        let parent = std::thread::Builder::new()
            .name("test server".to_owned())
            .spawn(move || {
                let child = command.spawn();
                let is_started = child.is_ok();
                if give.send(child).is_ok() && is_started {
                    // Ends when the other end is dropped.
                    released.recv().ok();
                }
            })
            .map_err(|e| Error::failed("no thread for the server", e))?;
        let child = given
            .recv()
            .map_err(|e| Error::failed("the thread of the server ended", e))?
            .map_err(|error| {
                let what = format!("'setpriv' does not start: {error}");
                Error::missing(what, "install the package util-linux")
            })?;
        Ok(Process {
            child,
            release: Some(release),
            parent: Some(parent),
        })
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Those that it has started, too: PostgreSQL has a process for each connection.
    fn signal_all(&self, signal: Signal) {
        for pid in family(self.child.id()) {
            send(pid, signal);
        }
    }

    /// Ends it and those that it has started, and waits for all of them: the next one does not start
    /// while they hold what it needs (PostgreSQL's shared memory).
    fn kill_all(&mut self) {
        // So that it starts no more of them meanwhile.
        self.signal(Signal::STOP);
        let all = family(self.child.id());
        for pid in &all {
            send(*pid, Signal::KILL);
        }
        self.child.wait().ok();
        let mut clock = Clock::new();
        while all.iter().any(|pid| runs(*pid)) && clock.ticks() {}
    }

    fn signal(&self, signal: Signal) {
        // The child has not been waited for, so its number is still its own.
        send(self.child.id(), signal);
    }
}

/// A process that has ended gets nothing.
fn send(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        kill_process(pid, signal).ok();
    }
}

/// False for one that has ended, also where nobody has asked how.
fn runs(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status"));
    status.is_ok_and(|text| !text.contains("\nState:\tZ") && !text.contains("\nState:\tX"))
}

/// A process and all below it, as they are now.
fn family(first: u32) -> Vec<u32> {
    let mut all = vec![first];
    let mut next = 0;
    while let Some(pid) = all.get(next) {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        all.extend(
            children
                .split_whitespace()
                .filter_map(|pid| pid.parse::<u32>().ok()),
        );
        next += 1;
    }
    all
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        self.release = None;
        if let Some(parent) = self.parent.take() {
            parent.join().ok();
        }
    }
}

/// Looks at something again and again, with a pause, until patience ends.
struct Clock {
    until: Instant,
    never: (SyncSender<()>, Receiver<()>),
}

impl Clock {
    fn new() -> Clock {
        Clock {
            until: Instant::now() + PATIENCE,
            never: sync_channel(0),
        }
    }

    /// Waits a moment; `false` when there was enough waiting.
    fn ticks(&mut self) -> bool {
        let nothing = self.never.1.recv_timeout(LOOK);
        nothing == Err(RecvTimeoutError::Timeout) && Instant::now() < self.until
    }
}
