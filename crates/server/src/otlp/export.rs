//! The thread that pushes, and how readings become messages.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use engine::BOUNDS;
use hyper::header::{HeaderName, HeaderValue};
use prost::Message as _;

use super::PUSH_EVERY;
use super::proto::{
    CUMULATIVE, Gauge, Histogram, HistogramPoint, KeyValue, LogRecord, LogsRequest, Metric,
    MetricData, MetricsRequest, NumberPoint, Resource, ResourceLogs, ResourceMetrics,
    ResourceSpans, Scope, ScopeLogs, ScopeMetrics, ScopeSpans, SpanRecord, Sum, TraceRequest, text,
};
use super::queue::Bounded;
use super::trace::now_nanos;
use crate::client::Client;
use crate::families::{Family, FamilyKind, Labels, Sample, SampleValue, Times};
use crate::metrics::Metrics;
use crate::process;

/// Time for one request.
const REQUEST_MAX: Duration = Duration::from_secs(5);

/// Time for each of the last requests, when the server stops.
pub(super) const LAST_MAX: Duration = Duration::from_secs(1);

/// Longest pause while the collector is away.
const PAUSE_MAX: Duration = Duration::from_secs(300);

/// Tells the thread to end.
#[derive(Default)]
pub(super) struct Stop {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    pub fn set(&self) {
        *self.is_set.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits until it is set, at most so long; is it?
    fn wait(&self, at_most: Duration) -> bool {
        let is_set = self.is_set.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .changed
            .wait_timeout_while(is_set, at_most, |is_set| !*is_set);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

pub(super) struct Pusher {
    pub client: Client,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub resource: Vec<KeyValue>,
    pub metrics: Arc<Metrics>,
    pub logs: Arc<Bounded<LogRecord>>,
    pub spans: Arc<Bounded<SpanRecord>>,
    pub stop: Arc<Stop>,
}

/// Why a push did not work.
enum Failure {
    /// It may work later.
    Away(String),
    /// The collector does not want it.
    Refused(String),
}

impl Pusher {
    pub fn run(self) {
        let (mut pause, mut is_away, mut is_refused) = (PUSH_EVERY, false, false);
        let mut is_dropping = false;
        loop {
            let is_last = self.stop.wait(pause);
            match self.push_all(if is_last { LAST_MAX } else { REQUEST_MAX }) {
                Ok(()) => {
                    if std::mem::take(&mut is_away) {
                        tracing::info!("OTLP collector is connected again");
                    }
                    (pause, is_dropping) = (PUSH_EVERY, false);
                }
                Err(Failure::Refused(cause)) => {
                    if !std::mem::replace(&mut is_refused, true) {
                        tracing::warn!(
                            cause,
                            "OTLP collector refuses what is pushed; it is dropped, and so is what follows it \
                             as long as it is refused"
                        );
                    }
                }
                Err(Failure::Away(cause)) => {
                    pause = (pause * 2).min(PAUSE_MAX);
                    if !std::mem::replace(&mut is_away, true) {
                        tracing::warn!(
                            cause,
                            again_in_seconds = pause.as_secs(),
                            "cannot reach OTLP collector; it is tried again at growing intervals, everything \
                             else goes on"
                        );
                    }
                }
            }
            let dropped = self.logs.take_dropped() + self.spans.take_dropped();
            if dropped > 0 && !std::mem::replace(&mut is_dropping, true) {
                tracing::warn!(
                    dropped,
                    "dropping log lines and spans for the OTLP collector: more come than it takes"
                );
            }
            if is_last {
                return;
            }
        }
    }

    fn push_all(&self, at_most: Duration) -> Result<(), Failure> {
        let metrics = metrics_request(&self.resource, self.metrics.read(), now_nanos());
        self.push("/v1/metrics", metrics.encode_to_vec(), at_most)?;
        self.push_queue(&self.logs, "/v1/logs", at_most, |records| {
            logs_request(&self.resource, records).encode_to_vec()
        })?;
        self.push_queue(&self.spans, "/v1/traces", at_most, |spans| {
            trace_request(&self.resource, spans).encode_to_vec()
        })
    }

    /// What waits; it waits again if the collector is away.
    fn push_queue<T: Clone>(
        &self,
        queue: &Bounded<T>,
        path: &str,
        at_most: Duration,
        encode: impl FnOnce(Vec<T>) -> Vec<u8>,
    ) -> Result<(), Failure> {
        let waiting = queue.take();
        if waiting.is_empty() {
            return Ok(());
        }
        let pushed = self.push(path, encode(waiting.clone()), at_most);
        if let Err(Failure::Away(_)) = pushed {
            queue.put_back(waiting);
        }
        pushed
    }

    fn push(&self, path: &str, body: Vec<u8>, at_most: Duration) -> Result<(), Failure> {
        const KIND: &str = "application/x-protobuf";
        let status = self
            .client
            .push(path, KIND, &self.headers, body, at_most)
            .map_err(|error| Failure::Away(error.to_string()))?;
        match status {
            200..300 => Ok(()),
            429 | 502..=504 => Err(Failure::Away(format!("{path} is answered with {status}"))),
            _ => Err(Failure::Refused(format!(
                "{path} is answered with {status}"
            ))),
        }
    }
}

fn scope() -> Option<Scope> {
    Some(Scope {
        name: "headwater".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

fn resource(attributes: &[KeyValue]) -> Option<Resource> {
    Some(Resource {
        attributes: attributes.to_vec(),
    })
}

fn logs_request(attributes: &[KeyValue], log_records: Vec<LogRecord>) -> LogsRequest {
    LogsRequest {
        resource_logs: vec![ResourceLogs {
            resource: resource(attributes),
            scope_logs: vec![ScopeLogs {
                scope: scope(),
                log_records,
            }],
        }],
    }
}

fn trace_request(attributes: &[KeyValue], spans: Vec<SpanRecord>) -> TraceRequest {
    TraceRequest {
        resource_spans: vec![ResourceSpans {
            resource: resource(attributes),
            scope_spans: vec![ScopeSpans {
                scope: scope(),
                spans,
            }],
        }],
    }
}

fn metrics_request(attributes: &[KeyValue], families: Vec<Family>, now: u64) -> MetricsRequest {
    let start = (process::start_seconds() * 1e9) as u64;
    let metrics = families
        .into_iter()
        .map(|family| metric(family, start, now));
    MetricsRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: resource(attributes),
            scope_metrics: vec![ScopeMetrics {
                scope: scope(),
                metrics: metrics.collect(),
            }],
        }],
    }
}

fn metric(family: Family, start: u64, now: u64) -> Metric {
    let samples = family.samples.into_iter();
    let data = match family.kind {
        FamilyKind::Histogram => MetricData::Histogram(Histogram {
            data_points: samples.filter_map(|s| histogram(s, start, now)).collect(),
            aggregation_temporality: CUMULATIVE,
        }),
        FamilyKind::Counter => MetricData::Sum(Sum {
            data_points: samples.filter_map(|s| number(s, start, now)).collect(),
            aggregation_temporality: CUMULATIVE,
            is_monotonic: true,
        }),
        FamilyKind::Gauge => MetricData::Gauge(Gauge {
            data_points: samples.filter_map(|s| number(s, 0, now)).collect(),
        }),
    };
    let bare = family.name.trim_end_matches("_total");
    let unit = match bare {
        name if name.ends_with("_seconds") => "s",
        name if name.ends_with("_bytes") => "By",
        _ => "1",
    };
    Metric {
        name: family.name.to_owned(),
        description: family.help.to_owned(),
        unit: unit.to_owned(),
        data: Some(data),
    }
}

fn labels(labels: Labels) -> Vec<KeyValue> {
    let labels = labels.into_iter();
    labels.map(|(name, value)| text(name, value)).collect()
}

/// What is not known is not sent.
fn number(sample: Sample, start: u64, now: u64) -> Option<NumberPoint> {
    let SampleValue::Number(value) = sample.value else {
        return None;
    };
    (!value.is_nan()).then(|| NumberPoint {
        start_time_unix_nano: start,
        time_unix_nano: now,
        as_double: Some(value),
        attributes: labels(sample.labels),
    })
}

fn histogram(sample: Sample, start: u64, now: u64) -> Option<HistogramPoint> {
    let SampleValue::Times(Times {
        count,
        seconds,
        buckets,
    }) = sample.value
    else {
        return None;
    };
    Some(HistogramPoint {
        start_time_unix_nano: start,
        time_unix_nano: now,
        count,
        sum: Some(seconds),
        bucket_counts: buckets.to_vec(),
        explicit_bounds: BOUNDS.iter().map(|&nanos| nanos as f64 / 1e9).collect(),
        attributes: labels(sample.labels),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::Families;

    #[test]
    fn families_become_sums_gauges_and_histograms() {
        let mut page = Families::default();
        page.begin("a_bytes_total", "A.");
        page.put(vec![("app", "Shop".into())], 3.0);
        page.begin("b_ratio", "B.");
        page.put(Labels::new(), f64::NAN);
        page.put(Labels::new(), 0.0);
        page.begin_times("c_seconds", "C.");
        let mut buckets = [0; BOUNDS.len() + 1];
        buckets[2] = 4;
        let times = Times {
            count: 4,
            seconds: 0.5,
            buckets,
        };
        page.put_times(Labels::new(), times);
        let request = metrics_request(&[text("service.name", "x")], page.finish(), 7);
        let bytes = request.encode_to_vec();
        let again = MetricsRequest::decode(bytes.as_slice()).expect("it is what was written");
        assert_eq!(again, request);
        let metrics = &again.resource_metrics[0].scope_metrics[0].metrics;
        let units: Vec<(&str, &str)> = metrics
            .iter()
            .map(|m| (m.name.as_str(), m.unit.as_str()))
            .collect();
        assert_eq!(
            units,
            [
                ("a_bytes_total", "By"),
                ("b_ratio", "1"),
                ("c_seconds", "s")
            ]
        );
        let Some(MetricData::Sum(sum)) = &metrics[0].data else {
            panic!("a sum");
        };
        assert!(sum.is_monotonic && sum.data_points[0].start_time_unix_nano > 0);
        let Some(MetricData::Gauge(gauge)) = &metrics[1].data else {
            panic!("a gauge");
        };
        let values: Vec<Option<f64>> = gauge.data_points.iter().map(|p| p.as_double).collect();
        assert_eq!(values, [Some(0.0)]);
        let Some(MetricData::Histogram(histogram)) = &metrics[2].data else {
            panic!("a histogram");
        };
        let point = &histogram.data_points[0];
        assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
        assert_eq!((point.count, point.bucket_counts[2]), (4, 4));
    }
}
