//! `headwater connectors`: the pages of the catalog.

use catalog::pages;
use check::Catalog;
use lang::suggest::nearest;
use server::Error;

use crate::cli::ConnectorsArgs;
use crate::output::Output;

pub fn run(args: &ConnectorsArgs, output: &Output) -> anyhow::Result<u8> {
    let catalog = catalog::full(engine::specs());
    let components = pages::named(&catalog, args.name.as_deref());
    if components.is_empty() {
        return Err(unknown(&catalog, args.name.as_deref().unwrap_or_default()).into());
    }
    if args.json {
        output.print_json(&pages::to_json(&components))?;
    } else if args.name.is_some() {
        let texts: Vec<String> = components.iter().map(|c| pages::page(c)).collect();
        output.print(&texts.join("\n"))?;
    } else {
        output.print(&pages::list(&catalog))?;
    }
    Ok(0)
}

fn unknown(catalog: &Catalog, name: &str) -> Error {
    let hint = nearest(name, catalog.all_connectors().map(|s| s.name))
        .map_or_else(String::new, |n| format!("; did you mean '{n}'?"));
    Error::Usage(format!("there is no component '{name}'{hint}"))
}
