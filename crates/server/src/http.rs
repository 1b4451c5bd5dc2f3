//! `/metrics` and `/ready` over HTTP, and by the paths of Streaming Integrator's REST on-demand queries
//! (`POST /stores/query`) and the level of statistics (`/siddhi-apps/{app}/statistics`), on a thread of
//! their own.
//!
//! A query is `{"appName":"…","query":"…"}`, with `"details":true` for names and types. The answer
//! is `{"records":[[…],…]}`; a refusal is `{"code":…,"message":"…"}` with the diagnostics beside it.
//! A body is at most [`BODY_MAX`] bytes; a lane that takes longer than [`ANSWER_MAX`] is not waited for.

mod statistics;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use engine::Answer;
use event::{Object, Value};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use lang::diagnostic::Diagnostic;
use serde_json::{Value as Json, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::ask::{Asker, Refusal};
use crate::error::Error;
use crate::metrics::Metrics;

/// Serves until dropped.
pub struct Http {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Http {
    /// Where it listens; with port 0 the system has chosen one.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // The thread has nothing to lose that a join could save.
            thread.join().ok();
        }
    }
}

/// Listens and serves.
pub fn serve(address: SocketAddr, metrics: Arc<Metrics>, asker: Asker) -> Result<Http, Error> {
    let refused = |cause: std::io::Error| Error::Connect {
        what: format!("the HTTP address {address}"),
        message: cause.to_string(),
    };
    let listener = std::net::TcpListener::bind(address).map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    let bound = listener.local_addr().map_err(refused)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(refused)?;
    let (stop, stopped) = oneshot::channel();
    let thread = std::thread::Builder::new()
        .name("http".to_owned())
        .spawn(move || {
            runtime.block_on(async move {
                tokio::select! {
                    () = accept(listener, metrics, asker) => {}
                    _ = stopped => {}
                }
            });
        })
        .map_err(refused)?;
    Ok(Http {
        address: bound,
        stop: Some(stop),
        thread: Some(thread),
    })
}

async fn accept(listener: std::net::TcpListener, metrics: Arc<Metrics>, asker: Asker) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(cause = %error, "metrics are not served");
            return;
        }
    };
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Too many open files: the next connection may find room.
                tracing::warn!(cause = %error, "a connection was not accepted");
                tokio::task::yield_now().await;
                continue;
            }
        };
        let (metrics, asker) = (Arc::clone(&metrics), asker.clone());
        tokio::task::spawn(async move {
            let answer = service_fn(move |request: Request<Incoming>| {
                let (metrics, asker) = (Arc::clone(&metrics), asker.clone());
                async move { Ok::<_, Infallible>(route(request, &metrics, &asker).await) }
            });
            let served = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), answer)
                .await;
            if let Err(error) = served {
                tracing::debug!(cause = %error, "a connection broke off");
            }
        });
    }
}

async fn route(
    request: Request<Incoming>,
    metrics: &Metrics,
    asker: &Asker,
) -> Response<Full<Bytes>> {
    let path = request.uri().path().trim_end_matches('/');
    if let Some(of) = statistics::asked(path) {
        return statistics::answer(request, &of, metrics).await;
    }
    if path != "/stores/query" {
        return respond(request.method(), request.uri().path(), metrics);
    }
    if request.method() != Method::POST {
        let message = "a query is sent by POST";
        return refused(StatusCode::METHOD_NOT_ALLOWED, message);
    }
    match body_of(request, "a query", BODY_MAX).await {
        Ok(body) => stores_query(&body, asker).await,
        Err((status, message)) => refused(status, &message),
    }
}

/// The body of a request, which is `what`; or the refusal.
async fn body_of(
    request: Request<Incoming>,
    what: &str,
    bytes_max: usize,
) -> Result<Bytes, (StatusCode, String)> {
    let body = Limited::new(request.into_body(), bytes_max).collect();
    match tokio::time::timeout(ANSWER_MAX, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(_)) => {
            let message = format!("{what} is at most {bytes_max} bytes");
            Err((StatusCode::PAYLOAD_TOO_LARGE, message))
        }
        Err(_) => {
            let message = format!("{what} was announced and did not come");
            Err((StatusCode::REQUEST_TIMEOUT, message))
        }
    }
}

/// Bytes of a query with all around it.
const BODY_MAX: usize = 1 << 20;

/// How long an app may take.
const ANSWER_MAX: Duration = Duration::from_secs(30);

async fn stores_query(body: &[u8], asker: &Asker) -> Response<Full<Bytes>> {
    let Ok(body) = serde_json::from_slice::<Json>(body) else {
        let message = r#"the body is no JSON: send {"appName":"…","query":"…"}"#;
        return refused(StatusCode::BAD_REQUEST, message);
    };
    let of = |name: &str| body[name].as_str().filter(|text| !text.trim().is_empty());
    let Some(query) = of("query") else {
        return refused(StatusCode::BAD_REQUEST, "the query is empty");
    };
    match tokio::time::timeout(ANSWER_MAX, asker.ask(of("appName"), query)).await {
        Ok(Ok(answer)) => {
            let with_details = body["details"].as_bool().unwrap_or(false);
            json(StatusCode::OK, &records(&answer, with_details))
        }
        Ok(Err(Refusal::NoApp(message))) => refused(StatusCode::NOT_FOUND, &message),
        Ok(Err(Refusal::Gone(message))) => refused(StatusCode::SERVICE_UNAVAILABLE, &message),
        Ok(Err(Refusal::Query(faults))) => json(StatusCode::BAD_REQUEST, &fault(query, &faults)),
        Err(_) => refused(
            StatusCode::GATEWAY_TIMEOUT,
            "the app took too long to answer; it may be waiting for a store",
        ),
    }
}

fn records(answer: &Answer, with_details: bool) -> Json {
    let rows = answer.rows.iter().flat_map(|batch| {
        (0..batch.len).map(|row| batch.row(row).iter().map(value).collect::<Json>())
    });
    let mut json = json!({ "records": rows.collect::<Vec<Json>>() });
    if with_details {
        let attributes = answer.schema.attributes.iter();
        let details = attributes
            .map(|a| json!({ "name": a.name, "dataType": a.ty.to_string().to_uppercase() }));
        json["details"] = details.collect();
        let written = answer.written;
        json["written"] = json!({
            "inserted": written.inserted,
            "updated": written.updated,
            "deleted": written.deleted,
        });
    }
    json
}

/// Numbers that JSON has not are texts.
fn value(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(v) => json!(v),
        Value::Int(v) => json!(v),
        Value::Long(v) => json!(v),
        Value::Float(v) if v.is_finite() => {
            // The shortest digits of the float, not those of the double it would become.
            let digits = v.to_string().parse::<f64>();
            digits.map_or(Json::Null, |v| json!(v))
        }
        Value::Double(v) if v.is_finite() => json!(v),
        Value::Object(Object::List(list) | Object::Set(list)) => {
            list.lock().iter().map(self::value).collect()
        }
        other => Json::String(event::text::to_text(other)),
    }
}

fn fault(query: &str, faults: &[Diagnostic]) -> Json {
    let message = faults.first().map_or("", |d| d.message.as_str());
    let diagnostics = faults.iter().map(|d| {
        json!({
            "code": d.code,
            "message": d.message,
            "start": d.span.start,
            "end": d.span.end,
            "help": d.help,
        })
    });
    json!({
        "code": StatusCode::BAD_REQUEST.as_u16(),
        "message": message,
        "diagnostics": diagnostics.collect::<Vec<Json>>(),
        "rendered": check::render::render(faults, "query", query, &catalog::full(engine::specs()), false),
    })
}

fn refused(status: StatusCode, message: &str) -> Response<Full<Bytes>> {
    json(
        status,
        &json!({ "code": status.as_u16(), "message": message }),
    )
}

fn json(status: StatusCode, body: &Json) -> Response<Full<Bytes>> {
    response(status, "application/json", body.to_string())
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    response(status, "text/plain", body)
}

fn response(status: StatusCode, kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    response
}

fn respond(method: &Method, path: &str, metrics: &Metrics) -> Response<Full<Bytes>> {
    match (method, path) {
        (&Method::GET | &Method::HEAD, "/metrics") => response(
            StatusCode::OK,
            "text/plain; version=0.0.4; charset=utf-8",
            metrics.prometheus(),
        ),
        (&Method::GET | &Method::HEAD, "/ready") => match metrics.not_ready() {
            None => text(StatusCode::OK, "ready\n".to_owned()),
            Some(what) => text(StatusCode::SERVICE_UNAVAILABLE, what),
        },
        (&Method::GET | &Method::HEAD, _) => text(
            StatusCode::NOT_FOUND,
            "there is /metrics, /ready, /siddhi-apps/statistics, /siddhi-apps/{app}/statistics and, by \
             POST, /stores/query\n"
                .to_owned(),
        ),
        _ => text(
            StatusCode::METHOD_NOT_ALLOWED,
            "only GET is answered here\n".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("it listens");
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        .expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    }

    #[test]
    fn metrics_and_readiness_are_served() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let http = serve(any, Arc::new(Metrics::default()), Asker::default()).expect("a free port");
        let metrics = get(http.address(), "/metrics");
        assert!(metrics.starts_with("HTTP/1.1 200"), "{metrics}");
        assert!(metrics.contains("# TYPE headwater_source_events_total counter"));
        assert!(get(http.address(), "/ready").ends_with("ready\n"));
        assert!(get(http.address(), "/").starts_with("HTTP/1.1 404"));
        let taken = serve(
            http.address(),
            Arc::new(Metrics::default()),
            Asker::default(),
        );
        assert!(matches!(taken, Err(Error::Connect { .. })));
    }
}
