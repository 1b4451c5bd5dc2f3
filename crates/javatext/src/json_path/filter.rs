//! Filters of JSON paths: `?(@.price > 10 && @.name =~ /a.*/i)`.
//!
//! What is not there differs from everything, and is in no list and no order. A number and a text are
//! equal where the text is that number, and are never one before the other.

use std::cmp::Ordering;

use super::{Error, Found, Item, Node, Path, Walk};
use crate::regex::Regex;

/// A value as a filter sees it.
#[derive(Clone, Debug)]
pub enum Scalar {
    Null,
    Bool(bool),
    /// The number and its text in Java's form.
    Number(f64, String),
    Text(String),
    List(Vec<Scalar>),
    Object(Vec<(String, Scalar)>),
}

#[derive(Debug)]
pub(super) enum Filter {
    And(Vec<Filter>),
    Or(Vec<Filter>),
    Not(Box<Filter>),
    Exists(Operand),
    Compare(Operand, Operator, Operand),
    Matches(Operand, Regex),
}

#[derive(Debug)]
pub(super) enum Operand {
    /// Below the element at hand, `@`.
    Here(Path),
    /// Below the document, `$`.
    Root(Path),
    Literal(Scalar),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    /// `===`: of one type.
    Same,
    NotSame,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
    NotIn,
    Contains,
    Size,
    Empty,
    SubsetOf,
    AnyOf,
    NoneOf,
}

impl Operator {
    /// Those that begin with another stand before it.
    pub(super) const ALL: &[(&str, Operator)] = &[
        ("===", Operator::Same),
        ("!==", Operator::NotSame),
        ("==", Operator::Equal),
        ("!=", Operator::NotEqual),
        ("<=", Operator::LessEqual),
        (">=", Operator::GreaterEqual),
        ("<", Operator::Less),
        (">", Operator::Greater),
        ("nin ", Operator::NotIn),
        ("in ", Operator::In),
        ("contains ", Operator::Contains),
        ("size ", Operator::Size),
        ("empty ", Operator::Empty),
        ("subsetof ", Operator::SubsetOf),
        ("anyof ", Operator::AnyOf),
        ("noneof ", Operator::NoneOf),
    ];

    fn holds(self, left: &Scalar, right: &Scalar) -> bool {
        match self {
            Operator::Equal => left.equals(right),
            Operator::NotEqual => !left.equals(right),
            Operator::Same => left.is_kind_of(right) && left.equals(right),
            Operator::NotSame => !(left.is_kind_of(right) && left.equals(right)),
            Operator::Less => left.order(right) == Some(Ordering::Less),
            Operator::LessEqual => left.order(right).is_some_and(Ordering::is_le),
            Operator::Greater => left.order(right) == Some(Ordering::Greater),
            Operator::GreaterEqual => left.order(right).is_some_and(Ordering::is_ge),
            Operator::In => right.has(left),
            Operator::NotIn => !right.has(left),
            Operator::Contains => match (left, right) {
                (Scalar::Text(text), part) => part.text().is_some_and(|part| text.contains(part)),
                (list, value) => list.has(value),
            },
            Operator::Size => {
                matches!((left.size(), right), (Some(size), Scalar::Number(n, _)) if size as f64 == *n)
            }
            Operator::Empty => {
                matches!((left.size(), right), (Some(size), Scalar::Bool(is)) if (size == 0) == *is)
            }
            Operator::SubsetOf => left.list().iter().all(|value| right.has(value)),
            Operator::AnyOf => left.list().iter().any(|value| right.has(value)),
            Operator::NoneOf => !left.list().iter().any(|value| right.has(value)),
        }
    }
}

impl Filter {
    pub(super) fn accepts<N: Node>(
        &self,
        element: &N,
        walk: &mut Walk<'_, N>,
    ) -> Result<bool, Error> {
        walk.spend(1)?;
        match self {
            Filter::And(parts) => {
                for part in parts {
                    if !part.accepts(element, walk)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Filter::Or(parts) => {
                for part in parts {
                    if part.accepts(element, walk)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Filter::Not(inner) => Ok(!inner.accepts(element, walk)?),
            Filter::Exists(operand) => Ok(operand.value(element, walk)?.is_some()),
            Filter::Compare(left, operator, right) => {
                let left = left.value(element, walk)?;
                let right = right.value(element, walk)?;
                Ok(match (left, right) {
                    (Some(left), Some(right)) => operator.holds(&left, &right),
                    _ => matches!(
                        operator,
                        Operator::NotEqual | Operator::NotSame | Operator::NotIn | Operator::NoneOf
                    ),
                })
            }
            Filter::Matches(operand, regex) => {
                let value = operand.value(element, walk)?;
                match value.as_ref().and_then(Scalar::text) {
                    Some(text) => Ok(regex.is_match(text)?),
                    None => Ok(false),
                }
            }
        }
    }
}

impl Operand {
    fn value<N: Node>(&self, element: &N, walk: &mut Walk<'_, N>) -> Result<Option<Scalar>, Error> {
        let found = match self {
            Operand::Literal(value) => return Ok(Some(value.clone())),
            Operand::Here(path) => path.find_from(element, walk)?,
            Operand::Root(path) => path.find_from(walk.root, walk)?,
        };
        Ok(match found {
            Found::Nothing => None,
            Found::One(item) => Some(Scalar::of(&item)),
            Found::Many(items) if items.is_empty() => None,
            Found::Many(items) => Some(Scalar::List(items.iter().map(Scalar::of).collect())),
        })
    }
}

impl Scalar {
    fn of<N: Node>(item: &Item<N>) -> Scalar {
        match item {
            Item::Node(node) => node.scalar(),
            Item::Members(members) => {
                let members = members.iter();
                Scalar::Object(members.map(|(k, v)| (k.clone(), v.scalar())).collect())
            }
            Item::Number(number) => Scalar::Number(*number, number.to_string()),
            Item::Count(count) => Scalar::Number(*count as f64, count.to_string()),
            Item::Null => Scalar::Null,
        }
    }

    /// A number or a text as text.
    fn text(&self) -> Option<&str> {
        match self {
            Scalar::Text(text) | Scalar::Number(_, text) => Some(text),
            Scalar::Bool(value) => Some(if *value { "true" } else { "false" }),
            _ => None,
        }
    }

    fn number(&self) -> Option<f64> {
        match self {
            Scalar::Number(number, _) => Some(*number),
            Scalar::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    fn is_kind_of(&self, other: &Scalar) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    fn equals(&self, other: &Scalar) -> bool {
        match (self, other) {
            (Scalar::Null, Scalar::Null) => true,
            (Scalar::Bool(a), Scalar::Bool(b)) => a == b,
            (Scalar::Text(a), b @ (Scalar::Text(_) | Scalar::Number(..))) => {
                Some(a.as_str()) == b.text()
            }
            (Scalar::Number(a, _), b) => b.number() == Some(*a),
            (Scalar::List(a), Scalar::List(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.equals(b))
            }
            (Scalar::Object(a), Scalar::Object(b)) => {
                let has = |key: &String, value: &Scalar| {
                    b.iter().any(|(k, v)| k == key && v.equals(value))
                };
                a.len() == b.len() && a.iter().all(|(key, value)| has(key, value))
            }
            _ => false,
        }
    }

    /// Texts go by UTF-16, as Java's do.
    fn order(&self, other: &Scalar) -> Option<Ordering> {
        match (self, other) {
            (Scalar::Number(a, _), Scalar::Number(b, _)) => a.partial_cmp(b),
            (Scalar::Text(a), Scalar::Text(b)) => Some(a.encode_utf16().cmp(b.encode_utf16())),
            _ => None,
        }
    }

    fn list(&self) -> &[Scalar] {
        match self {
            Scalar::List(list) => list,
            _ => &[],
        }
    }

    fn has(&self, value: &Scalar) -> bool {
        self.list().iter().any(|element| element.equals(value))
    }

    fn size(&self) -> Option<usize> {
        match self {
            Scalar::Text(text) => Some(text.encode_utf16().count()),
            Scalar::List(list) => Some(list.len()),
            Scalar::Object(members) => Some(members.len()),
            _ => None,
        }
    }
}
