//! Values as they are written by hand, to the columns of a stream.

use connect::scalar;
use event::{Batch, Chunks, ColumnBuilder, Schema, Times, Type, Value};
use serde_json::{Map, Value as Json};

use super::BATCH_ROWS_MAX;

/// Characters of a value that are shown in a message.
const SHOWN_MAX: usize = 60;

/// Rows being gathered, in batches of [`BATCH_ROWS_MAX`] at most. Each row is a chunk of its own, as
/// if it had come alone.
pub(crate) struct Rows<'a> {
    schema: &'a Schema,
    /// Timestamp of a row that brings none.
    unstamped: i64,
    columns: Vec<ColumnBuilder>,
    times: Vec<i64>,
    full: Vec<Batch>,
}

/// Why a row does not fit its stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Misfit {
    /// The attribute, if it is one alone.
    pub column: Option<String>,
    pub cause: String,
    pub expected: String,
}

impl<'a> Rows<'a> {
    pub fn new(schema: &'a Schema, unstamped: i64) -> Rows<'a> {
        Rows {
            schema,
            unstamped,
            columns: builders(schema),
            times: Vec::new(),
            full: Vec::new(),
        }
    }

    /// So many rows are here.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.times.len() + self.full.iter().map(|batch| batch.len).sum::<usize>()
    }

    /// Appends an event: a row, or `{"timestamp":…,"data":row}` with milliseconds since 1970. A row is
    /// a list of all values, or an object of values by the names of the attributes.
    ///
    /// # Errors
    /// It does not fit, and nothing is appended.
    pub fn push_event(&mut self, event: &Json) -> Result<(), Misfit> {
        // No attribute takes a list or an object, so this cannot be a row.
        let wrapped = event.as_object().and_then(|object| {
            let data = object.get("data")?;
            (data.is_array() || data.is_object()).then_some((object, data))
        });
        let Some((object, data)) = wrapped else {
            return self.push(event, None);
        };
        let others = object
            .keys()
            .find(|key| *key != "data" && *key != "timestamp");
        if let Some(other) = others {
            return Err(misfit(
                format!("the event has '{other}' beside 'data'"),
                r#"{"timestamp":…,"data":[…]}"#,
            ));
        }
        let time = timestamp(object.get("timestamp"))?;
        self.push(data, time)
    }

    /// Appends a row with its timestamp, milliseconds since 1970.
    ///
    /// # Errors
    /// It does not fit, and nothing is appended.
    pub fn push(&mut self, row: &Json, time: Option<i64>) -> Result<(), Misfit> {
        let values = match row {
            Json::Array(values) => self.in_order(values)?,
            Json::Object(values) => self.by_name(values)?,
            other => {
                return Err(misfit(
                    format!("{} is no row", shown(other)),
                    "a list of values, or an object of values by name",
                ));
            }
        };
        for (column, value) in self.columns.iter_mut().zip(&values) {
            column.push(value);
        }
        self.times.push(time.unwrap_or(self.unstamped));
        if self.times.len() == BATCH_ROWS_MAX {
            self.cut();
        }
        Ok(())
    }

    fn in_order(&self, values: &[Json]) -> Result<Vec<Value>, Misfit> {
        let attributes = &self.schema.attributes;
        if values.len() != attributes.len() {
            return Err(misfit(
                format!(
                    "the row has {}, stream '{}' has {}",
                    counted(values.len(), "value"),
                    self.schema.name,
                    counted(attributes.len(), "attribute")
                ),
                self.definition(),
            ));
        }
        let pairs = attributes.iter().zip(values);
        pairs
            .map(|(a, value)| typed(&a.name, a.ty, value))
            .collect()
    }

    fn by_name(&self, values: &Map<String, Json>) -> Result<Vec<Value>, Misfit> {
        let attributes = &self.schema.attributes;
        if let Some(name) = values.keys().find(|n| self.schema.index_of(n).is_none()) {
            return Err(Misfit {
                column: Some(name.clone()),
                cause: format!("stream '{}' has no attribute '{name}'", self.schema.name),
                expected: self.definition(),
            });
        }
        let value = |a: &event::Attribute| match values.get(&a.name) {
            Some(value) => typed(&a.name, a.ty, value),
            None => Err(Misfit {
                column: Some(a.name.clone()),
                cause: format!("the row has no '{}'", a.name),
                expected: format!("{}, or null", a.ty),
            }),
        };
        attributes.iter().map(value).collect()
    }

    /// `symbol string, price double`.
    fn definition(&self) -> String {
        let attributes = self.schema.attributes.iter();
        let all: Vec<String> = attributes.map(|a| format!("{} {}", a.name, a.ty)).collect();
        all.join(", ")
    }

    fn cut(&mut self) {
        let columns = std::mem::replace(&mut self.columns, builders(self.schema));
        let times = std::mem::take(&mut self.times);
        let len = times.len();
        self.full.push(Batch::new(
            columns.into_iter().map(ColumnBuilder::finish).collect(),
            len,
            Times::per_row(times),
            Chunks::EachRow,
            engine::UNSTAMPED,
        ));
    }

    /// The rows, in order.
    pub fn finish(mut self) -> Vec<Batch> {
        if !self.times.is_empty() {
            self.cut();
        }
        self.full
    }
}

/// The timestamp of an event, milliseconds since 1970; `None` and null are none.
///
/// # Errors
/// It is no whole number, or before 1970: such a mark means "none" inside.
pub(crate) fn timestamp(value: Option<&Json>) -> Result<Option<i64>, Misfit> {
    let Some(value) = value.filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let time = match value {
        Json::String(text) => scalar::parse_long(text),
        other => whole(other),
    };
    match time.filter(|time| *time >= 0) {
        Some(time) => Ok(Some(time)),
        None => Err(Misfit {
            column: Some("timestamp".to_owned()),
            cause: format!("{} is no timestamp", shown(value)),
            expected: "milliseconds since 1970".to_owned(),
        }),
    }
}

/// A number stands for itself or in a text, as in a CSV file.
fn typed(name: &str, ty: Type, value: &Json) -> Result<Value, Misfit> {
    let typed = match (ty, value) {
        (_, Json::Null) => Some(Value::Null),
        (Type::String, Json::String(text)) => Some(Value::from(text.as_str())),
        (Type::String, Json::Number(number)) => Some(Value::from(number.to_string().as_str())),
        (Type::String, Json::Bool(value)) => Some(Value::from(value.to_string().as_str())),
        (Type::Bool, Json::Bool(value)) => Some(Value::Bool(*value)),
        (Type::Bool, Json::String(text)) => bool_of(scalar::trim(text)).map(Value::Bool),
        (Type::Int, Json::String(text)) => scalar::parse_int(scalar::trim(text)).map(Value::Int),
        (Type::Long, Json::String(text)) => scalar::parse_long(scalar::trim(text)).map(Value::Long),
        (Type::Float, Json::String(text)) => scalar::parse_float(text).map(Value::Float),
        (Type::Double, Json::String(text)) => scalar::parse_double(text).map(Value::Double),
        (Type::Int, number) => whole(number)
            .and_then(|n| i32::try_from(n).ok())
            .map(Value::Int),
        (Type::Long, number) => whole(number).map(Value::Long),
        (Type::Float, Json::Number(n)) => scalar::parse_float(&n.to_string()).map(Value::Float),
        (Type::Double, Json::Number(n)) => n.as_f64().map(Value::Double),
        (Type::Object, Json::Bool(value)) => Some(Value::Bool(*value)),
        (Type::Object, Json::String(text)) => Some(Value::from(text.as_str())),
        (Type::Object, Json::Number(n)) => match n.as_i64() {
            Some(whole) => Some(i32::try_from(whole).map_or(Value::Long(whole), Value::Int)),
            None => n.as_f64().map(Value::Double),
        },
        _ => None,
    };
    typed.ok_or_else(|| Misfit {
        column: Some(name.to_owned()),
        cause: format!("{} is no {ty}", shown(value)),
        expected: expected(ty).to_owned(),
    })
}

fn expected(ty: Type) -> &'static str {
    match ty {
        Type::Bool => "true, false or null",
        Type::Int => "a whole number from -2147483648 to 2147483647, or null",
        Type::Long => "a whole number of 64 bits, or null",
        Type::Float | Type::Double => "a number, or null",
        Type::String => "a text, or null",
        Type::Object => "a text, a number, true, false or null",
    }
}

fn bool_of(text: &str) -> Option<bool> {
    match text {
        _ if text.eq_ignore_ascii_case("true") => Some(true),
        _ if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

/// A whole number, also written as 3.0: some clients know no other numbers.
fn whole(value: &Json) -> Option<i64> {
    let number = value.as_number()?;
    if let Some(whole) = number.as_i64() {
        return Some(whole);
    }
    let real = number.as_f64().filter(|n| n.fract() == 0.0)?;
    // Below 2^53 every whole number is a double.
    (real.abs() < 9_007_199_254_740_992.0).then_some(real as i64)
}

fn misfit(cause: String, expected: impl Into<String>) -> Misfit {
    Misfit {
        column: None,
        cause,
        expected: expected.into(),
    }
}

fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

fn shown(value: &Json) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

fn builders(schema: &Schema) -> Vec<ColumnBuilder> {
    let attributes = schema.attributes.iter();
    attributes.map(|a| ColumnBuilder::new(a.ty)).collect()
}

#[cfg(test)]
mod tests {
    use event::Attribute;
    use serde_json::json;

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
    fn rows_are_lists_objects_and_texts() {
        let schema = schema();
        let mut rows = Rows::new(&schema, -1);
        for event in [
            json!(["a", 1, 2, true]),
            json!(["a", "1.0", "2", "TRUE"]),
            json!({"sold": true, "number": 2.0, "symbol": "a", "price": 1.0}),
            json!({"data": ["a", 1.0, 2, true], "timestamp": 5}),
            json!({"data": {"symbol": "a", "price": 1.0, "number": 2, "sold": true}}),
        ] {
            rows.push_event(&event).expect("it fits");
        }
        rows.push(&json!([null, null, null, null]), Some(9))
            .expect("it fits");
        assert_eq!(rows.len(), 6);
        let batches = rows.finish();
        let [batch] = &batches[..] else {
            panic!("one batch");
        };
        let values = |row: usize| format!("{:?}", batch.row(row));
        for row in 1..5 {
            assert_eq!(values(row), values(0));
        }
        let times: Vec<i64> = (0..6).map(|row| batch.times.at(row)).collect();
        assert_eq!(times, [-1, -1, -1, 5, -1, 9]);
        assert!(batch.row(5).iter().all(|v| matches!(v, Value::Null)));
    }

    #[test]
    fn what_does_not_fit_is_named_and_leaves_nothing() {
        let schema = schema();
        let mut rows = Rows::new(&schema, -1);
        let mut check = |event: Json, column: Option<&str>, cause: &str, expected: &str| {
            let misfit = rows.push_event(&event).expect_err("it does not fit");
            assert_eq!(misfit.column.as_deref(), column, "{misfit:?}");
            assert!(misfit.cause.contains(cause), "{misfit:?}");
            assert!(misfit.expected.contains(expected), "{misfit:?}");
            assert_eq!(rows.len(), 0);
        };
        let all = "symbol string, price double, number int, sold bool";
        check(
            json!(["a", 1]),
            None,
            "2 values, stream 'S' has 4 attributes",
            all,
        );
        check(json!(7), None, "7 is no row", "a list of values");
        check(
            json!(["a", "x", 1, true]),
            Some("price"),
            "\"x\" is no double",
            "a number",
        );
        check(
            json!(["a", 1, 1.5, true]),
            Some("number"),
            "1.5 is no int",
            "whole",
        );
        check(
            json!(["a", 1, 3_000_000_000_i64, true]),
            Some("number"),
            "is no int",
            "2147483647",
        );
        check(json!(["a", 1, 1, 1]), Some("sold"), "1 is no bool", "true");
        check(
            json!([["a"], 1, 1, true]),
            Some("symbol"),
            "is no string",
            "a text",
        );
        check(
            json!({"symbol": "a"}),
            Some("price"),
            "no 'price'",
            "double",
        );
        check(
            json!({"symbl": "a"}),
            Some("symbl"),
            "no attribute 'symbl'",
            all,
        );
        let row = json!(["a", 1, 1, true]);
        check(
            json!({"data": row, "timestamp": -4}),
            Some("timestamp"),
            "-4",
            "1970",
        );
        check(
            json!({"data": row, "time": 4}),
            None,
            "'time' beside 'data'",
            "timestamp",
        );
    }

    #[test]
    fn many_rows_are_cut_into_batches() {
        let schema = schema();
        let mut rows = Rows::new(&schema, -1);
        let row = json!(["a", 1.0, 2, true]);
        (0..BATCH_ROWS_MAX + 3).for_each(|_| rows.push(&row, None).expect("it fits"));
        let lengths: Vec<usize> = rows.finish().iter().map(|batch| batch.len).collect();
        assert_eq!(lengths, [BATCH_ROWS_MAX, 3]);
    }
}
