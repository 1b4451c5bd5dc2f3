//! Rows that a window keeps, and how they are found there.
//!
//! Below the windows, because the contract of a window ([`crate::component::WindowOperator`]) names what it
//! holds. Never: when a row leaves, which is the window's own.

pub(crate) mod held;
pub(crate) mod index;
pub(crate) mod store;

pub use held::{Attribute, Held};
pub(crate) use index::{KeyColumn, equal, hash};
pub use store::Queue;
pub(crate) use store::RowTypes;
