//! Whole annotations: `@source`, `@sink` and `@store` with all that stands inside them.

use std::collections::BTreeMap;

use super::{
    Given, WithHelp, canonical, describe, finding, mapping, not_runnable, options, written,
};
use crate::Catalog;
use crate::codes::option as code;
use lang::ast::{Annotation, Text};
use lang::diagnostic::{Diagnostic, Fix, Kind, Severity};
use lang::span::Span;
use lang::suggest::nearest;
use plan::spec::{ConnectorKind, ConnectorSpec, OptionSpec, OptionType};

/// What the deployment file says about the options of annotations.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Deployed {
    /// The blocks that `ref='name'` stands for: options in order, `type` among them.
    pub refs: BTreeMap<String, Vec<(String, String)>>,
    pub settings: Vec<Setting>,
}

/// A setting of an extension (`siddhi: extensions:`). One that has the name of an option is the
/// value of that option where the annotation gives none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// `source`, `sink`, `sourceMapper`, `sinkMapper`, `store`.
    pub namespace: String,
    pub name: String,
    pub key: String,
    pub value: String,
}

impl Setting {
    fn is_of(&self, spec: &ConnectorSpec) -> bool {
        // Mappers are written in camel case there.
        let kind = spec.kind.name().replace('-', "");
        self.namespace.eq_ignore_ascii_case(&kind) && self.name == spec.name
    }
}

/// The stream or table that the annotation stands on.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub name: &'a str,
    pub attributes: &'a [&'a str],
    /// Some attributes are hidden by a fault: a name that is not found is no new fault.
    pub is_open: bool,
}

/// The outcome for one annotation.
#[derive(Clone, PartialEq, Debug)]
pub struct Validated<T> {
    /// What was understood; none where there is no such component.
    pub value: Option<T>,
    pub diagnostics: Vec<Diagnostic>,
    /// Known components that do not run yet, with their places.
    pub not_runnable: Vec<(String, Span)>,
}

impl<T> Validated<T> {
    fn new() -> Validated<T> {
        Validated {
            value: None,
            diagnostics: Vec::new(),
            not_runnable: Vec::new(),
        }
    }
}

/// A component found by `type` or `ref`, with all its options.
struct Found<'a> {
    spec: &'static ConnectorSpec,
    given: Vec<Given<'a>>,
    type_span: Span,
}

/// `@source(type='…', …, @map(…, @attributes(…)))`.
pub fn source(
    annotation: &Annotation,
    view: &View,
    catalog: &Catalog,
    deployed: &Deployed,
) -> Validated<plan::Transport> {
    let mut validated = Validated::new();
    let found = component(
        ConnectorKind::Source,
        annotation,
        catalog,
        deployed,
        &mut validated,
    );
    if let Some(found) = &found {
        validate_options(found, annotation, Some(view), &mut validated);
    }
    let map = mapper(
        ConnectorKind::SourceMapper,
        annotation,
        found.as_ref(),
        (catalog, deployed),
        &mut validated,
        |mapper, attributes, mapping| {
            let Some(found) = &found else {
                return Vec::new();
            };
            let (values, diagnostics) =
                mapping::attributes(found.spec, mapper.spec, &mapper.given, attributes, view);
            mapping.attributes = values;
            diagnostics
        },
    );
    only_nested(annotation, &["map"], &mut validated.diagnostics);
    validated.value = to_transport(annotation, found, map, None);
    validated
}

/// `@sink(type='…', …, @map(…, @payload(…)), @distribution(…))`.
pub fn sink(
    annotation: &Annotation,
    view: &View,
    catalog: &Catalog,
    deployed: &Deployed,
) -> Validated<plan::Transport> {
    let mut validated = Validated::new();
    let found = component(
        ConnectorKind::Sink,
        annotation,
        catalog,
        deployed,
        &mut validated,
    );
    let shared = annotation.nested("distribution");
    let distribution = match (&found, shared) {
        (Some(found), Some(shared)) => {
            distribution(shared, found, view, catalog, deployed, &mut validated)
        }
        (Some(found), None) => {
            validate_options(found, annotation, Some(view), &mut validated);
            None
        }
        (None, _) => None,
    };
    let map = mapper(
        ConnectorKind::SinkMapper,
        annotation,
        found.as_ref(),
        (catalog, deployed),
        &mut validated,
        |mapper, payload, mapping| {
            let (entries, diagnostics) =
                mapping::payload(mapper.spec, &mapper.given, payload, view);
            mapping.payload = entries;
            diagnostics
        },
    );
    only_nested(
        annotation,
        &["map", "distribution"],
        &mut validated.diagnostics,
    );
    validated.value = to_transport(annotation, found, map, distribution);
    validated
}

/// `@store(type='…', …, @cache(…))`.
pub fn store(
    annotation: &Annotation,
    catalog: &Catalog,
    deployed: &Deployed,
) -> Validated<plan::Store> {
    let mut validated = Validated::new();
    let found = component(
        ConnectorKind::Store,
        annotation,
        catalog,
        deployed,
        &mut validated,
    );
    let cache = annotation.nested("cache").map(|a| {
        validated
            .diagnostics
            .extend(options(&CACHE, &written(a), a.head(), None));
        written(a)
            .iter()
            .map(|g| (g.name.to_owned(), g.value.to_owned()))
            .collect()
    });
    only_nested(
        annotation,
        &["cache", "primarykey", "index"],
        &mut validated.diagnostics,
    );
    if let Some(found) = found {
        validate_options(&found, annotation, None, &mut validated);
        validated.value = Some(plan::Store {
            ty: found.spec.name.to_owned(),
            options: canonical(found.spec, &found.given),
            cache,
            selects: found.spec.selects,
            span: annotation.span,
        });
    }
    validated
}

fn validate_options<T>(
    found: &Found,
    annotation: &Annotation,
    view: Option<&View>,
    validated: &mut Validated<T>,
) {
    validated
        .diagnostics
        .extend(options(found.spec, &found.given, annotation.head(), view));
    validated
        .not_runnable
        .extend(not_runnable(found.spec, &found.given, found.type_span));
}

/// Finds the component that an annotation names, and merges the options of its `ref`.
fn component<'a, T>(
    kind: ConnectorKind,
    annotation: &'a Annotation,
    catalog: &Catalog,
    deployed: &'a Deployed,
    validated: &mut Validated<T>,
) -> Option<Found<'a>> {
    let (ty, mut given) = merged(annotation, deployed, &mut validated.diagnostics)?;
    let Some(ty) = ty else {
        validated.diagnostics.push(no_type(kind, annotation));
        return None;
    };
    let Some(spec) = catalog.connector(kind, ty.text) else {
        validated
            .diagnostics
            .push(unknown_component(kind, ty.text, ty.span, catalog));
        return None;
    };
    add_settings(&mut given, spec, ty.span, deployed);
    Some(Found {
        spec,
        given,
        type_span: ty.span,
    })
}

/// Settings of the extension that are the values of options nobody has given.
fn add_settings<'a>(
    given: &mut Vec<Given<'a>>,
    spec: &ConnectorSpec,
    span: Span,
    deployed: &'a Deployed,
) {
    for setting in deployed.settings.iter().filter(|s| s.is_of(spec)) {
        let is_given = given.iter().any(|g| g.name == setting.key);
        if is_given || spec.option(&setting.key).is_none() {
            continue;
        }
        given.push(Given {
            name: &setting.key,
            name_span: span,
            value: &setting.value,
            value_span: span,
        });
    }
}

/// `type` and `ref` match in any case, as in Siddhi; options do not.
pub(crate) fn in_any_case<'a>(annotation: &'a Annotation, key: &str) -> Option<&'a Text> {
    let has_key = |k: &lang::ast::Name| k.text.eq_ignore_ascii_case(key);
    annotation
        .elements
        .iter()
        .find(|e| e.key.as_ref().is_some_and(has_key))
        .map(|e| &e.value)
}

/// A text with the place to blame for it.
struct Placed<'a> {
    text: &'a str,
    span: Span,
}

/// `type` and options of an annotation, those of its `ref` included; none if there is no such block.
fn merged<'a>(
    annotation: &'a Annotation,
    deployed: &'a Deployed,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<(Option<Placed<'a>>, Vec<Given<'a>>)> {
    let mut ty = in_any_case(annotation, "type").map(|t| Placed {
        text: t.text.as_str(),
        span: t.span,
    });
    let mut given = written(annotation);
    let Some(name) = in_any_case(annotation, "ref") else {
        return Some((ty, given));
    };
    let Some(block) = deployed.refs.get(&name.text) else {
        diagnostics.push(unknown_ref(name, deployed));
        return None;
    };
    for (key, value) in block {
        if key == "type" {
            ty = ty.or(Some(Placed {
                text: value,
                span: name.span,
            }));
        } else if !given.iter().any(|g| g.name == key) {
            given.push(Given {
                name: key,
                name_span: name.span,
                value,
                value_span: name.span,
            });
        }
    }
    Some((ty, given))
}

fn unknown_ref(name: &Text, deployed: &Deployed) -> Diagnostic {
    let near = nearest(&name.text, deployed.refs.keys().map(String::as_str));
    let mut unknown = finding(
        code::UNKNOWN_REF,
        Severity::Error,
        name.span,
        format!("reference '{}' is not in the configuration", name.text),
        "no such block",
    )
    .with_help(match near {
        Some(near) => format!("did you mean '{near}'?"),
        None => "give the deployment file that has it under 'refs' with --config".to_owned(),
    });
    unknown.fix = near.map(|near| Fix {
        span: name.span,
        replacement: format!("'{near}'"),
    });
    unknown
}

fn no_type(kind: ConnectorKind, annotation: &Annotation) -> Diagnostic {
    finding(
        code::NO_TYPE,
        Severity::Error,
        annotation.head(),
        format!("'@{}' has no 'type'", annotation.name.text),
        "'type' is missing",
    )
    .with_help(format!("add type='…', the {} to use", kind.noun()))
}

fn unknown_component(kind: ConnectorKind, name: &str, span: Span, catalog: &Catalog) -> Diagnostic {
    let near = catalog.suggest_connector(kind, name);
    let mut unknown = finding(
        code::UNKNOWN_COMPONENT,
        Severity::Error,
        span,
        format!("there is no {} '{name}'", kind.noun()),
        "not known",
    )
    .with_help(match near {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("`headwater connectors` lists every {}", kind.noun()),
    });
    unknown.kind = if near.is_some() {
        Kind::Name
    } else {
        Kind::Unsupported
    };
    unknown.fix = near.map(|near| Fix {
        span,
        replacement: format!("'{near}'"),
    });
    unknown
}

/// The mapping of a source or sink. `read` reads the one annotation that its `@map` may hold:
/// `@attributes` of a source, `@payload` of a sink.
fn mapper<T>(
    kind: ConnectorKind,
    annotation: &Annotation,
    transport: Option<&Found>,
    (catalog, deployed): (&Catalog, &Deployed),
    validated: &mut Validated<T>,
    read: impl FnOnce(&Found, &Annotation, &mut plan::Mapping) -> Vec<Diagnostic>,
) -> Option<plan::Mapping> {
    let (mapper, written) = map(kind, annotation, catalog, deployed, validated)?;
    if let Some(transport) = transport {
        let span = written.map_or(annotation.head(), |_| mapper.type_span);
        validated
            .diagnostics
            .extend(no_common_payload(transport.spec, mapper.spec, span));
    }
    let mut mapping = to_mapping(&mapper, written.map_or(annotation.span, |map| map.span));
    let Some(written) = written else {
        return Some(mapping);
    };
    let nested = match kind {
        ConnectorKind::SourceMapper => "attributes",
        _ => "payload",
    };
    if let Some(nested) = written.nested(nested) {
        let diagnostics = read(&mapper, nested, &mut mapping);
        validated.diagnostics.extend(diagnostics);
    }
    only_nested(written, &[nested], &mut validated.diagnostics);
    Some(mapping)
}

/// The mapper of a source or sink: what `@map` says, or `passThrough`.
fn map<'a, T>(
    kind: ConnectorKind,
    annotation: &'a Annotation,
    catalog: &Catalog,
    deployed: &'a Deployed,
    validated: &mut Validated<T>,
) -> Option<(Found<'a>, Option<&'a Annotation>)> {
    let Some(map) = annotation.nested("map") else {
        let spec = catalog.connector(kind, "passThrough")?;
        let default = Found {
            spec,
            given: Vec::new(),
            type_span: annotation.span,
        };
        return Some((default, None));
    };
    let found = component(kind, map, catalog, deployed, validated)?;
    validate_options(&found, map, None, validated);
    for name in ["attributes", "payload"] {
        if let Some(again) = map.annotations.iter().filter(|a| a.is(name)).nth(1) {
            validated.diagnostics.push(
                finding(
                    code::BAD_MAPPING,
                    Severity::Error,
                    again.span,
                    format!("'@{name}' is given twice"),
                    "a second time",
                )
                .with_help("keep one of them"),
            );
        }
    }
    Some((found, Some(map)))
}

/// A transport and a mapper that cannot hand anything over (`keyvalue` on a file).
fn no_common_payload(
    transport: &ConnectorSpec,
    mapper: &ConnectorSpec,
    span: Span,
) -> Option<Diagnostic> {
    let fits = transport
        .payloads
        .iter()
        .any(|p| mapper.payloads.contains(p));
    if fits || transport.payloads.is_empty() || mapper.payloads.is_empty() {
        return None;
    }
    let names = |spec: &ConnectorSpec| {
        let names: Vec<&str> = spec.payloads.iter().map(|p| p.name()).collect();
        names.join(" or ")
    };
    let verb = if transport.kind == ConnectorKind::Source {
        "gives"
    } else {
        "takes"
    };
    Some(
        finding(
            code::NO_COMMON_PAYLOAD,
            Severity::Error,
            span,
            format!("{} does not fit {}", describe(mapper), describe(transport)),
            format!("a mapper of {} is needed", names(transport)),
        )
        .with_help(format!(
            "{} {verb} {}, the mapper is for {}; without '@map' the mapper is 'passThrough'",
            describe(transport),
            names(transport),
            names(mapper)
        )),
    )
}

fn to_mapping(found: &Found, span: Span) -> plan::Mapping {
    plan::Mapping {
        ty: found.spec.name.to_owned(),
        options: canonical(found.spec, &found.given),
        attributes: Vec::new(),
        payload: Vec::new(),
        span,
    }
}

fn to_transport(
    annotation: &Annotation,
    found: Option<Found>,
    map: Option<plan::Mapping>,
    distribution: Option<plan::Distribution>,
) -> Option<plan::Transport> {
    let (found, map) = (found?, map?);
    Some(plan::Transport {
        ty: found.spec.name.to_owned(),
        options: canonical(found.spec, &found.given),
        map,
        distribution,
        span: annotation.span,
    })
}

/// `@distribution(strategy='…', @destination(…), …)`: the options of the sink and those of each
/// destination together must be right.
fn distribution(
    annotation: &Annotation,
    sink: &Found,
    view: &View,
    catalog: &Catalog,
    deployed: &Deployed,
    validated: &mut Validated<plan::Transport>,
) -> Option<plan::Distribution> {
    validated
        .not_runnable
        .extend(not_runnable(sink.spec, &sink.given, sink.type_span));
    let mut destinations = Vec::new();
    for destination in annotation
        .annotations
        .iter()
        .filter(|a| a.is("destination"))
    {
        let Some((_, own)) = merged(destination, deployed, &mut validated.diagnostics) else {
            continue;
        };
        let shared = sink
            .given
            .iter()
            .filter(|g| !own.iter().any(|o| o.name == g.name));
        let together: Vec<Given> = own.iter().chain(shared).copied().collect();
        for diagnostic in options(sink.spec, &together, destination.head(), Some(view)) {
            // What the sink itself says is wrong once, not once for each destination.
            if !validated.diagnostics.contains(&diagnostic) {
                validated.diagnostics.push(diagnostic);
            }
        }
        destinations.push(canonical(sink.spec, &own));
    }
    only_nested(annotation, &["destination"], &mut validated.diagnostics);
    if destinations.is_empty() {
        validated.diagnostics.push(
            finding(
                code::MISSING,
                Severity::Error,
                annotation.head(),
                "'@distribution' has no '@destination'",
                "no target",
            )
            .with_help("add @destination(…) for each place that events go to"),
        );
    }
    let Some(strategy) = annotation.value("strategy") else {
        validated.diagnostics.push(
            finding(
                code::MISSING,
                Severity::Error,
                annotation.head(),
                "'@distribution' needs a 'strategy'",
                "'strategy' is missing",
            )
            .with_help("it is 'roundRobin', 'broadcast' or 'partitioned'"),
        );
        return None;
    };
    let kind = ConnectorKind::Distribution;
    let Some(spec) = catalog.connector(kind, &strategy.text) else {
        let unknown = unknown_component(kind, &strategy.text, strategy.span, catalog);
        validated.diagnostics.push(unknown);
        return None;
    };
    let given = written(annotation);
    validated
        .diagnostics
        .extend(options(spec, &given, annotation.head(), None));
    validated
        .not_runnable
        .extend(not_runnable(spec, &given, strategy.span));
    let partition_key = annotation.value("partitionKey").and_then(|key| {
        let at = view.attributes.iter().position(|a| *a == key.text);
        if at.is_none() {
            let names = [(key.text.as_str(), key.span)];
            validated
                .diagnostics
                .extend(mapping::unknown_attributes(&names, view));
        }
        at
    });
    Some(plan::Distribution {
        strategy: spec.name.to_owned(),
        partition_key,
        options: canonical(spec, &given),
        destinations,
        index: 0,
    })
}

/// Options of `@cache` inside `@store`.
const CACHE_OPTIONS: &[OptionSpec] = &[
    OptionSpec::new("size", OptionType::Int, "Most rows kept.").required(),
    OptionSpec::new(
        "cache.policy",
        OptionType::OneOf(&["FIFO", "LRU", "LFU"]),
        "Which row goes first.",
    ),
    OptionSpec::new(
        "retention.period",
        OptionType::Text,
        "Time after which a row is read again.",
    ),
    OptionSpec::new(
        "purge.interval",
        OptionType::Text,
        "How often old rows are removed.",
    ),
];

const CACHE: ConnectorSpec = ConnectorSpec {
    options: CACHE_OPTIONS,
    ..ConnectorSpec::new(
        ConnectorKind::Annotation,
        "@cache",
        "core",
        "Keeps rows of a store in memory.",
    )
};

/// Siddhi passes over nested annotations that it does not know; one that nearly has the name of a
/// known one is likely a slip.
fn only_nested(annotation: &Annotation, known: &[&str], diagnostics: &mut Vec<Diagnostic>) {
    for nested in &annotation.annotations {
        let name = nested.name.text.as_str();
        if known.iter().any(|k| nested.is(k)) {
            continue;
        }
        let near = nearest(name, known.iter().copied());
        let mut unknown = finding(
            code::UNKNOWN_NESTED,
            Severity::Warning,
            nested.name.span,
            format!(
                "'@{name}' has no meaning inside '@{}'",
                annotation.name.text
            ),
            "passed over",
        )
        .with_help(match near {
            Some(near) => format!("did you mean '@{near}'?"),
            None => "leave it out".to_owned(),
        });
        unknown.fix = near.map(|near| Fix {
            span: nested.name.span,
            replacement: near.to_owned(),
        });
        diagnostics.push(unknown);
    }
}
