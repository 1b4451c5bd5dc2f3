//! One request to a callback.

use std::io;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use connect::net::http_client::Client;
use connect::net::websub;
use connect::url::Url;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LINK, RETRY_AFTER};
use hyper::{Method, StatusCode};
use ring::hmac;

use super::now;
use super::state::Live;
use super::store::Event;

/// Bytes of an answer that are read, so that its connection can be used again.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Longest value of an option of `Retry-After`, in seconds, that is read.
const SECONDS_MAX: u64 = 10 * 365 * 24 * 3600;

const SIGNATURE: HeaderName = HeaderName::from_static("x-hub-signature");

/// Stable over all attempts, as Standard Webhooks have it; the time of the attempt; and what is signed of both.
const EVENT_ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const STANDARD_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

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
    if let Some((time, signature)) = standard(&saved.secret, event, now() / 1000) {
        headers.insert(TIMESTAMP, time);
        headers.insert(STANDARD_SIGNATURE, signature);
    }
    headers
}

/// Time and signature of an attempt as Standard Webhooks have them, for who has given a secret of that form: `whsec_`
/// and base64 of 24 to 64 bytes.
fn standard(secret: &[u8], event: &Event, now: i64) -> Option<(HeaderValue, HeaderValue)> {
    let text = std::str::from_utf8(secret).ok()?.strip_prefix("whsec_")?;
    let key = STANDARD_NO_PAD.decode(text.trim_end_matches('=')).ok()?;
    if !(24..=64).contains(&key.len()) {
        return None;
    }
    let mut signed = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &key));
    signed.update(format!("{}.{now}.", event.id).as_bytes());
    signed.update(&event.body);
    let signature = format!("v1,{}", STANDARD.encode(signed.sign()));
    Some((
        HeaderValue::from(now),
        HeaderValue::from_str(&signature).ok()?,
    ))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_a_secret_of_standard_webhooks_gets_their_signature() {
        let event = Event {
            number: 1,
            id: "msg_p5jXN8AQM9LWM0D4loKWxJek".to_owned(),
            kind: "application/json".to_owned(),
            body: bytes::Bytes::from_static(b"{\"test\": 2432232314}"),
        };
        // The example of the specification.
        let signed = standard(
            b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            &event,
            1_614_265_330,
        );
        let (time, signature) = signed.expect("it is such a secret");
        assert_eq!(time, "1614265330");
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        for other in [&b"s3cret"[..], b"whsec_c2hvcnQ=", b"whsec_*", b"\xff"] {
            assert!(standard(other, &event, 0).is_none());
        }
    }
}
