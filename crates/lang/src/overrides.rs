//! `--set` and `--replace`: changes to an app's options and texts before it is checked.
//!
//! Promises: what is named must be there, once; otherwise nothing is changed and the error names
//! the candidates. Spans stay those of the text, so findings about a changed value show the place
//! it came to.

use thiserror::Error;

use crate::ast::{
    Annotation, AnnotationElement, App, Args, Element, Expr, ExprKind, Handler, Input, JoinInput,
    Literal, Name, NullTarget, Output, Partition, PartitionBy, PatternElement, Query, Selector,
    SetItem, SingleInput, Text, TriggerAt,
};
use crate::suggest::nearest;

/// Why a change cannot be made.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Error {
    #[error("'{setting}' has no option and value; write [App/]Element.annotation[N].option=value")]
    Form { setting: String },
    #[error(
        "there is no app '{name}' to set an option of; there is {}",
        list(candidates)
    )]
    NoApp {
        name: String,
        candidates: Vec<String>,
    },
    #[error("no app has an element '{name}'{}", meant(nearest, candidates))]
    NoElement {
        name: String,
        nearest: Option<String>,
        candidates: Vec<String>,
    },
    #[error(
        "several apps have an element '{name}': write one of {}",
        list(candidates)
    )]
    SeveralElements {
        name: String,
        candidates: Vec<String>,
    },
    #[error("'{element}' has no annotation '@{name}'{}", meant(&None, candidates))]
    NoAnnotation {
        element: String,
        name: String,
        candidates: Vec<String>,
    },
    #[error("'{element}' has {} annotations '@{name}': write one of {}", candidates.len(), list(candidates))]
    SeveralAnnotations {
        element: String,
        name: String,
        candidates: Vec<String>,
    },
    #[error("'{old}' does not occur in any string of the app{}", meant(&None, candidates))]
    NoText {
        old: String,
        candidates: Vec<String>,
    },
    #[error("there is nothing to replace: the text before '=' is empty")]
    EmptyText,
}

fn list(candidates: &[String]) -> String {
    candidates
        .iter()
        .map(|c| format!("'{c}'"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn meant(nearest: &Option<String>, candidates: &[String]) -> String {
    match (nearest, candidates) {
        (Some(name), _) => format!("; did you mean '{name}'?"),
        (None, []) => String::new(),
        (None, candidates) => format!("; there is {}", list(candidates)),
    }
}

/// The name that `@app:name` gives.
pub fn app_name(app: &App) -> Option<&str> {
    let name = app.annotations.iter().find(|a| a.is("name"))?;
    name.elements.first().map(|e| e.value.text.as_str())
}

/// Overrides or adds an option: `[App/]Element.annotation[N].option=value`, N counted from 1.
/// `Element` is the name of a definition or of a query (`@info(name=…)`).
pub fn apply_set(apps: &mut [App], setting: &str) -> Result<(), Error> {
    let form = || Error::Form {
        setting: setting.to_owned(),
    };
    let (path, value) = setting.split_once('=').ok_or_else(form)?;
    let (app, path) = match path.rsplit_once('/') {
        Some((app, path)) => (Some(app), path),
        None => (None, path),
    };
    let (element, rest) = path.split_once('.').ok_or_else(form)?;
    if element.is_empty() || rest.is_empty() {
        return Err(form());
    }
    let app = owner(apps, app, element)?;
    let annotations = apps[app]
        .elements
        .iter_mut()
        .find_map(|e| annotations_of(e, element))
        .ok_or_else(form)?;
    let segments: Vec<&str> = rest.split('.').collect();
    set(annotations, element, &segments, value, form)
}

/// Which app has the element.
fn owner(apps: &[App], app: Option<&str>, element: &str) -> Result<usize, Error> {
    let name_of = |app: &App| app_name(app).unwrap_or("SiddhiApp").to_owned();
    if let Some(name) = app
        && !apps.iter().any(|a| name_of(a) == name)
    {
        let candidates = apps.iter().map(name_of).collect();
        return Err(Error::NoApp {
            name: name.to_owned(),
            candidates,
        });
    }
    let owners: Vec<usize> = (0..apps.len())
        .filter(|&i| app.is_none_or(|name| name_of(&apps[i]) == name))
        .filter(|&i| names_of(&apps[i]).iter().any(|n| n == element))
        .collect();
    match owners.as_slice() {
        [one] => Ok(*one),
        [] => {
            let mut names: Vec<String> = apps.iter().flat_map(names_of).collect();
            let nearest = nearest(element, names.iter().map(String::as_str)).map(str::to_owned);
            names.truncate(CANDIDATES_MAX);
            Err(Error::NoElement {
                name: element.to_owned(),
                nearest,
                candidates: names,
            })
        }
        several => Err(Error::SeveralElements {
            name: element.to_owned(),
            candidates: several
                .iter()
                .map(|&i| format!("{}/{element}", name_of(&apps[i])))
                .collect(),
        }),
    }
}

fn info_name(annotations: &[Annotation]) -> Option<&str> {
    let info = annotations.iter().find(|a| a.is("info"))?;
    info.value("name").map(|t| t.text.as_str())
}

fn names_of(app: &App) -> Vec<String> {
    let mut names = Vec::new();
    for element in &app.elements {
        match element {
            Element::Stream(d) => names.push(d.name.name.text.clone()),
            Element::Table(d) => names.push(d.name.name.text.clone()),
            Element::Window(d) => names.push(d.name.name.text.clone()),
            Element::Aggregation(d) => names.push(d.name.text.clone()),
            Element::Trigger(_) | Element::Function(_) => {}
            Element::Query(q) => names.extend(info_name(&q.annotations).map(str::to_owned)),
            Element::Partition(p) => {
                names.extend(info_name(&p.annotations).map(str::to_owned));
                let inside = p.queries.iter().filter_map(|q| info_name(&q.annotations));
                names.extend(inside.map(str::to_owned));
            }
        }
    }
    names
}

fn annotations_of<'a>(element: &'a mut Element, name: &str) -> Option<&'a mut Vec<Annotation>> {
    let is_named = |annotations: &[Annotation]| info_name(annotations) == Some(name);
    match element {
        Element::Stream(d) if d.name.name.text == name => Some(&mut d.annotations),
        Element::Table(d) if d.name.name.text == name => Some(&mut d.annotations),
        Element::Window(d) if d.name.name.text == name => Some(&mut d.annotations),
        Element::Aggregation(d) if d.name.text == name => Some(&mut d.annotations),
        Element::Query(q) if is_named(&q.annotations) => Some(&mut q.annotations),
        Element::Partition(p) => {
            if is_named(&p.annotations) {
                return Some(&mut p.annotations);
            }
            let inside = p.queries.iter_mut().find(|q| is_named(&q.annotations));
            inside.map(|q| &mut q.annotations)
        }
        _ => None,
    }
}

/// Annotations that stand inside others; a part of a path that names one is never an option.
const NESTED: &[&str] = &[
    "map",
    "attributes",
    "payload",
    "distribution",
    "destination",
    "cache",
];

fn set(
    mut annotations: &mut Vec<Annotation>,
    element: &str,
    segments: &[&str],
    value: &str,
    form: impl Fn() -> Error,
) -> Result<(), Error> {
    let mut written = element.to_owned();
    let mut at = 0;
    loop {
        let (name, number) = numbered(segments[at]).ok_or_else(&form)?;
        let index = find(annotations, &written, name, number)?;
        written = format!("{written}.{}", segments[at]);
        at += 1;
        let annotation = &mut annotations[index];
        let next = segments
            .get(at)
            .and_then(|s| numbered(s))
            .map(|(name, _)| name);
        let goes_on =
            next.is_some_and(|next| annotation.nested(next).is_some() || NESTED.contains(&next));
        if goes_on {
            annotations = &mut annotation.annotations;
            continue;
        }
        return match segments.get(at..) {
            None | Some([]) => set_positional(annotation, value).ok_or_else(form),
            Some(rest) => {
                set_option(annotation, &rest.join("."), value);
                Ok(())
            }
        };
    }
}

/// `sink[2]`.
fn numbered(segment: &str) -> Option<(&str, Option<usize>)> {
    let Some((name, rest)) = segment.split_once('[') else {
        return Some((segment, None));
    };
    let number = rest.strip_suffix(']')?.parse().ok().filter(|n| *n > 0)?;
    Some((name, Some(number)))
}

fn find(
    annotations: &[Annotation],
    written: &str,
    name: &str,
    number: Option<usize>,
) -> Result<usize, Error> {
    let of_name: Vec<usize> = (0..annotations.len())
        .filter(|&i| annotations[i].is(name))
        .collect();
    match (of_name.as_slice(), number) {
        ([one], None) => Ok(*one),
        (several, Some(number)) if number <= several.len() => Ok(several[number - 1]),
        ([], _) | (_, Some(_)) => {
            let mut candidates: Vec<String> = annotations
                .iter()
                .map(|a| format!("@{}", a.name.text))
                .collect();
            candidates.dedup();
            Err(Error::NoAnnotation {
                element: written.to_owned(),
                name: match number {
                    Some(number) => format!("{name}[{number}]"),
                    None => name.to_owned(),
                },
                candidates,
            })
        }
        (several, None) => Err(Error::SeveralAnnotations {
            element: written.to_owned(),
            name: name.to_owned(),
            candidates: (1..=several.len())
                .map(|n| format!("{written}.{name}[{n}]"))
                .collect(),
        }),
    }
}

fn set_option(annotation: &mut Annotation, option: &str, value: &str) {
    let mut is_found = false;
    for element in &mut annotation.elements {
        if element.key.as_ref().is_some_and(|k| k.text == option) {
            value.clone_into(&mut element.value.text);
            is_found = true;
        }
    }
    if !is_found {
        let span = annotation.head();
        annotation.elements.push(AnnotationElement {
            key: Some(Name {
                text: option.to_owned(),
                span,
            }),
            value: Text {
                text: value.to_owned(),
                span,
            },
        });
    }
}

/// `S.sink.map.payload=…`: the only value of an annotation, where it has no name.
fn set_positional(annotation: &mut Annotation, value: &str) -> Option<()> {
    match annotation.elements.as_mut_slice() {
        [only] if only.key.is_none() => {
            value.clone_into(&mut only.value.text);
            Some(())
        }
        _ => None,
    }
}

/// Replaces a text in every string literal of the apps, in annotations and queries alike. Says how
/// many literals changed; none is an error.
pub fn apply_replace(apps: &mut [App], old: &str, new: &str) -> Result<usize, Error> {
    if old.is_empty() {
        return Err(Error::EmptyText);
    }
    let mut changed = 0;
    let mut others = Vec::new();
    for app in apps {
        each_text(app, &mut |text| {
            if text.contains(old) {
                *text = text.replace(old, new);
                changed += 1;
            } else if others.len() < CANDIDATES_MAX && is_alike(text, old) {
                others.push(text.clone());
            }
        });
    }
    if changed > 0 {
        return Ok(changed);
    }
    others.sort();
    others.dedup();
    Err(Error::NoText {
        old: old.to_owned(),
        candidates: others,
    })
}

/// More candidates would hide the error.
const CANDIDATES_MAX: usize = 8;

/// Shares a word of four letters or more.
fn is_alike(text: &str, old: &str) -> bool {
    let lower = text.to_lowercase();
    old.split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.chars().count() >= 4)
        .any(|word| lower.contains(&word.to_lowercase()))
}

/// Visits every string literal.
fn each_text(app: &mut App, visit: &mut dyn FnMut(&mut String)) {
    annotations(&mut app.annotations, visit);
    for element in &mut app.elements {
        match element {
            Element::Stream(d) => annotations(&mut d.annotations, visit),
            Element::Table(d) => annotations(&mut d.annotations, visit),
            Element::Window(d) => {
                annotations(&mut d.annotations, visit);
                args(&mut d.window.args, visit);
            }
            Element::Trigger(d) => {
                annotations(&mut d.annotations, visit);
                if let TriggerAt::Text(text) = &mut d.at {
                    visit(&mut text.text);
                }
            }
            Element::Function(d) => annotations(&mut d.annotations, visit),
            Element::Aggregation(d) => {
                annotations(&mut d.annotations, visit);
                single(&mut d.input, visit);
                selector(&mut d.selector, visit);
            }
            Element::Query(q) => query(q, visit),
            Element::Partition(p) => partition(p, visit),
        }
    }
}

fn annotations(list: &mut [Annotation], visit: &mut dyn FnMut(&mut String)) {
    for annotation in list {
        for element in &mut annotation.elements {
            visit(&mut element.value.text);
        }
        // The parser bounds how deep annotations nest.
        annotations(&mut annotation.annotations, visit);
    }
}

fn partition(p: &mut Partition, visit: &mut dyn FnMut(&mut String)) {
    annotations(&mut p.annotations, visit);
    for key in &mut p.keys {
        match &mut key.by {
            PartitionBy::Value(e) => expr(e, visit),
            PartitionBy::Ranges(ranges) => {
                for (condition, name) in ranges {
                    expr(condition, visit);
                    visit(&mut name.text);
                }
            }
        }
    }
    for q in &mut p.queries {
        query(q, visit);
    }
}

fn query(q: &mut Query, visit: &mut dyn FnMut(&mut String)) {
    annotations(&mut q.annotations, visit);
    match &mut q.input {
        Input::Single(s) => single(s, visit),
        Input::Join(join) => {
            let JoinInput {
                left,
                right,
                on,
                within,
                per,
                ..
            } = join.as_mut();
            single(left, visit);
            single(right, visit);
            for e in on.iter_mut().chain(per) {
                expr(e, visit);
            }
            if let Some(within) = within {
                expr(&mut within.start, visit);
                if let Some(end) = &mut within.end {
                    expr(end, visit);
                }
            }
        }
        Input::Pattern(p) => pattern(&mut p.root, visit),
        Input::Anonymous(inner) => query(inner, visit),
    }
    selector(&mut q.selector, visit);
    match &mut q.output {
        Output::Insert { .. } | Output::Return { .. } => {}
        Output::Delete { on, .. } => {
            if let Some(on) = on {
                expr(on, visit);
            }
        }
        Output::Update { set, on, .. } | Output::UpdateOrInsert { set, on, .. } => {
            for SetItem { value, .. } in set {
                expr(value, visit);
            }
            expr(on, visit);
        }
    }
}

fn pattern(element: &mut PatternElement, visit: &mut dyn FnMut(&mut String)) {
    match element {
        PatternElement::Every(inner, _) => pattern(inner, visit),
        PatternElement::Chain(chain, _) => chain.iter_mut().for_each(|e| pattern(e, visit)),
        PatternElement::Stream(s) | PatternElement::Count { stream: s, .. } => {
            single(&mut s.stream, visit);
        }
        PatternElement::Logical { left, right, .. } => {
            pattern(left, visit);
            pattern(right, visit);
        }
        PatternElement::Absent { stream, .. } => single(stream, visit),
    }
}

fn single(s: &mut SingleInput, visit: &mut dyn FnMut(&mut String)) {
    for handler in &mut s.handlers {
        match handler {
            Handler::Filter(e) => expr(e, visit),
            Handler::Function(call) | Handler::Window(call) => args(&mut call.args, visit),
        }
    }
}

fn selector(s: &mut Selector, visit: &mut dyn FnMut(&mut String)) {
    let items = s.items.iter_mut().map(|i| &mut i.expr);
    for e in items
        .chain(&mut s.having)
        .chain(&mut s.limit)
        .chain(&mut s.offset)
    {
        expr(e, visit);
    }
}

fn args(args: &mut Args, visit: &mut dyn FnMut(&mut String)) {
    if let Args::List(list) = args {
        for e in list {
            expr(e, visit);
        }
    }
}

/// Walks with a list of its own: chains of operators may be long.
fn expr(e: &mut Expr, visit: &mut dyn FnMut(&mut String)) {
    let mut open = vec![e];
    while let Some(e) = open.pop() {
        match &mut e.kind {
            ExprKind::Literal(Literal::String(text)) => visit(text),
            ExprKind::Call(call) | ExprKind::IsNull(NullTarget::Call(call)) => {
                if let Args::List(list) = &mut call.args {
                    open.extend(list);
                }
            }
            ExprKind::Not(inner) | ExprKind::In(inner, _) => open.push(inner),
            ExprKind::Binary(_, left, right) => {
                open.push(left);
                open.push(right);
            }
            ExprKind::Literal(_)
            | ExprKind::Time(_)
            | ExprKind::Attribute(_)
            | ExprKind::IsNull(_)
            | ExprKind::Error => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const APP: &str = "@app:name('A') \
        @source(type='file', dir.uri='file:///in', @map(type='csv', @attributes('0', '1'))) \
        define stream S (a string, b int); \
        @sink(type='log') @sink(type='file', file.uri='/out/x', @map(type='text', @payload('x {{a}}'))) \
        define stream T (a string); \
        @info(name='q') from S[a == 'jdbc:mysql://host/db'] select a insert into T;";

    fn apps() -> Vec<App> {
        let parsed = crate::parse(APP);
        assert!(parsed.diagnostics.is_empty(), "{:?}", parsed.diagnostics);
        vec![parsed.app]
    }

    fn stream(app: &App, at: usize) -> &[Annotation] {
        match &app.elements[at] {
            Element::Stream(d) => &d.annotations,
            other => panic!("{other:?}"),
        }
    }

    fn refused(setting: &str, part: &str) {
        let message = apply_set(&mut apps(), setting).unwrap_err().to_string();
        assert!(message.contains(part), "{setting}: {message}");
    }

    #[test]
    fn options_are_set_and_added() {
        let mut apps = apps();
        for setting in [
            "S.source.dir.uri=/tmp/a=b",
            "A/S.source.tailing=false",
            "S.source.map.delimiter=|",
            "T.sink[2].map.type=json",
            "T.sink[2].map.payload={{a}}",
        ] {
            apply_set(&mut apps, setting).unwrap_or_else(|e| panic!("{setting}: {e}"));
        }
        let source = &stream(&apps[0], 0)[0];
        assert_eq!(source.value("dir.uri").unwrap().text, "/tmp/a=b");
        assert_eq!(source.value("tailing").unwrap().text, "false");
        let map = source.nested("map").unwrap();
        assert_eq!(map.value("delimiter").unwrap().text, "|");
        let map = stream(&apps[0], 1)[1].nested("map").unwrap();
        assert_eq!(map.value("type").unwrap().text, "json");
        assert_eq!(
            map.nested("payload").unwrap().elements[0].value.text,
            "{{a}}"
        );
    }

    #[test]
    fn what_is_not_there_is_named_with_candidates() {
        refused("S.source.dir.uri", "[App/]Element");
        refused("S=1", "[App/]Element");
        refused("B/S.source.x=1", "there is 'A'");
        refused("Ss.source.x=1", "did you mean 'S'?");
        refused("Other.source.x=1", "there is 'S', 'T', 'q'");
        refused("S.sink.x=1", "there is '@source'");
        refused("T.sink.prefix=x", "'T.sink[1]', 'T.sink[2]'");
        refused("T.sink[3].prefix=x", "no annotation '@sink[3]'");
        refused(
            "T.sink[1].map.type=json",
            "'T.sink[1]' has no annotation '@map'",
        );
    }

    #[test]
    fn elements_of_several_apps_need_the_name_of_the_app() {
        let mut apps = apps();
        apps.push(crate::parse("@app:name('B') @sink(type='log') define stream S (a int);").app);
        let message = apply_set(&mut apps, "S.sink.prefix=x")
            .unwrap_err()
            .to_string();
        assert!(message.contains("'A/S', 'B/S'"), "{message}");
        apply_set(&mut apps, "B/S.sink.prefix=x").unwrap();
    }

    #[test]
    fn texts_are_replaced_everywhere() {
        let mut apps = apps();
        assert_eq!(apply_replace(&mut apps, "mysql://host", "sqlite:"), Ok(1));
        assert_eq!(apply_replace(&mut apps, "/out", "/tmp"), Ok(1));
        assert_eq!(apply_replace(&mut apps, "/in", "/tmp"), Ok(1));
        let message = apply_replace(&mut apps, "jdbc:oracle", "x")
            .unwrap_err()
            .to_string();
        assert!(message.contains("there is 'jdbc:sqlite:/db'"), "{message}");
        assert_eq!(apply_replace(&mut apps, "", "x"), Err(Error::EmptyText));
    }
}
