//! How the answers of a gateway are printed.

use serde_json::Value as Json;

use super::super::reply::{array, cell};

/// Titles, and the names of what is below them.
pub(super) type Columns = &'static [(&'static str, &'static str)];

pub(super) const APIS: Columns = &[
    ("API", "name"),
    ("version", "version"),
    ("paths", "paths"),
    ("plans", "plans"),
];

pub(super) const APPS: Columns = &[
    ("application", "name"),
    ("owner", "owner"),
    ("client", "client"),
    ("scopes", "scopes"),
];

pub(super) const PLANS: Columns = &[("plan", "name"), ("limits", "limits")];

pub(super) const SUBSCRIPTIONS: Columns = &[
    ("application", "application"),
    ("API", "api"),
    ("plan", "plan"),
];

pub(super) const KEYS: Columns = &[
    ("id", "id"),
    ("application", "application"),
    ("scopes", "scopes"),
    ("expires", "expires"),
    ("addresses", "addresses"),
];

pub(super) const QUOTA: Columns = &[
    ("level", "level"),
    ("of", "of"),
    ("what", "what"),
    ("window", "window"),
    ("used", "used"),
    ("reset", "reset"),
];

pub(super) const CONNECTIONS: Columns = &[
    ("id", "id"),
    ("API", "api"),
    ("topic", "topic"),
    ("protocol", "protocol"),
    ("peer", "peer"),
    ("application", "application"),
    ("user", "user"),
];

pub(super) const CALLBACKS: Columns = &[
    ("id", "id"),
    ("API", "api"),
    ("topic", "topic"),
    ("callback", "callback"),
    ("next", "next"),
    ("head", "head"),
    ("attempts", "attempts"),
];

pub(super) const DELIVERIES: Columns = &[
    ("id", "id"),
    ("subscription", "subscription"),
    ("event", "number"),
    ("attempt", "attempt"),
    ("outcome", "outcome"),
    ("status", "status"),
    ("cause", "cause"),
];

/// How an answer is printed.
#[derive(Clone, Copy)]
pub(super) enum Shown {
    /// Its items, one a line.
    Table(Columns),
    Text(fn(&Json) -> String),
}

impl Shown {
    pub fn of(self, json: &Json) -> String {
        match self {
            Shown::Table(columns) => table(json, columns),
            Shown::Text(text) => text(json),
        }
    }
}

/// A document as it is, without what a terminal would obey.
pub(super) fn document(json: &Json) -> String {
    let text = json["document"].as_str().unwrap_or_default();
    text.chars()
        .filter(|c| *c == '\n' || !c.is_control())
        .collect()
}

/// The client of an application.
pub(super) fn client(json: &Json) -> String {
    format!(
        "client {}\nsecret {}\n",
        cell(&json["client"]),
        cell(&json["secret"])
    )
}

/// Columns with their titles, as wide as what is in them.
fn table(json: &Json, columns: Columns) -> String {
    let items = array(&json["items"]);
    let titles = columns
        .iter()
        .map(|(title, _)| (*title).to_owned())
        .collect();
    let mut rows: Vec<Vec<String>> = vec![titles];
    rows.extend(
        items
            .iter()
            .map(|item| columns.iter().map(|(_, name)| text(&item[*name])).collect()),
    );
    let width = |at: usize| {
        rows.iter()
            .map(|row: &Vec<String>| row[at].chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..columns.len())
        .map(|at| width(at).unwrap_or_default())
        .collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line += &format!("{cell:<width$}  ");
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn text(json: &Json) -> String {
    match json {
        Json::Null => "-".to_owned(),
        Json::Array(list) if list.is_empty() => "-".to_owned(),
        Json::Array(list) => list.iter().map(cell).collect::<Vec<_>>().join(" "),
        other => cell(other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_is_as_wide_as_what_is_in_it() {
        let json =
            json!({ "items": [{ "a": "x", "b": ["p", "q"] }, { "a": "long\u{7}er", "b": null }] });
        let text = Shown::Table(&[("A", "a"), ("B", "b")]).of(&json);
        assert_eq!(text, "A        B\nx        p q\nlong er  -\n");
    }
}
