//! The result of a job: pages in a file that has no name, so that nothing is left of it when the server ends.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use hyper::body::Bytes;

/// A document of a result.
#[derive(Clone, Debug)]
pub(in crate::http) struct Page {
    file: Arc<File>,
    at: u64,
    /// Bytes of its blocks, each of which ends with a row where the format has lines.
    blocks: Vec<u32>,
}

impl Page {
    /// Gives the blocks one after the other, on a thread that may wait.
    ///
    /// # Errors
    /// The file cannot be read; what `write` says.
    pub fn read(&self, mut write: impl FnMut(Bytes) -> io::Result<()>) -> io::Result<()> {
        let mut at = self.at;
        for len in &self.blocks {
            let mut block = vec![0; *len as usize];
            self.file.read_exact_at(&mut block, at)?;
            at += u64::from(*len);
            write(block.into())?;
        }
        Ok(())
    }
}

/// Pages as they are written.
#[derive(Debug)]
pub(super) struct Kept {
    file: Arc<File>,
    len: u64,
    pages: Vec<Page>,
    /// The page that is being written.
    open: Page,
}

impl Kept {
    /// # Errors
    /// There is no folder for temporary files, or it cannot be written.
    pub fn new() -> io::Result<Kept> {
        let file = Arc::new(tempfile::tempfile()?);
        Ok(Kept {
            open: Page {
                file: Arc::clone(&file),
                at: 0,
                blocks: Vec::new(),
            },
            file,
            len: 0,
            pages: Vec::new(),
        })
    }

    /// Where [`Kept::noted`] wants the bytes of the next block.
    pub fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// A block of so many bytes is in the file.
    pub fn noted(&mut self, bytes: u32, ends_page: bool) {
        self.len += u64::from(bytes);
        if bytes > 0 {
            self.open.blocks.push(bytes);
        }
        if ends_page {
            let next = Page {
                file: Arc::clone(&self.file),
                at: self.len,
                blocks: Vec::new(),
            };
            self.pages.push(std::mem::replace(&mut self.open, next));
        }
    }

    pub fn bytes(&self) -> u64 {
        self.len
    }

    /// Those that are whole.
    pub fn pages(&self) -> &[Page] {
        &self.pages
    }
}

/// Appends a block, on a thread that may wait.
pub(super) fn append(file: &File, bytes: &[u8]) -> io::Result<()> {
    let mut file = file;
    file.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read_as_they_were_written_block_by_block() {
        let mut kept = Kept::new().expect("a file");
        for (block, ends_page) in [
            ("a\n", false),
            ("bc\n", true),
            ("", true),
            ("d\n", true),
            ("e", false),
        ] {
            append(&kept.file(), block.as_bytes()).expect("written");
            kept.noted(block.len() as u32, ends_page);
        }
        assert_eq!(kept.bytes(), 8);
        let read = |page: &Page| {
            let mut blocks = Vec::new();
            let read = page.read(|block| {
                blocks.push(String::from_utf8(block.to_vec()).expect("a text"));
                Ok(())
            });
            read.expect("it is there");
            blocks
        };
        let pages: Vec<Vec<String>> = kept.pages().iter().map(read).collect();
        assert_eq!(pages, [vec!["a\n", "bc\n"], vec![], vec!["d\n"]]);
    }
}
