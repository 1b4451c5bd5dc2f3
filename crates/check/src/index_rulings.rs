//! Which rows Siddhi's indexes reach for a condition on a table, and where that goes wrong.
//!
//! Siddhi takes a condition apart by what each part needs: the event, an index, or a look at all rows
//! (`CollectionExpressionParser`). Two of what it puts together from the parts have a defect: rows to
//! delete are found and kept (`CompareExhaustiveAndCollectionExecutor`, ruling 80), and `in` looks the
//! wrong way (`IndexEventHolder.containsEventSet`, ruling 81). A list has another (ruling 82).

use std::collections::BTreeSet;

use plan::{CompareOp, Constant, Expr, ExprKind, InputId, Table};

/// The table's row in the scope of a write.
pub(crate) const TABLE_ROW: InputId = 1;

/// What a part of a condition needs (`CollectionScope`).
enum IndexUse {
    /// The event alone.
    Event,
    /// The values of a column with an index, or of the only primary key.
    Column { is_key: bool },
    /// The values of one of several primary keys.
    KeyColumn(usize),
    /// Rows that an index finds.
    Found { is_key: bool },
    /// Rows by equality with these of several primary keys.
    Part(BTreeSet<usize>),
    /// All rows.
    All,
}

impl IndexUse {
    /// The primary keys that a part compares; `None` for a part without any.
    fn keys(&self, table: &Table) -> Option<BTreeSet<usize>> {
        match self {
            IndexUse::Column { is_key: true } | IndexUse::Found { is_key: true } => {
                Some(table.primary_key.iter().copied().collect())
            }
            IndexUse::KeyColumn(_) => Some(BTreeSet::new()),
            IndexUse::Part(keys) => Some(keys.clone()),
            _ => None,
        }
    }

    fn is_by_index(&self) -> bool {
        matches!(self, IndexUse::Column { .. } | IndexUse::Found { .. })
    }
}

/// Conditions on the rows of a table in memory.
pub(super) struct RowConditions<'p> {
    table: &'p Table,
    /// The input that is the table's row.
    row: InputId,
}

impl<'p> RowConditions<'p> {
    /// `None` for the table of a store.
    pub fn new(table: &'p Table, row: InputId) -> Option<RowConditions<'p>> {
        table
            .store
            .is_none()
            .then_some(RowConditions { table, row })
    }

    /// Is a list without a key or an index asked for some of its rows? Where Siddhi takes the last one
    /// away and leaves others, it adds the rows that follow to the one that is gone
    /// (`ComplexEventChunk.remove`, ruling 82).
    pub fn may_lose_end(&self, on: &Expr) -> bool {
        let has_index = !self.table.primary_key.is_empty() || !self.table.indexes.is_empty();
        !has_index && !matches!(self.index_use(on), IndexUse::Event)
    }

    /// The condition that the rows satisfy which Siddhi deletes; `None` where it is this one.
    pub fn deleted(&self, on: &Expr) -> Option<Expr> {
        match &on.kind {
            ExprKind::And(left, right) => match (self.index_use(left), self.index_use(right)) {
                (IndexUse::Event, IndexUse::Event) => None,
                (IndexUse::Event, _) => self.deleted(right).map(|r| and(on, left, &r)),
                (_, IndexUse::Event) => self.deleted(left).map(|l| and(on, &l, right)),
                (left, right) if left.is_by_index() != right.is_by_index() => {
                    Some(with(on, ExprKind::Constant(Constant::Bool(false))))
                }
                _ => None,
            },
            ExprKind::Or(left, right) if self.index_use(on).is_by_index() => {
                match (self.deleted(left), self.deleted(right)) {
                    (None, None) => None,
                    (l, r) => {
                        let left = l.map_or_else(|| left.clone(), Box::new);
                        let right = r.map_or_else(|| right.clone(), Box::new);
                        Some(with(on, ExprKind::Or(left, right)))
                    }
                }
            }
            _ => None,
        }
    }

    /// The condition for which Siddhi's `in` looks; `None` where it is this one.
    pub fn probed(&self, condition: &Expr) -> Option<Expr> {
        match &condition.kind {
            ExprKind::And(left, right) => match (self.index_use(left), self.index_use(right)) {
                (IndexUse::Event, IndexUse::Event) => None,
                (IndexUse::Event, _) => self.probed(right).map(|r| and(condition, left, &r)),
                (_, IndexUse::Event) => self.probed(left).map(|l| and(condition, &l, right)),
                _ => None,
            },
            ExprKind::Compare(op, left, right) if self.index_use(condition).is_by_index() => {
                let turned = match op {
                    CompareOp::LessEqual => CompareOp::GreaterEqual,
                    CompareOp::GreaterEqual => CompareOp::LessEqual,
                    _ => return None,
                };
                let kind = ExprKind::Compare(turned, left.clone(), right.clone());
                Some(with(condition, kind))
            }
            _ => None,
        }
    }

    fn index_use(&self, expr: &Expr) -> IndexUse {
        match &expr.kind {
            ExprKind::Attribute {
                input, attribute, ..
            } if *input == self.row => self.column(*attribute),
            ExprKind::Compare(op, left, right) => {
                let column = match (self.index_use(left), self.index_use(right)) {
                    (column, IndexUse::Event) | (IndexUse::Event, column) => column,
                    _ => return IndexUse::All,
                };
                match column {
                    IndexUse::Event => IndexUse::Event,
                    IndexUse::Column { is_key } => IndexUse::Found { is_key },
                    IndexUse::KeyColumn(key) if *op == CompareOp::Equal => {
                        IndexUse::Part([key].into())
                    }
                    IndexUse::KeyColumn(_) => IndexUse::Part(BTreeSet::new()),
                    _ => IndexUse::All,
                }
            }
            ExprKind::And(left, right) => self.both(&self.index_use(left), &self.index_use(right)),
            ExprKind::Or(left, right) => match (self.index_use(left), self.index_use(right)) {
                (IndexUse::Event, IndexUse::Event) => IndexUse::Event,
                (left, right) if is_whole(&left) || is_whole(&right) => IndexUse::All,
                _ => IndexUse::Found { is_key: false },
            },
            ExprKind::Not(inner) => match self.index_use(inner) {
                IndexUse::Event => IndexUse::Event,
                IndexUse::Column { is_key } => IndexUse::Found { is_key },
                IndexUse::Found { .. } => IndexUse::Found { is_key: false },
                _ => IndexUse::All,
            },
            ExprKind::IsNull(inner) => match self.index_use(inner) {
                IndexUse::Event => IndexUse::Event,
                IndexUse::Column { is_key } => IndexUse::Found { is_key },
                _ => IndexUse::All,
            },
            ExprKind::Arithmetic(_, left, right) => self.of_all([&**left, &**right]),
            ExprKind::Call { args, .. } | ExprKind::Script { args, .. } => self.of_all(args),
            _ => IndexUse::Event,
        }
    }

    fn column(&self, attribute: usize) -> IndexUse {
        let mut indexes = self.table.indexes.iter();
        match self.table.primary_key.as_slice() {
            _ if indexes.any(|index| index.contains(&attribute)) => {
                IndexUse::Column { is_key: false }
            }
            [key] if *key == attribute => IndexUse::Column { is_key: true },
            keys if keys.contains(&attribute) => IndexUse::KeyColumn(attribute),
            _ => IndexUse::All,
        }
    }

    fn both(&self, left: &IndexUse, right: &IndexUse) -> IndexUse {
        if let (IndexUse::Event, IndexUse::Event) = (left, right) {
            return IndexUse::Event;
        }
        if let (Some(mut keys), Some(more)) = (left.keys(self.table), right.keys(self.table)) {
            keys.extend(more);
            return match keys.len() == self.table.primary_key.len() {
                true => IndexUse::Found { is_key: true },
                false => IndexUse::Part(keys),
            };
        }
        match left.is_by_index() || right.is_by_index() {
            true => IndexUse::Found { is_key: false },
            false => IndexUse::All,
        }
    }

    /// Of what is made of values.
    fn of_all<'e>(&self, parts: impl IntoIterator<Item = &'e Expr>) -> IndexUse {
        let mut parts = parts.into_iter();
        match parts.all(|part| matches!(self.index_use(part), IndexUse::Event)) {
            true => IndexUse::Event,
            false => IndexUse::All,
        }
    }
}

/// Does it take a look at all rows?
fn is_whole(index_use: &IndexUse) -> bool {
    matches!(
        index_use,
        IndexUse::All | IndexUse::KeyColumn(_) | IndexUse::Part(_)
    )
}

fn and(on: &Expr, left: &Expr, right: &Expr) -> Expr {
    let (left, right) = (Box::new(left.clone()), Box::new(right.clone()));
    with(on, ExprKind::And(left, right))
}

fn with(of: &Expr, kind: ExprKind) -> Expr {
    Expr {
        ty: of.ty,
        kind,
        span: of.span,
    }
}
