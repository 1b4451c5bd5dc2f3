//! `headwater connectors`: the pages are made from the catalog in `lang`.

use lang::catalog::{connectors, pages};
use lang::suggest::nearest;
use server::Error;

use crate::cli::ConnectorsArgs;
use crate::output::Output;

pub fn run(args: &ConnectorsArgs, output: &Output) -> anyhow::Result<u8> {
    let components = pages::named(args.name.as_deref());
    if components.is_empty() {
        return Err(unknown(args.name.as_deref().unwrap_or_default()).into());
    }
    if args.json {
        output.print_json(&pages::to_json(&components))?;
    } else if args.name.is_some() {
        let texts: Vec<String> = components.iter().map(|c| pages::page(c)).collect();
        output.print(&texts.join("\n"))?;
    } else {
        output.print(&pages::list())?;
    }
    Ok(0)
}

fn unknown(name: &str) -> Error {
    let hint = nearest(name, connectors::all().map(|s| s.name))
        .map_or_else(String::new, |n| format!("; did you mean '{n}'?"));
    Error::Usage(format!("there is no component '{name}'{hint}"))
}
