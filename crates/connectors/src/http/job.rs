//! A request of a sink, ready to be sent as often as needed.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::Method;
use hyper::header::{HOST, HeaderMap, HeaderValue};

use connect::error::Error;
use connect::message::{Message, Sent, Undelivered};
use connect::net::http_client::{Client, headers};
use connect::option::Dynamic;
use connect::url::Url;

use super::hub::Subscriber;

/// Where requests go: what is the same for all of them.
pub(super) struct Endpoint {
    pub url: Url,
    /// What stands in the request line.
    pub target: String,
    /// The value of the header `Host`.
    host: HeaderValue,
}

impl Endpoint {
    /// # Errors
    /// The URL has characters that cannot be sent.
    pub fn new(url: Url, client: &Client) -> Result<Endpoint, String> {
        let host = HeaderValue::from_str(&url.host_header());
        Ok(Endpoint {
            target: client.request_target(&url).map_err(|e| e.to_string())?,
            host: host.map_err(|e| e.to_string())?,
            url,
        })
    }

    pub fn peer(&self) -> String {
        format!("'{}://{}'", self.url.scheme(), self.url.authority())
    }
}

/// Method and headers of requests. What does not depend on the event is made once.
pub(super) struct Head {
    method: Method,
    /// Those of every request, and those of the option `headers` if it does not depend on the event.
    headers: Arc<HeaderMap>,
    method_of_event: Option<Dynamic>,
    headers_of_event: Option<Dynamic>,
    /// Those of the last event, which the next one often has as well.
    recent: Mutex<Option<Recent>>,
}

struct Recent {
    text: String,
    endpoint: Arc<Endpoint>,
    headers: Arc<HeaderMap>,
}

impl Head {
    /// # Errors
    /// An option that does not depend on the event is wrong.
    pub fn new(
        method: Dynamic,
        common: HeaderMap,
        headers: Dynamic,
        endpoint: Option<&Endpoint>,
    ) -> Result<Head, String> {
        let mut all = common;
        let (method, method_of_event) = match method {
            Dynamic::Constant(text) => {
                let method = method_of(&text).map_err(|cause| format!("option 'method': {cause}"));
                (method?, None)
            }
            Dynamic::Event(_) => (Method::POST, Some(method)),
        };
        let headers_of_event = match headers {
            Dynamic::Constant(text) => {
                headers::add(&mut all, &text)
                    .map_err(|cause| format!("option 'headers': {cause}"))?;
                if let Some(endpoint) = endpoint {
                    all.entry(HOST).or_insert_with(|| endpoint.host.clone());
                }
                None
            }
            Dynamic::Event(_) => Some(headers),
        };
        Ok(Head {
            method,
            headers: Arc::new(all),
            method_of_event,
            headers_of_event,
            recent: Mutex::default(),
        })
    }

    pub fn method(&self, message: &Message<'_>) -> Result<Method, String> {
        match &self.method_of_event {
            None => Ok(self.method.clone()),
            Some(method) => method_of(method.of(message)),
        }
    }

    /// With `Host`, unless an option has set it.
    pub fn headers(
        &self,
        message: &Message<'_>,
        endpoint: &Arc<Endpoint>,
    ) -> Result<Arc<HeaderMap>, String> {
        let Some(of_event) = &self.headers_of_event else {
            return Ok(with_host(Arc::clone(&self.headers), endpoint));
        };
        let text = of_event.of(message);
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(recent) = &*recent
            && recent.text == text
            && Arc::ptr_eq(&recent.endpoint, endpoint)
        {
            return Ok(Arc::clone(&recent.headers));
        }
        let mut all = HeaderMap::clone(&self.headers);
        headers::add(&mut all, text)?;
        let headers = with_host(Arc::new(all), endpoint);
        *recent = Some(Recent {
            text: text.to_owned(),
            endpoint: Arc::clone(endpoint),
            headers: Arc::clone(&headers),
        });
        Ok(headers)
    }
}

fn with_host(mut headers: Arc<HeaderMap>, endpoint: &Endpoint) -> Arc<HeaderMap> {
    if !headers.contains_key(HOST) {
        Arc::make_mut(&mut headers).insert(HOST, endpoint.host.clone());
    }
    headers
}

fn method_of(text: &str) -> Result<Method, String> {
    let method = text.trim().to_ascii_uppercase();
    Method::from_bytes(method.as_bytes()).map_err(|_| format!("'{method}' is not an HTTP method"))
}

pub(super) struct Job {
    pub endpoint: Arc<Endpoint>,
    pub method: Method,
    pub headers: Arc<HeaderMap>,
    pub has_length: bool,
    pub refresh_token: String,
    pub download: Option<PathBuf>,
    /// Whom it is for, where a hub sends it.
    pub subscriber: Option<Arc<Subscriber>>,
    pub sent: Sent,
}

impl Job {
    pub fn peer(&self) -> String {
        self.endpoint.peer()
    }
}

/// A request that is not on its way, or has not arrived.
pub(super) struct Failed {
    /// `None`: it is lost, as the network of the process has ended.
    pub job: Option<Box<Job>>,
    pub error: Error,
    /// The other side may have it.
    pub was_sent: bool,
}

pub(super) fn undelivered((job, error): (Job, Error)) -> Undelivered {
    Undelivered {
        message: job.sent,
        error,
    }
}
