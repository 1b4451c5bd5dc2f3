//! What a scenario measured, for people and as JSON.

use serde_json::{Value as Json, json};

use crate::machine;
use crate::scenario::{Scenario, Verified};

#[derive(Clone, Debug)]
pub struct Run {
    /// From process start to its end.
    pub seconds: f64,
    /// Time in which the app only waited for its own windows after the last byte was read.
    pub waited_seconds: f64,
    pub events: u64,
    pub cpu_seconds: f64,
    pub peak_rss_bytes: u64,
    pub first_event_ms: f64,
    pub verified: Verified,
}

impl Run {
    pub fn new(events: u64, seconds: f64, summary: &Json, verified: Verified) -> Run {
        Run {
            seconds,
            waited_seconds: summary["waited_seconds"].as_f64().unwrap_or(0.0),
            events,
            cpu_seconds: summary["cpu_seconds"].as_f64().unwrap_or(0.0),
            peak_rss_bytes: summary["peak_rss_bytes"].as_u64().unwrap_or(0),
            first_event_ms: summary["first_event_ms"].as_f64().unwrap_or(0.0),
            verified,
        }
    }

    /// Events a second while there was work, that is without the time waited; none for a run whose
    /// result is wrong.
    pub fn rate(&self) -> Option<f64> {
        let busy = (self.seconds - self.waited_seconds).max(1e-9);
        self.verified.is_right.then(|| self.events as f64 / busy)
    }

    pub fn cpu_ns_per_event(&self) -> f64 {
        self.cpu_seconds * 1e9 / self.events as f64
    }

    pub fn in_words(&self) -> String {
        match self.rate() {
            Some(rate) => format!(
                "{} events/s in {:.2} s (and {:.2} s waited for its own windows), {:.0} ns of CPU an event, {:.0} MB",
                thousands(rate),
                self.seconds - self.waited_seconds,
                self.waited_seconds,
                self.cpu_ns_per_event(),
                self.peak_rss_bytes as f64 / 1e6,
            ),
            None => format!(
                "WRONG RESULT: {}",
                Json::Object(self.verified.facts.clone())
            ),
        }
    }

    fn to_json(&self) -> Json {
        json!({
            "seconds": self.seconds,
            "waited_seconds": self.waited_seconds,
            "events": self.events,
            "events_per_s": self.rate(),
            "cpu_ns_per_event": self.cpu_ns_per_event(),
            "peak_rss_bytes": self.peak_rss_bytes,
            "first_event_ms": self.first_event_ms,
            "verified": self.verified.facts,
        })
    }
}

#[derive(Clone, Debug)]
pub struct Report {
    pub scenario: &'static str,
    pub about: &'static str,
    /// Which app ran.
    pub app: String,
    pub events: u64,
    pub machine: Json,
    pub runs: Vec<Run>,
    /// Of the last run, where it was watched.
    pub profile: Option<String>,
    pub published: Option<(f64, &'static str, &'static str)>,
}

impl Report {
    pub fn new(scenario: &dyn Scenario, events: u64) -> Report {
        Report {
            scenario: scenario.name(),
            about: scenario.about(),
            app: String::new(),
            events,
            machine: machine::describe(),
            runs: Vec::new(),
            profile: None,
            published: scenario.published(),
        }
    }

    pub fn is_right(&self) -> bool {
        !self.runs.is_empty() && self.runs.iter().all(|r| r.verified.is_right)
    }

    /// Least, middle and greatest of a figure over the runs.
    fn spread(&self, figure: impl Fn(&Run) -> f64) -> [f64; 3] {
        let mut all: Vec<f64> = self.runs.iter().map(figure).collect();
        all.sort_by(f64::total_cmp);
        match all.as_slice() {
            [] => [0.0; 3],
            all => [all[0], all[all.len() / 2], all[all.len() - 1]],
        }
    }

    pub fn to_json(&self, commit: &str) -> Json {
        let of = |i: usize| {
            self.is_right().then(|| {
                json!({
                    "seconds": self.spread(|r| r.seconds)[i],
                    "events_per_s": self.spread(|r| r.rate().unwrap_or(0.0))[i],
                    "cpu_ns_per_event": self.spread(Run::cpu_ns_per_event)[i],
                    "peak_rss_bytes": self.spread(|r| r.peak_rss_bytes as f64)[i],
                })
            })
        };
        json!({
            "version": 1,
            "scenario": self.scenario,
            "app": self.app,
            "commit": commit,
            "machine": self.machine,
            "runs": self.runs.iter().map(Run::to_json).collect::<Vec<_>>(),
            "min": of(0),
            "median": of(1),
            "max": of(2),
            "published": self.published.map(|(value, unit, source)| {
                json!({ "value": value, "unit": unit, "source": source })
            }),
            "profile": self.profile,
            "peers": [],
        })
    }

    /// A table for people.
    pub fn in_words(&self) -> String {
        let machine = |key: &str| self.machine[key].to_string().replace('"', "");
        let mut out = format!(
            "{}: {}\napp: {}\nmachine: {}, {} cores, {}, kernel {}, load {} before\n",
            self.scenario,
            self.about,
            self.app,
            machine("cpu"),
            machine("cores"),
            machine("memory"),
            machine("kernel"),
            machine("load_before"),
        );
        if !self.is_right() {
            for run in self.runs.iter().filter(|r| !r.verified.is_right) {
                out += &run.in_words();
                out.push('\n');
            }
            return out;
        }
        out += &format!(
            "{} runs of {} events, each a process of its own, results verified\n\n{:<34}{:>14}{:>14}{:>14}\n",
            self.runs.len(),
            thousands(self.events as f64),
            "",
            "min",
            "median",
            "max"
        );
        let busy = self.spread(|r| r.rate().unwrap_or(0.0));
        let rows: [(&str, [f64; 3], usize); 7] = [
            ("events/s while there was work", busy, 0),
            (
                "events/s from start to end",
                self.spread(|r| r.events as f64 / r.seconds),
                0,
            ),
            ("seconds from start to end", self.spread(|r| r.seconds), 2),
            (
                "  of it waited for its own windows",
                self.spread(|r| r.waited_seconds),
                2,
            ),
            ("CPU ns per event", self.spread(Run::cpu_ns_per_event), 1),
            (
                "peak memory, MB",
                self.spread(|r| r.peak_rss_bytes as f64 / 1e6),
                1,
            ),
            (
                "ms from start to the first event",
                self.spread(|r| r.first_event_ms),
                1,
            ),
        ];
        for (name, figures, digits) in rows {
            out += &format!("{name:<34}");
            for figure in figures {
                let text = if digits == 0 {
                    thousands(figure)
                } else {
                    format!("{figure:.digits$}")
                };
                out += &format!("{text:>14}");
            }
            out.push('\n');
        }
        if let Some((value, unit, source)) = self.published {
            out += &format!(
                "\npublished: {} {unit} ({source}); here {:.1} times as many on this machine\n",
                thousands(value),
                busy[1] / value
            );
        }
        if let Some(profile) = &self.profile {
            out += "\nWhere the last run spent its CPU; to be watched has cost some of it:\n";
            out += profile;
        }
        out
    }
}

/// A whole number with its thousands apart.
pub fn thousands(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::thousands;

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(thousands(6_140_031.0), "6,140,031");
        assert_eq!(thousands(999.4), "999");
        assert_eq!(thousands(1000.0), "1,000");
    }
}
