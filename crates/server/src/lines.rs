//! Standard output: the lines of log sinks and `#log`, in the order of events.

use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How lines are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LineFormat {
    Text,
    /// `{"type":"log","text":…}`, one object a line.
    Json,
}

/// Where lines go; one per server, shared by its apps.
pub struct Lines {
    state: Mutex<State>,
    format: LineFormat,
}

struct State {
    out: Box<dyn Write + Send>,
    /// Whoever read has gone; what they would have read is dropped.
    is_broken: bool,
    has_unflushed: bool,
}

impl State {
    fn broke(&mut self, cause: &std::io::Error) {
        if !std::mem::replace(&mut self.is_broken, true) {
            tracing::warn!(
                %cause,
                "standard output cannot be written; dropping the lines of log sinks, everything \
                 else goes on"
            );
        }
    }
}

impl Lines {
    /// `out` should be buffered: [`Lines::flush`] is called whenever an executor has nothing to do.
    pub fn new(out: Box<dyn Write + Send>, format: LineFormat) -> Lines {
        Lines {
            state: Mutex::new(State {
                out,
                is_broken: false,
                has_unflushed: false,
            }),
            format,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn put(&self, line: &str) {
        let mut state = self.lock();
        if state.is_broken {
            return;
        }
        let written = match self.format {
            LineFormat::Text => state
                .out
                .write_all(line.as_bytes())
                .and_then(|()| state.out.write_all(b"\n")),
            LineFormat::Json => {
                let object = serde_json::json!({"type": "log", "text": line});
                writeln!(state.out, "{object}")
            }
        };
        if let Err(cause) = written {
            state.broke(&cause);
        }
        state.has_unflushed = true;
    }

    pub fn flush(&self) {
        let mut state = self.lock();
        if std::mem::take(&mut state.has_unflushed)
            && let Err(cause) = state.out.flush()
        {
            state.broke(&cause);
        }
    }
}
