//! A client speaks with the backend behind its topic: messages, close codes and reasons go through as they are.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use connect::net::{ClientTls, Line, dial_patient};
use connect::url::Url;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::Request;
use hyper::body::Incoming;
use hyper::header::{HeaderValue, SEC_WEBSOCKET_PROTOCOL};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message as Frame};

use super::super::access::reason;
use super::super::{Peer, backend};
use super::own::too_much;
use super::{EXPIRED, Socket, close, close_of, config};
use crate::access::Admission;
use crate::gateway::Gateway;
use crate::plan::Denied;

/// Longest wait for a connection to the backend, its handshakes included.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Longest wait for the other side's part of a closing handshake.
const FAREWELL: Duration = Duration::from_secs(2);

/// The connection to a backend.
pub(super) struct Backend {
    socket: WebSocketStream<Box<dyn Line>>,
    /// That it has chosen of those that the client speaks.
    pub protocol: Option<HeaderValue>,
}

pub(super) async fn connect(
    request: &Request<Incoming>,
    url: &Url,
    peer: &Peer,
    message_max: usize,
) -> Result<Backend, String> {
    let tls = match url.is_tls {
        true => Some(ClientTls::of_trust(None)?),
        false => None,
    };
    let scheme = if url.is_tls { "wss" } else { "ws" };
    let text = format!("{scheme}://{}{}", url.host_header(), url.target());
    let mut asked = text
        .into_client_request()
        .map_err(|error| error.to_string())?;
    let onward = backend::onward(request.headers(), url, peer).map_err(|e| e.to_string())?;
    for (name, value) in &onward {
        if name != hyper::header::HOST {
            asked.headers_mut().append(name.clone(), value.clone());
        }
    }
    for value in request.headers().get_all(SEC_WEBSOCKET_PROTOCOL) {
        asked
            .headers_mut()
            .append(SEC_WEBSOCKET_PROTOCOL, value.clone());
    }
    let shaking = async {
        let place = (url.host.as_str(), url.port);
        let line = dial_patient(place, CONNECT_MAX, tls.as_ref()).await;
        let line = line.map_err(|error| error.to_string())?;
        let config = Some(config(message_max));
        let shaken = tokio_tungstenite::client_async_with_config(asked, line, config).await;
        shaken.map_err(|error| error.to_string())
    };
    let shaken = tokio::time::timeout(CONNECT_MAX, shaking).await;
    let (socket, response) = shaken.map_err(|_| "no handshake in time".to_owned())??;
    let protocol = response.headers().get(SEC_WEBSOCKET_PROTOCOL).cloned();
    Ok(Backend { socket, protocol })
}

/// Why one side ended, as the other is to be told.
enum Ended {
    /// It has closed with this, or without a word.
    Closed(Option<CloseFrame>),
    /// It broke the protocol: it is told so, and the other side that it has gone.
    Broke(CloseFrame),
    /// It has gone.
    Gone,
    /// The other side takes nothing any more.
    Deaf,
    /// The plan has no room.
    Throttled(Denied),
}

pub(super) async fn run(
    gateway: Arc<Gateway>,
    client: Socket,
    backend: Backend,
    admission: Admission,
) {
    let (mut to_client, mut from_client) = client.split();
    let (mut to_backend, mut from_backend) = backend.socket.split();
    let mut stopping = gateway.stopping();
    let (client_end, backend_end) = tokio::select! {
        ended = pass(&mut from_client, &mut to_backend, &gateway.counts.published, &admission) => match ended {
            Ended::Throttled(denied) => throttled(&gateway, &denied),
            Ended::Closed(frame) => (None, Some(frame)),
            Ended::Broke(frame) => {
                gateway.counts.refused.payload.add(1);
                (Some(Some(frame)), Some(Some(close(CloseCode::Away, "the client broke the protocol"))))
            }
            Ended::Gone => (None, Some(Some(close(CloseCode::Away, "the client has gone")))),
            Ended::Deaf => (Some(Some(close(CloseCode::Error, "the backend has gone"))), None),
        },
        ended = pass(&mut from_backend, &mut to_client, &gateway.counts.delivered, &admission) => match ended {
            Ended::Throttled(denied) => throttled(&gateway, &denied),
            Ended::Closed(frame) => (Some(frame), None),
            Ended::Broke(frame) => {
                gateway.counts.refused.backend.add(1);
                (Some(Some(close(CloseCode::Error, "the backend broke the protocol"))), Some(Some(frame)))
            }
            Ended::Gone => {
                gateway.counts.refused.backend.add(1);
                (Some(Some(close(CloseCode::Error, "the backend has gone"))), None)
            }
            Ended::Deaf => (None, Some(Some(close(CloseCode::Away, "the client has gone")))),
        },
        ended = admission.ended() => {
            let frame = close(EXPIRED, reason(ended));
            (Some(Some(frame)), Some(Some(close(CloseCode::Away, "the client's token has ended"))))
        }
        _ = stopping.wait_for(|is_stopping| *is_stopping) => {
            let frame = close(CloseCode::Away, "restart");
            (Some(Some(frame.clone())), Some(Some(frame)))
        }
    };
    let farewell = async {
        tokio::join!(
            leave(client_end, &mut to_client, &mut from_client),
            leave(backend_end, &mut to_backend, &mut from_backend),
        );
    };
    tokio::time::timeout(FAREWELL, farewell).await.ok();
}

/// How both sides are closed when the plan has no room.
fn throttled(
    gateway: &Gateway,
    denied: &Denied,
) -> (Option<Option<CloseFrame>>, Option<Option<CloseFrame>>) {
    let backend = close(CloseCode::Away, "the client's plan has no room");
    (Some(Some(too_much(gateway, denied))), Some(Some(backend)))
}

/// Passes messages on until one of the two sides ends.
async fn pass<A, B>(
    from: &mut SplitStream<WebSocketStream<A>>,
    to: &mut SplitSink<WebSocketStream<B>, Frame>,
    count: &crate::counts::Count,
    admission: &Admission,
) -> Ended
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        let frame = match from.next().await {
            Some(Ok(Frame::Close(frame))) => return Ended::Closed(frame),
            Some(Ok(frame @ (Frame::Text(_) | Frame::Binary(_)))) => frame,
            // Each leg answers its own pings.
            Some(Ok(_)) => continue,
            Some(Err(Error::ConnectionClosed | Error::AlreadyClosed)) | None => return Ended::Gone,
            Some(Err(error)) => return close_of(&error).map_or(Ended::Gone, Ended::Broke),
        };
        if let Err(denied) = admission.take(frame.len(), SystemTime::now()) {
            return Ended::Throttled(denied);
        }
        if to.send(frame).await.is_err() {
            return Ended::Deaf;
        }
        count.add(1);
    }
}

/// Closes a side, where it is to be told, and waits for its part.
async fn leave<S: AsyncRead + AsyncWrite + Unpin>(
    end: Option<Option<CloseFrame>>,
    sink: &mut SplitSink<WebSocketStream<S>, Frame>,
    stream: &mut SplitStream<WebSocketStream<S>>,
) {
    match end {
        Some(frame) => {
            if sink.send(Frame::Close(frame)).await.is_err() {
                return;
            }
            while let Some(Ok(_)) = stream.next().await {}
        }
        // Its own close is answered.
        None => {
            sink.close().await.ok();
        }
    }
}
