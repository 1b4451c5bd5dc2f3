//! Queries: what they read, select and write.

use event::Type;

use super::expression::{Column, NUMBERS};
use super::maker::{Kind, Maker, Source, scope_of};

/// What a query reads, as text, and what its selector sees.
struct Input {
    text: String,
    scope: Vec<Column>,
    /// The lowest level that the query may write to.
    level: usize,
    /// `select *` makes sense.
    is_single: bool,
    hash: bool,
}

/// Where a query's rows go.
enum Target {
    New(Kind),
    Existing(Source),
    Insert(Source),
    Update(Source),
    UpdateOrInsert(Source),
    Delete(Source),
}

impl Maker<'_> {
    pub fn query(&mut self) {
        if self.partitioned.is_none() && self.option("loop") {
            return self.counting_loop();
        }
        let name = self.begin_query();
        let input = match self.choose("input").map(|row| row.name) {
            Some("join") => self.join(),
            Some(kind @ ("pattern" | "sequence")) => Some(self.pattern(kind)),
            _ => None,
        };
        let input = input.unwrap_or_else(|| self.single());
        let target = self.target(input.level);
        let want = match &target {
            Target::Existing(s) | Target::Insert(s) | Target::UpdateOrInsert(s) => {
                Some(s.columns.clone())
            }
            _ => None,
        };
        let can_star = input.is_single && matches!(target, Target::New(_));
        let (select, columns) = self.selector(&input, want.as_deref(), can_star);
        let rate = self.rate();
        let events = match self.choose("events").map(|row| row.name) {
            Some("all") => " all events",
            Some("expired") => " expired events",
            _ => "",
        };
        let output = self.output(target, &columns, events, input.level, input.hash);
        self.body.push_str(&format!(
            "@info(name='{name}') from {}{select}{rate}{output};\n",
            input.text
        ));
    }

    /// A stream that feeds itself until its number is high enough.
    fn counting_loop(&mut self) {
        let streams: Vec<Source> = self
            .sources
            .iter()
            .filter(|s| s.is_input && s.columns.iter().any(|(name, _)| name == "n"))
            .cloned()
            .collect();
        if streams.is_empty() {
            return;
        }
        let stream = self.choices.pick(&streams).clone();
        let name = self.begin_query();
        let items: Vec<String> = stream
            .columns
            .iter()
            .map(|(name, _)| {
                if name == "n" {
                    "n + 1 as n".to_owned()
                } else {
                    name.clone()
                }
            })
            .collect();
        self.body.push_str(&format!(
            "@info(name='{name}') from {0}[n >= 0 and n < 3] select {1} insert into {0};\n",
            stream.name,
            items.join(", ")
        ));
    }

    // ---- what is read ----

    /// Streams and the like that a query here may read.
    fn readable(&self, windows: bool) -> Vec<Source> {
        let inside = self.partitioned.as_ref();
        self.sources
            .iter()
            .filter(|s| match s.kind {
                Kind::Stream | Kind::Trigger => {
                    inside.is_none_or(|streams| streams.contains(&s.name))
                }
                Kind::Fault => inside.is_none(),
                Kind::Inner => inside.is_some(),
                Kind::Window => windows && inside.is_none(),
                Kind::Table | Kind::Aggregation => false,
            })
            .cloned()
            .collect()
    }

    fn read(&mut self, windows: bool) -> Source {
        let among = self.readable(windows);
        // What was made last is read as often as all before it, so that chains come about.
        let source = if among.len() > 1 && self.choices.chance(40) {
            among[among.len() - 1].clone()
        } else {
            self.choices.pick(&among).clone()
        };
        self.touch(&source.name);
        source
    }

    fn filter(&mut self, scope: &[Column], percent: usize) -> String {
        let start = self.choices.open();
        let text = if self.choices.chance(percent) {
            self.used("query", "filter");
            format!("[{}]", self.whole_condition(scope, 0))
        } else {
            String::new()
        };
        self.choices.close(start);
        text
    }

    fn single(&mut self) -> Input {
        let source = self.read(true);
        let mut scope = scope_of(&source.columns, "");
        let mut text = source.name.clone();
        text.push_str(&self.filter(&scope, 35));
        let start = self.choices.open();
        let handler = self.choose("single").map_or("plain", |row| row.name);
        if handler == "window" && source.kind != Kind::Window {
            if let Some(window) = self.window(&scope, false) {
                text.push_str(&format!("#window.{window}"));
                self.keeps_state();
                text.push_str(&self.filter(&scope, 10));
            }
        } else if handler == "processor"
            && let Some(row) = self.choose("processor")
            && let Some((call, adds)) = row.name.rsplit_once(')')
            && let Some(call) = self.fill(call, &scope, None, 2)
        {
            text.push_str(&format!("#{call})"));
            for add in adds.split_whitespace() {
                if let Some((name, ty)) = add.split_once(':')
                    && let Some(ty) = Type::from_name(ty)
                {
                    scope.push(Column {
                        text: name.to_owned(),
                        name: name.to_owned(),
                        ty,
                    });
                }
            }
        }
        self.choices.close(start);
        Input {
            text,
            scope,
            level: source.level,
            is_single: true,
            hash: source.hash,
        }
    }

    /// `None` where there is nothing to join.
    fn join(&mut self) -> Option<Input> {
        let left = self.side("L", true)?;
        let right = self.side("R", false)?;
        let kind = self.choose("join")?.name;
        let kind = if kind == "inner" {
            String::new()
        } else {
            format!("{kind} ")
        };
        // Both sides in the order of chance: the table may stand first.
        let (first, second) = if self.choices.chance(25) {
            (&right, &left)
        } else {
            (&left, &right)
        };
        let searched_only = |side: &Side| matches!(side.kind, Kind::Table | Kind::Aggregation);
        let unidirectional = match self.choices.below(6) {
            5 if !searched_only(first) => (" unidirectional", ""),
            4 if !searched_only(second) => ("", " unidirectional"),
            _ => ("", ""),
        };
        let mut scope = left.scope.clone();
        scope.extend(right.scope.iter().cloned());
        let on = if self.choices.chance(80) {
            let common: Vec<(Column, Column)> = left
                .scope
                .iter()
                .flat_map(|l| {
                    right
                        .scope
                        .iter()
                        .filter(|r| r.ty == l.ty)
                        .map(|r| (l.clone(), r.clone()))
                })
                .collect();
            let mut on = match common.is_empty() {
                true => "1 == 1".to_owned(),
                false => {
                    let (l, r) = self.choices.pick(&common).clone();
                    let sign = *self.choices.pick(&["==", "==", "==", "<=", ">", "!="]);
                    let sign = if NUMBERS.contains(&l.ty) || sign == "!=" {
                        sign
                    } else {
                        "=="
                    };
                    format!("{} {sign} {}", l.text, r.text)
                }
            };
            if self.choices.chance(20) {
                let more = self.whole_condition(&scope, 1);
                on.push_str(&format!(" and {more}"));
            }
            format!(" on {on}")
        } else {
            String::new()
        };
        let tail = if left.kind == Kind::Aggregation || right.kind == Kind::Aggregation {
            let per = *self.choices.pick(&["'seconds'", "'minutes'"]);
            format!(" within 0L, 9999999999999L per {per}")
        } else {
            String::new()
        };
        self.keeps_state();
        let text = format!(
            "{}{} {kind}join {}{}{on}{tail}",
            first.text, unidirectional.0, second.text, unidirectional.1
        );
        Some(Input {
            text,
            scope,
            level: left.level.max(right.level),
            is_single: false,
            hash: left.hash || right.hash,
        })
    }

    fn side(&mut self, alias: &str, must_trigger: bool) -> Option<Side> {
        let kind = if must_trigger {
            "stream"
        } else {
            self.choose("side")?.name
        };
        let wanted = match kind {
            "table" => Kind::Table,
            "named-window" => Kind::Window,
            "aggregation" => Kind::Aggregation,
            _ => Kind::Stream,
        };
        let among: Vec<Source> = match wanted {
            Kind::Stream => self.readable(false),
            _ => self
                .sources
                .iter()
                .filter(|s| s.kind == wanted)
                .cloned()
                .collect(),
        };
        // A partition does not search what lies outside by a window of its own.
        let among = if among.is_empty() && !must_trigger {
            self.readable(false)
        } else {
            among
        };
        if among.is_empty() {
            return None;
        }
        let source = self.choices.pick(&among).clone();
        self.touch(&source.name);
        let plain = scope_of(&source.columns, "");
        let mut text = source.name.clone();
        let is_stream = !matches!(source.kind, Kind::Table | Kind::Aggregation | Kind::Window);
        if is_stream {
            text.push_str(&self.filter(&plain, 20));
            if (!must_trigger || self.choices.chance(70))
                && let Some(window) = self.window(&plain, true)
            {
                text.push_str(&format!("#window.{window}"));
            }
        }
        text.push_str(&format!(" as {alias}"));
        Some(Side {
            text,
            scope: scope_of(&source.columns, &format!("{alias}.")),
            kind: source.kind,
            level: if is_stream || source.kind == Kind::Window {
                source.level
            } else {
                0
            },
            hash: source.hash,
        })
    }

    fn pattern(&mut self, kind: &'static str) -> Input {
        let is_sequence = kind == "sequence";
        let mut scope: Vec<Column> = Vec::new();
        let (mut text, mut level) = (String::new(), 0);
        let mut names = 0;
        if self.choices.chance(65) {
            text.push_str("every ");
        }
        let elements = 2 + self.choices.below(2);
        self.no_tables = true;
        for index in 0..elements {
            let start = self.choices.open();
            if index > 0 {
                text.push_str(if is_sequence { ", " } else { " -> " });
                if !is_sequence && self.choices.chance(6) {
                    text.push_str("every ");
                }
            }
            let form = self
                .choose(if is_sequence {
                    "sequence-element"
                } else {
                    "pattern"
                })
                .map_or("plain", |r| r.name);
            let mut one = |maker: &mut Self, count: &str, seen: bool| {
                let source = maker.read(false);
                level = level.max(source.level);
                names += 1;
                let name = format!("e{names}");
                let mut inner = scope_of(&source.columns, "");
                inner.extend(scope.iter().cloned());
                let filter = maker.filter(&inner, 45);
                if !seen {
                    return format!("not {}{filter}", source.name);
                }
                let index = match count {
                    "" => String::new(),
                    _ => (*maker.choices.pick(&["[0]", "[last]", "[1]"])).to_owned(),
                };
                scope.extend(scope_of(&source.columns, &format!("{name}{index}.")));
                format!("{name}={}{filter}{count}", source.name)
            };
            let element = match form {
                "count" => {
                    let count = *self
                        .choices
                        .pick(&["<2>", "<1:2>", "<0:2>", "<1:>", "<:2>"]);
                    one(self, count, true)
                }
                "zero-or-more" => one(self, "*", true),
                "one-or-more" => one(self, "+", true),
                "zero-or-one" => one(self, "?", true),
                "logical" => {
                    let op = *self.choices.pick(&["and", "or"]);
                    let negative = op == "and" && self.choices.chance(25);
                    let first = one(self, "", !negative);
                    let second = one(self, "", true);
                    // The grammar of sequences has no parentheses.
                    if is_sequence {
                        format!("{first} {op} {second}")
                    } else {
                        format!("({first} {op} {second})")
                    }
                }
                "absent" => {
                    let wait = *self.choices.pick(&["500 milliseconds", "1 sec"]);
                    format!("{} for {wait}", one(self, "", false))
                }
                _ => one(self, "", true),
            };
            text.push_str(&element);
            self.choices.close(start);
        }
        self.no_tables = false;
        if self.choices.chance(30) {
            let within = *self.choices.pick(&["1 sec", "500 milliseconds", "2 sec"]);
            text.push_str(&format!(" within {within}"));
            self.used("pattern", "within");
        }
        self.keeps_state();
        Input {
            text,
            scope,
            level,
            is_single: false,
            hash: false,
        }
    }

    // ---- what is selected ----

    /// The selector's text and its output columns.
    fn selector(
        &mut self,
        input: &Input,
        want: Option<&[(String, Type)]>,
        can_star: bool,
    ) -> (String, Vec<(String, Type)>) {
        let scope = &input.scope;
        let all: Vec<(String, Type)> = scope.iter().map(|c| (c.name.clone(), c.ty)).collect();
        if can_star && !scope.is_empty() && self.choices.chance(15) {
            self.used("query", "select *");
            let text = if self.choices.chance(50) {
                ""
            } else {
                " select *"
            };
            return (text.to_owned(), all);
        }
        let aggregated = self.choices.chance(45);
        let count = want.map_or_else(|| 1 + self.choices.below(3), <[_]>::len);
        let (mut items, mut columns) = (Vec::new(), Vec::new());
        for index in 0..count {
            let start = self.choices.open();
            let (name, ty) = match want {
                Some(want) => want[index].clone(),
                None => {
                    let types = [
                        Type::Int,
                        Type::String,
                        Type::Long,
                        Type::Double,
                        Type::Bool,
                        Type::Float,
                    ];
                    let ty = *self.choices.pick(&types);
                    (format!("o{index}"), ty)
                }
            };
            let call = if aggregated && self.choices.chance(60) {
                self.call("aggregator", scope, ty, 1)
            } else {
                None
            };
            let (text, name) = match call {
                Some(call) => {
                    self.keeps_state();
                    (format!("{call} as {name}"), name)
                }
                None => self.plain_item(scope, name, ty, want.is_some(), &columns),
            };
            items.push(text);
            columns.push((name, ty));
            self.choices.close(start);
        }
        let mut text = format!(" select {}", items.join(", "));
        self.clauses(&mut text, scope, &columns);
        (text, columns)
    }

    fn plain_item(
        &mut self,
        scope: &[Column],
        name: String,
        ty: Type,
        keeps_name: bool,
        taken: &[(String, Type)],
    ) -> (String, String) {
        if !keeps_name && self.choices.chance(40) {
            let fitting: Vec<Column> = scope
                .iter()
                .filter(|c| {
                    c.ty == ty && c.text == c.name && taken.iter().all(|(n, _)| *n != c.name)
                })
                .cloned()
                .collect();
            if !fitting.is_empty() {
                let column = self.choices.pick(&fitting).clone();
                return (column.text, column.name);
            }
        }
        (format!("{} as {name}", self.expression(scope, ty, 0)), name)
    }

    fn clauses(&mut self, text: &mut String, scope: &[Column], columns: &[(String, Type)]) {
        let outputs = scope_of(columns, "");
        let start = self.choices.open();
        if !scope.is_empty() && self.choices.chance(30) {
            self.used("query", "group by");
            let mut keys = vec![self.choices.pick(scope).text.clone()];
            if self.choices.chance(20) {
                keys.push(self.choices.pick(scope).text.clone());
            }
            keys.dedup();
            text.push_str(&format!(" group by {}", keys.join(", ")));
        }
        self.choices.close(start);
        let start = self.choices.open();
        if self.choices.chance(18) {
            self.used("query", "having");
            let tables = std::mem::replace(&mut self.no_tables, true);
            let condition = self.whole_condition(&outputs, 1);
            text.push_str(&format!(" having {condition}"));
            self.no_tables = tables;
        }
        self.choices.close(start);
        let start = self.choices.open();
        if self.choices.chance(12) {
            self.used("query", "order by");
            let (key, _) = self.choices.pick(columns).clone();
            let way = *self.choices.pick(&["", " asc", " desc"]);
            text.push_str(&format!(" order by {key}{way}"));
        }
        self.choices.close(start);
        let start = self.choices.open();
        if self.choices.chance(10) {
            self.used("query", "limit");
            text.push_str(&format!(" limit {}", 1 + self.choices.below(3)));
            if self.choices.chance(30) {
                self.used("query", "offset");
                text.push_str(" offset 1");
            }
        }
        self.choices.close(start);
    }

    fn rate(&mut self) -> String {
        let start = self.choices.open();
        let mut text = String::new();
        if self.choices.chance(12)
            && let Some(row) = self.choose("rate")
            && let Some(rate) = self.fill(row.name, &[], None, 0)
        {
            self.keeps_state();
            text = format!(" output {rate}");
        }
        self.choices.close(start);
        text
    }

    // ---- what is written ----

    fn target(&mut self, level: usize) -> Target {
        let inside = self.partitioned.is_some();
        let above = |maker: &Self, kind: Kind| -> Vec<Source> {
            maker
                .sources
                .iter()
                .filter(|s| s.kind == kind && s.level > level && !s.is_input)
                .cloned()
                .collect()
        };
        let row = self.choose("target").map_or("new", |row| row.name);
        let tables = self.tables();
        let among = match row {
            "insert-table" | "update" | "update-or-insert" | "delete" => tables,
            "named-window" => above(self, Kind::Window),
            "existing" if inside && self.choices.chance(50) => above(self, Kind::Inner),
            "existing" => above(self, Kind::Stream),
            _ => Vec::new(),
        };
        if among.is_empty() {
            return Target::New(if inside && self.choices.chance(40) {
                Kind::Inner
            } else {
                Kind::Stream
            });
        }
        let source = self.choices.pick(&among).clone();
        self.touch(&source.name);
        match row {
            "insert-table" => Target::Insert(source),
            "update" => Target::Update(source),
            "update-or-insert" => Target::UpdateOrInsert(source),
            "delete" => Target::Delete(source),
            _ => Target::Existing(source),
        }
    }

    fn output(
        &mut self,
        target: Target,
        columns: &[(String, Type)],
        events: &str,
        level: usize,
        hash: bool,
    ) -> String {
        let of = if events.is_empty() {
            String::new()
        } else {
            format!(" for{events}")
        };
        match target {
            Target::New(kind) => {
                let number = self.sources.len();
                let name = if kind == Kind::Inner {
                    format!("#I{number}")
                } else {
                    format!("O{number}")
                };
                let source = self.define(name.clone(), kind, columns.to_vec());
                source.level = source.level.max(level + 1);
                source.hash = hash;
                self.touch(&name);
                format!(" insert{events} into {name}")
            }
            Target::Existing(source) | Target::Insert(source) => {
                format!(" insert{events} into {}", source.name)
            }
            Target::Delete(table) => {
                format!(" delete {}{of} on {}", table.name, self.on(&table, columns))
            }
            Target::Update(table) => {
                let set = self.set(&table, columns);
                format!(
                    " update {}{of}{set} on {}",
                    table.name,
                    self.on(&table, columns)
                )
            }
            Target::UpdateOrInsert(table) => {
                let set = if self.choices.chance(50) {
                    self.set(&table, columns)
                } else {
                    String::new()
                };
                format!(
                    " update or insert into {}{of}{set} on {}",
                    table.name,
                    self.on(&table, columns)
                )
            }
        }
    }

    /// A condition between a table's row and the query's.
    fn on(&mut self, table: &Source, columns: &[(String, Type)]) -> String {
        let pairs: Vec<(String, String)> = table
            .columns
            .iter()
            .flat_map(|(name, ty)| {
                columns
                    .iter()
                    .filter(move |(_, t)| t == ty)
                    .map(move |(c, _)| (name.clone(), c.clone()))
            })
            .collect();
        let mut on = if pairs.is_empty() {
            let (name, ty) = self.choices.pick(&table.columns).clone();
            format!("{}.{name} == {}", table.name, self.constant(ty))
        } else {
            let (inner, outer) = self.choices.pick(&pairs).clone();
            format!("{}.{inner} == {outer}", table.name)
        };
        if self.choices.chance(20) {
            let scope = scope_of(&table.columns, &format!("{}.", table.name));
            let tables = std::mem::replace(&mut self.no_tables, true);
            on.push_str(&format!(" and {}", self.whole_condition(&scope, 2)));
            self.no_tables = tables;
        }
        on
    }

    fn set(&mut self, table: &Source, columns: &[(String, Type)]) -> String {
        let scope = scope_of(columns, "");
        let count = 1 + self.choices.below(2).min(table.columns.len() - 1);
        let tables = std::mem::replace(&mut self.no_tables, true);
        let first = self.choices.below(table.columns.len());
        let set: Vec<String> = (0..count)
            .map(|i| {
                let (name, ty) = table.columns[(first + i) % table.columns.len()].clone();
                format!("{}.{name} = {}", table.name, self.expression(&scope, ty, 2))
            })
            .collect();
        self.no_tables = tables;
        format!(" set {}", set.join(", "))
    }

    // ---- partitions ----

    pub fn partition(&mut self) {
        let among: Vec<Source> = self
            .sources
            .iter()
            .filter(|s| s.kind == Kind::Stream && !s.name.starts_with('#'))
            .cloned()
            .collect();
        let first = self.choices.pick(&among).clone();
        let mut streams = vec![first];
        if self.choices.chance(25) {
            let other = self.choices.pick(&among).clone();
            if streams.iter().all(|s| s.name != other.name) {
                streams.push(other);
            }
        }
        let form = self.choose("partition").map_or("value", |row| row.name);
        let purge = if form == "purge" {
            "@purge(enable='true', interval='1 sec', idle.period='1 sec') "
        } else {
            ""
        };
        let keys: Vec<String> = streams
            .iter()
            .map(|stream| {
                let scope = scope_of(&stream.columns, "");
                let key = self.choices.pick(&scope).clone();
                let by = if form == "range" {
                    let tables = std::mem::replace(&mut self.no_tables, true);
                    let low = self.whole_condition(&scope, 2);
                    let high = self.whole_condition(&scope, 2);
                    self.no_tables = tables;
                    format!("{low} as 'low' or {high} as 'high'")
                } else {
                    key.text
                };
                format!("{by} of {}", stream.name)
            })
            .collect();
        self.body.push_str(&format!(
            "{purge}partition with ({}) begin\n",
            keys.join(", ")
        ));
        let inner_from = self.sources.len();
        self.partitioned = Some(streams.iter().map(|s| s.name.clone()).collect());
        let count = 1 + self.choices.below(3);
        for _ in 0..count {
            let start = self.choices.open();
            self.query();
            self.keeps_state();
            self.choices.close(start);
        }
        self.partitioned = None;
        // Inner streams end with their partition.
        for source in self
            .sources
            .iter_mut()
            .skip(inner_from)
            .filter(|s| s.kind == Kind::Inner)
        {
            source.kind = Kind::Aggregation;
            source.columns.clear();
            source.name.insert(0, '-');
        }
        self.body.push_str("end;\n");
    }

    // ---- on demand ----

    pub fn on_demand(&mut self) -> Option<String> {
        let among: Vec<Source> = self
            .sources
            .iter()
            .filter(|s| {
                matches!(s.kind, Kind::Table | Kind::Window | Kind::Aggregation)
                    && !s.columns.is_empty()
            })
            .cloned()
            .collect();
        if among.is_empty() {
            return None;
        }
        let source = self.choices.pick(&among).clone();
        self.hash |= source.hash;
        let scope = scope_of(&source.columns, "");
        let mut text = format!("from {}", source.name);
        self.no_tables = true;
        if self.choices.chance(40) {
            text.push_str(&format!(" on {}", self.whole_condition(&scope, 1)));
        }
        if source.kind == Kind::Aggregation {
            let per = *self.choices.pick(&["'seconds'", "'minutes'"]);
            text.push_str(&format!(" within 0L, 9999999999999L per {per}"));
        }
        let input = Input {
            text: String::new(),
            scope,
            level: 0,
            is_single: true,
            hash: source.hash,
        };
        let (select, _) = self.selector(&input, None, true);
        self.no_tables = false;
        Some(format!(
            "{text}{}",
            if select.is_empty() {
                " select *".to_owned()
            } else {
                select
            }
        ))
    }
}

/// One side of a join.
struct Side {
    text: String,
    scope: Vec<Column>,
    kind: Kind,
    level: usize,
    hash: bool,
}
