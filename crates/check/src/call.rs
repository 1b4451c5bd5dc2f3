//! Calls of functions and aggregators: which one is meant, and do the arguments fit?

use event::{Attribute, Type};

use crate::Checker;
use crate::codes::check as code;
use crate::expr::{a, event_reference};
use crate::overload::resolve_overload;
use crate::report::{error, list};
use crate::rulings::UNTIMED_LOOKUP;
use crate::scope::{Input, Scope};
use lang::ast::{self, Args, Literal};
use lang::diagnostic::Kind;
use lang::span::Span;
use lang::suggest::nearest;
use plan::spec::{Argument, FunctionKind, FunctionSpec, Returns};
use plan::{Constant, Expr, ExprKind, InputId};

/// The time of a row that bears none, as Siddhi has it.
const UNTIMED: i64 = -1;

/// A checked argument; the expression is `None` where its fault has been reported.
pub(super) struct Arg {
    pub expr: Option<Expr>,
    pub span: Span,
}

/// A call whose arguments fit.
pub(super) struct Fit {
    /// `None` for windows and stream functions.
    pub ty: Option<Type>,
    /// What a stream function adds.
    pub adds: Vec<Attribute>,
    pub args: Vec<Expr>,
}

impl Arg {
    fn argument(&self) -> Option<Argument> {
        let expr = self.expr.as_ref()?;
        let literal = self.constant().map(|c| match c {
            Constant::Int(v) => Literal::Int(*v),
            Constant::Long(v) => Literal::Long(*v),
            Constant::Float(v) => Literal::Float(*v),
            Constant::Double(v) => Literal::Double(*v),
            Constant::Bool(v) => Literal::Bool(*v),
            Constant::String(v) => Literal::String(v.clone()),
        });
        let attribute = matches!(expr.kind, ExprKind::Attribute { .. });
        Some(Argument {
            ty: expr.ty,
            literal,
            attribute,
        })
    }

    pub fn constant(&self) -> Option<&Constant> {
        match &self.expr.as_ref()?.kind {
            ExprKind::Constant(constant) => Some(constant),
            _ => None,
        }
    }
}

impl Checker<'_> {
    /// Order of the search as in `ExpressionParser`: script, function, aggregator.
    pub(super) fn call(&mut self, call: &ast::Call, scope: &Scope) -> Option<Expr> {
        let namespace = call.namespace.as_ref().map_or("", |n| n.text.as_str());
        let name = call.name.text.as_str();
        if namespace.is_empty()
            && let Some(&(function, _)) = self.scripts.get(name)
        {
            let args = self.args(call, scope);
            let args = args
                .into_iter()
                .map(|a| a.expr)
                .collect::<Option<Vec<Expr>>>()?;
            let ty = self.plan.functions[function].returns;
            return Some(Expr {
                ty,
                kind: ExprKind::Script { function, args },
                span: call.span,
            });
        }
        if namespace.is_empty() && name == "eventTimestamp" {
            return self.event_timestamp(call, scope);
        }
        let catalog = self.catalog;
        if let Some(spec) = catalog.function(FunctionKind::Scalar, namespace, name) {
            self.note_component(spec, call.span);
            if spec.effect && !scope.takes_probes {
                self.nothing_from_outside(&format!("'{}'", spec.full_name()), scope, call.span);
            }
            let args = self.args(call, scope);
            let Fit { ty, args, .. } = self.fit(spec, call, args)?;
            let kind = ExprKind::Call {
                name: spec.full_name(),
                args,
                event: None,
                is_effect: spec.effect,
            };
            return Some(Expr {
                ty: ty?,
                kind,
                span: call.span,
            });
        }
        if let Some(spec) = catalog.function(FunctionKind::Aggregator, namespace, name) {
            return self.aggregator(spec, call, scope);
        }
        // The arguments may hold faults of their own.
        self.args(call, scope);
        self.unknown_function(call);
        None
    }

    fn aggregator(
        &mut self,
        spec: &'static FunctionSpec,
        call: &ast::Call,
        scope: &Scope,
    ) -> Option<Expr> {
        self.note_component(spec, call.span);
        if !scope.takes_aggregators {
            self.report(
                error(
                    code::AGGREGATOR_HERE,
                    Kind::Type,
                    call.span,
                    format!(
                        "aggregator '{}' is not allowed in {}",
                        spec.full_name(),
                        scope.place
                    ),
                    "there is nothing to aggregate over",
                )
                .help("select it in a query, and use its result in the next one"),
            );
            self.args(call, scope);
            return None;
        }
        // Ruling 1: `count(*)` counts events, whatever attributes they have.
        let is_count_all =
            spec.namespace.is_empty() && spec.name == "count" && matches!(call.args, Args::All(_));
        let args = if is_count_all {
            Vec::new()
        } else {
            self.args(call, scope)
        };
        self.saw_aggregator = true;
        let Fit { ty, args, .. } = self.fit(spec, call, args)?;
        let kind = ExprKind::Aggregate {
            name: spec.full_name(),
            args,
        };
        Some(Expr {
            ty: ty?,
            kind,
            span: call.span,
        })
    }

    /// `eventTimestamp()` is that of the row itself, `eventTimestamp(e)` that of an input's event.
    fn event_timestamp(&mut self, call: &ast::Call, scope: &Scope) -> Option<Expr> {
        let event = match &call.args {
            Args::List(list) => match list.as_slice() {
                [] => {
                    if scope.finds_rows {
                        self.ruled(&UNTIMED_LOOKUP, call.span);
                    }
                    None
                }
                [arg] => {
                    let ast::ExprKind::Attribute(r) = &arg.kind else {
                        self.event_timestamp_needs_event(arg.span);
                        return None;
                    };
                    let Some(input) = event_reference(r, scope).or_else(|| own_event(r, scope))
                    else {
                        self.event_timestamp_needs_event(arg.span);
                        return None;
                    };
                    if scope.finds_rows || scope.inputs[input].is_untimed {
                        self.no_time_of(&scope.inputs[input], scope, arg.span);
                        return None;
                    }
                    let index = r.stream.as_ref().and_then(|s| s.index);
                    Some((input as InputId, index))
                }
                [_, second, ..] => {
                    self.event_timestamp_needs_event(second.span);
                    return None;
                }
            },
            Args::All(span) => {
                self.event_timestamp_needs_event(*span);
                return None;
            }
        };
        let kind = match scope.finds_rows && self.plan.options.compat {
            true => ExprKind::Constant(Constant::Long(UNTIMED)),
            false => ExprKind::Call {
                name: "eventTimestamp".to_owned(),
                args: Vec::new(),
                event,
                is_effect: false,
            },
        };
        Some(Expr {
            ty: Type::Long,
            kind,
            span: call.span,
        })
    }

    fn no_time_of(&mut self, input: &Input, scope: &Scope, span: Span) {
        let message = match input.is_untimed {
            true => format!("rows of '{}' have no timestamps", input.name),
            false => format!(
                "{} cannot ask for the timestamp of one of its events",
                scope.place
            ),
        };
        self.report(
            error(
                code::WRONG_ARGUMENTS,
                Kind::Type,
                span,
                message,
                "no timestamp here",
            )
            .help("select 'eventTimestamp() as at' in a query before, and use that attribute"),
        );
    }

    fn event_timestamp_needs_event(&mut self, span: Span) {
        self.report(
            error(
                code::WRONG_ARGUMENTS,
                Kind::Type,
                span,
                "'eventTimestamp' takes nothing, or the name of one input of the query",
                "not an event of this query",
            )
            .help(
                "write eventTimestamp(), or eventTimestamp(e) for an event 'e' of a pattern or \
             join",
            ),
        );
    }

    /// Checks the arguments; `*` stands for all input attributes.
    pub(super) fn args(&mut self, call: &ast::Call, scope: &Scope) -> Vec<Arg> {
        match &call.args {
            Args::List(list) => list
                .iter()
                .map(|e| Arg {
                    expr: self.expr(e, scope),
                    span: e.span,
                })
                .collect(),
            Args::All(span) => scope
                .all()
                .flat_map(|(input, i)| {
                    i.shape
                        .fields
                        .iter()
                        .enumerate()
                        .map(move |(attribute, f)| Arg {
                            expr: f.ty.map(|ty| Expr {
                                ty,
                                kind: ExprKind::Attribute {
                                    input: input as InputId,
                                    index: None,
                                    attribute,
                                },
                                span: *span,
                            }),
                            span: *span,
                        })
                })
                .collect(),
        }
    }

    /// The type of the result, where the function has one, and the arguments. `None`: they do not
    /// fit, or one of them is faulty.
    pub(super) fn fit(
        &mut self,
        spec: &'static FunctionSpec,
        call: &ast::Call,
        args: Vec<Arg>,
    ) -> Option<Fit> {
        let arguments = args
            .iter()
            .map(Arg::argument)
            .collect::<Option<Vec<Argument>>>()?;
        match resolve_overload(spec, &arguments) {
            Ok(resolved) => Some(Fit {
                ty: resolved.ty,
                adds: resolved.adds,
                args: args
                    .into_iter()
                    .map(|a| a.expr)
                    .collect::<Option<Vec<Expr>>>()?,
            }),
            Err(mismatch) => {
                let span = match mismatch.argument {
                    Some(i) => args.get(i).map_or(call.span, |a| a.span),
                    None => call.span,
                };
                let label = match mismatch.argument {
                    Some(i) => match arguments.get(i) {
                        Some(argument) => format!("{} here", a(argument.ty)),
                        None => "not these arguments".to_owned(),
                    },
                    None => {
                        let types: Vec<&str> = arguments.iter().map(|a| a.ty.name()).collect();
                        format!("called with ({})", types.join(", "))
                    }
                };
                let d = error(
                    code::WRONG_ARGUMENTS,
                    Kind::Type,
                    span,
                    mismatch.message,
                    label,
                )
                .help(mismatch.help);
                let near = mismatch
                    .argument
                    .and_then(|i| nearest_type(spec, i, args.get(i)?));
                self.report(match near {
                    Some(ty) => d
                        .help(format!("did you mean '{ty}'?"))
                        .fix(span, format!("'{ty}'")),
                    None => d,
                });
                None
            }
        }
    }

    fn unknown_function(&mut self, call: &ast::Call) {
        if self.is_full() {
            return;
        }
        let catalog = self.catalog;
        let namespace = call.namespace.as_ref().map_or("", |n| n.text.as_str());
        let name = call.name.text.as_str();
        let kinds = [FunctionKind::Scalar, FunctionKind::Aggregator];
        self.unknown_component(call, "function", &kinds, code::UNKNOWN_FUNCTION);
        // A stream function or a window in the place of a value is the likeliest mix-up.
        let misplaced = [FunctionKind::StreamProcessor, FunctionKind::Window]
            .into_iter()
            .find(|k| catalog.function(*k, namespace, name).is_some());
        if let (Some(kind), Some(last)) = (misplaced, self.diagnostics.last_mut()) {
            let (what, form) = match kind {
                FunctionKind::Window => ("a window", "#window.name(…)"),
                _ => ("a stream function", "#name(…)"),
            };
            last.help = Some(format!(
                "'{name}' is {what}: write it after the stream, as {form}"
            ));
            last.fix = None;
        }
    }

    /// A name that no component of the wanted kind has: a slip of the pen where one is near, and
    /// something this server does not have where none is.
    pub(super) fn unknown_component(
        &mut self,
        call: &ast::Call,
        what: &str,
        kinds: &[FunctionKind],
        unknown: &'static str,
    ) {
        let namespace = call.namespace.as_ref().map_or("", |n| n.text.as_str());
        let name = call.name.text.as_str();
        let written = match namespace {
            "" => name.to_owned(),
            _ => format!("{namespace}:{name}"),
        };
        let catalog = self.catalog;
        let wanted: Vec<&FunctionSpec> = kinds.iter().flat_map(|k| catalog.functions(*k)).collect();
        let in_namespace: Vec<&str> = wanted
            .iter()
            .filter(|f| f.namespace == namespace)
            .map(|f| f.name)
            .collect();
        let namespaces: Vec<&str> = wanted.iter().map(|f| f.namespace).collect();
        let named_span = call
            .namespace
            .as_ref()
            .map_or(call.name.span, |n| n.span.to(call.name.span));
        let near = nearest(name, in_namespace.iter().copied());
        let elsewhere = wanted
            .iter()
            .find(|f| f.name == name && f.namespace != namespace);
        let near_namespace = nearest(namespace, namespaces.iter().copied()).filter(|ns| {
            !namespace.is_empty() && wanted.iter().any(|f| f.namespace == *ns && f.name == name)
        });
        let is_known_namespace = !in_namespace.is_empty();
        let message = format!("there is no {what} '{written}'");
        let d = if let Some(ns) = near_namespace {
            let meant = format!("{ns}:{name}");
            error(
                unknown,
                Kind::Name,
                named_span,
                message,
                "no such namespace",
            )
            .did_you_mean(named_span, Some(&meant))
        } else if let Some(near) = near.filter(|_| is_known_namespace) {
            let full = match namespace {
                "" => near.to_owned(),
                _ => format!("{namespace}:{near}"),
            };
            error(
                unknown,
                Kind::Name,
                named_span,
                message,
                format!("no such {what}"),
            )
            .did_you_mean(named_span, Some(&full))
        } else if let Some(other) = elsewhere {
            let meant = other.full_name();
            error(
                unknown,
                Kind::Name,
                named_span,
                message,
                format!("no such {what}"),
            )
            .did_you_mean(named_span, Some(&meant))
        } else if namespace.is_empty() {
            error(
                unknown,
                Kind::Name,
                named_span,
                message,
                format!("no such {what}"),
            )
        } else {
            let d = error(
                code::UNSUPPORTED_COMPONENT,
                Kind::Unsupported,
                named_span,
                format!("{what} '{written}' is not supported"),
                if is_known_namespace {
                    "not in this namespace"
                } else {
                    "no such namespace"
                },
            );
            match is_known_namespace {
                true => d.help(format!("'{namespace}' has {}", list(in_namespace, 40))),
                false => match nearest(name, wanted.iter().map(|f| f.name)) {
                    Some(near) => {
                        let full = wanted
                            .iter()
                            .find(|f| f.name == near)
                            .map(|f| f.full_name());
                        d.help(format!(
                            "the nearest there is: '{}'",
                            full.unwrap_or_default()
                        ))
                    }
                    None => d.help("`headwater connectors` lists all components"),
                },
            }
        };
        self.report(d);
    }
}

/// The type that a misspelt text nearly names (`convert(x, 'strng')`).
fn nearest_type(spec: &FunctionSpec, index: usize, arg: &Arg) -> Option<&'static str> {
    let Some(Constant::String(text)) = arg.constant() else {
        return None;
    };
    let names = Type::ALL
        .into_iter()
        .filter(|t| *t != Type::Object)
        .map(Type::name);
    match spec.returns {
        Returns::Named(i) if i == index => nearest(text, names),
        _ => None,
    }
}

/// A single-stream query may name its own stream as the event.
fn own_event(r: &ast::AttributeRef, scope: &Scope) -> Option<usize> {
    if r.stream.is_some() || scope.is_output_only {
        return None;
    }
    scope
        .inputs
        .iter()
        .position(|i| !i.name.is_empty() && i.name == r.name.text)
}
