//! The columns of the select clause.
//!
//! Expressions that depend on rows alone are computed first: if one fails, no aggregator has moved
//! yet, and the chunk is gone through row by row up to the failing one, as Siddhi's `QuerySelector`
//! would have.

use event::{Batch, Column, ColumnBuilder, Reset};

use super::{Selector, one_row};
use crate::component::{Failure, Groups};
use crate::expr::{COMPUTED, Inputs, ROW, Site, Slot};
use crate::query::site::{self, SiteRows};
use crate::step::{Broken, Step};

impl Selector {
    /// Puts the columns of the select clause in place of those of the rows, where results of aggregators
    /// have been computed. `columns` is empty; the columns that the rows had are left in it.
    pub(in crate::query) fn put_items(
        &mut self,
        batch: &mut Batch,
        computed: &mut [Column],
        columns: &mut Vec<Column>,
        step: &mut Step<'_>,
    ) -> Result<(), Broken> {
        let mut failures = Vec::new();
        let inputs = Inputs::of(&batch.columns, batch.len).with(COMPUTED, computed);
        let mut context = step.evaluation(batch, &mut failures);
        let items = self.items.iter_mut().zip(&self.moved);
        columns.extend(items.map(|(item, moved)| match moved {
            Some(_) => Column::later(),
            None => item.column(&inputs, &mut context),
        }));
        for (column, moved) in columns.iter_mut().zip(&self.moved) {
            let from = match *moved {
                Some(Slot { part: ROW, index }) => &mut batch.columns[usize::from(index)],
                Some(Slot { index, .. }) => &mut computed[usize::from(index)],
                None => continue,
            };
            std::mem::swap(column, from);
        }
        std::mem::swap(&mut batch.columns, columns);
        match failures.iter().min_by_key(|f| f.row) {
            Some(first) => Err(self.broken(first)),
            None => Ok(()),
        }
    }

    /// The columns of the select clause, appended to an empty vector.
    pub(super) fn attributes(
        &mut self,
        rows: &SiteRows<'_>,
        step: &mut Step<'_>,
        columns: &mut Vec<Column>,
    ) -> Result<(), Broken> {
        let batch = rows.batch;
        if self.is_late_fallible && !self.sites.is_empty() {
            *columns = self.attributes_by_row(rows, step)?;
            return Ok(());
        }
        let mut failures = Vec::new();
        let inputs = Inputs::of(&batch.columns, batch.len);
        // First whatever sees rows alone; nothing has moved if it fails.
        self.early_attributes(batch, step, &mut failures, columns);
        for site in &mut self.sites {
            if let Site::Aggregate(site) = site {
                let mut context = step.evaluation(batch, &mut failures);
                let row_only = site
                    .args
                    .iter_mut()
                    .filter(|a| a.is_fallible() && a.uses.iter().all(|s| s.part != COMPUTED));
                for arg in row_only {
                    arg.evaluate(&inputs, &mut context);
                }
            }
        }
        if let Some(first) = failures.iter().min_by_key(|f| f.row) {
            if batch.chunk_count() > 1 || self.sites.is_empty() {
                return Err(self.broken(first));
            }
            *columns = self.attributes_by_row(rows, step)?;
            return Ok(());
        }
        if self.sites.is_empty() {
            return Ok(());
        }
        let mut computed = std::mem::take(&mut self.room.computed);
        let sites = &mut self.sites;
        site::compute_into(sites, rows, step, &mut failures, &mut computed);
        self.late_attributes(batch, &computed, step, &mut failures, columns);
        computed.clear();
        self.room.computed = computed;
        match failures.iter().min_by_key(|f| f.row) {
            Some(first) => Err(self.broken(first)),
            None => Ok(()),
        }
    }

    /// Those columns of the select clause that see rows alone, and places for the others, appended.
    pub(in crate::query) fn early_attributes(
        &mut self,
        batch: &Batch,
        step: &mut Step<'_>,
        failures: &mut Vec<Failure>,
        columns: &mut Vec<Column>,
    ) {
        let inputs = Inputs::of(&batch.columns, batch.len);
        let mut context = step.evaluation(batch, failures);
        columns.extend(self.items.iter_mut().map(|item| {
            if item.reads_computed() {
                Column::later()
            } else {
                item.column(&inputs, &mut context)
            }
        }));
    }

    /// Those columns of the select clause that wait for aggregators and probes.
    pub(in crate::query) fn late_attributes(
        &mut self,
        batch: &Batch,
        computed: &[Column],
        step: &mut Step<'_>,
        failures: &mut Vec<Failure>,
        columns: &mut [Column],
    ) {
        let inputs = Inputs::of(&batch.columns, batch.len).with(COMPUTED, computed);
        for (item, column) in self.items.iter_mut().zip(columns) {
            if item.reads_computed() {
                *column = item.column(&inputs, &mut step.evaluation(batch, failures));
            }
        }
    }

    fn broken(&self, failure: &Failure) -> Broken {
        Broken::at("select".to_owned(), failure.message.clone())
    }

    /// One row after the other, one item after the other, up to the first that fails.
    fn attributes_by_row(
        &mut self,
        rows: &SiteRows<'_>,
        step: &mut Step<'_>,
    ) -> Result<Vec<Column>, Broken> {
        let whole = rows.batch;
        let mut builders: Vec<ColumnBuilder> = self
            .items
            .iter()
            .map(|i| ColumnBuilder::with_capacity(i.ty, whole.len))
            .collect();
        let resets: &[Reset] = whole.resets.as_deref().unwrap_or(&[]);
        let mut next_reset = 0;
        for row in 0..=whole.len {
            while next_reset < resets.len() && resets[next_reset].row as usize == row {
                next_reset += 1;
                self.clear(rows.reset_groups);
            }
            if row == whole.len {
                break;
            }
            let batch = one_row(whole, &whole.columns, row);
            let one = SiteRows {
                batch: &batch,
                groups: match rows.groups {
                    Groups::One(group) => Groups::One(group),
                    Groups::PerRow(groups) => Groups::One(groups[row]),
                },
                reset_groups: &[],
            };
            let mut computed: Vec<Column> = Vec::with_capacity(self.sites.len());
            for (at, item) in self.items.iter_mut().enumerate() {
                let mut failures = Vec::new();
                while failures.is_empty()
                    && computed.len() < self.sites.len()
                    && self.site_items[computed.len()] == at
                {
                    let site = &mut self.sites[computed.len()];
                    let column = site::compute_one(site, &computed, &one, step, &mut failures);
                    computed.push(column);
                }
                if failures.is_empty() {
                    let inputs = Inputs::of(&batch.columns, 1).with(COMPUTED, &computed);
                    let mut context = step.evaluation(&batch, &mut failures);
                    builders[at].push(&item.evaluate(&inputs, &mut context).value(0));
                }
                if let Some(failure) = failures.into_iter().next() {
                    let place = format!("select item '{}'", self.names[at]);
                    return Err(Broken::at(place, failure.message));
                }
            }
        }
        Ok(builders.into_iter().map(ColumnBuilder::finish).collect())
    }
}
