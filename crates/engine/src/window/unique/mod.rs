//! `unique:` windows, which hold one row for each key.
//!
//! Keys are compared by their text. Where Siddhi gathers rows in a hash map, they come in that map's
//! order here too; pending rows belong to the partition key (in Siddhi all keys of a partition share
//! them).

mod batch;
mod external_time_batch;
mod length;
mod length_batch;
mod one_of_key;
mod params;
mod time;
mod time_batch;
mod time_length_batch;

pub use external_time_batch::ExternalTimeBatch;
pub use length::Length;
pub use length_batch::{FirstLengthBatch, LengthBatch};
pub use one_of_key::{EVER, FIRST};
pub use time::Time;
pub use time_batch::{FirstTimeBatch, TimeBatch};
pub use time_length_batch::TimeLengthBatch;

use event::codec::{Error as StateError, Reader, Writer};

use super::key_map::KeyMap;
use super::pool::{Pool, SavedRows, Slot};
use super::store::RowTypes;
use crate::component::{Failure, WindowContext};
use crate::emission::Emission;

/// A row of each key.
struct Newest {
    pool: Pool,
    keys: KeyMap<Slot>,
}

impl super::per_key::Stored for Newest {
    fn new(types: &RowTypes) -> Newest {
        Newest {
            pool: Pool::new(types),
            keys: KeyMap::default(),
        }
    }

    fn bytes(&self) -> usize {
        self.pool.bytes() + self.keys.bytes()
    }

    fn save(&self, _types: &RowTypes, writer: &mut Writer) {
        writer.rows(&self.pool.rows(self.keys.iter().map(|(_, slot)| *slot)));
        self.keys.save(writer, |_, _| {});
    }

    fn restore(types: &RowTypes, reader: &mut Reader<'_>) -> Result<Newest, StateError> {
        let rows = reader.rows(types, 0)?;
        let mut next = 0;
        let keys = KeyMap::restore(reader, |_| {
            next += 1;
            Ok(next - 1)
        })?;
        super::expect_rows(rows.len, keys.len())?;
        Ok(Newest {
            pool: Pool::of(types, rows),
            keys,
        })
    }
}

/// The slot of each key, by the number under which its row is saved.
fn save_slots(keys: &KeyMap<Slot>, rows: &SavedRows, writer: &mut Writer) {
    keys.save(writer, |slot, w| w.u32(rows.number(*slot)));
}

/// The keys of a restored pool of `rows` rows.
fn restore_slots(reader: &mut Reader<'_>, rows: usize) -> Result<KeyMap<Slot>, StateError> {
    KeyMap::restore(reader, |r| {
        let slot = r.u32()?;
        if (slot as usize) < rows {
            return Ok(slot);
        }
        Err(StateError::Mismatch("a row that is not there".into()))
    })
}

/// A row without a key fails, and its chunk with it.
fn fail_key(window: &str, row: usize, context: &mut WindowContext<'_>, out: &mut Emission) {
    context.failures.push(Failure {
        row: row as u32,
        message: format!("the key of window 'unique:{window}' is null"),
    });
    out.abandon_chunk();
}
