//! `headwater version`.

use serde_json::json;

use crate::cli::VersionArgs;
use crate::output::Output;

pub fn run(args: &VersionArgs, output: &Output) -> anyhow::Result<u8> {
    let version = env!("CARGO_PKG_VERSION");
    let commit = env!("HEADWATER_COMMIT");
    let target = env!("HEADWATER_TARGET");
    let profile = if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    };
    if args.json {
        output.print_json(&json!({
            "version": 1,
            "headwater": version,
            "commit": commit,
            "target": target,
            "profile": profile,
        }))?;
    } else {
        output.print(&format!(
            "headwater {version} ({commit}, {target}, {profile})\n"
        ))?;
    }
    Ok(0)
}
