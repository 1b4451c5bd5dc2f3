//! Pushes metrics, logs and traces to a collector by OTLP over HTTP (`http/protobuf`).
//!
//! A thread of its own pushes every [`PUSH_EVERY`]: the metrics that `/metrics` has too, cumulative since
//! the start of the process; the lines of the log; and spans of checkpoints, reloads, on-demand queries and
//! of some of the batches of sources. Promises: nobody waits for it; what waits is bounded
//! ([`QUEUE_MAX`]), and what has no room is dropped and counted; a collector that is away is tried at
//! growing intervals and named once. Never: a span or a clock in the engine.

mod export;
mod proto;
mod queue;
mod trace;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue};
use serde_json::Value as Json;

use crate::client::Client;
use crate::error::Error;
use crate::metrics::Metrics;
use export::{Pusher, Stop};
use proto::{AnyKind, AnyValue, KeyValue, LogRecord, SpanRecord, attribute, text};
use queue::Bounded;
pub(crate) use trace::Span;
pub use trace::Tracer;
use trace::now_nanos;

/// Between two pushes.
const PUSH_EVERY: Duration = Duration::from_secs(10);

/// Log lines, and spans, that wait for a push.
const QUEUE_MAX: usize = 4096;

/// Where to push, and as whom.
#[derive(Clone, Debug)]
pub struct OtlpOptions {
    /// `http://127.0.0.1:4318`; `/v1/metrics` and so on are put behind it.
    pub endpoint: String,
    /// Of the batches of sources that are followed, from 0 to 1.
    pub sample: f64,
    /// Headers of each request: `name=value`, several between commas (`OTEL_EXPORTER_OTLP_HEADERS`).
    pub headers: String,
    /// `OTEL_SERVICE_NAME`.
    pub service: String,
    /// More attributes of the resource, written as headers are (`OTEL_RESOURCE_ATTRIBUTES`).
    pub attributes: String,
}

/// A collector, and what waits for it.
pub struct Otlp {
    client: Client,
    headers: Vec<(HeaderName, HeaderValue)>,
    resource: Vec<KeyValue>,
    logs: LogQueue,
    spans: Arc<Bounded<SpanRecord>>,
    tracer: Tracer,
}

impl std::fmt::Debug for Otlp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Otlp")
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}

/// Log lines on their way to a collector.
#[derive(Clone, Debug)]
pub struct LogQueue(Arc<Bounded<LogRecord>>);

/// A line of the log.
#[derive(Clone, Debug)]
pub struct LogLine<'a> {
    /// `ERROR`, `WARN`, `INFO`, `DEBUG` or `TRACE`.
    pub level: &'a str,
    pub message: &'a str,
    pub fields: Vec<(&'a str, &'a Json)>,
}

impl LogQueue {
    pub fn push(&self, line: LogLine<'_>) {
        let now = now_nanos();
        let severity_number = match line.level {
            "ERROR" => 17,
            "WARN" => 13,
            "INFO" => 9,
            "DEBUG" => 5,
            _ => 1,
        };
        let fields = line.fields.into_iter();
        self.0.push(LogRecord {
            time_unix_nano: now,
            observed_time_unix_nano: now,
            severity_number,
            severity_text: line.level.to_owned(),
            body: Some(AnyValue {
                value: Some(AnyKind::Text(line.message.to_owned())),
            }),
            attributes: fields.map(|(name, value)| of_json(name, value)).collect(),
        });
    }
}

fn of_json(name: &str, value: &Json) -> KeyValue {
    let value = match value {
        Json::String(text) => AnyKind::Text(text.clone()),
        Json::Bool(value) => AnyKind::Bool(*value),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => AnyKind::Int(whole),
            (None, value) => AnyKind::Double(value.unwrap_or_default()),
        },
        other => AnyKind::Text(other.to_string()),
    };
    attribute(name, value)
}

impl Otlp {
    /// Pushes nothing yet.
    ///
    /// # Errors
    /// [`Error::Usage`] if an option cannot be used.
    pub fn new(options: &OtlpOptions) -> Result<Otlp, Error> {
        let client = Client::new(&options.endpoint, None, None).map_err(|_| {
            Error::Usage(format!(
                "--otlp '{}' is not the address of a collector: write http://host:4318",
                options.endpoint
            ))
        })?;
        if !(0.0..=1.0).contains(&options.sample) {
            return Err(Error::Usage(format!(
                "--otlp-sample {} is not a share from 0 to 1",
                options.sample
            )));
        }
        let headers = pairs("OTEL_EXPORTER_OTLP_HEADERS", &options.headers)?.into_iter();
        let headers = headers.map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            let mut value = HeaderValue::from_str(&value).ok()?;
            value.set_sensitive(true);
            Some((name, value))
        });
        let headers = headers.collect::<Option<Vec<_>>>().ok_or_else(|| {
            Error::Usage("OTEL_EXPORTER_OTLP_HEADERS has a header that none can be".to_owned())
        })?;
        let spans = Arc::new(Bounded::new(QUEUE_MAX));
        Ok(Otlp {
            client,
            headers,
            resource: resource(options)?,
            logs: LogQueue(Arc::new(Bounded::new(QUEUE_MAX))),
            tracer: Tracer::new(Arc::clone(&spans), options.sample),
            spans,
        })
    }

    pub fn tracer(&self) -> Tracer {
        self.tracer.clone()
    }

    pub fn logs(&self) -> LogQueue {
        self.logs.clone()
    }

    /// Pushes from now on, until the answer is dropped.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(self, metrics: Arc<Metrics>) -> Result<Pushing, Error> {
        let stop = Arc::new(Stop::default());
        let pusher = Pusher {
            client: self.client,
            headers: self.headers,
            resource: self.resource,
            metrics,
            logs: self.logs.0,
            spans: self.spans,
            stop: Arc::clone(&stop),
        };
        let thread = std::thread::Builder::new()
            .name("otlp".to_owned())
            .spawn(move || pusher.run())
            .map_err(|cause| Error::Stopped {
                message: format!("cannot start a thread: {cause}"),
            })?;
        Ok(Pushing {
            stop,
            thread: Some(thread),
        })
    }
}

/// Ends with a last push when dropped, which takes [`export::LAST_MAX`] at most.
pub struct Pushing {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Pushing {
    fn drop(&mut self) {
        self.stop.set();
        if let Some(thread) = self.thread.take() {
            // It has nothing to lose that a join could save.
            thread.join().ok();
        }
    }
}

/// Who pushes.
fn resource(options: &OtlpOptions) -> Result<Vec<KeyValue>, Error> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    let mut attributes = vec![
        text("service.name", options.service.as_str()),
        text("service.version", env!("CARGO_PKG_VERSION")),
        text(
            "service.instance.id",
            format!("{host}-{}", std::process::id()),
        ),
        text("host.name", host),
        attribute("process.pid", AnyKind::Int(i64::from(std::process::id()))),
    ];
    for (name, value) in pairs("OTEL_RESOURCE_ATTRIBUTES", &options.attributes)? {
        attributes.retain(|known| known.key != name);
        attributes.push(text(&name, value));
    }
    Ok(attributes)
}

/// `a=b,c=d`.
fn pairs(variable: &str, written: &str) -> Result<Vec<(String, String)>, Error> {
    let parts = written.split(',').map(str::trim);
    parts
        .filter(|part| !part.is_empty())
        .map(|part| match part.split_once('=') {
            Some((name, value)) => {
                let value = connect::file_uri::percent_decoded(value.trim());
                Ok((name.trim().to_owned(), value.unwrap_or_default()))
            }
            // What stands there may be a secret: it is not said.
            None => Err(Error::Usage(format!(
                "{variable} has a part without '=': write name=value, several between commas"
            ))),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> OtlpOptions {
        OtlpOptions {
            endpoint: "http://127.0.0.1:4318".to_owned(),
            sample: 0.01,
            headers: "api-key=secret%201, x=y".to_owned(),
            service: "headwater".to_owned(),
            attributes: "deployment.environment=test,service.version=9".to_owned(),
        }
    }

    #[test]
    fn options_are_checked_and_headers_are_in_no_message() {
        let otlp = Otlp::new(&options()).expect("they are right");
        assert_eq!(otlp.headers[0].1.as_bytes(), b"secret 1");
        assert!(!format!("{otlp:?}").contains("secret"));
        let keys: Vec<&str> = otlp.resource.iter().map(|a| a.key.as_str()).collect();
        assert_eq!(
            keys.iter().filter(|key| **key == "service.version").count(),
            1
        );
        assert!(keys.contains(&"host.name") && keys.contains(&"deployment.environment"));
        let wrong = |change: fn(&mut OtlpOptions), part: &str| {
            let mut options = options();
            change(&mut options);
            let error = Otlp::new(&options).expect_err(part);
            assert_eq!(error.exit_code(), 2);
            let said = error.to_string();
            assert!(said.contains(part) && !said.contains("secret"), "{said}");
        };
        wrong(|o| o.endpoint = "ftp://x".into(), "write http://host:4318");
        wrong(|o| o.sample = 1.5, "not a share from 0 to 1");
        wrong(|o| o.headers = "secret".into(), "without '='");
        wrong(
            |o| o.headers = "a b=secret".into(),
            "a header that none can be",
        );
    }
}
