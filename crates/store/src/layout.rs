//! How the rows of new files lie, as an app has chosen. It is no part of what a table is: files that are
//! there stay as they are, and another choice is for those that come.

use event::{Type, Value};

use crate::condition::Bounded;
use crate::definition::Definition;
use crate::error::Error;
use crate::key;

#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    /// Rows of a file are in the order of these columns; else in that of their insertion, or of the
    /// primary key.
    pub cluster: Vec<usize>,
    /// Columns of which each row group can say that it lacks a value.
    pub indexed: Vec<usize>,
}

impl Layout {
    /// `cluster` names columns, `indexed` are those of `@Index`.
    ///
    /// # Errors
    /// A column that is not there or has no order, in words for the author of the app.
    pub fn new(
        definition: &Definition,
        cluster: Option<&str>,
        indexed: impl Iterator<Item = usize>,
    ) -> Result<Layout, Error> {
        let refused = |message: String| Error::Refused(format!("option 'cluster.by': {message}"));
        let mut layout = Layout::default();
        if cluster.is_some() && definition.is_keyed() {
            return Err(refused(
                "the files of a table with a primary key are in the order of that key: leave the option out"
                    .into(),
            ));
        }
        for name in cluster.into_iter().flat_map(|names| names.split(',')) {
            let name = name.trim();
            let attributes = &definition.schema.attributes;
            let column = attributes.iter().position(|a| a.name == name);
            let column =
                column.ok_or_else(|| refused(format!("there is no attribute '{name}'")))?;
            if definition.ty(column) == Type::Object {
                return Err(refused(format!(
                    "attribute '{name}' is an object, which has no order"
                )));
            }
            layout.cluster.push(column);
        }
        layout.indexed = indexed
            .filter(|column| can_index(definition.ty(*column)))
            .collect();
        layout.indexed.sort_unstable();
        layout.indexed.dedup();
        Ok(layout)
    }
}

/// Values of real numbers are equal without having the same bytes.
fn can_index(ty: Type) -> bool {
    matches!(ty, Type::Int | Type::Long | Type::String)
}

/// The values that columns have in each row that is meant, where a file can be asked for them.
pub(crate) fn asked(bounded: &Bounded<'_>, definition: &Definition) -> Vec<(usize, Value)> {
    let equal = bounded.equal();
    let equal = equal.filter(|(column, _)| can_index(definition.ty(*column)));
    equal
        .filter_map(|(column, value)| Some((column, key::in_type(definition.ty(column), value)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::sample;

    #[test]
    fn columns_are_named_by_the_app() {
        let plain = sample(vec![]);
        let layout = Layout::new(&plain, Some("round, symbol"), [4, 1, 1].into_iter());
        let layout = layout.expect("they are there");
        assert_eq!((layout.cluster, layout.indexed), (vec![3, 0], vec![1]));
        let refused = |definition: &Definition, cluster| {
            let refused = Layout::new(definition, Some(cluster), [].into_iter());
            refused.expect_err("refused").to_string()
        };
        assert!(refused(&plain, "rond").contains("'rond'"));
        assert!(refused(&plain, "extra").contains("object"));
        assert!(refused(&sample(vec![0]), "round").contains("primary key"));
    }
}
