//! Text tests and recorded cases, one turned into the other: how the expectations of a test are
//! held against what Siddhi gives, and how a case found elsewhere becomes a test.
//!
//! Promises: what is compared is what the test says and no more; an `expect S nothing` in the middle
//! of a script and `expect rejected` are not asked of Siddhi, which has no such counts.

use check::Catalog;
use std::fmt::Write as _;

use event::{Attribute, Schema, Type, Value};
use plan::Plan;
use serde_json::{Value as Json, json};

use crate::case::{self, Event};
use crate::outcome::Row;
use crate::run::{event, same_rows, write_row, write_rows};
use crate::script::{Expect, RowText, Script, Step};

/// A text test as a recorded case, and what its expectations are read by.
pub struct Golden<'a> {
    script: &'a Script,
    app: String,
    /// `None` for an app that is to be refused.
    plan: Option<Plan>,
}

/// What the comparison of a test with Siddhi's result gave.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    Same,
    /// Line of the test and what is different.
    Different(usize, String),
    /// Siddhi cannot be asked: it has no such component, or the app says something else than the
    /// test can show.
    NotComparable(String),
}

impl<'a> Golden<'a> {
    /// `app`: the text of the app, read from its file where the script names one.
    pub fn new(script: &'a Script, app: String, catalog: &Catalog) -> Result<Golden<'a>, String> {
        let catalog = crate::compile::with_stores(catalog);
        let plan =
            crate::compile::checked(&app, &catalog, &crate::compile::test_config(), &|_| None);
        let plan = match plan {
            Ok(plan) => Some(plan),
            Err(_) if script.refusal().is_some() => None,
            Err(faults) => {
                return Err(faults
                    .first()
                    .map_or_else(String::new, |d| d.message.clone()));
            }
        };
        Ok(Golden { script, app, plan })
    }

    /// The case to put to the oracle, under this id.
    pub fn case(&self, id: &str) -> Result<Json, String> {
        let mut steps = Vec::new();
        let (mut streams, mut queries) = (Vec::new(), Vec::new());
        let mut clock = 0;
        // An app that is refused takes no events.
        let lines = if self.plan.is_some() {
            &self.script.steps[..]
        } else {
            &[]
        };
        // The oracle starts an app by itself only where no step does.
        if lines.iter().any(|line| line.step == Step::Restart) {
            steps.push(json!({ "at": clock, "start": true }));
        }
        for line in lines {
            match &line.step {
                Step::Send {
                    stream,
                    at,
                    rows,
                    is_chunk,
                } => {
                    clock = at.unwrap_or(clock);
                    let send = self.send(stream, rows, *is_chunk, clock)?;
                    steps.push(json!({ "at": clock, "send": send }));
                }
                Step::AdvanceBy(millis) => {
                    clock += millis;
                    steps.push(json!({ "at": clock, "advance": true }));
                }
                Step::AdvanceTo(to) => {
                    clock = *to;
                    steps.push(json!({ "at": clock, "advance": true }));
                }
                Step::Publish { topic, at, text } => {
                    clock = at.unwrap_or(clock);
                    steps.push(json!({ "at": clock,
                        "publish": { "topic": topic, "payload": text } }));
                }
                Step::Save => steps.push(json!({ "at": clock, "persist": true })),
                Step::Restart => {
                    for step in ["shutdown", "create"] {
                        steps.push(json!({ "at": clock, step: true }));
                    }
                    steps.push(json!({ "at": clock, "restore": "last" }));
                    steps.push(json!({ "at": clock, "start": true }));
                }
                Step::Query(text) => steps.push(json!({ "at": clock, "query": text })),
                Step::Expect(Expect::Chunk { stream, .. } | Expect::Nothing(stream)) => {
                    push_new(&mut streams, stream);
                }
                Step::Expect(Expect::Callback { query, .. }) => push_new(&mut queries, query),
                Step::Expect(_) => {}
            }
        }
        Ok(
            json!({ "id": id, "app": self.app, "start": 0, "steps": steps,
                   "observe": { "streams": streams, "queries": queries } }),
        )
    }

    fn send(
        &self,
        stream: &str,
        rows: &[RowText],
        is_chunk: bool,
        clock: i64,
    ) -> Result<Json, String> {
        let plan = self
            .plan
            .as_ref()
            .ok_or("an app that is refused takes no events")?;
        let schema = plan
            .junction_named(stream)
            .map(|id| plan.junction_schema(id))
            .ok_or_else(|| format!("the app has no stream '{stream}'"))?;
        let mut events = Vec::new();
        for row in rows {
            let data: Vec<Json> = event(row, schema)?.data.iter().map(case::to_json).collect();
            let stamped = is_chunk || plan.options.playback.is_some();
            events.push(match row.ts.or(stamped.then_some(clock)) {
                Some(ts) => json!({ "ts": ts, "data": data }),
                None => json!({ "data": data }),
            });
        }
        if is_chunk {
            return Ok(json!({ "stream": stream, "events": events }));
        }
        let mut send = events.remove(0);
        send["stream"] = json!(stream);
        Ok(send)
    }

    /// Holds Siddhi's result against the expectations.
    pub fn judge(&self, result: &Json) -> Verdict {
        let status = result["status"].as_str().unwrap_or_default();
        let message = result["error"]["message"].as_str().unwrap_or_default();
        if let Some(component) = lacking(message) {
            return Verdict::NotComparable(component);
        }
        let refused = matches!(status, "create-error" | "parse-error" | "start-error");
        match (self.script.refusal(), refused) {
            (Some(_), true) => return Verdict::Same,
            (Some((line, _)), false) => {
                return Verdict::Different(line, "Siddhi accepts the app".into());
            }
            (None, true) => {
                return Verdict::Different(
                    self.script.line,
                    format!("Siddhi refuses the app: {message}"),
                );
            }
            (None, false) if status != "ok" => {
                return Verdict::NotComparable(format!("{status}: {message}"));
            }
            (None, false) => {}
        }
        let mut rest = Expectations::new(self, result);
        for line in &self.script.steps {
            if let Step::Expect(expect) = &line.step
                && let Err(message) = rest.take(expect)
            {
                return Verdict::Different(line.number, message);
            }
        }
        match rest.more() {
            None => Verdict::Same,
            Some(more) => {
                let last = self
                    .script
                    .steps
                    .last()
                    .map_or(self.script.line, |l| l.number);
                Verdict::Different(last, more)
            }
        }
    }
}

impl Script {
    /// Line and words of the refusal that the case expects.
    pub fn refusal(&self) -> Option<(usize, &str)> {
        self.steps.iter().find_map(|line| match &line.step {
            Step::Expect(Expect::Refused(words)) => Some((line.number, words.as_str())),
            _ => None,
        })
    }
}

/// The component that Siddhi, as the oracle runs it, does not have.
fn lacking(message: &str) -> Option<String> {
    for (before, after) in [
        ("No extension exist for ", ""),
        (
            "neither a function extension nor an aggregated attribute extension",
            "'",
        ),
    ] {
        let Some((head, tail)) = message.split_once(before) else {
            continue;
        };
        let name = if after.is_empty() {
            tail.trim()
        } else {
            head.trim_end_matches(['\'', ' '])
                .rsplit(after)
                .next()
                .unwrap_or_default()
        };
        return Some(name.to_owned());
    }
    None
}

fn push_new(names: &mut Vec<String>, name: &str) {
    if !names.iter().any(|n| n == name) {
        names.push(name.to_owned());
    }
}

/// What Siddhi gave, taken piece by piece.
struct Expectations<'a> {
    golden: &'a Golden<'a>,
    result: &'a Json,
    /// Chunks, callbacks and answers taken so far, by kind and name.
    taken: Vec<(String, usize)>,
}

impl<'a> Expectations<'a> {
    fn new(golden: &'a Golden<'a>, result: &'a Json) -> Expectations<'a> {
        Expectations {
            golden,
            result,
            taken: Vec::new(),
        }
    }

    fn next(&mut self, kind: &str, name: &str) -> Option<&'a Json> {
        let key = format!("{kind}/{name}");
        let at = match self.taken.iter().position(|(k, _)| *k == key) {
            Some(at) => at,
            None => {
                self.taken.push((key, 0));
                self.taken.len() - 1
            }
        };
        self.taken[at].1 += 1;
        let all = if name.is_empty() {
            &self.result[kind]
        } else {
            &self.result[kind][name]
        };
        all.get(self.taken[at].1 - 1)
    }

    fn take(&mut self, expect: &Expect) -> Result<(), String> {
        let plan = self.golden.plan.as_ref().ok_or("the app is refused here")?;
        match expect {
            Expect::Chunk {
                stream, at, rows, ..
            } => {
                let id = plan.junction_named(stream).ok_or("no such stream")?;
                let schema = plan.junction_schema(id);
                let chunk = self
                    .next("streams", stream)
                    .ok_or_else(|| format!("Siddhi gives nothing more on '{stream}'"))?;
                same_rows(schema, *at, rows, &json_rows(&chunk["events"])?)
            }
            Expect::Callback {
                query,
                at,
                current,
                expired,
            } => {
                let schema = &plan
                    .queries
                    .iter()
                    .find(|q| q.name == *query)
                    .ok_or("no such query")?
                    .selector
                    .schema;
                let call = self
                    .next("queries", query)
                    .ok_or_else(|| format!("Siddhi calls back query '{query}' no more"))?;
                same_rows(schema, *at, current, &json_rows(&call["in"])?)?;
                same_rows(schema, *at, expired, &json_rows(&call["out"])?)
            }
            Expect::Answer(rows) => {
                let answer = self
                    .next("answers", "")
                    .ok_or("Siddhi gives no more answers")?;
                let got = json_rows(&answer["events"])?;
                same_answer(rows, &got)
            }
            Expect::NoAnswer(_) => {
                let answer = self
                    .next("answers", "")
                    .ok_or("Siddhi gives no more answers")?;
                match answer.get("error") {
                    Some(_) => Ok(()),
                    None => Err("Siddhi answers the query".into()),
                }
            }
            Expect::Nothing(stream) => {
                push_new_taken(&mut self.taken, stream);
                Ok(())
            }
            Expect::Rejected(_) | Expect::Refused(_) => Ok(()),
        }
    }

    /// What was not expected, in words.
    fn more(&self) -> Option<String> {
        for (key, taken) in &self.taken {
            let (kind, name) = key.split_once('/').unwrap_or((key, ""));
            let all = if name.is_empty() {
                &self.result[kind]
            } else {
                &self.result[kind][name]
            };
            if let Some(next) = all.get(*taken) {
                return Some(format!("Siddhi gives more on '{name}': {next}"));
            }
        }
        None
    }
}

/// A stream of which nothing is expected is looked at all the same.
fn push_new_taken(taken: &mut Vec<(String, usize)>, stream: &str) {
    let key = format!("streams/{stream}");
    if !taken.iter().any(|(k, _)| *k == key) {
        taken.push((key, 0));
    }
}

fn json_rows(events: &Json) -> Result<Vec<Row>, String> {
    events
        .as_array()
        .into_iter()
        .flatten()
        .map(|event| {
            let data = event["data"].as_array().into_iter().flatten();
            Ok(Row {
                ts: event["ts"].as_i64().unwrap_or_default(),
                data: data.map(case::value).collect::<Result<_, _>>()?,
                expired: event["expired"] == true,
            })
        })
        .collect()
}

/// The rows of an answer have the types that Siddhi gives them.
fn same_answer(want: &[RowText], got: &[Row]) -> Result<(), String> {
    let width = got.first().map_or(0, |row| row.data.len());
    let types = (0..width).map(|c| got.iter().find_map(|row| row.data.get(c)?.ty()));
    let schema = answer_schema(types);
    same_rows(&schema, None, want, got)
}

/// A case as a text test: the app, its steps, and as expectations what `result` holds.
///
/// # Errors
/// A step that the text format has no line for.
pub fn write_test(
    name: &str,
    about: &[String],
    case: &Json,
    result: &Json,
    catalog: &Catalog,
) -> Result<String, String> {
    let app = case["app"].as_str().unwrap_or_default();
    let plan = crate::compile::checked(app, catalog, &crate::compile::test_config(), &|_| None)
        .map_err(|faults| {
            faults
                .first()
                .map_or_else(String::new, |d| d.message.clone())
        })?;
    let mut out = format!("=== {name}\n");
    for line in about {
        out.push_str(line);
        out.push('\n');
    }
    out.push_str(app.trim());
    out.push_str("\n---\n");
    let mut answers = result["answers"].as_array().into_iter().flatten();
    for step in case["steps"].as_array().into_iter().flatten() {
        let at = step["at"].as_i64().unwrap_or_default();
        if let Some(query) = step["query"].as_str() {
            line(&mut out, format_args!("advance @{at}\nquery {query}"));
            let rows = answers
                .next()
                .map_or(Ok(Vec::new()), |a| json_rows(&a["events"]))?;
            let rows: Vec<String> = rows.iter().map(answer_row).collect();
            line(
                &mut out,
                format_args!("expect answer [{}]", rows.join("; ")),
            );
        } else if step.get("advance").is_some() {
            line(&mut out, format_args!("advance @{at}"));
        } else if let Some(send) = step.get("send") {
            write_send(&mut out, &plan, at, send)?;
        } else {
            return Err(format!("the text format has no line for {step}"));
        }
    }
    write_expected(&mut out, &plan, result)?;
    Ok(out)
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("writing to a string cannot fail");
}

fn answer_row(row: &Row) -> String {
    write_row(&answer_schema(row.data.iter().map(Value::ty)), row)
}

/// Answers have no declared types: each column has that of its values.
fn answer_schema(types: impl Iterator<Item = Option<Type>>) -> Schema {
    let attribute = |(column, ty): (usize, Option<Type>)| Attribute {
        name: format!("c{column}"),
        ty: ty.unwrap_or(Type::Object),
    };
    Schema {
        name: "answer".into(),
        attributes: types.enumerate().map(attribute).collect(),
    }
}

fn write_send(out: &mut String, plan: &Plan, at: i64, send: &Json) -> Result<(), String> {
    let name = send["stream"].as_str().unwrap_or_default();
    let schema = plan
        .junction_named(name)
        .map(|id| plan.junction_schema(id))
        .ok_or_else(|| format!("no stream '{name}'"))?;
    let written = |event: &Json| -> Result<String, String> {
        let data = event["data"].as_array().into_iter().flatten();
        let is_bare = data.clone().any(Json::is_number);
        let values: Vec<Value> = data.map(case::value).collect::<Result<_, _>>()?;
        let event_ts = event["ts"].as_i64();
        let event = Event {
            ts: event_ts,
            expired: false,
            data: values,
            is_bare,
        };
        let data = schema
            .attributes
            .iter()
            .enumerate()
            .map(|(i, a)| event.value(i, a.ty));
        let row = write_row(
            schema,
            &Row {
                ts: 0,
                data: data.collect(),
                expired: false,
            },
        );
        Ok(match event_ts {
            Some(ts) if ts != at => format!("ts={ts} {row}"),
            _ => row,
        })
    };
    match send["events"].as_array() {
        None => line(out, format_args!("send {name} @{at} {}", written(send)?)),
        Some(events) => {
            let rows = events.iter().map(written).collect::<Result<Vec<_>, _>>()?;
            line(out, format_args!("send {name} @{at} [{}]", rows.join("; ")));
        }
    }
    Ok(())
}

fn write_expected(out: &mut String, plan: &Plan, result: &Json) -> Result<(), String> {
    if result["status"] != "ok" {
        line(out, format_args!("expect refused"));
        return Ok(());
    }
    for (name, chunks) in result["streams"].as_object().into_iter().flatten() {
        let Some(id) = plan.junction_named(name) else {
            continue;
        };
        let chunks = chunks.as_array().map_or(&[][..], Vec::as_slice);
        if chunks.is_empty() {
            line(out, format_args!("expect {name} nothing"));
        }
        for chunk in chunks {
            let rows = json_rows(&chunk["events"])?;
            line(
                out,
                format_args!(
                    "expect {name} {}",
                    write_rows(plan.junction_schema(id), &rows)
                ),
            );
        }
    }
    for (name, calls) in result["queries"].as_object().into_iter().flatten() {
        let Some(query) = plan.queries.iter().find(|q| q.name == *name) else {
            continue;
        };
        for call in calls.as_array().into_iter().flatten() {
            let mut rows = Vec::new();
            for (mark, field) in [('+', "in"), ('-', "out")] {
                for row in json_rows(&call[field])? {
                    rows.push(format!(
                        "{mark} {}",
                        write_row(&query.selector.schema, &row)
                    ));
                }
            }
            line(
                out,
                format_args!("expect query {name} [{}]", rows.join("; ")),
            );
        }
    }
    Ok(())
}
