//! Definitions: streams, tables, named windows, triggers and aggregations.

use event::Type;

use super::expression::Column;
use super::grammar::Row;
use super::maker::{Kind, Maker, Source, scope_of, written};

/// Attributes that streams, tables and windows are made of. `t` holds times in ms, `d` in text.
const ATTRIBUTES: [(&str, Type); 8] = [
    ("k", Type::String),
    ("n", Type::Int),
    ("x", Type::Double),
    ("t", Type::Long),
    ("l", Type::Long),
    ("f", Type::Float),
    ("b", Type::Bool),
    ("d", Type::String),
];

/// Durations of an aggregation in their order, and the words of its definition.
const DURATIONS: [(&str, &str); 6] = [
    ("sec", "seconds"),
    ("min", "minutes"),
    ("hour", "hours"),
    ("day", "days"),
    ("month", "months"),
    ("year", "years"),
];

impl Maker<'_> {
    /// Columns of something new: `k` and `n`, and others by chance.
    fn columns(&mut self) -> Vec<(String, Type)> {
        let mut columns = Vec::new();
        for (index, (name, ty)) in ATTRIBUTES.iter().enumerate() {
            let start = self.choices.open();
            // Times are seldom there, but where a row of the grammar is to be seen that needs them.
            let place = match *name {
                "t" => "{ts}",
                "d" => "{@time}",
                _ => "{}",
            };
            let percent = match index {
                _ if self.favours(place) => 90,
                0 | 1 => 90,
                7 => 10,
                _ => 30,
            };
            if self.choices.chance(percent) {
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
        self.sources.push(Source {
            name,
            kind,
            columns,
            level,
            hash: false,
            is_input: false,
            durations: Vec::new(),
        });
        self.sources.last_mut().expect("it was pushed just now")
    }

    pub fn input_stream(&mut self) {
        let name = format!("S{}", self.sources.len());
        let columns = self.columns();
        let has_sink = self.option("sink");
        if has_sink {
            let topic = format!("topic{}", self.topics.len());
            self.definitions.push_str(&format!(
                "@sink(type='inMemory', topic='{topic}', @map(type='passThrough')) "
            ));
            self.topics.push(topic);
        }
        let faulty = self.option("fault-stream");
        if faulty {
            self.definitions.push_str("@OnError(action='STREAM') ");
        } else if self.option("log-errors") {
            self.definitions.push_str("@OnError(action='LOG') ");
        }
        self.definitions
            .push_str(&format!("define stream {name} ({});\n", written(&columns)));
        self.define(name.clone(), Kind::Stream, columns.clone())
            .is_input = true;
        if faulty {
            self.define(format!("!{name}"), Kind::Fault, columns.clone());
        }
        if has_sink && self.option("source") {
            self.source(columns);
        }
    }

    /// A stream that reads what the last stream with a sink writes.
    fn source(&mut self, columns: Vec<(String, Type)>) {
        let name = format!("S{}", self.sources.len());
        let topic = self.topics.len() - 1;
        self.definitions.push_str(&format!(
            "@source(type='inMemory', topic='topic{topic}', @map(type='passThrough')) define stream {name} ({});\n",
            written(&columns)
        ));
        self.define(name, Kind::Stream, columns).is_input = true;
    }

    pub fn definition(&mut self) {
        match self.name_of("define") {
            "table" => self.table(),
            "named-window" => self.named_window(),
            "trigger" => self.trigger(),
            _ => self.aggregation(),
        }
    }

    fn table(&mut self) {
        let name = format!("T{}", self.sources.len());
        let columns = self.columns();
        let key = self.name_of("key");
        if key.contains("primary") {
            let count = if key == "primary, two" { 2 } else { 1 };
            let keys: Vec<String> = columns[..count.min(columns.len())]
                .iter()
                .map(|(name, _)| format!("'{name}'"))
                .collect();
            self.definitions
                .push_str(&format!("@PrimaryKey({}) ", keys.join(", ")));
        }
        if key.contains("index") {
            let (column, _) = self.choices.pick(&columns).clone();
            self.definitions.push_str(&format!("@Index('{column}') "));
        }
        self.definitions
            .push_str(&format!("define table {name} ({});\n", written(&columns)));
        self.define(name, Kind::Table, columns).hash = key != "none";
    }

    fn named_window(&mut self) {
        let name = format!("W{}", self.sources.len());
        let columns = self.columns();
        let scope = scope_of(&columns, "");
        let (window, hash) = self
            .window(&scope, false)
            .unwrap_or_else(|| ("length(2)".to_owned(), false));
        let output = match self.name_of("window-output") {
            "none" => String::new(),
            events => format!(" output {events}"),
        };
        self.definitions.push_str(&format!(
            "define window {name} ({}) {window}{output};\n",
            written(&columns)
        ));
        self.define(name, Kind::Window, columns).hash = hash;
    }

    fn trigger(&mut self) {
        let name = format!("G{}", self.sources.len());
        let at = match self.name_of("trigger") {
            "start" => "'start'",
            "cron" => "'*/2 * * * * ?'",
            _ => *self
                .choices
                .pick(&["every 1 sec", "every 500 milliseconds"]),
        };
        self.definitions
            .push_str(&format!("define trigger {name} at {at};\n"));
        self.define(
            name,
            Kind::Trigger,
            vec![("triggered_time".to_owned(), Type::Long)],
        );
    }

    /// A window call, and whether its rows have the order of a hash map; `joined`: it is to be
    /// searched.
    pub fn window(&mut self, scope: &[Column], joined: bool) -> Option<(String, bool)> {
        let grammar = self.grammar;
        let rows: Vec<&Row> = grammar
            .of("window")
            .filter(|r| !joined || !r.note.contains("nojoin"))
            .filter(|r| self.partitioned.is_none() || !mixes_keys(r))
            .collect();
        let row = self.weighted(rows)?;
        let text = self.fill(row.name, scope, None, 2)?;
        // In an expression window attributes stand without the name of their side.
        let text = if text.contains('\'') {
            text.replace("last.L.", "last.")
                .replace("first.L.", "first.")
        } else {
            text
        };
        self.count(row);
        // Siddhi never comes back from a `delay` of a chunk of several events.
        self.one_by_one |= row.name.starts_with("delay");
        Some((text, row.note.contains("hash")))
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
        let (mut items, mut more_keys) = (Vec::new(), 0);
        let mut columns = vec![("AGG_TIMESTAMP".to_owned(), Type::Long)];
        let mut group = String::new();
        if let Some(key) = scope.iter().find(|c| c.ty == Type::String)
            && self.choices.chance(60)
        {
            items.push(key.text.clone());
            columns.push((key.name.clone(), key.ty));
            group = format!(" group by {}", key.text);
            let others = scope.iter().filter(|c| c.name != key.name && c.name != "t");
            let others: Vec<&Column> = others.collect();
            if !others.is_empty() && self.option("group of two") {
                let second = *self.choices.pick(&others);
                items.push(second.text.clone());
                more_keys = 1;
                columns.push((second.name.clone(), second.ty));
                group.push_str(&format!(", {}", second.text));
            }
        }
        while let Some(start) = self.choices.one_more(items.len() - more_keys, 1, 3, 40) {
            let (item, name, ty) = self.aggregate(&scope);
            if columns.iter().all(|(n, _)| *n != name) {
                items.push(item);
                columns.push((name, ty));
            }
            self.choices.close(start);
        }
        let by = match self.name_of("time-of") {
            "attribute" if scope.iter().any(|c| c.name == "t") => " by t",
            "text" if scope.iter().any(|c| c.name == "d") => " by d",
            _ => "",
        };
        let every = self.name_of("every");
        let kept = match self.name_of("kept") {
            "off" => "@purge(enable='false') ".to_owned(),
            "a while" => kept_a_while(every),
            _ => String::new(),
        };
        let filter = if self.option("filtered-aggregation") {
            self.filter(&scope, 100)
        } else {
            String::new()
        };
        self.definitions.push_str(&format!(
            "{kept}define aggregation {name} from {}{filter} select {}{group} aggregate{by} every {every};\n",
            stream.name,
            items.join(", ")
        ));
        let source = self.define(name, Kind::Aggregation, columns);
        source.hash = true;
        source.durations = durations(every);
    }

    /// One item of an aggregation: its text, name and type.
    fn aggregate(&mut self, scope: &[Column]) -> (String, String, Type) {
        let kind = self.name_of("aggregate");
        let numbers: Vec<&Column> = scope
            .iter()
            .filter(|c| !matches!(c.ty, Type::String | Type::Bool))
            .collect();
        let of = match numbers.is_empty() {
            true => &scope[0],
            false => *self.choices.pick(&numbers),
        };
        let (call, ty) = match (kind, of.ty) {
            ("last", ty) => (of.text.clone(), ty),
            (_, Type::String | Type::Bool | Type::Object) | ("count", _) => {
                ("count()".to_owned(), Type::Long)
            }
            ("sum", Type::Int | Type::Long) => (format!("sum({})", of.text), Type::Long),
            ("sum" | "avg", _) => (format!("{kind}({})", of.text), Type::Double),
            ("distinctCount", _) => (format!("distinctCount({})", of.text), Type::Long),
            (_, ty) => (format!("{kind}({})", of.text), ty),
        };
        let name = format!("a_{}_{}", kind, of.name);
        (format!("{call} as {name}"), name, ty)
    }
}

/// A purge that says for each duration that `every` keeps how long; Siddhi refuses any other.
fn kept_a_while(every: &str) -> String {
    const RETENTION: [(&str, &str); 6] = [
        ("seconds", "sec='120 sec'"),
        ("minutes", "min='24 hours'"),
        ("hours", "hours='30 days'"),
        ("days", "days='1 year'"),
        ("months", "months='all'"),
        ("years", "years='all'"),
    ];
    let kept = durations(every);
    let said = RETENTION.iter().filter(|(name, _)| kept.contains(name));
    let said: Vec<&str> = said.map(|(_, text)| *text).collect();
    let periods = said.join(", ");
    format!("@purge(enable='true', interval='10 sec', @retentionPeriod({periods})) ")
}

/// Windows that in Siddhi have one condition, or one next flush, for all keys of a partition.
fn mixes_keys(row: &Row) -> bool {
    ["expression", "timeBatch"]
        .iter()
        .any(|name| row.name.starts_with(name))
}

/// The durations, as `per` names them, that `every` keeps.
fn durations(every: &str) -> Vec<&'static str> {
    let place = |word: &str| DURATIONS.iter().position(|(short, _)| *short == word);
    let of = |places: std::ops::RangeInclusive<usize>| {
        DURATIONS[places].iter().map(|(_, per)| *per).collect()
    };
    match every.split_once(" ... ") {
        Some((from, to)) => match (place(from), place(to)) {
            (Some(from), Some(to)) => of(from..=to),
            _ => Vec::new(),
        },
        None => every
            .split(", ")
            .filter_map(place)
            .flat_map(|at| -> Vec<&str> { of(at..=at) })
            .collect(),
    }
}
