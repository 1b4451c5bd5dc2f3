//! What machine the figures come from.

use std::fs;

use serde_json::{Value as Json, json};

/// Processor, cores, memory and kernel, as the system names them.
pub fn describe() -> Json {
    let cpu = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".into());
    let memory = field("/proc/meminfo", "MemTotal").unwrap_or_else(|| "unknown".into());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    json!({
        "cpu": cpu,
        "cores": std::thread::available_parallelism().map_or(1, usize::from),
        "memory": memory,
        "kernel": kernel.trim(),
        "load_before": load.split(' ').next().unwrap_or(""),
    })
}

fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|l| l.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
