//! `cron('expression')`: batches that end at the times of a schedule.

use super::held::Held;
use super::params::*;
use super::per_key::{PerKey, Rule, Stored};
use super::store::{RowTypes, Rows, batch_bytes};
use crate::component::*;
use crate::emission::Emission;
use crate::spec::*;
use event::codec::{Error as StateError, Reader, Writer};
use event::{Batch, Value};
use lang::cron::Cron;

pub struct CronWindow;

static SPEC: FunctionSpec = runs(
    FunctionSpec {
        findable: false,
        ..window(
            "cron",
            "Batches that end at the times of a schedule.",
            &[Overload::new(&[param(
                "cron.expression",
                Types::STRING,
                "Quartz expression.",
            )
            .constant()])],
        )
    },
    "define stream S (n int);
from S#window.cron('*/5 * * * * ?') select n insert into Out;
---
send S @1000 1
send S @2000 2
advance @5000
expect Out [1; 2]
",
);

impl Window for CronWindow {
    fn spec(&self) -> &'static FunctionSpec {
        &SPEC
    }

    fn bind(&self, setup: &WindowSetup<'_>) -> Result<Box<dyn WindowOperator>, Refused> {
        if setup.is_searched {
            return Err(Refused("window 'cron' cannot be searched by a join".into()));
        }
        let text = setup.args.first().and_then(|a| a.constant.as_ref());
        let Some(text) = text.and_then(Value::as_str) else {
            return Err(super::refused("cron", 0, "a constant text"));
        };
        let rule = Scheduled {
            // Siddhi logs a schedule that it cannot read, and never ends a batch then.
            cron: Cron::parse(text).ok(),
            environment: setup.environment.clone(),
            expired_wanted: setup.expired_wanted,
            is_partitioned: setup.is_partitioned,
        };
        Ok(PerKey::operator(setup, rule))
    }
}

struct Scheduled {
    cron: Option<Cron>,
    environment: AppEnvironment,
    expired_wanted: bool,
    /// One job serves all keys (`CronWindowProcessor` asks Quartz once).
    is_partitioned: bool,
}

struct State {
    collected: Rows,
    previous: Option<Batch>,
}

impl Stored for State {
    fn new(types: &RowTypes) -> State {
        State {
            collected: Rows::new(types),
            previous: None,
        }
    }

    fn bytes(&self) -> usize {
        self.collected.bytes() + self.previous.as_ref().map_or(0, batch_bytes)
    }

    fn save(&self, types: &RowTypes, writer: &mut Writer) {
        self.collected.save(writer);
        match &self.previous {
            Some(previous) => writer.rows(previous),
            None => Rows::new(types).save(writer),
        }
    }

    fn restore(types: &RowTypes, reader: &mut Reader<'_>) -> Result<State, StateError> {
        let collected = Rows::restore(types, reader)?;
        let previous = reader.rows(types, 0)?;
        Ok(State {
            collected,
            previous: (previous.len > 0).then_some(previous),
        })
    }
}

impl Scheduled {
    fn next(&self, after: i64) -> Option<i64> {
        self.cron
            .as_ref()?
            .next(after, &self.environment.time_zone())
    }

    fn schedule(&self, after: i64, context: &mut WindowContext<'_>) {
        let next = self.next(after).filter(|_| !self.is_partitioned);
        next.iter().for_each(|&next| context.notify(next));
    }
}

impl Rule for Scheduled {
    type State = State;

    fn process(
        &mut self,
        state: &mut State,
        batch: &Batch,
        _context: &mut WindowContext<'_>,
        _out: &mut Emission,
    ) {
        state.collected.append(batch, 0..batch.len);
    }

    /// `[E…, C…]` where anything was collected, without a RESET (`CronWindowProcessor`).
    fn on_timer(
        &mut self,
        state: &mut State,
        due: i64,
        context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
        if !state.collected.is_empty() {
            if let Some(previous) = state.previous.take() {
                let source = out.source(&previous);
                out.expired(source, 0..previous.len, context.now);
            }
            let batch = state.collected.take();
            let source = out.source(&batch);
            out.current(source, 0..batch.len);
            state.previous = Some(batch);
            out.end_chunk(context.now);
        }
        self.schedule(due, context);
    }

    fn starts(&self) -> bool {
        true
    }

    fn start(&mut self, _state: &mut State, context: &mut WindowContext<'_>) {
        self.schedule(context.wall, context);
    }

    fn job_after(&self, after: i64) -> Option<i64> {
        self.next(after).filter(|_| self.is_partitioned)
    }

    fn follows_wall(&self) -> bool {
        true
    }

    fn content<'s>(&self, _state: &'s State) -> Option<Held<'s>> {
        None
    }

    fn held(&self, state: &State) -> usize {
        let previous = state.previous.as_ref().filter(|_| self.expired_wanted);
        state.collected.len() + previous.map_or(0, |p| p.len)
    }
}
