//! `headwater bench engine` without the rest of the binary, for a quick look while the engine is
//! being changed: `cargo run --release -p headwater-bench --example engine -- [SCENARIO] [RUNS]`;
//! `FEED=0` measures the first feed alone, `WITHOUT_SIDDHI=1` this engine alone.

use headwater_bench::engine::{EngineOptions, Feed, run};

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let options = EngineOptions {
        only: args.next(),
        runs: args.next().and_then(|r| r.parse().ok()).unwrap_or(5),
        events: args.next().and_then(|r| r.parse().ok()),
        dir: std::env::var_os("BENCH_DIR").map(Into::into),
        feeds: match std::env::var("FEED")
            .ok()
            .and_then(|f| f.parse::<usize>().ok())
        {
            Some(feed) => Feed::ALL.get(feed..=feed).unwrap_or(&Feed::ALL).to_vec(),
            None => Feed::ALL.to_vec(),
        },
        with_siddhi: std::env::var_os("WITHOUT_SIDDHI").is_none(),
        progress: |line| eprintln!("{line}"),
    };
    let report = run(&options)?;
    eprint!("{}", report.in_words("example"));
    Ok(())
}
