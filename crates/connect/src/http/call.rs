//! Responses on their way back: what joins `http-call` sinks with the `http-call-response` sources of
//! the same `sink.id`.
//!
//! Sources are known in the whole server (`HTTPSourceRegistry`): each names an id and a regular
//! expression for the status codes that it takes, and a response goes to every source that fits.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dialect::regex::Regex;
use event::{Batch, Value};
use hyper::HeaderMap;

use super::source::property_names;
use crate::component::{Connection, Finished, Source, SourceLink, SourceSetup};
use crate::error::Error;
use crate::net::{Body, Delivery, Intake, Receiver, Settings};

/// A source that stops waits until so long no request of its sink was on its way, so that what the
/// app has asked is answered; not longer than the second.
const QUIET: Duration = Duration::from_millis(100);
const STOP_GRACE: Duration = Duration::from_secs(5);

/// The sources of a server that wait for responses.
#[derive(Default)]
pub(crate) struct Calls {
    sources: Mutex<Vec<Arc<Waiting>>>,
    /// Requests on their way by `sink.id`.
    on_their_way: Mutex<HashMap<String, Arc<AtomicUsize>>>,
}

/// One source of responses.
pub(crate) struct Waiting {
    sink_id: String,
    /// As written, for the message about a second source of the same.
    status_text: String,
    status: Regex,
    names: Vec<String>,
    pub is_streaming: bool,
    intake: Arc<Intake>,
}

/// A response, or a piece of one.
pub(crate) struct Received<'a> {
    pub headers: &'a HeaderMap,
    pub body: Body,
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
        self.lock().retain(|other| !Arc::ptr_eq(other, waiting));
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

impl Waiting {
    /// Hands the response over; false where the source takes nothing.
    pub fn deliver(&self, received: &Received<'_>) -> bool {
        let properties = self.names.iter().map(|name| received.property(name));
        let delivery = Delivery::of(received.body.clone(), properties.collect());
        self.intake.push_past(delivery).is_ok()
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

/// `@source(type='http-call-response')`.
pub(crate) struct ResponseSource {
    calls: Arc<Calls>,
    waiting: Arc<Waiting>,
    receiver: Receiver,
}

impl ResponseSource {
    pub fn new(setup: &SourceSetup<'_>) -> Result<ResponseSource, Error> {
        let status = setup.transport.option("http.status.code").unwrap_or("200");
        ResponseSource::of(setup, &setup.environment.network.calls, status)
    }

    /// Of calls that are answered in another way than `http-call`'s.
    pub fn of(
        setup: &SourceSetup<'_>,
        calls: &Arc<Calls>,
        status_text: &str,
    ) -> Result<ResponseSource, Error> {
        let settings = Settings::of_source(setup.transport);
        let sink_id = settings
            .text("sink.id")
            .ok_or_else(|| settings.refused("option 'sink.id' is missing"))?;
        let status = Regex::whole(status_text).map_err(|error| {
            settings.refused(format!("option 'http.status.code' is no pattern: {error}"))
        })?;
        let receiver = Receiver::new(property_names(setup.transport));
        let calls = Arc::clone(calls);
        let waiting = calls
            .register(Waiting {
                sink_id: sink_id.to_owned(),
                status_text: status_text.to_owned(),
                status,
                names: receiver.names.clone(),
                is_streaming: settings.flag("allow.streaming.responses", false),
                intake: Arc::clone(&receiver.intake),
            })
            .ok_or_else(|| {
                settings.refused(format!(
                    "another source takes the responses of sink '{sink_id}' with the status \
                     '{status_text}'; give each source a 'http.status.code' of its own"
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
        self.receiver.intake.open();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::component::{Environment, SourceSetup};
    use crate::net::testing;

    #[test]
    fn a_response_goes_to_the_sources_whose_status_it_has() {
        let environment = Environment::new("A");
        let make = |status: &str| {
            let options = [("sink.id", "s"), ("http.status.code", status)];
            ResponseSource::new(&SourceSetup {
                transport: &testing::transport("http-response", &options),
                schema: &testing::schema(),
                environment: &environment,
            })
        };
        let found = |status| environment.network.calls.find("s", status).len();
        let good = make("2\\d+").expect("the first");
        let both = make("200|404").expect("another");
        assert!(make("2\\d+").is_err());
        assert_eq!(
            (found(200), found(201), found(404), found(500)),
            (2, 1, 1, 0)
        );
        assert_eq!(environment.network.calls.find("t", 200).len(), 0);
        drop(good);
        assert_eq!((found(200), found(201)), (1, 0));
        drop(both);
        assert_eq!(found(200), 0);
    }
}
