//! The keys of an issuer, fetched when they are needed and kept while that is safe.
//!
//! | Age of the keys | A token is checked with |
//! |---|---|
//! | up to [`FRESH`] | them |
//! | up to [`KEYS_KEPT`] | them, while they are fetched again |
//! | more | nothing until they could be fetched |
//!
//! A token that names an unknown key has them fetched at once. Fetches of one issuer never overlap, and between two
//! there are [`REFETCH_PAUSE`], whatever comes in.

use std::collections::HashMap;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};
use std::time::{Duration, SystemTime};

use connect::net::ClientTls;
use connect::net::http_client::Fetch;
use connect::url::Url;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, HeaderMap, HeaderValue};
use hyper::{Method, StatusCode};
use serde_json::Value;

use super::cause::Cause;
use super::issuer::{Issuer, KeyPlace};
use super::key::{Key, KeySet};
use super::strict_json;

/// Younger keys are taken as they are.
const FRESH: Duration = Duration::from_secs(300);

/// How long keys count after their issuer could last be asked.
pub const KEYS_KEPT: Duration = Duration::from_secs(3600);

/// Least time between two fetches from one issuer.
pub const REFETCH_PAUSE: Duration = Duration::from_secs(10);

/// Longest wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Longest document.
const BYTES_MAX: usize = 1 << 20;

/// All sources of keys of a server: APIs that name the same issuer share one, also over a reload.
pub struct KeySources {
    sources: Mutex<HashMap<(String, KeyPlace), Weak<KeySource>>>,
    fetcher: Arc<Fetcher>,
    own: OnceLock<Arc<KeySource>>,
}

impl Default for KeySources {
    /// Trusts the certificates that the system trusts.
    fn default() -> KeySources {
        KeySources::new(None)
    }
}

impl KeySources {
    /// `tls`: what is trusted; `None`: what the system trusts.
    pub fn new(tls: Option<ClientTls>) -> KeySources {
        KeySources {
            sources: Mutex::default(),
            fetcher: Arc::new(Fetcher {
                tls: Mutex::new(tls),
                fetch: OnceLock::new(),
            }),
            own: OnceLock::new(),
        }
    }

    pub(super) fn of(&self, issuer: &Issuer) -> Arc<KeySource> {
        if issuer.keys == KeyPlace::Own {
            let none = || Arc::new(KeySource::fixed("own", KeySet::default(), &self.fetcher));
            return Arc::clone(self.own.get_or_init(none));
        }
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.retain(|_, source| source.strong_count() > 0);
        let place = (issuer.issuer.clone(), issuer.keys.clone());
        if let Some(known) = sources.get(&place).and_then(Weak::upgrade) {
            return known;
        }
        let source = Arc::new(match &issuer.keys {
            KeyPlace::Secret(secret) => {
                let keys = KeySet::of(vec![Key::secret(secret)]);
                KeySource::fixed(&issuer.name, keys, &self.fetcher)
            }
            _ => KeySource::new(issuer, &self.fetcher),
        });
        sources.insert(place, Arc::downgrade(&source));
        source
    }

    /// The keys of the server's own issuer.
    pub(super) fn set_own(&self, keys: KeySet) {
        let first = || Arc::new(KeySource::fixed("own", keys.clone(), &self.fetcher));
        self.own.get_or_init(first).set(keys.clone());
    }
}

/// Those of one issuer.
pub(super) struct KeySource {
    name: String,
    issuer: String,
    place: KeyPlace,
    fetcher: Arc<Fetcher>,
    state: RwLock<State>,
    /// Whose turn it is to fetch.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    keys: Arc<KeySet>,
    /// Changes with the keys.
    version: u64,
    /// When the keys were last fetched.
    fetched: Option<SystemTime>,
    /// When that was last tried, and how often so far.
    tried: Option<SystemTime>,
    tries: u64,
    is_fixed: bool,
}

/// The keys at one time.
pub(super) struct Current {
    pub keys: Arc<KeySet>,
    pub version: u64,
}

/// How long ago; a clock that was set back makes nothing old.
fn age(now: SystemTime, at: SystemTime) -> Duration {
    now.duration_since(at).unwrap_or_default()
}

impl State {
    fn current(&self) -> Current {
        Current {
            keys: Arc::clone(&self.keys),
            version: self.version,
        }
    }

    fn is_usable(&self, now: SystemTime) -> bool {
        self.is_fixed || self.fetched.is_some_and(|at| age(now, at) <= KEYS_KEPT)
    }

    fn is_fresh(&self, now: SystemTime) -> bool {
        self.is_fixed || self.fetched.is_some_and(|at| age(now, at) <= FRESH)
    }

    /// A clock that was set back does not put it off.
    fn may_fetch(&self, now: SystemTime) -> bool {
        let is_past = |at| {
            now.duration_since(at)
                .map_or(true, |pause| pause >= REFETCH_PAUSE)
        };
        !self.is_fixed && self.tried.is_none_or(is_past)
    }

    /// Is the version another?
    fn set(&mut self, keys: KeySet) -> bool {
        let is_other = *self.keys != keys || self.version == 0;
        if is_other {
            self.keys = Arc::new(keys);
            self.version += 1;
        }
        is_other
    }
}

impl KeySource {
    fn new(issuer: &Issuer, fetcher: &Arc<Fetcher>) -> KeySource {
        KeySource {
            name: issuer.name.clone(),
            issuer: issuer.issuer.clone(),
            place: issuer.keys.clone(),
            fetcher: Arc::clone(fetcher),
            state: RwLock::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// Keys that are fetched nowhere.
    fn fixed(name: &str, keys: KeySet, fetcher: &Arc<Fetcher>) -> KeySource {
        let mut state = State {
            is_fixed: true,
            ..State::default()
        };
        state.set(keys);
        KeySource {
            name: name.to_owned(),
            issuer: String::new(),
            place: KeyPlace::Own,
            fetcher: Arc::clone(fetcher),
            state: RwLock::new(state),
            turn: tokio::sync::Mutex::default(),
        }
    }

    fn set(&self, keys: KeySet) {
        self.state
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .set(keys);
    }

    fn read<T>(&self, what: impl FnOnce(&State) -> T) -> T {
        what(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The version of the keys if they may be used now. Keys that grow old are fetched meanwhile.
    pub fn version(self: &Arc<KeySource>, now: SystemTime) -> Option<u64> {
        let (is_usable, is_due, version) = self.read(|state| {
            let is_due = !state.is_fresh(now) && state.may_fetch(now);
            (state.is_usable(now), is_due, state.version)
        });
        // Whoever holds the turn is fetching already.
        if is_usable && is_due && self.turn.try_lock().is_ok() {
            let source = Arc::clone(self);
            tokio::spawn(async move { source.fetch_once(now).await });
        }
        is_usable.then_some(version)
    }

    /// The keys, fetched if there are none that may be used.
    ///
    /// # Errors
    /// [`Cause::KeysUnavailable`].
    pub async fn usable(self: &Arc<KeySource>, now: SystemTime) -> Result<Current, Cause> {
        if self.version(now).is_none() {
            self.fetched(now).await;
        }
        self.read(|state| match state.is_usable(now) {
            true => Ok(state.current()),
            false => Err(Cause::KeysUnavailable),
        })
    }

    /// The keys, fetched again for a token whose key is not among them, unless that was done just now.
    pub async fn renewed(self: &Arc<KeySource>, now: SystemTime) -> Current {
        self.fetched(now).await;
        self.read(State::current)
    }

    /// Fetches on a task of its own: a client that goes away does not end what others wait for.
    async fn fetched(self: &Arc<KeySource>, now: SystemTime) {
        if self.read(|state| state.is_fixed) {
            return;
        }
        let source = Arc::clone(self);
        let task = tokio::spawn(async move { source.fetch_once(now).await });
        // The runtime ends; so does the request that waits.
        task.await.ok();
    }

    /// Fetches unless somebody else has done so while this waited for its turn, or it was done just now.
    async fn fetch_once(&self, now: SystemTime) {
        let tries = self.read(|state| state.tries);
        let _turn = self.turn.lock().await;
        let is_due = self.read(|state| state.tries == tries && state.may_fetch(now));
        if !is_due {
            return;
        }
        let got = self.get().await;
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.tried = Some(now);
        state.tries += 1;
        let issuer = &self.name;
        match got {
            Ok(keys) => {
                state.fetched = Some(now);
                let (count, left_out) = (keys.len(), keys.left_out.clone());
                if state.set(keys) {
                    tracing::info!(issuer, keys = count, "keys of the token issuer loaded");
                    for why in left_out {
                        tracing::warn!(issuer, why, "key of the token issuer is left out");
                    }
                }
            }
            Err(cause) => {
                let seconds = match state.fetched {
                    Some(at) => KEYS_KEPT.saturating_sub(age(now, at)).as_secs(),
                    None => 0,
                };
                let from = &self.place;
                let what = "cannot fetch the keys of a token issuer; the last ones count for so many seconds more";
                tracing::warn!(issuer, ?from, cause, seconds, "{what}");
            }
        }
    }

    async fn get(&self) -> Result<KeySet, String> {
        let bytes = match &self.place {
            KeyPlace::Url(url) => self.fetcher.get(url).await?,
            KeyPlace::Discovery => {
                let url = self.discovered().await?;
                self.fetcher.get(&url).await?
            }
            KeyPlace::File(path) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(move || read_file(&path));
                let read = read.await.map_err(|error| error.to_string())?;
                Bytes::from(read.map_err(|error| error.to_string())?)
            }
            KeyPlace::Secret(_) | KeyPlace::Own => {
                return Err("there is nothing to fetch".to_owned());
            }
        };
        let keys =
            KeySet::from_json(&bytes).map_err(|why| format!("it is not a set of keys: {why}"))?;
        match keys.len() {
            // Rather those of before than none: an issuer without keys has made a mistake.
            0 => Err("the set has no key that can be used".to_owned()),
            _ => Ok(keys),
        }
    }

    /// The URL of the keys, by the issuer's document (OpenID Connect Discovery 1.0, 4).
    async fn discovered(&self) -> Result<Url, String> {
        let base = self.issuer.trim_end_matches('/');
        let url = Url::parse(&format!("{base}/.well-known/openid-configuration"));
        let url = url.ok_or("the issuer is not a URL")?;
        let bytes = self.fetcher.get(&url).await?;
        let document =
            strict_json::object(&bytes).map_err(|_| format!("{url} is not a JSON object"))?;
        // Another's document would have another's keys count as those of this issuer.
        if document.get("issuer").and_then(Value::as_str) != Some(&*self.issuer) {
            return Err(format!("the document at {url} is of another issuer"));
        }
        let keys = document.get("jwks_uri").and_then(Value::as_str);
        keys.and_then(Url::parse)
            .ok_or_else(|| format!("the document at {url} has no URL 'jwks_uri'"))
    }
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path)?;
    file.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    match bytes.len() <= BYTES_MAX {
        true => Ok(bytes),
        false => Err(io::Error::other("it has more than 1 MiB")),
    }
}

/// Asks issuers, all by one pool of connections.
struct Fetcher {
    tls: Mutex<Option<ClientTls>>,
    fetch: OnceLock<Result<Fetch, String>>,
}

impl Fetcher {
    async fn get(&self, url: &Url) -> Result<Bytes, String> {
        let make = || {
            let given = self
                .tls
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            // The certificates of the system are read only if an issuer is asked.
            let tls = given.map_or_else(|| ClientTls::of_trust(None), Ok)?;
            Ok(Fetch::new(Some(tls), TIMEOUT, BYTES_MAX))
        };
        let fetch = self
            .fetch
            .get_or_init(make)
            .as_ref()
            .map_err(Clone::clone)?;
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let asked = fetch.ask(&Method::GET, url, &headers, Bytes::new()).await;
        match asked {
            Ok((StatusCode::OK, bytes)) => Ok(bytes),
            Ok((status, _)) => Err(format!("{url} answered {status}")),
            Err(error) => Err(format!("cannot reach {url}: {error}")),
        }
    }
}
