//! Values by chance, for streams that somebody tries out: the same seed gives the same values.

use event::{Schema, Type};
use serde_json::{Value as Json, json};

/// Texts that an attribute has by default, so that a few groups come of them.
const TEXTS: u64 = 10;

/// Whole numbers by default: from 0 to this, without it.
const WHOLE_MAX: i64 = 1000;

/// Makes rows for a stream.
#[derive(Clone, Debug)]
pub struct Rows {
    columns: Vec<(String, Type, Pattern)>,
    state: u64,
    made: u64,
}

/// What the values of an attribute look like.
#[derive(Clone, PartialEq, Debug)]
pub enum Pattern {
    /// By its type: a text is one of ten, a number below a thousand.
    ByType,
    /// One of these.
    Choice(Vec<String>),
    /// A number from one to the other, both included for whole numbers; real ones have so many digits
    /// behind the point.
    Range { low: f64, high: f64, decimals: i32 },
    /// So many small letters.
    Letters(usize),
    /// This number, then one more in each row.
    Count(i64),
}

impl Pattern {
    /// `a|b|c`, `1..100` or `count`, `count:100`.
    ///
    /// # Errors
    /// It is none of them, said with what to write.
    pub fn parse(text: &str) -> Result<Pattern, String> {
        let wrong = || {
            format!(
                "'{text}' is no pattern: write A..B for numbers, A|B|C for choices, count or count:FROM"
            )
        };
        if text == "count" {
            return Ok(Pattern::Count(1));
        }
        if let Some(from) = text.strip_prefix("count:") {
            return from.parse().map(Pattern::Count).map_err(|_| wrong());
        }
        if let Some((low, high)) = text.split_once("..") {
            let bounds = (low.trim().parse::<f64>(), high.trim().parse::<f64>());
            let (Ok(low), Ok(high)) = bounds else {
                return Err(wrong());
            };
            let are_sound = low.is_finite() && high.is_finite() && low <= high;
            return are_sound
                .then_some(Pattern::Range {
                    low,
                    high,
                    decimals: 2,
                })
                .ok_or_else(|| {
                    format!("'{text}' is no range: the first number must not be above the second")
                });
        }
        match text.is_empty() {
            true => Err(wrong()),
            false => Ok(Pattern::Choice(
                text.split('|').map(str::to_owned).collect(),
            )),
        }
    }
}

impl Rows {
    /// `patterns`: by name of attribute, for those that are not to be by their type.
    ///
    /// # Errors
    /// A pattern is for an attribute that the stream does not have, or makes numbers for one that
    /// takes none.
    pub fn new(schema: &Schema, patterns: &[(String, Pattern)], seed: u64) -> Result<Rows, String> {
        for (name, pattern) in patterns {
            let Some(at) = schema.index_of(name) else {
                let names: Vec<&str> = schema.attributes.iter().map(|a| a.name.as_str()).collect();
                return Err(format!(
                    "stream '{}' has no attribute '{name}'; it has {}",
                    schema.name,
                    names.join(", ")
                ));
            };
            let ty = schema.attributes[at].ty;
            let makes_numbers = matches!(pattern, Pattern::Range { .. } | Pattern::Count(_));
            if makes_numbers && ty == Type::Bool {
                return Err(format!("attribute '{name}' is a bool and takes no numbers"));
            }
        }
        let pattern_of = |name: &str| {
            let found = patterns.iter().rev().find(|(of, _)| of == name);
            found.map_or(Pattern::ByType, |(_, pattern)| pattern.clone())
        };
        let columns = schema.attributes.iter();
        Ok(Rows {
            columns: columns
                .map(|a| (a.name.clone(), a.ty, pattern_of(&a.name)))
                .collect(),
            state: seed,
            made: 0,
        })
    }

    /// The values of the next row, in the order of the attributes.
    pub fn next_row(&mut self) -> Json {
        let made = self.made;
        self.made += 1;
        let state = &mut self.state;
        let values = self
            .columns
            .iter()
            .map(|(name, ty, pattern)| match pattern {
                Pattern::ByType => by_type(name, *ty, state),
                Pattern::Choice(all) => json!(all[below(state, all.len() as u64) as usize]),
                Pattern::Count(from) => json!(from.wrapping_add_unsigned(made)),
                Pattern::Letters(count) => letters(*count, state),
                Pattern::Range {
                    low,
                    high,
                    decimals,
                } => between((*low, *high), *decimals, *ty, state),
            });
        Json::Array(values.collect())
    }
}

fn by_type(name: &str, ty: Type, state: &mut u64) -> Json {
    match ty {
        Type::Bool => json!(below(state, 2) == 1),
        Type::Int | Type::Long => json!(below(state, WHOLE_MAX as u64)),
        Type::Float | Type::Double => json!(below(state, WHOLE_MAX as u64 * 100) as f64 / 100.0),
        Type::String | Type::Object => json!(format!("{name}{}", below(state, TEXTS))),
    }
}

fn letters(count: usize, state: &mut u64) -> Json {
    let letter = |_| char::from(b'a' + below(state, 26) as u8);
    Json::String((0..count).map(letter).collect())
}

fn between((low, high): (f64, f64), decimals: i32, ty: Type, state: &mut u64) -> Json {
    if matches!(ty, Type::Int | Type::Long) {
        let (low, high) = (low.ceil() as i64, high.floor() as i64);
        let span = high.abs_diff(low).saturating_add(1);
        return json!(low.wrapping_add_unsigned(below(state, span)));
    }
    // 53 bits are what a double holds.
    let share = (next(state) >> 11) as f64 / (1u64 << 53) as f64;
    let value = low + (high - low) * share;
    let scale = 10f64.powi(decimals);
    json!((value * scale).round() / scale)
}

/// A number below `bound`, which is above 0. The bias is below one in 2^40 for all bounds used here.
fn below(state: &mut u64, bound: u64) -> u64 {
    let product = u128::from(next(state)) * u128::from(bound);
    (product >> 64) as u64
}

/// SplitMix64: small, and good enough for values to try out.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use event::Attribute;

    use super::*;

    fn schema() -> Schema {
        let of = |name: &str, ty| Attribute {
            name: name.to_owned(),
            ty,
        };
        Schema {
            name: "S".to_owned(),
            attributes: vec![
                of("symbol", Type::String),
                of("price", Type::Double),
                of("number", Type::Int),
                of("sold", Type::Bool),
            ],
        }
    }

    #[test]
    fn a_seed_gives_the_same_rows_and_another_gives_others() {
        let rows = |seed| {
            let mut rows = Rows::new(&schema(), &[], seed).expect("no patterns");
            (0..50).map(|_| rows.next_row()).collect::<Vec<Json>>()
        };
        assert_eq!(rows(7), rows(7));
        assert_ne!(rows(7), rows(8));
        for row in rows(7) {
            assert!(
                row[0].as_str().is_some_and(|t| t.starts_with("symbol")),
                "{row}"
            );
            assert!(
                row[1].as_f64().is_some_and(|p| (0.0..1000.0).contains(&p)),
                "{row}"
            );
            assert!(
                row[2].as_i64().is_some_and(|n| (0..1000).contains(&n)),
                "{row}"
            );
            assert!(row[3].is_boolean(), "{row}");
        }
    }

    #[test]
    fn patterns_bound_the_values() {
        let pattern = |text: &str| Pattern::parse(text).expect("a pattern");
        let patterns = [
            ("symbol".to_owned(), pattern("IBM|WSO2")),
            ("price".to_owned(), pattern("-1.5..1.5")),
            ("number".to_owned(), pattern("count:5")),
        ];
        let mut rows = Rows::new(&schema(), &patterns, 1).expect("sound");
        for at in 0..100 {
            let row = rows.next_row();
            assert!(["IBM", "WSO2"].contains(&row[0].as_str().expect("a text")));
            assert!(row[1].as_f64().is_some_and(|p| p.abs() <= 1.5), "{row}");
            assert_eq!(row[2], 5 + at);
        }
        let die = [("number".to_owned(), pattern("1..6"))];
        let mut rows = Rows::new(&schema(), &die, 1).expect("sound");
        let thrown: std::collections::BTreeSet<i64> = (0..200)
            .filter_map(|_| rows.next_row()[2].as_i64())
            .collect();
        assert_eq!(thrown, (1..=6).collect());
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for text in ["", "count:x", "a..b", "3..1"] {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
        let of = |name: &str| [(name.to_owned(), Pattern::Count(1))];
        assert!(Rows::new(&schema(), &of("nothing"), 1).is_err());
        assert!(Rows::new(&schema(), &of("sold"), 1).is_err());
    }
}
