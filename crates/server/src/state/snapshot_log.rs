//! Snapshots that have changes alone, and the whole one they begin with.
//!
//! The executor writes a whole snapshot when a run begins, then what has changed since the one before.
//! When the changes add up, a thread compacts them and the whole one, and what comes of it takes
//! the place of the newest of them, which it equals. Until then nothing that it needs is removed; a
//! crash on the way leaves the chain as it was.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use event::codec::Writer;

use super::file::{Head, Layer, Unusable};
use super::{GroupState, Spool};
use crate::error::Error;
use crate::report::chain;

/// Snapshots over a whole one from which on they are compacted, however short they are: so many
/// files more a start opens and reads side by side.
const LINKS_MAX: usize = 64;

/// Bytes of changes below which it waits for so many.
const CHANGES_MIN: u64 = 1 << 20;

/// The part of the whole that changes may come to: what a start reads is longer by no more, and the
/// whole is not written again for less.
const CHANGES_SHARE: u64 = 2;

/// How long compaction rests after it failed.
const REST: Duration = Duration::from_secs(60);

/// The epochs that the state of an epoch is made of, the whole one first.
pub(super) fn of(
    epoch: u64,
    head_of: impl Fn(u64) -> Option<Head>,
) -> Result<Vec<(u64, Head)>, String> {
    let mut links = Vec::new();
    let mut next = epoch;
    loop {
        let Some(head) = head_of(next) else {
            return Err(format!(
                "it has the changes since epoch {next}, which is missing or damaged"
            ));
        };
        let (last, run) = links
            .last()
            .map_or((u64::MAX, head.run), |(e, h): &(u64, Head)| (*e, h.run));
        if next >= last || head.run != run {
            return Err(format!(
                "it does not match epoch {next}, which it claims to follow"
            ));
        }
        links.push((next, head));
        match head.before {
            0 => break,
            before => next = before,
        }
    }
    links.reverse();
    Ok(links)
}

/// What a restart from an epoch would read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Length {
    /// Bytes of the whole snapshot, and of the changes over it.
    pub whole: u64,
    pub changes: u64,
    /// How many snapshots have these.
    pub links: usize,
}

impl Length {
    pub(super) fn of(links: &[(u64, Head)]) -> Length {
        let mut lengths = links.iter().map(|(_, head)| head.len);
        Length {
            whole: lengths.next().unwrap_or(0),
            changes: lengths.sum(),
            links: links.len().saturating_sub(1),
        }
    }

    /// Would it be worth compacting them?
    fn is_long(self) -> bool {
        self.links >= LINKS_MAX || self.changes > CHANGES_MIN.max(self.whole / CHANGES_SHARE)
    }
}

impl GroupState {
    /// What the state of an epoch is made of; empty where it is not there.
    pub(crate) fn links(&self, epoch: u64) -> Result<Vec<(u64, Head)>, String> {
        if !self.snapshot_path(epoch).exists() {
            return Ok(Vec::new());
        }
        of(epoch, |epoch| {
            Head::of(&self.snapshot_path(epoch), epoch).ok()
        })
    }

    /// The oldest epoch that an epoch of these links or the one before it is made of; 0 where that
    /// cannot be told.
    pub(super) fn oldest_needed(&self, epoch: u64, links: &[(u64, Head)]) -> u64 {
        let first = |links: &[(u64, Head)]| links.first().map_or(epoch, |(first, _)| *first);
        let before = epoch.saturating_sub(1);
        if links.iter().any(|(link, _)| *link == before) {
            return first(links);
        }
        match self.links(before) {
            Ok(others) => first(links).min(first(&others)),
            Err(_) => 0,
        }
    }

    /// Newest epoch that was made whole after it was written.
    pub(crate) fn composed(&self) -> u64 {
        self.composed.load(Ordering::Relaxed)
    }

    /// Length of the log of undelivered events at that epoch, and the payload.
    pub fn read(&self, epoch: u64) -> Result<(u64, Vec<u8>), Error> {
        let mut layers = self.layers(epoch)?;
        let undelivered = layers.last().map_or(0, |layer| layer.head.undelivered);
        let bytes = match layers.as_mut_slice() {
            [whole] => {
                let mut bytes = Vec::new();
                let read = whole.read_to_end(&mut bytes);
                read.map(|_| bytes)
            }
            layers => {
                let mut writer = Writer::default();
                let composed = super::saved::compose(layers, &mut writer);
                composed.map(|()| writer.bytes)
            }
        };
        self.finish(layers)?;
        let bytes = bytes.map_err(|cause| self.trouble(epoch, cause.to_string()))?;
        Ok((undelivered, bytes))
    }

    /// Makes the snapshot of an epoch whole. Its payload is what [`GroupState::read`] gives.
    fn make_whole(&self, epoch: u64, stop: &Arc<AtomicBool>) -> Result<(), Error> {
        let mut layers = self.layers(epoch)?;
        layers.iter_mut().for_each(|layer| layer.until(stop));
        let Some(newest) = layers.last().map(|layer| layer.head) else {
            return Ok(());
        };
        let head = Head {
            before: 0,
            ..newest
        };
        let spool = Spool::new(self.snapshot_path(epoch), head);
        let mut writer = Writer::streaming(Box::new(spool.clone()));
        let composed = super::saved::compose(&mut layers, &mut writer);
        let written = composed.and_then(|()| writer.finish().map(|_| ()));
        // Nothing is put in place of what is good before all that was read is known to be.
        let sealed = written
            .map_err(|cause: io::Error| self.trouble(epoch, cause.to_string()))
            .and_then(|()| self.finish(layers))
            .and_then(|()| spool.seal(newest.undelivered));
        if sealed.is_err() {
            spool.discard();
        }
        sealed?;
        self.composed.fetch_max(epoch, Ordering::Relaxed);
        Ok(())
    }

    /// The files of an epoch, the whole one first. Each is opened once: one that is made whole
    /// meanwhile is not taken for what it was.
    pub(crate) fn layers(&self, epoch: u64) -> Result<Vec<Layer>, Error> {
        let mut layers: Vec<Layer> = Vec::new();
        let mut next = epoch;
        loop {
            let layer = Layer::open(&self.snapshot_path(next), next);
            let layer = layer.map_err(|unusable| self.unusable(next, unusable))?;
            let before = layer.head.before;
            layers.push(layer);
            if before == 0 || before >= next {
                break;
            }
            next = before;
        }
        layers.reverse();
        let head_of = |epoch| {
            let mut heads = layers.iter().map(|layer| layer.head);
            heads.find(|head| head.epoch == epoch)
        };
        of(epoch, head_of).map_err(|text| self.trouble(epoch, text))?;
        Ok(layers)
    }

    fn finish(&self, layers: Vec<Layer>) -> Result<(), Error> {
        for layer in layers {
            let epoch = layer.head.epoch;
            layer
                .finish()
                .map_err(|unusable| self.unusable(epoch, unusable))?;
        }
        Ok(())
    }

    fn unusable(&self, epoch: u64, unusable: Unusable) -> Error {
        match unusable {
            Unusable::Damaged(message) | Unusable::Foreign(message) => self.trouble(epoch, message),
            Unusable::Closed(cause) => Error::file("open", self.snapshot_path(epoch))(cause),
        }
    }

    fn trouble(&self, epoch: u64, message: String) -> Error {
        Error::State {
            path: self.snapshot_path(epoch),
            message,
        }
    }
}

/// The thread that makes snapshots whole, one at a time.
#[derive(Debug, Default)]
pub(crate) struct Compactor {
    /// Tells whether it could.
    thread: Option<JoinHandle<bool>>,
    stop: Arc<AtomicBool>,
    /// It could not, and is not tried again before.
    rests_until: Option<Instant>,
}

impl Compactor {
    /// An epoch has become current, of this length: makes it whole, where that is well and nothing
    /// is on its way.
    pub fn look(&mut self, state: &GroupState, epoch: u64, length: Length) {
        let is_busy = self.thread.as_ref().is_some_and(|t| !t.is_finished());
        if is_busy || !length.is_long() {
            return;
        }
        self.wait();
        if self.rests_until.is_some_and(|until| Instant::now() < until) {
            return;
        }
        let (state, stop) = (state.clone(), Arc::clone(&self.stop));
        let compose = move || {
            let done = state.make_whole(epoch, &stop);
            if let Err(error) = &done
                && !stop.load(Ordering::Relaxed)
            {
                tracing::warn!(
                    epoch,
                    cause = chain(error),
                    "cannot compact snapshots; keeping them as they are"
                );
            }
            done.is_ok()
        };
        let thread = std::thread::Builder::new().name("state".to_owned());
        match thread.spawn(compose) {
            Ok(thread) => self.thread = Some(thread),
            Err(error) => {
                tracing::warn!(%error, "cannot start the snapshot compaction thread");
                self.rests_until = Some(Instant::now() + REST);
            }
        }
    }

    /// Until what is on its way is done.
    fn wait(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        let done = thread.join().unwrap_or_else(|_| {
            tracing::warn!("snapshot compaction stopped by an internal error");
            false
        });
        self.rests_until = (!done).then(|| Instant::now() + REST);
    }
}

impl Drop for Compactor {
    /// Nothing is written to the directory any more when it has gone.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use engine::{App, Input, NoHost, Outputs, Setup};
    use event::{Batch, Chunks, Value};
    use plan::Plan;

    use super::*;
    use crate::state::StateDir;

    const TEXT: &str = "define stream S (k string, n long);
        @primaryKey('k') define table T (k string, n long);
        from S#window.time(1 hour) select k, sum(n) as total group by k insert into O;
        from S select k, n update or insert into T on T.k == k;";

    fn plan() -> Plan {
        let parsed = lang::parse(TEXT);
        let catalog = catalog::full();
        let checked = check::check(&parsed.app, &catalog, &Default::default());
        checked.plan.expect("the app is right")
    }

    /// An app, and the directory it is saved in after each of its steps.
    struct Run {
        _root: tempfile::TempDir,
        group: GroupState,
        plan: Plan,
        app: App,
        epoch: u64,
        /// All of the state by epoch.
        states: Vec<Vec<u8>>,
    }

    impl Run {
        fn new() -> Run {
            let root = tempfile::tempdir().expect("a temporary directory");
            let state = StateDir::open(root.path()).expect("opens");
            let group = state.group(&["A".to_owned()]).expect("a new group");
            let plan = plan();
            let mut app = App::new(&plan, Setup::default()).expect("the app runs");
            app.step(0, 0, Input::Start, &mut NoHost, &mut Outputs::default());
            Run {
                _root: root,
                group,
                plan,
                app,
                epoch: 0,
                states: vec![Vec::new()],
            }
        }

        fn save(&mut self) {
            self.epoch += 1;
            let time = 10 * self.epoch as i64;
            let keys = (0..40).map(|i| format!("key {}", i * self.epoch % 97));
            let rows = keys.map(|k| (time, vec![Value::str(&k), Value::Long(time)]));
            let rows: Vec<_> = rows.collect();
            let batch =
                Batch::from_rows(&self.plan.streams[0].schema, &rows, Chunks::EachRow, time);
            let input = Input::Batch(0, batch);
            self.app
                .step(time, time, input, &mut NoHost, &mut Outputs::default());
            let before = (self.epoch > 1).then(|| self.epoch - 1);
            let mut writer = Writer::default();
            writer.u8(3);
            writer.section(|w| w.u64(self.epoch));
            writer.count(1);
            writer.str("A");
            match before {
                None => self.app.save(&mut writer),
                Some(_) => self.app.save_changes(&mut writer),
            }
            self.app.mark_saved();
            self.states.push(self.app.snapshot());
            let mut spool = self.group.spool(self.epoch, before);
            spool.write_all(&writer.bytes).expect("writes");
            spool.seal(self.epoch).expect("seals");
            self.group.mark_current(self.epoch).expect("marks");
        }

        /// Is what is read of an epoch its state?
        fn check(&self, epoch: u64) {
            let (undelivered, bytes) = self.group.read(epoch).expect("the epoch is there");
            assert_eq!(undelivered, epoch);
            let mut reader = event::codec::Reader::new(&bytes);
            assert_eq!(reader.u8(), Ok(3));
            assert_eq!(reader.section().and_then(|mut r| r.u64()), Ok(epoch));
            assert_eq!(reader.u64(), Ok(1));
            assert_eq!(reader.str(), Ok("A"));
            let restored = |bytes: &[u8]| {
                let mut app = App::new(&self.plan, Setup::default()).expect("the app runs");
                app.restore(bytes).expect("the state fits");
                app.snapshot()
            };
            let found = restored(&bytes[reader.position()..]);
            assert!(found == restored(&self.states[epoch as usize]), "{epoch}");
        }

        fn epochs(&self) -> Vec<u64> {
            self.group.find().expect("reads").epochs
        }

        fn path(&self, epoch: u64) -> std::path::PathBuf {
            self.group.snapshot_path(epoch)
        }

        fn length(&self, epoch: u64) -> Length {
            Length::of(&self.group.links(epoch).expect("they fit"))
        }
    }

    #[test]
    fn every_epoch_of_a_chain_can_be_gone_on_from() {
        let mut run = Run::new();
        for epoch in 1..=6 {
            run.save();
            run.check(epoch);
        }
        assert_eq!(run.epochs(), [6, 5, 4, 3, 2, 1]);
        (1..=6).for_each(|epoch| run.check(epoch));
        let length = run.length(6);
        assert_eq!(length.links, 5);
        assert!(length.whole > 0 && length.changes > 0);
    }

    #[test]
    fn changes_are_put_together_by_their_weight_and_at_last_by_their_number() {
        let is_long = |whole: u64, changes: u64, links| {
            let length = Length {
                whole: whole << 20,
                changes: changes << 20,
                links,
            };
            length.is_long()
        };
        assert!(!is_long(1000, 500, LINKS_MAX - 1) && is_long(1000, 501, 1));
        assert!(!is_long(0, 1, LINKS_MAX - 1) && is_long(0, 2, 1));
        assert!(is_long(1000, 0, LINKS_MAX));
    }

    #[test]
    fn what_was_made_whole_needs_nothing_and_lets_the_rest_go() {
        let mut run = Run::new();
        (0..4).for_each(|_| run.save());
        let stop = Arc::default();
        run.group.make_whole(4, &stop).expect("it is put together");
        assert_eq!(run.length(4).links, 0);
        assert_eq!(run.group.composed(), 4);
        (1..=4).for_each(|epoch| run.check(epoch));
        // The epoch before the next one is the one that is whole now.
        run.save();
        assert_eq!(run.epochs(), [5, 4]);
        run.check(5);
        run.save();
        run.check(6);
        assert!(!run.path(6).with_extension("tmp").exists());
    }

    /// `/dev/full` says what a disk without room says.
    #[test]
    fn without_room_all_stays_as_it_was_until_there_is_room() {
        let mut run = Run::new();
        (0..3).for_each(|_| run.save());
        let tmp = run.path(3).with_extension("tmp");
        std::os::unix::fs::symlink("/dev/full", &tmp).expect("a link");
        let stop = Arc::default();
        let error = run.group.make_whole(3, &stop).expect_err("it is full");
        let said = chain(&error);
        assert!(said.contains("No space left"), "{said}");
        assert!(!tmp.exists());
        assert_eq!((run.length(3).links, run.group.composed()), (2, 0));
        (1..=3).for_each(|epoch| run.check(epoch));
        run.group.make_whole(3, &stop).expect("there is room again");
        assert_eq!((run.length(3).links, run.group.composed()), (0, 3));
        run.check(3);
    }

    #[test]
    fn what_is_current_can_be_read_while_a_run_goes_on() {
        let mut run = Run::new();
        run.save();
        let group = run.group.clone();
        let writer = std::thread::spawn(move || {
            for epoch in 2..=60 {
                run.save();
                if epoch % 4 == 0 {
                    let whole = run.group.make_whole(epoch, &Arc::default());
                    whole.expect("it is put together");
                }
            }
            run
        });
        let mut last = 0;
        while !writer.is_finished() {
            let (epoch, _) = group
                .newest()
                .expect("it can be read")
                .expect("there is one");
            assert!(epoch >= last, "{epoch} after {last}");
            last = epoch;
        }
        let run = writer.join().expect("no panic");
        let (epoch, bytes) = group
            .newest()
            .expect("it can be read")
            .expect("there is one");
        assert_eq!((epoch, bytes), (60, run.group.read(60).expect("reads").1));
    }

    #[test]
    fn what_is_not_wanted_any_more_leaves_all_as_it_was() {
        let mut run = Run::new();
        (0..3).for_each(|_| run.save());
        let stop = Arc::new(AtomicBool::new(true));
        assert!(run.group.make_whole(3, &stop).is_err());
        (1..=3).for_each(|epoch| run.check(epoch));
        assert_eq!(run.length(3).links, 2);
    }

    #[test]
    fn an_epoch_is_not_better_than_those_it_follows() {
        let mut run = Run::new();
        (0..4).for_each(|_| run.save());
        let whole = fs::read(run.path(3)).expect("reads");
        let mut bytes = whole.clone();
        *bytes.last_mut().expect("a payload") ^= 1;
        fs::write(run.path(3), bytes).expect("writes");
        let found = run.group.find().expect("reads");
        assert_eq!((found.epochs, found.damage.len()), (vec![2, 1], 2));
        let mut damage = found.damage.iter();
        assert!(damage.any(|damage| damage.cause.contains("since epoch 3")));
        assert!(run.group.read(4).is_err());
        // Nothing is put in place of it that could look sound.
        assert!(run.group.make_whole(4, &Arc::default()).is_err());
        run.check(2);
        fs::remove_file(run.path(3)).expect("removes");
        assert_eq!(run.epochs(), [2, 1]);
        fs::write(run.path(3), &whole[..whole.len() - 1]).expect("writes");
        assert_eq!(run.epochs(), [2, 1]);
        fs::write(run.path(3), &whole).expect("writes");
        assert_eq!(run.epochs(), [4, 3, 2, 1]);
    }

    #[test]
    fn changes_do_not_fit_the_state_of_another_run() {
        let mut run = Run::new();
        (0..2).for_each(|_| run.save());
        run.group.run ^= 1;
        run.save();
        assert_eq!(run.epochs(), [2, 1]);
        assert!(run.group.read(3).is_err());
    }
}
