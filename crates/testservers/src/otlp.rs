//! A collector of OpenTelemetry that only reads: what is pushed to it is decoded by the official messages
//! for Python, from PyPI, and given back as JSON. `GET /v1/metrics`, `/v1/logs` and `/v1/traces` answer a
//! list of all requests so far.

use std::path::Path;
use std::process::Command;

use crate::debian::program;
use crate::ready::listens;
use crate::{Error, Place, Recipe, run};

pub(crate) const OTLP: Otlp = Otlp;

pub(crate) struct Otlp;

const PACKAGE: &str = "python3-pip";

const VERSION: &str = "1.45.2";

/// Decodes with the official messages; a body that they refuse is answered with 400.
const COLLECTOR: &str = include_str!("otlp.py");

impl Recipe for Otlp {
    fn name(&self) -> &'static str {
        "otlp"
    }

    fn about(&self) -> &'static str {
        "a collector that decodes with opentelemetry-proto 1.45.2, from PyPI"
    }

    fn packages(&self) -> &'static [&'static str] {
        &["python3", PACKAGE]
    }

    fn edition(&self) -> &'static str {
        VERSION
    }

    fn install(&self, into: &Path) -> Result<(), Error> {
        run(Command::new(program("python3", "python3")?)
            .args(["-m", "pip", "install", "--quiet", "--target"])
            .arg(into.join("lib"))
            .arg(format!("opentelemetry-proto=={VERSION}")))
        .map_err(|error| {
            let what = format!("opentelemetry-proto cannot be fetched from PyPI: {error}");
            let remedy = format!("apt-get install {PACKAGE}, and connect this machine to it");
            Error::missing(what, remedy)
        })?;
        Ok(())
    }

    fn version(&self, installed: &Path) -> Result<String, Error> {
        match installed.join("lib/opentelemetry/proto").is_dir() {
            true => Ok(format!("opentelemetry-proto {VERSION}")),
            false => Err(Error::failed(
                "the installation is not whole",
                "lib/opentelemetry/proto",
            )),
        }
    }

    fn launch(&self, place: &Place) -> Result<Command, Error> {
        let mut command = Command::new(program("python3", "python3")?);
        command
            .env("PYTHONPATH", place.installed().join("lib"))
            .args(["-c", COLLECTOR])
            .arg(place.port().to_string());
        Ok(command)
    }

    fn ready(&self, place: &Place) -> Result<(), String> {
        listens(place)
    }

    fn endpoint(&self, place: &Place) -> String {
        format!("http://127.0.0.1:{}", place.port())
    }
}
