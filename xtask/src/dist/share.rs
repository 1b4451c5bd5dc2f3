//! What comes with the program wherever it is installed: manual pages, completions, licences.

use anyhow::Context as _;

use super::Release;
use super::files::{Content, Files, gzip};
use super::parts::{notices, parts};

/// A shell and where its completions lie below `share`.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "bash-completion/completions/headwater"),
    ("fish", "fish/vendor_completions.d/headwater.fish"),
    ("zsh", "zsh/vendor-completions/_headwater"),
];

/// Puts manual pages and completions below a folder `share`.
pub fn manual(release: &Release, share: &str, files: &mut Files) -> anyhow::Result<()> {
    for (shell, path) in COMPLETIONS {
        let script = release.binary.run(&["completions", shell])?;
        files.text(&format!("{share}/{path}"), &script);
    }
    if !release.binary.run(&["--help"])?.contains("\n  man ") {
        return Ok(());
    }
    let pages = tempfile::tempdir()?;
    let folder = pages.path().to_str().context("a folder with an odd name")?;
    release.binary.run(&["man", folder])?;
    for entry in std::fs::read_dir(pages.path())? {
        let entry = entry?;
        let page = gzip(&std::fs::read(entry.path())?, 9)?;
        let path = format!(
            "{share}/man/man1/{}.gz",
            entry.file_name().to_string_lossy()
        );
        files.put(&path, 0o644, Content::Bytes(page));
    }
    Ok(())
}

/// The licences of everything that is linked into the program.
pub fn third_party_notices(release: &Release) -> anyhow::Result<String> {
    notices(&parts(release.features())?)
}
