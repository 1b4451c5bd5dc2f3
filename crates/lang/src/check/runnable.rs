//! What is known but does not run yet.
//!
//! Components say so in their spec; the features of the language stand in [`PENDING`], one line
//! each: the change that makes a feature run takes its line out.

use crate::check::report::error;
use crate::check::{Checker, code};
use crate::diagnostic::{Kind, Severity};
use crate::span::Span;
use crate::spec::{FunctionSpec, Status};

/// A feature of the language that can be pending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Feature {
    /// A stream function behind a stream of a pattern.
    PatternFunction,
    /// `in`, or a function that reaches outside, in the condition of a join, of a write to a table or
    /// of another `in`, in an argument of a window and in a partition's key. Siddhi takes most of
    /// these and then fails on every event.
    Probe,
}

/// What the engine does not run yet, in the words of the person who wrote the app.
const PENDING: &[(Feature, &str)] = &[
    (Feature::PatternFunction, "stream functions in a pattern"),
    (
        Feature::Probe,
        "'in' and functions that reach outside, in conditions of joins and writes, in arguments of \
         windows and in keys of partitions,",
    ),
];

impl Checker<'_> {
    /// Notes the use of a feature of the language.
    pub(super) fn note_feature(&mut self, feature: Feature, span: Span) {
        if let Some((_, words)) = PENDING.iter().find(|(f, _)| *f == feature) {
            self.not_runnable(
                code::FEATURE_PENDING,
                span,
                words,
                format!("{words} do not run yet"),
            );
        }
    }

    /// Notes the use of a function, aggregator, window or stream processor.
    pub(super) fn note_component(&mut self, spec: &FunctionSpec, span: Span) {
        if spec.status == Status::Known {
            let name = spec.full_name();
            self.not_runnable(
                code::COMPONENT_PENDING,
                span,
                &format!("'{name}'"),
                format!("'{name}' is known but does not run yet"),
            );
        }
    }

    pub(super) fn not_runnable(
        &mut self,
        code: &'static str,
        span: Span,
        what: &str,
        message: String,
    ) {
        let mut d = error(code, Kind::Unsupported, span, message, "does not run yet")
            .help("the app is accepted by `check` and refused by `run` until it does");
        if !self.config.must_run {
            d.severity = Severity::Warning;
        }
        self.report(d);
        self.plan.not_runnable.push((what.to_owned(), span));
    }
}
