//! Apps and the topics of the gateway: what documents bind to streams becomes sinks and sources of these streams, the
//! same that `api=` makes.

use std::path::Path;

use check::codes::api as code;
use connect::net::gateway::News;
use gateway::document::{self, Document};
use gateway::model::{Api, Binding, Topic};
use lang::ast::App;
use lang::diagnostic::{Diagnostic, Kind, Severity};
use lang::span::Span;
use lang::suggest::nearest;
use plan::{Mapping, Output, Plan, Query, Stream, StreamKind, Transport};

use crate::deployment::{AppText, LoadedApp};

/// Is this the text of an API? By its name, and where that leaves it open by what it says.
pub(crate) fn is_document(text: &AppText) -> bool {
    let file = Path::new(&text.file);
    let is_app = file
        .extension()
        .is_some_and(|extension| extension == "siddhi");
    !is_app && (document::may_be_document(file) || document::is_document(&text.text))
}

/// Judges a document by itself.
pub(crate) fn load(text: &AppText) -> LoadedApp {
    let document = document::read(&text.text, &text.file);
    LoadedApp {
        file: text.file.clone(),
        text: text.text.clone(),
        name: document.name.clone(),
        diagnostics: document.diagnostics.clone(),
        text_as_run: text.text.clone(),
        sets_as_run: Vec::new(),
        plan: None,
        document: Some(Box::new(document)),
        is_app: false,
    }
}

/// The document within an app: `@App:asyncAPI("""…""")`, as Siddhi's editor writes it. Places are those in the text of
/// the app.
pub(crate) fn within(app: &App, file: &str) -> Option<Box<Document>> {
    let annotation = app.annotations.iter().find(|one| one.is("asyncAPI"))?;
    let value = &annotation.elements.first()?.value;
    let mut document = document::read(&value.text, file);
    if !value.text.contains("x-headwater") {
        // It describes the connectors of the app, and says nothing to a gateway: the app runs as it is.
        for fault in &mut document.diagnostics {
            fault.severity = Severity::Warning;
        }
    }
    // Its text stands between two or six quotation marks; only where it is as long as it is written are places known.
    let quotes = ((value.span.end - value.span.start) as usize).saturating_sub(value.text.len());
    let start = value.span.start + (quotes / 2) as u32;
    let moved = |span: Span| match quotes {
        2 | 6 => Span::new(span.start + start, span.end + start),
        _ => value.span,
    };
    for diagnostic in &mut document.diagnostics {
        diagnostic.span = moved(diagnostic.span);
        for (span, _) in &mut diagnostic.related {
            *span = moved(*span);
        }
        diagnostic.fix = None;
    }
    for place in &mut document.streams {
        (place.stream, place.key) = (moved(place.stream), moved(place.key));
    }
    document.title = moved(document.title);
    Some(Box::new(document))
}

/// The documents among what was loaded, with their numbers.
fn documents(apps: &[LoadedApp]) -> impl Iterator<Item = (usize, &Document)> {
    let all = apps.iter().enumerate();
    all.filter_map(|(at, app)| Some((at, app.document.as_deref()?)))
}

/// The APIs of documents without errors.
pub fn apis(apps: &[LoadedApp]) -> Vec<Api> {
    documents(apps)
        .filter_map(|(_, document)| document.api.clone())
        .collect()
}

/// Judges documents together, and with the apps whose streams they name. `must_run`: all apps are there.
pub(crate) fn judge_together(apps: &mut [LoadedApp], must_run: bool) {
    let mut found: Vec<(usize, Diagnostic)> = Vec::new();
    let all: Vec<(usize, &Document)> = documents(apps).collect();
    let named: Vec<(&str, &Document)> = all
        .iter()
        .map(|(at, document)| (apps[*at].file.as_str(), *document))
        .collect();
    for (number, diagnostic) in document::conflicts(&named) {
        found.push((all[number].0, diagnostic));
    }
    for (at, document) in &all {
        let Some(api) = &document.api else { continue };
        for place in &document.streams {
            let topic = &api.topics[place.topic];
            let faults = stream_faults(topic, (place.stream, place.key), apps, must_run);
            found.extend(faults.into_iter().map(|fault| (*at, fault)));
        }
    }
    for (at, app) in apps.iter().enumerate() {
        let Some(plan) = &app.plan else { continue };
        let faults =
            listening(plan).flat_map(|(number, news)| news_faults(&plan.streams[number], news));
        found.extend(faults.map(|fault| (at, fault)));
    }
    for (at, diagnostic) in found {
        let app = &mut apps[at];
        app.diagnostics.push(diagnostic);
        app.diagnostics.sort_by_key(|d| (d.span.start, d.span.end));
        if let Some(document) = &mut app.document {
            document.api = None;
        }
        if app.has_errors() {
            app.plan = None;
        }
    }
}

fn unknown(message: String, span: Span, label: &str, help: Option<String>) -> Diagnostic {
    Diagnostic {
        code: code::UNKNOWN_NAME,
        severity: Severity::Error,
        kind: Kind::Name,
        message,
        span,
        label: label.to_owned(),
        related: Vec::new(),
        help,
        fix: None,
    }
}

fn meant(name: &str, known: &[&str]) -> Option<String> {
    match nearest(name, known.iter().copied()) {
        Some(near) => Some(format!("did you mean '{near}'?")),
        None if known.is_empty() => None,
        None => Some(format!("there is {}", known.join(", "))),
    }
}

/// What is wrong with the stream that a topic is bound to.
fn stream_faults(
    topic: &Topic,
    (stream_span, key_span): (Span, Span),
    apps: &[LoadedApp],
    must_run: bool,
) -> Vec<Diagnostic> {
    let Binding::Stream { app, stream, keys } = &topic.binding else {
        return Vec::new();
    };
    let others: Vec<&LoadedApp> = apps.iter().filter(|app| app.is_app).collect();
    let Some(found) = others.iter().find(|other| other.name == *app) else {
        if others.is_empty() && !must_run {
            // The document is judged without its apps.
            return Vec::new();
        }
        let known: Vec<&str> = others.iter().map(|app| app.name.as_str()).collect();
        let said = format!("there is no app '{app}'");
        let help =
            meant(app, &known).or_else(|| Some("name the file of the app as well".to_owned()));
        return vec![unknown(said, stream_span, "no app has this name", help)];
    };
    // An app with errors has said so.
    let Some(plan) = &found.plan else {
        return Vec::new();
    };
    let Some(definition) = plan.streams.iter().find(|own| is_called(own, stream)) else {
        let known = plan
            .streams
            .iter()
            .filter(|own| matches!(own.kind, StreamKind::Plain));
        let known: Vec<&str> = known.map(|own| own.schema.name.as_str()).collect();
        let said = format!("app '{app}' has no stream '{stream}'");
        return vec![unknown(
            said,
            stream_span,
            "there is none",
            meant(stream, &known),
        )];
    };
    let attributes = definition.schema.attributes.iter();
    let attributes: Vec<&str> = attributes
        .map(|attribute| attribute.name.as_str())
        .collect();
    let missing = keys
        .iter()
        .filter(|key| !attributes.contains(&key.as_str()));
    let missing = missing.map(|key| {
        let said = format!(
            "stream '{stream}' has no attribute '{key}', which would give the address its parameter"
        );
        let help = meant(key, &attributes).map(|help| format!("{help}; name it by 'key'"));
        unknown(said, key_span, "no attribute gives it", help)
    });
    missing.collect()
}

/// The streams of an app that hear what the gateway does: those of its names that nothing else feeds.
fn listening(plan: &Plan) -> impl Iterator<Item = (usize, News)> {
    let streams = plan.streams.iter().enumerate();
    streams.filter_map(|(number, stream)| {
        let news = News::of_stream(&stream.schema.name)?;
        let is_fed = |query: &Query| matches!(query.output, Output::Stream(id) if id == number);
        let is_free = stream.is_defined
            && matches!(stream.kind, StreamKind::Plain)
            && stream.sources.is_empty()
            && !plan.queries.iter().any(is_fed);
        is_free.then_some((number, news))
    })
}

/// Attributes that no event of the gateway has, or has as another type.
fn news_faults(stream: &Stream, news: News) -> Vec<Diagnostic> {
    let known = news.attributes();
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    let name = &stream.schema.name;
    let attributes = stream.schema.attributes.iter();
    let faults = attributes.filter_map(|attribute| {
        let found = known.iter().find(|(name, _)| *name == attribute.name);
        Some(match found {
            Some((_, ty)) if *ty == attribute.ty => return None,
            Some((_, ty)) => Diagnostic {
                code: code::BAD_VALUE,
                kind: Kind::Type,
                ..unknown(
                    format!("attribute '{}' of stream '{name}' is a {}, and events of the gateway have a {ty}", attribute.name, attribute.ty),
                    stream.span,
                    "another type",
                    Some(format!("write '{} {ty}'", attribute.name)),
                )
            },
            None => unknown(
                format!("events of the gateway for stream '{name}' have no '{}'", attribute.name),
                stream.span,
                "there is none",
                meant(&attribute.name, &names),
            ),
        })
    });
    faults.collect()
}

/// The source of a stream that hears what the gateway does.
fn news_source(stream: &Stream, news: News) -> Transport {
    let option = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let attributes = stream.schema.attributes.iter();
    Transport {
        ty: "websocket-server".to_owned(),
        options: vec![option("api", "gateway"), option("news", news.stream())],
        map: Mapping {
            ty: "json".to_owned(),
            // What is not known of an event is null.
            options: vec![option("fail.on.missing.attribute", "false")],
            attributes: attributes
                .map(|attribute| format!("$.{}", attribute.name))
                .collect(),
            payload: Vec::new(),
            span: Span::default(),
        },
        distribution: None,
        span: Span::default(),
    }
}

fn is_called(stream: &Stream, name: &str) -> bool {
    stream.schema.name == name && matches!(stream.kind, StreamKind::Plain | StreamKind::Trigger)
}

/// Adds to an app what documents bind to its streams, and to what its connectors attach to the attributes that give
/// the parameters of addresses. What was added, as text: two apps are the same only with the same of it.
pub(crate) fn attach(plan: &mut Plan, apis: &[Api]) -> String {
    let mut added = String::new();
    for api in apis {
        for topic in &api.topics {
            let Binding::Stream { app, stream, keys } = &topic.binding else {
                continue;
            };
            if *app != plan.name {
                continue;
            }
            let Some(stream) = plan.streams.iter_mut().find(|own| is_called(own, stream)) else {
                continue;
            };
            added.push_str(&format!(
                "{}/{}{} {keys:?} ",
                api.name,
                api.version,
                topic.address()
            ));
            if topic.subscribe.is_some() {
                added.push_str("out ");
                stream.sinks.push(transport("sse-server", api, topic, keys));
            }
            if topic.publish.is_some() {
                added.push_str("in ");
                stream
                    .sources
                    .push(transport("websocket-server", api, topic, &[]));
            }
        }
    }
    let news: Vec<(usize, News)> = listening(plan).collect();
    for (number, news) in news {
        let stream = &mut plan.streams[number];
        added.push_str(&format!("{} ", news.stream()));
        let source = news_source(stream, news);
        stream.sources.push(source);
    }
    for stream in &mut plan.streams {
        let attributes: Vec<String> = stream
            .schema
            .attributes
            .iter()
            .map(|attribute| attribute.name.clone())
            .collect();
        for sink in &mut stream.sinks {
            add_parameters(sink, &attributes);
        }
    }
    added
}

/// A connector that attaches a stream to a topic of a document.
fn transport(ty: &str, api: &Api, topic: &Topic, keys: &[String]) -> Transport {
    let option = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut options = vec![
        option("api", &api.name),
        option("version", &api.version),
        option("topic", topic.address()),
    ];
    for (parameter, key) in topic.parameters().iter().zip(keys) {
        options.push((format!("topic.{parameter}"), format!("{{{{{key}}}}}")));
    }
    Transport {
        ty: ty.to_owned(),
        options,
        map: Mapping {
            ty: "json".to_owned(),
            options: Vec::new(),
            attributes: Vec::new(),
            payload: Vec::new(),
            span: Span::default(),
        },
        distribution: None,
        span: Span::default(),
    }
}

/// `topic.symbol='{{symbol}}'` for each parameter of the address that an attribute gives.
fn add_parameters(sink: &mut Transport, attributes: &[String]) {
    if sink.option("api").is_none() {
        return;
    }
    let topic = sink.option("topic").unwrap_or_default();
    let names = topic
        .split('{')
        .skip(1)
        .filter_map(|part| part.split('}').next());
    let names: Vec<String> = names.map(str::to_owned).collect();
    for name in names {
        let option = format!("topic.{name}");
        if sink.option(&option).is_none() && attributes.contains(&name) {
            sink.options.push((option, format!("{{{{{name}}}}}")));
        }
    }
}
