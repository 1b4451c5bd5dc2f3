//! Where a generated case gets its choices from: a seed, or a recording of earlier choices.
//!
//! A case is nothing but the list of its choices, so it is made smaller by taking pieces out of
//! the list or by lowering numbers in it, and generating again: the generator needs no code for
//! that. For this to work, 0 is always the simplest choice, and a list that ends early goes on
//! with zeros.

/// Choices made so far, with the stretches that belong together.
pub struct Choices {
    made: Vec<u32>,
    replay: Option<Vec<u32>>,
    is_tenth: bool,
    state: u64,
    spans: Vec<(usize, usize)>,
}

/// What remains of a generated case.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Recording {
    pub choices: Vec<u32>,
    /// Start and end of each stretch, outer ones behind the inner.
    pub spans: Vec<(usize, usize)>,
}

impl Choices {
    pub fn of_seed(seed: u64) -> Choices {
        Choices {
            made: Vec::new(),
            replay: None,
            is_tenth: seed % 10 == 9,
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            spans: Vec::new(),
        }
    }

    pub fn replaying(choices: Vec<u32>) -> Choices {
        Choices {
            made: Vec::new(),
            replay: Some(choices),
            is_tenth: false,
            state: 0,
            spans: Vec::new(),
        }
    }

    pub fn finish(self) -> Recording {
        Recording {
            choices: self.made,
            spans: self.spans,
        }
    }

    /// A number below `bound`; 0 is the simplest.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = bound.max(1) as u32;
        let choice = match &self.replay {
            Some(replay) => replay
                .get(self.made.len())
                .copied()
                .unwrap_or(0)
                .min(bound - 1),
            None => (self.next() >> 33) as u32 % bound,
        };
        self.made.push(choice);
        choice as usize
    }

    /// Splitmix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// True in each tenth case. It is a choice like the others, but takes no chance away from them.
    pub fn tenth(&mut self) -> bool {
        let choice = match &self.replay {
            Some(replay) => replay.get(self.made.len()).copied().unwrap_or(0).min(1),
            None => u32::from(self.is_tenth),
        };
        self.made.push(choice);
        choice == 1
    }

    /// True in so many of a hundred cases; false is the simpler.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) >= 100 - percent
    }

    pub fn pick<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        &among[self.below(among.len())]
    }

    /// Index of one of these weights.
    pub fn weighted(&mut self, weights: &[u32]) -> usize {
        let mut at = self.below(weights.iter().sum::<u32>() as usize) as u32;
        for (index, weight) in weights.iter().enumerate() {
            if at < *weight {
                return index;
            }
            at -= weight;
        }
        0
    }

    /// Choices that belong together: one element of the case, which can be left out.
    pub fn open(&self) -> usize {
        self.made.len()
    }

    /// Opens a stretch for one more of several; `None` when there are enough. What goes on is a
    /// part of the stretch, so that leaving it out leaves the others as they are.
    pub fn one_more(
        &mut self,
        have: usize,
        least: usize,
        most: usize,
        percent: usize,
    ) -> Option<usize> {
        if have >= most {
            return None;
        }
        let start = self.open();
        let goes_on = self.chance(percent);
        (goes_on || have < least).then_some(start)
    }

    pub fn close(&mut self, start: usize) {
        if start < self.made.len() {
            self.spans.push((start, self.made.len()));
        }
    }
}

impl Recording {
    /// Smaller lists, the boldest first.
    pub fn smaller(&self) -> Vec<Vec<u32>> {
        let mut all = Vec::new();
        let mut spans = self.spans.clone();
        spans.sort_by_key(|(start, end)| std::cmp::Reverse(end - start));
        spans.dedup();
        for (start, end) in &spans {
            let mut without = self.choices.clone();
            without.drain(*start..*end);
            all.push(without);
        }
        for (start, end) in &spans {
            let mut zeroed = self.choices.clone();
            if zeroed[*start..*end].iter().any(|c| *c != 0) {
                zeroed[*start..*end].fill(0);
                all.push(zeroed);
            }
        }
        for (at, choice) in self.choices.iter().enumerate().filter(|(_, c)| **c != 0) {
            for lower in [0, choice / 2, choice - 1] {
                if lower < *choice {
                    let mut lowered = self.choices.clone();
                    lowered[at] = lower;
                    all.push(lowered);
                }
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_gives_the_same_again() {
        let mut first = Choices::of_seed(7);
        let made: Vec<usize> = (1..50).map(|bound| first.below(bound)).collect();
        let recording = first.finish();
        let mut again = Choices::replaying(recording.choices);
        assert_eq!(
            (1..50).map(|bound| again.below(bound)).collect::<Vec<_>>(),
            made
        );
        assert_eq!(again.below(9), 0);
    }

    #[test]
    fn stretches_are_left_out() {
        let mut choices = Choices::of_seed(1);
        choices.below(10);
        let start = choices.open();
        choices.below(10);
        choices.below(10);
        choices.close(start);
        let recording = choices.finish();
        assert!(recording.smaller().iter().any(|c| c.len() == 1));
    }
}
