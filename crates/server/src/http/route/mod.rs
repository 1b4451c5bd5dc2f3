//! What is answered: one file for each group of paths, and one line in [`GROUPS`].

mod feed;
mod metrics;
mod query;
mod simulation;
mod statistics;
mod stream;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::response::Response;

use super::Services;
use super::answer::text;
use super::guard::Guard;

/// Paths that belong together.
struct RouteGroup {
    /// What is answered, in words for whoever asks for a path that is not there.
    paths: &'static [&'static str],
    /// The paths with their handlers.
    routes: fn() -> Router<Services>,
}

const GROUPS: &[RouteGroup] = &[
    metrics::GROUP,
    statistics::GROUP,
    query::GROUP,
    stream::GROUP,
    simulation::GROUP,
    feed::GROUP,
];

/// All groups, behind the guard.
pub(super) fn router(services: Services, guard: Guard) -> Router {
    let mut router = Router::new();
    for group in GROUPS {
        router = router.merge((group.routes)());
    }
    router
        .fallback(unknown)
        .with_state(services)
        .layer(from_fn_with_state(Arc::new(guard), Guard::layer))
}

async fn unknown(request: Request) -> Response {
    match *request.method() {
        Method::GET | Method::HEAD => {
            let paths: Vec<&str> = GROUPS.iter().flat_map(|g| g.paths).copied().collect();
            let known = format!("there is {}\n", paths.join(", "));
            text(StatusCode::NOT_FOUND, known)
        }
        _ => only_get().await,
    }
}

/// The answer to any other method, where there is nothing but to read.
async fn only_get() -> Response {
    text(StatusCode::METHOD_NOT_ALLOWED, "use GET\n")
}
