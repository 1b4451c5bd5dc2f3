//! The log on standard error: one line for each event, as text for people or as JSON for machines.
//!
//! Text: `2026-01-31T09:00:00.000Z WARN  event rejected app="Orders" stream="Raw" cause="…"`;
//! JSON has the
//! same names as keys of one object. What an event does not say of its app and stream comes from the
//! thread that it happens on: each runs within a span that has them as fields.

use std::borrow::Cow;
use std::fmt::{Debug, Write as _};
use std::io::Write as _;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value as Json};
use server::otlp::{LogLine, LogQueue};
use server::secrets::Hidden;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::args::LogFormat;
use crate::output::Console;

/// Names of the fields that a span gives to the events in it.
const OF_SPAN: [&str; 2] = ["app", "stream"];

/// Writes events to standard error, beside a progress bar.
pub struct LogLayer {
    pub console: Console,
    pub format: LogFormat,
    pub colour: bool,
    /// Where lines go beside standard error, once there is such a place.
    pub export: LogExport,
    /// Values that no line has.
    pub hidden: Hidden,
}

/// A collector of logs, which is known only after the log has begun.
pub type LogExport = Arc<OnceLock<LogQueue>>;

/// A field of an event.
#[derive(Clone)]
struct Named {
    name: &'static str,
    value: Json,
    /// Something that is shown as it writes itself, such as an address: without quotation marks
    /// where it needs none.
    is_bare: bool,
}

/// Fields by name, in their order.
#[derive(Clone, Default)]
struct Fields {
    message: String,
    others: Vec<Named>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Json, is_bare: bool) {
        match (field.name(), value) {
            ("message", Json::String(text)) => self.message = text,
            (name, value) => self.others.push(Named {
                name,
                value,
                is_bare,
            }),
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, Json::from(value), false);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, Json::from(value), false);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, Json::from(value), false);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, Json::from(value), false);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, Json::from(value), false);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, Json::from(format!("{value:?}")), true);
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LogLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        for span in context.event_scope(event).into_iter().flatten() {
            let extensions = span.extensions();
            let Some(of_span) = extensions.get::<Fields>() else {
                continue;
            };
            for field in &of_span.others {
                if OF_SPAN.contains(&field.name) && !has(&fields.others, field.name) {
                    fields.others.push(field.clone());
                }
            }
        }
        // App and stream come first, whoever has said them.
        let place = |field: &Named| OF_SPAN.iter().position(|name| *name == field.name);
        fields
            .others
            .sort_by_key(|field| place(field).unwrap_or(OF_SPAN.len()));
        self.hide(&mut fields);
        let time = server::clock::timestamp(server::clock::wall_millis());
        let level = *event.metadata().level();
        if let Some(queue) = self.export.get() {
            let others = fields.others.iter();
            queue.push(LogLine {
                level: level.as_str(),
                message: &fields.message,
                fields: others.map(|field| (field.name, &field.value)).collect(),
            });
        }
        let line = match self.format {
            LogFormat::Text => {
                text_line(&time, level, &fields.message, &fields.others, self.colour)
            }
            LogFormat::Json => json_line(time, level, fields.message, fields.others),
        };
        // Nobody is left to tell when standard error cannot be written.
        self.console
            .without_bar(|| std::io::stderr().lock().write_all(line.as_bytes()).ok());
    }
}

impl LogLayer {
    fn hide(&self, fields: &mut Fields) {
        if self.hidden.is_empty() {
            return;
        }
        let hide = |text: &mut String| {
            if let Cow::Owned(hidden) = self.hidden.hide(text) {
                *text = hidden;
            }
        };
        hide(&mut fields.message);
        for field in &mut fields.others {
            if let Json::String(text) = &mut field.value {
                hide(text);
            }
        }
    }
}

fn has(fields: &[Named], name: &str) -> bool {
    fields.iter().any(|field| field.name == name)
}

fn text_line(time: &str, level: Level, message: &str, fields: &[Named], colour: bool) -> String {
    let mut line = String::with_capacity(160);
    let paint = |line: &mut String, code: &str, text: &str| match colour {
        true => {
            line.push_str("\u{1b}[");
            line.push_str(code);
            line.push('m');
            line.push_str(text);
            line.push_str("\u{1b}[0m");
        }
        false => line.push_str(text),
    };
    paint(&mut line, "2", time);
    line.push(' ');
    let code = match level {
        Level::ERROR => "31",
        Level::WARN => "33",
        Level::INFO => "32",
        _ => "34",
    };
    // As wide as the longest, so that messages stand below each other.
    paint(&mut line, code, &format!("{:<5}", level.as_str()));
    line.push(' ');
    push_escaped(&mut line, message);
    for field in fields {
        line.push(' ');
        paint(&mut line, "3", field.name);
        line.push('=');
        match &field.value {
            Json::String(text) if field.is_bare && is_plain(text) => line.push_str(text),
            // JSON writes line ends and quotation marks so that the line stays one.
            value => write!(line, "{value}").expect("writing to a string does not fail"),
        }
    }
    line.push('\n');
    line
}

/// Needs no quotation marks.
fn is_plain(text: &str) -> bool {
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && c != '"' && c != '=';
    !text.is_empty() && text.chars().all(is_plain)
}

/// What comes from outside must not begin a line or move the cursor.
fn push_escaped(line: &mut String, text: &str) {
    for c in text.chars() {
        match c.is_control() {
            true => line.extend(c.escape_default()),
            false => line.push(c),
        }
    }
}

fn json_line(time: String, level: Level, message: String, fields: Vec<Named>) -> String {
    let mut object = Map::new();
    object.insert("time".to_owned(), Json::from(time));
    object.insert(
        "level".to_owned(),
        Json::from(level.as_str().to_ascii_lowercase()),
    );
    object.insert("message".to_owned(), Json::from(message));
    for field in fields {
        object.insert(field.name.to_owned(), field.value);
    }
    format!("{}\n", Json::Object(object))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> Vec<Named> {
        let named = |name, value, is_bare| Named {
            name,
            value,
            is_bare,
        };
        vec![
            named("app", Json::from("Orders"), false),
            named("address", Json::from("127.0.0.1:9090"), true),
            named("cause", Json::from("not\na \"number\""), false),
            named("count", Json::from(3), false),
        ]
    }

    #[test]
    fn a_line_stays_one_line_whatever_is_in_it() {
        let time = "2026-01-31T09:00:00.000Z";
        let line = text_line(time, Level::WARN, "event\rrejected", &fields(), false);
        assert_eq!(
            line,
            "2026-01-31T09:00:00.000Z WARN  event\\rrejected app=\"Orders\" \
             address=127.0.0.1:9090 cause=\"not\\na \\\"number\\\"\" count=3\n"
        );
    }

    #[test]
    fn json_has_the_fields_as_keys() {
        let line = json_line("t".to_owned(), Level::WARN, "m".to_owned(), fields());
        let object: Json = serde_json::from_str(&line).expect("it is JSON");
        assert_eq!(object["level"], "warn");
        assert_eq!(object["cause"], "not\na \"number\"");
        assert_eq!(object["count"], 3);
    }
}
