//! The line below lapin: our own, so that a full app slows down the broker and a silent broker is
//! noticed.
//!
//! lapin reads as fast as a broker sends and buffers what has not been processed without a limit.
//! Here it is let read only while all that it has read was handed over. It also looks at its own clock
//! for the last byte that it read, and so would take a broker for lost that nobody listened to; its
//! timers end only after it has read something of late. Promises: what lapin holds is never more than
//! one of its reads; a line that is cut ends lapin's thread; [`Liveness`] alone says that a broker is
//! lost. Never: a second line.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use async_rs::traits::{Executor, Reactor, RuntimeKit};
use async_rs::util::{Task, TaskImpl};
use futures_util::Stream;
use futures_util::io::{AsyncRead, AsyncWrite};
use futures_util::stream::unfold;
use tokio::io::ReadBuf;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::nesting::Nesting;
use connect::net::{Line, Liveness};

/// What is known of a line, and whether it is read.
#[derive(Default)]
pub(super) struct Tap {
    pub liveness: Liveness,
    state: Mutex<State>,
}

struct State {
    flow: Flow,
    reader: Option<Waker>,
    /// One byte may pass where all else waits.
    is_breath_due: bool,
    /// Bytes were handed to lapin that it may not have noted yet.
    is_unnoted: bool,
    /// When lapin noted the last bytes.
    noted: Instant,
    /// How old they may be when lapin looks at its clock; `None` where it does not look.
    noted_age_max: Option<Duration>,
    /// A timer of lapin that waits for bytes.
    timer: Option<Waker>,
}

impl Default for State {
    fn default() -> State {
        State {
            flow: Flow::default(),
            reader: None,
            is_breath_due: false,
            is_unnoted: false,
            noted: Instant::now(),
            noted_age_max: None,
            timer: None,
        }
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Flow {
    #[default]
    Open,
    Shut,
    Cut,
}

impl Tap {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn(&self, flow: Flow) -> bool {
        let mut state = self.lock();
        if matches!(state.flow, Flow::Cut) || state.flow == flow {
            return false;
        }
        state.flow = flow;
        let reader = match flow {
            Flow::Shut => None,
            Flow::Open | Flow::Cut => state.reader.take(),
        };
        let timer = match flow {
            Flow::Cut => state.timer.take(),
            Flow::Open | Flow::Shut => None,
        };
        drop(state);
        for waker in [reader, timer].into_iter().flatten() {
            waker.wake();
        }
        true
    }

    /// Nothing is read until [`Tap::open`]; silence means nothing.
    pub fn shut(&self) {
        if self.turn(Flow::Shut) {
            self.liveness.deaf();
        }
    }

    pub fn open(&self) {
        if self.turn(Flow::Open) {
            self.liveness.heard();
        }
    }

    /// Ends the connection, whatever state it is in.
    pub fn cut(&self) {
        self.turn(Flow::Cut);
    }

    /// From now on lapin looks at its clock after each of its timers, and takes the broker for lost where
    /// it has read nothing for twice this heartbeat.
    pub fn has_heartbeat(&self, heartbeat: Duration) {
        self.lock().noted_age_max = Some(heartbeat);
    }

    /// Ends when lapin has read something of late. A tap that is shut lets one byte pass for that. It may
    /// not have read what is there when this process stood still, and there may be nothing yet when the
    /// broker stood still as well.
    fn poll_noted(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        let is_fresh = state
            .noted_age_max
            .is_none_or(|age_max| state.noted.elapsed() <= age_max);
        if is_fresh || state.flow == Flow::Cut {
            return Poll::Ready(());
        }
        state.timer = Some(context.waker().clone());
        state.is_breath_due = true;
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
        Poll::Pending
    }

    /// How many bytes may be read now.
    fn poll_room(&self, context: &Context<'_>) -> Poll<io::Result<usize>> {
        let mut state = self.lock();
        // lapin notes what it has read before it reads again.
        if std::mem::take(&mut state.is_unnoted) {
            state.noted = Instant::now();
            if let Some(timer) = state.timer.take() {
                timer.wake();
            }
        }
        match state.flow {
            Flow::Open => Poll::Ready(Ok(usize::MAX)),
            Flow::Cut => Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())),
            Flow::Shut if state.is_breath_due => Poll::Ready(Ok(1)),
            Flow::Shut => {
                state.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// A reader that waits for bytes must hear of a cut as well.
    fn poll_cut(&self, context: &Context<'_>) -> Poll<io::Result<usize>> {
        let mut state = self.lock();
        if state.flow == Flow::Cut {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        state.reader = Some(context.waker().clone());
        Poll::Pending
    }

    fn has_read(&self) {
        let mut state = self.lock();
        state.is_unnoted = true;
        state.is_breath_due = false;
        let is_open = state.flow == Flow::Open;
        drop(state);
        if is_open {
            self.liveness.heard();
        }
    }
}

/// A line to a broker as lapin reads and writes it.
pub(super) struct Tapped {
    line: Box<dyn Line>,
    tap: Arc<Tap>,
    nesting: Nesting,
}

impl Tapped {
    pub fn new(line: Box<dyn Line>, tap: Arc<Tap>) -> Tapped {
        Tapped {
            line,
            tap,
            nesting: Nesting::default(),
        }
    }
}

impl AsyncRead for Tapped {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let room = ready!(this.tap.poll_room(context))?.min(into.len());
        let mut into = ReadBuf::new(&mut into[..room]);
        match tokio::io::AsyncRead::poll_read(Pin::new(&mut this.line), context, &mut into) {
            Poll::Pending => return this.tap.poll_cut(context),
            Poll::Ready(read) => read?,
        }
        let read = into.filled();
        if !read.is_empty() {
            this.tap.has_read();
            this.nesting.feed(read).map_err(io::Error::other)?;
        }
        Poll::Ready(Ok(read.len()))
    }
}

impl AsyncWrite for Tapped {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        tokio::io::AsyncWrite::poll_write(Pin::new(&mut self.line), context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        tokio::io::AsyncWrite::poll_flush(Pin::new(&mut self.line), context)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        tokio::io::AsyncWrite::poll_shutdown(Pin::new(&mut self.line), context)
    }
}

/// Where the tasks of one connection run: on the worker that it was opened on.
#[derive(Clone)]
pub(super) struct Kit {
    pub worker: Handle,
    pub tap: Arc<Tap>,
}

impl fmt::Debug for Kit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kit").finish_non_exhaustive()
    }
}

impl RuntimeKit for Kit {}

impl Executor for Kit {
    type Task<T: Send + 'static> = Spawned<T>;

    fn block_on<T, F: Future<Output = T>>(&self, work: F) -> T {
        self.worker.block_on(work)
    }

    fn spawn<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
        &self,
        work: F,
    ) -> Task<Spawned<T>> {
        Spawned(self.worker.spawn(work)).into()
    }

    fn spawn_blocking<T: Send + 'static, F: FnOnce() -> T + Send + 'static>(
        &self,
        work: F,
    ) -> Task<Spawned<T>> {
        Spawned(self.worker.spawn_blocking(work)).into()
    }
}

impl Reactor for Kit {
    type TcpStream = Tapped;
    type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Not asked for: the line is ours.
    fn register<H: io::Read + io::Write + Send + 'static>(
        &self,
        _: H,
    ) -> io::Result<impl AsyncRead + AsyncWrite + Send + Unpin + 'static> {
        Err::<Tapped, _>(io::ErrorKind::Unsupported.into())
    }

    /// What lapin does next is to look at its clock.
    fn sleep(&self, time: Duration) -> Self::Sleep {
        let sleep = {
            let _inside = self.worker.enter();
            tokio::time::sleep(time)
        };
        let tap = Arc::clone(&self.tap);
        Box::pin(async move {
            sleep.await;
            poll_fn(|context| tap.poll_noted(context)).await;
        })
    }

    fn interval(&self, time: Duration) -> impl Stream<Item = Instant> + Send + 'static {
        let _inside = self.worker.enter();
        unfold(tokio::time::interval(time), |mut ticks| async move {
            Some((ticks.tick().await.into_std(), ticks))
        })
    }

    /// Not asked for: the line is ours.
    fn tcp_connect_addr(
        &self,
        _: SocketAddr,
    ) -> impl Future<Output = io::Result<Tapped>> + Send + 'static {
        std::future::ready(Err(io::ErrorKind::Unsupported.into()))
    }
}

pub(super) struct Spawned<T>(JoinHandle<T>);

impl<T: Send + 'static> TaskImpl for Spawned<T> {}

impl<T> Future for Spawned<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        match ready!(Pin::new(&mut self.0).poll(context)) {
            Ok(result) => Poll::Ready(result),
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The worker has stopped, and whoever waits with it.
            Err(_) => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use tokio::io::{AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::time::timeout;

    use super::*;

    const HEARTBEAT: Duration = Duration::from_millis(50);

    /// A heartbeat of AMQP.
    const BEAT: [u8; 8] = [8, 0, 0, 0, 0, 0, 0, 0xce];

    /// How often lapin is told that it can read.
    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    struct Lapin {
        line: Tapped,
        kit: Kit,
        woken: Arc<Woken>,
    }

    impl Lapin {
        /// It and the broker's end of its line.
        fn new() -> (DuplexStream, Lapin) {
            let (broker, line) = duplex(1 << 10);
            let tap = Arc::<Tap>::default();
            tap.has_heartbeat(HEARTBEAT);
            let lapin = Lapin {
                line: Tapped::new(Box::new(line), Arc::clone(&tap)),
                kit: Kit {
                    worker: Handle::current(),
                    tap,
                },
                woken: Arc::default(),
            };
            (broker, lapin)
        }

        /// Reads until it has to wait.
        fn read(&mut self) -> io::Result<usize> {
            let waker = Waker::from(Arc::clone(&self.woken));
            let (mut all, mut block) = (0, [0; 64]);
            loop {
                let mut context = Context::from_waker(&waker);
                match Pin::new(&mut self.line).poll_read(&mut context, &mut block) {
                    Poll::Ready(read) => all += read?,
                    Poll::Pending => return Ok(all),
                }
            }
        }

        /// A timer that ends while this process stands still.
        fn late_timer(&self) -> <Kit as Reactor>::Sleep {
            let timer = self.kit.sleep(HEARTBEAT / 2);
            let stood_still = Instant::now();
            while stood_still.elapsed() < 2 * HEARTBEAT {
                std::thread::yield_now();
            }
            timer
        }

        fn is_woken(&self) -> bool {
            self.woken.0.swap(0, Ordering::Relaxed) > 0
        }
    }

    #[tokio::test]
    async fn after_a_standstill_lapin_reads_before_it_looks_at_its_clock() {
        for is_full in [true, false] {
            let (mut broker, mut lapin) = Lapin::new();
            if is_full {
                lapin.kit.tap.shut();
            }
            assert_eq!(lapin.read().expect("it is open"), 0);
            let mut timer = lapin.late_timer();
            // The broker stood still as well.
            assert!(timeout(HEARTBEAT, &mut timer).await.is_err());
            assert!(lapin.is_woken());
            assert_eq!(lapin.read().expect("it is open"), 0);
            broker.write_all(&BEAT).await.expect("there is room");
            assert!(lapin.is_woken());
            let read = lapin.read().expect("it is open");
            assert_eq!(read, if is_full { 1 } else { BEAT.len() });
            timer.await;
        }
    }

    #[tokio::test]
    async fn a_timer_that_is_not_late_waits_for_nothing() {
        let (_broker, lapin) = Lapin::new();
        lapin.kit.tap.has_heartbeat(Duration::MAX);
        lapin.late_timer().await;
    }

    #[tokio::test]
    async fn a_cut_ends_reader_and_timer() {
        let (_broker, mut lapin) = Lapin::new();
        assert_eq!(lapin.read().expect("it is open"), 0);
        let mut timer = lapin.late_timer();
        assert!(timeout(HEARTBEAT, &mut timer).await.is_err());
        assert_eq!(lapin.read().expect("it is open"), 0);
        lapin.is_woken();
        lapin.kit.tap.cut();
        assert!(lapin.is_woken());
        lapin.read().expect_err("it is cut");
        timer.await;
    }
}
