//! A group of receivers: of its events each goes to one of them, and to another when that one is lost.
//!
//! Promises: what a receiver has not answered is sent again, by the next receiver of the group at once, so that
//! nothing is lost and an answer that was lost means an event twice; with one receiver at a time events keep their order.
//! Never: a receiver that is away and asked without a pause.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Notify, watch};

use super::client::{Client, Judged, Sender};
use super::places::{Group, Receiver, Spread};
use connect::error::OpenError;
use connect::message::Sent;
use connect::net::{InFlight, Number};

/// Events of a bundle, if those of its first message are not more.
pub(super) const EVENTS_MAX: usize = 200;

/// Bytes of the messages of a bundle, about.
const BYTES_MAX: usize = 1 << 20;

/// Between two tries to reach a receiver of a group that balances, at first and at most.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Logins that a receiver may ask for before a bundle is taken.
const LOGINS_MAX: usize = 3;

/// Messages that go as one bundle.
type Batch = Vec<(Number, Arc<Sent>)>;

/// What the sink and the worker of a group share.
pub(super) struct GroupLine {
    pub group: Group,
    pub in_flight: InFlight,
    pub sender: Arc<Sender>,
    pub events_max: usize,
    /// Taken for a receiver that was lost before it answered.
    returned: Mutex<VecDeque<Batch>>,
    /// There is something among these.
    again: Notify,
    /// The receiver that is tried first.
    first: AtomicUsize,
}

/// Receivers that were reached, each by its place in the group.
pub(super) type Session = Vec<(usize, Client)>;

impl GroupLine {
    pub fn new(
        group: Group,
        in_flight: InFlight,
        sender: &Arc<Sender>,
        events_max: usize,
    ) -> GroupLine {
        GroupLine {
            group,
            in_flight,
            sender: Arc::clone(sender),
            events_max,
            returned: Mutex::default(),
            again: Notify::new(),
            first: AtomicUsize::new(0),
        }
    }

    fn returned(&self) -> MutexGuard<'_, VecDeque<Batch>> {
        self.returned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reaches one receiver, or as many as there are where the group balances.
    pub async fn open(&self) -> Result<Session, OpenError> {
        match self.group.spread {
            Spread::FailOver => Ok(vec![
                self.open_one(self.first.load(Ordering::Relaxed)).await?,
            ]),
            Spread::Balance => self.open_all().await,
        }
    }

    /// The first receiver from a place on that can be reached.
    async fn open_one(&self, from: usize) -> Result<(usize, Client), OpenError> {
        let receivers = &self.group.receivers;
        let mut failed = Failed::default();
        for at in (from..from + receivers.len()).map(|at| at % receivers.len()) {
            match self.reach(&receivers[at]).await {
                Ok(client) => {
                    self.first.store(at, Ordering::Relaxed);
                    return Ok((at, client));
                }
                Err(cause) => failed.add(&receivers[at], cause),
            }
        }
        Err(failed.cause())
    }

    async fn open_all(&self) -> Result<Session, OpenError> {
        let all = self.group.receivers.iter().enumerate();
        let mut opening: FuturesUnordered<_> = all
            .map(|(at, receiver)| async move { (at, self.reach(receiver).await) })
            .collect();
        let (mut session, mut failed) = (Session::new(), Failed::default());
        while let Some((at, opened)) = opening.next().await {
            match opened {
                Ok(client) => session.push((at, client)),
                Err(cause) => failed.add(&self.group.receivers[at], cause),
            }
        }
        match session.is_empty() {
            true => Err(failed.cause()),
            false => Ok(session),
        }
    }

    async fn reach(&self, receiver: &Receiver) -> Result<Client, OpenError> {
        Client::open(receiver, &self.sender).await
    }

    /// Sends what is in flight until the sink is closed, or no receiver is left.
    pub async fn serve(&self, session: Session) {
        self.returned().clear();
        let result = match self.group.spread {
            Spread::FailOver => self.serve_in_turn(session).await,
            Spread::Balance => self.serve_all(session).await,
        };
        self.in_flight.ended(result);
    }

    async fn serve_in_turn(&self, mut session: Session) -> Result<(), String> {
        let (_stop, ended) = watch::channel(false);
        loop {
            let Some((at, client)) = session.pop() else {
                return Ok(());
            };
            let receiver = &self.group.receivers[at];
            let Err(cause) = self.run(client, receiver, ended.clone()).await else {
                return Ok(());
            };
            let lost = receiver.events.to_string();
            match self.open_one(at + 1).await {
                Ok((next, client)) if self.group.receivers.len() > 1 => {
                    let next_name = self.group.receivers[next].events.to_string();
                    tracing::warn!(
                        receiver = lost,
                        cause,
                        next = next_name,
                        "a receiver of wso2event was lost; went on with the next"
                    );
                    session.push((next, client));
                }
                // With one receiver it is the sink that waits between two tries.
                _ => return Err(format!("{lost}: {cause}")),
            }
        }
    }

    async fn serve_all(&self, session: Session) -> Result<(), String> {
        let (stop, ended) = watch::channel(false);
        let living = AtomicUsize::new(session.len());
        let mut clients: Vec<Option<Client>> = self.group.receivers.iter().map(|_| None).collect();
        for (at, client) in session {
            clients[at] = Some(client);
        }
        let all = self.group.receivers.iter().zip(clients);
        let mut running: FuturesUnordered<_> = all
            .map(|(receiver, client)| self.keep(receiver, client, &living, ended.clone()))
            .collect();
        let mut result = Ok(());
        while let Some(ended) = running.next().await {
            // All end with the first: the sink is closed, or nobody is left.
            stop.send_replace(true);
            result = result.and(ended);
        }
        result
    }

    /// One receiver of a group that balances: where it is lost, the others go on until it is back.
    async fn keep(
        &self,
        receiver: &Receiver,
        mut client: Option<Client>,
        living: &AtomicUsize,
        mut ended: watch::Receiver<bool>,
    ) -> Result<(), String> {
        let mut pause = PAUSE_MIN;
        loop {
            if let Some(client) = client.take() {
                let Err(cause) = self.run(client, receiver, ended.clone()).await else {
                    return Ok(());
                };
                let lost = receiver.events.to_string();
                if living.fetch_sub(1, Ordering::AcqRel) == 1 {
                    return Err(format!("{lost}: {cause}"));
                }
                tracing::warn!(
                    receiver = lost,
                    cause,
                    "a receiver of wso2event was lost; the others of its group go on"
                );
                pause = PAUSE_MIN;
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                // An error means that the group has ended.
                _ = ended.wait_for(|is_ended| *is_ended) => return Ok(()),
            }
            if let Ok(reached) = self.reach(receiver).await {
                living.fetch_add(1, Ordering::AcqRel);
                client = Some(reached);
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Sends by one connection until that is lost, or there will be nothing more.
    async fn run(
        &self,
        mut client: Client,
        receiver: &Receiver,
        mut ended: watch::Receiver<bool>,
    ) -> Result<(), String> {
        loop {
            let batch = tokio::select! {
                batch = self.next(&mut ended) => batch,
                cause = client.gone() => return Err(cause),
            };
            let Some(batch) = batch else {
                return Ok(());
            };
            if let Err(cause) = self.send(&mut client, receiver, &batch).await {
                // Whoever comes next sends them.
                self.returned().push_front(batch);
                self.again.notify_one();
                return Err(cause);
            }
        }
    }

    async fn send(
        &self,
        client: &mut Client,
        receiver: &Receiver,
        batch: &Batch,
    ) -> Result<(), String> {
        for _ in 0..LOGINS_MAX {
            let messages = batch.iter().map(|(_, sent)| &**sent);
            let judged = client.publish(messages, &self.sender).await;
            match judged.map_err(|cause| cause.to_string())? {
                Judged::Taken => {
                    batch
                        .iter()
                        .for_each(|(number, _)| self.in_flight.confirm(*number));
                    return Ok(());
                }
                // One of them may be what it does not like: each is judged by itself.
                Judged::Refused(_) if batch.len() > 1 => {
                    let mut returned = self.returned();
                    batch
                        .iter()
                        .rev()
                        .for_each(|one| returned.push_front(vec![one.clone()]));
                    return Ok(());
                }
                Judged::Refused(cause) => {
                    batch
                        .iter()
                        .for_each(|(number, _)| self.in_flight.refuse(*number, cause.clone()));
                    return Ok(());
                }
                Judged::Expired => {
                    let reached = self.reach(receiver).await;
                    *client = reached.map_err(|cause| match cause {
                        OpenError::Unavailable(cause) | OpenError::Denied(cause) => cause,
                    })?;
                }
            }
        }
        Err("it says of each new session that it has expired".to_owned())
    }

    /// The next messages; `None`: there will be none.
    async fn next(&self, ended: &mut watch::Receiver<bool>) -> Option<Batch> {
        loop {
            if *ended.borrow() {
                return None;
            }
            if let Some(batch) = self.returned().pop_front() {
                return Some(batch);
            }
            let batch = self.take();
            if !batch.is_empty() {
                return Some(batch);
            }
            if self.in_flight.is_done() {
                return None;
            }
            tokio::select! {
                () = self.in_flight.changed() => {}
                () = self.again.notified() => {}
                // An error means that the group has ended.
                _ = ended.wait_for(|is_ended| *is_ended) => return None,
            }
        }
    }

    fn take(&self) -> Batch {
        let (mut batch, mut events, mut bytes) = (Batch::new(), 0, 0);
        while events < self.events_max && bytes < BYTES_MAX {
            let Some((number, sent)) = self.in_flight.try_next() else {
                break;
            };
            events += sent.rows.len().max(1);
            bytes += sent.payload.len();
            batch.push((number, sent));
        }
        batch
    }
}

/// Why receivers were not reached.
#[derive(Default)]
struct Failed {
    causes: Vec<String>,
    is_denied: bool,
    is_unavailable: bool,
}

impl Failed {
    fn add(&mut self, receiver: &Receiver, cause: OpenError) {
        let cause = match cause {
            OpenError::Denied(cause) => {
                self.is_denied = true;
                format!("{}: {cause}", receiver.login)
            }
            OpenError::Unavailable(cause) => {
                self.is_unavailable = true;
                cause
            }
        };
        self.causes.push(cause);
    }

    fn cause(self) -> OpenError {
        let causes = self.causes.join("; ");
        match self.is_denied && !self.is_unavailable {
            true => OpenError::Denied(causes),
            false => OpenError::Unavailable(causes),
        }
    }
}
