//! Real servers for tests: Kafka, databases, brokers, each started on a free port of loopback from
//! what Debian and Maven Central have, and gone with the process that started it.
//!
//! A new server is one file with a [`Recipe`] and one line in [`SERVERS`]. Tests, benchmarks and
//! `cargo xtask server NAME` start it with [`Order::start`].
//!
//! Promises: a server that has started answers; its data lies in a folder of its own outside the
//! checkout; it ends with its [`Running`], or with the thread group that started it, however that
//! ends. What was kept of a server that failed is its log. `HEADWATER_SERVER_STARTS` names a file that
//! gets a line for each start. Never: a port or a folder shared between two servers, a mock, an
//! installation of Debian packages (that is for the test command to do).

mod debian;
mod dovecot;
mod error;
mod gateway_peers;
mod kafka;
mod mariadb;
mod mongodb;
mod mosquitto;
mod mysql;
mod nats;
pub mod odd;
mod otlp;
mod place;
mod ports;
mod postgres;
mod pushgateway;
mod rabbitmq;
mod ready;
mod redis;
mod running;
mod s3;
pub mod sample;
mod schema_registry;
mod shared;
mod smtp;
mod sql;
mod tool;
mod wheel;
mod wso2;

pub use error::Error;
pub use gateway_peers::{bun, nginx_with_nchan, wrk};
pub use mongodb::pymongo;
pub use place::{Place, cache};
pub use ports::free_port;
pub use running::Running;
pub use rustix::process::Signal as StopSignal;
pub use schema_registry::java as avro_tools;
pub use shared::{Lent, lent, shared};
pub use sql::sql;
pub use tool::{answers, run, under, version_line};
pub use wheel::{wheel, wheel_or_skip};
pub use wso2::{wso2_agent_config, wso2_agent_or_skip, wso2_receiver_or_skip};

use std::path::Path;
use std::process::Command;

/// All servers, sorted by name.
pub const SERVERS: &[&dyn Recipe] = &[
    &dovecot::DOVECOT,
    &kafka::KAFKA,
    &mariadb::MARIADB,
    &mongodb::MONGODB,
    &mosquitto::MOSQUITTO,
    &mysql::MYSQL,
    &nats::NATS,
    &otlp::OTLP,
    &postgres::POSTGRES,
    &pushgateway::PUSHGATEWAY,
    &rabbitmq::RABBITMQ,
    &redis::REDIS,
    &s3::MOTO,
    &schema_registry::SCHEMA_REGISTRY,
    &smtp::SMTP,
];

/// How a server is installed, started and asked whether it is ready.
pub trait Recipe: Sync {
    fn name(&self) -> &'static str;

    /// One line of help.
    fn about(&self) -> &'static str;

    /// Debian packages that it and its independent client come from.
    fn packages(&self) -> &'static [&'static str];

    /// Fetches or makes what is the same for every run, into a folder that is kept. It is called once
    /// a [`Recipe::edition`].
    ///
    /// # Errors
    /// [`Error::Missing`] where this machine lacks something: tests are then skipped.
    fn install(&self, into: &Path) -> Result<(), Error>;

    /// Tells one installation from another, as part of a folder's name: change it when
    /// [`Recipe::install`] does something else.
    fn edition(&self) -> &'static str;

    /// What the server calls itself, with its version.
    ///
    /// # Errors
    /// The same as those of [`Recipe::install`].
    fn version(&self, installed: &Path) -> Result<String, Error>;

    /// The account that it runs as, and that owns its folder, when we are root: for servers that
    /// refuse to run as root. Its package has made it.
    fn account(&self) -> Option<&'static str> {
        None
    }

    /// Prepares the data folder, which is empty at the first start and holds the data at a restart,
    /// and gives the command that runs in the foreground.
    ///
    /// # Errors
    /// What went wrong, in words.
    fn launch(&self, place: &Place) -> Result<Command, Error>;

    /// Does it answer? Asked again and again until it does; the words say what is amiss.
    ///
    /// # Errors
    /// Why it is not ready yet.
    fn ready(&self, place: &Place) -> Result<(), String>;

    /// Settings of the servers that tests share, see [`shared`].
    fn for_tests(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// What ends it in order.
    fn stop_signal(&self) -> StopSignal {
        StopSignal::TERM
    }

    /// What a client needs to reach it: `host:port`, or a URL.
    fn endpoint(&self, place: &Place) -> String {
        format!("127.0.0.1:{}", place.port())
    }
}

/// The server of this name.
pub fn find(name: &str) -> Option<&'static dyn Recipe> {
    SERVERS.iter().copied().find(|recipe| recipe.name() == name)
}

/// What is ordered of a server.
#[derive(Clone, Debug, Default)]
pub struct Order {
    pub(crate) port: Option<u16>,
    pub(crate) settings: Vec<(String, String)>,
}

impl Order {
    /// A server with the settings of its recipe, on a free port.
    pub fn new() -> Order {
        Order::default()
    }

    pub fn port(mut self, port: u16) -> Order {
        self.port = Some(port);
        self
    }

    /// A line of the server's own configuration, or what its recipe calls so.
    pub fn with(mut self, key: &str, value: &str) -> Order {
        self.settings.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Starts the server and waits until it is ready.
    ///
    /// # Errors
    /// [`Error::Missing`] says what to install; anything else that the server does not start.
    pub fn start(&self, name: &str) -> Result<Running, Error> {
        let recipe = find(name).ok_or_else(|| Error::unknown(name))?;
        Running::start(recipe, self)
    }

    /// As [`Order::start`], for tests: where the machine lacks something, the test says so and is
    /// skipped, unless `HEADWATER_SERVERS=required` asks for all of them.
    ///
    /// # Panics
    /// When the server is there and does not start, with its log.
    pub fn start_or_skip(&self, name: &str) -> Option<Running> {
        match self.start(name) {
            Ok(running) => Some(running),
            Err(error @ Error::Missing { .. }) if !is_required() => {
                tool::say(&format!("skipped: no server '{name}': {error}"));
                None
            }
            Err(error) => panic!("server '{name}' does not start: {error}"),
        }
    }
}

/// Can the server be had? For tests of programs that start it themselves: where the machine lacks
/// something, that is reported as by [`Order::start_or_skip`].
///
/// # Panics
/// It cannot be installed, or `HEADWATER_SERVERS=required` asks for it.
pub fn is_there_or_skip(name: &str) -> bool {
    let recipe = find(name).ok_or_else(|| Error::unknown(name));
    match recipe.and_then(install) {
        Ok(_) => true,
        Err(error @ Error::Missing { .. }) if !is_required() => {
            tool::say(&format!("skipped: no server '{name}': {error}"));
            false
        }
        Err(error) => panic!("server '{name}' cannot be had: {error}"),
    }
}

fn is_required() -> bool {
    std::env::var_os("HEADWATER_SERVERS").is_some_and(|value| value == "required")
}

/// Installs what a server needs, unless it is there, and says its version.
///
/// # Errors
/// Those of [`Recipe::install`].
pub fn install(recipe: &dyn Recipe) -> Result<String, Error> {
    recipe.version(&place::installed(recipe)?)
}
