//! `sort(n, attribute, …)`: the n rows that come first in an order.

use super::held::Held;
use super::params::*;
use crate::spec::*;
use std::cmp::Ordering;

use super::per_key::{PerKey, Rule, Stored};
use super::pool::{Pool, Slot, Visit};
use super::store::RowTypes;
use crate::component::*;
use crate::emission::Emission;
use crate::function::utf16;
use event::codec::{Error as StateError, Reader, Writer};
use event::column::View;
use event::{Batch, Column, Value};

pub struct Sort;

const SORT_KEY: Types = Types(Types::NUMBER.0 | Types::STRING.0);

static SPEC: FunctionSpec = runs(
    window(
        "sort",
        "The n first events of an order.",
        &[
            Overload::new(&[LENGTH, param("attribute", SORT_KEY, "What is ordered by.")]),
            Overload::repeating(
                &[
                    LENGTH,
                    param("attribute", SORT_KEY, "What is ordered by."),
                    param("order", SORT_KEY, "'asc' or 'desc', or the next attribute."),
                ],
                1,
            ),
        ],
    ),
    "define stream S (symbol string, price double);
from S#window.sort(2, price, 'desc') select symbol, price insert expired events into Out;
---
send S @0 A 5.0
send S @100 B 9.0
send S @200 C 7.0
expect Out A 5.0
",
);

impl Window for Sort {
    fn spec(&self) -> &'static FunctionSpec {
        &SPEC
    }

    fn bind(&self, setup: &WindowSetup<'_>) -> Result<Box<dyn WindowOperator>, Refused> {
        let length = super::count(setup.args, 0, "sort")?;
        let mut keys = Vec::new();
        let mut args = setup.args[1..].iter().peekable();
        while let Some(arg) = args.next() {
            let Some(column) = arg.attribute else {
                return Err(Refused("window 'sort' sorts by attributes".into()));
            };
            let order = args.next_if(|next| next.ty == event::Type::String);
            let is_descending = match order.map(|o| &o.constant) {
                None => false,
                Some(Some(Value::Str(order))) => order.eq_ignore_ascii_case("desc"),
                // Siddhi takes any text behind an attribute for its order.
                Some(_) => {
                    return Err(Refused(
                        "window 'sort' takes the text attribute for an order; write 'asc' or \
                         'desc' after each attribute"
                            .into(),
                    ));
                }
            };
            keys.push((column, is_descending));
        }
        let rule = First {
            length,
            needed: keys.iter().map(|(column, _)| *column).collect(),
            keys,
        };
        Ok(PerKey::operator(setup, rule))
    }
}

struct First {
    length: usize,
    /// Columns, and whether the order of each is descending.
    keys: Vec<(usize, bool)>,
    needed: Vec<usize>,
}

struct State {
    pool: Pool,
    /// In order once more than fit have come; before, as they came.
    rows: Vec<Slot>,
    is_sorted: bool,
}

impl Stored for State {
    fn new(types: &RowTypes) -> State {
        State {
            pool: Pool::new(types),
            rows: Vec::new(),
            is_sorted: false,
        }
    }

    fn bytes(&self) -> usize {
        self.pool.bytes() + size_of_val(&self.rows[..])
    }

    fn save(&self, _types: &RowTypes, writer: &mut Writer) {
        writer.bool(self.is_sorted);
        writer.rows(&self.pool.rows(self.rows.iter().copied()));
    }

    fn restore(types: &RowTypes, reader: &mut Reader<'_>) -> Result<State, StateError> {
        let is_sorted = reader.bool()?;
        let rows = reader.rows(types, 0)?;
        Ok(State {
            is_sorted,
            rows: (0..rows.len as Slot).collect(),
            pool: Pool::of(types, rows),
        })
    }
}

impl First {
    /// `None` where a value is missing, at which Java's `compareTo` fails.
    fn compare(&self, visit: &Visit<'_>, a: Slot, b: Slot) -> Option<Ordering> {
        let ((left, l), (right, r)) = (visit.place(a), visit.place(b));
        for &(column, is_descending) in &self.keys {
            let order = compare_cells((&left.columns[column], l), (&right.columns[column], r))?;
            if order.is_ne() {
                return Some(if is_descending {
                    order.reverse()
                } else {
                    order
                });
            }
        }
        Some(Ordering::Equal)
    }

    /// The order of rows of which a value is missing, so that a sort that fails is one all the same:
    /// the missing are last.
    fn compare_missing(&self, visit: &Visit<'_>, a: Slot, b: Slot) -> Ordering {
        let ((left, l), (right, r)) = (visit.place(a), visit.place(b));
        let of_key = |&(column, is_descending): &(usize, bool)| {
            let (left, right) = (&left.columns[column], &right.columns[column]);
            let missing = left.is_null(l).cmp(&right.is_null(r));
            let order = compare_cells((left, l), (right, r)).unwrap_or(missing);
            if is_descending {
                order.reverse()
            } else {
                order
            }
        };
        let mut orders = self.keys.iter().map(of_key);
        orders
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }

    /// Puts the newest row of a full window where it belongs, behind its equals.
    fn insert(&self, visit: &Visit<'_>, state: &mut Order<'_>, slot: Slot) -> Option<()> {
        if !*state.is_sorted {
            let mut is_known = true;
            state.rows.sort_by(|&a, &b| {
                let order = self.compare(visit, a, b);
                is_known &= order.is_some();
                order.unwrap_or_else(|| self.compare_missing(visit, a, b))
            });
            if !is_known {
                return None;
            }
            *state.is_sorted = true;
        }
        let (mut low, mut high) = (0, state.rows.len());
        while low < high {
            let middle = (low + high) / 2;
            match self.compare(visit, slot, state.rows[middle])? {
                Ordering::Less => high = middle,
                _ => low = middle + 1,
            }
        }
        state.rows.insert(low, slot);
        Some(())
    }
}

/// The order of a state beside its pool.
struct Order<'a> {
    rows: &'a mut Vec<Slot>,
    is_sorted: &'a mut bool,
}

/// Java's `compareTo` of two values of one type.
fn compare_cells(left: (&Column, usize), right: (&Column, usize)) -> Option<Ordering> {
    let ((a, l), (b, r)) = (left, right);
    if a.is_null(l) || b.is_null(r) {
        return None;
    }
    Some(match (a.view(), b.view()) {
        (View::Int(a), View::Int(b)) => a[l].cmp(&b[r]),
        (View::Long(a), View::Long(b)) => a[l].cmp(&b[r]),
        (View::Double(a), View::Double(b)) => total(a[l], b[r]),
        (View::Float(a), View::Float(b)) => total(f64::from(a[l]), f64::from(b[r])),
        (View::Str(a), View::Str(b)) => utf16::compare(a.get(l), b.get(r)).cmp(&0),
        _ => match (a.value(l), b.value(r)) {
            (Value::Str(a), Value::Str(b)) => utf16::compare(&a, &b).cmp(&0),
            (Value::Int(a), Value::Int(b)) => a.cmp(&b),
            (Value::Long(a), Value::Long(b)) => a.cmp(&b),
            (a @ (Value::Float(_) | Value::Double(_)), b) if a.ty() == b.ty() => {
                total(a.to_double()?, b.to_double()?)
            }
            _ => return None,
        },
    })
}

/// `Double.compare`: -0.0 before 0.0, NaN behind all and equal to itself.
fn total(a: f64, b: f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (false, false) => a.total_cmp(&b),
        (x, y) => x.cmp(&y),
    }
}

impl Rule for First {
    type State = State;

    /// `[C, E]` per event of a full window: the last of the order leaves, be it the one that has
    /// just come (`SortWindowProcessor`).
    fn process(
        &mut self,
        state: &mut State,
        batch: &Batch,
        context: &mut WindowContext<'_>,
        out: &mut Emission,
    ) {
        let State {
            pool,
            rows,
            is_sorted,
        } = state;
        let mut order = Order { rows, is_sorted };
        let mut visit = Visit::of_batch(pool, batch, out);
        for chunk in 0..batch.chunk_count() {
            let clock = batch.clock_at(chunk);
            for row in batch.chunk(chunk) {
                visit.pass(row, out);
                let slot = visit.add(row);
                if order.rows.len() < self.length {
                    order.rows.push(slot);
                    continue;
                }
                if self.insert(&visit, &mut order, slot).is_none() {
                    visit.remove(slot);
                    context.failures.push(Failure {
                        row: row as u32,
                        message: "window 'sort' cannot compare a value that is null".into(),
                    });
                    out.abandon_chunk();
                    break;
                }
                if let Some(last) = order.rows.pop() {
                    visit.emit(last, true, Some(clock), out);
                    visit.remove(last);
                }
            }
            out.end_chunk(clock);
        }
        visit.finish();
    }

    fn needed(&self) -> &[usize] {
        &self.needed
    }

    fn content<'s>(&self, state: &'s State) -> Option<Held<'s>> {
        Some(Held::from(state.pool.rows(state.rows.iter().copied())))
    }
}

#[cfg(test)]
mod tests {
    use crate::window::testing::*;

    #[test]
    fn the_last_of_the_order_leaves_behind_the_new_event() {
        check(
            &Case::new("sort", &[int(2), v()]),
            "5@0 3@1 9@2 1@3 [4 2]@4",
            "C5@0 | C3@1 | C9@2 E9@2 | C1@3 E5@3 | C4@4 E4@4 C2@4 E3@4",
        );
        check(
            &Case::new("sort", &[int(2), v(), text("desc")]),
            "5@0 3@1 9@2",
            "C5@0 | C3@1 | C9@2 E3@2",
        );
    }

    #[test]
    fn of_equals_the_newest_leaves() {
        check(
            &Case::new("sort", &[int(1), t(), v()]).showing_t(),
            "5~1@0 5~1@1 4~1@2 9~0@3",
            "C5~1@0 | C5~1@1 E5~1@1 | C4~1@2 E5~1@2 | C9~0@3 E4~1@3",
        );
    }

    #[test]
    fn a_full_window_fails_on_what_is_missing() {
        check_failure(
            &Case::new("sort", &[int(1), v()]),
            "5@0 -@1 4@2",
            "window 'sort' cannot compare a value that is null",
            "C5@0 | C4@2 E5@2",
        );
    }

    #[test]
    fn kept_rows_are_found_in_order() {
        let case = Case::new("sort", &[int(2), v()]);
        check_content(&case, "5@0 3@1", "5 3", 0);
        check_content(&case, "5@0 3@1 4@2", "3 4", 0);
    }
}
