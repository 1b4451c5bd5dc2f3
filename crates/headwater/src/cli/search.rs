//! What search may use in a server.

use std::time::Duration;

use clap::Args;

use super::parse_interval;

/// What the requests of `/analytics` may use.
#[derive(Args, Clone, Debug)]
pub struct SearchLimitArgs {
    /// Time after which a search at /analytics is ended
    #[arg(long, value_name = "TIME", default_value = "1min", value_parser = parse_interval, requires = "http")]
    pub search_timeout: Duration,
    /// Rows that a search at /analytics goes to, those before its first included
    #[arg(long, value_name = "N", default_value_t = 100_000, requires = "http")]
    pub search_max_rows: usize,
}
