//! How long a mail server is waited for, and what is said meanwhile.
//!
//! A server may take its time in good order: with a greeting that is to keep robots off, with the
//! verdict of a filter on a mail, with a search in a large folder. So a wait that is longer than usual
//! is said soon, and the server is given up much later.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

/// A server that has not answered by then is named.
const UNUSUAL: Duration = Duration::from_millis(2500);

/// Waits for what `peer` answers; `None`: it has not by its `limit`.
pub(super) async fn wait<T, E>(
    peer: &str,
    limit: Duration,
    answer: impl Future<Output = Result<T, E>>,
) -> Option<Result<T, E>> {
    wait_beyond(UNUSUAL, peer, limit, answer).await
}

async fn wait_beyond<T, E>(
    unusual: Duration,
    peer: &str,
    limit: Duration,
    answer: impl Future<Output = Result<T, E>>,
) -> Option<Result<T, E>> {
    let mut answer = pin!(tokio::time::timeout(limit, answer));
    if let Ok(answered) = tokio::time::timeout(unusual, &mut answer).await {
        return answered.ok();
    }
    let waited_ms = unusual.as_millis() as u64;
    let given_up_ms = limit.as_millis() as u64;
    tracing::error!(
        peer,
        waited_ms,
        given_up_ms,
        "mail server is not responding"
    );
    let answered = answer.await.ok();
    if let Some(Ok(_)) = &answered {
        tracing::info!(peer, "mail server is responding again");
    }
    answered
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With an answer after so many milliseconds, or none at all.
    fn check(takes: Option<u64>, limit: Duration, expect: Option<Result<u8, u8>>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let answer = async {
            match takes {
                Some(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
                None => std::future::pending().await,
            }
            expect.unwrap_or(Ok(0))
        };
        let unusual = Duration::from_millis(5);
        let waited = wait_beyond(unusual, "x", limit, answer);
        assert_eq!(runtime.block_on(waited), expect);
    }

    #[test]
    fn a_server_is_waited_for_until_its_limit() {
        const LONG: Duration = Duration::from_secs(600);
        check(Some(0), LONG, Some(Ok(1)));
        check(Some(0), LONG, Some(Err(2)));
        check(Some(30), LONG, Some(Ok(3)));
        check(Some(30), LONG, Some(Err(4)));
        check(None, Duration::from_millis(30), None);
        check(None, Duration::from_millis(1), None);
    }
}
