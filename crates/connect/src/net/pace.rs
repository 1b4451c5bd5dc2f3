//! Time for what a client has begun to send: a head, a body, a frame.
//!
//! A port has places for so many connections, and a client that begins and does not go on holds one of
//! them. Promises: each wait has an end; when half of the places are taken, those who let the port wait
//! give way within [`CROWDED_GAP`], so that the other half stays for those who do not; when all are
//! taken, within [`FULL_GAP`].

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// On a crowded port: the longest wait for the next bytes of what has begun, and for the next head.
pub const CROWDED_GAP: Duration = Duration::from_secs(1);

/// The same on a port without a free place: a new client is kept waiting no longer than this.
pub const FULL_GAP: Duration = Duration::from_millis(100);

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

/// How many of the places of a port are taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Level {
    Loose,
    /// Half of them.
    Crowded,
    Full,
}

impl Level {
    /// How long a client may let the port wait.
    fn gap(self) -> Option<Duration> {
        match self {
            Level::Loose => None,
            Level::Crowded => Some(CROWDED_GAP),
            Level::Full => Some(FULL_GAP),
        }
    }
}

/// The connections of a port.
pub struct Crowd {
    count: AtomicUsize,
    /// So many make it crowded, and so many full.
    bounds: [Bound; 2],
    level: watch::Sender<Level>,
}

/// A level begins with so many connections, and lasts until a part of them has gone: whoever waits is
/// woken by each change, which clients must not be able to make with every connection.
#[derive(Clone, Copy, Debug)]
struct Bound {
    level: Level,
    begins: usize,
    ends: usize,
}

impl Bound {
    fn new(level: Level, begins: usize) -> Bound {
        Bound {
            level,
            begins,
            ends: (begins - begins / 8).min(begins - 1),
        }
    }
}

/// One connection of a [`Crowd`], until dropped.
pub struct Place<'a>(&'a Crowd);

impl Crowd {
    /// A port that is full with `connections_max` of them.
    pub fn new(connections_max: u32) -> Crowd {
        let max = (connections_max as usize).max(1);
        Crowd {
            count: AtomicUsize::new(0),
            bounds: [
                Bound::new(Level::Crowded, (max / 2).max(1)),
                Bound::new(Level::Full, max),
            ],
            level: watch::Sender::new(Level::Loose),
        }
    }

    pub fn enter(&self) -> Place<'_> {
        let count = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        if self.bounds.iter().any(|bound| bound.begins == count) {
            self.tell();
        }
        Place(self)
    }

    /// Is half of the places taken?
    pub fn is_crowded(&self) -> bool {
        *self.level.borrow() >= Level::Crowded
    }

    /// Those who wait look again. The count is read under the lock, so that the last to tell is right.
    fn tell(&self) {
        self.level.send_if_modified(|told| {
            let count = self.count.load(Ordering::SeqCst);
            let lasts = |bound: &&Bound| {
                count >= bound.begins || (*told >= bound.level && count > bound.ends)
            };
            let now = self.bounds.iter().filter(lasts).map(|bound| bound.level);
            let now = now.max().unwrap_or(Level::Loose);
            std::mem::replace(told, now) != now
        });
    }

    /// Returns when the port is crowded and its connection has let it wait for too long, by what `waits`
    /// says of it: since when, or `None` where the port is not waiting.
    pub async fn gives_way(&self, waits: impl Fn() -> Option<Instant>) {
        let mut told = self.level.subscribe();
        loop {
            // Its sender lives as long as this.
            told.wait_for(|level| *level > Level::Loose).await.ok();
            let gap = told.borrow_and_update().gap().unwrap_or(CROWDED_GAP);
            let now = Instant::now();
            // One that is served is looked at again, not each time that another might give way.
            let end = waits().map_or(now + CROWDED_GAP, |since| since + gap);
            if end <= now {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep_until(end) => {}
                _ = told.changed() => {}
            }
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let count = self.0.count.fetch_sub(1, Ordering::SeqCst) - 1;
        if self.0.bounds.iter().any(|bound| bound.ends == count) {
            self.0.tell();
        }
    }
}

/// Since when the port waits for a connection: for its first request, or the next one.
pub struct Idle(Mutex<Waiting>);

struct Waiting {
    since: Instant,
    /// Requests that are served.
    served: usize,
}

/// A request that is served, until dropped.
pub struct Busy<'a>(&'a Idle);

impl Default for Idle {
    fn default() -> Idle {
        Idle(Mutex::new(Waiting {
            since: Instant::now(),
            served: 0,
        }))
    }
}

impl Idle {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None`: a request is served.
    pub fn since(&self) -> Option<Instant> {
        let waiting = self.lock();
        (waiting.served == 0).then_some(waiting.since)
    }

    /// The client has sent something.
    pub fn moved(&self) {
        self.lock().since = Instant::now();
    }

    /// A request has come.
    pub fn serve(&self) -> Busy<'_> {
        self.begin();
        Busy(self)
    }

    /// As [`Idle::serve`] for who holds no borrow, until [`Idle::end`].
    pub fn begin(&self) {
        self.lock().served += 1;
    }

    /// What was begun by [`Idle::begin`] is answered.
    pub fn end(&self) {
        let mut waiting = self.lock();
        waiting.served = waiting.served.saturating_sub(1);
        waiting.since = Instant::now();
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.end();
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
        let mut told = crowd.level.subscribe();
        loop {
            let level = *told.borrow_and_update();
            let (end, late) = self.end(level);
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
    fn end(&self, level: Level) -> (Option<Instant>, Late) {
        let own = [
            (self.moved, self.pace.gap, Late::Gap as fn(Duration) -> Late),
            (self.begun, self.pace.whole, Late::Whole),
        ];
        let crowded = [
            (self.moved, level.gap(), Late::Crowded as fn(_) -> _),
            (self.begun, Some(CROWDED_WHOLE), Late::Crowded),
        ];
        let crowded = crowded.into_iter().filter(|_| level > Level::Loose);
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
        let end = |clock: &Clock, level| clock.end(level).1;
        let fresh = clock(PACE, seconds(1), seconds(0));
        assert_eq!(end(&fresh, Level::Loose), Late::Gap(GAP));
        assert_eq!(end(&fresh, Level::Crowded), Late::Crowded(CROWDED_GAP));
        assert_eq!(end(&fresh, Level::Full), Late::Crowded(FULL_GAP));
        assert_eq!(fresh.end(Level::Loose).0, Some(fresh.moved + GAP));
        let old = clock(PACE, seconds(19), seconds(0));
        assert_eq!(end(&old, Level::Loose), Late::Whole(WHOLE));
        assert_eq!(end(&old, Level::Crowded), Late::Crowded(CROWDED_WHOLE));
        let unbounded = Pace {
            gap: None,
            whole: None,
        };
        assert_eq!(
            clock(unbounded, seconds(99), seconds(99))
                .end(Level::Loose)
                .0,
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
    fn a_level_lasts_until_a_part_of_those_who_made_it_has_gone() {
        let crowd = Crowd::new(64);
        let level = || *crowd.level.borrow();
        let mut places: Vec<Place<'_>> = (0..31).map(|_| crowd.enter()).collect();
        assert_eq!(level(), Level::Loose);
        places.push(crowd.enter());
        assert_eq!(level(), Level::Crowded);
        let told = crowd.level.subscribe();
        for _ in 0..9 {
            places.pop();
            places.push(crowd.enter());
        }
        assert!(!told.has_changed().unwrap(), "nobody was woken");
        places.extend((0..32).map(|_| crowd.enter()));
        assert_eq!(level(), Level::Full);
        places.truncate(57);
        assert_eq!(level(), Level::Full);
        places.truncate(56);
        assert_eq!(level(), Level::Crowded);
        places.truncate(28);
        assert_eq!(level(), Level::Loose);
        places.clear();
        assert_eq!(level(), Level::Loose);
    }

    #[test]
    fn a_connection_is_waited_for_while_none_of_its_requests_is_served() {
        let idle = Idle::default();
        let first = idle.since().unwrap();
        let one = idle.serve();
        idle.begin();
        drop(one);
        assert_eq!(idle.since(), None);
        idle.end();
        assert!(idle.since().unwrap() >= first);
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
