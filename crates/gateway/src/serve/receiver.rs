//! The receiver of events of an API, at the path that API Manager gives it: what is posted there with the right
//! signature is published to the topic that the query names.

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};

use super::answer::{Answer, refused};
use super::{Peer, Port, access, publish, sse};
use crate::gateway::{Found, Served};
use crate::hub::receiver::PATH;
use crate::model::Operation;

/// The topic of an API that names none, in API Manager.
const DEFAULT: &str = "_default";

/// Is the path that of the receiver of an API that has one?
pub(super) fn is_receiver(served: &Served, path: &str) -> bool {
    let base = path.trim_end_matches('/').strip_suffix(PATH);
    let base = base.and_then(|base| base.strip_suffix('/'));
    let has_it = |base: &str| served.api.bases.iter().any(|own| own == base);
    served.api.hub.receiver.is_some() && base.is_some_and(has_it)
}

pub(super) async fn answer(
    request: Request<Incoming>,
    served: &Arc<Served>,
    port: &Port,
    peer: &Peer,
) -> Answer {
    let counts = &port.gateway.counts.refused;
    let Some(receiver) = &served.api.hub.receiver else {
        return refused(StatusCode::NOT_FOUND, "this API takes no events here");
    };
    if *request.method() != Method::POST {
        counts.method.add(1);
        return refused(StatusCode::METHOD_NOT_ALLOWED, "events are posted here");
    }
    let query = request.uri().query().unwrap_or_default();
    let name = sse::parameter(query, "topic").unwrap_or_else(|| DEFAULT.to_owned());
    let Some(found) = topic_of(served, &name) else {
        counts.unknown.add(1);
        return refused(
            StatusCode::NOT_FOUND,
            "the API has no topic of this name: name it by ?topic=",
        );
    };
    let (mut head, body) = request.into_parts();
    let max = served.api.message_max;
    let (body, account) = match publish::read(body, &head.headers, max, port).await {
        Ok(read) => read,
        Err(unread) => {
            counts.payload.add(1);
            return unread.answer(max);
        }
    };
    if !receiver.is_genuine(&head.headers, &body) {
        counts.access.add(1);
        let (api, topic) = (&served.api.name, name.as_str());
        tracing::warn!(api, topic, peer = %peer.address().ip(), "event with a wrong signature refused");
        return refused(
            StatusCode::UNAUTHORIZED,
            "the signature is missing or wrong",
        );
    }
    // Its signature is who it is.
    let mut shown = Request::new(());
    std::mem::swap(shown.headers_mut(), &mut head.headers);
    let open = Operation::default();
    let admission = match access::admit(&mut shown, &open, &found, None, port, peer).await {
        Ok(admission) => admission,
        Err(refusal) => return *refusal,
    };
    std::mem::swap(shown.headers_mut(), &mut head.headers);
    publish::handed(&head, (body, account), &admission, &found, port, peer).await
}

/// API Manager writes topics with a slash before them and without, in capitals and not.
fn topic_of(served: &Arc<Served>, name: &str) -> Option<Found> {
    let name = name.trim_start_matches('/');
    let is_it = |address: &str| address.trim_start_matches('/').eq_ignore_ascii_case(name);
    let mut topics = served.topics.iter();
    let topic = topics.position(|(topic, _)| {
        // What webhooks bring is signed in another way.
        let is_free = topic.parameters().is_empty() && topic.webhook.is_none();
        is_free && is_it(topic.address())
    })?;
    Some(Found {
        served: Arc::clone(served),
        topic,
        values: Vec::new(),
    })
}
