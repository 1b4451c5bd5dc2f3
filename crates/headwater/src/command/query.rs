//! `headwater query`: an on-demand query to a running server.

use serde_json::Value as Json;

use super::reply::{array, cell, print_reply};
use crate::cli::QueryArgs;
use crate::output::Output;

pub fn run(args: &QueryArgs, output: &Output) -> anyhow::Result<u8> {
    let reply = args
        .server
        .client()?
        .query(args.app.as_deref(), &args.query)?;
    print_reply(reply, args.json, answer_text, output)
}

/// Columns under their names, or what a write did.
pub(super) fn answer_text(json: &Json) -> String {
    let names: Vec<String> = array(&json["details"])
        .iter()
        .map(|d| d["name"].as_str().unwrap_or("").to_owned())
        .collect();
    if names.is_empty() {
        let count = |what: &str| json["written"][what].as_u64().unwrap_or(0);
        let (inserted, updated) = (count("inserted"), count("updated"));
        let deleted = count("deleted");
        return format!("{inserted} inserted, {updated} updated, {deleted} deleted\n");
    }
    let rows: Vec<Vec<String>> = array(&json["records"])
        .iter()
        .map(|row| array(row).iter().map(cell).collect())
        .collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let widths = cells.map(|cell| cell.chars().count());
        widths.chain([names[column].chars().count()]).max()
    };
    let widths: Vec<usize> = (0..names.len()).map(|c| width(c).unwrap_or(0)).collect();
    let line = |cells: &[String]| {
        let padded = cells
            .iter()
            .zip(&widths)
            .map(|(cell, &w)| format!("{cell:w$}"));
        let line = padded.collect::<Vec<_>>().join("  ");
        format!("{}\n", line.trim_end())
    };
    let rule: Vec<String> = widths.iter().map(|&w| "-".repeat(w)).collect();
    let mut text = line(&names) + &line(&rule);
    rows.iter().for_each(|row| text.push_str(&line(row)));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_answer_stands_in_columns() {
        let check = |json: Json, text: &str| assert_eq!(answer_text(&json), text);
        check(
            json!({
                "records": [["a", 1.5], ["long name", null]],
                "details": [{ "name": "k" }, { "name": "price" }],
            }),
            "k          price\n---------  -----\na          1.5\nlong name  null\n",
        );
        check(
            json!({ "records": [], "details": [], "written": { "deleted": 2 } }),
            "0 inserted, 0 updated, 2 deleted\n",
        );
    }
}
