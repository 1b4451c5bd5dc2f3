//! `headwater state copy`.

use serde_json::{Value as Json, json};
use server::upkeep::backup::{Manifest, back_up};

use super::{Progress, count, size};
use crate::cli::state::CopyArgs;
use crate::output::Output;

pub fn run(args: &CopyArgs, output: &Output) -> anyhow::Result<u8> {
    let mut progress = Progress::new("copying", output);
    let mut watch = |path: &std::path::Path, bytes| progress.next(path, bytes);
    let registry = &::connectors::REGISTRY;
    let backup = back_up(&args.dir, &args.to, None, registry, &mut watch)?;
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
