//! The line below lapin: our own, so that a full app slows down the broker and a silent broker is
//! noticed.
//!
//! lapin reads as fast as a broker sends and buffers what has not been processed without a limit.
//! Here it is let read only while all that it has read was handed over. Promises: what lapin holds
//! is never more than one of its reads; a line that is cut ends lapin's thread. Never: a second
//! line.

use std::future::Future;
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

#[derive(Default)]
struct State {
    flow: Flow,
    /// One byte may pass where all else waits.
    is_breath_due: bool,
    reader: Option<Waker>,
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
        let reader = if flow == Flow::Shut {
            None
        } else {
            state.reader.take()
        };
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
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

    /// Lets one byte pass, so that lapin, which looks for keep-alives as well, takes no full app for
    /// a silent broker.
    pub fn breathe(&self) {
        let mut state = self.lock();
        state.is_breath_due = true;
        if let Some(reader) = state.reader.take() {
            reader.wake();
        }
    }

    /// How many bytes may be read now.
    fn poll_room(&self, context: &Context<'_>) -> Poll<io::Result<usize>> {
        let mut state = self.lock();
        match state.flow {
            Flow::Open => return Poll::Ready(Ok(usize::MAX)),
            Flow::Cut => return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())),
            Flow::Shut => {}
        }
        if std::mem::take(&mut state.is_breath_due) {
            return Poll::Ready(Ok(1));
        }
        state.reader = Some(context.waker().clone());
        Poll::Pending
    }

    /// A reader that waits for bytes must hear of a cut as well.
    fn wait(&self, context: &Context<'_>) {
        self.lock().reader = Some(context.waker().clone());
    }

    fn has_read(&self) {
        if self.lock().flow == Flow::Open {
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
            Poll::Pending => {
                this.tap.wait(context);
                return Poll::Pending;
            }
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

/// Where lapin's tasks run: on the worker that its connection was opened on.
#[derive(Clone, Debug)]
pub(super) struct Kit(pub Handle);

impl RuntimeKit for Kit {}

impl Executor for Kit {
    type Task<T: Send + 'static> = Spawned<T>;

    fn block_on<T, F: Future<Output = T>>(&self, work: F) -> T {
        self.0.block_on(work)
    }

    fn spawn<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
        &self,
        work: F,
    ) -> Task<Spawned<T>> {
        Spawned(self.0.spawn(work)).into()
    }

    fn spawn_blocking<T: Send + 'static, F: FnOnce() -> T + Send + 'static>(
        &self,
        work: F,
    ) -> Task<Spawned<T>> {
        Spawned(self.0.spawn_blocking(work)).into()
    }
}

impl Reactor for Kit {
    type TcpStream = Tapped;
    type Sleep = tokio::time::Sleep;

    /// Not asked for: the line is ours.
    fn register<H: io::Read + io::Write + Send + 'static>(
        &self,
        _: H,
    ) -> io::Result<impl AsyncRead + AsyncWrite + Send + Unpin + 'static> {
        Err::<Tapped, _>(io::ErrorKind::Unsupported.into())
    }

    fn sleep(&self, time: Duration) -> tokio::time::Sleep {
        let _inside = self.0.enter();
        tokio::time::sleep(time)
    }

    fn interval(&self, time: Duration) -> impl Stream<Item = Instant> + Send + 'static {
        let _inside = self.0.enter();
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
