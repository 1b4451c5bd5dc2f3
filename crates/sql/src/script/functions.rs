//! Functions of scripts: those that WSO2 DAS added to Spark's, and those of users.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::{
    Array, ArrayRef, BooleanBuilder, Float32Builder, Float64Array, Float64Builder, Int32Builder,
    Int64Array, Int64Builder, StringArray, StringBuilder,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::execution::context::SessionContext;
use datafusion::functions_aggregate::first_last::{first_value_udaf, last_value_udaf};
use datafusion::logical_expr::{
    Accumulator, ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, create_udaf,
};
use event::{Type, Value};
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

use crate::convert::data_type;

/// Arguments of `facetN`.
const FACETS_MAX: usize = 22;

/// A user's function.
#[derive(Clone)]
pub struct UserFunction {
    pub name: String,
    pub returns: Type,
    pub call: Arc<Mutex<dyn Call>>,
}

/// What gives a value for each row.
pub trait Call: Send {
    /// # Errors
    /// Why there is none, in words for the author of the function.
    fn call(&mut self, arguments: &[Value]) -> std::result::Result<Value, String>;
}

pub(crate) fn register(context: &SessionContext, zone: &TimeZone, users: &[UserFunction]) {
    let mut all = vec![
        Function::new("concat", DataType::Utf8, concat),
        Function::new("now", DataType::Int64, |_, rows, _| {
            let now = Timestamp::now().as_millisecond();
            Ok(Arc::new(Int64Array::from(vec![now; rows])))
        }),
        Function::new("timestamp", DataType::Int64, timestamp),
    ];
    for count in 1..=FACETS_MAX {
        all.push(Function::new(
            &format!("facet{count}"),
            DataType::Utf8,
            facet,
        ));
    }
    for mut function in all {
        function.zone = zone.clone();
        context.register_udf(ScalarUDF::from(function));
    }
    for user in users {
        context.register_udf(ScalarUDF::from(OfUser {
            name: user.name.to_lowercase(),
            user: user.clone(),
            signature: Signature::variadic_any(Volatility::Volatile),
        }));
    }
    context.register_udaf(first_value_udaf().as_ref().clone().with_aliases(["first"]));
    context.register_udaf(last_value_udaf().as_ref().clone().with_aliases(["last"]));
    for (name, kind) in [
        ("geometricmean", Mean::Geometric),
        ("harmonicmean", Mean::Harmonic),
    ] {
        context.register_udaf(create_udaf(
            name,
            vec![DataType::Float64],
            Arc::new(DataType::Float64),
            Volatility::Immutable,
            Arc::new(move |_| {
                Ok(Box::new(MeanOf {
                    kind,
                    sum: 0.0,
                    count: 0,
                }))
            }),
            Arc::new(vec![DataType::Float64, DataType::Int64]),
        ));
    }
}

type Body = fn(&[ArrayRef], usize, &TimeZone) -> Result<ArrayRef>;

/// One that is built in.
struct Function {
    name: String,
    returns: DataType,
    signature: Signature,
    body: Body,
    zone: TimeZone,
}

impl Function {
    fn new(name: &str, returns: DataType, body: Body) -> Function {
        let signature = match name {
            "now" => Signature::nullary(Volatility::Volatile),
            _ => Signature::variadic_any(Volatility::Volatile),
        };
        Function {
            name: name.to_owned(),
            returns,
            signature,
            body,
            zone: TimeZone::UTC,
        }
    }
}

/// Functions are told apart by their names.
macro_rules! by_name {
    ($ty:ty) => {
        impl fmt::Debug for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.name)
            }
        }

        impl PartialEq for $ty {
            fn eq(&self, other: &Self) -> bool {
                self.name == other.name
            }
        }

        impl Eq for $ty {}

        impl Hash for $ty {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.name.hash(state);
            }
        }
    };
}

by_name!(Function);
by_name!(OfUser);

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let arrays = arrays(&args)?;
        (self.body)(&arrays, rows, &self.zone).map(ColumnarValue::Array)
    }
}

/// Constants, too, are as long as the rows are many.
fn arrays(args: &ScalarFunctionArgs) -> Result<Vec<ArrayRef>> {
    let arrays = args
        .args
        .iter()
        .map(|value| value.to_array(args.number_rows));
    arrays.collect()
}

fn texts(arrays: &[ArrayRef]) -> Result<Vec<StringArray>> {
    let text = |array: &ArrayRef| -> Result<StringArray> {
        Ok(StringArray::from(cast(array, &DataType::Utf8)?.to_data()))
    };
    arrays.iter().map(text).collect()
}

fn joined(arrays: &[ArrayRef], rows: usize, between: &str) -> Result<ArrayRef> {
    let arrays = texts(arrays)?;
    let mut out = StringBuilder::new();
    for row in 0..rows {
        let values = arrays.iter().map(|array| match array.is_null(row) {
            true => "null",
            false => array.value(row),
        });
        out.append_value(values.collect::<Vec<&str>>().join(between));
    }
    Ok(Arc::new(out.finish()))
}

/// As Java joins texts: null is `null`.
fn concat(arrays: &[ArrayRef], rows: usize, _: &TimeZone) -> Result<ArrayRef> {
    joined(arrays, rows, "")
}

fn facet(arrays: &[ArrayRef], rows: usize, _: &TimeZone) -> Result<ArrayRef> {
    joined(arrays, rows, ",")
}

/// Milliseconds of `yyyy-MM-dd HH:mm:ss zzz`, the same without a zone, or a date alone.
fn timestamp(arrays: &[ArrayRef], rows: usize, zone: &TimeZone) -> Result<ArrayRef> {
    let arrays = texts(arrays)?;
    let [text] = arrays.as_slice() else {
        return Err(DataFusionError::Execution(
            "timestamp() takes one text".to_owned(),
        ));
    };
    let mut out = Int64Builder::new();
    for row in 0..rows {
        if text.is_null(row) {
            out.append_null();
            continue;
        }
        let value = text.value(row).trim();
        let millis = millis(value, zone).ok_or_else(|| {
            DataFusionError::Execution(format!(
                "'{value}' is not a time such as 2026-11-28 13:05:00"
            ))
        })?;
        out.append_value(millis);
    }
    Ok(Arc::new(out.finish()))
}

fn millis(text: &str, zone: &TimeZone) -> Option<i64> {
    let mut words = text.split_whitespace();
    let date: Date = words.next()?.parse().ok()?;
    let time = words.next();
    let named = match words.next() {
        None => zone.clone(),
        Some("UTC" | "GMT" | "Z") => TimeZone::UTC,
        Some(name) => TimeZone::get(name).ok()?,
    };
    if words.next().is_some() {
        return None;
    }
    let at: DateTime = match time {
        None => date.at(0, 0, 0, 0),
        // The hours of `kk` are 1 to 24.
        Some(time) => match time.strip_prefix("24:") {
            Some(rest) => format!("{date}T00:{rest}").parse().ok()?,
            None => format!("{date}T{time}").parse().ok()?,
        },
    };
    let zoned = at.to_zoned(named).ok()?;
    Some(zoned.timestamp().as_millisecond())
}

/// One of a user.
struct OfUser {
    name: String,
    user: UserFunction,
    signature: Signature,
}

impl ScalarUDFImpl for OfUser {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(data_type(self.user.returns))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let arrays = arrays(&args)?;
        let mut call = self
            .user
            .call
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut values = Vec::with_capacity(rows);
        for row in 0..rows {
            let arguments = arrays.iter().map(|array| value(array, row));
            let arguments = arguments.collect::<Result<Vec<Value>>>()?;
            let given = call.call(&arguments).map_err(|message| {
                DataFusionError::Execution(format!("function '{}': {message}", self.user.name))
            })?;
            values.push(given);
        }
        Ok(ColumnarValue::Array(array(self.user.returns, &values)))
    }
}

fn value(array: &ArrayRef, row: usize) -> Result<Value> {
    Ok(match ScalarValue::try_from_array(array, row)? {
        ScalarValue::Boolean(Some(v)) => Value::Bool(v),
        ScalarValue::Int8(Some(v)) => Value::Int(v.into()),
        ScalarValue::Int16(Some(v)) => Value::Int(v.into()),
        ScalarValue::Int32(Some(v)) => Value::Int(v),
        ScalarValue::Int64(Some(v)) => Value::Long(v),
        ScalarValue::Float32(Some(v)) => Value::Float(v),
        ScalarValue::Float64(Some(v)) => Value::Double(v),
        other if other.is_null() => Value::Null,
        other => match other.cast_to(&DataType::Utf8)? {
            ScalarValue::Utf8(Some(text)) => Value::str(&text),
            _ => Value::Null,
        },
    })
}

/// Values that have this type, or are null.
fn array(ty: Type, values: &[Value]) -> ArrayRef {
    macro_rules! built {
        ($builder:expr, $some:pat => $value:expr) => {{
            let mut builder = $builder;
            for value in values {
                match value {
                    $some => builder.append_value($value),
                    _ => builder.append_null(),
                }
            }
            Arc::new(builder.finish())
        }};
    }
    match ty {
        Type::Bool => built!(BooleanBuilder::new(), Value::Bool(v) => *v),
        Type::Int => built!(Int32Builder::new(), Value::Int(v) => *v),
        Type::Long => built!(Int64Builder::new(), Value::Long(v) => *v),
        Type::Float => built!(Float32Builder::new(), Value::Float(v) => *v),
        Type::Double => built!(Float64Builder::new(), Value::Double(v) => *v),
        // Functions that return objects are refused when they are read.
        Type::String | Type::Object => built!(StringBuilder::new(), Value::Str(v) => &**v),
    }
}

#[derive(Clone, Copy, Debug)]
enum Mean {
    Geometric,
    Harmonic,
}

/// A mean of the values that are not null.
#[derive(Debug)]
struct MeanOf {
    kind: Mean,
    sum: f64,
    count: i64,
}

impl Accumulator for MeanOf {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = Float64Array::from(cast(&values[0], &DataType::Float64)?.to_data());
        for value in values.iter().flatten() {
            self.count += 1;
            self.sum += match self.kind {
                Mean::Geometric => value.ln(),
                Mean::Harmonic => value.recip(),
            };
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let count = self.count as f64;
        let mean = match self.kind {
            Mean::Geometric => (self.sum / count).exp(),
            Mean::Harmonic => count / self.sum,
        };
        Ok(ScalarValue::Float64((self.count > 0).then_some(mean)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![
            ScalarValue::from(self.sum),
            ScalarValue::from(self.count),
        ])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let sums = Float64Array::from(states[0].to_data());
        let counts = Int64Array::from(states[1].to_data());
        self.sum += sums.iter().flatten().sum::<f64>();
        self.count += counts.iter().flatten().sum::<i64>();
        Ok(())
    }
}
