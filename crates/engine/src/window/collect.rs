//! The rows of a batch window: those being collected, and the batch before.

use std::sync::Arc;

use event::Batch;
use event::codec::{Error as StateError, Reader, Writer};

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
    pub previous: Vec<Batch>,
}

impl Collect {
    pub fn new(types: &RowTypes) -> Collect {
        Collect {
            types: Arc::clone(types),
            current: Rows::new(types),
            previous: Vec::new(),
        }
    }

    /// `[E…, R, C…]` into the open chunk: the batch before, if wanted, and the one collected. An
    /// empty batch has no RESET.
    pub fn flush(&mut self, keeping: Keeping, time: i64, out: &mut Emission) {
        self.expire(keeping, time, out);
        if !self.current.is_empty() {
            out.reset();
            self.emit(keeping.keeps, out);
        }
    }

    /// The batch before leaves.
    pub fn expire(&mut self, keeping: Keeping, time: i64, out: &mut Emission) {
        if keeping.emits_expired {
            self.emit_previous(true, Some(time), out);
        }
        if !keeping.grows {
            self.previous.clear();
        }
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

    pub fn previous_len(&self) -> usize {
        self.previous.iter().map(|b| b.len).sum()
    }

    pub fn bytes(&self) -> usize {
        self.current.bytes() + self.previous.iter().map(batch_bytes).sum::<usize>()
    }

    pub fn save(&self, writer: &mut Writer) {
        self.current.save(writer);
        writer.rows(&self.content());
    }

    pub fn restore(types: &RowTypes, reader: &mut Reader<'_>) -> Result<Collect, StateError> {
        let current = Rows::restore(types, reader)?;
        let previous = reader.rows(types, 0)?;
        Ok(Collect {
            types: Arc::clone(types),
            current,
            previous: if previous.len > 0 {
                vec![previous]
            } else {
                Vec::new()
            },
        })
    }
}
