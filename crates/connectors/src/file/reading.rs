//! The open file of a source: how its bytes become messages, mode by mode.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

use event::Value;
use regex::bytes::Regex;

use super::lines::{LINE_BYTES_MAX, LineReader, Step as LineStep, TooLong, line_ends};
use super::options::Part;
use super::records::{RECORD_BYTES_MAX, RecordReader, Step as RecordStep};
use super::source::{EOF, FileSource, Flow, SEQUENCE_NUMBER, go_on, unreadable};
use connect::component::{Payload, Room, SourceLink};
use connect::error::Error;
use connect::row_decoder::MESSAGE_BYTES_MAX;
use connect::rows::{Lines, Place, Rejected};

const BOM: &[u8] = b"\xef\xbb\xbf";

pub(super) enum Reading {
    Lines(LineReader),
    Whole { file: File, is_text: bool },
    Pieces(Pieces),
    Records(RecordReader),
}

pub(super) struct Pieces {
    file: File,
    bytes: usize,
    /// Read ahead, to know which piece is the last.
    next: Vec<u8>,
}

impl Reading {
    pub(super) fn whole(file: File, is_text: bool) -> Reading {
        Reading::Whole { file, is_text }
    }

    pub(super) fn pieces(mut file: File, offset: u64, bytes: usize) -> io::Result<Reading> {
        file.seek(SeekFrom::Start(offset))?;
        let next = read_piece(&mut file, bytes)?;
        Ok(Reading::Pieces(Pieces { file, bytes, next }))
    }

    pub(super) fn records(
        file: File,
        offset: u64,
        begin: Option<Regex>,
        end: Option<Regex>,
        follow: bool,
    ) -> io::Result<Reading> {
        RecordReader::new(file, offset, begin, end, follow).map(Reading::Records)
    }

    /// Where text begins: behind a UTF-8 mark at the start of the file. `None`: it is UTF-16.
    pub(super) fn check_encoding(file: &File, offset: u64) -> io::Result<Option<u64>> {
        if offset > 0 {
            return Ok(Some(offset));
        }
        let mut head = [0; 3];
        let mut count = 0;
        while count < head.len() {
            match file.read_at(&mut head[count..], count as u64) {
                Ok(0) => break,
                Ok(more) => count += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(match &head[..count] {
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => None,
            head if head == BOM => Some(BOM.len() as u64),
            _ => Some(0),
        })
    }

    /// A followed file is complete.
    pub(super) fn finish(&mut self) {
        match self {
            Reading::Lines(reader) => reader.finish(),
            Reading::Records(reader) => reader.finish(),
            Reading::Whole { .. } | Reading::Pieces(_) => {}
        }
    }
}

fn read_piece(file: &mut File, bytes: usize) -> io::Result<Vec<u8>> {
    let mut piece = Vec::new();
    file.take(bytes as u64).read_to_end(&mut piece)?;
    Ok(piece)
}

impl FileSource {
    /// Reads until the file has nothing more. After a read error what was mapped is posted, so that
    /// the next try goes on behind it.
    pub(super) fn read_on(&mut self, link: &mut dyn SourceLink) -> Result<Flow, Error> {
        let mut reading = self.reading.take().expect("a file is open");
        let read = match &mut reading {
            Reading::Lines(reader) => self.read_lines(link, reader),
            Reading::Whole { file, is_text } => {
                let is_text = *is_text;
                self.read_whole(link, file, is_text)
            }
            Reading::Pieces(pieces) => self.read_pieces(link, pieces),
            Reading::Records(reader) => self.read_records(link, reader),
        };
        self.reading = Some(reading);
        match read {
            Err(Failure::Link(error)) => Err(error),
            Err(Failure::File(error)) => {
                self.reading = None;
                let path = self.current().file.path.clone();
                self.post(link)?;
                Err(unreadable(&path, error))
            }
            Ok(flow) => Ok(flow),
        }
    }

    // ---- lines ----

    fn read_lines(
        &mut self,
        link: &mut dyn SourceLink,
        reader: &mut LineReader,
    ) -> Result<Flow, Failure> {
        while self.current().header_left > 0 {
            if reader.next_line()?.is_none() {
                return Ok(Flow::On);
            }
            self.current().header_left -= 1;
            self.mark(reader.offset(), reader.line());
        }
        if self.options.part == Part::Header {
            return self.read_header(link, reader);
        }
        loop {
            // Signals are looked for once a block, not once a batch.
            go_on!(self.pause(link, std::time::Duration::ZERO)?);
            match reader.read_step()? {
                LineStep::Block(block) => {
                    if self.options.part == Part::Trailer && !block.is_last {
                        continue;
                    }
                    self.mark_eof(block.is_last);
                    self.map_block(link, reader.block(&block), block.offset, block.line)?;
                    self.mark(reader.offset(), reader.line());
                }
                LineStep::TooLong(long) => link.reject(too_long(&long)),
                LineStep::End => return Ok(Flow::On),
            }
        }
    }

    fn read_header(
        &mut self,
        link: &mut dyn SourceLink,
        reader: &mut LineReader,
    ) -> Result<Flow, Failure> {
        if self.current().pieces > 0 {
            return Ok(Flow::On);
        }
        if let Some(block) = reader.next_line()? {
            self.mark_eof(true);
            self.map_block(link, reader.block(&block), block.offset, block.line)?;
            self.current().pieces = 1;
        }
        Ok(Flow::On)
    }

    /// Everything before this place has been mapped.
    fn mark(&mut self, offset: u64, line: u64) {
        self.mark_dirty();
        let current = self.current();
        (current.offset, current.line) = (offset, line);
    }

    fn mark_eof(&mut self, is_last: bool) {
        self.properties
            .set(EOF, Value::str(if is_last { "true" } else { "false" }));
    }

    /// Maps a block of lines; those that are not UTF-8 are rejected, the others go on.
    fn map_block(
        &mut self,
        link: &mut dyn SourceLink,
        mut block: &[u8],
        mut offset: u64,
        mut line: u64,
    ) -> Result<(), Failure> {
        loop {
            let bad = match std::str::from_utf8(block) {
                Ok(text) => return self.map_text(link, text, offset, line),
                Err(error) => error.valid_up_to(),
            };
            let start = memchr::memrchr2(b'\n', b'\r', &block[..bad]).map_or(0, |at| at + 1);
            let end =
                memchr::memchr2(b'\n', b'\r', &block[bad..]).map_or(block.len(), |at| bad + at);
            if let Ok(text) = std::str::from_utf8(&block[..start]) {
                self.map_text(link, text, offset, line)?;
            }
            line += line_ends(&block[..start]);
            let mut rejected = Rejected::of(
                Payload::Bytes(&block[start..end]),
                "the line is not UTF-8 text",
                "convert the file, for instance by iconv -f LATIN1 -t UTF-8",
            );
            rejected.place = Place {
                line: Some(line),
                byte: Some(offset + start as u64),
            };
            link.reject(rejected);
            let is_pair = block[end..].starts_with(b"\r\n");
            let next = (end + 1 + usize::from(is_pair)).min(block.len());
            offset += next as u64;
            line += 1;
            block = &block[next..];
            self.mark(offset, line);
            if block.is_empty() {
                return Ok(());
            }
        }
    }

    fn map_text(
        &mut self,
        link: &mut dyn SourceLink,
        text: &str,
        offset: u64,
        line: u64,
    ) -> Result<(), Failure> {
        let mut lines = Lines::new(text, line - 1, offset);
        while link.map_lines(&mut lines, &self.properties) == Room::Full {
            self.mark(lines.position(), lines.line() + 1);
            self.post(link)?;
        }
        Ok(())
    }

    // ---- whole files and pieces ----

    fn read_whole(
        &mut self,
        link: &mut dyn SourceLink,
        file: &mut File,
        is_text: bool,
    ) -> Result<Flow, Failure> {
        if self.current().pieces > 0 {
            return Ok(Flow::On);
        }
        let mut bytes = Vec::new();
        let limit = MESSAGE_BYTES_MAX as u64 + 1;
        file.take(limit).read_to_end(&mut bytes)?;
        self.mark_eof(true);
        let path = self.current().file.path.to_string_lossy().into_owned();
        if bytes.len() as u64 == limit {
            link.reject(Rejected::new(
                &path,
                format!("file '{path}' has more than {MESSAGE_BYTES_MAX} bytes and is one message"),
                "read it by mode 'line', 'regex' or 'binary.chunked'",
            ));
        } else if !is_text {
            link.map(Payload::Bytes(&bytes), &self.properties);
        } else {
            match std::str::from_utf8(bytes.strip_prefix(BOM).unwrap_or(&bytes)) {
                Ok(text) => {
                    link.map(Payload::Text(text), &self.properties);
                }
                Err(error) => {
                    let mut rejected = Rejected::new(
                        &path,
                        format!("file '{path}' is not UTF-8 text"),
                        "convert it, for instance by iconv -f LATIN1 -t UTF-8",
                    );
                    rejected.place.byte = Some(error.valid_up_to() as u64);
                    link.reject(rejected);
                }
            }
        }
        self.current().pieces = 1;
        self.mark_dirty();
        Ok(Flow::On)
    }

    fn read_pieces(
        &mut self,
        link: &mut dyn SourceLink,
        pieces: &mut Pieces,
    ) -> Result<Flow, Failure> {
        while !pieces.next.is_empty() {
            go_on!(self.pause(link, std::time::Duration::ZERO)?);
            let next = read_piece(&mut pieces.file, pieces.bytes)?;
            let piece = std::mem::replace(&mut pieces.next, next);
            let number = self.current().pieces + 1;
            self.mark_eof(pieces.next.is_empty());
            self.properties
                .set(SEQUENCE_NUMBER, Value::str(&number.to_string()));
            let room = link.map(Payload::Bytes(&piece), &self.properties);
            let current = self.current();
            current.offset += piece.len() as u64;
            current.pieces = number;
            self.mark_dirty();
            if room == Room::Full {
                self.post(link)?;
            }
        }
        Ok(Flow::On)
    }

    // ---- records ----

    fn read_records(
        &mut self,
        link: &mut dyn SourceLink,
        reader: &mut RecordReader,
    ) -> Result<Flow, Failure> {
        loop {
            match reader.read_step()? {
                RecordStep::Record {
                    range,
                    offset,
                    is_last,
                } => {
                    self.mark_eof(is_last);
                    let room = match std::str::from_utf8(reader.record(&range)) {
                        Ok(text) => link.map(Payload::Text(text), &self.properties),
                        Err(_) => {
                            let mut rejected = Rejected::of(
                                Payload::Bytes(reader.record(&range)),
                                "the record is not UTF-8 text",
                                "convert the file, for instance by iconv -f LATIN1 -t UTF-8",
                            );
                            rejected.place.byte = Some(offset);
                            link.reject(rejected);
                            Room::More
                        }
                    };
                    let line = self.current().line;
                    self.mark(reader.offset(), line);
                    if room == Room::Full {
                        self.post(link)?;
                        go_on!(self.pause(link, std::time::Duration::ZERO)?);
                    }
                }
                RecordStep::TooLong { offset } => {
                    let mut rejected = Rejected::new(
                        "",
                        format!("a record has more than {RECORD_BYTES_MAX} bytes"),
                        "correct begin.regex and end.regex, or the file",
                    );
                    rejected.place.byte = Some(offset);
                    link.reject(rejected);
                }
                RecordStep::End => return Ok(Flow::On),
            }
        }
    }
}

fn too_long(long: &TooLong) -> Rejected {
    let mut rejected = Rejected::of(
        Payload::Bytes(&long.head),
        format!(
            "the line is too long: {} bytes, more than {LINE_BYTES_MAX}",
            long.bytes
        ),
        "split the line, or read the file by mode 'regex' or 'binary.chunked'",
    );
    rejected.place = Place {
        line: Some(long.line),
        byte: Some(long.offset),
    };
    rejected
}

/// What stopped the reading of a file.
enum Failure {
    File(io::Error),
    Link(Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::File(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Link(error)
    }
}
