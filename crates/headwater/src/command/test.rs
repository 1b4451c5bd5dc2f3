//! `headwater test`.

use server::Error;
use testkit::mode::Mode;
use testkit::run::run as run_tests;

use crate::cli::TestArgs;
use crate::output::Output;
use crate::registry::REGISTRY;

pub fn run(args: &TestArgs, output: &Output) -> anyhow::Result<u8> {
    let modes: Vec<Mode> = match &args.mode {
        None => Mode::ALL.to_vec(),
        Some(name) => vec![Mode::from_name(name).ok_or_else(|| unknown_mode(name))?],
    };
    if let Some(path) = args.paths.iter().find(|p| !p.exists()) {
        return Err(Error::Usage(format!("there is no test '{}'", path.display())).into());
    }
    let report = run_tests(&args.paths, &catalog::full(), REGISTRY, &modes)?;
    for failure in &report.failures {
        output.print(&format!(
            "{}:{}: {} [{}]\n{}\n\n",
            failure.file.display(),
            failure.line,
            failure.case,
            failure.mode.name(),
            failure.message
        ))?;
    }
    for (case, why) in &report.differing {
        output.print(&format!("in memory alone: {case}: {why}\n"))?;
    }
    output.print(&format!(
        "{} passed, {} failed\n",
        report.passed,
        report.failures.len()
    ))?;
    let found_nothing = report.passed == 0 && report.failures.is_empty();
    if found_nothing {
        output.error("no test was found: test files end in .test");
    }
    Ok(u8::from(!report.failures.is_empty() || found_nothing))
}

fn unknown_mode(name: &str) -> Error {
    let modes = Mode::ALL.into_iter().chain([Mode::EventStore]);
    let names: Vec<&str> = modes.map(Mode::name).collect();
    Error::Usage(format!(
        "there is no mode '{name}'; there is {}",
        names.join(", ")
    ))
}
