//! Standard output, standard error, colours and logs.

use std::io::{self, IsTerminal, Write};

use tracing_subscriber::EnvFilter;

use crate::cli::{Color, OutputArgs};

/// How this run of the binary talks.
pub struct Output {
    /// Colours on standard error.
    pub colour: bool,
    pub is_quiet: bool,
}

impl Output {
    /// Sets up logs as well: warnings and errors unless `-v` or `-q` say otherwise;
    /// `HEADWATER_LOG` overrides (`info`, `headwater_connect=debug`).
    pub fn new(args: OutputArgs) -> Output {
        let colour = match args.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                let no_color = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
                !no_color && io::stderr().is_terminal()
            }
        };
        let level = match (args.quiet, args.verbose) {
            (true, _) => "error",
            (_, 0) => "warn",
            (_, 1) => "info",
            _ => "debug",
        };
        let filter =
            EnvFilter::try_from_env("HEADWATER_LOG").unwrap_or_else(|_| EnvFilter::new(level));
        // A subscriber is set once per process; tests of the binary may have set theirs.
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(io::stderr)
            .with_ansi(colour)
            .with_target(false)
            .without_time()
            .try_init()
            .ok();
        Output {
            colour,
            is_quiet: args.quiet,
        }
    }

    /// What was asked for. A reader that has gone (`| head`) is no fault.
    pub fn print(&self, text: &str) -> anyhow::Result<()> {
        let mut out = io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(()),
        }
    }

    pub fn print_json(&self, value: &serde_json::Value) -> anyhow::Result<()> {
        self.print(&format!("{value}\n"))
    }

    /// One line of standard error.
    pub fn say(&self, text: &str) {
        // Nobody is left to tell when standard error cannot be written.
        writeln!(io::stderr().lock(), "{text}").ok();
    }

    pub fn error(&self, text: &str) {
        let mark = if self.colour {
            "\u{1b}[1;31merror\u{1b}[0m"
        } else {
            "error"
        };
        self.say(&format!("{mark}: {text}"));
    }
}
