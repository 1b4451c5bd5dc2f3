//! `headwater gateway try`: hears a topic as a client does, with a token that is made for it.

use std::io::{self, Write as _};

use anyhow::Context as _;
use serde_json::{Value as Json, json};
use server::client::{Client, Method, StopReading, percent_encoded};

use super::super::reply::{array, cell};
use super::super::tap::end_on_interrupt;
use super::args::{GatewayArgs, TryArgs};
use crate::output::Output;

/// What the gateway is asked for.
struct Topic {
    /// With scheme and address.
    gateway: String,
    /// Base path and topic.
    path: String,
    is_secured: bool,
    scopes: Json,
}

/// Who hears it.
struct Login {
    token: String,
    /// An application that is removed again.
    made: Option<String>,
}

pub(super) fn run(args: &GatewayArgs, wanted: &TryArgs, output: &Output) -> anyhow::Result<u8> {
    let stop = StopReading::default();
    end_on_interrupt(stop.clone())?;
    let admin = args.server.client()?;
    let reply = admin.ask(Method::GET, "/gateway/apis", "")?;
    if reply.status != 200 {
        output.error(reply.json["message"].as_str().unwrap_or("no answer"));
        return Ok(1);
    }
    let topic = match topic_of(&reply.json, wanted) {
        Ok(topic) => topic,
        Err(message) => {
            output.error(&message);
            return Ok(1);
        }
    };
    let login = match topic.is_secured {
        false => None,
        true => match log_in(&admin, wanted, &topic)? {
            Ok(login) => Some(login),
            Err(message) => {
                output.error(&message);
                return Ok(1);
            }
        },
    };
    let token = login.as_ref().map(|login| login.token.as_str());
    let client = Client::new(&topic.gateway, token, args.server.cacert.as_deref());
    let heard = client.map_err(anyhow::Error::from).and_then(|client| {
        let mut hearing = Hearing::new(args.json, wanted.count);
        let refusal = client.lines(&topic.path, &stop, &mut |line| hearing.take(line))?;
        hearing.end(refusal.as_ref().map(|reply| &reply.json))
    });
    if let Some(name) = login.and_then(|login| login.made) {
        // Its token ends with it. Where the server has gone meanwhile, it stays: harmless, and listed.
        let path = format!("/gateway/apps/{}", percent_encoded(&name));
        admin.ask(Method::DELETE, &path, "").ok();
    }
    match heard? {
        None => Ok(0),
        Some(message) => {
            output.error(&message);
            Ok(1)
        }
    }
}

fn topic_of(json: &Json, wanted: &TryArgs) -> Result<Topic, String> {
    let apis = array(&json["items"]);
    let (name, version) = match wanted.api.split_once('/') {
        Some((name, version)) => (name, Some(version)),
        None => (wanted.api.as_str(), None),
    };
    let is_it = |api: &&Json| {
        let is_named = api["name"]
            .as_str()
            .is_some_and(|own| own.eq_ignore_ascii_case(name));
        is_named && version.is_none_or(|version| api["version"] == version)
    };
    let api = apis.iter().find(is_it).ok_or_else(|| {
        let names: Vec<String> = apis.iter().map(|api| cell(&api["name"])).collect();
        format!(
            "there is no API '{}'; there is {}",
            wanted.api,
            names.join(", ")
        )
    })?;
    let path = format!("/{}", wanted.topic.trim_start_matches('/'));
    let topics = array(&api["topics"]);
    let found = topics
        .iter()
        .find(|topic| matches(&cell(&topic["address"]), &path));
    let topic = found.ok_or_else(|| {
        let names: Vec<String> = topics.iter().map(|topic| cell(&topic["address"])).collect();
        format!(
            "API '{name}' has no topic at '{path}'; there is {}",
            names.join(", ")
        )
    })?;
    let operation = &topic["subscribe"];
    if operation.is_null() {
        return Err(format!(
            "nobody may hear topic '{path}': clients publish to it"
        ));
    }
    if !array(&api["protocols"]).contains(&json!("sse")) {
        return Err(format!(
            "API '{name}' is not heard by server-sent events, which this command speaks"
        ));
    }
    if operation["secured"] == true && api["ownTokens"] == false {
        return Err(format!(
            "API '{name}' takes tokens of other issuers alone, and this command can make none of theirs"
        ));
    }
    let scheme = match api["tls"].as_bool() {
        Some(true) => "https",
        _ => "http",
    };
    let address = array(&api["addresses"]).first().map(cell);
    let address = address.ok_or("the gateway listens nowhere yet")?;
    // One that listens everywhere is reached on this machine.
    let address = address
        .replacen("0.0.0.0:", "127.0.0.1:", 1)
        .replacen("[::]:", "[::1]:", 1);
    let gateway = match &wanted.gateway {
        Some(url) => url.clone(),
        None => format!("{scheme}://{address}"),
    };
    Ok(Topic {
        gateway,
        path: format!("{}{path}", cell(&api["paths"][0])),
        is_secured: operation["secured"].as_bool().unwrap_or(true),
        scopes: operation["scopes"].clone(),
    })
}

/// Is a path one of the addresses that a template means?
fn matches(address: &str, path: &str) -> bool {
    let (address, path) = (address.split('/'), path.split('/'));
    let is_one =
        |(own, part): (&str, &str)| own == part || own.starts_with('{') && !part.is_empty();
    address.clone().count() == path.clone().count() && address.zip(path).all(is_one)
}

/// A token of the server's own issuer.
fn log_in(
    admin: &Client,
    wanted: &TryArgs,
    topic: &Topic,
) -> anyhow::Result<Result<Login, String>> {
    let (app, made) = match &wanted.app {
        Some(app) => (app.clone(), None),
        None => {
            let name = format!("try-{}", std::process::id());
            let body = json!({ "name": name, "scopes": topic.scopes });
            let reply = admin.ask(Method::POST, "/gateway/apps", &body.to_string())?;
            if reply.status != 201 {
                return Ok(Err(cell(&reply.json["message"])));
            }
            (name.clone(), Some(name))
        }
    };
    let body = json!({ "application": app, "scopes": topic.scopes });
    let reply = admin.ask(Method::POST, "/gateway/tokens", &body.to_string())?;
    Ok(match reply.json["token"].as_str() {
        Some(token) => Ok(Login {
            token: token.to_owned(),
            made,
        }),
        None => Err(cell(&reply.json["message"])),
    })
}

/// The stream, line by line.
struct Hearing {
    as_json: bool,
    left: Option<u64>,
    id: Option<String>,
    kind: String,
    data: Vec<String>,
    failed: Option<io::Error>,
    /// Why the stream ended, as it said.
    ended: Option<String>,
}

impl Hearing {
    fn new(as_json: bool, left: Option<u64>) -> Hearing {
        Hearing {
            as_json,
            left,
            id: None,
            kind: String::new(),
            data: Vec::new(),
            failed: None,
            ended: None,
        }
    }

    /// Takes a line; does the command go on?
    fn take(&mut self, line: &str) -> bool {
        let line = line.trim_end_matches('\r');
        if line.is_empty() {
            return self.dispatch();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.id = Some(value.to_owned()),
            "event" => value.clone_into(&mut self.kind),
            "data" => self.data.push(value.to_owned()),
            _ => {}
        }
        true
    }

    fn dispatch(&mut self) -> bool {
        let kind = std::mem::take(&mut self.kind);
        let data = std::mem::take(&mut self.data);
        if data.is_empty() {
            return true;
        }
        let data = data.join("\n");
        let line = match (self.as_json, kind.as_str()) {
            (true, _) => json!({ "id": self.id, "event": kind, "data": data }).to_string(),
            (false, "") => cell(&json!(data)),
            (false, _) => cell(&json!(format!("{kind}: {data}"))),
        };
        if let Err(error) = writeln!(io::stdout(), "{line}") {
            self.failed = Some(error);
            return false;
        }
        if matches!(kind.as_str(), "end" | "throttled") {
            self.ended = Some(format!("the gateway ended the stream: {data}"));
            return false;
        }
        if kind == "gap" {
            return true;
        }
        self.left = self.left.map(|left| left - 1);
        self.left != Some(0)
    }

    /// What to tell at the end; `refusal`: the gateway has answered with no stream.
    fn end(self, refusal: Option<&Json>) -> anyhow::Result<Option<String>> {
        match self.failed {
            // Whoever read it has enough.
            Some(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(None),
            Some(error) => return Err(error).context("cannot write"),
            None => {}
        }
        Ok(match refusal {
            Some(json) => Some(format!(
                "the gateway refuses: {}",
                cell(&json["description"])
            )),
            None => self.ended,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_of_an_address() {
        assert!(matches("/symbols/{symbol}", "/symbols/ACME"));
        assert!(!matches("/symbols/{symbol}", "/symbols/"));
        assert!(!matches("/symbols/{symbol}", "/symbols/A/B"));
        assert!(matches("/all", "/all"));
    }

    #[test]
    fn a_stream_ends_after_its_count_or_by_its_own_word() {
        let mut hearing = Hearing::new(true, Some(2));
        let lines = [
            ":",
            "",
            "id: 1",
            "data: a",
            "data: b",
            "",
            "event: gap",
            "data: {}",
            "",
        ];
        assert!(lines.into_iter().all(|line| hearing.take(line)));
        assert_eq!(hearing.left, Some(1));
        assert!(hearing.take("data: c") && !hearing.take(""));
        let mut hearing = Hearing::new(true, None);
        assert!(hearing.take("event: end") && hearing.take("data: restart") && !hearing.take(""));
        assert!(
            hearing
                .end(None)
                .is_ok_and(|said| said.is_some_and(|said| said.contains("restart")))
        );
    }
}
