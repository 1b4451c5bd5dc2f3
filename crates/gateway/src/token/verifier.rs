//! Judges what a request shows.

use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};

use super::api_key::{Directory, digest_of, id_of};
use super::cache::{Cache, Checked};
use super::cause::{Cause, Refusal};
use super::claims;
use super::credentials::{Credentials, Shown};
use super::issuer::Issuer;
use super::jws::Jws;
use super::key_source::{Current, KeySource, KeySources};
use super::principal::{Ended, Principal};
use super::revocation::Revocations;
use super::strict_json;

/// How often a stream looks at the clock again, which may have been set.
const CLOCK_PERIOD: Duration = Duration::from_secs(10);

/// The tokens and keys that one API takes.
///
/// What was checked for one API says nothing about another: each has a verifier, and a cache, of its own.
pub struct Verifier {
    issuers: Vec<(Issuer, Arc<KeySource>)>,
    directory: Arc<dyn Directory>,
    revocations: Arc<Revocations>,
    cache: Cache,
}

impl Verifier {
    pub fn new(
        issuers: Vec<Issuer>,
        sources: &KeySources,
        directory: Arc<dyn Directory>,
        revocations: Arc<Revocations>,
    ) -> Verifier {
        let with_keys = |issuer: Issuer| {
            let source = sources.of(&issuer);
            (issuer, source)
        };
        Verifier {
            issuers: issuers.into_iter().map(with_keys).collect(),
            directory,
            revocations,
            cache: Cache::default(),
        }
    }

    /// Does it take the tokens of these, and of no others?
    pub fn has_issuers(&self, issuers: &[Issuer]) -> bool {
        self.issuers.iter().map(|(own, _)| own).eq(issuers)
    }

    /// Who has sent a request. It waits only where the keys of an issuer must be fetched, five seconds at most.
    ///
    /// # Errors
    /// The answer to give.
    pub async fn verify(
        &self,
        credentials: &Credentials,
        now: SystemTime,
    ) -> Result<Arc<Principal>, Refusal> {
        let verified = match &credentials.shown[..] {
            [] => Err(Cause::Missing),
            [Shown::Token(token)] => self.token(token, now).await,
            [Shown::ApiKey(key)] => self.api_key(key, credentials, now),
            _ => Err(Cause::Ambiguous),
        };
        verified.map_err(Refusal::new)
    }

    /// Returns when a stream that was opened by this principal must end: within a second of its expiry, and at once
    /// when it is revoked.
    pub async fn ended(&self, principal: &Principal) -> Ended {
        tokio::select! {
            () = expiry(principal.expires) => Ended::Expired,
            () = self.revocations.revoked(principal) => Ended::Revoked,
        }
    }

    fn api_key(
        &self,
        key: &str,
        credentials: &Credentials,
        now: SystemTime,
    ) -> Result<Arc<Principal>, Cause> {
        let known = id_of(key).and_then(|id| self.directory.api_key(id));
        let known = known.ok_or(Cause::UnknownApiKey)?;
        known.check(
            key,
            credentials.address,
            credentials.referrer.as_deref(),
            now,
        )?;
        let at = |seconds: i64| {
            let seconds = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
            SystemTime::UNIX_EPOCH.checked_add(seconds)
        };
        let principal = Principal {
            subject: known.application.clone(),
            application: Some(known.application.clone()),
            scopes: known.scopes.clone(),
            claims: Map::new(),
            expires: known.expires.and_then(at),
            issued: Some(known.created),
            id: Some(known.id.clone()),
            client: None,
            is_api_key: true,
        };
        match self.revocations.is_revoked(&principal) {
            false => Ok(Arc::new(principal)),
            true => Err(Cause::Revoked),
        }
    }

    async fn token(&self, token: &str, now: SystemTime) -> Result<Arc<Principal>, Cause> {
        // A long one is refused before it costs a digest.
        if token.len() > super::TOKEN_BYTES_MAX {
            return Err(Cause::TooLarge);
        }
        let digest = digest_of(token);
        if let Some(principal) = self.known(&digest, now) {
            return match self.revocations.is_revoked(&principal) {
                false => Ok(principal),
                true => Err(Cause::Revoked),
            };
        }
        let (principal, issuer, keys_version) = self.check(token, now).await?;
        let principal = Arc::new(principal);
        if self.revocations.is_revoked(&principal) {
            return Err(Cause::Revoked);
        }
        self.cache.insert(
            digest,
            Checked {
                principal: Arc::clone(&principal),
                issuer,
                keys_version,
                bytes: token.len(),
            },
        );
        Ok(principal)
    }

    /// Whose token that is if it was checked before, by keys that still count.
    fn known(&self, digest: &[u8; 32], now: SystemTime) -> Option<Arc<Principal>> {
        let checked = self.cache.get(digest)?;
        let is_current = checked
            .principal
            .expires
            .is_some_and(|expires| now < expires)
            && self.issuers[checked.issuer].1.version(now) == Some(checked.keys_version);
        if !is_current {
            self.cache.remove(digest);
            return None;
        }
        Some(checked.principal)
    }

    async fn check(&self, token: &str, now: SystemTime) -> Result<(Principal, usize, u64), Cause> {
        let jws = Jws::parse(token)?;
        claims::check_type(jws.ty.as_deref())?;
        let members = strict_json::object(&jws.payload).map_err(|_| Cause::Malformed)?;
        // Not believed yet: it says only whose key to try.
        let named = members.get("iss").and_then(Value::as_str);
        let at = self
            .issuers
            .iter()
            .position(|(issuer, _)| named == Some(&*issuer.issuer))
            .ok_or(Cause::UnknownIssuer)?;
        let (issuer, source) = &self.issuers[at];
        if !issuer.algorithms.contains(&jws.algorithm) {
            return Err(Cause::Algorithm);
        }
        let mut current = source.usable(now).await?;
        let mut found = verify_by(&jws, &current);
        if found == Err(Cause::UnknownKey) {
            current = source.renewed(now).await;
            found = verify_by(&jws, &current);
        }
        found?;
        let mut principal = claims::check(members, issuer, now)?;
        let known = principal.client.as_deref();
        if let Some(application) = known.and_then(|client| self.directory.application_of(client)) {
            principal.application = Some(application);
        }
        Ok((principal, at, current.version))
    }
}

fn verify_by(jws: &Jws<'_>, current: &Current) -> Result<(), Cause> {
    let key = current.keys.candidate(jws.key.as_deref(), jws.algorithm)?;
    match key.verify(jws.algorithm, jws.signed.as_bytes(), &jws.signature) {
        true => Ok(()),
        false => Err(Cause::Signature),
    }
}

/// Returns at that time by the clock of the system.
async fn expiry(at: Option<SystemTime>) {
    let Some(at) = at else { return pending().await };
    while let Ok(left) = at.duration_since(SystemTime::now())
        && !left.is_zero()
    {
        tokio::time::sleep(left.min(CLOCK_PERIOD)).await;
    }
}
