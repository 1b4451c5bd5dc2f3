//! Sources, sinks and stores: what the catalog's judgement of an annotation means for the app.

use crate::Checker;
use crate::annotations::find;
use crate::codes::check as code;
use crate::names::Shape;
use crate::report::warning;
use crate::validate::{self, Validated, View};
use lang::ast::Annotation;
use lang::diagnostic::Kind;

impl Checker<'_> {
    pub(super) fn source(
        &mut self,
        annotation: &Annotation,
        shape: &Shape,
    ) -> Option<plan::Transport> {
        let attributes: Vec<&str> = shape.names().collect();
        let view = View {
            name: &shape.name,
            attributes: &attributes,
            is_open: shape.is_open || self.has_syntax_fault(annotation.span),
        };
        self.once_each(&annotation.annotations, &["map"]);
        let validated = validate::source(annotation, &view, self.catalog, &self.config.deployed);
        self.take(validated)
    }

    pub(super) fn sink(
        &mut self,
        annotation: &Annotation,
        shape: &Shape,
        has_fault_stream: bool,
    ) -> Option<plan::Transport> {
        let attributes: Vec<&str> = shape.names().collect();
        let view = View {
            name: &shape.name,
            attributes: &attributes,
            is_open: shape.is_open || self.has_syntax_fault(annotation.span),
        };
        self.once_each(&annotation.annotations, &["map", "distribution"]);
        let validated = validate::sink(annotation, &view, self.catalog, &self.config.deployed);
        let on_error = annotation.value("on.error");
        if let Some(text) = on_error
            && text.text.eq_ignore_ascii_case("stream")
            && !has_fault_stream
        {
            let span = text.span;
            self.report(
                warning(
                    code::FAULT_STREAM_MISSING,
                    Kind::Option,
                    span,
                    format!("stream '{}' has no fault stream", shape.name),
                    "no target: the event is dropped and logged",
                )
                .help("put @OnError(action='STREAM') before the definition of the stream"),
            );
        }
        self.take(validated)
    }

    /// `@store`, with its `@cache`, of a table or an aggregation.
    pub(super) fn store(&mut self, annotations: &[Annotation]) -> Option<plan::Store> {
        let annotation = find(annotations, "store")?;
        self.once_each(&annotation.annotations, &["cache"]);
        let validated = validate::store(annotation, self.catalog, &self.config.deployed);
        self.take(validated)
    }

    fn take<T>(&mut self, validated: Validated<T>) -> Option<T> {
        for diagnostic in validated.diagnostics {
            self.report(diagnostic);
        }
        for (message, span) in validated.not_runnable {
            // `source 'kafka' is known but does not run yet` without its last part.
            let what = message
                .replace(" is known but does not run yet", "")
                .replace(" does not run yet", "");
            self.not_runnable(code::COMPONENT_PENDING, span, &what, message);
        }
        validated.value
    }

    /// Sources and sinks belong to streams.
    pub(super) fn transports_only_on_streams(
        &mut self,
        annotations: &[Annotation],
        what: &str,
        name: &str,
    ) {
        for annotation in annotations
            .iter()
            .filter(|a| a.is("source") || a.is("sink"))
        {
            self.report(
                warning(
                    code::ANNOTATION_WITHOUT_EFFECT,
                    Kind::Option,
                    annotation.span,
                    format!(
                        "'@{}' of {what} '{name}' has no effect",
                        annotation.name.text
                    ),
                    "only streams have sources and sinks",
                )
                .help("define a stream with it"),
            );
        }
    }
}
