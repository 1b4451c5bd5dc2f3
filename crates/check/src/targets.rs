//! Where the rows of queries go: what is defined, and streams that an insert makes.

use crate::Checker;
use crate::codes::check as code;
use crate::names::{Entry, Named, Shape};
use crate::report::{error, warning};
use lang::ast::{self, StreamKind};
use lang::diagnostic::Kind;
use lang::span::Span;
use lang::suggest::nearest;
use plan::StreamId;

/// More of them are no slips of the pen.
const UNREAD_MAX: usize = 20;

impl Checker<'_> {
    /// Where an inserted row goes: what is defined, or a stream that comes into being here.
    pub(super) fn insert_target(
        &mut self,
        target: &ast::StreamName,
        selected: &Shape,
        select_span: Span,
    ) -> Option<plan::Output> {
        let name = target.name.text.as_str();
        let found = match target.kind {
            StreamKind::Plain => self.names.get(name),
            StreamKind::Inner => {
                let Some(partition) = self.partition else {
                    self.outside_partition(target);
                    return None;
                };
                match self.inner_streams.get(name) {
                    Some(entry) => Some(entry),
                    None => {
                        let kind = plan::StreamKind::Inner(partition);
                        let id = self.make_stream(name, selected, kind, target.span);
                        let entry = Entry {
                            named: Named::Stream(id),
                            span: target.span,
                        };
                        self.inner_streams.insert(name, entry);
                        return Some(plan::Output::Stream(id));
                    }
                }
            }
            StreamKind::Fault => {
                let id = self.fault_stream(target)?;
                Some(Entry {
                    named: Named::Stream(id),
                    span: self.plan.streams[id].span,
                })
            }
        };
        let Some(entry) = found else {
            let id = self.make_stream(name, selected, plan::StreamKind::Plain, target.span);
            self.names.insert(
                name,
                Entry {
                    named: Named::Stream(id),
                    span: target.span,
                },
            );
            return Some(plan::Output::Stream(id));
        };
        if let Named::Aggregation(_) = entry.named {
            self.report(
                error(
                    code::NOT_A_TARGET,
                    Kind::Name,
                    target.span,
                    format!("aggregation '{name}' takes events only from its own 'from'"),
                    "cannot be inserted into",
                )
                .related(entry.span, "defined here"),
            );
            return None;
        }
        self.check_same_row(entry, target, selected, select_span);
        Some(match entry.named {
            Named::Table(id) => plan::Output::Table(id),
            Named::Window(id) => plan::Output::Window(id),
            Named::Stream(id) => plan::Output::Stream(id),
            Named::Aggregation(_) => return None,
        })
    }

    fn make_stream(
        &mut self,
        name: &str,
        selected: &Shape,
        kind: plan::StreamKind,
        span: Span,
    ) -> StreamId {
        let shape = Shape {
            name: name.to_owned(),
            ..selected.clone()
        };
        self.new_stream(shape, kind, false, span)
    }

    /// The selected row must be that of the target: names, types and order.
    pub(super) fn check_same_row(
        &mut self,
        entry: Entry,
        target: &ast::StreamName,
        selected: &Shape,
        select_span: Span,
    ) {
        let Some(shape) = self.shape_named(entry.named) else {
            return;
        };
        if shape.agrees_with(selected) {
            return;
        }
        let shape = shape.clone();
        let kind = entry.named.kind();
        let (span, label) = first_difference(&shape, selected, select_span);
        let span = if span == Span::default() {
            target.span
        } else {
            span
        };
        self.report(
            error(
                code::OTHER_ROW,
                Kind::Type,
                span,
                format!(
                    "the selected attributes are not those of {kind} '{}'",
                    target.name.text
                ),
                label,
            )
            .related(
                entry.span,
                format!("{kind} '{}' is {}", target.name.text, shape.signature()),
            )
            .help(format!(
                "names, types and order must be the same; selected is {}",
                selected.signature()
            )),
        );
    }

    /// A stream that an insert makes and nobody reads, beside a defined one of nearly the same name
    /// that nobody fills: most likely the name was misspelt.
    pub(super) fn unread_streams(&mut self) {
        let is_read = self.streams_read();
        let mut is_fed: Vec<bool> = self
            .plan
            .streams
            .iter()
            .map(|s| !s.sources.is_empty())
            .collect();
        for query in &self.plan.queries {
            if let plan::Output::Stream(id) = query.output {
                is_fed[id] = true;
            }
        }
        let plain = |id: &StreamId| self.plan.streams[*id].kind == plan::StreamKind::Plain;
        let all: Vec<StreamId> = (0..self.plan.streams.len()).filter(plain).collect();
        let starved: Vec<&str> = all
            .iter()
            .filter(|&&id| {
                let stream = &self.plan.streams[id];
                let has_use = is_read[id] || !stream.sinks.is_empty();
                stream.is_defined && has_use && !is_fed[id]
            })
            .map(|&id| self.stream_shapes[id].name.as_str())
            .collect();
        let mut found = Vec::new();
        for &id in all
            .iter()
            .filter(|&&id| !self.plan.streams[id].is_defined && !is_read[id])
        {
            let shape = &self.stream_shapes[id];
            let Some(near) = nearest(&shape.name, starved.iter().copied()) else {
                continue;
            };
            let Some(Entry {
                named: Named::Stream(meant),
                span,
            }) = self.names.get(near)
            else {
                continue;
            };
            if self.stream_shapes[meant].agrees_with(shape) {
                let place = self.plan.streams[id].span;
                found.push(
                    warning(
                        code::UNREAD_STREAM,
                        Kind::Name,
                        place,
                        format!("stream '{}' is created here and never read", shape.name),
                        format!("'{near}' is defined, and nothing is inserted into it"),
                    )
                    .related(span, "defined here")
                    .did_you_mean(place, Some(near)),
                );
            }
            if found.len() >= UNREAD_MAX {
                break;
            }
        }
        found.into_iter().for_each(|d| self.report(d));
    }

    /// For each stream: does a query, a partition or an aggregation read it?
    fn streams_read(&self) -> Vec<bool> {
        let mut is_read = vec![false; self.plan.streams.len()];
        let mut read = |from: plan::From| {
            // A faulty query stands in the plan with an input that may not be there.
            if let plan::From::Stream(id) = from
                && let Some(is_read) = is_read.get_mut(id)
            {
                *is_read = true;
            }
        };
        for query in &self.plan.queries {
            match &query.input {
                plan::Input::Single(single) => read(single.from),
                plan::Input::Join(join) => {
                    read(join.left.from);
                    read(join.right.from);
                }
                plan::Input::Pattern(pattern) => {
                    pattern.references.iter().for_each(|r| read(r.from));
                }
            }
        }
        self.plan
            .aggregations
            .iter()
            .for_each(|a| read(a.input.from));
        is_read
    }
}

/// The first place where two rows part, in the words of the person who wrote the select clause.
fn first_difference(wanted: &Shape, selected: &Shape, select_span: Span) -> (Span, String) {
    for (want, have) in wanted.fields.iter().zip(&selected.fields) {
        if want.name != have.name {
            return (
                have.span,
                format!("'{}', where '{}' is expected", have.name, want.name),
            );
        }
        if let (Some(want_ty), Some(have_ty)) = (want.ty, have.ty)
            && want_ty != have_ty
        {
            let label = format!("'{}' is {have_ty} here, {want_ty} there", have.name);
            return (have.span, label);
        }
    }
    if let Some(extra) = selected.fields.get(wanted.fields.len()) {
        return (extra.span, format!("'{}' is one too many", extra.name));
    }
    match wanted.fields.get(selected.fields.len()) {
        Some(missing) => (select_span, format!("'{}' is missing", missing.name)),
        None => (select_span, "other attributes".to_owned()),
    }
}
