//! The small languages that apps carry inside strings, as the Java libraries behind Siddhi read them:
//! regular expressions of `java.util.regex` ([`regex`]) and JSON paths of Jayway ([`json_path`]).
//!
//! Functions and mappers use the same readers, so a pattern means the same in a query and in an
//! annotation. Both are bounded: a pattern in its size and its steps, a path in its steps and in the
//! values that it looks at. Nothing here knows of events, schemas or connectors.

pub mod json_path;
pub mod regex;
