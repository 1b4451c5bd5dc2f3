//! A reading of all metrics: families with their samples, as Prometheus reads them and as they are pushed.

use std::fmt::Write as _;

use engine::BOUNDS;

/// What a family measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FamilyKind {
    /// It only grows.
    Counter,
    Gauge,
    /// Times, seconds.
    Histogram,
}

impl FamilyKind {
    fn name(self) -> &'static str {
        match self {
            FamilyKind::Counter => "counter",
            FamilyKind::Gauge => "gauge",
            FamilyKind::Histogram => "histogram",
        }
    }
}

/// All samples of one name.
#[derive(Clone, Debug)]
pub(crate) struct Family {
    pub name: &'static str,
    pub help: &'static str,
    pub kind: FamilyKind,
    pub samples: Vec<Sample>,
}

pub(crate) type Labels = Vec<(&'static str, String)>;

#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub labels: Labels,
    pub value: SampleValue,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum SampleValue {
    Number(f64),
    Times(Times),
}

/// How many times were measured, and by [`BOUNDS`] how many took how long.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Times {
    pub count: u64,
    pub seconds: f64,
    /// The last takes what is longer than all bounds.
    pub buckets: [u64; BOUNDS.len() + 1],
}

/// A reading in the making. Families without samples are not in it.
#[derive(Debug, Default)]
pub(crate) struct Families(Vec<Family>);

impl Families {
    /// The samples that follow are of this family: a counter if its name says so.
    pub fn begin(&mut self, name: &'static str, help: &'static str) {
        let kind = match name.ends_with("_total") {
            true => FamilyKind::Counter,
            false => FamilyKind::Gauge,
        };
        self.open(name, help, kind);
    }

    /// The same, of times.
    pub fn begin_times(&mut self, name: &'static str, help: &'static str) {
        self.open(name, help, FamilyKind::Histogram);
    }

    fn open(&mut self, name: &'static str, help: &'static str, kind: FamilyKind) {
        self.0.pop_if(|last| last.samples.is_empty());
        self.0.push(Family {
            name,
            help,
            kind,
            samples: Vec::new(),
        });
    }

    pub fn put(&mut self, labels: Labels, value: f64) {
        self.add(labels, SampleValue::Number(value));
    }

    pub fn put_times(&mut self, labels: Labels, times: Times) {
        self.add(labels, SampleValue::Times(times));
    }

    fn add(&mut self, labels: Labels, value: SampleValue) {
        if let Some(family) = self.0.last_mut() {
            family.samples.push(Sample { labels, value });
        }
    }

    pub fn finish(mut self) -> Vec<Family> {
        self.0.pop_if(|last| last.samples.is_empty());
        self.0
    }
}

/// The Prometheus text format, version 0.0.4.
pub(crate) fn to_text(families: &[Family]) -> String {
    let mut text = String::new();
    for family in families {
        let Family {
            name, help, kind, ..
        } = family;
        put(
            &mut text,
            format_args!("# HELP {name} {help}\n# TYPE {name} {}\n", kind.name()),
        );
        for sample in &family.samples {
            match &sample.value {
                SampleValue::Number(value) => {
                    line(&mut text, name, &sample.labels, None, *value);
                }
                SampleValue::Times(times) => histogram(&mut text, name, &sample.labels, times),
            }
        }
    }
    text
}

fn histogram(text: &mut String, name: &str, labels: &Labels, times: &Times) {
    let mut count = 0;
    let bucket = format!("{name}_bucket");
    for (taken, bound) in times.buckets.iter().zip(BOUNDS) {
        count += taken;
        let bound = (bound as f64 / 1e9).to_string();
        line(text, &bucket, labels, Some(("le", &bound)), count as f64);
    }
    let all = times.count as f64;
    line(text, &bucket, labels, Some(("le", "+Inf")), all);
    line(text, &format!("{name}_sum"), labels, None, times.seconds);
    line(text, &format!("{name}_count"), labels, None, all);
}

fn line(text: &mut String, name: &str, labels: &Labels, last: Option<(&str, &str)>, value: f64) {
    text.push_str(name);
    let labels = labels.iter().map(|(name, value)| (*name, value.as_str()));
    for (place, (name, value)) in labels.chain(last).enumerate() {
        let mark = if place == 0 { '{' } else { ',' };
        put(text, format_args!("{mark}{name}=\"{}\"", escaped(value)));
    }
    if text.ends_with('"') {
        text.push('}');
    }
    put(text, format_args!(" {value}\n"));
}

fn put(text: &mut String, more: std::fmt::Arguments<'_>) {
    text.write_fmt(more)
        .expect("writing to a string does not fail");
}

fn escaped(label: &str) -> String {
    label
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_written_with_their_kind_and_without_empty_ones() {
        let mut families = Families::default();
        families.begin("empty_total", "Nothing.");
        families.begin("a_total", "All.");
        families.put(Vec::new(), 3.0);
        families.put(
            vec![("app", "A \"1\"\n".into()), ("stream", "S".into())],
            0.5,
        );
        families.begin_times("b_seconds", "Long.");
        let mut buckets = [0; BOUNDS.len() + 1];
        (buckets[0], buckets[BOUNDS.len()]) = (2, 1);
        let times = Times {
            count: 3,
            seconds: 4.5,
            buckets,
        };
        families.put_times(vec![("app", "A".into())], times);
        families.begin("last", "Nothing.");
        let text = to_text(&families.finish());
        assert!(
            text.starts_with(
                "# HELP a_total All.\n# TYPE a_total counter\na_total 3\n\
                 a_total{app=\"A \\\"1\\\"\\n\",stream=\"S\"} 0.5\n\
                 # HELP b_seconds Long.\n# TYPE b_seconds histogram\n\
                 b_seconds_bucket{app=\"A\",le=\"0.000001\"} 2\n"
            ),
            "{text}"
        );
        assert!(
            text.ends_with(
                "b_seconds_bucket{app=\"A\",le=\"1\"} 2\n\
                 b_seconds_bucket{app=\"A\",le=\"+Inf\"} 3\n\
                 b_seconds_sum{app=\"A\"} 4.5\nb_seconds_count{app=\"A\"} 3\n"
            ),
            "{text}"
        );
    }
}
