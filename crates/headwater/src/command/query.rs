//! `headwater query`: an on-demand query to a running server.

use serde_json::{Value as Json, json};
use server::client::Reply;

use crate::cli::QueryArgs;
use crate::output::Output;

pub fn run(args: &QueryArgs, output: &Output) -> anyhow::Result<u8> {
    let reply = args
        .server
        .client()?
        .query(args.app.as_deref(), &args.query)?;
    print_reply(reply, args.json, answer_text, output)
}

/// Prints what a server said, as one JSON document or as text; the exit code.
pub(super) fn print_reply(
    reply: Reply,
    as_json: bool,
    text: impl FnOnce(&Json) -> String,
    output: &Output,
) -> anyhow::Result<u8> {
    let is_answer = reply.status == 200;
    if as_json {
        let mut json = json!({ "version": 1 });
        if let (Json::Object(to), Json::Object(from)) = (&mut json, reply.json) {
            to.extend(from);
        }
        output.print_json(&json)?;
        return Ok(u8::from(!is_answer));
    }
    if !is_answer {
        match reply.json["rendered"].as_str() {
            Some(text) => output.say(text),
            None => output.error(reply.json["message"].as_str().unwrap_or("no answer")),
        }
        return Ok(1);
    }
    output.print(&text(&reply.json))?;
    Ok(0)
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

pub(super) fn array(json: &Json) -> &[Json] {
    json.as_array().map_or(&[], Vec::as_slice)
}

/// Control characters of a text never reach the terminal.
pub(super) fn cell(json: &Json) -> String {
    match json {
        Json::String(text) => text
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
