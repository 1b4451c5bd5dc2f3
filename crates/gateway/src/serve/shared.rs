//! One connection to a backend for all who hear an address: its events go into the ring of the address, which gives
//! them ids and keeps them for those who come back, whether the backend can or not.

use std::sync::Arc;
use std::time::Duration;

use connect::net::events::Parser;
use connect::net::gateway::Protocol;
use connect::net::http_client::AnswerBody;
use connect::retry::{Reminder, RetrySchedule, seconds};
use connect::url::Url;
use hyper::header::{HOST, HeaderMap, HeaderValue};

use super::backend::{NoStream, ask};
use crate::gateway::Gateway;
use crate::ring::Ring;
use crate::topic::TopicState;

/// How long a backend is listened to when nobody hears it any more: who comes back finds what he has missed.
const LINGER: Duration = Duration::from_secs(30);

/// Listens to the backend of an address, unless that is done already.
pub(super) fn ensure(gateway: &Arc<Gateway>, topic: &Arc<TopicState>, values: &[String], url: Url) {
    let Some(place) = topic.begin_upstream(values) else {
        return;
    };
    let Ok(ring) = topic.ring(Protocol::Sse, values) else {
        return;
    };
    let (gateway, name) = (Arc::clone(gateway), topic.name.clone());
    tokio::spawn(async move {
        let _place = place;
        let mut stopping = gateway.stopping();
        tokio::select! {
            () = listen(&gateway, &ring, &url, &name) => {}
            () = ring.deserted(LINGER) => {}
            _ = stopping.wait_for(|is_stopping| *is_stopping) => {}
        }
    });
}

async fn listen(gateway: &Gateway, ring: &Ring, url: &Url, topic: &str) {
    let mut retry = RetrySchedule::waiting();
    let mut reminder = Reminder::default();
    let mut last: Option<Arc<str>> = None;
    let mut was_lost = false;
    loop {
        let cause = match ask(gateway, url, headers(url), last.as_deref()).await {
            Ok(body) => {
                if was_lost {
                    tracing::info!(topic, "backend is back");
                    if last.is_none() {
                        // It cannot say what it sent meanwhile.
                        ring.note_gap();
                    }
                }
                retry.succeeded();
                reminder = Reminder::default();
                read(gateway, ring, body, &mut last).await
            }
            Err(NoStream::Status(status)) => format!("it answered {status}"),
            Err(NoStream::Other(kind)) => {
                format!("it answers with '{kind}', which is no stream of events")
            }
            Err(NoStream::Away(error)) => error.to_string(),
        };
        was_lost = true;
        let pause = retry.next_pause();
        if reminder.is_due(&cause) {
            gateway.counts.refused.backend.add(1);
            tracing::warn!(
                topic,
                cause,
                retry_s = seconds(pause),
                "backend lost; clients stay connected"
            );
        }
        tokio::time::sleep(pause).await;
    }
}

fn headers(url: &Url) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Ok(host) = HeaderValue::from_str(&url.host_header()) {
        headers.insert(HOST, host);
    }
    headers
}

/// Takes what comes until the stream ends; why it does.
async fn read(
    gateway: &Gateway,
    ring: &Ring,
    mut body: AnswerBody,
    last: &mut Option<Arc<str>>,
) -> String {
    let mut parser = Parser::behind(last.clone());
    let mut events = Vec::new();
    loop {
        let piece = match body.piece().await {
            Ok(Some(piece)) => piece,
            Ok(None) => return "it has ended the stream".to_owned(),
            Err(error) => return error.to_string(),
        };
        let fed = parser.feed(&piece, &mut events);
        for event in events.drain(..) {
            ring.publish(&event.data.into(), true, &event.kind).await;
            gateway.counts.published.add(1);
            *last = event.id;
        }
        if let Err(cause) = fed {
            return cause;
        }
    }
}
