//! Eclipse Mosquitto, the MQTT broker.
//!
//! Settings of an order are lines of `mosquitto.conf`; `user` is a `name:password` that alone is let
//! in, and `tls` a PEM file with key and certificate, by which the port speaks TLS.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use crate::debian::program;
use crate::ready::listens;
use crate::{Error, Place, Recipe, run};

pub(crate) const MOSQUITTO: Mosquitto = Mosquitto;

pub(crate) struct Mosquitto;

impl Recipe for Mosquitto {
    fn name(&self) -> &'static str {
        "mosquitto"
    }

    fn about(&self) -> &'static str {
        "Eclipse Mosquitto, an MQTT broker"
    }

    fn packages(&self) -> &'static [&'static str] {
        &["mosquitto", "mosquitto-clients"]
    }

    fn edition(&self) -> &'static str {
        "debian"
    }

    fn install(&self, _into: &Path) -> Result<(), Error> {
        program("mosquitto", "mosquitto")?;
        program("mosquitto_pub", "mosquitto-clients").map(|_| ())
    }

    fn version(&self, _installed: &Path) -> Result<String, Error> {
        let program = program("mosquitto", "mosquitto")?;
        // It prints its help, and ends with 3.
        let output = Command::new(program).arg("-h").output();
        let text = output.map_err(|e| Error::failed("mosquitto does not start", e))?;
        let text = String::from_utf8_lossy(&text.stdout).into_owned();
        Ok(text.lines().next().unwrap_or_default().trim().to_owned())
    }

    fn launch(&self, place: &Place) -> Result<Command, Error> {
        let mut text = format!(
            "listener {} 127.0.0.1\nuser root\npersistence true\npersistence_location {}/\n\
             log_dest stderr\nmax_queued_messages 0\n",
            place.port(),
            place.data().display()
        );
        let user = place.setting("user").and_then(|user| user.split_once(':'));
        if let Some((name, password)) = user {
            let file = place.folder().join("users");
            let mut add = Command::new(program("mosquitto_passwd", "mosquitto")?);
            run(add.args(["-b", "-c"]).arg(&file).args([name, password]))?;
            // Writing to a string cannot fail.
            writeln!(text, "password_file {}", file.display()).ok();
        } else {
            text.push_str("allow_anonymous true\n");
        }
        if let Some(file) = place.setting("tls") {
            writeln!(text, "certfile {file}\nkeyfile {file}").ok();
        }
        let own = |key: &str| key != "user" && key != "tls";
        for (key, value) in place.settings().iter().filter(|(key, _)| own(key)) {
            writeln!(text, "{key} {value}").ok();
        }
        let file = place.write("mosquitto.conf", &text)?;
        let mut command = Command::new(program("mosquitto", "mosquitto")?);
        command.arg("-c").arg(file);
        Ok(command)
    }

    fn ready(&self, place: &Place) -> Result<(), String> {
        listens(place)
    }
}
