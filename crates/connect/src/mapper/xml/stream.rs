//! Cuts events out of XML that comes in pieces: an incremental tokenizer with a stack of the open
//! elements.
//!
//! Siddhi searches the text for `<node`; a name that only begins so, an element in itself, a comment
//! or a tag on two lines lead it astray (`connectors-map.md` 3.1). Here a tag is a tag. Whatever is
//! broken costs its own event: the stack finds the way back at the next end tag that fits.

use std::ops::Range;

use memchr::{memchr, memchr2, memchr3, memmem};

use crate::mapper::scan::first_stop;

/// Bytes that may wait for the end of an event, comment or tag.
pub(super) const WAITING_MAX: usize = 16 << 20;

/// Bytes of a tag that is read from its begin again when more of it comes.
const PLAIN_WAITING_MAX: usize = 4096;

/// Nesting of open elements.
const DEPTH_MAX: usize = 1024;

#[derive(Debug)]
pub(super) struct Stream {
    /// Names from the root to the event.
    segments: Vec<String>,
    buffer: String,
    /// What lies before has been read.
    at: usize,
    /// Where the search for the end of the markup at `at` goes on, and the quote it is in.
    resume: usize,
    quote: Option<u8>,
    /// Names of the open elements behind one another.
    open: String,
    ends: Vec<usize>,
    /// How many of the open elements are the begin of `segments`.
    matched: usize,
    event: Option<Event>,
    tag: Tag,
}

/// The attributes of the first tag of an event. Events of one stream mostly have the same, in the
/// same order: those of the tag before are tried first.
#[derive(Debug, Default)]
pub(super) struct Tag {
    known: Vec<Known>,
    /// Counts the changes of `known`.
    shape: u64,
    /// Values of the first attributes of `known`, from the begin of the event.
    values: Vec<Range<usize>>,
}

#[derive(Debug)]
struct Known {
    /// Blanks, name, `=` and quote, as they were written.
    pattern: Vec<u8>,
    name: String,
}

impl Tag {
    /// Changes with the names.
    pub fn shape(&self) -> u64 {
        self.shape
    }

    /// Names that an event of this shape may have, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.known.iter().map(|known| known.name.as_str())
    }

    /// Values of the event last found, for the first of the names.
    pub fn values(&self) -> &[Range<usize>] {
        &self.values
    }

    /// Reads the attributes of a plain tag from behind its name; gives its end and whether it is
    /// empty. `None` for a tag that is not plain or not all there.
    #[inline]
    fn read(&mut self, tag: &[u8], mut at: usize) -> Option<(usize, bool)> {
        self.values.clear();
        loop {
            let index = self.values.len();
            let start = match self.known.get(index) {
                Some(known) if tag[at..].starts_with(&known.pattern) => at + known.pattern.len(),
                _ => match tag_close(tag, at) {
                    Some(close) => return Some(close),
                    None => self.learn(tag, at)?,
                },
            };
            let end = value_end(tag, start, tag[start - 1])?;
            self.values.push(start..end);
            at = end + 1;
        }
    }

    /// Takes the attribute at `at` for the next one known; gives where its value begins.
    #[cold]
    fn learn(&mut self, tag: &[u8], at: usize) -> Option<usize> {
        self.known.truncate(self.values.len());
        self.shape += 1;
        let Next::Attribute(attribute) = next_attribute(tag, at) else {
            return None;
        };
        let name = std::str::from_utf8(&tag[attribute.name]).ok()?;
        let is_new = name != "xmlns" && self.known.iter().all(|known| known.name != name);
        if !is_new || self.known.len() >= ATTRIBUTES_MAX {
            return None;
        }
        self.known.push(Known {
            pattern: tag[at..attribute.value.start].to_vec(),
            name: name.to_owned(),
        });
        Some(attribute.value.start)
    }
}

/// Attributes of a tag that is read the short way.
const ATTRIBUTES_MAX: usize = 32;

#[derive(Clone, Copy, Debug)]
struct Event {
    start: usize,
    /// Open elements with the event's own.
    depth: usize,
    is_plain: bool,
}

/// Something found in the buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Found {
    /// A whole event. `is_plain`: its tags are balanced and well-formed, it has no reference, comment,
    /// CDATA, instruction or `\r`, and [`Stream::tag`] has the attributes of its first tag.
    Event { range: Range<usize>, is_plain: bool },
    Fault {
        range: Range<usize>,
        what: &'static str,
    },
}

/// A piece of markup.
enum Markup {
    Start {
        name: Range<usize>,
        end: usize,
        is_empty: bool,
        is_plain: bool,
    },
    End {
        name: Range<usize>,
        end: usize,
    },
    Declaration {
        end: usize,
    },
    Other {
        end: usize,
    },
}

impl Stream {
    /// `segments` is not empty.
    pub fn new(segments: Vec<String>) -> Stream {
        Stream {
            segments,
            buffer: String::new(),
            at: 0,
            resume: 0,
            quote: None,
            open: String::new(),
            ends: Vec::new(),
            matched: 0,
            event: None,
            tag: Tag::default(),
        }
    }

    /// The first tag of the event last found.
    pub fn tag(&self) -> &Tag {
        &self.tag
    }

    /// Takes a piece. A line break stands between two pieces.
    pub fn push(&mut self, piece: &str) {
        if !self.buffer.is_empty() {
            self.buffer.push('\n');
        }
        self.buffer.push_str(piece);
    }

    pub fn text(&self, range: Range<usize>) -> &str {
        &self.buffer[range]
    }

    /// The next event or fault; `None` until more is pushed.
    pub fn next_found(&mut self) -> Option<Found> {
        loop {
            let bytes = self.buffer.as_bytes();
            let Some(found) = memchr(b'<', &bytes[self.at..]) else {
                self.at = bytes.len();
                break;
            };
            self.at += found;
            let Some(markup) = self.markup() else {
                break;
            };
            (self.resume, self.quote) = (0, None);
            if let Some(found) = self.take(markup) {
                return Some(found);
            }
        }
        self.too_long()
    }

    /// Forgets what was read. Ranges that were given out end here.
    pub fn compact(&mut self) {
        let keep = self.event.map_or(self.at, |event| event.start);
        if keep >= self.buffer.len() {
            self.buffer.clear();
        } else if keep > 0 {
            self.buffer.drain(..keep);
        }
        self.at -= keep;
        self.resume = self.resume.saturating_sub(keep);
        if let Some(event) = &mut self.event {
            event.start = 0;
        }
    }

    /// The document ends here. What was left open is a fault, with the text that waited.
    pub fn finish(&mut self) -> Option<Found> {
        let start = self.event.map_or(self.at, |event| event.start);
        let is_broken = self.event.is_some() || !self.ends.is_empty() || start < self.buffer.len();
        let range = start..self.buffer.len();
        self.forget();
        is_broken.then_some(Found::Fault {
            range,
            what: "the document breaks off",
        })
    }

    /// Back to the begin of a document; the text stays until [`Stream::compact`].
    fn forget(&mut self) {
        self.at = self.buffer.len();
        (self.resume, self.quote) = (0, None);
        self.open.clear();
        self.ends.clear();
        self.matched = 0;
        self.event = None;
    }

    fn too_long(&mut self) -> Option<Found> {
        let start = self.event.map_or(self.at, |event| event.start);
        if self.buffer.len() - start <= WAITING_MAX {
            return None;
        }
        self.forget();
        Some(Found::Fault {
            range: start..self.buffer.len(),
            what: "an element, tag or comment is longer than 16 MiB",
        })
    }

    // ---- tokens ----

    /// The markup that begins at `at`; `None` while its end is not there.
    fn markup(&mut self) -> Option<Markup> {
        let at = self.at;
        let bytes = self.buffer.as_bytes();
        let rest = &bytes[at..];
        match rest.get(1)? {
            b'/' => {
                let end = at + memchr(b'>', rest)?;
                let mut last = end;
                while matches!(bytes[last - 1], b' ' | b'\t' | b'\n' | b'\r') {
                    last -= 1;
                }
                Some(Markup::End {
                    name: at + 2..last.max(at + 2),
                    end: end + 1,
                })
            }
            b'?' => {
                let end = self.terminated(b"?>", 2)?;
                let rest = &self.buffer.as_bytes()[at..];
                let is_declaration = rest.starts_with(b"<?xml")
                    && matches!(rest.get(5), Some(b' ' | b'\t' | b'\n' | b'\r'));
                Some(if is_declaration {
                    Markup::Declaration { end }
                } else {
                    Markup::Other { end }
                })
            }
            b'!' => self.declaration(),
            _ => self.start_tag(),
        }
    }

    /// A comment, CDATA or document type.
    fn declaration(&mut self) -> Option<Markup> {
        let rest = &self.buffer.as_bytes()[self.at..];
        for (begin, terminator) in [(&b"<!--"[..], &b"-->"[..]), (b"<![CDATA[", b"]]>")] {
            if rest.starts_with(begin) {
                let end = self.terminated(terminator, begin.len())?;
                return Some(Markup::Other { end });
            }
            if begin.starts_with(rest) {
                return None;
            }
        }
        // The internal subset stands in brackets; both it and quotes may hold '>'.
        let mut depth = 0usize;
        let mut quote = None;
        for (i, &byte) in rest.iter().enumerate() {
            match (quote, byte) {
                (Some(open), byte) if byte == open => quote = None,
                (Some(_), _) => {}
                (None, b'"' | b'\'') => quote = Some(byte),
                (None, b'[') => depth += 1,
                (None, b']') => depth = depth.saturating_sub(1),
                (None, b'>') if depth == 0 => {
                    return Some(Markup::Other {
                        end: self.at + i + 1,
                    });
                }
                _ => {}
            }
        }
        None
    }

    /// Behind the terminator; the search goes on where it stopped last.
    fn terminated(&mut self, terminator: &[u8], skip: usize) -> Option<usize> {
        let from = self.resume.max(self.at + skip).min(self.buffer.len());
        let found = memmem::find(&self.buffer.as_bytes()[from..], terminator);
        if found.is_none() {
            self.resume = self.buffer.len().saturating_sub(terminator.len() - 1);
        }
        Some(from + found? + terminator.len())
    }

    fn start_tag(&mut self) -> Option<Markup> {
        if self.resume.saturating_sub(self.at) < PLAIN_WAITING_MAX
            && let Some(markup) = self.plain_start_tag()
        {
            return Some(markup);
        }
        let bytes = self.buffer.as_bytes();
        let mut from = self.resume.max(self.at + 1);
        let end = loop {
            let found = match self.quote {
                Some(quote) => memchr(quote, &bytes[from..]),
                None => memchr3(b'>', b'"', b'\'', &bytes[from..]),
            };
            let Some(found) = found else {
                self.resume = bytes.len();
                return None;
            };
            let byte = bytes[from + found];
            from += found + 1;
            match self.quote {
                Some(_) => self.quote = None,
                None if byte == b'>' => break from,
                None => self.quote = Some(byte),
            }
        };
        let name = name_end(bytes, self.at + 1);
        Some(Markup::Start {
            name: self.at + 1..name,
            end,
            is_empty: bytes[end - 2] == b'/',
            is_plain: false,
        })
    }

    /// A plain tag of an event, read in one go.
    #[inline]
    fn plain_start_tag(&mut self) -> Option<Markup> {
        let depth = self.ends.len();
        let is_first =
            self.event.is_none() && self.matched == depth && self.segments.len() == depth + 1;
        if !is_first && self.event.is_none() {
            return None;
        }
        let tag = &self.buffer.as_bytes()[self.at..];
        let name = plain_name_end(tag, 1);
        if name == 1 {
            return None;
        }
        let (end, is_empty) = if is_first {
            self.tag.read(tag, name)?
        } else {
            plain_tag_end(tag, name)?
        };
        Some(Markup::Start {
            name: self.at + 1..self.at + name,
            end: self.at + end,
            is_empty,
            is_plain: true,
        })
    }

    // ---- structure ----

    fn take(&mut self, markup: Markup) -> Option<Found> {
        let start = self.at;
        match markup {
            Markup::Start {
                name,
                end,
                is_empty,
                is_plain,
            } => {
                self.at = end;
                self.start(start..end, name, is_empty, is_plain)
            }
            Markup::End { name, end } => {
                self.at = end;
                self.end(start, name, end)
            }
            Markup::Other { end } => {
                self.at = end;
                if let Some(event) = &mut self.event {
                    event.is_plain = false;
                }
                None
            }
            Markup::Declaration { end } => {
                // A declaration stands first: a new document begins.
                let was_open = !self.ends.is_empty();
                let from = self.event.map_or(start, |event| event.start);
                self.forget();
                self.at = end;
                was_open.then_some(Found::Fault {
                    range: from..start,
                    what: "the document breaks off",
                })
            }
        }
    }

    fn start(
        &mut self,
        tag: Range<usize>,
        name: Range<usize>,
        is_empty: bool,
        is_plain: bool,
    ) -> Option<Found> {
        let depth = self.ends.len();
        if depth >= DEPTH_MAX {
            let from = self.event.map_or(tag.start, |event| event.start);
            self.forget();
            return Some(Found::Fault {
                range: from..tag.end,
                what: "elements nest too deep",
            });
        }
        match &mut self.event {
            Some(event) => event.is_plain &= is_plain,
            None => {
                let is_next = self.matched == depth
                    && self
                        .segments
                        .get(depth)
                        .is_some_and(|s| *s == self.buffer[name.clone()]);
                if is_next {
                    self.matched += 1;
                    if self.matched == self.segments.len() {
                        self.event = Some(Event {
                            start: tag.start,
                            depth: depth + 1,
                            is_plain,
                        });
                    }
                }
            }
        }
        if is_empty {
            self.matched = self.matched.min(depth);
            return self.closed(depth, tag.end);
        }
        self.open.push_str(&self.buffer[name]);
        self.ends.push(self.open.len());
        None
    }

    fn end(&mut self, start: usize, name: Range<usize>, end: usize) -> Option<Found> {
        let name = &self.buffer[name];
        let depth = self.ends.len();
        let fits = (0..depth).rev().find(|&i| self.open_name(i) == name);
        let Some(fits) = fits else {
            return match &mut self.event {
                Some(event) => {
                    event.is_plain = false;
                    None
                }
                None => Some(Found::Fault {
                    range: start..end,
                    what: "an end tag closes nothing",
                }),
            };
        };
        if fits + 1 < depth
            && let Some(event) = &mut self.event
        {
            event.is_plain = false;
            if fits + 1 < event.depth {
                // The event itself was never closed.
                let range = event.start..start;
                self.event = None;
                self.close_to(fits);
                return Some(Found::Fault {
                    range,
                    what: "an element is never closed",
                });
            }
        }
        self.close_to(fits);
        self.closed(fits, end)
    }

    fn open_name(&self, index: usize) -> &str {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.open[start..self.ends[index]]
    }

    fn close_to(&mut self, depth: usize) {
        self.ends.truncate(depth);
        self.open.truncate(self.ends.last().copied().unwrap_or(0));
        self.matched = self.matched.min(depth);
    }

    /// An element was closed and `depth` are open: was it the event?
    fn closed(&mut self, depth: usize, end: usize) -> Option<Found> {
        let event = self.event.filter(|event| depth < event.depth)?;
        self.event = None;
        let range = event.start..end;
        let is_plain = event.is_plain
            && memchr2(b'&', b'\r', &self.buffer.as_bytes()[range.clone()]).is_none();
        Some(Found::Event { range, is_plain })
    }

    // ---- state ----

    /// The open elements and the text that waits.
    pub fn save(&self, out: &mut Vec<u8>) {
        let depth = self.event.map_or(self.ends.len(), |event| event.depth - 1);
        out.extend((depth as u32).to_le_bytes());
        for i in 0..depth {
            let name = self.open_name(i);
            out.extend((name.len() as u32).to_le_bytes());
            out.extend(name.as_bytes());
        }
        let start = self.event.map_or(self.at, |event| event.start);
        out.extend(&self.buffer.as_bytes()[start..]);
    }

    /// Takes what [`Stream::save`] gave; what cannot be read leaves nothing.
    pub fn restore(&mut self, held: &[u8]) {
        self.buffer.clear();
        self.forget();
        if self.try_restore(held).is_none() {
            self.buffer.clear();
            self.forget();
        }
    }

    fn try_restore(&mut self, held: &[u8]) -> Option<()> {
        let (depth, mut rest) = number(held)?;
        for i in 0..depth.min(DEPTH_MAX) {
            let (len, behind) = number(rest)?;
            let name = std::str::from_utf8(behind.get(..len)?).ok()?;
            if self.matched == i && self.segments.get(i).is_some_and(|s| s == name) {
                self.matched += 1;
            }
            self.open.push_str(name);
            self.ends.push(self.open.len());
            rest = &behind[len..];
        }
        self.buffer.push_str(std::str::from_utf8(rest).ok()?);
        self.at = 0;
        Some(())
    }
}

fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*number) as usize, rest))
}

/// Where the name that begins at `at` ends.
#[inline]
pub(super) fn name_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(byte) = bytes.get(at) {
        if matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'/' | b'>' | b'=') {
            break;
        }
        at += 1;
    }
    at
}

/// Bytes of plain names: ASCII, without a prefix. 1: only behind the first byte, 2: anywhere.
const NAME_BYTES: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => 2,
            b'0'..=b'9' | b'-' | b'.' => 1,
            _ => 0,
        };
        byte += 1;
    }
    table
};

/// Where the plain name that begins at `at` ends; `at` where there is none.
#[inline]
fn plain_name_end(bytes: &[u8], at: usize) -> usize {
    let mut end = at;
    while let Some(&byte) = bytes.get(end) {
        if NAME_BYTES[usize::from(byte)] < if end == at { 2 } else { 1 } {
            break;
        }
        end += 1;
    }
    end
}

/// Is the name of plain ASCII, without a prefix?
pub(super) fn is_plain_name(name: &[u8]) -> bool {
    !name.is_empty() && plain_name_end(name, 0) == name.len()
}

/// One attribute of a plain tag.
struct Attribute {
    name: Range<usize>,
    value: Range<usize>,
}

/// What follows in a tag.
enum Next {
    Attribute(Attribute),
    /// The tag ends here, and whether it is empty.
    Done(usize, bool),
    /// Something that is not plain, or not there yet.
    Odd,
}

/// The end of a tag that is closed at or behind `at`, and whether it is empty.
#[inline]
fn tag_close(tag: &[u8], mut at: usize) -> Option<(usize, bool)> {
    while matches!(tag.get(at), Some(b' ' | b'\t' | b'\n')) {
        at += 1;
    }
    match (tag.get(at), tag.get(at + 1)) {
        (Some(b'>'), _) => Some((at + 1, false)),
        (Some(b'/'), Some(b'>')) => Some((at + 2, true)),
        _ => None,
    }
}

/// The attribute behind `at`, where a name or the value of another one has ended.
#[inline]
fn next_attribute(tag: &[u8], at: usize) -> Next {
    if let Some((end, is_empty)) = tag_close(tag, at) {
        return Next::Done(end, is_empty);
    }
    let mut start = at;
    while matches!(tag.get(start), Some(b' ' | b'\t' | b'\n')) {
        start += 1;
    }
    let name = start..plain_name_end(tag, start);
    if start == at || name.is_empty() || tag.get(name.end) != Some(&b'=') {
        return Next::Odd;
    }
    let quote = match tag.get(name.end + 1) {
        Some(&quote @ (b'"' | b'\'')) => quote,
        _ => return Next::Odd,
    };
    let start = name.end + 2;
    match value_end(tag, start, quote) {
        Some(end) => Next::Attribute(Attribute {
            name,
            value: start..end,
        }),
        None => Next::Odd,
    }
}

/// Where the quote stands that ends a value; `None` for a value with `<`, `&` or a control character,
/// and for one that does not end.
#[inline]
fn value_end(bytes: &[u8], at: usize, quote: u8) -> Option<usize> {
    let end = first_stop(bytes, at, [quote, b'<', b'&'])?;
    (bytes[end] == quote).then_some(end)
}

/// The end of a plain tag from behind its name, and whether it is empty; `None` where it is not plain
/// or not all there.
fn plain_tag_end(tag: &[u8], mut at: usize) -> Option<(usize, bool)> {
    let mut names = [(0usize, 0usize); ATTRIBUTES_MAX];
    let mut count = 0;
    loop {
        let attribute = match next_attribute(tag, at) {
            Next::Done(end, is_empty) => return Some((end, is_empty)),
            Next::Odd => return None,
            Next::Attribute(attribute) => attribute,
        };
        let name = &tag[attribute.name.clone()];
        let is_known = names[..count].iter().any(|&(s, e)| tag[s..e] == *name);
        if is_known || name == b"xmlns" || count == ATTRIBUTES_MAX {
            return None;
        }
        names[count] = (attribute.name.start, attribute.name.end);
        count += 1;
        at = attribute.value.end + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(stream: &mut Stream, pieces: &[&str]) -> String {
        let mut out = String::new();
        for piece in pieces {
            stream.push(piece);
            while let Some(found) = stream.next_found() {
                match found {
                    Found::Event { range, is_plain } => {
                        let mark = if is_plain { "" } else { "~" };
                        out.push_str(&format!("{mark}{}|", stream.text(range)));
                    }
                    Found::Fault { range, what } => {
                        out.push_str(&format!("!{what}: {}|", stream.text(range)));
                    }
                }
            }
            stream.compact();
        }
        out
    }

    fn check(path: &str, pieces: &[&str], expect: &str) {
        let segments = || path.split('/').map(str::to_owned).collect();
        assert_eq!(run(&mut Stream::new(segments()), pieces), expect);
        // The same with the state saved and restored behind each piece.
        let (mut out, mut held) = (String::new(), Vec::new());
        for piece in pieces {
            let mut stream = Stream::new(segments());
            if !held.is_empty() {
                stream.restore(&held);
            }
            out.push_str(&run(&mut stream, &[piece]));
            held.clear();
            stream.save(&mut held);
        }
        assert_eq!(out, expect, "saved and restored");
    }

    #[test]
    fn events_come_out_of_lines() {
        check(
            "osm/node",
            &[
                "<?xml version='1.0'?>",
                "<!DOCTYPE osm [<!ENTITY a '>'>]>",
                "<osm v=\"a>b\">",
                "<bounds/>",
                "<nodes><node id='no'/></nodes>",
                "<node id='1'/><node id='2'>",
                "<tag k='>'/>",
                "</node>",
                "<!-- <node id='no'> -->",
                "<way><node id='no'/></way>",
                "<node",
                "id='3' />",
                "</osm>",
            ],
            "<node id='1'/>|<node id='2'>\n<tag k='>'/>\n</node>|<node\nid='3' />|",
        );
    }

    #[test]
    fn an_event_may_hold_its_own_name_and_what_is_not_plain() {
        check(
            "a/b",
            &[
                "<a><b><b/>x</b><b><!-- </b> --></b><b>&lt;</b><b><c x=1/></b><b><![CDATA[</b>",
                "]]></b></a>",
            ],
            "<b><b/>x</b>|~<b><!-- </b> --></b>|~<b>&lt;</b>|~<b><c x=1/></b>|~<b><![CDATA[</b>\n]]></b>|",
        );
        check("b", &["<b>1</b><b>2</b>"], "<b>1</b>|<b>2</b>|");
    }

    #[test]
    fn what_is_broken_costs_its_own_event() {
        check(
            "a/b",
            &[
                "<a><b><c></b><b>1</b></x>",
                "<b>2<d>",
                "</a>",
                "<a><b>3</b>",
            ],
            "~<b><c></b>|<b>1</b>|!an end tag closes nothing: </x>|!an element is never closed: <b>2<d>\n|<b>3</b>|",
        );
        check(
            "a/b",
            &["<a><b>1", "<?xml version='1.0'?><a><b>2</b></a>"],
            "!the document breaks off: <b>1\n|<b>2</b>|",
        );
        let deep = "<a>".repeat(DEPTH_MAX + 1);
        assert!(run(&mut Stream::new(vec!["x".into()]), &[&deep]).contains("too deep"));
    }

    #[test]
    fn the_end_of_a_document_is_checked() {
        let mut stream = Stream::new(vec!["a".into(), "b".into()]);
        run(&mut stream, &["<a><b/></a>"]);
        assert_eq!(stream.finish(), None);
        run(&mut stream, &["<a><b>"]);
        assert!(stream.finish().is_some());
        stream.compact();
        assert_eq!(run(&mut stream, &["<a><b/>"]), "<b/>|");
    }

    #[test]
    fn long_waits_are_bounded() {
        let mut stream = Stream::new(vec!["a".into()]);
        let piece = format!("<!-- {}", "x".repeat(1 << 20));
        let mut faults = String::new();
        for _ in 0..17 {
            faults.push_str(
                &run(&mut stream, &[&piece])
                    .chars()
                    .take(30)
                    .collect::<String>(),
            );
        }
        assert!(
            faults.starts_with("!an element, tag or comment"),
            "{faults}"
        );
    }
}
