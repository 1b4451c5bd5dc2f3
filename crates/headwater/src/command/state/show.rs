//! `headwater state show`.

use plan::Plan;
use serde_json::{Value as Json, json};
use server::Error;
use server::http::{answer_json, value_json};
use server::upkeep::contents::{Opened, Unanswered};

use super::{count, place, size};
use crate::cli::state::ShowArgs;
use crate::command::query::answer_text;
use crate::command::reply::{array, cell};
use crate::output::Output;

pub fn run(args: &ShowArgs, output: &Output) -> anyhow::Result<u8> {
    let (dir, epoch) = place(&args.dir);
    let opened = Opened::all(&dir, epoch)?;
    let plan = args
        .app
        .as_deref()
        .map(|file| super::plan_of(file, output))
        .transpose()?;
    let name = match (&args.name, &plan) {
        (None, Some(plan)) => Some(plan.name.clone()),
        (name, _) => name.clone(),
    };
    let group = opened.iter().find(|o| {
        let name = name.as_deref();
        name.is_some_and(|name| o.apps().any(|app| app == name))
    });
    if let (Some(name), None) = (&name, group) {
        let known: Vec<&str> = opened.iter().flat_map(Opened::apps).collect();
        return Err(Error::Refused(format!(
            "no state of app '{name}' is saved here; of these there is: {}",
            known.join(", ")
        ))
        .into());
    }
    if let (Some(query), Some(group), Some(plan)) = (&args.query, group, &plan) {
        return answer(group, plan, query, args, output);
    }
    if let (Some(element), Some(group), Some(name)) = (&args.element, group, &name) {
        return rows(group, name, element, plan.as_ref(), args, output);
    }
    let mut all = Vec::new();
    for group in &opened {
        let wanted = |app: &&str| name.as_deref().is_none_or(|name| name == *app);
        for app in group.apps().filter(wanted) {
            all.push(app_json(group, app, plan.as_ref())?);
        }
    }
    match args.json {
        true => output.print_json(&json!({ "version": 1, "apps": all }))?,
        false => output.print(&all.iter().map(app_text).collect::<String>())?,
    }
    Ok(0)
}

/// A position in JSON as one line.
pub(super) fn position_words(position: &Json) -> String {
    let Json::Object(pairs) = position else {
        return "keeps no position".to_owned();
    };
    let words = pairs
        .iter()
        .map(|(name, value)| format!("{name} {}", cell(value)));
    words.collect::<Vec<_>>().join(", ")
}

fn app_json(group: &Opened, app: &str, plan: Option<&Plan>) -> anyhow::Result<Json> {
    let plan = plan.filter(|plan| plan.name == app);
    let sources = group.positions(app, plan, &crate::registry::REGISTRY);
    let sources = sources
        .iter()
        .map(|(key, position)| json!({ "source": key, "position": position.to_json() }));
    let elements = group.elements(app)?;
    let elements = elements.iter().map(|element| {
        json!({
            "element": element.name,
            "keeps": element.parts,
            "rows": element.rows,
            "bytes": element.bytes,
        })
    });
    Ok(json!({
        "app": app,
        "group": group.group,
        "epoch": group.epoch,
        "sources": sources.collect::<Vec<Json>>(),
        "elements": elements.collect::<Vec<Json>>(),
    }))
}

fn app_text(app: &Json) -> String {
    let mut text = format!("app {}, epoch {}\n", cell(&app["app"]), app["epoch"]);
    for source in array(&app["sources"]) {
        let position = position_words(&source["position"]);
        text += &format!("  source {}: {position}\n", cell(&source["source"]));
    }
    for element in array(&app["elements"]) {
        let keeps: Vec<String> = array(&element["keeps"]).iter().map(cell).collect();
        let rows = element["rows"].as_u64();
        let rows = rows.map_or_else(String::new, |rows| count(rows, "row") + ", ");
        text += &format!(
            "  {} ({}): {rows}{}\n",
            cell(&element["element"]),
            keeps.join(", "),
            size(element["bytes"].as_u64().unwrap_or(0))
        );
    }
    text
}

/// Rows of a table from its bytes, of anything else from the app.
fn rows(
    group: &Opened,
    app: &str,
    element: &str,
    plan: Option<&Plan>,
    args: &ShowArgs,
    output: &Output,
) -> anyhow::Result<u8> {
    if let Some(table) = group.table(app, element)? {
        let total = table.rows.len;
        let shown = (0..total.min(args.limit)).map(|row| {
            let row = table.rows.row(row);
            Json::Array(row.iter().map(value_json).collect())
        });
        let attributes = table.schema.attributes.iter().map(|attribute| {
            let ty = attribute.ty.to_string().to_uppercase();
            json!({ "name": attribute.name, "dataType": ty })
        });
        let answer = json!({
            "details": attributes.collect::<Vec<Json>>(),
            "records": shown.collect::<Vec<Json>>(),
        });
        return print(group, app, answer, total, args, output);
    }
    let saved = group.elements(app)?;
    let is_it = |name: &str| {
        name.split_once('\'')
            .is_some_and(|(_, rest)| rest.strip_suffix('\'') == Some(element))
    };
    let Some(found) = saved.iter().find(|saved| is_it(&saved.name)) else {
        let known: Vec<&str> = saved.iter().map(|saved| saved.name.as_str()).collect();
        return Err(Error::Refused(format!(
            "nothing is saved of '{element}' of app '{app}'; of these there is: {}",
            known.join(", ")
        ))
        .into());
    };
    let Some(plan) = plan.filter(|_| found.name.starts_with("window '")) else {
        let what = match found.name.split(' ').next() {
            Some("window") => {
                "the rows of a named window are read by the app: give it with --app FILE"
            }
            Some("aggregation") => {
                "an aggregation is read by a query: give the app with --app FILE, and --query \"from … \
                 within … per … select *\""
            }
            _ => {
                "what windows, patterns and groups inside of queries and partitions hold is not shown"
            }
        };
        return Err(Error::Refused(format!(
            "{} ({}) has {}: {what}",
            found.name,
            found.parts.join(", "),
            size(found.bytes)
        ))
        .into());
    };
    answer(
        group,
        plan,
        &format!("from {element} select *"),
        args,
        output,
    )
}

fn answer(
    group: &Opened,
    plan: &Plan,
    query: &str,
    args: &ShowArgs,
    output: &Output,
) -> anyhow::Result<u8> {
    let catalog = catalog::full();
    let found = match group.ask(plan, query, &catalog) {
        Ok(found) => found,
        Err(Unanswered::Failed(error)) => return Err(error.into()),
        Err(Unanswered::Query(faults)) => {
            let text = ::check::render::render(&faults, "query", query, &catalog, output.colour);
            output.say(&text);
            return Ok(1);
        }
    };
    let mut answer = answer_json(&found, true);
    let total = array(&answer["records"]).len();
    if let Some(records) = answer["records"].as_array_mut() {
        records.truncate(args.limit);
    }
    print(group, &plan.name, answer, total, args, output)
}

fn print(
    group: &Opened,
    app: &str,
    answer: Json,
    total: usize,
    args: &ShowArgs,
    output: &Output,
) -> anyhow::Result<u8> {
    if args.json {
        output.print_json(&json!({
            "version": 1,
            "app": app,
            "epoch": group.epoch,
            "attributes": answer["details"],
            "rows": answer["records"],
            "total": total,
        }))?;
        return Ok(0);
    }
    output.print(&answer_text(&answer))?;
    if total > args.limit {
        output.say(&format!(
            "{} of {total} rows; --limit shows more",
            args.limit
        ));
    }
    Ok(0)
}
