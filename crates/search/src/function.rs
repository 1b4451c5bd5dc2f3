//! Score functions: expressions over the score of a row, its time and its score parameters, in the manner of Lucene's
//! expressions.
//!
//! Promises: reading one takes time that is linear in its text, computing one that is linear in its size; neither
//! panics. A row that has no value counts 0 there.

use crate::error::Error;

/// Bytes of a function.
const TEXT_MAX: usize = 4096;

/// Parentheses, signs and calls inside each other.
const DEPTH_MAX: usize = 50;

/// A function that was read.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Function(Expression);

#[derive(Clone, PartialEq, Debug)]
enum Expression {
    Number(f64),
    /// Number of a value that is given.
    Variable(usize),
    One(Unary, Box<Expression>),
    Two(Binary, Box<Expression>, Box<Expression>),
    If(Box<Expression>, Box<Expression>, Box<Expression>),
    Call(Called, Vec<Expression>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unary {
    Minus,
    Not,
    Flip,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Binary {
    Or,
    And,
    BitOr,
    BitXor,
    BitAnd,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Left,
    Right,
    RightUnsigned,
    Plus,
    Minus,
    Times,
    Divide,
    Rest,
}

/// Signs with what binds them, the longest first.
const OPERATORS: &[(&str, Binary, u8)] = &[
    (">>>", Binary::RightUnsigned, 8),
    ("||", Binary::Or, 1),
    ("&&", Binary::And, 2),
    ("==", Binary::Equal, 6),
    ("!=", Binary::NotEqual, 6),
    ("<<", Binary::Left, 8),
    (">>", Binary::Right, 8),
    ("<=", Binary::LessEqual, 7),
    (">=", Binary::GreaterEqual, 7),
    ("|", Binary::BitOr, 3),
    ("^", Binary::BitXor, 4),
    ("&", Binary::BitAnd, 5),
    ("<", Binary::Less, 7),
    (">", Binary::Greater, 7),
    ("+", Binary::Plus, 9),
    ("-", Binary::Minus, 9),
    ("*", Binary::Times, 10),
    ("/", Binary::Divide, 10),
    ("%", Binary::Rest, 10),
];

#[derive(Clone, Copy, Debug)]
enum Called {
    One(fn(f64) -> f64),
    Two(fn(f64, f64) -> f64),
    /// Great circle distance in kilometres of two places in degrees.
    Haversin,
}

impl PartialEq for Called {
    fn eq(&self, other: &Called) -> bool {
        let address = |called: &Called| match called {
            Called::One(function) => *function as usize,
            Called::Two(function) => *function as usize,
            Called::Haversin => 0,
        };
        address(self) == address(other)
    }
}

const FUNCTIONS: &[(&str, Called)] = &[
    ("abs", Called::One(f64::abs)),
    ("acos", Called::One(f64::acos)),
    ("acosh", Called::One(f64::acosh)),
    ("asin", Called::One(f64::asin)),
    ("asinh", Called::One(f64::asinh)),
    ("atan", Called::One(f64::atan)),
    ("atan2", Called::Two(f64::atan2)),
    ("atanh", Called::One(f64::atanh)),
    ("ceil", Called::One(f64::ceil)),
    ("cos", Called::One(f64::cos)),
    ("cosh", Called::One(f64::cosh)),
    ("exp", Called::One(f64::exp)),
    ("floor", Called::One(f64::floor)),
    ("haversin", Called::Haversin),
    ("ln", Called::One(f64::ln)),
    ("log10", Called::One(f64::log10)),
    ("logn", Called::Two(|base, value| value.ln() / base.ln())),
    ("max", Called::Two(f64::max)),
    ("min", Called::Two(f64::min)),
    ("pow", Called::Two(f64::powf)),
    ("sin", Called::One(f64::sin)),
    ("sinh", Called::One(f64::sinh)),
    ("sqrt", Called::One(f64::sqrt)),
    ("tan", Called::One(f64::tan)),
    ("tanh", Called::One(f64::tanh)),
];

impl Function {
    /// The function that is 1 for each row, which is what none means.
    pub fn one() -> Function {
        Function(Expression::Number(1.0))
    }

    /// Reads a function; `variable` gives numbers to names.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn parse(text: &str, variable: &dyn Fn(&str) -> Option<usize>) -> Result<Function, Error> {
        let mut parser = Parser {
            text,
            at: 0,
            variable,
        };
        let parsed = match text.len() > TEXT_MAX {
            true => Err(format!("it has more than {TEXT_MAX} bytes")),
            false => parser.whole(),
        };
        parsed.map(Function).map_err(|message| {
            let at = text[..parser.at].chars().count() + 1;
            Error::Request(format!(
                "Error while evaluating the score function: {message} (at character {at} of '{text}')"
            ))
        })
    }

    /// Its value, of the values that `variable` gave numbers to.
    pub fn value(&self, values: &[f64]) -> f64 {
        self.0.value(values)
    }
}

impl Expression {
    fn value(&self, values: &[f64]) -> f64 {
        match self {
            Expression::Number(value) => *value,
            Expression::Variable(at) => values.get(*at).copied().unwrap_or(0.0),
            Expression::One(sign, of) => {
                let value = of.value(values);
                match sign {
                    Unary::Minus => -value,
                    Unary::Not => f64::from(u8::from(value == 0.0)),
                    Unary::Flip => !(value as i64) as f64,
                }
            }
            Expression::Two(Binary::Or, a, b) => {
                truth(a.value(values) != 0.0 || b.value(values) != 0.0)
            }
            Expression::Two(Binary::And, a, b) => {
                truth(a.value(values) != 0.0 && b.value(values) != 0.0)
            }
            Expression::Two(sign, a, b) => combine(*sign, a.value(values), b.value(values)),
            Expression::If(condition, then, other) => match condition.value(values) != 0.0 {
                true => then.value(values),
                false => other.value(values),
            },
            Expression::Call(called, arguments) => {
                let argument = |at: usize| arguments[at].value(values);
                match called {
                    Called::One(function) => function(argument(0)),
                    Called::Two(function) => function(argument(0), argument(1)),
                    Called::Haversin => {
                        haversin(argument(0), argument(1), argument(2), argument(3))
                    }
                }
            }
        }
    }
}

fn truth(is: bool) -> f64 {
    f64::from(u8::from(is))
}

fn combine(sign: Binary, a: f64, b: f64) -> f64 {
    // As in Java: bits are those of a long, and shifts count to 63.
    let (x, y) = (a as i64, b as i64);
    match sign {
        Binary::Or | Binary::And => truth(false),
        Binary::BitOr => (x | y) as f64,
        Binary::BitXor => (x ^ y) as f64,
        Binary::BitAnd => (x & y) as f64,
        Binary::Equal => truth(a == b),
        Binary::NotEqual => truth(a != b),
        Binary::Less => truth(a < b),
        Binary::LessEqual => truth(a <= b),
        Binary::Greater => truth(a > b),
        Binary::GreaterEqual => truth(a >= b),
        Binary::Left => x.wrapping_shl(y as u32) as f64,
        Binary::Right => x.wrapping_shr(y as u32) as f64,
        Binary::RightUnsigned => (x as u64).wrapping_shr(y as u32) as i64 as f64,
        Binary::Plus => a + b,
        Binary::Minus => a - b,
        Binary::Times => a * b,
        Binary::Divide => a / b,
        Binary::Rest => a % b,
    }
}

fn haversin(lat1: f64, lon1: f64, lat2: f64, lon2: f64) -> f64 {
    const DIAMETER: f64 = 12_742.018;
    let half = |a: f64, b: f64| ((b - a).to_radians() / 2.0).sin().powi(2);
    let h = half(lat1, lat2) + lat1.to_radians().cos() * lat2.to_radians().cos() * half(lon1, lon2);
    DIAMETER * h.sqrt().min(1.0).asin()
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    variable: &'a dyn Fn(&str) -> Option<usize>,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn take(&mut self, sign: &str) -> bool {
        self.skip_space();
        let is_there = self.rest().starts_with(sign);
        self.at += if is_there { sign.len() } else { 0 };
        is_there
    }

    fn whole(&mut self) -> Result<Expression, String> {
        let expression = self.condition(0)?;
        self.skip_space();
        match self.rest().chars().next() {
            None => Ok(expression),
            Some(c) => Err(format!("'{c}' stands behind the end")),
        }
    }

    /// `a ? b : c`.
    fn condition(&mut self, depth: usize) -> Result<Expression, String> {
        if depth > DEPTH_MAX {
            return Err(format!("it is nested deeper than {DEPTH_MAX} levels"));
        }
        let condition = self.operation(0, depth)?;
        if !self.take("?") {
            return Ok(condition);
        }
        let then = self.condition(depth + 1)?;
        if !self.take(":") {
            return Err("':' is missing behind '?'".to_owned());
        }
        let other = self.condition(depth + 1)?;
        Ok(Expression::If(
            Box::new(condition),
            Box::new(then),
            Box::new(other),
        ))
    }

    /// Operators that bind at least so.
    fn operation(&mut self, least: u8, depth: usize) -> Result<Expression, String> {
        let mut left = self.operand(depth)?;
        let mut count = 0;
        loop {
            self.skip_space();
            let found = OPERATORS
                .iter()
                .find(|(sign, ..)| self.rest().starts_with(sign));
            let Some((sign, operator, binding)) = found.filter(|(.., binding)| *binding > least)
            else {
                return Ok(left);
            };
            // A chain of them is as deep as it is long.
            count += 1;
            if depth + count > DEPTH_MAX {
                return Err(format!("it is nested deeper than {DEPTH_MAX} levels"));
            }
            self.at += sign.len();
            let right = self.operation(*binding, depth + 1)?;
            left = Expression::Two(*operator, Box::new(left), Box::new(right));
        }
    }

    fn operand(&mut self, depth: usize) -> Result<Expression, String> {
        if depth > DEPTH_MAX {
            return Err(format!("it is nested deeper than {DEPTH_MAX} levels"));
        }
        for (sign, unary) in [("-", Unary::Minus), ("!", Unary::Not), ("~", Unary::Flip)] {
            if self.take(sign) {
                let of = self.operand(depth + 1)?;
                return Ok(Expression::One(unary, Box::new(of)));
            }
        }
        if self.take("+") {
            return self.operand(depth + 1);
        }
        if self.take("(") {
            let inner = self.condition(depth + 1)?;
            return match self.take(")") {
                true => Ok(inner),
                false => Err("')' is missing".to_owned()),
            };
        }
        self.skip_space();
        let rest = self.rest();
        match rest.chars().next() {
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(),
            Some(c) if c.is_alphabetic() || c == '_' => self.name(depth),
            Some(c) => Err(format!("'{c}' stands where a value is expected")),
            None => Err("it ends where a value is expected".to_owned()),
        }
    }

    fn number(&mut self) -> Result<Expression, String> {
        let rest = self.rest();
        if let Some(hex) = rest.strip_prefix("0x").or(rest.strip_prefix("0X")) {
            let len = hex
                .find(|c: char| !c.is_ascii_hexdigit())
                .unwrap_or(hex.len());
            let value = i64::from_str_radix(&hex[..len], 16);
            let value = value.map_err(|_| "this is no hexadecimal number".to_owned())?;
            self.at += 2 + len;
            return Ok(Expression::Number(value as f64));
        }
        let digits = |text: &str| {
            text.find(|c: char| !c.is_ascii_digit())
                .unwrap_or(text.len())
        };
        let mut len = digits(rest);
        if rest[len..].starts_with('.') {
            len += 1 + digits(&rest[len + 1..]);
        }
        if rest[len..].starts_with(['e', 'E']) {
            let sign = usize::from(rest[len + 1..].starts_with(['+', '-']));
            let exponent = digits(&rest[len + 1 + sign..]);
            if exponent > 0 {
                len += 1 + sign + exponent;
            }
        }
        let value = rest[..len]
            .parse()
            .map_err(|_| "this is no number".to_owned())?;
        self.at += len;
        Ok(Expression::Number(value))
    }

    fn name(&mut self, depth: usize) -> Result<Expression, String> {
        let rest = self.rest();
        let len = rest.find(|c: char| !(c.is_alphanumeric() || c == '_'));
        let name = &rest[..len.unwrap_or(rest.len())];
        let begin = self.at;
        self.at += name.len();
        if !self.take("(") {
            return match (self.variable)(name) {
                Some(at) => Ok(Expression::Variable(at)),
                None => {
                    self.at = begin;
                    Err(format!(
                        "there is no score parameter '{name}': write _score, _timestamp or a column with the flag -sp"
                    ))
                }
            };
        }
        let Some((_, called)) = FUNCTIONS.iter().find(|(own, _)| *own == name) else {
            self.at = begin;
            return Err(format!("there is no function '{name}'"));
        };
        let mut arguments = Vec::new();
        if !self.take(")") {
            loop {
                arguments.push(self.condition(depth + 1)?);
                if self.take(")") {
                    break;
                }
                if !self.take(",") {
                    return Err("')' is missing".to_owned());
                }
            }
        }
        let want = match called {
            Called::One(_) => 1,
            Called::Two(_) => 2,
            Called::Haversin => 4,
        };
        if arguments.len() != want {
            self.at = begin;
            return Err(format!(
                "function '{name}' takes {want} values, not {}",
                arguments.len()
            ));
        }
        Ok(Expression::Call(*called, arguments))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 3] = ["_score", "_timestamp", "price"];

    fn parse(text: &str) -> Result<Function, Error> {
        Function::parse(text, &|name| NAMES.iter().position(|own| *own == name))
    }

    #[test]
    fn functions_are_computed() {
        for (text, value) in [
            ("1", 1.0),
            ("1 + 2 * 3", 7.0),
            ("(1 + 2) * 3", 9.0),
            ("7 - 2 - 1", 4.0),
            ("-2 * -3", 6.0),
            ("7 % 4", 3.0),
            ("1 / 0", f64::INFINITY),
            ("_score * price", 5.0),
            ("_timestamp > 999 ? price : 0", 2.0),
            ("_timestamp < 999 ? price : 3 > 2 ? 8 : 9", 8.0),
            ("1 == 1 && 2 != 2 || !0", 1.0),
            ("5 & 3 | 8", 9.0),
            ("~0 ^ 1", -2.0),
            ("1 << 4 >> 2", 4.0),
            ("-1 >>> 60", 15.0),
            ("sqrt(pow(price, 2)) + max(1, 3)", 5.0),
            ("logn(2, 8)", 3.0),
            ("1.5e2 + 0x10 + .5", 166.5),
            ("abs(-3)", 3.0),
        ] {
            let function = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(function.value(&[2.5, 1000.0, 2.0]), value, "{text}");
        }
        let far = parse("haversin(52.52, 13.40, 48.14, 11.58)")
            .expect("read")
            .value(&[]);
        assert!((far - 504.0).abs() < 2.0, "{far}");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, says, at) in [
            ("", "ends where a value", 1),
            ("1 +", "ends where a value", 4),
            ("1 2", "'2' stands behind the end", 3),
            ("(1", "')' is missing", 3),
            ("1 ? 2", "':' is missing", 6),
            ("cost * 2", "no score parameter 'cost'", 1),
            ("1 + f(2)", "no function 'f'", 5),
            ("max(1)", "takes 2 values, not 1", 1),
            ("1 + *", "'*' stands where", 5),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(
                error.starts_with("Error while evaluating the score function: "),
                "{error}"
            );
            let place = format!("(at character {at} of");
            assert!(
                error.contains(says) && error.contains(&place),
                "{text}: {error}"
            );
        }
        for deep in [
            "(".repeat(100),
            "-".repeat(100),
            "1+".repeat(100),
            "1?".repeat(100),
        ] {
            let error = parse(&format!("{deep}1"))
                .expect_err("too deep")
                .to_string();
            assert!(error.contains("nested deeper"), "{error}");
        }
    }
}
