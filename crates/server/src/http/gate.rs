//! Lets a request through to its route if whoever sends it has the role for it, and notes changes.
//!
//! Promises: the login is judged before a body is read, and before it is told whether a path exists; each
//! change, refused login and refused role is in the audit log.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::body::HttpBody as _;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, ORIGIN, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde_json::json;

use super::answer::{self, das_refused, refused};
use super::route::{Access, METRICS, Route};
use crate::access::audit::{Audit, Entry};
use crate::access::logins::{Login, Logins, Shown};
use crate::access::{Caller, Role};

/// The other end of the connection that a request came by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub SocketAddr);

/// What a request has changed: a handler puts it among the extensions of its answer, and it goes to the
/// audit log. Never a secret.
#[derive(Clone, Debug)]
pub(super) struct Change(pub String);

/// Knows who may do what.
pub(super) struct Gate {
    pub logins: Arc<Logins>,
    pub audit: Arc<Audit>,
    /// May anyone read the metrics?
    pub has_open_metrics: bool,
}

/// The gate before one route; `None`: before what is not there, which only users may be told.
#[derive(Clone)]
pub(super) struct Gated {
    pub gate: Arc<Gate>,
    pub route: Option<&'static Route>,
    /// Types of bodies where the route names none.
    pub kinds: &'static [&'static str],
}

/// What bodies are as a rule.
pub(super) const JSON: &[&str] = &["application/json"];

impl Gated {
    /// The middleware around a route.
    pub async fn layer(State(gated): State<Gated>, mut request: Request, next: Next) -> Response {
        let what = format!("{} {}", request.method(), request.uri().path());
        let caller = match gated
            .caller(shown(request.headers()), address(&request), &what)
            .await
        {
            Ok(caller) => caller,
            Err(refusal) => return *refusal,
        };
        if let Err((status, message)) = gated.check(&caller, &request) {
            let response = refused_at(gated.route, status, &message);
            if status == StatusCode::FORBIDDEN {
                gated.note(&caller, &what, &response);
            }
            return response;
        }
        request.extensions_mut().insert(caller.clone());
        let response = next.run(request).await;
        let is_change = gated.route.is_some_and(|route| route.is_change);
        if is_change || response.extensions().get::<Change>().is_some() {
            gated.note(&caller, &what, &response);
        }
        response
    }

    fn access(&self) -> Access {
        match self.route {
            None => Access::Role(Role::Read),
            Some(route) if route.path == METRICS && self.gate.has_open_metrics => Access::Anyone,
            Some(route) => route.access,
        }
    }

    /// Who it is, or the refusal.
    async fn caller(
        &self,
        shown: Shown,
        address: IpAddr,
        what: &str,
    ) -> Result<Caller, Box<Response>> {
        let is_open = self.access() == Access::Anyone;
        let as_nobody = |role| Caller {
            user: None,
            role,
            address,
        };
        match self.gate.logins.judge(shown, address).await {
            Login::NotNeeded => Ok(as_nobody(Some(Role::Admin))),
            Login::Is { user, role } => Ok(Caller {
                user: Some(user),
                role: Some(role),
                address,
            }),
            _ if is_open => Ok(as_nobody(None)),
            Login::Missing => Err(Box::new(self.unauthorized(
                "log in with the header 'Authorization: Bearer TOKEN' (headwater users token)",
            ))),
            Login::Wrong(user) => {
                let response = self.unauthorized("the login is wrong, or it has expired");
                self.gate.audit.note(&Entry {
                    user: user.as_deref(),
                    from: &address.to_string(),
                    what,
                    detail: Some("login refused"),
                    outcome: "refused",
                    status: Some(response.status().as_u16()),
                });
                Err(Box::new(response))
            }
            Login::Wait(wait) => {
                let seconds = wait.as_secs() + 1;
                let status = StatusCode::TOO_MANY_REQUESTS;
                let body = json!({
                    "code": status.as_u16(),
                    "message": format!("too many failed logins: try again in {seconds} s"),
                    "login": true,
                });
                let mut response = match self.route.is_some_and(Route::is_of_das) {
                    true => das_refused(status, body["message"].as_str().unwrap_or_default()),
                    false => answer::json(status, &body),
                };
                response
                    .headers_mut()
                    .insert(RETRY_AFTER, HeaderValue::from(seconds));
                Err(Box::new(response))
            }
        }
    }

    fn unauthorized(&self, message: &str) -> Response {
        let mut response = refused_at(self.route, StatusCode::UNAUTHORIZED, message);
        let headers = response.headers_mut();
        headers.append(
            WWW_AUTHENTICATE,
            HeaderValue::from_static("Bearer realm=\"headwater\""),
        );
        headers.append(
            WWW_AUTHENTICATE,
            HeaderValue::from_static("Basic realm=\"headwater\", charset=\"UTF-8\""),
        );
        response
    }

    fn check(&self, caller: &Caller, request: &Request) -> Result<(), (StatusCode, String)> {
        if let Access::Role(role) = self.access()
            && !caller.has(role)
        {
            return Err((StatusCode::FORBIDDEN, needs(role, caller)));
        }
        let params = self.route.map_or(&[][..], |route| route.query);
        if let Some(fault) = super::query::fault(params, request.uri().query()) {
            return Err((StatusCode::BAD_REQUEST, fault));
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
            names.extend(self.kinds);
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

    /// One line in the audit log.
    fn note(&self, caller: &Caller, what: &str, response: &Response) {
        let status = response.status();
        let outcome = match status.as_u16() {
            200..400 => "done",
            400..500 => "refused",
            _ => "failed",
        };
        let detail = response.extensions().get::<Change>();
        self.gate.audit.note(&Entry {
            user: caller.user.as_deref(),
            from: &caller.address.to_string(),
            what,
            detail: detail.map(|change| &*change.0),
            outcome,
            status: Some(status.as_u16()),
        });
    }
}

/// The message to somebody whose role is too small.
pub(super) fn needs(role: Role, caller: &Caller) -> String {
    let own = caller.role.map_or("none", Role::name);
    format!("this needs the role {role}; yours is {own}")
}

/// A refusal as the clients of a route know it.
fn refused_at(route: Option<&Route>, status: StatusCode, message: &str) -> Response {
    match route.is_some_and(Route::is_of_das) {
        true => das_refused(status, message),
        false => refused(status, message),
    }
}
fn address(request: &Request) -> IpAddr {
    let peer = request.extensions().get::<Peer>();
    let address = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0.ip());
    address.to_canonical()
}

/// Reads `Authorization`.
fn shown(headers: &HeaderMap) -> Shown {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = match (values.next(), values.next()) {
        (None, _) => return Shown::Nothing,
        (Some(value), None) => value.to_str().unwrap_or_default(),
        (Some(_), Some(_)) => return Shown::Unreadable,
    };
    let Some((scheme, rest)) = value.split_once(' ') else {
        return Shown::Unreadable;
    };
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Shown::Token(rest.to_owned());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return Shown::Unreadable;
    }
    // Clients of Flight in Go leave the padding out.
    let pair = STANDARD_NO_PAD.decode(rest.trim_end_matches('=')).ok();
    let pair = pair.and_then(|bytes| String::from_utf8(bytes).ok());
    match pair.as_deref().and_then(|pair| pair.split_once(':')) {
        Some((user, password)) => Shown::Password {
            user: user.to_owned(),
            password: password.to_owned(),
        },
        None => Shown::Unreadable,
    }
}
