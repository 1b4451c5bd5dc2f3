//! The Debian package: program, manual, completions, a service of systemd and its settings.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use super::files::{Content, Files, gzip};
use super::{Release, debian_architecture, output, share};

/// The package that has a library, and from which version on.
const PACKAGES: &[(&str, &str)] = &[
    ("libcrypto.so.3", "libssl3 (>= 3.0.0)"),
    ("libgcc_s.so.1", "libgcc-s1 (>= 4.2)"),
    ("libssl.so.3", "libssl3 (>= 3.0.0)"),
    ("libz.so.1", "zlib1g (>= 1:1.2.0)"),
];

/// Where the inputs of the package lie.
const FOLDER: &str = "packaging/debian";

pub fn make(release: &Release) -> anyhow::Result<PathBuf> {
    make_version(release, &release.version)
}

/// The same package under another version: what a test upgrades to.
pub fn make_version(release: &Release, version: &str) -> anyhow::Result<PathBuf> {
    let files = files(release, version)?;
    let stage = tempfile::tempdir()?;
    let root = stage.path().join("headwater");
    files.write(&root)?;
    let control = control(release, version, &files, &root)?;
    control.write(&root.join("DEBIAN"))?;
    let architecture = debian_architecture()?;
    let path = release
        .out
        .join(format!("headwater_{version}_{architecture}.deb"));
    let mut build = Command::new("dpkg-deb");
    match release.is_published {
        true => build.arg("-Zxz"),
        false => build.args(["-Zgzip", "-z1"]),
    };
    build
        .args(["--root-owner-group", "--build"])
        .arg(&root)
        .arg(&path);
    output(build.env("SOURCE_DATE_EPOCH", release.epoch.to_string()))?;
    Ok(path)
}

fn read(path: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| path.to_owned())
}

/// What is installed.
fn files(release: &Release, version: &str) -> anyhow::Result<Files> {
    let mut files = Files::default();
    let program = Content::Of(release.binary.path.clone());
    files.put("usr/bin/headwater", 0o755, program);
    share::manual(release, "usr/share", &mut files)?;
    files.text(
        "lib/systemd/system/headwater.service",
        &read("packaging/systemd/headwater.service")?,
    );
    files.put("etc/headwater/apps", 0o755, Content::Folder);
    files.text(
        "etc/headwater/deployment.yaml",
        &read("packaging/etc/deployment.yaml")?,
    );
    // It may come to hold passwords.
    let environment = Content::Bytes(read("packaging/etc/headwater.env")?.into_bytes());
    files.put("etc/headwater/headwater.env", 0o640, environment);
    let doc = "usr/share/doc/headwater";
    files.text(
        &format!("{doc}/copyright"),
        &read(&format!("{FOLDER}/copyright"))?,
    );
    let zipped = |text: &str| Ok::<_, anyhow::Error>(Content::Bytes(gzip(text.as_bytes(), 9)?));
    let changelog = changelog(release, version)?;
    files.put(&format!("{doc}/changelog.gz"), 0o644, zipped(&changelog)?);
    let notices = share::third_party_notices(release)?;
    files.put(
        &format!("{doc}/THIRD-PARTY-NOTICES.gz"),
        0o644,
        zipped(&notices)?,
    );
    files.text(
        "usr/share/lintian/overrides/headwater",
        &read(&format!("{FOLDER}/lintian-overrides"))?,
    );
    Ok(files)
}

fn changelog(release: &Release, version: &str) -> anyhow::Result<String> {
    let date = release.date("+%a, %d %b %Y %H:%M:%S +0000")?;
    Ok(format!(
        "headwater ({version}) unstable; urgency=medium\n\n  * Release {version}.\n\n -- Headwater \
         maintainers <maintainers@headwater.invalid>  {date}\n"
    ))
}

/// What dpkg reads: the description, the scripts, the settings that an administrator may have changed,
/// and sums of all files.
fn control(release: &Release, version: &str, files: &Files, root: &Path) -> anyhow::Result<Files> {
    let mut control = Files::default();
    let bytes: u64 = files
        .iter()
        .map(|(path, _)| std::fs::metadata(root.join(path)).map_or(0, |meta| meta.len()))
        .sum();
    let text = read(&format!("{FOLDER}/control"))?
        .replace("{version}", version)
        .replace("{architecture}", &debian_architecture()?)
        .replace("{installed-size}", &bytes.div_ceil(1024).to_string())
        .replace("{depends}", &depends(release).join(", "));
    control.text("control", &text);
    control.text("conffiles", &read(&format!("{FOLDER}/conffiles"))?);
    for script in ["postinst", "prerm", "postrm"] {
        let text = read(&format!("{FOLDER}/{script}"))?;
        control.put(script, 0o755, Content::Bytes(text.into_bytes()));
    }
    let is_summed = |path: &&str| !path.starts_with("etc/") && root.join(path).is_file();
    let names: Vec<&str> = files
        .iter()
        .map(|(path, _)| path)
        .filter(is_summed)
        .collect();
    let mut sums = Command::new("md5sum");
    let sums = output(sums.args(names).current_dir(root))?;
    control.text("md5sums", &format!("{sums}\n"));
    Ok(control)
}

fn depends(release: &Release) -> Vec<String> {
    let (major, minor) = release.binary.glibc;
    let mut all = vec![format!("libc6 (>= {major}.{minor})")];
    for (library, package) in PACKAGES {
        if release.binary.libraries.iter().any(|name| name == library) {
            all.push((*package).to_owned());
        }
    }
    all.dedup();
    all.sort();
    all.dedup();
    all
}
