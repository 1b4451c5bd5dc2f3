//! `/metrics` for Prometheus and `/ready` for process supervisors.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;

use super::{RouteGroup, only_get};
use crate::http::Services;
use crate::http::answer::{of_kind, text};

pub(super) const GROUP: RouteGroup = RouteGroup {
    paths: &["/metrics", "/ready"],
    routes: || {
        Router::new()
            .route("/metrics", get(metrics).fallback(only_get))
            .route("/ready", get(ready).fallback(only_get))
    },
};

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
