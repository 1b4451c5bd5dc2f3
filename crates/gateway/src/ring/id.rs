//! Ids of events: the epoch of their ring and their number in it.

use std::fmt;
use std::fmt::Write as _;

/// `1kq2x9w4z7-17`: the epoch in base 36, which changes when the events before are lost, and the sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EventId {
    pub epoch: u64,
    pub sequence: u64,
}

impl EventId {
    /// `None` where it is none of ours.
    pub fn parse(text: &str) -> Option<EventId> {
        let (epoch, sequence) = text.trim().split_once('-')?;
        let is_plain = |part: &str| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|b| b.is_ascii_digit() || b.is_ascii_lowercase())
        };
        if !is_plain(epoch) || !is_plain(sequence) {
            return None;
        }
        Some(EventId {
            epoch: u64::from_str_radix(epoch, 36).ok()?,
            sequence: sequence.parse().ok()?,
        })
    }

    /// Appends the line of an event.
    pub fn write(self, text: &mut String) {
        // Writing to a string cannot fail.
        writeln!(text, "id: {self}").unwrap_or_default();
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut digits = [0; 13];
        let mut at = digits.len();
        let mut rest = self.epoch;
        loop {
            at -= 1;
            digits[at] = b"0123456789abcdefghijklmnopqrstuvwxyz"[(rest % 36) as usize];
            rest /= 36;
            if rest == 0 {
                break;
            }
        }
        for digit in &digits[at..] {
            f.write_char(char::from(*digit))?;
        }
        write!(f, "-{}", self.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_comes_back_as_it_went() {
        for (epoch, sequence) in [(0, 1), (35, 2), (36, 3), (u64::MAX, u64::MAX)] {
            let id = EventId { epoch, sequence };
            assert_eq!(EventId::parse(&id.to_string()), Some(id));
        }
        for text in [
            "", "-", "a-", "-1", "a", "a-1-2", "A-1", "a-+1", "a-b", "é-1",
        ] {
            assert_eq!(EventId::parse(text), None, "{text}");
        }
    }
}
