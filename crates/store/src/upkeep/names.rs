//! Which tables are meant.

use regex::{Regex, RegexBuilder};

use crate::error::Error;

/// Bytes of a compiled pattern.
const PATTERN_MAX: usize = 1 << 20;

/// Patterns for whole names, without case, as in a purge of WSO2 DAS; a name is a pattern too.
#[derive(Clone, Debug)]
pub struct Names {
    patterns: Vec<(String, Regex)>,
    /// A pattern that matches no table is no mistake.
    may_be_idle: bool,
}

impl Names {
    /// # Errors
    /// A pattern is none, in words for its author.
    pub fn new(patterns: &[String]) -> Result<Names, Error> {
        let compiled = patterns.iter().map(|pattern| {
            // Streams have dots, where their tables have underscores; a dot matches either.
            let whole = format!("^(?:{})$", pattern.trim());
            let regex = RegexBuilder::new(&whole)
                .case_insensitive(true)
                .size_limit(PATTERN_MAX)
                .build();
            let regex = regex.map_err(|cause| {
                Error::Refused(format!(
                    "'{pattern}' is no pattern for names of tables: {cause} (looking ahead or behind and \
                     back-references are not known)"
                ))
            });
            Ok((pattern.trim().to_owned(), regex?))
        });
        let patterns = compiled.collect::<Result<_, Error>>()?;
        Ok(Names {
            patterns,
            may_be_idle: false,
        })
    }

    /// The same, whose patterns may match nothing.
    pub fn that_may_be_idle(mut self) -> Names {
        self.may_be_idle = true;
        self
    }

    /// Is a table meant? Without any pattern all are.
    pub fn has(&self, table: &str) -> bool {
        self.patterns.is_empty() || self.patterns.iter().any(|(_, regex)| regex.is_match(table))
    }

    /// # Errors
    /// A pattern matches none of the tables.
    pub fn check<'a>(&self, tables: impl Iterator<Item = &'a str>) -> Result<(), Error> {
        if self.may_be_idle {
            return Ok(());
        }
        let tables: Vec<&str> = tables.collect();
        let idle = self
            .patterns
            .iter()
            .find(|(_, regex)| !tables.iter().any(|table| regex.is_match(table)));
        match idle {
            None => Ok(()),
            Some((pattern, _)) => Err(Error::Refused(format!(
                "no table of the event store is named '{pattern}': there is {}",
                match tables.is_empty() {
                    true => "none".to_owned(),
                    false => tables.join(", "),
                }
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(patterns: &[&str]) -> Result<Names, Error> {
        let patterns: Vec<String> = patterns.iter().map(|p| (*p).to_owned()).collect();
        Names::new(&patterns)
    }

    #[test]
    fn a_pattern_is_for_the_whole_name_without_case() {
        let some = names(&["ORG_WSO2_.*", " org.x.y "]).expect("patterns");
        for (table, is_meant) in [
            ("org_wso2_das", true),
            ("org_x_y", true),
            ("my_org_wso2_das", false),
            ("org_x_y_z", false),
        ] {
            assert_eq!(some.has(table), is_meant, "{table}");
        }
        assert!(names(&[]).expect("none").has("any"));
        let idle = some
            .check(["org_wso2_a"].into_iter())
            .expect_err("one has no table");
        assert!(
            idle.to_string().contains("'org.x.y': there is org_wso2_a"),
            "{idle}"
        );
        assert!(some.that_may_be_idle().check([].into_iter()).is_ok());
        assert!(names(&["(?=x)"]).is_err() && names(&["("]).is_err());
    }
}
