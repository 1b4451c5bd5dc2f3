//! All spans of a syntax tree, to compare trees without them.

use crate::ast::*;
use crate::span::Span;

impl App {
    /// Sets every span to the empty one: two trees are then equal if they mean the same.
    pub fn strip_spans(&mut self) {
        self.each(&mut |span| *span = Span::default());
    }
}

type Visit<'f> = &'f mut dyn FnMut(&mut Span);

/// What holds spans.
trait Spans {
    fn each(&mut self, visit: Visit);
}

impl Spans for Span {
    fn each(&mut self, visit: Visit) {
        visit(self);
    }
}

impl<T: Spans> Spans for Option<T> {
    fn each(&mut self, visit: Visit) {
        if let Some(inner) = self {
            inner.each(visit);
        }
    }
}

impl<T: Spans> Spans for Vec<T> {
    fn each(&mut self, visit: Visit) {
        for item in self {
            item.each(visit);
        }
    }
}

impl<T: Spans> Spans for Box<T> {
    fn each(&mut self, visit: Visit) {
        (**self).each(visit);
    }
}

impl<A: Spans, B: Spans> Spans for (A, B) {
    fn each(&mut self, visit: Visit) {
        self.0.each(visit);
        self.1.each(visit);
    }
}

impl<T> Spans for Spanned<T> {
    fn each(&mut self, visit: Visit) {
        self.span.each(visit);
    }
}

/// For each struct the fields that hold spans.
macro_rules! spans {
    ($($ty:ident: $($field:ident),+;)*) => {
        $(impl Spans for $ty {
            fn each(&mut self, visit: Visit) {
                $(self.$field.each(visit);)+
            }
        })*
    };
}

spans! {
    Name: span;
    Text: span;
    TimeSpan: span;
    App: annotations, elements;
    Annotation: name, elements, annotations, span;
    AnnotationElement: key, value;
    Attribute: name, ty_span;
    StreamName: name, span;
    StreamDef: annotations, name, attributes, span;
    TableDef: annotations, name, attributes, span;
    WindowDef: annotations, name, attributes, window, span;
    TriggerDef: annotations, name, at, span;
    FunctionDef: annotations, name, language, body, span;
    AggregationDef: annotations, name, input, selector, by, durations, span;
    Partition: annotations, keys, queries, span;
    PartitionKey: stream, by, span;
    Query: annotations, input, selector, rate, output, span;
    SingleInput: stream, handlers, alias, span;
    JoinInput: left, right, on, within, per, span;
    Within: start, end;
    PatternInput: root, within, span;
    PatternStream: reference, stream, span;
    Selector: items, group_by, having, order_by, limit, offset, span;
    SelectItem: expr, alias, span;
    OrderItem: attribute;
    OutputRate: every, span;
    SetItem: target, value;
    Expr: kind, span;
    StreamRef: stream, span;
    AttributeRef: stream, inner, name, span;
    Call: namespace, name, args, span;
}

impl Spans for Element {
    fn each(&mut self, visit: Visit) {
        match self {
            Element::Stream(definition) => definition.each(visit),
            Element::Table(definition) => definition.each(visit),
            Element::Window(definition) => definition.each(visit),
            Element::Trigger(definition) => definition.each(visit),
            Element::Function(definition) => definition.each(visit),
            Element::Aggregation(definition) => definition.each(visit),
            Element::Query(query) => query.each(visit),
            Element::Partition(partition) => partition.each(visit),
        }
    }
}

impl Spans for TriggerAt {
    fn each(&mut self, visit: Visit) {
        match self {
            TriggerAt::Every(time) => time.each(visit),
            TriggerAt::Text(text) => text.each(visit),
        }
    }
}

impl Spans for Durations {
    fn each(&mut self, visit: Visit) {
        match self {
            Durations::Range(from, to) => {
                from.each(visit);
                to.each(visit);
            }
            Durations::List(list) => list.each(visit),
        }
    }
}

impl Spans for PartitionBy {
    fn each(&mut self, visit: Visit) {
        match self {
            PartitionBy::Value(value) => value.each(visit),
            PartitionBy::Ranges(ranges) => ranges.each(visit),
        }
    }
}

impl Spans for Input {
    fn each(&mut self, visit: Visit) {
        match self {
            Input::Single(input) => input.each(visit),
            Input::Join(join) => join.each(visit),
            Input::Pattern(pattern) => pattern.each(visit),
            Input::Anonymous(query) => query.each(visit),
        }
    }
}

impl Spans for Handler {
    fn each(&mut self, visit: Visit) {
        match self {
            Handler::Filter(condition) => condition.each(visit),
            Handler::Function(call) | Handler::Window(call) => call.each(visit),
        }
    }
}

impl Spans for PatternElement {
    fn each(&mut self, visit: Visit) {
        let span = match self {
            PatternElement::Stream(stream) => return stream.each(visit),
            PatternElement::Every(inner, span) => {
                inner.each(visit);
                span
            }
            PatternElement::Chain(elements, span) => {
                elements.each(visit);
                span
            }
            PatternElement::Count { stream, span, .. } => {
                stream.each(visit);
                span
            }
            PatternElement::Logical {
                left, right, span, ..
            } => {
                left.each(visit);
                right.each(visit);
                span
            }
            PatternElement::Absent { stream, wait, span } => {
                stream.each(visit);
                wait.each(visit);
                span
            }
        };
        span.each(visit);
    }
}

impl Spans for RateEvery {
    fn each(&mut self, visit: Visit) {
        if let RateEvery::Time(time) = self {
            time.each(visit);
        }
    }
}

impl Spans for Output {
    fn each(&mut self, visit: Visit) {
        match self {
            Output::Insert { target, span, .. } => {
                target.each(visit);
                span.each(visit);
            }
            Output::Delete {
                table, on, span, ..
            } => {
                table.each(visit);
                on.each(visit);
                span.each(visit);
            }
            Output::Update {
                table,
                set,
                on,
                span,
                ..
            }
            | Output::UpdateOrInsert {
                table,
                set,
                on,
                span,
                ..
            } => {
                table.each(visit);
                set.each(visit);
                on.each(visit);
                span.each(visit);
            }
            Output::Return { span, .. } => span.each(visit),
        }
    }
}

impl Spans for ExprKind {
    fn each(&mut self, visit: Visit) {
        match self {
            ExprKind::Literal(_) | ExprKind::Error => {}
            ExprKind::Time(time) => time.each(visit),
            ExprKind::Attribute(attribute) => attribute.each(visit),
            ExprKind::Call(call) => call.each(visit),
            ExprKind::Not(inner) => inner.each(visit),
            ExprKind::Binary(_, left, right) => {
                left.each(visit);
                right.each(visit);
            }
            ExprKind::IsNull(target) => target.each(visit),
            ExprKind::In(value, table) => {
                value.each(visit);
                table.each(visit);
            }
        }
    }
}

impl Spans for NullTarget {
    fn each(&mut self, visit: Visit) {
        match self {
            NullTarget::Reference(stream) => stream.each(visit),
            NullTarget::Attribute(attribute) => attribute.each(visit),
            NullTarget::Call(call) => call.each(visit),
        }
    }
}

impl Spans for Args {
    fn each(&mut self, visit: Visit) {
        match self {
            Args::All(span) => span.each(visit),
            Args::List(list) => list.each(visit),
        }
    }
}
