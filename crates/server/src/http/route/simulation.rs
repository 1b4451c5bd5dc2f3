//! The event simulator of Streaming Integrator.
//!
//! `POST /simulation/single` sends one event: `{"siddhiAppName":"…","streamName":"…","timestamp":…,"data":[…]}`,
//! where `timestamp` (milliseconds since 1970) may be absent or null. The answer is
//! `{"status":"OK","message":"…"}`; a refusal has the same two fields with a `code`. A body is at most
//! [`BODY_MAX`] bytes.

use std::time::Instant;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::on;
use serde_json::{Value as Json, json};

use super::Route;
use super::stream::{late, misfitting};
use super::table::{Answer, Content};
use crate::access::Role;
use crate::ask::Refusal;
use crate::http::Services;
use crate::http::answer::{self, ANSWER_MAX, body_of};
use crate::http::gate::Change;
use crate::inject::{Target, timestamp};

/// Bytes of an event with all around it.
const BODY_MAX: usize = 1 << 20;

pub(super) const ROUTES: &[Route] = &[Route::post(
    "/simulation/single",
    Role::Operate,
    "Send one event to a stream, as the event simulator of Streaming Integrator does",
    |method| on(method, single),
)
.bodies(&[Content::json(|| {
    json!({
        "type": "object",
        "required": ["siddhiAppName", "streamName", "data"],
        "properties": {
            "siddhiAppName": { "type": "string", "minLength": 1 },
            "streamName": { "type": "string", "minLength": 1 },
            "timestamp": {
                "type": ["integer", "string", "null"],
                "description": "milliseconds since 1970; by default the event's arrival",
            },
            "data": { "type": ["array", "object"] },
        },
    })
})])
.answers(&[Answer::new(200, "The app has it", SAID)])];

/// `{"status":"…","message":"…"}`.
pub(super) const SAID: Content = Content::json(|| {
    json!({
        "type": "object",
        "required": ["status", "message"],
        "properties": { "status": { "type": "string" }, "message": { "type": "string" } },
    })
});

async fn single(State(services): State<Services>, body: Body) -> Response {
    let until = Instant::now() + ANSWER_MAX;
    let body = match body_of(body, "an event", BODY_MAX).await {
        Ok(body) => body,
        Err((status, message)) => return said(status, &message),
    };
    let Ok(event) = serde_json::from_slice::<Json>(&body) else {
        return said(
            StatusCode::BAD_REQUEST,
            r#"the body is not JSON: send {"siddhiAppName":"…","streamName":"…","data":[…]}"#,
        );
    };
    let of = |name: &str| event[name].as_str().filter(|text| !text.is_empty());
    let (Some(app), Some(stream)) = (of("siddhiAppName"), of("streamName")) else {
        let missing = match of("streamName") {
            None => "'streamName'",
            Some(_) => "'siddhiAppName'",
        };
        return said(
            StatusCode::BAD_REQUEST,
            &format!(
                "{missing} is missing or empty: say which stream of which app the event is for"
            ),
        );
    };
    let target = match Target::find(&services.asker, Some(app), stream) {
        Ok(target) => target,
        Err(Refusal::NoApp(message)) => return said(StatusCode::NOT_FOUND, &message),
        Err(_) => return said(StatusCode::SERVICE_UNAVAILABLE, "the app has ended"),
    };
    let mut rows = target.rows();
    let pushed = timestamp(event.get("timestamp"))
        .and_then(|time| rows.push(event.get("data").unwrap_or(&Json::Null), time));
    if let Err(misfit) = pushed {
        return misfitting(&misfit, 0, "event");
    }
    match target.send(rows.finish(), until).await {
        (_, None) => {
            let done = "Single Event simulation started successfully";
            let mut response = said(StatusCode::OK, done);
            let change = Change(format!("1 row sent to {app}/{stream}"));
            response.extensions_mut().insert(change);
            response
        }
        (sent, Some(unsent)) => late(&target, sent, unsent),
    }
}

/// `{"status":"…","message":"…"}`, as Streaming Integrator answers; a refusal with its code.
pub(super) fn said(status: StatusCode, message: &str) -> Response {
    let reason = status.canonical_reason().unwrap_or_default();
    let name = reason.to_uppercase().replace(' ', "_");
    let mut body = json!({ "status": name, "message": message });
    if !status.is_success() {
        body["code"] = json!(status.as_u16());
    }
    answer::json(status, &body)
}
