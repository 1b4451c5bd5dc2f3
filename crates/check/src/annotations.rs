//! Annotations of apps, streams, tables and queries; sources, sinks and stores are in `transports`.

use crate::Checker;
use crate::codes::check as code;
use crate::names::Shape;
use crate::report::{error, warning};
use lang::ast::{self, Annotation, Text};
use lang::diagnostic::Kind;
use lang::quantity::{first_time_text, time_text};
use lang::span::Span;
use lang::suggest::nearest;
use plan::{IndexDetail, StreamId};

/// Keys match in any case.
pub(super) fn value<'a>(annotation: &'a Annotation, key: &str) -> Option<&'a Text> {
    annotation
        .elements
        .iter()
        .find(|e| {
            e.key
                .as_ref()
                .is_some_and(|k| k.text.eq_ignore_ascii_case(key))
        })
        .map(|e| &e.value)
}

pub(super) fn find<'a>(annotations: &'a [Annotation], name: &str) -> Option<&'a Annotation> {
    annotations.iter().find(|a| a.is(name))
}

impl Checker<'_> {
    /// Reports a second copy of an annotation that may stand once.
    pub(super) fn once_each(&mut self, annotations: &[Annotation], names: &[&str]) {
        for name in names {
            let mut of_name = annotations.iter().filter(|a| a.is(name));
            let Some(first) = of_name.next() else {
                continue;
            };
            for again in of_name {
                self.report(
                    error(
                        code::ANNOTATION_AGAIN,
                        Kind::Option,
                        again.span,
                        format!("annotation '@{}' is given twice", again.name.text),
                        "a second time",
                    )
                    .related(first.span, "first given here")
                    .help("keep one of them"),
                );
            }
        }
    }

    pub(super) fn bad_value(&mut self, span: Span, what: &str, text: &str, needed: &str) {
        self.report(
            error(
                code::BAD_VALUE,
                Kind::Option,
                span,
                format!("{what} cannot be '{text}'"),
                format!("{needed} is needed"),
            )
            .help(format!("give {needed}")),
        );
    }

    pub(super) fn app_annotations(&mut self, annotations: &[Annotation]) {
        for (i, annotation) in annotations.iter().enumerate() {
            let name = annotation.name.text.to_ascii_lowercase();
            if let Some(first) = annotations[..i].iter().find(|a| a.is(&name)) {
                let first = first.span;
                self.report(
                    warning(
                        code::APP_ANNOTATION_AGAIN,
                        Kind::Option,
                        annotation.span,
                        format!("annotation '@app:{}' is given twice", annotation.name.text),
                        "given again: the first one applies",
                    )
                    .related(first, "first given here")
                    .help("keep one of them"),
                );
                continue;
            }
            match name.as_str() {
                "name" => match annotation.elements.first() {
                    Some(e) if !e.value.text.trim().is_empty() => {
                        self.plan.name = e.value.text.clone();
                    }
                    _ => self.bad_value(annotation.span, "the name of the app", "", "a text"),
                },
                "playback" => self.playback(annotation),
                "compat" => self.compat(annotation),
                "memory" => self.memory(annotation),
                "statistics" => self.statistics(annotation),
                "async" => self.report(
                    error(
                        code::APP_ASYNC,
                        Kind::Option,
                        annotation.span,
                        "'@app:async' is not a property of the whole app",
                        "not here",
                    )
                    .help("put @async(…) before the definition of each stream that should have it"),
                ),
                _ => {}
            }
            for element in &annotation.elements {
                let key = match &element.key {
                    Some(key) => format!("{}.{}", annotation.name.text, key.text),
                    None => annotation.name.text.clone(),
                };
                self.plan
                    .options
                    .annotations
                    .push((key, element.value.text.clone()));
            }
            if annotation.elements.is_empty() {
                let key = annotation.name.text.clone();
                self.plan.options.annotations.push((key, String::new()));
            }
        }
        if self.plan.name.is_empty() {
            "SiddhiApp".clone_into(&mut self.plan.name);
        }
    }

    fn compat(&mut self, annotation: &Annotation) {
        match annotation.elements.first() {
            Some(e) if e.value.text == "siddhi-5.1" => self.plan.options.compat = true,
            Some(e) => {
                let text = e.value.text.clone();
                self.bad_value(e.value.span, "'@app:compat'", &text, "'siddhi-5.1'");
            }
            None => self.bad_value(annotation.span, "'@app:compat'", "", "'siddhi-5.1'"),
        }
    }

    fn playback(&mut self, annotation: &Annotation) {
        let mut read = |key: &str| {
            let text = value(annotation, key)?;
            let millis = time_text(&text.text);
            if millis.is_none_or(|m| m <= 0) {
                self.bad_value(
                    text.span,
                    &format!("'{key}'"),
                    &text.text,
                    "a time such as '1 sec'",
                );
            }
            Some(millis.unwrap_or(1))
        };
        let (idle, increment) = (read("idle.time"), read("increment"));
        for element in &annotation.elements {
            let key = element.key.as_ref().map_or("", |k| k.text.as_str());
            let is_known = ["idle.time", "increment"]
                .iter()
                .any(|k| key.eq_ignore_ascii_case(k));
            if !is_known {
                let span = element.key.as_ref().map_or(element.value.span, |k| k.span);
                self.report(
                    error(
                        code::BAD_VALUE,
                        Kind::Option,
                        span,
                        format!("'@app:playback' has no option '{key}'"),
                        "no such option",
                    )
                    .did_you_mean(span, nearest(key, ["idle.time", "increment"])),
                );
            }
        }
        let idle = match (idle, increment) {
            (Some(idle), Some(increment)) => Some((idle, increment)),
            (None, None) => None,
            (one, _) => {
                let (given, missing) = if one.is_some() {
                    ("idle.time", "increment")
                } else {
                    ("increment", "idle.time")
                };
                self.report(
                    error(
                        code::MISSING_OPTION,
                        Kind::Option,
                        annotation.span,
                        format!("'@app:playback' has '{given}' but no '{missing}'"),
                        format!("'{missing}' is missing"),
                    )
                    .help("give both, or neither"),
                );
                None
            }
        };
        self.plan.options.playback = Some(plan::Playback { idle });
    }

    pub(super) fn stream_annotations(&mut self, id: StreamId, def: &ast::StreamDef, shape: &Shape) {
        for annotation in &def.annotations {
            if annotation.is("async") {
                self.plan.streams[id].deferred = self.deferred(annotation);
            } else if annotation.is("onerror") {
                self.on_error(id, annotation, shape);
            } else if annotation.is("source") {
                if let Some(source) = self.source(annotation, shape) {
                    self.plan.streams[id].sources.push(source);
                }
            } else if annotation.is("sink") {
                let has_fault = find(&def.annotations, "onerror")
                    .and_then(|a| value(a, "action"))
                    .is_some_and(|t| t.text.eq_ignore_ascii_case("stream"));
                if let Some(sink) = self.sink(annotation, shape, has_fault) {
                    self.plan.streams[id].sinks.extend(sink.spread());
                }
            } else if annotation.is("store") {
                self.report(
                    warning(
                        code::ANNOTATION_WITHOUT_EFFECT,
                        Kind::Option,
                        annotation.span,
                        "'@store' of a stream has no effect",
                        "a stream keeps nothing",
                    )
                    .help("define a table with it, and insert into the table"),
                );
            } else {
                self.unknown_annotation(annotation, &["source", "sink", "async", "OnError"]);
            }
        }
    }

    /// Siddhi ignores annotations it does not know; one that nearly has a known name is likely
    /// a slip.
    pub(super) fn unknown_annotation(&mut self, annotation: &Annotation, known: &[&str]) {
        let name = &annotation.name.text;
        if name.contains(':') || known.iter().any(|k| annotation.is(k)) {
            return;
        }
        let Some(near) = nearest(name, known.iter().copied()) else {
            return;
        };
        self.report(
            warning(
                code::UNKNOWN_ANNOTATION,
                Kind::Option,
                annotation.name.span,
                format!("annotation '@{name}' is not known and has no effect"),
                "no such annotation",
            )
            .did_you_mean(annotation.name.span, Some(near)),
        );
    }

    fn deferred(&mut self, annotation: &Annotation) -> Option<plan::Async> {
        let mut read = |key: &str, needed: &str, is_fine: fn(u32) -> bool| {
            let text = value(annotation, key)?;
            match text.text.trim().parse::<u32>().ok().filter(|v| is_fine(*v)) {
                Some(v) => Some(v),
                None => {
                    self.bad_value(text.span, &format!("'{key}'"), &text.text, needed);
                    None
                }
            }
        };
        let is_positive = |v: u32| v > 0;
        Some(plan::Async {
            buffer_size: read("buffer.size", "a power of two", u32::is_power_of_two)
                .unwrap_or(1024),
            workers: read("workers", "a number above zero", is_positive).unwrap_or(1),
            batch_size_max: read("batch.size.max", "a number above zero", is_positive),
        })
    }

    fn on_error(&mut self, id: StreamId, annotation: &Annotation, shape: &Shape) {
        let Some(action) = value(annotation, "action") else {
            self.report(
                error(
                    code::MISSING_OPTION,
                    Kind::Option,
                    annotation.span,
                    "'@OnError' needs an 'action'",
                    "'action' is missing",
                )
                .help("write @OnError(action='LOG'), 'STREAM' or 'STORE'"),
            );
            return;
        };
        match action.text.to_ascii_uppercase().as_str() {
            "LOG" => {}
            "STORE" => self.plan.streams[id].on_error = plan::OnError::Store,
            "STREAM" => {
                let mut fault = shape.clone();
                if let Some(taken) = fault.index_of("_error") {
                    let span = fault.fields[taken].span;
                    self.report(
                        error(
                            code::DUPLICATE_ATTRIBUTE,
                            Kind::Name,
                            span,
                            format!(
                                "the fault stream of '{}' would have two attributes '_error'",
                                shape.name
                            ),
                            "the fault stream adds an attribute of this name",
                        )
                        .related(annotation.span, "asked for here")
                        .help("give the attribute another name"),
                    );
                    return;
                }
                fault.push("_error", Some(event::Type::Object), annotation.span);
                let span = self.plan.streams[id].span;
                let fault = self.new_stream(fault, plan::StreamKind::Fault(id), false, span);
                self.fault_streams.insert(shape.name.clone(), fault);
                self.plan.streams[id].on_error = plan::OnError::Stream(fault);
            }
            other => {
                let near = nearest(other, ["LOG", "STREAM", "STORE"]);
                let d = error(
                    code::BAD_VALUE,
                    Kind::Option,
                    action.span,
                    format!("'@OnError' has no action '{}'", action.text),
                    "no such action",
                );
                self.report(match near {
                    Some(name) => d
                        .help(format!("did you mean '{name}'?"))
                        .fix(action.span, format!("'{name}'")),
                    None => d.help("the actions are 'LOG', 'STREAM' and 'STORE'"),
                });
            }
        }
    }

    /// `@info(name='…')`, unique over the app; else the ordinal's name.
    pub(super) fn element_name(&mut self, annotations: &[Annotation], ordinal: String) -> String {
        self.once_each(annotations, &["info"]);
        let name = find(annotations, "info").and_then(|info| value(info, "name"));
        for annotation in annotations {
            self.unknown_annotation(annotation, &["info", "synchronized", "purge", "dist"]);
        }
        let Some(name) = name else { return ordinal };
        if let Some(first) = self.query_names.get(&name.text) {
            let first = *first;
            self.report(
                error(
                    code::QUERY_NAME_TAKEN,
                    Kind::Name,
                    name.span,
                    format!("there are two queries '{}'", name.text),
                    "this name is taken",
                )
                .related(first, "first given here")
                .help("give one of them another name"),
            );
        } else {
            self.query_names.insert(name.text.clone(), name.span);
        }
        name.text.clone()
    }

    /// Indexes of the attributes that `@PrimaryKey` names.
    pub(super) fn primary_key(&mut self, def: &ast::TableDef, shape: &Shape) -> Vec<usize> {
        let Some(annotation) = find(&def.annotations, "primarykey") else {
            return Vec::new();
        };
        self.key_attributes(annotation, shape)
    }

    /// Indexes of the attributes that each `@Index` names, and what a store whose indexes have details
    /// is told besides.
    pub(super) fn indexes(
        &mut self,
        def: &ast::TableDef,
        shape: &Shape,
        is_external: bool,
        has_details: bool,
    ) -> (Vec<Vec<usize>>, Vec<IndexDetail>) {
        let mut indexes: Vec<Vec<usize>> = Vec::new();
        let mut details = Vec::new();
        for annotation in &def.annotations {
            if annotation.is("indexby") {
                self.report(
                    error(
                        code::INDEX_BY,
                        Kind::Option,
                        annotation.name.span,
                        "'@IndexBy' is no longer an annotation of a table",
                        "not since Siddhi 4",
                    )
                    .help("write @Index")
                    .fix(annotation.name.span, "Index"),
                );
                continue;
            }
            if !annotation.is("index") {
                self.unknown_annotation(annotation, &["PrimaryKey", "Index", "store", "cache"]);
                continue;
            }
            if !is_external && annotation.elements.len() > 1 {
                self.report(
                    error(
                        code::INDEX_OF_SEVERAL,
                        Kind::Option,
                        annotation.span,
                        format!(
                            "an index of a table in memory has one attribute, not {}",
                            annotation.elements.len()
                        ),
                        "more than one attribute",
                    )
                    .help("write one @Index('…') for each attribute"),
                );
                continue;
            }
            let mut detail = IndexDetail::default();
            let index = match has_details {
                true => {
                    let plain = self.index_details(annotation, shape, &mut detail);
                    self.key_attributes(&plain, shape)
                }
                false => self.key_attributes(annotation, shape),
            };
            if let Some(again) = indexes.iter().position(|i| *i == index) {
                let first = def.annotations.iter().filter(|a| a.is("index")).nth(again);
                self.report(
                    error(
                        code::ANNOTATION_AGAIN,
                        Kind::Option,
                        annotation.span,
                        format!("table '{}' has this index twice", shape.name),
                        "a second time",
                    )
                    .related(
                        first.map_or(annotation.span, |a| a.span),
                        "first given here",
                    )
                    .help("remove one of them"),
                );
            } else if !index.is_empty() {
                indexes.push(index);
                details.push(detail);
            }
        }
        (indexes, details)
    }

    /// Takes the order behind each attribute (`'a:-1'`) and the options in braces out of an `@Index`.
    fn index_details(
        &mut self,
        annotation: &Annotation,
        shape: &Shape,
        detail: &mut IndexDetail,
    ) -> Annotation {
        let mut plain = annotation.clone();
        if let Some(last) = plain.elements.last()
            && last.value.text.trim_start().starts_with('{')
        {
            let (text, span) = (last.value.text.trim().to_owned(), last.value.span);
            if serde_json::from_str::<serde_json::Map<_, _>>(&text).is_err() {
                self.bad_value(
                    span,
                    "the last part of '@Index'",
                    &text,
                    "an object of JSON",
                );
            }
            detail.options = Some(text);
            plain.elements.pop();
        }
        let mut seen = Vec::new();
        for element in &mut plain.elements {
            let text = element.value.text.trim();
            let (name, order) = match text.rsplit_once(':') {
                Some((name, order)) if shape.index_of(text).is_none() => (name, order.trim()),
                _ => (text, "1"),
            };
            if order != "1" && order != "-1" {
                let (span, text) = (element.value.span, text.to_owned());
                self.bad_value(span, "'@Index'", &text, "'attribute:1' or 'attribute:-1'");
            }
            let name = name.trim().to_owned();
            if !seen.contains(&name) {
                detail.descending.push(order == "-1");
                seen.push(name.clone());
            }
            element.value.text = name;
        }
        plain
    }

    fn key_attributes(&mut self, annotation: &Annotation, shape: &Shape) -> Vec<usize> {
        let mut attributes = Vec::new();
        if annotation.elements.is_empty() {
            self.bad_value(
                annotation.span,
                &format!("'@{}'", annotation.name.text),
                "",
                "an attribute of the table",
            );
        }
        for element in &annotation.elements {
            let text = element.value.text.trim();
            match shape.index_of(text) {
                Some(index) if attributes.contains(&index) => {}
                Some(index) => attributes.push(index),
                None if shape.is_open => {}
                None => {
                    let near = nearest(text, shape.names());
                    let d = error(
                        code::KEY_ATTRIBUTE,
                        Kind::Name,
                        element.value.span,
                        format!("table '{}' has no attribute '{text}'", shape.name),
                        format!("not an attribute that '@{}' can use", annotation.name.text),
                    );
                    self.report(match near {
                        Some(name) => d
                            .help(format!("did you mean '{name}'?"))
                            .fix(element.value.span, format!("'{name}'")),
                        None => d.help(format!("the table is {}", shape.signature())),
                    });
                }
            }
        }
        attributes
    }

    /// `@purge(enable='true', idle.period='…', interval='…')` of a partition.
    pub(super) fn partition_purge(&mut self, annotations: &[Annotation]) -> Option<(i64, i64)> {
        let annotation = find(annotations, "purge")?;
        self.once_each(annotations, &["purge"]);
        match value(annotation, "enable") {
            Some(t) if t.text.eq_ignore_ascii_case("true") => {}
            Some(t) if t.text.eq_ignore_ascii_case("false") => return None,
            Some(t) => {
                let text = t.text.clone();
                self.bad_value(t.span, "'enable' of '@purge'", &text, "'true' or 'false'");
                return None;
            }
            None => {
                self.missing_of(annotation, "@purge", "enable");
                return None;
            }
        }
        let Some(idle) = value(annotation, "idle.period") else {
            self.missing_of(annotation, "@purge", "idle.period");
            return None;
        };
        let mut read = |text: &Text, what: &str| match first_time_text(&text.text) {
            Some(millis) if millis > 0 => Some(millis),
            _ => {
                self.bad_value(text.span, what, &text.text, "a time such as '10 min'");
                None
            }
        };
        let idle = read(idle, "'idle.period' of '@purge'");
        let interval = match value(annotation, "interval") {
            Some(text) => read(text, "'interval' of '@purge'"),
            None => Some(300_000),
        };
        Some((idle?, interval?))
    }

    pub(super) fn missing_of(&mut self, annotation: &Annotation, whose: &str, option: &str) {
        self.report(
            error(
                code::MISSING_OPTION,
                Kind::Option,
                annotation.span,
                format!("'{whose}' needs '{option}'"),
                format!("'{option}' is missing"),
            )
            .help(format!("add {option}='…'")),
        );
    }
}
