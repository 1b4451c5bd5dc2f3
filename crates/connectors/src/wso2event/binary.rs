//! The requests of the binary protocol.

use super::connection::{Asked, EXPIRED, Server};
use super::receiver::Untaken;
use databridge::binary::{self, Answer, Request};

impl Server {
    /// Writes the answer to a request; false: there is nothing to be said, and the connection ends.
    ///
    /// # Errors
    /// It is no request, in words.
    pub async fn answer_binary(&self, asked: Asked<'_>, out: &mut Vec<u8>) -> Result<bool, String> {
        let answer = match Request::read(asked.bytes)? {
            Request::Login { user, password } => {
                match self.log_in(user, password, asked.peer).await {
                    Ok(session) => Answer::Session(session),
                    Err(cause) => Answer::Unauthenticated(cause.to_owned()),
                }
            }
            Request::Logout { session } => {
                self.databridge.logins.close(session);
                Answer::Done
            }
            Request::Publish { session, .. } if !self.is_open(session) => {
                Answer::Expired(EXPIRED.to_owned())
            }
            Request::Publish { events, .. } => {
                let published = self
                    .databridge
                    .publish_each(events, asked.account, asked.stopped);
                match published.await {
                    Ok(()) => Answer::Done,
                    Err(Untaken::Refused(cause)) => Answer::Undefined(cause),
                    Err(Untaken::Gone) => return Ok(false),
                }
            }
        };
        binary::write_answer(out, &answer);
        Ok(true)
    }
}
