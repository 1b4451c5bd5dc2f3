//! Bodies of answers: whole ones, the events of a ring, and those of a backend.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use connect::net::Outgoing;
use connect::retry::jittered;
use http_body_util::Full;
use hyper::body::{Body as HttpBody, Frame};
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, interval_at};

use super::access::{Gate, reason, throttled};
use crate::gateway::Gateway;
use crate::ring::{End, Reader, Step};

/// Bytes of events that are written at once.
const BATCH_BYTES: usize = 16 << 10;

/// Clients that come back after a stop are spread over this time, and come no sooner than the server may be there.
const RETURN_MAX: Duration = Duration::from_secs(10);
const RETURN_MIN_MS: u64 = 500;

/// A line that says nothing but that the stream is there.
const BEAT: &[u8] = b":\n\n";

pub(crate) enum Body {
    Full(Full<Bytes>),
    Events(Box<Events>),
    Piped(Box<Piped>),
}

impl Body {
    pub fn is_stream(&self) -> bool {
        !matches!(self, Body::Full(_))
    }

    /// What of a stream is written next; `None`: it has ended.
    pub fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        match self {
            // It is no stream.
            Body::Full(_) => Poll::Ready(None),
            Body::Events(events) => events.poll_piece(context),
            Body::Piped(piped) => piped.poll_piece(context),
        }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Body::Full(full) => Pin::new(full).poll_frame(context),
            stream => {
                let piece = ready!(stream.poll_piece(context));
                Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Full(full) if full.is_end_stream())
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match self {
            Body::Full(full) => full.size_hint(),
            _ => hyper::body::SizeHint::default(),
        }
    }
}

/// One that counts as a stream while it lasts.
struct Counted(Arc<Gateway>);

impl Counted {
    fn new(gateway: &Arc<Gateway>) -> Counted {
        gateway.counts.sse.add(1);
        Counted(Arc::clone(gateway))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.counts.sse.sub(1);
    }
}

fn beat(every: Duration) -> Interval {
    // The first ones of many clients that came at once are spread, and with them all that follow.
    let first = tokio::time::Instant::now() + jittered(every);
    let mut beat = interval_at(first, every);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beat
}

/// The events of a ring, from a cursor on.
pub(crate) struct Events {
    reader: Reader,
    gate: Gate,
    outgoing: Arc<Outgoing>,
    beat: Interval,
    is_begun: bool,
    is_done: bool,
    counted: Counted,
    /// For messages.
    topic: String,
    peer: std::net::SocketAddr,
}

impl Events {
    pub fn new(
        gateway: &Arc<Gateway>,
        reader: Reader,
        gate: Gate,
        peer: &super::Peer,
        every: Duration,
        topic: &str,
    ) -> Events {
        peer.outgoing.begin();
        Events {
            reader,
            gate,
            outgoing: Arc::clone(&peer.outgoing),
            beat: beat(every),
            is_begun: false,
            is_done: false,
            counted: Counted::new(gateway),
            topic: topic.to_owned(),
            peer: peer.address(),
        }
    }

    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.is_done {
            return Poll::Ready(None);
        }
        if !std::mem::replace(&mut self.is_begun, true) {
            // At once, so that the client knows that it is connected.
            return Poll::Ready(Some(Bytes::from_static(BEAT)));
        }
        if let Some(ended) = self.gate.poll_ended(context) {
            self.is_done = true;
            return Poll::Ready(Some(end_of(reason(ended))));
        }
        ready!(self.outgoing.poll_room(context));
        let mut pieces = Pieces::default();
        let mut entries = Vec::new();
        let is_counted = self.gate.is_counted();
        let counts = &self.counted.0.counts;
        let mut delivered = 0;
        let step = self.reader.poll_step(context, BATCH_BYTES, |entry| {
            if is_counted && !entry.is_gap {
                // The ring is locked here, and a plan may have to be noted on disk.
                entries.push((entry.sse.clone(), entry.message.payload().len()));
                return;
            }
            delivered += u64::from(!entry.is_gap);
            pieces.push(&entry.sse);
        });
        // The client comes back behind the last one that it got.
        for (sse, len) in entries {
            if self.gate.lets(len) {
                delivered += 1;
                pieces.push(&sse);
            }
        }
        let piece = match step {
            Poll::Ready(Step::Events) => {
                counts.delivered.add(delivered);
                self.beat.reset();
                if let Some(denied) = self.gate.denied() {
                    counts.refused.throttled.add(1);
                    self.is_done = true;
                    pieces.push(&throttled(denied));
                }
                pieces.take()
            }
            Poll::Ready(Step::Gap { missed, earliest }) => {
                counts.gaps.add(1);
                let missed = missed.map_or_else(|| "null".to_owned(), |count| count.to_string());
                let earliest = earliest.map_or_else(|| "null".to_owned(), |id| format!("\"{id}\""));
                let data = format!("{{\"missed\":{missed},\"earliest\":{earliest}}}");
                format!("event: gap\ndata: {data}\n\n").into()
            }
            Poll::Ready(Step::End(End::Slow)) => {
                counts.slow.add(1);
                tracing::warn!(
                    topic = self.topic,
                    peer = %self.peer,
                    "disconnecting client: it reads too slowly"
                );
                self.is_done = true;
                // Nobody will read what waits for it.
                self.outgoing.cut();
                return Poll::Ready(None);
            }
            Poll::Ready(Step::End(end)) => {
                self.is_done = true;
                end_of(end.reason())
            }
            Poll::Pending => {
                ready!(self.beat.poll_tick(context));
                Bytes::from_static(BEAT)
            }
        };
        self.outgoing.give(piece.len());
        Poll::Ready(Some(piece))
    }
}

/// The last event of a stream: why it ends, and when to come back.
pub(super) fn end_of(reason: &str) -> Bytes {
    let spread = RETURN_MAX.saturating_sub(jittered(RETURN_MAX)) * 5;
    let retry = RETURN_MIN_MS + u64::try_from(spread.as_millis()).unwrap_or_default();
    format!("retry: {retry}\nevent: end\ndata: {{\"reason\":\"{reason}\"}}\n\n").into()
}

/// Several pieces as one, copied only where there is more than one.
#[derive(Default)]
struct Pieces {
    first: Bytes,
    all: BytesMut,
}

impl Pieces {
    fn push(&mut self, piece: &Bytes) {
        if self.first.is_empty() && self.all.is_empty() {
            self.first = piece.clone();
            return;
        }
        if self.all.is_empty() {
            self.all.reserve(BATCH_BYTES);
            self.all.extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.all.extend_from_slice(piece);
    }

    fn take(self) -> Bytes {
        match self.all.is_empty() {
            true => self.first,
            false => self.all.freeze(),
        }
    }
}

/// What a task reads from a backend, event by event.
pub(crate) struct Piped {
    events: mpsc::Receiver<Bytes>,
    outgoing: Arc<Outgoing>,
    beat: Interval,
    is_begun: bool,
    _counted: Counted,
}

impl Piped {
    pub fn new(
        gateway: &Arc<Gateway>,
        events: mpsc::Receiver<Bytes>,
        peer: &super::Peer,
        every: Duration,
    ) -> Piped {
        peer.outgoing.begin();
        Piped {
            events,
            outgoing: Arc::clone(&peer.outgoing),
            beat: beat(every),
            is_begun: false,
            _counted: Counted::new(gateway),
        }
    }

    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if !std::mem::replace(&mut self.is_begun, true) {
            return Poll::Ready(Some(Bytes::from_static(BEAT)));
        }
        ready!(self.outgoing.poll_room(context));
        let piece = match self.events.poll_recv(context) {
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Ready(Some(piece)) => {
                self.beat.reset();
                piece
            }
            Poll::Pending => {
                ready!(self.beat.poll_tick(context));
                Bytes::from_static(BEAT)
            }
        };
        self.outgoing.give(piece.len());
        Poll::Ready(Some(piece))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // rules: E17
    #[test]
    fn clients_come_back_spread_over_a_time() {
        let retry = || {
            let text = String::from_utf8(end_of("restart").to_vec()).expect("it is text");
            let line = text.lines().next().unwrap_or_default().to_owned();
            assert!(
                text.ends_with("event: end\ndata: {\"reason\":\"restart\"}\n\n"),
                "{text}"
            );
            line.strip_prefix("retry: ")
                .and_then(|ms| ms.parse::<u64>().ok())
                .expect("it says")
        };
        let all: Vec<u64> = (0..1000).map(|_| retry()).collect();
        let within = |from: u64, to: u64| all.iter().filter(|ms| (from..to).contains(ms)).count();
        assert_eq!(within(500, 10_501), 1000);
        for second in 0..10 {
            let from = 500 + second * 1000;
            assert!(
                within(from, from + 1000) > 40,
                "{second}: {}",
                within(from, from + 1000)
            );
        }
    }
}
