//! Kafka sinks by their `transactional.id`: of two that have the same, the broker lets only the one
//! write that asked last. Both ask again whenever they are fenced off, so neither ever gets on.

use std::collections::HashSet;

use crate::Checker;
use crate::codes::option as code;
use crate::report::error;
use lang::diagnostic::{Diagnostic, Kind};
use lang::span::Span;
use plan::{Plan, Transport};

const TYPES: [&str; 2] = ["kafka", "kafkaMultiDC"];

/// A sink that writes in transactions.
pub struct Producer<'p> {
    pub stream: &'p str,
    /// Of its `@sink`.
    pub span: Span,
    pub id: &'p str,
    brokers: HashSet<&'p str>,
}

impl<'p> Producer<'p> {
    /// All of a plan, in the order of its streams; those of a distribution one by one.
    pub fn all(plan: &'p Plan) -> Vec<Producer<'p>> {
        let of_stream = |stream: &'p plan::Stream| {
            let name = stream.schema.name.as_str();
            let one = move |sink: &'p Transport| Producer::of(name, sink);
            stream.sinks.iter().filter_map(one)
        };
        plan.streams.iter().flat_map(of_stream).collect()
    }

    fn of(stream: &'p str, sink: &'p Transport) -> Option<Producer<'p>> {
        TYPES.iter().find(|ty| ty.eq_ignore_ascii_case(&sink.ty))?;
        let properties = items(sink.option("optional.configuration")?);
        let id = properties
            .filter_map(|entry| entry.split_once(':'))
            // The last one counts.
            .filter(|(name, _)| name.trim() == "transactional.id")
            .last()?
            .1
            .trim();
        Some(Producer {
            stream,
            span: sink.span,
            id,
            brokers: items(sink.option("bootstrap.servers")?).collect(),
        })
    }

    /// Is it the same to the broker? A broker belongs to one cluster.
    pub fn is_same(&self, other: &Producer<'_>) -> bool {
        self.id == other.id && !self.brokers.is_disjoint(&other.brokers)
    }

    /// What is wrong where another has its id.
    pub fn taken(&self, help: impl Into<String>) -> Diagnostic {
        error(
            code::SAME_PRODUCER,
            Kind::Option,
            self.span,
            format!(
                "sink of stream '{}' has the transactional.id '{}' of another sink",
                self.stream, self.id
            ),
            "each takes it away from the other, and neither gets on",
        )
        .help(help)
    }
}

/// As the connector reads lists.
fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
}

impl Checker<'_> {
    /// Each sink that writes in transactions is a producer of its own.
    pub(crate) fn same_producers(&mut self) {
        let mut found = Vec::new();
        let producers = Producer::all(&self.plan);
        for (index, producer) in producers.iter().enumerate() {
            let mut before = producers[..index].iter();
            let Some(first) = before.find(|other| other.is_same(producer)) else {
                continue;
            };
            let finding = match first.span == producer.span {
                true => Diagnostic {
                    message: format!(
                        "destinations of a sink of stream '{}' share the transactional.id '{}'",
                        producer.stream, producer.id
                    ),
                    ..producer
                        .taken("give each @destination an 'optional.configuration' with its own id")
                },
                false => producer
                    .taken("give each sink its own id in its 'optional.configuration'")
                    .related(
                        first.span,
                        format!("the other, of stream '{}'", first.stream),
                    ),
            };
            let is_known = |known: &Diagnostic| known.span == finding.span;
            if !found.iter().any(is_known) {
                found.push(finding);
            }
        }
        for finding in found {
            self.report(finding);
        }
    }
}
