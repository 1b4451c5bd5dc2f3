//! The WebSub hub of the gateway (<https://www.w3.org/TR/websub/>): callbacks that get what is published.
//!
//! What is published to a topic with subscriptions is in the log of the topic before its publisher is answered. Each
//! subscription is a cursor into that log: a callback that is away costs a number, and gets what it has missed, in
//! order, when it is back. It is tried again over days with growing pauses; what it refuses for good, or has not taken
//! in that time, becomes a dead letter and the next event is tried.
//!
//! Promises: nothing goes to a callback that has not confirmed, nor to an address of our own networks that the operator
//! has not named; a confirmed subscription is durable; an event is delivered in order to each subscription, and again
//! only where no answer to it was kept, under the same id. A callback that is away or slow holds up nobody else. Never:
//! a redirect followed; a secret in a log, or in the clear in the database.

mod deliver;
mod rules;
mod schedule;
mod store;
mod turns;
mod verify;

pub use deliver::{Hub, Listed, Resent};
pub use rules::Rules;
pub use store::{Attempt, HubError};
pub use verify::{Asking, Told};

#[cfg(test)]
mod tests;
