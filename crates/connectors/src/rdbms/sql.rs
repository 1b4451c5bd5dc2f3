//! Operations of an app as SQL.
//!
//! A condition keeps the meaning it has in memory: comparisons with null are false and `!=` true,
//! division by zero is null. Where SQL would differ, the statement says it another way, and only
//! there, so that plain comparisons still use the indexes. Whole numbers wrap in the embedded
//! database; a server refuses what overflows, and the row is rejected.

use event::{Schema, Type};
use plan::store::{Term, TermKind};
use plan::{ArithmeticOp, CompareOp, Constant};

use super::dialect::Dialect;

/// Nesting of a condition.
const DEPTH_MAX: usize = 200;

/// A statement, or a part of one, with places for parameters.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Sql {
    text: String,
    /// Where in the text a parameter stands, and which (from 0); in the order of the text.
    places: Vec<(usize, usize)>,
}

impl Sql {
    pub fn text(text: &str) -> Sql {
        Sql {
            text: text.to_owned(),
            places: Vec::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty() && self.places.is_empty()
    }

    pub fn push_str(&mut self, text: &str) {
        self.text.push_str(text);
    }

    pub fn parameter(&mut self, index: usize) {
        self.places.push((self.text.len(), index));
    }

    /// The first `count` parameters, with commas in between.
    pub fn parameters(&mut self, count: usize) {
        for index in 0..count {
            if index > 0 {
                self.push_str(", ");
            }
            self.parameter(index);
        }
    }

    pub fn append(&mut self, other: &Sql) {
        let start = self.text.len();
        self.text.push_str(&other.text);
        self.places
            .extend(other.places.iter().map(|(at, index)| (start + at, *index)));
    }

    /// Parameters in the order in which they stand.
    pub fn order(&self) -> impl Iterator<Item = usize> + '_ {
        self.places.iter().map(|(_, index)| *index)
    }

    /// The text between the parameters: one part more than there are parameters.
    pub fn parts(&self) -> impl Iterator<Item = &str> + '_ {
        let ends = self.places.iter().map(|(at, _)| *at);
        let starts = std::iter::once(0).chain(ends.clone());
        let ends = ends.chain(std::iter::once(self.text.len()));
        starts.zip(ends).map(|(start, end)| &self.text[start..end])
    }

    /// The text with the dialect's marks in the places of parameters.
    pub fn marked(&self, dialect: &dyn Dialect) -> String {
        let mut out = String::with_capacity(self.text.len() + 4 * self.places.len());
        let mut order = self.order();
        for part in self.parts() {
            out.push_str(part);
            if let Some(index) = order.next() {
                dialect.placeholder(index, &mut out);
            }
        }
        out
    }
}

/// Compiles the terms of one statement.
#[derive(Clone, Copy)]
pub struct Compiler<'a> {
    pub dialect: &'a dyn Dialect,
    pub schema: &'a Schema,
    /// What stands before a column's name.
    pub qualifier: &'a str,
}

/// What a term is used as.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Value,
    /// Null counts as false where it stands.
    Condition,
    /// Below a `not`: null must become false here.
    Strict,
    /// A value of BOOL that is stored: null must become false here.
    Flag,
}

impl Compiler<'_> {
    /// A condition, to stand behind WHERE. The error names what cannot be said in SQL.
    pub fn condition(&self, term: &Term) -> Result<Sql, String> {
        self.term(term, Use::Condition, 0)
    }

    /// A value, to stand in SET.
    pub fn value(&self, term: &Term) -> Result<Sql, String> {
        let wanted = match term.ty {
            Type::Bool => Use::Flag,
            _ => Use::Value,
        };
        self.term(term, wanted, 0)
    }

    fn term(&self, term: &Term, wanted: Use, depth: usize) -> Result<Sql, String> {
        if depth > DEPTH_MAX {
            return Err(format!("a condition nests deeper than {DEPTH_MAX}"));
        }
        if term.ty == Type::Bool && !self.dialect.has_booleans() {
            return self.flag(term, wanted, depth);
        }
        self.said(term, wanted, depth)
    }

    fn said(&self, term: &Term, wanted: Use, depth: usize) -> Result<Sql, String> {
        let below = depth + 1;
        match &term.kind {
            TermKind::Column(index) => {
                let name = self.dialect.column(&self.schema.attributes[*index].name);
                let column = Sql::text(&format!("{}{name}", self.qualifier));
                Ok(self.plain(term, wanted, column))
            }
            TermKind::Parameter(index) => {
                let mut parameter = Sql::default();
                parameter.parameter(*index);
                Ok(self.plain(term, wanted, parameter))
            }
            TermKind::Constant(constant) => Ok(Sql::text(&self.constant(constant)?)),
            TermKind::Arithmetic(op, left, right) => {
                let (left, right) = self.both(left, right, Use::Value, below)?;
                Ok(self.arithmetic(*op, term.ty, &left, &right))
            }
            TermKind::Compare(op, left, right) => {
                let (left, right) = self.both(left, right, Use::Value, below)?;
                Ok(self.compare(*op, &left, &right, wanted))
            }
            TermKind::And(left, right) => self.logic(left, " AND ", right, wanted, below),
            TermKind::Or(left, right) => self.logic(left, " OR ", right, wanted, below),
            TermKind::Not(inner) => {
                let inner = self.term(inner, Use::Strict, below)?;
                Ok(around("(NOT ", &inner, ")"))
            }
            TermKind::IsNull(inner) => {
                let inner = self.term(inner, Use::Value, below)?;
                Ok(around("(", &inner, " IS NULL)"))
            }
            TermKind::Call { name, args } => self.call(name, args, wanted, below),
        }
    }

    /// A term of BOOL where conditions are no values: a condition, or the 1 or 0 that stands for it.
    fn flag(&self, term: &Term, wanted: Use, depth: usize) -> Result<Sql, String> {
        let is_plain = matches!(
            term.kind,
            TermKind::Column(_) | TermKind::Parameter(_) | TermKind::Constant(_)
        );
        let is_condition = matches!(wanted, Use::Condition | Use::Strict);
        match (is_plain, is_condition) {
            (true, true) => Ok(around("(", &self.said(term, wanted, depth)?, " = 1)")),
            (true, false) => self.said(term, wanted, depth),
            (false, true) => self.predicate(term, wanted == Use::Strict, depth),
            (false, false) => {
                let condition = self.predicate(term, false, depth)?;
                Ok(around("CASE WHEN ", &condition, " THEN 1 ELSE 0 END"))
            }
        }
    }

    /// A condition; a strict one is false where it would be unknown.
    fn predicate(&self, term: &Term, is_strict: bool, depth: usize) -> Result<Sql, String> {
        let below = depth + 1;
        let strictly = |sql: &Sql| around("(CASE WHEN ", sql, " THEN 1 ELSE 0 END = 1)");
        match &term.kind {
            // What is null is not equal.
            TermKind::Compare(CompareOp::NotEqual, left, right) => {
                let (left, right) = self.both(left, right, Use::Value, below)?;
                let equal = compared(CompareOp::Equal, &left, &right);
                Ok(around("(CASE WHEN ", &equal, " THEN 0 ELSE 1 END = 1)"))
            }
            TermKind::Compare(op, left, right) => {
                let (left, right) = self.both(left, right, Use::Value, below)?;
                let sql = compared(*op, &left, &right);
                Ok(match is_strict {
                    true => strictly(&sql),
                    false => around("(", &sql, ")"),
                })
            }
            TermKind::Call { name, args } => {
                let sql = self.call(name, args, Use::Condition, below)?;
                Ok(match is_strict {
                    true => strictly(&sql),
                    false => sql,
                })
            }
            // The others pass on what is wanted of them.
            _ => {
                let wanted = match is_strict {
                    true => Use::Strict,
                    false => Use::Condition,
                };
                self.said(term, wanted, depth)
            }
        }
    }

    fn both(
        &self,
        left: &Term,
        right: &Term,
        wanted: Use,
        depth: usize,
    ) -> Result<(Sql, Sql), String> {
        Ok((
            self.term(left, wanted, depth)?,
            self.term(right, wanted, depth)?,
        ))
    }

    /// What is null instead is `value`.
    fn or_else(&self, sql: &Sql, value: bool) -> Sql {
        let end = format!(", {})", self.dialect.boolean(value));
        around("coalesce(", sql, &end)
    }

    /// A column or parameter; as a condition below `not` a null one is false.
    fn plain(&self, term: &Term, wanted: Use, sql: Sql) -> Sql {
        match wanted {
            Use::Strict | Use::Flag if term.ty == Type::Bool => self.or_else(&sql, false),
            _ => sql,
        }
    }

    fn constant(&self, constant: &Constant) -> Result<String, String> {
        Ok(match constant {
            Constant::Int(v) => v.to_string(),
            // The smallest LONG is not an integer literal in SQL.
            Constant::Long(i64::MIN) => "(-9223372036854775807 - 1)".into(),
            Constant::Long(v) => v.to_string(),
            Constant::Float(v) => self.real(f64::from(*v)),
            Constant::Double(v) => self.real(*v),
            Constant::Bool(v) => self.dialect.boolean(*v).into(),
            Constant::String(v) => self.dialect.literal(v)?,
        })
    }

    /// NaN compares as null does.
    fn real(&self, value: f64) -> String {
        match value.is_nan() {
            true => "NULL".into(),
            false => self.dialect.real(value),
        }
    }

    fn arithmetic(&self, op: ArithmeticOp, ty: Type, left: &Sql, right: &Sql) -> Sql {
        self.dialect.arithmetic(op, ty, left, right)
    }

    fn compare(&self, op: CompareOp, left: &Sql, right: &Sql, wanted: Use) -> Sql {
        let sql = compared(op, left, right);
        if wanted != Use::Condition || op == CompareOp::NotEqual {
            return self.or_else(&sql, op == CompareOp::NotEqual);
        }
        around("(", &sql, ")")
    }

    fn logic(
        &self,
        left: &Term,
        op: &str,
        right: &Term,
        wanted: Use,
        depth: usize,
    ) -> Result<Sql, String> {
        let inner = match wanted {
            Use::Condition => Use::Condition,
            _ => Use::Strict,
        };
        let (left, right) = self.both(left, right, inner, depth)?;
        let mut sql = around("(", &left, op);
        sql.append(&right);
        sql.push_str(")");
        Ok(sql)
    }

    fn call(&self, name: &str, args: &[Term], wanted: Use, depth: usize) -> Result<Sql, String> {
        let [text, part] = args else {
            return Err(unknown(name));
        };
        if name != "str:contains" {
            return Err(unknown(name));
        }
        let (text, part) = self.both(text, part, Use::Value, depth)?;
        let found = self.dialect.contains(&text, &part);
        Ok(match wanted {
            Use::Condition => around("(", &found, ")"),
            _ => self.or_else(&found, false),
        })
    }
}

fn compared(op: CompareOp, left: &Sql, right: &Sql) -> Sql {
    let sign = match op {
        CompareOp::Less => " < ",
        CompareOp::LessEqual => " <= ",
        CompareOp::Greater => " > ",
        CompareOp::GreaterEqual => " >= ",
        CompareOp::Equal => " = ",
        CompareOp::NotEqual => " <> ",
    };
    let mut sql = left.clone();
    sql.push_str(sign);
    sql.append(right);
    sql
}

fn around(begin: &str, sql: &Sql, end: &str) -> Sql {
    let mut around = Sql::text(begin);
    around.append(sql);
    around.push_str(end);
    around
}

fn unknown(name: &str) -> String {
    format!(
        "function '{name}' cannot be applied to attributes of a table kept in a database: apply it \
         to the event, or select the rows first"
    )
}

#[cfg(test)]
mod tests {
    use event::Attribute;

    use super::*;
    use crate::rdbms::dialect::{MYSQL, POSTGRES, SQLITE};

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

    fn condition(dialect: &dyn Dialect, term: &Term) -> Result<String, String> {
        let compiler = Compiler {
            dialect,
            schema: &schema(),
            qualifier: "",
        };
        Ok(compiler.condition(term)?.marked(dialect))
    }

    fn check(term: &Term, expect: &str) {
        assert_eq!(condition(SQLITE, term).as_deref(), Ok(expect));
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
            condition(SQLITE, &call)
                .unwrap_err()
                .contains("'str:strcmp'")
        );
        let mut deep = *column(2);
        for _ in 0..1000 {
            deep = term(Type::Bool, TermKind::Not(Box::new(deep)));
        }
        assert!(condition(SQLITE, &deep).unwrap_err().contains("nests"));
    }

    #[test]
    fn conditions_of_servers() {
        let check = |term: &Term, mysql: &str, postgres: &str| {
            assert_eq!(condition(MYSQL, term).as_deref(), Ok(mysql));
            assert_eq!(condition(POSTGRES, term).as_deref(), Ok(postgres));
        };
        let other = compare(CompareOp::NotEqual, column(1), parameter(1, Type::Int));
        check(&other, "coalesce(`n` <> ?, 1)", "coalesce(n <> $2, true)");
        check(
            &term(Type::Bool, TermKind::Not(column(2))),
            "(NOT coalesce(`ok`, 0))",
            "(NOT coalesce(ok, false))",
        );
        let half = term(
            Type::Int,
            TermKind::Arithmetic(ArithmeticOp::Divide, column(1), parameter(0, Type::Int)),
        );
        check(
            &compare(CompareOp::Less, Box::new(half), column(1)),
            "((`n` DIV ?) < `n`)",
            "((n::int4 / NULLIF($1::int4, 0)) < n)",
        );
        let call = TermKind::Call {
            name: "str:contains".into(),
            args: vec![*column(0), *parameter(0, Type::String)],
        };
        check(
            &term(Type::Bool, call),
            "(INSTR(BINARY `id`, BINARY ?) > 0)",
            "(strpos(id, $1) > 0)",
        );
        let text = |text: &str| {
            Box::new(term(
                Type::String,
                TermKind::Constant(Constant::String(text.into())),
            ))
        };
        check(
            &compare(CompareOp::Equal, column(0), text("o'\\x")),
            "(`id` = 'o\\'\\\\x')",
            "(id = 'o''\\x')",
        );
        let nul = compare(CompareOp::Equal, column(0), text("\0"));
        assert!(condition(POSTGRES, &nul).is_err());
    }
}
