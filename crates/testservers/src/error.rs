//! Why there is no server.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something that is not ours to install; whoever wanted the server is skipped.
    #[error("{what}; {remedy}")]
    Missing { what: String, remedy: String },
    #[error("there is no server '{name}'; there are: {all}")]
    Unknown { name: String, all: String },
    #[error("{action}: {cause}")]
    Failed { action: String, cause: String },
    /// It ended, or was not ready in time.
    #[error("{cause}; its log is {}\n{tail}", log.display())]
    NotReady {
        cause: String,
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
}

impl Error {
    pub fn missing(what: impl Into<String>, remedy: impl Into<String>) -> Error {
        Error::Missing {
            what: what.into(),
            remedy: remedy.into(),
        }
    }

    pub fn failed(action: impl Into<String>, cause: impl ToString) -> Error {
        Error::Failed {
            action: action.into(),
            cause: cause.to_string(),
        }
    }

    pub(crate) fn unknown(name: &str) -> Error {
        let names: Vec<&str> = crate::SERVERS.iter().map(|r| r.name()).collect();
        Error::Unknown {
            name: name.to_owned(),
            all: names.join(", "),
        }
    }
}
