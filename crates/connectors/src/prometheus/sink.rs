//! The `prometheus` sink: one attribute is the value of a metric, the others are its labels.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use event::{Type, Value};
use hyper::Method;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};

use super::metric::{Kind, Metric, Shape};
use super::server::Places;
use super::server::{CONTENT, Place};
use connect::answer::{self, AnswerClass, AnswerCounts};
use connect::component::{Payload, Sink, SinkSetup};
use connect::error::Error;
use connect::message::Message;
use connect::net::http_client::Fetch;
use connect::net::{ClientTls, ClientTrust, Network};
use connect::option::{Settings, list};
use connect::url::{Url, encode};

/// How long a push may take.
const PUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Least time between two pushes, but for the last.
const PUSH_PAUSE: Duration = Duration::from_millis(100);

/// The longest word of a push gateway about what it does not like.
const ANSWER_BYTES_MAX: usize = 64 << 10;

pub(super) struct PrometheusSink {
    name: String,
    network: Arc<Network>,
    place: Arc<Place>,
    metric: Arc<Metric>,
    /// The attribute that holds the value.
    value: String,
    way: Way,
}

enum Way {
    /// Waits to be scraped.
    Server {
        host: String,
        port: u16,
        is_open: bool,
    },
    Gateway(Gateway),
}

struct Gateway {
    fetch: Arc<Fetch>,
    url: Url,
    method: Method,
    /// Something was counted since the last push.
    is_due: bool,
    pushed: Option<Instant>,
    /// Why the last push failed.
    lost: Option<String>,
    answers: Arc<AnswerCounts>,
}

impl PrometheusSink {
    pub fn new(setup: &SinkSetup<'_>) -> Result<PrometheusSink, Error> {
        let settings = Settings::of_sink(setup.transport, crate::prometheus::CONNECTORS);
        let refused = |message: String| settings.refused(message);
        if !setup.transport.map.payload.is_empty() {
            return Err(refused(
                "the mapper has a @payload: the metric takes the attributes as they are".into(),
            ));
        }
        let deployed = |key: &str| setup.environment.setting("sink", "prometheus", key);
        let of = |name: &str, key: &str| {
            let found = settings.text(name).or_else(|| deployed(key));
            let found = found.unwrap_or_else(|| settings.default(name));
            found.trim().to_owned()
        };
        let shape = shape(setup, settings)?;
        let network = setup.environment.network();
        let mode = of("publish.mode", "publishMode");
        let is_server = match mode.to_ascii_lowercase().as_str() {
            "server" => true,
            "pushgateway" => false,
            _ => {
                return Err(refused(format!(
                    "option 'publish.mode' is '{mode}': write server or pushgateway"
                )));
            }
        };
        let (option, key) = match is_server {
            true => ("server.url", "serverURL"),
            false => ("push.url", "pushURL"),
        };
        let text = of(option, key);
        let mut url = Url::parse(&text).ok_or_else(|| {
            refused(format!(
                "option '{option}' is '{text}': write http://host:port"
            ))
        })?;
        let way = if is_server {
            if url.is_tls {
                return Err(refused(
                    "option 'server.url' is https: metrics are served without TLS, on loopback or \
                     behind a proxy"
                        .into(),
                ));
            }
            Way::Server {
                host: url.host.clone(),
                port: url.port,
                is_open: false,
            }
        } else {
            let operation = settings.text_or_default("push.operation").trim();
            let method = match operation.to_ascii_lowercase().as_str() {
                "push" => Method::PUT,
                "pushadd" => Method::POST,
                _ => {
                    return Err(refused(format!(
                        "option 'push.operation' is '{operation}': write push or pushadd"
                    )));
                }
            };
            let group = of("grouping.key", "groupingKey");
            let group = list(&group).map_err(|entry| {
                refused(format!(
                    "option 'grouping.key' has the entry '{entry}': write 'name:value','name:value'"
                ))
            })?;
            let path = url.path.trim_end_matches('/').to_owned();
            url.path = group_path(&path, &of("job", "jobName"), &group);
            let tls = match url.is_tls {
                false => None,
                true => {
                    let trust = ClientTrust {
                        store: ClientTrust::deployed(setup.environment, "sink", "prometheus"),
                        ..ClientTrust::default()
                    };
                    Some(ClientTls::trusting(settings, "TLS", trust)?)
                }
            };
            Way::Gateway(Gateway {
                fetch: Arc::new(Fetch::new(tls, PUSH_TIMEOUT, ANSWER_BYTES_MAX)),
                url: url.clone(),
                method,
                is_due: true,
                pushed: None,
                lost: None,
                answers: Arc::clone(setup.answers),
            })
        };
        let group = if is_server { "" } else { url.path.as_str() };
        let place = setup
            .environment
            .shared
            .get::<Places>()
            .find(&format!("{}{group}", url.authority()));
        let name = format!("'{}://{}'", url.scheme(), url.authority());
        let value = settings.text_or_default("value.attribute").trim();
        let metric = place.registry.metric(shape);
        Ok(PrometheusSink {
            metric: metric.ok_or_else(|| {
                refused(
                    "another sink has a metric of that name with another type, help, labels or \
                     bounds: give it another 'metric.name'"
                        .into(),
                )
            })?,
            name,
            network,
            place,
            value: value.to_owned(),
            way,
        })
    }

    fn failed(&self, cause: impl Into<connect::error::Cause>) -> Error {
        Error::failed(format!("counting for {}", self.name), cause)
    }

    /// What a message counts: the values of the labels, and the value.
    fn read(&self, entries: &[(Value, Value)]) -> Result<(Box<[String]>, f64), String> {
        let find = |name: &str| {
            let is_it = |key: &Value| matches!(key, Value::Str(key) if &**key == name);
            let found = entries.iter().find(|(key, _)| is_it(key));
            match found {
                None | Some((_, Value::Null)) => Err(format!("attribute '{name}' has no value")),
                Some((_, value)) => {
                    let mut text = String::new();
                    event::text::write_value(&mut text, value);
                    Ok(text)
                }
            }
        };
        let text = find(&self.value)?;
        // By its text, so that the float 0.1 counts as 0.1.
        let value = text
            .parse()
            .map_err(|_| format!("the value '{text}' is not a number"))?;
        let labels = self.metric.shape.labels.iter().map(|label| find(label));
        Ok((labels.collect::<Result<_, _>>()?, value))
    }

    fn push(&mut self) -> Result<(), Error> {
        let Way::Gateway(gateway) = &mut self.way else {
            return Ok(());
        };
        let unavailable = |cause: String| Error::unavailable(self.name.clone(), cause);
        let workers = self.network.workers();
        let workers = workers.map_err(|e| unavailable(e.to_string()))?;
        let body = Bytes::from(self.place.registry.write(&[]));
        let (fetch, url) = (Arc::clone(&gateway.fetch), gateway.url.clone());
        let method = gateway.method.clone();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(CONTENT));
        let asked = workers.wait_for(async move { fetch.ask(&method, &url, &headers, body).await });
        gateway.pushed = Some(Instant::now());
        let cause = match asked.and_then(|asked| asked) {
            Ok((status, answer)) => {
                let class = AnswerClass::of_status(status.as_u16());
                gateway.answers.add(class, 1);
                let cause = format!("it answered {status}{}", answer::shown(&answer));
                match class {
                    AnswerClass::Retry => cause,
                    // Sending it again is in vain; what is counted next goes with all before it.
                    AnswerClass::Accepted | AnswerClass::Refused => {
                        gateway.is_due = false;
                        gateway.lost = None;
                        return match class {
                            AnswerClass::Accepted => Ok(()),
                            _ => Err(self.failed(cause)),
                        };
                    }
                }
            }
            Err(error) => error.to_string(),
        };
        gateway.lost = Some(cause.clone());
        Err(unavailable(cause))
    }
}

/// `/metrics/job/JOB` and the labels of the group; a value that a path cannot hold goes as base64.
fn group_path(path: &str, job: &str, group: &[(String, String)]) -> String {
    let mut path = format!("{path}/metrics");
    let job = ("job".to_owned(), job.to_owned());
    for (name, value) in std::iter::once(&job).chain(group) {
        path.push('/');
        encode(&mut path, name);
        if value.is_empty() {
            path.push_str("@base64/=");
        } else if value.contains(['/', ' ']) {
            path.push_str("@base64/");
            path.push_str(&URL_SAFE_NO_PAD.encode(value));
        } else {
            path.push('/');
            encode(&mut path, value);
        }
    }
    path
}

fn shape(setup: &SinkSetup<'_>, settings: Settings<'_>) -> Result<Shape, Error> {
    let refused = |message: String| settings.refused(message);
    let numbers = |option: &str| {
        let text = settings.text(option).unwrap_or_default();
        let parts = text.split(',').map(str::trim).filter(|t| !t.is_empty());
        let numbers: Result<Vec<f64>, _> = parts.map(str::parse).collect();
        numbers.map_err(|_| refused(format!("option '{option}' is '{text}': write 1,5,10")))
    };
    let (buckets, quantiles) = (numbers("buckets")?, numbers("quantiles")?);
    let kind = settings.text_or_default("metric.type").trim();
    let kind = kind.to_ascii_lowercase();
    for (option, given, owner) in [
        ("buckets", !buckets.is_empty(), "histogram"),
        ("quantiles", !quantiles.is_empty(), "summary"),
    ] {
        if given && kind != owner {
            return Err(refused(format!(
                "option '{option}' is for metric.type='{owner}' alone"
            )));
        }
    }
    if !buckets.is_sorted_by(|a, b| a < b) {
        return Err(refused(
            "option 'buckets' does not grow from bound to bound".into(),
        ));
    }
    if let Some(quantile) = quantiles.iter().find(|q| !(0.0..=1.0).contains(*q)) {
        return Err(refused(format!(
            "option 'quantiles' has {quantile}: write numbers from 0 to 1"
        )));
    }
    let error: f64 = settings.number("quantile.error")?;
    let kind = match kind.as_str() {
        "counter" => Kind::Counter,
        "gauge" => Kind::Gauge,
        "histogram" => Kind::histogram(buckets),
        "summary" => Kind::Summary(quantiles, error),
        other => {
            return Err(refused(format!(
                "option 'metric.type' is '{other}': write counter, gauge, histogram or summary"
            )));
        }
    };
    let schema = setup.schema;
    let name = settings.text("metric.name").unwrap_or(&schema.name).trim();
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_' || c == ':';
    let is_good =
        name.starts_with(is_start) && name.chars().all(|c| is_start(c) || c.is_ascii_digit());
    if !is_good {
        return Err(refused(format!(
            "metric name '{name}' has other characters than letters, digits, '_' and ':', or begins \
             with a digit: set 'metric.name'"
        )));
    }
    let value = settings.text_or_default("value.attribute").trim();
    let attribute = schema.attributes.iter().find(|a| a.name == value);
    match attribute.map(|a| a.ty) {
        Some(Type::Int | Type::Long | Type::Float | Type::Double) => {}
        Some(_) => {
            return Err(refused(format!(
                "attribute '{value}' is not a number, and it holds the value"
            )));
        }
        None => {
            return Err(refused(format!(
                "the stream has no attribute '{value}' for the value: set 'value.attribute'"
            )));
        }
    }
    let help = format!("help for {} {name}", kind.name());
    let labels = schema.attributes.iter().filter(|a| a.name != value);
    Ok(Shape {
        name: name.to_owned(),
        help: settings
            .text("metric.help")
            .map_or(help, |help| help.trim().to_owned()),
        kind,
        labels: labels.map(|a| a.name.clone()).collect(),
    })
}

impl Sink for PrometheusSink {
    fn connect(&mut self) -> Result<(), Error> {
        let unavailable = |e: std::io::Error| Error::unavailable(self.name.clone(), e);
        if let Way::Server {
            host,
            port,
            is_open,
        } = &mut self.way
        {
            if !*is_open {
                let workers = self.network.workers().map_err(unavailable)?;
                self.place
                    .open(workers, (host, *port))
                    .map_err(unavailable)?;
                *is_open = true;
            }
            return Ok(());
        }
        match self.push() {
            // It is there. The next event hears of it as well.
            Err(error) if !error.is_unavailable() => Ok(()),
            pushed => pushed,
        }
    }

    /// Counts the event, unless the gateway is away: then it comes again, or goes to `on.error`.
    fn publish(&mut self, message: &Message<'_>) -> Result<(), Error> {
        let Payload::Map(entries) = message.payload else {
            return Err(self.failed("the payload is not a map: use the mapper 'keyvalue'"));
        };
        let (labels, value) = self.read(entries).map_err(|cause| self.failed(cause))?;
        if let Way::Gateway(Gateway { lost: Some(_), .. }) = &self.way {
            self.push()?;
        }
        self.metric
            .add(labels, value)
            .map_err(|cause| self.failed(cause))?;
        let Way::Gateway(gateway) = &mut self.way else {
            return Ok(());
        };
        gateway.is_due = true;
        if gateway.pushed.is_none_or(|at| at.elapsed() >= PUSH_PAUSE) {
            let pushed = self.push();
            // A gateway that is away gets the count with the next push; the next event hears of it.
            return match pushed {
                Err(error) if !error.is_unavailable() => Err(error),
                _ => Ok(()),
            };
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        match &self.way {
            Way::Gateway(Gateway { is_due: true, .. }) => self.push(),
            _ => Ok(()),
        }
    }

    fn close(&mut self) -> Result<(), Error> {
        let flushed = self.flush();
        if let Way::Server { is_open, .. } = &mut self.way
            && std::mem::take(is_open)
            && let Ok(workers) = self.network.workers()
        {
            self.place.close(workers);
        }
        flushed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_in_paths() {
        let group = [("a b", "x y"), ("c", ""), ("d", "é/")];
        let group: Vec<(String, String)> = group
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        assert_eq!(group_path("/p", "j", &[]), "/p/metrics/job/j");
        assert_eq!(
            group_path("", "my/job", &group),
            "/metrics/job@base64/bXkvam9i/a+b@base64/eCB5/c@base64/=/d@base64/w6kv"
        );
    }
}
