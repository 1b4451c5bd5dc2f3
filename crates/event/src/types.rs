//! The seven types of SiddhiQL.

use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Type {
    String,
    Int,
    Long,
    Float,
    Double,
    Bool,
    Object,
}

impl Type {
    pub const ALL: [Type; 7] = [
        Type::String,
        Type::Int,
        Type::Long,
        Type::Float,
        Type::Double,
        Type::Bool,
        Type::Object,
    ];

    /// As written in a definition.
    pub const fn name(self) -> &'static str {
        match self {
            Type::String => "string",
            Type::Int => "int",
            Type::Long => "long",
            Type::Float => "float",
            Type::Double => "double",
            Type::Bool => "bool",
            Type::Object => "object",
        }
    }

    /// Keywords match in any case.
    pub fn from_name(name: &str) -> Option<Type> {
        Type::ALL
            .into_iter()
            .find(|t| t.name().eq_ignore_ascii_case(name))
    }

    pub const fn is_numeric(self) -> bool {
        matches!(self, Type::Int | Type::Long | Type::Float | Type::Double)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One attribute of a stream, table or window.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Attribute {
    pub name: String,
    pub ty: Type,
}

/// What the rows of a stream, table or window look like.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Schema {
    /// Without `#` or `!`.
    pub name: String,
    pub attributes: Vec<Attribute>,
}

impl Schema {
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.attributes.iter().position(|a| a.name == name)
    }
}
