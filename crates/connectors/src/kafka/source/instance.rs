//! By which name a member of a group is known again (`group.instance.id`).
//!
//! A broker waits for a member that was killed for as long as its session lasts, unless one of the same
//! name comes back: that one gets its partitions at once. The name is made of the identity of the state
//! directory, so that it lasts as long as the positions do, and of what tells one source from another.
//! Who comes second under a name fences the first.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use connect::component::SourceSetup;

/// The names that sources of this process have taken.
#[derive(Default)]
pub(super) struct Taken(Mutex<HashSet<String>>);

/// What the name of a source begins with.
#[derive(Clone)]
pub(super) struct InstanceName {
    stem: String,
    taken: Arc<Taken>,
}

/// A name that is this source's alone while it runs.
pub(super) struct Lease {
    name: String,
    taken: Arc<Taken>,
}

impl InstanceName {
    /// `None` without state: a name that does not last would only keep others waiting.
    pub fn new(setup: &SourceSetup<'_>) -> Option<InstanceName> {
        let environment = setup.environment;
        let state_id = environment.state_id.as_deref()?;
        let id = state_id.split('/').next().unwrap_or_default();
        let option = |name: &str| setup.transport.option(name).unwrap_or_default();
        let parts = [
            state_id,
            &environment.app,
            &setup.schema.name,
            option("group.id"),
            option("topic.list"),
        ];
        Some(InstanceName {
            stem: format!("headwater-{id}-{:016x}", mixed(&parts)),
            taken: environment.shared.get::<Taken>(),
        })
    }

    /// The name for a run: two sources that differ in nothing get different ones.
    pub fn lease(&self) -> Lease {
        let mut taken = self.taken.lock();
        let mut numbers = (0usize..).map(|number| format!("{}-{number}", self.stem));
        let name = numbers.find(|name| !taken.contains(name));
        let name = name.unwrap_or_default();
        taken.insert(name.clone());
        drop(taken);
        Lease {
            name,
            taken: Arc::clone(&self.taken),
        }
    }
}

impl Taken {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease {
    /// The name of one of the source's consumers.
    pub fn of_member(&self, number: usize) -> String {
        format!("{}-{number}", self.name)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.taken.lock().remove(&self.name);
    }
}

/// FNV-1a, which is the same in every version: a name must outlast an update.
fn mixed(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use connect::component::Environment;
    use connect::net::testing::{schema, transport};

    fn name(environment: &Environment, topic: &str) -> Option<InstanceName> {
        let transport = transport("kafka", &[("group.id", "g"), ("topic.list", topic)]);
        InstanceName::new(&SourceSetup {
            transport: &transport,
            schema: &schema(),
            environment,
        })
    }

    #[test]
    fn a_name_lasts_as_long_as_the_state_and_is_of_one_source() {
        let mut environment = Environment::new("A");
        assert!(name(&environment, "t").is_none());
        environment.state_id = Some("0123456789abcdef/A".into());
        let lease = |topic| name(&environment, topic).unwrap().lease();
        let first = lease("t");
        let (name, twin) = (first.of_member(0), lease("t").of_member(0));
        assert!(name.starts_with("headwater-0123456789abcdef-"), "{name}");
        assert_ne!(name, twin);
        assert_ne!(name, first.of_member(1));
        assert_ne!(name, lease("u").of_member(0));
        drop(first);
        assert_eq!(
            lease("t").of_member(0),
            name,
            "the next run is the same member"
        );
        // All that a broker allows.
        let is_good = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        assert!(name.len() < 250 && name.chars().all(is_good), "{name}");
    }
}
