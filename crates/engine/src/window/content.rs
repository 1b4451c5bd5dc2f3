//! A condition over the content of a window: the text of `expression` and `expressionBatch`.
//!
//! It is evaluated event by event, as Siddhi does: its aggregators add the event that arrives and
//! remove the one that leaves, and an `and` or `or` whose left side decides leaves those on its
//! right as they were.

use event::codec::{Error as StateError, Reader, Writer};
use event::{Batch, Column, ColumnBuilder, Schema, Times, Type, Value};
use plan::{Expr, ExprKind};

use crate::component::{AppEnvironment, EvalContext, Failure, Group, Groups, Refused, Scan};
use crate::expr::{
    AggregateSite, COMPUTED, Compiler, Expression, Inputs, Layout, OTHER, ROW, Site,
};
use crate::table::ConditionContext;

/// Inputs of the condition.
const OLDEST: u16 = 1;
const NEWEST: u16 = 2;
/// Timestamps of the event that is looked at, of the oldest and of the newest.
const CLOCKS: u16 = 3;

/// Aggregators of a condition have one state.
const GROUP: Group = 0;

/// What becomes of the event that is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Arrives,
    Leaves,
    /// Nothing: the aggregators begin anew.
    Reset,
}

/// An event, and its timestamp.
#[derive(Clone, Debug)]
pub struct Event {
    pub values: Vec<Value>,
    pub time: i64,
}

impl Event {
    pub fn of(batch: &Batch, row: usize) -> Event {
        Event {
            values: batch.row(row),
            time: batch.times.at(row),
        }
    }
}

/// The three events that a condition sees.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub event: &'a Event,
    pub oldest: &'a Event,
    pub newest: &'a Event,
}

pub struct Condition {
    root: Node,
    environment: AppEnvironment,
    seed: u64,
}

enum Node {
    /// `and` where `stops_at` is false, `or` where it is true.
    Logical {
        stops_at: bool,
        sides: Box<[Node; 2]>,
    },
    Not(Box<Node>),
    Leaf {
        sites: Vec<AggregateSite>,
        /// What each aggregator gives when it is reset; `None`: what it had.
        empty: Vec<Option<Value>>,
        expression: Expression,
    },
}

impl Condition {
    pub fn new(
        text: &str,
        row: &Schema,
        environment: &AppEnvironment,
    ) -> Result<Condition, Refused> {
        let wrong = |why: String| Refused(format!("its expression '{text}' cannot be used: {why}"));
        let expr = environment.conditions.read(row, text).map_err(wrong)?;
        let root = Node::new(expr, row.attributes.len());
        Ok(Condition {
            root: root.map_err(|error| wrong(error.to_string()))?,
            environment: environment.clone(),
            seed: 0,
        })
    }

    /// Does it hold? What fails counts as false and is reported for `row`.
    pub fn holds(
        &mut self,
        kind: Kind,
        view: View<'_>,
        (now, wall): (i64, i64),
        row: usize,
        failures: &mut Vec<Failure>,
    ) -> bool {
        let mut others = Vec::with_capacity(2 * view.event.values.len() + 3);
        others.extend_from_slice(&view.oldest.values);
        others.extend_from_slice(&view.newest.values);
        let clocks = [view.event.time, view.oldest.time, view.newest.time];
        others.extend(clocks.map(Value::Long));
        let inputs = Inputs::of(&[], 1)
            .with_values(ROW, &view.event.values)
            .with_values(OTHER, &others);
        let times = Times::Same(view.event.time);
        let mut found = Vec::new();
        let mut context = EvalContext::new(
            now,
            wall,
            &times,
            &self.environment,
            &mut self.seed,
            &mut found,
        );
        let holds = self.root.holds(kind, &inputs, &mut context);
        failures.extend(found.into_iter().map(|failure| Failure {
            row: row as u32,
            message: failure.message,
        }));
        holds
    }

    pub fn save(&self, writer: &mut Writer) {
        self.root.each_site(&mut |site| {
            writer.section(|w| site.aggregate.save(GROUP, w));
        });
    }

    pub fn restore(&mut self, reader: &mut Reader<'_>) -> Result<(), StateError> {
        self.root.restore(reader)
    }
}

impl Node {
    /// Depth is bounded by the parser's limit on nesting.
    fn new(expr: Expr, width: usize) -> Result<Node, crate::error::Error> {
        let stops_at = matches!(expr.kind, ExprKind::Or(..));
        match expr.kind {
            ExprKind::And(left, right) | ExprKind::Or(left, right) => Ok(Node::Logical {
                stops_at,
                sides: Box::new([Node::new(*left, width)?, Node::new(*right, width)?]),
            }),
            ExprKind::Not(inner) => Ok(Node::Not(Box::new(Node::new(*inner, width)?))),
            _ => Node::leaf(expr, width),
        }
    }

    fn leaf(mut expr: Expr, width: usize) -> Result<Node, crate::error::Error> {
        name_clocks(&mut expr);
        let all: Vec<usize> = (0..width).collect();
        let layout = Layout::whole(0, ROW, width)
            .and_picked(OLDEST, OTHER, 0, width, &all)
            .and_picked(NEWEST, OTHER, width, width, &all)
            .and_picked(CLOCKS, OTHER, 2 * width, 3, &[0, 1, 2]);
        let mut names = Vec::new();
        crate::expr::aggregates_of(&expr, &mut |name| names.push(name.to_owned()));
        let mut sites = Vec::new();
        let mut tables = ConditionContext::new(&[]);
        let expression = Compiler {
            layout,
            sites: &mut sites,
            tracks: true,
            tables: &mut tables,
        }
        .compile(&expr)?;
        let mut aggregates = Vec::new();
        for site in sites {
            match site {
                Site::Aggregate(site) => aggregates.push(site),
                _ => {
                    let what = "'in' or an effect in the expression of a window";
                    return Err(crate::error::Error::unsupported(what, expr.span));
                }
            }
        }
        let empty = aggregates.iter().zip(names);
        let empty = empty
            .map(|(site, name)| empty_value(&name, site.ty))
            .collect();
        Ok(Node::Leaf {
            sites: aggregates,
            empty,
            expression,
        })
    }

    fn holds(&mut self, kind: Kind, inputs: &Inputs<'_>, context: &mut EvalContext<'_>) -> bool {
        match self {
            Node::Logical { stops_at, sides } => {
                let [left, right] = sides.as_mut();
                if left.holds(kind, inputs, context) == *stops_at {
                    return *stops_at;
                }
                right.holds(kind, inputs, context)
            }
            Node::Not(inner) => !inner.holds(kind, inputs, context),
            Node::Leaf {
                sites,
                empty,
                expression,
            } => {
                let mut columns = Vec::with_capacity(sites.len());
                for (site, empty) in sites.iter_mut().zip(empty) {
                    let mut out = ColumnBuilder::with_capacity(site.ty, 1);
                    let with = inputs.with(COMPUTED, &columns);
                    let args: Vec<Column> = match kind {
                        Kind::Reset => {
                            let null = |a: &Expression| Column::constant(a.ty, &Value::Null, 1);
                            site.args.iter().map(null).collect()
                        }
                        _ => {
                            let args = site.args.iter_mut();
                            args.map(|a| a.column(&with, context)).collect()
                        }
                    };
                    match (kind, empty) {
                        (Kind::Reset, Some(empty)) => out.push(empty),
                        _ => {
                            let scan = Scan {
                                args: &args,
                                start: 0,
                                end: 1,
                                groups: Groups::One(GROUP),
                                expired: (kind == Kind::Leaves).then_some(&[true]),
                            };
                            site.aggregate.scan(&scan, context, &mut out);
                        }
                    }
                    if kind == Kind::Reset {
                        site.aggregate.clear(GROUP);
                    }
                    columns.push(out.finish());
                }
                let with = inputs.with(COMPUTED, &columns);
                let holds = expression.evaluate(&with, context);
                holds.value(0).as_bool().unwrap_or(false)
            }
        }
    }

    fn each_site(&self, visit: &mut dyn FnMut(&AggregateSite)) {
        match self {
            Node::Logical { sides, .. } => sides.iter().for_each(|side| side.each_site(visit)),
            Node::Not(inner) => inner.each_site(visit),
            Node::Leaf { sites, .. } => sites.iter().for_each(visit),
        }
    }

    fn restore(&mut self, reader: &mut Reader<'_>) -> Result<(), StateError> {
        match self {
            Node::Logical { sides, .. } => {
                sides.iter_mut().try_for_each(|side| side.restore(reader))
            }
            Node::Not(inner) => inner.restore(reader),
            Node::Leaf { sites, .. } => {
                for site in sites {
                    site.aggregate.restore(GROUP, &mut reader.section()?)?;
                }
                Ok(())
            }
        }
    }
}

/// What Siddhi's aggregators answer to a RESET: those that count give 0, those that never forget
/// what they had, the others nothing.
fn empty_value(name: &str, ty: Type) -> Option<Value> {
    match (name, ty) {
        ("count" | "distinctCount" | "sum", Type::Long) => Some(Value::Long(0)),
        ("sum", _) => Some(Value::Double(0.0)),
        ("minForever" | "maxForever", _) => None,
        _ => Some(Value::Null),
    }
}

/// `eventTimestamp(first)` and its like become attributes of [`CLOCKS`].
fn name_clocks(expr: &mut Expr) {
    if let ExprKind::Call { name, event, .. } = &expr.kind
        && name == "eventTimestamp"
    {
        expr.kind = ExprKind::Attribute {
            input: CLOCKS,
            index: None,
            attribute: event.as_ref().map_or(0, |(input, _)| usize::from(*input)),
        };
        return;
    }
    match &mut expr.kind {
        ExprKind::Arithmetic(_, a, b)
        | ExprKind::Compare(_, a, b)
        | ExprKind::And(a, b)
        | ExprKind::Or(a, b) => {
            name_clocks(a);
            name_clocks(b);
        }
        ExprKind::Not(inner) | ExprKind::IsNull(inner) => name_clocks(inner),
        ExprKind::Call { args, .. }
        | ExprKind::Script { args, .. }
        | ExprKind::Aggregate { args, .. } => args.iter_mut().for_each(name_clocks),
        ExprKind::In { condition, .. } => name_clocks(condition),
        ExprKind::Constant(_) | ExprKind::Attribute { .. } | ExprKind::IsNoEvent { .. } => {}
    }
}

/// The text of a window's expression: a constant, or an attribute whose value may change.
pub struct Text {
    pub constant: Option<String>,
    /// Column of the attribute.
    pub attribute: Option<usize>,
    row: Schema,
    environment: AppEnvironment,
}

impl Text {
    pub fn new(setup: &crate::component::WindowSetup<'_>, name: &str) -> Result<Text, Refused> {
        let arg = setup.args.first();
        let constant = arg
            .and_then(|a| a.constant.as_ref())
            .and_then(Value::as_str);
        let attribute = arg.and_then(|a| a.attribute);
        if constant.is_none() && attribute.is_none() {
            return Err(super::refused(name, 0, "a text"));
        }
        let text = Text {
            constant: constant.map(str::to_owned),
            attribute,
            row: setup.schema.clone(),
            environment: setup.environment.clone(),
        };
        if let Some(constant) = &text.constant {
            text.compile(constant)?;
        }
        Ok(text)
    }

    pub fn compile(&self, text: &str) -> Result<Condition, Refused> {
        Condition::new(text, &self.row, &self.environment)
    }
}

/// The condition of one key: its text, and, once it is needed, its compiled form.
#[derive(Default)]
pub struct Current {
    pub text: Option<String>,
    pub condition: Option<Condition>,
    /// State of the aggregators that was restored before there was a compiled form.
    restored: Option<Vec<u8>>,
}

impl Current {
    /// Makes sure there is a compiled form of the text in force; true: the text is another than
    /// before, where there was one.
    pub fn refresh(&mut self, text: &Text, batch: &Batch, row: usize) -> Result<bool, String> {
        let value = text
            .attribute
            .map(|column| batch.columns[column].value(row));
        let wanted = match (&text.constant, &value) {
            (Some(constant), _) => constant.as_str(),
            (None, Some(Value::Str(text))) => text,
            _ => return Err("the expression of the window is null".to_owned()),
        };
        if self.condition.is_some() && self.text.as_deref() == Some(wanted) {
            return Ok(false);
        }
        let is_new = self.text.as_deref() != Some(wanted);
        let mut condition = text.compile(wanted).map_err(|refused| refused.0)?;
        if let Some(restored) = self.restored.take().filter(|_| !is_new) {
            let restored = condition.restore(&mut Reader::new(&restored));
            restored.map_err(|error| error.to_string())?;
        }
        self.condition = Some(condition);
        let had = self.text.replace(wanted.to_owned());
        Ok(is_new && had.is_some())
    }

    pub fn save(&self, writer: &mut Writer) {
        writer.bool(self.text.is_some());
        writer.str(self.text.as_deref().unwrap_or_default());
        let mut state = Writer::default();
        match (&self.condition, &self.restored) {
            (Some(condition), _) => condition.save(&mut state),
            (None, Some(restored)) => state.bytes.extend_from_slice(restored),
            (None, None) => {}
        }
        writer.blob(&state.bytes);
    }

    pub fn restore(reader: &mut Reader<'_>) -> Result<Current, StateError> {
        let has_text = reader.bool()?;
        let text = reader.str()?.to_owned();
        let state = reader.blob()?.to_vec();
        Ok(Current {
            text: has_text.then_some(text),
            condition: None,
            restored: has_text.then_some(state),
        })
    }
}
