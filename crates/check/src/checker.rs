//! The state of one check.

use std::collections::HashMap;

use lang::diagnostic::{Diagnostic, Severity};
use lang::span::Span;
use plan::{PartitionId, Plan, StreamId};

use crate::catalog::Catalog;
use crate::codes::option::{MISSPELT, UNKNOWN};
use crate::config::CheckConfig;
use crate::names;

/// As many errors, and as many warnings, are told; more would help nobody.
const FINDINGS_MAX: usize = 200;

/// The state of one check.
pub(crate) struct Checker<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) config: &'a CheckConfig,
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) plan: Plan,
    pub(crate) names: names::Names,
    /// By id, like their counterparts in the plan.
    pub(crate) stream_shapes: Vec<names::Shape>,
    pub(crate) table_shapes: Vec<names::Shape>,
    pub(crate) window_shapes: Vec<names::Shape>,
    pub(crate) aggregation_shapes: Vec<names::Shape>,
    /// Script functions by name, with the place of their name.
    pub(crate) scripts: HashMap<String, (usize, Span)>,
    pub(crate) fault_streams: HashMap<String, StreamId>,
    /// The partition whose queries are being checked, and its inner streams.
    pub(crate) partition: Option<PartitionId>,
    pub(crate) inner_streams: names::Names,
    /// Streams that a query further down makes, with the place where it does.
    pub(crate) made_later: HashMap<String, Span>,
    pub(crate) query_names: HashMap<String, Span>,
    /// The parser passed over text in which something may have been defined.
    pub(crate) lost_text: bool,
    /// A query could not be put into the plan whole; its fault was reported.
    pub(crate) has_holes: bool,
    /// How many findings were reported.
    pub(crate) errors: usize,
    pub(crate) warnings: usize,
    /// Nesting of the expression being checked.
    pub(crate) depth: u32,
    /// A query is being checked whose aggregators are looked for.
    pub(crate) saw_aggregator: bool,
    /// One on-demand query is being checked, not an app.
    pub(crate) is_on_demand: bool,
}

impl<'a> Checker<'a> {
    pub(crate) fn new(catalog: &'a Catalog, config: &'a CheckConfig) -> Checker<'a> {
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

    pub(crate) fn report(&mut self, diagnostic: Diagnostic) {
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
    pub(crate) fn is_full(&self) -> bool {
        self.errors >= FINDINGS_MAX
    }

    /// The plan, if nothing is an error, and what was found, in the order of the text.
    /// An option with nearly the name of one that there is was meant to be that one: with its default
    /// instead, the app would do something else than its author thinks.
    fn refuse_misspelt(&mut self) {
        let unknown = self.diagnostics.iter_mut().filter(|d| d.code == UNKNOWN);
        for diagnostic in unknown.filter(|d| d.fix.is_some()) {
            diagnostic.code = MISSPELT;
            diagnostic.severity = Severity::Error;
            let cut = diagnostic.message.strip_suffix(": it is ignored");
            diagnostic.message = cut.unwrap_or(&diagnostic.message).to_owned();
            if let Some(help) = &mut diagnostic.help {
                help.push_str(" (--lenient ignores such options, as Siddhi does)");
            }
        }
    }

    pub(crate) fn finish(mut self) -> (Option<Plan>, Vec<Diagnostic>) {
        if !self.config.is_lenient {
            self.refuse_misspelt();
        }
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
        (is_whole.then_some(self.plan), self.diagnostics)
    }
}
