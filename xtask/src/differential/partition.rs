//! Partitions, and on-demand queries.

use event::Type;

use super::maker::{Kind, Maker, Source, scope_of};
use super::query::Input;

impl Maker<'_> {
    pub fn partition(&mut self) {
        let among: Vec<Source> = self
            .sources
            .iter()
            .filter(|s| matches!(s.kind, Kind::Stream | Kind::Window))
            .cloned()
            .collect();
        let first = self.choices.pick(&among).clone();
        let mut streams = vec![first];
        if self.choices.chance(25) {
            let other = self.choices.pick(&among).clone();
            if streams.iter().all(|s| s.name != other.name) {
                self.used("partition", "of two");
                streams.push(other);
            }
        }
        let form = self.name_of("partition");
        let purge = if form == "purge" {
            "@purge(enable='true', interval='1 sec', idle.period='1 sec') "
        } else {
            ""
        };
        let mut keys = Vec::new();
        for stream in &streams {
            if stream.kind == Kind::Window {
                self.used("partition", "of a named window");
            }
            keys.push(format!("{} of {}", self.key_of(stream, form), stream.name));
        }
        self.body.push_str(&format!(
            "{purge}partition with ({}) begin\n",
            keys.join(", ")
        ));
        let inner_from = self.sources.len();
        self.partitioned = Some(streams.iter().map(|s| s.name.clone()).collect());
        let mut count = 0;
        while let Some(start) = self.choices.one_more(count, 1, 3, 50) {
            self.query();
            self.keeps_state();
            count += 1;
            self.choices.close(start);
        }
        self.partitioned = None;
        let made = self.sources.iter_mut().skip(inner_from);
        for source in made.filter(|s| s.kind == Kind::Inner) {
            source.kind = Kind::Gone;
        }
        self.body.push_str("end;\n");
    }

    fn key_of(&mut self, stream: &Source, form: &str) -> String {
        let scope = scope_of(&stream.columns, "");
        let key = self.choices.pick(&scope).clone();
        if form != "range" {
            return match key.ty {
                Type::Int | Type::Long if self.option("key of an expression") => {
                    format!("{} % 2", key.text)
                }
                Type::String if self.option("key of an expression") => {
                    format!("ifThenElse({} == 'A', 'first', 'other')", key.text)
                }
                _ => key.text,
            };
        }
        let tables = std::mem::replace(&mut self.no_tables, true);
        let low = self.whole_condition(&scope, 2);
        let high = self.whole_condition(&scope, 2);
        self.no_tables = tables;
        format!("{low} as 'low' or {high} as 'high'")
    }

    /// `None` where there is nothing to ask.
    pub fn on_demand(&mut self) -> Option<String> {
        let demand = self.name_of("demand");
        let tables = self.tables();
        if demand != "find" && !tables.is_empty() {
            return Some(self.on_demand_write(demand, &tables));
        }
        let is_asked =
            |s: &&Source| matches!(s.kind, Kind::Table | Kind::Window | Kind::Aggregation);
        let among: Vec<Source> = self.sources.iter().filter(is_asked).cloned().collect();
        if among.is_empty() {
            return None;
        }
        let source = self.choices.pick(&among).clone();
        self.answers_hash |= source.hash;
        self.used(
            "asked",
            match source.kind {
                Kind::Table => "table",
                Kind::Window => "named window",
                _ => "aggregation",
            },
        );
        let scope = scope_of(&source.columns, "");
        let mut text = format!("from {}", source.name);
        if self.choices.chance(8) {
            self.used("asked", "with an alias");
            text.push_str(" as X");
        }
        self.no_tables = true;
        let start = self.choices.open();
        if self.choices.chance(40) {
            text.push_str(&format!(" on {}", self.whole_condition(&scope, 1)));
        }
        self.choices.close(start);
        if source.kind == Kind::Aggregation {
            text.push_str(&self.within_per(&source.durations));
        }
        let input = Input {
            text: String::new(),
            scope,
            level: 0,
            is_single: true,
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

    fn on_demand_write(&mut self, demand: &str, tables: &[Source]) -> String {
        let table = self.choices.pick(tables).clone();
        let tables = std::mem::replace(&mut self.no_tables, true);
        let values: Vec<String> = table
            .columns
            .iter()
            .map(|(name, ty)| format!("{} as {name}", self.constant(*ty)))
            .collect();
        let select = format!("select {}", values.join(", "));
        let text = match demand {
            "insert" => format!("{select} insert into {}", table.name),
            "delete" => format!("delete {} on {}", table.name, self.on(&table, &[])),
            "update" => format!(
                "{select} update {}{} on {}",
                table.name,
                self.set(&table, &table.columns),
                self.on(&table, &table.columns)
            ),
            _ => format!(
                "{select} update or insert into {}{} on {}",
                table.name,
                self.set(&table, &table.columns),
                self.on(&table, &table.columns)
            ),
        };
        self.no_tables = tables;
        text
    }
}
