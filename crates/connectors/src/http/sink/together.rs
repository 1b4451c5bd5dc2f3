//! Requests that leave a connection together (`max.pipelined.requests`).
//!
//! Promises: each is judged as if it had gone alone; what the server has not looked at goes again at once. Never:
//! more requests in flight than without, nor one beside others that needs a token or takes long to write.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use connect::answer;
use connect::error::Error;
use connect::net::http_client::{COPIED_BYTES_MAX, WholeAnswer};
use connect::net::request_reply::Found;

use super::{ANSWER_BYTES_MAX, Answered, Job, Problem, Sender, Shared, Underway};
use super::{request, retry_after, text};

impl Shared {
    /// May others leave its connection with a request?
    pub(super) fn is_pipelined(&self, job: &Job) -> bool {
        let is_plain = self.oauth.is_none() && job.subscriber.is_none() && job.download.is_none();
        is_plain && job.sent.payload.len() <= COPIED_BYTES_MAX
    }

    /// Requests to one place on their way, counted in `flight`.
    pub(super) async fn send_together(
        self: &Arc<Shared>,
        jobs: &mut Vec<Job>,
        thread: usize,
        sender: &mut Sender,
    ) {
        while !jobs.is_empty() {
            let underway = self.call.as_ref().map(|call| {
                call.on_their_way.fetch_add(jobs.len(), Ordering::Relaxed);
                let all = jobs.iter().map(|_| Underway(&call.on_their_way));
                all.collect::<Vec<_>>()
            });
            let requests: Vec<_> = jobs.iter().map(|job| request(job, None)).collect();
            let mut outcomes = Vec::with_capacity(jobs.len());
            let Sender { deadline, found } = sender;
            let answered = |at: usize, answer: io::Result<WholeAnswer>| {
                let job = &jobs[at];
                outcomes.push(match answer {
                    Ok(answer) => self.judge(job, self.taken(job, answer, found)),
                    Err(error) => Err(Error::unavailable(job.peer(), error).into()),
                });
            };
            let url = &jobs[0].endpoint.url;
            let sending =
                (self.client).send_together(deadline, url, &requests, ANSWER_BYTES_MAX, answered);
            let count = sending.await;
            drop((requests, underway));
            let (mut failed, mut left) = (Vec::new(), 0);
            for (job, outcome) in jobs.drain(..count).zip(outcomes) {
                match outcome {
                    Ok(()) => left += 1,
                    Err(problem) if self.keeps_failed && problem.error.is_unavailable() => {
                        tokio::spawn(Arc::clone(self).send_once_more(job, thread, problem));
                    }
                    Err(problem) => {
                        left += 1;
                        failed.push((job, problem.error));
                    }
                }
            }
            self.change(|flight| {
                (0..left).for_each(|_| flight.load.leave(thread));
                flight.failed.extend(failed);
            });
        }
    }

    /// A request that has not arrived with others.
    async fn send_once_more(self: Arc<Shared>, job: Job, thread: usize, problem: Problem) {
        let sent = self.insist(&job, &mut self.sender(), Some(problem)).await;
        self.leave(job, thread, sent);
    }

    /// An answer that was read with others, handed to the sources that wait for it.
    fn taken(&self, job: &Job, answer: WholeAnswer, found: &mut Found) -> Answered {
        let (status, headers) = (answer.status, answer.headers);
        let body = match status.is_success() {
            true => String::new(),
            false => answer::shown(&answer.body),
        };
        let sources = self.call.as_ref().map(|call| {
            let sources = found.find(&call.calls, &call.sink_id, status.as_u16());
            self.note_sources(status, &sources);
            self.hand_over(job, call, &headers, text(answer.body), &sources);
            sources
        });
        Answered {
            status,
            is_consumed: sources.is_some_and(|sources| !sources.is_empty()),
            retry_after: retry_after(&headers),
            body,
        }
    }
}
