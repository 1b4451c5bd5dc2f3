//! Where the values of each event of a bundle are.
//!
//! A client writes null as a text among the strings, whatever the type, so that a null of another type
//! moves all that follow it in two lists. Whether such a text stands for the next attribute or for one behind it
//! shows only when all lists are used up exactly. Promises: a bundle is read where one reading of it comes
//! out even, and refused where none or more than one does, with the event and attribute that it failed at.

use event::Type;

use crate::bundle::Bundle;
use crate::stream::{Counts, Layout};

/// Events of a bundle that is read in this way; plain ones ([`Bundle::is_plainly`]) have no limit.
pub const EVENTS_MAX: usize = 1 << 18;

/// Readings of one place that are followed at once.
const READINGS_MAX: usize = 128;

/// Values that are looked at for all readings beside the first.
const STEPS_MAX: usize = 1 << 20;

/// How much of each list is used.
impl Counts {
    /// No limit.
    const ANY: Counts = Counts {
        ints: usize::MAX,
        longs: usize::MAX,
        doubles: usize::MAX,
        bools: usize::MAX,
        strings: usize::MAX,
    };

    /// How the list of a type is called.
    const fn list(ty: Type) -> &'static str {
        match ty {
            Type::Int => "ints",
            Type::Long => "longs",
            Type::Float | Type::Double => "doubles",
            Type::Bool => "bools",
            Type::String | Type::Object => "strings",
        }
    }

    /// What these lack to hold the values of so many events, none of them null; `None`: one has more.
    fn lacks_of(&self, events: usize, counts: &Counts) -> Option<Counts> {
        let lacks = |each: usize, have: usize| events.checked_mul(each)?.checked_sub(have);
        Some(Counts {
            ints: lacks(counts.ints, self.ints)?,
            longs: lacks(counts.longs + 1, self.longs)?,
            doubles: lacks(counts.doubles, self.doubles)?,
            bools: lacks(counts.bools, self.bools)?,
            strings: 0,
        })
    }
}

/// An event of a bundle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placed {
    /// The number of its layout.
    pub layout: usize,
    /// Where its values begin; the first string is the id of its stream, the first long its time.
    pub begin: Counts,
    /// Attributes of another type than STRING that are null.
    pub nulls: Vec<u32>,
}

/// One way to read a bundle up to a place.
#[derive(Clone, Debug)]
struct Way {
    used: Counts,
    /// Values of each type that are null by it.
    nulled: Counts,
    event: Placed,
    /// The way of the event before it.
    before: Option<u32>,
    /// Another way leads to the same place.
    is_one_of_many: bool,
}

/// Why a bundle is not read: the furthest that any reading came.
struct Furthest {
    event: usize,
    attribute: usize,
    cause: String,
}

impl Furthest {
    fn fail(&mut self, event: usize, attribute: usize, cause: impl FnOnce() -> String) {
        if (event, attribute) >= (self.event, self.attribute) || self.cause.is_empty() {
            (self.event, self.attribute) = (event, attribute);
            self.cause = cause();
        }
    }
}

/// Finds the events of a bundle; `find` gives the number of a layout by the id of a stream.
///
/// # Errors
/// Why it cannot be read, in words.
pub fn read<'l>(
    bundle: &Bundle<'_>,
    strings: &[&[u8]],
    find: impl Fn(&[u8]) -> Option<(usize, &'l Layout)>,
) -> Result<Vec<Placed>, String> {
    if bundle.events > EVENTS_MAX {
        return Err(format!(
            "{} events of several streams, or with nulls, are more than {EVENTS_MAX} of a bundle",
            bundle.events
        ));
    }
    let whole = Counts {
        ints: bundle.ints.len() / 4,
        longs: bundle.longs.len() / 8,
        doubles: bundle.doubles.len() / 8,
        bools: bundle.bools.len(),
        strings: strings.len(),
    };
    if bundle.events == 0 {
        return match whole == Counts::default() {
            true => Ok(Vec::new()),
            false => Err("it announces no event and has values".to_owned()),
        };
    }
    // Mostly all events are of the first one's stream: then it is known how many of each type are null.
    let first = strings.first().copied().unwrap_or_default();
    let of_one = find(first).and_then(|(number, layout)| {
        let nulls = whole.lacks_of(bundle.events, &layout.counts)?;
        let alone = |id: &[u8]| (id == first).then_some((number, layout));
        Search::new(bundle.events, whole, nulls, strings, alone)
            .read()
            .ok()
    });
    match of_one {
        Some(events) => Ok(events),
        None => {
            let any = Counts::ANY;
            Search::new(bundle.events, whole, any, strings, find).read()
        }
    }
}

fn left_over(used: Counts, whole: Counts) -> String {
    let left = [
        (whole.ints - used.ints, "ints"),
        (whole.longs - used.longs, "longs"),
        (whole.doubles - used.doubles, "doubles"),
        (whole.bools - used.bools, "bools"),
        (whole.strings - used.strings, "strings"),
    ];
    let left = left.into_iter().filter(|(count, _)| *count > 0);
    let left: Vec<String> = left
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    format!("behind the last event are {} too many", left.join(", "))
}

struct Search<'a, F> {
    events: usize,
    whole: Counts,
    /// So many of each type may be null.
    nulls: Counts,
    strings: &'a [&'a [u8]],
    find: F,
    steps: usize,
    furthest: Furthest,
}

impl<'a, 'l, F: Fn(&[u8]) -> Option<(usize, &'l Layout)>> Search<'a, F> {
    fn new(
        events: usize,
        whole: Counts,
        nulls: Counts,
        strings: &'a [&'a [u8]],
        find: F,
    ) -> Search<'a, F> {
        Search {
            events,
            whole,
            nulls,
            strings,
            find,
            steps: 0,
            furthest: Furthest {
                event: 0,
                attribute: 0,
                cause: String::new(),
            },
        }
    }

    fn read(mut self) -> Result<Vec<Placed>, String> {
        let mut all: Vec<Way> = Vec::new();
        let mut last: Vec<u32> = Vec::new();
        for event in 0..self.events {
            let mut begins: Vec<(Option<u32>, Counts, Counts, bool)> = Vec::new();
            if event == 0 {
                begins.push((None, Counts::default(), Counts::default(), false));
            }
            begins.extend(last.iter().map(|&before| {
                let way = &all[before as usize];
                (Some(before), way.used, way.nulled, way.is_one_of_many)
            }));
            let mut ways = Vec::new();
            for (before, used, nulled, is_one_of_many) in begins {
                let Some((number, layout)) = self.layout(event, used) else {
                    continue;
                };
                let begin = Way {
                    used,
                    nulled,
                    event: Placed {
                        layout: number,
                        begin: used,
                        nulls: Vec::new(),
                    },
                    before,
                    is_one_of_many,
                };
                self.event(event, begin, layout, &mut ways)?;
            }
            last.clear();
            for way in ways {
                last.push(all.len() as u32);
                all.push(way);
            }
        }
        let even = last
            .iter()
            .find(|&&way| all[way as usize].used == self.whole);
        let Some(&even) = even else {
            return Err(match last.first() {
                Some(&way) => left_over(all[way as usize].used, self.whole),
                None => self.furthest.cause,
            });
        };
        if all[even as usize].is_one_of_many {
            return Err("its nulls can be read in more than one way".to_owned());
        }
        let mut events = Vec::with_capacity(self.events);
        let mut at = Some(even);
        while let Some(way) = at {
            let way = &mut all[way as usize];
            at = way.before;
            let nulls = std::mem::take(&mut way.event.nulls);
            events.push(Placed {
                nulls,
                ..way.event.clone()
            });
        }
        events.reverse();
        Ok(events)
    }

    /// The layout of the event that begins there.
    fn layout(&mut self, event: usize, used: Counts) -> Option<(usize, &'l Layout)> {
        let Some(id) = self.strings.get(used.strings) else {
            let cause = || format!("event {}: the list of strings has ended", event + 1);
            self.furthest.fail(event, 0, cause);
            return None;
        };
        let found = (self.find)(id);
        if found.is_none() {
            let id = String::from_utf8_lossy(&id[..id.len().min(200)]).into_owned();
            let cause = || format!("event {}: there is no stream '{id}'", event + 1);
            self.furthest.fail(event, 0, cause);
        }
        found
    }

    /// All ways through one event, behind those that are there.
    fn event(
        &mut self,
        event: usize,
        mut begin: Way,
        layout: &Layout,
        into: &mut Vec<Way>,
    ) -> Result<(), String> {
        if begin.used.longs >= self.whole.longs {
            let cause = || failed(event, layout, "its timestamp", "longs");
            self.furthest.fail(event, 0, cause);
            return Ok(());
        }
        begin.used.strings += 1;
        begin.used.longs += 1;
        let too_many = || {
            format!(
                "event {} of stream '{}': its nulls can be read in too many ways",
                event + 1,
                layout.id
            )
        };
        let mut ways = vec![begin];
        for (number, attribute) in layout.attributes.iter().enumerate() {
            self.steps += ways.len().saturating_sub(1);
            let mut next: Vec<Way> = Vec::with_capacity(ways.len());
            for way in ways {
                let ty = attribute.ty;
                let next_text = self.strings.get(way.used.strings);
                let is_text = matches!(ty, Type::String | Type::Object);
                let may_be_null = way.nulled.of(ty) < self.nulls.of(ty);
                if !is_text && may_be_null && next_text.is_some_and(|text| *text == crate::NULL) {
                    let mut nulled = way.clone();
                    nulled.used.strings += 1;
                    *nulled.nulled.of_mut(ty) += 1;
                    nulled.event.nulls.push(number as u32);
                    join(&mut next, nulled);
                }
                if way.used.of(ty) < self.whole.of(ty) {
                    let mut valued = way;
                    *valued.used.of_mut(ty) += 1;
                    join(&mut next, valued);
                } else {
                    let what = format!("attribute '{}' ({ty})", attribute.name);
                    let cause = || failed(event, layout, &what, Counts::list(ty));
                    self.furthest.fail(event, number + 1, cause);
                }
            }
            if next.len() > READINGS_MAX || self.steps > STEPS_MAX {
                return Err(too_many());
            }
            ways = next;
        }
        let is_last = event + 1 == self.events;
        for way in ways {
            // Where the next event would begin, the id of a stream has to stand.
            if is_last || self.layout(event + 1, way.used).is_some() {
                join(into, way);
            }
        }
        match into.len() > READINGS_MAX {
            true => Err(too_many()),
            false => Ok(()),
        }
    }
}

fn failed(event: usize, layout: &Layout, what: &str, list: &str) -> String {
    format!(
        "event {} of stream '{}': {what} is missing, the list of {list} has ended",
        event + 1,
        layout.id
    )
}

/// Adds a way, unless another leads to the same place.
fn join(ways: &mut Vec<Way>, way: Way) {
    match ways.iter_mut().find(|other| other.used == way.used) {
        Some(other) => other.is_one_of_many = true,
        None => ways.push(way),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::Writer;

    fn layout(id: &str, attributes: &[(&str, Type)]) -> Layout {
        Layout::new(id, attributes.iter().map(|(name, ty)| (Some(*name), *ty))).expect("it is one")
    }

    /// What is read of a bundle: number of the layout and nulls of each event.
    fn found(
        layouts: &[Layout],
        write: impl Fn(&mut Writer),
    ) -> Result<Vec<(usize, Vec<u32>)>, String> {
        let (mut writer, mut bytes) = (Writer::default(), Vec::new());
        write(&mut writer);
        writer.finish(&mut bytes);
        let bundle = Bundle::read(&bytes).expect("it is one");
        let strings: Vec<&[u8]> = bundle.strings().collect();
        let find = |id: &[u8]| {
            layouts
                .iter()
                .enumerate()
                .find(|(_, layout)| layout.id.as_bytes() == id)
        };
        let events = read(&bundle, &strings, find)?;
        Ok(events
            .into_iter()
            .map(|event| (event.layout, event.nulls))
            .collect())
    }

    fn streams() -> [Layout; 2] {
        [
            layout(
                "a",
                &[
                    ("s", Type::String),
                    ("i", Type::Int),
                    ("d", Type::Double),
                    ("t", Type::String),
                ],
            ),
            layout(
                "b:2",
                &[("l", Type::Long), ("f", Type::Float), ("o", Type::Bool)],
            ),
        ]
    }

    #[test]
    fn events_of_several_streams_and_nulls_of_every_type_are_found() {
        let all = found(&streams(), |to| {
            to.event("a:1.0.0", 1);
            to.string("x");
            to.int(1);
            to.double(1.5);
            to.string("y");
            to.event("b:2", 2);
            to.long(5);
            to.null();
            to.bool(true);
            to.event("b:2", 3);
            (0..3).for_each(|_| to.null());
            to.event("a:1.0.0", 4);
            to.null();
            to.null();
            to.double(2.5);
            to.string("z");
        });
        let expect = vec![(0, vec![]), (1, vec![1]), (1, vec![0, 1, 2]), (0, vec![1])];
        assert_eq!(all, Ok(expect));
    }

    #[test]
    fn what_does_not_add_up_is_told_by_event_and_attribute() {
        let streams = streams();
        let short = found(&streams, |to| {
            to.event("b:2", 1);
            to.long(1);
            to.double(1.0);
            to.bool(true);
            to.event("b:2", 1);
            to.long(1);
        });
        let said = short.expect_err("it is short");
        assert_eq!(
            said,
            "event 2 of stream 'b:2': attribute 'f' (float) is missing, the list of doubles has ended"
        );
        let long = found(&streams, |to| {
            to.event("b:2", 1);
            to.long(1);
            to.double(1.0);
            to.bool(true);
            to.int(7);
            to.string("x");
        });
        assert_eq!(
            long.expect_err("it is long"),
            "behind the last event are 1 ints, 1 strings too many"
        );
        let nobody = found(&streams, |to| to.event("c:1", 1));
        assert_eq!(
            nobody.expect_err("nobody's"),
            "event 1: there is no stream 'c:1'"
        );
        // One of two ints is null, and so is one of the strings behind them: either may be the one.
        let two = [layout(
            "a",
            &[("i", Type::Int), ("j", Type::Int), ("s", Type::String)],
        )];
        let many = found(&two, |to| {
            to.event("a:1.0.0", 1);
            to.int(1);
            to.null();
            to.null();
        });
        assert!(
            many.expect_err("it is either")
                .contains("more than one way")
        );
    }

    #[test]
    fn events_with_very_many_nulls_are_found_where_the_counts_tell_them() {
        let types = [Type::Int, Type::Long, Type::Float, Type::Double, Type::Bool];
        let names = ["a", "b", "c", "d", "e"];
        let attributes: Vec<(&str, Type)> = names.into_iter().zip(types).collect();
        let streams = [layout("a", &attributes)];
        // All of an event are null, or only the LONG.
        for is_all in [true, false] {
            let all = found(&streams, |to| {
                for n in 0..300 {
                    to.event("a:1.0.0", n);
                    if is_all && n % 3 == 0 {
                        (0..5).for_each(|_| to.null());
                        continue;
                    }
                    to.int(1);
                    match n % 3 {
                        0 => to.null(),
                        _ => to.long(n),
                    }
                    to.double(0.5);
                    to.double(1.5);
                    to.bool(true);
                }
            });
            let all = all.expect("it has one reading");
            for (n, (_, nulls)) in all.iter().enumerate() {
                let expect: &[u32] = match (n % 3, is_all) {
                    (0, true) => &[0, 1, 2, 3, 4],
                    (0, false) => &[1],
                    _ => &[],
                };
                assert_eq!(nulls, expect, "event {n}");
            }
        }
    }

    #[test]
    fn what_has_very_many_readings_is_refused_in_bounded_time() {
        let wide: Vec<(String, Type)> = (0..200)
            .map(|n| {
                (
                    format!("a{n}"),
                    if n % 2 == 0 { Type::Int } else { Type::Long },
                )
            })
            .collect();
        let wide: Vec<(&str, Type)> = wide.iter().map(|(name, ty)| (name.as_str(), *ty)).collect();
        let said = found(&[layout("a", &wide)], |to| {
            to.event("a:1.0.0", 1);
            for n in 0..100 {
                to.int(n);
                to.long(i64::from(n));
                to.null();
            }
        });
        assert!(said.expect_err("too many").contains("too many ways"));
    }
}
