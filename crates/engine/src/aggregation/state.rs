//! Saving and restoring open buckets; closed ones are saved with their tables.

use event::codec::{Error as StateError, Reader, Writer};
use event::{Batch, Chunks, Times};

use super::Aggregation;
use crate::expr::Site;

impl Aggregation {
    pub fn save(&self, writer: &mut Writer) {
        writer.u8(2);
        writer.bool(self.is_rebuilt);
        writer.bool(self.is_purge_armed);
        writer.bool(self.is_purge_halted);
        writer.i64(self.purge_base);
        writer.count(self.levels.len());
        for level in &self.levels {
            writer.bool(level.is_armed);
            writer.i64(level.bucket);
            writer.i64(level.start);
            writer.i64(level.end);
            let (columns, rows) = (level.cells.rows(level.bucket), level.cells.len());
            let times = Times::Same(level.bucket);
            writer.rows(&Batch::new(columns, rows, times, Chunks::One, 0));
        }
        for site in &self.sites {
            if let Site::Aggregate(site) = site {
                writer.section(|w| site.aggregate.save(0, w));
            }
        }
        for stage in self.chain.stages() {
            for site in stage.sites() {
                if let Site::Aggregate(site) = site {
                    writer.section(|w| site.aggregate.save(0, w));
                }
            }
        }
    }

    pub fn restore(&mut self, reader: &mut Reader<'_>) -> Result<(), StateError> {
        let version = reader.u8()?;
        if !(1..=2).contains(&version) {
            let found = format!("an aggregation of format {version}, expected 1 or 2");
            return Err(StateError::Mismatch(found));
        }
        self.is_rebuilt = reader.bool()?;
        self.is_purge_armed = reader.bool()?;
        self.is_purge_halted = version > 1 && reader.bool()?;
        self.purge_base = reader.i64()?;
        let count = reader.count()?;
        if count != self.levels.len() {
            return Err(StateError::Mismatch(format!(
                "{count} durations, expected {}",
                self.levels.len()
            )));
        }
        let types = self.shape.types();
        for level in 0..count {
            let this = &mut self.levels[level];
            this.is_armed = reader.bool()?;
            this.bucket = reader.i64()?;
            this.start = reader.i64()?;
            this.end = reader.i64()?;
            this.cells.clear();
            let rows = reader.rows(&types, 0)?;
            self.add_rows(level, &rows.columns);
        }
        for site in &mut self.sites {
            if let Site::Aggregate(site) = site {
                site.aggregate.restore(0, &mut reader.section()?)?;
            }
        }
        for stage in self.chain.stages_mut() {
            for site in stage.sites_mut() {
                if let Site::Aggregate(site) = site {
                    site.aggregate.restore(0, &mut reader.section()?)?;
                }
            }
        }
        Ok(())
    }
}
