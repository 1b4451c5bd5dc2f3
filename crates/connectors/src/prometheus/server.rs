//! Where metrics are gathered: the ports on which they are scraped, and the groups that are pushed.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::metric::Registry;
use connect::net::{Crowd, Idle, Listening, SocketOptions, Workers};
use connect::url::decode;

/// What the text format calls itself.
pub(super) const CONTENT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Connections at once. Scrapers are few; a port with few places is soon full of clients that ask for nothing.
const CONNECTIONS_MAX: u32 = 256;

/// The longest wait for a request.
const IDLE: Duration = Duration::from_secs(60);

/// How long answers may take when the last sink stops.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// All places of a server, by what names them.
#[derive(Default)]
pub(crate) struct Places(Mutex<HashMap<String, Arc<Place>>>);

impl Places {
    /// The place of that name, which is there as long as a sink holds it.
    pub(super) fn find(&self, name: &str) -> Arc<Place> {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Of a place that only this list holds, the apps have gone.
        places.retain(|_, place| Arc::strong_count(place) > 1);
        Arc::clone(places.entry(name.to_owned()).or_default())
    }
}

#[derive(Default)]
pub(super) struct Place {
    pub registry: Arc<Registry>,
    served: Mutex<Served>,
}

#[derive(Default)]
struct Served {
    sinks: usize,
    listening: Option<Listening>,
}

impl Place {
    /// One more sink wants its metrics to be scraped there.
    pub fn open(&self, workers: &Workers, address: (&str, u16)) -> io::Result<()> {
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        if served.listening.is_none() {
            let registry = Arc::clone(&self.registry);
            let crowd = Arc::new(Crowd::new(CONNECTIONS_MAX));
            let serve = move |stream, stopped| {
                let (registry, crowd) = (Arc::clone(&registry), Arc::clone(&crowd));
                async move {
                    if let Err(error) = serve(stream, registry, &crowd, stopped).await {
                        tracing::debug!(cause = %error, "scrape connection failed");
                    }
                }
            };
            let options = SocketOptions::default();
            let listening = Listening::start(workers, address, &options, CONNECTIONS_MAX, serve)?;
            served.listening = Some(listening);
        }
        served.sinks += 1;
        Ok(())
    }

    /// One sink less; with the last the port is free again.
    pub fn close(&self, workers: &Workers) {
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        served.sinks = served.sinks.saturating_sub(1);
        if served.sinks == 0
            && let Some(listening) = served.listening.take()
        {
            let ended = workers.wait_for(async move { listening.ended(STOP_GRACE).await });
            if !ended.unwrap_or(false) {
                tracing::warn!("stopped before a scrape had finished");
            }
        }
    }
}

async fn serve(
    stream: TcpStream,
    registry: Arc<Registry>,
    crowd: &Crowd,
    mut stopped: watch::Receiver<bool>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let _place = crowd.enter();
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new());
    server.header_read_timeout(IDLE);
    let idle = Arc::new(Idle::default());
    let of_line = Arc::clone(&idle);
    let answer = service_fn(move |request: Request<Incoming>| {
        let _busy = of_line.serve();
        let names = names(request.uri().query().unwrap_or_default());
        let text = registry.write(&names);
        let mut response = Response::new(Full::new(Bytes::from(text)));
        let content = hyper::header::HeaderValue::from_static(CONTENT);
        response.headers_mut().insert(CONTENT_TYPE, content);
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let mut connection = std::pin::pin!(server.serve_connection(TokioIo::new(stream), answer));
    tokio::select! {
        served = connection.as_mut() => return Ok(served?),
        () = crowd.gives_way(|| idle.since()) => return Ok(()),
        _ = stopped.wait_for(|is_stopped| *is_stopped) => {}
    }
    connection.as_mut().graceful_shutdown();
    Ok(tokio::time::timeout(STOP_GRACE, connection).await??)
}

/// The metrics that `name[]=…` asks for (`HTTPServer` of the Java client); none for all.
fn names(query: &str) -> Vec<String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .filter(|(key, _)| decode(key) == "name[]")
        .map(|(_, value)| decode(value))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_queries() {
        assert_eq!(names("name[]=a&x=1&name%5B%5D=b%20c"), ["a", "b c"]);
        assert!(names("").is_empty());
    }
}
