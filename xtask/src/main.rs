//! Chores of the project that need logic: one file per subcommand, one line in [`COMMANDS`].

mod cargo;
mod compat;
mod conformance;
mod connectors;
mod diagnostics;
mod differential;
mod dist;
mod docs;
mod faults;
mod gateway;
mod goldens;
mod long;
mod oracle;
mod packages;
mod partner;
mod schemathesis;
mod server;
mod tidy;

use check::Catalog;
use std::process::ExitCode;

fn catalog() -> Catalog {
    catalog::full()
}

/// A subcommand: its name, one line of help, and what it does with the arguments behind its name.
type Command = (
    &'static str,
    &'static str,
    fn(&[String]) -> anyhow::Result<bool>,
);

/// Sorted by name. `Ok(false)` means that something was found wrong: exit 1.
const COMMANDS: &[Command] = &[
    (
        "compat",
        "[--check]: writes docs/reference/features.md from the tests, or checks that it is current",
        compat::run,
    ),
    (
        "conformance",
        "DIR: replays recorded cases of the reference with virtual time",
        conformance::run,
    ),
    (
        "connectors",
        "[NAME] [--json] [--list]: what each connector was seen to do, case by case, on real servers",
        connectors::run,
    ),
    (
        "diagnostics",
        "[--verbose]: breaks apps in known places and looks at what is said",
        diagnostics::run,
    ),
    (
        "differential",
        "--seeds A..B [--sample] […]: runs apps made by chance here and on Siddhi and shows where they differ",
        differential::run,
    ),
    (
        "dist",
        "[--part NAME]… [--out DIR] [--binary FILE] [--list]: the files of a release: packages, image, chart, wheel, SBOM",
        dist::run,
    ),
    (
        "docs",
        "[--check]: writes docs/reference from the catalog, or says whether it is current",
        docs::run,
    ),
    (
        "faults",
        "[CASE] [--seed N] [--long] | --sample: breaks what surrounds a run, kills pairs of source and sink, and counts what is lost",
        faults::run,
    ),
    (
        "gateway",
        "[ROW|LETTER] [--json] [--list] | autobahn [CASE…] [--sample]: each rule of the gateway's protocols by its number, and what its tests show; or the Autobahn test suite",
        gateway::run,
    ),
    (
        "goldens",
        "[PATH…] [--shared DIR] [--verbose]: asks Siddhi whether the text tests say what it does",
        goldens::run,
    ),
    (
        "long",
        "[PART…] [--seconds N] [--list]: all that the test command is too short for, part by part",
        long::run,
    ),
    (
        "packages",
        "[PART…] [--binary FILE] [--list]: makes the files of a release, installs and starts each",
        packages::run,
    ),
    (
        "schemathesis",
        "[--seed N] [--examples N]: requests made from the OpenAPI document of a running server, and what it answers",
        schemathesis::run,
    ),
    (
        "server",
        "NAME [--port N] [KEY=VALUE…]: starts a real server for tests and prints its endpoint first",
        server::run,
    ),
    (
        "tidy",
        "[RULE…]: the rules of the house that a program can check",
        tidy::run,
    ),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let name = args.first().map_or("", String::as_str);
    let Some((_, _, run)) = COMMANDS.iter().find(|(command, ..)| *command == name) else {
        eprintln!("usage: cargo xtask COMMAND …\n");
        for (command, help, _) in COMMANDS {
            eprintln!("  {command:<14}{help}");
        }
        return ExitCode::from(2);
    };
    match run(&args[1..]) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// A folder of the reference material beside the repository, where it is there
/// (`HEADWATER_SHARED` names another place).
fn shared(folder: &str) -> Option<std::path::PathBuf> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let shared =
        std::env::var_os("HEADWATER_SHARED").map_or_else(|| root.join("../shared"), Into::into);
    let path = shared.join(folder);
    path.is_dir().then_some(path)
}
