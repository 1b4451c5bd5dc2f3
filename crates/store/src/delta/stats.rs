//! What a file says of its columns, by which readers pass over it.

use std::cmp::Ordering;

use event::column::View;
use event::{Cells, Type, Value};
use serde_json::{Map, Number, Value as Json, json};

use crate::definition::{Definition, ID, TIMESTAMP};

/// Bytes of the longest text that is said.
const TEXT_MAX: usize = 64;

/// Columns of a table, then [`ID`] and [`TIMESTAMP`].
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Stats {
    pub rows: u64,
    columns: Vec<ColumnStats>,
}

#[derive(Clone, PartialEq, Debug, Default)]
struct ColumnStats {
    min: Option<Value>,
    max: Option<Value>,
    nulls: Option<u64>,
    /// Some value cannot be said, so that there is neither smallest nor greatest.
    is_open: bool,
}

/// The order of two values of one type.
fn order(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Str(a), Value::Str(b)) => Some(a.cmp(b)),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::Int(_) | Value::Long(_), Value::Int(_) | Value::Long(_)) => {
            a.to_long().partial_cmp(&b.to_long())
        }
        _ => a.to_double()?.partial_cmp(&b.to_double()?),
    }
}

impl ColumnStats {
    fn add(&mut self, value: Value) {
        let is_smaller = |a: &Value, b: &Option<Value>| {
            b.as_ref()
                .is_none_or(|b| order(a, b) == Some(Ordering::Less))
        };
        let is_greater = |a: &Value, b: &Option<Value>| {
            b.as_ref()
                .is_none_or(|b| order(a, b) == Some(Ordering::Greater))
        };
        if is_smaller(&value, &self.min) {
            self.min = Some(value.clone());
        }
        if is_greater(&value, &self.max) {
            self.max = Some(value);
        }
    }

    fn add_all<T: Copy>(
        &mut self,
        values: &[T],
        cells: &Cells<'_>,
        is_less: fn(&T, &T) -> bool,
        of: fn(T) -> Value,
    ) {
        let some = values
            .iter()
            .enumerate()
            .filter(|(row, _)| !cells.is_null(*row));
        let mut bounds: Option<(T, T)> = None;
        for (_, value) in some {
            let (min, max) = bounds.get_or_insert((*value, *value));
            if is_less(value, min) {
                *min = *value;
            }
            if is_less(max, value) {
                *max = *value;
            }
        }
        if let Some((min, max)) = bounds {
            self.add(of(min));
            self.add(of(max));
        }
    }
}

impl Stats {
    pub fn new(definition: &Definition) -> Stats {
        let fresh = ColumnStats {
            nulls: Some(0),
            ..ColumnStats::default()
        };
        Stats {
            rows: 0,
            columns: vec![fresh; definition.width() + 2],
        }
    }

    /// Adds the values of a column.
    pub fn add(&mut self, column: usize, cells: &Cells<'_>, len: usize) {
        let stats = &mut self.columns[column];
        let nulls = (0..len).filter(|row| cells.is_null(*row)).count() as u64;
        stats.nulls = stats.nulls.map(|before| before + nulls);
        match cells.view() {
            View::Bool(v) => stats.add_all(v, cells, |a, b| !a & b, Value::Bool),
            View::Int(v) => stats.add_all(v, cells, |a, b| a < b, Value::Int),
            View::Long(v) => stats.add_all(v, cells, |a, b| a < b, Value::Long),
            View::Float(v) => {
                // Readers differ on where NaN stands.
                stats.is_open |= v.iter().any(|v| v.is_nan());
                stats.add_all(v, cells, |a, b| a < b, Value::Float);
            }
            View::Double(v) => {
                stats.is_open |= v.iter().any(|v| v.is_nan());
                stats.add_all(v, cells, |a, b| a < b, Value::Double);
            }
            View::Str(texts) => {
                let some = || {
                    (0..len)
                        .filter(|row| !cells.is_null(*row))
                        .map(|row| texts.get(row))
                };
                for text in [some().min(), some().max()].into_iter().flatten() {
                    stats.is_open |= text.len() > TEXT_MAX;
                    if !stats.is_open {
                        stats.add(Value::str(text));
                    }
                }
            }
            View::Any(_) => stats.is_open = true,
        }
    }

    /// Adds a number or time of rows.
    pub fn add_longs(&mut self, column: usize, values: impl Iterator<Item = i64>) {
        for value in values {
            self.columns[column].add(Value::Long(value));
        }
    }

    /// Smallest and greatest value of a column, where they are known.
    pub fn bounds(&self, column: usize) -> Option<(&Value, &Value)> {
        let stats = self.columns.get(column).filter(|stats| !stats.is_open)?;
        stats.min.as_ref().zip(stats.max.as_ref())
    }

    /// Smallest and greatest number of a row.
    pub fn ids(&self) -> Option<(u64, u64)> {
        let (min, max) = self.bounds(self.columns.len() - 2)?;
        Some((
            u64::try_from(min.to_long()?).ok()?,
            u64::try_from(max.to_long()?).ok()?,
        ))
    }

    /// Smallest and greatest time of a row; `None` too where a row may lack one.
    pub fn times(&self) -> Option<(i64, i64)> {
        let column = self.columns.len() - 1;
        let (min, max) = self.bounds(column)?;
        let has_all = self.columns[column].nulls == Some(0);
        min.to_long().zip(max.to_long()).filter(|_| has_all)
    }

    pub fn to_json(&self, definition: &Definition) -> String {
        let (mut min, mut max, mut nulls) = (Map::new(), Map::new(), Map::new());
        for (column, stats) in self.columns.iter().enumerate() {
            let name = name(definition, column);
            let said =
                |value: &Option<Value>| value.as_ref().and_then(to_json).filter(|_| !stats.is_open);
            if let (Some(a), Some(b)) = (said(&stats.min), said(&stats.max)) {
                min.insert(name.to_owned(), a);
                max.insert(name.to_owned(), b);
            }
            if let Some(count) = stats.nulls {
                nulls.insert(name.to_owned(), Json::from(count));
            }
        }
        json!({"numRecords": self.rows, "minValues": min, "maxValues": max, "nullCount": nulls})
            .to_string()
    }

    /// What another writer may have said; nothing where it cannot be read.
    pub fn from_json(text: &str, definition: &Definition) -> Stats {
        let json: Json = serde_json::from_str(text).unwrap_or_default();
        let of = |part: &str, column: usize| {
            let ty = match column < definition.width() {
                true => definition.ty(column),
                false => Type::Long,
            };
            from_json(&json[part][name(definition, column)], ty)
        };
        let columns = (0..definition.width() + 2).map(|column| ColumnStats {
            min: of("minValues", column),
            max: of("maxValues", column),
            nulls: json["nullCount"][name(definition, column)].as_u64(),
            is_open: false,
        });
        Stats {
            rows: json["numRecords"].as_u64().unwrap_or_default(),
            columns: columns.collect(),
        }
    }
}

fn name(definition: &Definition, column: usize) -> &str {
    match definition.schema.attributes.get(column) {
        Some(attribute) => &attribute.name,
        None if column == definition.width() => ID,
        None => TIMESTAMP,
    }
}

fn to_json(value: &Value) -> Option<Json> {
    Some(match value {
        Value::Int(v) => Json::from(*v),
        Value::Long(v) => Json::from(*v),
        Value::Float(v) => Json::Number(Number::from_f64(f64::from(*v))?),
        Value::Double(v) => Json::Number(Number::from_f64(*v)?),
        Value::Str(v) => Json::from(&**v),
        // Delta says nothing of truth values.
        Value::Bool(_) | Value::Null | Value::Object(_) => return None,
    })
}

fn from_json(json: &Json, ty: Type) -> Option<Value> {
    Some(match ty {
        Type::Int => Value::Int(i32::try_from(json.as_i64()?).ok()?),
        Type::Long => Value::Long(json.as_i64()?),
        Type::Float => Value::Float(json.as_f64()? as f32),
        Type::Double => Value::Double(json.as_f64()?),
        // Another writer may have cut a long one; a greatest that was cut ends with a character that
        // makes it greater.
        Type::String => Value::str(json.as_str()?),
        Type::Bool | Type::Object => return None,
    })
}
