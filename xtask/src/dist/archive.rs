//! The program with its manual, for systems that none of the other packages is made for.

use std::path::PathBuf;

use anyhow::Context as _;

use super::Release;
use super::files::{Content, Files, gzip};
use super::share;

pub fn make(release: &Release) -> anyhow::Result<PathBuf> {
    let name = format!(
        "headwater-{}-{}-linux",
        release.version,
        std::env::consts::ARCH
    );
    let mut files = Files::default();
    let program = Content::Of(release.binary.path.clone());
    files.put(&format!("{name}/bin/headwater"), 0o755, program);
    share::manual(release, &format!("{name}/share"), &mut files)?;
    for file in [
        "LICENSE",
        "README.md",
        "packaging/systemd/headwater.service",
    ] {
        let text = std::fs::read_to_string(file).with_context(|| file.to_owned())?;
        let short = file.rsplit('/').next().unwrap_or(file);
        files.text(&format!("{name}/{short}"), &text);
    }
    let notices = share::third_party_notices(release)?;
    files.text(&format!("{name}/THIRD-PARTY-NOTICES"), &notices);
    let mut bytes = Vec::new();
    files.tar(&mut bytes, release.epoch)?;
    let bytes = gzip(&bytes, release.compression())?;
    release.write(&format!("{name}.tar.gz"), &bytes)
}
