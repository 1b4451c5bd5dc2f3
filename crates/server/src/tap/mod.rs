//! Taps: somebody looks at the events that pass a stream, query, source or sink of a running app.
//!
//! A tap is opened on a thread of the HTTP server: the place is found and the condition is checked and
//! compiled there. The executor of the app then has the engine look (see [`engine::Tap`]), allows it so
//! many rows per second, and hands what was picked to the client through a bounded queue, for which it
//! never waits.
//!
//! Promises: at most [`shared::TAPS_MAX`] taps at once, [`RATE_MAX`] rows per second and [`QUEUE_BYTES_MAX`]
//! bytes in the queue of each; a condition takes at most [`LOOK_SHARE`] of the time of its executor; a
//! tap whose client has gone or has not read for [`UNREAD_MAX`] is closed. What is not shown is counted.
//! Never here: HTTP, JSON (see [`crate::http`]).

mod open;
mod place;
mod shared;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use engine::Tap;
use event::{Batch, Schema};
use lang::diagnostic::{Diagnostic, Severity};
use plan::Plan;
use tokio::sync::mpsc;

use crate::ask::{AskedApp, Asker, Refusal};
use crate::executor::{ExecutorInput, InputQueue};
use crate::rows::weight_of;
pub(crate) use open::OpenTap;
pub(crate) use place::TapPlace;
use shared::{Known, Permit, TapShared};
pub(crate) use shared::{NewTap, Passed};

/// Rows per second of one tap.
pub(crate) const RATE_MAX: f64 = 10_000.0;

/// Batches that wait for a client.
const QUEUE_BATCHES: usize = 256;

/// Bytes of the rows that wait for a client.
pub(crate) const QUEUE_BYTES_MAX: usize = 1 << 20;

/// For so long a client may leave its queue full.
const UNREAD_MAX: Duration = Duration::from_secs(10);

/// Of the time of an executor the condition of a tap takes at most one of so many parts.
const LOOK_SHARE: u32 = 33;

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct TapRequest {
    /// `Orders`, `query:NAME`, `source:Orders[1]`, `sink:Orders[1]`.
    pub on: String,
    /// A condition in SiddhiQL.
    pub condition: Option<String>,
    /// Rows per second, up to [`RATE_MAX`].
    pub rate: f64,
}

/// Why a tap was not opened.
#[derive(Debug)]
pub(crate) enum TapRefusal {
    /// There is no such app, or nothing of that name in it.
    NoPlace(String),
    /// So many are open that this one is not.
    TooMany(String),
    /// The condition is at fault.
    Condition(Vec<Diagnostic>),
    /// The app has ended.
    Gone(String),
}

/// The taps of a server.
#[derive(Clone, Default)]
pub struct Taps(Arc<Known>);

/// The end of a tap that its client holds; dropped, it closes the tap.
pub(crate) struct TapClient {
    id: u64,
    pub app: String,
    /// What is looked at, as it is called in full.
    pub on: String,
    pub schema: Schema,
    pub rows: mpsc::Receiver<Batch>,
    pub shared: Arc<TapShared>,
    input_queue: Arc<InputQueue>,
}

impl TapClient {
    /// A batch was taken from the queue.
    pub fn taken(&self, batch: &Batch) {
        let bytes = bytes_of(batch);
        self.shared.queued.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for TapClient {
    fn drop(&mut self) {
        // An executor that has ended has closed it.
        let input = ExecutorInput::Untap(self.id);
        self.input_queue.push_always(input).ok();
    }
}

fn bytes_of(batch: &Batch) -> usize {
    weight_of(batch).bytes
}

impl Taps {
    fn permit(&self) -> Result<Permit, TapRefusal> {
        self.0.permit().map_err(|open| {
            TapRefusal::TooMany(format!(
                "{open} taps are open, which is as many as a server has at once: close one of them"
            ))
        })
    }

    /// Opens a tap.
    ///
    /// # Errors
    /// Where there is no such place, the condition does not fit it, or too many taps are open.
    pub(crate) fn open(
        &self,
        asker: &Asker,
        app: &str,
        request: &TapRequest,
    ) -> Result<TapClient, TapRefusal> {
        let app = asker.app(Some(app)).map_err(|refusal| match refusal {
            Refusal::NoApp(message) => TapRefusal::NoPlace(message),
            Refusal::Gone(message) => TapRefusal::Gone(message),
            Refusal::Query(faults) => TapRefusal::Condition(faults),
        })?;
        let found = place::find(&app.plan, &request.on).map_err(TapRefusal::NoPlace)?;
        let permit = self.permit()?;
        let id = self.0.next_id();
        let condition = request.condition.as_deref();
        let tap = compiled(id, condition, &found.schema, &app.plan, asker)?;
        let (out, rows) = mpsc::channel(QUEUE_BATCHES);
        let shared = Arc::new(TapShared::new());
        let new = NewTap {
            id,
            app: app.index,
            place: found.place,
            tap,
            rate: request.rate.min(RATE_MAX),
            out,
            shared: Arc::clone(&shared),
            permit,
        };
        let AskedApp {
            name, input_queue, ..
        } = app;
        let input = ExecutorInput::Tap(Box::new(new));
        let gone = || TapRefusal::Gone(format!("app '{name}' has ended"));
        input_queue.push_always(input).map_err(|_| gone())?;
        tracing::info!(app = name, on = found.name, "tap opened");
        Ok(TapClient {
            id,
            app: name,
            on: found.name,
            schema: found.schema,
            rows,
            shared,
            input_queue,
        })
    }
}

/// A tap with its condition, which is checked as in an app.
fn compiled(
    id: u64,
    condition: Option<&str>,
    schema: &Schema,
    plan: &Plan,
    asker: &Asker,
) -> Result<Tap, TapRefusal> {
    let is_error = |d: &Diagnostic| d.severity == Severity::Error;
    let condition = match condition {
        None => None,
        Some(text) => {
            let (parsed, faults) = lang::parser::parse_expression(text);
            let Some(parsed) = parsed.filter(|_| !faults.iter().any(is_error)) else {
                return Err(TapRefusal::Condition(faults));
            };
            let checked = check::check_condition(&parsed, schema, plan, asker.catalog());
            let faults = checked.diagnostics;
            Some(checked.condition.ok_or(TapRefusal::Condition(faults))?)
        }
    };
    Tap::new(id, plan, schema, condition.as_ref())
        .map_err(|error| TapRefusal::Condition(vec![crate::ask::failed(&error.into())]))
}
