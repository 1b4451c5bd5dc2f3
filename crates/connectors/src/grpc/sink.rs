//! The `grpc` sink, which waits for the status of each event, and the `grpc-call` sink, whose calls are
//! on their way at once and whose responses come back through a source.

use std::collections::BTreeMap;
use std::str::FromStr as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::http::uri::PathAndQuery;
use prost::Message as _;
use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue, MetadataMap};

use super::channel::{Answer, Channel, Failed, KeepAlive, Server};
use super::source::check_mapper;
use super::wire::Event;
use super::{ANSWERED, GrpcCalls};
use connect::answer::{AnswerClass, AnswerCounts};
use connect::component::{Payload, Sink, SinkSetup};
use connect::error::Error;
use connect::mapper::protobuf::target::Target;
use connect::message::{Message, Sent, Undelivered};
use connect::net::request_reply::{Calls, Received, deliver_to_all};
use connect::net::{Body, ClientTls, ClientTrust, Network, is_again_too_soon};
use connect::option::Dynamic;
use connect::option::{Settings, list};

/// Calls on their way.
const IN_FLIGHT_MAX: usize = 128;

/// How long a server may take to answer a question for a sign of life, where no option says it.
const UNANSWERED: Duration = Duration::from_secs(2);

/// The header that names the sequence of a URL.
const SEQUENCE: &str = "sequence";

pub(super) struct GrpcSink {
    network: Arc<Network>,
    shared: Arc<Shared>,
    headers: Dynamic,
    metadata: Dynamic,
    /// A connection without calls is closed after so long.
    idle: Option<Duration>,
    used: Instant,
    connected: Option<Instant>,
    /// How long calls may take when the sink closes.
    grace: Duration,
}

/// What calls on their way need.
struct Shared {
    server: Server,
    /// Tries of a call before the server counts as unavailable.
    attempts: u32,
    call: Option<Call>,
    /// What got no answer is kept, and goes out again (`on.error='WAIT'`).
    answers: Arc<AnswerCounts>,
    keeps_failed: bool,
    flight: Mutex<Flight>,
    changed: Condvar,
}

/// What a call does with its response.
struct Call {
    sink_id: String,
    calls: Arc<Calls>,
    /// Calls whose response has not been handed over.
    on_their_way: Arc<AtomicUsize>,
    /// Names of the stream's attributes, for `trp:` of the response.
    names: Vec<String>,
}

#[derive(Default)]
struct Flight {
    channel: Option<Channel>,
    count: usize,
    /// What got no answer, and why.
    failed: Vec<(Job, Error)>,
    /// What a server will never take, of a sink that keeps what has failed.
    refused: Vec<(Job, Error)>,
}

/// One call, ready to be made as often as needed.
struct Job {
    message: Bytes,
    metadata: MetadataMap,
    sent: Sent,
}

impl GrpcSink {
    pub fn new(setup: &SinkSetup<'_>) -> Result<GrpcSink, Error> {
        let settings = Settings::of_sink(setup.transport, crate::grpc::CONNECTORS);
        let text = settings.text_or_default("publisher.url");
        let target = Target::parse(text)
            .map_err(|cause| settings.refused(format!("option 'publisher.url': {cause}")))?;
        check_mapper(settings, &target, &setup.transport.map.ty)?;
        let call = call(setup, settings)?;
        let usual = if call.is_some() { "process" } else { "consume" };
        let path = PathAndQuery::from_str(&target.path(usual))
            .map_err(|error| settings.refused(format!("option 'publisher.url': {error}")))?;
        let (headers, metadata) = (
            Dynamic::new(setup, settings, "headers"),
            Dynamic::new(setup, settings, "metadata"),
        );
        for (name, option) in [("headers", &headers), ("metadata", &metadata)] {
            let Dynamic::Constant(text) = option else {
                continue;
            };
            let checked = list(text).map_err(bad_entry);
            let checked = checked.and_then(|entries| match name {
                "metadata" => metadata_of(entries).map(drop),
                _ => Ok(()),
            });
            checked.map_err(|cause| settings.refused(format!("option '{name}': {cause}")))?;
        }
        let seconds = |name: &str| -> Result<Option<Duration>, Error> {
            let seconds: Option<u64> = settings.optional(name)?;
            Ok(seconds.filter(|s| *s > 0).map(Duration::from_secs))
        };
        let attempts = match settings.flag("enable.retry") {
            true => settings.number("max.retry.attempts")?,
            false => 1,
        };
        let on_error = settings.text_or_default("on.error").trim();
        let server = Server {
            name: format!("{}/{}", setup.environment.app, setup.schema.name),
            target,
            path,
            tls: tls(settings)?,
            keep_alive: KeepAlive {
                time: seconds("keep.alive.time")?,
                timeout: seconds("keep.alive.timeout")?.unwrap_or(UNANSWERED),
                without_calls: settings
                    .text("keep.alive.without.calls")
                    .map(|_| settings.flag("keep.alive.without.calls")),
                complaints: Arc::default(),
            },
            message_bytes: settings.number("max.inbound.message.size")?,
            metadata_bytes: settings.number("max.inbound.metadata.size")?,
        };
        Ok(GrpcSink {
            network: setup.environment.network(),
            headers,
            metadata,
            idle: seconds("idle.timeout")?.or(Some(Duration::from_secs(1800))),
            used: Instant::now(),
            connected: None,
            grace: seconds("channel.termination.waiting.time")?.unwrap_or(Duration::from_secs(5)),
            shared: Arc::new(Shared {
                server,
                attempts: attempts.max(1),
                call,
                answers: Arc::clone(setup.answers),
                keeps_failed: on_error.eq_ignore_ascii_case("WAIT"),
                flight: Mutex::default(),
                changed: Condvar::new(),
            }),
        })
    }

    fn failed(&self, cause: impl Into<String>) -> Error {
        self.shared.refused(cause.into())
    }

    fn job(&self, message: &Message<'_>) -> Result<Job, Error> {
        let target = &self.shared.server.target;
        let mut headers: BTreeMap<String, String> = list(self.headers.of(message))
            .map_err(|entry| self.failed(bad_entry(entry)))?
            .into_iter()
            .collect();
        let metadata = list(self.metadata.of(message)).map_err(bad_entry);
        let metadata = metadata.and_then(metadata_of).map_err(|e| self.failed(e))?;
        if let Some(sequence) = target.sequence() {
            headers.insert(SEQUENCE.to_owned(), sequence.to_owned());
        }
        let bytes = match message.payload {
            Payload::Text(text) => text.as_bytes(),
            Payload::Bytes(bytes) => bytes,
            _ => return Err(self.failed("the payload is neither text nor bytes")),
        };
        let body = match target.own_service() {
            Some(_) => Bytes::copy_from_slice(bytes),
            None => {
                let payload = std::str::from_utf8(bytes)
                    .map_err(|_| {
                        self.failed("the payload is not text, which Siddhi's service requires")
                    })?
                    .to_owned();
                Event { payload, headers }.encode_to_vec().into()
            }
        };
        Ok(Job {
            message: body,
            metadata,
            sent: Sent::new(message),
        })
    }

    /// The open connection, where there is one.
    fn channel(&self) -> Result<Channel, Error> {
        let mut flight = self.shared.lock();
        if flight.channel.as_ref().is_some_and(Channel::is_closed) {
            flight.channel = None;
        }
        let lost = || self.shared.unavailable("the connection is lost".to_owned());
        flight.channel.clone().ok_or_else(lost)
    }
}

fn undelivered(jobs: Vec<(Job, Error)>) -> Vec<Undelivered> {
    let given_back = |(job, error): (Job, Error)| Undelivered {
        message: job.sent,
        error,
    };
    jobs.into_iter().map(given_back).collect()
}

fn bad_entry(entry: String) -> String {
    format!("the entry '{entry}' is wrong: write 'name:value','name:value'")
}

fn metadata_of(entries: Vec<(String, String)>) -> Result<MetadataMap, String> {
    let mut metadata = MetadataMap::new();
    for (name, value) in entries {
        let wrong = || format!("metadata '{name}' cannot be sent");
        let key = AsciiMetadataKey::from_str(&name.to_ascii_lowercase()).map_err(|_| wrong())?;
        let value = AsciiMetadataValue::from_str(&value).map_err(|_| wrong())?;
        metadata.insert(key, value);
    }
    Ok(metadata)
}

fn call(setup: &SinkSetup<'_>, settings: Settings<'_>) -> Result<Option<Call>, Error> {
    if setup.transport.ty == "grpc" {
        return Ok(None);
    }
    let sink_id = settings
        .text("sink.id")
        .ok_or_else(|| settings.refused("option 'sink.id' is missing"))?;
    let calls = &setup.environment.shared.get::<GrpcCalls>().0;
    let names = setup.schema.attributes.iter().map(|a| a.name.clone());
    Ok(Some(Call {
        sink_id: sink_id.to_owned(),
        on_their_way: calls.on_their_way(sink_id),
        calls: Arc::clone(calls),
        names: names.collect(),
    }))
}

/// With `enable.ssl`, or a store that only TLS has use for.
fn tls(settings: Settings<'_>) -> Result<Option<ClientTls>, Error> {
    let of = |name| settings.text(name);
    let store = of("truststore.file").map(|path| (path, of("truststore.password")));
    let identity = of("keystore.file").map(|path| {
        let password = of("keystore.password");
        (path, password, password)
    });
    if settings.flag("mutual.auth.enabled") && identity.is_none() {
        return Err(settings
            .refused("option 'mutual.auth.enabled' needs the certificate of 'keystore.file'"));
    }
    if !settings.flag("enable.ssl") && store.is_none() && identity.is_none() {
        return Ok(None);
    }
    let trust = ClientTrust {
        store,
        identity,
        ..ClientTrust::default()
    };
    let tls = ClientTls::trusting(settings, "TLS", trust)?;
    Ok(Some(tls.speaking(b"h2")))
}

/// One of the calls on their way.
struct Underway<'a>(&'a AtomicUsize);

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Flight> {
        self.flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, flight: MutexGuard<'a, Flight>) -> MutexGuard<'a, Flight> {
        self.changed
            .wait(flight)
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn unavailable(&self, cause: String) -> Error {
        Error::unavailable(self.server.label(), cause)
    }

    fn refused(&self, cause: String) -> Error {
        Error::failed(format!("a call of {}", self.server.label()), cause)
    }

    /// Makes a call, as often as it may be tried, and hands its response over.
    async fn make(&self, channel: &Channel, job: &Job) -> Result<(), Error> {
        let _underway = self.call.as_ref().map(|call| {
            call.on_their_way.fetch_add(1, Ordering::Relaxed);
            Underway(&call.on_their_way)
        });
        let mut left = self.attempts;
        loop {
            left -= 1;
            let called = self
                .server
                .call(channel, job.message.clone(), job.metadata.clone());
            let called = called.await;
            if let Err(Failed::Unavailable(_)) = &called {
                self.answers.add(AnswerClass::Retry, 1);
            }
            match called {
                Ok(answer) => {
                    self.answers.add(AnswerClass::Accepted, 1);
                    self.hand_over(job, answer);
                    return Ok(());
                }
                Err(Failed::Refused(cause)) => {
                    self.answers.add(AnswerClass::Refused, 1);
                    return Err(self.refused(cause));
                }
                Err(Failed::Unavailable(_)) if left > 0 && !channel.is_closed() => {}
                Err(Failed::Unavailable(cause)) => return Err(self.unavailable(cause)),
            }
        }
    }

    fn hand_over(&self, job: &Job, answer: Answer) {
        let Some(call) = &self.call else { return };
        let mut headers = HeaderMap::new();
        let body = match self.server.target.own_service() {
            Some(_) => Body::Bytes(answer.message),
            None => match Event::decode(answer.message) {
                Ok(event) => {
                    for (name, value) in event.headers {
                        let name = HeaderName::from_bytes(name.as_bytes());
                        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(&value)) {
                            headers.insert(name, value);
                        }
                    }
                    Body::Text(event.payload)
                }
                Err(error) => {
                    let sink = &self.server.name;
                    tracing::error!(sink, cause = %error, "dropping response: cannot map it to an \
                                                           event");
                    return;
                }
            },
        };
        // The metadata of the answer wins.
        headers.extend(answer.metadata.into_headers());
        let row = job.sent.rows.first().copied().unwrap_or_default() as usize;
        let event = job.sent.events.as_ref();
        let received = Received {
            headers: &headers,
            event: event.map(|batch| (batch, call.names.as_slice(), row)),
        };
        let sources = call.calls.find(&call.sink_id, ANSWERED);
        if sources.is_empty() {
            let sink = &self.server.name;
            tracing::error!(
                sink,
                id = call.sink_id,
                "dropping response: no source has this \
                                                      'sink.id'"
            );
        }
        deliver_to_all(&sources, &received, body, || {
            let sink = &self.server.name;
            tracing::error!(sink, "dropping response: its source has stopped");
        });
    }

    /// A call on its way, counted in the flight.
    async fn send_off(self: Arc<Shared>, channel: Channel, job: Job) {
        let made = self.make(&channel, &job).await;
        let mut flight = self.lock();
        flight.count -= 1;
        match made {
            Ok(()) => {}
            // It would be refused however often it is sent.
            Err(error) if self.keeps_failed && !error.is_unavailable() => {
                flight.refused.push((job, error));
            }
            Err(error) => flight.failed.push((job, error)),
        }
        drop(flight);
        self.changed.notify_all();
    }

    /// Why calls have not been answered.
    fn lost(&self, flight: &Flight) -> Option<Error> {
        let (_, error) = flight.failed.first()?;
        let source = std::error::Error::source(error);
        let cause = source.map_or_else(|| error.to_string(), |cause| cause.to_string());
        Some(self.unavailable(cause))
    }
}

impl Sink for GrpcSink {
    fn connect(&mut self) -> Result<(), Error> {
        if self.channel().is_err() {
            if is_again_too_soon(self.connected) {
                return Err(self
                    .shared
                    .unavailable("the connection was lost again at once".to_owned()));
            }
            let workers = self.network.workers();
            let workers = workers.map_err(|e| self.shared.unavailable(e.to_string()))?;
            let shared = Arc::clone(&self.shared);
            let opened = workers.wait_for(async move { shared.server.open().await });
            let opened = opened.unwrap_or_else(|error| Err(error.to_string()));
            let channel = opened.map_err(|cause| self.shared.unavailable(cause))?;
            self.connected = Some(Instant::now());
            self.used = Instant::now();
            self.shared.lock().channel = Some(channel);
        }
        if self.shared.keeps_failed {
            let channel = self.channel()?;
            let workers = self.network.workers();
            let workers = workers.map_err(|e| self.shared.unavailable(e.to_string()))?;
            let failed = std::mem::take(&mut self.shared.lock().failed);
            self.shared.lock().count += failed.len();
            for (job, _) in failed {
                let shared = Arc::clone(&self.shared);
                workers.next().spawn(shared.send_off(channel.clone(), job));
            }
        }
        Ok(())
    }

    fn publish(&mut self, message: &Message<'_>) -> Result<(), Error> {
        let job = self.job(message)?;
        if self.idle.is_some_and(|idle| self.used.elapsed() > idle)
            && let Some(channel) = self.shared.lock().channel.take()
        {
            channel.close();
            self.connected = None;
        }
        self.used = Instant::now();
        if self.channel().is_err() {
            self.connect()?;
        }
        let channel = self.channel()?;
        let workers = self.network.workers();
        let workers = workers.map_err(|e| self.shared.unavailable(e.to_string()))?;
        let shared = Arc::clone(&self.shared);
        if self.shared.call.is_none() {
            let made = workers.wait_for(async move { shared.make(&channel, &job).await });
            return made.unwrap_or_else(|error| Err(self.failed(error.to_string())));
        }
        let mut flight = self.shared.lock();
        while flight.count >= IN_FLIGHT_MAX {
            flight = self.shared.wait(flight);
        }
        if self.shared.keeps_failed
            && let Some(error) = self.shared.lost(&flight)
        {
            return Err(error);
        }
        flight.count += 1;
        drop(flight);
        workers.next().spawn(shared.send_off(channel, job));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        let mut flight = self.shared.lock();
        while flight.count > 0 {
            flight = self.shared.wait(flight);
        }
        self.shared.lost(&flight).map_or(Ok(()), Err)
    }

    /// Calls that have got no answer by then are given up.
    fn close(&mut self) -> Result<(), Error> {
        let deadline = Instant::now() + self.grace;
        let mut flight = self.shared.lock();
        while flight.count > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.shared.changed.wait_timeout(flight, left);
            flight = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if let Some(channel) = flight.channel.take() {
            channel.close();
        }
        if flight.count > 0 {
            let left = format!("{} calls had no answer when the sink closed", flight.count);
            return Err(self.shared.unavailable(left));
        }
        self.shared.lost(&flight).map_or(Ok(()), Err)
    }

    fn take_undelivered(&mut self) -> Vec<Undelivered> {
        undelivered(std::mem::take(&mut self.shared.lock().failed))
    }

    fn take_refused(&mut self) -> Vec<Undelivered> {
        undelivered(std::mem::take(&mut self.shared.lock().refused))
    }
}
