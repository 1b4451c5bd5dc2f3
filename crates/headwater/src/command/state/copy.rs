//! `headwater state copy`.

use std::path::Path;

use serde_json::{Value as Json, json};
use server::Error;
use server::client::Reply;
use server::upkeep::backup::{Manifest, back_up, checked_name};

use super::{Progress, count, size};
use crate::cli::state::CopyArgs;
use crate::command::reply::{array, cell};
use crate::output::Output;

pub fn run(args: &CopyArgs, output: &Output) -> anyhow::Result<u8> {
    let Some(to) = &args.to else {
        return through_server(args, output);
    };
    let mut progress = Progress::new("copying", output);
    let mut watch = |path: &Path, bytes| progress.next(path, bytes);
    let registry = &crate::registry::REGISTRY;
    let backup = back_up(Path::new(&args.from), to, None, registry, &mut watch)?;
    let path = backup.path.display().to_string();
    match args.json {
        true => output.print_json(&json!({
            "version": 1,
            "backup": path,
            "time": backup.manifest.taken,
            "groups": groups_json(&backup.manifest),
            "files": backup.manifest.files(),
            "bytes": backup.manifest.bytes(),
        }))?,
        false => output.print(&format!(
            "copied to {path}: {}\n",
            in_words(&backup.manifest)
        ))?,
    }
    Ok(0)
}

/// The server makes the backup, and keeps it unless it is fetched.
fn through_server(args: &CopyArgs, output: &Output) -> anyhow::Result<u8> {
    let name = &args.from;
    if Path::new(name).is_dir() && checked_name(name).is_err() {
        return Err(Error::Usage(format!(
            "'{name}' is a directory: say where its backup goes (headwater state copy {name} TO)"
        ))
        .into());
    }
    checked_name(name)?;
    let client = args.server.client()?;
    let reply = client.back_up(name)?;
    if reply.status != 201 {
        return Err(refusal(&reply).into());
    }
    let mut made = reply.json;
    if let Some(file) = &args.output {
        made["bytes"] = json!(client.archive(name, file)?);
        made["backup"] = json!(file.display().to_string());
        let removed = client.remove_backup(name)?;
        if removed.status != 200 {
            let cause = refusal(&removed);
            output.say(&format!(
                "warning: the backup also stays at the server: {cause}"
            ));
        }
    }
    if args.json {
        output.print_json(&made)?;
        return Ok(0);
    }
    let groups = array(&made["groups"]).iter();
    let groups = groups.map(|group| {
        format!(
            "group {} at epoch {}",
            cell(&group["group"]),
            group["epoch"]
        )
    });
    output.print(&format!(
        "copied to {}: {}; {}\n",
        cell(&made["backup"]),
        groups.collect::<Vec<_>>().join(", "),
        size(made["bytes"].as_u64().unwrap_or(0))
    ))?;
    Ok(0)
}

/// Why a server has not done it.
pub(super) fn refusal(reply: &Reply) -> Error {
    let said = reply.json["message"].as_str();
    Error::Refused(said.unwrap_or("the server gave no reason").to_owned())
}

/// `group Shop at epoch 12; 8 files, 1.5 KB`.
pub(super) fn in_words(manifest: &Manifest) -> String {
    let groups = manifest.groups.iter().map(|(name, epoch)| match epoch {
        0 => format!("group {name} before its first checkpoint"),
        epoch => format!("group {name} at epoch {epoch}"),
    });
    format!(
        "{}; {}, {}",
        groups.collect::<Vec<_>>().join(", "),
        count(manifest.files() as u64, "file"),
        size(manifest.bytes())
    )
}

pub(super) fn groups_json(manifest: &Manifest) -> Vec<Json> {
    let groups = manifest.groups.iter();
    groups
        .map(|(name, epoch)| json!({ "group": name, "epoch": epoch }))
        .collect()
}
