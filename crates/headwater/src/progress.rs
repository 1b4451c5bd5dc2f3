//! What a person sees while apps run, and at the end.
//!
//! While they run: on a terminal a bar with rate, bytes and time left, on standard error; elsewhere
//! nothing, because a log that says each ten seconds that all is well hides what is not.

use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use server::Summary;
use server::metrics::Metrics;

use crate::output::Output;

/// How long the rate shown looks back.
const RATE_OVER: Duration = Duration::from_secs(2);

pub struct Progress<'a> {
    output: &'a Output,
    bar: Option<ProgressBar>,
    /// Events at the begin of the span that the rate is taken over.
    mark: (Instant, u64),
    rate: f64,
}

#[derive(Clone, Copy, Default)]
struct Totals {
    events: u64,
    bytes: u64,
    expected: u64,
    rows: u64,
    rejected: u64,
}

impl<'a> Progress<'a> {
    pub fn new(output: &'a Output) -> Progress<'a> {
        let is_drawn = io::stderr().is_terminal() && !output.is_quiet;
        let bar = is_drawn.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
            bar.set_style(spinner());
            bar
        });
        output.console.set_bar(bar.clone());
        Progress {
            output,
            bar,
            mark: (Instant::now(), 0),
            rate: 0.0,
        }
    }

    pub fn show(&mut self, metrics: &Metrics) {
        if self.bar.is_none() {
            return;
        }
        let totals = totals(metrics);
        self.measure(totals.events);
        let Some(bar) = &self.bar else { return };
        if totals.expected > 0 && bar.length().is_none() {
            bar.set_length(totals.expected);
            bar.set_style(with_length());
        }
        bar.set_position(totals.bytes);
        bar.set_message(self.words(totals));
    }

    pub fn clear(&self) {
        self.output.console.set_bar(None);
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn measure(&mut self, events: u64) {
        let span = self.mark.0.elapsed();
        let is_first = self.mark.1 == 0;
        if span >= RATE_OVER || is_first {
            let seconds = span.as_secs_f64().max(0.001);
            self.rate = (events - self.mark.1.min(events)) as f64 / seconds;
        }
        if span >= RATE_OVER {
            self.mark = (Instant::now(), events);
        }
    }

    fn words(&self, totals: Totals) -> String {
        let mut text = format!(
            "{} events, {}/s",
            thousands(totals.events),
            thousands(self.rate as u64)
        );
        if totals.rows > 0 {
            put(&mut text, format_args!(", {} rows", thousands(totals.rows)));
        }
        if totals.rejected > 0 {
            put(
                &mut text,
                format_args!(", {} rejected", thousands(totals.rejected)),
            );
        }
        text
    }
}

fn spinner() -> ProgressStyle {
    ProgressStyle::with_template("{spinner} {elapsed} {msg}").expect("the template is constant")
}

fn with_length() -> ProgressStyle {
    ProgressStyle::with_template(
        "{elapsed} [{bar:24}] {decimal_bytes}/{decimal_total_bytes} {eta} left, {msg}",
    )
    .expect("the template is constant")
    .progress_chars("=> ")
}

fn totals(metrics: &Metrics) -> Totals {
    let mut totals = Totals {
        rejected: metrics.rejected(),
        ..Totals::default()
    };
    for app in metrics.apps.all() {
        for source in app.sources.all() {
            totals.events += source.events.get();
            totals.bytes += source.bytes.get();
            totals.expected += source.bytes_expected.get();
        }
        for table in app.tables.all() {
            totals.rows += table.inserted.get() + table.updated.get();
        }
    }
    totals
}

/// The summary of a run as a table. `is_whole`: with figures that say little of a server that was
/// stopped.
pub fn summary_text(summary: &Summary, is_whole: bool) -> String {
    let mut text = String::from("\n");
    for app in &summary.apps {
        put(&mut text, format_args!("{}\n", app.name));
        for source in &app.sources {
            // What was only waited for at the end says nothing of the speed.
            let worked = summary.seconds - summary.waited_seconds;
            let rate = source.events as f64 / worked.max(0.001);
            let figures = [
                (source.events, "events"),
                (source.bytes, "bytes"),
                (rate as u64, "events/s"),
            ];
            line(
                &mut text,
                "source",
                &of_type(&source.stream, &source.ty),
                &figures,
            );
            more(&mut text, source.rejected, "rejected");
        }
        for table in &app.tables {
            let figures = [
                (table.inserted, "inserted"),
                (table.updated, "updated"),
                (table.deleted, "deleted"),
            ];
            line(&mut text, "table", &table.name, &figures);
            more(&mut text, table.failed, "refused");
        }
        for sink in &app.sinks {
            let name = of_type(&sink.stream, &sink.ty);
            line(&mut text, "sink", &name, &[(sink.events, "events")]);
            more(&mut text, sink.failed, "not delivered");
        }
        if app.rejected > 0 {
            let rows = thousands(app.rejected);
            put(
                &mut text,
                format_args!("  {rows} events rejected by queries\n"),
            );
        }
        if app.held_in_windows > 0 {
            put(
                &mut text,
                format_args!(
                    "  {} rows remain in windows\n",
                    thousands(app.held_in_windows)
                ),
            );
        }
    }
    put(
        &mut text,
        format_args!(
            "{:.2} s elapsed, {:.2} s CPU time, {} MB peak memory\n",
            summary.seconds,
            summary.cpu_seconds,
            thousands(summary.peak_rss_bytes / 1_000_000)
        ),
    );
    if let Some(ms) = summary.first_event_ms.filter(|_| is_whole) {
        put(
            &mut text,
            format_args!("first event {ms} ms after the start of the process\n"),
        );
    }
    text
}

/// A stream may have several.
fn of_type(stream: &str, ty: &str) -> String {
    format!("{stream} ({ty})")
}

fn line(text: &mut String, kind: &str, name: &str, figures: &[(u64, &str)]) {
    put(text, format_args!("  {kind:<7}{name:<32}"));
    for (number, unit) in figures {
        put(text, format_args!(" {:>14} {unit:<9}", thousands(*number)));
    }
    while text.ends_with(' ') {
        text.pop();
    }
    text.push('\n');
}

fn more(text: &mut String, count: u64, what: &str) {
    if count > 0 {
        put(
            text,
            format_args!("  {:<39} {:>14} {what}\n", "", thousands(count)),
        );
    }
}

fn put(text: &mut String, part: std::fmt::Arguments<'_>) {
    text.write_fmt(part)
        .expect("writing to a string does not fail");
}

/// The number with a comma before each three digits.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_thousands_apart() {
        let all: Vec<String> = [0, 999, 1000, 1_234_567].map(thousands).to_vec();
        assert_eq!(all, ["0", "999", "1,000", "1,234,567"]);
    }
}
