//! What connectors of a server share (listeners, open databases, pending requests): each defines
//! its own type and fetches it here by that type, so that no other module has to know it.
//!
//! Promises: one value per type, created on first use. Never: knowledge of a technology.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Values by their type.
#[derive(Default)]
pub struct Shared {
    /// Asked for what is not here.
    parent: Option<Arc<Shared>>,
    values: Mutex<Values>,
}

#[derive(Default)]
struct Values {
    by_type: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
    renewable: HashMap<TypeId, Arc<dyn Renewable>>,
}

/// Something shared that outlives the apps that use it while these are made again (a reload).
pub trait Renewable: Send + Sync + 'static {
    /// These apps end now and come again, with the same deployment: those who send to them without
    /// getting answers stay connected and wait.
    fn keep(&self, apps: &[String]);

    /// The new apps run, or will not.
    fn made_anew(&self, shared: &Shared);
}

impl Shared {
    /// Values of its own beside those of a server: what is inserted here is seen here alone.
    pub fn below(parent: &Arc<Shared>) -> Shared {
        Shared {
            parent: Some(Arc::clone(parent)),
            ..Shared::default()
        }
    }

    fn lock(&self) -> MutexGuard<'_, Values> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of this type. If nobody has inserted one, it is made in the outermost parent.
    pub fn get<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        if let Some(parent) = &self.parent {
            let own = self.lock().by_type.get(&TypeId::of::<T>()).cloned();
            return own.map_or_else(|| parent.get(), typed);
        }
        let mut values = self.lock();
        let value = values.by_type.entry(TypeId::of::<T>());
        typed(Arc::clone(value.or_insert_with(|| Arc::new(T::default()))))
    }

    /// As [`Shared::get`], for a value that is told when apps are made again.
    pub fn get_renewable<T: Renewable + Default>(&self) -> Arc<T> {
        if let Some(parent) = &self.parent {
            return parent.get_renewable();
        }
        let value = self.get::<T>();
        let mut values = self.lock();
        let known = values.renewable.entry(TypeId::of::<T>());
        known.or_insert_with(|| Arc::clone(&value) as Arc<dyn Renewable>);
        value
    }

    /// Takes a ready value; one of the same type that was here is replaced.
    pub fn insert<T: Send + Sync + 'static>(&self, value: Arc<T>) {
        self.lock().by_type.insert(TypeId::of::<T>(), value);
    }

    /// These apps are made again, with the same deployment: until the guard is dropped and the new ones
    /// run, what is [`Renewable`] keeps what belongs to them.
    pub fn renew(self: &Arc<Shared>, apps: &[String]) -> Renewal {
        let renewable: Vec<_> = self.lock().renewable.values().cloned().collect();
        renewable.iter().for_each(|value| value.keep(apps));
        Renewal(Arc::clone(self))
    }
}

fn typed<T: Send + Sync + 'static>(value: Arc<dyn Any + Send + Sync>) -> Arc<T> {
    value
        .downcast()
        .expect("a value is kept under its own type")
}

/// Apps are being made again, see [`Shared::renew`].
pub struct Renewal(Arc<Shared>);

impl Drop for Renewal {
    fn drop(&mut self) {
        let renewable: Vec<_> = self.0.lock().renewable.values().cloned().collect();
        renewable.iter().for_each(|value| value.made_anew(&self.0));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Renewable for Count {
        fn keep(&self, apps: &[String]) {
            self.0.fetch_add(apps.len(), Ordering::Relaxed);
        }

        fn made_anew(&self, _shared: &Shared) {
            self.0.fetch_add(10, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_value_is_made_once_and_seen_by_all() {
        let server = Arc::new(Shared::default());
        let (a, b) = (Shared::below(&server), Shared::below(&server));
        assert!(Arc::ptr_eq(&a.get::<Count>(), &b.get::<Count>()));
        assert!(Arc::ptr_eq(&a.get::<Count>(), &server.get::<Count>()));
    }

    #[test]
    fn what_is_inserted_below_is_seen_there_alone() {
        let server = Arc::new(Shared::default());
        let (a, b) = (Shared::below(&server), Shared::below(&server));
        let own = Arc::new(Count(AtomicUsize::new(7)));
        a.insert(Arc::clone(&own));
        assert!(Arc::ptr_eq(&a.get::<Count>(), &own));
        assert_eq!(b.get::<Count>().0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_is_renewable_is_told_when_apps_are_made_again() {
        let server = Arc::new(Shared::default());
        let count = Shared::below(&server).get_renewable::<Count>();
        let renewal = server.renew(&["A".to_owned(), "B".to_owned()]);
        assert_eq!(count.0.load(Ordering::Relaxed), 2);
        drop(renewal);
        assert_eq!(count.0.load(Ordering::Relaxed), 12);
    }
}
