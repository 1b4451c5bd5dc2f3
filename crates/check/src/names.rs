//! What the names of an app stand for, and what is known of each row's attributes.

use std::collections::HashMap;

use event::{Attribute, Schema, Type};

use lang::ast;
use lang::span::Span;
use plan::{AggregationId, StreamId, TableId, WindowId};

/// One attribute of a row; the type is `None` where a fault that was reported hides it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Field {
    pub name: String,
    pub ty: Option<Type>,
    pub span: Span,
}

/// The attributes of a row as far as they are known.
///
/// An *open* shape stands for a row some of whose attributes are hidden by a fault that was
/// reported: a name that is not found in it is no new fault.
#[derive(Clone, Default, Debug)]
pub(super) struct Shape {
    /// Without `#` or `!`.
    pub name: String,
    pub fields: Vec<Field>,
    pub is_open: bool,
    /// Open because its definition has a syntax fault: most of its names are there, so that one
    /// that is nearly one of them is misspelt.
    pub is_partial: bool,
}

impl Shape {
    pub fn new(name: &str) -> Shape {
        Shape {
            name: name.to_owned(),
            ..Shape::default()
        }
    }

    pub fn open(name: &str) -> Shape {
        Shape {
            name: name.to_owned(),
            is_open: true,
            ..Shape::default()
        }
    }

    /// Any attribute may be there from here on.
    pub fn hide(&mut self) {
        self.is_open = true;
        self.is_partial = false;
    }

    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|f| f.name == name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|f| f.name.as_str())
    }

    pub fn push(&mut self, name: &str, ty: Option<Type>, span: Span) {
        self.fields.push(Field {
            name: name.to_owned(),
            ty,
            span,
        });
    }

    /// For the plan; what is not known is OBJECT there, and such a plan is never handed out.
    pub fn schema(&self) -> Schema {
        Schema {
            name: self.name.clone(),
            attributes: self
                .fields
                .iter()
                .map(|f| Attribute {
                    name: f.name.clone(),
                    ty: f.ty.unwrap_or(Type::Object),
                })
                .collect(),
        }
    }

    /// `(symbol string, price float)`.
    pub fn signature(&self) -> String {
        let fields: Vec<String> = self
            .fields
            .iter()
            .map(|f| match f.ty {
                Some(ty) => format!("{} {ty}", f.name),
                None => f.name.clone(),
            })
            .collect();
        format!("({})", fields.join(", "))
    }

    /// Same names and types in the same order, as far as both are known.
    pub fn agrees_with(&self, other: &Shape) -> bool {
        if self.is_open || other.is_open {
            return true;
        }
        self.fields.len() == other.fields.len()
            && self.fields.iter().zip(&other.fields).all(|(a, b)| {
                a.name == b.name && (a.ty.is_none() || b.ty.is_none() || a.ty == b.ty)
            })
    }
}

impl From<&ast::StreamName> for Shape {
    fn from(name: &ast::StreamName) -> Shape {
        Shape::new(&name.name.text)
    }
}

/// What an id of the app stands for. Streams, tables, windows, aggregations and triggers share one
/// namespace; a trigger is a stream here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Named {
    Stream(StreamId),
    Table(TableId),
    Window(WindowId),
    Aggregation(AggregationId),
}

impl Named {
    pub fn kind(self) -> &'static str {
        match self {
            Named::Stream(_) => "stream",
            Named::Table(_) => "table",
            Named::Window(_) => "window",
            Named::Aggregation(_) => "aggregation",
        }
    }
}

impl Named {
    /// `a stream`, `an aggregation`.
    pub fn with_article(self) -> &'static str {
        match self {
            Named::Stream(_) => "a stream",
            Named::Table(_) => "a table",
            Named::Window(_) => "a window",
            Named::Aggregation(_) => "an aggregation",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub named: Named,
    /// Where it was first named.
    pub span: Span,
}

/// Names in the order in which they were given, so that suggestions do not depend on hashing.
#[derive(Default, Debug)]
pub(super) struct Names {
    entries: HashMap<String, Entry>,
    order: Vec<String>,
}

impl Names {
    pub fn get(&self, name: &str) -> Option<Entry> {
        self.entries.get(name).copied()
    }

    pub fn insert(&mut self, name: &str, entry: Entry) {
        if self.entries.insert(name.to_owned(), entry).is_none() {
            self.order.push(name.to_owned());
        }
    }

    /// Names of the given kinds.
    pub fn of<'n>(&'n self, wanted: impl Fn(Named) -> bool + 'n) -> impl Iterator<Item = &'n str> {
        self.order
            .iter()
            .map(String::as_str)
            .filter(move |n| wanted(self.entries[*n].named))
    }
}
