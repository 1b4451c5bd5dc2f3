//! A wheel that carries the program: `pip install headwater` puts it on the path.
//!
//! There is no Python in it. Its name says for which glibc it is, read from the program itself.

use std::io::{Cursor, Write as _};
use std::path::PathBuf;

use anyhow::Context as _;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use zip::write::{SimpleFileOptions, ZipWriter};

use super::Release;
use super::binary::Binary;
use super::share;

pub fn make(release: &Release) -> anyhow::Result<PathBuf> {
    let version = &release.version;
    let tag = tag(&release.binary);
    let info = format!("headwater-{version}.dist-info");
    let mut wheel = Wheel::new(release.compression());
    let program = std::fs::read(&release.binary.path)?;
    wheel.put(
        &format!("headwater-{version}.data/scripts/headwater"),
        0o755,
        &program,
    )?;
    let license = std::fs::read("LICENSE").context("LICENSE")?;
    wheel.put(&format!("{info}/licenses/LICENSE"), 0o644, &license)?;
    let notices = share::third_party_notices(release)?;
    let path = format!("{info}/licenses/THIRD-PARTY-NOTICES");
    wheel.put(&path, 0o644, notices.as_bytes())?;
    wheel.put(
        &format!("{info}/METADATA"),
        0o644,
        metadata(version).as_bytes(),
    )?;
    let about = format!(
        "Wheel-Version: 1.0\nGenerator: cargo xtask dist\nRoot-Is-Purelib: false\nTag: {tag}\n"
    );
    wheel.put(&format!("{info}/WHEEL"), 0o644, about.as_bytes())?;
    let bytes = wheel.finish(&format!("{info}/RECORD"))?;
    release.write(&format!("headwater-{version}-{tag}.whl"), &bytes)
}

/// `manylinux` is for programs that need nothing but glibc; the numbers are its oldest version.
fn tag(binary: &Binary) -> String {
    let machine = std::env::consts::ARCH;
    let (major, minor) = binary.glibc;
    match binary.foreign().is_empty() {
        true => format!("py3-none-manylinux_{major}_{minor}_{machine}"),
        false => format!("py3-none-linux_{machine}"),
    }
}

fn metadata(version: &str) -> String {
    format!(
        "Metadata-Version: 2.4\nName: headwater\nVersion: {version}\nSummary: Streaming integration \
         server for SiddhiQL applications\nLicense-Expression: Apache-2.0\nLicense-File: LICENSE\n\
         License-File: THIRD-PARTY-NOTICES\nRequires-Python: >=3.8\nClassifier: Environment :: \
         Console\nClassifier: Operating System :: POSIX :: Linux\nDescription-Content-Type: \
         text/markdown\n\n\
         # Headwater\n\nRuns streaming applications written for Siddhi 5.1 and WSO2 Streaming \
         Integrator. This package carries the program `headwater`; there is no Python library in \
         it.\n\n\
         ```\nheadwater check app.siddhi\nheadwater run app.siddhi\n```\n"
    )
}

/// A wheel that is being written.
struct Wheel {
    archive: ZipWriter<Cursor<Vec<u8>>>,
    level: u32,
    /// The lines of its list of files.
    record: String,
}

impl Wheel {
    fn new(level: u32) -> Wheel {
        Wheel {
            archive: ZipWriter::new(Cursor::new(Vec::new())),
            level,
            record: String::new(),
        }
    }

    fn put(&mut self, path: &str, mode: u32, bytes: &[u8]) -> anyhow::Result<()> {
        self.write(path, mode, bytes)?;
        let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
        let digest = BASE64_URL_SAFE_NO_PAD.encode(digest.as_ref());
        self.record
            .push_str(&format!("{path},sha256={digest},{}\n", bytes.len()));
        Ok(())
    }

    fn write(&mut self, path: &str, mode: u32, bytes: &[u8]) -> anyhow::Result<()> {
        // Without a time: that of a zip archive begins in 1980.
        let options = SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Deflated)
            .compression_level(Some(i64::from(self.level)))
            .last_modified_time(zip::DateTime::default())
            .unix_permissions(mode);
        self.archive.start_file(path, options)?;
        self.archive.write_all(bytes)?;
        Ok(())
    }

    /// Adds the list of files, which is in itself without a sum.
    fn finish(mut self, record: &str) -> anyhow::Result<Vec<u8>> {
        let text = format!("{}{record},,\n", self.record);
        self.write(record, 0o644, text.as_bytes())?;
        Ok(self.archive.finish()?.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_says_what_the_program_needs() {
        let binary = |libraries: &[&str]| Binary {
            path: PathBuf::new(),
            libraries: libraries.iter().map(|name| (*name).to_owned()).collect(),
            glibc: (2, 35),
        };
        let machine = std::env::consts::ARCH;
        let expected = format!("py3-none-manylinux_2_35_{machine}");
        assert_eq!(tag(&binary(&["libc.so.6", "libm.so.6"])), expected);
        let expected = format!("py3-none-linux_{machine}");
        assert_eq!(tag(&binary(&["libc.so.6", "libssl.so.3"])), expected);
    }

    #[test]
    fn the_record_has_every_file_with_its_sum() {
        let mut wheel = Wheel::new(1);
        wheel.put("a", 0o755, b"abc").unwrap();
        let bytes = wheel.finish("x.dist-info/RECORD").unwrap();
        let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
        let mut record = String::new();
        let mut file = archive.by_name("x.dist-info/RECORD").unwrap();
        std::io::Read::read_to_string(&mut file, &mut record).unwrap();
        drop(file);
        assert_eq!(
            record,
            "a,sha256=ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0,3\nx.dist-info/RECORD,,\n"
        );
        assert_eq!(archive.by_name("a").unwrap().unix_mode(), Some(0o100755));
    }
}
