//! A database's own client that stays connected: a question a line, an answer a line.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, ensure};

pub struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Client {
    /// `server` is the name of a recipe.
    pub fn connect(server: &str, port: u16) -> anyhow::Result<Client> {
        let port = port.to_string();
        let mut command = match server {
            "postgres" => {
                let mut command = Command::new("psql");
                command.env("PGPASSWORD", "headwater");
                command.args(["-X", "-q", "-t", "-A", "-F", ",", "-v", "ON_ERROR_STOP=1"]);
                command.args(["-h", "127.0.0.1", "-U", "headwater", "-p", &port]);
                command
            }
            _ => {
                let mut command = Command::new("mariadb");
                command.args(["--no-defaults", "-h127.0.0.1", "-uheadwater", "-pheadwater"]);
                command.args(["--unbuffered", "-N", "-B", "-P", &port]);
                command
            }
        };
        let mut child = command
            .arg("headwater")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("the database's own client is needed")?;
        let output = child.stdout.take().context("the client has no output")?;
        Ok(Client {
            input: child.stdin.take(),
            output: BufReader::new(output),
            child,
        })
    }

    /// Runs a statement that answers nothing.
    pub fn tell(&mut self, sql: &str) -> anyhow::Result<()> {
        let input = self.input.as_mut().context("the client has ended")?;
        writeln!(input, "{sql};").context("the database's client has gone")?;
        Ok(input.flush()?)
    }

    /// The only row of a query.
    pub fn ask(&mut self, sql: &str) -> anyhow::Result<String> {
        self.tell(sql)?;
        let mut line = String::new();
        let read = self.output.read_line(&mut line)?;
        ensure!(read > 0, "the database's client has gone");
        Ok(line.trim().to_owned())
    }

    /// Everything that it was told is done.
    pub fn end(mut self) -> anyhow::Result<()> {
        drop(self.input.take());
        let status = self.child.wait()?;
        ensure!(status.success(), "the database's client: {status}");
        Ok(())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // One that has ended is gone already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
