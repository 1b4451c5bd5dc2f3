//! What is known but does not run yet: components, which say so in their spec.

use crate::Checker;
use crate::codes::check as code;
use crate::report::error;
use lang::diagnostic::{Kind, Severity};
use lang::span::Span;
use plan::spec::{FunctionSpec, Status};

impl Checker<'_> {
    /// Notes the use of a function, aggregator, window or stream processor.
    pub(super) fn note_component(&mut self, spec: &FunctionSpec, span: Span) {
        if spec.effect {
            let call = (spec.full_name(), span);
            // An expression may be checked more than once.
            if !self.plan.effects.contains(&call) {
                self.plan.effects.push(call);
            }
        }
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
