//! The catalog against the reference tables beside the repository, both ways, where they are there.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use headwater_catalog::{connector_specs, full};
use plan::spec::{ConnectorKind, ConnectorSpec, FunctionKind, OptionSpec};

/// The text of a reference file; `None`, said on stderr, when it is absent.
fn reference(name: &str) -> Option<String> {
    let root = std::env::var_os("HEADWATER_SHARED").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")),
        PathBuf::from,
    );
    let path = root.join("reference").join(name);
    match std::fs::read_to_string(&path) {
        Ok(text) => Some(text),
        Err(_) => {
            eprintln!("skipped: no reference material at {}", path.display());
            None
        }
    }
}

/// Cells of a table row, without marks of emphasis.
fn cells(line: &str) -> Vec<String> {
    let inner = line.trim().trim_matches('|').replace("\\|", "\u{1}");
    inner
        .split('|')
        .map(|c| {
            c.replace("**", "")
                .replace('`', "")
                .replace('\u{1}', "|")
                .trim()
                .to_owned()
        })
        .collect()
}

/// One table: its heading, then each row as column name to cell.
struct Table {
    heading: String,
    rows: Vec<BTreeMap<String, String>>,
}

fn tables(text: &str) -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    let mut heading = String::new();
    let mut columns: Vec<String> = Vec::new();
    let mut before = String::new();
    for line in text.lines() {
        if line.starts_with('#') {
            heading = line.trim_start_matches('#').trim().to_owned();
            columns.clear();
        } else if line.starts_with('|') && line.contains("---") {
            columns = cells(&before).iter().map(|c| c.to_lowercase()).collect();
            tables.push(Table {
                heading: heading.clone(),
                rows: Vec::new(),
            });
        } else if line.starts_with('|') && !columns.is_empty() {
            let row = columns.iter().cloned().zip(cells(line)).collect();
            tables.last_mut().unwrap().rows.push(row);
        } else if !line.starts_with('|') {
            columns.clear();
        }
        line.clone_into(&mut before);
    }
    tables
}

/// The names that one cell stands for: `a.file / .password` is `a.file` and `a.password`. Of a
/// shortened name every form that it may stand for is given.
fn names(cell: &str) -> Vec<Vec<String>> {
    let mut plain = String::new();
    let mut depth = 0;
    for c in cell.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    let mut found: Vec<Vec<String>> = Vec::new();
    let mut full = String::new();
    for part in plain
        .split(['/', ','])
        .map(str::trim)
        .filter(|p| !p.is_empty())
    {
        let part = part.replace("<ID>", "*");
        if part.starts_with('.') {
            let segments: Vec<&str> = full.split('.').collect();
            let forms = (1..segments.len()).rev();
            found.push(
                forms
                    .map(|n| format!("{}{part}", segments[..n].join(".")))
                    .collect(),
            );
        } else {
            part.clone_into(&mut full);
            found.push(vec![part]);
        }
    }
    found
}

/// The components that a table of options is about.
fn subjects(file: &str, heading: &str) -> Vec<(ConnectorKind, &'static str)> {
    use ConnectorKind::{Sink, SinkMapper, Source, SourceMapper, Store};
    let number = heading
        .split(' ')
        .next()
        .unwrap_or("")
        .trim_end_matches('.');
    match (file, number) {
        ("io", "1.1") => vec![(Source, "kafka")],
        ("io", "1.2") => vec![(Sink, "kafka")],
        ("io", "2.1") => vec![(Source, "http")],
        ("io", "2.3") => vec![(Sink, "http")],
        ("io", "2.4") => vec![(Sink, "http-call"), (Source, "http-call-response")],
        ("io", "3.1") => vec![(Source, "file")],
        ("io", "3.3") => vec![(Sink, "file")],
        ("io", "4.1") => vec![(Source, "cdc")],
        ("io", "7") => vec![(Source, "nats"), (Sink, "nats")],
        ("io", "8") => vec![(Source, "mqtt"), (Sink, "mqtt")],
        ("io", "9") => vec![(Source, "rabbitmq"), (Sink, "rabbitmq")],
        ("map", "2.1") => vec![(SourceMapper, "json")],
        ("map", "2.2") => vec![(SinkMapper, "json")],
        ("map", "3.1") => vec![(SourceMapper, "xml")],
        ("map", "3.2") => vec![(SinkMapper, "xml")],
        ("map", "4.1") => vec![(SourceMapper, "csv")],
        ("map", "4.2") => vec![(SinkMapper, "csv")],
        ("map", "5.1") => vec![(SourceMapper, "text")],
        ("map", "5.2") => vec![(SinkMapper, "text")],
        ("map", "6.1") => vec![(SourceMapper, "keyvalue")],
        ("map", "7") => vec![(SourceMapper, "avro"), (SinkMapper, "avro")],
        ("store", "1.1") => vec![(Store, "rdbms")],
        ("store", "5") => vec![(Store, "redis")],
        ("store", "6") => vec![(Store, "mongodb")],
        _ => Vec::new(),
    }
}

/// Options of these components that stand in prose, or that a decision adds.
const BESIDE_THE_TABLES: &[(&str, &str)] = &[
    // "Undocumented but read".
    ("redis", "host"),
    ("redis", "port"),
    ("redis", "password"),
    // The request options of `http-call` are those of `http`.
    ("http-call", "*"),
    // Of ours: limits of slow clients, and what clients and pages are told.
    ("http", "allowed.origins"),
    ("http", "answer.rejected"),
    ("http", "body.idle.timeout"),
    ("http", "body.timeout"),
    // Of ours: requests that leave together.
    ("http", "max.pipelined.requests"),
    // Of ours: which client reads.
    ("kafka", "client"),
];

/// `None` where the cell says more than one plain value.
fn plain_default(cell: &str) -> Option<String> {
    let cell = cell.trim();
    if [
        "–",
        "none",
        "null",
        "-",
        "",
        "random",
        "generated",
        "empty",
        "table id",
    ]
    .contains(&cell)
    {
        return Some(String::new());
    }
    let first = cell.split(' ').next()?.trim_end_matches([',', ';']);
    let is_plain = cell == first || (cell.ends_with(" ms") && cell.split(' ').count() == 2);
    (is_plain && !cell.contains('/')).then(|| first.replace('−', "-"))
}

/// Where the spec says more than the tables of the reference: an option of `nats`, and what of it.
const DIFFERENT_HERE: &[(&str, &str)] = &[
    // The server's own default, in seconds.
    ("ack.wait", "default"),
    // Text in the tables; only a number is a sequence.
    ("subscription.sequence", "type"),
];

#[derive(Default)]
struct Comparison {
    options: usize,
    facts: usize,
    faults: Vec<String>,
}

impl Comparison {
    fn row(&mut self, row: &BTreeMap<String, String>, option: &OptionSpec, subject: &str) {
        let cell = |name: &str| {
            row.iter()
                .find(|(k, _)| k.starts_with(name))
                .map(|(_, v)| v.as_str())
        };
        let mut fact = |what: &str, expect: String, found: String| {
            self.facts += 1;
            let is_known =
                subject.ends_with(" nats") && DIFFERENT_HERE.contains(&(option.name, what));
            if expect != found && !is_known {
                self.faults.push(format!(
                    "{subject} option '{}': {what} is '{found}', the reference has '{expect}'",
                    option.name
                ));
            }
        };
        if let Some(required @ ("yes" | "no")) = cell("req") {
            fact(
                "required",
                (required == "yes").to_string(),
                option.required.to_string(),
            );
        }
        let is_sink = subject.starts_with("sink");
        if let Some(dynamic @ ("yes" | "no")) = cell("dyn").filter(|_| is_sink) {
            fact(
                "dynamic",
                (dynamic == "yes").to_string(),
                option.dynamic.to_string(),
            );
        }
        let only_one = names(&row["option"]).len() == 1;
        if let Some(default) = cell("default").filter(|_| only_one).and_then(plain_default) {
            fact(
                "default",
                default.to_lowercase(),
                option.default.to_lowercase(),
            );
        }
        if let Some(ty) = cell("type").filter(|_| only_one) {
            let found = option.ty.name();
            let fits = match ty.split(' ').next().unwrap_or("") {
                "bool" => found == "bool",
                "int" => found == "int",
                "long" => found == "long",
                "ms" => found == "ms",
                "bytes" => found == "bytes",
                "regex" => found == "regex",
                "string" => !["bool", "long"].contains(&found),
                _ => true,
            };
            fact(
                "type",
                ty.to_owned(),
                if fits {
                    ty.to_owned()
                } else {
                    found.to_owned()
                },
            );
        }
    }
}

#[test]
fn options_are_those_of_the_reference() {
    let catalog = full();
    let mut comparison = Comparison::default();
    for file in ["io", "map", "store"] {
        let Some(text) = reference(&format!("connectors-{file}.md")) else {
            return;
        };
        let mut named: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        for table in tables(&text) {
            let specs: Vec<&ConnectorSpec> = subjects(file, &table.heading)
                .into_iter()
                .map(|(kind, name)| catalog.connector(kind, name).unwrap())
                .collect();
            for row in table.rows.iter().filter(|r| r.contains_key("option")) {
                for forms in names(&row["option"]) {
                    comparison.options += 1;
                    let mut is_found = false;
                    for spec in &specs {
                        let subject = format!("{} {}", spec.kind.name(), spec.name);
                        let found = forms.iter().find_map(|f| {
                            spec.options
                                .iter()
                                .find(|o| o.name == f || o.aliases.contains(&&**f))
                        });
                        let Some(option) = found else { continue };
                        is_found = true;
                        named
                            .entry(subject.clone())
                            .or_default()
                            .insert(option.name);
                        let covers = row.get("side").or(row.get("mode"));
                        let is_other_side = covers.is_some_and(|s| {
                            (s.starts_with("source") && spec.kind == ConnectorKind::Sink)
                                || (s.starts_with("sink") && spec.kind == ConnectorKind::Source)
                        });
                        // `http-call` and its response source have their tables under one heading.
                        let is_of_twin = specs.len() == 2
                            && !row.contains_key("dyn")
                            && spec.kind == ConnectorKind::Sink;
                        if !is_other_side && !is_of_twin {
                            comparison.row(row, option, &subject);
                        }
                    }
                    if !is_found {
                        comparison.faults.push(format!(
                            "option '{}' of '{}' is not in the catalog",
                            forms[0], table.heading
                        ));
                    }
                }
            }
        }
        for (subject, options) in &named {
            let (kind, name) = subject.split_once(' ').unwrap();
            let spec = connector_specs()
                .find(|c| c.kind.name() == kind && c.name == name)
                .unwrap();
            for option in spec.options.iter().filter(|o| !options.contains(o.name)) {
                let is_beside = BESIDE_THE_TABLES
                    .iter()
                    .any(|(n, o)| *n == name && (*o == "*" || *o == option.name));
                if !is_beside {
                    comparison.faults.push(format!(
                        "{subject} option '{}' is not in the reference",
                        option.name
                    ));
                }
            }
        }
    }
    println!(
        "{} options of the reference, {} facts",
        comparison.options, comparison.facts
    );
    assert!(comparison.options > 200, "the tables are read");
    assert!(
        comparison.faults.is_empty(),
        "{}",
        comparison.faults.join("\n")
    );
}

/// Components that Streaming Integrator does not have; `wso2event` is of WSO2 DAS and Stream Processor.
const OWN: &[&str] = &[
    "store eventstore store-eventstore",
    "sink wso2event io-wso2event",
    "sink-mapper wso2event map-wso2event",
    "source wso2event io-wso2event",
    "source-mapper wso2event map-wso2event",
];

#[test]
fn components_are_those_of_the_inventory() {
    let Some(text) = reference("connectors.md") else {
        return;
    };
    let mut expected = BTreeSet::new();
    for row in tables(&text).iter().flat_map(|t| &t.rows) {
        let (Some(kind), Some(name)) = (row.get("kind"), row.get("name")) else {
            continue;
        };
        let kind = match kind.as_str() {
            "SRC" => "source",
            "SNK" => "sink",
            "SM" => "source-mapper",
            "KM" => "sink-mapper",
            "STO" => "store",
            "SF" => "stream-function",
            "FN" => "function",
            "DST" => "distribution",
            _ => continue,
        };
        let origin = row["origin"].clone();
        expected.insert(format!("{kind} {} {origin}", name.trim_start_matches('#')));
    }
    let found: BTreeSet<String> = connector_specs()
        .map(|c| format!("{} {} {}", c.kind.name(), c.name, c.origin))
        .collect();
    println!("{} components of the reference", expected.len());
    assert_eq!(expected.len(), 97);
    expected.extend(OWN.iter().map(|own| (*own).to_owned()));
    assert_eq!(found, expected);
}

#[test]
fn functions_are_those_of_the_inventory() {
    let Some(text) = reference("siddhiql-inventory.md") else {
        return;
    };
    let catalog = full();
    let mut expected: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for row in tables(&text).iter().flat_map(|t| &t.rows) {
        let (Some(category), Some(feature)) = (row.get("category"), row.get("feature")) else {
            continue;
        };
        let kind = match category.as_str() {
            "function" => "function",
            "aggregator" => "aggregator",
            "window" => "window",
            "stream processor" => "stream function",
            _ => continue,
        };
        expected
            .entry(kind)
            .or_default()
            .insert(format!("{feature} {}", row["origin"]));
    }
    let mut total = 0;
    for kind in [
        FunctionKind::Scalar,
        FunctionKind::Aggregator,
        FunctionKind::Window,
        FunctionKind::StreamProcessor,
    ] {
        let found: BTreeSet<String> = catalog
            .functions(kind)
            .filter(|f| !["file", "rdbms", "s3"].contains(&f.namespace))
            .map(|f| format!("{} {}", f.full_name(), f.origin))
            .collect();
        total += found.len();
        assert_eq!(found, expected[kind.name()], "{}", kind.name());
    }
    println!("{total} functions of the reference");
    assert_eq!(total, 208 + 21 + 35 + 41);
}
