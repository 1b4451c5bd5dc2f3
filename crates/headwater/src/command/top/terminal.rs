//! A terminal that is taken over as a whole, and given back whatever happens.

use std::io::{self, Read as _, Write as _};

use rustix::termios::{
    OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};

/// Tenths of a second for which a key is waited for.
const WAIT: u8 = 2;

/// The other screen, without a cursor; and back.
const BEGIN: &str = "\u{1b}[?1049h\u{1b}[?25l\u{1b}[2J";
const END: &str = "\u{1b}[?25h\u{1b}[?1049l";

/// What somebody wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key {
    Quit,
    Pause,
    Sort,
    Up,
    Down,
    Enter,
}

/// Gives the terminal back when dropped.
pub struct Terminal {
    before: Termios,
}

impl Terminal {
    pub fn open() -> io::Result<Terminal> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        // A read comes back without a key after a moment.
        raw.special_codes[SpecialCodeIndex::VMIN] = 0;
        raw.special_codes[SpecialCodeIndex::VTIME] = WAIT;
        let terminal = Terminal { before };
        tcsetattr(io::stdin(), OptionalActions::Flush, &raw)?;
        write(BEGIN)?;
        Ok(terminal)
    }

    /// Columns and lines.
    pub fn size(&self) -> (usize, usize) {
        match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                (usize::from(size.ws_col), usize::from(size.ws_row))
            }
            _ => (80, 24),
        }
    }

    /// Shows these lines, which fit.
    pub fn draw(&mut self, lines: &[String]) -> io::Result<()> {
        let mut text = String::from("\u{1b}[H");
        for (at, line) in lines.iter().enumerate() {
            if at > 0 {
                text.push_str("\r\n");
            }
            text.push_str(line);
            text.push_str("\u{1b}[K");
        }
        text.push_str("\u{1b}[J");
        write(&text)
    }

    /// The next key, waited for for a moment.
    pub fn key(&mut self) -> io::Result<Option<Key>> {
        let mut bytes = [0; 16];
        let read = match io::stdin().read(&mut bytes) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(error),
        };
        Ok(key_of(&bytes[..read]))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A terminal that has gone needs nothing back.
        write(END).ok();
        tcsetattr(io::stdin(), OptionalActions::Flush, &self.before).ok();
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn key_of(bytes: &[u8]) -> Option<Key> {
    match bytes {
        [b'q' | b'Q' | 3 | 4] | [27] => Some(Key::Quit),
        [b'p' | b'P' | b' '] => Some(Key::Pause),
        [b's' | b'S'] => Some(Key::Sort),
        [b'k'] | [27, b'[' | b'O', b'A'] => Some(Key::Up),
        [b'j'] | [27, b'[' | b'O', b'B'] => Some(Key::Down),
        [b'\r' | b'\n'] => Some(Key::Enter),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_letters_and_arrows() {
        for (bytes, key) in [
            (&b"q"[..], Some(Key::Quit)),
            (b"\x03", Some(Key::Quit)),
            (b"\x1b", Some(Key::Quit)),
            (b"\x1b[A", Some(Key::Up)),
            (b"\x1bOB", Some(Key::Down)),
            (b"\r", Some(Key::Enter)),
            (b" ", Some(Key::Pause)),
            (b"x", None),
            (b"\x1b[5~", None),
            (b"", None),
        ] {
            assert_eq!(key_of(bytes), key, "{bytes:?}");
        }
    }
}
