//! Parts of a plan as text: expressions, calls, patterns and where rows come from.
//!
//! Promises: the same part gives the same text, for what is kept is told apart by it
//! ([`crate::state`]). Never: the value of an argument that is a secret.

use event::Schema;
use lang::ast::{Index, LogicalOp, PatternKind};

use crate::{
    ArithmeticOp, CompareOp, Constant, Expr, ExprKind, From, Handler, OUTPUT, Pattern,
    PatternElement, Plan, StreamFunctionCall,
};

macro_rules! put {
    ($out:expr, $($arg:tt)*) => { $out.push_str(&format!($($arg)*)) };
}

/// What the inputs of an expression are called; an empty name is left out.
#[derive(Clone, Copy)]
pub struct Names<'a> {
    pub plan: &'a Plan,
    pub inputs: &'a [(&'a str, &'a Schema)],
    /// The row that a selector makes, for `having` and `order by`.
    pub output: Option<&'a Schema>,
}

impl<'a> Names<'a> {
    pub fn new(plan: &'a Plan, inputs: &'a [(&'a str, &'a Schema)]) -> Names<'a> {
        Names {
            plan,
            inputs,
            output: None,
        }
    }

    fn event(&self, input: u16, index: Option<Index>) -> String {
        let name = self
            .inputs
            .get(usize::from(input))
            .map_or("", |(name, _)| name);
        match index {
            None => name.to_owned(),
            Some(Index::At(i)) => format!("{name}[{i}]"),
            Some(Index::Last(0)) => format!("{name}[last]"),
            Some(Index::Last(i)) => format!("{name}[last - {i}]"),
        }
    }

    fn attribute(&self, input: u16, index: Option<Index>, attribute: usize) -> String {
        let named = |schema: &Schema| {
            schema
                .attributes
                .get(attribute)
                .map_or("?", |a| a.name.as_str())
                .to_owned()
        };
        if input == OUTPUT {
            return self.output.map_or_else(|| "?".to_owned(), named);
        }
        let name = match self.inputs.get(usize::from(input)) {
            Some((_, schema)) => named(schema),
            // A row of a table that `in` looks into.
            None => format!("row.{attribute}"),
        };
        match self.event(input, index) {
            event if event.is_empty() => name,
            event => format!("{event}.{name}"),
        }
    }
}

pub fn source(plan: &Plan, from: From) -> String {
    match from {
        From::Stream(id) => plan.streams[id].display_name(),
        From::Window(id) => format!("window {}", plan.windows[id].schema.name),
        From::Table(id) => format!("table {}", plan.tables[id].schema.name),
        From::Aggregation(id) => format!("aggregation {}", plan.aggregations[id].name),
    }
}

pub fn handlers(text: &mut String, handlers: &[Handler], inputs: &Names) {
    for handler in handlers {
        match handler {
            Handler::Filter(condition) => put!(text, " [{}]", expr(condition, inputs)),
            Handler::Window(w) => put!(text, " #window.{}", call(&w.name, &w.args, inputs)),
            Handler::Function(f) => put!(text, " #{}", function_call(f, inputs)),
        };
    }
}

pub fn pattern(pattern: &Pattern, inputs: &Names) -> String {
    let kind = match pattern.kind {
        PatternKind::Pattern => "pattern",
        PatternKind::Sequence => "sequence",
    };
    let mut text = format!("{kind} {}", element(pattern, &pattern.root, inputs, 0));
    if let Some(within) = pattern.within {
        put!(text, " within {}", millis(within));
    }
    text
}

fn element(pattern: &Pattern, element: &PatternElement, inputs: &Names, depth: usize) -> String {
    // The parser lets patterns nest less deep than this.
    if depth > 200 {
        return "…".to_owned();
    }
    let inner = |e: &PatternElement| self::element(pattern, e, inputs, depth + 1);
    let reference = |id: usize| {
        let reference = &pattern.references[id];
        let stream = source(inputs.plan, reference.from);
        let mut text = match reference.name == stream {
            true => stream,
            false => format!("{}={stream}", reference.name),
        };
        handlers(&mut text, &reference.handlers, inputs);
        text
    };
    match element {
        PatternElement::Every(e) => format!("every ({})", inner(e)),
        PatternElement::Chain(chain) => {
            let sign = match pattern.kind {
                PatternKind::Pattern => " -> ",
                PatternKind::Sequence => ", ",
            };
            chain.iter().map(inner).collect::<Vec<_>>().join(sign)
        }
        PatternElement::Stream(id) => reference(*id),
        PatternElement::Count {
            reference: id,
            min,
            max,
        } => {
            let max = max.map_or(String::new(), |m| m.to_string());
            format!("{}<{min}:{max}>", reference(*id))
        }
        PatternElement::Logical { left, op, right } => {
            let op = match op {
                LogicalOp::And => "and",
                LogicalOp::Or => "or",
            };
            format!("({} {op} {})", inner(left), inner(right))
        }
        PatternElement::Absent {
            reference: id,
            wait,
        } => match wait {
            Some(wait) => format!("not {} for {}", reference(*id), millis(*wait)),
            None => format!("not {}", reference(*id)),
        },
    }
}

pub fn call(name: &str, args: &[Expr], inputs: &Names) -> String {
    let args: Vec<String> = args.iter().map(|e| expr(e, inputs)).collect();
    format!("{name}({})", args.join(", "))
}

/// As [`call`]; secrets are not for reading.
fn function_call(call: &StreamFunctionCall, inputs: &Names) -> String {
    let (name, secrets) = (&call.name, &call.secrets);
    let args = call.args.iter().enumerate();
    let args: Vec<String> = args
        .map(|(index, arg)| match secrets.contains(&index) {
            true => "…".to_owned(),
            false => expr(arg, inputs),
        })
        .collect();
    format!("{name}({})", args.join(", "))
}

pub fn expr(e: &Expr, inputs: &Names) -> String {
    let mut text = String::new();
    write_expr(&mut text, e, inputs, 0, 0);
    text
}

/// Deeper parts are shown as `…`: the text is for people, and recursion has to end.
const DEPTH_MAX: u32 = 60;

/// Binding strengths, weakest first: or, and, equality, order, sum, product, not.
fn strength(kind: &ExprKind) -> u8 {
    match kind {
        ExprKind::Or(..) => 1,
        ExprKind::And(..) => 2,
        ExprKind::In { .. } => 3,
        ExprKind::Compare(CompareOp::Equal | CompareOp::NotEqual, ..) => 4,
        ExprKind::Compare(..) => 5,
        ExprKind::Arithmetic(ArithmeticOp::Add | ArithmeticOp::Subtract, ..) => 6,
        ExprKind::Arithmetic(..) => 7,
        ExprKind::Not(_) => 8,
        _ => 9,
    }
}

fn write_expr(out: &mut String, e: &Expr, inputs: &Names, least: u8, depth: u32) {
    if depth > DEPTH_MAX {
        out.push('…');
        return;
    }
    let own = strength(&e.kind);
    let is_bracketed = own < least;
    if is_bracketed {
        out.push('(');
    }
    let mut two = |left: &Expr, sign: &str, right: &Expr| {
        write_expr(out, left, inputs, own, depth + 1);
        put!(out, " {sign} ");
        write_expr(out, right, inputs, own + 1, depth + 1);
    };
    match &e.kind {
        ExprKind::Or(l, r) => two(l, "or", r),
        ExprKind::And(l, r) => two(l, "and", r),
        ExprKind::Compare(op, l, r) => two(l, op.sign(), r),
        ExprKind::Arithmetic(op, l, r) => two(l, op.sign(), r),
        ExprKind::Not(inner) => {
            out.push_str("not ");
            write_expr(out, inner, inputs, own, depth + 1);
        }
        ExprKind::IsNull(inner) => {
            write_expr(out, inner, inputs, 9, depth + 1);
            out.push_str(" is null");
        }
        ExprKind::IsNoEvent { input, index } => {
            put!(out, "{} is null", inputs.event(*input, *index));
        }
        ExprKind::In {
            condition,
            table,
            row,
        } => {
            let schema = &inputs.plan.tables[*table].schema;
            let mut all = inputs.inputs.to_vec();
            all.truncate(usize::from(*row));
            all.push((schema.name.as_str(), schema));
            let inner = Names {
                inputs: &all,
                ..*inputs
            };
            out.push('(');
            write_expr(out, condition, &inner, 0, depth + 1);
            put!(out, ") in {}", schema.name);
        }
        ExprKind::Constant(value) => constant(out, value),
        ExprKind::Attribute {
            input,
            index,
            attribute,
        } => {
            out.push_str(&inputs.attribute(*input, *index, *attribute));
        }
        ExprKind::Call {
            name, args, event, ..
        } => match event {
            Some((input, index)) => {
                put!(out, "{name}({})", inputs.event(*input, *index));
            }
            None => list(out, name, args, inputs, depth),
        },
        ExprKind::Aggregate { name, args } => list(out, name, args, inputs, depth),
        ExprKind::Script { function, args } => {
            let name = &inputs.plan.functions[*function].name;
            list(out, name, args, inputs, depth);
        }
    }
    if is_bracketed {
        out.push(')');
    }
}

fn list(out: &mut String, name: &str, args: &[Expr], inputs: &Names, depth: u32) {
    put!(out, "{name}(");
    for (i, arg) in args.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        write_expr(out, arg, inputs, 0, depth + 1);
    }
    out.push(')');
}

fn constant(out: &mut String, value: &Constant) {
    match value {
        Constant::Int(v) => put!(out, "{v}"),
        Constant::Long(v) => put!(out, "{v}"),
        Constant::Float(v) => put!(out, "{v}f"),
        Constant::Double(v) => put!(out, "{v:?}"),
        Constant::Bool(v) => put!(out, "{v}"),
        Constant::String(v) => put!(out, "'{}'", shortened(v)),
    };
}

/// One line, cut where it is long.
pub fn shortened(value: &str) -> String {
    const LENGTH_MAX: usize = 60;
    let line = value.lines().next().unwrap_or_default();
    if line.chars().count() <= LENGTH_MAX && line.len() == value.len() {
        return line.to_owned();
    }
    format!("{}…", line.chars().take(LENGTH_MAX).collect::<String>())
}

/// `5 s`, `250 ms`, `2 h`.
pub fn millis(millis: i64) -> String {
    const UNITS: [(i64, &str); 4] = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "min"),
        (1_000, "s"),
    ];
    for (unit, name) in UNITS {
        if millis != 0 && millis % unit == 0 {
            return format!("{} {name}", millis / unit);
        }
    }
    format!("{millis} ms")
}
