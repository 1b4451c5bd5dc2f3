//! The broken apps of `tests/diagnostics`.
//!
//! Each begins with comments that say what must be reported, lines counted over the whole file:
//! `-- expect 7 name: 'pric', price` (line, kind, words of which one must be said), or
//! `-- expect 7 option warning: …` where the app is accepted all the same.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use lang::diagnostic::Kind;

use super::Expected;

pub struct OwnApp {
    pub name: String,
    pub text: String,
    pub expected: Vec<Expected>,
}

pub fn read(folder: &Path) -> anyhow::Result<Vec<OwnApp>> {
    let mut apps = Vec::new();
    let entries = fs::read_dir(folder)
        .with_context(|| format!("cannot list folder '{}'", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_none_or(|e| e != "siddhi") {
            continue;
        }
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let text = fs::read_to_string(&path)
            .with_context(|| format!("cannot read '{}'", path.display()))?;
        let expected = text
            .lines()
            .filter_map(|line| line.strip_prefix("-- expect "))
            .map(expectation)
            .collect::<anyhow::Result<Vec<Expected>>>()
            .with_context(|| format!("in '{}'", path.display()))?;
        if expected.is_empty() {
            bail!("'{}' says nothing of what is expected", path.display());
        }
        apps.push(OwnApp {
            name,
            text,
            expected,
        });
    }
    apps.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(apps)
}

fn expectation(text: &str) -> anyhow::Result<Expected> {
    let (head, words) = text
        .split_once(':')
        .context("'expect' needs a ':' before its words")?;
    let mut head = head.split_whitespace();
    let line: u32 = head
        .next()
        .unwrap_or("")
        .parse()
        .context("'expect' needs a line")?;
    let kind = match head.next() {
        Some("syntax") => Kind::Syntax,
        Some("name") => Kind::Name,
        Some("type") => Kind::Type,
        Some("option") => Kind::Option,
        Some("unsupported") => Kind::Unsupported,
        Some("compatibility") => Kind::Compatibility,
        other => bail!("'expect' knows no kind '{}'", other.unwrap_or("")),
    };
    Ok(Expected {
        lines: vec![line],
        kinds: vec![kind],
        words: words
            .split(',')
            .map(|w| w.trim().to_lowercase())
            .filter(|w| !w.is_empty())
            .collect(),
        warning: head.next() == Some("warning"),
    })
}
