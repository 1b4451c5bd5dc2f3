//! Sinks of a group: one thread for each destination.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use connect::component::{PayloadKind, SinkSetup};
use connect::message::Messages;
use connect::registry::Registry;
use connect::row_encoder::RowEncoder;
use connect::spec::in_memory;
use plan::spec::ConnectorKind;
use plan::{Plan, StreamId, TableId, Transport};

use super::Builder;
use crate::backoff::LogThrottle;
use crate::error::Error;
use crate::executor::{SinkBinding, TableFeed, Topic, fault_stream};
use crate::group::is_topic;
use crate::metrics::SinkMetrics;
use crate::queue::Weight;
use crate::sink::{self, OutputQueue, SinkSlot, SinkThread};
use crate::statistics::MapperMetrics;

impl Builder<'_> {
    #[allow(clippy::type_complexity)]
    pub(super) fn sinks(&self) -> Result<(Vec<Vec<Vec<SinkBinding>>>, Vec<SinkThread>), Error> {
        let mut threads: Vec<SinkThread> = Vec::new();
        let mut by_destination: HashMap<String, usize> = HashMap::new();
        let mut apps = Vec::new();
        for (app, plan) in self.plans.iter().enumerate() {
            let mut streams = Vec::new();
            for stream in 0..plan.streams.len() {
                let mut bindings = Vec::new();
                for (place, transport) in plan.streams[stream].sinks.iter().enumerate() {
                    let key = self.common.registry.destination(transport);
                    let next = threads.len();
                    let thread = *by_destination.entry(key).or_insert(next);
                    let seat = self.sink(app, (stream, place), transport, &mut threads, thread)?;
                    bindings.push(seat);
                }
                streams.push(bindings);
            }
            apps.push(streams);
        }
        threads.retain(|t| !t.slots.is_empty());
        Ok((apps, threads))
    }

    fn sink(
        &self,
        app: usize,
        (stream, place): (StreamId, usize),
        transport: &Transport,
        threads: &mut Vec<SinkThread>,
        thread: usize,
    ) -> Result<SinkBinding, Error> {
        let plan = &self.plans[app];
        let definition = &plan.streams[stream];
        let name = definition.display_name();
        let metrics = SinkMetrics {
            label: self.transport_label(app, &name, &definition.sinks, place),
            ..SinkMetrics::default()
        };
        let metrics = self.metrics[app].sinks.enlist(metrics);
        let mapper = self.mapper(app, &metrics.label, transport);
        let mapper = self.metrics[app].sink_mappers.enlist(mapper);
        while threads.len() <= thread {
            threads.push(self.sink_thread(&transport.ty, &name));
        }
        if is_topic(transport) {
            return self.topic_sink(app, stream, transport, metrics, mapper);
        }
        let registry = &self.common.registry;
        let connector = registry.find(ConnectorKind::Sink, &transport.ty);
        let spec = registry.spec(ConnectorKind::Sink, &transport.ty);
        let (Some(connector), Some(spec)) = (connector, spec) else {
            return Err(self.not_there(app, "sink", &transport.ty));
        };
        let encoder = RowEncoder::new(transport, &definition.schema, spec, connector.takes())
            .map_err(|e| self.refused(app, &e))?;
        let table = table_read(plan, transport, registry);
        let setup = SinkSetup {
            transport,
            schema: &definition.schema,
            dynamic: encoder.dynamic(),
            table: table.map(|table| &plan.tables[table]),
            environment: &self.environments[app],
            answers: &metrics.answers,
        };
        let mut made = connector.sink(&setup).map_err(|e| self.refused(app, &e))?;
        if spec.is_inline {
            made.connect().map_err(|e| self.refused(app, &e))?;
            metrics.is_connected.store(true, Ordering::Relaxed);
            return Ok(SinkBinding::Inline {
                encoder,
                sink: made,
                metrics,
                mapper,
            });
        }
        if let Some(epochs) = made.epochs() {
            epochs
                .fit(self.common.state_interval)
                .map_err(|e| self.refused(app, &e))?;
        }
        let on_unreachable = on_unreachable(plan, app, stream, transport);
        let uncommitted = Arc::clone(&threads[thread].uncommitted);
        let slots = &mut threads[thread].slots;
        let key = format!("{name}[{}]", place + 1);
        let number = self
            .health
            .member()
            .enlist_sink(&format!("{}/{key}", self.plans[app].name));
        slots.push(SinkSlot::new(
            (key, definition.schema.clone()),
            number,
            encoder,
            made,
            on_unreachable,
            Arc::clone(&metrics),
            mapper,
        ));
        Ok(SinkBinding::Thread {
            slot: slots.len() - 1,
            output_queue: Arc::clone(&threads[thread].output_queue),
            uncommitted,
            metrics,
        })
    }

    /// The thread of a destination, with no sink yet.
    fn sink_thread(&self, ty: &str, stream: &str) -> SinkThread {
        SinkThread {
            name: format!("{ty} of stream '{stream}'"),
            slots: Vec::new(),
            output_queue: Arc::new(OutputQueue::new(Weight {
                rows: sink::ROWS_MAX,
                bytes: sink::BYTES_MAX,
            })),
            input_queue: Arc::clone(&self.input_queue),
            rejected: self.undelivered.clone(),
            health: Arc::clone(&self.health),
            has_state: self.state.is_some(),
            is_cut_off: false,
            store_key: self.store_key(),
            uncommitted: Arc::default(),
            messages: Messages::default(),
            attempts: HashMap::new(),
        }
    }

    /// A sink of the topics inside the server needs no thread.
    fn topic_sink(
        &self,
        app: usize,
        stream: StreamId,
        transport: &Transport,
        metrics: Arc<SinkMetrics>,
        mapper: Arc<MapperMetrics>,
    ) -> Result<SinkBinding, Error> {
        let plan = &self.plans[app];
        let definition = &plan.streams[stream];
        let takes = [PayloadKind::Any];
        let encoder = RowEncoder::new(transport, &definition.schema, &in_memory::SINK, &takes)
            .map_err(|e| self.refused(app, &e))?;
        let topic = match encoder.dynamic().iter().position(|n| n == "topic") {
            Some(index) => Topic::Dynamic(index),
            None => Topic::Named(transport.option("topic").unwrap_or_default().to_owned()),
        };
        metrics.is_connected.store(true, Ordering::Relaxed);
        Ok(SinkBinding::Topic {
            encoder,
            topic,
            on_unheard: on_unreachable(plan, app, stream, transport),
            metrics,
            mapper,
            warn_throttle: LogThrottle::default(),
        })
    }
}

/// The table that a sink works from, where its spec says that there is one.
pub(super) fn table_read(
    plan: &Plan,
    transport: &Transport,
    registry: &Registry,
) -> Option<TableId> {
    let spec = registry.spec(ConnectorKind::Sink, &transport.ty)?;
    let name = transport.option(spec.reads_table?)?;
    let mut tables = plan.tables.iter();
    tables.position(|table| table.schema.name == name)
}

/// The tables that sinks of an app work from.
pub(super) fn table_feeds(
    plan: &Plan,
    sinks: &[Vec<SinkBinding>],
    registry: &Registry,
) -> Vec<TableFeed> {
    let mut shown = Vec::new();
    for (stream, bindings) in sinks.iter().enumerate() {
        for (sink, seat) in bindings.iter().enumerate() {
            let table = table_read(plan, &plan.streams[stream].sinks[sink], registry);
            if let (
                Some(table),
                SinkBinding::Thread {
                    output_queue, slot, ..
                },
            ) = (table, seat)
            {
                shown.push(TableFeed {
                    table,
                    stream,
                    sink,
                    output_queue: Arc::clone(output_queue),
                    slot: *slot,
                    written: None,
                    read: None,
                    find: None,
                });
            }
        }
    }
    shown
}

fn on_unreachable(
    plan: &Plan,
    app: usize,
    stream: StreamId,
    transport: &Transport,
) -> sink::OnUnreachable {
    let policy = transport.option("on.error").unwrap_or("LOG");
    match policy.to_ascii_uppercase().as_str() {
        "WAIT" => sink::OnUnreachable::Wait,
        "STORE" => sink::OnUnreachable::Store,
        "STREAM" => match fault_stream(plan, stream) {
            Some(fault) => sink::OnUnreachable::Stream { app, fault },
            None => sink::OnUnreachable::Log,
        },
        _ => sink::OnUnreachable::Log,
    }
}
