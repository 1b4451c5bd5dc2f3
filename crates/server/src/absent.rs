//! What an app uses and this build does not have: connectors with their functions, and mappers, are
//! features of the binary.

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
            let spec = options.catalog.connector(kind, name)?;
            if spec.status != Status::Runs || options.registry.has(spec) {
                return None;
            }
            let feature = (options.registry.feature)(spec);
            let noun = match kind {
                ConnectorKind::Source | ConnectorKind::Sink | ConnectorKind::Store => "connector",
                kind => kind.noun(),
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
    for (name, span) in &plan.effects {
        // A name may be that of a stream function and of a function of one technology.
        let kinds = [ConnectorKind::StreamFunction, ConnectorKind::Function];
        uses.extend(kinds.map(|kind| (kind, name.as_str(), *span)));
    }
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

#[cfg(test)]
mod tests {
    use connect::registry::Registry;

    use super::*;
    use crate::deployment::{AppText, load};

    const APP: &str = "@source(type='inMemory', topic='t', @map(type='passThrough'))
        define stream S (path string);
        @sink(type='log')
        define stream O (path string, isFile bool);
        from S#file:move(path, 'done')#log('moved') select path, file:isFile(path) as isFile insert into O;";

    /// What is said of the app by a build without a connector.
    fn found(must_run: bool) -> Vec<(Severity, String, String)> {
        let mut options = LoadOptions::new(Registry::EMPTY, catalog::full());
        options.must_run = must_run;
        options.registry.feature = |spec| spec.origin;
        let app = AppText {
            file: "a.siddhi".to_owned(),
            text: APP.to_owned(),
        };
        let apps = load(&[app], &options).expect("no fault of usage");
        let found = apps.into_iter().flat_map(|app| app.diagnostics);
        found
            .filter(|d| d.code == COMPONENT_PENDING)
            .map(|d| (d.severity, d.message, d.help.unwrap_or_default()))
            .collect()
    }

    #[test]
    fn connectors_and_functions_that_a_build_lacks_are_named_with_their_feature() {
        let expected = [
            ("connector 'log'", "core"),
            ("stream function 'file:move'", "io-file"),
            ("function 'file:isFile'", "io-file"),
        ];
        let severities = [(false, Severity::Warning), (true, Severity::Error)];
        for (must_run, severity) in severities {
            let found = found(must_run);
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for ((level, message, help), (what, feature)) in found.iter().zip(expected) {
                assert_eq!(*level, severity);
                assert_eq!(*message, format!("this build of headwater has no {what}"));
                let feature = format!("`--features {feature}`");
                assert!(help.contains(&feature), "{help}");
            }
        }
    }
}
