//! Validates the options of one annotation against the spec of its component.
//!
//! Promises: what Siddhi refuses when it creates the app is an error, at the option to blame; what
//! it silently ignores (an option that is not known, one without effect) is a warning. Options may
//! also come from a block of the deployment file (`ref='name'`); what is written in the app wins.
//!
//! Never: a look at the outside. Whether a file or a server is there is the connector's business.

mod mapping;
mod transport;
mod value;

#[cfg(test)]
mod tests;

pub use mapping::{attributes, payload};
pub(crate) use transport::in_any_case;
pub use transport::{Deployed, Setting, Validated, View, sink, source, store};

use crate::codes::option as code;
use lang::ast::Annotation;
use lang::diagnostic::{Diagnostic, Fix, Kind, Severity};
use lang::span::Span;
use lang::suggest::nearest;
use plan::spec::{ConnectorKind, ConnectorSpec, Fact, OptionSpec, OptionStatus, Rule, Status};

/// One option with its place.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    pub name: &'a str,
    pub name_span: Span,
    pub value: &'a str,
    /// With the quotes.
    pub value_span: Span,
}

/// The options that an annotation writes, without `type` and `ref`. Values without a name are no
/// options; Siddhi passes over them.
pub fn written(annotation: &Annotation) -> Vec<Given<'_>> {
    annotation
        .elements
        .iter()
        .filter_map(|e| {
            let key = e.key.as_ref()?;
            let is_option = !["type", "ref"]
                .iter()
                .any(|n| key.text.eq_ignore_ascii_case(n));
            is_option.then_some(Given {
                name: &key.text,
                name_span: key.span,
                value: &e.value.text,
                value_span: e.value.span,
            })
        })
        .collect()
}

/// Validates the options of a component. `annotation` is blamed for what is missing; `view` tells the
/// attributes that `{{…}}` may name, where the component stands on a stream.
pub fn options(
    spec: &ConnectorSpec,
    given: &[Given],
    annotation: Span,
    view: Option<&View>,
) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let missing: Vec<&OptionSpec> = spec
        .all_options()
        .filter(|o| o.required && !given.iter().any(|g| o.matches(g.name)))
        .collect();
    let mut explained = Vec::new();
    let runs = not_runnable(spec, given, annotation).is_none();
    for (i, option) in given.iter().enumerate() {
        if let Some(again) = given[i + 1..].iter().find(|g| g.name == option.name) {
            found.push(written_twice(option, again));
        }
        match spec.option(option.name) {
            Some(known) => {
                one(spec, known, option, view, &mut found);
                // What does not run has no effects to speak of.
                if runs {
                    found.extend(without_effect(spec, known, option));
                }
            }
            None if option.name.starts_with("dep:") => {
                if !spec.exposes_service {
                    found.push(deployment_property(spec, option));
                }
            }
            None => {
                let meant = nearest(option.name, missing.iter().map(|o| o.name));
                explained.extend(meant);
                found.push(unknown_option(spec, option, meant));
            }
        }
    }
    for option in missing.iter().filter(|o| !explained.contains(&o.name)) {
        found.push(
            finding(
                code::MISSING,
                Severity::Error,
                annotation,
                format!("{} needs option '{}'", describe(spec), option.name),
                format!("'{}' is missing", option.name),
            )
            .with_help(format!(
                "add {}='…': {}",
                option.name,
                first_sentence(option.doc)
            )),
        );
    }
    for rule in spec.rules {
        found.extend(broken_rule(spec, rule, given, annotation));
    }
    found
}

/// The options in the names of the spec, the last of equal names alone: what the connector reads.
pub fn canonical(spec: &ConnectorSpec, given: &[Given]) -> Vec<(String, String)> {
    let mut options: Vec<(String, String)> = Vec::new();
    for option in given {
        let name = match spec.option(option.name) {
            Some(known) if !known.name.ends_with('*') => known.name,
            _ => option.name,
        };
        match options.iter_mut().find(|(n, _)| n == name) {
            Some((_, value)) => option.value.clone_into(value),
            None => options.push((name.to_owned(), option.value.to_owned())),
        }
    }
    options
}

/// What keeps a component from running although its options are right, with the place to blame.
pub fn not_runnable(
    spec: &ConnectorSpec,
    given: &[Given],
    type_span: Span,
) -> Option<(String, Span)> {
    if spec.status == Status::Known {
        return Some((
            format!("{} is known but does not run yet", describe(spec)),
            type_span,
        ));
    }
    given.iter().find_map(|g| {
        let known = spec.option(g.name)?;
        let start = known
            .not_yet
            .iter()
            .find(|start| starts_with_ignore_case(g.value.trim(), start))?;
        let message = format!(
            "{} does not run yet with '{start}' in option '{}'",
            describe(spec),
            g.name
        );
        Some((message, g.value_span))
    })
}

fn starts_with_ignore_case(text: &str, start: &str) -> bool {
    text.get(..start.len())
        .is_some_and(|t| t.eq_ignore_ascii_case(start))
}

fn one(
    spec: &ConnectorSpec,
    known: &OptionSpec,
    given: &Given,
    view: Option<&View>,
    found: &mut Vec<Diagnostic>,
) {
    let names = mapping::templates(given.value, given.value_span);
    if !names.is_empty() && known.dynamic {
        if let Some(view) = view {
            found.extend(mapping::unknown_attributes(&names, view));
        }
    } else if !names.is_empty() && !known.name.ends_with('*') {
        found.push(not_dynamic(spec, given));
    } else {
        found.extend(value::judge(known, given));
    }
}

fn without_effect(spec: &ConnectorSpec, known: &OptionSpec, given: &Given) -> Option<Diagnostic> {
    match known.status {
        OptionStatus::Honoured => None,
        OptionStatus::Ignored => Some(
            finding(
                code::IGNORED,
                Severity::Warning,
                given.name_span,
                format!(
                    "option '{}' of {} has no effect",
                    given.name,
                    describe(spec)
                ),
                "without effect",
            )
            .with_help(first_sentence(known.doc)),
        ),
        OptionStatus::Refused => Some(
            finding(
                code::REFUSED,
                Severity::Error,
                given.name_span,
                format!(
                    "option '{}' of {} is not supported",
                    given.name,
                    describe(spec)
                ),
                "not supported",
            )
            .with_help(format!("leave it out: {}", first_sentence(known.doc))),
        ),
    }
}

fn written_twice(first: &Given, again: &Given) -> Diagnostic {
    let mut twice = finding(
        code::TWICE,
        Severity::Warning,
        again.name_span,
        format!("option '{}' is given twice", again.name),
        "the last one applies",
    )
    .with_help("keep one of them");
    twice
        .related
        .push((first.name_span, "first given here".to_owned()));
    twice
}

fn deployment_property(spec: &ConnectorSpec, given: &Given) -> Diagnostic {
    finding(
        code::DEPLOYMENT_PROPERTY,
        Severity::Error,
        given.name_span,
        format!(
            "{} takes no deployment property '{}'",
            describe(spec),
            given.name
        ),
        "it exposes no service",
    )
    .with_help("leave it out")
}

fn not_dynamic(spec: &ConnectorSpec, given: &Given) -> Diagnostic {
    let dynamic: Vec<&str> = spec
        .all_options()
        .filter(|o| o.dynamic)
        .map(|o| o.name)
        .collect();
    let help = match dynamic.as_slice() {
        [] => format!(
            "no option of {} may hold one; write the value itself",
            describe(spec)
        ),
        names => format!("only these may hold one: {}", names.join(", ")),
    };
    finding(
        code::NOT_DYNAMIC,
        Severity::Error,
        given.value_span,
        format!(
            "option '{}' of {} cannot hold an attribute",
            given.name,
            describe(spec)
        ),
        "the value must be fixed",
    )
    .with_help(help)
}

fn unknown_option(spec: &ConnectorSpec, given: &Given, missing: Option<&str>) -> Diagnostic {
    let names = spec
        .all_options()
        .flat_map(|o| std::iter::once(o.name).chain(o.aliases.to_vec()));
    let near = missing.or_else(|| nearest(given.name, names.filter(|n| !n.ends_with('*'))));
    let (code, severity, label) = match missing {
        Some(_) => (
            code::MISSING,
            Severity::Error,
            "no such option, and a needed one is missing",
        ),
        None => (code::UNKNOWN, Severity::Warning, "no such option"),
    };
    let message = match missing {
        Some(name) => {
            format!(
                "{} needs option '{name}', but has '{}'",
                describe(spec),
                given.name
            )
        }
        None => format!(
            "{} has no option '{}': it is ignored",
            describe(spec),
            given.name
        ),
    };
    let mut unknown = finding(code, severity, given.name_span, message, label);
    unknown.help = Some(match near {
        Some(name) => format!("did you mean '{name}'?"),
        None if spec.kind == ConnectorKind::Annotation => {
            let names: Vec<&str> = spec.all_options().map(|o| o.name).collect();
            format!("its options are {}", names.join(", "))
        }
        None => format!("`headwater connectors {}` lists its options", spec.name),
    });
    unknown.fix = near.map(|name| Fix {
        span: given.name_span,
        replacement: name.to_owned(),
    });
    unknown
}

fn broken_rule(
    spec: &ConnectorSpec,
    rule: &Rule,
    given: &[Given],
    annotation: Span,
) -> Option<Diagnostic> {
    let find = |name: &str| {
        let option = spec.option(name)?;
        given.iter().find(|g| option.matches(g.name))
    };
    let place = |names: &[&str]| {
        names
            .iter()
            .find_map(|n| find(n))
            .map_or(annotation, |g| g.name_span)
    };
    match rule {
        Rule::ExactlyOne(names) => {
            let present: Vec<&Given> = names.iter().filter_map(|n| find(n)).collect();
            match present.as_slice() {
                [] => Some(one_of_missing(spec, names, annotation)),
                [_] => None,
                [first, second, ..] => {
                    let mut both = finding(
                        code::RULE,
                        Severity::Error,
                        second.name_span,
                        format!(
                            "options '{}' and '{}' of {} exclude each other",
                            first.name,
                            second.name,
                            describe(spec)
                        ),
                        "one too many",
                    )
                    .with_help("keep one of them");
                    both.related
                        .push((first.name_span, "the other one".to_owned()));
                    Some(both)
                }
            }
        }
        Rule::AnyOf(names) => {
            let none = names.iter().all(|n| find(n).is_none());
            none.then(|| one_of_missing(spec, names, annotation))
        }
        Rule::Together(names) => {
            let present = names.iter().find(|n| find(n).is_some())?;
            let absent = names.iter().find(|n| find(n).is_none())?;
            Some(
                finding(
                    code::RULE,
                    Severity::Error,
                    place(&[present]),
                    format!("option '{present}' needs option '{absent}'"),
                    format!("'{absent}' is missing"),
                )
                .with_help("give both, or neither"),
            )
        }
        Rule::Never {
            when,
            at,
            message,
            help,
        } => holds(spec, when, given).then(|| {
            finding(
                code::RULE,
                Severity::Error,
                place(at),
                *message,
                "not in this combination",
            )
            .with_help(*help)
        }),
    }
}

fn one_of_missing(spec: &ConnectorSpec, names: &[&str], annotation: Span) -> Diagnostic {
    let list = names
        .iter()
        .map(|n| format!("'{n}'"))
        .collect::<Vec<_>>()
        .join(" or ");
    finding(
        code::MISSING,
        Severity::Error,
        annotation,
        format!("{} needs option {list}", describe(spec)),
        format!("{list} is missing"),
    )
    .with_help(format!(
        "add {}='…'",
        names.first().copied().unwrap_or_default()
    ))
}

fn holds(spec: &ConnectorSpec, fact: &Fact, given: &[Given]) -> bool {
    let find = |name: &str| {
        let option = spec.option(name)?;
        given
            .iter()
            .rev()
            .find(|g| option.matches(g.name))
            .map(|g| g.value)
    };
    match fact {
        Fact::Given(name) => find(name).is_some(),
        Fact::Absent(name) => find(name).is_none(),
        Fact::Is(name, values) => {
            let value = find(name).or_else(|| spec.option(name).map(|o| o.default));
            value.is_some_and(|v| values.iter().any(|w| v.trim().eq_ignore_ascii_case(w)))
        }
        Fact::All(facts) => facts.iter().all(|f| holds(spec, f, given)),
        Fact::Any(facts) => facts.iter().any(|f| holds(spec, f, given)),
    }
}

/// `source 'kafka'`.
pub(crate) fn describe(spec: &ConnectorSpec) -> String {
    format!("{} '{}'", spec.kind.noun(), spec.name)
}

fn first_sentence(doc: &str) -> String {
    let mut text = doc.trim_end_matches('.').chars();
    match text.next() {
        Some(first) => first.to_lowercase().chain(text).collect(),
        None => String::new(),
    }
}

fn finding(
    code: &'static str,
    severity: Severity,
    span: Span,
    message: impl Into<String>,
    label: impl Into<String>,
) -> Diagnostic {
    Diagnostic {
        code,
        severity,
        kind: Kind::Option,
        message: message.into(),
        span,
        label: label.into(),
        related: Vec::new(),
        help: None,
        fix: None,
    }
}

trait WithHelp {
    fn with_help(self, help: impl Into<String>) -> Self;
}

impl WithHelp for Diagnostic {
    fn with_help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }
}
