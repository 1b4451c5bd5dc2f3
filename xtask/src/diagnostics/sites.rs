//! The places of an app that can be broken: names, literals, options, with their spans.

use lang::ast::{
    Annotation, App, Args, AttributeRef, BinaryOp, Call, Element, Expr, ExprKind, Handler, Input,
    Literal, NullTarget, Output, PartitionBy, PatternElement, Query, Selector, SingleInput,
    StreamKind,
};
use lang::span::Span;

/// A text of the app with its place.
#[derive(Clone, Debug)]
pub struct Site {
    pub text: String,
    pub span: Span,
}

/// One option or value inside an annotation.
#[derive(Clone, Debug)]
pub struct OptionSite {
    /// `source`, `sink`, `map` …, in lower case.
    pub annotation: String,
    /// Its `type`, as written.
    pub component: String,
    /// The annotation that holds this one (`source` for a `map`).
    pub parent: String,
    pub head: Span,
    pub key: Site,
    /// With its quotes.
    pub value: Site,
    /// The element and what separates it from its neighbours, to take it out.
    pub element: Span,
    pub siblings: usize,
}

#[derive(Default, Debug)]
pub struct Sites {
    /// Attributes that expressions use.
    pub attributes: Vec<Site>,
    /// Streams, tables and windows that queries read.
    pub inputs: Vec<Site>,
    /// Scalar functions and aggregators, the name without its namespace.
    pub functions: Vec<Site>,
    pub windows: Vec<Site>,
    /// Arguments of `sum`, `avg` and their like.
    pub summed: Vec<Site>,
    /// Numbers that an attribute is compared with.
    pub compared: Vec<Site>,
    /// Numbers that an attribute is calculated with.
    pub calculated: Vec<Site>,
    /// Whole numbers that windows take.
    pub window_numbers: Vec<Site>,
    /// The last argument of functions that take few; the text is the function's name.
    pub arguments: Vec<Site>,
    /// Items of a `select` into a defined stream, but for the last, with the comma behind; the text
    /// is the stream's name.
    pub items: Vec<Site>,
    pub options: Vec<OptionSite>,
    /// Definitions of streams and tables: the name, and the place behind the definition.
    pub defined: Vec<Site>,
    /// Names of attributes in definitions.
    pub attribute_types: Vec<Site>,
    /// Names of the streams that are defined.
    targets: Vec<String>,
}

/// Deepest nesting of expressions and annotations that is looked into.
const DEPTH_MAX: u32 = 100;

impl Sites {
    pub fn of(app: &App, text: &str) -> Sites {
        let mut sites = Sites::default();
        let mut queries: Vec<&Query> = Vec::new();
        for element in &app.elements {
            match element {
                Element::Stream(s) if s.name.kind == StreamKind::Plain => {
                    sites.targets.push(s.name.name.text.clone());
                    sites.definition(&s.name.name, s.span, &s.annotations, &s.attributes, text);
                }
                Element::Table(t) => {
                    sites.definition(&t.name.name, t.span, &t.annotations, &t.attributes, text);
                }
                Element::Query(q) => queries.push(q),
                Element::Partition(p) => {
                    for key in &p.keys {
                        sites.input(&key.stream.name);
                        if let PartitionBy::Value(e) = &key.by {
                            sites.expression(e, 0);
                        }
                    }
                    queries.extend(&p.queries);
                }
                _ => {}
            }
        }
        for query in queries {
            sites.query(query, text);
        }
        sites
    }

    fn definition(
        &mut self,
        name: &lang::ast::Name,
        span: Span,
        annotations: &[Annotation],
        attributes: &[lang::ast::Attribute],
        text: &str,
    ) {
        self.defined.push(Site {
            text: name.text.clone(),
            span: Span::new(span.end, span.end),
        });
        for attribute in attributes {
            let ty = attribute.ty_span;
            self.attribute_types.push(Site {
                text: ty.text(text).to_owned(),
                span: ty,
            });
        }
        for annotation in annotations {
            self.annotation(annotation, "", 0);
        }
    }

    fn annotation(&mut self, annotation: &Annotation, parent: &str, depth: u32) {
        let name = annotation.name.text.to_ascii_lowercase();
        let component = annotation.value("type").map_or("", |t| t.text.as_str());
        for (i, element) in annotation.elements.iter().enumerate() {
            let Some(key) = &element.key else { continue };
            let start = match i.checked_sub(1) {
                Some(before) => annotation.elements[before].value.span.end,
                None => key.span.start,
            };
            self.options.push(OptionSite {
                annotation: name.clone(),
                component: component.to_owned(),
                parent: parent.to_owned(),
                head: annotation.head(),
                key: Site {
                    text: key.text.clone(),
                    span: key.span,
                },
                value: Site {
                    text: element.value.text.clone(),
                    span: element.value.span,
                },
                element: Span::new(start, element.value.span.end),
                siblings: i,
            });
        }
        if depth < DEPTH_MAX {
            for nested in &annotation.annotations {
                self.annotation(nested, &name, depth + 1);
            }
        }
    }

    fn query(&mut self, query: &Query, text: &str) {
        match &query.input {
            Input::Single(single) => self.single(single),
            Input::Join(join) => {
                self.single(&join.left);
                self.single(&join.right);
                if let Some(on) = &join.on {
                    self.expression(on, 0);
                }
            }
            Input::Pattern(pattern) => self.pattern(&pattern.root, 0),
            Input::Anonymous(_) => {}
        }
        self.selector(&query.selector);
        match &query.output {
            Output::Insert { target, .. } => {
                let is_defined = self.targets.contains(&target.name.text);
                for pair in query.selector.items.windows(2).filter(|_| is_defined) {
                    let span = Span::new(pair[0].span.start, pair[1].span.start);
                    let is_one_line = !span.text(text).contains('\n');
                    let is_plain = query.selector.group_by.is_empty();
                    if is_one_line && is_plain && query.selector.having.is_none() {
                        self.items.push(Site {
                            text: target.name.text.clone(),
                            span,
                        });
                    }
                }
            }
            Output::Delete { on: Some(on), .. }
            | Output::Update { on, .. }
            | Output::UpdateOrInsert { on, .. } => self.expression(on, 0),
            Output::Delete { on: None, .. } | Output::Return { .. } => {}
        }
    }

    fn input(&mut self, name: &lang::ast::Name) {
        self.inputs.push(Site {
            text: name.text.clone(),
            span: name.span,
        });
    }

    fn single(&mut self, single: &SingleInput) {
        if single.stream.kind == StreamKind::Plain {
            self.input(&single.stream.name);
        }
        for handler in &single.handlers {
            match handler {
                Handler::Filter(e) => self.expression(e, 0),
                Handler::Function(_) => {}
                Handler::Window(call) => {
                    self.windows.push(Site {
                        text: call.name.text.clone(),
                        span: call.name.span,
                    });
                    let Args::List(list) = &call.args else {
                        continue;
                    };
                    for e in list {
                        if let ExprKind::Literal(Literal::Int(n)) = &e.kind {
                            self.window_numbers.push(Site {
                                text: n.to_string(),
                                span: e.span,
                            });
                        }
                    }
                }
            }
        }
    }

    fn pattern(&mut self, element: &PatternElement, depth: u32) {
        if depth > DEPTH_MAX {
            return;
        }
        match element {
            PatternElement::Every(inner, _) => self.pattern(inner, depth + 1),
            PatternElement::Chain(parts, _) => {
                for part in parts {
                    self.pattern(part, depth + 1);
                }
            }
            PatternElement::Stream(s) | PatternElement::Count { stream: s, .. } => {
                self.single(&s.stream);
            }
            PatternElement::Logical { left, right, .. } => {
                self.pattern(left, depth + 1);
                self.pattern(right, depth + 1);
            }
            PatternElement::Absent { stream, .. } => self.single(stream),
        }
    }

    fn selector(&mut self, selector: &Selector) {
        for item in &selector.items {
            self.expression(&item.expr, 0);
        }
        for attribute in &selector.group_by {
            self.attribute(attribute);
        }
    }

    fn attribute(&mut self, attribute: &AttributeRef) {
        self.attributes.push(Site {
            text: attribute.name.text.clone(),
            span: attribute.name.span,
        });
    }

    fn call(&mut self, call: &Call, depth: u32) {
        self.functions.push(Site {
            text: call.name.text.clone(),
            span: call.name.span,
        });
        let Args::List(list) = &call.args else { return };
        let sums = ["sum", "avg", "stdDev"].contains(&call.name.text.as_str());
        if let ([only], true) = (list.as_slice(), sums && call.namespace.is_none()) {
            self.summed.push(Site {
                text: call.name.text.clone(),
                span: only.span,
            });
        }
        let few = [
            "upper", "lower", "length", "convert", "cast", "avg", "max", "min", "round",
        ];
        if let (Some(last), true) = (list.last(), few.contains(&call.name.text.as_str())) {
            self.arguments.push(Site {
                text: call.name.text.clone(),
                span: last.span,
            });
        }
        for e in list {
            self.expression(e, depth + 1);
        }
    }

    fn expression(&mut self, e: &Expr, depth: u32) {
        if depth > DEPTH_MAX {
            return;
        }
        match &e.kind {
            ExprKind::Attribute(a) => self.attribute(a),
            ExprKind::Call(call) => self.call(call, depth),
            ExprKind::Not(inner) | ExprKind::In(inner, _) => self.expression(inner, depth + 1),
            ExprKind::IsNull(NullTarget::Call(call)) => self.call(call, depth),
            ExprKind::IsNull(_) | ExprKind::Literal(_) | ExprKind::Time(_) | ExprKind::Error => {}
            ExprKind::Binary(op, left, right) => {
                let list = match op {
                    BinaryOp::And | BinaryOp::Or => None,
                    BinaryOp::Add
                    | BinaryOp::Subtract
                    | BinaryOp::Multiply
                    | BinaryOp::Divide
                    | BinaryOp::Modulo => Some(&mut self.calculated),
                    _ => Some(&mut self.compared),
                };
                let mut numbers = Vec::new();
                for (one, other) in [(left, right), (right, left)] {
                    let is_number = matches!(
                        one.kind,
                        ExprKind::Literal(
                            Literal::Int(_)
                                | Literal::Long(_)
                                | Literal::Float(_)
                                | Literal::Double(_)
                        )
                    );
                    let is_attribute = matches!(other.kind, ExprKind::Attribute(_));
                    if is_number && is_attribute {
                        numbers.push(Site {
                            text: String::new(),
                            span: one.span,
                        });
                    }
                }
                if let Some(list) = list {
                    list.extend(numbers);
                }
                self.expression(left, depth + 1);
                self.expression(right, depth + 1);
            }
        }
    }
}
