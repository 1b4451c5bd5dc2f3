//! All that requests need of the database, in memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use connect::net::http_client::Network;
use rusqlite::{Connection, Row};

use super::{Application, RegistryError, Subscription};
use crate::plan::Plan;
use crate::token::{ApiKey, Client};

#[derive(Default)]
pub(super) struct View {
    pub applications: BTreeMap<String, Application>,
    pub clients: HashMap<String, Arc<Client>>,
    pub keys: HashMap<String, Arc<ApiKey>>,
    pub plans: BTreeMap<String, Arc<Plan>>,
    pub subscriptions: Vec<Subscription>,
}

impl View {
    pub fn load(database: &Connection) -> Result<View, RegistryError> {
        let mut view = View::default();
        let all = "SELECT name, owner, client, digest, scopes, created FROM applications";
        for row in rows(database, all, application)? {
            let (application, client) = row;
            view.clients.insert(client.id.clone(), Arc::new(client));
            view.applications
                .insert(application.name.clone(), application);
        }
        let all = "SELECT id, application, digest, scopes, created, expires, addresses, referrers FROM keys";
        for key in rows(database, all, api_key)? {
            view.keys.insert(key.id.clone(), Arc::new(key));
        }
        let plan = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
        for (name, limits) in rows(
            database,
            "SELECT name, limits FROM plans ORDER BY name",
            plan,
        )? {
            let limits = serde_json::from_str(&limits).ok();
            let plan = limits.and_then(|limits| Plan::from_json(&name, &limits).ok());
            let damaged = || {
                RegistryError::Refused(format!(
                    "plan '{name}' in the gateway's database is damaged"
                ))
            };
            view.plans
                .insert(name.clone(), Arc::new(plan.ok_or_else(damaged)?));
        }
        let all =
            "SELECT application, api, plan, created FROM subscriptions ORDER BY application, api";
        view.subscriptions = rows(database, all, |row| {
            Ok(Subscription {
                application: row.get(0)?,
                api: row.get(1)?,
                plan: row.get(2)?,
                created: row.get(3)?,
            })
        })?;
        Ok(view)
    }

    /// # Errors
    /// There is none of that name.
    pub fn application(&self, name: &str) -> Result<&Application, RegistryError> {
        let near = lang::suggest::nearest(name, self.applications.keys().map(String::as_str));
        let known = self.applications.get(name);
        known.ok_or_else(|| {
            let help = match near {
                Some(near) => format!("did you mean '{near}'?"),
                None => format!("make it by 'headwater gateway apps create {name}'"),
            };
            RegistryError::Missing(format!("there is no application '{name}': {help}"))
        })
    }

    pub fn keys_of(&self, application: &str) -> impl Iterator<Item = &Arc<ApiKey>> {
        let keys = self.keys.values();
        keys.filter(move |key| key.application == application)
    }

    /// The plan of an application's subscription to an API, which is named by name and version; a subscription to
    /// this version counts before one to all of them.
    pub fn subscribed(&self, application: &str, api: &str) -> Option<String> {
        let (name, _) = api.rsplit_once('/').unwrap_or((api, ""));
        let of = |wanted: &str| {
            let mut all = self.subscriptions.iter();
            all.find(|one| one.application == application && one.api.eq_ignore_ascii_case(wanted))
        };
        of(api).or_else(|| of(name)).map(|one| one.plan.clone())
    }
}

fn rows<T>(
    database: &Connection,
    select: &str,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, RegistryError> {
    let mut statement = database.prepare(select)?;
    let rows = statement.query_map([], read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn words(text: &str) -> Vec<String> {
    text.split_ascii_whitespace().map(str::to_owned).collect()
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.is_empty())
}

fn application(row: &Row<'_>) -> rusqlite::Result<(Application, Client)> {
    let scopes = words(&row.get::<_, String>(4)?);
    let application = Application {
        name: row.get(0)?,
        owner: row.get(1)?,
        client: row.get(2)?,
        scopes: scopes.clone(),
        created: row.get(5)?,
    };
    let client = Client {
        id: application.client.clone(),
        application: application.name.clone(),
        digest: row.get(3)?,
        scopes,
    };
    Ok((application, client))
}

fn api_key(row: &Row<'_>) -> rusqlite::Result<ApiKey> {
    let (addresses, referrers): (String, String) = (row.get(6)?, row.get(7)?);
    Ok(ApiKey {
        id: row.get(0)?,
        application: row.get(1)?,
        digest: row.get(2)?,
        scopes: words(&row.get::<_, String>(3)?),
        created: row.get(4)?,
        expires: row.get(5)?,
        // They were checked before they were saved.
        addresses: lines(&addresses).filter_map(Network::parse).collect(),
        referrers: lines(&referrers).map(str::to_owned).collect(),
    })
}
