//! Second runs that show whence a difference comes: another case that differs from the first in one
//! thing alone, on both engines.

use std::collections::BTreeMap;

use lang::ast::{Element, Handler, Input, Output, Query, SingleInput, StreamKind};
use serde_json::{Value as Json, json};
use testkit::mode::Mode;

use super::engines::{Judge, agrees, before, differs};
use super::maker::Made;
use super::variants::{Variant, variants, with_current_matches};
use super::worker::with_rows;

/// How often Siddhi is asked the same again.
const ASKED_AGAIN: usize = 6;

/// Words of apps in which something is done by a timer.
const TIMED: &[&str] = &[
    "define trigger",
    "ime(",
    "imeBatch(",
    "timeLength(",
    "session(",
    "cron(",
    "delay(",
    "timeLengthBatch(",
    " for ",
    " output ",
    "slack(",
];

impl Judge {
    /// The ruling that a second run proves to be behind a difference from `ours`, which was run
    /// with compat; `warned` are the numbers of the rulings that the app leans on nevertheless.
    pub(super) fn proven(
        &self,
        made: &Made,
        siddhi: &Json,
        ours: &Json,
        warned: &[String],
    ) -> anyhow::Result<Option<&'static str>> {
        if self.fails_unseen(made, siddhi, ours)? {
            return Ok(Some(
                "17: a function fails in Siddhi where no row shows; with constants instead both agree",
            ));
        }
        if self.fails_in_match(made, siddhi, ours)? {
            return Ok(Some(
                "17: a match fails in Siddhi and leaves its event half taken; with constants instead both agree",
            ));
        }
        if self.rounds_long_sums(made)? {
            return Ok(Some(
                "60: a long is taken out of a sum through a double; with smaller numbers both agree",
            ));
        }
        if serves_keys_in_other_order(made, siddhi, ours) {
            return Ok(Some(
                "the keys of a `cron` window are served in the order of a hash map",
            ));
        }
        if self.finds_in_other_order(made, siddhi, ours)? {
            return Ok(Some(
                "an on-demand query depends on the order of a hash map; of the rows alone both find the same",
            ));
        }
        if let Some(reason) = self.differs_by_one_part(made, siddhi, ours)? {
            return Ok(Some(reason));
        }
        if let Some(reason) = self.proven_by_twin(made, siddhi, ours, warned)? {
            return Ok(Some(reason));
        }
        if self.varies(made, ours)? {
            return Ok(Some(
                "Siddhi's answer changes from run to run; ours is one of them",
            ));
        }
        Ok(None)
    }

    /// Siddhi evaluates what is selected also for rows that say an aggregate begins anew, and for
    /// those that expire unseen; a function that fails there takes the chunk with it. Then rows are
    /// missing in Siddhi at first, and the case with constants in place of the functions is the same.
    fn fails_unseen(&self, made: &Made, siddhi: &Json, ours: &Json) -> anyhow::Result<bool> {
        if made.steady["app"] == made.case["app"] {
            return Ok(false);
        }
        let Some(at) = lacks_rows_at(made, siddhi, ours) else {
            return Ok(false);
        };
        // What fails in a timer's call, or below a trigger, shows nowhere.
        let app = made.case["app"].as_str().unwrap_or_default();
        let may_hide = TIMED.iter().any(|word| app.contains(word));
        let failed = self.first_failure(made)?;
        let failed_before = failed.is_some_and(|(failed, _)| failed <= at);
        if !may_hide && !failed_before {
            return Ok(false);
        }
        self.agree(made, &made.steady)
    }

    /// Where several elements of a pattern read one stream, a match whose select clause fails keeps
    /// its event from the elements that have not seen it yet. Then nothing differs before a failure,
    /// and the case with constants in place of the functions is the same.
    fn fails_in_match(&self, made: &Made, siddhi: &Json, ours: &Json) -> anyhow::Result<bool> {
        let app = made.case["app"].as_str().unwrap_or_default();
        if made.steady["app"] == made.case["app"] || !app.contains("e1=") {
            return Ok(false);
        }
        let (Some(at), Some((failed, _))) =
            (differ_at(made, siddhi, ours), self.first_failure(made)?)
        else {
            return Ok(false);
        };
        Ok(failed <= at && self.agree(made, &made.steady)?)
    }

    /// Numbers that a double does not hold are summed, and smaller ones in their place come out the
    /// same.
    fn rounds_long_sums(&self, made: &Made) -> anyhow::Result<bool> {
        const LARGE: &str = "9007199254740993";
        let text = made.case.to_string();
        if !text.contains("sum(") || !text.contains(LARGE) {
            return Ok(false);
        }
        let smaller = serde_json::from_str(&text.replace(LARGE, "1000003"))?;
        self.agree(made, &smaller)
    }

    /// Only answers differ, from what has the order of a hash map; all rows that are found there,
    /// without selecting, are the same.
    fn finds_in_other_order(
        &self,
        made: &Made,
        siddhi: &Json,
        ours: &Json,
    ) -> anyhow::Result<bool> {
        let without = |result: &Json| {
            let mut result = result.clone();
            result["answers"] = json!([]);
            result
        };
        let is_elsewhere = differs(made, &without(siddhi), &without(ours)).is_some();
        if is_elsewhere || !made.any_order.contains("answers") {
            return Ok(false);
        }
        let mut case = made.case.clone();
        for step in case["steps"].as_array_mut().into_iter().flatten() {
            let query = step["query"].as_str().unwrap_or_default();
            if query.starts_with("from ")
                && let Some((found, _)) = query.split_once(" select ")
            {
                step["query"] = json!(format!("{found} select *"));
            }
        }
        Ok(case != made.case && self.agree(made, &case)?)
    }

    /// What one part of a query brings out in Siddhi: without it both agree.
    fn differs_by_one_part(
        &self,
        made: &Made,
        siddhi: &Json,
        ours: &Json,
    ) -> anyhow::Result<Option<&'static str>> {
        let app = made.case["app"].as_str().unwrap_or_default();
        if let Some(siddhi) = with_current_matches(app, siddhi)
            && differs(made, &siddhi, ours).is_none()
        {
            return Ok(Some(
                "a match that was marked as expired behind the selector; as CURRENT both agree",
            ));
        }
        for Variant { reason, app } in variants(app) {
            let mut case = made.case.clone();
            case["app"] = json!(app);
            if self.agree(made, &case)? {
                return Ok(Some(reason));
            }
        }
        Ok(None)
    }

    /// What hangs on random names, as the order of jobs that Quartz runs at one time.
    fn varies(&self, made: &Made, ours: &Json) -> anyhow::Result<bool> {
        for _ in 0..ASKED_AGAIN {
            let again = with_rows(self.ask_anew(&made.case)?);
            if again["status"] == "ok" && differs(made, &again, ours).is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether both give the same for a variant of a case, with compat or without.
    pub(super) fn agree(&self, made: &Made, case: &Json) -> anyhow::Result<bool> {
        let siddhi = with_rows(self.siddhi(case)?);
        if siddhi["status"] != "ok" {
            return Ok(false);
        }
        for compat in [true, false] {
            let ours = self.ours(case, &[Mode::One], compat)?;
            if ours.is_ok_and(|ours| agrees(made, &siddhi, &ours.first)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// When they first differ.
fn differ_at(made: &Made, siddhi: &Json, ours: &Json) -> Option<i64> {
    let mut times: Vec<i64> = [siddhi, ours].into_iter().flat_map(times).collect();
    times.sort_unstable();
    times.dedup();
    times.into_iter().find(|&at| {
        let (theirs, own) = (before(made, siddhi, at + 1), before(made, ours, at + 1));
        differs(made, &theirs, &own).is_some()
    })
}

/// When they first differ, if Siddhi then has fewer rows than we, and more nowhere.
pub(super) fn lacks_rows_at(made: &Made, siddhi: &Json, ours: &Json) -> Option<i64> {
    let at = differ_at(made, siddhi, ours)?;
    let (theirs, own) = (rows_at(siddhi, at), rows_at(ours, at));
    // Siddhi has no callbacks of queries in a partition: only what both tell of counts.
    let pairs = || {
        let both = theirs.iter();
        both.filter_map(|(name, rows)| Some((rows, own.get(name)?)))
    };
    let lacks = pairs().all(|(theirs, own)| theirs <= own) && pairs().any(|(t, o)| t < o);
    lacks.then_some(at)
}

/// A `cron` window in a partition has one job for all keys, which goes through them in the order of
/// a hash map: at each time the same chunks come out, or they do where the results first differ, and
/// what follows is what other queries make of the order.
fn serves_keys_in_other_order(made: &Made, siddhi: &Json, ours: &Json) -> bool {
    let app = made.case["app"].as_str().unwrap_or_default();
    let Some(targets) = cron_targets(app) else {
        return false;
    };
    if differs(made, &by_time(siddhi), &by_time(ours)).is_none() {
        return true;
    }
    let Some(at) = differ_at(made, siddhi, ours) else {
        return false;
    };
    let chunks = |result: &Json, target: &str| -> Vec<String> {
        let all = result["streams"][target].as_array().into_iter().flatten();
        let then = all.filter(|chunk| chunk["at"] == at);
        then.map(Json::to_string).collect()
    };
    let sorted = |mut chunks: Vec<String>| {
        chunks.sort_unstable();
        chunks
    };
    let pairs = || {
        let targets = targets.iter();
        targets.map(|target| (chunks(siddhi, target), chunks(ours, target)))
    };
    pairs().any(|(theirs, own)| theirs != own)
        && pairs().all(|(theirs, own)| sorted(theirs) == sorted(own))
}

/// The streams that queries on a `cron` window in a partition write; `None` if there are no such
/// queries.
fn cron_targets(app: &str) -> Option<Vec<String>> {
    let parsed = lang::parse(app).app;
    let inside = parsed.elements.iter().flat_map(|element| match element {
        Element::Partition(partition) => &*partition.queries,
        _ => &[],
    });
    let has_cron = |input: &SingleInput| {
        let is_cron = |h: &Handler| matches!(h, Handler::Window(call) if call.name.text == "cron");
        input.handlers.iter().any(is_cron)
    };
    let on_cron: Vec<&Query> = inside
        .filter(|query| match &query.input {
            Input::Single(input) => has_cron(input),
            Input::Join(join) => has_cron(&join.left) || has_cron(&join.right),
            Input::Pattern(_) | Input::Anonymous(_) => false,
        })
        .collect();
    if on_cron.is_empty() {
        return None;
    }
    let targets = on_cron.iter().filter_map(|query| match &query.output {
        Output::Insert { target, .. } if target.kind == StreamKind::Plain => {
            Some(target.name.text.clone())
        }
        _ => None,
    });
    Some(targets.collect())
}

/// The chunks of each stream and query in the order of time and then of their text.
fn by_time(result: &Json) -> Json {
    let mut result = result.clone();
    for field in ["streams", "queries"] {
        for (_, chunks) in result[field].as_object_mut().into_iter().flatten() {
            if let Some(chunks) = chunks.as_array_mut() {
                chunks.sort_by_cached_key(|chunk| (chunk["at"].as_i64(), chunk.to_string()));
            }
        }
    }
    result
}

/// The chunks of all streams and queries, by name.
fn chunks(result: &Json) -> impl Iterator<Item = &Vec<Json>> {
    ["streams", "queries"]
        .into_iter()
        .flat_map(|field| result[field].as_object().into_iter().flatten())
        .filter_map(|(_, chunks)| chunks.as_array())
}

fn times(result: &Json) -> Vec<i64> {
    let all = chunks(result).flatten();
    all.filter_map(|chunk| chunk["at"].as_i64()).collect()
}

/// Rows of each stream and query at a time, by its kind and name.
fn rows_at(result: &Json, at: i64) -> BTreeMap<(&str, &str), usize> {
    let rows = |chunk: &Json| -> usize {
        let parts = ["events", "in", "out"].iter();
        parts
            .filter_map(|part| chunk[part].as_array())
            .map(Vec::len)
            .sum()
    };
    let mut all = BTreeMap::new();
    for field in ["streams", "queries"] {
        for (name, chunks) in result[field].as_object().into_iter().flatten() {
            let chunks = chunks.as_array().into_iter().flatten();
            let then = chunks.filter(|chunk| chunk["at"] == at);
            all.insert((field, name.as_str()), then.map(rows).sum());
        }
    }
    all
}
