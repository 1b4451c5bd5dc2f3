//! `headwater connectors`: the pages of the catalog.

use crate::registry::REGISTRY;
use catalog::pages;
use check::Catalog;
use lang::suggest::nearest;
use plan::spec::{ConnectorSpec, Status};
use serde_json::json;
use server::Error;

use crate::cli::ConnectorsArgs;
use crate::output::Output;

pub fn run(args: &ConnectorsArgs, output: &Output) -> anyhow::Result<u8> {
    let catalog = catalog::full();
    let components = pages::named(&catalog, args.name.as_deref());
    if args.json && !components.is_empty() {
        output.print_json(&pages::to_json(&components, absent_feature))?;
    } else if let Some(name) = &args.name {
        let found = pages_of(&catalog, name).ok_or_else(|| unknown(&catalog, name))?;
        match args.json {
            true => output.print_json(&json!({"version": 1, "pages": found}))?,
            false => output.print(&found.join("\n"))?,
        }
    } else {
        output.print(&pages::list(&catalog, absent_feature))?;
        let absent = absent(&catalog);
        if !absent.is_empty() {
            output.print(&absent)?;
        }
    }
    Ok(0)
}

/// The pages of the components and functions of a name; `None` if there is none.
pub(super) fn pages_of(catalog: &Catalog, name: &str) -> Option<Vec<String>> {
    let components = pages::named(catalog, Some(name)).into_iter().map(page);
    let functions = pages::functions_named(catalog, name).into_iter();
    let found: Vec<String> = components
        .chain(functions.map(pages::function_page))
        .collect();
    (!found.is_empty()).then_some(found)
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

/// With the name that was meant, if one is near.
pub(super) fn unknown(catalog: &Catalog, name: &str) -> Error {
    let functions: Vec<String> = pages::functions(catalog)
        .flat_map(|spec| [spec.full_name(), spec.name.to_owned()])
        .collect();
    let names = catalog.all_connectors().map(|s| s.name);
    let hint = nearest(name, names.chain(functions.iter().map(String::as_str)))
        .map_or_else(String::new, |n| format!("; did you mean '{n}'?"));
    Error::Usage(format!("there is no component or function '{name}'{hint}"))
}
