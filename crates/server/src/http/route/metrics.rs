//! `/metrics` for Prometheus, `/ready` and `/health` for process supervisors.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::on;

use super::Route;
use super::table::{Answer, Content};
use crate::access::Role;
use crate::http::Services;
use crate::http::answer::{of_kind, text};

pub(super) const ROUTES: &[Route] = &[
    Route::get(
        "/metrics",
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
        "Whether the process lives",
        |method| on(method, health),
    )
    .for_anyone()
    .answers(&[Answer::new(200, "It does", Content::TEXT)]),
];

async fn health() -> Response {
    text(StatusCode::OK, "alive\n")
}

async fn metrics(State(services): State<Services>) -> Response {
    of_kind(
        StatusCode::OK,
        "text/plain; version=0.0.4; charset=utf-8",
        services.metrics.prometheus(),
    )
}

async fn ready(State(services): State<Services>) -> Response {
    match services.metrics.not_ready() {
        None => text(StatusCode::OK, "ready\n"),
        Some(what) => text(StatusCode::SERVICE_UNAVAILABLE, what),
    }
}
