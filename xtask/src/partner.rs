//! A process that answers each line with a line: the oracle's JVM, and our engine where it may
//! break.
//!
//! Promises: an answer comes within the time that is given for it, or it is said why not; the
//! process is gone with its [`Partner`].

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;

pub struct Partner {
    process: Child,
    questions: ChildStdin,
    answers: Receiver<String>,
    /// Reads what it complains of, and gives the last line.
    complaints: Option<JoinHandle<String>>,
}

/// Why there is no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Silence {
    /// The time is over; the process is busy and of no use any more.
    Late,
    /// The process ended: what it said at last, or how it ended.
    Ended(String),
}

impl Partner {
    /// # Errors
    /// If the process cannot be started.
    pub fn start(command: &mut Command) -> anyhow::Result<Partner> {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let questions = process.stdin.take().context("no way to ask")?;
        let lines = BufReader::new(process.stdout.take().context("no way to hear")?).lines();
        let (said, answers) = sync_channel(1);
        // It ends with the process, or with the partner that nobody listens to any more.
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if said.send(line).is_err() {
                    return;
                }
            }
        });
        let complaints = BufReader::new(process.stderr.take().context("no way to hear")?);
        let complaints = std::thread::spawn(move || {
            let lines = complaints.lines().map_while(Result::ok);
            let said = lines.filter(|line| !line.trim().is_empty());
            said.last().unwrap_or_default()
        });
        Ok(Partner {
            process,
            questions,
            answers,
            complaints: Some(complaints),
        })
    }

    /// # Errors
    /// If there is no answer; then the partner is to be given up.
    pub fn ask(&mut self, question: &str, within: Duration) -> Result<String, Silence> {
        let asked = writeln!(self.questions, "{question}").and_then(|()| self.questions.flush());
        if asked.is_err() {
            return Err(self.ended());
        }
        match self.answers.recv_timeout(within) {
            Ok(answer) => Ok(answer),
            Err(RecvTimeoutError::Timeout) => Err(Silence::Late),
            Err(RecvTimeoutError::Disconnected) => Err(self.ended()),
        }
    }

    fn ended(&mut self) -> Silence {
        // It hears no more and says no more: what is left of it is ended too.
        let _ = self.process.kill();
        let how = match self.process.wait() {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        let complaints = self.complaints.take().map(JoinHandle::join);
        match complaints {
            Some(Ok(last)) if !last.is_empty() => Silence::Ended(last),
            _ => Silence::Ended(how),
        }
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        // It may have ended by itself, and nothing hangs on how.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Partner {
        Partner::start(Command::new("sh").args(["-c", script])).unwrap()
    }

    #[test]
    fn a_line_is_answered_by_a_line() {
        let mut cat = shell("cat");
        let within = Duration::from_secs(20);
        assert_eq!(cat.ask("one", within), Ok("one".to_owned()));
        assert_eq!(cat.ask("two", within), Ok("two".to_owned()));
    }

    #[test]
    fn the_last_words_of_a_process_are_the_reason() {
        let mut broken = shell("read line; echo 'out of memory' >&2; exit 3");
        let within = Duration::from_secs(20);
        let silence = Silence::Ended("out of memory".to_owned());
        assert_eq!(broken.ask("one", within), Err(silence));
    }

    #[test]
    fn who_does_not_answer_is_late() {
        let mut deaf = shell("sleep 600");
        assert_eq!(
            deaf.ask("one", Duration::from_millis(20)),
            Err(Silence::Late)
        );
    }
}
