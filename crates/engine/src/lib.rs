//! Plans and runs an app: the pure state machine.
//!
//! Promises: same app, same inputs, same clock: same outputs, byte for byte; batch bounds are never
//! observable, chunk bounds are, exactly as in Siddhi; a snapshot at any step boundary, restored,
//! continues as if nothing had happened.
//!
//! Never: I/O, clocks, threads, randomness, environment. Time arrives as an argument of
//! [`App::step`]; what lies outside (stores, file functions) is asked of a [`Host`].
//!
//! # An app from text to output
//!
//! ```
//! use headwater_engine::{App, Input, NoHost, Output, Outputs, Setup, specs};
//! use event::{Batch, Chunks, Value};
//! use check::Catalog;
//! use check::CheckConfig;
//!
//! let text = "define stream Trades (symbol string, price double);
//!     from Trades#window.timeBatch(1 sec)
//!     select symbol, sum(price) as total group by symbol
//!     insert into Totals;";
//! let app = lang::parse(text).app;
//! let checked = check::check(&app, &Catalog::new(specs(), []), &CheckConfig::default());
//! let plan = checked.plan.expect("the app has no errors");
//! let (trades, totals) = (0, 1);
//!
//! let mut app = App::new(&plan, Setup {
//!     observed_streams: vec![totals],
//!     ..Setup::default()
//! })?;
//! let (mut host, mut out) = (NoHost, Outputs::default());
//! app.step(0, 0, Input::Start, &mut host, &mut out);
//!
//! // Three messages that arrived one by one at 100 ms: three chunks in one batch.
//! let rows: Vec<(i64, Vec<Value>)> = [("a", 1.0), ("b", 5.0), ("a", 2.0)]
//!     .map(|(symbol, price)| (100, vec![Value::str(symbol), Value::Double(price)]))
//!     .to_vec();
//! let batch = Batch::from_rows(&plan.streams[trades].schema, &rows, Chunks::EachRow, 100);
//! app.step(100, 100, Input::Batch(trades, batch), &mut host, &mut out);
//! assert!(out.items.is_empty() && app.next_timer() == Some(1100));
//!
//! // The clock reaches the end of the window: its flush is one chunk, one row per group.
//! app.step(1100, 1100, Input::Tick, &mut host, &mut out);
//! let Some(Output::Tap { batch, .. }) = out.items.first() else {
//!     panic!("the window was flushed");
//! };
//! assert_eq!(batch.row(0), [Value::str("a"), Value::Double(3.0)]);
//! assert_eq!((batch.len, batch.chunk_count()), (2, 1));
//! # Ok::<(), headwater_engine::Error>(())
//! ```

mod aggregation;
pub mod aggregator;
mod app;
pub mod component;
mod dirty;
pub mod emission;
mod error;
mod expr;
pub mod function;
mod graph;
mod hash_order;
mod host;
mod join;
pub mod kept;
mod key_text;
pub mod keyed;
mod named;
mod order;
mod output;
mod partition;
mod pattern;
pub mod processor;
mod query;
mod rate;
mod script;
mod snapshot_format;
mod spec;
mod stamp;
mod step;
mod table;
mod tap;
mod timers;
pub mod window;

pub use app::{
    Answer, Apart, App, AskError, BOUNDS, BudgetState, Dropped, Holder, Input, QueryWork,
    SavedElement, SavedTable, Setup, StateMatching, asks_store, saved_elements, saved_table,
    size_text, state_len, topic_links,
};
pub use component::AppEnvironment;
pub use error::{Error, RestoreError};
pub use host::{Called, Found, Host, HostError, NoHost, WriteCounts};
pub use output::{LogLevel, Output, Outputs, RejectedRows};
pub use script::{Script, ScriptEngine};
pub use snapshot_format::compose;
pub use stamp::{UNSTAMPED, UNSTAMPED_SENT};
pub use tap::{Tap, TapCounts, TapPoint};

/// The specs of everything that runs here, for the catalog.
pub fn specs() -> impl Iterator<Item = &'static plan::spec::FunctionSpec> {
    window::WINDOWS
        .iter()
        .map(|w| w.spec())
        .chain(aggregator::AGGREGATORS.iter().map(|a| a.spec()))
        .chain(function::functions().map(|f| f.spec()))
        .chain(processor::PROCESSORS.iter().map(|p| p.spec()))
}
