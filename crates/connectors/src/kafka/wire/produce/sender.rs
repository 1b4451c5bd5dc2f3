//! Writing to one broker: batches of all partitions that it leads, in one request and one write, as many
//! requests at a time as the sink allows.
//!
//! Batches belong to their request until it is answered. However a request ends (the connection breaks, the
//! task is aborted), its batches go back to their partitions.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::{sleep_until, timeout};

use super::super::connection::{Connection, Pulse};
use super::super::message::{Api, Malformed};
use super::super::state::Failing;
use super::Shared;
use super::batch::RecordBatch;
use super::message::{self, Frame, Piece};
use super::state::{Next, Target, Work};

/// A broker that is sent nothing is looked at again after so long.
const IDLE: Duration = Duration::from_secs(60);

/// Longest that a broker may ask to be left alone.
const THROTTLE_MAX: Duration = Duration::from_secs(60);

/// Shorter requests are packed where they are sent from; longer ones by a thread of their own, because
/// others' connections are served by this one.
const PACK_BYTES: usize = 16 << 10;

/// A broker, and the version of it that a task is for.
#[derive(Clone, Copy)]
pub(super) struct Broker {
    pub id: i32,
    pub version: u64,
}

/// Runs while the broker is known at its address.
pub(super) async fn run(shared: Arc<Shared>, broker: Broker, wake: Arc<Notify>) {
    let mut failing: Option<Failing> = None;
    loop {
        let Err(cause) = serve(&shared, broker, &wake, &mut failing).await else {
            return;
        };
        let pause = Failing::again(&mut failing, cause, shared.options.config.pauses);
        {
            let mut state = shared.lock();
            state.wants_metadata = true;
            state.cluster.notify_one();
            if !state.set_failing(broker, failing.as_ref()) {
                return;
            }
        }
        shared.tell();
        tokio::time::sleep(pause).await;
    }
}

/// What was sent with one request.
struct Request {
    shared: Arc<Shared>,
    batches: Vec<(usize, RecordBatch)>,
    targets: Vec<Target>,
    number: i32,
    version: i16,
    /// When an answer has to be there.
    until: Instant,
}

impl Drop for Request {
    fn drop(&mut self) {
        if self.batches.is_empty() {
            return;
        }
        let mut state = self.shared.lock();
        for (index, batch) in self.batches.drain(..) {
            state.unanswered(index, batch);
        }
        drop(state);
        self.shared.tell();
    }
}

impl Request {
    fn new(
        shared: &Arc<Shared>,
        batches: Vec<(usize, RecordBatch)>,
        targets: Vec<Target>,
    ) -> Request {
        let (options, now) = (&shared.options, Instant::now());
        // What is given up meanwhile is not waited for.
        let given_up = batches.iter().filter_map(|(_, batch)| {
            let at = batch.since.checked_add(options.delivery)?;
            Some(at.max(now + options.retry_pause))
        });
        let answered = now + options.request;
        let until = given_up.min().map_or(answered, |at| at.min(answered));
        Request {
            shared: Arc::clone(shared),
            batches,
            targets,
            number: 0,
            version: 0,
            until,
        }
    }

    /// Packs the batches and fills in their headers.
    async fn finish(mut self) -> Result<Request, String> {
        let packer = self.shared.options.packer;
        let bytes: usize = self.batches.iter().map(|(_, batch)| batch.len()).sum();
        let finish = move || {
            for (_, batch) in &mut self.batches {
                batch
                    .finish(packer)
                    .map_err(|cause| format!("a batch cannot be packed: {cause}"))?;
            }
            Ok(self)
        };
        match packer.is_none() || bytes < PACK_BYTES {
            true => finish(),
            false => {
                let finished = tokio::task::spawn_blocking(finish).await;
                finished.unwrap_or_else(|_| Err("a batch could not be packed".to_owned()))
            }
        }
    }

    fn pieces(&self) -> Vec<Piece<'_>> {
        let batches = self.batches.iter().zip(&self.targets);
        let pieces = batches.map(|((_, batch), target)| Piece {
            topic: &target.topic,
            partition: target.partition,
            bytes: batch.wire(),
        });
        pieces.collect()
    }

    async fn send(&mut self, connection: &mut Connection, frame: &mut Frame) -> Result<(), String> {
        let (header, version) = connection.begin(Api::Produce)?;
        self.number = connection.correlation();
        self.version = version;
        let options = &self.shared.options;
        let millis = i32::try_from(options.request.as_millis()).unwrap_or(i32::MAX);
        let pieces = self.pieces();
        frame.write(header, options.acks, millis, &pieces);
        let mut slices = frame.slices(&pieces);
        let sending = connection.send(&mut slices);
        match timeout(
            self.until.saturating_duration_since(Instant::now()),
            sending,
        )
        .await
        {
            Ok(sent) => sent,
            Err(_) => Err("it takes no data".to_owned()),
        }
    }

    /// Takes the answer; for how long the broker wants to be left alone.
    fn answered(mut self, body: &[u8]) -> Result<Duration, String> {
        let produced = message::produced(body, self.version);
        let (all, throttle) = produced.map_err(|Malformed(cause)| cause)?;
        let now = Instant::now();
        let mut state = self.shared.lock();
        for one in all {
            let is_it =
                |target: &Target| target.partition == one.partition && *target.topic == *one.topic;
            let Some(at) = self.targets.iter().position(is_it) else {
                continue;
            };
            let (index, batch) = self.batches.swap_remove(at);
            self.targets.swap_remove(at);
            let said = (&one.refused[..], one.message.as_deref());
            state.answered(index, batch, one.error, said, now);
        }
        drop(state);
        self.shared.tell();
        match self.batches.is_empty() {
            true => Ok(Duration::from_millis(throttle as u64).min(THROTTLE_MAX)),
            false => Err("it does not say what became of a batch".to_owned()),
        }
    }
}

/// Sends and receives until the broker leads nothing any more.
///
/// # Errors
/// Why the connection is of no more use.
async fn serve(
    shared: &Arc<Shared>,
    broker: Broker,
    wake: &Notify,
    failing: &mut Option<Failing>,
) -> Result<(), String> {
    let mut connection: Option<Connection> = None;
    let mut flight: VecDeque<Request> = VecDeque::new();
    let mut frame = Frame::default();
    loop {
        // Nothing is taken before there is somebody to send it to: another leader may be found meanwhile.
        let Some(open) = &mut connection else {
            let work = shared.lock().work(broker, failing.is_some());
            match work {
                Work::Open(place) => connection = Some(dial(shared, place).await?),
                Work::None => wait(wake).await,
                Work::End => return Ok(()),
            }
            continue;
        };
        let next = {
            let mut state = shared.lock();
            match state.take(broker, flight.len(), Instant::now()) {
                Next::Send(batches) => {
                    let targets = batches.iter().map(|(index, _)| state.target(*index));
                    let targets = targets.collect();
                    Ok(Request::new(shared, batches, targets))
                }
                Next::Wait(until) => Err(until),
                Next::End => return Ok(()),
            }
        };
        let until = match next {
            Ok(request) => {
                let mut request = request.finish().await?;
                request.send(open, &mut frame).await?;
                flight.push_back(request);
                continue;
            }
            Err(until) => until,
        };
        if flight.is_empty() && failing.take().is_some() {
            answers(shared, broker, Duration::ZERO);
        }
        let owed = flight.front().map(|request| request.until);
        let until = until.into_iter().chain(owed).min();
        let until = until.unwrap_or_else(|| Instant::now() + IDLE);
        tokio::select! {
            biased;
            answer = open.answer() => match answer {
                Ok((number, body)) => {
                    let request = flight.pop_front().filter(|request| request.number == number);
                    let request =
                        request.ok_or("it answers another request than the one that was sent")?;
                    let throttle = request.answered(&body)?;
                    if failing.take().is_some() || !throttle.is_zero() {
                        answers(shared, broker, throttle);
                    }
                }
                // Nothing was asked: brokers close connections that idle.
                Err(_) if flight.is_empty() => connection = None,
                Err(cause) => return Err(cause),
            },
            () = wake.notified() => {}
            () = sleep_until(until.into()) => {
                if owed.is_some_and(|owed| owed <= Instant::now()) {
                    return Err("it has not answered in time".to_owned());
                }
            }
        }
    }
}

/// Until there may be something to do.
async fn wait(wake: &Notify) {
    timeout(IDLE, wake.notified()).await.ok();
}

/// A broker answers, and wants to be left alone for so long.
fn answers(shared: &Shared, broker: Broker, throttle: Duration) {
    shared.lock().answers(broker, Instant::now() + throttle);
    shared.tell();
}

async fn dial(
    shared: &Shared,
    (host, port, pulse): (Arc<str>, u16, Arc<Pulse>),
) -> Result<Connection, String> {
    let options = &shared.options;
    let opening = Connection::open(&options.config, (&host, port), &pulse);
    let opened = timeout(options.request, opening).await;
    opened.unwrap_or_else(|_| Err("it does not take a connection in time".to_owned()))
}
