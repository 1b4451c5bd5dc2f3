//! A payload is compared with the nodes of a schema.

use std::collections::HashSet;
use std::fmt::Write as _;

use serde_json::Value as Json;

use super::compile::{Dependency, ListRules, Node, NumberRules, ObjectRules, TextRules};
use super::number::{Decimal, canonical};

/// Comparisons of a value with a node, of one payload. Alternatives within alternatives could take for ever.
const STEPS_MAX: u32 = 10_000_000;

/// Comparisons within one another. A schema may refer to itself without going on in the payload.
const DEPTH_MAX: u32 = 512;

/// Characters of a name that are shown.
const NAME_MAX: usize = 64;

/// Names that are shown.
const NAMES_MAX: usize = 20;

/// What is wrong with a payload, and where.
pub(super) fn fault_of(nodes: &[Node], payload: &Json) -> Option<String> {
    let mut judge = Judge {
        nodes,
        steps: 0,
        depth: 0,
        is_spent: None,
    };
    let fault = judge.value(0, payload, &Place::Root).err();
    match judge.is_spent {
        Some(cause) => Some(cause.to_owned()),
        None => fault.map(|fault| fault.0),
    }
}

/// In words. Where alternatives are tried nobody reads it, so it is made as late as can be.
struct Fault(String);

type Judged = Result<(), Fault>;

enum Place<'a> {
    Root,
    Member(&'a Place<'a>, &'a str),
    Element(&'a Place<'a>, usize),
}

impl Place<'_> {
    fn write(&self, out: &mut String) {
        match self {
            Place::Root => {}
            Place::Member(above, name) => {
                above.write(out);
                out.push('/');
                out.push_str(&shown(name).replace('~', "~0").replace('/', "~1"));
            }
            Place::Element(above, at) => {
                above.write(out);
                // Writing into a text cannot fail.
                write!(out, "/{at}").ok();
            }
        }
    }

    fn fault(&self, cause: impl AsRef<str>) -> Fault {
        let mut at = String::new();
        self.write(&mut at);
        Fault(match at.is_empty() {
            true => format!("it {}", cause.as_ref()),
            false => format!("'{at}' {}", cause.as_ref()),
        })
    }
}

fn shown(name: &str) -> String {
    let is_long = name.chars().nth(NAME_MAX).is_some();
    let shown: String = name
        .chars()
        .filter(|c| !c.is_control())
        .take(NAME_MAX)
        .collect();
    match is_long {
        true => shown + "…",
        false => shown,
    }
}

fn type_of(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}

struct Judge<'n> {
    nodes: &'n [Node],
    steps: u32,
    depth: u32,
    /// Why no more is looked at: then nothing fits, whatever it is.
    is_spent: Option<&'static str>,
}

impl<'n> Judge<'n> {
    fn value(&mut self, node: usize, value: &Json, place: &Place<'_>) -> Judged {
        self.steps += 1;
        if self.steps > STEPS_MAX || self.depth >= DEPTH_MAX {
            self.is_spent = Some("takes more work than its schema is allowed to make");
        }
        if self.is_spent.is_some() {
            return Err(Fault(String::new()));
        }
        self.depth += 1;
        let judged = self.by(&self.nodes[node], value, place);
        self.depth -= 1;
        judged
    }

    fn fits(&mut self, node: usize, value: &Json, place: &Place<'_>) -> bool {
        self.value(node, value, place).is_ok()
    }

    fn by(&mut self, node: &'n Node, value: &Json, place: &Place<'_>) -> Judged {
        if node.is_never {
            return Err(place.fault("is not allowed"));
        }
        if let Some(number) = node.reference {
            return self.value(number, value, place);
        }
        if let Some(types) = node.types {
            let is_whole = || Decimal::of(value).is_some_and(Decimal::is_whole);
            let is_one = types.has(type_of(value)) || types.has("integer") && is_whole();
            if !is_one {
                let wanted = types.names().join(" or ");
                return Err(place.fault(format!("is of type {}, not {wanted}", type_of(value))));
            }
        }
        if let Some(values) = &node.one_of_values
            && !values.contains(&canonical(value))
        {
            return Err(place.fault("is none of the values that are allowed"));
        }
        match value {
            Json::Number(_) => {
                if let (Some(rules), Some(number)) = (&node.number, Decimal::of(value)) {
                    number_fits(rules, number, place)?;
                }
            }
            Json::String(text) => {
                if let Some(rules) = &node.text {
                    text_fits(rules, text, place)?;
                }
            }
            Json::Array(items) => {
                if let Some(rules) = &node.list {
                    self.list(rules, items, place)?;
                }
            }
            Json::Object(members) => {
                if let Some(rules) = &node.object {
                    self.object(rules, members, place)?;
                }
            }
            Json::Null | Json::Bool(_) => {}
        }
        self.together(node, value, place)
    }

    /// What is made of other schemas.
    fn together(&mut self, node: &Node, value: &Json, place: &Place<'_>) -> Judged {
        for number in &node.all_of {
            self.value(*number, value, place)?;
        }
        if let [only] = node.any_of.as_slice() {
            self.value(*only, value, place)?;
        } else if !node.any_of.is_empty() {
            let mut all = node.any_of.iter();
            if !all.any(|number| self.fits(*number, value, place)) {
                let count = node.any_of.len();
                return Err(place.fault(format!("fits none of the {count} schemas of 'anyOf'")));
            }
        }
        if let [only] = node.one_of.as_slice() {
            self.value(*only, value, place)?;
        } else if !node.one_of.is_empty() {
            let mut fitting = 0;
            for number in &node.one_of {
                fitting += usize::from(self.fits(*number, value, place));
            }
            if fitting != 1 {
                let count = node.one_of.len();
                let how = if fitting == 0 {
                    "none"
                } else {
                    "more than one"
                };
                return Err(place.fault(format!("fits {how} of the {count} schemas of 'oneOf'")));
            }
        }
        if let Some(number) = node.not
            && self.fits(number, value, place)
        {
            return Err(place.fault("fits the schema of 'not'"));
        }
        if let Some((condition, then, otherwise)) = node.choice {
            let branch = match self.fits(condition, value, place) {
                true => then,
                false => otherwise,
            };
            if let Some(number) = branch {
                self.value(number, value, place)?;
            }
        }
        Ok(())
    }

    fn list(&mut self, rules: &ListRules, items: &[Json], place: &Place<'_>) -> Judged {
        bounded(
            (rules.length_min, rules.length_max),
            items.len(),
            "elements",
            place,
        )?;
        for (at, item) in items.iter().enumerate() {
            if let Some(number) = rules.first.get(at).copied().or(rules.others) {
                self.value(number, item, &Place::Element(place, at))?;
            }
        }
        if let Some(number) = rules.contains {
            let mut all = items.iter().enumerate();
            if !all.any(|(at, item)| self.fits(number, item, &Place::Element(place, at))) {
                return Err(place.fault("has no element that fits 'contains'"));
            }
        }
        if rules.is_unique {
            let mut seen = HashSet::new();
            if !items.iter().all(|item| seen.insert(canonical(item))) {
                return Err(place.fault("has an element twice"));
            }
        }
        Ok(())
    }

    fn object(
        &mut self,
        rules: &ObjectRules,
        members: &serde_json::Map<String, Json>,
        place: &Place<'_>,
    ) -> Judged {
        let missing: Vec<&str> = rules
            .required
            .iter()
            .map(String::as_str)
            .filter(|name| !members.contains_key(*name))
            .take(NAMES_MAX)
            .collect();
        if !missing.is_empty() {
            return Err(place.fault(format!("has no '{}'", missing.join("', '"))));
        }
        bounded(
            (rules.count_min, rules.count_max),
            members.len(),
            "members",
            place,
        )?;
        for (name, value) in members {
            let at = Place::Member(place, name);
            if let Some(number) = rules.names {
                let text = Json::from(name.as_str());
                if !self.fits(number, &text, place) {
                    return Err(
                        place.fault(format!("has a member with a wrong name: '{}'", shown(name)))
                    );
                }
            }
            let mut is_known = false;
            if let Some(number) = rules.properties.get(name) {
                is_known = true;
                self.value(*number, value, &at)?;
            }
            for (pattern, number) in &rules.patterns {
                if pattern.is_match(name) {
                    is_known = true;
                    self.value(*number, value, &at)?;
                }
            }
            if let Some(number) = rules.others.filter(|_| !is_known) {
                if self.nodes[number].is_never {
                    return Err(place.fault(format!("may not have '{}'", shown(name))));
                }
                self.value(number, value, &at)?;
            }
        }
        for (name, dependency) in &rules.dependencies {
            if !members.contains_key(name) {
                continue;
            }
            match dependency {
                Dependency::Needs(needed) => {
                    let mut needed = needed.iter();
                    if let Some(missing) = needed.find(|one| !members.contains_key(*one)) {
                        return Err(place.fault(format!("has '{name}', and so needs '{missing}'")));
                    }
                }
                Dependency::Fits(number) => {
                    let whole = Json::Object(members.clone());
                    self.value(*number, &whole, place)?;
                }
            }
        }
        Ok(())
    }
}

fn bounded(
    (min, max): (Option<u64>, Option<u64>),
    count: usize,
    of: &str,
    place: &Place<'_>,
) -> Judged {
    let count = count as u64;
    if let Some(min) = min.filter(|min| count < *min) {
        return Err(place.fault(format!("has {count} {of}, fewer than {min}")));
    }
    if let Some(max) = max.filter(|max| count > *max) {
        return Err(place.fault(format!("has {count} {of}, more than {max}")));
    }
    Ok(())
}

fn number_fits(rules: &NumberRules, number: Decimal, place: &Place<'_>) -> Judged {
    let fault = |cause: &str| Err(place.fault(cause));
    if rules.maximum.is_some_and(|max| number > max) {
        return fault("is above the maximum");
    }
    if rules.above_maximum.is_some_and(|max| number >= max) {
        return fault("is not below the exclusive maximum");
    }
    if rules.minimum.is_some_and(|min| number < min) {
        return fault("is below the minimum");
    }
    if rules.below_minimum.is_some_and(|min| number <= min) {
        return fault("is not above the exclusive minimum");
    }
    if rules
        .multiple_of
        .is_some_and(|of| !number.is_multiple_of(of))
    {
        return fault("is no multiple of what 'multipleOf' says");
    }
    Ok(())
}

fn text_fits(rules: &TextRules, text: &str, place: &Place<'_>) -> Judged {
    if rules.length_min.is_some() || rules.length_max.is_some() {
        let length = text.chars().count();
        bounded(
            (rules.length_min, rules.length_max),
            length,
            "characters",
            place,
        )?;
    }
    if let Some(pattern) = &rules.pattern
        && !pattern.is_match(text)
    {
        return Err(place.fault("does not fit the pattern"));
    }
    if let Some(format) = rules.format
        && !format.fits(text)
    {
        return Err(place.fault(format!("is no {}", format.name())));
    }
    Ok(())
}
