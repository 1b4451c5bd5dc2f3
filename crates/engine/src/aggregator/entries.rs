//! How much aggregators that keep values hold, without looking into each group.

use event::Value;

/// Values in all groups of an aggregator, and how long their texts are on average.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entries {
    live: usize,
    added: u64,
    /// Bytes beside the values themselves, of all that were added.
    beside: u64,
}

/// What a list or a map is taken to have beside itself.
const OBJECT: usize = 64;

impl Entries {
    /// A group had so many values and has so many now, for one of these.
    #[inline]
    pub fn change(&mut self, before: usize, after: usize, values: &[Value]) {
        self.live = (self.live + after).saturating_sub(before);
        if after > before {
            self.added += (after - before) as u64;
            let beside = values.iter().map(|value| match value {
                Value::Str(text) => text.len(),
                Value::Object(_) => OBJECT,
                _ => 0,
            });
            self.beside += beside.sum::<usize>() as u64;
        }
    }

    /// A group was taken back whose saved values were so long.
    pub fn restored(&mut self, values: usize, saved: usize) {
        self.live += values;
        self.added += values as u64;
        self.beside += saved as u64;
    }

    /// Heap bytes, where a value by itself takes `each`.
    pub fn bytes(&self, each: usize) -> usize {
        self.live * (each + self.beside.checked_div(self.added).unwrap_or(0) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_count() {
        let mut entries = Entries::default();
        assert_eq!(entries.bytes(16), 0);
        let long = Value::str(&"x".repeat(1_000));
        entries.change(0, 1, &[long]);
        entries.change(1, 2, &[Value::str("")]);
        assert_eq!(entries.bytes(16), 2 * (16 + 500));
        entries.change(2, 0, &[]);
        assert_eq!(entries.bytes(16), 0);
        entries.restored(10, 200);
        assert!(entries.bytes(16) >= 10 * 16);
    }
}
