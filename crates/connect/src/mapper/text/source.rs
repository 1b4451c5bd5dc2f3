//! Text to rows: patterns, or lines `name:value`.

use event::Type;
use javatext::regex::{Groups, Regex};

use super::Layout;
use crate::component::{Payload, SourceMapper, SourceMapperSetup};
use crate::error::Error;
use crate::mapper::{Field, Fields, Options};
use crate::rows::{Properties, Rows};
use crate::scalar;

pub(super) struct Source {
    layout: Layout,
    allows_null: bool,
    way: Way,
    groups: Vec<Groups>,
    found: Vec<bool>,
}

enum Way {
    /// Patterns, each searched once an event, and the attributes made of their groups.
    Patterns {
        patterns: Vec<Regex>,
        captures: Vec<Capture>,
    },
    Lines(Vec<Field>),
}

struct Capture {
    field: Field,
    /// Index of the pattern and group; or why there is none.
    source: Result<(usize, usize), String>,
}

const MISSING: &str = "check the pattern, or allow null by fail.on.missing.attribute='false'";

impl Source {
    pub fn new(setup: &SourceMapperSetup<'_>) -> Result<Source, Error> {
        let options = Options::of_source(setup.mapping);
        let fields = Fields::of(setup.mapping, setup.schema);
        let way = if fields.is_default {
            Way::Lines(fields.list)
        } else {
            patterns(setup, &options, fields.list)?
        };
        let count = match &way {
            Way::Patterns { patterns, .. } => patterns.len(),
            Way::Lines(fields) => fields.len(),
        };
        Ok(Source {
            layout: Layout::of(&options),
            allows_null: !options.bool("fail.on.missing.attribute"),
            way,
            groups: (0..count).map(|_| Groups::default()).collect(),
            found: vec![false; count],
        })
    }

    fn map_event(&mut self, text: &str, rows: &mut Rows) {
        let outcome = match &self.way {
            Way::Patterns { patterns, captures } => by_patterns(
                text,
                patterns,
                captures,
                &mut self.groups,
                &mut self.found,
                self.allows_null,
                rows,
            ),
            Way::Lines(fields) => by_lines(text, fields, &self.layout, self.allows_null, rows),
        };
        match outcome {
            Ok(()) => rows.commit_row(),
            Err((cause, remedy)) => rows.reject_row(text, cause, remedy),
        }
    }
}

/// The patterns that attributes use, and which attribute takes which group.
fn patterns(
    setup: &SourceMapperSetup<'_>,
    options: &Options<'_>,
    fields: Vec<Field>,
) -> Result<Way, Error> {
    let (mut ids, mut patterns) = (Vec::new(), Vec::new());
    for (name, pattern) in &setup.mapping.options {
        if let Some(id) = name.strip_prefix("regex.") {
            ids.push(id);
            patterns.push(
                Regex::new(pattern)
                    .map_err(|cause| options.refused(format!("option '{name}': {cause}")))?,
            );
        }
    }
    let captures = fields
        .into_iter()
        .map(|field| {
            let source = capture(&field.from, &ids, &patterns);
            Capture { field, source }
        })
        .collect();
    Ok(Way::Patterns { patterns, captures })
}

/// `A[2]` or `A`, which is `A[1]`.
fn capture(from: &str, ids: &[&str], patterns: &[Regex]) -> Result<(usize, usize), String> {
    let (id, group) = match from.strip_suffix(']').and_then(|f| f.rsplit_once('[')) {
        Some((id, group)) => (id, group),
        None => (from, "1"),
    };
    let pattern = ids
        .iter()
        .rposition(|known| *known == id)
        .ok_or_else(|| format!("there is no pattern 'regex.{id}'"))?;
    let count = patterns[pattern].group_count();
    group
        .trim()
        .parse::<usize>()
        .ok()
        .filter(|&group| group <= count)
        .map(|group| (pattern, group))
        .ok_or_else(|| format!("pattern 'regex.{id}' has no group '{group}', only 0 to {count}"))
}

type Refusal = (String, &'static str);

fn by_patterns(
    text: &str,
    patterns: &[Regex],
    captures: &[Capture],
    groups: &mut [Groups],
    found: &mut [bool],
    allows_null: bool,
    rows: &mut Rows,
) -> Result<(), Refusal> {
    for (i, pattern) in patterns.iter().enumerate() {
        found[i] = pattern
            .find_at(text, 0, &mut groups[i])
            .map_err(|error| (error.to_string(), "write a simpler pattern"))?;
    }
    for Capture { field, source } in captures {
        let (pattern, group) = source
            .as_ref()
            .map_err(|cause| (cause.clone(), "name a pattern of this mapper by its id"))?;
        let range = groups[*pattern].get(*group).filter(|_| found[*pattern]);
        match range {
            Some(range) => push_value(field, &text[range], rows)?,
            None => push_missing(field, allows_null, rows)?,
        }
    }
    Ok(())
}

fn push_missing(field: &Field, allows_null: bool, rows: &mut Rows) -> Result<(), Refusal> {
    if !allows_null {
        return Err((
            format!("attribute '{}' is not in the text", field.name),
            MISSING,
        ));
    }
    rows.columns()[field.column].push_null();
    Ok(())
}

/// Commas are left out of everything but text (`connectors-map.md` 5.1).
fn push_value(field: &Field, value: &str, rows: &mut Rows) -> Result<(), Refusal> {
    let column = &mut rows.columns()[field.column];
    let is_done = if field.ty != Type::String && value.contains(',') {
        scalar::push_text(column, field.ty, &value.replace(',', ""))
    } else {
        scalar::push_text(column, field.ty, value)
    };
    if is_done {
        return Ok(());
    }
    let cause = format!("attribute '{}': '{value}' is no {}", field.name, field.ty);
    Err((cause, "let the pattern take the digits alone"))
}

/// `name:"text",` and `name:number,` a line, in any order.
fn by_lines(
    text: &str,
    fields: &[Field],
    layout: &Layout,
    allows_null: bool,
    rows: &mut Rows,
) -> Result<(), Refusal> {
    let separator = format!(",{}", layout.new_line);
    let entries: Vec<(&str, &str)> = text
        .split(separator.as_str())
        .filter_map(|entry| entry.split_once(':'))
        .map(|(name, value)| (name.trim(), value.trim()))
        .collect();
    for field in fields {
        let value = entries
            .iter()
            .find(|(name, _)| *name == field.name)
            .map(|(_, value)| *value);
        match value {
            None => push_missing(field, allows_null, rows)?,
            Some(value) if field.ty == Type::String => {
                // The first and the last character are taken for quotes, whatever they are.
                let mut inner = value.chars();
                if inner.next().is_none() || inner.next_back().is_none() {
                    let cause = format!("attribute '{}': {value} has no quotes", field.name);
                    return Err((cause, "put text in quotes"));
                }
                push_value(field, inner.as_str(), rows)?;
            }
            Some(value) => push_value(field, value, rows)?,
        }
    }
    Ok(())
}

impl SourceMapper for Source {
    fn map(&mut self, payload: Payload<'_>, _properties: &Properties, rows: &mut Rows) {
        let Some(text) = payload.text() else {
            return rows.reject_message(payload, "the message is not text", "send text in UTF-8");
        };
        if !self.layout.is_grouped {
            return self.map_event(text, rows);
        }
        let separator = self.layout.separator.clone();
        for event in text.split(separator.as_str()) {
            self.map_event(event, rows);
        }
    }

    fn allows_null(&self) -> bool {
        self.allows_null
    }
}
