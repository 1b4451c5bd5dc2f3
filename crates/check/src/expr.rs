//! Types of expressions: Siddhi's promotion and what may be compared with what.
//!
//! `None` stands for an expression whose fault has been reported; what is built on it is checked as
//! far as possible and adds no finding of its own.

use event::Type;

use crate::Checker;
use crate::codes::check as code;
use crate::report::{error, warning};
use crate::scope::Scope;
use lang::ast::{self, BinaryOp, Literal, NullTarget};
use lang::diagnostic::{Diagnostic, Kind};
use lang::span::Span;
use plan::{ArithmeticOp, CompareOp, Constant, Expr, ExprKind, InputId};

/// Deeper nesting is refused: expressions are walked by recursion. The parser's own limit on
/// parentheses and calls is lower.
const DEPTH_MAX: u32 = 300;

impl Checker<'_> {
    pub(super) fn expr(&mut self, e: &ast::Expr, scope: &Scope) -> Option<Expr> {
        if self.depth >= DEPTH_MAX {
            if self.depth == DEPTH_MAX {
                self.depth += 1;
                self.report(error(
                    code::TOO_DEEP,
                    Kind::Type,
                    e.span,
                    format!("the expression is nested more than {DEPTH_MAX} levels deep"),
                    "too deep from here",
                ));
            }
            return None;
        }
        self.depth += 1;
        let checked = self.expr_inner(e, scope);
        self.depth -= 1;
        checked
    }

    fn expr_inner(&mut self, e: &ast::Expr, scope: &Scope) -> Option<Expr> {
        match &e.kind {
            ast::ExprKind::Literal(literal) => Some(constant(literal, e.span)),
            ast::ExprKind::Time(time) => Some(Expr {
                ty: Type::Long,
                kind: ExprKind::Constant(Constant::Long(time.millis)),
                span: e.span,
            }),
            ast::ExprKind::Attribute(r) => self.attribute_or_event(r, scope),
            ast::ExprKind::Call(call) => self.call(call, scope),
            ast::ExprKind::Not(inner) => {
                let inner = self.condition(inner, scope, "'not'")?;
                Some(bool_expr(ExprKind::Not(Box::new(inner)), e.span))
            }
            ast::ExprKind::Binary(..) => self.chain(e, scope),
            ast::ExprKind::IsNull(target) => self.is_null(target, scope, e.span),
            ast::ExprKind::In(condition, table) => self.in_table(condition, table, scope, e.span),
            ast::ExprKind::Error => None,
        }
    }

    /// An expression that must be BOOL; `whose` names what asks for it.
    pub(super) fn condition(&mut self, e: &ast::Expr, scope: &Scope, whose: &str) -> Option<Expr> {
        let checked = self.expr(e, scope)?;
        self.must_be_condition(checked, whose)
    }

    fn must_be_condition(&mut self, checked: Expr, whose: &str) -> Option<Expr> {
        if checked.ty == Type::Bool {
            return Some(checked);
        }
        self.report(
            error(
                code::NOT_A_CONDITION,
                Kind::Type,
                checked.span,
                format!("{whose} needs a condition, but this is {}", a(checked.ty)),
                format!("{}, not true or false", a(checked.ty)),
            )
            .help("compare it with something: a condition is a bool"),
        );
        None
    }

    /// A name alone may also mean the event of an input, which has no value of its own.
    fn attribute_or_event(&mut self, r: &ast::AttributeRef, scope: &Scope) -> Option<Expr> {
        if let Some(input) = event_reference(r, scope)
            && scope.inputs[input].shape.index_of(&r.name.text).is_none()
        {
            let name = &r.name.text;
            self.report(
                error(
                    code::EVENT_AS_VALUE,
                    Kind::Name,
                    r.span,
                    format!("'{name}' is an event, not a value"),
                    "names a whole event",
                )
                .help(format!("take one of its attributes, as in '{name}.…'")),
            );
            return None;
        }
        self.attribute(r, scope)
    }

    /// Operators of one level lean to the left: the chain is walked by a loop, not by recursion.
    fn chain(&mut self, e: &ast::Expr, scope: &Scope) -> Option<Expr> {
        let mut links = Vec::new();
        let mut first = e;
        while let ast::ExprKind::Binary(op, left, right) = &first.kind {
            links.push((*op, right, first.span));
            first = left;
        }
        let mut checked = self.expr(first, scope);
        for (op, right, span) in links.into_iter().rev() {
            let right = self.expr(right, scope);
            checked = self.binary(op, checked, right, span);
        }
        checked
    }

    fn binary(
        &mut self,
        op: BinaryOp,
        left: Option<Expr>,
        right: Option<Expr>,
        span: Span,
    ) -> Option<Expr> {
        if let BinaryOp::And | BinaryOp::Or = op {
            let whose = if op == BinaryOp::And { "'and'" } else { "'or'" };
            let left = left.and_then(|e| self.must_be_condition(e, whose));
            let right = right.and_then(|e| self.must_be_condition(e, whose));
            let (left, right) = (Box::new(left?), Box::new(right?));
            let kind = match op {
                BinaryOp::And => ExprKind::And(left, right),
                _ => ExprKind::Or(left, right),
            };
            return Some(bool_expr(kind, span));
        }
        let (left, right) = (left?, right?);
        if let Some(op) = arithmetic(op) {
            return self.arithmetic(op, left, right, span);
        }
        self.compare(comparison(op)?, left, right, span)
    }

    fn arithmetic(
        &mut self,
        op: ArithmeticOp,
        left: Expr,
        right: Expr,
        span: Span,
    ) -> Option<Expr> {
        let Some(ty) = promoted(left.ty, right.ty) else {
            self.report(no_arithmetic(op, &left, &right, span));
            return None;
        };
        if let Some(odd) = [&left, &right].into_iter().find(|e| !e.ty.is_numeric()) {
            // Siddhi accepts it and fails with a cast at each event.
            self.report(
                warning(
                    code::ARITHMETIC_FAILS,
                    Kind::Type,
                    odd.span,
                    format!("'{}' with {} fails for every event", op.sign(), a(odd.ty)),
                    format!("{} beside a number", a(odd.ty)),
                )
                .help("turn it into a number with convert(…), or join texts with str:concat(…)"),
            );
        }
        let kind = ExprKind::Arithmetic(op, Box::new(left), Box::new(right));
        Some(Expr { ty, kind, span })
    }

    fn compare(&mut self, op: CompareOp, left: Expr, right: Expr, span: Span) -> Option<Expr> {
        let both = |is: fn(Type) -> bool| is(left.ty) && is(right.ty);
        let is_equality = matches!(op, CompareOp::Equal | CompareOp::NotEqual);
        let is_fine = both(Type::is_numeric)
            || (is_equality && (both(|t| t == Type::String) || both(|t| t == Type::Bool)));
        if !is_fine {
            self.report(no_comparison(op, &left, &right, span));
            return None;
        }
        Some(bool_expr(
            ExprKind::Compare(op, Box::new(left), Box::new(right)),
            span,
        ))
    }

    fn is_null(&mut self, target: &NullTarget, scope: &Scope, span: Span) -> Option<Expr> {
        let inner = match target {
            NullTarget::Call(call) => self.call(call, scope)?,
            NullTarget::Attribute(r) => self.attribute(r, scope)?,
            NullTarget::Reference(r) => {
                if !scope.is_output_only
                    && let Some(input) = scope.input_named(&r.stream)
                {
                    let kind = ExprKind::IsNoEvent {
                        input: input as InputId,
                        index: r.index,
                    };
                    return Some(bool_expr(kind, span));
                }
                if r.index.is_some() || r.stream.kind != ast::StreamKind::Plain {
                    self.report(error(
                        code::UNKNOWN_PREFIX,
                        Kind::Name,
                        r.span,
                        format!("'{}' is not an input of this query", r.stream.name.text),
                        "no such event",
                    ));
                    return None;
                }
                let name = r.stream.name.clone();
                let r = ast::AttributeRef {
                    stream: None,
                    inner: None,
                    name,
                    span: r.span,
                };
                self.attribute(&r, scope)?
            }
        };
        Some(bool_expr(ExprKind::IsNull(Box::new(inner)), span))
    }
}

/// The input that a bare name means as an event.
pub(super) fn event_reference(r: &ast::AttributeRef, scope: &Scope) -> Option<usize> {
    if r.stream.is_some() || scope.is_single() || scope.is_output_only {
        return None;
    }
    let name = ast::StreamName {
        name: r.name.clone(),
        kind: ast::StreamKind::Plain,
        span: r.name.span,
    };
    scope.input_named(&name)
}

pub(super) fn constant(literal: &Literal, span: Span) -> Expr {
    let (ty, constant) = match literal {
        Literal::Int(v) => (Type::Int, Constant::Int(*v)),
        Literal::Long(v) => (Type::Long, Constant::Long(*v)),
        Literal::Float(v) => (Type::Float, Constant::Float(*v)),
        Literal::Double(v) => (Type::Double, Constant::Double(*v)),
        Literal::Bool(v) => (Type::Bool, Constant::Bool(*v)),
        Literal::String(v) => (Type::String, Constant::String(v.clone())),
    };
    Expr {
        ty,
        kind: ExprKind::Constant(constant),
        span,
    }
}

pub(super) fn bool_expr(kind: ExprKind, span: Span) -> Expr {
    Expr {
        ty: Type::Bool,
        kind,
        span,
    }
}

/// `an int`, `a string`.
pub(super) fn a(ty: Type) -> String {
    match ty {
        Type::Int | Type::Object => format!("an {ty}"),
        _ => format!("a {ty}"),
    }
}

/// Double before float before long before int; `None` where neither side is a number.
fn promoted(left: Type, right: Type) -> Option<Type> {
    [Type::Double, Type::Float, Type::Long, Type::Int]
        .into_iter()
        .find(|t| left == *t || right == *t)
}

fn arithmetic(op: BinaryOp) -> Option<ArithmeticOp> {
    Some(match op {
        BinaryOp::Add => ArithmeticOp::Add,
        BinaryOp::Subtract => ArithmeticOp::Subtract,
        BinaryOp::Multiply => ArithmeticOp::Multiply,
        BinaryOp::Divide => ArithmeticOp::Divide,
        BinaryOp::Modulo => ArithmeticOp::Modulo,
        _ => return None,
    })
}

fn comparison(op: BinaryOp) -> Option<CompareOp> {
    Some(match op {
        BinaryOp::Less => CompareOp::Less,
        BinaryOp::LessEqual => CompareOp::LessEqual,
        BinaryOp::Greater => CompareOp::Greater,
        BinaryOp::GreaterEqual => CompareOp::GreaterEqual,
        BinaryOp::Equal => CompareOp::Equal,
        BinaryOp::NotEqual => CompareOp::NotEqual,
        _ => return None,
    })
}

fn no_arithmetic(op: ArithmeticOp, left: &Expr, right: &Expr, span: Span) -> Diagnostic {
    let d = error(
        code::NO_ARITHMETIC,
        Kind::Type,
        span,
        format!(
            "'{}' needs numbers, but here are {} and {}",
            op.sign(),
            a(left.ty),
            a(right.ty)
        ),
        format!("{} {} {}", left.ty, op.sign(), right.ty),
    );
    match (op, left.ty, right.ty) {
        (ArithmeticOp::Add, Type::String, _) | (ArithmeticOp::Add, _, Type::String) => {
            d.help("texts are joined with str:concat(…)")
        }
        _ => d,
    }
}

fn no_comparison(op: CompareOp, left: &Expr, right: &Expr, span: Span) -> Diagnostic {
    let is_equality = matches!(op, CompareOp::Equal | CompareOp::NotEqual);
    let message = if is_equality || left.ty != right.ty {
        format!("{} cannot be compared with {}", a(left.ty), a(right.ty))
    } else {
        format!(
            "'{}' compares numbers only, but this is {}",
            op.sign(),
            a(left.ty)
        )
    };
    let code = if is_equality {
        code::NOT_COMPARABLE
    } else {
        code::NOT_ORDERED
    };
    let label = format!("{} {} {}", left.ty, op.sign(), right.ty);
    let d = error(code, Kind::Type, span, message, label);
    for (one, other) in [(left, right), (right, left)] {
        if let ExprKind::Constant(constant) = &one.kind
            && let Some(text) = as_literal_of(constant, other.ty)
        {
            return d
                .help(format!("the other side is {}: write {text}", a(other.ty)))
                .fix(one.span, text);
        }
    }
    if left.ty == Type::Object || right.ty == Type::Object {
        return d
            .help("an object has to be turned into a value first, as with cast(…) or convert(…)");
    }
    d.help("turn one side into the type of the other with convert(…)")
}

/// The constant written as a literal of `wanted`, where that says the same.
fn as_literal_of(constant: &Constant, wanted: Type) -> Option<String> {
    match (constant, wanted) {
        (Constant::String(s), Type::Bool) if s == "true" || s == "false" => Some(s.clone()),
        (Constant::String(s), Type::Int | Type::Long) => {
            s.trim().parse::<i64>().ok().map(|v| v.to_string())
        }
        (Constant::String(s), Type::Float | Type::Double) => s
            .trim()
            .parse::<f64>()
            .ok()
            .filter(|v| v.is_finite())
            .map(|_| s.trim().to_owned()),
        (Constant::Int(v), Type::String) => Some(format!("'{v}'")),
        (Constant::Long(v), Type::String) => Some(format!("'{v}'")),
        (Constant::Bool(v), Type::String) => Some(format!("'{v}'")),
        _ => None,
    }
}
