//! The subscriptions of a WebSub hub: a table of the app, and the queries that keep it.
//!
//! A `websubhub` source saves what it has verified in the table that `table.name` names, and the sink
//! of the hub works from it (`HttpWebSubSource`, `WebSubHubSink`). Both are given here as what the app
//! could have written itself, before it is checked: so the table is one like any other, in memory or
//! in a store, saved with the app, and open to queries. Faults of what is given are told at the
//! annotation that asks for it.

use std::borrow::Cow;

use event::Type;

use crate::validate::{self, Deployed};
use lang::ast::{
    Annotation, AnnotationElement, App, Args, Attribute, AttributeRef, BinaryOp, Call, Element,
    Expr, ExprKind, Handler, Input, Literal, Name, Output, Query, SelectItem, Selector,
    SingleInput, StreamDef, StreamKind, StreamName, StreamRef, TableDef, Text,
};
use lang::span::Span;

const TYPE: &str = "websubhub";
const HUB_ID: &str = "hub_id";
const REQUESTED: &str = "request_timestamp";
const NETWORKS: &str = "callback.networks";

/// Columns of a table that no source defines.
const COLUMNS: [(&str, Type); 5] = [
    ("callback", Type::String),
    ("topic", Type::String),
    ("mode", Type::String),
    ("lease_seconds", Type::Long),
    ("secret", Type::String),
];

/// The app with the tables and queries of its hubs.
pub(crate) fn with_subscriptions<'a>(app: &'a App, deployed: &Deployed) -> Cow<'a, App> {
    let mut given = Given::new(deployed);
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
        for annotation in &mut stream.annotations {
            given.complete(annotation);
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

/// The annotation of a hub, with the options of the block that its `ref` names.
struct Hub<'a> {
    annotation: &'a Annotation,
    block: &'a [(String, String)],
}

impl<'a> Hub<'a> {
    /// `None` for an annotation of another name or type.
    fn of(annotation: &'a Annotation, kind: &str, deployed: &'a Deployed) -> Option<Hub<'a>> {
        let block =
            validate::in_any_case(annotation, "ref").and_then(|name| deployed.refs.get(&name.text));
        let hub = Hub {
            annotation,
            block: block.map_or(&[], Vec::as_slice),
        };
        let ty = validate::in_any_case(annotation, "type").map(|ty| ty.text.as_str());
        let ty = ty.or_else(|| hub.in_block("type"));
        (annotation.is(kind) && ty == Some(TYPE)).then_some(hub)
    }

    fn in_block(&self, option: &str) -> Option<&'a str> {
        let found = self.block.iter().find(|(key, _)| key == option);
        found.map(|(_, value)| value.as_str())
    }

    /// What the annotation says wins over its block.
    fn option(&self, name: &str) -> Option<&'a str> {
        let written = self.annotation.value(name).map(|value| value.text.as_str());
        written.or_else(|| self.in_block(name))
    }
}

/// What a sink of the same hub takes over from a source.
struct Known {
    id: String,
    url: Option<String>,
    networks: Option<String>,
}

struct Given<'d> {
    deployed: &'d Deployed,
    elements: Vec<Element>,
    hubs: Vec<Known>,
    has_sinks: bool,
    /// Hub, stream and table of the queries: a hub may listen at several addresses.
    kept: Vec<[String; 3]>,
}

impl<'d> Given<'d> {
    fn new(deployed: &'d Deployed) -> Given<'d> {
        Given {
            deployed,
            elements: Vec::new(),
            hubs: Vec::new(),
            has_sinks: false,
            kept: Vec::new(),
        }
    }

    fn is_empty(&self) -> bool {
        self.elements.is_empty() && !self.has_sinks
    }

    /// Options of a sink that follow from the app.
    fn complete(&self, annotation: &mut Annotation) {
        let Some(sink) = Hub::of(annotation, "sink", self.deployed) else {
            return;
        };
        let id = sink.option("hub.id");
        let mut sources = self.hubs.iter().filter(|hub| Some(&*hub.id) == id);
        let url = sources.clone().find_map(|hub| hub.url.as_deref());
        let networks = sources.find_map(|hub| hub.networks.as_deref());
        let options = [
            ("topic", Some("{{topic}}")),
            ("hub.url", url),
            (NETWORKS, networks),
        ];
        let missing = options.into_iter().filter_map(|(name, value)| {
            let is_missing = sink.option(name).is_none();
            value
                .filter(|_| is_missing)
                .map(|value| element(Some(name), value, annotation.span))
        });
        let missing: Vec<AnnotationElement> = missing.collect();
        annotation.elements.extend(missing);
    }

    fn sources(&mut self, stream: &StreamDef, app: &App) {
        let deployed = self.deployed;
        for annotation in &stream.annotations {
            let Some(source) = Hub::of(annotation, "source", deployed) else {
                continue;
            };
            // What is missing is told by the check of the annotation.
            let (Some(id), Some(table)) = (source.option("hub.id"), source.option("table.name"))
            else {
                continue;
            };
            let own = |option: &str| source.option(option).map(str::to_owned);
            self.hubs.push(Known {
                id: id.to_owned(),
                url: own("receiver.url"),
                networks: own(NETWORKS),
            });
            let columns = stream.attributes.iter();
            let columns = columns.map(|a| (a.name.text.as_str(), a.ty));
            let columns = columns.chain([(HUB_ID, Type::String), (REQUESTED, Type::Long)]);
            let columns = self.table(table, columns, stream, annotation.span, app);
            let kept = [id, &stream.name.name.text, table].map(str::to_owned);
            if self.kept.contains(&kept) {
                continue;
            }
            self.kept.push(kept);
            let keeper = Keeper {
                hub: id,
                stream: &stream.name,
                table,
                columns: &columns,
                span: annotation.span,
            };
            self.elements.extend(keeper.queries().map(Element::Query));
        }
    }

    fn sinks(&mut self, stream: &StreamDef, app: &App) {
        let deployed = self.deployed;
        for annotation in &stream.annotations {
            let Some(sink) = Hub::of(annotation, "sink", deployed) else {
                continue;
            };
            self.has_sinks = true;
            if let Some(table) = sink.option("table.name") {
                let columns = COLUMNS.into_iter();
                let columns = columns.chain([(HUB_ID, Type::String), (REQUESTED, Type::Long)]);
                self.table(table, columns, stream, annotation.span, app);
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
