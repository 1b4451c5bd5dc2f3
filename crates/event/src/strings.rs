//! Columns of text: 16-byte views, short texts inline.
//!
//! A view holds a length and either the text itself (up to 12 bytes) or the first four bytes, a
//! buffer number and an offset. It is the layout of Arrow's `Utf8View`, so equality seldom needs
//! the buffer, a window pays 16 bytes for a short text, and export needs no copy.

use std::ops::Range;
use std::sync::Arc;

use crate::selection::{keep_bits, retain_rows};

/// Longest text that lies inside its view, in bytes.
pub const INLINE_MAX: usize = 12;

/// Bytes at which the builder closes a buffer and starts the next.
const BUFFER_BYTES: usize = 64 * 1024;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(8))]
struct View {
    len: u32,
    data: [u8; INLINE_MAX],
}

impl View {
    const EMPTY: View = View {
        len: 0,
        data: [0; INLINE_MAX],
    };

    /// A text of at most [`INLINE_MAX`] bytes.
    #[inline]
    fn inline(bytes: &[u8]) -> View {
        let mut data = [0; INLINE_MAX];
        let len = bytes.len();
        // Copies of fixed lengths, which may overlap: one of any length is a call.
        if let (Some(head), Some(tail)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<4>()) {
            data[..8].copy_from_slice(head);
            data[len - 4..len].copy_from_slice(tail);
        } else if let (Some(head), Some(tail)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>())
        {
            data[..4].copy_from_slice(head);
            data[len - 4..len].copy_from_slice(tail);
        } else if let (Some(first), Some(last)) = (bytes.first(), bytes.last()) {
            data[0] = *first;
            data[len / 2] = bytes[len / 2];
            data[len - 1] = *last;
        }
        View {
            len: len as u32,
            data,
        }
    }

    fn outside(bytes: &[u8], buffer: u32, offset: u32) -> View {
        let mut data = [0; INLINE_MAX];
        data[..4].copy_from_slice(&bytes[..4]);
        data[4..8].copy_from_slice(&buffer.to_le_bytes());
        data[8..].copy_from_slice(&offset.to_le_bytes());
        View {
            len: bytes.len() as u32,
            data,
        }
    }

    #[inline(always)]
    fn is_inline(&self) -> bool {
        self.len as usize <= INLINE_MAX
    }

    /// The view as two words, read where it lies: what is copied in other pieces than it is read in
    /// has to be waited for.
    #[inline(always)]
    fn words(&self) -> [u64; 2] {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = self.data;
        let first = u32::from_le_bytes([a, b, c, d]);
        [
            u64::from(self.len) | u64::from(first) << 32,
            u64::from_le_bytes([e, f, g, h, i, j, k, l]),
        ]
    }

    fn buffer(&self) -> usize {
        u32::from_le_bytes([self.data[4], self.data[5], self.data[6], self.data[7]]) as usize
    }

    fn offset(&self) -> usize {
        u32::from_le_bytes([self.data[8], self.data[9], self.data[10], self.data[11]]) as usize
    }
}

/// A finished, immutable column of text.
///
/// Invariant: every view names a range of UTF-8 text, inline or in one of `buffers`; only
/// [`StrBuilder`] makes views, from `&str`.
#[derive(Clone, Default, Debug)]
pub struct Strings {
    views: Vec<View>,
    buffers: Vec<Arc<[u8]>>,
}

impl Strings {
    pub fn len(&self) -> usize {
        self.views.len()
    }

    pub fn is_empty(&self) -> bool {
        self.views.is_empty()
    }

    pub fn bytes(&self, row: usize) -> &[u8] {
        let view = &self.views[row];
        if view.is_inline() {
            &view.data[..view.len as usize]
        } else {
            let start = view.offset();
            &self.buffers[view.buffer()][start..start + view.len as usize]
        }
    }

    pub fn get(&self, row: usize) -> &str {
        // SAFETY: the invariant of the type: every view names UTF-8 text.
        #[allow(unsafe_code)]
        unsafe {
            std::str::from_utf8_unchecked(self.bytes(row))
        }
    }

    /// Keeps the rows with these numbers, which ascend.
    pub(crate) fn retain(&mut self, rows: &[u32]) {
        retain_rows(&mut self.views, rows);
        if self.views.iter().all(View::is_inline) {
            self.buffers.clear();
        }
    }

    /// Bytes held: views and the buffers behind them, shared buffers counted in full.
    pub fn heap_bytes(&self) -> usize {
        self.views.capacity() * size_of::<View>()
            + self.buffers.iter().map(|b| b.len()).sum::<usize>()
    }
}

/// Some rows of a column of text, finished or still being built.
#[derive(Clone, Copy)]
pub struct StrView<'a> {
    views: &'a [View],
    buffers: &'a [Arc<[u8]>],
    /// Where views of a builder point to behind the closed buffers.
    open: &'a [u8],
}

impl<'a> StrView<'a> {
    fn bytes(&self, row: usize) -> &'a [u8] {
        let view = &self.views[row];
        if view.is_inline() {
            return &view.data[..view.len as usize];
        }
        self.outside(view)
    }

    fn outside(&self, view: &View) -> &'a [u8] {
        let buffer = self.buffers.get(view.buffer()).map_or(self.open, |b| b);
        &buffer[view.offset()..view.offset() + view.len as usize]
    }

    pub fn get(&self, row: usize) -> &'a str {
        // SAFETY: the invariant of `Strings`, which `StrBuilder` keeps: every view names UTF-8 text.
        #[allow(unsafe_code)]
        unsafe {
            std::str::from_utf8_unchecked(self.bytes(row))
        }
    }

    pub fn len(&self) -> usize {
        self.views.len()
    }

    pub fn is_empty(&self) -> bool {
        self.views.is_empty()
    }

    /// Bytes of these rows alone: views and long texts, one that repeats the row before counted once.
    pub fn weight(&self) -> usize {
        let mut bytes = size_of_val(self.views);
        let mut before = View::EMPTY;
        for &view in self.views {
            if !view.is_inline() && view != before {
                bytes += view.len as usize;
            }
            before = view;
        }
        bytes
    }

    /// One short text, where it lies.
    pub(crate) fn of_short(text: &'a ShortText) -> StrView<'a> {
        StrView {
            views: std::slice::from_ref(&text.0),
            buffers: &[],
            open: &[],
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let texts = *self;
        (0..self.len()).map(move |row| texts.get(row))
    }

    /// Are these two rows the same text? Most unequal pairs are told apart by their views alone.
    pub fn rows_equal(&self, row: usize, other: &StrView<'_>, other_row: usize) -> bool {
        let (a, b) = (&self.views[row], &other.views[other_row]);
        if a.len != b.len || a.data[..4] != b.data[..4] {
            return false;
        }
        if a.is_inline() {
            a == b
        } else {
            self.bytes(row) == other.bytes(other_row)
        }
    }

    /// Takes the bits of the rows away whose text is not the first of the other; where `is_equal` is
    /// false, of those whose text it is.
    pub fn keep_equal(&self, other: &StrView<'_>, is_equal: bool, bits: &mut [u64]) {
        let sought = &other.views[0];
        let words = sought.words();
        if sought.is_inline() {
            return keep_bits(self.views, bits, |v| (v.words() == words) == is_equal);
        }
        let text = other.bytes(0);
        keep_bits(self.views, bits, |view| {
            let is_like = view.words()[0] == words[0];
            (is_like && self.outside(&view) == text) == is_equal
        });
    }

    /// Rows of a finished column picked by index; buffers are shared, not copied.
    pub(crate) fn gather(&self, rows: &[u32]) -> Strings {
        let views: Vec<View> = rows.iter().map(|&row| self.views[row as usize]).collect();
        let is_outside = |view: &View| !view.is_inline();
        let has_outside = !self.buffers.is_empty() && views.iter().any(is_outside);
        Strings {
            views,
            buffers: if has_outside {
                self.buffers.to_vec()
            } else {
                Vec::new()
            },
        }
    }
}

impl Strings {
    pub fn view(&self, rows: Range<usize>) -> StrView<'_> {
        StrView {
            views: &self.views[rows],
            buffers: &self.buffers,
            open: &[],
        }
    }
}

/// A text of at most [`INLINE_MAX`] bytes by value: two words to hash and to compare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShortText(View);

impl Default for ShortText {
    fn default() -> ShortText {
        ShortText(View::EMPTY)
    }
}

impl ShortText {
    /// `None` for a longer text.
    #[inline]
    pub fn new(text: &str) -> Option<ShortText> {
        (text.len() <= INLINE_MAX).then(|| ShortText(View::inline(text.as_bytes())))
    }

    /// The text as two words; equal texts have equal words.
    #[inline]
    pub fn words(self) -> [u64; 2] {
        self.0.words()
    }

    /// The text whose [`ShortText::words`] these are; `None` if they are of no text.
    pub fn text_of(words: [u64; 2]) -> Option<String> {
        let mut data = [0; INLINE_MAX];
        data[..4].copy_from_slice(&((words[0] >> 32) as u32).to_le_bytes());
        data[4..].copy_from_slice(&words[1].to_le_bytes());
        let bytes = data.get(..words[0] as u32 as usize)?;
        Some(std::str::from_utf8(bytes).ok()?.to_owned())
    }
}

impl StrView<'_> {
    /// The text of a row by value, where it is short.
    #[inline]
    pub fn short(&self, row: usize) -> Option<ShortText> {
        let view = self.views[row];
        view.is_inline().then_some(ShortText(view))
    }

    /// The [`ShortText::words`] of a row, where its text is short.
    #[inline(always)]
    pub fn short_words(&self, row: usize) -> Option<[u64; 2]> {
        let view = &self.views[row];
        view.is_inline().then(|| view.words())
    }

    /// Is a row's text the short one of these [`ShortText::words`]?
    #[inline(always)]
    pub fn is_short(&self, row: usize, words: [u64; 2]) -> bool {
        // The length is in the words, so no text outside its view has those of a short one.
        self.views[row].words() == words
    }
}

/// Builds a column of text row by row.
///
/// A long text equal to the one before it shares its bytes, so that a file name on every row costs
/// 16 bytes a row.
#[derive(Clone, Default, Debug)]
pub struct StrBuilder {
    views: Vec<View>,
    buffers: Vec<Arc<[u8]>>,
    open: Vec<u8>,
    /// The last text that went outside its view.
    last: Option<View>,
}

impl StrBuilder {
    /// Heap bytes in use.
    pub fn bytes(&self) -> usize {
        size_of_val(self.views.as_slice())
            + self.open.len()
            + self.buffers.iter().map(|b| b.len()).sum::<usize>()
    }

    /// Goes on behind the rows of a finished column.
    pub(crate) fn behind(texts: Strings) -> StrBuilder {
        StrBuilder {
            views: texts.views,
            buffers: texts.buffers,
            ..StrBuilder::default()
        }
    }

    /// The rows so far.
    pub fn view(&self) -> StrView<'_> {
        StrView {
            views: &self.views,
            buffers: &self.buffers,
            open: &self.open,
        }
    }

    /// As [`crate::ColumnBuilder::reserve`], for the views.
    pub(crate) fn reserve(&mut self, rows: usize, share: f64) {
        if self.views.capacity() - self.views.len() < rows {
            let beyond = (share * (self.views.len() + rows) as f64) as usize;
            self.views.reserve_exact(rows + beyond);
        }
    }

    pub fn with_capacity(rows: usize) -> StrBuilder {
        StrBuilder {
            views: Vec::with_capacity(rows),
            ..StrBuilder::default()
        }
    }

    pub fn len(&self) -> usize {
        self.views.len()
    }

    pub fn is_empty(&self) -> bool {
        self.views.is_empty()
    }

    #[inline]
    pub fn push(&mut self, text: &str) {
        let bytes = text.as_bytes();
        if bytes.len() <= INLINE_MAX {
            self.views.push(View::inline(bytes));
        } else {
            self.push_outside(bytes);
        }
    }

    /// Appends the first row of a column.
    #[inline]
    pub(crate) fn push_first(&mut self, from: &StrView<'_>) {
        match from.views[0] {
            view if view.is_inline() => self.views.push(view),
            _ => self.push_outside(from.bytes(0)),
        }
    }

    /// The placeholder under a null.
    #[inline]
    pub fn push_empty(&mut self) {
        self.views.push(View::EMPTY);
    }

    /// Repeats the last row `count` times.
    pub fn repeat_last(&mut self, count: usize) {
        if let Some(&last) = self.views.last() {
            self.views.resize(self.views.len() + count, last);
        }
    }

    /// Takes back the rows from `len` on; bytes outside the views stay until the column is finished.
    pub fn truncate(&mut self, len: usize) {
        self.views.truncate(len);
    }

    fn push_outside(&mut self, bytes: &[u8]) {
        if let Some(last) = self.last
            && last.len as usize == bytes.len()
            && self.outside(&last) == bytes
        {
            self.views.push(last);
            return;
        }
        if self.open.len() + bytes.len() > BUFFER_BYTES && !self.open.is_empty() {
            self.close_buffer();
        }
        let view = View::outside(bytes, self.buffers.len() as u32, self.open.len() as u32);
        self.open.extend_from_slice(bytes);
        self.views.push(view);
        self.last = Some(view);
    }

    fn outside(&self, view: &View) -> &[u8] {
        let buffer = self
            .buffers
            .get(view.buffer())
            .map_or(self.open.as_slice(), |b| b);
        &buffer[view.offset()..view.offset() + view.len as usize]
    }

    fn close_buffer(&mut self) {
        self.buffers.push(Arc::from(self.open.as_slice()));
        self.open.clear();
    }

    /// Appends rows of a column; their long texts are copied, so that what is kept never
    /// pins the buffer of a decoder.
    pub fn extend_from(&mut self, from: &StrView<'_>, rows: Range<usize>) {
        let views = &from.views[rows.clone()];
        if views.iter().all(View::is_inline) {
            return self.views.extend_from_slice(views);
        }
        self.views.reserve(views.len());
        let mut before = View::EMPTY;
        for (row, &view) in rows.zip(views) {
            if view.is_inline() {
                self.views.push(view);
            } else if view == before {
                // The same bytes as the row before, which is the last one here too.
                self.repeat_last(1);
            } else {
                self.push_outside(from.bytes(row));
            }
            before = view;
        }
    }

    /// Appends rows of a column picked by index; their long texts are copied.
    pub(crate) fn extend_picked(&mut self, from: &StrView<'_>, rows: &[u32]) {
        self.views.reserve(rows.len());
        for &row in rows {
            let view = from.views[row as usize];
            if view.is_inline() {
                self.views.push(view);
            } else {
                self.push_outside(from.bytes(row as usize));
            }
        }
    }

    /// Appends rows of two columns in turn, where all their texts are short; else nothing is done.
    pub(crate) fn extend_alternating(
        &mut self,
        (a, a_start): (&StrView<'_>, usize),
        (b, b_start): (&StrView<'_>, usize),
        count: usize,
    ) -> bool {
        let a = &a.views[a_start..a_start + count];
        let b = &b.views[b_start..b_start + count];
        if !a.iter().all(View::is_inline) || !b.iter().all(View::is_inline) {
            return false;
        }
        let start = self.views.len();
        self.views.resize(start + 2 * count, View::EMPTY);
        let pairs = self.views[start..].chunks_exact_mut(2);
        for (pair, (&x, &y)) in pairs.zip(a.iter().zip(b)) {
            (pair[0], pair[1]) = (x, y);
        }
        true
    }

    pub fn finish(mut self) -> Strings {
        if !self.open.is_empty() {
            self.close_buffer();
        }
        Strings {
            views: self.views,
            buffers: self.buffers,
        }
    }
}

/// Bytes that texts appended one by one share; a table's page grows its last buffer up to this.
const SHARED_BYTES: usize = 4096;

impl Strings {
    /// Overwrites one row. The bytes of a long text that was there stay behind until the column is
    /// rebuilt.
    pub fn set(&mut self, row: usize, text: &str) {
        self.views[row] = self.view_of(text.as_bytes());
    }

    /// As [`Strings::set`], with a row of another column.
    #[inline]
    pub fn set_from(&mut self, row: usize, from: &StrView<'_>, from_row: usize) {
        self.views[row] = self.view_from(from, from_row);
    }

    /// Overwrites each place with a row of another column, once there are `len` rows.
    pub(crate) fn scatter(
        &mut self,
        pairs: impl Iterator<Item = (usize, usize)>,
        from: &StrView<'_>,
        len: usize,
    ) {
        if self.views.len() < len {
            self.views.resize(len, View::EMPTY);
        }
        for (place, row) in pairs {
            self.views[place] = self.view_from(from, row);
        }
    }

    /// Appends rows of another column; long texts are copied.
    pub fn append(&mut self, from: &StrView<'_>, rows: Range<usize>) {
        for row in rows {
            let view = self.view_from(from, row);
            self.views.push(view);
        }
    }

    #[inline]
    fn view_from(&mut self, from: &StrView<'_>, row: usize) -> View {
        match from.views[row] {
            view if view.is_inline() => view,
            _ => self.view_of(from.bytes(row)),
        }
    }

    /// A view of the text, its bytes copied behind the last buffer unless they are inline or equal
    /// to those of the last row.
    fn view_of(&mut self, bytes: &[u8]) -> View {
        if bytes.len() <= INLINE_MAX {
            return View::inline(bytes);
        }
        if let Some(last) = self.views.last()
            && !last.is_inline()
            && self.bytes(self.views.len() - 1) == bytes
        {
            return *last;
        }
        let fits = self
            .buffers
            .last()
            .is_some_and(|b| b.len() + bytes.len() <= SHARED_BYTES);
        let grown = match self.buffers.last() {
            Some(last) if fits => [last, bytes].concat(),
            _ => bytes.to_vec(),
        };
        let offset = grown.len() - bytes.len();
        if fits {
            self.buffers.pop();
        }
        self.buffers.push(grown.into());
        View::outside(bytes, self.buffers.len() as u32 - 1, offset as u32)
    }
}

impl Strings {
    /// Puts columns of text one behind the other; buffers are shared, not copied.
    pub fn concat<'a>(parts: impl Iterator<Item = StrView<'a>>) -> Strings {
        let mut all = Strings::default();
        for part in parts {
            let base = all.buffers.len() as u32;
            let mut outside = false;
            for view in part.views {
                let mut view = *view;
                if !view.is_inline() {
                    outside = true;
                    let buffer = view.buffer() as u32 + base;
                    view.data[4..8].copy_from_slice(&buffer.to_le_bytes());
                }
                all.views.push(view);
            }
            if outside {
                all.buffers.extend(part.buffers.iter().cloned());
            }
        }
        all
    }
}

impl<'a> FromIterator<&'a str> for Strings {
    fn from_iter<I: IntoIterator<Item = &'a str>>(texts: I) -> Strings {
        let mut builder = StrBuilder::default();
        texts.into_iter().for_each(|t| builder.push(t));
        builder.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_texts_come_back() {
        let long = "x".repeat(100);
        let texts = [
            "",
            "a",
            "exactly12byt",
            "thirteen byte",
            &long,
            "é ∀ 😀 and more",
        ];
        let column: Strings = texts.into_iter().collect();
        let back: Vec<&str> = (0..column.len()).map(|row| column.get(row)).collect();
        assert_eq!(back, texts);
    }

    #[test]
    fn texts_of_every_short_length_come_back() {
        let text = "0123456789abcdef";
        let texts: Vec<&str> = (0..=text.len()).map(|len| &text[..len]).collect();
        let column: Strings = texts.iter().copied().collect();
        let back: Vec<&str> = (0..column.len()).map(|row| column.get(row)).collect();
        assert_eq!(back, texts);
    }

    #[test]
    fn rows_of_a_text_are_marked() {
        let long = "a text outside its view";
        let texts = ["a", "", long, "b", "a text outside its View", long, "a"];
        let column: Strings = texts.into_iter().collect();
        for text in texts {
            let sought: Strings = [text].into_iter().collect();
            for is_equal in [true, false] {
                let mut bits = [(1 << texts.len()) - 1];
                column
                    .view(0..texts.len())
                    .keep_equal(&sought.view(0..1), is_equal, &mut bits);
                for (row, other) in texts.into_iter().enumerate() {
                    let is_left = bits[0] >> row & 1 == 1;
                    assert_eq!(is_left, (other == text) == is_equal);
                }
            }
        }
    }

    #[test]
    fn an_equal_long_text_behind_itself_shares_its_bytes() {
        let path = "/a/rather/long/path/to/a/file.csv";
        let column: Strings = std::iter::repeat_n(path, 1000).collect();
        assert!(column.heap_bytes() < 1000 * 16 + 200 + 16 * 24 + 24 * 16);
        assert_eq!(column.get(999), path);
    }

    #[test]
    fn rows_are_appended_with_their_texts() {
        let (path, other) = ("/a/rather/long/path", "/another/long/path");
        let texts = ["short", path, path, "", path, other, other];
        let column: Strings = texts.into_iter().collect();
        for start in 0..texts.len() {
            for end in start..=texts.len() {
                let mut builder = StrBuilder::default();
                builder.push(other);
                builder.extend_from(&column.view(0..texts.len()), start..end);
                let copy = builder.finish();
                let back: Vec<&str> = (1..copy.len()).map(|row| copy.get(row)).collect();
                assert_eq!(back, &texts[start..end]);
            }
        }
    }

    #[test]
    fn gather_and_concat_keep_texts() {
        let column: Strings = ["one", "the second is long", "three", "the fourth is long"]
            .into_iter()
            .collect();
        let picked = column.view(0..column.len()).gather(&[3, 0]);
        assert_eq!(
            (picked.get(0), picked.get(1)),
            ("the fourth is long", "one")
        );
        let joined = Strings::concat([picked.view(0..2), column.view(1..3)].into_iter());
        let texts: Vec<&str> = (0..4).map(|row| joined.get(row)).collect();
        assert_eq!(
            texts,
            ["the fourth is long", "one", "the second is long", "three"]
        );
        let (joined, column) = (joined.view(0..joined.len()), column.view(0..column.len()));
        assert!(joined.rows_equal(2, &column, 1) && !joined.rows_equal(0, &column, 1));
    }
}
