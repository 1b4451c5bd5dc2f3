//! What the rows of a table look like.

use event::{Schema, Type};

use crate::error::Error;

/// The number of a row: it ascends in the order of insertion, and stays when the row is updated.
pub const ID: &str = "_id";

/// The time of a row's event, milliseconds since 1970.
pub const TIMESTAMP: &str = "_timestamp";

/// Characters of the longest name of a table.
const NAME_MAX: usize = 200;

/// A table: its name in the store, its columns and its key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Definition {
    /// In lower case: names are compared without it.
    pub name: String,
    pub schema: Schema,
    /// Columns of the primary key; the newest row of a key wins.
    pub key: Vec<usize>,
}

impl Definition {
    /// # Errors
    /// A name that no folder or no reader of the files can have, in words for the author of the app.
    pub fn new(name: &str, mut schema: Schema, key: Vec<usize>) -> Result<Definition, Error> {
        let folder = name.trim().replace('.', "_").to_ascii_lowercase();
        schema.name.clone_from(&folder);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if folder.is_empty() || folder.len() > NAME_MAX || !folder.chars().all(is_plain) {
            return Err(Error::Refused(format!(
                "'{name}' cannot be the name of a table in the event store: use letters, digits, '_' and \
                 '-', at most {NAME_MAX}"
            )));
        }
        for (at, attribute) in schema.attributes.iter().enumerate() {
            let column = &attribute.name;
            if [ID, TIMESTAMP].contains(&column.to_ascii_lowercase().as_str()) {
                return Err(Error::Refused(format!(
                    "attribute '{column}' has the name of a column that the event store adds: rename it"
                )));
            }
            if column.contains([' ', ',', ';', '{', '}', '(', ')', '\n', '\t', '=']) {
                return Err(Error::Refused(format!(
                    "attribute '{column}' has a name that readers of Delta tables refuse: use letters, \
                     digits and '_'"
                )));
            }
            let mut before = schema.attributes[..at].iter();
            if let Some(same) = before.find(|other| other.name.eq_ignore_ascii_case(column)) {
                return Err(Error::Refused(format!(
                    "attributes '{}' and '{column}' differ by case alone, which readers of Delta tables \
                     do not tell apart: rename one",
                    same.name
                )));
            }
        }
        let object = key
            .iter()
            .find(|at| schema.attributes[**at].ty == Type::Object);
        if let Some(at) = object {
            let column = &schema.attributes[*at].name;
            return Err(Error::Refused(format!(
                "attribute '{column}' is an object and cannot be part of the primary key"
            )));
        }
        Ok(Definition {
            name: folder,
            schema,
            key,
        })
    }

    pub fn ty(&self, column: usize) -> Type {
        self.schema.attributes[column].ty
    }

    pub fn types(&self) -> Vec<Type> {
        self.schema.attributes.iter().map(|a| a.ty).collect()
    }

    /// Number of columns, without those that the store adds.
    pub fn width(&self) -> usize {
        self.schema.attributes.len()
    }

    pub fn is_keyed(&self) -> bool {
        !self.key.is_empty()
    }

    /// How this definition differs from the one that the table was made with, in words.
    pub fn difference(&self, made: &Definition) -> Option<String> {
        let text = |definition: &Definition| {
            let columns = definition.schema.attributes.iter();
            let columns: Vec<String> = columns.map(|a| format!("{} {}", a.name, a.ty)).collect();
            columns.join(", ")
        };
        let key = |definition: &Definition| {
            let names = definition.key.iter();
            let names: Vec<&str> = names
                .map(|at| definition.schema.attributes[*at].name.as_str())
                .collect();
            if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            }
        };
        let is_same = self.schema.attributes == made.schema.attributes;
        if !is_same {
            return Some(format!(
                "it was made with the columns ({}), the app defines ({})",
                text(made),
                text(self)
            ));
        }
        (self.key != made.key).then(|| {
            format!(
                "it was made with the primary key {}, the app defines {}",
                key(made),
                key(self)
            )
        })
    }
}

#[cfg(test)]
pub(crate) fn sample(key: Vec<usize>) -> Definition {
    use event::Attribute;
    let attributes = [
        ("symbol", Type::String),
        ("volume", Type::Long),
        ("price", Type::Double),
        ("round", Type::Int),
        ("open", Type::Bool),
        ("rate", Type::Float),
        ("extra", Type::Object),
    ];
    let attributes = attributes.iter().map(|(name, ty)| Attribute {
        name: (*name).to_owned(),
        ty: *ty,
    });
    let schema = Schema {
        name: "Trades".into(),
        attributes: attributes.collect(),
    };
    Definition::new("Trades", schema, key).expect("it has plain names")
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::Attribute;

    fn of(columns: &[&str]) -> Result<Definition, Error> {
        let attributes = columns.iter().map(|name| Attribute {
            name: (*name).to_owned(),
            ty: Type::Int,
        });
        let schema = Schema {
            name: "T".into(),
            attributes: attributes.collect(),
        };
        Definition::new("a.B", schema, Vec::new())
    }

    #[test]
    fn names_that_readers_cannot_have_are_refused() {
        assert_eq!(of(&["a", "b"]).expect("plain").name, "a_b");
        for columns in [
            ["a b", "c"],
            ["_id", "c"],
            ["_Timestamp", "c"],
            ["a", "A"],
            ["a=b", "c"],
        ] {
            assert!(of(&columns).is_err(), "{columns:?}");
        }
        for name in ["", "..", "a/b", "ä"] {
            let made = Definition::new(name, Schema::default(), Vec::new());
            assert_eq!(made.is_ok(), name == "..", "{name}");
        }
    }

    #[test]
    fn a_difference_is_said() {
        let (plain, keyed) = (sample(vec![]), sample(vec![0]));
        assert_eq!(plain.difference(&plain), None);
        let said = keyed.difference(&plain).expect("keys differ");
        assert!(
            said.contains("primary key none") && said.contains("symbol"),
            "{said}"
        );
    }
}
