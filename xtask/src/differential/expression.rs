//! Expressions of a wanted type over what is in scope.

use event::Type;

use super::grammar::Row;
use super::maker::Maker;

/// Something that can be named in an expression.
#[derive(Clone, Debug)]
pub struct Column {
    /// As it is written: `n`, `L.n`, `e1[0].n`.
    pub text: String,
    /// Its own name.
    pub name: String,
    pub ty: Type,
}

pub const NUMBERS: [Type; 4] = [Type::Int, Type::Long, Type::Float, Type::Double];
const BASIC: [Type; 6] = [
    Type::String,
    Type::Int,
    Type::Double,
    Type::Long,
    Type::Float,
    Type::Bool,
];

/// Aggregators that in Siddhi mix the values of all groups and keys: they get neither.
const MIX_GROUPS: [&str; 2] = ["str:groupConcat", "math:percentile"];

/// Lengths of time, in all units.
const TIMES: &[&str] = &[
    "1 sec",
    "500 milliseconds",
    "2 min",
    "1 hour 1 minute",
    "3 days",
    "1 week 2 day",
    "1 month",
    "1 year 2 months 1 week 1 day 1 hour 1 min 1 sec 1 millisec",
];

/// Deeper than this only attributes and constants are made.
const DEPTH_MAX: usize = 3;

impl Maker<'_> {
    pub fn expression(&mut self, scope: &[Column], ty: Type, depth: usize) -> String {
        let start = self.choices.open();
        let text = self.expression_of(scope, ty, depth);
        self.choices.close(start);
        text
    }

    fn expression_of(&mut self, scope: &[Column], ty: Type, depth: usize) -> String {
        let weights: &[u32] = match (ty, depth < DEPTH_MAX) {
            // Objects are only handed on.
            (Type::Object, _) => &[1],
            (_, false) => &[60, 30],
            (Type::Bool, true) if self.shows_rare => &[10, 4, 70, 70],
            (Type::String, true) if self.shows_rare => &[60, 15, 0, 120],
            (_, true) if self.shows_rare => &[50, 12, 25, 90],
            (Type::Bool, true) => &[10, 4, 70, 12],
            (Type::String, true) => &[60, 15, 0, 25],
            _ => &[50, 12, 25, 20],
        };
        match self.choices.weighted(weights) {
            0 => self
                .attribute(scope, ty)
                .unwrap_or_else(|| self.constant(ty)),
            1 => self.constant(ty),
            2 if ty == Type::Bool => self.condition(scope, depth),
            2 => self.arithmetic(scope, ty, depth),
            _ => self
                .call("function", scope, ty, depth)
                .unwrap_or_else(|| self.constant(ty)),
        }
    }

    pub fn attribute(&mut self, scope: &[Column], ty: Type) -> Option<String> {
        let fitting: Vec<&Column> = scope.iter().filter(|c| c.ty == ty).collect();
        (!fitting.is_empty()).then(|| self.choices.pick(&fitting).text.clone())
    }

    pub fn constant(&mut self, ty: Type) -> String {
        let among: &[&str] = match ty {
            Type::Int => &["1", "2", "3", "0", "-1", "5", "100", "+4", "007"],
            Type::Long if self.choices.chance(15) => {
                self.used("literal", "time");
                TIMES
            }
            Type::Long => &["1L", "2L", "10L", "0L", "-3L", "9007199254740993L"],
            Type::Float => &["1.5f", "2.5f", "0.0f", "-1.25f", "10F", ".5f"],
            Type::Double => &["1.5", "2.5", "0.0", "-0.1", "100.0", "1e2", "2d", ".25"],
            Type::Bool => &["true", "false"],
            Type::String | Type::Object => &["'A'", "'B'", "''", "'C d'"],
        };
        let literal = match ty {
            Type::Object => Type::String,
            other => other,
        };
        self.used("literal", literal.name());
        (*self.choices.pick(among)).to_owned()
    }

    /// Two numbers whose promotion is `ty`.
    fn arithmetic(&mut self, scope: &[Column], ty: Type, depth: usize) -> String {
        let Some(rank) = NUMBERS.iter().position(|n| *n == ty) else {
            return self.constant(ty);
        };
        let other = NUMBERS[self.choices.below(rank + 1)];
        let sign = *self.choices.pick(&["+", "-", "*", "/", "%"]);
        let left = self.expression(scope, ty, depth + 1);
        let right = self.expression(scope, other, depth + 1);
        self.used("operator", sign);
        let (a, b) = if self.choices.chance(30) {
            (right, left)
        } else {
            (left, right)
        };
        // Without parentheses around it, what stands before and behind binds as it may.
        if depth > 0 || self.choices.chance(50) {
            format!("({a} {sign} {b})")
        } else {
            format!("{a} {sign} {b}")
        }
    }

    /// A condition that Siddhi takes where it wants one: a bare bool it refuses.
    pub fn whole_condition(&mut self, scope: &[Column], depth: usize) -> String {
        match self.condition(scope, depth) {
            bare if bare == "true" => "1 == 1".to_owned(),
            condition => condition,
        }
    }

    fn condition(&mut self, scope: &[Column], depth: usize) -> String {
        let deeper = depth + 1 < DEPTH_MAX;
        let weights = [60, 15, 10, 8, if deeper { 10 } else { 0 }, 8];
        match self.choices.weighted(&weights) {
            0 => {
                let a = *self.choices.pick(&NUMBERS);
                let b = *self.choices.pick(&NUMBERS);
                let sign = *self.choices.pick(&["<", ">", "<=", ">=", "==", "!="]);
                self.used("operator", sign);
                format!(
                    "{} {sign} {}",
                    self.expression(scope, a, depth + 1),
                    self.expression(scope, b, depth + 1)
                )
            }
            1 => {
                let sign = *self.choices.pick(&["==", "!="]);
                let ty = *self.choices.pick(&[Type::String, Type::String, Type::Bool]);
                format!(
                    "{} {sign} {}",
                    self.expression(scope, ty, depth + 1),
                    self.expression(scope, ty, depth + 1)
                )
            }
            2 => {
                if !self.references.is_empty() && self.choices.chance(30) {
                    self.used("operator", "reference is null");
                    let references = self.references.clone();
                    return format!("{} is null", self.choices.pick(&references));
                }
                let ty = *self.choices.pick(&BASIC);
                self.used("operator", "is null");
                match self.attribute(scope, ty) {
                    Some(attribute) => format!("{attribute} is null"),
                    None => "2 > 1".to_owned(),
                }
            }
            3 => {
                self.used("operator", "not");
                format!("not({})", self.expression(scope, Type::Bool, depth + 1))
            }
            4 => {
                let sign = *self.choices.pick(&["and", "or"]);
                self.used("operator", sign);
                let (a, b) = (
                    self.expression(scope, Type::Bool, depth + 1),
                    self.expression(scope, Type::Bool, depth + 1),
                );
                format!("({a} {sign} {b})")
            }
            _ => self
                .in_table(scope, depth)
                .unwrap_or_else(|| "true".to_owned()),
        }
    }

    /// `(T.k == …) in T`.
    fn in_table(&mut self, scope: &[Column], depth: usize) -> Option<String> {
        let tables = self.tables();
        if tables.is_empty() || self.no_tables {
            return None;
        }
        let table = self.choices.pick(&tables).clone();
        let (name, ty) = self.choices.pick(&table.columns).clone();
        let value = self.expression(scope, ty, depth + 1);
        self.touch(&table.name);
        self.used("condition", "in");
        let more = match self.option("in of two") {
            true => {
                let (name, ty) = self.choices.pick(&table.columns).clone();
                let sign = *self.choices.pick(&["==", "!="]);
                format!(" and {}.{name} {sign} {}", table.name, self.constant(ty))
            }
            false => String::new(),
        };
        Some(format!(
            "(({}.{name} == {value}{more}) in {})",
            table.name, table.name
        ))
    }

    /// A call of a function or an aggregator that gives `ty`.
    pub fn call(
        &mut self,
        kind: &'static str,
        scope: &[Column],
        ty: Type,
        depth: usize,
    ) -> Option<String> {
        let gives = |note: &str| match note {
            "T" => true,
            "num" => NUMBERS.contains(&ty),
            name => Type::from_name(name) == Some(ty),
        };
        let grammar = self.grammar;
        let mixes_groups = |row: &Row| MIX_GROUPS.iter().any(|name| row.name.starts_with(name));
        let rows: Vec<_> = grammar
            .of(kind)
            .filter(|row| gives(row.note))
            .filter(|row| self.partitioned.is_none() || !mixes_groups(row))
            .filter(|row| self.all_attributes || !row.name.contains("(*)"))
            .collect();
        let row = self.weighted(rows)?;
        let text = self.fill(row.name, scope, Some(ty), depth + 1)?;
        self.count(row);
        self.mixes_groups |= mixes_groups(row);
        // An extension's function may fail; those of the language do not.
        Some(match self.is_steady && row.name.contains(':') {
            true => steady(ty).to_owned(),
            false => text,
        })
    }

    /// A template with its places filled; `None` where an attribute of the type is lacking.
    pub fn fill(
        &mut self,
        template: &str,
        scope: &[Column],
        ty: Option<Type>,
        depth: usize,
    ) -> Option<String> {
        let mut out = String::new();
        let mut rest = template;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, after) = rest.split_at(at);
            out.push_str(before);
            // Written twice, a brace stands for itself.
            if after.starts_with("{{") || after.starts_with("}}") {
                out.push_str(&after[..1]);
                rest = &after[2..];
                continue;
            }
            let (place, after) = after[1..].split_once('}')?;
            out.push_str(&self.place(place, scope, ty, depth)?);
            rest = after;
        }
        out.push_str(rest);
        Some(out)
    }

    fn place(
        &mut self,
        place: &str,
        scope: &[Column],
        ty: Option<Type>,
        depth: usize,
    ) -> Option<String> {
        Some(match place {
            "n" => (*self.choices.pick(&["2", "1", "3", "4"])).to_owned(),
            "t" => (*self.choices.pick(&[
                "1 sec",
                "500 milliseconds",
                "100 milliseconds",
                "2 sec",
                "1 second 200 millisec",
            ]))
            .to_owned(),
            "flag" => (*self.choices.pick(&["true", "false"])).to_owned(),
            "ts" => scope.iter().find(|c| c.name == "t")?.text.clone(),
            "@time" => scope.iter().find(|c| c.name == "d")?.text.clone(),
            "T" => self.expression(scope, ty?, depth),
            "!T" => self.constant(ty?),
            "@T" => self.attribute(scope, ty?)?,
            "@num" => {
                let number = *self.choices.pick(&NUMBERS);
                self.attribute(scope, number)
                    .or_else(|| self.attribute(scope, Type::Int))?
            }
            "num" => {
                let number = *self.choices.pick(&NUMBERS);
                self.expression(scope, number, depth)
            }
            "any" => {
                let any = *self.choices.pick(&BASIC);
                self.expression(scope, any, depth)
            }
            _ => match place.strip_prefix('@') {
                Some(name) => self.attribute(scope, Type::from_name(name)?)?,
                None => self.expression(scope, Type::from_name(place)?, depth),
            },
        })
    }
}

/// A constant of a type.
fn steady(ty: Type) -> &'static str {
    match ty {
        Type::Int => "1",
        Type::Long => "1L",
        Type::Float => "1.5f",
        Type::Double => "1.5",
        Type::Bool => "true",
        Type::String | Type::Object => "'A'",
    }
}
