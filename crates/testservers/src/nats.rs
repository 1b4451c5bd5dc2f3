//! The NATS server, with JetStream.
//!
//! Settings of an order: `user` is a `name:password` and `token` a token that alone are let in, `tls`
//! a PEM file with key and certificate, `verify` one with the certificates that clients must show.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use crate::debian::program;
use crate::ready::answers_with;
use crate::{Error, Place, Recipe};

pub(crate) const NATS: Nats = Nats;

pub(crate) struct Nats;

impl Recipe for Nats {
    fn name(&self) -> &'static str {
        "nats"
    }

    fn about(&self) -> &'static str {
        "nats-server with JetStream"
    }

    fn packages(&self) -> &'static [&'static str] {
        &["nats-server"]
    }

    fn edition(&self) -> &'static str {
        "debian"
    }

    fn install(&self, _into: &Path) -> Result<(), Error> {
        program("nats-server", "nats-server").map(|_| ())
    }

    fn version(&self, _installed: &Path) -> Result<String, Error> {
        let program = program("nats-server", "nats-server")?;
        let text = crate::run(Command::new(program).arg("--version"))?;
        Ok(text.trim().to_owned())
    }

    fn launch(&self, place: &Place) -> Result<Command, Error> {
        let mut text = format!(
            "host: 127.0.0.1\nport: {}\njetstream {{ store_dir: \"{}\" }}\n",
            place.port(),
            place.data().display()
        );
        // Writing to a string cannot fail.
        if let Some((name, password)) = place.setting("user").and_then(|u| u.split_once(':')) {
            writeln!(
                text,
                "authorization {{ user: {name}, password: {password} }}"
            )
            .ok();
        }
        if let Some(token) = place.setting("token") {
            writeln!(text, "authorization {{ token: {token} }}").ok();
        }
        if let Some(file) = place.setting("tls") {
            let verify = place.setting("verify").map_or_else(String::new, |trusted| {
                format!(", ca_file: \"{trusted}\", verify: true")
            });
            writeln!(
                text,
                "tls {{ cert_file: \"{file}\", key_file: \"{file}\"{verify} }}"
            )
            .ok();
        }
        let file = place.write("nats.conf", &text)?;
        let mut command = Command::new(program("nats-server", "nats-server")?);
        command.arg("-c").arg(file);
        Ok(command)
    }

    fn ready(&self, place: &Place) -> Result<(), String> {
        // Also where it speaks TLS behind that.
        answers_with(place, b"", &[b"INFO "])
    }
}
