//! One generated case: definitions, queries and partitions, then the steps.
//!
//! Whatever is made is read from [`Grammar`]; names tell types (`n` is always an int), so that
//! rows fit into every stream, table and window whose columns have those names. A query writes
//! only to what is defined behind all that it reads, so that no loop is endless; the one loop
//! that is made on purpose ends by its filter.

use std::collections::{BTreeMap, BTreeSet};

use event::Type;
use serde_json::{Value as Json, json};

use super::choices::{Choices, Recording};
use super::expression::Column;
use super::grammar::{Grammar, Row};

/// Attributes that streams, tables and windows are made of.
const ATTRIBUTES: [(&str, Type); 7] = [
    ("k", Type::String),
    ("n", Type::Int),
    ("x", Type::Double),
    ("t", Type::Long),
    ("l", Type::Long),
    ("f", Type::Float),
    ("b", Type::Bool),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Stream,
    Trigger,
    Fault,
    Inner,
    Table,
    Window,
    Aggregation,
}

/// Something that queries read or write.
#[derive(Clone, Debug)]
pub struct Source {
    pub name: String,
    pub kind: Kind,
    pub columns: Vec<(String, Type)>,
    /// A query writes only to sources of a higher level than all it reads.
    pub level: usize,
    /// Its rows are found in the order of a hash map.
    pub hash: bool,
    /// Events are sent to it.
    pub is_input: bool,
}

/// A case and what is known about it.
#[derive(Clone, Debug)]
pub struct Made {
    pub case: Json,
    pub recording: Recording,
    /// How often each row of the grammar was used.
    pub used: BTreeMap<String, usize>,
    /// Two features share state.
    pub shares: bool,
    /// Some rows come in an order that nothing promises.
    pub hash: bool,
    /// Streams that the test and triggers feed.
    pub fed: Vec<String>,
}

pub struct Maker<'g> {
    pub grammar: &'g Grammar,
    pub choices: Choices,
    pub sources: Vec<Source>,
    used: BTreeMap<String, usize>,
    pub definitions: String,
    pub body: String,
    pub queries: Vec<String>,
    /// Siddhi calls back no queries of partitions.
    watched: Vec<String>,
    pub hash: bool,
    /// No `in` may be made here.
    pub no_tables: bool,
    pub playback: bool,
    /// Streams of the partition that is being made.
    pub partitioned: Option<Vec<String>>,
    /// Elements and stateful features that each query touches.
    touched: Vec<BTreeSet<String>>,
    stateful: Vec<usize>,
}

/// The case of a recording or a seed.
pub fn make(grammar: &Grammar, choices: Choices) -> Made {
    let maker = Maker {
        grammar,
        choices,
        sources: Vec::new(),
        used: BTreeMap::new(),
        definitions: String::new(),
        body: String::new(),
        queries: Vec::new(),
        watched: Vec::new(),
        hash: false,
        no_tables: false,
        playback: false,
        partitioned: None,
        touched: Vec::new(),
        stateful: Vec::new(),
    };
    maker.case()
}

impl<'g> Maker<'g> {
    fn case(mut self) -> Made {
        self.playback = self.option("playback");
        self.several(&[70, 30, 10], Maker::input_stream);
        self.several(&[70, 20, 8], Maker::definition);
        self.several(&[85, 60, 45, 25], Maker::element);
        if self.queries.is_empty() {
            self.element();
        }
        let start = *self
            .choices
            .pick(&[0, 1_600_000_000_500, 1_000_000_000_123]);
        let steps = self.steps(start);
        let streams: Vec<&str> = self
            .sources
            .iter()
            .filter(|s| matches!(s.kind, Kind::Stream | Kind::Trigger))
            .map(|s| s.name.as_str())
            .collect();
        let playback = if self.playback { "@app:playback " } else { "" };
        let app = format!("{playback}{}{}", self.definitions, self.body);
        let shares = self.shares();
        let is_fed = |s: &&Source| s.is_input || s.kind == Kind::Trigger;
        let fed = self
            .sources
            .iter()
            .filter(is_fed)
            .map(|s| s.name.clone())
            .collect();
        let case = json!({ "id": "", "app": app, "start": start, "steps": steps,
            "observe": { "streams": streams, "queries": self.watched } });
        Made {
            case,
            recording: self.choices.finish(),
            used: self.used,
            shares,
            hash: self.hash,
            fed,
        }
    }

    /// One element, and further ones with these chances.
    fn several(&mut self, chances: &[usize], mut make: impl FnMut(&mut Self)) {
        for (index, percent) in chances.iter().enumerate() {
            let start = self.choices.open();
            let wanted = self.choices.chance(*percent);
            // The first input stream and the first query are always there.
            if wanted || (index == 0 && self.sources.is_empty()) {
                make(self);
                self.choices.close(start);
            } else if index > 0 {
                return;
            }
        }
    }

    pub fn count(&mut self, row: &Row) {
        *self.used.entry(row.label()).or_default() += 1;
    }

    pub fn used(&mut self, kind: &str, name: &str) {
        *self.used.entry(format!("{kind} {name}")).or_default() += 1;
    }

    /// Chooses a row of a kind, if one runs.
    pub fn choose(&mut self, kind: &'static str) -> Option<&'g Row> {
        let grammar = self.grammar;
        let rows: Vec<&Row> = grammar.of(kind).collect();
        let weights: Vec<u32> = rows.iter().map(|row| row.weight).collect();
        if rows.is_empty() {
            return None;
        }
        let row = rows[self.choices.weighted(&weights)];
        self.count(row);
        Some(row)
    }

    /// Whether an option of the app is taken; its weight is a chance in percent.
    pub fn option(&mut self, name: &str) -> bool {
        let row = self.grammar.of("option").find(|row| row.name == name);
        match row {
            Some(row) if self.choices.chance((row.weight as usize).min(100)) => {
                self.count(row);
                true
            }
            _ => false,
        }
    }

    pub fn tables(&self) -> Vec<Source> {
        self.sources
            .iter()
            .filter(|s| s.kind == Kind::Table)
            .cloned()
            .collect()
    }

    /// The query being made reads or writes this.
    pub fn touch(&mut self, name: &str) {
        let is_input = self.sources.iter().any(|s| s.name == name && s.is_input);
        if let Some(touched) = self.touched.last_mut()
            && !is_input
        {
            touched.insert(name.to_owned());
        }
    }

    /// The query being made keeps state of its own.
    pub fn keeps_state(&mut self) {
        if let Some(count) = self.stateful.last_mut() {
            *count += 1;
        }
    }

    pub fn begin_query(&mut self) -> String {
        self.touched.push(BTreeSet::new());
        self.stateful.push(0);
        let name = format!("q{}", self.queries.len() + 1);
        self.queries.push(name.clone());
        if self.partitioned.is_none() {
            self.watched.push(name.clone());
        }
        name
    }

    /// Do two stateful features hang together by a stream, table, window, aggregation or query?
    fn shares(&self) -> bool {
        let mut group: Vec<usize> = (0..self.touched.len()).collect();
        for i in 0..group.len() {
            for j in 0..i {
                if !self.touched[i].is_disjoint(&self.touched[j]) {
                    let (from, to) = (group[i], group[j]);
                    group
                        .iter_mut()
                        .filter(|g| **g == from)
                        .for_each(|g| *g = to);
                }
            }
        }
        let is_state = |name: &str| {
            self.sources.iter().any(|s| {
                s.name == name && matches!(s.kind, Kind::Table | Kind::Window | Kind::Aggregation)
            })
        };
        (0..group.len()).any(|root| {
            let members = || (0..group.len()).filter(|i| group[*i] == root);
            let state: BTreeSet<&String> = members()
                .flat_map(|i| &self.touched[i])
                .filter(|name| is_state(name))
                .collect();
            members().map(|i| self.stateful[i]).sum::<usize>() + state.len() >= 2
        })
    }

    // ---- definitions ----

    /// Columns of something new: `k` and `n`, and others by chance.
    fn columns(&mut self) -> Vec<(String, Type)> {
        let mut columns = Vec::new();
        for (index, (name, ty)) in ATTRIBUTES.iter().enumerate() {
            let start = self.choices.open();
            if self.choices.chance(if index < 2 { 90 } else { 30 }) {
                columns.push(((*name).to_owned(), *ty));
            }
            self.choices.close(start);
        }
        if columns.is_empty() {
            columns.push(("n".to_owned(), Type::Int));
        }
        columns
    }

    pub fn define(
        &mut self,
        name: String,
        kind: Kind,
        columns: Vec<(String, Type)>,
    ) -> &mut Source {
        let level = self.sources.len();
        let is_input = false;
        self.sources.push(Source {
            name,
            kind,
            columns,
            level,
            hash: false,
            is_input,
        });
        self.sources.last_mut().expect("it was pushed just now")
    }

    fn input_stream(&mut self) {
        let name = format!("S{}", self.sources.len());
        let columns = self.columns();
        let faulty = self.option("fault-stream");
        if faulty {
            self.definitions.push_str("@OnError(action='STREAM') ");
        }
        if self.option("async") {
            self.definitions.push_str("@async(buffer.size='64') ");
        }
        self.definitions
            .push_str(&format!("define stream {name} ({});\n", written(&columns)));
        self.define(name.clone(), Kind::Stream, columns.clone())
            .is_input = true;
        if faulty {
            self.define(format!("!{name}"), Kind::Fault, columns);
        }
    }

    fn definition(&mut self) {
        let Some(row) = self.choose("define") else {
            return;
        };
        match row.name {
            "table" => self.table(),
            "named-window" => self.named_window(),
            "trigger" => self.trigger(),
            _ => self.aggregation(),
        }
    }

    fn table(&mut self) {
        let name = format!("T{}", self.sources.len());
        let columns = self.columns();
        let mut hash = false;
        if self.choices.chance(35) {
            self.used("define", "primary key");
            let count = 1 + self.choices.below(2).min(columns.len() - 1);
            let keys: Vec<String> = columns[..count]
                .iter()
                .map(|(name, _)| format!("'{name}'"))
                .collect();
            self.definitions
                .push_str(&format!("@PrimaryKey({}) ", keys.join(", ")));
            hash = true;
        }
        if self.choices.chance(25) {
            self.used("define", "index");
            let (key, _) = self.choices.pick(&columns).clone();
            self.definitions.push_str(&format!("@Index('{key}') "));
            hash = true;
        }
        self.definitions
            .push_str(&format!("define table {name} ({});\n", written(&columns)));
        self.define(name, Kind::Table, columns).hash = hash;
    }

    fn named_window(&mut self) {
        let name = format!("W{}", self.sources.len());
        let columns = self.columns();
        let scope = scope_of(&columns, "");
        let window = self
            .window(&scope, false)
            .unwrap_or_else(|| "length(2)".to_owned());
        let hash = self.grammar.rows.iter().any(|r| {
            r.kind == "window"
                && r.note == "hash"
                && window.starts_with(r.name.split('(').next().unwrap_or("-"))
        });
        let output = *self.choices.pick(&[
            "",
            " output all events",
            " output current events",
            " output expired events",
        ]);
        self.definitions.push_str(&format!(
            "define window {name} ({}) {window}{output};\n",
            written(&columns)
        ));
        self.define(name, Kind::Window, columns).hash = hash;
    }

    fn trigger(&mut self) {
        let name = format!("G{}", self.sources.len());
        let at = *self.choices.pick(&[
            "every 1 sec",
            "every 500 milliseconds",
            "'start'",
            "'*/2 * * * * ?'",
        ]);
        self.definitions
            .push_str(&format!("define trigger {name} at {at};\n"));
        self.define(
            name,
            Kind::Trigger,
            vec![("triggered_time".to_owned(), Type::Long)],
        );
    }

    /// A window call; `joined`: it is to be searched.
    pub fn window(&mut self, scope: &[Column], joined: bool) -> Option<String> {
        let grammar = self.grammar;
        let rows: Vec<&Row> = grammar
            .of("window")
            .filter(|r| !joined || r.note != "nojoin")
            .collect();
        let weights: Vec<u32> = rows.iter().map(|row| row.weight).collect();
        let row = rows[self.choices.weighted(&weights)];
        let text = self.fill(row.name, scope, None, 2)?;
        // In an expression window attributes stand without the name of their side.
        let text = if text.contains('\'') {
            text.replace("last.L.", "last.")
                .replace("first.L.", "first.")
        } else {
            text
        };
        self.count(row);
        self.hash |= row.note == "hash";
        Some(text)
    }

    fn aggregation(&mut self) {
        let streams: Vec<Source> = self
            .sources
            .iter()
            .filter(|s| s.is_input)
            .cloned()
            .collect();
        let stream = self.choices.pick(&streams).clone();
        let name = format!("A{}", self.sources.len());
        let scope = scope_of(&stream.columns, "");
        let mut items = Vec::new();
        let mut columns = vec![("AGG_TIMESTAMP".to_owned(), Type::Long)];
        let mut group = String::new();
        if let Some(key) = scope.iter().find(|c| c.ty == Type::String)
            && self.choices.chance(60)
        {
            items.push(key.text.clone());
            columns.push((key.name.clone(), key.ty));
            group = format!(" group by {}", key.text);
        }
        let number = scope
            .iter()
            .find(|c| c.ty == Type::Int || c.ty == Type::Double);
        let (aggregate, column, ty) = match (number, self.choices.below(6)) {
            (None, _) | (_, 0) => ("count()".to_owned(), "l", Type::Long),
            (Some(n), 1) if n.ty == Type::Int => (format!("sum({})", n.text), "l", Type::Long),
            (Some(n), 1) => (format!("sum({})", n.text), "x", Type::Double),
            (Some(n), 2) => (format!("avg({})", n.text), "x", Type::Double),
            (Some(n), 3) => (
                format!("min({})", n.text),
                if n.ty == Type::Int { "n" } else { "x" },
                n.ty,
            ),
            (Some(n), 4) => (
                format!("max({})", n.text),
                if n.ty == Type::Int { "n" } else { "x" },
                n.ty,
            ),
            (Some(n), _) => (format!("distinctCount({})", n.text), "l", Type::Long),
        };
        self.used(
            "aggregation",
            aggregate.split('(').next().unwrap_or_default(),
        );
        items.push(format!("{aggregate} as {column}"));
        columns.push((column.to_owned(), ty));
        let by = match scope.iter().find(|c| c.name == "t") {
            Some(_) if self.choices.chance(50) => " by t",
            _ => "",
        };
        let every = *self.choices.pick(&[
            "sec ... min",
            "sec",
            "sec, min",
            "min ... hour",
            "sec ... year",
        ]);
        self.definitions.push_str(&format!(
            "define aggregation {name} from {} select {}{group} aggregate{by} every {every};\n",
            stream.name,
            items.join(", ")
        ));
        self.define(name, Kind::Aggregation, columns).hash = true;
    }

    fn element(&mut self) {
        match self.choose("element").map(|row| row.name) {
            Some("partition") => self.partition(),
            _ => self.query(),
        }
    }

    // ---- steps ----

    fn steps(&mut self, start: i64) -> Vec<Json> {
        const JUMPS: [i64; 13] = [
            100, 0, 1, 50, 250, 500, 500, 1000, 1000, 1500, 2000, 5000, 60_000,
        ];
        let mut steps = Vec::new();
        let mut clock = start;
        let count = 2 + self.choices.below(14);
        for _ in 0..count {
            let open = self.choices.open();
            clock += *self.choices.pick(&JUMPS);
            let step = match self.choose("step").map_or("send", |row| row.name) {
                "advance" => json!({ "at": clock, "advance": true }),
                "query" => match self.on_demand() {
                    Some(query) => json!({ "at": clock, "query": query }),
                    None => json!({ "at": clock, "advance": true }),
                },
                "chunk" => {
                    let stream = self.input();
                    let rows = 2 + self.choices.below(3);
                    let events: Vec<Json> = (0..rows)
                        .map(|_| self.event(&stream, clock, true))
                        .collect();
                    json!({ "at": clock, "send": { "stream": stream.name, "events": events } })
                }
                _ => {
                    let stream = self.input();
                    let mut send = self.event(&stream, clock, self.playback);
                    send["stream"] = json!(stream.name);
                    json!({ "at": clock, "send": send })
                }
            };
            steps.push(step);
            self.choices.close(open);
        }
        let open = self.choices.open();
        if self.choices.chance(60) {
            steps.push(json!({ "at": clock + 5000, "advance": true }));
        }
        self.choices.close(open);
        steps
    }

    fn input(&mut self) -> Source {
        let inputs: Vec<Source> = self
            .sources
            .iter()
            .filter(|s| s.is_input)
            .cloned()
            .collect();
        self.choices.pick(&inputs).clone()
    }

    fn event(&mut self, stream: &Source, clock: i64, stamped: bool) -> Json {
        let data: Vec<Json> = stream
            .columns
            .iter()
            .map(|(name, ty)| self.value(name, *ty, clock))
            .collect();
        let own = self.choices.chance(8);
        if !stamped && !own {
            return json!({ "data": data });
        }
        let back = if own {
            *self.choices.pick(&[100, 500, 1000, 3000])
        } else {
            0
        };
        json!({ "ts": (clock - back).max(0), "data": data })
    }

    fn value(&mut self, name: &str, ty: Type, clock: i64) -> Json {
        if self.choices.chance(7) {
            return Json::Null;
        }
        match ty {
            Type::String | Type::Object => {
                json!(*self.choices.pick(&["A", "B", "C", "A", "B", "", "a b"]))
            }
            Type::Int => json!({ "i": *self.choices.pick(&[1, 2, 3, 0, -1, 7, 2_147_483_647]) }),
            Type::Long if name == "t" => {
                json!({ "l": (clock + *self.choices.pick(&[0, -100, 100, -1000, 700])).max(0) })
            }
            Type::Long => {
                json!({ "l": *self.choices.pick(&[10_i64, 20, 1, -5, 9_007_199_254_740_993]) })
            }
            Type::Float => json!({ "f": *self.choices.pick(&[1.5, 2.5, -0.5, 0.0, 100.25]) }),
            Type::Double => json!({ "d": *self.choices.pick(&[1.5, 2.5, 0.1, -3.25, 0.0, 1e10]) }),
            Type::Bool => json!(*self.choices.pick(&[true, false])),
        }
    }
}

pub fn written(columns: &[(String, Type)]) -> String {
    columns
        .iter()
        .map(|(name, ty)| format!("{name} {ty}"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// The columns as an expression sees them, `prefix` before each.
pub fn scope_of(columns: &[(String, Type)], prefix: &str) -> Vec<Column> {
    let column = |(name, ty): &(String, Type)| Column {
        text: format!("{prefix}{name}"),
        name: name.clone(),
        ty: *ty,
    };
    columns.iter().map(column).collect()
}
