//! Keeps secrets out of answers: events, causes and states may have them in any place.
//!
//! Never: a change of what is no text (a backup), or of the text of an app, where a secret is `${…}`, and which comes
//! back when it was edited.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::middleware::Next;
use axum::response::Response;
use hyper::body::Frame;

use crate::secrets::Hidden;

/// Puts `…` in the place of each secret in an answer.
pub(super) async fn layer(State(hidden): State<Hidden>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let kind = response.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_text = ["text/", "application/json", "application/x-ndjson"]
        .iter()
        .any(|text| kind.starts_with(text));
    if !is_text || hidden.is_empty() {
        return response;
    }
    response.headers_mut().remove(CONTENT_LENGTH);
    response.map(|body| Body::new(HidingBody { body, hidden }))
}

/// Each frame of the body is whole lines, or all of it.
struct HidingBody {
    body: Body,
    hidden: Hidden,
}

impl HttpBody for HidingBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let HidingBody { body, hidden } = self.get_mut();
        let hide = |bytes: Bytes| match std::str::from_utf8(&bytes) {
            Ok(text) => match hidden.hide(text) {
                std::borrow::Cow::Owned(text) => Bytes::from(text),
                std::borrow::Cow::Borrowed(_) => bytes,
            },
            Err(_) => bytes,
        };
        Pin::new(body)
            .poll_frame(context)
            .map(|frame| frame.map(|frame| frame.map(|frame| frame.map_data(hide))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}
