//! `passThrough`: events as they are. The mapper without `@map`.
//!
//! Values are matched to attributes by position, without a look at their types (Siddhi's
//! `PassThroughSourceMapper`); timestamps are kept.

use crate::spec::pass_through::CONNECTORS as SPECS;
use event::{Batch, Object, Value};
use plan::spec::ConnectorSpec;

use super::pick;
use crate::component::{
    Mapper, Payload, PayloadKind, SinkMapper, SinkMapperSetup, SourceMapper, SourceMapperSetup,
};
use crate::error::Error;
use crate::message::Messages;
use crate::rows::{Properties, Rows};

pub struct PassThrough;

impl Mapper for PassThrough {
    fn specs(&self) -> &'static [ConnectorSpec] {
        SPECS
    }

    fn takes(&self) -> &'static [PayloadKind] {
        &[PayloadKind::Events]
    }

    fn gives(&self) -> &'static [PayloadKind] {
        &[PayloadKind::Events]
    }

    fn source(&self, setup: &SourceMapperSetup<'_>) -> Result<Box<dyn SourceMapper>, Error> {
        Ok(Box::new(Source {
            width: setup.schema.attributes.len(),
        }))
    }

    fn sink(&self, _setup: &SinkMapperSetup<'_>) -> Result<Box<dyn SinkMapper>, Error> {
        Ok(Box::new(Sink))
    }
}

struct Source {
    width: usize,
}

impl SourceMapper for Source {
    fn map(&mut self, payload: Payload<'_>, _properties: &Properties, rows: &mut Rows) {
        match payload {
            Payload::Events(batch) if batch.columns.len() >= self.width => {
                rows.extend_events(batch);
            }
            Payload::Events(batch) => {
                let cause = self.too_few(batch.columns.len());
                rows.reject_message(payload, cause, FEWER);
            }
            Payload::Object(Value::Object(Object::Array(values))) => {
                self.push(payload, values, rows);
            }
            Payload::Object(Value::Object(Object::List(values))) => {
                let values = values.lock().clone();
                self.push(payload, &values, rows);
            }
            _ => rows.reject_message(
                payload,
                "the message is not an event",
                "name the format of the messages by @map(type='…')",
            ),
        }
    }
}

const FEWER: &str = "send a value for each attribute of the stream";

impl Source {
    fn too_few(&self, count: usize) -> String {
        format!(
            "the event has {count} values, the stream has {} attributes",
            self.width
        )
    }

    /// A bare array of values is one event.
    fn push(&self, payload: Payload<'_>, values: &[Value], rows: &mut Rows) {
        if values.len() < self.width {
            return rows.reject_message(payload, self.too_few(values.len()), FEWER);
        }
        for (column, value) in rows.columns().iter_mut().zip(values) {
            column.push(value);
        }
        rows.commit_row();
    }
}

struct Sink;

impl SinkMapper for Sink {
    fn encode(&mut self, batch: &Batch, rows: &[u32], out: &mut Messages) {
        out.push_events(pick(batch, rows), rows);
    }

    fn encode_all(&mut self, batch: &Batch, out: &mut Messages) {
        if batch.len > 0 {
            let rows: Vec<u32> = (0..batch.len as u32).collect();
            let mut all = batch.clone();
            (all.expired, all.resets, all.inner) = (None, None, None);
            out.push_events(all, &rows);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use crate::component::Payload;
    use crate::rows::Properties;
    use event::{Batch, Chunks, Object, Value};

    #[test]
    fn events_keep_their_chunks_times_and_values() {
        let from = schema("a int, b string, c int");
        let rows: Vec<(i64, Vec<Value>)> = (0..4)
            .map(|i| (10 + i, vec![Value::Int(i as i32), "x".into(), Value::Null]))
            .collect();
        let batch = Batch::from_rows(&from, &rows, Chunks::Ends([1, 3, 4].into()), 0);
        let to = schema("a int, b object");
        let mut decoder = decoder(mapping("passThrough", &[]), &to).expect("it can be made");
        decoder.map(
            Payload::Events(&batch.slice_chunks(0..1)),
            &Properties::none(),
        );
        decoder.map(Payload::Events(&batch), &Properties::none());
        let array = Value::Object(Object::Array([Value::str("odd"), Value::Null].into()));
        decoder.map(Payload::Object(&array), &Properties::none());
        decoder.map(Payload::Object(&Value::Int(1)), &Properties::none());
        assert_eq!(decoder.take_rejected().len(), 1);
        let taken = decoder.take().expect("there are rows");
        assert_eq!(
            (taken.times.at(3), taken.times.at(5)),
            (12, crate::rows::NO_TIME)
        );
        assert_eq!(show(Some(taken)), "0 x\n0 x\n1 x; 2 x\n3 x\nodd null");
    }

    #[test]
    fn single_events_stay_single() {
        let mut single = batch("a int", &[&[Value::Int(1)], &[Value::Int(2)]]);
        single.chunks = Chunks::EachRow;
        let mut decoder =
            decoder(mapping("passThrough", &[]), &schema("a int")).expect("it can be made");
        decoder.map(Payload::Events(&single), &Properties::none());
        assert_eq!(
            decoder.take().map(|b| b.chunks.clone()),
            Some(Chunks::EachRow)
        );
    }
}
