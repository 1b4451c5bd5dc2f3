//! A query in terms of the columns of a table: what the index and the scan of fresh rows both work from.

use std::borrow::Cow;
use std::ops::{Bound as Limit, Range};

use event::column::View;
use event::{Cells, Type};
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use lang::suggest::nearest;
use store::definition::{Definition, ID, TIMESTAMP};
use store::indexing::Indexing;

use super::parse::parse;
use super::{Bound, Clause, Closeness, Node, Occur, Piece, Placed, QueryError, Test};
use crate::analyze::{WORD_MAX, keyword, lower, word_list};

/// What a facet has where there is no value, as in DAS.
pub(crate) const NO_CATEGORY: &str = "EMPTY_FACET_VALUE!";

/// Levels of a facet; what lies deeper is one name.
pub(crate) const LEVELS_MAX: usize = 32;

/// Words of a phrase, and of one whose words may be moved.
const WORDS_MAX: usize = 256;
const MOVED_MAX: usize = 64;

/// Which rows are meant.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Plan {
    pub root: Part,
    /// Comparisons that [`Part::Leaf`] names by number.
    pub leaves: Vec<Leaf>,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Part {
    All,
    Nothing,
    Leaf(usize),
    Bool {
        must: Vec<Part>,
        should: Vec<Part>,
        not: Vec<Part>,
    },
    Boost(Box<Part>, f32),
}

/// A comparison of one column.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Leaf {
    pub source: Source,
    pub compare: Compare,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Source {
    Id,
    Timestamp,
    Column(usize),
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Compare {
    /// A word of the text.
    Word(String),
    /// Words of the text behind each other, and how far they may be moved in all.
    Phrase {
        words: Vec<String>,
        slop: u32,
    },
    WordLike(Vec<Piece>),
    WordNear {
        word: String,
        edits: u8,
    },
    WordBetween(Limit<String>, Limit<String>),
    /// The text as a whole.
    Whole(String),
    WholeLike(Vec<Piece>),
    WholeNear {
        text: String,
        edits: u8,
    },
    WholeBetween(Limit<String>, Limit<String>),
    Longs(Limit<i64>, Limit<i64>),
    Doubles(Limit<f64>, Limit<f64>),
    Id(u64),
    /// The path of the facet begins so.
    Category(Vec<String>),
    /// There is a value.
    Exists,
}

impl Compare {
    /// Do words that are rare count for more?
    pub fn is_ranked(&self) -> bool {
        matches!(self, Compare::Word(_) | Compare::Phrase { .. })
    }
}

/// The columns that a query may name.
pub(crate) struct Fields<'a> {
    pub definition: &'a Definition,
    pub indexing: &'a Indexing,
    /// Of times that name none.
    pub zone: &'a TimeZone,
}

/// The text that the value of a facet has.
pub(crate) fn category_text<'r>(cells: &Cells<'r>, row: usize) -> Option<Cow<'r, str>> {
    if cells.is_null(row) {
        return None;
    }
    Some(match cells.view() {
        View::Str(texts) => Cow::Borrowed(texts.get(row)),
        _ => Cow::Owned(event::text::to_text(&cells.value(row))),
    })
}

/// The path of a facet's value.
pub(crate) fn categories(value: Option<&str>) -> Vec<String> {
    match value {
        None | Some("") => vec![NO_CATEGORY.to_owned()],
        Some(text) => {
            let levels = keyword(text).splitn(LEVELS_MAX, ',');
            levels.map(str::to_owned).collect()
        }
    }
}

impl Plan {
    /// # Errors
    /// What is wrong with the query, and where.
    pub fn new(text: &str, fields: &Fields<'_>) -> Result<Plan, QueryError> {
        let node = parse(text)?;
        let mut leaves = Vec::new();
        let root = fields.node(&node, &mut leaves)?.unwrap_or(Part::Nothing);
        Ok(Plan { root, leaves })
    }

    /// The same rows, of those with a category alone.
    pub fn within(&mut self, column: usize, path: &[String]) {
        self.leaves.push(Leaf {
            source: Source::Column(column),
            compare: Compare::Category(path.to_vec()),
        });
        let category = Part::Leaf(self.leaves.len() - 1);
        let root = std::mem::replace(&mut self.root, Part::Nothing);
        self.root = Part::Bool {
            // What a category adds to the score is the same for all.
            must: vec![root, Part::Boost(Box::new(category), 0.0)],
            should: Vec::new(),
            not: Vec::new(),
        };
    }

    /// Columns whose values it needs.
    pub fn columns(&self) -> Vec<usize> {
        let columns = self.leaves.iter().filter_map(|leaf| match leaf.source {
            Source::Column(column) => Some(column),
            Source::Id | Source::Timestamp => None,
        });
        let mut columns: Vec<usize> = columns.collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }
}

/// A column as a query names it.
struct Named<'a> {
    name: &'a str,
    source: Source,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Id,
    Words,
    Whole,
    Number(Type),
}

impl Fields<'_> {
    /// `None`: there is nothing in it to look for, such as a text without words.
    fn node(&self, node: &Node, leaves: &mut Vec<Leaf>) -> Result<Option<Part>, QueryError> {
        match node {
            Node::All => Ok(Some(Part::All)),
            Node::Group(clauses) => self.group(clauses, leaves),
            Node::Field { field, test, place } => {
                let named = self.named(field)?;
                self.compare(&named, test, place, leaves)
            }
        }
    }

    fn group(
        &self,
        clauses: &[Clause],
        leaves: &mut Vec<Leaf>,
    ) -> Result<Option<Part>, QueryError> {
        let (mut must, mut should, mut not) = (Vec::new(), Vec::new(), Vec::new());
        for clause in clauses {
            let Some(mut part) = self.node(&clause.node, leaves)? else {
                continue;
            };
            if clause.boost != 1.0 {
                part = Part::Boost(Box::new(part), clause.boost);
            }
            match clause.occur {
                Occur::Must => must.push(part),
                Occur::Should => should.push(part),
                Occur::Not => not.push(part),
            }
        }
        if must.is_empty() && should.is_empty() {
            return Ok(Some(Part::Nothing));
        }
        if must.len() + should.len() == 1 && not.is_empty() {
            return Ok(must.pop().or(should.pop()));
        }
        Ok(Some(Part::Bool { must, should, not }))
    }

    fn named<'b>(&self, field: &'b Placed) -> Result<Named<'b>, QueryError> {
        let name = field.text.as_str();
        let of = |source, kind| Ok(Named { name, source, kind });
        if name.eq_ignore_ascii_case(ID) {
            return of(Source::Id, Kind::Id);
        }
        if name.eq_ignore_ascii_case(TIMESTAMP) {
            return of(Source::Timestamp, Kind::Number(Type::Long));
        }
        let attributes = &self.definition.schema.attributes;
        let column = |name: &str| {
            attributes
                .iter()
                .position(|a| a.name.eq_ignore_ascii_case(name))
        };
        if let Some(at) = column(name) {
            let attribute = &attributes[at];
            if !self.indexing.flags(&attribute.name).is_searched() {
                let message = format!("the field '{name}' is not indexed: {}", self.indexed());
                return Err(QueryError::new(message, field.place.clone()));
            }
            let kind = match attribute.ty {
                Type::String | Type::Bool => Kind::Words,
                ty => Kind::Number(ty),
            };
            return of(Source::Column(at), kind);
        }
        // `_name` is the whole text of a column, as in DAS.
        if let Some(at) = name.strip_prefix('_').and_then(column)
            && attributes[at].ty == Type::String
            && self.indexing.flags(&attributes[at].name).is_searched()
        {
            return of(Source::Column(at), Kind::Whole);
        }
        let searched = || {
            let names = attributes.iter().map(|a| a.name.as_str());
            names.filter(|name| self.indexing.flags(name).is_searched())
        };
        let more = match nearest(name, searched()) {
            Some(near) => format!("did you mean '{near}'?"),
            None => self.indexed(),
        };
        Err(QueryError::new(
            format!("there is no field '{name}': {more}"),
            field.place.clone(),
        ))
    }

    fn indexed(&self) -> String {
        let names = self.definition.schema.attributes.iter().map(|a| &a.name);
        let names: Vec<&str> = names
            .filter(|name| self.indexing.flags(name).is_searched())
            .map(String::as_str)
            .collect();
        match names.is_empty() {
            true => "no column of the table is; option 'schema' of its store names those that are"
                .to_owned(),
            false => format!("indexed are {}, {ID}, {TIMESTAMP}", names.join(", ")),
        }
    }

    fn compare(
        &self,
        named: &Named<'_>,
        test: &Test,
        place: &Range<usize>,
        leaves: &mut Vec<Leaf>,
    ) -> Result<Option<Part>, QueryError> {
        let wrong = |message: String| QueryError::new(message, place.clone());
        let compare = match (named.kind, test) {
            (_, Test::Exists) => match named.source {
                Source::Column(_) => Compare::Exists,
                Source::Id | Source::Timestamp => return Ok(Some(Part::All)),
            },
            (Kind::Id, Test::Term(text) | Test::Phrase { text, .. }) => match text.parse() {
                Ok(id) => Compare::Id(id),
                Err(_) => return Ok(Some(Part::Nothing)),
            },
            (Kind::Id, _) => {
                return Err(wrong(format!(
                    "the field '{}' takes the id of a row",
                    named.name
                )));
            }
            (Kind::Number(ty), test) => self.number(named, ty, test, &wrong)?,
            (Kind::Words, test) => return words(named, test, &wrong, leaves),
            (Kind::Whole, test) => whole(test),
        };
        leaves.push(Leaf {
            source: named.source,
            compare,
        });
        Ok(Some(Part::Leaf(leaves.len() - 1)))
    }

    fn number(
        &self,
        named: &Named<'_>,
        ty: Type,
        test: &Test,
        wrong: &dyn Fn(String) -> QueryError,
    ) -> Result<Compare, QueryError> {
        let name = named.name;
        let (from, to) = match test {
            Test::Term(text) | Test::Phrase { text, .. } => {
                let bound = Bound::Included(text.clone());
                (bound.clone(), bound)
            }
            Test::Range { from, to } => (from.clone(), to.clone()),
            _ => {
                return Err(wrong(format!(
                    "the field '{name}' has numbers, which are compared with a number or a range"
                )));
            }
        };
        let must = |what: &str| wrong(format!("the field '{name}' must contain {what}"));
        Ok(match ty {
            Type::Int => {
                let parse = |text: &str| text.parse::<i32>().map(i64::from).ok();
                let parse = |text: &str| parse(text.trim()).ok_or_else(|| must("integers"));
                Compare::Longs(limit(&from, &parse)?, limit(&to, &parse)?)
            }
            Type::Float => {
                let parse = |text: &str| text.trim().parse::<f32>().ok().map(f64::from);
                let parse = |text: &str| number_of(parse(text)).ok_or_else(|| must("float values"));
                Compare::Doubles(limit(&from, &parse)?, limit(&to, &parse)?)
            }
            Type::Double => {
                let parse = |text: &str| text.trim().parse::<f64>().ok();
                let parse =
                    |text: &str| number_of(parse(text)).ok_or_else(|| must("double values"));
                Compare::Doubles(limit(&from, &parse)?, limit(&to, &parse)?)
            }
            _ => {
                let parse = |text: &str| self.long(text.trim()).ok_or_else(|| must("long values"));
                Compare::Longs(limit(&from, &parse)?, limit(&to, &parse)?)
            }
        })
    }

    /// A whole number, or a time as DAS takes it: `2026-11-28`, `2026-11-28 17:00:00`, and the same with a zone.
    fn long(&self, text: &str) -> Option<i64> {
        if let Ok(number) = text.parse() {
            return Some(number);
        }
        let millis = |time: DateTime, zone: &TimeZone| {
            let time = time.to_zoned(zone.clone()).ok()?;
            Some(time.timestamp().as_millisecond())
        };
        if let Ok(date) = Date::strptime("%Y-%m-%d", text) {
            return millis(date.to_datetime(jiff::civil::Time::midnight()), self.zone);
        }
        let (time, zone) = match text.get(..19) {
            Some(time) => (time, text[19..].trim()),
            None => return None,
        };
        let time = DateTime::strptime("%Y-%m-%d %H:%M:%S", time).ok()?;
        match zone {
            "" => millis(time, self.zone),
            zone => millis(time, &zone_of(zone)?),
        }
    }
}

/// A zone as Java's `z` reads it: a name, `GMT+01:00`, `+0100`.
fn zone_of(text: &str) -> Option<TimeZone> {
    let offset = text.strip_prefix("GMT").or(text.strip_prefix("UTC"));
    let offset = offset.unwrap_or(text);
    if offset.is_empty() || text == "Z" {
        return Some(TimeZone::UTC);
    }
    if let Some(sign) = offset.strip_prefix(['+', '-']) {
        let digits: String = sign.chars().filter(char::is_ascii_digit).collect();
        let (hours, minutes) = match digits.len() {
            1 | 2 => (digits.parse::<i32>().ok()?, 0),
            4 => (digits[..2].parse().ok()?, digits[2..].parse::<i32>().ok()?),
            _ => return None,
        };
        let seconds = hours * 3600 + minutes * 60;
        let seconds = if offset.starts_with('-') {
            -seconds
        } else {
            seconds
        };
        return Some(jiff::tz::Offset::from_seconds(seconds).ok()?.to_time_zone());
    }
    TimeZone::get(text).ok()
}

/// -0 is 0; NaN is no number that can be compared.
fn number_of(value: Option<f64>) -> Option<f64> {
    value
        .filter(|v| !v.is_nan())
        .map(|v| if v == 0.0 { 0.0 } else { v })
}

fn limit<T>(
    bound: &Bound,
    parse: &dyn Fn(&str) -> Result<T, QueryError>,
) -> Result<Limit<T>, QueryError> {
    Ok(match bound {
        Bound::Open => Limit::Unbounded,
        Bound::Included(text) => Limit::Included(parse(text)?),
        Bound::Excluded(text) => Limit::Excluded(parse(text)?),
    })
}

fn text_limit(bound: &Bound, form: &dyn Fn(&str) -> String) -> Limit<String> {
    match bound {
        Bound::Open => Limit::Unbounded,
        Bound::Included(text) => Limit::Included(form(text)),
        Bound::Excluded(text) => Limit::Excluded(form(text)),
    }
}

/// How many characters may differ, by Lucene's rule.
fn edits(closeness: Closeness, text: &str) -> u8 {
    match closeness {
        Closeness::Edits(edits) => edits,
        Closeness::Similarity(0.0) => 0,
        Closeness::Similarity(part) => {
            let edits = f64::from(1.0 - part) * text.chars().count() as f64;
            edits.min(2.0) as u8
        }
    }
}

fn lower_pieces(pieces: &[Piece]) -> Vec<Piece> {
    let lower = pieces.iter().flat_map(|piece| match piece {
        Piece::Char(c) => c.to_lowercase().map(Piece::Char).collect::<Vec<_>>(),
        piece => vec![*piece],
    });
    lower.collect()
}

/// A comparison of the words of a text.
fn words(
    named: &Named<'_>,
    test: &Test,
    wrong: &dyn Fn(String) -> QueryError,
    leaves: &mut Vec<Leaf>,
) -> Result<Option<Part>, QueryError> {
    let mut leaf = |compare| {
        leaves.push(Leaf {
            source: named.source,
            compare,
        });
        Part::Leaf(leaves.len() - 1)
    };
    let bounded = |words: Vec<String>| match words.len() > WORDS_MAX {
        true => Err(wrong(format!("a text has more than {WORDS_MAX} words"))),
        false => Ok(words),
    };
    Ok(match test {
        Test::Term(text) => {
            // As in Lucene: any of the words that a term falls into.
            let mut words = bounded(word_list(text))?;
            match words.len() {
                0 => None,
                1 => words.pop().map(|word| leaf(Compare::Word(word))),
                _ => Some(Part::Bool {
                    must: Vec::new(),
                    should: words
                        .into_iter()
                        .map(|word| leaf(Compare::Word(word)))
                        .collect(),
                    not: Vec::new(),
                }),
            }
        }
        Test::Phrase { text, slop } => {
            let mut words = bounded(word_list(text))?;
            match words.len() {
                0 => None,
                1 => words.pop().map(|word| leaf(Compare::Word(word))),
                len if *slop > 0 && len > MOVED_MAX => {
                    return Err(wrong(format!(
                        "a phrase whose words may be moved has more than {MOVED_MAX} words"
                    )));
                }
                _ => Some(leaf(Compare::Phrase { words, slop: *slop })),
            }
        }
        Test::Wildcard(pieces) => Some(leaf(Compare::WordLike(lower_pieces(pieces)))),
        Test::Fuzzy { text, closeness } => {
            let word = lower(text);
            if word.chars().count() > WORD_MAX + 2 {
                // No word is that long.
                return Ok(Some(Part::Nothing));
            }
            Some(leaf(match edits(*closeness, &word) {
                0 => Compare::Word(word),
                edits => Compare::WordNear { word, edits },
            }))
        }
        Test::Range { from, to } => {
            let compare = Compare::WordBetween(text_limit(from, &lower), text_limit(to, &lower));
            Some(leaf(compare))
        }
        Test::Exists => Some(leaf(Compare::Exists)),
    })
}

/// A comparison of a text as a whole.
fn whole(test: &Test) -> Compare {
    let cut = |text: &str| keyword(text).to_owned();
    match test {
        Test::Term(text) | Test::Phrase { text, .. } => Compare::Whole(cut(text)),
        Test::Wildcard(pieces) => Compare::WholeLike(pieces.clone()),
        Test::Fuzzy { text, closeness } => match edits(*closeness, text) {
            0 => Compare::Whole(cut(text)),
            edits => Compare::WholeNear {
                text: cut(text),
                edits,
            },
        },
        Test::Range { from, to } => {
            Compare::WholeBetween(text_limit(from, &cut), text_limit(to, &cut))
        }
        Test::Exists => Compare::Exists,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use event::{Attribute, Schema};

    use super::*;

    /// A table with each type of column.
    pub(crate) fn table() -> (Definition, Indexing) {
        let attributes = [
            ("title", Type::String),
            ("region", Type::String),
            ("n", Type::Int),
            ("size", Type::Long),
            ("rate", Type::Float),
            ("price", Type::Double),
            ("open", Type::Bool),
            ("note", Type::String),
        ];
        let attributes = attributes.iter().map(|(name, ty)| Attribute {
            name: (*name).to_owned(),
            ty: *ty,
        });
        let schema = Schema {
            name: "docs".into(),
            attributes: attributes.collect(),
        };
        let definition = Definition::new("docs", schema, Vec::new()).expect("plain names");
        let flags = "title -i, region -i -f, n -i -sp, size -i, rate -i, price -i -sp, open -i";
        let indexing = Indexing::parse(flags, &definition).expect("flags");
        (definition, indexing)
    }

    pub(crate) fn plan(text: &str) -> Result<Plan, QueryError> {
        let (definition, indexing) = table();
        let zone = TimeZone::fixed(jiff::tz::offset(1));
        Plan::new(
            text,
            &Fields {
                definition: &definition,
                indexing: &indexing,
                zone: &zone,
            },
        )
    }

    fn leaf(text: &str) -> Compare {
        let plan = plan(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(plan.root, Part::Leaf(0), "{text}");
        plan.leaves[0].compare.clone()
    }

    #[test]
    fn values_are_read_by_the_types_of_their_columns() {
        let equal = |v: i64| Compare::Longs(Limit::Included(v), Limit::Included(v));
        for (text, compare) in [
            ("n:-5", equal(-5)),
            ("n:\"7\"", equal(7)),
            (
                "n:[1 TO 5}",
                Compare::Longs(Limit::Included(1), Limit::Excluded(5)),
            ),
            (
                "n:[* TO 5]",
                Compare::Longs(Limit::Unbounded, Limit::Included(5)),
            ),
            ("size:\"1970-01-02\"", equal(23 * 3_600_000)),
            ("size:\"1970-01-01 01:00:01\"", equal(1000)),
            ("size:\"1970-01-01 01:00:01 GMT\"", equal(3_601_000)),
            ("size:\"1970-01-01 01:00:01 +0200\"", equal(-3_599_000)),
            ("size:\"1970-01-01 01:00:01 Europe/Berlin\"", equal(1000)),
            (
                "_timestamp:[0 TO *}",
                Compare::Longs(Limit::Included(0), Limit::Unbounded),
            ),
            (
                "rate:0.1",
                Compare::Doubles(
                    Limit::Included(f64::from(0.1_f32)),
                    Limit::Included(f64::from(0.1_f32)),
                ),
            ),
            ("_id:17", Compare::Id(17)),
            ("title:Fox", Compare::Word("fox".into())),
            (
                "title:\"Quick fox\"~2",
                Compare::Phrase {
                    words: vec!["quick".into(), "fox".into()],
                    slop: 2,
                },
            ),
            (
                "title:Fx~",
                Compare::WordNear {
                    word: "fx".into(),
                    edits: 2,
                },
            ),
            (
                "title:quick~0.7",
                Compare::WordNear {
                    word: "quick".into(),
                    edits: 1,
                },
            ),
            ("_title:\"Quick fox\"", Compare::Whole("Quick fox".into())),
            ("open:TRUE", Compare::Word("true".into())),
            ("price:*", Compare::Exists),
        ] {
            assert_eq!(leaf(text), compare, "{text}");
        }
    }

    #[test]
    fn what_a_column_cannot_have_is_said() {
        for (text, says) in [
            (
                "n:x",
                "Invalid query, the field 'n' must contain integers (at character 3)",
            ),
            ("n:5000000000", "must contain integers"),
            ("size:x", "must contain long values"),
            ("size:\"1970-13-01\"", "must contain long values"),
            ("price:[1 TO x]", "must contain double values"),
            ("rate:NaN", "must contain float values"),
            ("n:5*", "compared with a number or a range"),
            (
                "note:x",
                "the field 'note' is not indexed: indexed are title, region",
            ),
            ("titel:x", "did you mean 'title'?"),
            ("_n:5", "there is no field '_n'"),
            ("_id:[1 TO 2]", "takes the id of a row"),
        ] {
            let error = plan(text).expect_err(text).to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn what_has_no_words_is_left_out() {
        assert_eq!(plan("title:\"--\"").expect("read").root, Part::Nothing);
        assert_eq!(plan("-title:x").expect("read").root, Part::Nothing);
        assert_eq!(
            plan("+title:\"--\" +title:x").expect("read").root,
            Part::Leaf(0)
        );
        assert_eq!(plan("").expect("read").root, Part::All);
        let both = plan("title:foo\\-bar").expect("read");
        assert_eq!(both.leaves.len(), 2);
    }
}
