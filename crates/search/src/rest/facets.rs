//! Drilling down into categories and ranges.

use std::collections::HashMap;

use serde_json::{Map, Value as Json, json};
use store::rows::Rows;

use super::body::Body;
use super::{Call, Reply, sorts};
use crate::error::Error;
use crate::function::Function;
use crate::query::plan::{Plan, Source, categories, category_text};
use crate::search::Search;
use crate::view::{Hit, View, value};

/// Categories below one.
const CATEGORIES_MAX: usize = 100_000;

/// Ranges of a request.
const RANGES_MAX: usize = 1_000;

/// A score function with the columns that it needs.
pub(super) struct Scoring {
    function: Function,
    columns: Vec<usize>,
    is_ranked: bool,
}

impl Scoring {
    fn of(view: &View, body: &Body) -> Result<Scoring, Error> {
        let text = body.text("scoreFunction")?.unwrap_or_default();
        if text.trim().is_empty() {
            return Ok(Scoring {
                function: Function::one(),
                columns: Vec::new(),
                is_ranked: false,
            });
        }
        let columns = std::cell::RefCell::new(Vec::new());
        let function = Function::parse(text, &|name| match name {
            "_score" => Some(0),
            "_timestamp" => Some(1),
            _ => {
                let column = view.column(name).ok()?;
                let own = &view.definition().schema.attributes[column].name;
                if !view.indexing.flags(own).is_score {
                    return None;
                }
                let mut columns = columns.borrow_mut();
                let known = columns.iter().position(|known| *known == column);
                let at = known.unwrap_or(columns.len());
                if known.is_none() {
                    columns.push(column);
                }
                Some(at + 2)
            }
        })?;
        Ok(Scoring {
            function,
            columns: columns.into_inner(),
            is_ranked: text.contains("_score"),
        })
    }

    fn value(&self, rows: &Rows<'_>, row: usize, score: f32) -> f64 {
        let mut values = vec![f64::from(score), rows.times[row] as f64];
        let columns = self.columns.iter();
        values.extend(
            columns.map(|column| rows.columns[*column].value(row).to_double().unwrap_or(0.0)),
        );
        self.function.value(&values)
    }
}

/// Goes through the rows of a plan with what the function gives for each.
fn each_scored(
    view: &View,
    plan: &Plan,
    scoring: &Scoring,
    columns: &[usize],
    each: &mut dyn FnMut(&Rows<'_>, usize, f64) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut all = scoring.columns.clone();
    all.extend(columns);
    view.each(plan, &all, scoring.is_ranked, &mut |rows, row, score| {
        each(rows, row, scoring.value(rows, row, score)).map(|()| true)
    })
}

impl Search {
    pub(super) fn drilldown(&self, call: &Call) -> Result<Reply, Error> {
        let body = Body::parse(&call.body)?;
        let (mut view, name) = self.view_of_body(&body)?;
        let plan = view.plan_within(&body, &self.options().zone)?;
        let scoring = Scoring::of(&view, &body)?;
        let sort = sorts(&view, &body)?;
        let columns = view.columns(&body.texts("columns")?)?;
        let (start, most) = self.window(&body, "recordStart", "recordCount")?;
        let has_function = body
            .text("scoreFunction")?
            .is_some_and(|text| !text.trim().is_empty());
        let rows = self.with(&mut view, &name, &mut |view| {
            let hits = match sort.as_slice() {
                [] if has_function => best_by(view, &plan, &scoring, most)?,
                [] => view.best(&plan, most)?,
                sort => view.sorted(&plan, sort, most)?,
            };
            view.fetch(&hits[start.min(hits.len())..], &columns)
        })?;
        Ok(Reply {
            status: 200,
            body: view.records(&name, &rows, &columns),
        })
    }

    pub(super) fn drilldown_score_count(&self, call: &Call) -> Result<Reply, Error> {
        let body = Body::parse(&call.body)?;
        let (mut view, name) = self.view_of_body(&body)?;
        let plan = view.plan_within(&body, &self.options().zone)?;
        let scoring = Scoring::of(&view, &body)?;
        let sum = self.with(&mut view, &name, &mut |view| {
            let mut sum = 0.0;
            each_scored(view, &plan, &scoring, &[], &mut |_, _, score| {
                sum += score;
                Ok(())
            })?;
            Ok(sum)
        })?;
        Ok(Reply::ok(&json!(sum)))
    }

    pub(super) fn range_count(&self, call: &Call) -> Result<Reply, Error> {
        let body = Body::parse(&call.body)?;
        let (mut view, name) = self.view_of_body(&body)?;
        let plan = view.plan_within(&body, &self.options().zone)?;
        let scoring = Scoring::of(&view, &body)?;
        let field = body.needed_text("rangeField")?;
        let source = view.source(field)?;
        let columns = match source {
            Source::Column(column) if view.definition().ty(column).is_numeric() => vec![column],
            Source::Column(_) => {
                return Err(Error::Request(format!("column '{field}' is not a number")));
            }
            Source::Id | Source::Timestamp => Vec::new(),
        };
        let asked = body.objects("ranges")?;
        if asked.is_empty() || asked.len() > RANGES_MAX {
            return Err(Error::Request(format!(
                "'ranges' has from 1 to {RANGES_MAX} entries"
            )));
        }
        let mut ranges = Vec::new();
        for range in &asked {
            let missing = |name: &str| Error::Request(format!("'{name}' of a range is missing"));
            let from = range.number("from")?.ok_or_else(|| missing("from"))?;
            let to = range.number("to")?.ok_or_else(|| missing("to"))?;
            ranges.push((range.text("label")?.unwrap_or_default(), from, to));
        }
        let sums = self.with(&mut view, &name, &mut |view| {
            let mut sums = vec![0.0; ranges.len()];
            each_scored(view, &plan, &scoring, &columns, &mut |rows, row, score| {
                let Some(value) = value(rows, row, source).to_double() else {
                    return Ok(());
                };
                for ((_, from, to), sum) in ranges.iter().zip(&mut sums) {
                    if (*from..*to).contains(&value) {
                        *sum += score;
                    }
                }
                Ok(())
            })?;
            Ok(sums)
        })?;
        let counted = ranges.iter().zip(sums).map(|((label, from, to), score)| {
            json!({"label": label, "from": from, "to": to, "score": score})
        });
        Ok(Reply::ok(&counted.collect()))
    }

    pub(super) fn facets(&self, call: &Call) -> Result<Reply, Error> {
        let body = Body::parse(&call.body)?;
        let (mut view, name) = self.view_of_body(&body)?;
        let facet = view.facet(body.needed_text("fieldName")?)?;
        let path = body.texts("categoryPath")?;
        let mut plan = view.plan(
            body.text("query")?.unwrap_or_default(),
            &self.options().zone,
        )?;
        if !path.is_empty() {
            plan.within(facet, &path);
        }
        let scoring = Scoring::of(&view, &body)?;
        let (start, count) = (body.whole("start")?.unwrap_or(0), body.whole("count")?);
        let sums = self.with(&mut view, &name, &mut |view| {
            let mut sums: HashMap<String, f64> = HashMap::new();
            each_scored(view, &plan, &scoring, &[facet], &mut |rows, row, score| {
                let own = categories(category_text(&rows.columns[facet], row).as_deref());
                let Some(child) = own.get(path.len()) else {
                    return Ok(());
                };
                *sums.entry(child.clone()).or_default() += score;
                match sums.len() > CATEGORIES_MAX {
                    true => Err(Error::Limit(format!(
                        "there are more than {CATEGORIES_MAX} categories: narrow the query, or ask in SQL"
                    ))),
                    false => Ok(()),
                }
            })?;
            Ok(sums)
        })?;
        let all = sums.len();
        let mut sums: Vec<(String, f64)> = sums.into_iter().collect();
        sums.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let count = count.filter(|count| *count > 0).unwrap_or(all);
        let shown = sums.into_iter().skip(start).take(count);
        let shown: Map<String, Json> = shown.map(|(child, score)| (child, json!(score))).collect();
        Ok(Reply::ok(&json!({
            "categoryPath": path,
            "categoryCount": all,
            "categories": shown,
        })))
    }
}

/// The rows for which a function gives the most.
fn best_by(view: &View, plan: &Plan, scoring: &Scoring, most: usize) -> Result<Vec<Hit>, Error> {
    view.best_by(
        plan,
        &scoring.columns,
        scoring.is_ranked,
        most,
        &|rows, row, score| scoring.value(rows, row, score),
    )
}
