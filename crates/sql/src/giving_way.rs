//! Plans whose work can be ended while it goes on.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;

/// Has joins give way to what watches the time and the client.
///
/// DataFusion has its leaves give way, of which a few rows that are joined with themselves again and again are read
/// once: what they become would then be computed to its end, whoever waits for it.
#[derive(Debug)]
pub(crate) struct JoinsGiveWay;

impl PhysicalOptimizerRule for JoinsGiveWay {
    fn name(&self) -> &str {
        "JoinsGiveWay"
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let wrapped = plan.transform_up(|plan| match plan.children().len() {
            0 | 1 => Ok(Transformed::no(plan)),
            _ => Ok(Transformed::yes(Arc::new(CooperativeExec::new(plan)) as _)),
        });
        wrapped.map(|wrapped| wrapped.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}
