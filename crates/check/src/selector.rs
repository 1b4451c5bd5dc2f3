//! The select clause, group by, having, order by, limit and offset (`SelectorParser`).

use std::collections::HashMap;

use crate::Checker;
use crate::codes::check as code;
use crate::names::Shape;
use crate::report::error;
use crate::scope::Scope;
use lang::ast;
use lang::diagnostic::Kind;
use lang::span::Span;
use plan::{Constant, Expr, ExprKind};

impl Checker<'_> {
    /// The selector of the plan, and the selected row as far as it is known. In 'having' and
    /// 'order by' the row may go by the name of the target.
    pub(super) fn selector(
        &mut self,
        selector: &ast::Selector,
        inputs: &Scope,
        target: &str,
    ) -> (plan::Selector, Shape) {
        let scope = inputs.at("the select clause");
        self.saw_aggregator = false;
        let mut row = Shape::new(target);
        let mut items = Vec::new();
        if selector.all {
            self.select_all(selector, &scope, &mut items, &mut row);
        } else {
            self.select_items(selector, &scope, &mut items, &mut row);
        }
        let has_aggregator = self.saw_aggregator;
        let by = scope.at("group by");
        let group_by = selector
            .group_by
            .iter()
            .filter_map(|r| self.group_key(r, &by, &row))
            .collect();
        let after = Scope {
            output: Some(row.clone()),
            is_output_only: inputs.is_single() && !inputs.is_on_demand,
            ..scope.at("having")
        };
        let having = selector
            .having
            .as_ref()
            .and_then(|h| self.condition(h, &after, "'having'"));
        let after = after.at("order by");
        let order_by = selector
            .order_by
            .iter()
            .filter_map(|o| Some((self.attribute(&o.attribute, &after)?, o.descending)))
            .collect();
        let limit = selector
            .limit
            .as_ref()
            .and_then(|e| self.row_count(e, "'limit'"));
        let offset = selector
            .offset
            .as_ref()
            .and_then(|e| self.row_count(e, "'offset'"));
        let plan = plan::Selector {
            items,
            group_by,
            having,
            order_by,
            limit,
            offset,
            has_aggregator,
            schema: event::Schema {
                name: String::new(),
                ..row.schema()
            },
        };
        (plan, row)
    }

    fn select_all(
        &mut self,
        selector: &ast::Selector,
        scope: &Scope,
        items: &mut Vec<(Expr, String)>,
        row: &mut Shape,
    ) {
        let mut owners: HashMap<&str, &str> = HashMap::new();
        let mut clash = None;
        for (number, input) in scope.all() {
            row.is_open |= input.shape.is_open;
            for (attribute, field) in input.shape.fields.iter().enumerate() {
                if let Some(first) = owners.get(field.name.as_str()) {
                    clash.get_or_insert((*first, input.name.as_str(), field.name.as_str()));
                    continue;
                }
                owners.insert(&field.name, &input.name);
                row.push(&field.name, field.ty, selector.span);
                let Some(ty) = field.ty else { continue };
                let index = input.is_counted.then_some(ast::Index::At(0));
                let kind = ExprKind::Attribute {
                    input: number as u16,
                    index,
                    attribute,
                };
                items.push((
                    Expr {
                        ty,
                        kind,
                        span: selector.span,
                    },
                    field.name.clone(),
                ));
            }
        }
        let Some((first, second, name)) = clash else {
            return;
        };
        self.report(
            error(
                code::SELECT_ALL_CLASH,
                Kind::Name,
                selector.span,
                format!("'select *' would select '{name}' twice"),
                format!("both '{first}' and '{second}' have it"),
            )
            .help(format!(
                "name the attributes, as in 'select {first}.{name} as {name}, …'"
            )),
        );
        row.hide();
    }

    fn select_items(
        &mut self,
        selector: &ast::Selector,
        scope: &Scope,
        items: &mut Vec<(Expr, String)>,
        row: &mut Shape,
    ) {
        let mut seen: HashMap<String, Span> = HashMap::new();
        for item in &selector.items {
            let checked = self.expr(&item.expr, scope);
            let (name, span) = match (&item.alias, &item.expr.kind) {
                (Some(alias), _) => (alias.text.as_str(), alias.span),
                (None, ast::ExprKind::Attribute(r)) => (r.name.text.as_str(), r.name.span),
                // The parser has asked for a name.
                (None, _) => {
                    row.hide();
                    continue;
                }
            };
            if let Some(first) = seen.get(name) {
                self.report(
                    error(
                        code::SELECTED_TWICE,
                        Kind::Name,
                        span,
                        format!("two selected attributes are named '{name}'"),
                        "this name is taken",
                    )
                    .related(*first, "first used here")
                    .help("give one of them another name with 'as'"),
                );
                continue;
            }
            seen.insert(name.to_owned(), span);
            row.push(name, checked.as_ref().map(|e| e.ty), span);
            if let Some(expr) = checked {
                items.push((expr, name.to_owned()));
            }
        }
    }

    /// A key of `group by` is an attribute of the input; a name given in the select clause is not
    /// seen.
    fn group_key(
        &mut self,
        r: &ast::AttributeRef,
        scope: &Scope,
        selected: &Shape,
    ) -> Option<Expr> {
        let name = &r.name.text;
        let is_input = scope
            .inputs
            .iter()
            .any(|i| i.shape.index_of(name).is_some() || i.shape.is_open);
        if r.stream.is_none() && !is_input && selected.index_of(name).is_some() {
            let given = selected.index_of(name).map(|i| selected.fields[i].span);
            self.report(
                error(
                    code::GROUP_BY_ALIAS,
                    Kind::Name,
                    r.span,
                    format!("'group by' does not see '{name}', which the select clause makes"),
                    "not an attribute of the input",
                )
                .related(given.unwrap_or(r.span), "made here")
                .help("group by attributes of the input, or make the value in an earlier query"),
            );
            return None;
        }
        self.attribute(r, scope)
    }

    /// A constant number of rows.
    fn row_count(&mut self, e: &ast::Expr, whose: &str) -> Option<u64> {
        let checked = self.expr(e, &Scope::nothing("limit"))?;
        let count = match &checked.kind {
            ExprKind::Constant(Constant::Int(v)) => u64::try_from(*v).ok(),
            ExprKind::Constant(Constant::Long(v)) => u64::try_from(*v).ok(),
            _ => None,
        };
        if count.is_none() {
            self.report(
                error(
                    code::ROW_COUNT,
                    Kind::Type,
                    e.span,
                    format!("{whose} needs a constant whole number that is not negative"),
                    "not such a number",
                )
                .help("write a number, as in 'limit 10'"),
            );
        }
        count
    }
}
