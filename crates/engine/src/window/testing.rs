//! One harness for all windows: events in, emission out, both as text.
//!
//! Input: `1@1000` is an event with value 1 that arrives at 1000; `1#900@1000` carries the timestamp
//! 900; `1~40@1000` carries 40 in the attribute `t` (`~-`: null); `[1 2]@1000` is one chunk;
//! `tick@2000` lets the clock reach 2000.
//!
//! Output: `C1@1000` is CURRENT row 1 with timestamp 1000, `E1@…` EXPIRED, `R` a RESET, `~…` the
//! attribute `t` where the case shows it, ` | ` ends a chunk.
//!
//! Each case runs with batches of one chunk, of seven and of all, with and without saving and
//! restoring the state at every step, and for two keys at once; all must emit the same.

use super::WINDOWS;
use crate::component::*;
use crate::emission::Emission;
use crate::snapshot_format::{Entries, Extent, Id, List};
use event::codec::{Reader, Writer};
use event::{Attribute, Batch, Chunks, Clock, Schema, Type, Value};

pub struct Case {
    window: &'static str,
    args: Vec<Argument>,
    expired_wanted: bool,
    is_searched: bool,
    compat: bool,
    playback: bool,
    shows_time_attribute: bool,
}

pub fn int(value: i32) -> Argument {
    constant(Type::Int, Value::Int(value))
}

pub fn long(value: i64) -> Argument {
    constant(Type::Long, Value::Long(value))
}

pub fn bool(value: bool) -> Argument {
    constant(Type::Bool, Value::Bool(value))
}

pub fn double(value: f64) -> Argument {
    constant(Type::Double, Value::Double(value))
}

pub fn text(value: &str) -> Argument {
    constant(Type::String, Value::str(value))
}

/// The attribute `v`.
pub fn v() -> Argument {
    attribute(0)
}

/// The attribute `t`.
pub fn t() -> Argument {
    attribute(1)
}

fn attribute(index: usize) -> Argument {
    Argument {
        ty: Type::Long,
        constant: None,
        attribute: Some(index),
    }
}

fn constant(ty: Type, value: Value) -> Argument {
    Argument {
        ty,
        constant: Some(value),
        attribute: None,
    }
}

impl Case {
    pub fn new(window: &'static str, args: &[Argument]) -> Case {
        Case {
            window,
            args: args.to_vec(),
            expired_wanted: true,
            is_searched: false,
            compat: false,
            playback: false,
            shows_time_attribute: false,
        }
    }

    pub fn without_expired(mut self) -> Case {
        self.expired_wanted = false;
        self
    }

    pub fn searched(mut self) -> Case {
        self.is_searched = true;
        self
    }

    pub fn compat(mut self) -> Case {
        self.compat = true;
        self
    }

    pub fn in_playback(mut self) -> Case {
        self.playback = true;
        self
    }

    pub fn showing_t(mut self) -> Case {
        self.shows_time_attribute = true;
        self
    }

    fn schema(&self) -> Schema {
        let attribute = |name: &str| Attribute {
            name: name.into(),
            ty: Type::Long,
        };
        Schema {
            name: "S".into(),
            attributes: vec![attribute("v"), attribute("t")],
        }
    }

    fn bind(&self) -> Box<dyn WindowOperator> {
        let window = WINDOWS
            .iter()
            .find(|w| w.spec().full_name() == self.window)
            .expect("the window is in the slice");
        let environment = AppEnvironment {
            compat: self.compat,
            conditions: conditions(),
            ..AppEnvironment::default()
        };
        let bound = window.bind(&WindowSetup {
            args: &self.args,
            schema: &self.schema(),
            selected: &[0, 1],
            expired_wanted: self.expired_wanted,
            is_searched: self.is_searched,
            is_partitioned: false,
            environment: &environment,
        });
        bound.unwrap_or_else(|refused| panic!("{refused}"))
    }

    pub fn is_refused(&self) -> bool {
        let environment = AppEnvironment {
            conditions: conditions(),
            ..AppEnvironment::default()
        };
        let window = WINDOWS.iter().find(|w| w.spec().full_name() == self.window);
        let window = window.expect("the window is in the slice");
        let schema = self.schema();
        let setup = WindowSetup {
            args: &self.args,
            schema: &schema,
            selected: &[0, 1],
            expired_wanted: true,
            is_searched: false,
            is_partitioned: false,
            environment: &environment,
        };
        window.bind(&setup).is_err()
    }
}

/// As the checker gives them to a plan.
fn conditions() -> plan::ContentConditions {
    let catalog = check::Catalog::new(crate::specs(), []);
    let app = lang::parse("define stream S (v int);").app;
    let checked = check::check(&app, &catalog, &check::CheckConfig::default());
    checked.plan.expect("the app is right").conditions
}

/// A chunk: its clock, and its events as timestamp, value and `t`. No events: only time passes.
struct Chunk {
    clock: i64,
    events: Vec<(i64, Value, Value)>,
}

fn parse(input: &str) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    let mut open: Vec<String> = Vec::new();
    for word in input.split_whitespace() {
        if let Some(word) = word.strip_prefix('[') {
            open.push(word.to_owned());
            continue;
        }
        let Some((word, clock)) = word.split_once('@') else {
            open.push(word.to_owned());
            continue;
        };
        if word != "tick" {
            open.push(word.trim_end_matches(']').to_owned());
        }
        let clock = clock.parse().expect("a clock");
        let events = open
            .drain(..)
            .map(|word| parse_event(&word, clock))
            .collect();
        chunks.push(Chunk { clock, events });
    }
    chunks
}

fn parse_event(word: &str, clock: i64) -> (i64, Value, Value) {
    let (word, time) = word.split_once('#').unwrap_or((word, ""));
    let (tail, time) = if time.is_empty() {
        (word, clock)
    } else {
        (word, time.parse().expect("a timestamp"))
    };
    let (value, t) = tail.split_once('~').unwrap_or((tail, "0"));
    let number = |text: &str| match text {
        "-" => Value::Null,
        text => Value::Long(text.parse().expect("a number")),
    };
    (time, number(value), number(t))
}

/// The keys that run side by side.
const KEYS: [Key; 2] = [0, 3];

struct Run<'a> {
    case: &'a Case,
    operator: Box<dyn WindowOperator>,
    deadlines: [Vec<i64>; 2],
    output: [Vec<String>; 2],
    failures: Vec<Failure>,
    saves: bool,
}

impl Run<'_> {
    fn call(&mut self, index: usize, now: i64, input: Result<&Batch, i64>) {
        let key = KEYS[index];
        let mut out = Emission::default();
        let mut context = WindowContext {
            now,
            wall: now,
            deadlines: &mut self.deadlines[index],
            failures: &mut self.failures,
        };
        match input {
            Ok(batch) => self.operator.process(key, batch, &mut context, &mut out),
            Err(due) => self.operator.on_timer(key, due, &mut context, &mut out),
        }
        if let Some(batch) = out.finish(&[Type::Long, Type::Long]) {
            self.output[index].push(shown(&batch, self.case.shows_time_attribute));
        }
        if self.saves {
            let mut writers: Vec<Writer> = Vec::new();
            let mut segments: Vec<Writer> = Vec::new();
            for key in KEYS {
                let mut writer = Writer::default();
                self.operator.save(key, &mut writer);
                writers.push(writer);
                let mut writer = Writer::default();
                if let Some(queue) = self.operator.queue(key) {
                    let mut list = List::new(&mut writer, Extent::All);
                    queue.save_segments(&mut list, Extent::All, Id::from);
                }
                segments.push(writer);
            }
            self.operator = self.case.bind();
            for ((key, writer), segments) in KEYS.into_iter().zip(&writers).zip(&segments) {
                let mut reader = Reader::new(&writer.bytes);
                self.operator
                    .restore(key, &mut reader)
                    .expect("what was saved is restored");
                assert!(reader.is_done(), "something is left of the saved state");
                if let Some(queue) = self.operator.queue_mut(key) {
                    let mut segments = Entries::of(&segments.bytes[1..]);
                    while let Some((_, mut segment)) = segments.next().expect("entries") {
                        queue
                            .take_back(&mut segment)
                            .expect("a segment that was saved");
                    }
                    queue.be_whole().expect("all segments");
                }
            }
        }
    }

    /// Serves what is due at or before `clock`: each deadline at its own time, or, in playback,
    /// when the clock has already jumped.
    fn serve(&mut self, clock: i64) {
        for index in 0..KEYS.len() {
            while let Some(&due) = self.deadlines[index].iter().min().filter(|&&d| d <= clock) {
                let at = self.deadlines[index].iter().position(|&d| d == due);
                self.deadlines[index].swap_remove(at.expect("it was just found"));
                let now = if self.case.playback { clock } else { due };
                self.call(index, now, Err(due));
            }
        }
    }

    fn step(&mut self, chunks: &[Chunk]) {
        let first = chunks[0].clock;
        self.serve(first);
        let chunks: Vec<&Chunk> = chunks.iter().filter(|c| !c.events.is_empty()).collect();
        if chunks.is_empty() {
            return;
        }
        let rows: Vec<_> = chunks
            .iter()
            .flat_map(|c| &c.events)
            .map(|(time, v, t)| (*time, vec![v.clone(), t.clone()]))
            .collect();
        let mut end = 0;
        let ends: Vec<u32> = chunks
            .iter()
            .map(|c| {
                end += c.events.len() as u32;
                end
            })
            .collect();
        let shape = match ends.as_slice() {
            [_] => Chunks::One,
            ends if ends.len() == rows.len() => Chunks::EachRow,
            _ => Chunks::Ends(ends.into()),
        };
        let mut batch = Batch::from_rows(&self.case.schema(), &rows, shape, first);
        if chunks.iter().any(|c| c.clock != first) {
            batch.clock = Clock::PerChunk(chunks.iter().map(|c| c.clock).collect());
        }
        for index in 0..KEYS.len() {
            self.call(index, first, Ok(&batch));
        }
        self.serve(first);
    }
}

fn shown(batch: &Batch, with_t: bool) -> String {
    let mut words = Vec::new();
    let resets = batch.resets.as_deref().unwrap_or(&[]);
    for chunk in 0..batch.chunk_count() {
        if chunk > 0 {
            words.push("|".to_owned());
        }
        let range = batch.chunk(chunk);
        for row in range.start..=range.end {
            let here = |r: &&event::Reset| (r.chunk as usize, r.row as usize) == (chunk, row);
            words.extend(resets.iter().filter(here).map(|_| "R".to_owned()));
            if row == range.end {
                break;
            }
            let kind = if batch.is_expired(row) { 'E' } else { 'C' };
            let mut value = event::text::to_text(&batch.columns[0].value(row));
            if with_t {
                value.push('~');
                event::text::write_value(&mut value, &batch.columns[1].value(row));
            }
            words.push(format!("{kind}{value}@{}", batch.times.at(row)));
        }
    }
    words.join(" ")
}

/// Windows whose batches may go on where the clock moves.
const WITHOUT_TIMER: &[&str] = &[
    "batch",
    "expression",
    "expressionBatch",
    "externalTime",
    "frequent",
    "length",
    "lengthBatch",
    "lossyFrequent",
    "sort",
    "unique:ever",
    "unique:first",
    "unique:firstLengthBatch",
    "unique:length",
    "unique:lengthBatch",
];

/// Runs the whole input in one mode.
fn run<'a>(case: &'a Case, input: &str, chunks_each: usize, saves: bool) -> Run<'a> {
    let chunks = parse(input);
    let mut run = Run {
        case,
        operator: case.bind(),
        deadlines: Default::default(),
        output: Default::default(),
        failures: Vec::new(),
        saves,
    };
    let mut at = 0;
    while at < chunks.len() {
        // A batch ends where the clock moves on, for windows that could be woken in between.
        let moves = |a: &Chunk, b: &Chunk| a.clock != b.clock;
        let has_timer = !WITHOUT_TIMER.contains(&case.window);
        let mut end = at + 1;
        while end < chunks.len()
            && end - at < chunks_each
            && !(has_timer && moves(&chunks[at], &chunks[end]))
        {
            end += 1;
        }
        run.step(&chunks[at..end]);
        at = end;
    }
    run
}

/// The emission is as expected, in every mode and for both keys.
pub fn check(case: &Case, input: &str, expect: &str) {
    for (chunks_each, saves) in [
        (1, false),
        (7, false),
        (usize::MAX, false),
        (1, true),
        (2, true),
    ] {
        let run = run(case, input, chunks_each, saves);
        for output in &run.output {
            assert_eq!(
                output.join(" | "),
                expect,
                "batches of {chunks_each}, saving: {saves}"
            );
        }
    }
}

/// What each key emits in batches of one chunk, where that is not the same for both or depends on
/// whether the state is saved.
pub fn emitted(case: &Case, input: &str, saves: bool) -> [String; 2] {
    run(case, input, 1, saves)
        .output
        .map(|output| output.join(" | "))
}

/// The rows that a join would find at the end, and the rows held for a timer.
pub fn check_content(case: &Case, input: &str, content: &str, held: usize) {
    for saves in [false, true] {
        let run = run(case, input, 1, saves);
        let found = run.operator.content(KEYS[1]).map_or(String::new(), |held| {
            let batch = held.into_batch();
            let rows = 0..batch.len;
            rows.map(|r| event::text::to_text(&batch.columns[0].value(r)))
                .collect::<Vec<_>>()
                .join(" ")
        });
        assert_eq!(
            (found.as_str(), run.operator.held(KEYS[1])),
            (content, held)
        );
    }
}

/// The rows that fail, and what is emitted of the rest.
pub fn check_failure(case: &Case, input: &str, message: &str, expect: &str) {
    for chunks_each in [1, 7] {
        let run = run(case, input, chunks_each, false);
        let messages: Vec<_> = run.failures.iter().map(|f| f.message.as_str()).collect();
        assert_eq!(messages, [message; KEYS.len()], "batches of {chunks_each}");
        assert_eq!(run.output[0].join(" | "), expect);
    }
}

#[test]
fn the_slice_is_sorted_and_each_spec_has_a_summary_and_an_example() {
    let names: Vec<_> = WINDOWS.iter().map(|w| w.spec().full_name()).collect();
    assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
    for window in WINDOWS {
        let spec = window.spec();
        assert!(
            !spec.summary.is_empty() && !spec.example.is_empty(),
            "{}",
            spec.name
        );
    }
}
