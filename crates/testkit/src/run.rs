//! Runs text tests, each case in every mode, and rewrites expectations on demand.

use std::cell::Cell;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use check::Catalog;
use connect::registry::Registry;
use event::{Schema, Value};
use plan::Plan;

use crate::case::Event;
use crate::drive::{Observed, Session};
use crate::mode::Mode;
use crate::outcome::{Outcome, Row};
use crate::script::{AppText, Expect, Line, RowText, Script, Step, parse, write_value};
use crate::{compile, event_store};

/// One case that did not do what it says.
#[derive(Clone, Debug)]
pub struct Failure {
    pub file: PathBuf,
    pub case: String,
    /// Line in the file, from 1.
    pub line: usize,
    pub mode: Mode,
    pub message: String,
}

/// What a run of files gave.
#[derive(Clone, Default, Debug)]
pub struct Report {
    /// Cases that passed in every mode that is about them.
    pub passed: usize,
    /// Cases that say of themselves that the event store gives something else, and why.
    pub differing: Vec<(String, String)>,
    pub failures: Vec<Failure>,
}

/// What the runner knows: components, and the event store for the mode that is about it.
#[derive(Clone, Copy)]
struct Known<'a> {
    catalog: &'a Catalog,
    registry: Registry,
}

/// Runs the test files among `paths`, folders searched for `*.test`, in the order of their names.
///
/// # Errors
/// A folder or file that cannot be read.
pub fn run(
    paths: &[PathBuf],
    catalog: &Catalog,
    registry: Registry,
    modes: &[Mode],
) -> std::io::Result<Report> {
    let catalog = &crate::compile::with_stores(catalog);
    let known = Known { catalog, registry };
    let mut report = Report::default();
    for file in files(paths)? {
        let text = std::fs::read_to_string(&file)?;
        run_file(&file, &text, known, modes, &mut report);
    }
    Ok(report)
}

/// Test files in order of name; a path that is a file is taken as it is.
pub fn files(paths: &[PathBuf]) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = Vec::new();
    for path in paths {
        if path.is_dir() {
            folders.push(path.clone())
        } else {
            found.push(path.clone())
        }
    }
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "test") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Runs the cases of one file.
fn run_file(file: &Path, text: &str, known: Known<'_>, modes: &[Mode], report: &mut Report) {
    let name = file
        .file_stem()
        .map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let failed = |case: &str, line: usize, mode: Mode, message: String| Failure {
        file: file.to_owned(),
        case: case.to_owned(),
        line,
        mode,
        message,
    };
    let cases = match parse(text, &name) {
        Ok(cases) => cases,
        // One case that cannot be read keeps the others of its file from nothing.
        Err(_) => {
            let mut cases = Vec::new();
            for (case, block) in blocks(text, &name) {
                match parse(&block, &name) {
                    Ok(read) => cases.extend(read),
                    Err(error) => {
                        let failure = failed(&case, error.line, Mode::One, error.message);
                        report.failures.push(failure);
                    }
                }
            }
            cases
        }
    };
    for case in &cases {
        let mut has_run = false;
        let wrong = modes.iter().find_map(|&mode| {
            match (
                run_case(case, file, known, mode),
                mode,
                &case.about.in_memory,
            ) {
                (Ok(Ran::NoTable), ..) => return None,
                (Ok(Ran::Passed), Mode::EventStore, Some(_)) => {
                    let message = "the event store gives the same: take out the line 'in memory:'";
                    return Some(failed(&case.name, case.line, mode, message.into()));
                }
                (Ok(Ran::Passed), ..) => {}
                (Err(_), Mode::EventStore, Some(why)) => {
                    let differing = (case.name.clone(), why.clone());
                    report.differing.push(differing);
                }
                (Err((line, message)), ..) => {
                    return Some(failed(&case.name, line, mode, message));
                }
            }
            has_run = true;
            None
        });
        match wrong {
            Some(failure) => report.failures.push(failure),
            None => report.passed += usize::from(has_run),
        }
    }
}

/// What became of a case in a mode.
enum Ran {
    Passed,
    /// The mode is about tables, and the case has none.
    NoTable,
}

/// The cases of a file by their names, each with all lines of the others empty, so that its own keep
/// their numbers.
fn blocks(text: &str, file_name: &str) -> Vec<(String, String)> {
    let mut blocks = vec![(file_name.to_owned(), String::new())];
    for (index, line) in text.lines().enumerate() {
        if let Some(name) = line.strip_prefix("===") {
            blocks.push((name.trim().to_owned(), "\n".repeat(index)));
        }
        if let Some((_, block)) = blocks.last_mut() {
            block.push_str(line);
            block.push('\n');
        }
    }
    blocks
}

/// Line and words of the first thing that is not as the script says.
type Wrong = (usize, String);

fn run_case(case: &Script, file: &Path, known: Known<'_>, mode: Mode) -> Result<Ran, Wrong> {
    catch_unwind(AssertUnwindSafe(|| play(case, file, known, mode))).unwrap_or_else(|panic| {
        let message = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        Err((
            case.line,
            format!("panicked: {}", message.unwrap_or_default()),
        ))
    })
}

fn play(case: &Script, file: &Path, known: Known<'_>, mode: Mode) -> Result<Ran, Wrong> {
    let refused = case.refusal();
    let text = app_text(case, file).map_err(|message| (case.line, message))?;
    let has_table = Cell::new(true);
    let checked = compile::checked_as(
        &text,
        known.catalog,
        &compile::test_config(),
        &|name| variable(case, name),
        &|app| {
            if mode == Mode::EventStore {
                has_table.set(event_store::keep_all(app));
            }
        },
    );
    if !has_table.get() {
        return Ok(Ran::NoTable);
    }
    let plan = match (checked, refused) {
        (Ok(plan), None) => plan,
        (Ok(_), Some((line, _))) => return Err((line, "the app is accepted".into())),
        (Err(faults), Some((line, words))) => {
            let all: Vec<String> = faults
                .iter()
                .map(|d| format!("{} {}", d.code, d.message))
                .collect();
            let found = all.iter().any(|m| m.contains(words.trim_matches('\'')));
            return if found {
                Ok(Ran::Passed)
            } else {
                Err((
                    line,
                    format!("refused for another reason: {}", all.join("; ")),
                ))
            };
        }
        (Err(faults), None) => {
            let all: Vec<String> = faults.iter().map(|d| d.message.clone()).collect();
            return Err((case.line, format!("the app is refused: {}", all.join("; "))));
        }
    };
    let plan = compile::for_test(plan, mode).map_err(|message| (case.line, message))?;
    Player::new(case, &plan, known, mode)?.play(case)?;
    Ok(Ran::Passed)
}

/// The value of `${NAME}`, as the case says it, else the environment. No file is read: what an app keeps
/// in one is a secret, and nothing is connected in a test.
fn variable(case: &Script, name: &str) -> Option<String> {
    if name.starts_with("file:") {
        return Some("secret".to_owned());
    }
    let name = name.strip_prefix("env:").unwrap_or(name);
    let own = case.about.variables.iter().find(|(own, _)| own == name);
    own.map(|(_, value)| value.clone())
        .or_else(|| std::env::var(name).ok())
}

pub fn app_text(case: &Script, file: &Path) -> Result<String, String> {
    match &case.app {
        AppText::Here(text, _) => Ok(text.clone()),
        AppText::File(name) => {
            let path = file.parent().unwrap_or(Path::new(".")).join(name);
            std::fs::read_to_string(&path).map_err(|e| format!("cannot read '{name}': {e}"))
        }
    }
}

/// Plays the steps of one case and takes its output apart, chunk by chunk.
struct Player<'a> {
    plan: &'a Plan,
    session: Session<'a>,
    /// Chunks of each stream and callbacks of each query that were expected so far.
    taken: Vec<(String, usize)>,
    /// Of the last `query`, until an `expect` takes it.
    answer: Option<Asked>,
}

/// Attributes and rows of an answer, or why there is none.
type Asked = Result<(Schema, Option<Vec<Row>>), String>;

impl<'a> Player<'a> {
    fn new(
        case: &Script,
        plan: &'a Plan,
        known: Known<'a>,
        mode: Mode,
    ) -> Result<Player<'a>, Wrong> {
        let mut observed = Observed::default();
        let mut taken: Vec<(String, usize)> = Vec::new();
        for line in &case.steps {
            let Step::Expect(expect) = &line.step else {
                continue;
            };
            let (name, is_query) = match expect {
                Expect::Chunk { stream, .. } | Expect::Nothing(stream) => (stream, false),
                Expect::Callback { query, .. } => (query, true),
                _ => continue,
            };
            if taken.iter().any(|(taken, _)| taken == name) {
                continue;
            }
            taken.push((name.clone(), 0));
            let found = if is_query {
                plan.queries.iter().position(|q| q.name == *name)
            } else {
                plan.junction_named(name)
            };
            let id = found.ok_or_else(|| {
                let kind = if is_query { "query" } else { "stream" };
                (line.number, format!("the app has no {kind} '{name}'"))
            })?;
            if is_query {
                observed.queries.push(id)
            } else {
                observed.streams.push(id)
            }
        }
        let known = (known.catalog, known.registry);
        let mut session = Session::new(plan, known, observed, mode, 0)
            .map_err(|error| (case.line, error.to_string()))?;
        session.start();
        Ok(Player {
            plan,
            session,
            taken,
            answer: None,
        })
    }

    fn play(mut self, case: &Script) -> Result<(), Wrong> {
        for line in &case.steps {
            self.step(line).map_err(|message| (line.number, message))?;
        }
        self.session.flush();
        let last = case.steps.last().map_or(case.line, |l| l.number);
        for (name, taken) in &self.taken {
            let rest = self.rest(name, *taken);
            if !rest.is_empty() {
                return Err((last, format!("'{name}' gave more than expected:\n{rest}")));
            }
        }
        Ok(())
    }

    fn step(&mut self, line: &Line) -> Result<(), String> {
        match &line.step {
            Step::Send {
                stream, at, rows, ..
            } => {
                let id = self
                    .session
                    .stream(stream)
                    .ok_or_else(|| format!("the app has no stream '{stream}'"))?;
                let schema = self.plan.junction_schema(id);
                let at = at.unwrap_or(self.session.clock());
                let mut events = rows
                    .iter()
                    .map(|r| event(r, schema))
                    .collect::<Result<Vec<_>, _>>()?;
                if self.plan.options.playback.is_some() {
                    // The events of a test move the clock, as those of a recording would.
                    events.iter_mut().for_each(|e| e.ts = e.ts.or(Some(at)));
                }
                self.session.gather(id, at, events);
                Ok(())
            }
            Step::AdvanceBy(millis) => {
                self.session.flush();
                self.session.advance(self.session.clock() + millis);
                Ok(())
            }
            Step::AdvanceTo(time) => {
                self.session.flush();
                self.session.advance(*time);
                Ok(())
            }
            Step::Publish { topic, at, text } => {
                let at = at.unwrap_or(self.session.clock());
                self.session.flush();
                self.session.pass(at);
                self.session.publish(topic, &Value::str(text));
                Ok(())
            }
            Step::Save => {
                self.session.flush();
                self.session.save();
                Ok(())
            }
            Step::Restart => {
                self.session.flush();
                self.session.restart();
                Ok(())
            }
            Step::Query(text) => {
                self.session.flush();
                self.answer = Some(self.session.ask(text));
                Ok(())
            }
            Step::Expect(expect) => {
                self.session.flush();
                self.expect(expect)
            }
        }
    }

    fn expect(&mut self, expect: &Expect) -> Result<(), String> {
        match expect {
            Expect::Nothing(stream) => {
                let taken = self.taken_of(stream);
                let rest = self.rest(stream, taken);
                if rest.is_empty() {
                    Ok(())
                } else {
                    Err(format!("'{stream}' gave:\n{rest}"))
                }
            }
            Expect::Rejected(count) => {
                let found = self.outcome().failures.len() as u64;
                if found == *count {
                    Ok(())
                } else {
                    let why = self.outcome().failures.join("; ");
                    Err(format!("expected {count} rejected, found {found}: {why}"))
                }
            }
            Expect::Chunk {
                stream, at, rows, ..
            } => self.expect_chunk(stream, *at, rows),
            Expect::Callback {
                query,
                at,
                current,
                expired,
            } => self.expect_callback(query, *at, current, expired),
            // Looked at before the app was made.
            Expect::Refused(_) => Ok(()),
            Expect::Answer(want) => match self.answer.take() {
                None => Err("an answer needs a 'query' before it".into()),
                Some(Err(why)) => Err(format!("the query fails: {why}")),
                Some(Ok((schema, got))) => {
                    same_rows(&schema, None, want, got.as_deref().unwrap_or(&[]))
                }
            },
            Expect::NoAnswer(words) => match self.answer.take() {
                Some(Err(why)) if why.contains(words.trim_matches('\'')) => Ok(()),
                Some(Err(why)) => Err(format!("the query fails for another reason: {why}")),
                Some(Ok(_)) => Err("the query is answered".into()),
                None => Err("a failure needs a 'query' before it".into()),
            },
        }
    }

    fn expect_chunk(
        &mut self,
        stream: &str,
        at: Option<i64>,
        rows: &[RowText],
    ) -> Result<(), String> {
        let id = self.plan.junction_named(stream).ok_or("no such stream")?;
        let schema = self.plan.junction_schema(id);
        let next = self.next(stream);
        let chunks = self.outcome().streams.get(stream);
        let Some(chunk) = chunks.and_then(|c| c.get(next)) else {
            let failures = self.outcome().failures.join("; ");
            return Err(format!("nothing more came out on '{stream}' {failures}"));
        };
        same_rows(schema, at, rows, &chunk.events)
    }

    fn expect_callback(
        &mut self,
        query: &str,
        at: Option<i64>,
        current: &[RowText],
        expired: &[RowText],
    ) -> Result<(), String> {
        let found = self
            .plan
            .queries
            .iter()
            .find(|q| q.name == query)
            .ok_or("no such query")?;
        let schema = &found.selector.schema;
        let next = self.next(query);
        let calls = self.outcome().queries.get(query);
        let Some(call) = calls.and_then(|c| c.get(next)) else {
            return Err(format!("query '{query}' called back no more"));
        };
        same_rows(schema, at, current, call.current.as_deref().unwrap_or(&[]))
            .and_then(|()| same_rows(schema, at, expired, call.expired.as_deref().unwrap_or(&[])))
    }

    fn outcome(&self) -> &Outcome {
        &self.session.outcome
    }

    fn taken_of(&self, name: &str) -> usize {
        self.taken
            .iter()
            .find(|(n, _)| n == name)
            .map_or(0, |(_, taken)| *taken)
    }

    /// The index of the next chunk or callback, which is taken by this.
    fn next(&mut self, name: &str) -> usize {
        match self.taken.iter_mut().find(|(n, _)| n == name) {
            Some((_, taken)) => {
                *taken += 1;
                *taken - 1
            }
            None => 0,
        }
    }

    /// What was not expected yet, as lines of a test.
    fn rest(&self, name: &str, taken: usize) -> String {
        let mut out = String::new();
        if let Some(chunks) = self.outcome().streams.get(name)
            && let Some(id) = self.session.stream(name)
        {
            let schema = self.plan.junction_schema(id);
            for chunk in chunks.iter().skip(taken) {
                writeln!(out, "expect {name} {}", write_rows(schema, &chunk.events))
                    .expect("writing to a string cannot fail");
            }
        }
        if let Some(calls) = self.outcome().queries.get(name)
            && let Some(query) = self.plan.queries.iter().find(|q| q.name == name)
        {
            for call in calls.iter().skip(taken) {
                let part = |mark: &str, rows: &Option<Vec<Row>>| -> Vec<String> {
                    rows.iter()
                        .flatten()
                        .map(|r| format!("{mark} {}", write_row(&query.selector.schema, r)))
                        .collect()
                };
                let all = [part("+", &call.current), part("-", &call.expired)]
                    .concat()
                    .join("; ");
                writeln!(out, "expect query {name} [{all}]")
                    .expect("writing to a string cannot fail");
            }
        }
        out
    }
}

pub(crate) fn event(row: &RowText, schema: &Schema) -> Result<Event, String> {
    if row.values.len() != schema.attributes.len() {
        return Err(format!(
            "{} values for the {} attributes of '{}'",
            row.values.len(),
            schema.attributes.len(),
            schema.name
        ));
    }
    let data = row
        .values
        .iter()
        .zip(&schema.attributes)
        .map(|(value, attribute)| value.typed(attribute.ty))
        .collect::<Result<_, _>>()?;
    Ok(Event {
        ts: row.ts,
        expired: false,
        data,
        is_bare: false,
    })
}

/// Doubles agree to one part in 10^9, as in the recorded cases.
pub(crate) fn same_rows(
    schema: &Schema,
    at: Option<i64>,
    want: &[RowText],
    got: &[Row],
) -> Result<(), String> {
    let differ = || {
        let want: Vec<String> = want
            .iter()
            .map(|w| match event(w, schema) {
                Ok(e) => write_row(
                    schema,
                    &Row {
                        ts: 0,
                        data: e.data,
                        expired: false,
                    },
                ),
                Err(message) => message,
            })
            .collect();
        format!(
            "expected [{}]\n     got {}",
            want.join("; "),
            write_rows(schema, got)
        )
    };
    if want.len() != got.len() {
        return Err(differ());
    }
    for (want, got) in want.iter().zip(got) {
        let event = event(want, schema)?;
        let same = event
            .data
            .iter()
            .zip(&got.data)
            .all(|(a, b)| same_value(a, b));
        let time = want.ts.or(at);
        if !same || time.is_some_and(|t| t != got.ts) {
            return Err(differ());
        }
    }
    Ok(())
}

fn same_value(a: &event::Value, b: &event::Value) -> bool {
    use event::Value::{Double, Float};
    match (a, b) {
        (Double(x), Double(y)) => x == y || (x - y).abs() <= 1e-9 * x.abs().max(y.abs()) || a == b,
        (Float(x), Float(y)) => x == y || (x - y).abs() <= 1e-6 * x.abs().max(y.abs()) || a == b,
        _ => a == b,
    }
}

pub(crate) fn write_rows(schema: &Schema, rows: &[Row]) -> String {
    let first = rows.first().map_or(0, |r| r.ts);
    let same = rows.iter().all(|r| r.ts == first);
    let texts: Vec<String> = rows
        .iter()
        .map(|r| {
            let row = write_row(schema, r);
            if same {
                row
            } else {
                format!("ts={} {row}", r.ts)
            }
        })
        .collect();
    let at = if same {
        format!("@{first} ")
    } else {
        String::new()
    };
    match texts.as_slice() {
        [one] => format!("{at}{one}"),
        all => format!("{at}[{}]", all.join("; ")),
    }
}

pub(crate) fn write_row(schema: &Schema, row: &Row) -> String {
    let mut out = String::new();
    for (i, (value, attribute)) in row.data.iter().zip(&schema.attributes).enumerate() {
        if i > 0 {
            out.push(' ');
        }
        write_value(&mut out, value, attribute.ty);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_that_cannot_be_read_leaves_the_others_alone() {
        let case = |name: &str, step: &str| {
            format!("=== {name}\ndefine stream S (a int);\n---\n{step} S @0 1\nexpect S @0 1\n")
        };
        let text = format!("{}{}", case("good", "send"), case("typo", "sned"));
        let mut report = Report::default();
        run_file(
            Path::new("t.test"),
            &text,
            Known {
                catalog: &Catalog::new([], []),
                registry: Registry::EMPTY,
            },
            &[Mode::One],
            &mut report,
        );
        let failures: Vec<(&str, usize)> = report
            .failures
            .iter()
            .map(|f| (f.case.as_str(), f.line))
            .collect();
        assert_eq!(
            (report.passed, failures.as_slice()),
            (1, &[("typo", 9)][..])
        );
    }
}
