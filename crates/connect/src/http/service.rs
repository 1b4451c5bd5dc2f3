//! Requests that are held for an answer of the app: what joins the `http-service` source and the
//! `http-service-response` sink of one `source.id`.
//!
//! Ids are known in the whole server, so that the sink may stand in another app than the source
//! (`HTTPSourceRegistry`). A request whose answer comes too late, or whose app stops, is answered 504.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use tokio::sync::oneshot;

use super::headers::{self, content_type};
use super::request::Answer;
use crate::component::{Sink, SinkSetup};
use crate::error::Error;
use crate::message::Message;
use crate::net::Settings;

/// Services of a server by `source.id`, with what they answer.
pub(crate) struct Services<A = Answer> {
    by_id: Mutex<HashMap<String, Arc<Service<A>>>>,
}

impl<A> Default for Services<A> {
    fn default() -> Services<A> {
        Services {
            by_id: Mutex::default(),
        }
    }
}

/// The pending requests of one service.
pub(crate) struct Service<A = Answer> {
    pub timeout: Option<Duration>,
    pending: Mutex<HashMap<String, oneshot::Sender<A>>>,
    ids: Ids,
}

/// A request that waits; it is forgotten when dropped.
pub(crate) struct Pending<'a, A = Answer> {
    service: &'a Service<A>,
    id: &'a str,
    pub answer: oneshot::Receiver<A>,
}

impl<A> Drop for Pending<'_, A> {
    fn drop(&mut self) {
        self.service.lock().remove(self.id);
    }
}

impl<A> Services<A> {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Service<A>>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` where another source has the id.
    pub fn register(&self, id: &str, timeout: Option<Duration>) -> Option<Arc<Service<A>>> {
        let mut by_id = self.lock();
        if by_id.contains_key(id) {
            return None;
        }
        let service = Arc::new(Service {
            timeout,
            pending: Mutex::default(),
            ids: Ids::default(),
        });
        by_id.insert(id.to_owned(), Arc::clone(&service));
        Some(service)
    }

    pub fn remove(&self, id: &str) {
        self.lock().remove(id);
    }

    pub fn get(&self, id: &str) -> Option<Arc<Service<A>>> {
        self.lock().get(id).cloned()
    }
}

impl<A> Service<A> {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, oneshot::Sender<A>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn new_id(&self) -> String {
        self.ids.next()
    }

    pub fn wait_for<'a>(&'a self, id: &'a str) -> Pending<'a, A> {
        let (answer, receiver) = oneshot::channel();
        self.lock().insert(id.to_owned(), answer);
        Pending {
            service: self,
            id,
            answer: receiver,
        }
    }

    /// Gives up all that wait: the app stops.
    pub fn give_up(&self) {
        self.lock().clear();
    }

    /// False where nobody waits for it (any more).
    pub fn answer(&self, id: &str, answer: A) -> bool {
        let waiting = self.lock().remove(id);
        waiting.is_some_and(|waiting| waiting.send(answer).is_ok())
    }
}

/// Random (version 4) UUIDs: a keyed hash, with keys from the system, of a counter.
#[derive(Default)]
pub(crate) struct Ids {
    keys: [RandomState; 2],
    count: AtomicU64,
}

impl Ids {
    pub fn next(&self) -> String {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let [high, low] = [&self.keys[0], &self.keys[1]].map(|key| key.hash_one(count));
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xfff,
            low >> 48 & 0x3fff | 0x8000,
            low & 0xffff_ffff_ffff
        )
    }
}

/// `@sink(type='http-service-response')`.
pub(super) struct ResponseSink {
    name: String,
    services: Arc<Services>,
    source_id: String,
    message_id: Dynamic,
    status: Dynamic,
    headers: Dynamic,
    content_type: &'static str,
}

/// An option that may depend on the event.
pub(crate) enum Dynamic {
    Constant(String),
    /// Index among those that do.
    Event(usize),
}

impl Dynamic {
    pub fn new(setup: &SinkSetup<'_>, name: &str, default: &str) -> Dynamic {
        match setup.dynamic.iter().position(|dynamic| dynamic == name) {
            Some(index) => Dynamic::Event(index),
            None => Dynamic::Constant(setup.transport.option(name).unwrap_or(default).to_owned()),
        }
    }

    pub fn of<'a>(&'a self, message: &Message<'a>) -> &'a str {
        match self {
            Dynamic::Constant(text) => text,
            Dynamic::Event(index) => message.option(*index),
        }
    }
}

impl ResponseSink {
    pub fn new(setup: &SinkSetup<'_>) -> Result<ResponseSink, Error> {
        let settings = Settings::of_sink(setup.transport);
        let source_id = settings
            .text("source.id")
            .ok_or_else(|| settings.refused("option 'source.id' is missing"))?;
        Ok(ResponseSink {
            name: format!("sink '{}'", setup.transport.ty),
            services: Arc::clone(&setup.environment.network.services),
            source_id: source_id.to_owned(),
            message_id: Dynamic::new(setup, "message.id", ""),
            status: Dynamic::new(setup, "status.code", "200"),
            headers: Dynamic::new(setup, "headers", ""),
            content_type: content_type(&setup.transport.map.ty),
        })
    }

    fn failed(&self, cause: impl Into<String>) -> Error {
        Error::failed(format!("answering by {}", self.name), cause.into())
    }

    fn response(&self, message: &Message<'_>) -> Result<Answer, Error> {
        let body = headers::body(message.payload)
            .ok_or_else(|| self.failed("the payload is neither text nor bytes"))?;
        let mut response = Response::new(Full::new(body));
        let status = self.status.of(message).trim();
        *response.status_mut() = status.parse::<StatusCode>().map_err(|_| {
            self.failed(format!(
                "'{status}' is no status: use a number from 100 to 999"
            ))
        })?;
        let into = response.headers_mut();
        into.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers::add(into, self.headers.of(message)).map_err(|cause| self.failed(cause))?;
        Ok(response)
    }
}

impl Sink for ResponseSink {
    fn connect(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn publish(&mut self, message: &Message<'_>) -> Result<(), Error> {
        let response = self.response(message)?;
        let id = self.message_id.of(message);
        let service = self
            .services
            .get(&self.source_id)
            .ok_or_else(|| self.failed(format!("there is no source '{}'", self.source_id)))?;
        if service.answer(id, response) {
            return Ok(());
        }
        Err(self.failed(format!(
            "no request with the id '{id}' waits: it was answered before, or too late"
        )))
    }

    fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn close(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::body::Bytes;

    #[test]
    fn ids_are_uuids_of_version_four() {
        let ids = Ids::default();
        let (a, b) = (ids.next(), ids.next());
        assert_ne!(a, b);
        let parts: Vec<usize> = a.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12], "{a}");
        assert_eq!(a.as_bytes()[14], b'4');
        assert!(matches!(a.as_bytes()[19], b'8' | b'9' | b'a' | b'b'), "{a}");
    }

    #[test]
    fn a_request_is_answered_once_and_forgotten() {
        let services: Services = Services::default();
        let service = services.register("s", None).unwrap();
        assert!(services.register("s", None).is_none());
        let mut pending = service.wait_for("1");
        let answer = || Response::new(Full::new(Bytes::new()));
        assert!(service.answer("1", answer()));
        assert!(!service.answer("1", answer()));
        assert!(pending.answer.try_recv().is_ok());
        drop(pending);
        drop(service.wait_for("2"));
        assert!(service.lock().is_empty());
    }
}
