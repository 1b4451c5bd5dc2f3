//! What is answered: one file for each group of paths, and one line in [`GROUPS`].
//!
//! A route is data ([`table::Route`]). From it come the check of the role, the answer to another method,
//! the list of paths, and the OpenAPI document.

mod analytics;
mod apps;
mod errors;
mod feed;
mod gateway;
mod metrics;
mod openapi;
mod query;
mod scripts;
mod simulation;
mod sql;
mod state;
mod statistics;
mod store;
mod stream;
mod table;
mod tap;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::Response;

use super::Services;
use super::answer::refused;
use super::gate::{Gate, Gated, JSON};
use super::guard::Guard;
use super::hiding;
pub(super) use metrics::METRICS;
pub use query::{fault, records, value};
pub(super) use table::{Access, Param, Route};

const GROUPS: &[&[Route]] = &[
    metrics::ROUTES,
    apps::ROUTES,
    statistics::ROUTES,
    query::ROUTES,
    sql::ROUTES,
    scripts::ROUTES,
    store::ROUTES,
    analytics::ROUTES,
    stream::ROUTES,
    simulation::ROUTES,
    feed::ROUTES,
    tap::ROUTES,
    errors::ROUTES,
    errors::si::ROUTES,
    state::ROUTES,
    gateway::ROUTES,
    openapi::ROUTES,
];

/// All routes, in the order of their groups.
pub(super) fn all() -> impl Iterator<Item = &'static Route> {
    GROUPS.iter().copied().flatten()
}

/// All routes, each behind the gate, and the guard around them.
pub(super) fn router(services: Services, guard: Guard, gate: Gate) -> Router {
    let gate = Arc::new(gate);
    let hidden = services.hidden.clone();
    let mut router = Router::new();
    for route in all() {
        let gated = Gated {
            gate: Arc::clone(&gate),
            route: Some(route),
            kinds: JSON,
        };
        let serve = || {
            let layer = from_fn_with_state(gated.clone(), Gated::layer);
            let served = (route.serve)(route.verb.filter()).route_layer(layer);
            match route.path == apps::TEXT_PATH {
                true => served,
                false => served.route_layer(from_fn_with_state(hidden.clone(), hiding::layer)),
            }
        };
        router = router
            .route(route.path, serve())
            .route(&format!("{}/", route.path), serve());
    }
    let unknown = Gated {
        gate,
        route: None,
        kinds: JSON,
    };
    let none = async |request: Request| unrouted(&request);
    let fallback = axum::routing::any(none).layer(from_fn_with_state(unknown, Gated::layer));
    router
        .method_not_allowed_fallback(async |request: Request| unrouted(&request))
        .fallback_service(fallback.with_state(()))
        .with_state(services)
        .layer(from_fn_with_state(Arc::new(guard), Guard::layer))
}

/// The answer to a path or a method that is not there.
fn unrouted(request: &Request) -> Response {
    let path = request.uri().path();
    let verbs: Vec<&str> = all()
        .filter(|route| route.leads(path))
        .map(|route| route.verb.name())
        .collect();
    if !verbs.is_empty() {
        let message = format!("use {}", verbs.join(" or "));
        return refused(StatusCode::METHOD_NOT_ALLOWED, &message);
    }
    let known: Vec<String> = all()
        .map(|route| format!("{} {}", route.verb.name(), route.path))
        .collect();
    let message = format!("there is no such path; there is {}", known.join(", "));
    refused(StatusCode::NOT_FOUND, &message)
}
