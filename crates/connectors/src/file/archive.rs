//! `#file:archive`, `#file:unarchive` and `#file:searchInArchive`: zip and tar, and tar or a single
//! file behind gzip.
//!
//! Promises: an archive appears under its name only when it is whole; no entry is written outside
//! the destination; what an archive may unpack to is bounded.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use event::Value;
use flate2::read::MultiGzDecoder;

use super::functions::{Arguments, describe, includes, list, part_of, walk};

/// Bytes that one archive may unpack to.
const UNPACKED_BYTES_MAX: u64 = 16 << 30;

/// Entries of one archive.
const ENTRIES_MAX: usize = 1_000_000;

type Result<T> = std::result::Result<T, String>;

/// Packs a file, or what lies below a directory, into `destination/name.zip` or `.tar`.
pub(super) fn archive(arguments: &Arguments<'_>) -> Result<Vec<Value>> {
    arguments.no_options(5)?;
    let (from, to) = (arguments.path(0)?, arguments.path(1)?);
    let kind = match arguments.optional_text(2).to_ascii_lowercase().as_str() {
        "" | "zip" => "zip",
        "tar" => "tar",
        other => {
            return Err(format!(
                "archive type '{other}' is not known: use zip or tar"
            ));
        }
    };
    let pattern = arguments.pattern(3)?;
    let depth = if arguments.flag(4) { 0 } else { usize::MAX };
    let failed = |error: io::Error| describe("archive", &from, &error);
    let files: Vec<(PathBuf, String)> = if from.is_dir() {
        let below = walk(&from, depth).map_err(failed)?;
        below
            .files
            .into_iter()
            .map(|file| (file.clone(), entry_name(&from, &file)))
            .collect()
    } else {
        let root = from.parent().unwrap_or(Path::new("/"));
        vec![(from.clone(), entry_name(root, &from))]
    };
    let files: Vec<_> = files
        .into_iter()
        .filter(|(file, _)| includes(pattern.as_ref(), file))
        .collect();
    let name = from.file_name().unwrap_or_default().to_string_lossy();
    let target = to.join(format!("{name}.{kind}"));
    let part = part_of(&target);
    let pack = || -> io::Result<()> {
        fs::create_dir_all(&to)?;
        let file = File::create(&part)?;
        match kind {
            "zip" => pack_zip(file, &files)?,
            _ => pack_tar(file, &files)?,
        }
        fs::rename(&part, &target)
    };
    pack().map_err(|error| {
        // The first error says what went wrong; a part that cannot be removed either is left.
        fs::remove_file(&part).ok();
        failed(error)
    })?;
    Ok(Vec::new())
}

fn entry_name(root: &Path, file: &Path) -> String {
    file.strip_prefix(root)
        .unwrap_or(file)
        .to_string_lossy()
        .into_owned()
}

fn pack_zip(file: File, files: &[(PathBuf, String)]) -> io::Result<()> {
    let mut writer = zip::ZipWriter::new(file);
    let options = zip::write::SimpleFileOptions::default().large_file(true);
    for (path, name) in files {
        writer.start_file(name.as_str(), options)?;
        io::copy(&mut File::open(path)?, &mut writer)?;
    }
    writer.finish()?.sync_all()
}

fn pack_tar(file: File, files: &[(PathBuf, String)]) -> io::Result<()> {
    let mut writer = tar::Builder::new(file);
    for (path, name) in files {
        writer.append_path_with_name(path, name)?;
    }
    writer.into_inner()?.sync_all()
}

/// Unpacks into `destination/name`, or into the destination itself without the root directory.
pub(super) fn unarchive(arguments: &Arguments<'_>) -> Result<Vec<Value>> {
    arguments.no_options(3)?;
    let (from, to) = (arguments.path(0)?, arguments.path(1)?);
    let kind = Kind::of(&from)?;
    let root = if arguments.flag(2) {
        to
    } else {
        to.join(kind.stem(&from))
    };
    let mut left = UNPACKED_BYTES_MAX;
    visit(&from, kind, &mut |name, content| {
        let Some(content) = content else {
            return Ok(());
        };
        let target = inside(&root, name)?;
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        let part = part_of(&target);
        let count = io::copy(&mut content.take(left + 1), &mut File::create(&part)?)?;
        if count > left {
            fs::remove_file(&part)?;
            return Err(io::Error::other(format!(
                "it unpacks to more than {UNPACKED_BYTES_MAX} bytes"
            )));
        }
        left -= count;
        fs::rename(&part, &target)
    })
    .map_err(|error| describe("unarchive", &from, &error))?;
    Ok(Vec::new())
}

/// Names of the files in an archive.
pub(super) fn search(arguments: &Arguments<'_>) -> Result<Vec<Value>> {
    arguments.no_options(2)?;
    let from = arguments.path(0)?;
    let pattern = arguments.pattern(1)?;
    let mut names = Vec::new();
    visit(&from, Kind::of(&from)?, &mut |name, content| {
        if content.is_some() && includes(pattern.as_ref(), Path::new(name)) {
            names.push(Value::str(name));
        }
        Ok(())
    })
    .map_err(|error| describe("search", &from, &error))?;
    Ok(vec![list(names.into_iter())])
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Zip,
    Tar,
    TarGzip,
    /// One file.
    Gzip,
}

impl Kind {
    fn of(path: &Path) -> Result<Kind> {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .to_ascii_lowercase();
        match name.rsplit('.').next() {
            Some("zip") => Ok(Kind::Zip),
            Some("tar") => Ok(Kind::Tar),
            Some("tgz") => Ok(Kind::TarGzip),
            Some("gz") if name.ends_with(".tar.gz") => Ok(Kind::TarGzip),
            Some("gz") => Ok(Kind::Gzip),
            _ => Err(format!(
                "archive '{}' is of no kind that can be read: use zip, tar, tar.gz, tgz or gz",
                path.display()
            )),
        }
    }

    fn stem(self, path: &Path) -> String {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let suffix = match self {
            Kind::TarGzip if name.to_ascii_lowercase().ends_with(".tar.gz") => ".tar.gz".len(),
            _ => name.len() - name.rfind('.').unwrap_or(name.len()),
        };
        name[..name.len() - suffix].to_owned()
    }
}

/// Calls with the name and content of each entry; directories and links have no content.
fn visit(
    path: &Path,
    kind: Kind,
    take: &mut dyn FnMut(&str, Option<&mut dyn Read>) -> io::Result<()>,
) -> io::Result<()> {
    let file = File::open(path)?;
    match kind {
        Kind::Zip => {
            let mut archive = zip::ZipArchive::new(file)?;
            check_count(archive.len())?;
            for index in 0..archive.len() {
                let mut entry = archive.by_index(index)?;
                let name = entry.name()?.into_owned();
                let is_file = entry.is_file();
                take(&name, is_file.then_some(&mut entry as &mut dyn Read))?;
            }
            Ok(())
        }
        Kind::Tar => visit_tar(tar::Archive::new(file), take),
        Kind::TarGzip => visit_tar(tar::Archive::new(MultiGzDecoder::new(file)), take),
        Kind::Gzip => take(&kind.stem(path), Some(&mut MultiGzDecoder::new(file))),
    }
}

fn visit_tar<R: Read>(
    mut archive: tar::Archive<R>,
    take: &mut dyn FnMut(&str, Option<&mut dyn Read>) -> io::Result<()>,
) -> io::Result<()> {
    for (index, entry) in archive.entries()?.enumerate() {
        check_count(index)?;
        let mut entry = entry?;
        let name = entry.path()?.to_string_lossy().into_owned();
        let is_file = entry.header().entry_type().is_file();
        take(&name, is_file.then_some(&mut entry as &mut dyn Read))?;
    }
    Ok(())
}

fn check_count(entries: usize) -> io::Result<()> {
    if entries > ENTRIES_MAX {
        return Err(io::Error::other(format!(
            "it has more than {ENTRIES_MAX} entries"
        )));
    }
    Ok(())
}

/// The place of an entry; a name that leads outside is refused.
fn inside(root: &Path, name: &str) -> io::Result<PathBuf> {
    let path = Path::new(name);
    let is_plain = path
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !is_plain || name.contains('\\') || name.contains('\0') {
        return Err(io::Error::other(format!(
            "entry '{name}' leads outside the destination"
        )));
    }
    Ok(root.join(path))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::functions::find;
    use super::*;

    fn call(name: &str, arguments: &[&Path], more: &[Value]) -> Result<Vec<Value>> {
        let mut values: Vec<Value> = arguments
            .iter()
            .map(|path| Value::str(&path.to_string_lossy()))
            .collect();
        values.extend_from_slice(more);
        find(name).unwrap().call(&values)
    }

    fn directory() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("in");
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::write(root.join("a.csv"), "1\n").unwrap();
        fs::write(root.join("sub/b.csv"), "2\n".repeat(1000)).unwrap();
        fs::write(root.join("c.txt"), "3\n").unwrap();
        directory
    }

    #[test]
    fn a_directory_there_and_back() {
        for kind in ["zip", "tar"] {
            let directory = directory();
            let at = |name: &str| directory.path().join(name);
            let only_csv = [Value::str(kind), Value::str(".*csv")];
            call("file:archive", &[&at("in"), &at("out")], &only_csv).unwrap();
            let packed = at("out").join(format!("in.{kind}"));
            let names = call("file:searchInArchive", &[&packed], &[]).unwrap();
            assert_eq!(event::text::to_text(&names[0]), "[a.csv, sub/b.csv]");
            call("file:unarchive", &[&packed, &at("back")], &[]).unwrap();
            let unpacked = fs::read_to_string(at("back/in/sub/b.csv")).unwrap();
            assert_eq!(unpacked.len(), 2000);
            call(
                "file:unarchive",
                &[&packed, &at("flat")],
                &[Value::Bool(true)],
            )
            .unwrap();
            assert_eq!(fs::read_to_string(at("flat/a.csv")).unwrap(), "1\n");
            assert_eq!(fs::read_dir(at("out")).unwrap().count(), 1);
        }
    }

    #[test]
    fn entries_that_lead_outside_are_refused() {
        let directory = directory();
        let packed = directory.path().join("bad.zip");
        let mut writer = zip::ZipWriter::new(File::create(&packed).unwrap());
        let options = zip::write::SimpleFileOptions::default();
        writer.start_file("../outside.txt", options).unwrap();
        writer.write_all(b"x").unwrap();
        writer.finish().unwrap();
        let error = call(
            "file:unarchive",
            &[&packed, &directory.path().join("to")],
            &[],
        );
        assert!(error.unwrap_err().contains("outside"));
        assert!(!directory.path().join("outside.txt").exists());
    }

    #[test]
    fn a_single_file_behind_gzip_and_what_is_no_archive() {
        let directory = directory();
        let packed = directory.path().join("x.csv.gz");
        let mut writer = flate2::write::GzEncoder::new(
            File::create(&packed).unwrap(),
            flate2::Compression::fast(),
        );
        writer.write_all(b"1\n").unwrap();
        writer.finish().unwrap();
        let to = directory.path().join("to");
        call("file:unarchive", &[&packed, &to], &[Value::Bool(true)]).unwrap();
        assert_eq!(fs::read_to_string(to.join("x.csv")).unwrap(), "1\n");
        let other = directory.path().join("in/a.csv");
        assert!(
            call("file:unarchive", &[&other, &to], &[])
                .unwrap_err()
                .contains("zip")
        );
        let torn = directory.path().join("torn.zip");
        fs::write(&torn, "PK no").unwrap();
        assert!(call("file:searchInArchive", &[&torn], &[]).is_err());
    }
}
