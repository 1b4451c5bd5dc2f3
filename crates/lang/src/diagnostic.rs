//! What is wrong with an app, in the words of the person who wrote it.

use crate::span::Span;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Severity {
    Error,
    Warning,
}

impl Severity {
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// The `kind` of `check --json`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    Syntax,
    Name,
    Type,
    Option,
    Unsupported,
    /// Not as in Siddhi 5.1, by a ruling.
    Compatibility,
}

impl Kind {
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Syntax => "syntax",
            Kind::Name => "name",
            Kind::Type => "type",
            Kind::Option => "option",
            Kind::Unsupported => "unsupported",
            Kind::Compatibility => "compatibility",
        }
    }
}

/// One finding. `code` is a key of `check::codes::CODES`, where `headwater explain` finds its page.
#[derive(Clone, PartialEq, Debug)]
pub struct Diagnostic {
    /// `E0312`, `W0101`.
    pub code: &'static str,
    pub severity: Severity,
    pub kind: Kind,
    /// Lower case, no full stop, names the kind of object and quotes the name.
    pub message: String,
    pub span: Span,
    /// Short text beside the marks under the span.
    pub label: String,
    /// Other places that explain the fault: "first defined here".
    pub related: Vec<(Span, String)>,
    /// What to do next.
    pub help: Option<String>,
    /// Text to put in place of a span so that the fault is gone.
    pub fix: Option<Fix>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fix {
    pub span: Span,
    pub replacement: String,
}

/// A finding is put together step by step.
impl Diagnostic {
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Diagnostic {
        self.help = Some(text.into());
        self
    }

    #[must_use]
    pub fn related(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.related.push((span, text.into()));
        self
    }

    #[must_use]
    pub fn fix(mut self, span: Span, replacement: impl Into<String>) -> Diagnostic {
        self.fix = Some(Fix {
            span,
            replacement: replacement.into(),
        });
        self
    }

    /// "did you mean" as help and as fix, where something is near.
    #[must_use]
    pub fn did_you_mean(self, span: Span, nearest: Option<&str>) -> Diagnostic {
        match nearest {
            Some(name) => self.help(format!("did you mean '{name}'?")).fix(span, name),
            None => self,
        }
    }
}
