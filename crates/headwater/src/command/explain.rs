//! `headwater explain`: the page of a code, or the plan of an app.

use std::path::{Path, PathBuf};

use ::check::codes::{self, CodePage};
use serde_json::json;
use server::preview::Preview;
use server::{Error, deployment};

use crate::cli::ExplainArgs;
use crate::command::connectors::{pages_of, unknown};
use crate::command::{check, load_options};
use crate::output::Output;

pub fn run(args: &ExplainArgs, output: &Output) -> anyhow::Result<u8> {
    if let Some(page) = codes::page(&args.what) {
        if args.json {
            output.print_json(&json!({
                "version": 1,
                "code": page.code,
                "title": page.title,
                "cause": page.cause,
                "fix": page.fix,
                "failing": page.failing,
                "fixed": page.fixed,
            }))?;
        } else {
            output.print(&page_text(page))?;
        }
        return Ok(0);
    }
    if is_code(&args.what) && !Path::new(&args.what).exists() {
        let nearest = nearest_code(&args.what);
        return Err(Error::Usage(format!(
            "there is no code '{}'; did you mean '{nearest}'?",
            args.what
        ))
        .into());
    }
    let is_name = !args.what.contains(['/', '.']) && !Path::new(&args.what).exists();
    if is_name {
        let catalog = catalog::full();
        let found = pages_of(&catalog, &args.what).ok_or_else(|| unknown(&catalog, &args.what))?;
        match args.json {
            true => output.print_json(&json!({"version": 1, "pages": found}))?,
            false => output.print(&found.join("\n"))?,
        }
        return Ok(0);
    }
    let secrets = args.change.secrets.secrets(args.state.as_deref(), output);
    let options = load_options(&args.change, secrets, false)?;
    let texts = deployment::read_texts(&[PathBuf::from(&args.what)])?;
    let apps = deployment::load(&texts, &options)?;
    let has_errors = check::show(&apps, output);
    let mut loses = false;
    for plan in apps.iter().filter_map(|a| a.plan.as_ref()) {
        let text = ::check::explain::plan(plan, &catalog::full());
        let state = args.state.as_deref();
        let preview = state.map(|dir| Preview::of(plan, dir)).transpose()?;
        loses |= matches!(&preview, Some(Some(p)) if !p.dropped.is_empty());
        if args.json {
            let state = preview.map(|p| p.as_ref().map(state_json));
            output.print_json(&json!({
                "version": 1,
                "app": plan.name,
                "plan": text,
                "state": state.flatten(),
            }))?;
        } else {
            output.print(&text)?;
            match preview {
                Some(Some(preview)) => output.print(&preview.in_words())?,
                Some(None) => output.print("\nno state of this app is saved\n")?,
                None => {}
            }
        }
    }
    Ok(u8::from(has_errors || loses))
}

pub(super) fn state_json(preview: &Preview) -> serde_json::Value {
    json!({
        "directory": preview.path.display().to_string(),
        "snapshot": preview.epoch,
        "survives": preview.survives,
        "begins_empty": preview.begins_empty,
        "dropped": preview.dropped,
    })
}

fn page_text(page: &CodePage) -> String {
    let block = |text: &str| {
        text.trim_matches('\n')
            .lines()
            .map(|line| format!("    {line}\n"))
            .collect::<String>()
    };
    // Codes of warnings begin with W: what they are given for runs.
    let verdict = match page.code.starts_with('W') {
        true => "warned of",
        false => "refused",
    };
    format!(
        "{}: {}\n\n{}\n\n{}\n\nThis is {verdict}:\n\n{}\nThis is not:\n\n{}",
        page.code,
        page.title,
        page.cause,
        page.fix,
        block(page.failing),
        block(page.fixed)
    )
}

/// A letter and digits: meant as a code, whether there is one or not.
fn is_code(text: &str) -> bool {
    let mut letters = text.chars();
    matches!(letters.next(), Some('E' | 'W' | 'e' | 'w'))
        && text.len() > 1
        && letters.all(|c| c.is_ascii_digit())
}

fn nearest_code(text: &str) -> &'static str {
    let number = |code: &str| {
        code.get(1..)
            .and_then(|d| d.parse::<i64>().ok())
            .unwrap_or(0)
    };
    let wanted = number(text);
    let first = text.chars().next().map(|c| c.to_ascii_uppercase());
    codes::CODES
        .iter()
        .min_by_key(|page| {
            let other_letter = page.code.chars().next() != first;
            (other_letter, (number(page.code) - wanted).abs())
        })
        .map_or("", |page| page.code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_told_from_a_file() {
        assert!(is_code("E0312") && is_code("w9"));
        assert!(!is_code("E") && !is_code("Every.siddhi") && !is_code("apps"));
        assert!(codes::page(nearest_code("E9999")).is_some());
        assert!(nearest_code("W0001").starts_with('W'));
    }
}
