//! Requests and answers of WSO2 DAS at `/analytics`, as the server hands them on.
//!
//! Bodies are those of DAS, with the same names in the same order; what differs is in COMPAT.md. Errors are
//! `{"status":"failed","message":…}`: 404 where there is no such table, 400 where the request is wrong, 500 for our
//! own faults.

mod aggregates;
mod body;
mod facets;
mod records;
mod schema;

use std::collections::HashSet;

use serde_json::{Value as Json, json};

use crate::error::Error;
use crate::query::plan::{Plan, Source};
use crate::search::{Search, name_of};
use crate::view::{Sort, View};
use body::Body;

/// A request, by the route that it came to.
#[derive(Clone, Debug)]
pub struct Call {
    /// `GET`, `POST` or `DELETE`.
    pub verb: &'static str,
    /// As the server has it, with its parameters in braces: `/analytics/tables/{table}`.
    pub route: &'static str,
    /// Values of the path's parameters, by name.
    pub path: Vec<(String, String)>,
    /// What stands behind the question mark.
    pub query: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// The end of an answer, or all of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    pub status: u16,
    pub body: Vec<u8>,
}

/// Takes a block of an answer whose status is 200, which goes on; false: nobody reads on.
pub type Out<'a> = dyn FnMut(Vec<u8>) -> bool + 'a;

/// What stores of DAS there are. All tables are in one.
const RECORD_STORE: &str = "EVENT_STORE";

/// Rows of an answer where a request does not say how many.
const COUNT: usize = 100;

impl Call {
    fn param(&self, name: &str) -> Option<&str> {
        let mut found = self.path.iter().filter(|(own, _)| own == name);
        found.next().map(|(_, value)| value.as_str())
    }

    fn table(&self) -> &str {
        self.param("table").unwrap_or_default()
    }

    fn asked(&self, name: &str) -> Option<&str> {
        let mut found = self.query.iter().filter(|(own, _)| own == name);
        found.next().map(|(_, value)| value.as_str())
    }
}

impl Reply {
    fn json(status: u16, body: &Json) -> Reply {
        Reply {
            status,
            body: body.to_string().into_bytes(),
        }
    }

    fn ok(body: &Json) -> Reply {
        Reply::json(200, body)
    }

    fn done(message: impl Into<String>) -> Reply {
        Reply::said(200, "success", message)
    }

    fn said(status: u16, word: &str, message: impl Into<String>) -> Reply {
        Reply::json(status, &json!({"status": word, "message": message.into()}))
    }
}

impl From<Error> for Reply {
    fn from(error: Error) -> Reply {
        let status = match &error {
            Error::NoTable(_) => 404,
            error if error.is_of_request() => 400,
            _ => 500,
        };
        if status == 500 && !matches!(error, Error::Gone) {
            tracing::error!(cause = %error, "cannot answer a request to /analytics");
        }
        Reply::said(status, "failed", error.to_string())
    }
}

impl Search {
    /// Answers a request on the thread that calls.
    pub fn answer(&self, call: &Call, out: &mut Out<'_>) -> Reply {
        self.answered(call, out).unwrap_or_else(Reply::from)
    }

    fn answered(&self, call: &Call, out: &mut Out<'_>) -> Result<Reply, Error> {
        let route = call.route.strip_prefix("/analytics").unwrap_or(call.route);
        match (call.verb, route) {
            ("GET", "/tables") => self.tables(),
            ("GET", "/table_exists") => self.table_exists(call),
            ("GET", "/recordstores") => Ok(Reply::ok(&json!([RECORD_STORE]))),
            ("GET", "/recordstore") => {
                self.view(call.asked("table").unwrap_or_default())?;
                Ok(Reply::ok(&json!(RECORD_STORE)))
            }
            ("GET", "/pagination/{store}") => Ok(pagination(call)),
            ("GET", "/indexing_done") => {
                // A search sees what is committed, whatever the index has of it.
                if let Some(table) = call.asked("table") {
                    self.view(table)?;
                }
                Ok(Reply::done("Indexing Completed successfully"))
            }
            ("GET", "/tables/{table}/recordcount") => self.record_count(call),
            ("GET", "/tables/{table}/schema") => self.schema(call),
            ("POST", "/tables/{table}/schema") => self.set_schema(call),
            ("DELETE", "/tables/{table}/schema-invalidate") => {
                self.view(call.table())?;
                let table = call.table();
                Ok(Reply::done(format!(
                    "Successfully clear cache for table: {table}"
                )))
            }
            ("GET", "/tables/{table}/persistName") => {
                self.view(call.table())?;
                let name = schema::persist_name(&name_of(call.table()));
                Ok(Reply {
                    status: 200,
                    body: name.into_bytes(),
                })
            }
            ("POST", "/tables/{table}") => self.begin_reindex(call),
            ("DELETE", "/tables/{table}/indexData") => {
                self.view(call.table())?;
                self.make_again(call.table());
                let table = call.table();
                Ok(Reply::done(format!(
                    "Successfully cleared indices in table: {table}"
                )))
            }
            ("POST", "/tables/{table}/keyed_records") => self.keyed_records(call),
            ("GET", route) if route.starts_with("/tables/{table}") => self.records(call, out),
            ("POST", "/search") => self.search(call),
            ("POST", "/search_count") => self.search_count(call),
            ("POST", "/drilldown") => self.drilldown(call),
            ("POST", "/drillDownScoreCount") => self.drilldown_score_count(call),
            ("POST", "/rangecount") => self.range_count(call),
            ("POST", "/facets") => self.facets(call),
            ("POST", "/aggregates") => self.aggregates(call),
            ("POST", "/multi_aggregates") => self.multi_aggregates(call),
            _ => Ok(Reply::said(
                500,
                "failed",
                format!(
                    "internal error: nothing answers {} {}; please report it",
                    call.verb, call.route
                ),
            )),
        }
    }

    fn tables(&self) -> Result<Reply, Error> {
        let reader = self.reader()?;
        let tables: Json = reader
            .tables()
            .map(|name| Json::from(name.to_uppercase()))
            .collect();
        Ok(Reply::ok(&tables))
    }

    fn table_exists(&self, call: &Call) -> Result<Reply, Error> {
        let table = call.asked("table").unwrap_or_default();
        match self.view(table) {
            Ok(_) => Ok(Reply::done(format!("Table : {table} exists."))),
            Err(error @ Error::NoTable(_)) => {
                Ok(Reply::said(404, "non-existent", error.to_string()))
            }
            Err(error) => Err(error),
        }
    }

    fn record_count(&self, call: &Call) -> Result<Reply, Error> {
        let view = self.view(call.table())?;
        let count = view.count(&view.plan("", &self.options().zone)?)?;
        Ok(Reply::ok(&json!(count)))
    }

    fn begin_reindex(&self, call: &Call) -> Result<Reply, Error> {
        let view = self.view(call.table())?;
        if view.indexing.is_empty() {
            return Err(Error::Request(format!(
                "no column of table '{}' is indexed: set its schema first",
                call.table()
            )));
        }
        self.make_again(call.table());
        let table = call.table();
        Ok(Reply::done(format!(
            "Successfully started re-indexing for table: {table}"
        )))
    }

    /// The table that a body names, and its name in the store.
    fn view_of_body(&self, body: &Body) -> Result<(View, String), Error> {
        let table = body.needed_text("tableName")?;
        Ok((self.view(table)?, name_of(table)))
    }

    fn search(&self, call: &Call) -> Result<Reply, Error> {
        let body = Body::parse(&call.body)?;
        let (mut view, name) = self.view_of_body(&body)?;
        let plan = view.plan(
            body.text("query")?.unwrap_or_default(),
            &self.options().zone,
        )?;
        let sort = sorts(&view, &body)?;
        let columns = view.columns(&body.texts("columns")?)?;
        let (start, most) = self.window(&body, "start", "count")?;
        let rows = self.with(&mut view, &name, &mut |view| {
            let hits = match sort.as_slice() {
                [] => view.best(&plan, most)?,
                sort => view.sorted(&plan, sort, most)?,
            };
            view.fetch(&hits[start.min(hits.len())..], &columns)
        })?;
        Ok(Reply {
            status: 200,
            body: view.records(&name, &rows, &columns),
        })
    }

    fn search_count(&self, call: &Call) -> Result<Reply, Error> {
        let body = Body::parse(&call.body)?;
        let (mut view, name) = self.view_of_body(&body)?;
        let plan = view.plan(
            body.text("query")?.unwrap_or_default(),
            &self.options().zone,
        )?;
        let count = self.with(&mut view, &name, &mut |view| view.count(&plan))?;
        Ok(Reply::ok(&json!(count)))
    }

    /// From which row on, and how many with those before it.
    fn window(&self, body: &Body, start: &str, count: &str) -> Result<(usize, usize), Error> {
        let begin = body.whole(start)?.unwrap_or(0);
        let count = body.whole(count)?.unwrap_or(COUNT);
        let most = begin.saturating_add(count);
        let rows = self.options().rows;
        match most > rows {
            true => Err(Error::Limit(format!(
                "'{start}' and 'count' are {rows} rows at most: narrow the query, or ask in SQL"
            ))),
            false => Ok((begin, most)),
        }
    }
}

impl View {
    /// Columns by their names; all where none is named.
    fn columns(&self, names: &[String]) -> Result<Vec<usize>, Error> {
        let attributes = &self.definition().schema.attributes;
        if names.is_empty() {
            return Ok((0..attributes.len()).collect());
        }
        let mut seen = HashSet::new();
        let mut columns = Vec::new();
        for name in names {
            let column = self.column(name)?;
            if seen.insert(column) {
                columns.push(column);
            }
        }
        Ok(columns)
    }

    fn column(&self, name: &str) -> Result<usize, Error> {
        let attributes = &self.definition().schema.attributes;
        let found = attributes
            .iter()
            .position(|a| a.name.eq_ignore_ascii_case(name));
        found.ok_or_else(|| {
            let table = &self.definition().name;
            let near = lang::suggest::nearest(name, attributes.iter().map(|a| a.name.as_str()));
            let near = near.map_or(String::new(), |near| format!(": did you mean '{near}'?"));
            Error::Request(format!("table '{table}' has no column '{name}'{near}"))
        })
    }

    fn source(&self, name: &str) -> Result<Source, Error> {
        match name.to_ascii_lowercase().as_str() {
            "_timestamp" => Ok(Source::Timestamp),
            "_id" => Ok(Source::Id),
            _ => self.column(name).map(Source::Column),
        }
    }

    /// A column whose values are paths of categories.
    fn facet(&self, name: &str) -> Result<usize, Error> {
        let column = self.column(name)?;
        let own = &self.definition().schema.attributes[column].name;
        match self.indexing.flags(own).is_facet {
            true => Ok(column),
            false => Err(Error::Request(format!(
                "column '{own}' is no facet: give it the flag -f in option 'schema' of the store"
            ))),
        }
    }

    /// The plan of a query, of the rows of some categories alone.
    fn plan_within(&self, body: &Body, zone: &jiff::tz::TimeZone) -> Result<Plan, Error> {
        let mut plan = self.plan(body.text("query")?.unwrap_or_default(), zone)?;
        for category in body.objects("categories")? {
            let column = self.facet(category.needed_text("fieldName")?)?;
            let path = category.texts("path")?;
            if !path.is_empty() {
                plan.within(column, &path);
            }
        }
        Ok(plan)
    }
}

fn sorts(view: &View, body: &Body) -> Result<Vec<Sort>, Error> {
    let sorts = body.objects("sortBy")?.into_iter().map(|sort| {
        let source = view.source(sort.needed_text("field")?)?;
        if let Source::Column(column) = source
            && view.definition().ty(column) == event::Type::Object
        {
            return Err(Error::Request(
                "a column of objects has no order".to_owned(),
            ));
        }
        let is_descending = match sort.text("sortType")? {
            Some("ASC") => false,
            Some("DESC") => true,
            _ => {
                return Err(Error::Request("'sortType' must be ASC or DESC".to_owned()));
            }
        };
        Ok(Sort {
            source,
            is_descending,
        })
    });
    sorts.collect()
}

fn pagination(call: &Call) -> Reply {
    let store = call.param("store").unwrap_or_default();
    match store.eq_ignore_ascii_case(RECORD_STORE) {
        true => Reply::done(format!("RecordStore : {store} support pagination.")),
        false => Reply::said(
            404,
            "non-existent",
            format!("RecordStore : {store} does not support pagination."),
        ),
    }
}
