//! Moto, which speaks S3 and SQS, from PyPI; boto3, Amazon's own client, lies beside it in `lib`.
//!
//! It keeps objects in memory: they go with it. Settings of an order: `tls` is a PEM file with key and
//! certificate, by which the port speaks TLS.

use std::path::Path;
use std::process::Command;

use crate::debian::program;
use crate::ready::listens;
use crate::{Error, Place, Recipe, run};

pub(crate) const MOTO: Moto = Moto;

pub(crate) struct Moto;

const PACKAGE: &str = "python3-pip";

const VERSION: &str = "5.2.5";

impl Recipe for Moto {
    fn name(&self) -> &'static str {
        "s3"
    }

    fn about(&self) -> &'static str {
        "Moto 5.2.5, which speaks S3 and SQS, from PyPI"
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
            .arg(format!("moto[s3]=={VERSION}"))
            .args(["flask", "flask-cors"]))
        .map_err(|error| {
            let what = format!("Moto cannot be fetched from PyPI: {error}");
            let remedy = format!("apt-get install {PACKAGE}, and connect this machine to it");
            Error::missing(what, remedy)
        })?;
        Ok(())
    }

    fn version(&self, installed: &Path) -> Result<String, Error> {
        match installed.join("lib/moto/server.py").is_file() {
            true => Ok(format!("Moto {VERSION}")),
            false => Err(Error::failed("the installation is not whole", "lib/moto")),
        }
    }

    fn launch(&self, place: &Place) -> Result<Command, Error> {
        let mut command = Command::new(program("python3", "python3")?);
        command
            .env("PYTHONPATH", place.installed().join("lib"))
            .args(["-m", "moto.server", "-H", "127.0.0.1", "-p"])
            .arg(place.port().to_string());
        if let Some(pem) = place.setting("tls") {
            command.args(["-c", pem, "-k", pem]);
        }
        Ok(command)
    }

    fn ready(&self, place: &Place) -> Result<(), String> {
        listens(place)
    }
}
