//! How far a statement is: the rows that the leaves of its plan have given, beside those that its tables hold.

use std::sync::{Arc, Mutex, PoisonError};

use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs, StatisticsContext};

/// Of one statement. It can be asked from any thread.
#[derive(Default)]
pub struct Progress(Mutex<Option<Begun>>);

struct Begun {
    leaves: Vec<Arc<dyn ExecutionPlan>>,
    rows: Option<u64>,
}

impl Progress {
    /// The statement is planned.
    pub(crate) fn begin(&self, plan: Arc<dyn ExecutionPlan>) {
        let (mut leaves, mut open) = (Vec::new(), vec![plan]);
        while let Some(plan) = open.pop() {
            match &plan.children()[..] {
                [] => leaves.push(plan),
                children => open.extend(children.iter().map(|child| Arc::clone(child))),
            }
        }
        let known = StatisticsContext::new();
        let rows = leaves
            .iter()
            .map(|leaf| {
                let statistics = known.compute(leaf.as_ref(), &StatisticsArgs::new()).ok()?;
                statistics.num_rows.get_value().map(|rows| *rows as u64)
            })
            .sum();
        let mut begun = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *begun = Some(Begun { leaves, rows });
    }

    /// Rows that were read so far.
    pub fn rows_read(&self) -> u64 {
        let begun = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let leaves = begun.iter().flat_map(|begun| &begun.leaves);
        leaves
            .filter_map(|leaf| leaf.metrics()?.output_rows())
            .map(|rows| rows as u64)
            .sum()
    }

    /// Rows that there are to read, where that is known. Parts of files that a comparison rules out are never read, so
    /// a statement may end before that many.
    pub fn rows_to_read(&self) -> Option<u64> {
        let begun = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        begun.as_ref()?.rows
    }
}
