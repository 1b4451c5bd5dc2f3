//! Cases without the one thing that Siddhi is known to do wrong: where that thing is a mere means
//! (an index, purging, a limiter that lets rows out later), the rest has to come out the same.
//!
//! Promises: a twin differs from its case in that one thing alone; nothing is excused where both
//! engines do not agree on the twin, or Siddhi's twin with our answer to the case itself.

use event::Type;
use lang::ast::{Element, Input, PatternElement, Query, RateKind};
use lang::span::Span;
use serde_json::{Value as Json, json};

use super::engines::{Judge, differs};
use super::maker::Made;
use super::proofs::lacks_rows_at;
use super::worker::with_rows;

impl Judge {
    /// The reason that a twin proves to be behind a difference from `ours`.
    pub(super) fn proven_by_twin(
        &self,
        made: &Made,
        siddhi: &Json,
        ours: &Json,
    ) -> anyhow::Result<Option<&'static str>> {
        if self.keeps_index_in_set(made, ours)? {
            return Ok(Some(
                "an @Index loses or revives rows of its table; without it Siddhi gives what we give with it",
            ));
        }
        if self.purges_timers(made)? {
            return Ok(Some(
                "the timer of 'not … for' outlives a purged key; without @purge both agree",
            ));
        }
        if self.pictures_null(made, siddhi, ours)? {
            return Ok(Some(
                "17: a snapshot with aggregates fails on a null that expires; without nulls both agree",
            ));
        }
        if self.limits_live_matches(made)? {
            return Ok(Some(
                "a limiter holds partial matches that go on and change; without it both agree",
            ));
        }
        Ok(None)
    }

    /// Siddhi keeps the rows of an `@Index` in a set, so that of two with equal values and one
    /// timestamp one is lost; and a row that the primary key refuses stays in the index.
    fn keeps_index_in_set(&self, made: &Made, ours: &Json) -> anyhow::Result<bool> {
        let Some(app) = without_indexes(&made.case) else {
            return Ok(false);
        };
        let siddhi = with_rows(self.siddhi(&with_app(made, &app))?);
        Ok(siddhi["status"] == "ok" && differs(made, &siddhi, ours).is_none())
    }

    /// The timer of an absent state makes the state of a purged key again, and asks again and again.
    fn purges_timers(&self, made: &Made) -> anyhow::Result<bool> {
        match without_purge(&made.case) {
            Some(app) => self.agree(made, &with_app(made, &app)),
            None => Ok(false),
        }
    }

    /// `AggregationWindowedPerSnapshotOutputRateLimiter` compares rows by `equals` of their values:
    /// a row with a null is never taken out, and what comes after it in its chunk is not seen.
    fn pictures_null(&self, made: &Made, siddhi: &Json, ours: &Json) -> anyhow::Result<bool> {
        let Some(twin) = without_nulls(&made.case) else {
            return Ok(false);
        };
        // The row stays in the picture: we are the ones that lack it.
        Ok(lacks_rows_at(made, ours, siddhi).is_some() && self.agree(made, &twin)?)
    }

    /// A match that begins anew or goes on is the same object as the one in the limiter, which so
    /// gets another time.
    fn limits_live_matches(&self, made: &Made) -> anyhow::Result<bool> {
        match without_pattern_limits(&made.case) {
            Some(app) => self.agree(made, &with_app(made, &app)),
            None => Ok(false),
        }
    }
}

fn with_app(made: &Made, app: &str) -> Json {
    let mut case = made.case.clone();
    case["app"] = json!(app);
    case
}

fn app_of(case: &Json) -> &str {
    case["app"].as_str().unwrap_or_default()
}

/// The app without what `cut` finds in it; `None` if that is nothing.
fn without(app: &str, mut cuts: Vec<Span>) -> Option<String> {
    cuts.sort_unstable_by_key(|cut| std::cmp::Reverse(cut.start));
    let mut text = app.to_owned();
    for cut in &cuts {
        text.replace_range(cut.start as usize..cut.end as usize, "");
    }
    (!cuts.is_empty()).then_some(text)
}

fn without_indexes(case: &Json) -> Option<String> {
    let app = app_of(case);
    let parsed = lang::parse(app).app;
    let tables = parsed.elements.iter().filter_map(|element| match element {
        Element::Table(table) => Some(table),
        _ => None,
    });
    let indexes = tables
        .flat_map(|table| &table.annotations)
        .filter(|annotation| annotation.is("Index"));
    without(app, indexes.map(|annotation| annotation.span).collect())
}

/// Of partitions in which a pattern waits for quiet.
fn without_purge(case: &Json) -> Option<String> {
    let app = app_of(case);
    let parsed = lang::parse(app).app;
    let waiting = parsed.elements.iter().filter_map(|element| match element {
        Element::Partition(partition) => {
            let waits = |query: &Query| match &query.input {
                Input::Pattern(pattern) => waits(&pattern.root),
                _ => false,
            };
            partition.queries.iter().any(waits).then_some(partition)
        }
        _ => None,
    });
    let purges = waiting
        .flat_map(|partition| &partition.annotations)
        .filter(|annotation| annotation.is("purge"));
    without(app, purges.map(|annotation| annotation.span).collect())
}

/// Depth is bounded by the parser's limit on nesting.
fn waits(element: &PatternElement) -> bool {
    match element {
        PatternElement::Every(inner, _) => waits(inner),
        PatternElement::Chain(chain, _) => chain.iter().any(waits),
        PatternElement::Logical { left, right, .. } => waits(left) || waits(right),
        PatternElement::Absent { wait, .. } => wait.is_some(),
        PatternElement::Stream(_) | PatternElement::Count { .. } => false,
    }
}

fn without_pattern_limits(case: &Json) -> Option<String> {
    let app = app_of(case);
    let parsed = lang::parse(app).app;
    let limits = queries(&parsed.elements).filter_map(|query| match (&query.input, &query.rate) {
        (Input::Pattern(_), Some(rate)) => Some(rate.span),
        _ => None,
    });
    without(app, limits.collect())
}

fn queries(elements: &[Element]) -> impl Iterator<Item = &Query> {
    elements.iter().flat_map(|element| match element {
        Element::Query(query) => std::slice::from_ref(query),
        Element::Partition(partition) => &partition.queries,
        _ => &[],
    })
}

/// A value as a step writes it.
fn some_value(ty: Type) -> Json {
    match ty {
        Type::String => json!("A"),
        Type::Int => json!({ "i": 1 }),
        Type::Long => json!({ "l": 1 }),
        Type::Float => json!({ "f": 1.5 }),
        Type::Double => json!({ "d": 1.5 }),
        Type::Bool => json!(true),
        Type::Object => Json::Null,
    }
}

/// The case with values in place of the nulls that are sent, if it draws a snapshot.
fn without_nulls(case: &Json) -> Option<Json> {
    let parsed = lang::parse(app_of(case)).app;
    let draws =
        |query: &Query| query.rate.as_ref().map(|rate| rate.kind) == Some(RateKind::Snapshot);
    if !queries(&parsed.elements).any(draws) {
        return None;
    }
    let streams: Vec<(&str, Vec<Json>)> = parsed
        .elements
        .iter()
        .filter_map(|element| match element {
            Element::Stream(stream) => {
                let values = stream.attributes.iter().map(|a| some_value(a.ty));
                Some((stream.name.name.text.as_str(), values.collect()))
            }
            _ => None,
        })
        .collect();
    let mut twin = case.clone();
    let mut is_other = false;
    for step in twin["steps"].as_array_mut().into_iter().flatten() {
        let Some(send) = step.get_mut("send") else {
            continue;
        };
        let Some((_, values)) = streams.iter().find(|(name, _)| send["stream"] == **name) else {
            continue;
        };
        let mut fill = |row: &mut Json| {
            let row = row.as_array_mut().into_iter().flatten();
            for (value, other) in row.zip(values).filter(|(value, _)| value.is_null()) {
                *value = other.clone();
                is_other = true;
            }
        };
        if let Some(row) = send.get_mut("data") {
            fill(row);
        }
        let events = send.get_mut("events").and_then(Json::as_array_mut);
        for event in events.into_iter().flatten() {
            fill(&mut event["data"]);
        }
    }
    is_other.then_some(twin)
}
