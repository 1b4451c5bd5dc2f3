//! Expressions: a typed tree from the plan, evaluated a batch at a time.
//!
//! Every node takes whole columns and gives a column, or a single value where all rows share one
//! (a comparison with a constant never makes a column of the constant). Meaning is Siddhi's: Java's
//! promotion and wrap-around, null from arithmetic with null and from division by zero, two-valued
//! comparisons. A row that fails is reported through [`EvalContext`] and evaluation goes on; the
//! right side of `and`, `or` and the branches of `ifThenElse`, where they may fail, are evaluated
//! only on the rows that need them.
//!
//! Columns of `Any` go the row path: each value is cast as Siddhi's executors cast it, and a value
//! of another class fails its row.
//!
//! Aggregators and `in` are not evaluated here. [`compile`] takes them out and leaves a reference
//! to a column that the query computes first.

// Twin: single.rs (the same for one row); keep both in step.

mod arithmetic;
mod bounds;
mod compare;
mod compile;
mod condition;
mod row;
mod single;
#[cfg(test)]
mod tests;

pub(crate) use compare::comparison_type;
pub(crate) use compile::{
    AggregateSite, Compiler, EVENT_TIME, Layout, Site, aggregates_of, argument, attributes_of,
    width,
};
pub(crate) use condition::{
    Condition, ConditionContext, MemoryCondition, Prepared, Searched, Terms, types,
};

use std::borrow::Cow;

use event::codec::Error as StateError;
use event::column::View;
use event::selection::{picked_bits, picked_marks};
use event::{Column, ColumnBuilder, Type, Value};
use plan::{ArithmeticOp, CompareOp};

use crate::component::{EvalContext, Evaluate};
use crate::function::fused::Fusion;
use bounds::Bounds;

/// What an expression gives: a column, or one value for all rows.
///
/// A column of the inputs is not taken hold of: that would cost more than many a computation.
#[derive(Clone, Debug)]
pub(crate) enum Operand<'a> {
    Column(Cow<'a, Column>),
    Constant(Value),
}

impl From<Column> for Operand<'_> {
    fn from(column: Column) -> Self {
        Operand::Column(Cow::Owned(column))
    }
}

impl Operand<'_> {
    pub fn into_column(self, ty: Type, rows: usize) -> Column {
        match self {
            Operand::Column(column) => column.into_owned(),
            Operand::Constant(value) => Column::constant(ty, &value, rows),
        }
    }

    fn into_owned(self) -> Operand<'static> {
        match self {
            Operand::Column(column) => Operand::from(column.into_owned()),
            Operand::Constant(value) => Operand::Constant(value),
        }
    }

    pub fn value(&self, row: usize) -> Value {
        match self {
            Operand::Column(column) => column.value(row),
            Operand::Constant(value) => value.clone(),
        }
    }

    /// One row of [`Operand::mask`].
    pub fn is_true(&self, row: usize) -> bool {
        match self {
            Operand::Constant(value) => value.as_bool().unwrap_or(false),
            Operand::Column(column) => match column.view() {
                View::Bool(v) => v[row] && !column.is_null(row),
                View::Any(v) => v[row].as_bool().unwrap_or(false),
                _ => false,
            },
        }
    }

    /// As [`Operand::mask`]; a column that nobody else holds is taken over.
    pub fn into_mask(self, rows: usize) -> Vec<bool> {
        match self {
            Operand::Column(Cow::Owned(column)) => match column.into_bools() {
                Ok(mask) => mask,
                Err(column) => Operand::from(column).mask(rows),
            },
            other => other.mask(rows),
        }
    }

    /// As a condition: null and whatever is not a BOOL count as false.
    pub fn mask(&self, rows: usize) -> Vec<bool> {
        match self {
            Operand::Constant(value) => vec![value.as_bool().unwrap_or(false); rows],
            Operand::Column(column) => match (column.view(), column.nulls()) {
                (View::Bool(v), None) => v.to_vec(),
                (View::Bool(v), Some(n)) => v.iter().zip(n).map(|(&v, &n)| v && !n).collect(),
                _ => (0..rows)
                    .map(|r| column.value(r).as_bool().unwrap_or(false))
                    .collect(),
            },
        }
    }
}

/// Where a value stands among the inputs of an expression.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    pub part: u8,
    pub index: u16,
}

impl Slot {
    /// A column of a part.
    fn at(part: u8, index: usize) -> Slot {
        Slot {
            part,
            index: index as u16,
        }
    }
}

/// The row an event arrives with.
pub(crate) const ROW: u8 = 0;
/// A second row beside it: the output row in `having`, the table's row in a condition.
pub(crate) const OTHER: u8 = 1;
/// Results of aggregators and probes.
pub(crate) const COMPUTED: u8 = 2;

/// One part of the inputs.
#[derive(Clone, Copy)]
pub(crate) enum Part<'a> {
    Columns(&'a [Column]),
    /// The same for all rows.
    Values(&'a [Value]),
}

#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    pub parts: [Part<'a>; 3],
    pub rows: usize,
}

impl<'a> Inputs<'a> {
    pub fn of(columns: &'a [Column], rows: usize) -> Inputs<'a> {
        Inputs {
            parts: [
                Part::Columns(columns),
                Part::Columns(&[]),
                Part::Columns(&[]),
            ],
            rows,
        }
    }

    pub fn with(mut self, part: u8, columns: &'a [Column]) -> Inputs<'a> {
        self.parts[usize::from(part)] = Part::Columns(columns);
        self
    }

    pub fn with_values(mut self, part: u8, values: &'a [Value]) -> Inputs<'a> {
        self.parts[usize::from(part)] = Part::Values(values);
        self
    }

    fn get(&self, slot: Slot) -> Operand<'a> {
        match self.parts[usize::from(slot.part)] {
            Part::Columns(columns) => {
                Operand::Column(Cow::Borrowed(&columns[usize::from(slot.index)]))
            }
            Part::Values(values) => Operand::Constant(values[usize::from(slot.index)].clone()),
        }
    }

    fn is_any(&self, slot: Slot) -> bool {
        match self.parts[usize::from(slot.part)] {
            Part::Columns(columns) => {
                matches!(columns[usize::from(slot.index)].view(), View::Any(_))
            }
            Part::Values(_) => true,
        }
    }
}

/// One node of a compiled expression.
pub(crate) enum Node {
    Constant(Value),
    Input {
        slot: Slot,
        ty: Type,
    },
    Arithmetic {
        op: ArithmeticOp,
        ty: Type,
        sides: Box<[Node; 2]>,
        /// An operand is declared STRING, BOOL or OBJECT: every row that has one fails.
        is_fallible: bool,
    },
    Compare {
        op: CompareOp,
        /// Declared types of the sides, which the row path casts to.
        types: [Type; 2],
        sides: Box<[Node; 2]>,
    },
    /// `and` where `stops_at` is false, `or` where it is true.
    Logical {
        stops_at: bool,
        sides: Box<[Node; 2]>,
    },
    Not(Box<Node>),
    IsNull(Box<Node>),
    /// True where the BOOL in the slot is false: the event of an input is absent.
    IsAbsent(Slot),
    If {
        ty: Type,
        parts: Box<[Node; 3]>,
    },
    Call {
        /// As written, for the saved state.
        name: String,
        function: Box<dyn Evaluate>,
        args: Vec<(Node, Type)>,
        /// What runs in its place where it can.
        fused: Option<Box<Fusion>>,
    },
    /// A leaf of a fused call while the calls themselves run.
    Ready(Column),
}

/// A compiled expression and the type of its value.
pub(crate) struct Expression {
    pub root: Node,
    pub ty: Type,
    /// Inputs it reads.
    pub uses: Vec<Slot>,
    /// Of one row its value may be found without columns.
    is_simple: bool,
    /// What it is, where it is but a list of bounds.
    bounds: Option<Bounds>,
    /// It reads results of aggregators or probes.
    reads_computed: bool,
    is_fallible: bool,
}

/// What is filled while rows are picked, kept for the room it has taken.
#[derive(Default)]
pub(crate) struct RowRoom {
    bits: Vec<u64>,
    marks: Vec<bool>,
    rows: Vec<u32>,
}

impl Expression {
    fn new(root: Node, ty: Type) -> Expression {
        let mut uses = Vec::new();
        root.collect_slots(&mut uses);
        Expression {
            is_simple: single::is_simple(&root),
            bounds: Bounds::of(&root),
            reads_computed: uses.iter().any(|s| s.part == COMPUTED),
            is_fallible: root.is_fallible(),
            root,
            ty,
            uses,
        }
    }

    pub fn evaluate<'i>(
        &mut self,
        inputs: &Inputs<'i>,
        context: &mut EvalContext<'_>,
    ) -> Operand<'i> {
        self.root.evaluate(inputs, context)
    }

    #[inline]
    pub fn column(&mut self, inputs: &Inputs<'_>, context: &mut EvalContext<'_>) -> Column {
        if let Node::Input { slot, .. } = &self.root
            && let Part::Columns(columns) = inputs.parts[usize::from(slot.part)]
        {
            return columns[usize::from(slot.index)].clone();
        }
        self.computed(inputs, context)
    }

    fn computed(&mut self, inputs: &Inputs<'_>, context: &mut EvalContext<'_>) -> Column {
        let ty = self.ty;
        if inputs.rows == 1
            && self.is_simple
            && let Some(value) = single::evaluate(&self.root, inputs)
            && let Some(column) = value.column(ty)
        {
            return column;
        }
        self.evaluate(inputs, context).into_column(ty, inputs.rows)
    }

    /// Does a condition hold on the only row? `None` where [`Expression::mask`] has to say.
    #[inline]
    pub fn holds(&self, inputs: &Inputs<'_>) -> Option<bool> {
        if inputs.rows != 1 || !self.is_simple {
            return None;
        }
        match &self.bounds {
            Some(bounds) => bounds.hold(inputs),
            None => single::is_true(single::evaluate(&self.root, inputs)?),
        }
    }

    /// The rows on which a condition holds. A value that is not a BOOL fails its row.
    pub fn mask(&mut self, inputs: &Inputs<'_>, context: &mut EvalContext<'_>) -> Vec<bool> {
        let operand = self.evaluate(inputs, context);
        row::expect_bools(&operand, inputs.rows, context);
        operand.into_mask(inputs.rows)
    }

    /// The same into a vector that is used again.
    pub fn mask_into(
        &mut self,
        inputs: &Inputs<'_>,
        context: &mut EvalContext<'_>,
        mask: &mut Vec<bool>,
    ) {
        if let Some(bounds) = &self.bounds
            && bounds.mask_into(inputs, mask)
        {
            return;
        }
        let operand = self.evaluate(inputs, context);
        row::expect_bools(&operand, inputs.rows, context);
        if inputs.rows == 1 {
            mask.clear();
            mask.push(operand.is_true(0));
        } else {
            *mask = operand.into_mask(inputs.rows);
        }
    }

    /// The numbers of the rows on which it holds, ascending.
    pub fn rows<'r>(
        &mut self,
        inputs: &Inputs<'_>,
        context: &mut EvalContext<'_>,
        room: &'r mut RowRoom,
    ) -> &'r [u32] {
        let RowRoom { bits, marks, rows } = room;
        if let Some(bounds) = &self.bounds
            && bounds.bits_into(inputs, bits)
        {
            return picked_bits(bits, rows);
        }
        self.mask_into(inputs, context, marks);
        picked_marks(marks, rows)
    }

    /// May a row fail even where every column has its declared type?
    pub fn is_fallible(&self) -> bool {
        self.is_fallible
    }

    /// Does it read results of aggregators or probes?
    #[inline]
    pub fn reads_computed(&self) -> bool {
        self.reads_computed
    }

    /// The column that it is, if it is nothing else.
    #[inline]
    pub fn as_column(&self, part: u8) -> Option<usize> {
        match &self.root {
            Node::Input { slot, .. } if slot.part == part => Some(usize::from(slot.index)),
            _ => None,
        }
    }

    /// The same, of whatever part.
    pub fn as_slot(&self) -> Option<Slot> {
        match &self.root {
            Node::Input { slot, .. } => Some(*slot),
            _ => None,
        }
    }

    /// Is it made of columns, constants and operators alone?
    pub fn is_of_columns(&self) -> bool {
        self.root.is_of_columns()
    }
}

impl Node {
    fn is_of_columns(&self) -> bool {
        let is_call = matches!(self, Node::Call { .. } | Node::If { .. });
        !is_call && self.children().into_iter().all(Node::is_of_columns)
    }

    fn is_fallible(&self) -> bool {
        match self {
            Node::Arithmetic { is_fallible, .. } if *is_fallible => true,
            Node::Call { function, .. } if function.is_fallible() => true,
            _ => self.children().into_iter().any(Node::is_fallible),
        }
    }

    /// May a row of these inputs fail, because of the tree or of a column of mixed values?
    fn may_fail(&self, inputs: &Inputs<'_>) -> bool {
        match self {
            Node::Input { slot, ty } => *ty != Type::Object && inputs.is_any(*slot),
            Node::Arithmetic { is_fallible, .. } if *is_fallible => true,
            Node::Call { function, .. } if function.is_fallible() => true,
            _ => self.children().into_iter().any(|c| c.may_fail(inputs)),
        }
    }

    fn evaluate<'i>(&mut self, inputs: &Inputs<'i>, context: &mut EvalContext<'_>) -> Operand<'i> {
        match self {
            Node::Constant(value) => Operand::Constant(value.clone()),
            Node::Input { slot, .. } => inputs.get(*slot),
            Node::Arithmetic { op, ty, sides, .. } => {
                let [left, right] = sides.as_mut();
                let left = left.evaluate(inputs, context);
                let right = right.evaluate(inputs, context);
                arithmetic::evaluate(*op, *ty, &left, &right, inputs.rows, context)
            }
            Node::Compare { op, types, sides } => {
                let [left, right] = sides.as_mut();
                let left = left.evaluate(inputs, context);
                let right = right.evaluate(inputs, context);
                compare::evaluate(*op, *types, &left, &right, inputs.rows, context)
            }
            Node::Logical { stops_at, sides } => {
                let [left, right] = sides.as_mut();
                logical(*stops_at, left, right, inputs, context)
            }
            Node::Not(inner) => {
                let operand = inner.evaluate(inputs, context);
                row::expect_bools(&operand, inputs.rows, context);
                match operand {
                    Operand::Constant(v) => Operand::Constant(Value::Bool(v != Value::Bool(true))),
                    column => bools(column.mask(inputs.rows).iter().map(|&b| !b).collect()),
                }
            }
            Node::IsNull(inner) => match inner.evaluate(inputs, context) {
                Operand::Constant(v) => Operand::Constant(Value::Bool(v.is_null())),
                Operand::Column(column) => bools(match (column.view(), column.nulls()) {
                    (View::Any(v), _) => v.iter().map(Value::is_null).collect(),
                    (_, Some(nulls)) => nulls.to_vec(),
                    (_, None) => vec![false; inputs.rows],
                }),
            },
            Node::IsAbsent(slot) => match inputs.get(*slot) {
                Operand::Constant(v) => Operand::Constant(Value::Bool(v != Value::Bool(true))),
                column => bools(column.mask(inputs.rows).iter().map(|&b| !b).collect()),
            },
            Node::If { ty, parts } => {
                let before = context.failures();
                let chosen = choose(*ty, parts, inputs, context);
                context.explain_failures(before, IF_THEN_ELSE);
                chosen
            }
            Node::Call {
                function,
                args,
                fused,
                ..
            } => match fused {
                Some(fusion) => evaluate_fused(fusion, function.as_mut(), args, inputs, context),
                None => call(function.as_mut(), args, inputs, context),
            },
            Node::Ready(column) => Operand::from(column.clone()),
        }
    }

    /// Evaluates on some rows only.
    fn evaluate_on(
        &mut self,
        rows: &[u32],
        inputs: &Inputs<'_>,
        context: &mut EvalContext<'_>,
    ) -> Operand<'static> {
        let mut used = Vec::new();
        self.collect_slots(&mut used);
        let whole: Vec<u32> = rows
            .iter()
            .map(|&r| context.whole_row(r as usize))
            .collect();
        // Columns that are not read stay as they are; only their number matters.
        let gathered: [Vec<Column>; 3] = std::array::from_fn(|part| match inputs.parts[part] {
            Part::Values(_) => Vec::new(),
            Part::Columns(columns) => columns
                .iter()
                .enumerate()
                .map(|(index, column)| {
                    let slot = Slot {
                        part: part as u8,
                        index: index as u16,
                    };
                    if used.contains(&slot) {
                        column.gather(rows)
                    } else {
                        column.clone()
                    }
                })
                .collect(),
        });
        let parts = std::array::from_fn(|part| match inputs.parts[part] {
            Part::Values(values) => Part::Values(values),
            Part::Columns(_) => Part::Columns(&gathered[part]),
        });
        let narrowed = Inputs {
            parts,
            rows: rows.len(),
        };
        let answer = self.evaluate(&narrowed, &mut context.narrowed(&whole));
        answer.into_owned()
    }

    fn collect_slots(&self, to: &mut Vec<Slot>) {
        match self {
            Node::Input { slot, .. } | Node::IsAbsent(slot) => to.push(*slot),
            _ => {
                for child in self.children() {
                    child.collect_slots(to);
                }
            }
        }
    }

    /// The nodes below this one, in a fixed order.
    fn children(&self) -> Vec<&Node> {
        match self {
            Node::Constant(_) | Node::Input { .. } | Node::IsAbsent(_) | Node::Ready(_) => {
                Vec::new()
            }
            Node::Arithmetic { sides, .. }
            | Node::Compare { sides, .. }
            | Node::Logical { sides, .. } => sides.iter().collect(),
            Node::Not(inner) | Node::IsNull(inner) => vec![inner],
            Node::If { parts, .. } => parts.iter().collect(),
            Node::Call { args, .. } => args.iter().map(|(a, _)| a).collect(),
        }
    }

    fn children_mut(&mut self) -> Vec<&mut Node> {
        match self {
            Node::Constant(_) | Node::Input { .. } | Node::IsAbsent(_) | Node::Ready(_) => {
                Vec::new()
            }
            Node::Arithmetic { sides, .. }
            | Node::Compare { sides, .. }
            | Node::Logical { sides, .. } => sides.iter_mut().collect(),
            Node::Not(inner) | Node::IsNull(inner) => vec![inner],
            Node::If { parts, .. } => parts.iter_mut().collect(),
            Node::Call { args, .. } => args.iter_mut().map(|(a, _)| a).collect(),
        }
    }

    /// The calls with the names of their functions, inner ones first.
    pub fn calls<'a>(&'a self, out: &mut Vec<(&'a str, &'a dyn Evaluate)>) {
        self.children().into_iter().for_each(|c| c.calls(out));
        if let Node::Call { name, function, .. } = self {
            out.push((name, function.as_ref()));
        }
    }

    /// The same, in the same order, to take their state back.
    pub fn each_call_mut(
        &mut self,
        visit: &mut dyn FnMut(&str, &mut dyn Evaluate) -> Result<(), StateError>,
    ) -> Result<(), StateError> {
        for child in self.children_mut() {
            child.each_call_mut(visit)?;
        }
        match self {
            Node::Call { name, function, .. } => visit(name, function.as_mut()),
            _ => Ok(()),
        }
    }
}

fn call(
    function: &mut dyn Evaluate,
    args: &mut [(Node, Type)],
    inputs: &Inputs<'_>,
    context: &mut EvalContext<'_>,
) -> Operand<'static> {
    let args: Vec<Column> = args
        .iter_mut()
        .map(|(arg, ty)| arg.evaluate(inputs, context).into_column(*ty, inputs.rows))
        .collect();
    Operand::from(function.evaluate(&args, inputs.rows, context))
}

/// As one, or where that cannot be, one call after the other. Leaves are evaluated once all the same: they
/// may have state.
fn evaluate_fused(
    fusion: &mut Fusion,
    function: &mut dyn Evaluate,
    args: &mut [(Node, Type)],
    inputs: &Inputs<'_>,
    context: &mut EvalContext<'_>,
) -> Operand<'static> {
    let rows = inputs.rows;
    let leaves: Vec<Column> = (fusion.leaves.iter())
        .map(|path| {
            let (leaf, ty) = leaf_of(args, path);
            leaf.evaluate(inputs, context).into_column(*ty, rows)
        })
        .collect();
    if let Some(column) = fusion.call.evaluate(&leaves, rows) {
        return Operand::from(column);
    }
    let nodes: Vec<Node> = (fusion.leaves.iter().zip(leaves))
        .map(|(path, column)| std::mem::replace(&mut leaf_of(args, path).0, Node::Ready(column)))
        .collect();
    let result = call(function, args, inputs, context);
    for (path, node) in fusion.leaves.iter().zip(nodes) {
        leaf_of(args, path).0 = node;
    }
    result
}

/// The argument that a path of numbers leads to.
fn leaf_of<'n>(args: &'n mut [(Node, Type)], path: &[usize]) -> &'n mut (Node, Type) {
    let (&number, inside) = path.split_first().expect("a path names an argument");
    let arg = &mut args[number];
    if inside.is_empty() {
        return arg;
    }
    match &mut arg.0 {
        Node::Call { args, .. } => leaf_of(args, inside),
        _ => unreachable!("a path leads through calls"),
    }
}

/// What Siddhi's function executors add to the message of an exception in an argument.
const IF_THEN_ELSE: &str =
    ". Exception on class 'io.siddhi.core.executor.function.IfThenElseFunctionExecutor'";

pub(crate) fn bools(values: Vec<bool>) -> Operand<'static> {
    Operand::from(Column::new(event::Values::Bool(values), None))
}

fn logical(
    stops_at: bool,
    left: &mut Node,
    right: &mut Node,
    inputs: &Inputs<'_>,
    context: &mut EvalContext<'_>,
) -> Operand<'static> {
    let operand = left.evaluate(inputs, context);
    row::expect_bools(&operand, inputs.rows, context);
    if let Operand::Constant(value) = &operand
        && value.as_bool().unwrap_or(false) == stops_at
    {
        return Operand::Constant(Value::Bool(stops_at));
    }
    if inputs.rows == 1 {
        if operand.is_true(0) == stops_at {
            return Operand::Constant(Value::Bool(stops_at));
        }
        let answer = right.evaluate(inputs, context);
        row::expect_bools(&answer, 1, context);
        return Operand::Constant(Value::Bool(answer.is_true(0)));
    }
    let mut mask = operand.into_mask(inputs.rows);
    let open = mask.iter().filter(|&&m| m != stops_at).count();
    if open == 0 {
        return bools(mask);
    }
    if open < mask.len() && right.may_fail(inputs) {
        let rows: Vec<u32> = (0..mask.len() as u32)
            .filter(|&r| mask[r as usize] != stops_at)
            .collect();
        let answer = right.evaluate_on(&rows, inputs, context);
        row::expect_bools_at(&answer, &rows, context);
        for (&row, answer) in rows.iter().zip(answer.mask(rows.len())) {
            mask[row as usize] = answer;
        }
        return bools(mask);
    }
    let answer = right.evaluate(inputs, context);
    row::expect_bools(&answer, inputs.rows, context);
    let answers = answer.into_mask(inputs.rows);
    if stops_at {
        mask.iter_mut().zip(answers).for_each(|(m, a)| *m |= a);
    } else {
        mask.iter_mut().zip(answers).for_each(|(m, a)| *m &= a);
    }
    bools(mask)
}

fn choose<'i>(
    ty: Type,
    parts: &mut [Node; 3],
    inputs: &Inputs<'i>,
    context: &mut EvalContext<'_>,
) -> Operand<'i> {
    let [condition, yes, no] = parts;
    let mask = condition.evaluate(inputs, context).mask(inputs.rows);
    let yes_rows: Vec<u32> = (0..mask.len() as u32)
        .filter(|&r| mask[r as usize])
        .collect();
    if yes_rows.len() == mask.len() {
        return yes.evaluate(inputs, context);
    }
    if yes_rows.is_empty() {
        return no.evaluate(inputs, context);
    }
    let mut take = |node: &mut Node, of: bool| {
        if node.may_fail(inputs) {
            let rows: Vec<u32> = (0..mask.len() as u32)
                .filter(|&r| mask[r as usize] == of)
                .collect();
            (node.evaluate_on(&rows, inputs, context), true)
        } else {
            (node.evaluate(inputs, context), false)
        }
    };
    let (yes, yes_dense) = take(yes, true);
    let (no, no_dense) = take(no, false);
    let mut builder = ColumnBuilder::with_capacity(ty, mask.len());
    let (mut yes_at, mut no_at) = (0, 0);
    for (row, &is_yes) in mask.iter().enumerate() {
        if is_yes {
            builder.push(&yes.value(if yes_dense { yes_at } else { row }));
            yes_at += 1;
        } else {
            builder.push(&no.value(if no_dense { no_at } else { row }));
            no_at += 1;
        }
    }
    Operand::from(builder.finish())
}

/// Hands the name of each function that an expression calls to `look`.
pub(crate) fn calls_of(expr: &plan::Expr, look: &mut dyn FnMut(&str)) {
    match &expr.kind {
        plan::ExprKind::Call { name, args, .. } => {
            look(name);
            args.iter().for_each(|a| calls_of(a, look));
        }
        plan::ExprKind::Script { args, .. } | plan::ExprKind::Aggregate { args, .. } => {
            args.iter().for_each(|a| calls_of(a, look));
        }
        plan::ExprKind::Arithmetic(_, a, b)
        | plan::ExprKind::Compare(_, a, b)
        | plan::ExprKind::And(a, b)
        | plan::ExprKind::Or(a, b) => {
            calls_of(a, look);
            calls_of(b, look);
        }
        plan::ExprKind::Not(a) | plan::ExprKind::IsNull(a) => calls_of(a, look),
        plan::ExprKind::In { condition, .. } => calls_of(condition, look),
        plan::ExprKind::Constant(_)
        | plan::ExprKind::Attribute { .. }
        | plan::ExprKind::IsNoEvent { .. } => {}
    }
}
