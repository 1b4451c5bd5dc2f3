//! Who a client is, and whether it may do what it asks for.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use bytes::Bytes;
use connect::net::gateway::Protocol;
use hyper::header::{CACHE_CONTROL, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Request, StatusCode};

use super::answer::{Answer, bytes, refused};
use super::{Peer, Port};
use crate::access::{Admission, Asked, Turned};
use crate::connections::Connection;
use crate::gateway::Found;
use crate::model::Operation;
use crate::plan::Denied;
use crate::token::{Credentials, Ended};

/// Lets a client through, or says why not. What it has shown is then taken out of the request, so that neither a
/// backend nor an app sees it. `stream`: it is a connection, which is counted and listed as long as it lives.
pub(super) async fn admit<B>(
    request: &mut Request<B>,
    operation: &Operation,
    found: &Found,
    stream: Option<Protocol>,
    port: &Port,
    peer: &Peer,
) -> Result<Admission, Box<Answer>> {
    let (topic, _) = &found.served.topics[found.topic];
    let now = SystemTime::now();
    // The parts are taken out so that nothing of the body, which no thread may share, is held while it waits.
    let headers = std::mem::take(request.headers_mut());
    let uri = request.uri().clone();
    let asked = Asked {
        api: &found.served.api,
        topic: topic.address(),
        operation,
        headers: &headers,
        query: uri.query(),
        address: peer.address().ip(),
    };
    let admitted = port
        .gateway
        .access
        .admit(&asked, stream.is_some(), now)
        .await;
    *request.headers_mut() = headers;
    if operation.is_secured {
        Credentials::from_request(request.headers(), None).strip(request.headers_mut());
    }
    let admitted = admitted.map(|mut admission| {
        if let Some(protocol) = stream {
            let who = admission.principal();
            admission.entered = Some(port.gateway.connections().enter(Connection {
                id: 0,
                api: crate::access::id_of(&found.served.api),
                topic: topic.address.filled(&found.values),
                protocol,
                peer: peer.address(),
                application: who.as_ref().and_then(|who| who.application.clone()),
                user: who.map(|who| who.subject.clone()),
                since: now,
            }));
        }
        admission
    });
    admitted.map_err(|turned| {
        let counts = &port.gateway.counts.refused;
        match &turned {
            Turned::Refused(_) => counts.access.add(1),
            Turned::Throttled(_) => counts.throttled.add(1),
        }
        Box::new(answer(&turned, now))
    })
}

/// The answer to who is not let in.
pub(super) fn answer(turned: &Turned, now: SystemTime) -> Answer {
    let body = format!("{}\n", turned.body(now));
    let mut answer = bytes(turned.status(), "application/json", body);
    turned.add_headers(answer.headers_mut(), now);
    answer
}

/// The keys by which the tokens of the server's own issuer are checked.
pub(super) fn token_keys(port: &Port) -> Answer {
    let keys = port.gateway.access.mint().jwks();
    bytes(StatusCode::OK, "application/jwk-set+json", keys)
}

/// The server's own issuer: the answer to a form at `/token`.
pub(super) fn token(headers: &HeaderMap, form: &[u8], port: &Port) -> Answer {
    let granted = port.gateway.access.grant(headers, form, SystemTime::now());
    if !granted.status.is_success() {
        port.gateway.counts.refused.access.add(1);
    }
    let mut answer = bytes(granted.status, "application/json", granted.body);
    let into = answer.headers_mut();
    // Nobody on the way keeps a token (RFC 6749, 5.1).
    into.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(authenticate) = granted.authenticate {
        into.insert(WWW_AUTHENTICATE, HeaderValue::from_static(authenticate));
    }
    answer
}

/// The own issuer is asked by POST alone.
pub(super) fn no_form() -> Answer {
    let why = "POST a form with grant_type=client_credentials";
    refused(StatusCode::METHOD_NOT_ALLOWED, why)
}

/// What stands between a topic and a stream that was let in: its plan, and the end of its token.
pub(crate) struct Gate {
    admission: Arc<Admission>,
    /// `None`: nothing can end it.
    ending: Option<Pin<Box<dyn Future<Output = Ended> + Send>>>,
    denied: Option<Denied>,
}

impl Gate {
    pub fn new(admission: Admission) -> Gate {
        let admission = Arc::new(admission);
        let own = Arc::clone(&admission);
        let ending = (!admission.is_endless()).then(|| {
            let ending: Pin<Box<dyn Future<Output = Ended> + Send>> =
                Box::pin(async move { own.ended().await });
            ending
        });
        Gate {
            admission,
            ending,
            denied: None,
        }
    }

    /// Does a plan count what it lets through?
    pub fn is_counted(&self) -> bool {
        self.admission.is_counted()
    }

    /// Lets a message of so many bytes through; after the first that is not, none.
    pub fn lets(&mut self, bytes: usize) -> bool {
        if self.denied.is_none() {
            self.denied = self.admission.take(bytes, SystemTime::now()).err();
        }
        self.denied.is_none()
    }

    /// The limit that has stopped it.
    pub fn denied(&self) -> Option<&Denied> {
        self.denied.as_ref()
    }

    /// Why the stream must end now, if it must.
    pub fn poll_ended(&mut self, context: &mut Context<'_>) -> Option<Ended> {
        match self.ending.as_mut()?.as_mut().poll(context) {
            Poll::Ready(ended) => {
                self.ending = None;
                Some(ended)
            }
            Poll::Pending => None,
        }
    }
}

/// For clients.
pub(super) fn reason(ended: Ended) -> &'static str {
    match ended {
        Ended::Expired => "expired",
        Ended::Revoked => "revoked",
        Ended::Duration => "duration",
    }
}

/// The last event of a stream whose plan has no room, and when to come back.
pub(super) fn throttled(denied: &Denied) -> Bytes {
    let now = SystemTime::now();
    let retry = denied.retry_after(now).saturating_mul(1000);
    format!(
        "retry: {retry}\nevent: throttled\ndata: {}\n\n",
        denied.body(now)
    )
    .into()
}
