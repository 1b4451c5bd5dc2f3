//! How deep the tables within a frame are nested, seen while its bytes pass by.
//!
//! lapin reads tables within tables by recursion without a limit, so that a message whose headers are
//! nested some thousand times would end the process. What is counted here is never less than what
//! lapin will find: each byte that could open a table or list whose length fits into its frame.

/// Tables within tables.
const DEPTH_MAX: usize = 64;

/// Type, channel and length.
const HEAD_BYTES: usize = 7;

/// A byte of a type, and a length.
const OPENING_BYTES: usize = 5;

const BODY: u8 = 3;

#[derive(Default)]
pub(crate) struct Nesting {
    head: [u8; HEAD_BYTES],
    /// Bytes of the head that are there.
    head_len: usize,
    /// Bytes of the frame that are still to come, its end included.
    left: u64,
    /// The last bytes of the frame.
    last: [u8; OPENING_BYTES],
    /// How many bytes are left where what is open ends.
    open: Vec<u64>,
}

impl Nesting {
    /// Takes the next bytes of the connection.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<(), &'static str> {
        while let Some((&first, rest)) = bytes.split_first() {
            if self.left == 0 {
                bytes = rest;
                self.start(first);
                continue;
            }
            let here = bytes
                .len()
                .min(usize::try_from(self.left).unwrap_or(usize::MAX));
            let (frame, after) = bytes.split_at(here);
            bytes = after;
            if self.head[0] == BODY {
                self.left -= here as u64;
                continue;
            }
            for &byte in frame {
                self.left -= 1;
                self.look(byte)?;
            }
        }
        Ok(())
    }

    fn start(&mut self, byte: u8) {
        self.head[self.head_len] = byte;
        self.head_len += 1;
        if self.head_len == HEAD_BYTES {
            let [.., a, b, c, d] = self.head;
            self.head_len = 0;
            self.left = u64::from(u32::from_be_bytes([a, b, c, d])) + 1;
            self.last = [0; OPENING_BYTES];
            self.open.clear();
        }
    }

    fn look(&mut self, byte: u8) -> Result<(), &'static str> {
        self.last.rotate_left(1);
        self.last[OPENING_BYTES - 1] = byte;
        let [kind, a, b, c, d] = self.last;
        let len = u64::from(u32::from_be_bytes([a, b, c, d]));
        // The last byte of a frame is its end.
        let room = self.left.saturating_sub(1);
        if matches!(kind, b'A' | b'F') && 0 < len && len <= room {
            let left = self.left;
            self.open.retain(|end| *end < left);
            self.open.push(left - len);
            if self.open.len() > DEPTH_MAX {
                return Err("a message has tables that are nested too deep");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A content header with lists in each other.
    fn header(depth: u32) -> Vec<u8> {
        let mut payload = b"\x00\x3c\0\0\0\0\0\0\0\0\0\x01\x20\0".to_vec();
        let mut table = b"\x01a".to_vec();
        for level in (0..depth).rev() {
            table.push(b'A');
            table.extend_from_slice(&(level * 5).to_be_bytes());
        }
        payload.extend_from_slice(&(table.len() as u32).to_be_bytes());
        payload.extend_from_slice(&table);
        frame(2, &payload)
    }

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![kind, 0, 1];
        frame.extend_from_slice(&(payload.len() as u32).to_be_bytes());
        frame.extend_from_slice(payload);
        frame.push(0xce);
        frame
    }

    fn check(bytes: &[u8], is_fine: bool) {
        for step in [1, 3, 7, bytes.len()] {
            let mut nesting = Nesting::default();
            let fed = bytes.chunks(step).try_for_each(|part| nesting.feed(part));
            assert_eq!(fed.is_ok(), is_fine, "in steps of {step}");
            assert!(!is_fine || nesting.left == 0 && nesting.head_len == 0);
        }
    }

    #[test]
    fn deep_tables_are_refused_and_long_ones_are_not() {
        check(&header(1), true);
        check(&header(60), true);
        check(&header(66), false);
        check(&header(20_000), false);
        let flat = b"\x01kA\0\0\0\x05S\0\0\0\0".repeat(1_000);
        check(&frame(2, &flat), true);
        check(&frame(2, &b"FACADE ".repeat(5_000)), true);
        // Bodies are anything.
        let body = frame(3, &header(1_000));
        check(&[body, header(3), frame(8, b"")].concat(), true);
    }
}
