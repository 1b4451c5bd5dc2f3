//! Saving and restoring everything an app holds.
//!
//! A saved state is a list of named parts: `clock`, `alarms`, each partition's keys, each query's
//! windows, aggregators, limiters and stateful functions, each table. Parts are named by the names
//! of the app (query names, table names), partition and group keys by their text; dense numbers are
//! never written. Rows carry the types they were saved with, so a part that does not fit says so.
//!
//! A state that cannot be read leaves the app without one; it is made anew then.

use event::codec::{Error as StateError, Reader, Writer};

use crate::alarm::Owner;
use crate::app::App;
use crate::component::Key;
use crate::error::RestoreError;
use crate::expr::Site;

/// Version of the whole; parts carry their own.
const VERSION: u32 = 1;

impl App {
    /// All state, as it is between two steps.
    pub fn snapshot(&self) -> Vec<u8> {
        let mut parts: Vec<(String, Vec<u8>)> = Vec::new();
        let mut part = |name: String, write: &mut dyn FnMut(&mut Writer)| {
            let mut writer = Writer::default();
            write(&mut writer);
            parts.push((name, writer.bytes));
        };
        part("clock".into(), &mut |w| self.save_clock(w));
        for partition in &self.partitions {
            part(format!("partition '{}'", partition.name), &mut |w| {
                w.count(partition.live.len());
                for &key in &partition.live {
                    w.str(partition.keys.name(key).map_or("", |(_, text)| text));
                    w.i64(partition.last_used(key));
                }
            });
        }
        part("alarms".into(), &mut |w| {
            self.core
                .alarms
                .save(w, &|owner, key| self.key_text(owner, key));
        });
        for (id, table) in self.core.tables.in_memory() {
            part(format!("table {id}"), &mut |w| table.save(w));
        }
        for at in 0..self.queries.len() {
            let name = format!("query '{}'", self.queries[at].name);
            part(name, &mut |w| self.save_query(at, w));
        }
        let mut writer = Writer::default();
        writer.u32(VERSION);
        writer.count(parts.len());
        for (name, bytes) in parts {
            writer.str(&name);
            writer.blob(&bytes);
        }
        writer.bytes
    }

    fn save_clock(&self, writer: &mut Writer) {
        writer.i64(self.core.clock);
        writer.i64(self.core.wall);
        writer.bool(self.core.is_started);
        writer.u64(self.core.steps);
        writer.u64(self.core.seed);
        writer.bool(self.core.playback.is_some());
        writer.count(self.rows_in.len());
        self.rows_in.iter().for_each(|&n| writer.u64(n));
    }

    /// Text of the key of a timed operator.
    fn key_text(&self, owner: Owner, key: Key) -> String {
        let partition = match owner {
            Owner::Window { query, .. } | Owner::Limiter { query } => self.queries[query].partition,
            Owner::Purge { .. } => None,
        };
        let Some(partition) = partition else {
            return String::new();
        };
        let name = self.partitions[partition].keys.name(key);
        name.map_or_else(String::new, |(_, text)| text.to_owned())
    }

    fn key_name(&self, query: usize, key: Key) -> String {
        self.key_text(Owner::Window { query, side: 0 }, key)
    }

    fn save_query(&self, at: usize, writer: &mut Writer) {
        let keys = self.keys_of(&self.queries[at]);
        let names: Vec<String> = keys.iter().map(|&k| self.key_name(at, k)).collect();
        let query = &self.queries[at];
        writer.count(keys.len());
        for (&key, name) in keys.iter().zip(&names) {
            writer.str(name);
            for chain in query.chains() {
                match chain.operator() {
                    Some((name, window, _)) => {
                        writer.str(name);
                        writer.section(|w| window.save(key, w));
                    }
                    None => writer.str(""),
                }
            }
            match &query.limiter {
                Some(limiter) => writer.section(|w| limiter.save(key, w)),
                None => writer.section(|_| {}),
            }
        }
        let groups: Vec<(u32, Key, String)> = query
            .selector
            .groups
            .all()
            .map(|(group, key, text)| (group, key, text.to_owned()))
            .collect();
        let key_at = |key: Key| keys.iter().position(|k| *k == key).unwrap_or(0);
        writer.count(groups.len());
        for (group, key, text) in &groups {
            writer.count(key_at(*key));
            writer.str(text);
            writer.section(|w| {
                for site in query.selector.all_sites() {
                    if let Site::Aggregate(site) = site {
                        w.section(|w| site.aggregate.save(*group, w));
                    }
                }
            });
        }
        // Running aggregators of filters have one state per partition key.
        for (at, &key) in keys.iter().enumerate() {
            writer.count(at);
            for chain in query.chains() {
                for stage in chain.stages() {
                    for site in stage.sites() {
                        if let Site::Aggregate(site) = site {
                            writer.section(|w| site.aggregate.save(key, w));
                        }
                    }
                }
            }
        }
        query.expressions().for_each(|e| e.root.save(writer));
    }

    /// Takes a saved state back, whatever the app held before. On an error it holds nothing of use:
    /// make it anew.
    pub fn restore(&mut self, saved: &[u8]) -> Result<(), RestoreError> {
        let mut reader = Reader::new(saved);
        let version = reader.u32()?;
        if version != VERSION {
            return Err(RestoreError::Version {
                found: version,
                expected: VERSION,
            });
        }
        self.forget_all();
        let count = reader.count()?;
        for _ in 0..count {
            let name = reader.str()?.to_owned();
            let bytes = reader.blob()?;
            let known = self.restore_part(&name, &mut Reader::new(bytes));
            let known = known.map_err(|cause| RestoreError::Part {
                part: name.clone(),
                cause,
            })?;
            if !known {
                return Err(RestoreError::Extra { part: name });
            }
        }
        Ok(())
    }

    /// Drops the state of every query; tables and alarms are replaced as a whole.
    fn forget_all(&mut self) {
        self.deferred.clear();
        for at in 0..self.queries.len() {
            for key in self.keys_of(&self.queries[at]) {
                self.queries[at].remove(key, &mut self.core.alarms);
            }
        }
        for partition in &mut self.partitions {
            partition.forget_all();
        }
    }

    /// False where the app has no such part.
    fn restore_part(&mut self, name: &str, reader: &mut Reader<'_>) -> Result<bool, StateError> {
        if name == "clock" {
            self.restore_clock(reader)?;
            return Ok(true);
        }
        if name == "alarms" {
            let alarms = self.core.alarms.restored(reader, &|owner, text| {
                let partition = match owner {
                    Owner::Window { query, .. } | Owner::Limiter { query } => {
                        self.queries[query].partition
                    }
                    Owner::Purge { .. } => None,
                };
                match partition {
                    None => Some(0),
                    Some(p) => {
                        let mut all = self.partitions[p].keys.all();
                        all.find(|(_, _, t)| *t == text).map(|(key, ..)| key)
                    }
                }
            })?;
            self.core.alarms = alarms;
            return Ok(true);
        }
        for at in 0..self.partitions.len() {
            if name == format!("partition '{}'", self.partitions[at].name) {
                let partition = &mut self.partitions[at];
                for _ in 0..reader.count()? {
                    let key = partition.keys.intern(0, reader.str()?);
                    partition.touch(key, reader.i64()?);
                }
                return Ok(true);
            }
        }
        let tables: Vec<usize> = self.core.tables.in_memory().map(|(id, _)| id).collect();
        for id in tables {
            if name == format!("table {id}") {
                let table = self.core.tables.memory(id).restored(reader)?;
                self.core.tables.replace(id, table);
                return Ok(true);
            }
        }
        for at in 0..self.queries.len() {
            if name == format!("query '{}'", self.queries[at].name) {
                self.restore_query(at, reader)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn restore_clock(&mut self, reader: &mut Reader<'_>) -> Result<(), StateError> {
        self.core.clock = reader.i64()?;
        self.core.wall = reader.i64()?;
        self.core.is_started = reader.bool()?;
        self.core.steps = reader.u64()?;
        self.core.seed = reader.u64()?;
        // Playback may have been switched while the app ran.
        self.core.playback = match (reader.bool()?, self.core.playback) {
            (true, own) => Some(own.unwrap_or_default()),
            (false, _) => None,
        };
        let count = reader.count()?;
        if count != self.rows_in.len() {
            return Err(StateError::Mismatch(format!(
                "{count} streams, expected {}",
                self.rows_in.len()
            )));
        }
        for rows in &mut self.rows_in {
            *rows = reader.u64()?;
        }
        Ok(())
    }

    fn restore_query(&mut self, at: usize, reader: &mut Reader<'_>) -> Result<(), StateError> {
        let partition = self.queries[at].partition;
        let mut keys = Vec::new();
        for _ in 0..reader.count()? {
            let text = reader.str()?;
            let key = match partition {
                Some(p) => self.partitions[p].keys.intern(0, text),
                None => 0,
            };
            keys.push(key);
            let query = &mut self.queries[at];
            let types = query.selector.types();
            for chain in query.chains_mut() {
                let name = reader.str()?;
                let own = chain.operator().map_or("", |(name, ..)| name);
                if name != own {
                    return Err(StateError::Mismatch(format!(
                        "window '{name}', expected '{own}'"
                    )));
                }
                if let Some(window) = chain.operator_mut() {
                    window.restore(key, &mut reader.section()?)?;
                }
            }
            let mut section = reader.section()?;
            if let Some(limiter) = &mut query.limiter {
                limiter.restore(key, &mut section, &types)?;
            }
        }
        let query = &mut self.queries[at];
        for _ in 0..reader.count()? {
            // Not a count of bytes that follow, so it is checked against the keys instead.
            let index = reader.u64()? as usize;
            let key = keys.get(index).copied();
            let key = key.ok_or_else(|| StateError::Mismatch("a group of no key".into()))?;
            let group = query.selector.groups.intern(key, reader.str()?);
            let mut section = reader.section()?;
            for site in query.selector.all_sites_mut() {
                if let Site::Aggregate(site) = site {
                    site.aggregate.restore(group, &mut section.section()?)?;
                }
            }
        }
        for &key in &keys {
            reader.u64()?;
            for chain in query.chains_mut() {
                for stage in chain.stages_mut() {
                    for site in stage.sites_mut() {
                        if let Site::Aggregate(site) = site {
                            site.aggregate.restore(key, &mut reader.section()?)?;
                        }
                    }
                }
            }
        }
        query.restore_expressions(reader)
    }
}
