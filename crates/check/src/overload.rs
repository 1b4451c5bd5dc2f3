//! Which argument list of a function a call fits, and the type of its result.
//!
//! Matching is strict as in Siddhi (`InputParameterValidator`): an INT fits no parameter of type
//! DOUBLE. Only where the types fit is it asked whether constants are constants.

use event::{Attribute, Type};

use lang::ast::Literal;
use plan::spec::{Argument, FunctionSpec, Overload, Param, Returns, Types};

/// A call that fits.
#[derive(Clone, PartialEq, Debug)]
pub struct Resolved {
    /// Index into the overloads of the spec.
    pub overload: usize,
    /// Type of the result; none for windows and stream processors.
    pub ty: Option<Type>,
    /// Attributes that a stream processor adds behind those of its input.
    pub adds: Vec<Attribute>,
}

/// A call that does not fit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// Index of the argument to blame; none where their number is wrong.
    pub argument: Option<usize>,
    /// What is wrong, lower case, without full stop.
    pub message: String,
    /// The argument lists that the function takes.
    pub help: String,
}

/// Finds the overload of `spec` that `arguments` fit.
pub fn resolve_overload(
    spec: &FunctionSpec,
    arguments: &[Argument],
) -> Result<Resolved, Box<Mismatch>> {
    let fitting = spec
        .overloads
        .iter()
        .position(|o| fits(o, arguments) && same_types(o, arguments));
    let Some(at) = fitting else {
        return Err(Box::new(mismatch(spec, arguments)));
    };
    let overload = &spec.overloads[at];
    for (i, argument) in arguments.iter().enumerate() {
        let param = param_at(overload, i);
        let wanted = if param.constant && argument.literal.is_none() {
            "a constant"
        } else if param.attribute && !argument.attribute {
            "an attribute of the stream"
        } else {
            continue;
        };
        return Err(Box::new(Mismatch {
            argument: Some(i),
            message: format!("argument {} of {} must be {wanted}", i + 1, describe(spec)),
            help: format!("'{}' is {}", param.name, lower_first(param.doc)),
        }));
    }
    let ty = result_type(spec, arguments)?;
    Ok(Resolved {
        overload: at,
        ty,
        adds: added(spec, overload, arguments),
    })
}

/// The argument lists, as `(string input.string, int index)`. Those that differ in types alone are
/// one list.
pub fn signatures(spec: &FunctionSpec) -> String {
    let mut lists: Vec<(Vec<Param>, bool)> = Vec::new();
    for overload in spec.overloads {
        let repeats = overload.repeats > 0;
        let same_names = |(params, r): &&mut (Vec<Param>, bool)| {
            *r == repeats
                && params.len() == overload.params.len()
                && params
                    .iter()
                    .zip(overload.params)
                    .all(|(a, b)| a.name == b.name)
        };
        match lists.iter_mut().find(same_names) {
            Some((params, _)) => {
                for (all, more) in params.iter_mut().zip(overload.params) {
                    all.types = Types(all.types.0 | more.types.0);
                }
            }
            None => lists.push((overload.params.to_vec(), repeats)),
        }
    }
    let texts: Vec<String> = lists
        .iter()
        .map(|(p, repeats)| signature(p, *repeats))
        .collect();
    texts.join(", ")
}

fn signature(params: &[Param], repeats: bool) -> String {
    let mut parts: Vec<String> = params
        .iter()
        .map(|p| format!("{} {}", type_names(p.types), p.name))
        .collect();
    if repeats {
        parts.push("…".to_owned());
    }
    format!("({})", parts.join(", "))
}

/// `int|long`, or `any`.
pub fn type_names(types: Types) -> String {
    match types {
        Types::ANY => "any".to_owned(),
        Types::NUMBER => "number".to_owned(),
        Types::BASIC => "any but object".to_owned(),
        _ => {
            let names: Vec<&str> = Type::ALL
                .into_iter()
                .filter(|&t| types.contains(t))
                .map(Type::name)
                .collect();
            names.join("|")
        }
    }
}

fn accepts_count(overload: &Overload, count: usize) -> bool {
    let fixed = overload.params.len();
    if overload.repeats == 0 {
        return count == fixed;
    }
    count >= fixed && (count - fixed).is_multiple_of(overload.repeats)
}

/// The parameter that the argument at this index belongs to.
fn param_at(overload: &Overload, index: usize) -> &'static Param {
    let fixed = overload.params.len();
    if index < fixed {
        return &overload.params[index];
    }
    let group = overload.repeats.max(1);
    &overload.params[fixed - group + (index - fixed) % group]
}

fn fits(overload: &Overload, arguments: &[Argument]) -> bool {
    accepts_count(overload, arguments.len())
        && arguments
            .iter()
            .enumerate()
            .all(|(i, a)| param_at(overload, i).types.contains(a.ty))
}

fn same_types(overload: &Overload, arguments: &[Argument]) -> bool {
    !overload.same_type || arguments.windows(2).all(|pair| pair[0].ty == pair[1].ty)
}

fn mismatch(spec: &FunctionSpec, arguments: &[Argument]) -> Mismatch {
    let help = match spec.overloads {
        [Overload { params: [], .. }] => format!("{} takes no arguments", describe(spec)),
        _ => format!("it takes {}", signatures(spec)),
    };
    let of_this_count: Vec<&Overload> = spec
        .overloads
        .iter()
        .filter(|o| accepts_count(o, arguments.len()))
        .collect();
    if of_this_count.is_empty() {
        let given = match arguments.len() {
            0 => "no argument".to_owned(),
            1 => "1 argument".to_owned(),
            n => format!("{n} arguments"),
        };
        let message = format!("{} does not take {given}", describe(spec));
        return Mismatch {
            argument: None,
            message,
            help,
        };
    }
    // The overload that fits the longest start of the arguments tells what is wrong with the next.
    let first_bad = of_this_count
        .iter()
        .filter_map(|o| {
            (0..arguments.len()).find(|&i| !param_at(o, i).types.contains(arguments[i].ty))
        })
        .max();
    let Some(bad) = first_bad else {
        let types: Vec<&str> = arguments.iter().map(|a| a.ty.name()).collect();
        let message = format!(
            "arguments of {} must have one type, not {}",
            describe(spec),
            types.join(", ")
        );
        return Mismatch {
            argument: None,
            message,
            help,
        };
    };
    let wanted = of_this_count
        .iter()
        .map(|o| param_at(o, bad).types)
        .fold(Types(0), |all, t| Types(all.0 | t.0));
    let mut message = format!(
        "argument {} of {} is {}, but {} is required",
        bad + 1,
        describe(spec),
        arguments[bad].ty,
        type_names(wanted)
    );
    if wanted.contains(arguments[bad].ty) {
        message = format!(
            "no form of {} takes arguments of these types",
            describe(spec)
        );
    }
    Mismatch {
        argument: Some(bad),
        message,
        help,
    }
}

/// `function 'str:upper'`, `window 'length'`.
pub fn describe(spec: &FunctionSpec) -> String {
    format!("{} '{}'", spec.kind.name(), spec.full_name())
}

fn result_type(spec: &FunctionSpec, arguments: &[Argument]) -> Result<Option<Type>, Box<Mismatch>> {
    let at = |i: usize| arguments.get(i).map_or(Type::Object, |a| a.ty);
    let ty = match spec.returns {
        Returns::Nothing => return Ok(None),
        Returns::Type(ty) => ty,
        Returns::Argument(i) => at(i),
        Returns::Widened(i) => match at(i) {
            Type::Float | Type::Double => Type::Double,
            _ => Type::Long,
        },
        Returns::Rounded(i) => match at(i) {
            Type::Float => Type::Int,
            _ => Type::Long,
        },
        Returns::Named(i) => return named_type(spec, arguments, i).map(Some),
    };
    Ok(Some(ty))
}

fn named_type(
    spec: &FunctionSpec,
    arguments: &[Argument],
    index: usize,
) -> Result<Type, Box<Mismatch>> {
    let Some(argument) = arguments.get(index) else {
        return Ok(Type::String);
    };
    let named = match &argument.literal {
        Some(Literal::String(name)) => Type::from_name(name).filter(|&t| t != Type::Object),
        _ => None,
    };
    named.ok_or_else(|| {
        Box::new(Mismatch {
            argument: Some(index),
            message: format!("argument {} of {} names no type", index + 1, describe(spec)),
            help: "it is one of 'int', 'long', 'float', 'double', 'string' and 'bool'".to_owned(),
        })
    })
}

fn added(spec: &FunctionSpec, overload: &Overload, arguments: &[Argument]) -> Vec<Attribute> {
    let fixed = spec.adds.iter().chain(overload.adds);
    let computed = spec
        .adds_with
        .map(|adds| adds(arguments))
        .unwrap_or_default();
    fixed
        .map(|&(name, ty)| Attribute {
            name: name.to_owned(),
            ty,
        })
        .chain(
            computed
                .into_iter()
                .map(|(name, ty)| Attribute { name, ty }),
        )
        .collect()
}

fn lower_first(text: &str) -> String {
    let mut letters = text.trim_end_matches('.').chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::spec::FunctionKind;

    /// `s i l f d b o` are attributes of these types, `'text'`, `5`, `5L`, `0.5` and `true` literals.
    fn argument(text: &str) -> Argument {
        let attribute = |ty| Argument {
            ty,
            literal: None,
            attribute: true,
        };
        let literal = |ty, value| Argument {
            ty,
            literal: Some(value),
            attribute: false,
        };
        match text {
            "s" => attribute(Type::String),
            "i" => attribute(Type::Int),
            "l" => attribute(Type::Long),
            "f" => attribute(Type::Float),
            "d" => attribute(Type::Double),
            "b" => attribute(Type::Bool),
            "o" => attribute(Type::Object),
            "true" => literal(Type::Bool, Literal::Bool(true)),
            _ if text.starts_with('\'') => literal(
                Type::String,
                Literal::String(text.trim_matches('\'').to_owned()),
            ),
            _ if text.ends_with('L') => literal(
                Type::Long,
                Literal::Long(text.trim_end_matches('L').parse().expect("a number")),
            ),
            _ if text.contains('.') => literal(
                Type::Double,
                Literal::Double(text.parse().expect("a number")),
            ),
            _ => literal(Type::Int, Literal::Int(text.parse().expect("a number"))),
        }
    }

    fn resolve(kind: FunctionKind, call: &str) -> Result<Resolved, Box<Mismatch>> {
        let (name, rest) = call.split_once('(').expect("a call");
        let list = rest.trim_end_matches(')');
        let arguments: Vec<Argument> = list
            .split(',')
            .map(str::trim)
            .filter(|a| !a.is_empty())
            .map(argument)
            .collect();
        let (namespace, name) = name.split_once(':').unwrap_or(("", name));
        let catalog = crate::testing::catalog();
        let spec = catalog
            .function(kind, namespace, name)
            .expect("a known function");
        resolve_overload(spec, &arguments)
    }

    #[test]
    fn scalar_results() {
        let check = |call: &str, expect: Option<Type>| {
            let found = resolve(FunctionKind::Scalar, call).ok().and_then(|r| r.ty);
            assert_eq!(found, expect, "{call}");
        };
        check("str:upper(s)", Some(Type::String));
        check("str:upper(i)", None);
        check("str:upper()", None);
        check("math:ceil(1)", None);
        check("math:ceil(1.5)", Some(Type::Double));
        check("math:round(f)", Some(Type::Int));
        check("math:round(d)", Some(Type::Long));
        check("math:rand(5)", Some(Type::Double));
        check("math:rand(l)", None);
        check("coalesce(i, i, i)", Some(Type::Int));
        check("coalesce(i, l)", None);
        check("default(d, 0.0)", Some(Type::Double));
        check("default(d, 0)", None);
        check("ifThenElse(b, 'x', s)", Some(Type::String));
        check("ifThenElse(b, 1, s)", None);
        check("ifThenElse(i, s, s)", None);
        check("maximum(i)", Some(Type::Int));
        check("maximum(s, s)", None);
        check("cast(o, 'LONG')", Some(Type::Long));
        check("cast(o, 'object')", None);
        check("cast(o, s)", None);
        check("convert(s, 'bool')", Some(Type::Bool));
        check("map:create()", Some(Type::Object));
        check("map:create('a', 1)", Some(Type::Object));
        check("map:create('a', 1, 'b')", None);
        check("map:create('a', 1, 'b', 2)", Some(Type::Object));
        check("time:dateSub(s, 1, 'year')", Some(Type::String));
        check("time:dateSub(s, 1, s)", None);
        check("time:extract('DAY', s)", Some(Type::Int));
        check("str:concat(s, i, b)", Some(Type::String));
        check("env:getYAMLProperty('k')", Some(Type::String));
        check("env:getYAMLProperty('k', 'int')", Some(Type::Int));
        check("js:eval(s, 'int')", Some(Type::Int));
    }

    #[test]
    fn aggregator_results() {
        let check = |call: &str, expect: Option<Type>| {
            let found = resolve(FunctionKind::Aggregator, call)
                .ok()
                .and_then(|r| r.ty);
            assert_eq!(found, expect, "{call}");
        };
        check("sum(i)", Some(Type::Long));
        check("sum(f)", Some(Type::Double));
        check("sum(s)", None);
        check("sum(i, i)", None);
        check("min(f)", Some(Type::Float));
        check("count()", Some(Type::Long));
        check("count(o)", Some(Type::Long));
        check("distinctCount(b)", None);
        check("math:percentile(i, 97.0)", Some(Type::Double));
    }

    #[test]
    fn windows_take_constants() {
        let check = |call: &str, expect: bool| {
            assert_eq!(
                resolve(FunctionKind::Window, call).is_ok(),
                expect,
                "{call}"
            );
        };
        check("length(5)", true);
        check("length(i)", false);
        check("length(5L)", false);
        check("time(5000L)", true);
        check("timeBatch(1000L, 0, true)", true);
        check("timeBatch(1000L, true)", true);
        check("externalTime(l, 1000L)", true);
        check("externalTime(5L, 1000L)", false);
        check("externalTimeBatch(l, 1000L, l, 10000L)", true);
        check("sort(3, d)", true);
        check("sort(3, d, 'asc', s, 'desc')", true);
        check("batch()", true);
        check("unique:ever(s, i)", true);
        check("unique:ever()", false);
        check("cron('*/5 * * * * ?')", true);
    }

    #[test]
    fn stream_processors_add_attributes() {
        let check = |call: &str, expect: &str| {
            let found = resolve(FunctionKind::StreamProcessor, call).expect("the call fits");
            let adds: Vec<String> = found
                .adds
                .iter()
                .map(|a| format!("{} {}", a.name, a.ty))
                .collect();
            assert_eq!(adds.join(", "), expect, "{call}");
        };
        check("log('TPS: ')", "");
        check("pol2Cart(d, d)", "x double, y double");
        check("pol2Cart(d, d, d)", "x double, y double, z double");
        check("str:tokenize(s, '|')", "token string");
        check("file:move(s, 'dir')", "isSuccess bool");
        check(
            "rdbms:cud('db', 'INSERT INTO t VALUES (?)', i)",
            "numRecords int",
        );
        check(
            "extrema:bottomK(s, 2)",
            "bottom1Element string, bottom1Frequency long, bottom2Element string, \
             bottom2Frequency long",
        );
        check(
            "streamingml:kMeansIncremental(2, 0.2, d, i)",
            "euclideanDistanceToClosestCentroid double, closestCentroidCoordinate1 double, \
             closestCentroidCoordinate2 double",
        );
    }

    #[test]
    fn a_mismatch_says_what_is_wrong() {
        let check = |call: &str, argument: Option<usize>, message: &str| {
            let found = resolve(FunctionKind::Scalar, call).expect_err("the call does not fit");
            assert_eq!(
                (found.argument, found.message.as_str()),
                (argument, message),
                "{call}"
            );
        };
        check(
            "str:upper(i)",
            Some(0),
            "argument 1 of function 'str:upper' is int, but string is required",
        );
        check(
            "str:upper()",
            None,
            "function 'str:upper' does not take no argument",
        );
        check(
            "coalesce(i, l)",
            None,
            "arguments of function 'coalesce' must have one type, not int, long",
        );
        check(
            "cast(o, s)",
            Some(1),
            "argument 2 of function 'cast' must be a constant",
        );
        check(
            "cast(o, 'objekt')",
            Some(1),
            "argument 2 of function 'cast' names no type",
        );
    }
}
