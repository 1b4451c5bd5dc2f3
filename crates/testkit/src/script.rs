//! The readable text-test format.
//!
//! ```text
//! # Lines that begin with '#' are comments.
//! === the sum follows the last two events
//! define stream S (symbol string, price double);
//! from S#window.length(2) select symbol, sum(price) as total insert into Out;
//! ---
//! send S @0 A 1.0
//! send S @100 [B 2.0; C 3.0]
//! advance 1000
//! expect Out @0 A 1.0
//! expect Out @100 C 5.0
//! ```
//!
//! A file holds one or more cases. `===` with a name begins a case, `---` ends its app and begins
//! its script; a file with one case may leave out the `===` line. `app FILE` in place of an app
//! reads it from a file beside the test.
//!
//! Right under the `===` line a case may say more about itself:
//!
//! | line | meaning |
//! |---|---|
//! | `covers: 341, 342` | the numbers of the features that it shows (see `docs/reference/features.md`) |
//! | `differs: why` | Siddhi gives something else, and a ruling says that it is to be so |
//! | `in memory: why` | a table in the event store gives something else than one in memory (mode `eventstore`) |
//! | `variable: NAME=value` | the value of `${NAME}` in the app; without it the environment has it |
//!
//! The lines of a script:
//!
//! | line | meaning |
//! |---|---|
//! | `send S @T row` | one event, a chunk of its own, at time T (milliseconds); without `@T` at the time reached |
//! | `send S @T [row; row]` | several events as one chunk |
//! | `advance N`, `advance @T` | time passes by N, or until T |
//! | `publish TOPIC @T 'text'` | a message on an in-memory topic |
//! | `save`, `restart` | the state is saved; the app is stopped, made anew with the state saved last, and started |
//! | `expect S @T row`, `expect S [row; row]` | the next chunk on stream S; without `@T` its timestamps do not matter |
//! | `expect query Q [+ row; - row]` | the next callback of query Q: current (`+`) and expired (`-`) events |
//! | `expect S nothing` | nothing more came out on S so far |
//! | `expect rejected N` | so many events were rejected so far |
//! | `expect refused WORDS` | the app is refused, and one of the faults has these words |
//! | `query TEXT` | an on-demand query |
//! | `expect answer [row; …]`, `expect answer nothing` | what the query before it gives |
//! | `expect failure WORDS` | the query before it fails with these words |
//!
//! A row is values separated by blanks: numbers, `true`, `null`, words, or `'text with blanks'`
//! (a quote inside is doubled). `ts=T` before the values sets an event's own timestamp. A value of
//! another type than declared names it: `int:5`, `double:1.5`. A list is `list:(1 2)`, a map
//! `map:(key value key value)`.
//!
//! Every stream and query named in an `expect` must have been consumed to its end when the script
//! ends: output that nobody expected is a failure. A case without an `expect` is refused.

use event::value::Shared;
use event::{Object, Type, Value};

/// One case of a file.
#[derive(Clone, Debug)]
pub struct Script {
    pub name: String,
    pub about: About,
    pub app: AppText,
    pub steps: Vec<Line>,
    /// Line of the case in its file, from 1.
    pub line: usize,
}

/// What a case says about itself under its name.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct About {
    /// Numbers of the features it shows.
    pub covers: Vec<u32>,
    /// Why its expectations are not what Siddhi gives.
    pub differs: Option<String>,
    /// Why tables in the event store do not give what it expects.
    pub in_memory: Option<String>,
    /// Values of `${NAME}` in its app.
    pub variables: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
pub enum AppText {
    /// The app itself and the line it begins at.
    Here(String, usize),
    /// A file beside the test.
    File(String),
}

#[derive(Clone, Debug)]
pub struct Line {
    /// From 1.
    pub number: usize,
    pub step: Step,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    Send {
        stream: String,
        at: Option<i64>,
        rows: Vec<RowText>,
        is_chunk: bool,
    },
    AdvanceBy(i64),
    AdvanceTo(i64),
    Publish {
        topic: String,
        at: Option<i64>,
        text: String,
    },
    Save,
    Restart,
    Query(String),
    Expect(Expect),
}

#[derive(Clone, PartialEq, Debug)]
pub enum Expect {
    Chunk {
        stream: String,
        at: Option<i64>,
        rows: Vec<RowText>,
        is_chunk: bool,
    },
    Nothing(String),
    Callback {
        query: String,
        at: Option<i64>,
        current: Vec<RowText>,
        expired: Vec<RowText>,
    },
    Answer(Vec<RowText>),
    /// The query before it fails with these words.
    NoAnswer(String),
    Rejected(u64),
    Refused(String),
}

/// A row as written; values get their types from the stream.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RowText {
    pub ts: Option<i64>,
    pub values: Vec<ValueText>,
}

#[derive(Clone, PartialEq, Debug)]
pub enum ValueText {
    Word(String),
    Quoted(String),
    List(Vec<ValueText>),
    Map(Vec<ValueText>),
}

/// What is wrong with a test file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ScriptError {
    pub line: usize,
    pub message: String,
}

/// Reads all cases of a file. `file_name` names a case that has no `===` line.
pub fn parse(text: &str, file_name: &str) -> Result<Vec<Script>, ScriptError> {
    let mut cases: Vec<Script> = Vec::new();
    let mut app: Vec<&str> = Vec::new();
    let mut in_app = true;
    let mut open: Option<(String, usize)> = None;
    let mut about = About::default();
    let mut app_line = 1;
    for (index, raw) in text.lines().enumerate() {
        let number = index + 1;
        let at_line = |message: String| ScriptError {
            line: number,
            message,
        };
        if let Some(name) = raw.strip_prefix("===") {
            finish_app(&open, &app, in_app)?;
            open = Some((name.trim().to_owned(), number));
            (in_app, app_line) = (true, number + 1);
            about = About::default();
            app.clear();
        } else if raw.trim_end() == "---" && in_app {
            let (name, line) = open.clone().unwrap_or((file_name.to_owned(), 1));
            cases.push(Script {
                name,
                about: std::mem::take(&mut about),
                app: app_text(&app, app_line),
                steps: Vec::new(),
                line,
            });
            in_app = false;
        } else if in_app
            && open.is_some()
            && app_line == number
            && about.read(raw).map_err(at_line)?
        {
            app_line += 1;
        } else if in_app {
            // A comment of the test file; the line stays, so that places in the app are right.
            app.push(if raw.starts_with('#') && !raw.starts_with("#window") {
                ""
            } else {
                raw
            });
        } else if let Some(case) = cases.last_mut()
            && !raw.trim().is_empty()
            && !raw.trim_start().starts_with('#')
        {
            let step = step(raw.trim()).map_err(at_line)?;
            case.steps.push(Line { number, step });
        }
    }
    finish_app(&open, &app, in_app)?;
    let asks = |step: &Line| matches!(step.step, Step::Expect(_));
    match cases.iter().find(|case| !case.steps.iter().any(asks)) {
        Some(case) => Err(ScriptError {
            line: case.line,
            message: format!(
                "'{}' expects nothing, so it cannot fail; add an 'expect' line",
                case.name
            ),
        }),
        None => Ok(cases),
    }
}

impl About {
    /// Takes `line` if it is one about the case; false if the app begins with it.
    fn read(&mut self, line: &str) -> Result<bool, String> {
        if let Some(numbers) = line.strip_prefix("covers:") {
            for number in numbers.split(',').map(str::trim) {
                let number = number.parse().map_err(|_| {
                    format!("'{number}' is not a number of a feature: write 'covers: 341, 342'")
                })?;
                self.covers.push(number);
            }
        } else if let Some(why) = line.strip_prefix("differs:") {
            self.differs = Some(reason("differs:", why)?);
        } else if let Some(why) = line.strip_prefix("in memory:") {
            self.in_memory = Some(reason("in memory:", why)?);
        } else if let Some(variable) = line.strip_prefix("variable:") {
            let (name, value) = variable
                .split_once('=')
                .ok_or("'variable:' needs a value: write 'variable: NAME=value'")?;
            let variable = (name.trim().to_owned(), value.trim().to_owned());
            self.variables.push(variable);
        } else {
            return Ok(false);
        }
        Ok(true)
    }
}

fn reason(word: &str, why: &str) -> Result<String, String> {
    match why.trim() {
        "" => Err(format!("'{word}' needs a reason")),
        why => Ok(why.to_owned()),
    }
}

/// An app without a script asserts nothing.
fn finish_app(
    open: &Option<(String, usize)>,
    app: &[&str],
    in_app: bool,
) -> Result<(), ScriptError> {
    if in_app && app.iter().any(|l| !l.trim().is_empty()) {
        let line = open.as_ref().map_or(1, |(_, line)| *line);
        return Err(ScriptError {
            line,
            message: "the case has no script: end its app with a line '---'".into(),
        });
    }
    Ok(())
}

fn app_text(lines: &[&str], first: usize) -> AppText {
    let text = lines.join("\n");
    match text.trim().strip_prefix("app ") {
        Some(file) if !file.contains('\n') => AppText::File(file.trim().to_owned()),
        _ => AppText::Here(text, first),
    }
}

fn step(text: &str) -> Result<Step, String> {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    match word {
        "send" => {
            let (stream, rest) = name(rest)?;
            let (at, rest) = at(rest)?;
            let (rows, is_chunk) = rows(rest)?;
            if rows.is_empty() {
                return Err("'send' needs a row".into());
            }
            Ok(Step::Send {
                stream,
                at,
                rows,
                is_chunk,
            })
        }
        "advance" => match rest.strip_prefix('@') {
            Some(to) => Ok(Step::AdvanceTo(millis(to)?)),
            None => Ok(Step::AdvanceBy(millis(rest)?)),
        },
        "publish" => {
            let (topic, rest) = name(rest)?;
            let (at, rest) = at(rest)?;
            match &row(rest)?.values[..] {
                [ValueText::Word(text) | ValueText::Quoted(text)] => Ok(Step::Publish {
                    topic,
                    at,
                    text: text.clone(),
                }),
                _ => Err("'publish' needs one text".into()),
            }
        }
        "save" if rest.is_empty() => Ok(Step::Save),
        "restart" if rest.is_empty() => Ok(Step::Restart),
        "query" => Ok(Step::Query(rest.to_owned())),
        "expect" => expect(rest).map(Step::Expect),
        _ => Err(format!(
            "'{word}' is no step: expected send, advance, publish, save, restart, query or expect"
        )),
    }
}

fn expect(text: &str) -> Result<Expect, String> {
    let (first, rest) = name(text)?;
    match first.as_str() {
        "rejected" => Ok(Expect::Rejected(millis(rest)? as u64)),
        "refused" => Ok(Expect::Refused(rest.to_owned())),
        "answer" if rest == "nothing" => Ok(Expect::Answer(Vec::new())),
        "answer" => Ok(Expect::Answer(rows(rest)?.0)),
        "failure" => Ok(Expect::NoAnswer(rest.to_owned())),
        "query" => {
            let (query, rest) = name(rest)?;
            let (at, rest) = at(rest)?;
            let (mut current, mut expired) = (Vec::new(), Vec::new());
            let inner = rest
                .strip_prefix('[')
                .and_then(|r| r.strip_suffix(']'))
                .unwrap_or(rest);
            for part in split_rows(inner) {
                match part.trim().split_at_checked(1) {
                    Some(("+", row_text)) => current.push(row(row_text)?),
                    Some(("-", row_text)) => expired.push(row(row_text)?),
                    _ => return Err("rows of a query begin with '+' or '-'".into()),
                }
            }
            Ok(Expect::Callback {
                query,
                at,
                current,
                expired,
            })
        }
        _ if rest == "nothing" => Ok(Expect::Nothing(first)),
        _ => {
            let (at, rest) = at(rest)?;
            let (rows, is_chunk) = rows(rest)?;
            Ok(Expect::Chunk {
                stream: first,
                at,
                rows,
                is_chunk,
            })
        }
    }
}

fn name(text: &str) -> Result<(String, &str), String> {
    if let Some(rest) = text.strip_prefix('\'') {
        let (name, rest) = rest
            .split_once('\'')
            .ok_or("a name's quote is not closed")?;
        return Ok((name.to_owned(), rest.trim_start()));
    }
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    if name.is_empty() {
        return Err("a name is missing".into());
    }
    Ok((name.to_owned(), rest.trim_start()))
}

fn at(text: &str) -> Result<(Option<i64>, &str), String> {
    let Some(rest) = text.strip_prefix('@') else {
        return Ok((None, text));
    };
    let (time, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    Ok((Some(millis(time)?), rest.trim_start()))
}

fn millis(text: &str) -> Result<i64, String> {
    text.trim()
        .replace('_', "")
        .parse()
        .map_err(|_| format!("'{text}' is not a whole number"))
}

fn rows(text: &str) -> Result<(Vec<RowText>, bool), String> {
    match text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
        Some(inner) => Ok((split_rows(inner).map(row).collect::<Result<_, _>>()?, true)),
        None => Ok((vec![row(text)?], false)),
    }
}

/// Splits at `;` outside quotes.
fn split_rows(text: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    text.split(move |c: char| {
        quoted ^= c == '\'';
        c == ';' && !quoted
    })
    .filter(|part| !part.trim().is_empty())
}

fn row(text: &str) -> Result<RowText, String> {
    let mut rest = text.trim();
    let mut row = RowText::default();
    if let Some(after) = rest.strip_prefix("ts=") {
        let (ts, after) = after.split_once(char::is_whitespace).unwrap_or((after, ""));
        row.ts = Some(millis(ts)?);
        rest = after;
    }
    (row.values, rest) = values(rest)?;
    if rest.is_empty() {
        Ok(row)
    } else {
        Err(format!("'{rest}' stands behind the row"))
    }
}

/// Values up to the end or to a closing parenthesis, and what is left.
fn values(text: &str) -> Result<(Vec<ValueText>, &str), String> {
    let mut all = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() && !rest.starts_with(')') {
        if rest.starts_with('\'') {
            let (text, after) = quoted(rest)?;
            all.push(ValueText::Quoted(text));
            rest = after;
        } else if let Some(inner) = rest
            .strip_prefix("list:(")
            .or_else(|| rest.strip_prefix("map:("))
        {
            let is_map = rest.starts_with("map");
            let (items, after) = values(inner)?;
            rest = after
                .strip_prefix(')')
                .ok_or("a list or map is not closed with ')'")?;
            all.push(if is_map {
                ValueText::Map(items)
            } else {
                ValueText::List(items)
            });
        } else {
            let end = rest
                .find(|c: char| c.is_whitespace() || c == ')')
                .unwrap_or(rest.len());
            all.push(ValueText::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        }
        rest = rest.trim_start();
    }
    Ok((all, rest))
}

fn quoted(text: &str) -> Result<(String, &str), String> {
    let mut out = String::new();
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c != '\'' {
            out.push(c);
        } else if chars.next_if(|(_, next)| *next == '\'').is_some() {
            out.push('\'');
        } else {
            return Ok((out, &text[at + 1..]));
        }
    }
    Err("a quote is not closed".into())
}

impl ValueText {
    /// The value, as `ty` where it does not name another type itself.
    pub fn typed(&self, ty: Type) -> Result<Value, String> {
        match self {
            ValueText::Quoted(text) => Ok(Value::str(text)),
            ValueText::Word(word) => typed_word(word, ty),
            ValueText::List(items) => {
                let items = items
                    .iter()
                    .map(|i| i.typed(Type::Object))
                    .collect::<Result<_, _>>()?;
                Ok(Value::Object(Object::List(Shared::new(items))))
            }
            ValueText::Map(items) => {
                let mut entries = Vec::new();
                for pair in items.chunks(2) {
                    let [key, value] = pair else {
                        return Err("a map needs pairs".into());
                    };
                    entries.push((key.typed(Type::Object)?, value.typed(Type::Object)?));
                }
                Ok(Value::Object(Object::Map(Shared::new(entries))))
            }
        }
    }
}

fn typed_word(word: &str, ty: Type) -> Result<Value, String> {
    if word == "null" {
        return Ok(Value::Null);
    }
    if let Some((name, rest)) = word.split_once(':')
        && let Some(other) = Type::from_name(name)
        && other != Type::Object
    {
        return typed_word(rest, other);
    }
    let bad = || format!("'{word}' is no {ty}");
    Ok(match ty {
        Type::String => Value::str(word),
        Type::Bool => Value::Bool(word.parse().map_err(|_| bad())?),
        Type::Int => Value::Int(word.parse().map_err(|_| bad())?),
        Type::Long => Value::Long(word.parse().map_err(|_| bad())?),
        Type::Float => Value::Float(java_real(word).ok_or_else(bad)? as f32),
        Type::Double => Value::Double(java_real(word).ok_or_else(bad)?),
        // Without a type a word is the plainest thing it can be.
        Type::Object => match word.parse::<i32>() {
            Ok(n) => Value::Int(n),
            Err(_) => word
                .parse::<bool>()
                .map_or_else(|_| Value::str(word), Value::Bool),
        },
    })
}

fn java_real(word: &str) -> Option<f64> {
    match word {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => word.parse().ok(),
    }
}

/// A value as it would be written in a test for an attribute of type `ty`.
pub fn write_value(out: &mut String, value: &Value, ty: Type) {
    use std::fmt::Write as _;
    let plain = match value {
        Value::Null => return out.push_str("null"),
        Value::Str(text) => return write_text(out, text),
        Value::Object(Object::List(list)) => {
            out.push_str("list:(");
            write_all(out, list.lock().iter());
            return out.push(')');
        }
        Value::Object(Object::Map(map)) => {
            out.push_str("map:(");
            write_all(out, map.lock().iter().flat_map(|(k, v)| [k, v]));
            return out.push(')');
        }
        other => event::text::to_text(other),
    };
    let needs_type = value.ty() != Some(ty)
        && !(ty == Type::Object && matches!(value, Value::Int(_) | Value::Bool(_)));
    match value
        .ty()
        .filter(|_| needs_type && !matches!(value, Value::Object(_)))
    {
        Some(actual) => write!(out, "{actual}:{plain}").expect("writing to a string cannot fail"),
        None => out.push_str(&plain),
    }
}

fn write_all<'a>(out: &mut String, values: impl Iterator<Item = &'a Value>) {
    for (i, value) in values.enumerate() {
        if i > 0 {
            out.push(' ');
        }
        write_value(out, value, Type::Object);
    }
}

fn write_text(out: &mut String, text: &str) {
    let is_word = !text.is_empty()
        && text != "null"
        && !text.contains(|c: char| c.is_whitespace() || "';()[]:=@+-".contains(c))
        && text.parse::<f64>().is_err()
        && text.parse::<bool>().is_err();
    if is_word {
        out.push_str(text);
    } else {
        out.push('\'');
        out.push_str(&text.replace('\'', "''"));
        out.push('\'');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Step {
        step(text).expect("a step")
    }

    fn words(words: &[&str]) -> RowText {
        RowText {
            ts: None,
            values: words
                .iter()
                .map(|w| ValueText::Word((*w).to_owned()))
                .collect(),
        }
    }

    #[test]
    fn steps_are_read() {
        assert_eq!(
            one("send S @100 A 1.0"),
            Step::Send {
                stream: "S".into(),
                at: Some(100),
                rows: vec![words(&["A", "1.0"])],
                is_chunk: false
            }
        );
        assert_eq!(
            one("expect query q [+ A; - B 2]"),
            Step::Expect(Expect::Callback {
                query: "q".into(),
                at: None,
                current: vec![words(&["A"])],
                expired: vec![words(&["B", "2"])]
            })
        );
        assert_eq!(one("advance @50"), Step::AdvanceTo(50));
        assert_eq!(
            one("expect Out nothing"),
            Step::Expect(Expect::Nothing("Out".into()))
        );
        assert!(step("sned S 1").is_err());
    }

    #[test]
    fn values_are_written_as_they_are_read() {
        let check = |text: &str, ty: Type, value: Value| {
            let (read, rest) = values(text).expect("a value");
            assert_eq!((rest, read.len()), ("", 1), "{text}");
            assert_eq!(read[0].typed(ty), Ok(value.clone()), "{text}");
            let mut out = String::new();
            write_value(&mut out, &value, ty);
            assert_eq!(out, text);
        };
        check("A", Type::String, Value::str("A"));
        check("'it''s; a b'", Type::String, Value::str("it's; a b"));
        check("'null'", Type::String, Value::str("null"));
        check("null", Type::Int, Value::Null);
        check("1.5", Type::Double, Value::Double(1.5));
        check("long:5", Type::Int, Value::Long(5));
        check("5", Type::Object, Value::Int(5));
        let list = Object::List(Shared::new(vec![Value::Int(1), Value::str("x")]));
        check("list:(1 x)", Type::Object, Value::Object(list));
    }

    #[test]
    fn a_file_holds_cases() {
        let text = "# about\n=== one\ndefine stream S (a int);\n---\nsend S 1\nexpect S 1\n\n=== two\napp x.siddhi\n---\nadvance 5\nexpect S nothing\n";
        let cases = parse(text, "file").expect("two cases");
        assert_eq!(cases.len(), 2);
        assert_eq!((cases[0].name.as_str(), cases[0].steps.len()), ("one", 2));
        assert!(matches!(&cases[0].app, AppText::Here(_, 3)));
        assert!(matches!(&cases[1].app, AppText::File(f) if f == "x.siddhi"));
        assert!(parse("define stream S (a int);\n", "file").is_err());
        assert!(parse("define stream S (a int);\n---\nsend S 1\n", "file").is_err());
    }

    #[test]
    fn a_case_says_what_it_covers() {
        let case = |about: &str| {
            let text =
                format!("=== one\n{about}define stream S (a int);\n---\nsend S 1\nexpect S 1\n");
            parse(&text, "file").map(|mut cases| cases.remove(0))
        };
        let check = |about: &str, covers: &[u32], differs: Option<&str>, app_line: usize| {
            let case = case(about).expect("a case");
            assert_eq!(case.about.covers, covers);
            assert_eq!(case.about.differs.as_deref(), differs);
            assert!(matches!(&case.app, AppText::Here(_, line) if *line == app_line));
        };
        check("", &[], None, 2);
        check("covers: 341, 342\n", &[341, 342], None, 3);
        check("differs: ruling 8\ncovers: 7\n", &[7], Some("ruling 8"), 4);
        let refused = |about: &str, message: &str| {
            let error = case(about).expect_err("refused");
            assert_eq!(
                (error.line, error.message.contains(message)),
                (2, true),
                "{error}"
            );
        };
        refused(
            "covers: 341, length\n",
            "'length' is not a number of a feature",
        );
        refused("covers:\n", "'' is not a number");
        refused("differs:\n", "needs a reason");
    }
}
