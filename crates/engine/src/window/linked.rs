//! A list of rows as Siddhi's `ComplexEventChunk` keeps it.
//!
//! That list is its own iterator, and its position stays where the last walk left it; taking the
//! last element out does not move its tail, so that what is added behind is never reached again.
//! Windows that walk over such a list show both in their results, hence this copy of it. Elements
//! that can no longer be reached are reported, so that their rows are given back.

use event::codec::{Error as StateError, Reader, Writer};

use super::pool::Slot;

/// Index of an element.
type Node = usize;

#[derive(Clone, Copy)]
struct Element {
    slot: Slot,
    next: Option<Node>,
}

#[derive(Default)]
pub struct Linked {
    /// `None` where one was given back.
    nodes: Vec<Option<Element>>,
    free: Vec<Node>,
    first: Option<Node>,
    last: Option<Node>,
    previous: Option<Node>,
    returned: Option<Node>,
    /// Elements taken out since the last sweep.
    taken: usize,
}

impl Linked {
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    fn next_of(&self, node: Node) -> Option<Node> {
        self.nodes[node].and_then(|e| e.next)
    }

    fn set_next(&mut self, node: Node, next: Option<Node>) {
        if let Some(element) = &mut self.nodes[node] {
            element.next = next;
        }
    }

    fn new_node(&mut self, slot: Slot) -> Node {
        let element = Some(Element { slot, next: None });
        match self.free.pop() {
            Some(node) => {
                self.nodes[node] = element;
                node
            }
            None => {
                self.nodes.push(element);
                self.nodes.len() - 1
            }
        }
    }

    pub fn add(&mut self, slot: Slot) {
        let node = self.new_node(slot);
        match (self.first, self.last) {
            (Some(_), Some(last)) => self.set_next(last, Some(node)),
            _ => self.first = Some(node),
        }
        self.last = Some(node);
    }

    /// All of another list behind the own; the other is empty then.
    pub fn add_all(&mut self, other: &mut Linked) {
        let slots: Vec<Slot> = other.slots().collect();
        slots.into_iter().for_each(|slot| self.add(slot));
        other.clear();
    }

    pub fn has_next(&self) -> bool {
        match (self.returned, self.previous) {
            (Some(node), _) | (None, Some(node)) => self.next_of(node).is_some(),
            (None, None) => self.first.is_some(),
        }
    }

    /// The next element of the walk, where there is one.
    pub fn walk(&mut self) -> Option<Slot> {
        let next = match (self.returned, self.previous) {
            (Some(node), _) => {
                let next = self.next_of(node)?;
                self.previous = Some(node);
                next
            }
            (None, Some(node)) => self.next_of(node)?,
            (None, None) => self.first?,
        };
        self.returned = Some(next);
        self.nodes[next].map(|e| e.slot)
    }

    /// Begins the walk anew.
    pub fn reset(&mut self) {
        self.previous = None;
        self.returned = None;
    }

    pub fn clear(&mut self) {
        *self = Linked::default();
    }

    /// Takes out the element that the walk has returned.
    pub fn remove(&mut self) {
        let Some(node) = self.returned.take() else {
            return;
        };
        self.taken += 1;
        let next = self.next_of(node);
        match self.previous {
            Some(previous) => self.set_next(previous, next),
            None => {
                self.first = next;
                if next.is_none() {
                    self.last = None;
                }
            }
        }
        self.set_next(node, None);
    }

    /// Puts an element in front of the one that the walk has returned.
    pub fn insert_before(&mut self, slot: Slot) {
        let node = self.new_node(slot);
        match self.previous {
            Some(previous) => self.set_next(previous, Some(node)),
            None => self.first = Some(node),
        }
        self.previous = Some(node);
        self.set_next(node, self.returned);
    }

    /// Takes out the first element, wherever the walk stands.
    pub fn poll(&mut self) -> Option<Slot> {
        let node = self.first?;
        self.first = self.next_of(node);
        self.set_next(node, None);
        self.taken += 1;
        self.nodes[node].map(|e| e.slot)
    }

    /// What is in the list, in order.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        let chain = std::iter::successors(self.first, |&node| self.next_of(node));
        chain.filter_map(|node| self.nodes[node].map(|e| e.slot))
    }

    /// Once enough were taken out: gives back the elements that nothing reaches any more, and the
    /// rows in them by `gone`.
    pub fn sweep(&mut self, mut gone: impl FnMut(Slot)) {
        let stored = self.nodes.len() - self.free.len();
        if self.taken == 0 || 2 * self.taken < stored {
            return;
        }
        self.taken = 0;
        let mut reached = vec![false; self.nodes.len()];
        for start in [self.first, self.last, self.previous, self.returned] {
            let chain = std::iter::successors(start, |&node| self.next_of(node));
            for node in chain {
                if std::mem::replace(&mut reached[node], true) {
                    break;
                }
            }
        }
        for (node, reached) in reached.into_iter().enumerate() {
            if !reached && let Some(element) = self.nodes[node].take() {
                self.free.push(node);
                gone(element.slot);
            }
        }
    }

    pub fn bytes(&self) -> usize {
        size_of_val(&self.nodes[..]) + size_of_val(&self.free[..])
    }

    /// All elements, reached or not: those of a chain follow each other, with the number of the
    /// chain.
    fn chains(&self) -> Vec<(Node, usize)> {
        let mut is_behind = vec![false; self.nodes.len()];
        for next in self.nodes.iter().flatten().filter_map(|e| e.next) {
            is_behind[next] = true;
        }
        let heads = (0..self.nodes.len()).filter(|&n| self.nodes[n].is_some() && !is_behind[n]);
        let mut all = Vec::new();
        for (number, head) in heads.enumerate() {
            let chain = std::iter::successors(Some(head), |&node| self.next_of(node));
            all.extend(chain.map(|node| (node, number)));
        }
        all
    }

    /// `row` gives the number under which the row of a slot is saved.
    pub fn save(&self, writer: &mut Writer, mut row: impl FnMut(Slot) -> u32) {
        let all = self.chains();
        writer.count(self.taken);
        writer.count(all.len());
        for (node, chain) in &all {
            writer.u32(*chain as u32);
            writer.u32(self.nodes[*node].map_or(0, |e| row(e.slot)));
        }
        for place in [self.first, self.last, self.previous, self.returned] {
            let at = place.and_then(|p| all.iter().position(|(node, _)| *node == p));
            writer.u32(at.map_or(u32::MAX, |at| at as u32));
        }
    }

    /// Rows are those of a pool that was restored with `rows` rows.
    pub fn restore(reader: &mut Reader<'_>, rows: usize) -> Result<Linked, StateError> {
        let wrong = |what: &str| StateError::Mismatch(format!("a list with {what}"));
        let mut list = Linked {
            taken: usize::try_from(reader.u64()?).unwrap_or(0),
            ..Linked::default()
        };
        let mut chain = None;
        for node in 0..reader.count()? {
            let number = reader.u32()?;
            let slot = reader.u32()?;
            if slot as usize >= rows {
                return Err(wrong("a row that is not there"));
            }
            if chain.replace(number) == Some(number) {
                list.set_next(node - 1, Some(node));
            }
            list.nodes.push(Some(Element { slot, next: None }));
        }
        let mut place = || -> Result<Option<Node>, StateError> {
            match reader.u32()? {
                u32::MAX => Ok(None),
                at if (at as usize) < list.nodes.len() => Ok(Some(at as usize)),
                _ => Err(wrong("a place that is not there")),
            }
        };
        let places = [place()?, place()?, place()?, place()?];
        [list.first, list.last, list.previous, list.returned] = places;
        // Elements are only ever put behind the end of a chain.
        if list.last.is_some_and(|last| list.next_of(last).is_some()) {
            return Err(wrong("an end in its middle"));
        }
        Ok(list)
    }

    /// The slots of all elements, for a saved pool.
    pub fn stored_slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.nodes.iter().flatten().map(|e| e.slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(list: &Linked) -> Vec<Slot> {
        list.slots().collect()
    }

    #[test]
    fn what_is_added_behind_a_removed_end_is_lost() {
        let mut list = Linked::default();
        (1..=2).for_each(|slot| list.add(slot));
        assert_eq!((list.walk(), list.walk()), (Some(1), Some(2)));
        list.remove();
        list.add(3);
        assert_eq!(shown(&list), [1]);
        assert_eq!(list.poll(), Some(1));
        list.add(4);
        assert_eq!(shown(&list), [4]);
        let mut gone = Vec::new();
        list.sweep(|slot| gone.push(slot));
        assert_eq!(gone, [2, 3]);
    }

    #[test]
    fn a_walk_goes_on_where_it_stopped() {
        let mut list = Linked::default();
        (1..=3).for_each(|slot| list.add(slot));
        list.walk();
        list.insert_before(7);
        list.walk();
        list.insert_before(8);
        assert_eq!(shown(&list), [7, 1, 8, 2, 3]);
        let mut writer = Writer::default();
        list.save(&mut writer, |slot| slot);
        let mut restored = Linked::restore(&mut Reader::new(&writer.bytes), 9).expect("saved");
        for list in [&mut list, &mut restored] {
            assert_eq!((shown(list), list.walk()), (vec![7, 1, 8, 2, 3], Some(3)));
            assert!(!list.has_next());
        }
    }

    #[test]
    fn a_forged_list_is_refused() {
        let mut list = Linked::default();
        (1..=3).for_each(|slot| list.add(slot));
        let mut writer = Writer::default();
        list.save(&mut writer, |slot| slot);
        assert!(Linked::restore(&mut Reader::new(&writer.bytes), 2).is_err());
    }
}
