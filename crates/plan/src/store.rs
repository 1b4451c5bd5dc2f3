//! What the engine asks of a table that is kept outside: operations known when the app is made.
//!
//! Each place in an app that touches an external table is one [`Operation`]. A store compiles it
//! once (to a prepared statement); at run time it gets the operation's number and, for each event
//! in order, a row of parameters. Whatever depends on the event alone has been computed before: an
//! operation's terms see only the table's row, constants and parameters.
//!
//! Data only; nothing here is evaluated.

use event::Type;

use crate::{ArithmeticOp, CompareOp, Constant, TableId};

/// Index into the list of an app's operations.
pub type OperationId = usize;

/// One place in an app that touches an external table.
#[derive(Clone, PartialEq, Debug)]
pub struct Operation {
    pub table: TableId,
    pub kind: OperationKind,
    /// Types of the values that come with each event, in the order of [`TermKind::Parameter`].
    pub parameters: Vec<Type>,
}

/// Events are handled one after the other: an event sees the writes of those before it.
#[derive(Clone, PartialEq, Debug)]
pub enum OperationKind {
    /// For each event the rows that satisfy `on` (all, where there is none), every attribute of
    /// the table.
    Find {
        on: Option<Term>,
    },
    /// For each event: is there a row that satisfies `on`?
    Contains {
        on: Term,
    },
    /// The parameters are the row.
    Insert,
    Delete {
        on: Term,
    },
    Update {
        /// Attribute of the table and its new value.
        set: Vec<(usize, Term)>,
        on: Term,
    },
    /// Updates the rows that satisfy `on`; where there is none, inserts a row made of the first
    /// parameters, as many as the table has attributes.
    UpdateOrInsert {
        set: Vec<(usize, Term)>,
        on: Term,
    },
}

impl OperationKind {
    /// Changes the table, answers nothing.
    pub const fn is_write(&self) -> bool {
        !matches!(
            self,
            OperationKind::Find { .. } | OperationKind::Contains { .. }
        )
    }
}

/// An expression over a row of the table and the parameters of an event.
///
/// Null: arithmetic with null is null; comparisons with null are false, `!=` is true; in `and`,
/// `or`, `not` and as the whole condition null counts as false.
#[derive(Clone, PartialEq, Debug)]
pub struct Term {
    pub ty: Type,
    pub kind: TermKind,
}

#[derive(Clone, PartialEq, Debug)]
pub enum TermKind {
    /// Attribute of the table's row.
    Column(usize),
    /// Value of the event.
    Parameter(usize),
    Constant(Constant),
    /// `ty` of the term says in which type.
    Arithmetic(ArithmeticOp, Box<Term>, Box<Term>),
    Compare(CompareOp, Box<Term>, Box<Term>),
    And(Box<Term>, Box<Term>),
    Or(Box<Term>, Box<Term>),
    Not(Box<Term>),
    IsNull(Box<Term>),
    /// A scalar function of the table's attributes, by full name; a store may refuse it when it
    /// compiles the operation.
    Call {
        name: String,
        args: Vec<Term>,
    },
}
