//! How many files and sockets this process may have open.

/// The limit that `ulimit -n` shows; where the system does not say, what is usual.
pub(crate) fn limit() -> u32 {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let mut lines = limits.lines();
    let line = lines.find(|line| line.starts_with("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().nth(3)?.parse().ok());
    soft.unwrap_or(1024)
}
