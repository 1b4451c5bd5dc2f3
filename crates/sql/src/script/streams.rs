//! Rows of a script that become events of the streams of a server.

use event::{Column, Type};

/// The streams of the server that a script runs in.
pub trait Streams: Send + Sync {
    /// The streams that get the rows which a script puts into `stream`, with these attributes.
    ///
    /// # Errors
    /// There is none, or one has other attributes; in words for the author of the script.
    fn open(
        &self,
        stream: &str,
        attributes: &[(&str, Type)],
    ) -> Result<Box<dyn StreamWriter>, String>;
}

/// Where rows go.
pub trait StreamWriter: Send {
    /// Waits until so many rows are taken. Their columns are in the order of the attributes, and have their types.
    ///
    /// # Errors
    /// Some are not known to be taken, and why.
    fn send(&mut self, columns: &[Column], rows: usize) -> Result<(), String>;
}
