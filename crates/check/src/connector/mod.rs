//! What the checker does for single technologies, where an app says more than its text: what could
//! become data of a spec does not belong here.

mod hub;
mod producers;

pub(crate) use hub::with_subscriptions;
pub use producers::Producer;
