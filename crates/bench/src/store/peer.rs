//! DuckDB and Polars over the same files, as a Python program that stays for all questions.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::{Value as Json, json};

/// Peers by their wheels.
pub(super) const DUCKDB: &str = "DuckDB";
pub(super) const POLARS: &str = "Polars";

/// Answers each line `{"sql": …}` by `{"seconds": …, "cpu": …, "rows": [[…], …]}`. The table is called as ours is.
const PROGRAM: &str = r#"
import json, os, sys, time
peer, table, files = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
if peer == 'DuckDB':
    import duckdb
    connection = duckdb.connect()
    connection.execute(f'SET threads = {os.cpu_count()}')
    connection.execute(f'CREATE VIEW {table} AS SELECT * FROM read_parquet({files!r})')
    ask = lambda sql: connection.execute(sql).fetchall()
else:
    import polars
    context = polars.SQLContext({table: polars.scan_parquet(files)})
    ask = lambda sql: context.execute(sql).collect().rows()
print('ready', flush=True)
for line in sys.stdin:
    sql = json.loads(line)['sql']
    begun, cpu = time.perf_counter(), time.process_time()
    try:
        rows = ask(sql)
        answer = dict(seconds=time.perf_counter() - begun, cpu=time.process_time() - cpu, rows=rows)
    except Exception as error:
        answer = dict(error=str(error))
    print(json.dumps(answer, default=str), flush=True)
"#;

pub(super) struct Peer {
    pub name: &'static str,
    child: Child,
    input: ChildStdin,
    out: BufReader<ChildStdout>,
}

/// What a peer has answered.
pub(super) struct Answered {
    pub seconds: f64,
    pub cpu: f64,
    pub rows: Vec<Json>,
}

impl Peer {
    /// Starts it over the files of a table.
    ///
    /// # Errors
    /// It cannot be had here, with how to get it.
    pub fn start(name: &'static str, table: &str, files: &[PathBuf]) -> anyhow::Result<Peer> {
        let wheel = testservers::wheel(&name.to_lowercase())?;
        let files = serde_json::to_string(files)?;
        let mut child = Command::new("python3")
            .args(["-c", PROGRAM, name, table, &files])
            .env("PYTHONPATH", &wheel)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("python3 does not start")?;
        let mut peer = Peer {
            name,
            input: child.stdin.take().context("a pipe")?,
            out: BufReader::new(child.stdout.take().context("a pipe")?),
            child,
        };
        let line = peer.line()?;
        ensure!(line.trim() == "ready", "{name} does not start: {line}");
        Ok(peer)
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        let read = self.out.read_line(&mut line)?;
        ensure!(read > 0, "{} has ended", self.name);
        Ok(line)
    }

    /// # Errors
    /// It does not know what is asked, in its words.
    pub fn ask(&mut self, sql: &str) -> anyhow::Result<Answered> {
        writeln!(self.input, "{}", json!({ "sql": sql }))?;
        self.input.flush()?;
        let answer: Json = serde_json::from_str(&self.line()?)?;
        ensure!(
            answer["error"].is_null(),
            "{}: {}",
            self.name,
            answer["error"]
        );
        let number = |key: &str| answer[key].as_f64().context("a number");
        Ok(Answered {
            seconds: number("seconds")?,
            cpu: number("cpu")?,
            rows: answer["rows"].as_array().cloned().unwrap_or_default(),
        })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It only reads, so nothing is lost.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Are these the same rows in whatever order, with room for sums that were added up in another order?
pub(super) fn are_same(ours: &[Json], theirs: &[Json]) -> bool {
    let key = |row: &Json| {
        let cells = row.as_array().map_or(&[][..], Vec::as_slice);
        let texts = cells.iter().filter(|cell| !cell.is_f64());
        texts.map(Json::to_string).collect::<Vec<String>>()
    };
    let sorted = |rows: &[Json]| {
        let mut rows: Vec<Json> = rows.to_vec();
        rows.sort_by_key(key);
        rows
    };
    let is_close = |a: f64, b: f64| (a - b).abs() <= 1e-4 * a.abs().max(b.abs()).max(1.0);
    let same_cell = |(a, b): (&Json, &Json)| match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => is_close(a, b),
        _ => a == b,
    };
    let (ours, theirs) = (sorted(ours), sorted(theirs));
    ours.len() == theirs.len()
        && ours
            .iter()
            .zip(&theirs)
            .all(|(a, b)| match (a.as_array(), b.as_array()) {
                (Some(a), Some(b)) => a.len() == b.len() && a.iter().zip(b).all(same_cell),
                _ => false,
            })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_compared_in_any_order_and_with_rounding() {
        let rows = |json: Json| json.as_array().cloned().unwrap_or_default();
        let ours = rows(json!([["a", 1.0], ["b", 2.5]]));
        assert!(are_same(&ours, &rows(json!([["b", 2.500_001], ["a", 1]]))));
        assert!(!are_same(&ours, &rows(json!([["b", 2.6], ["a", 1.0]]))));
        assert!(!are_same(&ours, &rows(json!([["a", 1.0]]))));
        assert!(!are_same(&ours, &rows(json!([["a", 1.0], ["c", 2.5]]))));
    }
}
