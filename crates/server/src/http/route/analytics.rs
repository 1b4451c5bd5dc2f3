//! `/analytics/…`: the paths of WSO2 DAS. They are listed here with their roles; the engine of the search answers.

use axum::body::{Body, Bytes};
use axum::extract::{RawPathParams, RawQuery, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, EXPIRES, PRAGMA};
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter, on};
use serde_json::{Value as Json, json};

use super::table::{Answer, Content};
use super::{Param, Route};
use crate::access::Role;
use crate::http::Services;
use crate::http::analytics::{AnalyticsCall, Begun};
use crate::http::answer::{body_of, das_refused};
use crate::http::query::pairs;

/// Bytes of a request.
const BODY_MAX: usize = 8 << 20;

const TABLE: Param = Param {
    name: "table",
    about: "the table",
    is_needed: true,
    schema: || json!({ "type": "string", "minLength": 1 }),
};

const COLUMNS: Param = text(
    "columns",
    "columns of the records, with commas between them; else all",
);

const fn text(name: &'static str, about: &'static str) -> Param {
    Param {
        name,
        about,
        is_needed: false,
        schema: || json!({ "type": "string" }),
    }
}

const RECORDS: &[Answer] = &[Answer::new(
    200,
    "Records",
    Content::json(|| json!({ "type": "array", "items": { "type": "object" } })),
)];

const DONE: &[Answer] = &[Answer::new(
    200,
    "Done",
    Content::json(|| {
        json!({
            "type": "object",
            "required": ["status", "message"],
            "properties": { "status": { "const": "success" }, "message": { "type": "string" } },
        })
    }),
)];

const NUMBER: &[Answer] = &[Answer::new(
    200,
    "The number",
    Content::json(|| json!({ "type": "number" })),
)];

const OBJECT: &[Answer] = &[Answer::new(
    200,
    "The answer",
    Content::json(|| json!({ "type": "object" })),
)];

const NAMES: &[Answer] = &[Answer::new(
    200,
    "The names",
    Content::json(|| json!({ "type": "array", "items": { "type": "string" } })),
)];

const TEXTS: fn() -> Json = || json!({ "type": "array", "items": { "type": "string" } });

/// A search; what it has besides depends on the path.
const SEARCH: &[Content] = &[Content::json(|| {
    json!({
        "type": "object",
        "required": ["tableName"],
        "properties": {
            "tableName": { "type": "string", "minLength": 1 },
            "query": { "type": ["string", "null"], "description": "in Lucene's classic syntax; all rows if it is empty" },
            "columns": { "type": ["array", "null"], "items": { "type": "string" } },
            "sortBy": {
                "type": ["array", "null"],
                "items": {
                    "type": "object",
                    "required": ["field", "sortType"],
                    "properties": { "field": { "type": "string" }, "sortType": { "enum": ["ASC", "DESC"] } },
                },
            },
            "start": { "type": "integer", "minimum": 0 },
            "count": { "type": "integer", "minimum": 0 },
        },
    })
})];

const DRILLDOWN: &[Content] = &[Content::json(|| {
    json!({
        "type": "object",
        "required": ["tableName"],
        "properties": {
            "tableName": { "type": "string", "minLength": 1 },
            "query": { "type": ["string", "null"] },
            "categories": {
                "type": ["array", "null"],
                "items": {
                    "type": "object",
                    "required": ["fieldName"],
                    "properties": { "fieldName": { "type": "string" }, "path": TEXTS() },
                },
            },
            "scoreFunction": { "type": ["string", "null"] },
            "recordStart": { "type": "integer", "minimum": 0 },
            "recordCount": { "type": "integer", "minimum": 0 },
            "columns": { "type": ["array", "null"], "items": { "type": "string" } },
        },
    })
})];

const ANY_OBJECT: &[Content] = &[Content::json(|| json!({ "type": "object" }))];

const ANY_LIST: &[Content] = &[Content::json(
    || json!({ "type": "array", "items": { "type": "object" } }),
)];

fn handled(method: MethodFilter) -> MethodRouter<Services> {
    on(method, analytics)
}

const fn get(path: &'static str, summary: &'static str) -> Route {
    Route::get(path, Role::Read, summary, handled)
}

const fn ask(path: &'static str, summary: &'static str) -> Route {
    Route::post(path, Role::Read, summary, handled).reads()
}

pub(super) const ROUTES: &[Route] = &[
    get("/analytics/tables", "List the tables of the event store").answers(NAMES),
    get("/analytics/table_exists", "Tell whether a table is there")
        .query(&[TABLE])
        .answers(DONE),
    get("/analytics/recordstores", "List the stores of tables")
        .for_anyone()
        .answers(NAMES),
    get("/analytics/recordstore", "Name the store of a table")
        .query(&[TABLE])
        .answers(&[Answer::new(
            200,
            "The name",
            Content::json(|| json!({ "type": "string" })),
        )]),
    get(
        "/analytics/pagination/{store}",
        "Tell whether a store can begin at a record",
    )
    .for_anyone()
    .answers(DONE),
    get(
        "/analytics/indexing_done",
        "Tell when what was written is found",
    )
    .query(&[
        text("timeout", "seconds to wait; -1 without a limit"),
        text("table", "the table; else all"),
    ])
    .answers(DONE),
    get(
        "/analytics/tables/{table}/recordcount",
        "Count the records of a table",
    )
    .answers(NUMBER),
    get("/analytics/tables/{table}", "Read the records of a table")
        .query(&[COLUMNS])
        .answers(RECORDS),
    get(
        "/analytics/tables/{table}/{from}",
        "Read records from a time on",
    )
    .query(&[COLUMNS])
    .answers(RECORDS),
    get(
        "/analytics/tables/{table}/{from}/{to}",
        "Read records between two times",
    )
    .query(&[COLUMNS])
    .answers(RECORDS),
    get(
        "/analytics/tables/{table}/{from}/{to}/{start}",
        "Read records between two times, from one on",
    )
    .query(&[COLUMNS])
    .answers(RECORDS),
    get(
        "/analytics/tables/{table}/{from}/{to}/{start}/{count}",
        "Read some records between two times",
    )
    .query(&[COLUMNS])
    .answers(RECORDS),
    ask(
        "/analytics/tables/{table}/keyed_records",
        "Read records by their primary keys",
    )
    .bodies(ANY_OBJECT)
    .answers(RECORDS),
    get(
        "/analytics/tables/{table}/schema",
        "Read the schema of a table",
    )
    .answers(OBJECT),
    Route::post(
        "/analytics/tables/{table}/schema",
        Role::Operate,
        "Say which columns are searched",
        handled,
    )
    .bodies(ANY_OBJECT)
    .answers(DONE),
    get(
        "/analytics/tables/{table}/persistName",
        "Name a table as a database of DAS does",
    )
    .answers(&[Answer::new(200, "The name", Content::TEXT)]),
    Route::post(
        "/analytics/tables/{table}",
        Role::Operate,
        "Make the search index of a table again",
        handled,
    )
    .query(&[
        text("from", "passed over: all is indexed"),
        text("to", "passed over: all is indexed"),
    ])
    .answers(DONE),
    Route::delete(
        "/analytics/tables/{table}/indexData",
        Role::Operate,
        "Remove the search index of a table",
        handled,
    )
    .answers(DONE),
    Route::delete(
        "/analytics/tables/{table}/schema-invalidate",
        Role::Operate,
        "Forget a schema that was read",
        handled,
    )
    .answers(DONE),
    ask("/analytics/search", "Search a table")
        .bodies(SEARCH)
        .answers(RECORDS),
    ask("/analytics/search_count", "Count what a search finds")
        .bodies(SEARCH)
        .answers(NUMBER),
    ask("/analytics/drilldown", "Search within categories")
        .bodies(DRILLDOWN)
        .answers(RECORDS),
    ask(
        "/analytics/drillDownScoreCount",
        "Sum scores within categories",
    )
    .bodies(DRILLDOWN)
    .answers(NUMBER),
    ask("/analytics/rangecount", "Sum scores by ranges of a column")
        .bodies(DRILLDOWN)
        .answers(&[Answer::new(
            200,
            "The ranges",
            Content::json(|| json!({ "type": "array", "items": { "type": "object" } })),
        )]),
    ask("/analytics/facets", "Sum scores by categories")
        .bodies(ANY_OBJECT)
        .answers(OBJECT),
    ask("/analytics/aggregates", "Aggregate columns by categories")
        .bodies(ANY_OBJECT)
        .answers(RECORDS),
    ask("/analytics/multi_aggregates", "Answer several aggregations")
        .bodies(ANY_LIST)
        .answers(&[Answer::new(
            200,
            "An answer for each",
            Content::json(|| json!({ "type": "array", "items": { "type": "array" } })),
        )]),
];

/// The route of a request: that with the fewest parameters in its path.
fn route_of(method: &Method, path: &str) -> Option<&'static Route> {
    let own = ROUTES
        .iter()
        .filter(|route| route.verb.name() == method.as_str() || *method == Method::HEAD);
    let own = own.filter(|route| route.leads(path));
    own.min_by_key(|route| route.path.matches('{').count())
}

async fn analytics(
    State(services): State<Services>,
    method: Method,
    uri: Uri,
    params: RawPathParams,
    RawQuery(query): RawQuery,
    body: Body,
) -> Response {
    let mut response = answered(&services, &method, &uri, &params, query.as_deref(), body).await;
    let headers = response.headers_mut();
    let fresh = HeaderValue::from_static("no-cache, no-store, max-age=0, must-revalidate");
    headers.insert(CACHE_CONTROL, fresh);
    headers.insert(PRAGMA, HeaderValue::from_static("no-cache"));
    headers.insert(EXPIRES, HeaderValue::from_static("0"));
    response
}

async fn answered(
    services: &Services,
    method: &Method,
    uri: &Uri,
    params: &RawPathParams,
    query: Option<&str>,
    body: Body,
) -> Response {
    let engine = match services.analytics.engine() {
        Ok(engine) => engine,
        Err(why) => return das_refused(StatusCode::NOT_IMPLEMENTED, why),
    };
    let Some(route) = route_of(method, uri.path()) else {
        return das_refused(StatusCode::NOT_FOUND, "there is no such path");
    };
    let body = match route.bodies {
        [] => Bytes::new(),
        _ => match body_of(body, "a request", BODY_MAX).await {
            Ok(body) => body,
            Err((status, message)) => return das_refused(status, &message),
        },
    };
    let call = AnalyticsCall {
        verb: route.verb.name(),
        route: route.path,
        path: params
            .iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        query: pairs(query),
        body,
    };
    let (status, body) = match services.analytics.begin(engine, call).await {
        Begun::Whole(reply) => (reply.status, Body::from(reply.body)),
        Begun::Streamed(body) => (200, Body::new(body)),
    };
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let kind = match route.path.ends_with("/persistName") && status == 200 {
        true => "text/plain",
        false => "application/json",
    };
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_route_with_the_fewest_parameters_is_meant() {
        for (method, path, route) in [
            (
                Method::GET,
                "/analytics/tables/T",
                "/analytics/tables/{table}",
            ),
            (
                Method::GET,
                "/analytics/tables/T/schema/",
                "/analytics/tables/{table}/schema",
            ),
            (
                Method::POST,
                "/analytics/tables/T/schema",
                "/analytics/tables/{table}/schema",
            ),
            (
                Method::GET,
                "/analytics/tables/T/17",
                "/analytics/tables/{table}/{from}",
            ),
            (
                Method::GET,
                "/analytics/tables/schema/1/2/3/4",
                "/analytics/tables/{table}/{from}/{to}/{start}/{count}",
            ),
            (Method::HEAD, "/analytics/tables", "/analytics/tables"),
        ] {
            let found = route_of(&method, path).map(|route| route.path);
            assert_eq!(found, Some(route), "{method} {path}");
        }
        assert!(route_of(&Method::DELETE, "/analytics/tables/T").is_none());
    }
}
