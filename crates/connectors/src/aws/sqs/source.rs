//! The `sqs` source: polls the queue and deletes processed messages.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use event::Value;
use serde_json::{Value as Json, json};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use super::BATCH_MAX;
use super::queue::{Fault, Queue, WAIT_SECONDS_MAX, outcome};
use connect::component::{Connection, Finished, Source, SourceLink, SourceSetup};
use connect::error::{Cause, Error};
use connect::net::{Delivery, Ingress, Network, Receiver, reads_text};
use connect::option::Settings;

/// How long the last deletions may take when the source stops.
const LEAVE: Duration = Duration::from_secs(5);

/// Messages of one consumer that may wait to be deleted; beyond, it asks for no more.
const HANDLED_MAX: usize = 4096;

pub(super) struct SqsSource {
    network: Arc<Network>,
    receiver: Receiver,
    shared: Arc<Shared>,
}

struct Shared {
    /// App and stream.
    name: String,
    queue: Queue,
    options: Options,
    ingress: Arc<Ingress>,
    is_text: bool,
    /// By which handle each message that was taken and not deleted yet is deleted: that of the last
    /// time that it was received.
    taken: Mutex<HashMap<String, String>>,
}

struct Options {
    interval: Duration,
    /// Seconds; `None`: as the queue says.
    wait: Option<u64>,
    messages_max: usize,
    /// Seconds; `None`: as the queue says.
    visibility: Option<u64>,
    deletes: bool,
    retry_interval: Duration,
    retries: u32,
    consumers: usize,
}

impl Options {
    fn new(settings: Settings<'_>) -> Result<Options, Error> {
        let given = |name| Ok(u64::try_from(settings.number::<i64>(name)?).ok());
        let millis = |name| Ok(Duration::from_millis(settings.number(name)?));
        Ok(Options {
            interval: millis("polling.interval")?,
            wait: given("wait.time")?,
            messages_max: settings.number("max.number.of.messages")?,
            visibility: given("visibility.timeout")?,
            deletes: settings.flag("delete.messages"),
            retry_interval: millis("delete.retry.interval")?,
            retries: settings.number("max.number.of.delete.retry.attempts")?,
            consumers: settings.number("number.of.parallel.consumers")?,
        })
    }
}

impl SqsSource {
    pub fn new(setup: &SourceSetup<'_>) -> Result<SqsSource, Error> {
        let settings = Settings::of_source(setup.transport, crate::aws::sqs::CONNECTORS);
        let queue = Queue::new(settings, setup.environment, "source")?;
        let receiver = Receiver::of_server(&queue.label(), &["MESSAGE_ID"]);
        let shared = Shared {
            name: format!("{}/{}", setup.environment.app, setup.schema.name),
            options: Options::new(settings)?,
            queue,
            ingress: Arc::clone(&receiver.ingress),
            is_text: reads_text(setup.transport),
            taken: Mutex::default(),
        };
        Ok(SqsSource {
            network: setup.environment.network(),
            receiver,
            shared: Arc::new(shared),
        })
    }

    fn unavailable(&self, cause: impl Into<Cause>) -> Error {
        Error::unavailable(self.shared.queue.label(), cause)
    }
}

impl Source for SqsSource {
    fn run(&mut self, link: &mut dyn SourceLink) -> Result<Finished, Error> {
        let network = Arc::clone(&self.network);
        let workers = network.workers().map_err(|e| self.unavailable(e))?;
        self.receiver.ingress.open();
        let shared = Arc::clone(&self.shared);
        let (leave, leaving) = watch::channel(false);
        let leave = Arc::new(leave);
        let ends = Arc::clone(&leave);
        let started = workers.wait_for(async move {
            let wait = shared.queue.open().await?;
            Ok::<_, Fault>(tokio::spawn(shared.consume(wait, ends, leaving)))
        });
        let started = started.map_err(|e| self.unavailable(e))?;
        let task = started.map_err(|fault| self.unavailable(fault.cause))?;
        link.report(Connection::Connected);
        let result = self.receiver.run(link);
        leave.send_replace(true);
        // What a lost server is still asked to delete goes on beside the next connection.
        if result.is_ok() {
            workers
                .wait_for(async move { tokio::time::timeout(LEAVE, task).await.ok() })
                .ok();
        }
        result
    }

    fn restore(&mut self, _position: &[u8]) -> Result<(), Error> {
        // What was not deleted comes again.
        Ok(())
    }
}

/// A message that the app has, and is to be deleted once it is safe.
struct Handled {
    id: String,
    safe: oneshot::Receiver<()>,
}

impl Shared {
    fn taken(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs all consumers until the source stops or the server is lost, then until all that the app
    /// has was deleted.
    async fn consume(
        self: Arc<Shared>,
        wait: u64,
        leave: Arc<watch::Sender<bool>>,
        leaving: watch::Receiver<bool>,
    ) {
        let wait = self.options.wait.unwrap_or(wait);
        let mut tasks = JoinSet::new();
        for _ in 0..self.options.consumers {
            let (note, handled) = mpsc::channel(HANDLED_MAX);
            tasks.spawn(Arc::clone(&self).delete(handled));
            let (shared, leaving) = (Arc::clone(&self), leaving.clone());
            let leave = Arc::clone(&leave);
            tasks.spawn(async move {
                if let Err(fault) = shared.receive(wait, leaving, note).await {
                    // The others need not find out for themselves.
                    shared.ingress.lose(fault.cause);
                    leave.send_replace(true);
                }
            });
        }
        while tasks.join_next().await.is_some() {}
    }

    /// One consumer.
    async fn receive(
        &self,
        wait: u64,
        mut leaving: watch::Receiver<bool>,
        note: mpsc::Sender<Handled>,
    ) -> Result<(), Fault> {
        while !*leaving.borrow() {
            let messages = self.question(wait, &leaving).await?;
            self.take(messages, &note).await;
            tokio::select! {
                () = tokio::time::sleep(self.options.interval) => {}
                _ = leaving.wait_for(|leaves| *leaves) => {}
            }
        }
        Ok(())
    }

    /// Messages that come within the wait; asked for in pieces, so that a silent server is told from
    /// an empty queue.
    async fn question(
        &self,
        wait: u64,
        leaving: &watch::Receiver<bool>,
    ) -> Result<Vec<Json>, Fault> {
        let mut left = wait;
        loop {
            let piece = left.min(WAIT_SECONDS_MAX);
            let mut body = json!({
                "MaxNumberOfMessages": self.options.messages_max,
                "WaitTimeSeconds": piece,
            });
            if let Some(seconds) = self.options.visibility {
                body["VisibilityTimeout"] = seconds.into();
            }
            let mut answer = self.queue.ask("ReceiveMessage", body).await?;
            left -= piece;
            let messages = match answer["Messages"].take() {
                Json::Array(messages) => messages,
                _ => Vec::new(),
            };
            if !messages.is_empty() || left == 0 || *leaving.borrow() {
                return Ok(messages);
            }
        }
    }

    /// Hands messages to the app; where it takes none any more, others may have them at once.
    async fn take(&self, messages: Vec<Json>, note: &mpsc::Sender<Handled>) {
        let mut left = Vec::new();
        for mut message in messages {
            let mut text = |name: &str| match message[name].take() {
                Json::String(text) => text,
                _ => String::new(),
            };
            let (id, handle, body) = (text("MessageId"), text("ReceiptHandle"), text("Body"));
            match self.taken().entry(id.clone()) {
                // The app has it, and has not said yet that it is safe.
                Entry::Occupied(mut known) => {
                    known.insert(handle);
                    continue;
                }
                Entry::Vacant(new) => new.insert(handle),
            };
            let properties = vec![Value::str(&id)];
            let delivery = Delivery::payload(Bytes::from(body), self.is_text, properties);
            let (delivery, safe) = delivery.with_receipt();
            if self.ingress.push(delivery).await.is_err() {
                left.push(id);
                continue;
            }
            // Its other end goes on until this one is dropped.
            note.send(Handled { id, safe }).await.ok();
        }
        self.release(left).await;
    }

    /// Deletes messages in the order in which they were taken, each when it is safe.
    async fn delete(self: Arc<Shared>, mut handled: mpsc::Receiver<Handled>) {
        let mut next = None;
        loop {
            let first = match next.take() {
                Some(first) => Some(first),
                None => handled.recv().await,
            };
            let Some(Handled { id, safe }) = first else {
                return;
            };
            let (mut safe_ones, mut left) = (Vec::new(), Vec::new());
            match safe.await {
                Ok(()) => safe_ones.push(id),
                Err(_) => left.push(id),
            }
            while safe_ones.len() < BATCH_MAX
                && left.len() < BATCH_MAX
                && let Ok(mut one) = handled.try_recv()
            {
                match one.safe.try_recv() {
                    Ok(()) => safe_ones.push(one.id),
                    Err(oneshot::error::TryRecvError::Closed) => left.push(one.id),
                    Err(oneshot::error::TryRecvError::Empty) => {
                        next = Some(one);
                        break;
                    }
                }
            }
            self.remove(safe_ones).await;
            self.release(left).await;
        }
    }

    /// Deletes messages of the queue, as often as may be tried.
    async fn remove(&self, ids: Vec<String>) {
        let mut left: Vec<&str> = ids.iter().map(String::as_str).collect();
        let mut attempts = if self.options.deletes {
            self.options.retries + 1
        } else {
            0
        };
        let mut said = String::new();
        while attempts > 0 && !left.is_empty() {
            match self.about(&left, "DeleteMessageBatch", None).await {
                Ok(answer) => {
                    let (_, failed) = outcome(&answer);
                    let again = failed.into_iter().filter_map(|(index, _, cause)| {
                        said = cause;
                        left.get(index).copied()
                    });
                    left = again.collect();
                }
                Err(fault) => said = fault.cause,
            }
            attempts -= 1;
            if attempts > 0 && !left.is_empty() {
                tokio::time::sleep(self.options.retry_interval).await;
            }
        }
        if self.options.deletes && !left.is_empty() {
            tracing::error!(
                source = self.name,
                count = left.len(),
                cause = said,
                "cannot delete processed messages; the queue will deliver them again"
            );
        }
        let mut taken = self.taken();
        for id in &ids {
            taken.remove(id);
        }
    }

    /// Makes messages visible again that the app does not take. Where that fails they are so by
    /// themselves when their time is over.
    async fn release(&self, ids: Vec<String>) {
        if ids.is_empty() {
            return;
        }
        let list: Vec<&str> = ids.iter().map(String::as_str).collect();
        let asked = self.about(&list, "ChangeMessageVisibilityBatch", Some(0));
        if let Err(fault) = asked.await {
            tracing::warn!(
                source = self.name,
                cause = fault.cause,
                "cannot release messages; the queue will deliver them again after their visibility \
                 timeout"
            );
        }
        let mut taken = self.taken();
        for id in &ids {
            taken.remove(id);
        }
    }

    /// A request about messages by their handles.
    async fn about(&self, ids: &[&str], action: &str, visible: Option<u64>) -> Result<Json, Fault> {
        let entries: Vec<Json> = {
            let taken = self.taken();
            let entries = ids.iter().enumerate().map(|(index, id)| {
                let handle = taken.get(*id).map(String::as_str);
                let mut entry = json!({ "Id": index.to_string(), "ReceiptHandle": handle });
                if let Some(seconds) = visible {
                    entry["VisibilityTimeout"] = seconds.into();
                }
                entry
            });
            entries.collect()
        };
        self.queue.ask(action, json!({ "Entries": entries })).await
    }
}
