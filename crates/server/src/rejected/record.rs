//! One rejected event, and how a log holds it.
//!
//! A record begins with a mark: [`MARK`], or [`MARK_BEFORE`] of versions that knew no stage.

use event::codec::{Error as CodecError, Reader, Writer};
use event::{Batch, Schema, Type, Value};

use connect::rows::{Properties, Rejected, RejectedKind};

use super::PAYLOAD_MAX;
use crate::rows::{payload_text, rows_picked};

/// Begins a record that holds an event.
const MARK: u8 = 3;

/// The same, of versions before: time, app, stream, place, cause, payload.
pub(super) const MARK_BEFORE: u8 = 1;

/// Bytes of the transport properties that are kept with an event.
const PROPERTIES_MAX: usize = 64 << 10;

/// Where an event failed, and so where it is replayed to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum Stage {
    /// The mapper of a source could not read the payload.
    #[default]
    Source,
    /// A query could not process the event.
    Query,
    /// The mapper of a sink could not write the event.
    SinkMapper,
    /// The destination of a sink did not take the event.
    Sink,
    /// A table in a store did not take the row.
    Store,
    /// A function with effects (`#file:move`) could not do what it was called for.
    Function,
}

impl Stage {
    pub const ALL: [Stage; 6] = [
        Stage::Source,
        Stage::Query,
        Stage::SinkMapper,
        Stage::Sink,
        Stage::Store,
        Stage::Function,
    ];

    pub const NAMES: &str = "source, query, sink-mapper, sink, store or function";

    pub fn name(self) -> &'static str {
        match self {
            Stage::Source => "source",
            Stage::Query => "query",
            Stage::SinkMapper => "sink-mapper",
            Stage::Sink => "sink",
            Stage::Store => "store",
            Stage::Function => "function",
        }
    }

    pub fn from_name(name: &str) -> Option<Stage> {
        let mut all = Stage::ALL.into_iter();
        all.find(|stage| stage.name().eq_ignore_ascii_case(name))
    }

    /// Of a record that does not say it.
    fn from_place(place: &str) -> Stage {
        let begins = |word: &str| place.starts_with(word);
        match () {
            () if begins("sink ") => Stage::Sink,
            () if begins("function ") => Stage::Function,
            () if begins("table ") || begins("store ") => Stage::Store,
            () if begins("query ") || begins("output ") || begins("memory budget") => Stage::Query,
            () => Stage::Source,
        }
    }
}

/// One event, line or chunk that an app could not take.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rejection {
    /// Milliseconds since 1970.
    pub time: i64,
    pub app: String,
    /// The stream, or the table of a store.
    pub stream: String,
    pub stage: Stage,
    /// The source or sink, by its stream and its number there (`Orders[1]`), and its type; empty for
    /// others.
    pub origin: String,
    pub transport: String,
    /// Where it came from or where it failed: `/data/in.csv, line 17`, query `totals`.
    pub place: String,
    pub cause: String,
    /// What to do about it.
    pub remedy: String,
    /// How often it has been replayed before, and the number that it had first.
    pub attempts: u32,
    pub earlier: u64,
    pub kind: RejectedKind,
    /// Names and types of the rows, where the payload is rows.
    pub attributes: Vec<(String, Type)>,
    /// Transport properties of the message, as [`encoded_properties`] writes them.
    pub properties: Vec<u8>,
    /// Text and bytes as they came; maps, objects and rows as [`Writer`] saves them.
    pub payload: Vec<u8>,
    /// Bytes of the payload before it was cut.
    pub payload_bytes: u64,
}

impl Rejection {
    /// A rejection of this payload, cut to what is kept.
    pub fn of_payload(payload: &[u8]) -> Rejection {
        Rejection {
            payload: payload[..payload.len().min(PAYLOAD_MAX)].to_vec(),
            payload_bytes: payload.len() as u64,
            ..Rejection::default()
        }
    }

    /// A rejection of some rows with the attributes of a schema.
    pub fn of_rows(rows: &Batch, schema: &Schema) -> Rejection {
        let names = schema.attributes.iter().map(|a| a.name.clone());
        // Parameters of a write to a table have no names of their own.
        let names = names.chain((1..).map(|number| format!("parameter{number}")));
        let columns = rows.columns.iter();
        let attributes = names
            .zip(columns)
            .map(|(name, column)| (name, column.view().ty()));
        let mut writer = Writer::default();
        writer.rows(rows);
        let rejection = Rejection {
            kind: RejectedKind::Events,
            attributes: attributes.collect(),
            ..Rejection::default()
        };
        if writer.bytes.len() <= PAYLOAD_MAX {
            return Rejection {
                payload_bytes: writer.bytes.len() as u64,
                payload: writer.bytes,
                ..rejection
            };
        }
        // So many rows can only be looked at: half a row is none.
        let text = payload_text(rows, &[0]);
        Rejection {
            payload_bytes: writer.bytes.len() as u64,
            ..Rejection::of_payload(text.as_bytes())
        }
    }

    /// What a mapper has rejected.
    pub fn of_rejected(rejected: Rejected) -> Rejection {
        let payload = match rejected.original.is_empty() {
            true => rejected.payload.into_bytes(),
            false => rejected.original,
        };
        let payload_bytes = match rejected.kind {
            RejectedKind::Text | RejectedKind::Bytes => rejected.payload_bytes,
            _ => payload.len(),
        };
        let is_cut = payload.len() > PAYLOAD_MAX;
        Rejection {
            cause: rejected.cause,
            remedy: rejected.remedy.to_owned(),
            kind: match is_cut {
                true => RejectedKind::Bytes,
                false => rejected.kind,
            },
            payload_bytes: payload_bytes as u64,
            ..Rejection::of_payload(&payload)
        }
    }

    pub fn is_cut(&self) -> bool {
        (self.payload.len() as u64) < self.payload_bytes
    }

    pub(super) fn write(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.u8(MARK);
        writer.i64(self.time);
        writer.u8(self.stage as u8);
        let texts = [
            &self.app,
            &self.stream,
            &self.origin,
            &self.transport,
            &self.place,
            &self.cause,
            &self.remedy,
        ];
        texts.into_iter().for_each(|text| writer.str(text));
        writer.u32(self.attempts);
        writer.u64(self.earlier);
        writer.u8(self.kind as u8);
        writer.count(self.attributes.len());
        for (name, ty) in &self.attributes {
            writer.str(name);
            let ty = Type::ALL.iter().position(|known| known == ty);
            writer.u8(ty.unwrap_or_default() as u8);
        }
        writer.blob(&self.properties);
        writer.u64(self.payload_bytes);
        writer.blob(&self.payload);
        writer.bytes
    }

    #[cfg(test)]
    pub(super) fn read(bytes: &[u8]) -> Result<Rejection, CodecError> {
        View::read(bytes)?.to_rejection()
    }

    /// The rows, where the payload is rows.
    pub fn rows(&self) -> Option<Batch> {
        if self.kind != RejectedKind::Events || self.attributes.is_empty() {
            return None;
        }
        let types: Vec<Type> = self.attributes.iter().map(|(_, ty)| *ty).collect();
        let mut reader = Reader::new(&self.payload);
        reader.rows(&types, engine::UNSTAMPED).ok()
    }

    /// Keys and values, where the payload is a map.
    pub fn map(&self) -> Option<Vec<(Value, Value)>> {
        let mut reader = Reader::new(&self.payload);
        if self.kind != RejectedKind::Map {
            return None;
        }
        let count = reader.count().ok()?;
        let entry = |reader: &mut Reader<'_>| Some((reader.value().ok()?, reader.value().ok()?));
        (0..count).map(|_| entry(&mut reader)).collect()
    }

    /// The value, where the payload is an object.
    pub fn object(&self) -> Option<Value> {
        match self.kind {
            RejectedKind::Object => Reader::new(&self.payload).value().ok(),
            _ => None,
        }
    }

    /// The transport properties.
    pub fn properties(&self) -> Vec<(String, Value)> {
        let mut reader = Reader::new(&self.properties);
        let mut all = Vec::new();
        while !reader.is_done() {
            let name = reader.str().map(str::to_owned);
            let (Ok(name), Ok(value)) = (name, reader.value()) else {
                break;
            };
            all.push((name, value));
        }
        all
    }
}

/// The transport properties of a message, up to a bound.
pub(crate) fn encoded_properties(properties: &Properties) -> Vec<u8> {
    let mut writer = Writer::default();
    for (name, value) in properties.iter() {
        let whole = writer.bytes.len();
        writer.str(name);
        writer.value(value);
        if writer.bytes.len() > PROPERTIES_MAX {
            writer.bytes.truncate(whole);
            break;
        }
    }
    writer.bytes
}

/// What a sink mapper could not write: the rows, where it is known which.
pub(crate) fn rejected_rows(rejected: &Rejected, batch: &Batch, schema: &Schema) -> Rejection {
    let rows = match rejected.rows.is_empty() {
        true => None,
        false => rows_picked(batch, &rejected.rows),
    };
    match rows {
        Some(rows) => Rejection {
            cause: rejected.cause.clone(),
            remedy: rejected.remedy.to_owned(),
            ..Rejection::of_rows(&rows, schema)
        },
        None => Rejection::of_rejected(rejected.clone()),
    }
}

/// A record as it lies in a log.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    pub time: i64,
    pub app: &'a str,
    pub stream: &'a str,
    pub stage: Stage,
    pub origin: &'a str,
    pub transport: &'a str,
    pub place: &'a str,
    pub cause: &'a str,
    pub remedy: &'a str,
    rest: &'a [u8],
    is_before: bool,
}

impl<'a> View<'a> {
    pub fn read(bytes: &'a [u8]) -> Result<View<'a>, CodecError> {
        let mut reader = Reader::new(bytes);
        let mark = reader.u8()?;
        if mark == MARK_BEFORE {
            return View::read_before(reader, bytes);
        }
        if mark != MARK {
            return Err(CodecError::Mark { mark, at: 0 });
        }
        let time = reader.i64()?;
        let stage = usize::from(reader.u8()?);
        let stage = *(Stage::ALL.get(stage))
            .ok_or_else(|| CodecError::Mismatch(format!("stage {stage}")))?;
        Ok(View {
            time,
            stage,
            app: reader.str()?,
            stream: reader.str()?,
            origin: reader.str()?,
            transport: reader.str()?,
            place: reader.str()?,
            cause: reader.str()?,
            remedy: reader.str()?,
            rest: &bytes[reader.position()..],
            is_before: false,
        })
    }

    fn read_before(mut reader: Reader<'a>, bytes: &'a [u8]) -> Result<View<'a>, CodecError> {
        let time = reader.i64()?;
        let (app, stream) = (reader.str()?, reader.str()?);
        let (place, cause) = (reader.str()?, reader.str()?);
        Ok(View {
            time,
            stage: Stage::from_place(place),
            app,
            stream,
            origin: "",
            transport: "",
            place,
            cause,
            remedy: "",
            rest: &bytes[reader.position()..],
            is_before: true,
        })
    }

    pub fn to_rejection(self) -> Result<Rejection, CodecError> {
        let mut reader = Reader::new(self.rest);
        let mut rejection = Rejection {
            time: self.time,
            app: self.app.to_owned(),
            stream: self.stream.to_owned(),
            stage: self.stage,
            origin: self.origin.to_owned(),
            transport: self.transport.to_owned(),
            place: self.place.to_owned(),
            cause: self.cause.to_owned(),
            remedy: self.remedy.to_owned(),
            ..Rejection::default()
        };
        if !self.is_before {
            rejection.attempts = reader.u32()?;
            rejection.earlier = reader.u64()?;
            rejection.kind = kind(reader.u8()?)?;
            for _ in 0..reader.count()? {
                let name = reader.str()?.to_owned();
                let ty = usize::from(reader.u8()?);
                let ty = Type::ALL.get(ty).copied();
                let ty = ty.ok_or_else(|| CodecError::Mismatch("a type".to_owned()))?;
                rejection.attributes.push((name, ty));
            }
            rejection.properties = reader.blob()?.to_vec();
        }
        rejection.payload_bytes = reader.u64()?;
        rejection.payload = reader.blob()?.to_vec();
        Ok(rejection)
    }
}

fn kind(number: u8) -> Result<RejectedKind, CodecError> {
    let kinds = [
        RejectedKind::Text,
        RejectedKind::Bytes,
        RejectedKind::Map,
        RejectedKind::Object,
        RejectedKind::Events,
    ];
    let mut kinds = kinds.into_iter();
    kinds
        .find(|kind| *kind as u8 == number)
        .ok_or_else(|| CodecError::Mismatch(format!("kind of payload {number}")))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use event::{Attribute, Chunks, Column, Times};

    #[test]
    fn a_payload_is_kept_whole_up_to_a_bound_and_its_size_is_kept() {
        let whole = Rejection::of_payload(&vec![b'x'; 200_004]);
        assert_eq!(
            (whole.payload.len(), whole.payload_bytes),
            (200_004, 200_004)
        );
        assert_eq!(Rejection::read(&whole.write()), Ok(whole));
        let cut = Rejection::of_payload(&vec![b'x'; PAYLOAD_MAX + 5]);
        assert_eq!(cut.payload.len(), PAYLOAD_MAX);
        assert!(cut.is_cut() && cut.payload_bytes == PAYLOAD_MAX as u64 + 5);
    }

    #[test]
    fn rows_and_properties_come_back() {
        let schema = Schema {
            name: "S".into(),
            attributes: [("id", Type::String), ("n", Type::Long)]
                .map(|(name, ty)| Attribute {
                    name: name.into(),
                    ty,
                })
                .to_vec(),
        };
        let columns = vec![
            Column::constant(Type::String, &Value::str("a"), 2),
            Column::longs_from(vec![1, 2]),
        ];
        let rows = Batch::new(columns, 2, Times::Same(5), Chunks::One, 0);
        let mut properties = Properties::new(&["path", "unset"]);
        properties.set(0, Value::str("/in"));
        let rejection = Rejection {
            stage: Stage::Sink,
            origin: "S[1]".into(),
            attempts: 2,
            earlier: 7,
            properties: encoded_properties(&properties),
            ..Rejection::of_rows(&rows, &schema)
        };
        let read = Rejection::read(&rejection.write()).expect("reads");
        assert_eq!(read, rejection);
        let back = read.rows().expect("rows");
        assert_eq!((back.row(1), back.times.at(0)), (rows.row(1), 5));
        assert_eq!(read.properties(), [("path".to_owned(), Value::str("/in"))]);
    }

    /// As versions before have written it.
    pub(in crate::rejected) fn written_before(rejection: &Rejection) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.u8(MARK_BEFORE);
        writer.i64(rejection.time);
        for text in [
            &rejection.app,
            &rejection.stream,
            &rejection.place,
            &rejection.cause,
        ] {
            writer.str(text);
        }
        writer.u64(rejection.payload_bytes);
        writer.blob(&rejection.payload);
        writer.bytes
    }

    #[test]
    fn a_record_of_a_version_before_says_by_its_place_where_it_failed() {
        for (place, stage) in [
            ("/data/in.csv, line 17", Stage::Source),
            ("sink 'http of stream 'Out''", Stage::Sink),
            ("query 'q1', select item 'x'", Stage::Query),
            ("function 'file:move'", Stage::Function),
        ] {
            let rejection = Rejection {
                time: 3,
                place: place.into(),
                ..Rejection::of_payload(b"a,b")
            };
            let read = Rejection::read(&written_before(&rejection)).expect("reads");
            assert_eq!(read, Rejection { stage, ..rejection });
        }
    }
}
