//! Operations of an app as SQL statements.
//!
//! A condition keeps the meaning it has in memory: comparisons with null are false and `!=` true,
//! integers wrap, division by zero is null. Where SQL would differ, the statement says it another
//! way, and only there, so that plain comparisons still use the indexes.

use std::fmt::Write;

use event::{Schema, Type};
use lang::plan::{ArithmeticOp, CompareOp, Constant};
use lang::store::{Term, TermKind};

use super::dialect::{literal, quoted};

/// Nesting of a condition.
const DEPTH_MAX: usize = 200;

/// Compiles the terms of one statement.
pub struct Compiler<'a> {
    schema: &'a Schema,
    sql: String,
    depth: usize,
}

/// What a term is used as.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Value,
    /// Null counts as false where it stands.
    Condition,
    /// Below a `not`, or as a value: null must become false here.
    Strict,
}

/// Names of the functions that [`super::functions`] registers for arithmetic.
pub fn arithmetic_name(op: ArithmeticOp, ty: Type) -> String {
    let op = match op {
        ArithmeticOp::Add => "add",
        ArithmeticOp::Subtract => "subtract",
        ArithmeticOp::Multiply => "multiply",
        ArithmeticOp::Divide => "divide",
        ArithmeticOp::Modulo => "modulo",
    };
    format!("headwater_{op}_{}", ty.name())
}

/// A condition, to stand behind WHERE. The error names what cannot be said in SQL.
pub fn condition(schema: &Schema, term: &Term) -> Result<String, String> {
    let mut compiler = Compiler {
        schema,
        sql: String::new(),
        depth: 0,
    };
    compiler.term(term, Use::Condition)?;
    Ok(compiler.sql)
}

/// A value, to stand in SET.
pub fn value(schema: &Schema, term: &Term) -> Result<String, String> {
    let mut compiler = Compiler {
        schema,
        sql: String::new(),
        depth: 0,
    };
    compiler.term(
        term,
        if term.ty == Type::Bool {
            Use::Strict
        } else {
            Use::Value
        },
    )?;
    Ok(compiler.sql)
}

impl Compiler<'_> {
    fn term(&mut self, term: &Term, wanted: Use) -> Result<(), String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("a condition nests deeper than {DEPTH_MAX}"));
        }
        match &term.kind {
            TermKind::Column(index) => {
                let name = quoted(&self.schema.attributes[*index].name);
                self.plain(term, wanted, |c| c.sql.push_str(&name));
            }
            TermKind::Parameter(index) => {
                let text = format!("?{}", index + 1);
                self.plain(term, wanted, |c| c.sql.push_str(&text));
            }
            TermKind::Constant(constant) => self.constant(constant),
            TermKind::Arithmetic(op, left, right) => self.arithmetic(term.ty, *op, left, right)?,
            TermKind::Compare(op, left, right) => self.compare(*op, left, right, wanted)?,
            TermKind::And(left, right) => self.logic(left, " AND ", right, wanted)?,
            TermKind::Or(left, right) => self.logic(left, " OR ", right, wanted)?,
            TermKind::Not(inner) => {
                self.sql.push_str("(NOT ");
                self.term(inner, Use::Strict)?;
                self.sql.push(')');
            }
            TermKind::IsNull(inner) => {
                self.sql.push('(');
                self.term(inner, Use::Value)?;
                self.sql.push_str(" IS NULL)");
            }
            TermKind::Call { name, args } => self.call(name, args, wanted)?,
        }
        self.depth -= 1;
        Ok(())
    }

    /// A column or parameter; as a condition below `not` a null one is false.
    fn plain(&mut self, term: &Term, wanted: Use, write: impl FnOnce(&mut Self)) {
        if wanted == Use::Strict && term.ty == Type::Bool {
            self.sql.push_str("coalesce(");
            write(self);
            self.sql.push_str(", 0)");
        } else {
            write(self);
        }
    }

    fn constant(&mut self, constant: &Constant) {
        let text = match constant {
            Constant::Int(v) => v.to_string(),
            // The smallest LONG is no integer literal in SQL.
            Constant::Long(i64::MIN) => "(-9223372036854775807 - 1)".into(),
            Constant::Long(v) => v.to_string(),
            Constant::Float(v) => real(f64::from(*v)),
            Constant::Double(v) => real(*v),
            Constant::Bool(v) => u8::from(*v).to_string(),
            Constant::String(v) => literal(v),
        };
        self.sql.push_str(&text);
    }

    fn arithmetic(
        &mut self,
        ty: Type,
        op: ArithmeticOp,
        left: &Term,
        right: &Term,
    ) -> Result<(), String> {
        let name = arithmetic_name(op, ty);
        write!(self.sql, "{name}(").expect("writing to a string cannot fail");
        self.term(left, Use::Value)?;
        self.sql.push_str(", ");
        self.term(right, Use::Value)?;
        self.sql.push(')');
        Ok(())
    }

    fn compare(
        &mut self,
        op: CompareOp,
        left: &Term,
        right: &Term,
        wanted: Use,
    ) -> Result<(), String> {
        let (sign, of_null) = match op {
            CompareOp::Less => ("<", "0"),
            CompareOp::LessEqual => ("<=", "0"),
            CompareOp::Greater => (">", "0"),
            CompareOp::GreaterEqual => (">=", "0"),
            CompareOp::Equal => ("=", "0"),
            CompareOp::NotEqual => ("<>", "1"),
        };
        let must_say = wanted != Use::Condition || op == CompareOp::NotEqual;
        self.sql.push_str(if must_say { "coalesce(" } else { "(" });
        self.term(left, Use::Value)?;
        write!(self.sql, " {sign} ").expect("writing to a string cannot fail");
        self.term(right, Use::Value)?;
        if must_say {
            write!(self.sql, ", {of_null}").expect("writing to a string cannot fail");
        }
        self.sql.push(')');
        Ok(())
    }

    fn logic(&mut self, left: &Term, op: &str, right: &Term, wanted: Use) -> Result<(), String> {
        let inner = if wanted == Use::Condition {
            Use::Condition
        } else {
            Use::Strict
        };
        self.sql.push('(');
        self.term(left, inner)?;
        self.sql.push_str(op);
        self.term(right, inner)?;
        self.sql.push(')');
        Ok(())
    }

    fn call(&mut self, name: &str, args: &[Term], wanted: Use) -> Result<(), String> {
        let [text, part] = args else {
            return Err(unknown(name));
        };
        if name != "str:contains" {
            return Err(unknown(name));
        }
        self.sql.push_str(if wanted == Use::Condition {
            "("
        } else {
            "coalesce("
        });
        self.sql.push_str("instr(");
        self.term(text, Use::Value)?;
        self.sql.push_str(", ");
        self.term(part, Use::Value)?;
        self.sql.push_str(if wanted == Use::Condition {
            ") > 0)"
        } else {
            ") > 0, 0)"
        });
        Ok(())
    }
}

fn unknown(name: &str) -> String {
    format!(
        "function '{name}' cannot be applied to attributes of a table kept in a database: apply it \
         to the event, or select the rows first"
    )
}

/// A double as SQL reads it back. NaN compares as null does.
fn real(value: f64) -> String {
    if value.is_nan() {
        "NULL".into()
    } else if value.is_infinite() {
        if value > 0.0 {
            "9e999".into()
        } else {
            "-9e999".into()
        }
    } else {
        format!("{value:?}")
    }
}

#[cfg(test)]
mod tests {
    use event::Attribute;

    use super::*;

    fn schema() -> Schema {
        let attribute = |name: &str, ty| Attribute {
            name: name.into(),
            ty,
        };
        Schema {
            name: "T".into(),
            attributes: vec![
                attribute("id", Type::String),
                attribute("n", Type::Int),
                attribute("ok", Type::Bool),
            ],
        }
    }

    fn term(ty: Type, kind: TermKind) -> Term {
        Term { ty, kind }
    }

    fn column(index: usize) -> Box<Term> {
        Box::new(term(schema().attributes[index].ty, TermKind::Column(index)))
    }

    fn parameter(index: usize, ty: Type) -> Box<Term> {
        Box::new(term(ty, TermKind::Parameter(index)))
    }

    fn compare(op: CompareOp, left: Box<Term>, right: Box<Term>) -> Box<Term> {
        Box::new(term(Type::Bool, TermKind::Compare(op, left, right)))
    }

    fn check(term: &Term, expect: &str) {
        assert_eq!(condition(&schema(), term).as_deref(), Ok(expect));
    }

    #[test]
    fn conditions_in_sql() {
        let equal = || compare(CompareOp::Equal, column(0), parameter(0, Type::String));
        let other = || compare(CompareOp::NotEqual, column(1), parameter(1, Type::Int));
        check(&equal(), "(\"id\" = ?1)");
        check(&other(), "coalesce(\"n\" <> ?2, 1)");
        let both = term(Type::Bool, TermKind::And(equal(), other()));
        check(&both, "((\"id\" = ?1) AND coalesce(\"n\" <> ?2, 1))");
        let not = term(Type::Bool, TermKind::Not(equal()));
        check(&not, "(NOT coalesce(\"id\" = ?1, 0))");
        let not_flag = term(Type::Bool, TermKind::Not(column(2)));
        check(&not_flag, "(NOT coalesce(\"ok\", 0))");
        check(
            &term(Type::Bool, TermKind::IsNull(column(1))),
            "(\"n\" IS NULL)",
        );
        let one = Box::new(term(Type::Int, TermKind::Constant(Constant::Int(1))));
        let sum = Box::new(term(
            Type::Int,
            TermKind::Arithmetic(ArithmeticOp::Add, column(1), one),
        ));
        check(
            &compare(CompareOp::Greater, sum, parameter(0, Type::Int)),
            "(headwater_add_int(\"n\", 1) > ?1)",
        );
        let quote = term(
            Type::String,
            TermKind::Constant(Constant::String("o'x".into())),
        );
        check(
            &compare(CompareOp::Equal, column(0), Box::new(quote)),
            "(\"id\" = 'o''x')",
        );
    }

    #[test]
    fn what_sql_cannot_say_is_named() {
        let call = term(
            Type::Bool,
            TermKind::Call {
                name: "str:strcmp".into(),
                args: vec![*column(0), *column(0)],
            },
        );
        assert!(
            condition(&schema(), &call)
                .unwrap_err()
                .contains("'str:strcmp'")
        );
        let mut deep = *column(2);
        for _ in 0..1000 {
            deep = term(Type::Bool, TermKind::Not(Box::new(deep)));
        }
        assert!(condition(&schema(), &deep).unwrap_err().contains("nests"));
    }
}
