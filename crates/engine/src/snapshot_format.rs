//! The form in which an app's state lies in a saved state, and what is laid over it later.
//!
//! ```text
//! state   := version piece* END
//! piece   := PIECE name shape parts field*      whole
//!          | CHANGED name field*                over the piece before
//!          | SAME name                          as before
//! field   := BLOB length bytes                  as a whole
//!          | LIST (ENTRY gap length bytes | GONE gap length)* LIST_END
//! ```
//!
//! A *base* has pieces that are whole and nothing that is gone. An *increment* has the same pieces in
//! the same order, with what has changed since the state before it. The entries of a list stand in
//! the order of their numbers (a gap is the distance to the one before), which are those of the
//! running app: dense numbers of groups and keys, pages of a table, segments of a window. So a base
//! and its increments are put together in one pass over all of them, newest first where two have the
//! same number, without more memory than a block of each.

use std::io::{self, BufRead};
use std::ops::Range;

use event::codec::{Error as StateError, Reader, Writer};

/// Version of the whole; what windows, aggregators and functions save carries its own.
pub(super) const VERSION: u32 = 3;

pub(super) const END: u8 = 0;
pub(super) const PIECE: u8 = 1;
const CHANGED: u8 = 2;
const SAME: u8 = 3;
const BLOB: u8 = 4;
const LIST: u8 = 5;
const ENTRY: u8 = 6;
const GONE: u8 = 7;
const LIST_END: u8 = 8;

/// Number of an entry in its list.
pub(crate) type Id = u128;

/// Bytes of a name, a shape and the like when increments are put together.
const TEXT_MAX: u64 = 16 << 20;

/// How much of a piece is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Extent {
    All,
    Changes,
}

// ---- writing ----

pub(crate) fn begin(writer: &mut Writer) {
    writer.u32(VERSION);
}

pub(crate) fn end(writer: &mut Writer) {
    writer.u8(END);
}

pub(crate) fn whole_piece(writer: &mut Writer, name: &str, state: &plan::state::State) {
    writer.u8(PIECE);
    writer.str(name);
    writer.str(&state.shape);
    writer.count(state.parts.len());
    state.parts.iter().for_each(|part| writer.str(part));
}

pub(crate) fn changed_piece(writer: &mut Writer, name: &str) {
    writer.u8(CHANGED);
    writer.str(name);
}

pub(super) fn same_piece(writer: &mut Writer, name: &str) {
    writer.u8(SAME);
    writer.str(name);
}

/// A field that is written whole whenever its piece is.
pub(crate) fn blob(writer: &mut Writer, write: impl Fn(&mut Writer)) {
    writer.u8(BLOB);
    writer.section(write);
}

/// A field of entries, written in the order of their numbers.
pub(crate) struct List<'w> {
    writer: &'w mut Writer,
    extent: Extent,
    last: Id,
    /// For the entry that is being written: its length stands in front of it.
    room: Vec<u8>,
}

impl<'w> List<'w> {
    pub fn new(writer: &'w mut Writer, extent: Extent) -> List<'w> {
        writer.u8(LIST);
        List {
            writer,
            extent,
            last: 0,
            room: Vec::new(),
        }
    }

    pub fn entry(&mut self, id: Id, write: impl Fn(&mut Writer)) {
        self.writer.u8(ENTRY);
        self.gap(id);
        self.writer.entry(&mut self.room, write);
    }

    /// What was saved before under these numbers is gone, but for entries that follow. A whole list
    /// needs no such word.
    pub fn gone(&mut self, ids: Range<Id>) {
        if self.extent == Extent::All || ids.is_empty() {
            return;
        }
        self.writer.u8(GONE);
        self.gap(ids.start);
        self.writer.varint(ids.end - ids.start);
    }

    fn gap(&mut self, id: Id) {
        debug_assert!(
            id >= self.last,
            "entries stand in the order of their numbers"
        );
        self.writer.varint(id - self.last);
        self.last = id;
    }

    pub fn end(self) {
        self.writer.u8(LIST_END);
    }
}

// ---- reading ----

/// A field of a whole piece.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Field<'a> {
    Blob(&'a [u8]),
    /// The entries up to the end of the list.
    List(&'a [u8]),
}

/// The fields of a piece, one after the other.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    fields: std::vec::IntoIter<Field<'a>>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(fields: Vec<Field<'a>>) -> Fields<'a> {
        Fields {
            fields: fields.into_iter(),
        }
    }

    pub fn blob(&mut self) -> Result<Reader<'a>, StateError> {
        match self.fields.next() {
            Some(Field::Blob(bytes)) => Ok(Reader::new(bytes)),
            _ => Err(StateError::Mismatch("a field is missing".into())),
        }
    }

    pub fn list(&mut self) -> Result<Entries<'a>, StateError> {
        match self.fields.next() {
            Some(Field::List(bytes)) => Ok(Entries::of(bytes)),
            _ => Err(StateError::Mismatch("a list is missing".into())),
        }
    }
}

/// The entries of a whole list.
pub(crate) struct Entries<'a> {
    reader: Reader<'a>,
    last: Id,
    is_first: bool,
}

impl<'a> Entries<'a> {
    pub fn of(bytes: &'a [u8]) -> Entries<'a> {
        Entries {
            reader: Reader::new(bytes),
            last: 0,
            is_first: true,
        }
    }

    pub fn next(&mut self) -> Result<Option<(Id, Reader<'a>)>, StateError> {
        if self.reader.is_done() {
            return Ok(None);
        }
        let at = self.reader.position();
        let mark = self.reader.u8()?;
        if mark != ENTRY {
            return Err(StateError::Mark { mark, at });
        }
        let gap = self.reader.varint()?;
        if gap == 0 && !self.is_first {
            return Err(StateError::Mismatch("two entries of one number".into()));
        }
        self.is_first = false;
        self.last = self.last.checked_add(gap).ok_or_else(too_large)?;
        let length = self.reader.varint()?;
        Ok(Some((self.last, Reader::new(self.reader.raw(length)?))))
    }
}

fn too_large() -> StateError {
    StateError::Mismatch("the number of an entry is too large".into())
}

/// The fields of a whole piece, and the mark behind them.
pub(crate) fn read_fields<'a>(
    reader: &mut Reader<'a>,
    bytes: &'a [u8],
) -> Result<(Vec<Field<'a>>, u8), StateError> {
    let mut fields = Vec::new();
    loop {
        match reader.u8()? {
            BLOB => fields.push(Field::Blob(reader.blob()?)),
            LIST => {
                let start = reader.position();
                let mut end = start;
                loop {
                    let at = reader.position();
                    match reader.u8()? {
                        ENTRY => {
                            reader.varint()?;
                            let length = reader.varint()?;
                            reader.raw(length)?;
                            end = reader.position();
                        }
                        LIST_END => break,
                        mark => return Err(StateError::Mark { mark, at }),
                    }
                }
                fields.push(Field::List(&bytes[start..end]));
            }
            mark => return Ok((fields, mark)),
        }
    }
}

// ---- putting together ----

/// Puts increments over the state that they were saved after, oldest first, and writes what comes of
/// it: a whole state. What is read must be a base and its increments in their order; whether it is
/// damaged is for the caller to know, though whatever it is, it ends in a state or an error.
pub fn compose<R: BufRead>(snapshots: &mut [R], out: &mut Writer) -> io::Result<()> {
    let mut layers: Vec<Layer<'_, R>> = snapshots.iter_mut().map(Layer::new).collect();
    for layer in &mut layers {
        let version = layer.u32()?;
        if version != VERSION {
            return Err(bad(format!("a state of version {version}")));
        }
        layer.advance()?;
    }
    begin(out);
    loop {
        let Some((base, increments)) = layers.split_first_mut() else {
            return Err(bad("no state at all".to_owned()));
        };
        if base.mark == END {
            if increments.iter().any(|layer| layer.mark != END) {
                return Err(bad("an increment of more than there is".to_owned()));
            }
            end(out);
            return Ok(());
        }
        if base.mark != PIECE {
            return Err(bad("an increment without its base".to_owned()));
        }
        let name = base.text()?;
        out.u8(PIECE);
        out.blob(&name);
        base.copy_head(out)?;
        base.advance()?;
        let mut changed = vec![0];
        for (at, layer) in (1..).zip(increments) {
            let mark = layer.mark;
            if mark != SAME && mark != CHANGED || layer.text()? != name {
                return Err(bad("an increment of another state".to_owned()));
            }
            layer.advance()?;
            if mark == CHANGED {
                changed.push(at);
            }
        }
        compose_piece(&mut layers, &changed, out)?;
    }
}

fn compose_piece<R: BufRead>(
    layers: &mut [Layer<'_, R>],
    changed: &[usize],
    out: &mut Writer,
) -> io::Result<()> {
    loop {
        let mark = layers[0].mark;
        let is_field = mark == BLOB || mark == LIST;
        let is_same = |&at: &usize| match is_field {
            true => layers[at].mark == mark,
            false => layers[at].mark != BLOB && layers[at].mark != LIST,
        };
        if !changed.iter().all(is_same) {
            return Err(bad("an increment with other fields".to_owned()));
        }
        match mark {
            BLOB => {
                let (newest, older) = changed.split_last().expect("the base is one of them");
                for &at in older {
                    let length = layers[at].u64()?;
                    layers[at].skip(length)?;
                    layers[at].advance()?;
                }
                let newest = &mut layers[*newest];
                let length = newest.u64()?;
                out.u8(BLOB);
                out.u64(length);
                newest.copy(length, out)?;
                newest.advance()?;
            }
            LIST => compose_list(layers, changed, out)?,
            _ => return Ok(()),
        }
    }
}

fn compose_list<R: BufRead>(
    layers: &mut [Layer<'_, R>],
    changed: &[usize],
    out: &mut Writer,
) -> io::Result<()> {
    for &at in changed {
        layers[at].begin_list()?;
    }
    out.u8(LIST);
    let mut last: Id = 0;
    loop {
        // What goes first, and at one number what is gone before what is there, the newest first.
        let records = changed.iter().filter_map(|&at| {
            let (id, length) = layers[at].record?;
            let is_entry = matches!(length, Length::Entry(_));
            Some((id, is_entry, std::cmp::Reverse(at)))
        });
        let Some((id, is_entry, std::cmp::Reverse(at))) = records.min() else {
            break;
        };
        if !is_entry {
            layers[at].go()?;
            continue;
        }
        if at == 0 {
            copy_base(layers, &changed[1..], &mut last, out)?;
            continue;
        }
        let mut newer = changed.iter().filter(|&&other| other > at);
        if newer.any(|&other| layers[other].gone_to > id) {
            layers[at].skip_entry()?;
        } else {
            out.u8(ENTRY);
            out.varint(id - last);
            last = id;
            layers[at].copy_entry(out)?;
        }
        for &older in changed.iter().filter(|&&other| other < at) {
            if let Some((own, Length::Entry(_))) = layers[older].record
                && own == id
            {
                layers[older].skip_entry()?;
            }
        }
    }
    out.u8(LIST_END);
    for &at in changed {
        layers[at].advance()?;
    }
    Ok(())
}

/// Copies entries of the base up to the next record of an increment: most are as they were, and what
/// each costs does not depend on how many increments there are.
fn copy_base<R: BufRead>(
    layers: &mut [Layer<'_, R>],
    increments: &[usize],
    last: &mut Id,
    out: &mut Writer,
) -> io::Result<()> {
    let records = increments.iter().filter_map(|&at| layers[at].record);
    let next = records.map(|(id, _)| id).min();
    let gone_to = increments.iter().map(|&at| layers[at].gone_to).max();
    let gone_to = gone_to.unwrap_or(0);
    let base = &mut layers[0];
    while let Some((id, Length::Entry(_))) = base.record
        && next.is_none_or(|next| id < next)
    {
        if id < gone_to {
            base.skip_entry()?;
            continue;
        }
        out.u8(ENTRY);
        out.varint(id - *last);
        *last = id;
        base.copy_entry(out)?;
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Length {
    /// Bytes of the entry, which come next.
    Entry(u64),
    /// Numbers that are gone.
    Gone(Id),
}

/// One of the states that are put together.
struct Layer<'r, R> {
    input: &'r mut R,
    /// The mark that was read last.
    mark: u8,
    /// In a list: the record that comes next, `None` behind the last.
    record: Option<(Id, Length)>,
    last: Id,
    /// Of older layers everything before this number is gone, as far as the list has come.
    gone_to: Id,
}

impl<'r, R: BufRead> Layer<'r, R> {
    fn new(input: &'r mut R) -> Layer<'r, R> {
        Layer {
            input,
            mark: END,
            record: None,
            last: 0,
            gone_to: 0,
        }
    }

    fn advance(&mut self) -> io::Result<()> {
        self.mark = self.u8()?;
        Ok(())
    }

    fn begin_list(&mut self) -> io::Result<()> {
        (self.last, self.gone_to) = (0, 0);
        self.next_record()
    }

    fn next_record(&mut self) -> io::Result<()> {
        let mark = self.u8()?;
        if mark == LIST_END {
            self.record = None;
            return Ok(());
        }
        let gap = self.varint()?;
        let id = self.last.checked_add(gap);
        self.last = id.ok_or_else(|| bad(too_large().to_string()))?;
        let length = self.varint()?;
        self.record = Some(match mark {
            ENTRY => {
                let length = u64::try_from(length).map_err(|_| bad("an endless entry".into()))?;
                (self.last, Length::Entry(length))
            }
            GONE => (self.last, Length::Gone(length)),
            mark => return Err(bad(format!("an unknown mark {mark}"))),
        });
        Ok(())
    }

    /// Some numbers are gone.
    fn go(&mut self) -> io::Result<()> {
        if let Some((start, Length::Gone(length))) = self.record {
            self.gone_to = self.gone_to.max(start.saturating_add(length));
        }
        self.next_record()
    }

    fn skip_entry(&mut self) -> io::Result<()> {
        if let Some((_, Length::Entry(length))) = self.record {
            self.skip(length)?;
        }
        self.next_record()
    }

    fn copy_entry(&mut self, out: &mut Writer) -> io::Result<()> {
        if let Some((_, Length::Entry(length))) = self.record {
            out.varint(u128::from(length));
            self.copy(length, out)?;
        }
        self.next_record()
    }

    /// Shape and parts of a whole piece.
    fn copy_head(&mut self, out: &mut Writer) -> io::Result<()> {
        let shape = self.text()?;
        out.blob(&shape);
        let parts = self.u64()?;
        out.u64(parts);
        for _ in 0..parts {
            let part = self.text()?;
            out.blob(&part);
        }
        Ok(())
    }

    fn text(&mut self) -> io::Result<Vec<u8>> {
        let length = self.u64()?;
        if length > TEXT_MAX {
            return Err(bad(format!("a name of {length} bytes")));
        }
        let mut text = Vec::new();
        self.visit(length, |block| text.extend_from_slice(block))?;
        Ok(text)
    }

    fn copy(&mut self, length: u64, out: &mut Writer) -> io::Result<()> {
        self.visit(length, |block| out.raw(block))
    }

    fn skip(&mut self, length: u64) -> io::Result<()> {
        self.visit(length, |_| ())
    }

    fn visit(&mut self, length: u64, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        let mut left = length;
        while left > 0 {
            let block = self.input.fill_buf()?;
            if block.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let take = block.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            each(&block[..take]);
            self.input.consume(take);
            left -= take as u64;
        }
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut array = [0; N];
        self.input.read_exact(&mut array)?;
        Ok(array)
    }

    fn u8(&mut self) -> io::Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    fn u32(&mut self) -> io::Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> io::Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn varint(&mut self) -> io::Result<u128> {
        let (mut bytes, mut len) = ([0; 19], 0);
        loop {
            let byte = self.u8()?;
            bytes[len] = byte;
            len += 1;
            if byte < 0x80 || len == bytes.len() {
                let number = Reader::new(&bytes[..len]).varint();
                return number.map_err(|error| bad(error.to_string()));
            }
        }
    }
}

fn bad(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `1=a 5=b -3..9 x`: entries, numbers that are gone; fields stand between `|`, blobs are words
    /// without a number.
    fn snapshot(kind: u8, text: &str) -> Vec<u8> {
        let mut writer = Writer::default();
        begin(&mut writer);
        for (at, piece) in text.split('/').enumerate() {
            let name = format!("piece {at}");
            let piece = piece.trim();
            match (kind, piece) {
                (_, "same") => {
                    same_piece(&mut writer, &name);
                    continue;
                }
                (PIECE, _) => {
                    let state = plan::state::State {
                        shape: "shape".to_owned(),
                        parts: vec!["part".to_owned()],
                    };
                    whole_piece(&mut writer, &name, &state);
                }
                _ => changed_piece(&mut writer, &name),
            }
            for field in piece.split('|').map(str::trim) {
                if let Some(bytes) = field.strip_prefix('!') {
                    blob(&mut writer, |w| w.raw(bytes.as_bytes()));
                    continue;
                }
                let mut list = List::new(&mut writer, Extent::Changes);
                for word in field.split_whitespace() {
                    if let Some(range) = word.strip_prefix('-') {
                        let (start, end) = range.split_once("..").expect("a range");
                        let number = |text: &str| text.parse().expect("a number");
                        list.gone(number(start)..number(end));
                    } else {
                        let (id, value) = word.split_once('=').expect("an entry");
                        list.entry(id.parse().expect("a number"), |w| w.raw(value.as_bytes()));
                    }
                }
                list.end();
            }
        }
        end(&mut writer);
        writer.bytes
    }

    fn composed(snapshots: &[&[u8]]) -> io::Result<Vec<u8>> {
        let mut writer = Writer::default();
        compose(&mut snapshots.to_vec(), &mut writer)?;
        Ok(writer.bytes)
    }

    fn check(base: &str, increments: &[&str], expect: &str) {
        let mut snapshots = vec![snapshot(PIECE, base)];
        snapshots.extend(increments.iter().map(|text| snapshot(CHANGED, text)));
        let slices: Vec<&[u8]> = snapshots.iter().map(Vec::as_slice).collect();
        let all = composed(&slices).expect("they fit");
        assert_eq!(all, snapshot(PIECE, expect), "{base} {increments:?}");
        // One after the other is the same as all at once.
        let mut one = snapshots[0].clone();
        for increment in &snapshots[1..] {
            one = composed(&[&one, increment]).expect("they fit");
        }
        assert_eq!(one, all, "{base} {increments:?}");
    }

    #[test]
    fn later_wins_and_what_is_gone_is_gone() {
        check("1=a 2=b", &[], "1=a 2=b");
        check("1=a 2=b", &["2=c 3=d"], "1=a 2=c 3=d");
        check("1=a 2=b 7=x", &["-2..7", "5=e"], "1=a 5=e 7=x");
        check("1=a 2=b", &["-0..9 4=n", "2=z"], "2=z 4=n");
        check("1=a", &["-1..2", "1=b", "-1..2"], "");
        check("1=a 9=b", &["-1..2 -3..9 3=c", "-3..4"], "9=b");
        check("4=a 6=b", &["-4..5 -5..6 5=n", "-6..7"], "5=n");
        let far = u128::MAX;
        check(
            &format!("1=a {far}=b"),
            &[&format!("0=n {far}=c")],
            &format!("0=n 1=a {far}=c"),
        );
    }

    #[test]
    fn clean_pieces_and_fields_stay() {
        check(
            "!x | 1=a / 2=b / !y",
            &["same / 2=c / same"],
            "!x | 1=a / 2=c / !y",
        );
        check(
            "!x | 1=a | 3=c",
            &["!y | | 3=d", "same", "!z | 2=n |"],
            "!z | 1=a 2=n | 3=d",
        );
    }

    #[test]
    fn what_does_not_belong_together_is_refused() {
        let base = snapshot(PIECE, "1=a / !x");
        let refuse = |snapshots: &[&[u8]]| assert!(composed(snapshots).is_err());
        refuse(&[]);
        refuse(&[&snapshot(CHANGED, "1=a / !x")]);
        refuse(&[&base, &base]);
        refuse(&[&base, &snapshot(CHANGED, "1=a")]);
        refuse(&[&base, &snapshot(CHANGED, "1=a / 1=a")]);
        refuse(&[&base, &snapshot(CHANGED, "1=a | 2=b / !x")]);
        refuse(&[&base, &snapshot(CHANGED, "1=a / !x / !y")]);
        let increment = snapshot(CHANGED, "1=b -2..3 2=c / !y");
        for cut in 0..increment.len() {
            refuse(&[&base, &increment[..cut]]);
        }
        for cut in 0..base.len() {
            refuse(&[&base[..cut], &increment]);
        }
        for at in 0..increment.len() {
            for bit in 0..8 {
                let mut forged = increment.clone();
                forged[at] ^= 1 << bit;
                composed(&[&base, &forged]).ok();
            }
        }
    }
}
