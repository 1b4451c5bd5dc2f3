//! Crates depend on each other in one direction, and client libraries come in by one door.

use super::metadata::Metadata;
use super::{Findings, Rule, Tree};

pub const RULE: Rule = Rule {
    name: "directions",
    about: "crates need only those below them, and client libraries lie in `connectors` alone",
    check,
};

/// What the packages of this repository are called before their own names.
const PREFIX: &str = "headwater-";

/// Each crate with those it may need. `xtask` and `headwater` put everything together.
const ALLOWED: &[(&str, &[&str])] = &[
    ("event", &[]),
    ("javatext", &[]),
    ("testservers", &[]),
    ("websocket", &[]),
    ("lang", &["event"]),
    ("plan", &["event", "lang"]),
    ("check", &["event", "lang", "plan"]),
    ("engine", &["event", "javatext", "lang", "plan"]),
    ("script", &["check", "engine", "event", "lang", "plan"]),
    ("databridge", &["event"]),
    (
        "connect",
        &[
            "databridge",
            "event",
            "javatext",
            "lang",
            "plan",
            "websocket",
        ],
    ),
    (
        "connectors",
        &["connect", "databridge", "event", "javatext", "lang", "plan"],
    ),
    ("store", &["connect", "event", "lang", "plan"]),
    ("sql", &["connect", "event", "lang", "store"]),
    ("gateway", &["check", "connect", "event", "lang", "plan"]),
    ("search", &["event", "lang", "store"]),
    (
        "catalog",
        &[
            "check",
            "connect",
            "connectors",
            "engine",
            "event",
            "lang",
            "plan",
            "store",
        ],
    ),
    (
        "server",
        &[
            "check", "connect", "engine", "event", "gateway", "lang", "plan", "script",
        ],
    ),
    (
        "testkit",
        &[
            "check", "connect", "engine", "event", "lang", "plan", "script",
        ],
    ),
    (
        "bench",
        &[
            "catalog",
            "check",
            "connect",
            "databridge",
            "engine",
            "event",
            "lang",
            "plan",
            "testservers",
        ],
    ),
];

/// Crates that may need any other.
const TOPS: &[&str] = &["headwater", "xtask"];

/// Where a client library may be needed.
const CLIENTS_IN: &[&str] = &["connectors", "gateway", "xtask"];

/// The gateway keeps what it manages in a file of its own; SQL is answered by gRPC, whose service comes with Arrow.
const OWN: [(&str, &str); 2] = [("gateway", "rusqlite"), ("sql", "tonic")];

/// Libraries that speak to one system.
const CLIENTS: &[&str] = &[
    "async-imap",
    "lapin",
    "lettre",
    "mail-parser",
    "mongodb",
    "mysql",
    "mysql_common",
    "object_store",
    "oracle",
    "postgres-protocol",
    "rdkafka",
    "redis",
    "rumqttc",
    "rusqlite",
    "tiberius",
    "tonic",
];

/// Where the libraries of column formats may be needed: the rest is built without them.
const COLUMNS_IN: &[&str] = &["store", "sql"];

/// Their names begin so.
const COLUMNS: &[&str] = &["arrow", "parquet", "delta"];

/// Engines by the beginnings of their names, and where each may be needed: to build them takes longer than all of ours.
const ENGINES: &[(&str, &str)] = &[("datafusion", "sql"), ("tantivy", "search")];

/// The version of Arrow and Parquet; types of another do not mix with it.
const COLUMNS_VERSION: &str = "59.";

fn check(_: &Tree) -> anyhow::Result<Findings> {
    let mut findings = judge(&Metadata::read()?);
    let lock = std::fs::read_to_string("Cargo.lock")?;
    for other in other_columns(&lock) {
        findings.fault(format!(
            "Cargo.lock has {other}: Arrow and Parquet have one version, {COLUMNS_VERSION}x, which is that of \
             DataFusion 55"
        ));
    }
    Ok(findings)
}

/// Packages of Arrow and Parquet in a lock file that have another version.
fn other_columns(lock: &str) -> Vec<String> {
    let mut lines = lock.lines();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        let quoted = |line: &str, key: &str| -> Option<String> {
            let text = line.strip_prefix(key)?.strip_prefix(" = \"")?;
            text.strip_suffix('"').map(str::to_owned)
        };
        let Some(name) = quoted(line, "name") else {
            continue;
        };
        let version = lines.next().and_then(|line| quoted(line, "version"));
        let version = version.unwrap_or_default();
        let is_one = name.starts_with("arrow-") || name == "arrow" || name == "parquet";
        if is_one && !version.starts_with(COLUMNS_VERSION) {
            found.push(format!("{name} {version}"));
        }
    }
    found
}

fn judge(metadata: &Metadata) -> Findings {
    let mut findings = Findings::default();
    for package in metadata.packages.iter().filter(|package| package.is_ours) {
        let name = short(&package.name);
        if !CLIENTS_IN.contains(&name) {
            let clients = package.dependencies.iter();
            let is_client =
                |d: &&String| CLIENTS.contains(&d.as_str()) && !OWN.contains(&(name, d.as_str()));
            for client in clients.filter(is_client) {
                findings.fault(format!(
                    "{name} needs {client}: client libraries are needed by `connectors` alone"
                ));
            }
        }
        for (engine, place) in ENGINES {
            if name != *place && package.dependencies.iter().any(|d| d.starts_with(engine)) {
                findings.fault(format!(
                    "{name} needs {engine}: it is needed by `{place}` alone"
                ));
            }
        }
        if !COLUMNS_IN.contains(&name) {
            let columns = package.dependencies.iter();
            let columns = columns.filter(|d| COLUMNS.iter().any(|known| d.starts_with(known)));
            for library in columns {
                findings.fault(format!(
                    "{name} needs {library}: Arrow and Parquet are needed by `{}` alone",
                    COLUMNS_IN.join("` and `")
                ));
            }
        }
        if TOPS.contains(&name) {
            continue;
        }
        let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == name) else {
            findings.fault(format!(
                "{name} has no line in xtask/src/tidy/directions.rs: say which crates it may need"
            ));
            continue;
        };
        let is_ours = |dependency: &str| metadata.package(dependency).is_some_and(|p| p.is_ours);
        for dependency in package.dependencies.iter().filter(|d| is_ours(d)) {
            let dependency = short(dependency);
            if !allowed.contains(&dependency) {
                findings.fault(format!(
                    "{name} needs {dependency}: it may need {}",
                    if allowed.is_empty() {
                        "none".to_owned()
                    } else {
                        allowed.join(", ")
                    }
                ));
            }
        }
    }
    findings
}

fn short(package: &str) -> &str {
    package.strip_prefix(PREFIX).unwrap_or(package)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::metadata::Package;

    fn faults(packages: &[(&str, &[&str])]) -> Vec<String> {
        let packages = packages.iter().map(|(name, dependencies)| Package {
            name: (*name).to_owned(),
            dependencies: dependencies.iter().map(|d| (*d).to_owned()).collect(),
            is_ours: true,
            ..Package::default()
        });
        let metadata = Metadata {
            packages: packages.collect(),
        };
        judge(&metadata).faults
    }

    #[test]
    fn an_arrow_upwards_is_found() {
        let found = faults(&[
            (
                "headwater-engine",
                &["headwater-event", "headwater-connect"],
            ),
            ("headwater-connect", &["serde"]),
            ("headwater-event", &[]),
        ]);
        assert_eq!(
            found,
            ["engine needs connect: it may need event, javatext, lang, plan"]
        );
    }

    #[test]
    fn a_client_library_outside_its_crate_is_found() {
        let found = faults(&[
            ("headwater-testkit", &["rdkafka"]),
            ("headwater-connectors", &["rdkafka"]),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("testkit needs rdkafka"));
    }

    #[test]
    fn arrow_outside_of_the_store_or_of_another_version_is_found() {
        let found = faults(&[
            ("headwater", &["arrow-array"]),
            ("headwater-server", &["parquet"]),
            ("headwater-store", &["arrow-array", "datafusion", "parquet"]),
            ("headwater-sql", &["arrow", "datafusion", "tantivy"]),
            ("headwater-search", &["tantivy"]),
        ]);
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found[3].starts_with("sql needs tantivy"), "{found:?}");
        assert!(found[2].starts_with("store needs datafusion"), "{found:?}");
        let lock = "[[package]]\nname = \"arrow-array\"\nversion = \"60.0.1\"\n\n\
                    [[package]]\nname = \"parquet\"\nversion = \"59.3.2\"\n";
        assert_eq!(other_columns(lock), ["arrow-array 60.0.1"]);
    }

    #[test]
    fn a_new_crate_has_to_say_what_it_needs() {
        assert!(faults(&[("headwater-new", &[])])[0].starts_with("new has no line"));
    }

    #[test]
    fn no_crate_may_need_one_that_needs_it() {
        let needs = |name: &str| {
            let found = ALLOWED.iter().find(|(known, _)| *known == name);
            found.map_or(&[][..], |(_, needs)| needs)
        };
        for (name, _) in ALLOWED {
            let mut seen: Vec<&str> = Vec::new();
            let mut open = needs(name).to_vec();
            while let Some(next) = open.pop() {
                assert_ne!(next, *name);
                if !seen.contains(&next) {
                    seen.push(next);
                    open.extend(needs(next));
                }
            }
        }
    }
}
