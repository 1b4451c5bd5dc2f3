//! The image of a container, in the format of the Open Container Initiative, made without an engine.
//!
//! `packaging/Containerfile` says how it runs; this file puts together what is in it: the program, the
//! libraries of glibc that it is linked with, certificates, and a user that is not root.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Map, Value as Json, json};

use super::files::{Content, Digesting, Entry, Files, gzip};
use super::{Release, debian_architecture, output, share};

const CONTAINERFILE: &str = "packaging/Containerfile";

/// User and group that the server runs as.
const USER: u32 = 65532;

/// Certificates of authorities, where Debian keeps them.
const CERTIFICATES: &str = "etc/ssl/certs/ca-certificates.crt";

/// How an image runs, as its Containerfile says.
#[derive(Default, Debug, PartialEq)]
struct Settings {
    user: String,
    folder: String,
    volumes: Vec<String>,
    ports: Vec<String>,
    stop_signal: String,
    entrypoint: Vec<String>,
    command: Vec<String>,
    labels: Vec<(String, String)>,
    environment: Vec<String>,
    health: Option<Json>,
}

pub fn make(release: &Release) -> anyhow::Result<PathBuf> {
    let text = std::fs::read_to_string(CONTAINERFILE).context(CONTAINERFILE)?;
    let settings = settings(&text)?;
    let layer = layer(release)?;
    let mut tar = Digesting::new(Vec::new());
    layer.tar(&mut tar, release.epoch)?;
    let (tar, diff_id) = tar.finish();
    let compressed = gzip(&tar, release.compression())?;
    release.write("rootfs.tar.gz", &compressed)?;

    let mut files = Files::default();
    let layer = blob(&mut files, compressed);
    let config = config(release, &settings, &diff_id)?;
    let config = blob(&mut files, serde_json::to_vec(&config)?);
    let descriptor = |kind: &str, (digest, size): &(String, usize)| {
        json!({"mediaType": format!("application/vnd.oci.image.{kind}"),
            "digest": format!("sha256:{digest}"), "size": size})
    };
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("config.v1+json", &config),
        "layers": [descriptor("layer.v1.tar+gzip", &layer)],
    });
    let manifest = blob(&mut files, serde_json::to_vec(&manifest)?);
    let mut index = descriptor("manifest.v1+json", &manifest);
    let name = format!("headwater:{}", release.version);
    index["annotations"] = json!({
        "org.opencontainers.image.ref.name": release.version,
        "io.containerd.image.name": name,
    });
    index["platform"] = json!({"architecture": debian_architecture()?, "os": "linux"});
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [index],
    });
    files.text("index.json", &index.to_string());
    files.text("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#);
    let mut archive = Vec::new();
    files.tar(&mut archive, release.epoch)?;
    release.write(&format!("headwater-{}-oci.tar", release.version), &archive)
}

/// The words that the image starts with.
pub fn words() -> anyhow::Result<Vec<String>> {
    let text = std::fs::read_to_string(CONTAINERFILE).context(CONTAINERFILE)?;
    let settings = settings(&text)?;
    Ok([settings.entrypoint, settings.command].concat())
}

/// Files a blob by its digest; digest and size.
fn blob(files: &mut Files, bytes: Vec<u8>) -> (String, usize) {
    let mut digesting = Digesting::new(std::io::sink());
    digesting
        .write_all(&bytes)
        .expect("a sink takes everything");
    let digest = digesting.finish().1;
    let size = bytes.len();
    files.put(
        &format!("blobs/sha256/{digest}"),
        0o644,
        Content::Bytes(bytes),
    );
    (digest, size)
}

/// The root of the image.
fn layer(release: &Release) -> anyhow::Result<Files> {
    let mut files = Files::default();
    let program = Content::Of(release.binary.path.clone());
    files.put("usr/bin/headwater", 0o755, program);
    let mut packages = vec!["ca-certificates".to_owned()];
    for library in libraries(&release.binary.path)? {
        let to = library.to_str().context("a library with an odd name")?;
        let from = Content::Of(library.canonicalize()?);
        files.put(to.trim_start_matches('/'), 0o755, from);
        packages.push(package_of(&library)?);
    }
    let certificates = std::fs::read(Path::new("/").join(CERTIFICATES));
    let certificates = certificates.context("install the Debian package ca-certificates")?;
    files.put(CERTIFICATES, 0o644, Content::Bytes(certificates));
    // Where OpenSSL looks by itself.
    let link = Content::Link("certs/ca-certificates.crt".into());
    files.put("etc/ssl/cert.pem", 0o777, link);
    files.text(
        "etc/passwd",
        &format!(
            "root:x:0:0:root:/root:/sbin/nologin\n\
             headwater:x:{USER}:{USER}:headwater:/var/lib/headwater:/sbin/nologin\n"
        ),
    );
    files.text("etc/group", &format!("root:x:0:\nheadwater:x:{USER}:\n"));
    files.text(
        "etc/nsswitch.conf",
        "passwd: files\ngroup: files\nhosts: files dns\n",
    );
    files.put("tmp", 0o1777, Content::Folder);
    // Its state, and the folder that apps are deployed into.
    for (path, mode) in [("var/lib/headwater", 0o700), ("etc/headwater/apps", 0o755)] {
        let folder = Entry {
            mode,
            owner: USER,
            content: Content::Folder,
        };
        files.put_entry(path, folder);
    }
    let notices = share::third_party_notices(release)?;
    files.text("usr/share/doc/headwater/THIRD-PARTY-NOTICES", &notices);
    let license = std::fs::read_to_string("LICENSE").context("LICENSE")?;
    files.text("usr/share/doc/headwater/LICENSE", &license);
    packages.sort();
    packages.dedup();
    for package in packages {
        debian_package(&package, &mut files)?;
    }
    Ok(files)
}

/// The licence of a Debian package, and what scanners for known weaknesses know it by.
fn debian_package(package: &str, files: &mut Files) -> anyhow::Result<()> {
    let copyright = format!("usr/share/doc/{package}/copyright");
    let text = std::fs::read(Path::new("/").join(&copyright));
    let text = text.with_context(|| format!("/{copyright}"))?;
    files.put(&copyright, 0o644, Content::Bytes(text));
    let status = output(Command::new("dpkg-query").args(["--status", package]))?;
    files.text(
        &format!("var/lib/dpkg/status.d/{package}"),
        &format!("{status}\n"),
    );
    Ok(())
}

/// Where the loader of this system finds what the program is linked with, itself among it.
fn libraries(program: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let text = output(Command::new("ldd").arg(program))?;
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        let path = match line.split_once(" => ") {
            Some((name, path)) => {
                ensure!(
                    !path.starts_with("not found"),
                    "library {name} is not installed"
                );
                path
            }
            None => line,
        };
        let path = path.split(" (").next().unwrap_or_default();
        if path.starts_with('/') {
            found.push(PathBuf::from(path));
        }
    }
    ensure!(!found.is_empty(), "ldd names no library:\n{text}");
    Ok(found)
}

fn package_of(library: &Path) -> anyhow::Result<String> {
    // dpkg knows a file by the path under which it was installed, without links to folders.
    let real = library.canonicalize()?;
    let short = real.strip_prefix("/usr").unwrap_or(&real);
    let names = [real.clone(), Path::new("/").join(short)];
    for name in names {
        let owner = output(Command::new("dpkg-query").arg("--search").arg(&name));
        if let Ok(owner) = owner {
            return Ok(owner.split(':').next().unwrap_or_default().to_owned());
        }
    }
    bail!("'{}' is of no Debian package", library.display())
}

fn config(release: &Release, settings: &Settings, diff_id: &str) -> anyhow::Result<Json> {
    let set = |names: &[String]| -> Map<String, Json> {
        names.iter().map(|name| (name.clone(), json!({}))).collect()
    };
    let mut labels: Map<String, Json> = settings
        .labels
        .iter()
        .map(|(name, value)| (name.clone(), json!(value)))
        .collect();
    labels.insert(
        "org.opencontainers.image.version".into(),
        json!(release.version),
    );
    let created = release.date("+%Y-%m-%dT%H:%M:%SZ")?;
    let mut environment = vec!["PATH=/usr/bin".to_owned()];
    environment.extend(settings.environment.iter().cloned());
    let mut config = json!({
        "User": settings.user,
        "WorkingDir": settings.folder,
        "Volumes": set(&settings.volumes),
        "ExposedPorts": set(&settings.ports),
        "StopSignal": settings.stop_signal,
        "Entrypoint": settings.entrypoint,
        "Cmd": settings.command,
        "Env": environment,
        "Labels": labels,
    });
    if let Some(health) = &settings.health {
        config["Healthcheck"] = health.clone();
    }
    Ok(json!({
        "created": created,
        "architecture": debian_architecture()?,
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{diff_id}")]},
        "history": [{"created": created, "created_by": "cargo xtask dist --part container"}],
    }))
}

/// Reads the instructions that our Containerfile has; another one is an error, so that the image never
/// differs from the file.
fn settings(text: &str) -> anyhow::Result<Settings> {
    let mut settings = Settings::default();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim();
        match word {
            "FROM" => ensure!(
                rest == "scratch",
                "FROM {rest}: the image starts from nothing"
            ),
            "ADD" => ensure!(
                rest == "rootfs.tar.gz /",
                "ADD {rest}: the root is all there is"
            ),
            "USER" => settings.user = rest.to_owned(),
            "WORKDIR" => settings.folder = rest.to_owned(),
            "VOLUME" => settings.volumes.push(rest.to_owned()),
            "EXPOSE" => settings.ports.push(rest.to_owned()),
            "STOPSIGNAL" => settings.stop_signal = rest.to_owned(),
            "ENTRYPOINT" => settings.entrypoint = list(rest)?,
            "CMD" => settings.command = list(rest)?,
            "ENV" => settings.environment.push(rest.to_owned()),
            "LABEL" => {
                let (name, value) = rest.split_once('=').context("LABEL without '='")?;
                let value = value.trim_matches('"').to_owned();
                settings.labels.push((name.to_owned(), value));
            }
            "HEALTHCHECK" => settings.health = Some(health(rest)?),
            _ => bail!("{word}: say in dist/container.rs what it makes of the image"),
        }
    }
    Ok(settings)
}

fn list(text: &str) -> anyhow::Result<Vec<String>> {
    serde_json::from_str(text).with_context(|| format!("'{text}' is no list of words in quotes"))
}

/// `--interval=10s … CMD ["program"]`, as engines keep it: times in nanoseconds.
fn health(text: &str) -> anyhow::Result<Json> {
    let (options, command) = text.split_once("CMD ").context("HEALTHCHECK without CMD")?;
    let mut test = vec!["CMD".to_owned()];
    test.extend(list(command.trim())?);
    let mut health = json!({"Test": test});
    for option in options.split_whitespace() {
        let (name, time) = option.split_once('=').context("an option without '='")?;
        let key = match name {
            "--interval" => "Interval",
            "--timeout" => "Timeout",
            "--start-period" => "StartPeriod",
            _ => bail!("HEALTHCHECK {name}"),
        };
        let seconds: u64 = time
            .trim_end_matches('s')
            .parse()
            .context("seconds, as 10s")?;
        health[key] = json!(seconds * 1_000_000_000);
    }
    Ok(health)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_containerfile_is_read_and_what_is_not_understood_is_refused() {
        let text = "# a comment\nFROM scratch\nADD rootfs.tar.gz /\nUSER 1:1\nCMD [\"run\", \"a b\"]\n\
                    LABEL a.b=\"c d\"\nHEALTHCHECK --interval=10s CMD [\"/bin/x\"]\n";
        let read = settings(text).unwrap();
        assert_eq!(read.command, ["run", "a b"]);
        assert_eq!(read.labels, [("a.b".to_owned(), "c d".to_owned())]);
        let health = json!({"Test": ["CMD", "/bin/x"], "Interval": 10_000_000_000u64});
        assert_eq!(read.health, Some(health));
        for wrong in ["RUN true", "FROM debian", "COPY a b", "CMD run"] {
            assert!(settings(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_blob_is_filed_by_its_digest() {
        let mut files = Files::default();
        let (digest, size) = blob(&mut files, b"abc".to_vec());
        assert!(digest.starts_with("ba7816bf") && size == 3);
        assert!(files.iter().any(|(path, _)| path.ends_with(&digest)));
    }
}
