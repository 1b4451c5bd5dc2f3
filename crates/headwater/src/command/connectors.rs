//! `headwater connectors`: the pages of the catalog.

use ::connectors::REGISTRY;
use catalog::pages;
use check::Catalog;
use lang::suggest::nearest;
use plan::spec::{ConnectorSpec, Status};
use server::Error;

use crate::cli::ConnectorsArgs;
use crate::output::Output;

pub fn run(args: &ConnectorsArgs, output: &Output) -> anyhow::Result<u8> {
    let catalog = catalog::full();
    let components = pages::named(&catalog, args.name.as_deref());
    if components.is_empty() {
        return Err(unknown(&catalog, args.name.as_deref().unwrap_or_default()).into());
    }
    if args.json {
        output.print_json(&pages::to_json(&components, absent_feature))?;
    } else if args.name.is_some() {
        let texts: Vec<String> = components.iter().map(|c| page(c)).collect();
        output.print(&texts.join("\n"))?;
    } else {
        output.print(&pages::list(&catalog))?;
        let absent = absent(&catalog);
        if !absent.is_empty() {
            output.print(&absent)?;
        }
    }
    Ok(0)
}

/// The page of a component, with what to do if this build does not have it.
fn page(spec: &ConnectorSpec) -> String {
    let page = pages::page(spec);
    let Some(feature) = absent_feature(spec) else {
        return page;
    };
    format!(
        "{page}\nnot in this build: build with `--features {feature}` or install the full binary\n"
    )
}

/// What would run in a build with all features, and does not in this one; empty if there is nothing.
fn absent(catalog: &Catalog) -> String {
    let mut out = String::new();
    for spec in catalog.all_connectors() {
        let Some(feature) = absent_feature(spec) else {
            continue;
        };
        if out.is_empty() {
            out.push_str(
                "not in this build (build with these features, or install the full binary):\n",
            );
        }
        let (name, kind) = (spec.name, spec.kind.noun());
        out.push_str(&format!("  {name} ({kind}): --features {feature}\n"));
    }
    out
}

/// The Cargo feature of a component that runs, but not in this build.
fn absent_feature(spec: &ConnectorSpec) -> Option<&'static str> {
    let is_absent = spec.status == Status::Runs && !REGISTRY.has(spec);
    is_absent.then(|| (REGISTRY.feature)(spec))
}

fn unknown(catalog: &Catalog, name: &str) -> Error {
    let hint = nearest(name, catalog.all_connectors().map(|s| s.name))
        .map_or_else(String::new, |n| format!("; did you mean '{n}'?"));
    Error::Usage(format!("there is no component '{name}'{hint}"))
}
