//! The `sse` source: a stream of events that a server sends.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use event::Value;
use hyper::header::{
    ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, COOKIE, HOST, HeaderMap, HeaderName,
    HeaderValue, LOCATION,
};
use hyper::{Method, Response, StatusCode};
use tokio::sync::oneshot;

use super::BEAT_HEADER;
use crate::http::client::{client_options, common_headers};
use connect::component::{Connection, Finished, Source, SourceLink, SourceSetup};
use connect::error::{Cause, Error};
use connect::net::events::{Event, Parser};
use connect::net::http_client::add_headers;
use connect::net::http_client::{AnswerBody, Client, OutgoingRequest, within};
use connect::net::{ClientTls, Delivery, Ingress, Network, Receiver};
use connect::option::Settings;
use connect::option::property_names;
use connect::url::Url;

/// Signs of life that a living server may leave out, and what the next one may be late.
const BEATS_MISSED: u32 = 3;
const BEAT_LATE: Duration = Duration::from_millis(500);

/// Redirects that are followed on the way to a stream.
const REDIRECTS_MAX: usize = 5;

const LAST_ID: HeaderName = HeaderName::from_static("last-event-id");

pub(in crate::http) struct SseSource {
    network: Arc<Network>,
    remote: Arc<Remote>,
    receiver: Receiver,
    last: Arc<Last>,
}

/// What is asked, and where.
struct Remote {
    label: String,
    url: Url,
    headers: HeaderMap,
    client: Client,
}

/// The name of the last event that was taken.
#[derive(Default)]
struct Last(Mutex<Option<Arc<str>>>);

impl Last {
    fn get(&self) -> Option<Arc<str>> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set(&self, id: Option<Arc<str>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = id;
    }
}

impl SseSource {
    pub fn new(setup: &SourceSetup<'_>) -> Result<SseSource, Error> {
        let settings = Settings::of_source(setup.transport, crate::http::SPECS);
        let text = settings.text_or_default("receiver.url");
        let url = Url::parse(text).ok_or_else(|| {
            settings.refused(format!(
                "option 'receiver.url' is '{text}': write http://host:port/path"
            ))
        })?;
        let mut options = client_options(settings)?;
        if url.is_tls {
            options.tls = Some(ClientTls::new(settings, setup.environment)?);
        }
        let mut headers = common_headers(settings, &options, "")?;
        headers.remove(CONTENT_TYPE);
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        let host = HeaderValue::from_str(&url.host_header());
        headers.insert(HOST, host.map_err(|e| settings.refused(e.to_string()))?);
        add_headers(&mut headers, settings.text_or_default("headers"))
            .map_err(|cause| settings.refused(format!("option 'headers': {cause}")))?;
        let label = format!("'{}://{}{}'", url.scheme(), url.authority(), url.path);
        let names = property_names(setup.transport);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Ok(SseSource {
            network: setup.environment.network(),
            receiver: Receiver::of_server(&label, &names),
            remote: Arc::new(Remote {
                label,
                url,
                headers,
                client: Client::new(options),
            }),
            last: Arc::default(),
        })
    }

    fn unavailable(&self, cause: impl Into<Cause>) -> Error {
        Error::unavailable(self.remote.label.clone(), cause)
    }
}

impl Source for SseSource {
    fn run(&mut self, link: &mut dyn SourceLink) -> Result<Finished, Error> {
        let network = Arc::clone(&self.network);
        let workers = network.workers().map_err(|e| self.unavailable(e))?;
        self.receiver.ingress.open();
        let (leave, leaving) = oneshot::channel::<()>();
        let (remote, last) = (Arc::clone(&self.remote), Arc::clone(&self.last));
        let ingress = Arc::clone(&self.receiver.ingress);
        let names = self.receiver.names.clone();
        let started = workers.wait_for(async move {
            let Some(response) = remote.ask(last.get()).await? else {
                return Ok(None);
            };
            let reading = Reading {
                ingress,
                names,
                headers: response.headers().clone(),
                last,
            };
            let reading = reading.run(response.into_body(), leaving);
            Ok::<_, io::Error>(Some(tokio::spawn(reading)))
        });
        let started = started.map_err(|e| self.unavailable(e))?;
        let Some(task) = started.map_err(|e| self.unavailable(e))? else {
            tracing::info!(
                server = self.remote.label,
                "the server answers that nothing follows (204); it is not asked again"
            );
            return Ok(Finished::Ended);
        };
        link.report(Connection::Connected);
        let result = self.receiver.run(link);
        // Where the stream has ended by itself, nobody listens.
        leave.send(()).ok();
        workers.wait_for(task).ok();
        result
    }

    fn restore(&mut self, position: &[u8]) -> Result<(), Error> {
        let id = std::str::from_utf8(position)
            .ok()
            .filter(|id| !id.is_empty());
        self.last.set(id.map(Arc::from));
        Ok(())
    }
}

impl Remote {
    /// Asks for what follows an event, wherever redirects lead; the head of the answer is there. `None`: the server
    /// has nothing more to say, and is not to be asked again (204).
    async fn ask(&self, last: Option<Arc<str>>) -> io::Result<Option<Response<AnswerBody>>> {
        // One that no header can hold was none that a server could understand.
        let last = last.and_then(|id| HeaderValue::from_str(&id).ok());
        let mut elsewhere: Option<(Url, HeaderMap)> = None;
        for _ in 0..=REDIRECTS_MAX {
            let (url, headers) = match &elsewhere {
                Some((url, headers)) => (url, headers),
                None => (&self.url, &self.headers),
            };
            let request = OutgoingRequest {
                method: &Method::GET,
                target: &self.client.request_target(url)?,
                headers,
                extra: last.as_ref().map(|last| (LAST_ID, last)),
                body: &[],
                has_length: true,
            };
            let response = self.client.send(url, &request).await?.response;
            let is_redirect = matches!(response.status().as_u16(), 301 | 302 | 307 | 308);
            if !is_redirect {
                return judged(response);
            }
            let to = redirected(url, response.headers()).ok_or_else(|| {
                let said = format!("it answered {} without a place to ask", response.status());
                io::Error::other(said)
            })?;
            elsewhere = Some((to.clone(), self.headers_for(&to)?));
        }
        let said = format!("it answered with more than {REDIRECTS_MAX} redirects");
        Err(io::Error::other(said))
    }

    /// What another place is told: a login only where it is the same server.
    fn headers_for(&self, to: &Url) -> io::Result<HeaderMap> {
        let mut headers = self.headers.clone();
        let host = HeaderValue::from_str(&to.host_header());
        headers.insert(HOST, host.map_err(io::Error::other)?);
        let is_same =
            (to.is_tls, &to.host, to.port) == (self.url.is_tls, &self.url.host, self.url.port);
        if !is_same {
            headers.remove(AUTHORIZATION);
            headers.remove(COOKIE);
        }
        Ok(headers)
    }
}

/// Where a redirect leads from a place: a URL, or a path of the same server.
fn redirected(from: &Url, headers: &HeaderMap) -> Option<Url> {
    let location = headers.get(LOCATION)?.to_str().ok()?;
    if let Some(url) = Url::parse(location) {
        // What was asked for in secret is not asked for in the clear.
        return (url.is_tls || !from.is_tls).then_some(url);
    }
    let base = format!("{}://{}", from.scheme(), from.host_header());
    match location.strip_prefix("//") {
        Some(rest) => Url::parse(&format!("{}://{rest}", from.scheme())),
        None if location.starts_with('/') => Url::parse(&format!("{base}{location}")),
        None => None,
    }
}

/// The answer, where it is a stream or says that none follows.
fn judged(response: Response<AnswerBody>) -> io::Result<Option<Response<AnswerBody>>> {
    match response.status() {
        StatusCode::OK => {}
        StatusCode::NO_CONTENT => return Ok(None),
        status => return Err(io::Error::other(format!("it answered {status}"))),
    }
    let kind = response.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_stream = kind
        .split(';')
        .next()
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"));
    match is_stream {
        true => Ok(Some(response)),
        false => Err(io::Error::other(format!(
            "it answers with '{kind}', which is not an event stream"
        ))),
    }
}

/// What the stream of a running source works with.
struct Reading {
    ingress: Arc<Ingress>,
    names: Vec<String>,
    headers: HeaderMap,
    last: Arc<Last>,
}

impl Reading {
    async fn run(self, body: AnswerBody, leaving: oneshot::Receiver<()>) {
        let lost = tokio::select! {
            cause = self.read(body) => cause,
            // The other end is dropped only with its message sent.
            _ = leaving => return,
        };
        self.ingress.lose(lost);
    }

    /// Takes what comes until the stream ends; why it does.
    async fn read(&self, mut body: AnswerBody) -> String {
        let beat = self.headers.get(BEAT_HEADER);
        let beat = beat.and_then(|beat| beat.to_str().ok()?.parse::<u32>().ok());
        let silence_max =
            beat.map(|seconds| BEAT_LATE + BEATS_MISSED * Duration::from_secs(seconds.into()));
        let mut parser = Parser::behind(self.last.get());
        let mut events = Vec::new();
        loop {
            let data = match within(silence_max, body.piece()).await {
                Err(_) => return "the server does not answer keep-alive pings".to_owned(),
                Ok(Err(error)) => return error.to_string(),
                Ok(Ok(None)) => return "the server has ended the stream".to_owned(),
                Ok(Ok(Some(data))) => data,
            };
            let fed = parser.feed(&data, &mut events);
            for event in events.drain(..) {
                self.take(event).await;
            }
            if let Err(cause) = fed {
                return cause;
            }
        }
    }

    async fn take(&self, event: Event) {
        let properties = self.names.iter().map(|name| self.property(name, &event));
        let properties = properties.collect();
        let id = event.id.clone();
        let delivery = Delivery::text(event.data, properties).behind(id.clone());
        if self.ingress.push(delivery).await.is_err() {
            // The source stops, and ends this stream.
            std::future::pending::<()>().await;
        }
        self.last.set(id);
    }

    /// `id` and `event` are those of the event, other names headers of the answer.
    fn property(&self, name: &str, event: &Event) -> Value {
        match name {
            "id" => Value::str(event.id.as_deref().unwrap_or_default()),
            "event" => Value::str(&event.kind),
            _ => match self.headers.get(name) {
                Some(value) => Value::str(&String::from_utf8_lossy(value.as_bytes())),
                None => Value::Null,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use connect::net::testing;

    // rules: E10
    #[test]
    fn redirects_lead_to_servers_and_paths() {
        let to = |from: &str, location: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(LOCATION, location.parse().expect("it is a header"));
            let url = redirected(&Url::parse(from)?, &headers)?;
            Some(format!(
                "{}://{}{}",
                url.scheme(),
                url.authority(),
                url.target()
            ))
        };
        let of = |from, location| to(from, location).unwrap_or_default();
        assert_eq!(of("http://a/x", "http://b:1/y?z"), "http://b:1/y?z");
        assert_eq!(of("http://a:9/x", "/y?z"), "http://a:9/y?z");
        assert_eq!(of("https://a/x", "//b/y"), "https://b:443/y");
        assert_eq!(of("http://a/x", "https://a/x"), "https://a:443/x");
        for (from, location) in [
            ("https://a/x", "http://a/x"),
            ("http://a/x", "ftp://b/"),
            ("http://a/x", "y"),
        ] {
            assert_eq!(to(from, location), None, "{location}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let made = |options: &[(&str, &str)]| {
            testing::source("sse", options, |setup| SseSource::new(setup).err())
                .map_or_else(String::new, |error| error.to_string())
        };
        let url = ("receiver.url", "http://h/events");
        assert_eq!(made(&[url]), "");
        assert!(made(&[("receiver.url", "h")]).contains("write http://host:port/path"));
        assert!(made(&[url, ("headers", "'a'")]).contains("option 'headers'"));
        assert!(made(&[url, ("basic.auth.username", "u")]).contains("go together"));
        let bootstrap = ("client.bootstrap.configurations", "'a:b'");
        assert!(made(&[url, bootstrap]).contains("unknown key 'a'"));
    }
}
