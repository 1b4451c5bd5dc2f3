//! Why an app cannot be made, and why a saved state cannot be taken back.

use lang::span::Span;

#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Error {
    /// The app is right, but needs something that is not there.
    #[error("{feature} does not run yet")]
    Unsupported { feature: String, span: Span },
    /// A component refuses its arguments: a fault in the app.
    #[error("{kind} '{name}' rejects its arguments: {reason}")]
    Refused {
        kind: &'static str,
        name: String,
        reason: String,
        span: Span,
    },
    /// There is no component of this name; the catalog of the checker and the engine differ.
    #[error("there is no {kind} '{name}' in the engine")]
    Unknown {
        kind: &'static str,
        name: String,
        span: Span,
    },
}

impl Error {
    pub(crate) fn unsupported(feature: impl Into<String>, span: Span) -> Error {
        Error::Unsupported {
            feature: feature.into(),
            span,
        }
    }

    pub const fn span(&self) -> Span {
        match self {
            Error::Unsupported { span, .. }
            | Error::Refused { span, .. }
            | Error::Unknown { span, .. } => *span,
        }
    }
}

/// A saved state does not fit the app or is torn.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum RestoreError {
    #[error("saved state has format {found}, this version reads {expected}")]
    Version { found: u32, expected: u32 },
    #[error("saved state of {part} cannot be read")]
    Part {
        part: String,
        #[source]
        cause: event::codec::Error,
    },
    #[error(
        "saved state has {part}, which the app does not have; saved state is matched by query \
             names"
    )]
    Extra { part: String },
    #[error("saved state cannot be read")]
    Torn(#[from] event::codec::Error),
}
