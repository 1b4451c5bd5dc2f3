//! Handlers of a stream: filters, `#log`, and functions that add attributes.

use event::{Batch, Column, text};
use lang::plan::{Handler, StreamFunctionCall};

use super::site::{self, SiteRows};
use super::{Broken, Step};
use crate::component::{EvalContext, Groups};
use crate::error::Error;
use crate::expr::{COMPUTED, Compiler, Expression, Inputs, Layout, ROW, Site};
use crate::output::{LogLevel, Output};
use crate::table::ConditionContext;

/// Group number of running aggregators in a filter: one state per partition key.
const ALL_ROWS: fn(crate::component::Key) -> u32 = |key| key;

pub(crate) enum Stage {
    Filter {
        sites: Vec<Site>,
        condition: Expression,
    },
    Log {
        /// Priority, message, and whether the event is printed.
        level: Option<Expression>,
        message: Option<Expression>,
        with_event: Option<Expression>,
    },
    /// `#pol2Cart(theta, rho [, z])`.
    PolarToCartesian { args: Vec<Expression> },
    /// A stream function with effects.
    Effect {
        name: String,
        args: Vec<Expression>,
        adds: usize,
    },
}

impl Stage {
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
            removes: false,
            tables: context,
        };
        let stage = match handler {
            Handler::Filter(expr) => {
                let condition = compiler.compile(expr)?;
                return Ok(Stage::Filter { sites, condition });
            }
            Handler::Function(call) => Self::function(call, &mut compiler)?,
            Handler::Window(call) => {
                return Err(Error::unsupported("a second window in a query", call.span));
            }
        };
        if let (Handler::Function(call), false) = (handler, sites.is_empty()) {
            return Err(Error::unsupported(
                "'in' or an effect inside the argument of a stream function",
                call.span,
            ));
        }
        Ok(stage)
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
            "pol2Cart" => Ok(Stage::PolarToCartesian { args }),
            name => {
                let is_effect = lang::catalog::connectors::all()
                    .any(|c| c.kind == lang::spec::ConnectorKind::StreamFunction && c.name == name);
                if !is_effect {
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
            Stage::Log { .. } | Stage::PolarToCartesian { .. } => false,
            Stage::Effect { .. } => true,
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
            Stage::PolarToCartesian { args } => args.iter().any(Expression::is_fallible),
            Stage::Effect { .. } => true,
        }
    }

    pub fn sites(&self) -> &[Site] {
        match self {
            Stage::Filter { sites, .. } => sites,
            _ => &[],
        }
    }

    pub fn sites_mut(&mut self) -> &mut [Site] {
        match self {
            Stage::Filter { sites, .. } => sites,
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
            Stage::PolarToCartesian { args } | Stage::Effect { args, .. } => args.iter().collect(),
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
            Stage::PolarToCartesian { args } | Stage::Effect { args, .. } => {
                args.iter_mut().collect()
            }
        }
    }

    /// `None` where nothing of the batch is left.
    pub fn run(
        &mut self,
        batch: Batch,
        key: crate::component::Key,
        step: &mut Step<'_>,
    ) -> Result<Option<Batch>, Broken> {
        let mut failures = Vec::new();
        let result = match self {
            Stage::Filter { sites, condition } => {
                let group = ALL_ROWS(key);
                let rows = SiteRows {
                    batch: &batch,
                    groups: Groups::One(group),
                    reset_groups: &[],
                };
                let computed = site::compute(sites, &rows, step, &mut failures);
                let inputs = Inputs::of(&batch.columns, batch.len).with(COMPUTED, &computed);
                let mut context = step.evaluation(&batch, &mut failures);
                let keep = condition.mask(&inputs, &mut context);
                batch.filter(&keep)
            }
            Stage::Log {
                level,
                message,
                with_event,
            } => {
                let inputs = Inputs::of(&batch.columns, batch.len);
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
                        failures.push(crate::component::Failure {
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
            Stage::PolarToCartesian { args } => {
                let inputs = Inputs::of(&batch.columns, batch.len);
                let mut context = step.evaluation(&batch, &mut failures);
                let args: Vec<Column> = args
                    .iter_mut()
                    .map(|a| a.column(&inputs, &mut context))
                    .collect();
                let added = polar_to_cartesian(&args, batch.len, &mut context);
                let mut batch = batch;
                batch.columns.extend(added);
                Some(batch)
            }
            Stage::Effect { name, args, adds } => {
                let inputs = Inputs::of(&batch.columns, batch.len);
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
        match failures.into_iter().min_by_key(|f| f.row) {
            Some(failure) => Err(Broken::at(self.place(), failure.message)),
            None => Ok(result),
        }
    }

    fn place(&self) -> String {
        match self {
            Stage::Filter { .. } => "filter".to_owned(),
            Stage::Log { .. } => "stream function '#log'".to_owned(),
            Stage::PolarToCartesian { .. } => "stream function '#pol2Cart'".to_owned(),
            Stage::Effect { name, .. } => format!("stream function '#{name}'"),
        }
    }
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

/// Theta is in degrees (Siddhi's `Pol2CartStreamFunctionProcessor`).
fn polar_to_cartesian(args: &[Column], rows: usize, context: &mut EvalContext<'_>) -> Vec<Column> {
    let mut x = event::ColumnBuilder::with_capacity(event::Type::Double, rows);
    let mut y = event::ColumnBuilder::with_capacity(event::Type::Double, rows);
    for row in 0..rows {
        let (theta, rho) = (
            args[0].value(row).to_double(),
            args[1].value(row).to_double(),
        );
        match (theta, rho) {
            (Some(theta), Some(rho)) => {
                x.push_double(rho * theta.to_radians().cos());
                y.push_double(rho * theta.to_radians().sin());
            }
            _ => {
                context.fail(row, "an argument of '#pol2Cart' is null");
                x.push_null();
                y.push_null();
            }
        }
    }
    let mut added = vec![x.finish(), y.finish()];
    added.extend(args.get(2).cloned());
    added
}

/// Calls the host; its rows keep the order, kinds and chunks of the rows they come from.
fn effect(
    name: &str,
    args: &[Column],
    adds: usize,
    mut batch: Batch,
    step: &mut Step<'_>,
    failures: &mut Vec<crate::component::Failure>,
) -> Option<Batch> {
    let mut fail = |row: usize, message: String| {
        failures.push(crate::component::Failure {
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
        let mut counts = vec![0u32; batch.len];
        origins.iter().for_each(|&o| counts[o as usize] += 1);
        let mut ends = Vec::with_capacity(batch.chunk_count());
        let mut clocks = Vec::with_capacity(batch.chunk_count());
        let mut end = 0;
        for chunk in 0..batch.chunk_count() {
            let rows: u32 = counts[batch.chunk(chunk)].iter().sum();
            if rows > 0 {
                end += rows;
                ends.push(end);
                clocks.push(batch.clock_at(chunk));
            }
        }
        if end == 0 {
            return None;
        }
        let times = origins
            .iter()
            .map(|&o| batch.times.at(o as usize))
            .collect();
        let expired = batch.expired.as_ref();
        let expired = expired.map(|e| origins.iter().map(|&o| e[o as usize]).collect());
        batch = Batch {
            columns: batch.columns.iter().map(|c| c.gather(origins)).collect(),
            len: origins.len(),
            times: event::Times::per_row(times),
            expired,
            resets: None,
            chunks: event::Chunks::Ends(ends.into()),
            inner: None,
            clock: event::Clock::PerChunk(clocks.into()),
        };
    }
    if called.columns.len() != adds || called.columns.iter().any(|c| c.len() != batch.len) {
        return fail(0, format!("stream function '#{name}' gave other columns"));
    }
    batch.columns.extend(called.columns);
    Some(batch)
}

/// Rows arrive in part [`ROW`] of the inputs of every stage.
const _: () = assert!(ROW == 0);
