//! Topics whose events a server behind the gateway has: each client has a connection of its own to it.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use connect::net::events::{Event, Parser, write_data};
use connect::net::http_client::{AnswerBody, OutgoingRequest};
use connect::url::Url;
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST,
    HeaderMap, HeaderName, HeaderValue, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::{mpsc, watch};

use super::access::{Gate, reason, throttled};
use super::answer::{Answer, bytes, empty, refused};
use super::sse::{LAST_ID, head};
use super::stream::{Body, Piped, end_of};
use super::{Peer, Port, client};
use crate::gateway::{Found, Gateway};
use crate::model::encode_segment;
use crate::ring::From;
use crate::token::strip_query;

/// Longest answer to what is published.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Pieces of a backend that wait for one client.
const WAITING_MAX: usize = 16;

/// The URL of a backend with the values of the parameters put in.
pub(super) fn filled(url: &Url, names: &[String], values: &[String]) -> Url {
    let put = |text: &str| {
        let mut text = text.to_owned();
        for (name, value) in names.iter().zip(values) {
            text = text.replace(&format!("{{{name}}}"), &encode_segment(value));
        }
        text
    };
    Url {
        path: put(&url.path),
        query: put(&url.query),
        ..url.clone()
    }
}

/// The URL with what a client asks for by its query, but for what it shows of itself and where it goes on.
pub(super) fn asked(mut url: Url, query: Option<&str>) -> Url {
    let Some(query) = query.and_then(strip_query) else {
        return url;
    };
    let kept = query.split('&').filter(|pair| {
        let name = pair.split('=').next().unwrap_or_default();
        !name.eq_ignore_ascii_case("last-event-id")
    });
    for pair in kept {
        url.query.push(if url.query.is_empty() { '?' } else { '&' });
        url.query.push_str(pair);
    }
    url
}

/// Headers of one leg alone, which end at the gateway.
const OF_LEG: [HeaderName; 7] = [
    CONNECTION,
    CONTENT_LENGTH,
    HOST,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// The headers of a request as the backend gets them.
pub(super) fn onward(headers: &HeaderMap, url: &Url, peer: &Peer) -> io::Result<HeaderMap> {
    let named: Vec<String> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| {
            value
                .split(',')
                .map(|name| name.trim().to_ascii_lowercase())
        })
        .collect();
    let mut onward = HeaderMap::new();
    for (name, value) in headers {
        let text = name.as_str();
        let is_of_leg = OF_LEG.contains(name)
            || text.starts_with("proxy-")
            || text.starts_with("sec-websocket-")
            || text == "keep-alive"
            || named.iter().any(|own| own == text);
        if !is_of_leg {
            onward.append(name.clone(), value.clone());
        }
    }
    let host = HeaderValue::from_str(&url.host_header()).map_err(io::Error::other)?;
    onward.insert(HOST, host);
    client::tell(&peer.client(), peer.socket.ip(), headers, &mut onward);
    Ok(onward)
}

/// What a backend answered that is no stream.
pub(super) enum NoStream {
    Status(StatusCode),
    Other(String),
    Away(io::Error),
}

/// Asks a backend for its stream of events.
pub(super) async fn ask(
    gateway: &Gateway,
    url: &Url,
    mut headers: HeaderMap,
    last: Option<&str>,
) -> Result<AnswerBody, NoStream> {
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Its events are read.
    headers.remove(ACCEPT_ENCODING);
    headers.remove(CONTENT_TYPE);
    headers.remove(LAST_ID);
    // An id that no header can hold was none that a server could understand.
    let last = last.and_then(|last| HeaderValue::from_bytes(last.as_bytes()).ok());
    let sent = async {
        let client = gateway.backends.client()?;
        let request = OutgoingRequest {
            method: &Method::GET,
            target: &client.request_target(url)?,
            headers: &headers,
            extra: last.as_ref().map(|last| (LAST_ID, last)),
            body: &[],
            has_length: true,
        };
        client.send(url, &request).await
    };
    let response = sent.await.map_err(NoStream::Away)?.response;
    if response.status() != StatusCode::OK {
        return Err(NoStream::Status(response.status()));
    }
    let kind = response.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_stream = (kind.split(';').next())
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"));
    match is_stream {
        true => Ok(response.into_body()),
        false => Err(NoStream::Other(kind.to_owned())),
    }
}

/// The stream of a backend, for one client.
pub(super) async fn events(
    request: &Request<Incoming>,
    (url, from): (&Url, &From),
    gate: Gate,
    found: &Found,
    port: &Port,
    peer: &Peer,
) -> Answer {
    let gateway = &port.gateway;
    let last = match from {
        From::After(id) => Some(id.as_str()),
        From::Now => None,
    };
    let asked = match onward(request.headers(), url, peer) {
        Ok(headers) => ask(gateway, url, headers, last).await,
        Err(error) => Err(NoStream::Away(error)),
    };
    let body = match asked {
        Ok(body) => body,
        Err(NoStream::Status(status)) if status == StatusCode::NO_CONTENT => return empty(status),
        Err(no) => return no_stream(&no, &found.served.topics[found.topic].1.name, port),
    };
    let (give, events) = mpsc::channel(WAITING_MAX);
    tokio::spawn(pipe(Arc::clone(gateway), body, gate, give));
    let piped = Piped::new(gateway, events, peer, found.served.api.heartbeat);
    let mut answer = Response::new(Body::Piped(Box::new(piped)));
    head(answer.headers_mut());
    answer
}

fn no_stream(no: &NoStream, topic: &str, port: &Port) -> Answer {
    port.gateway.counts.refused.backend.add(1);
    let cause = match no {
        NoStream::Status(status) if status.is_client_error() => {
            return refused(*status, "the backend has refused the request");
        }
        NoStream::Status(status) => format!("the backend answered {status}"),
        NoStream::Other(kind) => {
            format!("the backend answers with '{kind}', which is no stream of events")
        }
        NoStream::Away(error) => {
            tracing::warn!(topic, cause = %error, "backend cannot be reached");
            "the backend cannot be reached".to_owned()
        }
    };
    refused(StatusCode::BAD_GATEWAY, &cause)
}

async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // Its sender lives as long as the gateway.
    stopping.wait_for(|is_stopping| *is_stopping).await.ok();
}

/// Brings events from a backend to a client, until one of the two ends.
async fn pipe(
    gateway: Arc<Gateway>,
    mut body: AnswerBody,
    mut gate: Gate,
    give: mpsc::Sender<Bytes>,
) {
    let mut stopping = gateway.stopping();
    let mut parser = Parser::default();
    let (mut events, mut last) = (Vec::new(), None);
    loop {
        let piece = tokio::select! {
            piece = body.piece() => piece,
            () = give.closed() => return,
            ended = poll_fn(|context| gate.poll_ended(context).map_or(Poll::Pending, Poll::Ready)) => {
                give.send(end_of(reason(ended))).await.ok();
                return;
            }
            () = stopped(&mut stopping) => {
                // A client that has gone needs no farewell.
                give.send(end_of("restart")).await.ok();
                return;
            }
        };
        let Ok(Some(piece)) = piece else { return };
        let fed = parser.feed(&piece, &mut events);
        gateway.counts.published.add(events.len() as u64);
        let (mut text, mut count) = (String::new(), 0);
        for event in events.drain(..) {
            if gate.lets(event.data.len()) {
                write_event(&mut text, &event, &mut last);
                count += 1;
            }
        }
        if let Some(denied) = gate.denied() {
            gateway.counts.refused.throttled.add(1);
            gateway.counts.delivered.add(count);
            let end = [text.as_bytes(), &throttled(denied)].concat();
            give.send(end.into()).await.ok();
            return;
        }
        if !text.is_empty() {
            if give.send(text.into()).await.is_err() {
                return;
            }
            gateway.counts.delivered.add(count);
        }
        if fed.is_err() {
            return;
        }
    }
}

/// An event as it came, and its id where it is another than that before it.
fn write_event(text: &mut String, event: &Event, last: &mut Option<Arc<str>>) {
    if *last != event.id {
        text.push_str("id: ");
        text.push_str(event.id.as_deref().unwrap_or_default());
        text.push('\n');
        last.clone_from(&event.id);
    }
    if event.kind != "message" {
        text.push_str("event: ");
        text.push_str(&event.kind);
        text.push('\n');
    }
    write_data(text, &event.data);
    text.push('\n');
}

/// Hands on what a client publishes, and the answer of the backend.
pub(super) async fn forward(
    parts: &Parts,
    body: Bytes,
    url: &Url,
    port: &Port,
    peer: &Peer,
) -> Answer {
    let gateway = &port.gateway;
    let sent = async {
        let client = gateway.backends.client()?;
        let headers = onward(&parts.headers, url, peer)?;
        let request = OutgoingRequest {
            method: &parts.method,
            target: &client.request_target(url)?,
            headers: &headers,
            extra: None,
            body: &body,
            has_length: true,
        };
        let answer = client.send(url, &request).await?;
        let status = answer.response.status();
        let kind = answer.response.headers().get(CONTENT_TYPE).cloned();
        let body = client.read_body(answer, ANSWER_BYTES_MAX).await?;
        Ok::<_, io::Error>((status, kind, body))
    };
    match sent.await {
        Ok((status, kind, body)) => {
            gateway.counts.published.add(u64::from(status.is_success()));
            let mut answer = bytes(status, "application/octet-stream", body);
            if let Some(kind) = kind {
                answer.headers_mut().insert(CONTENT_TYPE, kind);
            }
            answer
        }
        Err(error) => no_stream(&NoStream::Away(error), url.host.as_str(), port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_put_into_the_url() {
        let url = Url::parse("http://h/s/{a}?x={b}").expect("it is one");
        let names = ["a".to_owned(), "b".to_owned()];
        let values = ["1/2".to_owned(), "ä&c".to_owned()];
        assert_eq!(
            filled(&url, &names, &values).target(),
            "/s/1%2F2?x=%C3%A4%26c"
        );
    }

    #[test]
    fn a_query_goes_on_without_tokens() {
        let url = || Url::parse("http://h/s?x=1").expect("it is one");
        let asked = |query| asked(url(), Some(query)).target();
        assert_eq!(
            asked("a=b&access_token=t&last-event-id=7&apikey=k"),
            "/s?x=1&a=b"
        );
        assert_eq!(asked("access_token=t"), "/s?x=1");
    }

    #[test]
    fn an_event_goes_on_as_it_came() {
        let (mut parser, mut events) = (Parser::default(), Vec::new());
        let text = "id: 1\nevent: add\ndata: a\ndata: b\n\ndata: c\n\nid\ndata: d\n\n";
        parser
            .feed(text.as_bytes(), &mut events)
            .expect("it is short");
        let (mut out, mut last) = (String::new(), None);
        events
            .iter()
            .for_each(|event| write_event(&mut out, event, &mut last));
        assert_eq!(
            out,
            "id: 1\nevent: add\ndata: a\ndata: b\n\ndata: c\n\nid: \ndata: d\n\n"
        );
    }
}
