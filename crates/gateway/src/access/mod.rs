//! Who may use a topic, and how much: tokens and keys, scopes, plans.
//!
//! [`Access`] belongs to a server; [`Admission`] is one request or stream that was let in, and lives as long as that.
//!
//! Promises: a token is judged before an upgrade or a stream begins; a stream ends within a second of its token's
//! expiry and at once when that is revoked; a limit is never exceeded. Never: a token or key in an answer or a log.

mod rules;

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;

use connect::net::gateway::News;
use connect::retry::Burst;
use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use tokio::sync::Notify;

use rules::is_empty;
pub use rules::{OWN_ISSUER, RuleFault, issuer, plan};

use crate::connections::Entered;
use crate::model::{Api, Operation};
use crate::news::{Newsroom, Throttled};
use crate::plan::{Account, Amount, Denied, Key, Ledger, Meter, Plan, Plans, Slot, Verdict};
use crate::registry::{Registry, RegistryError};
use crate::token::{
    Cause, Credentials, Directory, Ended, Issuer, KeySources, Mint, MintError, Principal, Refusal,
    Revocations, Verifier,
};

/// Name of the file with the keys of the own issuer, in a state directory.
const ISSUER_FILE: &str = "gateway-issuer.json";

/// Seconds until keys that could not be had are asked for again ([`crate::token::REFETCH_PAUSE`]).
const KEYS_RETRY: &str = "10";

#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    #[error("cannot open what the gateway manages")]
    Registry(#[from] RegistryError),
    #[error("cannot open the gateway's own token issuer")]
    Mint(#[from] MintError),
    #[error("cannot read the quotas: {0}")]
    Quotas(String),
}

/// What a server knows about those who use its APIs.
pub struct Access {
    registry: Arc<Registry>,
    sources: Arc<KeySources>,
    revocations: Arc<Revocations>,
    mint: Mint,
    meter: Meter,
    /// By the id of their API.
    verifiers: RwLock<HashMap<String, Arc<Verifier>>>,
    /// Refusals by cause.
    refused: Mutex<HashMap<&'static str, Burst>>,
    room: Arc<Newsroom>,
}

/// A request as far as it matters here.
pub struct Asked<'a> {
    pub api: &'a Api,
    /// The address of the topic, as it is written.
    pub topic: &'a str,
    pub operation: &'a Operation,
    pub headers: &'a HeaderMap,
    /// Without `?`.
    pub query: Option<&'a str>,
    pub address: IpAddr,
}

/// One that was let in.
pub struct Admission {
    /// The subprotocol to choose where the client has offered only its token.
    pub subprotocol: Option<&'static str>,
    /// `None` where nobody has to show who he is.
    principal: Mutex<Option<Arc<Principal>>>,
    /// Told when the principal has shown another token.
    renewed: Notify,
    verifier: Arc<Verifier>,
    account: Account,
    /// A connection that is counted as long as this lives.
    _slot: Option<Slot>,
    /// Its place in the list of streams, for as long.
    pub(crate) entered: Option<Entered>,
}

/// Why a request was not let in.
#[derive(Debug)]
pub enum Turned {
    Refused(Refusal),
    Throttled(Denied),
}

impl Turned {
    pub fn status(&self) -> StatusCode {
        match self {
            Turned::Refused(refusal) => refusal.status,
            Turned::Throttled(_) => StatusCode::TOO_MANY_REQUESTS,
        }
    }

    /// `WWW-Authenticate`, or `Retry-After` where keys cannot be had, or the limit and when it begins anew.
    pub fn add_headers(&self, into: &mut HeaderMap, now: SystemTime) {
        match self {
            Turned::Refused(refusal) => {
                // It is made of printable characters.
                match HeaderValue::from_str(&refusal.authenticate) {
                    Ok(value) if !value.is_empty() => drop(into.insert(WWW_AUTHENTICATE, value)),
                    _ => drop(into.insert(RETRY_AFTER, HeaderValue::from_static(KEYS_RETRY))),
                }
            }
            Turned::Throttled(denied) => denied.add_headers(into, now),
        }
    }

    /// JSON.
    pub fn body(&self, now: SystemTime) -> String {
        match self {
            Turned::Refused(refusal) => refusal.body(),
            Turned::Throttled(denied) => denied.body(now),
        }
    }

    /// For the log and for labels.
    pub fn cause(&self) -> &'static str {
        match self {
            Turned::Refused(refusal) => refusal.cause.name(),
            Turned::Throttled(_) => "throttled",
        }
    }
}

/// The id of an API in plans and subscriptions.
pub(crate) fn id_of(api: &Api) -> String {
    format!("{}/{}", api.name, api.version)
}

impl Access {
    /// Opens what a state directory holds; without one all ends with the process.
    ///
    /// # Errors
    /// A file cannot be read or made, or is damaged.
    pub fn open(state: Option<&Path>, now: SystemTime) -> Result<Arc<Access>, AccessError> {
        let registry = Arc::new(Registry::open(state)?);
        let sources = Arc::<KeySources>::default();
        let file = state.map(|dir| dir.join(ISSUER_FILE));
        let mint = Mint::open(file.as_deref(), OWN_ISSUER, &sources, now)?;
        let plans = Arc::clone(&registry) as Arc<dyn Plans>;
        let ledger = Arc::clone(&registry) as Arc<dyn Ledger>;
        Ok(Arc::new(Access {
            revocations: registry.revocations(),
            meter: Meter::new(plans, ledger).map_err(AccessError::Quotas)?,
            registry,
            sources,
            mint,
            verifiers: RwLock::default(),
            refused: Mutex::default(),
            room: Arc::default(),
        }))
    }

    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// The server's own issuer.
    pub fn mint(&self) -> &Mint {
        &self.mint
    }

    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Where apps hear what the gateway does.
    pub(crate) fn room(&self) -> &Arc<Newsroom> {
        &self.room
    }

    /// Refusals so far, by cause.
    pub fn refused(&self) -> Vec<(&'static str, u64)> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<(&'static str, u64)> = refused
            .iter()
            .map(|(cause, burst)| (*cause, burst.all()))
            .collect();
        all.sort_unstable();
        all
    }

    /// These APIs are served from now on. Streams that live go on by the rules that they began with. An issuer or a
    /// plan that cannot be read is left out: whoever calls this has judged them by [`issuer`] and [`plan`].
    pub fn set_apis(&self, apis: &[Api]) {
        let made = self.registry.plans();
        let plans = apis.iter().map(|api| {
            let plans = api.plans.iter().filter_map(|(name, json)| {
                // One that is named alone may be one that a command has made.
                let made = made
                    .iter()
                    .find(|plan| plan.name == *name && is_empty(json));
                made.map(|plan| Plan::clone(plan))
                    .or_else(|| plan(name, json).ok())
            });
            (id_of(api), plans.collect::<Vec<Plan>>())
        });
        self.registry.offer(plans);
        let before = self
            .verifiers
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let verifiers = apis.iter().map(|api| {
            let listed = api.issuers.iter();
            let mut issuers: Vec<Issuer> = listed
                .filter_map(|json| issuer(json, &api.file).ok())
                .collect();
            if issuers.is_empty() {
                issuers.push(Issuer::own(OWN_ISSUER));
            }
            let id = id_of(api);
            // One that takes the same tokens keeps those that it has checked.
            let known = before.get(&id).filter(|known| known.has_issuers(&issuers));
            let verifier = known.cloned().unwrap_or_else(|| self.verifier(issuers));
            (id, verifier)
        });
        let verifiers = verifiers.collect();
        *self
            .verifiers
            .write()
            .unwrap_or_else(PoisonError::into_inner) = verifiers;
    }

    fn verifier(&self, issuers: Vec<Issuer>) -> Arc<Verifier> {
        let directory = Arc::clone(&self.registry) as Arc<dyn Directory>;
        Arc::new(Verifier::new(
            issuers,
            &self.sources,
            directory,
            Arc::clone(&self.revocations),
        ))
    }

    /// Is there a plan of this name that no document makes?
    pub fn has_plan(&self, name: &str) -> bool {
        self.registry.plans().iter().any(|plan| plan.name == name) || Plan::known(name).is_some()
    }

    /// Lets a request in, or says why not. `is_stream`: it is a connection that is counted as long as it lives.
    ///
    /// # Errors
    /// The answer to give, which is counted.
    pub async fn admit(
        &self,
        asked: &Asked<'_>,
        is_stream: bool,
        now: SystemTime,
    ) -> Result<Admission, Turned> {
        let admitted = self.admitted(asked, is_stream, now).await;
        if let Err(turned) = &admitted {
            self.note_refused(&asked.api.name, asked.topic, asked.address, turned);
        }
        admitted
    }

    /// Counts a refusal by its cause, and says it: of those of one cause a line a second.
    pub(crate) fn note_refused(&self, api: &str, topic: &str, peer: IpAddr, turned: &Turned) {
        let cause = turned.cause();
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let times = refused.entry(cause).or_default().note();
        drop(refused);
        if let Some(times) = times {
            tracing::warn!(api, topic, %peer, cause, times, "request to the gateway refused");
        }
    }

    /// Tells apps that a plan had no room for a request.
    pub(crate) fn tell_throttled(
        &self,
        api: &Api,
        topic: &str,
        peer: IpAddr,
        (who, denied): (Option<&Principal>, &Denied),
    ) {
        if self.room.is_heard(News::Throttled) {
            let whom = Throttled {
                api: &id_of(api),
                topic,
                application: who.and_then(|who| who.application.as_deref()),
                user: who.map(|who| &*who.subject),
                peer: &peer.to_string(),
            };
            self.room.throttled(&whom, denied);
        }
    }

    async fn admitted(
        &self,
        asked: &Asked<'_>,
        is_stream: bool,
        now: SystemTime,
    ) -> Result<Admission, Turned> {
        let id = id_of(asked.api);
        let known = {
            let verifiers = self
                .verifiers
                .read()
                .unwrap_or_else(PoisonError::into_inner);
            verifiers.get(&id).cloned()
        };
        // An API that only connectors of apps name has no issuers of its own.
        let verifier = known.unwrap_or_else(|| self.verifier(vec![Issuer::own(OWN_ISSUER)]));
        let credentials =
            Credentials::from_request(asked.headers, asked.query).with_address(asked.address);
        let subprotocol = credentials.subprotocol();
        let principal = match asked.operation.is_secured {
            false => None,
            true => {
                let verified = verifier
                    .verify(&credentials, now)
                    .await
                    .map_err(Turned::Refused)?;
                verified
                    .require(&asked.operation.scopes)
                    .map_err(Turned::Refused)?;
                Some(verified)
            }
        };
        let key = Key {
            application: principal
                .as_ref()
                .and_then(|principal| principal.application.clone()),
            api: id,
            topic: asked.topic.to_owned(),
            user: principal
                .as_ref()
                .map(|principal| principal.subject.clone()),
            address: Some(asked.address),
        };
        let account = self.meter.account(&key, now);
        let slot = match is_stream {
            true => Some(account.connect(now).map_err(|denied| {
                let who = (principal.as_deref(), &denied);
                self.tell_throttled(asked.api, asked.topic, asked.address, who);
                Turned::Throttled(denied)
            })?),
            false => None,
        };
        Ok(Admission {
            principal: Mutex::new(principal),
            renewed: Notify::new(),
            subprotocol,
            verifier,
            account,
            _slot: slot,
            entered: None,
        })
    }

    /// What a client of the own issuer is answered at `/token`.
    pub fn grant(
        &self,
        headers: &HeaderMap,
        form: &[u8],
        now: SystemTime,
    ) -> crate::token::TokenAnswer {
        let authorization = headers.get(hyper::header::AUTHORIZATION);
        // What cannot be read is no login; without this it would count as none shown.
        let authorization = authorization.map(|value| value.to_str().unwrap_or_default());
        self.mint.grant(&*self.registry, authorization, form, now)
    }

    /// Forgets counters and revocations that are over; to be called from time to time.
    pub fn tidy(&self, now: SystemTime) {
        let swept = self.meter.sweep(now).map_err(RegistryError::Refused);
        if let Err(error) = swept.and_then(|()| self.registry.sweep(now)) {
            tracing::warn!(cause = %error, "cannot remove what is over from the gateway's database");
        }
    }

    /// Gives back what was reserved of quotas and not used: the server stops.
    pub fn settle(&self) {
        if let Err(cause) = self.meter.settle() {
            tracing::warn!(
                cause,
                "cannot give back what was reserved of quotas; it counts as used"
            );
        }
    }
}

impl Admission {
    /// Does its plan count messages?
    pub fn is_counted(&self) -> bool {
        !self.account.is_unlimited()
    }

    /// Counts one message of so many bytes.
    ///
    /// # Errors
    /// The limit that has no room; nothing was counted then.
    pub fn take(&self, bytes: usize, now: SystemTime) -> Result<(), Denied> {
        if self.account.is_unlimited() {
            return Ok(());
        }
        let amount = Amount {
            events: 1,
            bytes: bytes as u64,
        };
        match self.account.take(amount, now) {
            Verdict::Allowed { .. } => Ok(()),
            Verdict::Denied(denied) => {
                if let Some(entered) = &self.entered {
                    entered.throttled(&denied);
                }
                Err(denied)
            }
        }
    }

    /// As [`Admission::take`], for one request; the headers tell the client what is left.
    ///
    /// # Errors
    /// The answer to give.
    pub fn take_one(
        &self,
        bytes: usize,
        headers: &mut HeaderMap,
        now: SystemTime,
    ) -> Result<(), Turned> {
        let amount = Amount {
            events: 1,
            bytes: bytes as u64,
        };
        let verdict = self.account.take(amount, now);
        verdict.add_headers(headers, now);
        match verdict {
            Verdict::Allowed { .. } => Ok(()),
            Verdict::Denied(denied) => Err(Turned::Throttled(denied)),
        }
    }

    /// Bytes of one message: so many at most, or fewer by the plan.
    pub fn message_max(&self, most: usize) -> usize {
        let by_plan = self
            .account
            .message_max()
            .and_then(|max| usize::try_from(max).ok());
        by_plan.map_or(most, |max| max.min(most))
    }

    /// Who it is; `None` where nobody has to show that.
    pub fn principal(&self) -> Option<Arc<Principal>> {
        let principal = self.principal.lock();
        principal.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Can nothing end its streams?
    pub fn is_endless(&self) -> bool {
        self.account.duration().is_none() && self.principal().is_none()
    }

    /// Returns when a stream must end, if it ever must.
    pub async fn ended(&self) -> Ended {
        let lasts = async {
            match self.account.duration() {
                Some(duration) => tokio::time::sleep(duration).await,
                None => std::future::pending().await,
            }
        };
        let token = async {
            loop {
                let mut renewed = std::pin::pin!(self.renewed.notified());
                // Before the principal is looked at, or one that comes meanwhile would be missed.
                renewed.as_mut().enable();
                let Some(principal) = self.principal() else {
                    return std::future::pending().await;
                };
                tokio::select! {
                    ended = self.verifier.ended(&principal) => return ended,
                    () = renewed => {}
                }
            }
        };
        tokio::select! {
            ended = token => ended,
            () = lasts => Ended::Duration,
        }
    }

    /// Another token for a stream that lives, in a message of it: from then on it is that which must not expire. It
    /// must be of the same subject and application.
    ///
    /// # Errors
    /// It does not count; the stream goes on with the one before.
    pub async fn renew(
        &self,
        token: &str,
        scopes: &[String],
        now: SystemTime,
    ) -> Result<(), Refusal> {
        let principal = self
            .verifier
            .verify(&Credentials::of_token(token), now)
            .await?;
        principal.require(scopes)?;
        let is_same = self.principal().is_some_and(|own| {
            own.subject == principal.subject && own.application == principal.application
        });
        if !is_same {
            return Err(Refusal::new(Cause::Claims));
        }
        let own = self.principal.lock();
        *own.unwrap_or_else(PoisonError::into_inner) = Some(principal);
        self.renewed.notify_waiters();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
