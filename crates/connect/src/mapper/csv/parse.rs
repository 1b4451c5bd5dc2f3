//! The whole grammar: text to records, one at a time.

/// Reads records from a text.
pub(super) struct Records<'a> {
    text: &'a str,
    delimiter: &'a str,
    trims: bool,
    at: usize,
    /// Where the line that holds `at` ends, if it is already known; before `at` after a quoted
    /// field that spans lines. Looked for once a line: a search per field would make a long line of
    /// many fields quadratic.
    line_end: usize,
    /// Texts of the fields of the record, behind one another, without their quotes.
    fields: String,
    ends: Vec<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// Text stands between a closing quote and the next delimiter.
    BehindQuote { byte: usize },
    /// The text ends inside quotes that were opened here.
    OpenQuote { byte: usize },
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::BehindQuote { byte } => {
                write!(f, "text after a closing quote at byte {byte}")
            }
            Fault::OpenQuote { byte } => {
                write!(f, "the quote opened at byte {byte} is never closed")
            }
        }
    }
}

/// `Character.isWhitespace`, as far as it occurs between a quote and a delimiter.
fn is_blank(c: char) -> bool {
    c.is_whitespace() && !matches!(c, '\u{a0}' | '\u{2007}' | '\u{202f}' | '\u{85}')
        || ('\u{1c}'..='\u{1f}').contains(&c)
}

impl<'a> Records<'a> {
    pub fn new(text: &'a str, delimiter: &'a str) -> Records<'a> {
        Records {
            text,
            delimiter,
            trims: delimiter == "\t",
            at: 0,
            line_end: 0,
            fields: String::new(),
            ends: Vec::new(),
        }
    }

    /// Reads the next record; false at the end of the text.
    pub fn next_record(&mut self) -> Result<bool, Fault> {
        self.fields.clear();
        self.ends.clear();
        while self.skip_break() {}
        if self.at == self.text.len() {
            return Ok(false);
        }
        loop {
            self.field()?;
            self.ends.push(self.fields.len());
            if self.rest().starts_with(self.delimiter) {
                self.at += self.delimiter.len();
                continue;
            }
            self.skip_break();
            return Ok(true);
        }
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn get(&self, index: usize) -> Option<&str> {
        let end = *self.ends.get(index)?;
        let start = match index {
            0 => 0,
            _ => self.ends[index - 1],
        };
        Some(&self.fields[start..end])
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// The end of the line that holds `at`, without its break.
    fn line_end(&mut self) -> usize {
        let is_known = self.at < self.line_end
            || (self.at == self.line_end && self.rest().starts_with(['\n', '\r']));
        if !is_known {
            let rest = self.rest();
            self.line_end = self.at + rest.find(['\n', '\r']).unwrap_or(rest.len());
        }
        self.line_end
    }

    fn skip_break(&mut self) -> bool {
        let rest = self.rest().as_bytes();
        let len = match rest {
            [b'\r', b'\n', ..] => 2,
            [b'\r' | b'\n', ..] => 1,
            _ => return false,
        };
        self.at += len;
        true
    }

    fn field(&mut self) -> Result<(), Fault> {
        if self.trims {
            self.skip_blanks();
        }
        if self.rest().starts_with('"') {
            return self.quoted();
        }
        let line = &self.text[self.at..self.line_end()];
        let field = match line.find(self.delimiter) {
            Some(len) => &line[..len],
            None => line,
        };
        let len = field.len();
        self.at += len;
        self.fields.push_str(if self.trims {
            field.trim_end_matches(is_blank)
        } else {
            field
        });
        Ok(())
    }

    fn quoted(&mut self) -> Result<(), Fault> {
        let opened = self.at;
        self.at += 1;
        loop {
            let rest = self.rest();
            let Some(len) = rest.find('"') else {
                return Err(Fault::OpenQuote { byte: opened });
            };
            self.fields.push_str(&rest[..len]);
            self.at += len + 1;
            if self.rest().starts_with('"') {
                self.fields.push('"');
                self.at += 1;
            } else {
                break;
            }
        }
        self.skip_blanks();
        let rest = self.rest();
        if rest.is_empty() || rest.starts_with(['\n', '\r']) || rest.starts_with(self.delimiter) {
            Ok(())
        } else {
            Err(Fault::BehindQuote { byte: self.at })
        }
    }

    /// Skips blanks that are neither a line break nor the delimiter.
    fn skip_blanks(&mut self) {
        while let Some(c) = self.rest().chars().next() {
            let is_end = matches!(c, '\n' | '\r') || self.rest().starts_with(self.delimiter);
            if is_end || !is_blank(c) {
                return;
            }
            self.at += c.len_utf8();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, delimiter: &str, expect: Result<&[&[&str]], Fault>) {
        let mut records = Records::new(text, delimiter);
        let mut found: Vec<Vec<String>> = Vec::new();
        let outcome = loop {
            match records.next_record() {
                Ok(true) => found.push(
                    (0..records.len())
                        .filter_map(|i| records.get(i).map(str::to_owned))
                        .collect(),
                ),
                Ok(false) => break Ok(()),
                Err(fault) => break Err(fault),
            }
        };
        match expect {
            Ok(expect) => {
                assert_eq!(outcome, Ok(()), "{text:?}");
                assert_eq!(found, expect, "{text:?}");
            }
            Err(fault) => assert_eq!(outcome, Err(fault), "{text:?}"),
        }
    }

    /// Reading must be linear in the fields of a line: a search for the end of the line per field
    /// would take hours here.
    #[test]
    fn a_line_of_a_million_fields_is_read_in_one_pass() {
        let mut text = ",".repeat(1 << 20);
        text.push_str("\n\"a\nb\",c,d\ne");
        let mut records = Records::new(&text, ",");
        let mut lengths = Vec::new();
        while records.next_record().expect("the text is well formed") {
            lengths.push((
                records.len(),
                records.get(records.len() - 1).map(str::to_owned),
            ));
        }
        let last = |text: &str| Some(text.to_owned());
        assert_eq!(
            lengths,
            [((1 << 20) + 1, last("")), (3, last("d")), (1, last("e"))]
        );
    }

    #[test]
    fn records_as_commons_csv_reads_them() {
        check("a,b\nc,d\n", ",", Ok(&[&["a", "b"], &["c", "d"]]));
        check("a,,", ",", Ok(&[&["a", "", ""]]));
        check("\n\r\n\ra\r\n", ",", Ok(&[&["a"]]));
        check(" a , b ", ",", Ok(&[&[" a ", " b "]]));
        check(" ", ",", Ok(&[&[" "]]));
        check("", ",", Ok(&[]));
        check("a\"b\"", ",", Ok(&[&["a\"b\""]]));
    }

    #[test]
    fn quotes() {
        check("\"a,b\",\"c\"\"d\"", ",", Ok(&[&["a,b", "c\"d"]]));
        check("\"a\nb\" \t,c", ",", Ok(&[&["a\nb", "c"]]));
        check("\"\"", ",", Ok(&[&[""]]));
        check("\"a\"b,c", ",", Err(Fault::BehindQuote { byte: 3 }));
        check("x,\"a", ",", Err(Fault::OpenQuote { byte: 2 }));
    }

    #[test]
    fn other_delimiters() {
        check("a-/-b-/-", "-/-", Ok(&[&["a", "b", ""]]));
        check("a|b\u{20ac}c|", "|", Ok(&[&["a", "b\u{20ac}c", ""]]));
        check(" a \t b\t\"c \" \t", "\t", Ok(&[&["a", "b", "c ", ""]]));
    }
}
