//! XPath 1.0, as far as mappings use it: location paths with predicates.
//!
//! Axes child, attribute, descendant (`//`), self and parent; name tests, `*`, `text()`, `node()`;
//! predicates of positions, comparisons, `and`, `or`, `not()`, `contains()`, `starts-with()`,
//! `position()`, `last()`, `count()`, `name()`, `local-name()`, `string()`, `normalize-space()`,
//! `string-length()`, `number()`, `true()`, `false()`.

use std::borrow::Cow;

use super::is_name_char;
use super::tree::{Namespace, Tree};

/// Steps of a path and nesting of predicates.
const DEPTH_MAX: usize = 32;

/// Nodes that the paths of one document may look at, all together.
pub(super) const VISITS_MAX: usize = 64 << 20;

/// Prefixes of a mapping with their namespaces.
pub(super) type Prefixes = Vec<(String, String)>;

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Path {
    is_absolute: bool,
    steps: Vec<Step>,
}

#[derive(Clone, PartialEq, Debug)]
struct Step {
    axis: Axis,
    test: Test,
    predicates: Vec<Expr>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Axis {
    Child,
    /// `//`: the node and all below it.
    Descend,
    Itself,
    Parent,
    Attribute,
}

#[derive(Clone, PartialEq, Debug)]
enum Test {
    /// Namespace (empty for none) and local name.
    Name(String, String),
    Any,
    /// Any name of a namespace.
    AnyOf(String),
    Text,
    Node,
}

#[derive(Clone, PartialEq, Debug)]
enum Expr {
    Or(Box<Expr>, Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Compare(Box<Expr>, Compare, Box<Expr>),
    Number(f64),
    Literal(String),
    Path(Path),
    Call(Function, Vec<Expr>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Compare {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Function {
    Not,
    Contains,
    StartsWith,
    Position,
    Last,
    Count,
    Name,
    LocalName,
    String,
    NormalizeSpace,
    StringLength,
    Number,
    True,
    False,
}

/// A node of the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Item {
    Document,
    Element(usize),
    Attribute(usize, usize),
    /// The text of an element.
    Text(usize),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TooMuch;

enum Value {
    Items(Vec<Item>),
    Number(f64),
    Text(String),
    Bool(bool),
}

/// Where an expression is evaluated.
struct Here<'t, 'a> {
    tree: &'t Tree<'a>,
    item: Item,
    position: usize,
    last: usize,
}

// ---- evaluation ----

impl Path {
    /// Does it begin at the document, so that it finds the same from everywhere?
    pub fn is_absolute(&self) -> bool {
        self.is_absolute
    }

    /// Items found from an element (or the document), in document order; `visits` is what is left of
    /// [`VISITS_MAX`].
    pub fn find(
        &self,
        tree: &Tree<'_>,
        from: Item,
        visits: &mut usize,
    ) -> Result<Vec<Item>, TooMuch> {
        self.find_from(tree, from, visits)
    }

    fn find_from(
        &self,
        tree: &Tree<'_>,
        from: Item,
        visits: &mut usize,
    ) -> Result<Vec<Item>, TooMuch> {
        let mut here = vec![if self.is_absolute {
            Item::Document
        } else {
            from
        }];
        for step in &self.steps {
            let mut next: Vec<Item> = Vec::new();
            for item in here {
                let mut found = Vec::new();
                step.walk(tree, item, &mut found);
                *visits = visits.checked_sub(found.len() + 1).ok_or(TooMuch)?;
                for predicate in &step.predicates {
                    found = filter(tree, found, predicate, visits)?;
                }
                next.extend(found);
            }
            // Nodes reached by several ways count once.
            if step.axis == Axis::Descend || step.axis == Axis::Parent {
                next.sort_by_key(order);
                next.dedup();
            }
            here = next;
        }
        Ok(here)
    }

    pub fn step_count(&self) -> usize {
        self.steps.len()
    }

    /// An attribute or a child of the element `root`, named plainly: `@id`, `/node/@id`, `name`,
    /// `/node/name`. True for an attribute.
    pub fn plain_part(&self, root: &str) -> Option<(&str, bool)> {
        let mut steps = self.steps.as_slice();
        let plain = |step: &Step| match &step.test {
            Test::Name(namespace, name) if namespace.is_empty() && step.predicates.is_empty() => {
                Some(name.clone())
            }
            _ => None,
        };
        if self.is_absolute {
            let (first, rest) = steps.split_first()?;
            if first.axis != Axis::Child || plain(first)? != root {
                return None;
            }
            steps = rest;
        }
        match steps {
            [step] if plain(step).is_some() => match (&step.test, step.axis) {
                (Test::Name(_, name), Axis::Attribute) => Some((name, true)),
                (Test::Name(_, name), Axis::Child) => Some((name, false)),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Document order: an element, its attributes, its text, its children.
fn order(item: &Item) -> (usize, usize) {
    match *item {
        Item::Document => (0, 0),
        Item::Element(index) => (index + 1, 0),
        Item::Attribute(index, attribute) => (index + 1, 1 + attribute),
        Item::Text(index) => (index + 1, usize::MAX),
    }
}

fn filter(
    tree: &Tree<'_>,
    found: Vec<Item>,
    predicate: &Expr,
    visits: &mut usize,
) -> Result<Vec<Item>, TooMuch> {
    let last = found.len();
    let mut kept = Vec::new();
    for (i, item) in found.into_iter().enumerate() {
        let here = Here {
            tree,
            item,
            position: i + 1,
            last,
        };
        let holds = match predicate.value(&here, visits)? {
            Value::Number(number) => number == (i + 1) as f64,
            value => truth(&value),
        };
        if holds {
            kept.push(item);
        }
    }
    Ok(kept)
}

impl Step {
    fn walk(&self, tree: &Tree<'_>, from: Item, out: &mut Vec<Item>) {
        match (self.axis, from) {
            (Axis::Child, Item::Document) => self.test_element(tree, 0, out),
            (Axis::Child, Item::Element(index)) => {
                let element = &tree.elements[index];
                if matches!(self.test, Test::Text | Test::Node) && !element.text.is_empty() {
                    out.push(Item::Text(index));
                }
                for &child in &element.children {
                    self.test_element(tree, child, out);
                }
            }
            (Axis::Descend, Item::Document) => descend(tree, 0, true, out),
            (Axis::Descend, Item::Element(index)) => descend(tree, index, false, out),
            (Axis::Itself, item) => match item {
                Item::Element(index) => self.test_element(tree, index, out),
                item => out.push(item),
            },
            (Axis::Parent, Item::Element(index)) => {
                out.push(
                    tree.elements[index]
                        .parent
                        .map_or(Item::Document, Item::Element),
                );
            }
            (Axis::Parent, Item::Attribute(index, _) | Item::Text(index)) => {
                out.push(Item::Element(index));
            }
            (Axis::Attribute, Item::Element(index)) => {
                for (i, attribute) in tree.elements[index].attributes.iter().enumerate() {
                    if self.test.accepts(tree, attribute.namespace, attribute.name) {
                        out.push(Item::Attribute(index, i));
                    }
                }
            }
            _ => {}
        }
    }

    fn test_element(&self, tree: &Tree<'_>, index: usize, out: &mut Vec<Item>) {
        let element = &tree.elements[index];
        if self.test.accepts(tree, element.namespace, element.name) {
            out.push(Item::Element(index));
        }
    }
}

/// An element and all below it, in document order: in the arena they stand side by side.
fn descend(tree: &Tree<'_>, index: usize, from_document: bool, out: &mut Vec<Item>) {
    if from_document {
        out.push(Item::Document);
    }
    let mut last = index;
    while let Some(&child) = tree.elements[last].children.last() {
        last = child;
    }
    out.extend((index..=last).map(Item::Element));
}

impl Test {
    fn accepts(&self, tree: &Tree<'_>, namespace: Namespace, name: &str) -> bool {
        match self {
            Test::Name(uri, local) => name == local && tree.namespaces[namespace] == *uri,
            Test::AnyOf(uri) => tree.namespaces[namespace] == *uri,
            Test::Any | Test::Node => true,
            Test::Text => false,
        }
    }
}

/// The string value of an item.
fn text_of<'t>(tree: &'t Tree<'_>, item: Item) -> Cow<'t, str> {
    match item {
        Item::Attribute(index, i) => Cow::Borrowed(&tree.elements[index].attributes[i].value),
        Item::Text(index) => Cow::Borrowed(&tree.elements[index].text),
        Item::Element(index) if tree.elements[index].children.is_empty() => {
            Cow::Borrowed(&tree.elements[index].text)
        }
        Item::Element(_) | Item::Document => {
            let index = match item {
                Item::Element(index) => index,
                _ => 0,
            };
            let mut all = Vec::new();
            descend(tree, index, false, &mut all);
            let texts: Vec<&str> = all
                .iter()
                .filter_map(|item| match item {
                    Item::Element(index) => Some(&*tree.elements[*index].text),
                    _ => None,
                })
                .collect();
            Cow::Owned(texts.concat())
        }
    }
}

impl Expr {
    fn value(&self, here: &Here<'_, '_>, visits: &mut usize) -> Result<Value, TooMuch> {
        *visits = visits.checked_sub(1).ok_or(TooMuch)?;
        Ok(match self {
            Expr::Or(left, right) => {
                Value::Bool(truth(&left.value(here, visits)?) || truth(&right.value(here, visits)?))
            }
            Expr::And(left, right) => {
                Value::Bool(truth(&left.value(here, visits)?) && truth(&right.value(here, visits)?))
            }
            Expr::Compare(left, op, right) => {
                let (left, right) = (left.value(here, visits)?, right.value(here, visits)?);
                Value::Bool(op.holds(here.tree, &left, &right))
            }
            Expr::Number(number) => Value::Number(*number),
            Expr::Literal(text) => Value::Text(text.clone()),
            Expr::Path(path) => Value::Items(path.find_from(here.tree, here.item, visits)?),
            Expr::Call(function, args) => function.call(args, here, visits)?,
        })
    }
}

impl Function {
    fn call(
        self,
        args: &[Expr],
        here: &Here<'_, '_>,
        visits: &mut usize,
    ) -> Result<Value, TooMuch> {
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            values.push(arg.value(here, visits)?);
        }
        let tree = here.tree;
        let text = |i: usize| {
            values.get(i).map_or_else(
                || text_of(tree, here.item).into_owned(),
                |v| string(tree, v),
            )
        };
        Ok(match self {
            Function::Not => Value::Bool(!values.first().is_some_and(truth)),
            Function::Contains => Value::Bool(text(0).contains(&text(1))),
            Function::StartsWith => Value::Bool(text(0).starts_with(&text(1))),
            Function::Position => Value::Number(here.position as f64),
            Function::Last => Value::Number(here.last as f64),
            Function::Count => Value::Number(match values.first() {
                Some(Value::Items(items)) => items.len() as f64,
                _ => f64::NAN,
            }),
            Function::Name | Function::LocalName => {
                let item = match values.first() {
                    Some(Value::Items(items)) => items.first().copied(),
                    _ => Some(here.item),
                };
                Value::Text(match item {
                    Some(Item::Element(index)) => tree.elements[index].name.to_owned(),
                    Some(Item::Attribute(index, i)) => {
                        tree.elements[index].attributes[i].name.to_owned()
                    }
                    _ => String::new(),
                })
            }
            Function::String => Value::Text(text(0)),
            Function::NormalizeSpace => {
                let text = text(0);
                let words: Vec<&str> = text.split_ascii_whitespace().collect();
                Value::Text(words.join(" "))
            }
            Function::StringLength => Value::Number(text(0).chars().count() as f64),
            Function::Number => Value::Number(number(&text(0))),
            Function::True => Value::Bool(true),
            Function::False => Value::Bool(false),
        })
    }
}

impl Compare {
    /// An item set compares by any of its items.
    fn holds(self, tree: &Tree<'_>, left: &Value, right: &Value) -> bool {
        match (left, right) {
            (Value::Items(items), other) => items.iter().any(|&item| {
                self.holds(tree, &Value::Text(text_of(tree, item).into_owned()), other)
            }),
            (other, Value::Items(items)) => items.iter().any(|&item| {
                self.holds(tree, other, &Value::Text(text_of(tree, item).into_owned()))
            }),
            (left, right) => self.holds_plain(tree, left, right),
        }
    }

    fn holds_plain(self, tree: &Tree<'_>, left: &Value, right: &Value) -> bool {
        let numbers = || (number(&string(tree, left)), number(&string(tree, right)));
        match self {
            Compare::Equal | Compare::NotEqual => {
                let is_equal = match (left, right) {
                    (Value::Bool(_), _) | (_, Value::Bool(_)) => truth(left) == truth(right),
                    (Value::Number(_), _) | (_, Value::Number(_)) => {
                        let (left, right) = numbers();
                        left == right
                    }
                    _ => string(tree, left) == string(tree, right),
                };
                is_equal == (self == Compare::Equal)
            }
            _ => {
                let (left, right) = numbers();
                match self {
                    Compare::Less => left < right,
                    Compare::LessEqual => left <= right,
                    Compare::Greater => left > right,
                    _ => left >= right,
                }
            }
        }
    }
}

fn truth(value: &Value) -> bool {
    match value {
        Value::Items(items) => !items.is_empty(),
        Value::Number(number) => *number != 0.0 && !number.is_nan(),
        Value::Text(text) => !text.is_empty(),
        Value::Bool(value) => *value,
    }
}

fn string(tree: &Tree<'_>, value: &Value) -> String {
    match value {
        Value::Items(items) => items
            .first()
            .map_or_else(String::new, |&item| text_of(tree, item).into_owned()),
        Value::Number(number) => format!("{number}"),
        Value::Text(text) => text.clone(),
        Value::Bool(value) => value.to_string(),
    }
}

fn number(text: &str) -> f64 {
    text.trim().parse().unwrap_or(f64::NAN)
}

// ---- reading ----

impl Path {
    pub fn new(text: &str, prefixes: &Prefixes) -> Result<Path, String> {
        match Path::of_expression(text, prefixes)? {
            Some(path) => Ok(path),
            None => Err(format!("'{text}' finds no elements; write a path")),
        }
    }

    /// Reads any expression; `None` for one that gives a number, text or truth value.
    pub fn of_expression(text: &str, prefixes: &Prefixes) -> Result<Option<Path>, String> {
        let mut reader = Reader {
            text: text.trim(),
            at: 0,
            prefixes,
        };
        let expression = reader.or(0)?;
        reader.skip_blanks();
        if reader.at < reader.text.len() {
            return Err(reader.fault("it is not understood from there"));
        }
        Ok(match expression {
            Expr::Path(path) => Some(path),
            _ => None,
        })
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    prefixes: &'t Prefixes,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn fault(&self, what: &str) -> String {
        format!(
            "'{}' is not a supported XPath, at byte {}: {what}",
            self.text, self.at
        )
    }

    fn skip_blanks(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn eat(&mut self, token: &str) -> bool {
        self.skip_blanks();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn word(&mut self) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|c| !is_name_char(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn path(&mut self, depth: usize) -> Result<Path, String> {
        if depth > DEPTH_MAX {
            return Err(self.fault("it nests too deep"));
        }
        let mut steps = Vec::new();
        self.skip_blanks();
        let is_absolute = self.rest().starts_with('/');
        let descend = Step {
            axis: Axis::Descend,
            test: Test::Node,
            predicates: Vec::new(),
        };
        if self.eat("//") {
            steps.push(descend.clone());
        } else {
            self.eat("/");
        }
        loop {
            steps.push(self.step(depth)?);
            if steps.len() > DEPTH_MAX {
                return Err(self.fault("it has too many steps"));
            }
            if self.eat("//") {
                steps.push(descend.clone());
            } else if !self.eat("/") {
                return Ok(Path { is_absolute, steps });
            }
        }
    }

    fn step(&mut self, depth: usize) -> Result<Step, String> {
        let mut step = Step {
            axis: Axis::Child,
            test: Test::Node,
            predicates: Vec::new(),
        };
        if self.eat("..") {
            step.axis = Axis::Parent;
            return Ok(step);
        }
        if self.eat(".") {
            step.axis = Axis::Itself;
        } else {
            for (token, axis) in [
                ("@", Axis::Attribute),
                ("attribute::", Axis::Attribute),
                ("child::", Axis::Child),
                ("self::", Axis::Itself),
                ("parent::", Axis::Parent),
            ] {
                if self.eat(token) {
                    step.axis = axis;
                    break;
                }
            }
            step.test = self.test()?;
        }
        while self.eat("[") {
            step.predicates.push(self.or(depth + 1)?);
            if !self.eat("]") {
                return Err(self.fault("']' is expected"));
            }
        }
        Ok(step)
    }

    fn test(&mut self) -> Result<Test, String> {
        if self.eat("*") {
            return Ok(Test::Any);
        }
        let start = self.at;
        let word = self.word();
        if self.rest().starts_with('(') {
            let test = match word {
                "text" => Test::Text,
                "node" => Test::Node,
                _ => return Err(self.fault("a function is not allowed here")),
            };
            self.eat("(");
            return if self.eat(")") {
                Ok(test)
            } else {
                Err(self.fault("')' is expected"))
            };
        }
        let Some((prefix, name)) = word.split_once(':') else {
            if word.is_empty() {
                return Err(self.fault("a name is expected"));
            }
            return Ok(Test::Name(String::new(), word.to_owned()));
        };
        let uri = self
            .prefixes
            .iter()
            .find(|(known, _)| known == prefix)
            .map(|(_, uri)| uri.clone());
        let Some(uri) = uri else {
            self.at = start;
            return Err(self.fault(&format!(
                "prefix '{prefix}' is not declared; add it to option 'namespaces'"
            )));
        };
        if name.is_empty() && self.eat("*") {
            return Ok(Test::AnyOf(uri));
        }
        Ok(Test::Name(uri, name.to_owned()))
    }

    fn or(&mut self, depth: usize) -> Result<Expr, String> {
        let mut left = self.and(depth)?;
        while self.keyword("or") {
            left = Expr::Or(Box::new(left), Box::new(self.and(depth)?));
        }
        Ok(left)
    }

    fn and(&mut self, depth: usize) -> Result<Expr, String> {
        let mut left = self.comparison(depth)?;
        while self.keyword("and") {
            left = Expr::And(Box::new(left), Box::new(self.comparison(depth)?));
        }
        Ok(left)
    }

    fn keyword(&mut self, word: &str) -> bool {
        self.skip_blanks();
        let behind = self.rest().strip_prefix(word);
        if behind.is_some_and(|b| !b.starts_with(is_name_char)) {
            self.at += word.len();
            return true;
        }
        false
    }

    fn comparison(&mut self, depth: usize) -> Result<Expr, String> {
        if depth > DEPTH_MAX {
            return Err(self.fault("it nests too deep"));
        }
        let left = self.operand(depth)?;
        for (token, op) in [
            ("!=", Compare::NotEqual),
            ("<=", Compare::LessEqual),
            (">=", Compare::GreaterEqual),
            ("=", Compare::Equal),
            ("<", Compare::Less),
            (">", Compare::Greater),
        ] {
            if self.eat(token) {
                return Ok(Expr::Compare(
                    Box::new(left),
                    op,
                    Box::new(self.operand(depth)?),
                ));
            }
        }
        Ok(left)
    }

    fn operand(&mut self, depth: usize) -> Result<Expr, String> {
        if self.eat("(") {
            let inner = self.or(depth + 1)?;
            return if self.eat(")") {
                Ok(inner)
            } else {
                Err(self.fault("')' is expected"))
            };
        }
        for quote in ["'", "\""] {
            if self.eat(quote) {
                let Some((text, _)) = self.rest().split_once(quote) else {
                    return Err(self.fault("a quote is never closed"));
                };
                self.at += text.len() + 1;
                return Ok(Expr::Literal(text.to_owned()));
            }
        }
        let rest = self.rest();
        if rest.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            let end = rest
                .find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '-'))
                .unwrap_or(rest.len());
            let number = rest[..end]
                .parse()
                .map_err(|_| self.fault("a number is expected"))?;
            self.at += end;
            return Ok(Expr::Number(number));
        }
        let start = self.at;
        let word = self.word();
        if self.rest().starts_with('(') && !matches!(word, "text" | "node") {
            return self.call(word, depth);
        }
        self.at = start;
        Ok(Expr::Path(self.path(depth + 1)?))
    }

    fn call(&mut self, name: &str, depth: usize) -> Result<Expr, String> {
        let function = match name {
            "not" => Function::Not,
            "contains" => Function::Contains,
            "starts-with" => Function::StartsWith,
            "position" => Function::Position,
            "last" => Function::Last,
            "count" => Function::Count,
            "name" => Function::Name,
            "local-name" => Function::LocalName,
            "string" => Function::String,
            "normalize-space" => Function::NormalizeSpace,
            "string-length" => Function::StringLength,
            "number" => Function::Number,
            "true" => Function::True,
            "false" => Function::False,
            _ => return Err(self.fault(&format!("function '{name}()' is unknown"))),
        };
        self.eat("(");
        let mut args = Vec::new();
        if !self.eat(")") {
            loop {
                args.push(self.or(depth + 1)?);
                if self.eat(")") {
                    break;
                }
                if !self.eat(",") {
                    return Err(self.fault("',' or ')' is expected"));
                }
            }
        }
        Ok(Expr::Call(function, args))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "<s><b id='1' k='x'><t>A</t><p>8.5</p></b>\
        <b id='2'><t>B</t><p>12</p><r><t>deep</t></r></b><q:c xmlns:q='u' q:z='9'>C</q:c></s>";

    fn check(path: &str, expect: &[&str]) {
        let tree = Tree::new(DOCUMENT).expect("it is well-formed");
        let prefixes = vec![("n".to_owned(), "u".to_owned())];
        let path = Path::new(path, &prefixes).unwrap_or_else(|error| panic!("{error}"));
        let found = path
            .find(&tree, Item::Element(0), &mut 1000)
            .expect("it is small");
        let texts: Vec<_> = found.iter().map(|&item| text_of(&tree, item)).collect();
        assert_eq!(texts, expect, "{path:?}");
    }

    #[test]
    fn steps() {
        check("b/t", &["A", "B"]);
        check("/s/b/@id", &["1", "2"]);
        check("//t", &["A", "B", "deep"]);
        check("b//t", &["A", "B", "deep"]);
        check("*/t/text()", &["A", "B"]);
        check("b/t/../p", &["8.5", "12"]);
        check("./b/r", &["deep"]);
        check("n:c/@n:z", &["9"]);
        check("n:*", &["C"]);
        check("c", &[]);
        check("@id", &[]);
        check("/t", &[]);
    }

    #[test]
    fn predicates() {
        check("b[2]/t", &["B"]);
        check("b[last()]/@id", &["2"]);
        check("b[@k='x']/t", &["A"]);
        check("b[not(@k)]/p", &["12"]);
        check("b[p > 9 and t = 'B']/@id", &["2"]);
        check("b[contains(t, 'A') or position() = 2][1]/t", &["A"]);
        check("//t[. = 'deep']", &["deep"]);
        check("b[count(t) = 1 and starts-with(@id, '1')]/t", &["A"]);
        check("*[local-name() = 'c']", &["C"]);
        check("b[t[text()='B']]/p", &["12"]);
    }

    #[test]
    fn what_is_no_path() {
        for bad in [
            "", "a[", "a[1", "x:a", "foo()", "a b", "a[foo()]", "a/", "'x",
        ] {
            assert!(Path::new(bad, &Vec::new()).is_err(), "{bad:?}");
        }
        let deep = "a[".repeat(100);
        assert!(Path::new(&deep, &Vec::new()).is_err());
    }

    #[test]
    fn plain_forms() {
        let path = |text| Path::new(text, &Vec::new()).expect("a path");
        assert_eq!(path("/node/@id").plain_part("node"), Some(("id", true)));
        assert_eq!(path("name").plain_part("node"), Some(("name", false)));
        assert_eq!(path("/other/@id").plain_part("node"), None);
        assert_eq!(path("a/b").plain_part("node"), None);
    }
}
