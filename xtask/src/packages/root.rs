//! A clean Debian in a folder, and a service in it, started as its unit says: where no systemd runs,
//! this program is the service manager.

use std::fs::{self, File};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use super::unit::{Unit, variables};
use crate::cargo::target_folder;
use crate::dist::output;

/// Longest wait for a service to be ready.
const START_MAX: Duration = Duration::from_secs(60);

/// What a clean system has beyond what is essential: our package needs it.
const INCLUDED: &str = "adduser,ca-certificates";

/// A folder with a system in it; gone when it is dropped.
pub struct Root {
    folder: tempfile::TempDir,
}

/// Why there is no clean Debian here, if there is none.
pub fn missing() -> Option<String> {
    if !is_root() {
        return Some("only root can change its root folder (chroot)".into());
    }
    let tools = ["debootstrap", "chroot", "setpriv", "dpkg-deb", "curl"];
    let missing = tools.into_iter().find(|tool| !is_installed(tool));
    missing.map(|tool| format!("'{tool}' is not installed"))
}

fn is_root() -> bool {
    output(Command::new("id").arg("-u")).is_ok_and(|user| user == "0")
}

pub fn is_installed(tool: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&folders).collect();
    folders.push("/usr/sbin".into());
    folders.iter().any(|folder| folder.join(tool).is_file())
}

impl Root {
    /// A copy of a system that is bootstrapped once, with these packages.
    pub fn clean(more: &[&str]) -> anyhow::Result<Root> {
        let mut included = vec![INCLUDED];
        included.extend(more);
        let included = included.join(",");
        let cache = target_folder().join("packages-roots");
        let base = cache.join(included.replace(',', "-"));
        if !base.is_dir() {
            fs::create_dir_all(&cache)?;
            // Renamed when it is whole.
            let new = tempfile::Builder::new().prefix("new-").tempdir_in(&cache)?;
            bootstrap(&included, new.path())?;
            fs::rename(new.keep(), &base)?;
        }
        let folder = tempfile::Builder::new()
            .prefix("root-")
            .tempdir_in(&cache)?;
        let from = base.join(".");
        output(Command::new("cp").arg("-a").arg(&from).arg(folder.path()))?;
        Ok(Root { folder })
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path.trim_start_matches('/'))
    }

    pub fn read(&self, path: &str) -> anyhow::Result<String> {
        let path = self.path(path);
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    }

    pub fn write(&self, path: &str, text: &str) -> anyhow::Result<()> {
        let path = self.path(path);
        fs::write(&path, text).with_context(|| path.display().to_string())
    }

    /// Runs a program of the system as its root; what it prints.
    pub fn run(&self, words: &[&str]) -> anyhow::Result<String> {
        let mut command = self.command(words);
        output(&mut command)
    }

    /// As a user of the system, without any privilege.
    pub fn run_as(&self, user: &str, words: &[&str]) -> anyhow::Result<String> {
        let (uid, gid) = (format!("--reuid={user}"), format!("--regid={user}"));
        let as_user = ["setpriv", &uid, &gid, "--init-groups", "--no-new-privs"];
        self.run(&[&as_user[..], words].concat())
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("chroot");
        command.arg(self.folder.path()).args(words);
        command.env_clear();
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command.stdin(Stdio::null());
        command
    }

    pub fn install(&self, package: &Path) -> anyhow::Result<()> {
        let name = "new.deb";
        fs::copy(package, self.path(name))?;
        // Settings that an administrator has changed stay.
        self.run(&["dpkg", "--force-confold", "--install", "/new.deb"])?;
        fs::remove_file(self.path(name))?;
        Ok(())
    }

    /// `user:group mode` of a path of the system.
    pub fn owner(&self, path: &str) -> anyhow::Result<String> {
        self.run(&["stat", "--format", "%U:%G %a", path])
    }
}

/// From the mirror that this machine installs from.
fn bootstrap(included: &str, to: &Path) -> anyhow::Result<()> {
    let release = fs::read_to_string("/etc/os-release")?;
    let name = release
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let name = name.context("/etc/os-release names no release of Debian")?;
    let mut targets = Command::new("apt-get");
    targets.args([
        "indextargets",
        "--format",
        "$(CREATED_BY) $(RELEASE) $(REPO_URI)",
    ]);
    let targets = output(&mut targets)?;
    let mirror = targets
        .lines()
        .filter_map(|line| line.strip_prefix("Packages "))
        .find_map(|line| line.strip_prefix(&format!("{name} ")))
        .with_context(|| format!("apt knows no mirror of {name}"))?;
    println!("bootstrapping a clean {name} with {included}");
    let mut bootstrap = Command::new("debootstrap");
    bootstrap.args(["--variant=minbase", &format!("--include={included}"), name]);
    output(bootstrap.arg(to).arg(mirror))?;
    Ok(())
}

/// A service that runs in a [`Root`]; killed when it is dropped.
pub struct Service {
    child: Child,
    manager: UnixDatagram,
    log: PathBuf,
    stop_max: Duration,
}

impl Service {
    /// Starts the unit as systemd would: its user, its folder, no capabilities, a socket to report to;
    /// waits until it is ready.
    pub fn start(root: &Root, unit: &Unit) -> anyhow::Result<Service> {
        let file = unit.get("EnvironmentFile")?.trim_start_matches('-');
        let mut variables = variables(&root.read(file)?);
        let command = unit.command(&variables)?;
        let name = format!(
            "headwater-xtask-{}-{}",
            std::process::id(),
            testservers::free_port()?
        );
        let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        let watchdog = unit.seconds("WatchdogSec")?.as_micros();
        variables.push(("NOTIFY_SOCKET".into(), format!("@{name}")));
        variables.push(("WATCHDOG_USEC".into(), watchdog.to_string()));
        variables.push(("PATH".into(), "/usr/bin:/bin".into()));
        let (user, group) = (unit.get("User")?, unit.get("Group")?);
        let as_user = [format!("--reuid={user}"), format!("--regid={group}")];
        let mut words = vec!["setpriv"];
        words.extend(as_user.iter().map(String::as_str));
        words.extend([
            "--init-groups",
            "--no-new-privs",
            "--bounding-set=-all",
            "--inh-caps=-all",
        ]);
        words.extend(["env", "-i"]);
        let variables: Vec<String> = variables.iter().map(|(k, v)| format!("{k}={v}")).collect();
        words.extend(variables.iter().map(String::as_str));
        let enter = format!(
            "cd {} && umask {} && exec \"$@\"",
            unit.get("WorkingDirectory")?,
            unit.get("UMask")?
        );
        words.extend(["sh", "-c", &enter, "sh"]);
        words.extend(command.iter().map(String::as_str));
        let log = root.path("service.log");
        let errors = File::create(&log)?;
        // Each program of the chain becomes the next, so the child is the service.
        let child = root
            .command(&words)
            .stdout(errors.try_clone()?)
            .stderr(errors)
            .spawn()?;
        let mut service = Service {
            child,
            manager,
            log,
            stop_max: unit.seconds("TimeoutStopSec")?,
        };
        service.hear("READY=1", START_MAX)?;
        Ok(service)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits for a report that has this line.
    pub fn hear(&mut self, line: &str, at_most: Duration) -> anyhow::Result<String> {
        let until = Instant::now() + at_most;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                bail!("no '{line}' within {at_most:?}; it logs:\n{}", self.log());
            }
            // Looks now and then whether there is anybody left to hear from.
            self.manager
                .set_read_timeout(Some(left.min(Duration::from_millis(200))))?;
            let mut bytes = [0; 4096];
            if let Ok(length) = self.manager.recv(&mut bytes) {
                let report = String::from_utf8_lossy(&bytes[..length]).into_owned();
                if report.lines().any(|one| one == line) {
                    return Ok(report);
                }
            } else if let Some(status) = self.child.try_wait()? {
                bail!(
                    "it ended ({status}) before '{line}'; it logs:\n{}",
                    self.log()
                );
            }
        }
    }

    pub fn signal(&self, signal: &str) -> anyhow::Result<()> {
        output(Command::new("kill").args([signal, &self.pid().to_string()]))?;
        Ok(())
    }

    /// As `systemctl stop`: an end in time with code 0, or an error.
    pub fn stop(mut self) -> anyhow::Result<()> {
        self.signal("-TERM")?;
        self.hear("STOPPING=1", self.stop_max)?;
        let until = Instant::now() + self.stop_max;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait()? {
                ensure!(
                    status.success(),
                    "it ended with {status}; it logs:\n{}",
                    self.log()
                );
                return Ok(());
            }
            // What it still reports wakes this loop; else it looks again soon.
            self.manager
                .set_read_timeout(Some(Duration::from_millis(50)))?;
            let mut bytes = [0; 4096];
            self.manager.recv(&mut bytes).ok();
        }
        bail!(
            "it did not end within {:?}; it logs:\n{}",
            self.stop_max,
            self.log()
        )
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.child.kill().ok();
            self.child.wait().ok();
        }
    }
}

/// Status and body of a request by curl.
pub fn curl(args: &[&str]) -> anyhow::Result<(u16, String)> {
    let answer: Output = Command::new("curl")
        .args([
            "--silent",
            "--max-time",
            "30",
            "--write-out",
            "\n%{http_code}",
        ])
        .args(args)
        .output()
        .context("cannot start curl")?;
    let text = String::from_utf8(answer.stdout)?;
    let (body, status) = text.rsplit_once('\n').context("curl prints no status")?;
    Ok((status.parse()?, body.to_owned()))
}

/// Asks again until it is so, for half a minute at most.
pub fn eventually(
    what: &str,
    mut is_so: impl FnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let until = Instant::now() + Duration::from_secs(30);
    while !is_so()? {
        ensure!(Instant::now() < until, "not within half a minute: {what}");
        std::thread::yield_now();
    }
    Ok(())
}
