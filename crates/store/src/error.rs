//! What can go wrong with a store.

use std::io;
use std::path::{Path, PathBuf};

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {action} '{}'", path.display())]
    File {
        action: &'static str,
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    /// Bytes have changed since they were written, or are gone.
    #[error("'{}' is damaged: {message}", path.display())]
    Damaged { path: PathBuf, message: String },
    /// It is whole, but not for this build or not for this store.
    #[error("'{}': {message}", path.display())]
    Foreign { path: PathBuf, message: String },
    /// What was asked for cannot be done, however often it is tried.
    #[error("{0}")]
    Refused(String),
    /// Another writer has committed to the table since it was read.
    #[error("table '{0}' was changed by another writer")]
    Conflict(String),
}

impl Error {
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |cause| Error::File {
            action,
            path,
            cause,
        }
    }

    pub(crate) fn damaged(path: &Path, message: impl Into<String>) -> Error {
        Error::Damaged {
            path: path.to_owned(),
            message: message.into(),
        }
    }

    pub(crate) fn foreign(path: &Path, message: impl Into<String>) -> Error {
        Error::Foreign {
            path: path.to_owned(),
            message: message.into(),
        }
    }

    /// May it work when it is tried again: the disk has room, files can be opened?
    pub fn is_passing(&self) -> bool {
        match self {
            Error::File { cause, .. } => cause.kind() != io::ErrorKind::NotFound,
            Error::Conflict(_) => true,
            Error::Damaged { .. } | Error::Foreign { .. } | Error::Refused(_) => false,
        }
    }

    /// As a caller of a component sees it.
    pub fn into_connect(self, action: &str) -> connect::Error {
        if self.is_passing() {
            connect::Error::unavailable("the event store", self)
        } else {
            connect::Error::failed(action, self)
        }
    }
}
