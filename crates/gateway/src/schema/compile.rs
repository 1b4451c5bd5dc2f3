//! A schema becomes nodes that know each other by their numbers.

use std::collections::{HashMap, HashSet};

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value as Json};

use super::format::Format;
use super::number::{Decimal, canonical};

/// Where shared schemas stand.
const SHARED: &str = "#/components/schemas/";

/// Schemas within one another, each counted once.
const NODES_MAX: usize = 100_000;

/// Bytes of a compiled pattern.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// What is wrong with a schema.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Defect {
    /// A JSON pointer into the schema.
    pub place: String,
    pub cause: String,
    /// The text of a reference that cannot be followed.
    pub reference: Option<String>,
}

fn defect(place: &str, cause: impl Into<String>) -> Defect {
    Defect {
        place: place.to_owned(),
        cause: cause.into(),
        reference: None,
    }
}

/// What a schema asks for; what it does not name it does not ask for.
#[derive(Default, Debug)]
pub(super) struct Node {
    /// It is `false`.
    pub is_never: bool,
    /// It is only a reference.
    pub reference: Option<usize>,
    pub types: Option<Types>,
    /// The texts of `enum` and `const`, see [`canonical`].
    pub one_of_values: Option<HashSet<String>>,
    pub number: Option<Box<NumberRules>>,
    pub text: Option<Box<TextRules>>,
    pub list: Option<Box<ListRules>>,
    pub object: Option<Box<ObjectRules>>,
    pub all_of: Vec<usize>,
    pub any_of: Vec<usize>,
    pub one_of: Vec<usize>,
    pub not: Option<usize>,
    /// `if`, `then`, `else`.
    pub choice: Option<(usize, Option<usize>, Option<usize>)>,
}

#[derive(Default, Debug)]
pub(super) struct NumberRules {
    pub multiple_of: Option<Decimal>,
    pub maximum: Option<Decimal>,
    pub above_maximum: Option<Decimal>,
    pub minimum: Option<Decimal>,
    pub below_minimum: Option<Decimal>,
}

#[derive(Default, Debug)]
pub(super) struct TextRules {
    pub length_max: Option<u64>,
    pub length_min: Option<u64>,
    pub pattern: Option<Regex>,
    pub format: Option<Format>,
}

#[derive(Default, Debug)]
pub(super) struct ListRules {
    /// Of the first elements.
    pub first: Vec<usize>,
    /// Of the others.
    pub others: Option<usize>,
    pub contains: Option<usize>,
    pub length_max: Option<u64>,
    pub length_min: Option<u64>,
    pub is_unique: bool,
}

#[derive(Default, Debug)]
pub(super) struct ObjectRules {
    pub required: Vec<String>,
    pub properties: HashMap<String, usize>,
    pub patterns: Vec<(Regex, usize)>,
    pub others: Option<usize>,
    pub names: Option<usize>,
    pub count_max: Option<u64>,
    pub count_min: Option<u64>,
    pub dependencies: Vec<(String, Dependency)>,
}

#[derive(Debug)]
pub(super) enum Dependency {
    Needs(Vec<String>),
    Fits(usize),
}

/// A set of types.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Types(pub u8);

impl Types {
    pub const NAMES: [&'static str; 7] = [
        "null", "boolean", "object", "array", "number", "string", "integer",
    ];

    fn parse(name: &str) -> Option<Types> {
        let at = Types::NAMES.iter().position(|own| *own == name)?;
        Some(Types(1 << at))
    }

    pub fn has(self, name: &str) -> bool {
        Types::parse(name).is_some_and(|types| self.0 & types.0 != 0)
    }

    pub fn names(self) -> Vec<&'static str> {
        let all = Types::NAMES.iter().copied();
        all.filter(|name| self.has(name)).collect()
    }
}

/// The nodes of a schema; the first is that of the whole.
pub(super) fn compile(json: &Json, shared: &Map<String, Json>) -> Result<Vec<Node>, Defect> {
    let mut compiler = Compiler {
        root: json,
        shared,
        nodes: Vec::new(),
        by_place: HashMap::new(),
        waiting: Vec::new(),
    };
    compiler.number_of("#")?;
    // A list and no recursion: references may make a chain as long as the document.
    while let Some((number, place, schema)) = compiler.waiting.pop() {
        let node = compiler.node(&place, schema)?;
        compiler.nodes[number] = node;
    }
    Ok(compiler.nodes)
}

struct Compiler<'s> {
    root: &'s Json,
    shared: &'s Map<String, Json>,
    nodes: Vec<Node>,
    by_place: HashMap<String, usize>,
    /// Those that have a number and are not yet compiled.
    waiting: Vec<(usize, String, &'s Json)>,
}

/// One part of a JSON pointer, decoded.
fn decoded(part: &str) -> String {
    let part = connect::url::decode(&part.replace('+', "%2B"));
    part.replace("~1", "/").replace("~0", "~")
}

/// One part of a JSON pointer.
fn encoded(name: &str) -> String {
    name.replace('%', "%25")
        .replace('~', "~0")
        .replace('/', "~1")
}

fn pointed<'j>(mut at: &'j Json, pointer: &str) -> Option<&'j Json> {
    for part in pointer.split('/').skip(1) {
        let name = decoded(part);
        at = match at {
            Json::Array(items) => items.get(name.parse::<usize>().ok()?)?,
            other => other.get(&name)?,
        };
    }
    Some(at)
}

impl<'s> Compiler<'s> {
    /// The schema at a place, `#/components/schemas/…` being one that is shared.
    fn schema_at(&self, place: &str) -> Option<&'s Json> {
        match place.strip_prefix(SHARED) {
            Some(rest) => {
                let (name, below) = match rest.find('/') {
                    Some(at) => rest.split_at(at),
                    None => (rest, ""),
                };
                pointed(self.shared.get(&decoded(name))?, below)
            }
            None => pointed(self.root, place.strip_prefix('#')?),
        }
    }

    fn number_of(&mut self, place: &str) -> Result<usize, Defect> {
        let Some(schema) = self.schema_at(place) else {
            return Err(Defect {
                reference: Some(place.to_owned()),
                ..defect(place, format!("the reference '{place}' leads nowhere"))
            });
        };
        self.number(place, schema)
    }

    fn number(&mut self, place: &str, schema: &'s Json) -> Result<usize, Defect> {
        if let Some(number) = self.by_place.get(place) {
            return Ok(*number);
        }
        let number = self.nodes.len();
        if number >= NODES_MAX {
            return Err(defect(place, format!("it has more than {NODES_MAX} parts")));
        }
        self.nodes.push(Node::default());
        self.by_place.insert(place.to_owned(), number);
        self.waiting.push((number, place.to_owned(), schema));
        Ok(number)
    }

    fn below(&mut self, place: &str, key: &str, schema: &'s Json) -> Result<usize, Defect> {
        self.number(&format!("{place}/{}", encoded(key)), schema)
    }

    fn list(&mut self, place: &str, key: &str, value: &'s Json) -> Result<Vec<usize>, Defect> {
        let items = value.as_array().filter(|items| !items.is_empty());
        let items = items.ok_or_else(|| defect(place, format!("'{key}' is no list of schemas")))?;
        let place = format!("{place}/{key}");
        let numbers = items.iter().enumerate();
        numbers
            .map(|(at, schema)| self.below(&place, &at.to_string(), schema))
            .collect()
    }

    fn node(&mut self, place: &str, schema: &'s Json) -> Result<Node, Defect> {
        let mut node = Node::default();
        let members = match schema {
            Json::Bool(is_anything) => {
                node.is_never = !is_anything;
                return Ok(node);
            }
            Json::Object(members) => members,
            _ => return Err(defect(place, "it is neither an object nor true or false")),
        };
        if let Some(reference) = members.get("$ref").and_then(Json::as_str) {
            // What stands beside it does not count (draft 07, 8.3).
            node.reference = Some(self.number_of(reference)?);
            return Ok(node);
        }
        for (key, value) in members {
            self.keyword(&mut node, place, (key, value))?;
        }
        if let Some(list) = &mut node.list
            && !members.contains_key("items")
        {
            // `additionalItems` says nothing by itself.
            list.others = None;
        }
        if let Some(condition) = members.get("if") {
            let condition = self.below(place, "if", condition)?;
            let mut branch = |key: &str| {
                let schema = members.get(key);
                schema
                    .map(|schema| self.below(place, key, schema))
                    .transpose()
            };
            node.choice = Some((condition, branch("then")?, branch("else")?));
        }
        Ok(node)
    }

    fn keyword(
        &mut self,
        node: &mut Node,
        place: &str,
        (key, value): (&'s str, &'s Json),
    ) -> Result<(), Defect> {
        let wrong = |wanted: &str| defect(place, format!("'{key}' is not {wanted}"));
        let count = || {
            // Written as 2.0 it is a whole number as well.
            let whole = value.as_f64().filter(|n| n.fract() == 0.0 && *n >= 0.0);
            value
                .as_u64()
                .or(whole.map(|n| n as u64))
                .ok_or_else(|| wrong("a number of things"))
        };
        let decimal = || Decimal::of(value).ok_or_else(|| wrong("a number"));
        let names = || {
            let items = value.as_array().ok_or_else(|| wrong("a list of names"))?;
            let items = items.iter().map(|item| item.as_str().map(str::to_owned));
            items
                .collect::<Option<Vec<String>>>()
                .ok_or_else(|| wrong("a list of names"))
        };
        let map = || value.as_object().ok_or_else(|| wrong("an object"));
        match key {
            "type" => {
                let of = |name: &Json| name.as_str().and_then(Types::parse);
                let types = match value {
                    Json::Array(names) => names.iter().map(of).collect::<Option<Vec<Types>>>(),
                    name => of(name).map(|types| vec![types]),
                };
                let types = types
                    .ok_or_else(|| wrong(&format!("one or some of {}", Types::NAMES.join(", "))))?;
                node.types = Some(Types(types.iter().fold(0, |all, one| all | one.0)));
            }
            "enum" => {
                let values = value.as_array().ok_or_else(|| wrong("a list"))?;
                node.one_of_values = Some(values.iter().map(canonical).collect());
            }
            "const" => node.one_of_values = Some(HashSet::from([canonical(value)])),
            "multipleOf" => {
                let of = decimal()?;
                if !of.is_positive() {
                    return Err(wrong("above 0"));
                }
                node.number.get_or_insert_default().multiple_of = Some(of);
            }
            "maximum" => node.number.get_or_insert_default().maximum = Some(decimal()?),
            "minimum" => node.number.get_or_insert_default().minimum = Some(decimal()?),
            "exclusiveMaximum" => {
                node.number.get_or_insert_default().above_maximum = Some(decimal()?);
            }
            "exclusiveMinimum" => {
                node.number.get_or_insert_default().below_minimum = Some(decimal()?);
            }
            "maxLength" => node.text.get_or_insert_default().length_max = Some(count()?),
            "minLength" => node.text.get_or_insert_default().length_min = Some(count()?),
            "pattern" => {
                let text = value.as_str().ok_or_else(|| wrong("a pattern"))?;
                node.text.get_or_insert_default().pattern = Some(pattern(place, text)?);
            }
            "format" => {
                let format = value.as_str().and_then(Format::parse);
                node.text.get_or_insert_default().format = format;
            }
            "items" => {
                let list = node.list.get_or_insert_default();
                match value {
                    Json::Array(items) => {
                        let place = format!("{place}/items");
                        let numbers = items.iter().enumerate();
                        let numbers =
                            numbers.map(|(at, schema)| self.below(&place, &at.to_string(), schema));
                        list.first = numbers.collect::<Result<_, _>>()?;
                    }
                    schema => list.others = Some(self.below(place, key, schema)?),
                }
            }
            "additionalItems" => {
                let number = self.below(place, key, value)?;
                node.list
                    .get_or_insert_default()
                    .others
                    .get_or_insert(number);
            }
            "contains" => {
                let number = self.below(place, key, value)?;
                node.list.get_or_insert_default().contains = Some(number);
            }
            "maxItems" => node.list.get_or_insert_default().length_max = Some(count()?),
            "minItems" => node.list.get_or_insert_default().length_min = Some(count()?),
            "uniqueItems" => {
                let is_unique = value.as_bool().ok_or_else(|| wrong("true or false"))?;
                node.list.get_or_insert_default().is_unique = is_unique;
            }
            "required" => node.object.get_or_insert_default().required = names()?,
            "maxProperties" => node.object.get_or_insert_default().count_max = Some(count()?),
            "minProperties" => node.object.get_or_insert_default().count_min = Some(count()?),
            "properties" => {
                let place = format!("{place}/properties");
                for (name, schema) in map()? {
                    let number = self.below(&place, name, schema)?;
                    let properties = &mut node.object.get_or_insert_default().properties;
                    properties.insert(name.clone(), number);
                }
            }
            "patternProperties" => {
                let place = format!("{place}/patternProperties");
                for (text, schema) in map()? {
                    let number = self.below(&place, text, schema)?;
                    let patterns = &mut node.object.get_or_insert_default().patterns;
                    patterns.push((pattern(&place, text)?, number));
                }
            }
            "additionalProperties" => {
                let number = self.below(place, key, value)?;
                node.object.get_or_insert_default().others = Some(number);
            }
            "propertyNames" => {
                let number = self.below(place, key, value)?;
                node.object.get_or_insert_default().names = Some(number);
            }
            "dependencies" => {
                let place = format!("{place}/dependencies");
                for (name, needed) in map()? {
                    let dependency = match needed {
                        Json::Array(names) => {
                            let names = names.iter().map(|name| name.as_str().map(str::to_owned));
                            let names = names.collect::<Option<Vec<String>>>();
                            Dependency::Needs(names.ok_or_else(|| wrong("names of members"))?)
                        }
                        schema => Dependency::Fits(self.below(&place, name, schema)?),
                    };
                    let dependencies = &mut node.object.get_or_insert_default().dependencies;
                    dependencies.push((name.clone(), dependency));
                }
            }
            "allOf" => node.all_of = self.list(place, key, value)?,
            "anyOf" => node.any_of = self.list(place, key, value)?,
            "oneOf" => node.one_of = self.list(place, key, value)?,
            "not" => node.not = Some(self.below(place, key, value)?),
            _ => {}
        }
        Ok(())
    }
}

/// A pattern of ECMA 262, as far as it takes linear time: no look-around, no back-reference.
fn pattern(place: &str, text: &str) -> Result<Regex, Defect> {
    // There these stand for ASCII alone; here for all of Unicode.
    let ascii = text
        .replace("\\d", "[0-9]")
        .replace("\\D", "[^0-9]")
        .replace("\\w", "[0-9A-Za-z_]")
        .replace("\\W", "[^0-9A-Za-z_]")
        .replace("\\/", "/");
    let built = |text: &str| {
        let mut builder = RegexBuilder::new(text);
        builder.size_limit(PATTERN_BYTES_MAX).build()
    };
    built(&ascii).map_err(|error| {
        let cause = match error {
            regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
            other => {
                let text = other.to_string();
                text.lines()
                    .last()
                    .unwrap_or_default()
                    .trim_start_matches("error: ")
                    .to_owned()
            }
        };
        defect(
            place,
            format!("the pattern '{text}' cannot be used: {cause}"),
        )
    })
}

/// A schema of a document with all that it refers to: each schema that is referred to becomes one of `shared`, and the
/// references are to these.
///
/// # Errors
/// A reference leads nowhere or out of the document.
pub(crate) fn bundle(
    document: &Json,
    schema: &Json,
    shared: &mut Map<String, Json>,
    names: &mut HashMap<String, String>,
) -> Result<Json, Defect> {
    let mut own = schema.clone();
    let mut found = Vec::new();
    rewrite(&mut own, shared, names, &mut found)?;
    while let Some((pointer, name)) = found.pop() {
        let target = pointed(document, &pointer[1..]).ok_or_else(|| Defect {
            reference: Some(pointer.clone()),
            ..defect(&pointer, format!("the reference '{pointer}' leads nowhere"))
        })?;
        let mut target = target.clone();
        rewrite(&mut target, shared, names, &mut found)?;
        shared.insert(name, target);
    }
    Ok(own)
}

/// Has the references of a schema lead to shared ones, and names those that are not there yet.
fn rewrite(
    schema: &mut Json,
    shared: &mut Map<String, Json>,
    names: &mut HashMap<String, String>,
    found: &mut Vec<(String, String)>,
) -> Result<(), Defect> {
    let Json::Object(members) = schema else {
        return Ok(());
    };
    if let Some(Json::String(reference)) = members.get_mut("$ref") {
        if !reference.starts_with('#') {
            return Err(Defect {
                reference: Some(reference.clone()),
                ..defect(
                    reference,
                    format!("the reference '{reference}' leads out of the document"),
                )
            });
        }
        let name = match names.get(reference.as_str()) {
            Some(name) => name.clone(),
            None => {
                let name = name_for(reference, shared);
                names.insert(reference.clone(), name.clone());
                shared.insert(name.clone(), Json::Null);
                found.push((reference.clone(), name.clone()));
                name
            }
        };
        *reference = format!("{SHARED}{}", encoded(&name));
        return Ok(());
    }
    // They would change what references mean.
    for key in ["$id", "$schema"] {
        if members.get(key).is_some_and(Json::is_string) {
            members.shift_remove(key);
        }
    }
    for (key, value) in members.iter_mut() {
        match (key.as_str(), value) {
            (
                "additionalItems"
                | "additionalProperties"
                | "contains"
                | "else"
                | "if"
                | "items"
                | "not"
                | "propertyNames"
                | "then",
                schema @ Json::Object(_),
            ) => rewrite(schema, shared, names, found)?,
            ("allOf" | "anyOf" | "oneOf" | "items", Json::Array(schemas)) => {
                for schema in schemas {
                    rewrite(schema, shared, names, found)?;
                }
            }
            (
                "definitions" | "dependencies" | "patternProperties" | "properties",
                Json::Object(schemas),
            ) => {
                for (_, schema) in schemas.iter_mut() {
                    rewrite(schema, shared, names, found)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The name of the shared schema that a reference is to: its own, where it is one, else the last part of the pointer.
fn name_for(reference: &str, shared: &Map<String, Json>) -> String {
    if let Some(name) = reference
        .strip_prefix(SHARED)
        .filter(|name| !name.contains('/'))
    {
        return decoded(name);
    }
    let last = decoded(reference.rsplit('/').next().unwrap_or_default());
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let plain: String = last.chars().filter(|c| is_plain(*c)).collect();
    // A slash is in no name of the document's own.
    let mut number = 1;
    loop {
        let name = format!("ref-{plain}-{number}");
        if !shared.contains_key(&name) {
            return name;
        }
        number += 1;
    }
}
