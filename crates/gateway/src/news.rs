//! What the gateway knows, as events for the apps that listen.
//!
//! Promises: where no app listens, an event is not even made; where one listens, nobody waits for it: what finds no room
//! in the queue of its source is dropped and counted. Never: a token, key, secret or payload in an event.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use connect::net::gateway::{News, TopicIngress};
use connect::net::{Delivery, Ingress};
use connect::retry::Burst;
use event::Value;
use serde_json::{Value as Json, json};

use crate::plan::Denied;

/// Who listens to what.
#[derive(Default)]
pub(crate) struct Newsroom {
    desks: [Desk; News::ALL.len()],
    last: AtomicU64,
    /// Events that found no room.
    dropped: Burst,
}

#[derive(Default)]
struct Desk {
    /// As many as `all` has.
    count: AtomicUsize,
    all: Mutex<Vec<Listener>>,
}

struct Listener {
    number: u64,
    ingress: Arc<Ingress>,
    /// Transport properties that its source asks for; none of them is known.
    names: usize,
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, Vec<Listener>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Milliseconds since 1970.
pub(crate) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl Newsroom {
    /// Does an app listen?
    pub fn is_heard(&self, news: News) -> bool {
        self.desks[news as usize].count.load(Ordering::Relaxed) > 0
    }

    /// Tells those who listen, if any do; `make` gives the event but for its time.
    pub fn tell(&self, news: News, make: impl FnOnce() -> Json) {
        if !self.is_heard(news) {
            return;
        }
        let mut event = make();
        event["time"] = millis(SystemTime::now()).into();
        let text = event.to_string();
        for listener in self.desks[news as usize].lock().iter() {
            let properties = vec![Value::Null; listener.names];
            let delivery = Delivery::text(text.clone(), properties);
            if listener.ingress.try_push(delivery).is_err() {
                self.note_dropped(news);
            }
        }
    }

    fn note_dropped(&self, news: News) {
        if let Some(times) = self.dropped.note() {
            let stream = news.stream();
            tracing::warn!(
                stream,
                times,
                "events of the gateway dropped: the app that listens is busy or away"
            );
        }
    }

    /// Events that found no room.
    pub fn dropped(&self) -> u64 {
        self.dropped.all()
    }

    pub fn listen(
        self: &Arc<Newsroom>,
        news: News,
        ingress: &Arc<Ingress>,
        names: usize,
    ) -> Listening {
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        let desk = &self.desks[news as usize];
        desk.lock().push(Listener {
            number,
            ingress: Arc::clone(ingress),
            names,
        });
        desk.count.fetch_add(1, Ordering::Relaxed);
        Listening {
            room: Arc::clone(self),
            news,
            number,
        }
    }
}

/// A source that listens, until dropped.
pub(crate) struct Listening {
    room: Arc<Newsroom>,
    news: News,
    number: u64,
}

impl TopicIngress for Listening {
    fn path(&self) -> String {
        self.news.stream().to_owned()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let desk = &self.room.desks[self.news as usize];
        desk.lock().retain(|one| one.number != self.number);
        desk.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whom a plan had no room for.
pub(crate) struct Throttled<'a> {
    pub api: &'a str,
    pub topic: &'a str,
    pub application: Option<&'a str>,
    pub user: Option<&'a str>,
    /// Address of a client, or a callback.
    pub peer: &'a str,
}

impl Newsroom {
    pub fn throttled(&self, whom: &Throttled<'_>, denied: &Denied) {
        self.tell(News::Throttled, || {
            json!({
                "api": whom.api, "topic": whom.topic, "application": whom.application, "user": whom.user,
                "peer": whom.peer, "quota": denied.limit.to_string(), "reset": millis(denied.reset),
            })
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_made_for_nobody_and_what_finds_no_room_is_counted() {
        let room = Arc::<Newsroom>::default();
        room.tell(News::Presence, || panic!("nobody listens"));
        let ingress = Arc::<Ingress>::default();
        let listening = room.listen(News::Presence, &ingress, 0);
        room.tell(News::Connections, || panic!("nobody listens"));
        // It is closed as long as its app does not run.
        room.tell(News::Presence, || json!({}));
        assert_eq!((room.dropped(), ingress.count()), (1, 0));
        ingress.open();
        room.tell(News::Presence, || json!({ "api": "a" }));
        assert_eq!((room.dropped(), ingress.count()), (1, 1));
        for _ in 0..10_000 {
            room.tell(News::Presence, || json!({}));
        }
        let all = room.dropped() + ingress.count();
        assert!(
            all == 10_002 && ingress.count() < 10_000,
            "{}",
            ingress.count()
        );
        drop(listening);
        assert!(!room.is_heard(News::Presence));
        room.tell(News::Presence, || panic!("nobody listens"));
    }

    #[test]
    fn streams_are_known_by_their_names() {
        for news in News::ALL {
            assert_eq!(News::of_stream(news.stream()), Some(news));
            assert_eq!(news.attributes()[0].0, "time");
        }
        assert_eq!(News::of_stream("gw_other"), None);
    }
}
