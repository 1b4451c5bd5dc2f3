//! The state of a query: a list of its keys, one of its groups, one of the segments of its windows,
//! and what its functions and patterns keep for no key.

use event::codec::{Error as StateError, Reader, Writer};

use crate::app::App;
use crate::component::Key;
use crate::expr::Site;
use crate::query::{Query, Stage};
use crate::snapshot_format::{self as format, Extent, Fields, Id, List};

/// Number of a segment of the window on a side, for a key.
fn segment_id(key: Key, side: u8, number: u64) -> Id {
    Id::from(key) << 72 | Id::from(side) << 64 | Id::from(number)
}

/// Key and side of such a number.
fn place_of(segment: Id) -> (Id, usize) {
    (segment >> 72, (segment >> 64 & 0xff) as usize)
}

impl App {
    /// Keys to be saved, in the order of their numbers.
    fn keys_to_save(&self, query: &Query, extent: Extent) -> Vec<Key> {
        match (extent, query.partition) {
            (Extent::Changes, _) => query.dirty.iter().collect(),
            (Extent::All, Some(partition)) => self.partitions[partition].live_by_number(),
            (Extent::All, None) => vec![0],
        }
    }

    fn is_live(&self, query: &Query, key: Key) -> bool {
        match query.partition {
            Some(partition) => self.partitions[partition].is_live(key),
            None => key == 0,
        }
    }

    pub(super) fn save_query(&self, at: usize, writer: &mut Writer, extent: Extent) {
        let query = &self.queries[at];
        let keys = self.keys_to_save(query, extent);
        let mut list = List::new(writer, extent);
        for &key in &keys {
            let id = Id::from(key);
            if self.is_live(query, key) {
                let name = self.key_name(at, key);
                list.entry(id, |w| save_key(query, key, &name, w));
            } else {
                list.gone(id..id + 1);
            }
        }
        list.end();
        let mut list = List::new(writer, extent);
        query.selector.save_groups(&mut list, extent);
        list.end();
        let mut list = List::new(writer, extent);
        for &key in &keys {
            for (side, chain) in (0..).zip(query.chains()) {
                let window = chain.operator().filter(|_| self.is_live(query, key));
                let id = |number| segment_id(key, side, number);
                match window.and_then(|(_, window, _)| window.queue(key)) {
                    Some(queue) => queue.save_segments(&mut list, extent, id),
                    None => list.gone(id(0)..id(u64::MAX)),
                }
            }
        }
        list.end();
        format::blob(writer, |w| {
            query.save_calls(w);
            if let Some(pattern) = query.pattern() {
                pattern.save_marks(w);
            }
        });
    }

    /// What was just saved of a query is known to be.
    pub(super) fn mark_query_saved(&mut self, at: usize) {
        let extent = match self.marks_changes {
            true => Extent::Changes,
            false => Extent::All,
        };
        let keys = self.keys_to_save(&self.queries[at], extent);
        let query = &mut self.queries[at];
        for chain in query.chains_mut() {
            let Some(window) = chain.operator_mut() else {
                continue;
            };
            for &key in &keys {
                if let Some(queue) = window.queue_mut(key) {
                    queue.mark_saved();
                }
            }
        }
        query.dirty.begin();
        query.selector.dirty.begin();
    }

    pub(super) fn restore_query(
        &mut self,
        at: usize,
        fields: &mut Fields<'_>,
    ) -> Result<(), StateError> {
        let partition = self.queries[at].partition;
        // By the numbers they were saved under, which ascend.
        let mut keys: Vec<(Id, Key)> = Vec::new();
        let mut list = fields.list()?;
        while let Some((id, mut entry)) = list.next()? {
            let text = entry.str()?;
            let key = match partition {
                Some(p) => self.partitions[p].keys.intern(0, text),
                None => 0,
            };
            keys.push((id, key));
            restore_key(&mut self.queries[at], key, &mut entry)?;
        }
        let key_of = |id: Id| {
            let place = keys.binary_search_by_key(&id, |(id, _)| *id);
            place.ok().map(|place| keys[place].1)
        };
        let query = &mut self.queries[at];
        let mut list = fields.list()?;
        while let Some((_, mut entry)) = list.next()? {
            query.selector.restore_group(&mut entry, key_of)?;
        }
        let mut list = fields.list()?;
        while let Some((id, mut entry)) = list.next()? {
            let (key, side) = place_of(id);
            let window = query.chains_mut().nth(side);
            let window = window.and_then(|chain| chain.operator_mut());
            let queue = key_of(key).and_then(|key| window?.queue_mut(key));
            let queue = queue.ok_or_else(|| StateError::Mismatch("rows of no window".into()))?;
            queue.take_back(&mut entry)?;
        }
        for chain in query.chains_mut() {
            let Some(window) = chain.operator_mut() else {
                continue;
            };
            for &(_, key) in &keys {
                if let Some(queue) = window.queue_mut(key) {
                    queue.be_whole()?;
                }
            }
        }
        let mut rest = fields.blob()?;
        query.restore_calls(&mut rest)?;
        match query.pattern_mut() {
            Some(pattern) => pattern.restore_marks(&mut rest),
            None => Ok(()),
        }
    }
}

fn save_key(query: &Query, key: Key, name: &str, writer: &mut Writer) {
    writer.str(name);
    for chain in query.chains() {
        match chain.operator() {
            Some((name, window, _)) => {
                writer.str(name);
                writer.section(|w| window.save(key, w));
            }
            None => writer.str(""),
        }
        for processor in chain.stages().filter_map(Stage::processor) {
            writer.str(&processor.name);
            writer.section(|w| processor.operator.save(key, w));
        }
    }
    if let Some(pattern) = query.pattern() {
        writer.section(|w| pattern.save(key, w));
    }
    match &query.limiter {
        Some(limiter) => writer.section(|w| limiter.save(key, w)),
        None => writer.section(|_| {}),
    }
    query.selector.save_key(key, writer);
    // Running aggregators of filters.
    for stage in query.chains().flat_map(|chain| chain.stages()) {
        for site in stage.sites() {
            if let Site::Aggregate(site) = site {
                writer.section(|w| site.aggregate.save(key, w));
            }
        }
    }
}

fn restore_key(query: &mut Query, key: Key, reader: &mut Reader<'_>) -> Result<(), StateError> {
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
        for processor in chain.stages_mut().filter_map(Stage::processor_mut) {
            let name = reader.str()?;
            if name != processor.name {
                return Err(StateError::Mismatch(format!(
                    "stream function '{name}', expected '{}'",
                    processor.name
                )));
            }
            processor.operator.restore(key, &mut reader.section()?)?;
        }
    }
    if let Some(pattern) = query.pattern_mut() {
        pattern.restore(key, &mut reader.section()?)?;
    }
    let mut section = reader.section()?;
    if let Some(limiter) = &mut query.limiter {
        limiter.restore(key, &mut section, &types)?;
    }
    query.selector.restore_key(key, reader)?;
    for chain in query.chains_mut() {
        for stage in chain.stages_mut() {
            for site in stage.sites_mut() {
                if let Site::Aggregate(site) = site {
                    site.aggregate.restore(key, &mut reader.section()?)?;
                }
            }
        }
    }
    Ok(())
}
