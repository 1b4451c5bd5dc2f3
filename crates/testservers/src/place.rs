//! Where a server lies: what is installed once in the cache, and the folder and ports of one run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::process::geteuid;

use crate::{Error, Order, Recipe, free_port, run};

/// Folder and ports of one run. Both stay when it is restarted.
#[derive(Clone, Debug)]
pub struct Place {
    installed: PathBuf,
    folder: PathBuf,
    port: u16,
    /// A second port of its own, for what is not for clients.
    inner_port: u16,
    settings: Vec<(String, String)>,
}

impl Place {
    pub(crate) fn new(recipe: &dyn Recipe, order: &Order) -> Result<Place, Error> {
        let installed = installed(recipe)?;
        let folder = run_folder(recipe.name())?;
        let place = Place {
            installed,
            folder,
            port: order.port.map_or_else(free_port, Ok)?,
            inner_port: free_port()?,
            settings: order.settings.clone(),
        };
        fs::create_dir_all(place.data()).map_err(|e| Error::failed("no folder for data", e))?;
        if let Some(account) = recipe.account().filter(|_| geteuid().is_root()) {
            run(Command::new("chown")
                .args(["-R", account])
                .arg(place.folder()))?;
        }
        Ok(place)
    }

    /// What [`Recipe::install`] has made.
    pub fn installed(&self) -> &Path {
        &self.installed
    }

    /// For configuration, logs and sockets.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    pub fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// The port for clients.
    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn inner_port(&self) -> u16 {
        self.inner_port
    }

    /// Lines of configuration that were ordered.
    pub fn settings(&self) -> &[(String, String)] {
        &self.settings
    }

    pub fn setting(&self, key: &str) -> Option<&str> {
        let found = self.settings.iter().rev().find(|(k, _)| k == key);
        found.map(|(_, value)| value.as_str())
    }

    /// Writes a file of configuration; gives its path.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf, Error> {
        let path = self.folder.join(name);
        fs::write(&path, text).map_err(|e| Error::failed(format!("cannot write '{name}'"), e))?;
        Ok(path)
    }

    /// Copies a file that nobody but the server may read, as a private key must be; gives its path.
    ///
    /// # Errors
    /// It is not there, or the folder cannot be written.
    pub fn copy(&self, name: &str, from: &str, account: Option<&str>) -> Result<PathBuf, Error> {
        let path = self.folder.join(name);
        let mut install = Command::new("install");
        install.args(["-m", "600"]);
        if let Some(account) = account.filter(|_| geteuid().is_root()) {
            install.args(["-o", account]);
        }
        run(install.arg(from).arg(&path))?;
        Ok(path)
    }
}

/// One installation at a time in this process; other processes are kept off by the rename.
static INSTALLING: Mutex<()> = Mutex::new(());

/// The folder of an installation, made where it is not there.
pub(crate) fn installed(recipe: &dyn Recipe) -> Result<PathBuf, Error> {
    kept(recipe.name(), recipe.edition(), |into| recipe.install(into))
}

/// A folder that is made once by `install` and kept under a name and an edition.
pub(crate) fn kept(
    name: &str,
    edition: &str,
    install: impl FnOnce(&Path) -> Result<(), Error>,
) -> Result<PathBuf, Error> {
    let _one = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let all = cache()?.join("servers");
    let folder = all.join(format!("{name}-{edition}"));
    if folder.is_dir() {
        return Ok(folder);
    }
    // Another process may install at the same time: each does so aside, and the first one stays.
    let aside = all.join(format!("{name}.{}", std::process::id()));
    let action = || format!("cannot install '{name}'");
    fs::create_dir_all(&aside).map_err(|e| Error::failed(action(), e))?;
    let made = install(&aside);
    if made.is_ok() && (fs::rename(&aside, &folder).is_ok() || folder.is_dir()) {
        fs::remove_dir_all(&aside).ok();
        return Ok(folder);
    }
    fs::remove_dir_all(&aside).ok();
    made?;
    Err(Error::failed(
        action(),
        format!("'{}' cannot be made", folder.display()),
    ))
}

/// `HEADWATER_CACHE`, or a folder of ours in the user's cache: for what can be made again.
///
/// # Errors
///
/// Where the environment names none of them.
pub fn cache() -> Result<PathBuf, Error> {
    let of = |name: &str| std::env::var_os(name).map(PathBuf::from);
    of("HEADWATER_CACHE")
        .or_else(|| Some(of("XDG_CACHE_HOME")?.join("headwater")))
        .or_else(|| Some(of("HOME")?.join(".cache/headwater")))
        .ok_or_else(|| Error::missing("there is no folder for a cache", "set HEADWATER_CACHE"))
}

/// Runs of this process so far.
static RUNS: AtomicU32 = AtomicU32::new(0);

/// A new folder below the system's folder for temporary files, which every account can reach. What
/// processes that are no more have left there is removed.
fn run_folder(name: &str) -> Result<PathBuf, Error> {
    let all = std::env::temp_dir().join("headwater-servers");
    let said = |e: std::io::Error| Error::failed("no folder for a run", e);
    fs::create_dir_all(&all).map_err(said)?;
    for entry in fs::read_dir(&all).map_err(said)?.flatten() {
        let left = entry.file_name();
        let pid = left.to_str().and_then(|n| n.rsplit('-').nth(1));
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            fs::remove_dir_all(entry.path()).ok();
        }
    }
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let folder = all.join(format!("{name}-{}-{run}", std::process::id()));
    fs::create_dir_all(&folder).map_err(said)?;
    Ok(folder)
}
