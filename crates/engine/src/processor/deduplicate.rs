//! `#unique:deduplicate(key, T)`: drops what has come within the last T.

use std::collections::{HashSet, VecDeque};

use event::codec::{Error as StateError, Reader, Writer};
use event::{Batch, Column, Value, text};

use super::per_key::{PerKey, Rule};
use crate::component::*;
use crate::spec::*;
use crate::window::{RowTypes, Stored};

pub struct Deduplicate;

const KEY: Param = param("unique.key", Types::BASIC, "What must be unique.");

static SPEC: FunctionSpec = runs(
    function(
        FunctionKind::StreamProcessor,
        "unique",
        "deduplicate",
        "execution-unique",
        "Drops events of a key that has passed less than T before.",
        &[Overload::new(&[
            KEY,
            // Siddhi declares INT as well, and then fails to cast it.
            param("time.interval", Types::LONG, "How long, in ms.").constant(),
        ])],
        Returns::Nothing,
    ),
    "define stream S (ip string, n int);
from S#unique:deduplicate(ip, 1 sec) select ip, n insert into Out;
---
send S @0 A 1
send S @500 A 2
send S @1001 A 3
expect Out A 1
expect Out A 3
",
);

impl Processor for Deduplicate {
    fn spec(&self) -> &'static FunctionSpec {
        &SPEC
    }

    fn bind(&self, setup: &ProcessorSetup<'_>) -> Result<Box<dyn ProcessorOperator>, Refused> {
        // Siddhi declares INT as well, and then fails to cast it.
        match setup.args.get(1).and_then(|a| a.constant.as_ref()) {
            Some(Value::Long(millis)) => Ok(PerKey::operator(setup, OncePer { millis: *millis })),
            _ => Err(Refused(
                "the time of '#unique:deduplicate' must be a constant long or time".into(),
            )),
        }
    }
}

struct OncePer {
    millis: i64,
}

/// Keys that have passed, the oldest first.
#[derive(Default)]
struct Passed {
    order: VecDeque<(i64, Box<str>)>,
    keys: HashSet<Box<str>>,
}

impl Passed {
    /// False where the key has passed already.
    fn pass(&mut self, key: &str, time: i64) -> bool {
        if self.keys.contains(key) {
            return false;
        }
        self.keys.insert(Box::from(key));
        self.order.push_back((time, Box::from(key)));
        true
    }
}

impl Stored for Passed {
    fn new(_types: &RowTypes) -> Passed {
        Passed::default()
    }

    fn bytes(&self) -> usize {
        let texts: usize = self.order.iter().map(|(_, key)| 2 * key.len()).sum();
        texts
            + self.order.capacity() * size_of::<(i64, Box<str>)>()
            + self.keys.capacity() * size_of::<Box<str>>()
    }

    fn save(&self, _types: &RowTypes, writer: &mut Writer) {
        writer.count(self.order.len());
        for (time, key) in &self.order {
            writer.i64(*time);
            writer.str(key);
        }
    }

    fn restore(_types: &RowTypes, reader: &mut Reader<'_>) -> Result<Passed, StateError> {
        let mut passed = Passed::default();
        for _ in 0..reader.count()? {
            let time = reader.i64()?;
            passed.pass(reader.str()?, time);
        }
        Ok(passed)
    }
}

impl Rule for OncePer {
    type State = Passed;

    /// Times are those of the events; the keys that are over leave up to the first that is not
    /// (`DeduplicateStreamProcessor`).
    fn process(
        &mut self,
        passed: &mut Passed,
        batch: Batch,
        args: &[Column],
        context: &mut WindowContext<'_>,
    ) -> Option<Batch> {
        let mut keep = Vec::with_capacity(batch.len);
        let mut key = String::new();
        for row in 0..batch.len {
            let time = batch.times.at(row);
            while let Some((oldest, _)) = passed.order.front()
                && time.wrapping_sub(*oldest) > self.millis
                && let Some((_, gone)) = passed.order.pop_front()
            {
                passed.keys.remove(&gone);
            }
            if args[0].is_null(row) {
                context.failures.push(Failure {
                    row: row as u32,
                    message: "the key of '#unique:deduplicate' is null".into(),
                });
                return None;
            }
            key.clear();
            text::write_value(&mut key, &args[0].value(row));
            keep.push(passed.pass(&key, time));
        }
        batch.filter(&keep)
    }
}
