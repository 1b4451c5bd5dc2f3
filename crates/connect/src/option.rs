//! Options of connectors as Siddhi reads them: numbers, flags, the lists `"'key:value','key:value'"`,
//! and options that depend on the event.

use std::str::FromStr;
use std::time::Duration;

use plan::Transport;

use crate::component::SinkSetup;
use crate::error::Error;
use crate::message::Message;
use crate::rows::PROPERTY_PREFIX;
use crate::scalar;

/// The options of a transport, with the name of its component for messages.
#[derive(Clone, Copy)]
pub struct Settings<'a> {
    transport: &'a Transport,
    /// `source` or `sink`.
    kind: &'static str,
}

impl<'a> Settings<'a> {
    pub fn of_source(transport: &'a Transport) -> Settings<'a> {
        Settings {
            transport,
            kind: "source",
        }
    }

    pub fn of_sink(transport: &'a Transport) -> Settings<'a> {
        Settings {
            transport,
            kind: "sink",
        }
    }

    /// The type of the transport, as the app writes it.
    pub fn ty(&self) -> &'a str {
        &self.transport.ty
    }

    pub fn text(&self, name: &str) -> Option<&'a str> {
        self.transport.option(name)
    }

    pub fn flag(&self, name: &str, default: bool) -> bool {
        transport_flag(self.transport, name, default)
    }

    pub fn number<T: FromStr>(&self, name: &str, default: T) -> Result<T, Error> {
        match self.text(name) {
            None => Ok(default),
            Some(text) => number(text).ok_or_else(|| {
                self.refused(format!("option '{name}' is '{text}': write a whole number"))
            }),
        }
    }

    /// Milliseconds; `None` where the option switches the limit off (0 or less).
    pub fn millis(&self, name: &str, default: i64) -> Result<Option<Duration>, Error> {
        let millis: i64 = self.number(name, default)?;
        Ok(u64::try_from(millis)
            .ok()
            .filter(|ms| *ms > 0)
            .map(Duration::from_millis))
    }

    /// Key and value of each entry of a list option.
    pub fn list(&self, name: &str) -> Result<Vec<(String, String)>, Error> {
        list(self.text(name).unwrap_or_default())
            .map_err(|entry| self.refused(bad_list(name, &entry)))
    }

    pub fn refused(&self, message: impl Into<String>) -> Error {
        Error::refused(format!("{} '{}'", self.kind, self.transport.ty), message)
    }
}

pub fn bad_list(name: &str, entry: &str) -> String {
    format!("option '{name}' has the entry '{entry}': write 'name:value','name:value'")
}

pub fn number<T: FromStr>(text: &str) -> Option<T> {
    text.trim().parse().ok()
}

/// `Boolean.parseBoolean` of an option.
pub fn transport_flag(transport: &Transport, name: &str, default: bool) -> bool {
    transport
        .option(name)
        .map_or(default, |text| scalar::parse_bool(text.trim()))
}

/// The entries of `'key:value','key:value'`: trimmed, the first and last characters cut off, split at
/// `','`, then each at its first `:` (`HttpIoUtil.populateHeaders`). An entry without one is the error.
pub fn list(text: &str) -> Result<Vec<(String, String)>, String> {
    let text = text.trim();
    if text.is_empty() || text == "null" {
        return Ok(Vec::new());
    }
    let mut inside = text.chars();
    // Entries that are not quoted are taken as they are: nothing of a value is cut off silently.
    let is_quoted = matches!(text.chars().next(), Some('\'' | '"'));
    if is_quoted {
        inside.next();
        inside.next_back();
    }
    inside
        .as_str()
        .split("','")
        .flat_map(|part| part.split("', '"))
        .map(|entry| match entry.split_once(':') {
            Some((key, value)) if !key.trim().is_empty() => {
                Ok((key.trim().to_owned(), value.trim().to_owned()))
            }
            _ => Err(entry.to_owned()),
        })
        .collect()
}

/// An option that may depend on the event.
pub enum Dynamic {
    Constant(String),
    /// Index among those that do.
    Event(usize),
}

impl Dynamic {
    pub fn new(setup: &SinkSetup<'_>, name: &str, default: &str) -> Dynamic {
        match setup.dynamic.iter().position(|dynamic| dynamic == name) {
            Some(index) => Dynamic::Event(index),
            None => Dynamic::Constant(setup.transport.option(name).unwrap_or(default).to_owned()),
        }
    }

    pub fn of<'a>(&'a self, message: &Message<'a>) -> &'a str {
        match self {
            Dynamic::Constant(text) => text,
            Dynamic::Event(index) => message.option(*index),
        }
    }
}

/// Names after `trp:` in the mapping, each once.
pub fn property_names(transport: &Transport) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for from in &transport.map.attributes {
        if let Some(name) = from.trim().strip_prefix(PROPERTY_PREFIX)
            && !names.iter().any(|n| n == name.trim())
        {
            names.push(name.trim().to_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_lists() {
        fn check(text: &str, expect: Result<&[(&str, &str)], &str>) {
            let found = list(text);
            let expect = expect
                .map(|pairs| {
                    pairs
                        .iter()
                        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                        .collect::<Vec<_>>()
                })
                .map_err(str::to_owned);
            assert_eq!(found, expect, "{text}");
        }
        check("", Ok(&[]));
        check("'a:b'", Ok(&[("a", "b")]));
        check(" 'a:b','c: d:e' ", Ok(&[("a", "b"), ("c", "d:e")]));
        check("'a:b', 'c:d,e'", Ok(&[("a", "b"), ("c", "d,e")]));
        check("a:b", Ok(&[("a", "b")]));
        check("'a'", Err("a"));
        check("'a:b',':c'", Err(":c"));
    }
}
