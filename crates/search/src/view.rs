//! One table at one version: its rows by the index where it has them, and by looking at them where it has not.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use event::Value;
use store::indexing::Indexing;
use store::rows::Rows;
use store::scan::TableScan;
use tantivy::DocAddress;
use tantivy::query::Query;

use crate::error::Error;
use crate::index::{Fields, Match, Published, build};
use crate::matcher::{Matcher, score};
use crate::query::plan::{self, Part, Plan, Source};
use crate::rank::{Fresh, Statistics, Weights, terms};

/// Rows between two looks at the clock.
const LOOK_EVERY: u32 = 4096;

/// Bytes of the rows of one answer.
const ANSWER_MAX: usize = 128 << 20;

/// Rows whose places are remembered at once.
const CHUNK: usize = 1 << 20;

/// A table as a search sees it.
pub(crate) struct View {
    pub(crate) scan: TableScan,
    pub(crate) indexing: Arc<Indexing>,
    pub(crate) index: Option<Published>,
    pub(crate) limits: Limits,
}

/// What one search may use.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub until: Instant,
    pub time: std::time::Duration,
}

/// Where a row is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Place {
    /// The place of the file in the version, and of the row in it.
    File(u32, u32),
    Memory(u32),
}

/// A row that is meant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hit {
    pub place: Place,
    pub id: u64,
    pub score: f32,
    /// Where the index has it.
    pub address: Option<DocAddress>,
}

/// A row with what was asked of it, up to the last column that was; others are null.
pub(crate) struct Row {
    pub id: u64,
    pub time: i64,
    pub values: Vec<Value>,
}

/// A column to sort by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sort {
    pub source: Source,
    pub is_descending: bool,
}

/// Is told of each row that is meant, with its score.
pub(crate) type Each<'a> = dyn FnMut(&Rows<'_>, usize, f32) -> Result<bool, Error> + 'a;

/// Is told of each row that no index has, if it is meant, with what was found in it.
type EachFresh<'a> = dyn FnMut(&Rows<'_>, usize, Place, &Matcher<'_>) -> Result<bool, Error> + 'a;

/// The best so far.
struct Best<T> {
    entries: Vec<T>,
    most: usize,
}

impl<T> Best<T> {
    fn new(most: usize) -> Best<T> {
        Best {
            entries: Vec::new(),
            most,
        }
    }

    fn push(&mut self, entry: T, order: &dyn Fn(&T, &T) -> std::cmp::Ordering) {
        if self.most == 0 {
            return;
        }
        self.entries.push(entry);
        if self.entries.len() >= self.most.saturating_mul(2).max(1024) {
            self.cut(order);
        }
    }

    fn cut(&mut self, order: &dyn Fn(&T, &T) -> std::cmp::Ordering) {
        self.entries.sort_unstable_by(order);
        self.entries.truncate(self.most);
    }
}

impl View {
    pub(crate) fn definition(&self) -> &store::definition::Definition {
        self.scan.definition()
    }

    /// # Errors
    /// What is wrong with the query, and where.
    pub(crate) fn plan(&self, query: &str, zone: &jiff::tz::TimeZone) -> Result<Plan, Error> {
        let fields = plan::Fields {
            definition: self.definition(),
            indexing: &self.indexing,
            zone,
        };
        Ok(Plan::new(query, &fields)?)
    }

    fn check_time(&self, count: &mut u32) -> Result<(), Error> {
        *count = count.wrapping_add(1);
        match count.is_multiple_of(LOOK_EVERY) && Instant::now() > self.limits.until {
            true => Err(Error::Limit(format!(
                "the search takes longer than {:?}: narrow it",
                self.limits.time
            ))),
            false => Ok(()),
        }
    }

    // ---- rows that no index has ----

    /// Goes through the rows that no index has, whether they are meant or not.
    fn visit_fresh(
        &self,
        columns: &[usize],
        each: &mut dyn FnMut(&Rows<'_>, usize, Place) -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        let (mut failed, mut count) = (None, 0);
        let mut told = |rows: &Rows<'_>, row: usize, place: Place| {
            let told = self
                .check_time(&mut count)
                .and_then(|()| each(rows, row, place));
            told.unwrap_or_else(|error| {
                failed = Some(error);
                false
            })
        };
        let mut goes_on = true;
        for (at, (name, _)) in (0..).zip(self.scan.file_names()) {
            if self
                .index
                .as_ref()
                .is_some_and(|index| index.file(name).is_some())
            {
                continue;
            }
            goes_on = self
                .scan
                .visit_file(name, columns, None, &mut |rows, row, place| {
                    Ok(told(rows, row, Place::File(at, place)))
                })?;
            if !goes_on {
                break;
            }
        }
        if goes_on {
            goes_on = self
                .scan
                .visit_memory(&mut |rows, row, place| Ok(told(rows, row, Place::Memory(place))))?;
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(goes_on),
        }
    }

    fn each_fresh(
        &self,
        plan: &Plan,
        columns: &[usize],
        each: &mut EachFresh<'_>,
    ) -> Result<bool, Error> {
        let mut all = plan.columns();
        all.extend(columns);
        let mut matcher = Matcher::new(plan);
        self.visit_fresh(
            &all,
            &mut |rows, row, place| match matcher.matches(rows, row) {
                true => each(rows, row, place, &matcher),
                false => Ok(true),
            },
        )
    }

    /// Counts words in the rows that no index has.
    fn count_fresh(&self, plan: &Plan, fields: &Fields) -> Result<Fresh, Error> {
        let mut fresh = Fresh::default();
        let ranked = (0..plan.leaves.len()).filter(|leaf| plan.leaves[*leaf].compare.is_ranked());
        let ranked: Vec<(usize, Vec<tantivy::Term>)> = ranked
            .map(|leaf| (leaf, terms(plan, leaf, fields)))
            .collect();
        let mut matcher = Matcher::new(plan);
        self.visit_fresh(&plan.columns(), &mut |rows, row, _| {
            matcher.matches(rows, row);
            fresh.rows += 1;
            matcher.count_words(&ranked, &mut fresh);
            Ok(true)
        })?;
        Ok(fresh)
    }

    // ---- all rows ----

    /// Goes through the rows that are meant, in no order, with some of their columns; others are null. `is_ranked`:
    /// the scores are wanted.
    pub(crate) fn each(
        &self,
        plan: &Plan,
        columns: &[usize],
        is_ranked: bool,
        each: &mut Each<'_>,
    ) -> Result<(), Error> {
        let ranking = self.ranking(plan, is_ranked)?;
        let goes_on = self.each_fresh(plan, columns, &mut |rows, row, _, matcher| {
            each(rows, row, ranking.score(plan, matcher))
        })?;
        if !goes_on {
            return Ok(());
        }
        let names = self.names();
        self.each_hit(plan, &ranking, &names, columns, &mut |rows, row, hit| {
            each(rows, row, hit.score)
        })
    }

    /// Goes through the rows that the index has, with some of their columns.
    fn each_hit(
        &self,
        plan: &Plan,
        ranking: &Ranking,
        names: &[&str],
        columns: &[usize],
        each: &mut dyn FnMut(&Rows<'_>, usize, &Hit) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let mut chunk: Vec<Hit> = Vec::new();
        let mut goes_on = Ok(true);
        self.each_of_index(plan, ranking, &mut |hit| {
            let is_end = hit.is_none();
            chunk.extend(hit.map(|(hit, _)| hit));
            if is_end || chunk.len() >= CHUNK {
                if matches!(goes_on, Ok(true)) {
                    goes_on = self.visit_hits(names, &mut chunk, columns, each);
                }
                chunk.clear();
            }
            matches!(goes_on, Ok(true))
        })?;
        goes_on.map(|_| ())
    }

    /// The places of files by which hits name them.
    fn names(&self) -> Vec<&str> {
        self.scan.file_names().map(|(name, _)| name).collect()
    }

    /// Gives away what the index has of a plan, and whether a row in memory may have taken its place; `None` stands
    /// between its parts, where `false` ends it.
    fn each_of_index(
        &self,
        plan: &Plan,
        ranking: &Ranking,
        each: &mut dyn FnMut(Option<(Hit, bool)>) -> bool,
    ) -> Result<(), Error> {
        let Some(index) = &self.index else {
            return Ok(());
        };
        let query: Box<dyn Query> = build(plan, &index.fields)?;
        let statistics = Statistics {
            fresh: &ranking.fresh,
            index: Some(index),
        };
        let visible = index.visible(&self.scan);
        let each = std::cell::RefCell::new(each);
        let mut is_late = false;
        index.visit(
            &*query,
            ranking.is_wanted.then_some(&statistics as _),
            &visible,
            &mut |found: Match| {
                let hit = Hit {
                    place: Place::File(found.file, found.row),
                    id: found.id,
                    score: if ranking.is_wanted { found.score } else { 1.0 },
                    address: Some(found.address),
                };
                each.borrow_mut()(Some((hit, found.is_suspect)));
            },
            &mut || {
                is_late = Instant::now() > self.limits.until;
                each.borrow_mut()(None) && !is_late
            },
        )?;
        match is_late {
            true => Err(Error::Limit(format!(
                "the search takes longer than {:?}: narrow it",
                self.limits.time
            ))),
            false => Ok(()),
        }
    }

    fn ranking(&self, plan: &Plan, is_wanted: bool) -> Result<Ranking, Error> {
        let mut ranking = Ranking {
            is_wanted: is_wanted && !plan.leaves.is_empty(),
            fresh: Fresh::default(),
            weights: None,
        };
        if !ranking.is_wanted || !plan.leaves.iter().any(|leaf| leaf.compare.is_ranked()) {
            return Ok(ranking);
        }
        let fields = match &self.index {
            Some(index) => Some(Arc::clone(&index.fields)),
            None => Fields::new(self.definition(), &self.indexing).map(Arc::new),
        };
        if let Some(fields) = fields {
            ranking.fresh = self.count_fresh(plan, &fields)?;
            let statistics = Statistics {
                fresh: &ranking.fresh,
                index: self.index.as_ref(),
            };
            ranking.weights = Some(Weights::new(plan, &fields, &statistics)?);
        }
        Ok(ranking)
    }

    /// Reads the rows of hits in files, with some of their columns; those that are hidden are left out.
    fn visit_hits(
        &self,
        names: &[&str],
        hits: &mut [Hit],
        columns: &[usize],
        each: &mut dyn FnMut(&Rows<'_>, usize, &Hit) -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        hits.sort_unstable_by_key(|hit| hit.place);
        let (mut begin, mut count) = (0, 0);
        while let Some(Hit {
            place: Place::File(file, _),
            ..
        }) = hits.get(begin)
        {
            let is_other = |hit: &Hit| !matches!(hit.place, Place::File(f, _) if f == *file);
            let len = hits[begin..].iter().position(is_other);
            let end = len.map_or(hits.len(), |len| begin + len);
            let of_file = &hits[begin..end];
            let rows_of = of_file.iter().map(|hit| match hit.place {
                Place::File(_, row) | Place::Memory(row) => row,
            });
            let places: Vec<u32> = rows_of.collect();
            let name = names.get(*file as usize).copied().unwrap_or_default();
            let mut failed = None;
            let goes_on =
                self.scan
                    .visit_file(name, columns, Some(&places), &mut |rows, row, place| {
                        let at = places.partition_point(|other| *other < place);
                        let told = self.check_time(&mut count);
                        let told = told.and_then(|()| each(rows, row, &of_file[at]));
                        Ok(told.unwrap_or_else(|error| {
                            failed = Some(error);
                            false
                        }))
                    })?;
            if let Some(error) = failed {
                return Err(error);
            }
            if !goes_on {
                return Ok(false);
            }
            begin = end;
        }
        Ok(true)
    }

    /// Those of some hits that no row in memory has taken the place of.
    fn not_hidden(&self, mut hits: Vec<Hit>) -> Result<Vec<Hit>, Error> {
        let mut left = Vec::new();
        self.visit_hits(&self.names(), &mut hits, &[], &mut |_, _, hit| {
            left.push(*hit);
            Ok(true)
        })?;
        Ok(left)
    }

    /// # Errors
    /// The table or the index cannot be read; it takes too long.
    pub(crate) fn count(&self, plan: &Plan) -> Result<u64, Error> {
        if plan.root == Part::Nothing {
            return Ok(0);
        }
        if plan.root == Part::All
            && let Some(count) = self.scan.count()
        {
            return Ok(count);
        }
        let (mut count, mut suspects) = (0, Vec::new());
        self.each_fresh(plan, &[], &mut |_, _, _, _| {
            count += 1;
            Ok(true)
        })?;
        let ranking = self.ranking(plan, false)?;
        let mut sure = 0;
        self.each_of_index(plan, &ranking, &mut |hit| {
            match hit {
                Some((hit, true)) => suspects.push(hit),
                Some(_) => sure += 1,
                None => {}
            }
            true
        })?;
        Ok(count + sure + self.not_hidden(suspects)?.len() as u64)
    }

    /// The rows that fit best, the best first; of equals the oldest.
    pub(crate) fn best(&self, plan: &Plan, most: usize) -> Result<Vec<Hit>, Error> {
        let order = |a: &Hit, b: &Hit| b.score.total_cmp(&a.score).then(a.id.cmp(&b.id));
        let mut best = Best::new(most);
        if plan.root == Part::Nothing || most == 0 {
            return Ok(Vec::new());
        }
        let ranking = self.ranking(plan, true)?;
        self.each_fresh(plan, &[], &mut |rows, row, place, matcher| {
            let hit = Hit {
                place,
                id: rows.ids[row],
                score: ranking.score(plan, matcher),
                address: None,
            };
            best.push(hit, &order);
            Ok(true)
        })?;
        let mut suspects = Vec::new();
        self.each_of_index(plan, &ranking, &mut |hit| {
            match hit {
                Some((hit, true)) => suspects.push(hit),
                Some((hit, false)) => best.push(hit, &order),
                None => {}
            }
            true
        })?;
        for hit in self.not_hidden(suspects)? {
            best.push(hit, &order);
        }
        best.cut(&order);
        Ok(best.entries)
    }

    /// The rows for which a function of some columns and of the score gives the most; of equals the oldest.
    pub(crate) fn best_by(
        &self,
        plan: &Plan,
        columns: &[usize],
        is_ranked: bool,
        most: usize,
        function: &dyn Fn(&Rows<'_>, usize, f32) -> f64,
    ) -> Result<Vec<Hit>, Error> {
        type Entry = (f64, Hit);
        let order = |a: &Entry, b: &Entry| b.0.total_cmp(&a.0).then(a.1.id.cmp(&b.1.id));
        let mut best: Best<Entry> = Best::new(most);
        let ranking = self.ranking(plan, is_ranked)?;
        self.each_fresh(plan, columns, &mut |rows, row, place, matcher| {
            let score = ranking.score(plan, matcher);
            let hit = Hit {
                place,
                id: rows.ids[row],
                score,
                address: None,
            };
            best.push((function(rows, row, score), hit), &order);
            Ok(true)
        })?;
        self.each_hit(
            plan,
            &ranking,
            &self.names(),
            columns,
            &mut |rows, row, hit| {
                best.push((function(rows, row, hit.score), *hit), &order);
                Ok(true)
            },
        )?;
        best.cut(&order);
        Ok(best.entries.into_iter().map(|(_, hit)| hit).collect())
    }

    /// The first rows in the order of some columns; of equals the oldest.
    pub(crate) fn sorted(&self, plan: &Plan, by: &[Sort], most: usize) -> Result<Vec<Hit>, Error> {
        type Entry = (Vec<Value>, Hit);
        let order = |a: &Entry, b: &Entry| {
            let mut ordered = by.iter().zip(a.0.iter().zip(&b.0)).map(|(sort, (a, b))| {
                let ordering = compare(a, b);
                match sort.is_descending {
                    true => ordering.reverse(),
                    false => ordering,
                }
            });
            let first = ordered.find(|ordering| ordering.is_ne());
            first.unwrap_or_else(|| a.1.id.cmp(&b.1.id))
        };
        let columns = by.iter().filter_map(|sort| match sort.source {
            Source::Column(column) => Some(column),
            Source::Id | Source::Timestamp => None,
        });
        let columns: Vec<usize> = columns.collect();
        let keys = |rows: &Rows<'_>, row: usize| -> Vec<Value> {
            let values = by.iter().map(|sort| value(rows, row, sort.source));
            values.collect()
        };
        let mut best: Best<Entry> = Best::new(most);
        self.each_fresh(plan, &columns, &mut |rows, row, place, _| {
            let hit = Hit {
                place,
                id: rows.ids[row],
                score: 1.0,
                address: None,
            };
            best.push((keys(rows, row), hit), &order);
            Ok(true)
        })?;
        let (names, ranking) = (self.names(), self.ranking(plan, false)?);
        self.each_hit(plan, &ranking, &names, &columns, &mut |rows, row, hit| {
            best.push((keys(rows, row), *hit), &order);
            Ok(true)
        })?;
        best.cut(&order);
        Ok(best.entries.into_iter().map(|(_, hit)| hit).collect())
    }

    /// The rows of hits in their order, with some of their columns.
    ///
    /// # Errors
    /// They are too many for memory, or cannot be read.
    pub(crate) fn fetch(&self, hits: &[Hit], columns: &[usize]) -> Result<Vec<Row>, Error> {
        let mut fetched = Fetched {
            columns,
            places: hits
                .iter()
                .zip(0..)
                .map(|(hit, at)| (hit.place, at))
                .collect(),
            rows: hits.iter().map(|_| None).collect(),
            bytes: 0,
        };
        let index = self.index.as_ref();
        let index = index.filter(|index| index.fields.keeps_rows());
        let (mut in_files, mut in_memory): (Vec<Hit>, bool) = (Vec::new(), false);
        for (at, hit) in hits.iter().enumerate() {
            match (index, hit.address, hit.place) {
                (Some(index), Some(address), _) => {
                    let (time, values) = index.kept(address)?;
                    fetched.put(at, hit.id, time, |column| values[column].clone())?;
                }
                (_, _, Place::File(..)) => in_files.push(*hit),
                (_, _, Place::Memory(_)) => in_memory = true,
            }
        }
        self.visit_hits(
            &self.names(),
            &mut in_files,
            columns,
            &mut |rows, row, hit| fetched.take(rows, row, hit.place).map(|()| true),
        )?;
        if in_memory {
            let mut failed = None;
            self.scan.visit_memory(&mut |rows, row, place| {
                failed = fetched.take(rows, row, Place::Memory(place)).err();
                Ok(failed.is_none())
            })?;
            if let Some(error) = failed {
                return Err(error);
            }
        }
        Ok(fetched.rows.into_iter().flatten().collect())
    }

    /// Rows whose times are within bounds (the second is not), files with older rows first, with some of their columns.
    pub(crate) fn rows(
        &self,
        from: i64,
        to: i64,
        columns: &[usize],
        each: &mut dyn FnMut(&Rows<'_>, usize) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let (mut failed, mut count) = (None, 0);
        let mut told = |rows: &Rows<'_>, row: usize| {
            let is_in = (from..to).contains(&rows.times[row]);
            let told = self.check_time(&mut count);
            let told = told.and_then(|()| if is_in { each(rows, row) } else { Ok(true) });
            told.unwrap_or_else(|error| {
                failed = Some(error);
                false
            })
        };
        let mut goes_on = true;
        for name in self.scan.files_between(from, to) {
            goes_on = self
                .scan
                .visit_file(name, columns, None, &mut |rows, row, _| Ok(told(rows, row)))?;
            if !goes_on {
                break;
            }
        }
        if goes_on {
            self.scan
                .visit_memory(&mut |rows, row, _| Ok(told(rows, row)))?;
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

/// Rows that come in any order, and where they belong.
struct Fetched<'a> {
    columns: &'a [usize],
    places: HashMap<Place, usize>,
    rows: Vec<Option<Row>>,
    bytes: usize,
}

impl Fetched<'_> {
    fn take(&mut self, rows: &Rows<'_>, row: usize, place: Place) -> Result<(), Error> {
        match self.places.get(&place) {
            Some(at) => self.put(*at, rows.ids[row], rows.times[row], |column| {
                rows.columns[column].value(row)
            }),
            None => Ok(()),
        }
    }

    fn put(
        &mut self,
        at: usize,
        id: u64,
        time: i64,
        value: impl Fn(usize) -> Value,
    ) -> Result<(), Error> {
        let width = self.columns.iter().max().map_or(0, |last| last + 1);
        let mut values = vec![Value::Null; width];
        for column in self.columns {
            values[*column] = value(*column);
            self.bytes += size_of::<Value>() + values[*column].heap_bytes();
        }
        self.rows[at] = Some(Row { id, time, values });
        match self.bytes > ANSWER_MAX {
            true => Err(Error::Limit(format!(
                "the answer has more than {} MB: ask for fewer rows or columns",
                ANSWER_MAX >> 20
            ))),
            false => Ok(()),
        }
    }
}

/// How rows are ranked.
struct Ranking {
    /// Else each row counts 1.
    is_wanted: bool,
    fresh: Fresh,
    /// Where words are compared.
    weights: Option<Weights>,
}

impl Ranking {
    /// Of the row that was looked at last.
    fn score(&self, plan: &Plan, matcher: &Matcher<'_>) -> f32 {
        if !self.is_wanted {
            return 1.0;
        }
        let weigh = |leaf: usize, found: u32, length: u32| match &self.weights {
            Some(weights) => weights.score(leaf, found, length),
            None => 1.0,
        };
        score(&plan.root, &matcher.counts(), &weigh).unwrap_or(0.0)
    }
}

pub(crate) fn value(rows: &Rows<'_>, row: usize, source: Source) -> Value {
    match source {
        Source::Id => Value::Long(i64::try_from(rows.ids[row]).unwrap_or(i64::MAX)),
        Source::Timestamp => Value::Long(rows.times[row]),
        Source::Column(column) => rows.columns[column].value(row),
    }
}

/// The order of two values of a column; null is the smallest.
pub(crate) fn compare(a: &Value, b: &Value) -> std::cmp::Ordering {
    match (a, b) {
        (Value::Null, Value::Null) => std::cmp::Ordering::Equal,
        (Value::Null, _) => std::cmp::Ordering::Less,
        (_, Value::Null) => std::cmp::Ordering::Greater,
        (Value::Str(a), Value::Str(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Int(_) | Value::Long(_), Value::Int(_) | Value::Long(_)) => {
            a.to_long().cmp(&b.to_long())
        }
        _ => {
            let number = |value: &Value| value.to_double().unwrap_or(f64::NAN);
            number(a).total_cmp(&number(b))
        }
    }
}
