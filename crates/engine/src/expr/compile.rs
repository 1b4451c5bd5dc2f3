//! From the plan's expression tree to one that runs.

use event::{Column, ColumnBuilder, Schema, Type, Value};
use plan::{Constant, Expr, ExprKind, InputId, TableId};

use super::{COMPUTED, Condition, ConditionContext, Expression, Node, OTHER, ROW, Slot};
use crate::component::{Aggregate, Argument};
use crate::error::Error;
use crate::script::ScriptSite;

/// Where the attributes of each input stand.
#[derive(Clone, Default, Debug)]
pub(crate) struct Layout {
    inputs: Vec<(InputId, Vec<Option<Slot>>)>,
    presence: Vec<(InputId, Slot)>,
    /// Timestamps of the events of an input.
    times: Vec<(InputId, Slot)>,
}

impl Layout {
    /// One input whose attributes are the columns of a part, in order.
    pub fn whole(input: InputId, part: u8, attributes: usize) -> Layout {
        Layout::default().and_whole(input, part, attributes)
    }

    pub fn and_whole(self, input: InputId, part: u8, attributes: usize) -> Layout {
        let all: Vec<usize> = (0..attributes).collect();
        self.and_picked(input, part, 0, attributes, &all)
    }

    /// An input of which only some attributes are there: for each column from `first` on its
    /// attribute, or `usize::MAX` for a column of another kind.
    pub fn and_picked(
        mut self,
        input: InputId,
        part: u8,
        first: usize,
        attributes: usize,
        kept: &[usize],
    ) -> Layout {
        let mut slots = vec![None; attributes];
        for (at, &attribute) in kept.iter().enumerate() {
            if attribute != usize::MAX {
                slots[attribute] = Some(Slot::at(part, first + at));
            }
        }
        self.inputs.push((input, slots));
        self
    }

    /// A column that is true where the input has an event.
    pub fn and_presence(mut self, input: InputId, part: u8, index: usize) -> Layout {
        self.presence.push((input, Slot::at(part, index)));
        self
    }

    /// A column of the timestamps of the input's events.
    pub fn and_times(mut self, input: InputId, part: u8, index: usize) -> Layout {
        self.times.push((input, Slot::at(part, index)));
        self
    }

    /// Columns of a part that are spoken for.
    pub fn width(&self, part: u8) -> usize {
        let slots = self
            .inputs
            .iter()
            .flat_map(|(_, slots)| slots.iter().flatten());
        let others = self.presence.iter().chain(&self.times);
        let slots = slots.chain(others.map(|(_, slot)| slot));
        let ends = slots
            .filter(|s| s.part == part)
            .map(|s| usize::from(s.index) + 1);
        ends.max().unwrap_or(0)
    }

    fn slot(&self, input: InputId, attribute: usize) -> Option<Slot> {
        let (_, slots) = self.inputs.iter().find(|(i, _)| *i == input)?;
        slots.get(attribute).copied().flatten()
    }

    fn presence(&self, input: InputId) -> Option<Slot> {
        of(&self.presence, input)
    }

    fn times(&self, input: InputId) -> Option<Slot> {
        of(&self.times, input)
    }
}

fn of(slots: &[(InputId, Slot)], input: InputId) -> Option<Slot> {
    let found = slots.iter().find(|(i, _)| *i == input);
    found.map(|(_, slot)| *slot)
}

/// What an expression holds that is computed beside it, in the order of evaluation. The result is
/// the column of [`COMPUTED`] of the same number.
pub(crate) enum Site {
    Aggregate(AggregateSite),
    Probe(ProbeSite),
    Effect(EffectSite),
}

/// One occurrence of an aggregator.
pub(crate) struct AggregateSite {
    pub aggregate: Box<dyn Aggregate>,
    pub args: Vec<Expression>,
    pub ty: Type,
    /// Room for the values of a batch and of its arguments, kept from batch to batch.
    pub values: ColumnBuilder,
    pub columns: Vec<Column>,
}

impl AggregateSite {
    /// Makes ready for the values of so many rows.
    pub fn begin(&mut self, rows: usize) {
        if !self.values.is_of(self.ty) {
            self.values = ColumnBuilder::new(self.ty);
        }
        self.values.reserve(rows, 0.0);
    }
}

/// One `condition in Table`.
pub(crate) struct ProbeSite {
    pub table: TableId,
    pub condition: Condition,
}

/// One call of a scalar function with effects.
pub(crate) struct EffectSite {
    pub name: String,
    pub args: Vec<Expression>,
}

impl Site {
    pub fn ty(&self) -> Type {
        match self {
            Site::Aggregate(site) => site.ty,
            Site::Probe(_) => Type::Bool,
            Site::Effect(_) => Type::Bool,
        }
    }
}

/// Compiles the expressions of one place of a query.
pub(crate) struct Compiler<'a, 'p> {
    pub layout: Layout,
    pub sites: &'a mut Vec<Site>,
    /// As in [`Aggregator::bind`](crate::component::Aggregator::bind).
    pub tracks: bool,
    pub tables: &'a mut ConditionContext<'p>,
}

impl Compiler<'_, '_> {
    pub fn compile(&mut self, expr: &Expr) -> Result<Expression, Error> {
        let root = self.node(expr)?;
        Ok(Expression::new(root, expr.ty))
    }

    fn node(&mut self, expr: &Expr) -> Result<Node, Error> {
        Ok(match &expr.kind {
            ExprKind::Constant(constant) => Node::Constant(constant_value(constant)),
            ExprKind::Attribute {
                input, attribute, ..
            } => Node::Input {
                slot: self.layout.slot(*input, *attribute).ok_or_else(|| {
                    Error::unsupported("an attribute of an event that is not there", expr.span)
                })?,
                ty: expr.ty,
            },
            ExprKind::Arithmetic(op, left, right) => Node::Arithmetic {
                op: *op,
                ty: expr.ty,
                is_fallible: !left.ty.is_numeric() || !right.ty.is_numeric(),
                sides: Box::new([self.node(left)?, self.node(right)?]),
            },
            ExprKind::Compare(op, left, right) => Node::Compare {
                op: *op,
                types: [left.ty, right.ty],
                sides: Box::new([self.node(left)?, self.node(right)?]),
            },
            ExprKind::And(left, right) | ExprKind::Or(left, right) => Node::Logical {
                stops_at: matches!(expr.kind, ExprKind::Or(..)),
                sides: Box::new([self.node(left)?, self.node(right)?]),
            },
            ExprKind::Not(inner) => Node::Not(Box::new(self.node(inner)?)),
            ExprKind::IsNull(inner) => Node::IsNull(Box::new(self.node(inner)?)),
            ExprKind::IsNoEvent { input, .. } => match self.layout.presence(*input) {
                Some(slot) => Node::IsAbsent(slot),
                None => Node::Constant(Value::Bool(false)),
            },
            ExprKind::In {
                condition,
                table,
                row,
            } => {
                let layout = self.layout.clone();
                let condition = self.tables.probe(condition, &layout, *table, *row)?;
                self.site(Site::Probe(ProbeSite {
                    table: *table,
                    condition,
                }))
            }
            ExprKind::Call {
                name, args, event, ..
            } => match event.and_then(|(input, _)| self.layout.times(input)) {
                Some(slot) => Node::Input { slot, ty: expr.ty },
                None => not_null(self.call(expr, name, args)?, expr.ty),
            },
            ExprKind::Script { function, args } => {
                not_null(self.script(expr, *function, args)?, expr.ty)
            }
            ExprKind::Aggregate { name, args } => self.aggregate(expr, name, args)?,
        })
    }

    fn site(&mut self, site: Site) -> Node {
        let ty = site.ty();
        let index = self.sites.len() as u16;
        self.sites.push(site);
        Node::Input {
            slot: Slot {
                part: COMPUTED,
                index,
            },
            ty,
        }
    }

    fn call(&mut self, expr: &Expr, name: &str, args: &[Expr]) -> Result<Node, Error> {
        // Only the chosen branch is evaluated (Siddhi's IfThenElseFunctionExecutor).
        if let ("ifThenElse", [condition, yes, no]) = (name, args) {
            let parts = [self.node(condition)?, self.branch(yes)?, self.branch(no)?];
            return Ok(Node::If {
                ty: expr.ty,
                parts: Box::new(parts),
            });
        }
        let found = crate::function::functions().find(|f| f.spec().full_name() == name);
        let Some(function) = found else {
            if !matches!(
                expr.kind,
                ExprKind::Call {
                    is_effect: true,
                    ..
                }
            ) {
                return Err(Error::unsupported(format!("function '{name}'"), expr.span));
            }
            let args = self.expressions(args)?;
            let name = name.to_owned();
            return Ok(self.site(Site::Effect(EffectSite { name, args })));
        };
        let function = function
            .bind(&self.arguments(args))
            .map_err(|reason| Error::Refused {
                kind: "function",
                name: name.to_owned(),
                reason: reason.0,
                span: expr.span,
            })?;
        let fused = crate::function::fused::fuse(name, args).map(Box::new);
        let args = args
            .iter()
            .map(|arg| Ok((self.node(arg)?, arg.ty)))
            .collect::<Result<_, Error>>()?;
        Ok(Node::Call {
            name: name.to_owned(),
            function,
            args,
            fused,
        })
    }

    /// A branch of `ifThenElse`: a bool that is null is false (Siddhi's
    /// `IfThenElseFunctionExecutor` looks whether it is true).
    fn branch(&mut self, expr: &Expr) -> Result<Node, Error> {
        let node = self.node(expr)?;
        let may_be_null = matches!(node, Node::Input { .. });
        Ok(if may_be_null {
            not_null(node, expr.ty)
        } else {
            node
        })
    }

    fn script(&mut self, expr: &Expr, function: usize, args: &[Expr]) -> Result<Node, Error> {
        let function = &self.tables.functions[function];
        let Some(scripts) = self.tables.scripts else {
            return Err(Error::unsupported("a script function", expr.span));
        };
        let script = scripts.compile(function).map_err(|reason| Error::Refused {
            kind: "script function",
            name: function.name.clone(),
            reason,
            span: function.span,
        })?;
        let site = ScriptSite {
            name: function.name.clone(),
            returns: expr.ty,
            script,
        };
        let args = args
            .iter()
            .map(|arg| Ok((self.node(arg)?, arg.ty)))
            .collect::<Result<_, Error>>()?;
        Ok(Node::Call {
            name: site.name.clone(),
            function: Box::new(site),
            args,
            fused: None,
        })
    }

    fn aggregate(&mut self, expr: &Expr, name: &str, args: &[Expr]) -> Result<Node, Error> {
        let aggregator = crate::aggregator::AGGREGATORS
            .iter()
            .find(|a| a.spec().full_name() == name)
            .ok_or_else(|| Error::unsupported(format!("aggregator '{name}'"), expr.span))?;
        let aggregate = aggregator
            .bind(&self.arguments(args), self.tracks)
            .map_err(|reason| Error::Refused {
                kind: "aggregator",
                name: name.to_owned(),
                reason: reason.0,
                span: expr.span,
            })?;
        let args = self.expressions(args)?;
        Ok(self.site(Site::Aggregate(AggregateSite {
            aggregate,
            args,
            ty: expr.ty,
            values: ColumnBuilder::new(expr.ty),
            columns: Vec::new(),
        })))
    }

    pub fn expressions(&mut self, exprs: &[Expr]) -> Result<Vec<Expression>, Error> {
        exprs.iter().map(|e| self.compile(e)).collect()
    }

    fn arguments(&self, args: &[Expr]) -> Vec<Argument> {
        args.iter()
            .map(|arg| {
                argument(arg, &|input, attribute| {
                    self.layout
                        .slot(input, attribute)
                        .filter(|s| s.part == ROW || s.part == OTHER)
                        .map(|s| usize::from(s.index))
                })
            })
            .collect()
    }
}

/// What a component is told of an argument; `index` finds an attribute in the row.
pub(crate) fn argument(arg: &Expr, index: &dyn Fn(InputId, usize) -> Option<usize>) -> Argument {
    Argument {
        ty: arg.ty,
        constant: match &arg.kind {
            ExprKind::Constant(constant) => Some(constant_value(constant)),
            _ => None,
        },
        attribute: match &arg.kind {
            ExprKind::Attribute {
                input, attribute, ..
            } => index(*input, *attribute),
            _ => None,
        },
    }
}

/// What a function gives: a bool that is null is false (Siddhi's `BoolConditionExpressionExecutor`,
/// which `ExpressionParser` puts around every function that returns a bool).
fn not_null(node: Node, ty: Type) -> Node {
    if ty != Type::Bool {
        return node;
    }
    Node::Logical {
        stops_at: true,
        sides: Box::new([node, Node::Constant(Value::Bool(false))]),
    }
}

pub(crate) fn constant_value(constant: &Constant) -> Value {
    match constant {
        Constant::Int(v) => Value::Int(*v),
        Constant::Long(v) => Value::Long(*v),
        Constant::Float(v) => Value::Float(*v),
        Constant::Double(v) => Value::Double(*v),
        Constant::Bool(v) => Value::Bool(*v),
        Constant::String(v) => Value::str(v),
    }
}

/// Stands for the timestamp of an input's event among its attributes.
pub(crate) const EVENT_TIME: usize = usize::MAX;

/// Calls `visit` for each attribute that an expression reads, [`EVENT_TIME`] among them.
///
/// Depth is bounded by the parser's limit on nesting.
pub(crate) fn attributes_of(expr: &Expr, visit: &mut dyn FnMut(InputId, usize)) {
    match &expr.kind {
        ExprKind::Call {
            event: Some((input, _)),
            ..
        } => visit(*input, EVENT_TIME),
        ExprKind::Constant(_) | ExprKind::IsNoEvent { .. } => {}
        ExprKind::Attribute {
            input, attribute, ..
        } => visit(*input, *attribute),
        ExprKind::Arithmetic(_, a, b)
        | ExprKind::Compare(_, a, b)
        | ExprKind::And(a, b)
        | ExprKind::Or(a, b) => {
            attributes_of(a, visit);
            attributes_of(b, visit);
        }
        ExprKind::Not(inner) | ExprKind::IsNull(inner) => attributes_of(inner, visit),
        ExprKind::In { condition, .. } => attributes_of(condition, visit),
        ExprKind::Call { args, .. }
        | ExprKind::Script { args, .. }
        | ExprKind::Aggregate { args, .. } => {
            args.iter().for_each(|a| attributes_of(a, visit));
        }
    }
}

/// Calls `visit` with the name of each aggregator of an expression, in the order in which the
/// compiler makes their sites.
pub(crate) fn aggregates_of(expr: &Expr, visit: &mut dyn FnMut(&str)) {
    match &expr.kind {
        ExprKind::Aggregate { name, .. } => visit(name),
        ExprKind::Arithmetic(_, a, b)
        | ExprKind::Compare(_, a, b)
        | ExprKind::And(a, b)
        | ExprKind::Or(a, b) => {
            aggregates_of(a, visit);
            aggregates_of(b, visit);
        }
        ExprKind::Not(inner) | ExprKind::IsNull(inner) => aggregates_of(inner, visit),
        ExprKind::Call { args, .. } | ExprKind::Script { args, .. } => {
            args.iter().for_each(|a| aggregates_of(a, visit));
        }
        ExprKind::Constant(_)
        | ExprKind::Attribute { .. }
        | ExprKind::IsNoEvent { .. }
        | ExprKind::In { .. } => {}
    }
}

/// Number of attributes, for layouts made from a schema.
pub(crate) fn width(schema: &Schema) -> usize {
    schema.attributes.len()
}
