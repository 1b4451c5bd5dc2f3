//! Patterns and sequences (`StateInputStreamParser`).
//!
//! Streams are numbered in the order of the text. A filter sees its own event by bare names and the
//! events of earlier elements, and of the other side of its `and` or `or`, by their references.

use crate::Checker;
use crate::codes::check as code;
use crate::names::Shape;
use crate::query::{CheckedInput, Reads};
use crate::report::{error, warning};
use crate::scope::{Input, Scope};
use lang::ast::{self, PatternElement, PatternKind, StreamKind};
use lang::diagnostic::Kind;
use lang::span::Span;
use plan::From;

/// Elements deeper than this are refused by the parser already.
const DEPTH_MAX: usize = 256;

/// A longer pattern is refused: each filter sees all elements before it.
const ELEMENTS_MAX: usize = 1_000;

/// One stream of the chain, before its handlers are checked.
struct Element<'q> {
    reference: Option<&'q ast::Name>,
    input: &'q ast::SingleInput,
    is_counted: bool,
    /// The last element that its filters may refer to.
    sees_up_to: usize,
}

impl Checker<'_> {
    pub(super) fn pattern(&mut self, pattern: &ast::PatternInput) -> CheckedInput {
        let mut elements = Vec::new();
        collect(&pattern.root, &mut elements, 0);
        if elements.len() > ELEMENTS_MAX {
            self.report(
                error(
                    code::TOO_DEEP,
                    Kind::Type,
                    pattern.span,
                    format!(
                        "the pattern has {} elements, {ELEMENTS_MAX} is the most",
                        elements.len()
                    ),
                    "too long",
                )
                .help("split it into several queries"),
            );
            let row = Input::new("", StreamKind::Plain, Shape::open(""));
            return CheckedInput {
                plan: None,
                scope: Scope::many(vec![row], "the select clause"),
            };
        }
        let mut inputs = Vec::new();
        let mut froms = Vec::new();
        for element in &elements {
            let bare = ast::SingleInput {
                handlers: Vec::new(),
                ..element.input.clone()
            };
            let (single, mut row) = self.single(&bare, Reads::Pattern);
            froms.push(single.map(|s| s.from));
            if let Some(reference) = element.reference {
                row.name.clone_from(&reference.text);
                row.kind = StreamKind::Plain;
            }
            row.is_counted = element.is_counted;
            inputs.push(row);
        }
        let mut order = Vec::new();
        state_order(&pattern.root, &mut 0, &mut order, 0);
        self.distinct_references(&elements, &order);
        let mut is_faulty = froms.contains(&None);
        let mut references = Vec::new();
        for (i, element) in elements.iter().enumerate() {
            match self.element_handlers(&elements, i, &order, &mut inputs) {
                Some(handlers) => references.push(plan::PatternReference {
                    name: inputs[i].name.clone(),
                    from: froms[i].unwrap_or(From::Stream(0)),
                    handlers,
                    schema: inputs[i].shape.schema(),
                    is_counted: element.is_counted,
                }),
                None => is_faulty = true,
            }
        }
        let mut next = 0;
        let root = self.element(&pattern.root, &mut next, 0);
        if let Some(within) = &pattern.within
            && within.millis <= 0
        {
            self.report(error(
                code::BAD_VALUE,
                Kind::Option,
                within.span,
                "'within' needs a time above zero",
                "no time",
            ));
        }
        if let Some(span) = endless_quiet(&pattern.root, pattern.kind, 0) {
            self.report(
                error(
                    code::BAD_VALUE,
                    Kind::Option,
                    span,
                    "'for' needs a time above zero if 'every' begins again at once",
                    "no time",
                )
                .help("give a time, or put an event into what 'every' repeats"),
            );
        }
        let plan = root.filter(|_| !is_faulty).map(|root| {
            plan::Input::Pattern(Box::new(plan::Pattern {
                kind: pattern.kind,
                references,
                root,
                within: pattern.within.map(|w| w.millis),
            }))
        });
        let scope = Scope {
            order: Some(order),
            ..Scope::many(inputs, "the select clause")
        };
        CheckedInput { plan, scope }
    }

    /// Of elements with one name, the name means the one that comes first in `order`.
    fn distinct_references(&mut self, elements: &[Element], order: &[usize]) {
        for (i, element) in elements.iter().enumerate() {
            let Some(name) = element.reference else {
                continue;
            };
            let is_named_so =
                |i: &usize| elements[*i].reference.is_some_and(|n| n.text == name.text);
            let Some(first) = (0..i).find(is_named_so) else {
                continue;
            };
            let meant = match order.iter().find(|i| is_named_so(i)) {
                Some(meant) if *meant != first => "the right side: give the left",
                _ => "the first of them: give the other",
            };
            let mut warning = warning(
                code::REFERENCE_TAKEN,
                Kind::Name,
                name.span,
                format!("two events of the pattern are named '{}'", name.text),
                "this name is taken",
            )
            .help(format!("the name means {meant} one another"));
            if let Some(first) = elements[first].reference {
                warning = warning.related(first.span, "first used here");
            }
            self.report(warning);
        }
    }

    fn function_in_pattern(&mut self, call: &ast::Call) {
        self.report(
            error(
                code::FUNCTION_IN_PATTERN,
                Kind::Unsupported,
                call.span,
                format!("'#{}' is not allowed in a pattern", call.name.text),
                "an element takes filters only",
            )
            .help("put it into a query in front, and its output into the pattern"),
        );
    }

    fn element_handlers(
        &mut self,
        elements: &[Element],
        own: usize,
        order: &[usize],
        inputs: &mut [Input],
    ) -> Option<Vec<plan::Handler>> {
        let mut checked = Vec::new();
        let mut is_faulty = false;
        for handler in &elements[own].input.handlers {
            // Elements further on are not matched yet when this filter runs.
            let (visible, later) = inputs.split_at(elements[own].sees_up_to + 1);
            let mut scope = Scope {
                own: Some(own),
                is_pattern_filter: true,
                later: later.iter().map(|i| i.name.clone()).collect(),
                order: Some(order.to_vec()),
                ..Scope::many(visible.to_vec(), "the filter")
            };
            match handler {
                ast::Handler::Filter(condition) => {
                    match self.condition(condition, &scope, "a filter") {
                        Some(condition) => checked.push(plan::Handler::Filter(condition)),
                        None => is_faulty = true,
                    }
                }
                ast::Handler::Function(call) => {
                    self.function_in_pattern(call);
                    is_faulty = true;
                    scope.place = "the stream function";
                    match self.stream_function(call, &scope) {
                        Some(function) => {
                            for added in &function.adds {
                                inputs[own]
                                    .shape
                                    .push(&added.name, Some(added.ty), call.span);
                            }
                            checked.push(plan::Handler::Function(function));
                        }
                        None => {
                            inputs[own].shape.hide();
                            is_faulty = true;
                        }
                    }
                }
                ast::Handler::Window(call) => {
                    is_faulty = true;
                    self.report(
                        error(
                            code::WINDOW_HERE,
                            Kind::Type,
                            call.span,
                            "a stream of a pattern takes no window",
                            "a window is not allowed here",
                        )
                        .help(
                            "say how long a match may take with 'within', at the end of the \
                         pattern",
                        ),
                    );
                }
            }
        }
        (!is_faulty).then_some(checked)
    }

    fn element(
        &mut self,
        element: &PatternElement,
        next: &mut usize,
        depth: usize,
    ) -> Option<plan::PatternElement> {
        if depth > DEPTH_MAX {
            return None;
        }
        let mut take = || {
            *next += 1;
            *next - 1
        };
        Some(match element {
            PatternElement::Every(inner, _) => {
                plan::PatternElement::Every(Box::new(self.element(inner, next, depth + 1)?))
            }
            PatternElement::Chain(chain, _) => {
                // Every element must be walked, so that numbers stay right.
                let elements: Vec<_> = chain
                    .iter()
                    .map(|e| self.element(e, next, depth + 1))
                    .collect();
                plan::PatternElement::Chain(elements.into_iter().collect::<Option<_>>()?)
            }
            PatternElement::Stream(_) => plan::PatternElement::Stream(take()),
            PatternElement::Count { min, max, span, .. } => {
                let reference = take();
                if max.is_some_and(|max| max < *min || max == 0) {
                    self.report(
                        warning(
                            code::BAD_COUNT,
                            Kind::Type,
                            *span,
                            format!(
                                "a count from {min} to {} never matches",
                                max.unwrap_or_default()
                            ),
                            "the least is above the most",
                        )
                        .help("write the smaller number first, as in '<2:5>'"),
                    );
                }
                plan::PatternElement::Count {
                    reference,
                    min: *min,
                    max: *max,
                }
            }
            PatternElement::Logical {
                left, op, right, ..
            } => {
                let left = self.element(left, next, depth + 1);
                let right = self.element(right, next, depth + 1);
                plan::PatternElement::Logical {
                    left: Box::new(left?),
                    op: *op,
                    right: Box::new(right?),
                }
            }
            PatternElement::Absent { wait, .. } => plan::PatternElement::Absent {
                reference: take(),
                wait: wait.map(|w| w.millis),
            },
        })
    }
}

/// The streams of an element in the order in which Siddhi numbers its states, which is the one of
/// `select *`: of two sides of `and` or `or` the right one comes first (`StateInputStreamParser`).
fn state_order(element: &PatternElement, next: &mut usize, order: &mut Vec<usize>, depth: usize) {
    if depth > DEPTH_MAX {
        return;
    }
    match element {
        PatternElement::Every(inner, _) => state_order(inner, next, order, depth + 1),
        PatternElement::Chain(chain, _) => {
            chain
                .iter()
                .for_each(|e| state_order(e, next, order, depth + 1));
        }
        PatternElement::Stream(_)
        | PatternElement::Count { .. }
        | PatternElement::Absent { .. } => {
            order.push(*next);
            *next += 1;
        }
        PatternElement::Logical { left, right, .. } => {
            let (mut first, mut second) = (Vec::new(), Vec::new());
            state_order(left, next, &mut first, depth + 1);
            state_order(right, next, &mut second, depth + 1);
            // An absent side is the left one wherever it is written.
            let is_absent = |e: &PatternElement| matches!(e, PatternElement::Absent { .. });
            if is_absent(right) && !is_absent(left) {
                std::mem::swap(&mut first, &mut second);
            }
            order.extend(second);
            order.extend(first);
        }
    }
}

/// The time of an `every` whose rounds need neither an event nor time: Siddhi begins one after the
/// other and comes to no end.
fn endless_quiet(element: &PatternElement, kind: PatternKind, depth: usize) -> Option<Span> {
    if depth > DEPTH_MAX {
        return None;
    }
    match element {
        PatternElement::Every(inner, _) => {
            // The `every` in front of a sequence repeats its first element alone.
            let repeated = match &**inner {
                PatternElement::Chain(chain, _) if kind == PatternKind::Sequence => {
                    chain.first()?
                }
                inner => inner,
            };
            match is_at_once(repeated, depth) {
                true => no_time(repeated, depth),
                false => endless_quiet(inner, kind, depth + 1),
            }
        }
        PatternElement::Chain(chain, _) => {
            chain.iter().find_map(|e| endless_quiet(e, kind, depth + 1))
        }
        _ => None,
    }
}

/// May it be passed without an event, at no time?
fn is_at_once(element: &PatternElement, depth: usize) -> bool {
    if depth > DEPTH_MAX {
        return false;
    }
    match element {
        PatternElement::Every(inner, _) => is_at_once(inner, depth + 1),
        PatternElement::Chain(chain, _) => chain.iter().all(|e| is_at_once(e, depth + 1)),
        PatternElement::Stream(_) => false,
        PatternElement::Count { min, .. } => *min == 0,
        PatternElement::Absent { wait, .. } => wait.is_some_and(|w| w.millis <= 0),
        PatternElement::Logical {
            left, op, right, ..
        } => {
            let (left, right) = (is_at_once(left, depth + 1), is_at_once(right, depth + 1));
            match op {
                ast::LogicalOp::And => left && right,
                ast::LogicalOp::Or => left || right,
            }
        }
    }
}

/// The first `for` without a time.
fn no_time(element: &PatternElement, depth: usize) -> Option<Span> {
    if depth > DEPTH_MAX {
        return None;
    }
    match element {
        PatternElement::Every(inner, _) => no_time(inner, depth + 1),
        PatternElement::Chain(chain, _) => chain.iter().find_map(|e| no_time(e, depth + 1)),
        PatternElement::Stream(_) | PatternElement::Count { .. } => None,
        PatternElement::Absent { wait, .. } => wait.filter(|w| w.millis <= 0).map(|w| w.span),
        PatternElement::Logical { left, right, .. } => {
            no_time(left, depth + 1).or_else(|| no_time(right, depth + 1))
        }
    }
}

/// The streams of an element in the order of the text.
fn collect<'q>(element: &'q PatternElement, into: &mut Vec<Element<'q>>, depth: usize) {
    if depth > DEPTH_MAX {
        return;
    }
    let own = into.len();
    match element {
        PatternElement::Every(inner, _) => collect(inner, into, depth + 1),
        PatternElement::Chain(chain, _) => {
            for element in chain {
                collect(element, into, depth + 1);
            }
        }
        PatternElement::Stream(stream) => into.push(Element {
            reference: stream.reference.as_ref(),
            input: &stream.stream,
            is_counted: false,
            sees_up_to: own,
        }),
        PatternElement::Count { stream, .. } => into.push(Element {
            reference: stream.reference.as_ref(),
            input: &stream.stream,
            is_counted: true,
            sees_up_to: own,
        }),
        PatternElement::Absent { stream, .. } => into.push(Element {
            reference: None,
            input: stream,
            is_counted: false,
            sees_up_to: own,
        }),
        PatternElement::Logical { left, right, .. } => {
            collect(left, into, depth + 1);
            collect(right, into, depth + 1);
            let last = into.len().saturating_sub(1);
            for element in &mut into[own..] {
                element.sees_up_to = last;
            }
        }
    }
}
