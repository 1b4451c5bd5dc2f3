//! `headwater bench state` without the rest of the binary, for a quick look while the engine is
//! being changed: `cargo run --release -p headwater-bench --example state -- [KEYS]`.

use headwater_bench::state;

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<()> {
    let keys = std::env::args().nth(1).and_then(|k| k.parse().ok());
    let report = state::run(keys.unwrap_or(state::KEYS), |line| eprintln!("{line}"))?;
    eprint!("{}", report.in_words());
    Ok(())
}
