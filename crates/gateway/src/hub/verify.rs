//! Requests to the hub: read, answered 202, and carried out when the callback has said that they are meant.

use std::sync::Arc;
use std::time::SystemTime;

use connect::net::http_client::Client;
use connect::net::websub::{self, Intent, Mode};
use connect::url::Url;
use hyper::header::HeaderMap;
use hyper::{Method, StatusCode};
use ring::digest::{SHA256, digest};

use super::request::ask;
use super::rules::Rules;
use super::store::{HubError, Place, Saved};
use super::{Hub, millis};
use crate::plan::Key;

/// Callbacks that are asked at once; who comes then is told to come again.
pub(super) const ASKED_MAX: usize = 256;

/// A request to subscribe, or to end that.
pub struct Asking<'a> {
    /// Name and version of the API.
    pub api: &'a str,
    /// The form.
    pub form: &'a str,
    /// The address of a topic, below the API, that a `hub.topic` means; `None`: none.
    pub topic: &'a (dyn Fn(&str) -> Option<String> + Sync),
    /// The hub as the subscriber knows it.
    pub hub: String,
    pub application: Option<String>,
}

/// What the subscriber is told at once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Told {
    pub status: StatusCode,
    /// Plain text; empty where all is well.
    pub reason: String,
}

fn told(status: StatusCode, reason: impl Into<String>) -> Told {
    Told {
        status,
        reason: reason.into(),
    }
}

/// A request that was accepted.
struct Accepted {
    intent: Intent,
    saved: Saved,
    client: Arc<Client>,
}

impl Hub {
    /// Takes a request. What it asks for happens once its callback has confirmed it.
    pub async fn ask(self: &Arc<Hub>, asking: &Asking<'_>) -> Told {
        let Some((rules, client)) = self.rules_of(asking.api) else {
            return told(StatusCode::NOT_FOUND, "this API has no hub\n");
        };
        let intent = match Intent::read(asking.form, |topic| (asking.topic)(topic).is_some()) {
            Ok(intent) => intent,
            Err(why) => return told(StatusCode::BAD_REQUEST, format!("{why}\n")),
        };
        let Some(topic) = (asking.topic)(&intent.topic) else {
            return told(
                StatusCode::BAD_REQUEST,
                "'hub.topic' is not a topic of this hub\n",
            );
        };
        let Some(callback) = Url::parse(&intent.callback) else {
            return told(
                StatusCode::BAD_REQUEST,
                "'hub.callback' is not an http or https URL\n",
            );
        };
        let saved = saved_of(asking, &intent, topic, &rules);
        if let Some(refused) = self.over_plan(&saved, intent.mode) {
            return refused;
        }
        let Ok(permit) = Arc::clone(&self.verifying).try_acquire_owned() else {
            return told(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many callbacks are being verified\n",
            );
        };
        if client.is_egress_denied(&callback).await {
            let why = "'hub.callback' is at an address that this hub does not call\n";
            return told(StatusCode::FORBIDDEN, why);
        }
        let intent = Intent {
            lease: (saved.ends - millis(SystemTime::now())).max(1000) / 1000,
            ..intent
        };
        let accepted = Accepted {
            intent,
            saved,
            client,
        };
        let hub = Arc::clone(self);
        tokio::spawn(async move {
            let _permit = permit;
            hub.verify(accepted).await;
        });
        told(StatusCode::ACCEPTED, "")
    }

    /// A plan caps active subscriptions; a renewal is none more.
    fn over_plan(&self, saved: &Saved, mode: Mode) -> Option<Told> {
        if mode == Mode::Unsubscribe || self.has(&saved.id) {
            return None;
        }
        let key = Key {
            application: saved.application.clone(),
            api: saved.place.api.clone(),
            topic: saved.place.topic.clone(),
            user: None,
            address: None,
        };
        let cap = self
            .access
            .meter()
            .account(&key, SystemTime::now())
            .subscriptions()?;
        let count = self.count(&saved.place.api, saved.application.as_deref()) as u64;
        (count >= cap).then(|| {
            let why = format!("the plan allows {cap} active subscriptions\n");
            told(StatusCode::TOO_MANY_REQUESTS, why)
        })
    }

    async fn verify(&self, accepted: Accepted) {
        let Accepted {
            intent,
            saved,
            client,
        } = accepted;
        let (callback, topic, mode) = (&intent.callback, &intent.topic, intent.mode.name());
        let mut stopping = self.stopping.subscribe();
        if let Err(why) = websub::confirmed(&client, &intent, &mut stopping).await {
            let what = "callback did not confirm the request; subscription unchanged";
            tracing::warn!(callback, topic, mode, why, "{what}");
            return;
        }
        let done = match intent.mode {
            Mode::Subscribe => self.take(saved),
            Mode::Unsubscribe => {
                self.end(&saved.id);
                Ok(Taken::Yes)
            }
        };
        match done {
            Ok(Taken::Yes) => tracing::info!(callback, topic, mode, "subscription changed"),
            Ok(Taken::No(why)) => {
                tracing::warn!(
                    callback,
                    topic,
                    why,
                    "subscription denied after it was confirmed"
                );
                deny(&client, callback, topic, &why).await;
            }
            Err(error) => {
                tracing::error!(callback, topic, cause = %error, "cannot save a subscription; it does not count");
                deny(
                    &client,
                    callback,
                    topic,
                    "the hub cannot save the subscription",
                )
                .await;
            }
        }
    }
}

impl Hub {
    /// Takes a subscription, where the plan has still room: others were confirmed since it was asked for.
    fn take(&self, saved: Saved) -> Result<Taken, HubError> {
        let _alone = super::lock(&self.taking);
        if let Some(told) = self.over_plan(&saved, Mode::Subscribe) {
            return Ok(Taken::No(told.reason.trim_end().to_owned()));
        }
        self.confirm(saved)?;
        Ok(Taken::Yes)
    }
}

/// What became of a subscription that was confirmed.
enum Taken {
    Yes,
    /// Why not.
    No(String),
}

fn saved_of(asking: &Asking<'_>, intent: &Intent, topic: String, rules: &Rules) -> Saved {
    let has_lease = websub::parameters(asking.form)
        .iter()
        .any(|(name, value)| name == "hub.lease_seconds" && !value.is_empty());
    let lease = if has_lease { intent.lease } else { rules.lease };
    let lease = lease.min(rules.lease_max);
    let place = Place {
        api: asking.api.to_owned(),
        topic,
    };
    // The same callback and topic are the same subscription.
    let name = format!(
        "{}\u{1f}{}\u{1f}{}",
        place.api, place.topic, intent.callback
    );
    let id = digest(&SHA256, name.as_bytes());
    Saved {
        id: connect::net::http_client::headers::hex(&id.as_ref()[..8]),
        place,
        named: intent.topic.clone(),
        callback: intent.callback.clone(),
        secret: intent.secret.as_bytes().to_vec(),
        digest: rules.digest,
        application: asking.application.clone(),
        hub: asking.hub.clone(),
        ends: millis(SystemTime::now()).saturating_add(lease.saturating_mul(1000)),
        next: 1,
    }
}

/// Tells a callback that it does not get what it asked for (WebSub 5.2).
async fn deny(client: &Client, callback: &str, topic: &str, reason: &str) {
    let pairs = [
        ("hub.mode", "denied"),
        ("hub.topic", topic),
        ("hub.reason", reason),
    ];
    let Some(url) = websub::with_parameters(callback, &pairs) else {
        return;
    };
    // It is told once; what it makes of it is its own.
    ask(client, &Method::GET, &url, HeaderMap::new(), &[])
        .await
        .ok();
}
