//! Answers and bodies that routes share.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde_json::{Value as Json, json};

/// Time for a body, and for the answer of an app.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(30);

/// `{"code":…,"message":"…"}`.
pub(super) fn refused(status: StatusCode, message: &str) -> Response {
    json(
        status,
        &json!({ "code": status.as_u16(), "message": message }),
    )
}

/// The same as clients of WSO2 DAS know it.
pub(super) fn das_refused(status: StatusCode, message: &str) -> Response {
    let word = match status {
        StatusCode::UNAUTHORIZED => "unauthenticated",
        StatusCode::FORBIDDEN => "unauthorized",
        _ => "failed",
    };
    json(status, &json!({ "status": word, "message": message }))
}

pub(super) fn json(status: StatusCode, body: &Json) -> Response {
    of_kind(status, "application/json", body.to_string())
}

pub(super) fn text(status: StatusCode, body: impl Into<String>) -> Response {
    of_kind(status, "text/plain", body.into())
}

pub(super) fn of_kind(status: StatusCode, kind: &'static str, body: String) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// The body of a request, which is `what`, of `bytes_max` at most; or the refusal.
pub(super) async fn body_of(
    body: Body,
    what: &str,
    bytes_max: usize,
) -> Result<Bytes, (StatusCode, String)> {
    let body = Limited::new(body, bytes_max).collect();
    match tokio::time::timeout(ANSWER_MAX, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let message = format!("{what} is at most {bytes_max} bytes");
            Err((StatusCode::PAYLOAD_TOO_LARGE, message))
        }
        Ok(Err(_)) => {
            let message = format!("{what} was broken off");
            Err((StatusCode::BAD_REQUEST, message))
        }
        Err(_) => {
            let message = format!("{what} was announced but not sent");
            Err((StatusCode::REQUEST_TIMEOUT, message))
        }
    }
}
