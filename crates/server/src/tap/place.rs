//! Finds what a tap is to look at by its name.

use engine::TapPoint;
use event::Schema;
use lang::suggest::nearest;
use plan::{Plan, Stream, StreamId};

/// Where a tap looks, in an app.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TapPlace {
    /// Inside the engine.
    Inside(TapPoint),
    /// What the mapper of a source has decoded; the number counts from 0.
    Source { stream: StreamId, number: usize },
    /// What a sink is given, before its mapper.
    Sink { stream: StreamId, number: usize },
}

/// A place that was found.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct FoundPlace {
    /// As it is called in full: `source:Orders[1]`.
    pub name: String,
    pub place: TapPlace,
    pub schema: Schema,
}

/// The place of a name: a stream or named window, `query:NAME`, `source:STREAM[N]` or `sink:STREAM[N]`,
/// where `[N]` is needed only if there are several.
///
/// # Errors
/// In words, with what comes nearest.
pub(crate) fn find(plan: &Plan, on: &str) -> Result<FoundPlace, String> {
    match on.split_once(':') {
        Some(("query", name)) => query(plan, name),
        Some(("source", name)) => transport(plan, name, true),
        Some(("sink", name)) => transport(plan, name, false),
        _ => stream(plan, on),
    }
}

fn query(plan: &Plan, name: &str) -> Result<FoundPlace, String> {
    let names = || plan.queries.iter().map(|q| q.name.as_str());
    let Some(id) = names().position(|other| other == name) else {
        return Err(unknown(&plan.name, "query", name, names()));
    };
    Ok(FoundPlace {
        name: format!("query:{name}"),
        place: TapPlace::Inside(TapPoint::Query(id)),
        schema: plan.queries[id].selector.schema.clone(),
    })
}

fn stream(plan: &Plan, written: &str) -> Result<FoundPlace, String> {
    let (name, number) = numbered(written);
    let all = plan.streams.len() + plan.windows.len();
    let names: Vec<String> = (0..all).map(|id| plan.junction_name(id)).collect();
    let found: Vec<StreamId> = (0..all).filter(|&id| names[id] == name).collect();
    // Streams of the same name live in different partitions.
    let id = chosen(&found, number, name, || {
        format!("inner stream '{name}' is in {} partitions", found.len())
    })?;
    let Some(id) = id else {
        if plan.tables.iter().any(|t| t.schema.name == name) {
            return Err(format!(
                "'{name}' is a table of app '{}', through which no events pass: look at the query that \
                 fills it (query:NAME), or read the table with headwater query",
                plan.name
            ));
        }
        let names = names.iter().map(String::as_str);
        return Err(unknown(&plan.name, "stream", name, names));
    };
    Ok(FoundPlace {
        name: written.to_owned(),
        place: TapPlace::Inside(TapPoint::Stream(id)),
        schema: plan.junction_schema(id).clone(),
    })
}

fn transport(plan: &Plan, written: &str, is_source: bool) -> Result<FoundPlace, String> {
    let (name, number) = numbered(written);
    let kind = if is_source { "source" } else { "sink" };
    let count = |stream: &Stream| match is_source {
        true => stream.sources.len(),
        false => stream.sinks.len(),
    };
    let mut streams = plan.streams.iter();
    let Some(stream) = streams.position(|s| s.display_name() == name && count(s) > 0) else {
        let with: Vec<String> = plan
            .streams
            .iter()
            .filter(|s| count(s) > 0)
            .map(Stream::display_name)
            .collect();
        let names = with.iter().map(String::as_str);
        return Err(unknown(
            &plan.name,
            &format!("stream with a {kind} called"),
            name,
            names,
        ));
    };
    let definition = &plan.streams[stream];
    let all: Vec<usize> = (0..count(definition)).collect();
    let number = chosen(&all, number, &format!("{kind}:{name}"), || {
        format!("stream '{name}' has {} {kind}s", all.len())
    })?;
    let number = number.unwrap_or_default();
    Ok(FoundPlace {
        name: format!("{kind}:{name}[{}]", number + 1),
        place: match is_source {
            true => TapPlace::Source { stream, number },
            false => TapPlace::Sink { stream, number },
        },
        schema: definition.schema.clone(),
    })
}

/// The one that is meant of those of a name; `None` where there is none.
fn chosen(
    all: &[usize],
    number: Option<usize>,
    name: &str,
    several: impl Fn() -> String,
) -> Result<Option<usize>, String> {
    match (all, number) {
        ([], _) => Ok(None),
        ([one], None) => Ok(Some(*one)),
        (all, Some(number)) if number <= all.len() => Ok(Some(all[number - 1])),
        (all, _) => {
            let forms: Vec<String> = (1..=all.len()).map(|n| format!("{name}[{n}]")).collect();
            Err(format!("{}: write {}", several(), forms.join(" or ")))
        }
    }
}

/// `Orders[2]` is the second of `Orders`; numbers count from 1.
fn numbered(written: &str) -> (&str, Option<usize>) {
    let parts = written
        .strip_suffix(']')
        .and_then(|rest| rest.rsplit_once('['));
    match parts.map(|(name, number)| (name, number.parse::<usize>())) {
        Some((name, Ok(number))) if number > 0 => (name, Some(number)),
        _ => (written, None),
    }
}

fn unknown<'a>(
    app: &str,
    kind: &str,
    name: &str,
    names: impl Iterator<Item = &'a str> + Clone,
) -> String {
    let said = match nearest(name, names.clone()) {
        Some(near) => format!("did you mean '{near}'?"),
        None => {
            let names: Vec<&str> = names.collect();
            match names.is_empty() {
                true => "it has none".to_owned(),
                false => format!("there is {}", names.join(", ")),
            }
        }
    };
    format!("app '{app}' has no {kind} '{name}'; {said}")
}
