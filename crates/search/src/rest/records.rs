//! Rows as records of DAS: `{"id":…,"tableName":…,"timestamp":…,"values":{…}}`.

use event::{Object, Value};
use serde_json::{Map, Number, Value as Json};

use super::body::Body;
use super::{Call, Out, Reply};
use crate::error::Error;
use crate::search::{Search, name_of};
use crate::view::{Row, View};

/// Bytes of a block of an answer.
const BLOCK: usize = 64 << 10;

/// Keys that are looked up at once.
const KEYS_MAX: usize = 10_000;

/// A value as JSON has it. Numbers that it does not have (NaN, infinity) are texts.
pub(super) fn json(value: &Value) -> Json {
    let real = |value: f64| match Number::from_f64(value) {
        Some(number) => Json::Number(number),
        None => Json::from(value.to_string()),
    };
    match value {
        Value::Null => Json::Null,
        Value::Bool(v) => Json::from(*v),
        Value::Int(v) => Json::from(*v),
        Value::Long(v) => Json::from(*v),
        // The shortest digits of the float, not those of the double that it would become.
        Value::Float(v) => real(v.to_string().parse().unwrap_or(f64::from(*v))),
        Value::Double(v) => real(*v),
        Value::Str(v) => Json::from(&**v),
        Value::Object(Object::Bytes(bytes)) => Json::from(String::from_utf8_lossy(bytes)),
        other => Json::from(event::text::to_text(other)),
    }
}

/// Appends a record.
pub(super) fn record(id: &Json, table: &str, time: i64, values: Map<String, Json>) -> Json {
    let mut record = Map::new();
    record.insert("id".to_owned(), id.clone());
    record.insert("tableName".to_owned(), Json::from(table));
    record.insert("timestamp".to_owned(), Json::from(time));
    record.insert("values".to_owned(), Json::Object(values));
    Json::Object(record)
}

impl View {
    fn values(&self, values: &[Value], columns: &[usize], has_nulls: bool) -> Map<String, Json> {
        let attributes = &self.definition().schema.attributes;
        let values = columns
            .iter()
            .map(|column| (attributes[*column].name.clone(), json(&values[*column])));
        values
            .filter(|(_, value)| has_nulls || !value.is_null())
            .collect()
    }

    /// Rows as an array; null is written, as DAS does where it searches.
    pub(super) fn records(&self, name: &str, rows: &[Row], columns: &[usize]) -> Vec<u8> {
        let table = name.to_uppercase();
        let mut out = vec![b'['];
        for (at, row) in rows.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            let values = self.values(&row.values, columns, true);
            let record = record(&Json::from(row.id.to_string()), &table, row.time, values);
            out.extend_from_slice(record.to_string().as_bytes());
        }
        out.push(b']');
        out
    }
}

impl Search {
    /// Rows of a table by their times; they are sent as they are read.
    pub(super) fn records(&self, call: &Call, out: &mut Out<'_>) -> Result<Reply, Error> {
        let view = self.view(call.table())?;
        let number = |name: &str, otherwise: i64| match call.param(name) {
            None => Ok(otherwise),
            Some(text) => text.parse::<i64>().map_err(|_| {
                Error::Request(format!(
                    "'{text}' in the place of {{{name}}} is not a whole number"
                ))
            }),
        };
        let (from, to) = (number("from", i64::MIN)?, number("to", i64::MAX)?);
        let (start, count) = (number("start", 0)?, number("count", -1)?);
        if start < 0 {
            return Err(Error::Request("the first row is 0".to_owned()));
        }
        let names: Vec<String> = call
            .asked("columns")
            .unwrap_or_default()
            .split(',')
            .map(|name| name.trim().to_owned())
            .filter(|name| !name.is_empty())
            .collect();
        let columns = view.columns(&names)?;
        let table = name_of(call.table()).to_uppercase();
        let (mut seen, mut sent) = (0, 0);
        let mut block = vec![b'['];
        view.rows(from, to, &columns, &mut |rows, row| {
            seen += 1;
            if seen <= start {
                return Ok(true);
            }
            if count >= 0 && sent >= count {
                return Ok(false);
            }
            if sent > 0 {
                block.push(b',');
            }
            sent += 1;
            let mut values = vec![Value::Null; rows.columns.len()];
            for column in &columns {
                values[*column] = rows.columns[*column].value(row);
            }
            let id = Json::from(rows.ids[row].to_string());
            let values = view.values(&values, &columns, false);
            let record = record(&id, &table, rows.times[row], values);
            block.extend_from_slice(record.to_string().as_bytes());
            match block.len() >= BLOCK && !out(std::mem::take(&mut block)) {
                true => Err(Error::Gone),
                false => Ok(true),
            }
        })?;
        block.push(b']');
        Ok(Reply {
            status: 200,
            body: block,
        })
    }

    /// Rows of a table by the values of its primary key.
    pub(super) fn keyed_records(&self, call: &Call) -> Result<Reply, Error> {
        let view = self.view(call.table())?;
        let body = Body::parse(&call.body)?;
        let columns = view.columns(&body.texts("columns")?)?;
        let definition = view.definition();
        if !definition.is_keyed() {
            let table = call.table();
            return Err(Error::Request(format!(
                "table '{table}' has no primary keys"
            )));
        }
        let batches = body.objects("valueBatches")?;
        if batches.len() > KEYS_MAX {
            return Err(Error::Limit(format!(
                "'valueBatches' has {KEYS_MAX} entries at most"
            )));
        }
        let attributes = &definition.schema.attributes;
        let names: Vec<&str> = definition
            .key
            .iter()
            .map(|at| attributes[*at].name.as_str())
            .collect();
        let mut found = Vec::new();
        for batch in batches {
            let entries = batch.entries();
            let key = definition.key.iter().map(|at| {
                let own = &attributes[*at];
                let entry = entries
                    .iter()
                    .find(|(name, _)| name.eq_ignore_ascii_case(&own.name));
                entry.and_then(|(_, value)| typed(own.ty, value))
            });
            let key: Option<Vec<Value>> = key.collect();
            let key = key.filter(|_| entries.len() == names.len()).ok_or_else(|| {
                Error::Request(format!(
                    "each entry of 'valueBatches' has values of the types of the primary keys {}, and no others",
                    names.join(", ")
                ))
            })?;
            view.scan.look_up(&key, &mut |rows, row| {
                let mut values = vec![Value::Null; rows.columns.len()];
                for column in &columns {
                    values[*column] = rows.columns[*column].value(row);
                }
                let values = view.values(&values, &columns, false);
                let id = Json::from(rows.ids[row].to_string());
                let table = definition.name.to_uppercase();
                found.push(record(&id, &table, rows.times[row], values));
            })?;
        }
        Ok(Reply::ok(&Json::Array(found)))
    }
}

/// A value of JSON as one of a column.
fn typed(ty: event::Type, value: &Json) -> Option<Value> {
    use event::Type;
    Some(match (ty, value) {
        (_, Json::Null) => Value::Null,
        (Type::Int, value) => Value::Int(i32::try_from(value.as_i64()?).ok()?),
        (Type::Long, value) => Value::Long(value.as_i64()?),
        (Type::Float, value) => Value::Float(value.as_f64()? as f32),
        (Type::Double, value) => Value::Double(value.as_f64()?),
        (Type::Bool, value) => Value::Bool(value.as_bool()?),
        (Type::String, value) => Value::str(value.as_str()?),
        (Type::Object, _) => return None,
    })
}
