//! Answers that are no stream.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_REQUEST_HEADERS, CONTENT_TYPE, HeaderMap,
    HeaderValue, RETRY_AFTER, VARY,
};
use hyper::{Response, StatusCode};
use serde_json::json;

use super::stream::Body;
use crate::gateway::Served;

pub(crate) type Answer = Response<Body>;

/// Topics that are named to who has misspelt one.
const SHOWN: usize = 20;

pub(super) fn bytes(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let body = body.into();
    let is_empty = body.is_empty();
    let mut answer = Response::new(Body::Full(Full::new(body)));
    *answer.status_mut() = status;
    if !is_empty {
        answer
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    answer
}

pub(super) fn empty(status: StatusCode) -> Answer {
    bytes(status, "text/plain", Bytes::new())
}

/// A refusal in the words of API Manager's: code, message, description.
pub(crate) fn refused(status: StatusCode, description: &str) -> Answer {
    let body = json!({
        "code": status.as_str(),
        "message": status.canonical_reason().unwrap_or_default(),
        "description": description,
    });
    bytes(status, "application/json", format!("{body}\n"))
}

/// Nothing is taken now; the client is to come again.
pub(super) fn busy(description: &str) -> Answer {
    let mut answer = refused(StatusCode::SERVICE_UNAVAILABLE, description);
    answer
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

/// There is no such topic; that of an API it has.
pub(super) fn unknown(served: Option<&Served>) -> Answer {
    let Some(served) = served else {
        return refused(StatusCode::NOT_FOUND, "there is no API at this path");
    };
    let api = &served.api;
    let topics: Vec<&str> = api
        .topics
        .iter()
        .take(SHOWN)
        .map(|topic| topic.address())
        .collect();
    let more = match api.topics.len().saturating_sub(SHOWN) {
        0 => String::new(),
        left => format!(" and {left} more"),
    };
    let description = format!(
        "API '{}' has no topic at this path; below '{}' there is {}{more}",
        api.name,
        api.bases[0],
        topics.join(", ")
    );
    refused(StatusCode::NOT_FOUND, &description)
}

/// What a browser asks before a page may send a request. The origin was judged before.
pub(super) fn preflight(headers: &HeaderMap) -> Answer {
    let mut answer = empty(StatusCode::NO_CONTENT);
    let into = answer.headers_mut();
    let methods = HeaderValue::from_static("GET, HEAD, POST");
    into.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
    if let Some(asked) = headers.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        into.insert(ACCESS_CONTROL_ALLOW_HEADERS, asked.clone());
    }
    answer
}

/// A page of this origin may read the answer; also one to which its browser adds a cookie, unless any page may.
pub(super) fn allow_origin(into: &mut HeaderMap, origin: HeaderValue, is_any: bool) {
    if is_any {
        into.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        return;
    }
    into.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    let credentials = HeaderValue::from_static("true");
    into.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, credentials);
    into.append(VARY, HeaderValue::from_static("Origin"));
}
