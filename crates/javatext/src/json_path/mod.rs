//! JSON paths in Jayway's dialect, over any tree that is a [`Node`].
//!
//! `$.a.b`, `$['a']`, `$['a','b']`, `$.a[0]`, `[-1]`, `[0,2]`, `[1:3]`, `.*`, `..a`,
//! `[?(@.p > 1)]` and functions at the end. A path that can meet only one place is *definite*: it
//! finds that value or nothing. Any other finds the list of what it met, and nothing at all where its
//! definite beginning leads nowhere.
//!
//! What differs from Jayway 2.9: functions with arguments, and `keys`, `concat`, `append` and
//! `index`, are refused.

mod filter;
mod parse;

use filter::Filter;
pub use filter::Scalar;

/// Steps of a path and nesting of filters.
const STEPS_MAX: usize = 64;

/// Values that one evaluation may look at.
const VISITS_MAX: usize = 1 << 20;

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    #[error("'{path}' is not JSON path: {cause} at byte {at}")]
    Syntax {
        path: String,
        cause: String,
        at: usize,
    },
    #[error("the JSON path visits more than {VISITS_MAX} values")]
    TooMuch,
    #[error("'{function}()' of the JSON path needs a list with a number in it")]
    NoNumbers { function: &'static str },
    #[error(transparent)]
    Regex(#[from] crate::regex::Error),
}

impl From<Error> for String {
    fn from(error: Error) -> String {
        error.to_string()
    }
}

/// A value in a JSON document; a clone stands for the same place.
pub trait Node: Clone {
    /// What a filter compares, with all that lies below.
    fn scalar(&self) -> Scalar;

    /// Entries of an object, elements of a list; `None` for anything else.
    fn size(&self) -> Option<usize>;

    fn is_object(&self) -> bool;

    /// The entry of an object.
    fn member(&self, name: &str) -> Option<Self>;

    /// The element of a list, counted from 0.
    fn element(&self, index: usize) -> Option<Self>;

    /// Elements, or the values of entries, in their order.
    fn children(&self) -> Vec<Self>;
}

#[derive(Debug)]
pub struct Path {
    steps: Vec<Step>,
    function: Option<Function>,
}

#[derive(Debug)]
enum Step {
    Names(Vec<String>),
    Indexes(Vec<i64>),
    Slice(Option<i64>, Option<i64>),
    All,
    /// `..`: this place and everything below it.
    Deep,
    Filter(Filter),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Function {
    Length,
    Min,
    Max,
    Sum,
    Avg,
    StdDev,
    First,
    Last,
}

/// What a path found.
#[derive(Clone, PartialEq, Debug)]
pub enum Found<N> {
    /// A definite path, or the definite beginning of another, leads nowhere.
    Nothing,
    One(Item<N>),
    Many(Vec<Item<N>>),
}

/// A value of the document, or one that the path made.
#[derive(Clone, PartialEq, Debug)]
pub enum Item<N> {
    Node(N),
    /// `['a','b']` at the end: an object of the entries that are there.
    Members(Vec<(String, N)>),
    Number(f64),
    Count(usize),
    /// A function of what has no such thing.
    Null,
}

/// A place inside an object or a list, to be written to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Slot {
    Member(String),
    Element(usize),
}

/// Where a path leads, for writing.
#[derive(Debug)]
pub enum Targets<N> {
    /// The document itself.
    Root,
    /// The object or list, and the place in it, which exists.
    Inside(Vec<(N, Slot)>),
}

impl Path {
    /// A text without `$` in front is a path below it.
    pub fn new(text: &str) -> Result<Path, Error> {
        parse::parse(text)
    }

    /// What the path finds in a document.
    pub fn find<N: Node>(&self, root: &N) -> Result<Found<N>, Error> {
        self.find_from(root, &mut Walk::new(root))
    }

    /// The values that the path leads to, whatever its function.
    pub fn nodes<N: Node>(&self, root: &N) -> Result<Vec<N>, Error> {
        let mut walk = Walk::new(root);
        Ok(follow(&self.steps, root, &mut walk)?.unwrap_or_default())
    }

    /// The places that the path leads to.
    pub fn targets<N: Node>(&self, root: &N) -> Result<Targets<N>, Error> {
        let Some((last, steps)) = self.steps.split_last() else {
            return Ok(Targets::Root);
        };
        let mut walk = Walk::new(root);
        let mut slots = Vec::new();
        for parent in follow(steps, root, &mut walk)?.unwrap_or_default() {
            for slot in last.slots(&parent, &mut walk)? {
                slots.push((parent.clone(), slot));
            }
        }
        Ok(Targets::Inside(slots))
    }

    fn find_from<N: Node>(&self, from: &N, walk: &mut Walk<'_, N>) -> Result<Found<N>, Error> {
        if let Some(function) = self.function {
            return self.apply(function, from, walk);
        }
        // Several names at the end of a definite path make one object.
        if let Some((Step::Names(names), steps)) = self.steps.split_last()
            && names.len() > 1
        {
            let Some(parents) = follow(steps, from, walk)? else {
                return Ok(Found::Nothing);
            };
            let members = |parent: &N| {
                let entries = names.iter();
                Item::Members(
                    entries
                        .filter_map(|name| Some((name.clone(), parent.member(name)?)))
                        .collect(),
                )
            };
            let objects = parents.iter().filter(|node| node.is_object());
            let mut items: Vec<Item<N>> = objects.map(members).collect();
            return Ok(if !is_definite(steps) {
                Found::Many(items)
            } else {
                items.pop().map_or(Found::Nothing, Found::One)
            });
        }
        if let Some(found) = follow_one(&self.steps, from) {
            return Ok(found.map_or(Found::Nothing, |node| Found::One(Item::Node(node))));
        }
        let nodes = follow(&self.steps, from, walk)?;
        Ok(nodes.map_or(Found::Nothing, |nodes| {
            Found::Many(nodes.into_iter().map(Item::Node).collect())
        }))
    }

    /// A function of each value that was found; behind `..`, of all of them together.
    fn apply<N: Node>(
        &self,
        function: Function,
        from: &N,
        walk: &mut Walk<'_, N>,
    ) -> Result<Found<N>, Error> {
        let Some(nodes) = follow(&self.steps, from, walk)? else {
            return Ok(Found::Nothing);
        };
        if self.steps.iter().any(|step| matches!(step, Step::Deep)) {
            let all = match function {
                Function::Length => nodes.iter().flat_map(Node::children).collect(),
                _ => nodes,
            };
            return function.of(&all).map(Found::One);
        }
        let each = |node: &N| match (function, node.size()) {
            (Function::Length, len) => Ok(len.map_or(Item::Null, Item::Count)),
            (function, Some(_)) if !node.is_object() => function.of(&node.children()),
            (function, _) => function.of(&[] as &[N]),
        };
        if is_definite(&self.steps) {
            let found = nodes.first().map(each).transpose()?;
            return Ok(found.map_or(Found::Nothing, Found::One));
        }
        nodes
            .iter()
            .map(each)
            .collect::<Result<_, _>>()
            .map(Found::Many)
    }
}

fn is_definite(steps: &[Step]) -> bool {
    steps.iter().all(|step| match step {
        Step::Names(names) => names.len() == 1,
        Step::Indexes(indexes) => indexes.len() == 1,
        Step::Slice(..) | Step::All | Step::Deep | Step::Filter(_) => false,
    })
}

/// The value at the end of a definite path, without a list for every step; the outer `None` says
/// that the path is another.
fn follow_one<N: Node>(steps: &[Step], from: &N) -> Option<Option<N>> {
    let mut here = Some(from.clone());
    for step in steps {
        here = match step {
            Step::Names(names) if names.len() == 1 => here.and_then(|node| node.member(&names[0])),
            Step::Indexes(indexes) if indexes.len() == 1 => here.and_then(|node| {
                let len = node.size().filter(|_| !node.is_object())?;
                node.element(place(indexes[0], len)?)
            }),
            _ => return None,
        };
    }
    Some(here)
}

/// One evaluation: the document, and how much more may be looked at.
struct Walk<'n, N> {
    root: &'n N,
    visits: usize,
}

impl<N> Walk<'_, N> {
    fn new(root: &N) -> Walk<'_, N> {
        Walk {
            root,
            visits: VISITS_MAX,
        }
    }

    fn spend(&mut self, count: usize) -> Result<(), Error> {
        self.visits = self.visits.checked_sub(count).ok_or(Error::TooMuch)?;
        Ok(())
    }
}

/// The values at the end of the steps; `None` where the definite beginning of them leads nowhere.
fn follow<N: Node>(
    steps: &[Step],
    from: &N,
    walk: &mut Walk<'_, N>,
) -> Result<Option<Vec<N>>, Error> {
    let mut here = vec![from.clone()];
    let mut is_definite_so_far = true;
    for step in steps {
        // A list is asked of what is none: nothing can be there.
        if is_definite_so_far
            && matches!(step, Step::Indexes(_) | Step::Slice(..))
            && here
                .iter()
                .any(|node| node.size().is_none() || node.is_object())
        {
            return Ok(None);
        }
        let mut next = Vec::new();
        for node in &here {
            step.follow(node, walk, &mut next)?;
        }
        is_definite_so_far &= is_definite(std::slice::from_ref(step));
        if is_definite_so_far && next.is_empty() {
            return Ok(None);
        }
        here = next;
    }
    Ok(Some(here))
}

impl Step {
    fn follow<N: Node>(
        &self,
        node: &N,
        walk: &mut Walk<'_, N>,
        out: &mut Vec<N>,
    ) -> Result<(), Error> {
        let before = out.len();
        match self {
            Step::Names(names) => out.extend(names.iter().filter_map(|name| node.member(name))),
            Step::Deep => return descend(node, walk, out),
            Step::All => out.extend(node.children()),
            Step::Filter(filter) if node.is_object() => {
                if filter.accepts(node, walk)? {
                    out.push(node.clone());
                }
            }
            Step::Indexes(_) | Step::Slice(..) | Step::Filter(_) => {
                for slot in self.slots(node, walk)? {
                    if let Slot::Element(index) = slot {
                        out.extend(node.element(index));
                    }
                }
            }
        }
        walk.spend(out.len() - before + 1)
    }

    /// The places in `node` that this step, the last of a path, leads to.
    fn slots<N: Node>(&self, node: &N, walk: &mut Walk<'_, N>) -> Result<Vec<Slot>, Error> {
        let len = node.size().filter(|_| !node.is_object()).unwrap_or(0);
        Ok(match self {
            Step::Names(names) => {
                let there = names.iter().filter(|name| node.member(name).is_some());
                there.map(|name| Slot::Member(name.clone())).collect()
            }
            Step::Indexes(indexes) => {
                let places = indexes.iter().filter_map(|&index| place(index, len));
                places.map(Slot::Element).collect()
            }
            Step::Slice(from, to) => {
                let bound = |index: i64| from_end(index, len).clamp(0, len as i64) as usize;
                let (from, to) = (from.map_or(0, bound), to.map_or(len, bound));
                (from..to).map(Slot::Element).collect()
            }
            Step::All => (0..len).map(Slot::Element).collect(),
            Step::Filter(filter) => {
                let mut slots = Vec::new();
                for index in 0..len {
                    if let Some(element) = node.element(index)
                        && filter.accepts(&element, walk)?
                    {
                        slots.push(Slot::Element(index));
                    }
                }
                slots
            }
            Step::Deep => Vec::new(),
        })
    }
}

/// An index, counted from the end where it is negative.
fn from_end(index: i64, len: usize) -> i64 {
    if index < 0 {
        index.saturating_add(len as i64)
    } else {
        index
    }
}

fn place(index: i64, len: usize) -> Option<usize> {
    let index = usize::try_from(from_end(index, len)).ok()?;
    (index < len).then_some(index)
}

/// The value and all below it, in the order of the text.
fn descend<N: Node>(node: &N, walk: &mut Walk<'_, N>, out: &mut Vec<N>) -> Result<(), Error> {
    let mut stack = vec![node.clone()];
    while let Some(node) = stack.pop() {
        walk.spend(1)?;
        stack.extend(node.children().into_iter().rev());
        out.push(node);
    }
    Ok(())
}

impl Function {
    const ALL: &[(&str, Function)] = &[
        ("length", Function::Length),
        ("size", Function::Length),
        ("min", Function::Min),
        ("max", Function::Max),
        ("sum", Function::Sum),
        ("avg", Function::Avg),
        ("stddev", Function::StdDev),
        ("first", Function::First),
        ("last", Function::Last),
    ];

    fn name(self) -> &'static str {
        let named = Function::ALL.iter().find(|(_, function)| *function == self);
        named.expect("every function is in the list").0
    }

    /// The function of a list.
    fn of<N: Node>(self, list: &[N]) -> Result<Item<N>, Error> {
        match self {
            Function::Length => return Ok(Item::Count(list.len())),
            Function::First => return Ok(list.first().cloned().map_or(Item::Null, Item::Node)),
            Function::Last => return Ok(list.last().cloned().map_or(Item::Null, Item::Node)),
            _ => {}
        }
        let numbers = list.iter().filter_map(|node| match node.scalar() {
            Scalar::Number(number, _) => Some(number),
            _ => None,
        });
        let numbers: Vec<f64> = numbers.collect();
        if numbers.is_empty() {
            return Err(Error::NoNumbers {
                function: self.name(),
            });
        }
        let count = numbers.len() as f64;
        let sum: f64 = numbers.iter().sum();
        Ok(Item::Number(match self {
            Function::Min => numbers.iter().copied().fold(f64::INFINITY, f64::min),
            Function::Max => numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            Function::Avg => sum / count,
            Function::StdDev => {
                let squares: f64 = numbers.iter().map(|number| number * number).sum();
                let mean = sum / count;
                (squares / count - mean * mean).sqrt()
            }
            _ => sum,
        }))
    }
}

#[cfg(test)]
mod tests;
