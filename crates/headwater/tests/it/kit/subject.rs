//! How a technology describes itself to the kit.

use std::collections::BTreeMap;

use testservers::Running as Server;

use crate::broker::{Apps, key_file};
use crate::network::free_port;

/// In all texts `{port}` is the port of the server or of the source that listens, `{topic}` each
/// case's own, `{login}` and `{tls}` what those hooks say, and `{keys}` the folder of key stores.
pub struct Subject {
    pub name: &'static str,
    /// A server between the two; without one the source listens.
    pub server: Option<&'static str>,
    /// What lets a source or sink find its place again, so that nothing is lost while it is away, is
    /// among these options.
    pub source: &'static str,
    pub sink: &'static str,
    /// What `{login}` is where the server asks for none.
    pub anonymous: &'static str,
    /// What the deployment says.
    pub deployment: &'static [Properties],
    /// Makes what must be there before anybody connects.
    pub prepare: fn(&Server, &str),
    /// Looks at what is left on the server after all rows have come.
    pub afterwards: fn(&Server, &str),
    /// Options of a sink that otherwise waits long, whatever its `on.error`.
    pub impatient: &'static str,
    /// What makes the connections of a sink few enough to keep the order, where they are many.
    pub ordered: &'static str,
    /// An app that takes nothing is felt by the other side.
    pub has_flow_control: bool,
    /// It asks for signs of life by messages of its own.
    pub asks_for_life: bool,
    pub order: &'static [Order],
    pub restart: Option<Restart>,
    /// Replacements in the source, one by one; rows that are sent while it is killed.
    pub killed: Option<(&'static [(&'static str, &'static str)], u64)>,
    pub login: &'static [Login],
    pub tls: Option<Tls>,
    pub silent: Option<Silent>,
    pub slow: Slow,
    /// The mapper that goes with it, where there is one alone.
    pub format: Option<&'static str>,
}

/// Properties of an extension in a deployment: namespace, name, and the properties.
pub type Properties = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);

/// A way of sending in which no row is lost and none is out of order.
pub struct Order {
    /// Options that are left out of the source's and the sink's.
    pub without: [&'static str; 2],
    /// More options of both.
    pub more: &'static str,
    pub rows: u64,
    /// A stop of the source takes what the server has for it.
    pub stop_takes_all: bool,
}

/// The server goes away and comes back.
pub struct Restart {
    /// As in a crash, and not in order.
    pub is_killed: bool,
    /// More options.
    pub source: &'static str,
    pub sink: &'static str,
    /// Rows that are there before, and all.
    pub before: usize,
    pub rows: u64,
    /// Each row comes once; otherwise at least once.
    pub is_once: bool,
}

/// Who the server lets in.
pub struct Login {
    /// Its setting.
    pub server: (&'static str, &'static str),
    /// `{login}` of the source and of the sink.
    pub right: [&'static str; 2],
    pub wrong: &'static str,
    /// How the refusal is reported.
    pub refused: &'static str,
}

/// A server with the certificate of the tests.
pub struct Tls {
    /// Its settings that name the certificate.
    pub server: &'static [&'static str],
    /// What is another in options and deployment.
    pub url: (&'static str, &'static str),
    /// `{tls}` of who trusts the certificate, and of who does not.
    pub trusting: &'static str,
    pub strange: &'static str,
    /// More of the deployment of who trusts it.
    pub deployment: &'static [Properties],
    /// What is reported to who does not speak TLS at all.
    pub clear: Option<&'static str>,
}

/// The server stays there and answers nothing.
pub struct Silent {
    /// More options of the source.
    pub source: &'static str,
    /// It is noticed by who wants something of it.
    pub is_asked: bool,
}

/// How much is sent through a slow line.
pub struct Slow {
    pub rows: u64,
    pub row_bytes: usize,
    pub bytes_per_second: u64,
}

impl Subject {
    /// What a description says that says nothing.
    pub const PLAIN: Subject = Subject {
        name: "",
        server: None,
        source: "",
        sink: "",
        anonymous: "",
        deployment: &[],
        prepare: |_, _| {},
        afterwards: |_, _| {},
        impatient: "",
        ordered: "",
        has_flow_control: true,
        asks_for_life: false,
        order: &[],
        restart: None,
        killed: None,
        login: &[],
        tls: None,
        silent: None,
        slow: Slow {
            rows: 800,
            row_bytes: 200_000,
            bytes_per_second: 25 << 20,
        },
        format: None,
    };

    /// Its cases, sorted.
    pub fn cases(&self) -> Vec<&'static str> {
        let all = [
            ("away", true),
            // Payloads that are no rows need a mapper of texts.
            ("bad", self.format.is_none()),
            ("full", self.has_flow_control),
            ("killed", self.killed.is_some()),
            ("login", !self.login.is_empty()),
            ("long", self.asks_for_life),
            ("order", !self.order.is_empty()),
            ("reload", true),
            ("restart", self.restart.is_some()),
            ("silent", self.silent.is_some()),
            ("slow", true),
            ("tls", self.tls.is_some()),
        ];
        let due = all.iter().filter(|(_, is_due)| *is_due);
        due.map(|(case, _)| *case).collect()
    }
}

const SENDER: &str = "@app:name('Sender') -- {note}
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='{tailing}', file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
define stream In (n long, text string);
@OnError(action='STREAM') @sink({sink}{ordered}{more}, on.error='{policy}', @map(type='{format}'{payload}))
define stream Out (n long, text string);
@sink(type='log', prefix='fault')
define stream Faults (n long, text string);
from In select * insert into Out;
from !Out select n, text insert into Faults;
";

const RECEIVER: &str = "@app:name('Receiver') -- {note}
@source({source}{more}, @map(type='{format}'))
define stream In (n long, text string);
@sink(type='file', file.uri='file:{dir}/out.csv', @map(type='csv'))
define stream Out (n long, text string);
from In select * insert into Out;
";

/// A technology within one test.
pub struct Between<'a> {
    pub technology: &'a Subject,
    pub topic: &'a str,
    pub port: u16,
    pub server: Option<&'a Server>,
}

impl<'a> Between<'a> {
    /// On the server that tests share. `None` where it cannot be had.
    pub fn shared(technology: &'a Subject, topic: &'a str) -> Option<Between<'a>> {
        let Some(name) = technology.server else {
            return Some(Between {
                technology,
                topic,
                port: free_port(),
                server: None,
            });
        };
        Some(Between::on(technology, topic, testservers::shared(name)?))
    }

    /// On this server.
    pub fn on(technology: &'a Subject, topic: &'a str, server: &'a Server) -> Between<'a> {
        (technology.prepare)(server, topic);
        Between {
            technology,
            topic,
            port: server.port(),
            server: Some(server),
        }
    }

    pub fn sender(&self, apps: &Apps, fill: &[(&str, &str)]) -> String {
        apps.write("sender", &self.filled(SENDER, fill), "")
    }

    pub fn receiver(&self, apps: &Apps, fill: &[(&str, &str)]) -> String {
        apps.write("receiver", &self.filled(RECEIVER, fill), "")
    }

    /// With what is given, else the usual.
    pub fn filled(&self, app: &str, fill: &[(&str, &str)]) -> String {
        let keys = keys();
        // What the first of these bring, the others fill.
        let usual = [
            ("source", self.technology.source),
            ("sink", self.technology.sink),
            ("ordered", self.technology.ordered),
            ("more", ""),
            ("note", "first"),
            ("tailing", "false"),
            ("policy", "WAIT"),
            ("format", "json"),
            ("payload", ""),
            ("topic", self.topic),
            ("login", self.technology.anonymous),
            ("tls", ""),
            ("keys", &keys),
            ("client", crate::kafka::client()),
        ];
        let put =
            |app: String, (name, value): (&str, &str)| app.replace(&format!("{{{name}}}"), value);
        let is_usual = |name: &str| usual.iter().any(|(usual, _)| *usual == name);
        let others = fill.iter().copied().filter(|(name, _)| !is_usual(name));
        let app = others.fold(app.to_owned(), put);
        usual.into_iter().fold(app, |app, (name, usual)| {
            let given = fill.iter().find(|(given, _)| *given == name);
            let own = self.technology.format.filter(|_| name == "format");
            let value = own.unwrap_or(given.map_or(usual, |(_, value)| value));
            put(app, (name, value))
        })
    }

    /// A file with what the deployment says of the technology, if that is anything, and its option.
    pub fn deployment(&self, apps: &Apps) -> Vec<String> {
        self.deployment_to(apps, |_| self.port, &[], ("", ""))
    }

    /// As [`Between::deployment`], with the port of sources or sinks, more properties, and a replacement
    /// in those of the technology.
    pub fn deployment_to(
        &self,
        apps: &Apps,
        port: impl Fn(&str) -> u16,
        more: &[Properties],
        change: (&str, &str),
    ) -> Vec<String> {
        let keys = keys();
        let mut all: BTreeMap<(&str, &str), Vec<(&str, String)>> = BTreeMap::new();
        for (kind, name, properties) in self.technology.deployment.iter().chain(more) {
            let known = all.entry((kind, name)).or_default();
            for (key, value) in *properties {
                let value = replaced(value, change)
                    .replace("{port}", &port(kind).to_string())
                    .replace("{keys}", &keys);
                known.push((key, value));
            }
        }
        if all.is_empty() {
            return Vec::new();
        }
        let extensions: Vec<(&str, &str, Vec<(&str, &str)>)> = all
            .iter()
            .map(|((kind, name), properties)| {
                let properties = properties.iter().map(|(key, value)| (*key, value.as_str()));
                (*kind, *name, properties.collect())
            })
            .collect();
        vec!["--config".to_owned(), apps.deployment(&extensions)]
    }
}

/// As `str::replace`, but for an empty text.
pub fn replaced(text: &str, (from, to): (&str, &str)) -> String {
    match from {
        "" => text.to_owned(),
        from => text.replace(from, to),
    }
}

/// The folder of key stores.
fn keys() -> String {
    let one = key_file("server.pem");
    one.trim_end_matches("/server.pem").to_owned()
}
