//! SQL over the event store by Flight SQL: gRPC for ADBC and JDBC, at an address of its own.
//!
//! What answers is handed in as a router; this door has the address, TLS, logins and limits of [`crate::http`].
//!
//! Promises: every request belongs to a user with the role `read`, by password or token; beyond loopback there are users
//! and TLS, unless the operator allows otherwise. Never: a session; whoever asks shows their login each time.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::Request;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::http::{HeaderName, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use http_body_util::{BodyExt as _, Limited};
use serde_json::Value as Json;

use crate::access::Door;
use crate::error::Error;
use crate::http::{Http, HttpOptions, beyond_loopback, serve_reading};

/// Types of the bodies of requests.
const KINDS: &[&str] = &["application/grpc", "application/grpc+proto"];

/// Bytes of a refusal.
const REFUSAL_MAX: usize = 64 << 10;

/// Refuses an address beyond loopback unless there are users and TLS, or the operator allows it.
///
/// # Errors
/// [`Error::Usage`], with what to do.
pub fn check(options: &HttpOptions) -> Result<(), Error> {
    beyond_loopback(options, "--sql-flight", "read all tables")
}

/// The door, until dropped.
pub struct Flight(Http);

impl Flight {
    /// Where it listens; with port 0 the system has chosen one.
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }

    /// Reads certificate and key again.
    ///
    /// # Errors
    /// As [`Http::reload_tls`].
    pub fn reload_tls(&self) -> Result<(), Error> {
        self.0.reload_tls()
    }
}

/// Serves what a router answers by gRPC to whoever may read.
///
/// # Errors
/// [`Error::Usage`] as [`check`]; [`Error::Listen`] if it cannot listen on the address.
pub fn serve(options: &HttpOptions, door: Door, router: Router) -> Result<Flight, Error> {
    check(options)?;
    let layer = |router: Router| router.layer(from_fn(said));
    let http = serve_reading(options, door, ("flight", KINDS), router, layer)?;
    Ok(Flight(http))
}

/// What refuses a request before gRPC sees it, as gRPC says it.
async fn said(request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let code = match response.status() {
        StatusCode::OK => return response,
        StatusCode::UNAUTHORIZED => "16",
        StatusCode::FORBIDDEN => "7",
        StatusCode::TOO_MANY_REQUESTS => "14",
        StatusCode::NOT_FOUND => "12",
        _ => "13",
    };
    let body = Limited::new(response.into_body(), REFUSAL_MAX)
        .collect()
        .await;
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    let said: Json = serde_json::from_slice(&body).unwrap_or_default();
    let message = said["message"]
        .as_str()
        .unwrap_or("the request was refused");
    let mut answer = Response::new(axum::body::Body::empty());
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(
        HeaderName::from_static("grpc-status"),
        HeaderValue::from_static(code),
    );
    if let Ok(message) = HeaderValue::from_str(&percent_encoded(message)) {
        headers.insert(HeaderName::from_static("grpc-message"), message);
    }
    answer
}

/// As `grpc-message` has it: what is not printable, and `%`.
fn percent_encoded(message: &str) -> String {
    let mut encoded = String::with_capacity(message.len());
    for byte in message.bytes() {
        match byte {
            b'%' | 0..=0x1f | 0x7f.. => encoded.push_str(&format!("%{byte:02X}")),
            plain => encoded.push(char::from(plain)),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_printable() {
        assert_eq!(percent_encoded("a 100 % é\n"), "a 100 %25 %C3%A9%0A");
    }
}
