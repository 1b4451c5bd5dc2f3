//! RabbitMQ.
//!
//! Settings of an order are lines of `rabbitmq.conf`; `user` is a `name:password` that alone is let
//! in, and `tls` a PEM file with key and certificate, by which the port speaks TLS.
//!
//! Erlang's port mapper runs on a port of its own beside each server, and ends with it: one that is
//! shared would be left over.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::debian::program;
use crate::ready::listens;
use crate::{Error, Place, Recipe, free_port, run};

pub(crate) const RABBITMQ: RabbitMq = RabbitMq;

pub(crate) struct RabbitMq;

const PACKAGE: &str = "rabbitmq-server";

/// Below the one that the package puts on the path, which changes the account.
const SCRIPT: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";

impl Recipe for RabbitMq {
    fn name(&self) -> &'static str {
        "rabbitmq"
    }

    fn about(&self) -> &'static str {
        "RabbitMQ, a broker of AMQP 0-9-1"
    }

    fn packages(&self) -> &'static [&'static str] {
        &[PACKAGE, "amqp-tools"]
    }

    fn edition(&self) -> &'static str {
        "debian"
    }

    fn install(&self, _into: &Path) -> Result<(), Error> {
        program("amqp-publish", "amqp-tools")?;
        script().map(|_| ())
    }

    fn version(&self, _installed: &Path) -> Result<String, Error> {
        script()?;
        let mut ask = Command::new("dpkg-query");
        let version = run(ask.args(["-W", "-f", "${Version}", PACKAGE]))?;
        Ok(format!("RabbitMQ {version}"))
    }

    fn launch(&self, place: &Place) -> Result<Command, Error> {
        let mut text = "loopback_users = none\nlog.console = true\nlog.file = false\n\
                        disk_free_limit.absolute = 100MB\n"
            .to_owned();
        let port = place.port();
        // Writing to a string cannot fail.
        match place.setting("tls") {
            None => writeln!(text, "listeners.tcp.1 = 127.0.0.1:{port}"),
            Some(file) => writeln!(
                text,
                "listeners.tcp = none\nlisteners.ssl.1 = 127.0.0.1:{port}\n\
                 ssl_options.certfile = {file}\nssl_options.keyfile = {file}\n\
                 ssl_options.cacertfile = {file}"
            ),
        }
        .ok();
        if let Some((name, password)) = place.setting("user").and_then(|u| u.split_once(':')) {
            writeln!(text, "default_user = {name}\ndefault_pass = {password}").ok();
        }
        let own = |key: &str| key != "user" && key != "tls";
        for (key, value) in place.settings().iter().filter(|(key, _)| own(key)) {
            writeln!(text, "{key} = {value}").ok();
        }
        let configuration = place.write("rabbitmq.conf", &text)?;
        let plugins = place.write("enabled_plugins", "[].\n")?;
        // The mapper is a child of what becomes the server, and ends with it.
        let start = format!(
            "setpriv --pdeathsig KILL epmd -address 127.0.0.1 -port {} & exec {SCRIPT}",
            place.inner_port()
        );
        let mut command = Command::new("sh");
        command
            .args(["-c", &start])
            .env("HOME", place.folder())
            .env("ERL_EPMD_PORT", place.inner_port().to_string())
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            // The script then becomes the server instead of watching over it.
            .env("RUNNING_UNDER_SYSTEMD", "true")
            .env("RABBITMQ_NODENAME", format!("test{port}@localhost"))
            .env("RABBITMQ_DIST_PORT", free_port()?.to_string())
            .env(
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
                "-kernel inet_dist_use_interface {127,0,0,1}",
            )
            .env("RABBITMQ_CONFIG_FILE", configuration)
            .env("RABBITMQ_CONF_ENV_FILE", place.folder().join("none"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", plugins)
            .env("RABBITMQ_MNESIA_BASE", place.data())
            .env("RABBITMQ_LOG_BASE", place.folder())
            .env("RABBITMQ_PID_FILE", place.folder().join("pid"));
        Ok(command)
    }

    fn ready(&self, place: &Place) -> Result<(), String> {
        // It listens when all the rest is there.
        listens(place)
    }
}

fn script() -> Result<PathBuf, Error> {
    program("epmd", PACKAGE)?;
    let script = PathBuf::from(SCRIPT);
    match fs::exists(&script) {
        Ok(true) => Ok(script),
        _ => Err(Error::missing(
            format!("there is no '{SCRIPT}'"),
            format!("apt-get install {PACKAGE} brings it"),
        )),
    }
}
