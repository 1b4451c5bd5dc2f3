//! The saved state of a selector: that of each group, or of each key where it has no groups.

use event::codec::{Error as StateError, Reader, Writer};

use super::select::Selector;
use crate::component::{Group, Key};
use crate::expr::Site;
use crate::snapshot_format::{Extent, Id, List};

impl Selector {
    /// It keeps a state for each group of a `group by`.
    fn keeps_groups(&self) -> bool {
        self.has_aggregator() && !self.group_by.is_empty()
    }

    /// It keeps one state for each key.
    fn keeps_keys(&self) -> bool {
        self.has_aggregator() && self.group_by.is_empty()
    }

    /// The groups that have a state.
    pub fn save_groups(&self, list: &mut List<'_>, extent: Extent) {
        if !self.keeps_groups() {
            return;
        }
        match extent {
            Extent::All => {
                for (group, key, text) in self.groups.all() {
                    self.save_group(list, group, key, &text);
                }
            }
            Extent::Changes => {
                for group in self.dirty.iter() {
                    match self.groups.name(group) {
                        Some((key, text)) => self.save_group(list, group, key, &text),
                        None => list.gone(Id::from(group)..Id::from(group) + 1),
                    }
                }
            }
        }
    }

    fn save_group(&self, list: &mut List<'_>, group: Group, key: Key, text: &str) {
        list.entry(Id::from(group), |w| {
            w.varint(u128::from(key));
            w.str(text);
            self.save_sites(group, w);
        });
    }

    /// What is kept for a key by itself.
    pub fn save_key(&self, key: Key, writer: &mut Writer) {
        if self.keeps_keys() {
            self.save_sites(key, writer);
        }
    }

    fn save_sites(&self, group: Group, writer: &mut Writer) {
        for site in self.all_sites() {
            if let Site::Aggregate(site) = site {
                writer.section(|w| site.aggregate.save(group, w));
            }
        }
    }

    pub fn restore_key(&mut self, key: Key, reader: &mut Reader<'_>) -> Result<(), StateError> {
        match self.keeps_keys() {
            true => self.restore_sites(key, reader),
            false => Ok(()),
        }
    }

    /// A group that was saved; `key_of` finds the partition key by its number in the saved state.
    pub fn restore_group(
        &mut self,
        reader: &mut Reader<'_>,
        key_of: impl Fn(Id) -> Option<Key>,
    ) -> Result<(), StateError> {
        let key = key_of(reader.varint()?);
        let key = key.ok_or_else(|| StateError::Mismatch("a group of no key".into()))?;
        let text = reader.str()?;
        if !self.keeps_groups() {
            return Err(StateError::Mismatch("a group where none is kept".into()));
        }
        let group = self.groups.intern(key, text);
        self.restore_sites(group, reader)
    }

    fn restore_sites(&mut self, group: Group, reader: &mut Reader<'_>) -> Result<(), StateError> {
        for site in self.all_sites_mut() {
            if let Site::Aggregate(site) = site {
                site.aggregate.restore(group, &mut reader.section()?)?;
            }
        }
        Ok(())
    }
}
