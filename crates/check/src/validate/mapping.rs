//! `{{attribute}}` templates, `@attributes` of sources and `@payload` of sinks.

use super::{Given, View, WithHelp, describe, finding};
use crate::codes::option as code;
use lang::ast::{Annotation, AnnotationElement, Text};
use lang::diagnostic::{Diagnostic, Fix, Kind, Severity};
use lang::span::Span;
use lang::suggest::nearest;
use plan::spec::{ConnectorSpec, Mapping};

/// The names between `{{` and `}}` with their places. White space belongs to a name, as in Siddhi's
/// `TemplateBuilder`; a name never holds braces, quotes or line breaks.
pub fn templates(text: &str, literal: Span) -> Vec<(&str, Span)> {
    let quotes =
        (literal.end.saturating_sub(literal.start) as usize).saturating_sub(text.len()) / 2;
    let start = literal.start as usize + quotes;
    let mut names = Vec::new();
    let mut from = 0;
    while let Some(open) = text[from..].find("{{").map(|i| from + i + 2) {
        // Of `{{{x}}}` the inner pair counts.
        let open = open + text[open..].len() - text[open..].trim_start_matches('{').len();
        let Some(length) = text[open..].find("}}") else {
            break;
        };
        let name = &text[open..open + length];
        if is_name(name) {
            let place = Span::new(to_u32(start + open), to_u32(start + open + length));
            names.push((name, place));
            from = open + length + 2;
        } else {
            from = open;
        }
    }
    names
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains(['{', '}', '"', '\'', '\n', ':', ','])
}

fn to_u32(offset: usize) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}

/// A finding for each name that is not an attribute of the stream.
pub(super) fn unknown_attributes(names: &[(&str, Span)], view: &View) -> Vec<Diagnostic> {
    names
        .iter()
        .filter(|(name, _)| !view.is_open && !view.attributes.contains(name))
        .map(|(name, span)| unknown_attribute(name, *span, *span, view))
        .collect()
}

fn unknown_attribute(name: &str, span: Span, fix: Span, view: &View) -> Diagnostic {
    let near = nearest(name, view.attributes.iter().copied());
    let help = match near {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("its attributes are {}", view.attributes.join(", ")),
    };
    let mut unknown = finding(
        code::UNKNOWN_ATTRIBUTE,
        Severity::Error,
        span,
        format!("stream '{}' has no attribute '{name}'", view.name),
        "no such attribute",
    )
    .with_help(help);
    unknown.kind = Kind::Name;
    unknown.fix = near.map(|near| Fix {
        span: fix,
        replacement: near.to_owned(),
    });
    unknown
}

/// Validates `@attributes` and gives, for each attribute of the stream, what it is read from.
///
/// `source` tells the transport properties, `mapper` the form of all else, `options` are those of
/// the mapper.
pub fn attributes(
    source: &ConnectorSpec,
    mapper: &ConnectorSpec,
    options: &[Given],
    annotation: &Annotation,
    view: &View,
) -> (Vec<String>, Vec<Diagnostic>) {
    let mut found = Vec::new();
    let (named, plain): (Vec<_>, Vec<_>) =
        annotation.elements.iter().partition(|e| e.key.is_some());
    if let (Some(_), Some(stray)) = (named.first(), plain.first()) {
        let help = "name them all, or none";
        found.push(
            finding(
                code::MIXED_MAPPING,
                Severity::Error,
                stray.value.span,
                "some attributes are named in '@attributes' and some are not",
                "without a name",
            )
            .with_help(help),
        );
        return (Vec::new(), found);
    }
    let values = if plain.is_empty() {
        by_name(annotation, &named, view, &mut found)
    } else {
        by_position(annotation, &plain, view, &mut found)
    };
    for value in &values {
        path(source, mapper, options, value, &mut found);
    }
    (
        values.iter().map(|v| v.text.trim().to_owned()).collect(),
        found,
    )
}

fn by_name<'a>(
    annotation: &Annotation,
    named: &[&'a AnnotationElement],
    view: &View,
    found: &mut Vec<Diagnostic>,
) -> Vec<&'a Text> {
    let key = |e: &AnnotationElement| e.key.as_ref().map_or("", |k| k.text.as_str()).to_owned();
    let mut unmapped: Vec<&str> = view
        .attributes
        .iter()
        .copied()
        .filter(|a| !named.iter().any(|e| key(e) == *a))
        .collect();
    for element in named
        .iter()
        .filter(|e| !view.attributes.contains(&key(e).as_str()))
    {
        let name = key(element);
        if view.is_open {
            continue;
        }
        let span = element.key.as_ref().map_or(element.value.span, |k| k.span);
        let mut unknown = unknown_attribute(&name, span, span, view);
        match nearest(&name, unmapped.iter().copied()) {
            Some(meant) => unmapped.retain(|a| *a != meant),
            // Siddhi passes over names that the stream does not have.
            None => unknown.severity = Severity::Warning,
        }
        if unknown.severity == Severity::Warning {
            unknown.code = code::EXTRA_MAPPING;
        }
        found.push(unknown);
    }
    if !view.is_open {
        for name in unmapped {
            found.push(
                finding(
                    code::UNMAPPED,
                    Severity::Error,
                    annotation.head(),
                    format!("attribute '{name}' of stream '{}' is not mapped", view.name),
                    format!("'{name}' is missing"),
                )
                .with_help(format!("add {name}='…'")),
            );
        }
    }
    view.attributes
        .iter()
        .filter_map(|a| named.iter().rev().find(|e| key(e) == *a))
        .map(|e| &e.value)
        .collect()
}

fn by_position<'a>(
    annotation: &Annotation,
    plain: &[&'a AnnotationElement],
    view: &View,
    found: &mut Vec<Diagnostic>,
) -> Vec<&'a Text> {
    let (wanted, given) = (view.attributes.len(), plain.len());
    if wanted != given && !view.is_open {
        found.push(
            finding(
                code::UNMAPPED,
                Severity::Error,
                annotation.head(),
                format!(
                    "'@attributes' maps {given} of the {wanted} attributes of '{}'",
                    view.name
                ),
                format!("{wanted} are needed"),
            )
            .with_help(format!(
                "give one entry for each of {}",
                view.attributes.join(", ")
            )),
        );
    }
    plain.iter().map(|e| &e.value).collect()
}

/// One value of `@attributes`: a transport property, or what the mapper understands.
fn path(
    source: &ConnectorSpec,
    mapper: &ConnectorSpec,
    options: &[Given],
    value: &Text,
    found: &mut Vec<Diagnostic>,
) {
    let text = value.text.trim();
    if let Some(property) = text.strip_prefix("trp:") {
        let has = |name: &str| source.properties.contains(&name);
        // Of any name, but not what is nearly that of another.
        let is_known = has(property) || has("*") && near_property(source, property).is_none();
        if !is_known {
            found.push(unknown_property(source, property, value.span));
        }
        return;
    }
    match mapper.mapping {
        Mapping::Columns if text.parse::<u32>().is_err() => found.push(
            finding(
                code::BAD_MAPPING,
                Severity::Error,
                value.span,
                format!("'{text}' is not a column of {}", describe(mapper)),
                "a column number is needed",
            )
            .with_help("columns are counted from 0"),
        ),
        Mapping::Groups => {
            let id = text.split('[').next().unwrap_or(text);
            let name = format!("regex.{id}");
            if !options.iter().any(|o| o.name == name) {
                found.push(
                    finding(
                        code::UNKNOWN_PATTERN,
                        Severity::Warning,
                        value.span,
                        format!("there is no pattern '{name}': every message will be dropped"),
                        "no such pattern",
                    )
                    .with_help(format!("add {name}='…' to the mapper")),
                );
            }
        }
        _ => {}
    }
}

/// The property whose name the app may have meant.
fn near_property(source: &ConnectorSpec, property: &str) -> Option<&'static str> {
    let named = source.properties.iter().copied().filter(|p| *p != "*");
    nearest(property, named)
}

fn unknown_property(source: &ConnectorSpec, property: &str, span: Span) -> Diagnostic {
    let near = near_property(source, property);
    let help = match (near, source.properties) {
        (Some(near), _) => format!("did you mean 'trp:{near}'?"),
        (None, []) => format!("{} has none", describe(source)),
        (None, names) => format!("it has {}", names.join(", ")),
    };
    let mut unknown = finding(
        code::UNKNOWN_PROPERTY,
        Severity::Warning,
        span,
        format!(
            "{} has no transport property '{property}'",
            describe(source)
        ),
        "no such property",
    )
    .with_help(help);
    unknown.fix = near.map(|near| Fix {
        span,
        replacement: format!("'trp:{near}'"),
    });
    unknown
}

/// Validates `@payload` and gives its entries; the key is empty for one without a name. `options` are
/// those of the mapper.
pub fn payload(
    mapper: &ConnectorSpec,
    options: &[Given],
    annotation: &Annotation,
    view: &View,
) -> (Vec<(String, String)>, Vec<Diagnostic>) {
    let mut found = Vec::new();
    match (mapper.mapping, annotation.elements.as_slice()) {
        (_, []) => found.push(
            finding(
                code::BAD_PAYLOAD,
                Severity::Error,
                annotation.span,
                "'@payload' holds nothing",
                "a text is needed",
            )
            .with_help("write the text, or leave '@payload' out"),
        ),
        (Mapping::Template, [_, second, ..]) => found.push(
            finding(
                code::BAD_PAYLOAD,
                Severity::Error,
                second.value.span,
                format!("'@payload' of {} holds one text", describe(mapper)),
                "one too many",
            )
            .with_help("put all of it into one text"),
        ),
        _ => {}
    }
    // Mustache has sections, and a name it does not know is empty text.
    let is_mustache = options
        .iter()
        .any(|o| o.name == "mustache.enabled" && o.value.trim().eq_ignore_ascii_case("true"));
    for element in &annotation.elements {
        let value = &element.value;
        let text = value.text.trim();
        if !is_mustache {
            found.extend(unknown_attributes(
                &templates(&value.text, value.span),
                view,
            ));
        }
        if mapper.mapping == Mapping::Template && view.attributes.contains(&text) {
            found.push(
                finding(
                    code::BAD_PAYLOAD,
                    Severity::Error,
                    value.span,
                    format!(
                        "{} cannot hand over attribute '{text}' as an object",
                        describe(mapper)
                    ),
                    "a text is needed",
                )
                .with_help(format!("write '{{{{{text}}}}}' for its value as text")),
            );
        }
        if mapper.mapping == Mapping::ColumnEntries {
            column_entry(element, view, &mut found);
        }
    }
    let entries = annotation
        .elements
        .iter()
        .map(|e| {
            (
                e.key.as_ref().map_or("", |k| &k.text).to_owned(),
                e.value.text.clone(),
            )
        })
        .collect();
    (entries, found)
}

fn column_entry(element: &AnnotationElement, view: &View, found: &mut Vec<Diagnostic>) {
    let Some(key) = &element.key else { return };
    if !view.is_open && !view.attributes.contains(&key.text.as_str()) {
        found.push(unknown_attribute(&key.text, key.span, key.span, view));
    }
    if element.value.text.trim().parse::<u32>().is_err() {
        found.push(
            finding(
                code::BAD_MAPPING,
                Severity::Error,
                element.value.span,
                format!("'{}' is not a column", element.value.text),
                "a column number is needed",
            )
            .with_help("columns are counted from 0"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_templates() {
        let check = |literal: &str, expect: &[(&str, u32)]| {
            let text = literal.trim_matches(['"', '\'']);
            let span = Span::new(0, u32::try_from(literal.len()).expect("a short text"));
            let found: Vec<(&str, u32)> = templates(text, span)
                .into_iter()
                .map(|(n, s)| (n, s.start))
                .collect();
            assert_eq!(found, expect, "{literal}");
        };
        check("'plain'", &[]);
        check("'{{a}}'", &[("a", 3)]);
        check(r#""""{"data":{{data}} }""""#, &[("data", 13)]);
        check(r#""""{{{a}}}""""#, &[("a", 6)]);
        check("'{{ a }}'", &[(" a ", 3)]);
        check(r#"'{"x":{"y":1}}'"#, &[]);
        check("'{{a}}-{{b}}'", &[("a", 3), ("b", 9)]);
        check("'{{a'", &[]);
    }
}
