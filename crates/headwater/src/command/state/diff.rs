//! `headwater state diff`.

use std::collections::BTreeSet;
use std::path::Path;

use event::Value;
use plan::Plan;
use serde_json::{Value as Json, json};
use server::Error;
use server::http::value_json;
use server::preview::Preview;
use server::upkeep::contents::{Opened, PositionText, TableChange};

use super::show::position_words;
use super::{count, place, size};
use crate::cli::state::DiffArgs;
use crate::command::reply::{array, cell};
use crate::output::Output;

pub fn run(args: &DiffArgs, output: &Output) -> anyhow::Result<u8> {
    let after = Path::new(&args.after);
    if after.extension().is_some_and(|e| e == "siddhi") && !after.is_dir() {
        return with_app(args, after, output);
    }
    let open = |text: &str| {
        let (dir, epoch) = place(text);
        Opened::all(&dir, epoch)
    };
    let (before, after) = (open(&args.before)?, open(&args.after)?);
    let plan = args
        .app
        .as_deref()
        .map(|file| super::plan_of(file, output))
        .transpose()?;
    let names: BTreeSet<&str> = before.iter().chain(&after).flat_map(Opened::apps).collect();
    let wanted = names
        .into_iter()
        .filter(|app| args.name.as_ref().is_none_or(|name| name == app));
    let mut apps = Vec::new();
    for app in wanted {
        let of = |all: &'_ [Opened]| all.iter().position(|o| o.apps().any(|own| own == app));
        apps.push(match (of(&before), of(&after)) {
            (Some(b), Some(a)) => {
                let plan = plan.as_ref().filter(|plan| plan.name == app);
                app_diff(app, &before[b], &after[a], plan, args.limit)?
            }
            (Some(_), None) => json!({ "app": app, "only": "before" }),
            _ => json!({ "app": app, "only": "after" }),
        });
    }
    if apps.is_empty() {
        let name = args.name.as_deref().unwrap_or_default();
        return Err(Error::Refused(format!("neither has state of app '{name}'")).into());
    }
    match args.json {
        true => output.print_json(&json!({ "version": 1, "apps": apps }))?,
        false => output.print(&apps.iter().map(app_text).collect::<String>())?,
    }
    Ok(0)
}

/// What an app would take back.
fn with_app(args: &DiffArgs, app: &Path, output: &Output) -> anyhow::Result<u8> {
    let (dir, epoch) = place(&args.before);
    if epoch.is_some() {
        let said = "an app is compared with the current snapshot: leave out the epoch";
        return Err(Error::Usage(said.to_owned()).into());
    }
    let plan = super::plan_of(app, output)?;
    let Some(preview) = Preview::of(&plan, &dir)? else {
        let said = format!(
            "no state of app '{}' is saved in '{}'",
            plan.name,
            dir.display()
        );
        return Err(Error::Refused(said).into());
    };
    match args.json {
        true => {
            let mut json = crate::command::explain::state_json(&preview);
            json["version"] = json!(1);
            json["app"] = json!(plan.name);
            output.print_json(&json)?;
        }
        false => output.print(preview.in_words().trim_start())?,
    }
    Ok(u8::from(!preview.dropped.is_empty()))
}

fn app_diff(
    app: &str,
    before: &Opened,
    after: &Opened,
    plan: Option<&Plan>,
    limit: usize,
) -> anyhow::Result<Json> {
    let registry = &crate::registry::REGISTRY;
    let (old, new) = (
        before.positions(app, plan, registry),
        after.positions(app, plan, registry),
    );
    let keys: BTreeSet<&String> = old.iter().chain(&new).map(|(key, _)| key).collect();
    let of = |all: &[(String, PositionText)], key: &String| {
        let position = all.iter().find(|(own, _)| own == key);
        position.map(|(_, position)| position.to_json())
    };
    let sources = keys.into_iter().filter_map(|key| {
        let (old, new) = (of(&old, key), of(&new, key));
        (old != new).then(|| json!({ "source": key, "before": old, "after": new }))
    });
    let sources: Vec<Json> = sources.collect();
    let (old, new) = (before.elements(app)?, after.elements(app)?);
    let names: BTreeSet<&str> = old.iter().chain(&new).map(|e| e.name.as_str()).collect();
    let mut elements = Vec::new();
    for name in names {
        let of = |all: &[engine::SavedElement]| all.iter().find(|e| e.name == name).cloned();
        let (old, new) = (of(&old), of(&new));
        let rows = match name
            .strip_prefix("table '")
            .and_then(|n| n.strip_suffix('\''))
        {
            Some(table) => table_diff(app, table, before, after, limit)?,
            None => Json::Null,
        };
        if old == new && rows.is_null() {
            continue;
        }
        let form = |e: &Option<engine::SavedElement>| {
            e.as_ref()
                .map(|e| json!({ "keeps": e.parts, "rows": e.rows, "bytes": e.bytes }))
        };
        elements.push(json!({
            "element": name,
            "before": form(&old),
            "after": form(&new),
            "rows": rows,
        }));
    }
    Ok(json!({
        "app": app,
        "before": before.epoch,
        "after": after.epoch,
        "same": sources.is_empty() && elements.is_empty(),
        "sources": sources,
        "elements": elements,
    }))
}

/// Null where the rows are the same, or one of both has no such table.
fn table_diff(
    app: &str,
    table: &str,
    before: &Opened,
    after: &Opened,
    limit: usize,
) -> anyhow::Result<Json> {
    let (Some(old), Some(new)) = (before.table(app, table)?, after.table(app, table)?) else {
        return Ok(Json::Null);
    };
    let change = TableChange::between(&old, &new);
    if change.is_empty() {
        return Ok(Json::Null);
    }
    let row = |row: &Vec<Value>| Json::Array(row.iter().map(value_json).collect());
    let rows = |rows: &[Vec<Value>]| rows.iter().take(limit).map(row).collect::<Vec<Json>>();
    let changed = change.changed.iter().take(limit);
    let changed = changed.map(|(old, new)| json!({ "before": row(old), "after": row(new) }));
    Ok(json!({
        "added": change.added.len(),
        "removed": change.removed.len(),
        "changed": change.changed.len(),
        "added_rows": rows(&change.added),
        "removed_rows": rows(&change.removed),
        "changed_rows": changed.collect::<Vec<Json>>(),
    }))
}

fn app_text(app: &Json) -> String {
    let name = cell(&app["app"]);
    match app["only"].as_str() {
        Some("before") => return format!("app {name}: only the first has state of it\n"),
        Some(_) => return format!("app {name}: only the second has state of it\n"),
        None => {}
    }
    let mut text = format!("app {name}, epoch {} to {}", app["before"], app["after"]);
    if app["same"] == true {
        return text + ": the same\n";
    }
    text += "\n";
    for source in array(&app["sources"]) {
        let (before, after) = (
            position_words(&source["before"]),
            position_words(&source["after"]),
        );
        text += &format!(
            "  source {}\n    before: {before}\n    after:  {after}\n",
            cell(&source["source"])
        );
    }
    array(&app["elements"])
        .iter()
        .for_each(|e| text += &element_text(e));
    text
}

fn element_text(element: &Json) -> String {
    let form = |json: &Json| match json.is_null() {
        true => "nothing".to_owned(),
        false => {
            let rows = json["rows"].as_u64();
            let rows = rows.map_or_else(String::new, |rows| count(rows, "row") + ", ");
            format!("{rows}{}", size(json["bytes"].as_u64().unwrap_or(0)))
        }
    };
    let mut text = format!(
        "  {}: {} to {}\n",
        cell(&element["element"]),
        form(&element["before"]),
        form(&element["after"])
    );
    let rows = &element["rows"];
    if rows.is_null() {
        return text;
    }
    let line = |row: &Json| array(row).iter().map(cell).collect::<Vec<_>>().join(", ");
    for (what, sign) in [("removed", '-'), ("added", '+')] {
        let shown = array(&rows[format!("{what}_rows")]);
        shown
            .iter()
            .for_each(|row| text += &format!("    {sign} {}\n", line(row)));
        text += &more(&rows[what], shown.len(), what);
    }
    let shown = array(&rows["changed_rows"]);
    for row in shown {
        text += &format!(
            "    ~ {} -> {}\n",
            line(&row["before"]),
            line(&row["after"])
        );
    }
    text + &more(&rows["changed"], shown.len(), "changed")
}

/// How many rows are not shown.
fn more(all: &Json, shown: usize, what: &str) -> String {
    let left = all.as_u64().unwrap_or(0).saturating_sub(shown as u64);
    match left {
        0 => String::new(),
        _ => format!(
            "    and {} {what} (--limit shows more)\n",
            count(left, "row")
        ),
    }
}
