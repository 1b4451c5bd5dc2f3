//! What was measured, for people and as JSON.

use serde_json::{Value as Json, json};

use super::{Feed, Scenario};
use crate::machine;
use crate::report::thousands;

/// One pass over all events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// CPU time of the thread that sends.
    pub thread_ns: u64,
    /// CPU time of all threads.
    pub process_ns: u64,
    pub wall_ns: u64,
    pub rows: u64,
}

/// Least, middle and greatest of a figure.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spread {
    pub min: f64,
    pub median: f64,
    pub max: f64,
}

impl Spread {
    fn of(figures: impl Iterator<Item = f64>) -> Option<Spread> {
        let mut all: Vec<f64> = figures.collect();
        all.sort_by(f64::total_cmp);
        Some(Spread {
            min: *all.first()?,
            median: all[all.len() / 2],
            max: *all.last()?,
        })
    }

    fn to_json(self) -> Json {
        json!({ "min": self.min, "median": self.median, "max": self.max })
    }

    fn in_words(self) -> String {
        format!(
            "{} ({}–{})",
            short(self.median),
            short(self.min),
            short(self.max)
        )
    }
}

fn short(figure: f64) -> String {
    match figure {
        f if f < 10.0 => format!("{f:.2}"),
        f if f < 100.0 => format!("{f:.1}"),
        f => thousands(f),
    }
}

/// One scenario in one feed.
pub struct Row {
    pub scenario: &'static Scenario,
    pub feed: Feed,
    pub events: u64,
    pub rows_out: u64,
    /// The outputs of both were compared and are the same.
    pub is_verified: bool,
    /// Where they are not.
    pub difference: Option<String>,
    /// Why the app does not run here.
    pub refused: Option<String>,
    pub headwater: Vec<Sample>,
    pub siddhi: Vec<Sample>,
}

impl Row {
    pub(super) fn new(scenario: &'static Scenario, feed: Feed, events: u64) -> Row {
        Row {
            scenario,
            feed,
            events,
            rows_out: 0,
            is_verified: false,
            difference: None,
            refused: None,
            headwater: Vec::new(),
            siddhi: Vec::new(),
        }
    }

    fn per_event(&self, samples: &[Sample], figure: fn(&Sample) -> u64) -> Option<Spread> {
        let events = self.events.max(1) as f64;
        Spread::of(samples.iter().map(|s| figure(s) as f64 / events))
    }

    /// CPU time of an event here.
    pub fn ours(&self) -> Option<Spread> {
        self.per_event(&self.headwater, |s| s.thread_ns)
    }

    /// CPU time of an event in the reference, of the sending thread alone.
    pub fn theirs(&self) -> Option<Spread> {
        self.per_event(&self.siddhi, |s| s.thread_ns)
    }

    /// How many times the events per CPU-second of the reference.
    pub fn ratio(&self) -> Option<f64> {
        if !self.is_verified {
            return None;
        }
        Some(self.theirs()?.median / self.ours()?.median)
    }

    /// In words, for a person who waits.
    pub fn in_words(&self) -> String {
        if let Some(reason) = &self.refused {
            return format!("does not run: {reason}");
        }
        if let Some(difference) = &self.difference {
            return format!("WRONG RESULT: {difference}");
        }
        let figure = |spread: Option<Spread>| spread.map_or("-".to_owned(), Spread::in_words);
        let ratio = self.ratio().map_or("-".to_owned(), |r| format!("{r:.1}"));
        format!(
            "{} ns of CPU an event, siddhi-core {}, {ratio} times ({})",
            figure(self.ours()),
            figure(self.theirs()),
            self.feed.describe(),
        )
    }

    fn to_json(&self) -> Json {
        let side = |samples: &[Sample]| {
            let process = self.per_event(samples, |s| s.process_ns)?;
            let thread = self.per_event(samples, |s| s.thread_ns)?;
            let wall = self.per_event(samples, |s| s.wall_ns)?;
            Some(json!({
                "cpu_ns_per_event": thread.to_json(),
                "process_cpu_ns_per_event": process.to_json(),
                "wall_ns_per_event": wall.to_json(),
                "events_per_cpu_second": 1e9 / thread.median,
            }))
        };
        json!({
            "scenario": self.scenario.name,
            "app": self.scenario.app,
            "events": self.events,
            "rows_out": self.rows_out,
            "verified": self.is_verified,
            "difference": self.difference,
            "refused": self.refused,
            "headwater": side(&self.headwater),
            "siddhi": side(&self.siddhi),
            "ratio": self.ratio(),
            "goal": self.scenario.goal,
        })
    }
}

pub struct EngineReport {
    pub machine: Json,
    /// Version of the reference, or why it is not there.
    pub siddhi: Result<String, String>,
    pub rows: Vec<Row>,
}

impl EngineReport {
    pub(super) fn new(siddhi: Result<String, String>) -> EngineReport {
        EngineReport {
            machine: machine::describe(),
            siddhi,
            rows: Vec::new(),
        }
    }

    /// Everything ran, and nothing that was compared differs.
    pub fn is_right(&self) -> bool {
        let is_right = |r: &Row| r.difference.is_none() && r.refused.is_none();
        !self.rows.is_empty() && self.rows.iter().all(is_right)
    }

    pub fn to_json(&self, commit: &str) -> Json {
        let tables = Feed::ALL.map(|feed| {
            let rows = self.rows.iter().filter(|r| r.feed == feed);
            json!({
                "feed": feed.describe(),
                "rows": rows.map(Row::to_json).collect::<Vec<_>>(),
            })
        });
        json!({
            "version": 1,
            "scenario": "engine",
            "commit": commit,
            "machine": self.machine,
            "siddhi": self.siddhi.as_ref().ok(),
            "siddhi_missing": self.siddhi.as_ref().err(),
            "tables": tables,
        })
    }

    pub fn in_words(&self, commit: &str) -> String {
        let machine = |key: &str| self.machine[key].to_string().replace('"', "");
        let runs = self.rows.iter().map(|r| r.headwater.len()).max();
        let mut out = format!(
            "engine: ns of CPU time an event, middle of {} passes (least–greatest); outputs compared row for row first\n\
             machine: {}, {} cores, {}, kernel {}, load {} before\n\
             headwater {} ({commit}): CPU time of the thread that does everything\n",
            runs.unwrap_or(0),
            machine("cpu"),
            machine("cores"),
            machine("memory"),
            machine("kernel"),
            machine("load_before"),
            env!("CARGO_PKG_VERSION"),
        );
        out += &match &self.siddhi {
            Ok(version) => {
                format!(
                    "{version}: CPU time of the sending thread; of the whole process in brackets\n"
                )
            }
            Err(reason) => format!("siddhi-core: not measured ({reason})\n"),
        };
        for feed in Feed::ALL {
            out += &format!(
                "\n{}\n{:<22}{:>24}{:>34}{:>12}{:>8}{:>7}\n",
                feed.describe(),
                "",
                "headwater",
                "siddhi-core",
                "M events/s",
                "times",
                "goal"
            );
            for row in self.rows.iter().filter(|r| r.feed == feed) {
                out += &line(row);
            }
        }
        out
    }
}

fn line(row: &Row) -> String {
    let name = row.scenario.name;
    if row.refused.is_some() || row.difference.is_some() {
        return format!("{name:<22}  {}\n", row.in_words());
    }
    let ours = row.ours();
    let theirs = row.theirs().map_or("-".to_owned(), |spread| {
        let process = row.per_event(&row.siddhi, |s| s.process_ns);
        let process = process.map_or(0.0, |p| p.median);
        format!("{} [{}]", spread.in_words(), short(process))
    });
    format!(
        "{name:<22}{:>24}{theirs:>34}{:>12}{:>8}{:>7}\n",
        ours.map_or("-".to_owned(), Spread::in_words),
        ours.map_or("-".to_owned(), |o| short(1e3 / o.median)),
        row.ratio().map_or("-".to_owned(), |r| format!("{r:.1}")),
        row.scenario.goal,
    )
}

/// The first place where two outputs differ.
pub(super) fn difference(ours: &[String], theirs: &[String], is_ordered: bool) -> Option<String> {
    let sorted = |rows: &[String]| {
        let mut rows = rows.to_vec();
        if !is_ordered {
            rows.sort_unstable();
        }
        rows
    };
    let (ours, theirs) = (sorted(ours), sorted(theirs));
    let at = ours.iter().zip(&theirs).position(|(a, b)| a != b);
    let at = match at {
        Some(at) => at,
        None if ours.len() == theirs.len() => return None,
        None => ours.len().min(theirs.len()),
    };
    let row = |rows: &[String]| {
        rows.get(at).map_or("nothing".to_owned(), |r| {
            format!("'{}'", r.replace('\t', " "))
        })
    };
    Some(format!(
        "row {} of {} is {} here and {} of {} there",
        at + 1,
        ours.len(),
        row(&ours),
        row(&theirs),
        theirs.len(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_told() {
        let rows = |texts: &[&str]| texts.iter().map(|&t| t.to_owned()).collect::<Vec<_>>();
        let (a, b) = (rows(&["1\ta", "2\tb"]), rows(&["2\tb", "1\ta"]));
        assert_eq!(difference(&a, &a, true), None);
        assert_eq!(difference(&a, &b, false), None);
        assert_eq!(
            difference(&a, &b, true).as_deref(),
            Some("row 1 of 2 is '1 a' here and '2 b' of 2 there")
        );
        assert_eq!(
            difference(&a, &a[..1], true).as_deref(),
            Some("row 2 of 2 is '2 b' here and nothing of 1 there")
        );
    }

    #[test]
    fn a_ratio_needs_equal_outputs() {
        let mut row = Row::new(&super::super::SCENARIOS[0], Feed::Single, 10);
        let sample = |ns| Sample {
            thread_ns: ns,
            ..Sample::default()
        };
        row.headwater = vec![sample(10), sample(20), sample(30)];
        row.siddhi = vec![sample(400)];
        assert_eq!(row.ratio(), None);
        row.is_verified = true;
        assert_eq!(row.ratio(), Some(20.0));
    }
}
