//! `run --watch`: whether a file of the apps has changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use server::deploy::Written;
use server::deployment;

use crate::cli::RunArgs;

/// Between two looks.
const EVERY: Duration = Duration::from_secs(1);

pub struct Watch {
    /// Apps and folders of apps.
    apps: Vec<PathBuf>,
    config: Option<PathBuf>,
    /// Batch scripts and folders of them.
    scripts: Vec<PathBuf>,
    seen: BTreeMap<PathBuf, Seen>,
    next: Instant,
}

/// A file as it was seen: when it was changed, its length.
type Seen = (Option<SystemTime>, u64);

impl Watch {
    pub fn new(args: &RunArgs) -> Watch {
        let mut watch = Watch {
            apps: args.apps.clone(),
            config: args.change.config.clone(),
            scripts: args.scripts.scripts.clone(),
            seen: BTreeMap::new(),
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

    /// The server itself has written or removed these files, and runs what they hold: that is no change, unless
    /// somebody has written to them since.
    pub fn note(&mut self, files: &[Written]) {
        let now = self.look();
        for (path, text) in files {
            let is_ours = std::fs::read_to_string(path).ok() == *text;
            match now.get(path).filter(|_| is_ours) {
                Some(seen) => _ = self.seen.insert(path.clone(), *seen),
                None if is_ours => _ = self.seen.remove(path),
                None => {}
            }
        }
    }

    fn look(&self) -> BTreeMap<PathBuf, Seen> {
        let apps = deployment::find_all(&self.apps).unwrap_or_default();
        let scripts = crate::sql::script_files(&self.scripts).unwrap_or_default();
        let files = apps.into_iter().chain(self.config.clone()).chain(scripts);
        files
            .map(|path| {
                let seen = seen(&path);
                (path, seen)
            })
            .collect()
    }
}

fn seen(path: &Path) -> Seen {
    let metadata = std::fs::metadata(path).ok();
    let changed = metadata.as_ref().and_then(|m| m.modified().ok());
    (changed, metadata.map_or(0, |m| m.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_writes_is_no_change_and_what_somebody_else_writes_is() {
        let dir = tempfile::tempdir().expect("a folder");
        let (ours, theirs) = (dir.path().join("a.siddhi"), dir.path().join("b.siddhi"));
        let write = |path: &Path, text: &str| std::fs::write(path, text).expect("it is writable");
        write(&ours, "1");
        write(&theirs, "1");
        let mut watch = Watch {
            apps: vec![dir.path().to_owned()],
            config: None,
            scripts: Vec::new(),
            seen: BTreeMap::new(),
            next: Instant::now(),
        };
        watch.seen = watch.look();
        let mut has_changed = |note: &[Written]| {
            watch.note(note);
            watch.next = Instant::now();
            watch.has_changed()
        };
        write(&ours, "by the server");
        let noted = (ours.clone(), Some("by the server".to_owned()));
        assert!(!has_changed(std::slice::from_ref(&noted)));
        // Somebody has written since: to another file, or over what the server has written.
        write(&theirs, "by somebody");
        assert!(has_changed(std::slice::from_ref(&noted)));
        write(&ours, "by somebody, too");
        assert!(has_changed(&[noted]));
        std::fs::remove_file(&ours).expect("it is there");
        assert!(!has_changed(&[(ours, None)]));
    }
}
