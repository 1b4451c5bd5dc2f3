//! The conformance kit: what every connector between two processes must do, whatever its technology.
//!
//! A technology describes itself once, beside its own tests ([`Subject`]); here it is a line that
//! names its cases, each of which is a test: `kit::mqtt::restart`. Stores have cases of their own, in
//! [`stores`]. A hook that a technology has makes its case due, and one that it lacks is no case: the
//! reason is beside the description, where `cargo xtask connectors` reads it.

mod cases;
pub mod stores;
mod subject;

pub use subject::{Login, Order, Restart, Silent, Slow, Subject, Tls};

macro_rules! conformance {
    ($($name:ident at $description:path: $($case:ident)*;)*) => {
        $(mod $name {
            $(#[test] fn $case() {
                if super::is_due(stringify!($name), stringify!($case)) {
                    super::cases::$case(&$description);
                }
            })*
        })*
        const LISTED: &[(&Subject, &[&str])] =
            &[$((&$description, &[$(stringify!($case)),*])),*];
    };
}

/// Cases that wait for what does not come: some 25 s each, whatever the technology.
const LONG: &[&str] = &["full", "long", "silent", "slow"];

/// Is the case run, or left to another commit's sample?
pub fn is_due(technology: &str, case: &str) -> bool {
    !LONG.contains(&case) || testservers::sample::is_due(&format!("kit::{technology}::{case}"))
}

conformance! {
    grpc at crate::grpc::KIT: away bad full reload slow;
    http at crate::http::KIT: away bad full reload slow;
    kafka at crate::kafka::KIT: away bad full reload silent slow;
    mqtt at crate::mqtt::KIT: away bad full killed login long order reload restart silent slow tls;
    nats at crate::nats::KIT: away bad full killed login long order reload restart silent slow tls;
    rabbitmq at crate::rabbitmq::KIT: away bad full killed login order reload restart silent slow tls;
    sqs at crate::sqs::KIT: away bad reload silent slow tls;
    tcp at crate::tcp::KIT: away bad full reload slow;
    websocket at crate::websocket::KIT: away bad full long reload slow;
    wso2event at crate::wso2event::KIT: away full reload slow;
}

#[test]
fn each_technology_is_asked_for_every_case_that_it_has_a_hook_for() {
    for (technology, listed) in LISTED {
        assert_eq!(technology.cases(), *listed, "{}", technology.name);
    }
}
