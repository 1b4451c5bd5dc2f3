//! What a hub keeps in the gateway's database: subscriptions, the logs of topics, what became of deliveries.

use connect::net::websub::Digest;
use rusqlite::{OptionalExtension as _, Row, params};

use crate::registry::{Registry, RegistryError};

/// Attempts that are kept, for who looks at them.
const ATTEMPTS_MAX: i64 = 100_000;

/// Events of one topic.
const EVENTS_MAX: i64 = 100_000;

#[derive(Debug, thiserror::Error)]
pub enum HubError {
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error("the database of the gateway failed")]
    Database(#[from] rusqlite::Error),
    /// There is no such thing; in words.
    #[error("{0}")]
    Missing(String),
}

/// An API and the address of a topic in it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Place {
    pub api: String,
    pub topic: String,
}

/// A subscription as it is kept. Times are milliseconds since 1970.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Saved {
    pub id: String,
    pub place: Place,
    /// The topic as the subscriber named it.
    pub named: String,
    pub callback: String,
    /// Empty: none.
    pub secret: Vec<u8>,
    pub digest: Digest,
    pub application: Option<String>,
    /// The address of the hub, as the subscriber knows it.
    pub hub: String,
    pub ends: i64,
    /// The number of the event that it gets next.
    pub next: u64,
}

/// An event of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Event {
    pub number: u64,
    /// The same for every attempt and subscription.
    pub id: String,
    pub kind: String,
    pub body: bytes::Bytes,
}

/// One attempt to deliver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attempt {
    /// 0 before it is kept.
    pub id: i64,
    pub subscription: String,
    pub number: u64,
    pub at: i64,
    /// From 1.
    pub attempt: u32,
    /// `delivered`, `away`, `refused`, `gone`, `dead`.
    pub outcome: String,
    pub status: Option<u16>,
    /// What went wrong, in words.
    pub cause: Option<String>,
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// All subscriptions. One whose secret cannot be opened is left out and named: it could not be signed for.
pub(super) fn subscriptions(registry: &Registry) -> Result<Vec<Saved>, HubError> {
    let database = registry.database();
    let mut select = database.prepare(
        "SELECT id, api, topic, named, callback, secret, digest, application, hub, ends, next FROM hub_subscriptions",
    )?;
    let read = |row: &Row<'_>| {
        let (id, secret): (String, Option<Vec<u8>>) = (row.get(0)?, row.get(5)?);
        let opened = match secret {
            None => Some(Vec::new()),
            Some(sealed) => registry.seal().open_sealed(&sealed, &id),
        };
        let digest: String = row.get(6)?;
        let place = Place {
            api: row.get(1)?,
            topic: row.get(2)?,
        };
        let saved = Saved {
            place,
            named: row.get(3)?,
            callback: row.get(4)?,
            secret: opened.clone().unwrap_or_default(),
            digest: Digest::parse(&digest).unwrap_or_default(),
            application: row.get(7)?,
            hub: row.get(8)?,
            ends: row.get(9)?,
            next: row.get::<_, i64>(10)?.unsigned_abs(),
            id,
        };
        Ok((saved, opened.is_some()))
    };
    let all = select.query_map([], read)?.collect::<Result<Vec<_>, _>>()?;
    let mut good = Vec::with_capacity(all.len());
    for (saved, is_opened) in all {
        match is_opened {
            true => good.push(saved),
            false => {
                let (callback, topic) = (saved.callback, saved.place.topic);
                tracing::error!(
                    callback,
                    topic,
                    "secret of a subscription cannot be opened; nothing is delivered to it"
                );
            }
        }
    }
    Ok(good)
}

/// Durable when it returns.
pub(super) fn save(registry: &Registry, one: &Saved) -> Result<(), HubError> {
    let secret = match one.secret.is_empty() {
        true => None,
        false => Some(registry.seal().seal(&one.secret, &one.id)?),
    };
    registry.database().execute(
        "INSERT INTO hub_subscriptions (id, api, topic, named, callback, secret, digest, application, hub, ends, next) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET named = excluded.named, \
         secret = excluded.secret, digest = excluded.digest, application = excluded.application, hub = excluded.hub, \
         ends = excluded.ends, next = excluded.next",
        params![
            one.id,
            one.place.api,
            one.place.topic,
            one.named,
            one.callback,
            secret,
            one.digest.name(),
            one.application,
            one.hub,
            one.ends,
            number(one.next)
        ],
    )?;
    Ok(())
}

pub(super) fn remove(registry: &Registry, id: &str) -> Result<(), HubError> {
    registry
        .database()
        .execute("DELETE FROM hub_subscriptions WHERE id = ?", [id])?;
    Ok(())
}

/// Adds an event to the log of a topic, durable when it returns; its number.
pub(super) fn publish(
    registry: &Registry,
    place: &Place,
    kind: &str,
    body: &[u8],
    now: i64,
) -> Result<u64, HubError> {
    let mut database = registry.database();
    let transaction = database.transaction()?;
    // The epoch of a topic makes its ids differ from those of a log that was lost.
    let epoch = format!("{now:x}");
    let next: i64 = transaction.query_row(
        "INSERT INTO hub_topics (api, topic, epoch, next) VALUES (?, ?, ?, 2) \
         ON CONFLICT (api, topic) DO UPDATE SET next = next + 1 RETURNING next - 1",
        params![place.api, place.topic, epoch],
        |row| row.get(0),
    )?;
    transaction.execute(
        "INSERT INTO hub_events (api, topic, number, at, kind, body) VALUES (?, ?, ?, ?, ?, ?)",
        params![place.api, place.topic, next, now, kind, body],
    )?;
    transaction.commit()?;
    Ok(next.unsigned_abs())
}

/// The number that the next event of a topic gets.
pub(super) fn head(registry: &Registry, place: &Place) -> Result<u64, HubError> {
    let select = "SELECT next FROM hub_topics WHERE api = ? AND topic = ?";
    let database = registry.database();
    let next: Option<i64> = database
        .query_row(select, params![place.api, place.topic], |row| row.get(0))
        .optional()?;
    Ok(next.unwrap_or(1).unsigned_abs())
}

/// The first event from a number on.
pub(super) fn event(
    registry: &Registry,
    place: &Place,
    from: u64,
) -> Result<Option<Event>, HubError> {
    let database = registry.database();
    let mut select = database.prepare_cached(
        "SELECT e.number, t.epoch, e.kind, e.body FROM hub_events e JOIN hub_topics t USING (api, topic) \
         WHERE e.api = ? AND e.topic = ? AND e.number >= ? ORDER BY e.number LIMIT 1",
    )?;
    let read = |row: &Row<'_>| {
        let (number, epoch): (i64, String) = (row.get(0)?, row.get(1)?);
        Ok(Event {
            number: number.unsigned_abs(),
            id: format!("{epoch}-{number}"),
            kind: row.get(2)?,
            body: row.get::<_, Vec<u8>>(3)?.into(),
        })
    };
    Ok(select
        .query_row(params![place.api, place.topic, number(from)], read)
        .optional()?)
}

/// The first event at or after a time; the head where there is none.
pub(super) fn first_since(registry: &Registry, place: &Place, time: i64) -> Result<u64, HubError> {
    let select = "SELECT MIN(number) FROM hub_events WHERE api = ? AND topic = ? AND at >= ?";
    let found: Option<i64> = {
        let database = registry.database();
        database.query_row(select, params![place.api, place.topic, time], |row| {
            row.get(0)
        })?
    };
    match found {
        Some(number) => Ok(number.unsigned_abs()),
        None => head(registry, place),
    }
}

/// Writes cursors and attempts as a group. Without a sync: what a failure of the machine loses is delivered again.
pub(super) fn flush(
    registry: &Registry,
    cursors: &[(String, u64)],
    attempts: &[Attempt],
) -> Result<(), HubError> {
    let mut database = registry.database();
    database.pragma_update(None, "synchronous", "NORMAL")?;
    let mut write = || {
        let transaction = database.transaction()?;
        {
            let mut update =
                transaction.prepare_cached("UPDATE hub_subscriptions SET next = ? WHERE id = ?")?;
            for (id, next) in cursors {
                update.execute(params![number(*next), id])?;
            }
            let mut insert = transaction.prepare_cached(
                "INSERT INTO hub_deliveries (subscription, number, at, attempt, outcome, status, cause) \
                 VALUES (?, ?, ?, ?, ?, ?, ?)",
            )?;
            for one in attempts {
                let at = number(one.number);
                insert.execute(params![
                    one.subscription,
                    at,
                    one.at,
                    one.attempt,
                    one.outcome,
                    one.status,
                    one.cause
                ])?;
            }
        }
        transaction.commit()
    };
    let written = write();
    database.pragma_update(None, "synchronous", "FULL")?;
    Ok(written?)
}

/// Attempts from the newest on, of one subscription if it is named.
pub(super) fn attempts(
    registry: &Registry,
    subscription: Option<&str>,
    limit: u32,
) -> Result<Vec<Attempt>, HubError> {
    let database = registry.database();
    let mut select = database.prepare(
        "SELECT id, subscription, number, at, attempt, outcome, status, cause FROM hub_deliveries \
         WHERE ?1 IS NULL OR subscription = ?1 ORDER BY id DESC LIMIT ?2",
    )?;
    let rows = select.query_map(params![subscription, limit], attempt)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn attempt_of(registry: &Registry, id: i64) -> Result<Attempt, HubError> {
    let select = "SELECT id, subscription, number, at, attempt, outcome, status, cause FROM hub_deliveries WHERE id = ?";
    let found = registry
        .database()
        .query_row(select, [id], attempt)
        .optional()?;
    found.ok_or_else(|| HubError::Missing(format!("there is no delivery {id}")))
}

fn attempt(row: &Row<'_>) -> rusqlite::Result<Attempt> {
    Ok(Attempt {
        id: row.get(0)?,
        subscription: row.get(1)?,
        number: row.get::<_, i64>(2)?.unsigned_abs(),
        at: row.get(3)?,
        attempt: row.get(4)?,
        outcome: row.get(5)?,
        status: row.get(6)?,
        cause: row.get(7)?,
    })
}

/// Forgets events that are older than `before` or more than a topic keeps, and old attempts.
pub(super) fn prune(registry: &Registry, before: i64) -> Result<(), HubError> {
    let database = registry.database();
    database.execute("DELETE FROM hub_events WHERE at < ?", [before])?;
    database.execute(
        "DELETE FROM hub_events WHERE number < (SELECT next - ? FROM hub_topics t WHERE t.api = hub_events.api \
         AND t.topic = hub_events.topic)",
        [EVENTS_MAX],
    )?;
    database.execute(
        "DELETE FROM hub_deliveries WHERE id <= (SELECT MAX(id) - ? FROM hub_deliveries)",
        [ATTEMPTS_MAX],
    )?;
    Ok(())
}
