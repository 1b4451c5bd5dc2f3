//! What came of it, for people.

use serde_json::Value as Json;

use crate::command::reply::{array, cell};
use crate::progress::thousands;

/// `812 B`, `1.5 KB`, `20.0 MB`.
pub(super) fn size(bytes: u64) -> String {
    let units = [(1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} B"),
    }
}

fn number(json: &Json) -> u64 {
    json.as_u64().unwrap_or_default()
}

/// `1 file`, `2,000 files`.
fn count(number: u64, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{} {what}s", thousands(number)),
    }
}

fn or_dash(json: &Json) -> String {
    match json.is_null() {
        true => "-".to_owned(),
        false => cell(json),
    }
}

/// Rows under the names of the columns, as wide as they have to be.
fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut all = vec![
        head.iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>(),
    ];
    all.extend(rows);
    let widths: Vec<usize> = (0..head.len())
        .map(|column| {
            all.iter()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for row in &all {
        let cells = row.iter().zip(&widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text
}

pub(super) fn tables(json: &Json) -> String {
    let rows = array(&json["tables"]).iter().map(|one| {
        vec![
            cell(&one["table"]),
            thousands(number(&one["rows"])),
            thousands(number(&one["rowsOfLog"])),
            thousands(number(&one["files"])),
            size(number(&one["bytes"])),
            or_dash(&one["first"]),
            or_dash(&one["last"]),
            cell(&one["version"]),
        ]
    });
    table(
        &[
            "TABLE", "ROWS", "IN LOG", "FILES", "SIZE", "FIRST", "LAST", "VERSION",
        ],
        rows,
    )
}

pub(super) fn versions(json: &Json) -> String {
    let rows = array(&json["versions"]).iter().map(|one| {
        vec![
            cell(&one["version"]),
            or_dash(&one["time"]),
            cell(&one["operation"]),
            cell(&one["added"]),
            cell(&one["removed"]),
            cell(&one["engine"]),
        ]
    });
    table(
        &["VERSION", "TIME", "OPERATION", "ADDED", "REMOVED", "BY"],
        rows,
    )
}

pub(super) fn purged(json: &Json) -> String {
    let verb = match json["dryRun"] == true {
        true => "would go",
        false => "gone",
    };
    let mut text = String::new();
    for one in array(&json["tables"]) {
        text += &format!(
            "{}: {} {verb} ({} as a whole, {} written anew, {})",
            cell(&one["table"]),
            count(number(&one["rows"]), "row"),
            count(number(&one["files"]), "file"),
            number(&one["rewritten"]),
            size(number(&one["bytes"]))
        );
        match (number(&one["inMemory"]), json["dryRun"] == true) {
            (0, _) => {}
            (rows, true) => text += &format!(", and {} that are not in files yet", thousands(rows)),
            (rows, false) => {
                text += &format!(
                    "; {} rows of a write that is not committed go with the next purge",
                    thousands(rows)
                );
            }
        }
        text.push('\n');
    }
    text + &format!(
        "rows before {}: {} {verb}\n",
        cell(&json["before"]),
        thousands(number(&json["rows"]))
    )
}

pub(super) fn vacuumed(json: &Json) -> String {
    let kept: u64 = array(&json["tables"])
        .iter()
        .map(|one| number(&one["kept"]))
        .sum();
    let verb = match json["dryRun"] == true {
        true => "would be removed",
        false => "removed",
    };
    let mut text = format!(
        "{} {verb}, {}",
        count(number(&json["files"]), "file"),
        size(number(&json["bytes"]))
    );
    if kept > 0 {
        text += &format!("; {} stay for those who read them", count(kept, "file"));
    }
    text + "\n"
}

pub(super) fn indexed(json: &Json) -> String {
    let lines = array(&json["tables"]).iter();
    lines
        .map(|one| {
            format!(
                "{}: {} rows indexed\n",
                cell(&one["table"]),
                thousands(number(&one["rows"]))
            )
        })
        .collect()
}

pub(super) fn verified(json: &Json) -> String {
    let mut text = String::new();
    for one in array(&json["damage"]) {
        text += &format!(
            "damaged: {}: {}\n",
            cell(&one["path"]),
            cell(&one["message"])
        );
        if !one["rows"].is_null() {
            text += &format!(
                "  {} rows of table '{}', _id {} to {}, from {} to {}\n",
                thousands(number(&one["rows"])),
                cell(&one["table"]),
                or_dash(&one["firstId"]),
                or_dash(&one["lastId"]),
                or_dash(&one["first"]),
                or_dash(&one["last"])
            );
        }
    }
    let verdict = match array(&json["damage"]).len() {
        0 => "sound".to_owned(),
        1 => "1 place is damaged".to_owned(),
        count => format!("{count} places are damaged"),
    };
    text + &format!(
        "{verdict}: {}, {} with {} read, {} in files, {} in the log\n",
        count(number(&json["tables"]), "table"),
        count(number(&json["files"]), "file"),
        count(number(&json["rows"]), "row"),
        size(number(&json["bytes"])),
        size(number(&json["logBytes"]))
    )
}

pub(super) fn copied(json: &Json) -> String {
    let lines = array(&json["tables"]).iter();
    lines
        .map(|one| {
            format!(
                "{}: version {}, {} in {}, {}\n",
                cell(&one["table"]),
                cell(&one["version"]),
                count(number(&one["rows"]), "row"),
                count(number(&one["files"]), "file"),
                size(number(&one["bytes"]))
            )
        })
        .collect()
}
