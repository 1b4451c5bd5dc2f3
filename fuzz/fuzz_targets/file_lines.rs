//! Any bytes as a file read line by line: every line with content once and in order, also when
//! another reader goes on in the middle.
#![no_main]

use std::fs::File;
use std::io::Write;

use headwater_connectors::file::lines::{End, LineReader, Step};
use libfuzzer_sys::fuzz_target;

/// Lines given out from an offset on, and where a second reader may go on.
fn read(file: &File, offset: u64, line: u64, steps: usize) -> (Vec<Vec<u8>>, u64, u64) {
    let file = file.try_clone().expect("a second handle");
    let mut reader = LineReader::new(file, offset, line, End::Mark).expect("the file can be read");
    let mut lines = Vec::new();
    for _ in 0..steps {
        match reader.read_step().expect("the file can be read") {
            Step::Block(block) => lines.extend(split(reader.block(&block))),
            Step::TooLong(_) => {}
            Step::End => break,
        }
    }
    (lines, reader.offset(), reader.line())
}

fn split(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    bytes
        .split(|&b| b == b'\n' || b == b'\r')
        .filter(|line| !line.is_empty())
        .map(<[u8]>::to_vec)
        .collect::<Vec<_>>()
        .into_iter()
}

fuzz_target!(|input: (u8, &[u8])| {
    let (steps, bytes) = input;
    let mut file = tempfile::tempfile().expect("a temporary file");
    file.write_all(bytes).expect("it takes the bytes");
    let all: Vec<Vec<u8>> = split(bytes).collect();
    let (whole, ..) = read(&file, 0, 1, usize::MAX);
    assert_eq!(whole, all);
    let (mut parts, offset, line) = read(&file, 0, 1, usize::from(steps));
    parts.extend(read(&file, offset, line, usize::MAX).0);
    assert_eq!(parts, all);
});
