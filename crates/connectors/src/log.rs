//! The `log` sink: one line for each message, in Siddhi's text form.
//!
//! Without `@map` a chunk of one event is `Event{timestamp=…, data=[…], isExpired=false}`, of several
//! `[Event{…}, Event{…}]` (`Event.toString` and `LogSink` of siddhi-core). Lines of priority DEBUG
//! Control characters of events are escaped, so that no event forges a line: a break of a line in what
//! a mapper wrote stays one, and what follows it is indented. Lines of priority DEBUG
//! and TRACE go to the log of the server, as the logging of a Streaming Integrator would hide them.

use std::borrow::Cow;
use std::sync::Arc;

use crate::spec::log::SINK;
use plan::spec::ConnectorSpec;

use connect::component::{Connector, Payload, PayloadKind, Sink, SinkSetup};
use connect::error::Error;
use connect::event_text::write_events;
use connect::message::Message;

/// `@sink(type='log')`.
pub const LOG: LogConnector = LogConnector;

pub struct LogConnector;

impl Connector for LogConnector {
    fn specs(&self) -> &'static [ConnectorSpec] {
        std::slice::from_ref(&SINK)
    }

    fn takes(&self) -> &'static [PayloadKind] {
        &[PayloadKind::Any]
    }

    fn sink(&self, setup: &SinkSetup<'_>) -> Result<Box<dyn Sink>, Error> {
        let prefix = match setup.dynamic.iter().position(|name| name == "prefix") {
            Some(index) => Prefix::Dynamic(index),
            None => Prefix::Static(match setup.transport.option("prefix") {
                Some(prefix) => prefix.to_owned(),
                None => format!("{} : {}", setup.environment.app, setup.schema.name),
            }),
        };
        Ok(Box::new(LogSink {
            level: Level::read(setup.transport.option("priority"))?,
            prefix,
            lines: Arc::clone(&setup.environment.lines),
            line: String::new(),
            is_raw: setup.environment.is_compat,
        }))
    }
}

enum Prefix {
    Static(String),
    /// Index among the options that depend on the event.
    Dynamic(usize),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Shown,
    /// To the server's own log.
    Detail,
    Off,
}

impl Level {
    fn read(priority: Option<&str>) -> Result<Level, Error> {
        let name = priority.unwrap_or("INFO").trim().to_ascii_uppercase();
        match name.as_str() {
            "INFO" | "WARN" | "ERROR" | "FATAL" => Ok(Level::Shown),
            "DEBUG" | "TRACE" => Ok(Level::Detail),
            "OFF" => Ok(Level::Off),
            _ => Err(Error::refused(
                "sink 'log'",
                format!(
                    "option 'priority' is '{name}': use INFO, DEBUG, WARN, ERROR, FATAL, TRACE or OFF"
                ),
            )),
        }
    }
}

struct LogSink {
    level: Level,
    prefix: Prefix,
    lines: Arc<dyn Fn(&str) + Send + Sync>,
    line: String,
    /// As Siddhi: control characters of events are written as they are.
    is_raw: bool,
}

impl LogSink {
    fn begin(&mut self, message: &Message<'_>) {
        self.line.clear();
        match &self.prefix {
            Prefix::Static(prefix) => self.line.push_str(prefix),
            Prefix::Dynamic(index) => self.line.push_str(message.option(*index)),
        }
        self.line.push_str(" : ");
    }

    /// `keeps_lines`: its breaks of lines may be those of a mapper.
    fn end(&self, keeps_lines: bool) {
        let line = match self.is_raw {
            true => Cow::Borrowed(self.line.as_str()),
            false => escaped(&self.line, keeps_lines),
        };
        match self.level {
            Level::Shown => (self.lines)(&line),
            Level::Detail => tracing::debug!(target: "log", "{line}"),
            Level::Off => {}
        }
    }
}

/// What follows a break of a line that is kept.
const INDENT: &str = "\n    ";

/// A line without control characters, which a terminal obeys and which begin lines. A tab is none.
fn escaped(line: &str, keeps_lines: bool) -> Cow<'_, str> {
    // The first byte of the controls beyond ASCII as well.
    let is_odd = |byte: u8| byte < b' ' && byte != b'\t' || byte == 0x7f || byte == 0xc2;
    if !line.bytes().any(is_odd) {
        return Cow::Borrowed(line);
    }
    let mut clean = String::with_capacity(line.len() + 16);
    for c in line.chars() {
        match c {
            '\t' => clean.push(c),
            '\n' if keeps_lines => clean.push_str(INDENT),
            c if c.is_control() => clean.extend(c.escape_default()),
            c => clean.push(c),
        }
    }
    Cow::Owned(clean)
}

impl Sink for LogSink {
    fn connect(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn publish(&mut self, message: &Message<'_>) -> Result<(), Error> {
        if self.level == Level::Off {
            return Ok(());
        }
        if let Payload::Events(batch) = message.payload {
            for chunk in 0..batch.chunk_count() {
                self.begin(message);
                write_events(&mut self.line, batch, chunk);
                self.end(false);
            }
            return Ok(());
        }
        self.begin(message);
        match message.payload {
            Payload::Text(text) => self.line.push_str(text),
            Payload::Bytes(bytes) => self.line.push_str(&String::from_utf8_lossy(bytes)),
            Payload::Object(value) => event::text::write_value(&mut self.line, value),
            Payload::Map(entries) => {
                self.line.push('{');
                for (i, (key, value)) in entries.iter().enumerate() {
                    self.line.push_str(if i > 0 { ", " } else { "" });
                    event::text::write_value(&mut self.line, key);
                    self.line.push('=');
                    event::text::write_value(&mut self.line, value);
                }
                self.line.push('}');
            }
            Payload::Events(_) => {}
        }
        self.end(true);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn close(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use event::{Attribute, Batch, Chunks, Schema, Type, Value};
    use lang::span::Span;
    use plan::{Mapping, Transport};

    use super::*;
    use connect::component::Environment;

    fn schema() -> Schema {
        let attribute = |name: &str, ty| Attribute {
            name: name.into(),
            ty,
        };
        Schema {
            name: "Trades".into(),
            attributes: vec![
                attribute("symbol", Type::String),
                attribute("price", Type::Double),
            ],
        }
    }

    fn lines(
        options: &[(&str, &str)],
        dynamic: &[String],
        messages: &[Message<'_>],
    ) -> Vec<String> {
        let transport = Transport {
            ty: "log".into(),
            options: options
                .iter()
                .map(|(k, v)| ((*k).into(), (*v).into()))
                .collect(),
            map: Mapping {
                ty: "passThrough".into(),
                options: Vec::new(),
                attributes: Vec::new(),
                payload: Vec::new(),
                span: Span::default(),
            },
            distribution: None,
            span: Span::default(),
        };
        let written = Arc::new(Mutex::new(Vec::new()));
        let mut environment = Environment::new("App");
        let into = Arc::clone(&written);
        environment.lines = Arc::new(move |line| into.lock().unwrap().push(line.to_owned()));
        let setup = SinkSetup {
            transport: &transport,
            schema: &schema(),
            dynamic,
            table: None,
            environment: &environment,
            answers: &Arc::default(),
        };
        let mut sink = LOG.sink(&setup).unwrap();
        messages
            .iter()
            .for_each(|message| sink.publish(message).unwrap());
        written.lock().unwrap().clone()
    }

    fn batch(chunks: Chunks) -> Batch {
        let rows = [
            (1000, vec![Value::str("A"), Value::Double(20.0)]),
            (1001, vec![Value::Null, Value::Double(1.0e10)]),
        ];
        Batch::from_rows(&schema(), &rows, chunks, 0)
    }

    // covers: 635
    // shows: sink log open
    #[test]
    fn events_in_siddhis_text_form() {
        let (each, one) = (batch(Chunks::EachRow), batch(Chunks::One));
        let of = |batch| Message::of(Payload::Events(batch));
        assert_eq!(
            lines(&[], &[], &[of(&each), of(&one)]),
            [
                "App : Trades : Event{timestamp=1000, data=[A, 20.0], isExpired=false}",
                "App : Trades : Event{timestamp=1001, data=[null, 1.0E10], isExpired=false}",
                "App : Trades : [Event{timestamp=1000, data=[A, 20.0], isExpired=false}, \
                 Event{timestamp=1001, data=[null, 1.0E10], isExpired=false}]",
            ]
        );
    }

    #[test]
    fn prefixes_and_priorities() {
        let text = || Message::of(Payload::Text("x"));
        assert_eq!(
            lines(&[("prefix", "Done: ")], &[], &[text()]),
            ["Done:  : x"]
        );
        let value = ["B".to_owned()];
        let dynamic = Message::with_options(Payload::Text("x"), &value);
        assert_eq!(
            lines(&[("prefix", "{{p}}")], &["prefix".into()], &[dynamic]),
            ["B : x"]
        );
        assert_eq!(lines(&[("priority", "warn")], &[], &[text()]).len(), 1);
        assert_eq!(lines(&[("priority", "OFF")], &[], &[text()]).len(), 0);
    }

    #[test]
    fn no_event_forges_a_line() {
        let forged = "a\nFAKE ERROR\u{1b}[31m\u{9b}\r\tü";
        let expect = "a\\nFAKE ERROR\\u{1b}[31m\\u{9b}\\r\tü";
        assert_eq!(escaped(forged, false), expect);
        let expect = "a\n    FAKE ERROR\\u{1b}[31m\\u{9b}\\r\tü";
        assert_eq!(escaped(forged, true), expect);
        assert!(matches!(
            escaped("plain ü", false),
            Cow::Borrowed("plain ü") | Cow::Owned(_)
        ));
    }
}
