//! The streams of an app, and events that are sent to them by hand, many in one request.
//!
//! `GET /siddhi-apps/{app}/streams` answers `{"appName":"…","streams":[{"name":"…","attributes":[…]}]}`.
//! `POST /siddhi-apps/{app}/streams/{stream}/events` takes rows, each a JSON value on its own line, or all
//! in one list: a row is `["a",1.5]` or `{"symbol":"a","price":1.5}`, and `{"timestamp":…,"data":row}` has
//! a timestamp. The answer is `{"appName":"…","streamName":"…","sent":2}`. Rows before one that does not
//! fit are in, and the refusal says how many. A body is at most [`BODY_MAX`] bytes.

use std::time::Instant;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::on;
use serde_json::{Value as Json, json};

use super::Route;
use super::table::{Answer, Content};
use crate::access::Role;
use crate::ask::Refusal;
use crate::http::Services;
use crate::http::answer::{self, ANSWER_MAX, body_of, refused};
use crate::http::gate::Change;
use crate::inject::{Misfit, Rows, Target, Unsent, streams_of};

/// Bytes of the rows of a request.
const BODY_MAX: usize = 4 << 20;

/// Seconds after which a client may try again where an app takes no more.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("1");

pub(super) const ROUTES: &[Route] = &[
    Route::get(
        "/siddhi-apps/{app}/streams",
        Role::Read,
        "The streams of an app with their attributes",
        |method| on(method, streams),
    )
    .answers(&[Answer::new(
        200,
        "The streams",
        Content::json(|| {
            json!({
                "type": "object",
                "required": ["appName", "streams"],
                "properties": {
                    "appName": { "type": "string" },
                    "streams": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["name", "attributes"],
                            "properties": {
                                "name": { "type": "string" },
                                "attributes": { "type": "array", "items": { "type": "object" } },
                            },
                        },
                    },
                },
            })
        }),
    )]),
    Route::post(
        "/siddhi-apps/{app}/streams/{stream}/events",
        Role::Operate,
        "Send rows to a stream: a list of rows, or one JSON value per line",
        |method| on(method, send),
    )
    .bodies(&[Content::json(
        || json!({ "type": ["array", "object"], "description": "a row, or a list of rows" }),
    )])
    .answers(&[Answer::new(
        200,
        "The app has them",
        Content::json(|| {
            json!({
                "type": "object",
                "required": ["appName", "streamName", "sent"],
                "properties": {
                    "appName": { "type": "string" },
                    "streamName": { "type": "string" },
                    "sent": { "type": "integer", "minimum": 0 },
                },
            })
        }),
    )]),
];

async fn streams(State(services): State<Services>, Path(app): Path<String>) -> Response {
    let app = match services.asker.app(Some(&app)) {
        Ok(app) => app,
        Err(refusal) => return unfound(&refusal),
    };
    let streams = streams_of(&app).map(|schema| {
        let attributes = schema.attributes.iter();
        let attributes = attributes
            .map(|a| json!({ "name": a.name, "dataType": a.ty.to_string().to_uppercase() }));
        json!({ "name": schema.name, "attributes": attributes.collect::<Vec<Json>>() })
    });
    let streams: Vec<Json> = streams.collect();
    let body = json!({ "appName": app.name, "streams": streams });
    answer::json(StatusCode::OK, &body)
}

fn unfound(refusal: &Refusal) -> Response {
    match refusal {
        Refusal::NoApp(message) => refused(StatusCode::NOT_FOUND, message),
        Refusal::Gone(message) => refused(StatusCode::SERVICE_UNAVAILABLE, message),
        Refusal::Query(_) => refused(StatusCode::BAD_REQUEST, "this is no query"),
    }
}

async fn send(
    State(services): State<Services>,
    Path((app, stream)): Path<(String, String)>,
    body: Body,
) -> Response {
    let until = Instant::now() + ANSWER_MAX;
    let target = match Target::find(&services.asker, Some(&app), &stream) {
        Ok(target) => target,
        Err(refusal) => return unfound(&refusal),
    };
    let body = match body_of(body, "a list of rows", BODY_MAX).await {
        Ok(body) => body,
        Err((status, message)) => return refused(status, &message),
    };
    let mut rows = target.rows();
    let wrong = read(&body, &mut rows).err();
    drop(body);
    let (sent, unsent) = target.send(rows.finish(), until).await;
    if let Some(unsent) = unsent {
        return late(&target, sent, unsent);
    }
    match wrong {
        None => {
            let stream = &target.schema().name;
            let body = json!({ "appName": target.app(), "streamName": stream, "sent": sent });
            let mut response = answer::json(StatusCode::OK, &body);
            let change = Change(format!("{sent} rows sent"));
            response.extensions_mut().insert(change);
            response
        }
        Some(misfit) => misfitting(&misfit, sent, &format!("row {}", sent + 1)),
    }
}

/// Takes the rows of a body up to the first that does not fit.
fn read(body: &[u8], rows: &mut Rows<'_>) -> Result<(), Misfit> {
    for value in serde_json::Deserializer::from_slice(body).into_iter::<Json>() {
        let value = value.map_err(|error| Misfit {
            column: None,
            cause: format!("it is no JSON: {error}"),
            expected: "rows as JSON, such as [\"a\",1.5], one per line or in one list".to_owned(),
        })?;
        match value {
            // A row has neither lists nor objects in it, so this is a list of rows.
            Json::Array(all) if all.first().is_none_or(|v| v.is_array() || v.is_object()) => {
                all.iter().try_for_each(|event| rows.push_event(event))?;
            }
            event => rows.push_event(&event)?,
        }
    }
    Ok(())
}

/// Status 400 for an event that does not fit, of which `place` says which it is.
pub(super) fn misfitting(misfit: &Misfit, sent: usize, place: &str) -> Response {
    let column = misfit.column.as_deref();
    let at = column.map_or_else(String::new, |name| format!(", attribute '{name}'"));
    let before = match sent {
        0 => String::new(),
        1 => "; the row before it is in".to_owned(),
        _ => format!("; the {sent} rows before it are in"),
    };
    let message = format!(
        "{place}{at}: {}; expected: {}{before}",
        misfit.cause, misfit.expected
    );
    let status = StatusCode::BAD_REQUEST;
    answer::json(
        status,
        &json!({
            "code": status.as_u16(),
            "status": "BAD_REQUEST",
            "message": message,
            "row": sent + 1,
            "column": column,
            "cause": misfit.cause,
            "expected": misfit.expected,
            "sent": sent,
        }),
    )
}

/// The answer where rows are not in, or not known to be.
pub(super) fn late(target: &Target, sent: usize, unsent: Unsent) -> Response {
    let app = target.app();
    let (status, name, why) = match unsent {
        Unsent::Full => (
            StatusCode::SERVICE_UNAVAILABLE,
            "SERVICE_UNAVAILABLE",
            "takes no more events for now: its queue is full, because a sink or store behind it is slow \
             or away; send the rest again later",
        ),
        Unsent::Gone => (
            StatusCode::SERVICE_UNAVAILABLE,
            "SERVICE_UNAVAILABLE",
            "has ended or is being reloaded; send the rest again",
        ),
        Unsent::Late => (
            StatusCode::GATEWAY_TIMEOUT,
            "GATEWAY_TIMEOUT",
            "has the events, but did not process or save them in time, because a sink or store behind it \
             is slow or away",
        ),
    };
    let in_already = match sent {
        0 => String::new(),
        sent => format!("; {sent} rows of this request are in for certain"),
    };
    let message = format!("app '{app}' {why}{in_already}");
    let mut response = answer::json(
        status,
        &json!({
            "code": status.as_u16(),
            "status": name,
            "message": message,
            "sent": sent,
        }),
    );
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, RETRY_SECONDS);
    }
    response
}
