//! A build with the feature `search`.

use std::path::Path;
use std::sync::Arc;

use ::search::rest::{Call, Reply};
use ::search::{Options, Search};
use anyhow::Context as _;
use bytes::Bytes;
use jiff::tz::TimeZone;
use serde_json::{Value as Json, json};
use server::http::analytics::{Analytics, AnalyticsCall, AnalyticsEngine, AnalyticsReply};
use server::http::store::StoreRefusal;

use super::NO_STORE;
use crate::cli::search::SearchLimitArgs;

/// The search over a store, if there is one.
#[derive(Clone)]
pub struct Searching(Option<Arc<Search>>);

impl Searching {
    /// That of a server, which keeps the indexes. `zone` is that of times that name none; UTC if it is empty.
    ///
    /// # Errors
    /// There is no thread; the time zone is not known.
    pub fn of_server(
        store: Option<&Path>,
        args: &SearchLimitArgs,
        zone: &str,
    ) -> anyhow::Result<Searching> {
        let Some(dir) = store else {
            return Ok(Searching(None));
        };
        let options = Options {
            time: args.search_timeout,
            rows: args.search_max_rows,
            zone: zone_of(zone)?,
            keeps_index: true,
        };
        let search = Search::new(dir, options).context("cannot start the search")?;
        Ok(Searching(Some(Arc::new(search))))
    }

    /// Over a folder, whose indexes another process keeps or nobody.
    ///
    /// # Errors
    /// The time zone is not known.
    #[cfg(feature = "sql")]
    pub fn of_folder(dir: &Path, zone: &str) -> anyhow::Result<Searching> {
        let options = Options {
            zone: zone_of(zone)?,
            ..Options::default()
        };
        let search = Search::new(dir, options).context("cannot start the search")?;
        Ok(Searching(Some(Arc::new(search))))
    }

    /// Over a folder that no server uses, whose indexes this keeps.
    ///
    /// # Errors
    /// There is no thread.
    pub fn keeping(dir: &Path) -> anyhow::Result<Searching> {
        let options = Options {
            keeps_index: true,
            ..Options::default()
        };
        let search = Search::new(dir, options).context("cannot start the search")?;
        Ok(Searching(Some(Arc::new(search))))
    }

    /// Makes the indexes of some tables again, one after the other, and waits for them.
    ///
    /// # Errors
    /// None of these tables is searched, or the store cannot be read.
    pub fn reindex(
        &self,
        is_meant: &dyn Fn(&str) -> bool,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Json, StoreRefusal> {
        let failed = |error: ::search::Error| StoreRefusal::Failed(error.to_string());
        let Some(search) = &self.0 else {
            return Err(StoreRefusal::Failed(NO_STORE.to_owned()));
        };
        let mut tables = search.searched_tables().map_err(failed)?;
        tables.retain(|table| is_meant(table));
        if tables.is_empty() {
            let message = "none of these tables has columns that are searched: name some in its option 'schema'";
            return Err(StoreRefusal::Wrong(message.to_owned()));
        }
        let mut done = Vec::new();
        for table in &tables {
            match search.reindex(table, goes_on).map_err(failed)? {
                Some(rows) => done.push(json!({ "table": table, "rows": rows })),
                None => {
                    let message = "it was stopped; the index is made on in the background where a server runs";
                    return Err(StoreRefusal::Wrong(message.to_owned()));
                }
            }
        }
        Ok(json!({ "tables": done }))
    }

    /// For the function `search` of SQL.
    #[cfg(feature = "sql")]
    pub fn of_sql(&self) -> Option<Arc<dyn sql::TableSearch>> {
        let search = self.0.clone()?;
        Some(Arc::new(OfSql(search)))
    }
}

fn zone_of(name: &str) -> anyhow::Result<TimeZone> {
    match name.is_empty() {
        true => Ok(TimeZone::UTC),
        false => TimeZone::get(name).with_context(|| format!("there is no time zone '{name}'")),
    }
}

/// What a server answers at `/analytics`.
pub fn of_server(_: Option<&Path>, search: &Searching) -> Analytics {
    match &search.0 {
        Some(search) => Analytics::new(Arc::new(OfServer(Arc::clone(search)))),
        None => Analytics::absent(NO_STORE),
    }
}

struct OfServer(Arc<Search>);

impl AnalyticsEngine for OfServer {
    fn answer(&self, call: AnalyticsCall, out: &mut dyn FnMut(Bytes) -> bool) -> AnalyticsReply {
        let call = Call {
            verb: call.verb,
            route: call.route,
            path: call.path,
            query: call.query,
            body: call.body.into(),
        };
        let Reply { status, body } = self.0.answer(&call, &mut |block| out(block.into()));
        AnalyticsReply {
            status,
            body: body.into(),
        }
    }
}

#[cfg(feature = "sql")]
struct OfSql(Arc<Search>);

#[cfg(feature = "sql")]
impl sql::TableSearch for OfSql {
    fn check(&self, table: &str, scan: &store::scan::TableScan, query: &str) -> Result<(), String> {
        self.0
            .check(table, scan, query)
            .map_err(|error| error.to_string())
    }

    fn search(
        &self,
        table: &str,
        scan: &store::scan::TableScan,
        query: &str,
        columns: &[usize],
        is_ranked: bool,
        each: &mut sql::EachFound<'_>,
    ) -> Result<(), String> {
        let found = self
            .0
            .each_row(table, scan, query, columns, is_ranked, each);
        found.map_err(|error| error.to_string())
    }
}
