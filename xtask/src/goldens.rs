//! `cargo xtask goldens`: asks Siddhi for every text test and holds the expectations against what
//! it gives.
//!
//! A test with a line `differs: why` must differ; one whose app uses a component that Siddhi, as
//! the oracle runs it, does not have is named as not comparable.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context as _;
use testkit::golden::{Golden, Verdict};
use testkit::run::{app_text, files};
use testkit::script::{Script, parse};

use crate::oracle::{Oracle, shared};

pub fn run(args: &[String]) -> anyhow::Result<bool> {
    let mut folder = None;
    let mut paths: Vec<PathBuf> = Vec::new();
    let mut verbose = false;
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--shared" => folder = Some(rest.next().context("--shared needs a folder")?.as_str()),
            "--verbose" => verbose = true,
            _ if arg.starts_with("--") => anyhow::bail!("no option '{arg}'"),
            _ => paths.push(arg.into()),
        }
    }
    if paths.is_empty() {
        paths.push("tests".into());
    }
    let oracle = Oracle::find(&shared(folder))?;
    let tests = load(&paths)?;
    let mut verdicts: Vec<Option<Verdict>> = Vec::new();
    let mut goldens = Vec::new();
    for (_, script, app) in &tests {
        let golden = Golden::new(script, app.clone(), &crate::catalog()).and_then(|g| {
            let case = g.case(&goldens.len().to_string())?;
            Ok((g, case))
        });
        verdicts.push(
            golden
                .as_ref()
                .err()
                .map(|message| Verdict::Different(script.line, message.clone())),
        );
        goldens.push(golden.ok());
    }
    let results = oracle.ask(goldens.iter().flatten().map(|(_, case)| case))?;
    for (index, golden) in goldens.iter().enumerate() {
        if let Some((golden, _)) = golden {
            let result = results
                .get(&index.to_string())
                .context("the oracle left a case out")?;
            verdicts[index] = Some(golden.judge(result));
        }
    }
    let mut lacking: BTreeMap<String, usize> = BTreeMap::new();
    let (mut passed, mut failed) = (0, 0);
    for ((file, script, _), verdict) in tests.iter().zip(verdicts.into_iter().flatten()) {
        let at = |line: usize| format!("{}:{line}: {}", file.display(), script.name);
        let differs = script.about.differs.as_deref();
        match (verdict, differs) {
            (Verdict::Same, None) => passed += 1,
            (Verdict::Different(line, what), Some(why)) => {
                passed += 1;
                if verbose {
                    println!("{}: differs ({why}): {what}", at(line));
                }
            }
            (Verdict::Same, Some(why)) => {
                failed += 1;
                println!(
                    "{}: says that it differs ({why}), but Siddhi gives the same",
                    at(script.line)
                );
            }
            (Verdict::Different(line, what), None) => {
                failed += 1;
                println!("{}: {what}", at(line));
            }
            (Verdict::NotComparable(component), _) => {
                if verbose {
                    println!("{}: Siddhi has no {component} here", at(script.line));
                }
                *lacking.entry(component).or_default() += 1;
            }
        }
    }
    if !lacking.is_empty() {
        let named: Vec<String> = lacking
            .iter()
            .map(|(name, n)| format!("{name} ({n})"))
            .collect();
        println!("not comparable, the oracle lacks: {}", named.join(", "));
    }
    println!("{passed} passed, {failed} failed");
    Ok(failed == 0)
}

/// Every test with its file and the text of its app.
fn load(paths: &[PathBuf]) -> anyhow::Result<Vec<(PathBuf, Script, String)>> {
    let mut tests = Vec::new();
    for file in files(paths)? {
        let text = std::fs::read_to_string(&file)?;
        let name = file
            .file_stem()
            .map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        for script in parse(&text, &name).with_context(|| file.display().to_string())? {
            let app = app_text(&script, &file).map_err(anyhow::Error::msg)?;
            tests.push((file.clone(), script, app));
        }
    }
    Ok(tests)
}
