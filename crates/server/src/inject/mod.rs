//! Rows that somebody sends to a stream of a running app by hand.
//!
//! They take the way of a source's rows: through the bounded queue of the app's executor, whole
//! batches one behind the other, so that checkpoints see them in order with all other input, and who
//! sends more than the app takes has to wait. Under `--state` they are answered when they have been
//! saved, as on-demand writes are.
//!
//! Never here: HTTP (see [`crate::http`]).

mod row;

use std::sync::Arc;
use std::time::Instant;

use event::{Batch, Schema};
use plan::{StreamId, StreamKind};
use tokio::sync::oneshot;

use crate::ask::{AskedApp, Asker, Refusal};
use crate::clock;
use crate::executor::{ExecutorInput, Injection, InputQueue};
use crate::queue::{Unpushed, Weight};

pub(crate) use row::{Misfit, Rows, timestamp};

/// Rows of a batch: a bigger one would have to wait until the queue of the executor is empty.
pub(crate) const BATCH_ROWS_MAX: usize = 4096;

/// A thread waits so long for room at a time, and a server that stops waits so long for it.
const WAIT_SLICE: std::time::Duration = std::time::Duration::from_millis(250);

/// A stream that rows can be sent to.
pub(crate) struct Target {
    app: AskedApp,
    stream: StreamId,
}

/// Why rows are not in, or not known to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unsent {
    /// The queue of the app stayed full.
    Full,
    /// The app has ended, or is being reloaded.
    Gone,
    /// They wait in the app's queue, or have not been saved yet.
    Late,
}

impl Target {
    /// The stream of that name of the app, or of the only app there is.
    ///
    /// # Errors
    /// [`Refusal::NoApp`] where there is no such app or no such stream, with those that there are.
    pub fn find(asker: &Asker, app: Option<&str>, stream: &str) -> Result<Target, Refusal> {
        let app = asker.app(app)?;
        let streams = app.plan.streams.iter();
        let found = streams
            .enumerate()
            .find(|(_, s)| takes_rows(s.kind) && s.schema.name == stream);
        match found.map(|(id, _)| id) {
            Some(stream) => Ok(Target { app, stream }),
            None => {
                let names: Vec<String> = streams_of(&app)
                    .map(|schema| format!("'{}'", schema.name))
                    .collect();
                Err(Refusal::NoApp(format!(
                    "app '{}' has no stream '{stream}'; there is {}",
                    app.name,
                    names.join(", ")
                )))
            }
        }
    }

    pub fn app(&self) -> &str {
        &self.app.name
    }

    pub fn schema(&self) -> &Schema {
        &self.app.plan.streams[self.stream].schema
    }

    /// Gathers rows for it. In playback, where events move the clock, a row without a timestamp has
    /// that of today, as Streaming Integrator gives it.
    pub fn rows(&self) -> Rows<'_> {
        let unstamped = match self.app.plan.options.playback {
            Some(_) => clock::wall_millis(),
            None => engine::UNSTAMPED,
        };
        Rows::new(self.schema(), unstamped)
    }

    /// Hands over batches one after the other, and waits until the app has them. So many rows are in,
    /// and why the others are not.
    pub async fn send(&self, batches: Vec<Batch>, until: Instant) -> (usize, Option<Unsent>) {
        let mut replies = Vec::with_capacity(batches.len());
        let mut unsent = None;
        for batch in batches {
            let rows = batch.len;
            let (reply, answer) = oneshot::channel();
            let weight = Weight {
                rows,
                bytes: batch.columns.iter().map(event::Column::bytes).sum(),
            };
            let injection = Injection {
                app: self.app.index,
                stream: self.stream,
                batch,
                reply,
            };
            let input = ExecutorInput::Inject(Box::new(injection));
            if let Err(why) = push(&self.app.input_queue, input, weight, until).await {
                unsent = Some(why);
                break;
            }
            replies.push((rows, answer));
        }
        let mut sent = 0;
        for (rows, answer) in replies {
            match tokio::time::timeout_at(until.into(), answer).await {
                Ok(Ok(())) => sent += rows,
                Ok(Err(_)) => return (sent, Some(Unsent::Gone)),
                Err(_) => return (sent, Some(Unsent::Late)),
            }
        }
        (sent, unsent)
    }
}

/// The streams that rows can be sent to: also those that a query fills. What lives inside a partition
/// has no place outside, and a fault stream carries errors.
fn takes_rows(kind: StreamKind) -> bool {
    matches!(kind, StreamKind::Plain | StreamKind::Trigger)
}

/// The definitions of the streams of an app that rows can be sent to.
pub(crate) fn streams_of(app: &AskedApp) -> impl Iterator<Item = &Schema> {
    let streams = app.plan.streams.iter();
    streams.filter(|s| takes_rows(s.kind)).map(|s| &s.schema)
}

/// Appends it when there is room. The threads of the runtime never wait for it.
async fn push(
    queue: &Arc<InputQueue>,
    input: ExecutorInput,
    weight: Weight,
    until: Instant,
) -> Result<(), Unsent> {
    let mut outcome = queue.push_until(input, weight, Instant::now());
    loop {
        let input = match outcome {
            Ok(()) => return Ok(()),
            Err(Unpushed::Closed) => return Err(Unsent::Gone),
            Err(Unpushed::Late(input)) => input,
        };
        let now = Instant::now();
        if now >= until {
            return Err(Unsent::Full);
        }
        let (queue, slice) = (Arc::clone(queue), until.min(now + WAIT_SLICE));
        let waiting =
            tokio::task::spawn_blocking(move || queue.push_until(input, weight, slice)).await;
        outcome = waiting.map_err(|_| Unsent::Gone)?;
    }
}
