//! What a running server has answered, printed.

use serde_json::{Value as Json, json};
use server::client::Reply;

use crate::output::Output;

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

pub(super) fn array(json: &Json) -> &[Json] {
    json.as_array().map_or(&[], Vec::as_slice)
}

/// Rows as lines of text, with the cells of each column below each other.
pub(super) fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let widths: [usize; N] = std::array::from_fn(|column| {
        let lengths = rows.iter().map(|row| row[column].chars().count());
        lengths.max().unwrap_or(0)
    });
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text
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
