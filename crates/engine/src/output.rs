//! What leaves an app in a step, in the order in which it came about.

use event::Batch;
use plan::store::OperationId;
use plan::{QueryId, StreamId, TableId};

/// A buffer that the caller reuses from step to step. The position of an item is its ordinal: with
/// the number of the step it is an identity that a repeated run gives again.
#[derive(Debug, Default)]
pub struct Outputs {
    pub items: Vec<Output>,
}

impl Outputs {
    pub fn clear(&mut self) {
        self.items.clear();
    }
}

#[derive(Clone, Debug)]
pub enum Output {
    /// Rows of a stream that has sinks, chunk by chunk, all CURRENT.
    Sink { stream: StreamId, batch: Batch },
    /// Rows of an observed stream.
    Tap { stream: StreamId, batch: Batch },
    /// What an observed query hands to its callbacks, one call per chunk. Rows may be EXPIRED; a
    /// chunk without rows is a call with nothing in it.
    Callback { query: QueryId, batch: Batch },
    /// A write to an external table that no query of the app reads. Rows are the parameters of the
    /// operation.
    Write {
        operation: OperationId,
        table: TableId,
        batch: Batch,
    },
    /// One line of `#log`.
    Log { level: LogLevel, text: String },
    /// A chunk on which a query failed; apart, so that the others stay small.
    Rejected(Box<RejectedRows>),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LogLevel {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
    Fatal,
    Off,
}

impl LogLevel {
    /// As written in `#log` and in the option `priority` of the `log` sink, in any case.
    pub fn from_name(name: &str) -> Option<LogLevel> {
        const LEVELS: [(&str, LogLevel); 7] = [
            ("TRACE", LogLevel::Trace),
            ("DEBUG", LogLevel::Debug),
            ("INFO", LogLevel::Info),
            ("WARN", LogLevel::Warn),
            ("ERROR", LogLevel::Error),
            ("FATAL", LogLevel::Fatal),
            ("OFF", LogLevel::Off),
        ];
        LEVELS
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, level)| *level)
    }
}

/// A chunk that a query could not process. The unit of failure is the chunk: nothing of it left
/// the query, and it is reported whole.
#[derive(Clone, Debug)]
pub struct RejectedRows {
    /// The stream the query reads; `None` for a failure in a timer's call.
    pub stream: Option<StreamId>,
    /// `None` for an aggregation.
    pub query: Option<QueryId>,
    /// `query 'q1', select item 'total'`.
    pub place: String,
    /// The message of the first failure.
    pub cause: String,
    /// The rows as they are in the stream; empty for a failure in a timer's call.
    pub rows: Batch,
    /// `@OnError(action='STORE')`: to be kept, not only logged.
    pub is_kept: bool,
}
