//! What a call site compiles from a text argument, kept while the text stays the same.

use javatext::json_path::Path;
use javatext::regex::Regex;

use super::json::Tape;
use super::time::DatePattern;

/// How many different texts of one kind a call site remembers.
const KEPT_MAX: usize = 8;

/// Things made from texts, the most recent first.
#[derive(Debug)]
pub struct Recent<T> {
    made: Vec<(String, T)>,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Recent { made: Vec::new() }
    }
}

impl<T> Recent<T> {
    pub fn get<E>(&mut self, text: &str, make: impl FnOnce(&str) -> Result<T, E>) -> Result<&T, E> {
        match self.made.iter().position(|(known, _)| known == text) {
            Some(0) => {}
            Some(at) => self.made[..=at].rotate_right(1),
            None => {
                let made = make(text)?;
                self.made.truncate(KEPT_MAX - 1);
                self.made.insert(0, (text.to_owned(), made));
            }
        }
        Ok(&self.made[0].1)
    }
}

/// One call site's memory, by kind.
#[derive(Default, Debug)]
pub struct Memo {
    regexes: Recent<Regex>,
    whole: Recent<Regex>,
    leading: Recent<Regex>,
    paths: Recent<Path>,
    dates: Recent<DatePattern>,
    strict_dates: Recent<DatePattern>,
    /// Room to read a JSON text in.
    tape: Tape,
}

/// JSON paths.
pub struct Paths<'m>(&'m mut Recent<Path>);

impl<'m> Paths<'m> {
    pub fn get(self, text: &str) -> Result<&'m Path, String> {
        Ok(self.0.get(text, Path::new)?)
    }
}

impl Memo {
    /// For `find`.
    pub fn regex(&mut self, pattern: &str) -> Result<&Regex, String> {
        Ok(self.regexes.get(pattern, Regex::new)?)
    }

    /// For `matches`.
    pub fn whole_regex(&mut self, pattern: &str) -> Result<&Regex, String> {
        Ok(self.whole.get(pattern, Regex::whole)?)
    }

    /// For `lookingAt`.
    pub fn leading_regex(&mut self, pattern: &str) -> Result<&Regex, String> {
        Ok(self.leading.get(pattern, Regex::leading)?)
    }

    /// Room to read a JSON text in, and the paths.
    pub fn json(&mut self) -> (&mut Tape, Paths<'_>) {
        (&mut self.tape, Paths(&mut self.paths))
    }

    /// A date format of `SimpleDateFormat`.
    pub fn date_pattern(&mut self, text: &str) -> Result<&DatePattern, String> {
        self.dates.get(text, DatePattern::new)
    }

    /// A date format of `java.time`.
    pub fn strict_date_pattern(&mut self, text: &str) -> Result<&DatePattern, String> {
        self.strict_dates.get(text, DatePattern::strict)
    }
}
