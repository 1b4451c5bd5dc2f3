//! The order in which a Java `HashMap` gives out its keys.
//!
//! Siddhi keeps groups, sessions, the keys of a partition, named windows and maps of values in such
//! maps, and their order shows in what comes out.

use event::text::java_hash;

/// Buckets of a new map.
pub(crate) const BUCKETS: usize = 16;

/// Buckets of a map that had `buckets` and has `size` keys now; they never become fewer.
pub(crate) fn buckets_for(size: usize, mut buckets: usize) -> usize {
    while size > buckets / 4 * 3 {
        buckets *= 2;
    }
    buckets
}

/// The bucket of a key with this `hashCode`. Buckets come out one after the other, the keys of each in
/// the order in which they were put in.
pub(crate) fn bucket(code: i32, buckets: usize) -> usize {
    let code = code as u32;
    (code ^ code >> 16) as usize & (buckets - 1)
}

/// Indexes of text keys in the order of a map of `size` keys, put in one after the other.
pub(crate) fn hash_order<'a>(keys: impl Iterator<Item = &'a str>, size: usize) -> Vec<usize> {
    let buckets = buckets_for(size, BUCKETS);
    let mut order: Vec<(usize, usize)> = keys
        .enumerate()
        .map(|(at, key)| (bucket(java_hash(key), buckets), at))
        .collect();
    order.sort_unstable();
    order.into_iter().map(|(_, at)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_out_as_from_a_hash_map() {
        let order = |keys: &[&str]| hash_order(keys.iter().copied(), keys.len());
        assert_eq!(order(&["b", "a", "WSO2", "IBM"]), [1, 0, 3, 2]);
        // "Aa" and "BB" have one hash: the first to come is the first to go.
        assert_eq!(order(&["a", "BB", "Aa"]), [1, 2, 0]);
    }
}
