//! `headwater errors export`.

use std::fs::File;
use std::io::{BufWriter, Write};

use anyhow::Context as _;
use serde_json::Value as Json;
use server::rejected::take_payload;

use super::args::{ExportArgs, ExportFormat};
use super::list::{is_there, say_missing};
use super::origin::Origin;
use crate::output::Output;
use crate::progress::thousands;

const COLUMNS: [&str; 11] = [
    "number", "time", "app", "stream", "stage", "origin", "type", "place", "cause", "attempts",
    "payload",
];

pub fn run(args: &ExportArgs, output: &Output) -> anyhow::Result<u8> {
    let origin = Origin::new(&args.dir, &args.server, output)?;
    let mut out: Box<dyn Write> = match &args.output {
        None => Box::new(output.lines()),
        Some(path) => {
            let mut options = File::options();
            let file = options.write(true).create_new(true).open(path);
            let file = file.with_context(|| format!("cannot create '{}'", path.display()))?;
            Box::new(BufWriter::new(file))
        }
    };
    if args.format == ExportFormat::Csv && !is_there(writeln!(out, "{}", COLUMNS.join(",")))? {
        return Ok(0);
    }
    let mut count = 0;
    let missing = origin.each(&args.filter, &mut |event| {
        count += 1;
        is_there(write_event(&mut out, args.format, &event))
    })?;
    is_there(out.flush())?;
    drop(out);
    say_missing(&missing, output);
    if let Some(path) = &args.output {
        let (count, path) = (thousands(count), path.display());
        output.print(&format!("{count} rejected events written to '{path}'\n"))?;
    }
    Ok(0)
}

fn write_event(out: &mut dyn Write, format: ExportFormat, event: &Json) -> std::io::Result<()> {
    let payload = || take_payload(event, "payload").unwrap_or_default();
    match format {
        ExportFormat::Ndjson => writeln!(out, "{event}"),
        ExportFormat::Raw => {
            let payload = payload();
            out.write_all(&payload)?;
            match payload.last() {
                Some(b'\n') => Ok(()),
                _ => out.write_all(b"\n"),
            }
        }
        ExportFormat::Csv => {
            for (at, column) in COLUMNS.iter().enumerate() {
                let text = match (*column, &event[*column]) {
                    ("payload", _) => String::from_utf8_lossy(&payload()).into_owned(),
                    (_, Json::String(text)) => text.clone(),
                    (_, other) => other.to_string(),
                };
                let separator = if at > 0 { "," } else { "" };
                write!(out, "{separator}{}", quoted(&text))?;
            }
            writeln!(out)
        }
    }
}

/// Quoted where it must be. What a spreadsheet would take for a formula is one no more.
fn quoted(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t']) && text.parse::<f64>().is_err();
    let guard = if is_formula { "'" } else { "" };
    match text.contains([',', '"', '\n', '\r']) || is_formula {
        true => format!("\"{guard}{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        for (text, expect) in [
            ("a b", "a b"),
            ("a,\"b\"", "\"a,\"\"b\"\"\""),
            ("=1+1", "\"'=1+1\""),
            ("-1.5", "-1.5"),
            ("", ""),
        ] {
            assert_eq!(quoted(text), expect);
        }
    }
}
