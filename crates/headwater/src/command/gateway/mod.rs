//! `headwater gateway`: what the gateway of a running server manages.
//!
//! Never: a key or token in anything printed but the answer to the command that makes it.

mod args;
mod import;
mod shown;
mod trial;

use serde_json::{Map, Value as Json, json};
use server::client::{Method, percent_encoded};

use super::reply::{array, cell};
use crate::output::Output;
pub use args::GatewayArgs;
use args::{
    AppsAction, DeliveriesAction, KeysAction, Part, PlanArgs, PlansAction, SubscriptionsAction,
    TokensAction,
};
use shown::{Columns, Shown};

/// What is asked of the server, and how its answer is printed.
struct Request {
    method: Method,
    path: String,
    body: Json,
    shown: Shown,
}

impl Request {
    fn new(method: Method, path: impl Into<String>, text: fn(&Json) -> String) -> Request {
        Request {
            method,
            path: path.into(),
            body: Json::Null,
            shown: Shown::Text(text),
        }
    }

    /// Asks for a list.
    fn list(path: impl Into<String>, columns: Columns) -> Request {
        Request {
            method: Method::GET,
            path: path.into(),
            body: Json::Null,
            shown: Shown::Table(columns),
        }
    }

    fn with(self, body: Json) -> Request {
        Request { body, ..self }
    }
}

pub fn run(args: &GatewayArgs, output: &Output) -> anyhow::Result<u8> {
    let request = match &args.part {
        Part::Apis => Request::list("/gateway/apis", shown::APIS),
        Part::Apps { action } => apps(action.as_ref()),
        Part::Plans { action } => plans(action.as_ref()),
        Part::Subscriptions { action } => subscriptions(action.as_ref()),
        Part::Keys { action } => keys(action.as_ref()),
        Part::Tokens { action } => tokens(action),
        Part::Callbacks => Request::list("/gateway/callbacks", shown::CALLBACKS),
        Part::Deliveries { action } => deliveries(action.as_ref()),
        Part::Connections { limit } => Request::list(
            format!("/gateway/connections?limit={limit}"),
            shown::CONNECTIONS,
        ),
        Part::Export { api, asyncapi } => {
            let api = percent_encoded(api);
            let path = format!("/gateway/export?api={api}&format={asyncapi}");
            Request::new(Method::GET, path, shown::document)
        }
        Part::Import(wanted) => return import::run(args, wanted, output),
        Part::Try(wanted) => return trial::run(args, wanted, output),
        Part::Quota => Request::list("/gateway/quota", shown::QUOTA),
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
        output.print(&request.shown.of(&reply.json))?;
        for note in array(&reply.json["notes"]) {
            output.say(&format!("note: {}", cell(note)));
        }
    } else {
        output.error(reply.json["message"].as_str().unwrap_or("no answer"));
    }
    Ok(u8::from(!is_done))
}

fn apps(action: Option<&AppsAction>) -> Request {
    match action {
        None | Some(AppsAction::List) => Request::list("/gateway/apps", shown::APPS),
        Some(AppsAction::Create {
            name,
            owner,
            scopes,
        }) => {
            let body = json!({ "name": name, "owner": owner, "scopes": scopes });
            Request::new(Method::POST, "/gateway/apps", shown::client).with(body)
        }
        Some(AppsAction::Remove { name }) => {
            let path = format!("/gateway/apps/{}", percent_encoded(name));
            Request::new(Method::DELETE, path, |json| {
                format!("application {} removed\n", cell(&json["name"]))
            })
        }
        Some(AppsAction::Secret { name }) => {
            let path = format!("/gateway/apps/{}/secret", percent_encoded(name));
            Request::new(Method::POST, path, shown::client)
        }
    }
}

fn plans(action: Option<&PlansAction>) -> Request {
    match action {
        None | Some(PlansAction::List) => Request::list("/gateway/plans", shown::PLANS),
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
        None | Some(SubscriptionsAction::List) => Request::list(PATH, shown::SUBSCRIPTIONS),
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
        None | Some(KeysAction::List { app: None }) => Request::list(PATH, shown::KEYS),
        Some(KeysAction::List { app: Some(app) }) => Request::list(
            format!("{PATH}?application={}", percent_encoded(app)),
            shown::KEYS,
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
        None => Request::list(PATH, shown::DELIVERIES),
        Some(DeliveriesAction::List {
            subscription,
            limit,
        }) => {
            let mut path = format!("{PATH}?limit={limit}");
            if let Some(id) = subscription {
                path += &format!("&subscription={}", percent_encoded(id));
            }
            Request::list(&path, shown::DELIVERIES)
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
