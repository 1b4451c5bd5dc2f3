//! A time limit that is set often and met rarely.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// Limits one piece of work after the other to the same time. To set a timer for each costs more than the
/// work of a short request: there is one, which is moved when it has run out too early.
#[derive(Debug)]
pub struct Deadline {
    timeout: Option<Duration>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Deadline {
    pub fn new(timeout: Option<Duration>) -> Deadline {
        Deadline {
            timeout,
            timer: None,
        }
    }

    /// # Errors
    /// The work takes longer.
    pub async fn limit<T>(&mut self, work: impl Future<Output = T>) -> io::Result<T> {
        let Some(timeout) = self.timeout else {
            return Ok(work.await);
        };
        let mut work = pin!(work);
        let mut until = None;
        poll_fn(|context| {
            if let Poll::Ready(done) = work.as_mut().poll(context) {
                return Poll::Ready(Ok(done));
            }
            let until = *until.get_or_insert_with(|| Instant::now() + timeout);
            // Of an earlier piece of work it ends earlier, never later.
            let timer = self
                .timer
                .get_or_insert_with(|| Box::pin(sleep_until(until)));
            while timer.as_mut().poll(context).is_ready() {
                if Instant::now() >= until {
                    return Poll::Ready(Err(late(timeout)));
                }
                timer.as_mut().reset(until);
            }
            Poll::Pending
        })
        .await
    }
}

pub(super) fn late(timeout: Duration) -> io::Error {
    let waited = format!("no answer within {} ms", timeout.as_millis());
    io::Error::new(io::ErrorKind::TimedOut, waited)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_piece_of_work_has_the_whole_time() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut deadline = Deadline::new(Some(Duration::from_millis(60)));
            let begun = Instant::now();
            for _ in 0..3 {
                let work = tokio::time::sleep(Duration::from_millis(40));
                deadline.limit(work).await.unwrap();
            }
            assert!(begun.elapsed() >= Duration::from_millis(120));
            let begun = Instant::now();
            let late = deadline.limit(std::future::pending::<()>()).await;
            assert_eq!(late.unwrap_err().kind(), io::ErrorKind::TimedOut);
            assert!(begun.elapsed() >= Duration::from_millis(60));
            let work = tokio::time::sleep(Duration::from_millis(5));
            Deadline::new(None).limit(work).await.unwrap();
        });
    }
}
