//! Aggregators over numbers: one scan for all of them.

use std::borrow::Cow;
use std::ops::Range;

use event::codec::{Error as StateError, Reader, Writer};
use event::column::View;
use event::{Column, ColumnBuilder, ScalarRef, Type, Value};

use super::states::{Follow, GroupState, GroupStates, Slots, each_row, each_step};
use crate::component::{Aggregate, EvalContext, Group, Scan, SlideRow, SlideScan};

/// A number as an aggregator takes it.
pub trait Number: Copy + PartialOrd + Send + Sync + 'static {
    /// The rows of a column as numbers of this type; `None` where it holds anything else.
    fn of_column(column: &Column) -> Option<Cow<'_, [Self]>>;
    /// Java's conversion; `None` for what is not a number.
    fn of_value(value: &Value) -> Option<Self>;
    fn to_value(self) -> Value;
    fn single(self) -> ScalarRef<'static>;
    /// The number in a row of a column; `None` for what is none of this kind.
    fn of_row(column: &Column, row: usize) -> Option<Self>;

    /// Java's `equals` of the boxed number.
    fn equals(self, other: Self) -> bool {
        self.to_value() == other.to_value()
    }
}

fn converted<A: Copy, B: Copy>(values: &[A], convert: impl Fn(A) -> B) -> Option<Cow<'_, [B]>>
where
    [B]: ToOwned<Owned = Vec<B>>,
{
    Some(Cow::Owned(values.iter().map(|&v| convert(v)).collect()))
}

impl Number for f64 {
    fn of_column(column: &Column) -> Option<Cow<'_, [f64]>> {
        match column.view() {
            View::Double(values) => Some(Cow::Borrowed(values)),
            View::Float(values) => converted(values, f64::from),
            View::Int(values) => converted(values, f64::from),
            View::Long(values) => converted(values, |v| v as f64),
            _ => None,
        }
    }

    fn of_value(value: &Value) -> Option<f64> {
        value.to_double()
    }

    fn to_value(self) -> Value {
        Value::Double(self)
    }

    #[inline(always)]
    fn single(self) -> ScalarRef<'static> {
        ScalarRef::Double(self)
    }

    #[inline(always)]
    fn of_row(column: &Column, row: usize) -> Option<f64> {
        Some(match column.view() {
            View::Double(v) => v[row],
            View::Float(v) => f64::from(v[row]),
            View::Int(v) => f64::from(v[row]),
            View::Long(v) => v[row] as f64,
            _ => return None,
        })
    }
}

impl Number for i64 {
    fn of_column(column: &Column) -> Option<Cow<'_, [i64]>> {
        match column.view() {
            View::Long(values) => Some(Cow::Borrowed(values)),
            View::Int(values) => converted(values, i64::from),
            _ => None,
        }
    }

    fn of_value(value: &Value) -> Option<i64> {
        value.to_long()
    }

    fn to_value(self) -> Value {
        Value::Long(self)
    }

    #[inline(always)]
    fn single(self) -> ScalarRef<'static> {
        ScalarRef::Long(self)
    }

    #[inline(always)]
    fn of_row(column: &Column, row: usize) -> Option<i64> {
        Some(match column.view() {
            View::Long(v) => v[row],
            View::Int(v) => i64::from(v[row]),
            _ => return None,
        })
    }
}

impl Number for i32 {
    fn of_column(column: &Column) -> Option<Cow<'_, [i32]>> {
        match column.view() {
            View::Int(values) => Some(Cow::Borrowed(values)),
            _ => None,
        }
    }

    fn of_value(value: &Value) -> Option<i32> {
        value.to_long().map(|v| v as i32)
    }

    fn to_value(self) -> Value {
        Value::Int(self)
    }

    #[inline(always)]
    fn single(self) -> ScalarRef<'static> {
        ScalarRef::Int(self)
    }

    #[inline(always)]
    fn of_row(column: &Column, row: usize) -> Option<i32> {
        match column.view() {
            View::Int(v) => Some(v[row]),
            _ => None,
        }
    }
}

impl Number for f32 {
    fn of_column(column: &Column) -> Option<Cow<'_, [f32]>> {
        match column.view() {
            View::Float(values) => Some(Cow::Borrowed(values)),
            _ => None,
        }
    }

    fn of_value(value: &Value) -> Option<f32> {
        value.to_double().map(|v| v as f32)
    }

    fn to_value(self) -> Value {
        Value::Float(self)
    }

    #[inline(always)]
    fn single(self) -> ScalarRef<'static> {
        ScalarRef::Float(self)
    }

    #[inline(always)]
    fn of_row(column: &Column, row: usize) -> Option<f32> {
        match column.view() {
            View::Float(v) => Some(v[row]),
            _ => None,
        }
    }
}

/// What one group holds of an aggregator over numbers. The default is the empty group.
pub trait Running: GroupState {
    type Input: Number;
    /// What is the same for all groups: settings known when the plan is made.
    type Settings: Copy + Send + 'static;
    /// An empty group holds nothing of any value that may still leave: it counts them. (That of
    /// `min` and `max` may be empty before the last of its values leaves.)
    const COUNTS: bool = false;

    fn add(&mut self, value: Self::Input, settings: Self::Settings);
    fn remove(&mut self, value: Self::Input, settings: Self::Settings);
    fn value(&self) -> ScalarRef<'static>;

    /// The value right after one was added.
    #[inline(always)]
    fn value_added(&self) -> ScalarRef<'static> {
        self.value()
    }

    /// It keeps values on the heap.
    const KEEPS: bool = false;
}

/// An aggregator over numbers. A null leaves the state alone and gets the current value.
pub struct Numbers<S: Running> {
    groups: GroupStates<S>,
    settings: S::Settings,
    /// The only class that is taken out of columns of mixed types; `None`: any number.
    class: Option<Type>,
}

impl<S: Running> Numbers<S> {
    pub fn new(settings: S::Settings, class: Option<Type>) -> Numbers<S> {
        Numbers {
            groups: GroupStates::default(),
            settings,
            class,
        }
    }

    #[inline(always)]
    fn step_and_put(
        &mut self,
        group: Group,
        value: Option<S::Input>,
        is_expired: bool,
        out: &mut ColumnBuilder,
    ) {
        let settings = self.settings;
        let state = self.groups.states.at(group);
        let before = if S::KEEPS { state.bytes() } else { 0 };
        match value {
            Some(value) if is_expired => {
                state.remove(value, settings);
                out.push_single(state.value());
            }
            value => out.push_single(arrive(state, value, settings)),
        }
        if S::KEEPS {
            self.groups.total.change(before, state.bytes());
        }
    }

    fn scan_values(
        &mut self,
        scan: &Scan<'_>,
        column: &Column,
        context: &mut EvalContext<'_>,
        out: &mut ColumnBuilder,
    ) {
        each_row(scan, |group, row, is_expired| {
            let value = column.value(row);
            let accepted = self.class.is_none() || value.ty() == self.class;
            match S::Input::of_value(&value) {
                Some(number) if accepted => {
                    self.step_and_put(group, Some(number), is_expired, out);
                }
                _ if value.is_null() => self.step_and_put(group, None, is_expired, out),
                _ => {
                    let found = event::text::to_text(&value);
                    context.fail(scan.start + row, format!("cannot aggregate '{found}'"));
                    out.push_null();
                }
            }
        });
    }
}

impl<S: Running> Aggregate for Numbers<S> {
    fn scan(&mut self, scan: &Scan<'_>, context: &mut EvalContext<'_>, out: &mut ColumnBuilder) {
        let column = scan.args[0].slice(scan.start, scan.end - scan.start);
        let Some(values) = S::Input::of_column(&column) else {
            return self.scan_values(scan, &column, context, out);
        };
        let values = values.as_ref();
        match column.nulls() {
            None => each_row(scan, |group, row, is_expired| {
                self.step_and_put(group, Some(values[row]), is_expired, out);
            }),
            Some(nulls) => each_row(scan, |group, row, is_expired| {
                let value = (!nulls[row]).then(|| values[row]);
                self.step_and_put(group, value, is_expired, out);
            }),
        }
    }

    fn slides(&self) -> bool {
        S::COUNTS
    }

    fn slide(&mut self, scan: &SlideScan<'_>, out: &mut ColumnBuilder, emptied: &mut Vec<Group>) {
        let (Some(leaving), Some(arriving)) = (scan.leaving.arg, scan.arriving.arg) else {
            return;
        };
        let (Some(left), Some(arrived)) =
            (S::Input::of_column(leaving), S::Input::of_column(arriving))
        else {
            return;
        };
        let (left, arrived) = (Values::of(leaving, &left), Values::of(arriving, &arrived));
        let has_nulls = left.nulls.is_some() || arrived.nulls.is_some();
        macro_rules! follow {
            ($has_nulls:literal, $states:expr) => {
                each_step(
                    scan,
                    Followed::<$has_nulls, _, S> {
                        states: $states,
                        left,
                        arrived,
                        settings: self.settings,
                        out,
                        emptied,
                    },
                )
            };
        }
        match (has_nulls, self.groups.states.side_by_side(scan)) {
            (false, Some(states)) => follow!(false, states),
            (false, None) => follow!(false, &mut self.groups.states),
            (true, _) => follow!(true, &mut self.groups.states),
        }
    }

    // Twin: `slide` above; keep both in step.
    fn slide_one(
        &mut self,
        left: Option<&SlideRow<'_>>,
        arrived: &SlideRow<'_>,
        emptied: &mut Vec<Group>,
    ) -> ScalarRef<'static> {
        let settings = self.settings;
        if let Some(left) = left {
            let state = self.groups.states.at(left.group);
            if leave(state, number_at(left), settings) {
                emptied.push(left.group);
            }
        }
        let state = self.groups.states.at(arrived.group);
        arrive(state, number_at(arrived), settings)
    }

    fn clear(&mut self, group: Group) {
        self.groups.clear(group);
    }

    fn is_empty(&self, group: Group) -> bool {
        self.groups.is_empty(group)
    }

    fn release(&mut self, groups: Range<Group>) {
        self.groups.release(groups);
    }

    fn bytes(&self) -> usize {
        self.groups.bytes()
    }

    fn save(&self, group: Group, writer: &mut Writer) {
        self.groups.save(group, writer);
    }

    fn restore(&mut self, group: Group, reader: &mut Reader<'_>) -> Result<(), StateError> {
        self.groups.restore(group, reader)
    }
}

/// A row arrives in its group: the value of that afterwards. A null leaves it as it is.
#[inline(always)]
fn arrive<S: Running>(
    state: &mut S,
    value: Option<S::Input>,
    settings: S::Settings,
) -> ScalarRef<'static> {
    match value {
        None => state.value(),
        Some(value) => {
            state.add(value, settings);
            state.value_added()
        }
    }
}

/// A row leaves its group: is nothing left of that?
#[inline(always)]
fn leave<S: Running>(state: &mut S, value: Option<S::Input>, settings: S::Settings) -> bool {
    if let Some(value) = value {
        state.remove(value, settings);
    }
    state.is_empty()
}

/// The number in a row of an argument; `None` for null.
#[inline(always)]
fn number_at<T: Number>(slid: &SlideRow<'_>) -> Option<T> {
    let column = slid.arg.filter(|column| !column.is_null(slid.row))?;
    T::of_row(column, slid.row)
}

/// Rows of an argument as numbers.
#[derive(Clone, Copy)]
struct Values<'a, T> {
    all: &'a [T],
    nulls: Option<&'a [bool]>,
}

impl<'a, T: Copy> Values<'a, T> {
    fn of(column: &'a Column, all: &'a [T]) -> Values<'a, T> {
        let nulls = column.nulls();
        Values { all, nulls }
    }

    /// `None` for null; without `HAS_NULLS` nobody looks for one.
    #[inline(always)]
    fn at<const HAS_NULLS: bool>(&self, row: usize) -> Option<T> {
        let is_null = HAS_NULLS && self.nulls.is_some_and(|nulls| nulls[row]);
        (!is_null).then(|| self.all[row])
    }
}

/// The states of some groups that follow a sliding window.
struct Followed<'a, const HAS_NULLS: bool, A: ?Sized, S: Running> {
    states: &'a mut A,
    left: Values<'a, S::Input>,
    arrived: Values<'a, S::Input>,
    settings: S::Settings,
    out: &'a mut ColumnBuilder,
    emptied: &'a mut Vec<Group>,
}

impl<const HAS_NULLS: bool, A: Slots<S> + ?Sized, S: Running> Follow
    for Followed<'_, HAS_NULLS, A, S>
{
    #[inline(always)]
    fn leave(&mut self, group: Group, row: usize) {
        let state = self.states.slot(group);
        if leave(state, self.left.at::<HAS_NULLS>(row), self.settings) {
            self.emptied.push(group);
        }
    }

    #[inline(always)]
    fn arrive(&mut self, group: Group, row: usize) {
        let state = self.states.slot(group);
        let value = arrive(state, self.arrived.at::<HAS_NULLS>(row), self.settings);
        self.out.push_single(value);
    }
}
