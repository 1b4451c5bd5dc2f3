//! Why a statement has no answer.

use datafusion::arrow::error::ArrowError;
use datafusion::common::{DataFusionError, SchemaError};
use lang::diagnostic::{Diagnostic, Kind, Severity};
use lang::span::Span;
use lang::suggest::nearest;

#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The text is wrong; the diagnostic has the place.
    #[error("{}", .0.message)]
    Statement(Box<Diagnostic>),
    /// It needs more than it may use.
    #[error("{0}")]
    Limit(String),
    /// The text is fine, and the rows are not: a value that cannot be converted, a division by zero.
    #[error("the statement failed: {0}")]
    Values(String),
    /// The store cannot be read, or DataFusion has a defect.
    #[error("{0}")]
    Failed(String),
}

/// An error in the text.
pub(crate) fn wrong(message: impl Into<String>, span: Span, help: Option<String>) -> Error {
    Error::Statement(Box::new(Diagnostic {
        code: "",
        severity: Severity::Error,
        kind: Kind::Syntax,
        message: message.into(),
        span,
        label: "here".to_owned(),
        related: Vec::new(),
        help,
        fix: None,
    }))
}

/// An error of the store on its way through DataFusion.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct OfStore(String);

impl OfStore {
    pub fn new(error: &store::error::Error) -> OfStore {
        let mut words = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(next) = cause {
            words.push_str(": ");
            words.push_str(&next.to_string());
            cause = next.source();
        }
        OfStore(words)
    }

    pub fn carried(error: &store::error::Error) -> DataFusionError {
        DataFusionError::External(Box::new(OfStore::new(error)))
    }
}

impl From<store::error::Error> for Error {
    fn from(error: store::error::Error) -> Error {
        Error::Failed(OfStore::new(&error).0)
    }
}

/// Names that a text could have meant.
#[derive(Clone, Default, Debug)]
pub(crate) struct Known {
    pub tables: Vec<String>,
    pub functions: Vec<String>,
}

/// What DataFusion reports about a text.
pub(crate) fn translated(error: &DataFusionError, sql: &str, known: &Known) -> Error {
    let place = || place(error, sql);
    match error.find_root() {
        DataFusionError::ResourcesExhausted(message) => Error::Limit(exhausted(message)),
        DataFusionError::SQL(cause, _) => {
            let message = cause.to_string();
            if message.contains("recursion limit") {
                return crate::bounds::too_deep(place());
            }
            wrong(words(&message), place(), None)
        }
        DataFusionError::SchemaError(cause, _) => of_schema(cause, place()),
        DataFusionError::Plan(message) | DataFusionError::NotImplemented(message) => {
            of_plan(error, message, place(), known)
        }
        DataFusionError::External(cause) => Error::Failed(cause.to_string()),
        DataFusionError::ArrowError(cause, _) if is_of_spilling(cause) => {
            Error::Limit(exhausted(&cause.to_string()))
        }
        DataFusionError::ArrowError(cause, _) => Error::Values(words(&cause.to_string())),
        DataFusionError::Execution(message) => Error::Values(words(message)),
        other => Error::Failed(first_line(&other.strip_backtrace()).to_owned()),
    }
}

/// The bound of temporary files, which DataFusion reports through the writer of these files.
fn is_of_spilling(error: &ArrowError) -> bool {
    matches!(error, ArrowError::IoError(message, _) if message.contains("during the spilling process"))
}

fn exhausted(message: &str) -> String {
    let message = first_line(message);
    // What follows names an option of DataFusion's.
    let message = message.split(". Please try").next().unwrap_or(message);
    if message.contains("disk") || message.contains("temp") {
        return format!(
            "the statement puts more into temporary files than it may: select fewer rows, or allow more ({message})"
        );
    }
    format!(
        "the statement needs more memory than it may use: select fewer rows or columns, or allow more with a \
         higher memory limit ({message})"
    )
}

fn of_schema(cause: &SchemaError, span: Span) -> Error {
    match cause {
        SchemaError::FieldNotFound {
            field,
            valid_fields,
        } => {
            let names: Vec<&str> = valid_fields.iter().map(|c| c.name.as_str()).collect();
            let help = match nearest(&field.name, names.iter().copied()) {
                Some(name) => Some(format!("did you mean '{name}'?")),
                None if names.is_empty() => None,
                None => Some(format!("there is {}", names.join(", "))),
            };
            wrong(format!("there is no column '{}'", field.name), span, help)
        }
        SchemaError::AmbiguousReference { field } => wrong(
            format!("column '{}' is in more than one table", field.name),
            span,
            Some("write the name of the table before it".to_owned()),
        ),
        cause => wrong(first_line(&cause.to_string()), span, None),
    }
}

fn of_plan(error: &DataFusionError, message: &str, span: Span, known: &Known) -> Error {
    let Some(said) = error.diagnostic() else {
        return wrong(words(message), span, None);
    };
    let quoted = |before: &str, after: &str| {
        let rest = said.message.strip_prefix(before)?;
        rest.strip_suffix(after).map(str::to_owned)
    };
    if let Some(table) = quoted("table '", "' not found") {
        let help = match nearest(&table, known.tables.iter().map(String::as_str)) {
            Some(name) => format!("did you mean '{name}'?"),
            None if known.tables.is_empty() => "the store has no tables".to_owned(),
            None => "'show tables' lists them".to_owned(),
        };
        return wrong(format!("there is no table '{table}'"), span, Some(help));
    }
    if let Some(function) = quoted("Invalid function '", "'") {
        let near = nearest(&function, known.functions.iter().map(String::as_str));
        let help = near.map(|name| format!("did you mean '{name}'?"));
        return wrong(format!("there is no function '{function}'"), span, help);
    }
    let help = said.helps.first().map(|help| words(&help.message));
    wrong(words(&said.message), span, help)
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or(text)
}

/// Without the name of the part of DataFusion that found it, and without the place, which is shown.
fn words(text: &str) -> String {
    let mut text = first_line(text);
    for prefix in ["sql parser error: ", "Error during planning: "] {
        text = text.strip_prefix(prefix).unwrap_or(text);
    }
    let text = text.split(" at Line: ").next().unwrap_or(text);
    let text = text.trim_end_matches('.');
    let mut letters = text.chars();
    let first = letters.next();
    let second = letters.clone().next();
    match (first, second) {
        // Not a name such as `SUM`.
        (Some(first), Some(second)) if second.is_lowercase() => {
            first.to_lowercase().chain(letters).collect()
        }
        _ => text.to_owned(),
    }
}

/// Where the error is: DataFusion names it in a diagnostic, the parser in its words. Else the statement's first
/// word is marked.
fn place(error: &DataFusionError, sql: &str) -> Span {
    if let Some(span) = error.diagnostic().and_then(|said| said.span) {
        let start = offset(sql, span.start.line, span.start.column);
        let end = offset(sql, span.end.line, span.end.column).max(start);
        return span_of(start, end);
    }
    let message = error.to_string();
    let number = |mark: &str| -> Option<u64> {
        let after = message.split(mark).nth(1)?;
        let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    };
    match (number("Line: "), number("Column: ")) {
        (Some(line), Some(column)) if line > 0 => word_at(sql, offset(sql, line, column)),
        // The text has ended where something was still to come.
        _ if message.contains("found: EOF") => {
            let end = sql.trim_end().len();
            span_of(end, end)
        }
        _ => first_word(sql),
    }
}

/// The first word of a statement.
pub(crate) fn first_word(sql: &str) -> Span {
    word_at(sql, sql.len() - sql.trim_start().len())
}

fn word_at(sql: &str, start: usize) -> Span {
    let rest = &sql[start..];
    let end = rest.find(|c: char| c.is_whitespace() || ",;()".contains(c));
    let one = rest.chars().next().map_or(0, char::len_utf8);
    span_of(start, start + end.unwrap_or(rest.len()).max(one))
}

pub(crate) fn span_of(start: usize, end: usize) -> Span {
    Span::new(start as u32, end as u32)
}

/// Byte of a line and column, both from 1.
pub(crate) fn offset(sql: &str, line: u64, column: u64) -> usize {
    let mut begin = 0;
    for (number, text) in (1..).zip(sql.split_inclusive('\n')) {
        if number == line {
            let skipped = text.chars().take(column.saturating_sub(1) as usize);
            return begin + skipped.map(char::len_utf8).sum::<usize>();
        }
        begin += text.len();
    }
    sql.len()
}
