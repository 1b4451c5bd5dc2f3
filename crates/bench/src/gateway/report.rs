//! What the cases have shown, for people and as JSON.

use serde_json::{Value as Json, json};

use super::case::{Against, Bar, Case};
use super::peer::Peer;

/// One figure of a run.
#[derive(Clone, Copy)]
pub(super) struct Figure {
    pub name: &'static str,
    pub value: f64,
    pub digits: usize,
}

pub(super) fn in_words(figures: &[Figure]) -> String {
    let words = figures.iter().map(|figure| {
        let Figure {
            name,
            value,
            digits,
        } = figure;
        format!("{name} {value:.digits$}")
    });
    words.collect::<Vec<_>>().join("; ")
}

/// A case with the runs of each server.
pub(super) struct Measured {
    case: &'static Case,
    runs: Vec<(Peer, Vec<Vec<Figure>>)>,
    lacking: Vec<(Peer, String)>,
}

impl Measured {
    pub fn new(case: &'static Case) -> Measured {
        Measured {
            case,
            runs: Vec::new(),
            lacking: Vec::new(),
        }
    }

    pub fn lacks(&mut self, peer: Peer, why: &str) {
        self.lacking.push((peer, why.to_owned()));
    }

    pub fn add(&mut self, peer: Peer, figures: Vec<Figure>) {
        match self.runs.iter_mut().find(|(of, _)| *of == peer) {
            Some((_, runs)) => runs.push(figures),
            None => self.runs.push((peer, vec![figures])),
        }
    }

    fn runs(&self, peer: Peer) -> &[Vec<Figure>] {
        let found = self.runs.iter().find(|(of, _)| *of == peer);
        found.map_or(&[], |(_, runs)| runs)
    }

    /// Least, middle and greatest of a figure.
    fn spread(&self, peer: Peer, name: &str) -> Option<[f64; 3]> {
        let all = self.runs(peer).iter().flatten();
        let mut all: Vec<f64> = all.filter(|f| f.name == name).map(|f| f.value).collect();
        all.sort_by(f64::total_cmp);
        Some([*all.first()?, all[all.len() / 2], *all.last()?])
    }

    /// Our middle figure as it is compared: as it is, or over that of a peer.
    fn compared(&self, bar: &Bar) -> Option<f64> {
        let [_, ours, _] = self.spread(Peer::Headwater, bar.figure)?;
        match bar.against {
            Against::Itself => Some(ours),
            Against::Peer(peer) => Some(ours / self.spread(peer, bar.figure)?[1]),
        }
    }

    fn is_right(&self) -> bool {
        let bars = self.case.bars.iter();
        bars.filter_map(|bar| Some(bar.is_kept(self.compared(bar)?, bar.must)))
            .all(|kept| kept)
    }

    fn bar_in_words(&self, bar: &Bar) -> Option<String> {
        let value = self.compared(bar)?;
        let kept = [
            ("moonshot", bar.moonshot),
            ("target", bar.target),
            ("must", Some(bar.must)),
        ];
        let kept = kept
            .into_iter()
            .find(|(_, limit)| limit.is_some_and(|limit| bar.is_kept(value, limit)));
        let of = match bar.against {
            Against::Itself => String::new(),
            Against::Peer(peer) => format!(" times that of {}", peer.name()),
        };
        let sign = if bar.is_floor { "at least" } else { "at most" };
        let limits = [
            ("must", Some(bar.must)),
            ("target", bar.target),
            ("moonshot", bar.moonshot),
        ];
        let limits = limits
            .into_iter()
            .filter_map(|(name, limit)| Some(format!("{name} {}", limit?)));
        Some(format!(
            "  {}: {value:.2}{of}, {sign} {} is wanted: {}\n",
            bar.figure,
            limits.collect::<Vec<_>>().join(", "),
            kept.map_or_else(|| "MISSED".to_owned(), |(name, _)| format!("{name} kept")),
        ))
    }

    fn in_words(&self, is_quick: bool) -> String {
        let mut out = format!("\n{}: {}\n", self.case.name, self.case.about);
        let names = self.runs(Peer::Headwater).first().into_iter().flatten();
        out += &format!("{:<34}", "min / median / max");
        for (peer, _) in &self.runs {
            out += &format!("{:>26}", peer.name());
        }
        out.push('\n');
        for Figure { name, digits, .. } in names {
            out += &format!("  {name:<32}");
            for (peer, _) in &self.runs {
                let text = self.spread(*peer, name).map_or_else(String::new, |spread| {
                    spread.map(|value| format!("{value:.digits$}")).join(" / ")
                });
                out += &format!("{text:>26}");
            }
            out.push('\n');
        }
        for bar in self.case.bars.iter().filter(|_| !is_quick) {
            out += &self.bar_in_words(bar).unwrap_or_default();
        }
        for (peer, why) in &self.lacking {
            out += &format!("  {} is not measured: {why}\n", peer.name());
        }
        out
    }

    fn to_json(&self) -> Json {
        let runs = self.runs.iter().map(|(peer, runs)| {
            let runs = runs.iter().map(|figures| {
                let figures = figures.iter().map(|f| (f.name.to_owned(), json!(f.value)));
                Json::Object(figures.collect())
            });
            json!({ "server": peer.name(), "runs": runs.collect::<Vec<_>>() })
        });
        let bars = self.case.bars.iter().map(|bar| {
            let value = self.compared(bar);
            json!({
                "figure": bar.figure,
                "against": match bar.against {
                    Against::Itself => None,
                    Against::Peer(peer) => Some(peer.name()),
                },
                "value": value,
                "must": bar.must,
                "target": bar.target,
                "moonshot": bar.moonshot,
                "is_kept": value.map(|value| bar.is_kept(value, bar.must)),
            })
        });
        json!({
            "case": self.case.name,
            "about": self.case.about,
            "servers": runs.collect::<Vec<_>>(),
            "bars": bars.collect::<Vec<_>>(),
            "missing": self.lacking.iter().map(|(peer, why)| json!({ "server": peer.name(), "why": why })).collect::<Vec<_>>(),
        })
    }
}

pub struct GatewayReport {
    machine: Json,
    is_quick: bool,
    cases: Vec<Measured>,
}

impl GatewayReport {
    pub(super) fn new(machine: Json, is_quick: bool) -> GatewayReport {
        GatewayReport {
            machine,
            is_quick,
            cases: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, measured: Measured) {
        self.cases.push(measured);
    }

    /// Every must is kept that could be compared; a quick run has no figures to judge.
    pub fn is_right(&self) -> bool {
        self.is_quick || self.cases.iter().all(Measured::is_right)
    }

    pub fn to_json(&self, commit: &str) -> Json {
        json!({
            "version": 1,
            "scenario": "gateway",
            "commit": commit,
            "machine": self.machine,
            "is_quick": self.is_quick,
            "is_right": self.is_right(),
            "cases": self.cases.iter().map(Measured::to_json).collect::<Vec<_>>(),
        })
    }

    pub fn in_words(&self, commit: &str) -> String {
        let machine = |key: &str| self.machine[key].to_string().replace('"', "");
        let mut out = format!(
            "gateway at {commit}; {}, {} cores, {}, kernel {}, load {} before\n",
            machine("cpu"),
            machine("cores"),
            machine("memory"),
            machine("kernel"),
            machine("load_before"),
        );
        if self.is_quick {
            out += "a quick run: it shows that all of it works, and nothing of its speed\n";
        }
        for case in &self.cases {
            out += &case.in_words(self.is_quick);
        }
        out
    }
}
