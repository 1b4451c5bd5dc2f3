//! One harness for all aggregators: values in, running values out, both as text.
//!
//! Input: `1` is a CURRENT row, `-1` an EXPIRED one, `a:1` belongs to group a, `R` is a RESET. A
//! word that is no value of the type is a text in its place; `{x}` is the set of x. Output: `1L` is
//! LONG, `1F` FLOAT, `1` INT, `1.0` DOUBLE.
//!
//! Each case runs in one scan, in scans of one row, and with saving and restoring between rows.

use super::AGGREGATORS;
use crate::component::*;
use crate::emission::SlideStep;
use event::codec::{Reader, Writer};
use event::value::Shared;
use event::{Column, ColumnBuilder, Object, Times, Type, Value};

struct Row {
    group: Group,
    value: Value,
    expired: bool,
    resets: bool,
}

fn parse(ty: Type, input: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut resets = false;
    for word in input.split_whitespace() {
        if word == "R" {
            resets = true;
            continue;
        }
        let (word, expired) = word.strip_prefix('-').map_or((word, false), |w| (w, true));
        let is_group = word.as_bytes().get(1) == Some(&b':');
        let (group, word) = if is_group {
            (&word[..1], &word[2..])
        } else {
            ("", word)
        };
        rows.push(Row {
            group: group
                .bytes()
                .next()
                .map_or(0, |b| Group::from(b - b'a') + 1),
            value: parse_value(ty, word),
            expired,
            resets: std::mem::take(&mut resets),
        });
    }
    rows
}

fn parse_value(ty: Type, word: &str) -> Value {
    if word == "null" {
        return Value::Null;
    }
    let parsed = match ty {
        Type::Int => word.parse().ok().map(Value::Int),
        Type::Long => word.parse().ok().map(Value::Long),
        Type::Float => word.parse().ok().map(Value::Float),
        Type::Double => word.parse().ok().map(Value::Double),
        Type::Bool => word.parse().ok().map(Value::Bool),
        Type::String => None,
        Type::Object => {
            let element = word.trim_matches(['{', '}']);
            Some(Value::Object(Object::Set(Shared::new(vec![Value::str(
                element,
            )]))))
        }
    };
    parsed.unwrap_or_else(|| Value::str(word))
}

fn bind(name: &str, ty: Type, tracks: bool, more: &[Value]) -> Box<dyn Aggregate> {
    let found = AGGREGATORS.iter().find(|a| a.spec().full_name() == name);
    let argument = Argument {
        ty,
        constant: None,
        attribute: Some(0),
    };
    let constants = more.iter().map(|value| Argument {
        ty: value.ty().unwrap_or(Type::String),
        constant: Some(value.clone()),
        attribute: None,
    });
    let arguments: Vec<Argument> = std::iter::once(argument).chain(constants).collect();
    let bound = found
        .expect("the aggregator is in the slice")
        .bind(&arguments, tracks);
    bound.unwrap_or_else(|refused| panic!("{refused}"))
}

struct Outcome {
    shown: String,
    failed: Vec<u32>,
    is_empty: bool,
}

fn run(
    name: &str,
    ty: Type,
    tracks: bool,
    more: &[Value],
    input: &str,
    rows_each: usize,
    saves: bool,
) -> Outcome {
    let rows = parse(ty, input);
    let mut operator = bind(name, ty, tracks, more);
    let mut builder = ColumnBuilder::new(ty);
    rows.iter().for_each(|r| builder.push(&r.value));
    let constants = more
        .iter()
        .map(|value| Column::constant(value.ty().unwrap_or(Type::String), value, rows.len()));
    let args: Vec<Column> = std::iter::once(builder.finish()).chain(constants).collect();
    let groups: Vec<Group> = rows.iter().map(|r| r.group).collect();
    let marks: Vec<bool> = rows.iter().map(|r| r.expired).collect();
    let (times, environment) = (Times::Same(0), AppEnvironment::default());
    let (mut seed, mut failures) = (1, Vec::new());
    let mut context = EvalContext::new(0, 0, &times, &environment, &mut seed, &mut failures);
    let mut out: Vec<Column> = Vec::new();
    let mut at = 0;
    while at < rows.len() {
        if rows[at].resets {
            groups.iter().for_each(|&g| operator.clear(g));
        }
        let mut end = at + 1;
        while end < rows.len() && end - at < rows_each && !rows[end].resets {
            end += 1;
        }
        let one_group = groups[at..end].iter().all(|&g| g == groups[at]);
        let mut builder = ColumnBuilder::new(Type::Object);
        operator.scan(
            &Scan {
                args: &args,
                start: at,
                end,
                groups: if one_group {
                    Groups::One(groups[at])
                } else {
                    Groups::PerRow(&groups)
                },
                expired: marks[at..end].contains(&true).then_some(&marks[..]),
            },
            &mut context,
            &mut builder,
        );
        assert_eq!(builder.len(), end - at, "one value per row");
        out.push(builder.finish());
        at = end;
        if saves {
            let before = operator;
            operator = bind(name, ty, tracks, more);
            for &group in &groups {
                let mut writer = Writer::default();
                before.save(group, &mut writer);
                let mut reader = Reader::new(&writer.bytes);
                operator
                    .restore(group, &mut reader)
                    .expect("what was saved is restored");
                assert!(reader.is_done(), "something is left of the saved state");
            }
        }
    }
    let out = Column::concat(&out);
    let is_empty = groups.iter().all(|&g| operator.is_empty(g));
    // Groups that are given up leave no more bytes than such as never held anything.
    let mut fresh = bind(name, ty, tracks, more);
    for &group in &groups {
        operator.clear(group);
        let mut writer = Writer::default();
        operator.save(group, &mut writer);
        let restored = fresh.restore(group, &mut Reader::new(&writer.bytes));
        restored.expect("an empty group is restored");
    }
    assert_eq!(operator.bytes(), fresh.bytes(), "bytes of groups given up");
    Outcome {
        shown: (0..out.len())
            .map(|r| shown(&out.value(r)))
            .collect::<Vec<_>>()
            .join(" "),
        is_empty,
        failed: failures.iter().map(|f| f.row).collect(),
    }
}

fn shown(value: &Value) -> String {
    let mut text = event::text::to_text(value).replace(", ", ",");
    match value {
        Value::Long(_) => text.push('L'),
        Value::Float(_) => text.push('F'),
        _ => {}
    }
    text
}

fn check_all(
    name: &str,
    ty: Type,
    tracks: bool,
    more: &[Value],
    input: &str,
    failed: &[u32],
    expect: &str,
) {
    for (rows_each, saves) in [(usize::MAX, false), (1, false), (1, true), (3, true)] {
        let outcome = run(name, ty, tracks, more, input, rows_each, saves);
        assert_eq!(
            outcome.shown, expect,
            "scans of {rows_each}, saving: {saves}"
        );
        assert_eq!(outcome.failed, failed);
    }
}

/// Running values where rows expire.
pub fn check(name: &str, ty: Type, input: &str, expect: &str) {
    check_all(name, ty, true, &[], input, &[], expect);
}

/// As [`check`], with constants behind the first argument.
pub fn check_with(name: &str, ty: Type, more: &[Value], input: &str, expect: &str) {
    check_all(name, ty, true, more, input, &[], expect);
}

/// Running values where no removal was announced, as in a batch window.
pub fn check_without_removal(name: &str, ty: Type, input: &str, expect: &str) {
    check_all(name, ty, false, &[], input, &[], expect);
}

/// Running values and the rows that fail.
pub fn check_failure(name: &str, ty: Type, input: &str, failed: &[u32], expect: &str) {
    check_all(name, ty, true, &[], input, failed, expect);
}

pub fn is_empty_after(name: &str, ty: Type, input: &str) -> bool {
    run(name, ty, true, &[], input, 1, false).is_empty
}

/// What follows a sliding window does so one by one as it does many at once, whatever the type.
#[test]
fn rows_that_arrive_alone_are_followed_like_many() {
    let mut followed = Vec::new();
    for aggregator in AGGREGATORS {
        let spec = aggregator.spec();
        let takes = |ty: &Type| {
            let mut forms = spec.overloads.iter().map(|overload| overload.params);
            forms.any(|params| matches!(params, [only] if only.types.contains(*ty)))
        };
        for ty in Type::ALL.into_iter().filter(takes) {
            if bind(&spec.full_name(), ty, true, &[]).slides() {
                follow_alone_and_many(&spec.full_name(), ty);
                followed.push((spec.full_name(), ty));
            }
        }
    }
    let of = |name: &str| followed.iter().filter(|(n, _)| n == name).count();
    assert_eq!(["avg", "count", "stdDev", "sum"].map(of), [4, 7, 4, 4]);
    assert_eq!(followed.len(), 19, "{followed:?}");
}

fn follow_alone_and_many(name: &str, ty: Type) {
    let words = match ty {
        Type::Int => ["1", "2147483647", "null", "-35", "2", "2147483647"],
        Type::Long => ["1", "9007199254740993", "null", "-35", "2", "1"],
        Type::Float | Type::Double => ["0.1", "7.25", "null", "-3.5", "0.2", "7.25"],
        Type::Bool => ["true", "false", "null", "true", "true", "false"],
        Type::String | Type::Object => ["a", "b", "null", "a", "c", "b"],
    };
    let columns = words.map(|word| Column::constant(ty, &parse_value(ty, word), 1));
    let mut many = bind(name, ty, true, &[]);
    let mut one = bind(name, ty, true, &[]);
    let (mut emptied, mut emptied_alone) = (Vec::new(), Vec::new());
    for (at, arriving) in columns.iter().cycle().take(24).enumerate() {
        let group = (at % 2) as Group;
        let left = at.checked_sub(3).map(|before| {
            let column = &columns[before % columns.len()];
            ((before % 2) as Group, column)
        });
        let (leaving_group, leaving) = left.unwrap_or((group, arriving));
        let scan = SlideScan {
            steps: &[SlideStep {
                leave: u32::from(left.is_some()),
                arrive: 1,
                in_turn: left.is_some(),
            }],
            leaving: SlideRows {
                arg: Some(leaving),
                groups: Groups::One(leaving_group),
            },
            arriving: SlideRows {
                arg: Some(arriving),
                groups: Groups::One(group),
            },
        };
        let mut out = ColumnBuilder::new(Type::Object);
        many.slide(&scan, &mut out, &mut emptied);
        let slid = |(group, column)| SlideRow {
            group,
            arg: Some(column),
            row: 0,
        };
        let alone = one.slide_one(
            left.map(slid).as_ref(),
            &slid((group, arriving)),
            &mut emptied_alone,
        );
        let place = format!("{name} of {ty}, row {at}");
        assert_eq!(out.finish().value(0), alone.value(), "{place}");
        assert_eq!(emptied, emptied_alone, "{place}");
    }
}

#[test]
fn the_slice_is_sorted_and_each_spec_has_a_summary_and_an_example() {
    let names: Vec<_> = AGGREGATORS.iter().map(|a| a.spec().full_name()).collect();
    assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
    for aggregator in AGGREGATORS {
        let spec = aggregator.spec();
        assert!(
            !spec.summary.is_empty() && !spec.example.is_empty(),
            "{}",
            spec.name
        );
    }
}
