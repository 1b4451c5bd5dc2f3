//! Which partition a record with a key goes to: the one that Java's client and librdkafka's
//! `murmur2_random` choose.

/// `org.apache.kafka.common.utils.Utils.murmur2`.
fn murmur2(key: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    const SEED: u32 = 0x9747_b28c;
    let mut hash = SEED ^ key.len() as u32;
    let (words, rest) = key.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        for (index, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * index);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

/// The partition of a key, of so many; 0 where there are none.
pub(super) fn partition_of(key: &[u8], count: usize) -> usize {
    let positive = murmur2(key) & 0x7fff_ffff;
    positive as usize % count.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of Kafka's own test (`UtilsTest.testMurmur2`).
    #[test]
    fn keys_are_hashed_as_java_does() {
        for (key, expect) in [
            (&b"21"[..], -973_932_308_i32),
            (b"foobar", -790_332_482),
            (b"a-little-bit-long-string", -985_981_536),
            (b"a-little-bit-longer-string", -1_486_304_829),
            (
                b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
            (b"abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key) as i32, expect, "{}", key.escape_ascii());
        }
        assert_eq!(partition_of(b"foobar", 0), 0);
        assert_eq!(
            partition_of(b"21", 7),
            (-973_932_308_i32 & i32::MAX) as usize % 7
        );
    }
}
