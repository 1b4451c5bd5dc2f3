//! `expression(text)`: the newest events while a condition over them holds.

use super::held::Held;
use super::params::*;
use crate::spec::*;
use std::collections::VecDeque;

use super::content::{Current, Event, Kind, Text, View};
use super::per_key::{PerKey, Rule, Stored};
use super::pool::{Pool, Slot, Visit};
use super::store::RowTypes;
use crate::component::*;
use crate::emission::Emission;
use event::Batch;
use event::codec::{Error as StateError, Reader, Writer};

pub struct ExpressionWindow;

static SPEC: FunctionSpec = runs(
    window(
        "expression",
        "Events while a condition over them holds.",
        &[Overload::new(&[EXPRESSION])],
    ),
    "define stream S (symbol string, price double);
from S#window.expression('sum(price) < 10') select sum(price) as total insert into Out;
---
send S 5.0
send S 3.0
send S 9.0
expect Out 5.0
expect Out 8.0
expect Out 9.0
",
);

impl Window for ExpressionWindow {
    fn spec(&self) -> &'static FunctionSpec {
        &SPEC
    }

    fn bind(&self, setup: &WindowSetup<'_>) -> Result<Box<dyn WindowOperator>, Refused> {
        let text = Text::new(setup, "expression")?;
        let needed = text.attribute.into_iter().collect();
        Ok(PerKey::operator(setup, WhileTrue { text, needed }))
    }
}

struct WhileTrue {
    text: Text,
    needed: Vec<usize>,
}

struct State {
    pool: Pool,
    rows: VecDeque<Slot>,
    current: Current,
}

impl Stored for State {
    fn new(types: &RowTypes) -> State {
        State {
            pool: Pool::new(types),
            rows: VecDeque::new(),
            current: Current::default(),
        }
    }

    fn bytes(&self) -> usize {
        self.pool.bytes() + self.rows.len() * size_of::<Slot>()
    }

    fn save(&self, _types: &RowTypes, writer: &mut Writer) {
        writer.rows(&self.pool.rows(self.rows.iter().copied()));
        self.current.save(writer);
    }

    fn restore(types: &RowTypes, reader: &mut Reader<'_>) -> Result<State, StateError> {
        let rows = reader.rows(types, 0)?;
        Ok(State {
            rows: (0..rows.len as Slot).collect(),
            pool: Pool::of(types, rows),
            current: Current::restore(reader)?,
        })
    }
}

/// One event's way into the window.
struct Entry<'a, 'v, 'c> {
    visit: &'a mut Visit<'v>,
    rows: &'a mut VecDeque<Slot>,
    current: &'a mut Current,
    context: &'a mut WindowContext<'c>,
    clock: i64,
    row: usize,
}

impl Entry<'_, '_, '_> {
    fn event(&self, slot: Slot) -> Event {
        let (batch, row) = self.visit.place(slot);
        Event::of(batch, row)
    }

    fn holds(&mut self, kind: Kind, view: View<'_>) -> bool {
        let clocks = (self.clock, self.context.wall);
        let failures = &mut self.context.failures;
        match &mut self.current.condition {
            Some(condition) => condition.holds(kind, view, clocks, self.row, failures),
            None => true,
        }
    }

    /// The event enters; while the condition fails, the oldest leaves, be it the event itself.
    fn enter(&mut self, slot: Slot, out: &mut Emission) {
        self.rows.push_back(slot);
        let newest = self.event(slot);
        let oldest = self.event(self.rows[0]);
        let arrives = View {
            event: &newest,
            oldest: &oldest,
            newest: &newest,
        };
        if self.holds(Kind::Arrives, arrives) {
            return;
        }
        while let Some(gone) = self.rows.pop_front() {
            self.visit.emit(gone, true, Some(self.clock), out);
            let leaving = Event {
                time: self.clock,
                ..self.event(gone)
            };
            self.visit.remove(gone);
            let oldest = match self.rows.front() {
                Some(&first) => self.event(first),
                None => leaving.clone(),
            };
            let leaves = View {
                event: &leaving,
                oldest: &oldest,
                newest: &newest,
            };
            if self.holds(Kind::Leaves, leaves) {
                break;
            }
        }
    }
}

impl Rule for WhileTrue {
    type State = State;

    /// `[E…, C]` per event (`ExpressionWindowProcessor`).
    fn process(
        &mut self,
        state: &mut State,
        batch: &Batch,
        context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
        let State {
            pool,
            rows,
            current,
        } = state;
        let mut visit = Visit::of_batch(pool, batch, out);
        for chunk in 0..batch.chunk_count() {
            let clock = batch.clock_at(chunk);
            let failures = context.failures.len();
            for row in batch.chunk(chunk) {
                let changes = current.refresh(&self.text, batch, row);
                let slot = visit.add(row);
                let mut entry = Entry {
                    visit: &mut visit,
                    rows,
                    current,
                    context,
                    clock,
                    row,
                };
                match changes {
                    Ok(true) => {
                        // All stored events enter anew, under the new condition.
                        for stored in std::mem::take(entry.rows) {
                            entry.enter(stored, out);
                        }
                    }
                    Ok(false) => {}
                    Err(message) => {
                        let row = row as u32;
                        entry.visit.remove(slot);
                        entry.context.failures.push(Failure { row, message });
                        break;
                    }
                }
                entry.enter(slot, out);
                visit.pass(row, out);
            }
            if context.failures.len() > failures {
                out.abandon_chunk();
            }
            out.end_chunk(clock);
        }
        visit.finish();
    }

    fn needed(&self) -> &[usize] {
        &self.needed
    }

    fn content<'s>(&self, state: &'s State) -> Option<Held<'s>> {
        Some(Held::from(state.pool.rows(state.rows.iter().copied())))
    }
}

#[cfg(test)]
mod tests {
    use crate::window::testing::*;

    #[test]
    fn the_oldest_leave_until_the_condition_holds() {
        let case = Case::new("expression", &[text("sum(v) < 10")]);
        check(
            &case,
            "5@0 3@1 9@2 15@3 1@4",
            "C5@0 | C3@1 | E5@2 E3@2 C9@2 | E9@3 E15@3 C15@3 | C1@4",
        );
        check_content(&case, "5@0 3@1 4@2", "3 4", 0);
    }

    #[test]
    fn first_and_last_are_the_ends_of_the_window() {
        check(
            &Case::new(
                "expression",
                &[text(
                    "eventTimestamp(last) - eventTimestamp(first) < 10 and first.v <= v",
                )],
            ),
            "1@0 2@9 3@9 1@20",
            "C1@0 | C2@9 | C3@9 | E1@20 E2@20 E3@20 C1@20",
        );
    }
}
