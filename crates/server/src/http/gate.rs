//! Lets a request through to its route if whoever sends it has the role for it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::body::HttpBody as _;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_TYPE, ORIGIN};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

use super::answer::refused;
use super::route::{Access, Route};
use crate::access::{Caller, Role};

/// The other end of the connection that a request came by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub SocketAddr);

/// Knows who may do what.
#[derive(Debug, Default)]
pub(super) struct Gate {}

/// The gate before one route; `None`: before what is not there, which only users may be told.
#[derive(Clone)]
pub(super) struct Gated {
    pub gate: Arc<Gate>,
    pub route: Option<&'static Route>,
}

impl Gated {
    /// The middleware around a route.
    pub async fn layer(State(gated): State<Gated>, mut request: Request, next: Next) -> Response {
        let caller = gated.gate.caller(&request);
        if let Err((status, message)) = gated.check(&caller, &request) {
            return refused(status, &message);
        }
        request.extensions_mut().insert(caller);
        next.run(request).await
    }

    fn check(&self, caller: &Caller, request: &Request) -> Result<(), (StatusCode, String)> {
        let access = self.route.map_or(Access::Role(Role::Read), |r| r.access);
        if let Access::Role(role) = access
            && !caller.has(role)
        {
            let message = format!("this needs the role {role}");
            return Err((StatusCode::FORBIDDEN, message));
        }
        self.check_kind(request)
    }

    /// A page can send a body of a simple type anywhere without asking first; so a body has the type that
    /// its route takes.
    fn check_kind(&self, request: &Request) -> Result<(), (StatusCode, String)> {
        let is_write = matches!(
            *request.method(),
            Method::POST | Method::PUT | Method::PATCH
        );
        if !is_write || request.body().is_end_stream() {
            return Ok(());
        }
        let kind = request.headers().get(CONTENT_TYPE);
        let kind = kind.map(|kind| String::from_utf8_lossy(kind.as_bytes()).into_owned());
        let kind = kind.as_deref().unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        let taken = self.route.map_or(&[][..], |route| route.bodies);
        let mut names: Vec<&str> = taken.iter().map(|content| content.kind).collect();
        if names.is_empty() {
            names.push("application/json");
        }
        if names.iter().any(|name| name.eq_ignore_ascii_case(kind)) {
            // Every browser of today says by one of these that a page has sent it.
            let from_page = [ORIGIN.as_str(), "sec-fetch-site"];
            let is_simple = kind.eq_ignore_ascii_case("text/plain");
            if !is_simple
                || !from_page
                    .iter()
                    .any(|name| request.headers().contains_key(*name))
            {
                return Ok(());
            }
            names.retain(|name| !name.eq_ignore_ascii_case(kind));
        }
        let message = format!(
            "the body has another type than this path takes: send it with the header 'Content-Type: {}'",
            names.join("' or 'Content-Type: ")
        );
        Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, message))
    }
}

impl Gate {
    /// Without a login, who can connect may do everything.
    fn caller(&self, request: &Request) -> Caller {
        let peer = request.extensions().get::<Peer>();
        let address = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0.ip());
        Caller {
            user: None,
            role: Some(Role::Admin),
            address: address.to_canonical(),
        }
    }
}
