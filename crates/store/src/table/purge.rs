//! Old rows go: files as a whole where all of their rows are old, and files that have both are written anew.
//!
//! Promises: a purge is one commit, so that a reader sees the rows before it or after it and a crash leaves one of
//! the two; files are written beside the table, so that it takes rows meanwhile. Rows that no file holds yet are not
//! touched. Never: a row without a time is old.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::Table;
use super::merge::{Output, discard, merge_where};
use crate::delta::{Add, Snapshot, TableLog};
use crate::error::Error;
use crate::layer::Layer;
use crate::layout::Layout;
use crate::rows::Rows;
use crate::upkeep::Watch;

/// How often files are written anew beside the table before it is held for that.
const BESIDE: usize = 3;

/// How often a commit is tried when others commit meanwhile.
const TRIES: usize = 20;

/// What a purge takes out, or would.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Purged {
    /// Files that go as a whole.
    pub files: u64,
    /// Files that are written anew with the rows that stay.
    pub rewritten: u64,
    pub rows: u64,
    /// Bytes of the files that the table no longer names; a vacuum frees them.
    pub bytes: u64,
    /// Rows as old that no file holds yet: they go with the next purge.
    pub in_memory: u64,
    /// Of the files, after it.
    pub version: u64,
}

/// How a file stands to a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Age {
    Old,
    /// It has old rows and others, or does not say.
    Both,
    New,
}

fn age(add: &Add, before: i64) -> Age {
    match add.stats.times() {
        Some((_, last)) if last < before => Age::Old,
        Some((first, _)) if first >= before => Age::New,
        _ => Age::Both,
    }
}

/// Is a row old? Another program may have put in rows without a time.
fn is_old(rows: &Rows<'_>, row: usize, before: i64) -> bool {
    rows.times[row] != 0 && rows.times[row] < before
}

/// What becomes of a file that has both.
struct Anew {
    adds: Vec<Add>,
    gone: u64,
    /// Some rows stay.
    stays: bool,
}

impl Table {
    /// Takes out the rows of its files that are older than `before`, milliseconds since 1970. A file that has old rows
    /// and others is written anew if its oldest is older than `anew_before`, else it stays as it is.
    ///
    /// # Errors
    /// Nothing has changed, unless the disk failed while the commit was written.
    pub fn purge(&self, before: i64, anew_before: i64, watch: &Watch<'_>) -> Result<Purged, Error> {
        let mut anew = BTreeMap::new();
        let purged = self.try_purge(before, anew_before, watch, &mut anew);
        // What is left was written for a version that did not come to be.
        match &purged {
            // Whether the commit happened is not known: what it names stays.
            Err(Error::File { .. }) => {}
            _ => anew
                .values()
                .for_each(|anew| discard(&self.dir, &anew.adds)),
        }
        purged
    }

    fn try_purge(
        &self,
        before: i64,
        anew_before: i64,
        watch: &Watch<'_>,
        anew: &mut BTreeMap<String, Anew>,
    ) -> Result<Purged, Error> {
        for tried in 0..TRIES {
            let mut alone = (tried >= BESIDE).then(|| self.files_alone());
            self.refresh()?;
            let base = Arc::clone(&self.lock().view.snapshot);
            let (_, both) = aged(&base, before, anew_before);
            for add in &both {
                if !anew.contains_key(&add.path) {
                    watch.check()?;
                    (watch.note)(&self.dir.join(&add.path), add.size);
                    anew.insert(add.path.clone(), self.without_old(add, before)?);
                }
            }
            alone.get_or_insert_with(|| self.files_alone());
            self.refresh()?;
            let base = Arc::clone(&self.lock().view.snapshot);
            let (old, both) = aged(&base, before, anew_before);
            if both.iter().any(|add| !anew.contains_key(&add.path)) {
                continue;
            }
            let mut purged = Purged {
                files: old.len() as u64,
                rows: old.iter().map(|add| add.stats.rows).sum(),
                ..Purged::default()
            };
            let mut removes: Vec<String> = old.iter().map(|add| add.path.clone()).collect();
            let mut bytes: u64 = old.iter().map(|add| add.size).sum();
            let mut adds = Vec::new();
            for add in &both {
                let Some(fresh) = anew.get(&add.path).filter(|fresh| fresh.gone > 0) else {
                    continue;
                };
                match fresh.stays {
                    true => purged.rewritten += 1,
                    false => purged.files += 1,
                }
                purged.rows += fresh.gone;
                bytes += add.size;
                adds.extend(fresh.adds.iter().cloned());
                removes.push(add.path.clone());
            }
            purged.bytes = bytes;
            purged.version = base.version;
            if !removes.is_empty() {
                watch.check()?;
                let predicate = format!("(_timestamp < {before})");
                match self.delta.delete(&base, &adds, &removes, &predicate) {
                    Ok(snapshot) => {
                        purged.version = snapshot.version;
                        self.files.forget(&removes);
                        self.lock().view.snapshot = snapshot;
                        // They are the table's now.
                        removes.iter().for_each(|path| {
                            anew.remove(path);
                        });
                    }
                    Err(Error::Conflict(_)) => continue,
                    Err(error) => return Err(error),
                }
            }
            purged.in_memory = self.old_in_memory(before);
            return Ok(purged);
        }
        Err(Error::Conflict(self.definition.name.clone()))
    }

    /// A file without its old rows, and in its order.
    fn without_old(&self, add: &Add, before: i64) -> Result<Anew, Error> {
        let mut layout = Layout::clone(&self.lock().layout);
        layout.cluster.clone_from(&add.cluster);
        let mut output = Output::new(&self.dir, &self.definition, &Arc::new(layout));
        let (mut gone, mut stays) = (0, false);
        let written = output.begin(&add.cluster).and_then(|()| {
            merge_where(
                &self.files,
                &self.definition,
                add,
                &mut output,
                &mut |rows, row| {
                    let is_old = is_old(rows, row, before);
                    gone += u64::from(is_old);
                    stays |= !is_old;
                    !is_old
                },
            )
        });
        if let Err(error) = written {
            output.discard();
            return Err(error);
        }
        match gone {
            // It said too little of its rows: they all stay, where they are.
            0 => {
                output.discard();
                Ok(Anew {
                    adds: Vec::new(),
                    gone,
                    stays,
                })
            }
            _ => Ok(Anew {
                adds: output.finish()?,
                gone,
                stays,
            }),
        }
    }

    /// What a purge would take out, with the rows in memory written to files before.
    ///
    /// # Errors
    /// A file cannot be read, or is damaged.
    pub fn purgeable(&self, before: i64, watch: &Watch<'_>) -> Result<Purged, Error> {
        let base = Arc::clone(&self.lock().view.snapshot);
        let (old, both) = aged(&base, before, i64::MAX);
        let mut purged = Purged {
            files: old.len() as u64,
            rows: old.iter().map(|add| add.stats.rows).sum(),
            bytes: old.iter().map(|add| add.size).sum(),
            version: base.version,
            ..Purged::default()
        };
        for add in both {
            watch.check()?;
            (watch.note)(&self.dir.join(&add.path), add.size);
            let mut parts = self.files.picked(add, &[], None)?;
            let (mut gone, mut stays) = (0, false);
            while let Some(part) = parts.next()? {
                let rows = part.rows();
                let old = (0..rows.len())
                    .filter(|row| is_old(&rows, *row, before))
                    .count();
                gone += old as u64;
                stays |= old < rows.len();
            }
            if gone > 0 {
                purged.rows += gone;
                purged.bytes += add.size;
                match stays {
                    true => purged.rewritten += 1,
                    false => purged.files += 1,
                }
            }
        }
        purged.in_memory = self.old_in_memory(before);
        Ok(purged)
    }

    fn old_in_memory(&self, before: i64) -> u64 {
        let view = self.view();
        let frozen = view.frozen.as_ref().map(|frozen| &*frozen.layer);
        let layers = frozen.into_iter().chain([&*view.live]);
        let old = layers.map(|layer: &Layer| {
            let rows = layer.rows();
            let old =
                (0..rows.len()).filter(|row| layer.is_live(*row) && is_old(&rows, *row, before));
            old.count() as u64
        });
        old.sum()
    }

    /// Takes out what is older than its retention, if there is enough of it.
    ///
    /// # Errors
    /// As [`Table::purge`].
    pub fn retain(&self, now: i64) -> Result<Option<Purged>, Error> {
        let Some(retention) = self.lock().retention else {
            return Ok(None);
        };
        let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let before = now.saturating_sub(millis(retention));
        let anew_before = before.saturating_sub(millis(slack(retention)));
        let snapshot = Arc::clone(&self.lock().view.snapshot);
        let (old, both) = aged(&snapshot, before, anew_before);
        // A file that says nothing of its times would be read each time.
        if old.is_empty() && both.iter().all(|add| add.stats.times().is_none()) {
            return Ok(None);
        }
        let purged = self.purge(before, anew_before, &Watch::NONE)?;
        Ok((purged.rows > 0).then_some(purged))
    }
}

/// How much older than the retention a row in a file with newer ones may get: files are not written anew for a few
/// rows.
pub(crate) fn slack(retention: Duration) -> Duration {
    (retention / 10).clamp(Duration::from_secs(1), Duration::from_secs(24 * 60 * 60))
}

/// Files whose rows are all old, and those that have both and an older one than `anew_before`.
fn aged(base: &Snapshot, before: i64, anew_before: i64) -> (Vec<&Arc<Add>>, Vec<&Arc<Add>>) {
    let anew_before = anew_before.min(before);
    let (mut old, mut both) = (Vec::new(), Vec::new());
    for add in base.files.values() {
        match age(add, before) {
            Age::Old => old.push(add),
            Age::Both
                if add
                    .stats
                    .times()
                    .is_none_or(|(first, _)| first < anew_before) =>
            {
                both.push(add)
            }
            Age::Both | Age::New => {}
        }
    }
    (old, both)
}
