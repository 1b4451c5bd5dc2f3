//! Calls inside of calls that run as one: the objects that one would make for the other are never made.
//!
//! A call that is fused stays as it is beside it and decides whatever the fused one does not: a null, a
//! text that is no JSON, an error. So both have one set of rules, and the fused one only the ordinary case.

mod element;
mod template;

use event::column::View;
use event::{Column, Value};
use plan::{Constant, Expr, ExprKind};

/// What runs in place of a call.
pub(crate) trait Fused: Send {
    /// The results for columns of the leaves, one for each row; `None` where the calls themselves have to
    /// say.
    fn evaluate(&mut self, leaves: &[Column], rows: usize) -> Option<Column>;
}

pub(crate) struct Fusion {
    /// Where the arguments of the fused call stand among those of the call: for each the number of the
    /// argument, and inside of it further numbers.
    pub leaves: Vec<Vec<usize>>,
    pub call: Box<dyn Fused>,
}

/// The fused form of a call, if it has one.
pub(crate) fn fuse(name: &str, args: &[Expr]) -> Option<Fusion> {
    match name {
        "json:toString" => element::fuse(args),
        "str:fillTemplate" => template::fuse(args),
        _ => None,
    }
}

fn call(expr: &Expr) -> Option<(&str, &[Expr])> {
    match &expr.kind {
        ExprKind::Call { name, args, .. } => Some((name, args)),
        _ => None,
    }
}

fn constant_text(expr: &Expr) -> Option<&str> {
    match &expr.kind {
        ExprKind::Constant(Constant::String(text)) => Some(text),
        _ => None,
    }
}

/// One leaf, row by row.
struct Cells<'c> {
    column: &'c Column,
    view: View<'c>,
    nulls: Option<&'c [bool]>,
}

impl<'c> Cells<'c> {
    fn of(column: &'c Column) -> Cells<'c> {
        Cells {
            column,
            view: column.view(),
            nulls: column.nulls(),
        }
    }

    fn is_null(&self, row: usize) -> bool {
        match &self.view {
            View::Any(values) => values[row].is_null(),
            _ => self.nulls.is_some_and(|nulls| nulls[row]),
        }
    }

    fn value(&self, row: usize) -> Value {
        self.column.value(row)
    }
}

#[cfg(test)]
mod tests {
    use event::{ColumnBuilder, Type};
    use lang::span::Span;

    use super::*;
    use crate::function::testing;

    fn expr(kind: ExprKind, ty: Type) -> Expr {
        let span = Span::default();
        Expr { kind, ty, span }
    }

    fn constant(text: &str) -> Expr {
        expr(
            ExprKind::Constant(Constant::String(text.into())),
            Type::String,
        )
    }

    fn call_of(name: &str, args: Vec<Expr>, ty: Type) -> Expr {
        let name = name.into();
        expr(
            ExprKind::Call {
                name,
                args,
                event: None,
                is_effect: false,
            },
            ty,
        )
    }

    /// Stands for an attribute: a leaf is a column, whatever it was made of.
    fn leaf(ty: Type) -> Expr {
        call_of("leaf", Vec::new(), ty)
    }

    fn column(ty: Type, value: &Value) -> Column {
        let mut out = ColumnBuilder::new(ty);
        out.push(value);
        out.finish()
    }

    fn fused(fusion: &mut Fusion, leaves: &[(Type, Value)]) -> Option<Value> {
        let columns: Vec<Column> = leaves.iter().map(|(ty, v)| column(*ty, v)).collect();
        assert_eq!(fusion.leaves.len(), columns.len());
        Some(fusion.call.evaluate(&columns, 1)?.value(0))
    }

    const DOCUMENTS: &[&str] = &[
        "{}",
        " { } and more",
        r#"{"name":"John", "age":25, "citizen":false, "bar":[{"b":"x"},1.50,null]}"#,
        r#"{"k":1,"k":2,"a":{"k":[],"k":{}}}"#,
        r#"{"k":"<a='b'>&\u0041\t\ud83d\ude42\u2028", 'q':'it\'s'}"#,
        "{bare: word, n: 9999999999, d: 1e3, neg: -0, f: 1f, t: true}",
        "{a:1,b:2,c:3,d:4,e:5,f:6,g:7,h:8,i:9,j:10,k:11,l:12,m:13,n:14,o:15,p:16,q:17,a:18,k:19}",
        r#"{"Aa":1,"BB":2,"C#":3}"#,
        r#"{"deep":[[[[[[[[{"x":[[[[1]]]]}]]]]]]]]}"#,
        // What the calls themselves decide.
        "",
        "{",
        "[1]",
        "text",
        "5",
        "{\"inf\":1e999}",
    ];

    fn set(document: &Value, name: &str, value: &Value) -> Result<Value, String> {
        let args = [
            document.clone(),
            Value::str("$"),
            value.clone(),
            Value::str(name),
        ];
        testing::call("json:setElement", &args)
    }

    /// The last of the calls, with what they make of one another.
    fn plain(document: &str, puts: &[(&str, Value)]) -> Result<Value, String> {
        let object = testing::call("json:toObject", &[Value::str(document)])?;
        let put = |object: Value, (name, value): &(&str, Value)| set(&object, name, value);
        let object = puts.iter().try_fold(object, put)?;
        testing::call("json:toString", &[object])
    }

    #[test]
    fn elements_in_a_text_are_those_in_an_object() {
        let values = [
            (Type::Long, Value::Long(1 << 40)),
            (Type::Int, Value::Int(-3)),
            (Type::Bool, Value::Bool(true)),
            (Type::String, Value::str("a <b> \"c\" \u{2029}")),
            (Type::String, Value::Null),
            // Becomes an object.
            (Type::String, Value::str(" {a:1}")),
        ];
        let names = [
            &["k"] as &[&str],
            &["new", "k"],
            &["k", "k"],
            &["a", "b", "a"],
            &[],
        ];
        let (mut runs, mut left) = (0, 0);
        for names in names {
            for (ty, value) in &values {
                let mut document = call_of("json:toObject", vec![leaf(Type::String)], Type::Object);
                for name in names {
                    let args = vec![document, constant("$"), leaf(*ty), constant(name)];
                    document = call_of("json:setElement", args, Type::Object);
                }
                let mut fusion = fuse("json:toString", &[document]).expect("it is fused");
                for text in DOCUMENTS {
                    let mut leaves = vec![(Type::String, Value::str(text))];
                    leaves.extend(names.iter().map(|_| (*ty, value.clone())));
                    let puts: Vec<(&str, Value)> =
                        names.iter().map(|name| (*name, value.clone())).collect();
                    match fused(&mut fusion, &leaves) {
                        Some(out) => {
                            assert_eq!(Ok(out), plain(text, &puts), "{text} {puts:?}");
                            runs += 1;
                        }
                        None => left += 1,
                    }
                }
            }
        }
        assert!(
            runs > 200 && left > 100,
            "{runs} by the fused call, {left} left to the others"
        );
    }

    #[test]
    fn what_is_not_put_into_the_root_is_not_fused() {
        let object = || call_of("json:toObject", vec![leaf(Type::String)], Type::Object);
        let element = |place: Expr, value: Type, name: Expr| {
            let args = vec![object(), place, leaf(value), name];
            fuse(
                "json:toString",
                &[call_of("json:setElement", args, Type::Object)],
            )
            .is_some()
        };
        assert!(element(constant("$"), Type::Long, constant("k")));
        assert!(!element(constant("$.a"), Type::Long, constant("k")));
        assert!(!element(leaf(Type::String), Type::Long, constant("k")));
        assert!(!element(constant("$"), Type::Double, constant("k")));
        assert!(!element(constant("$"), Type::Long, leaf(Type::String)));
        assert!(fuse("json:toString", &[object()]).is_some());
        assert!(fuse("json:toString", &[object(), leaf(Type::Bool)]).is_none());
        assert!(fuse("json:toString", &[leaf(Type::Object)]).is_none());
    }

    #[test]
    fn templates_are_filled_alike() {
        let values = [
            (Type::String, Value::str("x")),
            (Type::Int, Value::Int(5)),
            (Type::Double, Value::Double(1.0)),
            (Type::String, Value::Null),
            (Type::Object, Value::Bool(true)),
        ];
        let keys = ["a", "b", "c", "d", "a"];
        let templates = [
            "",
            "{{a}}",
            "{\"x\":{\"y\":{{ a }}}} {{b}}{{c}} {{d}} {{none}} {{a}} {{",
            "{{0}}",
            "{{1}} {{2}}-{{ 3 }}-{{4}}{{5}} }} {{0}}",
            "{{6}}",
            "{{x}}",
        ];
        let mut runs = 0;
        for template in templates {
            let of_values: Vec<Value> = values.iter().map(|(_, v)| v.clone()).collect();
            let pairs = keys.iter().zip(&of_values);
            let pairs: Vec<Value> = pairs
                .flat_map(|(k, v)| [Value::str(k), v.clone()])
                .collect();
            let map = testing::call("map:create", &pairs).expect("it is made");
            let leaves = || values.iter().map(|(ty, _)| leaf(*ty));
            let in_map = keys
                .iter()
                .zip(leaves())
                .flat_map(|(k, v)| [constant(k), v]);
            let in_map = call_of("map:create", in_map.collect(), Type::Object);
            let forms = [
                (
                    vec![constant(template), in_map],
                    vec![Value::str(template), map],
                ),
                (
                    std::iter::once(constant(template))
                        .chain(leaves())
                        .collect(),
                    [vec![Value::str(template)], of_values].concat(),
                ),
            ];
            for (args, called_with) in forms {
                let expected = testing::call("str:fillTemplate", &called_with);
                match fuse("str:fillTemplate", &args) {
                    Some(mut fusion) => {
                        let out = fused(&mut fusion, &values).expect("no row is left");
                        assert_eq!(Ok(out), expected, "{template}");
                        runs += 1;
                    }
                    None => assert!(expected.is_err(), "{template}"),
                }
            }
        }
        assert!(runs > 8, "{runs} templates");
        let template = [leaf(Type::String), leaf(Type::Int)];
        assert!(fuse("str:fillTemplate", &template).is_none());
        let of_key = call_of(
            "map:create",
            vec![leaf(Type::String), leaf(Type::Int)],
            Type::Object,
        );
        assert!(fuse("str:fillTemplate", &[constant("{{a}}"), of_key]).is_none());
    }
}
