//! `headwater state verify`.

use serde_json::{Value as Json, json};
use server::upkeep::verify::{Problem, Verified, VerifiedGroup, verify};

use super::{Progress, count, size};
use crate::cli::state::VerifyArgs;
use crate::output::Output;

pub fn run(args: &VerifyArgs, output: &Output) -> anyhow::Result<u8> {
    let mut progress = Progress::new("reading", output);
    let mut watch = |path: &std::path::Path, bytes| progress.next(path, bytes);
    let verified = verify(&args.dir, &crate::registry::REGISTRY, &mut watch)?;
    match args.json {
        true => output.print_json(&to_json(args, &verified))?,
        false => output.print(&text(&verified))?,
    }
    if !verified.damage.is_empty() && !args.json {
        let files = count(verified.damage.len() as u64, "file");
        output.error(&format!(
            "{files} of '{}' damaged{}",
            args.dir.display(),
            verified.in_words()
        ));
    }
    Ok(u8::from(!verified.damage.is_empty()))
}

fn text(verified: &Verified) -> String {
    let mut text = String::new();
    for group in &verified.groups {
        let from = match (group.is_refused, group.epochs.first()) {
            (true, _) => "a start would be refused".to_owned(),
            (false, Some(epoch)) => format!("a start continues from epoch {epoch}"),
            (false, None) => "nothing was saved yet".to_owned(),
        };
        text += &format!("group {}: {from}\n", group.name);
    }
    text + &format!(
        "{}, {} read\n",
        count(verified.files, "file"),
        size(verified.bytes)
    )
}

fn to_json(args: &VerifyArgs, verified: &Verified) -> Json {
    json!({
        "version": 1,
        "directory": args.dir.display().to_string(),
        "backup": verified.manifest.as_ref().map(|m| json!({
            "time": m.taken,
            "headwater": m.version,
        })),
        "files": verified.files,
        "bytes": verified.bytes,
        "groups": verified.groups.iter().map(group_json).collect::<Vec<Json>>(),
        "damage": verified.damage.iter().map(problem_json).collect::<Vec<Json>>(),
    })
}

fn group_json(group: &VerifiedGroup) -> Json {
    json!({
        "group": group.name,
        "apps": group.apps,
        "current": group.current,
        "usable": group.epochs,
        "refused": group.is_refused,
    })
}

fn problem_json(problem: &Problem) -> Json {
    json!({
        "file": problem.path.display().to_string(),
        "cause": problem.cause,
        "help": problem.help,
    })
}
