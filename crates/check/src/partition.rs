//! Partitions: keys, inner streams, and the queries inside.

use crate::Checker;
use crate::codes::check as code;
use crate::names::{Named, Names, Shape};
use crate::report::error;
use crate::scope::{Input, Scope};
use lang::ast::{self, PartitionBy, StreamKind};
use lang::diagnostic::Kind;
use plan::{From, PartitionId};

impl Checker<'_> {
    pub(super) fn partition(&mut self, partition: &ast::Partition, ordinal: usize) -> PartitionId {
        let id = self.plan.partitions.len();
        let name = self.element_name(&partition.annotations, format!("partition_{ordinal}"));
        let purge = self.partition_purge(&partition.annotations);
        let keys = partition
            .keys
            .iter()
            .filter_map(|k| self.partition_key(k))
            .collect();
        self.partitioned_once(&partition.keys);
        self.plan.partitions.push(plan::Partition {
            name,
            keys,
            queries: Vec::new(),
            purge,
            span: partition.span,
        });
        self.partition = Some(id);
        self.inner_streams = Names::default();
        for query in &partition.queries {
            if let Some(query) = self.query(query) {
                self.plan.partitions[id].queries.push(query);
            }
        }
        self.partition = None;
        self.inner_streams = Names::default();
        id
    }

    /// Each stream has one key.
    fn partitioned_once(&mut self, keys: &[ast::PartitionKey]) {
        for (i, key) in keys.iter().enumerate() {
            let is_same = |k: &&ast::PartitionKey| {
                k.stream.name.text == key.stream.name.text && k.stream.kind == key.stream.kind
            };
            if let Some(first) = keys[..i].iter().find(is_same) {
                self.report(
                    error(
                        code::PARTITIONED_TWICE,
                        Kind::Name,
                        key.span,
                        format!("stream '{}' is partitioned twice", key.stream.name.text),
                        "a second key",
                    )
                    .related(first.span, "the first key")
                    .help("keep one of them"),
                );
            }
        }
    }

    fn partition_key(&mut self, key: &ast::PartitionKey) -> Option<plan::PartitionKey> {
        let from = self.partitioned_stream(&key.stream);
        let shape = match from {
            Some(From::Stream(id)) => self.stream_shapes[id].clone(),
            Some(From::Window(id)) => self.window_shapes[id].clone(),
            _ => Shape::open(&key.stream.name.text),
        };
        let input = Input::new(&key.stream.name.text, key.stream.kind, shape);
        let scope = Scope {
            takes_aggregators: false,
            takes_probes: false,
            ..Scope::one(input, "the partition's key")
        };
        let by = match &key.by {
            PartitionBy::Value(value) => {
                let value = self.expr(value, &scope)?;
                plan::PartitionBy::Value(value)
            }
            PartitionBy::Ranges(ranges) => {
                let checked: Vec<_> = ranges
                    .iter()
                    .map(|(condition, name)| {
                        let checked = self.condition(condition, &scope, "a range")?;
                        Some((checked, name.text.clone()))
                    })
                    .collect();
                plan::PartitionBy::Ranges(checked.into_iter().collect::<Option<_>>()?)
            }
        };
        Some(plan::PartitionKey { from: from?, by })
    }

    fn partitioned_stream(&mut self, name: &ast::StreamName) -> Option<From> {
        if name.kind == StreamKind::Fault {
            return self.fault_stream(name).map(From::Stream);
        }
        let Some(entry) = self
            .names
            .get(&name.name.text)
            .filter(|_| name.kind == StreamKind::Plain)
        else {
            self.unknown_stream(name);
            return None;
        };
        match entry.named {
            Named::Stream(id) => Some(From::Stream(id)),
            Named::Window(id) => Some(From::Window(id)),
            other => {
                self.report(
                    error(
                        code::NOT_A_STREAM,
                        Kind::Name,
                        name.span,
                        format!(
                            "{} '{}' cannot be partitioned",
                            other.kind(),
                            name.name.text
                        ),
                        "not a stream",
                    )
                    .related(entry.span, "defined here")
                    .help(
                        "tables and aggregations are the same for all keys: read them \
                     inside",
                    ),
                );
                None
            }
        }
    }
}
