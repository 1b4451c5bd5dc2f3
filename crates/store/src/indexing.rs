//! Which columns of a table are searched, as an app, a script or a client of DAS has said.
//!
//! It lies beside the tables: the index can be made again from the table and from this.
//!
//! ```text
//! definitions/NAME.json       {"version":1,"rows":false,"columns":{"title":"index","region":"index facet"}}
//! ```

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use event::Type;
use serde_json::{Map, Value as Json, json};

use crate::definition::Definition;
use crate::error::Error;
use crate::paths::{create_dir, replace};

const FOLDER: &str = "definitions";
const VERSION: u64 = 1;

/// What is done with a column.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Flags {
    /// Queries may name it (`-i`).
    pub is_indexed: bool,
    /// Its text is a path of categories, with commas between them (`-f`).
    pub is_facet: bool,
    /// Score functions may name it (`-sp`).
    pub is_score: bool,
}

impl Flags {
    /// Is a query allowed to name the column?
    pub fn is_searched(self) -> bool {
        self.is_indexed || self.is_facet
    }

    fn with(self, more: Flags) -> Flags {
        Flags {
            is_indexed: self.is_indexed || more.is_indexed,
            is_facet: self.is_facet || more.is_facet,
            is_score: self.is_score || more.is_score,
        }
    }

    fn words(self) -> String {
        let words = [
            (self.is_indexed, "index"),
            (self.is_facet, "facet"),
            (self.is_score, "score"),
        ];
        let words: Vec<&str> = words
            .into_iter()
            .filter_map(|(is, word)| is.then_some(word))
            .collect();
        words.join(" ")
    }
}

/// The columns of a table that are searched, by their names.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Indexing {
    columns: BTreeMap<String, Flags>,
    /// The index has the rows, too, for tables that are asked for single ones.
    pub keeps_rows: bool,
}

impl Indexing {
    /// No column yet.
    pub fn new(keeps_rows: bool) -> Indexing {
        Indexing {
            keeps_rows,
            ..Indexing::default()
        }
    }

    /// Flags of a column; none where nothing was said.
    pub fn flags(&self, column: &str) -> Flags {
        self.columns.get(column).copied().unwrap_or_default()
    }

    /// Can queries name any column?
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Adds flags to a column.
    ///
    /// # Errors
    /// There is no such column, or its type does not allow them, in words for whoever wrote it.
    pub fn add(
        &mut self,
        definition: &Definition,
        column: &str,
        flags: Flags,
    ) -> Result<(), Error> {
        let attributes = &definition.schema.attributes;
        let found = attributes
            .iter()
            .find(|a| a.name.eq_ignore_ascii_case(column));
        let Some(attribute) = found else {
            let names: Vec<&str> = attributes.iter().map(|a| a.name.as_str()).collect();
            return Err(Error::Refused(format!(
                "table '{}' has no column '{column}': it has {}",
                definition.name,
                names.join(", ")
            )));
        };
        let (name, ty) = (&attribute.name, attribute.ty);
        let refused = |what: &str| {
            Err(Error::Refused(format!(
                "column '{name}' is {ty} and cannot be {what}"
            )))
        };
        if flags.is_score && !ty.is_numeric() {
            return refused("a score parameter, which is a number");
        }
        if flags.is_searched() && ty == Type::Object {
            return refused("searched");
        }
        if flags != Flags::default() {
            let known = self.columns.entry(name.clone()).or_default();
            *known = known.with(flags);
        }
        Ok(())
    }

    /// Reads `title -i, region -f, price -i -sp`.
    ///
    /// # Errors
    /// As [`Indexing::add`]; an unknown flag.
    pub fn parse(text: &str, definition: &Definition) -> Result<Indexing, Error> {
        let mut indexing = Indexing::default();
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            let mut words = part.split_whitespace();
            let column = words.next().unwrap_or_default();
            let mut flags = Flags::default();
            for word in words {
                match word.to_ascii_lowercase().as_str() {
                    "-i" => flags.is_indexed = true,
                    "-f" => flags.is_facet = true,
                    "-sp" => flags.is_score = true,
                    _ => {
                        return Err(Error::Refused(format!(
                            "'{word}' behind column '{column}' is no flag: write -i (searched), -f (a facet) or \
                             -sp (a score parameter)"
                        )));
                    }
                }
            }
            if flags == Flags::default() {
                return Err(Error::Refused(format!(
                    "column '{column}' has no flag: write -i (searched), -f (a facet) or -sp (a score parameter)"
                )));
            }
            indexing.add(definition, column, flags)?;
        }
        Ok(indexing)
    }

    /// Puts the flags of another beside these.
    pub fn merge(&mut self, other: &Indexing) {
        for (column, flags) in &other.columns {
            let known = self.columns.entry(column.clone()).or_default();
            *known = known.with(*flags);
        }
        self.keeps_rows |= other.keeps_rows;
    }

    /// What was said of a table of a store; nothing where nobody has.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    pub fn read(dir: &Path, table: &str) -> Result<Indexing, Error> {
        let path = path(dir, table);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(Indexing::default()),
            Err(cause) => return Err(Error::file("read", &path)(cause)),
        };
        let damaged = |message: &str| Error::damaged(&path, message);
        let json: Json = serde_json::from_str(&text).map_err(|_| damaged("it is not JSON"))?;
        if json["version"].as_u64() != Some(VERSION) {
            return Err(damaged("it has another version than this build reads"));
        }
        let columns = json["columns"].as_object();
        let columns = columns.ok_or_else(|| damaged("it names no columns"))?;
        let columns = columns.iter().map(|(name, words)| {
            let has = |word: &str| {
                words
                    .as_str()
                    .is_some_and(|w| w.split(' ').any(|w| w == word))
            };
            let flags = Flags {
                is_indexed: has("index"),
                is_facet: has("facet"),
                is_score: has("score"),
            };
            (name.clone(), flags)
        });
        Ok(Indexing {
            columns: columns.collect(),
            keeps_rows: json["rows"].as_bool().unwrap_or(false),
        })
    }

    /// Puts it in the place of what was said of a table, so that it lasts.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, dir: &Path, table: &str) -> Result<(), Error> {
        create_dir(&dir.join(FOLDER))?;
        let columns = self.columns.iter();
        let columns = columns.map(|(name, flags)| (name.clone(), Json::from(flags.words())));
        let columns = Json::Object(columns.collect::<Map<_, _>>());
        let json = json!({"version": VERSION, "rows": self.keeps_rows, "columns": columns});
        replace(&path(dir, table), json.to_string().as_bytes())
    }

    /// Changes when what was said of a table does; `None` where nobody has said anything.
    pub fn stamp(dir: &Path, table: &str) -> Option<(SystemTime, u64)> {
        let about = std::fs::metadata(path(dir, table)).ok()?;
        Some((about.modified().ok()?, about.len()))
    }

    /// Adds it to what was said of a table.
    ///
    /// # Errors
    /// As [`Indexing::read`] and [`Indexing::write`].
    pub fn write_beside(&self, dir: &Path, table: &str) -> Result<(), Error> {
        let known = Indexing::read(dir, table)?;
        let mut all = known.clone();
        all.merge(self);
        match all == known {
            true => Ok(()),
            false => all.write(dir, table),
        }
    }
}

fn path(dir: &Path, table: &str) -> PathBuf {
    dir.join(FOLDER).join(format!("{table}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::sample;

    #[test]
    fn flags_are_read_kept_and_added_to() {
        let (dir, definition) = (tempfile::tempdir().expect("a folder"), sample(vec![]));
        let parsed = |text: &str| Indexing::parse(text, &definition).expect(text);
        let first = parsed("Symbol -i -f, volume -i -sp");
        assert!(first.flags("symbol").is_facet && first.flags("volume").is_score);
        first.write(dir.path(), "trades").expect("written");
        let mut second = parsed("price -SP, symbol -i");
        second.keeps_rows = true;
        second.write_beside(dir.path(), "trades").expect("written");
        let read = Indexing::read(dir.path(), "trades").expect("read");
        let mut both = parsed("symbol -i -f, volume -i -sp, price -sp");
        both.keeps_rows = true;
        assert_eq!(read, both);
        assert!(
            Indexing::read(dir.path(), "other")
                .expect("none")
                .is_empty()
        );
        std::fs::write(dir.path().join("definitions/other.json"), "{").expect("written");
        assert!(Indexing::read(dir.path(), "other").is_err());
    }

    #[test]
    fn what_a_column_cannot_be_is_refused() {
        for (text, says) in [
            ("nothing -i", "no column 'nothing': it has symbol, volume"),
            ("symbol -sp", "'symbol' is string and cannot be a score"),
            ("extra -i", "'extra' is object and cannot be searched"),
            ("symbol -x", "'-x' behind column 'symbol' is no flag"),
            ("symbol", "has no flag"),
        ] {
            let refused = Indexing::parse(text, &sample(vec![])).expect_err(text);
            assert!(refused.to_string().contains(says), "{text}: {refused}");
        }
    }
}
