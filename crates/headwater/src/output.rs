//! Standard output, standard error, colours and logs.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::ProgressBar;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use server::secrets::Hidden;

use crate::args::{Color, OutputArgs};
use crate::log::{LogExport, LogLayer};

/// A terminal with a progress bar on its last line: whoever writes to it takes the bar away first.
#[derive(Clone, Default)]
pub struct Console(Arc<Mutex<Option<ProgressBar>>>);

impl Console {
    pub fn set_bar(&self, bar: Option<ProgressBar>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = bar;
    }

    pub fn without_bar<T>(&self, write: impl FnOnce() -> T) -> T {
        let bar = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match bar.as_ref() {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }
}

/// Standard output or standard error beside a progress bar.
pub struct BesideBar<W> {
    console: Console,
    out: W,
}

impl<W: Write> Write for BesideBar<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let out = &mut self.out;
        self.console.without_bar(|| out.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// How this run of the binary talks.
pub struct Output {
    pub console: Console,
    /// Colours on standard error.
    pub colour: bool,
    pub is_quiet: bool,
    pub is_verbose: bool,
    /// Where the lines of the log go as well.
    pub log_export: LogExport,
    /// Values of the key store: nothing that is said or printed has them.
    pub hidden: Hidden,
}

impl Output {
    /// Sets up logs as well: what needs someone to act and, of a server, what starts and stops, unless
    /// `-v` or `-q` say otherwise; `HEADWATER_LOG` overrides (`info`, `headwater_connect=debug`).
    pub fn new(args: OutputArgs, is_server: bool) -> Output {
        let colour = match args.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                let no_color = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
                !no_color && io::stderr().is_terminal()
            }
        };
        let level = match (args.quiet, args.verbose) {
            (true, _) => "warn",
            (_, 0) if is_server => "warn,headwater=info",
            (_, 0) => "warn",
            (_, 1) => "info,headwater=debug",
            _ => "debug,headwater=trace",
        };
        // What lapin meets is said once, by its connector.
        let filter = |wanted: &str| EnvFilter::try_new(format!("lapin=off,{wanted}"));
        let filter = std::env::var("HEADWATER_LOG")
            .ok()
            .and_then(|wanted| filter(&wanted).ok())
            .unwrap_or_else(|| EnvFilter::new(format!("lapin=off,{level}")));
        let console = Console::default();
        let log_export = LogExport::default();
        let hidden = Hidden::default();
        let log = LogLayer {
            console: console.clone(),
            format: args.log_format,
            colour,
            export: LogExport::clone(&log_export),
            hidden: hidden.clone(),
        };
        // A subscriber is set once per process; tests of the binary may have set theirs.
        tracing_subscriber::registry()
            .with(log.with_filter(filter))
            .try_init()
            .ok();
        Output {
            console,
            colour,
            is_quiet: args.quiet,
            is_verbose: args.verbose > 0,
            log_export,
            hidden,
        }
    }

    /// Standard output for many lines.
    pub fn lines(&self) -> impl Write + Send + use<> {
        io::BufWriter::new(BesideBar {
            console: self.console.clone(),
            out: io::stdout(),
        })
    }

    /// What was asked for. A reader that has gone (`| head`) is no fault.
    pub fn print(&self, text: &str) -> anyhow::Result<()> {
        let text = self.hidden.hide(text);
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
        let text = self.hidden.hide(text);
        // Nobody is left to tell when standard error cannot be written.
        self.console
            .without_bar(|| writeln!(io::stderr().lock(), "{text}").ok());
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
