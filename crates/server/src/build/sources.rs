//! Sources of a group, with their threads and their places on the lane.

use std::sync::Arc;

use connect::component::{PayloadKind, Source, SourceSetup};
use connect::inlet::Inlet;
use plan::spec::ConnectorKind;
use plan::{StreamId, Transport};

use super::Builder;
use crate::backoff::Sparse;
use crate::error::Error;
use crate::group::is_topic;
use crate::lane::{LaneSource, Saved, Subscriber};
use crate::metrics::SourceMetrics;
use crate::probe::bytes_waiting;
use crate::report::chain;
use crate::source::{Mailbox, SourceThread};
use crate::statistics::SourceMapping;

impl Builder<'_> {
    pub(super) fn sources(
        &self,
        saved: &Saved,
    ) -> Result<(Vec<SourceThread>, Vec<LaneSource>, Vec<Subscriber>), Error> {
        let (mut threads, mut seats, mut subscribers) = (Vec::new(), Vec::new(), Vec::new());
        for (app, plan) in self.plans.iter().enumerate() {
            for (stream, definition) in plan.streams.iter().enumerate() {
                for (i, transport) in definition.sources.iter().enumerate() {
                    let name = definition.display_name();
                    let metrics = SourceMetrics {
                        label: self.label(app, &name, &transport.ty),
                        ..SourceMetrics::default()
                    };
                    let metrics = self.metrics[app].sources.enlist(metrics);
                    metrics.bytes_expected.set(bytes_waiting(transport));
                    let mapper = self.mapper(app, &name, transport);
                    let mapper = self.metrics[app].source_mappers.enlist(mapper);
                    let mapping = SourceMapping::new(mapper);
                    if is_topic(transport) {
                        let reader = self.subscriber(app, stream, transport, metrics, mapping)?;
                        subscribers.push(reader);
                        continue;
                    }
                    let key = format!("{name}[{}]", i + 1);
                    let number = seats.len();
                    let (thread, seat) =
                        self.source(app, stream, transport, key, number, metrics, mapping, saved)?;
                    threads.push(thread);
                    seats.push(seat);
                }
            }
        }
        Ok((threads, seats, subscribers))
    }

    fn subscriber(
        &self,
        app: usize,
        stream: StreamId,
        transport: &Transport,
        metrics: Arc<SourceMetrics>,
        mapping: SourceMapping,
    ) -> Result<Subscriber, Error> {
        let schema = &self.plans[app].streams[stream].schema;
        let inlet = Inlet::new(transport, schema, &[PayloadKind::Any])
            .map_err(|e| self.refused(app, &e))?;
        Ok(Subscriber {
            topic: transport.option("topic").unwrap_or_default().to_owned(),
            app,
            stream,
            inlet,
            metrics,
            mapping,
        })
    }

    fn source(
        &self,
        app: usize,
        stream: StreamId,
        transport: &Transport,
        key: String,
        number: usize,
        metrics: Arc<SourceMetrics>,
        mapping: SourceMapping,
        saved: &Saved,
    ) -> Result<(SourceThread, LaneSource), Error> {
        let plan = &self.plans[app];
        let schema = &plan.streams[stream].schema;
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
        let mut inlet =
            Inlet::new(transport, schema, connector.gives()).map_err(|e| self.refused(app, &e))?;
        let position = saved
            .positions
            .iter()
            .find(|(name, saved_key, _)| *name == plan.name && *saved_key == key)
            .and_then(|(_, _, position)| position.clone());
        if let Some(position) = &position {
            source
                .restore(&position.source)
                .map_err(|e| self.state_error(format!("source '{key}': {}", chain(&e))))?;
            inlet.restore(&position.mapper);
        }
        let mailbox = Arc::new(Mailbox::default());
        let name = format!("{}/{key}", plan.name);
        let thread = SourceThread {
            seat: self.health.member().enlist(&name),
            name,
            number,
            source,
            inlet,
            inbox: Arc::clone(&self.inbox),
            mailbox: Arc::clone(&mailbox),
            pulse: Arc::clone(&self.common.pulse),
            metrics,
            mapping,
            server_metrics: Arc::clone(&self.common.metrics),
            process: self.common.process,
            clock: self.common.clock,
            until_done: self.common.until_done,
            message_key: self.common.registry.message_key(&transport.ty),
        };
        let seat = LaneSource {
            app,
            stream,
            key,
            mailbox,
            position,
            sequence: 0,
            covered: 0,
            said: Sparse::default(),
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
