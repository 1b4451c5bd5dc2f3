//! What a part of an app may use while a step runs, and how it says that a chunk failed.
//!
//! Whatever processes rows (handlers, windows, joins, patterns, named windows, aggregations) is given a
//! [`Step`]. So this file names none of them: what joins look into is behind two traits.

use event::{Batch, Value};
use plan::{AggregationId, WindowId};

use crate::aggregation::BucketRange;
use crate::component::{AppEnvironment, EvalContext, Failure};
use crate::host::Host;
use crate::kept::Held;
use crate::output::Outputs;
use crate::table::Tables;
use crate::timers::Timers;

/// The named windows of an app, to look into.
pub(crate) trait WindowContents {
    /// What joins and on-demand queries find in a window; `None` where it keeps nothing for them.
    fn content(&self, window: WindowId) -> Option<Held<'_>>;
}

/// The aggregations of an app, to be read.
pub(crate) trait ReadAggregations {
    /// The range that three values ask for: `within` a start and an end, `per` a duration. An error says why
    /// they make no sense.
    fn range(
        &self,
        aggregation: AggregationId,
        start: &Value,
        end: Option<&Value>,
        per: &Value,
    ) -> Result<BucketRange, String>;

    /// Columns of what is read.
    fn width(&self, aggregation: AggregationId) -> usize;

    /// The rows of a range.
    fn read(
        &mut self,
        aggregation: AggregationId,
        range: BucketRange,
        step: &mut Step<'_>,
    ) -> Result<Batch, String>;
}

/// What a query may use while a step runs.
pub(crate) struct Step<'a> {
    /// Application clock.
    pub now: i64,
    pub wall: i64,
    pub environment: &'a AppEnvironment,
    pub seed: &'a mut u64,
    pub tables: &'a mut Tables,
    /// What joins look into; none while a named window itself takes rows.
    pub windows: Option<&'a dyn WindowContents>,
    /// What joins read; none while one is being read.
    pub aggregations: Option<&'a mut dyn ReadAggregations>,
    pub timers: &'a mut Timers,
    pub host: &'a mut dyn Host,
    pub out: &'a mut Outputs,
}

impl<'a> Step<'a> {
    /// Takes the aggregations out, so that one of them can be read with the step; they are put back.
    pub fn take_aggregations(&mut self) -> &'a mut dyn ReadAggregations {
        let aggregations = self.aggregations.take();
        aggregations.expect("no aggregation is read while another is")
    }

    pub(crate) fn evaluation<'b>(
        &'b mut self,
        batch: &'b Batch,
        failures: &'b mut Vec<Failure>,
    ) -> EvalContext<'b> {
        EvalContext::new(
            self.now,
            self.wall,
            &batch.times,
            self.environment,
            self.seed,
            failures,
        )
    }
}

/// Where and why a chunk failed.
///
/// One word, so that what may fail is handed back in registers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Broken(Box<Fault>);

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    pub place: String,
    pub cause: String,
}

impl Broken {
    #[cold]
    pub fn at(place: String, cause: String) -> Broken {
        Broken(Box::new(Fault { place, cause }))
    }

    pub fn into_fault(self) -> Fault {
        *self.0
    }
}

impl std::ops::Deref for Broken {
    type Target = Fault;

    fn deref(&self) -> &Fault {
        &self.0
    }
}
