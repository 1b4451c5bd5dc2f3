//! `headwater gateway`: what the gateway of a running server manages.
//!
//! Never: a key or token in anything printed but the answer to the command that makes it.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Map, Value as Json, json};
use server::client::{Method, percent_encoded};

use super::reply::{array, cell};
use crate::args::ServerArgs;
use crate::output::Output;

/// Manage the applications, plans, keys and tokens of a gateway
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
    headwater gateway quota                                   what is used of the plans\n\n\
    Exit codes: 0 done; 1 refused; 2 usage; 3 could not connect.")]
pub struct GatewayArgs {
    #[command(subcommand)]
    part: Part,
    #[command(flatten)]
    server: ServerArgs,
    /// Print one JSON document
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand, Debug)]
enum Part {
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
    /// Show what is used of the limits of plans, in the windows that run
    Quota,
}

#[derive(Subcommand, Debug)]
enum AppsAction {
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
enum PlansAction {
    /// List the plans that were made by commands
    List,
    /// Make a plan, or give it other limits
    Set(Box<PlanArgs>),
    /// Remove a plan that nobody uses
    Remove { name: String },
}

#[derive(Args, Debug)]
struct PlanArgs {
    name: String,
    /// Events in a time, such as 50000/day or 10/5min; may be repeated for several times
    #[arg(long, value_name = "RATE")]
    events: Vec<String>,
    /// Bytes in a time, such as 10MB/min
    #[arg(long, value_name = "RATE")]
    bytes: Vec<String>,
    /// Attempts to connect in a time
    #[arg(long, value_name = "RATE")]
    attempts: Vec<String>,
    /// Connections at a time
    #[arg(long, value_name = "N")]
    connections: Option<u64>,
    /// Active WebSub subscriptions
    #[arg(long, value_name = "N")]
    subscriptions: Option<u64>,
    /// Longest message, such as 64kB
    #[arg(long, value_name = "SIZE")]
    message: Option<String>,
    /// How long a connection may last, such as '1 hour'
    #[arg(long, value_name = "TIME")]
    duration: Option<String>,
}

#[derive(Subcommand, Debug)]
enum SubscriptionsAction {
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
enum KeysAction {
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
enum TokensAction {
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
enum DeliveriesAction {
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

/// What is asked of the server, and how its answer is printed.
struct Request {
    method: Method,
    path: String,
    body: Json,
    print: fn(&Json) -> String,
}

impl Request {
    fn new(method: Method, path: impl Into<String>, print: fn(&Json) -> String) -> Request {
        Request {
            method,
            path: path.into(),
            body: Json::Null,
            print,
        }
    }

    fn get(path: &str, print: fn(&Json) -> String) -> Request {
        Request::new(Method::GET, path, print)
    }

    fn with(self, body: Json) -> Request {
        Request { body, ..self }
    }
}

pub fn run(args: &GatewayArgs, output: &Output) -> anyhow::Result<u8> {
    let request = match &args.part {
        Part::Apis => Request::get("/gateway/apis", print_apis),
        Part::Apps { action } => apps(action.as_ref()),
        Part::Plans { action } => plans(action.as_ref()),
        Part::Subscriptions { action } => subscriptions(action.as_ref()),
        Part::Keys { action } => keys(action.as_ref()),
        Part::Tokens { action } => tokens(action),
        Part::Callbacks => Request::get("/gateway/callbacks", print_callbacks),
        Part::Deliveries { action } => deliveries(action.as_ref()),
        Part::Quota => Request::get("/gateway/quota", print_quota),
    };
    let body = match &request.body {
        Json::Null => String::new(),
        body => body.to_string(),
    };
    let reply = args
        .server
        .client()?
        .ask(request.method, &request.path, &body)?;
    let is_done = (200..300).contains(&reply.status);
    if args.json {
        let mut json = json!({ "version": 1 });
        if let (Json::Object(to), Json::Object(from)) = (&mut json, reply.json) {
            to.extend(from);
        }
        output.print_json(&json)?;
    } else if is_done {
        output.print(&(request.print)(&reply.json))?;
    } else {
        output.error(reply.json["message"].as_str().unwrap_or("no answer"));
    }
    Ok(u8::from(!is_done))
}

fn apps(action: Option<&AppsAction>) -> Request {
    match action {
        None | Some(AppsAction::List) => Request::get("/gateway/apps", print_apps),
        Some(AppsAction::Create {
            name,
            owner,
            scopes,
        }) => {
            let body = json!({ "name": name, "owner": owner, "scopes": scopes });
            Request::new(Method::POST, "/gateway/apps", print_client).with(body)
        }
        Some(AppsAction::Remove { name }) => {
            let path = format!("/gateway/apps/{}", percent_encoded(name));
            Request::new(Method::DELETE, path, |json| {
                format!("application {} removed\n", cell(&json["name"]))
            })
        }
        Some(AppsAction::Secret { name }) => {
            let path = format!("/gateway/apps/{}/secret", percent_encoded(name));
            Request::new(Method::POST, path, print_client)
        }
    }
}

fn plans(action: Option<&PlansAction>) -> Request {
    match action {
        None | Some(PlansAction::List) => Request::get("/gateway/plans", print_plans),
        Some(PlansAction::Set(plan)) => {
            let path = format!("/gateway/plans/{}", percent_encoded(&plan.name));
            let print = |json: &Json| format!("plan {}: {}\n", cell(&json["name"]), json["limits"]);
            Request::new(Method::PUT, path, print).with(limits(plan))
        }
        Some(PlansAction::Remove { name }) => {
            let path = format!("/gateway/plans/{}", percent_encoded(name));
            Request::new(Method::DELETE, path, |json| {
                format!("plan {} removed\n", cell(&json["name"]))
            })
        }
    }
}

fn limits(plan: &PlanArgs) -> Json {
    let mut limits = Map::new();
    for (name, rates) in [
        ("events", &plan.events),
        ("bytes", &plan.bytes),
        ("attempts", &plan.attempts),
    ] {
        if !rates.is_empty() {
            limits.insert(name.to_owned(), json!(rates));
        }
    }
    for (name, value) in [
        ("connections", plan.connections.map(Json::from)),
        ("subscriptions", plan.subscriptions.map(Json::from)),
        ("message", plan.message.as_deref().map(Json::from)),
        ("duration", plan.duration.as_deref().map(Json::from)),
    ] {
        if let Some(value) = value {
            limits.insert(name.to_owned(), value);
        }
    }
    limits.into()
}

fn subscriptions(action: Option<&SubscriptionsAction>) -> Request {
    const PATH: &str = "/gateway/subscriptions";
    match action {
        None | Some(SubscriptionsAction::List) => Request::get(PATH, |json| {
            table(
                json,
                &[
                    ("application", "application"),
                    ("API", "api"),
                    ("plan", "plan"),
                ],
            )
        }),
        Some(SubscriptionsAction::Create { app, api, plan }) => {
            let print = |json: &Json| {
                let of = |name: &str| cell(&json[name]);
                format!(
                    "{} uses {} on plan {}\n",
                    of("application"),
                    of("api"),
                    of("plan")
                )
            };
            let body = json!({ "application": app, "api": api, "plan": plan });
            Request::new(Method::POST, PATH, print).with(body)
        }
        Some(SubscriptionsAction::Remove { app, api }) => {
            let (app, api) = (percent_encoded(app), percent_encoded(api));
            let path = format!("{PATH}?application={app}&api={api}");
            Request::new(Method::DELETE, path, |_| {
                "the subscription has ended\n".to_owned()
            })
        }
    }
}

fn keys(action: Option<&KeysAction>) -> Request {
    const PATH: &str = "/gateway/keys";
    match action {
        None | Some(KeysAction::List { app: None }) => Request::get(PATH, print_keys),
        Some(KeysAction::List { app: Some(app) }) => Request::get(
            &format!("{PATH}?application={}", percent_encoded(app)),
            print_keys,
        ),
        Some(KeysAction::Create {
            app,
            scopes,
            expires,
            addresses,
            referrers,
        }) => {
            let body = json!({
                "application": app, "scopes": scopes, "expires": expires.map(|life| life.as_secs()),
                "addresses": addresses, "referrers": referrers,
            });
            Request::new(Method::POST, PATH, |json| {
                format!("{}\n", cell(&json["key"]))
            })
            .with(body)
        }
        Some(KeysAction::Revoke { id }) => {
            let path = format!("{PATH}/{}", percent_encoded(id));
            Request::new(Method::DELETE, path, |json| {
                format!("key {} revoked\n", cell(&json["id"]))
            })
        }
    }
}

fn tokens(action: &TokensAction) -> Request {
    match action {
        TokensAction::Create {
            app,
            scopes,
            expires,
        } => {
            let body = json!({
                "application": app, "scopes": scopes, "expires": expires.map(|life| life.as_secs()),
            });
            let print = |json: &Json| format!("{}\n", cell(&json["token"]));
            Request::new(Method::POST, "/gateway/tokens", print).with(body)
        }
        TokensAction::Revoke { jti, user, app } => {
            let mut body = Map::new();
            for (name, value) in [("jti", jti), ("user", user), ("application", app)] {
                if let Some(value) = value {
                    body.insert(name.to_owned(), value.as_str().into());
                }
            }
            let print = |json: &Json| format!("{} revoked\n", cell(&json["revoked"]));
            Request::new(Method::POST, "/gateway/revocations", print).with(body.into())
        }
    }
}

fn deliveries(action: Option<&DeliveriesAction>) -> Request {
    const PATH: &str = "/gateway/deliveries";
    match action {
        None => Request::get(PATH, print_deliveries),
        Some(DeliveriesAction::List {
            subscription,
            limit,
        }) => {
            let mut path = format!("{PATH}?limit={limit}");
            if let Some(id) = subscription {
                path += &format!("&subscription={}", percent_encoded(id));
            }
            Request::get(&path, print_deliveries)
        }
        Some(DeliveriesAction::Resend { id }) => {
            let print = |json: &Json| match json["delivered"].as_bool() {
                Some(true) => "delivered\n".to_owned(),
                _ => format!("not delivered: {}\n", cell(&json["cause"])),
            };
            Request::new(Method::POST, format!("{PATH}/{id}/resend"), print)
        }
        Some(DeliveriesAction::Replay {
            subscription,
            since,
            number,
        }) => {
            let since = since.map(|since| {
                let from = std::time::SystemTime::now() - since;
                let from = from
                    .duration_since(std::time::UNIX_EPOCH)
                    .unwrap_or_default();
                from.as_millis() as u64
            });
            let mut body = Map::new();
            for (name, value) in [("from", since), ("number", *number)] {
                if let Some(value) = value {
                    body.insert(name.to_owned(), value.into());
                }
            }
            let path = format!(
                "/gateway/callbacks/{}/replay",
                percent_encoded(subscription)
            );
            let print = |json: &Json| {
                format!(
                    "events from {} on are delivered once more\n",
                    json["number"]
                )
            };
            Request::new(Method::POST, path, print).with(body.into())
        }
    }
}

/// Columns with their titles, as wide as what is in them.
fn table(json: &Json, columns: &[(&str, &str)]) -> String {
    let items = array(&json["items"]);
    let titles = columns
        .iter()
        .map(|(title, _)| (*title).to_owned())
        .collect();
    let mut rows: Vec<Vec<String>> = vec![titles];
    rows.extend(items.iter().map(|item| {
        columns
            .iter()
            .map(|(_, name)| shown(&item[*name]))
            .collect()
    }));
    let width = |at: usize| {
        rows.iter()
            .map(|row: &Vec<String>| row[at].chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..columns.len())
        .map(|at| width(at).unwrap_or_default())
        .collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line += &format!("{cell:<width$}  ");
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn shown(json: &Json) -> String {
    match json {
        Json::Null => "-".to_owned(),
        Json::Array(list) if list.is_empty() => "-".to_owned(),
        Json::Array(list) => list.iter().map(cell).collect::<Vec<_>>().join(" "),
        other => cell(other),
    }
}

fn print_apis(json: &Json) -> String {
    table(
        json,
        &[
            ("API", "name"),
            ("version", "version"),
            ("paths", "paths"),
            ("plans", "plans"),
        ],
    )
}

fn print_apps(json: &Json) -> String {
    table(
        json,
        &[
            ("application", "name"),
            ("owner", "owner"),
            ("client", "client"),
            ("scopes", "scopes"),
        ],
    )
}

fn print_plans(json: &Json) -> String {
    table(json, &[("plan", "name"), ("limits", "limits")])
}

fn print_keys(json: &Json) -> String {
    let columns = [
        ("id", "id"),
        ("application", "application"),
        ("scopes", "scopes"),
        ("expires", "expires"),
        ("addresses", "addresses"),
    ];
    table(json, &columns)
}

fn print_quota(json: &Json) -> String {
    let columns = [
        ("level", "level"),
        ("of", "of"),
        ("what", "what"),
        ("window", "window"),
        ("used", "used"),
        ("reset", "reset"),
    ];
    table(json, &columns)
}

fn print_callbacks(json: &Json) -> String {
    let columns = [
        ("id", "id"),
        ("API", "api"),
        ("topic", "topic"),
        ("callback", "callback"),
        ("next", "next"),
        ("head", "head"),
        ("attempts", "attempts"),
    ];
    table(json, &columns)
}

fn print_deliveries(json: &Json) -> String {
    let columns = [
        ("id", "id"),
        ("subscription", "subscription"),
        ("event", "number"),
        ("attempt", "attempt"),
        ("outcome", "outcome"),
        ("status", "status"),
        ("cause", "cause"),
    ];
    table(json, &columns)
}

fn print_client(json: &Json) -> String {
    format!(
        "client {}\nsecret {}\n",
        cell(&json["client"]),
        cell(&json["secret"])
    )
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

    #[test]
    fn a_table_is_as_wide_as_what_is_in_it() {
        let json =
            json!({ "items": [{ "a": "x", "b": ["p", "q"] }, { "a": "long\u{7}er", "b": null }] });
        let text = table(&json, &[("A", "a"), ("B", "b")]);
        assert_eq!(text, "A        B\nx        p q\nlong er  -\n");
    }
}
