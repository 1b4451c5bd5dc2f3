//! Texts of keys, and the hash of short ones: what `group by`, partitions, aggregations, patterns and indexes
//! of tables share.

use event::column::View;
use event::{Column, text};

use crate::component::Key;

/// Seed of the hash of key texts; fixed, so that nothing differs from run to run.
pub(crate) const SEED: u64 = 0x517c_c1b7_2722_0a95;

/// What joins the parts of a key.
const SEPARATOR: &str = ":-:";

/// Mixes two words as foldhash does: the halves of a product of 128 bits, one over the other.
#[inline]
pub(crate) fn hash_words(key: Key, words: [u64; 2]) -> u64 {
    hash_folded(fold_words(key, words), words)
}

#[inline(always)]
pub(crate) fn fold_words(key: Key, words: [u64; 2]) -> u64 {
    let product = u128::from(words[0] ^ SEED ^ u64::from(key) << 16)
        * u128::from(words[1] ^ SEED.rotate_left(29) ^ u64::from(key));
    product as u64 ^ (product >> 64) as u64
}

/// Once more, so that neither a word of zeros nor one like the seed takes the other away.
#[inline(always)]
pub(crate) fn hash_folded(folded: u64, words: [u64; 2]) -> u64 {
    let product = u128::from(folded ^ words[0]) * u128::from(0x9e37_79b9_7f4a_7c15u64);
    product as u64 ^ (product >> 64) as u64
}

/// Calls `visit` with each row and the text of its key, in order.
pub(crate) fn for_each_key(columns: &[Column], rows: usize, mut visit: impl FnMut(usize, &str)) {
    if let [column] = columns
        && let View::Str(texts) = column.view()
    {
        for row in 0..rows {
            let is_null = column.is_null(row);
            visit(row, if is_null { "null" } else { texts.get(row) });
        }
        return;
    }
    let mut key = String::new();
    for row in 0..rows {
        key.clear();
        for (at, column) in columns.iter().enumerate() {
            if at > 0 {
                key.push_str(SEPARATOR);
            }
            write_part(&mut key, column, row);
        }
        visit(row, &key);
    }
}

fn write_part(key: &mut String, column: &Column, row: usize) {
    if column.is_null(row) {
        return key.push_str("null");
    }
    match column.view() {
        View::Str(texts) => key.push_str(texts.get(row)),
        _ => text::write_value(key, &column.value(row)),
    }
}
