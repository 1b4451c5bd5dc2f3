//! WebSocket: the handshake of a client, and what is spoken then.
//!
//! A client is refused before the upgrade, with the statuses of a request. Afterwards it hears the topic, publishes to
//! it, or speaks with the backend behind it.

mod own;
mod proxy;

use std::sync::{Arc, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hyper::body::Incoming;
use hyper::header::{
    CONNECTION, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::{CapacityError, ProtocolError};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Utf8Bytes};

use connect::net::gateway::Protocol;

use super::answer::{Answer, empty, refused};
use super::{Peer, Port, access};
use crate::gateway::{Found, Gateway};
use crate::model::{Binding, Operation};

/// Bytes of a connection that are read, and written, at once.
const BLOCK_BYTES: usize = 8 << 10;

/// The socket of a client.
type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Does a request ask for an upgrade to WebSocket?
pub(super) fn is_asked(request: &Request<Incoming>) -> bool {
    has_token(request.headers(), &UPGRADE, "websocket")
}

fn has_token(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> bool {
    let values = headers.get_all(name).iter();
    let mut tokens = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    tokens.any(|token| token.trim().eq_ignore_ascii_case(wanted))
}

pub(super) async fn answer(
    mut request: Request<Incoming>,
    found: Found,
    port: &Port,
    peer: &Arc<Peer>,
) -> Answer {
    let counts = &port.gateway.counts.refused;
    let accept = match shake(&request) {
        Ok(accept) => accept,
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
    // A client must be let in for all that it could do; it is one connection.
    let asked = Operation {
        is_secured: wanted.clone().any(|operation| operation.is_secured),
        scopes: wanted
            .flat_map(|operation| operation.scopes.clone())
            .collect(),
    };
    let stream = Some(Protocol::WebSocket);
    let admission = match access::admit(&mut request, &asked, &found, stream, port, peer).await {
        Ok(admission) => admission,
        Err(refusal) => return *refusal,
    };
    let max = admission.message_max(found.served.api.message_max);
    let upgrade = hyper::upgrade::on(&mut request);
    let mut answer = empty(StatusCode::SWITCHING_PROTOCOLS);
    let headers = answer.headers_mut();
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    if let Some(marker) = admission.subprotocol {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(marker));
    }
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
            let backend = match proxy::connect(&request, &url, peer, max).await {
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
            tokio::spawn(begin(gateway, upgrade, max, |gateway, socket| {
                proxy::run(gateway, socket, backend, admission)
            }))
        }
        _ => {
            let client = own::Client::new(&request, found, (admission, asked.scopes), peer);
            tokio::spawn(begin(gateway, upgrade, max, |gateway, socket| {
                client.run(gateway, socket)
            }))
        }
    };
    peer.outgoing.begin();
    *peer.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
    answer
}

/// Waits for the upgrade, then speaks with the client until one of the two ends.
async fn begin<F: Future<Output = ()>>(
    gateway: Arc<Gateway>,
    upgrade: OnUpgrade,
    max: usize,
    session: impl FnOnce(Arc<Gateway>, Socket) -> F,
) {
    let upgraded = match upgrade.await {
        Ok(upgraded) => upgraded,
        Err(error) => {
            tracing::debug!(cause = %error, "the client has gone before the upgrade");
            return;
        }
    };
    let io = TokioIo::new(upgraded);
    let socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config(max))).await;
    gateway.counts.websockets.add(1);
    session(Arc::clone(&gateway), socket).await;
    gateway.counts.websockets.sub(1);
}

fn config(message_max: usize) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(BLOCK_BYTES)
        .write_buffer_size(BLOCK_BYTES)
        .max_message_size(Some(message_max))
        .max_frame_size(Some(message_max))
}

/// The value of `Sec-WebSocket-Accept`, where the request is a handshake (RFC 6455, 4.2.1).
fn shake(request: &Request<Incoming>) -> Result<HeaderValue, Box<Answer>> {
    let headers = request.headers();
    let bad = |why: &str| Box::new(refused(StatusCode::BAD_REQUEST, why));
    if *request.method() != Method::GET {
        return Err(bad("an upgrade to WebSocket is asked for with GET"));
    }
    if !has_token(headers, &CONNECTION, "upgrade") {
        return Err(bad("the header 'Connection' does not name the upgrade"));
    }
    if headers
        .get(SEC_WEBSOCKET_VERSION)
        .is_none_or(|version| version != "13")
    {
        let mut answer = refused(
            StatusCode::UPGRADE_REQUIRED,
            "version 13 of WebSocket is spoken",
        );
        answer
            .headers_mut()
            .insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        return Err(Box::new(answer));
    }
    let mut keys = headers.get_all(SEC_WEBSOCKET_KEY).iter();
    let (Some(key), None) = (keys.next(), keys.next()) else {
        return Err(bad("one header 'Sec-WebSocket-Key' is needed"));
    };
    if !BASE64
        .decode(key.as_bytes())
        .is_ok_and(|key| key.len() == 16)
    {
        return Err(bad("'Sec-WebSocket-Key' is not 16 bytes in base64"));
    }
    HeaderValue::from_str(&derive_accept_key(key.as_bytes())).map_err(|_| bad("no key"))
}

/// Close codes of API Manager.
const EXPIRED: CloseCode = CloseCode::Library(4001);
const THROTTLED: CloseCode = CloseCode::Library(4003);

fn close(code: CloseCode, reason: &str) -> CloseFrame {
    CloseFrame {
        code,
        // What a close frame may carry.
        reason: Utf8Bytes::from(&reason[..reason.floor_char_boundary(123)]),
    }
}

/// How a connection whose other side broke the protocol is closed; `None`: it is gone.
fn close_of(error: &Error) -> Option<CloseFrame> {
    match error {
        Error::Capacity(CapacityError::MessageTooLong { max_size, .. }) => {
            let reason = format!("a message has {max_size} bytes at most");
            Some(close(CloseCode::Size, &reason))
        }
        Error::Capacity(_) => Some(close(CloseCode::Size, "too much at once")),
        Error::Utf8(_) => Some(close(CloseCode::Invalid, "a text is not UTF-8")),
        // It has gone without a word.
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => None,
        Error::Protocol(cause) => Some(close(CloseCode::Protocol, &cause.to_string())),
        _ => None,
    }
}
