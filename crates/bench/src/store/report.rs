//! What the parts have shown, for people and as JSON.

use serde_json::{Value as Json, json};

use super::part::Part;

/// Ours.
pub(super) const OURS: &str = "Headwater";

/// Spread from least to greatest, as a part of the median, above which figures are not compared with each other.
const SPREAD_MAX: f64 = 0.2;

/// Seconds below which a ratio says nothing.
const SECONDS_MIN: f64 = 0.01;

/// What a figure has to reach.
#[derive(Clone, Copy)]
pub(super) struct Level {
    pub limit: f64,
    /// The limit is so many times the best of these peers; without any, a value.
    pub of: &'static [&'static str],
}

impl Level {
    pub const fn value(limit: f64) -> Option<Level> {
        Some(Level { limit, of: &[] })
    }

    pub const fn times(limit: f64, of: &'static [&'static str]) -> Option<Level> {
        Some(Level { limit, of })
    }
}

/// A figure that a part measures.
#[derive(Clone, Copy)]
pub(super) struct Figure {
    pub name: &'static str,
    pub unit: &'static str,
    /// Is more of it better?
    pub is_floor: bool,
    /// Of the report of WSO2 DAS.
    pub published: Option<&'static str>,
    pub must: Option<Level>,
    pub target: Option<Level>,
    pub moonshot: Option<Level>,
}

impl Figure {
    /// One that is shown without a bar.
    pub const fn plain(name: &'static str, unit: &'static str) -> Figure {
        Figure {
            name,
            unit,
            is_floor: false,
            published: None,
            must: None,
            target: None,
            moonshot: None,
        }
    }

    fn levels(&self) -> impl Iterator<Item = (&'static str, Level)> {
        let all = [
            ("must", self.must),
            ("target", self.target),
            ("moonshot", self.moonshot),
        ];
        all.into_iter()
            .filter_map(|(name, level)| Some((name, level?)))
    }
}

/// A part with its figures, in the order of the runs.
pub(super) struct Measured {
    part: &'static Part,
    /// Figure, whose, values.
    values: Vec<(&'static str, &'static str, Vec<f64>)>,
    /// What the figures were measured on.
    facts: Vec<String>,
    lacking: Vec<(&'static str, String)>,
}

/// Least, median, greatest.
#[derive(Clone, Copy)]
struct Spread([f64; 3]);

impl Spread {
    fn is_wide(self) -> bool {
        let [least, median, greatest] = self.0;
        greatest - least > SPREAD_MAX * median
    }
}

/// How a figure stands to its levels.
enum Verdict {
    /// The highest that is kept.
    Kept(&'static str),
    /// Not even the must.
    Missed,
    /// Why nothing can be said.
    Open(String),
}

impl Measured {
    pub fn new(part: &'static Part) -> Measured {
        Measured {
            part,
            values: Vec::new(),
            facts: Vec::new(),
            lacking: Vec::new(),
        }
    }

    /// A value of a figure of the part.
    pub fn add(&mut self, figure: &'static str, whose: &'static str, value: f64) {
        debug_assert!(
            self.part.figures.iter().any(|known| known.name == figure),
            "{figure}"
        );
        let mut known = self.values.iter_mut();
        match known.find(|(name, of, _)| (*name, *of) == (figure, whose)) {
            Some((_, _, values)) => values.push(value),
            None => self.values.push((figure, whose, vec![value])),
        }
    }

    /// What the figures were measured on, for whoever reads them.
    pub fn fact(&mut self, fact: String) {
        if !self.facts.contains(&fact) {
            self.facts.push(fact);
        }
    }

    pub fn lacks(&mut self, peer: &'static str, why: String) {
        self.lacking.push((peer, why));
    }

    fn spread(&self, figure: &str, whose: &str) -> Option<Spread> {
        let mut known = self.values.iter();
        let found = known.find(|(name, of, _)| (*name, *of) == (figure, whose));
        let mut values = found?.2.clone();
        values.sort_by(f64::total_cmp);
        Some(Spread([
            *values.first()?,
            values[values.len() / 2],
            *values.last()?,
        ]))
    }

    /// Those who have this figure, ours first.
    fn owners(&self, figure: &str) -> Vec<&'static str> {
        let mut owners: Vec<&'static str> = Vec::new();
        for (_, of, _) in self.values.iter().filter(|(name, ..)| *name == figure) {
            owners.push(of);
        }
        owners.sort_by_key(|of| *of != OURS);
        owners
    }

    /// The limit of a level as a value; the peers it was taken from.
    fn limit(&self, figure: &Figure, level: Level) -> Result<f64, String> {
        if level.of.is_empty() {
            return Ok(level.limit);
        }
        let spreads = level.of.iter().map(|peer| {
            let spread = self.spread(figure.name, peer);
            spread.ok_or_else(|| format!("{peer} is not measured"))
        });
        let spreads = spreads.collect::<Result<Vec<Spread>, String>>()?;
        if spreads.iter().any(|spread| spread.is_wide()) {
            return Err("the figures of a peer spread by more than 20 %".to_owned());
        }
        let medians = spreads.iter().map(|spread| spread.0[1]);
        let best = match figure.is_floor {
            true => medians.fold(f64::MIN, f64::max),
            false => medians.fold(f64::MAX, f64::min),
        };
        Ok(best * level.limit)
    }

    fn verdict(&self, figure: &Figure) -> Option<Verdict> {
        let ours = self.spread(figure.name, OURS)?;
        let value = ours.0[1];
        let mut verdict = None;
        for (name, level) in figure.levels() {
            let limit = match self.limit(figure, level) {
                Ok(limit) => limit,
                Err(why) => return Some(verdict.unwrap_or(Verdict::Open(why))),
            };
            if !level.of.is_empty() {
                let is_short = value < SECONDS_MIN && limit / level.limit < SECONDS_MIN;
                if figure.unit == "s" && is_short {
                    return Some(Verdict::Open("both take less than 10 ms".to_owned()));
                }
                if ours.is_wide() {
                    return Some(Verdict::Open(
                        "our figures spread by more than 20 %".to_owned(),
                    ));
                }
            }
            let is_kept = if figure.is_floor {
                value >= limit
            } else {
                value <= limit
            };
            match is_kept {
                true => verdict = Some(Verdict::Kept(name)),
                false => return Some(verdict.unwrap_or(Verdict::Missed)),
            }
        }
        verdict
    }

    fn is_right(&self) -> bool {
        let figures = self.part.figures.iter();
        !figures
            .filter_map(|figure| self.verdict(figure))
            .any(|verdict| matches!(verdict, Verdict::Missed))
    }

    fn figure_in_words(&self, figure: &Figure, is_quick: bool) -> Option<String> {
        self.spread(figure.name, OURS)?;
        let mut line = format!("  {}: ", figure.name);
        let owners = self.owners(figure.name);
        let spreads = owners.iter().filter_map(|of| {
            let Spread([least, median, greatest]) = self.spread(figure.name, of)?;
            let [least, median, greatest] = [least, median, greatest].map(number);
            Some(match least == greatest {
                true => format!("{of} {median} {}", figure.unit),
                false => format!("{of} {median} {} ({least} to {greatest})", figure.unit),
            })
        });
        line += &spreads.collect::<Vec<String>>().join("; ");
        if let Some(published) = figure.published {
            line += &format!("; published: {published}");
        }
        let levels = figure.levels().map(|(name, level)| match level.of {
            [] => format!("{name} {}", number(level.limit)),
            [peer] => format!("{name} {}x {peer}", number(level.limit)),
            peers => format!(
                "{name} {}x the best of {}",
                number(level.limit),
                peers.join(", ")
            ),
        });
        let levels: Vec<String> = levels.collect();
        if !levels.is_empty() {
            line += &format!("\n    {}: ", levels.join(", "));
            line += &match self.verdict(figure) {
                _ if is_quick => "not judged in a quick run".to_owned(),
                Some(Verdict::Kept(name)) => format!("{name} kept"),
                Some(Verdict::Missed) => "MISSED".to_owned(),
                Some(Verdict::Open(why)) => format!("not judged: {why}"),
                None => String::new(),
            };
        }
        line.push('\n');
        Some(line)
    }

    fn in_words(&self, is_quick: bool) -> String {
        let mut out = format!("\n{}: {}\n", self.part.name, self.part.about);
        for fact in &self.facts {
            out += &format!("  {fact}\n");
        }
        for figure in self.part.figures {
            out += &self.figure_in_words(figure, is_quick).unwrap_or_default();
        }
        for (peer, why) in &self.lacking {
            out += &format!("  {peer} is not measured: {why}\n");
        }
        out
    }

    fn to_json(&self) -> Json {
        let figures = self.part.figures.iter().filter_map(|figure| {
            self.spread(figure.name, OURS)?;
            let values = self.values.iter().filter(|(name, ..)| *name == figure.name);
            let values = values.map(|(_, of, values)| ((*of).to_owned(), json!(values)));
            let verdict = self.verdict(figure).map(|verdict| match verdict {
                Verdict::Kept(name) => json!({ "kept": name }),
                Verdict::Missed => json!({ "kept": null }),
                Verdict::Open(why) => json!({ "open": why }),
            });
            let levels = figure.levels().map(|(name, level)| {
                (
                    name.to_owned(),
                    json!({ "limit": level.limit, "times": level.of }),
                )
            });
            Some(json!({
                "figure": figure.name,
                "unit": figure.unit,
                "published": figure.published,
                "values": Json::Object(values.collect()),
                "levels": Json::Object(levels.collect()),
                "verdict": verdict,
            }))
        });
        let missing = self.lacking.iter();
        let missing = missing.map(|(peer, why)| json!({ "peer": peer, "why": why }));
        json!({
            "part": self.part.name,
            "about": self.part.about,
            "facts": self.facts,
            "figures": figures.collect::<Vec<Json>>(),
            "missing": missing.collect::<Vec<Json>>(),
        })
    }
}

/// Three digits that count.
fn number(value: f64) -> String {
    match value.abs() {
        big if big >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        middle if middle >= 1.0 => format!("{value:.2}"),
        small if small >= 0.001 => format!("{value:.3}"),
        _ => format!("{value:.5}"),
    }
}

pub struct StoreReport {
    machine: Json,
    is_quick: bool,
    parts: Vec<Measured>,
}

impl StoreReport {
    pub(super) fn new(machine: Json, is_quick: bool) -> StoreReport {
        StoreReport {
            machine,
            is_quick,
            parts: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, measured: Measured) {
        self.parts.push(measured);
    }

    /// Every must is kept that could be judged; a quick run has no figures to judge.
    pub fn is_right(&self) -> bool {
        self.is_quick || self.parts.iter().all(Measured::is_right)
    }

    pub fn to_json(&self, commit: &str) -> Json {
        json!({
            "version": 1,
            "scenario": "store",
            "commit": commit,
            "machine": self.machine,
            "is_quick": self.is_quick,
            "is_right": self.is_right(),
            "parts": self.parts.iter().map(Measured::to_json).collect::<Vec<Json>>(),
        })
    }

    pub fn in_words(&self, commit: &str) -> String {
        let machine = |key: &str| self.machine[key].to_string().replace('"', "");
        let mut out = format!(
            "store at {commit}; {}, {} cores, {}, kernel {}, load {} before; median (least to greatest)\n",
            machine("cpu"),
            machine("cores"),
            machine("memory"),
            machine("kernel"),
            machine("load_before"),
        );
        if self.is_quick {
            out += "a quick run: it shows that all of it works, with fewer events than the bars are for\n";
        }
        for part in &self.parts {
            out += &part.in_words(self.is_quick);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Trial;

    const FIGURE: Figure = Figure {
        must: Level::times(1.5, &["DuckDB"]),
        target: Level::times(1.0, &["DuckDB"]),
        moonshot: Level::times(1.0, &["DuckDB", "Polars"]),
        ..Figure::plain("time", "s")
    };

    const PART: Part = Part {
        name: "a part",
        about: "for a test",
        figures: &[FIGURE],
        measure: |_: &Trial<'_>, _| Ok(()),
    };

    /// What is said of our values beside those of two peers.
    fn said(ours: &[f64], duckdb: f64, polars: f64) -> String {
        let mut measured = Measured::new(&PART);
        ours.iter()
            .for_each(|value| measured.add("time", OURS, *value));
        measured.add("time", "DuckDB", duckdb);
        measured.add("time", "Polars", polars);
        measured.figure_in_words(&FIGURE, false).unwrap_or_default()
    }

    #[test]
    fn a_figure_is_judged_by_its_highest_level() {
        for (ours, duckdb, polars, says) in [
            (&[1.0][..], 2.0, 1.5, "moonshot kept"),
            (&[1.0], 1.1, 0.9, "target kept"),
            (&[1.0], 0.7, 0.6, "must kept"),
            (&[1.0], 0.5, 0.6, "MISSED"),
            (&[1.0, 1.1, 2.0], 0.5, 0.6, "our figures spread"),
            (&[0.002], 0.001, 0.001, "both take less than 10 ms"),
        ] {
            let line = said(ours, duckdb, polars);
            assert!(line.contains(says), "{says}: {line}");
        }
        let mut alone = Measured::new(&PART);
        alone.add("time", OURS, 1.0);
        let line = alone.figure_in_words(&FIGURE, false).unwrap_or_default();
        assert!(
            line.contains("DuckDB is not measured") && alone.is_right(),
            "{line}"
        );
    }
}
