//! The catalog for people and for programs: the list and the pages of `headwater connectors`, its
//! JSON, and the reference chapter of the documentation.

use std::fmt::Write as _;

use serde_json::{Value, json};

use check::{Catalog, type_names};
use plan::spec::{
    ConnectorKind, ConnectorSpec, FunctionKind, FunctionSpec, OptionSpec, OptionStatus, OptionType,
    Overload, Returns, Status,
};

/// One option or parameter of a component, as it is shown.
struct Row {
    name: String,
    aliases: &'static [&'static str],
    ty: String,
    required: bool,
    default: &'static str,
    unit: &'static str,
    /// Without the unit; empty for any value of the type.
    range: String,
    dynamic: bool,
    status: OptionStatus,
    test: &'static str,
    doc: &'static str,
}

impl Row {
    fn of_option(option: &'static OptionSpec) -> Row {
        let ty = match option.ty {
            OptionType::OneOf(values) => values.join("|"),
            other => other.name().to_owned(),
        };
        Row {
            name: option.name.to_owned(),
            aliases: option.aliases,
            ty,
            required: option.required,
            default: option.default,
            unit: match option.ty {
                // The type says it.
                OptionType::Millis | OptionType::Bytes => "",
                _ => option.unit,
            },
            range: option.unit("").range_text(),
            dynamic: option.dynamic,
            status: option.status,
            test: option.test,
            doc: option.doc,
        }
    }
}

/// Options of a connector; parameters, where it is a function.
fn rows(spec: &ConnectorSpec) -> Vec<Row> {
    match spec.function {
        Some(function) => parameters(function),
        None => spec.all_options().map(Row::of_option).collect(),
    }
}

/// Each parameter once; those that every form of the call has are required.
fn parameters(function: &'static FunctionSpec) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for param in function.overloads.iter().flat_map(|o| o.params) {
        if rows.iter().any(|r| r.name == param.name) {
            continue;
        }
        let has_it = |o: &Overload| o.params.iter().any(|p| p.name == param.name);
        rows.push(Row {
            name: param.name.to_owned(),
            aliases: &[],
            ty: type_names(param.types),
            required: function.overloads.iter().all(has_it),
            default: "",
            unit: "",
            range: String::new(),
            dynamic: !param.constant,
            status: OptionStatus::Honoured,
            test: "",
            doc: param.doc,
        });
    }
    rows
}

const fn status_name(status: Status) -> &'static str {
    match status {
        Status::Runs => "runs",
        Status::Known => "known",
    }
}

const fn option_status_name(status: OptionStatus) -> &'static str {
    match status {
        OptionStatus::Honoured => "honoured",
        OptionStatus::Ignored => "ignored",
        OptionStatus::Refused => "refused",
    }
}

/// The components of this name, of whatever kind; all where there is none given. A stream function
/// may be named with its `#`.
pub fn named(catalog: &Catalog, name: Option<&str>) -> Vec<&'static ConnectorSpec> {
    let name = name.map(|n| n.trim_start_matches('#'));
    catalog
        .all_connectors()
        .filter(|c| name.is_none_or(|n| c.name.eq_ignore_ascii_case(n)))
        .collect()
}

/// All kinds of functions, in the order in which their pages are shown.
const FUNCTION_KINDS: [FunctionKind; 4] = [
    FunctionKind::Window,
    FunctionKind::StreamProcessor,
    FunctionKind::Aggregator,
    FunctionKind::Scalar,
];

/// All windows, stream functions, aggregators and functions.
pub fn functions(catalog: &Catalog) -> impl Iterator<Item = &'static FunctionSpec> {
    FUNCTION_KINDS
        .into_iter()
        .flat_map(|kind| catalog.functions(kind))
}

/// The functions of this name, of whatever kind. A name may stand as in an app (`#window.time`,
/// `#str:tokenize`), and without its namespace.
pub fn functions_named(catalog: &Catalog, name: &str) -> Vec<&'static FunctionSpec> {
    let name = name.trim_start_matches('#');
    let name = name.strip_prefix("window.").unwrap_or(name);
    let is_it = |spec: &&FunctionSpec| {
        spec.full_name().eq_ignore_ascii_case(name) || spec.name.eq_ignore_ascii_case(name)
    };
    functions(catalog).filter(is_it).collect()
}

/// As a function is called in an app.
fn called(spec: &FunctionSpec) -> String {
    match spec.kind {
        FunctionKind::StreamProcessor => format!("#{}", spec.full_name()),
        FunctionKind::Window => format!("#window.{}", spec.full_name()),
        _ => spec.full_name(),
    }
}

/// The page of one window, stream function, aggregator or function.
pub fn function_page(spec: &FunctionSpec) -> String {
    let (mut out, name) = (String::new(), called(spec));
    let (kind, status) = (spec.kind.name(), status_name(spec.status));
    line(
        &mut out,
        format_args!("{kind} {name} ({}, {status})", spec.origin),
    );
    line(&mut out, format_args!("{}\n", spec.summary));
    for overload in spec.overloads {
        let (arguments, result) = (argument_list(overload), result(spec));
        line(&mut out, format_args!("  {name}({arguments}){result}"));
    }
    let parameters = parameters_of(spec);
    if !parameters.is_empty() {
        line(&mut out, format_args!("\nparameters"));
    }
    for (name, doc) in parameters {
        line(&mut out, format_args!("  {name}  {doc}"));
    }
    if !spec.adds.is_empty() {
        line(&mut out, format_args!("\nadds {}", added(spec)));
    }
    if !spec.example.is_empty() {
        line(&mut out, format_args!("\nexample"));
        for part in spec.example.trim_end().lines() {
            line(&mut out, format_args!("  {part}"));
        }
    }
    out
}

/// What `headwater connectors --json` prints: the fields that others rely on, and for people
/// summaries, aliases and meanings. `missing` gives the Cargo feature of a component that runs, but not
/// in this build.
pub fn to_json(
    components: &[&ConnectorSpec],
    missing: impl Fn(&ConnectorSpec) -> Option<&'static str>,
) -> Value {
    let components = components.iter().map(|spec| {
        let options: Vec<Value> = rows(spec)
            .iter()
            .map(|row| {
                json!({
                    "name": row.name,
                    "aliases": row.aliases,
                    "type": row.ty,
                    "required": row.required,
                    "default": if row.default.is_empty() { Value::Null } else { row.default.into() },
                    "dynamic": row.dynamic,
                    "status": option_status_name(row.status),
                    "test": if row.test.is_empty() { Value::Null } else { row.test.into() },
                    "doc": row.doc,
                })
            })
            .collect();
        let feature = missing(spec);
        let mut component = json!({
            "kind": spec.kind.name(),
            "name": spec.name,
            "origin": spec.origin,
            "status": if feature.is_some() { "absent" } else { status_name(spec.status) },
            "summary": spec.summary,
            "options": options,
        });
        if let Some(feature) = feature {
            component["feature"] = feature.into();
        }
        component
    });
    Value::Array(components.collect())
}

const KINDS: &[(ConnectorKind, &str)] = &[
    (ConnectorKind::Source, "Sources"),
    (ConnectorKind::Sink, "Sinks"),
    (ConnectorKind::SourceMapper, "Mappers of sources"),
    (ConnectorKind::SinkMapper, "Mappers of sinks"),
    (ConnectorKind::Store, "Stores"),
    (ConnectorKind::StreamFunction, "Stream functions"),
    (ConnectorKind::Function, "Functions"),
    (ConnectorKind::Distribution, "Distribution strategies"),
];

/// One line for each component, by kind; `missing` as in [`to_json`].
pub fn list(catalog: &Catalog, missing: impl Fn(&ConnectorSpec) -> Option<&'static str>) -> String {
    let mut out = String::new();
    let width = catalog
        .all_connectors()
        .map(|c| display_name(c).len())
        .max()
        .unwrap_or(0);
    for (kind, title) in KINDS {
        line(&mut out, format_args!("{title}"));
        for spec in catalog.connectors(*kind) {
            let status = match missing(spec) {
                Some(_) => "absent",
                None => status_name(spec.status),
            };
            line(
                &mut out,
                format_args!(
                    "  {:width$}  {status:6}  {}",
                    display_name(spec),
                    spec.summary
                ),
            );
        }
    }
    out
}

/// `#file:move` for stream functions, the plain name for all else.
fn display_name(spec: &ConnectorSpec) -> String {
    match spec.kind {
        ConnectorKind::StreamFunction => format!("#{}", spec.name),
        _ => spec.name.to_owned(),
    }
}

/// The page of one component.
pub fn page(spec: &ConnectorSpec) -> String {
    let mut out = String::new();
    line(
        &mut out,
        format_args!(
            "{} {} ({}, {})",
            spec.kind.name(),
            display_name(spec),
            spec.origin,
            status_name(spec.status)
        ),
    );
    line(&mut out, format_args!("{}", spec.summary));
    let rows = rows(spec);
    let title = if spec.function.is_some() {
        "parameters"
    } else {
        "options"
    };
    line(
        &mut out,
        format_args!("\n{title}{}", if rows.is_empty() { ": none" } else { "" }),
    );
    for row in &rows {
        line(&mut out, format_args!("  {}  {}", row.name, facts(row)));
        line(&mut out, format_args!("      {}", row.doc));
    }
    if let Some(function) = spec.function.filter(|f| !f.adds.is_empty()) {
        line(&mut out, format_args!("\nadds {}", added(function)));
    }
    if !spec.properties.is_empty() {
        let names: Vec<&str> = spec
            .properties
            .iter()
            .map(|p| if *p == "*" { "any name" } else { p })
            .collect();
        line(
            &mut out,
            format_args!("\ntransport properties: {}", names.join(", ")),
        );
    }
    if !spec.example.is_empty() {
        line(&mut out, format_args!("\nexample"));
        for part in spec.example.lines() {
            line(&mut out, format_args!("  {part}"));
        }
    }
    out
}

/// `bool, default true, dynamic`.
fn facts(row: &Row) -> String {
    let mut facts = vec![row.ty.clone()];
    if !row.unit.is_empty() {
        facts.push(format!("in {}", row.unit));
    }
    if !row.range.is_empty() {
        facts.push(row.range.clone());
    }
    if row.required {
        facts.push("required".to_owned());
    }
    if !row.default.is_empty() {
        facts.push(format!("default {}", row.default));
    }
    if row.dynamic {
        facts.push("dynamic".to_owned());
    }
    if !row.aliases.is_empty() {
        facts.push(format!("also {}", row.aliases.join(", ")));
    }
    if row.status != OptionStatus::Honoured {
        facts.push(option_status_name(row.status).to_owned());
    }
    facts.join(", ")
}

fn added(function: &FunctionSpec) -> String {
    let names: Vec<String> = function
        .adds
        .iter()
        .map(|(name, ty)| format!("{name} {ty}"))
        .collect();
    names.join(", ")
}

fn line(out: &mut String, text: std::fmt::Arguments) {
    out.write_fmt(text).expect("a String takes all text");
    out.push('\n');
}

// ---- the reference chapter ----

const GENERATED: &str = "<!-- Generated from the catalog by `cargo xtask docs`; do not edit. -->\n";

/// The files of `docs/reference`: name and content.
pub fn reference(catalog: &Catalog) -> Vec<(&'static str, String)> {
    vec![
        ("connectors.md", connector_chapter(catalog)),
        (
            "functions.md",
            function_chapter(
                catalog,
                "Functions",
                "Functions are used in expressions, aggregators in `select` and `having`, stream \
                 functions after a stream (`from S#name(…)`). A status of *known* means that \
                 `check` validates it, but `run` refuses it.",
                &[
                    (FunctionKind::Scalar, "Functions in expressions"),
                    (FunctionKind::Aggregator, "Aggregators"),
                    (FunctionKind::StreamProcessor, "Stream functions"),
                ],
            ),
        ),
        (
            "windows.md",
            function_chapter(
                catalog,
                "Windows",
                "A window follows a stream (`from S#window.length(5)`). Times are milliseconds or \
                 time constants such as `5 sec`.",
                &[(FunctionKind::Window, "Windows")],
            ),
        ),
    ]
}

fn connector_chapter(catalog: &Catalog) -> String {
    let mut out = format!("# Connectors\n\n{GENERATED}\n");
    line(
        &mut out,
        format_args!(
            "Names of components and options are matched as written. An option that a component \
             does not have is ignored with a warning. *Dynamic* options may hold \
             `{{{{attribute}}}}`. A component that is *known* is validated by `check` and refused \
             by `run`.\n"
        ),
    );
    for (kind, title) in KINDS {
        line(&mut out, format_args!("## {title}\n"));
        for spec in catalog.connectors(*kind) {
            connector_section(&mut out, spec);
        }
    }
    finish(out)
}

fn connector_section(out: &mut String, spec: &ConnectorSpec) {
    line(
        out,
        format_args!("### {} `{}`\n", spec.kind.noun(), display_name(spec)),
    );
    line(
        out,
        format_args!(
            "{} *({}, {})*\n",
            spec.summary,
            spec.origin,
            status_name(spec.status)
        ),
    );
    let rows = rows(spec);
    if !rows.is_empty() {
        let title = if spec.function.is_some() {
            "Parameter"
        } else {
            "Option"
        };
        line(
            out,
            format_args!("| {title} | Type | Default | Range | | Meaning |"),
        );
        line(out, format_args!("|---|---|---|---|---|---|"));
        for row in &rows {
            markdown_row(out, row);
        }
        out.push('\n');
    }
    if !spec.properties.is_empty() {
        let names: Vec<String> = spec
            .properties
            .iter()
            .map(|p| {
                if *p == "*" {
                    "any name".to_owned()
                } else {
                    format!("`{p}`")
                }
            })
            .collect();
        line(
            out,
            format_args!("Transport properties (`trp:`): {}.\n", names.join(", ")),
        );
    }
    if !spec.example.is_empty() {
        line(out, format_args!("```siddhi\n{}\n```\n", spec.example));
    }
}

fn markdown_row(out: &mut String, row: &Row) {
    let mut notes = Vec::new();
    if row.required {
        notes.push("required".to_owned());
    }
    if row.dynamic {
        notes.push("dynamic".to_owned());
    }
    if row.status != OptionStatus::Honoured {
        notes.push(format!("**{}**", option_status_name(row.status)));
    }
    if !row.aliases.is_empty() {
        notes.push(format!("also `{}`", row.aliases.join("`, `")));
    }
    let ty = match row.unit {
        "" => row.ty.replace('|', "\\|"),
        unit => format!("{}, {unit}", row.ty),
    };
    let default = match row.default {
        "" => String::new(),
        text => format!("`{text}`"),
    };
    line(
        out,
        format_args!(
            "| `{}` | {} | {} | {} | {} | {} |",
            row.name,
            ty,
            default,
            row.range,
            notes.join(", "),
            row.doc.replace('|', "\\|")
        ),
    );
}

fn function_chapter(
    catalog: &Catalog,
    title: &str,
    opening: &str,
    kinds: &[(FunctionKind, &str)],
) -> String {
    let mut out = format!("# {title}\n\n{GENERATED}\n{opening}\n\n");
    for (kind, heading) in kinds {
        line(&mut out, format_args!("## {heading}\n"));
        let mut specs: Vec<&FunctionSpec> = catalog.functions(*kind).collect();
        specs.sort_by_key(|spec| (spec.namespace, spec.name.to_ascii_lowercase()));
        for spec in specs {
            function_section(&mut out, spec);
        }
    }
    finish(out)
}

fn function_section(out: &mut String, spec: &FunctionSpec) {
    let name = called(spec);
    line(out, format_args!("### `{name}`\n"));
    line(
        out,
        format_args!(
            "{} *({}, {})*\n",
            spec.summary,
            spec.origin,
            status_name(spec.status)
        ),
    );
    for overload in spec.overloads {
        line(
            out,
            format_args!("- `{name}({})`{}", argument_list(overload), result(spec)),
        );
    }
    if !spec.overloads.is_empty() {
        out.push('\n');
    }
    for row in parameters_of(spec) {
        line(out, format_args!("  - `{}`: {}", row.0, row.1));
    }
    if !spec.overloads.iter().all(|o| o.params.is_empty()) {
        out.push('\n');
    }
    if !spec.adds.is_empty() {
        line(out, format_args!("Adds `{}`.\n", added(spec)));
    }
    if !spec.example.is_empty() {
        line(
            out,
            format_args!("```siddhi\n{}\n```\n", spec.example.trim_end()),
        );
    }
}

/// Name and meaning of each parameter, once.
fn parameters_of(spec: &FunctionSpec) -> Vec<(&'static str, &'static str)> {
    let mut rows: Vec<(&str, &str)> = Vec::new();
    for param in spec.overloads.iter().flat_map(|o| o.params) {
        if !param.doc.is_empty() && rows.iter().all(|(name, _)| *name != param.name) {
            rows.push((param.name, param.doc));
        }
    }
    rows
}

fn argument_list(overload: &Overload) -> String {
    let mut parts: Vec<String> = overload
        .params
        .iter()
        .map(|p| {
            let constant = if p.constant { "constant " } else { "" };
            format!("{} {constant}{}", p.name, type_names(p.types))
        })
        .collect();
    if overload.repeats > 0 {
        parts.push("…".to_owned());
    }
    parts.join(", ")
}

fn result(spec: &FunctionSpec) -> String {
    match spec.returns {
        Returns::Nothing => String::new(),
        Returns::Type(ty) => format!(" → {ty}"),
        Returns::Argument(i) => format!(" → type of argument {}", i + 1),
        Returns::Named(i) => format!(" → the type that argument {} names", i + 1),
        Returns::Widened(_) => " → long of int and long, double of float and double".to_owned(),
        Returns::Rounded(_) => " → int of float, long of double".to_owned(),
    }
}

/// One line break at the end, none doubled.
fn finish(out: String) -> String {
    let mut text = out.trim_end().to_owned();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog() -> Catalog {
        crate::full()
    }

    #[test]
    fn json_has_every_component_and_field() {
        let all = to_json(&named(&catalog(), None), |_| None);
        let components = all.as_array().expect("a list");
        assert_eq!(components.len(), crate::connector_specs().count());
        let fields = |value: &Value| {
            value
                .as_object()
                .expect("an object")
                .keys()
                .cloned()
                .collect::<Vec<_>>()
                .join(" ")
        };
        for component in components {
            assert_eq!(fields(component), "kind name origin status summary options");
            for option in component["options"].as_array().expect("a list") {
                assert_eq!(
                    fields(option),
                    "name aliases type required default dynamic status test doc"
                );
            }
        }
        let kafka = to_json(&named(&catalog(), Some("kafka")), |_| None);
        assert_eq!(kafka.as_array().map(Vec::len), Some(2), "source and sink");
        assert_eq!(kafka[0]["options"][0]["name"], "bootstrap.servers");
        assert_eq!(kafka[0]["status"], "runs");
        let absent = to_json(&named(&catalog(), Some("kafka")), |_| Some("kafka"));
        assert_eq!(absent[0]["status"], "absent");
        assert_eq!(absent[0]["feature"], "kafka");
        let moves = to_json(&named(&catalog(), Some("#file:move")), |_| None);
        assert_eq!(moves[0]["options"][1]["required"], true);
        assert_eq!(moves[0]["options"][2]["required"], false);
    }

    #[test]
    fn the_list_names_every_component() {
        let missing = |spec: &ConnectorSpec| (spec.name == "kafka").then_some("kafka");
        let list = list(&catalog(), missing);
        let lines = list.lines().filter(|l| l.starts_with("  "));
        assert_eq!(lines.count(), crate::connector_specs().count());
        assert!(list.contains("\n  #file:move "), "{list}");
        let of_kafka = list.lines().filter(|l| l.starts_with("  kafka "));
        assert!(of_kafka.clone().count() > 0 && of_kafka.clone().all(|l| l.contains(" absent ")));
    }

    #[test]
    fn a_page_tells_all_of_an_option() {
        let log = named(&catalog(), Some("log"));
        let expect = expect_test::expect![[r#"
            sink log (core, runs)
            Writes each chunk as one line to standard output.

            options
              priority  INFO|DEBUG|WARN|FATAL|ERROR|OFF|TRACE, default INFO
                  Level of the line; OFF writes nothing.
              prefix  text, dynamic
                  Text before each payload; by default '<app> : <stream>'.
              on.error  LOG|WAIT|STREAM|STORE, default LOG
                  What happens to an event while the destination is unreachable: log and drop it, wait for the connection, send it to the fault stream, or keep it in the error store.

            example
              @sink(type='log', prefix='trade')
              define stream Trades (symbol string, price double);
        "#]];
        expect.assert_eq(&page(log[0]));
    }

    #[test]
    fn pages_print_unit_range_and_default() {
        let sqs = named(&catalog(), Some("sqs"));
        let text = page(sqs[0]);
        let rows = [
            "  polling.interval  ms, 0 to 4294967295, required\n",
            "  wait.time  int, in seconds, -1 to 20, default -1\n",
        ];
        for row in rows {
            assert!(text.contains(row), "{text}");
        }
        let chapters = reference(&catalog());
        let (_, text) = &chapters[0];
        let row = "| `wait.time` | int, seconds | `-1` | -1 to 20 |  | ";
        assert!(text.contains(row));
    }

    #[test]
    fn the_reference_has_all_functions() {
        let chapters = reference(&catalog());
        let sections = |name: &str| {
            let (_, text) = chapters
                .iter()
                .find(|(n, _)| *n == name)
                .expect("a chapter");
            text.lines().filter(|l| l.starts_with("### ")).count()
        };
        assert_eq!(sections("connectors.md"), crate::connector_specs().count());
        assert_eq!(sections("functions.md"), 208 + 21 + 41 + 5 + 15);
        assert_eq!(sections("windows.md"), 35);
    }
}
