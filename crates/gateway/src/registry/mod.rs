//! What is managed: applications with their clients and keys, plans, subscriptions and revocations, in SQLite.
//!
//! Promises: what was answered is durable; a database that another version has made is read or refused by name, never
//! changed by half. Never: a key or a secret in the clear; of keys there are digests, and WebSub secrets are sealed
//! with a key that is in a file beside the database.
//!
//! Requests read a view of all that stays in memory; the database is read at the start and written by changes.

mod database;
mod ledger;
mod seal;
mod view;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::SystemTime;

use connect::net::http_client::Network;
use rusqlite::{Connection, params};

use crate::plan::{Key, Plan, Plans};
use crate::token::{
    ApiKey, Client, Directory, NewSecret, Revocation, Revocations, Subject, digest_of,
};
pub use seal::Seal;
use view::View;

/// Name of the database in a state directory.
pub const FILE: &str = "gateway.db";

/// Applications of a server.
const APPLICATIONS_MAX: usize = 100_000;

/// Keys of one application.
const KEYS_MAX: usize = 1000;

const NAME_MAX: usize = 100;

#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// What was asked for cannot be; in words, for whoever asked.
    #[error("{0}")]
    Refused(String),
    /// There is no such thing.
    #[error("{0}")]
    Missing(String),
    #[error("the database of the gateway failed")]
    Database(#[from] rusqlite::Error),
    #[error("cannot {action} '{path}'")]
    File {
        action: &'static str,
        path: String,
        #[source]
        cause: std::io::Error,
    },
    #[error("the system gives no random numbers")]
    Random,
}

impl From<ring::error::Unspecified> for RegistryError {
    fn from(_: ring::error::Unspecified) -> RegistryError {
        RegistryError::Random
    }
}

/// Who consumes APIs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Application {
    pub name: String,
    pub owner: Option<String>,
    /// The client by which it asks the server's own issuer for tokens.
    pub client: String,
    /// Those that its client may ask for.
    pub scopes: Vec<String>,
    /// Seconds since 1970.
    pub created: i64,
}

/// An application, an API and a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subscription {
    pub application: String,
    /// The API's name, or its name and version with a slash between.
    pub api: String,
    pub plan: String,
    /// Seconds since 1970.
    pub created: i64,
}

/// What a new key may be used for.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct NewKey {
    pub scopes: Vec<String>,
    /// Seconds since 1970.
    pub expires: Option<i64>,
    /// `10.0.0.0/8`, `::1`.
    pub addresses: Vec<String>,
    /// What `Referer` may be, `*` standing for any text.
    pub referrers: Vec<String>,
}

/// The database of a gateway and what requests see of it.
pub struct Registry {
    database: Mutex<Connection>,
    view: RwLock<Arc<View>>,
    /// The plans that the documents of running APIs offer, in their order, by the API's name and version.
    offered: RwLock<HashMap<String, Vec<Arc<Plan>>>>,
    revocations: Arc<Revocations>,
    seal: Seal,
}

pub(crate) fn seconds(now: SystemTime) -> i64 {
    let since = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

impl Registry {
    /// Opens the database of a state directory, made if there is none. `None`: all is lost with the process.
    ///
    /// # Errors
    /// It cannot be read or made, or is of a later version.
    pub fn open(dir: Option<&Path>) -> Result<Registry, RegistryError> {
        let connection = database::open(dir)?;
        let view = View::load(&connection)?;
        let revocations = Arc::<Revocations>::default();
        revocations.set(database::revocations(&connection)?);
        Ok(Registry {
            database: Mutex::new(connection),
            view: RwLock::new(Arc::new(view)),
            offered: RwLock::default(),
            revocations,
            seal: Seal::open(dir)?,
        })
    }

    pub(crate) fn database(&self) -> MutexGuard<'_, Connection> {
        self.database.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What is revoked; every verifier of the server judges by it.
    pub fn revocations(&self) -> Arc<Revocations> {
        Arc::clone(&self.revocations)
    }

    /// Seals what must be read again, such as WebSub secrets.
    pub fn seal(&self) -> &Seal {
        &self.seal
    }

    /// Changes the database in one transaction, then the view.
    fn change<T>(
        &self,
        change: impl FnOnce(&rusqlite::Transaction<'_>, &View) -> Result<T, RegistryError>,
    ) -> Result<T, RegistryError> {
        let mut database = self.database();
        let transaction = database.transaction()?;
        let made = change(&transaction, &self.view())?;
        let view = View::load(&transaction)?;
        transaction.commit()?;
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(view);
        Ok(made)
    }

    pub fn applications(&self) -> Vec<Application> {
        self.view().applications.values().cloned().collect()
    }

    /// # Errors
    /// There is none of that name.
    pub fn application(&self, name: &str) -> Result<Application, RegistryError> {
        self.view().application(name).cloned()
    }

    /// The second is the secret of its client, which is shown this once.
    ///
    /// # Errors
    /// There is one of that name, or the name cannot be.
    pub fn create_application(
        &self,
        name: &str,
        owner: Option<&str>,
        scopes: &[String],
        now: SystemTime,
    ) -> Result<(Application, NewSecret), RegistryError> {
        check_name("an application", name)?;
        check_scopes(scopes)?;
        let secret = NewSecret::client()?;
        let application = Application {
            name: name.to_owned(),
            owner: owner.map(str::to_owned),
            client: secret.id.clone(),
            scopes: scopes.to_vec(),
            created: seconds(now),
        };
        self.change(|database, view| {
            if view.applications.contains_key(name) {
                return Err(RegistryError::Refused(format!("there is an application '{name}' already")));
            }
            if view.applications.len() >= APPLICATIONS_MAX {
                let message = format!("there are {APPLICATIONS_MAX} applications, and no room for more");
                return Err(RegistryError::Refused(message));
            }
            database.execute(
                "INSERT INTO applications (name, owner, client, digest, scopes, created) VALUES (?, ?, ?, ?, ?, ?)",
                params![
                    name,
                    owner,
                    application.client,
                    digest_of(&secret.text),
                    scopes.join(" "),
                    application.created
                ],
            )?;
            Ok(())
        })?;
        Ok((application, secret))
    }

    /// Gives the client of an application another secret. The one before counts no more.
    ///
    /// # Errors
    /// There is no such application.
    pub fn renew_client(&self, application: &str) -> Result<NewSecret, RegistryError> {
        let made = NewSecret::client()?;
        self.change(|database, view| {
            let known = view.application(application)?;
            let update = "UPDATE applications SET digest = ? WHERE name = ?";
            database.execute(update, params![digest_of(&made.text), application])?;
            Ok(NewSecret {
                id: known.client.clone(),
                text: made.text.clone(),
            })
        })
    }

    /// Removes an application with its keys and subscriptions. Streams that it has open end.
    ///
    /// # Errors
    /// There is no such application.
    pub fn remove_application(&self, name: &str, now: SystemTime) -> Result<(), RegistryError> {
        let (client, keys) = self.change(|database, view| {
            let client = view.application(name)?.client.clone();
            let keys: Vec<String> = view.keys_of(name).map(|key| key.id.clone()).collect();
            database.execute("DELETE FROM applications WHERE name = ?", [name])?;
            Ok((client, keys))
        })?;
        for key in keys {
            self.revoke(Subject::ApiKey(key), None, now)?;
        }
        self.revoke(Subject::Client(client), None, now)
    }

    /// Plans that were made by commands.
    pub fn plans(&self) -> Vec<Arc<Plan>> {
        self.view().plans.values().cloned().collect()
    }

    /// Makes a plan, or gives it other limits. They hold for streams that begin later.
    ///
    /// # Errors
    /// The name cannot be.
    pub fn set_plan(&self, plan: &Plan) -> Result<(), RegistryError> {
        check_name("a plan", &plan.name)?;
        self.change(|database, _| {
            let insert = "INSERT INTO plans (name, limits) VALUES (?, ?) \
                          ON CONFLICT (name) DO UPDATE SET limits = excluded.limits";
            database.execute(insert, params![plan.name, plan.to_json().to_string()])?;
            Ok(())
        })
    }

    /// # Errors
    /// There is no such plan, or it is used.
    pub fn remove_plan(&self, name: &str) -> Result<(), RegistryError> {
        self.change(|database, view| {
            let user = view.subscriptions.iter().find(|one| one.plan == name);
            if let Some(user) = user {
                let message = format!(
                    "application '{}' has subscribed to '{}' on plan '{name}': change that first",
                    user.application, user.api
                );
                return Err(RegistryError::Refused(message));
            }
            match database.execute("DELETE FROM plans WHERE name = ?", [name])? {
                0 => Err(RegistryError::Missing(format!(
                    "there is no plan '{name}' that was made by a command"
                ))),
                _ => Ok(()),
            }
        })
    }

    /// The plans that the documents of the running APIs offer, in the place of those before. An API is named by name
    /// and version, with a slash between.
    pub fn offer(&self, plans: impl IntoIterator<Item = (String, Vec<Plan>)>) {
        let plans = plans.into_iter().map(|(api, plans)| {
            let plans = plans.into_iter().map(Arc::new).collect();
            (api.to_ascii_lowercase(), plans)
        });
        *self.offered.write().unwrap_or_else(PoisonError::into_inner) = plans.collect();
    }

    /// The plan of a name at an API: of its document, of a command, of API Manager.
    fn plan_of(&self, api: &str, name: &str) -> Option<Arc<Plan>> {
        let offered = self.offered.read().unwrap_or_else(PoisonError::into_inner);
        let at_api = offered.get(&api.to_ascii_lowercase()).into_iter().flatten();
        let mut at_api = at_api.filter(|plan| plan.name == name);
        let view = self.view();
        let made = at_api.next().or_else(|| view.plans.get(name)).cloned();
        made.or_else(|| Plan::known(name).map(Arc::new))
    }

    pub fn subscriptions(&self) -> Vec<Subscription> {
        self.view().subscriptions.clone()
    }

    /// Subscribes an application to an API, or puts it on another plan. Without a plan it is the first that the API
    /// offers.
    ///
    /// # Errors
    /// There is no such application, API or plan.
    pub fn subscribe(
        &self,
        application: &str,
        api: &str,
        plan: Option<&str>,
        now: SystemTime,
    ) -> Result<Subscription, RegistryError> {
        let offers: Vec<(String, Vec<String>)> = {
            let offered = self.offered.read().unwrap_or_else(PoisonError::into_inner);
            let is_meant = |own: &str| {
                let (name, _) = own.rsplit_once('/').unwrap_or((own, ""));
                own.eq_ignore_ascii_case(api) || name.eq_ignore_ascii_case(api)
            };
            let meant = offered.iter().filter(|(own, _)| is_meant(own));
            let names = |plans: &[Arc<Plan>]| plans.iter().map(|plan| plan.name.clone()).collect();
            meant
                .map(|(own, plans)| (own.clone(), names(plans)))
                .collect()
        };
        let Some((some_api, names)) = offers.first() else {
            return Err(RegistryError::Missing(format!("there is no API '{api}'")));
        };
        let plan = match plan.or(names.first().map(String::as_str)) {
            Some(plan) => plan.to_owned(),
            None => "AsyncUnlimited".to_owned(),
        };
        if self.plan_of(some_api, &plan).is_none() {
            let message = format!(
                "there is no plan '{plan}'; API '{api}' offers {}",
                names.join(", ")
            );
            return Err(RegistryError::Missing(message));
        }
        let subscription = Subscription {
            application: application.to_owned(),
            api: api.to_owned(),
            plan,
            created: seconds(now),
        };
        self.change(|database, view| {
            view.application(application)?;
            let insert = "INSERT INTO subscriptions (application, api, plan, created) VALUES (?, ?, ?, ?) \
                          ON CONFLICT (application, api) DO UPDATE SET plan = excluded.plan";
            let Subscription {
                api, plan, created, ..
            } = &subscription;
            database.execute(insert, params![application, api, plan, created])?;
            Ok(())
        })?;
        Ok(subscription)
    }

    /// # Errors
    /// There is no such subscription.
    pub fn unsubscribe(&self, application: &str, api: &str) -> Result<(), RegistryError> {
        self.change(|database, _| {
            let delete = "DELETE FROM subscriptions WHERE application = ? AND api = ?";
            match database.execute(delete, [application, api])? {
                0 => Err(RegistryError::Missing(format!(
                    "application '{application}' has not subscribed to '{api}'"
                ))),
                _ => Ok(()),
            }
        })
    }

    /// The keys, of one application if it is named.
    pub fn keys(&self, application: Option<&str>) -> Vec<Arc<ApiKey>> {
        let view = self.view();
        let keys = view.keys.values();
        let mut keys: Vec<Arc<ApiKey>> = keys
            .filter(|key| application.is_none_or(|name| name == key.application))
            .cloned()
            .collect();
        keys.sort_by(|one, other| {
            (&one.application, one.created, &one.id).cmp(&(
                &other.application,
                other.created,
                &other.id,
            ))
        });
        keys
    }

    /// A new key, which is shown this once.
    ///
    /// # Errors
    /// There is no such application, it has too many keys, or an address is none.
    pub fn create_key(
        &self,
        application: &str,
        key: &NewKey,
        now: SystemTime,
    ) -> Result<NewSecret, RegistryError> {
        check_scopes(&key.scopes)?;
        for address in &key.addresses {
            if Network::parse(address).is_none() {
                let message =
                    format!("'{address}' is neither an address nor a network: write 10.0.0.0/8");
                return Err(RegistryError::Refused(message));
            }
        }
        let secret = NewSecret::api_key()?;
        self.change(|database, view| {
            view.application(application)?;
            if view.keys_of(application).count() >= KEYS_MAX {
                let message = format!("application '{application}' has {KEYS_MAX} keys: revoke one first");
                return Err(RegistryError::Refused(message));
            }
            database.execute(
                "INSERT INTO keys (id, application, digest, scopes, created, expires, addresses, referrers) \
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                params![
                    secret.id,
                    application,
                    digest_of(&secret.text),
                    key.scopes.join(" "),
                    seconds(now),
                    key.expires,
                    key.addresses.join("\n"),
                    key.referrers.join("\n")
                ],
            )?;
            Ok(())
        })?;
        Ok(secret)
    }

    /// Removes a key. Streams that it has opened end.
    ///
    /// # Errors
    /// There is no such key.
    pub fn revoke_key(&self, id: &str, now: SystemTime) -> Result<(), RegistryError> {
        self.change(|database, _| {
            match database.execute("DELETE FROM keys WHERE id = ?", [id])? {
                0 => Err(RegistryError::Missing(format!("there is no key '{id}'"))),
                _ => Ok(()),
            }
        })?;
        self.revoke(Subject::ApiKey(id.to_owned()), None, now)
    }

    /// Withdraws a token, the tokens of a user, or those of a client or an application. Streams end at once. `until`:
    /// when what is revoked has expired anyway, in seconds since 1970.
    ///
    /// # Errors
    /// It cannot be saved; nothing is revoked then.
    pub fn revoke(
        &self,
        subject: Subject,
        until: Option<i64>,
        now: SystemTime,
    ) -> Result<(), RegistryError> {
        let revocation = Revocation {
            subject,
            at: seconds(now),
            until,
        };
        database::add_revocation(&self.database(), &revocation)?;
        self.revocations.add(revocation);
        Ok(())
    }

    /// Forgets revocations of what has expired.
    ///
    /// # Errors
    /// They cannot be removed.
    pub fn sweep(&self, now: SystemTime) -> Result<(), RegistryError> {
        self.database()
            .execute("DELETE FROM revocations WHERE until <= ?", [seconds(now)])?;
        self.revocations.sweep(now);
        Ok(())
    }
}

impl Directory for Registry {
    fn api_key(&self, id: &str) -> Option<Arc<ApiKey>> {
        self.view().keys.get(id).cloned()
    }

    fn client(&self, id: &str) -> Option<Arc<Client>> {
        self.view().clients.get(id).cloned()
    }

    fn application_of(&self, client: &str) -> Option<String> {
        let view = self.view();
        let by_client = view
            .clients
            .get(client)
            .map(|client| client.application.clone());
        by_client.or_else(|| view.applications.get(client).map(|one| one.name.clone()))
    }
}

impl Plans for Registry {
    /// That of the application's subscription, else the first that the API offers.
    fn plan(&self, key: &Key) -> Option<Arc<Plan>> {
        let application = key.application.as_deref();
        let subscribed = application.and_then(|name| self.view().subscribed(name, &key.api));
        let subscribed = subscribed.and_then(|plan| self.plan_of(&key.api, &plan));
        let first = || {
            let offered = self.offered.read().unwrap_or_else(PoisonError::into_inner);
            let plans = offered.get(&key.api.to_ascii_lowercase());
            plans.and_then(|plans| plans.first()).cloned()
        };
        subscribed.or_else(first)
    }
}

fn check_name(what: &str, name: &str) -> Result<(), RegistryError> {
    let is_good = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '.' | '_' | '-' | '@');
    if name.is_empty() || name.trim() != name || name.len() > NAME_MAX || !name.chars().all(is_good)
    {
        let message = format!(
            "'{}' cannot be the name of {what}: letters, digits, blanks and ._-@, {NAME_MAX} bytes at most",
            name.escape_debug()
        );
        return Err(RegistryError::Refused(message));
    }
    Ok(())
}

/// RFC 6749, 3.3.
fn check_scopes(scopes: &[String]) -> Result<(), RegistryError> {
    let is_good = |c: char| matches!(c, '\u{21}' | '\u{23}'..='\u{5b}' | '\u{5d}'..='\u{7e}');
    let bad = scopes
        .iter()
        .find(|scope| scope.is_empty() || !scope.chars().all(is_good));
    match bad {
        None => Ok(()),
        Some(bad) => Err(RegistryError::Refused(format!(
            "'{}' cannot be a scope",
            bad.escape_debug()
        ))),
    }
}

#[cfg(test)]
mod tests;
