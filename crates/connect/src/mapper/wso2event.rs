//! `wso2event`: events as WSO2's products publish them by databridge.
//!
//! A message is a bundle of one stream, whose values lie in lists by type over all events; a bundle of several
//! streams, or with a null among its numbers, comes event by event (`databridge::rows`). Either is all or
//! nothing, and the event and attribute that it failed at is named.

use databridge::bundle::Bundle;
use databridge::rows::{Events, Value};
use databridge::stream::{Attribute, Layout, VERSION};
use databridge::{NULL, binary, reading, refused, rows as events};
use event::{Batch, ColumnBuilder, Schema, Type};
use plan::Mapping;
use plan::spec::ConnectorSpec;

use crate::component::{
    Mapper, Payload, PayloadKind, SinkMapper, SinkMapperSetup, SourceMapper, SourceMapperSetup,
};
use crate::error::Error;
use crate::mapper::Fields;
use crate::message::Messages;
use crate::rows::{Properties, Rejected, Rows};
use crate::scalar;
use crate::spec::wso2event::CONNECTORS as SPECS;

pub struct Wso2Event;

const REMEDY: &str = "let the attributes of the stream be those of its definition at the client, in their order and of \
                      their types";

impl Mapper for Wso2Event {
    fn specs(&self) -> &'static [ConnectorSpec] {
        SPECS
    }

    fn takes(&self) -> &'static [PayloadKind] {
        &[PayloadKind::Bytes]
    }

    fn gives(&self) -> &'static [PayloadKind] {
        &[PayloadKind::Bytes]
    }

    fn source(&self, setup: &SourceMapperSetup<'_>) -> Result<Box<dyn SourceMapper>, Error> {
        let layout = layout(setup.around, setup.mapping, setup.schema);
        let layout = layout.map_err(|cause| Error::refused("source mapper 'wso2event'", cause))?;
        Ok(Box::new(Source {
            layout,
            room: Vec::new(),
        }))
    }

    fn sink(&self, setup: &SinkMapperSetup<'_>) -> Result<Box<dyn SinkMapper>, Error> {
        let sent = SentLayout::new(setup.around, setup.mapping, setup.schema);
        let sent = sent.map_err(|cause| Error::refused("sink mapper 'wso2event'", cause))?;
        Ok(Box::new(Sink {
            sent,
            texts: Vec::new(),
        }))
    }
}

/// The stream on the wire of a sink, and the attributes of its own that are sent there.
#[derive(Clone, Debug)]
pub struct SentLayout {
    pub layout: Layout,
    /// For each column of the layout the attribute of the stream.
    columns: Vec<usize>,
}

impl SentLayout {
    /// That of a sink with these options. Keys of `@map` or `@payload` name attributes; without any, all are sent
    /// under their names.
    ///
    /// # Errors
    /// It has no form on the wire, or an attribute is not there; in words.
    pub fn new(
        options: &[(String, String)],
        mapping: &Mapping,
        schema: &Schema,
    ) -> Result<SentLayout, String> {
        let own = options.iter().find(|(name, _)| name == "wso2.stream.id");
        let id = own.map_or_else(
            || format!("{}:{VERSION}", schema.name),
            |(_, id)| id.clone(),
        );
        let custom: Vec<&(String, String)> =
            mapping.payload.iter().chain(&mapping.options).collect();
        let mut keys = Vec::new();
        for (key, attribute) in custom {
            let attribute = attribute.trim();
            let column = schema.index_of(attribute).ok_or_else(|| {
                format!(
                    "'{key}' names '{attribute}', which is no attribute of stream '{}'",
                    schema.name
                )
            })?;
            if key.is_empty() {
                return Err(
                    "@payload needs keys: @payload(meta_host='host', symbol='symbol')".to_owned(),
                );
            }
            keys.push((key.as_str(), column));
        }
        if keys.is_empty() {
            let all = schema.attributes.iter().enumerate();
            keys.extend(all.map(|(column, attribute)| (attribute.name.as_str(), column)));
        }
        let types = keys
            .iter()
            .map(|(key, column)| (Some(*key), schema.attributes[*column].ty));
        Ok(SentLayout {
            layout: Layout::new(&id, types)?,
            columns: keys.iter().map(|(_, column)| *column).collect(),
        })
    }
}

/// Writes the events of a chunk one behind the other; the sink makes of them what its protocol has.
struct Sink {
    sent: SentLayout,
    /// Texts of the map of an event; reused.
    texts: Vec<(usize, String)>,
}

const SET_A_VALUE: &str =
    "give the attribute a value in the query, such as by ifThenElse(x is null, 0, x)";

impl SinkMapper for Sink {
    fn encode(&mut self, batch: &Batch, rows: &[u32], out: &mut Messages) {
        let mut good = Vec::with_capacity(rows.len());
        for &row in rows {
            match self.null_of(batch, row as usize) {
                None => good.push(row),
                Some(name) => {
                    let text = crate::event_text::row_text(batch, row as usize);
                    let cause = format!(
                        "attribute '{name}' is null, and events have no null that is not a text"
                    );
                    out.reject(Rejected::new(&text, cause, SET_A_VALUE), &[row]);
                }
            }
        }
        if good.is_empty() {
            return;
        }
        let bytes = out.bytes();
        let start = bytes.len();
        bytes.push(events::MARK);
        for &row in &good {
            self.write_row(bytes, batch, row as usize);
        }
        out.end_bytes(start, &good);
    }
}

impl Sink {
    /// The name of an attribute that cannot be sent as null and is.
    fn null_of(&self, batch: &Batch, row: usize) -> Option<&str> {
        let mut attributes = self.sent.layout.attributes.iter();
        let found = attributes.find(|attribute| {
            let column = &batch.columns[self.sent.columns[attribute.column]];
            attribute.ty != Type::String && column.is_null(row)
        });
        found.map(|attribute| attribute.name.as_str())
    }

    fn write_row(&mut self, bytes: &mut Vec<u8>, batch: &Batch, row: usize) {
        bytes.extend_from_slice(&batch.times.at(row).to_be_bytes());
        let SentLayout { layout, columns } = &self.sent;
        for attribute in &layout.attributes {
            let value = batch.columns[columns[attribute.column]].value(row);
            let written = match &value {
                event::Value::Int(v) => Value::Int(*v),
                event::Value::Long(v) => Value::Long(*v),
                event::Value::Float(v) => Value::Double(f64::from(*v)),
                event::Value::Double(v) => Value::Double(*v),
                event::Value::Bool(v) => Value::Bool(*v),
                event::Value::Str(v) => Value::Text(v.as_bytes()),
                event::Value::Null | event::Value::Object(_) => Value::Null,
            };
            events::write_value(bytes, written);
        }
        self.texts.clear();
        for (at, arbitrary) in layout.arbitrary.iter().enumerate() {
            let value = batch.columns[columns[arbitrary.column]].value(row);
            if !value.is_null() {
                self.texts.push((at, event::text::to_text(&value)));
            }
        }
        let entries = self.texts.iter();
        let entries = entries.map(|(at, text)| (layout.arbitrary[*at].key.as_str(), text.as_str()));
        events::write_entries(bytes, entries);
    }
}

/// The stream on the wire of a source with these options.
///
/// # Errors
/// It has no form there, in words.
pub fn layout(
    options: &[(String, String)],
    mapping: &Mapping,
    schema: &Schema,
) -> Result<Layout, String> {
    let own = options.iter().find(|(name, _)| name == "wso2.stream.id");
    let id = own.map_or_else(
        || format!("{}:{VERSION}", schema.name),
        |(_, id)| id.clone(),
    );
    let mut keys: Vec<Option<String>> = vec![None; schema.attributes.len()];
    for field in Fields::of(mapping, schema).list {
        keys[field.column] = Some(field.from);
    }
    let types = schema.attributes.iter().map(|attribute| attribute.ty);
    Layout::new(&id, keys.iter().map(Option::as_deref).zip(types))
}

struct Source {
    layout: Layout,
    /// Events of a bundle with nulls; reused.
    room: Vec<u8>,
}

impl SourceMapper for Source {
    fn map(&mut self, payload: Payload<'_>, _: &Properties, rows: &mut Rows) {
        let Payload::Bytes(bytes) = payload else {
            return rows.reject_message(payload, "the message is not binary data", REMEDY);
        };
        let read = match bytes {
            [refused::MARK, refused @ ..] => {
                let (cause, bundle) =
                    refused::read(refused).unwrap_or(("the message is cut off", bytes));
                return rows.reject_message(Payload::Bytes(bundle), cause, REMEDY);
            }
            [binary::MARK, each @ ..] => return read_each(each, &self.layout, rows),
            [events::MARK, one_by_one @ ..] => read_events(one_by_one, &self.layout, rows),
            _ => self.read_bundle(bytes, rows),
        };
        if let Err(cause) = read {
            rows.reject_message(payload, cause, REMEDY);
        }
    }
}

impl Source {
    fn read_bundle(&mut self, bytes: &[u8], rows: &mut Rows) -> Result<(), String> {
        let layout = &self.layout;
        let bundle = Bundle::read(bytes)?;
        if bundle.fits(&layout.counts) && read_plain(&bundle, layout, rows)? {
            return Ok(());
        }
        let strings: Vec<&[u8]> = bundle.strings().collect();
        let own = |id: &[u8]| (id == layout.id.as_bytes()).then_some((0, layout));
        let found = reading::read(&bundle, &strings, own)?;
        let entries = bundle.entries().ok_or(NO_MAPS)?;
        self.room.clear();
        let mut entries = entries.as_slice();
        for (number, event) in found.iter().enumerate() {
            let own = databridge::bundle::take_entries(&mut entries, number);
            events::write(&mut self.room, &bundle, &strings, event, layout, own);
        }
        read_events(&self.room, layout, rows)
    }
}

const NO_MAPS: &str = "the arbitrary data is no map of texts";

/// Reads a bundle whose lists come out even for this stream alone, column by column. False: not all of its
/// events are of this stream, and nothing is read.
fn read_plain(bundle: &Bundle<'_>, layout: &Layout, rows: &mut Rows) -> Result<bool, String> {
    let counts = &layout.counts;
    let columns = rows.columns();
    let (mut int, mut long, mut double, mut bool) = (0, 1, 0, 0);
    let mut texts = Vec::with_capacity(counts.strings);
    for attribute in &layout.attributes {
        let column = &mut columns[attribute.column];
        match attribute.ty {
            Type::Int => {
                values(bundle.ints, counts.ints, int, |v| {
                    column.push_int(i32::from_be_bytes(v))
                });
                int += 1;
            }
            Type::Long => {
                values(bundle.longs, counts.longs + 1, long, |v| {
                    column.push_long(i64::from_be_bytes(v))
                });
                long += 1;
            }
            Type::Float => {
                values(bundle.doubles, counts.doubles, double, |v| {
                    column.push_float(f64::from_be_bytes(v) as f32);
                });
                double += 1;
            }
            Type::Double => {
                values(bundle.doubles, counts.doubles, double, |v| {
                    column.push_double(f64::from_be_bytes(v))
                });
                double += 1;
            }
            Type::Bool => {
                values::<1>(bundle.bools, counts.bools, bool, |[v]| {
                    column.push_bool(v != 0)
                });
                bool += 1;
            }
            Type::String | Type::Object => texts.push(attribute),
        }
    }
    let mut strings = bundle.strings();
    for event in 0..bundle.events {
        if strings.next() != Some(layout.id.as_bytes()) {
            rows.abort_message();
            return Ok(false);
        }
        for attribute in &texts {
            let text = strings.next().unwrap_or_default();
            let column = &mut columns[attribute.column];
            push_text(column, text).map_err(|cause| at(event, attribute, &cause))?;
        }
    }
    let entries = match layout.arbitrary.is_empty() || !bundle.has_maps() {
        true => Vec::new(),
        false => bundle.entries().ok_or(NO_MAPS)?,
    };
    let mut entries = entries.as_slice();
    for event in 0..bundle.events {
        let own = databridge::bundle::take_entries(&mut entries, event);
        push_entries(rows.columns(), layout, own)
            .map_err(|cause| format!("event {}: {cause}", event + 1))?;
    }
    for longs in bundle.longs.chunks_exact((counts.longs + 1) * 8) {
        let time = longs
            .first_chunk()
            .map_or(0, |time| i64::from_be_bytes(*time));
        rows.set_time(time);
        rows.commit_row();
    }
    Ok(true)
}

/// Those of a column: `each` values of a list belong to an event, and `at` is its own among them.
fn values<const N: usize>(list: &[u8], each: usize, at: usize, mut push: impl FnMut([u8; N])) {
    for event in list.chunks_exact(each * N) {
        if let Some(value) = event[at * N..].first_chunk() {
            push(*value);
        }
    }
}

fn at(event: usize, attribute: &Attribute, cause: &str) -> String {
    format!(
        "event {}: attribute '{}': {cause}",
        event + 1,
        attribute.name
    )
}

fn push_text(column: &mut ColumnBuilder, text: &[u8]) -> Result<(), String> {
    match text {
        NULL => column.push_null(),
        _ => {
            let text = std::str::from_utf8(text)
                .map_err(|error| format!("the text is not UTF-8: {error}"))?;
            column.push_str(text);
        }
    }
    Ok(())
}

/// What an event's map holds for the attributes that are read from it.
fn push_entries(
    columns: &mut [ColumnBuilder],
    layout: &Layout,
    entries: &[(usize, &[u8], &[u8])],
) -> Result<(), String> {
    for arbitrary in &layout.arbitrary {
        let column = &mut columns[arbitrary.column];
        let found = entries
            .iter()
            .find(|(_, key, _)| *key == arbitrary.key.as_bytes());
        let Some((_, _, text)) = found else {
            column.push_null();
            continue;
        };
        let text = std::str::from_utf8(text).ok();
        let is_pushed = text.is_some_and(|text| push_parsed(column, arbitrary.ty, text));
        if !is_pushed {
            return Err(format!(
                "the arbitrary data has '{}' under '{}', which is no {}",
                text.unwrap_or("bytes that are not UTF-8"),
                arbitrary.key,
                arbitrary.ty
            ));
        }
    }
    Ok(())
}

fn push_parsed(column: &mut ColumnBuilder, ty: Type, text: &str) -> bool {
    match ty {
        Type::Int => scalar::parse_int(text).map(|v| column.push_int(v)),
        Type::Long => scalar::parse_long(text).map(|v| column.push_long(v)),
        Type::Float => scalar::parse_float(text).map(|v| column.push_float(v)),
        Type::Double => scalar::parse_double(text).map(|v| column.push_double(v)),
        Type::Bool => {
            column.push_bool(scalar::parse_bool(text));
            Some(())
        }
        Type::String | Type::Object => {
            column.push_str(text);
            Some(())
        }
    }
    .is_some()
}

/// Reads events that come one behind the other.
fn read_events(bytes: &[u8], layout: &Layout, rows: &mut Rows) -> Result<(), String> {
    let mut events = Events::new(bytes, layout);
    let mut number = 0;
    let mut entries = Vec::new();
    while !events.is_done() {
        entries.clear();
        let mut wrong = None;
        let columns = rows.columns();
        let time = events.next(
            |attribute, value| {
                let attribute = &layout.attributes[attribute];
                if let Err(cause) = push_value(&mut columns[attribute.column], attribute.ty, value)
                {
                    wrong = Some(at(number, attribute, &cause));
                }
            },
            |key, value| entries.push((number, key, value)),
        );
        let time = time.ok_or_else(|| format!("event {}: it is cut off", number + 1))?;
        if let Some(cause) = wrong {
            return Err(cause);
        }
        push_entries(rows.columns(), layout, &entries)
            .map_err(|cause| format!("event {}: {cause}", number + 1))?;
        rows.set_time(time);
        rows.commit_row();
        number += 1;
    }
    Ok(())
}

/// Reads events of the binary protocol, of which each stands for itself.
fn read_each(bytes: &[u8], layout: &Layout, rows: &mut Rows) {
    let mut events = binary::Events::new(bytes);
    for (number, event) in events.by_ref().enumerate() {
        if let Err(cause) = read_one(event, layout, rows) {
            let mut alone = vec![binary::MARK];
            binary::write_event(&mut alone, event);
            let cause = format!("event {} of stream '{}': {cause}", number + 1, layout.id);
            rows.reject_part(Payload::Bytes(&alone), cause, REMEDY);
        }
    }
    if !events.rest().is_empty() {
        let cause = "bytes that are no event follow the last one";
        rows.reject_part(Payload::Bytes(events.rest()), cause, REMEDY);
    }
}

fn read_one(event: &[u8], layout: &Layout, rows: &mut Rows) -> Result<(), String> {
    let (time, values, entries) = binary::read(event, layout)?;
    for (attribute, value) in layout.attributes.iter().zip(values) {
        push_value(&mut rows.columns()[attribute.column], attribute.ty, value)
            .map_err(|cause| format!("attribute '{}': {cause}", attribute.name))?;
    }
    push_entries(rows.columns(), layout, &entries)?;
    rows.set_time(time);
    rows.commit_row();
    Ok(())
}

fn push_value(column: &mut ColumnBuilder, ty: Type, value: Value<'_>) -> Result<(), String> {
    match value {
        Value::Null => column.push_null(),
        Value::Int(v) => column.push_int(v),
        Value::Long(v) => column.push_long(v),
        Value::Double(v) if ty == Type::Float => column.push_float(v as f32),
        Value::Double(v) => column.push_double(v),
        Value::Bool(v) => column.push_bool(v),
        Value::Text(text) => return push_text(column, text),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use databridge::bundle::Writer;
    use databridge::refused;

    use super::*;
    use crate::mapper::testing::{decoder, mapping, schema, show, with_attributes};

    const ALL: &str = "meta_s string, i int, l long, f float, d double, b bool, correlation_c string, \
                       arbitrary_n int, arbitrary_t string";

    fn bundle(write: impl Fn(&mut Writer)) -> Vec<u8> {
        let (mut writer, mut bytes) = (Writer::default(), Vec::new());
        write(&mut writer);
        writer.finish(&mut bytes);
        bytes
    }

    fn decoded(attributes: &str, mapping: Mapping, bytes: &[u8]) -> (String, Vec<String>) {
        let mut decoder = decoder(mapping, &schema(attributes)).expect("it can be made");
        decoder.map(Payload::Bytes(bytes), &Properties::none());
        let batch = decoder.take();
        let times = batch.as_ref().map_or(Vec::new(), |batch| {
            (0..batch.len)
                .map(|row| batch.times.at(row).to_string())
                .collect()
        });
        let rows = show(batch);
        let rejected = decoder.take_rejected().into_iter().map(|r| r.cause);
        (format!("{rows} @{}", times.join(",")), rejected.collect())
    }

    /// What a sink mapper writes of rows of time 5, and why it does not write others.
    fn encoded(
        attributes: &str,
        mapping: &Mapping,
        rows: &[&[event::Value]],
    ) -> (Vec<u8>, Vec<String>) {
        let schema = schema(attributes);
        let setup = SinkMapperSetup {
            mapping,
            schema: &schema,
            around: &[],
        };
        let mut mapper = Wso2Event.sink(&setup).expect("it can be made");
        let rows: Vec<(i64, Vec<event::Value>)> =
            rows.iter().map(|row| (5, row.to_vec())).collect();
        let batch = Batch::from_rows(&schema, &rows, event::Chunks::One, 0);
        let mut out = Messages::default();
        mapper.encode_all(&batch, &mut out);
        let bytes = out.iter().find_map(|message| match message.payload {
            Payload::Bytes(bytes) => Some(bytes.to_vec()),
            _ => None,
        });
        let causes = out
            .take_rejected()
            .into_iter()
            .map(|rejected| rejected.cause);
        (bytes.unwrap_or_default(), causes.collect())
    }

    #[test]
    fn what_the_sink_mapper_writes_the_source_mapper_reads() {
        use event::Value as V;
        let whole: &[V] = &[
            V::str("s"),
            V::Int(-1),
            V::Long(i64::MAX),
            V::Float(1.5),
            V::Double(-0.25),
            V::Bool(true),
            V::str("é"),
            V::Int(7),
            V::str("t"),
        ];
        let mut nulls = whole.to_vec();
        for at in [0, 6, 7, 8] {
            nulls[at] = V::Null;
        }
        let mut wrong = whole.to_vec();
        wrong[4] = V::Null;
        let (bytes, causes) = encoded(ALL, &mapping("wso2event", &[]), &[whole, &wrong, &nulls]);
        assert_eq!(causes.len(), 1);
        assert!(causes[0].contains("attribute 'd' is null"), "{causes:?}");
        let (rows, rejected) = decoded(ALL, mapping("wso2event", &[]), &bytes);
        assert_eq!(rejected, Vec::<String>::new());
        let max = i64::MAX;
        assert_eq!(
            rows,
            format!(
                "s -1 {max} 1.5 -0.25 true é 7 t; null -1 {max} 1.5 -0.25 true null null null @5,5"
            )
        );
    }

    #[test]
    fn keys_name_attributes_and_leave_out_others() {
        use event::Value as V;
        let row: &[V] = &[V::Long(170), V::str("WSO2"), V::str("f"), V::Null];
        let keys = [
            ("meta_timestamp", "at"),
            ("symbol", "symbol"),
            ("arbitrary_folder", "folder"),
        ];
        let by_map = mapping("wso2event", &keys);
        let by_payload = crate::mapper::testing::with_payload(mapping("wso2event", &[]), &keys);
        for map in [by_map, by_payload] {
            let (bytes, causes) =
                encoded("at long, symbol string, folder string, n int", &map, &[row]);
            assert_eq!(causes, Vec::<String>::new());
            let read = with_attributes(
                mapping("wso2event", &[]),
                &["meta_timestamp", "symbol", "arbitrary_folder"],
            );
            let (rows, _) = decoded("c long, a string, b string", read, &bytes);
            assert_eq!(rows, "170 WSO2 f @5");
        }
        let schema = schema("at long, o object");
        let refused = |options: &[(&str, &str)]| {
            let sent = SentLayout::new(&[], &mapping("wso2event", options), &schema);
            sent.expect_err("it has no form")
        };
        assert!(refused(&[("a", "b")]).contains("'b', which is no attribute"));
        assert!(refused(&[]).contains("'o' is an OBJECT"));
    }

    /// An event of every type; its numbers are null where `is_null`.
    fn event(to: &mut Writer, n: i32, is_null: bool) {
        to.event("S:1.0.0", i64::from(n));
        // metaData, correlationData, payloadData
        to.string(&format!("s{n}"));
        to.string("c");
        match is_null {
            true => (0..5).for_each(|_| to.null()),
            false => {
                to.int(n);
                to.long(i64::MIN);
                to.double(1.5);
                to.double(-0.25);
                to.bool(n % 2 == 1);
            }
        }
        to.map(&[("t", "é"), ("n", "7")]);
    }

    #[test]
    fn every_type_is_read_in_the_order_of_the_wire() {
        let bytes = bundle(|to| {
            event(to, 1, false);
            to.event("S:1.0.0", 2);
            to.null();
            to.string("");
            to.int(-1);
            to.long(5);
            to.double(f64::INFINITY);
            to.double(0.0);
            to.bool(false);
        });
        let (rows, rejected) = decoded(ALL, mapping("wso2event", &[]), &bytes);
        assert_eq!(rejected, Vec::<String>::new());
        assert_eq!(
            rows,
            "s1 1 -9223372036854775808 1.5 -0.25 true c 7 é; null -1 5 Infinity 0.0 false  null null @1,2"
        );
    }

    #[test]
    fn nulls_among_numbers_are_found() {
        let bytes = bundle(|to| {
            event(to, 1, true);
            event(to, 2, false);
        });
        let (rows, rejected) = decoded(ALL, mapping("wso2event", &[]), &bytes);
        assert_eq!(rejected, Vec::<String>::new());
        assert_eq!(
            rows,
            "s1 null null null null null c 7 é; s2 2 -9223372036854775808 1.5 -0.25 false c 7 é @1,2"
        );
    }

    #[test]
    fn attributes_name_what_the_stream_calls_otherwise() {
        let bytes = bundle(|to| {
            to.event("S:1.0.0", 9);
            to.long(170);
            to.string("WSO2");
            to.map(&[("folder", "f")]);
        });
        let keys = ["symbol", "arbitrary_folder", "meta_timestamp"];
        let mapping = with_attributes(mapping("wso2event", &[]), &keys);
        let (rows, rejected) = decoded("a string, b string, c long", mapping, &bytes);
        assert_eq!((rows.as_str(), rejected.len()), ("WSO2 f 170 @9", 0));
    }

    #[test]
    fn an_event_of_the_binary_protocol_that_does_not_fit_is_rejected_alone() {
        let event = |n: u8, text: &[u8]| {
            let mut bytes = i64::from(n).to_be_bytes().to_vec();
            bytes.extend_from_slice(b"\0\0\0\x07S:1.0.0");
            bytes.extend_from_slice(&[0, 0, 0, text.len() as u8]);
            bytes.extend_from_slice(text);
            bytes.extend_from_slice(&[0, 0, 0, n]);
            bytes
        };
        let mut bytes = vec![binary::MARK];
        let short = &event(3, b"c")[..20];
        for event in [&event(1, b"a"), &event(2, b"\xff"), short, &event(4, b"")] {
            binary::write_event(&mut bytes, event);
        }
        let (rows, causes) = decoded("s string, i int", mapping("wso2event", &[]), &bytes);
        assert_eq!(rows, "a 1; null 4 @1,4");
        assert!(
            causes[0].contains("event 2 of stream 'S:1.0.0': attribute 's': the text is not UTF-8"),
            "{causes:?}"
        );
        assert!(causes[1].contains("event 3"), "{causes:?}");
        assert_eq!(causes.len(), 2);
    }

    #[test]
    fn a_bundle_that_does_not_fit_is_rejected_as_a_whole_with_its_event_and_attribute() {
        let good = |to: &mut Writer| {
            to.event("S:1.0.0", 1);
            to.string("a");
            to.int(1);
        };
        let attributes = "s string, i int, arbitrary_n int";
        let short = bundle(|to| {
            good(to);
            to.event("S:1.0.0", 2);
            to.string("b");
        });
        let other = bundle(|to| {
            good(to);
            to.event("T:1.0.0", 2);
            to.string("b");
            to.int(2);
        });
        let wrong = bundle(|to| {
            good(to);
            to.map(&[("n", "x")]);
        });
        let mut torn = bundle(good);
        let text = torn
            .windows(5)
            .position(|w| w == b"\0\0\0\x01a")
            .expect("it is there");
        torn[text + 4] = 0xff;
        let cut = &bundle(good)[..20];
        let refused = refused::write("nobody's", &short);
        for (bytes, cause) in [
            (
                short.as_slice(),
                "event 2 of stream 'S:1.0.0': attribute 'i' (int) is missing",
            ),
            (&other, "event 2: there is no stream 'T:1.0.0'"),
            (
                &wrong,
                "event 1: the arbitrary data has 'x' under 'n', which is no int",
            ),
            (&torn, "event 1: attribute 's': the text is not UTF-8"),
            (cut, "it ends within a field"),
            (&refused, "nobody's"),
            (b"R\0", "event 1: it is cut off"),
        ] {
            let (rows, causes) = decoded(attributes, mapping("wso2event", &[]), bytes);
            assert_eq!((rows.as_str(), causes.len()), (" @", 1), "{causes:?}");
            assert!(causes[0].contains(cause), "{}", causes[0]);
        }
    }
}
