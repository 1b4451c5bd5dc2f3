//! What can go wrong while apps are deployed and run.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A fault that keeps a server from starting, or stops it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// How the command was used is at fault: exit code 2.
    #[error("{0}")]
    Usage(String),
    /// An app is at fault: exit code 1. The diagnostics have been handed to the caller.
    #[error("{0}")]
    Refused(String),
    /// Something outside could not be reached: exit code 3.
    #[error("cannot connect {what}: {message}")]
    Connect { what: String, message: String },
    /// The address of `--http` is taken or not of this machine: exit code 3.
    #[error("cannot listen on {address}: {message}")]
    Listen {
        address: SocketAddr,
        message: String,
    },
    #[error("configuration file '{path}': {message}")]
    Config { path: String, message: String },
    #[error("cannot {action} '{}'", path.display())]
    File {
        action: &'static str,
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("state directory '{}': {message}", path.display())]
    State { path: PathBuf, message: String },
    /// Parts of new apps do not start, each with the cause; nothing has changed.
    #[error("{}", said(.0))]
    NotStarted(Vec<(String, String)>),
    /// The run cannot go on.
    #[error("stopped: {message}")]
    Stopped { message: String },
}

fn said(parts: &[(String, String)]) -> String {
    let parts = parts.iter().map(|(part, cause)| format!("{part}: {cause}"));
    parts.collect::<Vec<String>>().join("; ")
}

impl Error {
    /// For `map_err` on file operations.
    pub(crate) fn file(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |cause| Error::File {
            action,
            path,
            cause,
        }
    }

    /// The exit code of the command that met it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Usage(_) => 2,
            Error::Connect { .. } | Error::Listen { .. } => 3,
            _ => 1,
        }
    }
}
