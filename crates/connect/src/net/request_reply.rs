//! Requests and their answers, when both pass through apps.
//!
//! [`Calls`] joins sinks that call (`http-call`, `grpc-call`) with the sources that take the responses,
//! by `sink.id`: each source names a regular expression for the status codes that it takes, and a
//! response goes to every source that fits. [`Services`] joins sources that hold a request with the
//! sinks that answer it, by `source.id`. Both are known in the whole server, as Siddhi's
//! `HTTPSourceRegistry` is. A request whose answer comes too late, or whose app stops, gets none.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use event::{Batch, Value};
use hyper::HeaderMap;
use javatext::regex::Regex;
use tokio::sync::oneshot;

use crate::component::{Connection, Finished, Source, SourceLink};
use crate::error::Error;
use crate::ids::Ids;
use crate::net::{Body, Delivery, Ingress, Receiver};
use crate::option::Settings;
use crate::option::property_names;

/// A source that stops waits until so long no request of its sink was on its way, so that what the
/// app has asked is answered; not longer than the second.
const QUIET: Duration = Duration::from_millis(100);
const STOP_GRACE: Duration = Duration::from_secs(2);

/// The sources of a server that wait for responses.
#[derive(Default)]
pub struct Calls {
    sources: Mutex<Vec<Arc<Waiting>>>,
    /// How often they have changed.
    version: AtomicU64,
    /// Requests on their way by `sink.id`.
    on_their_way: Mutex<HashMap<String, Arc<AtomicUsize>>>,
}

/// One source of responses.
pub struct Waiting {
    sink_id: String,
    /// As written, for the message about a second source of the same.
    status_text: String,
    status: Regex,
    names: Vec<String>,
    pub is_streaming: bool,
    ingress: Arc<Ingress>,
}

/// What comes with a response, or with a piece of one.
pub struct Received<'a> {
    pub headers: &'a HeaderMap,
    /// The event that asked.
    pub event: Option<(&'a Batch, &'a [String], usize)>,
}

impl Calls {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Waiting>>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn register(&self, waiting: Waiting) -> Option<Arc<Waiting>> {
        let mut sources = self.lock();
        let is_twin = |other: &Arc<Waiting>| {
            other.sink_id == waiting.sink_id && other.status_text == waiting.status_text
        };
        if sources.iter().any(is_twin) {
            return None;
        }
        let waiting = Arc::new(waiting);
        sources.push(Arc::clone(&waiting));
        self.version.fetch_add(1, Ordering::Release);
        Some(waiting)
    }

    /// The count of requests that a sink of this id has on their way.
    pub fn on_their_way(&self, sink_id: &str) -> Arc<AtomicUsize> {
        let mut all = self
            .on_their_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(sink_id.to_owned()).or_default())
    }

    fn remove(&self, waiting: &Arc<Waiting>) {
        let mut sources = self.lock();
        sources.retain(|other| !Arc::ptr_eq(other, waiting));
        self.version.fetch_add(1, Ordering::Release);
    }

    /// The sources that take responses of this status to requests of this sink.
    pub fn find(&self, sink_id: &str, status: u16) -> Vec<Arc<Waiting>> {
        let code = status.to_string();
        let fits = |waiting: &&Arc<Waiting>| {
            // A pattern that gives up on a status code does not take it.
            waiting.sink_id == sink_id && waiting.status.is_match(&code).unwrap_or(false)
        };
        self.lock().iter().filter(fits).cloned().collect()
    }
}

/// The sources that were found last, for whoever asks with each response.
#[derive(Default)]
pub struct Found {
    version: u64,
    status: u16,
    sources: Option<Arc<[Arc<Waiting>]>>,
}

impl Found {
    /// As [`Calls::find`].
    pub fn find(&mut self, calls: &Calls, sink_id: &str, status: u16) -> Arc<[Arc<Waiting>]> {
        let version = calls.version.load(Ordering::Acquire);
        match &self.sources {
            Some(sources) if (self.version, self.status) == (version, status) => {
                Arc::clone(sources)
            }
            _ => {
                let sources: Arc<[_]> = calls.find(sink_id, status).into();
                *self = Found {
                    version,
                    status,
                    sources: Some(Arc::clone(&sources)),
                };
                sources
            }
        }
    }
}

impl Waiting {
    /// Hands the response over; false where the source takes nothing.
    pub fn deliver(&self, received: &Received<'_>, body: Body) -> bool {
        let properties = self.names.iter().map(|name| received.property(name));
        let delivery = Delivery::of(body, properties.collect());
        self.ingress.push_past(delivery).is_ok()
    }
}

/// Hands a response to each of the sources; `is_gone` is called for one that takes nothing.
pub fn deliver_to_all(
    sources: &[Arc<Waiting>],
    received: &Received<'_>,
    body: Body,
    is_gone: impl Fn(),
) {
    let Some((last, others)) = sources.split_last() else {
        return;
    };
    for source in others {
        if !source.deliver(received, body.clone()) {
            is_gone();
        }
    }
    if !last.deliver(received, body) {
        is_gone();
    }
}

impl Received<'_> {
    /// An attribute of the event that asked, else a header of the response.
    fn property(&self, name: &str) -> Value {
        if let Some((batch, names, row)) = self.event
            && let Some(column) = names.iter().position(|n| n == name)
        {
            return batch.columns[column].value(row);
        }
        match self.headers.get(name) {
            Some(value) => Value::str(&String::from_utf8_lossy(value.as_bytes())),
            None => Value::Null,
        }
    }
}

/// A source of responses, as `@source(type='http-call-response')`.
pub struct ResponseSource {
    calls: Arc<Calls>,
    waiting: Arc<Waiting>,
    receiver: Receiver,
}

impl ResponseSource {
    /// The source of a transport, among those of its protocol.
    ///
    /// # Errors
    /// `sink.id` is missing, `status_text` is not a pattern, or another source has both.
    pub fn of(
        settings: Settings<'_>,
        calls: &Arc<Calls>,
        status_text: &str,
    ) -> Result<ResponseSource, Error> {
        let sink_id = settings
            .text("sink.id")
            .ok_or_else(|| settings.refused("option 'sink.id' is missing"))?;
        let status = Regex::whole(status_text).map_err(|error| {
            settings.refused(format!(
                "option 'http.status.code' is not a pattern: {error}"
            ))
        })?;
        let receiver = Receiver::new(property_names(settings.transport()));
        let calls = Arc::clone(calls);
        let waiting = calls
            .register(Waiting {
                sink_id: sink_id.to_owned(),
                status_text: status_text.to_owned(),
                status,
                names: receiver.names.clone(),
                is_streaming: settings.is_set_to("allow.streaming.responses", true),
                ingress: Arc::clone(&receiver.ingress),
            })
            .ok_or_else(|| {
                settings.refused(format!(
                    "another source already receives the responses of sink '{sink_id}' with status \
                     '{status_text}'; give each source its own 'http.status.code'"
                ))
            })?;
        Ok(ResponseSource {
            calls,
            waiting,
            receiver,
        })
    }
}

impl Drop for ResponseSource {
    fn drop(&mut self) {
        self.calls.remove(&self.waiting);
    }
}

impl Source for ResponseSource {
    fn run(&mut self, link: &mut dyn SourceLink) -> Result<Finished, Error> {
        self.receiver.ingress.open();
        link.report(Connection::Connected);
        let requests = self.calls.on_their_way(&self.waiting.sink_id);
        let mut begun = None;
        let mut busy = Instant::now();
        self.receiver.run_until(link, || {
            let now = Instant::now();
            let begun = *begun.get_or_insert(now);
            if requests.load(Ordering::Relaxed) > 0 || begun == now {
                busy = now;
            }
            now - busy > QUIET || now - begun > STOP_GRACE
        })
    }

    fn restore(&mut self, _position: &[u8]) -> Result<(), Error> {
        Ok(())
    }

    fn is_reply(&self) -> bool {
        true
    }
}

/// Services of a server by `source.id`, with what they answer.
pub struct Services<A> {
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
pub struct Service<A> {
    pub timeout: Option<Duration>,
    pending: Mutex<HashMap<String, oneshot::Sender<A>>>,
    ids: Ids,
}

/// A request that waits; it is forgotten when dropped.
pub struct Pending<'a, A> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::testing;

    #[test]
    fn a_response_goes_to_the_sources_whose_status_it_has() {
        let calls = Arc::new(Calls::default());
        let make = |status: &str| {
            let options = [("sink.id", "s"), ("http.status.code", status)];
            ResponseSource::of(
                Settings::of_source(&testing::transport("http-response", &options), &[]),
                &calls,
                status,
            )
        };
        let last = std::cell::RefCell::new(Found::default());
        let found = |status| {
            let found = calls.find("s", status).len();
            let same = last.borrow_mut().find(&calls, "s", status);
            assert_eq!(same.len(), found);
            found
        };
        let good = make("2\\d+").expect("the first");
        let both = make("200|404").expect("another");
        assert!(make("2\\d+").is_err());
        assert_eq!(
            (found(200), found(201), found(404), found(500)),
            (2, 1, 1, 0)
        );
        assert_eq!(calls.find("t", 200).len(), 0);
        drop(good);
        assert_eq!((found(200), found(201)), (1, 0));
        drop(both);
        assert_eq!(found(200), 0);
    }

    #[test]
    fn a_request_is_answered_once_and_forgotten() {
        let services = Services::<u32>::default();
        let service = services.register("s", None).unwrap();
        assert!(services.register("s", None).is_none());
        let mut pending = service.wait_for("1");
        assert!(service.answer("1", 7));
        assert!(!service.answer("1", 7));
        assert!(pending.answer.try_recv().is_ok());
        drop(pending);
        drop(service.wait_for("2"));
        assert!(service.lock().is_empty());
    }
}
