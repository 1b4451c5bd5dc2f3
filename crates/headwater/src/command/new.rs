//! `headwater new`: apps to start from, each with data, a test and the commands that run it.
//!
//! Never: overwrites a file.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use lang::suggest::nearest;
use serde_json::json;
use server::Error;

use crate::cli::NewArgs;
use crate::output::Output;

struct Template {
    name: &'static str,
    about: &'static str,
    /// How it is tried, in the folder.
    run: &'static [&'static str],
    /// Names and contents.
    files: &'static [(&'static str, &'static str)],
}

/// The files of a folder of `templates/`.
macro_rules! files {
    ($folder:literal: $($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../templates/", $folder, "/", $name)))),*]
    };
}

const UNTIL_DONE: &[&str] = &["headwater run . --until-done"];
const SERVE: &[&str] = &["headwater run ."];

/// Sorted by what people do first.
const TEMPLATES: &[Template] = &[
    Template {
        name: "file-etl",
        about: "CSV to SQLite: filter, calculate, copy, totals",
        run: UNTIL_DONE,
        files: files!("file-etl": "README.md", "etl.siddhi", "etl.test", "sales.csv"),
    },
    Template {
        name: "json-clean",
        about: "JSON lines: good ones to a file, bad ones with the reason to another",
        run: UNTIL_DONE,
        files: files!("json-clean": "README.md", "clean.siddhi", "clean.test", "people.jsonl"),
    },
    Template {
        name: "windows",
        about: "means per minute, by the time of the readings",
        run: UNTIL_DONE,
        files: files!("windows": "README.md", "readings.csv", "windows.siddhi", "windows.test"),
    },
    Template {
        name: "pattern",
        about: "a pattern of events over time: cards that are tried out",
        run: UNTIL_DONE,
        files: files!("pattern": "README.md", "pattern.siddhi", "pattern.test", "payments.csv"),
    },
    Template {
        name: "join-table",
        about: "look up a table of a database for each event",
        run: &[
            "headwater run products.siddhi --until-done",
            "headwater run orders.siddhi --until-done",
        ],
        files: files!(
            "join-table": "README.md", "orders.csv", "orders.siddhi", "orders.test", "products.csv",
            "products.siddhi",
        ),
    },
    Template {
        name: "tenants",
        about: "a partition for each tenant: its own counts and limits",
        run: UNTIL_DONE,
        files: files!("tenants": "README.md", "requests.csv", "tenants.siddhi", "tenants.test"),
    },
    Template {
        name: "http-to-file",
        about: "events by HTTP, checked and appended to a file",
        run: SERVE,
        files: files!("http-to-file": "README.md", "collect.siddhi", "collect.test"),
    },
    Template {
        name: "http-api",
        about: "a service: requests by HTTP, answers from a table",
        run: SERVE,
        files: files!("http-api": "README.md", "quotes.siddhi", "quotes.test"),
    },
    Template {
        name: "alerts",
        about: "a threshold over a sliding window calls a URL; no alert is lost",
        run: SERVE,
        files: files!(
            "alerts": "README.md", "alerts.siddhi", "alerts.test", "receiver.siddhi",
        ),
    },
    Template {
        name: "kafka-to-postgres",
        about: "records to a table, exactly once (needs both servers to run)",
        run: &["headwater run . --state state/"],
        files: files!("kafka-to-postgres": "README.md", "orders.siddhi", "orders.test"),
    },
    Template {
        name: "cdc",
        about: "changes of a table of MariaDB to Kafka (needs both servers to run)",
        run: &["headwater run . --state state/"],
        files: files!("cdc": "README.md", "cdc.siddhi", "cdc.test"),
    },
];

pub fn run(args: &NewArgs, output: &Output) -> anyhow::Result<u8> {
    let Some(name) = &args.template else {
        list(args.json, output)?;
        return Ok(0);
    };
    let template = TEMPLATES.iter().find(|template| template.name == name);
    let template = template.ok_or_else(|| unknown(name))?;
    let dir = args.dir.clone().unwrap_or_else(|| PathBuf::from(name));
    create(template, &dir)?;
    if args.json {
        let files: Vec<&str> = template.files.iter().map(|(name, _)| *name).collect();
        output.print_json(&json!({
            "version": 1,
            "template": template.name,
            "directory": dir.display().to_string(),
            "files": files,
        }))?;
    } else {
        output.print(&created(template, &dir))?;
    }
    Ok(0)
}

fn list(is_json: bool, output: &Output) -> anyhow::Result<()> {
    if is_json {
        let templates = TEMPLATES.iter();
        let templates = templates.map(|t| json!({"name": t.name, "about": t.about}));
        let templates: Vec<_> = templates.collect();
        return output.print_json(&json!({"version": 1, "templates": templates}));
    }
    let width = TEMPLATES.iter().map(|t| t.name.len()).max().unwrap_or(0);
    let lines = TEMPLATES.iter();
    let lines = lines.map(|t| format!("{:width$}  {}\n", t.name, t.about));
    output.print(&lines.collect::<String>())?;
    output.say("\ncreate one of them: headwater new TEMPLATE [DIR]");
    Ok(())
}

fn unknown(name: &str) -> Error {
    let hint = nearest(name, TEMPLATES.iter().map(|t| t.name)).map_or_else(
        || "'headwater new' lists them".to_owned(),
        |near| format!("did you mean '{near}'?"),
    );
    Error::Usage(format!("there is no template '{name}'; {hint}"))
}

/// All files or none: those that are there are looked for first.
fn create(template: &Template, dir: &Path) -> anyhow::Result<()> {
    let taken = |(name, _): &&(&str, &str)| dir.join(name).symlink_metadata().is_ok();
    if let Some((name, _)) = template.files.iter().find(taken) {
        anyhow::bail!(
            "'{}' exists and is not overwritten: name another folder, 'headwater new {} DIR'",
            dir.join(name).display(),
            template.name
        );
    }
    fs::create_dir_all(dir).with_context(|| format!("cannot create '{}'", dir.display()))?;
    for (name, text) in template.files {
        let path = dir.join(name);
        write_new(&path, &without_marks(text))
            .with_context(|| format!("cannot write '{}'", path.display()))?;
    }
    Ok(())
}

/// Without the comments that tell the test of a README.md what to wait for.
fn without_marks(text: &str) -> String {
    let lines = text.split_inclusive('\n');
    lines.filter(|line| !line.starts_with("<!-- ")).collect()
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    File::create_new(path)?.write_all(text.as_bytes())
}

fn created(template: &Template, dir: &Path) -> String {
    let mut text = format!("created {} in {}:", template.name, dir.display());
    for (name, _) in template.files {
        text.push_str(&format!(" {name}"));
    }
    text.push_str("\n\nnext:\n");
    if dir != Path::new(".") {
        text.push_str(&format!("  cd {}\n", dir.display()));
    }
    for command in ["headwater check .", "headwater test ."]
        .iter()
        .chain(template.run)
    {
        text.push_str(&format!("  {command}\n"));
    }
    text.push_str("\nREADME.md says what it does and how to try it\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_every_folder_is_in_its_template() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("templates");
        let names = |dir: &Path| {
            let entries = fs::read_dir(dir).expect("the folder is there");
            let mut names: Vec<String> = entries
                .map(|e| {
                    e.expect("an entry")
                        .file_name()
                        .to_string_lossy()
                        .into_owned()
                })
                .collect();
            names.sort();
            names
        };
        let mut listed: Vec<&str> = TEMPLATES.iter().map(|t| t.name).collect();
        listed.sort_unstable();
        assert_eq!(names(&root), listed);
        for template in TEMPLATES {
            let mut files: Vec<&str> = template.files.iter().map(|(name, _)| *name).collect();
            files.sort_unstable();
            assert_eq!(names(&root.join(template.name)), files, "{}", template.name);
        }
    }

    #[test]
    fn what_is_there_stays_as_it_is() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let theirs = dir.path().join("sales.csv");
        fs::write(&theirs, "mine").expect("it can be written");
        let error = create(&TEMPLATES[0], dir.path()).expect_err("a file is there");
        assert!(error.to_string().contains("is not overwritten"), "{error}");
        assert_eq!(fs::read_to_string(&theirs).expect("it is there"), "mine");
        assert!(!dir.path().join("etl.siddhi").exists());
        fs::remove_file(&theirs).expect("it is there");
        create(&TEMPLATES[0], dir.path()).expect("nothing is there");
        assert!(dir.path().join("etl.siddhi").exists());
    }
}
