//! `bench kafka-http`: the published chain of three apps. kafka-consumer reads a topic,
//! Intermediate-process makes a document of each record, ws-publisher posts it.

use std::borrow::Cow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use anyhow::ensure;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::{Command, Done, Load, Scenario, Verified, app, current};
use crate::receiver::Receiver;
use crate::site::Site;

pub(super) static KAFKA_HTTP: KafkaHttp = KafkaHttp {
    endpoint: Mutex::new(None),
    runs: AtomicU32::new(0),
};

pub(super) struct KafkaHttp {
    /// Of the run that is on.
    endpoint: Mutex<Option<Receiver>>,
    runs: AtomicU32,
}

const TOPIC: &str = "test3";

const CONSUMER: &str = r#"@App:name('kafka-consumer')
@sink(type='inMemory', topic='in-memory-input', @map(type='passThrough'))
define stream ToInMemoryInput (kafkaConsumerInTS long, kafkaConsumerOutTS long, locations string, material string, createdDate string, sid string, headline string, body string, publishTS long, id string);
@source(type='kafka', topic.list='test3', threading.option='single.thread', group.id='group1', bootstrap.servers='127.0.0.1:9092',
  @map(type='json', fail.on.missing.attribute='false', enclosing.element='$'))
define stream FromKafkaMessage (locations string, material string, createdDate string, sid string, headline string, body string, publishTS string, id string, updatedDate string);
from FromKafkaMessage
select eventTimestamp() as kafkaConsumerInTS, time:timestampInMilliseconds() as kafkaConsumerOutTS, locations, material,
  str:replaceFirst(createdDate, 'Z', 'GMT') as createdDate, sid, headline, body,
  time:timestampInMilliseconds(str:replaceFirst(publishTS, 'Z', 'GMT'), "yyyy-MM-dd'T'HH:mm:ss.SSSZ") as publishTS, id
insert into ToInMemoryInput;
"#;

const PROCESS: &str = r#"@App:name('Intermediate-process')
@sink(type='inMemory', topic='in-memory-output', @map(type='passThrough'))
define stream ToInMemoryOutput (headers string, data string);
@source(type='inMemory', topic='in-memory-input', @map(type='passThrough'))
define stream FromInMemoryInput (kafkaConsumerInTS long, kafkaConsumerOutTS long, locations object, material object, createdDate string, sid string, headline string, body string, publishTS long, id string);
from FromInMemoryInput
select "'connectionId:test_connectionId','appKey:workManWork','Content-type:application/json'" as headers,
  str:fillTemplate('{"type": "heards_sub_resp", "publishTS": {{publishTS}}, "headline": "{{headline}}", "body": "{{body}}", "id": "{{id}}", "material": {{material}}, "locations": {{locations}}, "createdDate": "{{createdDate}}", "sid": "{{sid}}"}',
    map:create('headline', headline, 'body', body, 'id', id, 'material', json:getString(material, '$'), 'locations', json:getString(locations, '$'),
      'createdDate', str:replaceFirst(createdDate, 'GMT', 'Z'), 'sid', sid, 'publishTS', publishTS)) as data
insert into ToInMemoryOutput;
"#;

const PUBLISHER: &str = r#"@App:name('ws-publisher')
@source(type='inMemory', topic='in-memory-output', @map(type='passThrough'))
define stream FromInMemoryOutput (headers string, data string);
@sink(type='http', method='POST', publisher.url='http://127.0.0.1:8280/services/TestProxy', headers='{{headers}}', max.pool.active.connections='1000',
  @map(type='json', @payload("""{"data":{{data}} }""")))
define stream ToWsClient (data string, headers string);
from FromInMemoryOutput
select json:toString(json:setElement(json:toObject(data), '$', time:timestampInMilliseconds(), 'wsPublisherOutTS')) as data, headers
insert into ToWsClient;
"#;

impl Scenario for KafkaHttp {
    fn name(&self) -> &'static str {
        "kafka-http"
    }

    fn about(&self) -> &'static str {
        "kafka-consumer, Intermediate-process and ws-publisher: a record, a document, a request"
    }

    fn events(&self) -> u64 {
        1_000_000
    }

    fn published(&self) -> Option<(f64, &'static str, &'static str)> {
        Some((
            10_000.0,
            "events/s",
            "the three apps in one Streaming Integrator of 2 cores, its peers on other hosts",
        ))
    }

    fn servers(&self) -> &'static [&'static str] {
        &["kafka"]
    }

    fn prepare(&self, site: &Site, events: u64) -> anyhow::Result<()> {
        site.topic(TOPIC)
            .fill((0..events).map(|n| record(n).to_string()))
    }

    fn command(&self, site: &Site) -> anyhow::Result<Command> {
        let endpoint = Receiver::start(|_, body| judge(body))?;
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        let mut args = Vec::new();
        let mut names = Vec::new();
        for (published, own) in [
            ("kafka-consumer.siddhi", CONSUMER),
            ("Intermediate-process.siddhi", PROCESS),
            ("ws-publisher.siddhi", PUBLISHER),
        ] {
            let (path, name) = app(site, published, own)?;
            args.push(path.display().to_string());
            names.push(name);
        }
        let source = "FromKafkaMessage.source";
        let broker = site.server("kafka").endpoint();
        for set in [
            format!("{source}.bootstrap.servers={broker}"),
            // Each run is a group of its own, which begins at the beginning.
            format!("{source}.group.id=bench-{run}"),
            format!("{source}.optional.configuration=auto.offset.reset:earliest"),
            format!(
                "ToWsClient.sink.publisher.url=http://{}/services/TestProxy",
                endpoint.address
            ),
        ] {
            args.extend(["--set".to_owned(), set]);
        }
        *current(&self.endpoint) = Some(endpoint);
        Ok(Command {
            args,
            app: names.join("; "),
        })
    }

    fn load(&self) -> Option<&dyn Load> {
        Some(self)
    }

    fn verify(&self, site: &Site, events: u64, done: &Done) -> anyhow::Result<Verified> {
        let mut verified = Verified::new();
        verified.equal("records", events, done.source("FromKafkaMessage", "events"));
        verified.received(events, current(&self.endpoint).take());
        verified.note("server", site.server("kafka").version());
        Ok(verified)
    }
}

/// The records lie in the topic when the apps start; it is over when the last request has come.
impl Load for KafkaHttp {
    fn send(&self, _: &Site, events: u64) -> anyhow::Result<f64> {
        let started = Instant::now();
        if let Some(endpoint) = &*current(&self.endpoint) {
            endpoint.wait_for(events)?;
        }
        Ok(started.elapsed().as_secs_f64())
    }
}

/// 2020-11-03T00:00:00Z, in milliseconds of the epoch.
const DAY: u64 = 1_604_361_600_000;

/// A moment of that day: in milliseconds of the epoch, and as text.
fn moment(number: u64) -> (u64, String) {
    let millis = number * 7 % 86_400_000;
    let (seconds, rest) = (millis / 1000, millis % 1000);
    let text = format!(
        "2020-11-03T{:02}:{:02}:{:02}.{rest:03}Z",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    );
    (DAY + millis, text)
}

fn text_of(number: u64) -> String {
    format!("The body of {number} goes on for a while, as bodies of messages do.")
}

fn record(number: u64) -> Json {
    let (_, time) = moment(number);
    json!({
        "locations": [{"name": format!("Pune {}", number % 100), "lat": 18.5}],
        "material": {"url": format!("http://example.org/{number}"), "kind": "photo"},
        "createdDate": time,
        "sid": format!("s{}", number % 1000),
        "headline": format!("Headline of {number}"),
        "body": text_of(number),
        "publishTS": time,
        "id": number.to_string(),
        "updatedDate": time,
    })
}

/// All that does not depend on the clock is what the record says. It runs for each event beside what is measured:
/// what is expected is not made as a tree.
fn judge(body: &[u8]) -> anyhow::Result<u64> {
    let Received { data } = serde_json::from_slice(body)?;
    let number = data.id.parse()?;
    let (moment, time) = moment(number);
    let place = [Place {
        name: format!("Pune {}", number % 100).into(),
        lat: 18.5,
    }];
    let material = Material {
        url: format!("http://example.org/{number}").into(),
        kind: "photo".into(),
    };
    ensure!(data.locations == place, "other locations were expected");
    ensure!(data.material == material, "another material was expected");
    for (name, found, expected) in [
        ("type", &data.kind, "heards_sub_resp"),
        ("createdDate", &data.created_date, &time),
        ("sid", &data.sid, &format!("s{}", number % 1000)),
        ("headline", &data.headline, &format!("Headline of {number}")),
        ("body", &data.body, &text_of(number)),
    ] {
        ensure!(found == expected, "another '{name}' was expected");
    }
    ensure!(data.published == moment, "another time was expected");
    Ok(number)
}

#[derive(Deserialize)]
struct Received<'a> {
    #[serde(borrow)]
    data: Data<'a>,
}

/// The fields that are looked at; times of the clock have to be there.
#[derive(Deserialize)]
struct Data<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(rename = "publishTS")]
    published: u64,
    #[serde(rename = "wsPublisherOutTS")]
    _sent: u64,
    #[serde(borrow)]
    locations: Vec<Place<'a>>,
    #[serde(borrow)]
    material: Material<'a>,
    #[serde(borrow, rename = "createdDate")]
    created_date: Cow<'a, str>,
    #[serde(borrow)]
    sid: Cow<'a, str>,
    #[serde(borrow)]
    headline: Cow<'a, str>,
    #[serde(borrow)]
    body: Cow<'a, str>,
}

#[derive(Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Place<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    lat: f64,
}

#[derive(Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Material<'a> {
    #[serde(borrow)]
    url: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(number: u64) -> Json {
        let mut data = record(number);
        data["type"] = "heards_sub_resp".into();
        data["publishTS"] = moment(number).0.into();
        data["wsPublisherOutTS"] = 1.into();
        json!({ "data": data })
    }

    #[test]
    fn a_body_is_judged_by_what_its_record_says() {
        let judged = |body: &Json| judge(body.to_string().as_bytes());
        assert_eq!(judged(&sent(12_345)).ok(), Some(12_345));
        for field in [
            "locations",
            "material",
            "createdDate",
            "sid",
            "headline",
            "body",
            "type",
            "publishTS",
        ] {
            let mut other = sent(7);
            other["data"][field] = sent(8_888_888)["data"][field].clone();
            if field == "type" {
                other["data"][field] = "another".into();
            }
            assert!(judged(&other).is_err(), "{field}");
            let mut less = sent(7);
            less["data"].as_object_mut().unwrap().remove(field);
            assert!(judged(&less).is_err(), "{field}");
        }
    }
}
