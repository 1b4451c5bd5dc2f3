//! Conditions as filters of MongoDB.
//!
//! A filter finds every row that satisfies the condition. Where it is exact it finds no other; else the
//! rows found are looked at again in memory. No text of an app or event is read as code.

use event::{Schema, Type, Value};
use mongodb::bson::{Bson, Document, doc};
use plan::CompareOp;
use plan::store::{Term, TermKind};

use super::row::to_bson;
use connect::condition::{is_plain, value};

/// Nesting of a condition that is made into a filter; MongoDB's own limit is 100 levels of a document.
const DEPTH_MAX: u32 = 40;

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Filter {
    pub document: Document,
    /// Nothing is found that does not satisfy the condition. Goes by the types of the condition alone,
    /// whatever the values of an event are.
    pub is_exact: bool,
}

impl Filter {
    pub fn new(schema: &Schema, on: &Term, parameters: &[Value]) -> Filter {
        Condition { schema, parameters }.filter(on, 0)
    }

    pub fn all() -> Filter {
        Filter::exact(Document::new())
    }

    fn exact(document: Document) -> Filter {
        Filter {
            document,
            is_exact: true,
        }
    }

    /// Anything may satisfy the condition.
    fn unknown() -> Filter {
        Filter {
            is_exact: false,
            ..Filter::all()
        }
    }

    /// Nothing has one of no keys.
    fn constant(is_true: bool) -> Filter {
        Filter::exact(match is_true {
            true => Document::new(),
            false => doc! {"_id": {"$in": []}},
        })
    }

    fn joined(operator: &str, sides: [Filter; 2]) -> Filter {
        let is_exact = sides.iter().all(|side| side.is_exact);
        let mut documents: Vec<Document> = sides.into_iter().map(|side| side.document).collect();
        if operator == "$and" {
            documents.retain(|document| !document.is_empty());
        }
        let document = match documents.len() {
            0 => Document::new(),
            1 => documents.swap_remove(0),
            _ => doc! {operator: documents},
        };
        Filter { document, is_exact }
    }

    /// The fields that must be equal to a value each, where the filter says nothing else: MongoDB makes
    /// a document of them where it finds none.
    pub fn equalities(&self) -> Option<Vec<(&str, &Bson)>> {
        let mut found: Vec<(&str, &Bson)> = Vec::new();
        let mut left = vec![&self.document];
        while let Some(document) = left.pop() {
            for (name, part) in document {
                match part {
                    Bson::Array(parts) if name == "$and" => {
                        left.extend(parts.iter().filter_map(Bson::as_document));
                    }
                    Bson::Document(compared) if !name.starts_with('$') => {
                        let is_again = found.iter().any(|(other, _)| other == name);
                        let equal = compared.get("$eq").filter(|_| !is_again)?;
                        found.push((name, equal));
                    }
                    _ => return None,
                }
            }
        }
        Some(found)
    }
}

/// Can the condition be worked out? What memory cannot, the filter must.
pub(super) fn is_known(schema: &Schema, on: &Term) -> bool {
    is_plain(on) || Filter::new(schema, on, &[]).is_exact
}

struct Condition<'a> {
    schema: &'a Schema,
    parameters: &'a [Value],
}

impl Condition<'_> {
    fn name(&self, at: usize) -> &str {
        &self.schema.attributes[at].name
    }

    /// The value of a term that sees no row.
    fn value(&self, term: &Term) -> Option<Value> {
        match term.kind {
            TermKind::Parameter(_) | TermKind::Constant(_) => {
                Some(value(term, &[], self.parameters))
            }
            _ => None,
        }
    }

    fn filter(&self, term: &Term, depth: u32) -> Filter {
        if depth == DEPTH_MAX {
            return Filter::unknown();
        }
        let of = |term: &Term| self.filter(term, depth + 1);
        match &term.kind {
            TermKind::And(left, right) => Filter::joined("$and", [of(left), of(right)]),
            TermKind::Or(left, right) => Filter::joined("$or", [of(left), of(right)]),
            TermKind::Not(inner) => match of(inner) {
                // What is found by more than the condition says too much when it is turned round.
                inner if inner.is_exact => Filter::exact(doc! {"$nor": [inner.document]}),
                _ => Filter::unknown(),
            },
            TermKind::Column(at) => Filter::exact(doc! {self.name(*at): {"$eq": true}}),
            TermKind::Parameter(_) | TermKind::Constant(_) => {
                Filter::constant(self.value(term) == Some(Value::Bool(true)))
            }
            // A field that is not there is null as well.
            TermKind::IsNull(inner) => match (&inner.kind, self.value(inner)) {
                (TermKind::Column(at), _) => Filter::exact(doc! {self.name(*at): Bson::Null}),
                (_, Some(value)) => Filter::constant(value == Value::Null),
                _ => Filter::unknown(),
            },
            TermKind::Compare(op, left, right) => match (&left.kind, &right.kind) {
                (TermKind::Column(at), _) => self.compared(*at, *op, right),
                (_, TermKind::Column(at)) => self.compared(*at, op.turned(), left),
                _ => Filter::unknown(),
            },
            TermKind::Call { name, args } => match &args[..] {
                [text, part] if name == "str:contains" => self.containing(text, part),
                _ => Filter::unknown(),
            },
            TermKind::Arithmetic(..) => Filter::unknown(),
        }
    }

    fn compared(&self, at: usize, op: CompareOp, other: &Term) -> Filter {
        let Some(value) = self.value(other) else {
            return Filter::unknown();
        };
        let is_equality = matches!(op, CompareOp::Equal | CompareOp::NotEqual);
        let compares_alike = match (self.schema.attributes[at].ty, other.ty) {
            (Type::String, Type::String) | (Type::Bool, Type::Bool) => is_equality,
            // In memory a long is rounded to be compared with a number that has a point.
            (Type::Long, Type::Float | Type::Double) | (Type::Float | Type::Double, Type::Long) => {
                false
            }
            (own, other) => is_number(own) && is_number(other),
        };
        if !compares_alike {
            return Filter::unknown();
        }
        let is_no_number = value.to_double().is_some_and(f64::is_nan);
        if value == Value::Null || is_no_number {
            return Filter::constant(op == CompareOp::NotEqual);
        }
        let operator = match op {
            CompareOp::Less => "$lt",
            CompareOp::LessEqual => "$lte",
            CompareOp::Greater => "$gt",
            CompareOp::GreaterEqual => "$gte",
            CompareOp::Equal => "$eq",
            CompareOp::NotEqual => "$ne",
        };
        Filter::exact(doc! {self.name(at): {operator: to_bson(&value)}})
    }

    /// `str:contains(attribute, text)`.
    fn containing(&self, text: &Term, part: &Term) -> Filter {
        let (TermKind::Column(at), Some(part)) = (&text.kind, self.value(part)) else {
            return Filter::unknown();
        };
        let Some(part) = part.as_str() else {
            return Filter::constant(false);
        };
        Filter::exact(doc! {self.name(*at): {"$regex": literal(part)}})
    }
}

const fn is_number(ty: Type) -> bool {
    matches!(ty, Type::Int | Type::Long | Type::Float | Type::Double)
}

/// A pattern that finds the text itself. A pattern has no NUL, which ends it for the server.
fn literal(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\0' => pattern.push_str("\\x00"),
            c => {
                if c.is_ascii_punctuation() {
                    pattern.push('\\');
                }
                pattern.push(c);
            }
        }
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    use event::Attribute;
    use plan::Constant;

    fn schema() -> Schema {
        let attributes = [
            ("s", Type::String),
            ("n", Type::Long),
            ("d", Type::Double),
            ("b", Type::Bool),
            ("i", Type::Int),
        ];
        Schema {
            name: "T".into(),
            attributes: attributes
                .map(|(name, ty)| Attribute {
                    name: name.into(),
                    ty,
                })
                .into(),
        }
    }

    fn term(ty: Type, kind: TermKind) -> Box<Term> {
        Box::new(Term { ty, kind })
    }

    fn column(name: &str) -> Box<Term> {
        let schema = schema();
        let at = schema.attributes.iter().position(|a| a.name == name);
        let at = at.unwrap();
        term(schema.attributes[at].ty, TermKind::Column(at))
    }

    fn parameter(ty: Type) -> Box<Term> {
        term(ty, TermKind::Parameter(0))
    }

    fn constant(v: i32) -> Box<Term> {
        term(Type::Int, TermKind::Constant(Constant::Int(v)))
    }

    fn compare(op: CompareOp, left: Box<Term>, right: Box<Term>) -> Box<Term> {
        term(Type::Bool, TermKind::Compare(op, left, right))
    }

    #[track_caller]
    fn check(on: &Term, parameter: Value, expect: Document, is_exact: bool) {
        let found = Filter::new(&schema(), on, &[parameter]);
        assert_eq!(
            (found.document, found.is_exact),
            (expect, is_exact),
            "{on:?}"
        );
    }

    #[test]
    fn conditions_are_filters_and_say_whether_they_are_exact() {
        let equal = |name: &str, ty| compare(CompareOp::Equal, column(name), parameter(ty));
        let never = || doc! {"_id": {"$in": []}};
        let text = equal("s", Type::String);
        check(&text, Value::str("$gt"), doc! {"s": {"$eq": "$gt"}}, true);
        check(&text, Value::Null, never(), true);
        let long = equal("n", Type::Int);
        check(&long, Value::Int(5), doc! {"n": {"$eq": 5}}, true);
        let rounded = equal("n", Type::Double);
        check(&rounded, Value::Double(5.0), doc! {}, false);
        let real = compare(CompareOp::NotEqual, column("d"), parameter(Type::Double));
        check(&real, Value::Double(1.5), doc! {"d": {"$ne": 1.5}}, true);
        check(&real, Value::Double(f64::NAN), doc! {}, true);
        let turned = compare(CompareOp::Less, constant(3), column("i"));
        check(&turned, Value::Null, doc! {"i": {"$gt": 3}}, true);
        let less = compare(CompareOp::Less, column("s"), parameter(Type::String));
        check(&less, Value::str("x"), doc! {}, false);
    }

    #[test]
    fn parts_that_the_server_has_no_words_for_are_left_to_memory() {
        let sum = TermKind::Arithmetic(plan::ArithmeticOp::Add, column("i"), constant(1));
        let hard = || {
            compare(
                CompareOp::Greater,
                term(Type::Int, sum.clone()),
                constant(3),
            )
        };
        let easy = || compare(CompareOp::Equal, column("i"), constant(3));
        let easy_one = || doc! {"i": {"$eq": 3}};
        let of = |kind| *term(Type::Bool, kind);
        check(
            &of(TermKind::And(easy(), hard())),
            Value::Null,
            easy_one(),
            false,
        );
        let either = doc! {"$or": [easy_one(), {}]};
        check(
            &of(TermKind::Or(easy(), hard())),
            Value::Null,
            either,
            false,
        );
        check(&of(TermKind::Not(hard())), Value::Null, doc! {}, false);
        let not = doc! {"$nor": [easy_one()]};
        check(&of(TermKind::Not(easy())), Value::Null, not, true);
        check(
            &of(TermKind::IsNull(column("s"))),
            Value::Null,
            doc! {"s": Bson::Null},
            true,
        );
        check(&column("b"), Value::Null, doc! {"b": {"$eq": true}}, true);
        let mut deep = easy();
        for _ in 0..100 {
            deep = term(Type::Bool, TermKind::Not(deep));
        }
        check(&deep, Value::Null, doc! {}, false);
    }

    #[test]
    fn a_text_that_is_looked_for_is_no_pattern() {
        let args = vec![*column("s"), *parameter(Type::String)];
        let call = term(
            Type::Bool,
            TermKind::Call {
                name: "str:contains".into(),
                args,
            },
        );
        assert!(is_known(&schema(), &call));
        let found = Filter::new(&schema(), &call, &[Value::str("a.*(é\0")]);
        assert!(found.is_exact);
        let text = found.document.to_string();
        assert!(text.contains(r"a\.\*\(é\x00"), "{text}");
        let other = TermKind::Call {
            name: "str:reverse".into(),
            args: vec![*column("s")],
        };
        assert!(!is_known(&schema(), &term(Type::String, other)));
    }

    #[test]
    fn equalities_of_different_fields_make_a_document() {
        let equal = |name: &str, v| compare(CompareOp::Equal, column(name), constant(v));
        let both = |a, b| term(Type::Bool, TermKind::And(a, b));
        let of = |on: &Term| {
            let filter = Filter::new(&schema(), on, &[]);
            let found = filter.equalities()?;
            let mut names: Vec<String> = found.iter().map(|(n, _)| (*n).to_owned()).collect();
            names.sort();
            Some(names.join(" "))
        };
        assert_eq!(of(&both(equal("i", 1), equal("n", 2))), Some("i n".into()));
        assert_eq!(of(&both(equal("i", 1), equal("i", 2))), None);
        assert_eq!(of(&term(Type::Bool, TermKind::Not(equal("i", 1)))), None);
        assert_eq!(
            of(&compare(CompareOp::Less, column("i"), constant(1))),
            None
        );
    }
}
