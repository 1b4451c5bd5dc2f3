//! Which network thread sends a request.
//!
//! A connection belongs to the thread that has opened it: a request that is sent by another thread
//! wakes two threads, once for the request and once for the answer. Promises: each thread has its
//! share of the requests that may be in flight, so that no more connections are open than requests
//! are allowed; requests that are handed over together wake their thread once. Never: an order
//! between requests; who needs one allows a single request in flight.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use tokio::runtime::Handle;

/// Requests in flight, by thread.
#[derive(Default)]
pub(super) struct Load(Vec<usize>);

impl Load {
    pub fn total(&self) -> usize {
        self.0.iter().sum()
    }

    /// One more request on the least busy of `threads` threads whose share of `max` has room; `None`
    /// if `max` are in flight.
    pub fn enter(&mut self, threads: usize, max: usize) -> Option<usize> {
        self.0.resize(threads.max(self.0.len()), 0);
        let used = threads.min(max).max(1);
        let share = |thread: usize| max / used + usize::from(thread < max % used);
        let open = (0..used).filter(|&thread| self.0[thread] < share(thread));
        let thread = open.min_by_key(|&thread| self.0[thread])?;
        self.0[thread] += 1;
        Some(thread)
    }

    /// As [`Load::enter`], whatever the shares are.
    pub fn enter_always(&mut self, threads: usize) -> usize {
        self.0.resize(threads.max(self.0.len()).max(1), 0);
        let all = 0..self.0.len();
        let thread = all.min_by_key(|&thread| self.0[thread]).unwrap_or_default();
        self.0[thread] += 1;
        thread
    }

    pub fn leave(&mut self, thread: usize) {
        self.0[thread] -= 1;
    }
}

/// Requests that wait for a network thread, and the tasks of that thread that send them.
///
/// A task sends one request after the other and then rests, since a task for each request would cost more than
/// the request. One of them at a time is called to look; it calls the next one if more requests wait.
/// Never more requests than may be in flight, nor more tasks.
pub(super) struct SendQueue<T> {
    handle: Handle,
    state: Mutex<State<T>>,
}

struct State<T> {
    waiting: VecDeque<T>,
    resting: Vec<(usize, Waker)>,
    /// Tasks that were called and have not looked yet.
    called: usize,
    /// The number of the next task.
    next: usize,
    /// Tasks end when they find nothing.
    is_dismissed: bool,
}

/// Who has to be called.
enum Call {
    Nobody,
    Resting(Waker),
    New,
}

impl<T> State<T> {
    fn call(&mut self) -> Call {
        if self.waiting.is_empty() || self.called > 0 {
            return Call::Nobody;
        }
        self.called += 1;
        match self.resting.pop() {
            Some((_, waker)) => Call::Resting(waker),
            None => Call::New,
        }
    }
}

impl<T> SendQueue<T> {
    pub fn new(handle: Handle) -> SendQueue<T> {
        SendQueue {
            handle,
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                resting: Vec::new(),
                called: 0,
                next: 0,
                is_dismissed: false,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends. If all tasks are busy, there is one more, whose work `send` makes.
    pub fn push<F>(&self, request: T, send: impl FnOnce() -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut state = self.lock();
        state.is_dismissed = false;
        state.waiting.push_back(request);
        let call = state.call();
        drop(state);
        self.make(call, send);
    }

    fn make<F>(&self, call: Call, send: impl FnOnce() -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        match call {
            Call::Nobody => {}
            Call::Resting(waker) => waker.wake(),
            Call::New => _ = self.handle.spawn(send()),
        }
    }

    /// Moves the next request to `into`, which is empty, for a task that has just begun or has sent its last
    /// ones; and up to `count` that wait behind it as long as they may go with it. False: the task is to end.
    pub async fn next<F>(
        &self,
        task: &mut Task,
        into: &mut Vec<T>,
        (count, goes_with): (usize, impl Fn(&T, &T) -> bool),
        send: impl Fn() -> F,
    ) -> bool
    where
        F: Future<Output = ()> + Send + 'static,
    {
        poll_fn(|context| {
            let mut state = self.lock();
            let is_called = match task.0 {
                Place::Called => true,
                Place::Busy => false,
                Place::Resting(number) => {
                    let resting = state.resting.iter().position(|(n, _)| *n == number);
                    resting.map(|at| state.resting.swap_remove(at)).is_none()
                }
                Place::Gathering => true,
            };
            if is_called && count > 1 && !matches!(task.0, Place::Gathering) {
                // What is handed over in this turn of the loop goes along.
                task.0 = Place::Gathering;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            state.called -= usize::from(is_called);
            task.0 = Place::Busy;
            if let Some(first) = state.waiting.pop_front() {
                into.push(first);
                while into.len() < count
                    && let Some(more) = state.waiting.pop_front_if(|more| goes_with(&into[0], more))
                {
                    into.push(more);
                }
                let call = state.call();
                drop(state);
                self.make(call, &send);
                return Poll::Ready(true);
            }
            if state.is_dismissed {
                return Poll::Ready(false);
            }
            let number = state.next;
            state.next = number.wrapping_add(1);
            state.resting.push((number, context.waker().clone()));
            task.0 = Place::Resting(number);
            Poll::Pending
        })
        .await
    }

    /// Tasks end as soon as they have nothing to send.
    pub fn dismiss(&self) {
        let mut state = self.lock();
        state.is_dismissed = true;
        let resting = std::mem::take(&mut state.resting);
        state.called += resting.len();
        drop(state);
        for (_, waker) in resting {
            waker.wake();
        }
    }
}

/// What a task was doing when it looked last.
#[derive(Default)]
pub(super) struct Task(Place);

#[derive(Default)]
enum Place {
    #[default]
    Called,
    /// Called, and lets others hand over more.
    Gathering,
    Busy,
    Resting(usize),
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn threads_share_what_is_allowed_in_flight() {
        for (threads, max) in [(1, 1), (2, 1), (2, 3), (4, 3), (2, 128)] {
            let mut load = Load::default();
            let mut on_thread = vec![0; threads];
            for _ in 0..max {
                on_thread[load.enter(threads, max).unwrap()] += 1;
            }
            assert_eq!(load.enter(threads, max), None, "{threads} threads, {max}");
            assert_eq!(load.total(), max);
            let (least, most) = (on_thread.iter().min(), on_thread.iter().max());
            assert!(most.unwrap() - least.unwrap() <= 1, "{on_thread:?}");
            load.leave(0);
            assert_eq!(load.enter(threads, max), Some(0));
        }
    }

    #[test]
    fn what_is_sent_again_passes_the_bound() {
        let mut load = Load::default();
        assert_eq!(load.enter(2, 1), Some(0));
        assert_eq!(load.enter_always(2), 1);
        assert_eq!(load.enter(2, 1), None);
    }

    type Sent = Arc<Mutex<Vec<Vec<u32>>>>;
    type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Sends what comes by `queue` to `sent`, odd and even numbers apart, each time after one turn of the loop.
    fn send(queue: Arc<SendQueue<u32>>, tasks: Arc<AtomicUsize>, sent: Sent, count: usize) -> Work {
        Box::pin(async move {
            tasks.fetch_add(1, Ordering::Relaxed);
            let (mut task, mut requests) = (Task::default(), Vec::new());
            let more = || {
                send(
                    Arc::clone(&queue),
                    Arc::clone(&tasks),
                    Arc::clone(&sent),
                    count,
                )
            };
            let together = |first: &u32, more: &u32| first % 2 == more % 2;
            while queue
                .next(&mut task, &mut requests, (count, together), more)
                .await
            {
                tokio::task::yield_now().await;
                sent.lock().unwrap().push(std::mem::take(&mut requests));
            }
            tasks.fetch_sub(1, Ordering::Relaxed);
        })
    }

    #[test]
    fn tasks_send_one_request_after_the_other_and_rest() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let queue = Arc::new(SendQueue::new(runtime.handle().clone()));
        let (tasks, sent) = (Arc::new(AtomicUsize::new(0)), Sent::default());
        let settle = || {
            runtime.block_on(async {
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
            });
        };
        let push = |numbers: std::ops::Range<u32>| {
            for number in numbers {
                let work = || send(Arc::clone(&queue), Arc::clone(&tasks), Arc::clone(&sent), 1);
                queue.push(number, work);
            }
        };
        push(0..3);
        settle();
        let count = || tasks.load(Ordering::Relaxed);
        assert_eq!((count(), sent.lock().unwrap().len()), (3, 3));
        // The same tasks again, and not more than are needed.
        push(3..5);
        settle();
        assert_eq!((count(), sent.lock().unwrap().len()), (3, 5));
        push(5..12);
        settle();
        assert_eq!(sent.lock().unwrap().len(), 12);
        assert!(count() <= 7, "{}", count());
        queue.dismiss();
        settle();
        assert_eq!(count(), 0);
        push(12..13);
        settle();
        assert_eq!((count(), sent.lock().unwrap().len()), (1, 13));
        let mut all = sent.lock().unwrap().concat();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..13));
        queue.dismiss();
        settle();
    }

    #[test]
    fn requests_that_go_with_each_other_are_taken_together() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let queue = Arc::new(SendQueue::new(runtime.handle().clone()));
        let (tasks, sent) = (Arc::new(AtomicUsize::new(0)), Sent::default());
        runtime.block_on(async {
            for number in [0, 2, 4, 6, 1, 3, 8] {
                queue.push(number, || {
                    send(Arc::clone(&queue), Arc::clone(&tasks), Arc::clone(&sent), 3)
                });
            }
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        });
        let mut all = sent.lock().unwrap().clone();
        all.sort_unstable();
        assert_eq!(all, [vec![0, 2, 4], vec![1, 3], vec![6], vec![8]]);
        queue.dismiss();
    }
}
