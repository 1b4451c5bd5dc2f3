//! The chart for Kubernetes, with the version of the program.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use super::Release;
use super::files::{Content, Files, gzip};

pub const CHART: &str = "packaging/helm/headwater";

pub fn make(release: &Release) -> anyhow::Result<PathBuf> {
    let mut files = Files::default();
    put(Path::new(CHART), &release.version, &mut files)?;
    let mut bytes = Vec::new();
    files.tar(&mut bytes, release.epoch)?;
    let bytes = gzip(&bytes, 9)?;
    release.write(&format!("headwater-{}.tgz", release.version), &bytes)
}

/// All files of the chart, below its name.
fn put(chart: &Path, version: &str, files: &mut Files) -> anyhow::Result<()> {
    let mut folders = vec![chart.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = std::fs::read(&path)?;
            let short = path.strip_prefix(chart)?.display().to_string();
            let bytes = match short.as_str() {
                "Chart.yaml" => versioned(&String::from_utf8(bytes)?, version)?.into_bytes(),
                _ => bytes,
            };
            files.put(&format!("headwater/{short}"), 0o644, Content::Bytes(bytes));
        }
    }
    Ok(())
}

/// The chart and what it installs have one version.
fn versioned(text: &str, version: &str) -> anyhow::Result<String> {
    let mut found = 0;
    let lines = text.lines().map(|line| match line.split_once(':') {
        Some((key @ ("version" | "appVersion"), _)) => {
            found += 1;
            format!("{key}: \"{version}\"\n")
        }
        _ => format!("{line}\n"),
    });
    let text: String = lines.collect();
    ensure!(
        found == 2,
        "Chart.yaml has no line for version and appVersion"
    );
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_has_the_version_of_the_program() {
        let text = "name: headwater\nversion: 0\nappVersion: 0\n";
        let expected = "name: headwater\nversion: \"1.2.3\"\nappVersion: \"1.2.3\"\n";
        assert_eq!(versioned(text, "1.2.3").unwrap(), expected);
        assert!(versioned("name: x\n", "1").is_err());
    }
}
