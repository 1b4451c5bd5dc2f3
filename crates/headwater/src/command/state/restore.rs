//! `headwater state restore`.

use serde_json::json;
use server::clock::utc_text;
use server::upkeep::restore::{RestoreOptions, restore};

use super::Progress;
use super::copy::{groups_json, in_words};
use crate::cli::state::RestoreArgs;
use crate::output::Output;

pub fn run(args: &RestoreArgs, output: &Output) -> anyhow::Result<u8> {
    let mut progress = Progress::new("restoring", output);
    let mut watch = |path: &std::path::Path, bytes| progress.next(path, bytes);
    let options = RestoreOptions {
        replaces: args.replace,
        has_new_id: args.new_id,
    };
    let registry = &crate::registry::REGISTRY;
    let restored = restore(&args.backup, &args.dir, options, registry, &mut watch)?;
    let replaced = restored.replaced.as_ref();
    let replaced = replaced.map(|path| path.display().to_string());
    if args.json {
        output.print_json(&json!({
            "version": 1,
            "directory": args.dir.display().to_string(),
            "backup": args.backup.display().to_string(),
            "time": restored.manifest.taken,
            "groups": groups_json(&restored.manifest),
            "replaced": replaced,
            "new_id": args.new_id,
            "has_users": restored.has_users,
        }))?;
        return Ok(0);
    }
    let mut text = format!(
        "restored {} of {} into {}: {}\n",
        args.backup.display(),
        utc_text(restored.manifest.taken),
        args.dir.display(),
        in_words(&restored.manifest)
    );
    if let Some(replaced) = replaced {
        text += &format!("what was there is in {replaced}\n");
    }
    output.print(&text)?;
    if !restored.has_users {
        let dir = args.dir.display();
        output.say(&format!(
            "note: a backup holds no users, secrets or deployed apps, and {dir} has no users: until one is \
             added (headwater users add NAME --role ROLE --state {dir}), whoever reaches --http may do \
             everything"
        ));
    }
    Ok(0)
}
