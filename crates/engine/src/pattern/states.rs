//! The states of a pattern and how partial matches move between them.
//!
//! A state is one stream of the pattern. States are numbered as Siddhi's `StateInputStreamParser`
//! numbers them: in the order of the text, but of two sides of `and` or `or` the right one first.
//! All orders that results can show (who sees an event first, who is cleared and moved first) are
//! laid down here once, so that the machine only walks lists.

use lang::ast::{LogicalOp, PatternKind};
use plan::PatternElement;

/// Number of a state; a partial match has a slot of the same number.
pub(super) type StateId = usize;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Stream,
    Count {
        min: u32,
        max: u32,
    },
    /// One side of `and` or `or`.
    Side {
        is_or: bool,
        partner: StateId,
    },
    /// `not S for t`.
    Absent {
        wait: i64,
    },
    /// A side that is absent; without `for` it only forbids.
    AbsentSide {
        is_or: bool,
        partner: StateId,
        wait: Option<i64>,
    },
}

impl Kind {
    pub const fn is_absent(self) -> bool {
        matches!(self, Kind::Absent { .. } | Kind::AbsentSide { .. })
    }

    pub const fn partner(self) -> Option<StateId> {
        match self {
            Kind::Side { partner, .. } | Kind::AbsentSide { partner, .. } => Some(partner),
            _ => None,
        }
    }

    pub const fn is_or(self) -> bool {
        matches!(
            self,
            Kind::Side { is_or: true, .. } | Kind::AbsentSide { is_or: true, .. }
        )
    }

    pub const fn wait(self) -> Option<i64> {
        match self {
            Kind::Absent { wait } => Some(wait),
            Kind::AbsentSide { wait, .. } => wait,
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct State {
    /// The stream reference of the plan.
    pub reference: usize,
    pub kind: Kind,
    /// A partial match begins here.
    pub is_start: bool,
    /// A completed partial match goes to the selector.
    pub emits: bool,
    /// Where a partial match goes when it is through.
    pub next: Option<StateId>,
    /// The first state of the `every` that ends here: a fresh partial match begins there.
    pub every: Option<StateId>,
    /// The first state of the outermost `every` around.
    pub within_every: Option<StateId>,
    /// A count at the start of a sequence that may stay empty, to be begun anew.
    pub restarts: Option<StateId>,
    /// A count of its own under `every` that may stay empty: it begins anew when this state takes
    /// its partial match.
    pub rearms: Option<StateId>,
    /// The state whose mark says that a match is complete. It is the own one, but for the very
    /// first state, which looks at the last (`InnerStateRuntime.getLastProcessor`).
    pub last: StateId,
}

/// One stream that the pattern reads, by the number of the input.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    /// In the order in which they are brought up to date; an event visits them the other way round.
    pub states: Vec<StateId>,
    /// What an event completes goes to the selector. Not so where the state that was set up last
    /// is no last one (`StateMultiProcessStreamReceiver`).
    pub delivers: bool,
}

#[derive(Clone, Debug)]
pub(super) struct StateGraph {
    pub states: Vec<State>,
    pub readers: Vec<Reader>,
    pub is_sequence: bool,
    /// Milliseconds.
    pub within: Option<i64>,
    /// The one state at which matches begin, where it is one and no absent one.
    pub only_start: Option<StateId>,
    /// In the order in which a key's state begins.
    pub begins: Vec<StateId>,
    /// Of a sequence: in the order in which states are cleared before an event.
    pub resets: Vec<StateId>,
    /// Of a sequence: in the order in which states are brought up to date.
    pub updates: Vec<StateId>,
    /// Absent states in the order of their timers.
    pub absent_timers: Vec<StateId>,
    /// The state of each reference of the plan.
    pub of_reference: Vec<StateId>,
}

/// Ends of what an element was made into, and its orders.
struct Part {
    first: StateId,
    last: StateId,
    setups: Vec<StateId>,
    begins: Vec<StateId>,
    resets: Vec<StateId>,
    updates: Vec<StateId>,
    /// The states that the selector follows if this part is the last.
    ends: Vec<StateId>,
    /// All of its states.
    all: Vec<StateId>,
}

impl StateGraph {
    pub fn new(pattern: &plan::Pattern) -> StateGraph {
        let mut graph = StateGraph {
            states: Vec::new(),
            readers: Vec::new(),
            is_sequence: pattern.kind == PatternKind::Sequence,
            within: pattern.within,
            only_start: None,
            begins: Vec::new(),
            resets: Vec::new(),
            updates: Vec::new(),
            absent_timers: Vec::new(),
            of_reference: vec![0; pattern.references.len()],
        };
        // The `every` of a sequence stands before all of it and belongs to its first element.
        let lifted = match &pattern.root {
            PatternElement::Every(inner) if graph.is_sequence => match inner.as_ref() {
                PatternElement::Chain(chain) => {
                    let mut chain = chain.clone();
                    if let Some(first) = chain.first_mut() {
                        *first = PatternElement::Every(Box::new(first.clone()));
                    }
                    Some(PatternElement::Chain(chain))
                }
                _ => None,
            },
            _ => None,
        };
        let whole = graph.part(lifted.as_ref().unwrap_or(&pattern.root), true);
        for &end in &whole.ends {
            graph.states[end].emits = true;
        }
        graph.states[whole.first].last = whole.last;
        graph.begins = whole.begins;
        graph.resets = whole.resets;
        graph.updates = whole.updates;
        for (id, state) in graph.states.iter().enumerate() {
            graph.of_reference[state.reference] = id;
        }
        graph.mark_rearming();
        let mut starts = graph.states.iter().enumerate().filter(|(_, s)| s.is_start);
        graph.only_start = match (starts.next(), starts.next()) {
            // A count that may stay empty begins while it stands in the list behind already.
            (Some((_, state)), None) if matches!(state.kind, Kind::Count { min: 0, .. }) => None,
            (Some((id, state)), None) if !state.kind.is_absent() => Some(id),
            _ => None,
        };
        graph.readers(pattern, &whole.setups);
        graph
    }

    /// May the pending list of a state be looked into by a value? Where a count at the end needs no
    /// event, its mark falls to whichever partial match comes first.
    pub fn may_index(&self, id: StateId) -> bool {
        let mut states = self.states.iter();
        self.states[id].kind == Kind::Stream
            && !self.is_sequence
            && !states.any(|s| s.emits && matches!(s.kind, Kind::Count { min: 0, .. }))
    }

    fn readers(&mut self, pattern: &plan::Pattern, setups: &[StateId]) {
        for from in super::inputs(pattern) {
            let states: Vec<StateId> = setups
                .iter()
                .copied()
                .filter(|&s| pattern.references[self.states[s].reference].from == from)
                .collect();
            let delivers = match states[..] {
                [one] => self.states[self.states[one].last].emits,
                [.., last] => self.states[last].emits,
                [] => false,
            };
            self.readers.push(Reader { states, delivers });
        }
    }

    fn mark_rearming(&mut self) {
        for id in 0..self.states.len() {
            let state = &self.states[id];
            if let (Kind::Count { min: 0, .. }, Some(every), Some(next)) =
                (state.kind, state.every, state.next)
                && every == id
                && !self.is_sequence
                && self.states[next].every.is_none()
            {
                self.states[next].rearms = Some(id);
                if let Some(partner) = self.states[next].kind.partner() {
                    self.states[partner].rearms = Some(id);
                }
            }
        }
    }

    fn state(&mut self, reference: usize, kind: Kind, is_start: bool) -> StateId {
        let id = self.states.len();
        self.states.push(State {
            reference,
            kind,
            is_start,
            emits: false,
            next: None,
            every: None,
            within_every: None,
            restarts: None,
            rearms: None,
            last: id,
        });
        id
    }

    fn single(&mut self, reference: usize, kind: Kind, is_start: bool) -> Part {
        let id = self.state(reference, kind, is_start);
        if kind.is_absent() {
            self.absent_timers.push(id);
        }
        Part {
            first: id,
            last: id,
            setups: vec![id],
            begins: vec![id],
            resets: vec![id],
            updates: vec![id],
            ends: vec![id],
            all: vec![id],
        }
    }

    /// Depth is bounded by the parser's limit on nesting.
    fn part(&mut self, element: &PatternElement, is_start: bool) -> Part {
        match element {
            PatternElement::Stream(reference) => self.single(*reference, Kind::Stream, is_start),
            PatternElement::Count {
                reference,
                min,
                max,
            } => {
                let kind = Kind::Count {
                    min: *min,
                    max: max.unwrap_or(u32::MAX),
                };
                self.single(*reference, kind, is_start)
            }
            PatternElement::Absent { reference, wait } => {
                let wait = wait.unwrap_or_default();
                self.single(*reference, Kind::Absent { wait }, is_start)
            }
            PatternElement::Chain(chain) => {
                let mut parts = chain.iter().enumerate();
                let Some((_, head)) = parts.next() else {
                    return self.single(0, Kind::Stream, is_start);
                };
                let mut whole = self.part(head, is_start);
                for (_, element) in parts {
                    let next = self.part(element, false);
                    self.connect(whole.last, next.first);
                    whole.last = next.last;
                    whole.setups.extend(next.setups);
                    whole.begins.extend(next.begins);
                    whole.resets.splice(0..0, next.resets);
                    whole.updates.extend(next.updates);
                    whole.ends = next.ends;
                    whole.all.extend(next.all);
                }
                whole
            }
            PatternElement::Every(inner) => {
                let mut part = self.part(inner, is_start);
                let first = part.first;
                self.states[part.last].every = Some(first);
                if let Some(partner) = self.states[part.last].kind.partner() {
                    self.states[partner].every = Some(first);
                }
                for &state in &part.all {
                    self.states[state].within_every = Some(first);
                }
                // An `every` clears and moves its first state alone (`EveryInnerStateRuntime`).
                part.resets = vec![first];
                part.updates = vec![first];
                part
            }
            PatternElement::Logical { left, op, right } => {
                self.logical(left, right, *op == LogicalOp::Or, is_start)
            }
        }
    }

    fn logical(
        &mut self,
        left: &PatternElement,
        right: &PatternElement,
        is_or: bool,
        is_start: bool,
    ) -> Part {
        // The absent side is the left one, wherever it is written (`SiddhiQLBaseVisitorImpl`).
        let is_absent = |side: &PatternElement| matches!(side, PatternElement::Absent { .. });
        let (left, right) = match (is_absent(left), is_absent(right)) {
            (false, true) => (right, left),
            _ => (left, right),
        };
        let second = self.states.len();
        let first = second + 1;
        let mut side = |element: &PatternElement, partner| match element {
            PatternElement::Absent { reference, wait } => {
                let wait = *wait;
                let kind = Kind::AbsentSide {
                    is_or,
                    partner,
                    wait,
                };
                self.state(*reference, kind, is_start)
            }
            PatternElement::Stream(reference) | PatternElement::Count { reference, .. } => {
                self.state(*reference, Kind::Side { is_or, partner }, is_start)
            }
            // The grammar lets no other element stand beside `and` and `or`.
            _ => self.state(0, Kind::Side { is_or, partner }, is_start),
        };
        side(right, first);
        side(left, second);
        for id in [first, second] {
            if self.states[id].kind.is_absent() {
                self.absent_timers.push(id);
            }
        }
        Part {
            first,
            last: second,
            setups: vec![second, first],
            begins: vec![second, first],
            resets: vec![second],
            updates: vec![second],
            ends: vec![second, first],
            all: vec![second, first],
        }
    }

    fn connect(&mut self, last: StateId, next: StateId) {
        self.states[last].next = Some(next);
        if let Some(partner) = self.states[last].kind.partner() {
            self.states[partner].next = Some(next);
        }
        if let (true, true, Kind::Count { min: 0, .. }) = (
            self.is_sequence,
            self.states[last].is_start,
            self.states[last].kind,
        ) {
            self.states[next].restarts = Some(last);
        }
    }
}
