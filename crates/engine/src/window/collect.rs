//! The rows of a batch window: those being collected, and the batch before.

use std::cell::Cell;
use std::sync::Arc;

use event::Batch;
use event::codec::{Error as StateError, Reader, Writer};

use super::held::Held;
use super::index::Indexes;
use super::store::{RowTypes, Rows, batch_bytes, joined};
use crate::component::WindowSetup;
use crate::emission::Emission;

/// What becomes of a batch after it was emitted.
#[derive(Clone, Copy, Debug)]
pub struct Keeping {
    /// It is emitted again as EXPIRED.
    pub emits_expired: bool,
    /// It is kept, to expire or to be found by joins.
    pub keeps: bool,
    /// Siddhi's defect: where nobody asks for EXPIRED rows, what joins find is never cleared.
    pub grows: bool,
}

impl Keeping {
    pub fn new(setup: &WindowSetup<'_>) -> Keeping {
        Keeping {
            emits_expired: setup.expired_wanted,
            keeps: setup.expired_wanted || setup.is_searched,
            grows: setup.environment.compat && !setup.expired_wanted,
        }
    }
}

/// Rows of one key. Batches that were emitted are shared with what was emitted, not copied.
#[derive(Debug)]
pub struct Collect {
    types: RowTypes,
    pub current: Rows,
    previous: Vec<Batch>,
    /// Rows that `previous` has had before: the number of its first row.
    gone: u64,
    /// Rows of the batch before, or of the one so far where events pass at once, that a search has
    /// gone through: Siddhi's queue then stands behind them, so that they expire with their own
    /// timestamps.
    searched: Cell<usize>,
    indexes: Indexes,
}

impl Collect {
    pub fn new(types: &RowTypes) -> Collect {
        Collect {
            types: Arc::clone(types),
            current: Rows::new(types),
            previous: Vec::new(),
            gone: 0,
            searched: Cell::new(0),
            indexes: Indexes::default(),
        }
    }

    /// `[E…, R, C…]` into the open chunk: the batch before, if wanted, and the one collected. An
    /// empty batch has no RESET. The times are those of the EXPIRED rows and of the RESET.
    pub fn flush(&mut self, keeping: Keeping, times: [i64; 2], out: &mut Emission) {
        let [expired, reset] = times;
        self.expire(keeping, expired, out);
        if !self.current.is_empty() {
            out.reset(reset);
            self.emit(keeping.keeps, out);
        }
    }

    /// The batch before leaves.
    pub fn expire(&mut self, keeping: Keeping, time: i64, out: &mut Emission) {
        if keeping.emits_expired {
            let mut searched = self.searched.get();
            for batch in &self.previous {
                let source = out.source(batch);
                let own = searched.min(batch.len);
                out.push(source, 0..own, true, None);
                out.push(source, own..batch.len, true, Some(time));
                searched -= own;
            }
        }
        if !keeping.grows {
            self.forget_previous();
        }
    }

    /// What was collected is the batch before from now on, without being emitted.
    pub fn pass_by(&mut self) {
        if !self.current.is_empty() {
            let passed = self.current.take();
            self.previous.push(passed);
        }
    }

    /// There is no batch before any more.
    pub fn forget_previous(&mut self) {
        self.gone += self.previous_len() as u64;
        self.previous.clear();
        self.searched.set(0);
    }

    /// The batch before, once more, without forgetting it.
    pub fn emit_previous(&self, is_expired: bool, time: Option<i64>, out: &mut Emission) {
        for batch in &self.previous {
            let source = out.source(batch);
            out.push(source, 0..batch.len, is_expired, time);
        }
    }

    /// What was collected leaves as CURRENT and is, if kept, the batch before from now on.
    pub fn emit(&mut self, keeps: bool, out: &mut Emission) {
        let batch = self.current.take();
        let source = out.source(&batch);
        out.current(source, 0..batch.len);
        if keeps {
            self.previous.push(batch);
        }
    }

    /// The batch before, as one.
    pub fn content(&self) -> Batch {
        let parts: Vec<_> = self
            .previous
            .iter()
            .map(|b| (b.clone(), 0..b.len))
            .collect();
        joined(&self.types, &parts)
    }

    /// Where events pass at once: the batch so far, with compat behind all that came before it.
    pub fn so_far(&self, keeping: Keeping) -> Batch {
        let current = self.current.copy();
        self.searched.set(current.len);
        if !keeping.grows {
            return current;
        }
        let previous = self.previous.iter().map(|b| (b.clone(), 0..b.len));
        let len = current.len;
        let parts: Vec<_> = previous.chain([(current, 0..len)]).collect();
        joined(&self.types, &parts)
    }

    /// The batch before, to be looked into by a search that is noted.
    pub fn searched(&self) -> Held<'_> {
        self.searched.set(self.previous_len());
        self.held()
    }

    /// The batch before, to be looked into.
    pub fn held(&self) -> Held<'_> {
        Held::numbered(self.content(), self.gone, &self.indexes)
    }

    pub fn has_previous(&self) -> bool {
        !self.previous.is_empty()
    }

    pub fn previous_len(&self) -> usize {
        self.previous.iter().map(|b| b.len).sum()
    }

    pub fn bytes(&self) -> usize {
        let previous = self.previous.iter().map(batch_bytes).sum::<usize>();
        self.current.bytes() + previous + self.indexes.bytes()
    }

    pub fn save(&self, writer: &mut Writer) {
        self.current.save(writer);
        writer.rows(&self.content());
        writer.u64(self.searched.get() as u64);
    }

    pub fn restore(types: &RowTypes, reader: &mut Reader<'_>) -> Result<Collect, StateError> {
        let current = Rows::restore(types, reader)?;
        let previous = reader.rows(types, 0)?;
        let mut collect = Collect::new(types);
        collect.current = current;
        if previous.len > 0 {
            collect.previous.push(previous);
        }
        let searched = usize::try_from(reader.u64()?).unwrap_or(usize::MAX);
        collect.searched.set(searched);
        Ok(collect)
    }
}
