//! Reads a file in big blocks and cuts them at line ends.
//!
//! A block holds whole lines; the mapper splits it while it decodes, so that a byte is looked at
//! once. Lines end with `\n`, `\r\n` or `\r`; no block ends between `\r` and `\n`. The last
//! lines with content are held back until it is known whether others follow, because the file's last
//! one is marked (`trp:eof`) or left out (`skip.trailer`).
//!
//! Promises: memory is bounded by one block and [`LINE_BYTES_MAX`]; a longer line is passed over and
//! reported with its place, its neighbours are delivered. Never: a decision about what a line means.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use memchr::{memchr, memchr_iter, memchr2, memrchr2};

/// Bytes that a line may have; a longer one is reported and passed over.
pub const LINE_BYTES_MAX: usize = 16 << 20;

/// Bytes asked of the file at once.
const READ_BYTES: usize = 256 << 10;

/// Bytes of an over-long line that are kept for the report.
const HEAD_BYTES: usize = 200;

/// What stands next in the file.
#[derive(Debug)]
pub enum Step {
    /// Whole lines, see [`LineReader::block`].
    Block(Block),
    /// A line over [`LINE_BYTES_MAX`] was passed over.
    TooLong(TooLong),
    /// Nothing more for now: the file has ended, or a followed file has not grown.
    End,
}

/// A range of the buffer that holds whole lines, the first at `offset` in the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    range: Range<usize>,
    /// Byte in the file at which the block begins.
    pub offset: u64,
    /// Number of its first line, from 1.
    pub line: u64,
    /// It is the file's last line with content, and nothing else.
    pub is_last: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TooLong {
    pub offset: u64,
    pub line: u64,
    pub bytes: u64,
    /// How it begins.
    pub head: Vec<u8>,
}

pub struct LineReader {
    file: File,
    buffer: Vec<u8>,
    /// What has been read and not yet given out.
    start: usize,
    end: usize,
    /// Byte in the file, and line, at `start`.
    offset: u64,
    line: u64,
    /// The file has been read to its end; a followed file may grow nevertheless.
    at_end: bool,
    /// Lines with content that are held back.
    hold: usize,
    follow: bool,
    read_bytes: usize,
    line_max: usize,
    /// An over-long line stands behind what is in the buffer: its place, and what was read behind it.
    gap: Option<Gap>,
}

struct Gap {
    line: TooLong,
    rest: Vec<u8>,
}

/// How a reader treats the end of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The last line with content is marked.
    Mark,
    /// The last line with content is left out, the one before it marked.
    SkipTrailer,
    /// The end moves: every finished line is given out at once.
    Follow,
}

impl LineReader {
    /// Reads on at `offset`, which is the begin of line number `line`.
    pub fn new(file: File, offset: u64, line: u64, end: End) -> io::Result<LineReader> {
        LineReader::with_limits(file, offset, line, end, READ_BYTES, LINE_BYTES_MAX)
    }

    fn with_limits(
        mut file: File,
        offset: u64,
        line: u64,
        end: End,
        read_bytes: usize,
        line_max: usize,
    ) -> io::Result<LineReader> {
        file.seek(SeekFrom::Start(offset))?;
        Ok(LineReader {
            file,
            buffer: vec![0; read_bytes],
            start: 0,
            end: 0,
            offset,
            line,
            at_end: false,
            hold: match end {
                End::Mark => 1,
                End::SkipTrailer => 2,
                End::Follow => 0,
            },
            follow: end == End::Follow,
            read_bytes,
            line_max,
            gap: None,
        })
    }

    /// Byte in the file up to which everything has been given out.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Number of the line at [`LineReader::offset`].
    pub fn line(&self) -> u64 {
        self.line
    }

    /// The lines of a block; valid until the next call of [`LineReader::read_step`].
    pub fn block(&self, block: &Block) -> &[u8] {
        &self.buffer[block.range.clone()]
    }

    /// The next lines, as many as are at hand.
    pub fn read_step(&mut self) -> io::Result<Step> {
        loop {
            if let Some(cut) = self.cut() {
                return Ok(Step::Block(self.give(cut, false)));
            }
            if self.at_end || self.gap.is_some() {
                return Ok(self.ending().unwrap_or(Step::End));
            }
            self.fill()?;
            if self.follow && self.at_end {
                self.at_end = false;
                if self.cut().is_none() {
                    return Ok(Step::End);
                }
            }
        }
    }

    /// One line with content, whatever is held back; for headers. `None` at the end.
    pub fn next_line(&mut self) -> io::Result<Option<Block>> {
        loop {
            self.skip_empty();
            let at_hand = &self.buffer[self.start..self.end];
            let end = memchr2(b'\n', b'\r', at_hand);
            match end.map(|end| end + 1) {
                // It may be the first half of a `\r\n`.
                Some(cut) if at_hand[cut - 1] == b'\r' && cut == at_hand.len() && !self.at_end => {
                    self.fill()?;
                }
                Some(cut) => {
                    let is_pair = at_hand[cut - 1] == b'\r' && at_hand.get(cut) == Some(&b'\n');
                    let cut = self.start + cut + usize::from(is_pair);
                    return Ok(Some(self.give(cut, false)));
                }
                None if self.at_end && at_hand.is_empty() => return Ok(None),
                None if self.at_end => {
                    let cut = self.end;
                    return Ok(Some(self.give(cut, false)));
                }
                None => self.fill()?,
            }
            if self.gap.is_some() {
                self.cross_gap();
            }
        }
    }

    /// A followed file is complete (another took its name): its last line counts although nothing
    /// ends it.
    pub fn finish(&mut self) {
        self.follow = false;
        self.hold = 1;
        self.at_end = false;
    }

    /// Where the buffer may be cut: before the lines that are held back. `None` if nothing stands
    /// before them.
    fn cut(&self) -> Option<usize> {
        let mut filled = &self.buffer[self.start..self.end];
        if filled.last() == Some(&b'\r') && !self.at_end {
            // It may be the first half of a `\r\n`.
            filled = &filled[..filled.len() - 1];
        }
        let whole = memrchr2(b'\n', b'\r', filled)? + 1;
        // The rest behind the last line end is an unfinished line. It may turn out to be too long
        // to be given, so it counts as one of those held back only when it is whole.
        let has_rest = whole < filled.len() && self.at_end;
        let has_more = has_rest || self.gap.as_ref().is_some_and(Gap::has_content);
        let mut cut = whole;
        for _ in 0..self.hold.saturating_sub(usize::from(has_more)) {
            cut = last_line_start(&filled[..cut])?;
        }
        (cut > 0).then_some(self.start + cut)
    }

    /// What is left when the file (or what stands before an over-long line) has ended.
    fn ending(&mut self) -> Option<Step> {
        self.skip_empty();
        if let Some(gap) = &self.gap
            && (gap.has_content() || self.start == self.end)
        {
            if self.start < self.end {
                let cut = self.end;
                return Some(Step::Block(self.give(cut, false)));
            }
            return self.cross_gap().map(Step::TooLong);
        }
        if self.start == self.end {
            return None;
        }
        let filled = &self.buffer[self.start..self.end];
        // The held lines have content; with two held, the first is the last delivered one.
        let trailer = last_line_start(filled).unwrap_or(0);
        let cut = match (self.hold, trailer) {
            (2, 0) => {
                self.drop_to(self.end);
                return self.ending();
            }
            (2, at) => self.start + at,
            _ => self.end,
        };
        let block = self.give(cut, true);
        if self.hold == 2 {
            self.drop_to(self.end);
        }
        Some(Step::Block(block))
    }

    /// Gives out the bytes up to `cut`.
    fn give(&mut self, cut: usize, is_last: bool) -> Block {
        let block = Block {
            range: self.start..cut,
            offset: self.offset,
            line: self.line,
            is_last,
        };
        self.drop_to(cut);
        block
    }

    /// Passes over the bytes up to `cut`, counting.
    fn drop_to(&mut self, cut: usize) {
        let passed = &self.buffer[self.start..cut];
        self.line += line_ends(passed);
        self.offset += passed.len() as u64;
        self.start = cut;
    }

    /// Passes over line ends at the front: lines without content are no messages.
    fn skip_empty(&mut self) {
        let filled = &self.buffer[self.start..self.end];
        let mut empty = filled.iter().take_while(|b| is_line_end(**b)).count();
        if empty == filled.len() && empty > 0 && filled[empty - 1] == b'\r' && !self.at_end {
            empty -= 1;
        }
        self.drop_to(self.start + empty);
    }

    /// Reads more, after moving what is left to the front. An over-long line becomes the gap.
    fn fill(&mut self) -> io::Result<()> {
        self.skip_empty();
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() {
            let open = memrchr2(b'\n', b'\r', &self.buffer[..self.end]).map_or(0, |at| at + 1);
            if self.end - open >= self.line_max {
                return self.pass_over(open);
            }
            if open >= 2 * self.line_max {
                // A held line and nothing but line ends behind it: it will not be marked as last.
                self.hold = 0;
                return Ok(());
            }
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        let count = read(&mut self.file, &mut self.buffer[self.end..])?;
        self.at_end = count == 0;
        self.end += count;
        Ok(())
    }

    /// The line that begins at `open` is too long: reads to its end without keeping it.
    fn pass_over(&mut self, open: usize) -> io::Result<()> {
        let before = &self.buffer[self.start..open];
        let long = &self.buffer[open..self.end];
        let mut line = TooLong {
            offset: self.offset + before.len() as u64,
            line: self.line + line_ends(before),
            bytes: long.len() as u64,
            head: long[..HEAD_BYTES.min(long.len())].to_vec(),
        };
        self.end = open;
        let mut block = vec![0; self.read_bytes];
        let mut rest = Vec::new();
        loop {
            let count = read(&mut self.file, &mut block)?;
            if count == 0 {
                self.at_end = !self.follow;
                break;
            }
            if let Some(end) = memchr2(b'\n', b'\r', &block[..count]) {
                line.bytes += end as u64;
                rest.extend_from_slice(&block[end..count]);
                break;
            }
            line.bytes += count as u64;
        }
        // Does a line with content follow? Only then is the one before the gap not the last.
        while !self.at_end && rest.len() < self.line_max && rest.iter().all(|b| is_line_end(*b)) {
            let count = read(&mut self.file, &mut block)?;
            self.at_end = count == 0;
            rest.extend_from_slice(&block[..count]);
            if self.follow {
                break;
            }
        }
        self.gap = Some(Gap { line, rest });
        Ok(())
    }

    /// Goes on behind the gap.
    fn cross_gap(&mut self) -> Option<TooLong> {
        let gap = self.gap.take()?;
        debug_assert_eq!(
            self.start, self.end,
            "what stands before the gap has been given out"
        );
        self.offset = gap.line.offset + gap.line.bytes;
        self.line = gap.line.line;
        self.buffer.clear();
        self.buffer.extend_from_slice(&gap.rest);
        self.buffer.resize(self.read_bytes.max(gap.rest.len()), 0);
        (self.start, self.end) = (0, gap.rest.len());
        Some(gap.line)
    }
}

impl Gap {
    fn has_content(&self) -> bool {
        self.rest.iter().any(|b| !is_line_end(*b))
    }
}

/// Reads once, whatever signals arrive.
fn read(file: &mut File, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(into) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Where the last line with content begins.
fn last_line_start(lines: &[u8]) -> Option<usize> {
    let end = lines.iter().rposition(|b| !is_line_end(*b))?;
    Some(memrchr2(b'\n', b'\r', &lines[..end]).map_or(0, |at| at + 1))
}

/// `\n`, `\r\n` and lone `\r` in these bytes.
pub(super) fn line_ends(bytes: &[u8]) -> u64 {
    let mut count = memchr_iter(b'\n', bytes).count();
    if memchr(b'\r', bytes).is_some() {
        count += memchr_iter(b'\r', bytes)
            .filter(|at| bytes.get(at + 1) != Some(&b'\n'))
            .count();
    }
    count as u64
}

const fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Lines, `!` behind the marked one, `<n` for an over-long line of n bytes; read in pieces of
    /// `read_bytes`.
    fn lines_of(content: &[u8], end: End, read_bytes: usize) -> Vec<String> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        let mut reader = LineReader::with_limits(file, 0, 1, end, read_bytes, 16).unwrap();
        let mut all = Vec::new();
        loop {
            match reader.read_step().unwrap() {
                Step::Block(block) => {
                    let text = String::from_utf8(reader.block(&block).to_vec()).unwrap();
                    let lines = text
                        .split(['\n', '\r'])
                        .map(str::trim)
                        .filter(|l| !l.is_empty());
                    let mark = if block.is_last { "!" } else { "" };
                    all.extend(lines.map(|line| format!("{line}{mark}")));
                }
                Step::TooLong(long) => all.push(format!("<{}@{}", long.bytes, long.offset)),
                Step::End => return all,
            }
        }
    }

    fn check(content: &str, end: End, expect: &[&str]) {
        for read_bytes in [1, 2, 3, 5, 8, 64, 1024] {
            let lines = lines_of(content.as_bytes(), end, read_bytes);
            assert_eq!(lines, expect, "{content:?} read by {read_bytes}");
        }
    }

    #[test]
    fn the_last_line_with_content_is_marked() {
        check("a\nb\nc\n", End::Mark, &["a", "b", "c!"]);
        check("a\nb\nc", End::Mark, &["a", "b", "c!"]);
        check("a\nb\n\n\n\n", End::Mark, &["a", "b!"]);
        check("a\r\n\r\nb\r\n", End::Mark, &["a", "b!"]);
        check("a\rb\r\rc", End::Mark, &["a", "b", "c!"]);
        check("\n\n\na", End::Mark, &["a!"]);
        check("\n\r\n", End::Mark, &[]);
        check("", End::Mark, &[]);
        check("a", End::Mark, &["a!"]);
    }

    #[test]
    fn a_trailer_is_left_out_and_the_line_before_it_marked() {
        check("a\nb\nc\n", End::SkipTrailer, &["a", "b!"]);
        check("a\nb\nc", End::SkipTrailer, &["a", "b!"]);
        check("a\n\nb\n\n", End::SkipTrailer, &["a!"]);
        check("a\n", End::SkipTrailer, &[]);
        check("", End::SkipTrailer, &[]);
    }

    #[test]
    fn a_followed_file_gives_finished_lines_at_once() {
        check("a\nb\nc", End::Follow, &["a", "b"]);
        check("a\r\nb\r\n", End::Follow, &["a", "b"]);
        let (mut file, path) = tempfile::NamedTempFile::new().unwrap().into_parts();
        let open = File::open(&path).unwrap();
        let mut reader = LineReader::new(open, 0, 1, End::Follow).unwrap();
        assert!(matches!(reader.read_step().unwrap(), Step::End));
        file.write_all(b"one\ntw").unwrap();
        let Step::Block(block) = reader.read_step().unwrap() else {
            panic!("a line is there")
        };
        assert_eq!(
            (reader.block(&block), reader.offset(), reader.line()),
            (&b"one\n"[..], 4, 2)
        );
        assert!(matches!(reader.read_step().unwrap(), Step::End));
        file.write_all(b"o\nthr").unwrap();
        let Step::Block(block) = reader.read_step().unwrap() else {
            panic!("a line is there")
        };
        assert_eq!(
            (reader.block(&block), block.offset, block.line),
            (&b"two\n"[..], 4, 2)
        );
        assert!(matches!(reader.read_step().unwrap(), Step::End));
        reader.finish();
        let Step::Block(block) = reader.read_step().unwrap() else {
            panic!("a line is there")
        };
        assert_eq!(reader.block(&block), b"thr");
        assert!(matches!(reader.read_step().unwrap(), Step::End));
    }

    #[test]
    fn an_over_long_line_is_passed_over_and_its_neighbours_are_given() {
        let long = "x".repeat(100);
        let check_long = |content: &str, expect: &[&str]| {
            for read_bytes in [1, 3, 8, 16] {
                let lines = lines_of(content.as_bytes(), End::Mark, read_bytes);
                assert_eq!(lines, expect, "{content:?} read by {read_bytes}");
            }
        };
        check_long(&format!("a\n{long}\nb\nc\n"), &["a", "<100@2", "b", "c!"]);
        check_long(&format!("a\nb\n{long}\n"), &["a", "b!", "<100@4"]);
        check_long(&format!("a\nb\n{long}"), &["a", "b!", "<100@4"]);
        check_long(
            &format!("{long}\r\nb\n{long}\nc"),
            &["<100@0", "b", "<100@104", "c!"],
        );
        check_long(&long, &["<100@0"]);
    }

    #[test]
    fn every_block_can_be_the_place_to_go_on_from() {
        let content: String = (0..200).map(|i| format!("line {i}\r\n\n")).collect();
        let whole = lines_of(content.as_bytes(), End::Mark, 64);
        let open = |offset, line| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(content.as_bytes()).unwrap();
            LineReader::with_limits(file, offset, line, End::Mark, 64, 64).unwrap()
        };
        let count = |reader: &mut LineReader| {
            let mut count = 0;
            while let Step::Block(block) = reader.read_step().unwrap() {
                let text = std::str::from_utf8(reader.block(&block)).unwrap();
                count += text.lines().filter(|l| !l.is_empty()).count();
            }
            count
        };
        let mut reader = open(0, 1);
        let mut before = 0;
        while let Step::Block(block) = reader.read_step().unwrap() {
            let text = std::str::from_utf8(reader.block(&block)).unwrap();
            before += text.lines().filter(|l| !l.is_empty()).count();
            assert!(reader.line() as usize >= 2 * before);
            let mut resumed = open(reader.offset(), reader.line());
            assert_eq!(before + count(&mut resumed), whole.len());
        }
        assert_eq!(reader.line(), 401);
    }

    #[test]
    fn a_header_line_is_taken_alone() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"\n\nhead\r\na\nb").unwrap();
        let mut reader = LineReader::with_limits(file, 0, 1, End::Mark, 4, 16).unwrap();
        let block = reader.next_line().unwrap().unwrap();
        assert_eq!((reader.block(&block), block.line), (&b"head\r\n"[..], 3));
        let block = reader.next_line().unwrap().unwrap();
        assert_eq!((reader.block(&block), block.line), (&b"a\n"[..], 4));
        let block = reader.next_line().unwrap().unwrap();
        assert_eq!(reader.block(&block), b"b");
        assert!(reader.next_line().unwrap().is_none());
    }
}
