//! WebSocket (RFC 6455) with permessage-deflate (RFC 7692), as a codec: bytes in, messages out, and the other way.
//!
//! Promises: the same events however the bytes are split; a fault is found with the first byte that shows it; what is
//! held of a message is bounded by the caller's limit, also while it is inflated, and room is made only for what has
//! come; a message of a server can be encoded once for all who get it. Never: I/O, a clock, a wait.

mod close;
mod decode;
mod deflate;
mod encode;
mod frame;
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing;
mod handshake;
mod mask;
mod utf8;

pub use close::{Close, Code};
pub use decode::{Decoder, Event};
pub use deflate::{Agreed, answer_to, confirmed, offer};
pub use encode::{Encoder, Shared};
pub use frame::{Kind, Role};
pub use handshake::{accept_key, is_key, new_key};

/// What is wrong with what the other side sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    #[error("{0}")]
    Protocol(&'static str),
    /// Of a message, or the reason of a close.
    #[error("a text is not UTF-8")]
    Text,
    #[error("a message cannot be inflated")]
    Deflate,
    #[error("a message has {max} bytes at most")]
    TooLong { max: usize },
}

impl Fault {
    /// How the connection is to be closed (RFC 6455, 7.4.1).
    pub fn code(self) -> Code {
        match self {
            Fault::Protocol(_) => Code::PROTOCOL,
            Fault::Text | Fault::Deflate => Code::INVALID,
            Fault::TooLong { .. } => Code::TOO_LONG,
        }
    }
}
