//! An app: plan, state, clocks and armed alarms; nothing but [`App::step`] changes it.

use event::Batch;
use lang::plan::{Plan, Playback, QueryId, StreamId};
use lang::store::Operation;

use crate::component::Environment;
use crate::error::{Error, RestoreError};
use crate::host::Host;
use crate::output::Outputs;

/// Event timestamp of a row that has none: it takes the clock at which its step begins (Siddhi's
/// `Event` uses the same mark).
pub const UNSTAMPED: i64 = -1;

/// What an app is told beside its plan.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    pub environment: Environment,
    /// Streams whose rows are wanted as [`crate::Output::Tap`].
    pub observed_streams: Vec<StreamId>,
    /// Queries whose callbacks are wanted as [`crate::Output::Callback`].
    pub observed_queries: Vec<QueryId>,
    /// Passes every batch chunk by chunk, to prove that it makes no difference.
    pub lockstep: bool,
    /// Start of the sequence behind `UUID()` and random numbers.
    pub seed: u64,
}

/// The closed set of things that can happen to an app.
#[derive(Clone, Debug)]
pub enum Input {
    /// The app begins; before it nothing is taken. Windows and limiters set their first deadlines.
    Start,
    /// Rows arrive from outside. Live, a batch whose clock is [`event::Clock::Same`] is processed
    /// at the step's `now`; one with a clock per chunk at those, alarms due in between first. In
    /// playback the timestamps move the clock. A row stamped [`UNSTAMPED`] takes the clock.
    Batch(StreamId, Batch),
    /// Time has passed and nothing else; in playback the clock moves to `now` if that is later.
    Tick,
    /// Playback is switched on or off.
    Playback(Option<Playback>),
}

pub struct App {}

impl App {
    /// Makes an app from a checked plan.
    pub fn new(plan: &Plan, setup: Setup) -> Result<App, Error> {
        let _ = setup;
        Err(Error::unsupported(
            format!("app '{}'", plan.name),
            lang::span::Span::default(),
        ))
    }

    /// Takes one input at application clock `now` and wall clock `wall` (milliseconds since 1970;
    /// the same but in playback). What leaves is appended to `out`.
    pub fn step(
        &mut self,
        now: i64,
        wall: i64,
        input: Input,
        host: &mut dyn Host,
        out: &mut Outputs,
    ) {
        let _ = (now, wall, input, host, out);
    }

    /// When the next alarm is due on the wall clock: the caller ticks then. In playback windows wait
    /// for events to move the clock and are not counted.
    pub fn next_alarm(&self) -> Option<i64> {
        None
    }

    /// The application clock.
    pub fn now(&self) -> i64 {
        0
    }

    /// What will be asked of external tables: compiled by the stores before [`Input::Start`].
    pub fn operations(&self) -> &[Operation] {
        &[]
    }

    /// Rows that due timers would still emit.
    pub fn held_in_windows(&self) -> usize {
        0
    }

    /// Rows taken by each stream since the app was made.
    pub fn rows_in(&self) -> &[u64] {
        &[]
    }

    /// Heap bytes of windows and tables.
    pub fn bytes(&self) -> usize {
        0
    }

    /// All state, as it is between two steps.
    pub fn snapshot(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Takes a saved state back; on an error the app is as it was.
    pub fn restore(&mut self, saved: &[u8]) -> Result<(), RestoreError> {
        let _ = saved;
        Ok(())
    }
}
