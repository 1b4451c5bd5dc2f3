//! The options of the file source, read once when the app is made.

use std::path::PathBuf;
use std::time::Duration;

use lang::cron::Cron;
use plan::Transport;
use regex::Regex;
use regex::bytes::Regex as BytesRegex;

use connect::error::Error;
use connect::file_uri::local_path;
use connect::option::Settings;

#[derive(Debug)]
pub struct SourceOptions {
    pub input: Input,
    pub mode: Mode,
    /// Keep following the file.
    pub tailing: bool,
    pub after: After,
    /// Lines with content at the begin of a file that are left out.
    pub header_lines: u32,
    pub part: Part,
    /// How often a followed file is looked at.
    pub file_poll: Duration,
    /// How often the directory is looked at.
    pub dir_poll: Duration,
    /// A file must not have changed for so long.
    pub settle: Duration,
    pub cron: Option<Cron>,
    /// Whole names of the files that are read.
    pub pattern: Option<Regex>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    Directory(PathBuf),
    File(PathBuf),
}

#[derive(Debug)]
pub enum Mode {
    Line,
    TextFull,
    BinaryFull,
    /// Pieces of so many bytes.
    BinaryChunked(usize),
    Records {
        begin: Option<BytesRegex>,
        end: Option<BytesRegex>,
    },
}

/// Which lines of a file are delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    All,
    Header,
    Trailer,
    AllButTrailer,
}

/// What happens to a file that has been read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum After {
    Keep,
    Delete,
    Move { to: PathBuf, existing: Existing },
}

/// What happens when the target of a move is there already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Existing {
    /// The file stays, and the move is reported as failed.
    Refuse,
    Overwrite,
    /// Both stay: the moved one gets another name.
    KeepBoth,
}

impl SourceOptions {
    pub fn read(transport: &Transport) -> Result<SourceOptions, Error> {
        let reader = OptionReader {
            transport,
            settings: Settings::of_source(transport, &[super::SOURCE]),
        };
        let input = reader.input()?;
        let mode = reader.mode()?;
        let is_whole = !matches!(mode, Mode::Line | Mode::Records { .. });
        Ok(SourceOptions {
            tailing: match transport.option("tailing") {
                // What is read as a whole does not grow.
                None if is_whole => false,
                _ => reader.settings.flag("tailing"),
            },
            after: reader.after()?,
            header_lines: if matches!(mode, Mode::Line) {
                reader.header_lines()?
            } else {
                0
            },
            part: reader.part()?,
            file_poll: reader.millis("file.polling.interval")?,
            dir_poll: reader.millis("dir.polling.interval")?,
            settle: reader.millis("file.read.wait.timeout")?,
            cron: match transport.option("cron.expression") {
                Some(text) => Some(Cron::parse(text).map_err(|cause| reader.refused(cause))?),
                None => None,
            },
            pattern: match transport.option("file.name.pattern") {
                Some(text) => Some(
                    Regex::new(&format!("^(?:{text})$"))
                        .map_err(|error| reader.bad_pattern("file.name.pattern", text, &error))?,
                ),
                None => None,
            },
            input,
            mode,
        })
    }
}

struct OptionReader<'a> {
    transport: &'a Transport,
    settings: Settings<'a>,
}

impl OptionReader<'_> {
    fn refused(&self, message: impl Into<String>) -> Error {
        Error::refused("source 'file'", message)
    }

    fn bad_pattern(&self, name: &str, text: &str, error: &regex::Error) -> Error {
        self.refused(format!(
            "option '{name}' holds a pattern that cannot be used, '{text}': {error}; look-around \
             and back-references are not supported"
        ))
    }

    fn path(&self, name: &str, uri: &str) -> Result<PathBuf, Error> {
        local_path(uri).map_err(|error| self.refused(format!("option '{name}': {error}")))
    }

    fn millis(&self, name: &str) -> Result<Duration, Error> {
        self.settings.number(name).map(Duration::from_millis)
    }

    fn input(&self) -> Result<Input, Error> {
        match (
            self.transport.option("dir.uri"),
            self.transport.option("file.uri"),
        ) {
            (Some(uri), None) => Ok(Input::Directory(self.path("dir.uri", uri)?)),
            (None, Some(uri)) => Ok(Input::File(self.path("file.uri", uri)?)),
            _ => Err(self.refused("exactly one of 'dir.uri' and 'file.uri' must be given")),
        }
    }

    fn mode(&self) -> Result<Mode, Error> {
        let text = self
            .settings
            .text_or_default("mode")
            .trim()
            .to_ascii_lowercase();
        Ok(match text.as_str() {
            "line" => Mode::Line,
            "text.full" => Mode::TextFull,
            "binary.full" => Mode::BinaryFull,
            "binary.chunked" => {
                let bytes: u64 = self.settings.number("buffer.size")?;
                Mode::BinaryChunked(bytes.min(PIECE_BYTES_MAX) as usize)
            }
            "regex" => {
                let (begin, end) = (self.regex("begin.regex")?, self.regex("end.regex")?);
                // Without either, records are lines; published apps rely on it.
                if begin.is_none() && end.is_none() {
                    Mode::Line
                } else {
                    Mode::Records { begin, end }
                }
            }
            _ => {
                return Err(self.refused(format!(
                    "option 'mode' is '{text}': use line, regex, text.full, binary.full or \
                     binary.chunked"
                )));
            }
        })
    }

    fn regex(&self, name: &str) -> Result<Option<BytesRegex>, Error> {
        let Some(text) = self.transport.option(name) else {
            return Ok(None);
        };
        let regex = BytesRegex::new(text).map_err(|error| self.bad_pattern(name, text, &error))?;
        Ok(Some(regex))
    }

    fn header_lines(&self) -> Result<u32, Error> {
        if !self.settings.flag("header.present") {
            return Ok(0);
        }
        let lines: u64 = self.settings.number("header.line.count")?;
        Ok(lines.min(u64::from(u32::MAX)) as u32)
    }

    fn part(&self) -> Result<Part, Error> {
        let header = self.settings.flag("read.only.header");
        let trailer = self.settings.flag("read.only.trailer");
        let skip = self.settings.flag("skip.trailer");
        match (header, trailer, skip) {
            (false, false, false) => Ok(Part::All),
            (true, false, _) => Ok(Part::Header),
            (false, true, false) => Ok(Part::Trailer),
            (false, false, true) => Ok(Part::AllButTrailer),
            _ => Err(self.refused(
                "of 'read.only.header', 'read.only.trailer' and 'skip.trailer' only one can be true",
            )),
        }
    }

    fn after(&self) -> Result<After, Error> {
        let action = self.settings.text_or_default("action.after.process").trim();
        match action.to_ascii_lowercase().as_str() {
            "keep" | "none" => Ok(After::Keep),
            "delete" => Ok(After::Delete),
            "move" => {
                let Some(uri) = self.transport.option("move.after.process") else {
                    return Err(self.refused("action 'move' needs option 'move.after.process'"));
                };
                let to = self.path("move.after.process", uri)?;
                let existing = match self.transport.option("move.if.exist.mode") {
                    None => Existing::Refuse,
                    Some(mode) if mode.trim().eq_ignore_ascii_case("overwrite") => {
                        Existing::Overwrite
                    }
                    Some(mode) if mode.trim().eq_ignore_ascii_case("keep") => Existing::KeepBoth,
                    Some(mode) => {
                        return Err(self.refused(format!(
                            "option 'move.if.exist.mode' is '{mode}': use OVERWRITE or KEEP"
                        )));
                    }
                };
                Ok(After::Move { to, existing })
            }
            _ => Err(self.refused(format!(
                "option 'action.after.process' is '{action}': use keep, delete or move"
            ))),
        }
    }
}

/// Largest piece in mode `binary.chunked`, in bytes.
const PIECE_BYTES_MAX: u64 = 64 << 20;
