//! Reservations of quotas, in the registry's database.

use rusqlite::params;

use super::Registry;
use crate::plan::{Ledger, Reservation};

/// SQLite has signed numbers. A plan's limits are no larger.
fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl Ledger for Registry {
    fn load(&self) -> Result<Vec<Reservation>, String> {
        let database = self.database();
        let load = || {
            let mut select = database.prepare("SELECT counter, window, reserved FROM quotas")?;
            let rows = select.query_map([], |row| {
                Ok(Reservation {
                    counter: row.get(0)?,
                    window: row.get(1)?,
                    reserved: row.get::<_, i64>(2)?.unsigned_abs(),
                })
            })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        load().map_err(|error| error.to_string())
    }

    fn reserve(&self, reservations: &[Reservation], is_safe: bool) -> Result<(), String> {
        let mut database = self.database();
        let mut reserve = || {
            // Without a sync it is in the hands of the system: a process that is killed loses nothing of it.
            let synchronous = if is_safe { "FULL" } else { "NORMAL" };
            database.pragma_update(None, "synchronous", synchronous)?;
            let transaction = database.transaction()?;
            {
                let mut insert = transaction.prepare_cached(
                    "INSERT INTO quotas (counter, window, reserved) VALUES (?, ?, ?) ON CONFLICT (counter) \
                     DO UPDATE SET window = excluded.window, reserved = excluded.reserved",
                )?;
                for one in reservations {
                    insert.execute(params![one.counter, one.window, number(one.reserved)])?;
                }
            }
            transaction.commit()?;
            Ok(())
        };
        let reserved = reserve().map_err(|error: rusqlite::Error| error.to_string());
        let restored = database.pragma_update(None, "synchronous", "FULL");
        reserved.and(restored.map_err(|error| error.to_string()))
    }

    fn forget(&self, counters: &[String]) -> Result<(), String> {
        let mut database = self.database();
        let mut forget = || {
            let transaction = database.transaction()?;
            {
                let mut delete =
                    transaction.prepare_cached("DELETE FROM quotas WHERE counter = ?")?;
                for counter in counters {
                    delete.execute([counter])?;
                }
            }
            transaction.commit()
        };
        forget().map_err(|error: rusqlite::Error| error.to_string())
    }
}
