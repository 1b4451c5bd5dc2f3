//! `headwater sql`: statements over the tables of an event store, in its folder or through a server.

mod jobs;
mod script;

use std::io::{BufRead as _, IsTerminal as _, Read as _, Write};
use std::path::Path;

use anyhow::Context as _;
use serde_json::Value as Json;
use server::Error;
use server::client::{Client, Reply};
use server::statements::statements;

use super::query::answer_text;
use super::reply::print_reply;
use crate::cli::sql::{SqlArgs, SqlOutput};
use crate::output::Output;
use crate::sql::Folder;

/// Bytes of a text.
const TEXT_MAX: u64 = 1 << 20;

pub fn run(args: &SqlArgs, output: &Output) -> anyhow::Result<u8> {
    if let (Some(script), Some(dir)) = (&args.script, &args.store) {
        return script::run(args, script, dir, output);
    }
    if let Some(code) = jobs::run(args, output)? {
        return Ok(code);
    }
    let asked = match &args.store {
        Some(dir) => Asked::Folder(Folder::open(dir, args)?),
        None => Asked::Server(args.server.client()?),
    };
    let session = Session {
        asked,
        format: args.output(),
        output,
    };
    match (args.sql.as_deref(), &args.file) {
        (Some("-"), _) => session.standard_input(),
        (Some(text), _) => session.run("statement", text),
        (None, Some(file)) => session.run(&file.display().to_string(), &read(file)?),
        (None, None) if std::io::stdin().is_terminal() => session.shell(),
        (None, None) => session.standard_input(),
    }
}

fn read(file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file).map_err(|cause| {
        let message = format!("cannot read '{}': {cause}", file.display());
        Error::Usage(message).into()
    })
}

/// Who answers.
enum Asked {
    Folder(Folder),
    Server(Client),
}

struct Session<'a> {
    asked: Asked,
    format: SqlOutput,
    output: &'a Output,
}

impl Session<'_> {
    fn standard_input(&self) -> anyhow::Result<u8> {
        let mut text = String::new();
        let mut input = std::io::stdin().take(TEXT_MAX + 1);
        input
            .read_to_string(&mut text)
            .context("cannot read standard input")?;
        self.run("standard input", &text)
    }

    /// Answers the statements of a text one after the other, up to the first that has no answer; the exit code.
    fn run(&self, name: &str, text: &str) -> anyhow::Result<u8> {
        let found = statements(text);
        if found.is_empty() {
            return Err(Error::Usage(format!("{name}: there is no statement")).into());
        }
        let is_one = matches!(self.format, SqlOutput::Arrow | SqlOutput::Parquet);
        if is_one && found.len() > 1 {
            let message =
                "this format holds the answer of one statement: give one, or use another format";
            return Err(Error::Usage(message.to_owned()).into());
        }
        for statement in found {
            let sql = alone(text, statement);
            if let Some(refused) = self.answer(name, &sql)? {
                let as_json = self.format == SqlOutput::Json;
                return print_reply(refused, as_json, answer_text, self.output);
            }
        }
        Ok(0)
    }

    /// Prints the answer of one statement, or gives the reason why there is none.
    fn answer(&self, name: &str, sql: &str) -> anyhow::Result<Option<Reply>> {
        if matches!(self.format, SqlOutput::Table | SqlOutput::Json) {
            let mut whole = Vec::new();
            let refused = self.ask(name, sql, &mut |block| {
                whole.extend_from_slice(block);
                true
            })?;
            if refused.is_none() {
                let json: Json =
                    serde_json::from_slice(&whole).context("the answer is not JSON")?;
                let reply = Reply { status: 200, json };
                let as_json = self.format == SqlOutput::Json;
                print_reply(reply, as_json, answer_text, self.output)?;
            }
            return Ok(refused);
        }
        let mut out = self.output.lines();
        let mut written = Ok(());
        let refused = self.ask(name, sql, &mut |block| {
            written = out.write_all(block);
            written.is_ok()
        })?;
        match written.and_then(|()| out.flush()) {
            // A reader that has gone (`| head`) is no fault.
            Err(cause) if cause.kind() != std::io::ErrorKind::BrokenPipe => Err(cause.into()),
            _ => Ok(refused),
        }
    }

    fn ask(
        &self,
        name: &str,
        sql: &str,
        write: &mut dyn FnMut(&[u8]) -> bool,
    ) -> anyhow::Result<Option<Reply>> {
        match &self.asked {
            Asked::Folder(folder) => {
                Ok(folder.ask(name, sql, self.format, self.output.colour, write))
            }
            Asked::Server(client) => Ok(client.sql(sql, kind(self.format), write)?),
        }
    }

    /// Statements that are typed, each up to its semicolon.
    fn shell(&self) -> anyhow::Result<u8> {
        self.output
            .say("a statement ends with ';'. 'show tables;' lists the tables, Ctrl-D ends");
        let mut text = String::new();
        let mut lines = std::io::stdin().lock().lines();
        loop {
            let prompt = if text.is_empty() { "sql> " } else { "...> " };
            let mut terminal = std::io::stderr().lock();
            // Nobody is left to tell when standard error cannot be written.
            write!(terminal, "{prompt}")
                .and_then(|()| terminal.flush())
                .ok();
            drop(terminal);
            let Some(line) = lines.next() else {
                self.output.say("");
                return Ok(0);
            };
            let line = line.context("cannot read standard input")?;
            if text.is_empty() && ["exit", "quit", "\\q"].contains(&line.trim()) {
                return Ok(0);
            }
            text.push_str(&line);
            text.push('\n');
            if text.trim().is_empty() {
                text.clear();
            } else if line.trim_end().ends_with(';') {
                // What is wrong has been shown; the next statement may be right.
                if let Err(error) = self.run("statement", &text) {
                    self.output.error(&format!("{error:#}"));
                }
                text.clear();
            }
        }
    }
}

/// A statement of a text at the place where it is, without those before it.
fn alone(text: &str, statement: std::ops::Range<usize>) -> String {
    let before = text[..statement.start].chars();
    let mut alone: String = before.map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
    alone.push_str(&text[statement]);
    alone
}

/// What a server is asked for.
fn kind(format: SqlOutput) -> &'static str {
    match format {
        SqlOutput::Table | SqlOutput::Json => "application/json",
        SqlOutput::Ndjson => "application/x-ndjson",
        SqlOutput::Csv => "text/csv",
        SqlOutput::Arrow => "application/vnd.apache.arrow.stream",
        SqlOutput::Parquet => "application/vnd.apache.parquet",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_keeps_its_place_without_the_others() {
        let text = "select 'ä';\n select 2;\nselect 3";
        let alone: Vec<String> = statements(text)
            .into_iter()
            .map(|statement| alone(text, statement))
            .collect();
        let space = " ".repeat("select 'ä';".chars().count());
        let second = format!("{space}\n select 2");
        let blank = " ".repeat(" select 2;".len());
        let third = format!("{space}\n{blank}\nselect 3");
        assert_eq!(alone, ["select 'ä'".to_owned(), second, third]);
    }
}
