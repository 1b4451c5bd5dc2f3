//! Where rejected events are read from: a running server, or the state directory of a stopped one.
//! Both give the same JSON documents.

use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};
use server::Error;
use server::client::{Client, Method, query_text};
use server::rejected::{Filter, Kept, group_json, missing_json};
use server::secrets::Hidden;

use super::args::FilterArgs;
use crate::args::ServerArgs;
use crate::command::secrets::StoreArgs;
use crate::output::Output;

/// Events of a page of a server.
const PAGE: &str = "1000";

pub enum Origin<'a> {
    /// What of its documents is not to be shown; a server hides that itself.
    Dir(&'a Path, Hidden),
    Server(Client),
}

/// What a walk through events is told: go on, or nobody wants more.
pub type Taker<'a> = dyn FnMut(Json) -> anyhow::Result<bool> + 'a;

impl<'a> Origin<'a> {
    pub fn new(
        dir: &'a Option<PathBuf>,
        server: &'a ServerArgs,
        output: &Output,
    ) -> anyhow::Result<Origin<'a>> {
        let Some(dir) = dir else {
            return Ok(Origin::Server(server.client()?));
        };
        if !dir.is_dir() {
            let message = format!("there is no state directory '{}'", dir.display());
            return Err(Error::Usage(message).into());
        }
        let secrets = StoreArgs::of_environment().secrets(Some(dir), output);
        secrets.hide_all();
        Ok(Origin::Dir(dir, secrets.hidden))
    }

    /// All groups, the largest first: `total`, `groups` and `missing`.
    pub fn groups(&self, filter: &FilterArgs) -> anyhow::Result<Json> {
        let pairs = filter.pairs();
        match self {
            Origin::Server(client) => {
                let query = query_text(pairs.iter().map(|(n, v)| (*n, v.as_str())));
                get(client, &format!("/groups{query}"))
            }
            Origin::Dir(dir, hidden) => {
                let mut kept = Kept::open(dir)?;
                let summary = kept.summary(&filter_of(&pairs)?)?;
                let mut groups: Vec<_> = summary.groups().collect();
                groups.sort_by_key(|(key, tally)| (std::cmp::Reverse(tally.count), key.clone()));
                let groups: Vec<Json> = groups.iter().map(|(k, t)| group_json(k, t)).collect();
                let missing: Vec<Json> = kept.missing().iter().map(missing_json).collect();
                let mut all =
                    json!({ "total": summary.total(), "groups": groups, "missing": missing });
                hidden.hide_in(&mut all);
                Ok(all)
            }
        }
    }

    /// The newest events, the newest last: `total`, `events` and `missing`.
    pub fn newest(&self, filter: &FilterArgs, limit: usize) -> anyhow::Result<Json> {
        let mut pairs = filter.pairs();
        match self {
            Origin::Server(client) => {
                pairs.push(("newest", "true".to_owned()));
                pairs.push(("limit", limit.to_string()));
                let query = query_text(pairs.iter().map(|(n, v)| (*n, v.as_str())));
                get(client, &query)
            }
            Origin::Dir(dir, hidden) => {
                let mut kept = Kept::open(dir)?;
                let (entries, total) = kept.newest(&filter_of(&pairs)?, limit)?;
                let events: Vec<Json> = entries.iter().map(|entry| entry.json(None)).collect();
                let missing: Vec<Json> = kept.missing().iter().map(missing_json).collect();
                let mut all = json!({ "total": total, "events": events, "missing": missing });
                hidden.hide_in(&mut all);
                Ok(all)
            }
        }
    }

    /// Every event with its payload, in the order of rejection; what is missing.
    pub fn each(&self, filter: &FilterArgs, take: &mut Taker<'_>) -> anyhow::Result<Vec<Json>> {
        let pairs = filter.pairs();
        let client = match self {
            Origin::Server(client) => client,
            Origin::Dir(dir, hidden) => {
                let (mut kept, filter) = (Kept::open(dir)?, filter_of(&pairs)?);
                while let Some(entry) = kept.next_event(&filter)? {
                    let mut event = entry.json(Some(hidden));
                    hidden.hide_in(&mut event);
                    if !take(event)? {
                        break;
                    }
                }
                return Ok(kept.missing().iter().map(missing_json).collect());
            }
        };
        let mut from = String::new();
        loop {
            let fixed = [
                ("payload", "true"),
                ("limit", PAGE),
                ("from", from.as_str()),
            ];
            let pairs = pairs.iter().map(|(n, v)| (*n, v.as_str()));
            let page = get(client, &query_text(pairs.chain(fixed)))?;
            for event in page["events"].as_array().into_iter().flatten() {
                if !take(event.clone())? {
                    return Ok(Vec::new());
                }
            }
            match page["next"].as_str() {
                Some(next) => from = next.to_owned(),
                None => return Ok(Vec::new()),
            }
        }
    }

    /// One event with its payload.
    pub fn find(&self, number: u64) -> anyhow::Result<Json> {
        match self {
            Origin::Server(client) => get(client, &format!("/{number}")),
            Origin::Dir(dir, hidden) => match Kept::find(dir, number)? {
                Some(entry) => {
                    let mut event = entry.json(Some(hidden));
                    hidden.hide_in(&mut event);
                    Ok(event)
                }
                None => {
                    let message = format!(
                        "there is no rejected event {number}: list those that there are with \
                         'headwater errors list --each {}'",
                        dir.display()
                    );
                    Err(Error::Refused(message).into())
                }
            },
        }
    }
}

fn filter_of(pairs: &[(&'static str, String)]) -> anyhow::Result<Filter> {
    let pairs = pairs.iter().map(|(n, v)| (*n, v.as_str()));
    Ok(Filter::from_pairs(pairs).map_err(Error::Usage)?)
}

/// Asks a server; a refusal is an error with its words.
pub fn get(client: &Client, path: &str) -> anyhow::Result<Json> {
    ask(client, Method::GET, path, &Json::Null)
}

/// `path` is below `/errors`.
pub fn ask(client: &Client, method: Method, path: &str, body: &Json) -> anyhow::Result<Json> {
    let body = match body {
        Json::Null => String::new(),
        body => body.to_string(),
    };
    let reply = client.ask(method, &format!("/errors{path}"), &body)?;
    if (200..300).contains(&reply.status) {
        return Ok(reply.json);
    }
    let message = reply.json["message"].as_str().unwrap_or("no answer");
    match reply.status {
        // It is said which payload, filter or number is wrong.
        400 => Err(Error::Usage(message.to_owned()).into()),
        404 => Err(Error::Refused(message.to_owned()).into()),
        _ => Err(anyhow::anyhow!("{message}")),
    }
}
