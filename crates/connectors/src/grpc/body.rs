//! The body of a call as it comes: a message that has begun has its time.
//!
//! Messages of gRPC have a byte of flags and four of length in front. A call may stay silent between two
//! messages for as long as it likes, not within one. What a message holds of the server's budget goes on
//! with it, by [`Complete`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Body, Frame, Incoming};
use tonic::Status;

use super::ports::Port;
use connect::arrivals::Account;
use connect::net::{Clock, Idle, Late, Pace};

/// Bytes in front of a message.
const PREFIX_BYTES: usize = 5;

/// Where in its messages a body is.
#[derive(Default)]
struct Framing {
    /// What of a prefix has come.
    prefix: Vec<u8>,
    /// Bytes that the message still has to come.
    left: usize,
}

impl Framing {
    /// Bytes have come; true: a message ended in them.
    fn pass(&mut self, mut data: &[u8]) -> bool {
        let mut has_ended = false;
        while !data.is_empty() {
            let skipped = self.left.min(data.len());
            data = &data[skipped..];
            if self.left > 0 {
                self.left -= skipped;
                has_ended |= self.left == 0;
                continue;
            }
            let wanted = (PREFIX_BYTES - self.prefix.len()).min(data.len());
            self.prefix.extend_from_slice(&data[..wanted]);
            data = &data[wanted..];
            if let [_, length @ ..] = self.prefix.as_slice()
                && let Ok(length) = length.try_into()
            {
                self.left = u32::from_be_bytes(length) as usize;
                has_ended |= self.left == 0;
                self.prefix.clear();
            }
        }
        has_ended
    }

    fn is_inside(&self) -> bool {
        self.left > 0 || !self.prefix.is_empty()
    }
}

/// What complete messages of a call hold, until they are given to their source.
#[derive(Clone, Default)]
pub(super) struct Complete(Arc<Mutex<Option<Account>>>);

impl Complete {
    fn lock(&self) -> MutexGuard<'_, Option<Account>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, account: Account) {
        let mut all = self.lock();
        match &mut *all {
            Some(all) => all.absorb(account),
            none => *none = Some(account),
        }
    }

    /// What the messages hold that have come since the last time.
    pub fn take(&self) -> Option<Account> {
        self.lock().take()
    }
}

struct Reading {
    body: Incoming,
    port: Arc<Port>,
    framing: Framing,
    /// That of the message that has begun.
    clock: Option<Clock>,
    /// Bytes of the message that has begun.
    account: Account,
    complete: Complete,
    /// Of its connection, which is busy as long as the call is open.
    idle: Arc<Idle>,
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.idle.end();
    }
}

impl Reading {
    fn unfit(&self) -> Status {
        let arrivals = &self.port.protocol.arrivals;
        arrivals.count_refused();
        Status::resource_exhausted(format!(
            "this server reads {} bytes at once at most (a quarter of --memory-limit)",
            arrivals.max()
        ))
    }

    async fn next(&mut self) -> Result<Option<Frame<Bytes>>, Status> {
        let frame = match &mut self.clock {
            None => self.body.frame().await,
            Some(clock) => match clock.wait(&self.port.crowd, self.body.frame()).await {
                Ok(frame) => frame,
                Err(late) => return Err(too_late(&self.port, late)),
            },
        };
        let Some(frame) = frame else {
            return Ok(None);
        };
        let frame = frame.map_err(|e| Status::from_error(Box::new(e)))?;
        if let Some(data) = frame.data_ref() {
            let has_ended = self.framing.pass(data);
            if has_ended {
                self.complete.add(self.account.hand_on());
            }
            if self.framing.is_inside() {
                let held = self.account.held() + data.len();
                if !self.account.fits(held) {
                    return Err(self.unfit());
                }
                self.account.hold(held).await;
            }
            if has_ended || !self.framing.is_inside() {
                self.clock = None;
            }
            if self.framing.is_inside() && self.clock.is_none() {
                self.clock = Some(Clock::start(Pace::default()));
            }
        }
        Ok(Some(frame))
    }
}

fn too_late(port: &Port, late: Late) -> Status {
    let limits = &port.protocol;
    limits.arrivals.count_late();
    if let Some(times) = limits.late.note() {
        tracing::warn!(
            times,
            cause = %late,
            "ending gRPC call: a message was begun and not completed in its time; the client has to \
             call again"
        );
    }
    Status::deadline_exceeded(format!("the message came too slowly: {late}"))
}

/// A body that ends with `DEADLINE_EXCEEDED` where a message does not come in its time, and holds what it
/// reads of the budget.
pub(super) fn timed(
    body: Incoming,
    port: Arc<Port>,
    idle: Arc<Idle>,
    complete: &Complete,
) -> impl Body<Data = Bytes, Error = Status> + Send + 'static {
    let account = port.protocol.arrivals.open();
    idle.begin();
    let reading = Reading {
        body,
        account,
        complete: complete.clone(),
        port,
        framing: Framing::default(),
        clock: None,
        idle,
    };
    StreamBody::new(stream::try_unfold(reading, |mut reading| async move {
        let next = reading.next().await?;
        Ok(next.map(|frame| (frame, reading)))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart_however_they_are_cut() {
        let bytes = b"\0\0\0\0\x02ab\0\0\0\0\0\x01\0\0\0\x01c";
        let ends = [7, 12, 18];
        for cut in 1..=bytes.len() {
            let mut framing = Framing::default();
            let mut passed = 0;
            for piece in bytes.chunks(cut) {
                let begun = passed;
                passed += piece.len();
                let has_ended = ends.iter().any(|end| (begun + 1..=passed).contains(end));
                assert_eq!(framing.pass(piece), has_ended, "{cut} {passed}");
                assert_eq!(
                    framing.is_inside(),
                    !ends.contains(&passed),
                    "{cut} {passed}"
                );
            }
        }
    }
}
