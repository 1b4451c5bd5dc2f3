//! `POST /sql`: a statement as text; what `Accept` names is answered.
//!
//! With `async=true` it becomes a job: the answer is 202 and what `GET /sql/jobs/{id}` shows, `Location` names its path.
//! `GET /sql/jobs/{id}/result` answers its result in the format that was accepted then; `pageRows` divides it into
//! documents of so many rows, `page` names one of them, and `Link` the next. `DELETE /sql/jobs/{id}` ends a job that
//! runs, and forgets one that has ended. Who is not its user is told that there is no such job; an admin may see all.

use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE, LINK, LOCATION};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::on;
use check::Catalog;
use serde_json::{Value as Json, json};

use super::Route;
use super::query::fault;
use super::table::{Answer, Content, NOT_BLANK, Param};
use crate::access::{Caller, Role};
use crate::http::Services;
use crate::http::answer::{body_of, json, refused};
use crate::http::pipe::pipe;
use crate::http::query::{pairs, value};
use crate::http::sql::{
    AnswerBody, Asked, Job, JobResult, NotBegun, SqlFormat, SqlQuestion, SqlRefusal,
};

/// Bytes of a statement.
const BODY_MAX: usize = 1 << 20;

/// What can be asked for; the first is what is meant by anything.
const FORMATS: [(&str, SqlFormat); 5] = [
    ("application/json", SqlFormat::Json),
    ("application/x-ndjson", SqlFormat::Ndjson),
    ("text/csv", SqlFormat::Csv),
    ("application/vnd.apache.arrow.stream", SqlFormat::Arrow),
    ("application/vnd.apache.parquet", SqlFormat::Parquet),
];

/// Seconds that may be waited for the end of a job: less than clients wait for an answer.
const WAIT_MAX: u64 = 25;

const ROWS: Content = Content::json(|| {
    json!({
        "type": "object",
        "required": ["details", "records"],
        "properties": {
            "details": {
                "type": "array",
                "items": { "type": "object" },
                "description": "names and types of the columns",
            },
            "records": { "type": "array", "items": { "type": "array" } },
        },
    })
});

const OTHER_FORMATS: &[Content] = &[
    Content {
        kind: "application/x-ndjson",
        schema: || json!({ "type": "string" }),
    },
    Content {
        kind: "text/csv",
        schema: || json!({ "type": "string" }),
    },
    Content {
        kind: "application/vnd.apache.arrow.stream",
        schema: || json!({ "type": "string", "format": "binary" }),
    },
    Content {
        kind: "application/vnd.apache.parquet",
        schema: || json!({ "type": "string", "format": "binary" }),
    },
];

const JOB: Content = Content::json(job_schema);

fn job_schema() -> Json {
    json!({
        "type": "object",
        "required": ["id", "state", "statement", "rows", "bytes", "pages", "millis"],
        "properties": {
            "id": { "type": "string" },
            "state": { "enum": ["waiting", "running", "done", "failed", "cancelled"] },
            "statement": { "type": "string", "description": "its first characters" },
            "user": { "type": ["string", "null"] },
            "started": { "type": "string" },
            "millis": { "type": "integer", "description": "for how long it runs or ran" },
            "rows": { "type": "integer", "description": "of the result, so far" },
            "bytes": { "type": "integer", "description": "of the result, so far" },
            "pages": { "type": "integer", "description": "of the result, that are whole" },
            "type": { "type": "string", "description": "of the result" },
            "rowsRead": { "type": "integer" },
            "rowsToRead": { "type": ["integer", "null"], "description": "it may be done before" },
            "progress": { "type": ["number", "null"], "description": "from 0 to 1" },
            "expires": { "type": ["string", "null"], "description": "when it is forgotten" },
            "error": { "type": ["object", "null"] },
        },
    })
}

const QUERY: &[Param] = &[
    Param {
        name: "async",
        about: "Make it a job, and answer at once",
        is_needed: false,
        schema: || json!({ "type": "boolean" }),
    },
    Param {
        name: "pageRows",
        about: "Rows of a page of a job's result; by default all are one page",
        is_needed: false,
        schema: || json!({ "type": "integer", "minimum": 1, "maximum": 1_000_000_000 }),
    },
];

const WAIT: &[Param] = &[Param {
    name: "wait",
    about: "Seconds to wait for its end",
    is_needed: false,
    schema: || json!({ "type": "integer", "minimum": 0, "maximum": WAIT_MAX }),
}];

const PAGE: &[Param] = &[Param {
    name: "page",
    about: "The page, from 0",
    is_needed: false,
    schema: || json!({ "type": "integer", "minimum": 0, "maximum": 1_000_000_000 }),
}];

pub(super) const ROUTES: &[Route] = &[
    Route::post(
        "/sql",
        Role::Read,
        "Ask the tables of the event store in SQL",
        |method| on(method, sql),
    )
    .reads()
    .query(QUERY)
    .bodies(&[
        Content {
            kind: "application/sql",
            schema: || json!({ "type": "string", "pattern": NOT_BLANK }),
        },
        Content::WORDS,
    ])
    .answers(&[
        Answer::new(200, "The rows", ROWS).or(OTHER_FORMATS),
        Answer::new(202, "It is a job now", JOB),
    ]),
    Route::get("/sql/jobs", Role::Read, "The own jobs in SQL", |method| {
        on(method, jobs)
    })
    .answers(&[Answer::new(
        200,
        "Oldest first",
        Content::json(|| {
            json!({
                "type": "object",
                "required": ["jobs"],
                "properties": { "jobs": { "type": "array", "items": job_schema() } },
            })
        }),
    )]),
    Route::get("/sql/jobs/{id}", Role::Read, "A job in SQL", |method| {
        on(method, job)
    })
    .query(WAIT)
    .answers(&[Answer::new(200, "How far it is", JOB)]),
    Route::get(
        "/sql/jobs/{id}/result",
        Role::Read,
        "The result of a job in SQL, or a page of it",
        |method| on(method, result),
    )
    .query(PAGE)
    .answers(&[Answer::new(200, "The rows", ROWS).or(OTHER_FORMATS)]),
    Route::delete(
        "/sql/jobs/{id}",
        Role::Read,
        "End a job in SQL, or forget one that has ended",
        |method| on(method, end),
    )
    .answers(&[Answer::new(
        200,
        "It ends, or is forgotten",
        Content::json(|| json!({ "type": "object", "required": ["message"] })),
    )]),
];

async fn sql(
    State(services): State<Services>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let Some((kind, format)) = accepted(&headers) else {
        let kinds = FORMATS.map(|(kind, _)| kind).join(", ");
        let message = format!("'Accept' names none of what can be answered: {kinds}");
        return refused(StatusCode::NOT_ACCEPTABLE, &message);
    };
    let engine = match services.sql.engine() {
        Ok(engine) => engine,
        Err(why) => return refused(StatusCode::NOT_IMPLEMENTED, why),
    };
    let query = pairs(query.as_deref());
    let page_rows = value(&query, "pageRows").and_then(|rows| rows.parse().ok());
    let page_rows: Option<NonZero<usize>> = page_rows;
    let is_job = value(&query, "async") == Some("true");
    if page_rows.is_some() && !is_job {
        let message = "'pageRows' divides the result of a job: give 'async=true' with it";
        return refused(StatusCode::BAD_REQUEST, message);
    }
    let body = match body_of(body, "a statement", BODY_MAX).await {
        Ok(body) => body,
        Err((status, message)) => return refused(status, &message),
    };
    let Ok(text) = std::str::from_utf8(&body) else {
        return refused(StatusCode::BAD_REQUEST, "the statement is not UTF-8");
    };
    let asker = services.asker.clone();
    if is_job {
        let text = text.to_owned();
        let asked = Asked {
            sql: text.clone(),
            format,
            kind,
            page_rows,
            caller,
            explain: Box::new(move |refusal| explained(refusal, &text, asker.catalog())),
        };
        return begun(&services, services.sql.jobs.begin(engine, asked));
    }
    let question = SqlQuestion {
        sql: text.to_owned(),
        format,
        page_rows: None,
        is_job: false,
    };
    let turn = services.sql.turn().await;
    match AnswerBody::begin(engine.ask(question), turn).await {
        Ok(answer) => {
            let mut response = Response::new(Body::new(answer));
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            response
        }
        Err(refusal) => {
            if let SqlRefusal::Failed(message) = &refusal {
                tracing::error!(cause = message, "cannot answer SQL");
            }
            let (status, body) = explained(&refusal, text, asker.catalog());
            json(status, &body)
        }
    }
}

/// Why there is no answer, as it is said to a client.
fn explained(refusal: &SqlRefusal, text: &str, catalog: &Catalog) -> (StatusCode, Json) {
    let (status, message) = match refusal {
        SqlRefusal::Statement(found) => {
            let found = std::slice::from_ref(&**found);
            let body = fault("statement", text, found, catalog);
            return (StatusCode::BAD_REQUEST, body);
        }
        SqlRefusal::Rows(message) => (StatusCode::UNPROCESSABLE_ENTITY, message),
        SqlRefusal::Failed(message) => (StatusCode::INTERNAL_SERVER_ERROR, message),
    };
    (
        status,
        json!({ "code": status.as_u16(), "message": message }),
    )
}

fn begun(services: &Services, begun: Result<Arc<Job>, NotBegun>) -> Response {
    match begun {
        Ok(job) => {
            let shown = job.show(services.sql.jobs.age());
            let mut response = json(StatusCode::ACCEPTED, &shown);
            if let Ok(path) = HeaderValue::from_str(&format!("/sql/jobs/{}", job.id())) {
                response.headers_mut().insert(LOCATION, path);
            }
            response
        }
        Err(NotBegun::TooMany(max)) => {
            let message = format!(
                "{max} jobs wait or run, which is as many as may: wait for one, or end one (DELETE /sql/jobs/ID)"
            );
            refused(StatusCode::TOO_MANY_REQUESTS, &message)
        }
        Err(NotBegun::Failed(cause)) => {
            tracing::error!(cause, "cannot begin a job in SQL");
            refused(StatusCode::INTERNAL_SERVER_ERROR, &cause)
        }
    }
}

async fn jobs(State(services): State<Services>, Extension(caller): Extension<Caller>) -> Response {
    let jobs = &services.sql.jobs;
    let shown = jobs.list(&caller);
    let shown: Vec<Json> = shown.iter().map(|job| job.show(jobs.age())).collect();
    json(StatusCode::OK, &json!({ "jobs": shown }))
}

async fn job(
    State(services): State<Services>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let Some(job) = services.sql.jobs.find(&id, &caller) else {
        return no_job(&services, &id);
    };
    let query = pairs(query.as_deref());
    if let Some(seconds) = value(&query, "wait").and_then(|seconds| seconds.parse().ok()) {
        job.ended_within(Duration::from_secs(seconds)).await;
    }
    json(StatusCode::OK, &job.show(services.sql.jobs.age()))
}

async fn result(
    State(services): State<Services>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let Some(job) = services.sql.jobs.find(&id, &caller) else {
        return no_job(&services, &id);
    };
    let query = pairs(query.as_deref());
    let number = value(&query, "page").and_then(|page| page.parse().ok());
    let number: usize = number.unwrap_or(0);
    let (page, kind, has_next) = match job.page(number) {
        JobResult::Page {
            page,
            kind,
            has_next,
        } => (page, kind, has_next),
        JobResult::NotYet(pages) => {
            let message = format!(
                "page {number} is not there yet, {pages} are: wait for it with GET /sql/jobs/{id}?wait={WAIT_MAX}"
            );
            return refused(StatusCode::CONFLICT, &message);
        }
        JobResult::Beyond(pages) => {
            let message = format!("there is no page {number}: the result has {pages}, from 0");
            return refused(StatusCode::NOT_FOUND, &message);
        }
        JobResult::Cancelled => {
            return refused(StatusCode::GONE, "the job was cancelled, and has no result");
        }
        JobResult::Failed(status, error) => return json(status, &error),
    };
    let (mut writer, body) = pipe();
    // It ends when nobody reads on.
    drop(tokio::task::spawn_blocking(move || {
        let written = page.read(|block| writer.frame(block));
        match written.and_then(|()| writer.end()) {
            Err(cause) if cause.kind() != std::io::ErrorKind::BrokenPipe => {
                tracing::error!(%cause, job = id, "cannot read the result of a job in SQL");
            }
            _ => {}
        }
    }));
    let mut response = Response::new(Body::new(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    let next = format!(
        "</sql/jobs/{}/result?page={}>; rel=\"next\"",
        job.id(),
        number + 1
    );
    if has_next && let Ok(next) = HeaderValue::from_str(&next) {
        headers.insert(LINK, next);
    }
    response
}

async fn end(
    State(services): State<Services>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Response {
    let Some(job) = services.sql.jobs.find(&id, &caller) else {
        return no_job(&services, &id);
    };
    let message = match services.sql.jobs.end(&job) {
        true => "it is forgotten, with its result",
        false => "it ends",
    };
    json(StatusCode::OK, &json!({ "message": message }))
}

fn no_job(services: &Services, id: &str) -> Response {
    let minutes = services.sql.jobs.age().as_secs() / 60;
    let message = format!(
        "there is no job '{id}' of yours: one that has ended is known for {minutes} min (GET /sql/jobs lists them), and \
         none outlives the server"
    );
    refused(StatusCode::NOT_FOUND, &message)
}

/// The format that a client likes best, the first of equals.
fn accepted(headers: &HeaderMap) -> Option<(&'static str, SqlFormat)> {
    let values = headers.get_all(ACCEPT).iter();
    let text: Vec<&str> = values.filter_map(|value| value.to_str().ok()).collect();
    if text.is_empty() {
        return Some(FORMATS[0]);
    }
    let mut best: Option<(f32, (&'static str, SqlFormat))> = None;
    for range in text.iter().flat_map(|text| text.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let range = parts.next().unwrap_or_default().to_ascii_lowercase();
        let weight = parts.find_map(|part| part.strip_prefix("q="));
        let weight = weight.map_or(Ok(1.0), str::parse).unwrap_or(0.0);
        let group = range.strip_suffix('*');
        let is_meant = |kind: &str| match group {
            Some("*/") => true,
            Some(group) => group.ends_with('/') && kind.starts_with(group),
            None => kind == range,
        };
        let format = FORMATS.into_iter().find(|(kind, _)| is_meant(kind));
        if let Some(format) = format
            && weight > best.map_or(0.0, |(weight, _)| weight)
        {
            best = Some((weight, format));
        }
    }
    best.map(|(_, format)| format)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_what_the_client_accepts() {
        let accepted = |accept: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            super::accepted(&headers).map(|(_, format)| format)
        };
        assert_eq!(
            super::accepted(&HeaderMap::new()).map(|(kind, _)| kind),
            Some("application/json")
        );
        for (accept, format) in [
            ("*/*", Some(SqlFormat::Json)),
            ("text/*", Some(SqlFormat::Csv)),
            ("application/*", Some(SqlFormat::Json)),
            ("Text/CSV; charset=utf-8", Some(SqlFormat::Csv)),
            ("text/html, application/x-ndjson", Some(SqlFormat::Ndjson)),
            ("*/*;q=0.1, text/csv;q=0.5", Some(SqlFormat::Csv)),
            ("text/csv;q=0, text/html", None),
            ("text/html", None),
            ("*", None),
            ("application/vnd.apache.parquet", Some(SqlFormat::Parquet)),
            (
                "application/vnd.apache.arrow.stream",
                Some(SqlFormat::Arrow),
            ),
        ] {
            assert_eq!(accepted(accept), format, "{accept}");
        }
    }
}
