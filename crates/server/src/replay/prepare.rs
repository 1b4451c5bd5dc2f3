//! Where a rejected event goes in its app as it is now, and with which rows.

use connect::component::{Payload, PayloadKind};
use connect::effect::PendingEffect;
use connect::registry::Registry;
use connect::row_decoder::RowDecoder;
use connect::rows::{Properties, Rejected, RejectedKind};
use event::codec::Reader;
use event::{Batch, Chunks, Schema, Value};
use plan::spec::ConnectorKind;
use plan::{StreamId, StreamKind, Transport};
use serde_json::Value as Json;

use crate::ask::{AskedApp, Asker};
use crate::executor::ReplayTo;
use crate::group::is_topic;
use crate::inject::Rows;
use crate::rejected::{Entry, Rejection, Stage};
use crate::report::chain;

/// An event ready to go.
pub(super) struct Prepared {
    pub app: AskedApp,
    pub to: ReplayTo,
    /// What its mapper has rejected again.
    pub rejected: Vec<Rejection>,
}

/// Prepares one event after the other.
pub(super) struct Preparer {
    asker: Asker,
    registry: Registry,
    /// The mapper used last: events of one source mostly follow each other.
    decoder: Option<Decoder>,
}

struct Decoder {
    app: AskedApp,
    stream: StreamId,
    source: usize,
    decoder: RowDecoder,
}

impl Preparer {
    pub fn new(asker: Asker, registry: Registry) -> Preparer {
        Preparer {
            asker,
            registry,
            decoder: None,
        }
    }

    /// An error says why it cannot be replayed as things are; the event stays.
    pub fn prepare(&mut self, entry: &Entry) -> Result<Prepared, String> {
        let rejection = &entry.rejection;
        if entry.is_edit_damaged {
            return Err(
                "its edited payload is damaged: edit it again, or go back to the original with \
                 'headwater errors edit NUMBER --discard'"
                    .to_owned(),
            );
        }
        if rejection.is_cut() && entry.edited.is_none() {
            return Err(format!(
                "only {} of {} bytes of its payload were kept: give it a payload with 'headwater \
                 errors edit'",
                rejection.payload.len(),
                rejection.payload_bytes
            ));
        }
        let app = self
            .asker
            .app(Some(&rejection.app))
            .map_err(|_| format!("app '{}' does not run", rejection.app))?;
        let (to, rejected) = match rejection.stage {
            Stage::Source => self.decoded(&app, entry)?,
            Stage::Query => (self.to_stream(&app, entry)?, Vec::new()),
            Stage::SinkMapper | Stage::Sink => (to_sink(&app, entry)?, Vec::new()),
            Stage::Store => (to_table(&app, entry)?, Vec::new()),
            Stage::Function => (to_function(entry)?, Vec::new()),
        };
        Ok(Prepared { app, to, rejected })
    }

    /// Is the payload one that its mapper takes, or that fits its stream? Where the app does not run,
    /// nobody can tell.
    pub fn check(&mut self, entry: &Entry) -> Result<(), String> {
        if self.asker.app(Some(&entry.rejection.app)).is_err() {
            return Ok(());
        }
        match self.prepare(entry)?.rejected.first() {
            Some(again) => Err(format!("{}; {}", again.cause, again.remedy)),
            None => Ok(()),
        }
    }

    fn to_stream(&self, app: &AskedApp, entry: &Entry) -> Result<ReplayTo, String> {
        let stream = stream_of(app, &entry.rejection)?;
        let rows = fitting_rows(&app.plan.streams[stream].schema, entry)?;
        Ok(ReplayTo::Stream { stream, rows })
    }

    /// Through the mapper of its source.
    fn decoded(
        &mut self,
        app: &AskedApp,
        entry: &Entry,
    ) -> Result<(ReplayTo, Vec<Rejection>), String> {
        let rejection = &entry.rejection;
        let stream = stream_of(app, rejection)?;
        let definition = &app.plan.streams[stream];
        let source = place_in(&definition.sources, rejection)
            .ok_or_else(|| no_longer(app, rejection, "source"))?;
        let transport = &definition.sources[source];
        let schema = &definition.schema;
        let decoder = self.decoder(app, stream, source, transport, schema)?;
        let properties = rejection.properties();
        let pairs = properties.iter().map(|(n, v)| (n.as_str(), v.clone()));
        let properties = Properties::from_pairs(pairs);
        map(decoder, entry, schema, &properties)?;
        decoder.end_of_input();
        let rows = decoder.take();
        let key = format!("{}[{}]", definition.display_name(), source + 1);
        let again = |rejected: Rejected| Rejection {
            app: rejection.app.clone(),
            stream: rejection.stream.clone(),
            stage: Stage::Source,
            origin: key.clone(),
            transport: transport.ty.clone(),
            place: rejection.place.clone(),
            properties: rejection.properties.clone(),
            ..Rejection::of_rejected(rejected)
        };
        let rejected = decoder.take_rejected().into_iter().map(again).collect();
        let to = match rows {
            Some(rows) => ReplayTo::Stream { stream, rows },
            None => ReplayTo::Nowhere,
        };
        Ok((to, rejected))
    }

    fn decoder(
        &mut self,
        app: &AskedApp,
        stream: StreamId,
        source: usize,
        transport: &Transport,
        schema: &Schema,
    ) -> Result<&mut RowDecoder, String> {
        let is_it = |known: &Decoder| {
            std::sync::Arc::ptr_eq(&known.app.plan, &app.plan)
                && (known.stream, known.source) == (stream, source)
        };
        if !self.decoder.as_ref().is_some_and(is_it) {
            self.decoder = None;
            let gives = match is_topic(transport) {
                true => &[PayloadKind::Any],
                false => {
                    let found = self.registry.find(ConnectorKind::Source, &transport.ty);
                    let missing = || format!("source '{}' is not in this build", transport.ty);
                    found.ok_or_else(missing)?.gives()
                }
            };
            let decoder = RowDecoder::new(transport, schema, gives);
            let mut decoder = decoder.map_err(|e| chain(&e))?;
            decoder.go_on();
            decoder.ready(None).map_err(|e| chain(&e))?;
            self.decoder = Some(Decoder {
                app: app.clone(),
                stream,
                source,
                decoder,
            });
        }
        match &mut self.decoder {
            Some(known) => Ok(&mut known.decoder),
            None => unreachable!("it was just made"),
        }
    }
}

/// Has a mapper read the payload of an event.
fn map(
    decoder: &mut RowDecoder,
    entry: &Entry,
    schema: &Schema,
    properties: &Properties,
) -> Result<(), String> {
    let rejection = &entry.rejection;
    let mut take = |payload: Payload<'_>| {
        decoder
            .ready(Some(payload))
            .or_else(|e| match e.is_unavailable() {
                true => Err(chain(&e)),
                // The mapper rejects the message in its own words.
                false => Ok(()),
            })?;
        decoder.map(payload, properties);
        Ok(())
    };
    match rejection.kind {
        RejectedKind::Text | RejectedKind::Bytes => {
            let bytes = entry.payload();
            match std::str::from_utf8(&bytes) {
                Ok(text) if rejection.kind == RejectedKind::Text => take(Payload::Text(text)),
                _ => take(Payload::Bytes(&bytes)),
            }
        }
        RejectedKind::Map => {
            let entries = match &entry.edited {
                Some(edited) => edited_map(edited)?,
                None => rejection.map().ok_or("its payload cannot be read")?,
            };
            take(Payload::Map(&entries))
        }
        RejectedKind::Object => match (&entry.edited, rejection.object()) {
            (None, Some(object)) => take(Payload::Object(&object)),
            _ => Err("an object cannot be edited as text".to_owned()),
        },
        RejectedKind::Events => {
            let types: Vec<event::Type> = schema.attributes.iter().map(|a| a.ty).collect();
            let rows = Reader::new(&rejection.payload).rows(&types, engine::UNSTAMPED);
            let rows = rows.map_err(|_| "its events have other attributes than the stream")?;
            take(Payload::Events(&rows))
        }
    }
}

fn edited_map(edited: &[u8]) -> Result<Vec<(Value, Value)>, String> {
    let Ok(Json::Object(object)) = serde_json::from_slice(edited) else {
        return Err("the payload is no JSON object of keys and values".to_owned());
    };
    let value = |json: Json| match json {
        Json::Null => Ok(Value::Null),
        Json::Bool(v) => Ok(Value::Bool(v)),
        Json::String(v) => Ok(Value::from(v.as_str())),
        Json::Number(n) => Ok(match n.as_i64() {
            Some(whole) => i32::try_from(whole).map_or(Value::Long(whole), Value::Int),
            None => n.as_f64().map_or(Value::Null, Value::Double),
        }),
        other => Err(format!("{other} is no single value")),
    };
    let entries = object.into_iter();
    entries
        .map(|(key, json)| Ok((Value::from(key.as_str()), value(json)?)))
        .collect()
}

/// The stream that an event belongs to.
fn stream_of(app: &AskedApp, rejection: &Rejection) -> Result<StreamId, String> {
    let mut streams = app.plan.streams.iter();
    let found = streams.position(|stream| stream.display_name() == rejection.stream);
    let Some(stream) = found else {
        return Err(match rejection.stream.as_str() {
            "" => "it failed in a timer, and belongs to no stream".to_owned(),
            name => format!("app '{}' has no stream '{name}' any more", app.name),
        });
    };
    match app.plan.streams[stream].kind {
        StreamKind::Plain | StreamKind::Trigger | StreamKind::Fault(_) => Ok(stream),
        StreamKind::Inner(_) => Err(format!(
            "stream '{}' is inside a partition, where nothing can be sent to",
            rejection.stream
        )),
    }
}

/// The source or sink of an event among those of its stream: the same one, or one of its type, or the
/// only one.
fn place_in(all: &[Transport], rejection: &Rejection) -> Option<usize> {
    let is_it = |at: usize| {
        all[at].ty == rejection.transport
            && rejection.origin == format!("{}[{}]", rejection.stream, at + 1)
    };
    let mut places = 0..all.len();
    let same = places.clone().find(|at| is_it(*at));
    same.or_else(|| places.find(|at| all[*at].ty == rejection.transport))
        .or_else(|| {
            (all.len() == 1 || rejection.transport.is_empty() && !all.is_empty()).then_some(0)
        })
}

fn no_longer(app: &AskedApp, rejection: &Rejection, what: &str) -> String {
    let stream = &rejection.stream;
    format!(
        "stream '{stream}' of app '{}' has no such {what} any more ({} {})",
        app.name, rejection.transport, rejection.origin
    )
}

/// The rows of an event, fit for a stream or table.
fn fitting_rows(schema: &Schema, entry: &Entry) -> Result<Batch, String> {
    let rejection = &entry.rejection;
    let of_schema = schema.attributes.iter().map(|a| (&a.name, a.ty));
    let is_same = of_schema.eq(rejection.attributes.iter().map(|(name, ty)| (name, *ty)));
    if entry.edited.is_none() && is_same {
        return rejection
            .rows()
            .ok_or_else(|| "its rows cannot be read".to_owned());
    }
    if rejection.kind != RejectedKind::Events && entry.edited.is_none() {
        return Err(
            "only a text of it was kept, not its values: give it rows with 'headwater errors edit' \
             (a JSON object a line), or export it"
                .to_owned(),
        );
    }
    let text = entry.payload();
    let mut rows = Rows::new(schema, engine::UNSTAMPED);
    let documents = serde_json::Deserializer::from_slice(&text).into_iter::<Json>();
    for json in documents {
        let json = json.map_err(|e| format!("the payload is not JSON, a row a line: {e}"))?;
        let pushed = match &json {
            // All rows in one list.
            Json::Array(all) if all.iter().all(|row| row.is_object() || row.is_array()) => {
                all.iter().try_for_each(|row| rows.push_event(row))
            }
            row => rows.push_event(row),
        };
        pushed.map_err(|misfit| format!("{}: {} is expected", misfit.cause, misfit.expected))?;
    }
    let mut batches = rows.finish();
    match (batches.pop(), batches.is_empty()) {
        (Some(mut rows), true) => {
            // It was rejected as a whole, and goes back as a whole.
            rows.chunks = Chunks::One;
            Ok(rows)
        }
        (None, _) => Err("the payload has no rows".to_owned()),
        (Some(_), false) => Err("the payload has too many rows for one event".to_owned()),
    }
}

fn to_sink(app: &AskedApp, entry: &Entry) -> Result<ReplayTo, String> {
    let rejection = &entry.rejection;
    let stream = stream_of(app, rejection)?;
    let definition = &app.plan.streams[stream];
    let sink = place_in(&definition.sinks, rejection);
    let sink = sink.ok_or_else(|| no_longer(app, rejection, "sink"))?;
    let rows = fitting_rows(&definition.schema, entry)?;
    Ok(ReplayTo::Sink { stream, sink, rows })
}

fn to_table(app: &AskedApp, entry: &Entry) -> Result<ReplayTo, String> {
    let rejection = &entry.rejection;
    if rejection.origin != "insert" {
        return Err(
            "it is an update or a deletion, whose condition was not kept: send its event again with \
             'headwater send', or purge it"
                .to_owned(),
        );
    }
    let mut tables = app.plan.tables.iter();
    let table = tables.position(|table| table.schema.name == rejection.stream);
    let table = table.ok_or_else(|| {
        format!(
            "app '{}' has no table '{}' any more",
            app.name, rejection.stream
        )
    })?;
    let rows = fitting_rows(&app.plan.tables[table].schema, entry)?;
    Ok(ReplayTo::Table { table, rows })
}

fn to_function(entry: &Entry) -> Result<ReplayTo, String> {
    let rejection = &entry.rejection;
    if entry.edited.is_some() {
        return Err("the arguments of a function cannot be edited".to_owned());
    }
    let rows = rejection.rows().ok_or("its arguments were not kept")?;
    Ok(ReplayTo::Function(PendingEffect {
        app: rejection.app.clone(),
        function: rejection.origin.clone(),
        arguments: rows.row(0),
    }))
}
