//! The `prometheus` source: scrapes its target at intervals, and emits each sample of one metric.

use std::sync::Arc;
use std::time::{Duration, Instant};

use event::{Type, Value};
use hyper::Method;
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, HeaderMap};

use super::scrape::{Sample, Wanted, find};
use connect::component::{
    Connection, Finished, Payload, Room, Signal, Source, SourceLink, SourceSetup,
};
use connect::error::Error;
use connect::net::http_client::{Fetch, add_headers, basic};
use connect::net::{ClientTls, ClientTrust, Network};
use connect::option::{Settings, list};
use connect::rows::{Properties, Rejected};
use connect::url::Url;

/// The longest answer of a target.
const ANSWER_BYTES_MAX: usize = 64 << 20;

pub(super) struct PrometheusSource {
    name: String,
    network: Arc<Network>,
    fetch: Arc<Fetch>,
    url: Url,
    headers: HeaderMap,
    interval: Duration,
    wanted: Wanted,
    /// Of the attribute that takes the value.
    ty: Type,
    /// The last answer: one that is the same brings nothing (`PrometheusScraper`).
    last: Bytes,
}

impl PrometheusSource {
    pub fn new(setup: &SourceSetup<'_>) -> Result<PrometheusSource, Error> {
        let settings = Settings::of_source(setup.transport, crate::prometheus::CONNECTORS);
        let refused = |message: String| settings.refused(message);
        let deployed = |key: &str| setup.environment.setting("source", "prometheus", key);
        let of = |name: &str, key: &str| {
            let found = settings.text(name).or_else(|| deployed(key));
            let found = found.unwrap_or_else(|| settings.default(name));
            found.trim().to_owned()
        };
        let text = of("target.url", "targetURL");
        let url = Url::parse(&text).ok_or_else(|| {
            refused(format!(
                "option 'target.url' is '{text}': write http://host:port/metrics"
            ))
        })?;
        let scheme = of("scheme", "scheme");
        if !scheme.is_empty() && !scheme.eq_ignore_ascii_case(url.scheme()) {
            return Err(refused(format!(
                "option 'scheme' is '{scheme}', the target is '{text}': write the same in both"
            )));
        }
        let seconds = |option: &str, key: &str| {
            let seconds = settings.read(option, &of(option, key))?;
            Ok::<_, Error>(Duration::from_secs(seconds))
        };
        let interval = seconds("scrape.interval", "scrapeInterval")?;
        let timeout = seconds("scrape.timeout", "scrapeTimeout")?;
        let mut headers = HeaderMap::new();
        add_headers(&mut headers, &of("headers", "headers"))
            .map_err(|cause| refused(format!("option 'headers': {cause}")))?;
        let (user, password) = (of("username", "username"), of("password", "password"));
        match (user.is_empty(), password.is_empty()) {
            (true, true) => {}
            (false, false) => {
                headers.insert(AUTHORIZATION, basic(&user, &password));
            }
            _ => {
                return Err(refused(
                    "options 'username' and 'password' go together".into(),
                ));
            }
        }
        let tls = match url.is_tls {
            false => None,
            true => {
                let own = settings.text("client.truststore.file");
                let own = own.or_else(|| deployed("trustStoreFile"));
                let password = settings.text("client.truststore.password");
                let password = password.or_else(|| deployed("trustStorePassword"));
                let trust = ClientTrust {
                    store: own.map(|path| (path, password)).or_else(|| {
                        ClientTrust::deployed(setup.environment, "source", "prometheus")
                    }),
                    ..ClientTrust::default()
                };
                Some(ClientTls::trusting(settings, "TLS", trust)?)
            }
        };
        let group = of("grouping.key", "groupingKey");
        let mut labels = list(&group).map_err(|entry| {
            refused(format!(
                "option 'grouping.key' has the entry '{entry}': write 'name:value','name:value'"
            ))
        })?;
        for name in ["job", "instance"] {
            let value = of(name, name);
            if !value.is_empty() {
                labels.push((name.to_owned(), value));
            }
        }
        Ok(PrometheusSource {
            name: format!("'{}://{}'", url.scheme(), url.authority()),
            network: setup.environment.network(),
            fetch: Arc::new(Fetch::new(tls, timeout, ANSWER_BYTES_MAX)),
            url,
            headers,
            interval,
            wanted: Wanted {
                name: settings
                    .text("metric.name")
                    .unwrap_or(&setup.schema.name)
                    .trim()
                    .to_owned(),
                kind: of("metric.type", "").to_ascii_lowercase(),
                labels,
            },
            ty: value_type(setup),
            last: Bytes::new(),
        })
    }

    fn ask(&self) -> Result<Bytes, Error> {
        let unavailable = |cause: String| Error::unavailable(self.name.clone(), cause);
        let workers = self.network.workers();
        let workers = workers.map_err(|e| unavailable(e.to_string()))?;
        let (fetch, url) = (Arc::clone(&self.fetch), self.url.clone());
        let headers = self.headers.clone();
        let asked = workers
            .wait_for(async move { fetch.ask(&Method::GET, &url, &headers, Bytes::new()).await });
        match asked.and_then(|asked| asked) {
            Ok((status, body)) if status.as_u16() == 200 => Ok(body),
            Ok((status, _)) => Err(unavailable(format!("it answered {status}"))),
            Err(error) => Err(unavailable(error.to_string())),
        }
    }

    /// Gives the samples of an answer.
    fn take(&self, answer: &[u8], link: &mut dyn SourceLink) -> Result<(), Error> {
        let text = String::from_utf8_lossy(answer);
        match find(&text, &self.wanted) {
            Err(cause) => link.reject(Rejected::new(
                &text,
                cause,
                "look at what the target answers, and at 'metric.name' and 'metric.type'",
            )),
            Ok((help, samples)) => {
                let properties = Properties::none();
                for sample in &samples {
                    let entries = self.entries(&help, sample);
                    if link.map(Payload::Map(&entries), &properties) == Room::Full {
                        link.post(&[])?;
                    }
                }
            }
        }
        link.post(&[]).map(|_| ())
    }

    /// A sample as Siddhi has it (`PrometheusMetricAnalyser.generateMaps`).
    fn entries(&self, help: &str, sample: &Sample) -> Vec<(Value, Value)> {
        let text = |key: &str, value: &str| (Value::str(key), Value::str(value));
        let mut entries = vec![
            text("metric_name", &self.wanted.name),
            text("metric_type", &self.wanted.kind),
            text("help", help),
            text("subtype", sample.subtype),
        ];
        let labels = sample.labels.iter();
        entries.extend(labels.map(|(key, value)| text(key, value)));
        if matches!(sample.subtype, "count" | "sum") {
            match self.wanted.kind.as_str() {
                "histogram" => entries.push(text("le", "")),
                "summary" => entries.push(text("quantile", "")),
                _ => {}
            }
        }
        let value = match self.ty {
            Type::Int => Value::Int(sample.value as i32),
            Type::Long => Value::Long(sample.value as i64),
            Type::Float => Value::Float(sample.value as f32),
            _ => Value::Double(sample.value),
        };
        entries.push((Value::str("value"), value));
        entries
    }
}

/// The type of the attribute that is read from `value`.
fn value_type(setup: &SourceSetup<'_>) -> Type {
    let attributes = &setup.schema.attributes;
    let mapped = setup.transport.map.attributes.iter();
    let at = mapped.clone().position(|from| from.trim() == "value");
    let found = match at {
        Some(at) => attributes.get(at),
        None => attributes.iter().find(|a| a.name == "value"),
    };
    found.map_or(Type::Double, |attribute| attribute.ty)
}

impl Source for PrometheusSource {
    fn run(&mut self, link: &mut dyn SourceLink) -> Result<Finished, Error> {
        let mut is_connected = false;
        loop {
            let answer = self.ask()?;
            if !std::mem::replace(&mut is_connected, true) {
                link.report(Connection::Connected);
            }
            if answer != self.last {
                self.take(&answer, link)?;
                self.last = answer;
            }
            let next = Instant::now() + self.interval;
            let mut is_paused = false;
            loop {
                let left = next.saturating_duration_since(Instant::now());
                if left.is_zero() && !is_paused {
                    break;
                }
                match link.wait(left.max(Duration::from_millis(1))) {
                    Signal::Stop => return Ok(Finished::Stopped),
                    Signal::Pause => is_paused = true,
                    Signal::Resume => is_paused = false,
                    Signal::Acked(_) | Signal::Timeout | Signal::End => {}
                }
            }
        }
    }

    fn restore(&mut self, _position: &[u8]) -> Result<(), Error> {
        Ok(())
    }
}
