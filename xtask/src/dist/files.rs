//! The files of a package: written as a folder, or as a tar archive, the same each time.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// By their path from the root, without the first `/`; folders above a file come of themselves.
#[derive(Default, Debug)]
pub struct Files(BTreeMap<String, Entry>);

#[derive(Clone, Debug)]
pub struct Entry {
    pub mode: u32,
    /// User and group, by number.
    pub owner: u32,
    pub content: Content,
}

#[derive(Clone, Debug)]
pub enum Content {
    Folder,
    Bytes(Vec<u8>),
    /// The bytes of this file.
    Of(PathBuf),
    /// A symbolic link to this.
    Link(String),
}

impl Files {
    pub fn put(&mut self, path: &str, mode: u32, content: Content) {
        let entry = Entry {
            mode,
            owner: 0,
            content,
        };
        self.put_entry(path, entry);
    }

    pub fn put_entry(&mut self, path: &str, entry: Entry) {
        let above = path.match_indices('/').map(|(at, _)| &path[..at]);
        for folder in above {
            let folder = folder.to_owned();
            self.0.entry(folder).or_insert(Entry {
                mode: 0o755,
                owner: 0,
                content: Content::Folder,
            });
        }
        self.0.insert(path.to_owned(), entry);
    }

    pub fn text(&mut self, path: &str, text: &str) {
        self.put(path, 0o644, Content::Bytes(text.as_bytes().to_vec()));
    }

    /// Sorted by path; a folder comes before what is in it.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.0.iter().map(|(path, entry)| (path.as_str(), entry))
    }

    /// Writes everything below a folder, as whoever runs this.
    pub fn write(&self, root: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(root)?;
        for (path, entry) in self.iter() {
            let to = root.join(path);
            let written: io::Result<()> = match &entry.content {
                Content::Folder => fs::create_dir_all(&to),
                Content::Bytes(bytes) => fs::write(&to, bytes),
                Content::Of(from) => fs::copy(from, &to).map(drop),
                Content::Link(target) => std::os::unix::fs::symlink(target, &to),
            };
            written.with_context(|| format!("cannot write {}", to.display()))?;
            if !matches!(entry.content, Content::Link(_)) {
                fs::set_permissions(&to, fs::Permissions::from_mode(entry.mode))?;
            }
        }
        Ok(())
    }

    /// A tar archive in which everything was changed at `epoch`.
    pub fn tar(&self, to: impl Write, epoch: u64) -> anyhow::Result<()> {
        let mut archive = tar::Builder::new(to);
        for (path, entry) in self.iter() {
            let mut header = tar::Header::new_gnu();
            header.set_mode(entry.mode);
            header.set_mtime(epoch);
            header.set_uid(u64::from(entry.owner));
            header.set_gid(u64::from(entry.owner));
            match &entry.content {
                Content::Folder => {
                    header.set_entry_type(tar::EntryType::Directory);
                    header.set_size(0);
                    archive.append_data(&mut header, format!("{path}/"), io::empty())?;
                }
                Content::Bytes(bytes) => {
                    header.set_size(bytes.len() as u64);
                    archive.append_data(&mut header, path, bytes.as_slice())?;
                }
                Content::Of(from) => {
                    let file = File::open(from).with_context(|| from.display().to_string())?;
                    header.set_size(file.metadata()?.len());
                    archive.append_data(&mut header, path, file)?;
                }
                Content::Link(target) => {
                    header.set_entry_type(tar::EntryType::Symlink);
                    header.set_size(0);
                    archive.append_link(&mut header, path, target)?;
                }
            }
        }
        archive.into_inner()?.flush()?;
        Ok(())
    }
}

/// Compressed by gzip, without a time or a name in it.
pub fn gzip(bytes: &[u8], level: u32) -> anyhow::Result<Vec<u8>> {
    let compression = flate2::Compression::new(level);
    let mut encoder = flate2::GzBuilder::new().write(Vec::new(), compression);
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

/// SHA-256 of what passes through to another writer.
pub struct Digesting<W> {
    to: W,
    digest: ring::digest::Context,
    pub bytes: u64,
}

impl<W: Write> Digesting<W> {
    pub fn new(to: W) -> Digesting<W> {
        Digesting {
            to,
            digest: ring::digest::Context::new(&ring::digest::SHA256),
            bytes: 0,
        }
    }

    /// What was written to, and the digest as 64 hexadecimal digits.
    pub fn finish(self) -> (W, String) {
        (self.to, hex(self.digest.finish().as_ref()))
    }
}

impl<W: Write> Write for Digesting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.digest.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SHA-256 of a file, as `sha256sum` prints it.
pub fn sha256_of(path: &Path) -> anyhow::Result<String> {
    let mut file = File::open(path).with_context(|| path.display().to_string())?;
    let mut digest = Digesting::new(io::sink());
    io::copy(&mut file, &mut digest)?;
    Ok(digest.finish().1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_the_same_each_time_and_has_the_folders_above_its_files() {
        let mut files = Files::default();
        files.text("usr/share/doc/x", "text");
        files.put("usr/bin/y", 0o755, Content::Bytes(b"#!".to_vec()));
        files.put("usr/z", 0o777, Content::Link("bin/y".into()));
        let archive = || {
            let mut bytes = Vec::new();
            files.tar(&mut bytes, 1_700_000_000).unwrap();
            bytes
        };
        let bytes = archive();
        assert_eq!(bytes, archive());
        let mut read = tar::Archive::new(bytes.as_slice());
        let names: Vec<String> = read
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().display().to_string())
            .collect();
        let expected = [
            "usr",
            "usr/bin",
            "usr/bin/y",
            "usr/share",
            "usr/share/doc",
            "usr/share/doc/x",
            "usr/z",
        ];
        let names: Vec<&str> = names.iter().map(|n| n.trim_end_matches('/')).collect();
        assert_eq!(names, expected);
    }

    #[test]
    fn digests_are_those_of_sha256sum() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, "abc").unwrap();
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_of(&path).unwrap(), expected);
        assert_eq!(gzip(b"abc", 9).unwrap(), gzip(b"abc", 9).unwrap());
    }
}
