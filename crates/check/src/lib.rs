//! The checker: resolves every name and type of an app and makes the [`Plan`] the engine runs.
//!
//! Promises: all faults of an app in one go (the first two hundred), each at its place with its
//! cause and remedy; a fault hides what depends on it (poisoned types, open shapes) but nothing
//! else; an app that Siddhi 5.1 creates is accepted, unless some part of it could only fail; one
//! that it refuses for a reason that makes sense is refused. What is known but does not run yet is
//! a warning at its place and an entry in [`Plan::not_runnable`].
//!
//! Never: a panic on any tree, I/O, or a plan for an app with an error.

mod aggregation;
mod aggregation_columns;
mod annotations;
mod call;
mod catalog;
mod checker;
pub mod codes;
mod config;
mod connector;
mod definitions;
pub mod explain;
mod expr;
pub mod fix;
mod index_rulings;
mod join;
mod names;
mod on_demand;
mod operations;
mod overload;
mod partition;
mod pattern;
mod query;
pub mod render;
mod report;
mod rulings;
mod runnable;
mod scope;
pub mod secret;
mod selector;
mod table;
mod targets;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod transports;
pub mod validate;
mod window;

use lang::ast;
use lang::diagnostic::Diagnostic;
use lang::span::Span;
use plan::{ContentConditions, Plan};

pub use catalog::Catalog;
pub(crate) use checker::Checker;
pub use config::{CheckConfig, ScriptFault};
pub use connector::Producer;
pub use on_demand::{CheckedCondition, CheckedOnDemand, check_condition, check_on_demand};
pub use overload::{Mismatch, Resolved, resolve_overload, type_names};
use window::content_condition;

/// The outcome of a check.
#[derive(Clone, Debug)]
pub struct Checked {
    /// `None` if a diagnostic is an error, the parser's included.
    pub plan: Option<Plan>,
    /// In the order of the text.
    pub diagnostics: Vec<Diagnostic>,
}

/// Checks a whole app.
pub fn check(app: &ast::App, catalog: &Catalog, config: &CheckConfig) -> Checked {
    let mut checker = Checker::new(catalog, config);
    checker.app(app);
    let (mut plan, diagnostics) = checker.finish();
    if let Some(plan) = &mut plan {
        let catalog = catalog.clone();
        plan.conditions =
            ContentConditions::new(move |row, text| content_condition(&catalog, row, text));
    }
    Checked { plan, diagnostics }
}

impl Checker<'_> {
    /// Definitions first, whatever the order of the text: queries may read what stands after them.
    fn app(&mut self, written: &ast::App) {
        self.lost_text = self.has_lost_text(written);
        let app = &*connector::with_subscriptions(written, &self.config.deployed);
        self.app_annotations(&app.annotations);
        for element in &app.elements {
            self.definition(element);
        }
        for element in &app.elements {
            if let ast::Element::Aggregation(aggregation) = element {
                self.aggregation(aggregation);
            }
        }
        self.note_made_later(&app.elements);
        let mut partitions = 0;
        for element in &app.elements {
            match element {
                ast::Element::Query(query) => {
                    if let Some(id) = self.query(query) {
                        self.plan.elements.push(plan::Element::Query(id));
                    }
                }
                ast::Element::Partition(partition) => {
                    partitions += 1;
                    let id = self.partition(partition, partitions);
                    self.plan.elements.push(plan::Element::Partition(id));
                }
                _ => {}
            }
        }
        self.unread_streams();
        self.same_producers();
        self.rulings(written);
    }

    /// Is there a syntax fault outside all elements that the parser understood?
    fn has_lost_text(&self, app: &ast::App) -> bool {
        let is_inside = |fault: &Span| {
            app.elements.iter().any(|e| {
                let span = element_span(e);
                fault.start >= span.start && fault.start <= span.end
            })
        };
        let has_definition = app
            .elements
            .iter()
            .any(|e| !matches!(e, ast::Element::Query(_) | ast::Element::Partition(_)));
        // An app without any definition has been reported as such.
        let faults = &self.config.syntax_faults;
        !faults.is_empty() && (!has_definition || !faults.iter().all(is_inside))
    }
}

fn element_span(element: &ast::Element) -> Span {
    match element {
        ast::Element::Stream(d) => d.span,
        ast::Element::Table(d) => d.span,
        ast::Element::Window(d) => d.span,
        ast::Element::Trigger(d) => d.span,
        ast::Element::Function(d) => d.span,
        ast::Element::Aggregation(d) => d.span,
        ast::Element::Query(q) => q.span,
        ast::Element::Partition(p) => p.span,
    }
}
