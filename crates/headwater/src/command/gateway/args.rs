//! What `headwater gateway` is called with.

use std::time::Duration;

use clap::{Args, Subcommand};

use crate::args::ServerArgs;

/// Manage the APIs, applications, plans, keys and tokens of a gateway
///
/// Asks a running server at its --http address, with its logins and roles: reading needs the role read, changes
/// need admin. What is made is kept in the --state directory of the server.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater gateway apps create shop\n  \
    headwater gateway keys create --app shop                  prints the key, once\n  \
    headwater gateway plans set Team --events 2000/s --events 1000000/day --connections 100\n  \
    headwater gateway subscriptions create --app shop --api Ticks --plan Team\n  \
    headwater gateway tokens create --app shop --scope ticks:read --expires 10min\n  \
    headwater gateway tokens revoke --jti 0f3a…               its streams end at once\n  \
    headwater gateway quota                                   what is used of the plans\n  \
    headwater gateway export Ticks --asyncapi 2.6 > ticks.yaml\n  \
    headwater gateway import PizzaShackAPI-1.0.0.zip --output apis/\n  \
    headwater gateway try Ticks /symbols/ACME --count 3       hears it as a client does\n\n\
    Exit codes: 0 done; 1 refused; 2 usage; 3 could not connect.")]
pub struct GatewayArgs {
    #[command(subcommand)]
    pub(super) part: Part,
    #[command(flatten)]
    pub(super) server: ServerArgs,
    /// Print one JSON document
    #[arg(long, global = true)]
    pub(super) json: bool,
}

#[derive(Subcommand, Debug)]
pub(super) enum Part {
    /// List the APIs that are served
    Apis,
    /// List, make and remove applications: those who use APIs
    Apps {
        #[command(subcommand)]
        action: Option<AppsAction>,
    },
    /// List, make and remove plans: how much an application may use
    Plans {
        #[command(subcommand)]
        action: Option<PlansAction>,
    },
    /// List, make and end subscriptions: an application uses an API on a plan
    Subscriptions {
        #[command(subcommand)]
        action: Option<SubscriptionsAction>,
    },
    /// List, make and revoke API keys
    Keys {
        #[command(subcommand)]
        action: Option<KeysAction>,
    },
    /// Make and revoke access tokens
    Tokens {
        #[command(subcommand)]
        action: TokensAction,
    },
    /// List the WebSub subscriptions: callbacks, leases, and how far each has come
    Callbacks,
    /// List attempts to deliver to callbacks, and deliver once more
    Deliveries {
        #[command(subcommand)]
        action: Option<DeliveriesAction>,
    },
    /// List the streams that are open: who hears or speaks what, since when
    Connections {
        /// So many at most, the oldest
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: u32,
    },
    /// Write an API as a document
    Export {
        /// Name of the API, or NAME/VERSION
        api: String,
        /// AsyncAPI 2.6 or 3.0, or 'siddhi': an app that has the document as @App:asyncAPI
        #[arg(long, value_name = "FORMAT", default_value = "3.0", value_parser = gateway::document::Format::NAMES)]
        asyncapi: String,
    },
    /// Turn a project of WSO2 API Manager's apictl (zip or folder) into a document; what is not kept is listed
    Import(ImportArgs),
    /// Hear a topic as a client does, with a token that is made for it; Ctrl-C ends it
    Try(TryArgs),
    /// Show what is used of the limits of plans, in the windows that run
    Quota,
}

#[derive(Args, Debug)]
pub(super) struct ImportArgs {
    /// The zip, or its folder
    pub(super) project: std::path::PathBuf,
    /// Write the document into this folder, as NAME-VERSION.yaml; without it to standard output
    #[arg(long, value_name = "DIR")]
    pub(super) output: Option<std::path::PathBuf>,
    /// The claim 'iss' of API Manager's tokens, which count from then on
    #[arg(long, value_name = "URL")]
    pub(super) issuer: Option<String>,
    /// Where the keys of --issuer are, such as https://host:9443/oauth2/jwks
    #[arg(long, value_name = "URL", requires = "issuer")]
    pub(super) jwks: Option<String>,
}

#[derive(Args, Debug)]
pub(super) struct TryArgs {
    /// Name of the API, or NAME/VERSION
    pub(super) api: String,
    /// The topic, with the values of its parameters: /symbols/ACME
    pub(super) topic: String,
    /// End after this many events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) count: Option<u64>,
    /// The application whose token it is; by default one that is made for it, and removed at the end
    #[arg(long, value_name = "NAME")]
    pub(super) app: Option<String>,
    /// Where the gateway is, if it is not where it listens: https://host:port
    #[arg(long, value_name = "URL")]
    pub(super) gateway: Option<String>,
}

#[derive(Subcommand, Debug)]
pub(super) enum AppsAction {
    /// List the applications
    List,
    /// Make an application, and print its client and the client's secret; it is shown this once
    Create {
        name: String,
        /// Who is responsible for it
        #[arg(long)]
        owner: Option<String>,
        /// A scope that its client may ask for; may be repeated
        #[arg(long = "scope", value_name = "TEXT")]
        scopes: Vec<String>,
    },
    /// Remove an application with its keys and subscriptions; its streams end
    Remove { name: String },
    /// Give the client of an application another secret, and print it
    Secret { name: String },
}

#[derive(Subcommand, Debug)]
pub(super) enum PlansAction {
    /// List the plans that were made by commands
    List,
    /// Make a plan, or give it other limits
    Set(Box<PlanArgs>),
    /// Remove a plan that nobody uses
    Remove { name: String },
}

#[derive(Args, Debug)]
pub(super) struct PlanArgs {
    pub(super) name: String,
    /// Events in a time, such as 50000/day or 10/5min; may be repeated for several times
    #[arg(long, value_name = "RATE")]
    pub(super) events: Vec<String>,
    /// Bytes in a time, such as 10MB/min
    #[arg(long, value_name = "RATE")]
    pub(super) bytes: Vec<String>,
    /// Attempts to connect in a time
    #[arg(long, value_name = "RATE")]
    pub(super) attempts: Vec<String>,
    /// Connections at a time
    #[arg(long, value_name = "N")]
    pub(super) connections: Option<u64>,
    /// Active WebSub subscriptions
    #[arg(long, value_name = "N")]
    pub(super) subscriptions: Option<u64>,
    /// Longest message, such as 64kB
    #[arg(long, value_name = "SIZE")]
    pub(super) message: Option<String>,
    /// How long a connection may last, such as '1 hour'
    #[arg(long, value_name = "TIME")]
    pub(super) duration: Option<String>,
}

#[derive(Subcommand, Debug)]
pub(super) enum SubscriptionsAction {
    /// List the subscriptions
    List,
    /// Subscribe an application to an API, or put it on another plan
    Create {
        #[arg(long, value_name = "NAME")]
        app: String,
        /// Name of the API, or NAME/VERSION
        #[arg(long)]
        api: String,
        /// By default the first that the API offers
        #[arg(long)]
        plan: Option<String>,
    },
    /// End a subscription
    Remove {
        #[arg(long, value_name = "NAME")]
        app: String,
        #[arg(long)]
        api: String,
    },
}

#[derive(Subcommand, Debug)]
pub(super) enum KeysAction {
    /// List the keys, which are named by their ids
    List {
        #[arg(long, value_name = "NAME")]
        app: Option<String>,
    },
    /// Make a key, and print it; it is shown this once
    Create {
        #[arg(long, value_name = "NAME")]
        app: String,
        /// A scope that it has; may be repeated
        #[arg(long = "scope", value_name = "TEXT")]
        scopes: Vec<String>,
        /// For how long it is valid, such as 12h or 30d; by default until it is revoked
        #[arg(long, value_name = "TIME", value_parser = parse_life)]
        expires: Option<Duration>,
        /// An address or network that it may be used from; may be repeated
        #[arg(long = "address", value_name = "NETWORK")]
        addresses: Vec<String>,
        /// A page that it may be used from, such as 'shop.example/*'; may be repeated
        #[arg(long = "referrer", value_name = "PATTERN")]
        referrers: Vec<String>,
    },
    /// Revoke a key; its streams end
    Revoke { id: String },
}

#[derive(Subcommand, Debug)]
pub(super) enum TokensAction {
    /// Make a token by the server's own issuer, and print it; it is shown this once
    Create {
        #[arg(long, value_name = "NAME")]
        app: String,
        /// A scope that it has; may be repeated; by default all of the application
        #[arg(long = "scope", value_name = "TEXT")]
        scopes: Vec<String>,
        /// For how long it is valid, such as 60s or 12h; by default an hour
        #[arg(long, value_name = "TIME", value_parser = parse_life)]
        expires: Option<Duration>,
    },
    /// Revoke a token, or all tokens of a user or an application up to now; their streams end
    #[command(group = clap::ArgGroup::new("what").required(true))]
    Revoke {
        /// One token, by its id
        #[arg(long, group = "what")]
        jti: Option<String>,
        /// All of a user (the claim 'sub')
        #[arg(long, group = "what")]
        user: Option<String>,
        /// All of an application
        #[arg(long, group = "what", value_name = "NAME")]
        app: Option<String>,
    },
}

#[derive(Subcommand, Debug)]
pub(super) enum DeliveriesAction {
    /// List attempts, the newest first
    List {
        /// Only those of this subscription
        #[arg(long, value_name = "ID")]
        subscription: Option<String>,
        /// So many at most
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: u32,
    },
    /// Deliver the event of an attempt once more, now
    Resend { id: i64 },
    /// Deliver the events of a topic to a callback once more
    Replay {
        /// As 'headwater gateway callbacks' shows it
        subscription: String,
        /// How long ago the first of them was published, such as 10min or 1d; by default all that are kept
        #[arg(long, value_name = "TIME", value_parser = parse_life, conflicts_with = "number")]
        since: Option<Duration>,
        /// The number of the first of them
        #[arg(long, value_name = "N")]
        number: Option<u64>,
    },
}

/// `60s`, `10min`, `12h`, `30d`.
fn parse_life(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, u64); 5] = [("min", 60), ("s", 1), ("m", 60), ("h", 3600), ("d", 86_400)];
    const MAX: u64 = 3650 * 86_400;
    let form = || "write a time such as 60s, 10min, 12h or 30d".to_owned();
    let (number, unit) = UNITS
        .iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, *seconds)))
        .ok_or_else(form)?;
    let number: u64 = number.trim().parse().map_err(|_| form())?;
    let seconds = number
        .checked_mul(unit)
        .filter(|seconds| (1..=MAX).contains(seconds));
    seconds
        .map(Duration::from_secs)
        .ok_or_else(|| "must be between 1s and 3650d".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_has_its_unit() {
        for (text, seconds) in [
            ("60s", 60),
            ("10min", 600),
            ("10m", 600),
            ("12h", 43_200),
            ("30d", 2_592_000),
        ] {
            assert_eq!(parse_life(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in [
            "",
            "30",
            "0s",
            "-1d",
            "99999999999999999999d",
            "99999d",
            "d",
            "1.5h",
        ] {
            assert!(parse_life(text).is_err(), "{text}");
        }
    }
}
