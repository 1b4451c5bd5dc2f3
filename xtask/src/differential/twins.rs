//! Cases without the one thing that Siddhi is known to do wrong: where that thing is a mere means
//! (an index, purging, a limiter that lets rows out later), the rest has to come out the same.
//!
//! Promises: a twin differs from its case in that one thing alone; nothing is excused where both
//! engines do not agree on the twin, or Siddhi's twin with our answer to the case itself.

use event::Type;
use lang::ast::{
    Element, ExprKind, Handler, Input, LogicalOp, Output, PatternElement, PatternInput, Query,
    RateKind, SingleInput,
};
use lang::span::Span;
use serde_json::{Value as Json, json};

use super::engines::{Judge, differs};
use super::maker::Made;
use super::proofs::lacks_rows_at;
use super::worker::with_rows;

impl Judge {
    /// The reason that a twin proves to be behind a difference from `ours`, which leans on the rulings
    /// `warned` of.
    pub(super) fn proven_by_twin(
        &self,
        made: &Made,
        siddhi: &Json,
        ours: &Json,
        warned: &[String],
    ) -> anyhow::Result<Option<&'static str>> {
        let is_warned = |number: &str| warned.iter().any(|other| other == number);
        if self.keeps_index_in_set(made, ours)? {
            return Ok(Some(
                "an @Index loses or revives rows of its table; without it Siddhi gives what we give with it",
            ));
        }
        // The timer of an absent state makes the state of a purged key again, and asks again and again.
        if self.agrees_as(made, without_purge(&made.case))? {
            return Ok(Some(
                "the timer of 'not … for' outlives a purged key; without @purge both agree",
            ));
        }
        if self.pictures_null(made, siddhi, ours)? {
            return Ok(Some(
                "17: a snapshot with aggregates fails on a null that expires; without nulls both agree",
            ));
        }
        // A match that begins anew or goes on is the same object as the one in the limiter, which so
        // gets another time.
        if self.agrees_as(made, without_pattern_limits(&made.case))? {
            return Ok(Some(
                "a limiter holds partial matches that go on and change; without it both agree",
            ));
        }
        if is_warned("72") && self.takes_matches_apart(made, siddhi, ours)? {
            return Ok(Some(
                "72: an absence takes the matches of an event apart; without its filter both agree",
            ));
        }
        if is_warned("73") && self.agrees_as(made, without_pairs_of_keys(&made.case))? {
            return Ok(Some(
                "73: a row stays under its old keys; without the primary key both agree",
            ));
        }
        if is_warned("82") && self.agrees_as(made, with_lists_emptied(&made.case))? {
            return Ok(Some(
                "82: a list loses what follows its deleted end; where all of it is deleted both agree",
            ));
        }
        if self.agrees_as(made, with_each_added_once(&made.case))? {
            return Ok(Some(
                "75: an attribute that a stream function added is null where it is selected again; as an expression both agree",
            ));
        }
        if self.agrees_as(made, with_event_at_end(&made.case))? {
            return Ok(Some(
                "30: the last element needs no event; where it needs one both agree",
            ));
        }
        Ok(None)
    }

    /// Do both agree on the twin that has this app?
    fn agrees_as(&self, made: &Made, app: Option<String>) -> anyhow::Result<bool> {
        match app {
            Some(app) => self.agree(made, &with_app(made, &app)),
            None => Ok(false),
        }
    }

    /// The filter of an `and not` drops the matches behind the one that it looks at.
    fn takes_matches_apart(&self, made: &Made, siddhi: &Json, ours: &Json) -> anyhow::Result<bool> {
        Ok(lacks_rows_at(made, siddhi, ours).is_some()
            && self.agrees_as(made, without_absent_filters(&made.case))?)
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

    /// `AggregationWindowedPerSnapshotOutputRateLimiter` compares rows by `equals` of their values:
    /// a row with a null is never taken out, and what comes after it in its chunk is not seen.
    fn pictures_null(&self, made: &Made, siddhi: &Json, ours: &Json) -> anyhow::Result<bool> {
        let Some(twin) = without_nulls(&made.case) else {
            return Ok(false);
        };
        // The row stays in the picture: we are the ones that lack it.
        Ok(lacks_rows_at(made, ours, siddhi).is_some() && self.agree(made, &twin)?)
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

/// The app without these pieces; `None` if there are none.
fn without(app: &str, cuts: Vec<Span>) -> Option<String> {
    with(app, cuts.into_iter().map(|cut| (cut, String::new())))
}

/// The app with other texts in place of some of its pieces; `None` if there are none.
fn with(app: &str, pieces: impl Iterator<Item = (Span, String)>) -> Option<String> {
    let mut pieces: Vec<(Span, String)> = pieces.collect();
    pieces.sort_unstable_by_key(|(span, _)| std::cmp::Reverse(span.start));
    let mut text = app.to_owned();
    for (span, other) in &pieces {
        text.replace_range(span.start as usize..span.end as usize, other);
    }
    (!pieces.is_empty()).then_some(text)
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

/// With an expression in place of an attribute that a query with a stream function selects again.
fn with_each_added_once(case: &Json) -> Option<String> {
    let app = app_of(case);
    let parsed = lang::parse(app).app;
    let has_function = |input: &SingleInput| {
        let mut handlers = input.handlers.iter();
        handlers.any(|handler| matches!(handler, Handler::Function(_)))
    };
    let queries = queries(&parsed.elements).filter(|query| match &query.input {
        Input::Single(input) => has_function(input),
        Input::Join(join) => has_function(&join.left) || has_function(&join.right),
        Input::Pattern(_) | Input::Anonymous(_) => false,
    });
    let mut repeated = Vec::new();
    for query in queries {
        let mut seen = Vec::new();
        for item in &query.selector.items {
            let text = item.expr.span.text(app);
            if !matches!(item.expr.kind, ExprKind::Attribute(_)) {
                continue;
            }
            if seen.contains(&text) {
                repeated.push(item.expr.span);
            }
            seen.push(text);
        }
    }
    let other = |span: Span| {
        let attribute = span.text(app);
        (span, format!("coalesce({attribute}, {attribute})"))
    };
    with(app, repeated.into_iter().map(other))
}

/// Of tables with several primary keys.
fn without_pairs_of_keys(case: &Json) -> Option<String> {
    let app = app_of(case);
    let parsed = lang::parse(app).app;
    let tables = parsed.elements.iter().filter_map(|element| match element {
        Element::Table(table) => Some(table),
        _ => None,
    });
    let keys = tables
        .flat_map(|table| &table.annotations)
        .filter(|annotation| annotation.is("PrimaryKey") && annotation.elements.len() > 1);
    without(app, keys.map(|annotation| annotation.span).collect())
}

/// With no row left by what is deleted from tables without a key or an index.
fn with_lists_emptied(case: &Json) -> Option<String> {
    let app = app_of(case);
    let parsed = lang::parse(app).app;
    let is_list = |name: &str| {
        parsed.elements.iter().any(|element| match element {
            Element::Table(table) => {
                table.name.name.text == name
                    && !table
                        .annotations
                        .iter()
                        .any(|annotation| annotation.is("PrimaryKey") || annotation.is("Index"))
            }
            _ => false,
        })
    };
    let conditions = queries(&parsed.elements).filter_map(|query| match &query.output {
        Output::Delete {
            table,
            on: Some(on),
            ..
        } if is_list(&table.name.text) => Some((on.span, "true == true".to_owned())),
        _ => None,
    });
    with(app, conditions)
}

/// Of `X and not S[…]`.
fn without_absent_filters(case: &Json) -> Option<String> {
    let app = app_of(case);
    let parsed = lang::parse(app).app;
    let mut cuts = Vec::new();
    for element in patterns(&parsed.elements).flat_map(|pattern| flat(&pattern.root)) {
        let PatternElement::Logical {
            left,
            op: LogicalOp::And,
            right,
            ..
        } = element
        else {
            continue;
        };
        for side in [left, right] {
            if let PatternElement::Absent {
                stream, wait: None, ..
            } = &**side
                && !stream.handlers.is_empty()
            {
                cuts.push(Span::new(stream.stream.span.end, stream.span.end));
            }
        }
    }
    without(app, cuts)
}

/// With last elements that need an event where they need none.
fn with_event_at_end(case: &Json) -> Option<String> {
    const COUNTS: [(&str, &str); 4] =
        [("?", ""), ("*", "+"), ("<0:2>", "<1:2>"), ("<:2>", "<1:2>")];
    let app = app_of(case);
    let parsed = lang::parse(app).app;
    let mut ends: Vec<Span> = patterns(&parsed.elements)
        .filter_map(|pattern| match flat(&pattern.root).last() {
            Some(PatternElement::Count { min: 0, span, .. }) => Some(*span),
            _ => None,
        })
        .collect();
    ends.sort_unstable_by_key(|end| std::cmp::Reverse(end.end));
    let mut text = app.to_owned();
    for end in &ends {
        let end = end.end as usize;
        let is_written = |(count, _): &&(&str, &str)| text[..end].ends_with(count);
        let (count, other) = COUNTS.iter().find(is_written)?;
        text.replace_range(end - count.len()..end, other);
    }
    (!ends.is_empty()).then_some(text)
}

fn patterns(elements: &[Element]) -> impl Iterator<Item = &PatternInput> {
    queries(elements).filter_map(|query| match &query.input {
        Input::Pattern(pattern) => Some(pattern),
        _ => None,
    })
}

/// The elements in their order, without the groups around them.
fn flat(root: &PatternElement) -> Vec<&PatternElement> {
    let (mut left, mut flat) = (vec![root], Vec::new());
    while let Some(element) = left.pop() {
        match element {
            PatternElement::Every(inner, _) => left.push(inner),
            PatternElement::Chain(elements, _) => left.extend(elements.iter().rev()),
            element => flat.push(element),
        }
    }
    flat
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_twin_differs_in_one_thing_alone() {
        let check = |twin: fn(&Json) -> Option<String>, app: &str, expect: Option<&str>| {
            assert_eq!(twin(&json!({ "app": app })).as_deref(), expect, "{app}");
        };
        check(
            with_event_at_end,
            "from every e1=S, e2=S[n > 1]? select 1 as o insert into O;",
            Some("from every e1=S, e2=S[n > 1] select 1 as o insert into O;"),
        );
        check(
            with_event_at_end,
            "from e1=S -> (e2=S -> e3=S<0:2>) select 1 as o insert into O;",
            Some("from e1=S -> (e2=S -> e3=S<1:2>) select 1 as o insert into O;"),
        );
        check(
            with_event_at_end,
            "from e1=S* , e2=S select 1 as o insert into O;",
            None,
        );
        check(
            without_absent_filters,
            "from e1=S -> (e2=S and not S[n > 1]) -> e3=S[n > 2] select 1 as o insert into O;",
            Some("from e1=S -> (e2=S and not S) -> e3=S[n > 2] select 1 as o insert into O;"),
        );
        check(
            with_each_added_once,
            "from S#pol2Cart(n, 1.0) select x as a, y as b, x as c insert into O;",
            Some(
                "from S#pol2Cart(n, 1.0) select x as a, y as b, coalesce(x, x) as c insert into O;",
            ),
        );
        check(
            without_pairs_of_keys,
            "@PrimaryKey('k', 'n') define table T (k string, n int); @PrimaryKey('k') define table U (k string);",
            Some(" define table T (k string, n int); @PrimaryKey('k') define table U (k string);"),
        );
        check(
            with_lists_emptied,
            "define table T (n int); @Index('n') define table U (n int); from S delete T on T.n > n; from S delete U on U.n > n;",
            Some(
                "define table T (n int); @Index('n') define table U (n int); from S delete T on true == true; from S delete U on U.n > n;",
            ),
        );
    }
}
