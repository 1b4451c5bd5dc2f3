//! WebSocket: the handshake of a client, and what is spoken then.
//!
//! A client is refused before the upgrade, with the statuses of a request. Afterwards it hears the topic, publishes to
//! it, or speaks with the backend behind it.

mod own;
mod proxy;

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use connect::net::gateway::Protocol;
use connect::net::websocket::{
    Agreed, Close, Code, Opened, Refusal, Role, Unread, answer_to, is_asked as is_upgrade, judge,
};
use hyper::body::Incoming;
use hyper::header::{
    CONNECTION, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;

use super::answer::{Answer, empty, refused};
use super::http2::is_websocket as is_in_stream;
use super::{Peer, Port, access};
use crate::gateway::{Found, Gateway};
use crate::model::{Binding, Operation};

/// Longest wait for the other side's part of a closing handshake.
const FAREWELL: Duration = Duration::from_secs(2);

/// The line of a client.
type ClientLine = TokioIo<Upgraded>;

/// The socket of a client.
type Socket = Opened<ClientLine>;

/// Does a request ask for an upgrade to WebSocket?
pub(super) fn is_asked(request: &Request<Incoming>) -> bool {
    is_upgrade(request.headers())
}

pub(super) async fn answer(
    mut request: Request<Incoming>,
    found: Found,
    port: &Port,
    peer: &Arc<Peer>,
) -> Answer {
    let counts = &port.gateway.counts.refused;
    let accepted = match shake(&request) {
        Ok(accepted) => accepted,
        Err(refusal) => {
            counts.method.add(1);
            return *refusal;
        }
    };
    let (topic, _) = &found.served.topics[found.topic];
    let operations = [&topic.subscribe, &topic.publish];
    let mut wanted = operations.into_iter().flatten().peekable();
    if wanted.peek().is_none() {
        counts.method.add(1);
        return refused(StatusCode::METHOD_NOT_ALLOWED, "nobody may use this topic");
    }
    let is_backend = matches!(topic.binding, Binding::Backend { .. });
    if topic.webhook.is_some() && (is_backend || topic.subscribe.is_none()) {
        counts.method.add(1);
        let why = "webhooks publish to this topic, by POST";
        return refused(StatusCode::METHOD_NOT_ALLOWED, why);
    }
    // A client must be let in for all that it could do; it is one connection.
    let asked = Operation {
        is_secured: wanted.clone().any(|operation| operation.is_secured),
        scopes: wanted
            .flat_map(|operation| operation.scopes.clone())
            .collect(),
        messages: Vec::new(),
    };
    let stream = Some(Protocol::WebSocket);
    let admission = match access::admit(&mut request, &asked, &found, stream, port, peer).await {
        Ok(admission) => admission,
        Err(refusal) => return *refusal,
    };
    let message_max = admission.message_max(found.served.api.message_max);
    let compression = found.served.api.compression;
    let agreed = compression.then(|| agreed(request.headers())).flatten();
    let upgrade = hyper::upgrade::on(&mut request);
    let mut answer = empty(StatusCode::OK);
    if let Some(accepted) = accepted {
        *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = answer.headers_mut();
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, accepted);
    }
    let headers = answer.headers_mut();
    if let Some((_, extension)) = &agreed {
        headers.insert(SEC_WEBSOCKET_EXTENSIONS, extension.clone());
    }
    if let Some(marker) = admission.subprotocol {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(marker));
    }
    let terms = Terms {
        message_max,
        agreed: agreed.map(|(agreed, _)| agreed),
    };
    let gateway = Arc::clone(&port.gateway);
    let session = match &topic.binding {
        Binding::Backend {
            url, is_websocket, ..
        } => {
            if !is_websocket {
                counts.method.add(1);
                let why = "the backend of this topic does not speak WebSocket";
                return refused(StatusCode::METHOD_NOT_ALLOWED, why);
            }
            let url = super::backend::filled(url, topic.parameters(), &found.values);
            let url = super::backend::asked(url, request.uri().query());
            let limits = (message_max, compression);
            let backend = match proxy::connect(&request, &url, peer, limits).await {
                Ok(backend) => backend,
                Err(cause) => {
                    counts.backend.add(1);
                    let (_, state) = &found.served.topics[found.topic];
                    tracing::warn!(topic = state.name, cause, "backend cannot be reached");
                    return refused(StatusCode::BAD_GATEWAY, "the backend cannot be reached");
                }
            };
            if let Some(protocol) = backend.protocol.clone() {
                answer
                    .headers_mut()
                    .insert(SEC_WEBSOCKET_PROTOCOL, protocol);
            }
            let subject = proxy::Subject {
                served: Arc::clone(&found.served),
                topic: found.topic,
                peer: peer.address(),
            };
            tokio::spawn(begin(gateway, upgrade, terms, |gateway, socket| {
                proxy::run(gateway, socket, backend, admission, subject)
            }))
        }
        _ => {
            let client = own::Client::new(&request, found, (admission, asked.scopes), peer);
            tokio::spawn(begin(gateway, upgrade, terms, |gateway, socket| {
                client.run(gateway, socket)
            }))
        }
    };
    peer.outgoing.begin();
    *peer.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
    answer
}

/// What client and gateway keep to.
struct Terms {
    message_max: usize,
    agreed: Option<Agreed>,
}

/// What of the extensions that a client offers is agreed to, and how that is said.
fn agreed(headers: &HeaderMap) -> Option<(Agreed, HeaderValue)> {
    let offers = headers.get_all(SEC_WEBSOCKET_EXTENSIONS).iter();
    let offers = offers.filter_map(|value| value.to_str().ok());
    let (agreed, answer) = answer_to(offers, false)?;
    Some((agreed, HeaderValue::from_str(&answer).ok()?))
}

/// Waits for the upgrade, then speaks with the client until one of the two ends.
async fn begin<F: Future<Output = ()>>(
    gateway: Arc<Gateway>,
    upgrade: OnUpgrade,
    terms: Terms,
    session: impl FnOnce(Arc<Gateway>, Socket) -> F,
) {
    let upgraded = match upgrade.await {
        Ok(upgraded) => upgraded,
        Err(error) => {
            tracing::debug!(cause = %error, "the client has gone before the upgrade");
            return;
        }
    };
    let socket = Opened {
        line: TokioIo::new(upgraded),
        role: Role::Server,
        message_max: terms.message_max,
        agreed: terms.agreed,
        // What came with the request is given by hyper first.
        read: bytes::Bytes::new(),
    };
    gateway.counts.websockets.add(1);
    session(Arc::clone(&gateway), socket).await;
    gateway.counts.websockets.sub(1);
}

/// The value of `Sec-WebSocket-Accept`, where the request is a handshake (RFC 6455, 4.2.1); `None` in a stream of
/// HTTP/2, which needs no proof that the other side knows what it does (RFC 8441).
fn shake(request: &Request<Incoming>) -> Result<Option<HeaderValue>, Box<Answer>> {
    if is_in_stream(request) {
        return match request.headers().get(SEC_WEBSOCKET_VERSION) {
            Some(version) if version == "13" => Ok(None),
            _ => {
                let why = "version 13 of WebSocket is spoken";
                Err(Box::new(refused(StatusCode::BAD_REQUEST, why)))
            }
        };
    }
    if *request.method() != Method::GET {
        let why = "an upgrade to WebSocket is asked for with GET";
        return Err(Box::new(refused(StatusCode::BAD_REQUEST, why)));
    }
    judge(request.headers())
        .map(Some)
        .map_err(|Refusal { status, why }| {
            let mut answer = refused(status, &why);
            if status == StatusCode::UPGRADE_REQUIRED {
                let spoken: [(HeaderName, &str); 2] =
                    [(SEC_WEBSOCKET_VERSION, "13"), (UPGRADE, "websocket")];
                for (name, value) in spoken {
                    answer
                        .headers_mut()
                        .insert(name, HeaderValue::from_static(value));
                }
            }
            Box::new(answer)
        })
}

/// Close codes of API Manager.
const EXPIRED: Code = Code(4001);
const THROTTLED: Code = Code(4003);

/// How a connection whose other side broke the protocol is closed; `None`: it is gone.
fn close_of(unread: &Unread) -> Option<Close> {
    match unread {
        Unread::Fault(fault) => Some(Close::new(fault.code(), fault.to_string())),
        Unread::Gone | Unread::Io(_) => None,
    }
}
