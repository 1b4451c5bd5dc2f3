//! Redis, which writes every change to disk before it answers.
//!
//! Settings of an order: `password` is one that clients must know.

use std::path::Path;
use std::process::Command;

use crate::debian::program;
use crate::ready::answers_with;
use crate::{Error, Place, Recipe, version_line};

pub(crate) const REDIS: Redis = Redis;

pub(crate) struct Redis;

const PROGRAM: &str = "redis-server";

impl Recipe for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn about(&self) -> &'static str {
        "Redis, a server of data structures"
    }

    fn packages(&self) -> &'static [&'static str] {
        &[PROGRAM, "redis-tools"]
    }

    fn edition(&self) -> &'static str {
        "debian"
    }

    fn install(&self, _into: &Path) -> Result<(), Error> {
        program("redis-cli", "redis-tools")?;
        program(PROGRAM, PROGRAM).map(|_| ())
    }

    fn version(&self, _installed: &Path) -> Result<String, Error> {
        let program = program(PROGRAM, PROGRAM)?;
        version_line(&program.to_string_lossy(), &["--version"])
    }

    fn launch(&self, place: &Place) -> Result<Command, Error> {
        let mut text = format!(
            "bind 127.0.0.1\nport {}\ndir \"{}\"\nsave \"\"\nappendonly yes\nappendfsync always\n",
            place.port(),
            place.data().display()
        );
        if let Some(password) = place.setting("password") {
            text.push_str(&format!("requirepass \"{password}\"\n"));
        }
        let file = place.write("redis.conf", &text)?;
        let mut command = Command::new(program(PROGRAM, PROGRAM)?);
        command.arg(file);
        Ok(command)
    }

    fn ready(&self, place: &Place) -> Result<(), String> {
        answers_with(place, b"PING\r\n", &[b"+PONG\r\n", b"-NOAUTH"])
    }
}
