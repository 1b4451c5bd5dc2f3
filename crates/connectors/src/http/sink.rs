//! The `http` sink, and the `http-call` sink whose responses come back through a source.
//!
//! Requests are on their way at once, as many as connections are allowed; `flush` waits for all of
//! them. The status of each answer is judged: 2xx has arrived, what may be taken later goes by
//! `on.error`, all else is refused and given back for the error store. A sink that waits
//! (`on.error='WAIT'`) sends a request again by itself, in its place; only where nobody answers does
//! the sink as a whole look for its peer. With one connection (`max.pool.active.connections='1'`)
//! order is kept. An answer that a source takes (`http-call`) has arrived whatever its status, and
//! with `@app:compat('siddhi-5.1')` so has any answer, as in Siddhi.

mod flight;
mod together;

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue, RETRY_AFTER};
use tokio::sync::watch;

use super::call::{Call, call, download_path, write_file};
use super::client::{client_options, common_headers};
use super::dispatch::{SendQueue, Task};
use super::hub::Subscriber;
use super::job::{Endpoint, Failed, Head, Job, undelivered};
use super::oauth::OAuth;
use connect::answer::{self, AnswerClass, AnswerCounts};
use connect::component::{Sink, SinkSetup};
use connect::error::Error;
use connect::message::{Message, Sent, Undelivered};
use connect::net::http_client::headers;
use connect::net::http_client::{Answer, Client, ClientOptions, Deadline, OutgoingRequest};
use connect::net::http_client::{EgressDenied, EgressPolicy};
use connect::net::http_client::{has_body, within};
use connect::net::request_reply::{Found, Received, Waiting, deliver_to_all};
use connect::net::{Body, ClientTls, Network, Workers, is_again_too_soon};
use connect::option::Dynamic;
use connect::option::Settings;
use connect::retry::{LogThrottle, RetrySchedule, seconds};
use connect::url::Url;
use flight::{Flight, Pausing};

/// Requests on their way where the number of connections is not limited.
const IN_FLIGHT_MAX: usize = 128;

/// Longest answer that is read.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Longest wait for an answer with OAuth and with `blocking.io` (`HttpSink`).
const BLOCKING_WAIT: Duration = Duration::from_secs(30);

/// Times in a row that nobody answers a request before the sink as a whole looks for its peer.
const UNANSWERED_MAX: usize = 3;

/// Most requests that leave a connection together.
const PIPELINED_MAX: usize = 64;

pub(super) struct HttpSink {
    name: String,
    network: Arc<Network>,
    shared: Arc<Shared>,
    target: Target,
    head: Head,
    refresh_token: Dynamic,
    download: Option<Dynamic>,
    has_length: bool,
    in_flight_max: usize,
    max_wait: Option<Duration>,
    fails_when_full: bool,
    is_waited_for: bool,
    connected: Option<Instant>,
}

enum Target {
    Constant(Arc<Endpoint>),
    Event(usize),
    /// The subscribers of a hub.
    Subscribers,
}

/// What the one who sends requests keeps from one to the next.
struct Sender {
    deadline: Deadline,
    found: Found,
}

/// What requests on their way need.
struct Shared {
    name: String,
    client: Client,
    oauth: Option<OAuth>,
    /// Asks for tokens, where the app says; it is bounded by no reach.
    tokens: Client,
    call: Option<Call>,
    /// What got no answer is kept, and goes out again when somebody listens (`on.error='WAIT'`).
    keeps_failed: bool,
    /// Any answer says that a request has arrived.
    is_compat: bool,
    /// Requests that may leave a connection together.
    pipelined_max: usize,
    answers: Arc<AnswerCounts>,
    /// Of requests that are sent again.
    again_throttle: Mutex<LogThrottle>,
    flight: Mutex<Flight>,
    changed: Condvar,
    /// By network thread; made with the first request.
    queues: OnceLock<Vec<SendQueue<Job>>>,
    /// Nobody is tried once more.
    leaving: watch::Sender<bool>,
}

/// One of the requests on their way.
struct Underway<'a>(&'a AtomicUsize);

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The answer to a request.
struct Answered {
    status: StatusCode,
    /// A source has taken it.
    is_consumed: bool,
    /// What it asks to wait before the request is sent again.
    retry_after: Option<Duration>,
    /// The start of its body, for a cause.
    body: String,
}

/// A request that has not arrived.
struct Problem {
    error: Error,
    /// Somebody has answered it.
    is_answered: bool,
    retry_after: Option<Duration>,
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        Problem {
            error,
            is_answered: false,
            retry_after: None,
        }
    }
}

/// What came of reading an answer.
struct Taken {
    is_consumed: bool,
    body: String,
}

impl HttpSink {
    pub fn new(setup: &SinkSetup<'_>) -> Result<HttpSink, Error> {
        let settings = Settings::of_sink(setup.transport, crate::http::SPECS);
        HttpSink::to(setup, settings, None)
    }

    /// One that sends where it is told to each time, within this reach.
    pub fn of_hub(setup: &SinkSetup<'_>, egress_policy: EgressPolicy) -> Result<HttpSink, Error> {
        let settings = Settings::of_sink(setup.transport, crate::http::SPECS);
        HttpSink::to(setup, settings, Some(egress_policy))
    }

    /// With an egress policy it is the sink of a hub.
    fn to(
        setup: &SinkSetup<'_>,
        settings: Settings<'_>,
        egress_policy: Option<EgressPolicy>,
    ) -> Result<HttpSink, Error> {
        // Subscribers of a hub are served by the same code.
        let settings = settings.with_defaults_of(&super::http::SINK);
        let oauth = OAuth::new(settings)?;
        let mut options = client_options(settings)?;
        let is_hub = egress_policy.is_some();
        options.egress_policy = egress_policy;
        let url = (!is_hub).then(|| Dynamic::new(setup, settings, "publisher.url"));
        let is_tls = match &url {
            // It can be anything where the event names the scheme.
            Some(Dynamic::Event(_)) => settings
                .text("publisher.url")
                .is_none_or(|text| !text.trim().starts_with("http://")),
            Some(Dynamic::Constant(text)) => Url::parse(text).is_some_and(|url| url.is_tls),
            None => true,
        };
        if is_tls || oauth.as_ref().is_some_and(OAuth::uses_tls) {
            options.tls = Some(ClientTls::new(settings, setup.environment)?);
        }
        let client = Client::new(options.clone());
        let target = match url {
            None => Target::Subscribers,
            Some(Dynamic::Event(index)) => Target::Event(index),
            Some(Dynamic::Constant(text)) => {
                let endpoint = Url::parse(&text).and_then(|url| Endpoint::new(url, &client).ok());
                Target::Constant(Arc::new(endpoint.ok_or_else(|| {
                    settings.refused(format!(
                        "option 'publisher.url' is '{text}': write http://host:port/path"
                    ))
                })?))
            }
        };
        let common = common_headers(settings, &options, &setup.transport.map.ty)?;
        let max: i64 = settings.number("max.pool.active.connections")?;
        let exhausted: i32 = settings.number("exhausted.action")?;
        let allowed = usize::try_from(max).ok().filter(|max| *max > 0);
        let endpoint = match &target {
            Target::Constant(endpoint) => Some(&**endpoint),
            _ => None,
        };
        let method = Dynamic::new(setup, settings, "method");
        let headers = Dynamic::new(setup, settings, "headers");
        let head = Head::new(method, common, headers, endpoint)
            .map_err(|cause| settings.refused(cause))?;
        let call = call(setup, settings)?;
        let is_waited_for = oauth.is_some() || settings.is_set_to("blocking.io", true);
        let on_error = settings.text_or_default("on.error").trim();
        Ok(HttpSink {
            name: format!("sink '{}'", setup.transport.ty),
            network: setup.environment.network(),
            target,
            head,
            refresh_token: Dynamic::new(setup, settings, "refresh.token"),
            download: settings.is_set_to("downloading.enabled", true).then(|| {
                Dynamic::or_else(setup, "download.path", || {
                    settings.text("download.path").unwrap_or_default()
                })
            }),
            has_length: settings.flag("chunk.disabled"),
            in_flight_max: match (allowed, exhausted) {
                // The pool grows beyond its size.
                (_, 2) | (None, _) => IN_FLIGHT_MAX,
                (Some(max), _) => max.min(IN_FLIGHT_MAX),
            },
            max_wait: settings.millis("max.wait.time")?,
            fails_when_full: exhausted == 0,
            is_waited_for,
            connected: None,
            shared: Arc::new(Shared {
                name: format!("{}/{}", setup.environment.app, setup.schema.name),
                tokens: Client::new(ClientOptions {
                    egress_policy: None,
                    ..options
                }),
                client,
                oauth,
                call,
                keeps_failed: on_error.eq_ignore_ascii_case("WAIT"),
                is_compat: setup.environment.is_compat,
                pipelined_max: settings
                    .number::<usize>("max.pipelined.requests")?
                    .clamp(1, PIPELINED_MAX),
                answers: Arc::clone(setup.answers),
                again_throttle: Mutex::default(),
                flight: Mutex::default(),
                changed: Condvar::new(),
                queues: OnceLock::new(),
                leaving: watch::Sender::new(false),
            }),
        })
    }

    fn failed(&self, cause: impl Into<String>) -> Error {
        Error::failed(format!("sending by {}", self.name), cause.into())
    }

    fn endpoint(&self, message: &Message<'_>) -> Result<Arc<Endpoint>, Error> {
        match &self.target {
            Target::Constant(endpoint) => Ok(Arc::clone(endpoint)),
            Target::Event(index) => {
                let text = message.option(*index);
                let endpoint = Url::parse(text).and_then(|url| self.endpoint_of(url));
                endpoint.ok_or_else(|| self.failed(format!("'{text}' is not an http or https URL")))
            }
            Target::Subscribers => Err(self.failed("it has no host")),
        }
    }

    /// `None` where the URL cannot stand in a request.
    pub fn endpoint_of(&self, url: Url) -> Option<Arc<Endpoint>> {
        Endpoint::new(url, &self.shared.client).ok().map(Arc::new)
    }

    pub fn job(
        &self,
        message: &Message<'_>,
        endpoint: Arc<Endpoint>,
        body: Bytes,
    ) -> Result<Job, Error> {
        let method = self.head.method(message);
        let headers = self.head.headers(message, &endpoint);
        let download = match &self.download {
            Some(path) => Some(download_path(path.of(message)).map_err(|e| self.failed(e))?),
            None => None,
        };
        Ok(Job {
            endpoint,
            method: method.map_err(|cause| self.failed(cause))?,
            headers: headers.map_err(|cause| self.failed(cause))?,
            has_length: self.has_length,
            refresh_token: self.refresh_token.of(message).to_owned(),
            download,
            subscriber: None,
            sent: Sent {
                is_text: true,
                ..Sent::as_bytes(message, body)
            },
        })
    }

    /// Sends a request off, or waits for its answer where the sink does.
    pub fn begin(&self, job: Job) -> Result<(), Failed> {
        let failed = |job, error, was_sent| Failed {
            job: Some(Box::new(job)),
            error,
            was_sent,
        };
        let workers = match self.network.workers() {
            Ok(workers) => workers,
            Err(error) => {
                return Err(failed(job, Error::unavailable("the network", error), false));
            }
        };
        let shared = Arc::clone(&self.shared);
        if self.is_waited_for {
            let done = workers.wait_for(async move {
                let mut sender = shared.sender();
                let delivery = shared.deliver(&job, &mut sender);
                let waited = within(Some(BLOCKING_WAIT), delivery).await;
                let result = waited.unwrap_or_else(|error| {
                    let peer = format!("'{}'", job.endpoint.url.authority());
                    Err(Error::unavailable(peer, error).into())
                });
                result.map_err(|problem| {
                    if let Some(wait) = problem.retry_after {
                        shared.lock().not_before = Some(Instant::now() + wait);
                    }
                    failed(job, problem.error, true)
                })
            });
            return done.unwrap_or_else(|error| {
                Err(Failed {
                    job: None,
                    error: self.failed(error.to_string()),
                    was_sent: true,
                })
            });
        }
        match self.enter(workers) {
            Err(error) => Err(failed(job, error, false)),
            Ok(thread) => {
                shared.start(workers, job, thread);
                Ok(())
            }
        }
    }

    /// Keeps what has failed like what fails on its way.
    pub fn keep(&self, failed: Failed) {
        if let Some(job) = failed.job {
            self.shared.lock().failed.push((*job, failed.error));
        }
    }

    /// Ends the pauses between tries, and lets nobody be tried once more, until it is told otherwise.
    pub fn leave(&self, is_leaving: bool) {
        self.shared.leaving.send_replace(is_leaving);
    }

    /// As [`Sink::flush_within`].
    pub fn flush_at_most(&self, patience: Option<Duration>) -> Result<bool, Error> {
        let deadline = patience.map(|patience| Instant::now() + patience);
        let mut flight = self.shared.lock();
        while flight.load.total() > 0 {
            // Each request has a limit of its own.
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(false);
            }
            flight = self.shared.wait(flight, 0, left);
        }
        self.shared.lost(&flight).map_or(Ok(true), Err)
    }

    /// Does somebody listen, where there is one address?
    fn probe(&self) -> Result<(), Error> {
        let Target::Constant(endpoint) = &self.target else {
            return Ok(());
        };
        let workers = self
            .network
            .workers()
            .map_err(|error| Error::unavailable("the network", error))?;
        let peer = endpoint.peer();
        let (shared, endpoint) = (Arc::clone(&self.shared), Arc::clone(endpoint));
        let found = workers.wait_for(async move { shared.client.probe(&endpoint.url).await });
        found
            .and_then(|found| found)
            .map_err(|error| Error::unavailable(peer, error))
    }

    /// What got no answer goes out once more.
    fn send_again(&self) {
        let Ok(workers) = self.network.workers() else {
            return;
        };
        let mut flight = self.shared.lock();
        let again = |(_, error): &mut (Job, Error)| error.is_unavailable();
        let failed: Vec<_> = flight.failed.extract_if(.., again).collect();
        let threads = workers.handles().len();
        let again: Vec<_> = failed
            .into_iter()
            .map(|(job, _)| (job, flight.load.enter_always(threads)))
            .collect();
        drop(flight);
        for (job, thread) in again {
            self.shared.start(workers, job, thread);
        }
    }
}

impl Shared {
    fn sender(&self) -> Sender {
        Sender {
            deadline: self.client.deadline(),
            found: Found::default(),
        }
    }

    /// Has a request that is counted on this network thread sent by it.
    fn start(self: &Arc<Shared>, workers: &Workers, job: Job, thread: usize) {
        let queues = self.queues.get_or_init(|| {
            let handles = workers.handles().iter();
            handles.map(|h| SendQueue::new(h.clone())).collect()
        });
        queues[thread].push(job, || Arc::clone(self).send_waiting(thread));
    }

    /// Sends requests that wait for this network thread, one after the other.
    fn send_waiting(self: Arc<Shared>, thread: usize) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let Some(queue) = self.queues.get().map(|queues| &queues[thread]) else {
                return;
            };
            let (mut task, mut sender) = (Task::default(), self.sender());
            let more = || Arc::clone(&self).send_waiting(thread);
            let together = |first: &Job, job: &Job| {
                let is_same = Arc::ptr_eq(&first.endpoint, &job.endpoint);
                is_same && self.is_pipelined(first) && self.is_pipelined(job)
            };
            let (mut jobs, max) = (Vec::new(), self.pipelined_max);
            while (queue.next(&mut task, &mut jobs, (max, &together), more)).await {
                if max > 1 && jobs.iter().all(|job| self.is_pipelined(job)) {
                    self.send_together(&mut jobs, thread, &mut sender).await;
                } else if let Some(job) = jobs.pop() {
                    self.send_off(job, thread, &mut sender).await;
                }
            }
        })
    }

    /// The tasks that send requests end when those are sent.
    fn dismiss(&self) {
        for queue in self.queues.get().into_iter().flatten() {
            queue.dismiss();
        }
    }

    /// A request on its way, counted in `flight`.
    async fn send_off(&self, job: Job, thread: usize, sender: &mut Sender) {
        let sent = match self.keeps_failed && job.subscriber.is_none() {
            true => self.insist(&job, sender, None).await,
            false => {
                let delivered = self.deliver(&job, sender).await;
                delivered.map_err(|problem| problem.error)
            }
        };
        self.leave(job, thread, sent);
    }

    /// Sends a request until it has arrived or is refused, or nobody answers any more, or the sink
    /// ends. `first`: what came of it when it was sent with others.
    async fn insist(
        &self,
        job: &Job,
        sender: &mut Sender,
        mut first: Option<Problem>,
    ) -> Result<(), Error> {
        let mut schedule = RetrySchedule::waiting();
        let mut leaving = self.leaving.subscribe();
        let mut unanswered = 0;
        loop {
            let problem = match first.take() {
                Some(problem) => problem,
                None => match self.deliver(job, sender).await {
                    Ok(()) => return Ok(()),
                    Err(problem) => problem,
                },
            };
            unanswered = match problem.is_answered {
                true => 0,
                false => unanswered + 1,
            };
            if !problem.error.is_unavailable() || unanswered >= UNANSWERED_MAX {
                return Err(problem.error);
            }
            let pause = schedule.next_pause();
            let pause = problem.retry_after.map_or(pause, |wait| wait.max(pause));
            self.say_again(&problem.error, pause);
            let _pausing = Pausing::new(self);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                // The sender is part of the sink.
                _ = leaving.wait_for(|is_leaving| *is_leaving) => return Err(problem.error),
            }
        }
    }

    fn say_again(&self, error: &Error, pause: Duration) {
        let throttle = self.again_throttle.lock();
        let admitted = throttle.unwrap_or_else(PoisonError::into_inner).admit();
        if let Some(count) = admitted {
            tracing::warn!(
                sink = self.name,
                cause = connect::error::chain(error),
                again_in_seconds = seconds(pause),
                count,
                "retrying request"
            );
        }
    }

    /// Why requests that were sent have not arrived, though they may yet.
    fn lost(&self, flight: &Flight) -> Option<Error> {
        let mut failed = flight.failed.iter();
        let (job, error) = failed.find(|(_, error)| error.is_unavailable())?;
        let cause =
            std::error::Error::source(error).map_or_else(|| error.to_string(), |c| c.to_string());
        Some(Error::unavailable(job.peer(), cause))
    }

    async fn deliver(&self, job: &Job, sender: &mut Sender) -> Result<(), Problem> {
        if let Some(subscriber) = &job.subscriber {
            return Ok(self.distribute(job, subscriber, sender).await?);
        }
        let Some(call) = &self.call else {
            return self.judge(job, self.exchange(job, sender).await?);
        };
        call.on_their_way.fetch_add(1, Ordering::Relaxed);
        // Also counted down where the wait is given up.
        let _underway = Underway(&call.on_their_way);
        self.judge(job, self.exchange(job, sender).await?)
    }

    /// Has a request that was answered arrived?
    fn judge(&self, job: &Job, answered: Answered) -> Result<(), Problem> {
        let class = self.class_of(&answered);
        let status = answered.status;
        if class == AnswerClass::Accepted || self.is_compat && !self.is_failure_in_siddhi(&answered)
        {
            return Ok(());
        }
        let cause = format!("it answered {status}{}", answered.body);
        let error = match class {
            AnswerClass::Retry => Error::unavailable(job.peer(), cause),
            _ => Error::failed(format!("a request to {}", job.peer()), cause),
        };
        Err(Problem {
            error,
            is_answered: true,
            retry_after: answered.retry_after,
        })
    }

    /// What an answer means, counted.
    fn class_of(&self, answered: &Answered) -> AnswerClass {
        let class = match answered.is_consumed {
            true => AnswerClass::Accepted,
            false => AnswerClass::of_status(answered.status.as_u16()),
        };
        self.answers.add(class, 1);
        class
    }

    /// With OAuth Siddhi looks at the status. What asks for another try later gets it from a sink that
    /// waits.
    fn is_failure_in_siddhi(&self, answered: &Answered) -> bool {
        let status = answered.status;
        let is_busy =
            status == StatusCode::SERVICE_UNAVAILABLE || status == StatusCode::TOO_MANY_REQUESTS;
        self.oauth.is_some() || self.keeps_failed && is_busy && answered.retry_after.is_some()
    }

    /// Tries a few times; a subscriber says yes by a status of success alone.
    async fn distribute(
        &self,
        job: &Job,
        subscriber: &Subscriber,
        sender: &mut Sender,
    ) -> Result<(), Error> {
        let mut pauses = connect::net::websub::PAUSES.iter();
        let mut leaving = self.leaving.subscribe();
        loop {
            let answered = self.exchange(job, sender).await;
            let answered = answered.map(|answered| (self.class_of(&answered), answered));
            let error = match answered {
                Ok((_, answered)) if answered.status == StatusCode::GONE => {
                    tracing::info!(
                        peer = job.peer(),
                        "subscriber answered 410 Gone; ending its subscription"
                    );
                    subscriber.end();
                    return Ok(());
                }
                Ok((AnswerClass::Accepted, _)) => {
                    subscriber.note(true);
                    return Ok(());
                }
                Ok((class, answered)) => {
                    let cause = format!("it was answered {}{}", answered.status, answered.body);
                    // A sink that waits does not hold back the others for one subscriber.
                    if class == AnswerClass::Retry && !self.keeps_failed {
                        Error::unavailable(job.peer(), cause)
                    } else {
                        let error = Error::failed(format!("a request to {}", job.peer()), cause);
                        if class == AnswerClass::Refused {
                            return Err(error);
                        }
                        error
                    }
                }
                // It would be as forbidden the next time.
                Err(error) if EgressDenied::is_reason(&error) => return Err(error),
                Err(error) => error,
            };
            let pause = pauses.next().filter(|_| !subscriber.is_quiet());
            let Some(pause) = pause else {
                subscriber.note(false);
                return Err(error);
            };
            tokio::select! {
                () = tokio::time::sleep(*pause) => {}
                // The sender is part of the sink.
                _ = leaving.wait_for(|is_leaving| *is_leaving) => return Err(error),
            }
        }
    }

    /// Sends a request and takes care of its answer, which it does not judge.
    async fn exchange(&self, job: &Job, sender: &mut Sender) -> Result<Answered, Error> {
        let unavailable = |error: io::Error| match EgressDenied::is_cause(&error) {
            // Waiting for it would be in vain.
            true => Error::failed(format!("a request to {}", job.peer()), error),
            false => Error::unavailable(job.peer(), error),
        };
        let Some(oauth) = &self.oauth else {
            return self.ask(job, None, sender).await.map_err(unavailable);
        };
        let refresh = &job.refresh_token;
        let token = oauth.token(&self.tokens, refresh).await;
        let token = token.map_err(unavailable)?;
        let answered = self.ask(job, Some(&token), sender).await;
        let answered = answered.map_err(unavailable)?;
        if answered.status != StatusCode::UNAUTHORIZED {
            return Ok(answered);
        }
        let renewed = oauth.renew(&self.tokens, refresh, &token).await;
        let renewed = renewed.map_err(unavailable)?;
        let answered = self.ask(job, Some(&renewed), sender).await;
        answered.map_err(unavailable)
    }

    async fn ask(
        &self,
        job: &Job,
        token: Option<&str>,
        sender: &mut Sender,
    ) -> io::Result<Answered> {
        let answer = self.send(job, token, &mut sender.deadline).await?;
        let status = answer.response.status();
        if !status.is_success() {
            tracing::debug!(sink = self.name, %status, "request answered");
        }
        let retry_after = retry_after(answer.response.headers());
        let taken = self.take(job, answer, sender).await?;
        Ok(Answered {
            status,
            is_consumed: taken.is_consumed,
            retry_after,
            body: taken.body,
        })
    }

    async fn send(
        &self,
        job: &Job,
        token: Option<&str>,
        deadline: &mut Deadline,
    ) -> io::Result<Answer> {
        let bearer = match token {
            None => None,
            Some(token) => Some(
                headers::secret(&format!("Bearer {token}"))
                    .ok_or_else(|| io::Error::other("the token cannot be sent in a header"))?,
            ),
        };
        let request = request(job, bearer.as_ref());
        let url = &job.endpoint.url;
        self.client.send_by(deadline, url, &request).await
    }

    /// Reads the answer, and hands it to the sources that wait for it.
    async fn take(&self, job: &Job, answer: Answer, sender: &mut Sender) -> io::Result<Taken> {
        let status = answer.response.status();
        let shown = |body: &[u8]| match status.is_success() {
            true => String::new(),
            false => answer::shown(body),
        };
        let Some(call) = &self.call else {
            // The status says it all, also where the rest does not come.
            let whole = (self.client).read_whole(&mut sender.deadline, answer, ANSWER_BYTES_MAX);
            return Ok(Taken {
                is_consumed: false,
                body: (whole.await).map_or_else(|_| String::new(), |(_, body)| shown(&body)),
            });
        };
        let sources = (sender.found).find(&call.calls, &call.sink_id, status.as_u16());
        self.note_sources(status, &sources);
        let is_consumed = !sources.is_empty();
        if is_consumed && sources.iter().all(|s| s.is_streaming) {
            let headers = answer.response.headers().clone();
            self.stream(job, call, &headers, answer, &sources).await?;
            return Ok(Taken {
                is_consumed,
                body: String::new(),
            });
        }
        let whole = (self.client).read_whole(&mut sender.deadline, answer, ANSWER_BYTES_MAX);
        let (headers, body) = whole.await?;
        let start = shown(&body);
        let body = match &job.download {
            Some(path) if status.is_success() => {
                write_file(path, &body)?;
                path.display().to_string()
            }
            _ => text(body),
        };
        self.hand_over(job, call, &headers, body, &sources);
        Ok(Taken {
            is_consumed,
            body: start,
        })
    }

    fn note_sources(&self, status: StatusCode, sources: &[Arc<Waiting>]) {
        if sources.is_empty() {
            tracing::error!(
                sink = self.name,
                %status,
                "dropping response: no source accepts it; add one with this 'http.status.code'"
            );
        }
    }

    /// Each piece of the answer is a message.
    async fn stream(
        &self,
        job: &Job,
        call: &Call,
        headers: &HeaderMap,
        mut answer: Answer,
        sources: &[Arc<Waiting>],
    ) -> io::Result<()> {
        while let Some(piece) = self.client.read_piece(&mut answer).await? {
            let text = text(piece.into());
            self.hand_over(job, call, headers, text, sources);
        }
        self.client.read_body(answer, 0).await.map(drop)
    }

    fn hand_over(
        &self,
        job: &Job,
        call: &Call,
        headers: &HeaderMap,
        body: String,
        sources: &[Arc<Waiting>],
    ) {
        if body.is_empty() {
            tracing::debug!(sink = self.name, "dropping empty response");
            return;
        }
        let row = job.sent.rows.first().copied().unwrap_or_default() as usize;
        let event = job.sent.events.as_ref();
        let received = Received {
            headers,
            event: event.map(|batch| (batch, call.names.as_slice(), row)),
        };
        deliver_to_all(sources, &received, Body::Text(body), || {
            tracing::error!(
                sink = self.name,
                "dropping response: its source has stopped"
            );
        });
    }
}

impl Drop for HttpSink {
    fn drop(&mut self) {
        // They hold what they share with the sink.
        self.shared.dismiss();
    }
}

/// A request as it is written, with a token where one is needed.
fn request<'a>(job: &'a Job, bearer: Option<&'a HeaderValue>) -> OutgoingRequest<'a> {
    OutgoingRequest {
        method: &job.method,
        target: &job.endpoint.target,
        headers: &job.headers,
        extra: bearer.map(|bearer| (AUTHORIZATION, bearer)),
        body: match has_body(&job.method) {
            true => &job.sent.payload,
            false => &[],
        },
        has_length: job.has_length,
    }
}

/// What an answer asks to wait before the request is sent again.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let wait = headers.get(RETRY_AFTER)?.to_str().ok()?;
    answer::retry_after(wait, SystemTime::now())
}

/// As far as it is UTF-8.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

impl Sink for HttpSink {
    /// Nothing is kept open before the first request. Who keeps what has failed asks whether somebody
    /// listens; else each request is tried by itself (`HttpSink.connect` opens nothing), so that the
    /// first one after the server is back arrives, and the question is for the log alone.
    fn connect(&mut self) -> Result<(), Error> {
        self.leave(false);
        let flight = self.shared.lock();
        let asked = flight
            .not_before
            .map(|at| at.saturating_duration_since(Instant::now()));
        if let Some(left) = asked.filter(|left| !left.is_zero()) {
            let cause = format!("it asks to be left alone for {} s more", seconds(left));
            return Err(Error::unavailable("the peer", cause));
        }
        let lost = self.shared.lost(&flight);
        drop(flight);
        if self.shared.keeps_failed
            && let Some(error) = lost
            && is_again_too_soon(self.connected)
        {
            return Err(error);
        }
        let is_first = self.connected.is_none();
        if self.shared.keeps_failed {
            self.probe()?;
        } else if is_first && let Err(error) = self.probe() {
            tracing::error!(
                sink = self.shared.name,
                cause = connect::error::chain(&error),
                "cannot connect to the server; requests will still be attempted"
            );
        }
        self.connected = Some(Instant::now());
        if self.shared.keeps_failed {
            self.send_again();
        }
        Ok(())
    }

    fn publish(&mut self, message: &Message<'_>) -> Result<(), Error> {
        let body = headers::body(message.payload)
            .ok_or_else(|| self.failed("the payload is neither text nor bytes"))?;
        let job = self.job(message, self.endpoint(message)?, body)?;
        self.begin(job).map_err(|failed| failed.error)
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.flush_at_most(None).map(drop)
    }

    /// The tries of a sink that waits take their time.
    fn flush_within(&mut self, patience: Duration) -> Result<bool, Error> {
        self.flush_at_most(Some(patience))
    }

    /// What waits to be sent again has had its last try.
    fn close(&mut self) -> Result<(), Error> {
        self.leave(true);
        let flushed = self.flush();
        self.shared.client.close();
        self.shared.tokens.close();
        flushed
    }

    fn take_undelivered(&mut self) -> Vec<Undelivered> {
        let failed = std::mem::take(&mut self.shared.lock().failed);
        failed.into_iter().map(undelivered).collect()
    }

    fn take_refused(&mut self) -> Vec<Undelivered> {
        let mut flight = self.shared.lock();
        let refused = |(_, error): &mut (Job, Error)| !error.is_unavailable();
        let refused = flight.failed.extract_if(.., refused);
        refused.map(undelivered).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use connect::net::testing;

    fn refusal(options: &[(&str, &str)]) -> String {
        let mut all = options.to_vec();
        all.push(("publisher.url", "http://localhost:1/x"));
        testing::sink("http", &all, HttpSink::new)
            .err()
            .map_or_else(String::new, |error| error.to_string())
    }

    #[test]
    fn what_cannot_be_is_refused_when_the_app_is_made() {
        for (option, value, cause) in [
            ("publisher.url", "h:1", "write http://host:port/path"),
            ("headers", "'nope'", "write 'name:value'"),
            ("basic.auth.username", "u", "go together"),
            ("consumer.key", "k", "go together"),
            ("max.wait.time", "x", "write a whole number"),
            ("client.bootstrap.configurations", "'x:1'", "unknown key"),
        ] {
            let message = refusal(&[(option, value)]);
            assert!(message.contains(cause), "{option}: {message}");
        }
        assert_eq!(refusal(&[]), "");
    }
}
