//! What describes messages: a descriptor set as `protoc` makes it, or a `.proto` file as it is, which the
//! protox library compiles with all that it imports.
//!
//! Promises: a fault is told with file, line, column and cause, the first few at once; size, number,
//! depth and nesting of what is read are bounded; an import never leads out of the folders named for it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs::File as Opened;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use miette::Diagnostic;
use prost_reflect::DescriptorPool;
use protox::Compiler;
use protox::file::{File, FileResolver, GoogleFileResolver};

/// Bytes of one file.
const BYTES_MAX: u64 = 4 << 20;
/// Files that one description is made of.
const FILES_MAX: usize = 512;
/// How deep files import files.
const DEPTH_MAX: usize = 64;
/// Brackets within brackets, as many as messages may lie in messages: values of options are read by
/// recursion.
const NESTING_MAX: usize = 100;
/// Faults that are told at once.
const FAULTS_MAX: usize = 3;

/// All messages and services of a file; `imports` are the folders where imports are looked for, before
/// that of the file itself. The text of an error stands behind "the description '…' cannot be read: ".
pub(super) fn pool(file: &str, imports: &[&str]) -> Result<DescriptorPool, String> {
    let path = Path::new(file);
    let bytes = read(path).map_err(|error| error.to_string())?;
    if path.extension().is_some_and(|ending| ending == "proto") {
        return compile(path, bytes, imports);
    }
    DescriptorPool::decode(bytes.as_slice()).map_err(|error| {
        format!(
            "{error}; name a file that ends in '.proto', or make a descriptor set by 'protoc \
             --include_imports --descriptor_set_out=FILE'"
        )
    })
}

/// Compiles the text of a file and what it imports.
pub fn compile(path: &Path, text: Vec<u8>, imports: &[&str]) -> Result<DescriptorPool, String> {
    let sources = Sources::new(path, text, imports)?;
    let name = sources.main.0.clone();
    let mut compiler = Compiler::with_file_resolver(sources);
    match compiler.open_file(&name) {
        Ok(compiler) => Ok(compiler.descriptor_pool()),
        Err(error) => {
            let is_import = error.is_file_not_found();
            let remedy = match is_import {
                true => "; name the folder of the import by 'descriptor.imports'",
                false => "",
            };
            Err(faults(&error) + remedy)
        }
    }
}

/// `orders.proto:3:5: name 'Money' is not defined`, and the next faults behind it.
fn faults(error: &dyn Diagnostic) -> String {
    let related = error.related().into_iter().flatten();
    let mut all = std::iter::once(error).chain(related);
    let source = error.source_code();
    let told: Vec<String> = all
        .by_ref()
        .take(FAULTS_MAX)
        .map(|fault| {
            // Where a name stands twice, the second is the one too many.
            let span = fault.labels().and_then(Iterator::last);
            let place = span.and_then(|span| source?.read_span(span.inner(), 0, 0).ok());
            let place = place.map(|place| {
                let (line, column) = (place.line() + 1, place.column() + 1);
                format!("{}:{line}:{column}: ", place.name().unwrap_or_default())
            });
            let help = fault.help().map(|help| format!(" ({help})"));
            let (place, help) = (place.unwrap_or_default(), help.unwrap_or_default());
            format!("{place}{fault}{help}")
        })
        .collect();
    let more = match all.count() {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    told.join("; ") + &more
}

/// The bytes of a file that is not too long.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    Opened::open(path)?
        .take(BYTES_MAX + 1)
        .read_to_end(&mut bytes)?;
    match bytes.len() as u64 > BYTES_MAX {
        true => Err(io::Error::other(format!(
            "it is longer than {} MiB",
            BYTES_MAX >> 20
        ))),
        false => Ok(bytes),
    }
}

/// Where the compiler finds its files.
struct Sources {
    /// The first file: how those that import it would call it, and its text.
    main: (String, Vec<u8>),
    folders: Vec<PathBuf>,
    opened: Cell<usize>,
    depths: RefCell<HashMap<String, usize>>,
}

impl Sources {
    fn new(path: &Path, text: Vec<u8>, imports: &[&str]) -> Result<Sources, String> {
        let own = path.parent().unwrap_or(Path::new(""));
        let mut folders: Vec<PathBuf> = imports.iter().map(PathBuf::from).collect();
        if let Some(none) = folders.iter().find(|folder| !folder.is_dir()) {
            return Err(format!("there is no folder '{}'", none.display()));
        }
        let by_folder = folders
            .iter()
            .find_map(|folder| name_of(path.strip_prefix(folder).ok()?));
        let by_itself = || name_of(Path::new(path.file_name()?));
        let Some(main) = by_folder.or_else(by_itself) else {
            return Err("its name is not text".to_owned());
        };
        folders.push(own.to_owned());
        Ok(Sources {
            main: (main, text),
            folders,
            opened: Cell::new(0),
            depths: RefCell::default(),
        })
    }

    /// The bytes of a file; `None` where there is none of that name.
    fn bytes(&self, name: &str) -> Option<io::Result<Vec<u8>>> {
        if name == self.main.0 {
            return Some(Ok(self.main.1.clone()));
        }
        let mut all = self.folders.iter().map(|folder| folder.join(name));
        all.find(|path| path.is_file()).map(|path| read(&path))
    }

    /// A file's text, parsed, when it keeps the limits.
    fn parsed(&self, name: &str, bytes: io::Result<Vec<u8>>) -> Result<File, protox::Error> {
        let refused = |cause: String| protox::Error::new(format!("{name}: {cause}"));
        self.opened.set(self.opened.get() + 1);
        if self.opened.get() > FILES_MAX {
            return Err(refused(format!("more than {FILES_MAX} files are imported")));
        }
        let depth = self.depths.borrow().get(name).copied().unwrap_or(0);
        if depth > DEPTH_MAX {
            return Err(refused(format!(
                "files import files more than {DEPTH_MAX} deep"
            )));
        }
        let bytes = bytes.map_err(|error| refused(error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|_| refused("it is not UTF-8".to_owned()))?;
        if let Some(line) = too_deep(&text) {
            return Err(protox::Error::new(format!(
                "{name}:{line}: brackets lie in brackets more than {NESTING_MAX} deep"
            )));
        }
        let file = File::from_source(name, &text)?;
        let mut depths = self.depths.borrow_mut();
        for import in &file.file_descriptor_proto().dependency {
            let below = depths.entry(import.clone()).or_default();
            *below = depth + 1;
        }
        Ok(file)
    }
}

/// The library refuses imports that lead out of a folder before it asks.
impl FileResolver for Sources {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        match self.bytes(name) {
            Some(bytes) => self.parsed(name, bytes),
            None => GoogleFileResolver::new().open_file(name),
        }
    }
}

/// What imports call a file: its folders and its name with slashes between them, none of them `..`.
fn name_of(path: &Path) -> Option<String> {
    let parts = path.components().map(|part| match part {
        Component::Normal(part) => part.to_str(),
        _ => None,
    });
    let parts = parts.collect::<Option<Vec<_>>>()?;
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// The line where brackets lie too deep in each other, comments and texts left out.
fn too_deep(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut at, mut line, mut depth) = (0, 1, 0_usize);
    while let Some(byte) = bytes.get(at) {
        let rest = &bytes[at..];
        at += match byte {
            b'#' => line_end(rest),
            b'/' if rest.starts_with(b"//") => line_end(rest),
            b'/' if rest.starts_with(b"/*") => {
                let end = rest[2..].windows(2).position(|two| two == b"*/");
                let length = end.map_or(rest.len(), |end| end + 4);
                line += rest[..length].iter().filter(|b| **b == b'\n').count();
                length
            }
            b'"' | b'\'' => text_end(rest),
            b'{' | b'[' | b'<' => {
                depth += 1;
                if depth > NESTING_MAX {
                    return Some(line);
                }
                1
            }
            b'}' | b']' | b'>' => {
                depth = depth.saturating_sub(1);
                1
            }
            b'\n' => {
                line += 1;
                1
            }
            _ => 1,
        };
    }
    None
}

/// Bytes up to the end of the line.
fn line_end(rest: &[u8]) -> usize {
    rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len())
}

/// Bytes of a text with its quotes; it ends at the end of the line at the latest.
fn text_end(rest: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = rest.get(at) {
        match byte {
            b'\n' => return at,
            b'\\' if rest.get(at + 1).is_some_and(|b| *b != b'\n') => at += 2,
            byte if *byte == rest[0] => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// The messages of `main.proto` among these files, or the fault without the folder's own name.
    fn check(files: &[(&str, &str)], imports: &[&str]) -> Result<Vec<String>, String> {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("it has one")).expect("a folder");
            fs::write(path, text).expect("it is written");
        }
        let at = |name: &str| folder.path().join(name).display().to_string();
        let imports: Vec<String> = imports.iter().map(|name| at(name)).collect();
        let imports: Vec<&str> = imports.iter().map(String::as_str).collect();
        let pool = pool(&at(files[0].0), &imports)?;
        Ok(pool.all_messages().map(|m| m.full_name().into()).collect())
    }

    fn fault(text: &str) -> String {
        check(&[("main.proto", text)], &[]).expect_err("it is refused")
    }

    const HEAD: &str = "syntax = \"proto3\";\npackage a;\n";

    #[test]
    fn imports_are_found_in_the_folders_named_and_in_that_of_the_file() {
        let main = format!(
            "{HEAD}import \"b/money.proto\";\nimport \"google/protobuf/timestamp.proto\";\n\
             message Order {{ b.Money price = 1; google.protobuf.Timestamp at = 2; }}"
        );
        let money = "syntax = \"proto3\"; package b; message Money { int64 cents = 1; }";
        let expect = Ok(vec![
            "b.Money".to_owned(),
            "google.protobuf.Timestamp".to_owned(),
            "a.Order".to_owned(),
        ]);
        let beside = [("main.proto", main.as_str()), ("b/money.proto", money)];
        assert_eq!(check(&beside, &[]), expect);
        let apart = [("a/main.proto", main.as_str()), ("c/b/money.proto", money)];
        assert_eq!(check(&apart, &["a", "c"]), expect);
        assert_eq!(
            check(&apart, &[]),
            Err(
                "main.proto:3:1: import 'b/money.proto' not found; name the folder of the import by \
                 'descriptor.imports'"
                    .to_owned()
            )
        );
        let nowhere = check(&apart, &["nowhere"]).expect_err("it is refused");
        assert!(nowhere.starts_with("there is no folder '"), "{nowhere}");
        // Another file of that name in a folder of imports is not what was asked for.
        let twice = [
            ("a/main.proto", main.as_str()),
            ("c/main.proto", "no proto"),
        ];
        let found = check(
            &[&twice[..], &[("c/b/money.proto", money)]].concat(),
            &["c"],
        );
        assert_eq!(found, expect);
    }

    #[test]
    fn faults_have_file_line_and_cause() {
        let unknown = format!("{HEAD}message M {{\n  Nope x = 1;\n  int32 y = 1;\n}}");
        for (text, expect) in [
            (
                unknown.as_str(),
                "main.proto:4:3: name 'Nope' is not defined; main.proto:5:13: field number '1' is \
                 already used",
            ),
            (
                "syntax = \"proto3\";\nmessage M { int32 = 1; }",
                "main.proto:2:19: expected an identifier",
            ),
            (
                "message M { required int32 a = 0; }",
                "main.proto:1:32: message numbers must be",
            ),
        ] {
            let found = fault(text);
            assert!(found.starts_with(expect), "{found}");
        }
        let inner = [
            ("main.proto", "syntax = \"proto3\"; import \"b.proto\";"),
            ("b.proto", "\n\noops"),
        ];
        let found = check(&inner, &[]).expect_err("it is refused");
        assert!(found.starts_with("b.proto:3:1: expected"), "{found}");
    }

    #[test]
    fn what_is_read_is_bounded() {
        let long = "/".repeat(BYTES_MAX as usize + 1);
        assert_eq!(fault(&long), "it is longer than 4 MiB");
        let deep = format!("{HEAD}{}", "message M {\n".repeat(NESTING_MAX + 1));
        let expect = "main.proto:103: brackets lie in brackets more than 100 deep";
        assert_eq!(fault(&deep), expect);
        let messages = format!("{HEAD}{}", "message M {".repeat(NESTING_MAX));
        assert!(fault(&messages).contains("maximum recursion limit"));
        for import in ["../x.proto", "a/../x.proto", "a//x.proto", "/etc/x.proto"] {
            let found = fault(&format!("{HEAD}import \"{import}\";"));
            assert!(found.starts_with("main.proto:3:8: invalid"), "{found}");
        }
        let chain = |length: usize| {
            let name = |n: usize| match n {
                0 => "main.proto".to_owned(),
                n => format!("f{n}.proto"),
            };
            let text = |n: usize| match n + 1 == length {
                true => HEAD.to_owned(),
                false => format!("{HEAD}import \"{}\";", name(n + 1)),
            };
            let files: Vec<_> = (0..length).map(|n| (name(n), text(n))).collect();
            let files: Vec<_> = files
                .iter()
                .map(|(n, t)| (n.as_str(), t.as_str()))
                .collect();
            check(&files, &[])
        };
        assert_eq!(chain(DEPTH_MAX + 1), Ok(vec![]));
        let expect = "f65.proto: files import files more than 64 deep".to_owned();
        assert_eq!(chain(DEPTH_MAX + 2), Err(expect));
        let ring = fault(&format!("{HEAD}import \"main.proto\";"));
        assert!(ring.contains("import cycle detected"), "{ring}");
    }

    #[test]
    fn brackets_in_comments_and_texts_do_not_count() {
        let many = "{".repeat(NESTING_MAX);
        for text in [
            format!("// {many}\n{many}"),
            format!("/* {many}\n */ {many}"),
            format!("# it's {many}\n{many}"),
            format!("\"\\\"{many}\" {many}"),
            format!("'{many}\n{many}"),
            "{}".repeat(NESTING_MAX + 1),
        ] {
            assert_eq!(too_deep(&text), None, "{text}");
            assert!(too_deep(&format!("{text}{many}{{")).is_some(), "{text}");
        }
    }
}
