//! `bench http-request`: the published HttpRequestResponse. Each event that is posted to it becomes a
//! request to a server that answers with what it was sent, which comes back as an event.

use std::sync::Mutex;
use std::time::Instant;

use anyhow::ensure;

use super::http::{connect, free_address, post_all};
use super::{Command, Done, Load, Scenario, Verified, app, current};
use crate::receiver::Receiver;
use crate::site::Site;

pub(super) static HTTP_REQUEST: HttpRequest = HttpRequest {
    together: 1,
    echo: Mutex::new(None),
};

pub(super) static HTTP_REQUEST_PIPELINED: HttpRequest = HttpRequest {
    together: 16,
    echo: Mutex::new(None),
};

pub(super) struct HttpRequest {
    /// Requests that leave a connection together.
    together: u32,
    /// Of the run that is on.
    echo: Mutex<Option<Receiver>>,
}

const APP: &str = "@App:name('HttpRequestResponse')
@source(type='http', worker.count='20', receiver.url='http://127.0.0.1:8081/service', @map(type='json'))
define stream SweetProductionStream (name string, amount double);

@sink(type='http-request', sink.id='production-request', publisher.url='http://127.0.0.1:8688//netty_echo_server', @map(type='json'))
define stream HttpRequestStream (batchNumber double, lowTotal double);

@source(type='http-response', sink.id='production-request', http.status.code='200', @map(type='json'))
define stream HttpResponseStream (batchNumber double, lowTotal double);

@sink(type='log') define stream FinalThroughputStream (count long);
@sink(type='log') define stream InputThroughputStream (count long);

from SweetProductionStream select 1D as batchNumber, 1200D as lowTotal insert into HttpRequestStream;
from SweetProductionStream#window.timeBatch(5 sec) select count(*)/5 as count insert into InputThroughputStream;
from HttpResponseStream#window.timeBatch(5 sec) select count(*)/5 as count insert into FinalThroughputStream;
";

/// What the app asks for each event.
const QUESTION: &[u8] = br#"{"event":{"batchNumber":1.0,"lowTotal":1200.0}}"#;

impl Scenario for HttpRequest {
    fn name(&self) -> &'static str {
        match self.together {
            1 => "http-request",
            _ => "http-request-pipelined",
        }
    }

    fn about(&self) -> &'static str {
        match self.together {
            1 => {
                "HttpRequestResponse: an event posted, a request made of it, the answer read back as an event"
            }
            _ => {
                "HttpRequestResponse, whose requests leave 16 at a time, by 'max.pipelined.requests'"
            }
        }
    }

    fn events(&self) -> u64 {
        300_000
    }

    fn published(&self) -> Option<(f64, &'static str, &'static str)> {
        Some((
            29_000.0,
            "requests/s",
            "HttpRequestResponse, load and echo server on other hosts",
        ))
    }

    fn prepare(&self, _: &Site, _: u64) -> anyhow::Result<()> {
        Ok(())
    }

    fn command(&self, site: &Site) -> anyhow::Result<Command> {
        let (path, app) = app(site, "HttpRequestResponse.siddhi", APP)?;
        let echo = Receiver::start(|number, body| {
            ensure!(body == QUESTION, "another request was expected");
            Ok(number)
        })?;
        let service = format!("http://{}/service", free_address(site)?);
        let asked = format!("http://{}//netty_echo_server", echo.address);
        *current(&self.echo) = Some(echo);
        let mut args = vec![path.display().to_string()];
        for set in [
            format!("SweetProductionStream.source.receiver.url={service}"),
            format!("HttpRequestStream.sink.publisher.url={asked}"),
            format!(
                "HttpRequestStream.sink.max.pipelined.requests={}",
                self.together
            ),
        ] {
            args.extend(["--set".to_owned(), set]);
        }
        Ok(Command { args, app })
    }

    fn load(&self) -> Option<&dyn Load> {
        Some(self)
    }

    fn verify(&self, _: &Site, events: u64, done: &Done) -> anyhow::Result<Verified> {
        let mut verified = Verified::new();
        verified.equal(
            "posted",
            events,
            done.source("SweetProductionStream", "events"),
        );
        verified.received(events, current(&self.echo).take());
        verified.equal(
            "answered",
            events,
            done.source("HttpResponseStream", "events"),
        );
        Ok(verified)
    }
}

impl Load for HttpRequest {
    fn send(&self, site: &Site, events: u64) -> anyhow::Result<f64> {
        let connections = connect(site)?;
        let started = Instant::now();
        post_all(&connections, events)?;
        if let Some(echo) = &*current(&self.echo) {
            echo.wait_for(events)?;
        }
        Ok(started.elapsed().as_secs_f64())
    }
}
