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
pub mod codes;
mod connector;
mod definitions;
pub mod explain;
mod expr;
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
mod secret;
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

use std::collections::{BTreeMap, HashMap};

use crate::validate::Deployed;
use lang::ast;
use lang::diagnostic::{Diagnostic, Severity};
use lang::span::Span;
use plan::{ContentConditions, PartitionId, Plan, StreamId};

pub(crate) use crate::codes::check as code;
pub use catalog::Catalog;
pub use connector::Producer;
pub use on_demand::{CheckedOnDemand, check_on_demand};
pub use overload::{Mismatch, Resolved, resolve_overload, type_names};
use window::content_condition;

/// What the checker must know beside the app.
#[derive(Clone, Default, Debug)]
pub struct CheckConfig {
    /// What the deployment file gives: blocks for `ref='name'`, settings of extensions.
    pub deployed: Deployed,
    /// Properties of the configuration, such as `shardId`; `None` where the configuration that the
    /// app will run with is not known, so that what it lacks is a warning only.
    pub properties: Option<BTreeMap<String, String>>,
    /// What is known but does not run yet is an error instead of a warning.
    pub must_run: bool,
    /// What is wrong with the body of a script function; without it bodies are not looked at.
    pub script_fault: Option<fn(&str) -> Option<ScriptFault>>,
    /// Where the parser found faults: names that may have been lost there are not reported again.
    pub syntax_faults: Vec<Span>,
}

/// A fault in the body of a script function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScriptFault {
    /// Line of the body, from 0.
    pub line: u32,
    pub message: String,
}

/// As many errors, and as many warnings, are told; more would help nobody.
const FINDINGS_MAX: usize = 200;

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
    checker.finish()
}

/// The state of one check.
pub(crate) struct Checker<'a> {
    catalog: &'a Catalog,
    config: &'a CheckConfig,
    diagnostics: Vec<Diagnostic>,
    plan: Plan,
    names: names::Names,
    /// By id, like their counterparts in the plan.
    stream_shapes: Vec<names::Shape>,
    table_shapes: Vec<names::Shape>,
    window_shapes: Vec<names::Shape>,
    aggregation_shapes: Vec<names::Shape>,
    /// Script functions by name, with the place of their name.
    scripts: HashMap<String, (usize, Span)>,
    fault_streams: HashMap<String, StreamId>,
    /// The partition whose queries are being checked, and its inner streams.
    partition: Option<PartitionId>,
    inner_streams: names::Names,
    /// Streams that a query further down makes, with the place where it does.
    made_later: HashMap<String, Span>,
    query_names: HashMap<String, Span>,
    /// The parser passed over text in which something may have been defined.
    lost_text: bool,
    /// A query could not be put into the plan whole; its fault was reported.
    has_holes: bool,
    /// How many findings were reported.
    errors: usize,
    warnings: usize,
    /// Nesting of the expression being checked.
    depth: u32,
    /// A query is being checked whose aggregators are looked for.
    saw_aggregator: bool,
    /// One on-demand query is being checked, not an app.
    is_on_demand: bool,
}

impl<'a> Checker<'a> {
    fn new(catalog: &'a Catalog, config: &'a CheckConfig) -> Checker<'a> {
        Checker {
            catalog,
            config,
            diagnostics: Vec::new(),
            plan: Plan::default(),
            names: names::Names::default(),
            stream_shapes: Vec::new(),
            table_shapes: Vec::new(),
            window_shapes: Vec::new(),
            aggregation_shapes: Vec::new(),
            scripts: HashMap::new(),
            fault_streams: HashMap::new(),
            partition: None,
            inner_streams: names::Names::default(),
            made_later: HashMap::new(),
            query_names: HashMap::new(),
            lost_text: false,
            has_holes: false,
            errors: 0,
            warnings: 0,
            depth: 0,
            saw_aggregator: false,
            is_on_demand: false,
        }
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        let count = match diagnostic.severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        };
        if *count < FINDINGS_MAX {
            *count += 1;
            self.diagnostics.push(diagnostic);
        }
    }

    /// No more errors are kept, so looking for what was meant is work in vain.
    fn is_full(&self) -> bool {
        self.errors >= FINDINGS_MAX
    }

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

    fn finish(mut self) -> Checked {
        let is_faulty = self
            .diagnostics
            .iter()
            .any(|d| d.severity == Severity::Error);
        debug_assert!(
            is_faulty || !self.has_holes || !self.config.syntax_faults.is_empty(),
            "a query is left out of the plan without a word"
        );
        // Where the parser found something, it has said what; the rest would be noise.
        let faults = &self.config.syntax_faults;
        self.diagnostics.retain(|d| {
            !faults
                .iter()
                .any(|f| f.start >= d.span.start && f.end <= d.span.end && f.start < d.span.end)
        });
        self.diagnostics.sort_by_key(|d| (d.span.start, d.span.end));
        self.diagnostics.dedup();
        let is_whole = !is_faulty && self.config.syntax_faults.is_empty();
        let catalog = self.catalog.clone();
        self.plan.conditions =
            ContentConditions::new(move |row, text| content_condition(&catalog, row, text));
        Checked {
            plan: is_whole.then_some(self.plan),
            diagnostics: self.diagnostics,
        }
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
