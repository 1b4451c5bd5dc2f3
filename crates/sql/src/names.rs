//! Names without case: tables and columns are found however a statement writes them.
//!
//! DataFusion takes unquoted names in lower case. A column whose name has capital letters is therefore put into
//! quotes, as it is called, wherever a statement names it without.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart, Query, Select,
    SelectItem, Statement, TableAlias, TableFactor, VisitMut, VisitorMut,
};

/// What the tables of a store and their columns are called.
#[derive(Clone, Default, Debug)]
pub(crate) struct Names {
    tables: HashSet<String>,
    /// By their names in lower case; `None` for those of two tables that differ by case alone.
    columns: HashMap<String, Option<String>>,
    /// `a JOIN b` has all pairs, as in Spark 1.6; else it is an error.
    joins_all: bool,
}

impl Names {
    pub fn of_script() -> Names {
        Names {
            joins_all: true,
            ..Names::default()
        }
    }

    /// Names of tables are in lower case.
    pub fn add_table(&mut self, table: &str) {
        self.tables.insert(table.to_owned());
    }

    pub fn add_column(&mut self, column: &str) {
        let known = self.columns.entry(column.to_lowercase());
        let known = known.or_insert_with(|| Some(column.to_owned()));
        if known.as_deref() != Some(column) {
            *known = None;
        }
    }

    /// Puts them into a statement as they are called.
    pub fn put_into(&self, statement: &mut Statement) {
        let walked = statement.visit(&mut Walk(self));
        debug_assert!(walked.is_continue(), "nothing in it breaks off");
    }

    fn quote(&self, name: &mut Ident) {
        if name.quote_style.is_some() {
            return;
        }
        let small = name.value.to_lowercase();
        if let Some(Some(column)) = self.columns.get(&small)
            && *column != small
        {
            name.value.clone_from(column);
            name.quote_style = Some('"');
        }
    }

    fn quote_all<'a>(&self, names: impl IntoIterator<Item = &'a mut Ident>) {
        names.into_iter().for_each(|name| self.quote(name));
    }

    fn alias(&self, alias: &mut TableAlias) {
        self.quote_all(alias.columns.iter_mut().map(|column| &mut column.name));
    }
}

struct Walk<'a>(&'a Names);

impl VisitorMut for Walk<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            self.0.alias(&mut cte.alias);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::ExprWithAlias { alias, .. } = item {
                self.0.quote(alias);
            }
        }
        let joins = select.from.iter_mut().flat_map(|from| &mut from.joins);
        for join in joins {
            let is_free = matches!(
                join.join_operator,
                JoinOperator::Join(JoinConstraint::None)
                    | JoinOperator::Inner(JoinConstraint::None)
            );
            if is_free && self.0.joins_all {
                join.join_operator = JoinOperator::CrossJoin(JoinConstraint::None);
            }
            if let Some(JoinConstraint::Using(columns)) = constraint(&mut join.join_operator) {
                let parts = columns.iter_mut().flat_map(|column| &mut column.0);
                self.0.quote_all(parts.filter_map(|part| match part {
                    ObjectNamePart::Identifier(name) => Some(name),
                    ObjectNamePart::Function(_) => None,
                }));
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table {
                alias: Some(alias), ..
            }
            | TableFactor::Derived {
                alias: Some(alias), ..
            } => self.0.alias(alias),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<()> {
        if let Some(ObjectNamePart::Identifier(name)) = relation.0.last_mut()
            && name.quote_style.is_some()
        {
            let small = name.value.to_lowercase();
            if self.0.tables.contains(&small) {
                name.value = small;
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(name) => self.0.quote(name),
            Expr::CompoundIdentifier(names) => self.0.quote_all(names.last_mut()),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn constraint(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint)
        | JoinOperator::Semi(constraint)
        | JoinOperator::LeftSemi(constraint)
        | JoinOperator::RightSemi(constraint)
        | JoinOperator::Anti(constraint)
        | JoinOperator::LeftAnti(constraint)
        | JoinOperator::RightAnti(constraint) => Some(constraint),
        _ => None,
    }
}
