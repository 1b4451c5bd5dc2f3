//! One request to a callback.

use std::io;
use std::time::Duration;

use connect::net::http_client::Client;
use connect::net::websub;
use connect::url::Url;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LINK, RETRY_AFTER};
use hyper::{Method, StatusCode};

use super::state::Live;
use super::store::Event;

/// Bytes of an answer that are read, so that its connection can be used again.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Longest value of an option of `Retry-After`, in seconds, that is read.
const SECONDS_MAX: u64 = 10 * 365 * 24 * 3600;

const SIGNATURE: HeaderName = HeaderName::from_static("x-hub-signature");

/// Stable over all attempts, as Standard Webhooks have it.
const EVENT_ID: HeaderName = HeaderName::from_static("webhook-id");

/// The headers of a delivery.
pub(super) fn headers(live: &Live, event: &Event) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let saved = &live.saved;
    if let Ok(kind) = HeaderValue::from_str(&event.kind) {
        headers.insert(CONTENT_TYPE, kind);
    }
    if let Ok(id) = HeaderValue::from_str(&event.id) {
        headers.insert(EVENT_ID, id);
    }
    let hub = (!saved.hub.is_empty()).then_some(saved.hub.as_str());
    if let Some(links) = websub::links(hub, &saved.named) {
        headers.insert(LINK, links);
    }
    let signature = live
        .key
        .as_ref()
        .and_then(|key| saved.digest.signature(key, &event.body));
    if let Some(signature) = signature {
        headers.insert(SIGNATURE, signature);
    }
    headers
}

/// Asks a callback; its status, and the pause that it asks for. What else it answers is of no interest.
pub(super) async fn ask(
    client: &Client,
    method: &Method,
    url: &Url,
    mut headers: HeaderMap,
    body: &[u8],
) -> io::Result<(StatusCode, Option<Duration>)> {
    let answer = websub::send(client, method, url, &mut headers, body).await?;
    let status = answer.response.status();
    let pause = answer.response.headers().get(RETRY_AFTER);
    let pause = pause.and_then(|pause| pause.to_str().ok()?.trim().parse::<u64>().ok());
    // Read so that its connection may serve again; where that fails it is closed, and the status counts.
    client.read_body(answer, ANSWER_BYTES_MAX).await.ok();
    Ok((
        status,
        pause.map(|seconds| Duration::from_secs(seconds.min(SECONDS_MAX))),
    ))
}
