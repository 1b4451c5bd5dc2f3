//! Asks a running server on-demand queries over HTTP.

use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
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
    let (authority, path) = address(base)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(|e| away(base, &e))?;
    let body = json!({ "appName": app, "query": query, "details": true }).to_string();
    runtime.block_on(async {
        let reply = tokio::time::timeout(ANSWER_MAX, send(&authority, path, body)).await;
        let late = format!("there was no answer in {} s", ANSWER_MAX.as_secs());
        reply
            .map_err(|_| away(base, &late))?
            .map_err(|cause| away(base, &cause))
    })
}

/// Host and port, and the path of the query.
fn address(base: &str) -> Result<(String, Uri), Error> {
    let wrong = || {
        Error::Usage(format!(
            "'{base}' is no URL of a server: write http://host:port"
        ))
    };
    let uri: Uri = base.trim_end_matches('/').parse().map_err(|_| wrong())?;
    let authority = uri.authority().ok_or_else(wrong)?.clone();
    if uri.scheme_str() != Some("http") {
        return Err(wrong());
    }
    let port = authority.port_u16().unwrap_or(80);
    let path = format!("{}/stores/query", uri.path().trim_end_matches('/'));
    let path = path.parse().map_err(|_| wrong())?;
    Ok((format!("{}:{port}", authority.host()), path))
}

fn away(base: &str, cause: &dyn std::fmt::Display) -> Error {
    Error::Connect {
        what: format!("the server at {base}"),
        message: cause.to_string(),
    }
}

async fn send(authority: &str, path: Uri, body: String) -> Result<Reply, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let stream = TcpStream::connect(authority).await.map_err(|e| text(&e))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|e| text(&e))?;
    // It ends with the answer; what goes wrong shows there.
    tokio::task::spawn(async move { connection.await.ok() });
    let request = Request::builder()
        .method(Method::POST)
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
        .map_err(|_| format!("it answered {status}, and no JSON: is it a Headwater server?"))?;
    Ok(Reply { status, json })
}
