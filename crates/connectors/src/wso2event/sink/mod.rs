//! `@sink(type='wso2event')`: publishes events to receivers of WSO2's products, and to ours.
//!
//! A group of receivers gets every event, one receiver of the group each. Promises: an event that a receiver has
//! answered is there; one that it has not is sent again; nothing is dropped because a queue is full. Never: a password
//! in the clear.

mod client;
mod group;
mod places;

use std::sync::Arc;
use std::time::{Duration, Instant};

use self::client::Sender;
use self::group::{EVENTS_MAX, GroupLine};
use super::deployed::Protocol;
use crate::wso2event::CONNECTORS;
use connect::component::{Payload, Sink, SinkSetup};
use connect::error::Error;
use connect::mapper::wso2event::SentLayout;
use connect::message::{Message, Sent, Undelivered};
use connect::net::{ClientTls, ClientTrust, InFlight, Network};
use connect::option::{self, Settings};
use databridge::definition::Definition;
use databridge::rows;

/// For an answer, unless something else is said.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct Wso2EventSink {
    network: Arc<Network>,
    groups: Vec<Opened>,
    /// Each message is answered before the next is taken.
    is_blocking: bool,
}

struct Opened {
    line: Arc<GroupLine>,
    /// When it was last.
    connected: Option<Instant>,
}

impl Wso2EventSink {
    pub fn new(setup: &SinkSetup<'_>) -> Result<Wso2EventSink, Error> {
        let transport = setup.transport;
        let settings = Settings::of_sink(transport, CONNECTORS);
        let groups = places::groups(settings.text_or_default("url"), settings.text("auth.url"));
        let groups = groups.map_err(|cause| settings.refused(cause))?;
        let protocol = match settings.text_or_default("protocol") {
            "binary" => Protocol::Binary,
            _ => Protocol::Thrift,
        };
        let sent = SentLayout::new(&transport.options, &transport.map, setup.schema);
        let layout = sent.map_err(|cause| settings.refused(cause))?.layout;
        let agent = |key: &str| {
            let key = format!("{}.{key}", protocol.key());
            setup.environment.setting("sink", "wso2event", &key)
        };
        let number = |key: &str| match agent(key) {
            None => Ok(None),
            Some(text) => option::number::<u64>(text)
                .filter(|n| *n > 0)
                .map(Some)
                .ok_or_else(|| {
                    settings.refused(format!(
                        "'{key}' of 'data.agent.config' is '{text}': write a number above 0"
                    ))
                }),
        };
        let of_file = number("socketTimeoutMS")?.map(Duration::from_millis);
        let patience = settings.millis("timeout")?.filter(|time| !time.is_zero());
        let trust = ClientTrust {
            store: settings
                .text("truststore.file")
                .map(|path| (path, settings.text("truststore.password")))
                .or_else(|| {
                    agent("trustStorePath").map(|path| (path, agent("trustStorePassword")))
                }),
            accepts_any_name: settings.is_set_to("hostname.verification.enabled", false),
            ..ClientTrust::default()
        };
        let sender = Arc::new(Sender {
            protocol,
            user: settings.text_or_default("username").to_owned(),
            password: settings.text_or_default("password").to_owned(),
            tls: ClientTls::trusting(settings, "TLS", trust)?,
            definition: Definition::text_of(&layout),
            layout,
            patience: patience.or(of_file).unwrap_or(PATIENCE),
        });
        let events_max = number("batchSize")?
            .and_then(|n| usize::try_from(n).ok())
            .unwrap_or(EVENTS_MAX);
        let name = format!("{}/{}", setup.environment.app, setup.schema.name);
        let groups = groups.into_iter().map(|group| {
            let places: Vec<String> = group
                .receivers
                .iter()
                .map(|r| r.events.to_string())
                .collect();
            let in_flight = InFlight::new(
                name.clone(),
                format!("'{}'", places.join("', '")),
                setup.answers,
            );
            Opened {
                line: Arc::new(GroupLine::new(group, in_flight, &sender, events_max)),
                connected: None,
            }
        });
        Ok(Wso2EventSink {
            network: setup.environment.network(),
            groups: groups.collect(),
            is_blocking: settings.text_or_default("mode") == "blocking",
        })
    }

    fn lines(&self) -> impl Iterator<Item = &GroupLine> {
        self.groups.iter().map(|group| &*group.line)
    }
}

impl Sink for Wso2EventSink {
    fn connect(&mut self) -> Result<(), Error> {
        for group in &mut self.groups {
            let (opening, serving) = (Arc::clone(&group.line), Arc::clone(&group.line));
            let open = async move { opening.open().await };
            let serve = |session| {
                serving.in_flight.open();
                async move { serving.serve(session).await }
            };
            let in_flight = &group.line.in_flight;
            in_flight.connect(&self.network, &mut group.connected, open, serve)?;
        }
        Ok(())
    }

    fn publish(&mut self, message: &Message<'_>) -> Result<(), Error> {
        if !matches!(message.payload, Payload::Bytes([rows::MARK, ..])) {
            let cause = "the payload is not of the mapper 'wso2event': use @map(type='wso2event')";
            return Err(Error::failed("sending events", cause));
        }
        // Before any group has it: where one is away, the message comes again for all.
        if let Some(away) = self.lines().find(|line| !line.in_flight.is_connected()) {
            return Err(away.in_flight.unavailable("its receivers were lost"));
        }
        let sent = Sent::new(message);
        for line in self.lines() {
            line.in_flight.push(sent.clone())?;
        }
        if self.is_blocking {
            // What is not answered when a connection is lost stays in flight.
            self.lines().for_each(|line| drop(line.in_flight.flush()));
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.lines().try_for_each(|line| line.in_flight.flush())
    }

    fn close(&mut self) -> Result<(), Error> {
        let closed: Vec<Result<(), Error>> =
            self.lines().map(|line| line.in_flight.close()).collect();
        closed.into_iter().collect()
    }

    fn take_undelivered(&mut self) -> Vec<Undelivered> {
        self.lines()
            .flat_map(|line| line.in_flight.take_undelivered())
            .collect()
    }

    fn take_refused(&mut self) -> Vec<Undelivered> {
        self.lines()
            .flat_map(|line| line.in_flight.take_refused())
            .collect()
    }
}
