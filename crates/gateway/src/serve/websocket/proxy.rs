//! A client speaks with the backend behind its topic: messages, close codes and reasons go through as they are.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use connect::net::websocket::{self, Ask, Close, Code, Event, Opened, Reader, Writer, shake};
use connect::net::{ClientTls, Line, dial_patient};
use connect::url::Url;
use hyper::Request;
use hyper::body::Incoming;
use hyper::header::{HeaderValue, SEC_WEBSOCKET_PROTOCOL};
use tokio::io::{AsyncRead, AsyncWrite};

use super::super::access::reason;
use super::super::{Peer, backend};
use super::own::too_much;
use super::{EXPIRED, FAREWELL, Socket, close_of};
use crate::access::Admission;
use crate::gateway::{Gateway, Served};
use crate::plan::Denied;

/// Longest wait for a connection to the backend, its handshakes included.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// The connection to a backend.
pub(super) struct Backend {
    socket: Opened<Box<dyn Line>>,
    /// That it has chosen of those that the client speaks.
    pub protocol: Option<HeaderValue>,
}

/// `message_max` and whether messages may be compressed: each leg agrees on that by itself.
pub(super) async fn connect(
    request: &Request<Incoming>,
    url: &Url,
    peer: &Peer,
    (message_max, deflate): (usize, bool),
) -> Result<Backend, String> {
    let tls = match url.is_tls {
        true => Some(ClientTls::of_trust(None)?),
        false => None,
    };
    let mut headers =
        backend::onward(request.headers(), url, peer).map_err(|error| error.to_string())?;
    for value in request.headers().get_all(SEC_WEBSOCKET_PROTOCOL) {
        headers.append(SEC_WEBSOCKET_PROTOCOL, value.clone());
    }
    let shaking = async {
        let place = (url.host.as_str(), url.port);
        let line = dial_patient(place, CONNECT_MAX, tls.as_ref()).await;
        let line = line.map_err(|error| error.to_string())?;
        let ask = Ask {
            url,
            headers: &headers,
            message_max,
            deflate,
        };
        shake(line, &ask).await
    };
    let shaken = tokio::time::timeout(CONNECT_MAX, shaking).await;
    let (socket, answered) = shaken.map_err(|_| "no handshake in time".to_owned())??;
    Ok(Backend {
        socket,
        protocol: answered.protocol,
    })
}

/// Why one side ended, as the other is to be told.
enum Ended {
    /// It has closed with this, or without a word.
    Closed(Option<Close>),
    /// It broke the protocol: it is told so, and the other side that it has gone.
    Broke(Close),
    /// It has gone.
    Gone,
    /// The other side takes nothing any more.
    Deaf,
    /// The plan has no room.
    Throttled(Denied),
    /// What it sent fits no message of the topic.
    Unfit(String),
}

/// What a client speaks with a backend about.
pub(super) struct Subject {
    pub served: Arc<Served>,
    /// Of the topic in the API.
    pub topic: usize,
    pub peer: SocketAddr,
}

pub(super) async fn run(
    gateway: Arc<Gateway>,
    client: Socket,
    backend: Backend,
    admission: Admission,
    subject: Subject,
) {
    let (mut from_client, mut to_client) = client.split();
    let (mut from_backend, mut to_backend) = backend.socket.split();
    let mut stopping = gateway.stopping();
    let mut is_answering = false;
    let judge = |payload: &[u8]| {
        let served = &subject.served;
        let misfit = served.fault_of(subject.topic, payload, &gateway, subject.peer);
        misfit.map(|misfit| misfit.cause)
    };
    let (client_end, backend_end) = tokio::select! {
        ended = pass(&mut from_client, &mut to_backend, &gateway.counts.published, (&admission, &judge)) => match ended {
            Ended::Throttled(denied) => throttled(&gateway, &denied),
            Ended::Unfit(cause) => {
                let frame = Close::new(Code::AWAY, "the client sent what fits no message of the topic");
                (Some(Some(Close::new(Code::INVALID, cause))), Some(Some(frame)))
            }
            Ended::Closed(frame) => (None, Some(frame)),
            Ended::Broke(frame) => {
                gateway.counts.refused.payload.add(1);
                is_answering = true;
                (Some(Some(frame)), Some(Some(Close::new(Code::AWAY, "the client broke the protocol"))))
            }
            Ended::Gone => (None, Some(Some(Close::new(Code::AWAY, "the client has gone")))),
            Ended::Deaf => (Some(Some(Close::new(Code::INTERNAL, "the backend has gone"))), None),
        },
        ended = pass(&mut from_backend, &mut to_client, &gateway.counts.delivered, (&admission, &anything)) => match ended {
            Ended::Throttled(denied) => throttled(&gateway, &denied),
            Ended::Unfit(_) => (None, None),
            Ended::Closed(frame) => (Some(frame), None),
            Ended::Broke(frame) => {
                gateway.counts.refused.backend.add(1);
                (Some(Some(Close::new(Code::INTERNAL, "the backend broke the protocol"))), Some(Some(frame)))
            }
            Ended::Gone => {
                gateway.counts.refused.backend.add(1);
                (Some(Some(Close::new(Code::INTERNAL, "the backend has gone"))), None)
            }
            Ended::Deaf => (None, Some(Some(Close::new(Code::AWAY, "the client has gone")))),
        },
        ended = admission.ended() => {
            let frame = Close::new(EXPIRED, reason(ended));
            (Some(Some(frame)), Some(Some(Close::new(Code::AWAY, "the client's token has ended"))))
        }
        _ = stopping.wait_for(|is_stopping| *is_stopping) => {
            let frame = Close::new(Code::AWAY, "restart");
            (Some(Some(frame.clone())), Some(Some(frame)))
        }
    };
    if is_answering {
        // What the backend still says to what came before the fault goes through.
        if let Some(Some(close)) = &backend_end {
            to_backend.close(Some(close));
        }
        let answers = pass(
            &mut from_backend,
            &mut to_client,
            &gateway.counts.delivered,
            (&admission, &anything),
        );
        let answering = async { tokio::join!(to_backend.flush(), answers) };
        tokio::time::timeout(FAREWELL, answering).await.ok();
    }
    // A side that has closed itself is answered; one that has gone hears nothing more.
    let (client_end, backend_end) = (client_end.flatten(), backend_end.flatten());
    let farewell = async {
        tokio::join!(
            websocket::leave(from_client, to_client, client_end.as_ref()),
            websocket::leave(from_backend, to_backend, backend_end.as_ref()),
        );
    };
    tokio::time::timeout(FAREWELL, farewell).await.ok();
}

/// How both sides are closed when the plan has no room.
fn throttled(gateway: &Gateway, denied: &Denied) -> (Option<Option<Close>>, Option<Option<Close>>) {
    let backend = Close::new(Code::AWAY, "the client's plan has no room");
    (Some(Some(too_much(gateway, denied))), Some(Some(backend)))
}

/// What a backend says is not judged.
fn anything(_: &[u8]) -> Option<String> {
    None
}

/// Passes messages on until one of the two sides ends.
async fn pass<A, B>(
    from: &mut Reader<A>,
    to: &mut Writer<B>,
    count: &crate::counts::Count,
    (admission, judge): (&Admission, &(dyn Fn(&[u8]) -> Option<String> + Sync)),
) -> Ended
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        let (kind, payload) = match from.next().await {
            Ok(Some(Event::Message { kind, payload })) => (kind, payload),
            Ok(Some(Event::Close(close))) => return Ended::Closed(close),
            // Each leg answers its own pings.
            Ok(Some(Event::Ping(_) | Event::Pong(_))) => continue,
            Ok(None) => return Ended::Gone,
            Err(unread) => return close_of(&unread).map_or(Ended::Gone, Ended::Broke),
        };
        if let Err(denied) = admission.take(payload.len(), SystemTime::now()) {
            return Ended::Throttled(denied);
        }
        if let Some(cause) = judge(&payload) {
            return Ended::Unfit(cause);
        }
        to.message(kind, &payload);
        if to.flush().await.is_err() {
            return Ended::Deaf;
        }
        count.add(1);
    }
}
