//! Writing to tables from queries, and `condition in Table`.

use event::Type;

use crate::Checker;
use crate::codes::check as code;
use crate::expr::bool_expr;
use crate::index_rulings::{RowConditions, TABLE_ROW};
use crate::names::{Entry, Named, Shape};
use crate::report::{error, warning};
use crate::rulings::{FOUND_AND_KEPT, PROBED_BACKWARDS};
use crate::scope::{Input, Scope};
use lang::ast::{self, StreamKind};
use lang::diagnostic::Kind;
use lang::span::Span;
use lang::suggest::nearest;
use plan::{Expr, ExprKind, InputId, TableId};

/// The place of a condition on the rows that 'in' looks at.
const PROBED: &str = "the condition of another 'in'";

impl Checker<'_> {
    /// The table behind a name.
    pub(super) fn table_named(&mut self, name: &ast::StreamName) -> Option<(TableId, Entry)> {
        let text = name.name.text.as_str();
        let found = self
            .names
            .get(text)
            .filter(|_| name.kind == StreamKind::Plain);
        if let Some(
            entry @ Entry {
                named: Named::Table(id),
                ..
            },
        ) = found
        {
            return Some((id, entry));
        }
        let d = match found {
            Some(entry) => error(
                code::NOT_A_TABLE,
                Kind::Name,
                name.span,
                format!("'{text}' is not a table"),
                format!("this is {}", entry.named.with_article()),
            )
            .related(entry.span, "defined here"),
            None => {
                let near = nearest(text, self.names.of(|n| matches!(n, Named::Table(_))));
                if near.is_none() && self.lost_text {
                    return None;
                }
                let d = error(
                    code::UNKNOWN_TABLE,
                    Kind::Name,
                    name.span,
                    format!("table '{text}' is not defined"),
                    "no such table",
                )
                .did_you_mean(name.name.span, near);
                match near {
                    None => d.help(format!("define it: define table {text} (…);")),
                    Some(_) => d,
                }
            }
        };
        self.report(d);
        None
    }

    /// Conditions and set values see the selected row (input 0) by bare names, and the table's row
    /// (input 1) by `Table.attribute`.
    fn write_scope(&self, table: TableId, selected: &Shape) -> Scope {
        let shape = self.table_shapes[table].clone();
        let selected = Input::new("", StreamKind::Plain, selected.clone());
        let row = Input::new(&shape.name.clone(), StreamKind::Plain, shape);
        Scope {
            own: Some(0),
            takes_aggregators: false,
            takes_probes: false,
            finds_rows: true,
            ..Scope::many(vec![selected, row], "the condition")
        }
    }

    pub(super) fn delete(
        &mut self,
        table: &ast::StreamName,
        on: Option<&ast::Expr>,
        span: Span,
        selected: &Shape,
    ) -> Option<plan::Output> {
        let found = self.table_named(table);
        let Some(on) = on else {
            self.report(
                error(
                    code::DELETE_WITHOUT_ON,
                    Kind::Type,
                    span,
                    format!("'delete {}' does not say which rows", table.name.text),
                    "'on' is missing",
                )
                .help("add a condition; 'on true == true' deletes all rows"),
            );
            return None;
        };
        let (id, _) = found?;
        let scope = self.write_scope(id, selected);
        let mut on = self.condition(on, &scope, "'on'")?;
        let conditions = RowConditions::new(&self.plan.tables[id], TABLE_ROW);
        if let Some(deleted) = conditions.and_then(|c| c.deleted(&on)) {
            self.ruled(&FOUND_AND_KEPT, on.span);
            if self.plan.options.compat {
                on = deleted;
            }
        }
        Some(plan::Output::Delete { table: id, on })
    }

    pub(super) fn update(
        &mut self,
        table: &ast::StreamName,
        set: &[ast::SetItem],
        on: &ast::Expr,
        selected: &Shape,
        select_span: Span,
        or_insert: bool,
    ) -> Option<plan::Output> {
        let (id, entry) = self.table_named(table)?;
        if or_insert {
            self.check_same_row(entry, table, selected, select_span);
        }
        let scope = self.write_scope(id, selected);
        let set = if set.is_empty() {
            self.same_names(id, table, selected, or_insert)
        } else {
            self.set_items(id, set, &scope)
        };
        let on = self.condition(on, &scope, "'on'");
        let (set, on) = (set?, on?);
        Some(if or_insert {
            plan::Output::UpdateOrInsert { table: id, set, on }
        } else {
            plan::Output::Update { table: id, set, on }
        })
    }

    /// Without `set`, each selected attribute is written to the table's of the same name.
    fn same_names(
        &mut self,
        table: TableId,
        name: &ast::StreamName,
        selected: &Shape,
        or_insert: bool,
    ) -> Option<Vec<(usize, Expr)>> {
        let shape = self.table_shapes[table].clone();
        let mut set = Vec::new();
        let mut is_faulty = selected.is_open;
        for (attribute, field) in selected.fields.iter().enumerate() {
            let Some(target) = shape.index_of(&field.name) else {
                is_faulty = true;
                // `update or insert` has compared the whole row already.
                if !or_insert && !shape.is_open {
                    self.not_in_table(name, &shape, &field.name, field.span);
                }
                continue;
            };
            let Some(ty) = field.ty else {
                is_faulty = true;
                continue;
            };
            let wanted = shape.fields[target].ty;
            if wanted != Some(ty) && !or_insert {
                is_faulty = true;
                self.report(
                    error(
                        code::OTHER_ROW,
                        Kind::Type,
                        field.span,
                        format!(
                            "'{}' is {ty} here but not in table '{}'",
                            field.name, shape.name
                        ),
                        format!(
                            "{ty}, where {} is kept",
                            wanted.map_or("another", Type::name)
                        ),
                    )
                    .related(shape.fields[target].span, "defined here")
                    .help(
                        "turn it into that type with convert(…), or say what to write with 'set'",
                    ),
                );
                continue;
            }
            let kind = ExprKind::Attribute {
                input: 0,
                index: None,
                attribute,
            };
            set.push((
                target,
                Expr {
                    ty,
                    kind,
                    span: field.span,
                },
            ));
        }
        (!is_faulty).then_some(set)
    }

    fn not_in_table(&mut self, name: &ast::StreamName, shape: &Shape, attribute: &str, span: Span) {
        let near = nearest(attribute, shape.names());
        let d = error(
            code::NOT_IN_TABLE,
            Kind::Name,
            span,
            format!(
                "table '{}' has no attribute '{attribute}' to update",
                name.name.text
            ),
            "selected, but not in the table",
        );
        self.report(match near {
            Some(name) => d.help(format!("did you mean '{name}'? rename it with 'as {name}'")),
            None => d.help(format!(
                "without 'set' all selected attributes are written; the table is {}",
                shape.signature()
            )),
        });
    }

    /// `set T.a = …`; the target always is the table's, whatever stands before the dot.
    fn set_items(
        &mut self,
        table: TableId,
        set: &[ast::SetItem],
        scope: &Scope,
    ) -> Option<Vec<(usize, Expr)>> {
        let shape = self.table_shapes[table].clone();
        let scope = scope.at("'set'");
        let mut items: Vec<(usize, Expr)> = Vec::new();
        let mut is_faulty = false;
        for item in set {
            let name = &item.target.name;
            let value = self.expr(&item.value, &scope);
            if let Some(stream) = &item.target.stream
                && stream.stream.name.text != shape.name
            {
                self.report(
                    warning(
                        code::SET_OTHER,
                        Kind::Name,
                        stream.span,
                        format!(
                            "'set' writes to table '{}', not to '{}'",
                            shape.name, stream.stream.name.text
                        ),
                        "has no effect here",
                    )
                    .help(format!("write '{}.{}'", shape.name, name.text))
                    .fix(stream.span, shape.name.clone()),
                );
            }
            let Some(target) = shape.index_of(&name.text) else {
                is_faulty = true;
                if !shape.is_open {
                    let near = nearest(&name.text, shape.names());
                    let d = error(
                        code::UNKNOWN_ATTRIBUTE,
                        Kind::Name,
                        name.span,
                        format!("table '{}' has no attribute '{}'", shape.name, name.text),
                        "no such attribute",
                    );
                    self.report(match near {
                        Some(_) => d.did_you_mean(name.span, near),
                        None => d.help(format!("the table is {}", shape.signature())),
                    });
                }
                continue;
            };
            let Some(value) = value else {
                is_faulty = true;
                continue;
            };
            if let Some(wanted) = shape.fields[target].ty
                && wanted != value.ty
            {
                // Siddhi writes the value as it is; it fails where it is next used.
                self.report(
                    warning(
                        code::SET_TYPE,
                        Kind::Type,
                        value.span,
                        format!(
                            "'{}' keeps {wanted}, but {} is written to it",
                            name.text, value.ty
                        ),
                        format!("{}, where {wanted} is kept", value.ty),
                    )
                    .related(shape.fields[target].span, "defined here")
                    .help(format!("write convert(…, '{wanted}')")),
                );
            }
            items.push((target, value));
        }
        (!is_faulty).then_some(items)
    }

    /// Reports what reaches outside of the events where nothing can.
    pub(super) fn nothing_from_outside(&mut self, what: &str, scope: &Scope, span: Span) {
        let place = scope.place;
        self.report(
            error(
                code::NOTHING_FROM_OUTSIDE,
                Kind::Unsupported,
                span,
                format!("{what} is not allowed in {place}"),
                "reaches outside of the events",
            )
            .help(
                "look in a query in front: from S select …, (T.k == k) in T as found insert into …",
            ),
        );
    }

    /// `condition in Table`: the table's row is one more input, qualified by the table's name.
    pub(super) fn in_table(
        &mut self,
        condition: &ast::Expr,
        table: &ast::StreamName,
        scope: &Scope,
        span: Span,
    ) -> Option<Expr> {
        let Some((id, _)) = self.table_named(table) else {
            // Names of the table are as unknown as the table.
            let mut scope = scope.clone();
            let open = Input::new(&table.name.text, table.kind, Shape::open(&table.name.text));
            scope.inputs.push(open);
            self.expr(condition, &scope);
            return None;
        };
        // Siddhi's compiler breaks on it in every pattern.
        if scope.is_pattern_filter || !scope.takes_probes {
            self.nothing_from_outside("'in'", scope, span);
            return None;
        }
        let shape = self.table_shapes[id].clone();
        let row = scope.inputs.len();
        let mut inner = scope.clone();
        inner.takes_aggregators = false;
        inner.takes_probes = false;
        inner.finds_rows = true;
        inner.place = PROBED;
        inner.is_output_only = false;
        if inner.own.is_none() && row == 1 {
            inner.own = Some(0);
        }
        let name = shape.name.clone();
        inner
            .inputs
            .push(Input::new(&name, StreamKind::Plain, shape));
        let checked = self.expr(condition, &inner)?;
        if checked.ty != Type::Bool {
            // Siddhi fails for every event: `k in T` is not membership.
            self.report(
                error(
                    code::NOT_A_CONDITION,
                    Kind::Type,
                    checked.span,
                    format!("'in {name}' needs a condition on the rows of '{name}'"),
                    format!("{}, not true or false", checked.ty),
                )
                .help(format!("write ({name}.… == …) in {name}")),
            );
            return None;
        }
        let mut condition = checked;
        let conditions = RowConditions::new(&self.plan.tables[id], row as InputId);
        if let Some(probed) = conditions.and_then(|c| c.probed(&condition)) {
            self.ruled(&PROBED_BACKWARDS, condition.span);
            if self.plan.options.compat {
                condition = probed;
            }
        }
        let kind = ExprKind::In {
            condition: Box::new(condition),
            table: id,
            row: row as InputId,
        };
        Some(bool_expr(kind, span))
    }
}
