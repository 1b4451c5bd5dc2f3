//! The table of what is generated: read from `grammar.txt`, without what does not run yet.

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
}

pub struct Grammar {
    pub rows: Vec<Row>,
    /// Rows left out, each with what the check says.
    pub pending: Vec<(String, String)>,
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
        "define table T (n int); from S insert into T; | from T select n",
    ),
    (
        "partition",
        "purge",
        "@purge(enable='true', interval='1 sec', idle.period='1 sec') partition with (k of S) begin from S select n insert into O; end;",
    ),
];

impl Grammar {
    /// The table; `all` keeps what does not run yet, `more` makes rows with that in their name
    /// twenty times as frequent.
    pub fn load(all: bool, more: Option<&str>) -> anyhow::Result<Grammar> {
        let mut grammar = Grammar {
            rows: Vec::new(),
            pending: Vec::new(),
        };
        for line in include_str!("grammar.txt").lines() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let row = row(line).with_context(|| format!("grammar.txt: {line}"))?;
            match row.probe().map(|app| runs(&app)) {
                Some(Err(why)) if !all => grammar.pending.push((row.label(), why)),
                _ => grammar.rows.push(row),
            }
        }
        if let Some(more) = more {
            let mut found = false;
            for row in grammar.rows.iter_mut().filter(|r| r.label().contains(more)) {
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
}

impl Row {
    /// As it stands in the table of what occurred.
    pub fn label(&self) -> String {
        let name = match self.kind {
            "window" | "function" | "aggregator" => self
                .name
                .split_once('(')
                .map_or(self.name, |(name, _)| name),
            _ => self.name,
        };
        format!("{} {name}", self.kind)
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
        Some(format!(
            "define stream S (k string, n int, l long, f float, x double, b bool, t long); {definitions}{query}"
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
        ("{flag}", "true"),
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
        ("{double}", "x"),
        ("{bool}", "b"),
    ] {
        out = out.replace(place, text);
    }
    out
}

fn row(line: &'static str) -> anyhow::Result<Row> {
    let mut words = line.splitn(3, ' ');
    let (kind, weight) = (
        words.next().context("no kind")?,
        words.next().context("no weight")?,
    );
    let rest = words.next().context("no name")?;
    let (note, name) = match kind {
        "window" | "processor" | "aggregator" | "function" => {
            rest.split_once(' ').context("no template")?
        }
        _ => ("", rest),
    };
    Ok(Row {
        kind,
        weight: weight.parse()?,
        name,
        note,
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
    match drive::run(case, Mode::One, false, false) {
        Status::Done(_) => Ok(()),
        Status::NotThereYet(what) => Err(format!("{what}: does not run yet")),
        Status::Refused(faults) => Err(faults.join("; ")),
        other => Err(format!("{other:?}")),
    }
}
