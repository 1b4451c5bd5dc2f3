//! Windows and stream functions behind a stream.

use crate::ast;
use crate::check::call::{Arg, Fit};
use crate::check::report::error;
use crate::check::scope::Scope;
use crate::check::{Checker, code};
use crate::diagnostic::Kind;
use crate::plan::{self, Constant};
use crate::spec::{FunctionKind, FunctionSpec};

impl Checker<'_> {
    pub(super) fn window_call(
        &mut self,
        call: &ast::Call,
        scope: &Scope,
    ) -> Option<plan::WindowCall> {
        let scope = Scope {
            takes_aggregators: false,
            ..scope.clone()
        };
        let namespace = call.namespace.as_ref().map_or("", |n| n.text.as_str());
        let catalog = self.catalog;
        let Some(spec) = catalog.function(FunctionKind::Window, namespace, &call.name.text) else {
            self.args(call, &scope);
            let kinds = [FunctionKind::Window];
            self.unknown_component(call, "window", &kinds, code::UNKNOWN_WINDOW);
            return None;
        };
        self.note_component(spec, call.span);
        let args = self.args(call, &scope);
        if !self.sort_orders(spec, &args) {
            return None;
        }
        let Fit { args, .. } = self.fit(spec, call, args)?;
        Some(plan::WindowCall {
            name: spec.full_name(),
            args,
            span: call.span,
        })
    }

    /// `sort(n, attribute, 'asc', attribute, …)`: what is no attribute must be an order
    /// (`SortWindowProcessor`).
    fn sort_orders(&mut self, spec: &FunctionSpec, args: &[Arg]) -> bool {
        if !spec.namespace.is_empty() || spec.name != "sort" {
            return true;
        }
        for arg in args.iter().skip(1) {
            let Some(Constant::String(text)) = arg.constant() else {
                continue;
            };
            if text.eq_ignore_ascii_case("asc") || text.eq_ignore_ascii_case("desc") {
                continue;
            }
            self.report(
                error(
                    code::WRONG_ARGUMENTS,
                    Kind::Type,
                    arg.span,
                    format!("'{text}' is not an order that window 'sort' knows"),
                    "neither 'asc' nor 'desc'",
                )
                .help("write 'asc' or 'desc' behind an attribute"),
            );
            return false;
        }
        true
    }

    pub(super) fn stream_function(
        &mut self,
        call: &ast::Call,
        scope: &Scope,
    ) -> Option<plan::StreamFunctionCall> {
        let scope = Scope {
            takes_aggregators: false,
            ..scope.clone()
        };
        let namespace = call.namespace.as_ref().map_or("", |n| n.text.as_str());
        let catalog = self.catalog;
        let kind = FunctionKind::StreamProcessor;
        let Some(spec) = catalog.function(kind, namespace, &call.name.text) else {
            self.args(call, &scope);
            self.unknown_stream_function(call, namespace);
            return None;
        };
        self.note_component(spec, call.span);
        let args = self.args(call, &scope);
        let Fit { args, adds, .. } = self.fit(spec, call, args)?;
        for attribute in &adds {
            let Some(taken) = scope
                .inputs
                .iter()
                .find(|i| i.shape.index_of(&attribute.name).is_some())
            else {
                continue;
            };
            self.report(
                error(
                    code::DUPLICATE_ATTRIBUTE,
                    Kind::Name,
                    call.span,
                    format!(
                        "'{}' adds an attribute '{}'",
                        spec.full_name(),
                        attribute.name
                    ),
                    format!(
                        "'{}' has an attribute '{}' already",
                        taken.shape.name, attribute.name
                    ),
                )
                .help("rename the attribute of the stream in an earlier query"),
            );
            return None;
        }
        Some(plan::StreamFunctionCall {
            name: spec.full_name(),
            args,
            adds,
            span: call.span,
        })
    }

    fn unknown_stream_function(&mut self, call: &ast::Call, namespace: &str) {
        let kinds = [FunctionKind::StreamProcessor];
        self.unknown_component(
            call,
            "stream function",
            &kinds,
            code::UNKNOWN_STREAM_FUNCTION,
        );
        let catalog = self.catalog;
        let name = &call.name.text;
        let is_window = catalog
            .function(FunctionKind::Window, namespace, name)
            .is_some();
        let is_scalar = catalog
            .function(FunctionKind::Scalar, namespace, name)
            .is_some();
        let Some(last) = self.diagnostics.last_mut() else {
            return;
        };
        if is_window {
            // Several published examples leave `window.` out.
            let start = call
                .namespace
                .as_ref()
                .map_or(call.name.span, |n| n.span)
                .start;
            last.help = Some(format!("'{name}' is a window: write '#window.{name}(…)'"));
            last.fix = Some(crate::diagnostic::Fix {
                span: crate::span::Span::new(start, start),
                replacement: "window.".to_owned(),
            });
        } else if is_scalar {
            last.help = Some(format!(
                "'{name}' makes a value: use it in a filter or in the select clause"
            ));
            last.fix = None;
        }
    }
}
