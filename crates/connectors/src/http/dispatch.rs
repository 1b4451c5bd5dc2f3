//! Which network thread sends a request.
//!
//! A connection belongs to the thread that has opened it: a request that is sent by another thread
//! wakes two threads, once for the request and once for the answer. Promises: each thread has its
//! share of the requests that may be in flight, so that no more connections are open than requests
//! are allowed; requests that are handed over together wake their thread once. Never: an order
//! between requests; who needs one allows a single request in flight.

use std::sync::{Mutex, MutexGuard, PoisonError};

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

/// Requests that wait for a network thread to begin them. Never more than may be in flight.
pub(super) struct StartQueue<T> {
    handle: Handle,
    waiting: Mutex<Vec<T>>,
}

impl<T> StartQueue<T> {
    pub fn new(handle: Handle) -> StartQueue<T> {
        StartQueue {
            handle,
            waiting: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends. Is nothing else waiting, `begin` runs on the thread and [takes](StartQueue::take) what
    /// waits by then.
    pub fn push<F>(&self, request: T, begin: impl FnOnce() -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut waiting = self.lock();
        waiting.push(request);
        let is_first = waiting.len() == 1;
        drop(waiting);
        if is_first {
            self.handle.spawn(begin());
        }
    }

    pub fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.lock())
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn requests_that_come_together_are_begun_together() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let queue = StartQueue::new(runtime.handle().clone());
        let begun = std::cell::Cell::new(0);
        for number in 0..3 {
            queue.push(number, || {
                begun.set(begun.get() + 1);
                std::future::ready(())
            });
        }
        assert_eq!((begun.get(), queue.take()), (1, vec![0, 1, 2]));
        queue.push(3, || {
            begun.set(begun.get() + 1);
            std::future::ready(())
        });
        assert_eq!((begun.get(), queue.take()), (2, vec![3]));
    }
}
