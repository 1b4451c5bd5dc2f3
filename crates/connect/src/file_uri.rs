//! Where a file is: the URIs of Siddhi apps as local paths.
//!
//! `file:/a`, `file:///a`, `file://localhost/a` and a plain path name the same file. A `file:` URI is
//! percent-decoded, a plain path is taken as it is, so that `trp:file.path` can be handed to
//! `#file:move` whatever characters the name holds.

use std::path::{Component, Path, PathBuf};

/// Schemes of the original that need a client which is not built in.
const REMOTE: &[&str] = &[
    "ftp", "ftps", "sftp", "smb", "webdav", "webdavs", "http", "https", "hdfs", "s3",
];

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UriError {
    /// Never quotes the URI itself: it may hold a password.
    #[error(
        "scheme '{scheme}' does not run here: bring the files to a local directory (a mount, rsync) \
         and name that with 'file:/…'"
    )]
    Remote { scheme: String },
    #[error("unknown scheme '{scheme}': name a local file with 'file:/…' or a plain path")]
    Scheme { scheme: String },
    #[error("file URI '{uri}' names another machine: write 'file:/…' for a local file")]
    Host { uri: String },
    #[error("file URI is empty: name a local file with 'file:/…' or a plain path")]
    Empty,
    #[error("file URI '{uri}' does not decode to UTF-8 text: write the path plainly")]
    Text { uri: String },
}

/// The local path that a URI names, absolute as far as the current directory is known, without `.`
/// and `..` resolved (links may lie on the way).
pub fn local_path(uri: &str) -> Result<PathBuf, UriError> {
    let uri = uri.trim();
    let path = match scheme(uri) {
        None => uri.to_owned(),
        Some("file") => {
            let rest = &uri["file:".len()..];
            let rest = match rest.strip_prefix("//") {
                None => rest,
                Some(rest) => {
                    let slash = rest.find('/').unwrap_or(rest.len());
                    let (host, path) = rest.split_at(slash);
                    if !host.is_empty() && !host.eq_ignore_ascii_case("localhost") {
                        return Err(UriError::Host {
                            uri: uri.to_owned(),
                        });
                    }
                    path
                }
            };
            percent_decoded(rest).ok_or_else(|| UriError::Text {
                uri: uri.to_owned(),
            })?
        }
        Some(scheme) => {
            let scheme = scheme.to_ascii_lowercase();
            return Err(if REMOTE.contains(&scheme.as_str()) {
                UriError::Remote { scheme }
            } else {
                UriError::Scheme { scheme }
            });
        }
    };
    if path.is_empty() {
        return Err(UriError::Empty);
    }
    Ok(absolute(Path::new(&path)))
}

/// The scheme of a URI; a single letter or something with a slash before the colon is none.
fn scheme(uri: &str) -> Option<&str> {
    let (scheme, _) = uri.split_once(':')?;
    let mut letters = scheme.bytes();
    let is_scheme = letters.next().is_some_and(|b| b.is_ascii_alphabetic())
        && scheme.len() > 1
        && letters.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    if !is_scheme {
        return None;
    }
    let is_file = scheme.eq_ignore_ascii_case("file");
    // `name:with-colon.csv` is a file; a scheme other than `file` is followed by `//`.
    if is_file {
        Some("file")
    } else {
        uri[scheme.len() + 1..].starts_with("//").then_some(scheme)
    }
}

/// `%41` becomes `A`; a `%` without two hexadecimal digits stays. `None` where the bytes are not UTF-8.
pub fn percent_decoded(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let bytes = text.as_bytes();
    let hex = |at: usize| bytes.get(at).and_then(|b| char::from(*b).to_digit(16));
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], hex(at + 1), hex(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            (byte, ..) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8(out).ok()
}

/// Puts the current directory before a relative path and drops `.` and doubled slashes.
fn absolute(path: &Path) -> PathBuf {
    let full = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    full.components()
        .filter(|part| !matches!(part, Component::CurDir))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(uri: &str, expect: &str) {
        let path = local_path(uri).map(|p| p.display().to_string());
        assert_eq!(path.as_deref(), Ok(expect), "{uri}");
    }

    #[test]
    fn the_forms_of_a_local_file() {
        check("file:/a/b", "/a/b");
        check("file:///a/b", "/a/b");
        check("file://localhost/a/b", "/a/b");
        check("FILE:/a/b", "/a/b");
        check("/a/b", "/a/b");
        check("  file:/a/b/ ", "/a/b");
        check("file:/a//b/./c", "/a/b/c");
        check("file:/a%20b/%C3%A9", "/a b/é");
        check("file:/100%/a%2", "/100%/a%2");
        check("/a%20b", "/a%20b");
        check("/a:b/c", "/a:b/c");
        let here = std::env::current_dir().unwrap();
        check("file:in", &here.join("in").display().to_string());
        check("in/x:y.csv", &here.join("in/x:y.csv").display().to_string());
        check("x:y.csv", &here.join("x:y.csv").display().to_string());
    }

    #[test]
    fn what_is_not_local_says_what_to_do_and_shows_no_password() {
        let error = local_path("sftp://me:secret@host/in").unwrap_err();
        assert_eq!(
            error,
            UriError::Remote {
                scheme: "sftp".into()
            }
        );
        assert!(!error.to_string().contains("secret"));
        assert!(matches!(
            local_path("gopher://x/y"),
            Err(UriError::Scheme { .. })
        ));
        assert!(matches!(
            local_path("file://host/y"),
            Err(UriError::Host { .. })
        ));
        assert_eq!(local_path(" "), Err(UriError::Empty));
        assert_eq!(local_path("file:"), Err(UriError::Empty));
        assert!(matches!(
            local_path("file:/%ff"),
            Err(UriError::Text { .. })
        ));
    }
}
