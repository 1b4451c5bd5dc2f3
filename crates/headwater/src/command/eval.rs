//! `headwater eval`: one expression of SiddhiQL, computed by the engine as a query would.
//!
//! The expression becomes the only column of a query over a stream whose attributes are those that
//! `--with` and `--each` name. Each expression has an app of its own, so a fault of one says nothing of
//! the others.

use std::io::BufRead as _;
use std::path::Path;

use anyhow::Context as _;
use check::codes::check::UNKNOWN_ATTRIBUTE;
use check::{Catalog, CheckConfig, check, render};
use engine::{App, AppEnvironment, Input, NoHost, Output as Out, Outputs, Setup};
use event::{Attribute, Batch, Chunks, ColumnBuilder, Times, Type, Value};
use lang::ast::{Element, ExprKind, Literal};
use lang::diagnostic::{Diagnostic, Severity};
use lang::parser::parse_expression;
use lang::source::LineIndex;
use lang::span::Span;
use plan::Plan;
use serde_json::{Value as Json, json};
use server::clock::wall_millis;
use testkit::script::ValueText;

use crate::cli::EvalArgs;
use crate::command::check::diagnostic_json;
use crate::command::run::zone;
use crate::output::Output;

/// Bytes of an expression that are looked at.
const LENGTH_MAX: usize = 64 * 1024;

/// Events of one evaluation.
const EVENTS_MAX: usize = 10_000;

pub fn run(args: &EvalArgs, output: &Output) -> anyhow::Result<u8> {
    let evaluator = Evaluator::new(args)?;
    let (mut results, mut is_wrong) = (Vec::new(), false);
    let mut one = |expression: &str| -> anyhow::Result<()> {
        let outcome = evaluator.outcome(expression);
        is_wrong |= !matches!(outcome, Outcome::Values(..));
        match args.json {
            true => results.push(outcome.to_json(expression)),
            false => outcome.show(expression, &evaluator.catalog, output)?,
        }
        Ok(())
    };
    for expression in &args.expressions {
        if expression != "-" {
            one(expression)?;
            continue;
        }
        for line in std::io::stdin().lock().lines() {
            let line = line.context("cannot read standard input")?;
            let text = line.trim();
            if !text.is_empty() && !text.starts_with("--") {
                one(text)?;
            }
        }
    }
    if args.json {
        output.print_json(&json!({"version": 1, "results": results}))?;
    }
    Ok(u8::from(is_wrong))
}

/// An attribute and its values, one for each event; a single one stands for all.
struct Given {
    name: String,
    ty: Type,
    values: Vec<Value>,
}

/// What an expression gives.
enum Outcome {
    Values(Type, Vec<Value>),
    /// It is not one; places are those in its text.
    Wrong(Vec<Diagnostic>),
    /// It has no value for one of the events.
    Failed(String),
}

struct Evaluator {
    catalog: Catalog,
    given: Vec<Given>,
    /// Rows of `given`.
    events: usize,
    /// Definitions of script functions.
    functions: String,
    zone: String,
}

impl Evaluator {
    fn new(args: &EvalArgs) -> anyhow::Result<Evaluator> {
        let mut given: Vec<Given> = Vec::new();
        let with = args.with.iter().map(|text| (text, false));
        for (text, is_list) in with.chain(args.each.iter().map(|text| (text, true))) {
            let found = Given::read(text, is_list).map_err(server::Error::Usage)?;
            if given.iter().any(|other| other.name == found.name) {
                let message = format!("'{}' has two values: leave one out", found.name);
                return Err(server::Error::Usage(message).into());
            }
            given.push(found);
        }
        let events = given.iter().map(|g| g.values.len()).max().unwrap_or(1);
        if let Some(short) = given
            .iter()
            .find(|g| ![1, events].contains(&g.values.len()))
        {
            let message = format!(
                "'{}' has {} values where another has {events}: all that differ from event to event \
                 have as many",
                short.name,
                short.values.len()
            );
            return Err(server::Error::Usage(message).into());
        }
        Ok(Evaluator {
            catalog: catalog::full(),
            given,
            events,
            functions: args
                .functions
                .as_deref()
                .map_or(Ok(String::new()), functions)?,
            zone: zone(args.timezone.as_deref())?,
        })
    }

    fn outcome(&self, expression: &str) -> Outcome {
        if expression.len() > LENGTH_MAX {
            return Outcome::Failed(format!("an expression has at most {LENGTH_MAX} bytes"));
        }
        let (_, faults) = parse_expression(expression);
        // What is not an expression by itself must not become part of the query around it.
        if !faults.is_empty() {
            return Outcome::Wrong(faults);
        }
        let head = self.head();
        let text = format!("{head}{expression}\nas value insert into Result;");
        let parsed = lang::parse(&text);
        let config = CheckConfig {
            script_fault: Some(script::fault),
            ..CheckConfig::default()
        };
        let checked = check(&parsed.app, &self.catalog, &config);
        let place = Place {
            start: head.len() as u32,
            len: expression.len() as u32,
        };
        let found = parsed.diagnostics.into_iter().chain(checked.diagnostics);
        let found: Vec<Diagnostic> = found.map(|d| self.in_expression(d, place)).collect();
        match checked.plan {
            Some(plan) => match plan.not_runnable.first() {
                Some((what, _)) => Outcome::Failed(format!("{what} does not run yet")),
                None => self
                    .compute(&plan)
                    .map_or_else(Outcome::Failed, |(ty, values)| Outcome::Values(ty, values)),
            },
            None => {
                let is_error = |d: &Diagnostic| d.severity == Severity::Error;
                Outcome::Wrong(found.into_iter().filter(is_error).collect())
            }
        }
    }

    /// All of the app before the expression. A stream has an attribute at least.
    fn head(&self) -> String {
        let mut attributes: Vec<String> = self
            .given
            .iter()
            .map(|g| format!("`{}` {}", g.name, g.ty))
            .collect();
        if attributes.is_empty() {
            attributes.push(format!("`{NOTHING}` bool"));
        }
        format!(
            "{}\ndefine stream {EVENT} ({});\nfrom {EVENT} select ",
            self.functions,
            attributes.join(", ")
        )
    }

    fn in_expression(&self, mut diagnostic: Diagnostic, place: Place) -> Diagnostic {
        let name = place.inside(diagnostic.span);
        diagnostic.span = name;
        for (span, _) in &mut diagnostic.related {
            *span = place.inside(*span);
        }
        if let Some(fix) = &mut diagnostic.fix {
            fix.span = place.inside(fix.span);
        }
        if diagnostic.code == UNKNOWN_ATTRIBUTE {
            let near = diagnostic.fix.take();
            let near = near.filter(|fix| fix.replacement != NOTHING);
            diagnostic.message = diagnostic.message.replace(
                &format!("'{EVENT}' has no attribute "),
                "there is no value for ",
            );
            diagnostic.label = "no such attribute".to_owned();
            let near = near.map(|fix| format!("did you mean '{}'? ", fix.replacement));
            diagnostic.help = Some(format!(
                "{}give an attribute its value: --with NAME=VALUE; a text stands in quotes",
                near.unwrap_or_default()
            ));
        }
        diagnostic
    }

    fn compute(&self, plan: &Plan) -> Result<(Type, Vec<Value>), String> {
        let (Some(event), Some(result)) =
            (plan.junction_named(EVENT), plan.junction_named("Result"))
        else {
            return Err("the query has no result".to_owned());
        };
        let now = wall_millis();
        let setup = Setup {
            environment: AppEnvironment {
                app: "eval".to_owned(),
                zone: self.zone.clone(),
                scripts: Some(&script::JavaScript),
                ..AppEnvironment::default()
            },
            observed_streams: vec![result],
            seed: now as u64,
            ..Setup::default()
        };
        let mut app = App::new(plan, setup).map_err(|error| error.to_string())?;
        let mut outputs = Outputs::default();
        app.step(now, now, Input::Start, &mut NoHost, &mut outputs);
        let (mut values, mut failure) = (Vec::new(), None);
        for row in 0..self.events {
            let batch = self.event(row, now);
            app.step(
                now,
                now,
                Input::Batch(event, batch),
                &mut NoHost,
                &mut outputs,
            );
            for item in outputs.items.drain(..) {
                match item {
                    Out::Tap { batch, .. } => {
                        values.extend((0..batch.len).filter_map(|row| batch.row(row).pop()));
                    }
                    Out::Rejected(rejected) => failure = Some(rejected.cause),
                    _ => {}
                }
            }
            if let Some(cause) = failure.take() {
                return Err(match self.events {
                    1 => cause,
                    _ => format!("event {}: {cause}", row + 1),
                });
            }
        }
        let ty = plan
            .junction_schema(result)
            .attributes
            .first()
            .map(|a: &Attribute| a.ty);
        Ok((ty.unwrap_or(Type::Object), values))
    }

    fn event(&self, row: usize, now: i64) -> Batch {
        let mut columns: Vec<_> = self
            .given
            .iter()
            .map(|given| {
                let mut column = ColumnBuilder::new(given.ty);
                let value = given.values.get(row).or(given.values.first());
                column.push(value.unwrap_or(&Value::Null));
                column.finish()
            })
            .collect();
        if columns.is_empty() {
            let mut column = ColumnBuilder::new(Type::Bool);
            column.push(&Value::Bool(true));
            columns.push(column.finish());
        }
        Batch::new(columns, 1, Times::Same(now), Chunks::One, now)
    }
}

/// The stream of the query. What is wrong with it is said without its name.
const EVENT: &str = "Event";

/// The attribute of an event to which nothing was given.
const NOTHING: &str = "nothing";

/// Where the expression stands in the app.
#[derive(Clone, Copy)]
struct Place {
    start: u32,
    len: u32,
}

impl Place {
    fn inside(self, span: Span) -> Span {
        let at = |offset: u32| offset.saturating_sub(self.start).min(self.len);
        Span::new(at(span.start), at(span.end))
    }
}

impl Given {
    fn read(text: &str, is_list: bool) -> Result<Given, String> {
        let form = "write NAME=VALUE or NAME:TYPE=VALUE, such as price=2.5 or id:string=7";
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| format!("'{text}' has no '=': {form}"))?;
        let (name, ty) = match name.split_once(':') {
            None => (name, None),
            Some((name, ty)) => {
                let known = Type::from_name(ty);
                (name, Some(known.ok_or_else(|| unknown_type(ty))?))
            }
        };
        let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(is_letter) {
            return Err(format!("'{name}' is no name of an attribute: {form}"));
        }
        let texts: Vec<&str> = match is_list {
            true => value.split(',').map(str::trim).collect(),
            false => vec![value],
        };
        if texts.len() > EVENTS_MAX {
            return Err(format!("'{name}' has more than {EVENTS_MAX} values"));
        }
        let values = match ty {
            Some(ty) => texts.iter().map(|text| typed(text, ty)).collect(),
            None => plain(&texts),
        };
        let values: Vec<Value> = values.map_err(|why| format!("value of '{name}': {why}"))?;
        let ty = ty.or_else(|| values.iter().find_map(Value::ty));
        Ok(Given {
            name: name.to_owned(),
            ty: ty.ok_or_else(|| format!("say the type of '{name}': {name}:string=null"))?,
            values,
        })
    }
}

fn unknown_type(ty: &str) -> String {
    let names: Vec<&str> = Type::ALL.iter().map(|t| t.name()).collect();
    format!("there is no type '{ty}': write one of {}", names.join(", "))
}

fn typed(text: &str, ty: Type) -> Result<Value, String> {
    match text {
        "null" => Ok(Value::Null),
        _ if ty == Type::String => Ok(Value::str(text)),
        _ => ValueText::Word(text.trim_end_matches(['L', 'l', 'f']).to_owned()).typed(ty),
    }
}

/// Values of one type: that of the constants, if they are such, and else text. Of numbers it is the
/// widest.
fn plain(texts: &[&str]) -> Result<Vec<Value>, String> {
    let constants: Vec<Value> = texts.iter().map(|text| constant(text)).collect();
    let types: Vec<Type> = constants.iter().filter_map(Value::ty).collect();
    let Some(first) = types.first().copied() else {
        return Ok(constants);
    };
    let ty = match types.iter().all(|ty| *ty == first) {
        true => return Ok(constants),
        false if types.iter().all(|ty| ty.is_numeric()) => [Type::Double, Type::Float, Type::Long]
            .into_iter()
            .find(|ty| types.contains(ty)),
        false => None,
    };
    let ty = ty.unwrap_or(Type::String);
    texts.iter().map(|text| typed(text, ty)).collect()
}

/// A constant of SiddhiQL, else the text as it stands.
fn constant(text: &str) -> Value {
    if text == "null" {
        return Value::Null;
    }
    let (parsed, faults) = parse_expression(text);
    let kind = parsed.filter(|_| faults.is_empty()).map(|e| e.kind);
    match kind {
        Some(ExprKind::Literal(Literal::Int(n))) => Value::Int(n),
        Some(ExprKind::Literal(Literal::Long(n))) => Value::Long(n),
        Some(ExprKind::Literal(Literal::Float(n))) => Value::Float(n),
        Some(ExprKind::Literal(Literal::Double(n))) => Value::Double(n),
        Some(ExprKind::Literal(Literal::Bool(is))) => Value::Bool(is),
        Some(ExprKind::Literal(Literal::String(text))) => Value::str(&text),
        Some(ExprKind::Time(span)) => Value::Long(span.millis),
        _ => Value::str(text),
    }
}

/// The definitions of script functions in an app.
fn functions(path: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read file '{}'", path.display()))?;
    let parsed = lang::parse(&text);
    let definitions = parsed
        .app
        .elements
        .iter()
        .filter_map(|element| match element {
            Element::Function(definition) => Some(definition.span.text(&text)),
            _ => None,
        });
    let definitions: Vec<&str> = definitions.collect();
    if definitions.is_empty() {
        let message = format!("'{}' defines no function", path.display());
        return Err(server::Error::Usage(message).into());
    }
    Ok(definitions.iter().map(|d| format!("{d};\n")).collect())
}

impl Outcome {
    fn show(&self, expression: &str, catalog: &Catalog, output: &Output) -> anyhow::Result<()> {
        match self {
            Outcome::Values(ty, values) => {
                let lines = values
                    .iter()
                    .map(|value| format!("{}  {ty}\n", shown(value)));
                output.print(&lines.collect::<String>())?;
            }
            Outcome::Wrong(faults) => {
                let text = render::render(faults, "expression", expression, catalog, output.colour);
                output.say(text.trim_end());
                output.say("");
            }
            Outcome::Failed(cause) => {
                output.error(&format!("'{expression}' has no value: {cause}"))
            }
        }
        Ok(())
    }

    fn to_json(&self, expression: &str) -> Json {
        match self {
            Outcome::Values(ty, values) => json!({
                "expression": expression,
                "type": ty.name(),
                "values": values.iter().map(value_json).collect::<Vec<_>>(),
            }),
            Outcome::Wrong(faults) => {
                let lines = LineIndex::new(expression);
                let faults = faults.iter();
                let faults = faults.map(|d| diagnostic_json(d, "expression", expression, &lines));
                json!({"expression": expression, "diagnostics": faults.collect::<Vec<_>>()})
            }
            Outcome::Failed(cause) => json!({"expression": expression, "error": cause}),
        }
    }
}

/// Text in quotes, so that `'1'` is told from `1`.
fn shown(value: &Value) -> String {
    match value {
        Value::Str(text) if text.contains('\'') => format!("\"{text}\""),
        Value::Str(text) => format!("'{text}'"),
        other => event::text::to_text(other),
    }
}

/// What JSON has no number for (NaN, infinities) is text.
fn value_json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(is) => json!(is),
        Value::Int(n) => json!(n),
        Value::Long(n) => json!(n),
        Value::Double(n) if n.is_finite() => json!(n),
        // By its shortest text: 0.1 and not 0.10000000149011612.
        Value::Float(n) if n.is_finite() => {
            serde_json::from_str(&event::text::to_text(value)).unwrap_or_else(|_| json!(n))
        }
        Value::Str(text) => json!(**text),
        other => json!(event::text::to_text(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(text: &str, is_list: bool) -> (Type, Vec<Value>) {
        let given = Given::read(text, is_list).expect("a value");
        (given.ty, given.values)
    }

    #[test]
    fn values_have_the_type_that_a_constant_has() {
        assert_eq!(given("x=5", false), (Type::Int, vec![Value::Int(5)]));
        assert_eq!(given("x=-5", false), (Type::Int, vec![Value::Int(-5)]));
        assert_eq!(given("x=5L", false), (Type::Long, vec![Value::Long(5)]));
        assert_eq!(
            given("x=2.5", false),
            (Type::Double, vec![Value::Double(2.5)])
        );
        assert_eq!(
            given("x=true", false),
            (Type::Bool, vec![Value::Bool(true)])
        );
        assert_eq!(
            given("x=5 sec", false),
            (Type::Long, vec![Value::Long(5000)])
        );
        assert_eq!(given("x='5'", false), (Type::String, vec![Value::str("5")]));
        assert_eq!(
            given("x=a=b, c", false),
            (Type::String, vec![Value::str("a=b, c")])
        );
        assert_eq!(
            given("x:string=5", false),
            (Type::String, vec![Value::str("5")])
        );
        assert_eq!(given("x:long=5", false), (Type::Long, vec![Value::Long(5)]));
        assert_eq!(given("x:int=null", false), (Type::Int, vec![Value::Null]));
    }

    #[test]
    fn values_of_several_events_have_one_type() {
        let doubles = vec![Value::Double(1.0), Value::Double(2.5), Value::Null];
        assert_eq!(given("x=1, 2.5, null", true), (Type::Double, doubles));
        let texts = vec![Value::str("1"), Value::str("b")];
        assert_eq!(given("x=1,b", true), (Type::String, texts));
    }

    #[test]
    fn what_is_no_value_is_refused() {
        for text in ["x", "=5", "a b=5", "x:integer=5", "x=null", "x:int=five"] {
            assert!(Given::read(text, false).is_err(), "{text}");
        }
    }
}
