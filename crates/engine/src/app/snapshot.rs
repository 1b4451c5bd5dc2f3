//! Saving and restoring everything an app holds.
//!
//! A saved state is a list of named pieces: the clocks, each partition's keys, the timers, each
//! table, each query with its windows, aggregators, limiters and stateful functions. A piece carries
//! what its form depends on as text, so that an app that was edited meanwhile takes back what still
//! fits and names the rest (`fit`). Keys of partitions and groups are saved by their text. Rows carry
//! the types they were saved with.
//!
//! A save writes all of it, or what has changed since the save before: pieces that nothing has
//! touched by their name alone, and of those that keep something by key the keys that are dirty.
//! [`crate::compose`] lays such increments over what was saved before them (`snapshot_format`). Dense numbers say which
//! key of an increment is which, within one run of the app; a restored app gives its own.
//!
//! A state that cannot be read leaves the app without one; it is made anew then.

mod listing;
mod query;
mod state_matching;

pub use listing::{SavedElement, SavedTable, saved_elements, saved_table};
pub(crate) use state_matching::Unbegun;
pub use state_matching::{Dropped, StateMatching, state_len};

use std::collections::HashMap;

use event::codec::{Error as StateError, Reader, Writer};
use plan::state::State;
use plan::{Plan, Playback};

use crate::app::App;
use crate::component::Key;
use crate::error::RestoreError;
use crate::named::NamedWindow;
use crate::snapshot_format::{self as format, Extent, Fields};
use crate::timers::Owner;
use state_matching::{Pairs, Saved};

/// A piece of an app's state. Partitions come before what is saved by their keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Piece {
    Clock,
    Partition(usize),
    Timers,
    Table(usize),
    Window(usize),
    Aggregation(usize),
    Query(usize),
}

/// What the state of each element of an app looks like, by partition, table, window and query.
#[derive(Default)]
pub(crate) struct Shapes {
    partitions: Vec<State>,
    /// With their names.
    tables: Vec<(String, State)>,
    windows: Vec<State>,
    aggregations: Vec<State>,
    queries: Vec<State>,
}

impl Shapes {
    pub fn of(plan: &Plan) -> Shapes {
        Shapes {
            partitions: (0..plan.partitions.len())
                .map(|id| plan::state::partition_state(plan, id))
                .collect(),
            tables: (0..plan.tables.len())
                .map(|id| {
                    let name = plan.tables[id].schema.name.clone();
                    (name, plan::state::table_state(plan, id))
                })
                .collect(),
            windows: (0..plan.windows.len())
                .map(|id| plan::state::window_state(plan, id))
                .collect(),
            aggregations: (0..plan.aggregations.len())
                .map(|id| plan::state::aggregation_state(plan, id))
                .collect(),
            queries: (0..plan.queries.len())
                .map(|id| plan::state::query_state(plan, id))
                .collect(),
        }
    }
}

impl App {
    /// All state, as it is between two steps.
    pub fn snapshot(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        self.save(&mut writer);
        writer.bytes
    }

    /// As [`App::snapshot`], to a writer that may hand the bytes on as they come.
    pub fn save(&self, writer: &mut Writer) {
        self.save_extent(writer, Extent::All);
    }

    /// Has something changed that no mark tells, so that all must be saved? A list or map that functions
    /// change in place may lie in any table, window or group.
    pub fn must_be_saved_whole(&self) -> bool {
        event::objects_changed() != self.objects_saved
    }

    /// What has changed since the last [`App::mark_saved`], for [`crate::compose`] to lay over what was
    /// saved then. Since the app was made or restored there must have been one.
    pub fn save_changes(&self, writer: &mut Writer) {
        debug_assert!(self.marks_changes, "changes of an app that was not saved");
        self.save_extent(writer, Extent::Changes);
    }

    /// What was just saved, all or changes, is what the next changes are saved over. Without this
    /// call they include those before.
    pub fn mark_saved(&mut self) {
        for partition in &mut self.partitions {
            partition.mark_saved();
        }
        self.core.timers.mark_saved();
        self.core.tables.mark_saved();
        self.core
            .windows
            .iter_mut()
            .for_each(NamedWindow::mark_saved);
        for aggregation in &mut self.core.aggregations {
            aggregation.is_dirty = false;
        }
        for at in 0..self.queries.len() {
            self.mark_query_saved(at);
        }
        self.marks_changes = true;
        self.objects_saved = event::objects_changed();
    }

    fn save_extent(&self, writer: &mut Writer, extent: Extent) {
        format::begin(writer);
        for piece in self.pieces() {
            let name = self.name_of(piece);
            match extent {
                Extent::All => format::whole_piece(writer, &name, &self.state_of(piece)),
                Extent::Changes if self.is_dirty(piece) => format::changed_piece(writer, &name),
                Extent::Changes => {
                    format::same_piece(writer, &name);
                    continue;
                }
            }
            self.save_piece(piece, writer, extent);
        }
        format::end(writer);
    }

    /// May a piece have changed since it was saved?
    fn is_dirty(&self, piece: Piece) -> bool {
        match piece {
            Piece::Clock => true,
            Piece::Partition(id) => self.partitions[id].is_dirty(),
            Piece::Timers => self.core.timers.is_dirty(),
            Piece::Table(id) => self.core.tables.memory(id).is_dirty(),
            Piece::Window(id) => self.core.windows.get(id).is_dirty(),
            Piece::Aggregation(id) => self.core.aggregations[id].is_dirty,
            Piece::Query(id) => {
                let query = &self.queries[id];
                query.dirty.is_any() || query.selector.dirty.is_any()
            }
        }
    }

    fn pieces(&self) -> Vec<Piece> {
        let mut pieces = vec![Piece::Clock];
        pieces.extend((0..self.partitions.len()).map(Piece::Partition));
        pieces.push(Piece::Timers);
        pieces.extend(self.core.tables.in_memory().map(|(id, _)| Piece::Table(id)));
        pieces.extend((0..self.shapes.windows.len()).map(Piece::Window));
        pieces.extend((0..self.shapes.aggregations.len()).map(Piece::Aggregation));
        pieces.extend((0..self.queries.len()).map(Piece::Query));
        pieces
    }

    fn name_of(&self, piece: Piece) -> String {
        match piece {
            Piece::Clock => "clock".to_owned(),
            Piece::Timers => "alarms".to_owned(),
            Piece::Partition(id) => format!("partition '{}'", self.partitions[id].name),
            Piece::Table(id) => format!("table '{}'", self.shapes.tables[id].0),
            Piece::Window(id) => format!("window '{}'", self.core.windows.get(id).name),
            Piece::Aggregation(id) => {
                format!("aggregation '{}'", self.core.aggregations[id].name)
            }
            Piece::Query(id) => format!("query '{}'", self.queries[id].name),
        }
    }

    /// What a piece looks like; a query also depends on the columns its windows keep, and on the
    /// keys of its partition.
    fn state_of(&self, piece: Piece) -> State {
        match piece {
            Piece::Clock | Piece::Timers => State::default(),
            Piece::Partition(id) => self.shapes.partitions[id].clone(),
            Piece::Table(id) => self.shapes.tables[id].1.clone(),
            Piece::Window(id) => self.shapes.windows[id].clone(),
            Piece::Aggregation(id) => self.shapes.aggregations[id].clone(),
            Piece::Query(id) => {
                let mut state = self.shapes.queries[id].clone();
                let query = &self.queries[id];
                for chain in query.chains() {
                    state.shape.push_str(chain.kept());
                    state.shape.push('\n');
                }
                if let Some(pattern) = query.pattern() {
                    state.shape.push_str(&pattern.kept());
                    state.shape.push('\n');
                }
                if let Some(partition) = query.partition {
                    state
                        .shape
                        .push_str(&self.shapes.partitions[partition].shape);
                }
                state
            }
        }
    }

    fn save_piece(&self, piece: Piece, writer: &mut Writer, extent: Extent) {
        match piece {
            Piece::Clock => format::blob(writer, |w| self.save_clock(w)),
            Piece::Partition(id) => self.partitions[id].save(writer, extent),
            Piece::Timers => self.core.timers.save(
                writer,
                extent,
                &|owner| self.label(owner, &|piece| Some(self.name_of(piece))),
                &|owner, key| self.key_text(owner, key),
            ),
            Piece::Table(id) => self.core.tables.memory(id).save(writer, extent),
            Piece::Window(id) => self.core.windows.get(id).save(writer, extent),
            Piece::Aggregation(id) => {
                format::blob(writer, |w| self.core.aggregations[id].save(w));
            }
            Piece::Query(id) => self.save_query(id, writer, extent),
        }
    }

    fn save_clock(&self, writer: &mut Writer) {
        writer.i64(self.core.clock);
        writer.i64(self.core.wall);
        writer.bool(self.core.is_started);
        writer.u64(self.core.steps);
        writer.u64(self.core.seed);
        writer.bool(self.core.playback.is_some());
        let idle = self.core.playback.and_then(|p| p.idle);
        writer.bool(idle.is_some());
        let (idle, increment) = idle.unwrap_or_default();
        writer.i64(idle);
        writer.i64(increment);
        writer.i64(self.core.clock_set_at);
        writer.count(self.rows_in.len());
        for (stream, &rows) in self.rows_in.iter().enumerate() {
            writer.str(self.stream_name(stream));
            writer.u64(rows);
        }
    }

    /// Names a timed operator by its element, whose name `name` gives.
    fn label(&self, owner: Owner, name: &dyn Fn(Piece) -> Option<String>) -> Option<String> {
        Some(match owner {
            Owner::Window { query, side } => {
                format!("window {side} of {}", name(Piece::Query(query))?)
            }
            Owner::Job { query, side } => {
                format!("job {side} of {}", name(Piece::Query(query))?)
            }
            Owner::Absent { query, state } => {
                format!("absent {state} of {}", name(Piece::Query(query))?)
            }
            Owner::Stage { query, side, stage } => {
                format!("stage {side}.{stage} of {}", name(Piece::Query(query))?)
            }
            Owner::Limiter { query } => format!("limiter of {}", name(Piece::Query(query))?),
            Owner::Named { window } => name(Piece::Window(window))?,
            Owner::Trigger { trigger } => format!("trigger '{}'", self.triggers.name(trigger)),
            Owner::Idle => "the idle time of playback".to_owned(),
            Owner::Aggregation { aggregation, level } => {
                format!(
                    "bucket {level} of {}",
                    name(Piece::Aggregation(aggregation))?
                )
            }
            Owner::AggregationPurge { aggregation } => {
                format!("purge of {}", name(Piece::Aggregation(aggregation))?)
            }
            Owner::Purge { partition } => {
                format!("purge of {}", name(Piece::Partition(partition))?)
            }
        })
    }

    /// The partition whose keys a timed operator has its deadlines by.
    fn partition_of(&self, owner: Owner) -> Option<usize> {
        match owner {
            Owner::Window { query, .. }
            | Owner::Stage { query, .. }
            | Owner::Absent { query, .. }
            | Owner::Limiter { query } => self.queries[query].partition,
            Owner::Purge { .. }
            | Owner::Job { .. }
            | Owner::Named { .. }
            | Owner::Trigger { .. }
            | Owner::Idle
            | Owner::Aggregation { .. }
            | Owner::AggregationPurge { .. } => None,
        }
    }

    /// Text of the key of a timed operator.
    fn key_text(&self, owner: Owner, key: Key) -> String {
        let Some(partition) = self.partition_of(owner) else {
            return String::new();
        };
        let name = self.partitions[partition].keys.name(key);
        name.map_or_else(String::new, |(_, text)| text.into_owned())
    }

    fn key_name(&self, query: usize, key: Key) -> String {
        self.key_text(Owner::Window { query, side: 0 }, key)
    }

    /// What of a saved state this app would take back, and what not. Nothing changes.
    pub fn match_state(&self, saved: &[u8]) -> Result<StateMatching, RestoreError> {
        let saved = Saved::read_all(saved)?;
        Ok(self.pair(&saved).matching)
    }

    /// Takes a saved state back whole, whatever the app held before. On an error it holds nothing of
    /// use: make it anew.
    pub fn restore(&mut self, saved: &[u8]) -> Result<(), RestoreError> {
        let matching = self.restore_what_fits(saved)?;
        match matching.dropped.into_iter().next() {
            None => Ok(()),
            Some(dropped) => Err(RestoreError::Extra {
                part: dropped.element,
            }),
        }
    }

    /// Takes back what fits; windows and limiters of elements that had no state begin with the next
    /// [`crate::Input::Start`].
    pub fn restore_what_fits(&mut self, saved: &[u8]) -> Result<StateMatching, RestoreError> {
        let saved = Saved::read_all(saved)?;
        let pairs = self.pair(&saved);
        self.marks_changes = false;
        self.forget_all();
        for (piece, at) in &pairs.pieces {
            let Some(at) = at else { continue };
            let mut fields = Fields::new(saved[*at].fields.clone());
            self.restore_piece(*piece, &mut fields, &saved, &pairs)
                .map_err(|cause| RestoreError::Part {
                    part: saved[*at].name.to_owned(),
                    cause,
                })?;
        }
        self.unbegun = pairs.unbegun();
        Ok(pairs.matching)
    }

    /// Drops the state of every query; tables and timers are replaced as a whole.
    fn forget_all(&mut self) {
        self.deferred.clear();
        for at in 0..self.queries.len() {
            for key in self.keys_of(&self.queries[at]) {
                self.queries[at].remove(key, &mut self.core.timers);
            }
        }
        for window in self.core.windows.iter_mut() {
            window.remove(&mut self.core.timers);
        }
        for partition in &mut self.partitions {
            partition.forget_all();
        }
    }

    fn restore_piece(
        &mut self,
        piece: Piece,
        fields: &mut Fields<'_>,
        saved: &[Saved<'_>],
        pairs: &Pairs,
    ) -> Result<(), StateError> {
        match piece {
            Piece::Clock => self.restore_clock(&mut fields.blob()?),
            Piece::Partition(id) => self.partitions[id].restore(fields),
            Piece::Timers => {
                let name = |piece| Some(saved[pairs.of(piece)?].name.to_owned());
                let key_of = |owner, text: &str| match self.partition_of(owner) {
                    None => Some(0),
                    Some(partition) => self.partitions[partition].keys.find(0, text),
                };
                self.core.timers = self.core.timers.restored(
                    fields,
                    &|owner| self.label(owner, &name),
                    &key_of,
                )?;
                let is_live = self.core.playback.is_none();
                let clocks = [is_live.then_some(self.core.clock), Some(self.core.wall)];
                self.core.timers.check(clocks)
            }
            Piece::Table(id) => {
                let table = self.core.tables.memory(id).restored(fields)?;
                self.core.tables.replace(id, table);
                Ok(())
            }
            Piece::Window(id) => self.core.windows.get_mut(id).restore(fields),
            Piece::Aggregation(id) => self.core.aggregations[id].restore(&mut fields.blob()?),
            Piece::Query(id) => self.restore_query(id, fields),
        }
    }

    fn restore_clock(&mut self, reader: &mut Reader<'_>) -> Result<(), StateError> {
        self.core.clock = reader.i64()?;
        self.core.wall = reader.i64()?;
        // Both begin at 0 and go on; timers would be made up for from whatever they say.
        if self.core.clock < 0 || self.core.wall < 0 {
            let what = format!("clocks at {} and {}", self.core.clock, self.core.wall);
            return Err(StateError::Mismatch(what));
        }
        self.core.is_started = reader.bool()?;
        self.core.steps = reader.u64()?;
        self.core.seed = reader.u64()?;
        // Playback may have been switched while the app ran.
        let (is_on, is_idle) = (reader.bool()?, reader.bool()?);
        let idle = (reader.i64()?, reader.i64()?);
        self.core.playback = is_on.then_some(Playback {
            idle: is_idle.then_some(idle),
        });
        self.add_idle_timer();
        self.core.clock_set_at = reader.i64()?;
        let mut counts = HashMap::new();
        for _ in 0..reader.count()? {
            counts.insert(reader.str()?.to_owned(), reader.u64()?);
        }
        for stream in 0..self.rows_in.len() {
            self.rows_in[stream] = counts.get(self.stream_name(stream)).copied().unwrap_or(0);
        }
        Ok(())
    }
}
