//! JSON paths in Jayway's dialect.
//!
//! `$.a.b`, `$['a']`, `$.a[0]`, `[-1]`, `[0,2]`, `[1:3]`, `.*`, `[*]`, `..a`, `[?(@.p > 1)]`, and
//! `.length()` at the end. A path that can meet only one place is *definite*: it gives that value,
//! or nothing. Any other gives the list of what it met.

use event::value::Shared;
use event::{Object, Value};

use super::filter::{Filter, parse_filter};

#[derive(Debug)]
pub struct Path {
    steps: Vec<Step>,
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
    Length,
}

/// Most places that a path may meet.
const FOUND_MAX: usize = 1_000_000;

impl Path {
    /// A text without `$` in front is a path below it.
    pub fn new(text: &str) -> Result<Path, String> {
        let text = text.trim();
        let rest = text.strip_prefix(['$', '@']);
        let mut parser = Parser {
            rest: rest.unwrap_or(text),
            whole: text,
        };
        let mut steps = Vec::new();
        if rest.is_none() && !text.starts_with(['[', '.']) {
            parser.name(&mut steps)?;
        }
        while !parser.rest.is_empty() {
            parser.step(&mut steps)?;
        }
        Ok(Path { steps })
    }

    pub fn is_definite(&self) -> bool {
        self.steps.iter().all(|step| match step {
            Step::Names(names) => names.len() == 1,
            Step::Indexes(indexes) => indexes.len() == 1,
            Step::Length => true,
            Step::Slice(..) | Step::All | Step::Deep | Step::Filter(_) => false,
        })
    }

    /// What the path gives: a value, or for an indefinite path a list. `None`: a definite path that
    /// leads nowhere.
    pub fn read(&self, root: &Value) -> Result<Option<Value>, String> {
        let found = self.find(root, &self.steps)?;
        if self.is_definite() {
            return Ok(found.into_iter().next());
        }
        Ok(Some(Value::Object(Object::List(Shared::new(found)))))
    }

    /// The values at the places that the steps lead to.
    fn find(&self, root: &Value, steps: &[Step]) -> Result<Vec<Value>, String> {
        let mut found = vec![root.clone()];
        for step in steps {
            let mut next = Vec::new();
            for value in &found {
                step.follow(value, root, &mut next)?;
                if next.len() > FOUND_MAX {
                    return Err(format!("the JSON path meets more than {FOUND_MAX} places"));
                }
            }
            found = next;
        }
        Ok(found)
    }

    /// Puts a member into each object that the path meets. Returns whether there was one.
    pub fn put(&self, root: &Value, key: &str, value: &Value) -> Result<(), String> {
        for place in self.find(root, &self.steps)? {
            if let Value::Object(Object::Map(map)) = place {
                set_member(&mut map.lock(), key, value);
            }
        }
        Ok(())
    }

    /// Appends to each list that the path meets.
    pub fn add(&self, root: &Value, value: &Value) -> Result<(), String> {
        for place in self.find(root, &self.steps)? {
            if let Value::Object(Object::List(list)) = place {
                list.lock().push(value.clone());
            }
        }
        Ok(())
    }

    /// Replaces what the path meets; what is not there is not made. The root itself is replaced by
    /// returning another.
    pub fn set(&self, root: Value, value: &Value) -> Result<Value, String> {
        let Some((last, steps)) = self.steps.split_last() else {
            return Ok(value.clone());
        };
        for place in self.find(&root, steps)? {
            last.replace(&place, &root, value)?;
        }
        Ok(root)
    }
}

fn set_member(entries: &mut Vec<(Value, Value)>, key: &str, value: &Value) {
    match entries.iter_mut().find(|(k, _)| k.as_str() == Some(key)) {
        Some((_, old)) => *old = value.clone(),
        None => entries.push((Value::str(key), value.clone())),
    }
}

/// A place in a list, counted from the end where it is negative.
fn place(index: i64, len: usize) -> Option<usize> {
    let index = if index < 0 { index + len as i64 } else { index };
    usize::try_from(index).ok().filter(|&i| i < len)
}

impl Step {
    fn follow(&self, value: &Value, root: &Value, next: &mut Vec<Value>) -> Result<(), String> {
        match (self, value) {
            (Step::Names(names), Value::Object(Object::Map(map))) => {
                let map = map.lock();
                let get = |name: &String| map.iter().find(|(k, _)| k.as_str() == Some(name));
                if let [name] = names.as_slice() {
                    next.extend(get(name).map(|(_, v)| v.clone()));
                } else {
                    let picked: Vec<_> = names.iter().filter_map(get).cloned().collect();
                    next.push(Value::Object(Object::Map(Shared::new(picked))));
                }
            }
            (Step::Indexes(indexes), Value::Object(Object::List(list))) => {
                let list = list.lock();
                let places = indexes.iter().filter_map(|&i| place(i, list.len()));
                next.extend(places.map(|i| list[i].clone()));
            }
            (Step::Slice(from, to), Value::Object(Object::List(list))) => {
                let list = list.lock();
                let len = list.len() as i64;
                let bound = |i: i64| if i < 0 { i + len } else { i }.clamp(0, len) as usize;
                let (from, to) = (bound(from.unwrap_or(0)), bound(to.unwrap_or(len)));
                next.extend(list.get(from..to).unwrap_or(&[]).iter().cloned());
            }
            (Step::All, Value::Object(Object::Map(map))) => {
                next.extend(map.lock().iter().map(|(_, v)| v.clone()));
            }
            (Step::All, Value::Object(Object::List(list))) => {
                next.extend(list.lock().iter().cloned());
            }
            (Step::Deep, _) => descend(value, next),
            (Step::Filter(filter), Value::Object(Object::List(list))) => {
                for element in list.lock().clone() {
                    if filter.accepts(&element, root)? {
                        next.push(element);
                    }
                }
            }
            (Step::Filter(filter), Value::Object(Object::Map(_)))
                if filter.accepts(value, root)? =>
            {
                next.push(value.clone());
            }
            (Step::Length, Value::Object(Object::List(list))) => {
                next.push(Value::Int(list.lock().len() as i32));
            }
            (Step::Length, Value::Object(Object::Map(map))) => {
                next.push(Value::Int(map.lock().len() as i32));
            }
            _ => {}
        }
        Ok(())
    }

    /// Replaces what this step, the last of a path, meets in `value`.
    fn replace(&self, value: &Value, root: &Value, new: &Value) -> Result<(), String> {
        match (self, value) {
            (Step::Names(names), Value::Object(Object::Map(map))) => {
                for (key, old) in map.lock().iter_mut() {
                    if names.iter().any(|name| key.as_str() == Some(name)) {
                        *old = new.clone();
                    }
                }
            }
            (Step::Indexes(indexes), Value::Object(Object::List(list))) => {
                let mut list = list.lock();
                let len = list.len();
                for index in indexes.iter().filter_map(|&i| place(i, len)) {
                    list[index] = new.clone();
                }
            }
            (Step::All, Value::Object(Object::Map(map))) => {
                map.lock().iter_mut().for_each(|(_, v)| *v = new.clone());
            }
            (Step::All, Value::Object(Object::List(list))) => list.lock().fill(new.clone()),
            (Step::Filter(filter), Value::Object(Object::List(list))) => {
                let elements = list.lock().clone();
                for (i, element) in elements.iter().enumerate() {
                    if filter.accepts(element, root)? {
                        list.lock()[i] = new.clone();
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// A place and all places below it, from the top down. The depth is that of the parser's limit.
fn descend(value: &Value, next: &mut Vec<Value>) {
    next.push(value.clone());
    match value {
        Value::Object(Object::Map(map)) => {
            map.lock().iter().for_each(|(_, v)| descend(v, next));
        }
        Value::Object(Object::List(list)) => list.lock().iter().for_each(|v| descend(v, next)),
        _ => {}
    }
}

struct Parser<'a> {
    rest: &'a str,
    whole: &'a str,
}

impl Parser<'_> {
    fn wrong(&self) -> String {
        format!("'{}' is no JSON path", self.whole)
    }

    fn step(&mut self, steps: &mut Vec<Step>) -> Result<(), String> {
        if let Some(rest) = self.rest.strip_prefix("..") {
            self.rest = rest;
            steps.push(Step::Deep);
            if !rest.starts_with('[') {
                self.name(steps)?;
            }
            return Ok(());
        }
        if let Some(rest) = self.rest.strip_prefix('.') {
            self.rest = rest;
            if rest.starts_with('[') {
                return Ok(());
            }
            return self.name(steps);
        }
        if self.rest.starts_with('[') {
            return self.bracket(steps);
        }
        Err(self.wrong())
    }

    fn name(&mut self, steps: &mut Vec<Step>) -> Result<(), String> {
        let length = self.rest.find(['.', '[']).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(length);
        if name.is_empty() {
            return Err(self.wrong());
        }
        self.rest = rest;
        steps.push(match name {
            "*" => Step::All,
            "length()" | "size()" => Step::Length,
            name if name.ends_with("()") => {
                return Err(format!("the JSON path function '{name}' is not known"));
            }
            name => Step::Names(vec![name.to_owned()]),
        });
        Ok(())
    }

    fn bracket(&mut self, steps: &mut Vec<Step>) -> Result<(), String> {
        let inner = &self.rest[1..];
        if inner.trim_start().starts_with('?') {
            let (filter, rest) = parse_filter(inner, self.whole)?;
            steps.push(Step::Filter(filter));
            self.rest = rest;
            return Ok(());
        }
        let end = closing_bracket(inner).ok_or_else(|| self.wrong())?;
        let content = inner[..end].trim();
        self.rest = &inner[end + 1..];
        if content == "*" {
            steps.push(Step::All);
        } else if content.starts_with(['\'', '"']) {
            steps.push(Step::Names(
                quoted_names(content).ok_or_else(|| self.wrong())?,
            ));
        } else if let Some((from, to)) = content.split_once(':') {
            let bound = |text: &str| match text.trim() {
                "" => Ok(None),
                text => text.parse().map(Some).map_err(|_| self.wrong()),
            };
            steps.push(Step::Slice(bound(from)?, bound(to)?));
        } else {
            let indexes = content.split(',').map(|i| i.trim().parse());
            let indexes: Result<Vec<i64>, _> = indexes.collect();
            steps.push(Step::Indexes(indexes.map_err(|_| self.wrong())?));
        }
        Ok(())
    }
}

/// Where the bracket closes, outside of quotes.
fn closing_bracket(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, ']') => return Some(at),
            (None, '\'' | '"') => quote = Some(c),
            (Some(q), c) if q == c => quote = None,
            _ => {}
        }
    }
    None
}

/// `'a','b'`.
fn quoted_names(content: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut rest = content;
    loop {
        let quote = rest.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
        let end = rest[1..].find(quote)? + 1;
        names.push(rest[1..end].to_owned());
        rest = rest[end + 1..].trim_start();
        if rest.is_empty() {
            return Some(names);
        }
        rest = rest.strip_prefix(',')?.trim_start();
    }
}
