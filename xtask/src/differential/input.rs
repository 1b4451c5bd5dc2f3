//! What a query reads: one stream with its handlers, or a join.

use event::Type;

use super::expression::{Column, NUMBERS};
use super::grammar::Row;
use super::maker::{Kind, Maker, Source, scope_of};
use super::query::Input;

/// One side of a join.
struct Side {
    text: String,
    scope: Vec<Column>,
    kind: Kind,
    level: usize,
    durations: Vec<&'static str>,
}

impl Maker<'_> {
    /// Streams and the like that a query here may read.
    fn readable(&self, windows: bool) -> Vec<Source> {
        let inside = self.partitioned.as_ref();
        let is_partitioned = |s: &Source| inside.is_none_or(|streams| streams.contains(&s.name));
        self.sources
            .iter()
            .filter(|s| match s.kind {
                Kind::Stream | Kind::Trigger => is_partitioned(s),
                Kind::Fault => inside.is_none(),
                Kind::Inner => inside.is_some(),
                Kind::Window => windows && is_partitioned(s),
                Kind::Table | Kind::Aggregation | Kind::Gone => false,
            })
            .cloned()
            .collect()
    }

    pub fn read(&mut self, windows: bool) -> Source {
        let mut among = self.readable(windows);
        if among.is_empty() {
            among = self.readable(true);
        }
        // What was made last is read as often as all before it, so that chains come about.
        let source = if among.len() > 1 && self.choices.chance(40) {
            among[among.len() - 1].clone()
        } else {
            self.choices.pick(&among).clone()
        };
        self.reads(&source);
        source
    }

    pub fn filter(&mut self, scope: &[Column], percent: usize) -> String {
        let start = self.choices.open();
        let text = if self.choices.chance(percent) {
            self.used("query", "filter");
            let hash = if self.choices.chance(8) {
                self.used("query", "filter with #");
                "#"
            } else {
                ""
            };
            format!("{hash}[{}]", self.whole_condition(scope, 0))
        } else {
            String::new()
        };
        self.choices.close(start);
        text
    }

    pub fn single(&mut self) -> Input {
        let source = self.read(true);
        let mut scope = scope_of(&source.columns, "");
        let mut text = source.name.clone();
        text.push_str(&self.filter(&scope, 35));
        let start = self.choices.open();
        let handlers = self.name_of("single");
        let all: Vec<&str> = handlers.split(", ").collect();
        for (at, handler) in all.iter().enumerate() {
            match *handler {
                "window" if source.kind != Kind::Window => {
                    if let Some((window, hash)) = self.window(&scope, false) {
                        text.push_str(&format!("#window.{window}"));
                        self.keeps_state();
                        text.push_str(&self.filter(&scope, 10));
                        if hash {
                            self.keeps_no_order();
                        }
                    }
                }
                "processor" => {
                    let behind = text.contains("#window.") || source.kind == Kind::Window;
                    let is_last = at + 1 == all.len();
                    text.push_str(&self.processor(&mut scope, &source, behind, is_last));
                }
                _ => {}
            }
        }
        self.choices.close(start);
        let start = self.choices.open();
        let percent = match source.kind {
            Kind::Fault | Kind::Inner => 25,
            _ => 8,
        };
        if self.choices.chance(percent) {
            self.used(
                "reference",
                match source.kind {
                    Kind::Fault => "!fault.attribute",
                    Kind::Inner => "#inner.attribute",
                    _ => "stream.attribute",
                },
            );
            let names = source.columns.iter().map(|(name, _)| name);
            for (column, name) in scope.iter_mut().zip(names) {
                column.text = format!("{}.{name}", source.name);
            }
        }
        self.choices.close(start);
        Input {
            text,
            scope,
            level: source.level,
            is_single: true,
        }
    }

    /// A stream function or processor, which adds columns.
    fn processor(
        &mut self,
        scope: &mut Vec<Column>,
        source: &Source,
        behind: bool,
        is_last: bool,
    ) -> String {
        let is_input = |s: &Source| s.is_input;
        let grammar = self.grammar;
        let rows = grammar.of("processor");
        // Siddhi takes what a window lets go for late events, of several events in a chunk it cuts
        // only the first, and a window behind loses words: nothing of it is promised, so they
        // stand where it does not show.
        let rows = rows
            .filter(|row| {
                is_input(source) && !behind && is_last || !row.name.starts_with("str:tokenize")
            })
            .filter(|row| !behind || !row.name.starts_with("reorder"))
            .filter(|row| adds(row).all(|(name, _)| scope.iter().all(|c| c.name != name)))
            .collect();
        let Some(row) = self.weighted(rows) else {
            return String::new();
        };
        self.count(row);
        let tokenizes = row.name.starts_with("str:tokenize");
        self.one_by_one |= tokenizes;
        self.tokenizes |= tokenizes;
        let Some((call, _)) = row.name.rsplit_once(')') else {
            return String::new();
        };
        let Some(call) = self.fill(call, scope, None, 2) else {
            return String::new();
        };
        scope.extend(adds(row).map(|(name, ty)| Column {
            text: name.to_owned(),
            name: name.to_owned(),
            ty,
        }));
        if call.starts_with("reorder") {
            self.keeps_state();
        }
        format!("#{call})")
    }

    /// `None` where there is nothing to join.
    pub fn join(&mut self) -> Option<Input> {
        let left = self.side("L", true)?;
        let right = self.side("R", false)?;
        let kind = match self.name_of("join") {
            "inner" => "join".to_owned(),
            "inner, written" => "inner join".to_owned(),
            outer => format!("{outer} join"),
        };
        // Both sides in the order of chance: the table may stand first.
        let (first, second) = if self.choices.chance(25) {
            (&right, &left)
        } else {
            (&left, &right)
        };
        let searched_only = |side: &Side| matches!(side.kind, Kind::Table | Kind::Aggregation);
        let unidirectional = match self.name_of("unidirectional") {
            "left" if !searched_only(first) => (" unidirectional", ""),
            "right" if !searched_only(second) => ("", " unidirectional"),
            _ => ("", ""),
        };
        let mut scope = left.scope.clone();
        scope.extend(right.scope.iter().cloned());
        let start = self.choices.open();
        let tables = std::mem::replace(&mut self.no_tables, true);
        let on = self.join_condition(&left, &right, &scope);
        self.no_tables = tables;
        self.choices.close(start);
        let durations = if left.kind == Kind::Aggregation {
            &left.durations
        } else {
            &right.durations
        };
        let tail = if left.kind == Kind::Aggregation || right.kind == Kind::Aggregation {
            self.within_per(durations)
        } else {
            String::new()
        };
        self.keeps_state();
        self.references = vec!["L".to_owned(), "R".to_owned()];
        let text = format!(
            "{}{} {kind} {}{}{on}{tail}",
            first.text, unidirectional.0, second.text, unidirectional.1
        );
        Some(Input {
            text,
            scope,
            level: left.level.max(right.level),
            is_single: false,
        })
    }

    fn join_condition(&mut self, left: &Side, right: &Side, scope: &[Column]) -> String {
        if !self.choices.chance(80) {
            self.used("join", "without on");
            return String::new();
        }
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
            let more = self.whole_condition(scope, 1);
            on.push_str(&format!(" and {more}"));
        }
        format!(" on {on}")
    }

    /// Of which time and by which duration an aggregation is asked.
    pub fn within_per(&mut self, durations: &[&'static str]) -> String {
        let within = match self.name_of("within") {
            "two texts" => "'1970-01-01 00:00:00', '2030-01-01 00:00:00'",
            "one text" => *self.choices.pick(&[
                "'2020-**-** **:**:**'",
                "'2020-09-13 **:**:**'",
                "'1970-01-01 00:**:**'",
            ]),
            _ => "0L, 9999999999999L",
        };
        let per = self.name_of("per");
        // One that the aggregation does not keep is refused: seldom worth a case.
        let per = if durations.contains(&per) || self.choices.chance(3) {
            per
        } else {
            *self.choices.pick(durations)
        };
        self.used("asked per", per);
        if self.choices.chance(15) {
            self.used("asked per", "expression");
            return format!(" within {within} per ifThenElse(2 > 1, '{per}', 'seconds')");
        }
        format!(" within {within} per '{per}'")
    }

    fn side(&mut self, alias: &str, must_trigger: bool) -> Option<Side> {
        let kind = if must_trigger {
            "stream"
        } else {
            self.name_of("side")
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
        self.reads(&source);
        let mut plain = scope_of(&source.columns, "");
        let mut text = source.name.clone();
        let is_stream = !matches!(source.kind, Kind::Table | Kind::Aggregation | Kind::Window);
        if is_stream {
            // `in` in a join fails in Siddhi on every event, wherever it stands.
            let tables = std::mem::replace(&mut self.no_tables, true);
            text.push_str(&self.filter(&plain, 20));
            self.no_tables = tables;
            if self.option("processor of a side") {
                text.push_str(&self.processor(&mut plain, &source, true, false));
            }
            let start = self.choices.open();
            if (!must_trigger || self.choices.chance(70))
                && let Some((window, hash)) = self.window(&plain, true)
            {
                text.push_str(&format!("#window.{window}"));
                if hash {
                    self.keeps_no_order();
                }
            }
            self.choices.close(start);
        }
        text.push_str(&format!(" as {alias}"));
        let scope = plain.into_iter().map(|column| Column {
            text: format!("{alias}.{}", column.name),
            ..column
        });
        Some(Side {
            text,
            scope: scope.collect(),
            kind: source.kind,
            level: if is_stream || source.kind == Kind::Window {
                source.level
            } else {
                0
            },
            durations: source.durations,
        })
    }
}

/// The attributes that a stream function or processor adds.
fn adds(row: &Row) -> impl Iterator<Item = (&'static str, Type)> {
    let (_, added) = row.name.rsplit_once(')').unwrap_or_default();
    let named = added
        .split_whitespace()
        .filter_map(|add| add.split_once(':'));
    named.filter_map(|(name, ty)| Some((name, Type::from_name(ty)?)))
}
