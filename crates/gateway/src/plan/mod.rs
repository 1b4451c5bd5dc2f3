//! How much an application may use: plans with limits, and the meter that holds to them.
//!
//! A limit counts events, bytes or attempts to connect in a window of the calendar (UTC), or connections at a time. It
//! belongs to a level: a subscription (an application and an API), an API, a topic, a user, an address. What is used
//! counts on all levels or, where one of them has no room, on none; the first without room is named.
//!
//! Promises: on one node a limit is never exceeded by one event, whatever is used at the same time, and neither after
//! a crash: what may be used is noted in the [`Ledger`] before it is. A crash costs at most a block of what was
//! reserved so. Never: a limit shared by several nodes.

mod limit;
mod meter;
mod window;

pub use limit::{Limits, Over, Plan, PlanFault, Rate};
pub use meter::{
    Account, Amount, Denied, Key, Ledger, Level, Meter, Metric, Plans, Reservation, Slot, Tripped,
    Usage, Verdict,
};
pub use window::{Unit, Window};
