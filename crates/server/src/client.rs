//! Asks a running server over HTTP: on-demand queries, what it measures, events by hand.

use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use plan::StatisticsLevel;
use serde_json::{Value as Json, json};
use tokio::net::TcpStream;

use crate::error::Error;

/// How long a server may take.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Bytes of an answer.
const BODY_MAX: usize = 1 << 30;

/// What a server said: the status, and the JSON with it.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub json: Json,
}

/// Sends a query to the server at a base URL (`http://host:port`).
pub fn query(base: &str, app: Option<&str>, query: &str) -> Result<Reply, Error> {
    let body = json!({ "appName": app, "query": query, "details": true });
    ask(base, Method::POST, "/stores/query", &body.to_string())
}

/// Asks for the statistics of an app, or of all; with a level they are set to it first.
pub fn statistics(
    base: &str,
    app: Option<&str>,
    level: Option<StatisticsLevel>,
) -> Result<Reply, Error> {
    let app = app.map_or_else(String::new, |app| format!("/{}", percent_encoded(app)));
    let path = format!("/siddhi-apps{app}/statistics");
    match level {
        None => ask(base, Method::GET, &path, ""),
        Some(level) => {
            let body = json!({ "level": level.name() }).to_string();
            ask(base, Method::PUT, &path, &body)
        }
    }
}

/// Asks for the streams of an app, with their attributes.
pub fn streams(base: &str, app: &str) -> Result<Reply, Error> {
    let path = format!("/siddhi-apps/{}/streams", percent_encoded(app));
    ask(base, Method::GET, &path, "")
}

/// Sends rows, one JSON value per line, to a stream of an app.
pub fn send_rows(base: &str, app: &str, stream: &str, rows: &str) -> Result<Reply, Error> {
    let (app, stream) = (percent_encoded(app), percent_encoded(stream));
    let path = format!("/siddhi-apps/{app}/streams/{stream}/events");
    ask(base, Method::POST, &path, rows)
}

/// One segment of a path.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

fn ask(base: &str, method: Method, path: &str, body: &str) -> Result<Reply, Error> {
    let (authority, path) = address(base, path)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(|e| away(base, &e))?;
    runtime.block_on(async {
        let reply = send(&authority, method, path, body.to_owned());
        let reply = tokio::time::timeout(ANSWER_MAX, reply).await;
        let late = format!("no answer within {} s", ANSWER_MAX.as_secs());
        reply
            .map_err(|_| away(base, &late))?
            .map_err(|cause| away(base, &cause))
    })
}

/// Host and port, and the whole path.
fn address(base: &str, path: &str) -> Result<(String, Uri), Error> {
    let wrong = || {
        Error::Usage(format!(
            "'{base}' is not a URL of a server: write http://host:port"
        ))
    };
    let uri: Uri = base.trim_end_matches('/').parse().map_err(|_| wrong())?;
    let authority = uri.authority().ok_or_else(wrong)?.clone();
    if uri.scheme_str() != Some("http") {
        return Err(wrong());
    }
    let port = authority.port_u16().unwrap_or(80);
    let path = format!("{}{path}", uri.path().trim_end_matches('/'));
    let path = path.parse().map_err(|_| wrong())?;
    Ok((format!("{}:{port}", authority.host()), path))
}

fn away(base: &str, cause: &dyn std::fmt::Display) -> Error {
    Error::Connect {
        what: format!("the server at {base}"),
        message: cause.to_string(),
    }
}

async fn send(authority: &str, method: Method, path: Uri, body: String) -> Result<Reply, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let stream = TcpStream::connect(authority).await.map_err(|e| text(&e))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|e| text(&e))?;
    // It ends with the answer; what goes wrong shows there.
    tokio::task::spawn(async move { connection.await.ok() });
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, authority)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)))
        .map_err(|e| text(&e))?;
    let response = sender.send_request(request).await.map_err(|e| text(&e))?;
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), BODY_MAX).collect().await;
    let body = body.map_err(|e| text(&e))?.to_bytes();
    let json = serde_json::from_slice(&body)
        .map_err(|_| format!("it answered {status} without JSON: is it a Headwater server?"))?;
    Ok(Reply { status, json })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_is_a_segment_of_a_path() {
        assert_eq!(percent_encoded("Shop-1.b_~"), "Shop-1.b_~");
        assert_eq!(percent_encoded("a /ä%"), "a%20%2F%C3%A4%25");
    }
}
