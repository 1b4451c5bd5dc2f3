//! What can go wrong between the outside and an app.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

/// A cause of any kind, kept for whoever prints the chain.
pub type Cause = Box<dyn StdError + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A fault in the app, found when the component is made.
    #[error("{component}: {message}")]
    Refused { component: String, message: String },
    /// The other side cannot be reached now; the caller waits and tries again.
    #[error("cannot reach {peer}")]
    Unavailable {
        peer: String,
        #[source]
        cause: Cause,
    },
    /// The other side was reached and refuses the login. The caller tries again, and seldom: some lock an
    /// account after a number of tries.
    #[error("cannot log in to {peer}")]
    Denied {
        peer: String,
        #[source]
        cause: Cause,
    },
    /// An address of this machine cannot be listened on now, mostly because another process has it; the
    /// caller waits and tries again.
    #[error("cannot listen on {address}")]
    Listen {
        address: String,
        #[source]
        cause: Cause,
    },
    /// The other side was reached and said no, or the work cannot be done however often it is tried.
    #[error("{action} failed")]
    Failed {
        action: String,
        #[source]
        cause: Cause,
    },
    /// The app stops; the caller cleans up and returns.
    #[error("stopped")]
    Stopped,
}

impl Error {
    /// `component` names kind and name: `source 'file'`.
    pub fn refused(component: impl Into<String>, message: impl Into<String>) -> Error {
        Error::Refused {
            component: component.into(),
            message: message.into(),
        }
    }

    pub fn unavailable(peer: impl Into<String>, cause: impl Into<Cause>) -> Error {
        Error::Unavailable {
            peer: peer.into(),
            cause: cause.into(),
        }
    }

    pub fn denied(peer: impl Into<String>, cause: impl Into<Cause>) -> Error {
        Error::Denied {
            peer: peer.into(),
            cause: cause.into(),
        }
    }

    /// `address`: host and port.
    pub fn listen(address: impl Into<String>, cause: impl Into<Cause>) -> Error {
        Error::Listen {
            address: address.into(),
            cause: cause.into(),
        }
    }

    pub fn failed(action: impl Into<String>, cause: impl Into<Cause>) -> Error {
        Error::Failed {
            action: action.into(),
            cause: cause.into(),
        }
    }

    /// Is it worth trying again later?
    pub fn is_unavailable(&self) -> bool {
        matches!(
            self,
            Error::Unavailable { .. } | Error::Denied { .. } | Error::Listen { .. }
        )
    }
}

/// Why a server did not open a connection, where the caller knows what it is called.
#[derive(Debug)]
pub enum OpenError {
    Unavailable(String),
    /// It was reached and refuses the login.
    Denied(String),
}

impl OpenError {
    pub fn of(self, peer: &str) -> Error {
        match self {
            OpenError::Unavailable(cause) => Error::unavailable(peer, cause),
            OpenError::Denied(cause) => Error::denied(peer, cause),
        }
    }
}

impl From<String> for OpenError {
    fn from(cause: String) -> OpenError {
        OpenError::Unavailable(cause)
    }
}

/// What is said of a server that takes longer to answer than it is waited for.
pub fn unanswered(limit: Duration) -> io::Error {
    let waited = match limit.subsec_millis() {
        0 => format!("no answer within {} s", limit.as_secs()),
        _ => format!("no answer within {} ms", limit.as_millis()),
    };
    io::Error::new(io::ErrorKind::TimedOut, waited)
}

/// An error with all its causes, for a message.
pub fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}
