//! How fast rows are sent, and what a person sees of it.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::REQUEST_ROWS_MAX;
use crate::output::Output;
use crate::progress::thousands;

/// With `--rate`, a request carries the rows of such a part of a second, so that they do not come in
/// bursts.
const REQUESTS_PER_SECOND: f64 = 10.0;

pub struct Pace<'a> {
    /// Rows per second.
    rate: Option<f64>,
    begun: Instant,
    output: &'a Output,
    bar: Option<ProgressBar>,
}

impl<'a> Pace<'a> {
    pub fn new(rate: Option<f64>, output: &'a Output) -> Pace<'a> {
        let is_drawn = io::stderr().is_terminal() && !output.is_quiet;
        let bar = is_drawn.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
            let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}");
            bar.set_style(style.expect("the template is constant"));
            bar
        });
        output.console.set_bar(bar.clone());
        Pace {
            rate,
            begun: Instant::now(),
            output,
            bar,
        }
    }

    /// Rows of a request.
    pub fn rows_max(&self) -> usize {
        let of = |rate: f64| ((rate / REQUESTS_PER_SECOND) as usize).clamp(1, REQUEST_ROWS_MAX);
        self.rate.map_or(REQUEST_ROWS_MAX, of)
    }

    /// Waits until the row behind `done` rows is due.
    pub fn wait(&self, done: u64) {
        let Some(rate) = self.rate else { return };
        let due = Duration::try_from_secs_f64(done as f64 / rate);
        let due = self.begun + due.unwrap_or(Duration::MAX / 4);
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::park_timeout(left);
        }
    }

    pub fn show(&self, sent: u64) {
        if let Some(bar) = &self.bar {
            let rate = sent as f64 / self.begun.elapsed().as_secs_f64().max(0.001);
            bar.tick();
            bar.set_message(format!(
                "{} rows sent, {}/s",
                thousands(sent),
                thousands(rate as u64)
            ));
        }
    }

    /// Takes the bar away.
    pub fn end(&self) {
        self.output.console.set_bar(None);
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
