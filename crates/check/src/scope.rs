//! Which attributes an expression sees, and by which names (`ExpressionParser.parseVariable`).

use event::Type;

use crate::Checker;
use crate::codes::check as code;
use crate::names::Shape;
use crate::report::error;
use crate::report::list;
use lang::ast::{self, Index, StreamKind};
use lang::diagnostic::Kind;
use lang::span::Span;
use lang::suggest::nearest;
use plan::{Expr, ExprKind, InputId, OUTPUT};

/// One row that an expression sees.
#[derive(Clone, Debug)]
pub(super) struct Input {
    /// What qualifies its attributes: its alias or reference, else its own name. Empty: nothing.
    pub name: String,
    pub kind: StreamKind,
    pub shape: Shape,
    /// A pattern element that collects several events.
    pub is_counted: bool,
    /// Rows of a table or an aggregation: the events that made them are not kept.
    pub is_untimed: bool,
}

impl Input {
    pub fn new(name: &str, kind: StreamKind, shape: Shape) -> Input {
        Input {
            name: name.to_owned(),
            kind,
            shape,
            is_counted: false,
            is_untimed: false,
        }
    }

    fn answers_to(&self, name: &ast::StreamName) -> bool {
        !self.name.is_empty() && self.name == name.name.text && self.kind == name.kind
    }

    /// As the person would write it before a dot.
    fn written(&self) -> String {
        match self.kind {
            StreamKind::Plain => self.name.clone(),
            StreamKind::Inner => format!("#{}", self.name),
            StreamKind::Fault => format!("!{}", self.name),
        }
    }
}

/// Where an expression stands.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    /// Numbered by position.
    pub inputs: Vec<Input>,
    /// The inputs in the order in which `*` names them, where that is not the order of the text. It
    /// may number more than there are: those do not count.
    pub order: Option<Vec<usize>>,
    /// Unqualified names mean this input alone: a pattern element's own event, the row that a
    /// table's condition is matched with.
    pub own: Option<usize>,
    /// The selected row, in `having` and `order by`.
    pub output: Option<Shape>,
    /// `having` of a query over one stream sees nothing but the selected row.
    pub is_output_only: bool,
    /// An on-demand query's `having` and `order by` see the last row behind the selected one as well.
    pub is_on_demand: bool,
    /// Names of events that a pattern matches further on.
    pub later: Vec<String>,
    /// Aggregators keep a state here.
    pub takes_aggregators: bool,
    /// `in` can be asked here.
    pub takes_probes: bool,
    /// Rows are looked up by it, or changed: it is asked for a row of the query and one that is held.
    pub finds_rows: bool,
    /// The filter of a pattern element, where an event of a counted element is its latest.
    pub is_pattern_filter: bool,
    /// `the filter`, `the select clause`.
    pub place: &'static str,
}

impl Scope {
    pub fn one(input: Input, place: &'static str) -> Scope {
        Scope::many(vec![input], place)
    }

    pub fn many(inputs: Vec<Input>, place: &'static str) -> Scope {
        Scope {
            inputs,
            order: None,
            own: None,
            output: None,
            is_output_only: false,
            is_on_demand: false,
            later: Vec::new(),
            takes_aggregators: true,
            takes_probes: true,
            finds_rows: false,
            is_pattern_filter: false,
            place,
        }
    }

    /// Only constants.
    pub fn nothing(place: &'static str) -> Scope {
        Scope::many(Vec::new(), place)
    }

    pub fn at(&self, place: &'static str) -> Scope {
        Scope {
            place,
            ..self.clone()
        }
    }

    /// The inputs as `*` names them, with their numbers.
    pub fn all(&self) -> impl Iterator<Item = (usize, &Input)> {
        let order = match &self.order {
            Some(order) => order.clone(),
            None => (0..self.inputs.len()).collect(),
        };
        order
            .into_iter()
            .filter_map(|i| Some((i, self.inputs.get(i)?)))
    }

    pub fn is_single(&self) -> bool {
        self.inputs.len() == 1 && self.own.is_none()
    }

    /// Some of what could be named is hidden by a fault.
    fn is_open(&self) -> bool {
        self.output.as_ref().is_some_and(|o| o.is_open)
            || (!self.is_output_only
                && match self.own {
                    Some(own) => self.inputs[own].shape.is_open,
                    None => self.inputs.iter().any(|i| i.shape.is_open),
                })
    }

    /// All that is open is so for a syntax fault in a definition.
    fn is_partial(&self) -> bool {
        let shapes = self.inputs.iter().map(|i| &i.shape).chain(&self.output);
        shapes.filter(|s| s.is_open).all(|s| s.is_partial)
    }

    fn visible_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.output.iter().flat_map(|o| o.names()).collect();
        if !self.is_output_only {
            match self.own {
                Some(own) => names.extend(self.inputs[own].shape.names()),
                None => names.extend(self.inputs.iter().flat_map(|i| i.shape.names())),
            }
        }
        names
    }

    /// Which input a name before a dot, or alone, means: of several the first that `*` names.
    pub fn input_named(&self, name: &ast::StreamName) -> Option<usize> {
        let mut all = self.all();
        all.find(|(_, input)| input.answers_to(name))
            .map(|(i, _)| i)
    }

    fn attribute_expr(
        &self,
        input: usize,
        attribute: usize,
        index: Option<Index>,
        is_qualified: bool,
        span: Span,
    ) -> Option<Expr> {
        let shape = &self.inputs[input];
        let ty = shape.shape.fields[attribute].ty?;
        let (index, ty) = if index.is_some() || !shape.is_counted {
            (index, ty)
        } else if self.is_pattern_filter {
            // The event being tested, or the latest of an earlier element.
            (
                if self.own == Some(input) {
                    None
                } else {
                    Some(Index::Last(0))
                },
                ty,
            )
        } else if is_qualified {
            // All collected values, as a list.
            (None, Type::Object)
        } else {
            (Some(Index::At(0)), ty)
        };
        let kind = ExprKind::Attribute {
            input: input as InputId,
            index,
            attribute,
        };
        Some(Expr { ty, kind, span })
    }
}

impl Checker<'_> {
    /// An attribute by name; `None` where it cannot be told, which has then been reported.
    pub(super) fn attribute(&mut self, r: &ast::AttributeRef, scope: &Scope) -> Option<Expr> {
        match &r.stream {
            Some(stream) => self.qualified_attribute(r, stream, scope),
            None => self.bare_attribute(r, scope),
        }
    }

    fn bare_attribute(&mut self, r: &ast::AttributeRef, scope: &Scope) -> Option<Expr> {
        let name = &r.name.text;
        if let Some(output) = &scope.output
            && let Some(attribute) = output.index_of(name)
        {
            let ty = output.fields[attribute].ty?;
            let kind = ExprKind::Attribute {
                input: OUTPUT,
                index: None,
                attribute,
            };
            return Some(Expr {
                ty,
                kind,
                span: r.span,
            });
        }
        if scope.is_output_only {
            self.unknown_attribute(r, scope);
            return None;
        }
        let candidates: Vec<(usize, usize)> = match scope.own {
            Some(own) => scope.inputs[own]
                .shape
                .index_of(name)
                .map(|a| (own, a))
                .into_iter()
                .collect(),
            None => scope
                .inputs
                .iter()
                .enumerate()
                .filter_map(|(i, input)| Some((i, input.shape.index_of(name)?)))
                .collect(),
        };
        match candidates.as_slice() {
            [] => {
                self.unknown_attribute(r, scope);
                None
            }
            [(input, attribute)] => scope.attribute_expr(*input, *attribute, None, false, r.span),
            several => {
                self.ambiguous(r, scope, several);
                None
            }
        }
    }

    fn qualified_attribute(
        &mut self,
        r: &ast::AttributeRef,
        stream: &ast::StreamRef,
        scope: &Scope,
    ) -> Option<Expr> {
        if scope.is_output_only {
            // The selected row carries the name of the target, never that of the source.
            if let Some(output) = &scope.output
                && output.name == stream.stream.name.text
            {
                return self.bare_attribute(r, scope);
            }
            self.unknown_attribute(r, scope);
            return None;
        }
        let Some(input) = scope.input_named(&stream.stream) else {
            self.unknown_prefix(r, stream, scope);
            return None;
        };
        match scope.inputs[input].shape.index_of(&r.name.text) {
            Some(attribute) => scope.attribute_expr(input, attribute, stream.index, true, r.span),
            None => {
                let found = &scope.inputs[input];
                let near = nearest(&r.name.text, found.shape.names());
                if !found.shape.is_open || (found.shape.is_partial && near.is_some()) {
                    let d = error(
                        code::UNKNOWN_ATTRIBUTE,
                        Kind::Name,
                        r.name.span,
                        format!("'{}' has no attribute '{}'", found.written(), r.name.text),
                        "no such attribute",
                    )
                    .did_you_mean(r.name.span, near);
                    let d = match near {
                        None => d.help(has(&found.written(), &found.shape)),
                        Some(_) => d,
                    };
                    self.report(d);
                }
                None
            }
        }
    }

    fn unknown_attribute(&mut self, r: &ast::AttributeRef, scope: &Scope) {
        if self.is_full() {
            return;
        }
        let name = &r.name.text;
        // What is hidden may be meant, but not where something known is so near.
        let is_likely = scope.is_partial() && nearest(name, scope.visible_names()).is_some();
        if scope.is_open() && !is_likely {
            return;
        }
        let is_input = scope
            .inputs
            .iter()
            .any(|i| i.shape.index_of(name).is_some());
        if scope.is_output_only && is_input {
            let d = error(
                code::NOT_SELECTED,
                Kind::Name,
                r.span,
                format!("'{name}' is not among the selected attributes"),
                format!("{} sees only what is selected", scope.place),
            )
            .help(format!(
                "add '{name}' to the select clause, or move the condition into a filter"
            ));
            return self.report(d);
        }
        let elsewhere = scope
            .inputs
            .iter()
            .find(|i| i.shape.index_of(name).is_some());
        let message = match scope.inputs.as_slice() {
            [one] if !scope.is_output_only && !one.name.is_empty() => {
                format!("'{}' has no attribute '{name}'", one.written())
            }
            _ => format!("there is no attribute '{name}' in {}", scope.place),
        };
        let mut d = error(
            code::UNKNOWN_ATTRIBUTE,
            Kind::Name,
            r.span,
            message,
            "no such attribute",
        );
        if let Some(input) = elsewhere {
            let qualified = format!("{}.{name}", input.written());
            d = d
                .help(format!(
                    "the attribute of '{}' is written '{qualified}'",
                    input.written()
                ))
                .fix(r.span, qualified);
        } else if let Some(near) = nearest(name, scope.visible_names()) {
            d = d.did_you_mean(r.name.span, Some(near));
        } else if let Some(output) = &scope.output
            && scope.is_output_only
        {
            d = d.help(has("the select clause", output));
        } else if let [one] = scope.inputs.as_slice() {
            d = d.help(has(&one.written(), &one.shape));
        }
        self.report(d);
    }

    fn unknown_prefix(&mut self, r: &ast::AttributeRef, stream: &ast::StreamRef, scope: &Scope) {
        let written = &stream.stream.name.text;
        if scope.later.contains(written) {
            return self.report(
                error(
                    code::LATER_EVENT,
                    Kind::Name,
                    stream.span,
                    format!("event '{written}' comes later in the pattern"),
                    "not matched yet when this filter runs",
                )
                .help(format!("move the condition to the filter of '{written}'")),
            );
        }
        let known: Vec<String> = scope
            .inputs
            .iter()
            .filter(|i| !i.name.is_empty())
            .map(Input::written)
            .collect();
        let mut d = error(
            code::UNKNOWN_PREFIX,
            Kind::Name,
            stream.span,
            format!("'{written}' is not an input of this query"),
            format!("'{}' cannot be taken from it here", r.name.text),
        );
        let renamed = scope
            .inputs
            .iter()
            .find(|i| i.shape.name == *written && i.name != *written && !i.name.is_empty());
        let owner = scope
            .inputs
            .iter()
            .find(|i| i.name.is_empty() && i.shape.index_of(&r.name.text).is_some());
        if let Some(input) = renamed {
            d = d
                .help(format!("here it goes by the name '{}'", input.written()))
                .fix(stream.span, input.written());
        } else if let Some(near) = nearest(written, known.iter().map(String::as_str)) {
            d = d.did_you_mean(stream.span, Some(near));
        } else if owner.is_some() {
            d = d
                .help(format!(
                    "write '{}': it means the selected attribute",
                    r.name.text
                ))
                .fix(r.span, r.name.text.clone());
        } else if !known.is_empty() {
            d = d.help(format!(
                "inputs here: {}",
                list(known.iter().map(String::as_str), 6)
            ));
        }
        self.report(d);
    }

    fn ambiguous(&mut self, r: &ast::AttributeRef, scope: &Scope, several: &[(usize, usize)]) {
        let owners: Vec<String> = several
            .iter()
            .map(|(i, _)| scope.inputs[*i].written())
            .collect();
        let mut d = error(
            code::AMBIGUOUS_ATTRIBUTE,
            Kind::Name,
            r.span,
            format!("'{}' is an attribute of several inputs", r.name.text),
            format!(
                "is it that of {}?",
                owners
                    .iter()
                    .map(|o| format!("'{o}'"))
                    .collect::<Vec<_>>()
                    .join(" or ")
            ),
        )
        .help(format!(
            "put the input before it: '{}.{}'",
            owners[0], r.name.text
        ));
        for (i, a) in several {
            let span = scope.inputs[*i].shape.fields[*a].span;
            if span != Span::default() {
                d = d.related(span, format!("'{}' has it", scope.inputs[*i].written()));
            }
        }
        self.report(d);
    }
}

fn has(owner: &str, shape: &Shape) -> String {
    if shape.fields.is_empty() {
        format!("'{owner}' has no attributes")
    } else {
        format!("'{owner}' has {}", list(shape.names(), 12))
    }
}
