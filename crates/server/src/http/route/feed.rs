//! Feeds of Streaming Integrator's event simulator, by its paths and in its words.
//!
//! `POST /simulation/feed` keeps a configuration, `PUT`, `GET` and `DELETE /simulation/feed/{name}` change, show
//! and forget it; `POST /simulation/feed/{name}?action=run|pause|resume|stop` has it sent;
//! `GET /simulation/feed/{name}/status` answers `RUN`, `PAUSE` or `STOP`. All answers are
//! `{"status":"…","message":"…"}`. A body is at most [`BODY_MAX`] bytes.

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::on;
use serde_json::{Value as Json, json};

use super::Route;
use super::simulation::{SAID, said};
use super::table::{Answer, Content, Param};
use crate::access::{Caller, Role};
use crate::feed::{self, Fault, State as Feed};
use crate::http::Services;
use crate::http::answer::body_of;
use crate::http::gate::needs;

/// Bytes of a configuration.
const BODY_MAX: usize = 64 << 10;

pub(super) const ROUTES: &[Route] = &[
    Route::get(
        "/simulation/feed",
        Role::Read,
        "The feeds of the event simulator",
        |method| on(method, list),
    )
    .answers(&[Answer::new(200, "All feeds", SAID)]),
    Route::post(
        "/simulation/feed",
        Role::Operate,
        "Keep the configuration of a feed",
        |method| on(method, create),
    )
    .bodies(CONFIGURATION)
    .answers(&[Answer::new(201, "It is kept", SAID)]),
    Route::get(
        "/simulation/feed/{name}",
        Role::Read,
        "The configuration of a feed",
        |method| on(method, show),
    )
    .answers(&[Answer::new(200, "The configuration", SAID)]),
    Route::put(
        "/simulation/feed/{name}",
        Role::Operate,
        "Replace the configuration of a feed",
        |method| on(method, replace),
    )
    .bodies(CONFIGURATION)
    .answers(&[Answer::new(200, "It is replaced", SAID)]),
    Route::delete(
        "/simulation/feed/{name}",
        Role::Operate,
        "Forget a feed",
        |method| on(method, delete),
    )
    .answers(&[Answer::new(200, "It is forgotten", SAID)]),
    Route::post(
        "/simulation/feed/{name}",
        Role::Operate,
        "Run, pause, resume or stop a feed",
        |method| on(method, operate),
    )
    .query(&[Param {
        name: "action",
        about: "run, pause, resume or stop, in upper or lower case",
        is_needed: true,
        // Another is refused in the words of Streaming Integrator.
        schema: || json!({ "type": "string" }),
    }])
    .answers(&[Answer::new(200, "It is done", SAID)]),
    Route::get(
        "/simulation/feed/{name}/status",
        Role::Read,
        "The state of a feed: RUN, PAUSE or STOP",
        |method| on(method, state),
    )
    .answers(&[Answer::new(200, "The state", SAID)]),
];

const CONFIGURATION: &[Content] = &[Content::json(crate::feed::schema)];

async fn list(services: State<Services>) -> Response {
    let all = services.feeds.list(&services.asker);
    said(StatusCode::OK, &all.to_string())
}

async fn create(
    services: State<Services>,
    Extension(caller): Extension<Caller>,
    body: Body,
) -> Response {
    let json = match configuration(body, &caller).await {
        Ok(json) => json,
        Err((status, message)) => return said(status, &message),
    };
    let named = json["properties"]["simulationName"].clone();
    match services.feeds.put(json, None, services.asker.catalog()) {
        Ok(name) => said(
            StatusCode::CREATED,
            &format!("Successfully uploaded simulation configuration '{name}'"),
        ),
        Err(fault) => refusal(&fault, named.as_str().unwrap_or_default()),
    }
}

async fn replace(
    services: State<Services>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    body: Body,
) -> Response {
    let json = match configuration(body, &caller).await {
        Ok(json) => json,
        Err((status, message)) => return said(status, &message),
    };
    let catalog = services.asker.catalog();
    match services.feeds.put(json, Some(&name), catalog) {
        Ok(_) => said(
            StatusCode::OK,
            &format!("Successfully updated simulation configuration '{name}'."),
        ),
        Err(fault) => refusal(&fault, &name),
    }
}

/// Who names a database has the server log in there, as an app does.
async fn configuration(body: Body, caller: &Caller) -> Result<Json, (StatusCode, String)> {
    let body = body_of(body, "a simulation configuration", BODY_MAX).await?;
    let json = serde_json::from_slice(&body).map_err(|error| {
        let message = format!("the simulation configuration is not JSON: {error}");
        (StatusCode::BAD_REQUEST, message)
    })?;
    match feed::reads_databases(&json) && !caller.has(Role::Deploy) {
        true => Err((StatusCode::FORBIDDEN, needs(Role::Deploy, caller))),
        false => Ok(json),
    }
}

async fn show(services: State<Services>, Path(name): Path<String>) -> Response {
    match services.feeds.get(&name) {
        Ok(feed) => {
            let message = json!({ "Simulation configuration": feed }).to_string();
            said(StatusCode::OK, &message)
        }
        Err(fault) => refusal(&fault, &name),
    }
}

async fn delete(services: State<Services>, Path(name): Path<String>) -> Response {
    match services.feeds.delete(&name) {
        Ok(()) => said(
            StatusCode::OK,
            &format!("Successfully deleted simulation configuration '{name}'"),
        ),
        Err(fault) => refusal(&fault, &name),
    }
}

async fn state(services: State<Services>, Path(name): Path<String>) -> Response {
    match services.feeds.state(&name) {
        Ok(state) => said(StatusCode::OK, word(state)),
        Err(fault) => refusal(&fault, &name),
    }
}

async fn operate(
    State(services): State<Services>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let query = query.unwrap_or_default();
    let action = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("action="));
    let action = action.unwrap_or_default().to_lowercase();
    let feeds = &services.feeds;
    let (done, what) = match action.as_str() {
        "run" => (
            feeds.run(&name, &services.asker).await,
            "started simulation",
        ),
        "pause" => (
            feeds.change(&name, &[Feed::Run], Feed::Pause),
            "paused event simulation",
        ),
        "resume" => (
            feeds.change(&name, &[Feed::Pause], Feed::Run),
            "resumed event simulation",
        ),
        "stop" => (
            feeds.change(&name, &[Feed::Run, Feed::Pause], Feed::Stop),
            "stopped event simulation",
        ),
        _ => {
            let message = format!(
                "Invalid action '{action}' specified for simulation '{name}'. Actions supported are 'RUN', \
                 'PAUSE', 'RESUME', 'STOP'."
            );
            return said(StatusCode::BAD_REQUEST, &message);
        }
    };
    match done {
        Ok(()) => said(StatusCode::OK, &format!("Successfully {what} '{name}'.")),
        Err(Fault::Is(state)) => unsuited(&action, state, &name),
        Err(fault) => refusal(&fault, &name),
    }
}

fn word(state: Feed) -> &'static str {
    match state {
        Feed::Run => "RUN",
        Feed::Pause => "PAUSE",
        Feed::Stop => "STOP",
    }
}

/// 409 where it is so already, 403 where something else must come first.
fn unsuited(action: &str, state: Feed, name: &str) -> Response {
    let (status, why) = match (action, state) {
        ("run", Feed::Pause) => (
            StatusCode::FORBIDDEN,
            "is currently paused and cannot be restarted",
        ),
        ("run", _) => (
            StatusCode::CONFLICT,
            "is currently in progress and cannot be restarted",
        ),
        ("pause", Feed::Pause) => (StatusCode::CONFLICT, "is already paused"),
        ("pause", _) => (
            StatusCode::FORBIDDEN,
            "is currently stopped, hence it cannot be paused",
        ),
        ("resume", Feed::Run) => (
            StatusCode::CONFLICT,
            "is currently in progress, hence it cannot be resumed",
        ),
        ("resume", _) => (
            StatusCode::FORBIDDEN,
            "is currently stopped, hence it cannot be resumed",
        ),
        _ => (StatusCode::CONFLICT, "is already stopped"),
    };
    said(status, &format!("Simulation '{name}' {why}."))
}

fn refusal(fault: &Fault, name: &str) -> Response {
    match fault {
        Fault::Unknown => said(
            StatusCode::NOT_FOUND,
            &format!("No event simulation configuration available under simulation name '{name}'."),
        ),
        Fault::Known => said(
            StatusCode::CONFLICT,
            &format!("A simulation already exists under the name '{name}'"),
        ),
        Fault::Is(state) => said(
            StatusCode::CONFLICT,
            &format!("Simulation '{name}' is in state {}.", word(*state)),
        ),
        Fault::Wrong(cause) => said(StatusCode::BAD_REQUEST, cause),
        Fault::TooMany => said(
            StatusCode::TOO_MANY_REQUESTS,
            "there are too many simulations: delete those that are not needed",
        ),
    }
}
