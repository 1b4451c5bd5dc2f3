//! Handlers of a stream: filters, `#log`, stream processors, and functions with effects.

use event::{Batch, Column, Reset, Type, text};
use plan::{Handler, StreamFunctionCall};

use super::site::{self, SiteRows};
use crate::component::{
    AppEnvironment, Argument, Failure, Groups, Key, Processor, ProcessorOperator, ProcessorSetup,
    WindowContext,
};
use crate::error::Error;
use crate::expr::{COMPUTED, Compiler, Expression, Inputs, Layout, ROW, RowRoom, Site, argument};
use crate::output::{LogLevel, Output};
use crate::step::{Broken, Step};
use crate::table::ConditionContext;
use crate::timers::{OperatorId, Timers};

/// Group number of running aggregators in a filter: one state per partition key.
const ALL_ROWS: fn(Key) -> u32 = |key| key;

pub(crate) enum Stage {
    Filter {
        sites: Vec<Site>,
        condition: Expression,
        room: RowRoom,
        /// A RESET goes with the row behind it, of which it is a copy.
        drops_resets: bool,
    },
    Log {
        /// Priority, message, and whether the event is printed.
        level: Option<Expression>,
        message: Option<Expression>,
        with_event: Option<Expression>,
    },
    Processor(ProcessorStage),
    /// A stream function with effects.
    Effect {
        name: String,
        args: Vec<Expression>,
        adds: usize,
    },
    /// A stream function whose arguments look into tables or outside: that is computed first.
    Probing {
        sites: Vec<Site>,
        stage: Box<Stage>,
    },
}

/// A stream processor at its place.
pub(crate) struct ProcessorStage {
    /// `str:tokenize`.
    pub name: String,
    pub operator: Box<dyn ProcessorOperator>,
    args: Vec<Expression>,
    /// Its number among the timed operators, where it stands in a query's chain.
    pub id: Option<OperatorId>,
}

/// Where a stream processor stands.
pub(crate) struct StagePlace<'a> {
    /// Types of the row that comes in.
    pub types: &'a [Type],
    /// Has it a state per key, and deadlines?
    pub keeps_state: bool,
    pub is_partitioned: bool,
    pub environment: &'a AppEnvironment,
}

/// The stream processor of a name.
pub(crate) fn processor(name: &str) -> Option<&'static dyn Processor> {
    let mut all = crate::processor::PROCESSORS.iter().copied();
    all.find(|p| p.spec().full_name() == name)
}

impl ProcessorStage {
    fn new(
        processor: &dyn Processor,
        call: &StreamFunctionCall,
        args: Vec<Expression>,
        place: &StagePlace<'_>,
    ) -> Result<ProcessorStage, Error> {
        let known: Vec<Argument> = call
            .args
            .iter()
            .map(|a| argument(a, &|_, _| None))
            .collect();
        let adds: Vec<Type> = call.adds.iter().map(|a| a.ty).collect();
        let operator = processor
            .bind(&ProcessorSetup {
                args: &known,
                types: place.types,
                adds: &adds,
                is_partitioned: place.is_partitioned,
                environment: place.environment,
            })
            .map_err(|reason| Error::Refused {
                kind: "stream function",
                name: call.name.clone(),
                reason: reason.0,
                span: call.span,
            })?;
        if operator.has_state() && !place.keeps_state {
            let what = format!("stream function '{}' at this place", call.name);
            return Err(Error::unsupported(what, call.span));
        }
        Ok(ProcessorStage {
            name: call.name.clone(),
            operator,
            args,
            id: None,
        })
    }

    fn run(
        &mut self,
        batch: Batch,
        computed: &[Column],
        key: Key,
        step: &mut Step<'_>,
        failures: &mut Vec<Failure>,
    ) -> Option<Batch> {
        let args: Vec<Column> = {
            let inputs = Inputs::of(&batch.columns, batch.len).with(COMPUTED, computed);
            let mut context = step.evaluation(&batch, failures);
            let args = self.args.iter_mut();
            args.map(|a| a.column(&inputs, &mut context)).collect()
        };
        if !failures.is_empty() {
            return None;
        }
        self.call(key, step, failures, |operator, context| {
            operator.process(key, batch, &args, context)
        })
    }

    fn call<T>(
        &mut self,
        key: Key,
        step: &mut Step<'_>,
        failures: &mut Vec<Failure>,
        call: impl FnOnce(&mut dyn ProcessorOperator, &mut WindowContext<'_>) -> T,
    ) -> T {
        let mut deadlines = Vec::new();
        let mut context = WindowContext {
            now: step.now,
            wall: step.wall,
            deadlines: &mut deadlines,
            failures,
        };
        let result = call(self.operator.as_mut(), &mut context);
        if let Some(id) = self.id {
            for deadline in deadlines {
                step.timers.notify(id, key, deadline, step.now);
            }
        }
        result
    }
}

impl Stage {
    /// A handler in the chain of a query, where it may keep a state and set deadlines.
    pub fn placed(
        handler: &Handler,
        layout: &Layout,
        place: &StagePlace<'_>,
        context: &mut ConditionContext<'_>,
    ) -> Result<Stage, Error> {
        if let Handler::Function(call) = handler
            && let Some(processor) = processor(&call.name)
        {
            let mut sites = Vec::new();
            let args = Compiler {
                layout: layout.clone(),
                sites: &mut sites,
                tracks: false,
                tables: context,
            }
            .expressions(&call.args)?;
            let stage = ProcessorStage::new(processor, call, args, place)?;
            return Ok(Stage::Processor(stage).probing(sites));
        }
        Stage::new(handler, layout, context)
    }

    /// The stream processor of the stage, if it is one.
    pub fn processor(&self) -> Option<&ProcessorStage> {
        match self {
            Stage::Processor(stage) => Some(stage),
            Stage::Probing { stage, .. } => stage.processor(),
            _ => None,
        }
    }

    pub fn processor_mut(&mut self) -> Option<&mut ProcessorStage> {
        match self {
            Stage::Processor(stage) => Some(stage),
            Stage::Probing { stage, .. } => stage.processor_mut(),
            _ => None,
        }
    }

    /// It stands behind a window that emits copies of rows as RESET.
    pub fn drop_resets(&mut self) {
        if let Stage::Filter { drops_resets, .. } = self {
            *drops_resets = true;
        }
    }

    /// The state of a key begins.
    pub fn start(&mut self, key: Key, step: &mut Step<'_>) {
        if let Some(stage) = self.processor_mut() {
            stage.call(key, step, &mut Vec::new(), |operator, context| {
                operator.start(key, context);
            });
        }
    }

    pub fn remove(&mut self, key: Key, timers: &mut Timers) {
        if let Some(stage) = self.processor_mut() {
            stage.operator.remove(key);
            stage.id.iter().for_each(|&id| timers.forget(id, key));
        }
    }

    /// A deadline of the stage is due.
    pub fn on_timer(
        &mut self,
        key: Key,
        deadline: i64,
        step: &mut Step<'_>,
    ) -> Result<Option<Batch>, Broken> {
        let mut failures = Vec::new();
        let rows = match self.processor_mut() {
            Some(stage) => stage.call(key, step, &mut failures, |operator, context| {
                operator.on_timer(key, deadline, context)
            }),
            None => None,
        };
        self.checked(rows, failures)
    }

    fn checked(
        &self,
        rows: Option<Batch>,
        failures: Vec<Failure>,
    ) -> Result<Option<Batch>, Broken> {
        match failures.into_iter().min_by_key(|f| f.row) {
            Some(failure) => Err(Broken::at(self.place(), failure.message)),
            None => Ok(rows),
        }
    }

    /// The handlers that see a row of `schema` whose attributes stand where `layout` says.
    pub fn new(
        handler: &Handler,
        layout: &Layout,
        context: &mut ConditionContext<'_>,
    ) -> Result<Stage, Error> {
        let mut sites = Vec::new();
        let mut compiler = Compiler {
            layout: layout.clone(),
            sites: &mut sites,
            tracks: false,
            tables: context,
        };
        let stage = match handler {
            Handler::Filter(expr) => {
                let condition = compiler.compile(expr)?;
                return Ok(Stage::Filter {
                    sites,
                    condition,
                    room: RowRoom::default(),
                    drops_resets: false,
                });
            }
            Handler::Function(call) => Self::function(call, &mut compiler)?,
            Handler::Window(call) => {
                return Err(Error::unsupported("a second window in a query", call.span));
            }
        };
        Ok(stage.probing(sites))
    }

    fn probing(self, sites: Vec<Site>) -> Stage {
        if sites.is_empty() {
            return self;
        }
        Stage::Probing {
            sites,
            stage: Box::new(self),
        }
    }

    fn function(
        call: &StreamFunctionCall,
        compiler: &mut Compiler<'_, '_>,
    ) -> Result<Stage, Error> {
        let mut args = compiler.expressions(&call.args)?;
        match call.name.as_str() {
            "log" => {
                let is_bool = |e: &Expression| e.ty == event::Type::Bool;
                let with_event = args.pop_if(|e| is_bool(e));
                let message = args.pop();
                let level = args.pop();
                Ok(Stage::Log {
                    level,
                    message,
                    with_event,
                })
            }
            name => {
                if let Some(processor) = processor(name) {
                    let place = StagePlace {
                        types: &[],
                        keeps_state: false,
                        is_partitioned: false,
                        environment: &AppEnvironment::default(),
                    };
                    let stage = ProcessorStage::new(processor, call, args, &place)?;
                    return Ok(Stage::Processor(stage));
                }
                if !call.is_effect {
                    return Err(Error::unsupported(
                        format!("stream function '{name}'"),
                        call.span,
                    ));
                }
                Ok(Stage::Effect {
                    name: name.to_owned(),
                    args,
                    adds: call.adds.len(),
                })
            }
        }
    }

    /// Does something outside, or keeps a state: a batch must reach it chunk by chunk where a row
    /// may fail.
    pub fn has_effect(&self) -> bool {
        match self {
            Stage::Filter { sites, .. } => sites
                .iter()
                .any(|s| matches!(s, Site::Aggregate(_) | Site::Effect(_))),
            Stage::Log { .. } => false,
            Stage::Processor(stage) => stage.operator.has_state(),
            Stage::Effect { .. } => true,
            Stage::Probing { sites, stage } => {
                let mut sites = sites.iter();
                sites.any(|s| matches!(s, Site::Effect(_))) || stage.has_effect()
            }
        }
    }

    pub fn is_fallible(&self) -> bool {
        match self {
            Stage::Filter { condition, .. } => condition.is_fallible(),
            Stage::Log {
                level,
                message,
                with_event,
            } => [level, message, with_event]
                .into_iter()
                .flatten()
                .any(Expression::is_fallible),
            Stage::Processor(stage) => {
                stage.operator.is_fallible() || stage.args.iter().any(Expression::is_fallible)
            }
            Stage::Effect { .. } => true,
            Stage::Probing { stage, .. } => stage.is_fallible(),
        }
    }

    pub fn sites(&self) -> &[Site] {
        match self {
            Stage::Filter { sites, .. } | Stage::Probing { sites, .. } => sites,
            _ => &[],
        }
    }

    pub fn sites_mut(&mut self) -> &mut [Site] {
        match self {
            Stage::Filter { sites, .. } | Stage::Probing { sites, .. } => sites,
            _ => &mut [],
        }
    }

    pub fn expressions(&self) -> Vec<&Expression> {
        match self {
            Stage::Filter { condition, .. } => vec![condition],
            Stage::Log {
                level,
                message,
                with_event,
            } => [level, message, with_event].into_iter().flatten().collect(),
            Stage::Processor(ProcessorStage { args, .. }) | Stage::Effect { args, .. } => {
                args.iter().collect()
            }
            Stage::Probing { stage, .. } => stage.expressions(),
        }
    }

    pub fn expressions_mut(&mut self) -> Vec<&mut Expression> {
        match self {
            Stage::Filter { condition, .. } => vec![condition],
            Stage::Log {
                level,
                message,
                with_event,
            } => [level, message, with_event].into_iter().flatten().collect(),
            Stage::Processor(ProcessorStage { args, .. }) | Stage::Effect { args, .. } => {
                args.iter_mut().collect()
            }
            Stage::Probing { stage, .. } => stage.expressions_mut(),
        }
    }

    /// `None` where nothing of the batch is left.
    #[inline]
    pub fn run(
        &mut self,
        batch: Batch,
        key: Key,
        step: &mut Step<'_>,
    ) -> Result<Option<Batch>, Broken> {
        // An event that comes alone passes most filters, or does not, without further ado.
        if let Stage::Filter {
            sites, condition, ..
        } = self
            && sites.is_empty()
            && batch.resets.is_none()
            && let Some(passes) = condition.holds(&Inputs::of(&batch.columns, batch.len))
        {
            return Ok(passes.then_some(batch));
        }
        self.run_with(batch, &[], key, step)
    }

    /// `computed` are the columns of the sites in the arguments.
    fn run_with(
        &mut self,
        batch: Batch,
        computed: &[Column],
        key: Key,
        step: &mut Step<'_>,
    ) -> Result<Option<Batch>, Broken> {
        let mut failures = Vec::new();
        let result = match self {
            Stage::Filter {
                sites,
                condition,
                room,
                drops_resets,
            } if sites.is_empty() => {
                let inputs = Inputs::of(&batch.columns, batch.len);
                let mut context = step.evaluation(&batch, &mut failures);
                let rows = condition.rows(&inputs, &mut context, room);
                let passes = |row: u32| rows.binary_search(&row).is_ok();
                with_resets(batch, *drops_resets, passes).retain_rows(rows)
            }
            Stage::Filter {
                sites,
                condition,
                drops_resets,
                ..
            } => {
                let rows = SiteRows {
                    batch: &batch,
                    groups: Groups::One(ALL_ROWS(key)),
                    reset_groups: &[],
                };
                let computed = site::compute(sites, &rows, step, &mut failures);
                let inputs = Inputs::of(&batch.columns, batch.len).with(COMPUTED, &computed);
                let mut context = step.evaluation(&batch, &mut failures);
                let keep = condition.mask(&inputs, &mut context);
                let passes = |row: u32| keep[row as usize];
                with_resets(batch, *drops_resets, passes).retain(&keep)
            }
            Stage::Log {
                level,
                message,
                with_event,
            } => {
                let inputs = Inputs::of(&batch.columns, batch.len).with(COMPUTED, computed);
                let mut context = step.evaluation(&batch, &mut failures);
                let mut all = |e: &mut Option<Expression>| {
                    e.as_mut().map(|e| e.evaluate(&inputs, &mut context))
                };
                let (level, message, with_event) = (all(level), all(message), all(with_event));
                let app = &step.environment.app;
                for row in 0..batch.len {
                    let with_event =
                        with_event.as_ref().and_then(|w| w.value(row).as_bool()) != Some(false);
                    let message = message.as_ref().map(|m| text::to_text(&m.value(row)));
                    let level = level.as_ref().map(|l| text::to_text(&l.value(row)));
                    let level = level
                        .as_deref()
                        .map_or(Some(LogLevel::Info), LogLevel::from_name);
                    let Some(level) = level else {
                        failures.push(Failure {
                            row: row as u32,
                            message: "priority of '#log' is none of Siddhi's".to_owned(),
                        });
                        break;
                    };
                    let text = log_line(app, message.as_deref(), with_event, &batch, row);
                    step.out.items.push(Output::Log { level, text });
                }
                Some(batch)
            }
            Stage::Probing { sites, stage } => {
                let rows = SiteRows {
                    batch: &batch,
                    groups: Groups::One(ALL_ROWS(key)),
                    reset_groups: &[],
                };
                let computed = site::compute(sites, &rows, step, &mut failures);
                if failures.is_empty() {
                    return stage.run_with(batch, &computed, key, step);
                }
                None
            }
            Stage::Processor(stage) => stage.run(batch, computed, key, step, &mut failures),
            Stage::Effect { name, args, adds } => {
                let inputs = Inputs::of(&batch.columns, batch.len).with(COMPUTED, computed);
                let mut context = step.evaluation(&batch, &mut failures);
                let args: Vec<Column> = args
                    .iter_mut()
                    .map(|a| a.column(&inputs, &mut context))
                    .collect();
                if failures.is_empty() {
                    effect(name, &args, *adds, batch, step, &mut failures)
                } else {
                    None
                }
            }
        };
        self.checked(result, failures)
    }

    fn place(&self) -> String {
        match self {
            Stage::Filter { .. } => "filter".to_owned(),
            Stage::Log { .. } => "stream function '#log'".to_owned(),
            Stage::Processor(ProcessorStage { name, .. }) | Stage::Effect { name, .. } => {
                format!("stream function '#{name}'")
            }
            Stage::Probing { stage, .. } => stage.place(),
        }
    }
}

/// Without the RESETs whose copied row does not pass, where they are `dropped` so: Siddhi's
/// `FilterProcessor` looks at them as at any event.
fn with_resets(mut batch: Batch, dropped: bool, passes: impl Fn(u32) -> bool) -> Batch {
    if let Some(resets) = batch.resets.as_deref().filter(|_| dropped) {
        let resets = resets.iter().filter(|r| passes(r.row)).copied();
        let resets: Vec<Reset> = resets.collect();
        batch.resets = (!resets.is_empty()).then(|| resets.into());
    }
    batch
}

/// Siddhi's `LogStreamProcessor`: app, message, event.
fn log_line(
    app: &str,
    message: Option<&str>,
    with_event: bool,
    batch: &Batch,
    row: usize,
) -> String {
    let event = || {
        let values: Vec<String> = batch.row(row).iter().map(text::to_text).collect();
        let kind = if batch.is_expired(row) {
            "EXPIRED"
        } else {
            "CURRENT"
        };
        format!(
            "StreamEvent{{ timestamp={}, beforeWindowData=null, onAfterWindowData=null, \
             outputData=[{}], type={kind}, next=null}}",
            batch.times.at(row),
            values.join(", "),
        )
    };
    match (message, with_event) {
        (Some(message), true) => format!("{app}: {message}, {}", event()),
        (Some(message), false) => format!("{app}: {message}"),
        (None, true) => format!("{app}: {}", event()),
        (None, false) => format!("{app}: Event Arrived"),
    }
}

/// Calls the host; its rows keep the order, kinds and chunks of the rows they come from.
fn effect(
    name: &str,
    args: &[Column],
    adds: usize,
    mut batch: Batch,
    step: &mut Step<'_>,
    failures: &mut Vec<Failure>,
) -> Option<Batch> {
    let mut fail = |row: usize, message: String| {
        failures.push(Failure {
            row: row as u32,
            message,
        });
        None
    };
    let called = match step.host.call(name, args, batch.len) {
        Ok(called) => called,
        Err(error) => return fail(error.row, error.message),
    };
    if let Some(origins) = &called.origins {
        batch = crate::processor::spread(&batch, origins, crate::processor::SpreadChunks::Kept)?;
    }
    if called.columns.len() != adds || called.columns.iter().any(|c| c.len() != batch.len) {
        return fail(0, format!("stream function '#{name}' gave other columns"));
    }
    batch.columns.extend(called.columns);
    Some(batch)
}

/// Rows arrive in part [`ROW`] of the inputs of every stage.
const _: () = assert!(ROW == 0);
