//! JSONPath, as far as apps use Jayway's: children, indexes, slices, wildcards, descent, filters and
//! functions at the end.
//!
//! A *definite* path (only single children and indexes) finds one value or none; any other finds a
//! list, empty where nothing matches.

use crate::pattern::{Groups, Pattern};

use super::tree::Node;

/// Steps of a path and nesting of filters.
const STEPS_MAX: usize = 64;

/// Values that one evaluation may look at.
const VISITS_MAX: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Path {
    steps: Vec<Step>,
    function: Option<Function>,
}

#[derive(Debug)]
enum Step {
    Child(String),
    Children(Vec<String>),
    Indexes(Vec<i64>),
    Slice(Option<i64>, Option<i64>),
    All,
    /// The value itself and everything below it.
    Descend,
    Filter(Filter),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Function {
    Length,
    Min,
    Max,
    Sum,
    Avg,
    First,
    Last,
}

#[derive(Debug)]
enum Filter {
    And(Vec<Filter>),
    Or(Vec<Filter>),
    Not(Box<Filter>),
    Exists(Operand),
    Compare(Operand, Compare, Operand),
    Matches(Operand, Pattern),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Compare {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
    NotIn,
}

#[derive(Debug)]
enum Operand {
    /// From the element at hand, or from the document.
    Path {
        path: Path,
        from_root: bool,
    },
    Literal(Literal),
}

#[derive(Clone, PartialEq, Debug)]
enum Literal {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Literal>),
}

/// What a path found.
#[derive(PartialEq, Debug)]
pub(super) enum Found<'n, 'a> {
    Missing,
    One(&'n Node<'a>),
    Many(Vec<&'n Node<'a>>),
    Number(f64),
    Count(usize),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TooMuch;

impl Path {
    /// `$.a.b`, or without `$.`.
    pub fn new(text: &str) -> Result<Path, String> {
        let text = text.trim();
        let mut reader = Reader { text, at: 0 };
        let path = if reader.eat("$") {
            reader.path(0)?
        } else {
            reader.path_of_name(0)?
        };
        if reader.at < text.len() {
            return Err(format!(
                "'{text}' is no JSONPath: '{}' is not understood",
                reader.rest()
            ));
        }
        Ok(path)
    }

    fn is_definite(&self) -> bool {
        self.steps.iter().all(|step| match step {
            Step::Child(_) => true,
            Step::Indexes(list) => list.len() == 1,
            _ => false,
        })
    }

    pub fn find<'n, 'a>(&self, root: &'n Node<'a>) -> Result<Found<'n, 'a>, TooMuch> {
        let mut visits = VISITS_MAX;
        self.find_from(root, root, &mut visits)
    }

    fn find_from<'n, 'a>(
        &self,
        from: &'n Node<'a>,
        root: &'n Node<'a>,
        visits: &mut usize,
    ) -> Result<Found<'n, 'a>, TooMuch> {
        let mut here = vec![from];
        for step in &self.steps {
            let mut next = Vec::new();
            for node in here {
                step.apply(node, root, &mut next, visits)?;
            }
            here = next;
        }
        if let Some(function) = self.function {
            return Ok(function.apply(&here, self.is_definite()));
        }
        Ok(if !self.is_definite() {
            Found::Many(here)
        } else {
            here.first().map_or(Found::Missing, |node| Found::One(node))
        })
    }
}

impl Step {
    fn apply<'n, 'a>(
        &self,
        node: &'n Node<'a>,
        root: &'n Node<'a>,
        out: &mut Vec<&'n Node<'a>>,
        visits: &mut usize,
    ) -> Result<(), TooMuch> {
        let before = out.len();
        match (self, node) {
            (Step::Child(name), node) => out.extend(node.get(name)),
            (Step::Children(names), node) => out.extend(names.iter().filter_map(|n| node.get(n))),
            (Step::Indexes(indexes), Node::List(list)) => {
                out.extend(indexes.iter().filter_map(|&i| list.get(at(i, list.len())?)));
            }
            (Step::Slice(from, to), Node::List(list)) => {
                let bound = |i: Option<i64>, default: usize| {
                    i.map_or(default, |i| {
                        let i = if i < 0 { i + list.len() as i64 } else { i };
                        i.clamp(0, list.len() as i64) as usize
                    })
                };
                let (from, to) = (bound(*from, 0), bound(*to, list.len()));
                out.extend(list.get(from..to).unwrap_or(&[]));
            }
            (Step::All, Node::List(list)) => out.extend(list),
            (Step::All, Node::Map(entries)) => out.extend(entries.iter().map(|(_, node)| node)),
            (Step::Descend, node) => descend(node, out, visits)?,
            (Step::Filter(filter), Node::List(list)) => {
                for node in list {
                    if filter.holds(node, root, visits)? {
                        out.push(node);
                    }
                }
            }
            (Step::Filter(filter), Node::Map(_)) if filter.holds(node, root, visits)? => {
                out.push(node);
            }
            _ => {}
        }
        spend(visits, out.len() - before + 1)
    }
}

fn spend(visits: &mut usize, count: usize) -> Result<(), TooMuch> {
    *visits = visits.checked_sub(count).ok_or(TooMuch)?;
    Ok(())
}

fn at(index: i64, len: usize) -> Option<usize> {
    usize::try_from(if index < 0 { index + len as i64 } else { index }).ok()
}

/// The value and all below it, in the order of the text.
fn descend<'n, 'a>(
    node: &'n Node<'a>,
    out: &mut Vec<&'n Node<'a>>,
    visits: &mut usize,
) -> Result<(), TooMuch> {
    let mut stack = vec![node];
    while let Some(node) = stack.pop() {
        spend(visits, 1)?;
        out.push(node);
        match node {
            Node::List(list) => stack.extend(list.iter().rev()),
            Node::Map(entries) => stack.extend(entries.iter().rev().map(|(_, node)| node)),
            _ => {}
        }
    }
    Ok(())
}

impl Function {
    fn apply<'n, 'a>(self, nodes: &[&'n Node<'a>], is_definite: bool) -> Found<'n, 'a> {
        let items: Vec<&'n Node<'a>> = match nodes {
            [Node::List(list)] if is_definite => list.iter().collect(),
            [] if is_definite => return Found::Missing,
            nodes => nodes.to_vec(),
        };
        if self == Function::Length {
            return match nodes {
                [Node::Map(entries)] if is_definite => Found::Count(entries.len()),
                [Node::List(_)] if is_definite => Found::Count(items.len()),
                _ if is_definite => Found::Missing,
                nodes => Found::Count(nodes.len()),
            };
        }
        if let Function::First | Function::Last = self {
            let item = if self == Function::First {
                items.first()
            } else {
                items.last()
            };
            return item.map_or(Found::Missing, |node| Found::One(node));
        }
        let numbers: Vec<f64> = items
            .iter()
            .filter_map(|node| match node {
                Node::Number(text) => fast_float2::parse(text).ok(),
                _ => None,
            })
            .collect();
        if numbers.is_empty() {
            return Found::Missing;
        }
        let sum: f64 = numbers.iter().sum();
        Found::Number(match self {
            Function::Min => numbers.iter().copied().fold(f64::INFINITY, f64::min),
            Function::Max => numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            Function::Avg => sum / numbers.len() as f64,
            _ => sum,
        })
    }
}

// ---- filters ----

impl Filter {
    fn holds<'n, 'a>(
        &self,
        node: &'n Node<'a>,
        root: &'n Node<'a>,
        visits: &mut usize,
    ) -> Result<bool, TooMuch> {
        spend(visits, 1)?;
        Ok(match self {
            Filter::And(all) => {
                for filter in all {
                    if !filter.holds(node, root, visits)? {
                        return Ok(false);
                    }
                }
                true
            }
            Filter::Or(any) => {
                for filter in any {
                    if filter.holds(node, root, visits)? {
                        return Ok(true);
                    }
                }
                false
            }
            Filter::Not(filter) => !filter.holds(node, root, visits)?,
            Filter::Exists(operand) => operand.value(node, root, visits)?.is_some(),
            Filter::Compare(left, op, right) => {
                let left = left.value(node, root, visits)?;
                let right = right.value(node, root, visits)?;
                match (left, right) {
                    (Some(left), Some(right)) => op.holds(&left, &right),
                    _ => matches!(op, Compare::NotEqual | Compare::NotIn),
                }
            }
            Filter::Matches(operand, pattern) => match operand.value(node, root, visits)? {
                Some(Literal::Text(text)) => pattern
                    .find_at(&text, 0, &mut Groups::default())
                    .unwrap_or(false),
                _ => false,
            },
        })
    }
}

impl Compare {
    fn holds(self, left: &Literal, right: &Literal) -> bool {
        let order = match (left, right) {
            (Literal::Number(a), Literal::Number(b)) => a.partial_cmp(b),
            (Literal::Text(a), Literal::Text(b)) => Some(a.cmp(b)),
            _ => None,
        };
        match self {
            Compare::Equal => left == right,
            Compare::NotEqual => left != right,
            Compare::Less => order.is_some_and(|o| o.is_lt()),
            Compare::LessEqual => order.is_some_and(|o| o.is_le()),
            Compare::Greater => order.is_some_and(|o| o.is_gt()),
            Compare::GreaterEqual => order.is_some_and(|o| o.is_ge()),
            Compare::In | Compare::NotIn => {
                let is_in = matches!(right, Literal::List(list) if list.contains(left));
                is_in == (self == Compare::In)
            }
        }
    }
}

impl Operand {
    fn value<'n, 'a>(
        &self,
        node: &'n Node<'a>,
        root: &'n Node<'a>,
        visits: &mut usize,
    ) -> Result<Option<Literal>, TooMuch> {
        let (path, from) = match self {
            Operand::Literal(literal) => return Ok(Some(literal.clone())),
            Operand::Path { path, from_root } => (path, if *from_root { root } else { node }),
        };
        Ok(match path.find_from(from, root, visits)? {
            Found::Missing => None,
            Found::One(node) => Some(literal(node)),
            Found::Many(nodes) if nodes.is_empty() => None,
            Found::Many(nodes) => Some(Literal::List(nodes.into_iter().map(literal).collect())),
            Found::Number(number) => Some(Literal::Number(number)),
            Found::Count(count) => Some(Literal::Number(count as f64)),
        })
    }
}

/// A scalar as it is; lists of scalars too; an object is its JSON text.
fn literal(node: &Node<'_>) -> Literal {
    match node {
        Node::Null => Literal::Null,
        Node::Bool(value) => Literal::Bool(*value),
        Node::Number(text) => Literal::Number(fast_float2::parse(text).unwrap_or(f64::NAN)),
        Node::Text(text) => Literal::Text(text.clone().into_owned()),
        Node::List(list) => Literal::List(list.iter().map(literal).collect()),
        Node::Map(_) => {
            let mut text = String::new();
            node.write(&mut text);
            Literal::Text(text)
        }
    }
}

// ---- reading ----

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn eat(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn skip_blanks(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        self.skip_blanks();
        if self.eat(token) {
            Ok(())
        } else {
            Err(format!(
                "'{}' is no JSONPath: '{token}' is expected at byte {}",
                self.text, self.at
            ))
        }
    }

    fn path_of_name(&mut self, depth: usize) -> Result<Path, String> {
        let mut steps = Vec::new();
        let mut function = None;
        if !self.rest().starts_with('[') {
            self.dotted(&mut steps, &mut function)?;
        }
        self.steps(steps, function, depth)
    }

    fn path(&mut self, depth: usize) -> Result<Path, String> {
        self.steps(Vec::new(), None, depth)
    }

    fn steps(
        &mut self,
        mut steps: Vec<Step>,
        mut function: Option<Function>,
        depth: usize,
    ) -> Result<Path, String> {
        while function.is_none() {
            if steps.len() > STEPS_MAX || depth > STEPS_MAX {
                return Err(format!("'{}' has too many steps", self.text));
            }
            if self.eat("..") {
                steps.push(Step::Descend);
                if !self.rest().starts_with('[') {
                    self.dotted(&mut steps, &mut function)?;
                }
            } else if self.eat(".") {
                self.dotted(&mut steps, &mut function)?;
            } else if self.eat("[") {
                let step = self.bracket(depth)?;
                steps.push(step);
            } else {
                break;
            }
        }
        Ok(Path { steps, function })
    }

    /// A name, `*`, or a function.
    fn dotted(
        &mut self,
        steps: &mut Vec<Step>,
        function: &mut Option<Function>,
    ) -> Result<(), String> {
        if self.eat("*") {
            steps.push(Step::All);
            return Ok(());
        }
        let rest = self.rest();
        let end = rest
            .find(|c: char| {
                matches!(
                    c,
                    '.' | '[' | '(' | ')' | '=' | '!' | '<' | '>' | '&' | '|' | ',' | ']'
                ) || c.is_whitespace()
            })
            .unwrap_or(rest.len());
        let name = &rest[..end];
        if name.is_empty() {
            return Err(format!(
                "'{}' is no JSONPath: a name is expected at byte {}",
                self.text, self.at
            ));
        }
        self.at += end;
        if !self.eat("()") {
            steps.push(Step::Child(name.to_owned()));
            return Ok(());
        }
        *function = Some(match name {
            "length" | "size" => Function::Length,
            "min" => Function::Min,
            "max" => Function::Max,
            "sum" => Function::Sum,
            "avg" => Function::Avg,
            "first" => Function::First,
            "last" => Function::Last,
            _ => {
                return Err(format!(
                    "JSONPath function '{name}()' is unknown; use length, min, max, sum, avg, first or last"
                ));
            }
        });
        Ok(())
    }

    fn bracket(&mut self, depth: usize) -> Result<Step, String> {
        self.skip_blanks();
        if self.eat("*") {
            self.expect("]")?;
            return Ok(Step::All);
        }
        if self.eat("?") {
            self.expect("(")?;
            let filter = self.any(depth + 1)?;
            self.expect(")")?;
            self.expect("]")?;
            return Ok(Step::Filter(filter));
        }
        if self.rest().starts_with(['\'', '"']) {
            let mut names = vec![self.quoted()?];
            self.skip_blanks();
            while self.eat(",") {
                self.skip_blanks();
                names.push(self.quoted()?);
                self.skip_blanks();
            }
            self.expect("]")?;
            return Ok(match names.len() {
                1 => Step::Child(names.swap_remove(0)),
                _ => Step::Children(names),
            });
        }
        self.indexes()
    }

    fn indexes(&mut self) -> Result<Step, String> {
        let first = self.integer();
        self.skip_blanks();
        if self.eat(":") {
            self.skip_blanks();
            let last = self.integer();
            self.expect("]")?;
            return Ok(Step::Slice(first, last));
        }
        let mut list = vec![first.ok_or_else(|| {
            format!(
                "'{}' is no JSONPath: an index or a name in quotes is expected at byte {}",
                self.text, self.at
            )
        })?];
        while self.eat(",") {
            self.skip_blanks();
            list.extend(self.integer());
            self.skip_blanks();
        }
        self.expect("]")?;
        Ok(Step::Indexes(list))
    }

    fn integer(&mut self) -> Option<i64> {
        let rest = self.rest();
        let end = rest
            .find(|c: char| c != '-' && !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let value = rest[..end].parse().ok()?;
        self.at += end;
        Some(value)
    }

    fn quoted(&mut self) -> Result<String, String> {
        let Some(quote) = self
            .rest()
            .chars()
            .next()
            .filter(|c| matches!(c, '\'' | '"'))
        else {
            return Err(format!(
                "'{}' is no JSONPath: a quote is expected at byte {}",
                self.text, self.at
            ));
        };
        self.at += 1;
        let mut out = String::new();
        let mut chars = self.rest().char_indices();
        while let Some((i, c)) = chars.next() {
            if c == quote {
                self.at += i + 1;
                return Ok(out);
            }
            if c == '\\' {
                out.extend(chars.next().map(|(_, c)| c));
            } else {
                out.push(c);
            }
        }
        Err(format!(
            "'{}' is no JSONPath: a quote is never closed",
            self.text
        ))
    }

    fn any(&mut self, depth: usize) -> Result<Filter, String> {
        let mut list = vec![self.all(depth)?];
        self.skip_blanks();
        while self.eat("||") {
            list.push(self.all(depth)?);
            self.skip_blanks();
        }
        Ok(if list.len() == 1 {
            list.swap_remove(0)
        } else {
            Filter::Or(list)
        })
    }

    fn all(&mut self, depth: usize) -> Result<Filter, String> {
        let mut list = vec![self.one(depth)?];
        self.skip_blanks();
        while self.eat("&&") {
            list.push(self.one(depth)?);
            self.skip_blanks();
        }
        Ok(if list.len() == 1 {
            list.swap_remove(0)
        } else {
            Filter::And(list)
        })
    }

    fn one(&mut self, depth: usize) -> Result<Filter, String> {
        if depth > STEPS_MAX {
            return Err(format!("the filter of '{}' nests too deep", self.text));
        }
        self.skip_blanks();
        if self.eat("!") {
            return Ok(Filter::Not(Box::new(self.one(depth + 1)?)));
        }
        if self.eat("(") {
            let inner = self.any(depth + 1)?;
            self.expect(")")?;
            return Ok(inner);
        }
        let left = self.operand(depth)?;
        self.skip_blanks();
        if self.eat("=~") {
            self.expect("/")?;
            let (pattern, after) = self.rest().split_once('/').ok_or_else(|| {
                format!("'{}' is no JSONPath: a pattern is never closed", self.text)
            })?;
            let ignores_case = after.starts_with('i');
            self.at += pattern.len() + 1 + usize::from(ignores_case);
            let pattern = if ignores_case {
                format!("^(?i:{pattern})\\z")
            } else {
                format!("^(?:{pattern})\\z")
            };
            let compiled = Pattern::new(&pattern).map_err(|error| error.to_string())?;
            return Ok(Filter::Matches(left, compiled));
        }
        const OPERATORS: &[(&str, Compare)] = &[
            ("==", Compare::Equal),
            ("!=", Compare::NotEqual),
            ("<=", Compare::LessEqual),
            (">=", Compare::GreaterEqual),
            ("<", Compare::Less),
            (">", Compare::Greater),
            ("in ", Compare::In),
            ("nin ", Compare::NotIn),
        ];
        match OPERATORS.iter().find(|(token, _)| self.eat(token)) {
            None => Ok(Filter::Exists(left)),
            Some((_, op)) => {
                self.skip_blanks();
                Ok(Filter::Compare(left, *op, self.operand(depth)?))
            }
        }
    }

    fn operand(&mut self, depth: usize) -> Result<Operand, String> {
        for (token, from_root) in [("@", false), ("$", true)] {
            if self.eat(token) {
                let path = self.path(depth + 1)?;
                return Ok(Operand::Path { path, from_root });
            }
        }
        Ok(Operand::Literal(self.literal(depth)?))
    }

    fn literal(&mut self, depth: usize) -> Result<Literal, String> {
        self.skip_blanks();
        for (word, literal) in [
            ("null", Literal::Null),
            ("true", Literal::Bool(true)),
            ("false", Literal::Bool(false)),
        ] {
            if self.eat(word) {
                return Ok(literal);
            }
        }
        if self.rest().starts_with(['\'', '"']) {
            return Ok(Literal::Text(self.quoted()?));
        }
        if depth <= STEPS_MAX && self.eat("[") {
            let mut list = Vec::new();
            self.skip_blanks();
            while !self.eat("]") {
                list.push(self.literal(depth + 1)?);
                self.skip_blanks();
                if !self.rest().starts_with(']') {
                    self.expect(",")?;
                }
            }
            return Ok(Literal::List(list));
        }
        let rest = self.rest();
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && !matches!(c, '-' | '+' | '.' | 'e' | 'E'))
            .unwrap_or(rest.len());
        let number = fast_float2::parse(&rest[..end]).map_err(|_| {
            format!(
                "'{}' is no JSONPath: a value is expected at byte {}",
                self.text, self.at
            )
        })?;
        self.at += end;
        Ok(Literal::Number(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapper::json::tree::parse;

    const DOCUMENT: &str = r#"{"store":{"book":[
        {"title":"A","price":8.5,"tags":["x"]},{"title":"B","price":12},{"title":"it's","price":22.0}
        ],"a.b":{"c":7}},"n":null,"list":[1,2,3]}"#;

    fn check(path: &str, expect: &str) {
        let document = parse(DOCUMENT).expect("it is JSON");
        let path = Path::new(path).unwrap_or_else(|error| panic!("{error}"));
        let text = match path.find(&document).expect("it is small") {
            Found::Missing => "missing".to_owned(),
            Found::One(node) => {
                let mut out = String::new();
                node.write(&mut out);
                out
            }
            Found::Many(nodes) => {
                let mut out = String::new();
                Node::List(nodes.into_iter().cloned().collect()).write(&mut out);
                out
            }
            Found::Number(number) => event::text::to_text(&event::Value::Double(number)),
            Found::Count(count) => count.to_string(),
        };
        assert_eq!(text, expect, "{path:?}");
    }

    #[test]
    fn definite_paths() {
        check("$.store.book[1].title", r#""B""#);
        check("store.book[-1].price", "22.0");
        check("$['store']['a.b'].c", "7");
        check("$.n", "null");
        check("$.n.x", "missing");
        check("$.store.book.title", "missing");
        check("$.list[9]", "missing");
    }

    #[test]
    fn indefinite_paths_find_lists() {
        check("$.store.book[*].price", "[8.5,12,22.0]");
        check("$..title", r#"["A","B","it's"]"#);
        check("$.list[0,2]", "[1,3]");
        check("$.list[1:]", "[2,3]");
        check("$.list[:-1]", "[1,2]");
        check("$.none[*]", "[]");
        check(
            "$.store.book[?(@.price > 10 && @.title != 'B')].title",
            r#"["it's"]"#,
        );
        check("$.store.book[?(@.tags)].title", r#"["A"]"#);
        check(
            "$.store.book[?(!(@.price >= 10) || @.title == \"B\")].price",
            "[8.5,12]",
        );
        check("$.store.book[?(@.title =~ /[ab]/i)].title", r#"["A","B"]"#);
        check(
            "$.store.book[?(@.price in [12, 22])].title",
            r#"["B","it's"]"#,
        );
    }

    #[test]
    fn functions() {
        check("$.list.length()", "3");
        check("$.store.book.length()", "3");
        check("$.store.book[*].price.max()", "22.0");
        check("$.list.sum()", "6.0");
        check("$.list.min()", "1.0");
    }

    #[test]
    fn what_is_no_path() {
        for bad in [
            "$.",
            "$[",
            "$[?(@.a",
            "$.a[b]",
            "$.a b",
            "",
            "$.x.foo()",
            "$['a",
        ] {
            assert!(Path::new(bad).is_err(), "{bad:?}");
        }
        let long = format!("${}", "..a".repeat(200));
        assert!(Path::new(&long).is_err());
    }
}
