//! Windows and stream functions behind a stream.

use crate::Catalog;
use crate::call::{Arg, Fit};
use crate::codes::check as code;
use crate::names::Shape;
use crate::report::error;
use crate::scope::{Input, Scope};
use crate::secret;
use crate::{CheckConfig, Checker};
use lang::ast::{self, StreamKind};
use lang::diagnostic::{Diagnostic, Kind, Severity};
use lang::parser::parse_expression;
use lang::span::Span;
use plan::spec::{FunctionKind, FunctionSpec};
use plan::{Constant, ExprKind};

impl Checker<'_> {
    pub(super) fn window_call(
        &mut self,
        call: &ast::Call,
        scope: &Scope,
    ) -> Option<plan::WindowCall> {
        let scope = Scope {
            takes_aggregators: false,
            takes_probes: false,
            place: "an argument of a window",
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
        let is_fine = match (spec.namespace, spec.name) {
            ("", "sort") => self.sort_orders(&args),
            ("", "session") => self.session_latency(&args),
            ("", "externalTimeBatch") => self.batch_start(&args),
            ("", "expression" | "expressionBatch") => self.window_expression(spec, &args, &scope),
            _ => true,
        };
        if !is_fine {
            return None;
        }
        let Fit { args, .. } = self.fit(spec, call, args)?;
        Some(plan::WindowCall {
            name: spec.full_name(),
            args,
            span: call.span,
        })
    }

    /// `sort(n, attribute, 'asc', attribute, …)`: what is not an attribute must be an order
    /// (`SortWindowProcessor`).
    fn sort_orders(&mut self, args: &[Arg]) -> bool {
        for arg in args.iter().skip(1) {
            let text = match arg.constant() {
                Some(Constant::String(text)) => text,
                Some(_) => {
                    let message = "window 'sort' sorts by attributes";
                    let d = error(
                        code::WRONG_ARGUMENTS,
                        Kind::Type,
                        arg.span,
                        message,
                        "a constant",
                    );
                    self.report(d.help("name an attribute, with 'asc' or 'desc' after it"));
                    return false;
                }
                None => continue,
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
                .help("write 'asc' or 'desc' after an attribute"),
            );
            return false;
        }
        true
    }

    /// A session cannot stay open for late events longer than its gap (`SessionWindowProcessor`).
    fn session_latency(&mut self, args: &[Arg]) -> bool {
        let [first, .., last] = args else { return true };
        let (Some(gap), Some(latency)) = (millis(first), millis(last)) else {
            return true;
        };
        if latency <= gap {
            return true;
        }
        self.report(
            error(
                code::WRONG_ARGUMENTS,
                Kind::Type,
                last.span,
                format!(
                    "window 'session' cannot wait {latency} ms for late events with a gap of \
                 {gap} ms"
                ),
                "longer than the gap",
            )
            .related(first.span, "the gap")
            .help("the allowed latency is at most the gap"),
        );
        false
    }

    /// `externalTimeBatch(ts, T, start …)`: the start is a literal or an attribute.
    fn batch_start(&mut self, args: &[Arg]) -> bool {
        let Some(Arg {
            expr: Some(start),
            span,
        }) = args.get(2)
        else {
            return true;
        };
        if matches!(
            start.kind,
            ExprKind::Constant(_) | ExprKind::Attribute { .. }
        ) {
            return true;
        }
        self.report(
            error(
                code::WRONG_ARGUMENTS,
                Kind::Type,
                *span,
                "the start of window 'externalTimeBatch' is a constant or an attribute",
                "has to be computed",
            )
            .help("write a number of milliseconds, or the name of a long attribute"),
        );
        false
    }

    /// The text of an `expression` window is itself a condition, over the newest event and over
    /// `first` and `last` (`ExpressionWindowProcessor`).
    fn window_expression(&mut self, spec: &FunctionSpec, args: &[Arg], scope: &Scope) -> bool {
        let Some(arg) = args.first() else { return true };
        let Some(Constant::String(text)) = arg.constant() else {
            return true;
        };
        let whose = format!("window '{}'", spec.name);
        let not_run = self.plan.not_runnable.len();
        let found = self.content_condition(text, &scope.inputs[0], &whose);
        self.plan.not_runnable.truncate(not_run);
        let Err(found) = found else { return true };
        for fault in found {
            // Its places lie in the text of the argument.
            self.report(
                error(fault.code, fault.kind, arg.span, fault.message, fault.label).help(
                    fault
                        .help
                        .unwrap_or_else(|| "the text is a condition".to_owned()),
                ),
            );
        }
        false
    }

    /// A condition over the content of a window of such rows, or its faults.
    fn content_condition(
        &mut self,
        text: &str,
        row: &Input,
        whose: &str,
    ) -> Result<plan::Expr, Vec<Diagnostic>> {
        let (expr, faults) = parse_expression(text);
        let Some(expr) = expr.filter(|_| faults.is_empty()) else {
            return Err(faults);
        };
        let event = |name: &str| Input::new(name, StreamKind::Plain, row.shape.clone());
        let inner = Scope {
            own: Some(0),
            ..Scope::many(
                vec![row.clone(), event("first"), event("last")],
                "the expression",
            )
        };
        let before = self.diagnostics.len();
        let counts = (self.errors, self.warnings);
        let checked = self.condition(&expr, &inner, whose);
        let mut found = self.diagnostics.split_off(before);
        (self.errors, self.warnings) = counts;
        found.retain(|d| d.severity == Severity::Error);
        match checked.filter(|_| found.is_empty()) {
            Some(condition) => Ok(condition),
            None => Err(found),
        }
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
        if (spec.namespace, spec.name) == ("str", "tokenize") && !self.is_regex(args.get(1)) {
            return None;
        }
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
            is_effect: spec.effect,
            secrets: secret::arguments_of(spec),
            span: call.span,
        })
    }

    /// A constant regular expression is compiled when the app is made.
    fn is_regex(&mut self, arg: Option<&Arg>) -> bool {
        let Some(arg) = arg else { return true };
        let Some(Constant::String(text)) = arg.constant() else {
            return true;
        };
        let Some(fault) = regex_fault(text) else {
            return true;
        };
        self.report(
            error(
                code::BAD_REGEX,
                Kind::Type,
                arg.span,
                format!("'{text}' is not a regular expression"),
                fault,
            )
            .help("put a \\ before a character that is meant as it is"),
        );
        false
    }

    fn unknown_stream_function(&mut self, call: &ast::Call, namespace: &str) {
        if self.is_full() {
            return;
        }
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
            last.fix = Some(lang::diagnostic::Fix {
                span: lang::span::Span::new(start, start),
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

/// The condition over its content that an `expression` window is given as a text: the event that is
/// looked at is input 0, the oldest in the window 1, the newest 2. The error says what is wrong.
pub fn content_condition(
    catalog: &Catalog,
    row: &event::Schema,
    text: &str,
) -> Result<plan::Expr, String> {
    let config = CheckConfig::default();
    let mut checker = Checker::new(catalog, &config);
    let mut shape = Shape::new(&row.name);
    for attribute in &row.attributes {
        shape.push(&attribute.name, Some(attribute.ty), Span::default());
    }
    let row = Input::new(&row.name, StreamKind::Plain, shape);
    checker
        .content_condition(text, &row, "the window")
        .map_err(|faults| match faults.first() {
            Some(fault) => fault.message.clone(),
            None => "it is not a condition".to_owned(),
        })
}

/// Milliseconds of a constant LONG.
fn millis(arg: &Arg) -> Option<i64> {
    match arg.constant()? {
        Constant::Long(millis) => Some(*millis),
        Constant::Int(millis) => Some(i64::from(*millis)),
        _ => None,
    }
}

/// Faults of a regular expression that need no compiler to be seen.
fn regex_fault(pattern: &str) -> Option<String> {
    let mut groups = 0usize;
    let mut is_class = false;
    let mut starts = true;
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        let was_start = std::mem::replace(&mut starts, false);
        match letter {
            '\\' if letters.next().is_none() => return Some("ends with a '\\'".to_owned()),
            '\\' => {}
            ']' if is_class => is_class = false,
            _ if is_class => {}
            '[' => is_class = true,
            '(' => {
                groups += 1;
                // `(?:`, `(?<name>` and their like.
                starts = !letters.as_str().starts_with('?');
            }
            ')' => match groups.checked_sub(1) {
                Some(left) => groups = left,
                None => return Some("')' without '('".to_owned()),
            },
            '|' => starts = true,
            '*' | '+' | '?' if was_start => return Some(format!("'{letter}' repeats nothing")),
            '^' => starts = true,
            _ => {}
        }
    }
    match (is_class, groups) {
        (true, _) => Some("'[' is not closed".to_owned()),
        (false, 0) => None,
        (false, _) => Some("'(' is not closed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_regular_expressions() {
        let check = |pattern: &str, expect: Option<&str>| {
            assert_eq!(regex_fault(pattern).as_deref(), expect, "{pattern}");
        };
        check(r"a*(b|c)+[*(]?", None);
        check(r"(?<year>\d+)-(?:x|y)", None);
        check(r"\*\(", None);
        check("a|*", Some("'*' repeats nothing"));
        check("(a", Some("'(' is not closed"));
        check("a)", Some("')' without '('"));
        check("[a", Some("'[' is not closed"));
        check("a\\", Some("ends with a '\\'"));
    }
}
