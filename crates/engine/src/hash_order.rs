//! The order in which Java's `HashMap` gives out text keys.
//!
//! Siddhi keeps the groups of a bucket and the keys of a partition in such maps, and their order shows
//! where a bucket is read, and where a stream goes to every key.

use event::text::java_hash;

/// Indexes of the keys in the order of a map of `size` keys, put in one after the other.
pub(crate) fn hash_order<'a>(keys: impl Iterator<Item = &'a str>, size: usize) -> Vec<u32> {
    let mut places = 16_u32;
    while size > places as usize / 4 * 3 {
        places *= 2;
    }
    let mut order: Vec<(u32, u32)> = keys
        .enumerate()
        .map(|(at, key)| {
            let hash = java_hash(key) as u32;
            ((hash ^ hash >> 16) & (places - 1), at as u32)
        })
        .collect();
    order.sort_unstable();
    order.into_iter().map(|(_, at)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_out_as_from_a_hash_map() {
        assert_eq!(
            hash_order(["b", "a", "WSO2", "IBM"].into_iter(), 4),
            [1, 0, 3, 2]
        );
    }
}
