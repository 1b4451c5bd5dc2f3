//! Whose turn it is: so many at once in all, so many of one origin, the origins one after the other.

use std::collections::{HashMap, VecDeque};

/// Scheme, host and port of a callback.
pub(super) type Origin = (bool, String, u16);

pub(super) struct Turns<T> {
    max: usize,
    origin_max: usize,
    in_flight: usize,
    lines: HashMap<Origin, Line<T>>,
    /// Origins that have somebody waiting and room, each once.
    order: VecDeque<Origin>,
}

struct Line<T> {
    waiting: VecDeque<T>,
    in_flight: usize,
    is_listed: bool,
}

impl<T> Turns<T> {
    pub fn new(max: usize, origin_max: usize) -> Turns<T> {
        Turns {
            max,
            origin_max,
            in_flight: 0,
            lines: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    pub fn push(&mut self, origin: &Origin, one: T) {
        let line = self.lines.entry(origin.clone()).or_insert_with(|| Line {
            waiting: VecDeque::new(),
            in_flight: 0,
            is_listed: false,
        });
        line.waiting.push_back(one);
        list(line, origin, self.origin_max, &mut self.order);
    }

    /// The next one, if there is room. [`Turns::done`] must follow.
    pub fn next(&mut self) -> Option<T> {
        if self.in_flight >= self.max {
            return None;
        }
        let origin = self.order.pop_front()?;
        let line = self.lines.get_mut(&origin)?;
        line.is_listed = false;
        let one = line.waiting.pop_front()?;
        line.in_flight += 1;
        self.in_flight += 1;
        list(line, &origin, self.origin_max, &mut self.order);
        Some(one)
    }

    /// One of this origin has had its turn.
    pub fn done(&mut self, origin: &Origin) {
        let Some(line) = self.lines.get_mut(origin) else {
            return;
        };
        line.in_flight -= 1;
        self.in_flight -= 1;
        list(line, origin, self.origin_max, &mut self.order);
        if line.in_flight == 0 && line.waiting.is_empty() {
            self.lines.remove(origin);
        }
    }
}

fn list<T>(line: &mut Line<T>, origin: &Origin, origin_max: usize, order: &mut VecDeque<Origin>) {
    if !line.is_listed && line.in_flight < origin_max && !line.waiting.is_empty() {
        line.is_listed = true;
        order.push_back(origin.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(number: u16) -> Origin {
        (false, "h".to_owned(), number)
    }

    #[test]
    fn one_origin_holds_up_no_other() {
        let mut turns = Turns::new(4, 2);
        for number in 0..10 {
            turns.push(&origin(1), (1, number));
        }
        turns.push(&origin(2), (2, 0));
        turns.push(&origin(3), (3, 0));
        let mut next = || turns.next();
        assert_eq!(
            [next(), next(), next(), next()],
            [Some((1, 0)), Some((2, 0)), Some((3, 0)), Some((1, 1))]
        );
        assert_eq!(next(), None, "four at once");
        turns.done(&origin(2));
        assert_eq!(turns.next(), None, "two of one origin");
        turns.done(&origin(1));
        assert_eq!(turns.next(), Some((1, 2)));
        turns.done(&origin(3));
        for number in 3..10 {
            turns.done(&origin(1));
            assert_eq!(turns.next(), Some((1, number)));
        }
        turns.done(&origin(1));
        turns.done(&origin(1));
        assert!(turns.lines.is_empty() && turns.order.is_empty() && turns.in_flight == 0);
    }
}
