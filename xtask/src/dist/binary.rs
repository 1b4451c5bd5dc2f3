//! The program itself: how it is built, and what it needs of the system that it runs on.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::cargo;

/// Libraries that every system with glibc has. What a program that is published needs beyond them is
/// linked into it.
pub const OF_GLIBC: &[&str] = &[
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
    "libc.so.6",
    "libgcc_s.so.1",
    "libm.so.6",
];

/// Bytes that the program may have. SQL and search took it from 59 MB to twice that.
const SIZE_MAX: u64 = 125_000_000;

/// Of the linker: functions of the same code are kept once, which generic code has many of. LLD knows it, and is
/// what rustc takes on this processor.
#[cfg(target_arch = "x86_64")]
const LINK_ARGS: &[&str] = &["--", "-Clink-arg=-Wl,--icf=all"];
#[cfg(not(target_arch = "x86_64"))]
const LINK_ARGS: &[&str] = &[];

#[derive(Clone, Debug)]
pub struct Binary {
    pub path: PathBuf,
    /// Names of the shared libraries that it is linked with.
    pub libraries: Vec<String>,
    /// The oldest glibc that has all that it calls.
    pub glibc: (u32, u32),
}

/// Builds the program that is published: profile `dist`, OpenSSL and zlib linked in, no path of this
/// machine in it.
pub fn build(epoch: u64, target: &Path) -> anyhow::Result<Binary> {
    let here = std::env::current_dir()?;
    let home = cargo_home()?;
    let remap = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    let rust_flags = [
        remap(&home, "/cargo"),
        remap(target, "/target"),
        remap(&here, "/headwater"),
    ];
    let map = |from: &Path, to: &str| format!("-ffile-prefix-map={}={to}", from.display());
    let c_flags = [map(&home, "/cargo"), map(target, "/target")];
    let args = [
        "rustc",
        "--locked",
        "--profile",
        "dist",
        "--package",
        "headwater",
        "--bin",
        "headwater",
        "--features",
        "vendored",
        "--message-format",
        "json-render-diagnostics",
    ];
    let output = cargo::cargo(&[&args, LINK_ARGS].concat())
        .env("CARGO_ENCODED_RUSTFLAGS", rust_flags.join("\u{1f}"))
        .env("CFLAGS", c_flags.join(" "))
        .env("CXXFLAGS", c_flags.join(" "))
        .env("SOURCE_DATE_EPOCH", epoch.to_string())
        // Where distributions keep certificates and openssl.cnf.
        .env("OPENSSL_CONFIG_DIR", "/etc/ssl")
        .env("CARGO_INCREMENTAL", "0")
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(output.status.success(), "the program cannot be built");
    let path = cargo::executable(&output.stdout, "headwater")?;
    let binary = Binary::read(&path)?;
    let size = std::fs::metadata(&path)?.len();
    ensure!(
        size < SIZE_MAX,
        "the program has {size} bytes: at most {SIZE_MAX} are wanted"
    );
    let foreign = binary.foreign();
    ensure!(
        foreign.is_empty(),
        "the program is linked with {}: link them in, as the feature 'vendored' does",
        foreign.join(", ")
    );
    Ok(binary)
}

fn cargo_home() -> anyhow::Result<PathBuf> {
    if let Some(home) = std::env::var_os("CARGO_HOME") {
        return Ok(home.into());
    }
    let home = std::env::var_os("HOME").context("neither CARGO_HOME nor HOME is set")?;
    Ok(Path::new(&home).join(".cargo"))
}

impl Binary {
    /// What a program says of itself.
    ///
    /// # Errors
    /// If it is no ELF file, or `readelf` (Debian package binutils) is missing.
    pub fn read(path: &Path) -> anyhow::Result<Binary> {
        let output = Command::new("readelf")
            .args(["--wide", "--dynamic", "--version-info"])
            .arg(path)
            .output()
            .context("cannot start readelf (Debian package binutils)")?;
        ensure!(
            output.status.success(),
            "'{}' is no program: {}",
            path.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        );
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(Binary {
            path: path.to_owned(),
            libraries: libraries(&text),
            glibc: glibc(&text).context("it names no version of glibc")?,
        })
    }

    /// Libraries that not every system has.
    pub fn foreign(&self) -> Vec<&str> {
        let libraries = self.libraries.iter().map(String::as_str);
        libraries.filter(|name| !OF_GLIBC.contains(name)).collect()
    }

    /// Runs it; what it prints on standard output.
    pub fn run(&self, args: &[&str]) -> anyhow::Result<String> {
        let output = Command::new(&self.path).args(args).output();
        let output = output.with_context(|| format!("cannot start {}", self.path.display()))?;
        ensure!(
            output.status.success(),
            "'headwater {}' fails: {}",
            args.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?)
    }
}

/// Lines such as `0x0000000000000001 (NEEDED)  Shared library: [libc.so.6]`.
fn libraries(text: &str) -> Vec<String> {
    let needed = text.lines().filter(|line| line.contains("(NEEDED)"));
    let names = needed.filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0));
    names.map(str::to_owned).collect()
}

/// The highest of `Name: GLIBC_2.34` and the like.
fn glibc(text: &str) -> Option<(u32, u32)> {
    let versions = text.split("GLIBC_").skip(1);
    let versions = versions.filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (major, minor) = rest[..end.unwrap_or(rest.len())].split_once('.')?;
        let minor = minor.split('.').next()?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    });
    versions.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_the_newest_version_are_read() {
        let text = " 0x01 (NEEDED)   Shared library: [libssl.so.3]\n 0x01 (NEEDED)   Shared \
                    library: [libc.so.6]\n  0x0050:   Name: GLIBC_2.9  Flags: none  Version: 5\n  \
                    0x0060:   Name: GLIBC_2.34  Flags: none\n Name: GLIBC_2.2.5  Flags: none\n \
                    Name: GLIBC_PRIVATE\n";
        assert_eq!(libraries(text), ["libssl.so.3", "libc.so.6"]);
        assert_eq!(glibc(text), Some((2, 34)));
        let binary = Binary {
            path: PathBuf::new(),
            libraries: libraries(text),
            glibc: (2, 34),
        };
        assert_eq!(binary.foreign(), ["libssl.so.3"]);
    }

    #[test]
    fn a_text_is_no_program() {
        let error = Binary::read(Path::new("Cargo.toml"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("is no program"), "{error}");
    }
}
