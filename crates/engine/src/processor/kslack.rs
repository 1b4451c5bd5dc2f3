//! `#reorder:kslack(t, …)`: events in the order of a time, waiting as long as the latest was late.

use event::codec::{Error as StateError, Reader, Writer};
use event::{Batch, Column, Type};

use super::per_key::{PerKey, Rule};
use super::reorder::{Buffer, Settings, discards, long, time_of};
use crate::component::*;
use crate::spec::*;
use crate::window::{RowTypes, Stored};

pub struct KSlack;

const TS: Param = param("timestamp", Types::LONG, "Time of the event, in ms.");
const TIMEOUT: Param = param(
    "timeout",
    Types::LONG,
    "Releases what waits after so long, in ms.",
)
.constant();
const MAX_K: Param = param("max.k", Types::LONG, "Longest wait, in ms.").constant();
const DISCARD: Param = param(
    "discard.late.arrival",
    Types::BOOL,
    "Drops what comes too late.",
)
.constant();
const fn processor(
    name: &'static str,
    summary: &'static str,
    overloads: &'static [Overload],
) -> FunctionSpec {
    function(
        FunctionKind::StreamProcessor,
        "reorder",
        name,
        "execution-reorder",
        summary,
        overloads,
        Returns::Nothing,
    )
}

static SPEC: FunctionSpec = runs(
    processor(
        "kslack",
        "Orders events by waiting as long as the latest one was late.",
        &[
            Overload::new(&[TS]),
            Overload::new(&[TS, TIMEOUT]),
            Overload::new(&[TS, DISCARD]),
            Overload::new(&[TS, TIMEOUT, MAX_K]),
            Overload::new(&[TS, TIMEOUT, DISCARD]),
            Overload::new(&[TS, TIMEOUT, MAX_K, DISCARD]),
        ],
    ),
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
        let timeout = long(setup.args, 1, NAME)
            .or_else(|refused| if longs < 2 { Ok(None) } else { Err(refused) })?;
        let slack_max = match longs {
            0..=2 => None,
            _ => long(setup.args, 2, NAME)?,
        };
        let rule = Slack(Settings {
            timeout,
            slack_max: slack_max.unwrap_or(i64::MAX),
            discards: discards(setup.args),
            types: setup.types.to_vec(),
            times_out_first: false,
            is_partitioned: setup.is_partitioned,
        });
        Ok(PerKey::operator(setup, rule))
    }
}

struct Slack(Settings);

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
        let settings = &self.0;
        settings.each_row(buffer, &batch, context, |turn, row, out| {
            let time = time_of(&args[0], row).ok_or("the time of '#reorder:kslack' is null")?;
            if settings.discards && time < *turn.last_sent {
                return Ok(());
            }
            turn.add(time, row, batch.is_expired(row));
            turn.advance(time, |spread| spread.min(settings.slack_max), out);
            Ok(())
        })
    }

    fn on_timer(
        &mut self,
        buffer: &mut Buffer,
        due: i64,
        context: &mut WindowContext<'_>,
    ) -> Option<Batch> {
        self.0.look(buffer, due, context)
    }

    fn start(&mut self, _buffer: &mut Buffer, context: &mut WindowContext<'_>) {
        self.0.start(context);
    }

    fn held(&self, buffer: &Buffer) -> usize {
        self.0.held(buffer)
    }
}
