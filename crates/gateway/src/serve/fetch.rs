//! The content of a topic, fetched from its backend because a publisher says that it has changed (WebSub 6).

use std::io;

use hyper::body::Bytes;
use hyper::header::{
    CONTENT_TYPE, ETAG, HOST, HeaderMap, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    LAST_MODIFIED,
};
use hyper::{Method, StatusCode};
use ring::digest::{SHA256, digest};

use connect::net::http_client::OutgoingRequest;
use connect::url::Url;

use crate::gateway::Gateway;
use crate::topic::Fetched;

/// What a topic has now.
pub(super) struct Content {
    pub kind: String,
    pub body: Bytes,
    pub fetched: Fetched,
}

/// Asks a backend for what a topic has now, at most so many bytes; `None`: the same as `before`. A redirect is a
/// failure: where a topic is, its document says.
pub(super) async fn content(
    gateway: &Gateway,
    url: &Url,
    before: Option<&Fetched>,
    bytes_max: usize,
) -> io::Result<Option<Content>> {
    let mut headers = HeaderMap::new();
    let host = HeaderValue::from_str(&url.host_header());
    headers.insert(HOST, host.map_err(io::Error::other)?);
    if let Some(before) = before {
        let known = [
            (IF_NONE_MATCH, &before.tag),
            (IF_MODIFIED_SINCE, &before.modified),
        ];
        for (name, value) in known {
            if let Some(value) = value {
                headers.insert(name, value.clone());
            }
        }
    }
    let client = gateway.backends.client()?;
    let request = OutgoingRequest {
        method: &Method::GET,
        target: &client.request_target(url)?,
        headers: &headers,
        extra: None,
        body: &[],
        has_length: true,
    };
    let answer = client.send(url, &request).await?;
    let (status, told) = (answer.response.status(), answer.response.headers().clone());
    match status {
        StatusCode::OK => {}
        StatusCode::NOT_MODIFIED if before.is_some() => return Ok(None),
        status => return Err(io::Error::other(format!("it answered {status}"))),
    }
    let body = client.read_body(answer, bytes_max).await?;
    let fetched = Fetched {
        tag: told.get(ETAG).cloned(),
        modified: told.get(LAST_MODIFIED).cloned(),
        digest: digest(&SHA256, &body).as_ref().to_vec(),
    };
    // Not every backend knows what has changed.
    if before.is_some_and(|before| before.digest == fetched.digest) {
        return Ok(None);
    }
    let kind = told.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let of_body = || {
        let is_text = std::str::from_utf8(&body).is_ok();
        crate::topic::kind_of(&body, is_text)
    };
    Ok(Some(Content {
        kind: kind.unwrap_or_else(of_body).to_owned(),
        body: body.clone(),
        fetched,
    }))
}
