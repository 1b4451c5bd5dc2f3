//! `ThriftEventBundle`: the values of many events by their type, as lists over all of them.

use std::borrow::Cow;

use crate::stream::{Counts, Layout};
use crate::thrift::{self, Front};

/// Numbers of its fields.
const SESSION: i16 = 1;
const EVENTS: i16 = 2;
const INTS: i16 = 3;
const LONGS: i16 = 4;
const DOUBLES: i16 = 5;
const BOOLS: i16 = 6;
const STRINGS: i16 = 7;
const ARBITRARY: i16 = 8;

/// A bundle on the wire; lists are looked at where they lie.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Bundle<'a> {
    pub events: usize,
    /// 4 bytes each.
    pub ints: &'a [u8],
    /// 8 bytes each.
    pub longs: &'a [u8],
    pub doubles: &'a [u8],
    /// 1 byte each.
    pub bools: &'a [u8],
    strings: &'a [u8],
    pub string_count: usize,
    maps: &'a [u8],
    map_count: usize,
}

impl<'a> Bundle<'a> {
    /// Reads the fields of a bundle.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn read(bytes: &'a [u8]) -> Result<Bundle<'a>, String> {
        let mut bundle = Bundle::default();
        let mut fields = thrift::Fields(bytes);
        for field in &mut fields {
            match (field.id, field.ty) {
                (EVENTS, thrift::I32) => {
                    let events = Front(field.value).take().map_or(0, i32::from_be_bytes);
                    bundle.events = usize::try_from(events)
                        .map_err(|_| format!("it announces {events} events"))?;
                }
                (INTS, thrift::LIST) => bundle.ints = list(field.value, thrift::I32, "ints")?.0,
                (LONGS, thrift::LIST) => bundle.longs = list(field.value, thrift::I64, "longs")?.0,
                (DOUBLES, thrift::LIST) => {
                    bundle.doubles = list(field.value, thrift::DOUBLE, "doubles")?.0
                }
                (BOOLS, thrift::LIST) => bundle.bools = list(field.value, thrift::BOOL, "bools")?.0,
                (STRINGS, thrift::LIST) => {
                    (bundle.strings, bundle.string_count) =
                        list(field.value, thrift::STRING, "strings")?;
                }
                (ARBITRARY, thrift::MAP) => (bundle.maps, bundle.map_count) = maps(field.value)?,
                (SESSION | EVENTS | INTS | LONGS | DOUBLES | BOOLS | STRINGS | ARBITRARY, ty)
                    if (field.id, ty) != (SESSION, thrift::STRING) =>
                {
                    return Err(format!("field {} is of type {ty}", field.id));
                }
                // A field of a newer client.
                _ => {}
            }
        }
        match fields.0 {
            [0, ..] => Ok(bundle),
            _ => Err("it ends within a field".to_owned()),
        }
    }

    pub fn strings(&self) -> Strings<'a> {
        Strings(Front(self.strings))
    }

    /// Would its lists be used up by events of this stream alone, none of which has a null that is no string?
    pub fn fits(&self, counts: &Counts) -> bool {
        let fits = |bytes: &[u8], size: usize, each: usize| {
            self.events.checked_mul(each * size) == Some(bytes.len())
        };
        fits(self.ints, 4, counts.ints)
            && fits(self.longs, 8, counts.longs + 1)
            && fits(self.doubles, 8, counts.doubles)
            && fits(self.bools, 1, counts.bools)
            && self.events.checked_mul(counts.strings + 1) == Some(self.string_count)
    }

    /// Are all events of the stream of this layout, and do the lists come out even without a look at nulls?
    pub fn is_plainly(&self, layout: &Layout) -> bool {
        let each = layout.counts.strings + 1;
        self.fits(&layout.counts)
            && self
                .strings()
                .enumerate()
                .all(|(at, text)| at % each != 0 || text == layout.id.as_bytes())
    }

    pub fn has_maps(&self) -> bool {
        self.map_count > 0
    }

    /// Keys and values of the maps of events: the number of the event, key, value; `None` where they are
    /// no maps of texts.
    pub fn entries(&self) -> Option<Vec<(usize, &'a [u8], &'a [u8])>> {
        let mut entries = Vec::new();
        let mut front = Front(self.maps);
        for _ in 0..self.map_count {
            let event = front.count()?;
            let types = front.take::<2>()?;
            let count = front.count()?;
            if count > 0 && types != [thrift::STRING; 2] {
                return None;
            }
            for _ in 0..count {
                entries.push((event, front.string()?, front.string()?));
            }
        }
        // Maps are in no order on the wire.
        entries.sort_by_key(|(event, ..)| *event);
        Some(entries)
    }
}

/// Takes the entries of an event off the front of those of a bundle.
pub fn take_entries<'e, 'a>(
    entries: &mut &'e [(usize, &'a [u8], &'a [u8])],
    event: usize,
) -> &'e [(usize, &'a [u8], &'a [u8])] {
    let own = entries.iter().take_while(|(of, ..)| *of == event).count();
    let (own, rest) = entries.split_at(own);
    *entries = rest;
    own
}

/// The elements of a list of a type, and their count.
fn list<'a>(value: &'a [u8], ty: u8, name: &str) -> Result<(&'a [u8], usize), String> {
    let mut front = Front(value);
    let (found, count) = match (front.take(), front.count()) {
        (Some([found]), Some(count)) => (found, count),
        _ => return Err(format!("the list of {name} has no head")),
    };
    match found == ty || count == 0 {
        true => Ok((front.0, count)),
        false => Err(format!("the list of {name} has elements of type {found}")),
    }
}

fn maps(value: &[u8]) -> Result<(&[u8], usize), String> {
    let mut front = Front(value);
    match (front.take(), front.count()) {
        (Some([thrift::I32, thrift::MAP]), Some(count)) => Ok((front.0, count)),
        (Some(_), Some(0)) => Ok((&[], 0)),
        _ => Err("the arbitrary data is no map of maps by the number of the event".to_owned()),
    }
}

/// The strings of a bundle in their order.
#[derive(Clone, Copy)]
pub struct Strings<'a>(Front<'a>);

impl<'a> Iterator for Strings<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.0.string()
    }
}

/// The session of a bundle, and the bundle without it: what is kept of one must let nobody in.
pub fn split_session(bytes: &[u8]) -> Option<(&str, Cow<'_, [u8]>)> {
    let is_session = |field: &thrift::Field<'_>| (field.id, field.ty) == (SESSION, thrift::STRING);
    let mut fields = thrift::Fields(bytes);
    let first = fields.next()?;
    if is_session(&first) {
        return Some((text_of(first)?, Cow::Borrowed(fields.0)));
    }
    let session = text_of(thrift::Fields(bytes).find(is_session)?)?;
    let mut rest = Vec::new();
    for field in thrift::Fields(bytes).filter(|field| !is_session(field)) {
        thrift::write_field(&mut rest, field.ty, field.id);
        rest.extend_from_slice(field.value);
    }
    thrift::end(&mut rest);
    Some((session, Cow::Owned(rest)))
}

fn text_of(field: thrift::Field<'_>) -> Option<&str> {
    std::str::from_utf8(Front(field.value).string()?).ok()
}

// ---- what is written ----

/// A bundle that is put together; a list that nothing goes into is absent.
#[derive(Default)]
pub struct Writer {
    events: u32,
    ints: Vec<u8>,
    longs: Vec<u8>,
    doubles: Vec<u8>,
    bools: Vec<u8>,
    strings: Vec<u8>,
    string_count: u32,
    maps: Vec<u8>,
    map_count: u32,
}

impl Writer {
    /// Begins an event; its values follow in the order of the wire.
    pub fn event(&mut self, id: &str, time: i64) {
        self.events += 1;
        self.string(id);
        self.long(time);
    }

    pub fn int(&mut self, value: i32) {
        self.ints.extend_from_slice(&value.to_be_bytes());
    }

    pub fn long(&mut self, value: i64) {
        self.longs.extend_from_slice(&value.to_be_bytes());
    }

    pub fn double(&mut self, value: f64) {
        self.doubles.extend_from_slice(&value.to_be_bytes());
    }

    pub fn bool(&mut self, value: bool) {
        self.bools.push(u8::from(value));
    }

    pub fn string(&mut self, text: &str) {
        self.string_count += 1;
        thrift::write_string(&mut self.strings, text.as_bytes());
    }

    /// A value of any type that is null.
    pub fn null(&mut self) {
        self.string_count += 1;
        thrift::write_string(&mut self.strings, crate::NULL);
    }

    /// The map of the event that was begun last.
    pub fn map(&mut self, entries: &[(&str, &str)]) {
        if entries.is_empty() {
            return;
        }
        self.map_count += 1;
        self.maps
            .extend_from_slice(&(self.events - 1).to_be_bytes());
        self.maps.extend([thrift::STRING; 2]);
        self.maps
            .extend_from_slice(&(entries.len() as u32).to_be_bytes());
        for (key, value) in entries {
            thrift::write_string(&mut self.maps, key.as_bytes());
            thrift::write_string(&mut self.maps, value.as_bytes());
        }
    }

    /// Appends the fields behind the session, and the end of the struct.
    pub fn finish(&self, into: &mut Vec<u8>) {
        thrift::write_field(into, thrift::I32, EVENTS);
        into.extend_from_slice(&self.events.to_be_bytes());
        let fixed = [
            (INTS, thrift::I32, &self.ints, 4),
            (LONGS, thrift::I64, &self.longs, 8),
            (DOUBLES, thrift::DOUBLE, &self.doubles, 8),
            (BOOLS, thrift::BOOL, &self.bools, 1),
        ];
        let fixed = fixed.map(|(id, ty, bytes, size)| (id, ty, bytes, (bytes.len() / size) as u32));
        let strings = (STRINGS, thrift::STRING, &self.strings, self.string_count);
        for (id, ty, bytes, count) in fixed.into_iter().chain([strings]) {
            if count > 0 {
                thrift::write_field(into, thrift::LIST, id);
                into.push(ty);
                into.extend_from_slice(&count.to_be_bytes());
                into.extend_from_slice(bytes);
            }
        }
        if self.map_count > 0 {
            thrift::write_field(into, thrift::MAP, ARBITRARY);
            into.extend([thrift::I32, thrift::MAP]);
            into.extend_from_slice(&self.map_count.to_be_bytes());
            into.extend_from_slice(&self.maps);
        }
        thrift::end(into);
    }

    pub fn clear(&mut self) {
        for list in [
            &mut self.ints,
            &mut self.longs,
            &mut self.doubles,
            &mut self.bools,
            &mut self.strings,
            &mut self.maps,
        ] {
            list.clear();
        }
        (self.events, self.string_count, self.map_count) = (0, 0, 0);
    }
}
