//! Definitions of streams, tables, named windows, triggers and script functions.

use std::collections::HashSet;

use event::Type;

use crate::Checker;
use crate::ScriptFault;
use crate::annotations::find;
use crate::codes::check as code;
use crate::names::{Entry, Named, Names, Shape};
use crate::report::{error, warning};
use crate::scope::{Input, Scope};
use lang::ast::{self, Element, EventType, StreamKind};
use lang::cron::Cron;
use lang::diagnostic::Kind;
use lang::span::Span;
use lang::suggest::nearest;
use plan::StreamId;
use plan::spec::ConnectorKind;

impl Checker<'_> {
    pub(super) fn definition(&mut self, element: &Element) {
        match element {
            Element::Stream(def) => self.stream(def),
            Element::Table(def) => self.table(def),
            Element::Window(def) => self.named_window(def),
            Element::Trigger(def) => self.trigger(def),
            Element::Function(def) => self.script(def),
            // Aggregations read streams, so they come when all of these are known.
            Element::Aggregation(_) | Element::Query(_) | Element::Partition(_) => {}
        }
    }

    /// The attributes of a definition. The parser has reported repeated names.
    fn shape_of(
        &mut self,
        name: &ast::StreamName,
        attributes: &[ast::Attribute],
        span: Span,
    ) -> Shape {
        let mut shape = Shape::from(name);
        // A fault in an annotation before it hides no attribute.
        shape.is_partial = self.has_syntax_fault(Span::new(name.span.start, span.end));
        shape.is_open = shape.is_partial;
        let mut seen = HashSet::new();
        for attribute in attributes {
            let name = attribute.name.text.as_str();
            if seen.insert(name) {
                shape.push(name, Some(attribute.ty), attribute.name.span);
            }
        }
        shape
    }

    pub(super) fn has_syntax_fault(&self, span: Span) -> bool {
        self.config
            .syntax_faults
            .iter()
            .any(|f| f.start >= span.start && f.start < span.end)
    }

    /// Registers an id. `None`, with a report: it stands for something else already.
    fn claim(&mut self, name: &ast::Name, named: Named, shape: &Shape) -> bool {
        let Some(first) = self.names.get(&name.text) else {
            self.names.insert(
                &name.text,
                Entry {
                    named,
                    span: name.span,
                },
            );
            return true;
        };
        let is_same_kind = std::mem::discriminant(&first.named) == std::mem::discriminant(&named);
        let is_repetition = is_same_kind
            && self
                .shape_named(first.named)
                .is_some_and(|s| s.agrees_with(shape) && !s.is_open && !shape.is_open);
        if is_repetition {
            self.report(
                warning(
                    code::DEFINED_AGAIN,
                    Kind::Name,
                    name.span,
                    format!("{} '{}' is defined a second time", named.kind(), name.text),
                    "the same definition again, without effect",
                )
                .related(first.span, "first defined here")
                .help("remove one of the two"),
            );
        } else {
            self.report(
                error(
                    code::NAME_TAKEN,
                    Kind::Name,
                    name.span,
                    format!(
                        "'{}' is already defined as {}",
                        name.text,
                        first.named.with_article()
                    ),
                    "this name is taken",
                )
                .related(first.span, "first defined here")
                .help(
                    "streams, tables, windows, triggers and aggregations share one set of \
                 names: give one of them another",
                ),
            );
        }
        false
    }

    pub(super) fn shape_named(&self, named: Named) -> Option<&Shape> {
        match named {
            Named::Stream(id) => self.stream_shapes.get(id),
            Named::Table(id) => self.table_shapes.get(id),
            Named::Window(id) => self.window_shapes.get(id),
            Named::Aggregation(id) => self.aggregation_shapes.get(id),
        }
    }

    /// `#Name` and `!Name` are never defined.
    fn is_marked(&mut self, kind: &str, name: &ast::StreamName) -> bool {
        if name.kind == StreamKind::Plain {
            return false;
        }
        let text = &name.name.text;
        let report = error(
            code::MARKED_DEFINITION,
            Kind::Name,
            name.span,
            format!("{kind} '{text}' cannot be defined with a mark before its name"),
            "created automatically, never defined",
        )
        .help(
            "'#' streams are created by an insert inside a partition, '!' streams by \
             @OnError(action='STREAM')",
        );
        self.report(report);
        true
    }

    fn stream(&mut self, def: &ast::StreamDef) {
        let shape = self.shape_of(&def.name, &def.attributes, def.span);
        if self.is_marked("stream", &def.name) {
            return;
        }
        let id = self.stream_shapes.len();
        if !self.claim(&def.name.name, Named::Stream(id), &shape) {
            return;
        }
        self.new_stream(shape.clone(), plan::StreamKind::Plain, true, def.name.span);
        self.once_each(&def.annotations, &["async", "onerror"]);
        self.stream_annotations(id, def, &shape);
    }

    /// Adds a stream to the plan.
    pub(super) fn new_stream(
        &mut self,
        shape: Shape,
        kind: plan::StreamKind,
        is_defined: bool,
        span: Span,
    ) -> StreamId {
        self.plan.streams.push(plan::Stream {
            schema: shape.schema(),
            kind,
            on_error: plan::OnError::Log,
            deferred: None,
            sources: Vec::new(),
            sinks: Vec::new(),
            is_defined,
            span,
        });
        self.stream_shapes.push(shape);
        self.plan.streams.len() - 1
    }

    fn table(&mut self, def: &ast::TableDef) {
        if self.is_marked("table", &def.name) {
            return;
        }
        let shape = self.shape_of(&def.name, &def.attributes, def.span);
        let id = self.table_shapes.len();
        if !self.claim(&def.name.name, Named::Table(id), &shape) {
            return;
        }
        self.once_each(&def.annotations, &["primarykey", "store"]);
        let store = self.store(&def.annotations);
        let primary_key = self.primary_key(def, &shape);
        let is_external = find(&def.annotations, "store").is_some();
        let details_indexes = store.as_ref().is_some_and(|store| {
            let mut stores = self.catalog.connectors(ConnectorKind::Store);
            let spec = stores.find(|spec| spec.name == store.ty);
            spec.is_some_and(|spec| spec.details_indexes)
        });
        let (indexes, index_details) = self.indexes(def, &shape, is_external, details_indexes);
        self.plan.tables.push(plan::Table {
            schema: shape.schema(),
            primary_key,
            indexes,
            index_details,
            store,
            span: def.name.span,
        });
        self.table_shapes.push(shape);
    }

    fn named_window(&mut self, def: &ast::WindowDef) {
        if self.is_marked("window", &def.name) {
            return;
        }
        let shape = self.shape_of(&def.name, &def.attributes, def.span);
        let id = self.window_shapes.len();
        if !self.claim(&def.name.name, Named::Window(id), &shape) {
            return;
        }
        let input = Input::new(&shape.name, StreamKind::Plain, shape.clone());
        let scope = Scope {
            takes_aggregators: false,
            ..Scope::one(input, "the window")
        };
        let window = self
            .window_call(&def.window, &scope)
            .unwrap_or_else(|| plan::WindowCall {
                name: String::new(),
                args: Vec::new(),
                span: def.window.span,
            });
        self.plan.windows.push(plan::NamedWindow {
            schema: shape.schema(),
            window,
            output: def.output.unwrap_or(EventType::All),
            span: def.name.span,
        });
        self.window_shapes.push(shape);
        self.transports_only_on_streams(&def.annotations, "window", &def.name.name.text);
    }

    fn trigger(&mut self, def: &ast::TriggerDef) {
        let mut shape = Shape::new(&def.name.text);
        shape.push("triggered_time", Some(Type::Long), def.name.span);
        let id = self.stream_shapes.len();
        // A trigger may have a stream of its own shape defined for it.
        if let Some(first) = self.names.get(&def.name.text)
            && let Named::Stream(stream) = first.named
            && self.stream_shapes[stream].agrees_with(&shape)
            && self.plan.streams[stream].kind == plan::StreamKind::Plain
        {
            self.plan.streams[stream].kind = plan::StreamKind::Trigger;
            self.push_trigger(def, stream);
            return;
        }
        if self.names.get(&def.name.text).is_some() {
            shape.is_open = true;
        }
        if !self.claim(&def.name, Named::Stream(id), &shape) {
            return;
        }
        let id = self.new_stream(shape, plan::StreamKind::Trigger, false, def.name.span);
        self.push_trigger(def, id);
    }

    fn push_trigger(&mut self, def: &ast::TriggerDef, stream: StreamId) {
        let at = match &def.at {
            ast::TriggerAt::Every(time) if time.millis <= 0 => {
                self.report(
                    error(
                        code::BAD_VALUE,
                        Kind::Option,
                        time.span,
                        format!("trigger '{}' needs a period above zero", def.name.text),
                        "never",
                    )
                    .help("say how often, as in 'at every 5 sec'"),
                );
                return;
            }
            ast::TriggerAt::Every(time) => plan::TriggerAt::EveryMillis(time.millis),
            ast::TriggerAt::Text(text) if text.text.trim().eq_ignore_ascii_case("start") => {
                plan::TriggerAt::Start
            }
            ast::TriggerAt::Text(text) => {
                if let Err(fault) = Cron::parse(&text.text) {
                    // Siddhi only logs it at start, and the trigger never fires.
                    self.report(
                        warning(
                            code::BAD_CRON,
                            Kind::Option,
                            text.span,
                            format!("'{}' is not a Quartz cron expression", text.text),
                            fault,
                        )
                        .help("seconds come first, as in '0 15 10 * * ?'; or write 'start'"),
                    );
                }
                plan::TriggerAt::Cron(text.text.clone())
            }
        };
        self.plan.triggers.push(plan::Trigger {
            name: def.name.text.clone(),
            stream,
            at,
            span: def.name.span,
        });
    }

    fn script(&mut self, def: &ast::FunctionDef) {
        if let Some((_, first)) = self.scripts.get(&def.name.text) {
            let first = *first;
            self.report(
                error(
                    code::NAME_TAKEN,
                    Kind::Name,
                    def.name.span,
                    format!("function '{}' is already defined", def.name.text),
                    "this name is taken",
                )
                .related(first, "first defined here")
                .help("give one of them another name"),
            );
            return;
        }
        let language = def.language.text.to_lowercase();
        if language != "javascript" && language != "js" {
            self.report(
                error(
                    code::UNSUPPORTED_COMPONENT,
                    Kind::Unsupported,
                    def.language.span,
                    format!("scripts in '{}' are not supported", def.language.text),
                    "no such script language",
                )
                .help("the script language is 'javascript'"),
            );
        } else if let Some(fault) = self
            .config
            .script_fault
            .and_then(|fault| fault(&def.body.text))
        {
            self.script_fault(def, &fault);
        }
        let index = self.plan.functions.len();
        self.scripts
            .insert(def.name.text.clone(), (index, def.name.span));
        self.plan.functions.push(plan::ScriptFunction {
            name: def.name.text.clone(),
            language,
            returns: def.returns,
            body: def.body.text.clone(),
            span: def.name.span,
        });
    }

    /// A body that is not JavaScript, shown at its line.
    fn script_fault(&mut self, def: &ast::FunctionDef, fault: &ScriptFault) {
        // The body stands behind its opening brace.
        let start = def.body.span.start as usize + 1;
        let mut at = 0;
        let mut line = "";
        for (number, text) in def.body.text.split_inclusive('\n').enumerate() {
            line = text;
            if number == fault.line as usize {
                break;
            }
            at += text.len();
        }
        let indent = line.len() - line.trim_start().len();
        let place = start + at.min(def.body.text.len()) + indent;
        let length = line.trim().len().max(1);
        self.report(
            error(
                code::SCRIPT_FAULT,
                Kind::Syntax,
                Span::new(place as u32, (place + length) as u32),
                format!(
                    "the body of function '{}' is not JavaScript: {}",
                    def.name.text, fault.message
                ),
                "found here",
            )
            .help("the body is that of a function of 'data', the array of the arguments"),
        );
    }

    /// Notes which streams come into being by a later query, so that reading one too early can be
    /// told from a misspelt name.
    pub(super) fn note_made_later(&mut self, elements: &[Element]) {
        for element in elements {
            let queries = match element {
                Element::Query(query) => std::slice::from_ref(query),
                Element::Partition(partition) => &partition.queries,
                _ => continue,
            };
            for query in queries {
                if let ast::Output::Insert { target, .. } = &query.output
                    && target.kind == StreamKind::Plain
                {
                    self.made_later
                        .entry(target.name.text.clone())
                        .or_insert(target.span);
                }
            }
        }
    }

    /// The fault stream of a stream that has `@OnError(action='STREAM')`.
    pub(super) fn fault_stream(&mut self, name: &ast::StreamName) -> Option<StreamId> {
        let text = &name.name.text;
        if let Some(id) = self.fault_streams.get(text) {
            return Some(*id);
        }
        let d = error(
            code::NO_FAULT_STREAM,
            Kind::Name,
            name.span,
            format!("stream '{text}' has no fault stream"),
            "no such fault stream",
        );
        let d = match self.names.get(text) {
            Some(entry) => d
                .related(entry.span, format!("'{text}' is defined here"))
                .help("put @OnError(action='STREAM') before its definition"),
            None => {
                let names: Vec<&str> = self.fault_streams.keys().map(String::as_str).collect();
                let near = nearest(text, names);
                d.did_you_mean(name.name.span, near)
            }
        };
        self.report(d);
        None
    }

    pub(super) fn outside_partition(&mut self, name: &ast::StreamName) {
        self.report(
            error(
                code::INNER_OUTSIDE,
                Kind::Name,
                name.span,
                format!(
                    "inner stream '#{}' cannot be used outside a partition",
                    name.name.text
                ),
                "only inside a partition",
            )
            .help("leave out the '#', or put the query into a partition")
            .fix(name.span, name.name.text.clone()),
        );
    }

    /// The streams that can be read, for suggestions.
    pub(super) fn readable(names: &Names) -> Vec<&str> {
        names.of(|n| !matches!(n, Named::Aggregation(_))).collect()
    }
}
