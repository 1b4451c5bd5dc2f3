//! The push gateway of Prometheus. Settings of an order are ignored.

use std::path::Path;
use std::process::Command;

use crate::debian::program;
use crate::ready::answers_with;
use crate::{Error, Place, Recipe};

pub(crate) const PUSHGATEWAY: Pushgateway = Pushgateway;

pub(crate) struct Pushgateway;

const PROGRAM: &str = "prometheus-pushgateway";

impl Recipe for Pushgateway {
    fn name(&self) -> &'static str {
        "pushgateway"
    }

    fn about(&self) -> &'static str {
        "the push gateway of Prometheus"
    }

    fn packages(&self) -> &'static [&'static str] {
        &[PROGRAM]
    }

    fn edition(&self) -> &'static str {
        "debian"
    }

    fn install(&self, _into: &Path) -> Result<(), Error> {
        program(PROGRAM, PROGRAM).map(|_| ())
    }

    fn version(&self, _installed: &Path) -> Result<String, Error> {
        let mut command = Command::new(program(PROGRAM, PROGRAM)?);
        let output = command.arg("--version").output();
        let output = output.map_err(|e| Error::failed("the push gateway does not start", e))?;
        // Which of the two it writes to depends on its version.
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        Ok(text.lines().next().unwrap_or_default().trim().to_owned())
    }

    fn launch(&self, place: &Place) -> Result<Command, Error> {
        let mut command = Command::new(program(PROGRAM, PROGRAM)?);
        command.arg(format!("--web.listen-address=127.0.0.1:{}", place.port()));
        Ok(command)
    }

    fn ready(&self, place: &Place) -> Result<(), String> {
        let question = b"GET /-/ready HTTP/1.0\r\n\r\n";
        answers_with(place, question, &[b"HTTP/1.0 200", b"HTTP/1.1 200"])
    }

    fn endpoint(&self, place: &Place) -> String {
        format!("http://127.0.0.1:{}", place.port())
    }
}
