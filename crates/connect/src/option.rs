//! Options of connectors as Siddhi reads them: numbers, flags, the lists `"'key:value','key:value'"`,
//! and options that depend on the event.

use std::str::FromStr;
use std::time::Duration;

use plan::Transport;
use plan::spec::{ConnectorKind, ConnectorSpec, OptionSpec};

use crate::component::SinkSetup;
use crate::error::Error;
use crate::message::Message;
use crate::rows::PROPERTY_PREFIX;
use crate::scalar;

/// The options of a transport, with the spec of its component: defaults and ranges come from there
/// and are not repeated in code.
#[derive(Clone, Copy)]
pub struct Settings<'a> {
    transport: &'a Transport,
    /// `source` or `sink`.
    kind: &'static str,
    /// `None`: it reads what is written, and no defaults.
    spec: Option<&'static ConnectorSpec>,
    /// The spec of the component whose code it shares.
    shared: Option<&'static ConnectorSpec>,
}

impl<'a> Settings<'a> {
    /// `specs` are those of its technology.
    pub fn of_source(transport: &'a Transport, specs: &'static [ConnectorSpec]) -> Settings<'a> {
        Settings::new(transport, ConnectorKind::Source, specs)
    }

    /// `specs` are those of its technology.
    pub fn of_sink(transport: &'a Transport, specs: &'static [ConnectorSpec]) -> Settings<'a> {
        Settings::new(transport, ConnectorKind::Sink, specs)
    }

    fn new(
        transport: &'a Transport,
        kind: ConnectorKind,
        specs: &'static [ConnectorSpec],
    ) -> Settings<'a> {
        let spec = specs.iter().find(|s| s.is_called(kind, &transport.ty));
        Settings {
            transport,
            kind: kind.name(),
            spec,
            shared: None,
        }
    }

    /// What its own spec does not have has the defaults of another component, whose code reads it.
    pub fn with_defaults_of(self, spec: &'static ConnectorSpec) -> Settings<'a> {
        Settings {
            shared: Some(spec),
            ..self
        }
    }

    pub fn transport(&self) -> &'a Transport {
        self.transport
    }

    /// The type of the transport, as the app writes it.
    pub fn ty(&self) -> &'a str {
        &self.transport.ty
    }

    /// What is written; a default does not count.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        self.transport.option(name)
    }

    /// What is written, else the default; empty where there is none.
    pub fn text_or_default(&self, name: &str) -> &'a str {
        self.text(name).unwrap_or_else(|| self.default(name))
    }

    /// The default of an option; empty where it has none.
    pub fn default(&self, name: &str) -> &'static str {
        self.option(name).default
    }

    /// `Boolean.parseBoolean` of what is written, else the default; false where there is none.
    pub fn flag(&self, name: &str) -> bool {
        scalar::parse_bool(self.text_or_default(name).trim())
    }

    /// Is a flag written, and as this? For code of several components, not all of which have it.
    pub fn is_set_to(&self, name: &str, value: bool) -> bool {
        let is_it = |text: &str| scalar::parse_bool(text.trim()) == value;
        self.text(name).is_some_and(is_it)
    }

    /// The number that is written, else the default.
    ///
    /// # Errors
    /// What is written is no number, or outside the range of the option; an option without default
    /// is not written.
    pub fn number<T: FromStr>(&self, name: &str) -> Result<T, Error> {
        self.optional(name)?
            .ok_or_else(|| self.refused(format!("option '{name}' is missing")))
    }

    /// The number that is written, else the default; `None` where there is none.
    ///
    /// # Errors
    /// What is written is no number, or outside the range of the option.
    pub fn optional<T: FromStr>(&self, name: &str) -> Result<Option<T>, Error> {
        match (self.text(name), self.default(name)) {
            (Some(text), _) => self.read(name, text).map(Some),
            (None, "") => Ok(None),
            (None, default) => self.read(name, default).map(Some),
        }
    }

    /// A number that is not written at the option itself (in the deployment file, say).
    ///
    /// # Errors
    /// The text is no number, or outside the range of the option.
    pub fn read<T: FromStr>(&self, name: &str, text: &str) -> Result<T, Error> {
        number_of(self.option(name), name, text).map_err(|message| self.refused(message))
    }

    /// Milliseconds; `None` where the option switches the limit off (0 or less).
    ///
    /// # Errors
    /// As [`Settings::number`].
    pub fn millis(&self, name: &str) -> Result<Option<Duration>, Error> {
        let millis: i64 = self.number(name)?;
        Ok(u64::try_from(millis)
            .ok()
            .filter(|ms| *ms > 0)
            .map(Duration::from_millis))
    }

    /// The spec of an option that the code asks for.
    ///
    /// # Panics
    /// The spec of the component does not have it: a test of the connectors goes over all calls.
    fn option(&self, name: &str) -> &'static OptionSpec {
        let mut specs = self.spec.iter().chain(&self.shared);
        let known = specs.find_map(|spec| spec.option(name));
        known.unwrap_or_else(|| {
            panic!(
                "the spec of {} '{}' has no option '{name}'",
                self.kind, self.transport.ty
            )
        })
    }

    /// Key and value of each entry of a list option.
    pub fn list(&self, name: &str) -> Result<Vec<(String, String)>, Error> {
        list(self.text(name).unwrap_or_default())
            .map_err(|entry| self.refused(bad_list(name, &entry)))
    }

    pub fn refused(&self, message: impl Into<String>) -> Error {
        Error::refused(format!("{} '{}'", self.kind, self.transport.ty), message)
    }
}

pub fn bad_list(name: &str, entry: &str) -> String {
    format!("option '{name}' has the entry '{entry}': write 'name:value','name:value'")
}

pub fn number<T: FromStr>(text: &str) -> Option<T> {
    text.trim().parse().ok()
}

/// The number of a text, where it lies in the range of the option; else what to say.
pub fn number_of<T: FromStr>(spec: &OptionSpec, name: &str, text: &str) -> Result<T, String> {
    number(text)
        .filter(|_| spec.has_in_range(text))
        .ok_or_else(|| format!("option '{name}' is '{text}': write {}", spec.wanted()))
}

/// The entries of `'key:value','key:value'`: trimmed, the first and last characters cut off, split at
/// `','`, then each at its first `:` (`HttpIoUtil.populateHeaders`). An entry without one is the error.
pub fn list(text: &str) -> Result<Vec<(String, String)>, String> {
    let text = text.trim();
    if text.is_empty() || text == "null" {
        return Ok(Vec::new());
    }
    let mut inside = text.chars();
    // Entries that are not quoted are taken as they are: nothing of a value is cut off silently.
    let is_quoted = matches!(text.chars().next(), Some('\'' | '"'));
    if is_quoted {
        inside.next();
        inside.next_back();
    }
    inside
        .as_str()
        .split("','")
        .flat_map(|part| part.split("', '"))
        .map(|entry| match entry.split_once(':') {
            Some((key, value)) if !key.trim().is_empty() => {
                Ok((key.trim().to_owned(), value.trim().to_owned()))
            }
            _ => Err(entry.to_owned()),
        })
        .collect()
}

/// An option that may depend on the event.
pub enum Dynamic {
    Constant(String),
    /// Index among those that do.
    Event(usize),
}

impl Dynamic {
    /// What is written, else the default of the option.
    pub fn new(setup: &SinkSetup<'_>, settings: Settings<'_>, name: &str) -> Dynamic {
        Dynamic::or_else(setup, name, || settings.text_or_default(name))
    }

    /// `text` where it does not depend on the event.
    pub fn or_else<'a>(
        setup: &SinkSetup<'_>,
        name: &str,
        text: impl FnOnce() -> &'a str,
    ) -> Dynamic {
        match setup.dynamic.iter().position(|dynamic| dynamic == name) {
            Some(index) => Dynamic::Event(index),
            None => Dynamic::Constant(text().to_owned()),
        }
    }

    pub fn of<'a>(&'a self, message: &Message<'a>) -> &'a str {
        match self {
            Dynamic::Constant(text) => text,
            Dynamic::Event(index) => message.option(*index),
        }
    }
}

/// Names after `trp:` in the mapping, each once.
pub fn property_names(transport: &Transport) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for from in &transport.map.attributes {
        if let Some(name) = from.trim().strip_prefix(PROPERTY_PREFIX)
            && !names.iter().any(|n| n == name.trim())
        {
            names.push(name.trim().to_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use plan::spec::{self, OptionType};

    use super::*;

    #[test]
    fn entries_of_lists() {
        fn check(text: &str, expect: Result<&[(&str, &str)], &str>) {
            let found = list(text);
            let expect = expect
                .map(|pairs| {
                    pairs
                        .iter()
                        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                        .collect::<Vec<_>>()
                })
                .map_err(str::to_owned);
            assert_eq!(found, expect, "{text}");
        }
        check("", Ok(&[]));
        check("'a:b'", Ok(&[("a", "b")]));
        check(" 'a:b','c: d:e' ", Ok(&[("a", "b"), ("c", "d:e")]));
        check("'a:b', 'c:d,e'", Ok(&[("a", "b"), ("c", "d,e")]));
        check("a:b", Ok(&[("a", "b")]));
        check("'a'", Err("a"));
        check("'a:b',':c'", Err(":c"));
    }

    const OPTIONS: &[OptionSpec] = &[
        spec::text("text", "").default("here"),
        spec::bool("flag", "true", ""),
        spec::int("int", "5", "")
            .range(0, 20)
            .or(-1)
            .unit("seconds"),
        spec::long("long", "", "").at_least(1),
        spec::millis("millis", "100", ""),
        OptionSpec::new("double", OptionType::Double, "")
            .default("0.5")
            .below(0.0, 1.0),
        OptionSpec::new("bytes", OptionType::Bytes, "").range(1, 9),
    ];
    const SPECS: &[ConnectorSpec] = &[ConnectorSpec {
        options: OPTIONS,
        ..ConnectorSpec::new(ConnectorKind::Source, "t", "core", "")
    }];

    /// What is read of the options, each of its type.
    fn read(options: &[(&str, &str)]) -> Result<String, String> {
        let transport = Transport {
            ty: "t".into(),
            options: options
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            map: plan::Mapping {
                ty: "json".into(),
                options: Vec::new(),
                attributes: Vec::new(),
                payload: Vec::new(),
                span: lang::span::Span::default(),
            },
            distribution: None,
            span: lang::span::Span::default(),
        };
        let settings = Settings::of_source(&transport, SPECS);
        let all = || {
            Ok(format!(
                "{} {} {} {:?} {:?} {} {:?}",
                settings.text_or_default("text"),
                settings.flag("flag"),
                settings.number::<i32>("int")?,
                settings.optional::<u64>("long")?,
                settings.millis("millis")?,
                settings.number::<f64>("double")?,
                settings.optional::<u32>("bytes")?,
            ))
        };
        all().map_err(|error: Error| error.to_string())
    }

    #[test]
    fn options_of_each_type_have_the_default_and_range_of_their_spec() {
        let check = |name: &str, value: &str, expect: Result<&str, &str>| {
            let found = read(&[(name, value)]);
            match (&found, expect) {
                (Ok(found), Ok(expect)) => assert_eq!(found, expect, "{name}='{value}'"),
                (Err(found), Err(expect)) => {
                    let expect = format!("option '{name}' is '{value}': write {expect}");
                    assert!(found.contains(&expect), "{found}");
                }
                _ => panic!("{name}='{value}': {found:?}"),
            }
        };
        check("other", "1", Ok("here true 5 None Some(100ms) 0.5 None"));
        check("text", "", Ok(" true 5 None Some(100ms) 0.5 None"));
        check("flag", "yes", Ok("here false 5 None Some(100ms) 0.5 None"));
        check(
            "flag",
            " TRUE ",
            Ok("here true 5 None Some(100ms) 0.5 None"),
        );
        check("int", " 20 ", Ok("here true 20 None Some(100ms) 0.5 None"));
        check("int", "-1", Ok("here true -1 None Some(100ms) 0.5 None"));
        check("int", "21", Err("a number from 0 to 20 seconds, or -1"));
        check("int", "x", Err("a number from 0 to 20 seconds, or -1"));
        check("long", "7", Ok("here true 5 Some(7) Some(100ms) 0.5 None"));
        check("long", "0", Err("a number of at least 1"));
        check("long", "", Err("a number of at least 1"));
        check("millis", "0", Ok("here true 5 None None 0.5 None"));
        check("millis", "1s", Err("a whole number of ms"));
        check("double", "0.9", Ok("here true 5 None Some(100ms) 0.9 None"));
        check("double", "1", Err("a number from 0 to less than 1"));
        check("double", "NaN", Err("a number from 0 to less than 1"));
        check("bytes", "9", Ok("here true 5 None Some(100ms) 0.5 Some(9)"));
        check("bytes", "10", Err("a number from 1 to 9 bytes"));
    }
}
