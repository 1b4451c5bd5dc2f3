//! Conditions on the rows of a table or of a window's content, seen from an event.
//!
//! In memory, equality conjuncts on a primary key or an index become a lookup; what is left, or a
//! whole condition without one, is evaluated over columns of candidate rows with the event's values
//! as single values. For an external table the condition becomes an [`Operation`]: parts that
//! depend on the event alone are evaluated here and travel as parameters.

use event::{Batch, Column, Schema, Type, Value};
use plan::store::{Operation, OperationId, OperationKind, Term, TermKind};
use plan::{CompareOp, Expr, ExprKind, InputId, TableId};

use super::{COMPUTED, Compiler, Expression, Inputs, Layout, OTHER, Part, ROW, Slot};
use crate::component::EvalContext;
use crate::error::Error;

/// A table in memory, as far as a condition looks into it.
pub(crate) trait Searched {
    /// Appends the rows that an index finds by its number: 0 is the primary key, where there is one.
    fn lookup(&self, number: usize, keys: &[Value], out: &mut Vec<u32>);

    fn all_rows(&self, out: &mut Vec<u32>);

    /// Puts found rows into the order in which Siddhi finds them.
    fn sort_found(&self, rows: &mut [u32]);

    /// Parts of the table: number of the first row, columns, and which rows are there.
    fn pages(&self) -> impl Iterator<Item = (u32, &[Column], &[bool])>;

    /// The columns of rows; those that are not used may be empty.
    fn gather(&self, rows: &[u32], uses: &[Slot]) -> Vec<Column>;
}

/// What is known of the tables while an app is made.
pub(crate) struct ConditionContext<'p> {
    pub tables: &'p [plan::Table],
    pub operations: Vec<Operation>,
    /// Tables that some query reads.
    pub is_read: Vec<bool>,
    /// Script functions of the app, and what runs them.
    pub functions: &'p [plan::ScriptFunction],
    pub scripts: Option<&'static dyn crate::ScriptEngine>,
    /// Defects of Siddhi that are fixed otherwise are kept.
    pub is_compat: bool,
}

impl<'p> ConditionContext<'p> {
    pub fn new(tables: &'p [plan::Table]) -> ConditionContext<'p> {
        ConditionContext {
            tables,
            operations: Vec::new(),
            is_read: vec![false; tables.len()],
            functions: &[],
            scripts: None,
            is_compat: false,
        }
    }

    pub fn is_external(&self, table: TableId) -> bool {
        self.tables[table].store.is_some()
    }

    /// `condition in Table`.
    pub fn probe(
        &mut self,
        condition: &Expr,
        event: &Layout,
        table: TableId,
        row: InputId,
    ) -> Result<Condition, Error> {
        self.is_read[table] = true;
        if !self.is_external(table) {
            return self.memory(Some(condition), event, table, row);
        }
        let mut terms = Terms::new(event.clone(), row, self);
        let on = terms.term(condition)?;
        let parameters = terms.parameters;
        Ok(self.operation(table, OperationKind::Contains { on }, parameters))
    }

    /// Rows of a table for a join; `on` absent: all.
    pub fn find(
        &mut self,
        on: Option<&Expr>,
        event: &Layout,
        table: TableId,
        row: InputId,
    ) -> Result<Condition, Error> {
        self.is_read[table] = true;
        if !self.is_external(table) {
            return self.memory(on, event, table, row);
        }
        let mut terms = Terms::new(event.clone(), row, self);
        let on = on.map(|on| terms.term(on)).transpose()?;
        let parameters = terms.parameters;
        Ok(self.operation(table, OperationKind::Find { on }, parameters))
    }

    pub fn memory(
        &mut self,
        on: Option<&Expr>,
        event: &Layout,
        table: TableId,
        row: InputId,
    ) -> Result<Condition, Error> {
        let definition = &self.tables[table];
        let schema = &definition.schema;
        let Some(on) = on else {
            return Ok(Condition::Memory(MemoryCondition::default()));
        };
        let (lookup, is_exact) = self.lookup(on, event, definition, row)?;
        let residual = if is_exact {
            None
        } else {
            Some(self.residual(on, event, schema, row)?)
        };
        Ok(Condition::Memory(MemoryCondition { lookup, residual }))
    }

    /// A condition on the content of a window, whose rows have the attributes of `row`'s layout.
    pub fn on_content(&mut self, on: Option<&Expr>, both: &Layout) -> Result<Condition, Error> {
        let residual = on.map(|on| self.expression(on, both)).transpose()?;
        Ok(Condition::Memory(MemoryCondition {
            lookup: None,
            residual,
        }))
    }

    fn residual(
        &mut self,
        on: &Expr,
        event: &Layout,
        schema: &Schema,
        row: InputId,
    ) -> Result<Expression, Error> {
        let layout = event
            .clone()
            .and_whole(row, OTHER, crate::expr::width(schema));
        self.expression(on, &layout)
    }

    /// An expression without aggregators and probes.
    pub fn expression(&mut self, expr: &Expr, layout: &Layout) -> Result<Expression, Error> {
        let mut sites = Vec::new();
        let compiled = Compiler {
            layout: layout.clone(),
            sites: &mut sites,
            tracks: false,
            tables: self,
        }
        .compile(expr)?;
        if sites.is_empty() {
            Ok(compiled)
        } else {
            Err(Error::unsupported(
                "an aggregator, 'in' or effect inside a condition on a table",
                expr.span,
            ))
        }
    }

    /// The best index that equality conjuncts cover, and whether nothing else is in the condition.
    fn lookup(
        &mut self,
        on: &Expr,
        event: &Layout,
        definition: &plan::Table,
        row: InputId,
    ) -> Result<(Option<Lookup>, bool), Error> {
        let mut equalities = Vec::new();
        let is_pure = equality_conjuncts(on, row, &mut equalities);
        let covers = |columns: &[usize]| {
            !columns.is_empty()
                && columns
                    .iter()
                    .all(|c| equalities.iter().any(|(e, _)| e == c))
        };
        let number = if covers(&definition.primary_key) {
            0
        } else {
            let Some(at) = definition.indexes.iter().position(|i| covers(i)) else {
                return Ok((None, false));
            };
            at + usize::from(!definition.primary_key.is_empty())
        };
        let has_key = !definition.primary_key.is_empty();
        let columns = if has_key && number == 0 {
            &definition.primary_key
        } else {
            &definition.indexes[number - usize::from(has_key)]
        };
        let keys = columns
            .iter()
            .map(|column| {
                let (_, key) = equalities
                    .iter()
                    .find(|(c, _)| c == column)
                    .expect("the index was chosen because each column has an equality");
                self.expression(key, event)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let is_exact = is_pure && equalities.len() == columns.len();
        Ok((Some(Lookup { number, keys }), is_exact))
    }

    fn operation(
        &mut self,
        table: TableId,
        kind: OperationKind,
        parameters: Vec<Expression>,
    ) -> Condition {
        let (operation, parameters) = self.external(table, kind, parameters);
        Condition::External {
            operation,
            parameters,
        }
    }

    /// Registers an operation whose parameters are not expressions of an event.
    pub fn operation_on(
        &mut self,
        table: TableId,
        kind: OperationKind,
        parameters: Vec<Type>,
    ) -> OperationId {
        self.operations.push(Operation {
            table,
            kind,
            parameters,
        });
        self.operations.len() - 1
    }

    /// Registers an operation on an external table.
    pub fn external(
        &mut self,
        table: TableId,
        kind: OperationKind,
        parameters: Vec<Expression>,
    ) -> (OperationId, Vec<Expression>) {
        self.operations.push(Operation {
            table,
            kind,
            parameters: parameters.iter().map(|p| p.ty).collect(),
        });
        (self.operations.len() - 1, parameters)
    }
}

/// Collects `row attribute == expression of the event`; false if anything else is in the condition.
fn equality_conjuncts<'e>(on: &'e Expr, row: InputId, to: &mut Vec<(usize, &'e Expr)>) -> bool {
    match &on.kind {
        ExprKind::And(left, right) => {
            let left = equality_conjuncts(left, row, to);
            equality_conjuncts(right, row, to) && left
        }
        ExprKind::Compare(CompareOp::Equal, left, right) => {
            for (column, key) in [(left, right), (right, left)] {
                if let ExprKind::Attribute {
                    input, attribute, ..
                } = column.kind
                    && input == row
                    && !touches(key, row)
                    && !to.iter().any(|(c, _)| *c == attribute)
                {
                    to.push((attribute, key));
                    return true;
                }
            }
            false
        }
        _ => false,
    }
}

fn touches(expr: &Expr, row: InputId) -> bool {
    let mut found = false;
    crate::expr::attributes_of(expr, &mut |input, _| found |= input == row);
    found
}

/// Turns conditions into terms, gathering what depends on the event alone.
pub(crate) struct Terms<'a, 'p> {
    event: Layout,
    row: InputId,
    pub parameters: Vec<Expression>,
    context: &'a mut ConditionContext<'p>,
}

impl<'a, 'p> Terms<'a, 'p> {
    pub fn new(event: Layout, row: InputId, context: &'a mut ConditionContext<'p>) -> Self {
        Terms {
            event,
            row,
            parameters: Vec::new(),
            context,
        }
    }

    pub fn term(&mut self, expr: &Expr) -> Result<Term, Error> {
        let kind = match &expr.kind {
            ExprKind::Constant(constant) => TermKind::Constant(constant.clone()),
            _ if !touches(expr, self.row) => {
                let parameter = self.context.expression(expr, &self.event)?;
                self.parameters.push(parameter);
                TermKind::Parameter(self.parameters.len() - 1)
            }
            ExprKind::Attribute { attribute, .. } => TermKind::Column(*attribute),
            ExprKind::Arithmetic(op, a, b) => {
                TermKind::Arithmetic(*op, Box::new(self.term(a)?), Box::new(self.term(b)?))
            }
            ExprKind::Compare(op, a, b) => {
                TermKind::Compare(*op, Box::new(self.term(a)?), Box::new(self.term(b)?))
            }
            ExprKind::And(a, b) => TermKind::And(Box::new(self.term(a)?), Box::new(self.term(b)?)),
            ExprKind::Or(a, b) => TermKind::Or(Box::new(self.term(a)?), Box::new(self.term(b)?)),
            ExprKind::Not(inner) => TermKind::Not(Box::new(self.term(inner)?)),
            ExprKind::IsNull(inner) => TermKind::IsNull(Box::new(self.term(inner)?)),
            ExprKind::Call { name, args, .. } => TermKind::Call {
                name: name.clone(),
                args: args
                    .iter()
                    .map(|a| self.term(a))
                    .collect::<Result<_, _>>()?,
            },
            ExprKind::IsNoEvent { .. }
            | ExprKind::In { .. }
            | ExprKind::Script { .. }
            | ExprKind::Aggregate { .. } => {
                return Err(Error::unsupported(
                    "this expression in a condition on an external table",
                    expr.span,
                ));
            }
        };
        Ok(Term { ty: expr.ty, kind })
    }
}

pub(crate) enum Condition {
    Memory(MemoryCondition),
    External {
        operation: OperationId,
        parameters: Vec<Expression>,
    },
}

#[derive(Default)]
pub(crate) struct MemoryCondition {
    lookup: Option<Lookup>,
    /// What the lookup leaves open; absent: every candidate satisfies the condition.
    residual: Option<Expression>,
}

struct Lookup {
    /// Of the table's indexes, the primary key first.
    number: usize,
    keys: Vec<Expression>,
}

/// The event's side of a condition, evaluated over a batch of events.
pub(crate) struct Prepared {
    keys: Vec<Column>,
    /// Values of the event's row that the residual reads, by slot.
    uses: Vec<Slot>,
}

impl Prepared {
    /// What is read of the event and of the searched rows beside the lookup.
    pub fn uses(&self) -> &[Slot] {
        &self.uses
    }
}

impl MemoryCondition {
    /// The values of a primary key, where the condition is that they equal the row's and no more.
    pub fn key(&mut self) -> Option<&mut [Expression]> {
        match &mut self.lookup {
            Some(lookup) if lookup.number == 0 && self.residual.is_none() => Some(&mut lookup.keys),
            _ => None,
        }
    }

    /// Is the condition that the primary key equals these values, and no more?
    pub fn is_key(&self) -> bool {
        let lookup = self.lookup.as_ref();
        lookup.is_some_and(|lookup| lookup.number == 0) && self.residual.is_none()
    }

    pub fn is_fallible(&self) -> bool {
        let keys = self.lookup.iter().flat_map(|l| &l.keys);
        keys.chain(&self.residual).any(Expression::is_fallible)
    }

    pub fn prepare(&mut self, events: &Inputs<'_>, context: &mut EvalContext<'_>) -> Prepared {
        let keys = match &mut self.lookup {
            Some(lookup) => lookup
                .keys
                .iter_mut()
                .map(|k| k.column(events, context))
                .collect(),
            None => Vec::new(),
        };
        let uses = self
            .residual
            .as_ref()
            .map_or(Vec::new(), |r| r.uses.clone());
        Prepared { keys, uses }
    }

    /// Appends the rows of a table that satisfy the condition for one event.
    pub fn find(
        &mut self,
        prepared: &Prepared,
        table: &impl Searched,
        events: &Inputs<'_>,
        event: usize,
        context: &mut EvalContext<'_>,
        out: &mut Vec<u32>,
    ) {
        let start = out.len();
        match &self.lookup {
            Some(lookup) => {
                let keys: Vec<Value> = prepared.keys.iter().map(|k| k.value(event)).collect();
                table.lookup(lookup.number, &keys, out);
                let gather = |rows: &[u32], uses: &[Slot]| table.gather(rows, uses);
                self.retain(prepared, start, out, gather, (events, event), context);
            }
            None => {
                let Some(residual) = &mut self.residual else {
                    table.all_rows(out);
                    return table.sort_found(&mut out[start..]);
                };
                let values = event_values(&prepared.uses, events, event);
                for (first, columns, alive) in table.pages() {
                    let keep = evaluate(residual, columns, alive.len(), &values, event, context);
                    for (at, (&keep, &alive)) in keep.iter().zip(alive).enumerate() {
                        if keep && alive {
                            out.push(first + at as u32);
                        }
                    }
                }
            }
        }
        table.sort_found(&mut out[start..]);
    }

    /// Of the rows from `start` on, which were looked up for an event, only those are left that
    /// satisfy the rest of the condition. `gather` gives the columns of rows that are used.
    pub fn retain(
        &mut self,
        prepared: &Prepared,
        start: usize,
        rows: &mut Vec<u32>,
        gather: impl FnOnce(&[u32], &[Slot]) -> Vec<Column>,
        (events, event): (&Inputs<'_>, usize),
        context: &mut EvalContext<'_>,
    ) {
        let count = rows.len() - start;
        let Some(residual) = self.residual.as_mut().filter(|_| count > 0) else {
            return;
        };
        let columns = gather(&rows[start..], &residual.uses);
        let values = event_values(&prepared.uses, events, event);
        let keep = evaluate(residual, &columns, count, &values, event, context);
        let mut at = 0;
        rows.retain(|_| {
            at += 1;
            at <= start || keep[at - 1 - start]
        });
    }

    /// Appends the rows of a window's content that satisfy the condition for one event.
    pub fn find_in(
        &mut self,
        prepared: &Prepared,
        content: &Batch,
        events: &Inputs<'_>,
        event: usize,
        context: &mut EvalContext<'_>,
        out: &mut Vec<u32>,
    ) {
        let part = (content.columns.as_slice(), 0, content.len);
        self.scan(prepared, part, (events, event), context, out);
    }

    /// Appends the rows that satisfy the condition for one event, of a part of what is searched:
    /// its columns, the number of its first row, and how many rows it has.
    pub fn scan(
        &mut self,
        prepared: &Prepared,
        (columns, first, len): (&[Column], u32, usize),
        (events, event): (&Inputs<'_>, usize),
        context: &mut EvalContext<'_>,
        out: &mut Vec<u32>,
    ) {
        let rows = first..first + len as u32;
        let Some(residual) = &mut self.residual else {
            return out.extend(rows);
        };
        let values = event_values(&prepared.uses, events, event);
        let keep = evaluate(residual, columns, len, &values, event, context);
        out.extend(rows.zip(keep).filter(|(_, keep)| *keep).map(|(row, _)| row));
    }
}

/// The event's values, null where the condition does not look.
struct EventValues {
    row: Vec<Value>,
    computed: Vec<Value>,
}

fn event_values(uses: &[Slot], events: &Inputs<'_>, event: usize) -> EventValues {
    let pick = |part: u8| -> Vec<Value> {
        let width = match events.parts[usize::from(part)] {
            Part::Columns(columns) => columns.len(),
            Part::Values(values) => return values.to_vec(),
        };
        let mut values = vec![Value::Null; width];
        if let Part::Columns(columns) = events.parts[usize::from(part)] {
            for slot in uses.iter().filter(|s| s.part == part) {
                values[usize::from(slot.index)] = columns[usize::from(slot.index)].value(event);
            }
        }
        values
    };
    EventValues {
        row: pick(ROW),
        computed: pick(COMPUTED),
    }
}

/// Failures are those of the event.
fn evaluate(
    residual: &mut Expression,
    columns: &[Column],
    rows: usize,
    values: &EventValues,
    event: usize,
    context: &mut EvalContext<'_>,
) -> Vec<bool> {
    let inputs = Inputs::of(&[], rows)
        .with_values(ROW, &values.row)
        .with(OTHER, columns)
        .with_values(COMPUTED, &values.computed);
    let whole = vec![context.whole_row(event); rows];
    residual.mask(&inputs, &mut context.narrowed(&whole))
}

/// Types of a table's attributes.
pub(crate) fn types(schema: &Schema) -> Vec<Type> {
    schema.attributes.iter().map(|a| a.ty).collect()
}
