//! The table of what is generated: read from `grammar.txt`, without what does not run yet.

use super::maker::SCRIPT;
use anyhow::Context as _;
use testkit::case::{Body, Case};
use testkit::drive;
use testkit::mode::Mode;
use testkit::outcome::Status;

/// One line of the table.
#[derive(Clone, Debug)]
pub struct Row {
    pub kind: &'static str,
    pub weight: u32,
    /// What tells it from other rows of its kind: the template, or its name.
    pub name: &'static str,
    /// Result type of a function or aggregator, flags of a window.
    pub note: &'static str,
    /// Each tenth case is made to show such rows.
    pub is_rare: bool,
    /// Siddhi has it not where it can be asked.
    pub is_alone: bool,
    /// Only where it is asked for.
    pub is_wide: bool,
}

pub struct Grammar {
    pub rows: Vec<Row>,
    /// With the rows that are marked as wide.
    pub is_wide: bool,
}

/// Small apps that show whether a feature of the language runs. A query behind `|` is an on-demand
/// query.
const PROBES: &[(&str, &str, &str)] = &[
    (
        "input",
        "pattern",
        "from e1=S -> e2=S select e1.n as n insert into O;",
    ),
    (
        "input",
        "sequence",
        "from e1=S, e2=S select e1.n as n insert into O;",
    ),
    (
        "side",
        "named-window",
        "define window W (n int) length(2); from S join W select S.n as n insert into O;",
    ),
    (
        "side",
        "aggregation",
        "define aggregation A from S select sum(n) as s aggregate every sec; from S join A within 0L, 9L per 'seconds' select A.s as n insert into O;",
    ),
    (
        "target",
        "named-window",
        "define window W (n int) length(2); from S select n insert into W;",
    ),
    (
        "define",
        "named-window",
        "define window W (n int) length(2); from S select n insert into W;",
    ),
    (
        "define",
        "trigger",
        "define trigger T at every 1 sec; from T select triggered_time insert into O;",
    ),
    (
        "define",
        "aggregation",
        "define aggregation A from S select sum(n) as s aggregate every sec;",
    ),
    (
        "step",
        "query",
        "define table T (n int); from S select n insert into T; | from T select n",
    ),
    (
        "partition",
        "purge",
        "@purge(enable='true', interval='1 sec', idle.period='1 sec') partition with (k of S) begin from S select n insert into O; end;",
    ),
];

/// What a row occurs in: kind and name (`*`: every), then kind and name of the other.
const NEEDS: &[(&str, &str, &str, &str)] = &[
    ("side", "*", "input", "join"),
    ("side", "table", "define", "table"),
    ("side", "named-window", "define", "named-window"),
    ("side", "aggregation", "define", "aggregation"),
    ("join", "*", "input", "join"),
    ("unidirectional", "*", "input", "join"),
    ("target", "insert-table", "define", "table"),
    ("target", "update", "define", "table"),
    ("target", "update-or-insert", "define", "table"),
    ("target", "delete", "define", "table"),
    ("target", "named-window", "define", "named-window"),
    ("key", "*", "define", "table"),
    ("trigger", "*", "define", "trigger"),
    ("window-output", "*", "define", "named-window"),
    ("partition", "*", "element", "partition"),
    ("demand", "*", "define", "table"),
    ("demand", "*", "step", "query"),
    ("every", "*", "define", "aggregation"),
    ("aggregate", "*", "define", "aggregation"),
    ("time-of", "*", "define", "aggregation"),
    ("kept", "*", "define", "aggregation"),
    ("within", "*", "define", "aggregation"),
    ("within", "*", "step", "query"),
    ("per", "*", "define", "aggregation"),
    ("per", "*", "step", "query"),
    ("per", "days", "every", "day ... year"),
    ("per", "months", "every", "day ... year"),
    ("per", "years", "every", "sec ... year"),
    ("window", "*", "single", "window"),
    ("processor", "*", "single", "processor"),
    ("pattern", "*", "input", "pattern"),
    ("count", "*", "input", "pattern"),
    ("count", "*", "pattern", "count"),
    ("reference", "*", "input", "pattern"),
    ("reference", "*", "pattern", "count"),
    ("sequence-element", "*", "input", "sequence"),
];

impl Grammar {
    /// The table, with what is wide or without; `more` makes rows with that in their name twenty times as frequent.
    ///
    /// # Errors
    /// If a row is not well made, or the engine does not run what it stands for: a row that is
    /// left out without a word would show nothing for ever.
    pub fn load(more: Option<&str>, is_wide: bool) -> anyhow::Result<Grammar> {
        let mut grammar = Grammar {
            rows: Vec::new(),
            is_wide,
        };
        for line in include_str!("grammar.txt").lines() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let row = row(line).with_context(|| format!("grammar.txt: {line}"))?;
            if row.is_wide && !is_wide {
                continue;
            }
            if let Some(Err(why)) = row.probe().map(|app| runs(&app)) {
                anyhow::bail!("grammar.txt: {line}: {why}");
            }
            grammar.rows.push(row);
        }
        if let Some(more) = more {
            let mut found = false;
            for row in grammar
                .rows
                .iter_mut()
                .filter(|r| format!("{} {}", r.kind, r.name).contains(more))
            {
                row.weight *= 20;
                found = true;
            }
            anyhow::ensure!(
                found,
                "nothing that runs is called '{more}'; see grammar.txt"
            );
        }
        Ok(grammar)
    }

    pub fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(move |row| row.kind == kind)
    }

    /// Rows that have to be frequent for this one to occur.
    pub fn needs(&self, row: &Row) -> Vec<&Row> {
        let is = |of: &&str, name: &str| *of == "*" || *of == name;
        NEEDS
            .iter()
            .filter(|(kind, name, ..)| *kind == row.kind && is(name, row.name))
            .flat_map(|(_, _, kind, name)| self.of(kind).filter(move |r| r.name == *name))
            .collect()
    }
}

impl Row {
    /// As what it stands in the table of what occurred: every function that a template calls.
    pub fn labels(&self) -> Vec<String> {
        match self.kind {
            "processor" | "function" | "aggregator" => {
                let mut names: Vec<&str> = self
                    .name
                    .match_indices('(')
                    .map(|(at, _)| {
                        let before = &self.name[..at];
                        let is_name = |c: char| c.is_ascii_alphanumeric() || c == ':';
                        &before[before.trim_end_matches(is_name).len()..]
                    })
                    .filter(|name| name.len() > 1)
                    .collect();
                names.sort_unstable();
                names.dedup();
                names
                    .into_iter()
                    .map(|name| format!("{} {name}", self.kind))
                    .collect()
            }
            _ => vec![format!("{} {}", self.kind, self.name)],
        }
    }

    /// An app that shows whether it runs, where that has to be asked.
    fn probe(&self) -> Option<String> {
        let plain = plain(self.name);
        let (definitions, query) = match self.kind {
            "window" => ("", format!("from S#window.{plain} select n insert into O;")),
            "processor" => {
                let call = plain
                    .rsplit_once(')')
                    .map_or(plain.as_str(), |(call, _)| call);
                ("", format!("from S#{call}) select n insert into O;"))
            }
            "function" | "aggregator" => (
                "",
                format!("from S#window.length(2) select {plain} as o insert into O;"),
            ),
            "rate" => ("", format!("from S select n output {plain} insert into O;")),
            _ => {
                let (.., app) = PROBES
                    .iter()
                    .find(|(kind, name, _)| (*kind, *name) == (self.kind, self.name))?;
                ("", (*app).to_owned())
            }
        };
        let script = match self.name.contains("twice(") {
            true => SCRIPT,
            false => "",
        };
        Some(format!(
            "{script}define stream S (k string, n int, l long, f float, v double, b bool, t long); {definitions}{query}"
        ))
    }
}

/// A template with attributes of [`Row::probe`]'s stream in its places.
fn plain(template: &str) -> String {
    let mut out = template.to_owned();
    for (place, text) in [
        ("{n}", "2"),
        ("{t}", "1 sec"),
        ("{ts}", "t"),
        ("{@time}", "k"),
        ("{flag}", "true"),
        ("{@long}", "l"),
        ("{@int}", "n"),
        ("{@num}", "n"),
        ("{num}", "n"),
        ("{any}", "k"),
        ("{@T}", "n"),
        ("{!T}", "1"),
        ("{T}", "n"),
        ("{@string}", "k"),
        ("{string}", "k"),
        ("{int}", "n"),
        ("{long}", "l"),
        ("{float}", "f"),
        ("{double}", "v"),
        ("{bool}", "b"),
    ] {
        out = out.replace(place, text);
    }
    out.replace("{{", "{").replace("}}", "}")
}

fn row(line: &'static str) -> anyhow::Result<Row> {
    let mut words = line.splitn(3, ' ');
    let (kind, weight) = (
        words.next().context("no kind")?,
        words.next().context("no weight")?,
    );
    let is_wide = weight.starts_with('w');
    let weight = weight.trim_start_matches('w');
    let is_rare = weight.starts_with('r');
    let weight = weight.trim_start_matches('r');
    let is_alone = weight.starts_with('a');
    let rest = words.next().context("no name")?;
    let (note, name) = match kind {
        "window" | "processor" | "aggregator" | "function" => {
            rest.split_once(' ').context("no template")?
        }
        _ => ("", rest),
    };
    Ok(Row {
        kind,
        weight: weight.trim_start_matches('a').parse()?,
        name,
        note,
        is_rare,
        is_alone,
        is_wide,
    })
}

/// Whether the engine takes the app.
fn runs(app: &str) -> Result<(), String> {
    let (app, query) = app
        .split_once(" | ")
        .map_or((app, None), |(app, query)| (app, Some(query)));
    let steps = query.map_or_else(Vec::new, |query| {
        vec![serde_json::json!({ "at": 1, "query": query })]
    });
    let json = serde_json::json!({ "id": "probe", "app": app, "start": 0, "steps": steps,
        "observe": { "streams": [], "queries": [] }, "expected": {} });
    let case = Case::parse(&json.to_string()).map_err(|e| e.to_string())?;
    let Body::App(case) = &case.body else {
        return Err("no app".into());
    };
    match drive::run(case, &crate::catalog(), Mode::One, false, false) {
        Status::Done(_) => Ok(()),
        Status::NotThereYet(what) => Err(format!("{what}: does not run yet")),
        Status::Refused(faults) => Err(faults.join("; ")),
        other => Err(format!("{other:?}")),
    }
}
