//! The streams that are open: who hears or speaks what, over what, since when.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use connect::net::gateway::Protocol;

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
#[derive(Default, Debug)]
pub struct Connections(Mutex<Open>);

#[derive(Default, Debug)]
struct Open {
    /// In boxes: the map has twice the room that it needs.
    all: HashMap<u64, Box<Connection>>,
    last: u64,
}

impl Connections {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes one, whose id is given here, until the answer is dropped.
    pub(crate) fn enter(self: &Arc<Connections>, mut connection: Connection) -> Entered {
        let mut open = self.lock();
        open.last += 1;
        let id = open.last;
        connection.id = id;
        open.all.insert(id, Box::new(connection));
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
#[derive(Debug)]
pub(crate) struct Entered {
    all: Arc<Connections>,
    id: u64,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.all.lock().all.remove(&self.id);
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
