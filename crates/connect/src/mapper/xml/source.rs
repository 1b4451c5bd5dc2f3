//! XML to rows.

use std::borrow::Cow;
use std::collections::HashMap;

use event::{Object, Type, Value};

use super::project::Projector;
use super::stream::{Found, Stream};
use super::tree::Tree;
use super::xpath::{Item, Path, Prefixes, VISITS_MAX};
use crate::component::{Payload, SourceMapper, SourceMapperSetup};
use crate::error::Error;
use crate::mapper::{Field, Fields, Options};
use crate::rows::{Properties, Rows};
use crate::scalar;
use crate::scalar::trim;

/// Local names of the default envelope.
const EVENTS: &str = "events";
const EVENT: &str = "event";

/// The property by which a source says that a message is the last of its file.
const END_OF_FILE: &str = "eof";

pub(super) struct Source {
    reader: Reader,
    stream: Option<Stream>,
    projector: Option<Projector>,
}

/// What a document or an event of a stream becomes.
struct Reader {
    way: Way,
    enclosing: Option<Path>,
    /// The enclosing elements are the events, not their children.
    is_event: bool,
    is_leaf: bool,
    allows_null: bool,
}

enum Way {
    Default(Vec<Field>),
    /// A path that gives no elements or attributes (`count(a)`) leaves its attribute null, as in
    /// Siddhi's mapper.
    Custom(Vec<(Field, Option<Path>)>),
    /// Keys are absolute paths, compared as text.
    Leaf(Vec<Field>),
}

type Refusal = (Cow<'static, str>, &'static str);

const TOO_LARGE: &str = "the paths look at too much of the document";
const NARROWER: &str = "use narrower paths";

/// What the search in one document has found and cost so far.
struct Search {
    visits: usize,
    /// What absolute paths found, by index of the field: it is the same for all events.
    absolute: HashMap<usize, Option<Item>>,
}

impl Default for Search {
    fn default() -> Search {
        Search {
            visits: VISITS_MAX,
            absolute: HashMap::new(),
        }
    }
}

impl Search {
    /// The first item that the path of a field finds from an element.
    fn first(
        &mut self,
        field: usize,
        path: &Path,
        tree: &Tree<'_>,
        element: usize,
    ) -> Result<Option<Item>, Refusal> {
        if let Some(found) = self.absolute.get(&field) {
            return Ok(*found);
        }
        let found = path
            .find(tree, Item::Element(element), &mut self.visits)
            .map_err(|_| (Cow::from(TOO_LARGE), NARROWER))?
            .first()
            .copied();
        if path.is_absolute() {
            self.absolute.insert(field, found);
        }
        Ok(found)
    }
}

const MISSING: &str = "send all attributes, or allow null by fail.on.missing.attribute='false'";
const NO_XML: &str = "send well-formed XML";

impl Source {
    pub fn new(setup: &SourceMapperSetup<'_>) -> Result<Source, Error> {
        let options = Options::of_source(setup.mapping);
        let prefixes = prefixes(&options)?;
        let path = |text: &str| Path::new(text, &prefixes).map_err(|cause| options.refused(cause));
        let fields = Fields::of(setup.mapping, setup.schema);
        let is_leaf = options.bool("extract.leaf.node.data");
        let way = if fields.is_default {
            Way::Default(fields.list)
        } else if is_leaf {
            Way::Leaf(fields.list)
        } else {
            Way::Custom(
                fields
                    .list
                    .into_iter()
                    .map(|field| {
                        let path = Path::of_expression(&field.from, &prefixes)
                            .map_err(|cause| options.refused(cause))?;
                        Ok((field, path))
                    })
                    .collect::<Result<_, Error>>()?,
            )
        };
        let enclosing = options.text("enclosing.element").map(path).transpose()?;
        let allows_null = !options.bool("fail.on.missing.attribute");
        let segments = segments(&options, enclosing.as_ref())?;
        let projector = match (&segments, &way) {
            (Some(segments), Way::Custom(fields)) => segments
                .last()
                .and_then(|root| Projector::new(fields, root, allows_null)),
            _ => None,
        };
        Ok(Source {
            reader: Reader {
                way,
                enclosing,
                is_event: options.bool("enclosing.element.as.event")
                    || options.bool("enclosingElementAsEvent"),
                is_leaf,
                allows_null,
            },
            stream: segments.map(Stream::new),
            projector,
        })
    }

    fn map_text(&mut self, text: &str, is_last: bool, rows: &mut Rows) {
        let Some(stream) = &mut self.stream else {
            return self.reader.map_document(text, rows);
        };
        let text = trim(text);
        if !text.is_empty() {
            stream.push(text);
        }
        while let Some(found) = stream.next_found() {
            take(stream, found, &self.reader, self.projector.as_mut(), rows);
        }
        if is_last {
            self.finish(rows);
        } else {
            stream.compact();
        }
    }

    fn finish(&mut self, rows: &mut Rows) {
        if let Some(stream) = &mut self.stream {
            if let Some(found) = stream.finish() {
                take(stream, found, &self.reader, None, rows);
            }
            stream.compact();
        }
    }
}

/// The names from the root to the event, where streaming is asked for.
fn segments(options: &Options<'_>, path: Option<&Path>) -> Result<Option<Vec<String>>, Error> {
    if !options.bool("enable.streaming.xml.content") {
        return Ok(None);
    }
    let (Some(path), Some(text)) = (path, options.text("enclosing.element")) else {
        return Err(options.refused(
            "streaming needs option 'enclosing.element'; name the elements that are the events, \
             for instance '/osm/node'",
        ));
    };
    // Names are compared as they are written, prefixes included.
    let names: Vec<String> = text
        .trim()
        .split('/')
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    if names.is_empty() || path.step_count() != names.len() {
        return Err(options.refused(format!(
            "streaming reads a plain path of names from the root, not '{text}'; write it like \
             '/osm/node'"
        )));
    }
    Ok(Some(names))
}

/// `p=uri,q=uri`.
fn prefixes(options: &Options<'_>) -> Result<Prefixes, Error> {
    options
        .text("namespaces")
        .unwrap_or("")
        .split(',')
        .filter(|entry| !entry.trim().is_empty())
        .map(|entry| {
            entry
                .split_once('=')
                .map(|(prefix, uri)| (prefix.trim().to_owned(), uri.trim().to_owned()))
                .ok_or_else(|| {
                    options.refused(format!(
                        "option 'namespaces' has entry '{entry}'; write prefix=uri"
                    ))
                })
        })
        .collect()
}

fn take(
    stream: &Stream,
    found: Found,
    reader: &Reader,
    projector: Option<&mut Projector>,
    rows: &mut Rows,
) {
    match found {
        Found::Fault { range, what } => rows.reject_row(stream.text(range), what, NO_XML),
        Found::Event { range, is_plain } => {
            let text = stream.text(range);
            if let (true, Some(projector)) = (is_plain, projector) {
                if projector.push(text, stream.tag(), rows) {
                    return;
                }
                rows.abort_row();
            }
            reader.map_event(text, rows);
        }
    }
}

impl Reader {
    /// One event of a stream: a document of its own.
    fn map_event(&self, text: &str, rows: &mut Rows) {
        match Tree::fragment(text) {
            Ok(tree) if self.is_leaf => self.map_leaves(&tree, vec![0], rows),
            Ok(tree) => self.push_element(&tree, 0, &mut Search::default(), rows),
            Err(cause) => rows.reject_row(text, cause, NO_XML),
        }
    }

    fn map_document(&self, text: &str, rows: &mut Rows) {
        let tree = match Tree::new(text) {
            Ok(tree) => tree,
            Err(cause) => return rows.reject_message(Payload::Text(text), cause, NO_XML),
        };
        let mut search = Search::default();
        match self.events(&tree, &mut search) {
            Ok(elements) if self.is_leaf => self.map_leaves(&tree, elements, rows),
            Ok(elements) => {
                for element in elements {
                    self.push_element(&tree, element, &mut search, rows);
                }
            }
            Err((cause, remedy)) => rows.reject_message(Payload::Text(text), cause, remedy),
        }
    }

    /// The elements that are events.
    fn events(&self, tree: &Tree<'_>, search: &mut Search) -> Result<Vec<usize>, Refusal> {
        let root = &tree.elements[0];
        if let Way::Default(_) = self.way {
            if root.name != EVENTS {
                let cause = format!("the root element is '{}', not '{EVENTS}'", root.name);
                return Err((
                    cause.into(),
                    "send <events>, or map the document by @attributes",
                ));
            }
            let is_event = |&child: &usize| tree.elements[child].name == EVENT;
            return Ok(root.children.iter().copied().filter(is_event).collect());
        }
        let Some(enclosing) = &self.enclosing else {
            return Ok(vec![0]);
        };
        let found = enclosing
            .find(tree, Item::Element(0), &mut search.visits)
            .map_err(|_| (Cow::from(TOO_LARGE), NARROWER))?;
        let elements: Vec<usize> = found
            .into_iter()
            .filter_map(|item| match item {
                Item::Element(index) => Some(index),
                _ => None,
            })
            .collect();
        if elements.is_empty() {
            let cause = "the document has no enclosing element";
            return Err((cause.into(), "check option 'enclosing.element'"));
        }
        if self.is_event || self.is_leaf {
            return Ok(elements);
        }
        let children = elements
            .into_iter()
            .flat_map(|element| tree.elements[element].children.iter().copied());
        Ok(children.collect())
    }

    fn push_element(&self, tree: &Tree<'_>, element: usize, search: &mut Search, rows: &mut Rows) {
        let outcome = match &self.way {
            Way::Default(fields) => self.push_default(tree, element, fields, rows),
            Way::Custom(fields) => self.push_custom(tree, element, fields, search, rows),
            Way::Leaf(_) => Ok(()),
        };
        match outcome {
            Ok(()) => rows.commit_row(),
            Err((cause, remedy)) => rows.reject_row(tree.source(element), cause, remedy),
        }
    }

    /// Children by local name; a bad value drops the event whatever is allowed.
    fn push_default(
        &self,
        tree: &Tree<'_>,
        element: usize,
        fields: &[Field],
        rows: &mut Rows,
    ) -> Result<(), Refusal> {
        let children = &tree.elements[element].children;
        for field in fields {
            let child = children
                .iter()
                .map(|&child| &tree.elements[child])
                .rfind(|child| child.name == field.name);
            match child {
                None => self.push_missing(field, rows)?,
                Some(child) => push_value(field, &child.text, rows)?,
            }
        }
        Ok(())
    }

    fn push_missing(&self, field: &Field, rows: &mut Rows) -> Result<(), Refusal> {
        if !self.allows_null {
            let cause = format!("attribute '{}': '{}' finds nothing", field.name, field.from);
            return Err((cause.into(), MISSING));
        }
        rows.columns()[field.column].push_null();
        Ok(())
    }

    fn push_custom(
        &self,
        tree: &Tree<'_>,
        element: usize,
        fields: &[(Field, Option<Path>)],
        search: &mut Search,
        rows: &mut Rows,
    ) -> Result<(), Refusal> {
        for (i, (field, path)) in fields.iter().enumerate() {
            let Some(path) = path else {
                rows.columns()[field.column].push_null();
                continue;
            };
            match search.first(i, path, tree, element)? {
                None => self.push_missing(field, rows)?,
                Some(Item::Attribute(index, i)) => {
                    push_value(field, &tree.elements[index].attributes[i].value, rows)?;
                }
                Some(Item::Element(index)) => {
                    self.push_text_of(tree, index, field, rows)?;
                }
                // Siddhi's mapper takes elements and attributes only.
                Some(_) => rows.columns()[field.column].push_null(),
            }
        }
        Ok(())
    }

    fn push_text_of(
        &self,
        tree: &Tree<'_>,
        index: usize,
        field: &Field,
        rows: &mut Rows,
    ) -> Result<(), Refusal> {
        let element = &tree.elements[index];
        if !element.children.is_empty() {
            if field.ty != Type::String {
                let cause = format!(
                    "attribute '{}': element '{}' has children",
                    field.name, element.name
                );
                return Err((
                    cause.into(),
                    "map an element without children, or declare a string",
                ));
            }
            rows.columns()[field.column].push_str(tree.source(index));
            return Ok(());
        }
        match push_value(field, &element.text, rows) {
            Err(_) if self.allows_null => {
                rows.columns()[field.column].push_null();
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// One event for each element without children: its text and attributes, and those of all that
    /// enclose it, by their absolute paths.
    fn map_leaves(&self, tree: &Tree<'_>, from: Vec<usize>, rows: &mut Rows) {
        let (Way::Leaf(fields) | Way::Default(fields)) = &self.way else {
            return;
        };
        let mut stack: Vec<usize> = from.into_iter().rev().collect();
        while let Some(index) = stack.pop() {
            let element = &tree.elements[index];
            if !element.children.is_empty() {
                stack.extend(element.children.iter().rev());
                continue;
            }
            match self.push_leaf(tree, index, fields, rows) {
                Ok(()) => rows.commit_row(),
                Err((cause, remedy)) => rows.reject_row(tree.source(index), cause, remedy),
            }
        }
    }

    fn push_leaf(
        &self,
        tree: &Tree<'_>,
        leaf: usize,
        fields: &[Field],
        rows: &mut Rows,
    ) -> Result<(), Refusal> {
        let mut line = vec![leaf];
        while let Some(parent) = tree.elements[line[line.len() - 1]].parent {
            line.push(parent);
        }
        let mut values: Vec<(String, &str)> = Vec::new();
        let mut key = String::new();
        for &index in line.iter().rev() {
            let element = &tree.elements[index];
            key.push('/');
            key.push_str(element.name);
            values.push((key.clone(), &element.text));
            for attribute in &element.attributes {
                values.push((format!("{key}/@{}", attribute.name), &attribute.value));
            }
        }
        for field in fields {
            match values.iter().find(|(key, _)| *key == field.from) {
                None => self.push_missing(field, rows)?,
                Some((_, value)) => push_value(field, value, rows)?,
            }
        }
        Ok(())
    }
}

fn push_value(field: &Field, value: &str, rows: &mut Rows) -> Result<(), Refusal> {
    if scalar::push_text(&mut rows.columns()[field.column], field.ty, value) {
        return Ok(());
    }
    let shown: String = value.chars().take(100).collect();
    let cause = format!("attribute '{}': '{shown}' is no {}", field.name, field.ty);
    Err((cause.into(), "send a value of the attribute's type"))
}

impl SourceMapper for Source {
    fn map(&mut self, payload: Payload<'_>, properties: &Properties, rows: &mut Rows) {
        let is_last = self.stream.is_some() && properties.get(END_OF_FILE).as_str() == Some("true");
        match payload {
            Payload::Text(text) => self.map_text(text, is_last, rows),
            Payload::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => self.map_text(text, is_last, rows),
                Err(error) => rows.reject_message(payload, error.to_string(), "send UTF-8"),
            },
            Payload::Object(Value::Str(text)) => self.map_text(text, is_last, rows),
            Payload::Object(Value::Object(Object::Bytes(bytes))) => {
                let bytes = std::sync::Arc::clone(bytes);
                self.map(Payload::Bytes(&bytes), properties, rows);
            }
            _ => rows.reject_message(
                payload,
                "the message is neither text nor bytes",
                "send text",
            ),
        }
    }

    fn end_of_input(&mut self, rows: &mut Rows) {
        self.finish(rows);
    }

    fn allows_null(&self) -> bool {
        self.reader.allows_null
    }

    fn save(&self, out: &mut Vec<u8>) {
        if let Some(stream) = &self.stream {
            stream.save(out);
        }
    }

    fn restore(&mut self, held: &[u8]) {
        if let Some(stream) = &mut self.stream {
            stream.restore(held);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapper::testing::{mapping, schema, with_attributes};

    #[test]
    fn plain_events_of_the_published_apps_take_the_short_way() {
        let schema = schema("id string, lat string");
        let options = [
            ("enclosing.element", "/osm/node"),
            ("enable.streaming.xml.content", "true"),
        ];
        let map = with_attributes(mapping("xml", &options), &["/node/@id", "/node/@lat"]);
        let setup = SourceMapperSetup {
            mapping: &map,
            schema: &schema,
            around: &[],
        };
        let mut source = Source::new(&setup).expect("it can be made");
        let mut rows = Rows::new(&schema, &map, false);
        let (Some(stream), Some(projector)) = (&mut source.stream, &mut source.projector) else {
            panic!("the paths are plain");
        };
        stream.push("<osm> <node id=\"1\" lat=\"2.5\" user=\"m e\"><tag k=\"a b\" v='c'/></node>");
        let Some(Found::Event { range, is_plain }) = stream.next_found() else {
            panic!("there is an event");
        };
        assert!(is_plain);
        assert!(projector.push(stream.text(range), stream.tag(), &mut rows));
    }
}
