//! Metrics as the Java client of Prometheus keeps and writes them (text format 0.0.4).

mod quantiles;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use quantiles::Windows;

/// Upper bounds of a histogram where none are given (`Histogram.Builder` of the Java client).
const BUCKETS: [f64; 14] = [
    0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
];

/// Combinations of labels of one metric; what comes beyond is refused, so that an event that carries
/// something else each time does not fill the memory.
const CHILDREN_MAX: usize = 100_000;

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Kind {
    Counter,
    Gauge,
    /// Upper bounds, growing, without infinity.
    Histogram(Vec<f64>),
    /// Quantiles, and how far from them an answer may be.
    Summary(Vec<f64>, f64),
}

impl Kind {
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
            Kind::Summary(..) => "summary",
        }
    }

    /// A histogram with these bounds, or with those of the Java client.
    pub fn histogram(mut bounds: Vec<f64>) -> Kind {
        bounds.retain(|bound| *bound != f64::INFINITY);
        if bounds.is_empty() {
            bounds.extend(BUCKETS);
        }
        Kind::Histogram(bounds)
    }
}

/// What a metric is; two of one name must agree in it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Shape {
    pub name: String,
    pub help: String,
    pub kind: Kind,
    pub labels: Vec<String>,
}

pub(super) struct Metric {
    pub shape: Shape,
    children: Mutex<Children>,
}

/// By the values of the labels, in the order in which they came.
#[derive(Default)]
struct Children {
    places: HashMap<Box<[String]>, usize>,
    list: Vec<(Box<[String]>, Child)>,
}

enum Child {
    Number(f64),
    Histogram {
        counts: Vec<u64>,
        sum: f64,
    },
    Summary {
        count: u64,
        sum: f64,
        windows: Windows,
    },
}

/// The metrics of one place where they are scraped, or that they are pushed to.
#[derive(Default)]
pub(super) struct Registry {
    metrics: Mutex<Vec<Arc<Metric>>>,
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Metric>>> {
        self.metrics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The metric of that shape; `None` where there is one of that name and another shape.
    pub fn metric(&self, shape: Shape) -> Option<Arc<Metric>> {
        let mut metrics = self.lock();
        if let Some(found) = metrics.iter().find(|m| m.shape.name == shape.name) {
            return (found.shape == shape).then(|| Arc::clone(found));
        }
        let metric = Arc::new(Metric {
            shape,
            children: Mutex::default(),
        });
        metrics.push(Arc::clone(&metric));
        Some(metric)
    }

    /// All metrics, or those of these names, as they are scraped.
    pub fn write(&self, names: &[String]) -> String {
        let metrics: Vec<Arc<Metric>> = self.lock().clone();
        let mut out = String::new();
        for metric in metrics {
            if names.is_empty() || names.contains(&metric.shape.name) {
                metric.write(&mut out);
            }
        }
        out
    }
}

impl Metric {
    fn lock(&self) -> MutexGuard<'_, Children> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a value: counters and gauges grow by it, the others observe it.
    pub fn add(&self, labels: Box<[String]>, value: f64) -> Result<(), String> {
        if self.shape.kind == Kind::Counter && (value < 0.0 || value.is_nan()) {
            return Err(format!("the value is {value}: a counter only grows"));
        }
        let mut children = self.lock();
        let place = match children.places.get(&labels) {
            Some(place) => *place,
            None if children.list.len() == CHILDREN_MAX => {
                return Err(format!(
                    "the metric has {CHILDREN_MAX} combinations of labels: use labels of fewer values"
                ));
            }
            None => {
                let place = children.list.len();
                children.places.insert(labels.clone(), place);
                children.list.push((labels, self.new_child()));
                place
            }
        };
        match (&mut children.list[place].1, &self.shape.kind) {
            (Child::Number(number), _) => *number += value,
            (Child::Histogram { counts, sum }, Kind::Histogram(bounds)) => {
                let at = bounds.iter().position(|bound| value <= *bound);
                counts[at.unwrap_or(bounds.len())] += 1;
                *sum += value;
            }
            (
                Child::Summary {
                    count,
                    sum,
                    windows,
                },
                Kind::Summary(quantiles, error),
            ) => {
                *count += 1;
                *sum += value;
                if !quantiles.is_empty() {
                    windows.add(value, quantiles, *error, Instant::now());
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn new_child(&self) -> Child {
        match &self.shape.kind {
            Kind::Counter | Kind::Gauge => Child::Number(0.0),
            Kind::Histogram(bounds) => Child::Histogram {
                counts: vec![0; bounds.len() + 1],
                sum: 0.0,
            },
            Kind::Summary(..) => Child::Summary {
                count: 0,
                sum: 0.0,
                windows: Windows::new(Instant::now()),
            },
        }
    }

    fn write(&self, out: &mut String) {
        let Shape {
            name, help, kind, ..
        } = &self.shape;
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        // Writing to a string cannot fail.
        writeln!(out, "# HELP {name} {help}\n# TYPE {name} {}", kind.name()).ok();
        let mut children = self.lock();
        for (labels, child) in &mut children.list {
            let mut sample = |suffix: &str, more: Option<(&str, f64)>, value: f64| {
                self.sample(out, suffix, labels, more, value);
            };
            match (child, kind) {
                (Child::Histogram { counts, sum }, Kind::Histogram(bounds)) => {
                    let mut total = 0;
                    let bounds = bounds.iter().copied().chain([f64::INFINITY]);
                    for (bound, count) in bounds.zip(counts.iter()) {
                        total += count;
                        sample("_bucket", Some(("le", bound)), total as f64);
                    }
                    sample("_count", None, total as f64);
                    sample("_sum", None, *sum);
                }
                (
                    Child::Summary {
                        count,
                        sum,
                        windows,
                    },
                    Kind::Summary(quantiles, error),
                ) => {
                    for quantile in quantiles {
                        let value = windows.get(*quantile, quantiles, *error, Instant::now());
                        sample("", Some(("quantile", *quantile)), value);
                    }
                    sample("_count", None, *count as f64);
                    sample("_sum", None, *sum);
                }
                (Child::Number(number), _) => sample("", None, *number),
                _ => {}
            }
        }
    }

    fn sample(
        &self,
        out: &mut String,
        suffix: &str,
        labels: &[String],
        more: Option<(&str, f64)>,
        value: f64,
    ) {
        out.push_str(&self.shape.name);
        out.push_str(suffix);
        let mut separator = '{';
        for (name, value) in self.shape.labels.iter().zip(labels) {
            out.push(separator);
            separator = ',';
            out.push_str(name);
            out.push_str("=\"");
            for c in value.chars() {
                match c {
                    '\\' => out.push_str("\\\\"),
                    '"' => out.push_str("\\\""),
                    '\n' => out.push_str("\\n"),
                    c => out.push(c),
                }
            }
            out.push('"');
        }
        if let Some((name, value)) = more {
            out.push(separator);
            separator = ',';
            out.push_str(name);
            out.push_str("=\"");
            write_number(out, value);
            out.push('"');
        }
        if separator == ',' {
            out.push('}');
        }
        out.push(' ');
        write_number(out, value);
        out.push('\n');
    }
}

/// `Collector.doubleToGoString`.
fn write_number(out: &mut String, value: f64) {
    match value {
        f64::INFINITY => out.push_str("+Inf"),
        f64::NEG_INFINITY => out.push_str("-Inf"),
        value => event::text::write_double(out, value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(kind: Kind) -> Shape {
        Shape {
            name: "m".into(),
            help: "a \\ and\nb".into(),
            kind,
            labels: vec!["l".into()],
        }
    }

    fn check(kind: Kind, values: &[(&str, f64)], expect: &str) {
        let registry = Registry::default();
        let name = kind.name();
        let metric = registry.metric(shape(kind)).expect("the first of its name");
        for (label, value) in values {
            let labels = Box::from([(*label).to_owned()]);
            metric.add(labels, *value).expect("it can be counted");
        }
        let head = format!("# HELP m a \\\\ and\\nb\n# TYPE m {name}\n");
        assert_eq!(registry.write(&[]), format!("{head}{expect}"));
    }

    #[test]
    fn metrics_are_written_as_the_java_client_does() {
        check(
            Kind::Counter,
            &[("a", 1.0), ("b\"\\\n", 2.0), ("a", 0.5)],
            "m{l=\"a\"} 1.5\nm{l=\"b\\\"\\\\\\n\"} 2.0\n",
        );
        check(
            Kind::Gauge,
            &[("a", 1e7), ("a", -2.0)],
            "m{l=\"a\"} 9999998.0\n",
        );
        check(
            Kind::histogram(vec![1.0, 5.0, f64::INFINITY]),
            &[("a", 1.0), ("a", 3.0), ("a", 100.0)],
            "m_bucket{l=\"a\",le=\"1.0\"} 1.0\nm_bucket{l=\"a\",le=\"5.0\"} 2.0\n\
             m_bucket{l=\"a\",le=\"+Inf\"} 3.0\nm_count{l=\"a\"} 3.0\nm_sum{l=\"a\"} 104.0\n",
        );
        check(
            Kind::Summary(Vec::new(), 0.001),
            &[("a", 1.0), ("a", 3.0)],
            "m_count{l=\"a\"} 2.0\nm_sum{l=\"a\"} 4.0\n",
        );
        check(
            Kind::Summary(vec![0.5], 0.001),
            &[("a", 1.0), ("a", 3.0), ("a", 2.0)],
            "m{l=\"a\",quantile=\"0.5\"} 2.0\nm_count{l=\"a\"} 3.0\nm_sum{l=\"a\"} 6.0\n",
        );
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let registry = Registry::default();
        let metric = registry.metric(shape(Kind::Counter)).expect("the first");
        let labels = || Box::from(["a".to_owned()]);
        assert!(metric.add(labels(), -1.0).is_err());
        assert!(metric.add(labels(), f64::NAN).is_err());
        assert!(registry.metric(shape(Kind::Gauge)).is_none());
        let again = registry.metric(shape(Kind::Counter)).expect("the same");
        assert!(Arc::ptr_eq(&metric, &again));
        assert_eq!(registry.write(&["other".into()]), "");
        metric
            .add(labels(), f64::INFINITY)
            .expect("it can be counted");
        assert!(registry.write(&["m".into()]).ends_with("m{l=\"a\"} +Inf\n"));
    }
}
