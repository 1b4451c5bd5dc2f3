//! `/metrics` and `/ready` over HTTP, on a thread of their own.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

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
pub fn serve(address: SocketAddr, metrics: Arc<Metrics>) -> Result<Http, Error> {
    let refused = |cause: std::io::Error| Error::Connect {
        what: format!("the HTTP address {address}"),
        message: cause.to_string(),
    };
    let listener = std::net::TcpListener::bind(address).map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    let bound = listener.local_addr().map_err(refused)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(refused)?;
    let (stop, stopped) = oneshot::channel();
    let thread = std::thread::Builder::new()
        .name("http".to_owned())
        .spawn(move || {
            runtime.block_on(async move {
                tokio::select! {
                    () = accept(listener, metrics) => {}
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

async fn accept(listener: std::net::TcpListener, metrics: Arc<Metrics>) {
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
        let metrics = Arc::clone(&metrics);
        tokio::task::spawn(async move {
            let answer = service_fn(move |request: Request<Incoming>| {
                let response = respond(request.method(), request.uri().path(), &metrics);
                async move { Ok::<_, Infallible>(response) }
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

fn respond(method: &Method, path: &str, metrics: &Metrics) -> Response<Full<Bytes>> {
    let (status, kind, body) = match (method, path) {
        (&Method::GET | &Method::HEAD, "/metrics") => (
            StatusCode::OK,
            "text/plain; version=0.0.4; charset=utf-8",
            metrics.prometheus(),
        ),
        (&Method::GET | &Method::HEAD, "/ready") => match metrics.not_ready() {
            None => (StatusCode::OK, "text/plain", "ready\n".to_owned()),
            Some(what) => (StatusCode::SERVICE_UNAVAILABLE, "text/plain", what),
        },
        (&Method::GET | &Method::HEAD, _) => (
            StatusCode::NOT_FOUND,
            "text/plain",
            "there is /metrics and /ready\n".to_owned(),
        ),
        _ => (
            StatusCode::METHOD_NOT_ALLOWED,
            "text/plain",
            "only GET is answered\n".to_owned(),
        ),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    response
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
        let http = serve(any, Arc::new(Metrics::default())).expect("a free port");
        let metrics = get(http.address(), "/metrics");
        assert!(metrics.starts_with("HTTP/1.1 200"), "{metrics}");
        assert!(metrics.contains("# TYPE headwater_source_events_total counter"));
        assert!(get(http.address(), "/ready").ends_with("ready\n"));
        assert!(get(http.address(), "/").starts_with("HTTP/1.1 404"));
        let taken = serve(http.address(), Arc::new(Metrics::default()));
        assert!(matches!(taken, Err(Error::Connect { .. })));
    }
}
