//! What an app uses and this build does not have: connectors and mappers are features of the binary.

use catalog::connectors;
use check::codes::check::COMPONENT_PENDING;
use lang::diagnostic::{Diagnostic, Kind, Severity};
use lang::span::Span;
use plan::spec::{ConnectorKind, Status};
use plan::{Mapping, Plan, Transport};

use crate::deployment::LoadOptions;

/// One finding for each use. A warning for `check`, an error where the app must run.
pub(crate) fn diagnostics(plan: &Plan, options: &LoadOptions) -> Vec<Diagnostic> {
    uses(plan)
        .into_iter()
        .filter_map(|(kind, name, span)| {
            let mut known = connectors::all().filter(|spec| spec.status == Status::Runs);
            let spec = known.find(|spec| spec.is_called(kind, name))?;
            if options.registry.has(spec) {
                return None;
            }
            let feature = (options.registry.feature)(spec);
            let noun = match kind {
                ConnectorKind::SourceMapper | ConnectorKind::SinkMapper => "mapper",
                _ => "connector",
            };
            Some(Diagnostic {
                code: COMPONENT_PENDING,
                severity: match options.must_run {
                    true => Severity::Error,
                    false => Severity::Warning,
                },
                kind: Kind::Unsupported,
                message: format!("this build of headwater has no {noun} '{name}'"),
                span,
                label: "not in this build".to_owned(),
                related: Vec::new(),
                help: Some(format!(
                    "build with `--features {feature}` or install the full binary"
                )),
                fix: None,
            })
        })
        .collect()
}

fn uses(plan: &Plan) -> Vec<(ConnectorKind, &str, Span)> {
    let mut uses = Vec::new();
    for stream in &plan.streams {
        let sources = stream.sources.iter();
        uses.extend(
            sources.flat_map(|t| both(ConnectorKind::Source, ConnectorKind::SourceMapper, t)),
        );
        let sinks = stream.sinks.iter();
        uses.extend(sinks.flat_map(|t| both(ConnectorKind::Sink, ConnectorKind::SinkMapper, t)));
    }
    let stores = plan.tables.iter().filter_map(|table| table.store.as_ref());
    uses.extend(stores.map(|store| (ConnectorKind::Store, store.ty.as_str(), store.span)));
    uses
}

fn both(
    kind: ConnectorKind,
    mapper: ConnectorKind,
    transport: &Transport,
) -> [(ConnectorKind, &str, Span); 2] {
    let Mapping { ty, span, .. } = &transport.map;
    [
        (kind, transport.ty.as_str(), transport.span),
        (mapper, ty.as_str(), *span),
    ]
}
