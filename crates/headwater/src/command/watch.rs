//! `run --watch`: whether a file of the apps has changed.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use server::deployment;

use crate::cli::RunArgs;

/// Between two looks.
const EVERY: Duration = Duration::from_secs(1);

pub struct Watch {
    /// Apps and folders of apps.
    apps: Vec<PathBuf>,
    config: Option<PathBuf>,
    seen: Vec<Seen>,
    next: Instant,
}

/// A file as it was seen: its path, when it was changed, its length.
type Seen = (PathBuf, Option<SystemTime>, u64);

impl Watch {
    pub fn new(args: &RunArgs) -> Watch {
        let mut watch = Watch {
            apps: args.apps.clone(),
            config: args.change.config.clone(),
            seen: Vec::new(),
            next: Instant::now() + EVERY,
        };
        watch.seen = watch.look();
        watch
    }

    /// Looks once a second. A folder that cannot be read now has not changed.
    pub fn has_changed(&mut self) -> bool {
        if Instant::now() < self.next {
            return false;
        }
        self.next = Instant::now() + EVERY;
        let now = self.look();
        if now.is_empty() || now == self.seen {
            return false;
        }
        self.seen = now;
        true
    }

    fn look(&self) -> Vec<Seen> {
        let apps = deployment::find_files(&self.apps).unwrap_or_default();
        let files = apps.into_iter().chain(self.config.clone());
        files.map(|path| seen(&path)).collect()
    }
}

fn seen(path: &Path) -> Seen {
    let metadata = std::fs::metadata(path).ok();
    let changed = metadata.as_ref().and_then(|m| m.modified().ok());
    (path.to_owned(), changed, metadata.map_or(0, |m| m.len()))
}
