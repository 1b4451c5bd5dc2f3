//! Queries: what they read, select and write.

use event::Type;

use super::expression::Column;
use super::maker::{Kind, Maker, Source, scope_of};

/// What a query reads, as text, and what its selector sees.
pub struct Input {
    pub text: String,
    pub scope: Vec<Column>,
    /// The lowest level that the query may write to.
    pub level: usize,
    /// `select *` makes sense.
    pub is_single: bool,
}

/// Where a query's rows go.
enum Target {
    New(Kind),
    Existing(Source),
    Insert(Source),
    /// With `set` or without.
    Update(Source, bool),
    UpdateOrInsert(Source),
    Delete(Source),
    /// Nothing but the query's callback.
    Return,
}

/// Can all attributes of several streams be selected by a star: do they have names of their own?
fn is_plain(scope: &[Column]) -> bool {
    let is_first = |(at, column): (usize, &Column)| {
        let mut before = scope[..at].iter();
        before.all(|other| other.name != column.name) && !column.text.contains('[')
    };
    !scope.is_empty() && scope.iter().enumerate().all(is_first)
}

impl Maker<'_> {
    pub fn query(&mut self) {
        if self.partitioned.is_none() && self.option("loop") {
            return self.counting_loop();
        }
        let name = self.begin_query();
        let input = match self.name_of("input") {
            "join" => self.join(),
            kind @ ("pattern" | "sequence") => Some(self.pattern(kind)),
            _ => None,
        };
        let input = input.unwrap_or_else(|| self.single());
        // Siddhi writes the words of one event to a table as one row, and calls back with one.
        let target = match std::mem::take(&mut self.tokenizes) {
            true => Target::New(Kind::Stream),
            false => self.target(input.level),
        };
        let want = match &target {
            Target::Existing(s)
            | Target::Insert(s)
            | Target::UpdateOrInsert(s)
            | Target::Update(s, false) => Some(s.columns.clone()),
            _ => None,
        };
        let can_star = matches!(target, Target::New(_))
            && (input.is_single || is_plain(&input.scope) && self.option("star of several"));
        // `in` in a join fails in Siddhi on every event, wherever it stands.
        let tables = std::mem::replace(&mut self.no_tables, !input.is_single);
        let (select, columns) = self.selector(&input, want.as_deref(), can_star);
        self.no_tables = tables;
        let rate = self.rate();
        let events = match self.name_of("events") {
            "all" => " all events",
            "expired" => " expired events",
            "current, written" => " current events",
            _ => "",
        };
        let output = self.output(target, &columns, events, input.level);
        let synchronized = match self.option("synchronized") {
            true => "@synchronized('true') ",
            false => "",
        };
        self.body.push_str(&format!(
            "@info(name='{name}') {synchronized}from {}{select}{rate}{output};\n",
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

    // ---- what is selected ----

    /// The selector's text and its output columns.
    pub fn selector(
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
        let (mut items, mut columns) = (Vec::new(), Vec::new());
        // A target says how many there are; a new one gets as many as chance gives.
        let (least, most) = want.map_or((1, 3), |want| (want.len(), want.len()));
        self.all_attributes = input.is_single && !input.text.is_empty();
        while let Some(start) = self.choices.one_more(items.len(), least, most, 50) {
            let (name, ty) = match want {
                Some(want) => want[items.len()].clone(),
                None => (self.new_name(&columns), self.item_type(scope)),
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
        self.references.clear();
        self.all_attributes = false;
        let mut text = format!(" select {}", items.join(", "));
        self.clauses(&mut text, scope, &columns);
        (text, columns)
    }

    /// A name that is not there yet; some are keywords.
    fn new_name(&mut self, taken: &[(String, Type)]) -> String {
        if self.choices.chance(4) {
            let keyword = *self.choices.pick(&["last", "order", "events", "year"]);
            if taken.iter().all(|(name, _)| name != keyword) {
                self.used("query", "keyword as name");
                return keyword.to_owned();
            }
        }
        format!("o{}", taken.len())
    }

    fn item_type(&mut self, scope: &[Column]) -> Type {
        // Lists of all values of an element can only be handed on.
        if scope.iter().any(|c| c.ty == Type::Object) && self.choices.chance(30) {
            return Type::Object;
        }
        *self.choices.pick(&[
            Type::Int,
            Type::String,
            Type::Long,
            Type::Double,
            Type::Bool,
            Type::Float,
        ])
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
        let mixes_groups = std::mem::take(&mut self.mixes_groups);
        if !scope.is_empty() && self.choices.chance(30) && !mixes_groups {
            self.used("query", "group by");
            let mut keys = vec![self.choices.pick(scope).text.clone()];
            if self.choices.chance(20) {
                self.used("query", "group by two");
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
        let follows = self.grammar.is_wide && text.contains(" having ");
        let percent = if follows { 30 } else { 12 };
        if self.choices.chance(percent) {
            self.used("query", "order by");
            let (key, _) = self.choices.pick(columns).clone();
            let way = *self.choices.pick(&["", " asc", " desc"]);
            text.push_str(&format!(" order by {key}{way}"));
            let (second, _) = self.choices.pick(columns).clone();
            if second != key && self.choices.chance(30) {
                self.used("query", "order by two");
                let way = *self.choices.pick(&["", " asc", " desc"]);
                text.push_str(&format!(", {second}{way}"));
            }
        }
        self.choices.close(start);
        let start = self.choices.open();
        let follows = self.grammar.is_wide && text.contains(" order by ");
        let percent = if follows { 30 } else { 10 };
        if self.choices.chance(percent) {
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
        if self.choices.chance(13)
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
        let row = self.name_of("target");
        let tables = self.tables();
        let among = match row {
            "insert-table" | "update" | "update-or-insert" | "delete" => tables,
            "named-window" => above(self, Kind::Window),
            "return" if !inside => return Target::Return,
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
        self.writes(&source.name);
        match row {
            "insert-table" => Target::Insert(source),
            "update" => Target::Update(source, !self.choices.chance(30)),
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
                self.writes(&name);
                format!(" insert{events} into {name}")
            }
            Target::Existing(source) | Target::Insert(source) => {
                format!(" insert{events} into {}", source.name)
            }
            Target::Delete(table) => {
                format!(" delete {}{of} on {}", table.name, self.on(&table, columns))
            }
            Target::Return => format!(" return{events}"),
            Target::Update(table, has_set) => {
                let set = match has_set {
                    true => self.set(&table, columns),
                    false => String::new(),
                };
                self.used("set", if has_set { "with" } else { "without" });
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
    pub fn on(&mut self, table: &Source, columns: &[(String, Type)]) -> String {
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

    pub fn set(&mut self, table: &Source, columns: &[(String, Type)]) -> String {
        let mut scope = scope_of(columns, "");
        if self.option("set by the row") {
            scope.extend(scope_of(&table.columns, &format!("{}.", table.name)));
        }
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
}
