//! Arguments that commands have in common.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};

#[derive(Args, Clone, Copy, Debug)]
pub struct OutputArgs {
    /// When to colour messages
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub color: Color,
    /// Log more: what each part does (-vv: also what client libraries do)
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
    /// Log only what needs someone to act: warnings, among them rejected events, and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Format of the log on standard error: text, or one JSON object per line
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub log_format: LogFormat,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    Always,
    Never,
}

/// How to reach a running server; also behind the commands below one that takes these.
#[derive(Args, Clone, Debug)]
pub struct ServerArgs {
    /// Address of the server: https://host:port, host:port, or a port of this machine
    #[arg(
        long,
        global = true,
        visible_alias = "server",
        value_name = "URL",
        env = "HEADWATER_URL",
        default_value = "http://127.0.0.1:9090"
    )]
    pub url: String,
    /// Token to log in with; better in the environment or in a file, where no list of processes shows it
    #[arg(
        long,
        global = true,
        value_name = "TOKEN",
        env = "HEADWATER_TOKEN",
        hide_env_values = true
    )]
    pub token: Option<String>,
    /// File with the token
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "token")]
    pub token_file: Option<PathBuf>,
    /// Certificates (PEM) to trust instead of those of the system, such as the server's own one
    #[arg(long, global = true, value_name = "FILE", env = "HEADWATER_CACERT")]
    pub cacert: Option<PathBuf>,
}

impl ServerArgs {
    /// # Errors
    /// What of the arguments cannot be used.
    pub fn client(&self) -> anyhow::Result<server::client::Client> {
        let of_file = match &self.token_file {
            None => None,
            Some(path) => Some(std::fs::read_to_string(path).map_err(|cause| {
                let path = path.display();
                server::Error::Usage(format!("cannot read the token in '{path}': {cause}"))
            })?),
        };
        let token = of_file.as_deref().or(self.token.as_deref());
        let token = token.filter(|token| !token.trim().is_empty());
        Ok(server::client::Client::new(
            &self.url,
            token,
            self.cacert.as_deref(),
        )?)
    }
}

/// Rows per second, above 0.
pub fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = text
        .parse::<f64>()
        .ok()
        .filter(|r| r.is_finite() && *r > 0.0);
    rate.ok_or_else(|| "write rows per second, such as 100 or 0.5".to_owned())
}
