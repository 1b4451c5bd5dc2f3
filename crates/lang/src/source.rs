//! Lines and columns of a text, for people and editors.

use crate::span::Span;

/// A place counted from 1; columns count characters, not bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Position {
    pub line: u32,
    pub column: u32,
}

/// Where each line of a text starts. Lines end with LF; a CR before it belongs to the line end.
#[derive(Clone, Debug)]
pub struct LineIndex {
    starts: Vec<u32>,
    len: u32,
}

impl LineIndex {
    pub fn new(text: &str) -> LineIndex {
        let mut starts = vec![0];
        starts.extend(
            text.bytes()
                .enumerate()
                .filter(|(_, b)| *b == b'\n')
                .map(|(i, _)| i as u32 + 1),
        );
        LineIndex {
            starts,
            len: text.len() as u32,
        }
    }

    /// How many lines there are; a text that ends with LF has an empty last line.
    pub fn lines(&self) -> u32 {
        self.starts.len() as u32
    }

    /// The line, from 1, that holds the byte at `offset`; the last line for offsets past the end.
    pub fn line(&self, offset: u32) -> u32 {
        self.starts.partition_point(|start| *start <= offset) as u32
    }

    /// The bytes of a line (from 1) without its line end.
    pub fn line_span(&self, text: &str, line: u32) -> Span {
        let index = (line.max(1) as usize - 1).min(self.starts.len() - 1);
        let start = self.starts[index];
        let end = self.starts.get(index + 1).map_or(self.len, |next| next - 1);
        let end = if end > start && text.as_bytes().get(end as usize - 1) == Some(&b'\r') {
            end - 1
        } else {
            end
        };
        Span::new(start, end)
    }

    /// The place of a byte offset. An offset inside a character counts as that character.
    pub fn position(&self, text: &str, offset: u32) -> Position {
        let offset = offset.min(self.len);
        let line = self.line(offset);
        let start = self.starts[line as usize - 1] as usize;
        let mut end = offset as usize;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        // Counting the bytes that begin a character is much faster than decoding.
        let is_start = |byte: &&u8| (**byte as i8) >= -0x40;
        let column = text.as_bytes()[start..end].iter().filter(is_start).count() as u32 + 1;
        Position { line, column }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, offset: u32, line: u32, column: u32) {
        let position = LineIndex::new(text).position(text, offset);
        assert_eq!(position, Position { line, column }, "{text:?} at {offset}");
    }

    #[test]
    fn positions_count_lines_and_characters_from_one() {
        check("", 0, 1, 1);
        check("ab\ncd", 0, 1, 1);
        check("ab\ncd", 2, 1, 3);
        check("ab\ncd", 3, 2, 1);
        check("ab\ncd", 5, 2, 3);
        check("ab\ncd", 99, 2, 3);
        check("äö\nü", 2, 1, 2);
        check("äö\nü", 3, 1, 2);
        check("äö\nü", 5, 2, 1);
        check("a\r\nb", 3, 2, 1);
    }

    #[test]
    fn line_spans_leave_out_the_line_end() {
        let text = "ab\r\ncd\n";
        let index = LineIndex::new(text);
        assert_eq!(index.lines(), 3);
        assert_eq!(index.line_span(text, 1).text(text), "ab");
        assert_eq!(index.line_span(text, 2).text(text), "cd");
        assert_eq!(index.line_span(text, 3).text(text), "");
        assert_eq!(index.line_span(text, 9).text(text), "");
    }
}
