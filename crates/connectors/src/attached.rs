//! Sinks and sources with `api=`: they attach to a topic of the gateway instead of a port of their own.

use std::sync::Arc;

use bytes::Bytes;
use connect::component::{
    Connection, Environment, Finished, Payload, Sink, SinkSetup, Source, SourceLink, SourceSetup,
};
use connect::error::Error;
use connect::message::Message;
use connect::net::Receiver;
use connect::net::gateway::{Attachment, Gateway, News, Protocol, TopicFeed, TopicIngress};
use connect::option::{Settings, property_names};
use plan::Transport;
use plan::spec::ConnectorSpec;

/// Does a connector name a topic?
pub(crate) fn is_attached(transport: &Transport) -> bool {
    transport.option("api").is_some()
}

fn gateway(environment: &Environment, settings: Settings<'_>) -> Result<Arc<dyn Gateway>, Error> {
    environment.gateway().ok_or_else(|| {
        settings.refused(
            "it belongs to the gateway (option 'api', or a stream 'gw_…'), and this server has none: \
             start it with --gateway ADDRESS",
        )
    })
}

/// The attributes of `topic.NAME='{{attribute}}'` for each parameter of the topic; empty where one is something else.
fn keys_of(transport: &Transport) -> Vec<String> {
    let topic = transport.option("topic").unwrap_or_default();
    let names = topic
        .split('{')
        .skip(1)
        .filter_map(|part| part.split('}').next());
    let key = |name: &str| {
        let text = transport.option(&format!("topic.{name}"))?.trim();
        let attribute = text.strip_prefix("{{")?.strip_suffix("}}")?.trim();
        (!attribute.contains(['{', '}'])).then(|| attribute.to_owned())
    };
    names.map(key).collect::<Option<_>>().unwrap_or_default()
}

fn attachment(
    settings: Settings<'_>,
    transport: &Transport,
    name: String,
    protocol: Protocol,
) -> Result<Attachment, Error> {
    let list = |option: &str| -> Vec<String> {
        let parts = settings.text(option).unwrap_or_default().split(',');
        let parts = parts.map(str::trim).filter(|part| !part.is_empty());
        parts.map(str::to_owned).collect()
    };
    let events = settings.text("history.events");
    let history_events = events.map(|text| {
        let number = text.trim().parse();
        number.map_err(|_| settings.refused(format!("option 'history.events' is '{text}'")))
    });
    Ok(Attachment {
        name,
        api: settings.text_or_default("api").trim().to_owned(),
        version: settings.text_or_default("version").trim().to_owned(),
        keys: keys_of(transport),
        topic: settings.text_or_default("topic").trim().to_owned(),
        protocol,
        scopes: list("scopes"),
        plans: list("plans"),
        history_events: history_events.transpose()?,
        slow: settings.text("slow").map(|text| text.trim().to_owned()),
        compression: protocol == Protocol::WebSocket && settings.flag("compression"),
    })
}

// ---- sink ----

/// Sends each payload to all who hear its topic.
pub(crate) struct TopicSink {
    feed: Arc<dyn TopicFeed>,
    /// What gives the parameters of the address, in their order.
    parameters: Vec<Parameter>,
}

enum Parameter {
    /// The number of an option that depends on the event.
    Dynamic(usize),
    Constant(String),
}

impl TopicSink {
    pub fn new(
        setup: &SinkSetup<'_>,
        specs: &'static [ConnectorSpec],
        protocol: Protocol,
    ) -> Result<TopicSink, Error> {
        let settings = Settings::of_sink(setup.transport, specs);
        let name = format!("{}/{}", setup.environment.app, setup.schema.name);
        let gateway = gateway(setup.environment, settings)?;
        let feed = gateway.feed(&attachment(settings, setup.transport, name, protocol)?);
        let feed = feed.map_err(|message| settings.refused(message))?;
        let parameter = |name: &String| {
            let option = format!("topic.{name}");
            if let Some(at) = setup.dynamic.iter().position(|own| *own == option) {
                return Ok(Parameter::Dynamic(at));
            }
            let constant = setup.transport.option(&option);
            constant.map(|text| Parameter::Constant(text.to_owned())).ok_or_else(|| {
                settings.refused(format!(
                    "the topic has the parameter '{name}', and the stream no attribute of that name: add \
                     {option}='{{{{attribute}}}}'"
                ))
            })
        };
        let parameters = feed.parameters().iter().map(parameter);
        let parameters = parameters.collect::<Result<Vec<Parameter>, Error>>()?;
        Ok(TopicSink { feed, parameters })
    }
}

impl Sink for TopicSink {
    fn connect(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn publish(&mut self, message: &Message<'_>) -> Result<(), Error> {
        let (payload, is_text) = match message.payload {
            Payload::Text(text) => (Bytes::copy_from_slice(text.as_bytes()), true),
            Payload::Bytes(bytes) => (Bytes::copy_from_slice(bytes), false),
            _ => {
                let cause = "the payload is neither text nor bytes".to_owned();
                return Err(Error::failed("sending an event", cause));
            }
        };
        let values = self.parameters.iter().map(|parameter| match parameter {
            Parameter::Dynamic(at) => message.option(*at),
            Parameter::Constant(text) => text.as_str(),
        });
        let values: Vec<&str> = values.collect();
        let sent = self.feed.publish(&values, payload, is_text);
        sent.map_err(|cause| Error::failed("sending an event", cause))
    }

    fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn close(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

// ---- source ----

/// Takes what clients publish to its topic.
pub(crate) struct TopicSource {
    receiver: Receiver,
    topic: Box<dyn TopicIngress>,
}

impl TopicSource {
    pub fn new(
        setup: &SourceSetup<'_>,
        specs: &'static [ConnectorSpec],
        protocol: Protocol,
    ) -> Result<TopicSource, Error> {
        let settings = Settings::of_source(setup.transport, specs);
        let name = format!("{}/{}", setup.environment.app, setup.schema.name);
        let gateway = gateway(setup.environment, settings)?;
        let news = setup.transport.option("news").and_then(News::of_stream);
        if let Some(news) = news {
            let receiver = Receiver::new(property_names(setup.transport));
            let topic = gateway.news(news, &receiver.ingress, receiver.names.len());
            return Ok(TopicSource { receiver, topic });
        }
        let attachment = attachment(settings, setup.transport, name, protocol)?;
        let receiver = Receiver::new(property_names(setup.transport));
        let is_durable = setup.environment.state.is_some();
        let topic = gateway.ingress(&attachment, &receiver.ingress, &receiver.names, is_durable);
        Ok(TopicSource {
            topic: topic.map_err(|message| settings.refused(message))?,
            receiver,
        })
    }
}

impl Source for TopicSource {
    fn run(&mut self, link: &mut dyn SourceLink) -> Result<Finished, Error> {
        self.receiver.ingress.open();
        link.set_address(&self.topic.path());
        link.report(Connection::Connected);
        self.receiver.run(link)
    }

    fn restore(&mut self, _position: &[u8]) -> Result<(), Error> {
        Ok(())
    }
}
