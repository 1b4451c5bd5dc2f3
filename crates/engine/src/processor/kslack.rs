//! `#reorder:kslack(t, …)`: events in the order of a time, waiting as long as the latest was late.

use event::codec::{Error as StateError, Reader, Writer};
use event::{Batch, Column, Type};
use lang::catalog::functions::reorder::FUNCTIONS as KNOWN;
use lang::spec::FunctionSpec;

use super::per_key::{PerKey, Rule};
use super::reorder::{Buffer, Turn, discards, long, next_look, time_of};
use crate::component::*;
use crate::emission::Emission;
use crate::spec::runs;
use crate::window::{RowTypes, Stored};

pub struct KSlack;

static SPEC: FunctionSpec = runs(
    KNOWN,
    "kslack",
    "define stream S (t long, n int);
from S#reorder:kslack(t) select t, n insert into Out;
---
send S 1 1
send S 3 2
send S 2 3
send S 4 4
expect Out 1 1
expect Out 3 2
expect Out 2 3
",
);

const NAME: &str = "kslack";

impl Processor for KSlack {
    fn spec(&self) -> &'static FunctionSpec {
        &SPEC
    }

    fn bind(&self, setup: &ProcessorSetup<'_>) -> Result<Box<dyn ProcessorOperator>, Refused> {
        let longs = setup.args.iter().filter(|a| a.ty == Type::Long).count();
        let rule = Slack {
            // Siddhi starts the timer once, outside of all keys of a partition.
            timeout: long(setup.args, 1, NAME)
                .or_else(|refused| if longs < 2 { Ok(None) } else { Err(refused) })?
                .filter(|_| !setup.is_partitioned),
            slack_max: if longs > 2 {
                long(setup.args, 2, NAME)?.unwrap_or(i64::MAX)
            } else {
                i64::MAX
            },
            discards: discards(setup.args),
            types: setup.types.to_vec(),
        };
        Ok(PerKey::operator(setup, rule))
    }
}

struct Slack {
    timeout: Option<i64>,
    slack_max: i64,
    /// What is older than the row that left last is dropped.
    discards: bool,
    types: Vec<Type>,
}

impl Stored for Buffer {
    fn new(types: &RowTypes) -> Buffer {
        Buffer::new(types)
    }

    fn bytes(&self) -> usize {
        self.bytes()
    }

    fn save(&self, _types: &RowTypes, writer: &mut Writer) {
        self.save(writer);
    }

    fn restore(types: &RowTypes, reader: &mut Reader<'_>) -> Result<Buffer, StateError> {
        Buffer::restore(types, reader)
    }
}

impl Rule for Slack {
    type State = Buffer;

    /// `KSlackExtension`.
    fn process(
        &mut self,
        buffer: &mut Buffer,
        batch: Batch,
        args: &[Column],
        context: &mut WindowContext<'_>,
    ) -> Option<Batch> {
        let mut out = Emission::default();
        let mut turn = Turn::of_batch(buffer, &batch, &mut out);
        for chunk in 0..batch.chunk_count() {
            for row in batch.chunk(chunk) {
                let Some(time) = time_of(&args[0], row) else {
                    context.failures.push(Failure {
                        row: row as u32,
                        message: "the time of '#reorder:kslack' is null".into(),
                    });
                    out.abandon_chunk();
                    break;
                };
                if self.discards && time < *turn.last_sent {
                    continue;
                }
                turn.add(time, row, batch.is_expired(row));
                if time > *turn.largest {
                    *turn.largest = time;
                    let spread = turn.spread();
                    if spread > *turn.slack {
                        *turn.slack = spread.min(self.slack_max);
                    }
                    turn.release(&mut out);
                }
            }
            out.end_chunk(batch.clock_at(chunk));
        }
        turn.visit.finish();
        out.finish(&self.types)
    }

    fn alarm(
        &mut self,
        buffer: &mut Buffer,
        due: i64,
        context: &mut WindowContext<'_>,
    ) -> Option<Batch> {
        let timeout = self.timeout?;
        let mut out = Emission::default();
        let mut turn = Turn::of_timer(buffer);
        turn.time_out(due.saturating_add(timeout), false, &mut out);
        turn.visit.finish();
        out.end_chunk(context.now);
        let oldest = buffer.oldest(false);
        context.notify(next_look(due, context.now, oldest, timeout));
        out.finish(&self.types)
    }

    fn start(&mut self, _buffer: &mut Buffer, context: &mut WindowContext<'_>) {
        if let Some(timeout) = self.timeout {
            context.notify(context.now.saturating_add(timeout));
        }
    }

    fn held(&self, buffer: &Buffer) -> usize {
        self.timeout.map_or(0, |_| buffer.len())
    }
}
