//! The image: its digests, what other tools read of it, and the server run in its root alone.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::Value as Json;

use super::Outcome;
use super::root::{curl, eventually, is_installed, missing};
use crate::dist::{Release, container, files::Digesting, output};

const APP: &str = "@app:name('Ticks') define trigger Soon at every 100 millisec; \
    define table Seen (at long); from Soon select triggered_time as at insert into Seen;";

pub fn run(release: &Release) -> anyhow::Result<Outcome> {
    let archive = container::make(release)?;
    let blobs = read_archive(&archive)?;
    let image = Image::read(&blobs)?;
    image.check(&blobs)?;
    if is_installed("skopeo") {
        let source = format!("oci-archive:{}", archive.display());
        let said = output(Command::new("skopeo").args(["inspect", "--config", &source]))?;
        let config: Json = serde_json::from_str(&said)?;
        for key in ["User", "Entrypoint", "Cmd", "Volumes", "StopSignal"] {
            let (read, made) = (&config["config"][key], &image.config["config"][key]);
            ensure!(read == made, "skopeo reads {key} as {read}");
        }
    }
    if let Some(why) = missing() {
        return Ok(Outcome::Skipped(why));
    }
    let root = tempfile::tempdir()?;
    unpack(&blobs[&image.layer], root.path())?;
    serve(&image, root.path())?;
    Ok(match is_installed("skopeo") {
        true => Outcome::Passed,
        false => Outcome::Skipped("the image runs; 'skopeo' is not installed to read it".into()),
    })
}

/// The files of an archive by their names.
fn read_archive(path: &Path) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let mut archive = tar::Archive::new(File::open(path)?);
    let mut files = BTreeMap::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = entry.path()?.display().to_string();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        files.insert(name, bytes);
    }
    Ok(files)
}

struct Image {
    manifest: Json,
    config: Json,
    /// The name of its only layer in the archive.
    layer: String,
}

/// Where the blob of a descriptor lies.
fn place(descriptor: &Json) -> anyhow::Result<String> {
    let digest = descriptor["digest"].as_str().context("no digest")?;
    let hex = digest
        .strip_prefix("sha256:")
        .context("no digest by SHA-256")?;
    Ok(format!("blobs/sha256/{hex}"))
}

fn json(blobs: &BTreeMap<String, Vec<u8>>, name: &str) -> anyhow::Result<Json> {
    let bytes = blobs.get(name).with_context(|| format!("no file {name}"))?;
    Ok(serde_json::from_slice(bytes)?)
}

fn digest(bytes: &[u8]) -> anyhow::Result<String> {
    let mut digesting = Digesting::new(std::io::sink());
    std::io::copy(&mut &bytes[..], &mut digesting)?;
    Ok(digesting.finish().1)
}

impl Image {
    /// As an engine finds it: from the index over the manifest to configuration and layer.
    fn read(blobs: &BTreeMap<String, Vec<u8>>) -> anyhow::Result<Image> {
        let layout = json(blobs, "oci-layout")?;
        ensure!(
            layout["imageLayoutVersion"] == "1.0.0",
            "oci-layout: {layout}"
        );
        let index = json(blobs, "index.json")?;
        let manifest = json(blobs, &place(&index["manifests"][0])?)?;
        let config = json(blobs, &place(&manifest["config"])?)?;
        let layer = place(&manifest["layers"][0])?;
        Ok(Image {
            manifest,
            config,
            layer,
        })
    }

    /// Every blob has the digest and the size that it is named by.
    fn check(&self, blobs: &BTreeMap<String, Vec<u8>>) -> anyhow::Result<()> {
        for (name, bytes) in blobs {
            if let Some(hex) = name
                .strip_prefix("blobs/sha256/")
                .filter(|hex| !hex.is_empty())
            {
                ensure!(digest(bytes)? == hex, "{name} has another digest");
            }
        }
        for part in [&self.manifest["config"], &self.manifest["layers"][0]] {
            let size = blobs[&place(part)?].len();
            ensure!(part["size"] == size, "a part has {size} bytes: {part}");
        }
        let mut layer = Vec::new();
        flate2::read::GzDecoder::new(blobs[&self.layer].as_slice()).read_to_end(&mut layer)?;
        let diff = format!("sha256:{}", digest(&layer)?);
        ensure!(
            self.config["rootfs"]["diff_ids"][0] == diff.as_str(),
            "the layer is not {diff}"
        );
        Ok(())
    }

    fn words(&self, key: &str) -> Vec<String> {
        let list = self.config["config"][key].as_array().into_iter().flatten();
        list.filter_map(|word| word.as_str().map(str::to_owned))
            .collect()
    }
}

fn unpack(layer: &[u8], root: &Path) -> anyhow::Result<()> {
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(layer));
    archive.set_preserve_permissions(true);
    archive.set_preserve_ownerships(true);
    archive.unpack(root)?;
    Ok(())
}

/// Runs it as an engine would, with nothing but the image: its user, its words, its health check.
fn serve(image: &Image, root: &Path) -> anyhow::Result<()> {
    fs::write(root.join("etc/headwater/apps/ticks.siddhi"), APP)?;
    let address = format!("127.0.0.1:{}", testservers::free_port()?);
    let here = |word: &String| word.replace("127.0.0.1:9090", &address);
    let user = image.config["config"]["User"].as_str().context("no user")?;
    let folder = image.config["config"]["WorkingDir"]
        .as_str()
        .context("no folder")?;
    ensure!(user != "0" && !user.is_empty(), "it runs as root");
    ensure!(
        root.join(folder.trim_start_matches('/')).is_dir(),
        "no folder {folder}"
    );
    let command = |words: Vec<String>| {
        let mut command = Command::new("chroot");
        command
            .arg(format!("--userspec={user}"))
            .arg(root)
            .args(words);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin");
        command.stdin(Stdio::null());
        command
    };
    let words = image
        .words("Entrypoint")
        .iter()
        .chain(&image.words("Cmd"))
        .map(here)
        .collect();
    let log = tempfile::NamedTempFile::new()?;
    let errors = log.reopen()?;
    let child = command(words)
        .stdout(errors.try_clone()?)
        .stderr(errors)
        .spawn()?;
    let mut running = Running(child);
    let said = || fs::read_to_string(log.path()).unwrap_or_default();
    let ready = eventually("the image is ready", || {
        if let Some(status) = running.0.try_wait()? {
            anyhow::bail!("it ended: {status}");
        }
        Ok(curl(&[&format!("http://{address}/ready")]).is_ok_and(|(status, _)| status == 200))
    });
    ready.with_context(said)?;
    let test = image.config["config"]["Healthcheck"]["Test"].as_array();
    let test = test.context("no health check")?.iter().skip(1);
    let test = test
        .filter_map(Json::as_str)
        .map(|word| here(&word.to_owned()));
    output(&mut command(test.collect())).context("its health check")?;
    let signal = image.config["config"]["StopSignal"]
        .as_str()
        .context("no signal")?;
    let signal = format!("-{}", signal.trim_start_matches("SIG"));
    output(Command::new("kill").args([&signal, &running.0.id().to_string()]))?;
    let status = running.0.wait()?;
    ensure!(status.success(), "it ends with {status}: {}", said());
    Ok(())
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            self.0.kill().ok();
            self.0.wait().ok();
        }
    }
}
