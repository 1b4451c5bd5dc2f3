//! The subscriptions of a WebSub hub: a table of the app, and the queries that keep it.
//!
//! A `websubhub` source saves what it has verified in the table that `table.name` names, and the sink
//! of the hub works from it (`HttpWebSubSource`, `WebSubHubSink`). Both are given here as what the app
//! could have written itself, before it is checked: so the table is one like any other, in memory or
//! in a store, saved with the app, and open to queries. Faults of what is given are told at the
//! annotation that asks for it.

use std::borrow::Cow;

use event::Type;

use crate::ast::{
    Annotation, AnnotationElement, App, Args, Attribute, AttributeRef, BinaryOp, Call, Element,
    Expr, ExprKind, Handler, Input, Literal, Name, Output, Query, SelectItem, Selector,
    SingleInput, StreamDef, StreamKind, StreamName, StreamRef, TableDef, Text,
};
use crate::span::Span;

const TYPE: &str = "websubhub";
const HUB_ID: &str = "hub_id";
const REQUESTED: &str = "request_timestamp";

/// Columns of a table that no source defines.
const COLUMNS: [(&str, Type); 5] = [
    ("callback", Type::String),
    ("topic", Type::String),
    ("mode", Type::String),
    ("lease_seconds", Type::Long),
    ("secret", Type::String),
];

/// The app with the tables and queries of its hubs.
pub(super) fn with_subscriptions(app: &App) -> Cow<'_, App> {
    let mut given = Given::default();
    for element in &app.elements {
        if let Element::Stream(stream) = element {
            given.sources(stream, app);
        }
    }
    for element in &app.elements {
        if let Element::Stream(stream) = element {
            given.sinks(stream, app);
        }
    }
    if given.is_empty() {
        return Cow::Borrowed(app);
    }
    let mut app = app.clone();
    for stream in app.elements.iter_mut().filter_map(stream_mut) {
        for sink in stream.annotations.iter_mut().filter(|a| is_hub(a, "sink")) {
            complete(sink, &given.hubs);
        }
    }
    // First: what an app does with a subscription finds it in the table.
    given.elements.append(&mut app.elements);
    app.elements = given.elements;
    Cow::Owned(app)
}

fn stream_mut(element: &mut Element) -> Option<&mut StreamDef> {
    match element {
        Element::Stream(stream) => Some(stream),
        _ => None,
    }
}

fn is_hub(annotation: &Annotation, kind: &str) -> bool {
    annotation.is(kind) && annotation.value("type").is_some_and(|ty| ty.text == TYPE)
}

/// Options of the sink that follow from the app.
fn complete(sink: &mut Annotation, hubs: &[(String, String)]) {
    let hub = sink.value("hub.id").map(|id| id.text.clone());
    let url = hubs.iter().find(|(id, _)| Some(id) == hub.as_ref());
    let options = [
        ("topic", Some("{{topic}}")),
        ("hub.url", url.map(|(_, url)| url.as_str())),
    ];
    for (name, value) in options {
        if let Some(value) = value
            && sink.value(name).is_none()
        {
            sink.elements.push(element(Some(name), value, sink.span));
        }
    }
}

#[derive(Default)]
struct Given {
    elements: Vec<Element>,
    /// Ids and addresses of the hubs.
    hubs: Vec<(String, String)>,
    has_sinks: bool,
    /// Hub, stream and table of the queries: a hub may listen at several addresses.
    kept: Vec<[String; 3]>,
}

impl Given {
    fn is_empty(&self) -> bool {
        self.elements.is_empty() && !self.has_sinks
    }

    fn sources(&mut self, stream: &StreamDef, app: &App) {
        let sources = stream.annotations.iter().filter(|a| is_hub(a, "source"));
        for source in sources {
            // What is missing is told by the check of the annotation.
            let (Some(id), Some(table)) = (source.value("hub.id"), source.value("table.name"))
            else {
                continue;
            };
            if let Some(url) = source.value("receiver.url") {
                self.hubs.push((id.text.clone(), url.text.clone()));
            }
            let own = stream.attributes.iter();
            let own = own.map(|a| (a.name.text.as_str(), a.ty));
            let columns = own.chain([(HUB_ID, Type::String), (REQUESTED, Type::Long)]);
            let columns = self.table(&table.text, columns, stream, source.span, app);
            let kept = [&id.text, &stream.name.name.text, &table.text].map(String::clone);
            if self.kept.contains(&kept) {
                continue;
            }
            self.kept.push(kept);
            let keeper = Keeper {
                hub: &id.text,
                stream: &stream.name,
                table: &table.text,
                columns: &columns,
                span: source.span,
            };
            self.elements.extend(keeper.queries().map(Element::Query));
        }
    }

    fn sinks(&mut self, stream: &StreamDef, app: &App) {
        for sink in stream.annotations.iter().filter(|a| is_hub(a, "sink")) {
            self.has_sinks = true;
            if let Some(table) = sink.value("table.name") {
                let columns = COLUMNS.into_iter();
                let columns = columns.chain([(HUB_ID, Type::String), (REQUESTED, Type::Long)]);
                self.table(&table.text, columns, stream, sink.span, app);
            }
        }
    }

    /// The columns of the table, which is made where the app defines none of its name: in the store of
    /// the stream, where that has one.
    fn table<'a>(
        &mut self,
        name: &str,
        columns: impl Iterator<Item = (&'a str, Type)>,
        stream: &StreamDef,
        span: Span,
        app: &App,
    ) -> Vec<String> {
        let all = app.elements.iter().chain(&self.elements);
        let mut tables = all.filter_map(|element| match element {
            Element::Table(table) if table.name.name.text == name => Some(table),
            _ => None,
        });
        if let Some(known) = tables.next() {
            let names = known.attributes.iter().map(|a| a.name.text.clone());
            return names.collect();
        }
        let mut attributes: Vec<Attribute> = Vec::new();
        for (name, ty) in columns {
            if attributes.iter().all(|a| a.name.text != name) {
                attributes.push(Attribute {
                    name: self::name(name, span),
                    ty,
                    ty_span: span,
                });
            }
        }
        let names = attributes.iter().map(|a| a.name.text.clone()).collect();
        let store = stream.annotations.iter().filter(|a| a.is("store"));
        let mut annotations: Vec<Annotation> = store.cloned().collect();
        annotations.push(annotation("PrimaryKey", &["callback", "topic"], span));
        annotations.push(annotation("Index", &[HUB_ID], span));
        self.elements.push(Element::Table(TableDef {
            annotations,
            name: plain(name, span),
            attributes,
            span,
        }));
        names
    }
}

/// What keeps the subscriptions that a source brings.
struct Keeper<'a> {
    hub: &'a str,
    stream: &'a StreamName,
    table: &'a str,
    columns: &'a [String],
    span: Span,
}

impl Keeper<'_> {
    /// Leases that have ended go with whatever comes next; then the subscription is made, renewed or
    /// ended.
    fn queries(&self) -> impl Iterator<Item = Query> {
        [self.expire(), self.subscribe(), self.unsubscribe()].into_iter()
    }

    /// `from S select eventTimestamp() as now
    ///  delete T on T.hub_id == 'hub' and T.request_timestamp + T.lease_seconds * 1000L < now`
    fn expire(&self) -> Query {
        let of_hub = self.equal(self.column(HUB_ID), self.literal(self.hub));
        let thousand = self.expr(ExprKind::Literal(Literal::Long(1000)));
        let lease = self.binary(BinaryOp::Multiply, self.column("lease_seconds"), thousand);
        let end = self.binary(BinaryOp::Add, self.column(REQUESTED), lease);
        let ended = self.binary(BinaryOp::Less, end, self.attribute("now"));
        let on = self.binary(BinaryOp::And, of_hub, ended);
        let now = self.item(self.now(), "now");
        self.query("expire", None, vec![now], self.delete(on))
    }

    /// `from S[mode == 'subscribe'] select callback, …, 'hub' as hub_id,
    ///  eventTimestamp() as request_timestamp
    ///  update or insert into T on T.callback == callback and T.topic == topic`
    fn subscribe(&self) -> Query {
        let items = self.columns.iter().map(|column| {
            let value = match column.as_str() {
                HUB_ID => self.literal(self.hub),
                REQUESTED => self.now(),
                column => self.attribute(column),
            };
            self.item(value, column)
        });
        let output = Output::UpdateOrInsert {
            table: plain(self.table, self.span),
            events: None,
            set: Vec::new(),
            on: self.same(),
            span: self.span,
        };
        self.query("subscribe", Some("subscribe"), items.collect(), output)
    }

    /// `from S[mode == 'unsubscribe'] select callback, topic
    ///  delete T on T.callback == callback and T.topic == topic`
    fn unsubscribe(&self) -> Query {
        let items = ["callback", "topic"].map(|name| self.item(self.attribute(name), name));
        let output = self.delete(self.same());
        self.query("unsubscribe", Some("unsubscribe"), items.into(), output)
    }

    fn query(
        &self,
        what: &str,
        mode: Option<&str>,
        items: Vec<SelectItem>,
        output: Output,
    ) -> Query {
        let span = self.span;
        let filter = |mode| self.equal(self.attribute("mode"), self.literal(mode));
        let name = format!("{TYPE} {} of {}: {what}", self.hub, self.stream.name.text);
        Query {
            annotations: vec![Annotation {
                elements: vec![element(Some("name"), &name, span)],
                ..annotation("info", &[], span)
            }],
            input: Input::Single(SingleInput {
                stream: StreamName {
                    span,
                    ..self.stream.clone()
                },
                handlers: mode
                    .map(|m| Handler::Filter(filter(m)))
                    .into_iter()
                    .collect(),
                alias: None,
                span,
            }),
            selector: Selector {
                items,
                span,
                ..Selector::default()
            },
            rate: None,
            output,
            span,
        }
    }

    fn delete(&self, on: Expr) -> Output {
        Output::Delete {
            table: plain(self.table, self.span),
            events: None,
            on: Some(on),
            span: self.span,
        }
    }

    /// The record of the subscription at hand.
    fn same(&self) -> Expr {
        let [callback, topic] =
            ["callback", "topic"].map(|name| self.equal(self.column(name), self.attribute(name)));
        self.binary(BinaryOp::And, callback, topic)
    }

    // ---- expressions ----

    fn expr(&self, kind: ExprKind) -> Expr {
        Expr {
            kind,
            span: self.span,
        }
    }

    fn binary(&self, op: BinaryOp, left: Expr, right: Expr) -> Expr {
        self.expr(ExprKind::Binary(op, Box::new(left), Box::new(right)))
    }

    fn equal(&self, left: Expr, right: Expr) -> Expr {
        self.binary(BinaryOp::Equal, left, right)
    }

    fn literal(&self, text: &str) -> Expr {
        self.expr(ExprKind::Literal(Literal::String(text.to_owned())))
    }

    fn now(&self) -> Expr {
        self.expr(ExprKind::Call(Call {
            namespace: None,
            name: name("eventTimestamp", self.span),
            args: Args::List(Vec::new()),
            span: self.span,
        }))
    }

    fn attribute(&self, attribute: &str) -> Expr {
        self.reference(None, attribute)
    }

    fn column(&self, column: &str) -> Expr {
        let table = StreamRef {
            stream: plain(self.table, self.span),
            index: None,
            span: self.span,
        };
        self.reference(Some(table), column)
    }

    fn reference(&self, stream: Option<StreamRef>, attribute: &str) -> Expr {
        self.expr(ExprKind::Attribute(AttributeRef {
            stream,
            inner: None,
            name: name(attribute, self.span),
            span: self.span,
        }))
    }

    fn item(&self, expr: Expr, alias: &str) -> SelectItem {
        SelectItem {
            expr,
            alias: Some(name(alias, self.span)),
            span: self.span,
        }
    }
}

fn name(text: &str, span: Span) -> Name {
    Name {
        text: text.to_owned(),
        span,
    }
}

fn plain(text: &str, span: Span) -> StreamName {
    StreamName {
        name: name(text, span),
        kind: StreamKind::Plain,
        span,
    }
}

fn element(key: Option<&str>, value: &str, span: Span) -> AnnotationElement {
    AnnotationElement {
        key: key.map(|key| name(key, span)),
        value: Text {
            text: value.to_owned(),
            span,
        },
    }
}

fn annotation(text: &str, values: &[&str], span: Span) -> Annotation {
    let values = values.iter().map(|value| element(None, value, span));
    Annotation {
        name: name(text, span),
        elements: values.collect(),
        annotations: Vec::new(),
        span,
    }
}
