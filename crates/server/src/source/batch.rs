//! What a source hands over: rows, the position after them, and what its mapper rejected.

use connect::arrivals::Account;
use connect::component::Sequence;
use connect::rows::Rejected;
use event::Batch;

use crate::otlp::Span;

/// What a source hands over at once.
pub(crate) struct SourceBatch {
    /// Number of the source within its executor.
    pub source: usize,
    pub sequence: Sequence,
    pub batch: Option<Batch>,
    pub position: Position,
    pub rejected: Vec<PlacedRejected>,
    /// The bytes of its messages in the budget of the server.
    pub held: Option<Account>,
    /// It is followed on its way.
    pub span: Option<Span>,
}

/// Where a source goes on after a restart.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Position {
    pub source: Vec<u8>,
    /// What the mapper holds between messages.
    pub mapper: Vec<u8>,
}

pub(crate) struct PlacedRejected {
    /// File or topic, as far as known.
    pub input: String,
    /// Transport properties of the message, as the log of rejected events has them.
    pub properties: Vec<u8>,
    pub rejected: Rejected,
}
