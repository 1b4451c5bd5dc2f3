//! Masking, eight bytes at once.

use ring::rand::{SecureRandom as _, SystemRandom};

/// Masks or unmasks bytes that begin so many bytes behind the start of their payload.
pub(crate) fn apply(bytes: &mut [u8], key: [u8; 4], begin: usize) {
    let mut key = key;
    key.rotate_left(begin % 4);
    let [a, b, c, d] = key;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let (words, rest) = bytes.as_chunks_mut::<8>();
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ wide).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(key.iter().cycle()) {
        *byte ^= key;
    }
}

/// Masks that nobody can foresee (RFC 6455, 10.3), drawn some at a time: the system is asked seldom.
pub(crate) struct Masks {
    random: SystemRandom,
    drawn: [u8; 256],
    used: usize,
}

impl Masks {
    pub fn new() -> Masks {
        let drawn = [0; 256];
        Masks {
            random: SystemRandom::new(),
            used: drawn.len(),
            drawn,
        }
    }

    pub fn next(&mut self) -> [u8; 4] {
        if self.used == self.drawn.len() {
            let drawn = self.random.fill(&mut self.drawn);
            drawn.expect("the key of the handshake was drawn from the same system");
            self.used = 0;
        }
        let mask = self.drawn[self.used..].first_chunk::<4>();
        self.used += 4;
        mask.copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_is_masked_as_the_whole() {
        let key = [0x37, 0xfa, 0x21, 0x3d];
        let plain: Vec<u8> = (0..61).collect();
        let slow: Vec<u8> = plain
            .iter()
            .zip(key.iter().cycle())
            .map(|(a, b)| a ^ b)
            .collect();
        for split in 0..plain.len() {
            let mut bytes = plain.clone();
            let (left, right) = bytes.split_at_mut(split);
            apply(left, key, 0);
            apply(right, key, split);
            assert_eq!(bytes, slow, "{split}");
        }
    }

    #[test]
    fn no_mask_comes_twice_in_a_row() {
        let mut masks = Masks::new();
        let drawn: std::collections::HashSet<[u8; 4]> = (0..1000).map(|_| masks.next()).collect();
        assert!(drawn.len() > 990, "{}", drawn.len());
    }
}
