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

/// How much more often a row occurs in the cases that are made to show it.
const FAVOUR: u32 = 40;

/// The same where the rows are rare.
const FAVOUR_RARE: u32 = 400;

/// Begins an app whose clock is that of its events.
pub const PLAYED: &str = "@app:playback ";

/// The same, and the clock goes on by itself where no event comes.
pub const IDLE: &str = "@app:playback(idle.time='500 milliseconds', increment='1 sec') ";

/// A function of the app's own.
pub const SCRIPT: &str =
    "define function twice[javascript] return int { var n = data[0]; return n + n; };\n";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Stream,
    Trigger,
    Fault,
    Inner,
    Table,
    Window,
    Aggregation,
    /// Ended with its partition.
    Gone,
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
    /// Durations of an aggregation.
    pub durations: Vec<&'static str>,
}

/// A case and what is known about it.
#[derive(Clone, Debug)]
pub struct Made {
    pub case: Json,
    /// The same with a fault stream for every stream, or for those alone that the app defines, and
    /// for every trigger: the errors that come to them show where a query of Siddhi failed, and on
    /// what.
    pub with_faults: [Json; 2],
    /// The same with constants in place of the functions and aggregators of extensions.
    pub steady: Json,
    pub recording: Recording,
    /// How often each row of the grammar was used.
    pub used: BTreeMap<String, usize>,
    /// Two features share state.
    pub shares: bool,
    /// Streams and queries whose rows come, within a chunk, in an order that nothing promises;
    /// `answers`: those of on-demand queries.
    pub any_order: BTreeSet<String>,
}

/// What a query reads and writes, for the order of its rows.
struct Flow {
    query: String,
    reads: Vec<String>,
    writes: Option<String>,
    hash: bool,
}

pub struct Maker<'g> {
    pub grammar: &'g Grammar,
    pub choices: Choices,
    /// Rows that this case is made to show.
    favoured: Vec<&'g Row>,
    /// The case is made to show rare rows.
    pub shows_rare: bool,
    /// Constants stand in place of the functions and aggregators of extensions.
    pub is_steady: bool,
    /// Extensions that Siddhi cannot be asked about may be used.
    is_alone: bool,
    pub sources: Vec<Source>,
    used: BTreeMap<String, usize>,
    pub definitions: String,
    pub body: String,
    pub queries: Vec<String>,
    /// In-memory topics that sinks write.
    pub topics: Vec<String>,
    /// Siddhi calls back no queries of partitions.
    watched: Vec<String>,
    flows: Vec<Flow>,
    pub answers_hash: bool,
    /// No `in` may be made here.
    pub no_tables: bool,
    /// `f(*)` can be asked for: the items of a query over one stream. Of several streams Siddhi
    /// refuses it where attributes have one name, and of `having` it looks for them in vain.
    pub all_attributes: bool,
    /// References that `is null` can be asked of.
    pub references: Vec<String>,
    pub playback: bool,
    /// Streams of the partition that is being made.
    pub partitioned: Option<Vec<String>>,
    /// The query has an aggregator that in Siddhi mixes the values of all groups: it has none.
    pub mixes_groups: bool,
    /// The query being made cuts its events into words.
    pub tokenizes: bool,
    /// No chunks of several events are sent.
    pub one_by_one: bool,
    /// Elements and stateful features that each query touches.
    touched: Vec<BTreeSet<String>>,
    stateful: Vec<usize>,
}

/// The case of a recording or a seed.
pub fn make(grammar: &Grammar, choices: Choices) -> Made {
    let mut made = maker(grammar, choices, false).case();
    let again = Choices::replaying(made.recording.choices.clone());
    made.steady = maker(grammar, again, true).case().case;
    made
}

fn maker(grammar: &Grammar, choices: Choices, is_steady: bool) -> Maker<'_> {
    Maker {
        grammar,
        choices,
        favoured: Vec::new(),
        shows_rare: false,
        is_steady,
        is_alone: false,
        sources: Vec::new(),
        used: BTreeMap::new(),
        definitions: String::new(),
        body: String::new(),
        queries: Vec::new(),
        topics: Vec::new(),
        watched: Vec::new(),
        flows: Vec::new(),
        answers_hash: false,
        no_tables: false,
        all_attributes: false,
        references: Vec::new(),
        playback: false,
        partitioned: None,
        mixes_groups: false,
        tokenizes: false,
        one_by_one: false,
        touched: Vec::new(),
        stateful: Vec::new(),
    }
}

impl<'g> Maker<'g> {
    fn case(mut self) -> Made {
        let shows_alone = self.favour();
        // A window is to be seen a hundred times, even if only our modes agree on it.
        let window = |row: &&Row| row.is_alone && row.kind == "window";
        self.is_alone = self.option("alone") || shows_alone || self.favoured.iter().any(window);
        self.playback = self.option("playback");
        let name = self.option("name");
        self.several((1, 3), 30, Maker::input_stream);
        self.several((0, 3), 55, Maker::definition);
        self.several((1, 5), 65, Maker::element);
        // The loop needs a stream with a number, and may find none.
        if self.queries.is_empty() {
            self.query();
        }
        let start = *self
            .choices
            .pick(&[0, 1_600_000_000_500, 1_000_000_000_123]);
        // The played clock begins at 0: what happens every second would first do so for years.
        let start = if self.playback { 0 } else { start };
        let steps = self.steps(start);
        let is_idle = self.playback && self.option("idle");
        let playback = match (self.playback, is_idle) {
            (true, true) => IDLE,
            (true, false) => PLAYED,
            (false, _) => "",
        };
        let mut name = if name { "@app:name('Made') " } else { "" }.to_owned();
        if self.option("described") {
            name.push_str("@app:description('what it is') @app:statistics('false') ");
        }
        if self.option("ordered") {
            name.push_str("@app:enforceOrder('true') ");
        }
        if self.is_alone {
            self.used("define", "function");
            self.definitions.push_str(SCRIPT);
        }
        let streams: Vec<&str> = self
            .sources
            .iter()
            .filter(|s| matches!(s.kind, Kind::Stream | Kind::Trigger))
            .map(|s| s.name.as_str())
            .collect();
        let case = json!({ "id": "", "start": start, "steps": steps,
            "observe": { "streams": streams, "queries": self.watched, "topics": self.topics } });
        let text = format!("{playback}{name}{}{}", self.definitions, self.body);
        let with_faults = [true, false].map(|all| self.with_faults(&text, &case, all));
        let app = self.rewritten(text);
        let mut made = Made {
            case,
            with_faults,
            steady: Json::Null,
            shares: self.shares(),
            any_order: self.any_order(),
            recording: self.choices.finish(),
            used: self.used,
        };
        made.case["app"] = json!(app);
        made
    }

    fn with_faults(&self, app: &str, case: &Json, all: bool) -> Json {
        const FAULTY: &str = "@OnError(action='STREAM') define stream";
        let mut app = app
            .replace("@OnError(action='LOG') define stream", "define stream")
            .replace(FAULTY, "define stream")
            .replace("define stream", FAULTY);
        let streams = self.sources.iter();
        let streams = streams.filter(|s| s.kind == Kind::Stream && (all || s.is_input));
        let mut implied = String::new();
        for stream in streams.clone().filter(|s| !s.is_input) {
            implied.push_str(&format!(
                "{FAULTY} {} ({});\n",
                stream.name,
                written(&stream.columns)
            ));
        }
        // A trigger has no fault stream; a stream that it feeds has, and is read in its place.
        let triggers = self.sources.iter().filter(|s| s.kind == Kind::Trigger);
        let mut first = String::new();
        for trigger in triggers.clone() {
            let name = &trigger.name;
            app = app.replace(
                &format!("define trigger {name} "),
                &format!("define trigger {name}Timer "),
            );
            implied.push_str(&format!("{FAULTY} {name} (triggered_time long);\n"));
            first.push_str(&format!("from {name}Timer insert into {name};\n"));
        }
        // What reads a fault stream may itself fail: the errors are taken out before it.
        let mut taken = Vec::new();
        for stream in streams.chain(triggers) {
            let errors = format!("Errors{}", stream.name);
            first.push_str(&format!(
                "from !{} select _error insert into {errors};\n",
                stream.name
            ));
            taken.push(errors);
        }
        let behind = app.len() - self.body.len();
        app.insert_str(behind, &format!("{implied}{first}"));
        let mut case = case.clone();
        case["observe"] = json!({ "streams": taken, "queries": [] });
        case["app"] = json!(app);
        case
    }

    /// Chooses rows, each as likely as the other, that are to occur in this case; in each tenth case
    /// among the rare ones.
    /// Whether a rare one that Siddhi has not is the first of them.
    fn favour(&mut self) -> bool {
        let grammar = self.grammar;
        self.shows_rare = self.choices.tenth();
        let shows_rare = self.shows_rare;
        let among = |row: &&'g Row| row.is_rare || !shows_rare;
        let rows: Vec<&'g Row> = grammar.rows.iter().filter(among).collect();
        let start = self.choices.open();
        let mut shows_alone = false;
        for at in 0..if shows_rare { 5 } else { 3 } {
            let row = *self.choices.pick(&rows);
            shows_alone |= at == 0 && shows_rare && row.is_alone;
            self.favoured.extend(grammar.needs(row));
            self.favoured.push(row);
        }
        self.choices.close(start);
        shows_alone
    }

    /// Whether a row with such a place is to occur in this case.
    pub fn favours(&self, place: &str) -> bool {
        self.favoured.iter().any(|row| row.name.contains(place))
    }

    /// Other ways to write the same app.
    fn rewritten(&mut self, mut text: String) -> String {
        if self.option("comments") {
            text = text.replace(" select ", " /* what */ select ") + "-- the end\n";
        }
        if self.option("capitals") {
            for word in [
                "select", "from", "insert", "into", "group", "by", "join", "define", "stream",
            ] {
                text = text.replace(&format!(" {word} "), &format!(" {} ", word.to_uppercase()));
            }
        }
        if self.option("double-quoted") && !text.contains('"') {
            text = text.replace('\'', "\"");
        }
        if self.option("triple-quoted") && !text.contains('"') {
            text = text.replace("''", "\"\"").replace('\'', "\"\"\"");
        }
        if self.option("back-quoted") {
            text = text
                .replace("stream S0 ", "stream `S0` ")
                .replace("from S0 ", "from `S0` ");
        }
        text
    }

    /// So many elements at least and at most, each further one with this chance in percent.
    fn several(
        &mut self,
        (least, most): (usize, usize),
        percent: usize,
        mut make: impl FnMut(&mut Self),
    ) {
        let mut have = 0;
        while let Some(start) = self.choices.one_more(have, least, most, percent) {
            make(self);
            have += 1;
            self.choices.close(start);
        }
    }

    pub fn count(&mut self, row: &Row) {
        for label in row.labels() {
            *self.used.entry(label).or_default() += 1;
        }
    }

    pub fn used(&mut self, kind: &str, name: &str) {
        *self.used.entry(format!("{kind} {name}")).or_default() += 1;
    }

    /// Chooses a row of a kind, if one runs.
    pub fn choose(&mut self, kind: &'static str) -> Option<&'g Row> {
        let row = self.weighted(self.grammar.of(kind).collect())?;
        self.count(row);
        Some(row)
    }

    /// The name of a row of a kind that has rows.
    pub fn name_of(&mut self, kind: &'static str) -> &'static str {
        self.choose(kind).map_or("", |row| row.name)
    }

    /// One of these by their weights.
    pub fn weighted(&mut self, mut rows: Vec<&'g Row>) -> Option<&'g Row> {
        rows.retain(|row| self.is_alone || !row.is_alone);
        let weights: Vec<u32> = rows
            .iter()
            .map(|row| {
                let favoured = self.favoured.iter().any(|f| std::ptr::eq(*f, *row));
                row.weight
                    * match (favoured, self.shows_rare) {
                        (false, _) => 1,
                        (true, false) => FAVOUR,
                        (true, true) => FAVOUR_RARE,
                    }
            })
            .collect();
        (!rows.is_empty()).then(|| rows[self.choices.weighted(&weights)])
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

    /// What the query being made reads, for the order of its rows.
    pub fn reads(&mut self, source: &Source) {
        self.touch(&source.name);
        if let Some(flow) = self.flows.last_mut() {
            flow.hash |= source.hash;
            flow.reads.push(source.name.clone());
        }
    }

    pub fn writes(&mut self, name: &str) {
        self.touch(name);
        if let Some(flow) = self.flows.last_mut() {
            flow.writes = Some(name.to_owned());
        }
    }

    /// The rows of the query being made come in the order of a hash map.
    pub fn keeps_no_order(&mut self) {
        if let Some(flow) = self.flows.last_mut() {
            flow.hash = true;
        }
    }

    /// Whatever is reached by rows in the order of a hash map.
    fn any_order(&self) -> BTreeSet<String> {
        let mut names: BTreeSet<String> = BTreeSet::new();
        if self.answers_hash {
            names.insert("answers".to_owned());
        }
        loop {
            let before = names.len();
            for flow in &self.flows {
                if flow.hash || flow.reads.iter().any(|name| names.contains(name)) {
                    names.insert(flow.query.clone());
                    names.extend(flow.writes.clone());
                }
            }
            if names.len() == before {
                return names;
            }
        }
    }

    pub fn begin_query(&mut self) -> String {
        self.touched.push(BTreeSet::new());
        self.stateful.push(0);
        let name = format!("q{}", self.queries.len() + 1);
        self.queries.push(name.clone());
        self.flows.push(Flow {
            query: name.clone(),
            reads: Vec::new(),
            writes: None,
            hash: false,
        });
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

    fn element(&mut self) {
        match self.name_of("element") {
            "partition" => self.partition(),
            _ => self.query(),
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
