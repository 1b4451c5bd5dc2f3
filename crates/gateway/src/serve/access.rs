//! Who a client is, whether it may do what it asks for, and how much of it.

use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;

use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderValue, WWW_AUTHENTICATE};

use super::answer::{Answer, bytes};
use super::{Peer, Port};
use crate::gateway::Found;
use crate::model::Operation;
use crate::plan::{Account, Amount, Denied, Key, Slot, Verdict};
use crate::token::{Credentials, Ended, Principal, Refusal, Verifier};

/// A client that was let in, until it leaves.
pub(crate) struct Guest {
    /// `None` where nobody has to show a token.
    pub principal: Option<Arc<Principal>>,
    pub credentials: Credentials,
    verifier: Arc<Verifier>,
    account: Account,
    _slot: Option<Slot>,
}

/// Why a stream ends before its client leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Over {
    Expired,
    Revoked,
    /// It has lasted as long as its plan lets it.
    Duration,
}

impl Over {
    pub fn reason(self) -> &'static str {
        match self {
            Over::Expired => "expired",
            Over::Revoked => "revoked",
            Over::Duration => "duration",
        }
    }
}

pub(crate) type Ending = Pin<Box<dyn Future<Output = Over> + Send>>;

impl Guest {
    /// Uses so many events and bytes.
    ///
    /// # Errors
    /// The limit that has no room; then nothing was used.
    pub fn take(&self, events: u64, bytes: u64) -> Result<(), Denied> {
        let amount = Amount { events, bytes };
        match self.account.take(amount, SystemTime::now()) {
            Verdict::Allowed { .. } => Ok(()),
            Verdict::Denied(denied) => Err(denied),
        }
    }

    /// Returns when a stream of this client has to end; `None`: it never has.
    pub fn ending(&self) -> Option<Ending> {
        let duration = self.account.duration();
        let principal = self.principal.clone();
        if principal.is_none() && duration.is_none() {
            return None;
        }
        let verifier = Arc::clone(&self.verifier);
        Some(Box::pin(async move {
            let shown = async {
                match principal {
                    Some(principal) => verifier.ended(&principal).await,
                    None => std::future::pending().await,
                }
            };
            let lasting = async {
                match duration {
                    Some(duration) => tokio::time::sleep(duration).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                ended = shown => match ended {
                    Ended::Expired => Over::Expired,
                    Ended::Revoked => Over::Revoked,
                },
                () = lasting => Over::Duration,
            }
        }))
    }

    /// The headers of a request as others may see them: where a token or key was asked for, without it.
    pub fn shown(&self, headers: &HeaderMap) -> HeaderMap {
        let mut headers = headers.clone();
        if self.principal.is_some() {
            self.credentials.strip(&mut headers);
        }
        headers
    }
}

/// Lets a client in that asks for all of these operations, or says why not. `is_held`: its connection counts as one
/// until the guest is dropped.
pub(super) async fn judge(
    operations: &[&Operation],
    (headers, query): (&HeaderMap, Option<&str>),
    found: &Found,
    is_held: bool,
    port: &Port,
    peer: &Peer,
) -> Result<Guest, Box<Answer>> {
    let served = &found.served;
    let (topic, state) = &served.topics[found.topic];
    let refuse = |refusal: &Refusal| {
        port.gateway.counts.refused.access.add(1);
        tracing::debug!(
            topic = state.name,
            peer = %peer.address,
            cause = refusal.cause.name(),
            "client refused"
        );
        Box::new(refused(refusal))
    };
    let credentials = Credentials::from_request(headers, query);
    let credentials = credentials.with_address(peer.address.ip());
    let now = SystemTime::now();
    let mut principal = None;
    if operations.iter().any(|operation| operation.is_secured) {
        let verified = served.verifier.verify(&credentials, now).await;
        let verified = verified.map_err(|refusal| refuse(&refusal))?;
        for operation in operations {
            verified.require(&operation.scopes).map_err(|refusal| refuse(&refusal))?;
        }
        principal = Some(verified);
    }
    let key = Key {
        application: principal.as_ref().and_then(|principal| principal.application.clone()),
        api: served.api.key(),
        topic: topic.address().to_owned(),
        user: principal.as_ref().map(|principal| principal.subject.clone()),
        address: Some(peer.address.ip()),
    };
    let account = port.gateway.meter.account(&key, now);
    let slot = match is_held.then(|| account.connect(now)).transpose() {
        Ok(slot) => slot,
        Err(denied) => return Err(Box::new(throttled(&denied, port))),
    };
    Ok(Guest {
        principal,
        credentials,
        verifier: Arc::clone(&served.verifier),
        account,
        _slot: slot,
    })
}

fn refused(refusal: &Refusal) -> Answer {
    let body = format!("{}\n", refusal.body());
    let mut answer = bytes(refusal.status, "application/json", body);
    if let Ok(value) = HeaderValue::from_str(&refusal.authenticate) {
        answer.headers_mut().insert(WWW_AUTHENTICATE, value);
    }
    answer
}

/// The answer to a client whose plan has no room.
pub(super) fn throttled(denied: &Denied, port: &Port) -> Answer {
    port.gateway.counts.refused.throttled.add(1);
    let now = SystemTime::now();
    let body = format!("{}\n", denied.body(now));
    let mut answer = bytes(StatusCode::TOO_MANY_REQUESTS, "application/json", body);
    denied.add_headers(answer.headers_mut(), now);
    answer
}
