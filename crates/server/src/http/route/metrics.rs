//! `/metrics` for Prometheus, `/ready` and `/health` for process supervisors, and `/status`, where the server
//! stands in one document (see [`crate::status`]).

use std::time::{Duration, Instant};

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::on;
use serde_json::json;

use super::Route;
use super::table::{Answer, Content};
use crate::access::{Caller, Role};
use crate::http::Services;
use crate::http::answer::{self, of_kind, text};
use crate::status::document;

/// The path that an option opens to anyone.
pub(in crate::http) const METRICS: &str = "/metrics";

/// An app that has been in one step for so long does not come out of it.
const STUCK_AFTER: Duration = Duration::from_secs(30);

const HEALTH: Content = Content::json(|| {
    json!({
        "type": "object",
        "required": ["status"],
        "properties": {
            "status": { "enum": ["healthy", "unhealthy"] },
            "stuck": { "type": "array", "items": { "type": "string" } },
        },
    })
});

pub(super) const ROUTES: &[Route] = &[
    Route::get(
        METRICS,
        Role::Read,
        "Counters and gauges in the text format of Prometheus",
        |method| on(method, metrics),
    )
    .answers(&[Answer::new(
        200,
        "Families of metrics",
        Content {
            kind: "text/plain; version=0.0.4; charset=utf-8",
            ..Content::TEXT
        },
    )]),
    Route::get(
        "/ready",
        Role::Read,
        "Whether all sources, sinks and stores are connected",
        |method| on(method, ready),
    )
    .for_anyone()
    .answers(&[
        Answer::new(200, "They are", Content::TEXT),
        Answer::new(503, "Some are not, one per line", Content::TEXT),
    ]),
    Route::get(
        "/health",
        Role::Read,
        "Whether the apps move, or wait for a peer",
        |method| on(method, health),
    )
    .for_anyone()
    .answers(&[
        Answer::new(200, "They do", HEALTH),
        Answer::new(503, "The names of those that do not", HEALTH),
    ]),
    Route::get(
        "/status",
        Role::Read,
        "Where the server stands: apps with their sources, sinks, tables and queries, and what is away",
        |method| on(method, status),
    )
    .answers(&[Answer::new(
        200,
        "The document",
        Content::json(|| {
            json!({
                "type": "object",
                "required": ["version", "server", "ready", "rejected", "apps"],
                "properties": {
                    "version": { "const": 1 },
                    "server": { "type": "object" },
                    "ready": { "type": "boolean" },
                    "rejected": { "type": "integer", "minimum": 0 },
                    "apps": { "type": "array", "items": { "type": "object" } },
                },
            })
        }),
    )]),
];

async fn status(State(services): State<Services>) -> Response {
    let status = document(&services.metrics, Instant::now());
    answer::json(StatusCode::OK, &status)
}

/// As Streaming Integrator says it, with the apps that are stuck.
async fn health(
    State(services): State<Services>,
    Extension(caller): Extension<Caller>,
) -> Response {
    let stuck = services.liveness.stuck(STUCK_AFTER);
    match stuck.is_empty() {
        true => answer::json(StatusCode::OK, &json!({ "status": "healthy" })),
        // Names of apps are for users.
        false if !caller.has(Role::Read) => answer::json(
            StatusCode::SERVICE_UNAVAILABLE,
            &json!({ "status": "unhealthy" }),
        ),
        false => answer::json(
            StatusCode::SERVICE_UNAVAILABLE,
            &json!({ "status": "unhealthy", "stuck": stuck }),
        ),
    }
}

async fn metrics(State(services): State<Services>) -> Response {
    of_kind(
        StatusCode::OK,
        "text/plain; version=0.0.4; charset=utf-8",
        services.metrics.prometheus(),
    )
}

async fn ready(State(services): State<Services>, Extension(caller): Extension<Caller>) -> Response {
    match services.metrics.not_ready() {
        None => text(StatusCode::OK, "ready\n"),
        // Names of apps are for users.
        Some(_) if !caller.has(Role::Read) => text(StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
        Some(what) => text(StatusCode::SERVICE_UNAVAILABLE, what),
    }
}
