//! What a fuzzer calls with any text, and a test with the seeds of that fuzzer.

use event::{Attribute, Cells, ColumnBuilder, Schema, Type, Value};
use jiff::tz::TimeZone;
use store::definition::Definition;
use store::indexing::Indexing;
use store::rows::Rows;

use crate::function::Function;
use crate::matcher::{Matcher, score};
use crate::query::plan::{Fields, Plan};

/// First inputs.
pub const SEEDS: &[&str] = &[
    "*:*",
    "title:fox AND (title:\"quick fox\"~2 OR -n:[1990 TO 2000})^2",
    "title:te?t* title:roam~1 title:roam~0.8",
    "+_title:\"a b\" -open:true && !price:{* TO 5.5] || _id:17",
    "title:\\(1\\+1\\)\\:2 \\u0041",
    "_timestamp:\"2026-11-28 17:00:00 GMT+01:00\" n:-5",
    "region:(a OR b) title:*",
    "_score * sqrt(price) + (n > 3 ? 1 : -1)",
    "max(1, _timestamp >>> 2) ^ ~0x1F",
];

/// The text is a query or is not: what it means of a row can be said, and has a score where it means it.
///
/// # Panics
/// A promise is broken.
pub fn query(text: &str) {
    let columns = [
        ("title", Type::String, Value::str("the quick brown fox")),
        ("region", Type::String, Value::str("a,b")),
        ("n", Type::Int, Value::Int(3)),
        ("price", Type::Double, Value::Double(2.5)),
        ("open", Type::Bool, Value::Bool(true)),
    ];
    let attributes = columns.iter().map(|(name, ty, _)| Attribute {
        name: (*name).to_owned(),
        ty: *ty,
    });
    let schema = Schema {
        name: "t".to_owned(),
        attributes: attributes.collect(),
    };
    let definition = Definition::new("t", schema, Vec::new()).expect("it has plain names");
    let flags = "title -i, region -i -f, n -i -sp, price -i -sp, open -i";
    let indexing = Indexing::parse(flags, &definition).expect("they are there");
    let fields = Fields {
        definition: &definition,
        indexing: &indexing,
        zone: &TimeZone::UTC,
    };
    let builders: Vec<ColumnBuilder> = columns
        .iter()
        .map(|(_, ty, value)| {
            let mut builder = ColumnBuilder::new(*ty);
            builder.push(value);
            builder
        })
        .collect();
    let rows = Rows {
        columns: builders.iter().map(Cells::from).collect(),
        ids: &[17],
        times: &[1_000],
    };
    match Plan::new(text, &fields) {
        Ok(plan) => {
            let mut matcher = Matcher::new(&plan);
            let is_meant = matcher.matches(&rows, 0);
            let scored = score(&plan.root, &matcher.counts(), &|_, found, _| found as f32);
            assert_eq!(
                is_meant,
                scored.is_some(),
                "it is meant and has no score, or the other way round"
            );
        }
        Err(error) => {
            let len = text.chars().count();
            let is_inside = error
                .place
                .is_none_or(|place| place.start <= len && place.end <= len + 1);
            assert!(is_inside, "the place of the error is outside of the text");
        }
    }
    let names = ["_score", "_timestamp", "n", "price"];
    let number = |name: &str| names.iter().position(|own| *own == name);
    if let Ok(function) = Function::parse(text, &number) {
        function.value(&[1.0, 1_000.0, 3.0, 2.5]);
    }
}

#[test]
fn the_seeds_are_read() {
    SEEDS.iter().for_each(|text| query(text));
}
