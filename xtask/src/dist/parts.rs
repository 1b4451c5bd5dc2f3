//! What the program is made of: the libraries that are linked into it, with their licences.
//!
//! Only what is in the program counts: neither what runs while it is built nor what tests need. A
//! library of C that a crate brings along is a part of its own, with its own version.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, ensure};
use serde_json::Value as Json;

use crate::cargo::cargo;
use crate::tidy::clarified;

/// A crate in the program.
#[derive(Clone, Debug)]
pub struct Part {
    /// As cargo tells packages apart.
    pub id: String,
    pub name: String,
    pub version: String,
    /// SPDX expression.
    pub license: Option<String>,
    pub description: Option<String>,
    pub repository: Option<String>,
    /// SHA-256 of what was downloaded; none for the crates of this repository.
    pub checksum: Option<String>,
    /// Ids of the parts that it needs.
    pub needs: Vec<String>,
    pub folder: PathBuf,
    /// The library of C in it.
    pub bundled: Option<Bundled>,
}

/// A library of C that a crate brings along.
#[derive(Clone, Debug)]
pub struct Bundled {
    pub name: &'static str,
    pub version: String,
    /// SPDX expression.
    pub license: &'static str,
    /// Vendor and product of its CPE, by which known weaknesses are looked up.
    pub cpe: (&'static str, &'static str),
}

/// Where a crate says which version of a library it brings along.
enum Where {
    /// Behind `+` in its own version.
    Build,
    /// What stands behind this word in a file.
    Header(&'static str, &'static str),
    /// The same as one number: major, two digits of minor, two of patch.
    Packed(&'static str, &'static str),
    /// Three numbers, defined one by one in a file.
    Numbers(&'static str, [&'static str; 3]),
}

struct Source {
    package: &'static str,
    name: &'static str,
    license: &'static str,
    cpe: (&'static str, &'static str),
    place: Where,
}

const BUNDLED: &[Source] = &[
    Source {
        package: "libmimalloc-sys",
        name: "mimalloc",
        license: "MIT",
        cpe: ("microsoft", "mimalloc"),
        place: Where::Packed(
            "c_src/mimalloc/v3/include/mimalloc.h",
            "#define MI_MALLOC_VERSION",
        ),
    },
    Source {
        package: "libsqlite3-sys",
        name: "SQLite",
        license: "blessing",
        cpe: ("sqlite", "sqlite"),
        place: Where::Header("sqlite3/sqlite3.h", "#define SQLITE_VERSION "),
    },
    Source {
        package: "libz-sys",
        name: "zlib",
        license: "Zlib",
        cpe: ("zlib", "zlib"),
        place: Where::Header("src/zlib/zlib.h", "#define ZLIB_VERSION"),
    },
    Source {
        package: "openssl-src",
        name: "OpenSSL",
        license: "Apache-2.0",
        cpe: ("openssl", "openssl"),
        place: Where::Build,
    },
    Source {
        package: "oracle",
        name: "ODPI-C",
        license: "Apache-2.0 OR UPL-1.0",
        cpe: ("oracle", "odpi-c"),
        place: Where::Numbers(
            "odpi/include/dpi.h",
            [
                "#define DPI_MAJOR_VERSION",
                "#define DPI_MINOR_VERSION",
                "#define DPI_PATCH_LEVEL",
            ],
        ),
    },
    Source {
        package: "rdkafka-sys",
        name: "librdkafka",
        license: "BSD-2-Clause",
        cpe: ("confluent", "librdkafka"),
        place: Where::Build,
    },
    Source {
        package: "rquickjs-sys",
        name: "QuickJS-NG",
        license: "MIT",
        cpe: ("quickjs-ng", "quickjs"),
        place: Where::Numbers(
            "quickjs/quickjs.h",
            [
                "#define QJS_VERSION_MAJOR",
                "#define QJS_VERSION_MINOR",
                "#define QJS_VERSION_PATCH",
            ],
        ),
    },
    Source {
        package: "zstd-sys",
        name: "Zstandard",
        license: "BSD-3-Clause OR GPL-2.0-only",
        cpe: ("facebook", "zstandard"),
        place: Where::Build,
    },
];

/// The crates whose code comes into the program although they are needed to build another only: they
/// hand over sources.
const SOURCES_ONLY: &[&str] = &["openssl-src"];

/// All parts of the program `headwater` with these features, the program itself first, the others by
/// name.
pub fn parts(features: &[&str]) -> anyhow::Result<Vec<Part>> {
    let host = host()?;
    let output = cargo(&["metadata", "--offline", "--locked", "--format-version", "1"])
        .args(["--filter-platform", &host])
        .args(["--manifest-path", "crates/headwater/Cargo.toml"])
        .args(["--features", &features.join(",")])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(
        output.status.success(),
        "cargo metadata failed: build first"
    );
    let json: Json = serde_json::from_slice(&output.stdout)?;
    let lock = fs::read_to_string("Cargo.lock").context("Cargo.lock")?;
    let tree = tree(features)?;
    let mut parts = linked(&json, &tree, &checksums(&lock))?;
    let clarified = clarified()?;
    for part in &mut parts {
        part.bundled = bundled(part)?;
        let found = clarified.iter().find(|(name, _)| *name == part.name);
        part.license = part
            .license
            .take()
            .or(found.map(|(_, license)| license.clone()));
    }
    Ok(parts)
}

fn host() -> anyhow::Result<String> {
    let output = std::process::Command::new("rustc").arg("-vV").output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host
        .context("rustc does not say for which machine it builds")?
        .to_owned())
}

/// Name and version of what cargo links into the program. Its metadata would add what other members of
/// the workspace switch on.
fn tree(features: &[&str]) -> anyhow::Result<BTreeSet<(String, String)>> {
    let output = cargo(&["tree", "--offline", "--locked", "--package", "headwater"])
        .args(["--edges", "normal,no-proc-macro", "--prefix", "none"])
        .args(["--format", "{p}", "--features", &features.join(",")])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(output.status.success(), "cargo tree failed: build first");
    let text = String::from_utf8(output.stdout)?;
    let named = text.lines().filter_map(|line| {
        let (name, rest) = line.split_once(" v")?;
        Some((name.to_owned(), rest.split(' ').next()?.to_owned()))
    });
    Ok(named.collect())
}

/// By name and version, from `Cargo.lock`.
fn checksums(lock: &str) -> HashMap<(String, String), String> {
    let mut all = HashMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let value = |key: &str| {
            let prefix = format!("{key} = \"");
            let line = package.lines().find_map(|l| l.strip_prefix(&prefix));
            line.map(|rest| rest.trim_end_matches('"').to_owned())
        };
        if let (Some(name), Some(version), Some(sum)) =
            (value("name"), value("version"), value("checksum"))
        {
            all.insert((name, version), sum);
        }
    }
    all
}

/// The packages that `headwater` reaches over what is linked.
fn linked(
    json: &Json,
    tree: &BTreeSet<(String, String)>,
    checksums: &HashMap<(String, String), String>,
) -> anyhow::Result<Vec<Part>> {
    let packages = json["packages"].as_array().context("no packages")?;
    let by_id: HashMap<&str, &Json> = packages
        .iter()
        .filter_map(|package| Some((package["id"].as_str()?, package)))
        .collect();
    let nodes = json["resolve"]["nodes"].as_array().context("no nodes")?;
    let nodes: HashMap<&str, &Json> = nodes
        .iter()
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let root = packages
        .iter()
        .find(|package| package["name"] == "headwater")
        .and_then(|package| package["id"].as_str())
        .context("no package 'headwater'")?;
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut to_do = vec![root];
    while let Some(id) = to_do.pop() {
        if found.contains_key(id) {
            continue;
        }
        let node = nodes.get(id).context("a package without a node")?;
        let needs = needs(node, &by_id, tree);
        to_do.extend(&needs);
        found.insert(id, needs);
    }
    let part = |(id, needs): (&str, &Vec<&str>)| part_of(by_id[id], needs, checksums);
    let mut parts: Vec<Part> = found.iter().map(|(id, needs)| part((id, needs))).collect();
    parts.sort_by_key(|part| (part.id != root, part.name.clone(), part.version.clone()));
    let is_found = |(name, version): &&(String, String)| {
        parts
            .iter()
            .any(|part| part.name == *name && part.version == *version)
    };
    let lost: Vec<_> = tree.iter().filter(|named| !is_found(named)).collect();
    ensure!(
        lost.is_empty(),
        "cargo links what its metadata does not have: {lost:?}"
    );
    Ok(parts)
}

/// What one package needs of what is in the program.
fn needs<'a>(
    node: &'a Json,
    by_id: &HashMap<&str, &Json>,
    tree: &BTreeSet<(String, String)>,
) -> Vec<&'a str> {
    let dependencies = node["deps"].as_array().into_iter().flatten();
    let is_linked = |dependency: &&Json| {
        let package = dependency["pkg"].as_str().and_then(|id| by_id.get(id));
        let Some(package) = package else { return false };
        let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
        let mut kinds = dependency["dep_kinds"].as_array().into_iter().flatten();
        let is_code = kinds.any(|kind| kind["kind"].is_null());
        SOURCES_ONLY.contains(&text("name").as_str())
            || is_code && tree.contains(&(text("name"), text("version")))
    };
    let linked = dependencies.filter(is_linked);
    let ids: BTreeSet<&str> = linked.filter_map(|d| d["pkg"].as_str()).collect();
    ids.into_iter().collect()
}

fn part_of(package: &Json, needs: &[&str], checksums: &HashMap<(String, String), String>) -> Part {
    let text = |key: &str| package[key].as_str().map(str::to_owned);
    let (name, version) = (
        text("name").unwrap_or_default(),
        text("version").unwrap_or_default(),
    );
    let manifest = PathBuf::from(text("manifest_path").unwrap_or_default());
    Part {
        id: text("id").unwrap_or_default(),
        license: text("license").map(|license| license.replace('/', " OR ")),
        description: text("description")
            .map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ")),
        repository: text("repository"),
        checksum: checksums.get(&(name.clone(), version.clone())).cloned(),
        needs: needs.iter().map(|id| (*id).to_owned()).collect(),
        folder: manifest.parent().unwrap_or(Path::new("")).to_owned(),
        bundled: None,
        name,
        version,
    }
}

/// The library of C in a crate, where there is one. Where the crate says nothing of its version any
/// more, that is an error: an SBOM with a hole in it looks whole.
fn bundled(part: &Part) -> anyhow::Result<Option<Bundled>> {
    let Some(source) = BUNDLED.iter().find(|source| source.package == part.name) else {
        return Ok(None);
    };
    let read = |path: &str| {
        let path = part.folder.join(path);
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    };
    let version = match &source.place {
        Where::Build => part
            .version
            .split_once('+')
            .map(|(_, build)| build.to_owned()),
        Where::Packed(path, word) => defined(&read(path)?, word).and_then(|text| unpacked(&text)),
        Where::Header(path, word) => defined(&read(path)?, word),
        Where::Numbers(path, words) => {
            let text = read(path)?;
            let numbers = words.iter().map(|word| defined(&text, word));
            let numbers: Option<Vec<String>> = numbers.collect();
            numbers.map(|numbers| numbers.join("."))
        }
    };
    let version = version.with_context(|| {
        format!(
            "{} {} does not say which {} it has: see BUNDLED",
            part.name, part.version, source.name
        )
    })?;
    Ok(Some(Bundled {
        name: source.name,
        version,
        license: source.license,
        cpe: source.cpe,
    }))
}

/// What a line defines behind a word: without quotes and comments.
fn defined(text: &str, word: &str) -> Option<String> {
    let rest = text
        .lines()
        .find_map(|line| line.trim().strip_prefix(word))?;
    let rest = rest.split("/").next()?.trim().trim_matches('"');
    (!rest.is_empty()).then(|| rest.to_owned())
}

/// `20302` is 2.3.2.
fn unpacked(text: &str) -> Option<String> {
    let number: u32 = text.parse().ok()?;
    let (major, minor, patch) = (number / 10_000, number / 100 % 100, number % 100);
    Some(format!("{major}.{minor}.{patch}"))
}

/// The licences of all parts that come from elsewhere, in full, each text once.
pub fn notices(parts: &[Part]) -> anyhow::Result<String> {
    let mut by_text: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut silent = Vec::new();
    for part in parts.iter().filter(|part| part.checksum.is_some()) {
        let name = format!("{} {}", part.name, part.version);
        let texts = license_texts(&part.folder)?;
        if texts.is_empty() {
            let license = part.license.as_deref().unwrap_or("its own terms");
            silent.push(format!("{name}: {license}"));
        }
        for text in texts {
            let users = by_text.entry(text).or_default();
            if !users.contains(&name) {
                users.push(name.clone());
            }
        }
    }
    let mut all = String::from(
        "Headwater is linked with the libraries below. Each text is followed by nothing of ours;\n\
         the lines above it name the libraries that it belongs to.\n",
    );
    if !silent.is_empty() {
        all.push_str("\nLibraries that come without a text, under the licence that they name:\n\n");
        silent
            .iter()
            .for_each(|line| all.push_str(&format!("  {line}\n")));
    }
    let mut texts: Vec<(&String, &Vec<String>)> = by_text.iter().collect();
    texts.sort_by_key(|(_, users)| users.first().cloned());
    for (text, users) in texts {
        let line = "-".repeat(78);
        all.push_str(&format!(
            "\n{line}\n{}\n{line}\n\n{}\n",
            users.join("\n"),
            text.trim_end()
        ));
    }
    Ok(all)
}

/// Files of a crate, and of the library of C in it, that hold a licence.
fn license_texts(folder: &Path) -> anyhow::Result<Vec<String>> {
    const NAMES: &[&str] = &[
        "license",
        "licence",
        "copying",
        "notice",
        "copyright",
        "unlicense",
    ];
    let mut paths = Vec::new();
    // A library of C lies at most two folders down.
    let mut folders = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .to_lowercase();
            if path.is_dir() && depth < 2 {
                folders.push((path, depth + 1));
            } else if path.is_file()
                && NAMES.iter().any(|start| name.starts_with(start))
                && !name.ends_with(".rs")
                && !name.ends_with(".py")
            {
                paths.push(path);
            }
        }
    }
    paths.sort();
    let texts = paths.iter().map(|path| {
        let bytes = fs::read(path).with_context(|| path.display().to_string())?;
        Ok(String::from_utf8_lossy(&bytes).replace("\r\n", "\n"))
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_is_linked_is_a_part() {
        let package = |id: &str| {
            json!({"id": id, "name": id, "version": "1.0.0", "license": "MIT/ISC",
                "manifest_path": "/x/Cargo.toml"})
        };
        let dependency = |id: &str, kind: Json| json!({"pkg": id, "dep_kinds": [{"kind": kind}]});
        let json = json!({
            "packages": [package("headwater"), package("a"), package("cc"), package("more"),
                package("openssl-src"), package("t")],
            "resolve": {"nodes": [
                {"id": "headwater", "deps": [dependency("a", Json::Null), dependency("t", json!("dev")),
                    dependency("more", Json::Null)]},
                {"id": "a", "deps": [dependency("cc", json!("build")),
                    dependency("openssl-src", json!("build"))]},
                {"id": "openssl-src", "deps": [dependency("cc", Json::Null)]},
                {"id": "cc", "deps": []}, {"id": "t", "deps": []}, {"id": "more", "deps": []},
            ]},
        });
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"00ff\"\n";
        let named = |name: &str| (name.to_owned(), "1.0.0".to_owned());
        let tree: BTreeSet<(String, String)> = [named("headwater"), named("a")].into();
        let parts = linked(&json, &tree, &checksums(lock)).unwrap();
        let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
        // What hands over sources is built by tools that are not handed over.
        assert_eq!(names, ["headwater", "a", "openssl-src"]);
        assert_eq!(parts[1].license.as_deref(), Some("MIT OR ISC"));
        assert_eq!(parts[1].checksum.as_deref(), Some("00ff"));
        let unknown: BTreeSet<(String, String)> = [named("headwater"), named("b")].into();
        assert!(linked(&json, &unknown, &checksums(lock)).is_err());
    }

    #[test]
    fn versions_are_read_as_headers_define_them() {
        let text = "#define SQLITE_VERSION        \"3.50.2\"\n  #define DPI_MAJOR_VERSION   5\n\
                    #define MI_MALLOC_VERSION 20302   // major + 2 digits\n";
        assert_eq!(
            defined(text, "#define SQLITE_VERSION ").as_deref(),
            Some("3.50.2")
        );
        assert_eq!(
            defined(text, "#define DPI_MAJOR_VERSION").as_deref(),
            Some("5")
        );
        let packed = defined(text, "#define MI_MALLOC_VERSION").unwrap();
        assert_eq!(unpacked(&packed).as_deref(), Some("2.3.2"));
        assert_eq!(defined(text, "#define NOTHING"), None);
    }
}
