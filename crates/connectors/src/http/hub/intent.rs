//! Requests to subscribe: read, answered 202, and handed to the app when the callback has said that
//! they are meant (WebSub 5.1 to 5.3).
//!
//! To its subscriber a subscription counts once it has repeated the challenge: the recommendation
//! has no later message of the hub. So what was confirmed is saved at once and not with the next
//! interval. A crash before the question was answered leaves both sides without a subscription,
//! whose 202 has promised none.

use std::sync::Arc;

use event::Value;
use hyper::StatusCode;
use plan::Transport;
use tokio::sync::{Semaphore, watch};

use crate::http::request;
use crate::http::request::{Answer, Peer, Route};
use connect::component::Environment;
use connect::error::Error;
use connect::net::http_client::{Client, ClientOptions};
use connect::net::websub::{self, Intent};
use connect::net::{Body, ClientTls, Delivery};
use connect::option::Settings;
use connect::url::Url;

/// What an app gets of each request.
const OWN: [&str; 5] = ["callback", "topic", "mode", "lease_seconds", "secret"];

/// Callbacks that are asked at once; who comes then is told to come again.
const ASKED_MAX: usize = 256;

/// Where the subscriptions of a hub are asked for.
pub(crate) struct Desk {
    topics: Vec<String>,
    client: Client,
    asked: Arc<Semaphore>,
    /// The app stops: nobody is asked once more.
    leaving: watch::Sender<bool>,
}

impl Desk {
    /// `None` for a source that is not a hub.
    pub fn new(transport: &Transport, environment: &Environment) -> Result<Option<Desk>, Error> {
        if transport.ty != "websubhub" {
            return Ok(None);
        }
        let settings = Settings::of_source(transport, crate::http::hub::SPECS);
        let topics = settings.text_or_default("topic.list").split(',');
        let topics = topics.map(str::trim).filter(|topic| !topic.is_empty());
        let topics: Vec<String> = topics.map(str::to_owned).collect();
        if topics.is_empty() {
            return Err(settings.refused("option 'topic.list' is empty"));
        }
        Ok(Some(Desk {
            topics,
            client: Client::new(ClientOptions {
                tls: Some(ClientTls::new(settings, environment)?),
                egress_policy: Some(super::egress_policy(settings)?),
                ..ClientOptions::default()
            }),
            asked: Arc::new(Semaphore::new(ASKED_MAX)),
            leaving: watch::Sender::new(false),
        }))
    }

    /// Callbacks are asked as often as is their due.
    pub fn open(&self) {
        self.leaving.send_replace(false);
    }

    /// Ends the pauses before a callback is asked once more.
    pub fn leave(&self) {
        self.leaving.send_replace(true);
    }

    /// Is no callback being asked, and saved what was confirmed?
    pub fn is_idle(&self) -> bool {
        self.asked.available_permits() == ASKED_MAX
    }

    fn read(&self, form: &str) -> Result<Intent, String> {
        Intent::read(form, |topic| self.topics.iter().any(|own| own == topic))
    }

    /// Is its callback where nobody is called? What is not known now is judged when it is asked.
    async fn is_egress_denied(&self, wish: &Intent) -> bool {
        match Url::parse(&wish.callback) {
            Some(url) => self.client.is_egress_denied(&url).await,
            None => false,
        }
    }
}

/// A form of a subscriber, and the question that it leads to.
#[cfg(all(feature = "full", any(test, feature = "testing")))]
pub(crate) fn read_form(form: &str) {
    if let Ok(wish) = Intent::read(form, |topic| topic == "a") {
        let url = wish.question("c").expect("the callback was a URL");
        assert!(url.query.contains("hub.challenge=c"));
    }
}

/// As Siddhi hands it to the `keyvalue` mapper: names without `hub.`.
fn into_map(wish: &Intent) -> Vec<(Value, Value)> {
    let text = |key: &str, value: &str| (Value::str(key), Value::str(value));
    let mut map = vec![
        text(OWN[0], &wish.callback),
        text(OWN[1], &wish.topic),
        text(OWN[2], wish.mode.name()),
        (Value::str(OWN[3]), Value::Long(wish.lease)),
        text(OWN[4], &wish.secret),
    ];
    map.extend(wish.others.iter().map(|(key, value)| text(key, value)));
    map
}

/// Answers a request, and has its callback asked.
pub(in crate::http) async fn answer(
    route: &Arc<Route>,
    desk: &Arc<Desk>,
    form: &str,
    properties: Vec<Value>,
    peer: &Peer,
) -> Answer {
    let refuse = |status, why: &str| {
        tracing::warn!(source = route.name, peer = %peer.address, why, "subscription request \
                                                                        rejected");
        request::plain(status, &format!("{why}\n"))
    };
    let wish = match desk.read(form) {
        Ok(wish) => wish,
        Err(why) => return refuse(StatusCode::BAD_REQUEST, &why),
    };
    let Ok(permit) = Arc::clone(&desk.asked).try_acquire_owned() else {
        return request::unavailable("too many callbacks are being verified\n");
    };
    if desk.is_egress_denied(&wish).await {
        let why = "'hub.callback' is at an address that this hub does not call";
        return refuse(StatusCode::FORBIDDEN, why);
    }
    let (route, desk) = (Arc::clone(route), Arc::clone(desk));
    tokio::spawn(async move {
        let _permit = permit;
        verify(&route, &desk, wish, properties).await;
    });
    request::plain(StatusCode::ACCEPTED, "")
}

/// Hands a wish to the app if its callback confirms it, and has it saved.
async fn verify(route: &Route, desk: &Desk, wish: Intent, properties: Vec<Value>) {
    let (callback, topic) = (wish.callback.clone(), wish.topic.clone());
    let source = &route.name;
    let mut leaving = desk.leaving.subscribe();
    if let Err(why) = websub::confirmed(&desk.client, &wish, &mut leaving).await {
        let what = "callback did not confirm the request; subscription unchanged";
        tracing::warn!(source, callback, topic, why, "{what}");
        return;
    }
    let mode = wish.mode.name();
    let (delivery, saved) = Delivery::of(Body::Map(into_map(&wish)), properties).with_receipt();
    let is_taken = route.ingress.push(delivery).await.is_ok();
    if is_taken && saved.await.is_ok() {
        tracing::info!(source, callback, topic, mode, "subscription changed");
    } else {
        let what = "app stopped before it processed a confirmed request; subscription unchanged";
        tracing::warn!(source, callback, topic, mode, "{what}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use connect::net::testing;

    fn desk() -> Desk {
        let transport = testing::transport("websubhub", &[("topic.list", "a, http://t/b ,")]);
        let desk = Desk::new(&transport, &Environment::new("A"));
        desk.unwrap().unwrap()
    }

    #[test]
    fn a_request_is_handed_to_the_app_with_all_that_it_says() {
        let form = "hub.callback=http%3A%2F%2Fh%2Fc&hub.mode=subscribe&hub.topic=a&hub.lease_seconds=60&hub.secret=s&own=1";
        let map = into_map(&desk().read(form).unwrap());
        let of = |name: &str| {
            let found = map.iter().find(|(key, _)| *key == Value::str(name));
            found.map(|(_, value)| value.clone())
        };
        assert_eq!(of("callback"), Some(Value::str("http://h/c")));
        assert_eq!(of("mode"), Some(Value::str("subscribe")));
        assert_eq!(of("lease_seconds"), Some(Value::Long(60)));
        assert_eq!(
            (of("secret"), of("own")),
            (Some(Value::str("s")), Some(Value::str("1")))
        );
        let other = form.replace("hub.topic=a", "hub.topic=c");
        assert!(
            desk()
                .read(&other)
                .unwrap_err()
                .contains("not a topic of this hub")
        );
    }

    #[test]
    fn a_hub_without_topics_is_refused() {
        let transport = testing::transport("websubhub", &[("topic.list", " , ")]);
        assert!(Desk::new(&transport, &Environment::new("A")).is_err());
    }
}
