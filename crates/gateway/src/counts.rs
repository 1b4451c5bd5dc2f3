//! What the gateway counts, for `/metrics`.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows, or that goes up and down.
#[derive(Default, Debug)]
pub struct Count(AtomicU64);

impl Count {
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub fn sub(&self, less: u64) {
        self.0.fetch_sub(less, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Of all APIs together.
#[derive(Default, Debug)]
pub struct Counts {
    /// Connections that are open, by what they are.
    pub connections: Count,
    pub sse: Count,
    pub websockets: Count,
    /// Events taken in: of streams, backends and publishers.
    pub published: Count,
    /// Events given out.
    pub delivered: Count,
    /// Gaps that readers were told of.
    pub gaps: Count,
    /// Readers that were disconnected because they were too slow.
    pub slow: Count,
    /// Events of webhooks that were taken before.
    pub repeated: Count,
    /// Payloads that fit no message of their topic and were kept as rejected events.
    pub dead_letters: Count,
    /// Requests that were refused, by cause.
    pub refused: Refused,
}

#[derive(Default, Debug)]
pub struct Refused {
    /// There is no such topic.
    pub unknown: Count,
    /// The topic cannot be used so.
    pub method: Count,
    /// A token or key is missing, wrong or not enough.
    pub access: Count,
    /// The plan has no room.
    pub throttled: Count,
    /// A page of another origin.
    pub origin: Count,
    /// A payload that is too long, too late, or that nothing can be made of.
    pub payload: Count,
    /// A payload that fits no message of its topic.
    pub schema: Count,
    /// What is behind the topic takes nothing now.
    pub busy: Count,
    /// The backend cannot be reached.
    pub backend: Count,
}

impl Refused {
    /// All of them, with the names of their causes.
    pub fn all(&self) -> [(&'static str, u64); 9] {
        [
            ("unknown", self.unknown.get()),
            ("method", self.method.get()),
            ("access", self.access.get()),
            ("throttled", self.throttled.get()),
            ("origin", self.origin.get()),
            ("payload", self.payload.get()),
            ("schema", self.schema.get()),
            ("busy", self.busy.get()),
            ("backend", self.backend.get()),
        ]
    }
}
