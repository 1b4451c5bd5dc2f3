//! `POST /sql`: a statement as text; what `Accept` names is answered.

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::on;
use serde_json::json;

use super::Route;
use super::query::fault;
use super::table::{Answer, Content, NOT_BLANK};
use crate::access::Role;
use crate::http::Services;
use crate::http::answer::{body_of, json, refused};
use crate::http::sql::{AnswerBody, SqlFormat, SqlRefusal};

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

pub(super) const ROUTES: &[Route] = &[Route::post(
    "/sql",
    Role::Read,
    "Ask the tables of the event store in SQL",
    |method| on(method, sql),
)
.reads()
.bodies(&[
    Content {
        kind: "application/sql",
        schema: || json!({ "type": "string", "pattern": NOT_BLANK }),
    },
    Content::WORDS,
])
.answers(&[Answer::new(
    200,
    "The rows",
    Content::json(|| {
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
    }),
)
.or(&[
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
])])];

async fn sql(State(services): State<Services>, headers: HeaderMap, body: Body) -> Response {
    let Some((kind, format)) = accepted(&headers) else {
        let kinds = FORMATS.map(|(kind, _)| kind).join(", ");
        let message = format!("'Accept' names none of what can be answered: {kinds}");
        return refused(StatusCode::NOT_ACCEPTABLE, &message);
    };
    let engine = match services.sql.engine() {
        Ok(engine) => engine,
        Err(why) => return refused(StatusCode::NOT_IMPLEMENTED, why),
    };
    let body = match body_of(body, "a statement", BODY_MAX).await {
        Ok(body) => body,
        Err((status, message)) => return refused(status, &message),
    };
    let Ok(text) = std::str::from_utf8(&body) else {
        return refused(StatusCode::BAD_REQUEST, "the statement is not UTF-8");
    };
    let turn = services.sql.turn().await;
    match AnswerBody::begin(engine.ask(text, format), turn).await {
        Ok(answer) => {
            let mut response = Response::new(Body::new(answer));
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            response
        }
        Err(SqlRefusal::Statement(found)) => {
            let found = std::slice::from_ref(&*found);
            let catalog = services.asker.catalog();
            json(
                StatusCode::BAD_REQUEST,
                &fault("statement", text, found, catalog),
            )
        }
        Err(SqlRefusal::Rows(message)) => refused(StatusCode::UNPROCESSABLE_ENTITY, &message),
        Err(SqlRefusal::Failed(message)) => {
            tracing::error!(cause = message, "cannot answer SQL");
            refused(StatusCode::INTERNAL_SERVER_ERROR, &message)
        }
    }
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
