//! Time for what a client has begun to send: a head, a body, a frame.
//!
//! A port has places for so many connections, and a client that begins and does not go on holds one of
//! them. Promises: each wait has an end; when half of the places are taken, those who let the port wait
//! give way within [`CROWDED_GAP`], so that the other half stays for those who do not.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// On a crowded port: the longest wait for the next bytes of what has begun, and for the next head.
pub const CROWDED_GAP: Duration = Duration::from_secs(1);

/// On a crowded port: the longest time for the whole of what has begun.
pub const CROWDED_WHOLE: Duration = Duration::from_secs(10);

/// How long what a client has begun may take; `None`: for ever.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// Between two pieces of it.
    pub gap: Option<Duration>,
    /// For all of it.
    pub whole: Option<Duration>,
}

impl Default for Pace {
    /// A client that is alive sends something within 10 s (a lost packet is sent again within 3 s, and
    /// once more), and 64 MB within 2 minutes at 4.5 Mbit/s.
    fn default() -> Pace {
        Pace {
            gap: Some(Duration::from_secs(10)),
            whole: Some(Duration::from_secs(120)),
        }
    }
}

/// What was begun did not come in its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Late {
    /// No piece of it for so long.
    Gap(Duration),
    /// Not whole after so long.
    Whole(Duration),
    /// The same, while the port was crowded.
    Crowded(Duration),
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Late::Gap(time) => write!(f, "nothing came for {} ms", time.as_millis()),
            Late::Whole(time) => write!(f, "not complete after {} ms", time.as_millis()),
            Late::Crowded(time) => write!(
                f,
                "not complete after {} ms, and half of the port's connections are taken",
                time.as_millis()
            ),
        }
    }
}

impl std::error::Error for Late {}

/// The connections of a port.
pub struct Crowd {
    count: AtomicUsize,
    /// So many make it crowded.
    crowd: usize,
    is_crowded: watch::Sender<bool>,
}

/// One connection of a [`Crowd`], until dropped.
pub struct Place<'a>(&'a Crowd);

impl Crowd {
    /// A port that is full with `connections_max` of them.
    pub fn new(connections_max: u32) -> Crowd {
        Crowd {
            count: AtomicUsize::new(0),
            crowd: (connections_max as usize / 2).max(1),
            is_crowded: watch::Sender::new(false),
        }
    }

    pub fn enter(&self) -> Place<'_> {
        if self.count.fetch_add(1, Ordering::SeqCst) + 1 == self.crowd {
            self.tell();
        }
        Place(self)
    }

    /// Is half of the places taken?
    pub fn is_crowded(&self) -> bool {
        self.count.load(Ordering::SeqCst) >= self.crowd
    }

    /// Those who wait look again. The count is read under the lock, so that the last to tell is right.
    fn tell(&self) {
        self.is_crowded.send_if_modified(|told| {
            let now = self.is_crowded();
            std::mem::replace(told, now) != now
        });
    }

    /// Returns when the port is crowded and its connection has let it wait for [`CROWDED_GAP`], by what
    /// `waits` says of it: since when, or `None` where the port is not waiting.
    pub async fn gives_way(&self, waits: impl Fn() -> Option<Instant>) {
        let mut told = self.is_crowded.subscribe();
        loop {
            // Its sender lives as long as this.
            told.wait_for(|is_crowded| *is_crowded).await.ok();
            let now = Instant::now();
            let end = waits().unwrap_or(now) + CROWDED_GAP;
            if end <= now {
                return;
            }
            tokio::time::sleep_until(end).await;
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::SeqCst) == self.0.crowd {
            self.0.tell();
        }
    }
}

/// The time of one thing that a client has begun.
pub struct Clock {
    pace: Pace,
    begun: Instant,
    moved: Instant,
}

impl Clock {
    pub fn start(pace: Pace) -> Clock {
        let now = Instant::now();
        Clock {
            pace,
            begun: now,
            moved: now,
        }
    }

    /// Waits for the next piece, on a port with these connections.
    ///
    /// # Errors
    /// [`Late`], when it did not come in its time.
    pub async fn wait<T>(
        &mut self,
        crowd: &Crowd,
        piece: impl Future<Output = T>,
    ) -> Result<T, Late> {
        let mut piece = pin!(piece);
        // Mostly it is there, and needs neither timer nor watch.
        if let Poll::Ready(piece) =
            poll_fn(|context| Poll::Ready(piece.as_mut().poll(context))).await
        {
            self.moved = Instant::now();
            return Ok(piece);
        }
        let mut told = crowd.is_crowded.subscribe();
        loop {
            let is_crowded = *told.borrow_and_update();
            let (end, late) = self.end(is_crowded);
            tokio::select! {
                biased;
                piece = piece.as_mut() => {
                    self.moved = Instant::now();
                    return Ok(piece);
                }
                () = until(end) => return Err(late),
                _ = told.changed() => {}
            }
        }
    }

    /// The time that passes is not that of the client: it is kept waiting by us.
    pub async fn stopped<T>(&mut self, ours: impl Future<Output = T>) -> T {
        let since = Instant::now();
        let done = ours.await;
        self.shift(since.elapsed());
        done
    }

    fn shift(&mut self, time: Duration) {
        self.begun += time;
        self.moved += time;
    }

    /// When the wait ends, and why.
    fn end(&self, is_crowded: bool) -> (Option<Instant>, Late) {
        let own = [
            (self.moved, self.pace.gap, Late::Gap as fn(Duration) -> Late),
            (self.begun, self.pace.whole, Late::Whole),
        ];
        let crowded = [
            (self.moved, Some(CROWDED_GAP), Late::Crowded as fn(_) -> _),
            (self.begun, Some(CROWDED_WHOLE), Late::Crowded),
        ];
        let crowded = crowded.into_iter().filter(|_| is_crowded);
        own.into_iter()
            .chain(crowded)
            .filter_map(|(since, time, late)| Some((since + time?, late(time?))))
            .min_by_key(|(end, _)| *end)
            .map_or((None, Late::Gap(Duration::MAX)), |(end, late)| {
                (Some(end), late)
            })
    }
}

async fn until(end: Option<Instant>) {
    match end {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(work: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap()
            .block_on(work);
    }

    const GAP: Duration = Duration::from_secs(2);
    const WHOLE: Duration = Duration::from_secs(20);
    const PACE: Pace = Pace {
        gap: Some(GAP),
        whole: Some(WHOLE),
    };

    /// A clock whose client sent its last piece `ago`, and its first `begun` ago.
    fn clock(pace: Pace, begun: Duration, ago: Duration) -> Clock {
        let now = Instant::now();
        Clock {
            pace,
            begun: now - begun,
            moved: now - ago,
        }
    }

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_wait_ends_by_what_comes_first_of_gap_and_whole() {
        let end = |clock: &Clock, is_crowded| clock.end(is_crowded).1;
        let fresh = clock(PACE, seconds(1), seconds(0));
        assert_eq!(end(&fresh, false), Late::Gap(GAP));
        assert_eq!(end(&fresh, true), Late::Crowded(CROWDED_GAP));
        assert_eq!(fresh.end(false).0, Some(fresh.moved + GAP));
        let old = clock(PACE, seconds(19), seconds(0));
        assert_eq!(end(&old, false), Late::Whole(WHOLE));
        assert_eq!(end(&old, true), Late::Crowded(CROWDED_WHOLE));
        let unbounded = Pace {
            gap: None,
            whole: None,
        };
        assert_eq!(
            clock(unbounded, seconds(99), seconds(99)).end(false).0,
            None
        );
    }

    #[test]
    fn time_of_our_own_is_not_that_of_the_client() {
        let mut clock = clock(PACE, seconds(19), seconds(1));
        let (begun, moved) = (clock.begun, clock.moved);
        clock.shift(seconds(5));
        assert_eq!(
            (clock.begun, clock.moved),
            (begun + seconds(5), moved + seconds(5))
        );
    }

    #[test]
    fn a_piece_that_is_there_is_taken_however_late() {
        run(async {
            let crowd = Crowd::new(8);
            let mut clock = clock(PACE, seconds(60), seconds(60));
            assert_eq!(clock.wait(&crowd, async { 1 }).await, Ok(1));
            assert!(clock.moved.elapsed() < seconds(60));
            clock.moved -= seconds(60);
            let never = std::future::pending::<()>();
            assert!(clock.wait(&crowd, never).await.is_err());
        });
    }

    #[test]
    fn on_a_crowded_port_who_lets_it_wait_gives_way() {
        run(async {
            let crowd = Crowd::new(2);
            let mut clock = clock(Pace::default(), CROWDED_GAP, CROWDED_GAP);
            let place = crowd.enter();
            assert!(crowd.is_crowded());
            let late = clock.wait(&crowd, std::future::pending::<()>()).await;
            assert_eq!(late, Err(Late::Crowded(CROWDED_GAP)));
            let since = Instant::now() - CROWDED_GAP;
            crowd.gives_way(|| Some(since)).await;
            drop(place);
            assert!(!crowd.is_crowded());
            let mut never = pin!(crowd.gives_way(|| Some(since)));
            let first = poll_fn(|context| Poll::Ready(never.as_mut().poll(context))).await;
            assert!(first.is_pending());
        });
    }
}
