//! The streams that are open: who hears or speaks what, over what, since when.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use connect::net::gateway::{News, Protocol};
use serde_json::json;

use crate::news::{Newsroom, Throttled};
use crate::plan::Denied;

/// A stream of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Connection {
    /// Counts up from the start of the server.
    pub id: u64,
    /// Name and version of the API.
    pub api: String,
    /// The path below the API, with the values of its parameters.
    pub topic: String,
    pub protocol: Protocol,
    pub peer: SocketAddr,
    /// Who it is, where the client had to show that.
    pub application: Option<String>,
    pub user: Option<String>,
    pub since: SystemTime,
}

/// Those of a server.
#[derive(Default)]
pub struct Connections {
    open: Mutex<Open>,
    room: Arc<Newsroom>,
}

#[derive(Default)]
struct Open {
    /// In boxes: the map has twice the room that it needs.
    all: HashMap<u64, Box<Connection>>,
    last: u64,
    /// Who is where, kept only while an app listens.
    presence: Option<Presence>,
}

/// By API and topic: who is there, and how often.
type Presence = HashMap<(String, String), HashMap<Member, usize>>;

/// Somebody who is known by a name is one, over however many connections; who is not is one by each of them.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Member {
    Known(Option<String>, Option<String>),
    Unknown(u64),
}

impl Connection {
    fn member(&self) -> Member {
        match (&self.application, &self.user) {
            (None, None) => Member::Unknown(self.id),
            (application, user) => Member::Known(application.clone(), user.clone()),
        }
    }

    fn place(&self) -> (String, String) {
        (self.api.clone(), self.topic.clone())
    }
}

impl Open {
    /// Who is where, of all connections that are open.
    fn presence(&mut self) -> &mut Presence {
        let all = &self.all;
        self.presence.get_or_insert_with(|| {
            let mut presence = Presence::new();
            for connection in all.values() {
                let members = presence.entry(connection.place()).or_default();
                *members.entry(connection.member()).or_default() += 1;
            }
            presence
        })
    }

    /// Notes that a connection begins; how many are at its topic then, where somebody has come.
    fn joins(&mut self, connection: &Connection) -> Option<usize> {
        let members = self.presence().entry(connection.place()).or_default();
        let times = members.entry(connection.member()).or_default();
        *times += 1;
        (*times == 1).then_some(members.len())
    }

    /// Notes that a connection ends; how many are at its topic then, where somebody has gone.
    fn leaves(&mut self, connection: &Connection) -> Option<usize> {
        let (place, member) = (connection.place(), connection.member());
        let presence = self.presence();
        let members = presence.get_mut(&place)?;
        let times = members.get_mut(&member)?;
        *times -= 1;
        if *times > 0 {
            return None;
        }
        members.remove(&member);
        let left = members.len();
        if left == 0 {
            presence.remove(&place);
        }
        Some(left)
    }
}

impl Connections {
    pub(crate) fn new(room: &Arc<Newsroom>) -> Connections {
        Connections {
            open: Mutex::default(),
            room: Arc::clone(room),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells apps that one has opened, or closed after so many milliseconds.
    fn tell(&self, connection: &Connection, lasted: Option<u64>) {
        self.room.tell(News::Connections, || {
            json!({
                "change": if lasted.is_some() { "closed" } else { "opened" },
                "connection": connection.id, "api": connection.api, "topic": connection.topic,
                "protocol": connection.protocol.name(), "peer": connection.peer.to_string(),
                "application": connection.application, "user": connection.user, "lasted": lasted,
            })
        });
    }

    fn tell_presence(&self, connection: &Connection, change: &str, present: usize) {
        self.room.tell(News::Presence, || {
            json!({
                "change": change, "api": connection.api, "topic": connection.topic,
                "application": connection.application, "user": connection.user, "present": present,
            })
        });
    }

    /// Notes one, whose id is given here, until the answer is dropped.
    pub(crate) fn enter(self: &Arc<Connections>, mut connection: Connection) -> Entered {
        let mut open = self.lock();
        open.last += 1;
        let id = open.last;
        connection.id = id;
        let joined = match self.room.is_heard(News::Presence) {
            true => open.joins(&connection),
            false => {
                open.presence = None;
                None
            }
        };
        // Within the lock, so that apps hear of changes in their order; nobody waits for an app.
        self.tell(&connection, None);
        if let Some(present) = joined {
            self.tell_presence(&connection, "joined", present);
        }
        open.all.insert(id, Box::new(connection));
        drop(open);
        Entered {
            all: Arc::clone(self),
            id,
        }
    }

    /// How many there are, and so many of them, the oldest first.
    pub fn list(&self, limit: usize) -> (usize, Vec<Connection>) {
        let open = self.lock();
        let mut ids: Vec<u64> = open.all.keys().copied().collect();
        if limit < ids.len() && limit > 0 {
            ids.select_nth_unstable(limit - 1);
        }
        ids.truncate(limit);
        ids.sort_unstable();
        let listed = ids
            .iter()
            .filter_map(|id| Some(Connection::clone(open.all.get(id)?)));
        (open.all.len(), listed.collect())
    }
}

/// A connection that is open.
pub(crate) struct Entered {
    all: Arc<Connections>,
    id: u64,
}

impl Entered {
    /// Its plan has no room.
    pub fn throttled(&self, denied: &Denied) {
        if !self.all.room.is_heard(News::Throttled) {
            return;
        }
        let connection = self.all.lock().all.get(&self.id).cloned();
        let Some(connection) = connection else { return };
        let whom = Throttled {
            api: &connection.api,
            topic: &connection.topic,
            application: connection.application.as_deref(),
            user: connection.user.as_deref(),
            peer: &connection.peer.ip().to_string(),
        };
        self.all.room.throttled(&whom, denied);
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let all = &self.all;
        let mut open = all.lock();
        let left = match all.room.is_heard(News::Presence) {
            true => open
                .all
                .get(&self.id)
                .cloned()
                .and_then(|connection| open.leaves(&connection)),
            false => {
                open.presence = None;
                None
            }
        };
        let Some(connection) = open.all.remove(&self.id) else {
            return;
        };
        if all.room.is_heard(News::Connections) {
            let lasted = connection.since.elapsed().unwrap_or_default();
            let lasted = u64::try_from(lasted.as_millis()).unwrap_or(u64::MAX);
            all.tell(&connection, Some(lasted));
        }
        if let Some(present) = left {
            all.tell_presence(&connection, "left", present);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(topic: &str) -> Connection {
        Connection {
            id: 0,
            api: "a/1".to_owned(),
            topic: topic.to_owned(),
            protocol: Protocol::Sse,
            peer: ([127, 0, 0, 1], 1).into(),
            application: None,
            user: None,
            since: SystemTime::UNIX_EPOCH,
        }
    }

    #[test]
    fn somebody_is_present_from_the_first_connection_to_the_last() {
        let mut open = Open::default();
        let of = |id: u64, user: Option<&str>| Connection {
            id,
            user: user.map(str::to_owned),
            ..connection("/a")
        };
        let before = of(1, Some("u"));
        open.all.insert(1, Box::new(before.clone()));
        // Who was there before an app listened is present as well.
        assert_eq!(open.joins(&of(2, Some("u"))), None);
        assert_eq!(open.joins(&of(3, Some("v"))), Some(2));
        assert_eq!(open.joins(&of(4, None)), Some(3));
        assert_eq!(open.joins(&of(5, None)), Some(4));
        assert_eq!(open.leaves(&of(2, Some("u"))), None);
        assert_eq!(open.leaves(&before), Some(3));
        assert_eq!(open.leaves(&of(4, None)), Some(2));
        assert_eq!(open.leaves(&of(4, None)), None);
        assert_eq!(open.leaves(&of(5, None)), Some(1));
        assert_eq!(open.leaves(&of(3, Some("v"))), Some(0));
        assert!(open.presence().is_empty());
    }

    #[test]
    fn those_that_are_open_are_listed_and_no_others() {
        let all = Arc::<Connections>::default();
        let mut open: Vec<Entered> = ["/a", "/b", "/c", "/d"]
            .map(|topic| all.enter(connection(topic)))
            .into();
        drop(open.remove(1));
        let (count, listed) = all.list(2);
        let topics: Vec<&str> = listed.iter().map(|one| one.topic.as_str()).collect();
        assert_eq!((count, topics), (3, vec!["/a", "/c"]));
        assert_eq!(all.list(0), (3, Vec::new()));
        drop(open);
        assert_eq!(all.list(10), (0, Vec::new()));
    }
}
