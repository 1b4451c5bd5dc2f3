//! What another hub says to a topic that follows one of its own: questions and deliveries (WebSub 5.3 and 7).

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};

use connect::net::websub::parameters;

use super::answer::{Answer, bytes, refused};
use super::{Peer, Port, access, publish};
use crate::gateway::Found;
use crate::model::{Operation, Topic};

/// Is a request one of a hub?
pub(super) fn is_meant<B>(request: &Request<B>, topic: &Topic) -> bool {
    if topic.follow.is_none() {
        return false;
    }
    let query = request.uri().query().unwrap_or_default();
    match *request.method() {
        Method::GET => query.contains("hub.mode="),
        Method::POST => request.headers().contains_key("x-hub-signature"),
        _ => false,
    }
}

pub(super) async fn answer(
    mut request: Request<Incoming>,
    found: Found,
    port: &Port,
    peer: &Peer,
) -> Answer {
    let counts = &port.gateway.counts;
    let (_, state) = &found.served.topics[found.topic];
    let following = state.following();
    if *request.method() == Method::GET {
        let query = request.uri().query().unwrap_or_default();
        let answer = following.and_then(|following| following.answer(&parameters(query)));
        return match answer {
            Some(challenge) => bytes(StatusCode::OK, "text/plain", challenge),
            None => {
                counts.refused.unknown.add(1);
                refused(
                    StatusCode::NOT_FOUND,
                    "nothing of the kind was asked of a hub",
                )
            }
        };
    }
    // Its signature is who it is.
    let open = Operation::default();
    let admitted = access::admit(&mut request, &open, &found, None, port, peer).await;
    let admission = match admitted {
        Ok(admission) => admission,
        Err(refusal) => return *refusal,
    };
    let (head, body) = request.into_parts();
    let max = admission.message_max(found.served.api.message_max);
    let (body, account) = match publish::read(body, &head.headers, max, port).await {
        Ok(read) => read,
        Err(unread) => {
            counts.refused.payload.add(1);
            return unread.answer(max);
        }
    };
    if !following.is_some_and(|following| following.is_genuine(&head.headers, &body)) {
        counts.refused.access.add(1);
        if let Some(times) = port.gateway.fakes.note() {
            let topic = state.name.as_str();
            tracing::warn!(topic, peer = %peer.address(), times, "delivery of a hub with a wrong signature refused");
        }
        return refused(StatusCode::UNAUTHORIZED, "the signature is wrong");
    }
    publish::handed(&head, (body, account), &admission, &found, port, peer).await
}
