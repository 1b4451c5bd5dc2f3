//! `headwater bench engine` without the rest of the binary, for a quick look while the engine is
//! being changed: `cargo run --release -p headwater-bench --example engine -- [SCENARIO] [RUNS]`.

use headwater_bench::engine::{EngineOptions, run};

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let options = EngineOptions {
        only: args.next(),
        runs: args.next().and_then(|r| r.parse().ok()).unwrap_or(5),
        events: args.next().and_then(|r| r.parse().ok()),
        dir: std::env::var_os("BENCH_DIR").map(Into::into),
        with_siddhi: std::env::var_os("WITHOUT_SIDDHI").is_none(),
        progress: |line| eprintln!("{line}"),
    };
    let report = run(&options)?;
    eprint!("{}", report.in_words("example"));
    Ok(())
}
