//! Sums and the like by category.

use std::collections::BTreeMap;

use event::{Type, Value};
use serde_json::{Map, Value as Json, json};

use super::body::Body;
use super::records::{json as value_json, record};
use super::{Call, Reply};
use crate::error::Error;
use crate::query::plan::{LEVELS_MAX, categories, category_text};
use crate::search::Search;
use crate::view::View;

/// Groups of an answer.
const GROUPS_MAX: usize = 100_000;

/// Requests that are answered at once.
const REQUESTS_MAX: usize = 100;

/// What is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Sum,
    Avg,
    Count,
    Min,
    Max,
    First,
}

struct Field {
    kind: Kind,
    /// None where rows are counted.
    column: Option<usize>,
    alias: String,
}

/// What was computed so far.
#[derive(Clone, Default)]
struct Group {
    rows: u64,
    sums: Vec<Sum>,
}

#[derive(Clone, Default)]
struct Sum {
    count: u64,
    sum: f64,
    min: Option<f64>,
    max: Option<f64>,
    /// With the number of its row: the oldest is the first.
    first: Option<(u64, Value)>,
}

impl Search {
    pub(super) fn aggregates(&self, call: &Call) -> Result<Reply, Error> {
        let records = self.aggregated(&Body::parse(&call.body)?)?;
        Ok(Reply::ok(&records))
    }

    pub(super) fn multi_aggregates(&self, call: &Call) -> Result<Reply, Error> {
        let requests = Body::parse_list(&call.body)?;
        if requests.len() > REQUESTS_MAX {
            return Err(Error::Limit(format!(
                "{REQUESTS_MAX} requests are answered at once"
            )));
        }
        let answers = requests.iter().map(|request| self.aggregated(request));
        let answers: Result<Vec<Json>, Error> = answers.collect();
        Ok(Reply::ok(&Json::Array(answers?)))
    }

    fn aggregated(&self, body: &Body) -> Result<Json, Error> {
        let (mut view, name) = self.view_of_body(body)?;
        let query = body.text("query")?.unwrap_or_default();
        let mut plan = view.plan(query, &self.options().zone)?;
        let fields = fields(&view, body)?;
        let parent = body.texts("parentPath")?;
        let level = body.whole("aggregateLevel")?.unwrap_or(0);
        let most = body.whole("noOfRecords")?.filter(|most| *most > 0);
        let group = body.text("groupByField")?.filter(|name| !name.is_empty());
        let facet = group.map(|name| view.facet(name)).transpose()?;
        let levels = parent.len().saturating_add(level).saturating_add(1);
        if levels > LEVELS_MAX {
            return Err(Error::Request(format!(
                "a facet has {LEVELS_MAX} levels at most"
            )));
        }
        let mut columns: Vec<usize> = fields.iter().filter_map(|field| field.column).collect();
        columns.extend(facet);
        if let (Some(facet), false) = (facet, parent.is_empty()) {
            plan.within(facet, &parent);
        }
        if facet.is_none() && most.is_none() {
            return Err(Error::Request(
                "without 'groupByField', 'noOfRecords' must be above 0".to_owned(),
            ));
        }
        if most.is_some_and(|most| most > self.options().rows) && facet.is_none() {
            return Err(Error::Limit(format!(
                "'noOfRecords' is {} at most",
                self.options().rows
            )));
        }
        let groups = self.with(&mut view, &name, &mut |view| {
            let mut groups: BTreeMap<Vec<String>, Group> = BTreeMap::new();
            if let Some(facet) = facet {
                view.each(&plan, &columns, false, &mut |rows, row, _| {
                    let text = category_text(&rows.columns[facet], row);
                    let mut path = categories(text.as_deref());
                    if path.len() < levels {
                        return Ok(true);
                    }
                    path.truncate(levels);
                    let value = |column: usize| rows.columns[column].value(row);
                    groups.entry(path).or_default().add(&fields, rows.ids[row], &value);
                    match groups.len() > GROUPS_MAX {
                        true => Err(Error::Limit(format!(
                            "there are more than {GROUPS_MAX} groups: narrow the query, or ask in SQL"
                        ))),
                        false => Ok(true),
                    }
                })?;
                return Ok(groups);
            }
            let hits = view.best(&plan, most.unwrap_or(0))?;
            let group = groups.entry(Vec::new()).or_default();
            for row in view.fetch(&hits, &columns)? {
                group.add(&fields, row.id, &|column| row.values[column].clone());
            }
            Ok(groups)
        })?;
        let table = name.to_uppercase();
        let query = if query.trim().is_empty() {
            "*:*"
        } else {
            query
        };
        let records = groups.into_iter().map(|(path, sums)| {
            let mut values = Map::new();
            for (at, field) in fields.iter().enumerate() {
                values.insert(field.alias.clone(), sums.value(at, field.kind));
            }
            if let Some(group) = group {
                values.insert(group.to_owned(), json!(path));
            }
            values.insert("luceneQuery".to_owned(), Json::from(query));
            values.insert("noOfRecords".to_owned(), Json::from(sums.rows));
            record(&Json::Null, &table, 0, values)
        });
        Ok(records.collect())
    }
}

fn fields(view: &View, body: &Body) -> Result<Vec<Field>, Error> {
    let fields = body.objects("aggregateFields")?;
    if fields.is_empty() {
        return Err(Error::Request("'aggregateFields' is missing".to_owned()));
    }
    let fields = fields.into_iter().map(|field| {
        let name = field.needed_text("aggregate")?.to_ascii_uppercase();
        let kind = match name.as_str() {
            "SUM" => Kind::Sum,
            "AVG" => Kind::Avg,
            "COUNT" => Kind::Count,
            "MIN" => Kind::Min,
            "MAX" => Kind::Max,
            "FIRST" => Kind::First,
            _ => {
                return Err(Error::Request(format!(
                    "there is no aggregate '{name}': write SUM, AVG, COUNT, MIN, MAX or FIRST"
                )));
            }
        };
        let mut names = field.texts("fields")?;
        // As it was written before.
        names.extend(field.text("fieldName")?.map(str::to_owned));
        let column = match (names.as_slice(), kind) {
            ([], Kind::Count) => None,
            ([name], _) => Some(view.column(name)?),
            ([], _) => {
                return Err(Error::Request(format!(
                    "an aggregate {name} names no field"
                )));
            }
            _ => {
                return Err(Error::Request(format!(
                    "an aggregate {name} takes one field"
                )));
            }
        };
        let is_number = column.is_none_or(|column| view.definition().ty(column).is_numeric());
        let is_object = column.is_some_and(|column| view.definition().ty(column) == Type::Object);
        if !is_number && !matches!(kind, Kind::Count | Kind::First) || is_object {
            return Err(Error::Request(format!("{name} needs a column of numbers")));
        }
        Ok(Field {
            kind,
            column,
            alias: field.needed_text("alias")?.to_owned(),
        })
    });
    fields.collect()
}

impl Group {
    fn add(&mut self, fields: &[Field], id: u64, value: &dyn Fn(usize) -> Value) {
        self.rows += 1;
        self.sums.resize_with(fields.len(), Sum::default);
        for (field, sum) in fields.iter().zip(&mut self.sums) {
            let Some(value) = field.column.map(value) else {
                sum.count += 1;
                continue;
            };
            if value.is_null() {
                continue;
            }
            sum.count += 1;
            if let Some(number) = value.to_double() {
                sum.sum += number;
                sum.min = Some(sum.min.map_or(number, |min| min.min(number)));
                sum.max = Some(sum.max.map_or(number, |max| max.max(number)));
            }
            if field.kind == Kind::First && sum.first.as_ref().is_none_or(|(first, _)| id < *first)
            {
                sum.first = Some((id, value));
            }
        }
    }

    fn value(&self, at: usize, kind: Kind) -> Json {
        let Some(sum) = self.sums.get(at) else {
            return match kind {
                Kind::Count => json!(0),
                Kind::Sum => json!(0.0),
                _ => Json::Null,
            };
        };
        match kind {
            Kind::Sum => json!(sum.sum),
            Kind::Avg if sum.count == 0 => Json::Null,
            Kind::Avg => json!(sum.sum / sum.count as f64),
            Kind::Count => json!(sum.count),
            Kind::Min => json!(sum.min),
            Kind::Max => json!(sum.max),
            Kind::First => sum
                .first
                .as_ref()
                .map_or(Json::Null, |(_, value)| value_json(value)),
        }
    }
}
