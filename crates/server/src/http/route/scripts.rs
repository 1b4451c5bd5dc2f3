//! Batch scripts: which there are, what their last runs came to, and running one now.
//!
//! A script is `{"name":…,"cron":…,"next":…,"running":…,"succeeded":N,"failed":N,"late":N,"last":…}`; its last run has
//! `started`, `millis`, `rows`, `outcomes` (one for each statement that gives rows or writes them; not in the list of
//! all) and, where it failed, `error` as `POST /sql` answers it. Times are UTC. A run that takes longer than
//! [`ANSWER_MAX`] goes on, and is looked for under `GET /scripts/{name}`.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::on;
use serde_json::json;

use super::Route;
use super::table::{Answer, Content};
use crate::access::Role;
use crate::http::Services;
use crate::http::answer::{ANSWER_MAX, json, refused};
use crate::scripts::Refused;

const SCRIPT: Content = Content::json(|| {
    json!({
        "type": "object",
        "required": ["name", "succeeded", "failed", "late"],
        "properties": {
            "name": { "type": "string" },
            "cron": { "type": ["string", "null"] },
            "next": { "type": ["string", "null"] },
            "running": { "type": ["string", "null"], "description": "since when it runs" },
            "succeeded": { "type": "integer" },
            "failed": { "type": "integer" },
            "late": { "type": "integer", "description": "runs that were left out" },
            "last": { "type": ["object", "null"] },
        },
    })
});

const SCRIPTS: Content =
    Content::json(|| json!({ "type": "array", "items": { "type": "object" } }));

const RUN: Content = Content::json(|| {
    json!({
        "type": "object",
        "properties": {
            "started": { "type": "string" },
            "millis": { "type": "integer" },
            "rows": { "type": "integer" },
            "outcomes": { "type": "array", "items": { "type": "object" } },
            "error": { "type": "object" },
            "message": { "type": "string" },
        },
    })
});

pub(super) const ROUTES: &[Route] = &[
    Route::get("/scripts", Role::Read, "The batch scripts", |method| {
        on(method, list)
    })
    .answers(&[Answer::new(200, "All scripts", SCRIPTS)]),
    Route::get(
        "/scripts/{name}",
        Role::Read,
        "A batch script and its last run",
        |method| on(method, show),
    )
    .answers(&[Answer::new(200, "The script", SCRIPT)]),
    Route::post(
        "/scripts/{name}/run",
        Role::Operate,
        "Run a batch script now",
        |method| on(method, run),
    )
    .answers(&[
        Answer::new(200, "It has run", RUN),
        Answer::new(202, "It is still running", RUN),
    ]),
];

async fn list(State(services): State<Services>) -> Response {
    json(StatusCode::OK, &services.scripts.list())
}

async fn show(State(services): State<Services>, Path(name): Path<String>) -> Response {
    match services.scripts.show(&name) {
        Some(script) => json(StatusCode::OK, &script),
        None => unknown(&services, &name),
    }
}

async fn run(State(services): State<Services>, Path(name): Path<String>, _: Body) -> Response {
    let ended = match services.scripts.run(&name) {
        Ok(ended) => ended,
        Err(Refused::Unknown) => return unknown(&services, &name),
        Err(Refused::Busy) => {
            let message = format!("script '{name}' is running already");
            return refused(StatusCode::CONFLICT, &message);
        }
        Err(Refused::Stopping) => {
            let message = "the server is being stopped, or has no thread left";
            return refused(StatusCode::SERVICE_UNAVAILABLE, message);
        }
    };
    match tokio::time::timeout(ANSWER_MAX, ended).await {
        Ok(Ok(run)) => match run.get("error") {
            None => json(StatusCode::OK, &run),
            Some(error) => {
                let mut error = error.clone();
                error["run"] = run;
                json(StatusCode::UNPROCESSABLE_ENTITY, &error)
            }
        },
        Ok(Err(_)) => refused(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the script has ended by an internal error: see the log",
        ),
        Err(_) => {
            let message =
                format!("script '{name}' is still running: look for it at /scripts/{name}");
            json(StatusCode::ACCEPTED, &json!({ "message": message }))
        }
    }
}

fn unknown(services: &Services, name: &str) -> Response {
    let names = services.scripts.names();
    let message = match names.is_empty() {
        true => "there are no scripts: name them with --scripts".to_owned(),
        false => format!("there is no script '{name}'; there is {}", names.join(", ")),
    };
    refused(StatusCode::NOT_FOUND, &message)
}
