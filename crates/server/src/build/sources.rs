//! Sources of a group, with their threads and their places on the executor.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use connect::component::{PayloadKind, Source, SourceSetup};
use connect::row_decoder::RowDecoder;
use plan::spec::ConnectorKind;
use plan::{StreamId, Transport};

use super::Builder;
use crate::backoff::LogThrottle;
use crate::error::Error;
use crate::executor::{SourceBinding, Subscriber};
use crate::group::is_topic;
use crate::metrics::SourceMetrics;
use crate::probe::bytes_waiting;
use crate::report::chain;
use crate::source::{SourceHandle, SourceThread};
use crate::state::Saved;
use crate::statistics::SourceMapping;

impl Builder<'_> {
    pub(super) fn sources(
        &self,
        saved: &Saved,
    ) -> Result<(Vec<SourceThread>, Vec<SourceBinding>, Vec<Subscriber>), Error> {
        let (mut threads, mut bindings, mut subscribers) = (Vec::new(), Vec::new(), Vec::new());
        for (app, plan) in self.plans.iter().enumerate() {
            for (stream, definition) in plan.streams.iter().enumerate() {
                for (i, transport) in definition.sources.iter().enumerate() {
                    let name = definition.display_name();
                    let metrics = SourceMetrics {
                        label: self.transport_label(app, &name, &definition.sources, i),
                        ..SourceMetrics::default()
                    };
                    let metrics = self.metrics[app].sources.enlist(metrics);
                    metrics.bytes_expected.set(bytes_waiting(transport));
                    let mapper = self.mapper(app, &metrics.label, transport);
                    let mapper = self.metrics[app].source_mappers.enlist(mapper);
                    let mapping = SourceMapping::new(mapper);
                    if is_topic(transport) {
                        let place = (stream, i);
                        let reader = self.subscriber(app, place, transport, metrics, mapping)?;
                        subscribers.push(reader);
                        continue;
                    }
                    let place = (stream, i);
                    let number = bindings.len();
                    let (thread, seat) =
                        self.source(app, place, transport, number, metrics, mapping, saved)?;
                    threads.push(thread);
                    bindings.push(seat);
                }
            }
        }
        Ok((threads, bindings, subscribers))
    }

    fn subscriber(
        &self,
        app: usize,
        (stream, number): (StreamId, usize),
        transport: &Transport,
        metrics: Arc<SourceMetrics>,
        mapping: SourceMapping,
    ) -> Result<Subscriber, Error> {
        // A topic inside the server is never away.
        metrics.is_connected.store(true, Ordering::Relaxed);
        let schema = &self.plans[app].streams[stream].schema;
        let decoder = RowDecoder::new(transport, schema, &[PayloadKind::Any])
            .map_err(|e| self.refused(app, &e))?;
        Ok(Subscriber {
            topic: transport.option("topic").unwrap_or_default().to_owned(),
            app,
            stream,
            number,
            decoder,
            metrics,
            mapping,
        })
    }

    fn source(
        &self,
        app: usize,
        (stream, place): (StreamId, usize),
        transport: &Transport,
        number: usize,
        metrics: Arc<SourceMetrics>,
        mapping: SourceMapping,
        saved: &Saved,
    ) -> Result<(SourceThread, SourceBinding), Error> {
        let plan = &self.plans[app];
        let schema = &plan.streams[stream].schema;
        let key = format!("{}[{}]", plan.streams[stream].display_name(), place + 1);
        let setup = SourceSetup {
            transport,
            schema,
            environment: &self.environments[app],
        };
        let connector = self
            .common
            .registry
            .find(ConnectorKind::Source, &transport.ty)
            .ok_or_else(|| self.not_there(app, "source", &transport.ty))?;
        let mut source = connector
            .source(&setup)
            .map_err(|e| self.refused(app, &e))?;
        self.must_end(source.as_ref(), app, &key, transport)?;
        let mut decoder = RowDecoder::new(transport, schema, connector.gives())
            .map_err(|e| self.refused(app, &e))?;
        let position = saved
            .positions
            .iter()
            .find(|(name, saved_key, _)| *name == plan.name && *saved_key == key)
            .and_then(|(_, _, position)| position.clone());
        if let Some(position) = &position {
            source
                .restore(&position.source)
                .map_err(|e| self.state_error(format!("source '{key}': {}", chain(&e))))?;
            decoder.restore(&position.mapper);
        }
        let source_handle = Arc::new(SourceHandle::new(&self.health));
        let name = format!("{}/{key}", plan.name);
        let thread = SourceThread {
            activity_id: self.health.member().enlist(&name),
            name,
            number,
            source,
            decoder,
            input_queue: Arc::clone(&self.input_queue),
            source_handle: Arc::clone(&source_handle),
            activity: Arc::clone(&self.common.activity),
            metrics,
            mapping,
            server_metrics: Arc::clone(&self.common.metrics),
            tracer: self.common.tracer.clone(),
            process: self.common.process,
            clock: self.common.clock,
            until_done: self.common.until_done,
            message_key: self.common.registry.message_key(&transport.ty),
        };
        let seat = SourceBinding {
            app,
            stream,
            number: place,
            key,
            source_handle,
            position,
            sequence: 0,
            covered: 0,
            warn_throttle: LogThrottle::default(),
        };
        Ok((thread, seat))
    }

    /// With `--until-done` a source that never ends would keep the run from ending.
    fn must_end(
        &self,
        source: &dyn Source,
        app: usize,
        key: &str,
        transport: &Transport,
    ) -> Result<(), Error> {
        if !self.common.until_done || source.ends() {
            return Ok(());
        }
        Err(Error::Usage(format!(
            "--until-done: source '{key}' (type '{}') of app '{}' never ends; leave the flag out, \
             or make the source end (a file source with tailing='false')",
            transport.ty, self.plans[app].name
        )))
    }
}
